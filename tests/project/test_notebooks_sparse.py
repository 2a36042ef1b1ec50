"""The tutorials of sparse derivatives: what they promise is what comes out."""

from __future__ import annotations

import numpy as np
import pytest

from tests.project.executed import PLOTLY, Executed, execute, numbers, quiet


@pytest.fixture(scope="module")
def optimise() -> Executed:
    return execute("08-optimise")


def test_the_structure_is_that_of_a_chain(optimise: Executed) -> None:
    told = optimise.printed("J = p.jacobian")
    rows, columns, stored, all_of_them = numbers(told)[:4]
    assert (rows, columns) == (668, 999)
    assert all_of_them == rows * columns
    assert stored == 2 * 332 * 5 + 4  # each equation reads five unknowns, an end one
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
    assert len(optimise.data(PLOTLY)) == 1
    assert numbers(optimise.printed("still = ")) == [0, 30, -30]
    quiet(optimise)
