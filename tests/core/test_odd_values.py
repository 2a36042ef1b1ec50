"""Values of every kind as what is differentiated by and as constants beside it.

Each works as NumPy has it or is refused with what to write; none loses a gradient.
"""

from __future__ import annotations

import array
import decimal
import fractions
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.errors import DtypeError, ShapeError, TraceError, WorkbenchError

X = np.array([0.5, 1.5, 2.5])


class Mine(np.ndarray):  # type: ignore[type-arg]
    """A subclass that adds nothing."""


class Elsewhere:
    """An array whose dtypes NumPy does not know, as those of PyTorch."""

    dtype = "elsewhere.float64"
    shape = (3,)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.array(X, dtype)


def square(x: Any) -> Any:
    return np.sum(x * x)


@pytest.mark.parametrize(
    "x", [X.astype("f2"), X.astype("f4"), X.astype(np.longdouble), X.astype(">f8")]
)
def test_floats_of_every_size(x: Any) -> None:
    g = wb.grad(square)(x)
    assert g.dtype == x.dtype.newbyteorder("=")
    np.testing.assert_array_equal(g, 2 * x)
    z = x + 1j
    np.testing.assert_array_equal(wb.grad(square, holomorphic=True)(z), 2 * z)


@pytest.mark.parametrize(
    "x", [memoryview(X), array.array("d", X), X.view(Mine), np.float32(2.5)]
)
def test_what_is_an_array_to_numpy(x: Any) -> None:
    np.testing.assert_array_equal(wb.grad(square)(x), 2 * np.asarray(x))
    np.testing.assert_array_equal(wb.grad(lambda y: np.sum(y * x))(X), 0 * X + x)
    np.testing.assert_array_equal(wb.grad(lambda y: np.sum(x * y))(X), 0 * X + x)


def test_fractions_are_numbers() -> None:
    # NumPy makes an object array of them, which would have no gradient.
    half = fractions.Fraction(1, 2)
    for f in (lambda x: x * half, lambda x: half * x, lambda x: np.multiply(x, half)):
        np.testing.assert_array_equal(wb.grad(lambda x, f=f: np.sum(f(x)))(X), 0.5)
    assert wb.grad(lambda x: np.sum(x * half))(X.astype("f4")).dtype == np.float32


@pytest.mark.parametrize(
    ("x", "found"),
    [
        (None, "argument 0 is None"),
        ({1.0, 2.0}, "x is {.*}, not an array or a number"),
        ((n for n in (1.0, 2.0)), "not an array or a number"),
        (object(), "not an array or a number"),
        (b"text", "not an array or a number"),
        (fractions.Fraction(1, 2), r"Pass 0\.5"),
        (decimal.Decimal("1.5"), r"Pass 1\.5"),
        (Elsewhere(), r"Elsewhere, no array.*Pass np\.asarray\(x\)"),
        (np.array([1.0, 2.0], object), r"Pass x\.astype\(float\)"),
    ],
)
def test_what_has_no_derivative(x: Any, found: str) -> None:
    with pytest.raises(DtypeError, match=found):
        wb.grad(square)(x)


@pytest.mark.parametrize(
    ("odd", "kind", "found"),
    [
        (np.ma.masked_array(X, [0, 1, 0]), TraceError, r"np\.where\(x\.mask, 0\.0"),
        (X[None].view(np.matrix), TraceError, r"Pass np\.asarray\(x\)"),
    ],
)
def test_arrays_whose_operations_mean_something_else(
    odd: Any, kind: type[Exception], found: str
) -> None:
    for ask in (
        lambda: wb.grad(square)(odd),
        lambda: wb.grad(lambda x: np.sum(x * odd))(X),
        lambda: wb.grad(lambda x: np.sum(np.add(odd, x)))(X),
    ):
        with pytest.raises(kind, match=found):
            ask()


@pytest.mark.parametrize(
    ("odd", "kind", "found"),
    [
        (np.arange(3, dtype="m8[s]"), DtypeError, r"t / np\.timedelta64\(1, 's'\)"),
        (np.timedelta64(3, "s"), DtypeError, r"t / np\.timedelta64\(1, 's'\)"),
        (np.arange(3).astype("M8[D]"), DtypeError, "cannot use operands"),
        ([[1.0], [2.0, 3.0]], ShapeError, "rows of different lengths"),
        (decimal.Decimal("1.5"), DtypeError, "unsupported operand"),
        ({1.0, 2.0}, DtypeError, "unsupported operand"),
    ],
)
def test_constants_that_are_no_numbers(
    odd: Any, kind: type[Exception], found: str
) -> None:
    for f in (lambda x: x * odd, lambda x: odd * x, lambda x: np.multiply(odd, x)):
        with pytest.raises(kind, match=found) as error:
            wb.grad(lambda x, f=f: np.sum(f(x)))(X)
        assert isinstance(error.value, WorkbenchError)
        assert "test_odd_values.py" in str(error.value)


def test_dates_may_be_chosen_by_tensors() -> None:
    dates = np.arange(3).astype("M8[D]")

    def f(x: Any) -> Any:
        assert dates[np.argmax(x)] == dates[2]
        chosen = np.where(x > 1, dates, dates[0])
        return np.sum(x * (chosen.value > dates[0]))

    np.testing.assert_array_equal(wb.grad(f)(X), [0, 1, 1])


@pytest.mark.parametrize("shape", [(100_000,), (300, 400), (50, 40, 60), (20_000, 1)])
@pytest.mark.parametrize("layout", ["C", "F"])
def test_large_arrays_changed_through_a_view_of_before(
    shape: tuple[int, ...], layout: Any
) -> None:
    def make() -> Any:  # arrays from outside: the function's own may be written to
        weights = np.ones(shape, order=layout)
        view = weights[...]

        def f(x: Any, change: Any) -> Any:
            y = x * weights
            change(view)
            return np.sum(y)

        return f

    def scale(view: Any) -> None:
        view *= 3

    def fill(view: Any) -> None:
        view[...] = np.arange(float(view.size)).reshape(shape)

    for change in (scale, fill):
        with pytest.raises(TraceError, match=r"changed in place.*\.copy\(\)"):
            wb.grad(make())(2.0, change)
    assert wb.grad(make())(2.0, lambda view: None) == np.prod(shape)
    data = np.ones(shape, order=layout)
    view = data[...]
    _, pullback = wb.vjp(lambda x: x * data, 2.0)
    with pytest.raises(ValueError, match="read-only"):
        data *= 2
    view *= 2
    with pytest.raises(TraceError, match="changed in place before its pullback"):
        pullback(np.ones(shape))
