"""Ops with several outputs: a tuple Tensor, and `item`, which takes one out.

A cotangent of a tuple is `Parts`: one entry per output, None where nothing arrived.
A rule gets it as ``g`` and the outputs as a tuple ``y``, recorded or not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench.core.op import Op
from workbench.core.tensor import NO_PARAMS, Tensor, apply
from workbench.core.types import Spec
from workbench.ops.define import op

__all__ = ["ITEM", "Parts", "flat", "many", "outputs", "parts", "several"]


class Parts(tuple[Any, ...]):
    """The cotangents of the outputs of one op; None for an output without one.

    >>> Parts((1.0, None)) + Parts((2.0, 3.0))
    (3.0, 3.0)
    """

    __slots__ = ()

    def __add__(self, other: Any) -> Parts:
        return Parts(
            b if a is None else a if b is None else a + b
            for a, b in zip(self, other, strict=True)
        )


def _item_pull(g: Any, y: Any, whole: Any, *, index: int) -> Parts:
    made: list[Any] = [None] * _count(whole)
    made[index] = g
    return Parts(made)


def _item_infer(whole: Any, *, index: int) -> Spec:
    found: Spec = whole[index]
    return found


ITEM = op(
    "item",
    lambda whole, *, index: whole[index],
    _item_pull,
    push=lambda t, y, whole, *, index: t[0][index],
    infer=_item_infer,
    lengths=_item_infer,
    rule="g for this output",
    reads=(),
)


def flat(passed: Sequence[Any]) -> list[Any]:
    """What a rule passed on, with the entries of `Parts` in their place."""
    return [c for p in passed for c in (p if isinstance(p, tuple) else (p,))]


def _count(whole: Any) -> int:
    if isinstance(whole, Tensor):
        whole = parts(whole)
    return len(whole)


def parts(node: Tensor) -> Any:
    """The values of the outputs of a tuple Tensor, or their specs; None of another."""
    found: Any = node.spec if node._value is None else node._value
    return found if isinstance(found, tuple) else None


def many(x: Any) -> bool:
    """Whether it is a tuple Tensor."""
    return isinstance(x, Tensor) and parts(x) is not None


def outputs(node: Tensor) -> Any:
    """A Tensor as a rule sees it: itself, or the tuple of its outputs."""
    found = parts(node)
    if found is None:
        return node
    return tuple(apply(ITEM, (node,), {"index": i}) for i in range(len(found)))


def several(
    made: Op, inputs: tuple[Any, ...], params: dict[str, Any] = NO_PARAMS
) -> tuple[Any, ...]:
    """Apply an op with several outputs: a tuple of arrays, or of their Tensors."""
    whole = apply(made, inputs, params)
    return tuple(outputs(whole)) if isinstance(whole, Tensor) else tuple(whole)
