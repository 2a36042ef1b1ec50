"""The tutorials, run in a real kernel: what they say is what comes out."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import pytest
from nbclient import NotebookClient
from sklearn.datasets import load_diabetes

from workbench.snapshot import MIME_TYPE, read_saved

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
PLOTLY = "application/vnd.plotly.v1+json"


class Executed:
    """A notebook after it has run."""

    def __init__(self, path: Path) -> None:
        self.notebook: Any = nbformat.read(path, as_version=4)
        client = NotebookClient(
            self.notebook,
            timeout=120,
            kernel_name="python3",
            resources={"metadata": {"path": str(path.parent)}},
        )
        client.execute()

    def cell(self, start: str, place: int | None = None) -> Any:
        """The only code cell that starts so; with a place, that one of several."""
        found = [
            cell
            for cell in self.notebook.cells
            if cell.cell_type == "code" and cell.source.startswith(start)
        ]
        assert place is not None or len(found) == 1, start
        return found[place or 0]

    def printed(self, start: str, place: int | None = None) -> str:
        outputs = self.cell(start, place).outputs
        return "".join(o.text for o in outputs if o.output_type == "stream")

    def shown(self, start: str, place: int | None = None) -> str:
        """The value of a cell's last line, as text."""
        outputs = self.cell(start, place).outputs
        (made,) = (o for o in outputs if o.output_type == "execute_result")
        return str(made.data["text/plain"])

    def data(self, kind: str) -> list[Any]:
        return [
            output.data[kind]
            for cell in self.notebook.cells
            if cell.cell_type == "code"
            for output in cell.outputs
            if kind in output.get("data", {})
        ]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_is_kept_without_outputs(path: Path) -> None:
    notebook: Any = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            assert cell.outputs == []
            assert cell.execution_count is None
    assert notebook.metadata.kernelspec.name == "python3"


@pytest.fixture(scope="module")
def first() -> Executed:
    return Executed(ROOT / "notebooks" / "01-first-gradient.ipynb")


def numbers(text: str) -> list[float]:
    return [float(x) for x in re.findall(r"[+-]?\d+\.?\d*(?:e-?\d+)?", text)]


def test_the_picture_is_saved_three_times(first: Executed) -> None:
    (output,) = first.cell("%%autodiff").outputs
    assert set(output.data) == {MIME_TYPE, "image/svg+xml", "text/plain"}
    kept = read_saved(output.data[MIME_TYPE])
    assert kept.header["session"] == "model"
    assert kept.header["output_name"] == "loss"
    names = {*kept.header["strings"]}
    assert {"X", "W1", "b1", "h", "W2", "b2", "p", "t", "loss"} <= names
    svg = ElementTree.fromstring(output.data["image/svg+xml"])
    assert svg.tag.endswith("svg")
    assert output.data["text/plain"].startswith("<Session 'model': loss = ")


def test_a_step_keeps_the_promise_of_the_gradient(first: Executed) -> None:
    promised, came = numbers(first.printed('print("loss", loss)'))[-2:]
    assert promised < 0
    assert came == pytest.approx(promised, rel=0.05)


def test_training_lowers_the_loss(first: Executed) -> None:
    before, after, right = numbers(first.printed('weights = {"W1"'))
    assert before == pytest.approx(0.69, abs=0.1)
    assert after < before / 5
    assert right > 95


def test_the_saved_picture_is_that_of_the_end(first: Executed) -> None:
    """What the notebook keeps is what was last seen: trained, all overrides undone."""
    (output,) = first.cell("%%autodiff").outputs
    header = read_saved(output.data[MIME_TYPE]).header
    after = numbers(first.printed('weights = {"W1"'))[1]
    assert header["output_value"] == pytest.approx(after, abs=5e-4)
    assert header["overrides"] == []


def test_the_override_changes_and_is_undone(first: Executed) -> None:
    change = re.search(r"changed by (\d+)%", first.printed("limit = "))
    assert change is not None
    assert 10 < int(change[1]) < 100
    undone = first.printed("print(model.code())")
    assert "model.override('h', vjp='clip(d, -" in undone
    assert "as before: True" in undone


def test_the_matrices_are_drawn(first: Executed) -> None:
    assert len(first.data(PLOTLY)) == 3
    assert "symmetric: True" in first.printed("H = model.hessian")
    sizes = [
        figure["data"][0]["z"]["shape"]
        for figure in first.data(PLOTLY)
        if figure["data"][0]["type"] == "heatmap"
    ]
    assert sizes == ["190, 16", "33, 33"]  # 569 rows in blocks of three


def test_the_check_agrees_and_sees_the_override(first: Executed) -> None:
    assert "gradients agree with differences" in first.printed("report = ")
    assert "still the true gradient? False" in first.printed('model.override("h", "0.9')


def test_nothing_was_printed_as_an_error(first: Executed) -> None:
    quiet(first)


def quiet(executed: Executed, *but: str) -> None:
    """No cell failed, and none warned but of what contains one of these.

    A check of more than a second may say how far it is, and wipe that line again.
    """
    for cell in executed.notebook.cells:
        for output in cell.get("outputs", []):
            assert output.output_type != "error"
            if output.get("name") == "stderr":
                said = re.sub(r"checked \d+ of \d+(, \d+ s left)?", "", output.text)
                assert not said.strip() or any(text in said for text in but), said


# Custom gradients


@pytest.fixture(scope="module")
def custom() -> Executed:
    return Executed(ROOT / "notebooks" / "02-custom-gradients.ipynb")


def test_A1_A2_the_distances_and_their_gradient(custom: Executed) -> None:
    assert "array([[5.]])" in custom.shown("class Cdist(wb.Op):\n", 0)
    assert "gradients agree with differences" in custom.shown("rng = np.random")


def test_A3_the_second_form_gives_the_same(custom: Executed) -> None:
    assert "the same gradient: True" in custom.printed("class Cdist(wb.Op):\n", 1)


def test_A5_points_that_coincide(custom: Executed) -> None:
    """The check names op and line; the safe rule has the slope in the middle."""
    told = custom.printed("beneath = wells.copy()")
    assert "got nan" in told
    assert "The rule of cdist float64[40, 3] (at [" in told
    assert "choose with np.where before dividing" in told
    houses, wells = village()
    wells[0] = houses[0]
    found = matrix(custom.shown("def directions("))
    np.testing.assert_allclose(found, slopes(houses, wells), atol=1e-6)


def village() -> tuple[Any, Any]:
    """The houses and the wells of the tutorial."""
    rng = np.random.default_rng(0)
    return rng.normal(size=(40, 2)), rng.normal(size=(3, 2))


def way(houses: Any, wells: Any) -> Any:
    apart = houses[:, None, :] - wells[None, :, :]
    return np.mean(np.min(np.sqrt(np.sum(apart**2, axis=2)), axis=1))


def slopes(houses: Any, wells: Any) -> Any:
    """Central differences, which take the middle of a kink."""
    made = np.zeros(wells.shape)
    for i in np.ndindex(wells.shape):
        moved = np.zeros(wells.shape)
        moved[i] = 1e-6
        made[i] = (way(houses, wells + moved) - way(houses, wells - moved)) / 2e-6
    return made


def matrix(text: str) -> Any:
    """The numbers that the text of an array holds, in rows."""
    return np.array([numbers(line) for line in text.splitlines()])


def test_A1_the_op_is_in_the_picture(custom: Executed) -> None:
    (output,) = custom.cell("%%autodiff loss").outputs
    kept = read_saved(output.data[MIME_TYPE])
    assert {"ways", "cdist", "houses", "wells"} <= {*kept.header["strings"]}
    before, after = numbers(custom.printed("places, before = "))
    assert before == pytest.approx(way(*village()), abs=1e-3)
    assert after < 0.85
    assert kept.header["output_value"] == pytest.approx(after, abs=1e-3)


def test_A4_the_kernel_gives_the_same(custom: Executed) -> None:
    told = custom.printed("def pulled(")
    assert "the same gradient: True" in told
    assert all(x > 0 for x in numbers(told))


def test_a_wrong_rule_is_found(custom: Executed) -> None:
    told = custom.printed("class Careless(Cdist)")
    expected, got = re.findall(r"(?:expected|got) (\S+\d)", told)
    assert float(got) == pytest.approx(-float(expected))
    assert "12 entries are off (all 12 entries checked" in told


def test_a_function_with_its_own_gradient(custom: Executed) -> None:
    plain, yours = custom.printed("def plain(x)").splitlines()
    assert plain.endswith("nan]")
    assert numbers(yours) == [0, 0.5, 1]


def test_E1_E2_E4_a_gradient_is_registered(custom: Executed) -> None:
    """E1, E2, E4: two outputs, whole numbers, the error of a gradient forgotten."""
    assert "[5, 0, 0], dtype=int32" in custom.shown("class ZeroOut(wb.KernelOp)")
    told = custom.printed("try:\n\n    @wb.register_gradient")
    assert "zero_out has 2 outputs" in told
    assert "Write def zero_out_grad(op, grad, grad1)" in told
    shown = custom.shown('@wb.register_gradient("zero_out")')
    assert numbers(shown) == [10, 0, 0]


def test_E3_a_gradient_is_data(custom: Executed) -> None:
    assert "dx = multiply(dy, on)" in custom.printed("class Relu(wb.Op)")
    assert numbers(custom.shown('wb.register_gradient("relu")')) == [0, 4]


def test_B1_B2_another_gradient_for_a_graph(custom: Executed) -> None:
    """B1, B2: 1/1.01 at (1, 0), and 0 at the origin."""
    found = numbers(custom.shown('x, y, g = wb.vectors("x y g")'))
    np.testing.assert_allclose(found, [0, 0, 1 / 1.01, 0], atol=1e-8)


def test_B1_in_the_picture_with_the_others(custom: Executed) -> None:
    (output,) = custom.cell("%%autodiff total").outputs
    strings = {*read_saved(output.data[MIME_TYPE]).header["strings"]}
    assert {"atan2_safe", "softplus", "relu"} <= strings
    x, y = np.array([[1.0, 0.5], [-0.3, 0.2], [0.4, -0.9], [0.0, 0.0]]).T
    angle = np.arctan2(y, x)
    up = 1 / (1 + np.exp(-angle)) * (np.log1p(np.exp(angle)) > 0.5)
    below = x**2 + y**2 + 0.01
    want = np.stack([-y * up / below, x * up / below], axis=1)
    found = matrix(custom.shown('own.grads["points"]'))
    np.testing.assert_allclose(found, want, atol=1e-7)


def test_custom_gradients_run_quietly(custom: Executed) -> None:
    """A machine without a compiler is told so, and computes the same."""
    quiet(custom, "runs by its NumPy fallback")


# Symbols and loops


@pytest.fixture(scope="module")
def symbols() -> Executed:
    return Executed(ROOT / "notebooks" / "03-symbols-and-loops.ipynb")


def test_D3_the_derivative_as_text(symbols: Executed) -> None:
    """D3: 10 and 7 at 3, and a text that says so on its own."""
    assert numbers(symbols.shown('x = wb.scalar("x")').split("(")[1]) == [7]
    values, text = symbols.printed("f = wb.function([x]").split("\n", 1)
    assert numbers(values) == [10, 7]
    assert "workbench" not in text
    scope: dict[str, Any] = {}
    exec(text, scope)
    assert scope["f"](3.0) == [10, 7]
    assert scope["f"](-0.5) == [-2.25, 0]


def test_the_graphs_are_drawn(symbols: Executed) -> None:
    drawn = [
        output.data["image/svg+xml"]
        for start in ("f.graph", "power.graph")
        for output in symbols.cell(start).outputs
    ]
    assert len(drawn) == 2
    for svg in drawn:
        assert ElementTree.fromstring(svg).tag.endswith("svg")
    assert "scan" in drawn[1]


def test_lengths_that_are_not_known(symbols: Executed) -> None:
    """The mean of (X - s)**2 has the slope 2 (s - mean of X) / columns by s."""
    told = symbols.printed('X, shift = wb.matrix("X")').splitlines()
    X = np.arange(6.0).reshape(2, 3)
    want = 2 * (np.array([1.0, 2, 3]) - X.mean(0)) / 3
    np.testing.assert_allclose(numbers(told[1]), want, atol=1e-7)
    assert numbers(told[2]) == [2 * (2 - X.mean())]
    wrong = symbols.printed("try:")
    assert "'X'" in wrong
    assert "'shift'" in wrong


def test_shared_values_are_trained(symbols: Executed) -> None:
    told = symbols.printed("rng = np.random.default_rng(0)")
    first, last, *found = numbers(told)
    rng = np.random.default_rng(0)
    labels = np.arange(200.0) % 2
    points = rng.normal(size=(200, 2)) + np.outer(labels, [2.0, 1.0])
    w, b, losses = np.zeros(2), 0.0, []
    for _ in range(200):
        p = 1 / (1 + np.exp(-(points @ w + b)))
        losses.append(-np.mean(labels * np.log(p) + (1 - labels) * np.log(1 - p)))
        off = (p - labels) / 200
        w, b = w - 0.5 * points.T @ off, b - 0.5 * np.sum(off)
    assert first == pytest.approx(losses[0], abs=1e-4)
    assert last == pytest.approx(losses[-1], abs=1e-4)
    np.testing.assert_allclose(found, [*w, b], rtol=1e-6)
    scope: dict[str, Any] = {}
    exec(symbols.printed("print(step.source)"), scope)
    text_loss, (w_next, b_next) = scope["step"](points, labels, np.zeros(2), 0.0)
    assert text_loss == pytest.approx(losses[0])
    np.testing.assert_allclose(w_next, 0.5 * points.T @ (labels - 0.5) / 200)
    assert b_next == pytest.approx(0.0, abs=1e-15)
    (right,) = numbers(symbols.printed("fresh = "))[:1]
    fresh = rng.integers(0, 2, size=1000)
    seen = rng.normal(size=(1000, 2)) + np.outer(fresh, [2.0, 1.0])
    assert right == pytest.approx(100 * np.mean((seen @ w + b > 0) == fresh), abs=0.2)
    assert "100 calls" in symbols.printed("for _ in range(100)")


def test_C1_C2_C4_C5_the_toolbox(symbols: Executed) -> None:
    """C1, C2, C4, C5, C6: each against what it must equal."""
    starts = "(last,)", "from_outside", "right = "
    told = [symbols.printed(start) for start in starts]
    assert [text.count("True") for text in told] == [2, 1, 2]
    assert not any("False" in text for text in told)
    assert numbers(symbols.printed("clipped = ")) == [1, 4]


def test_C8_loops(symbols: Executed) -> None:
    power = symbols.shown('A, k = wb.vector("A")')
    assert numbers(power) == [1, 16, 81, 4, 32, 108]
    gradient, differences, less = numbers(symbols.printed("def swing("))
    assert gradient == less
    assert gradient == pytest.approx(differences, rel=1e-6)
    (output,) = symbols.cell("%%autodiff height").outputs
    header = read_saved(output.data[MIME_TYPE]).header
    assert "scan" in header["strings"]
    roots = symbols.shown("def newton(").replace("np.float64", "")
    np.testing.assert_allclose(numbers(roots), [3, 1 / 6, -3, 1 / 6])


def test_an_old_program(symbols: Executed) -> None:
    assert numbers(symbols.printed("import numpy\n")) == [0, 1, 4, 9, 0, 2, 4, 6]


def test_symbols_and_loops_run_quietly(symbols: Executed) -> None:
    quiet(symbols)


# Overrides


@pytest.fixture(scope="module")
def overridden() -> Executed:
    return Executed(ROOT / "notebooks" / "04-overrides.ipynb")


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
    told = overridden.printed("attempts = ").strip().split("\n\n")
    says = [
        "did you mean the op 'tanh'",
        "the program has matmul and mean, not einsum",
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
def bad() -> Executed:
    return Executed(ROOT / "notebooks" / "05-find-the-bad-gradient.ipynb")


def test_G3_the_node_to_blame_and_its_cure(bad: Executed) -> None:
    broken = bad.printed("def train(")
    assert "the gradient is not a number" in broken
    found = bad.shown("near.diagnose()")
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
    assert "the gradient vanishes on the way to start" in bad.shown("deep.diagnose()")
    as_it_is, beside = numbers(bad.printed("size = ").splitlines()[-1])
    assert as_it_is < 1e-4
    assert beside > 0.1


def test_G2_any_derivative_is_drawn(bad: Executed) -> None:
    told = bad.printed("drawn = pairs()")
    assert "(100, 30, 4)" in told
    assert "0 throughout: [50]" in told
    assert len(bad.data(PLOTLY)) == 5
    across = bad.printed("tanhs = ").splitlines()
    most = [float(line.split()[-1]) for line in across]
    assert most == sorted(most, reverse=True)
    assert most[-1] < 0.01 < most[0] <= 1


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
