"""Ops made of graphs, with other gradients: rows B1 and B2.

Truth is the analytic derivative of the rule that was given, or complex step and
differences where the gradient is the true one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.custom.atan2_graphs import EPS, atan2_safe, both, linear_atan2
from workbench.backends.numpy import compile as compiled
from workbench.core.graph import Graph

# B2: the seed


@both
def test_B2_the_seed_gives_its_numbers(inline: bool) -> None:
    safe = atan2_safe(inline)
    x, y = wb.scalars("x y")
    arg = safe(x, y)
    dx, dy = wb.grad(arg, [x, y])
    fn = wb.function([x, y], [dx, dy])
    at_one = fn(1.0, 0.0)
    assert np.allclose(at_one, [0.0, 1 / 1.01], rtol=1e-15)
    assert np.round(at_one[1], 6) == 0.990099
    assert np.signbit(at_one[0])  # -0.0, as the seed prints
    at_zero = fn(0.0, 0.0)
    assert [float(v) for v in at_zero] == [0.0, 0.0]


@both
def test_B2_on_functions(inline: bool) -> None:
    safe = atan2_safe(inline)
    assert safe(1.0, 1.0) == np.pi / 4
    dx, dy = wb.grad(safe, (0, 1))(0.0, 0.0)
    assert dx == dy == 0
    plain = wb.grad(lambda x, y: np.arctan2(y, x), (0, 1))
    with np.errstate(all="ignore"):
        assert np.isnan(plain(0.0, 0.0)).any()  # what the op is for


def test_B2_inline_or_whole_is_seen_in_graph_and_text() -> None:
    x, y = wb.scalars("x y")
    ops, texts = [], []
    for inline in (False, True):
        safe = linear_atan2(inline)
        out = safe(x, y)
        function = compiled(Graph([x, y], [out, *wb.grad(out, [x, y])]))
        ops.append({node.op.name for node in function.graph.nodes})
        texts.append(function.source)
        scope: dict[str, Any] = {}
        exec(function.source, scope)  # it runs on its own
        assert np.allclose(
            scope["function"](1.0, 2.0), [np.arctan2(2, 1), -2 / 5.01, 1 / 5.01]
        )
    assert "atan2_linear" in ops[0]
    assert "arctan2" not in ops[0]
    assert "arctan2" in ops[1]
    assert "atan2_linear" not in ops[1]
    assert "def atan2_linear(x, y):" in texts[0]
    assert texts[1].count("def ") == 1


def test_B2_inlined_ops_stand_on_the_line_where_they_were_written() -> None:
    x = wb.scalar("x")
    inside = np.tanh(x) * x
    op = wb.OpFromGraph([x], inside, inline=True, vjp="0.5 * d", name="on_its_line")
    z = wb.scalar("z")
    function = compiled(Graph([z], [op(z) + 1]))
    (tanh,) = [n for n in function.graph.nodes if n.op.name == "tanh"]
    assert tanh.site is not None
    assert "inside = np.tanh(x) * x" in tanh.site.text


# B1: what may be given


def test_B1_without_rules_it_has_the_derivatives_of_its_graph(
    rng: np.random.Generator,
) -> None:
    u, v = wb.vectors("u v")
    body = np.sum(np.exp(u) * np.sin(v))
    for inline in (False, True):
        op = wb.OpFromGraph([u, v], body, inline=inline)
        a, b = rng.normal(size=4), rng.normal(size=4)
        da, db = wb.grad(op, (0, 1))(a, b)
        assert np.allclose(da, np.exp(a) * np.sin(b), rtol=1e-13)
        assert np.allclose(db, np.exp(a) * np.cos(b), rtol=1e-13)
        t = rng.normal(size=4)
        _, moved = wb.jvp(op, (a, b), (t, 0 * t))
        assert np.allclose(moved, da @ t, rtol=1e-13)
        hess = wb.hessian(lambda a, op=op, b=b: op(a, b))(a)
        assert np.allclose(hess, np.diag(np.exp(a) * np.sin(b)), rtol=1e-13)


def rule_of_two(node: Any, g: Any) -> Any:
    x, _ = node.inputs
    return g * 10, -g * x


def doubling(name: str, **more: Any) -> Any:
    x, y = wb.scalars("x y")
    return wb.OpFromGraph([x, y], x * y, name=name, **more)


@pytest.mark.parametrize(
    ("vjp", "expected"),
    [
        (rule_of_two, (10.0, -2.0)),
        ("clip(d, -2.5, 2.5)", (2.5, 2.0)),
        ("true", (3.0, 2.0)),
        ("zero", (0.0, 0.0)),
        ([None, "2 * d"], (3.0, 4.0)),
        (["zero", "true"], (0.0, 2.0)),
        ([lambda node, g: g * 7, None], (7.0, 2.0)),
        ([lambda node, g: [g * 7], "x0 * g"], (7.0, 2.0)),
    ],
    ids=["function", "text", "true", "zero", "none", "words", "bare", "nest"],
)
@both
def test_B1_functions_texts_and_lists(inline: bool, vjp: Any, expected: Any) -> None:
    op = doubling("of_two", vjp=vjp, inline=inline)
    assert wb.grad(op, (0, 1))(2.0, 3.0) == expected
    x, y = wb.scalars("x y")
    grads = wb.grad(op(x, y), [x, y])
    fn = wb.function([x, y], grads, on_unused_input="ignore")
    assert tuple(float(v) for v in fn(2.0, 3.0)) == expected


def test_B1_a_list_of_ops_one_for_each_input() -> None:
    x, y, g = wb.scalars("x y g")
    first = wb.OpFromGraph([x, y, g], g * x * 100, on_unused_input="ignore")
    op = doubling("each_its_own", vjp=[first, None])
    assert wb.grad(op, (0, 1))(2.0, 3.0) == (200.0, 2.0)


def test_B1_a_disconnected_input_is_disconnected() -> None:
    op = doubling("half_apart", vjp=["disconnected", None])
    assert op.connection_pattern() == [[False], [True]]
    x, y = wb.scalars("x y")
    assert float(wb.grad(op(x, y), y).eval({x: 2.0})) == 2.0
    from workbench.errors import DisconnectedInputError

    with pytest.raises(DisconnectedInputError):
        wb.grad(op(x, y), x)


def test_B1_an_op_of_any_code_as_gradient() -> None:
    class Tenfold(wb.Op):
        name = "tenfold_of_a_test"

        def infer(self, x: Any, g: Any) -> Any:
            return g

        def compute(self, x: Any, g: Any) -> Any:
            return 10 * g

    x = wb.scalar("x")
    op = wb.OpFromGraph([x], x**2, vjp=Tenfold(), name="by_tenfold")
    assert wb.grad(op)(3.0) == 10.0


def test_B1_a_gradient_registered_by_the_name() -> None:
    x = wb.scalar("x")
    op = wb.OpFromGraph([x], x**2, name="registered_of_a_test")
    assert wb.grad(op)(3.0) == 6.0

    @wb.register_gradient("registered_of_a_test")
    def slope(node: Any, g: Any) -> Any:
        return -g

    assert wb.grad(op)(3.0) == -1.0


def test_B1_a_forward_rule() -> None:
    x, y, t, u = wb.scalars("x y t u")
    forward = wb.OpFromGraph([x, y, t, u], 5 * t + 7 * u * x, on_unused_input="ignore")
    for jvp in (
        forward,
        lambda node, t, u: 5 * (t or 0) + 7 * (u or 0) * node.inputs[0],
    ):
        op = doubling("forward_too", vjp=rule_of_two, jvp=jvp)
        assert wb.jvp(op, (2.0, 3.0), (1.0, 0.0))[1] == 5
        assert wb.jvp(op, (2.0, 3.0), (0.0, 1.0))[1] == 14
        assert wb.grad(op, (0, 1))(2.0, 3.0) == (10.0, -2.0)
    text = doubling("forward_text", vjp="2 * d", jvp="3 * d")
    assert wb.jvp(text, (2.0, 3.0), (1.0, 1.0))[1] == 15
    each = doubling("forward_each", vjp="2 * d", jvp=["true"])
    assert wb.jvp(each, (2.0, 3.0), (1.0, 1.0))[1] == 5


def test_B1_forward_alone_is_transposed_for_reverse_mode() -> None:
    op = doubling("forward_alone", jvp=lambda node, t, u: 5 * t + 7 * u)
    assert wb.jvp(op, (2.0, 3.0), (1.0, 1.0))[1] == 12
    assert wb.grad(op, (0, 1))(2.0, 3.0) == (5.0, 7.0)


@both
def test_B2_in_forward_mode_the_rule_is_transposed(inline: bool) -> None:
    op = linear_atan2(inline)
    _, moved = wb.jvp(op, (1.0, 2.0), (0.3, -0.7))
    assert np.isclose(moved, 0.3 * -2 / 5.01 - 0.7 / 5.01, rtol=1e-14)
    x, y = wb.scalars("x y")
    fn = wb.function([x, y], wb.Rop(op(x, y), [x, y], [0.3, -0.7])) if hasattr(
        wb, "Rop"
    ) else None  # fmt: skip
    if fn is not None:
        assert np.isclose(fn(1.0, 2.0), moved)


def test_B2_a_gradient_that_ignores_what_arrives_has_no_forward_mode() -> None:
    from workbench.errors import NotDifferentiableError

    with pytest.raises(NotDifferentiableError, match="atan2_safe") as error:
        wb.jvp(atan2_safe(False), (1.0, 2.0), (1.0, 0.0))
    assert "atan2_safe_grad" in str(error.value)
    assert "Write a jvp too" in str(error.value)


@both
def test_B2_second_order_is_that_of_the_gradient_given(inline: bool) -> None:
    op = atan2_safe(inline)
    x, y = 1.0, 2.0
    s = x * x + y * y + EPS
    rows = [[2 * x * y / s**2, -1 / s + 2 * y * y / s**2],
            [1 / s - 2 * x * x / s**2, -2 * x * y / s**2]]  # fmt: skip
    made = wb.hessian(lambda v: op(v[0], v[1]))(np.array([x, y]))
    assert np.allclose(made, rows, rtol=1e-12)
    a, b = wb.scalars("a b")
    (dx,) = wb.grad(op(a, b), [a])
    second = wb.function([a, b], wb.grad(dx, [a, b]))
    assert np.allclose(second(x, y), rows[0], rtol=1e-12)


@both
def test_B2_many_examples_at_once(inline: bool, rng: np.random.Generator) -> None:
    op = linear_atan2(inline)
    x, y = rng.normal(size=5), rng.normal(size=5)
    s = x * x + y * y + EPS
    assert np.allclose(wb.vmap(op)(x, y), np.arctan2(y, x))
    assert np.allclose(wb.vmap(wb.grad(op))(x, y), -y / s)
    made = wb.grad(lambda x: np.sum(wb.vmap(op)(x, y) ** 2))(x)
    assert np.allclose(made, 2 * np.arctan2(y, x) * -y / s)
    shared = wb.grad(lambda y: np.sum(wb.vmap(op, in_axes=(0, None))(x, y)))(1.5)
    assert np.isclose(shared, np.sum(x / (x * x + 1.5**2 + EPS)))
    _, moved = wb.jvp(lambda x: wb.vmap(op)(x, y), (x,), (np.ones(5),))
    assert np.allclose(moved, -y / s)
    twice = wb.vmap(wb.vmap(op))(np.stack([x, y]), np.stack([y, x]))
    assert np.allclose(twice, np.arctan2([y, x], [x, y]))


def test_B1_many_examples_of_a_rule_that_looks_at_values() -> None:
    x = wb.scalar("x")

    def rule(node: Any, g: Any) -> Any:
        return g * (10.0 if node.inputs[0] > 0 else 20.0)

    op = wb.OpFromGraph([x], x**2, vjp=rule, name="looks_at_values")
    made = wb.grad(lambda x: np.sum(wb.vmap(op)(x)))(np.array([-1.0, 2.0]))
    assert np.array_equal(made, [20.0, 10.0])


@both
def test_B2_overridden_from_outside_by_name_and_at_the_node(inline: bool) -> None:
    op = atan2_safe(inline)
    half = wb.override("atan2_safe", "0.5 * d")
    assert np.isclose(
        wb.grad(op, 1, overrides=[half])(1.0, 0.0), 0.5 / 1.01, rtol=1e-14
    )
    true = wb.override(op, lambda node, g: (g * 3, g * 4))
    assert wb.grad(op, (0, 1), overrides=[true])(1.0, 0.0) == (3.0, 4.0)
    x, y = wb.scalars("x y")
    out = op(x, y)
    at_node = wb.grad(out, [x, y], overrides=[wb.override(out, "2 * d")])
    assert np.allclose(wb.function([x, y], at_node)(1.0, 0.0), [0, 2 / 1.01])


@both
def test_B1_rows_at_once_with_an_output_of_integers(
    inline: bool, rng: np.random.Generator
) -> None:
    """Both modes and second order of a rule, row by row, against the true ones."""
    x = wb.vector("x")

    def rule(node: Any, g: Any, nothing: Any) -> Any:
        (x,) = node.inputs
        return np.cumsum((g * 2 * np.cumsum(x))[::-1])[::-1]

    op = wb.OpFromGraph(
        [x], [np.cumsum(x) ** 2, np.argmax(x)], vjp=rule, inline=inline, name="rowwise"
    )

    def f(X: Any) -> Any:
        return np.sum(wb.vmap(lambda r: op(r)[0] * op(r)[1])(X) ** 2)

    def plain(X: Any) -> Any:
        at = np.argmax(X, axis=1)[:, None]
        return np.sum((np.cumsum(X, axis=1) ** 2 * at) ** 2)

    X, T = rng.normal(size=(3, 4)), rng.normal(size=(3, 4))
    assert np.allclose(wb.grad(f)(X), wb.grad(plain)(X))
    assert np.allclose(wb.hessian(f)(X), wb.hessian(plain)(X))
    assert np.isclose(wb.jvp(f, (X,), (T,))[1], wb.jvp(plain, (X,), (T,))[1])


# Patterns of connection


def test_B1_the_pattern_is_found_in_the_graph() -> None:
    x, y, z = wb.scalars("x y z")
    op = wb.OpFromGraph([x, y, z], [x * y, np.sign(x) + z, y])
    assert op.connection_pattern() == [
        [True, False, False],
        [True, False, True],
        [False, True, False],
    ]
    assert op.connection_pattern(op(x, y, z)[0]) == op.connection_pattern()


def test_B1_a_declared_pattern_cuts_the_true_gradient() -> None:
    x, y = wb.scalars("x y")
    op = wb.OpFromGraph(
        [x, y], [x * y, x + y], connection_pattern=[[True, False], [True, True]],
        name="cut_of_a_test",
    )  # fmt: skip
    grads = wb.grad(lambda x, y: op(x, y)[0] + op(x, y)[1], (0, 1))(2.0, 3.0)
    assert grads == (3.0, 3.0)


def test_second_order_of_a_loop_inside_that_keeps_few_states() -> None:
    def loop(p: Any, memory: Any) -> Any:
        return wb.scan(
            lambda h: np.sin(h * p[0]) + 0.1 * h,
            initial=p, n_steps=6, last=True, memory=memory,
        )  # fmt: skip

    q, x, v = wb.vector("q", shape=3), np.array([0.3, 0.7, 0.2]), np.ones(3)
    inside = wb.OpFromGraph([q], [loop(q, 2) ** 2])
    found = wb.hvp(lambda x: np.sum(inside(x)), (x,), (v,))
    expected = wb.hvp(lambda x: np.sum(loop(x, "all") ** 2), (x,), (v,))
    np.testing.assert_allclose(found, expected, rtol=1e-12)
