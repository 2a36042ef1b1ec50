"""A still picture of a session, for pages that have neither kernel nor extension.

Forward values are cards, with the norm of each gradient beside its card. A node with a
wrong rule, or the op in which a cell failed, has a red frame, one with a finding of the
doctor a mark, and one that an override covers a dashed frame.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise

from workbench.core.blame import shorten
from workbench.core.drawing import Card, draw_cards, format_short
from workbench.ops import define
from workbench.session.wire import Snapshot
from workbench.session.wire.protocol.fields import STATISTICS, STATUSES

WRONG = STATUSES.index("wrong")
#: What a check says of nodes with these is told at their cards.
TOLD = (WRONG, STATUSES.index("kink"), STATUSES.index("overridden"))
_NORM = STATISTICS.index("norm")
_BAD = STATISTICS.index("bad")


def draw_picture(snapshot: Snapshot) -> str:
    """Return a snapshot as SVG."""
    header = snapshot.header
    title, value = header["session"], header["output_value"]
    if header["output"] >= 0:
        title += f" · {header['output_name']}"
        title += "" if value is None else f" = {value:.6g}"
    reader = _Reader(snapshot)
    return draw_cards(
        [reader.make_card(i) for i in range(header["nodes"])],
        title,
        message="" if header["error"] is None else header["error"]["message"],
        words=[*reader.list_verdicts(), *reader.list_gradients()],
    )


class _Reader:
    """The texts and numbers of each node of a snapshot."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.header = snapshot.header
        self.columns = columns = {k: v.tolist() for k, v in snapshot.columns.items()}
        self.inputs = [
            columns["inputs"][a:b] for a, b in pairwise(columns["input_start"])
        ]
        self.flows = [
            columns["edge_norm"][a:b] for a, b in pairwise(columns["input_start"])
        ]
        width = len(STATISTICS)
        grads = snapshot.columns["grad_stats"].reshape(-1, width)
        self.norm, self.bad = grads[:, _NORM].tolist(), grads[:, _BAD].tolist()
        error = self.header["error"]
        self.failed = None if error is None else error["node"]
        self.matched = [set(one["matched"]) for one in self.header["overrides"]]
        self.findings = (self.header["findings"] or {"list": []})["list"]
        #: The worst finding of each node, by its position in the list.
        self.finding_of_node: dict[int, int] = {}
        for k, finding in enumerate(self.findings):
            self.finding_of_node.setdefault(finding["node"], k)
        self.loops = self._name_loops()

    def _name_loops(self) -> dict[int, str]:
        """Return for each unrolled loop how the outermost around it is called."""
        columns = self.columns
        if "loop" not in columns:
            return {}
        around = self.header.get("around", [])
        outermost: dict[int, int] = {}
        for number in sorted({*columns["loop"]} - {-1}):
            outer = around[number][0] if around else -1
            while outer >= 0 and around[outer][0] >= 0:
                outer = around[outer][0]
            outermost[number] = number if outer < 0 else outer
        steps: dict[int, int] = {}
        lines: dict[int, set[int]] = {}
        for number, step, line in zip(
            columns["loop"], columns["iteration"], columns["line"], strict=True
        ):
            while number >= 0 and outermost.get(number, number) != number:
                number, step = around[number]
            if number >= 0:
                steps[number] = max(steps.get(number, 0), step + 1)
                lines.setdefault(number, set()).add(line)
        names = {
            outer: f"×{count}{_format_lines(lines[outer])}"
            for outer, count in steps.items()
        }
        return {number: names[outer] for number, outer in outermost.items()}

    def string(self, column: str, node: int) -> str:
        index = self.columns[column][node]
        return self.header["strings"][index] if index >= 0 else ""

    def label(self, node: int) -> str:
        return self.string("name", node) or self.string("op", node) or "input"

    def describe_op(self, node: int) -> str:
        """Return the op of a node, or the op that the node is an output of."""
        op = self.string("op", node)
        if op == define.ITEM.name:
            return f"of {self.string('op', self.inputs[node][0])}"
        return op

    def make_card(self, node: int) -> Card:
        """Return the card of a node."""
        name, op = self.string("name", node), self.describe_op(node)
        k = self.columns["override"][node]
        is_covered = k >= 0 and node not in self.matched[k]
        is_wrong = self.status(node) == WRONG or node == self.failed
        norm = self.norm[node]
        found = self.finding_of_node.get(node)
        scope = self.string("scope", node).partition("/")[0]
        loop = self.columns["loop"][node] if self.loops else -1
        return Card(
            name,
            op or ("" if name else "input"),
            self.string("shape", node),
            self.inputs[node],
            "op" if op else "leaf",
            "; ".join(self.describe_checks(node)),
            scope or (self.loops[loop] if loop >= 0 else ""),
            math.nan if self.bad[node] > 0 else None if norm != norm else norm,
            self.flows[node],
            "" if k < 0 or is_covered else self.header["overrides"][k]["label"],
            "wrong" if is_wrong else "covered" if is_covered else "",
            "" if found is None else self.findings[found]["severity"],
        )

    def status(self, node: int) -> int:
        return self.columns["check"][node] if "check" in self.columns else 0

    def describe_checks(self, node: int) -> list[str]:
        """Return the results of a check and the doctor at a node, for its tooltip."""
        lines = []
        if self.status(node) in TOLD:
            checked = self.header["check"]
            lines += [
                one["text"]
                for one in (checked["nodes"] if checked else [])
                if one["node"] == node
            ] or [STATUSES[self.status(node)]]
        if node in self.finding_of_node:
            lines.append(self.findings[self.finding_of_node[node]]["title"])
        return lines

    def list_verdicts(self) -> Iterator[str]:
        """Yield lines on the last check and on the first findings."""
        check = self.header["check"]
        if check is not None:
            wrong = check["counts"].get("wrong", 0)
            words = f"{wrong} wrong" if wrong else "no rule wrong"
            if check["changes"]:
                words += f"; {check['changes']}"
            yield f"Gradient check: {words}"
        for one in self.findings[:5]:
            yield f"{one['severity']}: {one['title']}"

    def list_gradients(self) -> Iterator[str]:
        """Yield the norms of the gradients that were asked for."""
        for k, i in enumerate(self.header["wrt"][:20]):
            if k == 0:
                yield "Gradients:"
            norm = "–" if self.norm[i] != self.norm[i] else format_short(self.norm[i])
            label = shorten(self.label(i), 30)
            yield f"{label} {self.string('shape', i)}: norm {norm}"


def _format_lines(lines: set[int]) -> str:
    """Return some lines of a cell as the page writes them: `` · lines 4–7``."""
    known = lines - {-1}
    if not known:
        return ""
    first, last = min(known), max(known)
    return f" · line {first}" if first == last else f" · lines {first}–{last}"
