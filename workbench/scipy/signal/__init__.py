"""`scipy.signal` for Tensors and arrays: convolutions, linear filters, spectra.

The same names, arguments and values as SciPy's; derivatives by both arrays, by the
coefficients of a filter, and by its initial state.

Examples
--------
>>> import numpy as np, workbench as wb
>>> from workbench.scipy import signal
>>> x, k = np.array([1.0, 2.0, 3.0]), np.array([0.5, 0.25])
>>> signal.convolve(x, k, mode="same")
array([0.5 , 1.25, 2.  ])
>>> wb.grad(lambda k: np.sum(signal.convolve(x, k, mode="valid") ** 2))(k)
array([17. , 10.5])
"""

from __future__ import annotations

from workbench.scipy.signal import convolutions, filters, spectra
from workbench.scipy.signal.convolutions import *  # noqa: F403
from workbench.scipy.signal.filters import *  # noqa: F403
from workbench.scipy.signal.spectra import *  # noqa: F403

__all__ = sorted(
    name for part in (convolutions, filters, spectra) for name in part.__all__
)
