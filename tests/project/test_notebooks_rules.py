"""What the tutorials on custom gradients, symbols and rewriting say comes out."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from typing import Any

import numpy as np
import pytest

from tests.project.executed import (
    Executed,
    Tutorial,
    matrix,
    numbers,
    quiet,
)
from workbench.session.wire import MIME_TYPE, read_saved

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def custom(tutorial: Tutorial) -> Executed:
    return tutorial("02-custom-gradients")


def test_A1_A2_the_distances_and_their_gradient(custom: Executed) -> None:
    assert "array([[5.]])" in custom.shown("class Cdist(wb.Op):\n", 0)
    assert "gradients agree with differences" in custom.shown("rng = np.random")


def test_A3_the_second_form_gives_the_same(custom: Executed) -> None:
    assert "the same gradient: True" in custom.printed("class Cdist(wb.Op):\n", 1)


def test_A5_points_that_coincide(custom: Executed) -> None:
    """The check names op and line; the safe rule has the slope in the middle."""
    told = custom.printed("beneath = wells.copy()")
    assert "is nan" in told
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
def symbols(tutorial: Tutorial) -> Executed:
    return tutorial("03-symbols-and-loops")


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
    profile = symbols.printed("print(*str(step.profile")
    assert re.match(r"numpy: .* in \d+ steps; at most", profile)
    assert "sure = t * np.log(p)" in profile


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


# How a derivative is made


@pytest.fixture(scope="module")
def made(tutorial: Tutorial) -> Executed:
    return tutorial("06-how-a-derivative-is-made")


def test_D2_the_seeds_polynomial_to_the_letter(made: Executed) -> None:
    """D2: as the chain rule writes it, then each rewrite, down to 2*x + 1."""
    text = made.printed('x = wb.scalar("x")')
    assert text.rstrip().endswith("return 1.0 * x + x * 1.0 + 1.0 - 0")
    assert made.printed("simple = wb.simplify(raw)").splitlines() == [
        "1. one times x: 1 * x → x",
        "2. one times x: x * 1 → x",
        "3. x plus x: x + x → 2 * x",
        "4. x minus zero: 2 * x + 1 - 0 → 2 * x + 1",
    ]
    assert "return [x * x + x - 2, 2 * x + 1.0]" in made.printed("f = wb.function([x]")
    ends = made.printed("f = wb.function([x]").splitlines()[-1]
    assert numbers(ends) == [10, 7]
    drawn = [
        output.data["image/svg+xml"]
        for start, place in (("raw", 0), ("second", 0), ("simple", 1), ("%%auto", 0))
        for output in made.cell(start, place).outputs
        if "image/svg+xml" in output.get("data", {})
    ]
    assert len(drawn) == 4
    for svg in drawn:
        assert ElementTree.fromstring(svg).tag.endswith("svg")


def test_a_safe_program_has_a_derivative(made: Executed) -> None:
    """The slope of a cross-entropy by the scores is softmax minus truth."""
    safe, book = made.printed("loss = safe.outputs[0]").splitlines()
    assert numbers(safe) == [1, -1, 0]
    assert book.count("nan") == 3
    assert numbers(made.printed("large = ").splitlines()[1]) == [1000]


def test_what_would_move_a_nan_stays(made: Executed) -> None:
    assert made.printed("z = ").splitlines() == [
        "1. x plus zero: z * 0 + z / z + 0 → z * 0 + z / z",
        "nan",
    ]


def test_it_ends_with_the_compiled_program_and_its_profile(made: Executed) -> None:
    assert made.printed('print("ready:"').splitlines() == [
        "ready: True and now it runs compiled",
        "the same gradient: True",
    ]
    steps = made.printed("profile = ").splitlines()
    kernels = [line for line in steps if line.startswith("kernel")]
    assert any("tanh" in line and "sum" in line for line in kernels)
    assert made.printed("print(profile)").startswith("compiled: ")
    plain = made.printed("plain = ")
    assert plain.startswith("numpy: ")
    assert len(plain.splitlines()) > len(steps) + 2
    (picture,) = (
        read_saved(output.data[MIME_TYPE])
        for output in made.cell("print(layer.profile()").outputs
        if output.output_type == "display_data"
    )
    profile = picture.header["profile"]
    assert profile is not None
    assert profile["backend"] == "compiled"
    assert picture.columns["rule_time"].size == picture.header["nodes"]


def test_how_a_derivative_is_made_runs_quietly(made: Executed) -> None:
    quiet(made)
