"""The rows of what a user does, and the cell of a tutorial that shows each.

A row is what a user does: of custom ops (A), of the gradient of a part (B), of the
toolbox (C), how a derivative comes about (D), registered gradients (E), the workbench
itself (F), what none of the others has (G), what people show each other (H), and code
as it is (I).
"""

from __future__ import annotations

import json

import pytest

from tests.project import environments

NOTEBOOKS = environments.ROOT / "notebooks"

#: Each row, the number of its tutorial, and what stands in a cell that shows it.
ROWS = [
    ("A1", "02", "return distance.cdist(x, w)"),
    ("A2", "02", "class Cdist(wb.Op):"),
    ("A3", "02", "directions(*node.inputs, *node.outputs)"),
    ("A4", "02", "class CdistGrad(wb.KernelOp):"),
    ("A5", "02", "beneath[0] = houses[0]"),
    ("B1", "02", "wb.OpFromGraph([x, y, g]"),
    ("B2", "02", "atan2_safe"),
    ("B3", "04", "linear = wb.pattern(lambda W, x, b: W @ x + b)"),
    ("B4", "04", "wb.rules.natural(2 * X @ X.T / t.size)"),
    ("B5", "04", 'half = wb.override("power"'),
    ("C1", "03", "known_grads={h: np.ones(4)}"),
    ("C2", "03", "gradient.Rop(out, u"),
    ("C3", "01", "model.hessian("),
    ("C4", "03", "gradient.subgraph_grad("),
    ("C5", "03", "gradient.grad_clip("),
    ("C6", "03", "gradient.verify_grad("),
    ("C7", "03", "gradient.Rop(out, u"),
    ("C8", "03", "wb.scan("),
    ("D1", "06", 'wb.write_chain_rule(y, x, mode="forward")'),
    ("D2", "06", "for step in simple.steps:"),
    ("D3", "06", "print(f.source)"),
    ("E1", "02", '@wb.register_gradient("zero_out")'),
    ("E2", "02", "except wb.errors.RegistrationError as"),
    ("E3", "02", "wb.graph_rule.from_json(stored)"),
    ("E4", "02", "class ZeroOut(wb.KernelOp):"),
    ("F1", "03", "f = wb.function([x], [y, slope]"),
    ("F2", "09", 'backend = "cupy"'),
    ("F3", "01", "%%autodiff loss"),
    ("F4", "04", "net.switch(clippe"),
    ("F5", "01", "wb.plots.jacobian(model"),
    ("F6", "01", "%%autodiff loss"),
    ("F7", "12", "wb.show(digit)"),
    ("F8", "01", "%load_ext workbench"),
    ("G1", "04", 'net.override("tanh", "2 * d")'),
    ("G2", "01", 'wb.plots.jacobian(model, "p", "W2")'),
    ("G3", "05", "near.diagnose()"),
    ("G4", "10", "safe = np.where(v > 0, np.sqrt(v) * np.log(v), 0)"),
    ("G5", "05", "(faulty,) = report.faulty"),
    ("G6", "06", "slope = wb.compile(wb.value_and_grad(fit))"),
    ("G7", "07", "J = wb.jacobian(kdv, sparse=True)"),
    ("G8", "11", "net.run(weights)"),
    ("G9", "11", "net.to_html("),
    ("G10", "10", "y[n] = alpha * noisy"),
    ("H1", "11", "def train(steps, rate):"),
    ("H2", "11", "net.timeline[1], net.timeline[-1]"),
    ("H3", "03", "def swing(angle"),
    ("H4", "05", "print(near.fix(0))"),
    ("H5", "11", "net.to_html("),
    ("H6", "08", 'p.minimize("trust-constr")'),
    ("H7", "12", "wd.value_and_grad(loss, (0, 1))"),
    ("H8", "14", "models.as_torch_function(f, [safe])"),
    ("H9", "13", "lesson=True"),
    ("H10", "02", "class Cdist(wb.Op):"),
    ("I1", "10", "u[0] = start"),
    ("I2", "03", "import theano"),
    ("I3", "10", "stats.gamma.logpdf(seen, sh"),
    ("I4", "12", "wd.session(loss, W, b, X, T"),
    ("I5", "05", "wb.plots.gauss_newton(net)"),
]
#: How many rows each letter has.
COUNTS = {"A": 5, "B": 5, "C": 8, "D": 3, "E": 4, "F": 8, "G": 10, "H": 10, "I": 5}


@pytest.mark.parametrize(("row", "number", "words"), ROWS)
def test_a_cell_of_a_tutorial_shows_it(row: str, number: str, words: str) -> None:
    (tutorial,) = NOTEBOOKS.glob(f"{number}-*.ipynb")
    cells = json.loads(tutorial.read_text("utf-8"))["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert [one for one in code if words in one], (row, tutorial.name)


def test_every_row_is_named_once() -> None:
    rows = [row for row, _, _ in ROWS]
    expected = [f"{x}{i}" for x, n in COUNTS.items() for i in range(1, n + 1)]
    assert sorted(rows) == sorted(expected)
