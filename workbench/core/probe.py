"""What an op's result looks like, found out by asking it at small lengths.

Where operands have unknown lengths and no rule derives the result's, the op is asked
at several sets of small stand-ins, and each length of its result becomes what fits
them all: a constant, a length of an operand, a sum, a product. What fits nothing is
measured when the program runs, which is always right. Stand-ins never stay in a
program.

Where an op refuses lengths that differ, they are tried as equal; what the op then
asks for is a fact of its node, which NumPy checks when the program runs.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations, product
from typing import Any
from warnings import catch_warnings, simplefilter

from workbench.core import dims
from workbench.core.broadcasting import Facts, common, largest, smallest
from workbench.core.dims import Atom, Dim, Length, Made, Replace, atoms_of
from workbench.core.op import Op
from workbench.core.types import Spec, value_spec
from workbench.errors import DtypeError, ShapeError, TraceError, UnknownLengthError

# Which length fits: numbers that an op gave at stand-ins, as a formula of lengths.
#
# `Probe` asks an op at several sets of small lengths; what its result's lengths were
# there is compared with lengths that may occur: those of the operands, sums, products,
# quotients.

#: What a length may be made of two.
PAIRS: tuple[Callable[[Any, Any], Any], ...] = (
    operator.mul,
    operator.add,
    operator.sub,
    lambda a, b: b - a,
    smallest,
    largest,
)


def fit(found: list[Any], candidates: list[tuple[Any, tuple[int, ...]]]) -> Any:
    """The length that has these values at the stand-ins; None if there is no such."""
    if any(isinstance(n, Dim) or n is None for n in found):
        return None
    first = found[0]
    if all(n == first for n in found):
        return first
    for n, values in candidates:
        shift = first - values[0]
        if all(f - v == shift for f, v in zip(found, values, strict=True)):
            return n + shift
    for n, values in candidates:
        if values[0] and first % values[0] == 0:
            factor = first // values[0]
            if all(f == factor * v for f, v in zip(found, values, strict=True)):
                return factor * n
    for n, values in candidates:
        for k in range(2, 9):
            for up in range(k):
                if all((v + up) // k == f for f, v in zip(found, values, strict=True)):
                    return (n + up) // k
    for (a, left), (b, right) in combinations(candidates, 2):
        pairs = list(zip(found, left, right, strict=True))
        for made in PAIRS:
            shift = first - made(left[0], right[0])
            if all(f - made(v, w) == shift for f, v, w in pairs):
                return made(a, b) + shift
    return None


def simple(spec: Any) -> Any:
    """A spec whose lengths have not too many parts; those are measured."""
    if isinstance(spec, tuple):
        return tuple(map(simple, spec))
    if not any(isinstance(n, Dim) and _parts(n) > MOST_PARTS for n in spec.shape):
        return spec
    shape = tuple(
        None if isinstance(n, Dim) and _parts(n) > MOST_PARTS else n for n in spec.shape
    )
    return Spec(shape, spec.dtype, spec.weak)


#: Lengths with more parts than this are measured, not derived.
MOST_PARTS = 40


def _parts(n: Dim) -> int:
    return sum(1 for _ in atoms_of(n)) + len(n.terms)


# Stand-ins


#: Three sets of lengths, told apart by no sum or product that is likely.
STAND_INS = (
    (5, 7, 11, 13, 17, 19, 23, 29),
    (6, 9, 10, 15, 16, 21, 25, 28),
    (8, 13, 17, 18, 22, 27, 31, 37),
)
#: Small and uneven lengths, at which an op may do otherwise; it need not accept them.
UNLIKE = (
    (4, 3, 2, 4, 3, 2, 4, 3),
    (2, 4, 3, 2, 4, 3, 2, 4),
    (3, 2, 4, 3, 2, 4, 3, 2),
    (1, 1, 1, 1, 1, 1, 1, 1),
    (26, 2, 33, 3, 41, 4, 47, 5),
    (2, 26, 3, 33, 4, 41, 5, 47),
)
#: How often an op is asked at lengths that might satisfy it, and of how many atoms.
MOST_TRIES = 300
MOST_ATOMS = 8


class Probe:
    """An op that is asked at stand-ins for the unknown lengths of its operands."""

    def __init__(
        self, op: Op, specs: list[Any], params: dict[str, Any], ask: Callable[..., Any]
    ) -> None:
        self.op = op
        self.specs = specs
        self.params = params
        self.ask = ask
        self.atoms = _atoms([s for x in specs for s in _shapes(x)], params)
        self.error: Exception | None = None
        #: Pairs of lengths, where an op was found to broadcast them.
        self.wider: list[tuple[Any, Any]] = []

    def run(self) -> tuple[Any, Facts]:
        """The spec of the result, and what must be equal."""
        with catch_warnings():
            simplefilter("ignore")  # of stand-ins, which nobody has written
            for chosen in self.ways():
                sets, made = self.accepted(chosen)
                if made:
                    chosen, sets, made = self.loosened(chosen, sets, made)
                    # At lengths that are numbers nothing tells formulas apart.
                    vague = any(isinstance(to, int) for to in chosen.values())
                    apart = self.broadcast(chosen, sets, made)
                    return self.fitted(sets, made, vague), self.facts(chosen, apart)
            # Which lengths belong together is not found out, but how many axes and
            # which dtype there are; the lengths are measured when the program runs.
            sets, made = self.accepted(self.joined_to_first(list(self.atoms)))
            if made:
                return self.fitted(sets, made, True), []
        shown = ", ".join(repr(value_spec(x)) for x in self.specs)
        if isinstance(self.error, (DtypeError, TraceError)):
            raise self.error
        raise ShapeError(
            f"{self.op.name}({shown}): no lengths make these shapes fit."
            f" {self.op.cure or 'Compare them with what the function expects.'}"
        )

    def accepted(self, chosen: dict[Any, Any]) -> tuple[list[Any], list[Any]]:
        """The stand-ins that the op accepts, and what it answers.

        Lengths ascend in one half of them and descend in the other: an op may ask for
        an order, as of a signal and what it is filtered with.
        """
        sets: list[Any] = []
        made: list[Any] = []
        for turned in (False, True) if len(self.atoms) > 1 else (False,):
            tried = [self.at(chosen, row, turned) for row in STAND_INS]
            answers = [self.answer(lengths) for lengths in tried]
            if all(m is not None for m in answers):
                sets += tried
                made += answers
        for row in UNLIKE if made else ():
            lengths = self.at(chosen, row, False)
            answer = self.answer(lengths)
            if answer is not None and _alike(answer, made[0]):
                sets.append(lengths)
                made.append(answer)
        return sets, made

    def loosened(
        self, chosen: dict[Any, Any], sets: list[Any], made: list[Any]
    ) -> tuple[dict[Any, Any], list[Any], list[Any]]:
        """A way with no equality left that the op does without, one by one."""
        for key in list(chosen) if len(chosen) > 1 else ():
            fewer = {k: to for k, to in chosen.items() if k != key}
            found = self.accepted(fewer)
            if found[1]:
                chosen, (sets, made) = fewer, found
        return chosen, sets, made

    def broadcast(
        self, chosen: dict[Any, Any], sets: list[Any], made: list[Any]
    ) -> set[Any]:
        """Which lengths need not be equal after all, for they may also be 1.

        Adds what the op answers then.
        """
        apart = set()
        first = made[0]
        for key, to in chosen.items():
            if not isinstance(to, tuple):
                continue
            answers = []
            for one in (key, to):
                lengths = {**self.at(chosen, STAND_INS[1], False), one: 1}
                answer = self.answer(lengths)
                if answer is not None and _alike(answer, first):
                    answers.append((lengths, answer))
            if len(answers) == 2:
                apart.add(key)
                sets += [lengths for lengths, _ in answers]
                made += [answer for _, answer in answers]
                self.wider.append((key, to))
        return apart

    def ways(self) -> Iterator[dict[Any, Any]]:
        """What may be equal: nothing, one pair, more. Values are keys or numbers."""
        yield {}
        yield self.aligned()
        keys = list(self.atoms)[:MOST_ATOMS]
        known = {n for x in self.specs for s in _shapes(x) for n in s if not _is_dim(n)}
        known |= {n for n in _numbers(self.params) if 0 < n < 1000}
        numbers = [*sorted(known), *(n for n in (3, 2, 1) if n not in known)]
        tries = 0
        for chosen in self.joined(keys):
            tries += 1
            if tries > MOST_TRIES:
                break
            yield chosen
        for fixed in range(1, len(keys) + 1):
            for some in combinations(keys, fixed):
                for values in product(numbers, repeat=fixed):
                    to = dict(zip(some, values, strict=True))
                    free = [key for key in keys if key not in to]
                    for chosen in ({}, *self.joined(free)):
                        tries += 1
                        if tries > 2 * MOST_TRIES:
                            return
                        yield chosen | to

    def aligned(self) -> dict[Any, Any]:
        """Axes of all operands as equal, counted from the last, however many."""
        classes: dict[int, list[Any]] = {}
        for shape in (s for x in self.specs for s in _shapes(x)):
            for axis, n in enumerate(reversed(shape)):
                atom = n.alone if isinstance(n, Dim) else None
                if atom is not None and atom.key in self.atoms:
                    classes.setdefault(axis, []).append(atom.key)
        return {
            key: to
            for keys in classes.values()
            for key, to in self.joined_to_first(keys).items()
        }

    def joined_to_first(self, keys: list[Any]) -> dict[Any, Any]:
        """The way in which some lengths are all equal to the first of them."""
        known = set(keys)
        first, *rest = [key for key in self.atoms if key in known]
        return dict.fromkeys(rest, first)

    @staticmethod
    def joined(keys: list[Any]) -> Iterator[dict[Any, Any]]:
        """All ways to make keys equal to others, the fewest first."""
        for count in range(1, len(keys)):
            yield from _joined(keys, count)

    def at(
        self, chosen: dict[Any, Any], row: Sequence[int], turned: bool
    ) -> dict[Any, int]:
        """The stand-in of each atom, by its key."""
        made: dict[Any, int] = {}
        for place, key in enumerate(self.atoms):
            i = len(self.atoms) - 1 - place if turned else place
            to = chosen.get(key)
            if to is None:
                made[key] = row[i % len(row)] + 24 * (i // len(row))
            else:
                made[key] = made[to] if isinstance(to, tuple) else to
        return made

    def answer(self, lengths: dict[Any, int]) -> Any:
        """The spec of the result at these lengths; None if the op refuses them."""

        def new(atom: Atom) -> Any:
            return lengths.get(atom.key)

        try:
            specs = [_replaced(x, new) for x in self.specs]
            return self.ask(specs, dims.replaced(self.params, new))
        except Exception as error:
            if self.error is None:
                self.error = error
            return None

    def facts(self, chosen: dict[Any, Any], apart: set[Any]) -> Facts:
        """What is equal in a way, as lengths."""
        return [
            (
                Dim({(self.atoms[a],): 1}),
                Dim({(self.atoms[b],): 1}) if isinstance(b, tuple) else b,
            )
            for a, b in chosen.items()
            if a not in apart
        ]

    def fitted(self, sets: list[dict[Any, int]], made: list[Any], vague: bool) -> Any:
        """The answers as one, with lengths that fit all."""
        first = made[0]
        if isinstance(first, tuple):
            if any(len(m) != len(first) for m in made):
                raise UnknownLengthError(
                    f"{self.op.name}: how many results there are depends on lengths"
                    " that are known only when the program runs."
                )
            return tuple(
                self.fitted(sets, [m[i] for m in made], vague)
                for i in range(len(first))
            )
        if any(len(m.shape) != len(first.shape) for m in made):
            raise UnknownLengthError(
                f"{self.op.name}: how many axes the result has depends on lengths that"
                " are known only when the program runs. Name the axes."
            )
        candidates = list(self.candidates(sets))
        shape = tuple(
            None if vague else fit([m.shape[axis] for m in made], candidates)
            for axis in range(len(first.shape))
        )
        return simple(Spec(shape, first.dtype, first.weak))

    def candidates(
        self, sets: list[dict[Any, int]]
    ) -> Iterator[tuple[Any, tuple[int, ...]]]:
        """Lengths that may occur in a result, and their values at the stand-ins."""
        seen = set()
        shapes = [s for x in self.specs for s in _shapes(x)]
        simple = list(_dims(self.params))
        simple += [n for s in shapes for n in s if _is_dim(n)]
        simple += [Dim({(a,): 1}) for a in self.atoms.values()]
        products = [_product(s) for s in shapes]
        ranks = {len(s) for s in shapes}
        if len(shapes) > 1 and len(ranks) == 1:
            products += [sum(lengths) for lengths in zip(*shapes, strict=True)]
        for a, b in self.wider:
            # An atom may itself be what lengths broadcast to, which are no atoms here.
            n = common(*(Dim({(self.atoms[k],): 1}) for k in (a, b)))
            yield n, tuple(common(lengths[a], lengths[b]) for lengths in sets)
        for n in [*simple, *products]:
            if isinstance(n, Dim) and n.key not in seen:
                seen.add(n.key)
                yield n, tuple(self._value(n, lengths) for lengths in sets)

    @staticmethod
    def _value(n: Dim, lengths: dict[Any, int]) -> int:
        found: int = n.replaced(lambda atom: lengths.get(atom.key))
        return found


def _joined(keys: list[Any], count: int) -> Iterator[dict[Any, Any]]:
    """All ways to make ``count`` keys equal to earlier ones that stay as they are."""
    for later in combinations(range(len(keys)), count):
        stay = [i for i in range(len(keys)) if i not in later]
        earlier = [[i for i in stay if i < n] for n in later]
        for to in product(*earlier):
            yield {keys[n]: keys[i] for n, i in zip(later, to, strict=True)}


def _alike(a: Any, b: Any) -> bool:
    """Whether two answers have as many results, of as many axes."""
    if isinstance(a, tuple) or isinstance(b, tuple):
        return (
            isinstance(a, tuple)
            and isinstance(b, tuple)
            and len(a) == len(b)
            and all(map(_alike, a, b))
        )
    return len(a.shape) == len(b.shape)


def _is_dim(n: Any) -> bool:
    return isinstance(n, Dim)


def _product(shape: Sequence[Any]) -> Any:
    total: Any = 1
    for n in shape:
        total = total * n
    return total


def _shapes(x: Any) -> list[tuple[Any, ...]]:
    """The shapes of an operand, one or several."""
    if isinstance(x, Spec):
        return [x.shape]
    if isinstance(x, tuple):
        return [s for part in x for s in _shapes(part)]
    return [tuple(x.shape)] if hasattr(x, "shape") else []


def _replaced(x: Any, new: Replace) -> Any:
    """An operand at known lengths."""
    if isinstance(x, tuple):
        return tuple(_replaced(part, new) for part in x)
    if not isinstance(x, Spec) or not dims.found(x.shape):
        return x
    shape = dims.replaced(x.shape, new)
    if any(n < 0 for n in shape):
        raise ValueError(f"negative lengths {shape}")
    return Spec(shape, x.dtype, x.weak)


def _atoms(shapes: list[Any], params: dict[str, Any]) -> dict[Any, Atom]:
    """What stand-ins are for: lengths, and what lengths broadcast to."""
    found: dict[Any, Atom] = {}
    stack: list[Any] = [params, shapes]
    while stack:
        x = stack.pop()
        if isinstance(x, Dim):
            stack += [a for product in x.terms for a in product]
        elif isinstance(x, Length) or (isinstance(x, Made) and x.kind == "broadcast"):
            found.setdefault(x.key, x)
        elif isinstance(x, Made):
            stack += x.args
        elif isinstance(x, (tuple, list)):
            stack += reversed(x)
        elif isinstance(x, dict):
            stack += x.values()
    return found


def _dims(x: Any) -> Iterator[Dim]:
    """The lengths in settings."""
    if isinstance(x, Dim):
        yield x
    elif isinstance(x, (tuple, list)):
        for y in x:
            yield from _dims(y)
    elif isinstance(x, dict):
        for y in x.values():
            yield from _dims(y)


def _numbers(x: Any) -> Iterator[int]:
    """The integers in settings."""
    if type(x) is int:
        yield x
    elif isinstance(x, (tuple, list)):
        yield len(x)
        for y in x:
            yield from _numbers(y)
    elif isinstance(x, dict):
        for y in x.values():
            yield from _numbers(y)
