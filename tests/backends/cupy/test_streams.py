"""Steps side by side: no two of them touch one place, and every order gives the same.

What the planner promises is looked at from outside: who is done before whom follows
from the streams and their waits alone, and where things lie from the placed buffers.
"""

from __future__ import annotations

import re
import threading
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.backends.compiled.programs import trace
from tests.backends.compiled.test_samples import BY_VALUE, CASES
from tests.backends.cupy.host import COMPILER, SMALL, HostModule
from tests.backends.cupy.standin import DeviceArray, Recording, Standin
from tests.backends.cupy.test_kernels import PROGRAMS, compile_programs, draw
from tests.backends.cupy.test_kernels import make as make_program
from tests.backends.cupy.test_samples import (
    PARTS,
    Chosen,
    choose,
    choose_some,
    plan_cases,
)
from tests.chunks import mark_rest
from tests.custom.kernels.sources import CDistGrad, KernelSquares, ZeroOut
from workbench.backends.compiled.expansion import expand
from workbench.backends.compiled.steps import Plan, list_buffers, list_written
from workbench.backends.cupy import streams as module
from workbench.backends.cupy.actions import Action
from workbench.backends.cupy.matrices import WORKSPACE
from workbench.backends.cupy.obstacles import OTHERWISE
from workbench.backends.cupy.program import WARM, Program
from workbench.backends.cupy.runtime import CupyRuntime
from workbench.backends.cupy.streams import StreamPlan, find_segments, put_on_streams
from workbench.core import tree
from workbench.core.graph import Graph
from workbench.core.types import spec_of
from workbench.errors import CompilerError

pytestmark = pytest.mark.skipif(COMPILER is None, reason="needs g++")

#: A step that takes any time is a branch, whatever it saves.
EAGER = {"LEAST_BRANCH": 0.0, "LEAST_SAVED": -9.0, "WAIT": 0.0}


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the planner fork wherever it can."""
    for name, value in EAGER.items():
        monkeypatch.setattr(module, name, value)


def close(plan: Plan, streams: StreamPlan, segments: list[range]) -> list[set[int]]:
    """For each step all that is done before it begins, by the plainest means."""
    before: list[set[int]] = []
    for segment in segments:
        last: dict[int, int] = {}
        for step in segment:
            found = set(range(segment.start))
            own = streams.streams[step]
            for other in ({last[own]} if own in last else set()) | {
                *streams.waits[step]
            }:
                found |= before[other] | {other}
            before.append(found)
            last[own] = step
    return before


def find_places(plan: Plan, buffers: list[int]) -> list[tuple[Any, int, int]]:
    """The memory of some buffers: of the block, or arrays of their own."""
    found = []
    for i in buffers:
        buffer = plan.buffers[i]
        if buffer.kind in ("inner", "partial") and buffer.offset >= 0:
            found.append(("block", buffer.offset, buffer.offset + buffer.known_size))
        elif buffer.kind not in ("flag", "absent"):
            found.append((i, 0, max(buffer.known_size, 1)))
    return found


def check_plan(plan: Plan, streams: StreamPlan, segments: list[range]) -> int:
    """No two steps touch one place, and one of them writes, unless one waits.

    Return how many pairs of steps may run side by side.
    """
    before = close(plan, streams, segments)
    own: dict[int, list[int]] = {}
    for i, buffer in enumerate(plan.buffers):
        if buffer.kind == "partial":  # of one step alone
            own.setdefault(buffer.first, []).append(i)
    touched, written = [], []
    for k, step in enumerate(plan.steps):
        more = own.get(k, [])
        touched.append(find_places(plan, [*list_buffers(step), *more]))
        written.append(find_places(plan, [*list_written(step), *more]))
    pairs = 0
    for b in range(len(plan.steps)):
        for a in set(range(b)) - before[b]:
            pairs += 1
            for ones, others in ((written[a], touched[b]), (touched[a], written[b])):
                for whose, begin, end in ones:
                    for other, first, last in others:
                        assert whose != other or end <= first or last <= begin, (a, b)
    return pairs


def branches(x: Any, A: Any) -> Any:
    """Four chains that wait for nobody but the start, and one that waits for all."""
    ends = []
    for k in range(4):
        h = x[: 3 + k] * (k + 1.0)
        for _ in range(5):
            h = np.tanh(np.cumsum(h))
        ends.append(np.sum(h))
    return sum(ends) + np.sum(A @ x)


def heavy(x: Any, a: Any, b: Any) -> Any:
    """Two chains of products that a device computes side by side."""
    y, z = x, x[:, ::-1]
    for _ in range(3):
        y, z = np.tanh(a @ y), np.sin(b @ z) @ b[:, :50]
    return y, z


def compile_program(f: Callable[..., Any], args: tuple[Any, ...], device: Any) -> Any:
    with device.use():
        graph = trace(f, list(args))
        specs = [spec_of(a) for a in args]
        return Program(expand(graph, specs, kinds=SMALL.kinds), device)


def run_program(
    program: Program, args: tuple[Any, ...], device: Standin
) -> list[np.ndarray[Any, Any]]:
    with device.use():
        made = program.run([device.upload(a) for a in args])
    return [np.array(y.view(np.ndarray)) for y in made]


# What is chosen


def test_a_chain_has_one_stream(rng: np.random.Generator) -> None:
    def chain(x: Any) -> Any:
        for _ in range(8):
            x = np.sin(x) + np.sum(x * x)
        return x

    program = compile_program(chain, (rng.standard_normal(9),), Standin())
    assert program.refusal is None
    assert program.streams == StreamPlan.of_one(program.plan)


def test_long_branches_have_streams_and_short_ones_have_not(
    rng: np.random.Generator,
) -> None:
    x, A = rng.standard_normal(9), rng.standard_normal((9, 9))
    program = compile_program(branches, (x, A), Standin())
    assert program.streams.width == 4
    segments = find_segments(program.plan, program.actions)
    assert check_plan(program.plan, program.streams, segments) > 20

    def short(x: Any, A: Any) -> Any:
        for k in range(5):
            x = np.sin(x) * np.sum(A @ x) + np.sum(np.sin(x[:5])) * np.sum(x[k:])
        return x

    program = compile_program(short, (x, A), Standin())
    assert program.refusal is None
    assert program.streams.width == 1


def test_loops_side_by_side_have_streams(rng: np.random.Generator) -> None:
    """Each is one kernel of one block, which takes long."""

    def f(x: Any) -> Any:
        ends = [
            wb.scan(lambda h, k=k: np.sin(h * k), [], [x], n_steps=200)[-1]
            for k in (1.5, 2.5)
        ]
        return [np.cumsum(np.cumsum(end)) for end in ends]

    program = compile_program(f, (rng.standard_normal(9),), Standin())
    assert program.refusal is None
    assert program.streams.width == 2


def iterate(x: Any, outer: int, inner: int) -> Any:
    """A loop of loops: each of the inner ones can be one kernel."""

    def step(h: Any) -> Any:
        more = lambda g: np.sin(g) + h  # noqa: E731
        return wb.scan(more, initial=[h], n_steps=inner, last=True)

    return wb.scan(step, initial=[x], n_steps=outer, last=True)


def test_a_graph_that_nobody_could_interrupt_is_not_captured() -> None:
    x = np.ones(3)
    program = compile_program(lambda x: iterate(x, 9000, 10_000), (x,), Standin())
    assert program.refusal is not None
    told = r"an interrupt could not end its loops, which take about (9|18)\d s"
    assert re.fullmatch(told, program.refusal)


def test_the_parts_of_inner_loops_take_time() -> None:
    program = compile_program(
        lambda x: iterate(x, 9000, 10_000), (np.ones(3),), Standin()
    )
    (loop,) = [one for one in program.actions if one.rounds]
    assert loop.rounds >= 90_000_000
    costs = module.estimate_costs(program.plan, program.actions, 132)
    assert costs[loop.step].seconds >= loop.rounds * module.LATENCY


def test_branches_that_fill_the_device_have_one_stream() -> None:
    """The plan is for more entries than anybody computes here."""
    n = 2**24

    def f(x: Any, y: Any) -> Any:
        for k in range(6):
            x, y = np.sin(x) + np.sum(x), np.cos(y) + np.sum(y[1:]) * k
        return np.sum(x) + np.sum(y)

    device = Standin()
    x, y = np.zeros(n), np.zeros(n + 4)
    program = compile_program(f, (x, y), device)
    costs = module.estimate_costs(program.plan, program.actions, 4)
    assert sum(one.busy for one in costs) > 0.92 * sum(one.seconds for one in costs)
    chosen = module.choose_streams(program.plan, program.actions, 4)
    assert chosen.width == 1


def test_memory_is_not_spread_too_far(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, A = rng.standard_normal(9), rng.standard_normal((9, 9))
    wide = compile_program(branches, (x, A), Standin())
    monkeypatch.setattr(module, "MOST_SPREAD", -1)
    narrow = compile_program(branches, (x, A), Standin())
    assert narrow.streams.width == 1
    assert narrow.size <= wide.size


def test_what_cannot_be_captured_is_a_barrier(
    eager: None, rng: np.random.Generator
) -> None:
    def f(x: Any, A: Any) -> Any:
        y = np.sort(branches(x, A) * x)
        return branches(y, A) + y

    x, A = rng.standard_normal(9), rng.standard_normal((9, 9))
    device = Standin()
    program = compile_program(f, (x, A), device)
    segments = find_segments(program.plan, program.actions)
    outside = [a.step for a in program.actions if not a.is_capturable]
    assert outside
    assert all(range(k, k + 1) in segments for k in outside)
    check_plan(program.plan, program.streams, segments)
    device.order = "latest first"
    for _ in range(WARM + 4):
        (made,) = run_program(program, (x, A), device)
        np.testing.assert_allclose(made, f(x, A), rtol=1e-12)
        x = x + 0.1
    assert program.captured == 2


@pytest.mark.parametrize("order", ["as recorded", "latest first", "at random"])
@pytest.mark.parametrize("name", ["branches", "heavy", "gradient", "loop"])
def test_every_order_gives_the_same_bits(
    name: str, order: str, rng: np.random.Generator
) -> None:
    n = 50
    x, A = rng.standard_normal(9), rng.standard_normal((9, 9)) * 0.3
    square = rng.standard_normal((n, n)) / n, rng.standard_normal((n, n)) / n

    def loops(x: Any, A: Any) -> Any:
        ends = [
            wb.scan(lambda h, k=k: np.tanh(A @ h + k), [], [x * k], n_steps=4)[-1]
            for k in range(6)
        ]
        return ends[0] + ends[1] * ends[2] - ends[3] * ends[4] + ends[5]

    cases: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
        "branches": (branches, (x, A)),
        "heavy": (heavy, (rng.standard_normal((n, n)), *square)),
        "gradient": (wb.value_and_grad(branches, (0, 1)), (x, A)),
        "loop": (loops, (x, A)),
    }
    f, args = cases[name]
    device = Standin()
    device.order = order
    program = compile_program(f, args, device)
    assert program.streams.width > 1
    plain = compile_program(f, args, Standin())
    plain.refusal = "one after the other"
    for _ in range(WARM + 4):
        made = run_program(program, args, device)
        for got, want in zip(made, run_program(plain, args, Standin()), strict=True):
            assert got.tobytes() == want.tobytes()
        args = tuple(a * 1.01 for a in args)  # old values would be seen
    assert program.captured == 1
    assert all(one.is_forked for one in device.recordings)


def test_products_on_two_streams_have_work_memory_each(
    rng: np.random.Generator,
) -> None:
    n = 50
    args = tuple(rng.standard_normal((n, n)) / n for _ in range(3))
    device = Standin()
    program = compile_program(heavy, args, device)
    size = program.memory
    for _ in range(WARM + 1):
        run_program(program, args, device)
    assert len(device.workspaces) == 2
    assert program.memory == size + 2 * WORKSPACE


# Kernels of users


class Scaled(wb.KernelOp):
    """A number of each dtype that a kernel takes, and two results."""

    inputs = "x: T[n, m], k: float64[]"
    outputs = "y: T[n, m], sums: T[n]"
    name = "scaled_on_streams"
    factor: float
    twice: bool
    cuda = r"""
    __global__ void scaled_on_streams(const T *x, const double *k, T *y, T *sums,
                                      int64_t n, int64_t m, double factor, bool twice) {
        int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
        if (i >= n * m) return;
        y[i] = x[i] * (T)(*k * factor) * (twice ? 2 : 1);
        if (i % m == 0) for (int64_t j = 0; j < m; j++) sums[i / m] += x[i + j];
    }
    """

    def fallback(self, x: Any, k: Any) -> Any:
        by = (k * self.factor).astype(x.dtype) * (2 if self.twice else 1)
        return (x * by).astype(x.dtype), np.sum(x, 1)


def test_the_listing_tells_a_users_kernel_and_a_choice() -> None:
    """The first is captured as it is; of the second it tells both ways."""
    op = Scaled(factor=2.0, twice=True)

    def f(x: Any, k: Any) -> Any:
        y, _ = op(x, k)
        return wb.cond(
            np.sum(y) > 0, lambda y: np.cumsum(y, 1), lambda y: y @ y.T @ y, y
        )

    plan = wb.plan_kernels(wb.trace(f)(wb.Spec((4, 3), "f8"), wb.Spec((), "f8")))
    texts = {step.name: str(step) for step in plan}
    assert texts["call 1"].split() == ["call", "1", "scaled_on_streams"]
    assert texts["choice 1"].endswith("or both and a selection if they are short)")


def test_a_kernel_of_a_user_is_captured(rng: np.random.Generator) -> None:
    scaled = Scaled(factor=0.5, twice=True)

    def f(x: Any, k: Any) -> Any:
        y, sums = scaled(np.sin(x), k)
        z, more = scaled(np.cos(x).T, np.array(3.0))  # lies otherwise; a constant
        for _ in range(4):
            y = np.tanh(np.cumsum(y, 0))
        return y, np.cumsum(sums) * np.sum(more), z

    device = Standin()
    args = rng.standard_normal((7, 40)), np.array(2.0)
    program = compile_program(f, args, device)
    assert program.list_uncaptured() == []
    device.order = "latest first"
    for _ in range(WARM + 4):
        made = run_program(program, args, device)
        for got, want in zip(made, f(*args), strict=True):
            assert got.dtype == np.asarray(want).dtype
            np.testing.assert_allclose(got, want, rtol=1e-12)
        args = args[0] * 1.1, args[1]
    assert program.captured == 1


def test_the_seeds_kernels_are_captured(rng: np.random.Generator) -> None:
    """Those of A4 and E4: `zero_out`, and the gradient of `cdist`."""

    def f(x: Any, w: Any) -> Any:
        gap = x[:, None, :] - w[None, :, :]
        y = np.sqrt(np.sum(gap * gap, axis=2))
        dx, dw = CDistGrad()(x, w, y, np.cos(y))
        zeroed, index = ZeroOut()(np.sum(dx, 1))
        return dx, np.cumsum(dw, 0), np.tanh(np.cumsum(zeroed)), index * 2

    device = Standin()
    args = rng.standard_normal((5, 3)), rng.standard_normal((4, 3))
    program = compile_program(f, args, device)
    assert program.list_uncaptured() == []
    for _ in range(WARM + 3):
        made = run_program(program, args, device)
        for got, want in zip(made, f(*args), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-14)
    assert program.captured == 1


def test_a_kernel_without_cuda_stands_between_graphs(
    rng: np.random.Generator,
) -> None:
    args = (rng.standard_normal(30),)
    program = compile_program(lambda x: KernelSquares()(np.sin(x)), args, Standin())
    (told,) = program.list_uncaptured()
    assert told.startswith("kernel_squares (at ")
    assert told.endswith(f"), which CuPy computes: {OTHERWISE}")


# All programs


@pytest.mark.parametrize("name", mark_rest(PROGRAMS, "streams"))
def test_programs_on_streams(name: str, eager: None, rng: np.random.Generator) -> None:
    compile_programs()
    f, args = make_program(PROGRAMS[name], draw(rng))
    check_graph(trace(f, args), tuple(args))


def check_samples(chosen: Chosen, subtests: pytest.Subtests) -> None:
    """Gradients of samples, with a fork wherever there can be one."""
    cases = plan_cases(chosen, True)
    HostModule([x for case in cases for x in case.list_launches()])
    pairs = 0
    for case in cases:
        with subtests.test(case.label), np.errstate(all="ignore"):
            try:
                pairs += check_graph(case.graph, tuple(map(np.asarray, case.args)))
            except CompilerError:  # NumPy gave what has another shape or dtype
                assert CASES[case.label][0].name in BY_VALUE
    assert pairs > 0


@pytest.mark.long
def test_some_samples_on_streams(eager: None, subtests: pytest.Subtests) -> None:
    check_samples(choose_some(), subtests)


@pytest.mark.long
@pytest.mark.parametrize("part", range(PARTS))
def test_all_samples_on_streams(
    part: int, eager: None, subtests: pytest.Subtests
) -> None:
    check_samples(choose(part), subtests)


def check_graph(graph: Graph, args: tuple[Any, ...]) -> int:
    """The plan is sound, and runs in other orders give the same bits."""
    device = Standin()
    with device.use():
        specs = [spec_of(a) for a in args]
        program = Program(expand(graph, specs, kinds=SMALL.kinds), device)
        plan, actions = program.plan, program.actions
        program.streams, program.size = module.spread_steps(
            plan, actions, SMALL.processors
        )
        program.refusal = None
        program._inner = [
            (i, b.offset)
            for i, b in enumerate(plan.buffers)
            if b.kind in ("inner", "partial", "flag") and b.offset >= 0
        ]
    pairs = check_plan(plan, program.streams, find_segments(plan, actions))
    want = [y.tobytes() for y in run_program(program, args, device)]
    for order in ("latest first", "at random"):
        device.order = order
        for _ in range(WARM):
            made = run_program(program, args, device)
            assert [y.tobytes() for y in made] == want
    return pairs


# The recorder itself


def test_a_recording_refuses_what_cuda_refuses() -> None:
    nothing = lambda: None  # noqa: E731
    one = Recording(["a", "b"])
    with pytest.raises(AssertionError, match="work on b, which is not captured"):
        one.add("b", nothing)
    one.follow("b", one.mark("a"))
    one.add("b", nothing)
    with pytest.raises(AssertionError, match="a stream is not waited for"):
        one.finish()
    one.follow("a", one.mark("b"))
    one.finish()
    two = Recording(["a", "b"])
    two.follow("b", two.mark("a"))
    for stream in "ab":
        two.memory[two.add(stream, nothing)] = 1
    two.follow("a", two.mark("b"))
    with pytest.raises(AssertionError, match="two products in one memory"):
        two.finish()


def test_a_wait_that_is_left_out_is_seen(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, A = rng.standard_normal(9), rng.standard_normal((9, 9))
    program = compile_program(branches, (x, A), Standin())
    segments = find_segments(program.plan, program.actions)
    none = StreamPlan(program.streams.streams, ((),) * len(program.plan.steps))
    with pytest.raises(AssertionError):
        check_plan(program.plan, none, segments)
    monkeypatch.setattr(module, "extend_lifetimes", lambda *_: None)
    device = Standin()
    careless = compile_program(branches, (x, A), device)
    with pytest.raises(AssertionError):
        check_plan(careless.plan, careless.streams, segments)


def test_arrays_of_the_device_stay_there(rng: np.random.Generator) -> None:
    x, A = rng.standard_normal(9), rng.standard_normal((9, 9))
    device = Standin()
    program = compile_program(branches, (x, A), device)
    before = DeviceArray.transfers
    with device.use():
        given = [device.upload(a) for a in (x, A)]
        for _ in range(WARM + 3):
            made = program.run(given)
    assert DeviceArray.transfers == before
    assert all(isinstance(y, DeviceArray) for y in tree.flatten(made)[0])


# What CuPy is asked for


class CudaOfTest:
    """CuPy's streams, events and cuBLAS's stream, as CUDA has them under capture."""

    def __init__(self) -> None:
        self.recording: Recording | None = None
        self.current: list[Any] = []
        self.uploaded: list[Any] = []
        self.blas: list[tuple[int, ...]] = []
        self.made = 0
        cuda = self

        class Stream:
            def __init__(self, *, non_blocking: bool = False) -> None:
                assert non_blocking  # the default stream must not wait for it
                cuda.made += 1
                self.ptr = 100 + cuda.made

            def __enter__(self) -> Stream:
                cuda.current.append(self)
                return self

            def __exit__(self, *error: object) -> None:
                assert cuda.current.pop() is self

            def begin_capture(self) -> None:
                cuda.recording = Recording([str(self.ptr)])

            def end_capture(self) -> Any:
                made, cuda.recording = cuda.recording, None
                assert made is not None
                made.finish()
                graph = types.SimpleNamespace(upload=cuda.uploaded.append)
                graph.launch = lambda: made.run("at random")
                return graph

            def record(self, event: Any) -> None:
                assert cuda.recording is not None
                event.done = cuda.recording.mark(str(self.ptr))

            def wait_event(self, event: Any) -> None:
                assert cuda.recording is not None
                cuda.recording.follow(str(self.ptr), event.done)

        self.Stream = Stream
        self.Event = lambda disable_timing: types.SimpleNamespace()
        handles = types.SimpleNamespace(get_cublas_handle=lambda: 7)
        self.device = handles
        self.outer = Stream(non_blocking=True)
        self.current.append(self.outer)

    def get_current_stream(self) -> Any:
        return self.current[-1]

    # cuBLAS

    def select_stream(self, handle: int, *given: int) -> None:
        self.blas.append(given)

    def multiply(self, handle: int, gemm: Any, addresses: Any) -> None:
        assert self.recording is not None
        stream, memory, size = self.blas[-1]
        assert size == WORKSPACE
        number = self.recording.add(str(stream), gemm)
        self.recording.memory[number] = memory


@pytest.fixture
def cuda() -> CudaOfTest:
    return CudaOfTest()


def make_runtime(cuda: CudaOfTest, monkeypatch: pytest.MonkeyPatch) -> CupyRuntime:
    monkeypatch.setattr(CupyRuntime, "__init__", lambda self: None)
    runtime: Any = CupyRuntime()
    runtime._cuda, runtime._cublas = cuda, cuda
    runtime._local = threading.local()
    runtime.find_address = lambda memory: memory
    return runtime  # type: ignore[no-any-return]


def test_cupy_captures_branches_on_streams(
    cuda: CudaOfTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two chains of three products, and one that reads both."""
    runtime = make_runtime(cuda, monkeypatch)
    done: list[int] = []

    class Product(Action):
        multiplies = True

        def __init__(self, step: int) -> None:
            self.step = step

        def run(self, frame: Any) -> None:
            runtime.multiply(lambda: done.append(self.step), [])  # type: ignore[arg-type]

    plan = StreamPlan((0, 1, 0, 1, 0, 1, 0), ((), (), (), (), (), (), (5,)))
    frame: Any = types.SimpleNamespace(runtime=runtime)
    actions = [Product(k) for k in range(7)]
    replay = runtime.capture(
        lambda streams: put_on_streams(actions, plan, frame, streams), [1000, 2000]
    )
    assert cuda.current == [cuda.outer]
    assert cuda.uploaded == [cuda.outer]
    assert cuda.blas[-1] == (cuda.outer.ptr,)
    assert {memory for _, memory, _ in cuda.blas[:-1]} == {1000, 2000}
    for _ in range(3):
        done.clear()
        replay()
        assert sorted(done) == list(range(7))
        assert [k for k in done if k % 2] == [1, 3, 5]
        assert done[-1] == 6


def test_a_capture_that_fails_leaves_the_stream_as_it_was(
    cuda: CudaOfTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = make_runtime(cuda, monkeypatch)

    def refuse(streams: Any) -> None:
        with runtime.select(streams[1]):
            raise RuntimeError("no transfers here")

    with pytest.raises(CompilerError, match="it cannot be captured: no transfers"):
        runtime.capture(refuse, [1000, None])
    assert cuda.current == [cuda.outer]
    assert cuda.recording is None
    assert cuda.blas == [(cuda.outer.ptr,)]


def test_an_interrupt_ends_the_capture(
    cuda: CudaOfTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes while a stream that has been forked is the current one."""
    runtime = make_runtime(cuda, monkeypatch)

    def interrupt(streams: Any) -> None:
        start = runtime.mark()
        with runtime.select(streams[1]):
            runtime.follow(start)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        runtime.capture(interrupt, [1000, None])
    assert cuda.current == [cuda.outer]
    assert cuda.recording is None
    assert cuda.blas == [(cuda.outer.ptr,)]
