"""Unit vectors that stay diagonal as long as they can.

A Jacobian starts from an identity matrix. Rules that work entry by entry keep it
diagonal, and a product with a matrix only picks and scales its rows: so the
first dense product is never computed, and what is zero by structure stays zero,
be the partial derivatives beside it infinite.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from workbench.autodiff.batch import Structured
from workbench.core.op import declare
from workbench.core.tensor import Tensor, apply
from workbench.core.types import weak
from workbench.ops.define import shape_of

__all__ = ["Diagonal"]


class Diagonal(Structured):
    """Example ``i`` is zero but for entry ``start + i``, which is ``entries[i]``.

    >>> units = Diagonal(np.array([5.0, 6.0]), (3,), 1, np.float64(0))
    >>> units.dense()
    array([[0., 5., 0.],
           [0., 0., 6.]])
    """

    __slots__ = ("_array", "entries", "like", "shape", "start")

    def __init__(
        self, entries: Any, shape: tuple[int, ...], start: int, like: Any
    ) -> None:
        self.entries = entries
        self.shape = shape
        self.start = start
        self.like = like
        self._array: Any = None

    @classmethod
    def identity(
        cls, leaf: Tensor, like: Any, unit: complex, start: int, stop: int
    ) -> Diagonal:
        """The unit vectors ``start`` to ``stop`` of a leaf's entries."""
        like = 0.0 if like is None else like
        ones = np.ones_like(like, dtype=leaf.dtype, shape=(stop - start,))
        return cls(ones if unit == 1 else ones * unit, leaf.shape, start, like)

    def dense(self) -> Any:
        """The array, one example per row."""
        if self._array is None:
            count, width = shape_of(self.entries)[0], int(np.prod(self.shape))
            entries = self.entries
            array = np.zeros_like(
                self.like, dtype=entries.dtype, order="C", shape=(count, width)
            )
            # A strided view of the diagonal, which CuPy knows too.
            array.reshape(-1)[self.start :: width + 1][:count] = (
                1 if isinstance(entries, Tensor) else entries
            )
            if isinstance(entries, Tensor):
                array = apply(declare("mul0"), (array, entries[:, None]))
            self._array = np.reshape(array, (count, *self.shape))
        return self._array

    def advance(self, node: Tensor, inputs: tuple[Any, ...], mask: int) -> Any | None:
        """See `Structured.advance`."""
        name = node.op.name
        if name in ("matmul", "matmul0"):
            return _scaled_rows(inputs, "mul0" if name == "matmul0" else "multiply")
        spec: Any = node.spec
        if isinstance(spec, tuple):  # an op with several outputs
            return None
        shape = spec.shape
        if name == "reshape" and node.params.get("order", "C") == "C":
            return Diagonal(self.entries, shape, self.start, self.like)
        keeps = _KEEPS.get(name)
        if keeps is None or not keeps(*inputs) or shape != self.shape:
            return None
        if any(
            (isinstance(x, Diagonal) and x.shape != shape)
            or (mask >> i & 1 and not isinstance(x, Diagonal))
            for i, x in enumerate(inputs)
        ):  # fmt: skip
            return None
        picked = tuple([self._pick(x) for x in inputs])
        return Diagonal(
            apply(node.op, picked, node.params), shape, self.start, self.like
        )

    def _pick(self, x: Any) -> Any:
        """The entries of an operand that meet the diagonal."""
        if isinstance(x, Diagonal):
            return x.entries
        if weak(x) or shape_of(x) == ():
            return x
        if shape_of(x) != self.shape:
            x = np.broadcast_to(x, self.shape)
        if len(self.shape) != 1:
            x = np.reshape(x, (-1,))
        count = shape_of(self.entries)[0]
        return x if count == shape_of(x)[0] else x[self.start : self.start + count]


def _scaled_rows(inputs: tuple[Any, ...], multiply: str) -> Any | None:
    """``d @ W`` and ``W @ d`` for unit vectors d: rows or columns of W."""
    left, right = inputs
    if isinstance(left, Diagonal) and isinstance(right, Diagonal):
        return None
    units = left if isinstance(left, Diagonal) else right
    matrix = right if units is left else left
    if len(units.shape) != 1 or len(shape_of(matrix)) != 2:
        return None
    if units is right:
        matrix = np.swapaxes(matrix, 0, 1)
    count = shape_of(units.entries)[0]
    rows = matrix[units.start : units.start + count]
    return apply(declare(multiply), (rows, units.entries[:, None]))


def _zero(x: Any) -> bool:
    """Whether an operand vanishes off the diagonal."""
    return isinstance(x, Diagonal) or (weak(x) and x == 0)


#: Ops that work entry by entry and map zeros to zeros, for these operands.
_KEEPS: dict[str, Callable[..., bool]] = {
    "multiply": lambda a, b: True,
    "mul0": lambda a, b: True,
    "divide": lambda a, b: not isinstance(b, Diagonal),
    "div0": lambda a, b: not isinstance(b, Diagonal),
    "add": lambda a, b: _zero(a) and _zero(b),
    "subtract": lambda a, b: _zero(a) and _zero(b),
    "where": lambda c, a, b: not isinstance(c, Diagonal) and _zero(a) and _zero(b),
    **dict.fromkeys(
        "negative positive identity mask conjugate real imag".split(), lambda x: True
    ),
}
