"""Random programs: reverse against forward against differences, batches, backends.

A failing program is printed as code that runs. `WORKBENCH_FUZZ=5000 pytest
tests/autodiff/test_fuzz.py` tries more of them, others each time.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import workbench as wb
from tests.autodiff.programs import Program, programs, weights
from workbench.backends.numpy import compile

MANY = int(os.environ.get("WORKBENCH_FUZZ", "0"))
NUMBERS = [MANY] if MANY else [80, pytest.param(400, marks=pytest.mark.long)]


def fuzz(drawn: Any) -> Callable[[Callable[[Program], None]], Callable[[int], None]]:
    """Turn a check of one program into a test of so many."""

    def decorate(check: Callable[[Program], None]) -> Callable[[int], None]:
        @pytest.mark.parametrize("number", NUMBERS)
        def run_check(number: int) -> None:
            try_programs(drawn, number, check)

        return run_check

    return decorate


def try_programs(drawn: Any, number: int, check: Callable[[Program], None]) -> None:
    """Check so many programs: always the same, or others each time."""
    many = settings(
        max_examples=number,
        derandomize=not MANY,
        database=None,
        deadline=None,
        print_blob=False,
        suppress_health_check=list(HealthCheck),
    )
    many(given(drawn)(check))()


@contextmanager
def printed(program: Program) -> Iterator[None]:
    """Say which program fails, as code; NumPy's own warnings do not count."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            yield
        except Exception as error:
            error.add_note(f"\nThe program:\n\n{program.code}")
            raise


def close(found: Any, truth: Any, scale: float, tolerance: float) -> None:
    np.testing.assert_allclose(found, truth, rtol=0, atol=tolerance * (1 + scale))


def moves(args: list[Any]) -> list[Any]:
    return [weights((i + 2, *a.shape))[-1] for i, a in enumerate(args)]


def dotted(gs: Any, ts: Any) -> tuple[float, float]:
    """The sum of the products, and of their magnitudes."""
    parts = [np.sum(g * t) for g, t in zip(gs, ts, strict=True)]
    sizes = [np.sum(np.abs(g * t)) for g, t in zip(gs, ts, strict=True)]
    return float(sum(parts)), float(sum(sizes))


def slope(f: Callable[..., Any], args: list[Any], ts: list[Any], h: float) -> float:
    def along(s: float) -> float:
        return float(f(*[a + s * h * t for a, t in zip(args, ts, strict=True)]))

    return (8 * (along(1) - along(-1)) - (along(2) - along(-2))) / (12 * h)


@fuzz(programs())
def test_derivatives(program: Program) -> None:
    with printed(program):
        f, args = program.function, list(program.inputs.values())
        ts = moves(args)
        everything = tuple(range(len(args)))
        value, gs = wb.value_and_grad(f, everything)(*args)
        np.testing.assert_allclose(value, f(*args), rtol=1e-12, atol=1e-12)
        assert [(g.shape, g.dtype) for g in gs] == [(a.shape, a.dtype) for a in args]
        _, tangent = wb.jvp(f, tuple(args), tuple(ts))
        total, size = dotted(gs, ts)
        close(tangent, total, size, 1e-9)
        fine, coarse = (slope(f, args, ts, h) for h in (1e-4, 3e-4))
        if abs(fine - coarse) <= 1e-7 * (1 + size):  # no kink between the steps
            close(total, fine, size, 1e-6)


@fuzz(programs(most=15))
def test_second_derivatives(program: Program) -> None:
    with printed(program):
        f, args = program.function, list(program.inputs.values())
        ts, us = moves(args), moves(args)
        us = [np.cos(3 * u + 1) for u in us]
        everything = tuple(range(len(args)))
        gradient = wb.grad(f, everything)

        def along(*args: Any) -> Any:
            return wb.jvp(f, args, tuple(ts))[1]

        def paired(*args: Any) -> Any:
            return sum(np.sum(g * t) for g, t in zip(gradient(*args), ts, strict=True))

        _, forward = wb.jvp(gradient, tuple(args), tuple(ts))
        ways = [forward, wb.grad(along, everything)(*args),
                wb.grad(paired, everything)(*args)]  # fmt: skip
        size = max(dotted(way, us)[1] for way in ways)
        for way in ways:
            for found, truth in zip(way, forward, strict=True):
                close(found, truth, size, 1e-8)
        _, other = wb.jvp(gradient, tuple(args), tuple(us))
        close(dotted(forward, us)[0], dotted(other, ts)[0], size, 1e-8)  # symmetric


@fuzz(programs(most=15))
def test_batches(program: Program) -> None:
    with printed(program):
        f, args = program.function, list(program.inputs.values())
        rows = [[a * (1 - 0.25 * k) + 0.1 * k for a in args] for k in range(3)]
        everything = tuple(range(len(args)))
        run = wb.value_and_grad(f, everything)
        try:
            truths = [run(*row) for row in rows]
        except np.linalg.LinAlgError:
            return  # this program's matrix is definite for the values drawn
        stacked = [np.stack(column) for column in zip(*rows, strict=True)]
        values, gs = wb.vmap(run)(*stacked)
        for k, (value, gradients) in enumerate(truths):
            close(values[k], value, abs(float(value)), 1e-10)
            for found, truth in zip(gs, gradients, strict=True):
                size = float(np.max(np.abs(truth), initial=0))
                if np.isfinite(size):
                    close(found[k], truth, size, 1e-8)


@fuzz(programs(most=15))
def test_the_backend(program: Program) -> None:
    """The gradient's graph, traced on shapes alone where it can be, and its text."""
    with printed(program):
        f, args = program.function, list(program.inputs.values())
        run = wb.value_and_grad(f, tuple(range(len(args))))
        value, gs = run(*args)
        function = compile(wb.trace(run)(*args))
        made = function(*args)
        scope = dict(function.constants)
        exec(function.source, scope)
        for found in (made, scope["function"](*args)):
            for got, truth in zip(found, (value, *gs), strict=True):
                size = float(np.max(np.abs(truth), initial=0))
                close(got, truth, size, 1e-10)
