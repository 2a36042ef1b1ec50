"""What users may give to simplify and to their rules that does not fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import softmax

import workbench as wb
from workbench.errors import RewriteError, UsageError


def names(graph: wb.Graph) -> list[str]:
    """The names of the steps."""
    return [step.name for step in graph.steps]


def test_a_name_is_never_given_to_a_node_of_the_graph_that_stays() -> None:
    v = wb.vector("v")
    whole: Any = np.sin(v)
    named = whole * 1
    named.name = "named"
    graph = wb.Graph([v], [named, whole])
    before = str(graph)
    wb.simplify(graph)
    assert str(graph) == before
    assert whole.name is None


@pytest.mark.parametrize("limit", [-1, 2.5, "3", [1], np.nan])
def test_a_limit_is_a_number_of_steps(limit: Any) -> None:
    x = wb.scalar("x")
    with pytest.raises(UsageError, match=r"limit=.* is no number of steps. Write"):
        wb.simplify(wb.Graph([x], [x * 1]), limit=limit)


def test_without_is_read_once_and_rules_are_a_list() -> None:
    x = wb.scalar("x")
    graph = wb.Graph([x], [x * 1 + 0])
    once: Any = (name for name in ["one times x"])
    off = wb.simplify(graph, without=once)
    assert names(off) == ["x plus zero"]
    assert names(off.steps[0].graph) == ["x plus zero"]
    assert names(wb.simplify(graph, limit=1)) == ["one times x"]
    mine = wb.rewrite_rule("mine", lambda x: np.sin(-x), lambda x: -np.sin(x))
    with pytest.raises(UsageError, match=r"rules=.* is no list. Give a list"):
        wb.simplify(graph, mine)  # type: ignore[arg-type]
    for without in (None, 5):
        with pytest.raises(UsageError, match=r"without=.* is no list. Give a list"):
            wb.simplify(graph, without=without)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="no rewrite rule is called"):
        wb.simplify(graph, without=[["x"]])  # type: ignore[list-item]


def test_steps_are_compared_as_themselves() -> None:
    v = wb.vector("v")
    graph = wb.Graph([v], [v * 1])
    one, other = wb.simplify(graph).steps, wb.simplify(graph).steps
    assert one[0] == one[0]
    assert one != other
    assert len({*one, *other}) == 2


def test_a_rule_does_not_hold_for_numbers_for_which_it_is_wrong() -> None:
    real = wb.rewrite_rule("real", lambda x: np.conj(x), lambda x: x)
    size = wb.rewrite_rule("size", lambda x: np.abs(-x), lambda x: np.abs(x))
    for kind, rule, expected in (
        (complex, real, []),
        (float, real, ["real"]),
        ("u1", size, []),
        (float, size, ["size"]),
    ):
        x: Any = wb.vector("x", dtype=kind)
        left: Any = rule.left  # type: ignore[attr-defined]
        graph = wb.Graph([x], [left(x)])
        simple = wb.simplify(graph, [rule], without=["size of a negative"])
        assert names(simple) == expected
        value = np.array([1, 2, 200]).astype(kind) * (1j if kind is complex else 1)
        value = value.astype(kind)
        assert np.array_equal(simple.run([value])[0], graph.run([value])[0])


def test_a_rule_of_arrays_of_one_shape_is_refused() -> None:
    def left(x: Any, y: Any) -> Any:
        return np.sum(x) + np.sum(y)

    def right(x: Any, y: Any) -> Any:
        return np.sum(x + y)

    with pytest.raises(RewriteError, match="'sums' changes what a program computes"):
        wb.rewrite_rule("sums", left, right)
    same = wb.rewrite_rule(
        "sums", left, right, when=lambda bound: bound["x"].shape == bound["y"].shape
    )
    x, y = wb.Spec((4,), np.dtype(float)), wb.Spec((1,), np.dtype(float))
    assert names(wb.simplify(wb.trace(left)(x, x), [same])) == ["sums"]
    assert names(wb.simplify(wb.trace(left)(x, y), [same])) == []


def fail_on_symbols(bound: Any) -> bool:
    """A condition that asks for values."""
    return bool(np.all(np.isnan(bound["x"]) | (bound["x"] > -np.inf)))


@pytest.mark.parametrize("when", [lambda bound: bound["y"], lambda bound: bound["x"]])
def test_a_condition_that_fails_is_named(when: Any) -> None:
    with pytest.raises(RewriteError, match=r"the condition \(when=\) of the .* 'mine'"):
        wb.rewrite_rule("mine", lambda x: np.sin(-x), lambda x: -np.sin(x), when=when)


def test_what_fails_in_a_program_alone_is_named() -> None:
    def right(x: Any) -> Any:
        known: dict[int, Any] = {}
        return -np.sin(x) if isinstance(x, (float, np.ndarray)) else known[0]

    x = wb.scalar("x")
    graph = wb.Graph([x], [np.sin(-x)])
    asks = wb.rewrite_rule(
        "asks", lambda x: np.sin(-x), lambda x: -np.sin(x), when=fail_on_symbols
    )
    with pytest.raises(RewriteError, match=r"'asks' fails: TraceError"):
        wb.simplify(graph, [asks])
    fails = wb.rewrite_rule("fails", lambda x: np.sin(-x), right)
    with pytest.raises(RewriteError, match=r"'fails' fails in a program: KeyError"):
        wb.simplify(graph, [fails])


def test_what_no_rule_can_be_made_of_is_refused() -> None:
    def left(x: Any) -> Any:
        return np.sin(-x)

    bad: Any = None
    with pytest.raises(
        RewriteError, match=r"there is a rewrite rule called .constants. already"
    ):
        wb.rewrite_rule("constants", left, lambda x: -np.sin(x))
    with pytest.raises(
        RewriteError, match=r"the right side of the rewrite rule .a. is a function"
    ):
        wb.rewrite_rule("a", left, bad)
    bad = True
    with pytest.raises(RewriteError, match="of rule 'a' is a function, not True"):
        wb.rewrite_rule("a", left, lambda x: -np.sin(x), when=bad)
    with pytest.raises(RewriteError, match=r"tried on no numbers.*division by zero"):
        wb.rewrite_rule("a", lambda x: x + 1 / 0, lambda x: x)


def test_a_rule_may_do_what_a_table_does() -> None:
    x = wb.scalar("x")
    graph = wb.Graph([x], [np.abs(-x), np.abs(x) * 1])
    size = wb.rewrite_rule("size", lambda x: np.abs(-x), lambda x: np.abs(x))
    one = wb.rewrite_rule("one", lambda x: x * 1, lambda x: +x)
    assert names(wb.simplify(graph, [size])) == ["size", "equal nodes", "one times x"]
    assert names(wb.simplify(graph, [one]))[-2:] == ["one", "positive"]


def test_the_order_of_a_reshape_stays() -> None:
    x = wb.matrix("x", shape=(2, 3))
    data = np.arange(6.0).reshape(2, 3)
    for first in "CF":
        for second in "CF":
            y = np.reshape(np.reshape(x, (3, 2), order=first), (6,), order=second)
            graph = wb.simplify(wb.Graph([x], [y]))
            inner = np.reshape(data, (3, 2), order=first)
            expected = np.reshape(inner, (6,), order=second)
            np.testing.assert_array_equal(graph.run([data])[0], expected)


def test_a_softmax_of_integers_stays() -> None:
    x = wb.tensor("x", dtype="int8", shape=(3,))
    graph = wb.Graph([x], [np.exp(x) / np.sum(np.exp(x), keepdims=True)])
    assert names(wb.simplify(graph)) == ["equal nodes"]


@pytest.mark.parametrize("keepdims", [False, True])
def test_an_exponential_times_its_softmax_is_written_once(keepdims: bool) -> None:
    x = wb.scalar("x") if not keepdims else wb.vector("x", shape=(3,))
    e = np.exp(x)
    graph = wb.Graph([x], [e * (e / np.sum(e, keepdims=keepdims))])
    after = wb.simplify(graph)
    point = np.array(2.0) if not keepdims else np.array([1.0, 2.0, -3.0])
    power = np.exp(point)
    expected = power * power / np.sum(power)
    np.testing.assert_allclose(after.run([point])[0], expected, rtol=1e-14)


def test_the_sparse_derivative_of_a_softmax_of_one_number() -> None:
    found = wb.jacobian(lambda x: softmax(np.sum(x)), sparse=True)(np.ones(3))
    np.testing.assert_array_equal(found.toarray(), np.zeros((1, 3)))
