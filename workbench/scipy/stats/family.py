"""A family of distributions of one number: the part common to all families.

A family is written down in its standard form; here that becomes SciPy's methods, with
``loc`` and ``scale``, support, limits and parameters that are not allowed. Outside the
support a density is 0 and so are its derivatives.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from workbench.core import blame
from workbench.core.dims import broadcast_shapes, is_same_shape
from workbench.core.tensor import Tensor, admit
from workbench.core.types import Array, ArrayLike, is_weak
from workbench.errors import NotDifferentiableError
from workbench.ops.define import dtype_of
from workbench.ops.lengths import defer_function
from workbench.ops.special import define

Function = Callable[..., Any]
INF = math.inf


def log_of(y: ArrayLike) -> Array:
    """Return log(y), and -inf without a warning where y is 0."""
    nothing = np.less_equal(y, 0)
    return np.where(nothing, -INF, np.log(np.where(nothing, 1, y)))


class _Functions:
    """SciPy's special functions, among which Python numbers never decide a dtype.

    SciPy's ufuncs have loops for float64 first, which a number and a float32 array
    would take.
    """

    def __getattr__(self, name: str) -> Function:
        function = getattr(define.F, name)

        def call_function(*args: ArrayLike) -> Array:
            kinds = [dtype_of(x) for x in args if not is_weak(x)]
            if kinds and len(kinds) < len(args):
                kind = np.result_type(*kinds)
                if kind.kind == "f":
                    args = tuple(kind.type(x) if is_weak(x) else x for x in args)
            return function(*args)

        setattr(self, name, call_function)
        return call_function


F: Any = _Functions()


def is_numeral(x: Any) -> bool:
    """Return whether x is a Python number, or a Tensor of one."""
    value = getattr(x, "_value", x)
    return bool(x.spec.weak) if value is None else is_weak(value)


def match_dtypes(shapes: list[Any], *others: Any) -> list[Any]:
    """Return shape parameters; Python numbers in the float dtype of the others."""
    kinds = [dtype_of(x) for x in (*shapes, *others) if not is_numeral(x)]
    floats = [kind for kind in kinds if kind.kind == "f"]
    if not floats or len(kinds) == len(shapes) + len(others):
        return shapes
    kind = np.result_type(*floats)
    return [
        kind.type(s) if is_weak(s) else np.astype(s, kind) if is_numeral(s) else s
        for s in shapes
    ]


def is_certain(condition: ArrayLike) -> bool:
    """Return whether a condition holds everywhere, as far as Python can know it.

    That is for plain parameters, and for those of a trace with values, where it is a
    decision like that of an ``if``.
    """
    if getattr(condition, "_value", condition) is None:
        return False
    return bool(np.all(condition))


def unwrap_scalar(y: Any) -> Any:
    """Return an array without axes as a number, as SciPy does."""
    return y[()] if isinstance(y, np.ndarray) and y.ndim == 0 else y


class Family:
    """What continuous and discrete families share: names, parameters, moments.

    Parameters
    ----------
    name
        SciPy's name.
    shapes
        The names of the shape parameters, with spaces between.
    support
        The ends of the standard support, or a function of the shapes that gives them.
    valid
        A function of the shapes: whether they are allowed. All positive by default.
    typical
        Allowed shapes, to compute with where others are not.
    functions
        Those of the standard form, by the names of the methods.
    """

    settings: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()

    def __init_subclass__(cls) -> None:
        for name in cls.methods:
            if name in vars(cls) or name in vars(Family):
                setattr(cls, name, defer_function(getattr(cls, name), pin=True))

    def __init__(
        self,
        name: str,
        shapes: str = "",
        *,
        support: Any = (-INF, INF),
        valid: Function | None = None,
        typical: tuple[float, ...] | None = None,
        **functions: Any,
    ) -> None:
        self.name = name
        self.shapes = tuple(shapes.split())
        self._support = support
        self._valid = valid
        self._typical = typical or (1.0,) * len(self.shapes)
        self._functions = functions

    def __repr__(self) -> str:
        return f"<workbench.scipy.stats.{self.name}>"

    def __call__(self, *args: ArrayLike, **kwds: ArrayLike) -> Frozen:
        """Return the distribution with these parameters: ``norm(0, 2).logpdf(x)``."""
        self.bind_parameters(args, kwds)
        return Frozen(self, args, kwds)

    def __getattr__(self, method: str) -> Any:
        if method.startswith("__"):
            raise AttributeError(method)
        hint = " Draws come from a numpy.random.Generator." if method == "rvs" else ""
        raise AttributeError(
            f"workbench.scipy.stats.{self.name} has no {method}; it has"
            f" {', '.join(self.methods)}.{hint} scipy.stats.{self.name}.{method} takes"
            " plain arrays: x.value."
        )

    def bind_parameters(self, args: tuple[Any, ...], kwds: dict[str, Any]) -> list[Any]:
        """Return the shapes and settings of a call, in order."""
        names = (*self.shapes, *self.settings)
        given = dict(zip(names, args, strict=False))
        unknown = [k for k in kwds if k not in names or k in given]
        given.update(kwds)
        missing = [n for n in self.shapes if n not in given]
        if len(args) > len(names) or unknown or missing:
            optional = [f"{n}={1 if n == 'scale' else 0}" for n in self.settings]
            raise TypeError(
                f"{self.name}{blame.user_line()} takes the parameters"
                f" ({', '.join([*self.shapes, *optional])})"
                + (f"; missing: {', '.join(missing)}" if missing else "")
                + (
                    f"; not known or given twice: {', '.join(unknown)}"
                    if unknown
                    else ""
                )
                + "."
            )
        defaults = {"loc": 0, "scale": 1}
        return [admit(given[n] if n in given else defaults[n]) for n in names]

    def check_parameters(
        self, parameters: list[Any], *others: Any
    ) -> tuple[Any, list[Any]]:
        """Return whether parameters are allowed, and allowed ones to compute with.

        A Tensor of a Python number that is looked through gets the float dtype of the
        rest and of the others: `where` never returns a Python number.
        """
        count = len(self.shapes)
        shapes = parameters[:count]
        valid: Any = True
        if self._valid is not None:
            valid = self._valid(*shapes)
        else:
            for s in shapes:
                valid = valid & np.greater(s, 0)
        typical = [*self._typical]
        for name in self.settings:
            if name == "scale":
                valid = valid & np.greater(parameters[-1], 0)
            typical.append(1.0 if name == "scale" else 0.0)
        if is_certain(valid):
            return True, parameters
        arrays = [dtype_of(x) for x in (*parameters, *others) if not is_numeral(x)]
        kinds = [kind for kind in arrays if kind.kind == "f"]

        def choose(p: ArrayLike, t: float) -> Array:
            y = np.where(valid, p, t)
            return (
                np.astype(y, np.result_type(*kinds)) if kinds and is_numeral(p) else y
            )

        safe = [
            (t if n == "scale" and p == 0 else p)
            if n == "loc" or is_weak(p)
            else choose(p, t)
            for n, p, t in zip(
                (*self.shapes, *self.settings), parameters, typical, strict=True
            )
        ]
        return valid, safe

    def find_ends(self, shapes: list[Any]) -> tuple[Any, Any]:
        """Return the ends of the standard support."""
        found = self._support
        low, high = found(*shapes) if callable(found) else found
        return unwrap_scalar(low), unwrap_scalar(high)

    def find_function(self, method: str) -> Function:
        """Return a function of the standard form; an error if the family has none."""
        found: Function | None = self._functions.get(method)
        if found is None:
            known = [m for m in self.methods if m in self._functions]
            raise NotDifferentiableError(
                f"scipy.stats.{self.name}.{method}{blame.user_line()} has no closed"
                f" form to differentiate. There are {', '.join(known)}; for a value"
                f" alone, call scipy.stats.{self.name}.{method} with x.value."
            )
        return found

    def has_function(self, method: str) -> bool:
        """Return whether the family writes a function down."""
        return method in self._functions

    def compute_moment(
        self, method: str, args: tuple[Any, ...], kwds: dict[str, Any]
    ) -> tuple[Any, list[Any], Array]:
        """Compute a function of the parameters alone, in the standard form.

        Returns
        -------
        Whether the parameters are allowed, allowed ones, and the value.
        """
        valid, parameters = self.check_parameters(self.bind_parameters(args, kwds))
        y = self.find_function(method)(*parameters[: len(self.shapes)])
        return valid, parameters, y

    def _finish_result(self, valid: Any, y: Array, *like: Any) -> Array:
        shape = broadcast_shapes(np.shape(y), *map(np.shape, like))
        if not is_same_shape(np.shape(y), shape):
            y = np.broadcast_to(y, shape)
        return unwrap_scalar(y if valid is True else np.where(valid, y, np.nan))

    def mean(self, *args: ArrayLike, **kwds: ArrayLike) -> Array:
        """Return the mean, in the broadcast shape of the parameters."""
        valid, parameters, y = self.compute_moment("mean", args, kwds)
        loc, scale = self.find_location(parameters)
        return self._finish_result(valid, loc + scale * y, *parameters)

    def var(self, *args: ArrayLike, **kwds: ArrayLike) -> Array:
        """Return the variance, in the broadcast shape of the parameters."""
        valid, parameters, y = self.compute_moment("var", args, kwds)
        _, scale = self.find_location(parameters)
        return self._finish_result(valid, scale * scale * y, *parameters)

    def std(self, *args: ArrayLike, **kwds: ArrayLike) -> Array:
        """Return the standard deviation, in the broadcast shape of the parameters."""
        return unwrap_scalar(np.sqrt(self.var(*args, **kwds)))

    def find_location(self, parameters: list[Any]) -> tuple[Any, Any]:
        """Return location and scale."""
        found = dict(zip(self.settings, parameters[len(self.shapes) :], strict=True))
        return found["loc"], found.get("scale", 1)


class Frozen:
    """A distribution: a family with its parameters, ``norm(loc, scale)``.

    It has the family's methods, without the parameters.

    >>> from workbench.scipy.stats import expon
    >>> float(expon(scale=2.0).mean())
    2.0
    """

    def __init__(
        self, family: Family, args: tuple[Any, ...], kwds: dict[str, Any]
    ) -> None:
        self.dist = family
        self.args = args
        self.kwds = kwds

    def __getattr__(self, method: str) -> Any:
        if method.startswith("__"):
            raise AttributeError(method)
        found = getattr(self.dist, method)
        if method in ("mean", "var", "std", "entropy", "median", "support"):
            return lambda: found(*self.args, **self.kwds)
        return lambda x: found(x, *self.args, **self.kwds)

    def __repr__(self) -> str:
        given = [*map(repr, self.args), *(f"{k}={v!r}" for k, v in self.kwds.items())]
        return f"{self.dist.name}({', '.join(given)})"


# Continuous and discrete families: SciPy's methods, from the standard form.
#
# Outside the support a density is 0, and so are its derivatives.


def _log_like(scale: Array, like: Array) -> Array:
    """Return the logarithm; a Python number takes the dtype of ``like``."""
    y = np.log(scale)
    return y.astype(dtype_of(like)) if is_numeral(scale) else y


def _is_traced_density(x: Array, density: bool) -> bool:
    """Return whether x is a Tensor of a density, not to be searched for infinities.

    That is the inner loop of most fits, and the search would double its time.
    """
    return density and isinstance(x, Tensor)


def _is_beyond(z: Array, end: Any, compare: Function) -> Any:
    """Return whether points lie beyond an end of the support, or are infinite."""
    if isinstance(end, float):
        return np.equal(z, end) if math.isinf(end) else compare(z, end)
    infinite = -INF if compare is not np.greater else INF
    return compare(z, end) | np.equal(z, infinite)


class Continuous(Family):
    """A continuous family: `scipy.stats.norm` and others under their names.

    Methods take ``(x, *shapes, loc=0, scale=1)`` as SciPy's do, arrays or Tensors that
    broadcast, and keep float32. Parameters that are not allowed give NaN.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> from workbench.scipy.stats import norm
    >>> float(wb.grad(lambda mean: norm.logpdf(1.5, mean, 0.5))(1.0))
    2.0
    >>> norm(1.0, 0.5).sf(np.array([1.0, np.inf]))
    array([0.5, 0. ])
    """

    settings = ("loc", "scale")
    methods = (
        "pdf", "logpdf", "cdf", "logcdf", "sf", "logsf", "ppf", "isf", "median",
        "mean", "var", "std", "entropy", "support",
    )  # fmt: skip

    def _standardise(
        self, x: ArrayLike, density: bool, args: tuple[Any, ...], kwds: dict[str, Any]
    ) -> tuple[Any, ...]:
        """Standardise x, moving points outside the support to a point inside."""
        x = admit(x)
        valid, parameters = self.check_parameters(self.bind_parameters(args, kwds), x)
        *shapes, loc, scale = parameters
        z = (x - loc) / scale
        shapes = match_dtypes(shapes, z)
        low, high = self.find_ends(shapes)
        inner = self._functions.get("inner")
        whole = not callable(self._support) and (low, high) == (-INF, INF)
        if whole and (
            (inner is None and _is_traced_density(x, density))
            or is_certain(np.isfinite(x if inner is None else z))
        ):
            return z, None, None, valid, shapes, scale
        below = _is_beyond(
            z, low, np.less_equal if self.has_function("open") else np.less
        )
        above = _is_beyond(z, high, np.greater)
        if inner is not None:
            point = inner(*shapes)
        elif whole:
            point = 0.0
        else:
            point = 0.5 * (low + high) if high < INF else low + 1.0
        return np.where(below | above, point, z), below, above, valid, shapes, scale

    def _evaluate(
        self,
        compute: Function,
        limits: tuple[float, float],
        x: ArrayLike,
        args: tuple[Any, ...],
        kwds: dict[str, Any],
    ) -> Array:
        """Compute a function of x, with its limits outside the support."""
        z, below, above, valid, shapes, scale = self._standardise(
            x, limits[0] == limits[1], args, kwds
        )
        y = compute(z, scale, *shapes)
        if below is not None and limits[0] == limits[1]:
            y = np.where(below | above, limits[0], y)
        elif below is not None:
            y = np.where(below, limits[0], np.where(above, limits[1], y))
        return self._finish_result(valid, y)

    def logpdf(self, x: ArrayLike, *args: ArrayLike, **kwds: ArrayLike) -> Array:
        """Return the logarithm of the density; -inf outside the support."""
        f = self.find_function("logpdf")
        return self._evaluate(
            lambda z, scale, *s: f(z, *s) - _log_like(scale, z),
            (-INF, -INF),
            x,
            args,
            kwds,
        )

    def pdf(self, x: ArrayLike, *args: ArrayLike, **kwds: ArrayLike) -> Array:
        """Return the density; 0 outside the support."""
        f = self.find_function("logpdf")
        return self._evaluate(
            lambda z, scale, *s: np.exp(f(z, *s)) / scale, (0.0, 0.0), x, args, kwds
        )

    def _find_cumulative(self, method: str) -> Function:
        """Return cdf or sf as written, or as the exponential of its logarithm."""
        if not self.has_function(method) and self.has_function(f"log{method}"):
            g = self.find_function(f"log{method}")
            return lambda z, scale, *s: np.exp(g(z, *s))
        f = self.find_function(method)
        return lambda z, scale, *s: f(z, *s)

    def _find_log_cumulative(self, method: str, other: str) -> Function:
        """Return logcdf or logsf as written, or the logarithm of whichever is small."""
        if self.has_function(f"log{method}"):
            f = self.find_function(f"log{method}")
            return lambda z, scale, *s: f(z, *s)
        f, g = self._find_cumulative(method), self._find_cumulative(other)

        def compute(z: Array, scale: Array, *s: Any) -> Array:
            y, rest = f(z, scale, *s), g(z, scale, *s)
            large = np.less(rest, 0.5)
            return np.where(large, np.log1p(-np.where(large, rest, 0)), log_of(y))

        return compute

    def cdf(self, x: ArrayLike, *args: ArrayLike, **kwds: ArrayLike) -> Array:
        """Return the distribution function, the probability of a value up to x."""
        return self._evaluate(self._find_cumulative("cdf"), (0.0, 1.0), x, args, kwds)

    def sf(self, x: ArrayLike, *args: ArrayLike, **kwds: ArrayLike) -> Array:
        """Return the survival function, 1 - cdf with the digits of its small values."""
        return self._evaluate(self._find_cumulative("sf"), (1.0, 0.0), x, args, kwds)

    def logcdf(self, x: ArrayLike, *args: ArrayLike, **kwds: ArrayLike) -> Array:
        """Return the logarithm of `cdf`, if a form is known that never underflows."""
        return self._evaluate(
            self._find_log_cumulative("cdf", "sf"), (-INF, 0.0), x, args, kwds
        )

    def logsf(self, x: ArrayLike, *args: ArrayLike, **kwds: ArrayLike) -> Array:
        """Return the logarithm of `sf`, if a form is known that never underflows."""
        return self._evaluate(
            self._find_log_cumulative("sf", "cdf"), (0.0, -INF), x, args, kwds
        )

    def _invert(
        self, method: str, q: ArrayLike, args: tuple[Any, ...], kwds: dict[str, Any]
    ) -> Array:
        q = admit(q)
        valid, parameters = self.check_parameters(self.bind_parameters(args, kwds), q)
        *shapes, loc, scale = parameters
        f = self.find_function(method)
        shapes = match_dtypes(shapes, q, loc, scale)
        inside = np.greater(q, 0) & np.less(q, 1)
        y = f(np.where(inside, q, 0.5), *shapes)
        low, high = self.find_ends(shapes)
        first, last = (low, high) if method == "ppf" else (high, low)
        y = np.where(inside, y, np.nan)
        y = np.where(np.equal(q, 0), first, np.where(np.equal(q, 1), last, y))
        return self._finish_result(valid, y * scale + loc)

    def ppf(self, q: ArrayLike, *args: ArrayLike, **kwds: ArrayLike) -> Array:
        """Return the quantile, by the inverse of `cdf`; NaN unless 0 <= q <= 1."""
        return self._invert("ppf", q, args, kwds)

    def isf(self, q: ArrayLike, *args: ArrayLike, **kwds: ArrayLike) -> Array:
        """Return the inverse of `sf`; NaN unless 0 <= q <= 1."""
        return self._invert("isf", q, args, kwds)

    def median(self, *args: ArrayLike, **kwds: ArrayLike) -> Array:
        """Return the median."""
        return self.ppf(0.5, *args, **kwds)

    def entropy(self, *args: ArrayLike, **kwds: ArrayLike) -> Array:
        """Return the differential entropy, in nats."""
        valid, parameters, y = self.compute_moment("entropy", args, kwds)
        return self._finish_result(valid, y + _log_like(parameters[-1], y), *parameters)

    def support(self, *args: ArrayLike, **kwds: ArrayLike) -> tuple[Any, Any]:
        """Return the ends of the support."""
        valid, parameters = self.check_parameters(self.bind_parameters(args, kwds))
        *shapes, loc, scale = parameters
        low, high = self.find_ends(shapes)
        return (
            self._finish_result(valid, loc + scale * low),
            self._finish_result(valid, loc + scale * high),
        )


class Discrete(Family):
    """A discrete family: `scipy.stats.poisson` and others under their names.

    Methods take ``(k, *shapes, loc=0)`` as SciPy's do. Derivatives are by the
    parameters; by ``k``, which is whole, there are none.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> from workbench.scipy.stats import poisson
    >>> float(wb.grad(lambda mu: poisson.logpmf(3, mu))(1.5))
    1.0
    """

    settings = ("loc",)
    methods = (
        "pmf", "logpmf", "cdf", "logcdf", "sf", "logsf", "mean", "var", "std",
        "entropy", "support",
    )  # fmt: skip

    def _evaluate(
        self,
        compute: Function,
        limits: tuple[float, float],
        whole: bool,
        k: ArrayLike,
        args: tuple[Any, ...],
        kwds: dict[str, Any],
    ) -> Array:
        k = admit(k)
        valid, parameters = self.check_parameters(self.bind_parameters(args, kwds), k)
        *shapes, loc = parameters
        k = k - loc
        shapes = match_dtypes(shapes, k)
        n = np.floor(k)  # which does not vary
        low, high = self.find_ends(shapes)
        below = np.less(n, low)
        above = np.greater(n, high) if whole else np.greater_equal(n, high)
        outside = below | above
        if whole:
            outside = outside | np.not_equal(n, k)
        y = compute(np.where(outside, low, n), *shapes)
        if whole:
            y = np.where(outside, limits[0], y)
        else:
            y = np.where(below, limits[0], np.where(above, limits[1], y))
        y = np.where(np.isnan(k), np.nan, y)
        return self._finish_result(valid, y)

    def logpmf(self, k: ArrayLike, *args: ArrayLike, **kwds: ArrayLike) -> Array:
        """Return the log probability of k; -inf unless k is whole and inside."""
        f = self.find_function("logpmf")
        return self._evaluate(f, (-INF, -INF), True, k, args, kwds)

    def pmf(self, k: ArrayLike, *args: ArrayLike, **kwds: ArrayLike) -> Array:
        """Return the probability of k; 0 unless k is whole and inside the support."""
        f = self.find_function("logpmf")
        return self._evaluate(lambda *a: np.exp(f(*a)), (0.0, 0.0), True, k, args, kwds)

    def cdf(self, k: ArrayLike, *args: ArrayLike, **kwds: ArrayLike) -> Array:
        """Return the probability of a value up to k."""
        return self._evaluate(
            self.find_function("cdf"), (0.0, 1.0), False, k, args, kwds
        )

    def sf(self, k: ArrayLike, *args: ArrayLike, **kwds: ArrayLike) -> Array:
        """Return the probability of a value above k."""
        return self._evaluate(
            self.find_function("sf"), (1.0, 0.0), False, k, args, kwds
        )

    def logcdf(self, k: ArrayLike, *args: ArrayLike, **kwds: ArrayLike) -> Array:
        """Return the logarithm of `cdf`."""
        return unwrap_scalar(log_of(self.cdf(k, *args, **kwds)))

    def logsf(self, k: ArrayLike, *args: ArrayLike, **kwds: ArrayLike) -> Array:
        """Return the logarithm of `sf`."""
        return unwrap_scalar(log_of(self.sf(k, *args, **kwds)))

    def entropy(self, *args: ArrayLike, **kwds: ArrayLike) -> Array:
        """Return the entropy, in nats."""
        valid, parameters, y = self.compute_moment("entropy", args, kwds)
        return self._finish_result(valid, y, *parameters)

    def support(self, *args: ArrayLike, **kwds: ArrayLike) -> tuple[Any, Any]:
        """Return the first and the last whole number with a probability."""
        valid, parameters = self.check_parameters(self.bind_parameters(args, kwds))
        low, high = self.find_ends(parameters[:-1])
        loc = parameters[-1]
        return self._finish_result(valid, loc + low), self._finish_result(
            valid, loc + high
        )
