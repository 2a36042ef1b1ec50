"""The kinds of findings: each is explained, and each can be found."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import workbench as wb
from tests.checks.doctor.listing import PAGE, put_into_page
from workbench.checks.doctor import finding
from workbench.checks.doctor.diagnose import DOCTORS, KINDS
from workbench.core.op import OPS, load_all_ops

FOLDER = Path(finding.__file__).parent
#: What makes a finding, or a part of one; the kind comes first.
MAKERS = {"Finding", "Diagnosis"}


def test_G3_every_kind_of_finding_is_explained() -> None:
    made = {
        kind
        for path in FOLDER.glob("*.py")
        for kind in kinds_in(ast.parse(path.read_text(encoding="utf-8")))
    }
    load_all_ops()
    made |= {
        point.kind
        for op in OPS.values()
        for point in (*op.traits.undefined, *op.traits.steep)
    }
    assert made == set(KINDS)
    assert all(kind.words for kind in KINDS.values())


def test_the_guide_lists_every_kind_of_finding() -> None:
    text = PAGE.read_text()
    assert text == put_into_page(text), (
        "run python -m tests.checks.doctor.listing --write"
    )


def test_a_kind_stands_in_one_row_and_names_others_by_their_names() -> None:
    assert len(KINDS) == sum(len(doctor.kinds) for doctor in DOCTORS)
    for doctor in DOCTORS:
        assert set(doctor.unless) <= set(KINDS)
        for kind in doctor.kinds.values():
            assert set(kind.replaces) <= set(KINDS)


def test_what_a_finding_is_called_leads_to_its_meaning() -> None:
    (found,) = wb.diagnose(lambda x: x**0.5, 0.0)
    assert found.kind == "infinite-slope"
    assert "slope is infinite" in KINDS[found.kind].words


def kinds_in(tree: ast.Module) -> Iterator[str]:
    """The kinds that a file's findings have."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Name) and node.func.id in MAKERS:
                yield from texts(node.args[0])
        elif isinstance(node, ast.Assign):
            target, value = node.targets[0], node.value
            if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
                target, value = target.elts[0], value.elts[0]
            if isinstance(target, ast.Name) and target.id == "kind":
                yield from texts(value)


def texts(value: ast.expr) -> Iterator[str]:
    """The texts that an expression may be."""
    if isinstance(value, ast.IfExp):
        yield from texts(value.body)
        yield from texts(value.orelse)
    elif isinstance(value, ast.Constant) and isinstance(value.value, str):
        yield value.value


def test_printed_findings_break_between_words_and_leave_code_whole() -> None:
    def norm_of_what_has_a_long_name(
        positions_of_all_particles: np.ndarray[Any, Any],
    ) -> Any:
        return np.sqrt(np.sum((positions_of_all_particles - 1.0) ** 2)) * np.sum(
            positions_of_all_particles
        )

    found = wb.diagnose(norm_of_what_has_a_long_name, np.ones(3))
    text = repr(found)
    rows = text.splitlines()
    codes = {f"       {one.fix.code}" for one in found if one.fix is not None}
    assert codes
    assert max(len(row) for row in rows if row not in codes) <= 80
    assert codes <= set(rows)
    # Nothing is lost: the words are those of the findings.
    for one in found:
        assert " ".join(one.evidence.split()) in " ".join(text.split())
        assert " ".join(one.cause.split()) in " ".join(text.split())
