"""Index arrays at the ends of kernels: what is taken, put and added there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.backends.compiled.programs import check_program, compile_graph, trace
from workbench.backends.compiled.program import Retreat
from workbench.backends.compiled.steps import HostStep, MoveStep

INDICES = [
    "i", "i, j", "i[:, None], j[:4]", "slice(None), j", "j[:3, None], slice(1, 4)",
    "slice(None, None, -1), j", "0, j", "i, 1", "None, i", "..., j", "i, None, j",
    "i[0], j", "np.array(2), i % 2 * 0", "[3, 1, 1]", "[0, 2], j[:2]", "[-1, 2, 5]",
    "np.arange(5), j[:5]", "np.arange(5)[::-1], j[:5]", "np.arange(7) % 2 == 0, 1",
    "j[:4, None, None] % 1, i[:3, None] % 5",
]  # fmt: skip


def draw(rng: np.random.Generator, dtype: str = "f8") -> list[Any]:
    x = (10 * rng.normal(size=(7, 5))).astype(dtype)
    return [x, rng.integers(-7, 7, 9), rng.integers(-5, 5, 9)]


def take(index: str, x: Any, i: Any, j: Any) -> Any:
    return x[eval(index, {"np": np, "i": i, "j": j})]


def list_hosts(program: Any) -> list[str]:
    steps = program.plan.steps
    return [s.node.op.name for s in steps if isinstance(s, HostStep)]


@pytest.mark.parametrize("index", INDICES)
def test_taking(index: str, rng: np.random.Generator) -> None:
    args = draw(rng)
    graph = trace(lambda x, i, j: take(index, x, i, j) * 2.0, args)
    assert set(list_hosts(check_program(graph, args))) <= {"remainder"}


@pytest.mark.parametrize("index", INDICES)
def test_the_gradient_is_added_where_it_was_taken(
    index: str, rng: np.random.Generator
) -> None:
    args = draw(rng)

    def slope(x: Any, i: Any, j: Any) -> Any:
        return wb.grad(lambda x: np.sum(take(index, x, i, j) ** 2))(x)

    program = check_program(trace(slope, args), args, 16)
    assert set(list_hosts(program)) <= {"remainder"}


@pytest.mark.parametrize("index", INDICES)
@pytest.mark.parametrize("update", ["set", "add", "max", "min"])
def test_updates(index: str, update: str, rng: np.random.Generator) -> None:
    args = draw(rng)

    def change(x: Any, i: Any, j: Any) -> Any:
        place = wb.at(x)[eval(index, {"np": np, "i": i, "j": j})]
        return getattr(place, update)(1.5), getattr(place, update)(2 * place.get())

    program = check_program(trace(change, args), args, 16)
    assert set(list_hosts(program)) <= {"remainder"}


@pytest.mark.parametrize(
    "dtype", ["f8", "f4", "c16", "c8", "i8", "i4", "i1", "u1", "?"]
)
@pytest.mark.parametrize("kind", ["i8", "i4", "i2", "i1", "u1", "u4"])
def test_kinds_of_entries_and_of_indices(
    dtype: str, kind: str, rng: np.random.Generator
) -> None:
    x, i, _ = draw(rng, dtype)
    i = (i % 7).astype(kind)
    program = check_program(trace(lambda x, i: (x[i], x[i, i % 5]), [x, i]), [x, i])
    assert set(list_hosts(program)) <= {"remainder"}


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 7, 8, 9, 1001])
def test_lengths(n: int, rng: np.random.Generator) -> None:
    for width in (1, 3, 8):
        x = rng.normal(size=(n, width))
        i = rng.integers(-n, n, 2 * n + 1)

        def both(x: Any, i: Any) -> Any:
            return x[i], wb.grad(lambda x: np.sum(x[i] ** 2))(x), x.T[:, i]

        check_program(trace(both, [x, i]), [x, i], 64)


def test_indices_that_the_program_computes(rng: np.random.Generator) -> None:
    x, i, j = draw(rng)

    def look_up(x: Any, i: Any, j: Any) -> Any:
        best = np.argmax(x, axis=1)
        order = np.argsort(x, axis=1)
        return (
            np.take_along_axis(x, order, 1), x[np.arange(7), best], x[i + 0 * j],
            np.take_along_axis(x, best[:, None], 1),
        )  # fmt: skip

    check_program(trace(look_up, [x, i, j]), [x, i, j])


@pytest.mark.parametrize("wrong", [7, -8, 2**40, -(2**62)])
@pytest.mark.parametrize("place", [0, 5, 8])
def test_an_index_out_of_bounds_is_numpys_error(
    wrong: int, place: int, rng: np.random.Generator
) -> None:
    x, i, j = draw(rng)
    bad = i.copy()
    bad[place] = wrong

    def change(x: Any, i: Any) -> Any:
        return wb.at(x)[i].add(1.0), wb.at(x[:, 0])[i].set(1.0)

    program = compile_graph(trace(change, [x, i]), [x, i])
    before = x.copy()
    with pytest.raises(Retreat):
        program.run([x, bad])
    np.testing.assert_array_equal(x, before)
    assert np.array_equal(program.run([x, i])[0], change(x, i)[0])

    def solve(x: Any, i: Any, j: Any) -> Any:
        return np.tanh(x[i, j]) + np.linalg.inv(np.eye(5) + 0 * x[i[:5]])[0, 0]

    look_up = wb.compile(solve)
    look_up(x, i, j)
    assert look_up.wait()
    assert look_up.backend == "compiled"
    with pytest.raises(IndexError, match=f"index {wrong} is out of bounds for axis 0"):
        look_up(x, bad, j)
    assert look_up.backend == "compiled"


def test_a_small_look_up_says_what_is_out_of_bounds(rng: np.random.Generator) -> None:
    x, i, _ = draw(rng)
    look_up = wb.compile(lambda x, i: x[i] * 2)
    look_up(x, i)
    assert look_up.wait()
    for _ in range(3):
        np.testing.assert_array_equal(look_up(x, i), x[i] * 2)
        with pytest.raises(IndexError, match="index 9 is out of bounds for axis 0"):
            look_up(x, i * 0 + 9)


def test_an_index_that_is_known_is_checked_once(rng: np.random.Generator) -> None:
    x = rng.normal(size=(6, 4))
    program = check_program(trace(lambda x: x[[1, 5, -1], [0, 3, 3]], [x]), [x])
    assert program is not None
    assert program.plan.flag < 0
    assert "br i1" not in program.ir


def test_a_gather_reads_what_the_kernel_does_not_overwrite(
    rng: np.random.Generator,
) -> None:
    x, i = rng.normal(size=1000), rng.integers(0, 1000, 1000)

    def turn(x: Any, i: Any) -> Any:
        for _ in range(4):
            x = np.tanh(x)[i] + x
        return x

    check_program(trace(turn, [x, i]), [x, i], 64)


def test_sums_at_an_index_are_the_same_on_any_number_of_cores(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, i = rng.normal(size=300_000), rng.integers(0, 10, 300_000)
    rows = rng.integers(0, 50, (2000, 120))
    graph = trace(
        lambda x, i, rows: (
            wb.grad(lambda t: np.sum(t[i] * x))(x[:10]),
            wb.grad(lambda t: np.sum(np.take_along_axis(t, rows, 1) ** 2))(
                np.reshape(x[:100_000], (2000, 50))
            ),
        ),
        [x, i, rows],
    )
    program = check_program(graph, [x, i, rows], 4096)
    assert program is not None
    scatters = [
        part.is_ordered
        for step in program.plan.steps
        if isinstance(step, MoveStep)
        for part in step.parts
        if part.scatters
    ]
    assert sorted(scatters) == [False, True]
    made = []
    for count in ("1", "2", "5"):
        monkeypatch.setenv("WORKBENCH_THREADS", count)
        made.append(program.run([x, i, rows]))
    for other in made[1:]:
        for a, b in zip(made[0], other, strict=True):
            np.testing.assert_array_equal(a, b)


def test_half_precision_is_numpys(rng: np.random.Generator) -> None:
    x, i, _ = draw(rng, "f2")
    check_program(trace(lambda x, i: x[i], [x, i]), [x, i])
