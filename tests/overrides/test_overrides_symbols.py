"""Textual rules where lengths are not known before the program runs."""

from __future__ import annotations

import numpy as np
import pytest

import workbench as wb

X = np.array([1.0, 4.0, 9.0])


@pytest.mark.parametrize(
    "rule",
    [
        "0.5 * d", "d - mean(d)", "clip(d, -1, 0.6)", "d / (1 + sum(d**2))",
        "d * max(d)", "d * std(d)", "d * prod(d)", "norm(d) * d",
        "d * norm(d, axis=0, keepdims=True)", wb.rules.clip_by_norm(0.5),
        wb.rules.normalise(), wb.rules.sanitise(), wb.rules.safe_sqrt(),
        lambda node, g: [0.5 * c for c in node.vjp(g)],
    ],
)  # fmt: skip
def test_a_rule_is_the_same_at_unknown_lengths(rule: object) -> None:
    given = [wb.override("sqrt", rule)]  # type: ignore[arg-type]
    v = wb.vector("v")
    f = wb.function([v], wb.grad(np.sum(2 * np.sqrt(v)), v, overrides=given))
    expected = wb.grad(lambda v: np.sum(2 * np.sqrt(v)), overrides=given)(X)
    np.testing.assert_allclose(f(X), expected, rtol=1e-12)
    if "norm" in str(rule):
        assert f(np.zeros(0)).shape == (0,)
