"""What lengths broadcast to, the larger of two, and which have to be equal.

Lengths are integers, and `Dim`s where they are known only when the program runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from workbench.core import dims
from workbench.core.dims import KINDS, Dim, Made, found, key_of, least


def largest(*lengths: Any) -> Any:
    """The largest of lengths and integers.

    >>> largest(2, 3)
    3
    """
    return _extreme("max", lengths) if found(lengths) else int(max(lengths))


def smallest(*lengths: Any) -> Any:
    """The smallest of lengths and integers."""
    return _extreme("min", lengths) if found(lengths) else int(min(lengths))


def _extreme(kind: str, lengths: Iterable[Any]) -> Any:
    flat: dict[tuple[Any, ...], Any] = {}
    for x in lengths:
        for y in _spread(kind, x):
            flat[key_of(y)] = y
    kept: list[Any] = []
    for i, (key, x) in enumerate(flat.items()):
        rest = [y for j, y in enumerate(flat.values()) if j != i]
        # Of two that are always equal one would have the other's key.
        if not any(
            least(y - x if kind == "max" else x - y) >= 0 and key != key_of(y)
            for y in rest
        ):
            kept.append(x)
    if len(kept) == 1:
        return kept[0]
    return Dim({(Made(kind, tuple(sorted(kept, key=key_of))),): 1})


def _spread(kind: str, x: Any) -> list[Any]:
    """The arguments of what is itself such an extreme, and perhaps shifted."""
    if isinstance(x, Dim):
        shift = x.terms.get((), 0)
        atom = (x - shift).alone if shift else x.alone
        if isinstance(atom, Made) and atom.kind == kind:
            return [y + shift for y in atom.args]
    return [int(x) if isinstance(x, np.integer) else x]


def common(*lengths: Any) -> Any:
    """What lengths broadcast to, by NumPy's rule.

    Raises
    ------
    ValueError
        If two of them are numbers, neither is 1 and they differ.

    >>> common(1, 3)
    3
    """
    flat: dict[tuple[Any, ...], Any] = {}
    for x in lengths:
        atom = x.alone if isinstance(x, Dim) else None
        inside = atom.args if isinstance(atom, Made) and atom.kind == "broadcast" else (
            x,
        )  # fmt: skip
        for y in inside:
            if isinstance(y, Dim) or y != 1:
                flat[key_of(y)] = y
    known = [x for x in flat.values() if not isinstance(x, Dim)]
    if len(known) > 1:
        raise ValueError(f"lengths {known[0]} and {known[1]} do not broadcast")
    if known:
        return known[0]  # the others are that or 1
    if len(flat) < 2:
        return next(iter(flat.values()), 1)
    ordered = tuple(flat[key] for key in sorted(flat))
    return Dim({(Made("broadcast", ordered),): 1})


def broadcast_shapes(*shapes: tuple[Any, ...]) -> tuple[Any, ...]:
    """As `numpy.broadcast_shapes`, of shapes with unknown lengths.

    Raises
    ------
    ValueError
        If they cannot fit, whatever the unknown lengths are.
    """
    if not found(shapes):
        return np.broadcast_shapes(*shapes)
    rank = max(map(len, shapes), default=0)
    filled = [(1,) * (rank - len(s)) + tuple(s) for s in shapes]
    return tuple([common(*lengths) for lengths in zip(*filled, strict=True)])


KINDS.update(max=largest, min=smallest, broadcast=common)


# Facts: lengths that an op needs to be equal, where that is not known.
#
# ``x @ y`` of two symbols needs two of their lengths to be one. The op says so by
# `meet` while its result is inferred; what must hold is noted with the node, and NumPy
# checks it when the program runs.

#: Pairs of lengths that an op needs to be equal.
Facts = list[tuple[Any, Any]]

_FACTS: ContextVar[Facts | None] = ContextVar("facts", default=None)


@contextmanager
def noted() -> Iterator[Facts]:
    """A block whose calls of `meet` note what they need."""
    facts: Facts = []
    token = _FACTS.set(facts)
    try:
        yield facts
    finally:
        _FACTS.reset(token)


def meet(a: Any, b: Any, said: str = "") -> Any:
    """The one length of two that must be equal; a fact where that is not known.

    Raises
    ------
    ValueError
        If they differ at all lengths.
    """
    if isinstance(a, Dim) or isinstance(b, Dim):
        if not dims.same((a,), (b,)):
            low, high = (a - b).bounds() if isinstance(a, Dim) else (b - a).bounds()
            if (low or 0) > 0 or (high is not None and high < 0):
                raise ValueError(said or f"lengths {a} and {b} differ")
            facts = _FACTS.get()
            if facts is not None:
                facts.append((a, b))
        return b if isinstance(a, Dim) and not isinstance(b, Dim) else a
    if a != b:
        raise ValueError(said or f"lengths {a} and {b} differ")
    return a


def assumed(a: Any, b: Any, facts: Sequence[tuple[Any, Any]] | None) -> bool:
    """Whether two shapes are equal, given that some lengths are."""
    if len(a) != len(b):
        return False
    groups: list[set[Any]] = []
    for m, n in facts or ():
        pair = {key_of(m), key_of(n)}
        for group in [g for g in groups if g & pair]:
            pair |= group
            groups.remove(group)
        groups.append(pair)
    return all(
        dims.same((m,), (n,))
        or any({key_of(m), key_of(n)} <= group for group in groups)
        for m, n in zip(a, b, strict=True)
    )
