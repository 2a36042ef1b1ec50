"""Poles, what overflows with both signs, what has cancelled, what a mask leaves in."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.scipy import special


def one(f: Any, *args: Any) -> Any:
    (found,) = wb.diagnose(f, *args)
    return found


# Poles are no overflow


@pytest.mark.parametrize(
    ("name", "x"),
    [
        ("gammaln", 0.0), ("gamma", 0.0), ("digamma", 0.0), ("k0", 0.0), ("y0", 0.0),
        ("exp1", 0.0), ("expi", 0.0), ("ellipk", 1.0), ("gamma", -2.0),
        ("gammaln", -3.0),
    ],
)  # fmt: skip
def test_a_pole_is_called_one(name: str, x: float) -> None:
    function = getattr(special, name)
    found = one(lambda w: np.sum(function(w)), np.array([0.5, x]))
    assert (found.kind, found.node.op.name) == ("pole", name)
    assert found.title == f"{name} has a pole at {x:g}"
    assert "larger" not in found.cause


@pytest.mark.parametrize(
    ("f", "x", "op"),
    [
        (lambda w: special.gamma(w), 200.0, "gamma"),
        (lambda w: special.iv(0, w), 2000.0, "iv"),
        (lambda w: special.gammaln(w), 1e307, "gammaln"),
        (lambda w: np.exp(w), 710.0, "exp"),
    ],
)
def test_what_grows_on_and_on_overflows(f: Any, x: float, op: str) -> None:
    found = wb.diagnose(lambda w: np.sum(f(w)), np.array([0.5, x]))
    assert (found[0].kind, found[0].node.op.name) == ("overflow", op)


@pytest.mark.parametrize(
    ("f", "op"),
    [
        (lambda w: special.xlogy(w, w), "xlogy"),
        (lambda w: special.xlog1py(w, w - 1), "xlog1py"),
        (lambda w: special.entr(w), "entr"),
        (lambda w: special.rel_entr(w, 0.5), "rel_entr"),
        (lambda w: special.kl_div(w, 0.5), "kl_div"),
    ],
)
def test_a_kink_with_an_infinite_slope_is_called_so(f: Any, op: str) -> None:
    found = one(lambda w: np.sum(f(w)), np.array([0.0, 0.5]))
    assert (found.kind, found.node.op.name) == ("infinite-slope", op)
    assert "overflow" not in found.title + found.cause
    assert "passed on: 1 infinite of 2" in found.evidence


# Overflow with both signs


@pytest.mark.parametrize(
    ("f", "x", "op"),
    [
        (
            lambda a: np.sum(a @ np.diag([1, -1]) @ a.T),
            np.full((2, 2), 1e200),
            "matmul",
        ),
        (
            lambda a: np.sum(np.einsum("i,i", a, a * [1, -1])),
            np.full(2, 1e200),
            "einsum",
        ),
        (lambda a: np.prod(a), np.array([1e300, 1e300, 0.0]), "prod"),
        (lambda a: np.sum(np.fft.fft(a)), np.array([1e308, -1e308] * 4), "fft"),
        (lambda a: np.var(a), np.array([1e300, -1e300]), "var"),
    ],
)
def test_terms_that_overflow_are_to_blame(f: Any, x: Any, op: str) -> None:
    found = wb.diagnose(f, x)
    assert (found[0].kind, found[0].node.op.name) == ("overflow", op)
    assert "not defined" not in found[0].cause


# Rounding that is all there is


def variance(z: Any) -> Any:
    return np.mean(z**2) - np.mean(z) ** 2


@pytest.mark.parametrize("outer", [np.log, np.sqrt, lambda v: 1 / v])
def test_a_variance_that_has_cancelled_is_to_blame(outer: Any) -> None:
    x = np.float32(1000) + np.array([0, 0.01, 0.02, 0.03], np.float32)
    true = np.var(x.astype(float))
    assert true > 1e-5

    def f(z: Any) -> Any:
        v = np.mean(z**2) - np.mean(z) ** 2
        return outer(v)

    found = one(f, x)
    assert (found.kind, found.node.op.name) == ("cancellation", "subtract")
    assert "v = np.mean(z**2) - np.mean(z) ** 2" in found.place
    assert f"in higher precision {true:.6g}" in found.evidence
    assert found.fix is not None
    mend = eval(found.fix.code, {"np": np, "z": x})
    assert mend in (pytest.approx(true, rel=1e-2), pytest.approx(true**0.5, rel=1e-2))


def test_a_sum_that_has_cancelled_is_to_blame_too() -> None:
    terms = np.array([1e8, 1.0, -1e8], np.float32)
    found = one(lambda a: np.log(np.sum(a * np.float32(1))), terms)
    assert (found.kind, found.node.op.name) == ("cancellation", "sum")


def test_what_is_0_is_no_cancellation() -> None:
    assert one(lambda z: np.log(variance(z)), np.full(5, 2.0)).kind == "log-of-zero"
    assert one(lambda p: np.log(p[0] - p[1]), np.ones(2)).kind == "log-of-zero"
    assert one(lambda p: np.log(1 - p), np.float64(1)).kind == "log-of-zero"


# What is thrown away


A = np.array([-1.0, 0.0, 2.0])
#: A program, who drops the bad entries and how it is said, what to write, its value.
MASKED: list[tuple[Any, str, str, float]] = [
    (lambda x: np.sum((x > 0) * np.log(x)), "multiplies by 0 there, with x > 0",
     "np.where(x > 0, np.log(x), 0)", np.log(2)),
    (lambda x: np.sum((x > 0) * np.sqrt(np.abs(x))), "multiplies by 0 there, with x >",
     "np.where(x > 0, np.sqrt(np.abs(x)), 0)", 2**0.5),
    (lambda x: np.sum(np.minimum(1 / x, 9.0)), "takes the other operand",
     "np.where((1 / x) < 9.0, 1 / x, 9.0)", 8.5),
    (lambda x: np.log(x)[2], "does not use these entries", "np.log(x[2])", np.log(2)),
    (lambda x: np.sqrt(x)[2], "does not use these entries", "np.sqrt(x[2])", 2**0.5),
    (lambda x: np.sum(np.take(np.sqrt(x), [2])), "does not use these entries", "", 0),
]  # fmt: skip


@pytest.mark.parametrize("k", range(len(MASKED)))
def test_who_drops_what_is_not_finite_is_named(k: int) -> None:
    f, who, code, value = MASKED[k]
    found = one(f, A)
    assert who in found.cause
    assert found.fix is not None
    assert code in f"{found.fix.text} {found.fix.code}"
    if code:
        # The line has the value that was wanted, and a finite gradient.
        g = lambda x: np.sum(eval(code, {"np": np, "x": x}))  # noqa: E731
        with np.errstate(all="ignore"):
            assert g(A) == pytest.approx(value)
            assert np.isfinite(wb.grad(g)(A)).all()


def test_a_factor_that_is_not_0_there_is_no_mask() -> None:
    found = one(lambda x: np.sum((x < 1) * np.sqrt(x)), np.array([0.0, 2.0]))
    assert "masks nothing" not in found.cause
