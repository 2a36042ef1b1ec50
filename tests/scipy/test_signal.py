"""`workbench.scipy.signal`: values of SciPy in every mode, speed, refusals."""

from __future__ import annotations

import inspect
from itertools import product
from typing import Any

import numpy as np
import pytest
import scipy.signal

import workbench as wb
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
        (p.name, p.default) for p in theirs.values()
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
