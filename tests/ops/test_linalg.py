"""Linear algebra where it is delicate: repeated and vanishing values, bad input.

A quantity that does not depend on the choice of vectors has the derivative that
differences of plain NumPy find; one that does has NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.ops.test_samples import differences
from workbench.backends.numpy import compile
from workbench.core.tensor import value_of
from workbench.errors import MatrixError, ShapeError

Q = np.linalg.qr(np.random.default_rng(7).normal(size=(4, 4)))[0]
#: Symmetric, with the eigenvalues 1, 1, 3, 4.
TWIN = (Q * [1.0, 1.0, 3.0, 4.0]) @ Q.T
#: With the singular values 4, 2, 2, 1.
PAIR = (Q * [4.0, 2.0, 2.0, 1.0]) @ np.roll(Q, 1, 1)
#: Of rank 1, so that the eigenvalue 0 is repeated.
LINE = np.outer(Q[0], Q[0]) * 2.5
C = np.random.default_rng(3).normal(size=(4, 4))
TURN = np.random.default_rng(5).normal(size=(4, 4))
TURN = TURN + TURN.T


def along(f: Callable[..., Any], x: Any, t: Any) -> Any:
    """The derivative by reverse mode, on one direction."""
    return np.sum(wb.grad(f)(x) * t)


def symmetric(x: Any) -> Any:
    return (x + x.T) / 2


def projector(first: int, last: int) -> Callable[[Any], Any]:
    def f(x: Any) -> Any:
        v = np.linalg.eigh(symmetric(x))[1][:, first:last]
        return np.sum(C * (v @ v.T))

    return f


SYMMETRIC: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "sum": (lambda x: np.sum(np.linalg.eigvalsh(symmetric(x))), TWIN),
    "sum of exp": (lambda x: np.sum(np.exp(np.linalg.eigvalsh(symmetric(x)))), TWIN),
    "values of eigh": (lambda x: np.sum(np.linalg.eigh(symmetric(x))[0] ** 3), TWIN),
    "eigvals": (lambda x: np.real(np.sum(np.linalg.eigvals(x) ** 3)), TWIN),
    "one and its vector": (
        lambda x: (lambda w, v: w[-1] * v[0, -1] ** 2)(*np.linalg.eigh(symmetric(x))),
        LINE,
    ),
    "squares of singular values": (lambda x: np.sum(np.linalg.svdvals(x) ** 4), PAIR),
    "values of svd": (lambda x: np.sum(np.linalg.svd(x)[1] ** 3), PAIR),
    "nuclear norm": (lambda x: np.linalg.norm(x, "nuc"), PAIR),
    "largest singular value": (lambda x: np.linalg.norm(x, 2), PAIR),
    "smallest singular value": (lambda x: np.linalg.norm(x, -2), PAIR),
    "cond": (lambda x: np.linalg.cond(x), PAIR),
    "first pair of vectors": (
        lambda x: (lambda u, s, v: u[0, 0] * s[0] * v[0, 1])(*np.linalg.svd(x)),
        PAIR,
    ),
    "pinv": (lambda x: np.sum(C * np.linalg.pinv(x)), PAIR),
    "the matrix again": (
        lambda x: np.sum(C * (lambda u, s, v: (u * s) @ v)(*np.linalg.svd(x))),
        (Q * [4.0, 2.0, 1.0, 0.0]) @ np.roll(Q, 1, 1),
    ),
    "one of a line": (
        lambda x: (lambda u, s, v: u[1, 0] * s[0] * v[0, 2])(*np.linalg.svd(x)),
        LINE,
    ),
}


@pytest.mark.parametrize("name", SYMMETRIC)
def test_repeated_values_where_the_result_is_determined(name: str) -> None:
    f, x = SYMMETRIC[name]
    truth = differences(f, [x], [TURN])
    np.testing.assert_allclose(along(f, x, TURN), truth, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(wb.jvp(f, (x,), (TURN,))[1], truth, rtol=1e-7, atol=1e-9)


def last_two(w: Any, v: Any) -> Any:
    """The projector on the vectors of the two largest eigenvalues."""
    order = np.argsort(np.real(w))
    v, rows = v[:, order], np.linalg.inv(v)[order]
    return np.real(v[:, 2:] @ rows[2:])


ALONE: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "projector on the pair": (projector(0, 2), TWIN),
    "projector on the others": (projector(2, 4), TWIN),
    "projector on a null space": (projector(0, 3), LINE),
    "polar factor": (
        lambda x: np.sum(C * (lambda u, s, v: u @ v)(*np.linalg.svd(x))),
        PAIR,
    ),
    "projector of svd": (
        lambda x: (lambda u: np.sum(C * (u[:, 1:3] @ u[:, 1:3].T)))(
            np.linalg.svd(x)[0]
        ),
        PAIR,
    ),
    "projector of eig": (
        lambda x: np.sum(C * last_two(*np.linalg.eig(x))),
        np.diag([1.0, 1.0, 3.0, 4.0]) + np.eye(4, k=2) / 3,
    ),
}


@pytest.mark.parametrize("name", ALONE)
def test_vectors_alone_are_right_in_both_modes(name: str) -> None:
    f, x = ALONE[name]
    truth = differences(f, [x], [TURN])
    np.testing.assert_allclose(along(f, x, TURN), truth, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(wb.jvp(f, (x,), (TURN,))[1], truth, rtol=1e-7, atol=1e-9)


OPEN: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "a vector of a pair": (lambda x: np.linalg.eigh(x)[1][0, 0], TWIN),
    "one of a pair and its vector": (
        lambda x: (lambda w, v: w[0] * v[0, 0])(*np.linalg.eigh(x)),
        np.eye(3),
    ),
    "unequal weights of equal values": (
        lambda x: (lambda w, v: np.sum(C * (v * w * np.arange(4.0)) @ v.T))(
            *np.linalg.eigh(x)
        ),
        TWIN,
    ),
    # Nothing arrives at the vectors, and yet they matter.
    "unequal weights of logarithms of 1": (
        lambda x: (lambda w, v: ((v * np.log(w) * np.arange(3.0)) @ v.T)[0, 1])(
            *np.linalg.eigh(x)
        ),
        np.eye(3),
    ),
    "an even function of singular values of 0": (
        lambda x: (lambda u, s, v: ((u * np.cos(s)) @ v)[0, 1])(*np.linalg.svd(x)),
        np.zeros((3, 3)),
    ),
    "a singular vector of a pair": (lambda x: np.linalg.svd(x)[0][0, 1], PAIR),
    "a singular vector of 0": (
        lambda x: np.linalg.svd(x, full_matrices=False)[0][0, 1],
        np.array([[1.0, 0.0], [1.0, 0.0], [2.0, 0.0]]),
    ),
}


@pytest.mark.parametrize("name", OPEN)
def test_what_is_not_determined_is_nan(name: str) -> None:
    f, x = OPEN[name]
    assert np.isfinite(f(x))
    assert np.isnan(wb.grad(f)(x)).any()
    t = np.random.default_rng(2).normal(size=x.shape)
    assert np.isnan(wb.jvp(f, (x,), (t,))[1])


def test_second_derivatives_of_repeated_values() -> None:
    eye = np.eye(3)
    # A trace is linear, whatever the eigenvalues; a sum of squares is not known here.
    linear = lambda x: np.sum(np.linalg.eigvalsh(x))  # noqa: E731
    np.testing.assert_allclose(wb.hessian(linear)(eye), np.zeros((3,) * 4), atol=1e-14)
    squares = lambda x: np.sum(np.linalg.eigvalsh(x) ** 2)  # noqa: E731
    assert np.isnan(wb.hvp(squares, (eye,), (TURN[:3, :3],))[0]).any()
    nuclear = lambda x: np.linalg.norm(x, "nuc")  # noqa: E731
    truth = differences(wb.grad(nuclear), [PAIR], [TURN])
    np.testing.assert_allclose(wb.hvp(nuclear, (PAIR,), (TURN,))[0], truth, atol=1e-8)


def test_singular_matrices_say_what_to_write() -> None:
    low = np.outer([1.0, 2.0], [1.0, 2.0])
    f = lambda x: np.linalg.slogdet(x)[1]  # noqa: E731
    for derivative in (wb.grad(f), wb.hessian(f), lambda x: wb.jvp(f, (x,), (x,))):
        with pytest.raises(wb.errors.MatrixError, match="matrix is singular") as told:
            derivative(low)
        assert "f = lambda x: np.linalg.slogdet(x)[1]" in str(told.value)
        assert "np.linalg.det(x)" in str(told.value)


def test_norms_at_their_kinks() -> None:
    low = np.outer([1.0, 2.0], [2.0, 1.0, 2.0])
    unit = low / np.linalg.norm(low)
    for x in (low, low * 1e-150, low * 1e150):
        np.testing.assert_allclose(
            wb.grad(lambda x: np.linalg.norm(x, "nuc"))(x), unit, atol=1e-14
        )
        np.testing.assert_allclose(
            wb.grad(lambda x: np.linalg.norm(x, 2))(x), unit, atol=1e-14
        )
    for ord in (None, "fro", "nuc", 2, -2, 1, -1, np.inf, -np.inf):
        f = lambda x, o=ord: np.linalg.norm(x, o)  # noqa: E731
        assert wb.grad(f)(np.zeros((2, 3))).tolist() == [[0.0] * 3] * 2
    for ord in (None, 1, 2, 3, 1.5, -1, -2, np.inf, -np.inf, 0):
        f = lambda x, o=ord: np.linalg.norm(x, o)  # noqa: E731
        assert wb.grad(f)(np.zeros(3)).tolist() == [0.0] * 3


def cofactor_form(x: Any, s: Any) -> Any:
    """The second derivative of a 3 by 3 determinant, from its 6 products."""
    from itertools import permutations

    total = np.zeros((3, 3))
    for order in permutations(range(3)):
        sign = np.linalg.det(np.eye(3)[list(order)])
        for i in range(3):
            for j in set(range(3)) - {i}:
                k = 3 - i - j
                total[i, order[i]] += sign * s[j, order[j]] * x[k, order[k]]
    return total


@pytest.mark.parametrize("rank", [0, 1, 2, 3])
def test_det_of_any_rank_to_second_order(rank: int) -> None:
    rng = np.random.default_rng(rank)
    x = rng.normal(size=(3, rank)) @ rng.normal(size=(rank, 3))
    s = rng.normal(size=(3, 3))
    truth = cofactor_form(x, s)
    np.testing.assert_allclose(wb.hvp(np.linalg.det, (x,), (s,))[0], truth, atol=1e-13)
    twice = wb.grad(lambda x: np.sum(wb.grad(np.linalg.det)(x) * s))(x)
    np.testing.assert_allclose(twice, truth, atol=1e-13)


def test_det_of_a_matrix_far_from_singular_needs_no_singular_values(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They take ten times as long; where they are needed, they are taken."""
    x = rng.standard_normal((40, 40)) / 6
    near = x.copy()
    near[0] = near[1] + 1e-9 * x[0]
    gradient = wb.grad(lambda x: np.linalg.det(x))
    expected = np.linalg.det(x) * np.linalg.inv(x).T
    # The cofactors of the row that is changed do not see the change.
    first = gradient(near)[0]
    real = np.linalg.svd
    calls = []
    monkeypatch.setattr(np.linalg, "svd", lambda x: calls.append(1) or real(x))
    np.testing.assert_allclose(gradient(x), expected, rtol=1e-9)
    assert not calls
    other = near.copy()
    other[0] = near[1]
    np.testing.assert_allclose(gradient(other)[0], first, rtol=1e-6)
    assert calls


def test_det_to_third_order() -> None:
    rng = np.random.default_rng(0)
    x, s, t = rng.normal(size=(3, 3, 3))
    gradient = lambda x: wb.hvp(np.linalg.det, (x,), (s,))[0]  # noqa: E731
    truth = cofactor_form(t, s)  # the second derivative is linear in x
    np.testing.assert_allclose(wb.jvp(gradient, (x,), (t,))[1], truth, rtol=1e-10)
    back = wb.grad(lambda x: np.sum(gradient(x) * t))(x)
    np.testing.assert_allclose(back, cofactor_form(t, s), rtol=1e-10)


def true_derivatives(x: Any, order: int) -> Any:
    """Return the derivatives of det of this order, by Leibniz' sum."""
    n = len(x)
    made = np.zeros((n, n) * order)
    for columns in permutations(range(n)):
        swaps = sum(columns[i] > columns[j] for j in range(n) for i in range(j))
        for rows in permutations(range(n), order):
            rest = [x[r, columns[r]] for r in range(n) if r not in rows]
            place = tuple(i for r in rows for i in (r, columns[r]))
            made[place] += (-1) ** swaps * np.prod(rest)
    return made


@pytest.mark.parametrize(("n", "rank"), [(n, r) for n in range(1, 6) for r in range(n)])
def test_det_of_singular_matrices_to_fourth_order(n: int, rank: int) -> None:
    rng = np.random.default_rng(n * 10 + rank)
    x = rng.normal(size=(n, rank)) @ rng.normal(size=(rank, n))
    third = true_derivatives(x, 3)
    close = {"rtol": 0, "atol": 1e-12 * max(1, np.abs(third).max())}
    hessian = wb.hessian(np.linalg.det)
    np.testing.assert_allclose(hessian(x), true_derivatives(x, 2), **close)
    for outer in (wb.jacfwd, wb.jacrev):
        np.testing.assert_allclose(outer(hessian)(x), third, **close)
    if n < 5:
        fourth = wb.jacfwd(wb.jacfwd(hessian))(x)
        np.testing.assert_allclose(fourth, true_derivatives(x, 4), **close)
    turned = wb.jvp(hessian, (x + 0j,), (1j * np.ones((n, n)),))[1]  # complex ones too
    np.testing.assert_allclose(turned, 1j * np.sum(third, (-2, -1)), **close)
    batch = wb.vmap(wb.jacfwd(hessian))(np.stack([x, x + np.eye(n)]))
    np.testing.assert_allclose(batch[0], third, **close)


def test_hessian_of_det_moves_where_there_is_no_inverse() -> None:
    ones, eye = np.ones((3, 3)), np.eye(3)
    moved = wb.jvp(wb.hessian(np.linalg.det), (ones,), (eye,))[1]
    truth = np.einsum("ijklmm->ijkl", true_derivatives(ones, 3))
    np.testing.assert_allclose(moved, truth, atol=1e-13)


def test_pinv_and_lstsq_of_less_than_full_rank() -> None:
    rng = np.random.default_rng(4)
    left, right = rng.normal(size=(4, 2)), rng.normal(size=(2, 3))
    moved = rng.normal(size=(4, 2)), rng.normal(size=(2, 3))
    b, weights = rng.normal(size=4), rng.normal(size=(3, 4))

    def inverse(left: Any, right: Any) -> Any:
        return np.sum(weights * np.linalg.pinv(left @ right))

    def solution(left: Any, right: Any) -> Any:
        return np.sum(weights[:, 0] * np.linalg.lstsq(left @ right, b)[0])

    for f in (inverse, solution):
        truth = differences(f, [left, right], list(moved))
        gradients = wb.grad(f, (0, 1))(left, right)
        got = sum(np.sum(g * t) for g, t in zip(gradients, moved, strict=True))
        np.testing.assert_allclose(got, truth, rtol=1e-7)
        forward = wb.jvp(f, (left, right), moved)[1]
        np.testing.assert_allclose(forward, truth, rtol=1e-7)


def test_all_that_lstsq_returns() -> None:
    rng = np.random.default_rng(4)
    full, b = rng.normal(size=(4, 2)), rng.normal(size=(4, 3))
    low = np.outer(full[:, 0], [1.0, 2.0])
    for a in (full, low, full.T @ full, full[:2].T):
        for right in (b[: a.shape[0]], b[: a.shape[0], 0]):
            expected = np.linalg.lstsq(a, right)
            got: list[Any] = []
            wb.grad(lambda a, r=right, g=got: np.sum(g.extend(
                np.linalg.lstsq(a, r)) or g[-1]))(a)  # fmt: skip
            for x, truth in zip(got, expected, strict=True):
                assert x.shape == np.shape(truth)
                assert x.dtype == np.asarray(truth).dtype
                np.testing.assert_allclose(value_of(x), truth, atol=1e-13)


def test_named_results_and_stacks() -> None:
    x = np.stack([TWIN, LINE])
    seen: list[Any] = []

    def f(x: Any) -> Any:
        for made in (np.linalg.eigh(x), np.linalg.eig(x), np.linalg.svd(x),
                     np.linalg.qr(x), np.linalg.slogdet(x[:1])):  # fmt: skip
            seen.append(made)
        return np.sum(seen[0].eigenvalues) + np.sum(seen[2].S) + seen[4].logabsdet[0]

    wb.value_and_grad(f)(x)
    assert [m._fields for m in seen] == [
        type(m)._fields
        for m in (np.linalg.eigh(x), np.linalg.eig(x), np.linalg.svd(x),
                  np.linalg.qr(x), np.linalg.slogdet(x))
    ]  # fmt: skip
    np.testing.assert_allclose(seen[0].eigenvalues.value, np.linalg.eigh(x)[0])
    assert np.linalg.matrix_rank(x).tolist() == [4, 1]


def test_slogdet_of_large_complex_matrices_does_not_overflow() -> None:
    x = 1e10 * (np.eye(40) + 0.1j * np.ones((40, 40)))
    f = lambda x: np.real(np.linalg.slogdet(x)[0])  # noqa: E731
    with np.errstate(over="ignore"):
        assert not np.isfinite(np.linalg.det(x))
    t = np.ones((40, 40)) * (1e9 + 2e9j)
    np.testing.assert_allclose(
        np.real(np.sum(wb.grad(f)(x) * t)), differences(f, [x], [t]), rtol=1e-7
    )


@pytest.mark.parametrize(
    "f",
    [
        np.linalg.inv,
        np.linalg.det,
        np.linalg.cholesky,
        np.linalg.eigvals,
        lambda x: np.linalg.eigvalsh(x, "U"),
        lambda x: np.linalg.eigh(x)[0],
        lambda x: np.linalg.eig(x)[0],
        lambda x: np.linalg.slogdet(x)[1],
        lambda x: np.linalg.solve(x, np.ones(2)),
    ],
)
def test_matrices_that_are_not_square(f: Any) -> None:
    for bad in (np.ones((2, 3)), wb.Spec((2, 3), np.dtype(float))):
        with pytest.raises(np.linalg.LinAlgError, match=r"test_linalg\.py") as error:
            wb.trace(lambda x: f(x) * 1.0)(bad)
        assert isinstance(error.value, ShapeError)
        assert "float64[2, 3]" in str(error.value)
    with pytest.raises(np.linalg.LinAlgError):
        f(np.ones((2, 3)))


def test_matrices_that_have_no_inverse() -> None:
    for f in (
        np.linalg.inv,
        lambda x: np.linalg.solve(x, np.ones(2)),
        lambda x: np.linalg.tensorinv(x, 1),
    ):
        with pytest.raises(MatrixError, match=r"test_linalg\.py.*Singular"):
            wb.grad(lambda x, f=f: np.sum(f(x)))(np.ones((2, 2)))
    stack = np.stack([np.ones((2, 2)), np.diag([2.0, 1.0])])
    for p in (1, "fro", np.inf):
        (made,) = wb.trace(lambda x, p=p: np.linalg.cond(x, p))(stack).outputs
        np.testing.assert_allclose(made.value, np.linalg.cond(stack, p))
        (made,) = wb.trace(lambda x, p=p: np.linalg.cond(x, p))(stack[0]).outputs
        assert made.value == np.inf
    with pytest.raises(ValueError, match="'raw'"):
        wb.grad(lambda x: np.sum(np.linalg.qr(x, "raw")[0]))(np.ones((2, 2)))
    with pytest.raises(ValueError, match="Invalid norm order"):
        wb.grad(lambda x: np.linalg.norm(x, 7))(np.ones((2, 2)))
    with pytest.raises(ValueError, match="UPLO"):
        wb.grad(lambda x: np.sum(np.linalg.eigvalsh(x, "X")))(np.eye(2))


@pytest.mark.parametrize(
    "f",
    [
        lambda x, k: np.sum(np.linalg.eigvalsh(x) * k),
        lambda x, k: np.sum(np.linalg.svdvals(x) * k),
        lambda x, k: np.linalg.det(x) * k[0] + np.sum(k),
        lambda x, k: np.sum(np.linalg.eigh(x)[1][:, 0] ** 2 * k),
    ],
)
def test_one_matrix_and_a_batch_of_weights_without_values(f: Any) -> None:
    """Second derivatives of a batch that only the cotangent carries, as a graph."""
    x, weights = (A := np.diag([1.0, 2.5, 4.0])) + C[:3, :3] / 9, C[:3, :3]

    def rows(x: Any, weights: Any) -> Any:
        second = lambda k: wb.grad(  # noqa: E731
            lambda x: np.sum(wb.grad(f)(x, k) * A)
        )(x)
        return wb.vmap(second)(weights)

    specs = [wb.Spec((3, 3), np.dtype(float))] * 2
    (made,) = compile(wb.trace(rows)(*specs))(x, weights)
    truth = [wb.grad(lambda x, k=k: np.sum(wb.grad(f)(x, k) * A))(x) for k in weights]
    np.testing.assert_allclose(made, np.stack(truth), rtol=1e-9, atol=1e-12)
