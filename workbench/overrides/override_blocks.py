"""The ``with workbench.overrides(...)`` blocks around a call.

They stand apart from `resolving.py`, which a program without overrides does not need:
it loads with the first override. When a block holds is told in `core/blocks.py`.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from workbench.core.blocks import Block, in_force, take_left

if TYPE_CHECKING:
    from workbench.core.tensor import Tensor
    from workbench.overrides.override import Override

__all__ = ["OverrideBlock", "blocks_in_force", "leave_block"]


class OverrideBlock(Block):
    """One entering of an `overrides` block.

    Attributes
    ----------
    given
        Its overrides; None for one that lets no block around it hold.
    unmatched
        The positions of those that have matched nothing yet.
    seen
        One node for each op and scope that a derivative in the block has seen.
    last
        The last program that an override of parts of programs was not found in, and
        what was differentiated by.
    """

    __slots__ = ("given", "last", "seen", "unmatched")

    def __init__(self, given: list[Override] | None) -> None:
        super().__init__()
        self.given = given
        self.unmatched = {i for i, one in enumerate(given or ()) if one.enabled}
        self.seen: dict[tuple[str, str | None], Tensor] = {}
        self.last: tuple[Any, Any] = (), ()
        stack = [block for block in STACK.get() if block.open]
        STACK.set((*stack, self))


#: What this thread or task has entered, and not left.
STACK: ContextVar[tuple[OverrideBlock, ...]] = ContextVar("STACK", default=())

OWNED = OverrideBlock.owned


def blocks_in_force() -> list[OverrideBlock]:
    """Return the blocks that hold for a call, the innermost last."""
    stack = STACK.get()
    if not stack and not OWNED:
        return []
    found = in_force(stack, OverrideBlock)
    for i in range(len(found) - 1, -1, -1):
        if found[i].given is None:
            return found[i + 1 :]
    return found


def leave_block(opened: list[OverrideBlock]) -> OverrideBlock:
    """Close the one of an object's open blocks that its caller leaves."""
    block = take_left(opened, STACK.get)
    block.close()
    STACK.set(tuple([other for other in STACK.get() if other.open]))
    return block
