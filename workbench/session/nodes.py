"""Nodes of a session by name, id or Tensor, and arrays by node."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import numpy as np

from workbench.checks.statistics import is_on_device
from workbench.core import blame, sites, types
from workbench.core.graph import Graph
from workbench.core.tensor import Tensor, read_argument, value_of
from workbench.core.walk import is_leaf
from workbench.errors import DtypeError, ShapeError, UnknownNodeError, UsageError
from workbench.ops import define
from workbench.ops.define import shape_of
from workbench.session.repeats import Unrolled, find_unrolled

#: A node as users pass it: its Tensor, its name, or its id.
Node = Tensor | str | int


class Nodes:
    """The nodes of a session, which keep their ids from run to run.

    Attributes
    ----------
    session
        The name of the session in its own code.
    count
        The number of nodes.
    """

    def __init__(self, graph: Graph, session: str) -> None:
        self.session = session
        # Those of earlier runs that are still looked at, perhaps in another thread.
        self._known: WeakValueDictionary[int, Graph] = WeakValueDictionary()
        self.graph = graph
        self.count = len(graph.nodes)
        #: The columns that say how they are connected, once they are asked for.
        self.structure: Any = None
        self._integers = graph.integers
        #: The ids of nodes by other names that the user has given them, ``u = u0``.
        self.aliases: dict[str, int] = {}
        #: The ids by serial of the Tensors that were traced, and of those of findings,
        #: which stay valid when their run is forgotten. All copies have them.
        self.serials = {node.serial: i for i, node in enumerate(graph.nodes)}

    @property
    def graph(self) -> Graph:
        """The program of the last run."""
        return self._graph

    @graph.setter
    def graph(self, graph: Graph) -> None:
        self._graph = self._known[id(graph)] = graph

    @cached_property
    def labels(self) -> list[str]:
        """The label of each node, for lookups too: its name, or its op and id."""
        graph = self.graph  # another thread may run it meanwhile
        inputs = set(graph.inputs)
        # A leaf that is not an input is a constant.
        kinds = [
            "input" if x in inputs else "constant" if is_leaf(x) else x.op.name
            for x in graph.nodes
        ]
        return [
            node.name or f"{kind} {i}"
            for i, (node, kind) in enumerate(zip(graph.nodes, kinds, strict=True))
        ]

    @cached_property
    def names(self) -> dict[str, int]:
        """The id of the last node of each name."""
        return {x.name: i for i, x in enumerate(self.graph.nodes) if x.name}

    @cached_property
    def unrolled(self) -> Unrolled:
        """The Python loops that the trace has unrolled."""
        return find_unrolled(self.graph.nodes)

    def find(self, node: Node) -> int:
        """Return the id of a node.

        Raises
        ------
        UnknownNodeError
            If there is no such node; the text suggests similar names.
        """
        if isinstance(node, Tensor):
            node_id = self.serials.get(node.serial)
            if node_id is None:
                node_id = self._find_in_runs(node)
            if node_id is None:
                raise UnknownNodeError(
                    f"{blame.describe(node)} is not a node of this session, nor of an"
                    f" earlier run of it. Write {self.session}[name] or its id."
                )
            return node_id
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
        if node in self.aliases:
            return self.aliases[node]
        if (found := self.find_address(str(node))) is not None:
            return found
        if self._integers and (integer := self._integers.describe(str(node))):
            raise UnknownNodeError(f"no node is named {node!r}. {integer}")
        hint = blame.suggest(str(node), self.names.keys())
        raise UnknownNodeError(
            f"no node is named {node!r}.{hint} There are"
            f" {', '.join(self.names) or 'none with a name'}{self._describe_unnamed()}."
        )

    @cached_property
    def inputs(self) -> dict[str, int]:
        """The ids of nodes with values that a run may replace: inputs, constants."""
        nodes, labels = self.graph.nodes, self.labels
        return {labels[i]: i for i, x in enumerate(nodes) if is_leaf(x)}

    def find_input(self, node: Node) -> int:
        """Return the id of an input, by its name also where a later node has that.

        Raises
        ------
        UnknownNodeError, UsageError
            If there is no such node, or it is computed; it tells the inputs.
        """
        if isinstance(node, str) and node in self.inputs:
            return self.inputs[node]
        known = f"The inputs are {', '.join(self.inputs)}."
        if isinstance(node, str) and not (node in self.names or node in self.labels):
            if self._integers and (integer := self._integers.describe(node)):
                raise UnknownNodeError(f"run: no input is named {node!r}. {integer}")
            hint = blame.suggest(node, self.inputs.keys())
            raise UnknownNodeError(f"run: no input is named {node!r}.{hint} {known}")
        i = self.find(node)
        if not is_leaf(self.graph.nodes[i]):
            raise UsageError(
                f"run: {self.labels[i]} is computed, it is not an input. {known}"
            )
        return i

    def _find_in_runs(self, node: Tensor) -> int | None:
        """Return the id of a Tensor of some run that is looked at; None if of none."""
        node_id = self.graph.ids.get(node)
        for known in [] if node_id is not None else self._known.valuerefs():
            graph = known()
            if graph is not None and (node_id := graph.ids.get(node)) is not None:
                break
        return node_id

    def _describe_unnamed(self) -> str:
        """Return a note on the labels of nodes without a name, with an example."""
        named = {*self.names.values()}
        free = [k for k in range(self.count) if k not in named]
        if not free:
            return ""
        return f"; a node without a name is called like {self.labels[free[-1]]!r}"

    @cached_property
    def _places(self) -> Places:
        """Where each node stands in the user's code."""
        return find_places(self.graph.nodes, self.labels, self.unrolled)

    def write_address(self, i: int, lined: bool = False) -> str:
        """Return a text that finds a node in another run of the same code.

        It is the name, if no other place of the code has it, else name or op and line:
        ``"v@6"``, or ``"multiply@5#2"`` for the second of several on that line. All
        steps of a loop are one place. Without a line it is the label. ``lined`` asks
        for the line, as where an op has the name too.
        """
        key = self._places.keys[i]
        name = self.graph.nodes[i].name
        if name and not lined and self._places.named[name] == [key]:
            return name
        what, line = self._places.lines[i]
        if line < 0:
            return self.labels[i]
        same = self._places.written[what, line]
        number = f"#{same.index(key) + 1}" if len(same) > 1 else ""
        return f"{what}@{line}{number}"

    def find_address(self, text: str) -> int | None:
        """Return the id of a node by name or op and line; None for other texts.

        Of a place in a loop it is that of the last step.

        Raises
        ------
        UnknownNodeError
            If nothing is so called on that line, or several nodes are.
        """
        match = re.fullmatch(r"(.+)@(\d{1,9})(?:#(\d{1,9}))?", text)
        if match is None:
            return None
        what, line = match[1], int(match[2])
        same = self._places.written.get((what, line), [])
        if not same:
            lines = sorted({n for w, n in self._places.written if w == what and n >= 0})
            others = ", ".join(f"'{what}@{n}'" for n in lines)
            known = f" There is {others}." if lines else ""
            raise UnknownNodeError(f"no {what!r} was made on line {line}.{known}")
        if match[3] is None and len(same) > 1:
            raise UnknownNodeError(
                f"line {line} makes {len(same)} nodes {what!r}: write"
                f" '{what}@{line}#1' for the first, up to '{what}@{line}#{len(same)}'."
            )
        number = int(match[3] or 1)
        if not 1 <= number <= len(same):
            raise UnknownNodeError(
                f"line {line} makes {blame.format_count(len(same), 'node')} {what!r},"
                f" and {text!r} would be number {number}."
            )
        return self._places.last[same[number - 1]]

    def find_name(self, i: int) -> str | None:
        """Return the name under which a node is found; None if that is another node."""
        label = self.labels[i]
        return label if self.names.get(label) == i else None


#: A place in the user's code: a loop and a position in its body, or -1 and a node.
PlaceKey = tuple[int, int]


class Places(NamedTuple):
    """Where the nodes of a program stand in the user's code.

    Attributes
    ----------
    keys
        The place of each node; nodes in other steps of a loop have the same.
    lines
        For each node its name or op, and the line; -1 where none is known.
    written
        By name or op and line the places that are so called, in the program's order.
    named
        By name the places that have it.
    last
        By place its last node.
    """

    keys: list[PlaceKey]
    lines: list[tuple[str, int]]
    written: dict[tuple[str, int], list[PlaceKey]]
    named: dict[str, list[PlaceKey]]
    last: dict[PlaceKey, int]


def find_places(
    nodes: Sequence[Tensor], labels: Sequence[str], unrolled: Unrolled
) -> Places:
    """Find where nodes stand in the user's code."""
    keys: list[PlaceKey] = [(-1, i) for i in range(len(nodes))]
    for number, rows in enumerate(unrolled.members):
        for row in rows.tolist():
            for column, i in enumerate(row):
                if unrolled.loop[i] == number:  # else it is in a loop in this one
                    keys[i] = (number, column)
    known: dict[tuple[Any, int], int] = {}
    lines: list[tuple[str, int]] = []
    # Dicts as ordered sets: many nodes can stand on one line.
    written: dict[tuple[str, int], dict[PlaceKey, None]] = {}
    named: dict[str, dict[PlaceKey, None]] = {}
    for i, node in enumerate(nodes):
        origin = sites.instruction_of(node)
        if origin not in known:
            site = sites.decode(*origin)
            known[origin] = -1 if site is None else site.line
        # The label of a node without a name ends with its number.
        lines.append((node.name or labels[i].rpartition(" ")[0], known[origin]))
        written.setdefault(lines[i], {})[keys[i]] = None
        if node.name:
            named.setdefault(node.name, {})[keys[i]] = None
    return Places(
        keys,
        lines,
        {called: [*found] for called, found in written.items()},
        {name: [*found] for name, found in named.items()},
        {key: i for i, key in enumerate(keys)},
    )


@dataclass(frozen=True, eq=False, repr=False)
class Arrays(Mapping[str, Any]):
    """Arrays of a session's nodes, by name, id or Tensor; each access is a copy."""

    _nodes: Nodes
    _names: dict[str, int]
    _get: Callable[[int], Any]
    _what: str

    def __getitem__(self, node: Node) -> Any:
        # An input and a later node of the same name are two nodes.
        input_id = self._names.get(node) if isinstance(node, str) else None
        return copy_for_user(
            self._get(self._nodes.find(node) if input_id is None else input_id)
        )

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


def copy_for_user(x: Any) -> Any:
    """Return a copy of an array, which a user may change in place."""
    return x.copy() if hasattr(x, "copy") and shape_of(x) != () else x


def is_node(nodes: Iterable[Node] | Node) -> bool:
    """Return whether one node is given, and not several."""
    return isinstance(nodes, (str, int, np.integer, Tensor))


def to_list(nodes: Iterable[Node] | Node) -> list[Node]:
    """Return one node or several as a list."""
    return [nodes] if is_node(nodes) else list(nodes)  # type: ignore[list-item, arg-type]


def check_one_array(
    node: Tensor, nodes: Sequence[Tensor], labels: Sequence[str]
) -> None:
    """Raise an error for an op with several outputs, which names them."""
    if define.output_values(node) is None:
        return
    known = zip(nodes, labels, strict=True)
    names = [label for x, label in known if x.op is define.ITEM and x.inputs[0] is node]
    raise UsageError(
        f"{node.op.name}{blame.quote_site(node.site)} has several outputs, and a"
        " derivative is of one array by others. Choose one of them:"
        f" {', '.join(names)}."
    )


def is_integer(x: object) -> bool:
    """Return whether a value is an integer, NumPy's too; a flag is none."""
    return isinstance(x, (int, np.integer)) and not isinstance(x, bool)


def read_number(x: object) -> float | None:
    """Return a real number of Python or NumPy as a float; None for anything else.

    >>> read_number(np.float32(0.5)), read_number(True), read_number(10**400)
    (0.5, None, None)
    """
    if isinstance(x, np.ndarray) and x.shape == ():
        x = x[()]
    if isinstance(x, bool) or not isinstance(x, (int, float, np.integer, np.floating)):
        return None
    try:
        return float(x)
    except (OverflowError, TypeError):  # too large an int, or a time
        return None


def quote_argument(x: object) -> str:
    """Return what a user has passed, for an error, at most 80 characters of it."""
    try:
        return blame.shorten(repr(x), 80)
    except ValueError:  # Python spells no integer of so many digits
        return "one of thousands of digits"


def read_real_entries(value: Any, label: str, index: int) -> Any:
    """Return a copy of an input's array to change an entry of.

    Raises
    ------
    UsageError
        If it holds no real numbers, lies on a GPU, or has no such entry.
    """
    if is_on_device(value) or np.asarray(value).dtype.kind != "f":
        raise UsageError(
            f"{label} is no array of real numbers in the memory of the CPU: its entries"
            " cannot be changed by hand. Run the session with another one."
        )
    array = np.array(value)
    if not is_integer(index):
        hint = f": write np.ravel_multi_index((i, j), {array.shape})"
        raise UsageError(
            f"an entry of {label} is named by its place in the flat array, an integer"
            f" such as 0, not by {quote_argument(index)}{hint * (array.ndim == 2)}."
        )
    if not 0 <= index < array.size:
        raise UsageError(
            f"{label} has no entry {quote_argument(index)}: it has {array.size:,},"
            " numbered from 0."
        )
    return array


def set_entry(value: Any, index: int, entry: Any) -> Any:
    """Return a copy of an input's value with another entry.

    >>> set_entry(np.ones((2, 2)), 1, 3), set_entry(1.0, 0, 3)
    (array([[1., 3.],
           [1., 1.]]), 3.0)
    """
    array = np.array(value)
    array.flat[index] = entry
    return array if hasattr(value, "dtype") else array.item()


def name_entry(label: str, shape: tuple[int, ...], index: int) -> str:
    """Return an entry of an array as code.

    >>> name_entry("W", (2, 3), 4), name_entry("b", (), 0)
    ('W[1, 1]', 'b')
    """
    if not shape:
        return label
    return f"{label}[{', '.join(map(str, map(int, np.unravel_index(index, shape))))}]"


def fit_input(value: Any, node: Tensor, label: str) -> Any:
    """Return a new value for an input, in the shape and dtype of the input.

    Raises
    ------
    ShapeError, DtypeError
        If the value has others.
    """
    value = read_argument(value_of(value))
    if not hasattr(value, "dtype"):
        known = node._value
        like = known if hasattr(known, "__array_function__") else None
        value = np.asarray(value, like=like)
    if is_on_device(node._value) and not is_on_device(value):
        raise UsageError(
            f"run: {label} lies on the GPU in this session, and its new value in the"
            " memory of the CPU. Nothing moves in silence: write wb.to_gpu(value)."
        )
    want = node.spec if node._value is None else types.spec_of(node._value)
    if tuple(value.shape) != want.shape:
        raise ShapeError(
            f"run: {label} has shape {want.shape} in this session, not"
            f" {tuple(value.shape)}. Run the cell again for another shape: the traced"
            " program may depend on it."
        )
    if not np.can_cast(value.dtype, want.dtype, "same_kind"):
        raise DtypeError(
            f"run: {label} is of dtype {want.dtype} in this session, not"
            f" {value.dtype}. Convert it with .astype({str(want.dtype)!r})."
        )
    if want.weak:
        return want.dtype.type(value).item()
    return value.astype(want.dtype)
