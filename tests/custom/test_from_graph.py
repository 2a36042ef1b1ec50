"""Ops made of graphs, with other gradients: rows B1 and B2.

Truth is the analytic derivative of the rule that was given, or complex step and
differences where the gradient is the true one.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.backends.numpy import compile as compiled
from workbench.graph.graph import Graph

EPS = 0.01
both = pytest.mark.parametrize("inline", [False, True], ids=["whole", "inline"])


def atan2_safe(inline: bool, name: str = "atan2_safe") -> Any:
    """The seed's op, letter by letter in our names."""
    x, y = wb.scalars("x y")
    darg = wb.scalar()
    arg = np.arctan2(y, x)
    abs2 = np.square(x) + np.square(y) + EPS
    dx = -y / abs2
    dy = x / abs2
    grad = wb.OpFromGraph(
        [x, y, darg], [dx, dy], inline=inline, on_unused_input="ignore",
        name=f"{name}_grad",
    )  # fmt: skip
    return wb.OpFromGraph([x, y], [arg], inline=inline, vjp=grad, name=name)


def linear_atan2(inline: bool = False, name: str = "atan2_linear") -> Any:
    """The same with a gradient that is linear in what arrives."""
    x, y, g = wb.scalars("x y g")
    abs2 = x**2 + y**2 + EPS
    grad = wb.OpFromGraph([x, y, g], [-g * y / abs2, g * x / abs2], inline=inline)
    return wb.OpFromGraph([x, y], np.arctan2(y, x), inline=inline, vjp=grad, name=name)


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


# What may be inside and around


@pytest.mark.parametrize("outside", [False, True], ids=["in whole", "in inline"])
@both
def test_B1_a_rule_inside_holds_however_both_are_put_in(
    inline: bool, outside: bool
) -> None:
    x, y, g = wb.scalars("x y g")
    rules = [
        wb.OpFromGraph([x, y, g], [7 * g + 0 * x, 8 * g + 0 * y], inline=inline),
        lambda node, g: [7 * g, 8 * g],
    ]
    for rule in rules:
        product = wb.OpFromGraph([x, y], x * y, inline=inline, vjp=rule)
        around = wb.OpFromGraph([x, y], product(x, y) * 2 + x, inline=outside)
        assert wb.grad(around, (0, 1))(2.0, 3.0) == (15.0, 16.0)
        u, v = wb.scalars("u v")
        f = wb.function([u, v], wb.grad(around(u, v), [u, v]), on_unused_input="ignore")
        assert f(2.0, 3.0) == [15.0, 16.0]
        assert around(2.0, 3.0) == 14.0


def test_B1_an_op_inside_an_op() -> None:
    safe = atan2_safe(False)
    x, y = wb.scalars("x y")
    inner_inline = linear_atan2(True)
    outer = wb.OpFromGraph([x, y], 2 * safe(x, y) + inner_inline(x, y), name="outer")
    # The seed's gradient does not look at what arrives: the factor 2 is lost.
    assert np.allclose(wb.grad(outer, 1)(1.0, 0.0), 2 / 1.01)
    assert np.allclose(wb.grad(outer, (0, 1))(0.0, 0.0), 0)
    source = compiled(Graph([x, y], [outer(x, y)])).source
    assert source.index("def atan2_safe") < source.index("def outer")
    scope: dict[str, Any] = {}
    exec(source, scope)
    assert np.isclose(scope["function"](1.0, 1.0), 3 * np.pi / 4)


@both
def test_B1_shared_values_inside(inline: bool) -> None:
    w = wb.shared(np.array([1.0, 2.0]), "w")
    x = wb.vector("x")
    op = wb.OpFromGraph([x], np.sum(w * x**2), inline=inline, name="weighted")
    a = wb.vector("a")
    y = op(a)
    fn = wb.function([a], [y, *wb.grad(y, [a, w])])
    value, da, dw = fn([3.0, 4.0])
    assert value == 41
    assert np.allclose(da, [6, 16])
    assert np.allclose(dw, [9, 16])
    w.set_value([0.0, 1.0])
    assert fn([3.0, 4.0])[0] == 16


def test_B1_shared_values_keep_the_true_gradient_beside_a_rule() -> None:
    w = wb.shared(2.0, "w")
    x = wb.scalar("x")
    seen = []

    def rule(node: Any, g: Any) -> Any:
        seen.append(len(node.inputs))
        return 100 * g

    op = wb.OpFromGraph([x], w * x**2, vjp=rule, name="half_overridden")
    a = wb.scalar("a")
    fn = wb.function([a], wb.grad(op(a), [a, w]))
    assert [float(v) for v in fn(3.0)] == [100.0, 9.0]
    assert set(seen) == {1}
    _, moved = wb.jvp(lambda t: captured(t, rule), (2.0,), (1.0,))
    assert moved == 9.0


def captured(t: Any, rule: Any) -> Any:
    """An op made inside a function, that reads what is differentiated by."""
    x = wb.scalar("x")
    return wb.OpFromGraph([x], x**2 * t, vjp=rule, name="captured")(3.0)


def test_B1_a_tensor_of_a_trace_around_it() -> None:
    def f(t: Any) -> Any:
        x = wb.scalar("x")
        return wb.OpFromGraph([x], x * t**2)(3.0)

    assert wb.grad(f)(2.0) == 12
    assert wb.grad(wb.grad(f))(2.0) == 6


def test_B1_several_outputs_one_unused_one_of_integers() -> None:
    x = wb.vector("x")
    outs = [np.sum(x**2), np.argmax(x), np.exp(x)]
    op = wb.OpFromGraph([x], outs, name="three_outputs")
    a = np.array([1.0, 3.0, 2.0])
    total, at, expd = op(a)
    assert total == 14
    assert at == 1
    assert np.array_equal(expd, np.exp(a))
    assert np.array_equal(wb.grad(lambda x: op(x)[0])(a), 2 * a)
    assert np.allclose(wb.grad(lambda x: np.sum(op(x)[2]))(a), np.exp(a))
    _, (t0, t1, t2) = wb.jvp(lambda x: op(x), (a,), (np.ones(3),))
    assert t0 == 12
    assert np.allclose(t2, np.exp(a))
    assert not np.any(t1)


def test_B1_a_rule_of_several_outputs_gets_zeros_for_those_unused() -> None:
    seen: list[Any] = []
    x = wb.vector("x", shape=2)

    def rule(node: Any, g_sum: Any, g_at: Any, g_exp: Any) -> Any:
        seen.append((g_sum, g_at, g_exp))
        return g_sum * np.ones_like(node.inputs[0])

    op = wb.OpFromGraph(
        [x], [np.sum(x), np.argmax(x), np.exp(x)], vjp=rule, name="zeros_for_unused"
    )
    assert np.array_equal(wb.grad(lambda x: 3 * op(x)[0])(np.ones(2)), [3, 3])
    ((g_sum, g_at, g_exp),) = seen
    assert g_sum == 3
    assert g_at is None  # integers have none
    assert np.array_equal(g_exp, [0, 0])


def test_B1_a_graph_as_rule_of_several_outputs() -> None:
    x, ge = wb.vector("x", shape=2), wb.vector("ge", shape=2)
    gs, ga = wb.scalars("gs ga")
    rule = wb.OpFromGraph([x, gs, ga, ge], gs * x + ge, on_unused_input="ignore")
    op = wb.OpFromGraph([x], [np.sum(x), np.argmax(x), np.exp(x)], vjp=rule)
    made = wb.grad(lambda x: 3 * op(x)[0] + np.sum(op(x)[2]))(np.array([2.0, 5.0]))
    assert np.array_equal(made, [7, 16])


def test_B1_lengths_that_are_known_when_it_runs(rng: np.random.Generator) -> None:
    A, v = wb.matrix("A"), wb.vector("v")
    op = wb.OpFromGraph([A, v], [A @ v, np.sum(v[1:] ** 2)], name="any_length")
    B, w = wb.matrix("B"), wb.vector("w")
    left, right = op(B, w)
    fn = wb.function([B, w], [left, *wb.grad(np.sum(left) + right, [B, w])])
    for m, n in ((2, 3), (4, 2), (1, 1)):
        b, a = rng.normal(size=(m, n)), rng.normal(size=n)
        value, db, da = fn(b, a)
        assert np.allclose(value, b @ a)
        assert np.allclose(db, np.broadcast_to(a, (m, n)))
        tail = np.where(np.arange(n) > 0, 2 * a, 0)
        assert np.allclose(da, b.sum(0) + tail)
        eager = wb.grad(lambda b, a: np.sum(op(b, a)[0]) + op(b, a)[1], (0, 1))(b, a)
        assert np.allclose(eager[0], db)
        assert np.allclose(eager[1], da)


def test_B1_a_rule_for_lengths_that_are_known_when_it_runs() -> None:
    x, g = wb.vectors("x g")
    rule = wb.OpFromGraph([x, g], np.clip(g * 2 * x, -1, 1))
    op = wb.OpFromGraph([x], x**2, vjp=rule, name="clipped_square")
    a = wb.vector("a")
    fn = wb.function([a], wb.grad(np.sum(op(a)), a))
    assert np.array_equal(fn([0.25, 4.0, -3.0]), [0.5, 1, -1])
    assert np.array_equal(fn([0.125]), [0.25])


def test_B1_under_scan() -> None:
    safe = linear_atan2(name="scanned_atan2")
    s = wb.vector("s")
    total = wb.scan(
        lambda x, carry: carry + safe(x, carry), sequences=s, initial=wb.constant(0.1)
    )
    fn = wb.function([s], wb.grad(total[-1], s))
    xs = np.array([0.5, -0.3, 0.8])
    c, jac = 0.1, np.zeros(3)
    for i, x in enumerate(xs):
        n = x * x + c * c + EPS
        jac = jac + jac * (x / n)
        jac[i] += -c / n
        c = c + np.arctan2(c, x)
    assert np.allclose(fn(xs), jac, rtol=1e-12)


def test_B1_dtypes() -> None:
    x = wb.vector("x", dtype="float32")
    op = wb.OpFromGraph([x], np.sum(x * 2), name="single")
    a = np.ones(3, np.float32)
    assert op(a).dtype == np.float32
    assert wb.grad(op)(a).dtype == np.float32
    assert op([1, 2, 3]) == 12  # Python's numbers have no width
    n = wb.vector("n", dtype="int64", shape=2)
    y = wb.vector("y", shape=2)
    mixed = wb.OpFromGraph([n, y], np.sum(n * y), name="mixed")
    assert np.array_equal(wb.grad(mixed, 1)(np.array([2, 3]), np.ones(2)), [2, 3])


@both
def test_B1_the_branch_not_taken_poisons_nothing(inline: bool) -> None:
    """G4 through an op: 1 / x at 0, which `where` does not take."""
    x, g = wb.scalars("x g")
    slope = wb.OpFromGraph([x, g], -g / x**2, inline=inline)
    for vjp in (None, slope):
        op = wb.OpFromGraph([x], 1 / x, inline=inline, vjp=vjp, name="reciprocal_of")

        def f(x: Any, op: Any = op) -> Any:
            return np.where(x > 0, op(x), 0.0)

        with np.errstate(all="ignore"):
            assert wb.grad(f)(0.0) == 0
            assert wb.grad(wb.grad(f))(0.0) == 0
            assert wb.grad(f)(2.0) == -0.25
            a = wb.scalar("a")
            fn = wb.function([a], wb.grad(f(a), a))
            assert fn(0.0) == 0
            assert fn(2.0) == -0.25


def test_B1_outputs_that_are_inputs_or_constants() -> None:
    x = wb.scalar("x")
    op = wb.OpFromGraph([x], [x, wb.constant(2.0), -x], name="hardly_anything")
    assert op(3.0) == (3, 2, -3)
    assert wb.grad(lambda x: 5 * op(x)[0] + op(x)[1] + op(x)[2])(3.0) == 4
    a = wb.scalar("a")
    assert wb.function([a], [*op(a)])(3.0) == [3, 2, -3]


def test_B1_called_on_its_own_symbol() -> None:
    x = wb.vector("x")
    op = wb.OpFromGraph([x], np.sum(x**2))
    fn = wb.function([x], wb.grad(op(x) + x[0], x))
    assert np.array_equal(fn([1.0, 2.0]), [3, 4])


@both
def test_B1_under_cond_checkpoint_and_jacobian(inline: bool) -> None:
    x = wb.vector("x")
    op = wb.OpFromGraph([x], np.tanh(x), vjp="2 * d", inline=inline, name="tanh_twice")
    v = np.array([0.1, 0.2])
    slope = 2 / np.cosh(v) ** 2
    assert np.allclose(wb.jacobian(op)(v), np.diag(slope))
    assert np.allclose(wb.jacfwd(op)(v), np.diag(slope))
    kept = wb.checkpoint(lambda v: np.sum(op(v) * v))
    assert np.allclose(wb.grad(kept)(v), slope * v + np.tanh(v))
    s = wb.vector("s")
    out = wb.cond(np.sum(s) > 0, lambda s: np.sum(op(s)), lambda s: np.sum(s), s)
    fn = wb.function([s], wb.grad(out, s))
    assert np.allclose(fn(v), slope)
    assert np.allclose(fn(-v), 1)


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


# Size


def test_B1_a_thousand_calls_are_linear() -> None:
    x = wb.scalar("x")
    op = wb.OpFromGraph([x], np.sin(x), name="called_often")
    spent = []
    for count in (500, 2000):
        start = time.perf_counter()
        a = wb.scalar("a")
        y = a
        for _ in range(count):
            y = op(y)
        fn = wb.function([a], wb.grad(y, a))
        value = fn(1.0)
        assert len(fn.graph.nodes) < 8 * count
        spent.append(time.perf_counter() - start)
    assert spent[1] < 40 * spent[0] + 5  # quadratic would be minutes
    z, slope = 1.0, 1.0
    for _ in range(2000):
        slope, z = slope * np.cos(z), np.sin(z)
    assert np.isclose(value, slope, rtol=1e-10)


def test_B1_a_hundred_ops_inside_each_other() -> None:
    x = wb.scalar("x")
    op: Callable[..., Any] = wb.OpFromGraph([x], np.sin(x), name="nested")
    for _ in range(99):
        x = wb.scalar("x")
        op = wb.OpFromGraph([x], np.sin(op(x)), name="nested")
    z, slope = 0.5, 1.0
    for _ in range(100):
        slope, z = slope * np.cos(z), np.sin(z)
    assert np.isclose(op(0.5), z, rtol=1e-12)
    assert np.isclose(wb.grad(op)(0.5), slope, rtol=1e-12)
    assert np.isclose(wb.jvp(op, (0.5,), (1.0,))[1], slope, rtol=1e-12)
    a = wb.scalar("a")
    fn = wb.function([a], wb.grad(op(a), a))
    assert np.isclose(fn(0.5), slope, rtol=1e-12)
    assert len(fn.source) < 100_000
    step = 1e-5
    second = (wb.grad(op)(0.5 + step) - wb.grad(op)(0.5 - step)) / (2 * step)
    assert np.isclose(wb.grad(wb.grad(op))(0.5), second, rtol=1e-6)


def test_B1_two_hundred_ops_inside_each_other() -> None:
    """The derivative of one never waits for that of another: no deep stack."""
    x = wb.scalar("x")
    op: Callable[..., Any] = wb.OpFromGraph([x], np.sin(x), name="nested")
    for _ in range(200):
        x = wb.scalar("x")
        op = wb.OpFromGraph([x], np.sin(op(x)), name="nested")
    a = wb.scalar("a")
    assert len(Graph([a], [wb.grad(op(a), a)]).nodes) < 5
    assert np.isfinite(wb.grad(op)(0.5))


def test_B1_two_calls_inside_each_of_many_stay_small() -> None:
    """Doubling inside doubling: 2**40 ops if they were spread out."""
    x = wb.scalar("x")
    op: Any = wb.OpFromGraph([x], np.sin(x), name="halves")
    for _ in range(40):
        x = wb.scalar("x")
        op = wb.OpFromGraph([x], op(x) + 0 * op(2 * x), name="halves")
    a = wb.scalar("a")
    out = op(a)
    grad = wb.grad(out, a)
    assert len(Graph([a], [out, grad]).nodes) < 10


def test_B1_its_graph_is_recorded_once_for_each_shape() -> None:
    x = wb.vector("x")
    op = wb.OpFromGraph([x], np.sum(x**3), name="recorded_once")
    for _ in range(3):
        wb.grad(op)(np.ones(2))
        wb.grad(op)(np.ones(3))
    assert len(op._wholes) == 2
    assert all(len(whole.known) == 1 for whole in op._wholes.values())


def test_B1_two_ops_of_one_graph_are_two_ops() -> None:
    x = wb.scalar("x")
    y = x**2
    one, two = wb.OpFromGraph([x], y), wb.OpFromGraph([x], y)
    assert one is not two
    assert one != two
    a = wb.scalar("a")
    assert one(a).op is one
