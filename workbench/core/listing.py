"""A graph as text: one line per node."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any

from workbench.core.atoms import Made, atoms_of
from workbench.core.summary import Drawable, Shown, described

__all__ = ["listing"]

#: A longer graph is cut in the middle.
MOST_LINES = 2000
#: A column is no wider than this; a longer entry sticks out.
WIDEST = 60


def listing(graph: Drawable) -> str:
    """Name, op, spec; for a node of a gradient what it comes from."""
    shown = described(graph)
    short = _Short(shown)
    rows = [(one.label, short(one.made), short(one.spec), one.origin) for one in shown]
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
    """Texts with a name for what lengths broadcast to; ``legend`` says which."""

    def __init__(self, shown: Sequence[Shown]) -> None:
        taken = {one.label for one in shown}
        fresh = (n for i in count(1) if (n := "n" if i == 1 else f"n{i}") not in taken)
        texts = {
            str(atom): ""
            for one in shown
            if one.node._value is None
            for atom in atoms_of([s.shape for s in _specs(one.node.spec)])
            if isinstance(atom, Made) and atom.kind == "broadcast"
        }
        self.names = {text: next(fresh) for text in texts}
        self.legend = [f"{name:<6} = {text}" for text, name in self.names.items()]

    def __call__(self, text: str) -> str:
        if "broadcast(" in text:
            for long, name in self.names.items():
                text = text.replace(long, name)
        return text


def _specs(spec: Any) -> tuple[Any, ...]:
    return spec if isinstance(spec, tuple) else (spec,)
