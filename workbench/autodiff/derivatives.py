"""Derivatives of expressions: the gradient of one Tensor by others, as Tensors.

`calculus.py` differentiates functions; here the program exists already. What is asked
for may be any Tensor of it. The options are those of Theano's `grad`; what an op says
of its connections (`Op.connection`) tells a gradient that is zero from one that there
is no way for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from workbench.autodiff import fold_unit_seed, forward, reverse
from workbench.autodiff.connections import DisconnectedType, connected, noted
from workbench.autodiff.disconnected import disconnected, named, one_of, still
from workbench.autodiff.provenance import belonging, programs
from workbench.autodiff.supernode import settled
from workbench.core import blame, dims, hooks, source, tree, types, walk
from workbench.core.hooks import Override
from workbench.core.tensor import Tensor, admit, leaf, next_serial
from workbench.errors import (
    DtypeError,
    NonScalarOutputError,
    ShapeError,
    UsageError,
)
from workbench.ops import nulls, several
from workbench.ops.define import shape_of

__all__ = [
    "Nested",
    "absent",
    "expression_of",
    "gradient",
    "listed",
    "pull",
    "push",
    "seed_of",
    "started",
    "tensors",
]

# What is asked for


class Nested(NamedTuple):
    """Tensors out of a nest, and how results go back into one like it."""

    tensors: list[Tensor]
    tree: tree.Tree
    #: Whether it is one Tensor, in no nest.
    bare: bool


def tensors(nest: Any, name: str, what: str = "wrt") -> Nested:
    """The Tensors of a Tensor, a list, a tuple, a mapping, or a nest of these."""
    flat, structure = tree.flatten(_plain_dicts(nest))
    for x in flat:
        expression_of(x, name, what)
    return Nested(flat, structure, isinstance(nest, Tensor))


def entries(nest: Any) -> list[Any]:
    """The leaves of a nest in the order of `tensors`; None is a leaf too."""
    return tree.flatten(_plain_dicts(nest))[0]


def _plain_dicts(nest: Any) -> Any:
    """Mappings of other classes as dicts, which `tree` knows; order is kept."""
    if isinstance(nest, Mapping):
        return {key: _plain_dicts(value) for key, value in nest.items()}
    if type(nest) in (list, tuple):
        return type(nest)(_plain_dicts(value) for value in nest)
    # To `tree` None is a nest without leaves.
    return DisconnectedType() if nest is None else nest


def expression_of(x: Any, name: str, what: str) -> Tensor:
    """An expression, or the error that says what stands in its place."""
    if not isinstance(x, Tensor):
        shown = "None" if isinstance(x, DisconnectedType) else repr(x)
        raise UsageError(
            f"{name}: {what} holds {shown}, which is no expression. Give Tensors:"
            " symbols (wb.scalar, wb.vector, ...), or what was computed from them."
        )
    if several.parts(x) is not None:
        raise UsageError(
            f"{name}: {blame.describe(x)}{blame.at(x.site)} has several outputs. Give"
            " one of them."
        )
    return x


def gradient(
    cost: Tensor | None,
    wrt: Any,
    *,
    consider_constant: Iterable[Tensor] | None = None,
    disconnected_inputs: str = "raise",
    add_names: bool = True,
    known_grads: Mapping[Tensor, Any] | None = None,
    return_disconnected: str = "zero",
    null_gradients: str = "raise",
    overrides: Sequence[Override] | None = None,
    name: str = "grad",
) -> Any:
    """What `workbench.gradient.grad` returns; ``name`` is what errors call it."""
    one_of(
        name, "disconnected_inputs", disconnected_inputs, ("raise", "warn", "ignore")
    )
    one_of(
        name, "return_disconnected", return_disconnected,
        ("zero", "None", "Disconnected"),
    )  # fmt: skip
    one_of(name, "null_gradients", null_gradients, ("raise", "return"))
    nest = tensors(wrt, name)
    if cost is None and not known_grads:
        raise UsageError(
            f"{name}: there is neither a cost nor known_grads. Give the expression to"
            " differentiate, or known_grads={h: its gradient}."
        )
    starts: dict[Tensor, Any] = {}
    if cost is not None:
        cost = scalar(cost, name)
        whole_part(cost, nest.tensors, name)
        starts[cost] = seed_of(cost)
    for x, g in (known_grads or {}).items():
        x = expression_of(x, name, "known_grads")
        starts[x] = started(g, x, name)
    before = next_serial()
    made = pull(
        starts, nest.tensors, consider_constant=consider_constant,
        known=list(known_grads or ()), overrides=overrides, name=name,
        disconnected_inputs=disconnected_inputs,
    )  # fmt: skip
    filled = [
        absent(x, return_disconnected) if g is None else g
        for x, g in zip(nest.tensors, made, strict=True)
    ]
    made = belonging(filled, [*starts], before)
    results = []
    for x, g, null in zip(nest.tensors, made, nulls.among(made), strict=True):
        if null is not None:
            if null_gradients == "raise":
                raise nulls.refusal(null, f"{name}: the gradient by {named(x)}")
            g = nulls.like(x, null)
        elif isinstance(g, Tensor) and add_names and cost is not None:
            label(g, cost, x)
        results.append(g)
    return nest.tree(results)


# One walk


def pull(
    starts: Mapping[Tensor, Any],
    wrt: Sequence[Tensor],
    *,
    consider_constant: Iterable[Tensor] | None = None,
    known: Sequence[Tensor] = (),
    overrides: Sequence[Override] | None = None,
    name: str = "grad",
    disconnected_inputs: str = "raise",
) -> list[Any]:
    """The gradients by ``wrt`` for the cotangents that start the walk.

    Zeros for what is connected and has no gradient; None for what is disconnected,
    about which this warns, or raises an error, as ``disconnected_inputs`` says.
    What arrives at ``known`` Tensors by other ways than ``starts`` does not count.
    """
    stops = constants(consider_constant, name)
    closed = {x.serial for x in known}
    outputs = [x for x, g in starts.items() if not isinstance(g, DisconnectedType)]
    asked = hooks.overrides(overrides)
    rules: dict[int, Any] = {}
    if asked is not None:
        rules.update(asked.resolve(outputs, wrt, name).pulls())
    rules = {**(settled(rules, wrt, stops | closed) or {})}
    own_rules = {**rules}
    rules.update(dict.fromkeys(stops, nothing))
    before = next_serial()
    with source.pinned():
        seeds = [
            fold_unit_seed.one(x) if starts[x] is fold_unit_seed.ONE else starts[x]
            for x in outputs
        ]
        with noted() as cut:
            made = reverse.pull_back(
                outputs, seeds, wrt, record=True, rules=rules, closed=closed,
                nulls_pass=True,
            )  # fmt: skip
        reached = connected(outputs, stops, closed, own_rules, cut)
        own = [
            g
            for x, g in zip(outputs, seeds, strict=True)
            if starts[x] is fold_unit_seed.ONE
        ]
        made = fold_unit_seed.without([admitted(g) for g in made], own, before)
        results: list[Any] = []
        for x, g in zip(wrt, made, strict=True):
            # By what ops declare; a rule may give zeros for what is not connected.
            if x.serial not in reached:
                disconnected(x, outputs, disconnected_inputs, name)
                results.append(None)
            else:
                results.append(zeros(x) if g is None else g)
    return results


def push(
    outputs: Sequence[Tensor],
    wrt: Sequence[Tensor],
    tangents: Sequence[Any],
    *,
    consider_constant: Iterable[Tensor] | None = None,
    overrides: Sequence[Override] | None = None,
    name: str = "Rop",
    disconnected_outputs: str = "raise",
) -> list[Any]:
    """The tangents of expressions along those of ``wrt`` (None for zero).

    Integers do not move, whatever tangent is given: no gradient comes back to them.
    What is given twice moves along the sum.
    Zeros where an output is connected and does not move; None where no ``wrt``
    reaches it, about which this warns, or raises an error.
    """
    stops = constants(consider_constant, name)
    asked = hooks.overrides(overrides)
    rules: dict[int, Any] = {}
    if asked is not None:
        rules.update(asked.resolve(outputs, wrt, name).pushes())
    rules = {**(settled(rules, wrt, stops) or {})}
    at_rules = {**rules}
    rules.update(dict.fromkeys(stops, held))
    sources = {x.serial for x in wrt}
    moving: dict[Tensor, Any] = {}
    for x, t in zip(wrt, tangents, strict=True):
        if t is not None and types.differentiable(x.dtype):
            moving[x] = moving[x] + t if x in moving else t
    with source.pinned():
        made = forward.push_forward(
            outputs, list(moving), list(moving.values()), rules=rules, record=True,
            nulls_pass=True,
        )  # fmt: skip
        results: list[Any] = []
        for y, t in zip(outputs, made, strict=True):
            t = admitted(t)
            if t is None and sources & connected([y], stops, rules=at_rules):
                t = zeros(y)
            elif t is None and sources & {x.serial for x in programs(walk.order([y]))}:
                # The derivative of what depends on it may be the same everywhere.
                t = zeros(y)
            elif t is None:
                still(y, wrt, disconnected_outputs, name)
            results.append(t)
    return results


def constants(given: Iterable[Tensor] | None, name: str) -> set[int]:
    """The serials of what is held constant."""
    return {x.serial for x in listed(given, name)}


def listed(given: Iterable[Tensor] | Tensor | None, name: str) -> list[Tensor]:
    """What is held constant: a list of expressions, or one of them."""
    if isinstance(given, Tensor):
        given = [given]
    return [expression_of(x, name, "consider_constant") for x in given or ()]


def nothing(*arguments: Any) -> tuple[Any, ...]:
    """The reverse rule of what is held constant: it passes nothing on."""
    return ()


def held(*arguments: Any) -> None:
    """The forward rule of what is held constant: it does not move."""


# What starts the walk


def scalar(cost: Any, name: str) -> Tensor:
    """The cost, if it is one number."""
    y = expression_of(cost, name, "the cost")
    if shape_of(y) != ():
        raise NonScalarOutputError(
            f"{name} needs one number; the cost is {blame.describe(y)}"
            f"{blame.at(y.site)}. Reduce it (np.sum, np.mean), give known_grads, or"
            " ask for the jacobian."
        )
    return y


def whole_part(cost: Tensor, wrt: Sequence[Tensor], name: str) -> None:
    """Refuse a complex cost of real variables: half of its derivative."""
    real = [x for x in wrt if x.dtype.kind == "f"]
    if cost.dtype.kind == "c" and real:
        raise DtypeError(
            f"{name}: the cost is {blame.describe(cost)}{blame.at(cost.site)}, and the"
            f" gradient by {named(real[0])} would be that of the real part alone. Take"
            " the part that is meant, np.real(y), np.imag(y) or np.abs(y), or ask for"
            " the jacobian, which is complex."
        )


def seed_of(cost: Tensor) -> Any:
    """The cotangent 1 of one number; None for one of integer dtype, which is flat."""
    return fold_unit_seed.ONE if types.differentiable(cost.dtype) else None


def started(g: Any, x: Tensor, name: str, what: str = "the gradient") -> Any:
    """A gradient that is given for a Tensor, in its dtype; None is disconnected.

    Raises
    ------
    ShapeError, DtypeError
        If it does not fit the Tensor.
    """
    if g is None or isinstance(g, DisconnectedType):
        return DisconnectedType(x)
    g = admitted(nulls.told(g, name, 0, x))
    if g.dtype.kind not in "biufc" or (g.dtype.kind == "c" and x.dtype.kind != "c"):
        raise DtypeError(
            f"{name}: {what} given for {named(x)} is of dtype {g.dtype}, and what it"
            f" belongs to of {x.dtype}. Give real numbers for a real array."
        )
    if not fits(g.shape, x.shape):
        raise ShapeError(
            f"{name}: {what} given for {named(x)} has shape {g.shape}, and what it"
            f" belongs to has {x.shape}. Give it that shape."
        )
    if not dims.same(g.shape, x.shape):
        # The lengths are unknown, and those of x when the program runs.
        g = np.copy(g)
        g.spec = types.Spec(x.shape, g.dtype)
    if not types.differentiable(x.dtype) or g.dtype == x.dtype:
        return g
    return g.astype(x.dtype)


def fits(have: Sequence[Any], want: Sequence[Any]) -> bool:
    """Whether two shapes may be the same; lengths that are unknown may."""
    return len(have) == len(want) and all(
        not (isinstance(m, int) and isinstance(n, int)) or m == n
        for m, n in zip(have, want, strict=True)
    )


# What comes out


def admitted(g: Any) -> Any:
    """A gradient as an expression: a plain array becomes a constant."""
    if g is None or isinstance(g, Tensor):
        return g
    made = admit(types.spec_of(g).dtype.type(g) if types.weak(g) else g)
    return made if isinstance(made, Tensor) else leaf(made)


def zeros(x: Tensor) -> Tensor:
    """A gradient of zeros, of float dtype whatever ``x`` is."""
    dtype = x.dtype if types.differentiable(x.dtype) else np.dtype(np.float64)
    made: Tensor = admitted(np.zeros_like(x, dtype=dtype))
    return made


def absent(x: Tensor, how: str) -> Any:
    """What stands for the gradient of a disconnected Tensor."""
    if how == "None":
        return None
    return zeros(x) if how == "zero" else DisconnectedType(x)


def label(g: Tensor, cost: Tensor, x: Tensor) -> None:
    """Name a gradient ``(dcost/dx)``."""
    if g.name is None and cost.name and x.name:
        g.name = f"(d{cost.name}/d{x.name})"
