"""A still picture of a session, for pages that have neither kernel nor extension.

Forward values are cards, data flows down; the gradient of each is a tile at its
right side, and flows up along its own edges, wider and warmer where it is larger.
The picture has a light background of its own, so it can be read on a dark page. A
node with a wrong rule, or the op in which a cell failed, has a red frame, one with a
finding of the doctor a mark, and one that an override covers a dashed frame. Names are
always text, never markup.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

from workbench.core.blame import shorten
from workbench.core.drawing import escape_xml, lay_out
from workbench.ops import define
from workbench.session.wire import Snapshot
from workbench.session.wire.protocol.fields import STATISTICS, STATUSES

#: A larger graph is described in words: its picture would be taller than a reader
#: scrolls, and heavier than the rest of the notebook that keeps it.
MOST_NODES = 100
MOST_TITLE = 400
CARD, TILE, HIGH = 104.0, 36.0, 34.0
ROW = 58.0
GAP = 18.0
EDGE = 16.0
HEAD = 40.0
TEXT, SOFT, LINE = "#1f2937", "#6b7280", "#b6c0d0"
PAPER, CARD_FILL = "#f7f9fc", "#ffffff"
OVERRIDE, OVERRIDE_FILL = "#5b32a3", "#ece5f8"
NOTHING, BAD = "#e3e7ed", "#b3261e"
WARM = ((255, 224, 178), (255, 152, 0), (230, 81, 0))
#: The marks of findings by severity: sign and colour.
FOUND = {"error": ("!", BAD), "warning": ("!", "#b26a00"), "note": ("i", SOFT)}
WRONG, KINK = STATUSES.index("wrong"), STATUSES.index("kink")
OVERRIDDEN = STATUSES.index("overridden")
_NORM = STATISTICS.index("norm")
_BAD = STATISTICS.index("bad")


def draw_picture(snapshot: Snapshot) -> str:
    """Return a snapshot as SVG."""
    if snapshot.header["nodes"] > MOST_NODES:
        return _draw_summary(snapshot)
    return _draw_graph(snapshot)


class _NodeTexts:
    """The texts and numbers of each node in the picture."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.header = snapshot.header
        columns, self.count = snapshot.columns, snapshot.header["nodes"]
        self.columns = columns
        starts, inputs = columns["input_start"].tolist(), columns["inputs"].tolist()
        self.inputs = [inputs[a:b] for a, b in pairwise(starts)]
        width = len(STATISTICS)
        grads = columns["grad_stats"].reshape(-1, width)
        self.norm = grads[:, _NORM].tolist()
        self.bad = grads[:, _BAD].tolist()
        self.edge_norm = columns["edge_norm"].tolist()
        sizes = [
            math.log10(n)
            for n in [*self.norm, *self.edge_norm]
            if n > 0 and math.isfinite(n)
        ]
        nothing = [0] * self.count
        self.check = columns["check"].tolist() if "check" in columns else nothing
        error = self.header["error"]
        self.failed = None if error is None else error["node"]
        self.matched = [set(one["matched"]) for one in self.header["overrides"]]
        #: The worst finding of each node, by its position in the list.
        self.finding_of_node: dict[int, int] = {}
        for k, finding in enumerate((self.header["findings"] or {"list": []})["list"]):
            self.finding_of_node.setdefault(finding["node"], k)
        self.low, self.high = min(sizes, default=0.0), max(sizes, default=0.0)

    def string(self, column: str, node: int) -> str:
        index = int(self.columns[column][node])
        return self.header["strings"][index] if index >= 0 else ""

    def label(self, node: int) -> str:
        return self.string("name", node) or self.string("op", node) or "input"

    def describe_op(self, node: int) -> str:
        """Return the op of a named node, or the op that the node is an output of."""
        op = self.string("op", node)
        if op == define.ITEM.name:
            return f"of {self.string('op', self.inputs[node][0])}"
        return op if self.string("name", node) else ""

    def is_covered(self, node: int) -> bool:
        """Return whether an override replaces this node together with others."""
        k = int(self.columns["override"][node])
        return k >= 0 and node not in self.matched[k]

    def override_label(self, node: int) -> str:
        k = int(self.columns["override"][node])
        if k < 0 or self.is_covered(node):
            return ""
        return self.header["overrides"][k]["label"]

    def describe_checks(self, node: int) -> list[str]:
        """Return the results of a check and the doctor at a node, for its tooltip."""
        lines = []
        if self.check[node] in (WRONG, KINK, OVERRIDDEN):
            checked = self.header["check"]
            lines += [
                one["text"]
                for one in (checked["nodes"] if checked else [])
                if one["node"] == node
            ] or [STATUSES[self.check[node]]]
        if node in self.finding_of_node and self.header["findings"]:
            lines.append(
                self.header["findings"]["list"][self.finding_of_node[node]]["title"]
            )
        return lines

    def compute_warmth(self, norm: float) -> float:
        """Return the place of a norm between the smallest, 0, and the largest, 1."""
        if not (norm > 0 and math.isfinite(norm)) or self.high - self.low < 1e-9:
            return 0.5
        return (math.log10(norm) - self.low) / (self.high - self.low)

    def colour(self, norm: float) -> str:
        if not math.isfinite(norm):
            return BAD
        if norm == 0:
            return NOTHING
        t = 2 * self.compute_warmth(norm)
        a, b = (WARM[0], WARM[1]) if t <= 1 else (WARM[1], WARM[2])
        mixed = (
            round(u + (v - u) * (t if t <= 1 else t - 1))
            for u, v in zip(a, b, strict=True)
        )
        return "#" + "".join(f"{c:02x}" for c in mixed)


def _draw_graph(snapshot: Snapshot) -> str:
    shown = _NodeTexts(snapshot)
    pills = [shorten(shown.override_label(i), 22) for i in range(shown.count)]
    tiles = [TILE if n == n else 0.0 for n in shown.norm]
    widths = [
        CARD + t + (7.0 * len(p) + 14 if p else 0.0)
        for t, p in zip(tiles, pills, strict=True)
    ]
    rows = lay_out(shown.inputs, widths, GAP)
    left = [x - w / 2 + EDGE for x, w in zip(rows.x, widths, strict=True)]
    top = [HEAD + r * ROW for r in rows.row]
    parts = [*_draw_edges(shown, rows.passages, left, top)]
    for i in range(shown.count):
        parts += _draw_card(shown, i, left[i], top[i], pills[i])
    width = max(rows.width + 2 * EDGE, 320.0)
    height = HEAD + ROW * (max(rows.row, default=0) + 1)
    return _draw_frame(shown, parts, width, height)


def _draw_edges(
    texts: _NodeTexts, passages: list[list[float]], left: list[float], top: list[float]
) -> Iterator[str]:
    """Draw forward edges, then the gradient's edges over them, the widest last."""
    back: list[tuple[float, str]] = []
    edge = 0
    for i, read in enumerate(texts.inputs):
        for source in read:
            between = [x + EDGE for x in passages[edge]]
            ys = [top[source] + (k + 1) * ROW for k in range(len(between))]
            start = left[source] + CARD / 2, top[source] + HIGH
            end = left[i] + CARD / 2, top[i]
            path = _draw_path(start, end, between, ys)
            yield f'<path d="{path}" fill="none" stroke="{LINE}" stroke-width="1.2"/>'
            norm = texts.edge_norm[edge]
            if norm == norm and texts.norm[source] == texts.norm[source]:
                start = left[source] + CARD + TILE / 2, top[source] + HIGH
                end = left[i] + CARD + TILE / 2, top[i]
                path = _draw_path(start, end, [x + 6 for x in between], ys)
                wide = 1.2 + 2.8 * texts.compute_warmth(norm) if norm else 1.0
                back.append(
                    (
                        wide,
                        f'<path d="{path}" fill="none" stroke="{texts.colour(norm)}"'
                        f' stroke-width="{wide:.1f}"/>',
                    )
                )
            edge += 1
    for _, text in sorted(back, key=lambda pair: pair[0]):
        yield text


def _draw_path(
    start: tuple[float, float],
    end: tuple[float, float],
    between: list[float],
    ys: list[float],
) -> str:
    """Return a curve from one card down to another, through the rows between."""
    x, y = start
    parts = [f"M{x:.1f} {y:.1f}"]
    for px, py in zip(between, ys, strict=True):
        mid = (y + py) / 2
        parts.append(f"C{x:.1f} {mid:.1f} {px:.1f} {mid:.1f} {px:.1f} {py:.1f}")
        parts.append(f"L{px:.1f} {py + HIGH:.1f}")
        x, y = px, py + HIGH
    mid = (y + end[1]) / 2
    parts.append(f"C{x:.1f} {mid:.1f} {end[0]:.1f} {mid:.1f} {end[0]:.1f} {end[1]:.1f}")
    return "".join(parts)


def _draw_card(
    texts: _NodeTexts, i: int, x: float, y: float, pill: str
) -> Iterator[str]:
    op, op_text = texts.string("op", i), texts.describe_op(i)
    round_ = HIGH / 2 if not op else 5
    frame = f'stroke="{LINE}"'
    if texts.check[i] == WRONG or i == texts.failed:
        frame = f'stroke="{BAD}" stroke-width="2"'
    elif texts.is_covered(i):
        frame = f'stroke="{OVERRIDE}" stroke-dasharray="4 3"'
    words = texts.describe_checks(i)
    # A tooltip, and words for a screen reader.
    title = (
        f"<title>{escape_xml('; '.join(words)[:MOST_TITLE])}</title>" if words else ""
    )
    yield (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{CARD}" height="{HIGH}" rx="{round_}"'
        f' fill="{CARD_FILL}" {frame}' + (f">{title}</rect>" if title else "/>")
    )
    if i in texts.finding_of_node:
        yield from _draw_mark(texts, i, x, y)
    inset = 12 if not op else 8
    yield _draw_text(x + inset, y + 15, shorten(texts.label(i), 12), size=11, bold=True)
    yield _draw_text(
        x + inset, y + 28, shorten(texts.string("shape", i), 16), fill=SOFT
    )
    if op_text:
        shown_op = shorten(op_text, max(3, 13 - len(shorten(texts.label(i), 12))))
        yield _draw_text(x + CARD - 7, y + 15, shown_op, fill=SOFT, anchor="end")
    norm = texts.norm[i]
    if norm == norm or texts.bad[i] > 0:
        tile = x + CARD + 2
        colour = BAD if texts.bad[i] > 0 else texts.colour(norm)
        yield (
            f'<rect x="{tile:.1f}" y="{y + 3:.1f}" width="{TILE - 2}"'
            f' height="{HIGH - 6}" rx="4" fill="{colour}"/>'
        )
        light = colour == BAD or (norm > 0 and texts.compute_warmth(norm) > 0.75)
        yield _draw_text(
            tile + TILE / 2 - 1,
            y + 21,
            "NaN" if texts.bad[i] > 0 else _format_number(norm),
            fill="#ffffff" if light else TEXT,
            anchor="middle",
        )
    if pill:
        start = x + CARD + TILE + 4
        yield (
            f'<rect x="{start:.1f}" y="{y + 8:.1f}" width="{7 * len(pill) + 8}"'
            f' height="18" rx="9" fill="{OVERRIDE_FILL}"/>'
        )
        yield _draw_text(start + 8, y + 21, pill, fill=OVERRIDE)


def _draw_mark(texts: _NodeTexts, i: int, x: float, y: float) -> Iterator[str]:
    """Draw a small disc at the corner of a card with a finding."""
    findings = texts.header["findings"]
    assert findings is not None
    sign, colour = FOUND[findings["list"][texts.finding_of_node[i]]["severity"]]
    yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="6" fill="{colour}"/>'
    yield _draw_text(x, y + 3, sign, fill="#ffffff", bold=True, anchor="middle")


def _draw_summary(snapshot: Snapshot) -> str:
    """Draw a summary in words of a graph that is too large to draw."""
    shown = _NodeTexts(snapshot)
    ops = Counter(shown.string("op", i) or "input" for i in range(shown.count))
    common = ", ".join(f"{n} × {op}" for op, n in ops.most_common(8))
    lines = [
        f"{shown.count} nodes, {shown.header['edges']} edges: too many to draw here.",
        common + (", …" if len(ops) > 8 else ""),
        *_list_findings(shown),
        "Gradients:",
        *(
            f"{shorten(shown.label(i), 30)} {shown.string('shape', i)}:"
            f" norm {_format_number(shown.norm[i])}"
            for i in shown.header["wrt"][:20]
        ),
    ]
    parts = [
        _draw_text(EDGE, HEAD + 18 * k + 8, shorten(line, 110), fill=TEXT)
        for k, line in enumerate(lines)
    ]
    return _draw_frame(shown, parts, 680.0, HEAD + 18.0 * len(lines) + 12)


def _list_findings(texts: _NodeTexts) -> Iterator[str]:
    """Yield lines on the last check and on the first findings."""
    check, findings = texts.header["check"], texts.header["findings"]
    if check is not None:
        wrong = check["counts"].get("wrong", 0)
        words = f"{wrong} wrong" if wrong else "no rule wrong"
        if check["changes"]:
            words += f"; {check['changes']}"
        yield f"Gradient check: {words}"
    for one in (findings["list"] if findings is not None else [])[:5]:
        yield f"{one['severity']}: {one['title']}"


def _draw_frame(
    texts: _NodeTexts, parts: list[str], width: float, height: float
) -> str:
    header = texts.header
    title = header["session"]
    value = header["output_value"]
    if header["output"] >= 0:
        title += f" · {header['output_name']}"
        title += "" if value is None else f" = {value:.6g}"
    frame = (
        f'<rect width="{width:.0f}" height="{height:.0f}" rx="6" fill="{PAPER}"'
        f' stroke="{NOTHING}"/>'
    )
    head = _draw_text(EDGE, 24, shorten(title, 80), size=13, bold=True)
    if header["error"] is not None:
        message = shorten(header["error"]["message"], int((width - 2 * EDGE) / 6))
        head += _draw_text(EDGE, 38, message, fill=BAD)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}"'
        f' height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}" role="img"'
        " font-family=\"'DejaVu Sans',Helvetica,Arial,sans-serif\">"
        f"<title>{escape_xml(title)}</title>{frame}{head}{''.join(parts)}</svg>"
    )


def _draw_text(
    x: float,
    y: float,
    text: str,
    *,
    fill: str = TEXT,
    size: int = 9,
    bold: bool = False,
    anchor: str = "",
) -> str:
    more = ' font-weight="bold"' if bold else ""
    more += f' text-anchor="{anchor}"' if anchor else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{fill}"{more}>'
        f"{escape_xml(text)}</text>"
    )


def _format_number(x: float) -> str:
    """Return a number as a short text for a tile: ``0.31``, ``4e-2``."""
    if x != x:
        return "–"
    if x == 0 or 0.1 <= abs(x) < 1000:
        return f"{x:.2g}" if abs(x) < 100 else f"{x:.0f}"
    mantissa, exponent = f"{x:.0e}".split("e")
    return f"{mantissa}e{int(exponent)}"
