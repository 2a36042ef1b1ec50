"""Roots: values that have a kink where their squares are smooth, as lengths have.

At 0 a norm has no derivative, and ``norm(x)**2`` has that of ``sum(x*x)``. The rules of
the two nodes cannot tell: what the square passes to the norm is ``2 * norm(x)``, which
is 0 there, and its next derivative meets an infinite one. So a sweep that is recorded,
and may be differentiated again, carries the cotangent of such a value as
``slope * root``, and its tangent as ``half / root``: the root cancels where the other
one is multiplied by it. What an op does is told by its row: whether it is a `Root`,
whether it ``carries`` one on, whether it is ``even`` in its operand or a product that
``pairs`` two.

Each node stays in its place, with its cotangent: overrides hold as everywhere, and a
node that has one is no root.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from workbench.autodiff.steps import Mode, Part, Rules, is_ruled, outputs_of
from workbench.core import dims
from workbench.core.deferred import measure_lengths
from workbench.core.op import Root
from workbench.core.residuals import is_released
from workbench.core.tensor import IDENTITY, ON_HOST, Tensor, apply, value_of
from workbench.core.types import Params, is_weak
from workbench.ops.define import Rule, shape_of
from workbench.ops.elementwise import divide_by_length

#: Two expressions with more nodes than this are not compared.
MOST_COMPARED = 1000


class RootCotangent(tuple[Any, Any]):
    """The cotangent ``slope * root + rest`` of a value that carries a root.

    ``rest`` is None where all of it comes from even functions of the root.
    """

    __slots__ = ()
    __array_ufunc__ = None  # arrays leave a sum to it

    def __new__(cls, slope: Any, rest: Any) -> RootCotangent:
        """Return it; either part may be None."""
        return super().__new__(cls, (slope, rest))

    def __add__(self, other: Any) -> RootCotangent:
        given = other if type(other) is RootCotangent else (None, other)
        return RootCotangent(*map(add_parts, self, given))

    __radd__ = __add__

    def map_parts(self, function: Callable[[Any], Any]) -> RootCotangent:
        """Return the same with a function of either part."""
        return RootCotangent(*[None if c is None else function(c) for c in self])


class RootTangent(tuple[Any, Any, Any]):
    """The tangent ``factor * half / root + rest`` of a value that carries a root.

    ``half`` is the tangent of half the square of the root. The third entry is the whole
    tangent, in one, None where nobody reads it.
    """

    __slots__ = ()

    def __new__(cls, half: Any, rest: Any, whole: Any) -> RootTangent:
        """Return it; ``rest`` and ``whole`` may be None."""
        return super().__new__(cls, (half, rest, whole))

    def map_parts(self, function: Callable[[Any], Any]) -> RootTangent:
        """Return the same with a function of each entry."""
        return RootTangent(*[None if t is None else function(t) for t in self])

    def move(self, t: Any) -> RootTangent:
        """Return the same with another tangent added."""
        half, rest, whole = self
        return RootTangent(
            half, add_parts(rest, t), None if whole is None else whole + t
        )


def add_parts(a: Any, b: Any) -> Any:
    """Return the sum of two, either of which may be None."""
    return b if a is None else a if b is None else a + b


def multiply(a: Any, factor: Any) -> Any:
    """Return a product, where the factor may be the number 1."""
    return a if type(factor) is int and factor == 1 else a * factor


class Carrier:
    """A node that is a root, entries of a root, or these times a smooth factor.

    Attributes
    ----------
    node
        The node.
    place
        Which operand brings the root; None: it is a root itself.
    parent
        What that operand is.
    joined
        The operands that carry roots, of a node that puts several together; it is to
        its readers the root that it carries.
    """

    __slots__ = (
        "_factor", "_root", "joined", "node", "parent", "place", "recorded",
    )  # fmt: skip

    def __init__(
        self,
        node: Tensor,
        recorded: bool,
        place: int | None = None,
        parent: Carrier | None = None,
        joined: tuple[int, ...] = (),
    ) -> None:
        self.node, self.place, self.parent = node, place, parent
        self.joined, self.recorded = joined, recorded
        self._factor: Any = None
        self._root: Any = None

    @property
    def inputs(self) -> tuple[Any, ...]:
        """The operands in the form that a rule reads: Tensors if recorded."""
        node = self.node
        if not self.recorded:
            return measure_lengths(node.args, node.params)[0]
        return node.operands

    @property
    def params(self) -> Params:
        """The settings of the op, with the lengths of these operands."""
        node = self.node
        given = node.inputs if self.recorded else node.args
        return measure_lengths(given, node.params)[1]

    @property
    def value(self) -> Any:
        """The result in the form that a rule reads."""
        return outputs_of(self.node) if self.recorded else self.node._value

    def factor(self) -> Any:
        """Return the node over the root: 1, or a factor that broadcasts to the node."""
        if self._factor is None:
            found = 1 if self.parent is None else self.parent.factor()
            if self.parent is not None and (
                self.node.op.elementwise or not is_weak(found)
            ):
                found = self._apply_to(found)
            self._factor = found
        return self._factor

    def root(self) -> Any:
        """Return the root, in the shape that the node carries."""
        if self._root is None:
            if self.parent is None or is_one(self.factor()):
                self._root = self.value
            elif self.node.op.elementwise:
                self._root = self.parent.root()
            else:
                self._root = self._apply_to(self.parent.root())
        return self._root

    def _apply_to(self, operand: Any) -> Any:
        node, place = self.node, self.place
        assert place is not None
        if is_one(operand) and node.op.pairs is not None:
            return self.inputs[1 - place]  # 1 * x
        if not node.op.elementwise:
            operand = fill_shape(operand, self.inputs[place])
        return apply(node.op, self.replace(place, operand), self.params)

    @property
    def root_rules(self) -> Root | None:
        """The rules of half its square, of a node that is a root itself."""
        return find_root(self.node)

    def replace(self, place: int, operand: Any) -> tuple[Any, ...]:
        """Return the operands of the node with another one in a place."""
        return (*self.inputs[:place], operand, *self.inputs[place + 1 :])

    def pull(
        self, mask: int, g: Any, inputs: tuple[Any, ...] | None = None
    ) -> list[Any]:
        """Return the cotangents by the op's rule, one entry per operand."""
        node = self.node
        given = self.inputs if inputs is None else inputs
        passed: list[Any] = [None] * len(given)
        if mask:
            pull = node.op.pull
            assert pull is not None  # it has a slope
            made = pull(mask, g, self.value, given, self.params)
            passed[: len(made)] = made
        return [c if mask >> k & 1 else None for k, c in enumerate(passed)]

    def push(self, tangents: Sequence[Any]) -> Any:
        """Return the tangent by the op's rule, from plain tangents."""
        push = self.node.op.push
        assert push is not None  # what a row that tells of roots has
        return push(tuple(tangents), self.value, self.inputs, self.params)

    def scale(self, g: Any) -> Any:
        """Return ``g`` times the slope of an even function over its operand."""
        even = self.node.op.even
        scale = even and even(self.inputs)
        assert scale is not None
        return scale(g)

    def find_origin(self) -> tuple[Carrier, list[Carrier]]:
        """Return the root, and the carriers that move its entries, the last first."""
        moves: list[Carrier] = []
        found = self
        while found.parent is not None:
            if not found.node.op.elementwise:
                moves.append(found)
            found = found.parent
        return found, moves


def find_root(node: Tensor) -> Root | None:
    """Return the `Root` in the op's row, if the node is a real root; else None."""
    root = node.op.root
    if root is None or node.dtype.kind != "f" or not root.holds(node.inputs):
        return None
    return root


def fill_shape(x: Any, like: Any) -> Any:
    """Return ``x``, broadcast to the shape of an operand."""
    shape = shape_of(like)
    same = dims.is_same_shape(shape_of(x), shape)
    return x if same else np.broadcast_to(x, shape)


def is_one(x: Any) -> bool:
    """Return whether a factor is the integer 1, which changes nothing."""
    return type(x) is int and x == 1


class Roots:
    """The roots of a program that even functions read, for one sweep.

    Attributes
    ----------
    carriers
        By serial, the nodes whose cotangents and tangents are told by their root.
    evens
        By serial, the nodes that are even in a root, with the places of the operands
        that carry it.
    """

    def __init__(
        self,
        steps: Sequence[tuple[Tensor, int]],
        outputs: Sequence[Any],
        rules: Rules,
        mode: Mode,
        is_recorded: Callable[[Tensor], bool],
    ) -> None:
        self.carriers: dict[int, Carrier] = {}
        self.evens: dict[int, tuple[int, ...]] = {}
        self.is_recorded = is_recorded
        for node, mask in steps:
            if not isinstance(node, Part) and not is_ruled(node.serial, rules, mode):
                self._look_at(node, mask)
        self._keep_used(steps, outputs)

    def _look_at(self, node: Tensor, mask: int) -> None:
        """Note the role of a node; its inputs were visited before."""
        op, carriers = node.op, self.carriers
        root = find_root(node)
        if root is not None:
            carriers[node.serial] = Carrier(node, self.is_recorded(node))
            if not root.squares:
                return
            places = tuple([k for k, x in enumerate(node.operands) if self._find(x)])
            if places:
                self.evens[node.serial] = places
            return
        if not carriers:
            return
        if op.even is not None and self._find(node.inputs[0]):
            if not mask & 2 and op.even(node.inputs) is not None:
                self.evens[node.serial] = (0,)
            return
        if op.pairs is not None and len(node.inputs) > 1:
            a, b = map(self._find, node.inputs[:2])
            if a and b and op.pairs(node.operands, node.settings) and are_equal(a, b):
                self.evens[node.serial] = (0, 1)
                return
        if op.joins is not None:
            if node.dtype.kind != "f":
                return
            places = tuple([k for k, x in enumerate(node.operands) if self._find(x)])
            if places and places[0] >= op.joins:
                carriers[node.serial] = Carrier(
                    node, self.is_recorded(node), joined=places
                )
            return
        for k in op.carries:
            parent = self._find(node.inputs[k])
            if parent is not None:
                carriers[node.serial] = Carrier(node, self.is_recorded(node), k, parent)
                return

    def _find(self, x: Any) -> Carrier | None:
        return self.carriers.get(x.serial) if isinstance(x, Tensor) else None

    def _keep_used(
        self, steps: Sequence[tuple[Tensor, int]], outputs: Sequence[Any]
    ) -> None:
        """Keep used carriers alone; find the nodes that need whole tangents."""
        carriers, evens = self.carriers, self.evens
        used: set[int] = set()
        whole = {x.serial for x in outputs if isinstance(x, Tensor)}
        for node, _ in reversed(steps):
            serial = node.serial
            own = carriers.get(serial) if serial in used else None
            places = evens.get(serial, ())
            passes = False
            if own is not None and own.root_rules is None:
                places = own.joined if own.place is None else (own.place,)
                passes = serial in whole
            for k, x in enumerate(node.inputs):
                if not isinstance(x, Tensor):
                    continue
                if k in places:
                    used.add(x.serial)
                    if passes:
                        whole.add(x.serial)
                else:
                    whole.add(x.serial)
        self.carriers = {s: x for s, x in carriers.items() if s in used}
        self.whole = whole

    def __contains__(self, node: Tensor) -> bool:
        return node.serial in self.evens or node.serial in self.carriers

    def make_dense(self, g: Any, node: Tensor) -> Any:
        """Return the cotangent of a node as one array."""
        if type(g) is not RootCotangent:
            return g
        slope, rest = g
        if slope is not None:
            rest = add_parts(slope * self.carriers[node.serial].root(), rest)
        return rest

    def name_rule(self, node: Tensor, g: Any = None) -> str | None:
        """Return the text of a root's rule, if even functions alone read the root."""
        root = node.op.root
        if root is None or node.serial not in self.carriers:
            return None
        if type(g) is RootCotangent:
            needs_rule = g[1] is not None
        else:
            needs_rule = g is not None or node.serial in self.whole
        return None if needs_rule else root.rule

    # Reverse mode

    def pull(self, mask: int, g: Any, node: Tensor) -> list[Any]:
        """Return the cotangents of a node; a carrying operand gets one by the root."""
        slope, rest = g if type(g) is RootCotangent else (None, g)
        here = self._see(node)
        if here.root_rules is not None:
            return self._pull_root(mask, slope, rest, here, here.root_rules.pull)
        if node.serial in self.evens:
            return self._pull_even(mask, g, here)
        if slope is None:
            return here.pull(mask, rest)
        place = here.place
        if place is None:
            return self._pull_joined(mask, slope, rest, here)
        passed = here.pull(mask & ~(1 << place), self.make_dense(g, node))
        passed[place] = RootCotangent(
            here.pull(1 << place, slope)[place],
            None if rest is None else here.pull(1 << place, rest)[place],
        )
        return passed

    def _pull_root(
        self, mask: int, slope: Any, rest: Any, here: Carrier, pull: Rule
    ) -> list[Any]:
        """Return the cotangents of a root; ``y dy`` is smooth where ``dy`` is not."""
        y, inputs, params = here.value, here.inputs, here.params
        places = self._find_places(here.node, mask)
        others = mask & ~sum(1 << k for k in places)
        passed: list[Any] = [None] * len(inputs)
        if others and slope is not None:
            passed = [*pull(others, slope, y, inputs, params)]
        if others and rest is not None:
            passed = list(map(add_parts, passed, here.pull(others, rest)))
        if not places:
            return passed
        # Its operands enter as squares: even functions of what they carry.
        if rest is not None:
            slope = add_parts(slope, divide_by_length(rest, y))
        for k in places:
            factors = here.replace(k, self._fill_factor(here, k))
            made = pull(1 << k, slope, y, factors, params)[k]
            passed[k] = RootCotangent(made, None)
        return passed

    def _pull_joined(
        self, mask: int, slope: Any, rest: Any, here: Carrier
    ) -> list[Any]:
        """Return the cotangents of a node that joins values."""
        passed = here.pull(mask, slope)
        others = [None] * len(passed) if rest is None else here.pull(mask, rest)
        for k, (c, other) in enumerate(zip(passed, others, strict=True)):
            if c is not None and k in here.joined:
                c = multiply(c, self._factor_of(here.node, k))
                passed[k] = RootCotangent(c, other)
            elif c is not None:
                passed[k] = add_parts(c * here.inputs[k], other)
        return passed

    def _pull_even(self, mask: int, g: Any, here: Carrier) -> list[Any]:
        """Return the cotangents of an even function: products with the root."""
        node, op = here.node, here.node.op
        places = self._find_places(node, mask)
        passed = here.pull(mask & ~sum(1 << k for k in places), g)
        for k in places:
            if op.even is not None:
                slope = multiply(here.scale(g), self._factor_of(node, k))
            elif op.elementwise:
                slope = multiply(g, self._factor_of(node, 1 - k))
            else:
                factors = here.replace(1 - k, self._fill_factor(here, 1 - k))
                slope = here.pull(1 << k, g, factors)[k]
            passed[k] = RootCotangent(slope, None)
        return passed

    # Forward mode

    def push(self, tangents: Sequence[Any], node: Tensor) -> Any:
        """Return the tangent of a node, by the roots that its operands carry."""
        here, serial = self._see(node), node.serial
        plain = [self.make_plain(t) for t in tangents]
        needs_whole = serial in self.whole
        if here.root_rules is not None:
            half = self._push_root(tangents, here, here.root_rules.push)
            whole = None
            if serial in self.evens:
                whole = divide_by_length(half, here.value)
            elif needs_whole:
                whole = here.push(plain)
            is_read = serial in self.carriers
            return RootTangent(half, None, whole) if is_read else whole
        if serial in self.evens:
            return self._push_even(tangents, here)
        place = here.place
        if place is None:
            whole = here.push(plain) if needs_whole else None
            return RootTangent(self._push_joined(tangents, here), None, whole)
        arriving = tangents[place]
        if type(arriving) is not RootTangent:
            return here.push(plain)
        half, rest, _ = arriving
        if not here.node.op.elementwise:
            half = fill_shape(half, here.inputs[place])
            alone = [half if k == place else None for k in range(len(tangents))]
            half = here.push(alone)
        moved = [rest if k == place else t for k, t in enumerate(plain)]
        rest = here.push(moved) if any(t is not None for t in moved) else None
        return RootTangent(half, rest, here.push(plain) if needs_whole else None)

    def _push_root(self, tangents: Sequence[Any], here: Carrier, push: Rule) -> Any:
        """Return the tangent of half the square of a root."""
        params = here.params
        rests = [t[1] if type(t) is RootTangent else t for t in tangents]
        half = None
        if any(t is not None for t in rests):
            half = push(tuple(rests), here.value, here.inputs, params)
        for k, t in enumerate(tangents):
            if type(t) is RootTangent:
                factor = self._fill_factor(here, k)
                alone: list[Any] = [None] * len(tangents)
                alone[k] = multiply(t[0], factor)
                made = push(tuple(alone), here.value, here.replace(k, factor), params)
                half = add_parts(half, made)
        return half

    def _push_joined(self, tangents: Sequence[Any], here: Carrier) -> Any:
        """Return the tangents of half the squares of the joined values."""
        halves: list[Any] = []
        for k, (t, x) in enumerate(zip(tangents, here.inputs, strict=True)):
            half, rest = t[:2] if type(t) is RootTangent else (None, t)
            if half is not None:
                factor = self._factor_of(here.node, k)
                half = multiply(multiply(half, factor), factor)
            halves.append(add_parts(half, None if rest is None else x * rest))
        return here.push(halves)

    def _push_even(self, tangents: Sequence[Any], here: Carrier) -> Any:
        """Return the tangent of an even function, in which the root cancels."""
        node, op = here.node, here.node.op
        rests = [t[1] if type(t) is RootTangent else t for t in tangents]
        total = None
        if op.even is not None and rests[0] is not None:
            total = here.scale(rests[0]) * here.inputs[0]  # itself a product of two
        elif any(t is not None for t in rests):
            total = here.push(rests)
        for k, t in enumerate(tangents):
            if type(t) is not RootTangent:
                continue
            if op.even is not None:
                factor = self._factor_of(node, k)
                part = here.scale(multiply(multiply(t[0], factor), factor))
            elif op.elementwise:
                part = multiply(t[0], self._factor_of(node, k))
                part = multiply(part, self._factor_of(node, 1 - k))
            else:
                moved = multiply(t[0], self._fill_factor(here, k))
                other = self._fill_factor(here, 1 - k)
                pair = (moved, other) if k == 0 else (other, moved)
                part = apply(op, pair, here.params)
            total = add_parts(total, part)
        return total

    def make_plain(self, t: Any) -> Any:
        """Return the tangent of a node as one array."""
        return t[2] if type(t) is RootTangent else t

    # What both read

    def _see(self, node: Tensor) -> Carrier:
        found = self.carriers.get(node.serial)
        return found or Carrier(node, self.is_recorded(node))

    def _find_places(self, node: Tensor, mask: int) -> list[int]:
        return [k for k in self.evens.get(node.serial, ()) if mask >> k & 1]

    def _factor_of(self, node: Tensor, place: int) -> Any:
        return self.carriers[node.inputs[place].serial].factor()

    def _fill_factor(self, here: Carrier, place: int) -> Any:
        """Return the factor of an operand in the shape of that."""
        ones = np.ones_like(here.inputs[place])
        return multiply(ones, self._factor_of(here.node, place))


# Which ones are the same


def are_equal(a: Carrier, b: Carrier) -> bool:
    """Return whether two nodes carry the same root, moved in the same way."""
    (first, moves), (second, others) = a.find_origin(), b.find_origin()
    if len(moves) != len(others):
        return False
    pairs: list[tuple[Any, Any]] = []
    for x, y in zip(moves, others, strict=True):
        if x is y:  # and so is all before it
            return are_alike(pairs)
        if not is_same_op(x.node, y.node) or x.place != y.place:
            return False
        pairs += [
            pair
            for k, pair in enumerate(zip(x.node.inputs, y.node.inputs, strict=True))
            if k != x.place
        ]
    return are_alike([*pairs, (first.node, second.node)])


def are_alike(pairs: Sequence[tuple[Any, Any]]) -> bool:
    """Return whether pairs of expressions are the same, node by node.

    A program that calls a distance twice has two nodes for it.
    """
    stack, seen = list(pairs), set()
    while stack:
        a, b = stack.pop()
        if a is b or (is_weak(a) and is_weak(b) and a == b):
            continue
        if not (isinstance(a, Tensor) and isinstance(b, Tensor)):
            return False
        if (a.serial, b.serial) in seen:
            continue
        seen.add((a.serial, b.serial))
        if (
            len(seen) > MOST_COMPARED
            or a.op is IDENTITY
            or a.op.custom
            or not is_same_op(a, b)
        ):
            return False
        stack += zip(a.inputs, b.inputs, strict=True)
    return True


def is_same_op(a: Tensor, b: Tensor) -> bool:
    """Return whether two nodes have the same op and settings."""
    return (
        a.op is b.op and len(a.inputs) == len(b.inputs) and bool(a.params == b.params)
    )


def find_roots(
    found: Sequence[Tensor],
    steps: Sequence[tuple[Tensor, int]],
    outputs: Sequence[Any],
    rules: Rules,
    mode: Mode,
    record: bool,
    outer: Collection[int],
) -> Roots | None:
    """Return the roots that even functions read; None if the sweep needs none.

    ``found`` are the nodes of the steps whose op may be one. A sweep that is not
    recorded needs those alone whose slope is infinite at 0, since what it finds is
    never differentiated.
    """
    for node in found:
        root = node.op.root
        if root is None:
            continue
        if record or node.serial in outer:
            break
        if not root.infinite:
            continue
        # Without its value its operand, which its rule reads then, is 0 where it is.
        seen = node.inputs[0] if is_released(node) else node
        if root.holds(node.inputs) and has_zero(value_of(seen)):
            break
    else:
        return None

    def is_recorded(node: Tensor) -> bool:
        return record or node.serial in outer

    roots = Roots(steps, outputs, rules, mode, is_recorded)
    return roots if roots.evens else None


def has_zero(value: Any) -> bool:
    """Return whether an array in the memory of the CPU holds a 0."""
    return isinstance(value, ON_HOST) and value is not None and not np.all(value)
