"""The page on models of JAX and PyTorch does what it says."""

from __future__ import annotations

import linecache
import re
from pathlib import Path
from typing import Any

import pytest

REASON = "pip install autodiff-workbench[jax,torch]"
jax = pytest.importorskip("jax", reason=REASON)
pytest.importorskip("torch", reason=REASON)
pytestmark = pytest.mark.long

GUIDE = Path(__file__).resolve().parents[2] / "notebooks" / "guide"


def test_the_code_of_the_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    page = (GUIDE / "how-to" / "jax-and-pytorch.md").read_text("utf-8")
    before = jax.config.jax_enable_x64
    names: dict[str, Any] = {"__name__": "page"}
    try:
        for i, cell in enumerate(re.findall(r"^```py\n(.*?)^```", page, re.M | re.S)):
            lines = cell.splitlines(keepends=True)
            linecache.cache[f"page_{i}.py"] = len(cell), None, lines, f"page_{i}.py"
            exec(compile(cell, f"page_{i}.py", "exec"), names)
    finally:
        jax.config.update("jax_enable_x64", before)
    assert set(names["slopes"]) == {"w", "b"}
    assert not list(names["findings"])
    told = capsys.readouterr().out
    assert "torch_Cube" in told
    assert "page_0.py" in told
