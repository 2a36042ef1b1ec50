"""A graph in the DOT language, for Graphviz and all that read it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from workbench.core.summary import Drawable, Shown, described

__all__ = ["dot"]

_CONTROL = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
_LOOKS = {
    "forward": 'fillcolor="#ffffff", color="#b6c0d0"',
    "leaf": 'fillcolor="#eef2f8", color="#b6c0d0"',
    "backward": 'fillcolor="#fff3e0", color="#ef8a00"',
    "overridden": 'fillcolor="#ece5f8", color="#5b32a3"',
}


def dot(graph: Drawable) -> str:
    """Forward and backward each in a cluster; derivative links dashed."""
    return "\n".join(_lines(described(graph)))


def _lines(shown: list[Shown]) -> Iterator[str]:
    yield "digraph program {"
    yield '  node [shape=box, style="rounded,filled", fontname="sans-serif"];'
    yield '  edge [color="#6b7280"];'
    for name, backward in (("forward", False), ("backward", True)):
        mine = [i for i, one in enumerate(shown) if one.backward is backward]
        if not mine:
            continue
        yield f"  subgraph cluster_{name} {{"
        yield f'    label="{name}"; fontname="sans-serif"; color="#b6c0d0";'
        for i in mine:
            yield f"    n{i} [{_node(shown[i])}];"
        yield "  }"
    for i, one in enumerate(shown):
        for j in one.reads:
            yield f"  n{j} -> n{i};"
        if one.forward is not None:
            yield (
                f"  n{one.forward} -> n{i}"
                f' [style=dashed, constraint=false, color="#ef8a00", {_tip(one)}];'
            )
    yield "}"


def _node(one: Shown) -> str:
    look = (
        "overridden"
        if one.overridden
        else "backward"
        if one.backward
        else "forward"
        if one.op
        else "leaf"
    )
    label = f"{one.label}\n{one.made}\n{one.spec}"
    return f"label={quoted(label)}, {_LOOKS[look]}"


def _tip(one: Shown) -> str:
    return f"tooltip={quoted(one.origin)}"


def quoted(text: str) -> str:
    r"""A text as a quoted string of DOT, in which it stands for itself.

    >>> print(quoted('a "b" \\N'))
    "a \"b\" \\N"
    """
    text = text.replace("\\", "\\\\").replace('"', '\\"')
    lines = [
        _CONTROL.sub("\N{REPLACEMENT CHARACTER}", line) for line in text.split("\n")
    ]
    return '"' + "\\n".join(lines) + '"'
