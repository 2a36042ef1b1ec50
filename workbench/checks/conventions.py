"""Second derivatives that are conventions: of what is asked twice of a length of 0.

A length has a kink at 0. Its even powers have none, and are differentiated so; of all
other functions of it, such as ``cos(norm(x))``, the second derivative there is taken as
0, and nothing in the result tells. Here such lengths are found.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from workbench.autodiff import forward, reverse
from workbench.autodiff.roots import find_roots
from workbench.autodiff.steps import plan_steps
from workbench.core import blame, walk
from workbench.core.graph import Graph
from workbench.core.schedule import compute_node
from workbench.core.tensor import ON_HOST, MaskedTensor, Tensor
from workbench.core.trace import record

#: How far from 0 a length is moved, to see what it sends back there.
STEP = 1e-9


def explain_convention(op: str) -> str:
    """Return a text on the second derivative by an op at 0, which is a convention."""
    return (
        f"{op} has a kink at 0, where by convention its second derivative is 0; that of"
        " what is computed from it may be another one. Even powers of it have no kink:"
        " their derivatives are those of a sum of squares."
    )


def tell_convention(node: Tensor) -> str:
    """Return the sentences of a check that finds another second derivative."""
    return (
        f"No rule is wrong: {blame.describe(node)}{blame.quote_site(node.site)} is 0"
        f" here. {explain_convention(node.op.name)} Write {SMOOTH.format('y')} in place"
        " of y where y is that length: it is smooth, and differs by 1e-8 at most."
    )


#: What to write in place of a length, which is then smooth; it changes by 1e-8 at most.
SMOOTH = "np.sqrt({0} ** 2 + 1e-16)"


def find_conventions(
    outputs: Sequence[Tensor], wrt: Sequence[Tensor], rules: Mapping[int, Any] | None
) -> list[Tensor]:
    """Return the lengths of 0 of which a second derivative is a convention.

    That is where their first derivative exists and the second one need not be 0; and
    in a program that holds their derivatives itself.
    """
    made: list[Tensor] = []
    steps = plan_steps(outputs, wrt, rules, found=made)
    found = [node for node in made if _is_length_of_0(node)]
    if not found:
        return []
    roots = find_roots(made, steps, outputs, rules, "pull", True, ())
    if roots is not None:  # those read by even functions alone are right
        even = roots.carriers.keys() - roots.whole
        found = [x for x in found if x.serial not in even]
    moved = [(node, _find_moved(node, wrt)) for node in found]
    return [
        node
        for node, entries in moved
        if np.any(entries)
        and (_is_derived(node, outputs) or _bends(node, entries, outputs))
    ]


def _is_length_of_0(node: Tensor) -> bool:
    """Return whether a node of the user's is a length, and 0 at some entry."""
    root, y = node.op.root, node._value
    return (
        root is not None
        and not root.infinite
        and node.origin is None
        and isinstance(y, ON_HOST)
        and y is not None
        and node.dtype.kind == "f"
        and not np.all(y)
    )


def _find_moved(node: Tensor, wrt: Sequence[Tensor]) -> Any:
    """Return the entries that are 0 here and not all around: not ``norm(x - x)``."""
    rng = np.random.default_rng(0)
    along = [_draw_like(rng, x._value) for x in wrt]
    with np.errstate(all="ignore"):
        moved = forward.push_forward(list(node.inputs), wrt, along)
        given = [
            np.zeros_like(v) if t is None else t
            for t, v in zip(moved, node.args, strict=True)
        ]
        length = compute_node(node, given)
    zero = np.equal(node._value, 0)
    root = node.op.root
    assert root is not None
    if node.op.elementwise and not root.squares:
        return zero  # it is the root of its operand, which moves as its square does
    return zero & np.not_equal(length, 0)


def _draw_like(rng: np.random.Generator, x: Any) -> Any:
    drawn = rng.standard_normal(np.shape(x))
    if np.iscomplexobj(x):
        drawn = drawn + 1j * rng.standard_normal(np.shape(x))
    return np.asarray(drawn, np.result_type(x))


def _is_derived(node: Tensor, outputs: Sequence[Tensor]) -> bool:
    """Return whether a program holds nodes of the op's own rule, as a Hessian does."""
    return any(
        x.origin is not None
        and x.origin.forward is node
        and x.origin.rule == node.op.rule
        and not isinstance(x, MaskedTensor)
        for x in walk.order_nodes(outputs, node.serial)
    )


def _bends(node: Tensor, entries: Any, outputs: Sequence[Tensor]) -> bool:
    """Return whether the cotangent of a length is 0 at 0, and grows with the length.

    Then the second derivative by it is not 0 there, and the first one is.
    """
    graph = Graph([node], list(outputs))
    weights = _draw_outputs(outputs)

    def slope(h: float) -> Any:
        at = np.where(entries, np.asarray(h, node.dtype), node._value)
        with np.errstate(all="ignore"):
            made = record(graph.run, [at])
            (g,) = reverse.pull_back(made.outputs, weights, made.inputs)
        return np.zeros(np.shape(at)) if g is None else np.where(entries, g, 0)

    ratio: Callable[[float], Any] = lambda h: slope(h) / h  # noqa: E731
    wide, near = ratio(STEP), ratio(STEP / 2)
    bent = (np.abs(wide) > 0) & (np.abs(wide - near) <= 0.1 * np.abs(wide))
    return bool(np.any(bent & (slope(0.0) == 0)))


def _draw_outputs(outputs: Sequence[Tensor]) -> list[Any]:
    rng = np.random.default_rng(1)
    return [_draw_like(rng, y._value) for y in outputs]
