"""SciPy's solvers as derivatives need them: settings, convergence, Newton's step."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from itertools import accumulate
from types import ModuleType
from typing import Any

import numpy as np

from workbench.autodiff.jacobian import jacobian
from workbench.core import blame, tree
from workbench.core.tensor import admit, value_of
from workbench.core.types import Array, ArrayLike
from workbench.errors import ConvergenceError, UsageError

Function = Callable[..., Any]

#: So near to a limit, beside the size of x, it may hold.
CLOSE = 1e-4
#: A limit so near to where the minimum would be without it holds without force.
NEAR = 1e-8
#: Newton's step from a minimum may be so large, beside its entries: its derivatives are
#: about as exact as the point.
EXACT = 1e-4


def load_scipy() -> ModuleType:
    """Return SciPy's module, loaded when one of its solvers is first needed."""
    return import_module("scipy.optimize")


def to_tuple(args: object) -> tuple[Any, ...]:
    """Return the arguments of a function, of which one alone may stand for itself."""
    return args if isinstance(args, tuple) else (args,)


def refuse_settings(name: str, settings: dict[str, Any], *unknown: str) -> None:
    """Refuse settings that a derivative could not honour."""
    for setting in unknown:
        given = settings.get(setting)
        if given is not None and given is not False and given != ():
            raise UsageError(
                f"{name}(..., {setting}=...){blame.user_line()} is not known inside a"
                " derivative. Leave it out; derivatives of the function are found by"
                " themselves."
            )


def check_convergence(name: str, result: Any) -> Any:
    """Return the result of a solver, or raise if the solver reports failure."""
    success = getattr(result, "success", getattr(result, "converged", True))
    if not success:
        message = getattr(result, "message", None) or getattr(result, "flag", "")
        raise ConvergenceError(
            f"{name}{blame.user_line()}: {str(message).rstrip('.')}. Its derivative"
            " would be that of no root: start nearer by, or take another method."
        )
    return result


def find_largest(x: Any) -> float:
    """Return the largest size of a number in arrays."""
    return max(
        float(np.max(np.abs(part), initial=0.0))  # host array: SciPy's own
        for part in tree.flatten(x)[0]
    )


def find_newton_step(both: Function, solution: Any) -> Array:
    """Return Newton's step to the root of an equation: about the error of a point.

    It is flat, and infinite if the equation has no root by its derivative.
    """
    leaves, structure = tree.flatten(solution)
    ends = [*accumulate(leaf.size for leaf in leaves)]

    def residual(flat: Array) -> Array:
        parts = np.split(flat, ends[:-1])
        shaped = [np.reshape(x, y.shape) for x, y in zip(parts, leaves, strict=True)]
        rest = tree.flatten(both(structure(shaped))[0])[0]
        return np.concatenate([np.reshape(x, (-1,)) for x in rest])

    flat = np.concatenate([leaf.ravel() for leaf in leaves])
    rest, matrix = residual(flat), jacobian(residual)(flat)
    if not np.any(rest):
        return np.zeros_like(flat)
    try:
        return np.linalg.solve(matrix, rest)
    except np.linalg.LinAlgError:
        if not np.all(np.isfinite(matrix)):
            return np.full_like(flat, np.inf)
    step = np.linalg.lstsq(matrix, rest)[0]
    is_root = find_largest(matrix @ step - rest) <= EXACT * find_largest(rest)
    return step if is_root else np.full_like(flat, np.inf)


def check_minimum(
    name: str, step: Array, size: float, slope: Any, settings: str
) -> None:
    """Refuse a point that Newton's step from it shows to be no minimum."""
    error = find_largest(step)
    if not error <= EXACT * size:
        raise ConvergenceError(
            f"{name}{blame.user_line()}: the gradient at the point found is"
            f" {find_largest(slope):.2g}, and not 0; Newton's step from there has the"
            f" size {error:.2g}. Give smaller {settings}, or another method; a"
            " minimum at a kink of the function has no such derivative."
        )


def polish_root(f: Callable[[float], float], x: float) -> float:
    """Return a root with its last digits, which a search by values does not have."""
    y = f(x)
    for _ in range(5):
        step = 1e-5 * (1 + abs(x))
        rise = f(x + step) - y
        better = x - step * y / rise if rise else x
        rest = f(better)
        if not abs(rest) < abs(y):
            break
        x, y = better, rest
    return x


def to_array(x: ArrayLike) -> Array:
    """Return a Tensor or an array; of a list of Tensors one Tensor."""
    x = admit(x)
    return x if hasattr(x, "shape") else np.asarray(x)


def to_vector(value: ArrayLike) -> Array:
    """Return the result of a function as one vector."""
    return np.atleast_1d(to_array(value))


def require_number(x: Any) -> float:
    """Return a start as a plain number: the root does not depend on the start."""
    value = value_of(x)
    if value is None:
        raise UsageError(
            f"where the search starts has no value while tracing without values"
            f"{blame.user_line()}. Give plain numbers."
        )
    return float(value)
