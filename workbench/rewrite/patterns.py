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
from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from functools import cache, cached_property
from typing import Any, NamedTuple

from workbench.core import types
from workbench.core.op import OPS, Op
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
    number_of,
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
    unlike: dict[int, tuple[Tensor, PatternForm]] = {}
    refused: set[int] = set()
    found: dict[int, Match] = {}

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
    for form in known:
        matcher = Matcher(form, forms.text, allowed, settings=False, constants=False)
        for root in by_op.get(form.root.op.name, ()):
            if root.serial in found:
                continue
            ways = matcher.find_ways(root)
            for binding in matcher.lay(root, ways):
                bound = matcher.list_bound(binding)
                exact = forms.form_at(bound)
                if exact is None or not matcher.has_details(binding, exact):
                    unlike.setdefault(root.serial, (root, exact or form))
                elif accepts(root, bound):
                    found[root.serial] = matcher.make_match(root, binding)
                    break
            if root.serial in found and matcher.may_turn(ways):
                first = found[root.serial]
                inside = {node.serial for node in first.nodes}
                for binding in matcher.lay(root, ways, most=MOST_SECOND):
                    # Of a product of two wildcards each is what stands in its place:
                    # the other order is no reading of its own.
                    values = binding.values
                    if {values[p.serial].serial for p in form.nodes} == inside:
                        continue
                    bound = matcher.list_bound(binding)
                    exact = forms.form_at(bound)
                    if exact is None or not matcher.has_details(binding, exact):
                        continue
                    if accepts(root, bound):
                        found[root.serial] = first._replace(other=bound)
                        break
    return Matches(
        [found[serial] for serial in sorted(found)],
        len(refused.difference(found)),
        [pair for serial, pair in unlike.items() if serial not in found],
        known,
        misfits,
    )


def fit_ranks(names: Sequence[str], bound: Sequence[Any], ranks: Ranks | None) -> bool:
    """Return whether the values of the wildcards have the allowed ranks."""
    return not ranks or all(
        name not in ranks or len(types.spec_of(x).shape) in ranks[name]
        for name, x in zip(names, bound, strict=True)
    )


#: What an operand is, told without what it is computed from: its op by name, a number
#: that some pattern names, `NUMBER`, or None of another constant.
Kind = str | complex | None
#: The name of an op, the kinds of its operands, and how the last two relate.
Kinds = tuple[Any, ...]
NUMBER = "number"
#: Of two operands one is computed from the other, or both are one value.
READ, SAME = 1, 2


#: What patterns are found by at a node: what it is as it is written, and as it is read
#: in one spelling, where that is something else.
Description = tuple[Kinds, Kinds | None]


@cache
def list_spellings(name: str) -> frozenset[str]:
    """Return the names of the ops that are read as one op, itself among them."""
    spellings = ((op.name, op.traits.spelling) for op in OPS.values())
    return frozenset(
        {name, *[x for x, spelling in spellings if spelling and spelling.op == name]}
    )


def describe_node(node: Tensor, numbers: Collection[complex]) -> Description:
    """Return a description of a node's op and its operands.

    ``numbers`` are those that the patterns name.
    """
    op = node.op
    written = describe_operands(op.name, node.inputs, numbers)
    spelling = op.traits.spelling
    if spelling is None:
        return written, None
    read = spelling.read(*map(skip_identities, node.inputs))
    if read is None:
        return written, None
    return written, describe_operands(spelling.op, read, numbers)


def describe_operands(
    name: str, operands: Iterable[Any], numbers: Collection[complex]
) -> Kinds:
    """Return the kinds of operands, behind the name of their op."""
    kinds: list[Kind | int] = [name]
    before = x = None
    for operand in operands:
        before, x = x, skip_identities(operand)
        if isinstance(x, Tensor):
            kinds.append(x.op.name)
        else:
            number = number_of(x)
            kinds.append(number if number is None or number in numbers else NUMBER)
    kinds.append(_relate(before, x))
    return tuple(kinds)


def _relate(a: Any, b: Any) -> int:
    """Return how the last two operands relate; of constants, how they may at most."""
    if a is b:
        return SAME
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        for y in a.inputs:
            if y is b or skip_identities(y) is b:
                return READ
        for y in b.inputs:
            if y is a or skip_identities(y) is a:
                return READ
        return 0
    return READ if isinstance(a, Tensor) or isinstance(b, Tensor) else SAME


#: The orders of a node's operands in which each may stand for one of a part, by the
#: serials of part and node.
Ways = dict[tuple[int, int], list[Pairs]]


class Binding(NamedTuple):
    """One way to lay a form over a node.

    Attributes
    ----------
    values
        What stands for each wildcard and part, by its serial.
    orders
        The operands of each part with those that stand for them.
    """

    values: dict[int, Any]
    orders: dict[int, Pairs]


#: A part as it is compared: its op, operands and settings.
Reading = tuple[Op, tuple[Any, ...], Mapping[str, Any]]


class Matcher:
    """Lays one form of a pattern over nodes of a program.

    Parameters
    ----------
    form
        The form.
    text
        What errors call the pattern.
    allowed
        The serials of the nodes that may be part of a match. None: all.
    settings, constants
        Whether these must be equal, not the structure alone.
    is_canonical
        Whether form and program are both read in one spelling (`Spelling`): `x * x` for
        `x**2` and `square(x)`, `x - 1` for `x + -1`. Neither is changed by it.
    scalars
        The wildcards that stand for numbers alone.
    skip
        Returns an operand before the steps that count for nothing.
    is_same
        Returns whether one wildcard may stand for two operands.
    """

    def __init__(
        self,
        form: PatternForm,
        text: str,
        allowed: Collection[int] | None = None,
        *,
        settings: bool = True,
        constants: bool = True,
        is_canonical: bool = False,
        scalars: Collection[str] = (),
        skip: Callable[[Any], Any] = skip_identities,
        is_same: Callable[[Any, Any], bool] = is_same_value,
    ) -> None:
        self.form = form
        self.text = text
        self.allowed = allowed
        self.settings = settings
        self.constants = constants
        self.is_canonical = is_canonical
        self.skip = skip
        self.is_same = is_same
        self.wild = {x.serial: x.name in scalars for x in form.leaves}
        self.parts: dict[int, Reading] = {}
        for p in form.nodes:
            op, operands, params = self.read(p)
            self.parts[p.serial] = op, tuple(map(self.skip, operands)), params
        #: Which operands of each part are parts themselves.
        self.below = {
            serial: [
                i for i, a in enumerate(inputs)
                if isinstance(a, Tensor) and a.serial in self.parts
            ]
            for serial, (_, inputs, _) in self.parts.items()
        }  # fmt: skip
        #: The parts with operands that may stand in either order.
        self.turning = {
            serial for serial, (op, inputs, _) in self.parts.items()
            if len(inputs) == 2 and op.traits.commutative and not is_same_value(*inputs)
        }  # fmt: skip
        #: How the last two operands of the whole relate at least.
        self.relation = self._find_relation(*self.parts[form.root.serial][1][-2:])
        #: The names of the ops that may stand for each part.
        self.names = {
            serial: list_spellings(op.name) if is_canonical else {op.name}
            for serial, (op, _, _) in self.parts.items()
        }
        #: Those that may stand for the whole.
        self.roots = self.names[form.root.serial]

    def _find_relation(self, a: Any, b: Any = None) -> int:
        if a is b:
            return SAME
        readers = [(x, y) for x, y in ((a, b), (b, a)) if isinstance(x, Tensor)]
        return READ if any(
            z is y for x, y in readers if x.serial in self.parts
            for z in self.parts[x.serial][1]
        ) else 0  # fmt: skip

    def read(self, x: Tensor) -> Reading:
        """Return the op, operands and settings of a node or a part."""
        op, operands, params = x.op, x.operands, x.settings
        if self.is_canonical and op.traits.spelling is not None:
            found = op.traits.spelling.read(*map(self.skip, operands))
            if found is not None:
                return OPS[op.traits.spelling.op], found, params
        return op, operands, params

    def _is_read_as(self, x: Tensor, p: Tensor) -> bool:
        return self.read(x)[0].name == self.parts[p.serial][0].name

    def may_stand(self, p: Any, x: Any) -> bool:
        """Return whether a value may stand for a part, regardless of its operands."""
        if not isinstance(p, Tensor) or p.serial not in self.form.own:
            x = self.skip(x)
            if isinstance(p, Tensor) or isinstance(x, Tensor):
                return p is x
            if self.constants:
                return is_equal_constant(p, x)
            return is_value(p) == is_value(x)
        names = self.names.get(p.serial)
        if names is None:  # a wildcard
            if self.wild[p.serial] and number_of(x) is None:
                return False
            return is_value(x)
        x = self.skip(x)
        return (
            isinstance(x, Tensor)
            and x.op.name in names
            and (self.allowed is None or x.serial in self.allowed)
            and (not self.is_canonical or self._is_read_as(x, p))
        )

    def list_orders(self, p: Tensor, x: Tensor) -> list[Pairs]:
        """Return the orders in which operands of a node may stand for those of a part.

        What they are computed from is not looked at.
        """
        op, inputs, params = self.parts[p.serial]
        other, operands, settings = self.read(x)
        if len(inputs) != len(operands):
            return []
        if self.settings and not (
            is_same_op(op, other) and has_same_settings(params, settings)
        ):
            return []
        found = []
        if self._may_stand_all(inputs, operands):
            found.append(tuple(zip(inputs, operands, strict=True)))
        if p.serial in self.turning:
            turned = operands[::-1]
            # The other order of one value is the same again.
            if self._may_stand_all(inputs, turned) and not is_same_value(*operands):
                found.append(tuple(zip(inputs, turned, strict=True)))
        return found

    def _may_stand_all(self, parts: Sequence[Any], values: Sequence[Any]) -> bool:
        for p, x in zip(parts, values, strict=True):
            if not self.may_stand(p, x):
                return False
        return True

    def may_start(self, described: Description) -> bool:
        """Return whether the form may stand at a node with this description."""
        op, inputs, _ = self.parts[self.form.root.serial]
        written, read = described
        name, *given, relation = (read or written) if self.is_canonical else written
        if name != op.name or len(inputs) != len(given) or relation < self.relation:
            return False
        orders = [given, given[::-1]] if op.traits.commutative else [given]
        return any(all(map(self._fits_kind, inputs, order)) for order in orders)

    def _fits_kind(self, p: Any, kind: Any) -> bool:
        """Return whether an operand of this kind may stand for a part."""
        if not isinstance(p, Tensor):
            return bool(number_of(p) == kind)
        if p.serial in self.parts:
            return kind in self.names[p.serial]
        return not self.wild.get(p.serial) or kind == NUMBER or type(kind) is complex

    def find_ways(self, root: Tensor) -> Ways:
        """Return how the parts could stand at a node and below, wildcards left open.

        Each pair of a part and a node is looked at once, however many orders lead to
        it; where an order is left of each, there is one of all.
        """
        ways: Ways = {}
        first = self.form.root, root
        waiting = [first] if self.may_stand(*first) else []
        for p, x in waiting:
            key = p.serial, x.serial
            if key in ways:
                continue
            ways[key] = orders = self.list_orders(p, x)
            waiting += [
                (pairs[i][0], self.skip(pairs[i][1]))
                for pairs in orders
                for i in self.below[p.serial]
            ]
        for key in sorted(ways):  # operands before what reads them
            below = self.below[key[0]]
            if below and ways[key]:
                ways[key] = [
                    pairs
                    for pairs in ways[key]
                    if all(
                        ways[pairs[i][0].serial, self.skip(pairs[i][1]).serial]
                        for i in below
                    )
                ]
        return ways

    def may_turn(self, ways: Ways) -> bool:
        """Return whether a part with other parts below could be read in two orders."""
        return any(len(ways[key]) > 1 and self.below[key[0]] for key in ways)

    def lay(
        self, root: Tensor, ways: Ways | None = None, most: int | None = None
    ) -> Iterator[Binding]:
        """Yield each way to lay the form over a node.

        Parameters
        ----------
        root
            The node.
        ways
            What `find_ways` has found there.
        most
            End after so many steps, without an error.
        """
        ways = self.find_ways(root) if ways is None else ways
        if not ways.get((self.form.root.serial, root.serial)):
            return
        values: dict[int, Any] = {}
        orders: dict[int, Pairs] = {}
        trail: list[int] = []
        todo: Todo = (self.form.root, root, None)
        #: Other orders of some parts: what is left then, and how many values are known.
        choices: list[tuple[int, Pairs, Todo, int]] = []
        steps = 0
        while True:
            while todo is not None:
                steps += 1
                if steps > (most or MOST_STEPS):
                    if most is not None:
                        return
                    raise OverrideError(
                        f"{self.text} can be laid over"
                        f" {root.op.name} in too many ways, for its wildcards are read"
                        " often by ops whose arguments may stand in either order. Make"
                        " it smaller, or name the part by wb.subgraph(outputs, inputs)."
                    )
                p, x, todo = todo
                is_op = p.serial in self.parts
                if is_op:
                    x = self.skip(x)
                known = values.get(p.serial, MISSING)
                if known is not MISSING:
                    if self.is_same(known, x):
                        continue
                    break
                values[p.serial] = x
                trail.append(p.serial)
                if not is_op:
                    continue
                first, *others = ways[p.serial, x.serial]
                for pairs in reversed(others):
                    choices.append((p.serial, pairs, todo, len(trail)))
                orders[p.serial] = first
                todo = self._add_pairs(first, todo)
            else:
                yield Binding(dict(values), dict(orders))
            if not choices:
                return
            serial, pairs, todo, size = choices.pop()
            while len(trail) > size:
                del values[trail.pop()]
            orders[serial] = pairs
            todo = self._add_pairs(pairs, todo)

    def _add_pairs(self, pairs: Pairs, todo: Todo) -> Todo:
        """Return the pairs still to compare, with new pairs of wildcards and parts."""
        for a, b in reversed(pairs):
            if isinstance(a, Tensor) and a.serial in self.form.own:
                todo = (a, b, todo)
        return todo

    def list_bound(self, binding: Binding) -> tuple[Any, ...]:
        """Return the values of the wildcards, in their order."""
        return tuple([binding.values[x.serial] for x in self.form.leaves])

    def has_details(self, binding: Binding, exact: PatternForm) -> bool:
        """Return whether the matched nodes have the settings and constants of a form.

        These are those of ``exact``, the form for the shapes and dtypes of the
        wildcards' values: a function may record other settings for other shapes.
        """
        if exact.structure != self.form.structure:
            return False
        values, orders = binding
        for p, (op, params, constants) in zip(
            self.form.nodes, exact.details, strict=True
        ):
            node = values[p.serial]
            if not is_same_op(op, node.op):
                return False
            if not has_same_settings(params, node.settings):
                return False
            for i, a in constants:
                x = self.skip(orders[p.serial][i][1])
                if not (a is x if isinstance(a, Tensor) else is_equal_constant(a, x)):
                    return False
        return True

    def make_match(self, root: Tensor, binding: Binding) -> Match:
        """Return the match that values of all parts are."""
        values, orders = binding
        nodes, sources = [], []
        for p in self.form.nodes:
            node, pairs = values[p.serial], orders[p.serial]
            read = self.sources[p.serial]
            if len(read) == 2 and pairs[0][1] is not node.operands[0]:
                read = read[::-1]
            nodes.append(node)
            sources.append(read)
        return Match(root, self.list_bound(binding), tuple(nodes), tuple(sources))

    @cached_property
    def sources(self) -> dict[int, tuple[int, ...]]:
        """The source of each operand of each part, as in `Match`."""
        numbers = [*self.form.leaves, *self.form.nodes]
        place = {x.serial: i for i, x in enumerate(numbers)}
        return {
            serial: tuple([place.get(getattr(a, "serial", -1), -1) for a in inputs])
            for serial, (_, inputs, _) in self.parts.items()
        }


def is_same_op(a: Op, b: Op) -> bool:
    """Return whether two ops are one, or made alike for each node."""
    return a is b or (a.maker == b.maker and not a.custom)
