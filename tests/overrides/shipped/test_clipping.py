"""The shipped texts: what they say, their labels, what they refuse; and their docs."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.errors import ExpressionError, OverrideError
from workbench.overrides.named import RULES
from workbench.overrides.rule_parser import BoundRule, parse_rule

R = wb.rules

#: Calls, the texts that they give, and their labels.
TEXTS: list[tuple[str, str, str]] = [
    (R.clip(0.1), "clip(d, -0.1, 0.1)", "clip ±0.1"),
    (R.clip(np.float32(0.5)), "clip(d, -0.5, 0.5)", "clip ±0.5"),
    (R.clip(0, 2), "clip(d, 0, 2)", "clip 0 … 2"),
    (R.clip_by_norm(1), "d * (1 / maximum(1, norm(d)))", "norm ≤ 1"),
    (R.clip_by_norm(0.5, axis=-1),
     "d * (0.5 / maximum(0.5, norm(d, axis=-1, keepdims=True)))", "norm ≤ 0.5"),
    (R.clip_by_norm(2, axis=(0, 1)),
     "d * (2 / maximum(2, norm(d, axis=(0, 1), keepdims=True)))", "norm ≤ 2"),
    (R.scale(3), "3 * d", "scale ×3"),
    (R.scale(-0.5), "-0.5 * d", "scale ×−0.5"),
    (R.normalise(), "d / where(norm(d) == 0, 1, norm(d))", "normalise"),
    (R.normalise(axis=0),
     "d / where(norm(d, axis=0, keepdims=True) == 0, 1,"
     " norm(d, axis=0, keepdims=True))", "normalise"),
    (R.stop(), "zeros_like(d)", "stop"),
    (R.reverse(), "-d", "reverse"),
    (R.reverse(0.3), "-(0.3 * d)", "reverse ×0.3"),
    (R.straight_through(), "g", "straight-through"),
    (R.straight_through(1), "where(abs(x) <= 1, g, 0)", "straight-through ±1"),
    (R.sanitise(), "where(isfinite(d), d, 0)", "sanitise"),
    (R.formula("g * y"), "g * y", "g * y"),
]  # fmt: skip


@pytest.mark.parametrize(("made", "text", "label"), TEXTS)
def test_texts_and_labels(made: str, text: str, label: str) -> None:
    assert made == text
    assert wb.override("tanh", made).label == label
    assert wb.override("tanh", made).data
    assert not isinstance(parse_rule(made), BoundRule)


def test_every_rule_by_name_has_a_short_label() -> None:
    for name in R.__all__:
        text = getattr(R, name)(0.1) if name == "noise" else None
        if name.startswith("safe_") or name in ("fisher", "kfac"):
            text = getattr(R, name)()
        if text is not None:
            assert isinstance(parse_rule(text), BoundRule)
            assert len(wb.override("tanh", text).label) <= 20
    ours = {n for n in RULES if RULES[n].home[0].startswith("workbench.rules")}
    assert ours <= set(R.__all__)


@pytest.mark.parametrize("name", R.__all__)
def test_every_rule_explains_itself(name: str) -> None:
    text = inspect.getdoc(getattr(R, name)) or ""
    assert ">>>" in text
    assert "orward mode" in text
    assert "Returns" in text


def test_the_list_of_rules_is_sorted_and_complete() -> None:
    assert R.__all__ == sorted(R.__all__)
    public = {n for n, v in vars(R).items() if inspect.isfunction(v)}
    assert public == set(R.__all__)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: R.clip(-1), "leave nothing between"),
        (lambda: R.clip(2, 1), "Give the lower one first"),
        (lambda: R.clip(np.nan), "give a finite number"),
        (lambda: R.clip(True), "give a finite number"),
        (lambda: R.clip("1"), "give a finite number"),  # type: ignore[arg-type]
        (lambda: R.clip(np.ones(2)), "give a finite number"),  # type: ignore[arg-type]
        (lambda: R.clip_by_norm(0), "give a positive number"),
        (lambda: R.clip_by_norm(1, axis="a"), "is not an axis"),  # type: ignore[arg-type]
        (lambda: R.clip_by_norm(1, axis=(0, 1, 2)), "one axis or two"),
        (lambda: R.scale(np.inf), "give a finite number"),
        (lambda: R.reverse(None), "give a finite number"),  # type: ignore[arg-type]
        (lambda: R.straight_through(-1), "give a positive number"),
    ],
)
def test_what_cannot_be_is_refused(make: Any, words: str) -> None:
    with pytest.raises(OverrideError, match=words):
        make()


def test_a_formula_is_read_where_it_is_given() -> None:
    with pytest.raises(ExpressionError, match="unknown name 'e'"):
        R.formula("clip(e, -1, 1)")


# Entries by hand, where they are special


def gradient(rule: str, g: Any, x: Any = None) -> Any:
    """What a rule makes of a gradient at an addition, whose own rule is 1."""
    x = np.zeros_like(g) if x is None else x
    f = lambda v: v + 0.0  # noqa: E731
    return wb.vjp(f, x, overrides=[wb.override("add", rule)])[1](g)[0]


def test_B4_norms_of_all_and_along_axes() -> None:
    g = np.array([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]])
    whole = np.sqrt(25.25)
    np.testing.assert_allclose(gradient(R.clip_by_norm(2), g), g * 2 / whole)
    np.testing.assert_allclose(gradient(R.clip_by_norm(9), g), g)
    rows = gradient(R.clip_by_norm(1, axis=1), g)
    np.testing.assert_allclose(rows, [[0.6, 0.8], [0.3, 0.4], [0.0, 0.0]])
    np.testing.assert_allclose(gradient(R.normalise(), g), g / whole)
    rows = gradient(R.normalise(axis=1), g)
    np.testing.assert_allclose(rows, [[0.6, 0.8], [0.6, 0.8], [0.0, 0.0]])
    columns = gradient(R.normalise(axis=-2), g)
    np.testing.assert_allclose(np.linalg.norm(columns, axis=0), [1.0, 1.0])


def test_zero_stays_zero_without_a_warning_and_at_second_order() -> None:
    zero = np.zeros(3)
    for rule in (R.normalise(), R.clip_by_norm(1), R.clip(1), R.sanitise()):
        with np.errstate(all="raise"):
            np.testing.assert_array_equal(gradient(rule, zero), 0)
            f = lambda x: np.sum((x + 0.0) ** 2)  # noqa: E731
            given = [wb.override("add", rule)]
            assert np.all(np.isfinite(wb.hessian(f, overrides=given)(zero)))


def test_what_is_not_finite_becomes_zero() -> None:
    g = np.array([np.nan, np.inf, -np.inf, 2.0])
    np.testing.assert_array_equal(gradient(R.sanitise(), g), [0, 0, 0, 2])
    complex_g = np.array([1 + 2j, complex(np.nan, 1), complex(1, np.inf)])
    found = gradient(R.sanitise(), complex_g, np.zeros(3, complex))
    np.testing.assert_array_equal(found, [1 + 2j, 0, 0])
    # Bounds and norms do not hide it.
    assert np.isnan(gradient(R.clip(1), g)[0])
    np.testing.assert_array_equal(gradient(R.clip(1), g)[1:], [1, -1, 1])


def test_complex_gradients() -> None:
    z, g = np.zeros(2, complex), np.array([3.0 + 4.0j, 0.0])
    for rule, expected in (
        (R.scale(0.5), g / 2), (R.reverse(), -g), (R.stop(), 0 * g),
        (R.straight_through(), g), (R.clip_by_norm(1), g / 5), (R.normalise(), g / 5),
    ):  # fmt: skip
        np.testing.assert_allclose(gradient(rule, g, z), expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("part", [0.9999999, 0.6, -0.6, -0.95])
def test_B4_norms_of_gradients_of_any_size(dtype: Any, part: float) -> None:
    """What explodes is what a norm is taken of: its squares are infinite, or 0."""
    size = dtype(float(np.finfo(dtype).max) ** part)
    part_of = np.array([0.6, -0.8], dtype)
    f = lambda x: np.sum(np.sin(x) * (part_of * size))  # noqa: E731
    x = np.zeros(2, dtype)
    for axis in (None, 0):
        given = [wb.override("sin", wb.rules.normalise(axis))]
        found = wb.grad(f, overrides=given)(x)
        assert found.dtype == dtype
        np.testing.assert_allclose(found, part_of, rtol=1e-6)
        given = [wb.override("sin", wb.rules.clip_by_norm(2, axis))]
        found = wb.grad(f, overrides=given)(x)
        expected = part_of * (2 if part > 0 else size)
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_the_norm_of_the_language_is_numpys(rng: np.random.Generator) -> None:
    from workbench.overrides.allowed_ops import norm

    for shape in ((), (5,), (3, 4), (2, 3, 4), (0, 3)):
        x = rng.normal(size=shape) * 10 ** rng.uniform(-5, 5)
        for axis in (None, *range(len(shape)), *([(0, 1)] if len(shape) > 1 else [])):
            for keepdims in (False, True):
                expected = np.linalg.norm(x, axis=axis, keepdims=keepdims)
                found = norm(x, axis, keepdims)
                assert np.shape(found) == np.shape(expected)
                np.testing.assert_array_equal(found, expected)
