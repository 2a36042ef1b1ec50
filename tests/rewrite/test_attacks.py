"""What users may give to simplify and to their rules that does not fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.errors import UsageError


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
