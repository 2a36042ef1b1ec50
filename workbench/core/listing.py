"""A graph as text, in DOT and as a picture, and what they say of each node.

A node of a gradient is told with the forward node that it comes from. Names are text
wherever they stand, never markup.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any, NamedTuple, Protocol

from workbench.core import types
from workbench.core.blame import format_count, shorten
from workbench.core.dims import Compound, atoms_of
from workbench.core.drawing import Card, draw_cards
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
    arguments = [graph.label(x) for x in node.operands]
    arguments += [f"{k}={_one_line(v)}" for k, v in node.settings.items()]
    return f"{node.op.name}({', '.join(arguments)})"


def _format_constant(value: object) -> str:
    """Return a constant in short: a number itself, an array by its spec."""
    if types.is_weak(value) or getattr(value, "shape", None) == ():
        return str(value)
    return repr(types.spec_of(value))


def _one_line(x: object) -> str:
    """Return a parameter of an op in one line; a program by its repr."""
    return shorten(" ".join((repr if hasattr(x, "outputs") else str)(x).split()))


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


# As a picture


def draw_graph(graph: Drawable) -> str:
    """Return a graph as SVG that needs nothing besides itself."""
    outputs = ", ".join(graph.label(y) for y in graph.outputs)
    count = format_count(len(graph), "node")
    return draw_cards(
        [_make_card(one) for one in describe_nodes(graph)],
        f"{count}, to {outputs}" if outputs else count,
        words=[
            "print(graph) lists them; graph.dot() is for programs that draw large"
            " graphs."
        ],
    )


def _make_card(one: NodeText) -> Card:
    named = one.node.name is not None
    told = f"{one.label} = {one.definition}  {one.spec}"
    kind = "gradient" if one.backward else "op" if one.op else "leaf"
    origin = one.node.origin
    home = one.node if origin is None else origin.forward
    scope = (home.scope or "").partition("/")[0]
    return Card(
        one.label if named else "",
        one.op or one.definition,
        one.brief,
        one.reads,
        "override" if one.overridden else kind,
        f"{told}\n{one.origin}" if one.origin else told,
        f"∂ {scope}" if scope and one.backward else scope,
    )
