"""Strips: steps along a long axis that run together, a few rows at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import pytest

import workbench as wb
from tests.backends.compiled.programs import (
    check_equal,
    check_program,
    compile_graph,
    trace,
)
from workbench.backends.compiled import strips
from workbench.backends.compiled.program import Program
from workbench.backends.compiled.steps import StripStep


@pytest.fixture
def small_strips(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut arrays of a few entries, into strips of a few rows and into pieces."""
    for name, value in (("STRIP", 256), ("LEAST_RUN", 8)):
        monkeypatch.setattr(strips, name, value)
    monkeypatch.setattr(strips, "MOST_PIECES", 3)
    monkeypatch.setattr(strips, "FEW_STRIPS", 1)


def list_strips(program: Program | None) -> list[StripStep]:
    assert program is not None
    return [step for step in program.plan.steps if isinstance(step, StripStep)]


def softmax(x: Any, axis: int) -> Any:
    e = np.exp(x - np.max(x, axis=axis, keepdims=True))
    return e / np.sum(e, axis=axis, keepdims=True)


def standardise(x: Any) -> Any:
    """Rows need what all rows are reduced to."""
    t = np.tanh(x - np.mean(x, axis=0))
    return softmax(t, 1)[:, 0] - np.max(t, axis=0)[0]


def set_column(x: Any) -> Any:
    y = softmax(x, 1)
    y[:, 1] = np.sin(y[:, 0])
    return np.cumsum(y, axis=1)[:, -1] + softmax(y, 1)[:, 0]


#: Functions of ``x`` (67 × 5), ``y`` (67 × 3), ``z`` (4 × 67 × 5), ``a`` (5 × 3) and
#: ``i`` (67 indices below 67).
PROGRAMS: dict[str, Callable[..., Any]] = {
    "rows": lambda x, y, z, a, i: softmax(x, 1),
    "columns": lambda x, y, z, a, i: softmax(x.T, 0),
    "rows of matrices": lambda x, y, z, a, i: softmax(softmax(x, 1) @ a, 1),
    "columns of matrices": lambda x, y, z, a, i: softmax(a.T @ softmax(x, 1).T, 0),
    "sums of matrices": lambda x, y, z, a, i: softmax(x, 1).T @ softmax(y, 1),
    "sums of vectors": lambda x, y, z, a, i: softmax(x, 1).T @ softmax(y, 1)[:, 0],
    "middle of stacks": lambda x, y, z, a, i: softmax(softmax(z, 2) @ a, 2),
    "stacks": lambda x, y, z, a, i: (
        softmax(np.swapaxes(z, 0, 1), 2) @ softmax(a, 0)[None] * y[:, None]
    ),
    "sums in stacks": lambda x, y, z, a, i: (
        np.swapaxes(softmax(z, 2), 1, 2) @ softmax(z + 1, 2)
    ),
    "reductions": lambda x, y, z, a, i: (
        np.sum(softmax(x, 1), 0), np.max(softmax(x, 1), 0), np.prod(softmax(x, 1) + 1),
        np.any(softmax(x, 1) > 0.9, 0), np.all(softmax(x, 1) > 0.01),
    ),
    "back from reductions": lambda x, y, z, a, i: standardise(x),
    "pairs": lambda x, y, z, a, i: softmax(softmax(x, 1) @ softmax(x, 1).T, 1) @ y,
    "backwards": lambda x, y, z, a, i: softmax(softmax(x, 1)[::-1] + x, 1),
    "halves": lambda x, y, z, a, i: softmax(softmax(x, 1)[:, 1:4] @ a[:3], 1),
    "joined": lambda x, y, z, a, i: softmax(np.concatenate([softmax(x, 1), y], 1), 1),
    "searched": lambda x, y, z, a, i: softmax(x[i] + softmax(x, 1)[i, i % 5, None], 1),
    "written to": lambda x, y, z, a, i: set_column(x),
    "as integers": lambda x, y, z, a, i: np.sum(
        (softmax(x, 1) * 9).astype(np.int64) * i[:, None], 0
    ),
}  # fmt: skip


@pytest.mark.usefixtures("small_strips")
@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str, dtype: str, rng: np.random.Generator) -> None:
    shapes = ((67, 5), (67, 3), (4, 67, 5), (5, 3))
    args = [rng.normal(size=shape).astype(dtype) for shape in shapes]
    args.append(rng.integers(0, 67, size=67))

    def f(*xs: Any) -> tuple[Any, ...]:
        made = PROGRAMS[name](*xs)
        return made if isinstance(made, tuple) else (made,)

    assert list_strips(check_program(trace(f, args), args, 64))


@pytest.mark.usefixtures("small_strips")
@pytest.mark.parametrize("rows", [16, 17, 64, 1000])
def test_lengths_that_strips_do_not_divide(rows: int, rng: np.random.Generator) -> None:
    x = rng.normal(size=(rows, 4)) + 1j * rng.normal(size=(rows, 4))

    def f(x: Any) -> tuple[Any, ...]:
        y = np.exp(x) * np.sum(x * x, 1, keepdims=True)
        return y.T @ y, np.sum(y, 0)

    program = check_program(trace(f, [x]), [x], 64)
    (step,) = list_strips(program)
    assert len(step.programs) == 1 + (rows == 17)


@pytest.mark.usefixtures("small_strips")
def test_cores_give_the_same_bits(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, a = rng.normal(size=(501, 6)), rng.normal(size=(6, 4))
    run = wb.grad(lambda a: np.sum(np.log(softmax(np.tanh(x @ a), 1)[:, 0])))
    program = compile_graph(wb.simplify(wb.trace(run)(a)), [a])
    assert list_strips(program)
    made = []
    for count in ("1", "2", "3"):
        monkeypatch.setenv("WORKBENCH_THREADS", count)
        made.append(np.copy(program.run([a])[0]))
    np.testing.assert_array_equal(made[0], made[1])
    np.testing.assert_array_equal(made[0], made[2])
    # The complex step, which no rule of ours takes part in.
    for j in range(3):
        moved = a.astype(complex)
        moved[j, 1] += 1e-30j
        z = np.tanh(x @ moved)
        share = np.exp(z[:, 0]) / np.sum(np.exp(z), 1)
        truth = np.sum(np.log(share)).imag / 1e-30
        assert made[0][j, 1] == pytest.approx(truth, rel=1e-10)


@pytest.mark.usefixtures("small_strips")
def test_an_index_out_of_bounds_is_told(rng: np.random.Generator) -> None:
    x, i = rng.normal(size=(67, 5)), np.arange(67)

    def f(x: Any, i: Any) -> Any:
        return softmax(softmax(x, 1) + x[i, i % 5, None], 1)

    found = wb.compile(f, backend="compiled")
    check_equal(found(x, i), f(x, i), 64)
    found.wait()
    check_equal(found(x, i), f(x, i), 64)
    i[40] = 67
    with pytest.raises(IndexError, match="67"):
        found(x, i)


def test_what_lies_between_never_exists_whole(rng: np.random.Generator) -> None:
    """Six arrays of 16 MB lie between x and the result."""
    x, a = rng.normal(size=(100_000, 20)), rng.normal(size=(20, 20)) / 4

    def f(x: Any, a: Any) -> Any:
        return np.sum(softmax(np.tanh(softmax(x, 1) @ a), 1) ** 2, 1)

    graph = trace(f, [x, a])
    program = compile_graph(graph, [x, a])
    (step,) = list_strips(program)
    assert step.rounds > 10
    with mock.patch.object(strips, "STRIP", 2**60):
        whole = compile_graph(graph, [x, a])
    assert not list_strips(whole)
    assert program.memory < whole.memory / 4
    check_equal(program.run([x, a])[0], f(x, a), 64)


def test_small_arrays_and_large_matrices_are_left(rng: np.random.Generator) -> None:
    """Nothing is gained for what a cache holds, nor by reading large matrices often."""
    x = rng.normal(size=(1000, 20))
    assert not list_strips(compile_graph(trace(lambda x: softmax(x, 1), [x]), [x]))
    x, a = rng.normal(size=(2000, 1200)), rng.normal(size=(1200, 1200))

    def f(x: Any, a: Any) -> Any:
        return np.sum(np.tanh(x) @ a, 1)

    assert not list_strips(compile_graph(trace(f, [x, a]), [x, a]))


def test_profile_names_strips(rng: np.random.Generator) -> None:
    x = rng.normal(size=(100_000, 20))
    found = wb.compile(lambda x: softmax(x, 1)[:, 0], backend="compiled")
    found(x)
    found.wait()
    (row,) = [row for row in found.profile(x) if row.step.startswith("strips")]
    assert {"exp", "max", "sum"} <= {node.op.name for node in row.nodes}
