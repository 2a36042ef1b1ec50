"""SciPy's linear algebra; signs and phases that a matrix leaves open cancel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg as sl

import workbench.scipy.linalg as wl
from tests.ops.samples.linalg_factors import (
    leading,
    levels,
    spread,
    turned,
    turning,
)
from tests.ops.samples.table import Draw, Table, apart, definite, matrix, positive

row = Table()


def both(
    name: str, f: Callable[..., Any], *draws: Draw, title: str = "", **more: Any
) -> None:
    """A row whose truth is the same program with SciPy's names."""
    row(
        title or f"linalg.{name}",
        lambda *args: f(wl, *args),
        *draws,
        truth=lambda *args: f(sl, *args),
        **more,
    )


def kept(name: str, f: Callable[..., Any], *draws: Draw, **more: Any) -> None:
    """A row of what SciPy turns into float64, and we leave in float32."""

    def truth(*args: Any) -> Any:
        wide = [np.astype(a, np.result_type(a, float)) for a in args]
        return f(sl, *wide).astype(np.result_type(*args))

    row(f"linalg.{name}", lambda *args: f(wl, *args), *draws, truth=truth, **more)


def positive_spectrum(*shape: int) -> Draw:
    """Matrices with eigenvalues to the right of 0."""
    return lambda rng: (
        rng.normal(size=shape) * 0.3 + np.diag(np.arange(shape[-1]) + 1.5)
    )


def turned_rows(*shape: int) -> Draw:
    """Matrices whose largest entries stand in the rows of another order."""
    return lambda rng: leading(*shape)(rng)[..., ::-1, :]


def scaled(rng: np.random.Generator) -> Any:
    """Columns of lengths and directions far apart: no step changes their order."""
    return (np.eye(3) + rng.uniform(-0.2, 0.2, (3, 3))) * [1.0, 9.0, 3.0]


# Solutions

for _kind in ("general", "diagonal", "tridiagonal", "banded", "upper triangular",
              "lower triangular", "symmetric", "hermitian"):  # fmt: skip
    both(
        f"solve {_kind}",
        lambda xp, a, b, k=_kind: xp.solve(a, b, assume_a=k),
        matrix(3, 3),
        apart(3, 2),
        kinds="fc" if _kind in ("hermitian", "symmetric") else "f",
    )
both("solve positive", lambda xp, a, b: xp.solve(a, b, assume_a="pos", lower=True),
     definite(3, 3), apart(3))  # fmt: skip
both("solve stack", lambda xp, a, b: xp.solve(a, b), matrix(2, 2, 2), apart(2, 2, 1))
both("solve transposed", lambda xp, a, b: xp.solve(a, b, transposed=True),
     matrix(3, 3), apart(3))  # fmt: skip
both("solve upper transposed",
     lambda xp, a, b: xp.solve(a, b, transposed=True, assume_a="upper triangular"),
     matrix(3, 3), apart(3))  # fmt: skip
for _trans in (0, 1, 2):
    both(
        f"solve_triangular {_trans}",
        lambda xp, a, b, t=_trans: xp.solve_triangular(a, b, trans=t, lower=t == 1),
        matrix(3, 3),
        apart(3, 2),
        kinds="fc",
    )
both("solve_triangular unit",
     lambda xp, a, b: xp.solve_triangular(a, b, "T", True, unit_diagonal=True),
     matrix(3, 3), apart(3))  # fmt: skip
both("solve_triangular stack", lambda xp, a, b: xp.solve_triangular(a, b),
     matrix(2, 3, 3), apart(3, 2))  # fmt: skip
both("inv", lambda xp, a: xp.inv(a), matrix(3, 3), kinds="fc")
both("inv upper", lambda xp, a: xp.inv(a, assume_a="upper triangular"), matrix(3, 3))
kept("det", lambda xp, a: xp.det(a), matrix(2, 3, 3), kinds="fc")
both("norm", lambda xp, a: xp.norm(a, 2) + xp.norm(a, axis=0), spread(3, 2))
for _shape in ((3, 2), (2, 3)):
    both(f"lstsq {_shape}", lambda xp, a, b: xp.lstsq(a, b)[0], spread(*_shape),
         apart(_shape[0]), kinds="fc")  # fmt: skip
both("lstsq rest", lambda xp, a, b: xp.lstsq(a, b)[1], spread(3, 2), apart(3))
both("pinv", lambda xp, a: xp.pinv(a, return_rank=True)[0], spread(3, 2), kinds="fc")
both("pinv limits", lambda xp, a: xp.pinv(a, atol=0.5, rtol=0.3), spread(3, 3))
both("pinvh", lambda xp, a: xp.pinvh(a, lower=False), levels(3, 3), kinds="fc")
for _kind in "fc":
    both("solve_sylvester", lambda xp, a, b, q: xp.solve_sylvester(a, b, q),
         matrix(3, 3), matrix(2, 2), apart(3, 2), kinds=_kind,
         title=f"linalg.solve_sylvester {_kind}")  # fmt: skip
both("solve_sylvester stack", lambda xp, a, q: xp.solve_sylvester(a, a, q),
     matrix(2, 2, 2), apart(2, 2, 2))  # fmt: skip
both("lyapunov", lambda xp, a, q: xp.solve_continuous_lyapunov(a, q),
     matrix(3, 3), apart(3, 3), kinds="fc")  # fmt: skip
for _way in ("direct", "bilinear"):
    kept(
        f"discrete lyapunov {_way}",
        lambda xp, a, q, w=_way: xp.solve_discrete_lyapunov(a, q, w),
        lambda rng: matrix(3, 3)(rng) / 5,
        apart(3, 3),
        kinds="fc",
    )
both("solve_banded", lambda xp, ab, b: xp.solve_banded((1, 2), ab, b),
     lambda rng: rng.uniform(0.2, 1, (4, 5)) + 4 * np.eye(4)[2][:, None],
     apart(5, 2), kinds="fc")  # fmt: skip
both("solve_banded vector", lambda xp, ab, b: xp.solve_banded((0, 1), ab, b),
     lambda rng: rng.uniform(1, 2, (2, 3)), apart(3))  # fmt: skip
for _lower in (True, False):
    both(
        f"solveh_banded {_lower}",
        lambda xp, ab, b, k=_lower: xp.solveh_banded(ab, b, lower=k),
        lambda rng, k=_lower: (
            rng.uniform(0.2, 1, (3, 4)) + 6 * np.eye(3)[0 if k else 2][:, None]
        ),
        apart(4),
    )
kept("solve_toeplitz", lambda xp, c, r, b: xp.solve_toeplitz((c, r), b),
     lambda rng: positive(3)(rng) + [5, 0, 0], apart(3), apart(3, 2))  # fmt: skip
kept("solve_toeplitz one", lambda xp, c, b: xp.solve_toeplitz(c, b),
     lambda rng: positive(3)(rng) + [5, 0, 0], apart(3))  # fmt: skip
for _mode in ("raise", "lstsq"):
    both(
        f"solve_circulant {_mode}",
        lambda xp, c, b, m=_mode: xp.solve_circulant(c, b, singular=m),
        lambda rng: positive(3)(rng) + [5, 0, 0],
        apart(3),
    )

# Factors

for _shape in ((3, 3), (3, 2), (2, 3), (2, 3, 2)):
    for _part, _name in ((1, "L"), (2, "U")):
        both(
            f"lu {_name} {_shape}",
            lambda xp, a, i=_part: xp.lu(a)[i],
            turned_rows(*_shape),
            kinds="fc",
        )
both("lu permuted", lambda xp, a: xp.lu(a, permute_l=True)[0] @ xp.lu(a)[2] ** 2,
     turned_rows(3, 3))  # fmt: skip
both("lu order", lambda xp, a: xp.lu(a, p_indices=True)[0] * xp.lu(a)[2],
     turned_rows(3, 3))  # fmt: skip
for _shape in ((3, 3), (3, 2), (2, 3)):
    both(
        f"lu_factor {_shape}",
        lambda xp, a: xp.lu_factor(a)[0] * (1 + xp.lu_factor(a)[1][0]),
        turned_rows(*_shape),
    )
for _trans in (0, 1, 2):
    both(
        f"lu_solve {_trans}",
        lambda xp, a, b, t=_trans: xp.lu_solve(xp.lu_factor(a), b, t),
        lambda rng: matrix(4, 4)(rng)[[2, 3, 0, 1]],
        apart(4, 2) if _trans else apart(4),
        kinds="fc",
    )
both("cholesky", lambda xp, a: xp.cholesky(a), definite(3, 3))
both("cholesky lower", lambda xp, a: xp.cholesky(a, lower=True), definite(2, 2, 2))
for _lower in (True, False):
    both(
        f"cho_factor {_lower}",
        lambda xp, a, k=_lower: xp.cho_factor(a, lower=k)[0],
        definite(3, 3),
    )
    both(
        f"cho_solve {_lower}",
        lambda xp, a, b, k=_lower: xp.cho_solve(xp.cho_factor(a @ turned(a), k), b),
        matrix(3, 3),
        apart(3) if _lower else apart(3, 2),
        kinds="fc",
    )
both("qr economic", lambda xp, a: xp.qr(a, mode="economic")[0], spread(3, 2),
     kinds="fc")  # fmt: skip
both("qr full", lambda xp, a: xp.qr(a)[1], spread(3, 2), kinds="fc")
both("qr r", lambda xp, a: xp.qr(a, mode="r")[0], leading(2, 3))
both("qr pivoting", lambda xp, a: xp.qr(a, pivoting=True)[1], scaled)
both("qr order", lambda xp, a: xp.qr(a, pivoting=True, mode="r")[1] * xp.det(a),
     scaled)  # fmt: skip
for _shape in ((3, 3), (3, 2), (2, 3)):
    for _side in ("left", "right"):
        both(
            f"polar {_shape} {_side}",
            lambda xp, a, s=_side: xp.polar(a, s)[0] @ np.exp(xp.polar(a, "right")[1]),
            spread(*_shape),
            kinds="fc",
        )
both("polar left", lambda xp, a: xp.polar(a, "left")[1], spread(2, 3))
both("procrustes", lambda xp, a, b: xp.orthogonal_procrustes(a, b)[0], leading(4, 3),
     leading(4, 3), kinds="fc")  # fmt: skip
both("procrustes scale", lambda xp, a, b: xp.orthogonal_procrustes(a, b)[1],
     leading(3, 2), leading(3, 2))  # fmt: skip

# Spectra

both("eigvals", lambda xp, a: np.sum(xp.eigvals(a) ** 2 / 9), turning(3, 3), kinds="fc")
row(
    "linalg.eigvals of two",
    lambda a, b: np.sum(wl.eigvals(a, b) ** 2 / 9),
    turning(3, 3),
    matrix(3, 3),
    kinds="fc",
    truth=lambda a, b: np.sum(sl.eigvals(sl.solve(b, a)) ** 2 / 9),
)
both("eig", lambda xp, a: (lambda w, v: np.sum(v**2 * w[..., None, :], -1))(*xp.eig(a)),
     turning(3, 3), kinds="fc")  # fmt: skip
both("eig values alone", lambda xp, a: np.sum(xp.eig(a, right=False) ** 2 / 9),
     turning(3, 3))  # fmt: skip
for _type in (1, 2, 3):
    both(
        f"eigh of two {_type}",
        lambda xp, a, b, t=_type: (
            lambda w, v: np.sum(v * np.conj(v) * w * [1, 2, 3], axis=-1)
        )(*xp.eigh(a, b, type=t, lower=t == 2)),
        levels(3, 3),
        definite(3, 3),
    )
both("eigvalsh of two", lambda xp, a, b: xp.eigvalsh(a @ turned(a), b @ turned(b)),
     levels(2, 2), definite(2, 2), kinds="fc")  # fmt: skip
both("eigvalsh", lambda xp, a: xp.eigvalsh(a, lower=False), levels(3, 3), kinds="fc")
both("eigh subset", lambda xp, a: (lambda w, v: w * v**2)(
    *xp.eigh(a, subset_by_index=(1, 2))), levels(3, 3))  # fmt: skip
both("eigh between", lambda xp, a: xp.eigvalsh(a, subset_by_value=(-1.0, 9.0)),
     definite(3, 3), batch=False)  # fmt: skip
both("eigh_tridiagonal", lambda xp, d, e: xp.eigh_tridiagonal(d, e)[1] ** 2, apart(3),
     apart(2))  # fmt: skip
both("eigvalsh_tridiagonal",
     lambda xp, d, e: xp.eigvalsh_tridiagonal(d, e, select="i", select_range=(0, 1)),
     apart(3), apart(2))  # fmt: skip
both("svd", lambda xp, a: (lambda u, s, v: (u[..., :2] * s) @ v)(*xp.svd(a)),
     spread(3, 2), kinds="fc")  # fmt: skip
both("svdvals", lambda xp, a: xp.svdvals(a), spread(2, 3))

# Functions of a matrix

for _name in ("expm", "sinm", "cosm", "tanm", "sinhm", "coshm", "tanhm"):
    both(
        _name,
        lambda xp, a, n=_name: getattr(xp, n)(a),
        lambda rng: rng.normal(size=(2, 2)) * 0.4,
        kinds="fc" if _name in ("expm", "tanm") else "f",
    )
both("expm stack", lambda xp, a: xp.expm(a), apart(2, 2, 2))
both("expm of 1", lambda xp, a: xp.expm(a), apart(1, 1))
for _name in ("logm", "sqrtm"):
    kept(_name, lambda xp, a, n=_name: getattr(xp, n)(a),
         positive_spectrum(2, 2), kinds="fc")  # fmt: skip
    kept(
        f"{_name} of a definite matrix",
        lambda xp, a, n=_name: getattr(xp, n)(a @ np.swapaxes(a, -1, -2)),
        matrix(2, 2, 2),
    )
kept("fractional_matrix_power",
     lambda xp, a: xp.fractional_matrix_power(a @ a.T, 0.3),
     positive_spectrum(2, 2), kinds="fc")  # fmt: skip
kept("expm_frechet", lambda xp, a, e: xp.expm_frechet(a, e)[1],
     lambda rng: apart(3, 3)(rng) / 4, apart(3, 3), kinds="fc")  # fmt: skip
kept("expm_frechet both", lambda xp, a, e: np.multiply(*xp.expm_frechet(a, e)),
     lambda rng: apart(2, 2)(rng) / 4, apart(2, 2))  # fmt: skip

# Structured matrices

both("toeplitz", lambda xp, c: xp.toeplitz(c) ** 2, apart(3), kinds="fc")
both("toeplitz of two", lambda xp, c, r: xp.toeplitz(c, r) ** 2, apart(3), apart(4))
both("toeplitz stack", lambda xp, c: xp.toeplitz(c) ** 2, apart(2, 3))
both("hankel", lambda xp, c: xp.hankel(c) ** 2, apart(3))
both("hankel of two", lambda xp, c, r: xp.hankel(c, r) ** 2, apart(3), apart(4))
both("circulant", lambda xp, c: xp.circulant(c) ** 2, apart(3))
both("companion", lambda xp, a: xp.companion(a), apart(4))
both("block_diag", lambda xp, a, b: xp.block_diag(a, b, [[1.0, 2.0]]) ** 2, apart(2, 3),
     apart(3), kinds="fc")  # fmt: skip
both("khatri_rao", lambda xp, a, b: xp.khatri_rao(a, b), apart(2, 3), apart(4, 3))
for _mode in ("full", "same", "valid"):
    both(
        f"convolution_matrix {_mode}",
        lambda xp, a, m=_mode: (
            xp.convolution_matrix(a, 5, m)[:1] + xp.convolution_matrix(a, 2, m)[0, 0]
        ) ** 2,
        apart(3),
    )  # fmt: skip
kept(
    "matmul_toeplitz", lambda xp, c, x: xp.matmul_toeplitz(c, x), apart(3), apart(3, 2)
)
both("diagsvd", lambda xp, s: xp.diagsvd(s, 3, 2) ** 2, apart(2))
both("fiedler", lambda xp, a: xp.fiedler(a) ** 2, apart(3))
both("leslie", lambda xp, f, s: xp.leslie(f, s) ** 2, apart(3), apart(2))
