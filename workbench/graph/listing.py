"""A graph as text: one line per node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.graph.shown import described

if TYPE_CHECKING:
    from workbench.graph.graph import Graph

__all__ = ["listing"]

#: A longer graph is cut in the middle.
MOST_LINES = 2000
#: A column is no wider than this; a longer entry sticks out.
WIDEST = 60


def listing(graph: Graph) -> str:
    """Name, op, spec; for a node of a gradient what it comes from."""
    shown = described(graph)
    rows = [(one.label, one.made, one.spec, one.origin) for one in shown]
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
    return "\n".join(lines)
