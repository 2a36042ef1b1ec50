"""Random programs of loops, branches and calls, before and after their rewrites.

A failing program is printed as code that runs.
"""

from __future__ import annotations

import sys
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


@pytest.mark.long
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


# Arrays that are filled entry by entry


def fill_recurrence(x: Any) -> Any:
    out = np.zeros(x.shape[0])
    for i in range(x.shape[0]):
        out = wb.at(out)[i].set(0.5 * out[i - 1] + x[i] * x[i])
    return np.sum(out * out)


def fill_triangle(x: Any) -> Any:
    out = np.zeros((4, 4))
    for i in range(4):
        for j in range(i + 1):
            above = out[i - 1, j] if i else x[j]
            out = wb.at(out)[i, j].set(above * x[i] + 1)
    return out


def sweep_twice(x: Any) -> Any:
    """Each entry is stored twice, from its neighbours' latest."""
    out = x * 1.0
    for i in [*range(5), *range(5)]:
        out = wb.at(out)[i].set(0.5 * (out[i - 1] + out[(i + 1) % 5]))
    return out


@pytest.mark.parametrize(
    ("f", "n"),
    [(fill_recurrence, 12), (wb.grad(fill_recurrence), 12), (fill_triangle, 4),
     (sweep_twice, 5)],
)  # fmt: skip
def test_a_filled_array_becomes_a_stack(f: Any, n: int) -> None:
    """No update is left, and the values are those of the program as it stands."""
    x = np.linspace(0.3, 1.1, n)
    graph = wb.trace(f)(x)
    made = wb.simplify(graph)
    names = [node.op.name for node in made.interior]
    assert "stack" in names
    assert not {"index_set", "index_add", "scatter"} & set(names)
    np.testing.assert_allclose(made.run([x])[0], graph.run([x])[0], rtol=1e-13)


def test_an_array_that_is_read_whole_each_time_is_not_put_together_each_time() -> None:
    """Of n versions n stacks of n entries would be made."""

    def f(x: Any) -> Any:
        out, total = np.zeros(9), 0.0
        for i in range(9):
            out = wb.at(out)[i].set(x[i] * 2)
            total = total + np.max(out)
        return total

    made = wb.simplify(wb.trace(f)(np.ones(9)))
    assert sum(node.op.name == "stack" for node in made.interior) <= 2


def test_masked_cotangents_keep_their_zeros() -> None:
    """What a mask leaves out is 0 whatever its slope, stored or not."""

    def f(x: Any) -> Any:
        y = np.sqrt(x)
        y = wb.at(y)[1].set(2.0)
        y = np.where(np.array([False] + [True] * 9), y, 0.0)
        return np.sum(y * y[3])

    x = np.arange(10.0)
    graph = wb.trace(wb.grad(f))(x)
    np.testing.assert_array_equal(
        np.isfinite(wb.simplify(graph).run([x])[0]), np.isfinite(graph.run([x])[0])
    )


def test_the_work_grows_as_the_number_of_stores() -> None:
    """Counted by the calls of Python functions: twice as many for twice the stores."""

    def count(n: int) -> int:
        graph = wb.trace(wb.grad(fill_recurrence))(np.linspace(0, 1, n))
        calls = 0

        def note(frame: Any, event: str, arg: Any) -> None:
            nonlocal calls
            calls += event == "call"

        wb.simplify(graph)  # loads what is loaded once
        sys.setprofile(note)
        try:
            wb.simplify(graph)
        finally:
            sys.setprofile(None)
        return calls

    assert count(64) <= 2.2 * count(32)
