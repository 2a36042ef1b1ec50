"""Programs inside nodes: the steps of loops, the branches of a choice.

An override may mean a node in there. Which rules hold is told to the op's own rule by
a context variable, since the op differentiates its program itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from workbench.core.tensor import Tensor

__all__ = ["PULLS", "PUSHES", "everything", "held"]

Rules = Mapping[int, Any]

#: The rules in force in the sweep that runs now, by the serial of the node.
PULLS: ContextVar[Rules | None] = ContextVar("PULLS", default=None)
PUSHES: ContextVar[Rules | None] = ContextVar("PUSHES", default=None)


def everything(nodes: Sequence[Tensor]) -> list[Tensor]:
    """Nodes, and those inside them, and inside these.

    What a derivative has made is no node of the user's, but may hold some: values that
    it computes again.
    """
    found, stack = list(nodes), list(nodes)
    seen: set[int] = set()
    while stack:
        node = stack.pop()
        inner = node.op.inner_nodes
        if inner is not None:
            new = [x for x in inner(node.params) if x.serial not in seen]
            seen.update(x.serial for x in new)
            found += [x for x in new if x.origin is None]
            stack += new
    return found


@contextmanager
def held(variable: ContextVar[Rules | None], rules: Rules | None) -> Iterator[None]:
    """Let rules hold for what runs in the block; None leaves those that do."""
    if not rules:
        yield
        return
    token = variable.set(rules)
    try:
        yield
    finally:
        variable.reset(token)
