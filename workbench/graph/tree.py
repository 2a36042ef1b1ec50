"""Nested arguments and results: dicts, lists, tuples, named tuples, dataclasses.

A thin face over optree. A dataclass needs no registration by the user: its class
is registered here when its first instance arrives.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from workbench.graph.types import Spec

__all__ = ["Tree", "flatten", "map_tree"]

_NAMESPACE = "workbench"


class Tree:
    """The structure that `flatten` took apart; calling it puts leaves back.

    >>> leaves, tree = flatten({"b": 2.0, "a": (1.0, [3.0])})
    >>> leaves
    [1.0, 3.0, 2.0]
    >>> tree([10, 30, 20])
    {'b': 20, 'a': (10, [30])}
    """

    __slots__ = ("_spec",)

    def __init__(self, spec: Any) -> None:
        self._spec = spec

    def __call__(self, leaves: Sequence[Any]) -> Any:
        """Rebuild the structure around these leaves."""
        if self._spec is None:
            return leaves[0]
        import optree

        return optree.tree_unflatten(self._spec, list(leaves))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tree) and bool(self._spec == other._spec)

    def __hash__(self) -> int:
        return hash(self._spec)

    def __repr__(self) -> str:
        return "*" if self._spec is None else repr(self._spec)


_LEAF = Tree(None)


def flatten(value: Any) -> tuple[list[Any], Tree]:
    """The leaves of a nest, in a fixed order, and the Tree that rebuilds it."""
    if _is_leaf(value):
        return [value], _LEAF
    import optree

    while True:
        leaves, spec = optree.tree_flatten(value, namespace=_NAMESPACE)
        classes = {type(x) for x in leaves if _is_nest(x)}
        if not classes:
            return list(leaves), Tree(spec)
        for kind in classes:
            _register(kind)


def map_tree(function: Callable[[Any], Any], value: Any) -> Any:
    """Apply a function to every leaf of a nest."""
    leaves, tree = flatten(value)
    return tree([function(x) for x in leaves])


def _is_leaf(value: Any) -> bool:
    return not isinstance(value, (dict, list, tuple)) and not _is_nest(value)


def _is_nest(value: Any) -> bool:
    """Whether a value is an instance of some user's dataclass."""
    return dataclasses.is_dataclass(value) and not isinstance(value, (type, Spec))


def _register(kind: Any) -> None:
    import optree

    names = [field.name for field in dataclasses.fields(kind)]

    def take(x: Any) -> tuple[list[Any], None]:
        return [getattr(x, name) for name in names], None

    def build(_: Any, children: Iterable[Any]) -> Any:
        made = object.__new__(kind)
        for name, child in zip(names, children, strict=True):
            object.__setattr__(made, name, child)
        return made

    optree.register_pytree_node(kind, take, build, namespace=_NAMESPACE)
