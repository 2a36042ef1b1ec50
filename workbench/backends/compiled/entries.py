"""What one entry of an elementwise op is, in registers.

NumPy's own functions stand here as primitives. Other ops say in their row what an entry
is (`Op.scalar`, an expression of ``x`` or ``x0``, ``x1``, and primitives). What has
neither is computed by NumPy.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from workbench.backends.compiled.builder import (
    HALF,
    PARTS,
    Complex,
    Entry,
    EntryBuilder,
    Value,
    kind_of,
)
from workbench.backends.compiled.complex_functions import (
    COMPLEX_FUNCTIONS,
    call_complex_function,
)
from workbench.backends.compiled.functions import call_function
from workbench.backends.compiled.ufuncs import call_ufunc
from workbench.core.op import Op, declare
from workbench.core.tensor import Tensor
from workbench.core.types import Spec
from workbench.errors import CompilerError

Primitive = Callable[..., Any]
RealPrimitive = Callable[..., Value]

# Primitives of real values, all operands of one kind.


def _literal(b: EntryBuilder, number: float, like: Value) -> Value:
    return b.literal_part(number, like.kind)


def _negative(b: EntryBuilder, x: Value) -> Value:
    if x.kind[0] == "f":
        return b.negate(x)
    return b.operate("sub", _literal(b, 0, x), x)


def _arithmetic(word: str) -> RealPrimitive:
    def compute(b: EntryBuilder, x: Value, y: Value) -> Value:
        return b.operate(f"f{word}" if x.kind[0] == "f" else word, x, y)

    return compute


add, subtract, multiply = map(_arithmetic, ("add", "sub", "mul"))


def _divide(b: EntryBuilder, x: Value, y: Value) -> Value:
    return b.operate("fdiv", x, y)


def _absolute(b: EntryBuilder, x: Value) -> Value:
    if x.kind[0] == "f":
        return b.intrinsic("llvm.fabs", x)
    if x.kind[0] == "u":
        return x
    return b.choose(b.compare("lt", x, _literal(b, 0, x)), _negative(b, x), x)


def _choose_larger(relation: str) -> RealPrimitive:
    """Return maximum or minimum; a NaN wins."""

    def compute(b: EntryBuilder, x: Value, y: Value) -> Value:
        takes = b.compare(relation, x, y)
        if x.kind[0] == "f":
            takes = b.operate("or", takes, b.is_nan(x))
        return b.choose(takes, x, y)

    return compute


maximum, minimum = _choose_larger("ge"), _choose_larger("le")


def _remainder(b: EntryBuilder, x: Value, y: Value) -> Value:
    return _divide_with_remainder(b, x, y)[1]


def _floor_divide(b: EntryBuilder, x: Value, y: Value) -> Value:
    return _divide_with_remainder(b, x, y)[0]


def _fmod(b: EntryBuilder, x: Value, y: Value) -> Value:
    return b.operate("frem", x, y) if x.kind[0] == "f" else _divide_integers(b, x, y)[1]


def _divide_integers(b: EntryBuilder, x: Value, y: Value) -> tuple[Value, Value]:
    """Return quotient towards 0 and remainder; by 0 both are 0.

    A processor stops at a division by 0, and of the lowest number by -1.
    """
    if x.kind == "b1":
        raise CompilerError("booleans are divided by NumPy.")
    signed = x.kind[0] == "i"
    zero, one = _literal(b, 0, x), _literal(b, 1, x)
    by_zero = b.compare("eq", y, zero)
    safe = b.choose(by_zero, one, y)
    if signed:
        turned = b.compare("eq", y, _literal(b, -1, x))
        safe = b.choose(turned, one, safe)
    word = "s" if signed else "u"
    quotient, rest = b.operate(f"{word}div", x, safe), b.operate(f"{word}rem", x, safe)
    if signed:
        quotient = b.choose(turned, b.operate("sub", zero, x), quotient)
    return b.choose(by_zero, zero, quotient), b.choose(by_zero, zero, rest)


def _divide_with_remainder(b: EntryBuilder, x: Value, y: Value) -> tuple[Value, Value]:
    """Return quotient and remainder, rounded and signed as NumPy has them."""
    zero, one = _literal(b, 0, x), _literal(b, 1, x)
    if x.kind[0] != "f":
        quotient, rest = _divide_integers(b, x, y)
        if x.kind[0] == "u":
            return quotient, rest
        apart = b.compare("lt", b.operate("xor", rest, y), zero)
        apart = b.operate("and", apart, b.compare("ne", rest, zero))
        less, moved = subtract(b, quotient, one), add(b, rest, y)
        return b.choose(apart, less, quotient), b.choose(apart, moved, rest)
    half = _literal(b, 0.5, x)
    rest = b.operate("frem", x, y)
    quotient = _divide(b, subtract(b, x, rest), y)
    whole = b.compare("eq", rest, zero)
    # The remainder has the sign of the divisor.
    apart = b.operate("xor", b.compare("lt", y, zero), b.compare("lt", rest, zero))
    moved = b.choose(apart, add(b, rest, y), rest)
    moved = b.choose(whole, b.intrinsic("llvm.copysign", zero, y), moved)
    less = b.choose(apart, subtract(b, quotient, one), quotient)
    quotient = b.choose(whole, quotient, less)
    floor = b.intrinsic("llvm.floor", quotient)
    up = b.compare("gt", subtract(b, quotient, floor), half)
    floor = b.choose(up, add(b, floor, one), floor)
    signed = b.intrinsic("llvm.copysign", zero, _divide(b, x, y))
    floor = b.choose(b.compare("eq", quotient, zero), signed, floor)
    by_zero = b.compare("eq", y, zero)
    return b.choose(by_zero, _divide(b, x, y), floor), b.choose(by_zero, rest, moved)


#: An exponent up to which a power is written as products.
MOST_PRODUCTS = 16


def _power(b: EntryBuilder, x: Value, y: Value) -> Value:
    p = y.number
    if x.kind[0] != "f" and (p is None or not 0 <= p <= MOST_PRODUCTS):
        raise CompilerError("such powers of integers are computed by NumPy.")
    if p is not None and p == int(p) and 0 <= p <= MOST_PRODUCTS:
        return _raise_to_integer(b, x, int(p))
    if p == 0.5:
        return b.intrinsic("llvm.sqrt", x)
    if p == -1:
        return _divide(b, _literal(b, 1, x), x)
    return call_function(b, "pow", x, y)


def _raise_to_integer(b: EntryBuilder, x: Value, p: int) -> Value:
    """Return a power by squaring; no intermediate value is larger than the result."""
    made: Value | None = None
    square = x
    while p:
        if p & 1:
            made = square if made is None else multiply(b, made, square)
        p >>= 1
        if p:
            square = multiply(b, square, square)
    return _literal(b, 1, x) if made is None else made


def _math(name: str) -> RealPrimitive:
    def compute(b: EntryBuilder, *xs: Value) -> Value:
        if xs[0].kind[0] != "f":
            raise CompilerError(f"{name} takes floats.")
        return call_function(b, name, *xs)

    return compute


def _intrinsic(name: str) -> RealPrimitive:
    """Return one of LLVM's functions of floats; whole numbers stay as they are."""

    def compute(b: EntryBuilder, *xs: Value) -> Value:
        return xs[0] if xs[0].kind[0] != "f" else b.intrinsic(f"llvm.{name}", *xs)

    return compute


def _has_sign(b: EntryBuilder, x: Value) -> Value:
    if x.kind[0] != "f":
        return b.compare("lt", x, _literal(b, 0, x))
    whole = "i" + x.kind[1]
    bits = b.reinterpret(x, whole)
    return b.compare("lt", bits, _literal(b, 0, bits))


def _compare(relation: str) -> RealPrimitive:
    def compute(b: EntryBuilder, x: Value, y: Value) -> Value:
        if x.kind == "b1":
            x, y = b.convert_part(x, "u1"), b.convert_part(y, "u1")
        return b.compare(relation, x, y)

    return compute


def _bits(word: str) -> RealPrimitive:
    return lambda b, x, y: b.operate(word, x, y)


def _invert(b: EntryBuilder, x: Value) -> Value:
    return b.operate("xor", x, _literal(b, True if x.kind == "b1" else -1, x))


def _is_infinite(b: EntryBuilder, x: Value) -> Value:
    return b.compare("eq", _absolute(b, x), _literal(b, np.inf, x))


def _is_finite(b: EntryBuilder, x: Value) -> Value:
    return b.compare("lt", _absolute(b, x), _literal(b, np.inf, x))


#: By the names of ops. Rows and their scalars say the rest in these.
PRIMITIVES: dict[str, Primitive] = {
    "add": add, "subtract": subtract, "multiply": multiply, "divide": _divide,
    "negative": _negative, "absolute": _absolute, "power": _power,
    "maximum": maximum, "minimum": minimum,
    "remainder": _remainder, "floor_divide": _floor_divide, "fmod": _fmod,
    "where": lambda b, c, x, y: b.select(c, x, y),
    "real": lambda b, x: x, "imag": lambda b, x: _literal(b, 0, x),
    "conjugate": lambda b, x: x, "signbit": _has_sign, "invert": _invert,
    "bitwise_and": _bits("and"), "bitwise_or": _bits("or"), "bitwise_xor": _bits("xor"),
    "less": _compare("lt"), "less_equal": _compare("le"), "greater": _compare("gt"),
    "greater_equal": _compare("ge"), "equal": _compare("eq"),
    "not_equal": _compare("ne"),
    **{name: _intrinsic(name)
       for name in "copysign sqrt floor ceil trunc rint".split()},
    **{name: _math(name.replace("arc", "a"))
       for name in "exp exp2 expm1 log log2 log10 log1p sin cos tan sinh cosh tanh"
       " arcsin arccos arctan arctan2 arcsinh arccosh arctanh cbrt hypot erf"
       " erfc".split()},
}  # fmt: skip


# Complex values: what NumPy computes by their parts.


def _multiply_complex(b: EntryBuilder, x: Complex, y: Complex) -> Complex:
    real = subtract(b, multiply(b, x.real, y.real), multiply(b, x.imag, y.imag))
    imag = add(b, multiply(b, x.real, y.imag), multiply(b, x.imag, y.real))
    return Complex(real, imag, x.kind)


def _divide_complex(b: EntryBuilder, x: Complex, y: Complex) -> Complex:
    """Divide by the larger part of the divisor first (Smith's method)."""
    wide = b.compare("ge", _absolute(b, y.real), _absolute(b, y.imag))
    large = b.choose(wide, y.real, y.imag)
    small = b.choose(wide, y.imag, y.real)
    both_zero = b.compare("eq", _absolute(b, large), _literal(b, 0, large))
    ratio = _divide(b, small, large)
    scale = _divide(b, _literal(b, 1, large), add(b, large, multiply(b, small, ratio)))
    first = b.choose(wide, x.real, x.imag)
    second = b.choose(wide, x.imag, x.real)
    real = multiply(b, add(b, first, multiply(b, second, ratio)), scale)
    turned = subtract(b, second, multiply(b, first, ratio))
    other = subtract(b, multiply(b, first, ratio), second)
    imag = multiply(b, b.choose(wide, turned, other), scale)
    at_zero = [_divide(b, part, _absolute(b, y.real)) for part in (x.real, x.imag)]
    return Complex(
        b.choose(both_zero, at_zero[0], real),
        b.choose(both_zero, at_zero[1], imag),
        x.kind,
    )


def _by_parts(compute: Primitive) -> Primitive:
    def of_both(b: EntryBuilder, *xs: Complex) -> Complex:
        real = compute(b, *(x.real for x in xs))
        return Complex(real, compute(b, *(x.imag for x in xs)), xs[0].kind)

    return of_both


def _equal_complex(b: EntryBuilder, x: Complex, y: Complex) -> Value:
    return b.operate(
        "and", b.compare("eq", x.real, y.real), b.compare("eq", x.imag, y.imag)
    )


def _invert_complex(b: EntryBuilder, x: Complex) -> Complex:
    """Return 1 / x, by its larger part first, as NumPy does."""
    wide = b.compare("le", _absolute(b, x.imag), _absolute(b, x.real))
    large, small = b.choose(wide, x.real, x.imag), b.choose(wide, x.imag, x.real)
    ratio = _divide(b, small, large)
    below = add(b, large, multiply(b, small, ratio))
    one = _literal(b, 1, large)
    first, second = _divide(b, one, below), _divide(b, ratio, below)
    return Complex(
        b.choose(wide, first, second),
        _negative(b, b.choose(wide, second, first)),
        x.kind,
    )


def _power_complex(b: EntryBuilder, x: Complex, y: Complex) -> Complex:
    """Return a power to a whole number; NumPy computes the others."""
    p = y.real.number
    if p is None or y.imag.number != 0 or p != int(p) or abs(p) > MOST_PRODUCTS:
        raise CompilerError("such powers of complex numbers are computed by NumPy.")
    made: Complex | None = None
    square, rest = x, int(abs(p))
    while rest:
        if rest & 1:
            made = square if made is None else _multiply_complex(b, made, square)
        rest >>= 1
        if rest:
            square = _multiply_complex(b, square, square)
    if made is None:
        one = b.literal(1, x.kind)
        assert isinstance(one, Complex)
        return one
    return made if p > 0 else _invert_complex(b, made)


def _find_direction(b: EntryBuilder, x: Complex) -> Complex:
    """Return ``x / abs(x)``, an axis where one part is infinite, and 0 at 0."""
    length = call_function(b, "hypot", x.real, x.imag)
    zero, one, infinite = (_literal(b, n, length) for n in (0, 1, np.inf))
    both = b.operate("and", _is_infinite(b, x.real), _is_infinite(b, x.imag))
    both = b.operate("or", both, b.is_nan(length))
    far = b.compare("eq", length, infinite)
    nan = _literal(b, np.nan, length)

    def find(part: Value) -> Value:
        axis = b.intrinsic(
            "llvm.copysign", b.choose(_is_infinite(b, part), one, zero), part
        )
        made = b.choose(far, axis, _divide(b, part, length))
        return b.choose(both, nan, b.choose(b.compare("eq", length, zero), zero, made))

    return Complex(find(x.real), find(x.imag), x.kind)


def _either_part(test: RealPrimitive, word: str = "or") -> Primitive:
    return lambda b, x: b.operate(word, test(b, x.real), test(b, x.imag))


def _complex_function(name: str) -> Primitive:
    return lambda b, x: call_complex_function(b, name, x)


COMPLEX: dict[str, Primitive] = {
    **{name: _complex_function(name) for name in COMPLEX_FUNCTIONS},
    "reciprocal": _invert_complex, "power": _power_complex,
    "float_power": _power_complex, "direction": _find_direction,
    "isinf": _either_part(_is_infinite), "isfinite": _either_part(_is_finite, "and"),
    "add": _by_parts(add), "subtract": _by_parts(subtract),
    "negative": _by_parts(_negative), "multiply": _multiply_complex,
    "divide": _divide_complex, "rint": _by_parts(PRIMITIVES["rint"]),
    "absolute": lambda b, x: call_function(b, "hypot", x.real, x.imag),
    "real": lambda b, x: x.real, "imag": lambda b, x: x.imag,
    "conjugate": lambda b, x: Complex(x.real, _negative(b, x.imag), x.kind),
    "where": lambda b, c, x, y: b.select(c, x, y),
    "equal": _equal_complex,
    "not_equal": lambda b, x, y: _invert(b, _equal_complex(b, x, y)),
}  # fmt: skip


# An op, from the kinds of its operands


def compute_entry(
    b: EntryBuilder, node: Tensor, operands: Sequence[Entry], specs: Sequence[Spec]
) -> Entry:
    """Return an entry of a node, from those of its operands.

    Raises
    ------
    CompilerError
        If no kernel computes such an op of such kinds.
    """
    op = node.op
    result: Any = node.spec
    kind = kind_of(result.dtype)
    if op.passes:
        return b.convert(operands[0], kind)
    if node.params:
        raise CompilerError(f"{op.name} with settings is computed by NumPy.")
    kinds = _find_loop_kinds(op, kind, specs)
    if not all(map(_fits, operands, kinds)):
        raise CompilerError(
            "no kernel compares integers with a number outside their range."
        )
    values = [b.convert(x, kind) for x, kind in zip(operands, kinds, strict=True)]
    if op.ufunc is not None and set(kinds) == {"b1"}:
        return b.convert(_compute_logic(b, op.ufunc, values), kind)
    primitive = _find_primitive(op, values[-1])
    if primitive is not None and (len(set(kinds)) == 1 or op.joins is not None):
        start = len(b.lines)
        try:
            return b.convert(primitive(b, *values), kind)
        except CompilerError:
            if op.ufunc is None:
                raise
            del b.lines[start:]
    if op.ufunc is None:
        raise CompilerError(f"no kernel computes {op.name} of {specs}.")
    return b.convert(call_ufunc(b, op.ufunc, *values), kind)


def _find_primitive(op: Op, like: Entry) -> Primitive | None:
    """Return the primitive of an op for these values, or the scalar of its row."""
    known = COMPLEX if isinstance(like, Complex) else PRIMITIVES
    return known.get(op.name) or read_scalar(op)


def _fits(x: Entry, kind: str) -> bool:
    """Return whether an integer is in the range of a kind; NumPy takes others too."""
    number = x.number if isinstance(x, Value) else None
    if type(number) is not int or kind[0] not in "iu":
        return True
    limits = np.iinfo(kind)
    return bool(limits.min <= number <= limits.max)


def _find_loop_kinds(op: Op, kind: str, specs: Sequence[Spec]) -> list[str]:
    """Return the kinds that NumPy computes in: those of a ufunc's loop."""
    if op.joins is not None:  # of conditions, and of what they choose from
        return ["b1"] * op.joins + [kind] * (len(specs) - op.joins)
    own = [kind_of(s.dtype) for s in specs]
    if op.ufunc is None:
        is_part = kind not in PARTS and any(k in PARTS for k in own)
        return own if is_part else [kind] * len(own)
    given = [_WEAK.get(s.dtype.kind, s.dtype) if s.weak else s.dtype for s in specs]
    loop = op.ufunc.resolve_dtypes((*given, *[None] * op.ufunc.nout))[: len(specs)]
    # NumPy computes a function of halves in float32, and rounds once.
    return ["f4" if kind_of(s) == HALF else kind_of(s) for s in loop]


#: Python's numbers, which take the dtype of what they meet.
_WEAK: dict[str, Any] = {"i": int, "f": float, "c": complex}


def _compute_logic(b: EntryBuilder, ufunc: np.ufunc, xs: Sequence[Any]) -> Value:
    """Return a ufunc of booleans, by NumPy's result for each combination of them."""
    grid = np.meshgrid(*[np.array([False, True])] * len(xs), indexing="ij")
    with np.errstate(all="ignore"):
        found = ufunc(*grid)
    if found.dtype != bool:
        raise CompilerError(f"{ufunc} of booleans is a number, and computed by NumPy.")
    holds = 2 * np.count_nonzero(found) <= found.size  # or few where it does not
    total: Value | None = None
    for places in np.argwhere(found == holds):
        term: Value | None = None
        for x, is_true in zip(xs, places, strict=True):
            one = x if is_true else _invert(b, x)
            term = one if term is None else b.operate("and", term, one)
        assert term is not None
        total = term if total is None else b.operate("or", total, term)
    if total is None:
        return b.literal_part(not holds, "b1")
    return total if holds else _invert(b, total)


# Expressions in the rows of ops


@cache
def read_scalar(op: Op) -> Primitive | None:
    """Return the scalar of an op's row as a primitive; None: the row has none."""
    if not op.scalar:
        return None
    body = ast.parse(op.scalar, mode="eval").body
    return lambda b, *xs: _evaluate(b, body, xs)


_OPERATORS: dict[type[ast.AST], str] = {
    ast.Add: "add", ast.Sub: "subtract", ast.Mult: "multiply", ast.Div: "divide",
    ast.Pow: "power", ast.USub: "negative", ast.Lt: "less", ast.LtE: "less_equal",
    ast.Gt: "greater", ast.GtE: "greater_equal", ast.Eq: "equal",
    ast.NotEq: "not_equal", ast.BitAnd: "bitwise_and", ast.BitOr: "bitwise_or",
    ast.BitXor: "bitwise_xor", ast.Invert: "invert",
}  # fmt: skip
_NAMES = {"abs": "absolute"}
_NUMBERS = {"inf": np.inf, "nan": np.nan, "pi": np.pi}


def _evaluate(b: EntryBuilder, body: ast.expr, xs: Sequence[Entry]) -> Entry:
    """Return the value of an expression; its numbers are of the operands' kind."""

    def visit(part: ast.expr) -> Entry:
        if isinstance(part, ast.Constant):
            return b.literal(part.value, xs[0].kind)
        if isinstance(part, ast.Name):
            if part.id in _NUMBERS:
                return b.literal(_NUMBERS[part.id], xs[0].kind)
            return xs[int(part.id[1:] or 0)]
        if isinstance(part, ast.UnaryOp):
            return call(_OPERATORS[type(part.op)], part.operand)
        if isinstance(part, ast.BinOp):
            return call(_OPERATORS[type(part.op)], part.left, part.right)
        if isinstance(part, ast.Compare):
            return call(_OPERATORS[type(part.ops[0])], part.left, part.comparators[0])
        assert isinstance(part, ast.Call)
        assert isinstance(part.func, ast.Name)
        return call(_NAMES.get(part.func.id, part.func.id), *part.args)

    def call(name: str, *parts: ast.expr) -> Entry:
        values = [visit(part) for part in parts]
        primitive = _find_primitive(declare(name), values[-1])
        if primitive is None:
            raise CompilerError(f"no kernel computes {name} of {values[-1].kind}.")
        made: Entry = primitive(b, *values)
        return made

    return visit(body)
