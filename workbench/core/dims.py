"""`Dim`: a length that is known only when the program runs.

A symbol may have axes of unknown length (``wb.vector("x")``). Its shape then holds
`Dim` objects: polynomials, with integer coefficients, of the lengths of Tensors and
of a few things made of them (a quotient, the larger of two, what two lengths
broadcast to). Arithmetic works on them and equal lengths compare equal; what needs a
number, such as ``range(n)``, is an `UnknownLengthError` that says what to write.
What they are made of stands in `atoms.py`, how a program measures them when it runs in
`late.py`.
"""

from __future__ import annotations

import operator
from functools import reduce
from typing import Any

import numpy as np

from workbench.core import hooks
from workbench.core.atoms import (
    KINDS,
    Atom,
    Made,
    Polynomial,
    Replace,
    Terms,
    added,
    bounds_of,
    divided,
    least,
    multiplied,
    terms_of,
)
from workbench.core.format_dims import asked, written

__all__ = ["Dim", "below", "differ", "found", "none", "replaced", "same"]


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
