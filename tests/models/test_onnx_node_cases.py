"""ONNX's own cases of each op, by value and by gradient against differences."""

from __future__ import annotations

import warnings
from collections import defaultdict
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.models.onnx_programs import HAS_ONNX, NEEDS_ONNX
from workbench import models

if HAS_ONNX:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.loader import load_model_tests

pytestmark = [
    *NEEDS_ONNX,
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),  # cases at singular points
]

#: Cases with another value, or none, and why.
OTHER_VALUES = {
    "test_bernoulli": "draws",
    "test_scan_sum": "of version 8",
    "scales_linear_align_corners": "by the length asked for, not the whole one",
    "scales_cubic_align_corners": "by the length asked for, not the whole one",
    "test_roialign_mode_max": "the largest of four products, not of samples",
    "test_ai_onnx_ml_tree_ensemble": "steps: no derivative",
}
#: Cases whose gradient no differences show, and why.
OTHER_SLOPES = {
    "test_acosh_example": "at the end of what it is defined for",
    "test_mod_float_edge_cases": "infinite",
    "bias_3d_mask_causal": "the output is infinite",
    "bias_4d_mask_causal": "the output is infinite",
    "test_unique": "moved entries are no longer equal",
}
#: Operands that decide lengths: constants (`onnx_rules`).
CONSTANT = {"Resize", "Upsample"}


def is_float(x: Any) -> bool:
    return isinstance(x, np.ndarray) and x.dtype in (np.float32, np.float64) and x.size


def is_known(name: str, cases: dict[str, str]) -> bool:
    return any(part in name for part in cases)


class Case:
    """A model of one node, as a function of its floats."""

    def __init__(self, case: Any) -> None:
        self.case, self.op = case, case.model.graph.node[-1].op_type
        self.inputs, self.outputs = map(list, case.data_sets[0])
        self.varied = [i for i, x in enumerate(self.inputs) if is_float(x)]
        self.read = [i for i, y in enumerate(self.outputs) if is_float(y)]
        self.f, self.weights = models.from_onnx(case.model)

    def run(self, *floats: Any) -> list[Any]:
        inputs = list(self.inputs)
        for i, x in zip(self.varied, floats, strict=True):
            inputs[i] = x
        made = self.f(self.weights, *inputs)
        return [made[i] for i in self.read]

    def has_value(self, made: list[Any]) -> bool:
        rtol, atol = max(self.case.rtol, 3e-5), max(self.case.atol, 1e-6)
        wanted = [self.outputs[i] for i in self.read]
        return all(
            y.shape == want.shape
            and y.dtype == want.dtype
            and np.allclose(y, want, rtol, atol, equal_nan=True)
            for y, want in zip(made, wanted, strict=True)
        )

    def has_slope(self, rng: np.random.Generator) -> bool:
        """Whether the gradient is that of differences, there or beside a kink."""
        return any(self.agrees(shift, rng) for shift in (0, 0.01))

    def agrees(self, shift: float, rng: np.random.Generator) -> bool:
        free = [i == 0 or self.op not in CONSTANT for i in self.varied]
        given = [self.inputs[i].astype(float) for i in self.varied]
        at = [
            x + f * shift * rng.normal(size=x.shape)
            for x, f in zip(given, free, strict=True)
        ]
        ways = [f * rng.normal(size=x.shape) for x, f in zip(given, free, strict=True)]
        made, pull = wb.vjp(self.run, *at)
        seeds = [rng.normal(size=y.shape).astype(y.dtype) for y in made]
        slope = sum(np.sum(g * d) for g, d in zip(pull(seeds), ways, strict=True))

        def loss(t: float) -> float:
            moved = self.run(*(x + t * d for x, d in zip(at, ways, strict=True)))
            return sum(float(np.sum(y * c)) for y, c in zip(moved, seeds, strict=True))

        # Many definitions by other ops compute in float32.
        for h in (1e-6, 1e-4, 1e-3):
            want = (loss(h) - loss(-h)) / (2 * h)
            if abs(want - slope) <= 3e-3 * max(1, abs(want), abs(slope)):
                return True
        return False


@np.errstate(all="ignore")  # a warning costs more than a case
def test_all_cases() -> None:
    rng = np.random.default_rng(0)
    bad: dict[str, list[str]] = defaultdict(list)
    values = slopes = 0
    for case in load_model_tests(kind="node"):
        domains = {n.domain for n in case.model.graph.node}
        if "ai.onnx.preview.training" in domains or not case.data_sets:
            continue
        inputs, outputs = case.data_sets[0]
        if not (any(map(is_float, inputs)) and any(map(is_float, outputs))):
            continue
        try:
            made = Case(case)
            floats = [made.inputs[i] for i in made.varied]
            traced = wb.vjp(made.run, *floats)[0]
            right = made.has_value(traced)
        except Exception as error:
            right = False
            bad[f"{type(error).__name__}: {error}"[:200]].append(case.name)
        if not right:
            if not is_known(case.name, OTHER_VALUES):
                bad["value"].append(case.name)
            continue
        values += 1
        try:
            right = made.has_slope(rng)
        except Exception:
            right = False
        slopes += right
        if not right and not is_known(case.name, OTHER_SLOPES):
            bad["slope"].append(case.name)
    assert not bad["value"], dict(bad)
    assert not bad["slope"], bad["slope"]
    assert values >= 1100, values
    assert slopes >= 1000, slopes
