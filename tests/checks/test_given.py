"""Gradients that somebody has: many share the work, the wrong one is named."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.checks.gradient_check import compare_gradients
from workbench.errors import UsageError


def many(rng: np.random.Generator, count: int) -> tuple[Any, list[Any], list[Any]]:
    """The sum of the squares of many matrices, and its gradient."""
    values = list(rng.standard_normal((count, 5, 7)))
    gradients = [2 * x for x in values]
    return lambda *xs: sum(np.sum(x * x) for x in xs), values, gradients


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("fault", ["one entry", "factor", "lost", "two cancel"])
def test_G5_of_many_arguments_the_wrong_one_is_named(
    fault: str, known: bool, rng: np.random.Generator
) -> None:
    f, values, gradients = many(rng, 60)
    names = [f"W{i}" for i in range(60)]
    found = compare_gradients(
        f, values, gradients, names=names, most=4, known=known, seed=1
    )
    assert found.ok
    assert sum(len(c.entries) for c in found.comparisons) == 4
    which = int(rng.integers(60))
    wrong = gradients[which] = gradients[which].copy()
    match fault:
        case "one entry":
            wrong[2, 3] += 0.01
        case "factor":
            wrong *= 1.001
        case "lost":
            wrong *= 0
        case "two cancel":
            wrong[0, 0], wrong[0, 1] = wrong[0, 0] + 1, wrong[0, 1] - 1
    found = compare_gradients(
        f, values, gradients, names=names, most=4, known=known, seed=1
    )
    assert not found.ok
    bad = [identity.name for identity in found.identities if not identity.holds]
    assert bad == [f"the gradient by W{which}, all entries along a direction"]


def test_G5_a_session_of_many_inputs_runs_a_bounded_number_of_times() -> None:
    """As often for 300 inputs as for 30, and what is left is told."""
    runs = []
    told: list[tuple[int, int]] = []
    for count in (30, 300):
        calls = []

        class Seen(wb.Op):
            """The sine, which counts."""

            def compute(self, x: Any, calls: list[int] = calls) -> Any:
                calls.append(1)
                return np.sin(x)

            def vjp(self, node: Any, g: Any) -> Any:
                return (g * np.cos(node.inputs[0]),)

        seen = Seen()

        def f(x: Any, Ws: Any, seen: Any = seen) -> Any:
            for W in Ws:
                x = np.tanh(x @ W)
            return np.sum(seen(x))

        Ws = [np.eye(8) * 0.9 for _ in range(count)]
        session = wb.Session(wb.trace(f)(np.ones((20, 8)), Ws))
        calls.clear()
        told.clear()
        assert session.check(nodes=False, progress=lambda *a: told.append(a)).ok
        runs.append(len(calls))
        assert len({total for _, total in told}) == 1
        # Once for each piece, and again during one that is long.
        assert [*dict.fromkeys(done for done, _ in told)] == list(range(told[0][1]))
    assert runs[1] <= runs[0] < 1000


def test_a_setting_that_a_check_does_not_have_is_said() -> None:
    session = wb.Session(wb.trace(lambda x: np.sum(np.sin(x)))(np.ones(3)))
    for bad in ({"entrys": 3}, {"entries": 0}, {"order": 0}):
        with pytest.raises(UsageError, match="Its settings are entries and order"):
            session.check(**bad)
    assert session.report is None
    assert session.check(entries=2).ok
