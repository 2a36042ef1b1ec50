"""Functions of SciPy and scikit-learn on Tensors, by their array-API paths.

SciPy reads ``SCIPY_ARRAY_API`` when it is imported, so `test_libraries.py` runs
this file in a process of its own. It prints one JSON object: for each function,
how far its derivatives in both modes are from differences of the plain call.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

RNG = np.random.default_rng(0)
X, Y = RNG.uniform(0.2, 0.9, (2, 7))
A = RNG.uniform(0.2, 0.9, (6, 3))
B = RNG.uniform(0.2, 0.9, (5, 3))

Program = tuple[Callable[..., Any], tuple[Any, ...]]


def of_scipy() -> dict[str, Program]:
    from scipy import fft, integrate, optimize, signal, special, stats
    from scipy.cluster.vq import whiten
    from scipy.differentiate import derivative
    from scipy.spatial.transform import Rotation

    import workbench.numpy as wnp

    return {
        "special.erf": (special.erf, (X,)),
        "special.gammaln": (special.gammaln, (X + 3,)),
        "special.expit of log1p": (lambda a: special.expit(special.log1p(a)), (A,)),
        "special.log_softmax": (special.log_softmax, (X,)),
        "special.logsumexp": (special.logsumexp, (X,)),
        "special.logsumexp of rows": (lambda a: special.logsumexp(a, axis=1), (A,)),
        "special.rel_entr": (special.rel_entr, (X, Y)),
        "special.softmax": (special.softmax, (X,)),
        "special.xlogy": (special.xlogy, (X, Y)),
        "stats.boxcox_llf": (lambda x: stats.boxcox_llf(0.7, x), (X,)),
        "stats.entropy": (stats.entropy, (X, Y)),
        "stats.iqr": (stats.iqr, (X,)),
        "stats.quantile": (lambda x: stats.quantile(x, 0.3), (X,)),
        "stats.tstd": (stats.tstd, (X,)),
        "stats.tvar": (stats.tvar, (X,)),
        "stats.zmap": (stats.zmap, (X, Y)),
        "stats.zscore": (stats.zscore, (X,)),
        "stats.gmean": (stats.gmean, (X,)),
        "stats.hmean": (stats.hmean, (X,)),
        "stats.pmean": (lambda x: stats.pmean(x, 3), (X,)),
        "stats.skew": (stats.skew, (X,)),
        "stats.kurtosis": (stats.kurtosis, (X,)),
        "stats.moment": (lambda x: stats.moment(x, order=3), (X,)),
        "stats.sem": (stats.sem, (X,)),
        "stats.circmean": (stats.circmean, (X,)),
        "stats.circvar": (stats.circvar, (X,)),
        "stats.directional_stats": (
            lambda a: stats.directional_stats(a).mean_direction,
            (A,),
        ),
        "stats.describe": (lambda x: stats.describe(x).variance, (X,)),
        "stats.trim_mean": (lambda x: stats.trim_mean(x, 0.2), (X,)),
        "signal.envelope": (signal.envelope, (X,)),
        "signal.hilbert": (lambda x: abs(signal.hilbert(x)), (X,)),
        "signal.fftconvolve": (signal.fftconvolve, (X, Y)),
        "signal.oaconvolve": (signal.oaconvolve, (X, Y)),
        "signal.oaconvolve of data": (
            lambda x: signal.oaconvolve(x, wnp.asarray(Y)),
            (X,),
        ),
        "signal.resample": (lambda x: signal.resample(x, 10), (X,)),
        "signal.freqz": (lambda x: abs(signal.freqz(x)[1]), (X,)),
        "fft.fft": (lambda x: abs(fft.fft(x)), (X,)),
        "fft.rfft": (lambda x: abs(fft.rfft(x)), (X,)),
        "fft.fht": (lambda x: fft.fht(x, 0.1, 0.2), (X,)),
        "cluster.vq.whiten": (whiten, (A,)),
        "differentiate.derivative": (lambda x: derivative(np.exp, x).df, (X,)),
        "integrate.cumulative_simpson": (integrate.cumulative_simpson, (X,)),
        "integrate.trapezoid": (integrate.trapezoid, (X,)),
        "integrate.simpson": (integrate.simpson, (X,)),
        "integrate.cumulative_trapezoid": (integrate.cumulative_trapezoid, (X,)),
        "optimize.rosen": (optimize.rosen, (X,)),
        "Rotation.as_matrix": (
            lambda x: Rotation.from_rotvec(x).as_matrix(),
            (X[:3],),
        ),
        "Rotation.as_rotvec": (
            lambda x: Rotation.from_quat(x).as_rotvec(),
            (X[:4],),
        ),
    }


def of_sklearn() -> dict[str, Program]:
    from sklearn import (
        decomposition,
        linear_model,
        metrics,
        naive_bayes,
        preprocessing,
    )
    from sklearn.metrics import pairwise

    import workbench.numpy as wnp

    def column(name: str) -> Program:
        function = getattr(metrics, name)
        return (
            lambda x, y: function(x[:, None], y[:, None], multioutput="raw_values"),
            (X, Y),
        )

    found = {
        f"metrics.{name}": column(name)
        for name in (
            "mean_absolute_error",
            "mean_absolute_percentage_error",
            "mean_squared_error",
            "mean_squared_log_error",
            "median_absolute_error",
            "r2_score",
            "root_mean_squared_error",
        )
    }
    for scaler in (
        preprocessing.MaxAbsScaler,
        preprocessing.MinMaxScaler,
        preprocessing.Normalizer,
        preprocessing.StandardScaler,
    ):
        found[f"preprocessing.{scaler.__name__}"] = (
            lambda a, kind=scaler: kind().fit_transform(a),
            (A,),
        )
    for name in (
        "additive_chi2_kernel",
        "cosine_similarity",
        "euclidean_distances",
        "laplacian_kernel",
        "linear_kernel",
        "manhattan_distances",
        "polynomial_kernel",
        "rbf_kernel",
        "sigmoid_kernel",
    ):
        found[f"metrics.pairwise.{name}"] = (getattr(pairwise, name), (A, B))
    found |= {
        "metrics.mean_squared_error of data": (
            lambda x: metrics.mean_squared_error(
                Y[:, None], x[:, None], multioutput="raw_values"
            ),
            (X,),
        ),
        "decomposition.PCA": (
            lambda a: decomposition.PCA(2, svd_solver="full").fit_transform(a),
            (A,),
        ),
        "linear_model.Ridge": (
            lambda a, b: linear_model.Ridge(solver="svd").fit(a, b).coef_,
            (A, X[:6]),
        ),
        "naive_bayes.GaussianNB of data": (
            lambda a: (
                naive_bayes.GaussianNB()
                .fit(wnp.asarray(A), wnp.asarray([0, 1, 1, 0, 1, 0]))
                .predict_proba(a)
            ),
            (A,),
        ),
        "preprocessing.PolynomialFeatures": (
            lambda a: preprocessing.PolynomialFeatures().fit_transform(a),
            (A,),
        ),
        "preprocessing.KernelCenterer": (
            lambda a: preprocessing.KernelCenterer().fit_transform(a @ a.T),
            (A,),
        ),
        "preprocessing.FunctionTransformer": (
            lambda a: preprocessing.FunctionTransformer(np.log).fit_transform(a),
            (A,),
        ),
        "metrics.pairwise.rbf_kernel of data": (
            lambda a: pairwise.rbf_kernel(a, wnp.asarray(B)),
            (A,),
        ),
    }
    return found


def differences(f: Callable[..., Any], args: tuple[Any, ...], i: int) -> Any:
    """The Jacobian of a plain call: central differences, extrapolated once."""
    y = np.asarray(f(*args))
    found = np.empty(y.shape + args[i].shape)
    for index in np.ndindex(args[i].shape):
        slopes = []
        for step in (2e-3, 1e-3, 5e-4):
            ends = []
            for sign in (1, -1):
                moved = [a.copy() for a in args]
                moved[i][index] += sign * step
                ends.append(np.asarray(f(*moved)))
            slopes.append((ends[0] - ends[1]) / (2 * step))
        once = [(4 * b - a) / 3 for a, b in itertools.pairwise(slopes)]
        found[(..., *index)] = (16 * once[1] - once[0]) / 15
    return found


def judged(f: Callable[..., Any], args: tuple[Any, ...]) -> dict[str, Any]:
    import workbench as wb

    found: dict[str, Any] = {}
    y, _ = wb.vjp(f, *args)
    found["value"] = float(np.max(np.abs(y - np.asarray(f(*args)))))
    truth = [differences(f, args, i) for i in range(len(args))]
    for mode in ("rev", "fwd"):
        jacobians = wb.jacobian(f, tuple(range(len(args))), mode=mode)(*args)
        found[mode] = max(map(_apart, jacobians, truth))
    return found


def _apart(got: Any, truth: Any) -> float:
    """How far two arrays are apart, relative to the largest entry beyond 1."""
    largest = max(1.0, float(np.max(np.abs(truth))))
    return float(np.max(np.abs(got - truth))) / largest


def main() -> None:
    os.environ["SCIPY_ARRAY_API"] = "1"
    warnings.simplefilter("ignore")
    if sys.argv[1] == "sklearn":
        import sklearn

        sklearn.set_config(array_api_dispatch=True)
    chosen = {"scipy": of_scipy, "sklearn": of_sklearn}[sys.argv[1]]()
    report = {}
    for name, (f, args) in chosen.items():
        try:
            report[name] = judged(f, args)
        except Exception as error:
            report[name] = {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps(report))


if __name__ == "__main__":
    main()
