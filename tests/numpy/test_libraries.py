"""SciPy and scikit-learn on Tensors: right gradients, or an error that says why."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.numpy import libraries
from workbench.errors import WorkbenchError

PROGRAM = Path(libraries.__file__)
ROOT = PROGRAM.parents[2]


@pytest.fixture(scope="session")
def report(common_folder: Path) -> Callable[[str], Any]:
    """Gives what `libraries.py` finds in a process of its own, once for all workers."""

    @cache
    def find(library: str) -> Any:
        path = common_folder / f"{library}.json"
        with path.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not path.exists():
                answer = subprocess.run(
                    [sys.executable, str(PROGRAM), library],
                    capture_output=True,
                    text=True,
                    timeout=300,
                    check=True,
                    env={**os.environ, "PYTHONPATH": str(ROOT)},
                )
                path.write_text(answer.stdout)
        return json.loads(path.read_text())

    return find


def close(found: dict[str, Any]) -> None:
    assert "error" not in found, found["error"]
    assert found["value"] < 1e-13
    assert found["rev"] < 1e-9
    assert found["fwd"] < 1e-9


@pytest.mark.parametrize("name", libraries.of_scipy())
def test_scipy_differentiates(name: str, report: Callable[[str], Any]) -> None:
    close(report("scipy")[name])


def _sklearn() -> list[str]:
    """The functions of scikit-learn, where it is installed."""
    return list(libraries.of_sklearn()) if find_spec("sklearn") else []


@pytest.mark.long
@pytest.mark.parametrize("name", _sklearn())
def test_sklearn_differentiates(name: str, report: Callable[[str], Any]) -> None:
    close(report("sklearn")[name])


# Without the array-API paths: what is not right is an error


def _without() -> dict[str, libraries.Program]:
    import scipy.cluster.vq
    from scipy import fft, integrate, interpolate, optimize, signal, special, stats
    from scipy.spatial import distance

    x, y, a = libraries.X, libraries.Y, libraries.A
    square = a[:3] + 2 * np.eye(3)
    found: dict[str, libraries.Program] = {
        "special.logsumexp": (special.logsumexp, (x,)),
        "special.softmax": (special.softmax, (x,)),
        "special.erf": (special.erf, (x,)),
        "special.xlogy": (special.xlogy, (x, y)),
        "stats.zscore": (stats.zscore, (x,)),
        "stats.gmean": (stats.gmean, (x,)),
        "stats.skew": (stats.skew, (x,)),
        "stats.entropy": (stats.entropy, (x,)),
        "stats.norm.logpdf": (stats.norm.logpdf, (x,)),
        "stats.pearsonr": (lambda x, y: stats.pearsonr(x, y).statistic, (x, y)),
        "stats.linregress": (lambda x, y: stats.linregress(x, y).slope, (x, y)),
        "stats.gaussian_kde": (lambda x: stats.gaussian_kde(x)(0.3), (x,)),
        "linalg.expm": (scipy.linalg.expm, (square,)),
        "linalg.inv": (scipy.linalg.inv, (square,)),
        "linalg.solve": (scipy.linalg.solve, (square, x[:3])),
        "linalg.norm": (scipy.linalg.norm, (x,)),
        "linalg.cholesky": (scipy.linalg.cholesky, (square @ square.T,)),
        "signal.convolve": (signal.convolve, (x, y)),
        "signal.fftconvolve": (signal.fftconvolve, (x, y)),
        "signal.lfilter": (lambda x: signal.lfilter([1.0], [1.0, 0.5], x), (x,)),
        "signal.detrend": (signal.detrend, (x,)),
        "fft.dct": (fft.dct, (x,)),
        "fft.rfft": (lambda x: abs(fft.rfft(x)), (x,)),
        "integrate.simpson": (integrate.simpson, (x,)),
        "integrate.trapezoid": (integrate.trapezoid, (x,)),
        "interpolate.CubicSpline": (
            lambda x: interpolate.CubicSpline(np.arange(7.0), x)(2.5),
            (x,),
        ),
        "optimize.rosen": (optimize.rosen, (x,)),
        "spatial.cdist": (distance.cdist, (a, a[:2] + 1)),
    }
    if not _sklearn():
        return found
    from sklearn import decomposition, linear_model, metrics, preprocessing

    return found | {
        "metrics.mean_squared_error": (metrics.mean_squared_error, (x, y)),
        "metrics.r2_score": (metrics.r2_score, (x, y)),
        "metrics.pairwise.rbf_kernel": (metrics.pairwise.rbf_kernel, (a, a[:2])),
        "preprocessing.scale": (preprocessing.scale, (a,)),
        "preprocessing.StandardScaler": (
            lambda a: preprocessing.StandardScaler().fit_transform(a),
            (a,),
        ),
        "decomposition.PCA": (lambda a: decomposition.PCA(2).fit_transform(a), (a,)),
        "linear_model.Ridge": (
            lambda a, t: linear_model.Ridge().fit(a, t).coef_,
            (a, x[:6]),
        ),
    }


WITHOUT = {} if os.environ.get("SCIPY_ARRAY_API") else _without()


@pytest.mark.parametrize("name", WITHOUT)
def test_no_gradient_is_lost_in_silence(name: str) -> None:
    f, args = WITHOUT[name]
    everyone = tuple(range(len(args)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plain = np.asarray(f(*args))
        try:
            jacobians = wb.jacobian(f, everyone)(*args)
        except WorkbenchError as error:
            assert "x.value" in str(error)  # noqa: PT017 it may also be right
            return
        for i, got in enumerate(jacobians):
            truth = libraries.differences(f, args, i)
            assert got.shape == plain.shape + args[i].shape
            np.testing.assert_allclose(got, truth, rtol=1e-8, atol=1e-9)


def test_an_error_names_the_function() -> None:
    import scipy.cluster.vq

    f: Callable[..., Any] = scipy.cluster.vq.whiten
    with pytest.raises(WorkbenchError, match=r"scipy\.cluster.*whiten .*does not see"):
        wb.grad(lambda a: np.sum(f(a)))(np.eye(2))
