"""Which of several overrides has the say, and what is told of the others.

Node, then pattern or subgraph, predicate, scope, op; then the later one. The truth is
the product of the factors by which the rules scale, read off by hand.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.overrides.resolution import Resolution, resolve

X = np.array([0.4, -0.9])
LINEAR = wb.pattern(lambda a, x, b: a * x + b)
ADD = wb.pattern(lambda x, y: x + y)


def program(x: Any) -> Any:
    """sum(exp(2 x + 3)): the gradient is 2 exp(2 x + 3), times what the rules say."""
    with wb.scope("inner"):
        y = 2 * x + 3
    return np.sum(np.exp(y))


def factor(*given: wb.Override) -> float:
    found = wb.grad(program, overrides=given)(X) / (2 * np.exp(2 * X + 3))
    assert np.allclose(found, found[0])
    return float(found[0])


def scaled(target: Any, by: float, **settings: Any) -> Any:
    return wb.override(target, f"{by} * d", name=f"by {by:g}", **settings)


def is_add(node: Any) -> bool:
    return bool(node.op.name == "add")


def is_multiply(node: Any) -> bool:
    return bool(node.op.name == "multiply")


def settled(f: Any, *given: wb.Override) -> Resolution:
    return resolve(given, wb.trace(f)(X).nodes)


def test_G1_the_more_particular_target_wins_whatever_the_order() -> None:
    kinds = [
        scaled("add", 2),
        scaled("inner/*", 3),  # means the product too
        scaled(is_add, 5),
        scaled(LINEAR, 7),
    ]
    assert factor(kinds[0]) == pytest.approx(2)
    assert factor(kinds[0], kinds[1]) == pytest.approx(9)
    assert factor(*kinds[:3]) == pytest.approx(15)  # the product keeps its scope's
    for order in ([0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2]):
        assert factor(*[kinds[i] for i in order]) == pytest.approx(7)


def test_G1_a_node_outranks_a_pattern_whose_match_then_gives_way() -> None:
    session = wb.Session(wb.trace(program)(X))
    true = 2 * np.exp(2 * X + 3)
    ids = {node.op.name: i for i, node in enumerate(session.graph.nodes)}
    session.override(LINEAR, "7 * d", name="all")
    assert np.allclose(session.grads["x"], 7 * true)
    session.override(ids["multiply"], "11 * d", name="one")
    assert np.allclose(session.grads["x"], 11 * true)  # its root is true again
    assert session.resolution is not None
    assert session.resolution.notes == [
        "its only match gives way to 'one', an override of a node",
        "has the say over the only match of 'all', an override of a pattern",
    ]
    session.undo()
    session.override(ids["add"], "13 * d", name="end")
    assert np.allclose(session.grads["x"], 13 * true)
    session.undo()
    last = session.override(ids["multiply"], "11 * d", enabled=False)
    assert np.allclose(session.grads["x"], 7 * true)
    assert last.matched == (ids["multiply"],)


def test_of_two_patterns_the_later_wins_and_both_are_told() -> None:
    def f(x: Any) -> Any:
        y = 2 * x + 3
        return np.sum(np.exp(y) + 4 * y + np.sin(x))

    wide, narrow = scaled(ADD, 10), scaled(LINEAR, 100)
    first = settled(f, wide, narrow)
    # add(2x, 3) and add(exp, 4y) end with a match of both; the third is ADD's alone.
    assert [len(found) for found in first.matched] == [3, 2]
    assert first.notes == [
        "2 of 3 matches give way to 'by 100', a later override of a pattern",
        "has the say over 2 of 3 matches of 'by 10', an earlier override of a pattern",
    ]
    assert sorted(i for i, _ in first.winners.values()) == [0, 1, 1]
    second = settled(f, narrow, wide)
    assert second.notes[0] == (
        "all 2 matches give way to 'by 10', a later override of a pattern"
    )
    assert {i for i, _ in second.winners.values()} == {1}


def test_a_pattern_inside_another_gives_way_only_there() -> None:
    def f(x: Any) -> Any:
        return np.sum(np.tanh(2 * x + 3) * np.tanh(x))

    whole = wb.pattern(lambda x: np.tanh(2 * x + 3))
    inner, outer = scaled(LINEAR, 10), scaled(whole, 100)
    for given in ((inner, outer), (outer, inner)):
        made = settled(f, *given)
        later = given[1]
        assert sum(i == 1 for i, _ in made.winners.values()) == 1
        assert "a later override of a pattern" in made.notes[0]
        a, t = 1 - np.tanh(2 * X + 3) ** 2, np.tanh(X)
        expected = (100 if later is outer else 10) * 2 * a * t
        expected = expected + np.tanh(2 * X + 3) * (1 - t**2)
        found = wb.grad(f, overrides=given)(X)
        assert np.allclose(found, expected)


def test_overlapping_matches_of_one_pattern() -> None:
    """a + b + c on x + x + x + x: the sum that ends last, then what is left."""

    def f(x: Any) -> Any:
        y = np.sin(x) + np.cos(x) + np.exp(x) + np.tanh(x) + x
        return np.sum(y)

    three = scaled(wb.pattern(lambda a, b, c: a + b + c), 10)
    made = settled(f, three)
    assert len(made.matched[0]) == 3
    assert len(made.winners) == 2
    assert made.notes == [
        "1 of 3 matches overlaps with a match of its own that ends later in the program"
    ]
    found = wb.grad(f, overrides=[three])(X)
    outer = 1 - np.tanh(X) ** 2 + 1
    inner = np.cos(X) - np.sin(X) + np.exp(X)
    assert np.allclose(found, 10 * outer + 100 * inner)


def test_nodes_that_a_match_passes_by_are_told() -> None:
    made = settled(program, scaled(is_multiply, 2), scaled(LINEAR, 7))
    assert made.notes == [
        "its only node lies inside 'by 7', an override of a pattern, and counts where"
        " other parts read it",
        "",
    ]
    assert factor(scaled(is_multiply, 2), scaled(LINEAR, 7)) == pytest.approx(7)
    assert [x.op.name for x in made.covered[1]] == ["multiply"]
    assert made.covered[0] == []

    def read_twice(x: Any) -> Any:
        p = 2 * x
        return np.sum(np.exp(p + 3)) + np.sum(p)

    given = [scaled(is_multiply, 2), scaled(LINEAR, 7)]
    found = wb.grad(read_twice, overrides=given)(X)
    assert np.allclose(found, 7 * 2 * np.exp(2 * X + 3) + 2 * 2)


def test_subgraphs_and_patterns_are_of_one_rank() -> None:
    def f(x: Any) -> Any:
        p = 2 * x
        y = p + 3
        y.name = "y"
        return np.sum(np.exp(y))

    part, linear = scaled(wb.subgraph("y", "x"), 10), scaled(LINEAR, 100)
    true = 2 * np.exp(2 * X + 3)
    assert np.allclose(wb.grad(f, overrides=[part, linear])(X), 100 * true)
    assert np.allclose(wb.grad(f, overrides=[linear, part])(X), 10 * true)
    notes = settled(f, linear, part).notes
    assert notes[0] == (
        "its only match gives way to 'by 10', a later override of a subgraph"
    )
    assert np.allclose(wb.grad(f, overrides=[part, scaled("add", 3)])(X), 10 * true)


def test_B5_one_that_is_off_is_matched_and_has_no_say() -> None:
    off = scaled(LINEAR, 7, enabled=False)
    made = settled(program, off, scaled("add", 2))
    assert len(made.matched[0]) == 1
    assert len(made.covered[0]) == 1
    assert made.notes == ["", ""]
    assert factor(off, scaled("add", 2)) == pytest.approx(2)
    unlike = scaled(wb.pattern(np.arctan), 7, enabled=False)
    assert factor(unlike, scaled("add", 2)) == pytest.approx(2)


def test_the_true_rule_of_a_pattern_shields_what_is_inside() -> None:
    held = wb.override(LINEAR, "true", name="as it is")
    assert factor(scaled("multiply", 5)) == pytest.approx(5)
    assert factor(scaled("multiply", 5), held) == pytest.approx(1)
    f = wb.jvp(program, (X,), (X,), overrides=[scaled("multiply", 5), held])[1]
    assert np.isclose(f, np.sum(2 * np.exp(2 * X + 3) * X))


def test_a_match_that_holds_what_is_asked_for_is_told_in_a_session() -> None:
    def f(x: Any) -> Any:
        h = 2 * x
        h.name = "h"
        return np.sum(np.exp(h + 3)) + np.sum(5 * x + 1)

    session = wb.Session(wb.trace(f)(X), wrt=["h", "x"])
    session.override(LINEAR, "7 * d")
    assert session.resolution is not None
    assert session.resolution.notes == [
        "1 of 2 matches holds a value inside that the derivative is taken by, and does"
        " not count"
    ]
    assert np.allclose(session.grads["h"], np.exp(2 * X + 3))
    assert np.allclose(session.grads["x"], 2 * np.exp(2 * X + 3) + 35)
