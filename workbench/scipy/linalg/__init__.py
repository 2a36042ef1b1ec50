"""The names of `scipy.linalg` for Tensors and arrays.

`solving` holds systems and inverses, `factors` the decompositions, eigenvalues and
singular values, `functions` those of a matrix, `structured` matrices made of vectors.
What has no derivative here says why when it is looked up.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg as _scipy

from workbench.core.blame import suggest
from workbench.core.deferred import operand_shape
from workbench.core.dims import smallest
from workbench.core.op import LENGTHS
from workbench.core.types import Array, Shape
from workbench.errors import UnknownLengthError
from workbench.ops.define import shape_of_first
from workbench.ops.lengths import defer_functions
from workbench.scipy.linalg import factors, functions, solving, structured
from workbench.scipy.linalg.factors import *  # noqa: F403
from workbench.scipy.linalg.functions import *  # noqa: F403
from workbench.scipy.linalg.solving import *  # noqa: F403
from workbench.scipy.linalg.structured import *  # noqa: F403

__all__ = sorted(
    name for home in (factors, functions, solving, structured) for name in home.__all__
)

_BASIS = "its columns are any basis of a space, chosen by rounding"
_ORDER = "its order and its blocks jump with the matrix"
_BANDS = "banded storage is supported for solutions alone"
_TESTS = "it answers a question about values"

#: Functions of SciPy that take arrays and no Tensors: why, and what to write.
REFUSED: dict[str, tuple[str, str]] = {
    "bandwidth": (_TESTS, "scipy.linalg.bandwidth(x.value)"),
    "cdf2rdf": ("it rearranges the result of eig by its values", "eig"),
    "cho_solve_banded": (_BANDS, "solveh_banded"),
    "cholesky_banded": (_BANDS, "cholesky of the whole matrix, or solveh_banded"),
    "clarkson_woodruff_transform": (
        "it draws at random inside",
        "S @ x with a plain sketching matrix S",
    ),
    "cossin": (_ORDER, "svd of the blocks"),
    "eig_banded": (_BANDS, "eigh of the whole matrix"),
    "eigvals_banded": (_BANDS, "eigvalsh of the whole matrix"),
    "expm_cond": ("it is a bound found by values", "norm of expm_frechet"),
    "fiedler_companion": ("it is another companion matrix", "companion"),
    "funm": (
        "its function is not known to have a derivative",
        "expm, logm, sqrtm, ...",
    ),
    "hessenberg": ("signs and zeros of its factors are open", "qr or eig"),
    "ishermitian": (_TESTS, "scipy.linalg.ishermitian(x.value)"),
    "issymmetric": (_TESTS, "scipy.linalg.issymmetric(x.value)"),
    "ldl": ("its pivots of size 1 and 2 jump with the matrix", "cholesky or lu"),
    "matrix_balance": ("it scales by powers of 2, which jump", "the matrix itself"),
    "null_space": (_BASIS, "np.eye(n) - pinv(a) @ a, the projector on it"),
    "ordqz": (_ORDER, "eig(a, b)"),
    "orth": (_BASIS, "a @ pinv(a), the projector on it, or qr(a)"),
    "qr_delete": ("it updates factors in place", "qr of the new matrix"),
    "qr_insert": ("it updates factors in place", "qr of the new matrix"),
    "qr_multiply": ("it works on Householder vectors", "qr(a, mode='economic')[0] @ c"),
    "qr_update": ("it updates factors in place", "qr of the new matrix"),
    "qz": (_ORDER, "eig(a, b)"),
    "rq": ("its signs are LAPACK's own", "qr of the matrix turned around"),
    "rsf2csf": (_ORDER, "eig"),
    "schur": (_ORDER, "eig, or eigh of a symmetric matrix"),
    "signm": ("it jumps where an eigenvalue changes its sign", "a @ inv(sqrtm(a @ a))"),
    "solve_continuous_are": (
        "Riccati's equation is solved by an ordered Schur form",
        "workbench.custom_root with the residual",
    ),
    "solve_discrete_are": (
        "Riccati's equation is solved by an ordered Schur form",
        "workbench.custom_root with the residual",
    ),
    "subspace_angles": (_BASIS, "np.arccos(svdvals(qr(a)[0].T @ qr(b)[0]))"),
}

#: Functions of numbers alone, handed on.
_PLAIN = (
    "LinAlgError LinAlgWarning dft hadamard helmert hilbert invhilbert invpascal pascal"
).split()


def __getattr__(name: str) -> Any:
    if name in _PLAIN:
        return getattr(_scipy, name)
    if name in REFUSED:
        why, instead = REFUSED[name]
        raise AttributeError(
            f"workbench.scipy.linalg has no {name}: {why}. Write {instead}."
        )
    close = suggest(name, __dir__())
    known = callable(getattr(_scipy, name, None))
    cut = f" Write scipy.linalg.{name}(x.value) to cut the gradient." if known else ""
    raise AttributeError(f"workbench.scipy.linalg has no {name}.{close}{cut}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_PLAIN])


# Shapes of what runs when lengths are known, from those of the arguments


def _factor_lengths(a: Array, *settings: Any, **more: Any) -> list[Shape]:
    shape = operand_shape(a)
    return [shape, (*shape[:-2], smallest(*shape[-2:]))]


def _lstsq_lengths(a: Array, b: Array, *settings: Any, **more: Any) -> Any:
    if (
        len(operand_shape(b)) == 1
    ):  # the residues of one vector have another rank, or none
        raise UnknownLengthError("measured when it runs")
    return LENGTHS[np.linalg.lstsq](a, b)


def _pinv_lengths(a: Array, *, return_rank: bool = False, **settings: Any) -> Shape:
    if return_rank:
        raise UnknownLengthError("measured when it runs")
    (*loop, rows, columns) = operand_shape(a)
    return (*loop, columns, rows)


defer_functions(
    globals(),
    __all__,
    {
        "lstsq": _lstsq_lengths,
        "lu_factor": _factor_lengths,
        "pinv": _pinv_lengths,
        "solve_discrete_lyapunov": shape_of_first,
        "solveh_banded": lambda ab, b, *settings, **more: operand_shape(b),
    },
)
