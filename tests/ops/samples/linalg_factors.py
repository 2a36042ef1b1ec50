"""Spectra, singular values and factors: functions that no choice of basis changes.

Signs and phases of vectors are left open by the matrix, so rows show projectors,
magnitudes and products in which they cancel.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import workbench as wb
from tests.ops.samples.table import Draw, Table, apart, constant, definite, matrix

row = Table()


def spread(*shape: int) -> Draw:
    """Matrices whose singular values are apart from each other and from 0."""

    def draw(rng: np.random.Generator) -> Any:
        few = min(shape[-2:])
        u = np.linalg.qr(rng.normal(size=(*shape[:-2], shape[-2], few)))[0]
        v = np.linalg.qr(rng.normal(size=(*shape[:-2], shape[-1], few)))[0]
        s = 0.7 + np.arange(few)[::-1] + rng.uniform(0, 0.3, few)
        return (u * s) @ np.swapaxes(v, -1, -2)

    return draw


def spectral(*shape: int) -> Draw:
    """Matrices with real eigenvalues that are apart from each other."""

    def draw(rng: np.random.Generator) -> Any:
        v = rng.normal(size=shape) * 0.2 + np.eye(shape[-1])
        w = np.arange(shape[-1]) - 0.6 + rng.uniform(0, 0.3, shape[-1])
        return v @ (w[:, None] * np.linalg.inv(v))

    return draw


def turning(*shape: int) -> Draw:
    """Matrices with a pair of complex eigenvalues."""

    def draw(rng: np.random.Generator) -> Any:
        base = np.diag(np.arange(1.0, shape[-1] + 1))
        base[0, 1], base[1, 0] = 4.0, -1.0
        return base + rng.normal(size=shape) * 0.2

    return draw


def levels(*shape: int) -> Draw:
    """Symmetric matrices whose eigenvalues are far apart."""

    def draw(rng: np.random.Generator) -> Any:
        q = np.linalg.qr(rng.normal(size=shape))[0]
        w = 2.5 * np.arange(shape[-1]) - 1.5 + rng.uniform(0, 0.3, shape[-1])
        return (q * w) @ np.swapaxes(q, -1, -2)

    return draw


def leading(*shape: int) -> Draw:
    """Matrices whose leading blocks are well conditioned."""
    return lambda rng: rng.normal(size=shape) * 0.3 + 2 * np.eye(*shape[-2:])


def turned(x: Any) -> Any:
    return np.conj(np.swapaxes(x, -1, -2))


# eigh

row("eigvalsh", np.linalg.eigvalsh, levels(3, 3), kinds="fc")
row("eigvalsh upper", lambda x: np.linalg.eigvalsh(x, "U"), levels(2, 2, 2), kinds="fc")
row("eigvalsh of 1", np.linalg.eigvalsh, apart(1, 1))
row("eigh values", lambda x: np.linalg.eigh(x)[0], levels(3, 3), kinds="fc")
for _uplo in "LU":
    row(
        f"eigh projector {_uplo}",
        lambda x, u=_uplo: (lambda v: v[..., 1:] @ turned(v[..., 1:]))(
            np.linalg.eigh(x, u).eigenvectors
        ),
        levels(3, 3),
        kinds="fc",
    )
row(
    "eigh function",
    lambda x: (lambda w, v: (v * np.exp(w / 2)[..., None, :]) @ turned(v))(
        *np.linalg.eigh(x)
    ),
    levels(2, 3, 3),
    kinds="fc",
)
row("eigh magnitudes", lambda x: np.abs(np.linalg.eigh(x)[1]) ** 2, levels(3, 3))

# eig

row("eigvals", lambda x: np.sort(np.real(np.linalg.eigvals(x))), spectral(3, 3))
row("eigvals complex", lambda x: np.sum(np.linalg.eigvals(x) ** 2 / 9), turning(3, 3),
    kinds="fc")  # fmt: skip
row(
    "eigvals in the plane",
    lambda x: np.sum(np.abs(np.linalg.eigvals(x)) ** 2),
    turning(2, 3, 3),
    kinds="fc",
)
row(
    "eig function",
    lambda x: np.real(
        (lambda w, v: (v * np.exp(w / 2)[..., None, :]) @ np.linalg.inv(v))(
            *np.linalg.eig(x)
        )
    ),
    turning(3, 3),
    kinds="fc",
)
row(
    "eig lengths",
    lambda x: (lambda w, v: np.sum(np.abs(v) ** 2 * w[..., None, :], axis=-1))(
        *np.linalg.eig(x)
    ),
    turning(3, 3),
    kinds="fc",
)
row(
    "eig phases",  # an entry of each vector is real, so its square is determined
    lambda x: np.sum(np.linalg.eig(x).eigenvectors ** 2, axis=-1),
    turning(3, 3),
    kinds="fc",
)
row(
    "eig real",  # squared: signs are free; in an order of its own: LAPACK's may change
    lambda x: (lambda w, v: np.take_along_axis(
        np.abs(v) ** 2, np.argsort(w)[..., None, :], axis=-1
    ))(*np.linalg.eig(x)),
    spectral(3, 3),
)  # fmt: skip
row("eig real parts", lambda x: np.real(np.linalg.eig(x)[1]) ** 2, turning(3, 3))

# svd

for _shape in ((3, 3), (3, 2), (2, 3)):
    _of = f"{_shape[0]} by {_shape[1]}"
    row(f"svdvals {_of}", np.linalg.svdvals, spread(*_shape), kinds="fc")
    row(
        f"svd polar {_of}",
        lambda x: (lambda u, s, v: u @ v)(*np.linalg.svd(x, full_matrices=False)),
        spread(*_shape),
        kinds="fc",
    )
    row(
        f"svd function {_of}",
        lambda x: (lambda u, s, v: (u * np.exp(s / 2)) @ v)(
            *np.linalg.svd(x, full_matrices=False)
        ),
        spread(*_shape),
        kinds="fc",
    )
    row(
        f"svd projectors {_of}",
        lambda x: (
            lambda u, s, v: (
                np.sum(x @ turned(v[1:]) @ v[1:] * constant(range(_shape_of(x)), x))
                + u[..., 1:] @ turned(u[..., 1:]) * s[0]
            )
        )(*np.linalg.svd(x)),
        spread(*_shape),
        kinds="fc",
    )
row("svd stack", lambda x: np.linalg.svd(x, False)[0] ** 2, spread(2, 3, 2))
row("svd values", lambda x: np.linalg.svd(x, compute_uv=False), spread(2, 2, 3))
row("svd of 1", lambda x: np.linalg.svd(x)[0] * np.linalg.svd(x)[2], apart(1, 1))
row(
    "svd hermitian",
    lambda x: (lambda u, s, v: (u * s**2) @ v)(*np.linalg.svd(x, hermitian=True)),
    levels(3, 3),
    kinds="fc",
)


def _shape_of(x: Any) -> int:
    return x.shape[-1]  # type: ignore[no-any-return]


# norms and condition numbers by singular values

for _ord in (2, -2, "nuc"):
    row(
        f"norm of a matrix {_ord}",
        lambda x, o=_ord: np.linalg.norm(x, o),
        spread(3, 2),
        kinds="fc",
    )
row("norm nuc axes", lambda x: np.linalg.norm(x, "nuc", (2, 0)), spread(2, 2, 3))
row("norm 2 kept", lambda x: np.linalg.norm(x, 2, (0, 1), True), spread(2, 3))
row("matrix_norm 2", lambda x: np.linalg.matrix_norm(x, ord=2), spread(2, 2, 3))
row("vector_norm all", lambda x: np.linalg.vector_norm(x, ord=3), apart(2, 3))
for _ord in (-1, -2, -1.5):
    row(f"norm {_ord}", lambda x, o=_ord: np.linalg.norm(x, o), apart(3), kinds="fc")
row("norm negative kept", lambda x: np.linalg.norm(x, -2, 1, True), apart(2, 3))
row("norm fro complex", lambda x: np.linalg.norm(x, "fro"), apart(2, 3), kinds="c")
for _ord in (None, 2, -2):
    row(
        f"cond {_ord}", lambda x, p=_ord: np.linalg.cond(x, p), spread(3, 2), kinds="fc"
    )
for _ord in ("fro", "nuc", 1, -1, np.inf, -np.inf):
    row(
        f"cond {_ord}",
        lambda x, p=_ord: np.linalg.cond(x, p),
        lambda rng: np.diag([2.0, 5.0, 11.0]) + rng.uniform(0.1, 0.4, (2, 3, 3)),
        kinds="fc" if _ord == "fro" else "f",
    )
row(
    "matrix_rank",
    lambda x: x * np.linalg.matrix_rank(x) + np.linalg.matrix_rank(x[0], tol=1e-3),
    spread(3, 2),
)

# pinv, lstsq, tensors

for _shape in ((3, 3), (3, 2), (2, 3), (2, 3, 2)):
    row(f"pinv {_shape}", np.linalg.pinv, spread(*_shape), kinds="fc")
row("pinv limit", lambda x: np.linalg.pinv(x, rcond=0.5), spread(3, 3), kinds="fc")
row("pinv rtol", lambda x: np.linalg.pinv(x, rtol=0.5), spread(2, 3, 3))
row("pinv hermitian", lambda x: np.linalg.pinv(x, hermitian=True), levels(3, 3),
    kinds="fc")  # fmt: skip
for _shape in ((3, 2), (2, 3), (3, 3)):
    row(
        f"lstsq {_shape}",
        lambda a, b: np.linalg.lstsq(a, b)[0],
        spread(*_shape),
        apart(_shape[0], 2),
        kinds="fc",
    )
row("lstsq vector", lambda a, b: np.linalg.lstsq(a, b)[0], spread(3, 2), apart(3),
    kinds="fc")  # fmt: skip
row("lstsq limit", lambda a, b: np.linalg.lstsq(a, b, 0.5)[0], spread(3, 3), apart(3))
row("lstsq rest", lambda a, b: np.linalg.lstsq(a, b)[1], spread(3, 2), apart(3, 2),
    kinds="fc")  # fmt: skip
row("lstsq rest of a vector", lambda a, b: np.linalg.lstsq(a, b)[1], spread(3, 2),
    apart(3))  # fmt: skip
row("lstsq values", lambda a: np.linalg.lstsq(a, a[:, 0])[3], spread(3, 2))
row(
    "tensorsolve",
    lambda a, b: np.linalg.tensorsolve(a, b, axes=(1,)),
    lambda rng: np.moveaxis(matrix(4, 4)(rng).reshape(2, 2, 4), 2, 1),
    apart(2, 2),
)
row("tensorsolve plain", lambda a, b: np.linalg.tensorsolve(a, b),
    lambda rng: matrix(4, 4)(rng).reshape(2, 2, 4), apart(2, 2),
    kinds="fc")  # fmt: skip
row("tensorinv", lambda a: np.linalg.tensorinv(a, ind=1),
    lambda rng: matrix(4, 4)(rng).reshape(4, 2, 2))  # fmt: skip
row("tensorinv 2", np.linalg.tensorinv, lambda rng: matrix(4, 4)(rng).reshape(2, 2, 4))

# qr, cholesky

for _shape in ((3, 3), (3, 2), (2, 3), (2, 3, 2)):
    row(f"qr Q {_shape}", lambda x: np.linalg.qr(x)[0], leading(*_shape), kinds="fc")
    row(f"qr R {_shape}", lambda x: np.linalg.qr(x).R, leading(*_shape), kinds="fc")
row("qr both", lambda x: (lambda q, r: q @ np.exp(r))(*np.linalg.qr(x)), leading(3, 2),
    kinds="fc")  # fmt: skip
row("qr r", lambda x: np.linalg.qr(x, "r"), leading(2, 2, 3))
row(
    "qr complete",
    lambda x: (
        lambda q, r: (
            q[..., 2:] @ turned(q[..., 2:]) + np.sum(q[..., :2] @ r[..., :2, :])
        )
    )(*np.linalg.qr(x, "complete")),
    spread(4, 2),
    kinds="fc",
)
row("qr complete R", lambda x: np.linalg.qr(x, "complete")[1], spread(3, 2))
row("cholesky complex", lambda x: np.linalg.cholesky(x @ turned(x) + x), definite(3, 3),
    kinds="fc")  # fmt: skip
row("cholesky upper stack", lambda x: np.linalg.cholesky(x, upper=True),
    definite(2, 2, 2))  # fmt: skip
row(
    "slogdet sign complex",
    lambda x: np.linalg.slogdet(x)[0],
    matrix(2, 2, 2),
    kinds="c",
)
row(
    "cofactors",
    lambda x: wb.grad(np.linalg.det)(x),
    matrix(3, 3),
    truth=lambda x: np.linalg.det(x) * np.linalg.inv(x).T,
)
row("det of 1", np.linalg.det, apart(1, 1))
row("det of 4", np.linalg.det, matrix(4, 4), kinds="fc")
row("det of a singular matrix", lambda x: np.linalg.det(x @ np.swapaxes(x, 0, 1)),
    apart(3, 2))  # fmt: skip
