"""`scipy.ndimage` for Tensors and arrays: linear filters of images of any rank.

The same names, arguments and values as SciPy's. An image is extended over its edges
and convolved; so there is a derivative by the image, by the weights, by ``cval``, and
by the ``sigma`` of a Gaussian.

Examples
--------
>>> import numpy as np, workbench as wb
>>> from workbench.scipy import ndimage
>>> x = np.array([0.0, 0.0, 1.0, 0.0])
>>> ndimage.correlate1d(x, np.array([1.0, 2.0, 3.0]))
array([0., 3., 2., 1.])
>>> wb.grad(lambda s: ndimage.gaussian_filter(x, s, radius=2)[2])(1.0).round(6)
np.float64(-0.372147)
"""

from __future__ import annotations

from workbench.ops.lengths import delay
from workbench.scipy.ndimage.filters import (
    convolve,
    convolve1d,
    correlate,
    correlate1d,
    gaussian_filter,
    gaussian_filter1d,
    uniform_filter,
    uniform_filter1d,
)

__all__ = [
    "convolve",
    "convolve1d",
    "correlate",
    "correlate1d",
    "gaussian_filter",
    "gaussian_filter1d",
    "uniform_filter",
    "uniform_filter1d",
]


delay(globals(), __all__)
