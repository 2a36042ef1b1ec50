"""Atoms: the lengths that others are made of, and polynomials of them.

The length of an axis of a Tensor is an atom; so is a quotient, the larger of two, what
two lengths broadcast to. A length that is not known is a polynomial of atoms with
integer coefficients, kept as a dict from products to factors. What is done with
lengths stands in `dims.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

__all__ = [
    "KINDS",
    "Atom",
    "Length",
    "Made",
    "Polynomial",
    "Replace",
    "Terms",
    "added",
    "atoms_of",
    "bounds_of",
    "divided",
    "key_of",
    "least",
    "multiplied",
    "terms_of",
]

Key = tuple[Any, ...]
#: What stands for an atom in another place; None keeps it.
Replace = Callable[["Atom"], Any]
#: The least and the greatest number that a length can be; None: any.
Bounds = tuple[int | None, int | None]
#: The factor of each product of atoms, which stand in order; () for 1.
Terms = dict[tuple["Atom", ...], int]
INF = float("inf")
#: How a length that is no polynomial is made again, from other arguments; filled where
#: each kind is defined.
KINDS: dict[str, Callable[..., Any]] = {}


class Atom:
    """What a Dim is a polynomial of: a length that nothing simpler gives."""

    __slots__ = ("key",)

    key: Key

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Atom) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        return str(self)

    def bounds(self) -> Bounds:
        """The least and the greatest number that it can be; None: any."""
        return 0, None


class Length(Atom):
    """The length of an axis of a Tensor; ``part`` is the output of an op of several."""

    __slots__ = ("axis", "part", "tensor")

    def __init__(self, tensor: Any, axis: int, part: int | None = None) -> None:
        self.tensor = tensor
        self.axis = axis
        self.part = part
        self.key = (0, tensor.serial, -1 if part is None else part, axis)

    def __str__(self) -> str:
        name = self.tensor.name or self.tensor.op.name
        name = "input" if name == "identity" else name
        item = "" if self.part is None else f"[{self.part}]"
        return f"{name}{item}.shape[{self.axis}]"


class Made(Atom):
    """A length that is no polynomial of others: ``kind`` of some arguments."""

    __slots__ = ("args", "kind")

    def __init__(self, kind: str, args: tuple[Any, ...]) -> None:
        self.kind = kind
        self.args = args
        self.key = (1, kind, tuple(map(key_of, args)))

    def __str__(self) -> str:
        return f"{self.kind}({', '.join(map(str, self.args))})"

    def bounds(self) -> Bounds:
        """The least and the greatest number that it can be; None: any."""
        ends = [bounds_of(x) for x in self.args]
        lows = [low for low, _ in ends if low is not None]
        highs = [high for _, high in ends if high is not None]
        every = len(highs) == len(ends)
        if self.kind == "max":
            return max(lows, default=None), max(highs) if every else None
        if self.kind == "min":
            return min(lows) if len(lows) == len(ends) else None, min(
                highs, default=None
            )
        below = ends[-1][0]
        if self.kind == "broadcast":
            return 0, None
        if below is None or below < 1:
            return None, None  # of a negative divisor anything
        if self.kind == "mod":
            top = ends[1][1]
            return 0, None if top is None else top - 1
        low = ends[0][0]
        return (0, None) if low is not None and low >= 0 else (None, None)


class Polynomial:
    """What a length is made of: products of atoms, each with a factor."""

    __slots__ = ("key", "terms")

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
        self.key: Key = (
            1,
            tuple(sorted((tuple([a.key for a in p]), c) for p, c in terms.items())),
        )

    @property
    def alone(self) -> Atom | None:
        """The atom that it is, if it is one and nothing more."""
        if len(self.terms) != 1:
            return None
        ((product, factor),) = self.terms.items()
        return product[0] if factor == 1 and len(product) == 1 else None

    def bounds(self) -> Bounds:
        """The least and the greatest number that it can be; None: any."""
        low: int | None = 0
        high: int | None = 0
        for product, factor in self.terms.items():
            ends: Bounds = (factor, factor)
            for atom in product:
                a, b = atom.bounds()
                ends = _scaled(ends, a, b)
            low = None if low is None or ends[0] is None else low + ends[0]
            high = None if high is None or ends[1] is None else high + ends[1]
        return low, high


def key_of(x: Any) -> Key:
    """What tells a length or an integer from others."""
    return x.key if isinstance(x, Polynomial) else (0, x)


def bounds_of(x: Any) -> Bounds:
    """The least and the greatest number that it can be; None: any."""
    return x.bounds() if isinstance(x, Polynomial) else (x, x)


def least(x: Any) -> float:
    """The least number that a length can be; minus infinity for any."""
    low = bounds_of(x)[0]
    return -INF if low is None else low


def _scaled(ends: Bounds, a: int | None, b: int | None) -> Bounds:
    """The bounds of a product, from those of its factors."""
    left = (-INF if ends[0] is None else ends[0], INF if ends[1] is None else ends[1])
    right = (-INF if a is None else a, INF if b is None else b)
    products = [m * n if m and n else 0 for m in left for n in right]
    low, high = min(products), max(products)
    return None if low == -INF else int(low), None if high == INF else int(high)


def atoms_of(x: Any) -> Iterator[Atom]:
    """All atoms in a length, a shape or settings, those inside others too."""
    stack = [x]
    while stack:
        y = stack.pop()
        if isinstance(y, Polynomial):
            stack += [atom for product in y.terms for atom in product]
        elif isinstance(y, Made):
            yield y
            stack += y.args
        elif isinstance(y, Atom):
            yield y
        elif isinstance(y, (tuple, list)):
            stack += y
        elif isinstance(y, dict):
            stack += y.values()


# Arithmetic of terms


def terms_of(x: Any) -> Terms:
    """The terms of a polynomial or an integer."""
    return x.terms if isinstance(x, Polynomial) else {(): int(x)}


def added(a: Any, b: Any) -> Terms:
    """The sum of two polynomials or integers."""
    made = dict(terms_of(a))
    for product, factor in terms_of(b).items():
        made[product] = made.get(product, 0) + factor
    return made


def multiplied(a: Any, b: Any) -> Terms:
    """The product of two polynomials or integers."""
    made: Terms = {}
    for p, c in terms_of(a).items():
        for q, d in terms_of(b).items():
            product = tuple(sorted((*p, *q), key=lambda atom: atom.key))
            made[product] = made.get(product, 0) + c * d
    return made


def divided(a: Any, b: Any) -> tuple[Terms, Terms]:
    """``(q, r)`` with ``a == q * b + r``, where ``b`` is a single product."""
    ((below, factor),) = terms_of(b).items()
    whole: Terms = {}
    rest: Terms = {}
    for product, c in terms_of(a).items():
        left = list(product)
        for atom in below:
            if atom not in left:
                rest[product] = c
                break
            left.remove(atom)
        else:
            q, r = divmod(c, factor)
            whole[tuple(left)] = q
            rest[product] = r
    return whole, rest
