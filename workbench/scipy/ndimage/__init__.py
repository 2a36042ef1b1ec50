"""`scipy.ndimage` for Tensors and arrays: filters of images of any rank, and moves.

The same names, arguments and values as SciPy's. An image is extended over its edges
and convolved; so there is a derivative by the image, by the weights, by ``cval``, and
by the ``sigma`` of a Gaussian. An image that is moved or read between its pixels is a
spline, with derivatives by the image and by the places.

Examples
--------
>>> import numpy as np, workbench as wb
>>> from workbench.scipy import ndimage
>>> x = np.array([0.0, 0.0, 1.0, 0.0])
>>> ndimage.correlate1d(x, np.array([1.0, 2.0, 3.0]))
array([0., 3., 2., 1.])
>>> wb.grad(lambda s: ndimage.gaussian_filter(x, s, radius=2)[2])(1.0).round(6)
np.float64(-0.372147)
>>> wb.grad(lambda d: ndimage.shift(x, d, order=1)[2])(0.25)
np.float64(-1.0)
"""

from __future__ import annotations

from workbench.scipy.ndimage import filters, moves
from workbench.scipy.ndimage.filters import *  # noqa: F403
from workbench.scipy.ndimage.moves import *  # noqa: F403

__all__ = sorted((*filters.__all__, *moves.__all__))
