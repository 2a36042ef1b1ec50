"""`theano.tensor.slinalg`: matrices, by `workbench.scipy.linalg`."""

from __future__ import annotations

import numpy as np

from workbench.compat.theano.tensor.lifting import lift
from workbench.compat.theano.types import as_tensor_variable
from workbench.core.types import Array, ArrayLike
from workbench.errors import UsageError

__all__ = [
    "Cholesky",
    "Eigvalsh",
    "Expm",
    "Solve",
    "cholesky",
    "eigvalsh",
    "expm",
    "kron",
    "solve",
    "solve_lower_triangular",
    "solve_symmetric",
    "solve_upper_triangular",
]


class Cholesky:
    """The triangular factor of a positive definite matrix: ``Cholesky(lower=True)``."""

    def __init__(self, lower: bool = True, on_error: str = "raise") -> None:
        if on_error != "raise":
            raise UsageError(
                "Cholesky(on_error='nan') is not known: a matrix that is not positive"
                " definite raises."
            )
        self.lower = lower

    def __call__(self, x: ArrayLike) -> Array:
        """Return the factor."""
        made = np.linalg.cholesky(as_tensor_variable(x))
        return lift(made if self.lower else np.swapaxes(made, -1, -2))


class Solve:
    """The solution of ``a x = b``: general, symmetric or triangular by structure."""

    def __init__(
        self,
        A_structure: str = "general",
        lower: bool = False,
        overwrite_A: bool = False,
        overwrite_b: bool = False,
    ) -> None:
        known = ("general", "symmetric", "lower_triangular", "upper_triangular")
        if A_structure not in known:
            raise UsageError(
                f"Solve: A_structure={A_structure!r} is unknown. Give one of"
                f" {', '.join(known)}."
            )
        self.structure = A_structure

    def __call__(self, a: ArrayLike, b: ArrayLike) -> Array:
        """Return the solution."""
        from workbench.scipy import linalg

        a, b = as_tensor_variable(a), as_tensor_variable(b)
        if self.structure.endswith("_triangular"):
            lower = self.structure.startswith("lower")
            return lift(linalg.solve_triangular(a, b, lower=lower))
        if b.ndim == 1:
            return lift(np.linalg.solve(a, b[:, None])[:, 0])
        return lift(np.linalg.solve(a, b))


cholesky = Cholesky()
solve = Solve()
solve_symmetric = Solve("symmetric")
solve_lower_triangular = Solve("lower_triangular")
solve_upper_triangular = Solve("upper_triangular")


class Eigvalsh:
    """Eigenvalues of a symmetric matrix, or of a pair: ``Eigvalsh(lower=True)``."""

    def __init__(self, lower: bool = True) -> None:
        self.lower = lower

    def __call__(self, a: ArrayLike, b: ArrayLike | None = None) -> Array:
        """Return the eigenvalues, ascending."""
        return eigvalsh(a, b, self.lower)


def eigvalsh(a: ArrayLike, b: ArrayLike | None = None, lower: bool = True) -> Array:
    """Return the eigenvalues of a symmetric matrix, or of a pair of them."""
    from workbench.scipy import linalg

    a = as_tensor_variable(a)
    if b is None:
        return lift(np.linalg.eigvalsh(a, "L" if lower else "U"))
    return lift(linalg.eigvalsh(a, as_tensor_variable(b), lower=lower))


def expm(a: ArrayLike) -> Array:
    """Return the exponential of a matrix, as `scipy.linalg.expm` does."""
    from workbench.scipy import linalg

    return lift(linalg.expm(as_tensor_variable(a)))


class Expm:
    """`expm` under the name of its op."""

    def __call__(self, a: ArrayLike) -> Array:
        """Return the exponential of a matrix."""
        return expm(a)


def kron(a: ArrayLike, b: ArrayLike) -> Array:
    """Return the Kronecker product, as `numpy.kron` does."""
    return lift(np.kron(as_tensor_variable(a), as_tensor_variable(b)))
