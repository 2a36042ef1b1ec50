"""SciPy as others import it, and installed packages whose code is traced."""

from __future__ import annotations

import pickle
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.integrate as integrate
import scipy.special
import scipy.stats
from scipy import linalg, optimize, stats
from scipy.linalg import solve_triangular
from scipy.special import expit, logsumexp
from scipy.stats import norm, rv_continuous

import workbench as wb
from tests.core.test_filling import differences
from workbench.errors import GradientLostError, UsageError
from workbench.numpy import namespaces, reach

X = np.array([1.0, 2.0, 3.0])
NORM = [norm]


@pytest.fixture(autouse=True)
def _names_are_restored() -> Iterator[None]:
    yield
    assert norm is NORM[0]
    assert stats is sys.modules["scipy.stats"]
    assert not namespaces.ACTIVE


CHECKED: list[Callable[[Any], Any]] = []


def checked(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Note a function of three numbers, whose gradient is that of differences."""
    CHECKED.append(f)
    return f


@checked
def densities(x: Any) -> Any:
    frozen = norm(x[0], 1.5)
    return np.sum(norm.cdf(x) + frozen.logpdf(x) + stats.t.logpdf(x, 3.0))


@checked
def whole_names(x: Any) -> Any:
    return np.sum(scipy.stats.norm.logsf(x)) + scipy.special.logsumexp(x)


@checked
def ufuncs_and_functions(x: Any) -> Any:
    return np.sum(expit(x)) + logsumexp(x * [1.0, -1.0, 2.0])


@checked
def matrices(x: Any) -> Any:
    lower = np.eye(3) * x + np.tri(3, k=-1)
    return np.sum(linalg.solve(lower + 1.0, x) + solve_triangular(lower, x, lower=True))


@checked
def equations_of_motion(x: Any) -> Any:
    def rate(t: Any, y: Any) -> Any:
        return -x[0] * y

    tight = {"rtol": 1e-10, "atol": 1e-10}
    found = integrate.solve_ivp(rate, (0, 1.0), x[1:], **tight)
    return np.sum(found.y[:, -1])


@checked
def areas(x: Any) -> Any:
    return integrate.quad(lambda t: np.sin(t * x[0]), 0, 1.0)[0] * x[1]


@checked
def roots(x: Any) -> Any:
    found = optimize.root_scalar(lambda z: z**3 - x[0], bracket=(0.1, 5.0), xtol=1e-14)
    return found.root * x[1]


@checked
def plain_numbers_are_scipys(x: Any) -> Any:
    found = optimize.minimize(lambda z: np.sum((z - 2.0) ** 2), np.zeros(2))
    assert isinstance(norm, rv_continuous)
    assert type(norm.cdf(0.3)) is np.float64
    assert pickle.loads(pickle.dumps(norm)).name == "norm"
    assert found.success
    return x[0] * norm.cdf(0.3) + x[1] * round(found.x[0], 6)


@pytest.mark.parametrize("f", CHECKED, ids=lambda f: f.__name__)
def test_scipy_as_others_import_it(f: Callable[[Any], Any]) -> None:
    value, gradient = wb.value_and_grad(f)(X)
    np.testing.assert_allclose(value, f(X), rtol=1e-9)
    np.testing.assert_allclose(gradient, differences(f, X, 1e-3), rtol=1e-6, atol=1e-7)


def test_a_function_of_scipys_itself() -> None:
    np.testing.assert_allclose(
        wb.grad(scipy.special.logsumexp)(X), scipy.special.softmax(X)
    )


def test_another_thread_sees_scipy() -> None:
    found: list[Any] = []

    def run() -> None:
        found.append(norm.pdf(0.0))
        found.append(linalg.det(np.eye(2)))
        found.append(stats.norm.name)

    def f(x: Any) -> Any:
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        return np.sum(norm.cdf(x))

    wb.grad(f)(X)
    assert found == [norm.pdf(0.0), 1.0, "norm"]


# Packages

MODULE = """
import numpy as np
from scipy.stats import norm

def scale(x):
    out = np.zeros(len(x))
    for i in range(len(x)):
        out[i] = norm.cdf(x[i]) * (i + 1)
    if type(out) is np.ndarray and isinstance(x, np.ndarray):
        return out
    raise TypeError(type(out))

def store(x):
    out = np.zeros(3)
    out[0] = x[0]
    return out[0]

class Model:
    def __init__(self, family=norm):
        self.family = family
    def score(self, x):
        from . import inner
        return np.sum(scale(x)) + inner.square(x) + self.family.sf(x[0])
"""
INNER = """
import numpy as np

def square(x):
    out = np.zeros_like(np.asarray(x, dtype=float))
    out += x
    out[0] **= 2
    return out[0]
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """An installed package that fills arrays."""
    home = tmp_path / "site-packages" / "swap_sample"
    home.mkdir(parents=True)
    (home / "__init__.py").write_text(MODULE)
    (home / "inner.py").write_text(INNER)
    monkeypatch.syspath_prepend(home.parent)
    yield pytest.importorskip("swap_sample")
    for name in ("swap_sample", "swap_sample.inner"):
        sys.modules.pop(name, None)


def test_a_named_package_is_traced(package: Any) -> None:
    def f(x: Any) -> Any:
        return package.Model().score(x)

    truth = differences(f, X, 1e-3)
    with pytest.raises(GradientLostError, match=r'trace_packages\("swap_sample"\)'):
        wb.grad(f)(X)
    with wb.trace_packages("swap_sample"):
        np.testing.assert_allclose(wb.grad(f)(X), truth, rtol=1e-8)
        assert package.scale(X).__class__ is np.ndarray
        with wb.trace_packages("swap_sample"):
            pass
        np.testing.assert_allclose(wb.grad(f)(X), truth, rtol=1e-8)
    assert package.np is np
    assert package.norm is norm
    with pytest.raises(GradientLostError):
        wb.grad(f)(X)


def test_a_store_in_a_package_names_it(package: Any) -> None:
    with pytest.raises(GradientLostError, match=r'trace_packages\("swap_sample"\)'):
        wb.grad(lambda x: package.store(x))(X)


def test_packages_named_for_good(package: Any) -> None:
    held = wb.trace_packages("swap_sample")
    assert repr(held) == "trace_packages('swap_sample')"
    found = wb.grad(lambda x: np.sum(package.scale(x)))(X)
    np.testing.assert_allclose(found, norm.pdf(X) * [1, 2, 3], rtol=1e-12)
    with held:
        pass
    assert package.np is np


@pytest.mark.parametrize(
    ("names", "told"),
    [
        ((), r"given no package.*trace_packages\(\"statsmodels\"\)"),
        (("no_such_package_here",), r"no package of this name.*pip install no_such"),
        (("scipy.stats",), r"the name of a whole package"),
        (("numpy",), r"needs no such call"),
    ],
)
def test_what_is_no_package(names: tuple[str, ...], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        wb.trace_packages(*names)
    assert not reach.PACKAGES
