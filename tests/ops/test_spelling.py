"""Rules as the picture shows them: mathematics, not code."""

from __future__ import annotations

import re
from importlib import import_module

import pytest

from workbench.core.hooks import OP_MODULES
from workbench.core.op import OPS
from workbench.ops.spelling import format_rule

#: What only code has: operators, names with a line below, numbers beside a name.
CODE = re.compile(r"\*|_|\bx\d|\bsqrt\b|None|==|!=|\bnp\.|\d\.\d|-\d")

WRITTEN = {
    "g * (-sin(x))": "−g · sin(x)",
    "g * (2 * x)": "2 · g · x",
    "g / (3 * y * y)": "g / (3 · y²)",
    "(x0 + x1) * x0": "(x₀ + x₁) · x₀",
    "x0 - (x1 - x2)": "x₀ − (x₁ − x₂)",
    "x0 + -x1": "x₀ − x₁",
    "x0 / (x1 / x2)": "x₀ / (x₁ / x₂)",
    "-(x0 + x1) / x2": "−(x₀ + x₁) / x₂",
    "(-x)**2": "(−x)²",
    "x0 ** -(x1 + 1)": "x₀^(−(x₁ + 1))",
    "g * (y * 0.6931471805599453)": "log 2 · g · y",
    "g * (1.1283791670955126 * exp(-x * x))": "2/√π · g · exp(−x²)",
    "sqrt(1 - x * x)": "√(1 − x²)",
    "abs(x1) - floor(x0)": "|x₁| − ⌊x₀⌋",
    "g * (y * log(where(x0 == 0, 1, x0)))": "g · y · log(x₀)",
    "where(x0 == 0, g, 0)": "g if x₀ = 0 else 0",
    "(x0 != 0) * jv(2, x1)": "[x₀ ≠ 0] · J₂(x₁)",
    "g * (y * psi(x))": "g · y · ψ(x)",
    "g * -2.5066282746310002 * y": "−√(2π) · g · y",
    "g * 2 * (-y) / psi(x)": "−2 · g · y / ψ(x)",
    "-1j * y": "−i · y",
}


@pytest.mark.parametrize("code", WRITTEN)
def test_an_expression_is_written_as_in_a_book(code: str) -> None:
    assert format_rule(code) == WRITTEN[code]


def test_the_rules_of_all_ops_are_mathematics() -> None:
    for module in sorted(set(OP_MODULES.values())):
        import_module(module)
    rules = {name: op.rule for name, op in OPS.items()}
    assert len(rules) > 300
    assert {name: rule for name, rule in rules.items() if CODE.search(rule)} == {}
