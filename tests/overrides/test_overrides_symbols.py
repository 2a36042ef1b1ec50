"""Textual rules where lengths are not known before the program runs."""

from __future__ import annotations

from typing import Any

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


@pytest.mark.parametrize(
    "rule",
    ["2 * d", lambda node, g: 2 * node.vjp(g)[0], lambda node, g: rows(node, g)],
    ids=["expression", "function", "function of lengths"],
)
@pytest.mark.parametrize("inside", [False, True], ids=["outside", "in a loop"])
def test_rules_hold_where_lengths_are_unknown_in_both_modes(
    rule: Any, inside: bool
) -> None:
    x = wb.vector("x")
    y = np.tanh(x)
    if inside:
        y = wb.scan(np.tanh, initial=x, n_steps=1, last=True)
    given = [wb.override("tanh", rule)]
    at = np.array([0.4, -0.9, 0.2])
    truth = 2 * (1 - np.tanh(at) ** 2)
    moved = wb.jvp(y, x, np.ones_like(x), overrides=given)[1]
    np.testing.assert_allclose(moved.eval({x: at}), truth, rtol=1e-12)
    back = wb.grad(np.sum(y), x, overrides=given)
    np.testing.assert_allclose(back.eval({x: at}), truth, rtol=1e-12)


def rows(node: Any, g: Any) -> Any:
    """A rule that counts up to a length, which only the run knows."""
    parts = [2 * node.vjp(g)[0][i : i + 1] for i in range(len(g))]
    return np.concatenate(parts)


def test_a_true_rule_that_waits_for_a_length_is_asked_when_it_is_known() -> None:
    x = wb.vector("x")
    at = np.array([0.4, -0.9, 0.2])
    plain = wb.grad(np.sum(np.cumprod(x)), x).eval({x: at})
    given = [wb.override("cumprod", "2 * d")]
    found = wb.grad(np.sum(np.cumprod(x)), x, overrides=given)
    np.testing.assert_allclose(found.eval({x: at}), 2 * plain, rtol=1e-12)

    def step(h: Any) -> Any:
        return np.cumprod(h)

    looped = np.sum(wb.scan(step, initial=x, n_steps=1, last=True))
    found = wb.grad(looped, x, overrides=given)
    np.testing.assert_allclose(found.eval({x: at}), 2 * plain, rtol=1e-12)


def test_an_error_of_a_rule_is_not_kept_for_later() -> None:
    x = wb.vector("x")

    def rule(node: Any, g: Any) -> Any:
        raise TypeError("my own mistake")

    looped = np.sum(wb.scan(np.tanh, initial=x, n_steps=2, last=True))
    with pytest.raises(TypeError, match="my own mistake"):
        wb.grad(looped, x, overrides=[wb.override("tanh", rule)])
