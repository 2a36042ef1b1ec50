"""Loops and choices as native code: against plain Python, and against NumPy."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.backends.compiled.programs import check_equal, check_program, trace
from workbench.backends.compiled.program import Program, Retreat
from workbench.backends.compiled.steps import ChoiceStep, HostStep, LoopStep
from workbench.errors import ConvergenceError


def list_steps(program: Program, kind: type) -> list[Any]:
    return [step for step in program.plan.steps if isinstance(step, kind)]


def check_native(f: Callable[..., Any], args: list[Any], ulps: float = 64) -> Program:
    """Compare with NumPy a program that must call it for nothing."""
    program = check_program(trace(f, args), args, ulps)
    assert program is not None
    hosts = [step.node.op.name for step in list_steps(program, HostStep)]
    assert not hosts
    return program


def run_cell(W: Any, b: Any, h: Any, X: Any) -> Any:
    rows = []
    for x in X:
        h = np.tanh(W @ h + b + x)
        rows.append(h)
    return np.array(rows)


def make_cell(rng: np.random.Generator, n: int = 5, steps: int = 12) -> list[Any]:
    scale = np.sqrt(n)
    return [rng.normal(size=(n, n)) / scale, rng.normal(size=n), rng.normal(size=n),
            rng.normal(size=(steps, n))]  # fmt: skip


def scan_cell(W: Any, b: Any, h: Any, X: Any) -> Any:
    return wb.scan(lambda x, h: np.tanh(W @ h + b + x), X, h)


def test_values_are_those_of_plain_python(rng: np.random.Generator) -> None:
    args = make_cell(rng)
    (made,) = check_native(scan_cell, args).run(args)
    check_equal(made, run_cell(*args), 64)


def test_both_sweeps_by_differences_along_the_imaginary_axis(
    rng: np.random.Generator,
) -> None:
    """The complex step of plain Python code is the independent truth."""
    args = make_cell(rng)
    loss = lambda *args: np.sum(scan_cell(*args) ** 2)  # noqa: E731
    places = (0, 1, 2, 3)
    program = check_native(wb.grad(loss, places), args)
    grads = program.run(args)
    for k in places:
        along = rng.normal(size=args[k].shape)
        moved = [a + 1e-30j * along if i == k else a for i, a in enumerate(args)]
        slope = np.sum(run_cell(*moved) ** 2).imag / 1e-30
        np.testing.assert_allclose(np.sum(grads[k] * along), slope, rtol=1e-11)


def times(n: int, x: Any) -> Any:
    return np.linspace(0.1, 1, n, dtype=x.dtype)


LOOPS: dict[str, Callable[..., Any]] = {
    "last": lambda x: wb.scan(lambda h: np.sin(h) * 2, initial=x, n_steps=9, last=True),
    "no step": lambda x: wb.scan(lambda h: h * 2, initial=x, n_steps=0, last=False),
    "reverse": lambda x: wb.scan(
        lambda a, h: h * 0.5 + np.cos(a * x), times(7, x), x, reverse=True
    ),
    "taps": lambda x: wb.scan(
        lambda a, b: a + np.sin(b), initial={"initial": x, "taps": [-2, -1]}, n_steps=11
    ),
    "swap": lambda x: wb.scan(
        lambda a, b: (b, a + 1), initial=[x, 2 * x], n_steps=5, last=True
    )[0],
    "one value for two": lambda x: wb.scan(
        lambda a, b: (a * b, a * b), initial=[x, x + 1], n_steps=4
    )[1],
    "sums": lambda x: wb.scan(
        lambda t, total: total + np.outer(x, x)[0] * t, times(5, x), 0 * x, last=True
    ),
    "kept states": lambda x: wb.scan(
        lambda t, h: np.tanh(h + t * x), times(20, x), x, memory=3, last=True
    ),
    "nested": lambda x: wb.scan(
        lambda t, h: wb.scan(lambda h: np.cos(h) * t, initial=h, n_steps=3, last=True),
        times(6, x), x,
    ),
    "branches": lambda x: wb.scan(
        lambda t, h: wb.cond(
            h[0] > t, lambda h: np.cos(h) * t, lambda h: np.exp(-h) + t, h
        ),
        times(9, x), x,
    ),
    "numbers": lambda x: wb.scan(
        lambda h: np.stack([h[1] - h[2], h[0] * h[2], -h[0] * h[1]]) * 0.1 + h,
        initial=x, n_steps=10, last=True,
    ),
    "while": lambda x: wb.while_loop(
        lambda h: np.sum(h * h) > 0.01, lambda h: h - 0.3 * np.sin(h), x
    ),
    "while, for no step": lambda x: wb.while_loop(
        lambda h: np.sum(h * h) < 0, lambda h: h * 2, x
    ),
    "while in a loop": lambda x: wb.scan(
        lambda t, h: wb.while_loop(
            lambda z: np.sum((z - t * h) ** 2) > 1e-6,
            lambda z: 0.5 * (z + t * h), 0 * h,
        ) + x,
        times(4, x), x, last=True,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LOOPS)
@pytest.mark.parametrize("dtype", ["f8", "f4"])
def test_loops_agree_with_numpy(
    name: str, dtype: str, rng: np.random.Generator
) -> None:
    check_native(LOOPS[name], [rng.uniform(0.5, 1, 3).astype(dtype)], 256)


@pytest.mark.parametrize("name", [x for x in LOOPS if x not in ("no step",)])
def test_gradients_of_loops_agree_with_numpy(
    name: str, rng: np.random.Generator
) -> None:
    loss = lambda x: np.sum(LOOPS[name](x) ** 2)  # noqa: E731
    args = [rng.uniform(0.5, 1, 3)]
    if name == "kept states":  # in pieces by NumPy
        check_program(trace(wb.grad(loss), args), args, 1024)
    else:
        check_native(wb.grad(loss), args, 1024)


def test_a_descent_inside_of_a_descent(rng: np.random.Generator) -> None:
    """Reverse mode through a loop whose steps hold the gradient of another."""
    A = rng.normal(size=(3, 3))
    A = A @ A.T + np.eye(3)

    def solve(y: Any) -> Any:
        return wb.while_loop(
            lambda z: np.sum((z - np.sin(y)) ** 2) > 1e-10,
            lambda z: z - 0.4 * (z - np.sin(y)),
            np.zeros_like(y),
        )

    def descend(b: Any) -> Any:
        slope = wb.grad(lambda y: np.sum((A @ solve(y) - b) ** 2))
        y = wb.scan(lambda y: y - 0.01 * slope(y), initial=0 * b, n_steps=5, last=True)
        return np.sum(y * y)

    args = [rng.normal(size=3)]
    for f in (descend, wb.grad(descend)):
        assert list_steps(check_native(f, args, 4096), LoopStep)


def test_second_derivatives_of_a_loop_of_unknown_length(
    rng: np.random.Generator,
) -> None:
    def root(a: Any) -> Any:
        return wb.while_loop(
            lambda x: np.abs(x * x - a) > 1e-12, lambda x: (x + a / x) / 2, 1.0
        )

    args = [np.array(rng.uniform(2, 9))]
    (second,) = check_native(wb.grad(wb.grad(root)), args, 4096).run(args)
    np.testing.assert_allclose(second, -0.25 * args[0] ** -1.5, rtol=1e-8)


def test_a_hessian_through_a_loop_of_unknown_length(rng: np.random.Generator) -> None:
    """Many examples at once: the loops back read the rows turned and repeated."""

    def solve(a: Any) -> Any:
        far = lambda x: np.max(np.abs(x * x - a)) > 1e-10  # noqa: E731
        root = wb.while_loop(far, lambda x: (x + a / x) / 2, np.ones_like(a))
        return np.sum(root) ** 2

    args = [rng.uniform(2, 9, size=3)]
    (made,) = check_native(wb.hessian(solve), args, 4096).run(args)
    (a,) = args
    exact = 0.5 / np.sqrt(np.outer(a, a))
    exact -= np.diag(np.sum(np.sqrt(a)) / (2 * a**1.5))
    np.testing.assert_allclose(made, exact, rtol=1e-7)


def test_numpy_reads_views_of_rows_of_unknown_number(rng: np.random.Generator) -> None:
    def grow(x: Any) -> Any:
        rows = wb.scan(
            lambda y: (y * 1.5, wb.until(np.sum(y) > 50)), initial=x, n_steps=100
        )
        return np.cumsum(np.transpose(rows), axis=1), np.transpose(rows), rows[-1]

    args = [rng.uniform(1, 2, size=2)]
    check_program(trace(grow, args), args, 64)


def test_rows_of_unknown_number_are_results(rng: np.random.Generator) -> None:
    """As many as steps were made; the memory they grew in is not theirs."""

    def grow(x: Any) -> Any:
        return wb.scan(
            lambda y: (y * 1.5, wb.until(np.sum(y) > 50)), initial=x, n_steps=100
        )

    args = [rng.uniform(1, 2, size=2)]
    program = check_native(grow, args)
    (few,) = program.run([np.array([20.0, 20.0])])
    kept = few.copy()
    (many,) = program.run([np.array([0.01, 0.01])])
    assert len(few) == 2
    assert len(many) > 10
    np.testing.assert_array_equal(few, kept)


def test_memory_that_grows_is_given_back(rng: np.random.Generator) -> None:
    def descend(x: Any) -> Any:
        small = lambda y: np.sum(y) > 1e-3  # noqa: E731
        return np.sum(wb.while_loop(small, lambda y: y - 0.01 * np.sin(y), x))

    args = [rng.uniform(1, 2, size=3)]
    program = check_native(wb.grad(descend), args, 4096)
    (growth,) = program._grown
    assert growth.states.any()
    assert growth.count_bytes() > 0
    program.release()
    assert not program._grown


def test_a_loop_that_does_not_end_says_so() -> None:
    @wb.compile
    def double(x: Any) -> Any:
        return wb.while_loop(lambda x: x < 1e9, lambda x: 2 * x, x, max_steps=5)

    assert double(5e8) == 1e9
    assert double.wait()
    assert double.backend == "compiled"
    assert double(5e8) == 1e9
    with pytest.raises(ConvergenceError, match="after max_steps=5 steps"):
        double(1.0)
    assert double.backend == "compiled"
    assert double(2e9) == 2e9


def test_numpy_runs_what_is_wrong_with_the_inputs() -> None:
    """More steps than a sequence has entries."""
    n, x = wb.scalar("n", dtype=int), wb.vector("x", shape=4)
    y = wb.scan(lambda a, total: total + a, x, 0.0, n_steps=n, last=True)
    f = wb.function([n, x], y, backend="compiled")
    values = np.arange(4.0)
    assert f(2, values) == 1.0
    assert f.wait()
    assert f(4, values) == 6.0
    assert f.backend == "compiled"
    with pytest.raises(wb.errors.ShapeError, match="5 steps"):
        f(5, values)
    program = f._compiled._last.program
    with pytest.raises(Retreat):
        program.run([np.int64(5), values])


@pytest.mark.parametrize("flag", [True, False])
def test_choices(flag: bool, rng: np.random.Generator) -> None:
    """One branch hands an operand on, and gives one value twice."""

    def choose(p: Any, x: Any) -> Any:
        return wb.cond(
            p, lambda x: (np.sin(x), x, x), lambda x: (x * x, 2 * x[::-1], x + 1), x
        )

    args = [np.array(flag), rng.normal(size=6)]
    program = check_native(choose, args)
    assert list_steps(program, ChoiceStep)
    check_native(
        wb.grad(lambda x, p: sum(np.sum(y**2) for y in choose(p, x))), args[::-1]
    )


def test_arguments_stay_as_they_are(rng: np.random.Generator) -> None:
    """First values are not written over, and results are not written again."""
    args = make_cell(rng)
    loss = lambda *args: np.sum(scan_cell(*args) ** 2)  # noqa: E731
    program = check_native(wb.grad(loss, (0, 1, 2, 3)), args)
    kept = [a.copy() for a in args]
    first = program.run(args)
    copies = [g.copy() for g in first]
    program.run([2 * a for a in args])
    for a, b in zip([*args, *first], [*kept, *copies], strict=True):
        np.testing.assert_array_equal(a, b)


ENDLESS = """
import os, signal, threading, time
import workbench as wb

@wb.compile
def count(a):
    return {loop}

count(0.5)
assert count.wait() and count.backend == "compiled"
threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    count(2.0)
except KeyboardInterrupt:
    assert count(0.5) == {small}
    print("interrupted")
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("loop", "small"),
    [
        ("wb.while_loop(lambda x: x < a, lambda x: x * 1.0, 1.0)", 1.0),
        ("wb.scan(lambda y: wb.while_loop(lambda x: x < a, lambda x: x * 1.0, y),"
         " initial=1.0, n_steps=3, last=True)", 1.0),
    ],
)  # fmt: skip
def test_an_endless_loop_is_interrupted(loop: str, small: float) -> None:
    code = ENDLESS.format(loop=loop, small=small)
    made = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120
    )
    assert made.stdout.strip() == "interrupted", made.stderr
