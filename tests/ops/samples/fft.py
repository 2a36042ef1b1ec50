"""Fourier transforms: of complex arrays as they are, of real ones seen as reals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.fft

from tests.ops.samples.table import Draw, Table, apart
from workbench.scipy import fft as own

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


# SciPy's: cosines and sines


def by_parts(f: Callable[..., Any], x: Any) -> Any:
    """A real transform of complex numbers; SciPy forgets ``orthogonalize`` of them."""
    return f(x.real) + 1j * f(x.imag) if x.dtype.kind == "c" else f(x)


def scipys(name: str, label: str, *draws: Draw, **settings: Any) -> None:
    """A row for a function of `scipy.fft`."""
    row(
        f"scipy {name} {label}",
        lambda x: getattr(own, name)(x, **settings),
        *draws,
        truth=lambda x: by_parts(lambda a: getattr(scipy.fft, name)(a, **settings), x),
        kinds="fc",
    )


for _name in ("dct", "dst", "idct", "idst"):
    for _type in (1, 2, 3, 4):
        scipys(_name, f"{_type}", apart(2, 4), type=_type)
        scipys(_name, f"{_type} ortho", apart(4, 2), type=_type, axis=0, norm="ortho")
        scipys(_name, f"{_type} orthogonal", apart(3), type=_type, orthogonalize=True)
        scipys(_name, f"{_type} plain ortho", apart(3), type=_type, norm="ortho",
               orthogonalize=False)  # fmt: skip
    scipys(_name, "forward", apart(3), norm="forward")
    scipys(_name, "longer", apart(3, 2), axis=0, n=5)
    scipys(_name, "shorter", apart(2, 4), n=3)
scipys("dctn", "all", apart(2, 3))
scipys("idctn", "s", apart(2, 3), s=(3, 2))
scipys("dstn", "axes", apart(2, 3, 2), axes=(0, 2), type=3)
scipys("idstn", "ortho", apart(2, 3), norm="ortho", type=1)
row(
    "scipy rfftn",
    lambda x: np.abs(own.rfftn(x, workers=1)) ** 2,
    apart(2, 3),
    truth=lambda x: np.abs(scipy.fft.rfftn(x)) ** 2,
)
for _name, _given in (
    ("hfft2", {"s": (3, 5)}), ("hfftn", {"s": (3, 4)}), ("ihfft2", {"norm": "ortho"}),
    ("ihfftn", {"axes": (1, 0), "norm": "forward"}),
):  # fmt: skip
    row(
        f"scipy {_name}",
        lambda x, f=_name, s=_given: np.abs(getattr(own, f)(x, **s)) ** 2,
        apart(2, 3),
        truth=lambda x, f=_name, s=_given: np.abs(getattr(scipy.fft, f)(x, **s)) ** 2,
    )
for _name, _count in (("fht", 5), ("ifht", 5), ("fht", 4), ("ifht", 4)):
    row(
        f"scipy {_name} {_count}",
        lambda x, f=_name: getattr(own, f)(x, 0.3, 1.2, 0.1, 0.4),
        apart(2, _count),
        truth=lambda x, f=_name: getattr(scipy.fft, f)(x, 0.3, 1.2, 0.1, 0.4),
    )
