"""Draws of an order, or of some entries: they gather."""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.core import blame
from workbench.core.tensor import Tensor, admit, value_of
from workbench.errors import TraceError
from workbench.ops.define import no_out, shape_of
from workbench.ops.indexing import getitem
from workbench.ops.random import draws
from workbench.random.checking import Drawing, constant, traced

__all__ = ["Order"]


class Order(Drawing):
    """`permutation`, `permuted`, `shuffle`, `choice`."""

    def permutation(self, x: Any, axis: int = 0) -> Any:
        """As NumPy's; the gradient goes back to where each entry came from."""
        if not traced(x):
            if draws.unknown() is None:
                return super().permutation(x, axis)
            if np.ndim(x) == 0:
                return self._plain("permutation", None, n=int(x))
        x = admit(x)
        index = self._plain("permutation", None, n=shape_of(x)[axis])
        return _taken(x, index, axis)

    def permuted(self, x: Any, *, axis: Any = None, out: Any = None) -> Any:
        """As NumPy's; the gradient goes back to where each entry came from."""
        if not traced(x) and draws.unknown() is None:
            return super().permuted(x, axis=axis, out=out)
        no_out("rng.permuted", out)
        x = admit(x)
        flat = np.reshape(x, -1) if axis is None else x
        rank = len(shape_of(flat))
        along = 0 if axis is None else axis % rank
        settings = {"shape": shape_of(flat), "axis": along}
        index = self._plain("permuted", None, **settings)
        if rank == 1:
            return np.reshape(_taken(flat, index, 0), shape_of(x))
        return np.take_along_axis(admit(x), index, along)

    def shuffle(self, x: Any, axis: int = 0) -> None:
        """As NumPy's, of plain arrays: it works in place."""
        if traced(x) and not isinstance(x, list):
            raise TraceError(
                f"rng.shuffle(x){blame.here()} works in place, and a traced value never"
                " changes. Write x = rng.permutation(x)."
            )
        super().shuffle(x, axis)

    def choice(
        self,
        a: Any,
        size: Any = None,
        replace: bool = True,
        p: Any = None,
        axis: int = 0,
        shuffle: bool = True,
    ) -> Any:
        """As NumPy's; of a Tensor, the gradient goes to the entries that were taken."""
        p = constant(p, "rng.choice(p=x)")
        inside = draws.unknown() is not None
        if not traced(a, p) and not inside:
            return super().choice(a, size, replace, p, axis, shuffle)
        number = shape_of(admit(a)) == ()
        settings = {"a": int(value_of(a)) if number else shape_of(admit(a))[axis]}
        more = {"replace": replace, "p": p, "shuffle": shuffle}
        index = self._plain("choice", size, **settings, **more)
        return index if number else _taken(admit(a), index, axis)


def _taken(x: Any, index: Any, axis: int) -> Any:
    """The slices of ``x`` at an index, which may have no value yet."""
    if isinstance(x, Tensor) or not isinstance(index, Tensor):
        return np.take(x, index, axis=axis)
    before = (slice(None),) * (axis % len(shape_of(x)))
    return getitem(x, (*before, index))
