"""Fourier transforms: of complex arrays as they are, of real ones seen as reals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.ops.samples.table import Draw, Table, apart

row = Table()


def spectrum(
    name: str, f: Callable[..., Any], *draws: Draw, real: bool = False
) -> None:
    """Two rows: complex in, complex out; and real in, real and imaginary part out."""
    row(f"{name} of reals", lambda *x: np.real(y := f(*x)) + 2 * np.imag(y), *draws)
    if not real:
        row(name, f, *draws, kinds="c")


for _name in ("fft", "ifft"):
    _f = getattr(np.fft, _name)
    spectrum(_name, _f, apart(2, 5))
    spectrum(f"{_name} of one entry", lambda x, f=_f: f(x) ** 2, apart(1))
    spectrum(f"{_name} longer", lambda x, f=_f: f(x, 6, 0), apart(4, 2))
    spectrum(f"{_name} shorter", lambda x, f=_f: f(x, 3, -2), apart(4, 2))
row("power spectrum", lambda x: np.abs(np.fft.fft(x)) ** 2, apart(5), kinds="fc")
for _norm in ("ortho", "forward"):
    spectrum(f"fft {_norm}", lambda x, n=_norm: np.fft.fft(x, norm=n), apart(4))
    spectrum(
        f"rfft {_norm}", lambda x, n=_norm: np.fft.rfft(x, norm=n), apart(4), real=True
    )
    row(
        f"irfft {_norm}",
        lambda x, n=_norm: np.fft.irfft(x, norm=n),
        apart(4),
        kinds="fc",
    )
for _n in (4, 5):
    spectrum(f"rfft {_n}", lambda x: np.fft.rfft(x), apart(2, _n), real=True)
    spectrum(
        f"rfft of 6 to {_n}", lambda x, n=_n: np.fft.rfft(x, n, 0), apart(6, 2),
        real=True,
    )  # fmt: skip
    spectrum(
        f"rfft of 3 to {_n}", lambda x, n=_n: np.fft.rfft(x, n), apart(3), real=True
    )
    row(f"irfft to {_n}", lambda x, n=_n: np.fft.irfft(x, n) ** 2, apart(2, 3),
        kinds="fc")  # fmt: skip
    row(f"irfft of 4 to {_n}", lambda x, n=_n: np.fft.irfft(x, n, 0), apart(4, 2),
        kinds="fc")  # fmt: skip
    row(f"irfft of 2 to {_n}", lambda x, n=_n: np.fft.irfft(x, n), apart(2), kinds="fc")
row("hfft", lambda x: np.fft.hfft(x, 5) ** 2, apart(3), kinds="fc")
row("hfft norm", lambda x: np.fft.hfft(x, norm="forward"), apart(3), kinds="fc")
spectrum("ihfft", lambda x: np.fft.ihfft(x, 4), apart(2, 4), real=True)
spectrum("fft2", lambda x: np.fft.fft2(x), apart(2, 2, 3))
spectrum("ifft2", lambda x: np.fft.ifft2(x, (3, 2)), apart(2, 3))
spectrum("fftn", lambda x: np.fft.fftn(x) ** 2, apart(2, 2, 3))
spectrum("fftn axes", lambda x: np.fft.fftn(x, axes=(0, 2)), apart(2, 2, 3))
spectrum("fftn s", lambda x: np.fft.fftn(x, (3, -1), axes=(0, 1)), apart(2, 3))
spectrum("fftn twice", lambda x: np.fft.fftn(x, axes=(0, 0)), apart(3, 2))
spectrum("ifftn", lambda x: np.fft.ifftn(x, norm="ortho"), apart(2, 3))
spectrum("rfftn", lambda x: np.fft.rfftn(x), apart(2, 3, 4), real=True)
spectrum("rfftn s", lambda x: np.fft.rfftn(x, (3, 5), (1, 0)), apart(2, 3), real=True)
spectrum("rfft2", lambda x: np.fft.rfft2(x, norm="forward"), apart(2, 3), real=True)
row("irfftn", lambda x: np.fft.irfftn(x) ** 2, apart(2, 3), kinds="fc")
row("irfftn s", lambda x: np.fft.irfftn(x, (2, 5), (0, 1)), apart(3, 3), kinds="fc")
row("irfft2", lambda x: np.fft.irfft2(x, (3, 3)), apart(2, 2, 2), kinds="fc")
row("fftshift", lambda x: np.fft.fftshift(x), apart(3, 2), kinds="fc")
row("ifftshift", lambda x: np.fft.ifftshift(x, 0) * x, apart(3, 2))
row("fftshift axes", lambda x: np.fft.fftshift(x, (0, 1)), apart(3, 2, 2))
row("fftfreq", lambda x, d: x * np.fft.fftfreq(3, d[0]), apart(3), apart(1))
row(
    "a filter in Fourier space",
    lambda x, w: np.fft.irfft(np.fft.rfft(x) * np.fft.rfft(w, 5), 5),
    apart(5),
    apart(3),
)
