"""Functions and programs of the GPU's backend, on a device that is this machine."""

from __future__ import annotations

import gc
import inspect
import re
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.backends.cupy.host import COMPILER
from tests.backends.cupy.standin import DeviceArray, Standin
from workbench.backends.compiled.tiers import MOST_TRIES
from workbench.backends.cupy.actions import HostAction, LoopAction
from workbench.backends.cupy.functions import CupyFunction
from workbench.backends.cupy.matrices import WORKSPACE
from workbench.backends.cupy.obstacles import INSTEAD, OTHERWISE, WIDER
from workbench.backends.cupy.program import WARM
from workbench.backends.profile import measure
from workbench.core import tree
from workbench.core.op import OPS, load_all_ops
from workbench.core.types import Spec
from workbench.errors import (
    CompilerError,
    DeviceError,
    DeviceMemoryError,
    UsageError,
)

pytestmark = pytest.mark.skipif(COMPILER is None, reason="needs g++")


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Standin:
    monkeypatch.setattr(CupyFunction, "patience", 0.0)  # first calls are op by op
    return Standin()


def make(
    f: Callable[..., Any], args: tuple[Any, ...], runtime: Standin
) -> CupyFunction:
    """A function on the device that is compiled for these arguments."""
    names = [*inspect.signature(f).parameters] if f is not np.sin else ["x"]
    symbols = [
        wb.tensor(name, dtype=np.asarray(a).dtype, shape=np.shape(a))
        for name, a in zip(names, args, strict=True)
    ]
    outputs, _ = tree.flatten(f(*symbols))
    function = CupyFunction(wb.Graph(symbols, outputs), runtime=runtime)
    function.run([runtime.upload(a) for a in args])
    assert function.wait(120)
    assert function.reason is None, function.reason
    return function


def check(
    f: Callable[..., Any], args: tuple[Any, ...], runtime: Standin, calls: int = 5
) -> CupyFunction:
    """The same as NumPy gives, in calls that are captured and that are not."""
    expected = [np.asarray(y) for y in tree.flatten(f(*args))[0]]
    function = make(f, args, runtime)
    for _ in range(calls):
        made = function.run([runtime.upload(a) for a in args])
        for got, truth in zip(made, expected, strict=True):
            assert isinstance(got, DeviceArray)
            assert got.dtype == truth.dtype
            np.testing.assert_allclose(
                got.view(np.ndarray), truth, rtol=1e-10, atol=1e-12
            )
    return function


def program_of(function: CupyFunction) -> Any:
    assert function._last is not None
    return function._last.program


def upload_anew(program: Any, x: Any, runtime: Standin, count: int) -> list[Any]:
    """Arrays at addresses that a program has no CUDA graphs for, nor is to have."""
    capture = program._capture
    known = {*capture._bound, capture._seen}
    made: list[Any] = []
    others: list[Any] = []
    while len(made) < count:
        array = runtime.upload(x)
        bound = (runtime.find_address(array),) in known
        (others if bound else made).append(array)
    return made


def chain(x: Any) -> Any:
    for k in range(6):
        x = np.sin(x) + np.sum(x * x, axis=-1, keepdims=True) * 1e-3 * k
    return x


# What a plan becomes


def test_launches_that_follow_each_other_are_one_graph(
    runtime: Standin, rng: np.random.Generator
) -> None:
    x = rng.standard_normal((4, 33))
    program = program_of(check(chain, (x,), runtime))
    assert program.captured == 1
    assert program.refusal is None
    assert program.list_uncaptured() == []
    # At the same address again and again it is read there.
    copied, read = ["copy", "graph", "copy"], ["graph", "copy"]
    (given,) = upload_anew(program, x, runtime, 1)
    for log in (copied, read, read):
        runtime.log.clear()
        (made,) = program.run([given])
        assert runtime.log == log
        np.testing.assert_allclose(made.view(np.ndarray), chain(x), rtol=1e-12)


def test_a_call_of_a_gpu_goes_the_whole_way(
    runtime: Standin, rng: np.random.Generator
) -> None:
    """Where its arguments lie is looked at in each call."""
    x = rng.standard_normal((4, 33))
    function = make(chain, (x,), runtime)
    assert function.run_ready([runtime.upload(x)]) is None
    assert function.run_ready([x]) is None
    assert function.run([runtime.upload(x)])


def test_a_first_call_waits_a_moment_for_its_kernels(
    runtime: Standin, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = rng.standard_normal((4, 33))
    symbol = wb.tensor("x", dtype="f8", shape=(4, 33))
    graph = wb.Graph([symbol], [chain(symbol) * 2])
    load, may_load = runtime.load, threading.Event()

    def load_late(launches: Any) -> Any:
        assert may_load.wait(60)
        return load(launches)

    monkeypatch.setattr(runtime, "load", load_late)
    for patience in (0.01, 60.0):  # in the first round they are not there in time
        monkeypatch.setattr(CupyFunction, "patience", patience)
        function = CupyFunction(graph, runtime=runtime)
        runtime.log.clear()
        (made,) = function.run([runtime.upload(x)])
        launched = any(name.startswith("entries_") for name in runtime.log)
        assert launched is may_load.is_set()
        np.testing.assert_allclose(made.view(np.ndarray), 2 * chain(x), rtol=1e-12)
        may_load.set()
        assert function.wait(60)


def test_small_outputs_are_copied_together(
    runtime: Standin, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    def f(x: Any) -> Any:
        y = chain(x)
        return np.sum(y), y[:, :3] + 1, x @ y.T, np.exp(y) > 1.2, y[:0] * 2

    monkeypatch.setattr("workbench.backends.cupy.program.TOGETHER", 200)
    x = rng.standard_normal((4, 33))
    program = program_of(check(f, (x,), runtime))
    assert program.captured == 1
    (given,) = upload_anew(program, x, runtime, 1)
    for _ in range(3):
        program.run([given])
    runtime.log.clear()
    first = program.run([given])
    assert [y.nbytes for y in first] == [8, 96, 128, 132, 0]
    assert runtime.log == ["graph", "copy"]
    kept = [y.copy() for y in first]
    starts = [runtime.find_address(y) for y in first if y.nbytes]
    assert all(start % 16 == 0 for start in starts)
    first[1][...] = 7  # writes into nothing else
    second = program.run([runtime.upload(x + 1)])
    for k, (y, before, other) in enumerate(zip(first, kept, second, strict=True)):
        if k != 1:
            np.testing.assert_array_equal(y, before)
        assert not np.shares_memory(y, other)


def test_outputs_that_are_not_small_keep_memory_of_their_own(
    runtime: Standin, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workbench.backends.cupy.program.TOGETHER", 100)
    f = lambda x: (np.sum(chain(x)), chain(x), np.max(chain(x)))  # noqa: E731
    x = rng.standard_normal((4, 33))
    program = program_of(check(f, (x,), runtime))
    (given,) = upload_anew(program, x, runtime, 1)
    for _ in range(3):
        program.run([given])
    runtime.log.clear()
    small, large, other = program.run([given])
    assert runtime.log == ["graph", "copy", "copy"]
    assert small.base is other.base is not large.base


def test_a_captured_call_costs_the_host_few_functions(
    runtime: Standin, rng: np.random.Generator
) -> None:
    def f(x: Any, y: Any, z: Any) -> Any:
        return np.sum(chain(x)) * y, chain(x + z), np.max(chain(x)) + z

    args = (rng.standard_normal((4, 33)), np.ones(3), np.ones(33))
    function = check(f, args, runtime)
    given = [runtime.upload(a) for a in args]
    for _ in range(4):
        function.run(given)
    called: list[str] = []

    def count(frame: Any, event: str, _: object) -> None:
        if event == "call" and "workbench" in frame.f_globals["__name__"]:
            called.append(frame.f_code.co_qualname)

    sys.setprofile(count)
    try:
        function.run(given)
    finally:
        sys.setprofile(None)
    assert len(called) <= 50, called


def test_a_captured_program_takes_booleans(
    runtime: Standin, rng: np.random.Generator
) -> None:
    x = rng.standard_normal((4, 33))
    f = lambda x, chosen: chain(np.where(chosen, x, 0.5))  # noqa: E731
    assert program_of(check(f, (x, x > 0), runtime)).captured == 1


def test_results_of_one_call_are_not_those_of_the_next(
    runtime: Standin, rng: np.random.Generator
) -> None:
    x = rng.standard_normal((4, 33))
    program = program_of(check(chain, (x,), runtime))
    (first,) = program.run([runtime.upload(x)])
    kept = first.copy()
    (second,) = program.run([runtime.upload(x + 1)])
    np.testing.assert_array_equal(first, kept)
    np.testing.assert_allclose(second.view(np.ndarray), chain(x + 1), rtol=1e-12)


def test_an_op_that_cupy_computes_stands_between_graphs(
    runtime: Standin, rng: np.random.Generator
) -> None:
    x = rng.standard_normal((4, 33))
    program = program_of(check(lambda x: chain(np.sort(chain(x))), (x,), runtime))
    assert program.captured == 2
    (told,) = program.list_uncaptured()
    assert re.fullmatch(
        r"argsort \(at .*\), which CuPy computes: np.max, np.argmax and .*", told
    )


def test_an_op_that_leaves_the_device_says_so(
    runtime: Standin, rng: np.random.Generator
) -> None:
    A = rng.standard_normal((3, 3)) / 9 + np.eye(3)
    f = lambda x: chain(wb.scipy.linalg.solve_sylvester(chain(x), x, x))  # noqa: E731
    (told,) = program_of(check(f, (A,), runtime)).list_uncaptured()
    lacks = "CuPy has no Schur decomposition"
    assert told.startswith("solve_sylvester (at ")
    assert told.endswith(f"), which the CPU computes: {lacks}")


@pytest.mark.parametrize(
    ("f", "instead"),
    [
        (np.sort, INSTEAD["order"]),
        (lambda x: np.linalg.solve(x @ x.T + np.eye(4), x), INSTEAD["matrix"]),
        (lambda x: np.mean(x.astype(np.float16)), WIDER),
        (lambda x: np.fft.fft(x).real, OTHERWISE),
        (lambda x: wb.scan(lambda r, h: np.sort(h) + r, x, [x[0]]), INSTEAD["loop"]),
    ],
)
def test_the_plan_says_what_no_graph_contains(f: Any, instead: str) -> None:
    plan = wb.plan_kernels(wb.trace(f)(np.eye(4) + 1))
    (step,) = [step for step in plan if step.name == "CuPy 1"]
    assert step.note.startswith("in no CUDA graph: ")
    assert "(at test_functions.py:" in step.note
    assert step.note.endswith(instead)


@pytest.mark.parametrize("given", [np.sin, wb.compile(np.sin), "graph"])
def test_what_has_no_plan_is_told(given: Any) -> None:
    with pytest.raises(UsageError, match=r"takes a graph, .* wb\.trace\(f\)"):
        wb.plan_kernels(given)


def test_what_no_graph_contains_is_of_a_kind() -> None:
    load_all_ops()
    assert {*INSTEAD} - {"loop"} <= {op.kind for op in OPS.values()}


def test_graphs_of_a_program_share_work_memory_if_they_multiply(
    runtime: Standin, rng: np.random.Generator
) -> None:
    x = rng.standard_normal((4, 4))
    plain = program_of(check(lambda x: chain(np.sort(chain(x))), (x,), runtime))
    assert plain._capture.workspace is None
    assert not runtime.workspaces
    f = lambda x: chain(np.sort(chain(x @ x)) @ x)  # noqa: E731
    function = make(f, (x,), runtime)
    program = program_of(function)
    size = program.memory
    for _ in range(4):
        function.run([runtime.upload(x)])
    assert program.captured == 2
    assert len(runtime.workspaces) == 1
    assert program.memory == size + WORKSPACE


@pytest.mark.parametrize(
    ("f", "told"),
    [
        (np.sin, "it has 1 launches, which cost less than to copy 2 inputs"),
        (lambda x: chain(x)[..., None] * np.ones(90), "too large to copy them"),
    ],
)
def test_why_a_program_is_not_captured(
    f: Any, told: str, runtime: Standin, rng: np.random.Generator,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr("workbench.backends.cupy.program.COPIED", 2**11)
    x = rng.standard_normal((4, 33))
    program = program_of(check(f, (x,), runtime))
    assert program.captured == 0
    assert told in str(program.refusal)


def test_a_program_of_too_many_launches_is_not_captured(
    runtime: Standin, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workbench.backends.cupy.program.MOST_CAPTURED", 5)
    program = program_of(check(chain, (rng.standard_normal((4, 33)),), runtime))
    assert program.captured == 0
    assert re.fullmatch(r"it has \d+ launches", str(program.refusal))


def test_what_cannot_be_captured_runs_without(
    runtime: Standin, rng: np.random.Generator
) -> None:
    runtime.refuses_capture = True
    x = rng.standard_normal((4, 33))
    program = program_of(check(chain, (x,), runtime))
    assert program.captured == 0
    assert program.refusal == "it cannot be captured: not here"


def test_a_capture_that_does_not_fit_is_not_tried_again(
    runtime: Standin, rng: np.random.Generator
) -> None:
    x = rng.standard_normal((4, 33))
    function = make(chain, (x,), runtime)
    given = [runtime.upload(x)]
    for _ in range(WARM):
        function.run(given)
    runtime.failing = 1
    (made,) = function.run(given)
    np.testing.assert_allclose(made.view(np.ndarray), chain(x), rtol=1e-12)
    program = program_of(function)
    assert "its buffers do not fit into memory: Out of" in str(program.refusal)
    function.run(given)
    assert runtime.captures == 0


@pytest.mark.parametrize(
    "error", [CompilerError("it cannot be captured"), MemoryError("Out of memory")]
)
def test_a_capture_that_fails_later_leaves_the_first(
    error: Exception,
    runtime: Standin,
    rng: np.random.Generator,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x = rng.standard_normal((4, 33))
    program = program_of(check(chain, (x,), runtime))
    (given,) = upload_anew(program, x, runtime, 1)
    tries = 0

    def refuse(run: Any, workspace: Any) -> Any:
        nonlocal tries
        tries += 1
        raise error

    monkeypatch.setattr(runtime, "capture", refuse)
    for _ in range(5):
        runtime.log.clear()
        (made,) = program.run([given])
        assert runtime.log == ["copy", "graph", "copy"]
        np.testing.assert_allclose(made.view(np.ndarray), chain(x), rtol=1e-12)
    assert tries == 1


def test_another_stream_waits_for_the_one_before(
    runtime: Standin, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = rng.standard_normal((4, 33))
    program = program_of(check(chain, (x,), runtime))
    runtime.log.clear()
    monkeypatch.setattr(runtime, "find_stream", lambda: "another")
    for one in upload_anew(program, x, runtime, 2):
        program.run([one])
    assert runtime.log == ["follow the stream", *["copy", "graph", "copy"] * 2]


def test_memory_of_a_capture_goes_after_its_last_run(
    runtime: Standin, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = rng.standard_normal((4, 33))
    program = program_of(check(chain, (x,), runtime))
    with monkeypatch.context() as patch:
        patch.setattr(runtime, "find_stream", lambda: "another")
        program.run([runtime.upload(x)])
    runtime.log.clear()
    program.release()
    assert runtime.log == ["wait for another"]


def test_a_run_that_fails_is_waited_for_too(
    runtime: Standin, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = rng.standard_normal((4, 33))
    program = program_of(check(chain, (x,), runtime))
    given = runtime.upload(x)
    with monkeypatch.context() as patch:
        patch.setattr(runtime, "find_stream", lambda: "another")
        runtime.failing = 1
        with pytest.raises(MemoryError):
            program.run([given])
    runtime.log.clear()
    program.run([given])
    assert runtime.log[0] == "follow another"


def test_a_profile_has_a_row_for_each_step(
    runtime: Standin, rng: np.random.Generator
) -> None:
    x = rng.standard_normal((4, 33))
    function = check(lambda x: np.sort(chain(x) @ x.T), (x,), runtime)
    profile = measure(function, [runtime.upload(x)])
    steps = [row.step for row in profile]
    assert profile.backend == "cupy"
    assert {"product 1", "CuPy 1", "kernel 1"} <= set(steps)
    assert len(steps) == len(program_of(function).plan.steps)


# What runs


@pytest.mark.parametrize("shape", ["mk kn", "km kn", "mk nk", "km nk", "bmk bkn"])
def test_products_of_every_layout(
    shape: str, runtime: Standin, rng: np.random.Generator
) -> None:
    lengths = {"m": 7, "k": 5, "n": 3, "b": 4}
    a, b = shape.split()
    x = rng.standard_normal([lengths[i] for i in a])
    y = rng.standard_normal([lengths[i] for i in b])

    def f(x: Any, y: Any) -> Any:
        x = x.T if a == "km" else x
        y = y.T if b == "nk" else y
        return np.tanh(x @ y), (x @ y) @ np.swapaxes(y, -1, -2)

    check(f, (x, y), runtime)


@pytest.mark.parametrize("shapes", [((4,), (4,)), ((3, 4), (4,)), ((4,), (4, 3)),
                                    ((2, 3, 4), (4,)), ((2, 1, 3, 4), (5, 4, 2)),
                                    ((4,), (2, 4, 3))])  # fmt: skip
def test_products_of_vectors_and_stacks(
    shapes: Any, runtime: Standin, rng: np.random.Generator
) -> None:
    x, y = (rng.standard_normal(s) for s in shapes)
    f = lambda x, y: np.sum(np.tanh(x @ y))  # noqa: E731
    check(lambda x, y: (x @ y, *wb.grad(f, (0, 1))(x, y)), (x, y), runtime)


@pytest.mark.parametrize("n", [1, 2, 3, 8])
def test_loops(n: int, runtime: Standin, rng: np.random.Generator) -> None:
    xs, A = rng.standard_normal((9, n)), rng.standard_normal((n, n)) * 0.3

    def last(xs: Any, A: Any) -> Any:
        rows = wb.scan(lambda x, h: np.tanh(A @ h + x), xs, [np.zeros(n)])
        return np.sum(rows**2)

    program = program_of(check(wb.value_and_grad(last, (0, 1)), (xs, A), runtime))
    looped = [a for a in program.actions if isinstance(a, LoopAction)]
    assert len(looped) == 2
    assert runtime.reads == 0


def test_a_loop_that_ends_by_itself_waits_in_each_step(
    runtime: Standin, rng: np.random.Generator
) -> None:
    def f(x: Any) -> Any:
        return wb.while_loop(lambda x: np.sum(x) < 10, lambda x: x * 2.0, x)

    program = program_of(check(f, (np.array([0.3, 0.4, 0.5]),), runtime))
    assert any(
        "which the host must ask after each step whether it ends: a wb.scan" in told
        for told in program.list_uncaptured()
    )
    assert runtime.reads > 0


def test_a_loop_of_what_no_kernel_computes_is_cupys(
    runtime: Standin, rng: np.random.Generator
) -> None:
    f = lambda xs: wb.scan(lambda x, h: np.sort(h) + x, xs, [np.zeros(3)])  # noqa: E731
    function = check(f, (rng.standard_normal((5, 3)),), runtime)
    (told,) = program_of(function).list_uncaptured()
    assert told.startswith("scan (at ")
    assert told.endswith(f"), which CuPy computes: {INSTEAD['loop']}")


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_condition_of_long_branches_is_waited_for(
    sign: float, runtime: Standin
) -> None:
    def f(x: Any) -> Any:
        return wb.cond(np.sum(x) > 0, lambda x: chain(chain(x)), lambda x: x * x, x) + 1

    calls = 5
    function = check(f, (sign * np.array([1.0, 2.0, 4.0]),), runtime, calls)
    assert runtime.reads == calls
    (told,) = program_of(function).list_uncaptured()
    assert told.startswith("cond, whose condition the host must read: np.where ")


def test_the_condition_of_a_long_loop_is_waited_for(runtime: Standin) -> None:
    """The loop is one launch, and runs long."""

    def iterate(x: Any) -> Any:
        return wb.scan(np.sin, initial=[x], n_steps=1000, last=True)

    def f(x: Any) -> Any:
        return wb.cond(np.sum(x) > 0, iterate, lambda x: x * x, x) + 1

    function = check(f, (np.array([-1.0, -2.0]),), runtime)
    (told,) = program_of(function).list_uncaptured()
    assert told.startswith("cond, whose condition the host must read: np.where ")


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_both_of_two_short_branches_run(sign: float, runtime: Standin) -> None:
    """What the branch not taken gives is nowhere: no NaN, no infinity, no value."""

    def choose(x: Any) -> Any:
        return wb.cond(
            np.sum(x) > 0,
            lambda x: (np.log(x), x / 0.5, x, x),
            lambda x: (np.sqrt(-x), x / 0.0, x, -x),
            x,
        )

    def f(x: Any) -> Any:
        a, b, c, d = choose(x)
        gradient = wb.grad(lambda x: np.sum(choose(x)[0] * choose(x)[3]))(x)
        return chain(a), b, c * d, gradient

    with np.errstate(all="ignore"):
        function = check(f, (sign * np.array([1.0, 2.0, 4.0]),), runtime)
    assert runtime.reads == 0
    assert program_of(function).list_uncaptured() == []
    assert program_of(function).captured == 1


def test_a_loop_with_a_short_choice_is_captured(
    runtime: Standin, rng: np.random.Generator
) -> None:
    def step(x: Any, h: Any) -> Any:
        return wb.cond(h[0] > 0, lambda x, h: h - x, lambda x, h: h + x * x, x, h)

    f = lambda xs: wb.scan(step, xs, [np.ones(3)])[-1]  # noqa: E731
    function = check(f, (rng.standard_normal((9, 3)),), runtime)
    assert runtime.reads == 0
    assert program_of(function).list_uncaptured() == []


@pytest.mark.parametrize("inside", ["a loop", "a choice"])
def test_an_index_out_of_bounds_inside_is_named(inside: str, runtime: Standin) -> None:
    def f(x: Any, i: Any) -> Any:
        if inside == "a loop":
            step = lambda k, h, w: h * 0.5 + w[k]  # noqa: E731
            return wb.scan(step, i, [np.zeros(())], [x])
        return wb.cond(x[0] < 9, lambda x, i: x[i], lambda x, i: x[i] * 2, x, i)

    x, good, bad = np.arange(4.0), np.array([1, 2]), np.array([1, 9])
    function = make(f, (x, good), runtime)
    function.run([runtime.upload(x), runtime.upload(bad)])
    with pytest.raises(
        DeviceError, match=r"in an earlier call: of getitem .*x\[i\]|w\[k\]"
    ):
        runtime.pending.check_all()


def test_nothing_waits_on_the_hot_path(
    runtime: Standin, rng: np.random.Generator
) -> None:
    W, x = rng.standard_normal((5, 4)), rng.standard_normal(4)
    index = np.array([0, 3, 1])

    def f(W: Any, x: Any, i: Any) -> Any:
        def loss(W: Any, x: Any) -> Any:
            return np.sum(np.tanh(W @ x + np.sum(W[:, i], axis=1) * x[i][0]) ** 2)

        return wb.value_and_grad(loss, (0, 1))(W, x)

    function = make(f, (W, x, index), runtime)
    given = [runtime.upload(a) for a in (W, x, index)]
    DeviceArray.transfers = runtime.reads = 0
    for _ in range(10):
        function.run(given)
    assert DeviceArray.transfers == 0
    assert runtime.reads == 0


def test_views_of_inputs_and_equal_outputs_are_arrays_of_their_own(
    runtime: Standin, rng: np.random.Generator
) -> None:
    x = rng.standard_normal((4, 3))
    function = check(
        lambda x: (x, x.T, x[1:], np.sin(x), np.sin(x).T, np.arange(3.0)), (x,), runtime
    )
    given = runtime.upload(x)
    made = function.run([given])
    for y in made:
        y += 100
    np.testing.assert_array_equal(given, x)
    again = function.run([given])
    np.testing.assert_array_equal(again[5], np.arange(3.0))


class Keep(wb.Op):
    """It returns its operand itself, as CuPy's functions may."""

    def compute(self, x: Any) -> Any:
        return x

    def infer(self, x: Any) -> Any:
        return x


def test_what_an_op_gives_back_is_an_array_of_its_own(
    runtime: Standin, rng: np.random.Generator
) -> None:
    x = rng.standard_normal((4, 3))
    keep = Keep()
    function = check(lambda x: (keep(x), keep(x + 1), keep(x.T)), (x,), runtime)
    assert any(isinstance(a, HostAction) for a in program_of(function).actions)
    given = runtime.upload(x)
    for y in function.run([given]):
        y += 100
    np.testing.assert_array_equal(given, x)


def test_outputs_op_by_op_are_not_the_constants(runtime: Standin) -> None:
    x = wb.tensor("x", dtype=float, shape=(3,))
    C = np.arange(3.0)
    function = CupyFunction(wb.Graph([x], [x * 2, x * 0 + C, wb.constant(C)]),
                        runtime=runtime)  # fmt: skip
    given = runtime.upload(np.ones(3))
    for y in function.run_uncompiled([given]):
        y += 100
    _, again, constant = function.run_uncompiled([given])
    np.testing.assert_array_equal(again, C)
    np.testing.assert_array_equal(constant, C)


def test_a_constant_of_the_device_is_copied(runtime: Standin) -> None:
    W = runtime.upload(np.arange(3.0))
    function = make(np.sin, (np.arange(3.0),), runtime)
    kept = function._upload(W)
    W -= 1
    np.testing.assert_array_equal(kept, np.arange(3.0))


def test_numbers_of_the_host_become_arrays_without_a_transfer(
    runtime: Standin, rng: np.random.Generator
) -> None:
    function = CupyFunction(
        wb.trace(lambda x, k: chain(x * k))(Spec((4, 3), np.dtype(float)), 2.0),
        runtime=runtime,
    )
    x = rng.standard_normal((4, 3))
    function.run([runtime.upload(x), 2.0])
    assert function.wait(60)
    for k in (1.0, 2.0, np.float64(3.0), 4.0, 5.0):
        (made,) = function.run([runtime.upload(x), k])
        np.testing.assert_allclose(made.view(np.ndarray), chain(x * k), rtol=1e-12)


def test_arrays_that_lie_otherwise_are_packed(
    runtime: Standin, rng: np.random.Generator
) -> None:
    x = rng.standard_normal((6, 8))
    given = runtime.upload(x)
    for view, truth in ((given.T, x.T), (given[::2, 1:], x[::2, 1:]),
                        (given.ravel()[1:], x.ravel()[1:])):  # fmt: skip
        function = make(np.sin, (truth,), runtime)
        for _ in range(2):
            (made,) = function.run([view])
            np.testing.assert_allclose(made.view(np.ndarray), np.sin(truth), rtol=1e-14)


def test_a_captured_program_takes_what_lies_at_odd_places(
    runtime: Standin, rng: np.random.Generator
) -> None:
    x = rng.standard_normal((4, 33))
    program = program_of(check(chain, (x,), runtime))
    odd = runtime.upload(np.append(0.0, x))[1:].reshape(x.shape)
    for _ in range(4):
        runtime.log.clear()
        (made,) = program.run([odd])
        assert runtime.log == ["copy", "graph", "copy"]
        np.testing.assert_allclose(made.view(np.ndarray), chain(x), rtol=1e-12)


def test_ops_run_on_the_device_of_their_arrays(runtime: Standin) -> None:
    x = wb.tensor("x", dtype=float, shape=(3,))
    function = CupyFunction(wb.Graph([x], [x * 2]), runtime=runtime)
    depths = []

    def run(arrays: Any, observer: Any = None) -> list[Any]:
        runtime._check_current()
        depths.append(runtime._local.depth)
        return [2 * arrays[0]]

    function._ops.run = run  # type: ignore[method-assign]
    given = [runtime.upload(np.ones(3))]
    function.run(given)
    function.run(given, observer=lambda *args: None)
    assert len(depths) == 2
    with pytest.raises(AssertionError, match="another device is the current one"):
        runtime.fill(given[0], 0)


# Errors


def test_an_index_out_of_bounds_is_told_by_a_later_call(runtime: Standin) -> None:
    x, good, bad = np.arange(4.0), np.array([1, 2]), np.array([1, 9])
    function = make(lambda x, i: x[i] * 2, (x, good), runtime)
    given = runtime.upload(x)
    function.run([given, runtime.upload(bad)])
    function.run([given, runtime.upload(good)])  # the word has not arrived
    for reading in runtime.readings:
        reading.arrived = True
    with pytest.raises(DeviceError, match=r"in an earlier call: of getitem"):
        runtime.pending.check_all()
    runtime.pending.check_all()


def test_a_captured_program_forgets_an_index_out_of_bounds(
    runtime: Standin, rng: np.random.Generator
) -> None:
    x, good, bad = rng.standard_normal((4, 33)), np.array([1, 2]), np.array([1, 9])
    f = lambda x, i: chain(x[i])  # noqa: E731
    program = program_of(check(f, (x, good), runtime))
    assert program.captured == 1
    given = runtime.upload(x)
    for _ in range(3):  # copied, and read where it lies
        program.run([given, runtime.upload(bad)])
        with pytest.raises(DeviceError, match="an index was out of bounds"):
            runtime.pending.check_all()
        (made,) = program.run([given, runtime.upload(good)])
        runtime.pending.check_all()
        np.testing.assert_allclose(made.view(np.ndarray), chain(x[good]), rtol=1e-12)


def test_words_on_their_way_are_waited_for_after_an_error(runtime: Standin) -> None:
    """Their memory is written to until they have arrived."""
    x, good, bad = np.arange(4.0), np.array([1, 2]), np.array([1, 9])
    program = program_of(make(lambda x, i: x[i] * 2, (x, good), runtime))
    for i in (bad, good):
        program.run([runtime.upload(x), runtime.upload(i)])
    first, second = runtime.readings[-2:]
    first.arrived = True
    with pytest.raises(DeviceError, match="an index was out of bounds"):
        program.check()
    assert second.arrived


def test_an_index_is_told_though_the_program_is_gone(runtime: Standin) -> None:
    x, good, bad = np.arange(4.0), np.array([1, 2]), np.array([1, 9])
    function = make(lambda x, i: x[i] * 2, (x, good), runtime)
    function.run([runtime.upload(x), runtime.upload(bad)])
    del function
    gc.collect()
    with pytest.raises(DeviceError, match=r"out of bounds in an earlier call: of geti"):
        runtime.pending.check_all()
    runtime.pending.check_all()
    assert not runtime.pending._readings


def test_arrays_of_the_cpu_are_named(runtime: Standin) -> None:
    x = np.arange(3.0)
    function = make(lambda x, W: x * W, (x, x), runtime)
    with pytest.raises(UsageError) as caught:
        function.run([runtime.upload(x), x])
    assert "'W' is an ndarray in the memory of the CPU, and 'x' on the GPU" in str(
        caught.value
    )
    assert "wb.to_gpu(x)" in str(caught.value)
    with pytest.raises(UsageError, match=r"'x' and 'W' are ndarrays"):
        function.run([x, x])


def test_an_allocation_is_tried_once_more(runtime: Standin) -> None:
    x = np.arange(3.0)
    function = make(np.sin, (x,), runtime)
    given = runtime.upload(x)
    runtime.failing = 1
    (made,) = function.run([given])
    assert runtime.freed == 1
    np.testing.assert_allclose(made.view(np.ndarray), np.sin(x))
    runtime.failing = 2
    with pytest.raises(DeviceMemoryError) as caught:
        function.run([given])
    told = str(caught.value)
    assert "the memory of the GPU does not suffice: Out of memory allocating" in told
    assert "A call takes 24 bytes besides inputs. 1 MB of 2 MB of" in told
    assert isinstance(caught.value, MemoryError)
    function.run([given])


def test_what_the_device_refuses_to_compile_is_tried_again(
    runtime: Standin, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = wb.tensor("x", dtype=float, shape=(3,))
    function = CupyFunction(wb.Graph([x], [np.sin(x)]), runtime=runtime)
    given = [runtime.upload(np.ones(3))]

    def refuse(*args: Any) -> Any:
        raise MemoryError("Out of memory allocating 8,000 bytes")

    with monkeypatch.context() as patch:
        patch.setattr(runtime, "load", refuse)
        function.run(given)
        assert function.wait(60)
        assert function.reason is None
    function.run(given)
    assert function.wait(60)
    assert program_of(function) is not None

    function = CupyFunction(wb.Graph([x], [np.cos(x)]), runtime=runtime)
    monkeypatch.setattr(runtime, "load", refuse)
    for _ in range(MOST_TRIES):
        function.run(given)
        assert function.wait(60)
    with pytest.warns(RuntimeWarning) as told:
        function.run(given)
    assert str(told[0].message) == (
        "the program runs as CuPy: the GPU refused while it was compiled: Out of"
        " memory allocating 8,000 bytes"
    )


def test_a_program_that_nobody_holds_goes_with_its_memory(
    runtime: Standin, rng: np.random.Generator
) -> None:
    function = check(chain, (rng.standard_normal((4, 33)),), runtime)
    program = weakref.ref(program_of(function))
    del function
    gc.collect()
    assert program() is None
