"""Every function of the standard, on Tensors inside a trace, against NumPy.

The values, shapes and dtypes are NumPy's own on plain arrays, for each dtype that
the standard lets the function take, and for shapes with many, one and no entries.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench as wb
import workbench.numpy as wnp
from tests.chunks import parametrize_chunks
from tests.numpy import standard
from tests.numpy.cases import CASES, Case
from workbench.core.tensor import Tensor

NAMES = [
    *standard.functions(standard.MAIN),
    *(f"linalg.{name}" for name in standard.functions(standard.LINALG)),
    *(f"fft.{name}" for name in standard.functions(standard.FFT)),
]
DTYPES = {
    "b": ["bool"],
    "i": ["int8", "int64"],
    "u": ["uint8", "uint32"],
    "f": ["float32", "float64"],
    "c": ["complex64", "complex128"],
}

#: Those that take a dtype and give its limits: `test_names.py` compares all of them.
APART = {"finfo", "iinfo"}


def test_every_name_has_a_case() -> None:
    assert set(CASES) == set(NAMES) - APART


def arrays(case: Case, kind: str, rng: np.random.Generator) -> list[list[Any]]:
    """The arguments of a case for a kind of dtypes: positive, with ties."""
    found = []
    for dtype in DTYPES[kind]:
        for shapes in case.shapes:
            row = [rng.integers(1, 4, shape) for shape in shapes]
            if kind in "fc":
                row = [x + rng.uniform(0, 0.5, x.shape) for x in row]
            if kind == "c":
                row = [x + 1j * rng.uniform(0, 1, x.shape) for x in row]
            if kind == "b":
                row = [x > 1 for x in row]
            found.append([np.asarray(x, dtype) for x in row])
    return found


def inside(call: Callable[..., Any], args: list[Any]) -> Any:
    """What a call gives inside a trace, for Tensors: those of floats vary."""
    kept: list[Any] = []

    def f(*given: Any) -> None:
        tensors = [wnp.asarray(x) for x in given]
        assert all(isinstance(x, Tensor) for x in tensors)
        kept.append(call(wnp, *tensors))

    wb.trace(f)(*args)
    return kept[0]


def same(got: Any, truth: Any, exact: bool) -> None:
    """Tensors of the values of arrays, to the last bits where exact; the rest equal."""
    if isinstance(truth, (tuple, list)):
        assert len(got) == len(truth)
        assert getattr(got, "_fields", ()) == getattr(truth, "_fields", ())
        for a, b in zip(got, truth, strict=True):
            same(a, b, exact)
        return
    if isinstance(truth, (bool, np.dtype)):
        assert got == truth
        return
    truth = np.asarray(truth)
    assert isinstance(got, Tensor), f"{type(got)} in place of a Tensor"
    assert got.__array_namespace__() is wnp
    assert (got.shape, got.dtype) == (truth.shape, truth.dtype)
    if truth.dtype.kind in "biu":
        np.testing.assert_array_equal(got.value, truth)
        return
    eps = float(np.finfo(truth.dtype).eps)
    rtol, atol = (4 * eps, 0.0) if exact else (1e3 * eps, 1e3 * eps)
    np.testing.assert_allclose(got.value, truth, rtol=rtol, atol=atol)


@pytest.mark.filterwarnings("ignore:invalid value|divide by zero|overflow")
@pytest.mark.filterwarnings("ignore:Casting complex values")
@parametrize_chunks("name", {name: (name,) for name in CASES})
def test_values(name: str, rng: np.random.Generator) -> None:
    exact = "." not in name
    for case in CASES[name]:
        for kind in case.kinds:
            for args in arrays(case, kind, rng):
                same(inside(case.call, args), case.call(np, *args), exact)


@parametrize_chunks("name", {name: (name,) for name in CASES})
def test_plain_arrays_stay_plain(name: str, rng: np.random.Generator) -> None:
    """Outside a trace the namespace is NumPy, in which nothing is recorded."""
    case = CASES[name][0]
    args = arrays(case, case.kinds[0], rng)[0]
    with np.errstate(all="ignore"):
        got, truth = case.call(wnp, *args), case.call(np, *args)

    def compare(a: Any, b: Any) -> None:
        if isinstance(b, (tuple, list)):
            for x, y in zip(a, b, strict=True):
                compare(x, y)
            return
        assert not isinstance(a, Tensor)
        np.testing.assert_array_equal(a, b)

    compare(got, truth)


# Where NumPy has no such function


@pytest.mark.parametrize("axis", [0, -1])
def test_descending(axis: int, rng: np.random.Generator) -> None:
    x = rng.integers(0, 3, (5, 6)).astype(float)
    order = np.array(
        [
            sorted(range(len(row)), key=lambda i: -row[i])
            for row in np.moveaxis(x, axis, -1)
        ]
    )
    order = np.moveaxis(order, -1, axis)

    def argsort(xp: Any, a: Any) -> Any:
        return xp.argsort(a, axis=axis, descending=True)

    def sort(xp: Any, a: Any) -> Any:
        return xp.sort(a, axis=axis, descending=True)

    np.testing.assert_array_equal(argsort(wnp, x), order)
    same(inside(argsort, [x]), order, exact=True)
    np.testing.assert_array_equal(sort(wnp, x), -np.sort(-x, axis=axis))
    same(inside(sort, [x]), -np.sort(-x, axis=axis), exact=True)
    # The cotangent of the i-th sorted entry goes where argsort says it came from.
    g = rng.standard_normal(x.shape)
    _, pullback = wb.vjp(lambda a: sort(wnp, a), x)
    expected = np.empty_like(x)
    np.put_along_axis(expected, order, g, axis)
    np.testing.assert_array_equal(pullback(g)[0], expected)


def test_frequencies_of_a_dtype() -> None:
    for name in ("fftfreq", "rfftfreq"):
        got = getattr(wnp.fft, name)(6, d=0.25, dtype=wnp.float32, device="cpu")
        assert got.dtype == np.float32
        np.testing.assert_allclose(got, getattr(np.fft, name)(6, 0.25), rtol=1e-6)


def test_unique_values_have_gradients() -> None:
    x = np.array([3.0, 1.0, 3.0, 2.0])
    truth = np.zeros((3, 4))
    truth[[0, 1, 2], [1, 3, 0]] = 1  # the first of those that are equal
    for name in ("unique_all", "unique_counts", "unique_inverse"):
        jacobian = wb.jacobian(lambda a, f=name: getattr(wnp, f)(a).values)(x)
        np.testing.assert_array_equal(jacobian, truth)
    np.testing.assert_array_equal(wb.jacobian(wnp.unique_values)(x), truth)


def test_unique_counts_every_nan() -> None:
    x = np.array([np.nan, 1.0, np.nan])
    assert wnp.unique_values(x).shape == (3,)
    assert inside(lambda xp, a: xp.unique_counts(a).counts, [x]).shape == (3,)


def test_unique_without_values_says_why() -> None:
    with pytest.raises(TypeError, match=r"unique_all.*Trace with values"):
        wb.trace(wnp.unique_all)(wb.Spec((3,), float))


def test_one_number_counted_is_an_array() -> None:
    for x in (np.eye(3), np.float64(2.0)):
        found = wnp.count_nonzero(x)
        assert (found.shape, found.dtype.kind) == ((), "i")
