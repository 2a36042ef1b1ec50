"""Contractions of masked cotangents: a factor that is 0 wins over infinity.

`multiply` and `divide` have `mul0` and `div0` in `arithmetic.py`; here are the same
for products that are summed. They cost a look for NaN, nothing more, until one is
found.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from workbench.core.op import Op, declare
from workbench.ops.contraction import (
    LETTERS,
    MATMUL,
    TENSORDOT,
    tensordot_subscripts,
)
from workbench.ops.define import masked, shape_of
from workbench.ops.einsum import EINSUM, parse

__all__: list[str] = []

Params = dict[str, Any]
Batched = tuple[bool, ...]


def _with_zeros(base: Op, spell: Callable[..., str]) -> None:
    """Declare the op that stands in for a contraction of masked cotangents.

    ``spell(arrays, **params)`` gives its subscripts as an einsum.
    """
    made = base.masked = declare(f"{base.name}0")

    def compute(*arrays: Any, **params: Any) -> Any:
        with np.errstate(invalid="ignore"):
            y = base.compute(*arrays, **params)
        # 0 * inf would show as NaN; nearly always there is none.
        if bool(np.all(np.isfinite(y))):
            return y
        return _entry_by_entry(spell(arrays, **params), arrays)

    def pull(mask: int, g: Any, y: Any, inputs: tuple[Any, ...], params: Params) -> Any:
        assert base.pull is not None
        return base.pull(mask, masked(g), y, inputs, params)

    def push(
        tangents: tuple[Any, ...], y: Any, inputs: tuple[Any, ...], params: Params
    ) -> Any:
        assert base.push is not None
        flagged = tuple(t if t is None else masked(t) for t in tangents)
        return base.push(flagged, y, inputs, params)

    def batch(inputs: tuple[Any, ...], batched: Batched, params: Params) -> Any:
        assert base.batch is not None
        return base.batch((masked(inputs[0]), *inputs[1:]), batched, params)

    made.compute, made.infer, made.cure = compute, base.infer, base.cure
    made.pull, made.push, made.batch = pull, push, batch
    made.rule, made.reads = base.rule, base.reads


def _entry_by_entry(subscripts: str, arrays: tuple[Any, ...]) -> Any:
    """An einsum whose every product is 0 where a factor is 0."""
    terms, output = parse(subscripts)
    letters = output + "".join(sorted(set("".join(terms)) - set(output)))
    nothing: Any = False
    product: Any = 1
    for term, x in zip(terms, arrays, strict=True):
        kept = "".join(c for c in letters if c in term)
        lengths = iter(shape_of(y := np.einsum(f"{term}->{kept}", x)))
        y = np.reshape(y, tuple(next(lengths) if c in kept else 1 for c in letters))
        zero = np.equal(y, 0)
        with np.errstate(invalid="ignore", over="ignore"):
            product = product * y
        nothing = nothing | zero
    safe = np.where(nothing, np.zeros_like(product), product)
    return np.sum(safe, axis=tuple(range(len(output), len(letters))))


def _matmul_spelt(arrays: tuple[Any, ...]) -> str:
    ranks = [len(shape_of(x)) for x in arrays]
    loops = [LETTERS[: max(n - 2, 0)] for n in ranks]
    widest = LETTERS[: max(map(len, loops))]
    left, right = (widest[len(widest) - len(loop) :] for loop in loops)
    row, column = "Y" * (ranks[0] > 1), "Z" * (ranks[1] > 1)
    return f"{left}{row}X,{right}X{column}->{widest}{row}{column}"


def _tensordot_spelt(arrays: tuple[Any, ...], *, axes: Any) -> str:
    a, b = arrays
    return tensordot_subscripts((len(shape_of(a)), len(shape_of(b))), *axes)


_with_zeros(MATMUL, _matmul_spelt)
_with_zeros(TENSORDOT, _tensordot_spelt)
_with_zeros(EINSUM, lambda arrays, *, subscripts, **_: subscripts)
