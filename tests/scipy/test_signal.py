"""`workbench.scipy.signal`: values of SciPy in every mode, speed, refusals."""

from __future__ import annotations

import inspect
from itertools import product
from typing import Any

import numpy as np
import pytest
import scipy.signal

import workbench as wb
from workbench.errors import UsageError
from workbench.scipy import signal

PAIRS = [
    ((5,), (3,)),
    ((3,), (5,)),
    ((4,), (4,)),
    ((2,), (5,)),
    ((4, 5), (2, 3)),
    ((2, 3), (4, 5)),
    ((4, 2), (2, 5)),
    ((3, 4, 5), (2, 2, 2)),
    ((1, 4), (3, 1)),
    ((), ()),
    ((3,), (2, 2)),
]
FUNCTIONS = ["convolve", "correlate", "fftconvolve", "oaconvolve"]


def drawn(shape: Any, kind: str, rng: np.random.Generator) -> Any:
    x = 3 * rng.normal(size=shape)
    if kind == "c":
        return np.asarray(x + 1j * rng.normal(size=shape))
    return np.asarray(np.round(x).astype(int) if kind == "i" else x)


def outcome(f: Any, *args: Any) -> Any:
    try:
        return f(*args)
    except (ValueError, TypeError) as error:
        return type(error)


def same(got: Any, expected: Any) -> None:
    if isinstance(expected, type):
        assert isinstance(got, type), f"no {expected.__name__}"
        assert issubclass(got, expected)
        return
    assert not isinstance(got, type), got
    assert np.asarray(got).dtype == np.asarray(expected).dtype
    np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kinds", ["ff", "cf", "fc", "cc", "ii"])
@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_and_refusals_are_those_of_scipy(
    name: str, mode: str, kinds: str, rng: np.random.Generator
) -> None:
    methods = ("auto", "direct", "fft") if name in FUNCTIONS[:2] else (None,)
    for (first, second), method in product(PAIRS, methods):
        a, b = drawn(first, kinds[0], rng), drawn(second, kinds[1], rng)
        more = () if method is None else (method,)
        same(
            outcome(getattr(signal, name), a, b, mode, *more),
            outcome(getattr(scipy.signal, name), a, b, mode, *more),
        )


@pytest.mark.parametrize("kinds", ["ff", "cf", "fc", "cc", "ii"])
@pytest.mark.parametrize("boundary", ["fill", "wrap", "symm"])
@pytest.mark.parametrize("name", ["convolve2d", "correlate2d"])
def test_boundaries(
    name: str, boundary: str, kinds: str, rng: np.random.Generator
) -> None:
    for (first, second), mode, fill in product(
        PAIRS, ("full", "same", "valid"), (0, 2)
    ):
        a, b = drawn(first, kinds[0], rng), drawn(second, kinds[1], rng)
        settings = (mode, boundary, fill)
        same(
            outcome(getattr(signal, name), a, b, *settings),
            outcome(getattr(scipy.signal, name), a, b, *settings),
        )


@pytest.mark.parametrize("axes", [0, 1, -1, (0, 1), [0, 2], None, (0, 0), 5])
@pytest.mark.parametrize("mode", ["full", "same", "valid"])
def test_some_axes(mode: str, axes: Any, rng: np.random.Generator) -> None:
    for first, second in (
        ((3, 4, 5), (2, 3, 2)),
        ((3, 4, 5), (1, 3, 5)),
        ((1, 4, 1), (3, 2, 5)),
        ((3, 4, 2), (3, 4, 2)),
    ):
        a, b = rng.normal(size=first), rng.normal(size=second)
        same(
            outcome(signal.fftconvolve, a, b, mode, axes),
            outcome(scipy.signal.fftconvolve, a, b, mode, axes),
        )


@pytest.mark.parametrize(
    ("b", "a"),
    [
        ([1.0, 2, 3], [1.0]),
        ([1.0], [2.0, 0.5, 0.1]),
        ([1.0, 2, 3], [2.0, 0.5]),
        ([1.0, 2], [3.0, 0.5, -0.2, 0.1]),
        (2.0, 1.0),
    ],
)
def test_filters(b: Any, a: Any, rng: np.random.Generator) -> None:
    for shape, axis in (((7,), -1), ((2, 6), 1), ((6, 2), 0), ((1,), 0)):
        x = rng.normal(size=shape)
        same(signal.lfilter(b, a, x, axis), scipy.signal.lfilter(b, a, x, axis))
        state = list(shape)
        state[axis] = max(np.size(a), np.size(b)) - 1
        z = rng.normal(size=state)
        got = signal.lfilter(b, a, x, axis, z)
        for part, expected in zip(
            got, scipy.signal.lfilter(b, a, x, axis, z), strict=True
        ):
            same(part, expected)


@pytest.mark.parametrize(
    "name", [n for n in signal.__all__ if n != "choose_conv_method"]
)
def test_arguments_are_those_of_scipy(name: str) -> None:
    own = inspect.signature(getattr(signal, name)).parameters
    theirs = inspect.signature(getattr(scipy.signal, name)).parameters
    assert [(p.name, p.default) for p in own.values()] == [
        # The window that newer ones call by a longer name is the same.
        (p.name, "hann" if p.default == "hann_periodic" else p.default)
        for p in theirs.values()
    ]


def test_large_arrays_go_through_fourier_transforms(rng: np.random.Generator) -> None:
    """Directly this would take 10**10 multiplications, forward alone."""
    x, k = rng.normal(size=100_000), rng.normal(size=100_001)
    gradient = wb.grad(lambda k: np.sum(signal.convolve(x, k)))(k)
    np.testing.assert_allclose(gradient, np.sum(x), rtol=1e-8)


def test_a_filter_learns(rng: np.random.Generator) -> None:
    """Newton's method finds the poles of the filter that made a signal."""
    x = rng.normal(size=200)
    truth = np.array([1.0, -1.2, 0.5])
    y = scipy.signal.lfilter([1.0], truth, x)

    def loss(a: Any) -> Any:
        made = signal.lfilter([1.0], np.concatenate([np.ones_like(a[:1]), a]), x)
        return np.sum((made - y) ** 2)

    a = np.array([-1.1, 0.4])
    for _ in range(8):
        a = a - np.linalg.solve(wb.hessian(loss)(a), wb.grad(loss)(a))
    np.testing.assert_allclose(a, truth[1:], rtol=1e-10)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda x: signal.convolve(x, x[None]), "same dimensionality"),
        (lambda x: signal.convolve(x, x, "most"), "mode is one of 'full'"),
        (lambda x: signal.convolve(x, x, "full", "slow"), "method is one of 'auto'"),
        (lambda x: signal.convolve2d(x, x), "2-D"),
        (
            lambda x: signal.convolve(x[None], np.ones((2, 1)), "valid"),
            "at least as large",
        ),
        (lambda x: signal.lfilter(x, [0.0, 1.0], x), r"a\[0\] is 0"),
        (lambda x: signal.lfilter(x, x[None], x), "one axis"),
        (lambda x: signal.lfilter(x, x, x, zi=x), "zi has length 2"),
        (lambda x: signal.choose_conv_method(x, x, measure=True), "depend on time"),
    ],
)
def test_refusals(call: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words) as error:
        wb.grad(lambda x: np.sum(call(x)))(np.ones(3))
    assert "test_signal.py" in str(error.value)


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_batch_of_no_examples(name: str, mode: str) -> None:
    f, k = getattr(signal, name), np.arange(3.0)
    none, length = np.zeros((0, 5)), {"full": 7, "same": 5, "valid": 3}[mode]
    for program in (lambda x: f(x, k, mode), lambda x: f(x, x[:3], mode)):
        assert wb.vmap(program)(none).shape == (0, length)
        assert wb.vmap(wb.jacobian(program))(none).shape == (0, length, 5)
        for way in ("fwd", "rev"):
            empty = wb.jacobian(lambda x, f=program: f(x)[:0], mode=way)
            assert empty(np.ones(5)).shape == (0, 5)


# Filters along an axis, and spectra


def check_call(name: str, *args: Any, **settings: Any) -> None:
    """Compare all results of a function with those of SciPy's."""
    expected = getattr(scipy.signal, name)(*args, **settings)
    got = getattr(signal, name)(*args, **settings)
    pairs = zip(got, expected, strict=True) if type(got) is tuple else [(got, expected)]
    for ours, theirs in pairs:
        assert ours.shape == theirs.shape
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-9)


@pytest.mark.parametrize("padtype", ["odd", "even", "constant", None])
def test_filters_of_lines(padtype: str | None, rng: np.random.Generator) -> None:
    x = rng.normal(size=(40, 3))
    sos = scipy.signal.butter(4, 0.3, output="sos")
    b, a = scipy.signal.butter(3, 0.2)
    check_call("filtfilt", b, 2 * a, x, axis=0, padtype=padtype)
    check_call("filtfilt", b, a, x[:, 0], padtype=padtype, padlen=0)
    check_call("sosfiltfilt", sos, x, axis=0, padtype=padtype)
    check_call("lfilter_zi", 2 * b, 3 * a)
    check_call("sosfilt_zi", sos)
    check_call("sosfilt", sos, x, axis=0)
    check_call("sosfilt", sos, x[:, 0], zi=scipy.signal.sosfilt_zi(sos))


@pytest.mark.parametrize("mode", ["interp", "nearest", "mirror", "constant", "wrap"])
def test_smoothing(mode: str, rng: np.random.Generator) -> None:
    x = rng.normal(size=(12, 3))
    for deriv in (0, 1):
        check_call("savgol_filter", x, 7, 2, deriv=deriv, axis=0, mode=mode)
    check_call("hilbert", x, axis=0)
    check_call("hilbert", x[:, 0], N=15)


@pytest.mark.parametrize("num", [20, 21, 39, 40, 41, 60, 61])
def test_other_numbers_of_entries(num: int, rng: np.random.Generator) -> None:
    x = rng.normal(size=(40, 3))
    check_call("resample", x, num)
    check_call("resample", x[:7, 0] + 1j * x[:7, 1], num)
    check_call("resample", x[:, 0], num, t=0.5 * np.arange(40))
    for up, down in ((1, 2), (3, 2), (2, 5), (num, 5)):
        check_call("resample_poly", x, up, down)
        check_call("resample_poly", x[:, 0], up, down, window=np.array([0.2, 1, 0.3]))
        check_call("upfirdn", [1, 0.5, 0.2], x[:, 0], up, down)


@pytest.mark.parametrize("detrend", ["constant", "linear", False])
def test_spectra(detrend: Any, rng: np.random.Generator) -> None:
    x = rng.normal(size=(40, 3))
    for settings in (
        {"nperseg": 40},
        {"nperseg": 11, "noverlap": 3, "nfft": 16},
        {"nperseg": 10, "scaling": "spectrum", "return_onesided": False},
    ):
        given: dict[str, Any] = {"detrend": detrend, **settings}
        check_call("welch", x[:, 0], 2.0, **given)
        check_call("csd", x, x[:, ::-1], 2.0, axis=0, **given)
    check_call("periodogram", x, detrend=detrend, axis=0)
    check_call("stft", x, 2.0, axis=0, nperseg=10, noverlap=3, detrend=detrend)
    check_call("stft", x[:, 0], nperseg=9, boundary=None, scaling="psd", padded=False)
    z = x[:36].reshape(6, 3, 6) + 1j * x[4:].reshape(6, 3, 6)
    check_call("istft", z[:, 0], 2.0)
    check_call("istft", z, nperseg=11, noverlap=7, time_axis=0, freq_axis=2)
    check_call("istft", z[0], nperseg=3, boundary=False, scaling="psd", window="boxcar")
    check_call("istft", z[0], input_onesided=False, noverlap=2, nperseg=5, nfft=6)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (
            lambda x: signal.savgol_filter(x, 9, 2),
            ValueError,
            "must be odd and at most",
        ),
        (lambda x: signal.hilbert(x + 1j), ValueError, "x must be real"),
        (lambda x: signal.sosfilt(x[None], x), ValueError, r"\(n_sections, 6\)"),
        (lambda x: signal.filtfilt(x, x, x), ValueError, "greater than padlen"),
        (lambda x: signal.filtfilt(x, x, x, method="gust"), UsageError, "method='pad'"),
        (lambda x: signal.resample(x, 3, window="hann"), UsageError, "by weights"),
        (lambda x: signal.resample_poly(x, 2, 1, cval=1.0), UsageError, "Take off"),
        (lambda x: signal.upfirdn(x, x, mode="wrap"), UsageError, "np.pad first"),
        (lambda x: signal.welch(x, noverlap=4)[1], ValueError, "less than nperseg"),
        (lambda x: signal.welch(x, average="median")[1], UsageError, "average='mean'"),
        (
            lambda x: signal.stft(x, boundary="even")[2].real,
            UsageError,
            "boundary=None",
        ),
    ],
)
def test_refusals_of_filters(call: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words) as raised:
        wb.grad(lambda x: np.sum(call(x).real))(np.ones(4))
    assert "test_signal.py" in str(raised.value)
