"""What stands in an expression and shapes its gradient: row C5 of the mission."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.gradient.test_whole import at, ops
from workbench.errors import (
    DisconnectedInputError,
    DtypeError,
    GradNotImplementedError,
    GradUndefinedError,
    NullTypeGradError,
    ShapeError,
    UsageError,
)
from workbench.gradient import (
    Lop,
    NullType,
    Rop,
    consider_constant,
    disconnected_grad,
    grad,
    grad_clip,
    grad_not_implemented,
    grad_scale,
    grad_undefined,
    hessian,
    hessian_vector_product,
    jacobian,
    zero_grad,
)


def test_C5_grad_clip_as_in_the_seed() -> None:
    x = wb.scalar()
    z = grad(grad_clip(x, -1, 1) ** 2, x)
    z2 = grad(x**2, x)
    f = wb.function([x], [z, z2])
    assert tuple(map(float, f(2.0))) == (1.0, 4.0)


def test_grad_clip_by_arrays_and_expressions() -> None:
    x, low = wb.vector("x", shape=3), wb.vector("low", shape=3)
    y = grad_clip(x, low, np.array([1.0, 10.0, 100.0]))
    g = grad(np.sum(y * np.array([5.0, 50.0, -50.0])), x)
    given = {"x": np.ones(3), "low": np.array([0.0, 0.0, -7.0])}
    assert at(g, **given).tolist() == [1.0, 10.0, -7.0]
    assert at(y * 1.0, **given).tolist() == [1.0, 1.0, 1.0]
    with pytest.raises(DisconnectedInputError):
        grad(np.sum(y), low)


def test_grad_clip_second_order_and_forward() -> None:
    x = wb.scalar("x")
    # The gradient is clip(2 x, -1, 1), whose derivative is 2 within and 0 beyond.
    cost = grad_clip(x, -1, 1) ** 2
    second = hessian(cost, x)
    assert (at(second, x=0.25), at(second, x=2.0)) == (2.0, 0.0)
    assert at(hessian_vector_product(cost, x, 3.0), x=0.25) == 6.0
    # The gradient of the gradient comes by the same node, and is clipped too.
    again = grad(grad(cost, x), x)
    assert (at(again, x=0.25), at(again, x=2.0)) == (1.0, 0.0)
    # In forward mode tangents pass as they are.
    assert at(Rop(grad_clip(x, -1, 1) ** 2, x, 1.0), x=3.0) == 6.0


def test_float32_stays() -> None:
    x = wb.vector("x", shape=2, dtype=np.float32)
    for y in (grad_clip(x, -1.0, 1.0), grad_scale(x, 0.5), zero_grad(x)):
        assert y.dtype == np.float32
        g = grad(np.sum(y), x)
        assert g.dtype == np.float32


def test_C5_grad_scale() -> None:
    x, k = wb.scalars("x k")
    cost = grad_scale(x, k) ** 2
    assert at(grad(cost, x), x=3.0, k=-0.5) == -3.0
    assert at(cost, x=3.0, k=0.0) == 9.0
    # Linear: forward mode is scaled too, and both are transposes of each other.
    assert at(Rop(cost, x, 1.0), x=3.0, k=-0.5) == -3.0
    # The gradient depends on the multiplier, the value does not.
    assert at(grad(grad(cost, x), k), x=3.0, k=-0.5) == 6.0
    with pytest.raises(DisconnectedInputError):
        grad(cost, k)
    v = wb.vector("v", shape=2)
    by_entry = grad(np.sum(grad_scale(v, np.array([2.0, 3.0]))), v)
    assert at(by_entry, v=np.zeros(2)).tolist() == [2.0, 3.0]


def test_C5_zero_disconnected_and_constant() -> None:
    x = wb.scalar("x")
    for stop in (zero_grad, consider_constant):
        y = stop(np.exp(x))
        assert at(y, x=0.0) == 1.0
        assert at(grad(y * x, x), x=0.0) == 1.0
        assert at(grad(y, x), x=0.0) == 0.0
        assert at(Rop(y, x, 1.0), x=0.0) == 0.0
    y = disconnected_grad(np.exp(x))
    assert at(grad(y * x, x), x=0.0) == 1.0
    with pytest.raises(DisconnectedInputError):
        grad(y, x)
    # Nothing of what is behind is computed.
    assert "exp" not in ops(grad(disconnected_grad(np.exp(x)) + x, x))


def test_in_functions_that_are_differentiated() -> None:
    x = np.array([0.25, 5.0])
    clipped = wb.grad(lambda x: np.sum(grad_clip(x, -1, 1) ** 2))
    assert clipped(x).tolist() == [0.5, 1.0]
    assert wb.grad(lambda x: np.sum(grad_scale(x, 3) ** 2))(x).tolist() == [1.5, 30.0]
    assert wb.grad(lambda x: np.sum(zero_grad(x) * x))(x).tolist() == x.tolist()
    assert wb.grad(lambda x: np.sum(disconnected_grad(x)))(x).tolist() == [0, 0]
    _, t = wb.jvp(lambda x: grad_scale(x, 3), (x,), (np.ones(2),))
    assert t.tolist() == [3.0, 3.0]
    # Of a plain array nothing is made.
    for y in (
        grad_clip(x, -1, 1),
        grad_scale(x, 2),
        zero_grad(x),
        disconnected_grad(x),
    ):
        assert y is x
    assert grad_clip(2.0, -1, 1) == 2.0


def test_batches() -> None:
    x = np.array([[0.25, 5.0], [-3.0, 0.1]])
    g = wb.vmap(wb.grad(lambda x: np.sum(grad_clip(x, -1, 1) ** 2)))(x)
    assert g.tolist() == [[0.5, 1.0], [-1.0, 0.2]]
    bounds = np.array([1.0, 0.1])
    both = wb.vmap(wb.grad(lambda x, b: np.sum(grad_clip(x, -b, b) ** 2)))(x, bounds)
    np.testing.assert_allclose(both, [[0.5, 1.0], [-0.1, 0.1]])
    shared = wb.vmap(lambda b: wb.grad(lambda x: np.sum(grad_scale(x, b)))(x[0]))
    assert shared(bounds).tolist() == [[1.0, 1.0], [0.1, 0.1]]
    np.testing.assert_allclose(
        wb.hessian(lambda x: np.sum(grad_clip(x, -1, 1) ** 2))(x[0]), [[2, 0], [0, 0]]
    )


def test_the_text_of_a_program_leaves_them_out() -> None:
    x = wb.scalar("x")
    f = wb.function([x], grad_clip(x, -1, 1) * grad_scale(zero_grad(x), 2))
    scope: dict[str, Any] = {}
    exec(f.source, scope)
    assert "clip" not in f.source
    assert "grad" not in f.source
    assert f(3.0) == 9.0


def test_bad_arguments() -> None:
    x = wb.vector("x", shape=2)
    with pytest.raises(UsageError, match="lies above the upper one"):
        grad_clip(x, 1, -1)
    with pytest.raises(ShapeError, match=r"lower bound has shape \(3,\)"):
        grad_clip(x, np.zeros(3), 1)
    with pytest.raises(ShapeError, match=r"multiplier has shape \(2, 2\)"):
        grad_scale(x, np.ones((2, 2)))
    with pytest.raises(DtypeError, match="no order"):
        grad_clip(x * 1j, -1, 1)


# Gradients that cannot be computed

Refuse = Callable[..., Any]


def never(refuse: Refuse, comment: str = "a step") -> wb.override:  # type: ignore[valid-type]
    return wb.override(
        "floor", vjp=lambda node, g: refuse(node.op, 0, node.inputs[0], comment)
    )


@pytest.mark.parametrize(
    ("refuse", "error", "says"),
    [
        (grad_undefined, GradUndefinedError, "mathematically undefined"),
        (grad_not_implemented, GradNotImplementedError, "not implemented"),
    ],
)
def test_C5_null_gradients(refuse: Refuse, error: Any, says: str) -> None:
    x, y = wb.scalars("x y")
    cost = np.floor(np.exp(x)) * y
    rule = never(refuse)
    with pytest.raises(error, match=f"input 0 of floor is {says} .a step.") as told:
        wb.grad(cost, x, overrides=[rule])
    assert isinstance(told.value, NullTypeGradError)
    assert "'x'" in str(told.value)
    if refuse is grad_not_implemented:
        assert isinstance(told.value, NotImplementedError)
    # What does not hold it is fine.
    assert at(wb.grad(cost, y, overrides=[rule]), x=1.0) == 2.0
    # On demand it is returned.
    found = wb.grad(cost, [x, y], overrides=[rule], null_gradients="return")
    assert isinstance(found[0], NullType)
    assert not isinstance(found[1], NullType)
    assert (found[0].shape, found[0].dtype) == ((), np.float64)
    # Whoever compiles or runs it gets the error too.
    with pytest.raises(error, match=r"an output of f cannot.*input 0 of floor"):
        wb.function([x], found[0] * 2, name="f")
    with pytest.raises(error, match="input 0 of floor"):
        at(found[0] * 2, x=1.0)


def test_any_expression_that_holds_one_is_refused() -> None:
    x, y = wb.scalars("x y")
    null = grad_undefined("quantize", 0, x)
    for g in (null, null * 0, null + y, np.where(y > 0, null, 0.0), np.sin(null)):
        with pytest.raises(GradUndefinedError, match="input 0 of quantize"):
            Lop(x * 2, x, g)
        with pytest.raises(GradUndefinedError, match="input 0 of quantize"):
            grad(None, x, known_grads={x * 2: g})
    with pytest.raises(GradUndefinedError):
        Rop(x * 2, x, null)
    with pytest.raises(GradUndefinedError):
        grad(null * x, x)  # of a null itself


def test_nulls_in_blocks() -> None:
    x = wb.vector("x", shape=3)
    rule = never(grad_undefined)
    for ask in (
        wb.jacobian,
        lambda f, x, overrides: wb.hessian(np.sum(f), x, overrides=overrides),
    ):
        with pytest.raises(GradUndefinedError, match="input 0 of floor"):
            ask(np.floor(x) * x, x, overrides=[rule])
    assert jacobian(x * 2, x).shape == (3, 3)


def test_nulls_in_functions() -> None:
    rule = never(grad_undefined)
    for f in (lambda x: np.floor(x), lambda x: np.exp(np.floor(x) * 2)):
        with pytest.raises(GradUndefinedError, match="input 0 of floor"):
            wb.grad(f, overrides=[rule])(1.5)
        with pytest.raises(GradUndefinedError, match="input 0 of floor"):
            wb.jvp(f, (1.5,), (1.0,), overrides=[rule])
    twice = wb.grad(wb.grad(lambda x: np.floor(x) * x, overrides=[rule]))
    with pytest.raises(GradUndefinedError):
        twice(1.5)


def test_of_integers() -> None:
    n = wb.vector("n", shape=2, dtype=np.int64)
    null = grad_undefined("pick", 1, n, "an index")
    assert (null.shape, null.dtype) == ((2,), np.float64)
