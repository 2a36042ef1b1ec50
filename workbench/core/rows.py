"""Places for the nodes of a small graph: rows from the inputs down.

The page has a layout of its own, for large graphs; this one serves still pictures: of
a graph, and of a session in a saved notebook. Long edges get a place in each row that
they cross, so that they pass between the cards. Linear in nodes, edges and crossed
rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

__all__ = ["Rows", "lay_out", "rows_of"]

#: Beyond so many crossed rows, long edges go straight.
MOST_CROSSINGS = 4000
SWEEPS = 8
#: The width of the place of a passing edge.
PASSAGE = 14.0


class Rows(NamedTuple):
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
) -> Rows:
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
    row = rows_of(inputs) if rows is None else list(rows)
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
    x = _spread(lines, above, below, place_width, gap)
    left = min((x[p] - w / 2 for p, w in enumerate(place_width)), default=0.0)
    x = [v - left for v in x]
    width = max((x[p] + w / 2 for p, w in enumerate(place_width)), default=0.0)
    passages = [[x[p] for p in chain] for chain in crossed]
    return Rows(row, x[:count], passages, width)


def rows_of(inputs: Sequence[Sequence[int]]) -> list[int]:
    """Each node below all that it reads, and right above its first reader."""
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


def _spread(
    lines: list[list[int]],
    above: list[list[int]],
    below: list[list[int]],
    width: list[float],
    gap: float,
) -> list[float]:
    """An x for each place: near its neighbours, in an order with few crossings."""
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
    wanted: list[float],
    x: list[float],
    width: list[float],
    gap: float,
) -> None:
    """Put a row's places where they want to be, side by side where that collides.

    Neighbours that collide form a block, which goes to the mean of their wishes.
    """
    blocks: list[tuple[float, list[tuple[int, float]], float]] = []
    for place, wish in zip(line, wanted, strict=True):
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
