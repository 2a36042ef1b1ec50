"""Rules applied to a program, from its inputs to its outputs, each step on record.

A node is looked at once its operands are in their last form, so whatever a rule could
see below is settled. What takes its place is built and looked at in the same way. A
stable form is also found as the program writes it, before other rules hide it. The time
is linear in the program; no recursion, however deep it is.

Equal nodes become one, and what depends on constants alone is computed: the steps
``"equal nodes"`` and ``"constants"``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from operator import index, is_not
from typing import Any, NamedTuple

import numpy as np

from workbench.core import deferred, dims, types, walk
from workbench.core.blame import suggest
from workbench.core.graph import Graph
from workbench.core.infer import infer_spec
from workbench.core.schedule import compute_node
from workbench.core.tensor import (
    IDENTITY,
    MaskedTensor,
    Tensor,
    value_of,
)
from workbench.errors import RewriteError, UsageError
from workbench.ops.indexing import ARRAY
from workbench.rewrite import (
    contract_rules,
    exact_rules,
    probability_rules,
    stable_rules,
    update_rules,
)
from workbench.rewrite.patterns import describe_node
from workbench.rewrite.rule import (
    GROUPS,
    RULES,
    Replacement,
    Rule,
    Uses,
    record_replacement,
)
from workbench.rewrite.text import format_node

#: The tables, which fill `RULES` as they load.
TABLES = (exact_rules, update_rules, stable_rules, probability_rules, contract_rules)


#: The steps that no rule of a table makes.
CONSTANTS = "constants"
MERGE = "equal nodes"
#: Larger results of constants are not computed ahead: the program would hold them.
MOST_FOLDED = 10_000
#: Of a part that is replaced, so many nodes are asked whether an override set them.
MOST_REPLACED = 64
#: As many rewrites may follow from one another at one node of a program.
MOST_REWRITES = 1_000


#: What tells a node from all others, at all steps.
Key = tuple[int, int]


class RewriteStep(NamedTuple):
    """One rewrite: the rule, the node before, and the value after.

    Attributes
    ----------
    number
        Its place among the steps, from 1.
    rule
        The rule, or None of the steps ``"constants"`` and ``"equal nodes"``.
    name
        The name of the rule, or of the step.
    before
        The node that was replaced.
    after
        What took its place: a node, or a constant.
    replay
        Rewrites the program again, as far as it is told.
    """

    number: int
    name: str
    rule: Rule | None
    before: Tensor
    after: Any
    replay: Replay

    @property
    def site(self) -> tuple[str, int] | None:
        """The file and line of the rule; None for a step without a rule of a table."""
        return None if self.rule is None else self.rule.site

    @property
    def graph(self) -> Graph:
        """The whole program after this step."""
        return self.replay.run(self.number)

    def svg(self) -> str:
        """Return the whole program after this step as a picture."""
        return self.graph.svg()

    def __str__(self) -> str:
        before = format_node(self.before)
        return f"{self.number}. {self.name}: {before} → {format_node(self.after)}"

    def __repr__(self) -> str:
        return f"<Step {self}>"

    # One step is itself: comparing its nodes would record new ones.

    def __eq__(self, other: object) -> bool:
        return self is other

    def __ne__(self, other: object) -> bool:
        return self is not other

    def __hash__(self) -> int:
        return id(self)


class Rewrites(NamedTuple):
    """The rules for programs, in the order in which they are tried.

    Attributes
    ----------
    rules
        The rules of the user and of the tables.
    switched_off
        The names of those that are left out.
    is_off
        True if a program is to stay as it is.
    """

    rules: tuple[Rule, ...]
    switched_off: frozenset[str]
    is_off: bool = False


class Replay(NamedTuple):
    """A program and the rules to apply."""

    program: Graph
    rewrites: Rewrites

    def run(self, limit: int | None = None) -> Graph:
        """Return the program rewritten, in no more than so many steps."""
        if self.rewrites.is_off:
            return self.program
        return _Driver(self, limit).run()

    def run_with_keys(self, limit: int | None = None) -> tuple[Graph, dict[int, Key]]:
        """Rewrite the program; return also the key of each node, by its serial.

        A node has the same key at all steps: 0 and its position in the program, or the
        number of the step that made it and its position there.
        """
        driver = _Driver(self, limit)
        driver.keys = {x.serial: (0, i) for i, x in enumerate(self.program.nodes)}
        return driver.run(), driver.keys


class _Frame:
    """A replacement with nodes that are settled one after the other."""

    def __init__(
        self, rule: Rule, before: Tensor, nodes: Sequence[Tensor], after: Any
    ) -> None:
        self.rule = rule
        self.before = before
        self.after = after
        self.nodes = iter(nodes)
        self.new: dict[int, Any] = {}
        self.structure = _structure_of(before) or before.serial
        #: The node that is being settled.
        self.current: Tensor | None = None


class _Driver:
    """One run of the rules over one program."""

    def __init__(self, replay: Replay, limit: int | None) -> None:
        self.replay = replay
        self.program = replay.program
        self.limit = limit
        off = replay.rewrites.switched_off
        self.merges = MERGE not in off
        self.folds = CONSTANTS not in off
        self.rules: dict[str, list[Rule]] = defaultdict(list)
        for rule in replay.rewrites.rules:
            if rule.name not in off:
                for root in rule.roots:
                    self.rules[root].append(rule)
        self.stable_rules = {
            root: [rule for rule in rules if rule.group == "stabilise"]
            for root, rules in self.rules.items()
        }
        #: The numbers that the rules name.
        self.numbers = {x for rules in self.rules.values() for r in rules
                        for x in r.numbers}  # fmt: skip
        #: Which rules may hold at a node, by its op and what its operands are.
        self.candidates: dict[Any, list[Rule]] = {}
        self.uses = Uses(self.program)
        self.matchers: dict[Any, Any] = {Uses: self.uses}
        self.recorded: dict[Any, Graph | None] = {}
        #: What has taken the place of each node of the program.
        self.new: dict[int, Any] = {}
        #: The node of each structure, and what keeps the ids in its key alive.
        self.known: dict[Any, Tensor] = {}
        #: Whether nodes of the program are copied: a name may come to any of them.
        self.copies = any(x.name is not None for x in self.program.interior)
        self.steps: list[RewriteStep] = []
        #: What tells each node from all others, at all steps, if anybody asks.
        self.keys: dict[int, Key] = {}
        #: Whether overrides set a part of it, which stays marked.
        self.is_marked = any(map(_is_marked, self.program.interior))
        self.leaves = {x.serial for x in self.program.leaves}
        #: What depends on a leaf, or on constants alone: the rest is not ours.
        self.own: set[int] = set(self.leaves)
        #: What depends on a leaf: the rest has a value, or is a draw and the like.
        self.varying: set[int] = set(self.leaves)

    def run(self) -> Graph:
        """Return the program in its last form."""
        for node in self.program.interior:
            self.uses.start(node)
            self.new[node.serial] = after = self._rewrite(node)
            self.uses.settle(node, after)
        outputs = [_resolve(y, self.new) for y in self.program.outputs]
        made = Graph(
            self.program.inputs,
            outputs,
            self.program.captures,
            tree=self.program.tree,
            caught=self.program.caught,
        )
        made.integers = self.program.integers
        made.steps = tuple(self.steps)
        return made

    @property
    def is_done(self) -> bool:
        """True if no further step is to be made."""
        return self.limit is not None and len(self.steps) >= self.limit

    def _rewrite(self, node: Tensor) -> Any:
        """Return the final form of a node of the program."""
        if not node.inputs:
            return _constant_of(node)
        new = self.new
        inputs = tuple(
            [new.get(x.serial, x) if isinstance(x, Tensor) else x for x in node.inputs]
        )
        if node.op is IDENTITY:
            return inputs[0]
        serials = [x.serial for x in inputs if isinstance(x, Tensor)]
        if serials and self.own.isdisjoint(serials):
            return node  # of an outer program
        made = self._update(node, inputs, is_new=False)
        frame = None
        if made is not node and not self.is_done:
            frame = self._find_written(node, made)
        return self._settle(made, frame)

    def _find_written(self, node: Tensor, place: Tensor) -> _Frame | None:
        """Return the stable form of a node as written in the program.

        ``place`` is the node with its new operands.
        """
        for rule in self._find_candidates(node, self.stable_rules):
            found = rule.propose(node, self.matchers)
            if found is not None:
                operands = tuple([_resolve(x, self.new) for x in found.operands])
                frame = self._build(rule, place, found._replace(operands=operands))
                if frame is not None:
                    self._log(rule.name, rule, place, frame.after)
                    return frame
        return None

    def _settle(self, node: Tensor, frame: _Frame | None = None) -> Any:
        """Return the last form of a node, given operands in their last forms.

        ``frame`` is the replacement, where known.
        """
        frames: list[_Frame] = []
        #: What is being replaced: whoever meets it again goes round in a circle.
        active: set[Any] = set()
        first = len(self.steps)
        result: Any = node
        while True:
            if frame is None:
                result, frame = self._look_at(result, not frames)
            if frame is not None:
                if frame.structure in active or len(self.steps) - first > MOST_REWRITES:
                    raise _loop_error(frame, frames)
                active.add(frame.structure)
                frames.append(frame)
            frame = None
            while frames:
                top = frames[-1]
                if top.current is not None:
                    top.new[top.current.serial] = result
                node_of_it = next(top.nodes, None)
                if node_of_it is not None:
                    top.current = node_of_it
                    inputs = tuple([_resolve(x, top.new) for x in node_of_it.inputs])
                    result = self._update(node_of_it, inputs, is_new=True)
                    break
                frames.pop()
                active.discard(top.structure)
                result = _resolve(top.after, top.new)
                _pass_name(top.before, result)
            else:
                return result

    def _update(self, node: Tensor, inputs: tuple[Any, ...], is_new: bool) -> Tensor:
        """Return a node with its new operands; a copy where these differ."""
        given = node
        if any(map(is_not, inputs, node.inputs)) or (self.copies and not is_new):
            key = self.keys.get(node.serial)
            node = _copy_node(node, inputs, self.new)
            if key is not None:
                self.keys[node.serial] = key
            is_new = True
        varying = self.varying
        for x in inputs:
            if isinstance(x, Tensor) and x.serial in varying:
                varying.add(node.serial)
                break
        else:
            if is_new:
                value = given._value
                node._value = _compute_constant(node) if value is None else value
        self.own.add(node.serial)
        return node

    def _look_at(self, node: Tensor, logs: bool) -> tuple[Any, _Frame | None]:
        """Return an equal node or value, and the replacement of the node, if any.

        A replacement's own nodes that are equal to others become these without a step.
        """
        if self.folds and not self.is_done and (value := _fold(node)) is not None:
            self._log(CONSTANTS, None, node, value)
            return value, None
        if not self.is_done and (frame := self._find_replacement(node)) is not None:
            return node, frame
        if self.merges and (key := _structure_of(node)) is not None:
            equal = self.known.setdefault(key, node)
            if equal is not node and not (logs and self.is_done):
                if logs:
                    self._log(MERGE, None, node, equal)
                _pass_name(node, equal)
                return equal, None
        return node, None

    def _find_replacement(self, node: Tensor) -> _Frame | None:
        """Return the replacement by the first rule that holds at a node."""
        for rule in self._find_candidates(node, self.rules):
            found = rule.propose(node, self.matchers)
            if found is not None:
                frame = self._build(rule, node, found)
                if frame is not None:
                    self._log(rule.name, rule, node, frame.after)
                    return frame
        return None

    def _find_candidates(
        self, node: Tensor, table: dict[str, list[Rule]]
    ) -> list[Rule]:
        """Return the rules of a table that may hold at a node."""
        rules = table.get(node.op.name)
        if not rules or type(node.params) is deferred.LengthParams:
            return []
        described = describe_node(node, self.numbers)
        key = (id(table), described)
        candidates = self.candidates.get(key)
        if candidates is None:
            candidates = [rule for rule in rules if rule.may_hold(described)]
            self.candidates[key] = candidates
        if candidates and isinstance(types.spec_of(node), tuple):
            return []
        return candidates

    def _build(self, rule: Rule, node: Tensor, found: Replacement) -> _Frame | None:
        """Return a replacement as nodes; None if shape or dtype would change."""
        specs = [types.spec_of(x) for x in found.operands]
        program = record_replacement(rule, found, specs, self.recorded)
        if program is None or len(program.outputs) != 1:
            return None
        new: dict[int, Any] = {
            x.serial: y for x, y in zip(program.leaves, found.operands, strict=True)
        }
        nodes: list[Tensor] = []
        origin = self._find_origin(node, found.operands)
        for x in program.interior:
            inputs = tuple([_resolve(a, new) for a in x.inputs])
            if x.op is IDENTITY:
                new[x.serial] = inputs[0] if inputs else _constant_of(x)
                continue
            new[x.serial] = made = _make_node(x, inputs, node)
            made.origin = origin
            if self.keys:
                self.keys[made.serial] = len(self.steps) + 1, len(nodes)
            nodes.append(made)
        after = _resolve(program.outputs[0], new)
        if not _has_same_spec(types.spec_of(after), types.spec_of(node)):
            return None
        return _Frame(rule, node, nodes, after)

    def _find_origin(self, node: Tensor, operands: Sequence[Any]) -> Any:
        """Return the origin for the nodes that replace this one and nodes before.

        If an override set one of these, the result is marked as it is.
        """
        if not self.is_marked or _is_marked(node):
            return node.origin
        known = {x.serial for x in operands if isinstance(x, Tensor)}
        waiting = [node]
        while waiting:
            for x in waiting.pop().inputs:
                if isinstance(x, Tensor) and x.serial not in known:
                    if _is_marked(x):
                        return x.origin
                    known.add(x.serial)
                    if len(known) < MOST_REPLACED:
                        waiting.append(x)
        return node.origin

    def _log(self, name: str, rule: Rule | None, before: Tensor, after: Any) -> None:
        number = len(self.steps) + 1
        self.steps.append(RewriteStep(number, name, rule, before, after, self.replay))


def _is_marked(x: Tensor) -> bool:
    """Return whether the rule of an override made a node."""
    return x.origin is not None and x.origin.overridden


def _resolve(x: Any, new: dict[int, Any]) -> Any:
    return new.get(x.serial, x) if isinstance(x, Tensor) else x


def _constant_of(node: Tensor) -> Any:
    """Return the value of a constant of a program, else the node."""
    if node.op is IDENTITY and node._value is not None and node.name is None:
        return node._value
    return node


def _copy_node(node: Tensor, inputs: tuple[Any, ...], new: dict[int, Any]) -> Tensor:
    """Return a node on other operands, without a value."""
    made = walk.copy_node(node, inputs, tuple(map(value_of, inputs)), None)
    if type(node) not in types.SPECIFIED and types.is_weak(node._value):
        made.spec = types.spec_of(node._value)  # that of the Tensor is an array's
    origin = node.origin
    if origin is not None:
        forward = new.get(origin.forward.serial)
        if isinstance(forward, Tensor):
            made.origin = origin._replace(forward=forward)
    return made


def _make_node(x: Tensor, inputs: tuple[Any, ...], place: Tensor) -> Tensor:
    """Return a node of a replacement, on the line of the replaced node."""
    masked = any(isinstance(y, MaskedTensor) for y in inputs)
    kind = MaskedTensor if masked else Tensor
    args = tuple(map(value_of, inputs))
    made = kind(
        x.op, inputs, args, x.params, None, place.code, place.lasti, place.context
    )
    spec = types.spec_of(x)
    if dims.has_dim(spec.shape if isinstance(spec, types.Spec) else spec):
        inferred = infer_spec(x.op, *deferred.measure_lengths(inputs, x.params))
        made.spec = deferred.fill_own_lengths(made, inferred)
    else:
        made.spec = spec
    return made


def _pass_name(before: Tensor, after: Any) -> None:
    """Give a node's name to its replacement, if new and without a name."""
    if isinstance(after, Tensor) and after.inputs and after._value is None:
        if before.name is not None and after.name is None:
            after.name = before.name


def _has_same_spec(a: Any, b: Any) -> bool:
    return (
        isinstance(a, types.Spec)
        and isinstance(b, types.Spec)
        and a.dtype == b.dtype
        and a.weak == b.weak
        and dims.is_same_shape(a.shape, b.shape)
    )


# Equal nodes, and nodes of constants

#: The types of settings that are told by their values.
_PLAIN = (int, float, complex, str, bool, type(None), np.dtype, type, np.generic)


def _structure_of(node: Tensor) -> Any:
    """Return a key of a node's op, operands and settings; None if never merged.

    Ops of users are never merged, nor are ops with settings that are no numbers or
    names: a draw of random numbers is another one each time.
    """
    if node.op.custom:
        return None
    parts: list[Any] = [node.op, type(node)]
    if _is_marked(node):
        parts.append(node.origin.rule)
    for x in node.inputs:
        parts.append(x.serial if isinstance(x, Tensor) else _key_of_constant(x))
    for name, x in node.params.items():
        key = _key_of_setting(x)
        if key is None:
            return None
        parts.append((name, key))
    return tuple(parts)


def _key_of_constant(x: Any) -> Any:
    if type(x) in types.WEAK_TYPES:
        return (type(x), repr(x))
    if isinstance(x, np.generic) or (isinstance(x, np.ndarray) and x.size < 9):
        if x.dtype != object:
            return (type(x), x.dtype.str, x.shape, x.tobytes())
    return ("id", id(x))


def _key_of_setting(x: Any) -> Any:
    if isinstance(x, tuple):
        keys = tuple(map(_key_of_setting, x))
        return None if None in keys else ("tuple", keys)
    if isinstance(x, slice):
        keys = tuple(map(_key_of_setting, (x.start, x.stop, x.step)))
        return None if None in keys else ("slice", keys)
    if isinstance(x, _PLAIN) or x is Ellipsis or x is ARRAY:
        return (type(x), repr(x))
    return None


def _compute_constant(node: Tensor) -> Any:
    """Return the value of a node that no leaf reaches; None where that is unknown."""
    values = tuple(map(value_of, node.inputs))
    if any(x is None for x in values) or _structure_of(node) is None:
        return None
    try:
        with np.errstate(all="ignore"):
            return compute_node(node, values)
    except Exception:  # the program itself says so when it runs
        return None


def _fold(node: Tensor) -> Any:
    """Return the value of a node of constants alone; None for other nodes."""
    if not node.inputs:
        return None
    for x in node.inputs:
        if isinstance(x, Tensor):
            return None
    if node.op.custom or node.op.graphs is not None or _structure_of(node) is None:
        return None
    spec = types.spec_of(node)
    if not isinstance(spec, types.Spec) or not all(
        isinstance(n, int) for n in spec.shape
    ):
        return None
    if np.prod(spec.shape, dtype=float) > MOST_FOLDED:
        return None
    try:
        with np.errstate(all="ignore"):
            value = compute_node(node, node.inputs)
    except Exception:  # the program itself says so when it runs
        return None
    if types.is_weak(value):  # a run keeps the Python number, which decides no dtype
        return value if spec.dtype == types.spec_of(value).dtype else None
    return value if _has_same_spec(types.spec_of(value), spec) else None


# What users call


def simplify(
    graph: Graph,
    rules: Iterable[Rule] = (),
    *,
    without: str | Collection[str] = (),
    fast: bool = False,
    limit: int | None = None,
) -> Graph:
    """Return a graph that computes the same in fewer or safer steps.

    The result carries what was done: ``graph.steps``, each with its rule, what stood
    there before and after, and the whole program at that point.

    Parameters
    ----------
    graph
        The program; it stays as it is.
    rules
        Rules of your own (:func:`workbench.rewrite_rule`), tried before those of
        the tables.
    without
        The names of rules that are switched off, or of whole groups; the steps
        ``"equal nodes"`` and ``"constants"`` too. ``"all"`` for a program that stays
        as it is.
    fast
        Use the rules of the group ``fast`` as well: they multiply in the order that
        takes the fewest products, in which another one may overflow.
    limit
        Stop after so many steps.

    Returns
    -------
    The program in its last form: a :class:`workbench.Graph` on the same inputs.

    Raises
    ------
    UsageError
        If no rule has a name that is switched off.
    RewriteError
        If two rules undo each other without end.

    Notes
    -----
    Nodes are rewritten one by one from the inputs on, in time linear in the program.
    Rules of the group ``simplify`` keep every value, NaN and infinity among them, but
    for what their notes say; those of the group ``stabilise`` put a finite value where
    the plain form overflows or loses digits; those of the group ``contract`` sum the
    same products without an array of them, so the last digits may change.

    Examples
    --------
    >>> import workbench as wb
    >>> x = wb.scalar("x")
    >>> graph = wb.simplify(wb.Graph([x], [wb.grad(x * x + x - 2, x)]))
    >>> for step in graph.steps:
    ...     print(step)
    1. x twice and a number: 1 + x + x → 2 * x + 1
    """
    most = None if limit is None else _count_of(limit)
    return prepare_replay(graph, rules, without=without, fast=fast).run(most)


def prepare_replay(
    graph: Graph,
    rules: Iterable[Rule] = (),
    *,
    without: str | Collection[str] = (),
    fast: bool = False,
) -> Replay:
    """Return a `Replay` of rules on a program; see `simplify`."""
    if not isinstance(graph, Graph):
        raise UsageError(
            f"simplify takes a Graph, not {type(graph).__name__}. Write"
            " wb.simplify(wb.trace(f)(*args)) or wb.simplify(wb.Graph([x], [y]))."
        )
    return Replay(graph, check_rewrites(rules, without, fast))


def check_rewrites(
    rules: Iterable[Rule], without: str | Collection[str], fast: bool
) -> Rewrites:
    """Return the rules of a user and of the tables, but those switched off."""
    own = _list_of(
        rules, "rules", "a list of rewrite rules: wb.simplify(graph, [mine])"
    )
    for one in own:
        if not isinstance(one, Rule):
            raise UsageError(
                f"{one!r} is not a rewrite rule. Make one: wb.rewrite_rule('mine',"
                " lambda x: x + x, lambda x: 2 * x)."
            )
    groups = (*GROUPS, "fast") if fast else GROUPS
    table = [r for group in groups for r in RULES.values() if r.group == group]
    if isinstance(without, str) and without == "all":
        return Rewrites((), frozenset(), True)
    known = {CONSTANTS, MERGE, *RULES, *[r.name for r in own]}
    names = (without,) if isinstance(without, str) else without
    off = _list_of(
        names, "without", "a list of the names of rules: without=['x plus x']"
    )
    for name in off:
        if name in GROUPS:
            continue
        if not isinstance(name, str) or name not in known:
            raise UsageError(
                f"without: no rewrite rule is called {name!r}."
                f"{suggest(str(name), known)} The page of rewrite rules lists them all."
            )
    table = [r for r in table if r.group not in off]
    return Rewrites((*own, *table), frozenset(off))


def _list_of(given: Any, what: str, cure: str) -> tuple[Any, ...]:
    """Return an argument that is a list, read once."""
    try:
        return tuple(given)
    except TypeError:
        raise UsageError(
            f"simplify: {what}={given!r} is no list. Give {cure}."
        ) from None


def _count_of(limit: Any) -> int:
    """Return how many steps may be made."""
    try:
        count = index(limit)
    except TypeError:
        count = -1
    if count < 0:
        raise UsageError(
            f"simplify: limit={limit!r} is no number of steps. Write limit=3, or"
            " limit=None for all."
        )
    return count


def _loop_error(frame: _Frame, frames: Sequence[_Frame]) -> RewriteError:
    """Return the error of rules that undo each other without end."""
    names = list(dict.fromkeys(f.rule.name for f in (*frames[-3:], frame)))
    what = " and ".join(repr(name) for name in names)
    if len(names) == 1:
        return RewriteError(
            f"the rewrite rule {what} holds for its own result, without end. Let its"
            " right side be no match of its left side, or give it a condition (when=)."
        )
    return RewriteError(
        f"the rewrite rules {what} undo each other without end, at"
        f" {format_node(frame.before)}. Switch one of them off: without=[...]."
    )
