"""Overrides of every part of a program that has one structure.

The truth is the chain rule of a small network, written by hand in NumPy, with the
rule of the override where its linear parts are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.compat import theano
from workbench.compat.theano import tensor as T
from workbench.errors import OverrideError

RNG = np.random.default_rng(20170113)
W1, B1 = RNG.normal(size=(3, 2)), RNG.normal(size=3)
W2, B2 = RNG.normal(size=(4, 3)), RNG.normal(size=4)
W3, B3 = RNG.normal(size=(1, 4)), RNG.normal(size=1)
X = RNG.normal(size=2)
PARAMETERS = (W1, B1, W2, B2, W3, B3)
ALL = tuple(range(6))


def linear(W: Any, x: Any, b: Any) -> Any:
    return W @ x + b


LINEAR = wb.pattern(lambda W, x, b: W @ x + b)


def loss(w1: Any, b1: Any, w2: Any, b2: Any, w3: Any, b3: Any) -> Any:
    h = np.tanh(w1 @ X + b1)
    k = np.sin(b2 + w2 @ h)  # the sum the other way round
    return np.sum((w3 @ k + b3) ** 2) + 0.1 * np.sum(w2 * w2)


Rule = Callable[[Any, Any, Any, Any], tuple[Any, Any, Any]]


def by_hand(rule: Rule) -> list[Any]:
    """The gradient, with ``rule(W, x, b, g) -> (dW, dx, db)`` at each linear part."""
    a1 = W1 @ X + B1
    h = np.tanh(a1)
    a2 = W2 @ h + B2
    k = np.sin(a2)
    a3 = W3 @ k + B3
    d_w3, d_k, d_b3 = rule(W3, k, B3, 2 * a3)
    d_w2, d_h, d_b2 = rule(W2, h, B2, d_k * np.cos(a2))
    d_w1, _, d_b1 = rule(W1, X, B1, d_h * (1 - h**2))
    return [d_w1, d_b1, d_w2 + 0.2 * W2, d_b2, d_w3, d_b3]


def true(W: Any, x: Any, b: Any, g: Any) -> tuple[Any, Any, Any]:
    return np.outer(g, x), W.T @ g, g


def bent(W: Any, x: Any, b: Any, g: Any) -> tuple[Any, Any, Any]:
    """A rule that is not a gradient of anything, and reads every wildcard."""
    d_w, d_x, d_b = true(W, x, b, g)
    return d_w / (1 + np.sum(x**2)), np.clip(d_x, -0.5, 0.5), d_b * np.cos(b)


def bent_rule(node: Any, g: Any) -> list[Any]:
    _W, x, b = node.inputs
    d_w, d_x, d_b = node.vjp(g)
    return [d_w / (1 + np.sum(x**2)), np.clip(d_x, -0.5, 0.5), d_b * np.cos(b)]


def assert_same(found: Any, expected: Any) -> None:
    for a, b in zip(found, expected, strict=True):
        assert np.shape(a) == np.shape(b)
        np.testing.assert_allclose(a, b, rtol=1e-13, atol=1e-15)


def test_what_is_broadcast_inside_a_match_is_summed_back() -> None:
    one = wb.override(wb.pattern(lambda a, b: np.tanh(np.sum(a) * b)), "2 * d")
    a, b = RNG.normal(size=3), RNG.normal(size=4)
    found = wb.grad(
        lambda a, b: np.sum(np.tanh(np.sum(a) * b)), (0, 1), overrides=[one]
    )(a, b)
    slope = 2 / np.cosh(np.sum(a) * b) ** 2
    assert_same(found, [np.full(3, np.sum(slope * b)), slope * np.sum(a)])


# The seed's question


def test_B3_all_linear_parts_of_a_function_at_once() -> None:
    assert_same(wb.grad(loss, ALL)(*PARAMETERS), by_hand(true))
    given = [wb.override(LINEAR, bent_rule)]
    assert_same(wb.grad(loss, ALL, overrides=given)(*PARAMETERS), by_hand(bent))


def test_B3_before_the_graph_exists_and_after() -> None:
    one = wb.override(LINEAR, bent_rule)
    with wb.overrides(one):
        found = wb.grad(loss, ALL)(*PARAMETERS)
    assert_same(found, by_hand(bent))
    session = wb.Session(wb.trace(loss)(*PARAMETERS))
    attached = session.override(LINEAR, bent_rule)
    assert_same([session.grads[i] for i in session.wrt], by_hand(bent))
    session.undo()
    assert_same([session.grads[i] for i in session.wrt], by_hand(true))
    session.redo()
    session.switch(attached, False)
    assert_same([session.grads[i] for i in session.wrt], by_hand(true))
    (listed,) = session.overrides
    assert len(listed.matched) == 3
    assert not listed.enabled


def test_B3_symbols() -> None:
    names = ["w1", "b1", "w2", "b2", "w3", "b3"]
    symbols = [
        wb.matrix(n) if n[0] == "w" else wb.vector(n) for n in names
    ]  # fmt: skip
    cost = loss(*symbols)
    given = [wb.override(LINEAR, bent_rule)]
    f = wb.function(symbols, wb.grad(cost, symbols, overrides=given))
    assert_same(f(*PARAMETERS), by_hand(bent))
    f = wb.function(symbols, wb.grad(cost, symbols))
    assert_same(f(*PARAMETERS), by_hand(true))


def test_B3_a_model_of_an_old_program_with_its_own_dot() -> None:
    """The seed: y = theano.tensor.dot(W, x) + b, several times."""
    ws = [theano.shared(w, name=f"W{i}") for i, w in enumerate((W1, W2, W3))]
    bs = [theano.shared(b, name=f"b{i}") for i, b in enumerate((B1, B2, B3))]
    x = T.dvector("x")
    h = T.tanh(T.dot(ws[0], x) + bs[0])
    k = T.sin(T.dot(ws[1], h) + bs[1])
    cost = T.sum((T.dot(ws[2], k) + bs[2]) ** 2) + 0.1 * T.sum(ws[1] * ws[1])
    parameters = [p for pair in zip(ws, bs, strict=True) for p in pair]
    dots = wb.pattern(lambda W, x, b: T.dot(W, x) + b)
    with wb.overrides(wb.override(dots, bent_rule)):
        grads = T.grad(cost, parameters)
    f = theano.function([x], grads)
    assert_same(f(X), by_hand(bent))
    assert_same(theano.function([x], T.grad(cost, parameters))(X), by_hand(true))


def test_B3_everything_else_is_untouched_bit_for_bit() -> None:
    """With the true rule at the linear parts, every bit is that of no override."""
    plain = wb.grad(loss, ALL)(*PARAMETERS)
    for rule in ("d", lambda node, g: node.vjp(g), "true"):
        given = [wb.override(LINEAR, rule, jvp="true")]
        found = wb.grad(loss, ALL, overrides=given)(*PARAMETERS)
        for a, b in zip(found, plain, strict=True):
            assert np.array_equal(a, b)
    only = wb.override(wb.pattern(lambda a, b: np.sin(a + b)), "0 * d")
    found = wb.grad(loss, ALL, overrides=[only])(*PARAMETERS)
    assert np.array_equal(found[4], plain[4])
    assert np.array_equal(found[5], plain[5])
    assert not np.any(found[0])
    assert np.array_equal(found[2], 0.2 * W2)


# Rules


def test_an_expression_names_the_wildcards_in_order() -> None:
    text = "d * sum(x1) + 0 * sum(x0) + 0 * sum(x2) + 0 * sum(y)"
    given = [wb.override(LINEAR, text)]

    def rule(W: Any, x: Any, b: Any, g: Any) -> Any:
        return tuple(np.sum(x) * d for d in true(W, x, b, g))

    assert_same(wb.grad(loss, ALL, overrides=given)(*PARAMETERS), by_hand(rule))


def test_a_rule_sees_one_node_for_the_whole_part() -> None:
    seen: list[Any] = []

    def rule(node: Any, g: Any) -> Any:
        seen.append(node)
        return node.vjp(g)

    wb.grad(loss, ALL, overrides=[wb.override(LINEAR, rule)])(*PARAMETERS)
    assert [node.op.name for node in seen] == ["W @ x + b"] * 3
    last = seen[0]
    assert np.array_equal(last.inputs[0], W3)
    assert np.array_equal(last.inputs[2], B3)
    assert np.allclose(last.outputs[0], W3 @ last.inputs[1] + B3)
    assert not last.inputs[0].flags.writeable
    assert last["W"] is last.inputs[0]
    with pytest.raises(
        OverrideError, match="no input called 'v' here; it has 'W', 'x'"
    ):
        last["v"]


def test_a_gradient_of_a_wrong_shape_names_the_pattern() -> None:
    one = wb.override(LINEAR, lambda node, g: [g, g, g], name="mine")
    with pytest.raises(
        OverrideError, match=r"'mine' on W @ x \+ b .*input 0 has shape"
    ):
        wb.grad(loss, ALL, overrides=[one])(*PARAMETERS)
    one = wb.override(LINEAR, lambda node, g: [g, g], name="mine")
    with pytest.raises(OverrideError, match=r"returned 2 gradients; W @ x \+ b has 3"):
        wb.grad(loss, ALL, overrides=[one])(*PARAMETERS)


# Ranks, and places that can be read in two ways


def turned(x: Any, W: Any, b: Any) -> Any:
    return x @ W + b


def test_ranks_tell_a_weight_from_an_input() -> None:
    """Without them a wildcard is what stands in its place, whatever it is called."""
    seen: list[Any] = []

    def rule(node: Any, g: Any) -> Any:
        seen.append([np.shape(x) for x in node.inputs])
        return node.vjp(g)

    def both(w: Any, v: Any, b: Any) -> Any:
        return np.sum(np.sin(w @ X + b)) + np.sum(np.cos(X @ v + b))

    v = RNG.normal(size=(2, 3))
    swapped = wb.override(wb.pattern(turned), rule)
    wb.grad(both, (0, 1, 2), overrides=[swapped])(W1, v, B1)
    assert sorted(seen) == [[(2,), (2, 3), (3,)], [(3, 2), (2,), (3,)]]
    seen.clear()
    ranks: list[dict[str, Any]] = [
        {"W": 2, "x": 1}, {"W": 2, "x": (1, 3)}, {"x": [1]},
    ]  # fmt: skip
    for declared in ranks:
        one = wb.override(wb.pattern(turned, **declared), rule)
        wb.grad(both, (0, 1, 2), overrides=[one])(W1, v, B1)
        assert seen == [[(2,), (2, 3), (3,)]]
        seen.clear()
    # A rule for the weight hits the weight.
    text = "2 * d + 0 * sum(x0)"
    double = wb.override(wb.pattern(linear, W=2, x=1, b=1), text)
    d_w, d_v, _ = wb.grad(both, (0, 1, 2), overrides=[double])(W1, v, B1)
    assert np.allclose(d_w, 2 * np.outer(np.cos(W1 @ X + B1), X))
    assert np.allclose(d_v, -np.outer(X, np.sin(X @ v + B1)))


def test_ranks_that_fit_nowhere_say_so() -> None:
    one = wb.override(wb.pattern(turned, W=2, x=1), "0.5 * d")
    with pytest.raises(OverrideError, match="it stands x is of rank 2, not x=1"):
        wb.grad(loss, ALL, overrides=[one])(*PARAMETERS)
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"V": 2}, "it has no wildcard 'V', but x, W, b"),
        ({"W": "2"}, "is not a rank"),
        ({"W": -1}, "is not a rank"),
        ({"W": ()}, "is not a rank"),
    ]
    for declared, told in wrong:
        with pytest.raises(OverrideError, match=told):
            wb.pattern(turned, **declared)


def test_ranks_stand_in_the_code() -> None:
    session = wb.Session(wb.trace(loss)(*PARAMETERS), name="net")
    made = wb.pattern(lambda W, x, b: W @ x + b, W=2, x=(1, 2))
    attached = session.override(made, "0.5 * d")
    assert made.code == "wb.pattern(lambda W, x, b: W @ x + b, W=2, x=(1, 2))"
    assert made.code in session.code()
    assert len(attached.matched) == 3


def two_products(a: Any, u: Any, b: Any, v: Any) -> Any:
    return np.sum(np.sin(a @ u + b @ v))


def test_two_readings_with_other_roles_are_an_error() -> None:
    """``A @ u + B @ v``: which product is inside, and which the wildcard ``b``?"""
    a, u, b, v = W1, X, RNG.normal(size=(3, 3)), B1
    one = wb.override(LINEAR, halved_rule)
    with pytest.raises(OverrideError) as caught:
        wb.grad(two_products, ALL[:4], overrides=[one])(a, u, b, v)
    text = str(caught.value)
    for part in ("in two ways", "the input 'a'", "the input 'b'", "where=lambda"):
        assert part in text
    with pytest.raises(OverrideError, match="in two ways"), wb.overrides(one):
        wb.grad(two_products)(a, u, b, v)
    session = wb.Session(wb.trace(two_products)(a, u, b, v))
    with pytest.raises(OverrideError, match="in two ways"):
        session.override(LINEAR, halved_rule)
    session.override(LINEAR, halved_rule, enabled=False)
    # A condition decides, and nothing else: not the order, not the names.
    g = np.cos(a @ u + b @ v)
    for shape, factors in (((3, 2), (0.5, 3)), ((3, 3), (3, 0.5))):
        chosen = wb.pattern(linear, where=lambda m, s=shape: m["W"].shape == s)
        given = [wb.override(chosen, halved_rule)]
        found = wb.grad(two_products, (0, 2), overrides=given)(a, u, b, v)
        first, second = factors
        assert_same(found, [first * np.outer(g, u), second * np.outer(g, v)])
    # A text that treats all inputs alike need not know.
    alike = wb.override(LINEAR, "0.25 * d")
    found = wb.grad(two_products, (0, 2), overrides=[alike])(a, u, b, v)
    assert_same(found, [0.25 * np.outer(g, u), 0.25 * np.outer(g, v)])


# Forward mode, higher orders


def directional(rule: Rule, tangents: Any) -> float:
    """The derivative of the loss along tangents."""
    pairs = zip(by_hand(rule), tangents, strict=True)
    return float(sum(np.sum(g * t) for g, t in pairs))


def halved(W: Any, x: Any, b: Any, g: Any) -> Any:
    d_w, d_x, d_b = true(W, x, b, g)
    return d_w * 0.5, d_x * 2.0, d_b * 3.0


def halved_rule(node: Any, g: Any) -> Any:
    d_w, d_x, d_b = node.vjp(g)
    return [d_w * 0.5, d_x * 2.0, d_b * 3.0]


TANGENTS = tuple(RNG.normal(size=np.shape(p)) for p in PARAMETERS)


def test_B5_forward_mode_is_the_transpose_of_a_linear_rule() -> None:
    given = [wb.override(LINEAR, halved_rule)]
    _, moved = wb.jvp(loss, PARAMETERS, TANGENTS, overrides=given)
    assert np.isclose(moved, directional(halved, TANGENTS), rtol=1e-12)


def test_B5_a_rule_that_is_not_linear_says_so_in_forward_mode() -> None:
    given = [wb.override(LINEAR, bent_rule)]
    with pytest.raises(OverrideError, match="forward mode cannot follow it"):
        wb.jvp(loss, PARAMETERS, TANGENTS, overrides=given)
    given = [wb.override(LINEAR, bent_rule, jvp="true")]
    _, moved = wb.jvp(loss, PARAMETERS, TANGENTS, overrides=given)
    assert np.isclose(moved, directional(true, TANGENTS), rtol=1e-12)


def test_a_forward_rule_sees_the_tangents_of_the_wildcards() -> None:
    def rule(node: Any, t_w: Any, t_x: Any, t_b: Any) -> Any:
        W, x, _ = node.inputs
        moved = 0.5 * (t_w @ x) + 3.0 * t_b
        return moved if t_x is None else moved + 2.0 * (W @ t_x)

    given = [wb.override(LINEAR, bent_rule, jvp=rule)]
    _, moved = wb.jvp(loss, PARAMETERS, TANGENTS, overrides=given)
    assert np.isclose(moved, directional(halved, TANGENTS), rtol=1e-12)
    given = [wb.override(LINEAR, bent_rule, jvp="0.25 * d")]

    def f(w: Any, x: Any, b: Any) -> Any:
        return np.sum(linear(w, x, b))

    _, moved = wb.jvp(f, (W1, X, B1), (0 * W1, 0 * X, np.ones(3)), overrides=given)
    assert np.isclose(moved, 0.75)


def small(w: Any, x: Any, b: Any) -> Any:
    return np.sum(np.sin(w * x + b))


def test_second_order_differentiates_the_rule() -> None:
    """At y = w x + b the rule passes g * y on to b, and to w nothing."""
    scale = wb.pattern(lambda w, x, b: w * x + b)

    def rule(node: Any, g: Any) -> Any:
        return [0 * g, 0 * g, g * node.outputs[0]]

    given = [wb.override(scale, rule)]
    w, x, b = np.array([0.7, 1.3]), np.array([0.2, -0.8]), np.array([0.4, -0.1])
    y = w * x + b
    found = wb.grad(small, 2, overrides=given)(w, x, b)
    assert np.allclose(found, np.cos(y) * y)
    # d/db of cos(y) y, where dy/db is true outside of the override ...
    once = wb.grad(small, 2, overrides=given)
    outside = wb.grad(lambda b: np.sum(once(w, x, b)))(b)
    assert np.allclose(outside, -np.sin(y) * y + np.cos(y))
    # ... and passes through the rule once more inside of it.
    inside = wb.hessian(small, 2, overrides=given)(w, x, b)
    assert np.allclose(inside, np.diag((-np.sin(y) * y + np.cos(y)) * y))


def test_jacobian_hvp_vmap_and_value_and_grad() -> None:
    given = [wb.override(LINEAR, halved_rule)]

    def f(w: Any, x: Any, b: Any) -> Any:
        return np.tanh(w @ x + b)

    slope = 1 - np.tanh(W1 @ X + B1) ** 2
    found = wb.jacobian(f, (1, 2), overrides=given)(W1, X, B1)
    assert np.allclose(found[0], 2.0 * slope[:, None] * W1)
    assert np.allclose(found[1], 3.0 * np.diag(slope))
    for mode in ("fwd", "rev"):
        both = wb.jacobian(f, 2, mode=mode, overrides=given)(W1, X, B1)
        assert np.allclose(both, 3.0 * np.diag(slope))
    value, grads = wb.value_and_grad(loss, ALL, overrides=given)(*PARAMETERS)
    assert np.isclose(value, loss(*PARAMETERS))
    assert_same(grads, by_hand(halved))
    many = RNG.normal(size=(5, 2))
    one = wb.grad(lambda x, w, b: np.sum(f(w, x, b)), overrides=given)
    found = wb.vmap(one, in_axes=(0, None, None))(many, W1, B1)
    for row, x in zip(found, many, strict=True):
        s = 1 - np.tanh(W1 @ x + B1) ** 2
        assert np.allclose(row, 2.0 * W1.T @ s)
    _, pullback = wb.vjp(f, W1, X, B1, overrides=given)
    assert np.allclose(pullback(np.ones(3))[2], 3.0 * slope)


# What is asked by


def test_the_rule_runs_whichever_value_the_gradient_is_asked_by() -> None:
    """Also where one factor alone would vary, and the product is not a node else."""
    given = [wb.override(LINEAR, bent_rule)]
    whole = wb.grad(loss, ALL, overrides=given)(*PARAMETERS)
    for i in ALL:
        found = wb.grad(loss, i, overrides=given)(*PARAMETERS)
        assert np.array_equal(found, whole[i])
    with wb.overrides(*given):
        assert np.array_equal(wb.grad(loss, 1)(*PARAMETERS), whole[1])


def test_a_derivative_by_an_inner_value_passes_the_match_by() -> None:
    w, x, b = wb.matrix("w"), wb.vector("x"), wb.vector("b")
    h = w @ x
    h.name = "h"
    cost = np.sum(np.sin(h + b))
    one = wb.override(LINEAR, "0 * d")
    other = np.sum(np.sin(linear(w, 2 * x, b)))
    f = wb.function([w, x, b], wb.grad(cost + other, [h, b], overrides=[one]))
    by_h, by_b = f(W1, X, B1)
    assert np.allclose(by_h, np.cos(W1 @ X + B1))
    assert np.allclose(by_b, np.cos(W1 @ X + B1))  # the other part passes nothing on
    with pytest.raises(
        OverrideError, match=r"the one place holds matmul 'h' .* inside"
    ):
        wb.grad(cost, h, overrides=[one])
    with wb.overrides(one):
        wb.grad(cost, w)
        wb.grad(cost, h)  # which the block need not mean


def test_shared_weights_count_at_each_place() -> None:
    def f(w: Any, b: Any, c: Any) -> Any:
        h = w @ X[:2]  # read by two sums: each is a match of its own
        return np.sum(np.sin(h + b)) + np.sum(np.cos(h + c))

    w = W1
    c = np.array([0.3, -0.2, 0.5])
    given = [wb.override(LINEAR, halved_rule)]
    found = wb.grad(f, (0, 1, 2), overrides=given)(w, B1, c)
    g1, g2 = np.cos(w @ X + B1), -np.sin(w @ X + c)
    expected = [0.5 * np.outer(g1 + g2, X), 3 * g1, 3 * g2]
    assert_same(found, expected)


def test_an_inner_value_read_elsewhere_keeps_its_true_rule_there() -> None:
    def f(w: Any, x: Any, b: Any) -> Any:
        h = w @ x
        return np.sum(np.sin(h + b)) + np.sum(h**3)

    given = [wb.override(LINEAR, lambda node, g: [None, 0 * node.inputs[1], g])]
    found = wb.grad(f, (0, 1, 2), overrides=given)(W1, X, B1)
    g = 3 * (W1 @ X) ** 2
    assert_same(found, [np.outer(g, X), W1.T @ g, np.cos(W1 @ X + B1)])


def test_one_value_bound_to_two_wildcards_gets_both_gradients() -> None:
    def f(x: Any) -> Any:
        return np.sum(x * x)

    product = wb.pattern(lambda a, b: a * b)
    given = [wb.override(product, lambda node, g: [2 * g, 5 * g * node.inputs[1]])]
    found = wb.grad(f, overrides=given)(X)
    assert_same([found], [2 + 5 * X])
    true = wb.override(product, lambda node, g: node.vjp(g))
    assert_same([wb.grad(f, overrides=[true])(X)], [2 * X])


def test_wildcards_bound_to_each_others_results() -> None:
    """b is computed from x, and W from b: each passes on what it gets."""

    def f(x: Any) -> Any:
        b = np.sin(x)
        w = np.outer(b, x)
        return np.sum(linear(w, x, b))

    def parts(scale: tuple[float, float, float]) -> Any:
        b, one = np.sin(X), np.ones(2)
        w = np.outer(b, X)
        d_w, d_x, d_b = (s * d for s, d in zip(scale, true(w, X, b, one), strict=True))
        return d_x + d_w.T @ b + np.cos(X) * (d_b + d_w @ X)

    assert np.allclose(wb.grad(f)(X), parts((1, 1, 1)))
    found = wb.grad(f, overrides=[wb.override(LINEAR, halved_rule)])(X)
    assert np.allclose(found, parts((0.5, 2, 3)))


def test_a_root_that_is_an_output_and_is_read_besides() -> None:
    def f(w: Any, b: Any) -> Any:
        y = w @ X + b
        return y, np.sum(y * y)

    given = [wb.override(LINEAR, halved_rule)]
    _, pullback = wb.vjp(f, W1, B1, overrides=given)
    seed = np.array([1.0, -2.0, 0.5])
    g = seed + 2 * 1.5 * (W1 @ X + B1)
    assert_same(pullback((seed, 1.5)), [0.5 * np.outer(g, X), 3 * g])


# Values of other kinds


def test_flagged_cotangents_stay_flagged_through_a_match() -> None:
    """Behind a where, 0 from the branch not taken wins over an infinite slope."""
    root = wb.pattern(lambda x, c: np.sqrt(x * c))

    def f(x: Any, c: Any) -> Any:
        return np.sum(np.where(x > 0, np.sqrt(x * c), 0.0))

    x = np.array([0.0, 4.0])
    for rule in ("d", "0.5 * d", lambda node, g: node.vjp(g)):
        found = wb.grad(f, overrides=[wb.override(root, rule)])(x, 1.0)
        half = 0.5 if rule == "0.5 * d" else 1.0
        assert_same([found], [np.array([0.0, 0.25 * half])])
        with np.errstate(all="ignore"):
            second = wb.hessian(f, overrides=[wb.override(root, rule)])(x, 1.0)
        assert np.isfinite(second).all()


def test_integers_and_complex_numbers() -> None:
    at = wb.pattern(lambda table, index: 2 * table[index])
    index = np.array([2, 0, 2])

    def f(table: Any) -> Any:
        return np.sum(2 * table[index])

    found = wb.grad(f, overrides=[wb.override(at, "10 * d")])(np.ones(4))
    assert np.array_equal(found, [20.0, 0.0, 40.0, 0.0])
    square = wb.pattern(lambda a, z: np.abs(a * z) ** 2)

    def g(z: Any) -> Any:
        return np.sum(np.abs((2 - 1j) * z) ** 2)

    z = np.array([1 + 2j, -0.5j])
    found = wb.grad(g, overrides=[wb.override(square, "3 * d")])(z)
    assert np.allclose(found, 3 * 2 * 5 * np.conj(z))  # df/dx - i df/dy


def test_numbers_and_constants_are_wildcards_too() -> None:
    def f(x: Any) -> Any:
        return np.sum(np.array([[1.0, 2.0]]) @ x + 3)

    given = [wb.override(LINEAR, "0.5 * d")]
    assert np.array_equal(wb.grad(f, overrides=given)(X), [0.5, 1.0])
    seen = []

    def rule(node: Any, g: Any) -> Any:
        seen.append(node.inputs[2])
        return [None, node.vjp(g)[1], None]

    wb.grad(f, overrides=[wb.override(LINEAR, rule)])(X)
    assert seen == [3]


def test_ops_with_several_outputs_inside() -> None:
    A = RNG.normal(size=(3, 3))

    def solve(a: Any, b: Any) -> Any:
        q, r = np.linalg.qr(a)
        return r.T @ (q.T @ b)

    def f(a: Any, b: Any) -> Any:
        return np.sum(np.sin(solve(a, b)))

    one = wb.override(wb.pattern(solve), "2 * d")
    plain = wb.grad(f, (0, 1))(A, B1)
    found = wb.grad(f, (0, 1), overrides=[one])(A, B1)
    assert_same(found, [2 * g for g in plain])
    _, moved = wb.jvp(f, (A, B1), (A, B1), overrides=[one])
    expected = sum(np.sum(2 * g * t) for g, t in zip(plain, (A, B1), strict=True))
    assert np.isclose(moved, expected)
