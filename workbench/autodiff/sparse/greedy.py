"""The greedy loops of colourings: each vertex in turn, and the orders of the turns.

They are written in the part of Python that `backends/compiled/routine.py` makes machine
code of; without LLVM, and for small patterns, Python runs the same text. A graph is the
index arrays of a CSR matrix: the neighbours of vertex v are
``ends[starts[v]:starts[v + 1]]``. Arrays that hold something for each end of an edge
are in the order of ``ends``.

A set of colours for each vertex (or row) lies in the entries that its edges have,
since it never holds more: ``table[first:last]`` is a hash table, in which a colour c
stands at c modulo the length or in the next entry that was free. ``low`` is the
smallest colour that is not in it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from workbench.core import hooks

#: Python's loop takes less than LLVM does to load, up to so many edges.
MOST_IN_PYTHON = 2_000
#: A row with more entries than that is left out of the order that counts neighbours
#: again after each turn, which would take the square of it.
LONG_ROW = 256
#: So many times the edges of another make a vertex a heavy one (see `is_blocked`).
HEAVY = 8


class Integers(Protocol):
    """An array of integers, or in Python a list of them."""

    def __getitem__(self, place: int, /) -> int: ...

    def __setitem__(self, place: int, number: int, /) -> None: ...


# Sets of colours


def find_place(table: Integers, first: int, last: int, c: int) -> int:
    """Return the place of a colour in a table, or a free place; ``last`` if full."""
    place = first + c % (last - first)
    for _ in range(first, last):
        if table[place] == c or table[place] < 0:
            return place
        place += 1
        if place == last:
            place = first
    return last


def has_colour(table: Integers, first: int, last: int, c: int) -> int:
    """Return whether a colour is in a table."""
    place = find_place(table, first, last, c)
    return place < last and table[place] == c


def add_colour(
    table: Integers, low: Integers, starts: Integers, v: int, c: int
) -> None:
    """Add a colour to the set of v."""
    first = starts[v]
    last = starts[v + 1]
    table[find_place(table, first, last, c)] = c
    while has_colour(table, first, last, low[v]):
        low[v] += 1


# Columns that share no row


def assign_large(
    first: int,
    last: int,
    rows: Integers,
    row_starts: Integers,
    table: Integers,
    low: Integers,
) -> int:
    """Return the smallest colour in no set of some rows; add the colour to each set."""
    c = 0
    for k in range(first, last):
        if low[rows[k]] > c:
            c = low[rows[k]]
    is_free = False
    while not is_free:
        is_free = True
        for k in range(first, last):
            w = rows[k]
            while has_colour(table, row_starts[w], row_starts[w + 1], c):
                c += 1
                is_free = False
    for k in range(first, last):
        add_colour(table, low, row_starts, rows[k], c)
    return c


def assign_columns(
    count: int,
    starts: Integers,
    rows: Integers,
    row_starts: Integers,
    sequence: Integers,
    bits: int,
    few: Integers,
    table: Integers,
    low: Integers,
    colours: Integers,
) -> None:
    """Give each column the smallest colour that no column of its rows has.

    The first colours that each row has met are bits of one number, ``few``: mostly no
    other memory is read. ``table`` and ``low`` are the sets of those from ``bits`` on.
    """
    for turn in range(count):
        v = sequence[turn]
        first = starts[v]
        last = starts[v + 1]
        taken = 0
        for k in range(first, last):
            taken |= few[rows[k]]
        c = 0
        while taken & 1:
            taken >>= 1
            c += 1
        if c < bits:
            for k in range(first, last):
                few[rows[k]] |= 1 << c
        else:
            c = assign_large(first, last, rows, row_starts, table, low)
        colours[v] = c


# Star colouring


def find_first(
    firsts: Integers, colours: Integers, first: int, last: int, c: int
) -> int:
    """Return where the first neighbour of a colour stands in a table, or could.

    In a full table without the colour that is any place.
    """
    place = first + c % (last - first)
    for _ in range(first, last):
        if firsts[place] < 0 or colours[firsts[place]] == c:
            return place
        place += 1
        if place == last:
            place = first
    return place


def forbid_around(
    starts: Integers,
    ends: Integers,
    colours: Integers,
    forbidden: Integers,
    treated: Integers,
    u: int,
    v: int,
) -> None:
    """Forbid v the colours of the neighbours of u."""
    if treated[u] != v:
        treated[u] = v
        for k in range(starts[u], starts[u + 1]):
            if colours[ends[k]] >= 0:
                forbidden[colours[ends[k]]] = v


def is_blocked(
    starts: Integers,
    table: Integers,
    firsts: Integers,
    colours: Integers,
    heavy: int,
    is_proper: int,
    w: int,
    v: int,
    c: int,
) -> int:
    """Return whether v may not have a colour because of its neighbour w.

    A neighbour without a colour that has more edges than v will become the middle of a
    star; one with fewer gets neighbours of different colours. A vertex with far more
    edges than v is not made the end of a star with v, since then each of its other
    neighbours must have a colour that the middle has not.
    """
    first = starts[w]
    last = starts[w + 1]
    if colours[w] < 0:
        if last - first > starts[v + 1] - starts[v]:
            return False
    elif is_proper and colours[w] == c:
        return True
    else:
        u = firsts[find_first(firsts, colours, first, last, c)]
        if u >= 0 and colours[u] == c:
            if starts[u + 1] - starts[u] > heavy * (starts[v + 1] - starts[v]):
                if not has_colour(table, starts[u], starts[u + 1], colours[w]):
                    return True
    return has_colour(table, first, last, c)


def assign_star(
    count: int,
    starts: Integers,
    ends: Integers,
    sequence: Integers,
    heavy: int,
    is_proper: int,
    table: Integers,
    low: Integers,
    firsts: Integers,
    forbidden: Integers,
    treated: Integers,
    colours: Integers,
) -> None:
    """Give each vertex the smallest colour that keeps a colouring a star one.

    No path of four vertices has two colours, and, if ``is_proper``, no edge has one:
    then the edges of two colours are stars, and each edge is read at the end that is
    not the middle of one.

    ``table`` and ``low`` are sets of colours that a further neighbour would make a path
    of four with; of a vertex without a colour, those that its neighbours have.
    ``firsts`` has the first neighbour of each colour.
    """
    for turn in range(count):
        v = sequence[turn]
        first = starts[v]
        last = starts[v + 1]
        c = 0
        for k in range(first, last):
            u = ends[k]
            if colours[u] >= 0:
                one = firsts[find_first(firsts, colours, first, last, colours[u])]
                if one != u:  # v will be the middle of a star with both
                    forbid_around(starts, ends, colours, forbidden, treated, u, v)
                    forbid_around(starts, ends, colours, forbidden, treated, one, v)
                if low[u] > c:
                    c = low[u]
        is_free = False
        while not is_free:
            is_free = True
            while forbidden[c] == v:
                c += 1
            for k in range(first, last):
                w = ends[k]
                while is_blocked(
                    starts, table, firsts, colours, heavy, is_proper, w, v, c
                ):
                    c += 1
                    is_free = False
        colours[v] = c
        low[v] = 0
        for k in range(first, last):
            table[k] = -1
        for k in range(first, last):
            w = ends[k]
            place = find_first(firsts, colours, starts[w], starts[w + 1], c)
            u = firsts[place]
            if u < 0:
                firsts[place] = v
            if colours[w] < 0:
                add_colour(table, low, starts, w, c)
            else:
                if u >= 0:  # w is the middle of a star
                    add_colour(table, low, starts, u, colours[w])
                    add_colour(table, low, starts, v, colours[w])
                one = firsts[find_first(firsts, colours, first, last, colours[w])]
                if one != w:
                    add_colour(table, low, starts, one, c)
                    add_colour(table, low, starts, w, c)


# In which order


def order_by_degrees_left(
    count: int,
    starts: Integers,
    rows: Integers,
    row_starts: Integers,
    members: Integers,
    long_row: int,
    keys: Integers,
    rest: Integers,
    sequence: Integers,
) -> None:
    """Take a vertex with the fewest neighbours that are left, again and again.

    Neighbours are the members of a vertex's rows. ``keys`` are the degrees among those
    that are left; those of the fewest neighbours wait in the sequence, with the key -1,
    and the first of them comes next. ``rest`` lists the others. Reversed it is the
    order smallest last. One entry is read for each neighbour, and no lists are kept:
    in a large graph each is a wait for memory.
    """
    found = 0
    left = count
    fewest = 0
    for turn in range(count):
        if found == turn:
            kept = 0
            for t in range(left):
                v = rest[t]
                if keys[v] >= 0:
                    rest[kept] = v
                    if kept == 0 or keys[v] < fewest:
                        fewest = keys[v]
                    kept += 1
            left = kept
            for t in range(left):
                v = rest[t]
                if keys[v] == fewest:
                    keys[v] = -1
                    sequence[found] = v
                    found += 1
        v = sequence[turn]
        for k in range(starts[v], starts[v + 1]):
            w = rows[k]
            if row_starts[w + 1] - row_starts[w] <= long_row:
                for m in range(row_starts[w], row_starts[w + 1]):
                    u = members[m]
                    if keys[u] > 0:
                        keys[u] -= 1
                        if keys[u] <= fewest:
                            keys[u] = -1
                            sequence[found] = u
                            found += 1


# How they run

_CALLS: dict[Callable[..., None], tuple[Callable[..., Any], ...]] = {
    assign_columns: (find_place, has_colour, add_colour, assign_large),
    assign_star: (
        find_place, has_colour, add_colour, find_first, forbid_around, is_blocked
    ),
    order_by_degrees_left: (),
}  # fmt: skip


@cache
def _compile(loop: Callable[..., None], dtype: np.dtype[Any]) -> Any:
    return hooks.compile_routine((*_CALLS[loop], loop), dtype)


def run_loop(
    loop: Callable[..., None], edges: int, dtype: npt.DTypeLike, *args: Any
) -> None:
    """Run one of the loops, as machine code where there are many edges.

    Parameters
    ----------
    loop
        ``assign_columns``, ``assign_star`` or ``order_by_degrees_left``.
    edges
        How many edges (or entries) the graph has.
    dtype
        Of all arrays: int32 or int64.
    args
        The loop's own; arrays that can be written are written.
    """
    dtype = np.dtype(dtype)
    code = _compile(loop, dtype) if edges > MOST_IN_PYTHON else None
    given = [
        np.ascontiguousarray(x, dtype) if isinstance(x, np.ndarray) else x for x in args
    ]
    if code is not None:
        code(*given)
        return
    lists = [x.tolist() if isinstance(x, np.ndarray) else x for x in given]
    loop(*lists)
    for x, values in zip(args, lists, strict=True):
        if isinstance(x, np.ndarray) and x.flags.writeable:
            x[:] = values
