"""`scipy.sparse.linalg` with Tensors: solves, eigenvalues, functions and norms.

On arrays outside every derivative each is SciPy's own function.

Examples
--------
>>> import numpy as np, scipy.sparse, workbench as wb
>>> from workbench.scipy.sparse.linalg import spsolve
>>> A = scipy.sparse.csc_array([[2.0, 1.0], [0.0, 4.0]])
>>> g = wb.grad(lambda A: np.sum(spsolve(A, np.array([3.0, 4.0]))))(A)
>>> g.toarray()
array([[-0.5  , -0.5  ],
       [ 0.   , -0.125]])
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from workbench.autodiff.implicit import custom_linear_solve
from workbench.core import blame, dims
from workbench.core.tensor import admit
from workbench.core.tree import is_sparse
from workbench.core.types import ArrayLike, is_device_array
from workbench.errors import ConvergenceError, ShapeError, TraceError, UsageError
from workbench.ops import device
from workbench.ops.define import shape_of
from workbench.ops.sparse import eigen, functions, solving, stacking
from workbench.ops.sparse.pattern import sum_duplicates

__all__ = [
    "bicgstab",
    "cg",
    "eigsh",
    "expm",
    "factorized",
    "gmres",
    "inv",
    "minres",
    "norm",
    "splu",
    "spsolve",
]


def _scipy() -> Any:
    return import_module("scipy.sparse.linalg")


def spsolve(A: Any, b: Any, permc_spec: Any = None, use_umfpack: bool = True) -> Any:
    """Return the solution of ``A @ x = b``, as `scipy.sparse.linalg.spsolve`.

    Parameters
    ----------
    A
        A square sparse array, (n, n); it may be differentiated by.
    b
        A dense right-hand side, (n,) or (n, p).

    Returns
    -------
    ``x``, (n,) or (n, p). With Tensors the factors are those of SuperLU and are used
    for the derivatives too, with the transposed system in reverse mode.

    Raises
    ------
    MatrixError
        If ``A`` is exactly singular.
    ShapeError
        If ``A`` is not square or ``b`` has another number of rows.
    """
    if not stacking.holds_tensor((A, b)):
        import scipy.sparse.linalg

        return scipy.sparse.linalg.spsolve(A, b, permc_spec, use_umfpack)
    return solving.solve(A, b)


def factorized(A: ArrayLike) -> Callable[[Any], Any]:
    """Factor ``A``, and return a function ``b -> x`` that solves ``A @ x = b``."""
    return solving.Factors(A).solve


def splu(A: Any, *args: Any, **settings: Any) -> Any:
    """Factor a sparse array, as `scipy.sparse.linalg.splu`; its solves are derived.

    Parameters
    ----------
    A
        A square sparse array, (n, n); it may be differentiated by.
    args, settings
        SciPy's, for an array outside every derivative alone; a ``b`` that is a Tensor
        is solved for without them.

    Returns
    -------
    An object with ``solve(b, trans="N")``. ``b`` may be a Tensor. ``L``, ``U`` and the
    permutations are those of SciPy, and without derivative.

    Examples
    --------
    >>> import numpy as np, scipy.sparse, workbench as wb
    >>> A = scipy.sparse.csc_array([[2.0, 1.0], [0.0, 4.0]])
    >>> factors = wb.scipy.sparse.linalg.splu(A)
    >>> wb.grad(lambda b: np.sum(factors.solve(b)))(np.array([3.0, 4.0]))
    array([0.5  , 0.125])
    """
    if args or settings:
        if stacking.holds_tensor(A):
            raise TraceError(
                f"splu(A, ...){blame.user_line()}: settings of SuperLU are not known"
                " inside a derivative. Write splu(A)."
            )
        made = _scipy().splu(A, *args, **settings)
        if not is_sparse(A):
            A = import_module("scipy.sparse").csc_array(A)
        # A copy of the matrix: later changes to it do not change the factors.
        return solving.Factors(A.copy(), made)
    return solving.Factors(A)


# Iterative solvers


def _solve_by(name: str, A: Any, b: Any, settings: dict[str, Any]) -> tuple[Any, int]:
    """Solve by a solver of SciPy's; derivatives by the same on the adjoint equation."""
    solver = getattr(_scipy(), name)
    if not stacking.holds_tensor((A, b)):
        made: tuple[Any, int] = solver(A, b, **settings)
        return made
    if settings.pop("callback", None) is not None:
        raise UsageError(
            f"{name}(..., callback=...){blame.user_line()} is not known inside a"
            " derivative, which solves other systems too. Leave it out."
        )
    settings.pop("x0", None)  # the solution does not depend on it
    shape, size = getattr(A, "shape", None), shape_of(admit(b))
    if (
        shape is None
        or len(size) != 1
        or dims.always_differ(tuple(shape), (size[0], size[0]))
    ):
        raise ShapeError(
            f"{name}(A, b){blame.user_line()}: A is of shape {shape}, b of {size}."
            " Inside a derivative A is a square array, sparse or dense, and b a vector"
            " of as many entries; of a function write wb.custom_linear_solve."
        )

    def solve(matvec: Callable[[Any], Any], right: Any) -> Any:
        if is_device_array(right):

            def multiply(x: Any) -> Any:
                return matvec(np.asarray(x, like=right)).get()

            return device.compute_on_host(
                name, device.ON_HOST[name], lambda b: run(multiply, b), (right,)
            )
        return run(matvec, right)

    def run(matvec: Callable[[Any], Any], right: Any) -> Any:
        operator = _scipy().LinearOperator(
            (len(right), len(right)), matvec=matvec, dtype=right.dtype
        )
        x, info = solver(operator, right, **settings)
        if info:
            raise ConvergenceError(
                f"{name}{blame.user_line()} has not converged (info={info}), and its"
                " derivative would be that of no solution. Give a preconditioner M=, or"
                " more iterations with maxiter=."
            )
        return x

    # Of a symmetric array too: a derivative by one of its entries leaves symmetry.
    x = custom_linear_solve(lambda x: A @ x, b, solve, transpose_solve=solve)
    return x, 0


_SOLVER = """Solve ``A @ x = b`` by iteration, as `scipy.sparse.linalg.{name}`.

Parameters
----------
A
    {matrix}, (n, n), sparse or dense; it may be differentiated by.
b
    The right-hand side, (n,).
settings
    SciPy's: ``rtol``, ``atol``, ``maxiter``, ``M``, ...; derivatives are as precise
    as ``rtol`` lets the solutions be.

Returns
-------
``(x, info)``; inside a derivative ``info`` is 0.

Raises
------
ConvergenceError
    Inside a derivative, if the solver does not converge.
"""


def _make_solver(name: str, symmetric: bool) -> Callable[..., tuple[Any, int]]:
    def solver(A: Any, b: Any, **settings: Any) -> tuple[Any, int]:
        return _solve_by(name, A, b, settings)

    matrix = "A symmetric array" if symmetric else "A square array"
    solver.__name__ = solver.__qualname__ = name
    solver.__doc__ = _SOLVER.format(name=name, matrix=matrix)
    return solver


for _name in ("bicgstab", "cg", "gmres", "minres"):
    device.ON_HOST[_name] = "solver with SciPy's settings"

bicgstab = _make_solver("bicgstab", symmetric=False)
cg = _make_solver("cg", symmetric=True)
gmres = _make_solver("gmres", symmetric=False)
minres = _make_solver("minres", symmetric=True)


# Eigenvalues


def eigsh(
    A: Any,
    k: int = 6,
    M: Any = None,
    sigma: float | None = None,
    which: str = "LM",
    return_eigenvectors: bool = True,
    tol: float = 0,
    maxiter: int | None = None,
    **settings: Any,
) -> Any:
    """Return some eigenvalues of a symmetric array, as `scipy.sparse.linalg.eigsh`.

    Parameters
    ----------
    A
        A real symmetric sparse array, (n, n); it may be differentiated by. Its
        gradient is symmetric.
    k
        How many; less than n.
    sigma, which, tol, maxiter
        SciPy's: eigenvalues near ``sigma``, or the largest (``"LA"``), the smallest
        (``"SA"``), those of the largest magnitude (``"LM"``).
    return_eigenvectors
        False: the eigenvalues alone.
    M, settings
        SciPy's, outside a derivative alone.

    Returns
    -------
    ``(values, vectors)``, (k,) in ascending order and (n, k). Derivatives of any
    order; those of a vector need its eigenvalue to be single.

    Raises
    ------
    MatrixError
        By the derivative of a vector whose eigenvalue is repeated.

    Examples
    --------
    >>> import numpy as np, scipy.sparse, workbench as wb
    >>> A = scipy.sparse.diags_array([1.0, 2.0, 5.0]).tocsr()
    >>> lowest = lambda A: wb.scipy.sparse.linalg.eigsh(A, 1, which="SA")[0][0]
    >>> np.round(wb.grad(lowest)(A).data, 6)
    array([1., 0., 0.])
    """
    own = {"sigma": sigma, "which": which, "tol": tol, "maxiter": maxiter}
    if not stacking.holds_tensor(A):
        return _scipy().eigsh(
            A, k, M, return_eigenvectors=return_eigenvectors, **own, **settings
        )
    if M is not None or settings:
        told = ["M"] * (M is not None) + [*settings]
        raise UsageError(
            f"eigsh(..., {told[0]}=...){blame.user_line()} is not known inside a"
            " derivative. Leave it out."
        )
    values, vectors = eigen.solve_eigenproblem(A, k, **own)
    return (values, vectors) if return_eigenvectors else values


# Functions of a matrix


def _check_square(name: str, a: Any) -> None:
    shape = tuple(a.shape)
    if len(shape) != 2 or shape[0] != shape[1]:
        raise ShapeError(
            f"{name}(A){blame.user_line()}: A is of shape {shape}, and must be square."
        )


def expm(A: Any) -> Any:
    """Return the exponential of a sparse array, as `scipy.sparse.linalg.expm`.

    Parameters
    ----------
    A
        A square sparse array, (n, n); it may be differentiated by.

    Returns
    -------
    A sparse array in CSC. With Tensors it stores the entries (i, j) where j is reached
    from i by stored entries of ``A``, whatever the values. A matrix that falls into
    parts is computed part by part, each as a dense matrix unless it is large and less
    than a quarter of the result is stored; a derivative is the exponential of one of
    twice as many rows.
    """
    if not stacking.holds_tensor(A):
        return _scipy().expm(A.tocsc())
    _check_square("expm", A)
    return functions.apply_function("expm", *sum_duplicates(A))


def inv(A: Any) -> Any:
    """Return the inverse of a sparse array, as `scipy.sparse.linalg.inv`.

    Parameters
    ----------
    A
        A square sparse array, (n, n); it may be differentiated by. A solve,
        `spsolve(A, b)`, is nearly always better.

    Returns
    -------
    A sparse array in CSC. With Tensors it stores the entries that the inverse of a
    matrix of this pattern can have, whatever the values. A matrix that falls into parts
    is inverted part by part, each as a dense matrix unless it is large and less than a
    quarter of the result is stored.

    Raises
    ------
    MatrixError
        If ``A`` is singular.
    """
    if not stacking.holds_tensor(A):
        return _scipy().inv(A.tocsc())
    _check_square("inv", A)
    return functions.apply_function("inv", *sum_duplicates(A))


def norm(x: Any, ord: Any = None, axis: Any = None) -> Any:
    """Return the norm of a sparse array, as `scipy.sparse.linalg.norm`.

    Of a sparse Tensor ``ord`` is None or ``"fro"`` (Frobenius), 1, -1, inf or -inf
    (sums of magnitudes by column or row), and ``axis`` None.
    """
    if not stacking.holds_tensor(x):
        import scipy.sparse.linalg

        return scipy.sparse.linalg.norm(x, ord, axis)
    if axis is not None or ord not in (None, "fro", "f", 1, -1, np.inf, -np.inf):
        raise TraceError(
            f"norm(S, ord={ord!r}, axis={axis!r}){blame.user_line()} of a sparse Tensor"
            " is not known. Write np.linalg.norm(S.toarray(), ...), or sums of"
            " S.multiply(S)."
        )
    if ord in (None, "fro", "f"):
        values, _ = sum_duplicates(x)
        return np.linalg.norm(values)
    sums = abs(x).sum(axis=0 if ord in (1, -1) else 1)
    return np.max(sums) if ord > 0 else np.min(sums)


def __getattr__(name: str) -> Any:
    import scipy.sparse.linalg

    if name.startswith("__"):
        raise AttributeError(name)
    return getattr(scipy.sparse.linalg, name)
