"""Random programs: compressed derivatives equal dense ones, in every mode.

A failing program is printed as code that runs. `WORKBENCH_FUZZ=5000 pytest` of this
file tries more of them, others each time.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.autodiff.programs import Program, programs
from tests.autodiff.test_fuzz import MANY, printed, try_programs
from workbench.autodiff.sparse.colouring import GENERAL

NUMBERS = [MANY] if MANY else [15, pytest.param(400, marks=pytest.mark.long)]


def flatten(program: Program) -> Any:
    """The function of one vector, with all that the program computes last."""

    def whole(x: Any) -> Any:
        values, start = [], 0
        for old in program.inputs.values():
            values.append(x[start : start + old.size].reshape(old.shape))
            start += old.size
        return np.concatenate([np.ravel(y) for y in program.outputs(*values)])

    return whole


def check_equal(found: Any, expected: Any) -> None:
    """What is compressed is a sum of fewer terms, in another order, and no more."""
    finite = np.isfinite(expected)
    size = np.abs(expected[finite]).max(initial=1)
    np.testing.assert_allclose(
        found.toarray()[finite], expected[finite], rtol=1e-9, atol=1e-11 * size
    )


@pytest.mark.long
@pytest.mark.parametrize("number", NUMBERS)
def test_jacobians_in_all_modes(number: int) -> None:
    def check(program: Program) -> None:
        with printed(program):
            f = flatten(program)
            x = np.concatenate([np.ravel(v) for v in program.inputs.values()])
            expected = wb.jacobian(f)(x)
            for mode in ("auto", *GENERAL):
                check_equal(wb.jacobian(f, sparse=True, colouring=mode)(x), expected)

    try_programs(programs(12), number, check)


@pytest.mark.long
@pytest.mark.parametrize("number", NUMBERS)
def test_hessians_by_star_colourings(number: int) -> None:
    def check(program: Program) -> None:
        with printed(program):
            outputs = flatten(program)
            x = np.concatenate([np.ravel(v) for v in program.inputs.values()])
            f = lambda x: np.sum(np.sin(outputs(x)))  # noqa: E731
            expected = wb.hessian(f)(x)
            if np.allclose(expected, expected.T, rtol=1e-9):  # else at a kink
                for mode in ("auto", "star"):
                    check_equal(wb.hessian(f, sparse=True, colouring=mode)(x), expected)

    try_programs(programs(12), number, check)
