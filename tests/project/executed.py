"""A tutorial that has been run, and what its cells have shown: for its tests.

The tutorials are kept with their outputs. `make tutorials` runs them and writes
these anew; `differences` says where kept ones are not those of a fresh run.
"""

from __future__ import annotations

import copy
import fcntl
import math
import re
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from workbench.session.wire import MIME_TYPE, read_saved

ROOT = Path(__file__).resolve().parents[2]
#: The tutorial that opens models of other libraries, which it needs, and no other does:
#: its test, tests/models/test_tutorial.py, runs it in an environment of its own.
MODELS = ROOT / "notebooks" / "14-other-libraries.ipynb"
#: All others.
NOTEBOOKS = sorted({*(ROOT / "notebooks").glob("*.ipynb")} - {MODELS})
PLOTLY = "application/vnd.plotly.v1+json"


#: A number, and what follows it if that makes it a time, which differs in each run.
NUMBER = re.compile(
    r"(?<![\w.])[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(\s?(?:ns|µs|us|ms|s|min)\b)?"
)
#: The lines of a step of a profile: they stand in the order of times.
ROW = re.compile(r"^ *[\d.]+%.*(?:\n {7}.*)*\n?", re.MULTILINE)
#: How far a check is, which only a slow machine sees.
PROGRESS = re.compile(r"\r?checked \d+ of \d+(, \d+ s left)?")
#: What a check draws at random, how much in its time, and what it finds of rounding.
DRAWN = re.compile(
    r"worst \S+\[[\d, ]*\](: \S+)?|off by [\d.e+-]+|tolerance [\d.e+-]+|seed \d+"
    r"|along a line: [\d.e+-]+|(all \d+|\d+ of \d+) entries"
)
#: Below this a number may be what rounding left, of which each processor has its own.
ROUNDING = 1e-6


class Executed:
    """A notebook after it has run; `kept` is what its file holds.

    With ``run`` the outputs are those of that file, from a run before.
    """

    def __init__(self, path: Path, run: Path | None = None) -> None:
        # It takes seconds to load, which whoever runs no tutorial need not wait for.
        import nbformat

        self.path = path
        self.kept: Any = nbformat.read(path, as_version=4)
        if run is None:
            self.notebook: Any = copy.deepcopy(self.kept)
            self.execute()
        else:
            self.notebook = nbformat.read(run, as_version=4)

    def execute(self) -> None:
        """Run all cells in a kernel of their own."""
        from nbclient import NotebookClient

        client = NotebookClient(
            self.notebook,
            timeout=600,
            kernel_name="python3",
            record_timing=False,
            coalesce_streams=True,  # and of a line that is written over, the last
            resources={"metadata": {"path": str(self.path.parent)}},
        )
        client.execute()
        # The version of Python does not belong in a tutorial.
        self.notebook.metadata = self.kept.metadata

    def save(self, path: Path | None = None) -> None:
        """Write the notebook with the outputs of this run over its file, or to one."""
        import nbformat

        nbformat.write(self.notebook, path or self.path)

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


#: Gives a tutorial by its name.
Tutorial = Callable[[str], Executed]


def execute(name: str, folder: Path) -> Executed:
    """Run a tutorial, once for all processes that keep what they ran in a folder."""
    path, run = ROOT / "notebooks" / f"{name}.ipynb", folder / f"{name}.ipynb"
    with (folder / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if run.exists():
            return Executed(path, run)
        executed = Executed(path)
        executed.save(run)
        return executed


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
                said = PROGRESS.sub("", output.text)
                assert not said.strip() or any(text in said for text in but), said


# Outputs that are kept beside those of a fresh run


def differences(executed: Executed) -> Iterator[str]:
    """Say for each cell whose kept outputs are not those of the run what differs.

    Texts are compared with their numbers to three digits and without times, an SVG by
    its elements and texts, a saved graph by its strings and nodes, a figure by its
    traces; no pixels, no positions.
    """
    for kept, run in zip(executed.kept.cells, executed.notebook.cells, strict=True):
        if kept.cell_type == "code":
            pairs = zip_longest(outline(kept.outputs), outline(run.outputs))
            for old, new in pairs:
                if not alike(old, new):
                    head = kept.source.partition("\n")[0]
                    yield f"{head!r}: kept {old!r}, a fresh run has {new!r}"
                    break


def outline(outputs: Any) -> Iterator[str]:
    """Give what of a cell's outputs is the same on each machine, as lines of text."""
    texts: dict[str, str] = {}
    for output in outputs:
        if output.output_type == "stream":
            # How a stream is cut into pieces is up to the kernel's clock.
            texts[output.name] = texts.get(output.name, "") + output.text
            continue
        yield output.output_type
        for kind, value in sorted(output.data.items()):
            yield kind
            if kind == "image/svg+xml":
                for element in ElementTree.fromstring(value).iter():
                    yield f"{element.tag} {element.text or ''}"
            elif kind == MIME_TYPE:
                header = read_saved(value).header
                yield from map(str, header["strings"])
                yield str(sorted(header))
            elif kind == PLOTLY:
                for trace in value["data"]:
                    yield f"{trace['type']} {trace.get('name', '')} {sorted(trace)}"
            elif isinstance(value, str):
                yield from value.splitlines()
    for name, text in sorted(texts.items()):
        # How far a check is, a slow machine sees: a line that is wiped in the end.
        text = PROGRESS.sub("", text)
        if name != "stderr" and text.strip():
            yield name
            yield from ROW.sub("", text).split("\n")


def alike(kept: str | None, fresh: str | None) -> bool:
    """Return whether two lines have the same words, and numbers up to rounding."""
    if kept is None or fresh is None:
        return kept is fresh
    kept, fresh = DRAWN.sub("", kept), DRAWN.sub("", fresh)
    words = [re.sub(r"\s+", " ", NUMBER.sub("#", text)) for text in (kept, fresh)]
    if words[0] != words[1]:
        return False
    for old, new in zip(NUMBER.finditer(kept), NUMBER.finditer(fresh), strict=True):
        is_time = old[1] and new[1]
        numbers = (
            float(old[0].removesuffix(old[1] or "")),
            float(new[0].removesuffix(new[1] or "")),
        )
        if not is_time and not math.isclose(*numbers, rel_tol=1e-3, abs_tol=ROUNDING):
            return False
    return True


if __name__ == "__main__":
    # Those that are named, into a folder if the last name is one; all without names.
    *chosen, last = sys.argv[1:] or [""]
    into = Path(last) if Path(last).is_dir() and last else None
    names = [*chosen, last] if last and into is None else chosen
    for path in [ROOT / "notebooks" / f"{x}.ipynb" for x in names] or NOTEBOOKS:
        print(path.name, flush=True)
        Executed(path).save(into and into / path.name)
