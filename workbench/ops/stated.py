"""What a program states of a shape: `specify_shape`, checked when it runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench.core.dims import Dim
from workbench.core.op import always
from workbench.core.tensor import apply
from workbench.core.types import Spec
from workbench.errors import ShapeError
from workbench.ops.define import dtype_of, linear, shape_of

__all__ = ["specify_shape"]

Lengths = tuple[int | None, ...]
Params = dict[str, Any]


def _matched(have: Sequence[int], shape: Lengths) -> None:
    if len(have) != len(shape) or any(
        n is not None and m != n for m, n in zip(have, shape, strict=True)
    ):
        text = ", ".join("any" if n is None else str(n) for n in shape)
        raise ShapeError(
            f"specify_shape states the shape ({text}) of an array of shape"
            f" {tuple(have)}. Correct it, or write None for a length that varies."
        )


def _compute(x: Any, *, shape: Lengths) -> Any:
    _matched(np.shape(x), shape)
    return x


def _infer(x: Any, *, shape: Lengths) -> Spec:
    """What is stated, and where nothing is, what is known; both must agree."""
    both = zip(shape_of(x), shape, strict=True)
    _matched([n if n is not None and isinstance(m, Dim) else m for m, n in both], shape)
    both = zip(shape_of(x), shape, strict=True)
    return Spec(tuple([m if n is None else n for m, n in both]), dtype_of(x))


_op = linear(
    "specify_shape",
    _compute,
    lambda g, x, **_: g,
    rule="g",
    lengths=_infer,
    view=always,
)


def _batch(inputs: tuple[Any, ...], batched: tuple[bool, ...], params: Params) -> Any:
    return apply(_op, inputs, {"shape": (None, *params["shape"])})


_op.batch = _batch


def specify_shape(x: Any, shape: Any) -> Any:
    """An array, with the shape that it is stated to have.

    Parameters
    ----------
    x
        An array or Tensor.
    shape
        Its lengths, None for one that may be any.

    Returns
    -------
    The array itself; its lengths are known from there on.

    Raises
    ------
    ShapeError
        If it has another shape: at once where that is known, else when it runs.

    Examples
    --------
    >>> import workbench as wb
    >>> from workbench.ops.stated import specify_shape
    >>> specify_shape(wb.matrix("x"), (None, 3)).shape[1]
    3
    """
    lengths = (shape,) if isinstance(shape, int) else tuple(shape)
    if len(lengths) != len(shape_of(x)):
        _matched(shape_of(x), lengths)
    return apply(_op, (x,), {"shape": lengths})
