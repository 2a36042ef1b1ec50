"""A still picture of a graph: the program runs down, its gradient up beside it.

Each node of the gradient stands level with the forward node that it comes from, and a
dashed line joins the two. The picture is light or dark as the page is. Names are text
wherever they stand, never markup.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from workbench.core.rows import lay_out, rows_of
from workbench.core.summary import Drawable, Shown, counted, described
from workbench.core.svg import safe, short

__all__ = ["still"]

#: A larger graph is told in words.
MOST_NODES = 400
CARD, HIGH, ROW, GAP = 150.0, 36.0, 58.0, 18.0
EDGE, BETWEEN, HEAD = 16.0, 56.0, 34.0

#: Names begin with ``wbg``: inside a page, a style reaches all of it.
STYLE = """
.wbg{font-family:'DejaVu Sans',Helvetica,Arial,sans-serif;font-size:9px}
.wbg .paper{fill:#f7f9fc;stroke:#e3e7ed}
.wbg .card{fill:#fff;stroke:#b6c0d0}
.wbg .leaf{fill:#eef2f8;stroke:#b6c0d0}
.wbg .back{fill:#fff3e0;stroke:#ef8a00}
.wbg .over{fill:#ece5f8;stroke:#5b32a3}
.wbg text{fill:#1f2937}
.wbg .name{font-size:11px;font-weight:bold}
.wbg .soft{fill:#6b7280}
.wbg path{fill:none;stroke:#9aa5b8;stroke-width:1.2}
.wbg .up{stroke:#ef8a00}
.wbg .value{stroke:#ccd4e0;stroke-width:1}
.wbg .link{stroke:#ef8a00;stroke-width:1;stroke-dasharray:4 3;opacity:.7}
@media (prefers-color-scheme:dark){
.wbg .paper{fill:#15181e;stroke:#323945}
.wbg .card{fill:#222833;stroke:#566176}
.wbg .leaf{fill:#1b2a3d;stroke:#566176}
.wbg .back{fill:#3a2a14;stroke:#d9871c}
.wbg .over{fill:#33264f;stroke:#a68be0}
.wbg text{fill:#e6e9ef}
.wbg .soft{fill:#a3adbd}
.wbg path{stroke:#76829a}
.wbg .up{stroke:#d9871c}
.wbg .value{stroke:#3d4657}
.wbg .link{stroke:#d9871c}
}
"""


class _Places(NamedTuple):
    """Where the cards are, by node: left and top; and the passages of edges."""

    left: list[float]
    top: list[float]
    passages: dict[tuple[int, int], list[tuple[float, float]]]
    width: float
    height: float


def still(graph: Drawable) -> str:
    """A graph as SVG that needs nothing besides itself."""
    shown = described(graph)
    if len(shown) > MOST_NODES:
        return _in_words(graph, shown)
    places = _placed(shown)
    parts = [*_edges(shown, places)]
    for i, one in enumerate(shown):
        parts += _card(one, places.left[i], places.top[i])
    return _framed(_title(graph), parts, places.width, places.height)


def _placed(shown: Sequence[Shown]) -> _Places:
    down = [i for i, one in enumerate(shown) if not one.backward]
    up = [i for i, one in enumerate(shown) if one.backward]
    line, up_line = _lines(shown, down, up)
    last = max([*line.values(), *up_line.values()], default=0)
    left, top = [0.0] * len(shown), [0.0] * len(shown)
    passages: dict[tuple[int, int], list[tuple[float, float]]] = {}
    start = EDGE
    for chosen, rows, upward in ((down, line, False), (up, up_line, True)):
        if not chosen:
            continue
        at = {i: k for k, i in enumerate(chosen)}
        reads = [[at[j] for j in shown[i].reads if j in at] for i in chosen]
        row = [last - rows[i] if upward else rows[i] for i in chosen]
        made = lay_out(reads, [CARD] * len(chosen), GAP, row)
        for k, i in enumerate(chosen):
            left[i] = start + made.x[k] - CARD / 2
            top[i] = HEAD + rows[i] * ROW
        edge = 0
        for k, i in enumerate(chosen):
            for j in reads[k]:
                between = [start + x for x in made.passages[edge]]
                ys = [
                    HEAD + (last - r if upward else r) * ROW
                    for r in range(row[j] + 1, row[j] + 1 + len(between))
                ]
                passages[chosen[j], i] = list(zip(between, ys, strict=True))
                edge += 1
        start += made.width + BETWEEN
    return _Places(
        left, top, passages, start - BETWEEN + EDGE, HEAD + (last + 1) * ROW - 6
    )


def _lines(
    shown: Sequence[Shown], down: list[int], up: list[int]
) -> tuple[dict[int, int], dict[int, int]]:
    """The line of each forward and of each backward node, from 0 at the top.

    A row of forward nodes takes as many lines as the longest chain of backward nodes
    that come from it; it stands on the lowest of them, where that chain begins.
    """
    at = {i: k for k, i in enumerate(down)}
    rows = rows_of([[at[j] for j in shown[i].reads if j in at] for i in down])
    row = dict(zip(down, rows, strict=True))
    home: dict[int, int] = {}
    level: dict[int, int] = {}
    longest = [1] * (max(rows, default=0) + 1)
    for i in up:
        home[i] = _home(shown, i, row, home)
        level[i] = max(
            (level[j] + 1 for j in shown[i].reads if home.get(j) == home[i]), default=0
        )
        longest[home[i]] = max(longest[home[i]], level[i] + 1)
    bottom, total = [], 0
    for lines in longest:
        total += lines
        bottom.append(total - 1)
    line = {i: bottom[r] for i, r in row.items()}
    up_line: dict[int, int] = {}
    for i in up:  # above all that it reads
        wanted = bottom[home[i]] - level[i]
        up_line[i] = min(
            [wanted, *(up_line[j] - 1 for j in shown[i].reads if j in up_line)]
        )
    high = min([0, *up_line.values()])
    return (
        {i: n - high for i, n in line.items()},
        {i: n - high for i, n in up_line.items()},
    )


def _home(
    shown: Sequence[Shown], i: int, row: dict[int, int], home: dict[int, int]
) -> int:
    """The row of the forward node that a backward one belongs to."""
    forward = shown[i].forward
    if forward is not None:
        return row.get(forward, home.get(forward, 0))
    read = [home[j] for j in shown[i].reads if j in home]
    return min(read) if read else max(row.values(), default=0)


def _edges(shown: Sequence[Shown], places: _Places) -> Iterator[str]:
    left, top = places.left, places.top
    later: list[str] = []
    linked: set[int] = set()
    for i, one in enumerate(shown):
        for j in one.reads:
            source = shown[j]
            if source.backward != one.backward:
                side = CARD if one.backward else 0
                start = left[j] + side, top[j] + HIGH / 2
                end = left[i] + CARD - side, top[i] + HIGH / 2
                yield f'<path class="value" d="{_across(start, end)}"/>'
                continue
            upward = one.backward
            before = left[j] + CARD / 2, top[j] + (0 if upward else HIGH)
            after = left[i] + CARD / 2, top[i] + (HIGH if upward else 0)
            kind = ' class="up"' if upward else ""
            path = _along(before, after, places.passages[j, i], upward)
            later.append(f'<path{kind} d="{path}"/>')
        if one.forward is not None and one.backward and one.forward not in linked:
            # The first of its nodes stands level with it.
            linked.add(one.forward)
            start = left[one.forward] + CARD, top[one.forward] + HIGH / 2
            end = left[i], top[i] + HIGH / 2
            if not shown[one.forward].backward:
                yield f'<path class="link" d="{_across(start, end)}"/>'
    yield from later


def _across(start: tuple[float, float], end: tuple[float, float]) -> str:
    """A curve from the side of one card to the side of another."""
    (x, y), (u, v) = start, end
    bend = max(24.0, abs(u - x) / 3) * (1 if u >= x else -1)
    over = f"{x + bend:.1f} {y:.1f} {u - bend:.1f} {v:.1f}"
    return f"M{x:.1f} {y:.1f}C{over} {u:.1f} {v:.1f}"


def _along(
    start: tuple[float, float],
    end: tuple[float, float],
    passages: list[tuple[float, float]],
    upward: bool,
) -> str:
    """A curve from one card to the next, between the cards of the lines it crosses."""
    x, y = start
    parts = [f"M{x:.1f} {y:.1f}"]
    for px, top in passages:
        enter, leave = (top + HIGH, top) if upward else (top, top + HIGH)
        parts.append(_bent(x, y, px, enter))
        parts.append(f"L{px:.1f} {leave:.1f}")
        x, y = px, leave
    return "".join([*parts, _bent(x, y, *end)])


def _bent(x: float, y: float, u: float, v: float) -> str:
    mid = (y + v) / 2
    return f"C{x:.1f} {mid:.1f} {u:.1f} {mid:.1f} {u:.1f} {v:.1f}"


def _card(one: Shown, x: float, y: float) -> Iterator[str]:
    kind = (
        "over"
        if one.overridden
        else "back"
        if one.backward
        else "card"
        if one.op
        else "leaf"
    )
    round_ = 5 if one.op else HIGH / 2
    inset = 8 if one.op else 14
    told = f"{one.label} = {one.made}  {one.spec}"
    told += f"\n{one.origin}" if one.origin else ""
    named = one.node.name is not None
    first = one.label if named else one.op or one.made
    second = f"{one.op} · {one.brief}" if named and one.op else one.brief
    yield f"<g><title>{safe(told)}</title>"
    yield (
        f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{CARD:.0f}"'
        f' height="{HIGH:.0f}" rx="{round_:.0f}"/>'
    )
    yield _text(x + inset, y + 15, short(first, 18), "name")
    yield _text(x + inset, y + 29, short(second, 25), "soft")
    yield "</g>"


def _text(x: float, y: float, text: str, kind: str = "") -> str:
    cls = f' class="{kind}"' if kind else ""
    return f'<text{cls} x="{x:.1f}" y="{y:.1f}">{safe(text)}</text>'


def _title(graph: Drawable) -> str:
    outputs = ", ".join(graph.label(y) for y in graph.outputs)
    return f"{len(graph)} nodes, to {outputs}" if outputs else f"{len(graph)} nodes"


def _in_words(graph: Drawable, shown: Sequence[Shown]) -> str:
    """What there is to say of a graph that is too large to draw."""
    edges = sum(len(one.reads) for one in shown)
    back = sum(one.backward for one in shown)
    lines = [
        f"{len(shown):,} nodes, {edges:,} edges: too many to draw.",
        counted(shown, 8),
        f"{back:,} of them belong to the gradient." if back else "",
        "print(graph) lists them; graph.dot() is for programs that draw large graphs.",
    ]
    parts = [
        _text(EDGE, HEAD + 18 * k + 8, short(line, 110))
        for k, line in enumerate(filter(None, lines))
    ]
    return _framed(_title(graph), parts, 660.0, HEAD + 18.0 * len(parts) + 12)


def _framed(title: str, parts: list[str], width: float, height: float) -> str:
    width, height = max(width, 240.0), max(height, HEAD + 10)
    size = f"{width:.0f} {height:.0f}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="wbg" width="{width:.0f}"'
        f' height="{height:.0f}" viewBox="0 0 {size}" role="img">'
        f"<title>{safe(title)}</title><style>{STYLE}</style>"
        f'<rect class="paper" x=".5" y=".5" width="{width - 1:.0f}"'
        f' height="{height - 1:.0f}" rx="6"/>'
        f"{_text(EDGE, 21, short(title, max(20, int(width / 7))), 'soft')}"
        f"{''.join(parts)}</svg>"
    )
