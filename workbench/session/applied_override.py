"""An override as a session holds it: what it matched, what it changes, its code."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import FunctionType
from typing import Any

import numpy as np

from workbench.core import types
from workbench.core.op import CUSTOM, OPS
from workbench.core.tensor import Tensor
from workbench.errors import OverrideError
from workbench.overrides.linear_structures import ByLinear
from workbench.overrides.node_rule import check_on_specs
from workbench.overrides.override import Override, describe_steps, override
from workbench.overrides.patterns import ByPattern, lambda_source
from workbench.overrides.resolution import Resolution, resolve
from workbench.overrides.rule_parser import parse_rule
from workbench.overrides.subgraphs import BySubgraph
from workbench.overrides.targets import (
    ByNode,
    ByOp,
    ByPart,
    ByPredicate,
    ByScope,
    Target,
    name_of,
    target_of,
)
from workbench.session.nodes import Nodes
from workbench.session.state import Entry, HasState, State
from workbench.session.statistics import Effect


@dataclass(frozen=True, eq=False, repr=False)
class Attached:
    """One override of a session, as it was when the session was asked for it.

    Attributes
    ----------
    id
        What `Session.switch` and `Session.remove` take.
    override
        The override itself.
    """

    id: int
    override: Override
    _position: int
    _state: State

    @cached_property
    def matched(self) -> tuple[int, ...]:
        """The ids of the nodes that its target means.

        Of a pattern the last node of each match.
        """
        return self._places(self._resolution.matched[self._position])

    @cached_property
    def covered(self) -> tuple[int, ...]:
        """The ids of the other nodes of its matches: their own rules do not run."""
        return self._places(self._resolution.covered[self._position])

    @property
    def note(self) -> str:
        """Where another override has the say over some of them, in words."""
        return self._resolution.notes[self._position]

    @property
    def target(self) -> str:
        """Its target in words."""
        return target_text(self.override.target, self._state.objective.nodes)

    @property
    def where(self) -> str:
        """Its target in words, and the steps of a loop if it names some."""
        return self.target + describe_steps(self.override.steps)

    @property
    def code(self) -> str:
        """The line of Python that does the same."""
        nodes = self._state.objective.nodes
        return code_line(nodes.session, Entry(self.id, self.override), nodes)

    @property
    def _resolution(self) -> Resolution:
        found = self._state.resolution
        assert found is not None  # where an override is, it was resolved
        return found

    def _places(self, nodes: Iterable[Tensor]) -> tuple[int, ...]:
        """Return the ids of nodes; a loop stands for what it holds, once."""
        places = self._state.forward.places
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
        """Whether the rule is a text, so that it can be edited."""
        return self.override.data

    @property
    def stored(self) -> bool:
        """Whether all of it is data, so that `Session.save` keeps it."""
        made = self.override
        return data_target(made.target) and storable(made.vjp) and storable(made.jvp)

    @property
    def enabled(self) -> bool:
        """Whether it is applied."""
        return self.override.enabled

    @cached_property
    def effects(self) -> tuple[Effect, ...]:
        """What it changes, alone, in each gradient; nothing while it is off."""
        return tuple(self._state.effects(self.override)) if self.enabled else ()

    @property
    def measured(self) -> bool:
        """Whether `effects` are known already, or cost a sweep."""
        return self._state.has_effects(self.override)

    def __repr__(self) -> str:
        head = f"override {self.id}: {self.label} on {self.where}"
        if not self.enabled:
            return f"<{head}, off>"
        changed = [str(e) for e in self.effects if e.relative != 0]
        text = f"{head}; changes {'; '.join(changed) or 'no gradient'}"
        return f"<{text}; {self.note}>" if self.note else f"<{text}>"


def attached_overrides(state: State) -> list[Attached]:
    """Return all overrides of a state in order, each with what it matched."""
    return [Attached(*entry, k, state) for k, entry in enumerate(state.entries)]


# Targets in a session


def target_in(nodes: Nodes, tensors: Sequence[Tensor], target: Any) -> Target:
    """Return what a target means in a session: nodes become ids, which last.

    Raises
    ------
    OverrideError
        If a string is the name of nothing; with the names that are close.
    """
    if isinstance(target, ByNode):
        target = target.node
    if isinstance(target, np.integer):
        target = int(target)
    if isinstance(target, (Tensor, int)) and not isinstance(target, bool):
        return ByNode(nodes.find(target))
    meant = target_of(target)
    if isinstance(meant, BySubgraph):
        return meant.with_ids(nodes.find, nodes.labels)
    if isinstance(meant, ByScope) and isinstance(target, str):
        if target in nodes.names:
            return ByNode(nodes.names[target])
        if not meant.select(tensors):
            if target in nodes.labels:  # "tanh 3", as the picture calls it
                return ByNode(nodes.labels.index(target))
            known = {name: f"the node {name!r}" for name in nodes.names}
            known |= {op: f"the op {op!r}" for op in [*OPS, *CUSTOM]}
            known |= {x.scope: f"the scope {x.scope!r}" for x in tensors if x.scope}
            close = difflib.get_close_matches(target, known, 3, 0.6)
            hint = f"; did you mean {' or '.join(known[c] for c in close)}?"
            how = f" A node has one by {target}.name = {target!r} in its function."
            raise OverrideError(
                f"nothing in session {nodes.session!r} is called {target!r}"
                f"{hint if close else '.'} A target is the name of a node, an op or a"
                " scope, an id, a Tensor or a predicate."
                f"{how if target.isidentifier() and not close else ''}"
            )
    if isinstance(meant, ByOp) and meant.maker is not None:
        named = ByOp(meant.op)  # as its code can say it, if that is the same
        if len(named.select(tensors)) == len(meant.select(tensors)):
            return named
    return meant


def target_text(target: Target, nodes: Nodes, steps: int | slice | None = None) -> str:
    """Return a target in words, nodes by their names, and the steps of a loop."""
    if steps is not None:
        return target_text(target, nodes) + describe_steps(steps)
    if isinstance(target, ByNode) and isinstance(target.node, int):
        return nodes.labels[target.node]
    if isinstance(target, BySubgraph):
        ends = ", ".join(nodes.labels[nodes.find(x)] for x in target.outputs)
        reads = ", ".join(nodes.labels[nodes.find(x)] for x in target.inputs)
        return f"subgraph {ends} of {reads}"
    return str(target)


def kinds(matched: Iterable[Tensor], most: int = 100) -> list[Tensor]:
    """Return one node for each op and each kind of inputs, the first hundred."""
    found: dict[Any, Tensor] = {}
    for node in matched:
        inputs = [
            types.spec_of(x)
            # A Tensor of several outputs has no one shape.
            if isinstance(x, Tensor) or hasattr(x, "shape")
            else type(x)
            for x in node.inputs
        ]
        found.setdefault((node.op.name, *map(repr, inputs)), node)
        if len(found) == most:
            break
    return list(found.values())


def check_rule(session: HasState, target: Any, rule: str) -> str:
    """Return whether a rule's text would do for a target, as it is typed.

    The target is as for `override`, or an override of the session, whose target
    is meant. Returns a few words about where it would run.

    Raises
    ------
    OverrideError
        If it would not; an `ExpressionError` if the expression is refused.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> session = wb.Session(wb.trace(lambda x: np.sum(np.tanh(x)))(np.zeros(2)))
    >>> session.check_rule("tanh", "clip(d, -1, 1)"), session.overrides
    ('ok', [])
    """
    forward, nodes = session._state.forward, session.nodes
    program = forward.program
    parse_rule(rule)
    meant = target.override.target if isinstance(target, Attached) else target
    found = override(target_in(nodes, program, meant), rule)
    wrt = [forward.graph.nodes[i] for i in session._state.objective.wrt]
    resolution = resolve([found], program, wrt=wrt)
    (matched,) = resolution.matched
    parts = resolution.parts
    stood = (parts.get(s, node) for s, (_, node) in resolution.winners.items())
    for node in kinds(stood):
        check_on_specs(found.at(node))
    return f"ok for {len(matched)} nodes" if len(matched) > 1 else "ok"


def is_data(rule: Any) -> bool:
    """Return whether a rule is a list of nodes, which its ``repr`` makes anew."""
    return hasattr(rule, "to_json")


def data_target(target: Target) -> bool:
    """Return whether a target is data: nodes, an op, a scope; code it is not."""
    if isinstance(target, ByOp):
        return target.maker is None
    if isinstance(target, ByLinear):
        return target.is_data_alone
    return isinstance(target, (ByNode, ByScope, BySubgraph))


def storable(rule: Any) -> bool:
    """Return whether a rule is data: a text, or a list of nodes."""
    return rule is None or isinstance(rule, str) or is_data(rule)


def alike(one: Override, other: Override) -> bool:
    """Return whether two overrides say the same, as when a cell runs twice."""
    return (
        (one.name, one.enabled, one.steps) == (other.name, other.enabled, other.steps)
        and _same(one.vjp, other.vjp)
        and _same(one.jvp, other.jvp)
        and _same_target(one.target, other.target)
    )


def _same_target(one: Target, other: Target) -> bool:
    if isinstance(one, ByNode) and isinstance(other, ByNode):
        return one.node is other.node or (
            isinstance(one.node, int) and one.node == other.node
        )
    if isinstance(one, ByPredicate) and isinstance(other, ByPredicate):
        return _same(one.predicate, other.predicate)
    if isinstance(one, ByPattern) and isinstance(other, ByPattern):
        return (
            _same(one.function, other.function)
            and _same(one.where, other.where)
            and one.ranks == other.ranks
        )
    if isinstance(one, ByLinear) and isinstance(other, ByLinear):
        return _same(one.where, other.where) and _same_data(one.data, other.data)
    if isinstance(one, BySubgraph) and isinstance(other, BySubgraph):
        return (one.outputs, one.inputs) == (other.outputs, other.inputs)
    return bool(one == other)


def _same_data(one: Any, other: Any) -> bool:
    """Return whether two lists of names, Tensors and arrays hold the same."""
    if one is None or other is None:
        return one is other
    return len(one) == len(other) and all(
        a is b or (isinstance(a, str) and isinstance(b, str) and a == b)
        for a, b in zip(one, other, strict=True)
    )


def _same(one: Any, other: Any) -> bool:
    """Return whether two rules are equal, or functions that were written the same."""
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


def lines_of(lines: list[str]) -> str:
    """Return the lines that attach overrides, in order.

    A line that stands there twice attaches once, and it is the later of two equal
    overrides that has the say.
    """
    kept = list(dict.fromkeys(reversed(lines)))
    return "\n".join(reversed(kept))


def code_line(session: str, entry: Entry, nodes: Nodes) -> str:
    """Return the line of Python that attaches an override to a session.

    A lambda is written out, another function called by its name, and one that has
    neither source nor name ``rule_1`` or ``where_1``, by the number of the override:
    the comment says which are the user's own.
    """
    override, yours = entry.override, list[str]()
    text = target_code(override.target, entry.id, session, nodes, yours)
    settings = []
    for which, rule in (("vjp", override.vjp), ("jvp", override.jvp)):
        if rule is None:
            continue
        if isinstance(rule, str) or is_data(rule):
            settings.append(f"{which}={rule!r}")
        else:
            word = "rule" if which == "vjp" else "forward"
            settings.append(f"{which}={called(rule, f'{word}_{entry.id}', yours)}")
    if override.name is not None:
        settings.append(f"name={override.name!r}")
    if not override.enabled:
        settings.append("enabled=False")
    if override.steps is not None:
        settings.append(f"steps={override.steps!r}")
    line = f"{session}.override({text}, {', '.join(settings)})"
    if not yours:
        return line
    return f"{line}  # with your function {', '.join(dict.fromkeys(yours))}"


def target_code(
    target: Target, number: int, session: str, nodes: Nodes, yours: list[str]
) -> str:
    """Return a target as code; the user's functions in it are noted in ``yours``."""
    if isinstance(target, ByNode):
        i = nodes.find(target.node)
        name = nodes.name_of(i)
        if name is None:
            return repr(i)
        return repr(name) if means_node(name) else f"{session}[{name!r}]"
    if isinstance(target, ByOp):
        if target.maker is None:
            return repr(target.op)
        yours.append(target.op)
        return target.op
    if isinstance(target, ByScope):
        return repr(f"{target.glob.removesuffix('/*')}/*")
    if isinstance(target, BySubgraph):
        ends, reads = (
            ", ".join(repr(place(x, nodes)) for x in part)
            for part in (target.outputs, target.inputs)
        )
        return f"wb.subgraph([{ends}], [{reads}])"
    if isinstance(target, ByPart):
        return target.write_code(lambda f, word: called(f, f"{word}_{number}", yours))
    predicate = getattr(target, "predicate", None)
    return called(predicate, f"where_{number}", yours)


def place(node: Any, nodes: Nodes) -> str | int:
    """Return what finds a node in a session: its name, or its id."""
    i = nodes.find(node)
    return nodes.name_of(i) or i


def means_node(name: str) -> bool:
    """Return whether a name alone means the node, and not an op of that name."""
    try:
        return isinstance(target_of(name), ByScope)
    except OverrideError:
        return False


def called(function: Any, otherwise: str, yours: list[str]) -> str:
    """Return a function as code: a lambda, a name, or what stands for one without."""
    text = lambda_source(function)
    if text is not None:
        return text
    name = name_of(function) if hasattr(function, "__name__") else ""
    name = name if name.isidentifier() else otherwise
    yours.append(name)
    return name
