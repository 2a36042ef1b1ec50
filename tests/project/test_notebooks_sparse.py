"""The tutorials of sparse derivatives: what they promise is what comes out."""

from __future__ import annotations

import numpy as np
import pytest

from tests.project.executed import PLOTLY, Executed, Tutorial, numbers, quiet

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def optimise(tutorial: Tutorial) -> Executed:
    return tutorial("08-optimise")


def test_the_structure_is_that_of_a_chain(optimise: Executed) -> None:
    told = optimise.printed("J = p.jacobian")
    rows, columns, stored, all_of_them = numbers(told)[:4]
    assert (rows, columns) == (668, 999)
    assert all_of_them == rows * columns
    assert stored == 2 * 332 * 5 + 4  # four and six in two equations; an end reads one
    assert "6 colours" in told
    assert "as differences say: True" in optimise.printed("rng = ")


def test_the_pendulum_is_swung_up(optimise: Executed) -> None:
    effort, off = numbers(optimise.printed("found = "))
    assert effort == pytest.approx(3.499, abs=0.01)
    assert off < 1e-6
    arrived, upright = numbers(optimise.printed("from scipy.integrate"))
    assert arrived == pytest.approx(upright, abs=0.01)
    assert upright == pytest.approx(np.pi, abs=1e-3)


def test_a_limit_is_kept_and_costs_effort(optimise: Executed) -> None:
    effort, largest = numbers(optimise.printed("limit = "))
    assert effort > 3.51
    assert largest <= 1.25
    assert len(optimise.data(PLOTLY)) == 2  # the structure, the path
    assert numbers(optimise.printed("still = ")) == [0, 30, -30]
    quiet(optimise)


# Sparse derivatives


@pytest.fixture(scope="module")
def sparse(tutorial: Tutorial) -> Executed:
    return tutorial("07-sparse")


def test_the_pattern_of_a_wave(sparse: Executed) -> None:
    told = sparse.printed("def kdv")
    assert numbers(told)[2] == 5 * 30
    assert "exactly which entries" in told
    assert "5 colours" in sparse.printed("colouring = ")
    told = sparse.printed("J = wb.jacobian")
    assert "as the dense one: True" in told
    assert "500000 stored, 5 colours" in told


def test_a_hessian_needs_two_products(sparse: Executed) -> None:
    told = sparse.printed("def energy")
    assert numbers(told)[0] == 3 * 1000 - 2
    assert "2 colours" in told


def test_an_arrow_takes_rows_and_columns(sparse: Executed) -> None:
    by_columns, by_rows, by_both = sparse.printed("def arrow").splitlines()[:3]
    assert "30 colours" in by_columns
    assert "30 colours" in by_rows
    assert "3 colours" in by_both


def test_the_stiff_equation(sparse: Executed) -> None:
    told = sparse.printed("n = 400")
    assert "successfully" in told
    assert "the same end: True" in told
    told = sparse.printed('print("entries stored')
    assert numbers(told)[0] == 3 * 400 - 2
    assert "more often: True" in told
    # the wave, the energy, the arrow, the alloy
    assert len(sparse.data(PLOTLY)) == 4


def test_the_lowest_tone(sparse: Executed) -> None:
    told = sparse.printed("from workbench.scipy")
    found, truth = numbers(told)[:2]
    assert found == pytest.approx(truth, abs=1e-6)
    assert "most: True" in told
    quiet(sparse)
