"""Functions of installed libraries, as they are: which differentiate.

``python libraries.py statsmodels`` writes, as JSON, what each of a library's functions
gives: ``"right"``, if its gradient is that of central differences, or what is wrong.
It runs in an environment of its own (see `test_libraries.py`), so it imports nothing of
these tests.
"""

from __future__ import annotations

import collections
import collections.abc
import inspect
import json
import sys
import warnings
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

import workbench as wb

#: A function of one array, made when it is asked for, and where it is asked.
Programs = dict[str, tuple[Callable[[], Callable[[Any], Any]], Any]]


def list_statsmodels() -> Programs:
    """Log-likelihoods of models, by their parameters."""
    api = import_module("statsmodels.api")
    count = import_module("statsmodels.discrete.count_model")
    truncated = import_module("statsmodels.discrete.truncated_model")
    ordinal = import_module("statsmodels.miscmodels.ordinal_model")
    conditional = import_module("statsmodels.discrete.conditional_models")
    beta = import_module("statsmodels.othermod.betareg")
    student = import_module("statsmodels.miscmodels.tmodel")
    misc = import_module("statsmodels.miscmodels.count")
    draw = np.random.default_rng(1)
    n = 40
    x = api.add_constant(draw.normal(size=(n, 2)))
    b = [0.3, 0.4, -0.2]
    counts = draw.poisson(np.exp(x @ b))
    binary = (draw.uniform(size=n) < 0.5).astype(float)
    real = x @ b + draw.normal(size=n)
    positive, share = np.abs(real) + 0.1, draw.uniform(0.1, 0.9, size=n)
    ordered, groups = draw.integers(0, 3, size=n), np.repeat(np.arange(10), 4)
    some, rest = np.maximum(counts, 1), x[:, 1:]
    family, links = api.families, api.families.links

    models: dict[str, tuple[Callable[[], Any], list[float]]] = {
        "Logit": (lambda: api.Logit(binary, x), b),
        "Probit": (lambda: api.Probit(binary, x), b),
        "Poisson": (lambda: api.Poisson(counts, x), b),
        "MNLogit": (lambda: api.MNLogit(ordered, x), [*b, *b]),
        "NegativeBinomial": (lambda: api.NegativeBinomial(counts, x), [*b, 0.5]),
        "NegativeBinomialP": (lambda: api.NegativeBinomialP(counts, x), [*b, 0.5]),
        "GeneralizedPoisson": (lambda: api.GeneralizedPoisson(counts, x), [*b, 0.2]),
        "OLS": (lambda: api.OLS(real, x), b),
        "WLS": (lambda: api.WLS(real, x, weights=np.arange(1.0, n + 1)), b),
        "GLS": (lambda: api.GLS(real, x), b),
        "ConditionalLogit": (
            lambda: conditional.ConditionalLogit(binary, rest, groups=groups), b[1:]),
        "ConditionalPoisson": (
            lambda: conditional.ConditionalPoisson(counts, rest, groups=groups), b[1:]),
        "BetaModel": (lambda: beta.BetaModel(share, x), [*b, 1.0]),
        "TLinearModel": (lambda: student.TLinearModel(real, x), [*b, 5.0, 1.0]),
        "PoissonGMLE": (lambda: misc.PoissonGMLE(counts, x), b),
        "PoissonZiGMLE": (lambda: misc.PoissonZiGMLE(counts, x), [*b, 0.1]),
        "TruncatedLFPoisson": (lambda: truncated.TruncatedLFPoisson(some, x), b),
        "TruncatedLFNegativeBinomialP": (
            lambda: truncated.TruncatedLFNegativeBinomialP(some, x), [*b, 0.5]),
        "HurdleCountModel": (lambda: truncated.HurdleCountModel(counts, x), [*b, *b]),
    }  # fmt: skip
    for method in ("nb1", "geometric"):
        more = [0.5] if method == "nb1" else []
        models[f"NegativeBinomial {method}"] = (
            lambda m=method: api.NegativeBinomial(counts, x, loglike_method=m),
            [*b, *more],
        )
    for name, more in (
        ("Poisson", []), ("NegativeBinomialP", [0.5]), ("GeneralizedPoisson", [0.2])
    ):  # fmt: skip
        kind = getattr(count, f"ZeroInflated{name}")
        models[f"ZeroInflated{name}"] = (lambda k=kind: k(counts, x), [0.1, *b, *more])
    for distr in ("probit", "logit"):
        models[f"OrderedModel {distr}"] = (
            lambda d=distr: ordinal.OrderedModel(ordered, rest, distr=d),
            [0.2, 0.3, -0.5, 0.1],
        )
    for name, y, link in (
        ("Gaussian", real, links.Identity),
        ("Poisson", counts, links.Log),
        ("Gamma", positive, links.Log),
        ("InverseGaussian", positive, links.Log),
        ("NegativeBinomial", counts, links.Log),
        ("Tweedie", positive, links.Log),
        ("Binomial", binary, links.Logit),
        ("Binomial", binary, links.Probit),
        ("Binomial", binary, links.Cauchy),
        ("Binomial", binary, links.CLogLog),
    ):
        kind = getattr(family, name)
        models[f"GLM {name} {link.__name__}"] = (
            lambda y=y, kind=kind, link=link: api.GLM(y, x, family=kind(link())),
            b,
        )
    return {
        name: (lambda make=make: make().loglike, at)
        for name, (make, at) in models.items()
    }


def list_lmfit() -> Programs:
    """Sums of lineshapes, by their parameters."""
    shapes = import_module("lmfit.lineshapes")
    x = np.linspace(-3, 3, 11) + 0.05
    programs: Programs = {}
    for name in shapes.functions:
        function = getattr(shapes, name)
        given = {
            key: p.default + 0.3
            for key, p in inspect.signature(function).parameters.items()
            if key != "x" and isinstance(p.default, (int, float))
        }

        def program(v: Any, f: Any = function, names: Any = tuple(given)) -> Any:
            return np.sum(f(x, **{key: v[i] for i, key in enumerate(names)}))

        programs[name] = (lambda program=program: program, list(given.values()))
    return programs


def list_numpy_ml() -> Programs:
    """Activations, losses and layers, by what goes in."""
    for name in ("Hashable", "Iterable", "Mapping", "Sequence"):  # as Python 3.9 had it
        setattr(collections, name, getattr(collections.abc, name))
    activations = import_module("numpy_ml.neural_nets.activations")
    losses = import_module("numpy_ml.neural_nets.losses")
    layers = import_module("numpy_ml.neural_nets.layers")
    x = np.array([[0.3, -0.5, 1.2], [0.1, 0.7, -0.4]])
    y = np.array([[0.0, 1, 0], [1, 0, 0]])
    share = np.exp(x) / np.exp(x).sum(1, keepdims=True)
    image = np.random.default_rng(0).normal(size=(1, 6, 6, 2))
    programs: Programs = {}
    for name, kind in inspect.getmembers(activations, inspect.isclass):
        if "activations" in kind.__module__ and name != "ActivationBase":
            programs[name] = (lambda kind=kind: lambda v: np.sum(kind().fn(v)), x)
    programs["SquaredError"] = (lambda: lambda v: losses.SquaredError().loss(y, v), x)
    programs["CrossEntropy"] = (
        lambda: lambda v: losses.CrossEntropy().loss(y, v),
        share,
    )
    programs["VAELoss"] = (
        lambda: lambda v: np.sum(losses.VAELoss().loss(y, v, x, 0.1 * x)),
        share,
    )
    made: dict[str, tuple[Callable[[], Any], Any]] = {
        "FullyConnected": (lambda: layers.FullyConnected(4), x),
        "Softmax": (lambda: layers.Softmax(), x),
        "BatchNorm1D": (lambda: layers.BatchNorm1D(), x),
        "LayerNorm1D": (lambda: layers.LayerNorm1D(), x),
        "Conv1D": (lambda: layers.Conv1D(2, 3), image[0]),
        "Conv2D": (lambda: layers.Conv2D(2, (3, 3)), image),
        "Deconv2D": (lambda: layers.Deconv2D(2, (3, 3)), image),
        "Pool2D": (lambda: layers.Pool2D((2, 2)), image),
        "BatchNorm2D": (lambda: layers.BatchNorm2D(), image),
        "LayerNorm2D": (lambda: layers.LayerNorm2D(), image),
        "Flatten": (lambda: layers.Flatten(), image),
    }
    for name, (make, at) in made.items():

        def program(v: Any, make: Any = make) -> Any:
            np.random.seed(0)
            return np.sum(make().forward(v, retain_derived=False) ** 2)

        programs[f"layer {name}"] = (lambda program=program: program, at)
    return programs


def compare(make: Callable[[], Callable[[Any], Any]], at: Any) -> str:
    """Return ``"right"``, or what is wrong about a gradient."""
    x, h = np.array(at, float), 1e-6
    f = make()

    def value(v: Any) -> Any:
        return np.sum(f(v))

    expected = np.zeros_like(x)
    for i in np.ndindex(x.shape):
        up, down = x.copy(), x.copy()
        up[i] += h
        down[i] -= h
        expected[i] = (value(up) - value(down)) / (2 * h)
    try:
        found = wb.grad(value)(x)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    if np.allclose(found, expected, rtol=1e-4, atol=1e-4):
        return "right"
    return f"found {found}, expected {expected}"


def main(library: str) -> None:
    """Write what the functions of a library give."""
    warnings.simplefilter("ignore")
    programs: Programs = globals()[f"list_{library}"]()
    with wb.trace_packages(library):  # where models are made: they keep defaults
        told = {name: compare(make, at) for name, (make, at) in programs.items()}
    print("\n" + json.dumps(told))


if __name__ == "__main__":
    main(sys.argv[1])
