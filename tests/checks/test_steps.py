"""The sweep over steps against what theory says of each way; kinks near and far."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.checks.differences import slope
from workbench.checks.progress import CheckStopped, ProgressMeter
from workbench.checks.step_sweep import METHODS, sweep_node, sweep_steps
from workbench.errors import UsageError


def test_G5_errors_fall_with_the_powers_that_theory_gives() -> None:
    found = sweep_steps(lambda t: np.array([np.exp(0.3 + t)]))
    assert found.value == pytest.approx(np.exp(0.3), rel=1e-15)
    large = slice(2, 7)
    for way, power in METHODS.items():
        rate = np.polyfit(
            np.log(found.steps[large]), np.log(found.errors[way][large]), 1
        )
        assert rate[0] == pytest.approx(power, abs=0.25), way


def test_G5_rounding_makes_a_v_of_all_but_the_complex_step() -> None:
    found = sweep_steps(lambda t: np.array([np.exp(0.3 + t)]))
    eps = np.finfo(float).eps
    # Forward differences are best at sqrt(eps), central ones at its cube root.
    assert 0.02 < found.best("forward")[0] / eps**0.5 < 50
    assert 0.02 < found.best("central")[0] / eps ** (1 / 3) < 50
    for way in ("forward", "central", "extrapolated"):
        assert found.errors[way][-2] > 1e3 * found.best(way)[1]
    assert found.errors["complex step"][-1] < 4 * eps
    assert found.chosen[0] == found.method == "complex step"


def test_what_is_not_analytic_has_no_complex_step() -> None:
    found = sweep_steps(lambda t: np.array([abs(1 + t) ** 3]))
    assert "complex step" not in found.errors
    assert found.chosen[0] == "extrapolated"
    assert found.value == pytest.approx(3, rel=1e-10)


def test_the_steps_of_a_node(rng: np.random.Generator) -> None:
    nodes = wb.trace(lambda x, z: np.sum(np.tanh(x) * np.abs(z)))(
        rng.standard_normal(5), rng.standard_normal(5) * 1e6
    ).nodes
    by_name: dict[str, Any] = {node.op.name: node for node in nodes}
    assert sweep_node(by_name["tanh"]).method == "complex step"
    assert sweep_node(by_name["absolute"]).method == "differences"
    assert sweep_node(by_name["absolute"]).errors["central"][5] < 1e-10
    with pytest.raises(UsageError, match="not computed from arrays"):
        sweep_node(nodes[0])
    whole = wb.trace(lambda x: x * (x > 0))(np.ones(2)).nodes
    with pytest.raises(UsageError, match="no float input and output"):
        sweep_node(next(n for n in whole if n.op.name == "greater"))


@pytest.mark.parametrize("off", [1e-3, 1e-5, 1e-7, 1e-9])
def test_G5_a_kink_within_the_steps_is_none_at_the_point(off: float) -> None:
    found = slope(lambda t: np.array([abs(t - off), abs(t)]), analytic=False)
    np.testing.assert_array_equal(found.kink, [False, True])
    assert found.value[0] == pytest.approx(-1, abs=1e-4)
    assert abs(found.value[0] + 1) <= 4 * found.error[0] + 1e-12


def test_progress_is_counted_and_what_is_left_told() -> None:
    seen = []
    with ProgressMeter(lambda done, total: seen.append((done, total)), 3) as meter:
        assert meter.seconds_left is None
        for _ in range(3):
            meter.step()
    assert seen == [(0, 3), (1, 3), (2, 3)]
    assert meter.seconds_left == 0
    assert meter.format_line() == "checked 3 of 3, 0 s left"
    assert not meter.stopped


def test_a_slow_check_says_so_and_wipes_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from workbench.checks import progress as module

    monkeypatch.setattr(module, "_is_notebook", lambda: True)
    monkeypatch.setattr(module, "FIRST", 0.0)
    monkeypatch.setattr(module, "AGAIN", 0.0)
    with ProgressMeter(None, 4) as meter:
        for _ in range(3):
            meter.step()
    shown, errors = capsys.readouterr()
    assert not errors
    assert "checked 2 of 4" in shown
    assert shown.endswith("\r")
    assert not shown.rpartition("left")[2].strip()


def test_other_errors_go_through() -> None:
    with pytest.raises(ZeroDivisionError), ProgressMeter(None, 1):
        raise ZeroDivisionError
    with ProgressMeter(None, 1) as meter:
        raise CheckStopped
    assert meter.stopped
