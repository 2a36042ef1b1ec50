"""Boundary value problems: the derivatives of SciPy's collocation.

SciPy refines a mesh and finds the states y at its nodes, and unknown parameters p, by
collocation at the middles of its intervals (Kierzenka and Shampine, *A BVP solver based
on residual control and the MATLAB PSE*, 2001). On the mesh that it ends with, these are
equations in y and p, and the implicit function theorem gives the derivatives.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from workbench.autodiff.implicit import root
from workbench.autodiff.jacobian import jacobian
from workbench.core import blame, traces
from workbench.core.tensor import admit, value_of
from workbench.core.types import Array, ArrayLike
from workbench.errors import ConvergenceError, UsageError
from workbench.ops.define import convert_like, dtype_of
from workbench.scipy.interpolate import CubicHermiteSpline

Function = Callable[..., Any]

#: Newton's steps where the equations are solved again for other values.
MOST_STEPS = 20


def solve_bvp(
    fun: Function,
    bc: Function,
    x: ArrayLike,
    y: ArrayLike,
    p: ArrayLike | None = None,
    S: object = None,
    fun_jac: Any = None,
    bc_jac: Any = None,
    tol: float = 1e-3,
    max_nodes: int = 1000,
    verbose: int = 0,
    bc_tol: float | None = None,
) -> Any:
    """Solve a boundary value problem as `scipy.integrate.solve_bvp` does.

    Parameters
    ----------
    fun
        ``fun(x, y)``, or ``fun(x, y, p)``, the rates of change, shape (n, m), at
        nodes of shape (m,). It may read Tensors through its closure.
    bc
        ``bc(ya, yb)``, or ``bc(ya, yb, p)``, what vanishes at the ends, shape
        (n + k,). It may read Tensors too.
    x
        The first mesh, shape (m,): its ends are those of the problem. The solution
        has derivatives by it, and so by the ends.
    y, p
        Guesses of the states at the mesh, shape (n, m), and of unknown parameters,
        shape (k,). The solution does not depend on them.
    tol, max_nodes, verbose, bc_tol
        As for SciPy. Derivatives are as accurate as ``tol`` says: 1e-3 by default.

    Returns
    -------
    SciPy's result: the mesh ``x``, ``y``, ``yp``, ``p``, the spline ``sol``. All have
    derivatives of any order, in both modes. They solve a linear system in all
    unknowns at once, which suits up to about a thousand.

    Raises
    ------
    ConvergenceError
        Inside a derivative, if SciPy does not reach ``tol``.
    MatrixError
        If the solution is not isolated.
    UsageError
        For ``S`` or complex states inside a derivative, and in a trace without values.

    Examples
    --------
    The slope at 0 of ``y'' = -k exp(y)`` between zeros, by k (Bratu's problem):

    >>> import numpy as np, workbench as wb
    >>> from workbench.scipy.integrate import solve_bvp
    >>> def slope(k):
    ...     rate = lambda x, y: np.stack([y[1], -k * np.exp(y[0])])
    ...     ends = lambda ya, yb: np.stack([ya[0], yb[0]])
    ...     x = np.linspace(0, 1, 11)
    ...     return solve_bvp(rate, ends, x, np.zeros((2, 11)), tol=1e-6).y[1, 0]
    >>> round(float(wb.grad(slope)(1.0)), 5)
    0.60821
    """
    scipy_integrate: Any = import_module("scipy.integrate")
    settings = {
        "tol": tol, "max_nodes": max_nodes, "verbose": verbose, "bc_tol": bc_tol
    }  # fmt: skip
    if not traces.has_open_trace():
        return scipy_integrate.solve_bvp(
            fun, bc, x, y, p, S, fun_jac, bc_jac, **settings
        )
    if S is not None:
        raise UsageError(
            f"solve_bvp(..., S=...){blame.user_line()} is not known inside a"
            " derivative. Begin the mesh a little beyond the singular point, and write"
            " the term into the function."
        )
    mesh = admit(x)
    values = [value_of(v) for v in (mesh, admit(y), None if p is None else admit(p))]
    if values[0] is None or values[1] is None or (p is not None and values[2] is None):
        raise _refuse_values("the mesh or a guess")
    if np.iscomplexobj(values[1]):
        raise UsageError(
            f"solve_bvp{blame.user_line()} of complex states is not known inside a"
            " derivative. Make rows of the real and the imaginary parts."
        )

    def plain(name: str, f: Function) -> Function:
        def compute(*args: Any) -> Array:
            value = value_of(admit(f(*args)))
            if value is None:
                raise _refuse_values(f"what `{name}` returns")
            return np.asarray(value)

        return compute

    found = blame.call_solver(
        "solve_bvp",
        lambda: scipy_integrate.solve_bvp(
            plain("fun", fun), plain("bc", bc), *values, **settings
        ),
    )
    if not found.success:
        raise ConvergenceError(
            f"solve_bvp{blame.user_line()}: {found.message} Give a finer mesh, a better"
            " guess or a larger tol."
        )
    n, m = found.y.shape
    size = n * m
    nodes = _move_nodes(mesh, values[0], found.x)

    def unpack(z: Any) -> tuple[Any, ...]:
        states = np.reshape(z[:size], (n, m))
        return (states,) if p is None else (states, z[size:])

    def rate(at: Any, states: Any, *more: Any) -> Any:
        return np.astype(np.reshape(admit(fun(at, states, *more)), (n, -1)), float)

    def residual(z: Any) -> Any:
        states, *more = unpack(z)
        left, right = states[:, :-1], states[:, 1:]
        width = nodes[1:] - nodes[:-1]
        f = rate(nodes, states, *more)
        middle = 0.5 * (left + right) - 0.125 * width * (f[:, 1:] - f[:, :-1])
        inner = rate(nodes[:-1] + 0.5 * width, middle, *more)
        step = right - left - width / 6 * (f[:, :-1] + f[:, 1:] + 4 * inner)
        ends: Any = admit(bc(states[:, 0], states[:, -1], *more))
        return np.concatenate([np.reshape(step, -1), np.astype(ends, float)])

    guess = np.concatenate([found.y.ravel(), *([] if p is None else [found.p])])
    first: list[float] = []

    def solve(f: Function, z: Array) -> Array:
        """Return what SciPy found; Newton's steps from it for other values."""
        for _ in range(MOST_STEPS):
            rest = f(z)
            left = float(np.max(np.abs(rest)))
            if not first:
                first.append(max(left, 1e-12))
            if left <= 2 * first[0]:
                return z
            z = z - np.linalg.solve(jacobian(f)(z), rest)
        raise ConvergenceError(
            f"solve_bvp{blame.user_line()}: Newton's method does not converge for other"
            " values than those it was solved for."
        )

    states, *more = unpack(root(residual, guess, solve, None, "solve_bvp"))
    slopes = rate(nodes, states, *more)
    optimize: Any = import_module("scipy.optimize")
    return optimize.OptimizeResult(
        {
            **found,
            "x": nodes,
            "y": states,
            "yp": slopes,
            "p": more[0] if more else None,
            "sol": CubicHermiteSpline(nodes, states, slopes, axis=1),
        }
    )


def _refuse_values(what: str) -> UsageError:
    return UsageError(
        f"solve_bvp{blame.user_line()}: {what} depends on values, which this trace does"
        " not have. Call it under wb.grad, wb.jacobian or wb.jvp of numbers, not under"
        " wb.compile or wb.vmap."
    )


def _move_nodes(mesh: Any, known: Any, nodes: Any) -> Any:
    """Return the nodes of the last mesh; those added move with their neighbours."""
    place = np.clip(np.searchsorted(known, nodes, "right") - 1, 0, len(known) - 2)
    share = (nodes - known[place]) / (known[place + 1] - known[place])
    weights = np.zeros((len(nodes), len(known)))
    row = np.arange(len(nodes))
    weights[row, place], weights[row, place + 1] = 1 - share, share
    if not hasattr(mesh, "shape") or dtype_of(mesh).kind != "f":
        mesh = np.asarray(mesh, float)
    return convert_like(weights, mesh) @ mesh
