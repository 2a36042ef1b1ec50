"""What may stand inside and around an op made of a graph, and how many: row B1.

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
from tests.custom.atan2_graphs import EPS, atan2_safe, both, linear_atan2
from workbench.backends.numpy import compile as compiled
from workbench.core.graph import Graph

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


# Size


def test_B1_a_thousand_calls_are_linear(measured: Callable[[str], None]) -> None:
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
    # Linear is 4 times, quadratic 16.
    measured(f"2,000 calls of an op take {spent[1] / spent[0]:.1f} times those of 500")
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
    assert len(op.variants) == 2
    assert all(len(call.variants) == 1 for call in op.variants.values())


def test_B1_two_ops_of_one_graph_are_two_ops() -> None:
    x = wb.scalar("x")
    y = x**2
    one, two = wb.OpFromGraph([x], y), wb.OpFromGraph([x], y)
    assert one is not two
    assert one != two
    a = wb.scalar("a")
    assert one(a).op is one
