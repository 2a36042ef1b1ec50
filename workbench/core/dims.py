"""`Dim`: a length that is known only when the program runs.

A symbol may have axes of unknown length (``wb.vector("x")``). Its shape then holds
`Dim` objects: sums of atoms with integer factors, and a number. An atom is the length
of an axis of a Tensor, or what an operation makes of other lengths (a product, a
quotient, the larger of two, what two lengths broadcast to) and says no more of.
Arithmetic works on them and equal lengths compare equal; what needs a number, such as
``range(n)``, is an `UnknownLengthError` that says what to write. How a program measures
them when it runs stands in `deferred.py`.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import reduce
from math import gcd
from typing import Any, TypeGuard, Union

import numpy as np

from workbench.core import sites, source
from workbench.core.op import OPERANDS
from workbench.errors import UnknownLengthError

# Atoms: the lengths that others are made of.

Key = tuple[Any, ...]
#: What stands for an atom in another place; None keeps it.
Replace = Callable[["Atom"], Union["Dim", int, None]]
#: A length: a number, or one that is known only when the program runs.
Size = Union["Dim", int]
INF = float("inf")


class Atom:
    """A length that nothing simpler gives: a variable of the sum that a Dim is."""

    __slots__ = ("key",)

    key: Key

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Atom) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        return str(self)


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


class Compound(Atom):
    """A length that an operation makes of others: ``kind`` of some arguments."""

    __slots__ = ("args", "kind")

    def __init__(self, kind: str, args: tuple[Any, ...]) -> None:
        self.kind = kind
        self.args = args
        self.key = (1, kind, tuple(map(key_of, args)))

    def __str__(self) -> str:
        return f"{self.kind}({', '.join(map(str, self.args))})"


def key_of(x: Size) -> Key:
    """Return a key that is the same for equal lengths or integers."""
    return x.key if isinstance(x, Dim) else (0, x)


def lower_bound(x: Size) -> float:
    """Return a number that a length is never less than; minus infinity for any.

    >>> lower_bound(3)
    3
    """
    if not isinstance(x, Dim):
        return x
    return x.number + sum(_bound_multiple(a, c) for a, c in x.terms.items())


def _bound_multiple(atom: Atom, factor: int) -> float:
    """Return a number that a multiple of an atom is never less than."""
    if not isinstance(atom, Compound):
        return 0 if factor > 0 else -INF
    if atom.kind in ("max", "min"):
        choose = max if (atom.kind == "max") == (factor > 0) else min
        return choose([lower_bound(x * factor) for x in atom.args])
    of, by = atom.args[0], atom.args[-1]
    if atom.kind == "product":
        known = all(lower_bound(x) >= 0 for x in atom.args)
    elif atom.kind == "floordiv":
        known = lower_bound(of) >= 0 and lower_bound(by) >= 1
    else:
        known = atom.kind == "broadcast" or lower_bound(by) >= 1
    return 0 if known and factor > 0 else -INF


def atoms_of(x: object) -> Iterator[Atom]:
    """Yield all atoms in a length, a shape or settings, those inside others too."""
    stack = [x]
    while stack:
        y = stack.pop()
        if isinstance(y, Dim):
            stack += y.terms
        elif isinstance(y, Compound):
            yield y
            stack += y.args
        elif isinstance(y, Atom):
            yield y
        elif isinstance(y, (tuple, list)):
            stack += y
        elif isinstance(y, dict):
            stack += y.values()


# Arithmetic


def dim_of_atom(atom: Atom) -> Dim:
    """Return the length that an atom is."""
    return Dim({atom: 1})


def _parts(x: Size) -> tuple[dict[Atom, int], int]:
    return (x.terms, x.number) if isinstance(x, Dim) else ({}, int(x))


def _make_length(terms: dict[Atom, int], number: int) -> Size:
    """Return a sum of multiples of atoms, and a number: an integer without atoms."""
    terms = {atom: factor for atom, factor in terms.items() if factor}
    return Dim(terms, number) if terms else number


def _add(a: Size, b: Size) -> Size:
    (made, number), (terms, other) = _parts(a), _parts(b)
    made = dict(made)
    for atom, factor in terms.items():
        made[atom] = made.get(atom, 0) + factor
    return _make_length(made, number + other)


def _subtract(a: Size, b: Size) -> Size:
    return _add(a, _multiply(b, -1))


def _multiply(a: Size, b: Size) -> Size:
    if isinstance(a, Dim) and isinstance(b, Dim):
        (c, first), (d, second) = _split_factors(a), _split_factors(b)
        return _join_factors(c * d, first + second)
    (terms, number), scale = (_parts(a), b) if isinstance(a, Dim) else (_parts(b), a)
    scale = operator.index(scale)
    return _make_length({x: c * scale for x, c in terms.items()}, number * scale)


def _split_factors(x: Size) -> tuple[int, list[Dim]]:
    """Return a number and the lengths of which ``x`` is the product."""
    terms, number = _parts(x)
    if not terms:
        return number, []
    common = gcd(number, *terms.values())
    rest = Dim({atom: c // common for atom, c in terms.items()}, number // common)
    atom = rest.atom
    if isinstance(atom, Compound) and atom.kind == "product":
        return common, [*atom.args]
    return common, [rest]


def _join_factors(number: int, factors: list[Dim]) -> Size:
    if len(factors) < 2:
        return _multiply(factors[0], number) if factors else number
    product = Compound("product", tuple(sorted(factors, key=key_of)))
    return _make_length({product: number}, 0)


def _divide(a: Size, b: Size) -> tuple[Size, Size]:
    """Return ``a // b`` and ``a % b``."""
    if not isinstance(a, Dim) and not isinstance(b, Dim):
        return a // b, a % b
    whole: Size = 0
    if isinstance(b, Dim):
        exact = _divide_exactly(a, b) if lower_bound(b) >= 0 else None
        if exact is not None:
            return exact, 0
    elif b > 0:
        terms, number = _parts(a)
        b = operator.index(b)
        whole = _make_length({x: c // b for x, c in terms.items()}, number // b)
        a = _make_length({x: c % b for x, c in terms.items()}, number % b)
        if not isinstance(a, Dim):
            return whole, a
    floordiv, mod = [dim_of_atom(Compound(k, (a, b))) for k in ("floordiv", "mod")]
    return whole + floordiv, mod


def _divide_exactly(a: Size, b: Dim) -> Size | None:
    """Return ``a / b`` where the factors of ``b`` are among those of ``a``."""
    (c, factors), (d, below) = _split_factors(a), _split_factors(b)
    keys = [*map(key_of, factors)]
    for key in map(key_of, below):
        if key not in keys:
            return None
        del factors[keys.index(key)]
        keys.remove(key)
    return _join_factors(c // d, factors) if c % d == 0 else None


def _quotient(a: Size, b: Size) -> Size:
    return _divide(a, b)[0]


def _remainder(a: Size, b: Size) -> Size:
    return _divide(a, b)[1]


def _never_equal(a: Size, b: Size) -> bool:
    """Return whether two lengths are unequal, whatever the unknown ones are."""
    if not isinstance(a, Dim) and not isinstance(b, Dim):
        return bool(a != b)
    return lower_bound(a - b) >= 1 or lower_bound(b - a) >= 1


# A length


def _is_length(x: object) -> TypeGuard[Size]:
    return isinstance(x, (Dim, int, np.integer))


def _as_tensors(x: Any) -> Any:
    """Return an operand with each Dim as a Tensor, in lists too."""
    if isinstance(x, Dim):
        return OPERANDS[Dim](x)
    if type(x) in (list, tuple):
        return type(x)(map(_as_tensors, x))
    return x


def _apply_ufunc(name: str, a: object, b: object) -> Any:
    """Apply a ufunc to a length and a number, with lengths as Tensors."""
    other = b if isinstance(a, Dim) else a
    if isinstance(other, (float, complex, np.generic, Dim, int)):
        return getattr(np, name)(_as_tensors(a), _as_tensors(b))
    return NotImplemented


def _make_operators(
    name: str, exact: Callable[[Any, Any], Any] | None = None
) -> tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]:
    """Return an operator and its reflection: of lengths ``exact``, else a ufunc."""

    def forward(self: Any, other: object) -> Any:
        if exact is not None and _is_length(other):
            return exact(self, other)
        return _apply_ufunc(name, self, other)

    def reflected(self: Any, other: object) -> Any:
        if exact is not None and _is_length(other):
            return exact(other, self)
        return _apply_ufunc(name, other, self)

    return forward, reflected


def _make_comparison(sign: str) -> Callable[[Any, Any], bool]:
    """Return a comparison that holds at all lengths, or at none, or else refuses."""
    margin = 0 if "=" in sign else 1

    def compare(self: Any, other: Any) -> bool:
        if not _is_length(other):
            return NotImplemented  # type: ignore[no-any-return]
        more = other - self if sign[0] == "<" else self - other
        if lower_bound(more) >= margin:
            return True
        if lower_bound(-more) > -margin:
            return False
        raise unknown_length_error(f"{self} {sign} {other}", self)

    return compare


class Dim:
    """A length that is known only when the program runs.

    Examples
    --------
    >>> import workbench as wb
    >>> n, m = wb.matrix("x").shape
    >>> 2 * n + 1, n * m // n, n + m == m + n, n >= 0
    (2*x.shape[0] + 1, x.shape[1], True, True)
    """

    __slots__ = ("key", "number", "terms")

    def __init__(self, terms: dict[Atom, int], number: int = 0) -> None:
        self.terms = terms
        self.number = number
        parts = sorted((atom.key, factor) for atom, factor in terms.items())
        self.key: Key = (1, number, tuple(parts))

    @property
    def atom(self) -> Atom | None:
        """The single atom of the length, if the length is one atom and nothing more."""
        if self.number or len(self.terms) != 1:
            return None
        ((atom, factor),) = self.terms.items()
        return atom if factor == 1 else None

    def replace(self, new: Replace) -> Size:
        """Return the same sum of other lengths: a number if all are known."""
        total: Size = self.number
        for atom, factor in self.terms.items():
            total = total + factor * _replace_atom(atom, new)
        return total

    # Arithmetic: with lengths and integers it gives lengths, else Tensors

    __add__, __radd__ = _make_operators("add", _add)
    __sub__, __rsub__ = _make_operators("subtract", _subtract)
    __mul__, __rmul__ = _make_operators("multiply", _multiply)
    __floordiv__, __rfloordiv__ = _make_operators("floor_divide", _quotient)
    __mod__, __rmod__ = _make_operators("remainder", _remainder)
    __truediv__, __rtruediv__ = _make_operators("divide")

    def __neg__(self) -> Size:
        return _multiply(self, -1)

    def __pos__(self) -> Dim:
        return self

    def __abs__(self) -> Size:
        return self if lower_bound(self) >= 0 else largest(self, -self)

    def __divmod__(self, other: Any) -> tuple[Any, Any]:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> tuple[Any, Any]:
        return other // self, other % self

    def __pow__(self, other: Any) -> Any:
        if isinstance(other, (int, np.integer)) and 0 <= other < 9:
            return reduce(operator.mul, [self] * int(other), 1)
        return _apply_ufunc("power", self, other)

    def __rpow__(self, other: Any) -> Any:
        return _apply_ufunc("power", other, self)

    # Comparisons: what holds at all lengths, or at none; the rest is an error

    __le__, __lt__ = _make_comparison("<="), _make_comparison("<")
    __ge__, __gt__ = _make_comparison(">="), _make_comparison(">")

    def __eq__(self, other: object) -> bool:
        if not _is_length(other):
            return NotImplemented
        if key_of(self) == key_of(other):
            return True
        if _never_equal(self, other):
            return False
        raise unknown_length_error(f"{self} == {other}", self)

    def __hash__(self) -> int:
        return hash(self.key)

    # What needs the number

    def __bool__(self) -> bool:
        if lower_bound(self) >= 1:
            return True
        raise unknown_length_error(f"the truth of {self}", self)

    def __index__(self) -> int:
        raise unknown_length_error(str(self), self)

    def __int__(self) -> int:
        raise unknown_length_error(f"int({self})", self)

    def __float__(self) -> float:
        raise unknown_length_error(f"float({self})", self)

    def __complex__(self) -> complex:
        raise unknown_length_error(f"complex({self})", self)

    # In NumPy's functions it is an operand, an integer without an axis

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: Any, **settings: Any
    ) -> Any:
        return getattr(ufunc, method)(*map(_as_tensors, inputs), **settings)

    def __array_function__(
        self,
        function: Callable[..., Any],
        kinds: Iterable[type],
        args: tuple[Any, ...],
        settings: dict[str, Any],
    ) -> Any:
        return function(*map(_as_tensors, args), **settings)

    def __repr__(self) -> str:
        return format_dim(self, str)


def _replace_atom(atom: Atom, new: Replace) -> Size:
    """Return the replacement of an atom, or the atom with its arguments replaced."""
    answer = new(atom)
    if answer is not None:
        return answer
    if isinstance(atom, Compound):
        return KINDS[atom.kind](*[replace_dims(x, new) for x in atom.args])
    return dim_of_atom(atom)


# Looking into settings and shapes


def has_dim(x: object) -> bool:
    """Return whether a setting holds a Dim, in tuples and dicts too."""
    if isinstance(x, (tuple, list)):
        for y in x:
            kind = type(y)
            if kind is Dim or (kind is not int and has_dim(y)):
                return True
        return False
    return isinstance(x, Dim) or (isinstance(x, dict) and has_dim([*x.values()]))


def replace_dims(x: Any, new: Replace) -> Any:
    """Return a setting with the lengths inside replaced."""
    if isinstance(x, Dim):
        return x.replace(new)
    if isinstance(x, (tuple, list)) and has_dim(x):
        parts = [replace_dims(y, new) for y in x]
        return type(x)(*parts) if hasattr(x, "_fields") else type(x)(parts)
    if isinstance(x, dict):
        return {k: replace_dims(v, new) for k, v in x.items()}
    return x


def is_same_shape(a: tuple[Any, ...], b: tuple[Any, ...]) -> bool:
    """Return whether two shapes are equal at all lengths."""
    if len(a) != len(b):
        return False
    for n in a:  # plain loops: every eager gradient comes by here
        if type(n) is Dim:
            return _is_same_unknown(a, b)
    for n in b:
        if type(n) is Dim:
            return False
    return tuple(a) == tuple(b)


def _is_same_unknown(a: tuple[Any, ...], b: tuple[Any, ...]) -> bool:
    for m, n in zip(a, b, strict=True):
        if type(m) is Dim or type(n) is Dim:
            if type(m) is not type(n) or m.key != n.key:
                return False
        elif m != n:
            return False
    return True


def always_differ(a: tuple[Any, ...], b: tuple[Any, ...]) -> bool:
    """Return whether two shapes are unequal at all lengths."""
    return len(a) != len(b) or any(map(_never_equal, a, b))


def is_always_less(a: Size, b: Size) -> bool:
    """Return whether a length is less than another at all lengths.

    For what a function refuses: where that is not known yet, NumPy refuses it when
    the program runs.
    """
    return lower_bound(b - a) >= 1


def is_zero_length(n: Size) -> bool:
    """Return whether a length is 0 at all lengths."""
    return not isinstance(n, Dim) and n == 0


# What lengths broadcast to, and the larger of two


def largest(*lengths: Any) -> Any:
    """Return the largest of lengths and integers.

    >>> largest(2, 3)
    3
    """
    return _make_extreme("max", lengths) if has_dim(lengths) else int(max(lengths))


def smallest(*lengths: Any) -> Any:
    """Return the smallest of lengths and integers."""
    return _make_extreme("min", lengths) if has_dim(lengths) else int(min(lengths))


def _make_extreme(kind: str, lengths: Iterable[Any]) -> Size:
    flat: dict[tuple[Any, ...], Size] = {}
    for x in lengths:
        for y in _flatten_extreme(kind, x):
            flat[key_of(y)] = y
    extremes: list[Size] = []
    for i, (key, x) in enumerate(flat.items()):
        others = [y for j, y in enumerate(flat.values()) if j != i]
        # Of two that are always equal one would have the other's key.
        if not any(
            lower_bound(y - x if kind == "max" else x - y) >= 0 and key != key_of(y)
            for y in others
        ):
            extremes.append(x)
    if len(extremes) == 1:
        return extremes[0]
    return dim_of_atom(Compound(kind, tuple(sorted(extremes, key=key_of))))


def _flatten_extreme(kind: str, x: Any) -> list[Any]:
    """Return the shifted arguments of an extreme of the same kind, else ``[x]``."""
    if isinstance(x, Dim):
        atom = Dim(x.terms).atom
        if isinstance(atom, Compound) and atom.kind == kind:
            return [y + x.number for y in atom.args]
    return [int(x) if isinstance(x, np.integer) else x]


def broadcast_lengths(*lengths: Any) -> Any:
    """Return the length that some lengths broadcast to, by NumPy's rule.

    Raises
    ------
    ValueError
        If two of them are numbers, neither is 1 and they differ.

    >>> broadcast_lengths(1, 3)
    3
    """
    flat: dict[tuple[Any, ...], Any] = {}
    for x in lengths:
        atom = x.atom if isinstance(x, Dim) else None
        inside: tuple[Any, ...] = (x,)
        if isinstance(atom, Compound) and atom.kind == "broadcast":
            inside = atom.args
        for y in inside:
            if isinstance(y, Dim) or y != 1:
                flat[key_of(y)] = y
    known = [x for x in flat.values() if not isinstance(x, Dim)]
    if len(known) > 1:
        raise ValueError(f"lengths {known[0]} and {known[1]} do not broadcast")
    if known:
        return known[0]  # the others are that or 1
    if len(flat) < 2:
        return next(iter(flat.values()), 1)
    ordered = tuple(flat[key] for key in sorted(flat))
    return dim_of_atom(Compound("broadcast", ordered))


def broadcast_shapes(*shapes: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the shape that some shapes broadcast to, also with unknown lengths.

    Raises
    ------
    ValueError
        If they cannot fit, whatever the unknown lengths are.
    """
    if not has_dim(shapes):
        return np.broadcast_shapes(*shapes)
    rank = max(map(len, shapes), default=0)
    filled = [(1,) * (rank - len(s)) + tuple(s) for s in shapes]
    return tuple([broadcast_lengths(*lengths) for lengths in zip(*filled, strict=True)])


#: How what an operation makes of lengths is made again, from other arguments.
KINDS: dict[str, Callable[..., Size]] = {
    "broadcast": broadcast_lengths,
    "floordiv": operator.floordiv,
    "max": largest,
    "min": smallest,
    "mod": operator.mod,
    "product": lambda *lengths: reduce(operator.mul, lengths),
}


def unify_lengths(a: Size, b: Size, message: str = "") -> Any:
    """Return the one length of two that an op needs to be equal.

    Where that is not known, NumPy checks it when the program runs.

    Raises
    ------
    ValueError
        If they differ at all lengths.

    >>> unify_lengths(3, 3)
    3
    """
    if _never_equal(a, b):
        raise ValueError(message or f"lengths {a} and {b} differ")
    return b if isinstance(a, Dim) and not isinstance(b, Dim) else a


def may_be_broadcast(n: Size, made: Sequence[Any]) -> bool:
    """Return whether a length may be what NumPy broadcast another one to.

    ``made`` are the Tensors of the operation: of their own lengths nothing is known.
    """
    if not isinstance(n, Dim):
        return True
    serials = {x.serial for x in made}
    return any(
        a.kind == "broadcast" if isinstance(a, Compound) else a.tensor.serial in serials
        for a in atoms_of(n)
        if isinstance(a, (Compound, Length))
    )


# How lengths are written, and the error for one that is not known yet.

#: Those that are written between their arguments.
SIGNS = {"floordiv": "//", "mod": "%", "product": "*"}


def format_dim(x: object, name: Callable[[Atom], str], *, code: bool = False) -> str:
    """Return a length as text with the names of its atoms; ``code``: as Python."""
    if not isinstance(x, Dim):
        return str(x)
    between = " * " if code else "*"
    alone = not x.number and [*x.terms.values()] == [1]
    text = ""
    for atom, factor in sorted(x.terms.items(), key=lambda t: _order_term(*t)):
        term = _format_atom(atom, name, code, alone=alone)
        term = term if abs(factor) == 1 else f"{abs(factor)}{between}{term}"
        text = _append_term(text, term, factor)
    return _append_term(text, str(abs(x.number)), x.number) if x.number else text


def _order_term(atom: Atom, factor: int) -> Key:
    """Return the place of a term in the text of a sum: products first."""
    product = isinstance(atom, Compound) and atom.kind == "product"
    return not product, factor < 0, atom.key


def _append_term(text: str, term: str, factor: int) -> str:
    if not text:
        return f"-{term}" if factor < 0 else term
    return f"{text} {'-' if factor < 0 else '+'} {term}"


def _format_atom(
    atom: Atom, name: Callable[[Atom], str], code: bool, *, alone: bool
) -> str:
    if not isinstance(atom, Compound):
        return name(atom)
    args = [format_dim(x, name, code=code) for x in atom.args]
    if atom.kind in SIGNS:
        sign, product = SIGNS[atom.kind], atom.kind == "product"
        between = f" {sign} " if code or not product else sign
        text = between.join(
            f"({arg})" if " " in arg or "*" in arg else arg for arg in args
        )
        return text if alone or product else f"({text})"
    if atom.kind == "broadcast" and code:
        lengths = ", ".join(f"({arg},)" for arg in args)
        return f"np.broadcast_shapes({lengths})[0]"
    return f"{atom.kind}({', '.join(args)})"


#: Calls of NumPy that make an array of a length, on the user's line.
_MAKER = re.compile(r"\bnp\.(zeros|ones|empty|full|eye|identity|arange|tri)\(")
#: What to write for those that look at the shape before anything else.
_LIKE = {"zeros": "np.zeros_like(x, shape=...)", "empty": "np.empty_like(x, shape=...)"}


def unknown_length_error(what: str, length: Dim) -> UnknownLengthError:
    """Return the error for a length that is not known yet, with the cure."""
    site = sites.decode(*source.caller())
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
