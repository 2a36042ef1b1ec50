"""`theano.tensor.signal.conv`: convolutions of images without channels."""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.compat.theano.tensor.nnet import abstract_conv
from workbench.compat.theano.types import as_tensor_variable
from workbench.core.types import ArrayLike

__all__ = ["conv2d"]


def conv2d(
    input: ArrayLike, filters: ArrayLike, border_mode: str = "valid", **settings: Any
) -> Any:
    """Return each image (a matrix, or one per entry of axis 0) with each filter."""
    x, w = as_tensor_variable(input), as_tensor_variable(filters)
    images = x[None] if x.ndim == 2 else x
    kernels = w[None] if w.ndim == 2 else w
    made = abstract_conv.conv2d(
        images[:, None], kernels[:, None], border_mode=border_mode,
        subsample=settings.get("subsample", (1, 1)),
    )  # fmt: skip
    drop = tuple(i for i, y in enumerate((x, w)) if y.ndim == 2)
    return np.squeeze(made, axis=drop) if drop else made
