"""The first entries of a sequence, where only the run knows how many."""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.core.op import declare
from workbench.core.tensor import apply
from workbench.core.types import Spec
from workbench.errors import ShapeError
from workbench.ops.define import linear, shape_of

__all__ = ["pad", "window"]

Batched = tuple[bool, ...]

WINDOW = declare("scan_window")
PAD = declare("scan_pad")


def window(x: Any, n: Any) -> Any:
    """``x[:n]``, where ``n`` may be a Tensor.

    Raises
    ------
    ShapeError
        When it runs, if ``x`` has fewer entries.
    """
    return apply(WINDOW, (x, n))


def pad(g: Any, x: Any) -> Any:
    """``g`` and zeros after it, as many rows as ``x`` has."""
    return apply(PAD, (g, x))


def _window(x: Any, n: Any) -> Any:
    n = int(n)
    if n > len(x):
        raise ShapeError(
            f"scan: {n} steps, and a sequence has entries for {len(x)}. Give a longer"
            " one, or fewer steps."
        )
    return x[: max(n, 0)]


def _pad(g: Any, x: Any) -> Any:
    made = np.zeros_like(g, shape=(x.shape[0], *g.shape[1:]))
    made[: len(g)] = g
    return made


def _short(x: Any, n: Any) -> Spec:
    known = not isinstance(n, Spec)
    return Spec((int(n) if known else None, *shape_of(x)[1:]), x.dtype)


def _padded(g: Any, x: Any) -> Spec:
    return Spec((shape_of(x)[0], *shape_of(g)[1:]), g.dtype)


def _batch_window(inputs: tuple[Any, ...], batched: Batched, params: Any) -> Any:
    """The first entries of many; where the numbers differ, as many as the most."""
    (x, n), (many, uneven) = inputs, batched
    if not many:
        made = window(x, np.max(n))
        return np.broadcast_to(made, (shape_of(n)[0], *shape_of(made)))
    made = window(np.moveaxis(x, 0, 1), np.max(n) if uneven else n)
    return np.moveaxis(made, 1, 0)


def _batch_pad(inputs: tuple[Any, ...], batched: Batched, params: Any) -> Any:
    (g, x), (many, like) = inputs, batched
    x = np.moveaxis(x, 0, 1) if like else x
    if not many:
        made = pad(g, x)
        return np.broadcast_to(made, (shape_of(x)[1], *shape_of(made)))
    return np.moveaxis(pad(np.moveaxis(g, 0, 1), x), 1, 0)


linear(
    "scan_window",
    _window,
    lambda g, x, n: pad(g, x),
    rule="g, and zeros for the entries left out",
    infer=_short,
    batch=_batch_window,
)
linear(
    "scan_pad",
    _pad,
    lambda g, x, like: window(g, shape_of(x)[0]),
    rule="the first entries of g",
    infer=_padded,
    batch=_batch_pad,
)
WINDOW.lengths = _short
WINDOW.template = "{0:20}[:{1}]"
PAD.lengths = _padded
