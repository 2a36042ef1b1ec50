"""`Lop` and `Rop`, and `wb.vjp` and `wb.jvp` of expressions: row C2 of the mission."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.gradient.test_whole import at
from workbench.errors import DisconnectedInputError, DtypeError, ShapeError, UsageError
from workbench.gradient import (
    DisconnectedType,
    Lop,
    Rop,
    disconnected_grad,
    hessian_vector_product,
    pullback,
    pushforward,
)

W = np.array([[1.0, 2.0, -1.0], [0.5, 0.0, 3.0]])
X = np.array([0.3, -1.0, 2.0])


def jacobian_of_tanh() -> Any:
    """That of tanh(W x) by x, by hand."""
    return (1 - np.tanh(W @ X) ** 2)[:, None] * W


def test_C2_one_output_and_one_input() -> None:
    w, x = wb.matrix("w", shape=(2, 3)), wb.vector("x", shape=3)
    y = np.tanh(w @ x)
    u, t = wb.vector("u", shape=2), wb.vector("t", shape=3)
    left, right = Lop(y, x, u), Rop(y, x, t)
    jac = jacobian_of_tanh()
    values = {"w": W, "x": X, "u": np.array([1.0, -2.0]), "t": np.array([1.0, 2, 3])}
    np.testing.assert_allclose(at(left, **values), values["u"] @ jac, rtol=1e-13)
    np.testing.assert_allclose(at(right, **values), jac @ values["t"], rtol=1e-13)
    assert (left.shape, right.shape) == ((3,), (2,))
    # Other names, same arguments.
    same = pullback(y, x, u), pushforward(y, x, t)
    np.testing.assert_array_equal(at(same[0], **values), at(left, **values))
    np.testing.assert_array_equal(at(same[1], **values), at(right, **values))


def test_C2_many_outputs_and_many_inputs() -> None:
    x, y = wb.scalars("x y")
    f = (x * y, x + y, y**3)
    pulled = Lop(f, [x, y], (1.0, 10.0, None))
    assert isinstance(pulled, list)
    assert [at(g, x=2.0, y=3.0) for g in pulled] == [13.0, 12.0]
    pushed = Rop(f, [x, y], [1.0, 100.0])
    assert isinstance(pushed, tuple)
    assert [at(t, x=2.0, y=3.0) for t in pushed] == [203.0, 101.0, 2700.0]
    # Mappings, matched by key.
    by_name = Lop({"b": x * 2, "a": y * 3}, {"y": y, "x": x}, {"a": 1.0, "b": 100.0})
    assert list(by_name) == ["y", "x"]
    assert {key: at(g) for key, g in by_name.items()} == {"y": 3.0, "x": 200.0}
    moved = Rop({"b": x * 2, "a": y * 3}, {"y": y, "x": x}, {"x": 1.0, "y": 10.0})
    assert {key: at(t) for key, t in moved.items()} == {"b": 2.0, "a": 30.0}
    # One stays one, several stay several.
    assert isinstance(Lop([x * 2], [x], [1.0]), list)
    assert at(Lop([x * 2, x * 3], x, [1.0, 1.0])) == 5.0


def test_the_same_expression_twice() -> None:
    x = wb.scalar("x")
    y = x**2
    assert at(Lop([y, y], x, [1.0, 10.0]), x=1.0) == 22.0
    assert at(Rop(y, [x, x], [1.0, 10.0]), x=1.0) == 22.0


def test_adjoint(rng: np.random.Generator) -> None:
    """<u, J t> = <J' u, t> through a program of many kinds of op."""
    a, b = wb.matrix("a", shape=(3, 3)), wb.vector("b", shape=3)
    inner = np.linalg.solve(a @ a.T + np.eye(3) * 3, np.sort(b))
    f = [np.cumsum(inner) * b, np.max(a, axis=0), np.concatenate([inner, a[1, ::2]])]
    values = {"a": rng.standard_normal((3, 3)), "b": rng.standard_normal(3)}
    u = [rng.standard_normal(y.shape) for y in f]
    t = [rng.standard_normal((3, 3)), rng.standard_normal(3)]
    pulled, pushed = Lop(f, [a, b], u), Rop(f, [a, b], t)
    one = sum(np.sum(x * at(y, **values)) for x, y in zip(u, pushed, strict=True))
    other = sum(np.sum(x * at(g, **values)) for x, g in zip(t, pulled, strict=True))
    assert one == pytest.approx(other, rel=1e-11)


def test_integers_do_not_move() -> None:
    """No gradient comes back to them, and forward mode is the transpose of that."""
    x, n = wb.vector("x", shape=3), wb.vector("n", shape=3, dtype="int32")
    given = {x: np.array([1.0, 2.0, 3.0]), n: np.array([2, 1, 0], np.int32)}
    along = np.ones(3)
    moved = Rop(x * n, n, along)
    assert moved.dtype == np.float64
    np.testing.assert_array_equal(moved.eval(given), 0)
    np.testing.assert_array_equal(
        Rop(x * n, [x, n], [along, along]).eval(given), [2, 1, 0]
    )
    cost = np.sum(x**2 * n)
    of_x, of_n = hessian_vector_product(cost, [x, n], [along, along])
    np.testing.assert_array_equal(of_x.eval(given), [4, 2, 0])
    np.testing.assert_array_equal(of_n.eval(given), 0)


def test_by_what_was_computed_on_the_way() -> None:
    """Both products are with the same Jacobian: x reaches y through h as well."""
    x = wb.scalar("x")
    h = x * 3
    y = h**2 + x
    by_x, by_h = Lop(y, [x, h], 1.0)
    assert (at(by_x, x=2.0), at(by_h, x=2.0)) == (37.0, 12.0)
    assert at(Rop(y, [x, h], [1.0, 10.0]), x=2.0) == 37.0 + 120.0
    assert at(Rop(y, h, 10.0), x=2.0) == 120.0
    assert at(Rop(x, x, 5.0)) == 5.0


def test_an_op_without_a_forward_rule_is_transposed() -> None:
    from workbench.core.op import OPS
    from workbench.ops.define import op

    square = op("square_in_test", lambda x: x * x, lambda g, y, x: 2 * g * x)
    try:
        from workbench.core.tensor import apply

        x = wb.scalar("x")
        y = apply(square, (x,))
        assert at(Rop(y, x, 10.0), x=3.0) == 60.0
        assert at(wb.grad(Rop(y, x, x), x), x=3.0) == 12.0
    finally:
        del OPS["square_in_test"]


def test_disconnected() -> None:
    x, y = wb.scalars("x y")
    with pytest.raises(DisconnectedInputError, match="'y'"):
        Lop(x * 2, [x, y], 1.0)
    a, b = Lop(x * 2, [x, y], 1.0, disconnected_inputs="ignore")
    assert (at(a), at(b, y=0.0)) == (2.0, 0.0)
    with pytest.raises(DisconnectedInputError, match="depends on none of 'y'"):
        Rop([y * 2, x * 2], y, 1.0)
    with pytest.raises(DisconnectedInputError):
        Rop(disconnected_grad(y), y, 1.0)
    found = Rop(
        [y * 2, x * 2], y, 1.0, disconnected_outputs="ignore",
        return_disconnected="Disconnected",
    )  # fmt: skip
    assert at(found[0]) == 2.0
    assert isinstance(found[1], DisconnectedType)
    with pytest.warns(UserWarning, match="depends on none"):
        assert at(Rop(x * 2, y, 1.0, disconnected_outputs="warn"), x=1.0) == 0.0
    # Flat is connected.
    assert at(Rop(np.floor(y), y, 1.0), y=1.5) == 0.0
    assert Lop(x * 2, x, None, "", "ignore", "None") is None
    held = Lop(x * 2 + y, x, 1.0, consider_constant=[y])
    assert at(held) == 2.0


def test_bad_arguments() -> None:
    x = wb.vector("x", shape=3)
    y = x[:2] * 2
    with pytest.raises(ShapeError, match=r"cotangent given for .* has shape \(3,\)"):
        Lop(y, x, np.ones(3))
    with pytest.raises(ShapeError, match=r"tangent given for 'x' has shape \(2,\)"):
        Rop(y, x, np.ones(2))
    with pytest.raises(DtypeError, match="complex128"):
        Rop(y, x, np.ones(3) * 1j)
    with pytest.raises(UsageError, match="eval_points holds 1 values, and f 2"):
        Lop([y, y], x, [np.ones(2)])
    with pytest.raises(UsageError, match="eval_points holds 3 values, and wrt 2"):
        Rop(y, [x, x], [None, None, None])
    with pytest.raises(UsageError, match="not an expression"):
        Lop(3.0, x, 1.0)


def test_under_wb() -> None:
    x, y = wb.scalars("x y")
    f = x**2 * y
    value, pull = wb.vjp(f, x, y)
    assert value is f
    assert [at(g, x=3.0, y=2.0) for g in pull(10.0)] == [120.0, 90.0]
    value, t = wb.jvp(f, (x, y), (1.0, 10.0))
    assert value is f
    assert at(t, x=3.0, y=2.0) == 12.0 + 90.0
    value, several = wb.jvp([f, x], [x], [1.0])
    assert [at(t, x=3.0, y=2.0) for t in several] == [12.0, 1.0]
    with pytest.raises(UsageError, match="has_aux"):
        wb.jvp(f, (x,), (1.0,), has_aux=True)


def test_directions_under_wb() -> None:
    x, v = wb.vector("x", shape=2), np.array([1.0, 1.0])
    point = np.array([1.0, 2.0])
    f = x**2
    value, derivative = wb.linearize(f, x)
    assert value is f
    assert at(derivative(v), x=point).tolist() == [2.0, 4.0]
    assert at(wb.elementwise_grad(f, x), x=point).tolist() == [2.0, 4.0]
    # J' H J v with J = diag(2 x) and H = 1.
    assert at(wb.gnvp(f, np.sum(f**2) / 2, x, v), x=point).tolist() == [4.0, 16.0]
    with pytest.raises(UsageError, match="argnames='x' is for functions"):
        wb.elementwise_grad(f, x, argnames="x")


def test_C2_the_tangent_of_a_gradient_that_is_the_same_everywhere() -> None:
    """A derivative of x that does not read it is connected to it, and does not move."""
    x, y = wb.vector("x", shape=3), wb.vector("y", shape=3)
    slope = wb.gradient.grad(np.sum(x * 2), x)
    assert Rop(slope, x, x).eval(x=np.ones(3)).tolist() == [0, 0, 0]
    assert Rop(slope + x, x, x).eval(x=np.ones(3)).tolist() == [1, 1, 1]
    with pytest.raises(DisconnectedInputError, match="depends on none of 'x'"):
        Rop(y * 2, x, x)
    with pytest.raises(DisconnectedInputError, match="depends on none of 'y'"):
        Rop(slope, y, y)
