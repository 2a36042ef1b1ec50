"""Jacobians and Hessians: against analysis, the complex step, and each other."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.autodiff import linear_map
from workbench.autodiff.jacobian import hessian, jacobian
from workbench.autodiff.linear_map import LinearMap
from workbench.autodiff.products import hvp
from workbench.autodiff.vmap import vmap
from workbench.errors import (
    DtypeError,
    NonScalarOutputError,
    ShapeError,
    UsageError,
)

MODES = ("auto", "fwd", "rev")
A = np.array([[0.3, -1.2, 0.5], [2.0, 0.1, -0.7]])


def complex_step(f: Callable[[Any], Any], x: np.ndarray) -> np.ndarray:
    """The Jacobian of an analytic function, exact to rounding."""
    columns = []
    for i in range(x.size):
        moved = x.astype(complex)
        moved.flat[i] += 1e-30j
        columns.append(np.asarray(f(moved)).imag / 1e-30)
    J = np.stack(columns, axis=-1)
    return J.reshape(J.shape[:-1] + x.shape)


#: Analytic functions of a vector of 3, for the complex step.
ANALYTIC: dict[str, Callable[[Any], Any]] = {
    "wide": lambda x: A @ np.sin(x),
    "tall": lambda x: np.outer(x, np.exp(x * A[0])),
    "scalar": lambda x: np.sum(x**3) * np.tanh(x[0]),
    "square": lambda x: np.cos(x) * np.sum(x),
    "layers": lambda x: np.tanh(A.T @ np.tanh(A @ np.tanh(x))),
    "quotient": lambda x: x / (1 + x @ x),
    "matrix": lambda x: np.reshape(np.einsum("i,j->ij", x, x)[:, :2], (2, 3)),
    "pieces": lambda x: np.concatenate([x[1:] * x[:-1], x[:1] ** 2]),
    "log-sum-exp": lambda x: np.log(np.sum(np.exp(x * x), keepdims=True)),
    "diagonal": lambda x: np.exp(-x * x) / 2,
    "gathered": lambda x: np.array([x[0] ** 2, x[1] * x[2]]),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ANALYTIC)
def test_jacobian_is_that_of_the_complex_step(
    name: str, mode: Any, rng: np.random.Generator
) -> None:
    f, x = ANALYTIC[name], rng.standard_normal(3)
    J = jacobian(f, mode=mode)(x)
    assert type(J) is np.ndarray
    np.testing.assert_allclose(J, complex_step(f, x), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("name", ANALYTIC)
def test_second_jacobians_in_all_four_ways(name: str, rng: np.random.Generator) -> None:
    """Against Cauchy's formula, twice."""
    f, x = ANALYTIC[name], rng.standard_normal(3)
    expected = cauchy(lambda z: cauchy(f, z), x).real
    for outer in ("fwd", "rev"):
        for inner in ("fwd", "rev"):
            made = jacobian(jacobian(f, mode=inner), mode=outer)(x)
            np.testing.assert_allclose(made, expected, rtol=1e-9, atol=1e-10)


def cauchy(f: Callable[[Any], Any], z: np.ndarray) -> np.ndarray:
    """The Jacobian of an analytic function by Cauchy's formula on a small circle."""
    count, radius = 16, 0.05
    turns = np.exp(2j * np.pi * np.arange(count) / count)
    columns = []
    for i in range(z.size):
        total: Any = 0
        for turn in turns:
            moved = z.astype(complex)
            moved.flat[i] += radius * turn
            total = total + np.asarray(f(moved)) / (radius * turn)
        columns.append(total / count)
    J = np.stack(columns, axis=-1)
    return J.reshape(J.shape[:-1] + z.shape)


@pytest.mark.parametrize("mode", MODES)
def test_shapes_of_any_rank(mode: Any, rng: np.random.Generator) -> None:
    X, Y = rng.standard_normal((2, 3)), rng.standard_normal((3, 2, 2))
    J = jacobian(lambda X, Y: np.einsum("ij,jkl->ikl", X, Y), (0, 1), mode)(X, Y)
    assert [block.shape for block in J] == [(2, 2, 2, 2, 3), (2, 2, 2, 3, 2, 2)]
    eye = np.eye(2)
    np.testing.assert_allclose(J[0], np.einsum("ia,bkl->iklab", eye, Y), atol=1e-15)
    expected = np.einsum("ia,kb,lc->iklabc", X, eye, eye)
    np.testing.assert_allclose(J[1], expected, atol=1e-15)


@pytest.mark.parametrize("mode", MODES)
def test_scalars(mode: Any) -> None:
    J = jacobian(lambda x: x**2, mode=mode)(3.0)
    assert np.shape(J) == ()
    assert J == 6.0
    tall = jacobian(lambda x: x * np.arange(3.0), mode=mode)(2.0)
    np.testing.assert_array_equal(tall, np.arange(3.0))


@pytest.mark.parametrize("mode", MODES)
def test_nests(mode: Any, rng: np.random.Generator) -> None:
    p = {"w": rng.standard_normal(3), "b": 0.5}
    x = rng.standard_normal(2)

    def f(p: Any, x: Any) -> Any:
        return {"y": np.outer(x, p["w"]) + p["b"], "n": [np.sum(p["w"] ** 2)]}

    J = jacobian(f, mode=mode)(p, x)
    assert set(J) == {"y", "n"}
    np.testing.assert_allclose(J["y"]["w"], np.einsum("i,jk->ijk", x, np.eye(3)))
    np.testing.assert_allclose(J["y"]["b"], np.ones((2, 3)))
    np.testing.assert_allclose(J["n"][0]["w"], 2 * p["w"])
    np.testing.assert_allclose(J["n"][0]["b"], 0)


@pytest.mark.parametrize("mode", MODES)
def test_what_does_not_depend_is_zero(mode: Any) -> None:
    x = np.ones(2, np.float32)
    J = jacobian(lambda x, y: (y * 2, np.ones(3), np.sign(x)), mode=mode)(x, x)
    assert [block.shape for block in J] == [(2, 2), (3, 2), (2, 2)]
    assert all(not block.any() for block in J)
    assert all(block.dtype == np.float32 for block in J)


def test_auto_takes_the_mode_with_fewer_seeds() -> None:
    """Seen at the op: only forward mode calls `push`, only reverse mode `pull`."""
    from workbench.core.op import declare
    from workbench.core.tensor import apply

    op, called = declare("probe_for_jacobian_test"), []
    op.compute = lambda x: 2.0 * x

    def pull(mask: Any, g: Any, y: Any, inputs: Any, params: Any) -> Any:
        called.append("rev")
        return (2 * g,)

    def push(tangents: Any, y: Any, inputs: Any, params: Any) -> Any:
        called.append("fwd")
        return 2 * tangents[0]

    op.pull, op.push = pull, push
    jacobian(lambda x: np.concatenate([apply(op, (x,)), x]))(np.ones(3))
    jacobian(lambda x: apply(op, (x,))[:2])(np.ones(3))
    assert called == ["fwd", "rev"]


@pytest.mark.parametrize("mode", ["fwd", "rev"])
def test_the_graph_is_built_once_however_large_the_matrix(mode: Any) -> None:
    """The rules run a fixed number of times: no loop over the unit vectors."""
    from workbench.core.op import declare
    from workbench.core.tensor import apply

    def count(n: int) -> int:
        op, called = declare("counted_for_jacobian_test"), []
        op.compute = np.sin
        op.elementwise = True

        def pull(mask: Any, g: Any, y: Any, inputs: Any, params: Any) -> Any:
            called.append(1)
            return (g * np.cos(inputs[0]),)

        op.pull = pull
        jacobian(lambda x: apply(op, (x,)) * 2, mode=mode)(np.ones(n))
        return len(called)

    assert count(2) == count(50) > 0


def test_the_first_product_is_never_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unit vectors stay diagonal: one matrix product for two layers, not two."""
    from workbench.core.op import declare

    op = declare("matmul")
    batch, products = op.batch, []
    assert batch is not None

    def counted(inputs: Any, batched: Any, params: Any) -> Any:
        products.append([np.shape(x) for x in inputs])
        return batch(inputs, batched, params)

    monkeypatch.setattr(op, "batch", counted)
    rng = np.random.default_rng(0)
    V, W, x = rng.standard_normal((3, 6, 6))
    expected = (
        (1 - np.tanh(V @ np.tanh(W @ x[0])) ** 2)[:, None]
        * V
        @ ((1 - np.tanh(W @ x[0]) ** 2)[:, None] * W)
    )
    for mode in ("fwd", "rev"):
        products.clear()
        J = jacobian(lambda x: np.tanh(V @ np.tanh(W @ x)), mode=mode)(x[0])
        np.testing.assert_allclose(J, expected, rtol=1e-12)
        assert products == [[(6, 6), (6, 6)]]


@pytest.mark.parametrize("mode", ["fwd", "rev"])
def test_large_ones_run_in_chunks(
    mode: Any, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    x = rng.standard_normal(7)
    B = rng.standard_normal((7, 7))

    def f(x: Any) -> Any:
        return {"a": np.tanh(B @ x) * x, "b": B @ (x * x)}

    whole = jacobian(f, mode=mode)(x)
    sizes = []
    run = linear_map.Sweep.run

    def watched(sweep: Any, vectors: Any, size: int) -> Any:
        sizes.append(size)
        return run(sweep, vectors, size)

    monkeypatch.setattr(linear_map, "BUDGET", 1000)
    monkeypatch.setattr(linear_map.Sweep, "run", watched)
    pieces = jacobian(f, mode=mode)(x)
    assert max(sizes) < 7
    np.testing.assert_array_equal(pieces["a"], whole["a"])
    np.testing.assert_array_equal(pieces["b"], whole["b"])


def test_zero_by_structure_beside_an_infinite_derivative() -> None:
    x = np.array([0.0, 4.0])
    with np.errstate(divide="ignore"):
        for mode in MODES:
            J = jacobian(np.sqrt, mode=mode)(x)
            np.testing.assert_array_equal(J, [[np.inf, 0], [0, 0.25]])


@pytest.mark.parametrize("mode", ["fwd", "rev"])
def test_zero_by_structure_beside_what_is_dense(mode: Any) -> None:
    """An operand is the argument, another one is the argument turned around."""
    x = np.array([0.0, 0.7, 0.5, 2.0])
    with np.errstate(all="ignore"):
        J = jacobian(lambda x: np.sqrt(x) + x[::-1] ** 2, mode=mode)(x)
    slopes = np.array([np.inf, *(0.5 / np.sqrt(x[1:]))])
    np.testing.assert_allclose(J, np.diag(slopes) + np.diag(2 * x[::-1])[:, ::-1])


@pytest.mark.parametrize("mode", ["fwd", "rev"])
def test_a_branch_not_taken_stays_out_of_a_matrix(mode: Any) -> None:
    x = np.array([-1.0, 0.0, 4.0])
    f = lambda x: np.cumsum(np.where(x > 0, np.sqrt(np.abs(x)), 3 * x))  # noqa: E731
    expected = np.tril(np.broadcast_to([3.0, 3.0, 0.25], (3, 3)))
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(jacobian(f, mode=mode)(x), expected)


@pytest.mark.parametrize("mode", ["fwd", "rev"])
def test_a_sweep_holds_few_values_at_a_time(
    mode: Any, rng: np.random.Generator
) -> None:
    B, x = rng.standard_normal((200, 200)) / 20, rng.standard_normal(200)

    def chain(x: Any) -> Any:
        for _ in range(20):
            x = np.tanh(B @ x)
        return x

    J = jacobian(chain, mode=mode)
    J(x)
    gc.collect()
    tracemalloc.start()
    try:
        J(x)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 5 * B.nbytes


def test_a_rule_is_called_once_for_all_vectors(rng: np.random.Generator) -> None:
    shapes = []

    @wb.custom_gradient
    def double(x: Any) -> Any:
        def pull(g: Any) -> Any:
            shapes.append(g.shape)
            return 2 * g

        return 2 * x, pull

    B, x = rng.standard_normal((5, 4)), rng.standard_normal(4)
    J = jacobian(lambda x: B @ double(np.tanh(x)), mode="rev")(x)
    np.testing.assert_allclose(J, 2 * B * (1 - np.tanh(x) ** 2), rtol=1e-13)
    assert shapes == [(4,)]


@pytest.mark.parametrize("budget", [2**26, 1])
@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_products_with_the_matrix_of_real_and_complex_outputs(
    mode: Any, budget: int, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    """All at once, and a vector after the other; what is real has no part in i."""
    monkeypatch.setattr(linear_map, "BUDGET", budget)
    graph = wb.trace(lambda x: ((1 + 2j) * x, 3 * x))(np.ones(2))
    matrix = np.concatenate([(1 + 2j) * np.eye(2), 3 * np.eye(2)])
    vectors = rng.standard_normal((3, 2 if mode == "forward" else 4))
    expected = vectors @ (matrix.T if mode == "forward" else matrix)
    found = LinearMap(graph.outputs, graph.leaves).multiply(mode, vectors)
    np.testing.assert_allclose(found, expected, rtol=1e-14)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex128])
@pytest.mark.parametrize("mode", MODES)
def test_dtypes_stay(dtype: Any, mode: Any) -> None:
    x = np.array([0.5, 1.5, -1.0], dtype)
    J = jacobian(lambda x: np.sin(2.0 * x) @ np.ones(3, dtype) / 3, mode=mode)(x)
    assert J.dtype == dtype
    H = hessian(lambda x: np.sum(np.cos(2.0 * np.real(x))))(x)
    assert H.dtype == dtype


@pytest.mark.parametrize("mode", MODES)
def test_complex_derivatives(mode: Any) -> None:
    z = np.array([0.3 + 0.4j, -1.0 + 0.1j])
    holomorphic = jacobian(lambda z: z**2 * np.sum(z), mode=mode)(z)
    expected = np.diag(2 * z * z.sum()) + (z**2)[:, None]
    np.testing.assert_allclose(holomorphic, expected, rtol=1e-13)
    # Real values of a complex argument: df/dx - i df/dy.
    real = jacobian(lambda z: np.real(z * np.conj(z)), mode=mode)(z)
    np.testing.assert_allclose(real, np.diag(2 * np.conj(z)), atol=1e-15)
    # Complex values of a real argument.
    x = np.array([0.5, 2.0])
    turned = jacobian(lambda x: np.exp(1j * x), mode=mode)(x)
    np.testing.assert_allclose(turned, np.diag(1j * np.exp(1j * x)), rtol=1e-13)


@pytest.mark.parametrize("mode", MODES)
def test_one_number(mode: Any, rng: np.random.Generator) -> None:
    x = rng.standard_normal((3, 2))
    f = lambda x: np.sum(np.tanh(x) @ np.ones(2))  # noqa: E731
    np.testing.assert_allclose(jacobian(f, mode=mode)(x), wb.grad(f)(x), rtol=1e-15)
    z = 0.5 + 2j
    parts = jacobian(lambda z: (z**2, np.real(z) * np.imag(z), 3.0, x), mode=mode)(z)
    assert [p.shape for p in parts] == [(), (), (), (3, 2)]
    np.testing.assert_allclose(parts[0], 2 * z)
    np.testing.assert_allclose(parts[1], 2 - 0.5j)
    assert not any(map(np.any, parts[2:]))
    turned = jacobian(lambda t: np.exp(1j * t), mode=mode)(0.3)
    np.testing.assert_allclose(turned, 1j * np.exp(0.3j), rtol=1e-15)


# Hessians


def rosenbrock(x: Any) -> Any:
    return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def rosenbrock_hessian(x: np.ndarray) -> np.ndarray:
    n = len(x)
    H = np.zeros((n, n))
    for i in range(n - 1):
        H[i, i] += 1200 * x[i] ** 2 - 400 * x[i + 1] + 2
        H[i + 1, i + 1] += 200
        H[i, i + 1] -= 400 * x[i]
        H[i + 1, i] -= 400 * x[i]
    return H


def test_hessian_against_analysis(rng: np.random.Generator) -> None:
    x = rng.standard_normal(6)
    H = hessian(rosenbrock)(x)
    np.testing.assert_allclose(H, rosenbrock_hessian(x), rtol=1e-12, atol=1e-11)


def test_forward_over_reverse_is_reverse_over_reverse(
    rng: np.random.Generator,
) -> None:
    x = rng.standard_normal(6)
    expected = rosenbrock_hessian(x)
    g = wb.grad(rosenbrock)
    for mode in ("fwd", "rev"):
        H = jacobian(g, mode=mode)(x)
        np.testing.assert_allclose(H, expected, rtol=1e-12, atol=1e-11)
    forward = jacobian(jacobian(rosenbrock, mode="fwd"), mode="fwd")(x)
    np.testing.assert_allclose(forward, expected, rtol=1e-12, atol=1e-11)
    mixed = jacobian(jacobian(rosenbrock, mode="fwd"), mode="rev")(x)
    np.testing.assert_allclose(mixed, expected, rtol=1e-12, atol=1e-11)


def test_hessian_of_a_matrix_and_cross_blocks(rng: np.random.Generator) -> None:
    X, y = rng.standard_normal((2, 3)), rng.standard_normal(3)
    H = hessian(lambda X, y: np.sum((X @ y) ** 2), (0, 1))(X, y)
    r, eye = X @ y, np.eye(2)
    xx = 2 * np.einsum("ij,k,l->ikjl", eye, y, y)
    xy = 2 * (np.einsum("i,kl->ikl", r, np.eye(3)) + np.einsum("k,il->ikl", y, X))
    np.testing.assert_allclose(H[0][0], xx, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(H[0][1], xy, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(H[1][0], np.moveaxis(xy, 2, 0), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(H[1][1], 2 * X.T @ X, rtol=1e-12, atol=1e-12)


def test_hessian_of_a_nest() -> None:
    H = hessian(lambda p: p["a"] ** 2 * np.sum(p["b"]))({"a": 3.0, "b": np.ones(2)})
    assert H["a"]["a"] == 4.0
    np.testing.assert_array_equal(H["a"]["b"], [6.0, 6.0])
    np.testing.assert_array_equal(H["b"]["a"], [6.0, 6.0])
    np.testing.assert_array_equal(H["b"]["b"], np.zeros((2, 2)))


def test_hvp_is_the_hessian_times_a_vector(rng: np.random.Generator) -> None:
    x, v = rng.standard_normal((2, 6))
    expected = rosenbrock_hessian(x) @ v
    np.testing.assert_allclose(hvp(rosenbrock, x, v), expected, rtol=1e-11)
    (single,) = hvp(rosenbrock, (x,), (v,))
    np.testing.assert_allclose(single, expected, rtol=1e-11)
    y, w = rng.standard_normal((2, 6))
    two = hvp(lambda x, y: rosenbrock(x) * np.sum(y * y), (x, y), (v, w))
    H = hessian(lambda x, y: rosenbrock(x) * np.sum(y * y), (0, 1))(x, y)
    for i in (0, 1):
        np.testing.assert_allclose(two[i], H[i][0] @ v + H[i][1] @ w, rtol=1e-10)


def test_second_derivatives_record_the_function_alone() -> None:
    """The gradient is recorded on its leaves: no leaf stands for another one."""
    seen: list[Any] = []

    def f(x: Any) -> Any:
        seen.append(x)
        return np.sum(x**3)

    x = np.array([1.0, 2.0])
    np.testing.assert_array_equal(hessian(f)(x), np.diag(6 * x))
    np.testing.assert_array_equal(hvp(f, x, np.ones(2)), 6 * x)
    assert [leaf.inputs for leaf in seen] == [(), ()]


def test_errors_of_hvp_name_it() -> None:
    x = np.ones(2)
    with pytest.raises(DtypeError, match=r"^hvp: x is of dtype int64"):
        hvp(lambda x: np.sum(x), np.arange(2), x)
    with pytest.raises(ShapeError, match=r"^hvp: the tangents are not nested as"):
        hvp(lambda x: np.sum(x), (x,), (x, x))
    with pytest.raises(NonScalarOutputError, match=r"^hvp needs one number"):
        hvp(lambda x: x, x, x)


@pytest.mark.parametrize(
    ("f", "kind", "text"),
    [
        (
            lambda x: x,
            NonScalarOutputError,
            r"needs one .* wb.jacobian\(wb.jacobian\(f\)\)",
        ),
        (
            lambda x: (x[0], x[1]),
            NonScalarOutputError,
            r"needs .* Return one of them\.$",
        ),
        (lambda x: None, NonScalarOutputError, r"needs one .* end with a `return`\?$"),
        (lambda x: 1j * x[0], DtypeError, r"the function returned .* the real part"),
    ],
)
def test_errors_of_hessian_name_it(f: Any, kind: type[Exception], text: str) -> None:
    """A user who wrote no grad is told of none, and of no way to a first derivative."""
    with pytest.raises(kind, match=rf"^hessian:? {text}"):
        hessian(f)(np.ones(2))


def test_everything_under_an_outer_derivative(rng: np.random.Generator) -> None:
    """The trace of a Hessian, differentiated; its gradient by analysis."""
    x = rng.standard_normal(4)

    def trace_of_hessian(x: Any) -> Any:
        return np.sum(hessian(lambda y: np.sum(np.sin(y) * y))(x) * np.eye(4))

    expected = -3 * np.sin(x) - x * np.cos(x)
    np.testing.assert_allclose(wb.grad(trace_of_hessian)(x), expected, rtol=1e-11)
    _, moved = wb.jvp(trace_of_hessian, (x,), (np.ones(4),))
    assert moved == pytest.approx(expected.sum())

    def speed(x: Any) -> Any:
        return np.sum(hvp(lambda y: np.sum(y**4), x, x))

    np.testing.assert_allclose(wb.grad(speed)(x), 36 * x**2, rtol=1e-11)


@pytest.mark.parametrize("outer", ["fwd", "rev"])
@pytest.mark.parametrize("inner", ["fwd", "rev"])
def test_jacobians_of_jacobians_with_matrices(outer: Any, inner: Any) -> None:
    """A closure over the outer variable, in every pair of modes."""
    x = np.array([0.4, -1.1])

    def f(x: Any) -> Any:
        return jacobian(lambda y: y**2 * np.sum(x * y), mode=inner)(np.sin(x))

    def by_hand(x: Any) -> Any:
        s = np.sin(x)
        return np.diag(2 * s) * np.sum(x * s) + np.outer(s**2, x)

    made = jacobian(f, mode=outer)(x)
    np.testing.assert_allclose(made, complex_step(by_hand, x), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("mode", MODES)
def test_where_after_a_matrix_that_is_not_finite(mode: Any) -> None:
    """A masked cotangent of 0 meets an infinite weight in a product, and wins."""
    V = np.array([[1.0, 2.0], [np.inf, 3.0]])

    def f(x: Any) -> Any:
        return np.where(np.array([True, False]), V @ x, 0.0)

    with np.errstate(invalid="ignore"):
        J = jacobian(f, mode=mode)(np.array([1.0, 2.0]))
        g = wb.grad(lambda x: np.sum(f(x)))(np.array([1.0, 2.0]))
    np.testing.assert_array_equal(J, [[1.0, 2.0], [0.0, 0.0]])
    np.testing.assert_array_equal(g, [1.0, 2.0])


def test_where_in_matrices_at_orders_one_to_three() -> None:
    """The branch not taken is infinite, and poisons nothing."""

    def f(x: Any) -> Any:
        return np.sum(np.where(x > 0, np.sqrt(x) * np.log(x), 0.0))

    x = np.array([0.0, 4.0, -1.0])
    with np.errstate(all="ignore"):
        first = jacobian(f)(x)
        second = hessian(f)(x)
        third = jacobian(hessian(f))(x)
    u = 4.0
    d1 = (np.log(u) + 2) / (2 * u**0.5)
    d2 = -np.log(u) / (4 * u**1.5)
    d3 = (3 * np.log(u) - 2) / (8 * u**2.5)
    np.testing.assert_allclose(first, [0, d1, 0], rtol=1e-13)
    np.testing.assert_allclose(second, np.diag([0, d2, 0]), rtol=1e-13)
    expected = np.zeros((3, 3, 3))
    expected[1, 1, 1] = d3
    np.testing.assert_allclose(third, expected, rtol=1e-12)


def test_batched_hessians(rng: np.random.Generator) -> None:
    X = rng.standard_normal((4, 5))
    H = vmap(hessian(rosenbrock))(X)
    np.testing.assert_allclose(H, [rosenbrock_hessian(x) for x in X], rtol=1e-11)
    J = jacobian(lambda X: vmap(rosenbrock)(X))(X)
    g = wb.grad(rosenbrock)
    for i in range(4):
        np.testing.assert_allclose(J[i, i], g(X[i]), rtol=1e-12)
        assert not J[i, np.arange(4) != i].any()


def test_data_that_no_open_trace_reaches_stays_plain() -> None:
    seen = []

    def f(x: Any) -> Any:
        seen.append(jacobian(np.sin)(np.ones(2)))
        seen.append(hessian(rosenbrock)(np.ones(3)))
        seen.append(vmap(np.exp)(np.ones(2)))
        return np.sum(x)

    wb.grad(f)(np.ones(2))
    assert all(type(y) is np.ndarray for y in seen)


# Overrides


def test_an_override_reaches_jacobian_and_hessian() -> None:
    x = np.array([0.5, -2.0])
    half = wb.override("sin", "0.5 * d")
    for mode in MODES:
        J = jacobian(np.sin, mode=mode, overrides=[half])(x)
        np.testing.assert_allclose(J, np.diag(0.5 * np.cos(x)), rtol=1e-14)
    H = hessian(lambda x: np.sum(np.sin(x) * x), overrides=[half])(x)
    # d/dx of (0.5 cos(x) x + sin(x)), where sin's own slope is halved again.
    expected = np.diag(-0.5 * np.sin(x) * x + 0.5 * np.cos(x) + 0.5 * np.cos(x))
    np.testing.assert_allclose(H, expected, rtol=1e-13)


def test_auto_goes_in_reverse_where_a_rule_has_no_forward_mode() -> None:
    from workbench.errors import OverrideError

    clip = wb.override("exp", "clip(d, -1, 1)")
    x = np.array([0.5, -2.0])

    def tall(x: Any) -> Any:
        y = np.exp(x)
        return np.concatenate([y, 2 * y])

    J = jacobian(tall, overrides=[clip])(x)
    expected = np.vstack([np.diag([1.0, np.exp(-2)]), np.diag([1.0, 2 * np.exp(-2)])])
    np.testing.assert_allclose(J, expected)
    with pytest.raises(OverrideError, match="forward mode"):
        jacobian(tall, mode="fwd", overrides=[clip])(x)


def test_a_hessian_goes_reverse_over_reverse_there() -> None:
    clip = wb.override("exp", "clip(d, -1, 1)")
    x = np.array([0.5, -2.0])
    H = hessian(lambda x: np.sum(np.exp(x)), overrides=[clip])(x)
    # Clipped at 0.5, so constant; untouched at -2.
    np.testing.assert_allclose(H, np.diag([0.0, np.exp(-2)]))


# Bad input


def test_an_unknown_mode() -> None:
    with pytest.raises(UsageError, match="'fwd', 'rev', or 'auto'"):
        jacobian(np.sin, mode="sideways")  # type: ignore[arg-type]


def test_an_integer_argument() -> None:
    with pytest.raises(DtypeError, match=r"x\.astype\(float\)"):
        jacobian(lambda x: x * 2.0)(np.arange(3))


def test_a_hessian_needs_one_number() -> None:
    with pytest.raises(NonScalarOutputError, match=r"wb\.jacobian"):
        hessian(np.sin)(np.ones(3))


@pytest.mark.parametrize("mode", ["rev", "fwd"])
def test_a_rule_that_multiplies_the_cotangent_by_itself(mode: str) -> None:
    """Such a rule is not linear; each vector is one, and no other's."""

    def bend(g: Any) -> Any:
        return g + (g @ (1 - g))

    if mode == "rev":
        f = wb.custom_vjp(lambda x: x * 1.0, lambda node, g: bend(g))
    else:
        f = wb.custom_jvp(lambda x: x * 1.0)
        f.defjvp(lambda primals, tangents: (primals[0], bend(tangents[0])))
    x = np.array([0.3, 1.2, -0.5])
    np.testing.assert_array_equal(wb.jacobian(f, mode=mode)(x), np.eye(3))
