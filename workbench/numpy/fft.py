"""The standard's ``fft`` extension, and the rest of `numpy.fft`.

NumPy's own functions, which Tensors answer; those that make an array stand here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.fft import (
    fft,
    fftn,
    fftshift,
    hfft,
    ifft,
    ifftn,
    ifftshift,
    ihfft,
    irfft,
    irfftn,
    rfft,
    rfftn,
)

from workbench.core.types import Array
from workbench.numpy.dtypes import join_trace, make_on_device

__all__ = [
    "fft",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "ifft",
    "ifftn",
    "ifftshift",
    "ihfft",
    "irfft",
    "irfftn",
    "rfft",
    "rfftfreq",
    "rfftn",
]


def fftfreq(
    n: int,
    /,
    d: float = 1.0,
    *,
    dtype: npt.DTypeLike | None = None,
    device: object = None,
) -> Array:
    """Return the frequencies of `fft` for ``n`` samples at distance ``d``.

    >>> import workbench.numpy as wnp
    >>> wnp.fft.fftfreq(4, d=0.5)
    array([ 0. ,  0.5, -1. , -0.5])
    """
    return _make_frequencies("fftfreq", n, d, dtype, device)


def rfftfreq(
    n: int,
    /,
    d: float = 1.0,
    *,
    dtype: npt.DTypeLike | None = None,
    device: object = None,
) -> Array:
    """Return the frequencies of `rfft` for ``n`` samples at distance ``d``.

    >>> import workbench.numpy as wnp
    >>> wnp.fft.rfftfreq(4, d=0.5, dtype=wnp.float32)
    array([0. , 0.5, 1. ], dtype=float32)
    """
    return _make_frequencies("rfftfreq", n, d, dtype, device)


def _make_frequencies(
    name: str, n: int, d: float, dtype: npt.DTypeLike | None, device: object
) -> Array:
    made = make_on_device(device, lambda xp: getattr(xp.fft, name)(n, d))
    return join_trace(made if dtype is None else made.astype(dtype))


def __getattr__(name: str) -> Any:
    try:
        return getattr(np.fft, name)
    except AttributeError:
        message = f"neither workbench.numpy.fft nor numpy.fft has {name!r}"
        raise AttributeError(message) from None


def __dir__() -> list[str]:
    return sorted({*globals(), *dir(np.fft)})
