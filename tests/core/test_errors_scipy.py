"""Functions of SciPy that do not see Tensors: the error names the one that does."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.cluster.vq
import scipy.fft
import scipy.integrate
import scipy.interpolate
import scipy.linalg
import scipy.ndimage
import scipy.optimize
import scipy.signal
import scipy.sparse.linalg
import scipy.special
import scipy.stats

import workbench as wb
from tests.core.test_errors import X, gradient
from workbench.errors import GradientLostError

#: As a function finds it whose names are not swapped: inside of an installed package.
scipy = SimpleNamespace(**vars(scipy))


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


def square(a: Any) -> Callable[[Any], Any]:
    return lambda y: np.sum((y - a) ** 2)


def cube(a: Any) -> Callable[[Any], Any]:
    return lambda y: y**3 - a


def decay(a: Any) -> Callable[..., Any]:
    return lambda t, y: -a * y


ODES = {"dopri5", "dop853", "vode", "lsoda"}
#: Solvers of SciPy's given a function that reads a Tensor, and what to write instead.
SOLVERS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "fsolve": (
        lambda a: scipy.optimize.fsolve(cube(a), 1.0)[0],
        "workbench.scipy.optimize.root(f, x0).x",
    ),
    "root": (
        lambda a: scipy.optimize.root(cube(a), [1.0]).x[0],
        "workbench.scipy.optimize.root,",
    ),
    "root lm": (
        lambda a: scipy.optimize.root(cube(a), [1.0], method="lm").x[0],
        "workbench.scipy.optimize.root,",
    ),
    "leastsq": (
        lambda a: scipy.optimize.leastsq(cube(a), [1.0])[0][0],
        "workbench.scipy.optimize.least_squares(residuals, x0).x",
    ),
    "curve_fit": (
        lambda a: scipy.optimize.curve_fit(lambda x, b: b * x * a, X, X)[0][0],
        "workbench.scipy.optimize.least_squares",
    ),
    "toms748": (
        lambda a: scipy.optimize.toms748(cube(a), 0, 2),
        "workbench.scipy.optimize.root_scalar",
    ),
    "minimize_scalar": (
        lambda a: scipy.optimize.minimize_scalar(square(a)).x,
        "workbench.scipy.optimize.minimize",
    ),
    "differential_evolution": (
        lambda a: scipy.optimize.differential_evolution(square(a), [(0, 3)]).x[0],
        "give the point that it finds to workbench.scipy.optimize.minimize",
    ),
    "linprog": (
        lambda a: scipy.optimize.linprog(np.ones(2) * a).x[0],
        "which constraints hold with equality",
    ),
    "approx_fprime": (
        lambda a: scipy.optimize.approx_fprime(np.ones(1), square(a))[0],
        "wb.grad(f)",
    ),
    **{
        name: (
            lambda a, name=name: (
                scipy.integrate.ode(decay(a))
                .set_integrator(name)
                .set_initial_value(1.0, 0.0)
                .integrate(1.0)[0]
            ),
            "workbench.scipy.integrate.solve_ivp(f, t_span, y0)",
        )
        for name in sorted(ODES)
    },
    "dblquad": (
        lambda a: scipy.integrate.dblquad(lambda u, v: a * u * v, 0, 1, 0, 1)[0],
        "workbench.scipy.integrate.dblquad",
    ),
    "solve_bvp": (
        lambda a: scipy.integrate.solve_bvp(
            lambda x, y: np.vstack([y[1], -y[0]]),
            lambda left, right: np.array([left[0], right[0] - a]),
            np.linspace(0, 1, 5),
            np.zeros((2, 5)),
        ).y[0, 2],
        "workbench.scipy.integrate.solve_bvp",
    ),
    "LinearOperator": (
        lambda a: scipy.sparse.linalg.cg(
            scipy.sparse.linalg.LinearOperator((2, 2), matvec=lambda v: a * v),
            np.ones(2),
        )[0][0],
        "wb.custom_linear_solve",
    ),
    "splu": (
        lambda a: scipy.sparse.linalg.splu(scipy.sparse.csc_array(np.eye(2))).solve(
            np.ones(2) * a
        )[0],
        "wb.custom_linear_solve",
    ),
    "generic_filter": (
        lambda a: scipy.ndimage.generic_filter(X, lambda v: a * v.sum(), 3)[0],
        "sliding_window_view",
    ),
}


@pytest.mark.parametrize("name", SOLVERS)
def test_solvers_that_call_back(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    f, cure = SOLVERS[name]
    before = sys.excepthook
    transforms: list[Any] = [lambda f: wb.grad(f)(1.0), lambda f: wb.vjp(f, 1.0)]
    if name not in ("toms748", "minimize_scalar"):  # which look at values first
        transforms.append(lambda f: wb.trace(f)(wb.Spec((), float)))
    for transform in transforms:
        with pytest.raises(GradientLostError) as error:
            transform(f)
        text = str(error.value)
        assert cure in text, text
        assert "test_errors_scipy.py" in text
        if name not in ODES | {"LinearOperator", "splu"}:
            assert f"{name.split()[0]} (at" in text
        assert sys.excepthook is before
    assert capfd.readouterr().err == ""


def test_an_error_that_nobody_takes_is_printed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(GradientLostError) as caught:
        wb.grad(lambda a: scipy.optimize.brentq(cube(a), 0, 2))(1.0)
    sys.excepthook(caught.type, caught.value, caught.tb)
    assert "GradientLostError" in capsys.readouterr().err
