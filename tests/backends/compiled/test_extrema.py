"""Gradients of extrema in loops whose two directions run on different engines.

The loop forward is native code and the loop back, which has ops that only NumPy has,
runs as NumPy: an entry that is computed again there may have another last bit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.backends.compiled.programs import trace
from workbench.backends.compiled.expansion import expand
from workbench.backends.compiled.program import Program
from workbench.backends.numpy import compile
from workbench.core.types import spec_of

EXTREMA = [np.max, np.min, np.nanmax, np.nanmin, np.ptp]
CURVES: list[Callable[[Any], Any]] = [
    np.tanh, np.sin, lambda x: np.exp(-x * x), lambda x: np.log1p(x * x),
]  # fmt: skip


def make_program(seed: int) -> tuple[Callable[..., Any], list[Any]]:
    """Return the gradient of a loop made from a seed, and its arguments."""
    r = np.random.default_rng(seed)
    n = int(r.integers(2, 40))
    index = r.integers(-n, n, size=n)
    largest = EXTREMA[r.integers(len(EXTREMA))]
    inner, outer = (CURVES[k] for k in r.integers(len(CURVES), size=2))
    backward = bool(r.integers(2))

    matrix = r.normal(size=(n, n)) / n

    def step(row: Any, x: Any) -> Any:
        entries = outer(inner(np.where(x > row, x, row * 0.5)) + row)
        x = np.tanh(x + row) * largest(entries)
        one = np.tanh(matrix @ x)[0]  # its cotangents are NumPy's alone
        return wb.at(x)[index].set(row * 0.5) + one * 0.1

    def total(rows: Any, x: Any) -> Any:
        return np.sum(wb.scan(step, rows, x, reverse=backward) ** 2)

    return wb.grad(total, (0, 1)), [r.normal(size=(8, n)), r.normal(size=n)]


@pytest.mark.parametrize("seed", range(20))
def test_compiled_gradient_of_extremum_in_loop(seed: int) -> None:
    """Repeat one with ``make_program(seed)``."""
    slope, args = make_program(seed)
    graph = trace(slope, args)
    made = Program(expand(graph, [spec_of(x) for x in args])).run(args)
    for mine, true in zip(made, compile(graph).run(args), strict=True):
        np.testing.assert_allclose(mine, true, rtol=1e-9, atol=1e-11)
