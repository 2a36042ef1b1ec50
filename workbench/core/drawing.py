"""A program as a still picture: cards in rows, between them the ways of the data.

The values run down, and so do the gradients that are nodes of the program; a gradient
that is a number beside its card flows up, wider and warmer where it is larger. The
cards of a graph are made by `listing`, those of a session, with its numbers, by
`jupyter`. A graph returns such a picture for its ``repr``, so it stands in its room.
It is light or dark as the reader's system is. Names are text, never markup.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise, repeat
from typing import NamedTuple

from workbench.core.blame import format_count, shorten

#: A picture of more cards is folded; if that does not suffice, it is told in words. It
#: would be taller than a reader scrolls, and heavier than the notebook that keeps it.
MOST_CARDS = 100
MOST_TITLE = 400
CARD, TILE, HIGH = 130, 36, 34
ROW, GAP, EDGE = 58, 18, 16
#: The room of title and message, and that of the legend.
HEAD, FOOT = 44, 24
WARM = ((255, 224, 178), (255, 152, 0), (230, 81, 0))
#: From so warm a tile on, its text is white.
WHITE_FROM = 0.75

#: What a reader is told of the colours; of those alone that are there.
LEGEND = {
    "leaf": "input or constant",
    "gradient": "gradient",
    "override": "overridden",
    "fold": "several nodes",
    "wrong": "wrong",
}
NUMBERS = "at a card: the norm of its gradient"

#: Names begin with ``wbg``: inside a page, a style reaches all of it.
STYLE = """
.wbg{font:9px 'DejaVu Sans',Helvetica,Arial,sans-serif}
.wbg .paper{fill:#f7f9fc;stroke:#e3e7ed}
.wbg .op,.wbg .fold{fill:#fff;stroke:#b6c0d0}
.wbg .fold{stroke-width:3}
.wbg .leaf{fill:#eef2f8;stroke:#b6c0d0}
.wbg .gradient{fill:#fff3e0;stroke:#ef8a00}
.wbg .override{fill:#ece5f8;stroke:#5b32a3}
.wbg .covered{stroke:#5b32a3;stroke-dasharray:4 3}
.wbg .wrong{stroke:#b3261e;stroke-width:2}
.wbg .error,.wbg .bad{fill:#b3261e}
.wbg .warning{fill:#b26a00}
.wbg .note{fill:#6b7280}
.wbg .zero{fill:#e3e7ed}
.wbg text{fill:#1f2937}
.wbg .name{font-size:11px;font-weight:bold}
.wbg .soft{fill:#6b7280}
.wbg .end{text-anchor:end}
.wbg .tile{text-anchor:middle}
.wbg .white{fill:#fff}
.wbg .red{fill:#b3261e}
.wbg path{fill:none;stroke:#9aa5b8;stroke-width:1.2}
.wbg .back{stroke:#ef8a00}
.wbg .value{stroke:#ccd4e0;stroke-width:1}
@media (prefers-color-scheme:dark){
.wbg .paper{fill:#15181e;stroke:#323945}
.wbg .op,.wbg .fold{fill:#222833;stroke:#566176}
.wbg .leaf{fill:#1b2a3d;stroke:#566176}
.wbg .gradient{fill:#3a2a14;stroke:#d9871c}
.wbg .override{fill:#33264f;stroke:#a68be0}
.wbg .covered{stroke:#a68be0}
.wbg .wrong{stroke:#f2776e}
.wbg text{fill:#e6e9ef}
.wbg .soft{fill:#a3adbd}
.wbg .dark{fill:#1f2937}
.wbg .zero{fill:#323945}
.wbg .red{fill:#f2776e}
.wbg path{stroke:#76829a}
.wbg .back{stroke:#d9871c}
.wbg .value{stroke:#3d4657}
}
"""


class Card(NamedTuple):
    """One box of a picture: a node, or several that are folded."""

    #: Its name; empty if it is called by its op.
    name: str
    #: Its op, or what a leaf is.
    op: str
    #: Dtype and shape.
    detail: str
    #: The places of the earlier cards that it reads.
    reads: Sequence[int]
    #: Its look, a key of the legend; or ``op``.
    kind: str = "op"
    #: What is told to those who point at it, and to screen readers.
    title: str = ""
    #: What it is folded in, if there is no room for all: a scope, or a loop.
    fold: str = ""
    #: The norm of its gradient; None if there is none, NaN if it is not finite.
    norm: float | None = None
    #: The norm of what flows back along each edge; NaN where nothing does.
    flows: Sequence[float] = ()
    #: The override that stands beside it.
    override: str = ""
    #: ``wrong``, or ``covered`` by an override of several nodes.
    frame: str = ""
    #: The severity of what has been found there.
    mark: str = ""


def draw_cards(
    cards: Sequence[Card], title: str, *, message: str = "", words: Sequence[str] = ()
) -> str:
    """Return cards as SVG, each below those that it reads.

    Parameters
    ----------
    cards
        The cards, each after those that it reads.
    title
        What the picture shows.
    message
        What went wrong.
    words
        What is told instead of more cards than there is room for.
    """
    folded = cards if len(cards) <= MOST_CARDS else fold_cards(cards)
    if len(folded) > MOST_CARDS:
        return _draw_words(cards, title, message, words)
    scale = _Scale(folded)
    tiles = [0 if one.norm is None else TILE for one in folded]
    pills = [shorten(one.override, 22) for one in folded]
    widths = [
        float(CARD + tile + (7 * len(pill) + 14 if pill else 0))
        for tile, pill in zip(tiles, pills, strict=True)
    ]
    rows = lay_out([one.reads for one in folded], widths, GAP)
    left = [x - w / 2 + EDGE for x, w in zip(rows.x, widths, strict=True)]
    top = [HEAD + r * ROW for r in rows.row]
    parts = [*_draw_edges(folded, rows.passages, left, top, scale)]
    for one, x, y, pill in zip(folded, left, top, pills, strict=True):
        parts += _draw_card(one, x, y, pill, scale)
    height = HEAD + ROW * (max(rows.row, default=0) + 1)
    parts.append(_draw_legend(folded, height - 4))
    return _draw_frame(title, message, parts, rows.width + 2 * EDGE, height + FOOT - 10)


# Folding

#: From the least to the most that the one card for several can say.
_FRAMES = ("", "covered", "wrong")
_MARKS = ("", "note", "warning", "error")


def fold_cards(cards: Sequence[Card]) -> list[Card]:
    """Return one card for all that follow one another in one scope or loop.

    Only neighbours are folded, so a card still comes after all that it reads. A leaf
    that is read in one of them alone belongs to it.

    Examples
    --------
    >>> inner = [Card("", "sin", "", [max(0, i)], fold="layer") for i in range(3)]
    >>> fold_cards([Card("x", "", "", [], "leaf"), *inner])[1].detail
    '3 nodes'
    """
    group = [-1] * len(cards)
    folds: list[str] = []
    for i, one in enumerate(cards):
        if one.reads:
            if not folds or not one.fold or one.fold != folds[-1]:
                folds.append(one.fold)
            group[i] = len(folds) - 1
    readers: dict[int, set[int]] = {}
    for i, one in enumerate(cards):
        for source in one.reads:
            readers.setdefault(source, set()).add(group[i])
    leaves: list[list[int]] = []
    members: list[list[int]] = [[] for _ in folds]
    for i, one in enumerate(cards):
        if one.reads:
            members[group[i]].append(i)
            continue
        home = readers.get(i, set())
        (k,) = home if len(home) == 1 else (-1,)
        if k >= 0 and folds[k] and not one.name:
            members[k].insert(0, i)
        else:
            leaves.append([i])
    groups = leaves + members
    place = {i: k for k, own in enumerate(groups) for i in own}
    return [_merge_cards(cards, own, place) for own in groups]


def _merge_cards(
    cards: Sequence[Card], own: Sequence[int], place: dict[int, int]
) -> Card:
    """Return the card of some that are folded, with the largest of their numbers."""
    flows: dict[int, float] = {}
    for i in own:
        one = cards[i]
        for source, flow in zip(one.reads, one.flows or repeat(math.nan), strict=False):
            if (k := place[source]) != place[i]:
                known = flows.get(k, math.nan)
                flows[k] = flow if math.isnan(known) else max(known, flow)
    first = cards[own[0]]
    if len(own) == 1:
        return first._replace(reads=[*flows], flows=[*flows.values()])
    some = [cards[i] for i in own]
    norms = [one.norm for one in some if one.norm is not None]
    told = [c.title for c in some if c.mark or c.frame or c.override]
    overrides = [*dict.fromkeys(one.override for one in some if one.override)]
    return Card(
        cards[own[-1]].fold,
        "",
        format_count(len(own), "node"),
        [*flows],
        "gradient" if all(one.kind == "gradient" for one in some) else "fold",
        "\n".join([count_ops(some, 5), *told]),
        norm=math.nan if any(map(math.isnan, norms)) else max(norms, default=None),
        flows=[*flows.values()],
        override=", ".join(overrides),
        frame=max((one.frame for one in some), key=_FRAMES.index),
        mark=max((one.mark for one in some), key=_MARKS.index),
    )


def count_ops(cards: Sequence[Card], most: int) -> str:
    """Return how many cards of each op there are, the commonest first."""
    counts = Counter(one.op.partition(" ")[0] for one in cards)
    listed = ", ".join(f"{n} × {op or 'input'}" for op, n in counts.most_common(most))
    return listed + (", …" if len(counts) > most else "")


# Places for the nodes of a small graph: rows from the inputs down.
#
# The page has a layout of its own, for large graphs. Long edges get a place in each row
# that they cross, so that they pass between the cards. Linear in nodes, edges and
# crossed rows.

#: Beyond so many crossed rows, long edges go straight.
MOST_CROSSINGS = 4000
SWEEPS = 8
#: The width of the place of a passing edge.
PASSAGE = 14.0


class LayoutRows(NamedTuple):
    """Where everything is.

    Attributes
    ----------
    row
        The row of each node, from 0 down.
    x
        The middle of each node.
    passages
        For each edge, the x at which it crosses each row between its ends.
    width
        The right end of the picture; the left one is 0.
    """

    row: list[int]
    x: list[float]
    passages: list[list[float]]
    width: float


def lay_out(
    inputs: Sequence[Sequence[int]],
    widths: Sequence[float],
    gap: float,
) -> LayoutRows:
    """Place the nodes of a graph.

    Parameters
    ----------
    inputs
        For each node, the earlier nodes that it reads.
    widths
        How wide each node is.
    gap
        What must stay free between two nodes of a row.
    """
    count = len(inputs)
    row = assign_rows(inputs)
    # Places: the nodes first, then one for each row that a long edge crosses.
    place_row, place_width = list(row), list(widths)
    above: list[list[int]] = [[] for _ in range(count)]
    below: list[list[int]] = [[] for _ in range(count)]
    crossed: list[list[int]] = []
    total = sum(row[i] - row[s] - 1 for i, read in enumerate(inputs) for s in read)
    for i, read in enumerate(inputs):
        for source in read:
            chain = [source]
            if total <= MOST_CROSSINGS:
                for between in range(row[source] + 1, row[i]):
                    chain.append(len(place_row))
                    place_row.append(between)
                    place_width.append(PASSAGE)
                    above.append([])
                    below.append([])
            chain.append(i)
            for a, b in pairwise(chain):
                below[a].append(b)
                above[b].append(a)
            crossed.append(chain[1:-1])
    lines: list[list[int]] = [[] for _ in range(max(place_row, default=-1) + 1)]
    for place, line in enumerate(place_row):
        lines[line].append(place)
    x = _position_places(lines, above, below, place_width, gap)
    left = min((x[p] - w / 2 for p, w in enumerate(place_width)), default=0.0)
    x = [v - left for v in x]
    width = max((x[p] + w / 2 for p, w in enumerate(place_width)), default=0.0)
    passages = [[x[p] for p in chain] for chain in crossed]
    return LayoutRows(row, x[:count], passages, width)


def assign_rows(inputs: Sequence[Sequence[int]]) -> list[int]:
    """Return a row for each node: below its operands, right above its first reader."""
    row = [0] * len(inputs)
    for i, read in enumerate(inputs):
        row[i] = max((row[s] + 1 for s in read), default=0)
    first: dict[int, int] = {}
    for i in range(len(inputs) - 1, -1, -1):
        if i in first:
            row[i] = first[i] - 1
        for s in inputs[i]:
            first[s] = min(first.get(s, row[i]), row[i])
    top = min(row, default=0)
    return [r - top for r in row]


def _position_places(
    lines: list[list[int]],
    above: list[list[int]],
    below: list[list[int]],
    width: list[float],
    gap: float,
) -> list[float]:
    """Return an x for each place: near its neighbours, with few crossings."""
    x = [0.0] * len(width)
    for line in lines:
        _pack(line, [float(k) for k in range(len(line))], x, width, gap)
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        near = above if down else below
        for line in lines if down else reversed(lines):
            wanted = [
                sum(x[n] for n in near[p]) / len(near[p]) if near[p] else x[p]
                for p in line
            ]
            order = sorted(range(len(line)), key=wanted.__getitem__)
            line[:] = [line[k] for k in order]
            _pack(line, [wanted[k] for k in order], x, width, gap)
    return x


def _pack(
    line: list[int],
    wishes: list[float],
    x: list[float],
    width: list[float],
    gap: float,
) -> None:
    """Put a row's places where they want to be, side by side where that collides.

    Neighbours that collide form a block, which goes to the mean of their wishes.
    """
    blocks: list[tuple[float, list[tuple[int, float]], float]] = []
    for place, wish in zip(line, wishes, strict=True):
        # A block: the sum of wishes for its left end, its members, its length.
        total, members, length = wish - width[place] / 2, [(place, 0.0)], width[place]
        while blocks:
            before, others, size = blocks[-1]
            if before / len(others) + size + gap <= total / len(members):
                break
            blocks.pop()
            shift = size + gap
            total = before + total - shift * len(members)
            members = others + [(p, o + shift) for p, o in members]
            length = shift + length
        blocks.append((total, members, length))
    for total, members, _ in blocks:
        start = total / len(members)
        for place, offset in members:
            x[place] = start + offset + width[place] / 2


# What is painted


class _Scale:
    """Colours and widths for the norms of a picture, on a logarithmic scale."""

    def __init__(self, cards: Sequence[Card]) -> None:
        norms = [one.norm for one in cards if one.norm is not None]
        sizes = [
            math.log10(n)
            for n in [*norms, *(flow for one in cards for flow in one.flows)]
            if n > 0 and math.isfinite(n)
        ]
        self.low, self.high = min(sizes, default=0.0), max(sizes, default=0.0)

    def locate(self, norm: float) -> float:
        """Return the place of a norm between the smallest, 0, and the largest, 1."""
        if not (norm > 0 and math.isfinite(norm)) or self.high - self.low < 1e-9:
            return 0.5
        return (math.log10(norm) - self.low) / (self.high - self.low)

    def colour(self, norm: float) -> str:
        t = 2 * self.locate(norm)
        a, b = (WARM[0], WARM[1]) if t <= 1 else (WARM[1], WARM[2])
        t = t if t <= 1 else t - 1
        mixed = (round(u + (v - u) * t) for u, v in zip(a, b, strict=True))
        return "#" + "".join(f"{c:02x}" for c in mixed)


def _draw_edges(
    cards: Sequence[Card],
    passages: list[list[float]],
    left: list[float],
    top: list[int],
    scale: _Scale,
) -> Iterator[str]:
    """Draw the ways of the values, then those of gradients, the widest last."""
    back: list[tuple[float, str]] = []
    edge = 0
    for i, one in enumerate(cards):
        for k, source in enumerate(one.reads):
            between = [x + EDGE for x in passages[edge]]
            path = _draw_path(left, top, source, i, CARD / 2, between)
            is_gradient = [
                c.kind in ("gradient", "override") for c in (cards[source], one)
            ]
            kind = ' class="back"' if all(is_gradient) else ""
            kind = ' class="value"' if is_gradient == [False, True] else kind
            yield f'<path{kind} d="{path}"/>'
            flow = one.flows[k] if one.flows else math.nan
            if not math.isnan(flow) and cards[source].norm is not None:
                wide = 1.2 + 2.8 * scale.locate(flow) if flow else 1.0
                colour = "#b3261e" if math.isinf(flow) else scale.colour(flow)
                path = _draw_path(
                    left, top, source, i, CARD + TILE / 2, [x + 6 for x in between]
                )
                look = f'style="stroke:{colour};stroke-width:{wide:.1f}"'
                look = look if flow else 'class="value"'
                back.append((wide, f'<path {look} d="{path}"/>'))
            edge += 1
    for _, text in sorted(back, key=lambda pair: pair[0]):
        yield text


def _draw_path(
    left: list[float],
    top: list[int],
    source: int,
    reader: int,
    middle: float,
    between: Sequence[float],
) -> str:
    """Return a curve from one card down to another, through the rows between."""
    x, y = left[source] + middle, top[source] + HIGH
    parts = [f"M{x:.0f} {y}"]
    for k, px in enumerate(between):
        row = top[source] + (k + 1) * ROW
        parts.append(f"{_draw_bend(x, y, px, row)}V{row + HIGH}")
        x, y = px, row + HIGH
    return "".join([*parts, _draw_bend(x, y, left[reader] + middle, top[reader])])


def _draw_bend(x: float, y: float, u: float, v: float) -> str:
    middle = (y + v) / 2
    return f"C{x:.0f} {middle:.0f} {u:.0f} {middle:.0f} {u:.0f} {v:.0f}"


def _draw_card(
    one: Card, x: float, y: float, pill: str, scale: _Scale
) -> Iterator[str]:
    is_leaf = one.kind == "leaf"
    inset = 12 if is_leaf else 8
    title = f"<title>{escape_xml(one.title[:MOST_TITLE])}</title>" if one.title else ""
    yield f"<g>{title}" if title else "<g>"
    look = f"{one.kind} {one.frame}".rstrip()
    yield _draw_box(look, x, y, CARD, HIGH, HIGH / 2 if is_leaf else 5)
    name = shorten(one.name or one.op, 16)
    yield _draw_text(x + inset, y + 15, name, "name")
    if one.name and one.op and len(name) < 14:
        op = shorten(one.op, 18 - len(name))
        yield _draw_text(x + CARD - 7, y + 15, op, "soft end")
    yield _draw_text(x + inset, y + 28, shorten(one.detail, 22), "soft")
    if one.norm is not None:
        tile = x + CARD + 2
        is_bad = not math.isfinite(one.norm)
        look = "bad" if is_bad else "zero" if one.norm == 0 else ""
        fill = "" if look else f' fill="{scale.colour(one.norm)}"'
        yield _draw_box(look, tile, y + 3, TILE - 2, HIGH - 6, 4, fill)
        text = "NaN" if is_bad else format_short(one.norm)
        white = is_bad or (one.norm > 0 and scale.locate(one.norm) > WHITE_FROM)
        ink = "tile white" if white else "tile" if look else "tile dark"
        yield _draw_text(tile + TILE / 2 - 1, y + 21, text, ink)
    if pill:
        start = x + CARD + TILE + 4
        yield _draw_box("override", start, y + 8, 7 * len(pill) + 8, 18, 9)
        yield _draw_text(start + 8, y + 21, pill)
    if one.mark:
        yield f'<circle class="{one.mark}" cx="{x:.0f}" cy="{y:.0f}" r="6"/>'
        sign = "i" if one.mark == "note" else "!"
        yield _draw_text(x, y + 3, sign, "tile white")
    yield "</g>"


def _draw_box(
    look: str,
    x: float,
    y: float,
    width: float,
    height: float,
    bend: float,
    more: str = "",
) -> str:
    kind = f' class="{look}"' if look else ""
    return (
        f'<rect{kind} x="{x:.0f}" y="{y:.0f}" width="{width:.0f}"'
        f' height="{height:.0f}" rx="{bend:.0f}"{more}/>'
    )


def _draw_text(x: float, y: float, text: str, look: str = "") -> str:
    kind = f' class="{look}"' if look else ""
    return f'<text{kind} x="{x:.0f}" y="{y:.0f}">{escape_xml(text)}</text>'


def format_short(x: float) -> str:
    """Return a number as a short text for a tile.

    >>> format_short(0.3123), format_short(0.04), format_short(99.96), format_short(1e4)
    ('0.31', '4e-2', '100', '1e4')
    """
    if x == 0 or 0.1 <= abs(x) < 1000:
        return f"{x:.2g}" if abs(x) < 99.5 else f"{x:.0f}"
    mantissa, exponent = f"{x:.0e}".split("e")
    return f"{mantissa}e{int(exponent)}"


def _draw_legend(cards: Sequence[Card], y: float) -> str:
    """Return a line on the colours and numbers that are in the picture."""
    looks = {look for one in cards for look in (one.kind, one.frame)}
    looks |= {"override"} if any(one.override for one in cards) else set()
    told = [
        f'<tspan class="{look}">■</tspan> {words}\N{EM SPACE}'
        for look, words in LEGEND.items()
        if look in looks
    ]
    if any(one.norm is not None for one in cards):
        told.append(NUMBERS)
    return f'<text x="{EDGE}" y="{y}">{"".join(told)}</text>' if told else ""


def _draw_words(
    cards: Sequence[Card], title: str, message: str, words: Sequence[str]
) -> str:
    """Draw a summary in words of a program that is too large to draw."""
    edges = sum(len(one.reads) for one in cards)
    gradient = sum(one.kind in ("gradient", "override") for one in cards)
    lines = [
        f"{len(cards):,} nodes, {edges:,} edges: too many to draw here.",
        count_ops(cards, 8),
        f"{gradient:,} of them belong to the gradient." if gradient else "",
        *words,
    ]
    parts = [
        _draw_text(EDGE, HEAD + 18 * k + 8, shorten(line, 110))
        for k, line in enumerate(filter(None, lines))
    ]
    return _draw_frame(title, message, parts, 680, HEAD + 18 * len(parts) + 12)


def _draw_frame(
    title: str, message: str, parts: Sequence[str], width: float, height: float
) -> str:
    width = max(width, 360.0)
    size = f"{width:.0f} {height:.0f}"
    paper = _draw_box("paper", 1, 1, width - 2, height - 2, 6)
    head = _draw_text(EDGE, 21, shorten(title, int(width / 7)), "name")
    if message:
        most = int((width - 2 * EDGE) / 6)
        head += _draw_text(EDGE, 36, shorten(message, most), "red")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="wbg" width="{width:.0f}"'
        f' height="{height:.0f}" viewBox="0 0 {size}" role="img">'
        f"<title>{escape_xml(title)}</title><style>{STYLE}</style>"
        f"{paper}{head}{''.join(parts)}</svg>"
    )


# Text in pictures: whatever a name holds, it is text there, and never markup.

#: What means something else there; `xml.sax` would load half of the network's modules.
_ESCAPED = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"})

#: What XML cannot hold, even escaped.
_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def escape_xml(text: str) -> str:
    """Return a text escaped for XML.

    >>> escape_xml('<a href="b">')
    '&lt;a href=&quot;b&quot;&gt;'
    """
    return _FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", text).translate(_ESCAPED)
