"""Facts: lengths that an op needs to be equal, where that is not known.

``x @ y`` of two symbols needs two of their lengths to be one. The op says so by `meet`
while its result is inferred; what must hold is noted with the node, and NumPy checks
it when the program runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from workbench.core import dims
from workbench.core.atoms import key_of
from workbench.core.dims import Dim

__all__ = ["Facts", "assumed", "meet", "noted"]

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
