"""The gradient rules that the doctor says to attach, tried before they are told.

A rule is attached to the node to blame and the sweep runs once more. It must pass on
what is finite, and the gradients must be the true ones wherever these have a limit: the
gradients beside the point, on opposite sides of it, in mean. So a distance at 0, whose
slopes are 1 and -1 beside it, has the limit 0, and what another pair of points adds to
it has its own; a root at 0 has none, and nothing is asked of it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.autodiff import reverse
from workbench.checks.doctor.case import Case, finite
from workbench.core import types, walk
from workbench.core.tensor import Tensor, leaf, value_of
from workbench.errors import WorkbenchError
from workbench.overrides.override import override
from workbench.overrides.override_blocks import resolve_call

__all__ = ["choose_rule"]

#: Of programs with more nodes no limit is asked: it takes four more runs.
MOST = 20_000
#: How far the points beside are, in the size of what is differentiated by.
STEPS = (1e-4, 1e-5)
NARROW_STEPS = (1e-2, 3e-3)
#: How far apart what shall be the same may be.
ENOUGH = 1e-2


def choose_rule(case: Case, node: Tensor, rules: list[str]) -> str | None:
    """Return the first of some rules that mends a node; None if none does."""
    for rule in rules:
        if _mends(case, node, rule):
            return rule
    return None


def _mends(case: Case, node: Tensor, rule: str) -> bool:
    passed: list[Any] = []

    def visit(seen: reverse.Visit) -> None:
        if seen.node.serial == node.serial:
            passed.extend(c for c in seen.passed if c is not None)

    try:
        meant = resolve_call([override(node, rule)], case.outputs, case.wrt, "diagnose")
        assert meant is not None
        pulls = {**(case.rules or {}), **meant.pulls()}
        made = reverse.pull_back(
            case.outputs, case.seeds, case.wrt, rules=pulls, visit=visit,
            nulls_pass=True,
        )  # fmt: skip
    except (ArithmeticError, AssertionError, TypeError, ValueError, WorkbenchError):
        return False
    if not all(finite(c) for c in passed):
        return False
    limits = _limits(case)
    if limits is None:
        return True
    return all(
        g is None or limit is None or _agrees(value_of(g), *limit)
        for g, limit in zip(made, limits, strict=True)
    )


def _agrees(g: Any, limit: Any, off: Any) -> bool:
    """Return whether a gradient is the limit, where it is finite and one is known."""
    with np.errstate(all="ignore"):
        apart = abs(g - limit) > off
    return not bool(np.any(apart & np.isfinite(off) & np.isfinite(g)))


def _limits(case: Case) -> list[Any] | None:
    """Return the true gradient beside the point, in mean, and how well it is known.

    None for all where overrides are in force: what they do is meant.
    """
    if case.rules or len(case.nodes) > MOST:
        return None
    if "limits" not in case.forms:
        try:
            case.forms["limits"] = _find_means_beside(case)
        except (ArithmeticError, TypeError, ValueError, WorkbenchError):
            case.forms["limits"] = None
    found: list[Any] | None = case.forms["limits"]
    return found


def _find_means_beside(case: Case) -> list[Any] | None:
    if not all(isinstance(x._value, _HOST) for x in case.wrt):
        return None  # arrays of another library
    rng = np.random.default_rng(0)
    narrow = any(np.finfo(x.dtype).eps > 1e-10 for x in case.wrt)
    means = []
    for step in NARROW_STEPS if narrow else STEPS:
        shifts = [_shift(x, rng) * step for x in case.wrt]
        one, other = (_gradients(case, shifts, sign) for sign in (1, -1))
        means.append(
            [
                None if g is None or h is None else (g + h) / 2
                for g, h in zip(one, other, strict=True)
            ]
        )
    found: list[Any] = []
    for far, near in zip(*means, strict=True):
        if far is None or near is None:
            found.append(None)
            continue
        size = np.maximum(abs(far), abs(near))
        sizes = np.where(np.isfinite(size), size, 0)
        top = float(np.max(sizes)) if np.size(sizes) else 0.0
        enough = ENOUGH * np.maximum(size, ENOUGH * top)
        found.append((near, np.where(abs(far - near) <= enough, enough, np.inf)))
    return found


_HOST = (np.ndarray, np.generic, float, complex)


def _shift(x: Tensor, rng: np.random.Generator) -> Any:
    size = float(np.max(np.abs(x._value))) if np.size(x._value) else 0.0
    shift = rng.normal(size=np.shape(x._value)) * (size or 1.0)
    if x.dtype.kind == "c":
        shift = shift + 1j * rng.normal(size=np.shape(x._value)) * (size or 1.0)
    return shift if types.weak(x._value) else np.asarray(shift).astype(x.dtype)


def _gradients(case: Case, shifts: list[Any], sign: int) -> list[Any]:
    """Return the true gradients at a point beside that of the case."""
    leaves = [
        leaf(x._value + sign * shift) for x, shift in zip(case.wrt, shifts, strict=True)
    ]
    outputs = walk.substitute(case.outputs, dict(zip(case.wrt, leaves, strict=True)))
    made = reverse.pull_back(outputs, case.seeds, leaves, nulls_pass=True)
    return [None if g is None else value_of(g) for g in made]
