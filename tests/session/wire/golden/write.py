"""Write `snapshot.json`: the picture that the tests of kernel and page both read.

Beside it, `damaged.json` says which pictures with one field damaged are refused: both
sides must agree.

``python -m tests.session.wire.golden.write`` writes it anew, after a change of the
wire. It is the two-layer network of the design in two scopes, as cell 3 of a
notebook, with an override that is on, one on a scope, and one that is off, and with
a check, findings and a profile that are made up: what is there to be shown, not what a
check would say.
"""

from __future__ import annotations

import copy
import json
import linecache
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np

import workbench as wb
from workbench.backends.profile import Cost, Profile, ProfileRow
from workbench.checks.doctor.finding import Edit, Finding, Findings, Fix
from workbench.checks.report import Comparison, Entry, Identity, NodeCheck, Report
from workbench.core import hooks
from workbench.core.graph import Graph
from workbench.core.trace import ProgramTrace
from workbench.errors import SnapshotError
from workbench.session.profile import SessionProfile
from workbench.session.wire import read_saved, save_snapshot, take_snapshot

__all__ = ["DAMAGED", "FILE", "JUNK", "examined", "picture", "session", "verdicts"]

FILE = Path(__file__).parent / "snapshot.json"
DAMAGED = Path(__file__).parent / "damaged.json"
#: The values that each field gets in turn, after it was taken away, and before the
#: longest ones: too long a text and list, and texts of as many characters as most
#: fields take, and one more, each of which is two units of UTF-16.
JUNK: list[Any] = [
    None, True, -2, 0, 1.5, 10**9, "", "x", [], [0], ["x"], [-1, 7], {},
    {"kind": "node", "node": 99}, {"kind": "op", "op": 1}, [[]], [{}],
]  # fmt: skip
LONGEST: list[Any] = [
    "x" * 100_001, [0] * 10_001, "\U0001f600" * 20_000, "\U0001f600" * 20_001,
]  # fmt: skip
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
    """The session with a check, findings and costs: all that the page paints."""
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
    old, new = "    h = np.tanh(X @ W1 + b1)", "    h = np.tanh(0.1 * (X @ W1) + b1)"
    edit = Edit("[3]", 2, (old,), (new,))
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
                Fix("smaller weights", "0.1 * (X @ W1)", edit=edit),
            ),
            Finding("cut", "note", node["p"], "backward", "p", "e", "c"),
        ),
        "session 'model'",
    )
    made._keep("report", report, made._state)
    made._keep("findings", findings, made._state)
    made._keep("profile", profiled(made, node, ops), made._state)
    return made


def profiled(
    made: wb.Session, node: dict[str, Any], ops: dict[str, Any]
) -> SessionProfile:
    """A profile of two kernels and a product, with what falls to some rules."""
    rows = [
        ProfileRow("kernel 1", (ops["exp"], ops["log"]), 3e-5, 0.6, 640, (0.5, 0.5)),
        ProfileRow("product 1", (ops["matmul"],), 1.5e-5, 0.3, 320, (1.0,)),
        ProfileRow("kernel 2", (node["h"], ops["mean"]), 5e-6, 0.1, 160, (0.75, 0.25)),
    ]
    found = SessionProfile(Profile("compiled", rows, 4096), made.forward.ids, False)
    found.rules = {
        made.nodes.find(node["h"]): Cost(2e-6, 64.0, 2),
        made.nodes.find(ops["matmul"]): Cost(4e-6, 128.0, 1),
    }
    return found


def picture() -> dict[str, Any]:
    """What a notebook would keep, without what differs from run to run."""
    made = cast(
        dict[str, Any], save_snapshot(take_snapshot(examined(session())), "golden")
    )
    made["header"] |= {"seconds": 0.0006, "version": "0.1.0"}
    # Its words are those of the check's own tests.
    made["header"]["check"]["summary"] = "exp is wrong: expected 0.75, got 1.5."
    return made


def verdicts() -> dict[str, str]:
    """Return of each field of the picture what is refused: "x", and "." what is not.

    Of the entries of a list the first stands for all; columns have tests of their own.
    """
    golden = json.loads(FILE.read_text())
    found: dict[str, str] = {}
    for path in list_fields(golden):
        made = [
            damage(golden, path),
            *(damage(golden, path, x) for x in JUNK + LONGEST),
        ]
        marks = "".join("x" if is_refused(one) else "." for one in made)
        found[".".join(map(str, path))] = marks
    return found


def judged() -> str:
    """Return the junk and the verdicts as they stand in the file."""
    lines = [f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in verdicts().items()]
    body = ",\n".join(lines)
    return f'{{\n "junk": {json.dumps(JUNK)},\n "verdicts": {{\n{body}\n }}\n}}'


def list_fields(
    data: Any, path: tuple[str | int, ...] = ()
) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every field, and of the first entry of every list."""
    pairs: Iterable[tuple[Any, Any]] = ()
    if isinstance(data, dict):
        pairs = data.items()
    elif isinstance(data, list):
        pairs = list(enumerate(data))[:1]
    for key, value in pairs:
        yield (*path, key)
        yield from list_fields(value, (*path, key))


def damage(golden: Any, path: tuple[Any, ...], *values: Any) -> Any:
    """Return the picture with one field replaced, or without it."""
    made = copy.deepcopy(golden)
    holder = made
    for key in path[:-1]:
        holder = holder[key]
    if values:
        holder[path[-1]] = values[0]
    else:
        del holder[path[-1]]
    return made


def is_refused(data: object) -> bool:
    """Return whether a picture is refused."""
    try:
        read_saved(data)
    except SnapshotError:
        return True
    return False


if __name__ == "__main__":
    FILE.write_text(json.dumps(picture(), indent=1, ensure_ascii=False) + "\n")
    DAMAGED.write_text(judged() + "\n")
