"""A graph as a still picture, as text and in DOT.

Each node of the gradient stands level with the forward node that it comes from, and a
dashed line joins the two. The picture is light or dark as the page is. Names are text
wherever they stand, never markup.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import count, pairwise
from typing import Any, NamedTuple, Protocol

from workbench.core import deferred, types
from workbench.core.blame import shorten
from workbench.core.dims import Compound, atoms_of
from workbench.core.shared import Shared
from workbench.core.tensor import Tensor
from workbench.core.types import Specs
from workbench.core.walk import is_leaf

# What the text and the pictures of a graph say of each of its nodes.


class Drawable(Protocol):
    """The attributes of a graph that a text or a picture reads."""

    @property
    def inputs(self) -> Sequence[Tensor]:
        """The leaves."""

    @property
    def outputs(self) -> Sequence[Any]:
        """The output Tensors or constants."""

    @property
    def nodes(self) -> list[Tensor]:
        """All its Tensors, in order."""

    @property
    def ids(self) -> dict[Tensor, int]:
        """The position of each among the nodes."""

    def label(self, x: object) -> str:
        """Return how a node or a constant is called."""

    def __len__(self) -> int: ...


class NodeText(NamedTuple):
    """One node."""

    node: Tensor
    #: Its name, or ``%3`` for its position.
    label: str
    #: ``input``, ``shared``, ``constant 1.0``, or the op with its operands.
    definition: str
    #: The positions of the nodes that it reads.
    reads: list[int]
    #: Whether it belongs to a gradient.
    backward: bool
    #: The position of the forward node that it belongs to; None if it is not here.
    forward: int | None
    #: What a gradient's node comes from: ``from tanh h: g * (1 - y**2)``.
    origin: str

    @property
    def op(self) -> str:
        """The op's name; empty for a leaf."""
        return "" if is_leaf(self.node) else self.node.op.name

    @property
    def spec(self) -> str:
        """Dtype and shape."""
        return repr(types.spec_of(self.node))

    @property
    def brief(self) -> str:
        """Dtype and shape in little room: ``?`` for a length with a long text."""
        spec = types.spec_of(self.node)
        if isinstance(spec, tuple):
            return f"{len(spec)} outputs"
        lengths = [str(n) for n in spec.shape]
        return f"{spec.dtype}[{', '.join(n if len(n) < 8 else '?' for n in lengths)}]"

    @property
    def overridden(self) -> bool:
        """True if an override made the node."""
        return self.node.origin is not None and self.node.origin.overridden


def describe_nodes(graph: Drawable) -> list[NodeText]:
    """Return all nodes of a graph, in order."""
    inputs = {x.serial for x in graph.inputs}
    descriptions = [_describe_node(graph, node, inputs) for node in graph.nodes]
    # A constant that only a gradient reads is part of it, as its seed is.
    only: dict[int, bool] = {}
    for one in descriptions:
        for i in one.reads:
            only[i] = only.get(i, True) and one.backward
    return [
        one._replace(backward=True)
        if only.get(i) and one.definition.startswith("constant")
        else one
        for i, one in enumerate(descriptions)
    ]


def _describe_node(graph: Drawable, node: Tensor, inputs: set[int]) -> NodeText:
    ids = graph.ids
    reads = [ids[x] for x in node.inputs if isinstance(x, Tensor) and x in ids]
    origin = node.origin
    forward, text = None, ""
    if origin is not None:
        forward = ids.get(origin.forward)
        whose = origin.forward
        label = whose.name if forward is None else graph.label(whose)
        op = "" if is_leaf(whose) else whose.op.name
        text = f"from {' '.join(filter(None, (op, label)))}"
        text += ", overridden" if origin.overridden else ""
        text += f": {origin.rule}" if origin.rule else ""
    return NodeText(
        node,
        graph.label(node),
        _define_node(graph, node, inputs),
        reads,
        origin is not None,
        forward,
        text,
    )


def _define_node(graph: Drawable, node: Tensor, input_serials: set[int]) -> str:
    if is_leaf(node):
        if isinstance(node, Shared):
            return "shared"
        if node.serial in input_serials:
            return "input"
        if node._value is None:
            return "symbol"
        return f"constant {_format_constant(node._value)}"
    _, inputs, params = deferred.unwrap_deferred(node)
    arguments = [graph.label(x) for x in inputs]
    arguments += [f"{k}={_one_line(v)}" for k, v in params.items()]
    return f"{node.op.name}({', '.join(arguments)})"


def _format_constant(value: object) -> str:
    """Return a constant in short: a number itself, an array by its spec."""
    if types.is_weak(value) or getattr(value, "shape", None) == ():
        return str(value)
    return repr(types.spec_of(value))


def _one_line(x: object) -> str:
    """Return a parameter of an op in one line; a program by its repr."""
    return shorten(" ".join((repr if hasattr(x, "outputs") else str)(x).split()))


def count_ops(nodes: Sequence[NodeText], most: int) -> str:
    """Return how many nodes of each op there are, the commonest first."""
    counts: dict[str, int] = {}
    for one in nodes:
        name = one.op or one.definition.partition(" ")[0]
        counts[name] = counts.get(name, 0) + 1
    common = sorted(counts.items(), key=lambda item: -item[1])
    listed = ", ".join(f"{n} × {op}" for op, n in common[:most])
    return listed + (", …" if len(common) > most else "")


# Places for the nodes of a small graph: rows from the inputs down.
#
# The page has a layout of its own, for large graphs; this one serves still pictures: of
# a graph, and of a session in a saved notebook. Long edges get a place in each row that
# they cross, so that they pass between the cards. Linear in nodes, edges and crossed
# rows.

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
    rows: Sequence[int] | None = None,
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
    rows
        The row of each node, below those of all that it reads; chosen if not given.
    """
    count = len(inputs)
    row = assign_rows(inputs) if rows is None else list(rows)
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


# A graph as text: one line per node.

#: A longer graph is cut in the middle.
MOST_LINES = 2000
#: A column is no wider than this; a longer entry sticks out.
WIDEST = 60


def write_listing(graph: Drawable) -> str:
    """Return a line per node: name, op, spec, and for a gradient its origin."""
    shown = describe_nodes(graph)
    short = _Short(shown)
    rows = [
        (one.label, short(one.definition), short(one.spec), one.origin) for one in shown
    ]
    left_out = len(rows) - MOST_LINES
    half = MOST_LINES // 2
    if left_out > 0:
        rows = rows[:half] + rows[-half:]
    widths = [
        max((len(row[i]) for row in rows if len(row[i]) <= WIDEST), default=0)
        for i in (0, 1, 2)
    ]
    lines = []
    for name, made, spec, origin in rows:
        spec = f"{spec:<{widths[2]}}    {origin}" if origin else spec
        lines.append(f"{name:<{max(widths[0], 6)}} = {made:<{widths[1] + 4}} {spec}")
    if left_out > 0:
        lines.insert(half, f"... {left_out:,} more nodes ...")
    return "\n".join([*lines, *short.legend])


class _Short:
    """Texts with a name for broadcast lengths; ``legend`` explains the names."""

    def __init__(self, shown: Sequence[NodeText]) -> None:
        taken = {one.label for one in shown}
        fresh = (n for i in count(1) if (n := "n" if i == 1 else f"n{i}") not in taken)
        texts = {
            str(atom): ""
            for one in shown
            if one.node._value is None
            for atom in atoms_of([s.shape for s in _as_specs(one.node.spec)])
            if isinstance(atom, Compound) and atom.kind == "broadcast"
        }
        self.names = {text: next(fresh) for text in texts}
        self.legend = [f"{name:<6} = {text}" for text, name in self.names.items()]

    def __call__(self, text: str) -> str:
        if "broadcast(" in text:
            for long, name in self.names.items():
                text = text.replace(long, name)
        return text


def _as_specs(spec: Specs) -> tuple[Any, ...]:
    return spec if isinstance(spec, tuple) else (spec,)


# A graph in the DOT language, for Graphviz and all that read it.

_CONTROL = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
_LOOKS = {
    "forward": 'fillcolor="#ffffff", color="#b6c0d0"',
    "leaf": 'fillcolor="#eef2f8", color="#b6c0d0"',
    "backward": 'fillcolor="#fff3e0", color="#ef8a00"',
    "overridden": 'fillcolor="#ece5f8", color="#5b32a3"',
}


def write_dot(graph: Drawable) -> str:
    """Return a graph in the DOT language, its gradient in a cluster of its own."""
    return "\n".join(_write_dot_lines(describe_nodes(graph)))


def _write_dot_lines(nodes: list[NodeText]) -> Iterator[str]:
    yield "digraph program {"
    yield '  node [shape=box, style="rounded,filled", fontname="sans-serif"];'
    yield '  edge [color="#6b7280"];'
    for name, backward in (("forward", False), ("backward", True)):
        mine = [i for i, one in enumerate(nodes) if one.backward is backward]
        if not mine:
            continue
        yield f"  subgraph cluster_{name} {{"
        yield f'    label="{name}"; fontname="sans-serif"; color="#b6c0d0";'
        for i in mine:
            yield f"    n{i} [{_node_attributes(nodes[i])}];"
        yield "  }"
    for i, one in enumerate(nodes):
        for j in one.reads:
            yield f"  n{j} -> n{i};"
        if one.forward is not None:
            yield (
                f"  n{one.forward} -> n{i}"
                f' [style=dashed, constraint=false, color="#ef8a00", {_tooltip(one)}];'
            )
    yield "}"


def _node_attributes(one: NodeText) -> str:
    look = (
        "overridden"
        if one.overridden
        else "backward"
        if one.backward
        else "forward"
        if one.op
        else "leaf"
    )
    label = f"{one.label}\n{one.definition}\n{one.spec}"
    return f"label={quote_dot(label)}, {_LOOKS[look]}"


def _tooltip(one: NodeText) -> str:
    return f"tooltip={quote_dot(one.origin)}"


def quote_dot(text: str) -> str:
    r"""Return a text as a quoted string of DOT, with special characters escaped.

    >>> print(quote_dot('a "b" \\N'))
    "a \"b\" \\N"
    """
    text = text.replace("\\", "\\\\").replace('"', '\\"')
    lines = [
        _CONTROL.sub("\N{REPLACEMENT CHARACTER}", line) for line in text.split("\n")
    ]
    return '"' + "\\n".join(lines) + '"'


# The still picture

#: A larger graph is described in words.
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


def draw_svg(graph: Drawable) -> str:
    """Return a graph as SVG that needs nothing besides itself."""
    shown = describe_nodes(graph)
    if len(shown) > MOST_NODES:
        return _draw_summary(graph, shown)
    places = _place_cards(shown)
    parts = [*_draw_edges(shown, places)]
    for i, one in enumerate(shown):
        parts += _draw_card(one, places.left[i], places.top[i])
    return _draw_frame(_format_title(graph), parts, places.width, places.height)


def _place_cards(nodes: Sequence[NodeText]) -> _Places:
    down = [i for i, one in enumerate(nodes) if not one.backward]
    up = [i for i, one in enumerate(nodes) if one.backward]
    line, up_line = _assign_lines(nodes, down, up)
    last = max([*line.values(), *up_line.values()], default=0)
    left, top = [0.0] * len(nodes), [0.0] * len(nodes)
    passages: dict[tuple[int, int], list[tuple[float, float]]] = {}
    start = EDGE
    for indices, rows, upward in ((down, line, False), (up, up_line, True)):
        if not indices:
            continue
        at = {i: k for k, i in enumerate(indices)}
        reads = [[at[j] for j in nodes[i].reads if j in at] for i in indices]
        row = [last - rows[i] if upward else rows[i] for i in indices]
        layout = lay_out(reads, [CARD] * len(indices), GAP, row)
        for k, i in enumerate(indices):
            left[i] = start + layout.x[k] - CARD / 2
            top[i] = HEAD + rows[i] * ROW
        edge = 0
        for k, i in enumerate(indices):
            for j in reads[k]:
                between = [start + x for x in layout.passages[edge]]
                ys = [
                    HEAD + (last - r if upward else r) * ROW
                    for r in range(row[j] + 1, row[j] + 1 + len(between))
                ]
                passages[indices[j], i] = list(zip(between, ys, strict=True))
                edge += 1
        start += layout.width + BETWEEN
    return _Places(
        left, top, passages, start - BETWEEN + EDGE, HEAD + (last + 1) * ROW - 6
    )


def _assign_lines(
    nodes: Sequence[NodeText], down: list[int], up: list[int]
) -> tuple[dict[int, int], dict[int, int]]:
    """Return the line of each forward and of each backward node, from 0 at the top.

    A row of forward nodes takes as many lines as the longest chain of backward nodes
    that come from it; it stands on the lowest of them, where that chain begins.
    """
    at = {i: k for k, i in enumerate(down)}
    rows = assign_rows([[at[j] for j in nodes[i].reads if j in at] for i in down])
    row = dict(zip(down, rows, strict=True))
    forward_row: dict[int, int] = {}
    level: dict[int, int] = {}
    longest = [1] * (max(rows, default=0) + 1)
    for i in up:
        forward_row[i] = _home_row(nodes, i, row, forward_row)
        level[i] = max(
            (
                level[j] + 1
                for j in nodes[i].reads
                if forward_row.get(j) == forward_row[i]
            ),
            default=0,
        )
        longest[forward_row[i]] = max(longest[forward_row[i]], level[i] + 1)
    bottom, total = [], 0
    for lines in longest:
        total += lines
        bottom.append(total - 1)
    line = {i: bottom[r] for i, r in row.items()}
    up_line: dict[int, int] = {}
    for i in up:  # above all that it reads
        level_line = bottom[forward_row[i]] - level[i]
        up_line[i] = min(
            [level_line, *(up_line[j] - 1 for j in nodes[i].reads if j in up_line)]
        )
    high = min([0, *up_line.values()])
    return (
        {i: n - high for i, n in line.items()},
        {i: n - high for i, n in up_line.items()},
    )


def _home_row(
    nodes: Sequence[NodeText], i: int, row: dict[int, int], forward_row: dict[int, int]
) -> int:
    """Return the row of the forward node that a backward one belongs to."""
    forward = nodes[i].forward
    if forward is not None:
        return row.get(forward, forward_row.get(forward, 0))
    read = [forward_row[j] for j in nodes[i].reads if j in forward_row]
    return min(read) if read else max(row.values(), default=0)


def _draw_edges(nodes: Sequence[NodeText], places: _Places) -> Iterator[str]:
    left, top = places.left, places.top
    later: list[str] = []
    linked: set[int] = set()
    for i, one in enumerate(nodes):
        for j in one.reads:
            source = nodes[j]
            if source.backward != one.backward:
                side = CARD if one.backward else 0
                start = left[j] + side, top[j] + HIGH / 2
                end = left[i] + CARD - side, top[i] + HIGH / 2
                yield f'<path class="value" d="{_draw_side_curve(start, end)}"/>'
                continue
            upward = one.backward
            before = left[j] + CARD / 2, top[j] + (0 if upward else HIGH)
            after = left[i] + CARD / 2, top[i] + (HIGH if upward else 0)
            kind = ' class="up"' if upward else ""
            path = _draw_curve_between_cards(
                before, after, places.passages[j, i], upward
            )
            later.append(f'<path{kind} d="{path}"/>')
        if one.forward is not None and one.backward and one.forward not in linked:
            # The first of its nodes stands level with it.
            linked.add(one.forward)
            start = left[one.forward] + CARD, top[one.forward] + HIGH / 2
            end = left[i], top[i] + HIGH / 2
            if not nodes[one.forward].backward:
                yield f'<path class="link" d="{_draw_side_curve(start, end)}"/>'
    yield from later


def _draw_side_curve(start: tuple[float, float], end: tuple[float, float]) -> str:
    """Return a curve from the side of one card to the side of another."""
    (x, y), (u, v) = start, end
    bend = max(24.0, abs(u - x) / 3) * (1 if u >= x else -1)
    over = f"{x + bend:.1f} {y:.1f} {u - bend:.1f} {v:.1f}"
    return f"M{x:.1f} {y:.1f}C{over} {u:.1f} {v:.1f}"


def _draw_curve_between_cards(
    start: tuple[float, float],
    end: tuple[float, float],
    passages: list[tuple[float, float]],
    upward: bool,
) -> str:
    """Return a curve from one card to another, between the cards of crossed lines."""
    x, y = start
    parts = [f"M{x:.1f} {y:.1f}"]
    for px, top in passages:
        enter, leave = (top + HIGH, top) if upward else (top, top + HIGH)
        parts.append(_draw_bend(x, y, px, enter))
        parts.append(f"L{px:.1f} {leave:.1f}")
        x, y = px, leave
    return "".join([*parts, _draw_bend(x, y, *end)])


def _draw_bend(x: float, y: float, u: float, v: float) -> str:
    mid = (y + v) / 2
    return f"C{x:.1f} {mid:.1f} {u:.1f} {mid:.1f} {u:.1f} {v:.1f}"


def _draw_card(one: NodeText, x: float, y: float) -> Iterator[str]:
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
    told = f"{one.label} = {one.definition}  {one.spec}"
    told += f"\n{one.origin}" if one.origin else ""
    named = one.node.name is not None
    first = one.label if named else one.op or one.definition
    second = f"{one.op} · {one.brief}" if named and one.op else one.brief
    yield f"<g><title>{escape_xml(told)}</title>"
    yield (
        f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{CARD:.0f}"'
        f' height="{HIGH:.0f}" rx="{round_:.0f}"/>'
    )
    yield _text_element(x + inset, y + 15, shorten(first, 18), "name")
    yield _text_element(x + inset, y + 29, shorten(second, 25), "soft")
    yield "</g>"


def _text_element(x: float, y: float, text: str, kind: str = "") -> str:
    cls = f' class="{kind}"' if kind else ""
    return f'<text{cls} x="{x:.1f}" y="{y:.1f}">{escape_xml(text)}</text>'


def _format_title(graph: Drawable) -> str:
    outputs = ", ".join(graph.label(y) for y in graph.outputs)
    return f"{len(graph)} nodes, to {outputs}" if outputs else f"{len(graph)} nodes"


def _draw_summary(graph: Drawable, nodes: Sequence[NodeText]) -> str:
    """Return a summary of a graph that is too large to draw."""
    edges = sum(len(one.reads) for one in nodes)
    back = sum(one.backward for one in nodes)
    lines = [
        f"{len(nodes):,} nodes, {edges:,} edges: too many to draw.",
        count_ops(nodes, 8),
        f"{back:,} of them belong to the gradient." if back else "",
        "print(graph) lists them; graph.dot() is for programs that draw large graphs.",
    ]
    parts = [
        _text_element(EDGE, HEAD + 18 * k + 8, shorten(line, 110))
        for k, line in enumerate(filter(None, lines))
    ]
    return _draw_frame(
        _format_title(graph), parts, 660.0, HEAD + 18.0 * len(parts) + 12
    )


def _draw_frame(title: str, parts: list[str], width: float, height: float) -> str:
    width, height = max(width, 240.0), max(height, HEAD + 10)
    size = f"{width:.0f} {height:.0f}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="wbg" width="{width:.0f}"'
        f' height="{height:.0f}" viewBox="0 0 {size}" role="img">'
        f"<title>{escape_xml(title)}</title><style>{STYLE}</style>"
        f'<rect class="paper" x=".5" y=".5" width="{width - 1:.0f}"'
        f' height="{height - 1:.0f}" rx="6"/>'
        f"{_text_element(EDGE, 21, shorten(title, max(20, int(width / 7))), 'soft')}"
        f"{''.join(parts)}</svg>"
    )
