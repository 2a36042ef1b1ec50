"""Overrides in forward mode, in Jacobians and at second order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.overrides.network import PARAMETERS, RULES, assert_same, by_hand, loss
from workbench.errors import ExpressionError, OverrideError, UsageError

# Forward mode


@pytest.mark.parametrize("rule", ["0.5 * d", "-d", "g", "d * y", "zeros_like(d)", "0"])
def test_a_linear_rule_is_transposed_for_forward_mode(rule: str) -> None:
    """<gradient, direction> = the tangent, for the overridden gradient."""
    given = [wb.override("tanh", rule)]
    direction = tuple(np.cos(np.arange(np.size(p)) + 1.0).reshape(np.shape(p))
                      for p in PARAMETERS)  # fmt: skip
    expected = sum(
        np.sum(g * t) for g, t in zip(by_hand(RULES[rule]), direction, strict=True)
    )
    tangent = wb.jvp(loss, PARAMETERS, direction, overrides=given)[1]
    assert tangent == pytest.approx(expected, rel=1e-12, abs=1e-15)


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        ("clip(d, -1e9, 1e9)", "clip is not linear"),
        ("d * g", "multiply is not linear"),
        ("d + 1", "not the sum"),
        ("sign(d)", "not the sum"),
        ("where(g > 100, 2 * d, d)", "not linear"),
        (lambda node, g: np.abs(g), "not linear"),
    ],
)
def test_a_rule_that_is_not_linear_makes_forward_mode_an_error(
    rule: Any, why: str
) -> None:
    f, x = np.tanh, np.array([0.2, -0.3])
    odd = wb.override("tanh", rule, name="my rule")
    with pytest.raises(OverrideError, match="'my rule' on tanh") as caught:
        wb.jvp(f, (x,), (x,), overrides=[odd])
    assert why in str(caught.value)
    assert 'jvp="true"' in str(caught.value)
    asked = wb.override("tanh", rule, jvp="true")
    expected = (1 - np.tanh(x) ** 2) * x
    assert_same([wb.jvp(f, (x,), (x,), overrides=[asked])[1]], [expected])


def test_a_forward_rule_of_its_own() -> None:
    x = np.array([0.2, -0.3])
    for rule in ("3 * t", "d + 2 * t - (1 - y**2) * t + t", lambda node, t: 3 * t):
        three = wb.override("tanh", "clip(d, -1, 1)", jvp=rule)
        assert_same([wb.jvp(np.tanh, (x,), (x,), overrides=[three])[1]], [3 * x])
    product = wb.override("multiply", "d", jvp="t0 * x1 - t1 * x0")
    tangents = np.array([1.0, 2.0]), np.array([3.0, 5.0])
    found = wb.jvp(lambda x, y: x * y, (x, 2 * x), tangents, overrides=[product])[1]
    assert_same([found], [tangents[0] * 2 * x - tangents[1] * x])
    odd = wb.override("multiply", "d", jvp="2 * t")
    with pytest.raises(ExpressionError, match="multiply has 2 inputs: write t0, t1"):
        wb.jvp(lambda x, y: x * y, (x, x), tangents, overrides=[odd])


def test_a_true_reverse_rule_can_be_asked_for() -> None:
    forward_only = wb.override("tanh", "true", jvp="5 * t")
    assert wb.grad(np.tanh, overrides=[forward_only])(0.0) == 1
    assert wb.jvp(np.tanh, (0.0,), (1.0,), overrides=[forward_only])[1] == 5


@pytest.mark.parametrize("mode", ["rev", "auto"])
def test_a_rule_that_looks_at_values_runs_one_row_at_a_time(mode: Any) -> None:
    def rule(node: Any, g: Any) -> Any:
        return 2 * g if np.sum(g) > 0.5 else 0 * g

    x = np.array([0.25, 1.0, 2.0])
    large = [wb.override("tanh", vjp=rule)]
    found = wb.jacobian(lambda x: np.tanh(x) * x, mode=mode, overrides=large)(x)
    assert_same([found], [np.diag(np.tanh(x) + np.array([0.0, 2.0, 4.0]))])

    def doubled(node: Any, g: Any) -> Any:
        return 2 * g if np.any(g) else 0 * g

    any_at_all = [wb.override("tanh", vjp=doubled)]
    f = lambda x: np.tanh(x) * (x + 1j)  # noqa: E731
    found = wb.jacobian(f, mode=mode, overrides=any_at_all)(x)
    assert_same([found], [np.diag(np.tanh(x) + 2 * x + 2j)])


def test_jacobian_by_itself_goes_backwards_where_it_cannot_go_forwards() -> None:
    x = np.array([0.2])
    clip = [wb.override("tanh", "clip(d, -0.1, 0.1)")]
    f = lambda x: np.tanh(x) * np.ones(3)  # noqa: E731
    assert_same([wb.jacobian(f, overrides=clip)(x)], [np.full((3, 1), 0.1)])


# Second order


def test_the_override_itself_is_differentiated() -> None:
    """The first derivative is 2 (1 - y²); its own runs 2 (1 - y²) for dy/dx."""
    x = np.array([0.2, -0.3, 0.9])
    y = np.tanh(x)
    f = lambda x: np.sum(np.tanh(x))  # noqa: E731
    double = [wb.override("tanh", "2 * d")]
    inner = wb.grad(lambda x: np.sum(wb.grad(f, overrides=double)(x)))(x)
    assert_same([inner], [2 * -2 * y * (1 - y**2)])
    with wb.overrides(*double):
        third = wb.grad(lambda x: wb.grad(wb.grad(np.tanh))(x))(0.4)
    # d/dx of -8 y (1 - y²) with dy/dx = 2 (1 - y²)
    y = np.tanh(0.4)
    assert third == pytest.approx((-8 + 24 * y**2) * 2 * (1 - y**2))


#: At sin: dy/dx is 2 x, in place of cos(x).
BENT: dict[str, Any] = {
    "op": lambda: wb.override("sin", "g * 2 * x"),
    "predicate": lambda: wb.override(lambda n: n.op.name == "sin", "g * 2 * x"),
    "scope": lambda: wb.override("bent", "g * 2 * x"),
    "pattern": lambda: wb.override(wb.pattern(lambda v: np.sin(v)), "g * 2 * x"),
}


def seconds(f: Any, bent: Any, x: Any) -> list[Any]:
    """The second derivative by each function that takes an override twice."""
    inner = wb.grad(f, overrides=[bent])
    X = wb.vector("X")
    with wb.overrides(bent):
        block = [wb.hessian(f)(x).diagonal(), wb.hvp(f, x, np.ones(2))]
        block.append(wb.grad(lambda x: np.sum(wb.grad(f)(x)))(x))
    return [
        *block,
        wb.hessian(f, overrides=[bent])(x).diagonal(),
        wb.hvp(f, x, np.ones(2), overrides=[bent]),
        wb.hessian(f, overrides=[bent], sparse=True)(x).diagonal(),
        wb.grad(lambda x: np.sum(inner(x)), overrides=[bent])(x),
        wb.function([X], wb.hessian(f(X), X, overrides=[bent]))(x).diagonal(),
        wb.function([X], wb.hvp(f(X), X, np.ones(2), overrides=[bent]))(x),
    ]


@pytest.mark.parametrize("target", BENT)
def test_an_override_at_second_order_is_a_function_with_that_gradient(
    target: str,
) -> None:
    """The gradient of sin² is 2 sin(x) 2 x, and reads sin, whose slope is 2 x again."""
    x = np.array([0.3, 0.7])

    def f(x: Any) -> Any:
        with wb.scope("bent"):
            y = np.sin(x)
        return np.sum(y**2)

    by_hand = 4 * np.sin(x) + 4 * x * 2 * x
    for found in seconds(f, BENT[target](), x):
        np.testing.assert_allclose(found, by_hand, rtol=1e-12)
    sine = wb.custom_vjp(np.sin, lambda node, g: g * 2 * node.inputs[0])
    written = wb.hessian(lambda x: np.sum(sine(x) ** 2))(x)
    np.testing.assert_allclose(written.diagonal(), by_hand, rtol=1e-12)
    # Of the inner derivative alone, it leaves the outer one true: that of a function.
    inner = wb.grad(f, overrides=[BENT[target]()])
    outside = wb.grad(lambda x: np.sum(inner(x)))(x)
    np.testing.assert_allclose(outside, 4 * np.sin(x) + 4 * x * np.cos(x), rtol=1e-12)
    h = 1e-6
    np.testing.assert_allclose(outside, (inner(x + h) - inner(x - h)) / (2 * h), 1e-8)


@pytest.mark.parametrize("target", BENT)
@pytest.mark.parametrize("inside", ["plain", "scan", "checkpoint", "vmap"])
def test_a_node_that_a_rule_made_keeps_its_true_rule(target: str, inside: str) -> None:
    """The gradient of cos holds a sin of its own, which no override of sin means."""
    x = np.array([0.3, 0.7])

    def both(x: Any) -> Any:
        with wb.scope("bent"):
            y = np.sin(x)
        return y + np.cos(x)

    run = {
        "plain": both,
        "scan": lambda x: wb.scan(both, initial=x, n_steps=1)[-1],
        "checkpoint": wb.checkpoint(both),
        "vmap": wb.vmap(both),
    }[inside]
    for found in seconds(lambda x: np.sum(run(x)), BENT[target](), x):
        np.testing.assert_allclose(found, 2 - np.cos(x), rtol=1e-12)


def test_a_rule_that_is_not_linear_has_a_hessian() -> None:
    """Of sum(clip(3 x², ±1)): 6 x where the bounds do not hold it."""
    clip = [wb.override("power", "clip(d, -1, 1)")]
    x = np.array([0.3, 2.0])
    found = wb.hessian(lambda x: np.sum(x**3), overrides=clip)(x)
    assert_same([found], [np.diag([1.8, 0.0])])


def test_a_hessian_goes_backwards_twice_where_forward_mode_cannot_follow() -> None:
    x = np.array([0.2, 1.5])
    clip = [wb.override("tanh", "clip(d, -0.5, 0.5)")]
    found = wb.hessian(lambda x: np.sum(np.sin(np.tanh(x))), overrides=clip)(x)
    y = np.tanh(x[1])  # at 0.2 the gradient is clipped, and so constant
    second = (-np.sin(y) * (1 - y**2) - 2 * y * np.cos(y)) * (1 - y**2)
    assert_same([found], [np.diag([0.0, second])])


def test_a_forward_rule_must_give_one_tangent_for_each_output() -> None:
    """Also of an op with several outputs, where None would be zero in silence."""
    x = np.array([[1.0, 0.2], [0.1, 2.0]])

    def push(jvp: Any) -> Any:
        rule = wb.override("qr", lambda node, *g: node.vjp(*g), jvp=jvp)
        return wb.jvp(lambda x: np.linalg.qr(x), (x,), (x,), overrides=[rule])[1]

    half = push(lambda node, t: (np.zeros_like(node.outputs[0]), 0.5 * t))
    np.testing.assert_array_equal(half[0], 0)
    np.testing.assert_array_equal(half[1], 0.5 * x)
    for jvp, words in (
        (lambda node, t: None, "returned None: does it end with a `return`"),
        (
            lambda node, t: (0.5 * t, None),
            r"None for the tangent of output 1. .*np.zeros_like\(node.outputs\[1\]\)",
        ),
        (lambda node, t: t, "gives 1 tangent; qr has 2 outputs"),
        (lambda node, t: (t, t, t), "gives 3 tangents; qr has 2 outputs"),
        (lambda node, t: (t, t[0, :1, None] * np.ones((3, 1))), "tangent 1 has shape"),
        (lambda node, t: (t > 0, t), "tangent 0 is of dtype bool"),
    ):
        with pytest.raises(OverrideError, match=words):
            push(jvp)
    given = [wb.override("tanh", "d", jvp="t > 0")]
    with pytest.raises(OverrideError, match="the tangent is of dtype bool"):
        wb.jvp(np.tanh, (x,), (x,), overrides=given)


X = np.array([0.4, -1.0])


@pytest.mark.parametrize(
    "make",
    [
        lambda: wb.custom_jvp(lambda x: np.sin(x), jvp=lambda node, t: None),
        lambda: wb.custom_vjp(
            lambda x: np.sin(x), vjp=lambda node, g: g, jvp=lambda node, t: None
        ),
        lambda: with_defjvp(lambda primals, tangents: (np.sin(primals[0]), None)),
        lambda: with_defjvp(lambda primals, tangents: None),
        lambda: of_graph(lambda node, t: None),
        lambda: of_graph([lambda node, t: None]),
        lambda: of_graph(lambda node, t: [None]),
        lambda: wb.custom_jvp(lambda x: np.sin(x), jvp=lambda node, t: [None]),
        lambda: of_graph(lambda node, t: None, inline=True),
    ],
    ids=[
        "custom_jvp",
        "custom_vjp",
        "defjvp None",
        "defjvp",
        "graph",
        "list",
        "[None]",
        "custom [None]",
        "inline",
    ],
)
def test_a_forward_rule_that_forgets_its_return_is_told_so_everywhere(
    make: Any,
) -> None:
    f = make()
    with pytest.raises(UsageError, match="returned None") as caught:
        wb.jvp(f, (X,), (X,))
    assert "test_override_modes.py:" in str(caught.value)
    assert "Call.ahead" not in str(caught.value)


def with_defjvp(rule: Any) -> Any:
    f = wb.custom_jvp(lambda x: np.sin(x))
    f.defjvp(rule)
    return f


def of_graph(rule: Any, **more: Any) -> Any:
    x = wb.vector("x")
    return wb.OpFromGraph([x], [np.sin(x)], jvp=rule, **more)


@pytest.mark.parametrize("op", ["eigh", "svd"])
@pytest.mark.parametrize("inside", ["checkpoint", "scan"])
def test_a_rule_that_looks_at_its_numbers_is_followed_without_them(
    op: str, inside: str
) -> None:
    """`eigh` looks which entries of ``g`` are zero, which recording cannot tell."""

    def core(a: Any) -> Any:
        found = np.linalg.eigh(a)[1] if op == "eigh" else np.linalg.svd(a)[0]
        return np.sum(found * np.arange(4.0).reshape(2, 2))

    def f(a: Any) -> Any:
        if inside == "checkpoint":
            return wb.checkpoint(core)(a)
        step = lambda h, a: h + core(a)  # noqa: E731
        return wb.scan(step, None, [0.0], a, n_steps=1, last=True)

    A, t = np.array([[2.0, 0.3], [0.3, 1.0]]), np.array([[0.3, 0.1], [0.1, 0.7]])
    true = [wb.override(op, lambda node, *g: node.vjp(*g))]
    _, moved = wb.jvp(f, (A,), (t,), overrides=true)
    np.testing.assert_allclose(moved, wb.jvp(core, (A,), (t,))[1], rtol=1e-9)
    second = wb.hessian(f, overrides=true)(A)
    np.testing.assert_allclose(second, wb.hessian(core)(A), rtol=1e-9, atol=1e-9)
