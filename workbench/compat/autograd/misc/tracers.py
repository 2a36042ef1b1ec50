"""`autograd.misc.tracers`: a function's graph, recorded once."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from workbench.compat.autograd.tracer import Node, trace
from workbench.core.trace import trace as record

__all__ = ["FullGraphNode", "const_graph", "full_graph"]


def const_graph(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Return the function that runs the graph of the first call in every call.

    Examples
    --------
    >>> from workbench.compat.autograd.misc.tracers import const_graph
    >>> f = const_graph(lambda x, scale: scale * x**2, scale=3.0)
    >>> float(f(2.0)), float(f(4.0))
    (12.0, 48.0)
    """
    found: list[Any] = []

    @wraps(fun)
    def run(*more: Any) -> Any:
        if not found:
            found.append(record(lambda *x: fun(*args, *x, **kwargs))(*more))
        graph = found[0]
        return graph.tree(graph.run(list(more)))

    return run


class FullGraphNode(Node):
    """A node with its value, and the recipe that made it."""

    __slots__ = ("recipe", "value")

    def __init__(
        self,
        value: Any,
        fun: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        parent_argnums: tuple[int, ...],
        parents: tuple[Node, ...],
    ) -> None:
        self.value = value
        pairs = list(zip(parent_argnums, parents, strict=True))
        self.recipe: Any = (fun, args, kwargs, pairs)

    def initialize_root(self) -> None:
        """Set that it is an argument."""
        self.value, self.recipe = None, (lambda x: x, (), {}, [])


def full_graph(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Return the last node of a run of a function."""
    return trace(FullGraphNode.new_root(), lambda given: fun(*given, **kwargs), args)[1]
