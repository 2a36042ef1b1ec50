"""Every row of the table of stable forms is advice: found in a program, and right."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import workbench as wb
import workbench.scipy.special  # which the lines may name
from workbench.checks.doctor.equivalence import Operands
from workbench.checks.doctor.forms import write_drafts
from workbench.rewrite.rule import RULES, PairRule, ReductionRule
from workbench.rewrite.stable_rules import PUBLIC_NAMES

NAMES = {"np": np, "wb": wb, "workbench": workbench}
KEPT = ", axis={}, keepdims=True"
ROWS = [
    rule
    for rule in RULES.values()
    if isinstance(rule, PairRule)
    and rule.group in ("stabilise", "advice")
    and "mul0" not in rule.lhs  # which reverse mode alone writes
]
#: Rows whose right side is a function that users have no name for.
NAMELESS = {"log of 1 - exp", "vector over its length",
            "vector over the root of its squares"}  # fmt: skip
#: The operands of rows that hold for some values alone.
WHERE = {"quotient by a length that may be 0 (1 there)": "x / np.linalg.norm(y)"}


def write_source(rule: PairRule, settings: str) -> str:
    """Return the left side of a row as users write it, for reductions over axes."""
    if rule.name in WHERE:
        return WHERE[rule.name]
    side = re.sub(r", \*\*\w+", settings, rule.lhs)
    if "**kept" in rule.lhs:
        side = side.replace("- mean(x)", "- mean(x, keepdims=True)")

    def spell(found: re.Match[str]) -> str:
        name = found[0]
        if name == "gamma":
            return "workbench.scipy.special.gamma"
        return PUBLIC_NAMES.get(name) or f"np.{name}"

    return re.sub(r"\b[a-z]\w+(?=\()", spell, side)


@pytest.mark.parametrize("settings", ["", KEPT.format(0), KEPT.format(-1)])
@pytest.mark.parametrize("rule", ROWS, ids=lambda rule: str(rule.name))
def test_a_row_is_advice(
    rule: PairRule, settings: str, rng: np.random.Generator
) -> None:
    if settings and not isinstance(rule, ReductionRule):
        settings = ""
    if "cumprod" in rule.lhs:
        settings = ", axis=0"
    source = write_source(rule, settings)
    shape = 3 if "@" in rule.lhs else (3, 3)
    values = {name: rng.uniform(1.1, 1.5, shape) for name in rule.names}
    if "q" in values:
        values["q"] -= 1
    if "det" in rule.lhs:
        values["x"] += 3 * np.eye(3)
    if rule.lhs == "log(1 - exp(x))":
        values["x"] *= -1
    if rule.lhs in ("log(1 - x)", "log(1 - expit(x))"):
        values["x"] -= 1
    f = eval(f"lambda {', '.join(values)}: {source}", NAMES)
    root = wb.trace(f)(*values.values()).outputs[0]
    operands = Operands()
    drafts = list(write_drafts(rule, root, root, operands))
    if rule.name in NAMELESS:
        assert not drafts
        return
    assert drafts, source
    slots: dict[str, Any] = {
        f"_{i}": slot.value for i, slot in enumerate(operands.slots)
    }
    truth = f(*values.values())
    right = []
    for draft in drafts:
        made = eval(draft.code, {**NAMES, **slots})
        right.append(np.shape(made) == np.shape(truth)
                     and np.allclose(made, truth, 1e-9))  # fmt: skip
    assert any(right), [draft.code for draft in drafts]
