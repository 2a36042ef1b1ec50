"""The 1 that a backward walk begins with, of which nobody wants to read a product.

While the walk goes on it is an array like the cost: on a GPU what it meets is there
too. Then it is taken out of the program where it can be.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench.core import deferred, dims, types, walk
from workbench.core.op import declare
from workbench.core.tensor import IDENTITY, NO_PARAMS, Tensor, leaf, value_of
from workbench.core.types import Spec
from workbench.ops import several

__all__ = ["ONE", "one", "without"]

MULTIPLY = declare("multiply")
BROADCAST = declare("broadcast_to")
FULL_LIKE = declare("full_like")


class _One:
    def __repr__(self) -> str:
        return "the cotangent 1"


#: Says that a walk begins with a 1 of its own.
ONE = _One()


def one(cost: Tensor) -> Tensor:
    """The cotangent 1 of one number."""
    made: Any = np.ones_like(cost)
    return made if isinstance(made, Tensor) else leaf(made)


def without(results: list[Any], seeds: Sequence[Tensor], before: int) -> list[Any]:
    """The same gradients, without the products with the 1 that the walk began with.

    Where the 1 itself is left it becomes a constant, where it was repeated an array of
    ones like that of the primal. Only Tensors that were made since ``before`` change,
    which nobody has seen yet.
    """
    ones = {g.serial for g in seeds}
    for g in seeds:
        if g._value is None:
            # Serials stay as they are: they are the order of the program.
            g.op, g.inputs, g.args, g.params = IDENTITY, (), (), NO_PARAMS
            g._value = g.spec.dtype.type(1)
    became: dict[int, Tensor] = {}
    #: What has another value now, or stands for another Tensor.
    changed = set(ones)
    roots = [g for g in results if isinstance(g, Tensor)]
    for node in walk.order(roots, before) if ones else ():
        if any(isinstance(x, Tensor) and x.serial in changed for x in node.inputs):
            node.inputs = tuple(
                became.get(x.serial, x) if isinstance(x, Tensor) else x
                for x in node.inputs
            )
            node.args = tuple(map(value_of, node.inputs))
        if type(node) is not Tensor or node._value is not None:
            continue  # a masked product is not the plain one
        op, inputs, _ = deferred.stripped(node)
        if op is BROADCAST and getattr(inputs[0], "serial", -1) in ones:
            ones.add(node.serial)
        if op is BROADCAST and _repeated(node, value_of(inputs[0])):
            changed.add(node.serial)
        elif op is MULTIPLY and (kept := _other(node, inputs, ones)) is not None:
            became[node.serial] = kept
            changed.add(node.serial)
        elif op is node.op and _folded(node):
            changed.add(node.serial)
    return [became.get(g.serial, g) if isinstance(g, Tensor) else g for g in results]


def _repeated(node: Tensor, fill: Any) -> bool:
    """Make a repeated number an array like that whose gradient it is part of."""
    if fill is None or np.shape(fill) != () or node.origin is None:
        return False
    for x in node.origin.forward.inputs:
        if isinstance(x, Tensor) and dims.same(x.shape, node.shape):
            x = _early(x)
            node.op, node.inputs, node.args = FULL_LIKE, (x,), (x._value,)
            node.params = {"fill": fill.item()}
            if x.dtype != node.dtype:
                node.params["dtype"] = node.dtype
            if x._value is not None:
                node._value = FULL_LIKE.compute(x._value, **node.params)
            return True
    return False


def _early(x: Tensor) -> Tensor:
    """A Tensor of the same shape that is there earlier, and needs no computing."""
    while True:
        for y in x.inputs:
            if isinstance(y, Tensor) and several.parts(y) is None:
                if dims.same(y.shape, x.shape):
                    x = y
                    break
        else:
            return x


def _other(node: Tensor, inputs: tuple[Any, ...], ones: set[int]) -> Tensor | None:
    """The other factor of a product with 1, if it is all of the product."""
    for factor, other in (inputs, inputs[::-1]):
        if (
            isinstance(factor, Tensor)
            and factor.serial in ones
            and isinstance(other, Tensor)
            and _alike(types.spec_of(other), types.spec_of(node))
        ):
            return other
    return None


def _folded(node: Tensor) -> bool:
    """Compute what depends on constants alone."""
    values = tuple(map(value_of, node.inputs))
    if any(x is None for x in values):
        return False
    node.args = values
    node._value = node.op.compute(*values, **node.params)
    return True


def _alike(a: Spec, b: Spec) -> bool:
    """Whether two specs are equal at all lengths."""
    return (a.dtype, a.weak) == (b.dtype, b.weak) and dims.same(a.shape, b.shape)
