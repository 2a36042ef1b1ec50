"""Matrices that are nearly singular: who is told so does not hang on one rounding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
import scipy.sparse
import scipy.stats

import workbench as wb
import workbench.scipy.linalg as wl
from workbench.checks.doctor import matrices
from workbench.scipy.sparse.linalg import spsolve

Rng = np.random.Generator


def kernel(scale: Any, x: Any) -> Any:
    """The squared-exponential kernel of points."""
    return np.exp(-0.5 * ((x[:, None] - x) / scale) ** 2)


def told(f: Any, *args: Any) -> list[tuple[str, str]]:
    """Kind and op of each finding."""
    return [(one.kind, one.node.op.name) for one in wb.diagnose(f, *args)]


def spectrum(rng: Rng, n: int, condition: float, dtype: Any = float) -> Any:
    """A matrix of this condition with orthogonal vectors, in which no entry is 0."""
    u, v = scipy.stats.ortho_group.rvs(n, 2, random_state=rng)
    if np.dtype(dtype).kind == "c":
        u, v = scipy.stats.unitary_group.rvs(n, 2, random_state=rng)
    s = np.geomspace(1, 1 / condition, n)
    return ((u * s) @ v.conj().T).astype(dtype)


def definite(rng: Rng, n: int, condition: float, dtype: Any = float) -> Any:
    u = scipy.stats.ortho_group.rvs(n, random_state=rng)
    if np.dtype(dtype).kind == "c":
        u = scipy.stats.unitary_group.rvs(n, random_state=rng)
    a = (u * np.geomspace(1, 1 / condition, n)) @ u.conj().T
    return ((a + a.conj().T) / 2).astype(dtype)


# The verdict


@pytest.mark.parametrize(
    "scale",
    [6, 8.5, *(pytest.param(x, marks=pytest.mark.long) for x in (7, 7.5, 8, 9))],
)
def test_a_kernel_of_length_scale_is_told_however_it_is_rounded(
    scale: float, rng: Rng
) -> None:
    x = np.arange(8.0)
    condition = np.linalg.cond(kernel(scale, x))
    assert 3.8e11 < condition < 2e14
    noise = rng.integers(-1, 2, size=(6, 8, 8)) * np.finfo(float).eps / 2
    noise[0] = 0
    for k in range(6):
        order = rng.permutation(8) if k else np.arange(8)
        change = 1 + noise[k] + noise[k].T

        def f(scale: Any, order: Any = order, change: Any = change) -> Any:
            K = (kernel(scale, x) * change)[order][:, order]
            return np.sum(np.log(np.diag(np.linalg.cholesky(K))))

        (found,) = wb.diagnose(f, np.float64(scale))
        assert (found.kind, found.node.op.name) == ("singular-matrix", "cholesky")
        assert (found.severity, found.sweep) == ("warning", "forward")
        left = -np.log10(condition * np.finfo(float).eps)
        said = int(found.evidence.split("about ")[1].split()[0])
        assert said == pytest.approx(left, abs=1)


@pytest.mark.parametrize("scale", [1.0, 3.0, 5.0])
def test_a_kernel_with_more_than_four_digits_is_none(scale: float) -> None:
    x = np.arange(8.0)

    def f(scale: Any) -> Any:
        return np.sum(np.log(np.diag(np.linalg.cholesky(kernel(scale, x)))))

    assert told(f, np.float64(scale)) == []


@pytest.mark.parametrize(
    ("scale", "times"),
    [
        *((scale, 3) for scale in (12.0, 15.0, 20.0)),
        *(pytest.param(scale, 30, marks=pytest.mark.long) for scale in (12.0, 20.0)),
        (60.0, 30),
    ],
)
def test_a_factor_that_rounding_lets_through_or_not_is_told_alike(
    scale: float, times: int, rng: Rng
) -> None:
    x = np.arange(8.0)
    raised = 0
    for _ in range(times):
        order = rng.permutation(8)
        change = 1 + rng.integers(-1, 2, 8) * np.finfo(float).eps

        def f(scale: Any, order: Any = order, change: Any = change) -> Any:
            K = kernel(scale, x)[order][:, order] * change * change[:, None]
            L = np.linalg.cholesky(K)
            return np.sum(np.log(np.diag(L)))

        found = wb.diagnose(f, np.float64(scale))
        first = found[0]
        assert (first.kind, first.node.op.name) == ("singular-matrix", "cholesky")
        assert first.severity == "error"
        assert first.evidence.endswith("of the 16 digits of float64 none is left.")
        assert "L = np.linalg.cholesky(K)" in first.place
        assert first.fix is not None
        assert first.fix.code == "K + 1e-8 * np.eye(K.shape[-1])"
        assert [one.kind for one in found[1:]] in ([], ["raised"])
        raised += len(found) - 1
    if scale == 60:
        assert raised, "the edge was meant to be met"


def test_a_matrix_that_is_not_definite_is_no_matter_of_digits() -> None:
    def f(a: Any) -> Any:
        A = np.array([[1.0, 2.0], [2.0, 1.0]]) * a
        return np.sum(np.linalg.cholesky(A))

    (found,) = wb.diagnose(f, 1.0)
    assert (found.kind, found.node.op.name) == ("raised", "cholesky")
    assert "return np.sum(np.linalg.cholesky(A))" in found.place


def test_a_matrix_without_an_inverse_is_told_where_it_raised() -> None:
    def f(a: Any) -> Any:
        A = np.ones((2, 2)) * a
        b = A + 0
        return np.sum(np.linalg.inv(b))

    first, second = wb.diagnose(f, np.array(1.0))
    assert (first.kind, first.node.op.name) == ("singular-matrix", "inv")
    assert (second.kind, second.node.op.name) == ("raised", "inv")
    assert "return np.sum(np.linalg.inv(b))" in first.place
    assert first.place == second.place


ONE = np.arange(1.0, 7.0)
#: Programs of a matrix, by the op that is told; those of definite ones apart.
OPS: dict[str, Callable[[Any], Any]] = {
    "solve": lambda A: np.sum(np.abs(np.linalg.solve(A, ONE.astype(A.dtype)))),
    "inv": lambda A: np.sum(np.abs(np.linalg.inv(A))),
    "det": lambda A: np.abs(np.linalg.det(A)),
    "logabsdet": lambda A: np.linalg.slogdet(A)[1],
    "least_squares": lambda A: np.sum(
        np.abs(np.linalg.lstsq(A, ONE.astype(A.dtype), rcond=None)[0])
    ),
    "pinv": lambda A: np.sum(np.abs(np.linalg.pinv(A))),
    "qr": lambda A: np.sum(np.abs(np.linalg.qr(A)[0]) ** 4),
    "lu": lambda A: np.sum(np.abs(wl.lu_solve(wl.lu_factor(A), ONE.astype(A.dtype)))),
}


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize(
    ("dtype", "much", "little"),
    [
        (np.float64, 1e13, 1e9),
        (np.float32, 3e4, 20),
        (np.complex128, 1e13, 1e9),
        (np.complex64, 3e4, 20),
    ],
)
def test_every_op_of_a_matrix_is_told_by_its_condition(
    op: str, dtype: Any, much: float, little: float, rng: Rng
) -> None:
    f = OPS[op]
    found = wb.diagnose(f, spectrum(rng, 6, much, dtype))
    assert ("singular-matrix", op) in [(one.kind, one.node.op.name) for one in found]
    one = next(one for one in found if one.kind == "singular-matrix")
    name = "float64" if dtype in (np.float64, np.complex128) else "float32"
    assert f"digits of {name}" in one.evidence
    assert [one.kind for one in found].count("singular-matrix") == 1
    kinds = [one.kind for one in wb.diagnose(f, spectrum(rng, 6, little, dtype))]
    assert "singular-matrix" not in kinds


def test_inverses_in_other_words_are_told_too(rng: Rng) -> None:
    A, K = spectrum(rng, 6, 1e13), definite(rng, 6, 1e13)
    # The same three rows, but for the last digits.
    band = np.array([[0, 1.0, 1], [1, 1 + 1e-13, 1], [1, 1e-13, 0]])
    triangle = np.array([[1.0, 1, 1], [0, 1e-13, 1], [0, 0, 1]])
    turn = scipy.stats.ortho_group.rvs(6, random_state=rng)
    programs: dict[str, tuple[Any, Any, str]] = {
        "power": (lambda A: np.sum(np.linalg.matrix_power(A, -2)), A, "inv"),
        "tensors": (lambda A: np.sum(np.linalg.tensorsolve(A, ONE)), A, "solve"),
        "scipy": (lambda K: np.sum(wl.solve(K, ONE, assume_a="pos")), K, "solve"),
        "factor": (lambda K: wl.cho_solve(wl.cho_factor(K), ONE), K, "cholesky"),
        "triangle": (
            lambda A: np.sum(wl.solve_triangular(A, ONE[:3])),
            triangle,
            "solve_triangular",
        ),
        "band": (
            lambda ab: np.sum(wl.solve_banded((1, 1), ab, ONE[:3])),
            band,
            "solve_banded",
        ),
        "defective": (
            lambda A: np.sum(np.abs(np.linalg.eigvals(A))),
            turn @ (np.eye(6) + np.eye(6, k=1)) @ turn.T,
            "eigvals",
        ),
        "sylvester": (
            lambda A: np.sum(wl.solve_sylvester(A, -A.T, np.eye(6))),
            np.diag(ONE) + 1e-14 * spectrum(rng, 6, 2),
            "solve_sylvester",
        ),
        "sparse": (
            lambda S: np.sum(spsolve(S, ONE)),
            scipy.sparse.csr_array(A),
            "sparse_solve",
        ),
    }
    for name, (f, x, op) in programs.items():
        assert ("singular-matrix", op) in told(f, x), name


def test_functions_of_a_matrix_are_told_by_their_derivative(rng: Rng) -> None:
    # The slope of log at an eigenvalue of 1e-14 is 1e14, its value there -32.
    u = scipy.stats.ortho_group.rvs(3, random_state=rng)
    A = (u * [1.0, 0.5, 1e-14]) @ u.T
    assert ("singular-matrix", "logm") in told(lambda A: wl.logm(A), A)
    # That of the square root is 5e6, its value 1e-7: half of the digits are left.
    assert "singular-matrix" not in dict(told(lambda A: np.real(wl.sqrtm(A)), A))
    B = spectrum(rng, 4, 3)
    for function in (wl.expm, wl.cosm, wl.sinhm):
        assert told(lambda B, function=function: np.sum(function(B)), B) == []


def test_matrices_in_a_stack_are_counted(rng: Rng) -> None:
    A = np.stack([spectrum(rng, 5, 10) for _ in range(4)])
    A[2] = spectrum(rng, 5, 1e13)
    (found,) = wb.diagnose(lambda A: np.sum(np.linalg.inv(A) * 1e-3), A)
    assert found.evidence.startswith("1 of its 4 matrices: matrix[2] has condition")


def test_units_cost_no_digits(rng: Rng) -> None:
    units = np.array([1e-9, 1.0, 1e6, 1e-3, 1e4, 1e-6])
    K = definite(rng, 6, 10) * units * units[:, None]
    A = spectrum(rng, 6, 10) * units * rng.permutation(units)[:, None]
    assert np.linalg.cond(K) > 1e20
    assert told(lambda K: np.sum(np.log(np.diag(np.linalg.cholesky(K)))), K) == []
    assert told(lambda A: np.linalg.slogdet(A)[1], A) == []
    X = rng.normal(size=(20, 6)) * [1e-5, 1, 1e4, 1e-3, 1e2, 1e-6]
    kinds = told(lambda b: np.sum(X @ np.linalg.lstsq(X * b, X[:, 0])[0]), np.ones(6))
    assert ("singular-matrix", "least_squares") not in kinds


def test_a_factor_of_a_matrix_that_was_told_is_not_told_again(rng: Rng) -> None:
    A = spectrum(rng, 6, 1e13)

    def f(A: Any) -> Any:
        inverse = np.linalg.inv(A)
        return np.sum(np.linalg.inv(inverse))

    assert told(f, A) == [("singular-matrix", "inv")]
    assert told(OPS["lu"], A) == [("singular-matrix", "lu")]


# The estimates


@pytest.mark.parametrize("dtype", [float, complex])
def test_estimates_are_near_the_truth(dtype: Any, rng: Rng) -> None:
    for _ in range(20):
        n = int(rng.integers(2, 12))
        condition = 10 ** rng.uniform(1, 12)
        a, k = spectrum(rng, n, condition, dtype), definite(rng, n, condition, dtype)
        rows = np.abs(a).max(axis=1, keepdims=True)
        scaled = a / rows / np.abs(a / rows).max(axis=0)
        close(matrices.general_condition(a), np.linalg.cond(scaled, 1))
        root = np.sqrt(np.diag(k).real)
        close(
            matrices.definite_condition(k),
            np.linalg.cond(k / root / root[:, None], 1),
        )
        for lower, t in ((True, np.tril(scaled)), (False, np.triu(scaled))):
            full = t / np.abs(t).max(axis=1, keepdims=True)
            full = full / np.abs(full).max(axis=0)
            close(matrices.triangular_condition(t, lower), np.linalg.cond(full, 1))


def test_the_estimate_of_a_band_is_that_of_its_matrix(rng: Rng) -> None:
    for _ in range(20):
        n = int(rng.integers(2, 10))
        lower, upper = rng.integers(0, n, 2)
        a = np.triu(np.tril(rng.normal(size=(n, n)), upper), -lower)
        ab = np.zeros((lower + upper + 1, n))
        for i, j in zip(*np.nonzero(a), strict=True):
            ab[upper + i - j, j] = a[i, j]
        scaled = a / np.abs(a).max(axis=1, keepdims=True)
        scaled = scaled / np.abs(scaled).max(axis=0)
        found = matrices.banded_condition(ab, int(lower), int(upper))
        close(found, np.linalg.cond(scaled, 1))


def test_the_digits_that_are_told_to_be_left_are(rng: Rng) -> None:
    # The inverse against that of 50 digits.
    for scale in (6.0, 7.0, 8.0, 9.0):
        K = kernel(scale, np.arange(8.0))
        with mpmath.workdps(50):
            exact = mpmath.inverse(mpmath.matrix(K.tolist()))
            truth = np.array(exact.tolist(), float)
        off = np.abs(np.linalg.inv(K) - truth).max() / np.abs(truth).max()
        (found,) = wb.diagnose(lambda K: np.sum(np.linalg.inv(K) * 1e-9), K)
        left = int(found.evidence.split("about ")[1].split()[0])
        assert off < 10.0 ** (1 - left)


def close(estimate: float, truth: float) -> None:
    """An estimate is a lower bound, nearly always by less than a factor of 3."""
    assert truth / 10 < estimate < truth * 1.01


# Inside other nodes, and on the way back


def log_diagonal(scale: Any) -> Any:
    K = kernel(scale, np.arange(8.0))
    return np.sum(np.log(np.diag(np.linalg.cholesky(K))))


def test_a_matrix_inside_a_node_is_told_with_its_line() -> None:
    def looped(scale: Any) -> Any:
        step = lambda h: h + 0.0 * log_diagonal(h)  # noqa: E731
        return np.sum(wb.scan(step, initial=scale, n_steps=2))

    s = wb.scalar("s")
    graph = wb.OpFromGraph([s], [log_diagonal(s)])
    for f, outer in (
        (wb.checkpoint(log_diagonal), "checkpoint, inside: cholesky"),
        (looped, "scan, at step 0: cholesky"),
        (lambda x: graph(x), "op_from_graph, inside: cholesky"),
    ):
        (found,) = wb.diagnose(f, np.float64(8))
        assert found.kind == "singular-matrix"
        assert outer in found.title
        assert "return np.sum(np.log(np.diag(np.linalg.cholesky(K))))" in found.place
        assert list(wb.diagnose(f, np.float64(2))) == []


@pytest.mark.parametrize("ruled", [False, True])
@pytest.mark.parametrize("holds", [False, True])
def test_only_ops_that_hold_a_matrix_are_recorded(
    monkeypatch: pytest.MonkeyPatch, holds: bool, ruled: bool
) -> None:
    s = wb.scalar("s")
    inner = wb.OpFromGraph([s], [log_diagonal(s) if holds else np.sin(s)])
    rules = {"vjp": lambda node, g: g} if ruled else {}
    graph = wb.OpFromGraph([s], [inner(2 * s)], **rules)
    recorded = []
    record = matrices.record_inside

    def counted(node: Any) -> Any:
        recorded.append(node)
        return record(node)

    monkeypatch.setattr(matrices, "record_inside", counted)
    found = wb.diagnose(lambda x: graph(x), np.float64(4))
    assert bool(recorded) == holds
    assert len(found) == holds
    assert all("op_from_graph, inside" in one.title for one in found)


def test_a_derivative_that_raises_is_told_of_its_node() -> None:
    found = wb.diagnose(lambda A: np.linalg.slogdet(A)[1], np.ones((3, 3)))
    kinds = {(one.kind, one.node.op.name, one.sweep) for one in found}
    assert ("singular-matrix", "logabsdet", "forward") in kinds
    assert ("raised", "logabsdet", "backward") in kinds


def test_a_matrix_that_is_given_and_has_no_inverse_is_told() -> None:
    first, second = wb.diagnose(lambda A: np.sum(np.linalg.inv(A)), np.ones((3, 3)))
    assert (first.kind, second.kind) == ("singular-matrix", "raised")
    assert first.node.op.name == second.node.op.name == "inv"
