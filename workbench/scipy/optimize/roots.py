"""Roots and fixed points of functions, with derivatives by parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from workbench.autodiff.grad import grad
from workbench.autodiff.implicit import root as implicit
from workbench.core import blame, traces
from workbench.core.types import Array, ArrayLike
from workbench.errors import UsageError
from workbench.scipy.optimize.solvers import (
    Function,
    check_convergence,
    load_scipy,
    refuse_settings,
    require_number,
    to_array,
    to_tuple,
    to_vector,
)

__all__ = [
    "bisect",
    "brenth",
    "brentq",
    "fixed_point",
    "ridder",
    "root",
    "root_scalar",
]


def _check_bracket(name: str, f: Function, bracket: Sequence[float]) -> None:
    """Refuse an interval without a change of sign between its ends."""
    a, b = bracket
    low, high = (float(f(np.float64(x))) for x in bracket)
    if not low * high > 0:
        return
    raise UsageError(
        f"{name}{blame.user_line()}: f(a) and f(b) must have different signs, and"
        f" f({a:g}) = {low:.6g}, f({b:g}) = {high:.6g}. Give an interval in which it"
        " crosses zero; without one, root_scalar(f, x0=...) starts from a point."
    )


def root(
    fun: Function,
    x0: ArrayLike,
    args: object = (),
    method: str = "hybr",
    jac: object = None,
    tol: float | None = None,
    callback: object = None,
    options: Mapping[str, Any] | None = None,
) -> Any:
    """Find a root of a vector function, differentiable by all values in ``fun``.

    Parameters
    ----------
    fun
        ``fun(x, *args)``, a vector as long as x, that is to vanish.
    x0
        Where the search starts, shape (n,); the root does not depend on it.
    args
        Further arguments of ``fun``: nests of arrays, differentiable.
    method, tol, options
        As for `scipy.optimize.root`.

    Returns
    -------
    SciPy's result; its ``x`` has derivatives of any order, in both modes.

    Raises
    ------
    ConvergenceError
        If no root was found.
    MatrixError
        If the derivative of ``fun`` at the root is singular.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> from workbench.scipy.optimize import root
    >>> f = lambda a: root(lambda x, a: x**2 - a, np.ones(2), a).x
    >>> np.round(wb.jacobian(f)(np.array([4.0, 9.0])), 9)
    array([[0.25      , 0.        ],
           [0.        , 0.16666667]])
    """
    settings = {"method": method, "tol": tol, "options": options}
    args = to_tuple(args)
    if not traces.has_open_trace():
        return load_scipy().root(fun, x0, args, jac=jac, callback=callback, **settings)
    refuse_settings("root", {"jac": jac, "callback": callback}, "jac", "callback")
    results: list[Any] = []

    def solve(f: Function, x: ArrayLike) -> Any:
        found = blame.call_solver("root", lambda: load_scipy().root(f, x, **settings))
        results[:] = [check_convergence("root", found)]
        return results[0].x

    x0 = np.atleast_1d(to_array(x0).astype(float))
    x = implicit(lambda x: to_vector(fun(x, *args)), x0, solve, None, "root")
    return load_scipy().OptimizeResult({**(results[0] if results else {}), "x": x})


def root_scalar(
    f: Function,
    args: object = (),
    method: str | None = None,
    bracket: Sequence[float] | None = None,
    fprime: object = None,
    fprime2: object = None,
    x0: float | None = None,
    x1: float | None = None,
    **settings: Any,
) -> Any:
    """Find a root of an equation in one number, as `scipy.optimize.root_scalar` does.

    As :func:`root` for one equation ``f(x, *args) = 0``; the result's ``root`` has
    derivatives. Inside a derivative, ``fprime`` asks for the true one.

    Examples
    --------
    >>> import workbench as wb
    >>> from workbench.scipy.optimize import root_scalar
    >>> f = lambda a: root_scalar(lambda x: x**3 - a, bracket=(0, 5)).root
    >>> round(float(wb.grad(f)(8.0)), 9)
    0.083333333
    """
    args = to_tuple(args)
    return _find_scalar_root(
        "root_scalar", f, args, method, bracket, fprime, fprime2, x0, x1, settings
    )


def _find_scalar_root(
    name: str,
    f: Function,
    args: tuple[Any, ...],
    method: str | None,
    bracket: Sequence[Any] | None,
    fprime: object,
    fprime2: object,
    x0: Any,
    x1: Any,
    settings: dict[str, Any],
) -> Any:
    """Find a root as `root_scalar` does; errors use the given ``name``."""
    more = {"method": method, "bracket": bracket, "x0": x0, "x1": x1, **settings}
    if not traces.has_open_trace():
        return load_scipy().root_scalar(f, args, fprime=fprime, fprime2=fprime2, **more)
    if fprime is True:
        plain, f = f, lambda x, *a: plain(x, *a)[0]
    results: list[Any] = []
    if bracket is not None:
        more["bracket"] = [require_number(x) for x in bracket]
    for key, x in (("x0", x0), ("x1", x1)):
        if x is not None:
            more[key] = require_number(x)
    start = more["x0"] if bracket is None else sum(more["bracket"]) / 2
    if start is None:
        raise UsageError(
            f"{name}{blame.user_line()}: give a bracket or x0 to start from."
        )

    def solve(f: Function, x: ArrayLike) -> Any:
        more["fprime"] = grad(f) if fprime else None
        more["fprime2"] = grad(grad(f)) if fprime2 else None
        one = lambda x: f(np.float64(x))  # noqa: E731
        try:
            found = blame.call_solver(
                name, lambda: load_scipy().root_scalar(one, **more)
            )
        except UsageError as error:
            if bracket is not None and "different signs" in str(error):
                _check_bracket(name, one, more["bracket"])
            raise
        results[:] = [check_convergence(name, found)]
        return np.float64(found.root)

    made = implicit(
        lambda x: np.reshape(f(x, *args), ()), np.float64(start), solve, None, name
    )  # fmt: skip
    return load_scipy().OptimizeResult(
        {**(results[0] if results else {}), "root": made}
    )


def _make_bracketed(name: str) -> Function:
    """Make SciPy's solver of this name, between two points of different sign."""

    def solver(
        f: Function,
        a: float,
        b: float,
        args: Any = (),
        xtol: float = 2e-12,
        rtol: float = 8.881784197001252e-16,
        maxiter: int = 100,
        full_output: bool = False,
        disp: bool = True,
    ) -> Array:
        settings = {"xtol": xtol, "rtol": rtol, "maxiter": maxiter}
        if not traces.has_open_trace():
            more = {"full_output": full_output, "disp": disp}
            return getattr(load_scipy(), name)(
                f, a, b, to_tuple(args), **settings, **more
            )
        refuse_settings(name, {"full_output": full_output}, "full_output")
        return _find_scalar_root(
            name, f, to_tuple(args), name, (a, b), None, None, None, None, settings
        ).root

    solver.__name__ = solver.__qualname__ = name
    solver.__doc__ = f"""Find a root between two points: `scipy.optimize.{name}`.

    It has derivatives as that of `root_scalar` with this method.

    >>> import workbench as wb
    >>> from workbench.scipy.optimize import {name}
    >>> round(float(wb.grad(lambda a: {name}(lambda x: x * x - a, 0, 9))(4.0)), 6)
    0.25
    """
    return solver


bisect = _make_bracketed("bisect")
brenth = _make_bracketed("brenth")
brentq = _make_bracketed("brentq")
ridder = _make_bracketed("ridder")


def fixed_point(
    func: Function,
    x0: ArrayLike,
    args: object = (),
    xtol: float = 1e-08,
    maxiter: int = 500,
    method: str = "del2",
) -> Array:
    """Find x with ``func(x, *args) = x``, as `scipy.optimize.fixed_point` does.

    Parameters
    ----------
    func
        ``func(x, *args)``, of the shape of x; it may read Tensors.
    x0
        Where the search starts; the fixed point does not depend on it.
    args
        Further arguments of ``func``: nests of arrays, differentiable.
    xtol, maxiter, method
        As for SciPy.

    Returns
    -------
    The fixed point, with derivatives of any order, in both modes.

    Raises
    ------
    ConvergenceError
        If no fixed point was found.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> from workbench.scipy.optimize import fixed_point
    >>> f = lambda a: fixed_point(lambda x, a: (x + a / x) / 2, 1.0, a)
    >>> round(float(wb.grad(f)(4.0)), 6)
    0.25
    """
    args = to_tuple(args)
    if not traces.has_open_trace():
        return load_scipy().fixed_point(func, x0, args, xtol, maxiter, method)

    def solve(f: Function, x: ArrayLike) -> Any:
        step = lambda x: np.asarray(f(np.reshape(x, np.shape(x0))) + x)  # noqa: E731
        found = blame.call_solver(
            "fixed_point",
            lambda: load_scipy().fixed_point(step, x, (), xtol, maxiter, method),
        )
        return np.reshape(found, np.shape(x))

    x0 = to_array(x0).astype(float)
    return implicit(lambda x: func(x, *args) - x, x0, solve, None, "fixed_point")
