"""The overrides of a call, and the ``with workbench.overrides(...)`` blocks around.

They stand apart from `resolution.py`, which a program without overrides does not need:
it loads with the first override. `core/source.py` explains when a block holds.
Derivatives ask here for the overrides that hold for them, by `core/hooks.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from types import TracebackType
from typing import TYPE_CHECKING, Any

from workbench.autodiff.steps import with_inner_nodes
from workbench.core import hooks, walk
from workbench.core.source import OVERRIDDEN, Block, active_blocks, pop_left_block
from workbench.core.tensor import IDENTITY, Tensor
from workbench.errors import OverrideError

if TYPE_CHECKING:
    from workbench.overrides.override import Override
    from workbench.overrides.resolution import Resolution
    from workbench.overrides.targets import Nodes


class OverrideBlock(Block):
    """One entering of an `overrides` block.

    Attributes
    ----------
    given
        Its overrides; None for one that lets no block around it hold.
    everywhere
        Whether it holds in all threads and tasks, outside of all other blocks, until
        `close`.
    unmatched
        The positions of those that have matched nothing yet.
    seen
        One node for each op and scope that a derivative in the block has seen.
    last
        The last program that an override of parts of programs was not found in, and
        what was differentiated by.
    """

    __slots__ = ("last", "nodes_by_op", "overrides", "unmatched")

    def __init__(
        self, entries: list[Override] | None, everywhere: bool = False
    ) -> None:
        super().__init__()
        OVERRIDDEN[0] = True
        self.overrides = entries
        self.unmatched = {i for i, one in enumerate(entries or ()) if one.enabled}
        self.nodes_by_op: dict[tuple[str, str | None], Tensor] = {}
        self.last: tuple[Any, Any] = (), ()
        if everywhere:
            self.disown()
            EVERYWHERE.append(self)
            return
        stack = [block for block in STACK.get() if block.open]
        STACK.set((*stack, self))

    def close(self) -> None:
        """End the block everywhere."""
        super().close()
        if self in EVERYWHERE:
            EVERYWHERE.remove(self)


#: What this thread or task has entered, and not left.
STACK: ContextVar[tuple[OverrideBlock, ...]] = ContextVar("STACK", default=())
#: What holds in all of them.
EVERYWHERE: list[OverrideBlock] = []

OWNED = OverrideBlock.owned


def blocks_in_force() -> list[OverrideBlock]:
    """Return the blocks that hold for a call, the innermost last."""
    stack = (*EVERYWHERE, *STACK.get())
    if not stack and not OWNED:
        return []
    found = active_blocks(stack, OverrideBlock)
    for i in range(len(found) - 1, -1, -1):
        if found[i].overrides is None:
            return found[i + 1 :]
    return found


def leave_block(opened: list[OverrideBlock]) -> OverrideBlock:
    """Close the one of an object's open blocks that its caller leaves."""
    block = pop_left_block(opened, STACK.get)
    block.close()
    STACK.set(tuple([other for other in STACK.get() if other.open]))
    return block


@contextmanager
def suspend_overrides() -> Iterator[list[Override]]:
    """Suspend all `overrides` blocks for the code inside; yield their overrides."""
    blocks = blocks_in_force()
    opened = [OverrideBlock(None)]
    try:
        yield [o for block in blocks for o in block.overrides or () if o.enabled]
    finally:
        leave_block(opened)


# The overrides of a call, with those of the blocks around it


def find_matching(block: OverrideBlock, nodes: Nodes, wrt: Nodes) -> list[Override]:
    """Return the overrides of a block that apply to a program, and note the program."""
    from workbench.overrides.targets import ByNode, ByPart

    for node in nodes:
        block.nodes_by_op.setdefault((node.op.name, node.scope), node)
    matching = []
    user_nodes = [n for n in nodes if n.context is None or not n.context.helper]
    for i, override in enumerate(block.overrides or ()):
        target = override.target
        if isinstance(target, ByPart):
            matched = target.select(nodes, wrt)
            if not matched:
                block.last = nodes, wrt
        else:
            matched = target.select(nodes if isinstance(target, ByNode) else user_nodes)
        if matched:
            block.unmatched.discard(i)
            matching.append(override)
    return matching


class CallOverrides:
    """The overrides of one call of `grad` or similar, and of the blocks around.

    They are found before the function runs: the blocks that hold then are meant.
    """

    def __init__(self, entries: Sequence[Any], blocks: Sequence[OverrideBlock]) -> None:
        from workbench.overrides.override import check_overrides
        from workbench.overrides.targets import ByPart

        self.overrides = check_overrides(entries)
        self.blocks = blocks
        every = [
            one for block in blocks for one in block.overrides or ()
        ] + self.overrides
        #: Whether one of them means parts of a program.
        self.means_parts = any(isinstance(one.target, ByPart) for one in every)

    def resolve(self, outputs: Sequence[Any], wrt: Nodes, name: str) -> Resolution:
        """Find the nodes that they apply to.

        Those of the `with` blocks come first, then those of the call. Only the program
        that the user wrote is looked at: a node that a derivative made while it was
        recorded is none of its nodes, but what such a node computes again is.
        """
        from workbench.overrides.resolution import resolve
        from workbench.overrides.targets import ByNode, ByPart

        roots = [x for x in outputs if isinstance(x, Tensor)]
        first = min((x.serial for x in wrt), default=0)
        inside = {x.serial for x in wrt}
        program = [
            node
            for node in walk.order_nodes(roots, first)
            if node.op is not IDENTITY and node.serial not in inside
        ]
        nodes = [x for x in with_inner_nodes(program) if x.origin is None]
        from_blocks = [
            one for block in self.blocks for one in find_matching(block, nodes, wrt)
        ]
        for override in self.overrides:
            target = override.target
            if (isinstance(target, ByNode) and isinstance(target.node, int)) or (
                isinstance(target, ByPart) and target.has_ids
            ):
                raise OverrideError(
                    f"override {override.label!r} targets {target}, but ids"
                    f" belong to a session, not to {name}. Target an op, a scope or a"
                    " predicate, or use session.override."
                )
        where = f"the function given to {name}"
        return resolve(
            [*from_blocks, *self.overrides],
            nodes,
            where=where,
            since=first,
            wrt=wrt,
            around=len(from_blocks),
            program=program,
        )


def overrides_of_call(entries: Sequence[Any] | None) -> CallOverrides | None:
    """Return the overrides of a call and of the blocks around, or None."""
    blocks = blocks_in_force()
    if not entries and not blocks:
        return None
    return CallOverrides(entries or (), blocks)


hooks.overrides.set(overrides_of_call)


def resolve_call(
    entries: Sequence[Override] | None,
    outputs: Sequence[Any],
    wrt: Sequence[Tensor],
    name: str,
) -> Resolution | None:
    """Find the nodes that the overrides of a call apply to; None if there are none."""
    active = overrides_of_call(entries)
    return None if active is None else active.resolve(outputs, wrt, name)


class overrides:
    """Apply overrides to every derivative that is taken inside a ``with`` block.

    The block holds in its own thread or task, and in tasks that start inside it, until
    it is left. A block that a generator has opened does not hold for the code that
    iterates over the generator, while it is suspended at a ``yield``; one in a context
    manager by ``contextlib``, or in a fixture of pytest, holds for those who enter it.

    Parameters
    ----------
    given
        What :func:`workbench.override` made. Of two with the same kind of target,
        that of the inner block wins, and ``overrides=`` of a call over both.

    Raises
    ------
    OverrideError
        At the end of the block, for one that has matched nothing in it.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> with wb.overrides(wb.override("sin", "0.5 * d")):
    ...     wb.grad(lambda x: np.sum(np.sin(x)))(np.zeros(2))
    array([0.5, 0.5])
    """

    def __init__(self, *given: Override) -> None:
        from workbench.overrides.override import check_overrides

        self.overrides = check_overrides(given)
        self._opened: list[OverrideBlock] = []

    def __enter__(self) -> overrides:
        self._opened.append(OverrideBlock(self.overrides))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        block = leave_block(self._opened)
        if error is None and block.unmatched:
            from workbench.overrides.targets import ByPart, describe_mismatch

            override = self.overrides[min(block.unmatched)]
            if not block.nodes_by_op:
                raise OverrideError(
                    f"override {override.label!r} on {override.target}: no derivative"
                    " was taken in the `with` block. Call wb.grad(f)(x) inside it."
                )
            nodes, wrt = block.last
            if not isinstance(override.target, ByPart):
                nodes = block.nodes_by_op.values()
            where = "what the block differentiated"
            raise OverrideError(
                describe_mismatch(override.target, override.label, nodes, where, wrt)
            )
