"""The families of one pattern, and those without a gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from workbench.core import source
from workbench.core.tensor import admit
from workbench.ops.random import draws
from workbench.random.checking import (
    Drawing,
    checked,
    constant,
    extent,
    fitted,
    traced,
)

__all__ = ["Families"]


class Families(Drawing):
    """`exponential`, `laplace`, `poisson`, ...: each is made by a table below."""


def _scaled(
    name: str, base: str, law: Callable[..., Any], *defaults: tuple[str, Any]
) -> Callable[..., Any]:
    """A method whose draw is ``law(parameters, noise)`` of noise without parameters."""
    names = [key for key, _ in defaults]
    lowest = ("scale", "a")

    def method(self: Drawing, *given: Any, size: Any = None, **named: Any) -> Any:
        settings = dict(defaults) | dict(zip(names, given, strict=False)) | named
        if len(given) > len(names):
            size = given[len(names)]
        missing = [key for key in names if settings[key] is None]
        if missing or set(settings) - set(names) or len(given) > len(names) + 1:
            raise TypeError(f"{name}() takes {', '.join(names)} and size")
        if not traced(*settings.values()):
            return self._plain(name, size, **settings)
        with source.pinned():
            parameters = {key: admit(x) for key, x in settings.items()}
            bounded = {k: x for k, x in parameters.items() if k in lowest}
            checked(f"rng.{name}", lambda v: v >= 0, **bounded)
            size = extent(f"rng.{name}", size, *parameters.values())
            more = {"loc": 0.0, "scale": 1.0} if base == name else {}
            z = self._plain(base, size, **more)
            return law(*parameters.values(), fitted(z, *parameters.values()))

    made: Callable[..., Any] = _described(
        method, name, "with gradients by its parameters"
    )
    return made


def _described(method: Any, name: str, more: str) -> Any:
    method.__name__, method.__qualname__ = name, f"Generator.{name}"
    method.__doc__ = f"As NumPy's; {more}."
    return method


def _located_law(loc: Any, scale: Any, z: Any) -> Any:
    return loc + scale * z


_E = "standard_exponential"
_LOCATION = (("loc", 0.0), ("scale", 1.0))
for _made in (
    _scaled("laplace", "laplace", _located_law, *_LOCATION),
    _scaled("logistic", "logistic", _located_law, *_LOCATION),
    _scaled("gumbel", "gumbel", _located_law, *_LOCATION),
    _scaled("exponential", _E, lambda s, z: s * z, ("scale", 1.0)),
    _scaled("rayleigh", _E, lambda s, z: s * np.sqrt(2.0 * z), ("scale", 1.0)),
    _scaled("weibull", _E, lambda a, z: z ** (1.0 / a), ("a", None)),
    _scaled("pareto", _E, lambda a, z: np.expm1(z / a), ("a", None)),
    _scaled("power", _E, lambda a, z: (-np.expm1(-z)) ** (1.0 / a), ("a", None)),
):
    setattr(Families, _made.__name__, _made)


def _without_parameters(name: str) -> Any:
    numpys = getattr(np.random.Generator, name)

    def method(self: Drawing, size: Any = None, *rest: Any, **more: Any) -> Any:
        if rest or more.get("out") is not None or not draws.inside():
            return numpys(self, size, *rest, **more)
        return self._plain(name, size, **more)

    return _described(method, name, "a node in a traced program")


for _name in ("random", "standard_normal", "standard_exponential", "standard_cauchy"):
    setattr(Families, _name, _without_parameters(_name))


def _counting(name: str, *names: str, **defaults: Any) -> Any:
    """A draw that no derivative goes through."""
    numpys = getattr(np.random.Generator, name)

    def method(self: Drawing, *given: Any, **named: Any) -> Any:
        if not draws.inside():
            return numpys(self, *given, **named)
        settings = defaults | dict(zip((*names, "size"), given, strict=False)) | named
        if len(given) > len(names) + 1:
            return numpys(self, *given, **named)
        for key in names:
            settings[key] = constant(settings.get(key), f"rng.{name}({key}=x)")
        return self._plain(name, settings.pop("size", None), **settings)

    return _described(method, name, "without a derivative by its parameters")


for _made in (
    _counting("binomial", "n", "p"),
    _counting("geometric", "p"),
    _counting("hypergeometric", "ngood", "nbad", "nsample"),
    _counting("integers", "low", "high"),
    _counting("logseries", "p"),
    _counting("multinomial", "n", "pvals"),
    _counting("multivariate_hypergeometric", "colors", "nsample"),
    _counting("negative_binomial", "n", "p"),
    _counting("poisson", "lam", lam=1.0),
    _counting("wald", "mean", "scale"),
    _counting("zipf", "a"),
):
    setattr(Families, _made.__name__, _made)
