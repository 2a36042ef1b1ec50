"""Products with the 1 that a backward walk begins with: nobody wants to read 1 * x."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from workbench.graph import dims, late, types, walk
from workbench.graph.op import declare
from workbench.graph.tensor import IDENTITY, Tensor
from workbench.graph.types import Spec

__all__ = ["without_ones"]

MULTIPLY = declare("multiply")
BROADCAST = declare("broadcast_to")


def without_ones(results: list[Any], seeds: Iterable[Any], before: int) -> list[Any]:
    """The same gradients, without the products with the 1 that the walk began with.

    Only Tensors that were made since ``before`` change, which nobody has seen yet.
    """
    ones = {g.serial for g in seeds if _is_one(g)}
    if not ones:
        return results
    became: dict[int, Tensor] = {}
    roots = [g for g in results if isinstance(g, Tensor)]
    for node in walk.order(roots, before):
        if any(isinstance(x, Tensor) and x.serial in became for x in node.inputs):
            node.inputs = tuple(
                became.get(x.serial, x) if isinstance(x, Tensor) else x
                for x in node.inputs
            )
        if type(node) is not Tensor:
            continue  # a masked product is not the plain one
        op, inputs, _ = late.stripped(node)
        if op is BROADCAST and getattr(inputs[0], "serial", -1) in ones:
            ones.add(node.serial)
        elif op is MULTIPLY:
            for one, other in (inputs, inputs[::-1]):
                if (
                    isinstance(one, Tensor)
                    and one.serial in ones
                    and isinstance(other, Tensor)
                    and _alike(types.spec_of(other), types.spec_of(node))
                ):
                    became[node.serial] = other
                    break
    return [became.get(g.serial, g) if isinstance(g, Tensor) else g for g in results]


def _alike(a: Spec, b: Spec) -> bool:
    """Whether two specs are equal at all lengths."""
    return (a.dtype, a.weak) == (b.dtype, b.weak) and dims.same(a.shape, b.shape)


def _is_one(g: Any) -> bool:
    return (
        isinstance(g, Tensor)
        and g.op is IDENTITY
        and not g.inputs
        and g.name is None
        and g._value is not None
        and g.shape == ()
        and bool(g._value == 1)
    )
