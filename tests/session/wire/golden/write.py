"""Write `snapshot.json`: the picture that the tests of kernel and page both read.

``python -m tests.session.wire.golden.write`` writes it anew, after a change of the
wire. It is the two-layer network of the design in two scopes, as cell 3 of a
notebook, with an override that is on, one on a scope, and one that is off, and with
a check and findings that are made up: what is there to be shown, not what a check
would say.
"""

from __future__ import annotations

import json
import linecache
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np

import workbench as wb
from workbench.checks.doctor.finding import Finding, Findings, Fix
from workbench.checks.report import Comparison, Entry, Identity, NodeCheck, Report
from workbench.core import hooks
from workbench.core.graph import Graph
from workbench.core.trace import ProgramTrace
from workbench.session.wire import saved, take

__all__ = ["FILE", "examined", "picture", "session"]

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


def name_cell() -> None:
    """Let the cell be called [3], beside those of a notebook."""
    others = hooks.source.call if hooks.source.is_set else None
    if not isinstance(others, CellName):
        hooks.source.set(CellName(others))


@dataclass(frozen=True)
class CellName:
    """What the cell is called, and what others are."""

    others: Callable[[str], str | None] | None

    def __call__(self, filename: str) -> str | None:
        if filename == CELL:
            return "[3]"
        return None if self.others is None else self.others(filename)


def session() -> wb.Session:
    """The network, traced as a cell traces it, with its overrides."""
    linecache.cache[CELL] = (len(TEXT), None, TEXT.splitlines(True), CELL)
    name_cell()
    with ProgramTrace() as trace:
        leaves = trace.open_leaves(list(INPUTS.values()), list(INPUTS))
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
    made.move(off, 0)
    made.undo()
    return made


def examined(made: wb.Session) -> wb.Session:
    """The session with a check and findings of every kind that the page paints."""
    node = {made.nodes.labels[i]: x for i, x in enumerate(made.graph.nodes)}
    ops = {x.op.name: x for x in made.graph.nodes}
    wrong = Entry(
        argument="x",
        index=(3, 1),
        order=1,
        mode="rev",
        analytic=1.5,
        numeric=0.75,
        uncertainty=1e-12,
        tolerance=1e-6,
        left=0.75,
        right=0.75,
        verdict="wrong",
        method="complex step",
    )
    kink = replace(wrong, argument="y", index=(), analytic=0.0, verdict="kink")
    right = replace(wrong, index=(0, 0), analytic=0.75, verdict="right")
    text = "exp: expected 0.75 by x[3, 1], got 1.5"
    report = Report(
        "model",
        7,
        comparisons=[
            Comparison("W1", (3, 2), 1, "rev", [replace(right, argument="W1")]),
            Comparison("b2", (), 1, "rev", [replace(right, argument="b2", index=())]),
            Comparison(
                "W2", (2,), 1, "rev", [replace(wrong, argument="W2", index=(1,))]
            ),
        ],
        identities=[Identity("adjoint", 1.0, 1.0, 1e-9)],
        overridden=("clip ±0.05", "half"),
        changed={"W1": 0.25, "W2": 0.0, "b2": 0.0},
        changers={"W1": ("clip ±0.05", "half")},
        nodes=[
            NodeCheck(ops["matmul"], "right", "rev", right, ""),
            NodeCheck(ops["exp"], "wrong", "rev", wrong, text),
            NodeCheck(ops["log"], "kink", "fwd", kink, "log: a kink at y"),
            NodeCheck(node["h"], "overridden", "rev", None, "clip ±0.05 runs here"),
            NodeCheck(ops["mean"], "unsure", "rev", None, "differences cannot tell"),
        ],
    )
    fix = Fix("zero gradient where it is 0", 'model.override(20, "sanitise")', "0 * d")
    findings = Findings(
        (
            Finding(
                "infinite-slope",
                "error",
                ops["log"],
                "backward",
                "log has an infinite slope at 0",
                "2 of its 8 entries are 0.",
                "The slope of log at 0 is infinite.",
                fix,
                (ops["log"], ops["mean"], node["loss"]),
            ),
            Finding(
                "saturated",
                "warning",
                node["h"],
                "forward",
                "h is saturated",
                "9 of 16 entries are beyond 0.99.",
                "tanh is flat there.",
                Fix("smaller weights", "W1 = 0.1 * W1"),
            ),
            Finding("cut", "note", node["p"], "backward", "p", "e", "c"),
        ),
        "session 'model'",
    )
    made._checked = made._state, report
    made._diagnosed = made._state, findings
    return made


def picture() -> dict[str, Any]:
    """What a notebook would keep, without what differs from run to run."""
    made = cast(dict[str, Any], saved(take(examined(session())), "golden"))
    made["header"] |= {"seconds": 0.0006, "version": "0.1.0"}
    # Its words are those of the check's own tests.
    made["header"]["check"]["summary"] = "exp is wrong: expected 0.75, got 1.5."
    return made


if __name__ == "__main__":
    FILE.write_text(json.dumps(picture(), indent=1, ensure_ascii=False) + "\n")
