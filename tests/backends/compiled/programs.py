"""Programs as NumPy runs them and as kernels compute them, compared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import mpmath
import numpy as np

import workbench as wb
from workbench.backends.compiled.expansion import expand
from workbench.backends.compiled.machine import Machine
from workbench.backends.compiled.program import Program
from workbench.backends.numpy import compile
from workbench.core.graph import Graph
from workbench.core.trace import record
from workbench.core.types import spec_of


def compile_graph(
    graph: Graph, args: Sequence[Any], machine: Machine | None = None
) -> Program:
    return Program(expand(graph, [spec_of(a) for a in args]), machine)


@cache
def list_machines() -> list[Machine]:
    """This processor, with vectors of each width that it has.

    The narrowest has no fused multiply-add.
    """
    found = []
    for width in (16, 32, 64):
        machine = Machine()
        if width <= machine.width:
            machine.width = width
            machine.has_fma = machine.has_fma and width > 16
            found.append(machine)
    return found


def trace(f: Callable[..., Any], args: Sequence[Any], values: bool = False) -> Graph:
    """The program of a function of all these, traced on specs or on their values."""
    starts = args if values else [wb.Spec(a.shape, a.dtype) for a in args]
    return record(lambda leaves: f(*leaves), starts)


def largest(args: Sequence[Any]) -> Any:
    """The largest finite number of these arrays."""
    sizes = (np.max(np.abs(a[np.isfinite(a)]), initial=0) for a in args)
    return max(sizes, default=0)


def check_equal(got: Any, expected: Any, ulps: float = 4.0, scale: Any = 0) -> None:
    """The same shape and dtype, NaN and infinities, and digits to the natural scale.

    The natural scale is that of the result, or of what was added up to it.
    """
    got, expected = np.asarray(got), np.asarray(expected)
    assert got.shape == expected.shape
    assert got.dtype == expected.dtype
    if got.dtype.kind not in "fc":
        np.testing.assert_array_equal(got, expected)
        return
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(got[~finite], expected[~finite])
    scale = max(np.max(np.abs(expected[finite]), initial=0), scale)
    eps = np.finfo(got.dtype).eps
    bound = ulps * eps * np.maximum(np.abs(expected[finite]), scale)
    assert np.all(np.abs(got[finite] - expected[finite]) <= bound), np.max(
        np.abs(got[finite] - expected[finite]) / bound
    )


def check_program(
    graph: Graph, args: Sequence[Any], ulps: float = 4.0
) -> Program | None:
    """Run a program on both backends; the one that was compiled."""
    with np.errstate(all="ignore"):
        expected = compile(graph).run(args)
        program = compile_graph(graph, args)
        scale = largest(args)
        for _ in range(2):
            made = program.run(args)
            for got, want in zip(made, expected, strict=True):
                check_equal(got, want, ulps, scale)
    return program


def count_ulps(got: Any, truth: list[Any], dtype: Any) -> Any:
    """The distance to the truth, in the spacing of floats there."""
    limits = np.finfo(dtype)
    most = mpmath.mpf(float(limits.max))
    apart = []
    for y, t in zip(got.tolist(), truth, strict=True):
        if abs(t) > most:
            apart.append(0.0 if np.isinf(y) or abs(y) >= float(limits.max) else np.inf)
            continue
        near = np.asarray(float(t), dtype)
        if np.isinf(y):  # the truth rounds to infinity, or nearly
            y = np.sign(y) * float(limits.max)
        spacing = max(float(np.spacing(abs(near))), float(limits.smallest_subnormal))
        apart.append(float(abs(mpmath.mpf(y) - t) / spacing))
    return np.asarray(apart)
