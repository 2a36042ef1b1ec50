"""Random programs and their gradients: kernels against NumPy, on one core and more."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any
from unittest import mock

import numpy as np
import pytest

import workbench as wb
from tests.autodiff.programs import Program, programs
from tests.autodiff.test_fuzz import close, fuzz, printed
from tests.backends.compiled.accuracy import check_accuracy
from tests.backends.compiled.mixed_programs import MixedProgram, mixed_programs
from tests.backends.compiled.programs import compile_graph, list_machines, trace
from workbench.backends.compiled import program as compiled
from workbench.backends.compiled import strips
from workbench.backends.numpy import compile
from workbench.core.graph import Graph
from workbench.core.types import spec_of
from workbench.errors import CompilerError, WorkbenchError


def run_compiled(graph: Graph, args: Sequence[Any], width: int = 0) -> Any:
    """The results on one, two and three cores, which are the same bit for bit.

    None if a dtype or length depends on values, so that NumPy runs the program.
    """
    machines = list_machines()
    # Small enough that a few entries are shared, cut into strips, reduced in pieces.
    with (
        mock.patch.multiple(compiled, LARGE=8, PIECE=4),
        mock.patch.multiple(strips, STRIP=8, LEAST_RUN=8, FEW_STRIPS=1),
    ):
        function = compile_graph(graph, args, machines[width % len(machines)])
    made: list[list[Any]] = []
    for count in ("1", "2", "3"):
        with mock.patch.dict(os.environ, WORKBENCH_THREADS=count):
            try:
                made.append([np.copy(y) for y in function.run(args)])
            except CompilerError:
                return None
    for other in made[1:]:
        for first, second in zip(made[0], other, strict=True):
            np.testing.assert_array_equal(first, second)
    return made[0]


@pytest.mark.long
@fuzz(programs(most=15))
def test_values_and_gradients(program: Program) -> None:
    with printed(program):
        f, args = program.function, list(program.inputs.values())
        run = wb.value_and_grad(f, tuple(range(len(args))))
        value, gs = run(*args)
        made = run_compiled(wb.simplify(wb.trace(run)(*args)), args)
        if made is None:
            return
        for got, truth in zip(made, (value, *gs), strict=True):
            size = float(np.max(np.abs(truth), initial=0))
            close(got, truth, size, 1e-10)


@fuzz(mixed_programs())
def test_programs_of_every_kind(program: MixedProgram) -> None:
    """Numbers of several kinds, infinite and NaN too; vectors of every width."""
    with printed(program):
        args = list(program.inputs.values())
        try:
            graph = trace(program.function, args)
        except WorkbenchError:
            return  # NumPy takes it for its values, or rounds
        expected = compile(graph).run(args)
        specs = [spec_of(y) for y in graph.outputs]
        if any(y.dtype != s.dtype for y, s in zip(expected, specs, strict=True)):
            return  # a power of a truth value: NumPy's kinds depend on how it is called
        made = run_compiled(graph, args, width=len(program.lines))
        if made is not None:
            check_accuracy(graph, args, made, expected)
