"""`Dim`: a length that is known only when the program runs.

A symbol may have axes of unknown length (``wb.vector("x")``). Its shape then holds
`Dim` objects: polynomials, with integer coefficients, of the lengths of Tensors and
of a few things made of them (a quotient, the larger of two, what two lengths
broadcast to). Arithmetic works on them and equal lengths compare equal; what needs a
number, such as ``range(n)``, is an `UnknownLengthError` that says what to write.
What they are made of are atoms, below; how a program measures them when it runs stands
in `deferred.py`.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator
from functools import reduce
from typing import Any

import numpy as np

from workbench.core import hooks, source
from workbench.errors import UnknownLengthError

# Atoms: the lengths that others are made of, and polynomials of them.
#
# The length of an axis of a Tensor is an atom; so is a quotient, the larger of two,
# what two lengths broadcast to. A length that is not known is a polynomial of atoms
# with integer coefficients, kept as a dict from products to factors.

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


# How lengths are written, and the error for one that is not known yet.

#: Those of two arguments that are written between them.
SIGNS = {"floordiv": "//", "mod": "%"}


def written(x: Any, name: Callable[[Atom], str], *, code: bool = False) -> str:
    """A length as text, with the names of its atoms; ``code`` as Python runs it."""
    if not isinstance(x, Polynomial):
        return str(x)
    order = sorted(
        x.terms.items(), key=lambda t: (-len(t[0]), t[1] < 0, [a.key for a in t[0]])
    )
    shown = ""
    between = " * " if code else "*"
    for product, factor in order:
        alone = len(product) == 1 and factor == 1 and len(order) == 1
        names = [_atom_text(a, name, code, alone=alone) for a in product]
        if abs(factor) != 1 or not names:
            names.insert(0, str(abs(factor)))
        text = between.join(names)
        if not shown:
            shown = f"-{text}" if factor < 0 else text
        else:
            shown += f" {'-' if factor < 0 else '+'} {text}"
    return shown


def _atom_text(
    atom: Atom, name: Callable[[Atom], str], code: bool, *, alone: bool
) -> str:
    if not isinstance(atom, Made):
        return name(atom)
    args = [written(x, name, code=code) for x in atom.args]
    if atom.kind in SIGNS:
        text = f" {SIGNS[atom.kind]} ".join(
            f"({arg})" if " " in arg or "*" in arg else arg for arg in args
        )
        return text if alone else f"({text})"
    if atom.kind == "broadcast" and code:
        lengths = ", ".join(f"({arg},)" for arg in args)
        return f"np.broadcast_shapes({lengths})[0]"
    return f"{atom.kind}({', '.join(args)})"


#: Calls of NumPy that make an array of a length, on the user's line.
_MAKER = re.compile(r"\bnp\.(zeros|ones|empty|full|eye|identity|arange|tri)\(")
#: What to write for those that look at the shape before anything else.
_LIKE = {"zeros": "np.zeros_like(x, shape=...)", "empty": "np.empty_like(x, shape=...)"}


def asked(what: str, length: Polynomial) -> UnknownLengthError:
    """The error for a number that is not known yet, with what to write instead."""
    site = source.decode(*source.caller())
    where = "" if site is None else f" (at {site.place}: {site.text})"
    text = "" if site is None else site.text
    maker = None if "broadcast_to(" in text else _MAKER.search(text)
    if maker is not None:
        call = _LIKE.get(maker[1], f"np.{maker[1]}(..., like=x)")
        cure = f"Write {call}, where x is a Tensor: the array is made at run time."
    else:
        cure = (
            "Write it where NumPy gets a Tensor too (x / n, np.reshape(x, ...),"
            " np.zeros_like(x, shape=...), np.arange(n, like=x); wb.constant(a) makes"
            " one of an array), use wb.scan in place of a loop over it, or declare the"
            " length: shape=(3,)."
        )
    named = ", ".join(
        dict.fromkeys(
            f"the length of axis {a.axis} of {a.tensor.name or a.tensor.op.name!r}"
            for a in atoms_of(length)
            if isinstance(a, Length)
        )
    )
    because = f"{named} is known only when the program runs" if named else (
        "it is known only when the program runs"
    )  # fmt: skip
    return UnknownLengthError(f"{what}{where}: {because}. {cure}")


# A length


class Dim(Polynomial):
    """A length that is known only when the program runs.

    Examples
    --------
    >>> import workbench as wb
    >>> n, m = wb.matrix("x").shape
    >>> 2 * n + 1, n * m // n, n + m == m + n, n >= 0
    (2*x.shape[0] + 1, x.shape[1], True, True)
    """

    __slots__ = ()

    def replaced(self, new: Replace) -> Any:
        """The same polynomial of other lengths: a number if all are known."""
        total: Any = 0
        for product, factor in self.terms.items():
            term: Any = factor
            for atom in product:
                term = term * _stand_in(atom, new)
            total = total + term
        return total

    # Arithmetic: with lengths and integers it gives lengths, else Tensors

    def __add__(self, other: Any) -> Any:
        return _add(self, other) if _length(other) else _wider("add", self, other)

    def __radd__(self, other: Any) -> Any:
        return _add(self, other) if _length(other) else _wider("add", other, self)

    def __sub__(self, other: Any) -> Any:
        if _length(other):
            return _add(self, -other if isinstance(other, Dim) else -int(other))
        return _wider("subtract", self, other)

    def __rsub__(self, other: Any) -> Any:
        return _add(-self, other) if _length(other) else _wider("subtract", other, self)

    def __mul__(self, other: Any) -> Any:
        return _multiply(self, other) if _length(other) else _wider(
            "multiply", self, other
        )  # fmt: skip

    def __rmul__(self, other: Any) -> Any:
        return _multiply(self, other) if _length(other) else _wider(
            "multiply", other, self
        )  # fmt: skip

    def __neg__(self) -> Any:
        return _multiply(self, -1)

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return self if least(self) >= 0 else KINDS["max"](self, -self)

    def __floordiv__(self, other: Any) -> Any:
        return _quotient(self, other) if _length(other) else _wider(
            "floor_divide", self, other
        )  # fmt: skip

    def __rfloordiv__(self, other: Any) -> Any:
        return _quotient(other, self) if _length(other) else _wider(
            "floor_divide", other, self
        )  # fmt: skip

    def __mod__(self, other: Any) -> Any:
        return _remainder(self, other) if _length(other) else _wider(
            "remainder", self, other
        )  # fmt: skip

    def __rmod__(self, other: Any) -> Any:
        return _remainder(other, self) if _length(other) else _wider(
            "remainder", other, self
        )  # fmt: skip

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def __truediv__(self, other: Any) -> Any:
        return _wider("divide", self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return _wider("divide", other, self)

    def __pow__(self, other: Any) -> Any:
        if isinstance(other, (int, np.integer)) and 0 <= other < 9:
            return reduce(operator.mul, [self] * int(other), 1)
        return _wider("power", self, other)

    def __rpow__(self, other: Any) -> Any:
        return _wider("power", other, self)

    # Comparisons: what holds at all lengths, or at none; the rest is an error

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (Dim, int, np.integer)):
            return NotImplemented
        if isinstance(other, Dim) and self.key == other.key:
            return True
        low, high = bounds_of(self - other)
        if (low is not None and low > 0) or (high is not None and high < 0):
            return False
        raise asked(f"{self} == {other}", self)

    def __hash__(self) -> int:
        return hash(self.key)

    def __le__(self, other: Any) -> bool:
        return _ordered(self, other, "<=", strict=False)

    def __lt__(self, other: Any) -> bool:
        return _ordered(self, other, "<", strict=True)

    def __ge__(self, other: Any) -> bool:
        return _ordered(self, other, ">=", strict=False)

    def __gt__(self, other: Any) -> bool:
        return _ordered(self, other, ">", strict=True)

    # What needs the number

    def __bool__(self) -> bool:
        if least(self) >= 1:
            return True
        raise asked(f"the truth of {self}", self)

    def __index__(self) -> int:
        raise asked(str(self), self)

    def __int__(self) -> int:
        raise asked(f"int({self})", self)

    def __float__(self) -> float:
        raise asked(f"float({self})", self)

    def __complex__(self) -> complex:
        raise asked(f"complex({self})", self)

    # In NumPy's functions it is an operand, an integer without an axis

    def __array_ufunc__(
        self, ufunc: Any, method: str, *inputs: Any, **settings: Any
    ) -> Any:
        return getattr(ufunc, method)(*map(_tensors, inputs), **settings)

    def __array_function__(
        self, function: Any, kinds: Any, args: Any, settings: Any
    ) -> Any:
        return function(*map(_tensors, args), **settings)

    def __repr__(self) -> str:
        return written(self, str)


def _length(x: Any) -> bool:
    return isinstance(x, (Dim, int, np.integer))


def _stand_in(atom: Atom, new: Replace) -> Any:
    """The number or Dim that stands for an atom, or for it with other arguments."""
    answer = new(atom)
    if answer is not None:
        return answer
    if isinstance(atom, Made):
        return KINDS[atom.kind](*[replaced(x, new) for x in atom.args])
    return Dim({(atom,): 1})


def _tensors(x: Any) -> Any:
    """Each Dim as a Tensor, in lists too."""
    if isinstance(x, Dim):
        return hooks.length(x)
    if type(x) in (list, tuple):
        return type(x)(map(_tensors, x))
    return x


def _wider(name: str, a: Any, b: Any) -> Any:
    """A ufunc of a length and what is none: a Tensor."""
    other = b if isinstance(a, Dim) else a
    if isinstance(other, (float, complex, np.generic, Dim, int)):
        return getattr(np, name)(_tensors(a), _tensors(b))
    return NotImplemented


# Polynomials


def _dim(terms: Terms) -> Any:
    terms = {product: factor for product, factor in terms.items() if factor}
    if not terms:
        return 0
    return terms[()] if terms.keys() == {()} else Dim(terms)


def _add(a: Any, b: Any) -> Any:
    return _dim(added(a, b))


def _multiply(a: Any, b: Any) -> Any:
    return _dim(multiplied(a, b))


def _quotient(a: Any, b: Any) -> Any:
    """``a // b``; lengths are whole, so what divides evenly is a polynomial."""
    if not isinstance(a, Dim) and not isinstance(b, Dim):
        return a // b
    if isinstance(a, Dim) and isinstance(b, Dim) and a.key == b.key:
        return 1
    if len(terms_of(b)) == 1 and (least(b) >= 0 if isinstance(b, Dim) else b > 0):
        whole, rest = map(_dim, divided(a, b))
        low, high = bounds_of(rest)
        if (low, high) == (0, 0):
            return whole
        if not isinstance(b, Dim):
            if low is not None and low >= 0 and high is not None and high < b:
                return whole
            return whole + Dim({(Made("floordiv", (rest, b)),): 1})
    return Dim({(Made("floordiv", (a, b)),): 1})


def _remainder(a: Any, b: Any) -> Any:
    """``a % b``."""
    if not isinstance(a, Dim) and not isinstance(b, Dim):
        return a % b
    if isinstance(a, Dim) and isinstance(b, Dim) and a.key == b.key:
        return 0
    if len(terms_of(b)) == 1 and (least(b) >= 0 if isinstance(b, Dim) else b > 0):
        _, rest = map(_dim, divided(a, b))
        low, high = bounds_of(rest)
        if (low, high) == (0, 0):
            return 0
        if not isinstance(b, Dim):
            if low is not None and low >= 0 and high is not None and high < b:
                return rest
            return Dim({(Made("mod", (rest, b)),): 1})
    return Dim({(Made("mod", (a, b)),): 1})


KINDS.update(floordiv=operator.floordiv, mod=operator.mod)


def _ordered(a: Any, b: Any, sign: str, *, strict: bool) -> bool:
    if not _length(b):
        return NotImplemented  # type: ignore[no-any-return]
    low, high = bounds_of(b - a if sign[0] == "<" else a - b)
    least = 1 if strict else 0
    if low is not None and low >= least:
        return True
    if high is not None and high < least:
        return False
    raise asked(f"{a} {sign} {b}", a)


# Looking into settings and shapes


def found(x: Any) -> bool:
    """Whether a setting holds a Dim, in tuples and dicts too."""
    if isinstance(x, (tuple, list)):
        for y in x:
            kind = type(y)
            if kind is Dim or (kind is not int and found(y)):
                return True
        return False
    return isinstance(x, Dim) or (isinstance(x, dict) and found([*x.values()]))


def replaced(x: Any, new: Replace) -> Any:
    """A setting with other lengths in it."""
    if isinstance(x, Dim):
        return x.replaced(new)
    if isinstance(x, (tuple, list)) and found(x):
        parts = [replaced(y, new) for y in x]
        return type(x)(*parts) if hasattr(x, "_fields") else type(x)(parts)
    if isinstance(x, dict):
        return {k: replaced(v, new) for k, v in x.items()}
    return x


def same(a: tuple[Any, ...], b: tuple[Any, ...]) -> bool:
    """Whether two shapes are equal at all lengths."""
    if len(a) != len(b):
        return False
    for n in a:  # plain loops: every eager gradient comes by here
        if type(n) is Dim:
            return _same(a, b)
    for n in b:
        if type(n) is Dim:
            return False
    return tuple(a) == tuple(b)


def _same(a: tuple[Any, ...], b: tuple[Any, ...]) -> bool:
    for m, n in zip(a, b, strict=True):
        if type(m) is Dim or type(n) is Dim:
            if type(m) is not type(n) or m.key != n.key:
                return False
        elif m != n:
            return False
    return True


def differ(a: tuple[Any, ...], b: tuple[Any, ...]) -> bool:
    """Whether two shapes are unequal at all lengths."""
    if len(a) != len(b):
        return True
    for m, n in zip(a, b, strict=True):
        if isinstance(m, Dim) or isinstance(n, Dim):
            low, high = bounds_of(m - n)
            if (low is not None and low > 0) or (high is not None and high < 0):
                return True
        elif m != n:
            return True
    return False


def below(a: Any, b: Any) -> bool:
    """Whether a length is less than another at all lengths.

    For what a function refuses: where that is not known yet, NumPy refuses it when
    the program runs.
    """
    return least(b - a) >= 1


def none(n: Any) -> bool:
    """Whether a length is 0 at all lengths."""
    return not isinstance(n, Dim) and n == 0
