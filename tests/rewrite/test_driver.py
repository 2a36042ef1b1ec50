"""`wb.simplify`: its steps, which can be replayed, and what it leaves as it is."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.rewrite.graphs import assert_sound, run, simplify_soundly
from workbench.core.tensor import MaskedTensor
from workbench.errors import RewriteError, UsageError

X = np.array([0.3, -1.2, 2.0])


def seed(x: Any) -> Any:
    """The derivative of x*x + x - 2 as the chain rule gives it."""
    return (1 * x + x * 1) + 1 - 0


def example() -> wb.Graph:
    x = wb.scalar("x")
    return wb.Graph([x], [seed(x)])


def layer(X: Any, w: Any, b: Any) -> Any:
    return np.sum(np.log(1 + np.exp(np.tanh(X @ w + b) ** 2)) * 1.0)


def network() -> wb.Graph:
    """A loss and its gradients, with much to rewrite; of unknown lengths."""
    X, w, b = wb.matrix("X"), wb.vector("w"), wb.scalar("b")
    loss = layer(X, w, b)
    return wb.Graph([X, w, b], [loss, *wb.grad(loss, [w, b])])


def names(graph: wb.Graph) -> list[str]:
    return [step.name for step in graph.steps]


def ops(graph: wb.Graph) -> list[str]:
    return [node.op.name for node in graph.interior]


# Steps


def test_the_steps_of_the_seed() -> None:
    program = example()
    graph = simplify_soundly(program)
    assert [str(step) for step in graph.steps] == [
        "1. one times x: 1 * x → x",
        "2. one times x: x * 1 → x",
        "3. x plus x: x + x → 2 * x",
        "4. x minus zero: 2 * x + 1 - 0 → 2 * x + 1",
    ]
    assert str(graph).splitlines() == [
        "x      = input              float64[]",
        "%1     = multiply(2, x)     float64[]",
        "%2     = add(%1, 1)         float64[]",
    ]
    assert graph.run([3.0]) == program.run([3.0]) == [7.0]


def test_a_step_says_its_rule_and_where_it_is_written() -> None:
    first = simplify_soundly(example()).steps[0]
    assert first.number == 1
    assert first.name == first.rule.name == "one times x"
    file, line = first.site
    with open(file) as text:
        assert '"one times x"' in text.read().splitlines()[line - 1]
    assert first.before.op.name == "multiply"
    assert first.after.name == "x"
    assert repr(first) == "<Step 1. one times x: 1 * x → x>"


def test_the_program_after_each_step() -> None:
    graph = simplify_soundly(example())
    texts = [len(step.graph) for step in graph.steps]
    assert texts == [5, 4, 4, 3]
    assert str(graph.steps[-1].graph) == str(graph)
    assert graph.steps[0].svg().startswith("<svg")
    for step in graph.steps:
        assert names(step.graph) == names(graph)[: step.number]


@pytest.mark.parametrize("program", [example, network], ids=["seed", "network"])
def test_a_limit_gives_the_first_steps_of_the_same_program(
    program: Callable[[], wb.Graph], rng: np.random.Generator
) -> None:
    made = program()
    graph = simplify_soundly(made)
    shapes = {2: (4, 3), 1: (3,), 0: ()}
    args = [rng.normal(size=shapes[len(x.shape)]) for x in made.inputs]
    truth = run(made, args)
    texts = [str(step) for step in graph.steps]
    assert len(texts) > 2
    for k in range(len(texts) + 2):
        part = simplify_soundly(made, limit=k)
        assert [str(step) for step in part.steps] == texts[:k]
        for a, b in zip(run(part, args), truth, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-13, atol=1e-15)
        if 0 < k <= len(texts):
            assert str(graph.steps[k - 1].graph) == str(part)
    assert str(simplify_soundly(made, limit=0)) == str(made)


def test_what_is_simplified_stays_as_it_is() -> None:
    for program in (example(), network()):
        graph = simplify_soundly(program)
        again = simplify_soundly(graph)
        assert not again.steps
        assert str(again) == str(graph)


# Rules switched off


def test_a_rule_switched_off() -> None:
    graph = simplify_soundly(example(), without=["x plus x"])
    assert names(graph) == ["one times x", "one times x", "x minus zero"]
    assert ops(graph) == ["add", "add"]
    off = simplify_soundly(example(), without=["one times x", "x minus zero"])
    assert "one times x" not in names(off)
    assert names(simplify_soundly(example(), without="x plus x")) == names(graph)


def test_constants_and_equal_nodes_switched_off() -> None:
    x = wb.scalar("x")
    program = wb.Graph([x], [np.sin(x) * np.sin(x)])
    assert names(simplify_soundly(program)) == ["equal nodes"]
    assert ops(simplify_soundly(program, without="equal nodes")).count("sin") == 2

    one = wb.rewrite_rule(
        "circle",
        lambda x: np.sin(x) ** 2 + np.cos(x) ** 2,
        lambda x: np.float64(1),
        when=lambda bound: bound["x"].ndim == 0,
        fast=True,
    )
    program = wb.Graph([x], [x * np.exp(np.sin(x) ** 2 + np.cos(x) ** 2)])
    graph = simplify_soundly(program, [one])
    assert names(graph) == ["circle", "constants"]
    assert graph.run([2.0])[0] == 2 * np.exp(1)
    graph = simplify_soundly(program, [one], without=["constants"])
    assert names(graph) == ["circle"]
    assert graph.run([2.0])[0] == 2 * np.exp(1)  # what no leaf reaches has a value


def test_an_unknown_name() -> None:
    text = r"no rewrite rule is called 'nope'\. The page"
    with pytest.raises(UsageError, match=text):
        wb.simplify(example(), without=["nope"])


def test_what_is_no_graph() -> None:
    wrong: Any = wb.scalar("x")
    with pytest.raises(UsageError, match=r"simplify takes a Graph, not Tensor. Write"):
        wb.simplify(wrong)


# Names, lines, origins


def test_names_lines_and_origins_stay() -> None:
    x = wb.scalar("x")
    y = np.sin(x) * 1
    y.name = "y"
    z = y - 0 + np.exp(y)
    z.name = "z"
    graph = simplify_soundly(wb.Graph([x], [z, wb.grad(z, x)]))
    assert graph["y"].op.name == "sin"
    assert graph["z"].op.name == "add"
    by_hand = {node.serial for node in graph.nodes}
    for node in graph.interior:
        assert node.site is not None
        if node.origin is not None:
            assert node.origin.forward.serial in by_hand
    lines = {node.op.name: node.site.line for node in graph.interior if node.name}
    assert lines["sin"] + 2 == lines["add"]


def test_a_replacement_stands_on_the_line_of_what_it_replaces() -> None:
    x = wb.vector("x")
    with wb.scope("loss"):
        y = np.log(1 + np.exp(x))
    (node,) = simplify_soundly(wb.Graph([x], [y])).interior
    assert node.op.name == "logaddexp"
    assert node.site == y.site
    assert node.scope == "loss"


def test_a_name_does_not_go_to_an_input() -> None:
    x = wb.scalar("x")
    y = x * 1
    y.name = "y"
    graph = simplify_soundly(wb.Graph([x], [y]))
    assert graph.outputs[0] is x
    assert x.name == "x"


# Rules that never end


def test_two_rules_that_undo_each_other() -> None:
    one = wb.rewrite_rule("to minus", lambda a, b: a + b, lambda a, b: b - (-a))
    two = wb.rewrite_rule("to plus", lambda a, b: a - (-b), lambda a, b: b + a)
    x, y = wb.scalar("x"), wb.scalar("y")
    both = "'to (minus|plus)' and 'to (minus|plus)'"
    text = f"the rewrite rules {both} undo each other without end, at"
    with pytest.raises(RewriteError, match=text):
        wb.simplify(wb.Graph([x, y], [x + y]), [one, two])
    with pytest.raises(RewriteError, match=text):
        wb.simplify(wb.Graph([x, y], [x + y]), [one, two], without=["equal nodes"])
    graph = simplify_soundly(wb.Graph([x, y], [x + y]), [one, two], without=["to plus",
                             "minus a negative"])  # fmt: skip
    assert ops(graph) == ["negative", "subtract"]


def test_a_rule_that_undoes_one_of_the_table() -> None:
    mine = wb.rewrite_rule("three", lambda x: 2.0 * x, lambda x: x + x)
    x = wb.scalar("x")
    name = "'(three|x plus x)'"
    with pytest.raises(RewriteError, match=f"{name} and {name}"):
        wb.simplify(wb.Graph([x], [x + x]), [mine])


@pytest.mark.parametrize("off", [[], ["equal nodes"]], ids=["merged", "alone"])
def test_a_rule_that_holds_for_its_own_result(off: list[str]) -> None:
    swap = wb.rewrite_rule("swap", lambda a, b: a + b, lambda a, b: b + a)
    x, y = wb.scalar("x"), wb.scalar("y")
    text = "the rewrite rule 'swap' holds for its own result, without end. Let its"
    with pytest.raises(RewriteError, match=text):
        wb.simplify(wb.Graph([x, y], [x + y]), [swap], without=off)


def test_growth_without_end() -> None:
    grow = wb.rewrite_rule("grow", lambda x: np.sin(x), lambda x: np.sin(x + 0.0) * 1)
    x = wb.scalar("x")
    start = time.perf_counter()
    with pytest.raises(RewriteError, match=r"'grow' holds for its own result"):
        wb.simplify(wb.Graph([x], [np.sin(x)]), [grow],
                    without=["x plus zero", "one times x"])  # fmt: skip
    print(f"found in {time.perf_counter() - start:.2f} s")


# Large programs


def chain(length: int) -> wb.Graph:
    x = wb.vector("x", shape=2)
    y = x
    for _ in range(length // 4):
        y = np.sin(y) * 1.0
        y = y + x - 0
    return wb.Graph([x], [y])


@pytest.mark.parametrize(
    "length", [20_000, pytest.param(100_000, marks=pytest.mark.long)]
)
def test_a_long_chain(length: int) -> None:
    """No recursion, neither of the driver nor of what writes its steps."""
    program = chain(length)
    start = time.perf_counter()
    graph = wb.simplify(program)
    print(f"{time.perf_counter() - start:.2f} s for {len(program):,} nodes")
    assert len(graph.steps) == length // 2
    assert len(graph) == length // 2 + 1
    assert sys.getrecursionlimit() < length
    assert str(graph.steps[-1]).endswith("sin(… + x) + x")
    value = np.ones(2)
    for _ in range(length // 4):
        value = np.sin(value) + 1
    np.testing.assert_array_equal(graph.run([np.ones(2)])[0], value)


def test_many_rewrites_at_one_node_of_many() -> None:
    x = wb.scalar("x")
    y = x
    for _ in range(3_000):
        y = np.negative(-y)
    graph = simplify_soundly(wb.Graph([x], [y]), without=["equal nodes"])
    assert graph.outputs[0] is x
    assert names(graph) == ["double negative"] * 3_000
    assert simplify_soundly(wb.Graph([x], [y])).outputs[0] is x


# What is equal and what is not


def merged(*outputs: Any) -> bool:
    x = next(y for y in wb.Graph([], outputs).nodes if not y.inputs)
    graph = simplify_soundly(wb.Graph([x], outputs))
    a, b = graph.outputs
    return a is b


def test_equal_nodes_become_one() -> None:
    x = wb.vector("x", shape=3)
    assert merged(np.sin(x), np.sin(x))
    assert merged(x + 0.5, x + 0.5)
    assert merged(np.sum(x, axis=0), np.sum(x, axis=0))
    assert merged(x[1:], x[1:])
    assert merged(np.cos(np.sin(x) * 2), np.cos(np.sin(x) * 2))


def test_what_differs_in_a_setting_or_a_constant_stays_two() -> None:
    x, m = wb.vector("x", shape=3), wb.matrix("m", shape=(2, 2))
    assert not merged(np.copysign(1.0, 0.0 * x + 0.0), np.copysign(1.0, x * -0.0 + 0.0))
    assert not merged(np.arctan2(0.0, x), np.arctan2(-0.0, x))
    assert not merged(x / 0.0, x / -0.0)
    assert not merged(np.full_like(x, 0.0), np.full_like(x, -0.0))
    assert not merged(np.sum(m, axis=0), np.sum(m, axis=1))
    assert not merged(np.sum(x, keepdims=True), np.sum(x, keepdims=False))
    assert not merged(x[1:], x[:1])
    assert not merged(np.logical_and(x, 1), np.logical_and(x, 2))
    i = wb.vector("i", shape=3, dtype="int64")
    for a, b in ((1, True), (1, 1.0), (True, 1.0), (1, np.int8(1)), (2.0, 2 + 0j)):
        one, two = np.multiply(i, a), np.multiply(i, b)
        graph = simplify_soundly(wb.Graph([i], [one, two]), without=["one times x"])
        values = run(graph, [np.arange(3)])
        truths = np.arange(3) * a, np.arange(3) * b
        for value, wanted in zip(values, truths, strict=True):
            assert value.dtype == wanted.dtype


def test_masked_and_plain_stay_two() -> None:
    """The gradient of where: 0 times infinity is 0 in it."""
    x = wb.vector("x", shape=2)
    masked = wb.grad(np.sum(np.where(x > 0, np.log(x), 0.0)), x)
    plain = wb.grad(np.sum(np.log(x)), x)
    program = wb.Graph([x], [masked, plain])
    assert any(isinstance(node, MaskedTensor) for node in program.nodes)
    graph = simplify_soundly(program)
    given = [np.array([0.0, 2.0])]
    for a, b in zip(run(graph, given), run(program, given), strict=True):
        np.testing.assert_array_equal(a, b)
    assert run(graph, given)[0][0] == 0


def test_random_draws_stay_two() -> None:
    stream = wb.random.stream(3)
    a, b = stream.normal(size=3), stream.normal(size=3)
    x = wb.vector("x", shape=3)
    graph = simplify_soundly(wb.Graph([x], [a + x, b + x]))
    assert graph.outputs[0] is not graph.outputs[1]
    one, two = wb.function([x], list(graph.outputs))(X)
    assert not np.any(one == two)


def test_ops_of_users_stay_two() -> None:
    class Double(wb.Op):
        def compute(self, x: Any) -> Any:
            return 2 * x

    double = Double()
    x = wb.vector("x", shape=3)
    graph = simplify_soundly(wb.Graph([x], [double(x), double(x)]))
    assert graph.outputs[0] is not graph.outputs[1]


# Programs with loops, calls, unknown lengths, overrides


def scan(x: Any) -> Any:
    return wb.scan(lambda e, h: np.tanh(h * 1 + e) - 0, x, x[0] * 1, last=True) * 1


def loop(x: Any) -> Any:
    def body(state: Any) -> Any:
        return state[0] + 1, state[1] * 0.5 * 1

    return wb.while_loop(lambda s: s[0] < 3, body, (0, x * 1))[1] - 0


def branch(x: Any) -> Any:
    return wb.cond(np.sum(x) > 0, lambda x: x * 1 + x, lambda x: np.negative(-x), x * 1)


def call(x: Any) -> Any:
    q = wb.vector("q", shape=3)
    return wb.OpFromGraph([q], [np.sin(q * 1) - 0])(x * 1) - 0


def where(x: Any) -> Any:
    return np.where(x > 0, np.sqrt(x * x), np.negative(-x)) * 1


STRUCTURES = {"scan": scan, "while": loop, "cond": branch, "call": call, "where": where}


@pytest.mark.parametrize("f", STRUCTURES.values(), ids=STRUCTURES)
@pytest.mark.parametrize("length", [3, None], ids=["known", "unknown"])
def test_programs_with_structure(f: Callable[..., Any], length: int | None) -> None:
    x = wb.vector("x", shape=length)
    y = f(x)
    program = wb.Graph([x], [y, wb.grad(np.sum(np.cos(y)), x)])
    graph = simplify_soundly(program)
    assert graph.steps
    assert len(graph) < len(program)
    for a, b in zip(run(graph, [X]), run(program, [X]), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-14)
    for step in graph.steps:
        assert_sound(step.graph, program)


def test_an_override_in_the_derivative_stays() -> None:
    x = wb.vector("x", shape=3)
    y = np.sum(np.log(1 + np.exp(np.tanh(x) * 1)))
    given = [wb.override("tanh", "0.5 * d"), wb.override("exp", "clip(d, -1, 1)")]
    program = wb.Graph([x], [y, wb.grad(y, x, overrides=given)])
    graph = simplify_soundly(program)
    assert "log of 1 + exp" in names(graph) or graph.steps
    for a, b in zip(run(graph, [X]), run(program, [X]), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-14)
    rules = {n.origin.rule for n in program.nodes if n.origin is not None}
    kept = {n.origin.rule for n in graph.nodes if n.origin is not None}
    assert kept <= rules
    assert any("0.5" in str(rule) for rule in kept)


def test_several_outputs() -> None:
    x = wb.vector("x", shape=3)
    y = np.sin(x) * 1
    program = wb.Graph([x], [y, y, np.sin(x), 2 * y])
    graph = simplify_soundly(program)
    a, b, c, d = graph.outputs
    assert a is b
    assert a is c
    assert d.inputs[1] is a


def test_outputs_that_become_inputs_or_constants() -> None:
    x, y = wb.vector("x", shape=3), wb.vector("y", shape=3)
    program = wb.Graph([x, y], [x * 1, y - 0, np.negative(-x), 5.0, x])
    graph = simplify_soundly(program)
    assert graph.outputs[0] is graph.outputs[2] is graph.outputs[4] is x
    assert graph.outputs[1] is y
    assert graph.outputs[3] == 5.0
    a, b, *_ = run(graph, [X, 2 * X])
    np.testing.assert_array_equal(a, X)
    np.testing.assert_array_equal(b, 2 * X)
    assert graph.inputs == (x, y)


def test_a_traced_function_with_a_nest_of_outputs() -> None:
    program = wb.trace(lambda x: {"a": x * 1, "b": (np.sin(x) - 0, 2.0)})(X)
    graph = simplify_soundly(program)
    assert graph.tree == program.tree
    assert len(graph.steps) == 2


def test_captures_stay() -> None:
    w = wb.shared(np.ones(3), "w")
    x = wb.vector("x", shape=3)
    program = wb.Graph([x], [x * w * 1 + w])
    graph = simplify_soundly(program)
    np.testing.assert_array_equal(wb.function([x], list(graph.outputs))(X)[0], X + 1)
    w.set_value(np.full(3, 2.0))
    np.testing.assert_array_equal(
        wb.function([x], list(graph.outputs))(X)[0], 2 * X + 2
    )


def test_nodes_with_values_keep_no_old_value() -> None:
    """A traced program at other numbers: what is rewritten is computed anew."""
    program = wb.trace(lambda x: np.log(1 + np.exp(x)) * 1 + np.sin(x))(X)
    graph = simplify_soundly(program)
    other = 3 * X
    truth = np.log(1 + np.exp(other)) + np.sin(other)
    np.testing.assert_allclose(graph.run([other])[0], truth, rtol=1e-14)
    again = wb.grad(lambda x: np.sum(graph.run([x])[0]))(other)
    truth = wb.grad(lambda x: np.sum(program.run([x])[0]))(other)
    np.testing.assert_allclose(again, truth, rtol=1e-14)


def test_a_python_number_decides_no_dtype() -> None:
    c = wb.trace(lambda x: x * 1)(0.25).inputs[0]
    assert type(c.value) is float
    x = wb.vector("x", shape=2, dtype="float32")
    given = [np.ones(2, "float32")]
    program = wb.Graph([x], [x * (0.5 * c)])
    for off in ([], ["constants"]):
        graph = simplify_soundly(program, without=off)
        (found,) = run(graph, given)
        assert found.dtype == run(program, given)[0].dtype == graph.outputs[0].dtype


@pytest.mark.parametrize(
    "f",
    [
        lambda x, y, z: x * y + x * z,
        lambda x, y, z: y * x + x * z,
        lambda x, y, z: y * x + z * x,
        lambda x, y, z: x * y + (x * 1) * z,
        lambda x, y, z: 2 * y + z * 2,
        lambda x, y, z: np.sin(x) * y + z * np.sin(x),
        lambda x, y, z: x * y + x * x,
    ],
)
def test_a_wildcard_on_both_sides_of_an_op(f: Any) -> None:
    """A rule is found wherever both operands read the same value, and not elsewhere."""
    mine = wb.rewrite_rule(
        "factor out",
        lambda x, y, z: x * y + x * z,
        lambda x, y, z: x * (y + z),
        fast=True,
    )
    leaves = [wb.vector(name, shape=3) for name in "xyz"]
    after = wb.simplify(wb.Graph(leaves, [f(*leaves)]), [mine])
    assert "factor out" in [step.name for step in after.steps]
    x, y, z = leaves
    other = wb.simplify(wb.Graph(leaves, [x * y + np.sin(x) * z]), [mine])
    assert [step.name for step in other.steps] == []
