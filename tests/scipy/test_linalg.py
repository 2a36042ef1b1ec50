"""`workbench.scipy.linalg`: values beside SciPy's, repeated eigenvalues, refusals."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.linalg as sl

import workbench as wb
import workbench.scipy.linalg as wl
from tests.ops.test_samples import differences
from workbench.core.tensor import Tensor, value_of
from workbench.errors import (
    MatrixError,
    NotDifferentiableError,
    ShapeError,
    TraceError,
)

RNG = np.random.default_rng(11)
A = RNG.normal(size=(4, 4)) + 3 * np.eye(4)
B = RNG.normal(size=(4, 4)) * 0.3 + np.eye(4)
E = RNG.normal(size=(3, 3))
F = RNG.normal(size=(3, 3))


def traced(f: Callable[..., Any], *args: Any) -> Any:
    """What a function returns for Tensors."""
    return tuple(map(value_of, wb.trace(f)(*args).outputs))


# Analytic derivatives where all eigenvalues are equal


def test_functions_of_matrices_at_repeated_eigenvalues() -> None:
    eye = np.eye(3)
    slopes = {
        "expm": np.exp(1.7),
        "logm": 1 / 1.7,
        "sqrtm": 0.5 / np.sqrt(1.7),
        "sinm": np.cos(1.7),
        "cosm": -np.sin(1.7),
        "tanm": 1 / np.cos(1.7) ** 2,
        "sinhm": np.cosh(1.7),
        "coshm": np.sinh(1.7),
        "tanhm": 1 / np.cosh(1.7) ** 2,
    }
    for name, slope in slopes.items():
        f = getattr(wl, name)
        _, moved = wb.jvp(f, (1.7 * eye,), (E,))
        np.testing.assert_allclose(moved, slope * E, rtol=1e-11, atol=1e-12)
        back = wb.grad(lambda x, f=f: np.sum(F * f(x)))(1.7 * eye)
        np.testing.assert_allclose(back, slope * F, rtol=1e-11, atol=1e-12)
    _, moved = wb.jvp(lambda x: wl.fractional_matrix_power(x, 0.3), (2 * eye,), (E,))
    np.testing.assert_allclose(moved, 0.3 * 2**-0.7 * E, rtol=1e-11)


def test_second_and_third_derivatives_of_expm_at_0() -> None:
    zero = np.zeros((3, 3))
    f = lambda x: np.sum(F * wl.expm(x))  # noqa: E731
    # exp(X) = 1 + X + X**2 / 2 + X**3 / 6, so the second derivative is (EX + XE) / 2.
    truth = (E.T @ F + F @ E.T) / 2
    np.testing.assert_allclose(wb.hvp(f, (zero,), (E,))[0], truth, atol=1e-14)
    third = wb.jvp(lambda x: wb.hvp(f, (x,), (E,))[0], (zero,), (E,))[1]
    square = E.T @ E.T
    truth = (square @ F + E.T @ F @ E.T + F @ square) / 3
    np.testing.assert_allclose(third, truth, atol=1e-13)


def test_a_nilpotent_matrix_has_its_logarithm_differentiated() -> None:
    x = np.eye(3) + np.diag([1.0, 1.0], 1)  # one eigenvector for three eigenvalues
    f = lambda x: np.sum(F * wl.logm(x))  # noqa: E731
    truth = differences(lambda x: np.sum(F * sl.logm(x)), [x], [E])
    np.testing.assert_allclose(np.sum(wb.grad(f)(x) * E), truth, rtol=1e-6)
    np.testing.assert_allclose(wl.expm(wl.logm(x)), x, atol=1e-12)


def test_frechet_derivatives_of_any_size() -> None:
    for size in (1e-200, 1.0, 1e200):
        value, moved = sl.expm_frechet(A, B)
        got = wl.expm_frechet(A, B * size)
        np.testing.assert_allclose(got[0], value, rtol=1e-11)
        np.testing.assert_allclose(got[1] / size, moved, rtol=1e-11)
    assert not wl.expm_frechet(A, 0 * B)[1].any()
    only = wl.expm_frechet(A, B, compute_expm=False)
    np.testing.assert_allclose(only, sl.expm_frechet(A, B)[1], rtol=1e-11)


def test_roots_of_matrices_with_negative_eigenvalues_are_complex() -> None:
    x = np.diag([-1.0, 2.0]) + 0.1
    f = lambda x: np.real(np.sum(wl.sqrtm(x) ** 3))  # noqa: E731
    t = np.array([[0.3, -1.0], [0.7, 0.2]])
    truth = differences(lambda x: np.real(np.sum(sl.sqrtm(x) ** 3)), [x], [t])
    np.testing.assert_allclose(np.sum(wb.grad(f)(x) * t), truth, rtol=1e-8)
    assert wb.grad(f)(x).dtype == float
    with pytest.raises(TraceError, match=r"expm\(t \* logm\(A\)\)"):
        wb.grad(lambda t: np.sum(wl.fractional_matrix_power(A, t)))(0.5)


# Real matrices whose functions are complex: second derivatives by spectral theory


def second_divided(row: Any, *points: float) -> complex:
    """Return f[x, y, z], the second divided difference."""
    _, f, slope, bend = row
    x, y, z = sorted(points)
    if x == z:
        return bend(x) / 2
    if x == y or y == z:
        x, z = (z, x) if y == z else (x, z)  # x twice
        return (f(z) - f(x) - slope(x) * (z - x)) / (z - x) ** 2
    return sum(
        f(p) / (p - q) / (p - r) for p, q, r in ((x, y, z), (y, z, x), (z, x, y))
    )


CUTS: dict[str, tuple[Any, Any, Any, Any]] = {
    # The function, and of a number with its first two derivatives.
    "sqrtm": (
        wl.sqrtm,
        lambda z: (z + 0j) ** 0.5,
        lambda z: 0.5 * (z + 0j) ** -0.5,
        lambda z: -0.25 * (z + 0j) ** -1.5,
    ),
    "logm": (
        wl.logm,
        lambda z: np.log(z + 0j),
        lambda z: 1 / (z + 0j),
        lambda z: -((z + 0j) ** -2),
    ),
    **{
        f"power {t}": (
            lambda x, t=t: wl.fractional_matrix_power(x, t),
            lambda z, t=t: (z + 0j) ** t,
            lambda z, t=t: t * (z + 0j) ** (t - 1),
            lambda z, t=t: t * (t - 1) * (z + 0j) ** (t - 2),
        )
        for t in (0.3, 1.7, -0.6, 2.0)
    },
}


#: With general matrices, two of those that take seconds; the others take a dozen.
SHORT = {("sqrtm", 1), ("power 0.3", 1)}
TURNS = [
    pytest.param(*turn, marks=[] if turn in SHORT else [pytest.mark.long])
    for turn in itertools.product(CUTS, range(3))
]


def true_hessian(row: Any, values: Any, v: Any, weights: Any) -> Any:
    """Return the Hessian of ``Re Σ W ∘ f(X)`` of ``X = V diag(values) V⁻¹``."""
    n = len(values)
    inverse = np.linalg.inv(v)
    pairs = np.zeros((n, n, n), complex)
    for i, j, k in np.ndindex(n, n, n):
        pairs[i, j, k] = second_divided(row, values[i], values[j], values[k])
    made = np.zeros((n, n, n, n))
    indices = list(np.ndindex(n, n))
    inner = [inverse @ np.outer(a, b) @ v for a in np.eye(n) for b in np.eye(n)]
    back = v.T @ weights @ inverse.T
    for p, one in zip(indices, inner, strict=True):
        for q, two in zip(indices, inner, strict=True):
            moved = np.einsum("ik,kj,ikj->ij", one, two, pairs)
            moved = moved + np.einsum("ik,kj,ikj->ij", two, one, pairs)
            made[p + q] = np.real(np.sum(back * moved))
    return made


@pytest.mark.parametrize(("name", "seed"), TURNS)
def test_second_derivatives_on_the_branch_cut(name: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = rng.permutation([-2.3, -0.8, 1.4]) + rng.uniform(-0.2, 0.2, 3)
    v = rng.normal(size=(3, 3)) * 0.3 + np.eye(3)
    if seed == 0:  # symmetric, as many are
        v = np.linalg.qr(v)[0]
    x = v @ np.diag(values) @ np.linalg.inv(v)
    weights = rng.normal(size=(3, 3)) + 1j * rng.normal(size=(3, 3))
    f = lambda x: np.sum(np.real(weights * CUTS[name][0](x)))  # noqa: E731
    truth = true_hessian(CUTS[name], values, v, weights)
    for first in (wb.jacrev, wb.jacfwd):
        for second in (wb.jacrev, wb.jacfwd):
            found = second(first(f))(x)
            np.testing.assert_allclose(found, truth, atol=1e-9 * np.abs(truth).max())


def test_hessians_of_a_root_agree_in_both_modes() -> None:
    x = np.array([[1.0, 2.0], [2.0, 1.0]])
    f = lambda x: np.sum(np.imag(wl.sqrtm(x)))  # noqa: E731
    np.testing.assert_allclose(wb.jacrev(wb.grad(f))(x), wb.hessian(f)(x), atol=1e-14)
    wb.check_grads(f, (x,), order=2)


@pytest.mark.parametrize("seed", range(3))
def test_sylvester_of_real_matrices_and_a_complex_right_side(seed: int) -> None:
    # SciPy's own solution of this one is wrong where eigenvalues come in pairs.
    rng = np.random.default_rng(seed)
    turn = np.array([[0.2, 1.5], [-1.1, 0.4]])
    a = np.kron(np.eye(2), turn) + 0.1 * rng.normal(size=(4, 4))
    q = rng.normal(size=(4, 2)) + 1j * rng.normal(size=(4, 2))
    for left, right in ((a, turn), (a + 0.1j, turn), (a, turn + 0.1j)):
        x = wl.solve_sylvester(left, right, q)
        np.testing.assert_allclose(left @ x + x @ right, q, atol=1e-12)
        np.testing.assert_allclose(
            wl.solve_sylvester(left, right, q.real),
            np.linalg.solve(
                np.kron(left, np.eye(2)) + np.kron(np.eye(4), right.T), q.real.ravel()
            ).reshape(4, 2),
            atol=1e-12,
        )


def test_polar_factors_of_repeated_singular_values() -> None:
    q = np.linalg.qr(A)[0]
    f = lambda x: np.sum(B * wl.polar(x)[0] @ wl.polar(x, "left")[1])  # noqa: E731
    plain = lambda x: np.sum(B * sl.polar(x)[0] @ sl.polar(x, "left")[1])  # noqa: E731
    truth = differences(plain, [2 * q], [A])
    np.testing.assert_allclose(np.sum(wb.grad(f)(2 * q) * A), truth, rtol=1e-7)


# Values, with all that SciPy returns


def both(name: str, *args: Any, **kwargs: Any) -> None:
    """The same results on arrays and on Tensors, shapes and dtypes included."""
    expected = getattr(sl, name)(*args, **kwargs)
    expected = expected if isinstance(expected, tuple) else (expected,)
    call = lambda *args: getattr(wl, name)(*args, **kwargs)  # noqa: E731
    plain = call(*args)
    for got in (plain if isinstance(plain, tuple) else (plain,), traced(call, *args)):
        assert len(got) == len(expected)
        for x, truth in zip(got, expected, strict=True):
            assert np.shape(x) == np.shape(truth)
            if isinstance(truth, np.ndarray):
                assert x.dtype == truth.dtype
            np.testing.assert_allclose(x, truth, rtol=1e-9, atol=1e-12)


def test_results_are_those_of_scipy() -> None:
    both("lu", A)
    both("lu", A[:3], p_indices=True)
    both("lu", A[:, :2] * (1 + 2j), permute_l=True)
    both("lu_factor", A)
    both("lu_factor", A[[2, 0, 3, 1], :3])
    both("cho_factor", A @ A.T)
    both("cho_factor", A @ A.T + 1j * (B - B.T), lower=True)
    both("qr", A[:, :2], pivoting=True)
    both("qr", A[:2])
    both("qr", A[:, :3], mode="r")
    both("lstsq", A[:, :2], A[:, 2])
    both("lstsq", A[:2], A[:2, 2:])
    both("lstsq", np.outer(A[0], A[1]), A[:, 2:])
    both("pinv", A[:3], atol=0.1, rtol=0.2, return_rank=True)
    both("pinvh", A @ np.diag([0, 0, 1, 2]) @ A.T, return_rank=True)
    both("polar", A[:3])
    both("eigvalsh", A + A.T, A @ A.T, type=2)
    both("eigvalsh", A + A.T, subset_by_index=(1, 2))
    both("eigvalsh", A + A.T, subset_by_value=(3.0, 9.0))
    both("eigvalsh", A + A.T, subset_by_value=(1e3, 1e4))
    both("svdvals", A[:2])
    both("solve_sylvester", A, B[:2, :2], A[:, :2])
    both("solve_discrete_lyapunov", B / 9, A)
    both("solve_discrete_lyapunov", np.kron(B, B)[:12, :12] / 99, np.eye(12))
    both("companion", [1, -10, 31, -30])
    both("toeplitz", [1, 2, 3], [1, 4, 5, 6])
    both("toeplitz", [1.0, 2 + 3j, 4 - 1j])
    both("hankel", [1, 17, 99])
    both("block_diag", [1, 2], [[3], [4]], 5)
    both("block_diag")
    both("leslie", [0.1, 2.0, 1.0], [0.2, 0.8])
    both("norm", A, "nuc")
    both("solve", A, A[0], assume_a="sym", lower=True)
    assert wl.hilbert(3).tolist() == sl.hilbert(3).tolist()


def test_generalised_eigenvectors() -> None:
    b = B @ B.T + np.eye(4)
    for kind in (1, 2, 3):
        w, v = wl.eigh(A + A.T, b, type=kind)
        expected, vectors = sl.eigh(A + A.T, b, type=kind)
        np.testing.assert_allclose(w, expected, rtol=1e-10)
        np.testing.assert_allclose(abs(v), abs(vectors), atol=1e-10)
    w, v = wl.eig(A, B)
    np.testing.assert_allclose(A @ v, B @ v * w, atol=1e-12)
    np.testing.assert_allclose(np.sort(w), np.sort(sl.eigvals(A, B)), rtol=1e-10)


def test_one_part_of_a_matrix_has_the_gradient() -> None:
    for structure, read in {
        "upper triangular": np.triu,
        "lower triangular": np.tril,
        "symmetric": np.triu,
        "diagonal": lambda x: np.diag(np.diag(x)),
    }.items():
        f = lambda a, s=structure: np.sum(wl.solve(a, B[0], assume_a=s))  # noqa: E731
        spoilt = np.where(read(np.ones((4, 4))) == 0, 99.0, A)
        np.testing.assert_allclose(f(spoilt), f(A))
        g = wb.grad(f)(A)
        assert (g != 0).tolist() == (read(np.ones((4, 4))) != 0).tolist()


def test_ranks_and_limits_without_values() -> None:
    graph = wb.trace(lambda a, b: wl.lstsq(a, b)[0])(
        wb.Spec((5, 3), np.float32), wb.Spec((5,), np.float32)
    )
    assert graph.outputs[0].shape == (3,)
    with pytest.raises(TraceError, match=r"subset_by_value.*test_linalg"):
        wb.trace(lambda a: wl.eigh(a, subset_by_value=(0, 1))[0])(
            wb.Spec((3, 3), np.dtype(float))
        )


# Bad input


def test_every_name_is_there_or_refused_with_a_reason() -> None:
    modules = {"basic", "decomp", "matfuncs", "misc", "special_matrices", "test"}
    tools = {"bandwidth", "find_best_blas_type", "get_blas_funcs", "get_lapack_funcs"}
    names = {
        name
        for name in sl.__all__
        if callable(getattr(sl, name)) and name not in modules | tools
    }
    for name in sorted(names):
        if name in wl.REFUSED:
            with pytest.raises(AttributeError, match=r"has no .*: .* Write "):
                getattr(wl, name)
        else:
            assert callable(getattr(wl, name)), name
            assert name in dir(wl)
    assert set(wl.REFUSED) <= set(dir(sl))
    assert set(wl.__all__) <= names
    with pytest.raises(AttributeError, match=r"no sqrtmm\. Did you mean sqrtm"):
        _ = wl.sqrtmm
    with pytest.raises(
        AttributeError, match=r"scipy\.linalg\.get_blas_funcs\(x\.value"
    ):
        _ = wl.get_blas_funcs


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda x: wl.expm(x[:2]), ValueError, r"square matrix; shape \(2, 4\)"),
        (lambda x: wl.solve(x, x[:3]), ShapeError, r"solve.*4 rows"),
        (lambda x: wl.solve_triangular(x, x[:3]), ShapeError, "solve_triangular.*rows"),
        (
            lambda x: wl.solve_sylvester(x, x, x[:3]),
            ShapeError,
            "has the rows of a",
        ),
        (lambda x: wl.solve_banded((1, 0), x, x), ShapeError, "a band of shape"),
        (lambda x: wl.solve(x, x, assume_a="odd"), ValueError, "odd is not"),
        (lambda x: wl.solve_triangular(x, x, 3), ValueError, "trans=3"),
        (lambda x: wl.inv(x * np.nan), ValueError, "infs or NaNs"),
        (lambda x: wl.inv(x * 0), MatrixError, "Singular"),
        (lambda x: wl.solve_triangular(x * 0, x), MatrixError, "ingular"),
        (lambda x: wl.cho_factor(-x @ x.T)[0], MatrixError, "positive definite"),
        (lambda x: wl.qr(x, mode="raw")[0], ValueError, "'raw'"),
        (lambda x: wl.eig(x, left=True)[0], NotDifferentiableError, "inv.vr."),
        (lambda x: wl.eigh(x, x, type=4)[0], ValueError, "1, 2, and 3"),
        (lambda x: wl.eigh(x, subset_by_index=(2, 9))[0], ValueError, r"\[0, 3\]"),
        (lambda x: wl.khatri_rao(x, x[:, :2]), ValueError, "4 columns of a, 2 of b"),
        (lambda x: wl.lu_solve((np.stack([x, x]), [0]), x), ValueError, "vmap"),
    ],
)
def test_bad_input(call: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        wb.grad(lambda x: np.sum(call(x)))(A)


@pytest.mark.parametrize("shape", [(0, 0), (0, 2, 2)])
@pytest.mark.parametrize(
    "f",
    [
        wl.expm,
        wl.logm,
        lambda x: wl.lu(x)[1],
        lambda x: wl.solve_triangular(x, np.ones((x.shape[-1], 2))),
        lambda x: wl.solve_sylvester(x, x, x),
        lambda x: np.linalg.eigh(x)[1],
        lambda x: np.linalg.svd(x)[0],
        lambda x: np.linalg.det(x),
    ],
)
def test_no_matrix_at_all(f: Any, shape: tuple[int, ...]) -> None:
    x = np.zeros(shape)
    assert wb.grad(lambda x: np.sum(f(x) ** 2))(x).shape == shape
    assert wb.jvp(f, (x,), (x,))[1].shape == np.shape(f(x))


def test_arrays_stay_arrays() -> None:
    for made in (wl.solve(A, B), wl.expm(A), wl.lu(A)[1], wl.toeplitz([1.0, 2.0])):
        assert not isinstance(made, Tensor)
