"""A tutorial that has been run, and what its cells have shown: for its tests."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
PLOTLY = "application/vnd.plotly.v1+json"


class Executed:
    """A notebook after it has run."""

    def __init__(self, path: Path) -> None:
        # They take seconds to load, which whoever runs no tutorial need not wait for.
        import nbformat
        from nbclient import NotebookClient

        self.notebook: Any = nbformat.read(path, as_version=4)
        client = NotebookClient(
            self.notebook,
            timeout=600,
            kernel_name="python3",
            resources={"metadata": {"path": str(path.parent)}},
        )
        client.execute()

    def cell(self, start: str, place: int | None = None) -> Any:
        """The only code cell that starts so; with a place, that one of several."""
        found = [
            cell
            for cell in self.notebook.cells
            if cell.cell_type == "code" and cell.source.startswith(start)
        ]
        assert place is not None or len(found) == 1, start
        return found[place or 0]

    def printed(self, start: str, place: int | None = None) -> str:
        outputs = self.cell(start, place).outputs
        return "".join(o.text for o in outputs if o.output_type == "stream")

    def shown(self, start: str, place: int | None = None) -> str:
        """The value of a cell's last line, as text."""
        outputs = self.cell(start, place).outputs
        (made,) = (o for o in outputs if o.output_type == "execute_result")
        return str(made.data["text/plain"])

    def data(self, kind: str) -> list[Any]:
        return [
            output.data[kind]
            for cell in self.notebook.cells
            if cell.cell_type == "code"
            for output in cell.outputs
            if kind in output.get("data", {})
        ]


@functools.cache
def execute(name: str) -> Executed:
    """Run a tutorial, once for all tests of this process."""
    return Executed(ROOT / "notebooks" / f"{name}.ipynb")


def numbers(text: str) -> list[float]:
    return [float(x) for x in re.findall(r"[+-]?\d+\.?\d*(?:e-?\d+)?", text)]


def matrix(text: str) -> Any:
    """The numbers that the text of an array holds, in rows."""
    return np.array([numbers(line) for line in text.splitlines()])


def quiet(executed: Executed, *but: str) -> None:
    """No cell failed, and none warned but of what contains one of these.

    A check of more than a second may say how far it is, and wipe that line again.
    """
    for cell in executed.notebook.cells:
        for output in cell.get("outputs", []):
            assert output.output_type != "error"
            if output.get("name") == "stderr":
                said = re.sub(r"checked \d+ of \d+(, \d+ s left)?", "", output.text)
                assert not said.strip() or any(text in said for text in but), said
