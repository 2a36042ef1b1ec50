"""A family of distributions of one number: what all have in common.

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
from workbench.core.broadcasting import broadcast_shapes
from workbench.core.tensor import admit
from workbench.core.types import weak
from workbench.errors import NotDifferentiableError
from workbench.ops.define import dtype_of
from workbench.ops.lengths import delayed
from workbench.ops.special import define

__all__ = [
    "INF",
    "F",
    "Family",
    "Frozen",
    "Function",
    "alike",
    "holds",
    "log_of",
    "numeral",
    "scalar",
]

Function = Callable[..., Any]
INF = math.inf


def log_of(y: Any) -> Any:
    """log(y), and -inf without complaint where y is 0."""
    nothing = np.less_equal(y, 0)
    return np.where(nothing, -INF, np.log(np.where(nothing, 1, y)))


class _Functions:
    """SciPy's special functions, among which Python numbers never decide a dtype.

    SciPy's ufuncs have loops for float64 first, which a number and a float32 array
    would take.
    """

    def __getattr__(self, name: str) -> Function:
        function = getattr(define.F, name)

        def called(*args: Any) -> Any:
            kinds = [dtype_of(x) for x in args if not weak(x)]
            if kinds and len(kinds) < len(args):
                kind = np.result_type(*kinds)
                if kind.kind == "f":
                    args = tuple(kind.type(x) if weak(x) else x for x in args)
            return function(*args)

        setattr(self, name, called)
        return called


F: Any = _Functions()


def numeral(x: Any) -> bool:
    """Whether x is a Python number, or a Tensor of one."""
    held = getattr(x, "_value", x)
    return bool(x.spec.weak) if held is None else weak(held)


def alike(shapes: list[Any], *others: Any) -> list[Any]:
    """Shape parameters that are Python numbers, in the float dtype of the rest."""
    kinds = [dtype_of(x) for x in (*shapes, *others) if not weak(x)]
    floats = [kind for kind in kinds if kind.kind == "f"]
    if not floats or len(kinds) == len(shapes) + len(others):
        return shapes
    kind = np.result_type(*floats)
    return [kind.type(s) if weak(s) else s for s in shapes]


def holds(condition: Any) -> bool:
    """Whether a condition on plain parameters holds everywhere, for good."""
    plain = isinstance(condition, (bool, np.bool_, np.ndarray))
    return plain and bool(np.all(condition))


def scalar(y: Any) -> Any:
    """An array of no axes as a number, as SciPy returns it."""
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
                setattr(cls, name, delayed(getattr(cls, name), pin=True))

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

    def __call__(self, *args: Any, **kwds: Any) -> Frozen:
        """The distribution with these parameters: ``norm(0, 2).logpdf(x)``."""
        self.parameters(args, kwds)
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

    def parameters(self, args: tuple[Any, ...], kwds: dict[str, Any]) -> list[Any]:
        """The shapes and settings of a call, in order."""
        names = (*self.shapes, *self.settings)
        given = dict(zip(names, args, strict=False))
        unknown = [k for k in kwds if k not in names or k in given]
        given.update(kwds)
        missing = [n for n in self.shapes if n not in given]
        if len(args) > len(names) or unknown or missing:
            optional = [f"{n}={1 if n == 'scale' else 0}" for n in self.settings]
            raise TypeError(
                f"{self.name}{blame.here()} takes the parameters"
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

    def checked(self, parameters: list[Any], *others: Any) -> tuple[Any, list[Any]]:
        """Whether parameters are allowed, and allowed ones to compute with.

        A Tensor of a Python number that is looked through gets the float dtype of the
        rest and of the others: what `where` returns is no Python number any more.
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
        if holds(valid):
            return True, parameters
        arrays = [dtype_of(x) for x in (*parameters, *others) if not numeral(x)]
        kinds = [kind for kind in arrays if kind.kind == "f"]

        def chosen(p: Any, t: float) -> Any:
            y = np.where(valid, p, t)
            return np.astype(y, np.result_type(*kinds)) if kinds and numeral(p) else y

        safe = [
            (t if n == "scale" and p == 0 else p)
            if n == "loc" or weak(p)
            else chosen(p, t)
            for n, p, t in zip(
                (*self.shapes, *self.settings), parameters, typical, strict=True
            )
        ]
        return valid, safe

    def ends(self, shapes: list[Any]) -> tuple[Any, Any]:
        """The ends of the standard support."""
        found = self._support
        low, high = found(*shapes) if callable(found) else found
        return low, high

    def function(self, method: str) -> Function:
        """A function of the standard form; an error if the family has none."""
        found: Function | None = self._functions.get(method)
        if found is None:
            known = [m for m in self.methods if m in self._functions]
            raise NotDifferentiableError(
                f"scipy.stats.{self.name}.{method}{blame.here()} has no closed form to"
                f" differentiate. There are {', '.join(known)}; for a value alone, call"
                f" scipy.stats.{self.name}.{method} with x.value."
            )
        return found

    def has(self, method: str) -> bool:
        """Whether the family writes a function down."""
        return method in self._functions

    def moment(self, method: str, args: tuple[Any, ...], kwds: dict[str, Any]) -> Any:
        """A function of the parameters alone, in the standard form; then the rest."""
        valid, parameters = self.checked(self.parameters(args, kwds))
        y = self.function(method)(*parameters[: len(self.shapes)])
        return valid, parameters, y

    def _finish(self, valid: Any, y: Any, *like: Any) -> Any:
        shape = broadcast_shapes(np.shape(y), *map(np.shape, like))
        if np.shape(y) != shape:
            y = np.broadcast_to(y, shape)
        return scalar(y if valid is True else np.where(valid, y, np.nan))

    def mean(self, *args: Any, **kwds: Any) -> Any:
        """The mean, in the broadcast shape of the parameters."""
        valid, parameters, y = self.moment("mean", args, kwds)
        loc, scale = self.place(parameters)
        return self._finish(valid, loc + scale * y, *parameters)

    def var(self, *args: Any, **kwds: Any) -> Any:
        """The variance, in the broadcast shape of the parameters."""
        valid, parameters, y = self.moment("var", args, kwds)
        _, scale = self.place(parameters)
        return self._finish(valid, scale * scale * y, *parameters)

    def std(self, *args: Any, **kwds: Any) -> Any:
        """The standard deviation, in the broadcast shape of the parameters."""
        return scalar(np.sqrt(self.var(*args, **kwds)))

    def place(self, parameters: list[Any]) -> tuple[Any, Any]:
        """Location and scale."""
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
