"""`Region`: a part of a program as one step of a sweep, with its true derivatives.

What a pattern matches, and what is cut out by hand, is a region: the values it
takes, the nodes that compute with them, and what comes out. Its derivatives are those
of its nodes, on the values that these had in the run, by the sweeps of any program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, lru_cache
from itertools import zip_longest
from typing import Any, NamedTuple

from workbench.autodiff import forward, reverse
from workbench.autodiff.call import Call
from workbench.autodiff.steps import Part, Rules, graphs_of
from workbench.core import traces, types
from workbench.core.graph import Graph
from workbench.core.tensor import NO_PARAMS, Tensor, apply, array_of, value_of
from workbench.core.traces import reopen_trace
from workbench.core.types import Params

#: For each input of a step where it comes from: an input of the region, or (counted on
#: from these) an earlier step; -1 for a constant.
Sources = tuple[tuple[int, ...], ...]


class RegionLayout(NamedTuple):
    """The layout of regions of one structure; all places of a pattern share one.

    Attributes
    ----------
    name
        What a rule reads as ``node.op.name``.
    names
        What the inputs are called, one each.
    sources
        The steps, each after those it reads, by what they read.
    places
        The step that computes each of the outputs.
    """

    name: str
    names: tuple[str, ...]
    sources: Sources
    places: tuple[int, ...]

    @property
    def first_reads(self) -> tuple[tuple[int, int] | None, ...]:
        """For each input its first reading step, and the operand there."""
        return find_first_reads(self.sources, len(self.names))


@lru_cache(maxsize=256)
def find_first_reads(
    sources: Sources, count: int
) -> tuple[tuple[int, int] | None, ...]:
    """Return for each input of a layout its first reading step and operand."""
    found: dict[int, tuple[int, int]] = {}
    for k, reads in enumerate(sources):
        for i, s in enumerate(reads):
            found.setdefault(s, (k, i))
    return tuple([found.get(s) for s in range(count)])


@lru_cache(maxsize=256)
def find_masks(
    sources: Sources, moves: tuple[int, ...], count: int, mask: int
) -> tuple[int, ...]:
    """Return which operands of each step vary, if these of the ``count`` inputs do.

    ``moves`` tells by which operands each step has a derivative, as a bitmask.
    """
    varying = [bool(mask >> i & 1) for i in range(count)]
    masks: list[int] = []
    for reads, moving in zip(sources, moves, strict=True):
        own = sum(1 << i for i, s in enumerate(reads) if s >= 0 and varying[s])
        masks.append(own & moving)
        varying.append(bool(masks[-1]))
    return tuple(masks)


class Region(Part):
    """A part of a program, and its true rule, whatever holds at its nodes.

    Parameters
    ----------
    layout
        Its structure.
    inputs
        What comes in: Tensors, or constants that stand in the program.
    made
        The node of each step. One may stand there twice, where a pattern says the same
        thing twice.
    outputs
        The Tensors that come out.
    strays
        The serials of other Tensors that are read: constants of the region.
    strict
        Whether a derivative by what lies inside or is read besides is an error.
    settings
        What its rule reads as ``node.params``.
    unclear
        That it can be read in two ways, and what to do; empty if it is clear.
    """

    def __init__(
        self,
        layout: RegionLayout,
        inputs: Sequence[Any],
        made: Sequence[Tensor],
        outputs: Sequence[Tensor],
        *,
        strays: Sequence[int] = (),
        strict: bool = False,
        settings: Params | None = None,
        unclear: str = "",
    ) -> None:
        first = outputs[0]
        value: Any = first._value
        if len(outputs) > 1:
            first = min(outputs, key=lambda x: x.serial)
            value = tuple([x._value for x in outputs])
            if any(v is None for v in value):
                value = None
        self.layout = layout
        # The call of what its nodes compute, whose values are those of the run.
        op = self.call = Call(layout.name, run=self._run)
        op.single, op.custom = len(outputs) == 1, True
        op.rule = "the rules of the ops inside"
        op.pull, op.push, op.graphs = self.pull, self.push, self._graphs
        super().__init__(
            op,
            tuple(inputs),
            tuple(map(value_of, inputs)),
            NO_PARAMS if settings is None else dict(settings),
            value,
            first.code,
            first.lasti,
            first.context,
        )
        self.serial = first.serial
        self.name = first.name if len(outputs) == 1 else None
        if len(outputs) > 1:
            self.spec = tuple(map(types.spec_of, outputs))  # type: ignore[assignment]
        elif value is None:
            self.spec = first.spec
        self.made = tuple(made)
        self.outputs = tuple(outputs)
        self.strays = frozenset(strays)
        self.strict = strict
        self.unclear = unclear
        ends = [x.serial for x in outputs]
        self.inside = frozenset([x.serial for x in made if x.serial not in ends])

    @property
    def names(self) -> tuple[str, ...]:  # type: ignore[override]
        """The names of the inputs, one each."""
        return self.layout.names

    @property
    def text(self) -> str:  # type: ignore[override]
        """The name of the region in an error."""
        return f"the subgraph {self.layout.name!r}"

    @property
    def passed(self) -> frozenset[int]:  # type: ignore[override]
        """The serials of the outputs that other nodes of the region read."""
        if len(self.outputs) == 1:
            return frozenset()  # all of it is computed before
        count = len(self.inputs)
        read = {s - count for sources in self.layout.sources for s in sources}
        ends = {x.serial for x in self.outputs}
        return frozenset([self.made[i].serial for i in read if i >= 0]) & ends

    @property
    def steps(self) -> Iterator[tuple[Tensor, tuple[int, ...]]]:
        """The nodes in order, each with where its inputs come from."""
        return zip(self.made, self.layout.sources, strict=True)

    @cached_property
    def nodes(self) -> list[Tensor]:
        """Its nodes, once each, in the order of the program."""
        found = {node.serial: node for node in self.made}
        return [found[serial] for serial in sorted(found)]

    def rebuild(self, new: Callable[[Tensor], Any]) -> Region:
        """Return this part in a copy of the program.

        ``new`` gives the Tensor that has taken a node's place, or an array where the
        node is a constant of the copy, or the node itself.
        """

        def node_of(x: Tensor) -> Tensor:
            found = new(x)
            return found if isinstance(found, Tensor) else x

        return Region(
            self.layout,
            [new(x) if isinstance(x, Tensor) else x for x in self.inputs],
            list(map(node_of, self.made)),
            list(map(node_of, self.outputs)),
            strays=[*self.strays],
            strict=False,
            settings=self.params,
        )

    # What it computes

    def _graphs(self, inputs: Sequence[Any], params: Params) -> list[Graph]:
        """Return the graphs that its nodes hold."""
        return [graph for node in self.nodes for graph in graphs_of(node)]

    def _run(self, inputs: Sequence[Any], **settings: Any) -> list[Any]:
        """Return its outputs for other inputs, arrays or Tensors."""
        values: list[Any] = list(inputs)
        for node, sources in self.steps:
            given = [
                values[s] if s >= 0 else array_of(x)
                for s, x in zip_longest(sources, node.inputs, fillvalue=-1)
            ]
            values.append(apply(node.op, tuple(given), node.params))
        return [values[len(inputs) + place] for place in self.layout.places]

    # Its derivatives: those of its own nodes, where these are the values of the run.

    @cached_property
    def sweep_nodes(self) -> dict[int, Tensor] | None:
        """The nodes that a sweep over the region visits, by their serials.

        None if they are not joined as its steps say: where one Tensor stands at two
        inputs, or a step reads another form of what comes in. A node that makes an
        array of a Python number on the way is one of them.
        """
        count = len(self.inputs)
        input_serials = [x.serial for x in self.inputs if isinstance(x, Tensor)]
        if len(set(input_serials)) < len(input_serials):
            return None
        nodes = {node.serial: node for node in self.made}
        ends = {*input_serials, *nodes}
        for node, sources in self.steps:
            for x, s in zip(node.operands, sources, strict=False):
                if s < 0:
                    if isinstance(x, Tensor) and x.serial in ends:
                        return None
                    continue
                source = self.inputs[s] if s < count else self.made[s - count]
                while x is not source:
                    if not isinstance(x, Tensor) or len(x.inputs) != 1:
                        return None
                    nodes[x.serial] = x
                    x = x.inputs[0]
        return nodes

    @cached_property
    def moves(self) -> tuple[int, ...] | None:
        """For each step, the operands by which its op has a derivative, as a bitmask.

        None if the nodes are not joined just as its steps say, or not in the order of
        the program, or hold programs; then a sweep over them must be planned.
        """
        tensors = [x.serial for x in self.inputs if isinstance(x, Tensor)]
        ends = set(tensors)
        if len(ends) < len(tensors):
            return None  # one Tensor stands at two inputs
        last = -1
        made: list[Any] = [*self.inputs]
        moves: list[int] = []
        for node, sources in self.steps:
            serial, op = node.serial, node.op
            if serial <= last or op.graphs is not None or type(node) is not Tensor:
                return None
            last = serial
            for x, s in zip(node.operands, sources, strict=False):
                if s < 0:
                    if isinstance(x, Tensor) and x.serial in ends:
                        return None
                elif made[s] is not x:
                    return None
            ends.add(serial)
            made.append(node)
            moves.append(0 if op.pull is None else (1 << len(node.operands)) - 1)
        return tuple(moves)

    def _sweep_options(
        self, y: Any, chosen: Sequence[int], rules: Rules
    ) -> dict[str, Any] | None:
        """Return how to sweep its own nodes; None if ``y`` is none of their values.

        Nor can they tell what goes to a constant of the program, or to which of two
        inputs that are one Tensor.
        """
        first = y[0] if isinstance(y, tuple) and len(self.outputs) > 1 else y
        recorded = first is self.outputs[0]
        ran = recorded or (first is not None and first is self.outputs[0]._value)
        are_tensors = all(isinstance(self.inputs[i], Tensor) for i in chosen)
        nodes = self.sweep_nodes
        if nodes is None or not (ran and are_tensors):
            return None
        inner = self._choose_inner(rules)
        if inner:
            inner = {s: r for s, r in inner.items()
                     if s not in nodes and not isinstance(r.node, Part)}  # fmt: skip
        return {
            "rules": inner, "record": recorded, "only": nodes, "nulls_pass": True
        }  # fmt: skip

    def _choose_inner(self, rules: Rules) -> Rules:
        """Return the rules of a sweep that may be for nodes inside its own nodes.

        None if these hold no programs: a sweep has as many rules as regions.
        """
        holds = any(node.op.graphs is not None for node in self.made)
        return rules if holds else None

    def pull(
        self,
        mask: int,
        g: Any,
        y: Any,
        inputs: tuple[Any, ...],
        params: Params,
        rules: Rules = None,
    ) -> list[Any]:
        """Return the cotangents of the region: one, or None, for each input."""
        chosen = [i for i in range(len(inputs)) if mask >> i & 1]
        parts = g if len(self.outputs) > 1 else (g,)
        ran = y is not None and y is self._value
        moves = self.moves if ran and not traces.WRITTEN[0] else None
        wrt = [self.inputs[i] for i in chosen]
        if moves is not None and all(isinstance(x, Tensor) for x in wrt):
            masks = find_masks(self.layout.sources, moves, len(inputs), mask)
            steps = [(x, m) for x, m in zip(self.made, masks, strict=True) if m]
            made = reverse.pull_back(
                self.outputs, parts, wrt, only={}, steps=steps, nulls_pass=True
            )
        elif (options := self._sweep_options(y, chosen, rules)) is None:
            inner = self._choose_inner(rules)
            with reopen_trace(inputs):
                return self.call.pull_recorded(mask, g, y, inputs, params, inner)
        else:
            made = reverse.pull_back(self.outputs, parts, wrt, **options)
        passed: list[Any] = [None] * len(inputs)
        for i, c in zip(chosen, made, strict=True):
            passed[i] = c
        return passed

    def push(
        self,
        tangents: tuple[Any, ...],
        y: Any,
        inputs: tuple[Any, ...],
        params: Params,
        rules: Rules = None,
    ) -> Any:
        """Return the tangent of the output; a tuple for several outputs."""
        chosen = [i for i, t in enumerate(tangents) if t is not None]
        options = self._sweep_options(y, chosen, rules)
        if options is None:
            inner = self._choose_inner(rules)
            with reopen_trace(inputs):
                return self.call.push_recorded(tangents, y, inputs, params, inner)
        wrt, moving = ([of[i] for i in chosen] for of in (self.inputs, tangents))
        made = forward.push_forward(self.outputs, wrt, moving, **options)
        return tuple(made) if len(made) > 1 else made[0]
