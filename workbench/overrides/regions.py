"""`Region`: a part of a program as one step of a sweep, with its true derivatives.

What a pattern matches, and what is cut out by hand, is a region: the values it
takes, the nodes that compute with them, and what comes out. Its derivatives are those
of its nodes, one after the other, on the values that these had in the run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

from workbench.autodiff import forward, reverse
from workbench.autodiff.steps import Part, Rules, graphs_of, inner_rules
from workbench.core import types
from workbench.core.graph import Graph
from workbench.core.op import Op
from workbench.core.tensor import NO_PARAMS, Tensor, apply, value_of

Params = dict[str, Any]
#: A node, and for each of its inputs where it comes from: an input of the region, or
#: (counted on from these) an earlier step; -1 for a constant.
Step = tuple[Tensor, tuple[int, ...]]
#: A step in one run: its node where it is recorded, its value, and what went in.
Ran = tuple[Tensor | None, Any, tuple[Any, ...]]


class Region(Part):
    """A part of a program, and its true rule, whatever holds at its nodes.

    Parameters
    ----------
    name
        What its rule reads as ``node.op.name``.
    inputs
        What comes in: Tensors, or constants that stand in the program.
    names
        What they are called, one each.
    steps
        The nodes, each after those it reads. A node may stand there twice, where a
        pattern says the same thing twice.
    outputs
        The Tensors that come out.
    places
        The step that computes each of them.
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
        name: str,
        inputs: Sequence[Any],
        names: Sequence[str],
        steps: Sequence[Step],
        outputs: Sequence[Tensor],
        places: Sequence[int],
        *,
        strays: Sequence[int] = (),
        strict: bool = False,
        settings: Params | None = None,
        unclear: str = "",
    ) -> None:
        first = min(outputs, key=lambda x: x.serial)
        values = tuple([x._value for x in outputs])
        value: Any = values[0] if len(values) == 1 else values
        super().__init__(
            Op(name),
            tuple(inputs),
            tuple(map(value_of, inputs)),
            dict(settings or NO_PARAMS),
            None if any(v is None for v in values) else value,
            first.code,
            first.lasti,
            first.context,
        )
        self.serial = first.serial
        self.name = first.name if len(values) == 1 else None
        if len(values) > 1:
            self.spec = tuple(map(types.spec_of, outputs))  # type: ignore[assignment]
        elif value is None:
            self.spec = first.spec
        self.op.compute = self._compute
        self.op.pull = self.pull
        self.op.push = self.push
        self.op.graphs = self._graphs
        self.op.rule = "the rules of the ops inside"
        self.op.reads = None
        self.op.custom = True
        self.names = tuple(names)
        self.steps = tuple(steps)
        self.outputs = tuple(outputs)
        self.places = tuple(places)
        self.strays = frozenset(strays)
        self.strict = strict
        self.unclear = unclear
        self.text = f"the subgraph {name!r}"
        ends = {x.serial for x in outputs}
        self.inside = frozenset(node.serial for node, _ in steps) - ends
        count = len(self.inputs)
        read = {s - count for _, sources in steps for s in sources if s >= count}
        self.passed = frozenset(self.steps[i][0].serial for i in read) & ends

    @cached_property
    def covered(self) -> list[Tensor]:
        """Its nodes, once each, in the order of the program."""
        found = {node.serial: node for node, _ in self.steps}
        return [found[serial] for serial in sorted(found)]

    def moved(self, new: Callable[[Tensor], Any]) -> Region:
        """Return the same part of a copy of the program.

        ``new`` gives the Tensor that has taken a node's place, or an array where the
        node is a constant of the copy, or the node itself.
        """

        def node_of(x: Tensor) -> Tensor:
            found = new(x)
            return found if isinstance(found, Tensor) else x

        return Region(
            self.op.name,
            [new(x) if isinstance(x, Tensor) else x for x in self.inputs],
            self.names,
            [(node_of(node), sources) for node, sources in self.steps],
            [node_of(x) for x in self.outputs],
            self.places,
            strays=[*self.strays],
            strict=False,
            settings=self.params,
        )

    def _graphs(self, inputs: Sequence[Any], params: Params) -> list[Graph]:
        """Return the programs that its nodes hold."""
        return [graph for node in self.covered for graph in graphs_of(node)]

    # What it computes

    def _compute(self, *inputs: Any, **params: Any) -> Any:
        ran = self._again(inputs)
        made = tuple(ran[place][1] for place in self.places)
        return made if len(made) > 1 else made[0]

    def _again(self, inputs: Sequence[Any]) -> list[Ran]:
        """Run its steps on other inputs, arrays or Tensors."""
        values: list[Any] = list(inputs)
        ran: list[Ran] = []
        for node, sources in self.steps:
            operands = tuple(
                [
                    values[s] if s >= 0 else x if value_of(x) is None else value_of(x)
                    for s, x in zip(sources, node.inputs, strict=True)
                ]
            )
            y = apply(node.op, operands, node.params)
            values.append(y)
            ran.append((y if isinstance(y, Tensor) else None, y, operands))
        return ran

    def _run(self, y: Any, inputs: Sequence[Any]) -> list[Ran]:
        """Return its steps as they ran in the program; run them on other values."""
        first = y[0] if isinstance(y, tuple) and len(self.outputs) > 1 else y
        if first is self.outputs[0]:
            return [(node, node, node.inputs) for node, _ in self.steps]
        if first is self.outputs[0]._value:
            return [(None, node._value, node.args) for node, _ in self.steps]
        return self._again(inputs)

    # Its derivatives

    def pull(
        self,
        mask: int,
        g: Any,
        y: Any,
        inputs: tuple[Any, ...],
        params: Params,
        rules: Rules | None = None,
    ) -> list[Any]:
        """Return what its nodes pass on: one cotangent, or None, for each input."""
        count = len(self.inputs)
        arrived: list[Any] = [None] * (count + len(self.steps))
        parts = g if len(self.outputs) > 1 else (g,)
        for place, c in zip(self.places, parts, strict=True):
            if c is not None:
                old = arrived[count + place]
                arrived[count + place] = c if old is None else old + c
        varies = [bool(mask >> i & 1) for i in range(count)]
        masks = []
        for node, sources in self.steps:
            own = sum(1 << i for i, s in enumerate(sources) if s >= 0 and varies[s])
            varies.append(own != 0 and node.op.pull is not None)
            masks.append(own)
        ran = self._run(y, inputs)
        for j in range(len(self.steps) - 1, -1, -1):
            (node, sources), c = self.steps[j], arrived[count + j]
            if c is None or not varies[count + j]:
                continue
            tensor, value, operands = ran[j]
            rule = node.op.pull
            assert rule is not None
            if tensor is not None:
                rule = tensor.op.pull  # that of the masked op, say, where it is new
                inner = inner_rules(tensor.op, rules)
                passed = reverse.record_pull(rule, masks[j], c, tensor, *inner)
            else:
                inner = inner_rules(node.op, rules)
                passed = rule(masks[j], c, value, operands, node.params, *inner)
            for i, part in enumerate(passed):
                if part is not None and masks[j] >> i & 1:
                    whose = node.inputs[i] if operands is node.args else operands[i]
                    part = reverse.fit(part, whose, node)
                    old = arrived[sources[i]]
                    arrived[sources[i]] = part if old is None else old + part
        return arrived[:count]

    def push(
        self,
        tangents: tuple[Any, ...],
        y: Any,
        inputs: tuple[Any, ...],
        params: Params,
        rules: Rules | None = None,
    ) -> Any:
        """Return the tangent of what comes out; a tuple for several outputs."""
        moving: list[Any] = list(tangents)
        ran = self._run(y, inputs)
        for (node, sources), (tensor, value, operands) in zip(
            self.steps, ran, strict=True
        ):
            incoming = tuple([moving[s] if s >= 0 else None for s in sources])
            t = None
            op = node.op if tensor is None else tensor.op
            rule = forward.push_of(op)
            if rule and any(c is not None for c in incoming):
                inner = inner_rules(op, rules)
                if tensor is not None:
                    t = forward.record_push(rule, incoming, tensor, *inner)
                else:
                    t = rule(incoming, value, operands, node.params, *inner)
                if t is not None and not isinstance(t, tuple):
                    t = forward.fit_tangent(t, value)
            moving.append(t)
        count = len(self.inputs)
        made = tuple(moving[count + place] for place in self.places)
        return made if len(made) > 1 else made[0]
