"""Random programs and their gradients: kernels against NumPy, on one core and more."""

from __future__ import annotations

import os
from typing import Any
from unittest import mock

import numpy as np

import workbench as wb
from tests.autodiff.programs import Program, programs
from tests.autodiff.test_fuzz import close, fuzz, printed
from tests.backends.compiled.programs import compile_graph
from workbench.backends.compiled import program as compiled
from workbench.errors import CompilerError


@fuzz(programs(most=15))
def test_values_and_gradients(program: Program) -> None:
    with printed(program):
        f, args = program.function, list(program.inputs.values())
        run = wb.value_and_grad(f, tuple(range(len(args))))
        value, gs = run(*args)
        graph = wb.simplify(wb.trace(run)(*args))
        # Small enough that a few entries are shared, and reduced in pieces.
        with mock.patch.multiple(compiled, LARGE=8, PIECE=4):
            function = compile_graph(graph, args)
        made: list[list[Any]] = []
        for count in ("1", "3"):
            with mock.patch.dict(os.environ, WORKBENCH_THREADS=count):
                try:
                    made.append([np.copy(y) for y in function.run(args)])
                except CompilerError:
                    return  # a dtype or length that depends on values
        for first, second, truth in zip(*made, (value, *gs), strict=True):
            np.testing.assert_array_equal(first, second)
            size = float(np.max(np.abs(truth), initial=0))
            close(first, truth, size, 1e-10)
