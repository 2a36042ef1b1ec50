"""A row that is only a body: all that is asked of an op follows from it.

Each composite is a stranger's, declared here by one line, and is compared with the same
formula written out, and with derivatives by hand.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.core.op import OPS, Op
from workbench.core.tensor import apply
from workbench.errors import NotDifferentiableError, UsageError
from workbench.ops.define import apply_and_split, composite


def soften(x: Any, y: Any, *, scale: float = 1.0) -> Any:
    return np.log(1 + np.exp(scale * x * y))


def sum_squares(x: Any, *, axis: int) -> Any:
    return np.sum(x * x, axis=axis)


def split_signs(x: Any) -> Any:
    return np.where(x > 0, x, 0) ** 2, np.where(x < 0, x, 0) ** 3


@pytest.fixture(scope="module")
def rows() -> Iterator[dict[str, Op]]:
    made = {
        "soften": composite("test_soften", soften),
        "sumsq": composite("test_sumsq", sum_squares),
        "signs": composite("test_signs", split_signs, rule="2 max(x, 0) g₀ + …"),
    }
    yield made
    for op in made.values():
        del OPS[op.name]


@pytest.fixture
def soft(rows: dict[str, Op]) -> Any:
    return lambda x, y, **params: apply(rows["soften"], (x, y), params)


@pytest.fixture
def sumsq(rows: dict[str, Op]) -> Any:
    return lambda x, axis=-1: apply(rows["sumsq"], (x,), {"axis": axis})


@pytest.fixture
def signs(rows: dict[str, Op]) -> Any:
    return lambda x: apply_and_split(rows["signs"], (x,))


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def test_both_modes_by_hand(soft: Any, sumsq: Any, rng: np.random.Generator) -> None:
    x, y = rng.normal(size=(2, 3))
    np.testing.assert_allclose(soft(x, y), np.logaddexp(0, x * y), rtol=1e-13)
    gx, gy = wb.grad(lambda x, y: np.sum(soft(x, y, scale=2.0)), argnums=(0, 1))(x, y)
    np.testing.assert_allclose(gx, 2 * y * sigmoid(2 * x * y), rtol=1e-12)
    np.testing.assert_allclose(gy, 2 * x * sigmoid(2 * x * y), rtol=1e-12)
    _, moved = wb.jvp(soft, (x, y), (np.ones(3), np.zeros(3)))
    np.testing.assert_allclose(moved, y * sigmoid(x * y), rtol=1e-12)
    a = rng.normal(size=(2, 3))
    hessian = wb.hessian(lambda a: np.sum(sumsq(a) ** 2))(a)
    for i in range(2):
        by_hand = 4 * np.eye(3) * np.sum(a[i] ** 2) + 8 * np.outer(a[i], a[i])
        np.testing.assert_allclose(hessian[i, :, i], by_hand, rtol=1e-12)


@pytest.mark.parametrize("mode", ["rev", "fwd"])
def test_both_orders_against_differences(
    soft: Any, sumsq: Any, mode: Any, rng: np.random.Generator
) -> None:
    x, y = rng.normal(size=(2, 2, 3))
    wb.check_grads(soft, (x, y), order=2, modes=(mode,))
    wb.check_grads(sumsq, (x,), order=2, modes=(mode,))


def test_several_outputs(signs: Any) -> None:
    x = np.array([-2.0, 1.0, 3.0])
    up, down = np.array([0.0, 2, 6]), np.array([12.0, 0, 0])
    for which, expected in ((0, up), (1, down)):
        gradient = wb.grad(lambda x, k=which: np.sum(signs(x)[k]))(x)
        np.testing.assert_allclose(gradient, expected)
    _, moved = wb.jvp(signs, (x,), (np.ones(3),))
    np.testing.assert_allclose(moved, (up, down))
    many = wb.vmap(signs)(np.stack([x, -x]))
    np.testing.assert_allclose(many[0], [[0, 1, 9], [4, 0, 0]])
    np.testing.assert_allclose(many[1], [[-8, 0, 0], [0, -1, -27]])


def test_many_examples_are_one_node(
    soft: Any, sumsq: Any, rng: np.random.Generator
) -> None:
    x, y = rng.normal(size=(4, 3)), rng.normal(size=3)
    many = wb.vmap(soft, in_axes=(0, None))
    np.testing.assert_allclose(many(x, y), np.logaddexp(0, x * y), rtol=1e-13)
    graph = wb.trace(many)(x, y)
    assert [node.op.name for node in graph.interior] == ["test_soften"]
    gradient = wb.grad(lambda y: np.sum(many(x, y)))(y)
    expected = np.sum(x * sigmoid(x * y), axis=0)
    np.testing.assert_allclose(gradient, expected, rtol=1e-12)
    cube = rng.normal(size=(2, 3, 4))
    twice = wb.vmap(wb.vmap(sumsq))(cube)
    np.testing.assert_allclose(twice, np.sum(cube**2, axis=-1), rtol=1e-13)
    assert wb.vmap(sumsq)(np.ones((0, 2, 3))).shape == (0, 2)


def test_overrides_mean_it_by_its_name(sumsq: Any) -> None:
    x = np.arange(6.0).reshape(2, 3)
    rule = wb.override("test_sumsq", lambda node, g: -g[..., None] * node.inputs[0])
    for f in (sumsq, wb.vmap(sumsq)):
        gradient = wb.grad(lambda x, f=f: np.sum(f(x)), overrides=[rule])(x)
        np.testing.assert_allclose(gradient, -x)
    node = wb.trace(sumsq)(x).outputs[0]
    assert node.op.rule == "the rules of the ops in its body"


def test_symbols_of_unknown_lengths(sumsq: Any, soft: Any) -> None:
    x, v = wb.matrix("x"), wb.vector("v")
    y = sumsq(x)
    assert str(y.shape) == "(x.shape[0],)"
    f = wb.function([x, v], [y, wb.grad(np.sum(soft(y, v)), v)])
    for n in (1, 4):
        a, b = np.full((n, 3), 0.5), np.linspace(-1, 1, n)
        value, gradient = f(a, b)
        np.testing.assert_allclose(value, np.full(n, 0.75))
        np.testing.assert_allclose(gradient, 0.75 * sigmoid(0.75 * b))


def test_a_length_as_a_setting() -> None:
    def share(x: Any, *, n: Any) -> Any:
        return np.reshape(x * x, (n, -1)) / n

    row = composite("test_share", share)
    try:
        f = lambda x, y: apply(row, (x,), {"n": y.shape[0]})  # noqa: E731
        x, y = wb.matrix("x", shape=(2, None)), wb.matrix("y", shape=(2, None))
        many = wb.vmap(f)(x, y)
        run = wb.function([x, y], [many, wb.grad(np.sum(many), x)])
        a = np.arange(12.0).reshape(2, 6)
        value, gradient = run(a, np.ones((2, 3)))
        np.testing.assert_allclose(value, (a**2 / 3).reshape(2, 3, 2))
        np.testing.assert_allclose(gradient, 2 * a / 3)
    finally:
        del OPS["test_share"]


def test_kernels_without_a_step_of_numpy(
    sumsq: Any, soft: Any, rng: np.random.Generator
) -> None:
    x, v = rng.normal(size=(4, 3)), rng.normal(size=4)
    compiled = wb.compile(
        wb.value_and_grad(lambda x: np.sum(soft(sumsq(x), v))), backend="compiled"
    )
    value, gradient = compiled(x)
    squares = np.sum(x * x, axis=1)
    np.testing.assert_allclose(value, np.sum(np.logaddexp(0, squares * v)))
    expected = 2 * x * (v * sigmoid(squares * v))[:, None]
    np.testing.assert_allclose(gradient, expected, rtol=1e-12)
    assert "NumPy" not in str(compiled.profile(x))


def test_patterns_are_exact(sumsq: Any, soft: Any, rng: np.random.Generator) -> None:
    x, v = rng.normal(size=(4, 3)), rng.normal(size=4)
    pattern = wb.sparsity(lambda x: soft(sumsq(x), v), x)
    expected = np.kron(np.eye(4, dtype=bool), np.ones((1, 3), bool))
    np.testing.assert_array_equal(pattern.toarray(), expected)
    assert not pattern.dense_ops
    pattern = wb.sparsity(lambda x: np.sum(soft(sumsq(x), v)), x, order=2)
    expected = np.kron(np.eye(4, dtype=bool), np.ones((3, 3), bool))
    np.testing.assert_array_equal(pattern.toarray(), expected)


def test_what_a_condition_leaves_out_stays_out(rows: dict[str, Op]) -> None:
    root = composite("test_root", lambda x: np.sqrt(x) * 3)
    try:
        f = lambda x: np.sum(np.where(x > 0, apply(root, (x,)), 0))  # noqa: E731
        x = np.array([0.0, 4.0])
        np.testing.assert_allclose(wb.grad(f)(x), [0, 0.75])
        second = wb.grad(lambda x: np.sum(wb.grad(f)(x)))(x)
        np.testing.assert_allclose(second, [0, -3 / 32])
    finally:
        del OPS["test_root"]


def test_a_body_that_says_nothing_is_told() -> None:
    mute = composite("test_mute", lambda x: None, compute=np.square)
    try:
        assert apply(mute, (3.0,)) == 9.0
        many = wb.vmap(lambda x: apply(mute, (x,)))
        np.testing.assert_array_equal(many(np.arange(3.0)), [0, 1, 4])
        with pytest.raises(NotDifferentiableError, match="its body does not say"):
            wb.grad(lambda x: apply(mute, (x,)))(3.0)
    finally:
        del OPS["test_mute"]


@pytest.mark.parametrize("value", [None, (1.0, None)])
def test_a_body_without_a_value_is_told(value: Any) -> None:
    """There is no ``compute`` beside the body: no derivative, and no value either."""
    blank = composite("test_blank", lambda x, y: value)

    def f(x: Any) -> Any:
        return apply(blank, (x, 2.0))

    x = np.ones(3)
    runs = [
        lambda: f(x),
        lambda: wb.trace(f)(wb.Spec((3,), np.dtype(float))),
        lambda: wb.grad(f)(x),
        lambda: wb.jvp(f, (x,), (x,)),
        lambda: wb.jacobian(f)(x),
    ]
    told = r"test_blank\(float64\[3\], 2.0\).*its body returned None.*compute="
    try:
        for run in runs:
            with pytest.raises(UsageError, match=told):
                run()
    finally:
        del OPS["test_blank"]


def test_a_body_that_says_nothing_of_a_constant_is_told() -> None:
    mute = composite("test_mute_pair", lambda x, y: None, compute=np.multiply)
    told = r"test_mute_pair\(float64\[\], float64\[2\]\).*its body does not say"
    try:
        with pytest.raises(NotDifferentiableError, match=told):
            wb.vjp(lambda x: apply(mute, (x, np.ones(2))), 3.0)[1](np.ones(2))
    finally:
        del OPS["test_mute_pair"]
