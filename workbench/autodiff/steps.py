"""The steps of a walk over a program, in the order of both sweeps.

Which nodes it visits and which of their rules are recorded; the parts of the program
that it visits as one step; the programs inside nodes, and the rules
of overrides that reach into them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol

from workbench.core import blame, hooks, traces, types, walk
from workbench.core.deferred import LengthParams
from workbench.core.graph import Graph
from workbench.core.memory import replace_handles
from workbench.core.op import SINGULAR, Op
from workbench.core.tensor import IDENTITY, Tensor
from workbench.core.trace import is_live
from workbench.core.types import Array, Params, Tangent
from workbench.errors import OverrideError, TraceError
from workbench.ops import define
from workbench.ops.define import dtype_of

# Parts: one step in the place of several nodes, for the sweeps alone.
#
# A rule of a pattern or of a cut-out subgraph is that of many nodes at once. A sweep
# that has such a rule walks over the part, whose inputs are those of all its nodes,
# where it would have walked over the nodes at the ends of it. The program itself does
# not change, and a sweep without such rules pays nothing. What a part computes stands
# in `overrides/regions.py`.


class Part(Tensor):
    """Several nodes of a program as one step of a sweep.

    It has the serial of the first of its outputs, so that its place is before all
    that read them and, as its inputs are made earlier, after all that it reads.

    Attributes
    ----------
    names
        What its inputs are called, one each.
    outputs
        The Tensors that come out.
    inside
        The serials of its nodes, without those that come out.
    passed
        The serials of those outputs that other nodes of it read.
    strays
        The serials of other Tensors that are read: constants of the part.
    strict
        Whether a derivative by what lies inside or is read besides is an error.
    text
        What an error calls it.
    """

    names: tuple[str, ...]
    outputs: tuple[Tensor, ...]
    inside: frozenset[int]
    passed: frozenset[int]
    strays: frozenset[int]
    strict: bool
    text: str


class Rule(Protocol):
    """The rule that replaces the rules of the op at a node, or of a part.

    ``pull`` and ``push`` are called as those of an op that holds graphs: the rules of
    the sweep come last, for nodes inside. None: the true one.
    """

    @property
    def node(self) -> Tensor:
        """The node, or the part."""

    @property
    def label(self) -> str:
        """The name of the rule in the provenance of a gradient."""

    @property
    def steps(self) -> int | slice | None:
        """The iterations of the loop around in which the rule holds; None: all."""

    @property
    def otherwise(self) -> Rule | None:
        """The rule for the other iterations; None: the true rules."""

    @property
    def pull(self) -> Callable[..., Any] | None:
        """The rule of reverse mode."""

    @property
    def push(self) -> Callable[..., Any] | None:
        """The rule of forward mode."""


#: Rules that stand in for those of ops, by the serial of the node.
Rules = Mapping[int, Rule] | None


#: The rule of which mode is meant.
Mode = Literal["pull", "push"]


def is_ruled(serial: int, rules: Rules, mode: Mode) -> bool:
    """Return whether a node has another rule in this mode."""
    rule = rules.get(serial) if rules else None
    return rule is not None and getattr(rule, mode) is not None


def parts_among(rules: Mapping[int, Rule]) -> dict[int, Part]:
    """Return the parts that rules are for, by the serials of their outputs."""
    return {s: part for s, rule in rules.items() if isinstance(part := rule.node, Part)}


def outputs_of(node: Tensor) -> Tensor | tuple[Tensor, ...]:
    """Return the node itself, or the tuple of its outputs, as a recorded rule needs."""
    if isinstance(node, Part):
        return node.outputs if len(node.outputs) > 1 else node.outputs[0]
    return define.split_outputs(node)


def ends_of(node: Tensor) -> tuple[Tensor, ...]:
    """Return the Tensors of the user's program that a step of a sweep computes."""
    return node.outputs if isinstance(node, Part) else (node,)


def drop_cut_parts(
    rules: Mapping[int, Rule], wrt: Sequence[Tensor], stopped: Collection[int] = ()
) -> Mapping[int, Rule]:
    """Return rules without the patterns that hide a requested or constant value.

    A derivative by a value inside a match, or one that holds it constant, is of a
    program in which the whole structure does not stand.

    Raises
    ------
    OverrideError
        If a ``wrt`` lies inside a cut-out subgraph, or reaches it past its inputs.
    """
    parts = parts_among(rules)
    if not parts:
        return rules
    by_serial = {x.serial: x for x in wrt}
    cutting = {*by_serial, *stopped}
    dropped: set[int] = set()
    for serial, part in parts.items():
        if part.strict:
            refuse_around(part, by_serial.values())
        if not (cutting.isdisjoint(part.inside) and cutting.isdisjoint(part.passed)):
            dropped.add(serial)
    return (
        {s: rule for s, rule in rules.items() if s not in dropped} if dropped else rules
    )


def refuse_around(part: Part, wrt: Iterable[Tensor]) -> None:
    """Refuse a cut-out subgraph that a ``wrt`` reaches past its inputs."""
    for x in wrt:
        within = x.serial in part.inside or x.serial in part.passed
        if within or x.serial in part.strays:
            how = "lies inside it" if within else "is read in it"
            raise OverrideError(
                f"{part.text}: {blame.describe(x)} {how} and is not among its inputs,"
                " and the gradient by it is asked for. Add it to the inputs of"
                " wb.subgraph(outputs, inputs), or cut the region elsewhere."
            )


# Programs inside nodes: the steps of loops, the branches of a choice.
#
# An override may mean a node in there: the sweep hands all its rules to the rule of the
# op, which differentiates its graphs with them.


def with_inner_nodes(nodes: Sequence[Tensor], ruled: bool = False) -> list[Tensor]:
    """Return nodes, and those inside them, and inside these.

    ``ruled``: those too that no derivative reaches, since the op has a rule of its own.

    What a derivative has made is not a node of the user's, but may hold some: values
    that it computes again.
    """
    inside = [x for _, new in inner_nodes(nodes, ruled) for x in new]
    return [*nodes, *(x for x in inside if x.origin is None)]


def inner_nodes(
    nodes: Sequence[Tensor], ruled: bool = False
) -> Iterator[tuple[Tensor, list[Tensor]]]:
    """Yield each node that holds a program, with its inner nodes; outer nodes first.

    A node that two of them hold comes with one of them.
    """
    stack = list(nodes)
    seen: set[int] = set()
    while stack:
        node = stack.pop()
        if node.op.graphs is None:
            continue
        if node.origin is not None and node.op.maker is not None:
            continue  # an op of the user's in a rule: none of the program
        for graph in graphs_of(node, ruled):
            new = [x for x in graph.interior if x.serial not in seen]
            seen.update(x.serial for x in new)
            stack += new
            yield node, new


def graphs_of(node: Tensor, ruled: bool = False) -> Sequence[Graph]:
    """Return the programs that a node holds, if its derivative is made of theirs.

    ``ruled``: in any case.
    """
    op = node.op
    if op.graphs is None or (op.has_own_rule and not ruled):
        return ()
    return op.graphs(node.operands, node.settings)


def inner_rules(op: Op, rules: Rules) -> tuple[Rules, ...]:
    """Return the additional argument of an op's own rule: rules for nodes inside."""
    return (rules,) if rules and op.graphs is not None else ()


def reach_inside(rules: Rules, graph: Graph) -> bool:
    """Return whether one of the rules is for a node inside a graph, however deep."""
    if not rules:
        return False
    return any(x.serial in rules for x in with_inner_nodes(graph.interior))


# The steps of a walk


def plan_steps(
    outputs: Sequence[Any],
    wrt: Sequence[Tensor],
    rules: Rules = None,
    constant: Collection[int] = (),
    mode: Mode = "pull",
    only: Mapping[int, Tensor] | None = None,
    found: list[Tensor] | None = None,
) -> list[tuple[Tensor, int]]:
    """Return the nodes from ``wrt`` to ``outputs``, ascending; which inputs vary.

    Bit i of the mask says that input i depends on a ``wrt`` Tensor. What passes only
    through ops without derivative (comparisons, `sign`) does not vary, unless one of
    ``rules`` gives such a node a derivative. Where a rule is that of a part of the
    program, the part is one step in the place of its outputs. Those that are
    ``constant`` do not vary. ``mode`` is that of the sweep. ``only``: the nodes of a
    part of the program by their serials, which are then not searched for. Nodes that
    are roots, or whose op has a limit (`Op.root`, `Op.limit`), are added to ``found``.
    """
    varying = {x.serial for x in wrt}
    first = min(varying, default=0)
    instead = parts_among(rules) if rules else None
    if only is not None:
        nodes = [only[serial] for serial in sorted(only)]
    elif instead:
        nodes = _order_parts(outputs, instead, first)
    else:
        nodes = walk.order_nodes([x for x in outputs if isinstance(x, Tensor)], first)
    steps = []
    for node in nodes:
        serial, mask, bit = node.serial, 0, 1
        for x in node.inputs:
            if (type(x) is Tensor or isinstance(x, Tensor)) and x.serial in varying:
                mask |= bit
            bit += bit
        op, params = node.op, node.params
        if params and type(params) is LengthParams:
            mask &= (1 << params.count) - 1  # nothing varies with a length
        if not mask or (op.pull is None and not is_ruled(serial, rules, mode)):
            continue
        if found is not None and op in SINGULAR:
            if op.root is None or op.root.holds(node.inputs):
                found.append(node)
        if constant or instead:  # else there is no part
            ends = {x.serial for x in ends_of(node)}.difference(constant)
            if not ends:
                continue
            varying |= ends
        else:
            varying.add(serial)
        steps.append((node, mask))
    return steps


def find_connections(
    inputs: Sequence[Tensor], outputs: Sequence[Any]
) -> list[list[bool]]:
    """Return for each input and output whether the output's derivative reaches it."""
    columns = []
    for y in outputs:
        reached = {y.serial} if isinstance(y, Tensor) else set()
        for node, mask in plan_steps([y], inputs):
            reached |= {x.serial for i, x in enumerate(node.inputs) if mask >> i & 1}
        columns.append([x.serial in reached for x in inputs])
    return [list(row) for row in zip(*columns, strict=True)]


def _order_parts(
    outputs: Sequence[Any], instead: Mapping[int, Part], first: int
) -> list[Tensor]:
    """Return all nodes from a serial to ``outputs``, parts in the place of theirs."""
    stack = [x for x in map(traces.node_of, outputs) if isinstance(x, Tensor)]
    nodes: dict[int, Tensor] = {}
    while stack:
        x = stack.pop()
        if x.serial >= first and x.serial not in nodes:
            node = instead.get(x.serial, x)
            if not traces.CHANGED.isdisjoint(map(type, node.inputs)):
                replace_handles(node)
            nodes[x.serial] = node
            if isinstance(node, Part):
                # It is known by all its outputs, and walked over at the first.
                nodes.update([(y.serial, node) for y in node.outputs])
            stack += [i for i in node.inputs if isinstance(i, Tensor)]
    return [nodes[serial] for serial in sorted(nodes) if nodes[serial].serial == serial]


def outer_steps(
    outputs: Sequence[Any], steps: Sequence[tuple[Tensor, int]], wrt: Sequence[Tensor]
) -> set[int]:
    """Return the serials of the nodes with rules that must be recorded.

    These nodes depend on a Tensor of an outer open trace, or have no value.
    """
    if not traces.LOCAL.stack:
        # Who depends on a Tensor without value has none, so the last ones tell.
        for y in outputs:
            if isinstance(y, Tensor) and y._value is None:
                break
        else:
            return set()
    first = min((x.serial for x in wrt), default=0)
    live: dict[int, bool] = {}

    def is_recorded(x: object) -> bool:
        if not isinstance(x, Tensor):
            return False
        if x.serial not in live:
            live[x.serial] = is_live(x)
        return live[x.serial]

    recorded = {
        x.serial
        for x in wrt
        if any(is_recorded(i) for i in x.inputs) or x._value is None
    }
    roots = [node for node, _ in steps]
    for node in walk.order_nodes(roots, first):
        for x in node.inputs:
            if isinstance(x, Tensor) and (
                x.serial in recorded or (x.serial < first and is_recorded(x))
            ):
                recorded.add(node.serial)
                break
    for y in outputs:
        if isinstance(y, Tensor) and y._value is None and y.serial not in recorded:
            if any(node is y for node in roots):
                raise _describe_escape(y)
    return recorded


def _describe_escape(y: Tensor) -> TraceError:
    """Return the error for a result that reads a leftover of an inner trace."""
    while y._value is None and y.inputs:
        y = next((x for x in y.inputs if isinstance(x, Tensor) and x._value is None), y)
        if y.op is IDENTITY:
            break
    return TraceError(
        f"{blame.describe(y)}{blame.quote_site(y.site)} has no value: it belongs to a"
        " function that was traced without values (of wb.vmap, wb.scan, wb.cond, ...),"
        " and something computed from it was kept in a variable and read after that"
        " function. Return it from there."
    )


# Rules that need a length which is known only when the program runs: a node of
# `deferred.py` runs each of them then.

#: The settings of an op that a node runs, hashable.
Settings = tuple[tuple[str, Any], ...]


class Sealed(NamedTuple):
    """The settings of an op among the arguments of a call, which hold none of them."""

    items: Settings


def _rule_of(
    node: Tensor, rule: define.Rule, inside: tuple[Any, ...]
) -> tuple[Op, Any, tuple[Any, ...], Sealed]:
    """Return the op, the rule of an override (or None), operands and settings.

    ``inside`` is what the rule is given besides: rules of overrides for nodes inside.
    """
    operands, settings = node.operands, Sealed(tuple(node.settings.items()))
    if not inside:
        return node.op, None, operands, settings

    def run(*arguments: Any) -> object:
        return rule(*arguments, *inside)

    return node.op, run, operands, settings


def defer_pull(
    node: Tensor, mask: int, g: Any, pull: define.Rule, inside: tuple[Any, ...]
) -> list[Any]:
    """Return the cotangents of `pull` of a node; a new node runs the rule later."""
    of, rule, inputs, settings = _rule_of(node, pull, inside)
    mask = sum(
        1 << i
        for i, x in enumerate(inputs)
        if mask >> i & 1 and types.is_differentiable(dtype_of(x))
    )
    g = tuple(g) if isinstance(g, tuple) else g
    rest = (of, rule, mask, g, outputs_of(node), inputs, settings)
    made = iter(hooks.call_deferred("vjp", rest, {}))
    return [next(made) if mask >> i & 1 else None for i in range(len(inputs))]


def defer_push(
    node: Tensor, tangents: tuple[Any, ...], push: define.Rule, inside: tuple[Any, ...]
) -> Tangent | tuple[Tangent, ...]:
    """Return the tangents of `push` of a node; a new node runs the rule later."""
    of, rule, inputs, settings = _rule_of(node, push, inside)
    y = outputs_of(node)
    rest = (of, rule, tangents, y, inputs, settings)
    made = hooks.call_deferred("jvp", rest, {})
    return tuple(made) if isinstance(y, tuple) else made[0]


def defer_batch(
    of: Op, inputs: tuple[Any, ...], batched: tuple[bool, ...], params: Params
) -> Array | tuple[Array, ...]:
    """Return an op on a batch, by a node that runs its rule for batches."""
    made: Array | tuple[Array, ...] = hooks.call_deferred(
        "batch", (of, inputs, batched, Sealed(tuple(params.items()))), {}
    )
    return made
