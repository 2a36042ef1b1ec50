"""Every shipped rule, and some in every transform, against the chain rule by hand.

That transforms take rules of every form, `test_override_table.py` proves. A rule is a
function R(g, x, y) written in NumPy here. First order is R itself. Second order is what
reverse mode makes of R: its partial derivatives come from differences, and what arrives
at y goes through R again, since the override itself is differentiated.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import workbench as wb
from tests.gpu.stand_in import Foreign, inner
from workbench.errors import OverrideError

X = np.array([0.3, -1.2, 0.75])
WEIGHTS = np.array([1.0, -2.0, 0.5])
METRIC = np.array([[2.0, 0.5, 0.0], [0.5, 1.0, -0.2], [0.0, -0.2, 3.0]])
INVERSE = np.linalg.inv(METRIC + 0.1 * np.eye(3))


class Case(NamedTuple):
    op: str
    f: Callable[[Any], Any]
    rule: Any
    by_hand: Callable[[Any, Any, Any], Any]
    x: Any = X
    linear: bool = True


def dtanh(g: Any, y: Any) -> Any:
    return g * (1 - y * y)


def shortened(d: Any) -> Any:
    return d * min(1.0, 0.6 / np.linalg.norm(d)) if np.any(d) else d


def direction(d: Any) -> Any:
    return d / np.linalg.norm(d) if np.any(d) else d


R = wb.rules
P = np.abs(X) + 0.1
CASES = {
    "clip": Case("tanh", np.tanh, R.clip(0.4),
        lambda g, x, y: np.clip(dtanh(g, y), -0.4, 0.4), linear=False),
    "clip low high": Case("tanh", np.tanh, R.clip(-0.1, 0.7),
        lambda g, x, y: np.clip(dtanh(g, y), -0.1, 0.7), linear=False),
    "clip by norm": Case("tanh", np.tanh, R.clip_by_norm(0.6),
        lambda g, x, y: shortened(dtanh(g, y)), linear=False),
    "scale": Case("tanh", np.tanh, R.scale(0.25), lambda g, x, y: dtanh(g, y) / 4),
    "normalise": Case("tanh", np.tanh, R.normalise(),
        lambda g, x, y: direction(dtanh(g, y)), linear=False),
    "stop": Case("tanh", np.tanh, R.stop(), lambda g, x, y: 0 * g),
    "reverse": Case("tanh", np.tanh, R.reverse(0.5),
        lambda g, x, y: -0.5 * dtanh(g, y)),
    "straight through": Case("sign", np.sign, R.straight_through(),
        lambda g, x, y: g),
    "straight through, cut": Case("sign", np.sign, R.straight_through(1),
        lambda g, x, y: g * (abs(x) <= 1)),
    "sanitise": Case("tanh", np.tanh, R.sanitise(), lambda g, x, y: dtanh(g, y),
        linear=False),
    "formula": Case("sign", np.sign, R.formula("g * (1 - tanh(2 * x)**2) * y"),
        lambda g, x, y: g * (1 - np.tanh(2 * x) ** 2) * y),
    "natural": Case("tanh", np.tanh, R.natural(METRIC, damping=0.1),
        lambda g, x, y: INVERSE @ dtanh(g, y)),
    "natural by cg": Case("tanh", np.tanh,
        R.natural(lambda node: lambda v: METRIC @ v, damping=0.1, tolerance=1e-14),
        lambda g, x, y: INVERSE @ dtanh(g, y)),
    "safe sqrt": Case("sqrt", np.sqrt, R.safe_sqrt(),
        lambda g, x, y: g / (2 * y), P),
    "safe log": Case("log", np.log, R.safe_log(), lambda g, x, y: g / x, P),
    "safe log2": Case("log2", np.log2, R.safe_log(),
        lambda g, x, y: g / x / np.log(2), P),
    "safe log10": Case("log10", np.log10, R.safe_log(),
        lambda g, x, y: g / x / np.log(10), P),
    "safe log1p": Case("log1p", np.log1p, R.safe_log(),
        lambda g, x, y: g / (1 + x), P),
    "safe divide": Case("divide", lambda x: 2 / x, R.safe_divide(),
        lambda g, x, y: -2 * g / x**2),
    "safe reciprocal": Case("reciprocal", np.reciprocal, R.safe_divide(),
        lambda g, x, y: -g / x**2),
    "safe power": Case("power", lambda x: x**1.5, R.safe_power(),
        lambda g, x, y: g * 1.5 * x**0.5, P),
    "safe exponent": Case("power", lambda x: 3.0**x, R.safe_power(),
        lambda g, x, y: g * y * np.log(3)),
    "safe norm": Case("norm", lambda x: np.linalg.norm(x) * np.ones(3),
        R.safe_norm(), lambda g, x, y: np.sum(g) * x / y),
    "safe hypot": Case("hypot", lambda x: np.hypot(x, 2.0), R.safe_norm(),
        lambda g, x, y: g * x / y),
    "safe atan2": Case("arctan2", lambda x: np.arctan2(x, 2.0), R.safe_atan2(),
        lambda g, x, y: g * 2 / (4 + x**2)),
    "safe arcsin": Case("arcsin", np.arcsin, R.safe_arcsin(),
        lambda g, x, y: g / np.sqrt(1 - x * x), X / 2),
    "safe arccos": Case("arccos", np.arccos, R.safe_arccos(),
        lambda g, x, y: -g / np.sqrt(1 - x * x), X / 2),
    "safe exp": Case("exp", np.exp, R.safe_exp(limit=1.5),
        lambda g, x, y: g * np.minimum(y, 1.5)),
    "safe exp2": Case("exp2", np.exp2, R.safe_exp(),
        lambda g, x, y: g * y * np.log(2)),
    "safe expm1": Case("expm1", np.expm1, R.safe_exp(),
        lambda g, x, y: g * (y + 1)),
}  # fmt: skip


#: Of each kind some: of one entry or all of them, linear or not, a text or a function.
KINDS = ["clip", "clip by norm", "scale", "natural by cg", "safe norm"]


@pytest.fixture(params=CASES, ids=lambda name: name.replace(" ", "-"))
def case(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]


@pytest.fixture(params=KINDS, ids=lambda name: name.replace(" ", "-"))
def some(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]


def given(case: Case) -> list[wb.Override]:
    return [wb.override(case.op, case.rule)]


def loss(case: Case, weights: Any = WEIGHTS) -> Callable[[Any], Any]:
    return lambda x: np.sum(np.sin(case.f(x)) * weights)


def gradient(case: Case, x: Any) -> Any:
    y = case.f(x)
    return case.by_hand(WEIGHTS * np.cos(y), x, y)


def differences(f: Callable[[Any], Any], x: Any, h: float = 1e-3) -> Any:
    """The Jacobian of a plain function, of sixth order in h."""
    columns = []
    for e in np.eye(len(x)) * h:
        by = [(f(x + k * e) - f(x - k * e)) / (2 * k * h) for k in (1, 2, 3)]
        columns.append(1.5 * by[0] - 0.6 * by[1] + 0.1 * by[2])
    return np.stack([np.broadcast_to(c, x.shape) for c in columns], axis=1)


def second(case: Case, x: Any) -> Any:
    """The Jacobian of the gradient, row by row as reverse mode has it."""
    y = np.broadcast_to(case.f(x), x.shape)
    if case.op == "norm":  # one number, repeated
        return None
    g = WEIGHTS * np.cos(y)
    by_x = differences(lambda v: case.by_hand(g, v, y), x)
    by_y = differences(lambda v: case.by_hand(WEIGHTS * np.cos(v), x, v), y)
    return np.stack([by_x[i] + case.by_hand(by_y[i], x, y) for i in range(len(x))])


def near(found: Any, expected: Any, tolerance: float = 1e-9) -> None:
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


def test_B4_gradients(case: Case) -> None:
    found = wb.grad(loss(case), overrides=given(case))(case.x)
    near(found, gradient(case, case.x), 1e-12)


def test_B4_jacobians(some: Case) -> None:
    y = some.f(some.x)
    expected = [some.by_hand(e, some.x, y) for e in np.eye(3)]
    for mode in ("auto", "rev"):
        found = wb.jacobian(some.f, mode=mode, overrides=given(some))(some.x)
        near(found, expected, 1e-12)


def test_B4_hessians_differentiate_the_rule_itself(case: Case) -> None:
    expected = second(case, case.x)
    if expected is None:
        pytest.skip("its numbers are those of one y: see test_safe.py")
    near(wb.hessian(loss(case), overrides=given(case))(case.x), expected, 1e-7)


def test_B4_hessian_vector_products(some: Case) -> None:
    """Forward over reverse, which a rule that is not linear cannot follow."""
    v = np.array([0.4, -1.0, 2.0])
    expected = second(some, some.x)
    if not some.linear:
        with pytest.raises(OverrideError, match='jvp="true"'):
            wb.hvp(loss(some), some.x, v, overrides=given(some))
    elif expected is not None:
        near(wb.hvp(loss(some), some.x, v, overrides=given(some)), expected @ v, 1e-7)
    # With the true rule forwards it is the slope of the gradient, rule and all.
    true = [wb.override(some.op, some.rule, jvp="true")]
    slope = differences(lambda x: gradient(some, x), some.x)
    near(wb.hvp(loss(some), some.x, v, overrides=true), slope @ v, 1e-7)


def test_B5_forward_mode_is_the_transpose_or_an_error(case: Case) -> None:
    y, t = case.f(case.x), np.array([0.4, -1.0, 2.0])
    if case.linear:
        rows = np.stack([case.by_hand(e, case.x, y) for e in np.eye(3)])
        found = wb.jvp(case.f, (case.x,), (t,), overrides=given(case))[1]
        near(found, rows @ t, 1e-12)
        near(wb.jacfwd(case.f, overrides=given(case))(case.x), rows, 1e-12)
        return
    with pytest.raises(OverrideError, match='jvp="true"'):
        wb.jvp(case.f, (case.x,), (t,), overrides=given(case))
    true = [wb.override(case.op, case.rule, jvp="true")]
    found = wb.jvp(case.f, (case.x,), (t,), overrides=true)[1]
    near(found, wb.jvp(case.f, (case.x,), (t,))[1], 1e-12)


def test_batches(some: Case) -> None:
    rows = np.stack([some.x, some.x * 0.8, some.x * 0.5])
    found = wb.vmap(wb.grad(loss(some), overrides=given(some)))(rows)
    near(found, [gradient(some, row) for row in rows], 1e-12)


def test_inside_a_scan(some: Case) -> None:
    """c ← f(c) / 4 + x, three times; the chain rule backwards by hand."""

    def program(x: Any) -> Any:
        c = wb.scan(lambda c: 0.25 * some.f(c) + x, initial=x, n_steps=3)[-1]
        return np.sum(c * c)

    x = some.x
    states = [x]
    for _ in range(3):
        states.append(0.25 * some.f(states[-1]) + x)
    arriving, total = 2 * states[-1], 0 * x
    for c in reversed(states[:-1]):
        total = total + arriving
        arriving = some.by_hand(0.25 * arriving, c, some.f(c))
    near(wb.grad(program, overrides=given(some))(x), total + arriving, 1e-10)


def test_float32_stays_float32(case: Case) -> None:
    x = case.x.astype(np.float32)
    single = WEIGHTS.astype(np.float32)
    found = wb.grad(loss(case, single), overrides=given(case))(x)
    assert found.dtype == np.float32
    near(found, gradient(case, case.x), 3e-5)
    if case.linear:
        _, tangent = wb.jvp(case.f, (x,), (x,), overrides=given(case))
        assert tangent.dtype == np.asarray(case.f(x)).dtype


@pytest.mark.usefixtures("stand_in")
def test_on_arrays_that_numpy_cannot_reach(case: Case) -> None:
    """As CuPy's: nothing in a rule is made in the wrong place."""
    rule = case.rule
    if case.op == "norm":
        pytest.skip("the program itself makes an array of NumPy's")
    if rule is CASES["natural"].rule:
        rule = R.natural(Foreign(METRIC), damping=0.1)
    elif rule is CASES["natural by cg"].rule:
        rule = R.natural(Foreign(METRIC), damping=0.1, solver="cg", tolerance=1e-14)
    overrides = [wb.override(case.op, rule)]
    w = Foreign(WEIGHTS)
    f = lambda x: np.sum(np.sin(case.f(x)) * w)  # noqa: E731
    found = inner(wb.grad(f, overrides=overrides)(Foreign(case.x)))
    near(found, gradient(case, case.x), 1e-12)
    near(
        inner(wb.hessian(f, overrides=overrides)(Foreign(case.x))),
        second(case, case.x),
        1e-7,
    )


def test_in_a_session(some: Case) -> None:
    session = wb.Session(wb.trace(loss(some))(some.x))
    one = session.override(some.op, some.rule)
    near(session.grads["x"], gradient(some, some.x), 1e-12)
    assert one.data is isinstance(some.rule, str)
    assert session.code().count(repr(some.rule)) == (1 if one.data else 0)
    if one.data:
        assert session.check_rule(some.op, some.rule) == "ok"
