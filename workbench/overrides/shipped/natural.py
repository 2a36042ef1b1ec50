"""The natural gradient: the steepest direction where lengths are measured otherwise.

Amari, "Natural gradient works efficiently in learning" (1998): on a space with the
metric M the steepest direction of a loss is ``M⁻¹ d``, not ``d``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from math import isfinite, prod
from numbers import Integral, Real
from typing import Any

import numpy as np

from workbench.autodiff.implicit import custom_linear_solve
from workbench.core import dims
from workbench.core.tensor import Tensor, array_of
from workbench.core.trace import is_live
from workbench.core.types import Array, ArrayLike
from workbench.errors import ConvergenceError, MatrixError, OverrideError, ShapeError
from workbench.ops.define import dtype_of, shape_of
from workbench.overrides.node import Node
from workbench.overrides.targets import name_of

Product = Callable[[Array], Array]
Input = int | str | Sequence[int | str] | None


def natural(
    metric: ArrayLike | Callable[..., Any],
    *,
    damping: float = 0.0,
    input: Input = None,
    solver: str | None = None,
    tolerance: float | None = None,
    iterations: int | None = None,
) -> Natural:
    """Return the natural gradient: ``(M + damping · I)⁻¹ d`` in the place of ``d``.

    Amari, "Natural gradient works efficiently in learning", 1998. The metric M may be
    any positive definite matrix: the Fisher information of the model (`fisher` and
    `kfac` find it from the gradients themselves), the mass of a manifold, or a
    preconditioner.

    Parameters
    ----------
    metric
        A matrix of n rows and columns for an input of n entries, in the order of
        ``np.ravel``; or a function ``metric(node)`` that returns one, or that returns
        the product ``v -> M v`` of vectors of n entries, as a function. A metric that
        reads ``node.inputs`` is differentiated too where second order asks.
    damping
        What is added to the diagonal.
    input
        Which gradients it changes: the position of an input of the node, its name, or
        several of them; the others keep the true gradient. By default all of them.
    solver
        ``"solve"`` by elimination (the default for a matrix), or ``"cg"`` by conjugate
        gradients (Hestenes and Stiefel, 1952), which need only products.
    tolerance, iterations
        Of conjugate gradients: the residual that is small enough, relative to the
        gradient (by default 1e-10; 1e-5 in float32), and the most iterations (by
        default 10 n + 50).

    Returns
    -------
    A rule: a function of a node, for ``wb.override(target, vjp=...)``. It is linear in
    what arrives, so forward mode transposes it. It is not a text, and not stored.

    Raises
    ------
    OverrideError
        If the options do not fit; of an input that the node does not have.
    MatrixError
        If the metric is not symmetric, or not positive definite.
    ShapeError
        If it does not fit the input.
    ConvergenceError
        If conjugate gradients do not arrive.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> M = np.array([[2.0, 0.0], [0.0, 4.0]])
    >>> rule = wb.override("sin", wb.rules.natural(M))
    >>> wb.grad(lambda x: np.sum(np.sin(x)), overrides=[rule])(np.zeros(2))
    array([0.5 , 0.25])
    >>> free = wb.rules.natural(lambda node: lambda v: 5 * v, solver="cg")
    >>> float(wb.grad(np.sin, overrides=[wb.override("sin", free)])(0.0))
    0.2
    """
    return Natural(metric, damping, input, solver, tolerance, iterations)


class Natural:
    """The rule that :func:`workbench.overrides.shipped.natural` makes."""

    def __init__(
        self,
        metric: ArrayLike | Callable[..., Any],
        damping: float,
        input: Input,
        solver: str | None,
        tolerance: float | None,
        iterations: int | None,
    ) -> None:
        if solver not in (None, "solve", "cg"):
            raise OverrideError(
                f'natural: solver={solver!r}; write "solve", or "cg" for conjugate'
                " gradients."
            )
        check_settings(damping, input, tolerance, iterations)
        self.metric = metric
        self.damping = damping
        self.chosen = (
            None
            if input is None
            else (input,)
            if isinstance(input, (int, str))
            else tuple(input)
        )
        self.solver = solver
        self.tolerance = tolerance
        self.iterations = iterations
        called = f" by {name_of(metric)}" if callable(metric) else ""
        self.__name__ = f"natural gradient{called}"
        if not callable(metric):
            check_metric(metric, damping)

    def __call__(self, node: Node, *cotangents: Any) -> list[Any]:
        """Return the gradients of a node."""
        true = node.vjp_wrt(*cotangents)
        wanted = range(len(true)) if self.chosen is None else self.find_positions(node)
        if not any(true[i] is not None for i in wanted):
            return true
        metric: Any = self.metric
        known = not callable(metric)
        if not known:
            metric = metric(node)
            if not callable(metric) and not isinstance(metric, Tensor):
                check_metric(metric, self.damping)
        return [
            self.precondition(metric, d) if d is not None and i in wanted else d
            for i, d in enumerate(true)
        ]

    def find_positions(self, node: Node) -> set[int]:
        """Return the positions of the inputs that were chosen."""
        found = set()
        for one in self.chosen or ():
            names = list(node.names)
            if isinstance(one, str) and one in names:
                found.add(names.index(one))
            elif isinstance(one, int) and -len(names) <= one < len(names):
                found.add(one % len(names))
            else:
                known = ", ".join(repr(n) for n in names if n) or "none of them named"
                raise OverrideError(
                    f"natural: input={one!r}, and {node.op.name} has {len(names)}"
                    f" inputs, {known}. Give a position from 0 to {len(names) - 1}."
                )
        return found

    def precondition(self, metric: Any, d: Array) -> Array:
        """Return the gradient of one input."""
        shape = shape_of(d)
        flat = np.reshape(d, (prod(shape),))
        if not callable(metric):
            metric = _copy_to_device_of(metric, d)
            _check_size(metric, shape)
            if self.solver != "cg":
                damped = add_damping(metric, self.damping)
                return np.reshape(np.linalg.solve(damped, flat), shape)
            matrix = metric
            metric = lambda v: matrix @ v  # noqa: E731
        elif self.solver == "solve":
            raise OverrideError(
                'natural: the metric is a product, and "solve" needs a matrix. Write'
                ' solver="cg", or leave it out.'
            )
        damping = self.damping
        product = metric if not damping else lambda v: metric(v) + damping * v
        found = solve_positive_definite(product, flat, self.tolerance, self.iterations)
        return np.reshape(found, shape)


def add_damping(metric: Array, damping: float) -> Array:
    """Return ``M + damping · I``."""
    if not damping:
        return metric
    return metric + damping * np.identity(shape_of(metric)[0], like=array_of(metric))


def _copy_to_device_of(metric: Any, d: Array) -> Array:
    """Return a matrix where the gradient is, which may be on a GPU."""
    there = array_of(d)
    if not hasattr(metric, "shape"):
        metric = np.asarray(metric)  # host array: a list of numbers
    if isinstance(metric, np.ndarray) and hasattr(there, "__cuda_array_interface__"):
        return np.asarray(metric, like=there)
    return metric


def _check_size(metric: Array, shape: tuple[Any, ...]) -> None:
    if dims.has_dim(shape) or dims.has_dim(shape_of(metric)):
        return  # `solve` looks when the program runs
    n = prod(shape)
    if shape_of(metric) != (n, n):
        raise ShapeError(
            f"natural: the metric has shape {shape_of(metric)}, and the gradient of"
            f" shape {shape} has {n} entries, so it must have shape {(n, n)}. Choose"
            " the input that it belongs to: natural(metric, input=0)."
        )


def check_metric(metric: ArrayLike, damping: float) -> None:
    """Raise an error if a matrix is not a metric.

    Raises
    ------
    MatrixError
        If it is not symmetric (Hermitian), or not positive definite when damped.
    ShapeError
        If it is not a square matrix.
    """
    matrix: Any = metric
    if not hasattr(matrix, "shape"):
        try:
            matrix = np.asarray(matrix)  # host array: a list of numbers
        except ValueError:  # rows of different lengths
            raise ShapeError(
                "natural: a metric is a square matrix, and the rows of this list have"
                " different lengths. Give rows of one length."
            ) from None
    if len(matrix.shape) != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ShapeError(
            f"natural: a metric is a square matrix, and this has shape {matrix.shape}."
        )
    if np.dtype(matrix.dtype).kind not in "iufc":
        raise OverrideError(
            f"natural: a metric of dtype {matrix.dtype} is not a metric."
        )
    size = float(np.max(np.abs(matrix))) if matrix.shape[0] else 0.0
    kind = np.dtype(matrix.dtype)
    eps = float(np.finfo(kind if kind.kind in "fc" else np.float64).eps)
    apart = np.abs(matrix - np.conj(matrix.T))
    if matrix.shape[0] and not float(np.max(apart)) <= 100 * eps * size:
        raise MatrixError(
            "natural: a metric is symmetric, and this matrix differs from its transpose"
            f" by {float(np.max(apart)):.3g}. Take (M + M.T) / 2."
        )
    whole = add_damping(matrix, damping)
    try:
        factor = np.linalg.cholesky(whole)
        good = bool(np.all(np.isfinite(factor)))  # CuPy's does not raise
    except np.linalg.LinAlgError:
        good = False
    if not good:
        least = float(np.min(np.linalg.eigvalsh(whole)))
        raise MatrixError(
            "natural: a metric is positive definite, and the smallest eigenvalue of"
            f" this one is {least:.3g}{' with its damping' if damping else ''}. Give"
            f" damping={max(-2 * least, 1e-6 * size) + damping:.2g}, for example."
        )


def check_settings(
    damping: object, input: object, tolerance: object, iterations: object
) -> None:
    """Raise an OverrideError if a setting is of another kind."""
    if not isinstance(damping, Real) or not float(damping) >= 0:
        raise OverrideError(
            f"natural: damping={damping!r}; give a number that is not negative."
        )
    if iterations is not None and not isinstance(iterations, Integral):
        raise OverrideError(f"natural: iterations={iterations!r}; give a whole number.")
    if tolerance is not None and not isinstance(tolerance, Real):
        raise OverrideError(f"natural: tolerance={tolerance!r}; give a number.")
    if input is not None and not isinstance(input, (int, str, Iterable)):
        raise OverrideError(
            f"natural: input={input!r}; give a position, a name, or several."
        )


# Conjugate gradients


def solve_positive_definite(
    product: Product,
    b: Array,
    tolerance: float | None = None,
    iterations: int | None = None,
) -> Array:
    """Return the solution of ``M x = b`` by conjugate gradients, differentiable.

    Raises
    ------
    MatrixError
        If M turns out not to be positive definite.
    ConvergenceError
        If it does not arrive.
    """
    run = partial(conjugate_gradients, tolerance=tolerance, iterations=iterations)
    if is_live(b) or isinstance(b, Tensor):
        return custom_linear_solve(product, b, run, symmetric=True)
    return run(product, b)


def conjugate_gradients(
    product: Product,
    b: Array,
    *,
    tolerance: float | None = None,
    iterations: int | None = None,
) -> Array:
    """Conjugate gradients on plain arrays (Hestenes and Stiefel, 1952).

    On a right side of size 1, for the squares of others overflow or vanish; of one
    that is not finite nothing is known, as of any other way to solve.
    """
    n = shape_of(b)[0]
    size = float(np.max(np.abs(b))) if n else 0.0
    if size == 0:
        return np.zeros_like(b)
    if not isfinite(size):
        return np.full_like(b, np.nan)
    return size * _iterate(product, b / size, n, tolerance, iterations)


def _iterate(
    product: Product,
    b: Array,
    n: int,
    tolerance: float | None,
    iterations: int | None,
) -> Array:
    """See `conjugate_gradients`."""
    if tolerance is None:
        tolerance = 1e-5 if dtype_of(b) in (np.float32, np.complex64) else 1e-10
    most = 10 * n + 50 if iterations is None else iterations
    x, r, p = np.zeros_like(b), b, b
    square = _real_dot(r, r)
    enough = tolerance**2 * square
    for _ in range(most):
        if square <= enough:
            return x
        q = product(p)
        if shape_of(q) != (n,):
            raise ShapeError(
                f"natural: the product of the metric with a vector of shape {(n,)} has"
                f" shape {shape_of(q)}."
            )
        curvature = _real_dot(p, q)
        if not curvature > 0:
            raise MatrixError(
                "natural: a metric is positive definite, and along one direction v of"
                f" this one v · M v = {curvature / _real_dot(p, p):.3g} |v|². Give"
                " damping=, or another metric."
            )
        step = square / curvature
        x, r = x + step * p, r - step * q
        new = _real_dot(r, r)
        p = r + (new / square) * p
        square = new
    if square <= enough:
        return x
    left = (square / _real_dot(b, b)) ** 0.5
    raise ConvergenceError(
        f"natural: after {most} iterations of conjugate gradients {left:.3g} of the"
        f" gradient is left, and tolerance={tolerance:.3g} was asked for. Give more"
        " iterations=, a larger tolerance=, or damping=."
    )


def _real_dot(a: Array, b: Array) -> float:
    return float(np.real(np.vdot(a, b)))
