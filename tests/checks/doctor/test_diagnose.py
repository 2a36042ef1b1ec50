"""`wb.diagnose` and a session's: what is said, in which order, what mends it."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.errors import GradientError, UsageError


def length(x: Any) -> Any:
    return np.sqrt(np.sum(x**2))


def one(found: Any) -> Any:
    (only,) = found
    return only


def kinds(found: Any) -> list[str]:
    return [finding.kind for finding in found]


# What is said, with the user's own names


@pytest.mark.parametrize(
    ("f", "x", "kind", "op", "code"),
    [
        (
            lambda z: np.log(np.sum(np.exp(z))),
            np.array([0.0, 1000.0]),
            "overflow",
            "exp",
            "wb.logsumexp(z)",
        ),
        (
            lambda z: np.sum(np.log(np.exp(z) / np.sum(np.exp(z)))),
            np.array([0.0, 1000.0]),
            "overflow",
            "exp",
            "z - wb.logsumexp(z)",
        ),
        (
            lambda z: np.sum(np.log(1 + np.exp(z))),
            np.array([0.0, 800.0]),
            "overflow",
            "exp",
            "np.logaddexp(0, z)",
        ),
        (
            lambda z: np.sum(np.log(1 - 1 / (1 + np.exp(-z)))),
            np.array([0.0, 50.0]),
            "log-of-zero",
            "log",
            "-np.logaddexp(0, z)",
        ),
        (
            lambda z: np.sum(1 / (1 + np.exp(-z))),
            np.array([0.0, -1000.0]),
            "overflow",
            "exp",
            "workbench.scipy.special.expit(z)",
        ),
        (
            lambda x: np.sum((1 - np.cos(x)) / x**2),
            np.array([1e-7]),
            "cancellation",
            "subtract",
            "2 * np.sin(x / 2)**2",
        ),
        (
            lambda x: np.sum((np.exp(x) - 1) / x),
            np.array([1e-12]),
            "cancellation",
            "subtract",
            "np.expm1(x)",
        ),
        (
            lambda x: np.sum(x / np.linalg.norm(x)),
            np.zeros(2),
            "division-by-zero",
            "divide",
            "x / np.where(np.linalg.norm(x) == 0, 1, np.linalg.norm(x))",
        ),
        (
            lambda x: np.mean(x**2) - np.mean(x) ** 2,
            (1000 + 0.1 * np.sin(np.arange(50.0))).astype(np.float32),
            "cancellation",
            "subtract",
            "np.var(x)",
        ),
        (
            lambda x: np.sum(np.arccos(x)),
            np.array([0.5, 1.5]),
            "outside-domain",
            "arccos",
            "np.arccos(np.clip(x, -1, 1))",
        ),
    ],
)
def test_G3_the_stable_form_in_the_names_of_the_user(
    f: Any, x: Any, kind: str, op: str, code: str
) -> None:
    found = one(wb.diagnose(f, x))
    assert (found.kind, found.node.op.name, found.fix.code) == (kind, op, code)


@pytest.mark.parametrize(
    ("f", "x", "op"),
    [
        (length, np.zeros(3), "sqrt"),
        (lambda x: np.sum(np.sqrt(x**2)), np.array([0.0, 1.0]), "sqrt"),
        (lambda x: np.sum(np.abs(x) ** 0.5), np.array([0.0, 4.0]), "power"),
        (lambda x: np.sum(np.arccos(np.clip(x, -1, 1))), np.array([2.0]), "arccos"),
        (lambda x: np.sum(np.arctan2(x, x)), np.zeros(2), "arctan2"),
        (lambda x: np.sqrt(np.mean((x - np.mean(x)) ** 2)), np.ones(4), "sqrt"),
    ],
)
def test_G3_what_a_slope_breaks_an_override_mends(f: Any, x: Any, op: str) -> None:
    found = one(wb.diagnose(f, x))
    assert (found.kind, found.sweep, found.node.op.name) == (
        "infinite-slope",
        "backward",
        op,
    )
    with np.errstate(all="ignore"):
        g = wb.grad(f, overrides=[wb.override(op, found.fix.rule)])(x)
    assert np.isfinite(g).all()


def test_each_of_two_slopes_is_mended_while_the_other_is_not() -> None:
    def f(x: Any, y: Any) -> Any:
        return np.sum(np.sqrt(x)) + np.sum(np.cbrt(y))

    x = np.array([0.0, 4.0])
    found = wb.diagnose(f, x, x)
    assert {finding.node.op.name for finding in found} == {"sqrt", "cbrt"}
    rules = [
        wb.override(one.node.op.name, one.fix.rule)
        for one in found
        if one.fix is not None
    ]
    g, h = wb.grad(f, (0, 1), overrides=rules)(x, x)
    np.testing.assert_allclose(g, [0, 0.25])
    np.testing.assert_allclose(h, [0, 4 ** (-2 / 3) / 3])


@pytest.mark.parametrize(
    ("op", "points", "where"),
    [
        (np.sqrt, [0], "0"), (np.cbrt, [0], "0"), (np.arccosh, [1], "1"),
        (np.arcsin, [-1, 1], "±1"), (np.arccos, [-1, 1], "±1"),
        (np.arctanh, [-1, 1], "±1"), (np.log, [0], "0"), (np.log2, [0], "0"),
        (np.log10, [0], "0"), (np.log1p, [-1], "-1"), (np.reciprocal, [0], "0"),
        (lambda x: x**0.5, [0], "0"), (lambda x: np.float_power(x, 0.5), [0], "0"),
    ],
)  # fmt: skip
def test_an_infinite_slope_is_told_with_its_point(
    op: Any, points: list[float], where: str
) -> None:
    """What follows is finite there, so that the slope is all there is to tell."""
    for point in points:
        x = np.array([1.5 if op is np.arccosh else 0.25, point])
        found = one(wb.diagnose(lambda x: np.sum(np.arctan(op(x))), x))
        assert found.kind == "infinite-slope"
        assert found.title == f"{found.node.op.name} has an infinite slope at {where}"
        assert f"1 of 2 entries; x[1] = {point}" in found.evidence


def test_a_point_without_slope_is_named_by_its_own_entry() -> None:
    def angles(y: Any, x: Any) -> Any:
        return np.sum(np.arctan2(y, x))

    flat, left_out = np.array([0.0, 0.0, 1.0, 0.0]), np.array([False, True, True, True])
    for f, y, x, text in (
        (angles, flat, np.array([1.0, 2.0, 0.0, 0.0]), "1 of 4 entries; y[3] = 0"),
        # A column and a row make a table; the column has entries [i, 0] alone.
        (angles, flat[1:3, None], np.array([1.0, 0.0]), "1 of 4 entries; y[0, 0] = 0"),
        (
            lambda y, x: np.sum(np.where(left_out, np.arctan2(y, x), 0)),
            flat,
            np.array([0.0, 2.0, 0.0, 0.0]),
            "1 of 4 entries; y[3] = 0",
        ),
    ):
        found = one(wb.diagnose(f, y, x))
        assert (found.kind, found.node.op.name) == ("infinite-slope", "arctan2")
        assert text in str(found)
        assert "passed on: 1 NaN" in str(found)


def test_infinity_times_zero_is_blamed_on_who_made_the_infinity() -> None:
    def f(x: Any) -> Any:
        e = np.exp(x)
        return np.sum(e * np.array([1.0, 0.0]))

    found = one(wb.diagnose(f, np.array([1.0, 1000.0])))
    assert (found.kind, found.node.op.name) == ("overflow", "exp")
    assert [node.op.name for node in found.path] == ["exp", "multiply", "sum"]


def test_an_input_that_is_not_finite_is_named_with_its_counts() -> None:
    found = one(wb.diagnose(lambda x: np.sum(np.sin(x)), np.array([1, np.nan, np.nan])))
    assert found.kind == "input-not-finite"
    assert "2 NaN of 3" in found.title


def test_float32_that_overflows_is_told_of_float64() -> None:
    found = one(wb.diagnose(lambda x: np.sum(x**2), np.full(2, 1e30, np.float32)))
    assert found.kind == "overflow"
    assert "float64 reaches" in found.cause


@pytest.mark.long
def test_many_origins_on_one_line_are_one_finding() -> None:
    def f(x: Any) -> Any:
        total = 0.0
        for i in range(40):
            total = total + np.log(x[i])
        return total

    found = one(wb.diagnose(f, np.zeros(40)))
    assert "39 more nodes like it" in found.evidence


def test_errors_come_first_and_earlier_causes_before_later() -> None:
    def f(x: Any, w: Any) -> Any:
        return np.sum(np.sqrt(x - 1)) + np.sum(np.log(-x)) + np.sum(np.rint(w))

    found = wb.diagnose(f, np.full(2, 0.5), np.ones(2))
    assert kinds(found) == ["sqrt-of-negative", "log-of-negative", "rounded"]


# Gradients that do not arrive


def test_a_value_that_was_taken_out_is_found_where_it_is_read() -> None:
    found = one(wb.diagnose(lambda x, w: np.sum(x.value * w), np.ones(3), np.ones(3)))
    assert found.kind == "disconnected"
    assert found.node.name == "x"
    assert "multiply" in found.evidence


def test_a_function_that_returns_a_constant() -> None:
    found = one(wb.diagnose(lambda x: 3.0, np.ones(2)))
    assert (found.kind, found.node.name) == ("disconnected", "x")


def test_a_straight_through_rule_mends_rounding() -> None:
    f = lambda x: np.sum(np.rint(x) ** 2)  # noqa: E731
    found = one(wb.diagnose(f, np.array([0.4, 1.6])))
    rule = wb.override("rint", found.fix.rule)
    assert wb.grad(f, overrides=[rule])(np.array([0.4, 1.6])).tolist() == [0, 4]


# What runs is what is looked at


def test_overrides_around_it_are_in_force() -> None:
    with wb.overrides(wb.override("sqrt", "safe_sqrt")):
        assert list(wb.diagnose(length, np.zeros(2))) == []
    with wb.overrides(wb.override("sqrt", lambda node, g: g * np.nan, name="mine")):
        found = one(wb.diagnose(length, np.ones(2)))
    assert found.kind == "override-not-finite"
    assert "mine" in found.evidence


def test_inside_a_loop_the_step_is_named() -> None:
    def f(x: Any) -> Any:
        return np.sum(wb.scan(lambda t, c: np.sqrt((c - t) ** 2), np.arange(3.0), x))

    found = one(wb.diagnose(f, np.array([3.0, 9.0])))
    assert found.node.op.name == "scan"
    assert "at step 2: sqrt" in found.title
    found = one(
        wb.diagnose(
            lambda x: wb.scan(lambda c: np.log(c), n_steps=5, initial=x)[-1],
            np.float64(3.0),
        )
    )
    assert "at step 3: log" in found.title
    assert found.fix.rule is None


def test_nests_complex_numbers_empty_arrays_and_argnums() -> None:
    def f(d: Any, n: int) -> Any:
        return {"a": np.log(d["x"]), "b": [d["y"] * n]}

    found = one(wb.diagnose(f, {"x": np.zeros(1), "y": np.ones(2)}, 3))
    assert found.kind == "log-of-zero"
    assert list(wb.diagnose(lambda x: np.sum(np.exp(x)), np.ones((0, 3)))) == []
    z = one(wb.diagnose(lambda z: np.sum(np.abs(np.log(z))), np.array([0j, 1])))
    assert z.kind == "log-of-zero"
    f2 = lambda x, y: np.sum(x) + np.sum(np.rint(y))  # noqa: E731
    assert kinds(wb.diagnose(f2, np.ones(2), np.ones(2), argnums=0)) == []

    def f3(a: Any, b: Any, c: Any) -> Any:
        return np.sum(np.sqrt(b["x"]) * c)

    nested = (None, {"x": np.zeros(2), "none": None}, np.ones(2))
    assert kinds(wb.diagnose(f3, *nested)) == ["infinite-slope"]
    assert kinds(wb.diagnose(f3, *nested, argnums=-2)) == ["infinite-slope"]
    assert kinds(wb.diagnose(f3, *nested, argnums=(2,))) == ["zero-gradient"]


# A function that stops half-way


def test_an_error_half_way_comes_with_what_led_to_it() -> None:
    def f(x: Any) -> Any:
        y = np.log(x)
        return np.sum(np.linalg.cholesky(y * np.eye(2)))

    found = wb.diagnose(f, np.float64(-1.0))
    assert found[0].kind == "log-of-negative"

    def g(x: Any) -> Any:
        h = np.tanh(x)
        return h @ np.ones(7)

    found = wb.diagnose(g, np.ones(3))
    assert one(found).kind == "raised"
    assert "ShapeError" in found[0].evidence
    with pytest.raises(ZeroDivisionError):
        wb.diagnose(lambda x: 1 // 0, np.ones(2))


def test_what_it_refuses() -> None:
    with pytest.raises(UsageError, match="astype"):
        wb.diagnose(np.sum, np.arange(3))
    with pytest.raises(UsageError, match="argnums=2"):
        wb.diagnose(np.sum, np.ones(3), argnums=2)


# Progress, and being stopped


def test_progress_grows_and_true_stops_it() -> None:
    def f(x: Any) -> Any:
        for _ in range(2000):
            x = np.sin(x)
        return np.log(x - x)

    seen: list[tuple[int, int]] = []
    whole = wb.diagnose(
        f, np.float64(1.0), progress=lambda done, n: seen.append((done, n))
    )
    assert not whole.stopped
    assert seen == sorted(seen)
    assert all(done <= n for done, n in seen)
    early = wb.diagnose(f, np.float64(1.0), progress=lambda done, n: done > 3000)
    assert early.stopped
    assert kinds(early) == ["log-of-zero"]

    def interrupt(done: int, n: int) -> None:
        raise KeyboardInterrupt

    assert wb.diagnose(f, np.float64(1.0), progress=interrupt).stopped


def test_it_warns_of_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        wb.diagnose(lambda x: np.sum(np.log(x) / x), np.array([-1.0, 0.0]))


# How it is shown


def test_the_table_holds_text_and_no_markup() -> None:
    def f(x: Any) -> Any:
        y = np.log(x)
        y.name = "<script>alert(1)</script>"
        return np.sum(y)

    found = wb.diagnose(f, np.zeros(2))
    html = found._repr_html_()
    assert "<script>" not in html
    assert "&lt;script&gt;" in html
    assert repr(found).startswith("f: 1 error.\n0  error: log")
    assert repr(wb.diagnose(length, np.ones(2))) == "length: nothing to report."


# In a session


def made(f: Any, *args: Any) -> wb.Session:
    with np.errstate(all="ignore"):
        return wb.Session(wb.trace(f)(*args))


def test_G3_a_session_is_diagnosed_and_mended() -> None:
    session = made(length, np.zeros(2))
    told: list[str] = []
    session.subscribe(told.append)
    found = session.diagnose()
    assert session.findings is found
    assert session.stale == frozenset()
    assert told == ["checks"]
    assert one(found).node is session.graph.nodes[3]
    assert "sqrt 3" in found[0].title
    attached = session.fix(0)
    assert attached.matched == (3,)
    assert session.grads["x"].tolist() == [0, 0]
    assert session.stale == {"findings"}
    assert list(session.diagnose()) == []
    session.undo()
    assert kinds(session.diagnose()) == ["infinite-slope"]
    session.run(x=np.array([3.0, 4.0]))
    assert list(session.diagnose()) == []


def test_a_finding_of_an_earlier_run_is_still_mended_at_its_node() -> None:
    session = made(length, np.zeros(2))
    found = session.diagnose()
    session.run(x=np.array([3.0, 4.0]))
    assert session.fix(found[0]).matched == (3,)


def test_where_the_program_has_to_change_the_line_comes_back() -> None:
    session = made(lambda z: np.log(np.sum(np.exp(z))), np.array([0.0, 1000.0]))
    session.diagnose()
    line = session.fix(0)
    assert isinstance(line, str)
    assert line == "wb.logsumexp(z)  # nothing is attached: write this in the program"
    assert eval(line, {"wb": wb, "z": np.array([0.0, 1000.0])}) == 1000
    assert session.overrides == []


def test_what_a_session_refuses() -> None:
    session = made(length, np.ones(2))
    with pytest.raises(UsageError, match=r"ad\.diagnose\(\) first"):
        session.fix(0)
    session.diagnose()
    with pytest.raises(UsageError, match=r"found nothing.*ad\.diagnose\(\) looks"):
        session.fix(0)


def test_the_check_of_a_gradient_that_is_nan_sends_to_the_doctor() -> None:
    text = made(length, np.zeros(2)).check().summary()
    assert "with respect to x[0] is nan" in text
    assert "Ask ad.diagnose() for the node where that begins" in text
    assert "tolerance" not in text
    mended = made(length, np.zeros(2))
    mended.override("sqrt", "safe_sqrt")
    text = mended.check().summary()
    assert "Where no override (safe sqrt) stands in for it, ask ad.diagnose()" in text
    with (
        pytest.raises(GradientError, match=r"is nan.*Ask wb\.diagnose\(f, \*args\)"),
        np.errstate(all="ignore"),
    ):
        wb.check_grads(length, np.zeros(2), order=1)


@pytest.mark.parametrize("everywhere", [False, True])
def test_the_line_of_a_fix_is_one_of_the_session_and_mends_it(everywhere: bool) -> None:
    def f(x: Any) -> Any:
        y = x
        if everywhere:  # a growth that one clipped step would not stop
            for _ in range(30):
                y = 40.0 * y
            return np.sum(y)
        return np.sum(np.sqrt(y))

    with np.errstate(all="ignore"):
        session = wb.Session(wb.trace(f)(np.array([0.0, 4.0])), name="net")
    (found,) = session.diagnose()
    assert found.fix is not None
    assert found.fix.rule is not None
    exec(found.fix.code, {"net": session})
    (attached,) = session.overrides
    assert attached.rule == found.fix.rule
    assert attached.matched == session.fix(found).matched
    assert len(attached.matched) == (30 if everywhere else 1)
    if not everywhere:
        np.testing.assert_array_equal(session.grads["x"], [0.0, 0.25])
