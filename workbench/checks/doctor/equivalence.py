"""What a line of advice computes, beside what it stands for: the place that proves it.

A line is written for `_0`, `_1`, ..., the operands that it takes over from the program
(`Operands`). Before it is told it runs: on numbers of the operands' shapes, where it
must give what the part of the program gives that it stands for, and on the values that
the operands have, where it must be finite and, as far as a wider dtype can tell, right.
Operands that the line does not name are changed meanwhile, unless they are numbers in
the program's text: what hangs on them is not what the line computes. Only then the
user's own text is put in.
"""

from __future__ import annotations

import ast
import re
import zlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from workbench.autodiff import reverse
from workbench.backends.spelling import fill
from workbench.checks.doctor.case import WIDER, WIDEST, Case, finite
from workbench.checks.doctor.finding import Fix
from workbench.checks.doctor.spelling import (
    LEFT_OUT,
    MODULES,
    as_operand,
    is_literal,
    line_of,
    operand,
    subscript,
)
from workbench.core import hooks, types, walk
from workbench.core.tensor import Tensor, make_leaf, value_of
from workbench.errors import WorkbenchError
from workbench.ops.indexing import as_index

#: The numbers that operands are tried on, each a few times; where a program has no
#: value at some of them, others show what it computes.
DRAWS: tuple[Callable[[np.random.Generator, Any], Any], ...] = (
    lambda rng, shape: rng.normal(size=shape),
    lambda rng, shape: rng.uniform(0.1, 2, shape),
    lambda rng, shape: rng.uniform(-0.9, 0.9, shape),
    lambda rng, shape: rng.uniform(2, 5, shape),
    lambda rng, shape: -rng.uniform(0.1, 2, shape),
)
POSITIVE = (DRAWS[1], DRAWS[3])
#: Far from 0, where bounds are; what cancels has too few digits there.
FAR = (*DRAWS, lambda rng, shape: rng.normal(size=shape) * 20)
#: So often, and once where arrays are large.
ROUNDS, LARGE = 3, 10_000
#: How far apart the two may be, in roots of the rounding unit.
ROOTS = 30.0

SLOT = re.compile(r"_\d+")


class Form(NamedTuple):
    """A line to write in the place of a part of a program.

    Attributes
    ----------
    name
        What people call that part.
    code
        The line: of `_0`, `_1`, ... in a draft, in the user's own words once proved.
    whole
        The node that the line stands for.
    positive
        Whether it holds for operands above 0 alone.
    changes
        Of the operands that it names, which entries of the result it changes on
        purpose; those that are not finite in the program it then changes as well.
    mends
        What its value must be like where it is meant to be another one everywhere.
    """

    name: str
    code: str
    whole: Tensor
    positive: bool = False
    changes: Callable[..., Any] | None = None
    mends: Callable[[Any], bool] | None = None

    @property
    def fix(self) -> Fix:
        """What is told of it, once proved."""
        return Fix(f"the stable form of {self.name}", self.code)


class Slot(NamedTuple):
    """An operand that a line names: an input of a node, or what an index takes."""

    node: Tensor
    k: int | None

    @property
    def source(self) -> Any:
        """The Tensor or constant."""
        return None if self.k is None else self.node.inputs[self.k]

    @property
    def value(self) -> Any:
        """The array that it is in this run."""
        if self.k is not None:
            return value_of(self.source)
        arrays = tuple(value_of(a) for a in self.node.inputs[1:])
        return as_index(self.node.params["key"], arrays)

    @property
    def text(self) -> str:
        """How the user has written it."""
        return subscript(self.node) if self.k is None else operand(self.node, self.k)


class Operands:
    """What a line names: called with a node and the number of an input."""

    def __init__(self) -> None:
        self.slots: list[Slot] = []

    def __call__(self, node: Tensor, k: int = 0) -> str:
        """Return the name of input k in the line."""
        return self._named(Slot(node, k))

    def index(self, node: Tensor) -> str:
        """Return the name of what a `getitem` takes."""
        return self._named(Slot(node, None))

    def _named(self, slot: Slot) -> str:
        for i, known in enumerate(self.slots):
            if known.node is slot.node and known.k == slot.k:
                return f"_{i}"
        self.slots.append(slot)
        return f"_{len(self.slots) - 1}"


def prove(case: Case, draft: Form, operands: Operands, sloped: bool = False) -> Any:
    """Return a form in the user's words, if it computes what it stands for; or None.

    ``sloped`` asks for finite slopes at the operands' own values too.
    """
    used = sorted({int(name[1:]) for name in SLOT.findall(draft.code)})
    slots = {f"_{i}": operands.slots[i] for i in used}
    try:
        part = _Part(draft, slots)
        key = ("random", draft.code, draft.whole.code, draft.whole.lasti, part.shapes)
        known = case.proved.get(key)
        if known is None:
            known = case.proved[key] = part.agrees_on_random()
        if not known or not part.agrees_on_own():
            return None
        if sloped and not part.has_finite_slopes():
            return None
    except (ArithmeticError, AttributeError, IndexError, LookupError, TypeError,
            ValueError, WorkbenchError, np.linalg.LinAlgError):  # fmt: skip
        return None  # it does not even run there
    texts = {name: as_operand(slot.text) for name, slot in slots.items()}
    code = fill(draft.code, texts).code
    return draft._replace(name=draft.name + _note(part, slots), code=code)


def offer(
    case: Case,
    node: Tensor,
    text: str,
    code: str,
    *,
    of: Tensor | None = None,
    changes: Callable[..., Any] | None = None,
    mends: Callable[[Any], bool] | None = None,
) -> Fix | None:
    """Return a line in the place of a node as a `Fix`, if it is proved; or None.

    ``code`` has ``{0}``, ``{1}``, ... for the inputs of the node, or of the node
    ``of``, which is a part of what makes it.
    """
    o = Operands()
    source = node if of is None else of
    names = [o(source, k) for k in range(len(source.inputs))]
    draft = Form(text, code.format(*names), node, changes=changes, mends=mends)
    form = prove(case, draft, o)
    return None if form is None else Fix(form.name, form.code)


def is_finite_in_float64(node: Tensor) -> bool:
    """Return whether a node's value is finite once its first operand is a double."""
    first, *rest = [value_of(x) for x in node.inputs]
    try:
        wide = np.complex128 if np.iscomplexobj(first) else np.float64
        return finite(node.op.compute(first.astype(wide), *rest, **node.params))
    except (AttributeError, TypeError, ValueError, WorkbenchError):
        return False


class _Part:
    """The part of a program that a line stands for, cut at the operands it names."""

    def __init__(self, draft: Form, slots: dict[str, Slot]) -> None:
        self.draft = draft
        self.slots = slots
        self.line = compile(draft.code, "<advice>", "eval")
        sources = {
            slot.source.serial: slot.source
            for slot in slots.values()
            if isinstance(slot.source, Tensor)
        }
        first = min(sources, default=draft.whole.serial)
        nodes = walk.order_nodes([draft.whole, *sources.values()], first)
        #: Operands that no other one is made of: these are set, others follow.
        self.base: dict[int, Tensor] = {}
        for serial in sorted(sources):
            if serial not in walk.find_dependents(nodes, self.base.values()):
                self.base[serial] = sources[serial]
        #: What is computed as one of these is, once more: ``z[0]`` and ``z[0]``.
        self.twins = {
            x.serial: serial
            for node in nodes
            for x in node.inputs
            if isinstance(x, Tensor)
            for serial, y in self.base.items()
            if x is not y and _is_same(x, y)
        }
        roots = [*self.base, *self.twins]
        known = {x.serial: x for n in nodes for x in (n, *n.inputs)
                 if isinstance(x, Tensor)}  # fmt: skip
        affected = walk.find_dependents(nodes, [known[serial] for serial in roots])
        self.nodes = [
            n for n in nodes if n.serial in affected and n.serial not in roots
        ]
        self.others = dict(self._others(affected))

    def _others(self, affected: set[int]) -> Iterator[tuple[tuple[int, int], Any]]:
        """Each operand that hangs on none of those set, and is no number as text."""
        for node in self.nodes:
            for k, x in enumerate(node.inputs):
                if isinstance(x, Tensor) and x.serial in affected:
                    continue
                value = value_of(x)
                if isinstance(value, tuple) or value is None:
                    continue
                text = operand(node, k)
                number = types.is_weak(value) or getattr(value, "shape", None) == ()
                if is_literal(text) or (number and text == LEFT_OUT):
                    continue
                yield (node.serial, k), (node, x, value)

    @property
    def shapes(self) -> tuple[Any, ...]:
        """What decides whether it holds for other values of the operands."""
        values = [slot.value for slot in self.slots.values()]
        return tuple(
            (np.shape(v), str(getattr(v, "dtype", type(v))))
            if types.is_weak(v) or hasattr(v, "dtype")
            else str(v)
            for v in values
        ) + tuple((n.op.name, str(n.params)) for n in self.nodes)

    def run(
        self,
        values: dict[int, Any],
        others: dict[tuple[int, int], Any],
        rounded: Callable[[Any], Any] = lambda y: y,
        places: dict[int, Any] | None = None,
    ) -> Any:
        """Return the value of every node, for these operands.

        ``places`` are other indices: the key and the arrays of some nodes.
        """
        places = places or {}
        made = {**values, **{t: values[s] for t, s in self.twins.items()}}
        for node in self.nodes:
            args = [
                others[node.serial, k]
                if (node.serial, k) in others
                else made[x.serial]
                if isinstance(x, Tensor) and x.serial in made
                else value_of(x)
                for k, x in enumerate(node.inputs)
            ]
            params = node.params
            if node.serial in places:
                key, arrays = places[node.serial]
                args[1:], params = list(arrays), {"key": key}
            made[node.serial] = rounded(node.op.compute(*args, **params))
        return made

    def evaluate(self, made: dict[int, Any], literal: dict[str, Any]) -> Any:
        """Return what the line gives, for operands of these values."""
        found = {
            name: made[slot.source.serial]
            if isinstance(slot.source, Tensor)
            else literal.get(name, slot.value)
            for name, slot in self.slots.items()
        }
        return eval(self.line, _namespace(self.draft.code), found)  # our own text

    # On random numbers

    def agrees_on_random(self) -> bool:
        """Return whether the line gives what the program gives, on random numbers."""
        if self.draft.mends is not None:
            return True  # it is meant to be something else
        seed = zlib.crc32(repr(self.shapes).encode())
        rng = np.random.default_rng(seed)
        sizes = [
            np.size(slot.value) for slot in self.slots.values() if slot.k is not None
        ]
        rounds = 1 if max(sizes, default=0) > LARGE else ROUNDS
        compared = 0
        draws = FAR if self.draft.changes is not None else DRAWS
        for draw in POSITIVE if self.draft.positive else draws:
            for _ in range(rounds):
                found = self._compared(draw, rng)
                if found is None:
                    return False
                compared += found
        return compared > 0

    def _compared(self, draw: Any, rng: np.random.Generator) -> int | None:
        """Return how many entries agree in one draw; None where one does not."""
        values = {s: _like(x._value, draw, rng) for s, x in self.base.items()}
        others = {
            place: _draw_other(node, x, value, rng)
            for place, (node, x, value) in self.others.items()
        }
        literal = {}
        places = self._draw_places(rng)
        for name, slot in self.slots.items():
            if slot.k is None and slot.node.serial in places:
                literal[name] = as_index(*places[slot.node.serial])
            if isinstance(slot.source, Tensor) or slot.k is None:
                continue
            place = slot.node.serial, slot.k
            if place in others:  # a number that is a variable
                literal[name] = others[place] = _like(slot.value, draw, rng)
        made = self.run(values, others, places=places)
        true = made[self.draft.whole.serial]
        mine = self.evaluate(made, literal)
        if np.shape(mine) != np.shape(true):
            return None
        kept = np.isfinite(true)
        if self.draft.changes is not None:
            kept = kept & ~self._find_changed(made, literal)
        off = ~(_close(mine, true) | ~kept)
        return None if bool(np.any(off)) else int(np.sum(kept))

    def _draw_places(self, rng: np.random.Generator) -> dict[int, Any]:
        """Return other entries for every index but those that are numbers as text.

        Two that are equal at one axis stay so: what is taken by one stands beside what
        is taken by the other. At two axes they are two.
        """
        drawn: dict[Any, Any] = {}
        found = {}
        for node in self.nodes:
            if node.op.name != "getitem" or subscript(node) == LEFT_OUT:
                continue
            if not any(map(_is_variable, subscript(node).split(","))):
                continue
            most = min(np.shape(value_of(node.inputs[0])), default=0)
            key = tuple(
                _draw_position((k, i), most, rng, drawn)
                for k, i in enumerate(node.params["key"])
            )
            arrays = [
                _draw_position((k, value_of(i)), most, rng, drawn)
                for k, i in enumerate(node.inputs[1:])
            ]
            found[node.serial] = key, tuple(arrays)
        return found

    def _find_changed(self, made: dict[int, Any], literal: dict[str, Any]) -> Any:
        assert self.draft.changes is not None
        values = [
            made[slot.source.serial]
            if isinstance(slot.source, Tensor)
            else literal.get(name, slot.value)
            for name, slot in self.slots.items()
        ]
        return self.draft.changes(*values)

    # On the values that the operands have

    def agrees_on_own(self) -> bool:
        """Return whether the line is finite and right at the operands' own values."""
        draft = self.draft
        own = {s: x._value for s, x in self.base.items()}
        if draft.positive and not all(
            bool(np.all(np.asarray(slot.value) > 0)) for slot in self.slots.values()
        ):
            return False
        made = self.run(own, {})
        true, mine = made[draft.whole.serial], self.evaluate(made, {})
        if draft.mends is not None:
            return bool(np.all(np.isfinite(mine))) and draft.mends(mine)
        if np.shape(mine) != np.shape(true):
            return False
        bad, still = ~np.isfinite(true), ~np.isfinite(mine)
        if bool(np.any(bad)) and bool(np.all(still == bad)):
            return False  # it mends nothing
        if draft.changes is not None:
            kept = ~bad & ~self._find_changed(made, {})
            close = bool(np.all(_close(mine, true) | ~kept))
            return close and not bool(np.any(still & ~bad))
        found = self._wide(own)
        if found is None:
            return not bool(np.any(still & ~bad))
        wide, error = found
        known = np.isfinite(wide) & np.isfinite(error)
        # What the program's own dtype does not hold is infinite in the line as well.
        held = known & (abs(wide) <= _largest(true))
        if bool(np.any(still & (held | ~(known | bad)))):
            return False
        error = error + np.where(bad, 0, abs(true - wide))
        return bool(np.all(_close(mine, wide, error) | ~held))

    def _wide(self, own: dict[int, Any]) -> Any:
        """Return the program's value in a wider dtype, and how far off that may be.

        None where there is no wider one. How far: it runs again with every step
        rounded at random (J. Vignes, "A stochastic arithmetic for reliable scientific
        computation", 1993).
        """
        whole = self.draft.whole
        dtype = np.dtype(types.spec_of(whole._value).dtype)
        table = WIDER if dtype in WIDER else WIDEST
        if dtype not in table or np.finfo(table[dtype]).eps >= np.finfo(dtype).eps:
            return None
        values = [*own.values(), *(value_of(x) for n in self.nodes for x in n.inputs)]
        if not all(_is_host(v) for v in values if not isinstance(v, tuple)):
            return None
        wide = {s: _widened(v, table) for s, v in own.items()}
        rng = np.random.default_rng(0)

        def rounded(y: Any) -> Any:
            unit = 0.0 if isinstance(y, tuple) else _unit(y)
            if not unit:
                return y
            return y + y * (4 * unit * rng.uniform(-1, 1, np.shape(y)))

        try:
            y = self.run(wide, {})[whole.serial]
            again = [self.run(wide, {}, rounded)[whole.serial] for _ in range(3)]
        except (TypeError, ValueError, WorkbenchError):
            return None  # an op that has no wider dtype
        return y, 2 * np.max([abs(z - y) for z in again], axis=0)

    def has_finite_slopes(self) -> bool:
        """Return whether the line's gradient is finite at the operands' own values."""
        leaves: dict[int, Any] = {}
        for serial, x in self.base.items():
            smooth = types.is_differentiable(x.dtype)
            leaves[serial] = make_leaf(x._value) if smooth else x._value
        inputs = [x for x in leaves.values() if isinstance(x, Tensor)]
        derived = [
            slot.source for slot in self.slots.values()
            if isinstance(slot.source, Tensor) and slot.source.serial not in leaves
        ]  # fmt: skip
        again = walk.substitute(derived, {self.base[s]: x for s, x in leaves.items()})
        made = {**leaves, **{x.serial: y for x, y in zip(derived, again, strict=True)}}
        y = self.evaluate(made, {})
        if not isinstance(y, Tensor) or not inputs:
            return True
        slopes = reverse.pull_back([y], [np.ones_like(y._value)], inputs)
        return all(g is None or finite(g) for g in slopes)


def _namespace(code: str) -> dict[str, Any]:
    """Return the modules that lines name, as whoever writes them has imported them."""
    named = "wb." in code or "workbench." in code
    library = hooks.namespace("workbench") if named else None
    return {"__builtins__": {}, "np": np, "wb": library, "workbench": library}


def _is_same(x: Any, y: Any, depth: int = 4) -> bool:
    """Return whether two operands are computed alike, from the same Tensors."""
    if x is y:
        return True
    if not isinstance(x, Tensor) or not isinstance(y, Tensor):
        return types.is_weak(x) and types.is_weak(y) and bool(x == y)
    return (
        depth > 0
        and x.op is y.op
        and len(x.inputs) == len(y.inputs) > 0
        and x.params == y.params
        and all(
            _is_same(a, b, depth - 1) for a, b in zip(x.inputs, y.inputs, strict=True)
        )
    )


def _is_host(x: Any) -> bool:
    return x is None or isinstance(x, np.ndarray | np.generic | int | float | complex)


def _like(x: Any, draw: Any, rng: np.random.Generator) -> Any:
    """Return other numbers for an operand, of its shape, dtype and library."""
    made = draw(rng, np.shape(x))
    dtype = np.dtype(types.spec_of(x).dtype)
    if dtype.kind == "c":
        made = made + 1j * draw(rng, np.shape(x))
    if dtype.kind == "b":
        made = made > 0.5
    elif dtype.kind in "iu":
        made = np.rint(np.abs(made) if dtype.kind == "u" else made)
    made = np.asarray(made)[()].astype(dtype)
    return made if _is_host(x) else np.asarray(made, like=x)


def _draw_other(node: Tensor, x: Any, value: Any, rng: np.random.Generator) -> Any:
    """Return another value for an operand that a line does not name."""
    dtype = np.dtype(types.spec_of(value).dtype)
    if dtype.kind in "fc":
        return _like(value, DRAWS[1], rng)
    if not node.op.elementwise or dtype.kind not in "biu":
        return value  # a position
    return ~value if dtype.kind == "b" else value + 1


def _draw_position(
    place: tuple[int, Any], most: int, rng: np.random.Generator, drawn: Any
) -> Any:
    """Return other positions, equal ones for those that are equal at a place."""
    k, index = place
    array = isinstance(index, np.ndarray) and index.dtype.kind in "iu"
    if not most or not (array or type(index) is int):
        return index
    name = (k, np.shape(index), np.asarray(index).tobytes(), most)
    if name not in drawn:
        made = rng.integers(0, most, np.shape(index))
        drawn[name] = made if array else int(made)
    return drawn[name]


def _is_variable(text: str) -> bool:
    """Return whether a part of an index is more than numbers."""
    return any(character.isalpha() for character in text)


def _widened(value: Any, table: Any) -> Any:
    dtype = table.get(np.dtype(types.spec_of(value).dtype))
    return value if dtype is None else np.asarray(value).astype(dtype)[()]


def _close(a: Any, b: Any, error: Any = 0) -> Any:
    """Return where two results agree, as well as the narrower dtype can tell."""
    narrow = max(_unit(a), _unit(b))
    enough = min(ROOTS * narrow**0.5, 0.1)
    size = abs(b)
    sizes = np.where(np.isfinite(size), size, 0)
    top = np.max(sizes) if np.size(sizes) else 0
    with np.errstate(all="ignore"):
        return abs(a - b) <= enough * np.maximum(size, 1e-3 * top) + error


def _largest(x: Any) -> float:
    dtype = np.dtype(types.spec_of(x).dtype)
    return float(np.finfo(dtype).max) if dtype.kind in "fc" else np.inf


def _unit(x: Any) -> float:
    dtype = np.dtype(types.spec_of(x).dtype)
    return float(np.finfo(dtype).eps) if dtype.kind in "fc" else 0.0


# In the user's words


def _note(part: _Part, slots: dict[str, Slot]) -> str:
    """Return which variable is meant, where the line stands among others of its name.

    A variable may be one of another function, or have been assigned anew.
    """
    whole = part.draft.whole
    meant: dict[str, Any] = {}
    told: list[str] = []
    for slot in slots.values():
        for name in _names(slot.text):
            known = meant.setdefault(name, slot)
            other = slot.node.code is not whole.code and slot.node.code is not None
            anew = slot.text.isidentifier() and any(
                x is not slot.source and operand(node, k) == name
                for node in (*part.nodes, *[s.node for s in slots.values()])
                for k, x in enumerate(node.inputs)
            )
            line = line_of(slot.node)
            text = f"with the {name} of `{line}`"
            if known is slot and (other or anew) and line and text not in told:
                told.append(text)
    return f" ({', '.join(told)})" if told else ""


def _names(text: str) -> Iterator[str]:
    try:
        tree = ast.parse(text, mode="eval")
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id not in MODULES:
            yield node.id
