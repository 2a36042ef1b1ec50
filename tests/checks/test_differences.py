"""Differences against derivatives that are known, where they are hard too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.checks.differences import curvature, numeric_grad, perturb_entry, slope
from workbench.errors import DtypeError, NonScalarOutputError

SMOOTH = {
    "polynomial": (lambda t: (1 + t) ** 5, 5.0),
    "oscillating": (lambda t: np.sin(100 * t) + 0 * t, 100.0),
    "steep": (lambda t: np.exp(20 * t), 20.0),
    "near a pole": (lambda t: 1 / (0.01 + t), -1e4),
    "flat": (lambda t: np.cos(t), 0.0),
    "cancelling": (lambda t: 1e6 + np.tanh(t), 1.0),
    "tiny": (lambda t: 1e-12 * np.sin(t), 1e-12),
    "constant": (lambda t: 3.0 + 0 * t, 0.0),
}


@pytest.mark.parametrize("known", [True, False])
def test_what_the_complex_step_leaves_of_a_cube_is_told(known: bool) -> None:
    """Of x³ at 0 it gives minus the square of the step, and the derivative is 0."""
    lines = (lambda t: np.array([t**3]), lambda t: np.array([t, t**3, t**5]))
    for line in lines:
        found = slope(line, 1.0, known=known)
        truth = np.array([0.0]) if len(found.value) == 1 else np.array([1.0, 0.0, 0.0])
        assert np.all(np.abs(found.value - truth) <= found.error)
        assert np.all(found.error <= 1e-14)


@pytest.mark.parametrize("power", [3, 4, 5])
def test_checks_find_powers_right_at_0(power: int) -> None:
    zero = np.zeros(2)
    for f in (
        lambda x: np.linalg.norm(x) ** power,
        lambda x: np.hypot(x[0], x[1]) ** power,
        lambda x: np.sum(np.abs(x) ** power),
        lambda x: np.sum(x**power),
    ):
        for order in (1, 2):
            assert wb.check_grads(f, (zero,), order=order).ok
        assert wb.Session(wb.trace(f)(zero)).check().ok
        wb.gradient.verify_grad(f, [zero], rng=np.random.default_rng(0))


@pytest.mark.parametrize("analytic", [True, False])
@pytest.mark.parametrize("name", SMOOTH)
def test_smooth_functions(name: str, analytic: bool) -> None:
    f, expected = SMOOTH[name]
    found = slope(lambda t: np.array([f(t)]), 1.0, analytic=analytic)
    off = abs(found.value[0] - expected)
    assert off <= 4 * found.error[0] + 1e-15 * abs(expected)
    assert found.error[0] <= 1e-7 * abs(expected) + 1e-9
    assert not found.kink[0]
    assert found.method == ("complex step" if analytic else "differences")


def test_the_complex_step_is_exact_to_rounding() -> None:
    found = slope(lambda t: np.array([np.exp(np.sin(0.7 + t))]))
    expected = np.exp(np.sin(0.7)) * np.cos(0.7)
    assert found.value[0] == pytest.approx(expected, rel=1e-15)


def real_part(t: Any) -> Any:
    return np.array([np.real(np.exp((1 + t) ** 2))])


def magnitude(t: Any) -> Any:
    return np.array([abs(1 + t) ** 2])


def no_complex(t: Any) -> Any:
    return np.array([float(1 + t) ** 2])


def loses_it(t: Any) -> Any:
    out = np.zeros(1)
    out[0] = (1 + t) ** 2
    return out


def conjugated(t: Any) -> Any:
    return np.array([(1 + t) * np.conj(1 + t) + 0j * t]) if np.iscomplexobj(t) else (
        np.array([(1.0 + t) ** 2])
    )  # fmt: skip


@pytest.mark.parametrize(
    ("f", "expected"),
    [
        (real_part, 2 * np.e),
        (magnitude, 2.0),
        (no_complex, 2.0),
        (loses_it, 2.0),
        (conjugated, 2.0),
    ],
)
def test_functions_that_do_not_carry_complex_numbers(f: Any, expected: float) -> None:
    """Found out, and measured by differences instead."""
    found = slope(f)
    assert found.method == "differences"
    assert found.value[0] == pytest.approx(expected, rel=1e-9)


def test_kinks_have_two_sides() -> None:
    def f(t: float) -> Any:
        return np.array([abs(t), max(t, 0.0), t * t, 5 + 3 * t, abs(t - 0.01)])

    found = slope(f, analytic=False)
    np.testing.assert_array_equal(found.kink, [True, True, False, False, False])
    assert not found.jump.any()
    np.testing.assert_allclose(found.left, [-1, 0, 0, 3, -1], atol=1e-9)
    np.testing.assert_allclose(found.right, [1, 1, 0, 3, -1], atol=1e-9)
    assert found.value[4] == pytest.approx(-1, abs=1e-9)


def test_jumps_are_told_from_kinks() -> None:
    def f(t: float) -> Any:
        return np.array([np.sign(t), float(t >= 0), abs(t)])

    found = slope(f, analytic=False)
    np.testing.assert_array_equal(found.jump, [True, True, False])
    np.testing.assert_array_equal(found.kink, [True, True, True])


def test_the_edge_of_a_domain_is_seen() -> None:
    found = slope(lambda t: np.array([np.sqrt(t)]), analytic=False)
    assert found.kink[0]
    assert not np.isfinite(found.left[0])


def test_noise_is_not_taken_for_a_kink() -> None:
    """A float32 function: the error says how little can be known."""

    def f(t: float) -> Any:
        return np.array([np.float32(np.sin(1 + t))])

    found = slope(f, analytic=False)
    assert not found.kink[0]
    assert abs(found.value[0] - np.cos(1)) <= found.error[0] <= 1e-3


def test_second_differences() -> None:
    value, error = curvature(
        lambda t: np.array([np.exp(2 * t), np.sin(t), abs(t) * t, t**3])
    )
    np.testing.assert_allclose(value[:2], [4, 0], atol=1e-7)
    assert error[0] < 1e-6
    assert np.isinf(error[2])  # 2 on one side, -2 on the other
    assert abs(value[3]) <= 4 * error[3] + 1e-9


def test_numeric_gradients(rng: np.random.Generator) -> None:
    x, y = rng.standard_normal((2, 3)), rng.standard_normal(3)

    def f(x: Any, y: Any) -> Any:
        return np.sum(np.sin(x) @ y) + np.sum(np.abs(x))

    dx, dy = numeric_grad(f, (0, 1))(x, y)
    np.testing.assert_allclose(dx, np.cos(x) * y + np.sign(x), rtol=1e-9)
    np.testing.assert_allclose(dy, np.sin(x).sum(0), rtol=1e-9, atol=1e-12)
    nested = numeric_grad(lambda p: p["a"] ** 2 * np.sum(p["b"]))
    g = nested({"a": 3.0, "b": np.ones(2)})
    assert g["a"] == pytest.approx(12)
    np.testing.assert_allclose(g["b"], 9)


def test_numeric_gradient_of_a_complex_argument() -> None:
    z = np.array([1.0 + 2j, -0.5j])
    g = numeric_grad(lambda z: np.sum(np.real(z * np.conj(z))))(z)
    np.testing.assert_allclose(g, 2 * np.conj(z), atol=1e-9)


def test_numeric_gradient_wants_one_number_of_floats() -> None:
    with pytest.raises(NonScalarOutputError, match=r"np\.sum"):
        numeric_grad(lambda x: x)(np.ones(2))
    with pytest.raises(DtypeError, match="numeric_grad"):
        numeric_grad(lambda x: np.sum(x))(np.arange(2))


def test_arguments_are_never_changed(rng: np.random.Generator) -> None:
    x = rng.standard_normal(3)
    before = x.copy()
    kept = []
    line, _ = perturb_entry(lambda x: kept.append(x) or x, [x], 0, 1)
    line(0.5)
    line(0.25)
    np.testing.assert_array_equal(x, before)
    assert kept[0][1] == before[1] + 0.5  # each call gets an array of its own


@pytest.mark.parametrize("size", [1e-2, 1.0, 1e8])
def test_the_step_follows_the_size_of_the_variable(size: float) -> None:
    x = np.array([size])
    g = numeric_grad(lambda x: np.sum(np.log1p(np.abs(x / size) ** 2)))(x)
    assert g[0] == pytest.approx(1 / size, rel=1e-8)


def test_a_jump_in_the_middle_of_a_bend_is_a_jump() -> None:
    """The sign of x beside x * max(x, 0): both sides are as steep as 1 / h."""
    found = slope(lambda t: np.array([np.sign(t.real) + max(t.real, 0) * t.real]))
    assert bool(found.kink[0])
    assert bool(found.jump[0])
    near = slope(lambda t: np.array([max(t.real - 1e-7, 0) + np.sin(t.real)]))
    assert not found.kink[0] == near.kink[0]
    assert near.value[0] == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("jumps", [np.floor, np.ceil, np.rint])
@pytest.mark.parametrize("start", [37.2, 100.3, 1012.7, 8192.3])
def test_jumps_that_lie_within_the_steps_are_no_slope(jumps: Any, start: float) -> None:
    found = slope(lambda t: np.array([jumps(start * (1 + t))]), analytic=False)
    assert not found.kink[0]
    assert abs(found.value[0]) <= 4 * found.error[0] + 1e-15
    assert found.error[0] <= 1e-3


@pytest.mark.parametrize("jumps", [np.floor, np.ceil, np.rint])
@pytest.mark.parametrize("start", [65536.3, 131072.2])
def test_where_steps_agree_by_chance_nothing_is_known(jumps: Any, start: float) -> None:
    """All steps of a power of 2 that are long lead from jump to jump."""
    found = slope(lambda t: np.array([jumps(start * (1 + t))]), analytic=False)
    assert abs(found.value[0]) <= 4 * found.error[0]


def test_a_bend_within_the_steps_is_no_slope() -> None:
    found = slope(lambda t: np.array([np.arctan2(t, 5e-5)]), analytic=False)
    assert found.value[0] == pytest.approx(2e4, rel=1e-9)


@pytest.mark.parametrize("power", [2, 3, 5])
def test_a_derivative_of_zero_is_known(power: int) -> None:
    found = slope(lambda t: np.array([t**power]), analytic=False)
    assert abs(found.value[0]) <= 4 * found.error[0] + 1e-15
    assert found.error[0] <= 1e-9
