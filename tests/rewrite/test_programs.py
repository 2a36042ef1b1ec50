"""Random programs of loops, branches and calls, before and after their rewrites.

A failing program is printed as code that runs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.autodiff.nested_programs import (
    CONTENTS,
    N,
    Program,
    draw_program,
    draw_rules,
)
from tests.chunks import parametrize_chunks
from tests.rewrite.graphs import run, simplify_soundly


def make_graph(program: Program, length: int | None) -> wb.Graph:
    """Return a program's value and gradient as one graph, overrides in it."""
    f = program.function(program.built)
    given, _ = draw_rules(program.rules)
    x, w, s = wb.vector("x", shape=length), wb.vector("w", shape=length), wb.scalar("s")
    y = f(x, w, s)
    cost = np.sum(np.cos(y) + 0.5 * y)
    return wb.Graph([x, w, s], [y, cost, *wb.grad(cost, [x, w, s], overrides=given)])


def assert_same_program(program: Program, length: int | None = N) -> int:
    """Assert that a program computes the same after its rewrites; return how many."""
    try:
        before = make_graph(program, length)
        graph = simplify_soundly(before)
        half = simplify_soundly(before, limit=len(graph.steps) // 2)
        for after, at in (
            (graph, program),
            (graph, program.each()[0]),
            (half, program),
        ):
            truth = run(before, at.args)
            for a, b in zip(run(after, at.args), truth, strict=True):
                scale = 1 + np.max(np.abs(b), initial=0)
                np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12 * scale)
                assert np.shape(a) == np.shape(b)
        return len(graph.steps)
    except Exception as error:
        error.add_note(
            f"\nOf this program the rewrites fail:\n\n{program.code}"
            "from tests.rewrite.test_programs import assert_same_program\n"
            f"assert_same_program(program, {length})\n"
        )
        raise


def samples(number: int) -> dict[str, tuple[int]]:
    return {f"program {i}": (i,) for i in range(number)}


def check_program(number: int, rng: np.random.Generator) -> None:
    program = draw_program(rng, [*CONTENTS][number % len(CONTENTS)])
    assert_same_program(program, None if number % 4 == 3 else N)


@parametrize_chunks("number", samples(40))
def test_a_program_before_and_after(number: int, rng: np.random.Generator) -> None:
    check_program(number, rng)


@pytest.mark.long
@parametrize_chunks("number", samples(1000))
def test_a_thousand_programs(number: int, rng: np.random.Generator) -> None:
    check_program(number, rng)


def test_what_is_rewritten_has_a_derivative() -> None:
    """A graph that was traced and simplified is differentiated like a function."""
    rng = np.random.default_rng(0)
    for _ in range(10):
        program = draw_program(rng)
        f = program.function(program.built)
        graph = simplify_soundly(wb.trace(f)(*program.args))

        def simple(*args: Any, graph: wb.Graph = graph) -> Any:
            return np.sum(np.cos(graph.run(args)[0]))

        found = wb.grad(simple, (0, 1, 2))(*program.args)
        truth = wb.grad(lambda *args: np.sum(np.cos(f(*args))), (0, 1, 2))  # noqa: B023
        for a, b in zip(found, truth(*program.args), strict=True):
            np.testing.assert_allclose(
                a, b, rtol=1e-9, atol=1e-10, err_msg=program.code
            )
