"""Arguments of every kind to small programs: a right answer or an error, never a crash.

In a process of its own, since a crash would take the tests down.
"""

from __future__ import annotations

import gc
import resource
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench as wb

KINDS = ["f8", "f4", "f2", "g", "c16", "c8", "i8", "i4", "u8", "i1", "?", ">f8", ">i4",
         "O", "S3", "U3", "M8[s]", "V8"]  # fmt: skip
SHAPES = [(), (1,), (3,), (4,), (3, 1), (1, 3), (0,), (3, 3), (2, 2, 3)]


class Plain(np.ndarray[Any, Any]):
    pass


class Number(float):
    pass


class Answer:
    """What says that it is an array, and answers anything."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class Caller:
    """What calls a function as it goes."""

    def __init__(self, f: Callable[..., Any]) -> None:
        self.f = f

    def __del__(self) -> None:
        try:
            self.f(np.ones(3), 2.0)
        except Exception:
            gc.collect(0)

    def __float__(self) -> float:
        self.f(np.ones(3), 1.0)
        return 1.0

    def __hash__(self) -> int:
        raise RuntimeError("no hash")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no equality")


def draw_argument(
    rng: np.random.Generator, f: Callable[..., Any], depth: int = 0
) -> Any:
    """An argument of some kind, half of them nearly right."""
    choice = rng.integers(0, 26 if depth < 3 else 18)
    x = np.array([0.5, 1.5, -2.0])
    if choice < 3:
        return x
    if choice < 5:
        return 2.5
    if choice == 5:
        x.flags.writeable = False
        return x
    if choice == 6:
        return np.repeat(x, 2)[::2]
    if choice == 7:
        raw = np.zeros(25, np.uint8)[1:].view(float)
        raw[...] = x
        return raw
    if choice < 11:
        shape = SHAPES[rng.integers(len(SHAPES))]
        return np.zeros(shape, KINDS[rng.integers(len(KINDS))])
    if choice == 11:
        return x.view(Plain)
    if choice == 12:
        scalars: list[Any] = [
            np.float64(2.5),
            np.float32(2),
            np.int64(2),
            np.bool_(True),
            np.complex64(1j),
            np.longdouble(3),
            np.datetime64(0, "s"),
        ]
        return scalars[rng.integers(len(scalars))]
    if choice == 13:
        return [None, True, 2, 2**80, 1j, "abc", b"abc", float("nan"), -0.0, Number(2)][
            rng.integers(10)
        ]
    if choice == 14:
        return [
            ...,
            NotImplemented,
            np,
            type,
            print,
            slice(1),
            range(3),
            {1},
            object(),
        ][rng.integers(9)]
    if choice == 15:
        return (i for i in range(3))
    if choice == 16:
        return memoryview(x)
    if choice == 17:
        return np.ma.masked_array(x, [True, False, False])
    if choice == 18:
        return Answer(
            [x, "text", None, ValueError("no"), x.view(Plain)][rng.integers(5)]
        )
    if choice == 19:
        return Caller(f)
    if choice == 20:
        return wb.scalar("s")
    if choice == 21:
        return x[None].T[:, 0]
    parts = [draw_argument(rng, f, depth + 1) for _ in range(rng.integers(0, 4))]
    return [parts, tuple(parts), dict(enumerate(parts)), np.float64(1.0)][
        rng.integers(4)
    ]


def make_functions() -> list[tuple[Callable[..., Any], Callable[..., Any]]]:
    """Functions of an array of three and a number, and what they compute."""

    def truth(x: Any, a: Any) -> Any:
        return a * np.sum(x * x), x * a

    def tried(x: Any, a: Any) -> Any:
        return a * np.sum(x * x), x * a

    x, a = wb.vector("x", shape=3), wb.scalar("a")
    first = wb.function([x, a], tried(x, a), backend="compiled")
    second = wb.compile(tried)
    for f in (first, second):
        for number in (2.0, np.float64(2.0)):
            f(np.ones(3), number)
            assert f.wait(60)
            assert f.backend == "compiled"
    return [(first, truth), (second, truth)]


def call(f: Callable[..., Any], rng: np.random.Generator) -> tuple[list[Any], Any]:
    """Call with a random number of random arguments, some by name."""
    count = [2, 2, 2, 2, 2, 2, 0, 1, 3, 9][rng.integers(10)]
    args = [draw_argument(rng, f) for _ in range(count)]
    if rng.uniform() < 0.15:
        args = [np.array([0.5, 1.5, -2.0]), 2.5]
    names = ["x", "a", "b"][: rng.integers(0, 4)] if rng.uniform() < 0.1 else []
    named = {name: draw_argument(rng, f) for name in names}
    try:
        return args if not named else [], f(*args, **named)
    except Exception as error:
        return [], error


def is_plain(args: list[Any]) -> bool:
    return (
        len(args) == 2
        and type(args[0]) is np.ndarray
        and args[0].dtype.kind in "fiu"
        and args[0].shape == (3,)
        and type(args[1]) in (float, np.float64)
    )


def run_calls(count: int, seed: int) -> None:
    """Call with random arguments; what is right must come out right."""
    rng = np.random.default_rng(seed)
    functions = make_functions()
    right = 0
    for i in range(count):
        f, truth = functions[i % len(functions)]
        args, made = call(f, rng)
        if is_plain(args) and not isinstance(made, Exception):
            want = truth(*args)
            assert made[1].dtype == want[1].dtype or f is functions[0][0]
            np.testing.assert_allclose(made[0], want[0], rtol=1e-6)
            np.testing.assert_allclose(made[1], want[1], rtol=1e-6)
            right += 1
    assert right > count // 20, right
    print("done", right)


def run_long(count: int) -> None:
    """Call many times, right and wrong: no memory is left behind."""
    functions = make_functions()
    x, wide, wrong = np.ones(3), np.ones(6)[::2], np.ones(4)
    kept: list[Any] = [None] * 3

    def run(times: int) -> None:
        for i in range(times):
            for f, _ in functions:
                kept[i % 3] = f(x, 2.0)
                f(x, np.float64(2.0))
                if i % 10 == 0:
                    f(wide, 2.0)
                    f(x=x, a=2.0)
                if i % 100 == 0 and f is functions[0][0]:
                    for bad in ((wrong, 2.0), (x, None), (x,), (x, "a")):
                        try:
                            f(*bad)
                        except Exception:
                            pass

    run(1000)
    gc.collect()
    references = [sys.getrefcount(y) for y in (x, np.float64, x.dtype)]
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    run(2000)
    gc.collect()
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    run(count)
    gc.collect()
    after = [sys.getrefcount(y) for y in (x, np.float64, x.dtype)]
    larger = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - size
    assert np.allclose(references, after, atol=300), (references, after)
    assert grown < 300_000, grown
    assert larger < 20_000, larger  # KiB
    print("done", grown, larger)


def run_apart(text: str) -> None:
    made = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-W", "ignore", "-c", text],
        capture_output=True, text=True,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr[-3000:]
    assert made.stdout.startswith("done"), made.stdout


@pytest.mark.parametrize("count", [1000, pytest.param(10_000, marks=pytest.mark.long)])
def test_arguments_of_every_kind(count: int, rng: np.random.Generator) -> None:
    seed = int(rng.integers(2**31))
    run_apart(f"from {__name__} import run_calls; run_calls({count}, {seed})")


@pytest.mark.parametrize("count", [2000, pytest.param(100_000, marks=pytest.mark.long)])
def test_many_calls_leave_nothing_behind(count: int) -> None:
    run_apart(f"from {__name__} import run_long; run_long({count})")
