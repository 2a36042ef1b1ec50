"""Nested arguments and results: dicts, lists, tuples, named tuples, dataclasses.

A thin face over optree. A dataclass needs no registration by the user: its class
is registered here when its first instance arrives. A sparse array is a nest too: its
stored values are the leaf, and where they stand is structure.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any

from workbench.core import hooks
from workbench.core.types import Spec

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

    def leaves(self, value: Any) -> list[Any]:
        """What stands in the places of the leaves, be it an array or a list.

        Raises
        ------
        ValueError
            If the value does not nest as far as this structure does.
        """
        if self._spec is None:
            return [value]
        found: list[Any] = self._spec.flatten_up_to(value)
        return found

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tree) and bool(self._spec == other._spec)

    def __hash__(self) -> int:
        return hash(self._spec)

    def __repr__(self) -> str:
        return _text(self._spec)


_LEAF = Tree(None)


def flatten(value: Any) -> tuple[list[Any], Tree]:
    """The leaves of a nest, in a fixed order, and the Tree that rebuilds it."""
    if _is_leaf(value):
        return [value], _LEAF
    import optree

    if is_sparse(value):
        value = _opened(value)
    while True:
        leaves, spec = optree.tree_flatten(value, namespace=_NAMESPACE)
        classes = {type(x) for x in leaves if _is_nest(x)}
        for kind in classes:
            _register(kind)
        if any(map(is_sparse, leaves)):
            value = spec.unflatten([_opened(x) if is_sparse(x) else x for x in leaves])
        elif not classes:
            return list(leaves), Tree(spec)


def difference(wanted: Tree, found: Tree) -> str:
    """Say in words where a nest differs from the one that is wanted.

    >>> pair, alone = flatten({"b": (1.0, 2.0)})[1], flatten({"b": 1.0})[1]
    >>> difference(pair, alone)
    "at ['b'] a tuple of 2 is wanted, and an array came"
    """
    stack = [("", wanted._spec, found._spec)]
    while stack:
        where, a, b = stack.pop()
        if _described(a) != _described(b):
            where = where and f"at {where} "
            return f"{where}{_described(a)} is wanted, and {_described(b)} came"
        if not _is_array(a):
            below = zip(_places(a), a.children(), b.children(), strict=True)
            stack += [(where + place, x, y) for place, x, y in below][::-1]
    return f"{wanted} is wanted, and {found} of another pattern came"


def _is_array(spec: Any) -> bool:
    return spec is None or (spec.num_nodes == 1 and spec.num_leaves == 1)


def _described(spec: Any) -> str:
    """A nest in words, without what is inside."""
    if _is_array(spec):
        return "an array"
    kind, count = spec.type, spec.num_children
    if kind is type(None) or kind is None:
        return "None"
    if issubclass(kind, dict):
        keys = ", ".join(map(repr, spec.entries()))
        return f"a dict of {keys}" if keys else "an empty dict"
    if kind in (list, tuple):
        return f"a {kind.__name__} of {count}" if count else f"an empty {kind.__name__}"
    if kind is _sparse_node():
        return f"a {_pattern(spec)}"
    return f"an instance of {kind.__name__}"


def _pattern(spec: Any) -> str:
    """Which entries a sparse array stores, as optree prints it."""
    found = re.search(r"\[(.*)\], \[", repr(spec.one_level()))
    return found[1] if found else "sparse array"


def _text(spec: Any) -> str:
    """A nest as it is written, with a star for each array."""
    if _is_array(spec):
        return "*"
    kind, inside = spec.type, [_text(child) for child in spec.children()]
    if kind is type(None) or kind is None:
        return "None"
    if kind is _sparse_node():
        return _pattern(spec)
    if issubclass(kind, dict):
        pairs = zip(spec.entries(), inside, strict=True)
        return "{" + ", ".join(f"{key!r}: {part}" for key, part in pairs) + "}"
    if kind is list:
        return f"[{', '.join(inside)}]"
    if kind is tuple:
        return f"({', '.join(inside)}{',' * (len(inside) == 1)})"
    named = zip(_places(spec), inside, strict=True)
    return f"{kind.__name__}({', '.join(f'{at[1:]}={part}' for at, part in named)})"


def _places(spec: Any) -> list[str]:
    """How one writes each entry of a nest."""
    fields = getattr(spec.type, "_fields", None)
    if fields is not None:
        return [f".{name}" for name in fields]
    if issubclass(spec.type, (dict, list, tuple)):
        return [f"[{key!r}]" for key in spec.entries()]
    return [f".{name}" for name in spec.entries()]


def map_tree(function: Callable[[Any], Any], value: Any) -> Any:
    """Apply a function to every leaf of a nest."""
    leaves, tree = flatten(value)
    return tree([function(x) for x in leaves])


def names(base: str, value: Any) -> list[str]:
    """How one writes each leaf of a nest that is called ``base``.

    >>> names("p", {"b": 2.0, "layers": [(1.0, 3.0)]})
    ["p['b']", "p['layers'][0][0]", "p['layers'][0][1]"]
    """
    tree = flatten(value)[1]
    if tree._spec is None:
        return [base]
    stored, found = _sparse_node(), []
    for accessor in tree._spec.accessors():
        # The leaf of a sparse array is its stored values: it has the array's name.
        inside = len(accessor) > 0 and accessor[-1].type is stored
        found.append((accessor[:-1] if inside else accessor).codify(base))
    return found


def is_sparse(value: Any) -> bool:
    """Whether a value is a sparse array of SciPy, CuPy or our own."""
    return hasattr(type(value), "tocsr")


def _is_leaf(value: Any) -> bool:
    kind = type(value)
    return not (
        isinstance(value, (dict, list, tuple))
        or hasattr(kind, "tocsr")
        or _is_nest(value)
    )


def _is_nest(value: Any) -> bool:
    """Whether a value is an instance of some user's dataclass."""
    return dataclasses.is_dataclass(value) and not isinstance(value, (type, Spec))


def _register(kind: Any) -> None:
    import optree

    names = [field.name for field in dataclasses.fields(kind)]

    def take(x: Any) -> tuple[list[Any], None, list[str]]:
        return [getattr(x, name) for name in names], None, names

    def build(_: Any, children: Iterable[Any]) -> Any:
        made = object.__new__(kind)
        for name, child in zip(names, children, strict=True):
            object.__setattr__(made, name, child)
        return made

    optree.register_pytree_node(
        kind,
        take,
        build,
        path_entry_type=optree.GetAttrEntry,  # written p.weight
        namespace=_NAMESPACE,
    )


@cache
def _sparse_node() -> Any:
    """The class that stands for a sparse array while optree takes a nest apart."""
    import optree

    class Stored:
        """The pattern and the stored values of a sparse array."""

        def __init__(self, pattern: Any, data: Any) -> None:
            self.pattern = pattern
            self.data = data

    def build(pattern: Any, children: Iterable[Any]) -> Any:
        (data,) = children
        return hooks.build_sparse(data, pattern)

    def take(x: Any) -> tuple[list[Any], Any]:
        return [x.data], x.pattern

    kind: Any = Stored
    optree.register_pytree_node(kind, take, build, namespace=_NAMESPACE)
    return kind


def _opened(value: Any) -> Any:
    data, pattern = hooks.take_sparse(value)
    return _sparse_node()(pattern, data)
