"""The derivative of a session as programs: raw, simplified, and as the page gets it."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.core.tensor import Tensor
from workbench.errors import UsageError
from workbench.jupyter import answers  # noqa: F401  # declares what a page asks
from workbench.rewrite.text import format_node
from workbench.session import Session
from workbench.session.wire import (
    encode_picture,
    list_rewrites,
    rewriting,
    take_program,
)
from workbench.session.wire.protocol.fields import STATISTICS
from workbench.session.wire.schema import declare_wire


def quadratic(x: Any) -> Any:
    return x * x + x - 2


def network(W: Any, x: Any, b: Any, t: Any) -> Any:
    h = np.tanh(W @ x + b)
    return np.sum((h - t) ** 2)


def make_network(**options: Any) -> Session:
    random = np.random.default_rng(0)
    values = [random.normal(size=shape) for shape in ((2, 3), 3, 2, 2)]
    return Session(wb.trace(network)(*values), wrt=["W", "b"], **options)


def run_at_values(session: Session, graph: wb.Graph) -> list[Any]:
    return graph.run([x._value for x in graph.inputs])


def test_D2_the_derivative_by_hand_then_each_rewrite() -> None:
    session = Session(wb.trace(quadratic)(3.0))
    raw = session.chain_rule
    assert format_node(raw.outputs[0], 9) == "1 * x + x * 1 + 1 - 0"
    simple = session.simplify()
    assert [str(step) for step in simple.steps] == [
        "1. one times x: 1 * x → x",
        "2. one times x: x * 1 → x",
        "3. x plus x: x + x → 2 * x",
        "4. x minus zero: 2 * x + 1 - 0 → 2 * x + 1",
    ]
    assert format_node(simple.outputs[0], 9) == "2 * x + 1"
    for graph in (raw, simple, *[step.graph for step in simple.steps]):
        assert run_at_values(session, graph) == [7.0]
    assert session.simplify() is simple
    session.run(x=4.0)
    assert run_at_values(session, session.simplify()) == [9.0]
    off = session.simplify(without=["x plus x"])
    assert [step.name for step in off.steps] == [
        "one times x",
        "one times x",
        "x minus zero",
    ]


def test_a_seed_multiplies_the_derivative_by_hand() -> None:
    session = Session(wb.trace(quadratic)(3.0), seed=2.0)
    assert run_at_values(session, session.chain_rule) == [14.0]
    assert run_at_values(session, session.simplify()) == [14.0]


@pytest.mark.parametrize("rule", [None, "clip(d, -0.1, 0.1)", "0.5 * d", "0 * d", "d"])
def test_the_programs_give_the_gradients_of_the_session(rule: str | None) -> None:
    session = make_network()
    if rule is not None:
        session.override("tanh", rule)
    wanted = [session.grads[name] for name in ("W", "b")]
    for graph in (session.chain_rule, session.simplify()):
        for got, right in zip(run_at_values(session, graph), wanted, strict=True):
            np.testing.assert_allclose(got, right, rtol=1e-12, atol=1e-300)


def find_marked(graph: wb.Graph) -> list[Tensor]:
    return [x for x in graph.nodes if x.origin is not None and x.origin.overridden]


def test_what_an_override_set_stays_marked() -> None:
    session = make_network()
    session.override("tanh", "3 * d * 2")
    assert {x.origin.rule for x in find_marked(session.chain_rule)} == {"3 * d * 2"}
    simple = session.simplify()
    for step in simple.steps:
        assert find_marked(step.graph), str(step)
    assert find_marked(simple)


def test_a_mark_survives_a_rule_that_takes_the_node_into_another() -> None:
    # The negative of the override's own goes into the difference around it.
    session = Session(wb.trace(lambda x: -np.sin(x))(0.5))
    session.override("sin", "-d")
    names = [step.name for step in session.simplify().steps]
    assert names
    for got in (session.chain_rule, session.simplify()):
        assert run_at_values(session, got) == [session.grads["x"]]
    assert find_marked(session.chain_rule)


def test_equal_nodes_of_an_override_and_of_the_program_stay_two() -> None:
    def loss(x: Any) -> Any:
        return np.sin(x) * np.cos(x)

    session = Session(wb.trace(loss)(0.5))
    session.override("sin", "g * cos(x)", name="mine")
    simple = session.simplify()
    assert "mine" in {x.origin.rule for x in find_marked(simple)}
    assert run_at_values(session, simple)[0] == pytest.approx(np.cos(1.0))


def test_a_session_without_values_has_no_derivative_to_write() -> None:
    session = Session(wb.trace(quadratic)(wb.Spec((), float)))
    with pytest.raises(UsageError, match="traced without values"):
        session.simplify()


def test_a_rule_that_is_none() -> None:
    with pytest.raises(UsageError, match="no rewrite rule is called 'mine'"):
        Session(wb.trace(quadratic)(3.0)).simplify(without=["mine"])


# On the wire


def read_program(session: Session, number: int, without: Any = ()) -> dict[str, Any]:
    """A program as the page gets it; what it says is checked by the schema."""
    shown, extra = take_program(session, list(without), number)
    told = encode_picture(shown.header, shown.columns, extra).message
    head = {"type": "program", "seq": 1, "request": 1}
    message = json.loads(json.dumps({**head, **told}))
    assert declare_wire().read("ProgramAnswer", message, {"nodes": 0}) == message
    return {**message, "columns": shown.columns}


def read_steps(session: Session, without: Any = ()) -> list[dict[str, Any]]:
    found = list_rewrites(session, list(without))
    head = {"type": "simplify", "seq": 1, "request": 1}
    message = json.loads(json.dumps({**head, **found}))
    assert declare_wire().read("SimplifyAnswer", message) == message
    assert message["total"] == len(message["steps"])
    return list(message["steps"])


def list_labels(message: dict[str, Any]) -> list[str]:
    header = message["header"]
    return [header["strings"][i] for i in message["columns"]["name"]]


def test_the_steps_say_rule_line_and_both_sides() -> None:
    steps = read_steps(Session(wb.trace(quadratic)(3.0)))
    first = steps[0]
    assert (first["rule"], first["before"], first["after"], first["group"]) == (
        "one times x",
        "1 * x",
        "x",
        "simplify",
    )
    assert first["site"].startswith("exact_rules.py:")
    assert int(first["site"].partition(":")[2]) > 1


def test_a_program_has_keys_that_stay() -> None:
    session = Session(wb.trace(quadratic)(3.0))
    programs = [read_program(session, k) for k in range(5)]
    assert [p["text"] for p in programs] == [
        "∂subtract/∂x = 1 * x + x * 1 + 1 - 0",
        "∂subtract/∂x = x + x * 1 + 1 - 0",
        "∂subtract/∂x = x + x + 1 - 0",
        "∂subtract/∂x = 2 * x + 1 - 0",
        "∂subtract/∂x = 2 * x + 1",
    ]
    assert list_labels(programs[0]) == [
        "x",
        "t1 = 1 * x",
        "t2 = x * 1",
        "t3 = t1 + t2",
        "t4 = t3 + 1",
        "∂/∂x = t4 - 0",
    ]
    assert (programs[0]["came"], programs[0]["went"]) == ([], [])
    for before, after in pairwise(programs):
        gone = {before["keys"][i] for i in range(before["nodes"])} - {
            before["keys"][i] for i in before["went"]
        }
        there = set(after["keys"]) - {after["keys"][i] for i in after["went"]}
        assert {after["keys"][i] for i in after["went"]} == gone - there
        assert {after["keys"][i] for i in after["came"]} == there - gone
        assert after["went"]
    third = programs[3]
    assert [list_labels(third)[i] for i in third["came"]] == ["t8 = 2 * x"]
    assert [list_labels(third)[i] for i in third["went"]] == ["t3 = x + x"]
    # What is struck reads what is there, and nothing reads it.
    starts, inputs = (third["columns"][name] for name in ("input_start", "inputs"))
    (struck,) = third["went"]
    assert list(inputs[starts[struck] : starts[struck + 1]]) == [0, 0]
    assert struck not in inputs
    # The product is that of the program: so the page can show its node.
    labels = [session.nodes.labels[i] for i in third["forward"]]
    assert labels[0] == "x"
    assert labels[third["came"][0]] == "multiply 1"
    assert np.isnan(third["columns"]["value_stats"]).all()
    assert len(third["columns"]["value_stats"]) == third["nodes"] * len(STATISTICS)


def test_a_rule_is_off_and_the_rest_is_replayed() -> None:
    session = Session(wb.trace(quadratic)(3.0))
    steps = read_steps(session, ["x plus x"])
    assert [step["rule"] for step in steps] == [
        "one times x",
        "one times x",
        "x minus zero",
    ]
    last = read_program(session, 3, ["x plus x"])
    assert last["text"] == "∂subtract/∂x = x + x + 1"


def test_overrides_stay_to_be_seen() -> None:
    session = make_network()
    session.override("tanh", "clip(d, -0.1, 0.1)")
    session.override("power", "d", enabled=False)
    steps = read_steps(session)
    for number in range(len(steps) + 1):
        message = read_program(session, number)
        (one,) = message["header"]["overrides"]
        assert one["label"] == "clip ±0.1"
        column = message["columns"]["override"]
        assert sorted(one["matched"] + one["covered"]) == list(
            np.flatnonzero(column == 0)
        )
        ops = message["columns"]["op"][one["matched"]]
        assert [message["header"]["strings"][i] for i in ops] == ["clip"]
        tanh = [session.nodes.labels[message["forward"][i]] for i in one["matched"]]
        assert set(tanh) == {"tanh 6"}


def test_a_step_beyond_the_last_is_the_last() -> None:
    session = Session(wb.trace(quadratic)(3.0))
    assert read_program(session, 99)["text"] == "∂subtract/∂x = 2 * x + 1"


def name(x: Any, text: str) -> Any:
    x.name = text
    return x


def repeat(w: Any, x: Any) -> Any:
    h = x
    for _ in range(3):
        h = name(np.tanh(w * h), "h")
    return np.sum(h * h)


def test_values_of_one_name_are_told_apart() -> None:
    w, x = np.array([0.5, 0.2]), np.array([1.0, 2.0])
    session = Session(wb.trace(repeat)(w, x), wrt=["w"])
    h1 = np.tanh(w * x)
    h2 = np.tanh(w * h1)
    h3 = np.tanh(w * h2)
    values = {"w": w, "x": x, "h1": h1, "h2": h2, "h3": h3}
    for number in range(len(read_steps(session)) + 1):
        message = read_program(session, number)
        found: dict[str, Any] = {"np": np, **values}
        for line in message["text"].splitlines():  # it is Python, and right
            left, _, right = line.partition(" = ")
            found[left] = eval(right, found)
        np.testing.assert_allclose(found["∂sum/∂w"], session.grads["w"], rtol=1e-12)
        assert {"h1", "h2", "h3"} <= {*list_labels(message)}
    assert "tanh(w * h2)" in read_steps(session)[1]["before"]


def test_a_value_that_takes_the_place_of_a_named_one_takes_its_name() -> None:
    def two(x: Any) -> Any:
        h = name(np.exp(x) * 1.0, "h")
        h = name(h * h * 1.0, "h")
        return name(h * h, "h")

    session = Session(wb.trace(two)(0.5))
    last = read_program(session, len(read_steps(session)))
    right = last["text"].rpartition("∂h3/∂x = ")[2]
    found = {"h1": np.exp(0.5), "h2": np.exp(1.0)}
    for line in last["text"].splitlines()[:-1]:
        left, _, code = line.partition(" = ")
        found[left] = eval(code, dict(found))
    assert eval(right, found) == pytest.approx(4 * np.exp(2.0))


def test_temporaries_have_names_that_no_input_has() -> None:
    def loss(t1: Any) -> Any:
        return np.sum(np.sin(t1) * np.exp(np.sin(t1)))

    t1 = np.array([1.0, 2.0])
    session = Session(wb.trace(loss)(t1))
    for number in range(len(read_steps(session)) + 1):
        found: dict[str, Any] = {"t1": t1, "np": np, "sin": np.sin}
        found |= {"cos": np.cos, "exp": np.exp}
        for line in read_program(session, number)["text"].splitlines():
            left, _, right = line.partition(" = ")
            assert left != "t1"
            found[left] = eval(right, found)
        np.testing.assert_allclose(found["∂sum/∂t1"], session.grads["t1"], rtol=1e-12)


def test_a_derivative_that_is_a_constant() -> None:
    session = Session(wb.trace(lambda x: 3.0 * x)(np.array(2.0)))
    last = read_program(session, len(read_steps(session)))
    assert last["text"].endswith("= 3")
    assert last["header"]["output"] == -1


def test_large_programs_are_told_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    session = Session(wb.trace(quadratic)(3.0), name="ad")
    monkeypatch.setattr(rewriting, "MOST_PROGRAM_NODES", 5)
    with pytest.raises(UsageError, match=r"the derivative has \d+ nodes; the page"):
        list_rewrites(session, [])
    monkeypatch.setattr(rewriting, "MOST_PROGRAM_NODES", 3)
    with pytest.raises(UsageError, match=r"the program has 4 nodes.*ad\.simplify\(\)"):
        take_program(session, [], 0)
