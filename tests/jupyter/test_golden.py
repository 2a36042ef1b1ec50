"""What version 0.1.0 has saved still opens, and its cells give the same numbers.

The files in ``golden`` were written by that version and stay as they are. (Those of
``tests/session/wire/golden`` follow the wire as it is now.)
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from workbench.session.wire import MIME_TYPE, read_saved, take_snapshot

from .conftest import Notebook

GOLDEN = Path(__file__).parent / "golden"
CELLS = [
    cell
    for cell in json.loads((GOLDEN / "notebook-0.1.0.ipynb").read_text())["cells"]
    if cell["cell_type"] == "code"
]


def pictures() -> list[dict[str, Any]]:
    shown = [output.get("data", {}) for cell in CELLS for output in cell["outputs"]]
    return [data[MIME_TYPE] for data in shown if MIME_TYPE in data]


def printed(cell: dict[str, Any]) -> str:
    return "".join("".join(output.get("text", "")) for output in cell["outputs"])


def numbers(header: Any) -> dict[str, Any]:
    """What a picture says of overrides, a check and a diagnosis."""
    check, findings = header["check"], header["findings"]
    return {
        "value": f"{header['output_value']:.9g}",
        "overrides": [
            (one["id"], one["label"], one["rule"], one["enabled"], one["stored"])
            for one in header["overrides"]
        ],
        "effects": [
            (e["name"], e["relative"] and f"{e['relative']:.6g}")
            for one in header["overrides"]
            for e in one["effects"]
        ],
        "done": header["history"]["done"],
        "check": check and (check["verdict"], check["ok"], check["changes"]),
        "findings": findings
        and [(f["kind"], f["title"], f["fix"]["code"]) for f in findings["list"]],
    }


def test_its_pictures_open() -> None:
    found = [read_saved(picture).header for picture in pictures()]
    assert [(h["version"], h["session"]) for h in found] == [
        ("0.1.0", "model"),
        ("0.1.0", "model"),
        ("0.1.0", "lengths"),
        ("0.1.0", "lengths"),
    ]
    model, lengths = found[0], found[2]
    assert len(model["overrides"]) == 8
    assert model["check"] is not None
    assert model["check"]["verdict"] == "changed"
    assert lengths["findings"] is not None
    assert [f["kind"] for f in lengths["findings"]["list"]] == ["infinite-slope"]


@pytest.mark.filterwarnings("ignore")
def test_its_cells_give_the_same_numbers(
    notebook: Notebook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The overrides that are loaded are those that version 0.1.0 has written."""
    monkeypatch.chdir(tmp_path)
    for cell in CELLS:
        source = "".join(cell["source"])
        if source.startswith("again.load"):
            shutil.copy(GOLDEN / "overrides-0.1.0.json", "overrides.json")
        ran = notebook.run(source)
        if source.startswith("told"):
            now, before = json.loads(ran.stdout), json.loads(printed(cell))
            assert now["value"] == pytest.approx(before["value"], rel=1e-12)
            for name, g in before["grads"].items():
                np.testing.assert_allclose(now["grads"][name], g, 1e-9, 1e-14)
    for picture in pictures():
        saved = read_saved(picture).header
        now = take_snapshot(notebook.names[saved["session"]]).header
        assert numbers(now) == numbers(saved)
    assert len(notebook.names["again"].overrides) == 5
