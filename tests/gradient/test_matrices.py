"""Jacobians and Hessians of expressions: row C3 of the mission."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.gradient.test_whole import at
from workbench.errors import DisconnectedInputError, NonScalarOutputError, UsageError
from workbench.gradient import (
    disconnected_grad,
    grad,
    hessian,
    hessian_vector_product,
    jacobian,
)

STEP = 1e-20


def by_complex_step(f: Any, *arrays: Any) -> list[Any]:
    """The Jacobian of a function by each of its arrays, from its values alone."""
    blocks = []
    for k, x in enumerate(arrays):
        shape = np.shape(f(*arrays))
        block = np.empty((*shape, *x.shape))
        for i in np.ndindex(x.shape):
            moved = [a.astype(complex) for a in arrays]
            moved[k][i] += 1j * STEP
            block[(..., *i)] = np.imag(f(*moved)) / STEP
        blocks.append(block)
    return blocks


def second(f: Any, *arrays: Any) -> list[list[Any]]:
    """All blocks of the Hessian: central differences of complex steps."""

    def gradient(k: int) -> Any:
        return lambda *xs: by_complex_step(f, *xs)[k]

    h = 1e-5
    rows = []
    for k, x in enumerate(arrays):
        row = []
        for m, y in enumerate(arrays):
            block = np.empty((*x.shape, *y.shape))
            for i in np.ndindex(y.shape):
                high, low = ([a.copy() for a in arrays] for _ in range(2))
                high[m][i] += h
                low[m][i] -= h
                block[(..., *i)] = (gradient(k)(*high) - gradient(k)(*low)) / (2 * h)
            row.append(block)
        rows.append(row)
    return rows


def program(x: Any, y: Any) -> Any:
    """Of a matrix (2, 3) and a vector (3,): a matrix (2, 2)."""
    z = np.sin(x) * y
    return z @ np.exp(x).T / 3 + z[:, :1] ** 2


SHAPES = {"x": (2, 3), "y": (3,)}


def values(rng: np.random.Generator) -> dict[str, Any]:
    return {key: rng.standard_normal(shape) for key, shape in SHAPES.items()}


def symbols() -> list[Any]:
    return [wb.tensor(key, shape=shape) for key, shape in SHAPES.items()]


def test_C3_jacobian_of_any_rank_by_many(rng: np.random.Generator) -> None:
    x, y = symbols()
    given = values(rng)
    found = jacobian(program(x, y), [x, y])
    truth = by_complex_step(program, given["x"], given["y"])
    assert isinstance(found, list)
    for block, expected in zip(found, truth, strict=True):
        assert block.shape == expected.shape
        np.testing.assert_allclose(at(block, **given), expected, rtol=1e-12, atol=1e-13)
    # One variable: one block.
    alone = jacobian(program(x, y), y)
    np.testing.assert_allclose(at(alone, **given), truth[1], rtol=1e-12, atol=1e-13)


def test_C3_jacobian_of_several_expressions(rng: np.random.Generator) -> None:
    x, y = symbols()
    given = values(rng)
    f = {"p": program(x, y), "s": np.sum(y**2), "x": x}
    found = jacobian(f, (x, y))
    assert list(found) == ["p", "s", "x"]
    assert [b.shape for b in found["p"]] == [(2, 2, 2, 3), (2, 2, 3)]
    assert [b.shape for b in found["s"]] == [(2, 3), (3,)]
    np.testing.assert_allclose(at(found["s"][1], **given), 2 * given["y"])
    assert not at(found["s"][0], **given).any()
    identity = np.eye(6).reshape(2, 3, 2, 3)
    np.testing.assert_array_equal(at(found["x"][0], **given), identity)


@pytest.mark.parametrize("tall", [True, False])
def test_both_modes(tall: bool, rng: np.random.Generator) -> None:
    """A tall Jacobian is pushed forward, a wide one pulled back."""
    shape = (2,) if tall else (5,)
    x = wb.vector("x", shape=shape)

    def f(x: Any) -> Any:
        wide = np.sin(x)[:, None] * np.cos(np.arange(3.0))
        return np.reshape(wide, (-1,)) if tall else np.cumsum(x)[:2] * x[0]

    point = rng.standard_normal(shape)
    (expected,) = by_complex_step(f, point)
    np.testing.assert_allclose(
        at(jacobian(f(x), x), x=point), expected, rtol=1e-12, atol=1e-13
    )


def test_scalars() -> None:
    x, y = wb.scalars("x y")
    found = jacobian(x**2 * y, [x, y])
    assert [at(b, x=3.0, y=2.0) for b in found] == [12.0, 9.0]
    assert at(hessian(x**2 * y, x), x=3.0, y=2.0) == 4.0


def test_C3_hessian_with_cross_blocks(rng: np.random.Generator) -> None:
    x, y = symbols()
    given = values(rng)

    def cost(x: Any, y: Any) -> Any:
        return np.sum(program(x, y) ** 2) / 10

    found = hessian(cost(x, y), [x, y])
    truth = second(cost, given["x"], given["y"])
    for row, expected in zip(found, truth, strict=True):
        assert isinstance(row, list)
        for block, one in zip(row, expected, strict=True):
            assert block.shape == one.shape
            np.testing.assert_allclose(at(block, **given), one, rtol=1e-6, atol=1e-6)
    # The whole matrix is symmetric.
    crossed = at(found[0][1], **given), at(found[1][0], **given)
    np.testing.assert_allclose(crossed[0], np.moveaxis(crossed[1], 0, -1), rtol=1e-10)
    # Those of each variable alone, as Theano has it.
    diagonal = hessian(cost(x, y), (x, y), cross=False)
    assert isinstance(diagonal, tuple)
    for block, row, k in zip(diagonal, found, (0, 1), strict=True):
        np.testing.assert_allclose(
            at(block, **given), at(row[k], **given), rtol=1e-12, atol=1e-13
        )
    named = hessian(cost(x, y), {"x": x, "y": y})
    np.testing.assert_array_equal(at(named["x"]["y"], **given), crossed[0])


def test_C3_hessian_vector_product(rng: np.random.Generator) -> None:
    x, y = symbols()
    given = values(rng)
    cost = np.sum(program(x, y) ** 2)
    p = [rng.standard_normal(SHAPES["x"]), rng.standard_normal(SHAPES["y"])]
    (xx, xy), (yx, yy) = (
        [at(b, **given) for b in row] for row in hessian(cost, [x, y])
    )
    found = hessian_vector_product(cost, [x, y], p)
    by_x = np.tensordot(xx, p[0], 2) + xy @ p[1]
    by_y = np.tensordot(yx, p[0], 2) + yy @ p[1]
    np.testing.assert_allclose(at(found[0], **given), by_x, rtol=1e-10)
    np.testing.assert_allclose(at(found[1], **given), by_y, rtol=1e-10)
    # A vector that is a symbol; None for zero.
    q = wb.vector("q", shape=3)
    symbolic = hessian_vector_product(cost, y, q)
    np.testing.assert_allclose(at(symbolic, **given, q=p[1]), yy @ p[1], rtol=1e-10)
    partly = hessian_vector_product(cost, [x, y], [None, p[1]])
    np.testing.assert_allclose(at(partly[0], **given), xy @ p[1], rtol=1e-10)


def test_constants_of_a_linear_program() -> None:
    x = wb.vector("x", shape=3)
    a = np.arange(6.0).reshape(2, 3)
    block = jacobian(a @ x, x)
    np.testing.assert_array_equal(at(block), a)
    assert not at(hessian(np.sum(a @ x), x), x=np.ones(3)).any()


def test_complex_blocks() -> None:
    z = wb.vector("z", shape=2, dtype=np.complex128)
    x = wb.vector("x", shape=2)
    point, real = np.array([1 + 2j, 0.5 - 1j]), np.array([0.3, 2.0])
    found = at(jacobian(z**2, z), z=point)
    np.testing.assert_allclose(found, np.diag(2 * point), rtol=1e-14)
    mixed = jacobian(np.exp(1j * x), x)
    np.testing.assert_allclose(
        at(mixed, x=real), np.diag(1j * np.exp(1j * real)), rtol=1e-14
    )


def test_disconnected() -> None:
    x, y = wb.vector("x", shape=2), wb.vector("y", shape=2)
    with pytest.raises(DisconnectedInputError, match="'y'"):
        jacobian(x * 2, [x, y])
    blocks = jacobian(x * 2, [x, y], disconnected_inputs="ignore")
    assert not at(blocks[1], x=np.ones(2), y=np.ones(2)).any()
    with pytest.raises(DisconnectedInputError, match="'y'"):
        hessian(np.sum(x**2), [x, y])
    cut = np.sum(disconnected_grad(x) * x**2)
    np.testing.assert_allclose(
        at(hessian(cut, x), x=np.array([2.0, 3])), [[4, 0], [0, 6]]
    )
    held = jacobian(x * y, [x], consider_constant=[x * y], disconnected_inputs="ignore")
    assert at(held[0], x=np.ones(2), y=np.ones(2)).tolist() == [[1, 0], [0, 1]]


def test_the_same_variable_twice() -> None:
    """Its rows of the Hessian stand there twice, and so do its columns."""
    x = wb.scalar("x")
    blocks = hessian(x**3, [x, x])
    assert [float(b.eval(x=3.0)) for row in blocks for b in row] == [18.0] * 4
    first, second = hessian_vector_product(x**3, [x, x], [1.0, 2.0])
    assert first.eval(x=3.0) == second.eval(x=3.0) == 54.0


def test_consider_constant() -> None:
    x = wb.vector("x", shape=2)
    h = np.sin(x)
    found = jacobian(h * x, x, consider_constant=[h])
    point = np.array([0.3, 1.0])
    np.testing.assert_allclose(at(found, x=point), np.diag(np.sin(point)), rtol=1e-14)
    twice = hessian(np.sum(h * x**2), x, consider_constant=[h])
    np.testing.assert_allclose(at(twice, x=point), np.diag(2 * np.sin(point)))
    product = hessian_vector_product(
        np.sum(h * x**2), x, np.ones(2), consider_constant=[h]
    )
    np.testing.assert_allclose(at(product, x=point), 2 * np.sin(point))


def test_integers_and_flat_outputs() -> None:
    n, x = wb.vector("n", shape=2, dtype=np.int64), wb.vector("x", shape=2)
    blocks = jacobian(x * n, [n, x])
    assert blocks[0].dtype == np.float64
    given = {"n": np.array([2, 3]), "x": np.ones(2)}
    assert not at(blocks[0], **given).any()
    assert at(blocks[1], **given).tolist() == [[2, 0], [0, 3]]
    assert not at(jacobian(np.argsort(x), x), **given).any()


def test_overrides() -> None:
    x = wb.vector("x", shape=2)
    half = wb.override("sin", "0.5 * d")
    found = wb.jacobian(np.sin(x), x, overrides=[half])
    np.testing.assert_allclose(at(found, x=np.zeros(2)), np.eye(2) / 2)


def test_an_override_holds_in_both_sweeps_of_a_hessian_product() -> None:
    """The slope of ``tanh`` doubled: once in the gradient, once where that moves."""
    x, point, v = wb.vector("x", shape=2), np.array([0.3, 0.5]), np.array([1.0, 2.0])
    double = wb.override("tanh", "2 * d")
    product = wb.hvp(np.sum(np.tanh(x) ** 2), x, v, overrides=[double])
    # With y = tanh(x): 2 y 2 (1 - y^2), differentiated with dy = 2 (1 - y^2) dx.
    y = np.tanh(point)
    slope = 2 * (1 - y**2)
    expected = (4 - 12 * y**2) * slope * v
    np.testing.assert_allclose(at(product, x=point), expected, rtol=1e-14)


def test_the_same_under_wb() -> None:
    x, y = wb.vector("x", shape=2), wb.scalar("y")
    given = {"x": np.array([1.0, 3.0]), "y": 2.0}
    f = x**2 * y
    assert at(wb.jacobian(f, x), **given).tolist() == [[4, 0], [0, 12]]
    assert [b.shape for b in wb.jacobian([f, x], x)] == [(2, 2), (2, 2)]
    (xx, xy), (yx, yy) = wb.hessian(np.sum(f), [x, y])
    assert at(xx, **given).tolist() == [[4, 0], [0, 4]]
    assert at(xy, **given).tolist() == at(yx, **given).tolist() == [2, 6]
    assert at(yy, **given) == 0
    hv = wb.hvp(np.sum(f), [x, y], [np.ones(2), 1.0])
    assert [np.asarray(at(h, **given)).tolist() for h in hv] == [[6.0, 10.0], 8.0]
    for ask in (wb.jacfwd, wb.jacrev):
        assert at(ask(f, x), **given).tolist() == [[4, 0], [0, 12]]
    with pytest.raises(UsageError, match="mode='forward'"):
        wb.jacobian(f, x, mode="forward")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="has_aux=True is for functions"):
        wb.hessian(np.sum(f), x, has_aux=True)
    with pytest.raises(UsageError, match="no option 'cross'"):
        wb.hessian(np.sum, cross=False)


def test_a_cost_that_is_not_one_number() -> None:
    x = wb.vector("x", shape=2)
    for ask in (hessian, lambda y, x: hessian_vector_product(y, x, x)):
        with pytest.raises(NonScalarOutputError, match="one number"):
            ask(x * 2, x)


def test_the_gradient_of_a_block(rng: np.random.Generator) -> None:
    """Third order: the gradient of the Hessian's trace."""
    x = wb.vector("x", shape=3)
    trace = np.trace(hessian(np.sum(np.sin(x) * x), x))
    point = rng.standard_normal(3)
    # f'' = 2 cos x - x sin x, and its derivative:
    expected = -3 * np.sin(point) - point * np.cos(point)
    np.testing.assert_allclose(at(grad(trace, x), x=point), expected, rtol=1e-12)
