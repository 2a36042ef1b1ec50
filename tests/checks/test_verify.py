"""Gradient checks: right ones pass, each kind of wrong one is named."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.checks import comparison
from workbench.checks.gradient_check import check_grads, compare_gradients
from workbench.checks.report import Report
from workbench.core.op import declare
from workbench.core.tensor import apply
from workbench.errors import GradientError, UsageError


def broken(pull: Any, push: Any = None, name: str = "broken_for_check_test") -> Any:
    """`sin` as an op with rules of the test's choice."""
    op = declare(name)
    op.compute = np.sin
    op.elementwise = True
    op.pull = lambda mask, g, y, inputs, params: (pull(g, y, *inputs),)
    op.push = None
    if push is not None:
        op.push = lambda tangents, y, inputs, params: push(tangents[0], y, *inputs)

    def f(x: Any) -> Any:
        return apply(op, (x,)) if isinstance(x, wb.Tensor) else np.sin(x)

    return f


RIGHT = {
    "elementwise": (lambda x: np.tanh(x) * x, (3,)),
    "matrix": (lambda X: X @ X.T / (1 + np.sum(X**2)), (2, 3)),
    "many outputs": (lambda x: {"a": np.exp(x), "b": [np.sum(x), x[0] * x]}, (3,)),
    "relu away from the kink": (lambda x: np.maximum(x, 0.123), (4,)),
    "scalar": (lambda x: x**3, ()),
    "logsumexp": (lambda x: np.log(np.sum(np.exp(x))), (4,)),
    "constant": (lambda x: np.ones(2), (2,)),
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_gradients_pass(name: str, rng: np.random.Generator) -> None:
    f, shape = RIGHT[name]
    report = check_grads(f, (rng.standard_normal(shape),))
    assert isinstance(report, Report)
    assert report.ok
    orders = {(c.order, c.mode) for c in report.comparisons}
    assert orders == {
        (1, "fwd"),
        (1, "rev"),
        (2, "fwd over fwd"),
        (2, "rev over fwd"),
        (2, "fwd over rev"),
        (2, "rev over rev"),
    }
    assert all(len(c.entries) == c.size for c in report.comparisons)


def test_the_truth_is_good_to_many_digits(rng: np.random.Generator) -> None:
    # The derivative is 0 at 1, and next to it no difference has so many digits.
    x = rng.uniform(-2, 0.5, 4)
    report = check_grads(lambda x: np.exp(x) / (1 + x**2), x)
    for c in report.comparisons:
        assert np.all(c.relative[c.numeric != 0] < 1e-9)
    (line,) = [i for i in report.identities if "along a line" in i.name]
    assert line.error < 1e-6


def test_a_wrong_reverse_rule_is_named() -> None:
    f = broken(lambda g, y, x: 1.5 * g * np.cos(x), lambda t, y, x: t * np.cos(x))
    W = np.array([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]])
    with pytest.raises(GradientError) as caught:
        check_grads(lambda W, b: np.sum(f(W) + b), (W, np.ones(3)), order=1, seed=7)
    text, report = str(caught.value), caught.value.report
    assert isinstance(report, Report)
    worst = report.worst
    assert worst is not None
    assert worst.argument == "W"
    assert worst.place in text
    assert "wrong (reverse mode)" in text
    assert f"expected {worst.numeric:.10g}" in text
    assert f"got {worst.analytic:.10g}" in text
    assert "6 entries are off" in text
    assert "seed 7" in text
    assert "test_verify.py:" in text
    assert abs(worst.analytic / worst.numeric - 1.5) < 1e-9
    wrong = {(e.argument, e.mode) for e in report.wrong}
    assert wrong == {("W", "rev")}
    assert [i.holds for i in report.identities] == [False]  # the adjoint test


def test_a_wrong_forward_rule_is_named() -> None:
    f = broken(lambda g, y, x: g * np.cos(x), lambda t, y, x: -t * np.cos(x))
    with pytest.raises(GradientError, match=r"wrong \(forward mode\)") as caught:
        check_grads(f, np.array([0.5]), order=1)
    report: Any = caught.value.report
    assert {e.mode for e in report.wrong} == {"fwd"}


def test_a_rule_whose_own_derivative_is_wrong_shows_at_order_two() -> None:
    """The slope is right, but a constant for whoever differentiates it."""
    f = broken(lambda g, y, x: g * wb.stop_gradient(np.cos(x)))
    assert check_grads(f, np.array([0.5]), order=1).ok
    with pytest.raises(GradientError, match=r"the second derivative of .* is wrong"):
        check_grads(f, np.array([0.5]), order=2)


def test_both_modes_wrong_alike_are_caught_by_values() -> None:
    """Forward agrees with reverse; only differences of values can tell."""
    f = broken(lambda g, y, x: 2 * g * np.cos(x), lambda t, y, x: 2 * t * np.cos(x))
    with pytest.raises(GradientError) as caught:
        check_grads(f, np.array([0.5, 1.0]), order=1)
    report: Any = caught.value.report
    assert all(i.holds for i in report.identities)
    assert len(report.wrong) == 4


def test_one_wrong_entry_among_many() -> None:
    def pull(g: Any, y: Any, x: Any) -> Any:
        return g * np.cos(x) * np.where(np.arange(30, like=x) == 17, 1.001, 1.0)

    f = broken(pull)
    with pytest.raises(GradientError, match=r"with respect to x\[17\]") as caught:
        check_grads(lambda x: f(x), np.full(30, 0.5), order=1, modes=("rev",))
    report: Any = caught.value.report
    assert [e.index for e in report.wrong] == [(17,)]


def test_nan_in_a_gradient_is_wrong() -> None:
    f = broken(lambda g, y, x: g * np.cos(x) * np.nan)
    with pytest.raises(GradientError, match="is nan"):
        check_grads(f, np.array([0.5]), order=1, modes=("rev",))


# Kinks


def test_subgradients_at_kinks_pass_and_are_counted() -> None:
    report = check_grads(lambda x: np.abs(x), np.array([0.0, 1.0]))
    assert report.ok
    first = report.comparisons[0]
    np.testing.assert_array_equal(first.kinks, [True, False])
    assert "at a kink" in report.summary()


def test_what_lies_outside_the_two_sides_is_wrong_at_a_kink() -> None:
    op = declare("kink_for_check_test")
    op.compute, op.elementwise = np.abs, True
    op.pull = lambda mask, g, y, inputs, params: (g * np.where(inputs[0] < 0, -1, 3),)

    def f(x: Any) -> Any:
        return apply(op, (x,)) if isinstance(x, wb.Tensor) else np.abs(x)

    with pytest.raises(GradientError) as caught:
        check_grads(f, np.array([0.0, -1.0]), order=1, modes=("rev",), seed=1)
    report: Any = caught.value.report
    assert [e.index for e in report.wrong] == [(0,)]


def test_relu_at_its_kink_up_to_second_order() -> None:
    x = np.array([0.0, 1.0, -1.0])
    assert check_grads(lambda x: np.sum(np.maximum(x, 0) ** 2), x).ok
    assert check_grads(lambda x: np.maximum(x, 0), x).ok


# What is checked


def test_a_cap_on_entries_and_a_seed_that_repeats(rng: np.random.Generator) -> None:
    x = rng.standard_normal((40, 50))

    def run(seed: int | None) -> Report:
        return check_grads(
            lambda x: np.sum(np.sin(x)),
            x,
            order=1,
            modes=("rev",),
            entries=5,
            seed=seed,
        )

    first = run(None)
    assert len(first.comparisons[0].entries) == 5
    assert f"5 of 2000 entries checked, seed {first.seed}" in str(first)
    again, other = run(first.seed), run(first.seed + 1)
    np.testing.assert_array_equal(
        first.comparisons[0].checked, again.comparisons[0].checked
    )
    assert list(first.comparisons[0].checked) != list(other.comparisons[0].checked)


def test_integers_and_nests_among_the_arguments(rng: np.random.Generator) -> None:
    p = {"w": rng.standard_normal(3), "n": 2}
    report = check_grads(lambda p, k: p["w"] ** p["n"] * k, (p, 3))
    (name,) = {c.argument for c in report.comparisons}
    assert name == "p['w']"


def test_single_precision(rng: np.random.Generator) -> None:
    x = rng.standard_normal(4).astype(np.float32)
    assert check_grads(lambda x: np.sum(np.exp(x) * x), x).ok
    f = broken(lambda g, y, x: 1.02 * g * np.cos(x))
    with pytest.raises(GradientError):
        check_grads(f, x, order=1, modes=("rev",))


def test_complex_arguments_and_outputs(rng: np.random.Generator) -> None:
    z = rng.standard_normal(3) + 1j * rng.standard_normal(3)
    assert check_grads(lambda z: z**2 * np.sum(z), z).ok
    assert check_grads(lambda z: np.real(z * np.conj(z)), z).ok
    assert check_grads(lambda x: np.exp(1j * x), rng.standard_normal(3)).ok
    f = broken(lambda g, y, x: g * np.conj(np.cos(x)), name="complex_for_check_test")
    with pytest.raises(GradientError):
        check_grads(f, z, order=1, modes=("rev",))


def test_third_order(rng: np.random.Generator) -> None:
    report = check_grads(np.sin, rng.standard_normal(2), order=3)
    assert {c.order for c in report.comparisons} == {1, 2, 3}


def test_it_can_be_stopped(rng: np.random.Generator) -> None:
    seen = []

    def progress(done: int, total: int) -> bool:
        seen.append((done, total))
        return done == 3

    report = check_grads(np.sin, rng.standard_normal(10), order=1, progress=progress)
    assert report.stopped
    assert "stopped early" in report.summary()
    # Once for each piece, and again during one that is long.
    assert [*dict.fromkeys(seen)] == [(0, 10), (1, 10), (2, 10), (3, 10)]
    assert len(report.comparisons[0].entries) == 3


def test_an_interrupt_leaves_what_was_checked(rng: np.random.Generator) -> None:
    calls = []

    def f(x: Any) -> Any:
        if not isinstance(x, wb.Tensor):
            calls.append(x)
            if len(calls) == 40:
                raise KeyboardInterrupt
        return np.sin(x)

    report = check_grads(f, rng.standard_normal(20))
    assert report.stopped
    assert report.ok
    assert 0 < len(report.comparisons[0].entries) < 20


def test_options_that_do_not_fit() -> None:
    with pytest.raises(UsageError, match="Modes are 'fwd' and 'rev'"):
        check_grads(np.sin, 1.0, modes=("backwards",))
    with pytest.raises(UsageError, match=r"x\.astype\(float\)"):
        check_grads(np.sin, np.arange(3))


# Gradients that exist already


def test_gradients_of_a_program_that_runs(rng: np.random.Generator) -> None:
    from workbench.backends.numpy import compile

    # Between 0.1 and 4 before tanh, so that no gradient by b is below the clip.
    W, b, x = (rng.uniform(0.1, 1, shape) for shape in ((2, 3), 2, 3))

    def loss(W: Any, b: Any) -> Any:
        return np.sum(np.tanh(W @ x + b) ** 2)

    function = compile(wb.trace(loss)(W, b))
    gradients = wb.grad(loss, (0, 1))(W, b)
    report = compare_gradients(
        lambda *arrays: function(*arrays)[0], [W, b], gradients, names=["W", "b"]
    )
    assert report.ok
    assert [c.argument for c in report.comparisons] == ["W", "b"]
    assert all(
        e.method == "complex step" for c in report.comparisons for e in c.entries
    )
    clipped = [np.clip(g, -1e-3, 1e-3) for g in gradients]
    report = compare_gradients(
        lambda *arrays: function(*arrays)[0],
        [W, b],
        clipped,
        names=["W", "b"],
        name="loss",
    )
    assert not report.ok
    assert "the gradient of loss with respect to" in report.summary()
    with pytest.raises(GradientError) as caught:
        report.raise_if_wrong()
    assert caught.value.report is report


def test_a_report_reads_well() -> None:
    report = check_grads(lambda x: np.sum(x**2), np.arange(1.0, 4.0), order=1, seed=3)
    assert "gradients agree with differences" in repr(report)
    lines = str(report).splitlines()
    assert any(line.startswith("ok   order 1 fwd  x: 3 of 3 entries") for line in lines)
    assert any(line.startswith("ok   the adjoint test") for line in lines)


def test_a_wrong_gradient_is_said_before_what_is_derived_from_it() -> None:
    wrong = wb.custom_vjp(lambda x: np.sin(x), vjp=lambda node, g: 2 * g)
    with pytest.raises(GradientError, match=r"^the gradient of ") as error:
        wb.check_grads(lambda x: wrong(x) ** 2, 0.3, seed=3)
    report: Any = error.value.report
    assert report.worst.order == 1
    assert {e.order for e in report.wrong} == {1, 2}


def test_what_is_not_finite_is_said_once_and_by_no_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(GradientError, match=r"The rule of sqrt .* makes it"):
            wb.check_grads(lambda x: np.sum(np.sqrt(x**4)), np.zeros(2))


@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("scale", [1e-12, 1e-6, 1, 1e6])
def test_G5_a_wrong_rule_is_found_at_any_scale(scale: float, dtype: str) -> None:
    """Of a loss of 1e-12 each entry lies within atol, and the rule is found."""
    wrong = wb.custom_vjp(np.sin, vjp=lambda node, g: 2 * g * np.cos(node.inputs[0]))
    x, size = np.array([0.3, 0.4, 1.1], dtype), np.asarray(scale, dtype)
    with pytest.raises(GradientError, match="The rule of custom_sin"):
        wb.check_grads(lambda x: np.sum(wrong(x)) * size, x, order=1)
    wb.check_grads(lambda x: np.sum(np.sin(x)) * size, x, order=1)


@pytest.mark.parametrize("scale", [1e-12, 1e-3, 1, 1e6])
def test_G5_gradients_that_cancel_to_zero_are_right(scale: float) -> None:
    """What is left is rounding, which differs from mode to mode."""
    x = np.array([0.3, 0.4, 1.1])

    def softmax(x: Any) -> Any:
        return np.exp(x) / np.sum(np.exp(x))

    for seed in range(5):
        wb.check_grads(lambda x: scale * np.sum(x - np.mean(x)), x, seed=seed)
        wb.check_grads(lambda x: scale * np.sum(softmax(x)), x, seed=seed)


def test_an_override_that_changes_a_gradient_on_purpose_is_told_and_not_wrong() -> None:
    def f(x: Any) -> Any:
        return np.sum(np.sin(x) * x)

    x = np.array([0.3, 1.1])
    with wb.overrides(wb.override("sin", "0.5 * d")):
        report = check_grads(f, x)
    assert report.ok
    assert report.overridden == ("scale ×0.5",)
    true, half = np.sin(x) + x * np.cos(x), np.sin(x) + 0.5 * x * np.cos(x)
    (changed,) = report.changed.values()
    assert changed == pytest.approx(
        np.linalg.norm(half - true) / np.linalg.norm(true), rel=1e-12
    )
    assert "change x by" in report.summary()


def test_an_override_that_mends_a_wrong_rule_is_checked_in_its_place() -> None:
    f = broken(lambda g, y, x: 2 * g * np.cos(x))
    with pytest.raises(GradientError):
        check_grads(f, np.array([0.3, 1.1]), order=1)
    x0 = np.array([0.3, 1.1])
    mended = wb.override(
        lambda node: node.op.name == "broken_for_check_test",
        lambda node, g: [g * np.cos(node.inputs[0])],
    )
    with wb.overrides(mended):
        assert check_grads(f, x0, order=1).overridden == ()


# How often it evaluates


def test_a_derivative_is_traced_once_and_not_for_each_step() -> None:
    """Of 20 entries some thirty values each: all those of f are of plain arrays."""
    calls = {"traced": 0, "plain": 0}

    def f(x: Any) -> Any:
        calls["traced" if isinstance(x, wb.Tensor) else "plain"] += 1
        return np.sum(np.tanh(x) ** 2 * x)

    report = check_grads(f, np.linspace(-1, 1, 20))
    assert len(report.comparisons) == 6
    assert calls["plain"] > 100
    assert calls["traced"] < 40


ALIKE = {
    "a network": (lambda x: np.sum(np.tanh(x @ x.T) ** 2), (3, 3)),
    "a kink": (lambda x: np.maximum(x, 0) ** 2 * np.sign(x) + np.abs(x), (4,)),
    "a branch": (lambda x: x**2 if x[0] > -9 else x**3, (3,)),
    "several": (lambda x: {"a": np.exp(x), "b": [np.sum(x), x[0] * x]}, (3,)),
    "matrices": (lambda x: np.linalg.inv(x @ x.T + np.eye(3)), (3, 3)),
    "a complex one": (lambda x: np.abs(np.exp(1j * x)) * x**3, (3,)),
}


@pytest.mark.parametrize("name", ALIKE)
def test_programs_of_derivatives_are_held_against_the_same_values(
    name: str, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As without them: verdicts, ways and numbers, at kinks too."""
    f, shape = ALIKE[name]
    x = rng.standard_normal(shape)
    if name == "a kink":
        x[:2] = 0
    seen = []
    for replace in (False, True):
        if replace:
            monkeypatch.setattr(comparison, "compile_if_traceable", lambda f, arrays: f)
        seen.append(check_grads(f, x, seed=4))
    for made, plain in zip(seen[0].comparisons, seen[1].comparisons, strict=True):
        for a, b in zip(made.entries, plain.entries, strict=True):
            assert (a.place, a.verdict) == (b.place, b.verdict)
            # In forward mode the worst output is told, which may be another.
            if a.verdict == "right" and a.mode.startswith("rev"):
                assert abs(a.numeric - b.numeric) <= a.tolerance + b.tolerance


def test_a_wrong_second_derivative_is_found_by_its_program_too() -> None:
    f = broken(lambda g, y, x: g * wb.stop_gradient(np.cos(x)))
    with pytest.raises(GradientError, match="second derivative") as caught:
        check_grads(f, np.linspace(0.1, 1, 5), order=2)
    report: Any = caught.value.report
    assert {e.order for e in report.wrong} == {2}
    assert len([e for e in report.wrong if e.mode == "rev over rev"]) == 5


def test_what_is_infinite_in_both_modes_is_no_wrong_rule() -> None:
    report = check_grads(lambda x: np.sum(np.sqrt(x)), np.zeros(3), order=1)
    assert report.ok
    assert "Ask wb.diagnose" in report.summary()
    assert "?    the adjoint test: not finite on both sides" in str(report)


def test_what_differences_cannot_tell_is_refused_in_words() -> None:
    with pytest.raises(UsageError, match="returns bool, and only floats"):
        check_grads(lambda x: x > 0, np.ones(3))
    draws = np.random.default_rng(0)
    with pytest.raises(UsageError, match="other values when it is called again"):
        check_grads(lambda x: np.sum(x * draws.random(3)), np.ones(3))
    report = check_grads(lambda x: np.sum(np.abs(x)), np.zeros(3))
    assert "every entry lies at a kink" in report.summary()


def test_outputs_without_entries_are_checked() -> None:
    report = wb.check_grads(
        lambda x: np.linspace(x, 2 * x, 0), 1.2, order=2, modes=("fwd", "rev")
    )
    assert report.ok


def test_complex_outputs_of_an_argument_with_many_entries() -> None:
    """Their weighted sum is differentiated along one direction of all entries."""
    x = np.linspace(-1, 1, 125).reshape(5, 5, 5)
    wb.check_grads(lambda x: np.fft.fftn(x, s=(5, 3), axes=(0, 1)), x)
