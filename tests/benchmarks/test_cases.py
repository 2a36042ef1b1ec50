"""Every case at a tiny size: all of ours agree with what is written by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.benchmarks import harness, simplify, sparse, sparse_programs
from tests.benchmarks.__main__ import STUDIES, list_cases
from tests.benchmarks.harness import Case, compare_answers, flatten_answer
from tests.benchmarks.peers import NUMPY, OURS, Names, Problem

pytestmark = pytest.mark.long

CASES = list(list_cases())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_ours_agree_with_what_is_written_by_hand(case: Case) -> None:
    problem = case.make(True)
    peers, errors = harness.prepare(case, problem, names=())
    assert errors == {}
    assert set(OURS) <= set(peers)
    anchors = [name for name in peers if name not in OURS and peers[name].answers]
    if anchors:
        expected = peers[anchors[0]].objective()
    else:  # none is written, or there is no compiler
        expected = problem.objective(NUMPY, *problem.arrays)
        answer = flatten_answer(peers[OURS[0]].derivative())
        assert compare_answers(answer, differentiate(problem)) < case.tolerance
    for name in OURS:
        value = np.asarray(peers[name].objective())
        np.testing.assert_allclose(value, expected, rtol=10 * case.tolerance)


def differentiate(problem: Problem) -> list[Any]:
    """Return a gradient by the complex step, entry by entry; a Jacobian by columns."""
    seeds = problem.seeds
    if seeds is not None:
        (x,) = problem.arrays
        pushed = [problem.objective(NUMPY, x + 1e-30j * seed) for seed in seeds]
        return [np.imag(pushed) / 1e-30]
    made = []
    for place in problem.wrt:
        arrays = [np.asarray(x) for x in problem.arrays]
        slope = np.empty(arrays[place].shape)
        for index in np.ndindex(slope.shape):
            shifted = list(arrays)
            shifted[place] = arrays[place].astype(complex)
            shifted[place][index] += 1e-30j
            slope[index] = problem.objective(NUMPY, *shifted).imag / 1e-30
        made.append(slope)
    return made


def test_names_are_unlike() -> None:
    names = [case.name for case in CASES] + list(STUDIES)
    assert len(set(names)) == len(names)


@pytest.mark.long
def test_what_rewrites_save_is_counted(capsys: pytest.CaptureFixture[str]) -> None:
    row = simplify.measure_saving(simplify.make_product_of_matrices(True))
    assert row["nodes"][1] < row["nodes"][0]
    assert row["operations"] < 1  # vectors are multiplied first


@pytest.mark.long
@pytest.mark.parametrize("program", sparse_programs.PROGRAMS, ids=lambda one: one.name)
def test_a_pattern_by_hand_is_that_of_its_program(
    program: sparse_programs.Program,
) -> None:
    task = sparse.Task(program, 48 if program.name != "stencil" else 49)
    names = Names(np, constant=np.asarray, index=np.asarray)
    step, dense = 1e-30j, task.pattern.toarray()
    if program.is_hessian:
        import workbench as wb

        found = wb.hessian(lambda x: task.f(names, x))(task.x)
    else:
        pushed = [task.f(names, task.x + step * e).imag for e in np.eye(len(task.x))]
        found = np.transpose(pushed) / 1e-30
    np.testing.assert_array_equal(dense != 0, found != 0)
    rows = {r.peer: r for r in sparse.measure(task, ("C", "workbench"), rounds=1)}
    assert rows["workbench"].error == ""
    assert rows["workbench"].nnz == task.pattern.nnz
    # Not every machine has a compiler.
    assert rows["C"].error == "" or rows["C"].error.startswith("not installed")
