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
from typing import Any, NamedTuple

import numpy as np

from workbench.errors import OverrideError
from workbench.graph import types
from workbench.graph.tensor import Tensor
from workbench.ops import several
from workbench.rewrite.forms import Form, Forms, Kind, own_op, through

__all__ = ["COMMUTATIVE", "Match", "Matches", "find"]

#: Ops whose two arguments may stand in either order.
COMMUTATIVE = frozenset(
    "add multiply maximum minimum fmax fmin hypot logaddexp logaddexp2 equal not_equal"
    " logical_and logical_or logical_xor bitwise_and bitwise_or bitwise_xor".split()
)
#: As many steps a search at one node may take: wildcards that are read often, in
#: arguments of commutative ops, can be tried in very many ways.
MOST_STEPS = 20_000
_MISSING = object()

Pairs = tuple[tuple[Any, Any], ...]
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
    steps
        The nodes, each with where its inputs come from: a wildcard, or (counted on
        from these) an earlier step; -1 for a constant.
    """

    root: Tensor
    bound: tuple[Any, ...]
    steps: list[tuple[Tensor, tuple[int, ...]]]


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
    """

    found: list[Match]
    refused: int
    unlike: list[tuple[Tensor, Form]]
    forms: list[Form]


def find(
    forms: Forms,
    nodes: Sequence[Tensor],
    where: Callable[[Mapping[str, Any]], Any] | None = None,
) -> Matches:
    """Every place of a program where a pattern stands.

    Parameters
    ----------
    forms
        The pattern.
    nodes
        The nodes of the program; no other is part of a match.
    where
        A condition on what the wildcards stand for, by their names.
    """
    by_op: dict[str, list[Tensor]] = defaultdict(list)
    for node in nodes:
        by_op[node.op.name].append(node)
    known = forms.of(kinds_of(nodes))
    allowed = {node.serial for node in nodes}
    found: dict[int, Match] = {}
    unlike: dict[int, tuple[Tensor, Form]] = {}
    refused: set[int] = set()
    for form in known:
        search = Search(form, allowed, forms.text, exact=False)
        for root in by_op.get(form.root.op.name, ()):
            if root.serial in found or not search.fits(form.root, root):
                continue
            for binding in search.bindings(root):
                bound = tuple([binding[x.serial] for x in form.leaves])
                match = verified(forms, root, bound, allowed)
                if match is None:
                    unlike.setdefault(root.serial, (root, forms.at(bound) or form))
                elif where is not None and not where(named(forms.names, bound)):
                    refused.add(root.serial)
                else:
                    found[root.serial] = match
                    break
    return Matches(
        [found[serial] for serial in sorted(found)],
        len(refused.difference(found)),
        [pair for serial, pair in unlike.items() if serial not in found],
        known,
    )


def verified(
    forms: Forms, root: Tensor, bound: tuple[Any, ...], allowed: Collection[int]
) -> Match | None:
    """A match whose settings and constants are the pattern's too, or None."""
    form = forms.at(bound)
    if form is None or form.root.op.name != root.op.name:
        return None
    search = Search(form, allowed, forms.text, exact=True)
    fixed = {x.serial: y for x, y in zip(form.leaves, bound, strict=True)}
    if not search.fits(form.root, root):
        return None
    binding = next(search.bindings(root, fixed), None)
    if binding is None:
        return None
    place = {x.serial: i for i, x in enumerate([*form.leaves, *form.nodes])}
    steps = []
    for p in form.nodes:
        node = binding[p.serial]
        straight, *swapped = search.orders(p, node)
        order = [a for a, _ in straight]
        if not all(search.agrees(binding, a, b) for a, b in straight):
            order = [a for a, _ in reversed(swapped[0])]
        sources = [
            place.get(a.serial, -1) if isinstance(a, Tensor) else -1 for a in order
        ]
        # Operands beyond the op's own are read for their lengths alone.
        sources += [-1] * (len(node.inputs) - len(order))
        steps.append((node, tuple(sources)))
    return Match(root, bound, steps)


class Search:
    """The search for one form of a pattern in one program."""

    def __init__(
        self, form: Form, allowed: Collection[int], text: str, *, exact: bool
    ) -> None:
        self.form = form
        self.allowed = allowed
        self.text = text
        #: Whether settings and constants must be equal, not the structure alone.
        self.exact = exact
        self.wild = {x.serial for x in form.leaves}
        #: Which part of the pattern could stand where, wildcards left open.
        self.memo: dict[tuple[int, int], bool] = {}

    def fits(self, p: Any, x: Any) -> bool:
        """Whether a part of the pattern could stand at a value."""
        stack = [(p, x)]
        answer = False
        while stack:
            p, x = stack[-1]
            quick = self.quick(p, x)
            if isinstance(quick, bool):
                answer = quick
                stack.pop()
                continue
            key = p.serial, through(x).serial
            if key in self.memo:
                answer = self.memo[key]
                stack.pop()
                continue
            waiting: list[tuple[Any, Any]] = []
            fitting = False
            for pairs in quick:
                verdicts = [self.verdict(a, b) for a, b in pairs]
                if all(verdicts) and None not in verdicts:
                    fitting = True
                    break
                if False not in verdicts:
                    waiting += [
                        pair for pair, v in zip(pairs, verdicts, strict=True)
                        if v is None
                    ]  # fmt: skip
            if fitting or not waiting:
                self.memo[key] = answer = fitting
                stack.pop()
            else:
                stack.append(waiting[0])
        return answer

    def verdict(self, p: Any, x: Any) -> bool | None:
        """What is known of a pair; None if nothing yet."""
        quick = self.quick(p, x)
        if isinstance(quick, bool):
            return quick
        return self.memo.get((p.serial, through(x).serial))

    def quick(self, p: Any, x: Any) -> bool | list[Pairs]:
        """Whether a pair fits as far as one look tells; else in which orders it may."""
        if not isinstance(p, Tensor) or p.serial not in self.form.own:
            return self.constant(p, x)
        if p.serial in self.wild:
            return is_value(x)
        x = through(x)
        if not isinstance(x, Tensor) or x.serial not in self.allowed:
            return False
        if p.op.name != x.op.name:
            return False
        return self.orders(p, x) or False

    def orders(self, p: Tensor, x: Tensor) -> list[Pairs]:
        """The ways in which the inputs of two nodes may belong together."""
        op, inputs, params = own_op(p)
        other, operands, settings = own_op(x)
        if len(inputs) != len(operands):
            return []
        if self.exact and not (
            (op is other or (op.maker == other.maker and not op.custom))
            and same_settings(params, settings)
        ):
            return []
        made: list[Pairs] = [tuple(zip(inputs, operands, strict=True))]
        if len(inputs) == 2 and op.name in COMMUTATIVE:
            made.append(((inputs[0], operands[1]), (inputs[1], operands[0])))
        return made

    def constant(self, p: Any, x: Any) -> bool:
        """Whether a constant of the pattern may stand at a value."""
        if isinstance(p, Tensor) or isinstance(x, Tensor):
            return p is x
        return equal(p, x) if self.exact else is_value(p) == is_value(x)

    def agrees(self, binding: Mapping[int, Any], p: Any, x: Any) -> bool:
        """Whether a pair belongs together under a binding."""
        if not isinstance(p, Tensor) or p.serial not in self.form.own:
            return self.constant(p, x)
        y = x if p.serial in self.wild else through(x)
        return same(binding.get(p.serial, _MISSING), y)

    def bindings(
        self, root: Tensor, fixed: Mapping[int, Any] | None = None
    ) -> Iterator[dict[int, Any]]:
        """What each part of the pattern may be where it ends at a node, by serial."""
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
                if steps > MOST_STEPS:
                    raise OverrideError(
                        f"the pattern {self.text} can be laid over"
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
                    x = through(x)
                known = bound.get(p.serial, _MISSING)
                if known is not _MISSING:
                    if same(known, x):
                        continue
                    break
                if not is_op:
                    bound[p.serial] = x
                    trail.append(p.serial)
                    continue
                ways = [
                    pairs
                    for pairs in self.orders(p, x)
                    if all(self.fits(a, b) for a, b in pairs)
                ]
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


# Values


def kinds_of(nodes: Sequence[Tensor]) -> set[Kind]:
    """The ranks and kinds of numbers that a program has."""
    found: set[Kind] = set()
    for node in nodes:
        for x in (node, *node.inputs):
            if isinstance(x, Tensor):
                held = x._value
                if held is None:
                    held = x.spec
            else:
                held = x
            try:
                found.add((len(held.shape), held.dtype.kind))
            except (AttributeError, TypeError):
                if types.weak(held):
                    found.add((0, np.result_type(type(held)).kind))
    return {kind for kind in found if kind[1] in "fcbiu"}


def is_value(x: Any) -> bool:
    """Whether a wildcard may stand for it: one array or number."""
    if isinstance(x, Tensor):
        return several.parts(x) is None
    return types.weak(x) or (hasattr(x, "dtype") and hasattr(x, "shape"))


def same(a: Any, b: Any) -> bool:
    """Whether two places hold one value: the same Tensor, or equal constants."""
    if isinstance(a, Tensor) or isinstance(b, Tensor):
        return a is b or (a is not _MISSING and through(a) is through(b))
    return a is not _MISSING and equal(a, b)


def equal(a: Any, b: Any) -> bool:
    """Whether two constants are equal: numbers and arrays by shape and entries."""
    if a is b:
        return True
    if not (is_value(a) and is_value(b)):
        return type(a) is type(b) and bool(a == b)
    if types.spec_of(a).shape != types.spec_of(b).shape:
        return False
    found = a == b
    return bool(found if types.weak(found) else found.all())


def same_settings(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    """Whether two nodes of an op have the same settings."""
    if a.keys() != b.keys():
        return False
    try:
        return all(
            x is b[key] or (type(x) is type(b[key]) and bool(x == b[key]))
            for key, x in a.items()
        )
    except (TypeError, ValueError):
        return False


def named(names: Sequence[str], bound: Sequence[Any]) -> dict[str, Any]:
    """What the wildcards stand for, by name; a Python number as an array."""
    return {
        name: np.asarray(x) if types.weak(x) else x  # host array: a number
        for name, x in zip(names, bound, strict=True)
    }
