"""The guide's page on ONNX models runs, from the first line to the last."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.models.onnx_programs import HAS_ONNX, NEEDS_ONNX, model, node
from tests.project.environments import ROOT

if HAS_ONNX:
    import onnx

pytestmark = NEEDS_ONNX

PAGE = ROOT / "notebooks" / "guide" / "how-to" / "open-an-onnx-model.md"


def test_its_lines_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    made = model(
        node("MatMul", "x W", "h", name="/encoder/layer0/MatMul"),
        node("Tanh", "h", "y"),
        W=np.linspace(-0.5, 0.5, 8).reshape(4, 2),
    )
    onnx.save(made, "model.onnx")
    names: dict[str, Any] = {}
    cells = re.findall(r"^```py\n(.*?)^```", PAGE.read_text("utf-8"), re.M | re.S)
    assert len(cells) == 4
    for cell in cells:
        exec(compile(cell, "page", "exec"), names)
    W, x = names["weights"]["W"], names["x"]
    y = np.tanh(x @ W)
    slope = 2 * y * (1 - y**2) @ W.T
    np.testing.assert_allclose(names["dx"], slope)
    want = names["gradient"].run([*names["weights"].values(), x])
    again = names["g"](names["constants"], *names["weights"].values(), x)
    np.testing.assert_allclose(again, want)
    np.testing.assert_allclose(again[0], slope / 2)  # the override halves it
