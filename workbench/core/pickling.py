"""Programs as plain data: the pickled form of a Graph.

What many nodes share (op, settings, spec, line) is a `NodeForm`, which travels once; a
node is the number of its form and the places of its operands, in the order of the
program, so nothing follows a chain from node to node. A Tensor by itself goes on
refusing: it is a place in a program. What tells of nodes, as a finding does, sends a
`NodeText` of each. `lift_constants` takes large arrays out of a program, for senders of
many programs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from workbench.core import dims, sites, source, types, walk
from workbench.core.dims import Length, dim_of_atom
from workbench.core.op import OPS, Op
from workbench.core.tensor import (
    IDENTITY,
    MaskedTensor,
    Tensor,
    make_leaf,
    value_of,
)
from workbench.core.types import Spec
from workbench.errors import TraceError

#: Bytes from which `lift_constants` takes an array out of a program.
LARGE = 2**16


class Program(Protocol):
    """The part of a Graph that pickle sends."""

    @property
    def leaves(self) -> Sequence[Tensor]:
        """Its captures and inputs."""

    @property
    def captures(self) -> Sequence[Tensor]:
        """The Tensors that the program reads besides its inputs."""

    @property
    def inputs(self) -> Sequence[Tensor]:
        """The input Tensors."""

    @property
    def outputs(self) -> Sequence[Any]:
        """The output Tensors or constants."""

    @property
    def nodes(self) -> Sequence[Tensor]:
        """All its Tensors, in order."""

    @property
    def interior(self) -> Sequence[Tensor]:
        """Those that are no leaves."""

    @property
    def _tree(self) -> Any:
        """The nest of the outputs, if a function returned them."""


P = TypeVar("P", bound=Program)


class NodePlace(NamedTuple):
    """Which of the nodes of the program is meant."""

    position: int


class PlacedLength(dims.Atom):
    """The length of an axis of a node, by its place."""

    __slots__ = ("axis", "part", "place")

    def __init__(self, place: int, axis: int, part: int | None) -> None:
        self.place, self.axis, self.part = place, axis, part
        self.key = (3, place, axis, -1 if part is None else part)

    def __reduce__(self) -> tuple[Any, ...]:
        return PlacedLength, (self.place, self.axis, self.part)


class NodeForm(NamedTuple):
    """The contents of a node, apart from its operands."""

    #: None of a leaf.
    op: Op | None
    params: dict[str, Any]
    spec: Any
    name: str | None
    site: sites.Site | None
    scope: str | None
    is_masked: bool
    arity: int
    #: Where it comes from, without nodes, if it is one of a gradient.
    origin: Any
    #: Its spec holds lengths that are known only when the program runs.
    has_dim: bool


def reduce_graph(graph: Program) -> tuple[Any, ...]:
    """Return the arguments of `Graph.__reduce__`.

    The values of nodes stay at home; what depends on no leaf is a constant.

    Raises
    ------
    TypeError
        For what does not travel: a shared value, a symbol that is no input, an op that
        a function has made in passing.
    """
    writer = _GraphPacker(graph)
    for node in writer.nodes:
        writer.write(node)
    outputs = [*map(writer.refer, graph.outputs)]
    where = [writer.places[x.serial] for x in graph.leaves]
    return build_graph, (
        type(graph), writer.forms, writer.constants, np.array(writer.numbers, np.int64),
        writer.notes, where, len(graph.captures), outputs, graph._tree,
    )  # fmt: skip


class _GraphPacker:
    """Gathers the pickled parts of a graph."""

    def __init__(self, graph: Program) -> None:
        self.leaves = {x.serial for x in graph.leaves}
        varying = walk.find_dependents(graph.nodes, graph.leaves)
        self.nodes = [x for x in graph.nodes if x.serial in varying or x._value is None]
        self.places = {x.serial: i for i, x in enumerate(self.nodes)}
        self.forms: list[NodeForm] = []
        self.constants: list[Any] = []
        #: For each node its form, its operands (-1 for the first constant, -2 for the
        #: second, ...), and in a gradient the place of its forward node.
        self.numbers: list[int] = []
        #: What few nodes have: origins that tell of more nodes.
        self.notes: list[tuple[int, Any]] = []
        self._of_form: dict[Any, int] = {}
        self._of_constant: dict[Any, int] = {}
        self._sites: dict[Any, sites.Site | None] = {}

    def refer(self, x: Any) -> int:
        """Return the place of a node, or the negative number of a constant."""
        if isinstance(x, Tensor):
            place = self.places.get(x.serial)
            if place is not None:
                return place
            value = value_of(x)
            x = x if value is None else value  # a Tensor refuses, and says why
        key = find_memory(x)
        number = self._of_constant.get(key)
        if number is None:
            self.constants.append(x)  # and so no other has its memory
            number = self._of_constant[key] = -len(self.constants)
        return number

    def write(self, node: Tensor) -> None:
        """Add a node."""
        is_leaf = node.serial in self.leaves
        inputs = () if is_leaf else node.inputs
        if not is_leaf and node.op is IDENTITY and not inputs:
            node.__reduce__()  # a symbol or shared value from outside: it says why not
        origin = node.origin
        spec = types.spec_of(node)
        has_dim = dims.has_dim(spec if isinstance(spec, tuple) else spec.shape)
        line = sites.instruction_of(node)
        params = None if is_leaf or not node.params else node.params
        rule = origin and (origin.rule, origin.overridden)
        key = (
            None if is_leaf else node.op, id(params), node.serial if has_dim else spec,
            node.name, line, node.scope, type(node), len(inputs), rule,
        )  # fmt: skip
        form = self._of_form.get(key)
        if form is None:
            form = self._of_form[key] = len(self.forms)
            if line not in self._sites:
                self._sites[line] = sites.decode(*line)
            self.forms.append(
                NodeForm(
                    None if is_leaf else node.op,
                    params or {},
                    _replace_in_specs(spec, self._place) if has_dim else spec,
                    node.name,
                    self._sites[line],
                    node.scope,
                    isinstance(node, MaskedTensor),
                    len(inputs),
                    origin and origin._replace(forward=None, of=()),
                    has_dim,
                )
            )
        self.numbers.append(form)
        self.numbers += map(self.refer, inputs)
        if origin is not None:
            place = self.places.get(origin.forward.serial, -1)
            self.numbers.append(place)
            if place < 0 or origin.of:
                origin = origin._replace(
                    forward=None if place >= 0 else NodeText(origin.forward),
                    of=tuple(map(self._tell, origin.of)),
                )
            else:
                origin = None
        if origin is not None:
            self.notes.append((self.places[node.serial], origin))

    def _tell(self, x: Tensor) -> Any:
        place = self.places.get(x.serial)
        return NodeText(x) if place is None else NodePlace(place)

    def _place(self, atom: Any) -> Any:
        if not isinstance(atom, Length):
            return None
        if atom.tensor.serial not in self.places:
            raise TraceError(
                f"this graph cannot be pickled: it needs the length {atom} of a Tensor"
                " outside of it. Make that an input."
            )
        at = PlacedLength(self.places[atom.tensor.serial], atom.axis, atom.part)
        return dim_of_atom(at)


def find_memory(x: Any) -> Any:
    """Return a key of a constant's memory, valid during its lifetime.

    Each ``A.T`` is an object of its own, and the same memory.
    """
    if type(x) is np.ndarray:
        return x.__array_interface__["data"][0], x.shape, x.strides, x.dtype
    return id(x)


def _replace_in_specs(spec: Any, new: Callable[[Any], Any]) -> Any:
    """Return a spec, or those of several outputs, with other lengths."""
    if isinstance(spec, Spec):
        return Spec(dims.replace_dims(spec.shape, new), spec.dtype, spec.weak)
    return tuple([_replace_in_specs(s, new) for s in spec])


def build_graph(
    kind: Callable[..., P],
    forms: Sequence[NodeForm],
    constants: Sequence[Any],
    numbers: Any,
    notes: Sequence[tuple[int, Any]],
    where: Sequence[int],
    captures: int,
    outputs: Sequence[int],
    tree: Any,
) -> P:
    """Return the graph from the parts that `reduce_graph` made."""
    flat: list[int] = numbers.tolist()
    nodes: list[Tensor] = []
    symbolic: list[Tensor] = []

    def find(i: int) -> Any:
        return nodes[i] if i >= 0 else constants[~i]

    def length(atom: Any) -> Any:
        if not isinstance(atom, PlacedLength):
            return None
        return dim_of_atom(Length(nodes[atom.place], atom.axis, atom.part))

    at = 0
    contexts = [None if f.scope is None else source.Context(f.scope) for f in forms]
    while at < len(flat):
        form, context = forms[flat[at]], contexts[flat[at]]
        at += 1
        inputs = tuple([find(i) for i in flat[at : at + form.arity]])
        at += form.arity
        node = _build_node(form, inputs, context)
        if form.has_dim:
            symbolic.append(node)
        if form.origin is not None:
            node.origin = form.origin
            if flat[at] >= 0:
                node.origin = form.origin._replace(forward=nodes[flat[at]])
            at += 1
        nodes.append(node)
    for node in symbolic:
        node.spec = _replace_in_specs(node.spec, length)
    for place, origin in notes:
        node = nodes[place]
        of = [nodes[x.position] if isinstance(x, NodePlace) else x for x in origin.of]
        forward = origin.forward
        if forward is None:
            forward = node.origin.forward
        node.origin = origin._replace(forward=forward, of=tuple(of))
    leaves = [nodes[i] for i in where]
    made = [*map(find, outputs)]
    return kind(leaves[captures:], made, leaves[:captures], tree=tree)


def _build_node(
    form: NodeForm, inputs: tuple[Any, ...], context: source.Context | None
) -> Tensor:
    kind = MaskedTensor if form.is_masked else Tensor
    args = tuple([None if isinstance(x, Tensor) else x for x in inputs])
    code: Any = form.site  # `sites.decode` hands it on
    op = form.op or IDENTITY
    node = kind(op, inputs, args, form.params, None, code, -1, context)
    node.spec = form.spec
    if form.name is not None:
        node.name = form.name
    return node


# What a decorator makes of a function


def find_own_name(x: Any) -> str | None:
    """Return the name by which pickle finds the product of a decorator.

    None where the name does not lead there, and for cloudpickle in a notebook, whose
    names no other process knows: it is sent by what it holds. Called by `__reduce__`.
    """
    home, name = getattr(x, "__module__", None), getattr(x, "__qualname__", "")
    pickler = str(sys._getframe(2).f_globals.get("__name__"))
    if home == "__main__" and pickler.partition(".")[0] == "cloudpickle":
        return None
    found: Any = sys.modules.get(home or "")
    for part in name.split("."):
        found = getattr(found, part, None)
    return name if found is x else None


# Large constants


def lift_constants(graph: P, least: int = LARGE) -> tuple[P, list[Any]]:
    """Return a graph with its large constants as captures, and these, each once.

    They come after the captures that it has. Who sends the program to many places
    sends them once to each; and a backend computes with one array where each step of a
    loop had a view of it for itself.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> A = np.ones((100, 100))
    >>> graph = wb.trace(lambda x: A.T @ (A.T @ x))(wb.Spec((100,), float))
    >>> lifted, constants = lift_constants(graph)
    >>> len(lifted.captures), [x.shape for x in constants]
    (1, [(100, 100)])
    """
    found: dict[Any, tuple[Tensor, Any]] = {}
    new: dict[int, Any] = {}
    varying = walk.find_dependents(graph.nodes, graph.leaves)

    def lift(x: Any) -> Any:
        if isinstance(x, Tensor):
            if x.serial in new:
                return new[x.serial]
            if x.serial in varying or x._value is None:
                return x
            x = x._value
        if type(x) is not np.ndarray or x.nbytes < least:
            return x
        key = find_memory(x)
        if key not in found:
            leaf = make_leaf(None, f"constant{len(found)}", line=(None, -1))
            leaf.spec = types.spec_of(x)
            found[key] = leaf, x
        return found[key][0]

    for node in graph.interior:
        if node.serial not in varying:
            continue
        inputs = tuple(map(lift, node.inputs))
        if all(a is b for a, b in zip(inputs, node.inputs, strict=True)):
            continue
        args = tuple([None if isinstance(x, Tensor) else x for x in inputs])
        new[node.serial] = copy = walk.copy_node(node, inputs, args, None)
        if node.origin is not None:
            forward = new.get(node.origin.forward.serial, node.origin.forward)
            copy.origin = node.origin._replace(forward=forward)
    outputs = [*map(lift, graph.outputs)]
    leaves = [leaf for leaf, _ in found.values()]
    captures = [*graph.captures, *leaves]
    make: Callable[..., P] = type(graph)
    made = make(graph.inputs, outputs, captures, tree=graph._tree)
    return made, [x for _, x in found.values()]


# A node that is known by its text alone


class NodeText:
    """A node in pickled data, restored as a separate Tensor.

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
    """Return a Tensor from the text that `NodeText` gave."""
    inputs = tuple([build_text(x) for x in operands])
    name, spec, label, site, scope = told
    op = OPS.get(name) or Op(name)
    form = NodeForm(op, {}, spec, label, site, scope, False, len(inputs), None, False)
    context = None if scope is None else source.Context(scope)
    node = _build_node(form, inputs, context)
    if origin is not None:
        node.origin = origin
    return node
