"""Safe rules at the singular points themselves: finite, in both modes, at any order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import workbench as wb
from tests.gpu.stand_in import Foreign, inner
from workbench.errors import OverrideError

R = wb.rules
PI = np.pi


class Point(NamedTuple):
    op: str
    rule: str
    f: Callable[[Any], Any]
    #: Where it is singular, then beside it; and the gradients there by hand.
    x: tuple[float, ...]
    gradient: tuple[float, ...]


POINTS = {
    "sqrt": Point("sqrt", R.safe_sqrt(), np.sqrt, (0.0, 4.0), (0.0, 0.25)),
    "log": Point("log", R.safe_log(), np.log, (0.0, 0.5), (0.0, 2.0)),
    "log2": Point("log2", R.safe_log(), np.log2, (0.0, 1.0), (0.0, 1 / np.log(2))),
    "log10": Point("log10", R.safe_log(), np.log10, (0.0, 1.0), (0.0, 1 / np.log(10))),
    "log1p": Point("log1p", R.safe_log(), np.log1p, (-1.0, 1.0), (0.0, 0.5)),
    "divide by": Point("divide", R.safe_divide(), lambda x: 3.0 / x,
        (0.0, 2.0), (0.0, -0.75)),
    "zero by zero": Point("divide", R.safe_divide(), lambda x: x / x, (0.0,), (0.0,)),
    "reciprocal": Point("reciprocal", R.safe_divide(), np.reciprocal,
        (0.0, 2.0), (0.0, -0.25)),
    "power": Point("power", R.safe_power(), lambda x: x**0.5, (0.0, 4.0), (0.0, 0.25)),
    "power 1.5": Point("power", R.safe_power(), lambda x: x**1.5,
        (0.0, 4.0), (0.0, 3.0)),
    "power -1": Point("power", R.safe_power(), lambda x: x**-1.0,
        (0.0, 2.0), (0.0, -0.25)),
    "whole powers": Point("power", R.safe_power(), lambda x: x**2,
        (0.0, -3.0), (0.0, -6.0)),
    "power itself": Point("power", R.safe_power(), lambda x: np.abs(x) ** x,
        (0.0, 1.0), (0.0, 1.0)),
    "norm": Point("norm", R.safe_norm(), np.linalg.norm, (0.0, 0.0), (0.0, 0.0)),
    "hypot": Point("hypot", R.safe_norm(), lambda x: np.hypot(x, 0.0),
        (0.0, 2.0), (0.0, 1.0)),
    "atan2": Point("arctan2", R.safe_atan2(), lambda x: np.arctan2(x, 0 * x),
        (0.0, 2.0), (0.0, 0.0)),
    "arcsin": Point("arcsin", R.safe_arcsin(), np.arcsin,
        (1.0, -1.0, 0.6), (0.0, 0.0, 1.25)),
    "arccos": Point("arccos", R.safe_arccos(), np.arccos,
        (1.0, -1.0, 0.6), (0.0, 0.0, -1.25)),
    "exp": Point("exp", R.safe_exp(100), np.exp, (1000.0, 0.0), (100.0, 1.0)),
}  # fmt: skip


@pytest.fixture(params=POINTS, ids=lambda name: name.replace(" ", "-"))
def point(request: pytest.FixtureRequest) -> Point:
    return POINTS[request.param]


@pytest.fixture(autouse=True)
def quiet() -> Any:
    """The values at these points are infinite, or NaN, and NumPy says so."""
    with np.errstate(all="ignore"):
        yield


def total(point: Point) -> Callable[[Any], Any]:
    return lambda x: np.sum(point.f(x))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_B4_the_gradient_is_finite_and_right_beside(point: Point, dtype: Any) -> None:
    x = np.array(point.x, dtype)
    given = [wb.override(point.op, point.rule)]
    found = wb.grad(total(point), overrides=given)(x)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, point.gradient, rtol=3e-7, atol=1e-12)
    _, tangent = wb.jvp(total(point), (x,), (np.ones_like(x),), overrides=given)
    np.testing.assert_allclose(tangent, sum(point.gradient), rtol=3e-7, atol=1e-12)
    assert tangent.dtype == dtype


def test_B4_second_order_is_finite(point: Point) -> None:
    x = np.array(point.x)
    given = [wb.override(point.op, point.rule)]
    forward = wb.hessian(total(point), overrides=given)(x)
    assert np.all(np.isfinite(forward))
    gradient = wb.grad(total(point), overrides=given)
    np.testing.assert_allclose(
        wb.jacobian(gradient, mode="rev", overrides=given)(x), forward, rtol=1e-12
    )
    third = wb.jacobian(lambda x: wb.hessian(total(point))(x), mode="rev")
    with wb.overrides(*given):
        assert np.all(np.isfinite(third(x)))


def test_the_true_rule_is_not_finite_there(point: Point) -> None:
    """So that each of these points is one (some only at second order)."""
    x = np.array(point.x)
    ok = {"whole powers", "power itself", "atan2", "hypot", "norm"}
    if any(point is POINTS[name] for name in ok):
        pytest.skip("its convention is finite already")
    first = wb.grad(total(point))(x)
    second = wb.hessian(total(point))(x)
    assert not (np.all(np.isfinite(first)) and np.all(np.isfinite(second)))


def test_G4_the_branch_not_taken_stays_silent(point: Point) -> None:
    x = np.array(point.x)
    given = [wb.override(point.op, point.rule)]
    taken = np.array([False] + [True] * (len(x) - 1))
    f = lambda x: np.sum(np.where(taken, point.f(x), 0.0))  # noqa: E731
    found = wb.grad(f, overrides=given)(x)
    np.testing.assert_allclose(found[1:], point.gradient[1:], rtol=1e-7, atol=1e-12)
    assert found[0] == 0
    assert np.all(np.isfinite(wb.hessian(f, overrides=given)(x)))


def test_a_gradient_of_infinity_that_arrives_is_0_there_too() -> None:
    given = [wb.override("sqrt", R.safe_sqrt())]
    f = lambda x: np.sum(np.log(np.sqrt(x)))  # noqa: E731
    np.testing.assert_allclose(wb.grad(f, overrides=given)(np.array([0.0, 4.0])),
                               [0.0, 0.125])  # fmt: skip


def test_small_is_not_zero() -> None:
    """Entries beyond eps keep their true slope, to the last digit."""
    x = np.array([1e-10, 1e-3, 1e30])
    for op, rule, true in (
        (np.sqrt, R.safe_sqrt(), 0.5 / np.sqrt(x)),
        (np.log, R.safe_log(), 1 / x),
        (np.reciprocal, R.safe_divide(), -1 / x**2),
    ):
        given = [wb.override(op, rule)]
        found = wb.grad(lambda x, op=op: np.sum(op(x)), overrides=given)(x)
        np.testing.assert_allclose(found, true, rtol=1e-15)
    given = [wb.override("sqrt", R.safe_sqrt(eps=0.1))]
    found = wb.grad(lambda x: np.sum(np.sqrt(x)), overrides=given)(
        np.array([0.0099, 0.0101])
    )
    np.testing.assert_allclose(found, [0.0, 0.5 / np.sqrt(0.0101)])


@pytest.mark.parametrize(
    ("point", "expected"),
    [((1.0, 0.0), (-0.0, 1 / 1.01)), ((0.0, 0.0), (0.0, 0.0)),
     ((0.0, 2.0), (-2 / 4.01, 0.0))],
)  # fmt: skip
def test_B2_safe_atan2_is_that_of_the_seed(point: Any, expected: Any) -> None:
    """-y / (x² + y² + eps) and x / (x² + y² + eps), with eps = 0.01."""
    given = [wb.override("arctan2", R.safe_atan2(eps=0.01))]
    angle = lambda x, y: np.arctan2(y, x)  # noqa: E731
    np.testing.assert_allclose(
        wb.grad(angle, (0, 1), overrides=given)(*point), expected, rtol=1e-15
    )
    tangent = wb.jvp(angle, point, (2.0, 3.0), overrides=given)[1]
    np.testing.assert_allclose(tangent, 2 * expected[0] + 3 * expected[1], rtol=1e-15)


def test_a_norm_of_rows_and_of_what_is_complex() -> None:
    x = np.array([[3.0, 4.0], [0.0, 0.0]])
    given = [wb.override("norm", R.safe_norm())]
    for keepdims in (False, True):
        f = lambda x, k=keepdims: np.sum(  # noqa: E731
            np.linalg.norm(x, axis=1, keepdims=k)
        )
        found = wb.grad(f, overrides=given)(x)
        np.testing.assert_allclose(found, [[0.6, 0.8], [0.0, 0.0]])
    z = np.array([3.0 + 4.0j, 0.0])
    found = wb.grad(np.linalg.norm, overrides=given)(z)
    np.testing.assert_allclose(found, [0.6 - 0.8j, 0.0])  # ∂/∂x − i ∂/∂y
    np.testing.assert_array_equal(wb.grad(np.linalg.norm, overrides=given)(0 * z), 0)


@pytest.mark.parametrize(
    ("op", "rule", "slope"),
    [
        (np.sqrt, R.safe_sqrt(), lambda z: 0.5 / np.sqrt(z)),
        (np.log, R.safe_log(), lambda z: 1 / z),
        (np.reciprocal, R.safe_divide(), lambda z: -1 / z**2),
        (lambda z: z**0.3, R.safe_power(), lambda z: 0.3 * z**-0.7),
        (np.arcsin, R.safe_arcsin(), lambda z: 1 / np.sqrt(1 - z**2)),
        (np.exp, R.safe_exp(), np.exp),
    ],
)
def test_complex_inputs(op: Any, rule: str, slope: Any) -> None:
    """Holomorphic: the cotangent times f'(z), and 0 at the singular point."""
    z, g = np.array([0.3 + 0.4j, -1.2 + 2.0j]), np.array([1.0 - 1.0j, 0.5j])
    name = rule.removeprefix("safe_").replace("divide", "reciprocal")
    _, pullback = wb.vjp(op, z, overrides=[wb.override(name, rule)])
    np.testing.assert_allclose(pullback(g)[0], g * slope(z), rtol=1e-12)
    if name not in ("exp", "arcsin"):
        zero = np.zeros(2, complex)
        _, pullback = wb.vjp(op, zero, overrides=[wb.override(name, rule)])
        np.testing.assert_array_equal(pullback(g)[0], 0)


def test_both_inputs_broadcast() -> None:
    a, b = np.array([[1.0], [2.0]]), np.array([0.0, 4.0])
    given = [wb.override("divide", R.safe_divide())]
    f = lambda a, b: np.sum(a / b)  # noqa: E731
    by_a, by_b = wb.grad(f, (0, 1), overrides=given)(a, b)
    np.testing.assert_allclose(by_a, [[0.25], [0.25]])
    np.testing.assert_allclose(by_b, [0.0, -3 / 16])
    given = [wb.override("power", R.safe_power())]
    g = lambda a, b: np.sum(b ** (a / 2))  # noqa: E731
    by_a, by_b = wb.grad(g, (0, 1), overrides=given)(a, b)
    # 4^½ log 4 / 2 and 4 log 4 / 2; at 0 nothing. By b: ½ 4^-½ + 1, and of 0^1 1.
    np.testing.assert_allclose(by_a, [[np.log(4)], [2 * np.log(4)]])
    np.testing.assert_allclose(by_b, [1.0, 1.25])


@pytest.mark.usefixtures("stand_in")
def test_on_arrays_that_numpy_cannot_reach(point: Point) -> None:
    if point is POINTS["hypot"] or point is POINTS["power itself"]:
        pytest.skip("the program mixes in an array of NumPy's")
    given = [wb.override(point.op, point.rule)]
    found = inner(wb.grad(total(point), overrides=given)(Foreign(np.array(point.x))))
    np.testing.assert_allclose(found, point.gradient, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", [n for n in R.__all__ if n.startswith("safe_")])
def test_a_safe_rule_at_another_op_is_an_error_that_says_so(name: str) -> None:
    rule = getattr(R, name)()
    f = lambda x: np.sum(np.tanh(x))  # noqa: E731
    with pytest.raises(OverrideError) as caught:
        wb.grad(f, overrides=[wb.override("tanh", rule)])(np.ones(2))
    told = str(caught.value)
    assert f"the rule {name} is made for" in told
    assert "tanh float64[2] (at test_safe.py:" in told
    session = wb.Session(wb.trace(f)(np.ones(2)))
    with pytest.raises(OverrideError, match=f"{name} is made for"):
        session.override("tanh", rule)
    with pytest.raises(OverrideError, match=f"{name} is made for"):
        session.check_rule("tanh", rule)
    assert session.overrides == []
    with pytest.raises(OverrideError, match="give a positive number"):
        getattr(R, name)(0)


def test_what_is_made_for_the_op_is_named() -> None:
    with pytest.raises(OverrideError, match="For log there is safe_log"):
        wb.grad(np.log, overrides=[wb.override("log", "safe_sqrt")])(1.0)


@pytest.mark.parametrize("key", POINTS)
@pytest.mark.parametrize("setting", ["-1", "0", "None", "True"])
def test_B4_a_text_by_hand_has_positive_settings_too(key: str, setting: str) -> None:
    point = POINTS[key]
    name = point.rule.split("(")[0]
    text = f"{name}({'limit' if name == 'safe_exp' else 'eps'}={setting})"
    with pytest.raises(OverrideError, match=f"{name}: .*give a positive number"):
        wb.grad(total(point), overrides=[wb.override(point.op, text)])(
            np.array(point.x)
        )


def test_texts_say_only_what_is_not_the_default() -> None:
    assert R.safe_sqrt() == "safe_sqrt"
    assert R.safe_sqrt(eps=np.float64(1e-3)) == "safe_sqrt(eps=0.001)"
    assert wb.override("sqrt", R.safe_sqrt(1e-3)).label == "safe sqrt"
    assert wb.override("exp", R.safe_exp(100)).label == "exp slope ≤ 100"
