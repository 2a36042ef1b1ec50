"""Each node's rule by itself: healthy ones pass, a planted error is named."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import special

import workbench as wb
from workbench.checks.check_rule import agree_with
from workbench.checks.isolated_node import IsolatedNode
from workbench.checks.nodes import check_node, check_nodes
from workbench.checks.report import Entry, NodeCheck
from workbench.core.op import OPS, declare
from workbench.core.tensor import apply
from workbench.errors import UnknownNodeError


@pytest.fixture(autouse=True)
def no_op_is_left() -> Any:
    """What a test declares is gone after it."""
    before = set(OPS)
    yield
    for name in set(OPS) - before:
        if name.startswith("planted"):
            del OPS[name]


def planted(
    compute: Callable[..., Any], pull: Any, push: Any = None, name: str = "planted"
) -> Any:
    """An op with rules of the test's choice, applied to Tensors."""
    op = declare(name)
    op.compute = compute
    op.pull = lambda mask, g, y, inputs, params: pull(g, y, *inputs)
    op.push = None
    if push is not None:
        op.push = lambda tangents, y, inputs, params: push(tangents, y, *inputs)
    return lambda *x: apply(op, x)


def checks_of(f: Callable[..., Any], *args: Any, **settings: Any) -> list[NodeCheck]:
    settings.setdefault("seed", 1)
    return check_nodes(wb.trace(f)(*args).nodes, **settings)


def the_wrong(found: list[NodeCheck]) -> NodeCheck:
    wrong = [check for check in found if check.status == "wrong"]
    assert len(wrong) == 1, [check.text for check in wrong]
    return wrong[0]


#: Rules of ``sin(x) * w`` that are wrong, each in its own way.
WRONG = {
    "factor": lambda g, y, x, w: (1.001 * g * w * np.cos(x), g * np.sin(x)),
    "sign": lambda g, y, x, w: (-g * w * np.cos(x), g * np.sin(x)),
    "second input": lambda g, y, x, w: (g * w * np.cos(x), g * np.cos(x)),
    "missing factor": lambda g, y, x, w: (g * np.cos(x), g * np.sin(x)),
    "NaN": lambda g, y, x, w: (g * w * np.cos(x) * np.nan, g * np.sin(x)),
    "forgotten": lambda g, y, x, w: (None, g * np.sin(x)),
}


@pytest.mark.parametrize("size", [3, 400])
@pytest.mark.parametrize("fault", WRONG)
def test_G5_each_kind_of_wrong_rule_is_named(
    fault: str, size: int, rng: np.random.Generator
) -> None:
    f = planted(lambda x, w: np.sin(x) * w, WRONG[fault])
    x, w = rng.uniform(0.2, 1.2, (2, size))

    def program(x: Any, w: Any) -> Any:
        return np.sum(np.tanh(f(x * 2, w) + 1))

    check = the_wrong(checks_of(program, x, w))
    assert check.node.op.name == "planted"
    assert check.mode == "rev"
    assert check.ratio > 1 or np.isnan(check.entry.analytic)  # type: ignore[union-attr]
    entry = check.entry
    assert entry is not None
    k = entry.index[0]
    second = fault == "second input"
    expected = np.sin(2 * x[k]) if second else w[k] * np.cos(2 * x[k])
    assert entry.numeric == pytest.approx(expected, rel=1e-9)
    assert entry.argument == ("w" if second else "x0")
    for text in ("planted float64", "test_nodes.py:", entry.place, "should be"):
        assert text in check.text
    assert f"dy[{k}] / d{entry.place}" in check.text


def test_G5_a_transposed_matrix_is_named(rng: np.random.Generator) -> None:
    f = planted(np.matmul, lambda g, y, a, b: (g @ b, a.T @ g))
    a, b = rng.standard_normal((2, 20, 20))
    check = the_wrong(checks_of(lambda a, b: np.sum(f(a, b) ** 2), a, b))
    entry: Any = check.entry
    assert (check.node.op.name, entry.argument) == ("planted", "a")
    row, column = entry.index
    out = int(entry.output[2:-1].split(",")[1])
    assert entry.output.startswith(f"y[{row},")
    assert entry.numeric == pytest.approx(b[column, out])


def test_G5_one_wrong_entry_of_ten_thousand(rng: np.random.Generator) -> None:
    x = rng.standard_normal(10_000)
    place = int(rng.integers(10_000))

    def pull(g: Any, y: Any, x: Any) -> Any:
        at = np.arange(len(x), like=x) == place
        return (g * np.cos(x) * np.where(at, 1.001, 1.0),)

    f = planted(np.sin, pull)
    entry: Any = the_wrong(checks_of(lambda x: np.sum(f(x)), x)).entry
    assert entry.index == (place,)
    assert entry.output == f"y[{place}]"
    assert entry.numeric == pytest.approx(np.cos(x[place]))
    assert entry.analytic == pytest.approx(1.001 * np.cos(x[place]))


def test_G5_a_forward_rule_that_is_wrong_alone(rng: np.random.Generator) -> None:
    f = planted(
        np.sin, lambda g, y, x: (g * np.cos(x),), lambda t, y, x: -t[0] * np.cos(x)
    )
    for size in (4, 100):
        check = the_wrong(checks_of(lambda x: f(x), rng.uniform(0.1, 1, size)))
        assert check.mode == "fwd"
        assert "forward mode" in check.text


def test_G5_a_rule_whose_own_derivative_is_wrong() -> None:
    f = planted(np.sin, lambda g, y, x: (g * wb.stop_gradient(np.cos(x)),))
    check = the_wrong(checks_of(lambda x: np.sum(f(x)), np.array([0.5, 1.0])))
    entry: Any = check.entry
    assert entry.order == 2
    assert "the second derivative by x along a direction" in check.text
    assert all(
        c.status == "right"
        for c in checks_of(lambda x: np.sum(f(x)), np.array([0.5, 1.0]), order=1)
    )


def test_G5_a_rule_that_fails_is_wrong_with_its_words() -> None:
    def pull(g: Any, y: Any, x: Any) -> Any:
        return (g[:1],) if len(x) == 3 else (g[:, None, None] * np.ones((1, 7, 2)),)

    f = planted(np.sin, pull)
    check = the_wrong(checks_of(lambda x: f(x), np.ones(3)))
    assert check.entry is None
    assert "fails in reverse mode: ShapeError: the gradient rule" in check.text
    check = the_wrong(checks_of(lambda x: f(x), np.ones(4)))
    assert "returned shape (4, 7, 2)" in check.text


@pytest.mark.parametrize("count", [10, 100, 1000])
def test_G5_the_wrong_op_in_a_net_is_named(
    count: int, rng: np.random.Generator
) -> None:
    """Deep, with branches that join again; the wrong one stands anywhere."""
    f = planted(np.tanh, lambda g, y, x: (1.001 * g * (1 - y**2),))
    at = int(rng.integers(count // 5))
    W = rng.standard_normal((4, 4)) / 2

    def net(W: Any, x: Any) -> Any:
        h = x
        for i in range(count // 5):
            branch = np.sin(h @ W)
            h = (f(h) if i == at else np.tanh(h)) * 0.9 + branch
        return np.sum(h**2)

    found = checks_of(net, W, rng.standard_normal((3, 4)), order=1)
    assert len(found) >= count * 0.9
    assert the_wrong(found).node.op.name == "planted"


def test_what_a_node_is_checked_at_are_its_values_in_the_run() -> None:
    """A rule that is wrong for negative entries alone, at values that are not."""
    f = planted(np.sin, lambda g, y, x: (g * np.cos(x) * np.where(x < 0, 2.0, 1.0),))
    assert all(c.status == "right" for c in checks_of(lambda x: f(x**2), np.ones(3)))
    assert the_wrong(checks_of(lambda x: f(-(x**2)), np.ones(3)))


# Kinks


def kink(f: Callable[..., Any], *args: Any) -> NodeCheck:
    found = checks_of(f, *args)
    assert all(c.status in ("right", "kink") for c in found), [c.text for c in found]
    (check,) = [c for c in found if c.status == "kink"]
    return check


@pytest.mark.parametrize("size", [3, 200])
def test_G5_kinks_are_named_and_no_errors(size: int) -> None:
    x = np.linspace(0.5, 2, size)
    x[1] = 0
    for f in (np.abs, lambda x: np.maximum(x, 0), lambda x: np.clip(x, 0, 9)):
        check = kink(lambda x, f=f: np.sum(f(x)), x)
        entry: Any = check.entry
        assert entry.place == "x[1]" or entry.place == "x0[1]"
        assert "has a kink at" in check.text
        assert "test_nodes.py:" in check.text
        assert sorted([abs(entry.left), abs(entry.right)]) in ([0, 1], [1, 1])


def test_G5_ties_of_a_maximum_are_a_kink() -> None:
    assert kink(np.max, np.array([1.0, 3.0, 3.0])).node.op.name == "max"
    tie = kink(lambda x: np.sum(np.minimum(x, x[::-1])), np.array([1.0, 3.0]) * 0)
    assert tie.node.op.name == "minimum"


def test_G5_a_kink_nearby_is_none_and_its_slope_is_checked() -> None:
    bounds = np.array([1.0, 1.0, 1.0])
    for off in (1e-3, 1e-5, 1e-7):
        x = bounds + off * np.array([1, -1, 1])
        found = checks_of(lambda x: np.sum(np.maximum(x, bounds)), x)
        assert [c.status for c in found] == ["right", "right"], off
    f = planted(np.maximum, lambda g, y, a, b: (1.01 * g * (a > b), g * (b > a)))
    assert the_wrong(checks_of(lambda x: np.sum(f(x, bounds)), bounds + 1e-6))


def test_G5_a_rule_outside_the_two_sides_is_wrong_at_a_kink() -> None:
    f = planted(np.abs, lambda g, y, x: (g * np.where(x < 0, -1.0, 3.0),))
    assert the_wrong(checks_of(lambda x: f(x), np.array([0.0, -1.0]))).node.op.name
    g = planted(np.abs, lambda g, y, x: (g * np.where(x < 0, -1.0, 1.0),))
    assert checks_of(lambda x: g(x), np.array([0.0, -1.0]))[0].status == "kink"


def test_a_jump_is_said_to_be_one() -> None:
    (check,) = checks_of(np.sign, np.array([0.0, 1.0]))
    assert check.status == "kink"
    assert "jumps at x[0]" in check.text


def test_the_edge_of_a_domain_is_not_judged() -> None:
    with np.errstate(all="ignore"):
        (check,) = checks_of(np.sqrt, np.array([0.0, 1.0]))
    assert check.status == "unsure"
    assert "differences cannot tell" in check.text


# Kinds of nodes


def test_what_has_no_rule_is_left_out_and_what_means_it_is_told() -> None:
    def f(x: Any, k: Any) -> Any:
        y = np.where(x > 0, x, 0.0) + k + wb.stop_gradient(x)
        return np.sum(y[np.argsort(x)])

    found = {c.node.op.name: c for c in checks_of(f, np.array([1.0, -2.0]), 3)}
    assert "greater" not in found
    assert "argsort" not in found
    assert found["stop_gradient"].status == "overridden"
    assert "stops the gradient on purpose" in found["stop_gradient"].text
    assert found["where"].status == "right"


def test_users_ops_of_all_kinds() -> None:
    class Polar(wb.Op):
        """Radius and angle."""

        def compute(self, x: Any, y: Any) -> Any:
            return np.hypot(x, y), np.arctan2(y, x)

        def vjp(self, node: Any, g: Any, h: Any) -> Any:
            (x, y), (r, _) = node.inputs, node.outputs
            return g * x / r - h * y / r**2, g * y / r + h * x / r**2

    wrong = wb.custom_vjp(lambda x: x**3, vjp=lambda node, g: 2 * g * node.inputs[0])
    x = wb.vector("x")
    graph = wb.OpFromGraph([x], np.sin(x) * 2)
    inverted = wb.OpFromGraph([x], np.sin(x) * 2, vjp="-d")
    polar = Polar()

    def f(a: Any, b: Any) -> Any:
        r, t = polar(a, b)
        return np.sum(graph(r) + wrong(t) + inverted(a))

    found = checks_of(f, np.array([0.5, 1.0]), np.array([0.3, 2.0]))
    status = [c.status for c in found if c.node.op.custom]
    assert status.count("wrong") == 2
    assert status.count("right") == 2


def test_single_precision_complex_and_a_draw(rng: np.random.Generator) -> None:
    generator = wb.random.default_rng(3)

    def f(x: Any, z: Any) -> Any:
        noise = generator.normal(np.sum(x), 1.0, 3)
        return np.sum(np.abs(np.exp(1j * x) * z) ** 2) + np.sum(noise)

    x = rng.standard_normal(3).astype(np.float32)
    z = (rng.standard_normal(3) + 1j * rng.standard_normal(3)).astype(np.complex64)
    found = checks_of(f, x, z)
    assert {c.status for c in found} == {"right"}
    wrong = planted(np.exp, lambda g, y, x: (1.001 * g * y,))
    for values in (x, z):
        assert the_wrong(checks_of(lambda v: wrong(v), values))


def test_nodes_inside_loops_and_branches(rng: np.random.Generator) -> None:
    f = planted(np.sin, lambda g, y, x: (1.01 * g * np.cos(x),))

    def program(W: Any, xs: Any) -> Any:
        def step(x: Any, c: Any) -> Any:
            c = np.tanh(W @ c + x)
            return wb.cond(np.sum(c) > 0, lambda c: f(c), lambda c: c * 2, c)

        return np.sum(wb.scan(step, xs, np.zeros(3)))

    W, xs = rng.standard_normal((3, 3)), np.abs(rng.standard_normal((5, 3))) + 3
    found = checks_of(program, W, xs)
    assert the_wrong(found).node.op.name == "planted"
    loop = {c.node.op.name: c for c in found}
    assert loop["scan"].status == loop["cond"].status == "unsure"
    assert "depends on a wrong rule inside it" in loop["scan"].text
    assert loop["tanh"].status == "right"


# Sessions


def test_G5_a_session_checks_its_nodes_and_its_gradients(
    rng: np.random.Generator,
) -> None:
    f = planted(np.tanh, lambda g, y, x: (1.001 * g * (1 - y**2),))

    def loss(W: Any, x: Any) -> Any:
        return np.sum(f(W @ x) ** 2)

    session = wb.Session(wb.trace(loss)(rng.standard_normal((3, 3)), np.ones(3)))
    report = session.check(seed=2)
    assert session.report is report
    assert not session.stale
    assert not report.ok
    assert [c.node.op.name for c in report.faulty] == ["planted"]
    assert report.counts == {"right": 3, "wrong": 1}
    assert "rules of 4 nodes: 3 right, 1 wrong" in report.summary()
    assert report.faulty[0].text in report.summary()
    assert report.node("planted 3").status == "wrong"
    assert report.node(session["planted 3"]) is report.faulty[0]
    with pytest.raises(UnknownNodeError, match=r"Its nodes are matmul 2, planted 3"):
        report.node("tanh")
    assert "WRONG The rule of planted" in str(report)
    html = report._repr_html_()
    assert "<td" in html
    assert "<lambda>" not in html
    alone = session.check(nodes=False)
    assert not alone.nodes
    assert "rules of" not in alone.summary()


@pytest.mark.parametrize(
    ("count", "more"), [(1, ""), (2, " So is 1 more."), (3, " So are 2 more.")]
)
def test_wrong_rules_behind_a_right_gradient_are_counted(count: int, more: str) -> None:
    f = planted(np.sin, lambda g, y, x: (2 * g * np.cos(x),))
    program = lambda x: np.sum(x + sum(0 * f(k * x) for k in range(1, count + 1)))  # noqa: E731
    report = wb.Session(wb.trace(program)(np.array([0.3, 0.4]))).check()
    assert not report.wrong
    assert len(report.faulty) == count
    assert report.summary().startswith(f"{report.faulty[0].text}{more} (")


def test_G5_overridden_nodes_are_told_and_not_failed() -> None:
    session = wb.Session(wb.trace(lambda x: np.sum(np.sin(x) ** 2))(np.full(2, 0.5)))
    session.override("sin", "0.25 * d")
    report = session.check()
    assert report.ok
    check = report.node("sin 1")
    assert check.status == "overridden"
    assert "changes what it passes on by 75 %" in check.text
    entry: Any = check.entry
    true = 2 * np.sin(0.5) * np.cos(0.5)
    assert entry.numeric == pytest.approx(true)
    assert entry.analytic == pytest.approx(true / 4)
    session.undo()
    assert session.stale == {"report"}


def test_of_a_pattern_the_last_node_is_overridden_and_the_others_noted() -> None:
    session = wb.Session(
        wb.trace(lambda W, x, b: np.sum(np.tanh(W @ x + b)))(
            np.eye(2), np.ones(2), np.ones(2)
        )
    )
    session.override(wb.pattern(lambda W, x, b: W @ x + b), "0.5 * d")
    report = session.check()
    assert report.ok
    add, matmul = report.node("add 4"), report.node("matmul 3")
    assert (add.status, matmul.status) == ("overridden", "right")
    assert "by 50 %" in add.text
    assert "replaces its rule" in matmul.text


def test_G5_a_long_check_counts_and_stops() -> None:
    def deep(x: Any) -> Any:
        for _ in range(50):
            x = np.sin(x) + 0.1
        return np.sum(x)

    session = wb.Session(wb.trace(deep)(np.ones(3)))
    seen = []

    def progress(done: int, total: int) -> bool:
        seen.append((done, total))
        return done == 20

    report = session.check(progress=progress)
    assert report.stopped
    assert len(report.nodes) == 20
    assert seen[0] == (0, 104)  # nodes, and the entries of x
    assert not session.check(seed=1).stopped

    def interrupting(done: int, total: int) -> None:
        if done == 7:
            raise KeyboardInterrupt

    report = session.check(progress=interrupting)
    assert report.stopped
    assert len(report.nodes) == 7


def test_a_seed_repeats_what_was_sampled(rng: np.random.Generator) -> None:
    f = planted(np.sin, lambda g, y, x: (g * np.cos(x) * (1 + 1e-3 * (x > 1)),))
    x = rng.standard_normal(5000)
    one, two = (the_wrong(checks_of(lambda x: f(x), x, seed=5)) for _ in range(2))
    assert one.entry == two.entry


def test_G5_check_grads_names_the_op_and_its_line() -> None:
    wrong = wb.custom_vjp(np.sin, vjp=lambda node, g: 2 * g * np.cos(node.inputs[0]))
    with pytest.raises(
        wb.errors.GradientError, match="The rule of custom_sin"
    ) as caught:
        wb.check_grads(lambda x: np.sum(np.tanh(wrong(x))), np.array([0.3, 0.4]))
    report: Any = caught.value.report
    assert [c.node.site.text for c in report.faulty] == [
        "wb.check_grads(lambda x: np.sum(np.tanh(wrong(x))), np.array([0.3, 0.4]))"
    ]


def test_differences_that_cannot_tell_are_not_said_to_be_ok() -> None:
    with np.errstate(all="ignore"):
        try:
            report = wb.check_grads(lambda x: np.sum(x**1.5), np.array([0.0]))
        except wb.errors.GradientError as error:
            report = error.report  # type: ignore[assignment]
    for line in str(report).splitlines():
        assert not (line.startswith("ok") and "nan" in line), line


@pytest.mark.parametrize("apart", [0, 1e-9, 1e-6])
def test_G5_terms_that_cancel_to_nothing_are_no_error(apart: float) -> None:
    """Near x = y all digits of x log(x/y) - x + y are lost, and 0 comes out."""
    x = np.linspace(0.3, 3, 12)
    for f in (special.kl_div, lambda x, y: x * np.log(x / y) - x + y):
        (check, *_) = checks_of(f, x, x * (1 + apart))[::-1]
        assert check.status == "right", check.text
    f = planted(special.kl_div, lambda g, y, a, b: (g * np.log(a / b), g * a / b))
    assert the_wrong(checks_of(lambda x, y: f(x, y), x, x * (1 + apart)))


@pytest.mark.parametrize(
    ("size", "words"),
    [
        (1e200, "changes what it passes on by 50 %"),
        (1e-200, "changes what it passes on by 50 %"),
        (np.inf, "where what is passed on is not finite"),
    ],
)
def test_what_an_override_changes_of_any_size(size: float, words: str) -> None:
    with np.errstate(all="ignore"):
        program = wb.trace(lambda x: np.sum(np.sin(x) * size))(np.zeros(3))
        session = wb.Session(program)
        session.override("sin", "0.5 * d")
        report = session.check()
        check = report.node("sin 1")
    assert check.status == "overridden"
    assert words in check.text
    if np.isfinite(size):
        assert report.changed == {"x": pytest.approx(0.5)}


@pytest.mark.parametrize("jumps", [np.floor, np.ceil, np.rint, np.trunc])
def test_rules_of_jumps_are_right_at_ordinary_numbers(
    jumps: Any, rng: np.random.Generator
) -> None:
    x = rng.uniform(30, 700, 5)
    for checked in check_nodes(wb.trace(lambda x: np.sum(x * jumps(x)))(x).nodes):
        assert checked.status != "wrong", checked.text


def test_the_rule_of_a_remainder_is_right_across_its_jumps(
    rng: np.random.Generator,
) -> None:
    x, y = 3 * rng.standard_normal((20, 20)), rng.standard_normal(20)
    for checked in check_nodes(wb.trace(lambda x, y: np.sum(x % y))(x, y).nodes):
        assert checked.status != "wrong", checked.text


def test_what_both_sides_confirm_is_not_wrong() -> None:
    assert agree_with(2.0, 2.0001, 2.0, 3.0)
    assert not agree_with(2.0, 3.0, 2.0, 3.0)  # a kink
    assert not agree_with(2.0, 2.0, 2.00001, 2.0)  # a slight fault
    assert not agree_with(2.0, 2.0, np.nan, 2.0)


@pytest.mark.parametrize("count", [2, 40])
def test_the_rule_of_an_angle_is_right_near_its_bend(count: int) -> None:
    x = np.ones(count)
    x[0] = 5e-5
    angle = wb.trace(lambda y, x: np.sum(np.arctan2(y, x)))(np.zeros(count), x)
    assert [checked.status for checked in check_nodes(angle.nodes)] == ["right"] * 2


@pytest.mark.parametrize("size", [1e155, 1e160, 1e300])
@pytest.mark.parametrize("shape", [(3,), (1, 3)])
def test_a_derivative_that_underflows_is_right(
    size: float, shape: tuple[int, ...]
) -> None:
    x, y = np.ones(shape), np.array([[1.0], [size]])
    quotient = wb.trace(lambda x, y: np.sum(x / y))(x, y)
    assert [checked.status for checked in check_nodes(quotient.nodes)] == ["right"] * 2
    assert wb.Session(quotient).check().ok


def test_an_entry_with_no_tolerance_is_ranked() -> None:
    def rank(analytic: float) -> tuple[int, float]:
        given = ("x", (0,), 1, "rev", analytic, 1.0, 0.0, 0.0, 1.0, 1.0)
        return Entry(*given, "right", "differences").badness

    assert rank(1.0) == (2, 0.0)
    assert rank(2.0) == rank(np.nan) == (2, np.inf)


def test_nodes_of_versions_are_computed_from_their_values() -> None:
    def f(x: Any) -> Any:
        y = x * 1.0
        y[0] = x[1] ** 2
        y[1] = y[0] * y[2]
        return np.sum(y[::-1] ** 2)

    nodes = [n for n in wb.trace(f)(np.array([2.0, 3.0, 4.0])).nodes if n.inputs]
    assert sum(n.op.name == "index_set" for n in nodes) == 2
    for node in nodes:
        isolated = IsolatedNode(node)
        np.testing.assert_array_equal(isolated.outputs, np.ravel(node.value))
        for value in isolated.values:
            assert np.all(np.isfinite(value))
        check = check_node(node, np.random.default_rng(0), order=1)
        assert check.status == "right", check
