"""Write `snapshot.json`: the picture that the tests of kernel and page both read.

``python -m tests.golden.write`` writes it anew, after a change of the wire. It is
the two-layer network of the design in two scopes, as cell 3 of a notebook, with
an override that is on, one on a scope, and one that is off.
"""

from __future__ import annotations

import json
import linecache
from pathlib import Path
from typing import Any, cast

import numpy as np

import workbench as wb
from workbench.graph import source
from workbench.graph.graph import Graph
from workbench.graph.trace import opened
from workbench.snapshot import saved, take

__all__ = ["FILE", "picture", "session"]

FILE = Path(__file__).parent / "snapshot.json"
CELL = "<cell 3 of the golden notebook>"
TEXT = """\
with scope("encoder"):
    h = np.tanh(X @ W1 + b1)
with scope("decoder/out"):
    p = 1 / (1 + np.exp(-(h @ W2 + b2)))
loss = -np.mean(t * np.log(p) + (1 - t) * np.log(1 - p))
"""
INPUTS: dict[str, Any] = {
    "X": np.sin(np.arange(24.0)).reshape(8, 3),
    "W1": np.cos(np.arange(6.0)).reshape(3, 2),
    "b1": np.array([0.25, -0.5]),
    "W2": np.array([1.5, -0.75]),
    "b2": 0.125,
    "t": (np.arange(8) % 2).astype(float),
}


def session() -> wb.Session:
    """The network, traced as a cell traces it, with its overrides."""
    linecache.cache[CELL] = (len(TEXT), None, TEXT.splitlines(True), CELL)
    source.name_files(lambda name: "[3]" if name == CELL else None)
    with opened(list(INPUTS.values()), list(INPUTS)) as leaves:
        names = dict(zip(INPUTS, leaves, strict=True))
        space: dict[str, Any] = {**names, "np": np, "scope": wb.scope}
        exec(compile(TEXT, CELL, "exec"), space)
    for name in ("h", "p", "loss"):
        space[name].name = name
    wrt = [names[name] for name in ("W1", "b1", "W2", "b2")]
    made = wb.Session(Graph(leaves, [space["loss"]]), "loss", wrt, name="model")
    made.override("h", "clip(d, -0.05, 0.05)")
    made.override("decoder/*", "0.5 * d", name="half")
    off = made.override("log", "g")
    made.switch(off, False)
    return made


def picture() -> dict[str, Any]:
    """What a notebook would keep, without what differs from run to run."""
    made = cast(dict[str, Any], saved(take(session()), "golden"))
    made["header"] |= {"seconds": 0.0006, "version": "0.1.0"}
    return made


if __name__ == "__main__":
    FILE.write_text(json.dumps(picture(), indent=1, ensure_ascii=False) + "\n")
