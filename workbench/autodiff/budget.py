"""What a gradient rule that is data may use: memory and work, beside its program's.

Such a rule comes from a file or a page, perhaps a stranger's. Before each of its steps
runs, the step says what it will make and how long that takes; what is beyond the budget
is refused before any memory is asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property
from math import prod
from typing import Any, NamedTuple

#: Entries of 8 bytes that a rule may hold at a time, however small its program is.
MOST_FREE = 10**7
#: Bytes that it may hold for each byte of the arrays that it is given.
GROWTH = 64
#: Steps of work, each about a nanosecond, however small its program is.
FREE_WORK = 3e9
#: Work for each entry that it is given, and for each entry of a product of matrices
#: that are as large: n**3 for n**2 entries.
WORK_EACH, WORK_PRODUCT = 1e4, 64.0


class Demand(NamedTuple):
    """What a step will make, at most.

    Attributes
    ----------
    entries
        Entries of its results.
    work
        How many operations it takes, each about a nanosecond.
    """

    entries: float
    work: float


class Budget:
    """What the rules of one sweep may use together.

    Parameters
    ----------
    given
        The arrays of the program: what the rules are given, or all its values.

    Examples
    --------
    >>> import numpy as np
    >>> budget = Budget([np.ones(3)])
    >>> budget.refusal(Demand(3e8, 3e8))
    '300,000,000 entries (2.4 GB), and a rule that is data may hold 80 MB at a time
    beside arrays of 24 bytes'
    """

    def __init__(self, arrays: Iterable[Any]) -> None:
        self._arrays = tuple(arrays)
        self.used_bytes = 0
        self.worked = 0.0

    @cached_property
    def given_bytes(self) -> int:
        """The bytes of the arrays of the program."""
        return count_bytes(self._arrays)

    @cached_property
    def bytes(self) -> int:
        """The bytes that the rules may hold at a time."""
        return 8 * MOST_FREE + GROWTH * self.given_bytes

    @cached_property
    def work(self) -> float:
        """The operations that the rules may take."""
        entries = count_entries(self._arrays)
        product: float = entries**1.5
        return FREE_WORK + WORK_EACH * entries + WORK_PRODUCT * product

    def refusal(self, demand: Demand, itemsize: int = 8) -> str:
        """Return why a step is beyond the budget, in words; empty if it is not."""
        size = demand.entries * itemsize
        if self.used_bytes + size > self.bytes:
            more = (
                f", of which {_format_bytes(self.used_bytes)} are taken"
                if self.used_bytes
                else ""
            )
            return (
                f"{demand.entries:,.0f} entries ({_format_bytes(size)}), and a rule"
                f" that is data may hold {_format_bytes(self.bytes)} at a time{more}"
                f" beside arrays of {_format_bytes(self.given_bytes)}"
            )
        if self.worked + demand.work > self.work:
            return (
                f"{demand.entries:,.0f} entries in some {demand.work:.2g} operations,"
                f" and a rule that is data may take {self.work:.2g} of arrays of"
                f" {_format_bytes(self.given_bytes)}"
            )
        return ""

    def take(self, size: int, work: float) -> None:
        """Count what a step has made, and what it took."""
        self.used_bytes += size
        self.worked += work

    def give_back(self, size: int) -> None:
        """Count what is let go of."""
        self.used_bytes -= size


_OPEN: ContextVar[Budget | None] = ContextVar("budget of rules", default=None)


@contextmanager
def budget_for(arrays: Iterable[Any]) -> Iterator[Budget]:
    """Give the budget that is open, else one for these arrays, open inside.

    >>> import numpy as np
    >>> with budget_for([np.ones(3)]) as outer, budget_for([]) as inner:
    ...     inner is outer
    True
    """
    current = _OPEN.get()
    if current is not None:
        yield current
        return
    budget = Budget(arrays)
    _OPEN.set(budget)
    try:
        yield budget
    finally:
        _OPEN.set(None)


# Sizes


def operand_lengths(x: object) -> tuple[int, ...]:
    """Return the shape of an operand; of a list that of the array that it makes.

    A length that nobody knows before the program runs counts as 1, and an empty one
    too: what is summed over it has all the others.
    """
    if isinstance(x, (list, tuple)):
        inner = [operand_lengths(part) for part in x]
        return (max(len(x), 1), *max(inner, key=prod, default=()))
    shape = getattr(x, "shape", ())
    return tuple([n if isinstance(n, int) and n else 1 for n in shape])


def count_entries(x: object) -> int:
    """Return the number of entries of an operand; of a list those of its parts."""
    if isinstance(x, (list, tuple)):
        return sum(map(count_entries, x))
    return prod(operand_lengths(x))


def count_bytes(x: object) -> int:
    """Return the size of an operand; of a list that of its parts."""
    if isinstance(x, (list, tuple)):
        return sum(map(count_bytes, x))
    return prod(operand_lengths(x)) * getattr(getattr(x, "dtype", None), "itemsize", 8)


def check_broadcast(operands: Sequence[Any], arrays: Iterable[Any]) -> None:
    """Raise a ValueError if operands broadcast to far more than what is given.

    Operands of one shape, and numbers, are let through at once.
    """
    shapes = {s for x in operands if (s := getattr(x, "shape", ()))}
    if len(shapes) > 1 and (excess := explain_excess(_count_broadcast(shapes), arrays)):
        shapes_text = " and ".join(map(str, shapes))
        raise ValueError(f"operands of shapes {shapes_text} make {excess}")


def explain_excess(entries: float, arrays: Iterable[Any]) -> str:
    """Return why making so many entries is refused; empty if it is not.

    >>> explain_excess(10**6, []), explain_excess(10**9, [])[:30]
    ('', '1,000,000,000 entries (8.0 GB)')
    """
    if entries <= MOST_FREE:
        return ""
    return Budget(arrays).refusal(Demand(entries, 0.0))


def _count_broadcast(shapes: Iterable[tuple[Any, ...]]) -> int:
    longest: list[int] = []
    for shape in shapes:
        for k, n in enumerate(reversed(shape)):
            n = n if isinstance(n, int) else 1
            if k == len(longest):
                longest.append(n)
            else:
                longest[k] = max(n, longest[k])
    return prod(longest)


def _format_bytes(size: float) -> str:
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= factor:
            shown = size / factor
            return f"{shown:.0f} {unit}" if shown >= 10 else f"{shown:.1f} {unit}"
    return f"{size:.0f} bytes"
