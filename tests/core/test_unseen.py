"""What NumPy and SciPy do not see: the error names their function and what to write."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.linalg
import scipy.optimize
import scipy.sparse
import scipy.sparse.linalg

import workbench as wb
from workbench.errors import GradientLostError, TraceError, UsageError

#: As a function finds it whose names are not swapped: inside of an installed package.
scipy = SimpleNamespace(**vars(scipy))

X = np.array([0.3, 0.5, 0.7])


def place(text: str) -> str:
    return text[text.index(" (at") : text.index("): ")]


def turned(x: Any, **like: Any) -> Any:
    return np.array([[np.cos(x[0]), -x[1]], [x[2], 1.0]], **like)


@pytest.mark.parametrize(
    ("name", "f"),
    [
        ("np.linalg.det", lambda a: np.linalg.det(a)),
        ("np.linalg.solve", lambda a: np.linalg.solve(a, np.ones(2))[0]),
        ("np.linalg.svd", lambda a: np.linalg.svd(a)[1][0]),
        ("np.fft.fft", lambda a: np.sum(np.abs(np.fft.fft(a)))),
        ("np.exp", lambda a: np.sum(np.exp(a))),
    ],
)
def test_arrays_of_tensors(name: str, f: Callable[[Any], Any]) -> None:
    with pytest.raises(TraceError) as caught:
        wb.grad(lambda x: f(turned(x)))(X)
    text = str(caught.value)
    assert text.startswith(f"{name} meets an array of objects (at test_unseen.py:")
    assert "np.array([...], like=x)" in text
    with pytest.raises(TraceError) as within:
        wb.grad(lambda y: np.sum(wb.grad(lambda x: f(turned(x)))(y)))(X)
    assert str(within.value) == text.replace(place(text), place(str(within.value)))
    # What it says to write works.
    g = wb.grad(lambda x: f(turned(x, like=x)))(X)
    step = 1e-6 * np.array([0.3, -1.0, 0.5])
    moved = f(turned(X + step)) - f(turned(X - step))
    np.testing.assert_allclose(g @ step * 2, moved, rtol=1e-6)


def test_means_of_lists_as_functions_and_methods() -> None:
    for f in (
        lambda x: np.mean([*x]),
        lambda x: np.array([*x]).mean(),
        lambda x: np.mean(list(x)),
        lambda x: np.mean(tuple(map(np.positive, x))),
        lambda x: np.mean(_list_entries(x)),
        lambda x: _find_mean(_list_entries(x)),
        lambda x: _find_mean((x[0], x[1], x[2])),
        lambda x: _find_mean_of(*x),
        lambda x: np.array(list(x)).mean(),
    ):
        np.testing.assert_allclose(wb.grad(f)(X), np.full(3, 1 / 3), rtol=1e-15)


def _list_entries(x: Any) -> Any:
    return [v * 1.0 for v in x]


def _find_mean(parts: Any) -> Any:
    return np.mean(parts)


def _find_mean_of(*parts: Any) -> Any:
    return np.mean(parts)


def test_a_list_of_arguments_is_told_what_to_write() -> None:
    """Its entries are arguments of their own: nothing says that they are one array."""
    with pytest.raises(GradientLostError, match=r"pass np\.array\(parts\)"):
        wb.grad(_find_mean)([1.0, 2.0, 3.0])


READERS = {
    "mean": "np.mean([x[0], x[1] * x[2]])",
    "std": "np.std([x[0], x[1] * x[2], 2.0])",
    "var": "np.var([[x[0], x[1]], [x[2], 1.0]], axis=0)",
    "median": "np.median([x[0], x[1] * x[2], x[1]])",
    "quantile": "np.quantile([v * v for v in x], 0.3)",
    "percentile": "np.percentile([x[0], x[1], x[2]], 60)",
    "average": "np.average([x[0], x[1] * x[2]], weights=[1.0, 3.0])",
    "cov": "np.cov([[x[0], x[1], 1.0], [x[2], 0.3, x[0]]])",
    "gradient": "np.gradient([x[0], x[1] * x[2], x[2]])",
    "nanmean": "np.nanmean([x[0], np.nan, x[1]])",
}


@pytest.mark.parametrize("name", READERS)
def test_lists_where_numpy_reads_one_array(name: str) -> None:
    space: dict[str, Any] = {"np": np}
    exec(f"def f(x): return np.sum({READERS[name]} ** 2)", space)
    f = space["f"]
    step = 1e-6
    truth = [(f(X + step * e) - f(X - step * e)) / (2 * step) for e in np.eye(3)]
    np.testing.assert_allclose(wb.grad(f)(X), truth, rtol=1e-7, atol=1e-8)


def fill(out: Any, index: Any, value: Any) -> Any:
    out[index] = value
    return np.sum(out)


@pytest.mark.parametrize(
    "index", [0, (0, slice(None)), slice(1), np.array([True, False])]
)
def test_storing_into_a_plain_array(index: Any) -> None:
    out = np.zeros((2, 3))
    with pytest.raises(GradientLostError, match=r"stored into a plain array.*out\[ind"):
        wb.grad(lambda x: fill(out, index, x))(X)


def test_numbers_and_dtypes() -> None:
    with pytest.raises(GradientLostError, match=r"np\.sqrt\(x\) in place of math\.sqr"):
        wb.grad(lambda x: math.sqrt(x[0]))(X)
    with pytest.raises(GradientLostError, match=r"x\.astype\(\.\.\.\), or leave the d"):
        wb.grad(lambda x: np.sum(np.array(x, dtype=float)))(X)
    with pytest.raises(
        GradientLostError, match=r"Generator\(np\.random\.default_rng\(0\)\)\.normal"
    ):
        wb.grad(lambda x: np.sum(np.random.default_rng(0).normal(x, 1.0)))(X)


def test_numbers_of_what_has_no_value_yet() -> None:
    # x.value would not help: there is none.
    for f in (lambda n: math.exp(n), lambda n: sum(range(n)), lambda n: n.tolist()):
        with pytest.raises(GradientLostError) as caught:
            wb.vmap(f)(np.arange(3))
        assert "test_unseen.py" in str(caught.value)
        assert "in vmap by in_axes=None" in str(caught.value)
        assert "x.value" not in str(caught.value)


EYE = scipy.sparse.eye_array(3, format="csc")
PLACES = (np.arange(3), np.arange(3))


@pytest.mark.parametrize(
    ("f", "called", "cure"),
    [
        (
            lambda x: scipy.sparse.coo_array((x, PLACES)).sum(),
            "scipy.sparse.coo_array",
            "Write workbench.scipy.sparse.coo_array, which does",
        ),
        (
            lambda x: scipy.sparse.linalg.spsolve(EYE, x)[0],
            "scipy.sparse.linalg.spsolve",
            "Write workbench.scipy.sparse.linalg.spsolve, which does",
        ),
        (
            lambda x: scipy.sparse.linalg.cg(EYE, x)[0][0],
            "scipy.sparse.linalg.cg",
            "Write workbench.scipy.sparse.linalg.cg, which does",
        ),
        (
            lambda x: scipy.optimize.minimize(lambda y: np.sum((y - x) ** 2), X).x[0],
            "scipy.optimize.minimize",
            "Write workbench.scipy.optimize.minimize, which does",
        ),
        (
            lambda x: scipy.linalg.cholesky(np.diag(x))[0, 0],
            "scipy.linalg.cholesky",
            "Write workbench.scipy.linalg.cholesky, which does",
        ),
    ],
)
def test_functions_of_scipy(f: Callable[[Any], Any], called: str, cure: str) -> None:
    with pytest.raises(GradientLostError) as caught:
        wb.grad(f)(X)
    text = str(caught.value)
    assert text.startswith(f"{called} (at test_unseen.py:")
    assert cure in text


def test_errors_of_functions_without_tensors_stay() -> None:
    with pytest.raises(ValueError, match="shapes of A"):
        wb.grad(lambda x: x[0] * scipy.sparse.linalg.cg(EYE, np.ones(4))[0][0])(X)


@pytest.mark.parametrize("transform", [wb.grad, wb.jacobian, wb.hessian])
def test_the_point_in_the_place_of_argnums(transform: Any) -> None:
    name = transform.__name__
    with pytest.raises(UsageError, match=rf"{name}\(f, x\) is {name}\(f\)\(x\)"):
        transform(np.sum, X)
    assert transform(np.sum, np.int64(0))(X).shape in ((3,), (3, 3))
