"""Derivatives of expressions know what they were asked for as derivatives of.

One may read less than that, as that of a sum does, or nothing at all. Who gives values
to all symbols of a program gives them to its derivatives too; `symbolic/` asks here
which symbols these are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench.autodiff.reverse import Origin
from workbench.core import walk
from workbench.core.tensor import IDENTITY, Tensor, apply

__all__ = ["belonging", "programs"]


def belonging(results: Sequence[Any], of: Sequence[Tensor], before: int) -> list[Any]:
    """Derivatives that hold what they are derivatives of; None stays None.

    What was there ``before`` (a serial), such as the other factor of a product, is
    handed on: it is no derivative itself.
    """
    made = []
    for g in results:
        if isinstance(g, Tensor) and of:
            if g.serial <= before:
                g = apply(IDENTITY, (g,))
            origin = g.origin or Origin(of[0], "", False)
            g.origin = origin._replace(of=tuple(of))
        made.append(g)
    return made


def programs(nodes: Sequence[Tensor]) -> list[Tensor]:
    """All nodes of what derivatives among these nodes are derivatives of."""
    origins = [x.origin for x in nodes if x.origin is not None]
    return walk.order([y for one in origins for y in (one.forward, *one.of)])
