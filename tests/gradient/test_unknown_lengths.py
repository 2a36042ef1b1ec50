"""The toolbox on symbols whose lengths are known only when the program runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.gradient.test_matrices import by_complex_step, second
from workbench.core.op import OPS
from workbench.core.tensor import Tensor, apply
from workbench.errors import DisconnectedInputError
from workbench.gradient import (
    Lop,
    Rop,
    disconnected_grad,
    grad,
    grad_clip,
    grad_scale,
    grad_undefined,
    hessian,
    hessian_vector_product,
    jacobian,
    subgraph_grad,
)
from workbench.ops.define import op, shape_of_first


def test_gradients_and_products(rng: np.random.Generator) -> None:
    a, x, u, t = wb.matrix("a"), wb.vector("x"), wb.vector("u"), wb.vector("t")
    y = np.tanh(a @ x)
    f = wb.function([a, x, u, t], [*grad(u @ y, [a, x]), Lop(y, x, u), Rop(y, x, t)])
    for rows, columns in ((2, 3), (4, 1), (1, 5)):
        given = [
            rng.standard_normal(s) for s in ((rows, columns), columns, rows, columns)
        ]
        slope = 1 - np.tanh(given[0] @ given[1]) ** 2
        by_a, by_x, left, right = f(*given)
        np.testing.assert_allclose(by_a, np.outer(given[2] * slope, given[1]))
        np.testing.assert_allclose(by_x, (given[2] * slope) @ given[0])
        np.testing.assert_allclose(left, by_x)
        np.testing.assert_allclose(right, slope * (given[0] @ given[3]))


def test_a_length_alone_is_disconnected() -> None:
    x, y = wb.vector("x"), wb.vector("y")
    for cost in (
        np.sum(x) * y.shape[0],
        np.sum(np.reshape(x, (y.shape[0], -1))),
        np.sum(x) / np.ones_like(y).shape[0] + np.sum(disconnected_grad(y)),
    ):
        with pytest.raises(DisconnectedInputError, match="'y'"):
            grad(cost, y)
    zero = grad(np.sum(x), y, disconnected_inputs="ignore")
    assert zero.eval(y=np.ones(4)).tolist() == [0, 0, 0, 0]


def test_what_shapes_gradients() -> None:
    x, k = wb.vector("x"), wb.vector("k")
    f = wb.function([x, k], grad(np.sum(grad_clip(grad_scale(x, k), -1, 1) ** 2), x))
    assert f(np.array([0.25, 3.0]), np.array([10.0, 2.0])).tolist() == [5.0, 2.0]
    assert grad_undefined("op", 0, x).shape == x.shape
    known = grad(None, x, known_grads={x * 2: np.ones(3)})
    assert known.eval(x=np.ones(3)).tolist() == [2.0, 2.0, 2.0]


def test_C4_the_seed_with_unknown_lengths(rng: np.random.Generator) -> None:
    x, t = wb.vector("x"), wb.vector("t")
    w1, w2 = (
        wb.shared(rng.standard_normal((3, 4))),
        wb.shared(rng.standard_normal((4, 2))),
    )
    a1 = np.tanh(np.dot(x, w1))
    a2 = np.tanh(np.dot(a1, w2))
    cost2 = np.square(a2 - t).sum() + np.square(w2.sum())
    cost1 = np.square(w1.sum())
    following = None
    found = []
    for wrt, end, cost in (([w2], [a1], cost2), ([w1], [x], cost1)):
        param, following = subgraph_grad(wrt=wrt, end=end, start=following, cost=cost)
        following = dict(zip(end, following, strict=True))
        found.extend(param)
    whole = grad(cost1 + cost2, [w2, w1])
    f = wb.function([x, t], [*found, *whole])
    made = f(rng.standard_normal(3), rng.standard_normal(2))
    for a, b in zip(made[:2], made[2:], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-13)


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[str, ...]]] = {
    "elementwise": (lambda x, y: np.sin(x) * y, ("x", "y")),
    "a product": (lambda a, x: np.tanh(a @ x), ("a", "x")),
    "a matrix": (lambda a, y: np.exp(a) * y[:, None] @ a.T, ("a", "y")),
    "a reduction": (lambda a: np.mean(a * a, axis=0), ("a",)),
    "one number": (lambda a, x: np.sum((a @ x) ** 2), ("a", "x")),
    "parts": (lambda x, y: np.concatenate([x[1:] ** 2, y]), ("x", "y")),
    "a running sum": (lambda x: np.cumsum(x * x), ("x",)),
    "a solution": (lambda s, y: np.linalg.solve(s, y), ("s", "y")),
    "a broadcast": (lambda x: x * np.ones_like(x)[:, None] + x[:, None] ** 2, ("x",)),
}
SHAPES = {
    False: {"x": (3,), "y": (3,), "a": (3, 3), "s": (3, 3)},
    True: {"x": (2,), "y": (2,), "a": (2, 2), "s": (2, 2)},
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_jacobians(name: str, rng: np.random.Generator) -> None:
    f, names = PROGRAMS[name]
    symbols = [wb.matrix(n) if n in "as" else wb.vector(n) for n in names]
    program = wb.function(symbols, jacobian(f(*symbols), symbols))
    for other in (False, True):
        given = [rng.standard_normal(SHAPES[other][n]) for n in names]
        given = [
            g + 3 * np.eye(len(g)) if n == "s" else g
            for g, n in zip(given, names, strict=True)
        ]
        for block, truth in zip(
            program(*given), by_complex_step(f, *given), strict=True
        ):
            np.testing.assert_allclose(block, truth, rtol=1e-11, atol=1e-12)


def test_hessians(rng: np.random.Generator) -> None:
    a, x = wb.matrix("a"), wb.vector("x")

    def cost(a: Any, x: Any) -> Any:
        return np.sum(np.sin(a @ x) * np.exp(x[0]))

    p = wb.vector("p")
    program = wb.function(
        [a, x, p],
        [hessian(cost(a, x), [a, x]), hessian_vector_product(cost(a, x), x, p)],
    )
    for shape in ((2, 3), (3, 2)):
        given = rng.standard_normal(shape), rng.standard_normal(shape[1])
        rows, product = program(*given, np.ones(shape[1]))
        truth = second(cost, *given)
        for row, expected in zip(rows, truth, strict=True):
            for block, one in zip(row, expected, strict=True):
                np.testing.assert_allclose(block, one, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(product, rows[1][1] @ np.ones(shape[1]), rtol=1e-10)


def _circular(x: Any) -> Any:
    """The gradient of the sum of squares of x circularly convolved with itself."""
    turned = [np.roll(x, i) for i in range(len(x))]
    y = sum(one * turn for one, turn in zip(x, turned, strict=True))
    return 4 * np.array([np.sum(y * turn) for turn in turned])


def _picked(x: Any) -> Any:
    """The gradient of x[[0, 0, 3, 5]]**3 @ x[1:5], by hand."""
    g = np.zeros_like(x)
    np.add.at(g, [0, 0, 3, 5], 3 * x[[0, 0, 3, 5]] ** 2 * x[1:5])
    g[1:5] += x[[0, 0, 3, 5]] ** 3
    return g


def _between(x: Any) -> Any:
    """The gradient of the square of the median of an even number of entries."""
    low, high = np.argsort(x.real)[len(x) // 2 - 1 : len(x) // 2 + 1]
    g = np.zeros_like(x)
    g[[low, high]] = (x[low] + x[high]) / 2
    return g


@pytest.mark.parametrize(
    ("cost", "gradient"),
    [
        (lambda x: np.sum(np.fft.irfft(np.fft.rfft(x) ** 2) ** 2), _circular),
        (
            lambda x: np.sum(np.fft.irfft(np.fft.rfft(x) ** 2, x.shape[0]) ** 2),
            _circular,
        ),
        (lambda x: np.sum(x[np.array([0, 0, 3, 5])] ** 3 * x[1:5]), _picked),
        (lambda x: np.median(np.stack([x, x + 0.0])) ** 2, _between),
    ],
    ids=["rfft", "irfft", "positions", "median"],
)
def test_hessians_of_what_is_particular_about_lengths(
    cost: Any, gradient: Any, rng: np.random.Generator
) -> None:
    x = wb.vector("x")
    program = wb.function([x], hessian(cost(x), x))
    for n in (6, 8):
        p = rng.standard_normal(n)
        (truth,) = by_complex_step(gradient, p)
        np.testing.assert_allclose(program(p), truth, rtol=1e-10, atol=1e-10)


@pytest.fixture
def cube() -> Iterator[Callable[[Any], Any]]:
    """An op that knows no batches: on unknown lengths nobody can loop over one."""
    made = op(
        "cube_in_test",
        lambda x: x**3,
        lambda g, y, x: 3 * g * x * x,
        push=lambda t, y, x: apply(turned, (t[0], x)),
        lengths=shape_of_first,
    )
    turned = op(
        "cube_tangent_in_test",
        lambda t, x: 3 * t * x * x,
        lambda g, y, t, x: 3 * g * x * x,
        lambda g, y, t, x: 6 * g * t * x,
        lengths=shape_of_first,
    )
    made.pull = lambda mask, g, y, inputs, params: [apply(turned, (g, inputs[0]))]
    yield lambda x: apply(made, (x,))
    del OPS["cube_in_test"], OPS["cube_tangent_in_test"]


def test_where_no_batch_is_known_the_block_is_one_node(
    cube: Callable[[Any], Any], rng: np.random.Generator
) -> None:
    x, t = wb.vector("x"), wb.vector("t")
    block = jacobian(cube(x) * x, x)
    assert block.op.name == "item"
    assert block.inputs[0].op.name == "jacobian"
    assert isinstance(block, Tensor)
    assert block.shape == (*x.shape, *x.shape)
    twice = hessian(np.sum(cube(x)), x)
    held = jacobian(cube(x) * np.sin(x), x, consider_constant=[np.sin(x)])
    by_x = grad(np.sum(block * block), x)
    along = Rop(block, x, t)
    program = wb.function([x, t], [block, twice, held, by_x, along])
    for n in (3, 1, 4):
        p, v = rng.standard_normal(n), rng.standard_normal(n)
        found = program(p, v)
        np.testing.assert_allclose(found[0], np.diag(4 * p**3), atol=1e-12)
        np.testing.assert_allclose(found[1], np.diag(6 * p), atol=1e-12)
        np.testing.assert_allclose(
            found[2], np.diag(3 * p**2 * np.sin(p) + p**3 * np.cos(p)), atol=1e-12
        )
        np.testing.assert_allclose(found[3], 2 * 16 * 3 * p**5, rtol=1e-10)
        np.testing.assert_allclose(found[4], np.diag(12 * p**2 * v), atol=1e-12)


def test_the_text_of_a_jacobian_runs_on_its_own() -> None:
    a, x = wb.matrix("a"), wb.vector("x")
    f = wb.function([a, x], jacobian(np.tanh(a @ x), x))
    scope: dict[str, Any] = {}
    exec(f.source, scope)
    given = np.arange(6.0).reshape(2, 3) / 10, np.array([1.0, -1.0, 0.5])
    np.testing.assert_array_equal(scope["function"](*given), f(*given))
