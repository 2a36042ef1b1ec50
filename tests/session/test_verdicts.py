"""Verdicts of a check, right, wrong and changed on purpose; captions of derivatives."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import workbench as wb
from tests.session.network import NAMES, TRUE, by_hand, fresh
from workbench.core.drawing import MOST_CARDS
from workbench.core.op import declare
from workbench.core.tensor import apply
from workbench.errors import GradientError
from workbench.jupyter import plots
from workbench.jupyter.picture import draw_picture
from workbench.session import derivative as derivatives
from workbench.session.wire import take_snapshot


@pytest.fixture
def model() -> wb.Session:
    return fresh()


def off(g: Any, true: Any) -> float:
    return float(np.linalg.norm(g - true) / np.linalg.norm(true))


# The report


def test_a_gradient_that_an_override_sets_to_zero_is_changed_not_right(
    model: wb.Session,
) -> None:
    assert model.check().verdict == "right"
    model.override("h", "0 * d", name="stop")
    report = model.check()
    assert (report.ok, report.verdict) == (True, "changed")
    assert report.changed == {"W1": 1.0, "b1": 1.0, "W2": 0.0, "b2": 0.0}
    assert report.changers == {"W1": ("stop",), "b1": ("stop",)}
    verdicts = {c.argument: report.judge(c) for c in report.comparisons}
    assert verdicts == dict(zip(NAMES, ["changed"] * 2 + ["right"] * 2, strict=True))
    words = "overrides (stop) change W1 by 100 %, b1 by 100 % on purpose"
    assert words in report.summary()
    assert "Compared is the true gradient: it agrees" in report.summary()
    assert repr(report).startswith("<Report changed on purpose: loss: overrides (stop)")
    lines = str(report).splitlines()
    (said,) = [line for line in lines if "given  W1" in line]
    assert said.startswith("changed order 1")
    assert "overrides (stop) change W1 by 100 % on purpose; of the true one" in said
    (said,) = [line for line in lines if "given  W2" in line]
    assert said.startswith("ok ")
    assert not [line for line in lines if line.startswith("ok") and "W1" in line]
    assert ">changed</td>" in report._repr_html_()
    assert report.raise_if_wrong() is report
    # The true rule again, and it is right again.
    model.undo()
    assert model.check().verdict == "right"


def test_by_how_much_is_what_the_gradient_by_hand_says(model: wb.Session) -> None:
    model.override("h", "clip(d, -0.02, 0.02)")
    true = by_hand(TRUE)
    cut = by_hand(lambda g, d, x, y: np.clip(d, -0.02, 0.02))
    report = model.check()
    for name in NAMES:
        assert report.changed[name] == pytest.approx(off(cut[name], true[name]))
    assert f"W1 by {100 * off(cut['W1'], true['W1']):.3g} %" in report.changes()
    assert report.changes("W2") == ""


def test_which_override_changes_which_gradient(model: wb.Session) -> None:
    model.override("tanh", "3 * d", name="outdone")  # the node has the say
    model.override("h", "0.5 * d", name="half")
    model.override("log", "3 * d", name="twice")
    model.override("negative", "clip(d, -1e9, 1e9)", name="idle")
    unused = model.override("exp", "7 * d", name="off")
    model.switch(unused, False)
    report = model.check()
    assert report.verdict == "changed"
    assert report.changers["W1"] == report.changers["b1"] == ("half", "twice")
    assert report.changers["W2"] == report.changers["b2"] == ("twice",)
    text = report.changes()
    assert "overrides (half, twice) change W1 by" in text
    assert "; overrides (twice) change W2 by" in text
    assert not re.search("idle|outdone|off", text)


def test_an_override_that_changes_nothing_leaves_it_right(model: wb.Session) -> None:
    model.override("h", "clip(d, -1e9, 1e9)")
    report = model.check()
    assert (report.verdict, report.changers) == ("right", {})
    assert "Overrides (clip ±1000000000) change nothing here" in report.summary()
    assert "runs 'clip ±1000000000', which changes nothing here" in str(report)


def test_what_is_wrong_stays_wrong_beside_what_is_changed() -> None:
    op = declare("wrong_for_verdict_test")
    op.compute, op.push = np.sin, None
    op.pull = lambda mask, g, y, inputs, params: (2 * g * np.cos(inputs[0]),)

    def bad(x: Any) -> Any:
        return apply(op, (x,))

    def f(x: Any, y: Any) -> Any:
        return np.sum(bad(x) + np.tanh(y))

    session = wb.Session(wb.trace(f)(np.array([0.3, 0.7]), np.array([0.2, 0.5])))
    session.override("tanh", "0 * d", name="stop")
    report = session.check()
    assert (report.ok, report.verdict) == (False, "wrong")
    verdicts = {c.argument: report.judge(c) for c in report.comparisons}
    assert verdicts == {"x": "wrong", "y": "changed"}
    assert "x[1] is wrong" in report.summary() or "x[0] is wrong" in report.summary()
    assert "overrides (stop) change y by 100 % on purpose, besides" in report.summary()
    assert repr(report).startswith("<Report WRONG")
    with pytest.raises(GradientError, match="besides"):
        report.raise_if_wrong()


def test_equations_speak_of_the_gradients_that_they_name(model: wb.Session) -> None:
    model.override("h", "0 * d", name="stop")
    report = model.check(entries=1, seed=0)
    found = {i.arguments: report.judge(i) for i in report.identities}
    assert found, "a few entries are checked, the others along a direction"
    for names, verdict in found.items():
        assert verdict == ("changed" if {"W1", "b1"} & set(names) else "right")


def test_an_inner_node_is_told_by_what_runs_below_it(model: wb.Session) -> None:
    model.override("h", "0 * d", name="stop")
    model.override("log", "2 * d", name="twice")
    report = model.check(["h"])
    assert report.changers == {"h": ("twice",)}


#: Ops that are there to change a gradient, and what reaches tanh(x) through each.
OPS: dict[str, tuple[Any, float]] = {
    "stop_gradient": (wb.stop_gradient, 0.0),
    "zero_grad": (wb.gradient.zero_grad, 0.0),
    "grad_clip": (lambda x: wb.gradient.grad_clip(x, -0.25, 0.25), 0.25),
    "grad_scale": (lambda x: wb.gradient.grad_scale(x, 3.0), 3.0),
}


@pytest.mark.parametrize("op", OPS)
def test_ops_that_change_a_gradient_do_so_on_purpose(op: str) -> None:
    change, passed = OPS[op]

    def f(x: Any) -> Any:
        return np.sum(change(np.tanh(x)) + x)

    x = np.array([0.3, -1.2])
    slope = 1 - np.tanh(x) ** 2
    session = wb.Session(wb.trace(f)(x))
    assert_allclose(session.grads["x"], passed * slope + 1, rtol=1e-13)
    expected = off(passed * slope + 1, slope + 1)
    with wb.overrides():
        for report in (session.check(), wb.check_grads(f, x)):
            assert report.verdict == "changed"
            assert report.changed == {"x": pytest.approx(expected)}
            assert report.changers == {"x": (op,)}
            assert f"{op} changes x by {100 * expected:.3g} %" in report.summary()
    # Where an override lets it pass, nothing is changed.
    session.override(op, "g")
    assert session.check().verdict == "right"


def test_an_op_inside_a_loop_is_found_too() -> None:
    def f(w: Any) -> Any:
        def step(h: Any, w: Any) -> Any:
            return np.tanh(w * wb.stop_gradient(h))

        return np.sum(wb.scan(step, None, [np.full(2, 0.5)], w, n_steps=3))

    w = np.array([0.5, -0.3])
    for report in (wb.Session(wb.trace(f)(w)).check(), wb.check_grads(f, w, order=1)):
        assert report.verdict == "changed", report
        assert report.changers == {"w": ("stop_gradient",)}


def test_blocks_of_overrides_say_which_of_them_it_was() -> None:
    def f(x: Any, y: Any) -> Any:
        return np.sum(np.sin(x) * np.tanh(y))

    x, y = np.array([0.3, 1.1]), np.array([0.2, 0.9])
    half, none = (
        wb.override("sin", "0.5 * d"),
        wb.override("tanh", "0 * d", name="stop"),
    )
    idle = wb.override("multiply", "1 * d")
    with wb.overrides(half, idle), wb.overrides(none):
        report = wb.check_grads(f, (x, y))
    assert report.verdict == "changed"
    assert report.changed == {"x": pytest.approx(0.5), "y": pytest.approx(1.0)}
    assert report.changers == {"x": ("scale ×0.5",), "y": ("stop",)}
    with wb.overrides(wb.override("sin", "g * cos(x)")):
        assert wb.check_grads(f, (x, y)).verdict == "right"


# The wire and the pictures


def test_the_page_is_told_the_verdict_by_what_and_by_how_much(
    model: wb.Session,
) -> None:
    model.check()
    check = take_snapshot(model).header["check"]
    assert check is not None
    assert (check["ok"], check["verdict"], check["changes"]) == (True, "right", "")
    model.override("h", "0.25 * d", name="quarter")
    model.check()
    check = take_snapshot(model).header["check"]
    assert check is not None
    assert (check["ok"], check["verdict"]) == (True, "changed")
    assert check["changes"].startswith("overrides (quarter) change W1 by 75 %")
    told = {one["name"]: one for one in check["gradients"]}
    assert (told["W1"]["ok"], told["W1"]["verdict"]) == (True, "changed")
    assert told["W1"]["change"] == pytest.approx(0.75)
    assert told["W1"]["by"] == ["quarter"]
    assert told["W1"]["text"].startswith("overrides (quarter) change W1 by 75 % on")
    assert "the true one: 6 of 6 entries agree" in told["W1"]["text"]
    assert told["W2"] == {
        **told["W2"], "ok": True, "verdict": "right", "change": None, "by": []
    }  # fmt: skip


def test_the_still_picture_says_it_too(model: wb.Session) -> None:
    model.override("h", "0 * d", name="stop")
    model.check()
    assert "which changes what it passes on by 100 %" in draw_picture(
        take_snapshot(model)
    )

    def long(x: Any) -> Any:
        for bit in np.random.default_rng(0).integers(2, size=MOST_CARDS).tolist():
            x = np.sin(x) if bit else np.tanh(x)  # no loop, which would be folded
        return x

    session = wb.Session(wb.trace(long)(0.5))
    session.override(MOST_CARDS // 2, "0 * d", name="stop")
    session.check()
    told = draw_picture(take_snapshot(session))
    assert f"no rule wrong; {session.check().changes()}" in told


# Captions of derivatives


def test_a_derivative_names_the_overrides_in_force(model: wb.Session) -> None:
    assert "override" not in repr(model.derivative("h", "W1"))
    model.override("h", "0.5 * d", name="half")
    model.override("decoder", "2 * d", name="twice")
    gone = model.override("exp", "d", name="off")
    model.switch(gone, False)
    ask = model.derivative
    half, twice = "half at h", "twice on scope decoder"
    assert ask("h", "W1").overrides == (half,)
    assert f"; with 1 override: {half}>" in repr(ask("h", "W1"))
    assert ask("p", "W1").overrides == (half, twice)
    # By h itself its own rule does not run, nor do those behind what is asked for.
    assert ask("p", "h").overrides == (twice,)
    assert ask("p", "W2").overrides == (twice,)
    said = ask("p", "W1", mode="forward").caption
    assert said == f"with 2 overrides: {half}, {twice}"
    true = ask("p", "W1", overrides=False)
    assert (true.overrides, true.left_out) == ((), (half, twice))
    assert true.caption == f"the true one, without 2 overrides: {half}, {twice}"


def test_every_plot_of_a_derivative_names_them(model: wb.Session) -> None:
    model.override("h", "0.5 * d", name="half")
    words = "with 1 override: half at h"
    for plot in (
        plots.jacobian_plot(model, "h", "W1"),
        plots.singular_plot(model, "h", "W1"),
        plots.sparsity_plot(model, "h", "W1"),
        plots.hessian_plot(model),
        plots.spectrum_plot(model),
        plots.sparsity_plot(model),
    ):
        assert words in plot.note
        assert words in plot.figure.layout.title.subtitle.text
    held = model.derivative("h", "W1").plot()
    assert words in held.layout.title.subtitle.text
    model.switch(model.overrides[0], False)
    assert "override" not in plots.jacobian_plot(model, "h", "W1").note
    assert "override" not in plots.hessian_plot(model).note


def test_patterns_and_nodes_inside_loops_are_in_force_where_they_run() -> None:
    def f(W: Any, x: Any, b: Any) -> Any:
        a = W @ x + b
        a.name = "a"
        hs = wb.scan(lambda h: np.tanh(h), None, [a], n_steps=2)
        return np.sum(hs[-1])

    session = wb.Session(wb.trace(f)(np.eye(2), np.ones(2), np.zeros(2)))
    session.override(wb.pattern(lambda W, x, b: W @ x + b), "0.5 * d", name="linear")
    session.override("tanh", "2 * d", name="steep")
    linear, steep = "linear on pattern W @ x + b", "steep on every tanh"
    assert session.derivative(wrt="W").overrides == (linear, steep)
    assert session.derivative("a", "W").overrides == (linear,)
    assert session.derivative(wrt="a").overrides == (steep,)
    inner = next(i for i, x in enumerate(session.graph.nodes) if x.op.name == "matmul")
    assert session.derivative("a", inner).overrides == ()
    assert derivatives.make_second_derivative(session._state, "W").caption == (
        f"with 2 overrides: {linear}, {steep}"
    )


def test_of_many_overrides_the_first_are_named(model: wb.Session) -> None:
    ops = ("add", "matmul", "tanh", "exp", "negative", "log", "multiply", "divide")
    for op in ops:
        model.override(op, "0.9 * d", name=f"of {op}")
    found = model.derivative(wrt="W1")
    assert len(found.overrides) > 6
    assert f"and {len(found.overrides) - 6} more" in found.caption
