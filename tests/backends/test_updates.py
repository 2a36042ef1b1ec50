"""Programs that fill arrays: in place where nobody sees it, and the right numbers.

The truth is plain NumPy, which runs the same programs on copies, and its complex step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.backends.compiled.programs import check_equal, compile_graph, trace
from tests.chunks import generator
from workbench.backends.compiled.steps import LoopStep, MoveStep, Plan
from workbench.backends.numpy import compile
from workbench.ops import updates


def put(x: Any, index: Any, v: Any) -> Any:
    """``x`` with ``v`` at an index: in plain NumPy, and as an update."""
    if isinstance(x, wb.Tensor) or isinstance(v, wb.Tensor):
        return wb.at(x)[index].set(v)
    made = x.astype(np.result_type(x, v))
    made[index] = v
    return made


def add(x: Any, index: Any, v: Any) -> Any:
    if isinstance(x, wb.Tensor) or isinstance(v, wb.Tensor):
        return wb.at(x)[index].add(v)
    made = x.astype(np.result_type(x, v))
    np.add.at(made, index, v)
    return made


def fill_recurrence(x: Any) -> Any:
    n = x.shape[0]
    out = np.zeros(n)
    for i in range(n):
        out = put(out, i, 0.5 * out[i - 1] + x[i] * x[i])
    return np.sum(out * out)


def fill_by_rows(x: Any) -> Any:
    """A chain whose entries no rule of rewriting knows: it reads slices."""
    out = 2.0 * x
    for i in range(1, x.shape[0]):
        out = put(out, slice(i, i + 1), np.sin(out[i - 1 : i]) * x[i])
    return out


def differentiate(f: Callable[..., Any], x: Any) -> Any:
    """The gradient by the complex step of plain NumPy."""
    made = np.empty_like(x)
    for i in np.ndindex(x.shape):
        moved = x.astype(complex)
        moved[i] += 1e-30j
        made[i] = np.imag(f(moved)) / 1e-30
    return made


# How much is copied


@pytest.fixture
def copied(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of the arrays that updates copy."""
    sizes: list[int] = []
    copy = np.copy

    def count(x: Any, *args: Any, **kwargs: Any) -> Any:
        sizes.append(np.size(x))
        return copy(x, *args, **kwargs)

    monkeypatch.setattr(updates.np, "copy", count)
    return sizes


@pytest.mark.parametrize("make", [lambda f: f, wb.value_and_grad])
def test_a_run_copies_as_much_as_the_arrays_hold(
    make: Callable[..., Any], copied: list[int]
) -> None:
    """Not as much for each entry: 40 stores into 40 entries would copy 1,600."""
    x = np.linspace(0.1, 1, 40)
    function = compile(wb.simplify(trace(make(fill_recurrence), [x])))
    plain = compile(trace(make(fill_recurrence), [x]))
    for one in (function, plain):
        copied.clear()
        assert np.allclose(one(x)[0], fill_recurrence(x), rtol=1e-13)
        assert sum(copied) <= 2 * x.size


def count_moved(plan: Plan) -> int:
    """How many entries the moves of a program write."""
    return sum(
        part.size
        for step in plan.steps
        if isinstance(step, MoveStep)
        for part in step.parts
    )


def test_cotangents_of_slices_are_zeroed_in_place(copied: list[int]) -> None:
    """Once what was passed on of them has been read; forward nothing is kept."""

    def f(x: Any) -> Any:
        out = 2.0 * x
        for i in range(1, x.shape[0]):
            part = slice(i, i + 1)
            out = put(out, part, 0.5 * out[i - 1 : i] + x[part] * x[part])
        return np.sum(out * out)

    x = np.linspace(0.1, 1, 40)
    graph = trace(wb.grad(f), [x])
    for one in (graph, wb.simplify(graph)):
        function = compile(one)
        copied.clear()
        (made,) = function(x)
        assert sum(copied) <= 3 * x.size
        check_equal(made, differentiate(f, x), 64)
    assert count_moved(compile_graph(one, [x]).plan) <= 6 * x.size


def test_a_compiled_chain_moves_each_entry_once_or_twice() -> None:
    x = np.linspace(0.1, 1, 60)
    program = compile_graph(trace(fill_by_rows, [x]), [x])
    assert count_moved(program.plan) <= 3 * x.size
    check_equal(program.run([x])[0], fill_by_rows(x), 8)


def fill_by_scan(x: Any) -> Any:
    def step(t: Any, out: Any) -> Any:
        return wb.at(out)[t].set(0.5 * out[t - 1] + x[t] * x[t])

    steps = np.arange(x.shape[0])
    out = wb.scan(step, steps, np.zeros_like(x), last=True)
    return np.sum(out * out)


@pytest.mark.parametrize("n", [50, 5000])
@pytest.mark.parametrize("make", [lambda f: f, wb.grad])
def test_a_step_of_a_loop_moves_single_entries(
    n: int, make: Callable[..., Any]
) -> None:
    """What it hands on is changed where it lies, the cotangents too."""
    x = np.linspace(0.1, 1, n)
    program = compile_graph(trace(make(fill_by_scan), [x]), [x])
    loops = [step for step in program.plan.steps if isinstance(step, LoopStep)]
    assert len(loops) == 1 + (make is wb.grad)
    for loop in loops:
        inside = loop.program.plan
        assert count_moved(inside) <= 4
        assert all(isinstance(s, MoveStep) or s.kernel.size == 1 for s in inside.steps)
    (made,) = program.run([x])
    if make is wb.grad:
        if n < 100:
            check_equal(made, differentiate(fill_recurrence, x), 64)
    else:
        check_equal(made, np.asarray(fill_recurrence(x)), 64)


# Nothing else's memory is written


def run_all(f: Callable[..., Any], args: list[Any]) -> Iterator[list[Any]]:
    """Results of a program by each backend, as it stands and simplified.

    What was given and what an earlier call returned stays as it was.
    """
    graph = trace(f, args)
    for one in (graph, wb.simplify(graph)):
        for run in (compile(one).run, compile_graph(one, args).run):
            given = [a.copy() for a in args]
            first = run(given)
            kept = [np.copy(y) for y in first]
            run([a + 1 for a in args])
            for a, b in zip([*given, *first], [*args, *kept], strict=True):
                np.testing.assert_array_equal(a, b)
            yield kept


CONSTANT = np.linspace(1, 2, 6)

#: Each of (x, v): whose memory an update must leave alone.
PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {
    "an input": lambda x, v: (put(x, 1, v), x * 2),
    "an input, last of all": lambda x, v: put(x, 1, v),
    "a constant": lambda x, v: put(CONSTANT, 1, v) + x,
    "an output": lambda x, v: (y := x * 2, put(y, 1, v)),
    "two updates of one array": lambda x, v: (put(y := x * 2, 1, v), put(y, 2, v)),
    "what is read later": lambda x, v: (put(y := x * 2, 1, v), np.sum(np.sin(y) * v)),
    "what is read late": lambda x, v: (
        put(y := x * 2, 1, v), np.cumsum(np.cos(np.cumsum(x)))[-1] * y
    ),
    "a view that is read later": lambda x, v: (
        (w := (y := x * 2)[2:5]), put(y, 3, v), np.sin(w)
    )[1:],
    "a view that is given out": lambda x, v: ((y := x * 2)[2:5], put(y, 3, v)),
    "a view that is updated": lambda x, v: (
        put((y := x * 2).reshape(2, 3), (1, 0), v), y
    ),
    "what is stored": lambda x, v: put(y := x * 2, slice(1, 4), y[:3]),
    "what is stored from behind": lambda x, v: put(y := x * 2, slice(0, 3), y[2::-1]),
    "an entry of its own": lambda x, v: put(y := x * 2, 1, y[4]),
    "entries by an array": lambda x, v: put(
        y := x * 2, np.array([1, 3, 1]), y[np.array([0, 1, 2])]
    ),
    "sums by an array": lambda x, v: (
        add(y := x * 2, np.array([1, 3, 1]), v), np.exp(y[1])
    ),
    "a result of a call": lambda x, v: put(np.sort(x), 1, v) + np.sort(x),
    "a repeated number": lambda x, v: put(np.broadcast_to(v, (6,)), 1, 2.0) + x,
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_nothing_that_others_see_is_written(name: str) -> None:
    f = PROGRAMS[name]
    args = [np.linspace(-1, 1, 6), np.float64(0.3)[...]]
    expected = f(*args)
    expected = expected if isinstance(expected, tuple) else (expected,)
    constant = CONSTANT.copy()
    for made in run_all(f, args):
        for got, want in zip(made, expected, strict=True):
            check_equal(got, np.asarray(want), 8)
    np.testing.assert_array_equal(CONSTANT, constant)


def test_values_that_a_recording_shows_stay() -> None:
    """Its nodes hold their values while the program runs on."""
    x = np.linspace(-1, 1, 6)
    graph = wb.trace(lambda x: put(put(x * 2, 0, 5.0), 1, x[0]))(x)
    before = [np.copy(node._value) for node in graph.interior]
    compile(graph)(x)
    graph.run([x])
    for node, value in zip(graph.interior, before, strict=True):
        np.testing.assert_array_equal(node._value, value)


def test_what_an_observer_holds_stays() -> None:
    """Each version of an array is seen as it was."""
    x = np.linspace(-1, 1, 6)
    function = compile(trace(fill_by_rows, [x]))
    seen: list[tuple[Any, Any]] = []

    def look(node: Any, operands: tuple[Any, ...]) -> Any:
        made = node.op.compute(*operands, **node.params)
        seen.append((made, np.copy(made)))
        return made

    function.run([x], look)
    for made, then in seen:
        np.testing.assert_array_equal(made, then)


# Random programs


def write_program(rng: np.random.Generator) -> Callable[[Any], Any]:
    """A function of an array of 6 that stores, reads, and keeps old versions."""
    choices = rng.integers(0, 12, 14)
    numbers = rng.integers(-6, 6, (14, 3))
    scales = rng.uniform(0.2, 0.9, 14)

    def run(x: Any) -> Any:
        arrays, total = [x * 0.5], x[0] * 0.0
        for what, (i, j, k), c in zip(choices, numbers.tolist(), scales, strict=True):
            old = arrays[k % len(arrays)] if what == 9 else arrays[-1]
            value = c * old[j] * x[i] + x[k]
            if what < 5:
                arrays.append(put(old, i, value))
            elif what == 5:
                arrays.append(add(old, i, value))
            elif what == 6:
                arrays.append(put(old, slice(1, 4), old[2:5] * c))
            elif what == 7:
                arrays.append(add(old, np.array([i, j, i]), c * x[:3]))
            elif what == 8:
                arrays.append(np.sin(old) + x)
            elif what == 9:
                arrays.append(put(old, j, value))
            elif what == 10:
                turned = put(old.reshape(2, 3), (i % 2, j % 3), value)
                arrays.append(turned.reshape(6))
            else:
                total = total + np.sum(arrays[k % len(arrays)] * c)
        return total + np.sum(arrays[-1] * arrays[-1]) + arrays[len(arrays) // 2][1]

    return run


@pytest.mark.parametrize("number", range(12))
def test_random_programs_of_stores_and_reads(number: int) -> None:
    """Values against plain NumPy, gradients against its complex step."""
    rng = generator(f"stores and reads {number}")
    f, x = write_program(rng), rng.uniform(-1, 1, 6)
    value, slope = f(x), differentiate(f, x)
    for got, gradient in run_all(wb.value_and_grad(f), [x]):
        check_equal(got, np.asarray(value), 256, 1.0)
        check_equal(gradient, slope, 256, 1.0)


def test_a_program_with_one_output_of_each_version() -> None:
    """Each is memory of its own, and the next one begins with a copy."""
    x = np.linspace(0, 1, 6)

    def f(x: Any) -> Any:
        versions = [x * 2]
        for i in range(4):
            versions.append(put(versions[-1], slice(i, i + 1), x[i : i + 1] - 3))
        return tuple(versions)

    for made in run_all(f, [x]):
        for got, want in zip(made, f(x), strict=True):
            check_equal(got, want)
