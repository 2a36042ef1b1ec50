"""Derivatives of expressions: the gradient of one Tensor by others, as Tensors.

`grad.py` differentiates functions; here the program exists already. What is asked
for may be any Tensor of it. The options are those of Theano's `grad`; what an op says
of its connections (`Op.connection`) tells a gradient that is zero from one that there
is no way for.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from workbench import errors
from workbench.autodiff.reverse import Origin
from workbench.autodiff.steps import parts_among
from workbench.core import blame, dims, source, tree, types, walk
from workbench.core.op import declare
from workbench.core.schedule import compute_node
from workbench.core.tensor import (
    IDENTITY,
    NO_PARAMS,
    Tensor,
    admit,
    apply,
    make_leaf,
    value_of,
)
from workbench.core.types import Spec
from workbench.ops import define, gradients
from workbench.ops.define import shape_of
from workbench.ops.gradients import DisconnectedType

# What is said and done where no derivative reaches: error, warning, or nothing.


def quote_name(x: Tensor) -> str:
    """Return the words for a Tensor in a message: its name where there is one."""
    return repr(x.name) if x.name else f"{blame.describe(x)}{blame.quote_site(x.site)}"


def report_disconnected(
    x: Tensor, outputs: Sequence[Tensor], policy: str, name: str
) -> None:
    """Act on a Tensor that is asked for and that nothing depends on."""
    of = ", ".join(map(quote_name, outputs)) or "nothing"
    report(
        f"{name}: {of} does not depend on {quote_name(x)}: it is not part of the"
        " program, or its values are cut off on the way (disconnected_grad,"
        " consider_constant, a shape). Take it out of wrt, or write"
        " disconnected_inputs='ignore' for a gradient of zero.",
        policy,
    )


def report_unmoved(y: Tensor, wrt: Sequence[Tensor], policy: str, name: str) -> None:
    """Act on an output that depends on nothing that moves."""
    report(
        f"{name}: {quote_name(y)} depends on none of"
        f" {', '.join(map(quote_name, wrt))}. Leave it out, or write"
        " disconnected_outputs='ignore' for a tangent of zero.",
        policy,
    )


def report(message: str, policy: str) -> None:
    """Raise, warn or stay silent about a disconnected input, as the policy says."""
    if policy == "raise":
        raise errors.DisconnectedInputError(message)
    if policy == "warn":
        warnings.warn(message, stacklevel=source.count_frames())


#: What the options of derivatives of expressions may be.
CHOICES = {
    "disconnected_inputs": ("raise", "warn", "ignore"),
    "disconnected_outputs": ("raise", "warn", "ignore"),
    "return_disconnected": ("zero", "None", "Disconnected"),
    "null_gradients": ("raise", "return"),
    "mode": ("forward", "reverse"),
}


def check_options(name: str, **options: object) -> None:
    """Refuse the values of options that there are not."""
    for option, value in options.items():
        if value not in (choices := CHOICES[option]):
            raise errors.UsageError(
                f"{name}: {option}={value!r}. Write one of"
                f" {', '.join(map(repr, choices))}."
            )


# Derivatives of expressions know what they were asked for as derivatives of.
#
# One may read less than that, as that of a sum does, or nothing at all. Who gives
# values to all symbols of a program gives them to its derivatives too; `symbolic/` asks
# here which symbols these are.


def link_results(
    results: Sequence[Any], sources: Sequence[Tensor], before: int
) -> list[Any]:
    """Return derivatives with a note of their sources in ``origin``; None stays None.

    What was there ``before`` (a serial), such as the other factor of a product, is
    handed on: that factor is no derivative itself.
    """
    linked = []
    for g in results:
        if isinstance(g, Tensor) and sources:
            if g.serial <= before:
                g = apply(IDENTITY, (g,))
            origin = g.origin or Origin(sources[0], "", False)
            g.origin = origin._replace(of=tuple(sources))
        linked.append(g)
    return linked


def forward_nodes(nodes: Sequence[Tensor]) -> list[Tensor]:
    """Return the nodes of the programs that derivatives among these nodes belong to."""
    origins = [x.origin for x in nodes if x.origin is not None]
    return walk.order_nodes([y for one in origins for y in (one.forward, *one.of)])


# What an expression depends on: by its values, or by nothing but a shape.


def find_connected(
    outputs: Iterable[Tensor],
    stops: Collection[int] = (),
    closed: Collection[int] = (),
    rules: Collection[int] | Mapping[int, Any] = (),
    disconnected: Collection[tuple[int, int, int]] = (),
) -> set[int]:
    """Return the serials of all Tensors that the outputs depend on by their values.

    Parameters
    ----------
    outputs
        Where the walk starts.
    stops
        Serials of Tensors that are constant: they are reached, nothing behind them.
    closed
        Serials of Tensors that are not even reached, unless they are outputs.
    rules
        Serials of nodes with rules of their own: their inputs are connected, whatever
        the op says of its connections. Or the rules themselves: with one of a part
        of the program, its inputs are reached past the nodes inside.
    cut
        What rules have called disconnected; see `note_disconnected`.
    """
    parts = parts_among(rules) if isinstance(rules, Mapping) else {}
    roots = list(outputs)
    reached = {x.serial for x in roots}
    behind = {s for s in closed if s not in reached}
    #: Of an op with several outputs, those that are read.
    read: dict[int, set[int]] = {}
    for node in reversed(walk.order_nodes(roots)):
        serial = node.serial
        if serial not in reached or serial in stops:
            continue
        op, inputs = node.op, node.operands
        declared = op.connection
        if op is define.ITEM and isinstance(inputs[0], Tensor):
            read.setdefault(inputs[0].serial, set()).add(node.params["index"])
        if serial in parts:
            part_inputs = parts[serial].inputs
            read_serials = [x.serial for x in part_inputs if isinstance(x, Tensor)]
        elif declared is None or serial in rules:
            read_serials = [
                x.serial
                for i, x in enumerate(inputs)
                if isinstance(x, Tensor) and (id(op), i, x.serial) not in disconnected
            ]
        else:
            rows = declared(inputs, node.settings)
            outs = read.get(serial, {0})
            read_serials = [
                x.serial
                for x, row in zip(inputs, rows, strict=False)
                if isinstance(x, Tensor) and any(row[i] for i in outs)
            ]
        reached.update(s for s in read_serials if s not in behind)
    return reached


# The 1 that a backward walk begins with, of which nobody wants to read a product.
#
# While the walk goes on it is an array like the cost: on a GPU what it meets is there
# too. Then it is taken out of the program where it can be.

MULTIPLY = declare("multiply")
BROADCAST = declare("broadcast_to")
FULL_LIKE = declare("full_like")


class _One:
    def __repr__(self) -> str:
        return "the cotangent 1"


#: Says that a walk begins with a 1 of its own.
ONE = _One()


def unit_seed(cost: Tensor) -> Tensor:
    """Return the cotangent 1 of one number."""
    made: Any = np.ones_like(cost)
    return made if isinstance(made, Tensor) else make_leaf(made)


def fold_unit_seed(
    results: list[Any], seeds: Sequence[Tensor], before: int
) -> list[Any]:
    """Return the same gradients, without products with the 1 that the walk began with.

    Where the 1 itself is left it becomes a constant, where it was repeated an array of
    ones like that of the primal. Only Tensors that were made since ``before`` change,
    which nobody has seen yet.
    """
    ones = {g.serial for g in seeds}
    for g in seeds:
        if g._value is None and shape_of(g) == ():
            # Serials stay as they are: they are the order of the program.
            g.op, g.inputs, g.args, g.params = IDENTITY, (), (), NO_PARAMS
            g._value = g.spec.dtype.type(1)
    became: dict[int, Tensor] = {}
    #: What has another value now, or stands for another Tensor.
    changed = set(ones)
    roots = [g for g in results if isinstance(g, Tensor)]
    for node in walk.order_nodes(roots, before) if ones else ():
        if any(isinstance(x, Tensor) and x.serial in changed for x in node.inputs):
            node.inputs = tuple(
                became.get(x.serial, x) if isinstance(x, Tensor) else x
                for x in node.inputs
            )
            node.args = tuple(map(value_of, node.inputs))
        if type(node) is not Tensor or node._value is not None:
            continue  # a masked product is not the plain one
        op, inputs = node.op, node.operands
        if op is BROADCAST and getattr(inputs[0], "serial", -1) in ones:
            ones.add(node.serial)
        if op is BROADCAST and _fill_like(node, value_of(inputs[0])):
            changed.add(node.serial)
        elif op is MULTIPLY and (kept := _other_factor(node, inputs, ones)) is not None:
            became[node.serial] = kept
            changed.add(node.serial)
        elif inputs is node.inputs and _fold_constant(node):
            changed.add(node.serial)
    return [became.get(g.serial, g) if isinstance(g, Tensor) else g for g in results]


def _fill_like(node: Tensor, fill: Any) -> bool:
    """Make a repeated number an array like the Tensor that the gradient belongs to."""
    if fill is None or np.shape(fill) != () or node.origin is None:
        return False
    for x in node.origin.forward.inputs:
        if isinstance(x, Tensor) and dims.is_same_shape(x.shape, node.shape):
            x = _find_early(x)
            node.op, node.inputs, node.args = FULL_LIKE, (x,), (x._value,)
            node.params = {"fill": fill.item()}
            if x.dtype != node.dtype:
                node.params["dtype"] = node.dtype
            if x._value is not None:
                node._value = FULL_LIKE.compute(x._value, **node.params)
            return True
    return False


def _find_early(x: Tensor) -> Tensor:
    """Return a Tensor of the same shape that is made earlier and needs no computing."""
    while True:
        for y in x.inputs:
            if isinstance(y, Tensor) and define.output_values(y) is None:
                if dims.is_same_shape(y.shape, x.shape):
                    x = y
                    break
        else:
            return x


def _other_factor(
    node: Tensor, inputs: tuple[Any, ...], ones: set[int]
) -> Tensor | None:
    """Return the other factor of a product with 1, if alike in shape and dtype."""
    for factor, other in (inputs, inputs[::-1]):
        if (
            isinstance(factor, Tensor)
            and factor.serial in ones
            and isinstance(other, Tensor)
            and _are_alike(types.spec_of(other), types.spec_of(node))
        ):
            return other
    return None


def _fold_constant(node: Tensor) -> bool:
    """Compute a node that depends on constants alone."""
    values = tuple(map(value_of, node.inputs))
    if any(x is None for x in values):
        return False
    node.args = values
    node._value = compute_node(node, values)
    return True


def _are_alike(a: Spec, b: Spec) -> bool:
    """Return whether two specs are equal at all lengths."""
    return (a.dtype, a.weak) == (b.dtype, b.weak) and dims.is_same_shape(
        a.shape, b.shape
    )


# What is asked for


class Nested(NamedTuple):
    """Tensors out of a nest, and the way of results back into the same nest."""

    tensors: list[Tensor]
    tree: tree.Tree
    #: Whether it is one Tensor, in no nest.
    is_single: bool


def flatten_tensors(nest: object, name: str, what: str = "wrt") -> Nested:
    """Return the Tensors of a Tensor, a list, a tuple, a mapping, or a nest of them."""
    flat, structure = tree.flatten(_as_dicts(nest))
    for x in flat:
        check_expression(x, name, what)
    return Nested(flat, structure, isinstance(nest, Tensor))


def flatten_entries(nest: object) -> list[Any]:
    """Return the leaves of a nest as `flatten_tensors` orders them; None is one too."""
    return tree.flatten(_as_dicts(nest))[0]


def _as_dicts(nest: Any) -> Any:
    """Return a nest with each mapping of another class as a dict, in the same order."""
    if isinstance(nest, Mapping):
        return {key: _as_dicts(value) for key, value in nest.items()}
    if type(nest) in (list, tuple):
        return type(nest)(_as_dicts(value) for value in nest)
    # To `tree` None is a nest without leaves.
    return DisconnectedType() if nest is None else nest


def check_expression(x: object, name: str, what: str) -> Tensor:
    """Return an expression, or raise an error that shows the value in its place."""
    if not isinstance(x, Tensor):
        shown = "None" if isinstance(x, DisconnectedType) else repr(x)
        raise errors.UsageError(
            f"{name}: {what} holds {shown}, which is not an expression. Give Tensors:"
            " symbols (wb.scalar, wb.vector, ...), or what was computed from them."
        )
    if define.output_values(x) is not None:
        raise errors.UsageError(
            f"{name}: {blame.describe(x)}{blame.quote_site(x.site)} has several"
            " outputs. Give one of them."
        )
    return x


def list_constants(
    constants: Iterable[Tensor] | Tensor | None, name: str
) -> list[Tensor]:
    """Return a list of the expressions to hold constant, given as one or several."""
    if isinstance(constants, Tensor):
        constants = [constants]
    return [check_expression(x, name, "consider_constant") for x in constants or ()]


# What starts the walk


def check_scalar(cost: object, name: str) -> Tensor:
    """Return the cost, if one number; its shape may be ``(1,)`` or longer."""
    y = check_expression(cost, name, "the cost")
    if not types.is_one_number(shape_of(y)):
        raise errors.NonScalarOutputError(
            f"{name} needs one number; the cost is {blame.describe(y)}"
            f"{blame.quote_site(y.site)}. Reduce it (np.sum, np.mean), give"
            " known_grads, or ask for the jacobian."
        )
    return y


def check_whole_part(cost: Tensor, wrt: Sequence[Tensor], name: str) -> None:
    """Refuse a complex cost of real variables: half of its derivative."""
    real = [x for x in wrt if x.dtype.kind == "f"]
    if cost.dtype.kind == "c" and real:
        raise errors.DtypeError(
            f"{name}: the cost is {blame.describe(cost)}{blame.quote_site(cost.site)},"
            f" and the gradient by {quote_name(real[0])} would be that of the real part"
            " alone. Take the part that is meant, np.real(y), np.imag(y) or np.abs(y),"
            " or ask for the jacobian, which is complex."
        )


def seed_of(cost: Tensor) -> Any:
    """Return the cotangent 1 of one number; None for one of integers, which is flat."""
    return ONE if types.is_differentiable(cost.dtype) else None


def check_start(g: Any, x: Tensor, name: str, what: str = "the gradient") -> Any:
    """Return a gradient that is given for a Tensor, in its dtype; None is disconnected.

    Raises
    ------
    ShapeError, DtypeError
        If it does not fit the Tensor.
    """
    if g is None or isinstance(g, DisconnectedType):
        return DisconnectedType(x)
    if type(g) is gradients.NullType:
        g = gradients.make_null("undefined", name, 0, x, g.why_null)
    g = as_expression(g)
    if g.dtype.kind not in "biufc" or (g.dtype.kind == "c" and x.dtype.kind != "c"):
        raise errors.DtypeError(
            f"{name}: {what} given for {quote_name(x)} is of dtype {g.dtype}, and what"
            f" it belongs to of {x.dtype}. Give real numbers for a real array."
        )
    if not may_fit(g.shape, x.shape):
        raise errors.ShapeError(
            f"{name}: {what} given for {quote_name(x)} has shape {g.shape}, and what it"
            f" belongs to has {x.shape}. Give it that shape."
        )
    if not dims.is_same_shape(g.shape, x.shape):
        # The lengths are unknown, and those of x when the program runs.
        g = np.copy(g)
        g.spec = types.Spec(x.shape, g.dtype)
    if not types.is_differentiable(x.dtype) or g.dtype == x.dtype:
        return g
    return g.astype(x.dtype)


def may_fit(have: Sequence[Any], want: Sequence[Any]) -> bool:
    """Return whether two shapes may be the same; lengths that are unknown may."""
    return len(have) == len(want) and all(
        not (isinstance(m, int) and isinstance(n, int)) or m == n
        for m, n in zip(have, want, strict=True)
    )


# What comes out


def as_expression(g: Any) -> Any:
    """Return a gradient as an expression: a plain array becomes a constant."""
    if g is None or isinstance(g, Tensor):
        return g
    made = admit(types.spec_of(g).dtype.type(g) if types.is_weak(g) else g)
    return made if isinstance(made, Tensor) else make_leaf(made)


def make_zeros(x: Tensor) -> Tensor:
    """Return a gradient of zeros, of float dtype whatever ``x`` is."""
    dtype = x.dtype if types.is_differentiable(x.dtype) else np.dtype(np.float64)
    made: Tensor = as_expression(np.zeros_like(x, dtype=dtype))
    return made


def fill_zeros(made: Sequence[Any], wrt: Sequence[Tensor]) -> list[Any]:
    """Return gradients by some Tensors, zeros in the place of None."""
    return [make_zeros(x) if g is None else g for x, g in zip(wrt, made, strict=True)]


def fill_absent(made: Sequence[Any], wrt: Sequence[Tensor], how: str) -> list[Any]:
    """Return derivatives with None replaced as ``return_disconnected`` asks."""
    if how == "Disconnected":
        pairs = zip(wrt, made, strict=True)
        return [DisconnectedType(x) if g is None else g for x, g in pairs]
    return fill_zeros(made, wrt) if how == "zero" else [*made]


def label_gradient(g: Tensor, cost: Tensor, x: Tensor) -> None:
    """Name a gradient ``(dcost/dx)``."""
    if g.name is None and cost.name and x.name:
        g.name = f"(d{cost.name}/d{x.name})"
