"""The tutorials of overrides and of the bad gradient hold what they promise."""

from __future__ import annotations

import base64
import re
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_diabetes

from tests.project.executed import PLOTLY, Executed, Tutorial, numbers, quiet
from workbench.session.wire import MIME_TYPE, read_saved

# Overrides

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def overridden(tutorial: Tutorial) -> Executed:
    return tutorial("04-overrides")


class Network:
    """The model of the tutorial on overrides, and its gradients by hand."""

    def __init__(self) -> None:
        data = load_diabetes(scaled=False)
        self.X = ((data.data - data.data.mean(0)) / data.data.std(0)).T
        self.t = (data.target - data.target.mean()) / data.target.std()
        rng = np.random.default_rng(0)
        self.W = [
            rng.normal(size=size) / np.sqrt(size[1])
            for size in ((8, 10), (8, 8), (1, 8))
        ]
        h1 = np.tanh(self.W[0] @ self.X)
        h2 = np.tanh(self.W[1] @ h1)
        at_y = 2 * (self.W[2] @ h2 - self.t) / self.t.size
        at_2 = (self.W[2].T @ at_y) * (1 - h2**2)
        self.at_h1 = self.W[1].T @ at_2
        self.slope = 1 - h1**2
        self.grads = [
            (self.at_h1 * self.slope) @ self.X.T,
            at_2 @ h1.T,
            at_y @ h2.T,
        ]

    def change(self, at_1: Any) -> float:
        """How far the gradient by W1 moves if this flows on through the first tanh."""
        moved = at_1 @ self.X.T - self.grads[0]
        return float(np.linalg.norm(moved) / np.linalg.norm(self.grads[0]))


def test_B3_all_linear_parts_at_once(overridden: Executed) -> None:
    """B3: three matrices are moved by as much as by hand, nothing else at all."""
    shown = overridden.shown("linear = wb.pattern")
    net = Network()
    for k, (w, g) in enumerate(zip(net.W, net.grads, strict=True), 1):
        change = abs(np.linalg.norm(w) / np.linalg.norm(g) - 1)
        assert f"W{k} by {100 * change:.0f} %" in shown
    assert not re.search(r"b\d by", shown)
    told = overridden.printed("weights = start()")
    assert told.count("True") == 6


def test_B3_the_picture_keeps_the_pattern(overridden: Executed) -> None:
    (output,) = overridden.cell("%%autodiff loss").outputs
    header = read_saved(output.data[MIME_TYPE]).header
    assert [one["label"] for one in header["overrides"]] == [
        "clip ±0.002",
        "in_proportion",
    ]


def test_B4_the_table_of_rules(overridden: Executed) -> None:
    """B4: what each rule changes, by its formula, written out on the network."""
    rows = overridden.printed("net.undo()\nrules").splitlines()[1:]
    found = [float(row.split("%")[0]) for row in rows]
    net = Network()
    d = net.at_h1 * net.slope
    by_hand = [
        np.clip(d, -0.001, 0.001),
        d * 0.01 / np.linalg.norm(d),
        d / 2,
        d / np.linalg.norm(d),
        -d,
        None,  # a draw
        np.where(abs(d) > 0.001, d, 0),
    ]
    assert len(found) == len(by_hand)
    for percent, at_1 in zip(found, by_hand, strict=True):
        if at_1 is not None:
            assert percent == pytest.approx(100 * net.change(at_1), abs=0.06)
    halves = overridden.printed("net.override(linear, wb.rules.scale")
    assert numbers(re.sub(r"'\w+'", "", halves)) == [0.125] * 2 + [0.25] * 2 + [0.5] * 2


def test_B4_the_natural_gradient_needs_fewer_steps(overridden: Executed) -> None:
    assert len(overridden.data(PLOTLY)) == 1
    natural, plain = numbers(overridden.printed("best = "))
    assert natural < plain / 4
    one, many = overridden.printed("def misfit(").splitlines()
    assert one.endswith("True")
    assert numbers(many)[-1] > 500


def test_B3_each_kind_of_target(overridden: Executed) -> None:
    found = overridden.printed("def wide(").splitlines()
    parts = [line.split("  ")[-1].strip() for line in found]
    wide = "matmul 8, add 9, h1, matmul 11, add 12, h2, matmul 14, y, subtract 16"
    assert parts == ["h1", "loss", "add 9, add 12, y", f"{wide}, power 17", "h1, h2"]
    assert numbers(overridden.printed("def scoped(")) == [0] * 4
    told = overridden.printed("every, one = ")
    assert "1 of 2 nodes gives way to 'scale ×10'" in told
    assert told.endswith("times [10.]\n")
    assert overridden.printed("def network(").split() == ["True"] * 3


def test_B5_forward_mode_and_second_order(overridden: Executed) -> None:
    """B5: x² halved along (1, 1) at (0.1, 5) is 5.1; a clipped one says why not."""
    half, hessian, error = overridden.printed("def square(").splitlines()
    assert numbers(half) == pytest.approx([5.1])
    assert numbers(hessian) == [2, 0, 0, 0]
    assert "clip is not linear in g" in error
    safe = overridden.printed("def length(").splitlines()[1:]
    for line in safe:
        np.testing.assert_allclose(numbers(line.partition("[")[2]), [0, 0, 0.6, 0.8])


def test_what_was_done_is_kept(overridden: Executed) -> None:
    told = overridden.printed("clipped = ")
    assert "to be done again: switch off clip ±0.002" in told
    assert "net.override('h1', vjp='clip(d, -0.002, 0.002)')" in told
    assert "wb.pattern(lambda W, x, b: W @ x + b)" in told
    assert "in_proportion" in overridden.printed("path = ")
    assert overridden.shown("path = ").count("<override") == 1


def test_what_is_refused(overridden: Executed) -> None:
    *told, kept = overridden.printed("attempts = ").strip().split("\n\n")
    assert kept == "nothing has changed: True"
    says = [
        "Did you mean the op 'tanh'",
        "the program has matmul, not einsum",
        "Did you mean clip?",
        "has no meaning at character 12",
        "Constant exponents go up to 16",
    ]
    assert len(told) == len(says)
    for text, part in zip(told, says, strict=True):
        assert part in text


def test_overrides_run_quietly(overridden: Executed) -> None:
    quiet(overridden)


# The bad gradient


@pytest.fixture(scope="module")
def bad(tutorial: Tutorial) -> Executed:
    return tutorial("05-find-the-bad-gradient")


def test_G3_the_node_to_blame_and_its_cure(bad: Executed) -> None:
    broken = bad.printed("def train(")
    assert "the gradient is not a number" in broken
    found = " ".join(bad.shown("near.diagnose()").split())  # the lines are wrapped
    assert "error: away has an infinite slope at 0" in found
    assert "away = np.sqrt(np.sum(gap**2, axis=1))" in found
    assert "safe sqrt on away" in bad.printed("print(near.fix(0))")
    assert "200 steps, loss" in bad.printed("print(near.fix(0))")
    assert "nothing to report" in bad.shown("print(near.fix(0))")
    (percent,) = numbers(bad.printed("def neighbours("))
    assert percent > 95


def test_G3_the_value_breaks_first(bad: Executed) -> None:
    found = bad.shown("def unsure(")
    assert "takes the logarithm of 0" in found
    assert "np.logaddexp(0, " in found
    same, finite = bad.printed("def sure(").splitlines()
    assert same.endswith("True")
    label, z = np.array([0.0, 0, 1]), np.array([40.0, -1, 2])
    want = np.mean(label * np.log1p(np.exp(-z)) + (1 - label) * np.log1p(np.exp(z)))
    assert numbers(finite) == pytest.approx([want])


def test_G5_the_wrong_rule_is_named(bad: Executed) -> None:
    """The entry that the check shows is off by what the rule leaves out."""
    told = bad.printed("report = net.check(")
    assert "The rule of swish 'h'" in told
    assert "h = swish(x @ V)" in told
    assert "{'right': 6, 'wrong': 1}" in told
    promised, came = numbers(bad.printed('net.override("swish"'))
    assert promised == pytest.approx(came, rel=1e-5)
    assert "gradients agree with differences" in bad.printed("class Mended(")


def test_G5_the_red_node_is_kept_in_the_picture(bad: Executed) -> None:
    (output,) = bad.cell("%%autodiff misfit").outputs
    header = read_saved(output.data[MIME_TYPE]).header
    assert header["check"]["counts"]["wrong"] == 1
    assert header["findings"] is None


def test_G5_steps_and_kinks(bad: Executed) -> None:
    told = bad.printed("def bent(")
    assert "True {'kink': 1, 'right': 2}" in told
    assert "0 to the left and 1 to the right; the rule says 0.5" in told


def test_G3_a_gradient_that_fades(bad: Executed) -> None:
    assert "the gradient vanishes on its way to start" in bad.shown("deep.diagnose()")
    as_it_is, beside = numbers(bad.printed("size = ").splitlines()[-1])
    assert as_it_is < 1e-4
    assert beside > 0.1


def test_G2_any_derivative_is_drawn(bad: Executed) -> None:
    told = bad.printed("drawn = pairs()")
    assert "(100, 30, 4)" in told
    assert "0 throughout: [50]" in told
    assert len(bad.data(PLOTLY)) == 8
    across = bad.printed("tanhs = ").splitlines()
    most = [float(line.split()[-1]) for line in across]
    assert most == sorted(most, reverse=True)
    assert most[-1] < 0.01 < most[0] <= 1


def test_I5_gauss_newton_has_no_eigenvalue_below_zero(bad: Executed) -> None:
    (output,) = bad.cell("wb.plots.gauss_newton(net)").outputs
    z = output.data[PLOTLY]["data"][0]["z"]
    found = np.frombuffer(base64.b64decode(z["bdata"]), z["dtype"]).reshape(186, 186)
    values = np.linalg.eigvalsh(found)
    assert values[0] > -1e-12 * values[-1]
    hessian = bad.cell('wb.plots.spectrum(net, ["V", "u"])').outputs[0].data[PLOTLY]
    assert "negative" in [trace["name"] for trace in hessian["data"]]


def test_G3_one_fault_each(bad: Executed) -> None:
    told = bad.printed("x = np.linspace(-1.0")
    says = {
        "overflow": "exp overflows",
        "dead units": "is dead",
        "saturation": "saturated",
        "rounding": "cut by rint",
        "a comparison": "cut by greater",
        "a cut": "cut by stop_gradient",
        "the edge": "infinite slope at ±1",
        "lost digits": "cancels",
    }
    for name, part in says.items():
        assert re.search(f"^{name}: .*{part}", told, re.MULTILINE), name
    assert "nothing to report" in bad.shown("wb.diagnose(lambda M")


def test_the_search_runs_quietly(bad: Executed) -> None:
    """But for NumPy's warning of the division."""
    quiet(bad, "invalid value encountered")
