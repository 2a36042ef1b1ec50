"""Nested arguments and results: dicts, lists, tuples, named tuples, dataclasses.

A dataclass needs no registration by the user; another class that is registered with
optree is a nest too. So is a sparse array: its stored values are the leaf, and where
they stand is structure.
"""

from __future__ import annotations

import dataclasses
import sys
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

from workbench.core import blame
from workbench.core.op import load_ops_of
from workbench.core.types import Spec, is_lazy

_NAMESPACE = "workbench"


class Tree:
    """The structure from `flatten`; calling the structure puts leaves back.

    Attributes
    ----------
    kind
        The class of the nest; None for a leaf.
    children
        The structures of its parts, in order.
    entries
        The key, index or field of each part.
    needs
        What it takes besides to build such a nest.

    Examples
    --------
    >>> leaves, tree = flatten({"b": 2.0, "a": (1.0, [3.0])})
    >>> leaves
    [1.0, 3.0, 2.0]
    >>> tree([10, 30, 20])
    {'b': 20, 'a': (10, [30])}
    """

    __slots__ = ("_hash", "children", "entries", "kind", "needs")

    def __init__(
        self,
        kind: type | None = None,
        children: tuple[Tree, ...] = (),
        entries: tuple[Any, ...] = (),
        needs: Any = None,
    ) -> None:
        self.kind = kind
        self.children = children
        self.entries = entries
        self.needs = needs

    def __call__(self, leaves: Sequence[Any]) -> Any:
        """Rebuild the structure around these leaves."""
        kind: Any = self.kind
        if kind is None:
            return leaves[0]
        if (kind is tuple or kind is list) and len(leaves) == len(self.children):
            for child in self.children:
                if child.kind is not None:
                    break
            else:
                return kind(leaves)
        rest = iter(leaves)
        try:
            made = self._filled(rest)
        except StopIteration:
            raise ValueError(f"{len(leaves)} leaves are too few for {self}") from None
        if next(rest, self) is not self:
            raise ValueError(f"{len(leaves)} leaves are too many for {self}")
        return made

    def _filled(self, leaves: Iterator[Any]) -> Any:
        parts = []
        for child in self.children:
            parts.append(next(leaves) if child.kind is None else child._filled(leaves))
        if self.kind is tuple:
            return tuple(parts)
        return KINDS[self.kind].build(self, parts)

    def leaves(self, value: object) -> list[Any]:
        """Return the values in the places of the leaves, arrays or lists.

        Raises
        ------
        ValueError
            If the value does not nest as far as this structure does.
        """
        if self.kind is None:
            return [value]
        kind = _kind_of(type(value), value)
        given: dict[Any, Any] = {}
        if kind is not None and _are_alike(kind.stands or type(value), self.kind):
            parts, entries, needs = kind.take(value)
            # Sparse arrays with entries in other places are other arrays.
            if self.kind is not Stored or needs == self.needs:
                given = dict(zip(entries, parts, strict=True))
        if kind is None or given.keys() != set(self.entries):
            raise ValueError(f"{_describe(self)} is wanted, not {value!r}")
        inside = zip(self.entries, self.children, strict=True)
        return [leaf for entry, child in inside for leaf in child.leaves(given[entry])]

    def collect(self, value: Any, leaves: list[Any]) -> bool:
        """Add the leaves of a nest of just this structure to a list.

        False: it is another one. What stands where a leaf is to be is taken as it is.
        """
        kind: Any = self.kind
        parts: Iterable[Any]
        if kind is None:
            leaves.append(value)
            return True
        if type(value) is not kind:
            return False
        if kind is tuple or kind is list:
            if len(value) != len(self.children):
                return False
            parts = value
        elif kind is dict:
            if value.keys() != self.needs.keys():
                return False
            parts = map(value.__getitem__, self.entries)
        else:
            parts, entries, needs = KINDS[kind].take(value)
            if tuple(entries) != self.entries or needs != self.needs:
                return False
        for child, part in zip(self.children, parts, strict=True):
            if child.kind is None:
                leaves.append(part)
            elif not child.collect(part, leaves):
                return False
        return True

    def names(self, base: str) -> list[str]:
        """Return how one writes each leaf of a nest that is called ``base``.

        >>> flatten({"b": 2.0, "layers": [(1.0, 3.0)]})[1].names("p")
        ["p['b']", "p['layers'][0][0]", "p['layers'][0][1]"]
        """
        if self.kind is None:
            return [base]
        inside = zip(_format_entries(self), self.children, strict=True)
        return [name for at, child in inside for name in child.names(base + at)]

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return (
            isinstance(other, Tree)
            and self.kind is other.kind
            and self.entries == other.entries
            and bool(self.needs == other.needs)
            and self.children == other.children
        )

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            self._hash: int = hash((self.kind, self.entries, self.children))
            return self._hash

    def __reduce__(self) -> tuple[Any, ...]:
        # Without the hash: that of a string is another in each process.
        return Tree, (self.kind, self.children, self.entries, self.needs)

    def __repr__(self) -> str:
        return _format(self)


_LEAF = Tree()
#: The leaves of a nest, and its structure.
Flat = tuple[list[Any], Tree]


def flatten(value: object) -> Flat:
    """Return the leaves of a nest, in a fixed order, and its Tree."""
    if value is None or KINDS.get(type(value), _LEAF) is None:
        return [value], _LEAF
    leaves: list[Any] = []
    return leaves, _take_apart(value, leaves)


def flatten_call(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Flat:
    """Return `flatten` of the arguments of a call, which are mostly leaves."""
    if not kwargs and all(KINDS.get(type(x), _LEAF) is None for x in args):
        return list(args), _make_flat_call(len(args))
    return flatten((args, kwargs))


@cache
def _make_flat_call(count: int) -> Tree:
    """Return the structure of so many arguments by position that are leaves."""
    return flatten(((0,) * count, {}))[1]


def _take_apart(value: object, leaves: list[Any]) -> Tree:
    """Return the structure of a nest, and add its leaves to ``leaves``."""
    own = type(value)
    kind = _kind_of(own, value)
    if kind is None:
        leaves.append(value)
        return _LEAF
    parts, entries, needs = kind.take(value)
    children = tuple([_take_apart(part, leaves) for part in parts])
    return Tree(kind.stands or own, children, tuple(entries), needs)


def map_tree(function: Callable[[Any], Any], value: object) -> Any:
    """Apply a function to every leaf of a nest."""
    leaves, tree = flatten(value)
    return tree([function(x) for x in leaves])


def is_sparse(value: object) -> bool:
    """Return whether a value is a sparse array of SciPy, CuPy or our own."""
    return hasattr(type(value), "tocsr")


# Structures in words


def describe_difference(expected: Tree, actual: Tree) -> str:
    """Say in words where a nest differs from the one that is wanted.

    >>> pair, alone = flatten({"b": (1.0, 2.0)})[1], flatten({"b": 1.0})[1]
    >>> describe_difference(pair, alone)
    "at ['b'] a tuple of 2 is wanted, and an array came"
    """
    stack = [("", expected, actual)]
    while stack:
        where, a, b = stack.pop()
        if _describe(a) != _describe(b):
            where = where and f"at {where} "
            return f"{where}{_describe(a)} is wanted, and {_describe(b)} came"
        below = zip(_format_entries(a), a.children, b.children, strict=True)
        stack += [(where + place, x, y) for place, x, y in below][::-1]
    return f"{expected} is wanted, and {actual} of another pattern came"


def _describe(tree: Tree) -> str:
    """Return the outer container of a nest in words."""
    kind, count = tree.kind, len(tree.children)
    if kind is None:
        return "an array"
    if kind is type(None):
        return "None"
    if issubclass(kind, dict):
        keys = ", ".join(map(repr, tree.entries))
        return f"a dict of {keys}" if keys else "an empty dict"
    if kind in (list, tuple):
        return f"a {kind.__name__} of {count}" if count else f"an empty {kind.__name__}"
    if kind is Stored:
        return f"a {tree.needs!r}"
    return f"an instance of {kind.__name__}"


def _format(tree: Tree) -> str:
    """Return a nest as Python notation, with a star for each array."""
    kind, inside = tree.kind, [_format(child) for child in tree.children]
    if kind is None:
        return "*"
    if kind is type(None):
        return "None"
    if kind is Stored:
        return repr(tree.needs)
    if issubclass(kind, dict):
        pairs = zip(tree.entries, inside, strict=True)
        return "{" + ", ".join(f"{key!r}: {part}" for key, part in pairs) + "}"
    if kind is list:
        return f"[{', '.join(inside)}]"
    if kind is tuple:
        return f"({', '.join(inside)}{',' * (len(inside) == 1)})"
    named = zip(_format_entries(tree), inside, strict=True)
    return f"{kind.__name__}({', '.join(f'{at[1:]}={part}' for at, part in named)})"


def _format_entries(tree: Tree) -> list[str]:
    """Return how one writes each entry of a nest."""
    return [KINDS[tree.kind].place.format(entry) for entry in tree.entries]


# Kinds of nests


class Kind(NamedTuple):
    """How the nests of a class are taken apart, built again and written."""

    #: Gives the parts of a nest, their entries, and what it takes to build another.
    take: Callable[[Any], tuple[Iterable[Any], Iterable[Any], Any]]
    #: Builds a nest of the structure of a Tree, from its parts.
    build: Callable[[Tree, list[Any]], Any]
    #: How one writes an entry.
    place: str = "[{!r}]"
    #: The class that stands for this one in structures, if it is not this one itself.
    stands: type | None = None


class Stored:
    """The stand-in for the class of any sparse array in a structure."""


def _take_sequence(value: Any) -> tuple[Iterable[Any], Iterable[Any], Any]:
    return value, range(len(value)), getattr(value, "maxlen", None)


def _take_dict(value: Any) -> tuple[Iterable[Any], Iterable[Any], Any]:
    keys = list(value) if type(value) is OrderedDict else _sort_keys(value)
    bare = type(value).fromkeys(value)  # which keeps the order
    if type(value) is defaultdict:
        bare.default_factory = value.default_factory
    return [value[key] for key in keys], keys, bare


def _build_dict(tree: Tree, parts: list[Any]) -> Any:
    made = tree.needs.copy()
    made.update(zip(tree.entries, parts, strict=True))
    return made


def _sort_keys(keys: Iterable[Any]) -> list[Any]:
    """Return keys in a fixed order: sorted, else by class, else as they come."""
    try:
        return sorted(keys)
    except TypeError:
        try:
            return sorted(
                keys, key=lambda x: (f"{type(x).__module__}.{type(x).__qualname__}", x)
            )
        except TypeError:
            return list(keys)


def _kind_of_fields(names: Sequence[str], build: Callable[[Any, Any], Any]) -> Kind:
    """Return the kind of a class with fields; ``build`` makes a nest from parts."""

    def take(value: object) -> tuple[Iterable[Any], Iterable[Any], Any]:
        return [getattr(value, name) for name in names], names, None

    return Kind(take, lambda tree, parts: build(tree.kind, parts), ".{}")


def _kind_of_dataclass(cls: type) -> Kind:
    names = [field.name for field in dataclasses.fields(cls)]

    def build(kind: Any, parts: Any) -> Any:
        made = object.__new__(kind)
        for name, part in zip(names, parts, strict=True):
            object.__setattr__(made, name, part)
        return made

    return _kind_of_fields(names, build)


def _kind_of_registered(value: object) -> Kind | None:
    """Return the kind of a class that is registered with optree, if that is loaded."""
    optree = sys.modules.get("optree")
    if optree is None or optree.tree_is_leaf(value, namespace=_NAMESPACE):
        return None

    def take(value: object) -> tuple[Iterable[Any], Iterable[Any], Any]:
        parts, spec = optree.tree_flatten(
            value, is_leaf=lambda x: x is not value, namespace=_NAMESPACE
        )
        return parts, [path.codify("") for path in spec.accessors()], spec

    return Kind(take, lambda tree, parts: tree.needs.unflatten(parts), "{}")


#: Kinds by class; None of a class whose instances are leaves.
KINDS: dict[Any, Any] = {
    type(None): Kind(lambda value: ((), (), None), lambda tree, parts: None),
    tuple: Kind(_take_sequence, lambda tree, parts: tuple(parts)),
    list: Kind(_take_sequence, lambda tree, parts: parts),
    deque: Kind(_take_sequence, lambda tree, parts: deque(parts, tree.needs)),
    dict: Kind(_take_dict, _build_dict),
    defaultdict: Kind(_take_dict, _build_dict),
    OrderedDict: Kind(_take_dict, _build_dict),
}
#: The modules whose classes nobody registers.
SETTLED = ("builtins", "cupy", "numpy", "workbench")


def _kind_of(cls: Any, value: object) -> Kind | None:
    """Return how an instance of a class is taken apart; None for a leaf."""
    if cls in KINDS:
        found: Kind | None = KINDS[cls]
        return found
    if is_lazy(value):
        raise blame.lazy_error(value)
    found = None
    if hasattr(cls, "tocsr"):
        load_ops_of("scipy.sparse")
        found = KINDS[Stored]
    elif issubclass(cls, tuple) and hasattr(cls, "_fields"):
        found = _kind_of_fields(cls._fields, lambda kind, parts: kind(*parts))
    elif issubclass(cls, tuple) and hasattr(cls, "n_sequence_fields"):
        found = _kind_of_fields(cls.__match_args__, lambda kind, parts: kind(parts))
    elif (registered := _kind_of_registered(value)) is not None:
        found = registered
    elif _is_dataclass(cls):
        found = _kind_of_dataclass(cls)
    if found is not None or cls.__module__.partition(".")[0] in SETTLED:
        KINDS[cls] = found
    return found


def _is_dataclass(cls: Any) -> bool:
    """Return whether the fields of a dataclass are parts; not those of an array."""
    return hasattr(cls, "__dataclass_fields__") and not (
        issubclass(cls, Spec) or hasattr(cls, "__array__")
    )


def _are_alike(kind: type, other: type) -> bool:
    """Return whether nests of one class may stand where those of another do."""
    return kind is other or (issubclass(kind, dict) and issubclass(other, dict))
