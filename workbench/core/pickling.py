"""Programs as plain data: what pickle sends of a Graph to another process.

A node becomes a record: its op, operands, settings, spec, name, line. The records
stand in the order of the program, so nothing follows a chain from node to node. A
Tensor by itself goes on refusing: it is a place in a program. What tells of nodes, as
a finding does, sends a `NodeText` of each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from workbench.core import dims, hooks, source, types
from workbench.core.dims import Length, dim_of_atom
from workbench.core.graph import Graph
from workbench.core.op import OPS, Op
from workbench.core.tensor import IDENTITY, MaskedTensor, Tensor, value_of
from workbench.core.types import Spec
from workbench.errors import TraceError


class Place(NamedTuple):
    """Which of the nodes of the program an operand is."""

    position: int


class PlacedLength(dims.Atom):
    """The length of an axis of a node, by its place."""

    __slots__ = ("axis", "part", "place")

    def __init__(self, place: int, axis: int, part: int | None) -> None:
        self.place, self.axis, self.part = place, axis, part
        self.key = (3, place, axis, -1 if part is None else part)

    def __reduce__(self) -> tuple[Any, ...]:
        return PlacedLength, (self.place, self.axis, self.part)


class Record(NamedTuple):
    """A node as data."""

    #: None of a leaf.
    op: Op | None
    inputs: tuple[Any, ...]
    params: dict[str, Any]
    spec: Any
    name: str | None
    site: source.Site | None
    scope: str | None
    is_masked: bool
    facts: Any
    origin: Any


@hooks.reduce_graph.set
def reduce_graph(graph: Graph) -> tuple[Any, ...]:
    """Return what `Graph.__reduce__` does.

    The values of nodes stay at home; what depends on no leaf is a constant.

    Raises
    ------
    TypeError
        For what does not travel: a shared value, a symbol that is no input, an op that
        a function has made in passing.
    """
    leaves = {x.serial for x in graph.leaves}
    varying = graph.schedule.varying
    nodes = [
        x for x in graph.nodes
        if x.serial in leaves or x.serial in varying or x._value is None
    ]  # fmt: skip
    places = {x.serial: i for i, x in enumerate(nodes)}
    sites: dict[Any, source.Site | None] = {}

    def refer(x: Any) -> Any:
        if not isinstance(x, Tensor):
            return x
        if x.serial in places:
            return Place(places[x.serial])
        value = value_of(x)
        return x if value is None else value  # a Tensor refuses, and says why

    def place(atom: Any) -> Any:
        if not isinstance(atom, Length):
            return None
        if atom.tensor.serial not in places:
            raise TraceError(
                f"this graph cannot be pickled: it needs the length {atom}, of what is"
                " no part of it. Make it an input."
            )
        at = PlacedLength(places[atom.tensor.serial], atom.axis, atom.part)
        return dim_of_atom(at)

    records = []
    for node in nodes:
        is_leaf = node.serial in leaves
        if not is_leaf and node.op is IDENTITY and not node.inputs:
            node.__reduce__()  # a symbol or shared value from outside: it says why not
        key = source.instruction_of(node)
        if key not in sites:
            sites[key] = source.decode(*key)
        record = Record(
            None if is_leaf else node.op,
            () if is_leaf else tuple(map(refer, node.inputs)),
            {} if is_leaf else node.params,
            _replace_in_specs(types.spec_of(node), place),
            node.name,
            sites[key],
            node.scope,
            isinstance(node, MaskedTensor),
            node.facts and [(dims.replace_dims(a, place), dims.replace_dims(b, place))
                            for a, b in node.facts],
            _pack_origin(node.origin, refer, places),
        )  # fmt: skip
        records.append(record)
    outputs = tuple(map(refer, graph.outputs))
    counts = len(graph.captures), len(graph.inputs)
    where = [places[x.serial] for x in graph.leaves]
    return build_graph, (records, where, counts, outputs, graph._tree)


def _replace_in_specs(spec: Any, new: Callable[[Any], Any]) -> Any:
    """Return a spec, or those of several outputs, with other lengths."""
    if isinstance(spec, Spec):
        return Spec(dims.replace_dims(spec.shape, new), spec.dtype, spec.weak)
    return tuple([_replace_in_specs(s, new) for s in spec])


def _pack_origin(origin: Any, refer: Any, places: dict[int, int]) -> Any:
    """Return where a node of a gradient comes from, with places for nodes."""
    if origin is None:
        return None

    def pack(x: Any) -> Any:
        return refer(x) if x.serial in places else NodeText(x)

    return origin._replace(forward=pack(origin.forward), of=tuple(map(pack, origin.of)))


def build_graph(
    records: Sequence[Record],
    where: Sequence[int],
    counts: tuple[int, int],
    outputs: Sequence[Any],
    tree: Any,
) -> Graph:
    """Return the graph of what `reduce_graph` has made of one."""
    nodes: list[Tensor] = []

    def find(told: Any) -> Any:
        return nodes[told.position] if isinstance(told, Place) else told

    def length(atom: Any) -> Any:
        if not isinstance(atom, PlacedLength):
            return None
        return dim_of_atom(Length(nodes[atom.place], atom.axis, atom.part))

    for record in records:
        nodes.append(_build_node(record, tuple(map(find, record.inputs))))
    for node, record in zip(nodes, records, strict=True):
        node.spec = _replace_in_specs(record.spec, length)
        if record.facts:
            node.facts = [
                (dims.replace_dims(a, length), dims.replace_dims(b, length))
                for a, b in record.facts
            ]
        if record.origin is not None:
            node.origin = record.origin._replace(
                forward=find(record.origin.forward),
                of=tuple(map(find, record.origin.of)),
            )
    leaves = [nodes[i] for i in where]
    captures, _ = counts
    made = [*map(find, outputs)]
    return Graph(leaves[captures:], made, leaves[:captures], tree=tree)


def _build_node(record: Record, inputs: tuple[Any, ...]) -> Tensor:
    kind = MaskedTensor if record.is_masked else Tensor
    args = tuple([None if isinstance(x, Tensor) else x for x in inputs])
    context = None if record.scope is None else source.Context(record.scope)
    code: Any = record.site  # `source.decode` hands it on
    op = record.op or IDENTITY
    node = kind(op, inputs, args, record.params, None, code, -1, context)
    node.spec = record.spec
    if record.name is not None:
        node.name = record.name
    return node


# A node that is only told of


class NodeText:
    """Stands for a node in what is pickled: it comes back as a Tensor by itself.

    Its op's name, spec, name, line and scope are kept, and those of its operands; not
    values and settings.
    """

    def __init__(self, node: Tensor) -> None:
        self.node = node

    def __reduce__(self) -> tuple[Any, ...]:
        node = self.node
        operands = [_tell(x) for x in node.inputs if isinstance(x, Tensor)]
        origin = node.origin
        if origin is not None:
            origin = origin._replace(forward=NodeText(origin.forward), of=())
        return build_text, (_tell(node), operands, origin)


def _tell(node: Tensor) -> tuple[Any, ...]:
    spec = _replace_in_specs(types.spec_of(node), _forget_length)
    return node.op.name, spec, node.name, node.site, node.scope


def _forget_length(atom: Any) -> Any:
    return dim_of_atom(NamedLength(str(atom)))


class NamedLength(dims.Atom):
    """A length of which only the text is left."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text
        self.key = (4, text)

    def __str__(self) -> str:
        return self.text

    def __reduce__(self) -> tuple[Any, ...]:
        return NamedLength, (self.text,)


def build_text(
    told: tuple[Any, ...],
    operands: Sequence[tuple[Any, ...]] = (),
    origin: Any = None,
) -> Tensor:
    """Return a Tensor as `NodeText` has told of it."""
    inputs = tuple([build_text(x) for x in operands])
    name, spec, label, site, scope = told
    op = OPS.get(name) or Op(name)
    record = Record(op, (), {}, spec, label, site, scope, False, None, None)
    node = _build_node(record, inputs)
    if origin is not None:
        node.origin = origin
    return node
