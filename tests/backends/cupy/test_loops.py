"""Loops of small steps as one kernel of one block, run on the host and compared.

Lengths are odd. Threads go up, down and at random, so that a barrier that is missing
gives other numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.backends.compiled.accuracy import check_accuracy
from tests.backends.compiled.programs import trace
from tests.backends.cupy.host import COMPILER, SMALL, HostDevice, HostModule, write_all
from tests.backends.cupy.nvrtc import compile_cubin, load_nvrtc
from tests.backends.cupy.test_harness import change, run_sanitized
from tests.backends.cupy.test_kernels import plan_program
from tests.chunks import mark_rest
from workbench.backends.compiled.expansion import expand
from workbench.backends.compiled.lowering import lower
from workbench.backends.compiled.products import ProductStep
from workbench.backends.compiled.steps import LoopStep, Plan
from workbench.backends.cupy.kernel_code import write_launches
from workbench.backends.cupy.launches import Device, Launch, list_units
from workbench.backends.cupy.loops import (
    MOST_ROUNDS,
    WORK,
    find_obstacle,
    multiply_by_sums,
    write_loop,
)
from workbench.core import tree
from workbench.core.types import spec_of

needs_compiler = pytest.mark.skipif(COMPILER is None, reason="g++ is not installed")
ORDERS = (0, 1, 2, 3)
Program = Callable[..., Any]
STEPS, N = 11, 5


# Steps


def recur(xs: Any, A: Any) -> Any:
    """A recurrent net whose state is like a row of ``xs``."""
    return wb.scan(lambda x, h: np.tanh(h @ A + x), xs, [np.zeros_like(xs[0])])


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def run_lstm(xs: Any, W: Any, U: Any) -> Any:
    """Four gates, two values that are handed on."""

    def step(x: Any, h: Any, c: Any) -> Any:
        z = x @ W + h @ U
        i, f, o, g = z[:N], z[N : 2 * N], z[2 * N : 3 * N], z[3 * N :]
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        return sigmoid(o) * np.tanh(c), c

    return wb.scan(step, xs, [np.zeros(N), np.zeros(N)])


def run_gru(xs: Any, W: Any, U: Any) -> Any:
    """Gates, and a state that is mixed of old and new."""

    def step(x: Any, h: Any) -> Any:
        z, r = sigmoid(x @ W[:, :N] + h @ U[:, :N]), sigmoid(x @ W[:, N : 2 * N])
        new = np.tanh(x @ W[:, 2 * N : 3 * N] + (r * h) @ U[:, 2 * N : 3 * N])
        return (1 - z) * h + z * new

    return wb.scan(step, xs, [np.zeros(N)])


def filter_states(ys: Any, F: Any) -> Any:
    """A Kalman filter of one measurement: mean, covariance and likelihood."""

    def step(y: Any, m: Any, P: Any, total: Any) -> Any:
        m, P = F @ m, F @ P @ F.T + 0.1 * np.eye(N)
        s = P[0, 0] + 0.5
        gain = P[:, 0] / s
        off = y - m[0]
        total = total - 0.5 * (np.log(s) + off * off / s)
        return m + gain * off, P - np.outer(gain, P[0]), total

    return wb.scan(step, ys, [np.zeros(N), np.eye(N), np.zeros(())])


def run_several(xs: Any) -> Any:
    """Values that change places, one that counts, one that is not handed on."""

    def step(x: Any, a: Any, b: Any, k: Any) -> Any:
        return b, a * 0.5 + x, k + 1, np.sum(a * b) + k

    zeros = np.zeros_like(xs[0])
    return wb.scan(step, xs, [zeros, zeros + 1, np.zeros((), int), None])


def look_up(index: Any, table: Any) -> Any:
    """A row of a table in each step."""
    step = lambda i, h, t: np.tanh(h * 0.5 + t[i])  # noqa: E731
    return wb.scan(step, index, [np.zeros(N)], [table])


def map_inside(xs: Any, w: Any) -> Any:
    """A loop over the entries of a row, in each step."""

    def step(x: Any, h: Any) -> Any:
        inner = wb.scan(lambda a, s: np.sin(s * 0.7 + a), x, [np.sum(h)])
        return h * 0.5 + inner * w

    return wb.scan(step, xs, [np.zeros(N)])


def total(f: Program) -> Program:
    """The sum of the squares of all that a program gives."""

    def g(*args: Any) -> Any:
        return sum(np.sum(np.abs(y) ** 2) for y in tree.flatten(f(*args))[0])

    return g


def slope(f: Program, *argnums: int) -> Program:
    return wb.grad(total(f), argnums or (0, 1))


def along(f: Program) -> Program:
    """A derivative in forward mode."""
    return lambda *args: wb.jvp(f, args, tuple(np.cos(a) for a in args))


PROGRAMS: dict[str, tuple[Program, str]] = {
    "recurrent net": (recur, "x A"),
    "its gradient": (slope(recur), "x A"),
    "its tangent": (along(recur), "x A"),
    "its second derivative": (
        lambda x, A: wb.hvp(lambda A: total(recur)(x, A), (A,), (A * A,)), "x A",
    ),
    "of a batch": (recur, "b A"),
    "of a batch, its gradient": (slope(recur), "b A"),
    "of singles": (slope(recur), "x32 A32"),
    "of halves": (recur, "x16 A16"),
    "of complex numbers": (recur, "z Z"),
    "of complex numbers, its gradient": (
        lambda z, Z: wb.grad(lambda z, Z: total(recur)(z, Z), (0, 1))(z, Z), "z Z",
    ),
    "of complex singles": (recur, "z8 Z8"),
    "last value": (
        lambda x, A: wb.scan(
            lambda x, h: np.tanh(A @ h + x), x, [np.zeros(N)], last=True
        ), "x A",
    ),
    "wide": (slope(recur), "X B"),
    "LSTM": (run_lstm, "x W U"),
    "LSTM, its gradient": (slope(run_lstm, 0, 1, 2), "x W U"),
    "GRU": (run_gru, "x W U"),
    "GRU, its gradient": (slope(run_gru, 0, 1, 2), "x W U"),
    "Kalman filter": (filter_states, "y A"),
    "Kalman filter, its gradient": (slope(filter_states), "y A"),
    "several values": (run_several, "x"),
    "several values, their gradient": (slope(run_several, 0), "x"),
    "backwards": (
        lambda x, A: wb.scan(
            lambda x, h: np.sin(h @ A) + x, x, [np.zeros(N)], reverse=True
        ), "x A",
    ),
    "backwards, its gradient": (
        slope(lambda x, A: wb.scan(
            lambda x, h: np.sin(h @ A) + x, x[:, ::-1], [np.zeros(N)], reverse=True
        )), "x A",
    ),
    "rows in reverse": (
        lambda x: wb.scan(lambda x, h: h * 0.5 + x, x[::-2], [np.zeros(N)]), "x",
    ),
    "columns": (
        lambda x: wb.scan(lambda x, h: h * 0.5 + x, x.T, [np.zeros(STEPS)]), "x",
    ),
    "entries before": (
        lambda y: wb.scan(
            lambda y, a, b: y + 0.5 * a - 0.2 * b, y,
            [{"initial": np.zeros(2), "taps": [-2, -1]}],
        ), "y",
    ),
    "sums": (
        lambda x: wb.scan(
            lambda x, s, p, m: [s + np.sum(x), p * np.prod(x), m + np.max(x)],
            x, [np.zeros(()), np.ones(()), np.zeros(())],
        ), "x",
    ),
    "integers": (
        lambda i: wb.scan(
            lambda i, a, b: (a * 3 + i, (b ^ i) & 255), i,
            [np.zeros((), int), np.zeros((), int)],
        ), "i",
    ),
    "a table": (look_up, "i T"),
    "a table, its gradient": (slope(look_up, 1), "i T"),
    "a running sum": (
        lambda x: wb.scan(
            lambda x, h: np.cumsum(h * 0.3 + x) - np.cumprod(x), x, [np.zeros(N)]
        ), "x",
    ),
    "a softmax": (
        lambda x, A: wb.scan(
            lambda x, h: np.exp(h @ A - np.max(h @ A)) / np.sum(np.exp(h @ A)) + x,
            x, [np.zeros(N)],
        ), "x A",
    ),
    "a map": (map_inside, "x w"),
    "a map, its gradient": (slope(map_inside), "x w"),
    "states that are kept": (
        slope(lambda x, A: wb.scan(
            lambda x, h: np.tanh(h @ A + x), x, [np.zeros(N)], memory=3
        )), "x A",
    ),
    "much memory": (slope(lambda L: wb.scan(
        lambda x, h: np.sin(h) * 0.5 + x, L, [np.zeros(3001)]
    ), 0), "L"),
    "one step": (slope(lambda x, A: recur(x[:1], A)), "x A"),
    "one entry": (
        slope(lambda y, w: wb.scan(lambda y, h: np.sin(h * w[0] + y), y, [0.0])), "y w",
    ),
    "a batch of loops": (
        lambda b, A: wb.vmap(recur, (1, None))(b, A), "b A",
    ),
}  # fmt: skip


def draw(rng: np.random.Generator) -> dict[str, Any]:
    """Arguments by their names in `PROGRAMS`."""
    x, A = rng.normal(size=(STEPS, N)), rng.normal(size=(N, N)) * 0.4
    z, Z = x + 1j * x[::-1], A + 0.3j * A.T
    return {
        "x": x, "A": A, "b": rng.normal(size=(STEPS, 3, N)), "y": x[:, 0].copy(),
        "w": rng.normal(size=N), "W": rng.normal(size=(N, 4 * N)) * 0.4,
        "U": rng.normal(size=(N, 4 * N)) * 0.4, "i": rng.integers(-7, 7, STEPS),
        "T": rng.normal(size=(7, N)), "X": rng.normal(size=(3, 67)),
        "B": rng.normal(size=(67, 67)) * 0.1, "z": z, "Z": Z,
        "L": rng.normal(size=(3, 3001)),
        "z8": z.astype("c8"), "Z8": Z.astype("c8"), "x32": x.astype("f4"),
        "A32": A.astype("f4"), "x16": x.astype("f2"), "A16": A.astype("f2"),
    }  # fmt: skip


def plan_case(name: str, rng: np.random.Generator) -> tuple[Plan, list[Any], list[Any]]:
    """The plan of a program, its arguments, and what NumPy says."""
    f, names = PROGRAMS[name]
    given = draw(rng)
    args = [given[n] for n in names.split()]
    plan, want = plan_program(lambda *a: tree.flatten(f(*a))[0], args)
    return plan, args, want


@cache
def compile_programs() -> None:
    """Compile the kernels of all programs for the host, at once."""
    launches = []
    for name in PROGRAMS:
        plan, _, _ = plan_case(name, np.random.default_rng(0))
        launches += [x for xs in write_all(plan).values() for x in xs]
    HostModule(launches)


def list_loops(plan: Plan) -> list[LoopStep]:
    return [step for step in plan.steps if isinstance(step, LoopStep)]


@needs_compiler
@pytest.mark.parametrize("name", mark_rest(PROGRAMS, "loops"))
def test_programs(name: str, rng: np.random.Generator) -> None:
    compile_programs()
    plan, args, want = plan_case(name, rng)
    loops = list_loops(plan)
    assert loops
    assert [find_obstacle(step, plan) for step in loops] == [None] * len(loops)
    launches = write_all(plan)
    for step in loops:
        (one,) = launches[id(step)]
        assert one.blocks == 1
        assert one.threads % 32 == 0
    device = HostDevice(plan, launches)
    results = []
    for order in ORDERS:
        got = device.run(args, order)
        assert device.flag == 0
        check_accuracy(plan.graph, args, got, want)
        results.append([np.asarray(a).tobytes() for a in got])
    # Bit by bit the same, whichever thread comes first.
    assert all(one == results[0] for one in results)


def draw_case(rng: np.random.Generator) -> tuple[Program, list[Any]]:
    """A loop that hands on and gives what is drawn from a list, forward or back.

    Values change places, are handed on twice, are rows and state at once, or nothing.
    """
    n, steps = int(rng.integers(1, 9)), int(rng.integers(1, 7))
    chosen = [int(i) for i in rng.integers(0, 11, size=6)]
    reverse, differentiates = bool(rng.integers(2)), bool(rng.integers(2))

    def step(x: Any, a: Any, b: Any, c: Any, w: Any, A: Any) -> Any:
        known = [
            a, b, c, x, w, np.tanh(A @ a + x), b * 0.5 + np.sum(c), np.sin(a * w),
            np.cumsum(b) * 0.3, a[::-1] * c, np.where(a > 0, b, c),
        ]  # fmt: skip
        return tuple([known[i] for i in chosen])

    def f(xs: Any, w: Any, A: Any) -> Any:
        starts = [np.ones(n), np.full(n, 0.5), w * 2, None, None, None]
        return wb.scan(step, xs, starts, [w, A], reverse=reverse)

    xs, A = rng.normal(size=(steps, n)), rng.normal(size=(n, n)) * 0.4
    return slope(f, 0, 1, 2) if differentiates else f, [xs, rng.normal(size=n), A]


@needs_compiler
@pytest.mark.parametrize("count", [8, pytest.param(120, marks=pytest.mark.long)])
def test_random_steps(count: int, rng: np.random.Generator) -> None:
    cases = []
    for _ in range(count):
        f, args = draw_case(rng)
        plan, want = plan_program(lambda *a, f=f: tree.flatten(f(*a))[0], args)
        launches = write_all(plan)
        assert {id(step) for step in list_loops(plan)} <= {*launches}
        cases.append((plan, launches, args, want))
    HostModule([x for _, all_, _, _ in cases for xs in all_.values() for x in xs])
    for plan, launches, args, want in cases:
        device = HostDevice(plan, launches)
        results = []
        for order in ORDERS[:3]:
            got = device.run(args, order)
            check_accuracy(plan.graph, args, got, want)
            results.append([np.asarray(a).tobytes() for a in got])
        assert all(one == results[0] for one in results)


# Barriers


@needs_compiler
@pytest.mark.parametrize("name", ["recurrent net", "several values", "a map"])
def test_a_barrier_that_is_missing_is_noticed(
    name: str, rng: np.random.Generator
) -> None:
    """The last one of a step, after which the next step reads what this one wrote."""
    plan, args, want = plan_case(name, rng)
    launches = write_all(plan)
    last = "    }\n    __syncthreads();\n    for (unsigned"
    wrong = change(launches, "early", last, "    }\n    for (unsigned")

    def run(device: HostDevice) -> None:
        for order in ORDERS:
            check_accuracy(plan.graph, args, device.run(args, order), want)

    run(HostDevice(plan, launches))
    with pytest.raises(AssertionError):
        run(HostDevice(plan, wrong))


def check_sanitized(
    name: str, sanitizer: str, folder: Path, rng: np.random.Generator
) -> None:
    plan, args, want = plan_case(name, rng)
    launches = write_all(plan)
    for step in plan.steps:
        if isinstance(step, ProductStep):
            launches[id(step)] = write_launches(multiply_by_sums(step), plan, SMALL)
    done, made = run_sanitized(plan, launches, args, folder, sanitizer)
    assert done.returncode == 0, done.stderr[:2000]
    check_accuracy(plan.graph, args, made, want)


@needs_compiler
def test_the_sanitizer_of_threads_finds_a_missing_barrier(
    tmp_path: Path, rng: np.random.Generator
) -> None:
    check_sanitized("recurrent net", "thread", tmp_path, rng)
    plan, args, _ = plan_case("recurrent net", rng)
    start = "__syncthreads();\n  for (int step1"
    wrong = change(write_all(plan), "first", start, start.partition("\n")[2])
    done, _ = run_sanitized(plan, wrong, args, tmp_path, "thread")
    assert done.returncode != 0
    assert "data race" in done.stderr


@pytest.mark.long
@needs_compiler
@pytest.mark.parametrize("sanitizer", ["address", "thread"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_under_the_sanitizers(
    name: str, sanitizer: str, tmp_path: Path, rng: np.random.Generator
) -> None:
    check_sanitized(name, sanitizer, tmp_path, rng)


# What is a kernel, and what not


@needs_compiler
@pytest.mark.parametrize("dtype", ["f4", "f8", "c16"])
def test_a_product_of_zeros_has_the_sign_of_numpys(dtype: str) -> None:
    h, A = np.full(2, -0.0, dtype), np.ones((2, 2), dtype)
    args = [np.zeros(1, dtype), h, A]
    f = lambda x, h, A: wb.scan(lambda x, h, A: h @ A, x, [h], [A])  # noqa: E731
    plan, (want,) = plan_program(f, args)
    assert [find_obstacle(step, plan) for step in list_loops(plan)] == [None]
    (made,) = HostDevice(plan).run(args)
    assert not np.signbit(want.real).any()
    np.testing.assert_array_equal(np.signbit(made.real), np.signbit(want.real))


@needs_compiler
@pytest.mark.parametrize("dtype", "f8 f4 f2 c16 c8 i8 i4 i2 i1 u8 u4 u2 u1 b1".split())
def test_a_step_fills_with_zeros_of_every_dtype(dtype: str) -> None:
    x = (np.arange(15).reshape(3, 5) % 7).astype(dtype)
    f = lambda x: wb.scan(lambda r, h: np.pad(h[1:] + r[1:], (0, 1)), x, [x[0]])  # noqa: E731
    plan, (want,) = plan_program(f, [x])
    assert [find_obstacle(step, plan) for step in list_loops(plan)] == [None]
    (made,) = HostDevice(plan).run([x])
    assert made.dtype == x.dtype
    np.testing.assert_array_equal(made, want)


def plan_alone(f: Program, *args: Any) -> Plan:
    graph = trace(lambda *a: tree.flatten(f(*a))[0], args)
    return lower(expand(graph, [spec_of(a) for a in args]), SMALL)


def find_reasons(f: Program, *args: Any) -> list[str | None]:
    plan = plan_alone(f, *args)
    return [find_obstacle(step, plan) for step in list_loops(plan)]


def test_the_size_of_a_step_decides(rng: np.random.Generator) -> None:
    """The recurrent net of the benchmarks: one example, and a batch of 32."""
    W, xs = np.zeros((128, 128)), np.zeros((1000, 128))
    assert find_reasons(slope(recur, 1), xs, W) == [None, None]
    batch = np.zeros((1000, 32, 128))
    told = find_reasons(slope(recur, 1), batch, W)
    assert len(told) == 2
    for text in told:
        assert text is not None
        assert text.endswith(f" entries, more than {WORK:,}")


def test_a_large_product_among_small_kernels_is_left_to_cublas() -> None:
    """On the average of 200 parts it would be small."""

    def step(x: Any, h: Any, A: Any) -> Any:
        total = x
        for k in range(200):
            total = np.sum(np.sin(total + np.float64(k)) * total) + total
        return A @ h + total

    A = np.zeros((128, 128))
    (reason,) = find_reasons(
        lambda x, A: wb.scan(step, x, [A], [A], n_steps=9), np.zeros(9), A
    )
    assert reason is not None
    assert reason.startswith("one kernel of its step computes")


@pytest.mark.parametrize(
    ("f", "reason"),
    [
        (
            lambda x: wb.while_loop(lambda x: np.sum(x) < 9, lambda x: x * 2, x),
            "the host must know after each step if it ends",
        ),
        (
            lambda x: wb.scan(
                lambda h: h * 0.5, initial=[x], n_steps=np.sum(x > 0), last=True
            ),
            "the host must know its number of steps",
        ),
    ],
)
def test_what_the_host_must_know_is_no_kernel(f: Program, reason: str) -> None:
    assert find_reasons(f, np.array([0.5, 1.0, 2.0])) == [reason]


def test_so_many_steps_that_nobody_could_interrupt_are_no_kernel() -> None:
    def f(x: Any) -> Any:
        return wb.scan(lambda h: np.sin(h), initial=[x], n_steps=10**9, last=True)

    told = "an interrupt could not end its {:,} steps before their time"
    assert find_reasons(f, np.ones(3)) == [told.format(10**9)]

    # What a step computes takes time too.
    steps = 3 * MOST_ROUNDS // 4

    def grow(x: Any) -> Any:
        return wb.scan(lambda h: h * 0.5, initial=[x], n_steps=steps, last=True)

    assert find_reasons(grow, np.ones(1000)) == [None]
    assert find_reasons(grow, np.ones(WORK // 2)) == [told.format(steps)]


def test_a_long_text_is_no_kernel(rng: np.random.Generator) -> None:
    def step(x: Any, h: Any) -> Any:
        for k in range(600):
            h = np.sin(h) + x * k
        return h

    (reason,) = find_reasons(lambda x: wb.scan(step, x, [0.0]), rng.normal(size=3))
    assert reason is not None
    assert "nodes, more than" in reason


def test_threads_and_memory_follow_the_state(rng: np.random.Generator) -> None:
    found = {}
    for n in (3, 67, 128, 1500, 7000):

        def f(x: Any, n: int = n) -> Any:
            return wb.scan(lambda x, h: h * 0.5 + x, x, [np.zeros(n)])

        plan = plan_alone(f, rng.normal(size=(3, n)))
        (step,) = list_loops(plan)
        (launch,) = write_all(plan)[id(step)]
        size = plan.buffers[step.frame].size
        found[n] = launch.threads, "__shared__ char frame" in launch.body, size
    assert found[3] == (32, True, 0)
    assert found[67] == (128, True, 0)
    assert found[128] == (128, True, 0)
    assert found[1500] == (512, True, 0)
    # Two values of 56,000 bytes: more than a block shares.
    assert found[7000] == (512, False, 2 * 7000 * 8)


def test_the_listing_shows_how_a_loop_runs(rng: np.random.Generator) -> None:
    x, A = rng.normal(size=(9, 3)), rng.normal(size=(3, 3))
    listing = wb.plan_kernels(wb.trace(recur)(x, A))
    (loop,) = [step for step in listing if step.name == "loop 1"]
    assert "9 steps in one kernel; 1 × 32 threads" in str(loop)
    assert loop.source in listing.source
    assert "// add, tanh" in loop.source

    def grow(x: Any) -> Any:
        return wb.while_loop(lambda x: np.sum(x) < 9, lambda x: x * 2, x)

    listing = wb.plan_kernels(wb.trace(grow)(np.ones(3)))
    (loop,) = [step for step in listing if step.name == "loop 1"]
    assert not loop.launches
    assert "launched step by step: the host must know after each step" in str(loop)


def test_equal_loops_are_one_function(rng: np.random.Generator) -> None:
    x, A = rng.normal(size=(9, 3)), rng.normal(size=(3, 3))
    plan = plan_alone(lambda x, A: (recur(x, A), recur(x + 1, A * 2)), x, A)
    launches = write_all(plan)
    names = [launches[id(step)][0].name for step in list_loops(plan)]
    assert len(names) == 2
    assert len(set(names)) == 1


@needs_compiler
def test_an_index_out_of_bounds_raises_the_flag(rng: np.random.Generator) -> None:
    f, names = PROGRAMS["a table, its gradient"]
    given = draw(rng)
    args = [given[n] for n in names.split()]
    plan = plan_alone(f, *args)
    device = HostDevice(plan)
    wrong = args[0].copy()
    wrong[4] = 7
    device.run([wrong, args[1]])  # which fails where it writes beside a buffer
    assert device.flag == 1
    device.run(args)
    assert device.flag == 0


@pytest.mark.parametrize(
    "architecture",
    ["sm_90", *(pytest.param(a, marks=pytest.mark.long) for a in ("sm_80", "sm_100"))],
)
def test_programs_compile_for_a_gpu(
    architecture: str, rng: np.random.Generator
) -> None:
    nvrtc = load_nvrtc()
    if nvrtc is None:
        pytest.skip("NVRTC is not installed")
    launches: list[Launch] = []
    for name in PROGRAMS:
        plan, _, _ = plan_case(name, rng)
        launches += [write_loop(step, plan, Device()) for step in list_loops(plan)]
    assert len({x.name for x in launches}) > len(PROGRAMS)
    for unit in list_units(launches):
        assert len(compile_cubin(nvrtc, unit.source, architecture)) > 1000
