"""Which node is meant: by its name, its id or its Tensor. And arrays by node."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from workbench.core import blame, types
from workbench.core.graph import Graph
from workbench.core.tensor import Tensor, value_of
from workbench.core.walk import is_leaf
from workbench.errors import DtypeError, ShapeError, UnknownNodeError, UsageError
from workbench.ops import define
from workbench.ops.define import shape_of

#: What stands for a node: its Tensor, its name, or its id.
Node = Tensor | str | int


class Nodes:
    """The nodes of a session, which keep their ids from run to run.

    Attributes
    ----------
    session
        What the session's own code calls it.
    count
        How many there are.
    graph
        The program as it has run last.
    """

    def __init__(self, graph: Graph, session: str) -> None:
        self.session, self.graph = session, graph
        self.count = len(graph.nodes)
        #: The ids of the Tensors that were traced, by serial.
        self.traced = {node.serial: i for i, node in enumerate(graph.nodes)}

    @cached_property
    def labels(self) -> list[str]:
        """What people call each node: its name, or its op and id. Finds it too."""
        inputs = set(self.graph.inputs)
        # A leaf that is no input is a constant.
        kinds = [
            "input" if x in inputs else "constant" if is_leaf(x) else x.op.name
            for x in self.graph.nodes
        ]
        return [
            node.name or f"{kind} {i}"
            for i, (node, kind) in enumerate(zip(self.graph.nodes, kinds, strict=True))
        ]

    @cached_property
    def names(self) -> dict[str, int]:
        """The id of the last node of each name."""
        return {x.name: i for i, x in enumerate(self.graph.nodes) if x.name}

    def find(self, node: Node) -> int:
        """Return the id of a node.

        Raises
        ------
        UnknownNodeError
            If there is none; with the names that are close.
        """
        if isinstance(node, Tensor):
            known = self.traced.get(node.serial)
            if known is None:
                known = self.graph.ids.get(node)
            if known is None:
                raise UnknownNodeError(
                    f"{blame.describe(node)} is no node of this session, or of an"
                    f" earlier run of it. Write {self.session}[name] or its id."
                )
            return known
        if isinstance(node, (int, np.integer)) and not isinstance(node, bool):
            if not 0 <= node < self.count:
                raise UnknownNodeError(
                    f"there is no node {node}: ids go from 0 to {self.count - 1}."
                )
            return int(node)
        if node in self.names:
            return self.names[node]
        if node in self.labels:  # "tanh 3", as the picture and plots call it
            return self.labels.index(node)
        close = difflib.get_close_matches(str(node), self.names, 2, 0.5)
        hint = f" Did you mean {' or '.join(close)}?" if close else ""
        raise UnknownNodeError(
            f"no node is named {node!r}.{hint} There are"
            f" {', '.join(self.names) or 'none with a name'}{self._others()}."
        )

    def _others(self) -> str:
        """Return how nodes without a name are called, by an example."""
        named = {*self.names.values()}
        free = [k for k in range(self.count) if k not in named]
        if not free:
            return ""
        return f"; a node without a name is called as {self.labels[free[-1]]!r} is"

    def name_of(self, i: int) -> str | None:
        """Return the name under which a node is found; None if that is another node."""
        label = self.labels[i]
        return label if self.names.get(label) == i else None


@dataclass(frozen=True, eq=False, repr=False)
class Arrays(Mapping[str, Any]):
    """Arrays of a session's nodes, by name, id or Tensor; each access is a copy."""

    _nodes: Nodes
    _names: dict[str, int]
    _get: Callable[[int], Any]
    _what: str

    def __getitem__(self, node: Node) -> Any:
        # An input and what the program later calls by its name are two nodes.
        own = self._names.get(node) if isinstance(node, str) else None
        return handed(self._get(self._nodes.find(node) if own is None else own))

    def __contains__(self, node: object) -> bool:
        try:
            return self[node] is not None  # type: ignore[index]
        except KeyError:
            return False

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        rows = [f"{n} {shape_of(self._get(i))}" for n, i in self._names.items()]
        return f"<{self._what} of {self._nodes.session!r}: {', '.join(rows)}>"


def handed(x: Any) -> Any:
    """Return what a user gets: a copy, which may be changed in place."""
    return x.copy() if hasattr(x, "copy") and shape_of(x) != () else x


def is_node(given: Iterable[Node] | Node) -> bool:
    """Return whether one node is given, and not several."""
    return isinstance(given, (str, int, np.integer, Tensor))


def as_list(given: Iterable[Node] | Node) -> list[Node]:
    """Return one node or several as a list."""
    return [given] if is_node(given) else list(given)  # type: ignore[list-item, arg-type]


def one_array(node: Tensor, nodes: Sequence[Tensor], labels: Sequence[str]) -> None:
    """Refuse an op with several outputs, and name those that there are."""
    if define.parts(node) is None:
        return
    known = zip(nodes, labels, strict=True)
    names = [label for x, label in known if x.op is define.ITEM and x.inputs[0] is node]
    raise UsageError(
        f"{node.op.name}{blame.quote_site(node.site)} has several outputs, and a"
        " derivative is of one array by others. Ask for one of them:"
        f" {', '.join(names)}."
    )


def fitted(value: Any, node: Tensor, label: str) -> Any:
    """Return a new value for an input, in the shape and dtype that it has.

    Raises
    ------
    ShapeError, DtypeError
        If it has others.
    """
    value = value_of(value)
    if not hasattr(value, "dtype"):
        known = node._value
        like = known if hasattr(known, "__array_function__") else None
        value = np.asarray(value, like=like)
    want = node.spec if node._value is None else types.spec_of(node._value)
    if tuple(value.shape) != want.shape:
        raise ShapeError(
            f"run: {label} has shape {want.shape} in this session, not"
            f" {tuple(value.shape)}. Run the cell again for another shape: the program"
            " may have used it."
        )
    if not np.can_cast(value.dtype, want.dtype, "same_kind"):
        raise DtypeError(
            f"run: {label} is of dtype {want.dtype} in this session, not"
            f" {value.dtype}. Convert it with .astype({str(want.dtype)!r})."
        )
    if want.weak:
        return want.dtype.type(value).item()
    return value.astype(want.dtype)
