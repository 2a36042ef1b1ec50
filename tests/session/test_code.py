"""`Session.code`: lines that attach the same overrides to the same program.

What they are held to is the gradient, bit for bit, of a session of its own.
"""

from __future__ import annotations

import linecache
from contextlib import suppress
from itertools import count
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.session.network import NAMES, fresh
from workbench.errors import OverrideError, WorkbenchError


def halved(node: Any, *g: Any) -> Any:
    """A rule of a user's own."""
    return [None if x is None else 0.5 * x for x in node.vjp(*g)]


def is_log(node: Any) -> bool:
    """A predicate of a user's own."""
    return bool(node.op.name == "log")


def linear(W: Any, x: Any) -> Any:
    """A pattern of a user's own."""
    return W @ x


class Called:
    """A rule that is not a function, and has no name."""

    def __call__(self, node: Any, *g: Any) -> Any:
        return [3 * x for x in node.vjp(*g)]


SPACE: dict[str, Any] = {
    "np": np,
    "wb": wb,
    "halved": halved,
    "is_log": is_log,
    "linear": linear,
}
TARGETS: list[Any] = [
    "h",
    "tanh",
    "encoder/*",
    "decoder",
    "exp",
    "log",
    5,
    is_log,
    wb.pattern(linear),
    wb.pattern(lambda W, x, b: W @ x + b),
    wb.pattern(lambda a, b: a * b, where=lambda m: True),
    wb.subgraph("h", ["X", "W1", "b1"]),
    wb.subgraph(["p"], ["h", "W2", "b2"]),
]
GRAPH = wb.graph_rule(
    inputs=["x", "g"], returns=["d"], nodes=[(["d"], "multiply", ["g", 0.5], {})]
)
RULES: list[Any] = [
    "0.5 * d",
    "true",
    halved,
    GRAPH,
    wb.rules.clip(0.01),
    wb.rules.clip_by_norm(0.01),
    wb.rules.stop(),
    wb.rules.sanitise(),
    wb.rules.noise(0.1, seed=3),
    wb.rules.safe_log(1e-3),
]


CELLS = count()


def again(model: wb.Session, **more: Any) -> wb.Session:
    """A fresh session on which the code of another has run."""
    made, text = fresh(model.name), model.code()
    file = f"<cell {next(CELLS)}>"  # as in a notebook, which keeps what it has run
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    exec(compile(text, file, "exec"), {**SPACE, **more, model.name: made})
    return made


def assert_same(model: wb.Session, made: wb.Session) -> None:
    for name in NAMES:
        assert model.grads[name].tobytes() == made.grads[name].tobytes(), model.code()
    assert made.code() == model.code()


@pytest.mark.long
def test_random_overrides_are_rebuilt_bit_for_bit(rng: np.random.Generator) -> None:
    """Of every kind of target and rule, in any order, on and off, moved and edited."""
    for _ in range(60):
        model = fresh()
        for _ in range(int(rng.integers(1, 8))):
            target = TARGETS[rng.integers(len(TARGETS))]
            rule = RULES[rng.integers(len(RULES))]
            name = ["mine", None][rng.integers(2)]
            on = bool(rng.random() < 0.8)
            with suppress(WorkbenchError):  # some rules fit some ops
                fresh().override(target, rule)
                model.override(target, rule, name=name, enabled=on)
        for one in model.overrides:
            kind = rng.integers(4)
            if kind == 0:
                model.move(one, int(rng.integers(len(model.overrides))))
            elif kind == 1:
                model.switch(one, bool(rng.integers(2)))
            elif kind == 2:
                model.edit(one, "0.25 * d")
        assert_same(model, again(model))


def test_of_two_equal_overrides_the_later_is_kept() -> None:
    model = fresh()
    first = model.override("tanh", "2 * d")
    model.override("tanh", "3 * d")
    third = model.override("tanh", "4 * d")
    model.edit(third, "2 * d")
    assert len(model.code().splitlines()) == 2
    made = again(model)
    for name in NAMES:
        assert model.grads[name].tobytes() == made.grads[name].tobytes()
    assert first.code == model.overrides[-1].code


def test_what_has_no_name_is_given_one() -> None:
    model = fresh()
    rule, condition = Called(), eval("lambda node: node.op.name == 'tanh'")
    model.override(condition, rule)
    model.override("exp", eval("lambda node, g: [5 * g]"), jvp=Called())
    assert model.code().splitlines() == [
        "model.override(where_1, vjp=rule_1)  # with your function where_1, rule_1",
        "model.override('exp', vjp=rule_2, jvp=forward_2)"
        "  # with your function rule_2, forward_2",
    ]
    more = {
        "where_1": condition,
        "rule_1": rule,
        "rule_2": model.overrides[1].override.vjp,
        "forward_2": Called(),
    }
    assert_same(model, again(model, **more))


def test_a_lambda_is_written_out() -> None:
    model = fresh()
    model.override(lambda node: node.op.name == "tanh", lambda node, g: [0.5 * g])
    model.override(wb.pattern(lambda x, y: x @ y), "2 * d", enabled=False)
    assert model.code().splitlines() == [
        "model.override(lambda node: node.op.name == 'tanh',"
        " vjp=lambda node, g: [0.5 * g])",
        "model.override(wb.pattern(lambda x, y: x @ y), vjp='2 * d', enabled=False)",
    ]
    assert_same(model, again(model))


@pytest.mark.parametrize("name", ["sin", "abs", "matmul", "a/b", "a*", "with'quote"])
def test_a_node_is_found_by_its_code_whatever_its_name(name: str) -> None:
    def f(x: Any) -> Any:
        with wb.scope("a"):
            y = np.sin(np.abs(x))
        y.name = name
        return np.sum(np.sin(y) * y)

    x = np.array([0.3, -0.7])
    model = wb.Session(wb.trace(f)(x), name="s")
    one = model.override(model[name], "3 * d")
    made = wb.Session(wb.trace(f)(x), name="s")
    exec(model.code(), {"s": made})
    assert made.overrides[0].matched == one.matched
    assert made.grads["x"].tobytes() == model.grads["x"].tobytes()


def test_a_subgraph_of_nodes_without_names() -> None:
    model = fresh()
    tanh, matmul = (
        next(i for i, n in enumerate(model.graph.nodes) if n.op.name == op)
        for op in ("tanh", "matmul")
    )
    one = model.override(wb.subgraph(tanh, [matmul, "b1"]), "0.5 * d")
    assert one.where == f"subgraph h of matmul {matmul}, b1"
    line = model.graph.nodes[matmul].site.line
    assert one.code == (
        f"model.override(wb.subgraph(['h'], ['matmul@{line}', 'b1']), vjp='0.5 * d')"
    )
    assert_same(model, again(model))


def test_errors_call_a_subgraph_by_names_not_by_ids() -> None:
    model = fresh()
    tanh = next(i for i, n in enumerate(model.graph.nodes) if n.op.name == "tanh")
    matmul = model.graph.nodes[tanh].inputs[0].inputs[0]
    with pytest.raises(OverrideError, match=r"'h of matmul \d+': .*b1"):
        model.override(wb.subgraph(tanh, [matmul]), "0.5 * d")
    with pytest.raises(OverrideError, match=r"subgraph 'X of h': .* does not depend"):
        model.override(wb.subgraph(model["X"], ["h"]), "0.5 * d")
    seen = []

    def rule(node: Any, g: Any) -> Any:
        seen.append(node.op.name)
        return [2 * g @ node["W1"].T, node["X"].T @ g, g.sum(0)]

    model.override(wb.subgraph("h", ["X", "W1", "b1"]), rule)
    assert seen[0] == "h of X, W1, b1"


def test_G1_a_target_is_what_the_picture_calls_a_node() -> None:
    def program(x: Any) -> Any:
        return np.sum(np.tanh(x) + np.tanh(2 * x))

    ad = wb.Session(wb.trace(program)(np.zeros(2)))
    made = ad.override("tanh 3", "10 * d")
    np.testing.assert_allclose(ad.grads["x"], [21.0, 21.0], rtol=1e-15)
    again = wb.Session(ad.graph)
    exec(made.code, {"ad": again})
    assert again.grads["x"].tolist() == ad.grads["x"].tolist()


STEPS = """def energy(v0, k):
    x, v = np.array([1.0, 0.0]), v0
    for _ in range(40):
        a = -k * x - 0.1 * v
        v = v + 0.01 * a
        x = x + 0.01 * v
    return np.sum(x**2) + np.sum(v**2)
"""
EULER = 5  # the line of STEPS with v, which adds once and multiplies once


def physics(text: str = STEPS) -> wb.Session:
    """Return a session of a loop of 40 steps, whose lines can be read."""
    name = f"physics-{hash(text)}.py"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    space: dict[str, Any] = {"np": np}
    exec(compile(text, name, "exec"), space)
    trace = wb.trace(space["energy"])(np.array([0.0, 1.0]), 2.0)
    return wb.Session(trace, name="physics")


def run(code: str, session: wb.Session) -> Any:
    """Run code that was copied on another session, and return its gradient."""
    exec(code, {"np": np, "wb": wb, "physics": session})
    return session.grads["v0"]


def place(session: wb.Session, op: str, line: int, step: int) -> int:
    """Return the id of a node by its op and line: independent of all addresses."""
    found = [
        i
        for i, x in enumerate(session.graph.nodes)
        if x.op.name == op and x.site is not None and x.site.line == line
    ]
    return found[step]


def test_a_node_of_a_loop_is_named_by_op_line_and_step() -> None:
    session = physics()
    node = place(session, "add", EULER, 20)
    session.override(node, "clip(d, -0.01, 0.01)")
    code = session.code()
    assert code == (
        f"physics.override('add@{EULER}', vjp='clip(d, -0.01, 0.01)', steps=20)"
    )
    np.testing.assert_array_equal(run(code, physics()), session.grads["v0"])
    # Code of one step is right in a program whose nodes have other numbers.
    other = physics(STEPS.replace("x, v = np", "x, v = 1.0 * np"))
    other.override(place(other, "add", EULER, 20), "clip(d, -0.01, 0.01)")
    again = physics(STEPS.replace("x, v = np", "x, v = 1.0 * np"))
    np.testing.assert_array_equal(run(code, again), other.grads["v0"])


def test_all_steps_of_a_loop_are_the_call_without_steps() -> None:
    session = physics()
    node = place(session, "add", EULER, 3)
    session.override(node, "0.9 * d", steps=slice(None))
    code = session.code()
    assert code == f"physics.override('add@{EULER}', vjp='0.9 * d')"
    other = physics()
    np.testing.assert_array_equal(run(code, other), session.grads["v0"])
    assert len(other.overrides[0].matched) == 40
    # By hand: every step of the loop passes 0.9 of what arrives at v.
    x, v, states = np.array([1.0, 0.0]), np.array([0.0, 1.0]), []
    for _ in range(40):
        a = -2.0 * x - 0.1 * v
        v = v + 0.01 * a
        x = x + 0.01 * v
        states.append((x, v))
    dx, dv = 2 * x, 2 * v
    for _ in range(40):
        dv = 0.9 * (dv + 0.01 * dx)
        da = 0.01 * dv
        dx, dv = dx - 2.0 * da, dv - 0.1 * da
    np.testing.assert_allclose(other.grads["v0"], dv, rtol=1e-12)


def test_several_nodes_of_a_line_are_numbered() -> None:
    session = physics()
    with pytest.raises(WorkbenchError, match=r"makes 2 nodes 'multiply': write 'mult"):
        session.override("multiply@4", "0 * d")
    second = session.override("multiply@4#2", "0 * d", steps=7)
    assert second.matched == (place(session, "multiply", 4, 15),)
    assert second.code == "physics.override('multiply@4#2', vjp='0 * d', steps=7)"


@pytest.mark.parametrize(
    "text", ["multiply@2", "cosh@5", "add@5#2", "add 20000", "tanh 20"]
)
def test_an_address_of_another_program_is_refused(text: str) -> None:
    session = physics()
    with pytest.raises(WorkbenchError, match=r"line|nothing in session"):
        session.override(text, "0 * d")
    assert session.overrides == []


def test_a_name_that_two_lines_have_is_written_with_its_line() -> None:
    def f(x: Any) -> Any:
        h = np.sin(x)
        h.name = "h"
        y = np.tanh(h)
        y.name = "h"
        return np.sum(y)

    session = wb.Session(wb.trace(f)(np.ones(2)), name="physics")
    first = next(i for i, x in enumerate(session.graph.nodes) if x.name == "h")
    one = session.override(first, "2 * d")
    line = f.__code__.co_firstlineno + 1
    assert one.code == f"physics.override('h@{line}', vjp='2 * d')"
    assert session[f"h@{line}"] is session.graph.nodes[first]
