"""An override of a session: its nodes, effects and code, and how it is changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np

from workbench.core import types
from workbench.core.blame import suggest
from workbench.core.op import CUSTOM, OPS
from workbench.core.tensor import Tensor
from workbench.errors import OverrideError, UsageError
from workbench.overrides import override as overriding
from workbench.overrides import targets
from workbench.overrides.linear_structures import ByLinear
from workbench.overrides.node_rule import check_on_specs
from workbench.overrides.override import Override, describe_steps, override
from workbench.overrides.patterns import ByPattern, lambda_source
from workbench.overrides.resolution import Resolution, resolve
from workbench.overrides.rule_parser import parse_rule
from workbench.overrides.subgraphs import BySubgraph
from workbench.session.history import NumberedOverride, find_entry
from workbench.session.nodes import Nodes
from workbench.session.state import Effect, State


@dataclass(frozen=True, eq=False, repr=False)
class AppliedOverride:
    """One override of a session, in one state of the session.

    Attributes
    ----------
    id
        The number that `Session.switch` and `Session.remove` take.
    override
        The override itself.
    """

    id: int
    override: Override
    _position: int
    _state: State

    @cached_property
    def matched(self) -> tuple[int, ...]:
        """The ids of the nodes that its target matches; of a pattern each last node."""
        return self._find_ids(self._resolution.matched[self._position])

    @property
    def node(self) -> int:
        """The id of the node that its target names; of another target the first."""
        target = self.override.target
        if isinstance(target, targets.ByNode) and isinstance(target.node, int):
            return target.node
        return self.matched[0]

    @cached_property
    def covered(self) -> tuple[int, ...]:
        """The ids of the other nodes of its matches: their own rules do not run."""
        return self._find_ids(self._resolution.covered[self._position])

    @property
    def note(self) -> str:
        """A note on nodes where another override takes precedence."""
        return self._resolution.notes[self._position]

    @property
    def target(self) -> str:
        """Its target as text."""
        return format_target(self.override.target, self._state.objective.nodes)

    @property
    def where(self) -> str:
        """The target as text, with the steps of a loop if the override names some."""
        nodes = self._state.objective.nodes
        return format_target(self.override.target, nodes, self.override.steps)

    @property
    def code(self) -> str:
        """The line of Python that attaches the override."""
        nodes = self._state.objective.nodes
        return write_code_line(
            nodes.session, NumberedOverride(self.id, self.override), nodes
        )

    @property
    def _resolution(self) -> Resolution:
        found = self._state.resolution
        assert found is not None  # a state with an override has a resolution
        return found

    def _find_ids(self, nodes: Iterable[Tensor]) -> tuple[int, ...]:
        """Return the ids of nodes, each once; for an inner node that of its loop."""
        places = self._state.forward.find_ids
        return tuple(dict.fromkeys(i for node in nodes for i in places(node)))

    @property
    def label(self) -> str:
        """Its name, or a short text for its rule."""
        return self.override.label

    @property
    def rule(self) -> str:
        """The expression, or the name of the function."""
        return self.override.rule

    @property
    def data(self) -> bool:
        """True if the rule is a text that can be edited."""
        return self.override.data

    @property
    def stored(self) -> bool:
        """True if every part is data, so that `Session.save` keeps the override."""
        made = self.override
        return (
            is_data_target(made.target)
            and is_storable(made.vjp)
            and is_storable(made.jvp)
        )

    @property
    def enabled(self) -> bool:
        """True if the override is applied."""
        return self.override.enabled

    @cached_property
    def effects(self) -> tuple[Effect, ...]:
        """The override's own effect on each gradient; empty while off."""
        return tuple(self._state.effects(self.override)) if self.enabled else ()

    @property
    def measured(self) -> bool:
        """True if `effects` are known already; else they cost a sweep."""
        return self._state.has_effects(self.override)

    def __repr__(self) -> str:
        head = f"override {self.id}: {self.label} on {self.where}"
        if not self.enabled:
            return f"<{head}, off>"
        changed = [str(e) for e in self.effects if e.relative != 0]
        text = f"{head}; changes {'; '.join(changed) or 'no gradient'}"
        return f"<{text}; {self.note}>" if self.note else f"<{text}>"


def attached_overrides(state: State) -> list[AppliedOverride]:
    """Return all overrides of a state in order."""
    return [AppliedOverride(*entry, k, state) for k, entry in enumerate(state.entries)]


# Targets in a session


def resolve_target(
    nodes: Nodes, tensors: Sequence[Tensor], target: Any
) -> targets.Target:
    """Return a target of a session: nodes become ids, which stay valid after a run.

    Raises
    ------
    OverrideError
        If nothing has the name; the text suggests similar names.
    """
    if isinstance(target, targets.ByNode):
        target = target.node
    if isinstance(target, np.integer):
        target = int(target)
    if isinstance(target, (Tensor, int)) and not isinstance(target, bool):
        return targets.ByNode(nodes.find(target))
    resolved = targets.target_of(target)
    if isinstance(resolved, BySubgraph):
        return resolved.with_ids(nodes.find, nodes.labels)
    if isinstance(resolved, targets.ByScope) and isinstance(target, str):
        if target in nodes.names or target in nodes.aliases:
            return targets.ByNode(nodes.find(target))
        if not resolved.select(tensors):
            if target in nodes.labels:  # "tanh 3", as the picture calls it
                return targets.ByNode(nodes.labels.index(target))
            if (found := nodes.find_address(target)) is not None:
                return targets.ByNode(found)
            candidates = {name: f"the node {name!r}" for name in nodes.names}
            candidates |= {op: f"the op {op!r}" for op in [*OPS, *CUSTOM]}
            candidates |= {
                x.scope: f"the scope {x.scope!r}" for x in tensors if x.scope
            }
            meant = suggest(target, candidates)
            how = f" {targets.suggest_scope(target)} Or use a label of a node, such as"
            how += f" {nodes.labels[-1]!r}; {nodes.session}.nodes.labels lists them."
            raise OverrideError(
                f"nothing in session {nodes.session!r} is called {target!r}"
                f".{meant} A target is the name of a node, an op or a"
                " scope, an id, a Tensor or a predicate."
                f"{how if target.isidentifier() and not meant else ''}"
            )
    if isinstance(resolved, targets.ByOp) and resolved.maker is not None:
        named = targets.ByOp(resolved.op)  # its code can name it, if that is the same
        if len(named.select(tensors)) == len(resolved.select(tensors)):
            return named
    return resolved


def format_target(
    target: targets.Target, nodes: Nodes, steps: int | slice | None = None
) -> str:
    """Return a target as text, nodes by their names, with the steps of a loop."""
    if steps is not None:
        times = None
        if isinstance(target, targets.ByNode) and isinstance(target.node, int):
            times = nodes.unrolled.count_steps(target.node)
        return format_target(target, nodes) + describe_steps(steps, times)
    if isinstance(target, targets.ByNode) and isinstance(target.node, int):
        return nodes.labels[target.node]
    if isinstance(target, BySubgraph):
        ends = ", ".join(nodes.labels[nodes.find(x)] for x in target.outputs)
        reads = ", ".join(nodes.labels[nodes.find(x)] for x in target.inputs)
        return f"subgraph {ends} of {reads}"
    return str(target)


def sample_nodes(matched: Iterable[Tensor], most: int = 100) -> list[Tensor]:
    """Return one node for each op and kind of inputs, at most ``most``."""
    samples: dict[Any, Tensor] = {}
    for node in matched:
        inputs = [
            types.spec_of(x)
            # A Tensor of several outputs has no one shape.
            if isinstance(x, Tensor) or hasattr(x, "shape")
            else type(x)
            for x in node.inputs
        ]
        samples.setdefault((node.op.name, *map(repr, inputs)), node)
        if len(samples) == most:
            break
    return list(samples.values())


def check_rule(state: State, target: Any, rule: str) -> str:
    """Check the text of a rule for a target, before the rule is attached.

    See `Session.check_rule`.
    """
    nodes = state.objective.nodes
    forward, program = state.forward, state.forward.program
    parse_rule(rule)
    meant = target.override.target if isinstance(target, AppliedOverride) else target
    found = override(resolve_target(nodes, program, meant), rule)
    wrt = [forward.graph.nodes[i] for i in state.objective.wrt]
    resolution = resolve(
        [found], program, wrt=wrt, select_unrolled=state.select_unrolled
    )
    (matched,) = resolution.matched
    parts = resolution.parts
    replaced = (parts.get(s, node) for s, (_, node) in resolution.winners.items())
    for node in sample_nodes(replaced):
        check_on_specs(found.at(node))
    return f"ok for {len(matched)} nodes" if len(matched) > 1 else "ok"


def is_data(rule: Any) -> bool:
    """Return whether a rule is a list of nodes, which its ``repr`` can make again."""
    return hasattr(rule, "to_json")


def is_data_target(target: targets.Target) -> bool:
    """Return whether a target is data (nodes, an op, a scope), not code."""
    if isinstance(target, targets.ByOp):
        return target.maker is None
    if isinstance(target, ByLinear):
        return target.is_data_alone
    return isinstance(target, (targets.ByNode, targets.ByScope, BySubgraph))


def is_storable(rule: Any) -> bool:
    """Return whether a rule is data: a text, or a list of nodes."""
    return rule is None or isinstance(rule, str) or is_data(rule)


def is_equal(one: Override, other: Override) -> bool:
    """Return whether two overrides are equal, as when a cell runs twice."""
    return (
        (one.name, one.enabled, one.steps) == (other.name, other.enabled, other.steps)
        and _is_same_rule(one.vjp, other.vjp)
        and _is_same_rule(one.jvp, other.jvp)
        and _is_same_target(one.target, other.target)
    )


def _is_same_target(one: targets.Target, other: targets.Target) -> bool:
    if isinstance(one, targets.ByNode) and isinstance(other, targets.ByNode):
        return one.node is other.node or (
            isinstance(one.node, int) and one.node == other.node
        )
    if isinstance(one, targets.ByPredicate) and isinstance(other, targets.ByPredicate):
        return _is_same_rule(one.predicate, other.predicate)
    if isinstance(one, ByPattern) and isinstance(other, ByPattern):
        return (
            _is_same_rule(one.function, other.function)
            and _is_same_rule(one.where, other.where)
            and one.ranks == other.ranks
        )
    if isinstance(one, ByLinear) and isinstance(other, ByLinear):
        return _is_same_rule(one.where, other.where) and _is_same_data(
            one.data, other.data
        )
    if isinstance(one, BySubgraph) and isinstance(other, BySubgraph):
        return (one.outputs, one.inputs) == (other.outputs, other.inputs)
    return bool(one == other)


def _is_same_data(one: Any, other: Any) -> bool:
    """Return whether two lists of names, Tensors and arrays hold the same."""
    if one is None or other is None:
        return one is other
    return len(one) == len(other) and all(
        a is b or (isinstance(a, str) and isinstance(b, str) and a == b)
        for a, b in zip(one, other, strict=True)
    )


def _is_same_rule(one: Any, other: Any) -> bool:
    """Return whether two rules are equal, or functions with the same code."""
    if one is other:
        return True
    if isinstance(one, FunctionType) and isinstance(other, FunctionType):
        return (
            one.__code__ == other.__code__
            and one.__globals__ is other.__globals__
            and not any(
                f.__closure__ or f.__defaults__ or f.__kwdefaults__
                for f in (one, other)
            )
        )
    if isinstance(one, str) or is_data(one):
        return bool(type(one) is type(other) and one == other)
    return False


# As code


def join_lines(lines: list[str]) -> str:
    """Join the lines that attach overrides, in order.

    An equal line attaches only once; the last of equal lines is kept, since the later
    override takes precedence.
    """
    kept = list(dict.fromkeys(reversed(lines)))
    return "\n".join(reversed(kept))


def write_code_line(session: str, entry: NumberedOverride, nodes: Nodes) -> str:
    """Return the line of Python that attaches an override to a session.

    A lambda is written out, another function is named; one without source and name
    is called ``rule_1`` or ``where_1``, by the number of the override. A comment lists
    the user's functions.
    """
    override, user_functions = entry.override, list[str]()
    text = write_target(override.target, entry.id, session, nodes, user_functions)
    settings = []
    for which, rule in (("vjp", override.vjp), ("jvp", override.jvp)):
        if rule is None:
            continue
        if isinstance(rule, str) or is_data(rule):
            settings.append(f"{which}={rule!r}")
        else:
            word = "rule" if which == "vjp" else "forward"
            settings.append(
                f"{which}={write_function(rule, f'{word}_{entry.id}', user_functions)}"
            )
    if override.name is not None:
        settings.append(f"name={override.name!r}")
    if not override.enabled:
        settings.append("enabled=False")
    if steps := write_steps_setting(override, nodes):
        settings.append(f"steps={steps}")
    line = f"{session}.override({text}, {', '.join(settings)})"
    if not user_functions:
        return line
    return f"{line}  # with your function {', '.join(dict.fromkeys(user_functions))}"


def write_target(
    target: targets.Target,
    number: int,
    session: str,
    nodes: Nodes,
    user_functions: list[str],
) -> str:
    """Return a target as code; collect its user functions in ``user_functions``."""
    if isinstance(target, targets.ByNode):
        i = nodes.find(target.node)
        address = nodes.write_address(i)
        if means_node(address):
            return repr(address)
        if nodes.unrolled.count_steps(i) is None:
            return f"{session}[{address!r}]"
        return repr(nodes.write_address(i, lined=True))
    if isinstance(target, targets.ByOp):
        if target.maker is None:
            return repr(target.op)
        user_functions.append(target.op)
        return target.op
    if isinstance(target, targets.ByScope):
        return repr(f"{target.glob.removesuffix('/*')}/*")
    if isinstance(target, BySubgraph):
        ends, reads = (
            ", ".join(repr(get_key(x, nodes)) for x in part)
            for part in (target.outputs, target.inputs)
        )
        return f"wb.subgraph([{ends}], [{reads}])"
    if isinstance(target, targets.ByPart):
        return target.write_code(
            lambda f, word: write_function(f, f"{word}_{number}", user_functions)
        )
    predicate = getattr(target, "predicate", None)
    return write_function(predicate, f"where_{number}", user_functions)


def write_steps_setting(override: Override, nodes: Nodes) -> str:
    """Return the steps of an override as code; "" where none are written.

    A name means its place in all steps of a loop, so one node of a loop names its step.
    """
    target, steps = override.target, override.steps
    if not isinstance(target, targets.ByNode):
        return "" if steps is None else repr(steps)
    if steps == slice(None):
        return ""
    if steps is None:
        i = nodes.find(target.node)
        return (
            "" if nodes.unrolled.count_steps(i) is None else str(nodes.unrolled.step[i])
        )
    return repr(steps)


def complete_steps(target: Any, place: targets.Target, steps: Any, nodes: Nodes) -> Any:
    """Return the steps that an override means: a name in a loop means all of them."""
    if steps is not None or not isinstance(target, str):
        return steps
    if not isinstance(place, targets.ByNode) or not isinstance(place.node, int):
        return steps
    is_one = target in nodes.labels and target not in nodes.names
    in_loop = nodes.unrolled.count_steps(place.node) is not None
    return slice(None) if in_loop and not is_one else None


def get_key(node: Any, nodes: Nodes) -> str:
    """Return the text that finds a node in a session: where it stands, or its label."""
    i = nodes.find(node)
    address = nodes.write_address(i)
    return address if nodes.find(address) == i else nodes.labels[i]


def means_node(name: str) -> bool:
    """Return whether a name alone means the node, and not an op of that name."""
    try:
        return isinstance(targets.target_of(name), targets.ByScope)
    except OverrideError:
        return False


def write_function(function: Any, fallback: str, user_functions: list[str]) -> str:
    """Return a function as code: a lambda, its name, or the fallback name."""
    text = lambda_source(function)
    if text is not None:
        return text
    name = targets.name_of(function) if hasattr(function, "__name__") else ""
    name = name if name.isidentifier() else fallback
    user_functions.append(name)
    return name


# Changes of them: each takes a state, and returns the next one. What fails has
# changed nothing.


class Attached(NamedTuple):
    """A state with an override that was attached or changed, and its position."""

    state: State
    position: int

    @property
    def override(self) -> AppliedOverride:
        """The override in this state."""
        entry = self.state.entries[self.position]
        return AppliedOverride(*entry, self.position, self.state)


def attach_override(
    state: State,
    target: Any,
    vjp: str | Callable[..., Any] | None,
    replacing: int | AppliedOverride | None,
    **settings: Any,
) -> Attached:
    """Attach an override, or replace another one.

    The settings are ``jvp``, ``name``, ``enabled`` and ``steps``. Where an equal
    override is there already, the state is the same.
    """
    nodes, program = state.objective.nodes, state.forward.program
    if isinstance(target, Override):
        place = resolve_target(nodes, program, target.target)
        new = replace(target, target=place)
    else:
        place = resolve_target(nodes, program, target)
        settings["steps"] = complete_steps(target, place, settings.get("steps"), nodes)
        new = overriding.override(place, vjp, **settings)
    where = format_target(place, nodes, new.steps)
    if replacing is not None:
        text = f"change to {new.label} on {where}"
        return _exchange(state, find_override(state, replacing), new, text)
    if new.data:
        # An equal line, as when its cell runs twice, changes nothing.
        for k, entry in enumerate(state.entries):
            if is_equal(entry.override, new):
                return Attached(state, k)
    entries = (*state.entries, NumberedOverride(state.next_id, new))
    made = state.edit(f"{new.label} on {where}", entries)
    return Attached(made, len(entries) - 1)


def edit_override(
    state: State,
    which: int | AppliedOverride,
    vjp: str | Callable[..., Any] | None,
    jvp: str | Callable[..., Any] | None,
    name: str | None,
) -> Attached:
    """Give an override another rule."""
    entry = find_override(state, which)
    old = entry.override
    if vjp is None:
        jvp = old.jvp if jvp is None else jvp
        name = old.name if name is None else name
        vjp = old.vjp
    new = overriding.override(
        old.target, vjp, jvp=jvp, name=name, enabled=old.enabled, steps=old.steps
    )
    where = format_target(new.target, state.objective.nodes, new.steps)
    return _exchange(state, entry, new, f"change to {new.label} on {where}")


def switch_override(
    state: State, which: int | AppliedOverride, enabled: bool | None
) -> State:
    """Switch an override on or off."""
    entry = find_override(state, which)
    old = entry.override
    if enabled is None:
        name, number = state.objective.nodes.session, entry.id
        raise UsageError(
            f"switch({number}) needs a second argument: write"
            f" {name}.switch({number}, False) to switch the override off,"
            f" {name}.switch({number}, True) to switch it on."
        )
    new = replace(old, enabled=bool(enabled))
    text = f"switch {'on' if enabled else 'off'} {old.label}"
    return _exchange(state, entry, new, text).state


def move_override(state: State, which: int | AppliedOverride, to: int) -> State:
    """Put an override at another place in the order; 0 is the first."""
    entries = state.entries
    one = find_override(state, which)
    if type(to) is not int or not 0 <= to < len(entries):
        raise OverrideError(
            f"move({one.id}, {to!r}): places go from 0 to {len(entries) - 1}."
        )
    rest = [e for e in entries if e.id != one.id]
    rest.insert(to, one)
    if tuple(rest) == entries:
        return state
    return state.edit(f"move {one.override.label} to place {to + 1}", tuple(rest))


def remove_override(state: State, which: int | AppliedOverride) -> State:
    """Remove an override."""
    old = find_override(state, which)
    rest = tuple(e for e in state.entries if e.id != old.id)
    return state.edit(f"remove {old.override.label}", rest)


def _exchange(
    state: State, old: NumberedOverride, new: Override, text: str
) -> Attached:
    """Replace an override by another one under the same number."""
    entries, place = [*state.entries], state.entries.index(old)
    entries[place] = NumberedOverride(old.id, new)
    return Attached(state.edit(text, tuple(entries)), place)


def find_override(state: State, which: int | AppliedOverride) -> NumberedOverride:
    """Return an override, given itself or its number."""
    number = which.id if isinstance(which, AppliedOverride) else which
    return find_entry(state.entries, number)
