"""Proofs that a suggested line computes the same as the code that it replaces.

A line is written for `_0`, `_1`, ..., which stand for operands of the program
(`Operands`). Before a user sees it, it runs: on random numbers in the operands' shapes,
where it must give the same as the part of the program that it replaces, and on the
operands' values, where it must be finite and, as far as a wider dtype can tell, right.
Meanwhile operands that the line does not name take other values, unless they are
literals in the source: a line that must not depend on them would then differ. At last
the user's own text replaces `_0`, `_1`, ...
"""

from __future__ import annotations

import ast
import re
import zlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from workbench.autodiff import reverse
from workbench.checks.doctor import spelling
from workbench.checks.doctor.case import WIDER, WIDEST, Case, is_finite
from workbench.checks.doctor.edits import edit_expression
from workbench.checks.doctor.finding import Edit, Fix
from workbench.checks.progress import is_spent
from workbench.core import hooks, types, walk
from workbench.core.deferred import LengthParams, compute_op
from workbench.core.schedule import compute_node
from workbench.core.spelling import fill_names
from workbench.core.tensor import Tensor, make_leaf, value_of
from workbench.errors import WorkbenchError
from workbench.ops.indexing import GETITEM, as_index

#: Distributions that operands are drawn from, each a few times; where a program has no
#: value for one of them, others show what it computes.
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
#: The draws from each distribution; one where arrays have `LARGE` entries.
ROUNDS, LARGE = 3, 10_000
#: How far apart the two may be, in roots of the rounding unit.
ROOTS = 30.0

SLOT = re.compile(r"_\d+")


class EquivalentLine(NamedTuple):
    """A line that replaces a part of a program.

    Attributes
    ----------
    name
        The usual name of that part.
    code
        The line: of `_0`, `_1`, ... in a draft, in the user's own words once proved.
    whole
        The node that the line replaces.
    positive
        Whether the line is right for operands above 0 only.
    changes
        A function of its operands: the mask of the entries that it changes on purpose.
        It may then also change entries that are not finite in the program.
    mends
        For a line that changes all entries: returns whether its value is as wanted.
    edit
        Once proved, the line as a change of the source, where that is certain.
    """

    name: str
    code: str
    target: Tensor
    positive: bool = False
    changes: Callable[..., Any] | None = None
    mends: Callable[[Any], bool] | None = None
    edit: Edit | None = None

    @property
    def fix(self) -> Fix:
        """The fix to suggest, once proved."""
        return Fix(f"the stable form of {self.name}", self.code, edit=self.edit)


class Slot(NamedTuple):
    """An operand that a line names: an input of a node, or an index."""

    node: Tensor
    k: int | None

    @property
    def source(self) -> Any:
        """The Tensor or constant."""
        return None if self.k is None else self.node.inputs[self.k]

    @property
    def value(self) -> Any:
        """Its value in this run."""
        if self.k is not None:
            return value_of(self.source)
        arrays = tuple(value_of(a) for a in self.node.inputs[1:])
        return as_index(self.node.params["key"], arrays)

    @property
    def text(self) -> str:
        """Its text in the user's source."""
        return (
            spelling.quote_subscript(self.node)
            if self.k is None
            else spelling.quote_operand(self.node, self.k)
        )


class Operands:
    """The operands that a line names; called with a node and the number of an input."""

    def __init__(self) -> None:
        self.slots: list[Slot] = []

    def __call__(self, node: Tensor, k: int = 0) -> str:
        """Return the name of input k in the line."""
        return self._name_slot(Slot(node, k))

    def name_index(self, node: Tensor) -> str:
        """Return the name of the index of a `getitem`."""
        return self._name_slot(Slot(node, None))

    def _name_slot(self, slot: Slot) -> str:
        for i, known in enumerate(self.slots):
            if known.node is slot.node and known.k == slot.k:
                return f"_{i}"
        self.slots.append(slot)
        return f"_{len(self.slots) - 1}"


def prove(
    case: Case, draft: EquivalentLine, operands: Operands, with_slopes: bool = False
) -> Any:
    """Return a form in the user's words if proved, else None.

    ``sloped`` asks for finite slopes at the operands' own values too.
    """
    if is_spent():
        return None  # a line that was not tried is none to offer
    used = sorted({int(name[1:]) for name in SLOT.findall(draft.code)})
    slots = {f"_{i}": operands.slots[i] for i in used}
    if case.is_inner_step(draft.target):
        return None  # no line of the user's computes it
    for slot in slots.values():
        if slot.text == spelling.LEFT_OUT and case.find_library_call(slot.node):
            return None  # the user has no name for it
    try:
        part = _Part(draft, slots)
        key = (
            "random",
            draft.code,
            draft.target.code,
            draft.target.lasti,
            part.signature,
        )
        known = case.proved.get(key)
        if known is None:
            known = case.proved[key] = part.agrees_on_random()
        if not known or not part.agrees_on_operands():
            return None
        if with_slopes and not part.has_finite_slopes():
            return None
    except (ArithmeticError, AttributeError, IndexError, LookupError, TypeError,
            ValueError, WorkbenchError, np.linalg.LinAlgError):  # fmt: skip
        return None  # it does not even run there
    texts = {name: spelling.to_expression(slot.text) for name, slot in slots.items()}
    code = fill_names(draft.code, texts).code
    variables = _describe_variables(part, slots)
    quoted = [(slot.node, slot.text) for slot in slots.values()]
    edit = None if variables else edit_expression(case, draft.target, code, quoted)
    return draft._replace(name=draft.name + variables, code=code, edit=edit)


def offer_fix(
    case: Case,
    node: Tensor,
    text: str,
    code: str,
    *,
    of: Tensor | None = None,
    changes: Callable[..., Any] | None = None,
    mends: Callable[[Any], bool] | None = None,
) -> Fix | None:
    """Return a `Fix` that replaces a node by a line if proved, else None.

    ``code`` has ``{0}``, ``{1}``, ... for the inputs of the node, or of the node
    ``of``, which is a part of what makes it.
    """
    o = Operands()
    source = node if of is None else of
    names = [o(source, k) for k in range(len(source.inputs))]
    draft = EquivalentLine(
        text, code.format(*names), node, changes=changes, mends=mends
    )
    form = prove(case, draft, o)
    return None if form is None else Fix(form.name, form.code, edit=form.edit)


def is_finite_in_float64(node: Tensor) -> bool:
    """Return whether a node's value is finite once its first operand is a double."""
    first, *rest = [value_of(x) for x in node.inputs]
    try:
        wide = np.complex128 if np.iscomplexobj(first) else np.float64
        return is_finite(compute_node(node, (first.astype(wide), *rest)))
    except (AttributeError, TypeError, ValueError, WorkbenchError):
        return False


class _Part:
    """The part of a program that a line replaces, cut at the operands it names."""

    def __init__(self, draft: EquivalentLine, slots: dict[str, Slot]) -> None:
        self.draft = draft
        self.slots = slots
        self.line = compile(draft.code, "<advice>", "eval")
        sources = {
            slot.source.serial: slot.source
            for slot in slots.values()
            if isinstance(slot.source, Tensor)
        }
        first = min(sources, default=draft.target.serial)
        nodes = walk.order_nodes([draft.target, *sources.values()], first)
        #: Operands on which no other one depends are set; the others are computed.
        self.base: dict[int, Tensor] = {}
        for serial in sorted(sources):
            if serial not in walk.find_dependents(nodes, self.base.values()):
                self.base[serial] = sources[serial]
        #: Nodes computed like one of these a second time: ``z[0]`` and ``z[0]``.
        self.twins = {
            x.serial: serial
            for node in nodes
            for x in node.inputs
            if isinstance(x, Tensor)
            for serial, y in self.base.items()
            if x is not y and is_same(x, y)
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
        """Yield each operand that depends on none of those set and is not a literal."""
        for node in self.nodes:
            for k, x in enumerate(node.inputs):
                if isinstance(x, Tensor) and x.serial in affected:
                    continue
                value = value_of(x)
                if isinstance(value, tuple) or value is None:
                    continue
                text = spelling.quote_operand(node, k)
                number = types.is_weak(value) or getattr(value, "shape", None) == ()
                if spelling.is_literal(text) or (number and text == spelling.LEFT_OUT):
                    continue
                yield (node.serial, k), (node, x, value)

    @property
    def signature(self) -> tuple[Any, ...]:
        """The key of the part: one proof holds for all parts with the same key."""
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

        ``places`` holds other indices: the key and the arrays of some nodes.
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
            made[node.serial] = rounded(compute_op(node.op, args, params))
        return made

    def evaluate(self, made: dict[int, Any], literal: dict[str, Any]) -> Any:
        """Return the value of the line, for operands of these values."""
        found = {
            name: made[slot.source.serial]
            if isinstance(slot.source, Tensor)
            else literal.get(name, slot.value)
            for name, slot in self.slots.items()
        }
        return eval(self.line, _namespace(self.draft.code), found)  # our own text

    # On random numbers

    def agrees_on_random(self) -> bool:
        """Return whether line and program give the same on random numbers."""
        if self.draft.mends is not None:
            return True  # it changes every entry on purpose
        seed = zlib.crc32(repr(self.signature).encode())
        rng = np.random.default_rng(seed)
        sizes = [
            np.size(slot.value) for slot in self.slots.values() if slot.k is not None
        ]
        rounds = 1 if max(sizes, default=0) > LARGE else ROUNDS
        compared = 0
        draws = FAR if self.draft.changes is not None else DRAWS
        for draw in POSITIVE if self.draft.positive else draws:
            for _ in range(rounds):
                found = self._compare_draw(draw, rng)
                if found is None:
                    return False
                compared += found
        return compared > 0

    def _compare_draw(self, draw: Any, rng: np.random.Generator) -> int | None:
        """Return how many entries agree in one draw; None where one does not."""
        values = {s: _draw_like(x._value, draw, rng) for s, x in self.base.items()}
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
                literal[name] = others[place] = _draw_like(slot.value, draw, rng)
        made = self.run(values, others, places=places)
        true = made[self.draft.target.serial]
        mine = self.evaluate(made, literal)
        if np.shape(mine) != np.shape(true):
            return None
        kept = np.isfinite(true)
        if self.draft.changes is not None:
            kept = kept & ~self._find_changed(made, literal)
        off = ~(_find_agreement(mine, true) | ~kept)
        return None if bool(np.any(off)) else int(np.sum(kept))

    def _draw_places(self, rng: np.random.Generator) -> dict[int, Any]:
        """Return other positions for every index that is not a literal.

        Equal indices of one axis stay equal, so that their entries still correspond.
        """
        drawn: dict[Any, Any] = {}
        found = {}
        for node in self.nodes:
            if (
                node.op is not GETITEM
                or type(node.params) is LengthParams
                or spelling.quote_subscript(node) == spelling.LEFT_OUT
            ):
                continue
            if not any(map(_is_variable, spelling.quote_subscript(node).split(","))):
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

    # On the values of the operands

    def agrees_on_operands(self) -> bool:
        """Return whether the line is finite and right at the operands' own values."""
        draft = self.draft
        operands = {s: x._value for s, x in self.base.items()}
        if draft.positive and not all(
            bool(np.all(np.asarray(slot.value) > 0)) for slot in self.slots.values()
        ):
            return False
        made = self.run(operands, {})
        true, mine = made[draft.target.serial], self.evaluate(made, {})
        if draft.mends is not None:
            return bool(np.all(np.isfinite(mine))) and draft.mends(mine)
        if np.shape(mine) != np.shape(true):
            return False
        bad, still = ~np.isfinite(true), ~np.isfinite(mine)
        if bool(np.any(bad)) and bool(np.all(still == bad)):
            return False  # the same entries are still not finite
        if draft.changes is not None:
            kept = ~bad & ~self._find_changed(made, {})
            close = bool(np.all(_find_agreement(mine, true) | ~kept))
            return close and not bool(np.any(still & ~bad))
        found = self._run_wide(operands)
        if found is None:
            return not bool(np.any(still & ~bad))
        wide, error = found
        known = np.isfinite(wide) & np.isfinite(error)
        # What overflows the program's own dtype is infinite in the line as well.
        held = known & (abs(wide) <= _max_of_dtype(true))
        if bool(np.any(still & (held | ~(known | bad)))):
            return False
        error = error + np.where(bad, 0, abs(true - wide))
        return bool(np.all(_find_agreement(mine, wide, error) | ~held))

    def _run_wide(self, operands: dict[int, Any]) -> Any:
        """Return the program's value in a wider dtype, and its possible error.

        None where there is no wider one. The error comes from runs with every step
        rounded at random (J. Vignes, "A stochastic arithmetic for reliable scientific
        computation", 1993).
        """
        target = self.draft.target
        dtype = np.dtype(types.spec_of(target._value).dtype)
        table = WIDER if dtype in WIDER else WIDEST
        if dtype not in table or np.finfo(table[dtype]).eps >= np.finfo(dtype).eps:
            return None
        values = [
            *operands.values(),
            *(value_of(x) for n in self.nodes for x in n.inputs),
        ]
        if not all(_is_host(v) for v in values if not isinstance(v, tuple)):
            return None
        wide = {s: _widen(v, table) for s, v in operands.items()}
        rng = np.random.default_rng(0)

        def rounded(y: Any) -> Any:
            unit = 0.0 if isinstance(y, tuple) else _rounding_unit(y)
            if not unit:
                return y
            return y + y * (4 * unit * rng.uniform(-1, 1, np.shape(y)))

        try:
            y = self.run(wide, {})[target.serial]
            again = [self.run(wide, {}, rounded)[target.serial] for _ in range(3)]
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
        return all(g is None or is_finite(g) for g in slopes)


def _namespace(code: str) -> dict[str, Any]:
    """Return the modules that lines name, by their usual names."""
    named = "wb." in code or "workbench." in code
    library = hooks.namespace("workbench") if named else None
    return {"__builtins__": {}, "np": np, "wb": library, "workbench": library}


def is_same(x: Any, y: Any, depth: int = 4) -> bool:
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
            is_same(a, b, depth - 1) for a, b in zip(x.inputs, y.inputs, strict=True)
        )
    )


def _is_host(x: Any) -> bool:
    return x is None or isinstance(x, np.ndarray | np.generic | int | float | complex)


def _draw_like(x: Any, draw: Any, rng: np.random.Generator) -> Any:
    """Draw numbers for an operand, of its shape, dtype and library."""
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
        return _draw_like(value, DRAWS[1], rng)
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


def _widen(value: Any, table: Any) -> Any:
    dtype = table.get(np.dtype(types.spec_of(value).dtype))
    return value if dtype is None else np.asarray(value).astype(dtype)[()]


def _find_agreement(a: Any, b: Any, error: Any = 0) -> Any:
    """Return the mask where two results agree, up to the narrower dtype."""
    narrow = max(_rounding_unit(a), _rounding_unit(b))
    enough = min(ROOTS * narrow**0.5, 0.1)
    size = abs(b)
    sizes = np.where(np.isfinite(size), size, 0)
    top = np.max(sizes) if np.size(sizes) else 0
    with np.errstate(all="ignore"):
        return abs(a - b) <= enough * np.maximum(size, 1e-3 * top) + error


def _max_of_dtype(x: Any) -> float:
    dtype = np.dtype(types.spec_of(x).dtype)
    return float(np.finfo(dtype).max) if dtype.kind in "fc" else np.inf


def _rounding_unit(x: Any) -> float:
    dtype = np.dtype(types.spec_of(x).dtype)
    return float(np.finfo(dtype).eps) if dtype.kind in "fc" else 0.0


# In the user's words


def _describe_variables(part: _Part, slots: dict[str, Slot]) -> str:
    """Describe which variable is meant, where there are several of its name.

    It may be a variable of another function, or have been assigned a second time.
    """
    target = part.draft.target
    meant: dict[str, Any] = {}
    texts: list[str] = []
    for slot in slots.values():
        for name in _list_names(slot.text):
            known = meant.setdefault(name, slot)
            other = slot.node.code is not target.code and slot.node.code is not None
            reassigned = slot.text.isidentifier() and any(
                x is not slot.source and spelling.quote_operand(node, k) == name
                for node in (*part.nodes, *[s.node for s in slots.values()])
                for k, x in enumerate(node.inputs)
            )
            line = spelling.quote_line(slot.node)
            text = f"with the {name} of `{line}`"
            if known is slot and (other or reassigned) and line and text not in texts:
                texts.append(text)
    return f" ({', '.join(texts)})" if texts else ""


def _list_names(text: str) -> Iterator[str]:
    try:
        tree = ast.parse(text, mode="eval")
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id not in spelling.MODULES:
            yield node.id
