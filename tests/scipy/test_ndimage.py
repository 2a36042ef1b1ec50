"""`workbench.scipy.ndimage`: values of SciPy in every mode, refusals."""

from __future__ import annotations

import inspect
from itertools import product
from typing import Any

import numpy as np
import pytest
import scipy.ndimage

import workbench as wb
from workbench.errors import TraceError
from workbench.scipy import ndimage

MODES = [
    "reflect",
    "mirror",
    "nearest",
    "wrap",
    "constant",
    "grid-mirror",
    "grid-wrap",
    "grid-constant",
]


def same(name: str, *args: Any, **settings: Any) -> None:
    """The value, its dtype, or the kind of refusal."""
    try:
        expected = getattr(scipy.ndimage, name)(*args, **settings)
    except (ValueError, RuntimeError) as error:
        with pytest.raises(type(error)):
            getattr(ndimage, name)(*args, **settings)
        return
    got = getattr(ndimage, name)(*args, **settings)
    assert got.dtype == expected.dtype
    tolerance = 1e-5 if got.dtype in (np.float32, np.complex64) else 1e-12
    np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.complex128, np.int64])
@pytest.mark.parametrize("mode", MODES)
def test_values(mode: str, dtype: Any, rng: np.random.Generator) -> None:
    x = (5 * rng.normal(size=(4, 5))).astype(dtype)
    for shape, origin in product(
        ((3, 3), (2, 3), (1, 4), (7, 6), (3,)), (0, (0, -1), 1)
    ):
        w = rng.normal(size=shape)
        for weights in (w,) if dtype is np.int64 else (w, w + 1j * w**2):
            for name in ("correlate", "convolve"):
                same(name, x, weights, mode=mode, cval=1.5, origin=origin)
    for size, axis, origin in product((1, 2, 3, 9), (0, -1), (0, -1)):
        w = rng.normal(size=size)
        for name in ("correlate1d", "convolve1d"):
            same(name, x, w, axis, mode=mode, cval=1.5, origin=origin)
    if dtype is not np.int64:
        for sigma, order in product((0.7, (1.2, 0.0), (1.0,)), (0, 1, 3, (1, 0))):
            same("gaussian_filter", x, sigma, order, mode=mode, cval=2.0)
        for size in (3, 2, (1, 4), 5):
            same("uniform_filter", x, size, mode=mode, cval=2.0)


@pytest.mark.parametrize("axes", [(0, 1), (1, 2), (2, 0), 1, (-1, 0), (0, 0)])
def test_axes(axes: Any, rng: np.random.Generator) -> None:
    x = rng.normal(size=(3, 4, 5))
    w = rng.normal(size=(2, 3) if np.ndim(axes) else (3,))
    same("correlate", x, w, axes=axes)
    same("convolve", x, w, axes=axes)
    same("gaussian_filter", x, 1.0, axes=axes)
    same("uniform_filter", x, 3, axes=axes)


def test_large_kernels_and_dtypes_asked_for(rng: np.random.Generator) -> None:
    same("correlate", rng.normal(size=(30, 30)), rng.normal(size=(20, 19)))
    same("gaussian_filter", rng.normal(size=(4, 5)), 1.0, output=np.float32)
    same("gaussian_filter", rng.normal(size=(4, 5)), 1.0, radius=(2, 0))


@pytest.mark.parametrize("mode", MODES)
def test_derivatives_of_images(mode: str, rng: np.random.Generator) -> None:
    x = rng.normal(size=(4, 5))
    for name in ("sobel", "prewitt", "laplace"):
        same(name, x, mode=mode, cval=1.5)
    for name in ("gaussian_laplace", "gaussian_gradient_magnitude"):
        same(name, x, 0.7, mode=mode, cval=1.5)
        same(name, x, (0.7, 1.2), mode=mode, truncate=2.0)


@pytest.mark.parametrize("order", range(6))
@pytest.mark.parametrize("mode", MODES)
def test_moves(mode: str, order: int, rng: np.random.Generator) -> None:
    """SciPy's recursion for "reflect" breaks off: its spline misses the pixels."""
    x, q = rng.normal(size=(6, 5)), rng.uniform(-9, 14, (2, 40))
    tolerance = 1e-9
    if mode in ("reflect", "grid-mirror"):
        at = np.indices(x.shape)
        exact = ndimage.map_coordinates(x, at, order=order, mode=mode)
        np.testing.assert_allclose(exact, x, rtol=0, atol=1e-13)
        off = scipy.ndimage.map_coordinates(x, at, order=order, mode=mode) - x
        tolerance = 1e-9 + 10 * float(np.abs(off).max())
    matrix = np.array([[0.9, 0.2], [-0.1, 1.1]])
    calls: list[tuple[str, tuple[Any, ...]]] = [
        ("map_coordinates", (q,)),
        ("shift", ((0.3, -1.2),)),
        ("zoom", ((1.7, 0.6),)),
        ("rotate", (33.0,)),
        ("rotate", (90.0, (0, 1))),
        ("affine_transform", (matrix, (0.3, -0.4))),
        ("affine_transform", (matrix[0], 0.3, (3, 2))),
    ]
    for name, args in calls:
        settings = {"order": order, "mode": mode, "cval": 0.5}
        expected = getattr(scipy.ndimage, name)(x, *args, **settings)
        got = getattr(ndimage, name)(x, *args, **settings)
        np.testing.assert_allclose(got, expected, rtol=0, atol=tolerance)
    for n in (1, 2, 5):  # the body of the op, which derivatives follow
        settings = {"order": order, "mode": mode, "cval": 0.5, "prefilter": False}
        expected = scipy.ndimage.map_coordinates(x[:n], q, **settings)
        batch = wb.vmap(lambda c: ndimage.map_coordinates(c, q, **settings))  # noqa: B023
        got = batch(np.stack([x[:n], -x[:n]]))[0]
        np.testing.assert_allclose(got, expected, rtol=0, atol=1e-12)


def test_dtypes_of_moves(rng: np.random.Generator) -> None:
    x = 9 * rng.normal(size=(4, 5))
    for dtype in (np.float32, np.complex128, np.int64):
        image = x.astype(dtype) * (1 + 1j if dtype is np.complex128 else 1)
        image = image.astype(dtype)
        got, expected = (home.shift(image, 0.3) for home in (ndimage, scipy.ndimage))
        assert got.dtype == expected.dtype
        np.testing.assert_allclose(got, expected, atol=1e-5)


@pytest.mark.parametrize(
    "dtype", [np.int8, np.uint8, np.int32, np.uint32, np.int64, np.uint64, bool]
)
def test_whole_numbers_are_rounded_as_by_scipy(dtype: Any) -> None:
    """Halves away from 0, and what a dtype does not have to its ends."""
    x = np.array([-1e10, -300, -128.5, -2.5, -0.5, 0.4, 0.5, 2.5, 127.5, 255.5, 1e10])
    if dtype is bool:
        x = x[3:8]  # C makes those of more than a byte what it likes
    expected = scipy.ndimage.shift(x, 0, dtype, 0)
    y, _ = wb.vjp(lambda x: ndimage.shift(x, 0, dtype, 0), x)
    assert y.dtype == expected.dtype
    np.testing.assert_array_equal(y, expected)
    steps = np.array([0, 0, 255, 0, 0], np.uint8)
    got, expected = (h.shift(steps, 0.4) for h in (ndimage, scipy.ndimage))
    np.testing.assert_array_equal(got, expected)


def test_images_of_no_pixel() -> None:
    for x in (np.ones(1), np.ones((3, 1))):
        same("zoom", x, 0.4, order=1, mode="nearest", grid_mode=True)
    q = np.ones((2, 2))
    same("map_coordinates", np.zeros((0, 3)), q, cval=7.0)

    def f(x: Any, q: Any, fill: Any) -> Any:
        return ndimage.map_coordinates(x, q, cval=fill)

    y, pull = wb.vjp(f, np.zeros((0, 3)), q, 7.0)
    np.testing.assert_array_equal(y, [7.0, 7.0])
    by_image, by_place, by_fill = pull(np.array([1.0, 2.0]))
    assert by_image.shape == (0, 3)
    assert not np.any(by_place)
    assert by_fill == 3.0


def test_a_complex_image_stays_complex() -> None:
    x = np.arange(4) * (1 + 2j)
    expected = scipy.ndimage.shift(x, 0.3, np.complex128)
    got = ndimage.shift(x, 0.3, int)
    assert got.dtype == np.complex128
    np.testing.assert_allclose(got, expected, atol=1e-12)


@pytest.mark.parametrize("order", [0, 1, 3])
@pytest.mark.parametrize("mode", ["constant", "nearest", "wrap"])
def test_a_turn_has_its_value_in_a_derivative(mode: str, order: int) -> None:
    """At the edges too, where the last bit of a place decides."""
    x = np.arange(1, 13).reshape(3, 4)
    for angle in (-330.0, -90.0, 0.0, 33.0, 45.0, 90.0, 180.0, 270.0, 360.0):
        for image in (x, x.astype(float)):

            def f(angle: Any, x: Any = image) -> Any:
                return scipy.ndimage.rotate(x, angle, order=order, mode=mode)

            y, _ = wb.vjp(f, angle)
            np.testing.assert_allclose(y, f(angle), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ndimage.__all__)
def test_arguments_are_those_of_scipy(name: str) -> None:
    own = inspect.signature(getattr(ndimage, name)).parameters
    theirs = inspect.signature(getattr(scipy.ndimage, name)).parameters
    assert [(p.name, p.default, p.kind) for p in own.values()] == [
        (p.name, p.default, p.kind) for p in theirs.values()
    ]


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda x: ndimage.correlate(x, x[None]), RuntimeError, "incorrect shape"),
        (lambda x: ndimage.correlate(x, x, mode="far"), RuntimeError, "the modes are"),
        (lambda x: ndimage.correlate(x, x, origin=5), ValueError, "lie in the filter"),
        (
            lambda x: ndimage.correlate(x, x, output=np.zeros(3)),
            TraceError,
            "without output",
        ),
        (lambda x: ndimage.gaussian_filter(x, 1.0, -1), ValueError, "non-negative"),
        (lambda x: ndimage.gaussian_filter(x, 1, radius=-1), ValueError, "radius"),
        (lambda x: ndimage.uniform_filter1d(x, 0), RuntimeError, "filter size"),
        (lambda x: ndimage.shift(x, 1, order=7), RuntimeError, "orders are 0 to 5"),
        (lambda x: ndimage.zoom(x, 2, mode="far"), RuntimeError, "the modes are"),
        (
            lambda x: ndimage.map_coordinates(x, np.ones((2, 3))),
            RuntimeError,
            "a row for each",
        ),
        (
            lambda x: ndimage.affine_transform(x, np.eye(3)),
            RuntimeError,
            "improper number",
        ),
        (lambda x: ndimage.rotate(x, 30), ValueError, "two axes of an image"),
    ],
)
def test_refusals(call: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words) as raised:
        wb.grad(lambda x: np.sum(call(x)))(np.ones(3))
    assert "test_ndimage.py" in str(raised.value)


def test_a_width_that_is_not_known() -> None:
    with pytest.raises(TraceError, match="Give radius="):
        wb.trace(lambda s: ndimage.gaussian_filter(np.eye(3), s))(wb.Spec((), float))
