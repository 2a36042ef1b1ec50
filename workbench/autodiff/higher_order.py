"""Derivatives and batches of the Graphs that an op holds: steps of loops, branches.

Such a graph has no values: leaves (what comes in) and outputs. Its derivatives are
recorded on the same leaves and on fresh ones for tangents or cotangents, so they
read the values of the step that they belong to, and no value is looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from workbench.autodiff import forward, reverse, steps
from workbench.autodiff.batch import run_batch
from workbench.autodiff.steps import Rules
from workbench.core import blame, dims, types, walk
from workbench.core.dims import Dim, Length, atoms_of, replace_dims
from workbench.core.graph import Graph, copy_onto
from workbench.core.tensor import MaskedTensor, Tensor, mask_cotangent
from workbench.core.trace import make_leaf_like, make_leaves_like
from workbench.core.types import Spec
from workbench.errors import TraceError
from workbench.ops import define
from workbench.ops.define import shape_of


def make_bitmask(places: Iterable[int]) -> int:
    """Return a set of places as a mask."""
    found = 0
    for i in places:
        found |= 1 << i
    return found


def smooth_reads(graph: Graph, rules: Rules, mode: steps.Mode) -> Sequence[int]:
    """Return for each output a mask of the leaves that reach the output by derivatives.

    An override may give a derivative to a node whose op has none.
    """
    rough = [x for x in graph.interior if x.op.pull is None]
    given = {x.serial for x in rough if steps.is_ruled(x.serial, rules, mode)}
    return graph.depends({x.serial for x in rough} - given)


def detach_leaves(graph: Graph) -> Graph:
    """Return the same, on leaves of its own where they are results of other leaves.

    A value that comes from outside is no longer what the step computes: nothing
    must flow through it to its operands.
    """
    if not knows_lengths(graph):
        leaves = make_leaves_like(graph.leaves)
        return Graph(leaves, graph.run(leaves))
    fresh = {x: make_leaf_like(x, x.name) for x in graph.leaves if x.inputs}
    return copy_onto(graph, fresh) if fresh else graph


def needed_values(graph: Graph) -> set[int]:
    """Return the serials of those values that reverse mode reads, or may read.

    What is read and is no output must be computed again, from its operands.
    """
    emitted = {y.serial for y in graph.outputs if isinstance(y, Tensor)}
    found: set[int] = set()
    for node in reversed(graph.interior):
        inputs = node.inputs
        if node.op.pull is not None:
            found.update(read_values(node))
        if node.serial in found and node.serial not in emitted:
            found.update(x.serial for x in inputs if isinstance(x, Tensor))
    return found


def read_values(node: Tensor) -> set[int]:
    """Return the serials of the values that the reverse rule of a node reads."""
    inputs, reads = node.inputs, node.op.reads
    if reads is None:
        reads = (*range(len(inputs)), "y")
    found = {
        x.serial
        for i in reads
        if isinstance(i, int) and i < len(inputs)
        if isinstance(x := inputs[i], Tensor)
    }
    return found | {node.serial} if "y" in reads else found


def pull_graph(
    graph: Graph,
    arriving: Sequence[int],
    wrt_indices: Sequence[int],
    flags: Collection[int],
    rules: Rules,
) -> tuple[list[Tensor], list[Any]]:
    """Record the cotangents of wanted leaves, from fresh leaves for those that arrive.

    ``arriving`` are outputs; ``flags`` are those of them whose cotangents have
    left a mask. Returns the fresh leaves, and one result (or None) per wanted.
    """
    outputs = [graph.outputs[i] for i in arriving]
    fresh = [name_after(make_leaf_like(y), y) for y in outputs]
    seeds = [
        mask_cotangent(x) if i in flags else x
        for i, x in zip(arriving, fresh, strict=True)
    ]
    wrt = [graph.leaves[i] for i in wrt_indices]
    return fresh, reverse.pull_back(outputs, seeds, wrt, record=True, rules=rules)


def push_graph(
    graph: Graph, moving: Sequence[int], flags: Collection[int], rules: Rules
) -> tuple[list[Tensor], list[Any]]:
    """Record the tangents of all outputs, from fresh leaves for moving leaves."""
    wrt = [graph.leaves[i] for i in moving]
    fresh = [name_after(make_leaf_like(x), x) for x in wrt]
    tangents = [
        mask_cotangent(x) if i in flags else x
        for i, x in zip(moving, fresh, strict=True)
    ]
    made = forward.push_forward(graph.outputs, wrt, tangents, record=True, rules=rules)
    return fresh, made


class Key(NamedTuple):
    """Which derivative of a Graph."""

    #: Reverse mode, or forward mode.
    is_reverse: bool
    #: Bit i says that leaf i varies.
    mask: int
    #: For which outputs a cotangent arrives, or a tangent is asked.
    live_outputs: tuple[bool, ...]


class Derived(NamedTuple):
    """A derivative of a Graph as a Graph, with the places of its arrays."""

    graph: Graph
    #: The places of what it reads, among the leaves and what arrives.
    reads: list[int]
    #: What its outputs are derivatives of.
    places: list[int]

    def scatter(
        self,
        run: Callable[[tuple[Any, ...]], Sequence[Any]],
        inputs: Sequence[Any],
        arriving: Sequence[Any],
        count: int,
    ) -> list[Any]:
        """Return the results of ``run``, at their places in a list of ``count``."""
        passed: list[Any] = [None] * count
        if self.places:
            given = (*inputs, *[c for c in arriving if c is not None])
            made = run(tuple([given[i] for i in self.reads]))
            for i, c in zip(self.places, made, strict=True):
                passed[i] = c
        return passed


def derive(
    graph: Graph, key: Key, rules: Rules = None, flags: Collection[int] = ()
) -> Derived:
    """Record the cotangents of some leaves, or the tangents of the outputs that move.

    It takes those leaves alone that it depends on, so it is seen on which: not on the
    cotangents, if it is linear in them. ``flags`` are the places of those among what
    arrives that have left a mask.
    """
    chosen = [i for i, x in enumerate(graph.leaves) if key.mask >> i & 1]
    if key.is_reverse:
        arriving = [i for i, there in enumerate(key.live_outputs) if there]
        fresh, made = pull_graph(graph, arriving, chosen, flags, rules)
    else:
        fresh, made = push_graph(graph, chosen, flags, rules)
        chosen = list(range(len(made)))
    places = [i for i, c in zip(chosen, made, strict=True) if c is not None]
    outputs = [c for c in made if c is not None]
    leaves = [*graph.leaves, *fresh]
    roots = [y for y in outputs if isinstance(y, Tensor)]
    first = min([x.serial for x in leaves], default=0)
    needed = {x.serial for x in walk.order_nodes(roots, first)}
    # Lengths of the outputs that no axis of what is read has.
    has = {
        n.atom
        for x in leaves
        if x.serial in needed
        for n in shape_of(x)
        if isinstance(n, Dim)
    }
    for y in roots:
        atoms = atoms_of(shape_of(y))
        if not has.issuperset(atoms):
            needed |= {a.tensor.serial for a in atoms if isinstance(a, Length)}
    reads = [i for i, x in enumerate(leaves) if x.serial in needed]
    return Derived(Graph([leaves[i] for i in reads], outputs), reads, places)


def batch_graph(
    graph: Graph, batched: Collection[int], size: Any, spread: Collection[int]
) -> tuple[Graph, list[bool], Any]:
    """Return the graph for many examples: axis 0 of the leaves that are ``batched``.

    The outputs in ``spread`` carry the axis in any case. Returned with it: which
    do, and how many examples there are, as a length of its own leaves.
    """
    leaves = list(graph.leaves)
    for i in batched:
        spec = types.spec_of(leaves[i])
        leaves[i] = make_leaf_like(
            Spec((size, *spec.shape), spec.dtype), leaves[i].name
        )
    if not isinstance(size, int) or not knows_lengths(graph):
        graph, leaves = _with_own_lengths(graph, leaves, batched)
        size = leaves[min(batched)].spec.shape[0] if batched else size
    inner = Graph([graph.leaves[i] for i in batched], graph.outputs)
    outputs = run_batch(inner, [leaves[i] for i in batched], size)
    carried = list(inner.varying)
    for i in spread:
        if not carried[i]:
            y = outputs[i]
            outputs[i] = np.broadcast_to(y, (size, *types.spec_of(y).shape))
            carried[i] = True
    return Graph(leaves, outputs), carried, size


def _with_own_lengths(
    graph: Graph, leaves: Sequence[Tensor], batched: Collection[int]
) -> tuple[Graph, list[Tensor]]:
    """Return the graph of one example, and leaves of the batch with their own lengths.

    All lengths in the graph are those of the leaves of the batch, if possible of one
    that is not ``batched``: what is computed for no example stays as it is, and may
    read no length of a leaf of one example, which goes.
    """
    chosen = {*batched}
    order = sorted(range(len(leaves)), key=lambda i: i in chosen)
    fresh = make_leaves_like([leaves[i] for i in order])
    of = dict(zip(order, fresh, strict=True))
    made = [of[i] for i in range(len(order))]
    examples = list(made)
    for i in batched:
        spec = made[i].spec
        examples[i] = make_leaf_like(Spec(spec.shape[1:], spec.dtype), made[i].name)
    return Graph(examples, graph.run(examples)), made


def knows_lengths(graph: Graph) -> bool:
    """Return whether the shapes of all values of a step are known."""
    specs: list[Any] = []
    for x in (*graph.leaves, *graph.interior):
        parts = define.output_values(x)  # none of an op that gives nothing
        specs += (x,) if parts is None else parts
    return all(isinstance(m, int) for spec in specs for m in shape_of(spec))


def outer_specs(
    graph: Graph,
    inputs: Sequence[Any],
    rows: Collection[int] = (),
) -> list[Spec]:
    """Return the specs of the outputs for these inputs (specs or values).

    ``rows`` are the leaves that stand for one row of their input. A length that the
    graph itself must find out is None.
    """
    specs = list(map(types.spec_of, graph.outputs))
    if not any(dims.has_dim(s.shape) for s in specs):
        return [Spec(s.shape, s.dtype) for s in specs]
    found_lengths: dict[Any, Any] = {}
    for i, (x, value) in enumerate(zip(graph.leaves, inputs, strict=False)):
        shape = shape_of(value)[i in rows :]
        for n, m in zip(x.spec.shape, shape, strict=True):
            if isinstance(n, Dim) and n.atom is not None:
                found_lengths.setdefault(n.atom, m)

    def find_length(n: int | Dim) -> int | Dim | None:
        n = replace_dims(n, found_lengths.get)
        hidden = (isinstance(a, Length) and a.tensor in graph.ids for a in atoms_of(n))
        return None if any(hidden) else n

    return [Spec(tuple(map(find_length, s.shape)), s.dtype) for s in specs]


def is_draw(x: object) -> bool:
    """Return whether a node draws random numbers anew in each run."""
    return (
        isinstance(x, Tensor) and "draw" in x.params and x.op.name.startswith("random_")
    )


def refuse_inner_draws(graph: Graph, name: str) -> None:
    """Refuse a derivative that would run an inner loop once more, and draw anew.

    Raises
    ------
    TraceError
        If a loop or a branch inside the step draws.
    """
    holders = [x for x in graph.interior if x.op.graphs is not None]
    for node in steps.with_inner_nodes(holders)[len(holders) :] if holders else ():
        if is_draw(node):
            raise TraceError(
                f"{blame.describe(node)}{blame.quote_site(node.site)} is drawn by a"
                f" loop or a branch inside a {name}, whose derivative would draw anew."
                " Draw outside, and give the noise as a sequence."
            )


def is_masked(x: object) -> bool:
    """Return whether a cotangent has left a mask."""
    return isinstance(x, MaskedTensor)


class _DerivativeNames:
    """The names of tangents and cotangents, by their primals."""

    def __getitem__(self, x: object) -> str | None:
        name = getattr(x, "name", None)
        return f"d_{name}" if name else None


_NAMES = _DerivativeNames()


def name_after(derivative: Tensor, x: object) -> Tensor:
    """Return a tangent or cotangent that is called after ``x``, if anybody asks."""
    derivative.naming = _NAMES, x
    return derivative
