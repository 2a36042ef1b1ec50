"""Python's floats at singular points: inf and NaN as NumPy's, where Python raises."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import special

import workbench as wb
from tests.chunks import parametrize_chunks

POINTS = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 800.0, 1e308, -1e308, np.inf, -np.inf, np.nan]
PAIRS = [0.0, -0.0, 1.0, -1.0, 0.5, 800.0, np.inf]
#: Ufuncs of other numbers than floats.
OTHERS = {"bitwise_count", "invert", "bitwise_invert", "bitwise_not", "isnat"}


def ufuncs(count: int) -> dict[str, Callable[..., Any]]:
    """Return NumPy's and SciPy's ufuncs of so many numbers."""
    return {
        f"{module.__name__}.{name}": ufunc
        for module in (np, special)
        for name in dir(module)
        if isinstance(ufunc := getattr(module, name), np.ufunc)
        and (ufunc.nin, ufunc.nout) == (count, 1)
        and ufunc.signature is None
        and name not in OTHERS
    }


UNARY: dict[str, Callable[..., Any]] = {
    **ufuncs(1),
    **{f"x ** {p}": lambda x, p=p: x**p for p in (-2, -1, 0, 0.0, 1, 2, 3)},
    **{f"|x| ** {p}": lambda x, p=p: abs(x) ** p for p in (-0.5, 0.5, 1.5, 2.5)},
    **{f"{c} ** x": lambda x, c=c: c**x for c in (0.0, 0.5, 2)},
    **{f"{c} / x": lambda x, c=c: c / x for c in (0.0, 1, 2.5)},
    **{f"x / {c}": lambda x, c=c: x / c for c in (0.0, 2)},
    **{f"x // {c}": lambda x, c=c: x // c for c in (0.0, 2)},
    **{f"x % {c}": lambda x, c=c: x % c for c in (0.0, 2)},
    **{f"{c} % x": lambda x, c=c: c % x for c in (0.0, 1.0)},
    **{f"{c} // x": lambda x, c=c: c // x for c in (0.0, 1.0)},
    "1 / x / x": lambda x: 1 / x / x,
    "x ** x": lambda x: abs(x) ** x,
}
BINARY: dict[str, Callable[..., Any]] = {
    **ufuncs(2),
    "x / y": operator.truediv,
    "x // y": operator.floordiv,
    "x % y": operator.mod,
    "|x| ** y": lambda x, y: abs(x) ** y,
}


def outcome(f: Callable[..., Any], *args: Any) -> Any:
    """Return what a function gives, or the type of its error."""
    try:
        with np.errstate(all="ignore"):
            return np.asarray(f(*args))
    except Exception as error:
        return type(error)


def compare(f: Callable[..., Any], *args: float) -> None:
    """Compare the outcome at Python's floats with that at NumPy's."""
    found, truth = outcome(f, *args), outcome(f, *map(np.float64, args))
    if isinstance(truth, type) or isinstance(found, type):
        assert found is truth, args
    else:
        np.testing.assert_allclose(found, truth, rtol=1e-12, err_msg=str(args))


@pytest.mark.filterwarnings("ignore")
@parametrize_chunks(
    "name",
    {name: (name,) for name in UNARY},
    alike={name for name in UNARY if name.startswith("scipy")},
)
def test_derivatives_at_one_number(name: str) -> None:
    f = UNARY[name]
    first = wb.grad(f)
    for x in POINTS:
        compare(first, x)
        compare(wb.grad(first), x)
        compare(lambda x: wb.jvp(f, (x,), (type(x)(1),)), x)
        compare(lambda x: wb.jvp(first, (x,), (type(x)(1),)), x)
        compare(lambda x: wb.vjp(f, x)[1](1.0), x)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.long] if name[:5] == "scipy" else [])
        for name in BINARY
    ],
)
def test_derivatives_at_two_numbers(name: str) -> None:
    f = BINARY[name]
    for x in PAIRS:
        for y in PAIRS:
            for place in (0, 1):
                compare(wb.grad(f, place), x, y)
            compare(wb.grad(wb.grad(f, 0), 1), x, y)
            compare(lambda x, y: wb.jvp(f, (x, y), (type(x)(1), type(x)(2))), x, y)


def test_a_root_at_0_and_what_python_refuses() -> None:
    # No warning either: Python's numbers have none, and ours would name our own line.
    assert wb.grad(lambda a: a**0.5)(0.0) == np.inf
    assert wb.hessian(lambda a: a**0.5)(0.0) == -np.inf
    assert wb.value_and_grad(lambda a: 1 / a)(0.0) == (np.inf, -np.inf)
    assert wb.grad(lambda a: a**-2)(0.0) == -np.inf
    assert wb.value_and_grad(lambda a: a**2)(1e200) == (np.inf, 2e200)
    # Weak, as all Python numbers: a float32 beside it stays one.
    (y,) = wb.trace(lambda a: 1 / a * np.ones(2, np.float32))(0.0).outputs
    assert y.dtype == np.float32
    with pytest.raises(ZeroDivisionError):  # integers have no inf
        wb.trace(lambda i: i // 0)(1)
