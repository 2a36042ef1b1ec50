"""Functions of SciPy that do not see Tensors: the error names the one that does."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import scipy.cluster.vq
import scipy.fft
import scipy.integrate
import scipy.interpolate
import scipy.linalg
import scipy.ndimage
import scipy.signal
import scipy.special
import scipy.stats

import workbench as wb
from tests.core.test_errors import X, gradient
from workbench.errors import GradientLostError


@pytest.mark.parametrize(
    ("f", "name"),
    [
        (lambda x: scipy.linalg.expm(np.outer(x, x)), "scipy.linalg.expm"),
        (lambda x: scipy.linalg.inv(np.outer(x, x)), "scipy.linalg.inv"),
        (lambda x: scipy.signal.convolve(x, x), "scipy.signal.convolve"),
        (lambda x: scipy.stats.norm.logpdf(x), "scipy.stats.norm.logpdf"),
        (lambda x: scipy.stats.zscore(x), "scipy.stats.zscore"),
        (
            lambda x: scipy.stats.multivariate_normal(x, np.eye(3)).logpdf(X),
            "scipy.stats.multivariate_normal",
        ),
        (
            lambda x: scipy.stats.multivariate_normal.logpdf(X, x),
            "scipy.stats.multivariate_normal.logpdf",
        ),
        (lambda x: scipy.stats.norm(x).cdf(X), "scipy.stats.norm.cdf"),
        (lambda x: scipy.fft.dct(x), "scipy.fft.dct"),
        (
            lambda x: scipy.ndimage.gaussian_filter(x, 1.0),
            "scipy.ndimage.gaussian_filter",
        ),
        (lambda x: scipy.special.logsumexp(x), "scipy.special.logsumexp"),
        (lambda x: scipy.special.comb(x, 2), "scipy.special.comb"),
        (lambda x: scipy.interpolate.interp1d(X, x), "scipy.interpolate.interp1d"),
        (
            lambda x: scipy.integrate.quad(lambda t: t * x[0], 0, 1)[0],
            "scipy.integrate.quad",
        ),
    ],
)
def test_functions_of_scipy(f: Callable[[Any], Any], name: str) -> None:
    with pytest.raises(GradientLostError, match=f"{name}.*not see Tensors") as error:
        gradient(f)
    text = str(error.value)
    assert "test_errors_scipy.py" in text, text
    assert "x.value" in text
    assert f"workbench.{name}, which does" in text or "NumPy's functions" in text


def test_the_cure_of_a_distribution_of_vectors() -> None:
    with pytest.raises(GradientLostError) as error:
        gradient(lambda x: scipy.stats.multivariate_normal(x, np.eye(3)).logpdf(X))
    cure = "Write workbench.scipy.stats.multivariate_normal, which does"
    assert cure in str(error.value)


def test_the_cure_names_what_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(GradientLostError) as error:
        gradient(lambda x: scipy.cluster.vq.whiten(x))
    assert "Write it with NumPy's functions" in str(error.value)
    ours = ModuleType("workbench.scipy.cluster.vq")
    ours.whiten = np.sin  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, ours.__name__, ours)
    with pytest.raises(GradientLostError) as error:
        gradient(lambda x: scipy.cluster.vq.whiten(x))
    assert "Write workbench.scipy.cluster.vq.whiten, which does" in str(error.value)


@pytest.mark.parametrize(
    "f",
    [
        scipy.special.softmax,
        scipy.integrate.trapezoid,
        scipy.integrate.simpson,
    ],
)
def test_functions_of_scipy_in_plain_numpy(f: Callable[[Any], Any]) -> None:
    h = 1e-6
    weights = np.arange(1.0, 1.0 + np.size(f(X)))
    found = wb.grad(lambda x: np.sum(weights * f(x)))(np.copy(X))
    truth = [
        np.sum(weights * (f(X + h * e) - f(X - h * e))) / (2 * h) for e in np.eye(3)
    ]
    np.testing.assert_allclose(found, truth, atol=1e-8)
