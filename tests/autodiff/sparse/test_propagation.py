"""Patterns from structure against differences of plain NumPy.

The truth is the union of what central differences find nonzero at random points; the
pattern must contain it, and be equal where the rules of all ops are exact.
"""

from __future__ import annotations

import secrets
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special

import workbench as wb
from workbench.autodiff.sparse import relations
from workbench.errors import UsageError

POINTS = 20


def find_jacobian(f: Callable[..., Any], x: np.ndarray) -> np.ndarray:
    """Differences of plain NumPy; the entries of the output by those of the input."""
    columns = []
    for i in range(x.size):
        step = np.zeros(x.size, x.dtype)
        step[i] = 1e-4
        step = step.reshape(x.shape)
        change = np.asarray(f(x + step)) - np.asarray(f(x - step))
        columns.append(change.reshape(-1) / 2e-4)
    return np.stack(columns, axis=1) if columns else np.zeros((np.size(f(x)), 0))


def find_hessian(f: Callable[..., Any], x: np.ndarray) -> np.ndarray:
    """Mixed second differences of plain NumPy."""
    h, n = 1e-3, x.size
    steps = [h * row.reshape(x.shape) for row in np.eye(n)]
    made = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            a, b = steps[i], steps[j]
            total = f(x + a + b) - f(x + a - b) - f(x - a + b) + f(x - a - b)
            made[i, j] = total / (4 * h * h)
    return made


def draw_points(shape: tuple[int, ...], count: int = POINTS) -> list[np.ndarray]:
    seed = secrets.randbits(32)
    print("seed", seed)
    rng = np.random.default_rng(seed)
    return [rng.uniform(0.3, 1.7, shape) for _ in range(count)]


def union(parts: list[np.ndarray], tolerance: float) -> np.ndarray:
    return np.max([np.abs(p) for p in parts], axis=0) > tolerance


A = np.array([[1.0, 0, 2, 0], [0, 0, 3, 0], [0, 4, 0, 5]])
INDEX = np.array([3, 0, 0])

#: Programs whose ops are all exact: the pattern is equal to what differences find.
TIGHT: dict[str, tuple[Callable[..., Any], tuple[int, ...]]] = {
    "elementwise": (lambda x: np.sin(x) * x + 2, (4,)),
    "broadcast": (lambda x: x[:, None] * x[None], (3,)),
    "scalar": (lambda x: x * x[0], (3,)),
    "stencil": (lambda x: x[2:] - 2 * x[1:-1] + x[:-2] ** 2, (6,)),
    "periodic": (lambda x: np.roll(x, 1) * x, (5,)),
    "slices": (lambda x: x[::-2, 1:], (4, 3)),
    "index": (lambda x: x[INDEX] * 2, (4,)),
    "mask": (lambda x: x[np.array([True, False, True])], (3,)),
    "reshape": (lambda x: np.exp(x.reshape(2, 3).T), (6,)),
    "joined": (lambda x: np.concatenate([x[2:], x[:1], np.ones(2)]), (4,)),
    "stack": (lambda x: np.stack([x, x[::-1]], axis=1), (3,)),
    "pad": (lambda x: np.pad(x, (1, 2)), (3,)),
    "tile": (lambda x: np.tile(x, 2), (3,)),
    "repeat": (lambda x: np.repeat(x, 2), (3,)),
    "triangle": (lambda x: np.triu(x), (3, 3)),
    "sums": (lambda x: np.sum(x, axis=0), (2, 3)),
    "means": (lambda x: np.mean(x**2, axis=-1, keepdims=True), (2, 3)),
    "softmax": (lambda x: np.exp(x) / np.sum(np.exp(x), -1, keepdims=True), (2, 3)),
    "norms": (lambda x: np.linalg.norm(x, axis=1), (2, 3)),
    "products": (lambda x: np.prod(x, axis=1), (2, 3)),
    "cumsum": (lambda x: np.cumsum(x, axis=1), (2, 3)),
    "cumprod": (lambda x: np.cumprod(x), (4,)),
    "matmul": (lambda x: A @ x, (4,)),
    "matmul right": (lambda x: x @ A, (2, 3)),
    "matmul both": (lambda x: x @ x.T, (2, 3)),
    "einsum": (lambda x: np.einsum("ij,kj->ik", x, A), (2, 4)),
    "diagonal": (lambda x: np.einsum("ii->i", x), (3, 3)),
    "trace": (lambda x: np.trace(x), (3, 3)),
    "tensordot": (lambda x: np.tensordot(A, x, ([1], [0])), (4, 2)),
    "convolve": (lambda x: np.convolve(x, [1.0, 0.0, -1.0], "same"), (5,)),
    "convolve both": (lambda x: np.convolve(x, x[:2], "valid"), (5,)),
    "fft": (lambda x: np.abs(np.fft.fft(x)) ** 2, (5,)),
    "inverse": (lambda x: np.linalg.inv(x + 3 * np.eye(2)), (2, 2, 2)),
    "solve": (lambda x: np.linalg.solve(np.ones((3, 3)) + np.eye(3), x), (3, 2)),
    "where": (lambda x: np.where(x > 1, x, x[::-1]), (3,)),
    "maximum": (lambda x: np.maximum(x[1:], x[:-1]), (5,)),
    "max": (lambda x: np.max(x, axis=1), (2, 3)),
    "set": (lambda x: wb.at(np.zeros(4))[INDEX[:2]].set(x), (2,)),
    "set over": (lambda x: wb.at(x)[1:3].set(x[0]), (4,)),
    "add": (lambda x: wb.at(x)[INDEX].add(x[:3]), (4,)),
    "loop": (
        lambda x: wb.scan(lambda r, c: c * r, x[1:], initial=x[0]),
        (5,),
    ),
    "checkpoint": (lambda x: wb.checkpoint(lambda y: y[1:] * y[:-1])(x), (4,)),
    "vmap": (lambda x: wb.vmap(lambda r: r * r[0])(x), (2, 3)),
}  # fmt: skip


@pytest.mark.parametrize("name", TIGHT)
def test_tight(name: str) -> None:
    f, shape = TIGHT[name]
    points = draw_points(shape)
    pattern = wb.sparsity(f, points[0])
    truth = union([find_jacobian(f, x) for x in points], 1e-8)
    np.testing.assert_array_equal(pattern.toarray(), truth)
    assert not pattern.dense_ops


S = sp.csr_array(np.diag([1.0, 2, 3, 4]) + np.diag([5.0, 6, 7], 1))

#: Functions of one number whose Hessian's pattern is tight.
CURVED: dict[str, tuple[Callable[..., Any], int]] = {
    "linear": (lambda x: np.sum(3 * x - x[0]), 4),
    "squares": (lambda x: np.sum(x**2), 4),
    "chain": (lambda x: np.sum(np.exp(x[1:] - x[:-1] ** 2)), 5),
    "rosenbrock": (lambda x: np.sum((x[1:] - x[:-1] ** 2) ** 2 + (1 - x[1:]) ** 2), 5),
    "bilinear": (lambda x: np.sum(x[1:] * x[:-1]), 5),
    "quotient": (lambda x: np.sum(x[1:] / x[:-1]), 5),
    "quadratic form": (lambda x: x @ (S @ x), 4),
    "matmul": (lambda x: np.sum((A @ x) ** 3), 4),
    "product of matrices": (
        lambda x: np.sum(x.reshape(2, 2) @ x.reshape(2, 2).T), 4,
    ),
    "only some": (lambda x: np.sum((x * x[::-1])[:1]), 4),
    "arrow": (lambda x: np.sum(x[0] * x[1:]) + np.sum(x**3), 5),
    "logsumexp": (lambda x: wb.logsumexp(x[:3]), 5),
    "square of a maximum": (lambda x: np.sum(np.maximum(x[1:], x[:-1]) ** 2), 4),
    "loop": (
        lambda x: wb.scan(lambda r, c: r * r + c, x[1:], initial=x[0], last=True), 5,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CURVED)
def test_hessian(name: str) -> None:
    f, n = CURVED[name]
    points = draw_points((n,), 5)
    pattern = wb.sparsity(f, points[0], order=2)
    truth = union([find_hessian(f, x) for x in points], 1e-5)
    assert not np.any(truth & ~pattern.toarray())
    if name != "square of a maximum":  # the smaller one never meets the larger
        np.testing.assert_array_equal(pattern.toarray(), truth)


def test_piecewise_linear_ops_do_not_curve() -> None:
    def f(x: Any) -> Any:
        return np.sum(np.maximum(x[1:], x[:-1]) + np.abs(x[1:] - 1)) + np.max(x)

    assert wb.sparsity(f, np.ones(4), order=2).nnz == 0


COMPLEX: dict[str, Callable[..., Any]] = {
    "absolute": lambda z: np.sum(np.abs(z)),
    "sign": lambda z: np.sum(np.real(np.sign(z))),
    "transform": lambda z: np.sum(np.abs(np.fft.fft(z))),
    "norm": lambda z: np.linalg.norm(z, 1),
}


@pytest.mark.parametrize("name", COMPLEX)
def test_absolute_values_of_complex_numbers_curve(name: str) -> None:
    def f(x: Any) -> Any:
        return COMPLEX[name](x[0::2] + 1j * x[1::2])

    x = np.arange(1.0, 9) ** 0.7
    dense = wb.hessian(f)(x)
    assert np.abs(dense).max() > 0.01
    np.testing.assert_allclose(
        wb.hessian(f, sparse=True)(x).toarray(), dense, atol=1e-12
    )


def test_local_patterns() -> None:
    x = np.array([1.0, 3.0, 2.0])
    f = lambda x: np.maximum(x[1:], x[:-1]) * np.where(x[:-1] > 2, x[1:], 0)  # noqa: E731
    whole, here = wb.sparsity(f, x), wb.sparsity(f, x, local=True)
    truth = find_jacobian(f, x) != 0
    assert whole.contains(here)
    np.testing.assert_array_equal(here.toarray(), truth)


LOCAL_CURVED: dict[str, tuple[Callable[..., Any], list[list[int]]]] = {
    "square": (lambda x: np.sum(x**2), [[1, 0], [0, 1]]),
    "product": (lambda x: x[0] * x[1], [[0, 1], [1, 0]]),
    "square of a product": (lambda x: (x[0] * (x[1] + 1)) ** 2, [[1, 1], [1, 1]]),
    "cosine": (lambda x: np.sum(np.cos(x)), [[1, 0], [0, 1]]),
    "choice": (lambda x: np.sum(np.where(x < 1, x, 0) ** 2), [[1, 0], [0, 1]]),
    "choice not taken": (lambda x: np.sum(np.where(x > 1, x, 0) ** 2), [[0] * 2] * 2),
    "maximum": (lambda x: np.max(x + np.array([0, 1])) ** 2, [[0, 0], [0, 1]]),
    "factor": (lambda x: np.sum((x * (x > 1)) ** 2), [[0, 0], [0, 0]]),
}


@pytest.mark.parametrize("name", LOCAL_CURVED)
def test_local_second_derivatives_where_first_ones_are_zero(name: str) -> None:
    f, expected = LOCAL_CURVED[name]
    pattern = wb.sparsity(f, np.zeros(2), order=2, local=True)
    np.testing.assert_array_equal(pattern.toarray(), np.array(expected, bool))


@pytest.mark.parametrize("argnums", [2, -3, (0, 2), (0, 0), "x", ()])
def test_shapes_alone_take_argnums_as_arrays_do(argnums: Any) -> None:
    messages = []
    for x in (np.ones(2), wb.Spec((2,), float)):
        with pytest.raises(ValueError, match="argnums") as caught:
            wb.sparsity(lambda a, b: a * b, x, x, argnums=argnums)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]


def test_dense_ops_are_named() -> None:
    pattern = wb.sparsity(lambda x: np.sort(x), np.ones(3))
    (op,) = pattern.dense_ops
    assert op.name == "getitem"
    assert "varies" in pattern.report()
    assert "test_propagation.py" in pattern.report()
    assert pattern.nnz == 9


def test_functions_and_expressions() -> None:
    x, y = wb.vector("x", shape=(3,)), wb.scalar("y")
    assert wb.sparsity(x * y, x, y).shape == (3, 4)
    assert wb.sparsity([x[1:], y], x).nnz == 2
    spec = wb.Spec((3,), float)
    two = wb.sparsity(lambda a, b: {"s": a * b, "t": a}, spec, spec, argnums=(0, 1))
    assert two.shape == (6, 6)
    assert two.nnz == 9
    assert wb.sparsity(lambda a, b: a * b, spec, spec, argnums=1, order=2).nnz == 0
    with pytest.raises(ValueError, match="order=3"):
        wb.sparsity(np.sin, x, order=3)
    with pytest.raises(ValueError, match="wrt is missing"):
        wb.sparsity(x * y)
    unknown = wb.vector("n")
    with pytest.raises(TypeError, match="known only when"):
        wb.sparsity(unknown * 2, unknown)


def test_what_a_program_decides_by_values_is_a_part_of_it() -> None:
    x = np.array([3.0, 1.0, 2.0])
    assert wb.sparsity(np.median, x).nnz == 3
    jacobian = wb.jacobian(lambda x: np.median(x) * x, sparse=True)
    jacobian(x)
    for other in (x[::-1].copy(), np.roll(x, 1)):  # another entry is in the middle
        np.testing.assert_allclose(
            jacobian(other).toarray(), wb.jacobian(lambda x: np.median(x) * x)(other)
        )
    branch = wb.sparsity(lambda x: x if x[0] > 0 else x[::-1], x)
    assert branch.nnz == 3
    assert "decides something by them" in branch.report()
    with pytest.raises(ValueError, match=r"Give arrays, not wb\.Spec"):
        wb.sparsity(np.sin, wb.Spec((3,), float), local=True)


LOCAL: dict[str, Callable[..., Any]] = {
    "sort": lambda x: np.sort(x) * 2,
    "max": lambda x: np.max(x.reshape(2, 2), axis=1),
    "min of all": lambda x: np.min(x),
    "median": lambda x: np.median(x[:3]),
    "abs": lambda x: np.abs(x),
    "clip": lambda x: np.clip(x, 0, 2.5),
    "product": lambda x: x * (x > 1),
}


@pytest.mark.parametrize("name", LOCAL)
def test_local_patterns_are_tight(name: str) -> None:
    x = np.array([3.0, 1.5, 2.0, -1.0])
    pattern = wb.sparsity(LOCAL[name], x, local=True)
    np.testing.assert_array_equal(
        pattern.toarray(), np.atleast_2d(find_jacobian(LOCAL[name], x)) != 0
    )


def test_constants_that_make_a_slope_zero() -> None:
    exponents, x = np.array([[3.0], [0.0]]), np.array([0.5, 2.0])
    powers = lambda x: (x**exponents).T  # noqa: E731
    for f in (powers, lambda x: powers(np.flip(x)), lambda x: np.vander(x, 2)):
        pattern = wb.sparsity(f, x)
        np.testing.assert_array_equal(pattern.toarray(), find_jacobian(f, x) != 0)
        assert pattern.nnz == 2
    degrees = lambda n: special.eval_chebyt(np.array([0, 2]), n)  # noqa: E731
    assert wb.sparsity(degrees, x).toarray().tolist() == [[False, False], [False, True]]
    both = wb.sparsity(lambda x, n: x**n, x, np.zeros(2), argnums=(0, 1))
    assert both.nnz == 4  # an exponent that varies is no constant
    # A slope that is 0 at some points alone is a place: no value of x is looked at.
    assert wb.sparsity(lambda x: np.maximum(x, 9.0) + x**2, 0 * x).nnz == 2


def test_a_mask_that_decides_a_shape_is_known_by_its_value() -> None:
    x = np.array([1.0, -2.0, 3.0])
    pattern = wb.sparsity(lambda x: np.log(x[x > 0]), x)
    assert pattern.toarray().tolist() == [[True, False, False], [False, False, True]]
    assert pattern.notes


def test_what_has_no_derivative_is_no_constant() -> None:
    """Its value at the first point, a 0, does not remove a place."""
    x = np.array([0.5, 1.5])
    with_values = wb.sparsity(lambda x: x * np.floor(x) if x[0] < 9 else x, x)
    assert with_values.nnz == 2
    assert with_values.notes
    assert wb.sparsity(lambda x: x * wb.stop_gradient(x), 0 * x).nnz == 2


# Too large to be written out


LARGE: dict[str, tuple[Callable[..., Any], int]] = {
    "mean": (lambda x: x - np.mean(x), 1),
    "sum of squares": (lambda x: x * np.sum(x**2), 1),
    "cumsum": (np.cumsum, 1),
    "convolution": (lambda x: np.convolve(x, np.ones(1000), "same"), 1),
    "fft": (lambda x: np.abs(np.fft.fft(x)), 1),
    "square of a sum": (lambda x: np.sum(x) ** 2, 2),
    "cumsum, Hessian": (lambda x: np.sum(np.cumsum(x) ** 2), 2),
    "two full rows": (lambda x: np.sum(x) * np.sum(x[1:] * x[:-1]), 2),
}


@pytest.mark.parametrize("name", LARGE)
def test_a_nearly_full_pattern_is_refused_in_words(name: str) -> None:
    f, order = LARGE[name]
    tracemalloc.start()
    try:
        with pytest.raises(UsageError, match=r"too large to be written out.*wb\.hvp"):
            wb.sparsity(f, wb.Spec((1_000_000,), float), order=order)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < 2**31


@settings(deadline=None, max_examples=50)
@given(
    shape=st.tuples(*[st.integers(0, 12)] * 3), seed=st.integers(0, 2**32 - 1),
    at_once=st.integers(1, 40),
)  # fmt: skip
def test_a_product_in_slices_is_the_product(
    shape: tuple[int, int, int], seed: int, at_once: int
) -> None:
    rng = np.random.default_rng(seed)
    left, right = (sp.csr_array(rng.random(s) < 0.3) for s in (shape[:2], shape[1:]))
    expected = (left @ right).toarray()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(relations, "MOST_AT_ONCE", at_once)
        np.testing.assert_array_equal(
            relations.multiply(left, right).toarray(), expected
        )
        patch.setattr(relations, "MOST_PLACES", at_once)
        if expected.sum() > at_once:
            with pytest.raises(UsageError, match="too large to be written out"):
                relations.multiply(left, right)


def test_sorting_stays_within_its_lines() -> None:
    found = wb.sparsity(lambda x: np.sort(x, axis=0), np.ones((4, 3)))
    same_column = np.tile(np.eye(3, dtype=bool), (4, 4))
    np.testing.assert_array_equal(found.toarray(), same_column)


@pytest.mark.parametrize(
    "f",
    [
        np.abs, np.max, lambda x: np.maximum(x, x[::-1]), lambda x: np.clip(x, 0, 1),
        lambda x: np.remainder(x, 0.7), lambda x: np.fmod(x, x[::-1]),
        lambda x: np.copysign(x, x[::-1]), lambda x: wb.at(x)[0].max(x[1]),
    ],
)  # fmt: skip
def test_what_only_decides_between_pieces_does_not_curve(
    f: Callable[..., Any],
) -> None:
    x = np.array([0.3, -1.2, 2.5])
    assert wb.sparsity(lambda x: np.sum(f(x)), x, order=2).nnz == 0
    assert wb.sparsity(lambda x: np.sum(f(x) ** 2), x, order=2).nnz >= 3


@pytest.mark.parametrize("uplo", ["L", "U"])
def test_an_eigenvalue_reads_one_triangle(uplo: Any) -> None:
    found = wb.sparsity(lambda x: np.linalg.eigvalsh(x, uplo), np.eye(3)).toarray()
    triangle = (np.tril if uplo == "L" else np.triu)(np.ones((3, 3), bool))
    np.testing.assert_array_equal(found, np.tile(triangle.ravel(), (3, 1)))


def test_a_banded_solution_reads_its_band() -> None:
    band = np.array([[0.0, 1.0, 1.0], [2.0, 2.0, 2.0]])  # one diagonal above the main
    found = wb.sparsity(
        lambda band, b: wb.scipy.linalg.solve_banded((0, 1), band, b),
        band, np.ones(3), argnums=(0, 1),
    ).toarray()  # fmt: skip
    later = np.triu(np.ones((3, 3), bool))  # of an upper triangle the inverse is one
    np.testing.assert_array_equal(found[:, 3:6], later)
    np.testing.assert_array_equal(found[:, 6:], later)
    above = np.array([[0, 1, 1], [0, 0, 1], [0, 0, 0]], bool)
    np.testing.assert_array_equal(found[:, :3], above)


def test_a_transform_cut_off_does_not_read_the_rest() -> None:
    found = wb.sparsity(lambda x: np.fft.ifft2(x, (3, 2)), np.ones((2, 3))).toarray()
    np.testing.assert_array_equal(found, np.tile([True, True, False], (6, 2)))
