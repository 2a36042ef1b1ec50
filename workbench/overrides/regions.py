"""`Region`: a part of a program as one node, with its true derivatives.

What a pattern matches, and what is cut out by hand, is a region: the values it
takes, the nodes that compute with them, and what comes out. Its derivatives are those
of its nodes, one after the other, on the values that these had in the run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

from workbench.autodiff import forward, reverse
from workbench.autodiff.steps import Passing, StandIn
from workbench.core import types
from workbench.core.op import Op
from workbench.core.tensor import NO_PARAMS, Tensor, apply, value_of
from workbench.ops import define

Params = dict[str, Any]
#: A node, and for each of its inputs where it comes from: an input of the region, or
#: (counted on from these) an earlier step; -1 for a constant.
Step = tuple[Tensor, tuple[int, ...]]
#: A step in one run: its node where it is recorded, its value, and what went in.
Ran = tuple[Tensor | None, Any, tuple[Any, ...]]


class Region:
    """A part of a program.

    Attributes
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
        self.name = name
        self.inputs = tuple(inputs)
        self.names = tuple(names)
        self.steps = tuple(steps)
        self.outputs = tuple(outputs)
        self.places = tuple(places)
        self.strays = frozenset(strays)
        self.strict = strict
        self.settings = dict(settings or NO_PARAMS)
        self.unclear = unclear

    @cached_property
    def covered(self) -> list[Tensor]:
        """Its nodes, once each, in the order of the program."""
        found = {node.serial: node for node, _ in self.steps}
        return [found[serial] for serial in sorted(found)]

    @cached_property
    def inside(self) -> frozenset[int]:
        """The serials of its nodes, without those that come out."""
        ends = {x.serial for x in self.outputs}
        return frozenset(node.serial for node, _ in self.steps) - ends

    @property
    def text(self) -> str:
        """What an error calls it."""
        return f"the subgraph {self.name!r}"

    def moved(self, new: Callable[[Tensor], Any]) -> Region:
        """The same part of a copy of the program.

        ``new`` gives the Tensor that has taken a node's place, or an array where the
        node is a constant of the copy, or the node itself.
        """

        def node_of(x: Tensor) -> Tensor:
            found = new(x)
            return found if isinstance(found, Tensor) else x

        return Region(
            self.name,
            [new(x) if isinstance(x, Tensor) else x for x in self.inputs],
            self.names,
            [(node_of(node), sources) for node, sources in self.steps],
            [node_of(x) for x in self.outputs],
            self.places,
            strays=[*self.strays],
            strict=False,
            settings=self.settings,
        )

    # As a node

    def stand_ins(self) -> list[StandIn]:
        """The nodes that a sweep walks over in its place: one for each output.

        Of several outputs each takes its share of one stand-in for the whole.
        """
        if len(self.outputs) == 1:
            (end,) = self.outputs
            made = self._like(end, self.op, self.inputs, end._value)
            made.shown = end
            return [made]
        first = min(self.outputs, key=lambda x: x.serial)
        values = tuple(x._value for x in self.outputs)
        known = all(v is not None for v in values)
        whole = self._like(first, self.op, self.inputs, values if known else None)
        # Before all of its outputs and after all of its inputs, as every node.
        whole.serial = first.serial - 0.5  # type: ignore[assignment]
        whole.spec = tuple(map(types.spec_of, self.outputs))  # type: ignore[assignment]
        whole.shown = self.outputs
        whole.name = None
        shares = []
        for i, x in enumerate(self.outputs):
            share = self._like(x, define.ITEM, (whole,), x._value)
            share.params = {"index": i}
            share.shown = x
            shares.append(share)
        return shares

    def _like(self, x: Tensor, op: Op, inputs: tuple[Any, ...], value: Any) -> StandIn:
        args = tuple(map(value_of, inputs))
        params = self.settings if op is self.op else NO_PARAMS
        made = StandIn(op, inputs, args, params, value, x.code, x.lasti, x.context)
        made.serial = x.serial
        made.region = self
        made.name = x.name
        if value is None:
            made.spec = x.spec
        return made

    @cached_property
    def op(self) -> Op:
        """The op of its stand-in."""
        made = Op(self.name)
        made.compute = self._compute
        made.pull = self.pull
        made.push = self.push
        made.rule = "the rules of the ops inside"
        made.reads = None
        made.custom = True
        return made

    # What it computes

    def _compute(self, *inputs: Any, **params: Any) -> Any:
        ran = self._again(inputs)
        made = tuple(ran[place][1] for place in self.places)
        return made if len(made) > 1 else made[0]

    def _again(self, inputs: Sequence[Any]) -> list[Ran]:
        """Its steps on other inputs, arrays or Tensors."""
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
        """Its steps as they ran in the program; again, if these are other values."""
        first = y[0] if isinstance(y, tuple) and len(self.outputs) > 1 else y
        if first is self.outputs[0]:
            return [(node, node, node.inputs) for node, _ in self.steps]
        if first is self.outputs[0]._value:
            return [(None, node._value, node.args) for node, _ in self.steps]
        return self._again(inputs)

    # Its derivatives

    def pull(
        self, mask: int, g: Any, y: Any, inputs: tuple[Any, ...], params: Params
    ) -> list[Any]:
        """What its nodes pass on: one cotangent, or None, for each input."""
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
                passed = reverse._recorded(rule, masks[j], c, tensor)
            else:
                passed = rule(masks[j], c, value, operands, node.params)
            for i, part in enumerate(passed):
                if part is not None and masks[j] >> i & 1:
                    whose = node.inputs[i] if operands is node.args else operands[i]
                    part = reverse.fit(part, whose, node)
                    old = arrived[sources[i]]
                    arrived[sources[i]] = part if old is None else old + part
        return arrived[:count]

    def push(
        self, tangents: tuple[Any, ...], y: Any, inputs: tuple[Any, ...], params: Params
    ) -> Any:
        """The tangent of what comes out; a tuple of them for several outputs."""
        moving: list[Any] = list(tangents)
        ran = self._run(y, inputs)
        for (node, sources), (tensor, value, operands) in zip(
            self.steps, ran, strict=True
        ):
            incoming = tuple([moving[s] if s >= 0 else None for s in sources])
            t = None
            op = node.op if tensor is None else tensor.op
            rule = op.push or (op.pull and forward.transposed(op.pull))
            if rule and any(c is not None for c in incoming):
                if tensor is not None:
                    t = forward._recorded(rule, incoming, tensor)
                else:
                    t = rule(incoming, value, operands, node.params)
                if t is not None and not isinstance(t, tuple):
                    held = value_of(value)
                    t = forward.fitted(t, value if held is None else held)
            moving.append(t)
        count = len(self.inputs)
        made = tuple(moving[count + place] for place in self.places)
        return made if len(made) > 1 else made[0]


class TrueRule:
    """The true rule of a whole region, whatever else holds at the nodes inside."""

    __slots__ = ("node",)
    label = "true"

    def __init__(self, node: StandIn) -> None:
        self.node = node

    def __call__(self, *arguments: Any) -> Any:
        """As the op's own, in the mode whose arguments these are."""
        region: Region = self.node.region
        rule: Callable[..., Any] = region.push if len(arguments) == 4 else region.pull
        return rule(*arguments)


def rules_at(node: Tensor, make: Callable[[Tensor], Any]) -> dict[int, Any]:
    """The rules that a sweep needs at one node, by serial.

    ``make`` gives that of an override at a node; None for the true one.
    """
    if type(node) is not StandIn:
        rule = make(node)
        return {} if rule is None else {node.serial: rule}
    if node.op is not define.ITEM:
        rule = make(node)
        return {node.serial: TrueRule(node) if rule is None else rule}
    whole = node.inputs[0]
    return {**rules_at(whole, make), node.serial: Passing(node)}
