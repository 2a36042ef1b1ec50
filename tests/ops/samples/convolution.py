"""Convolutions and correlations."""

from __future__ import annotations

import numpy as np
import scipy.ndimage
import scipy.signal

from tests.ops.samples.table import Table, apart, constant, positive
from workbench.ops.convolution import convolve_arrays
from workbench.scipy import ndimage, signal

row = Table()

for _a, _b in ((5, 3), (3, 5), (4, 4), (4, 1), (1, 1), (5, 2), (2, 5)):
    for _mode in ("full", "same", "valid"):
        row(
            f"convolve {_a} {_b} {_mode}",
            lambda a, b, m=_mode: np.convolve(a, b, m),
            apart(_a),
            apart(_b),
            kinds="fc" if _a > _b else "f",
        )
        row(
            f"correlate {_a} {_b} {_mode}",
            lambda a, b, m=_mode: np.correlate(a, b, m),
            apart(_a),
            apart(_b),
            kinds="fc" if _a != _b else "f",
        )
row("convolve with itself", lambda x: np.convolve(x, x), apart(3))
row(
    "convolve by a constant",
    lambda x: np.convolve(constant([1, -2.0], x), x, "same"),
    apart(4),
)
for _method in ("direct", "fft"):
    for _n, _m in [((3, 4), (2, 3)), ((2, 5), (2, 2)), ((2, 2, 3), (1, 2, 2))]:
        for _mode in ("full", "same", "valid"):
            row(
                f"convolve_nd {_n} {_m} {_mode} {_method}",
                lambda a, b, m=_mode, how=_method: convolve_arrays(a, b, m, how),
                apart(*_n),
                apart(*_m),
                kinds="fc" if _n == (3, 4) else "f",
                truth=lambda a, b, m=_mode: scipy.signal.convolve(a, b, m, "direct"),
            )
    row(
        f"convolve_nd, a smaller first array, {_method}",
        lambda a, b, how=_method: convolve_arrays(a, b, "full", how),
        apart(2, 1),
        apart(2, 3),
        truth=lambda a, b: scipy.signal.convolve(a, b, "full", "direct"),
    )
    row(
        f"convolve_nd {_method} of examples",
        lambda a, b, how=_method: convolve_arrays(a, b, "full", how, 1),
        apart(2, 3),
        apart(2, 2),
        truth=lambda a, b: np.stack([np.convolve(*p) for p in zip(a, b, strict=True)]),
    )

# SciPy's names

for _n, _m in [((5,), (3,)), ((2,), (4,)), ((3, 4), (2, 2))]:
    for _mode in ("full", "same", "valid"):
        row(
            f"signal correlate {_n} {_m} {_mode}",
            lambda a, b, m=_mode: signal.correlate(a, b, m),
            apart(*_n),
            apart(*_m),
            kinds="fc",
            truth=lambda a, b, m=_mode: scipy.signal.correlate(a, b, m),
        )
row(
    "signal convolve by fft",
    lambda a, b: signal.convolve(a, b, "valid", "fft"),
    apart(2, 2),
    apart(3, 4),
    truth=lambda a, b: scipy.signal.convolve(a, b, "valid", "fft"),
)
row(
    "signal convolve numbers",
    lambda a, b: signal.convolve(a, b) ** 2,
    apart(),
    apart(),
    truth=lambda a, b: scipy.signal.convolve(a, b) ** 2,
)
for _mode in ("full", "same", "valid"):
    row(
        f"fftconvolve axes {_mode}",
        lambda a, b, m=_mode: signal.fftconvolve(a, b, m, axes=1),
        apart(2, 4, 2),
        apart(1, 3, 2),
        truth=lambda a, b, m=_mode: scipy.signal.fftconvolve(a, b, m, axes=1),
    )
for _boundary in ("fill", "wrap", "symm"):
    for _name in ("convolve2d", "correlate2d"):
        row(
            f"{_name} {_boundary}",
            lambda a, b, f=_name, how=_boundary: getattr(signal, f)(a, b, "same", how),
            apart(3, 4),
            apart(2, 3),
            kinds="fc",
            truth=lambda a, b, f=_name, how=_boundary: getattr(scipy.signal, f)(
                a, b, "same", how
            ),
        )
row(
    "convolve2d fillvalue",
    lambda a, b, v: signal.convolve2d(a, b, fillvalue=v) * v,
    apart(2, 3),
    apart(2, 2),
    apart(),
    truth=lambda a, b, v: scipy.signal.convolve2d(a, b, fillvalue=float(v)) * v,
)

_LONG, _SHORT = positive(3), positive(2)
for _b, _a, _shape, _axis in (
    (_LONG, _SHORT, (5,), 0),
    (_SHORT, _LONG, (2, 4), -1),
    (_SHORT, positive(1), (4, 2), 0),
    (_LONG, _LONG, (2,), -1),
):
    row(
        f"lfilter {_shape} {_axis}",
        lambda b, a, x, n=_axis: signal.lfilter(b, a + 1, x, n),
        _b,
        _a,
        apart(*_shape),
        truth=lambda b, a, x, n=_axis: scipy.signal.lfilter(b, a + 1, x, n),
        kinds="fc" if _axis == -1 else "f",
    )
row(
    "lfilter of one in, all out",
    lambda b, a, x, z: np.concatenate(signal.lfilter(b, a + 1, x, zi=z)),
    _SHORT,
    _LONG,
    apart(4),
    apart(2),
    truth=lambda b, a, x, z: np.concatenate(scipy.signal.lfilter(b, a + 1, x, zi=z)),
)

# Images

for _mode in ("reflect", "mirror", "nearest", "wrap", "constant"):
    for _name in ("correlate", "convolve"):
        row(
            f"ndimage {_name} {_mode}",
            lambda x, w, f=_name, m=_mode: getattr(ndimage, f)(x, w, mode=m, cval=2.0),
            apart(3, 4),
            apart(3, 2),
            kinds="fc" if _mode == "reflect" else "f",
            truth=lambda x, w, f=_name, m=_mode: getattr(scipy.ndimage, f)(
                x, w, mode=m, cval=2.0
            ),
        )
row(
    "ndimage convolve1d",
    lambda x, w: ndimage.convolve1d(x, w, 0, origin=-1),
    apart(3, 2),
    apart(3),
    truth=lambda x, w: scipy.ndimage.convolve1d(x, w, 0, origin=-1),
)
row(
    "ndimage correlate axes",
    lambda x, w: ndimage.correlate(x, w, axes=(0, 2), origin=(0, -1)),
    apart(3, 2, 2),
    apart(2, 3),
    truth=lambda x, w: scipy.ndimage.correlate(x, w, axes=(0, 2), origin=(0, -1)),
)
row(
    "ndimage cval",
    lambda x, v: ndimage.correlate1d(x, [1.0, 2.0, 3.0], mode="constant", cval=v),
    apart(3),
    apart(),
    truth=lambda x, v: scipy.ndimage.correlate1d(
        x, [1.0, 2.0, 3.0], mode="constant", cval=float(v)
    ),
)
for _order in (0, 1, 2, 3):
    row(
        f"gaussian_filter of order {_order}",
        lambda x, s, o=_order: ndimage.gaussian_filter(x, s, o, radius=2),
        apart(3, 2),
        positive(),
        truth=lambda x, s, o=_order: scipy.ndimage.gaussian_filter(
            x, float(s), o, radius=2
        ),
    )
row(
    "gaussian_filter of each axis",
    lambda x: ndimage.gaussian_filter(x, (0.6, 0), mode=("wrap", "nearest")),
    apart(4, 2),
    kinds="fc",
    truth=lambda x: scipy.ndimage.gaussian_filter(
        x, (0.6, 0), mode=("wrap", "nearest")
    ),
)
row(
    "uniform_filter",
    lambda x: ndimage.uniform_filter(x, (2, 3)) ** 2,
    apart(3, 4),
    truth=lambda x: scipy.ndimage.uniform_filter(x, (2, 3)) ** 2,
)

# Images read between their pixels; places are away from the pixels and their middles.

PLACES = np.array([[0.2, 1.3, 3.7], [1.7, -0.4, 2.2]])
for _mode, _order in (("mirror", 3), ("constant", 1), ("nearest", 2), ("grid-wrap", 3)):
    row(
        f"map_coordinates {_mode}",
        lambda x, q, m=_mode, k=_order: ndimage.map_coordinates(
            x, q / 20 + constant(PLACES, x), order=k, mode=m, cval=0.5
        ),
        apart(4, 3),
        apart(2, 3),
        truth=lambda x, q, m=_mode, k=_order: scipy.ndimage.map_coordinates(
            x, q / 20 + PLACES, order=k, mode=m, cval=0.5
        ),
    )
MATRIX = np.array([[0.93, 0.21], [-0.13, 1.08]])
row(
    "affine_transform",
    lambda x, m: ndimage.affine_transform(
        x, constant(MATRIX, x) + m / 50, 0.07, (2, 2), mode="wrap"
    ),
    apart(3, 3),
    apart(2, 2),
    truth=lambda x, m: scipy.ndimage.affine_transform(
        x, MATRIX + m / 50, 0.07, (2, 2), mode="wrap"
    ),
)
row(
    "rotate",
    lambda x, a: ndimage.rotate(x, 30 + a, reshape=False, mode="mirror"),
    apart(3, 3),
    apart(),
    truth=lambda x, a: scipy.ndimage.rotate(x, 30 + a, reshape=False, mode="mirror"),
)
row(
    "shift",
    lambda x, d: ndimage.shift(x, 0.23 + d / 20, mode="grid-constant", cval=0.5),
    apart(4),
    apart(),
    truth=lambda x, d: scipy.ndimage.shift(
        x, 0.23 + float(d) / 20, mode="grid-constant", cval=0.5
    ),
)
row(
    "zoom",
    lambda x: ndimage.zoom(x, 1.7, mode="mirror"),
    apart(3),
    truth=lambda x: scipy.ndimage.zoom(x, 1.7, mode="mirror"),
)
for _name, _given in (
    ("laplace", ()),
    ("sobel", ()),
    ("gaussian_gradient_magnitude", (0.7,)),
):
    row(
        _name,
        lambda x, f=_name, g=_given: getattr(ndimage, f)(x, *g),
        apart(3, 4),
        truth=lambda x, f=_name, g=_given: getattr(scipy.ndimage, f)(x, *g),
    )

# Filters along an axis, and spectra

SECTIONS = scipy.signal.butter(2, 0.3, output="sos")
for _name, _call in (
    ("savgol_filter", lambda home, x, k: home.savgol_filter(x, 3, 1, axis=0) * k[0]),
    ("hilbert", lambda home, x, k: home.hilbert(x, axis=0).imag * k[0]),
    ("lfilter_zi", lambda home, x, k: home.lfilter_zi(x[:2, 0], k + 1)),
    ("filtfilt", lambda home, x, k: home.filtfilt(x[0], k + 1, x, axis=0, padlen=2)),
    ("resample", lambda home, x, k: home.resample(x, 3) * k[0]),
    (
        "resample_poly",
        lambda home, x, k: home.resample_poly(x, 2, 3, window=k) * k[0],
    ),
    (
        "welch",
        lambda home, x, k: home.welch(x, axis=0, nperseg=4, window="boxcar")[1] * k[0],
    ),
    (
        "stft",
        lambda home, x, k: home.stft(x[:, 0], nperseg=4, boundary=None)[2].imag * k[0],
    ),
    (
        "istft",
        lambda home, x, k: home.istft(x, window="hamming", nperseg=8, nfft=8)[1] * k[0],
    ),
):
    row(
        _name,
        lambda x, k, f=_call: f(signal, x, k),
        apart(5, 2),
        positive(3),
        truth=lambda x, k, f=_call: f(scipy.signal, x, k),
    )
row(
    "sosfiltfilt",
    lambda s, x: signal.sosfiltfilt(constant(SECTIONS, x) + s / 50, x, padlen=2),
    apart(1, 6),
    apart(4),
    truth=lambda s, x: scipy.signal.sosfiltfilt(
        (SECTIONS + s / 50) / (SECTIONS + s / 50)[:, 3:4], x, padlen=2
    ),
)
