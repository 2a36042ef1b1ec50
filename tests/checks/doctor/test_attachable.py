"""The rules that the doctor says to attach give finite gradients, and the true ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.checks.doctor import explanation

A = np.array([0.0, 1.0, 4.0])
#: A program, where it is sick, and its gradient: the limit where there is one (an odd
#: slope beside a kink has the mean 0), NaN where none is known.
SICK: list[tuple[Callable[..., Any], Any, Any]] = [
    (lambda x: np.sum(np.sqrt(x)), A, [np.nan, 0.5, 0.25]),
    (lambda x: np.sum(np.sqrt(x**2)), A, [0, 1, 1]),
    (lambda x: np.sum((x**2) ** 0.5), A, [0, 1, 1]),
    (lambda x: np.sum(np.cbrt(x)), A, [np.nan, 1 / 3, 4 ** (-2 / 3) / 3]),
    (lambda x: np.sqrt(x[0] ** 2) + np.sum(x**2), A, [0, 2, 8]),
    (lambda x: np.sqrt(np.sum((x - A) ** 2)) + np.sum(x**2), A, [0, 2, 8]),
    (lambda x: np.sum(np.arctan2(x, x[::-1] * 0)), A, [0, 0, 0]),
    (lambda x: np.sum(np.arccos(x)), np.array([1.0, 0.5]), [np.nan, -(0.75**-0.5)]),
    (lambda x: np.sum(np.arccosh(x)), np.array([1.0, 2.0]), [np.nan, 3**-0.5]),
    (lambda x: np.std(x - A) + np.sum(x), A, [1, 1, 1]),
]


@pytest.mark.parametrize("case", range(len(SICK)))
def test_a_rule_that_is_attached_gives_the_true_gradient(case: int) -> None:
    f, x, expected = SICK[case]
    with np.errstate(all="ignore"):
        session = wb.Session(wb.trace(f)(x), name="sick")
        for finding in session.diagnose():
            if finding.fix is not None and finding.fix.rule is not None:
                exec(finding.fix.code, {"sick": session})
        (g,) = (
            session.grads.values() if len(session.grads) == 1 else [session.grads["x"]]
        )
    known = np.isfinite(expected)
    assert np.isfinite(g).all()
    np.testing.assert_allclose(g[known], np.asarray(expected)[known], atol=1e-12)


def test_a_rule_that_gives_another_gradient_is_not_offered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The sum of distances of which one is 0: 0 for all of it is not the gradient."""

    B = np.array([0.0, 1.0, 0.5])

    class Cdist(wb.Op):
        def compute(self, x: Any) -> Any:
            return abs(x[:, None] - B)

        def vjp(self, node: Any, g: Any) -> Any:
            (x,), (z,) = node.inputs, node.outputs
            return np.sum(g * (x[:, None] - B) / z, axis=1)

    f, x = lambda x: np.sum(Cdist()(x)), np.array([1.0, 2.0])
    with np.errstate(all="ignore"):
        (found,) = wb.diagnose(f, x)
        assert found.fix is not None
        assert found.fix.rule == "sanitise_entries"
        monkeypatch.setattr(
            explanation, "ENTRIES", ["where(isfinite(d), d, 0)", "0 * g"]
        )
        (found,) = wb.diagnose(f, x)
    assert found.fix is None


def test_where_no_rule_has_the_true_gradient_none_is_offered() -> None:
    """The root of a cube has the slope 1 at 0, and no rule for the root knows it."""
    with np.errstate(all="ignore"):
        (found,) = wb.diagnose(lambda x: np.sum(np.cbrt(x**3)), A)
    assert (found.kind, found.fix) == ("infinite-slope", None)


def test_a_rule_beside_overrides_in_force_is_tried_for_finite_numbers() -> None:
    f = lambda x: np.sum(np.sqrt(x) + np.tanh(x))  # noqa: E731
    with wb.overrides(wb.override("tanh", "0.5 * d")), np.errstate(all="ignore"):
        (found,) = wb.diagnose(f, A)
    assert found.fix is not None
    assert found.fix.rule == "safe_sqrt"


def test_a_form_that_is_offered_for_a_slope_has_a_finite_one() -> None:
    with np.errstate(all="ignore"):
        found = wb.diagnose(lambda x: np.sqrt(np.sum(x**2)), np.zeros(3))
    (one,) = found
    assert one.fix is not None
    assert "or write np.linalg.norm(x)" in one.fix.text
    assert np.isfinite(wb.grad(lambda x: np.linalg.norm(x))(np.zeros(3))).all()
