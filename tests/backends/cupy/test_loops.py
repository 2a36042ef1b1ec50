"""Loops on a GPU, launched step by step, run on the host and compared.

Lengths are odd.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.backends.compiled.accuracy import check_accuracy
from tests.backends.cupy.host import COMPILER
from tests.backends.cupy.standin import Standin
from tests.backends.cupy.test_captures import compile_program, run_program
from tests.backends.cupy.test_kernels import plan_program
from tests.chunks import mark_rest
from workbench.backends.compiled.steps import LoopStep, Plan
from workbench.backends.cupy.program import WARM
from workbench.core import tree

needs_compiler = pytest.mark.skipif(COMPILER is None, reason="g++ is not installed")
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


def list_loops(plan: Plan) -> list[LoopStep]:
    return [step for step in plan.steps if isinstance(step, LoopStep)]


@needs_compiler
@pytest.mark.parametrize("name", mark_rest(PROGRAMS, "loops"))
def test_programs(name: str, rng: np.random.Generator) -> None:
    plan, args, want = plan_case(name, rng)
    assert list_loops(plan)
    f, _ = PROGRAMS[name]
    device = Standin()
    program = compile_program(lambda *a: tree.flatten(f(*a))[0], tuple(args), device)
    results = []
    for _ in range(WARM + 2):  # by itself, and as a CUDA graph
        got = run_program(program, tuple(args), device)
        check_accuracy(plan.graph, args, got, want)
        results.append([y.tobytes() for y in got])
    assert all(one == results[0] for one in results)


def test_the_listing_shows_how_a_loop_runs(rng: np.random.Generator) -> None:
    x, A = rng.normal(size=(9, 3)), rng.normal(size=(3, 3))
    listing = wb.plan_kernels(wb.trace(recur)(x, A))
    (loop,) = [step for step in listing if step.name == "loop 1"]
    assert not loop.launches
    assert "launched step by step" in str(loop)
