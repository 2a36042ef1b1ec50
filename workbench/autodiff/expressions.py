"""What is asked of expressions, nested as it is asked: products, Jacobians, Hessians.

`derivatives.py` and `jacobians.py` work on flat lists; here several outputs and
variables stand in lists, tuples, mappings, and results go back into them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from workbench.autodiff import derivatives, disconnected
from workbench.autodiff.connections import DisconnectedType, connected
from workbench.autodiff.dispatch import is_expression
from workbench.autodiff.jacobians import hessian_blocks, jacobian_blocks
from workbench.autodiff.provenance import belonging
from workbench.core.hooks import Override
from workbench.core.tensor import Tensor, next_serial
from workbench.errors import UsageError
from workbench.ops import nulls

__all__ = ["hessian", "hessian_product", "jacobian", "pulled", "pushed"]

Overrides = Sequence[Override] | None
Constants = Iterable[Tensor] | None


def pulled(
    f: Any,
    wrt: Any,
    cotangents: Any,
    *,
    consider_constant: Constants = None,
    disconnected_inputs: str = "raise",
    return_disconnected: str = "zero",
    overrides: Overrides = None,
    name: str = "Lop",
) -> Any:
    """The gradients by ``wrt`` for one cotangent per output; nested as ``wrt``."""
    options(name, disconnected_inputs=disconnected_inputs)
    options(name, return_disconnected=return_disconnected)
    outputs, sources = derivatives.tensors(f, name, "f"), derivatives.tensors(wrt, name)
    given = beside(outputs, cotangents, "eval_points", "f", name)
    starts: dict[Tensor, Any] = {}
    for y, g in zip(outputs.tensors, given, strict=True):
        g = derivatives.started(g, y, name, "the cotangent")
        old = starts.get(y)
        if old is not None and not isinstance(old, DisconnectedType):
            g = old if isinstance(g, DisconnectedType) else old + g
        starts[y] = g
    before = next_serial()
    made = derivatives.pull(
        starts, sources.tensors, consider_constant=consider_constant,
        overrides=overrides, name=name, disconnected_inputs=disconnected_inputs,
    )  # fmt: skip
    found = [
        derivatives.absent(x, return_disconnected) if g is None else g
        for x, g in zip(sources.tensors, made, strict=True)
    ]
    found = belonging(found, outputs.tensors, before)
    return sources.tree(whole(found, name))


def pushed(
    f: Any,
    wrt: Any,
    tangents: Any,
    *,
    consider_constant: Constants = None,
    disconnected_outputs: str = "raise",
    return_disconnected: str = "zero",
    overrides: Overrides = None,
    name: str = "Rop",
) -> Any:
    """The tangents of the outputs along one tangent per ``wrt``; nested as ``f``."""
    options(name, disconnected_outputs=disconnected_outputs)
    options(name, return_disconnected=return_disconnected)
    outputs, sources = derivatives.tensors(f, name, "f"), derivatives.tensors(wrt, name)
    given = beside(sources, tangents, "eval_points", "wrt", name)
    along = [
        derivatives.started(t, x, name, "the tangent")
        for t, x in zip(given, sources.tensors, strict=True)
    ]
    pairs = moving(sources.tensors, along)
    before = next_serial()
    made = derivatives.push(
        outputs.tensors, [x for x, _ in pairs], [t for _, t in pairs],
        consider_constant=consider_constant, overrides=overrides, name=name,
        disconnected_outputs=disconnected_outputs,
    )  # fmt: skip
    found = [
        derivatives.absent(y, return_disconnected) if t is None else t
        for y, t in zip(outputs.tensors, made, strict=True)
    ]
    found = belonging(found, outputs.tensors, before)
    return outputs.tree(whole(found, name))


def jacobian(
    expression: Any,
    wrt: Any,
    *,
    consider_constant: Constants = None,
    disconnected_inputs: str = "raise",
    overrides: Overrides = None,
    mode: str = "auto",
    name: str = "jacobian",
) -> Any:
    """All blocks, nested as the expressions, and in each as ``wrt``."""
    options(name, disconnected_inputs=disconnected_inputs)
    outputs = derivatives.tensors(expression, name, "expression")
    sources = derivatives.tensors(wrt, name)
    constant = derivatives.listed(consider_constant, name)
    reach(outputs.tensors, sources.tensors, constant, disconnected_inputs, name)
    before = next_serial()
    rows = jacobian_blocks(
        outputs.tensors, sources.tensors, consider_constant=constant,
        overrides=overrides, mode=mode, name=name,
    )  # fmt: skip
    rows = [belonging(row, outputs.tensors, before) for row in rows]
    return outputs.tree([sources.tree(whole(row, name)) for row in rows])


def hessian(
    cost: Any,
    wrt: Any,
    *,
    consider_constant: Constants = None,
    disconnected_inputs: str = "raise",
    cross: bool = True,
    overrides: Overrides = None,
    name: str = "hessian",
) -> Any:
    """All blocks, nested as ``wrt`` twice; without ``cross`` those of the diagonal."""
    options(name, disconnected_inputs=disconnected_inputs)
    cost = derivatives.scalar(cost, name)
    sources = derivatives.tensors(wrt, name)
    constant = derivatives.listed(consider_constant, name)
    reach([cost], sources.tensors, constant, disconnected_inputs, name)
    before = next_serial()
    asked = [sources.tensors] if cross else [[x] for x in sources.tensors]
    found = [
        hessian_blocks(
            cost, some, consider_constant=constant, overrides=overrides, name=name
        )
        for some in asked
    ]
    if not cross:
        blocks = belonging([rows[0][0] for rows in found], [cost], before)
        return sources.tree(whole(blocks, name))
    rows = [belonging(row, [cost], before) for row in found[0]]
    return sources.tree([sources.tree(whole(row, name)) for row in rows])


def hessian_product(
    cost: Any,
    wrt: Any,
    p: Any,
    *,
    consider_constant: Constants = None,
    disconnected_inputs: str = "raise",
    overrides: Overrides = None,
    name: str = "hessian_vector_product",
) -> Any:
    """The Hessian times a vector, by pushing it through the gradient."""
    options(name, disconnected_inputs=disconnected_inputs)
    cost = derivatives.scalar(cost, name)
    sources = derivatives.tensors(wrt, name)
    given = beside(sources, p, "p", "wrt", name)
    along = [
        derivatives.started(t, x, name, "the vector")
        for t, x in zip(given, sources.tensors, strict=True)
    ]
    before = next_serial()
    made = derivatives.pull(
        {cost: derivatives.seed_of(cost)}, sources.tensors,
        consider_constant=consider_constant, overrides=overrides, name=name,
        disconnected_inputs=disconnected_inputs,
    )  # fmt: skip
    gradients = [
        derivatives.zeros(x) if g is None else g
        for x, g in zip(sources.tensors, made, strict=True)
    ]
    pairs = moving(sources.tensors, along)
    found = derivatives.push(
        gradients, [x for x, _ in pairs], [t for _, t in pairs],
        consider_constant=consider_constant, name=name, disconnected_outputs="ignore",
    )  # fmt: skip
    products = [
        derivatives.zeros(x) if t is None else t
        for x, t in zip(sources.tensors, found, strict=True)
    ]
    products = belonging(products, [cost], before)
    return sources.tree(whole(products, name))


# Checks


def options(name: str, **given: str) -> None:
    """Refuse the values of options that there are not."""
    for option, value in given.items():
        known = ("zero", "None", "Disconnected")
        if option != "return_disconnected":
            known = ("raise", "warn", "ignore")
        disconnected.one_of(name, option, value, known)


def beside(
    nest: derivatives.Nested, given: Any, what: str, beside: str, name: str
) -> list[Any]:
    """One value for each Tensor of a nest.

    Raises
    ------
    UsageError
        If there are more or fewer, or they nest in another way.
    """
    if nest.bare and not (
        isinstance(given, (list, tuple)) and len(given) == 1 and is_expression(given)
    ):
        return [given]
    values = derivatives.entries(given)
    if len(values) != len(nest.tensors):
        raise UsageError(
            f"{name}: {what} holds {len(values)} values, and {beside}"
            f" {len(nest.tensors)} expressions. Give one for each, None for zero."
        )
    return values


def moving(wrt: Sequence[Tensor], along: Sequence[Any]) -> list[tuple[Tensor, Any]]:
    """The variables that have a tangent, with it."""
    return [
        (x, t)
        for x, t in zip(wrt, along, strict=True)
        if not isinstance(t, DisconnectedType)
    ]


def reach(
    outputs: Sequence[Tensor],
    wrt: Sequence[Tensor],
    constant: Sequence[Tensor],
    policy: str,
    name: str,
) -> None:
    """Act on variables that no output depends on, as ``disconnected_inputs`` says."""
    reached = connected(outputs, {x.serial for x in constant})
    for x in wrt:
        if x.serial not in reached:
            disconnected.disconnected(x, outputs, policy, name)


def whole(found: list[Any], name: str) -> list[Any]:
    """The results, or the error of one that holds what cannot be computed."""
    for null in nulls.among(found):
        if null is not None:
            raise nulls.refusal(null, f"{name}: what is asked for")
    return found
