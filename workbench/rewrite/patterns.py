"""Where a pattern stands in a program: every part that computes the same.

A pattern is a function of wildcards (`forms.py`). A part matches if its ops, settings
and constants are those that the pattern's function records for what the wildcards
stand for; a wildcard stands for any value, and for the same one wherever it is read.
The arguments of a commutative op may stand in either order.

Candidates are found by the op that comes last. Which parts of a pattern could stand
at which nodes is found once for each pair, so the search takes time linear in the
program; what remains is only whether one wildcard means one value.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from workbench.core import types
from workbench.core.deferred import unwrap_deferred
from workbench.core.tensor import Tensor
from workbench.errors import OverrideError
from workbench.rewrite.forms import (
    MISSING,
    Forms,
    PatternForm,
    has_same_settings,
    is_equal_constant,
    is_same_value,
    is_value,
    kinds_of,
    name_wildcards,
    own_inputs,
    skip_identities,
)

#: As many steps a search at one node may take: wildcards that are read often, in
#: arguments of commutative ops, can be tried in very many ways.
MOST_STEPS = 20_000
#: As many the search for a second reading: what is left then are orders of the same.
MOST_SECOND = 2_000

Pairs = tuple[tuple[Any, Any], ...]
#: The ranks that wildcards may have, by their names.
Ranks = Mapping[str, Collection[int]]
#: What is left to compare: a linked list, which choices share.
Todo = tuple[Any, Any, Any] | None


class Match(NamedTuple):
    """One place where a pattern stands.

    Attributes
    ----------
    root
        The node that computes the whole.
    bound
        What the wildcards stand for, in order.
    nodes
        The nodes, each after those it reads; the root is the last.
    sources
        Where the inputs of each of them come from: a wildcard, or (counted on from
        these) an earlier node; -1 for a constant.
    other
        What the wildcards stand for in a second reading, with other nodes inside.
    """

    root: Tensor
    bound: tuple[Any, ...]
    nodes: tuple[Tensor, ...]
    sources: tuple[tuple[int, ...], ...]
    other: tuple[Any, ...] | None = None


class Visit(NamedTuple):
    """A place of a form, as a search comes upon it from the root on.

    Attributes
    ----------
    kind
        ``"op"``, ``"wildcard"``, ``"constant"``, or ``"again"`` for one of the first
        two that was seen before.
    part
        The part of the form.
    place
        Its number.
    reader, operand
        The number of the op that reads it, and of the operand; -1 for the root.
    """

    kind: str
    part: Any
    place: int
    reader: int
    operand: int


class Matches(NamedTuple):
    """All places where a pattern stands, in the order of the program.

    Attributes
    ----------
    found
        The matches.
    refused
        How many the pattern's condition has refused.
    unlike
        Nodes where the structure stands, and settings or constants are others.
    forms
        The pattern as it was recorded for this program.
    misfits
        Where the structure stands, and a wildcard's rank is not the declared one:
        what the wildcards stand for.
    """

    found: list[Match]
    refused: int
    unlike: list[tuple[Tensor, PatternForm]]
    forms: list[PatternForm]
    misfits: list[tuple[Any, ...]]


def find_matches(
    forms: Forms,
    nodes: Sequence[Tensor],
    where: Callable[[Mapping[str, Any]], Any] | None = None,
    ranks: Ranks | None = None,
) -> Matches:
    """Return every place of a program where a pattern stands.

    Parameters
    ----------
    forms
        The pattern.
    nodes
        The nodes of the program; no other is part of a match.
    where
        A condition on what the wildcards stand for, by their names.
    ranks
        The ranks that some wildcards may have, by their names.
    """
    misfits: list[tuple[Any, ...]] = []

    def accepts(root: Tensor, bound: tuple[Any, ...]) -> bool:
        """Return whether ranks and condition let the wildcards stand for these."""
        if not fit_ranks(forms.names, bound, ranks):
            misfits.append(bound)
            return False
        if where is None or where(name_wildcards(forms.names, bound)):
            return True
        refused.add(root.serial)
        return False

    by_op: dict[str, list[Tensor]] = defaultdict(list)
    for node in nodes:
        by_op[node.op.name].append(node)
    allowed = {node.serial for node in nodes}
    known = forms.forms_for(kinds_of(nodes, allowed))
    found: dict[int, Match] = {}
    exact = Exact(forms, allowed)
    unlike: dict[int, tuple[Tensor, PatternForm]] = {}
    refused: set[int] = set()
    for form in known:
        search = Search(form, allowed, forms.text, exact=False)
        for root in by_op.get(form.root.op.name, ()):
            if root.serial in found:
                continue
            first = exact.match_last(root)
            if first is not None and not accepts(root, first.bound):
                first = None
            if first is not None and search.has_one_reading(first, exact.last):
                found[root.serial] = first
                continue
            if not search.fits(form.root, root):
                continue
            for bound in search.bind(root) if first is None else ():
                match = exact.match(root, bound)
                if match is None:
                    unlike.setdefault(root.serial, (root, exact.form(bound) or form))
                elif accepts(root, bound):
                    first = match
                    break
            if first is not None and search.turning:
                for bound in search.other_readings(root, first):
                    match = exact.match(root, bound)
                    if match is not None and accepts(root, bound):
                        first = first._replace(other=bound)
                        break
            if first is not None:
                found[root.serial] = first
    return Matches(
        [found[serial] for serial in sorted(found)],
        len(refused.difference(found)),
        [pair for serial, pair in unlike.items() if serial not in found],
        known,
        misfits,
    )


def fit_ranks(names: Sequence[str], bound: Sequence[Any], ranks: Ranks | None) -> bool:
    """Return whether what the wildcards stand for has the ranks that they may have."""
    return not ranks or all(
        name not in ranks or len(types.spec_of(x).shape) in ranks[name]
        for name, x in zip(names, bound, strict=True)
    )


class Exact:
    """A pattern in the very forms of what its wildcards stand for."""

    def __init__(self, forms: Forms, allowed: Collection[int]) -> None:
        self.forms = forms
        self.allowed = allowed
        self.searches: dict[int, Search] = {}
        #: The last one that matched.
        self.last: Search | None = None

    def form(self, bound: tuple[Any, ...]) -> PatternForm | None:
        """Return the form for some values."""
        return self.forms.form_at(bound)

    def match(self, root: Tensor, bound: tuple[Any, ...]) -> Match | None:
        """Return the match with the pattern's settings and constants, or None."""
        form = self.form(bound)
        if form is None or form.root.op.name != root.op.name:
            return None
        search = self.searches.get(id(form))
        if search is None:
            search = Search(form, self.allowed, self.forms.text, exact=True)
            self.searches[id(form)] = search
        if not search.fits(form.root, root):
            return None
        fixed = {x.serial: y for x, y in zip(form.leaves, bound, strict=True)}
        binding = next(search.bindings(root, fixed), None)
        if binding is None:
            return None
        self.last = search
        return make_match(search, root, binding)

    def forget(self) -> None:
        """Drop what it knows of the nodes that it has looked at."""
        for search in self.searches.values():
            search.forget()

    def match_last(self, root: Tensor) -> Match | None:
        """Return a match of the form that stood last, as most in a program do.

        None unless it is the form of the values that its wildcards stand for then.
        """
        search = self.last
        if search is None or search.form.root.op.name != root.op.name:
            return None
        found = search.lay_straight(root)
        if found is None:
            binding = next(search.bindings(root), None)
            found = None if binding is None else make_match(search, root, binding)
        if found is None or self.form(found.bound) is not search.form:
            return None
        return found


def make_match(search: Search, root: Tensor, binding: Mapping[int, Any]) -> Match:
    """Return the match that a binding of all parts of a form says."""
    form = search.form
    bound = tuple([binding[x.serial] for x in form.leaves])
    place = search.place
    nodes, sources = [], []
    for p in form.nodes:
        node = binding[p.serial]
        straight, *swapped = search.orders(p, node)
        order = [a for a, _ in straight]
        if not all(search.agrees(binding, a, b) for a, b in straight):
            order = [a for a, _ in reversed(swapped[0])]
        read = [place.get(a.serial, -1) if isinstance(a, Tensor) else -1 for a in order]
        # Operands beyond the op's own are read for their lengths alone.
        read += [-1] * (len(node.inputs) - len(order))
        nodes.append(node)
        sources.append(tuple(read))
    return Match(root, bound, tuple(nodes), tuple(sources))


class Search:
    """The search for one form of a pattern in one program."""

    def __init__(
        self, form: PatternForm, allowed: Collection[int], text: str, *, exact: bool
    ) -> None:
        self.form = form
        self.allowed = allowed
        self.text = text
        #: Whether settings and constants must be equal, not the structure alone.
        self.exact = exact
        self.wild = {x.serial for x in form.leaves}
        #: The parts that may be read in two ways, with other nodes inside.
        self.turning = {
            x.serial
            for x in form.nodes
            if x.op.traits.commutative
            and any(
                isinstance(a, Tensor) and a.serial not in self.wild
                for a in own_inputs(x)
            )
        }
        #: Wildcards and parts by number.
        self.place = {x.serial: i for i, x in enumerate([*form.leaves, *form.nodes])}
        #: Which part of the pattern could stand where, wildcards left open.
        self.memo: dict[tuple[int, int], bool] = {}
        self.ways: dict[tuple[int, int], list[Pairs]] = {}
        self.fitting: dict[tuple[int, int], list[Pairs]] = {}

    def forget(self) -> None:
        """Drop what it knows of the nodes that it has looked at."""
        self.memo.clear()
        self.ways.clear()
        self.fitting.clear()

    def fits(self, p: Any, x: Any) -> bool:
        """Return whether a part of the pattern could stand at a value."""
        answer = self.check_known(p, x)
        if answer is not None:
            return answer
        stack = [(p, skip_identities(x))]
        while stack:
            p, x = stack[-1]
            fitting = False
            waiting: tuple[Any, Any] | None = None
            for pairs in self.orders(p, x):
                verdicts = [self.check_known(a, b) for a, b in pairs]
                if False in verdicts:
                    continue
                if None not in verdicts:
                    fitting = True
                    break
                waiting = waiting or pairs[verdicts.index(None)]
            if fitting or waiting is None:
                self.memo[p.serial, x.serial] = fitting
                stack.pop()
            else:
                stack.append((waiting[0], skip_identities(waiting[1])))
        return fitting

    def check_known(self, p: Any, x: Any) -> bool | None:
        """Return whether a pair fits; None if that depends on unchecked pairs."""
        if not isinstance(p, Tensor) or p.serial not in self.form.own:
            return self.constant(p, x)
        if p.serial in self.wild:
            return is_value(x)
        if not isinstance(x, Tensor):
            return False
        x = skip_identities(x)
        found = self.memo.get((p.serial, x.serial))
        if found is None and (p.op.name != x.op.name or x.serial not in self.allowed):
            return False
        return found

    def orders(self, p: Tensor, x: Tensor) -> list[Pairs]:
        """Return the ways in which the inputs of two nodes may belong together."""
        found = self.ways.get((p.serial, x.serial))
        if found is None:
            found = self.ways[p.serial, x.serial] = self._orders(p, x)
        return found

    def _orders(self, p: Tensor, x: Tensor) -> list[Pairs]:
        op, inputs, params = unwrap_deferred(p)
        inputs = tuple(map(skip_identities, inputs))
        other, operands, settings = unwrap_deferred(x)
        if len(inputs) != len(operands):
            return []
        if self.exact and not (
            (op is other or (op.maker == other.maker and not op.custom))
            and has_same_settings(params, settings)
        ):
            return []
        made: list[Pairs] = [tuple(zip(inputs, operands, strict=True))]
        # The other order of one value, in either of the two, is the same again.
        if (
            len(inputs) == 2
            and op.traits.commutative
            and not (is_same_value(*inputs) or is_same_value(*operands))
        ):
            made.append(((inputs[0], operands[1]), (inputs[1], operands[0])))
        return made

    @cached_property
    def visits(self) -> list[Visit]:
        """The places of the form in the order in which `lay_straight` looks at them."""
        visits: list[Visit] = []
        seen: set[int] = set()
        stack: list[tuple[Any, int, int]] = [(self.form.root, -1, 0)]
        while stack:
            p, reader, i = stack.pop()
            if not isinstance(p, Tensor) or p.serial not in self.form.own:
                visits.append(Visit("constant", p, -1, reader, i))
                continue
            place = self.place[p.serial]
            kind = "wildcard" if p.serial in self.wild else "op"
            if p.serial in seen:
                kind = "again"
            seen.add(p.serial)
            visits.append(Visit(kind, p, place, reader, i))
            if kind == "op":
                inputs = own_inputs(p)
                stack += [
                    (a, place, k) for k, a in reversed([*enumerate(inputs)])
                ]  # fmt: skip
        return visits

    @cached_property
    def sources(self) -> tuple[tuple[int, ...], ...]:
        """Where the operands of each op of the form come from."""
        return tuple(
            tuple(
                self.place.get(a.serial, -1) if isinstance(a, Tensor) else -1
                for a in own_inputs(p)
            )
            for p in self.form.nodes
        )

    def lay_straight(self, root: Tensor) -> Match | None:
        """Return the match of the first of the `bindings`, if all stands as written.

        It is found without trying orders, as most matches in a program are. None says
        nothing. Of an exact search.
        """
        allowed, sources = self.allowed, self.sources
        found: list[Any] = [None] * len(self.place)
        operands: dict[int, tuple[Any, ...]] = {}
        for kind, p, place, reader, i in self.visits:
            x = root if reader < 0 else operands[reader][i]
            if kind == "wildcard":
                if not is_value(x):
                    return None
                found[place] = x
            elif kind == "op":
                x = skip_identities(x)
                if not isinstance(x, Tensor) or x.serial not in allowed:
                    return None
                if p.op is not x.op and p.op.name != x.op.name:
                    return None
                op, inputs, params = unwrap_deferred(p)
                other, read, settings = unwrap_deferred(x)
                if (
                    len(inputs) != len(read)
                    or not (op is other or (op.maker == other.maker and not op.custom))
                    or not (params is settings or has_same_settings(params, settings))
                ):
                    return None
                found[place], operands[place] = x, read
            elif kind == "again":
                if not is_same_value(found[place], skip_identities(x)):
                    return None
            elif not self.constant(p, x):
                return None
        count = len(self.wild)
        nodes = tuple(found[count:])
        if [*map(len, sources)] != [len(x.inputs) for x in nodes]:
            # Operands beyond the op's own are read for their lengths alone.
            sources = tuple(
                s + (-1,) * (len(x.inputs) - len(s))
                for x, s in zip(nodes, sources, strict=True)
            )
        return Match(root, tuple(found[:count]), nodes, sources)

    def fitting_orders(self, p: Tensor, x: Tensor) -> list[Pairs]:
        """Return the ways in which the inputs of two nodes fit together."""
        found = self.fitting.get((p.serial, x.serial))
        if found is None:
            found = self.fitting[p.serial, x.serial] = [
                pairs
                for pairs in self.orders(p, x)
                if all(self.fits(a, b) for a, b in pairs)
            ]
        return found

    def constant(self, p: Any, x: Any) -> bool:
        """Return whether a constant of the pattern may stand at a value."""
        if isinstance(p, Tensor) or isinstance(x, Tensor):
            return p is x
        return is_equal_constant(p, x) if self.exact else is_value(p) == is_value(x)

    def agrees(self, binding: Mapping[int, Any], p: Any, x: Any) -> bool:
        """Return whether a pair belongs together under a binding."""
        if not isinstance(p, Tensor) or p.serial not in self.form.own:
            return self.constant(p, x)
        y = x if p.serial in self.wild else skip_identities(x)
        return is_same_value(binding.get(p.serial, MISSING), y)

    def has_one_reading(self, match: Match, exact: Search | None) -> bool:
        """Return whether a match in the same structure can surely be read in one way.

        That is so if in no turned order a part of the pattern meets its op.
        """
        if exact is None or exact.form.structure != self.form.structure:
            return False
        for k, parts in self.turns:
            operands = unwrap_deferred(match.nodes[k])[1]
            for i, name in parts:
                x = skip_identities(operands[i])
                if not isinstance(x, Tensor) or x.op.name != name:
                    break
            else:
                return False
        return True

    @cached_property
    def turns(self) -> list[tuple[int, list[tuple[int, str]]]]:
        """The `turning` parts by number, and the ops that their operands are.

        Each with the number of the operand that stands there in the other order.
        """
        return [
            (
                k,
                [
                    (len(inputs) - 1 - i, a.op.name)
                    for i, a in enumerate(inputs)
                    if isinstance(a, Tensor) and a.serial not in self.wild
                ],
            )
            for k, p in enumerate(self.form.nodes)
            if p.serial in self.turning
            for inputs in [own_inputs(p)]
        ]

    def other_readings(self, root: Tensor, first: Match) -> Iterator[tuple[Any, ...]]:
        """Yield other values of the wildcards at a node, with other nodes in the match.

        Of a product of two wildcards each is what stands in its place: the other order
        is no reading of its own.
        """
        placed = zip(self.form.nodes, first.nodes, strict=True)
        if not any(
            p.serial in self.turning and len(self.fitting_orders(p, node)) > 1
            for p, node in placed
        ):
            return
        inside = {node.serial for node in first.nodes}
        for binding in self.bindings(root, most=MOST_SECOND):
            if {binding[p.serial].serial for p in self.form.nodes} != inside:
                yield tuple([binding[x.serial] for x in self.form.leaves])

    def bind(self, root: Tensor) -> Iterator[tuple[Any, ...]]:
        """Yield what the wildcards stand for, for each way to lay the pattern."""
        for binding in self.bindings(root):
            yield tuple([binding[x.serial] for x in self.form.leaves])

    def bindings(
        self,
        root: Tensor,
        fixed: Mapping[int, Any] | None = None,
        most: int | None = None,
    ) -> Iterator[dict[int, Any]]:
        """Yield each way to lay the pattern over a node: values of parts by serial."""
        bound: dict[int, Any] = dict(fixed or {})
        trail: list[int] = []
        choices: list[tuple[Todo, int]] = [((self.form.root, root, None), 0)]
        steps = 0
        while choices:
            todo, size = choices.pop()
            while len(trail) > size:
                del bound[trail.pop()]
            while todo is not None:
                steps += 1
                if most is not None and steps > most:
                    return
                if steps > MOST_STEPS:
                    raise OverrideError(
                        f"{self.text} can be laid over"
                        f" {root.op.name} in too many ways, for its wildcards are read"
                        " often by ops whose arguments may stand in either order. Make"
                        " it smaller, or name the part by wb.subgraph(outputs, inputs)."
                    )
                p, x, todo = todo
                if not isinstance(p, Tensor) or p.serial not in self.form.own:
                    if not self.constant(p, x):
                        break
                    continue
                is_op = p.serial not in self.wild
                if is_op:
                    x = skip_identities(x)
                known = bound.get(p.serial, MISSING)
                if known is not MISSING:
                    if is_same_value(known, x):
                        continue
                    break
                if not is_op:
                    bound[p.serial] = x
                    trail.append(p.serial)
                    continue
                ways = self.fitting_orders(p, x)
                if not ways:
                    break
                bound[p.serial] = x
                trail.append(p.serial)
                rest = todo
                for pairs in reversed(ways):
                    todo = rest
                    for a, b in reversed(pairs):
                        todo = (a, b, todo)
                    if pairs is not ways[0]:
                        choices.append((todo, len(trail)))
            else:
                yield dict(bound)
