"""Random parts of random programs: with the true rule of a part, nothing changes.

The truth is the derivative without overrides, which `tests/autodiff/test_fuzz.py`
compares with differences.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import workbench as wb
from tests.autodiff.programs import Program, programs
from workbench.autodiff import forward, reverse
from workbench.core.tensor import IDENTITY, Tensor
from workbench.ops import define
from workbench.overrides.resolution import Resolution, resolve

fuzz = settings(
    max_examples=40,
    derandomize=True,
    database=None,
    deadline=None,
    print_blob=False,
    suppress_health_check=list(HealthCheck),
)

#: Structures that random programs have.
STRUCTURES = [
    wb.pattern(lambda a, b: a * b),
    wb.pattern(lambda a, b: a + b),
    wb.pattern(lambda a, b, c: a * b + c),
    wb.pattern(lambda a: np.tanh(np.sin(a))),
    wb.pattern(lambda c, a, b: np.where(c, a, b) * 2),
    wb.pattern(lambda a: a - np.exp(a)),
    wb.pattern(lambda a, b: np.maximum(a, b) + np.minimum(b, a)),
]


def passes_on(node: Any, *g: Any) -> Any:
    return node.vjp(*g)


def part(draw: Any, nodes: list[Tensor]) -> wb.Override | None:
    """A part that ends with a node and goes back a few steps, at random."""
    ends = [
        x for x in nodes if x.op is not IDENTITY and define.output_values(x) is None
    ]
    if not ends:
        return None
    root = draw(st.sampled_from(ends))
    inside, front = [root], []
    for _ in range(draw(st.integers(0, 6))):
        found = [
            x
            for node in inside
            for x in node.inputs
            if isinstance(x, Tensor) and x.op is not IDENTITY
            and all(x is not y for y in inside)
        ]  # fmt: skip
        if not found:
            break
        inside.append(draw(st.sampled_from(found)))
    taken = {x.serial for x in inside}
    seen: set[int] = set()
    while inside:
        for x in inside.pop().inputs:
            if not isinstance(x, Tensor) or x.serial in taken | seen:
                continue
            seen.add(x.serial)
            if define.output_values(x) is not None:
                inside.append(x)  # only what it gives is a value
            else:
                front.append(x)
    if not front:
        return None
    return wb.override(wb.subgraph(root, front), passes_on)


def derivatives(graph: Any, made: Resolution | None) -> list[Any]:
    """The gradient, as arrays and as a graph, a tangent, and a second derivative."""
    pulls = None if made is None else made.rules
    pushes = None if made is None else made.rules
    (y,), leaves = graph.outputs, graph.inputs
    if not isinstance(y, Tensor):
        return []
    one = np.ones_like(y.value)
    plain = reverse.pull_back([y], [one], leaves, rules=pulls)
    found = reverse.pull_back([y], [one], leaves, rules=pulls, record=True)
    moves = [np.cos(1.0 + np.arange(x.value.size)).reshape(x.shape) for x in leaves]
    along = forward.push_forward([y], leaves, moves, rules=pushes)
    pairs = [(g, t) for g, t in zip(found, moves, strict=True) if isinstance(g, Tensor)]
    twice = reverse.pull_back([g for g, _ in pairs], [t for _, t in pairs], leaves)
    return [*plain, *[getattr(g, "value", g) for g in found], *along, *twice]


def assert_close(found: list[Any], truth: list[Any]) -> None:
    for a, b in zip(found, truth, strict=True):
        a = np.zeros_like(b) if a is None and b is not None else a
        b = np.zeros_like(a) if b is None and a is not None else b
        if a is not None:
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)


@fuzz
@given(programs(), st.data())
def test_the_true_rule_of_any_part_changes_nothing(program: Program, data: Any) -> None:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        graph = wb.trace(program.function)(*program.inputs.values())
        one = part(data.draw, graph.nodes)
        if one is None:
            return
        try:
            made = resolve([one], graph.nodes)
            assert len(made.winners) == 1
            assert_close(derivatives(graph, made), derivatives(graph, None))
        except Exception as error:
            error.add_note(f"\nThe part: {one.target}\n\n{program.code}")
            raise


@pytest.mark.long
@fuzz
@given(programs())
def test_the_true_rule_of_any_structure_changes_nothing(program: Program) -> None:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        graph = wb.trace(program.function)(*program.inputs.values())
        nodes = [x for x in graph.nodes if x.op is not IDENTITY]
        given = [
            wb.override(target, passes_on)
            for target in STRUCTURES
            if target.find_matches(nodes).found
        ]
        if not given:
            return
        try:
            made = resolve(given, graph.nodes)
            assert_close(derivatives(graph, made), derivatives(graph, None))
        except Exception as error:
            error.add_note(f"\n{program.code}")
            raise
