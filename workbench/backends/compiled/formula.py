"""`Formula` and `Term`: arithmetic on lanes, written with operators.

A formula is the body of one function of vectors. Terms add, multiply and compare as
numbers do, and every operator writes one instruction. Sums and products whose rounding
error is kept as a second number (Dekker 1971, Knuth) come right with and without a
fused multiply-add.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import signature
from typing import Any, NamedTuple

from workbench.backends.compiled.builder import (
    IMPLIED,
    Builder,
    EntryBuilder,
    Value,
)
from workbench.backends.compiled.machine import Definition, Machine, find_address

Number = Any  # a Term, a float or an int


class Term:
    """A value in a formula: floats, the bits of floats, or conditions."""

    __slots__ = ("formula", "value")

    def __init__(self, formula: Formula, value: Value) -> None:
        self.formula = formula
        self.value = value

    def _operate(self, word: str, other: Number, swap: bool = False) -> Term:
        kind = self.value.kind
        if kind[0] == "f":
            word = f"f{word}"
        x, y = self, self.formula.literal(other, kind)
        if swap:
            x, y = y, x
        return Term(self.formula, self.formula.b.operate(word, x.value, y.value))

    def _compare(self, relation: str, other: Number) -> Term:
        y = self.formula.literal(other, self.value.kind)
        return Term(self.formula, self.formula.b.compare(relation, self.value, y.value))

    def __add__(self, other: Number) -> Term:
        return self._operate("add", other)

    def __radd__(self, other: Number) -> Term:
        return self._operate("add", other, True)

    def __sub__(self, other: Number) -> Term:
        return self._operate("sub", other)

    def __rsub__(self, other: Number) -> Term:
        return self._operate("sub", other, True)

    def __mul__(self, other: Number) -> Term:
        return self._operate("mul", other)

    def __rmul__(self, other: Number) -> Term:
        return self._operate("mul", other, True)

    def __truediv__(self, other: Number) -> Term:
        return self._operate("div", other)

    def __rtruediv__(self, other: Number) -> Term:
        return self._operate("div", other, True)

    def __neg__(self) -> Term:
        return Term(self.formula, self.formula.b.negate(self.value))

    def __lt__(self, other: Number) -> Term:
        return self._compare("lt", other)

    def __le__(self, other: Number) -> Term:
        return self._compare("le", other)

    def __gt__(self, other: Number) -> Term:
        return self._compare("gt", other)

    def __ge__(self, other: Number) -> Term:
        return self._compare("ge", other)

    def equals(self, other: Number) -> Term:
        """Return where two terms are equal."""
        return self._compare("eq", other)

    def __and__(self, other: Number) -> Term:
        return self._operate("and", other)

    def __or__(self, other: Number) -> Term:
        return self._operate("or", other)

    def __xor__(self, other: Number) -> Term:
        return self._operate("xor", other)

    def __invert__(self) -> Term:
        return self._operate("xor", self.value.kind == "b1" or -1)

    def __lshift__(self, other: int) -> Term:
        return self._operate("shl", other)

    def __rshift__(self, other: int) -> Term:
        return self._operate("lshr", other)

    def __abs__(self) -> Term:
        return self.formula.call("fabs", self)

    def bits(self) -> Term:
        """Return the bits of floats, as whole numbers."""
        return self._bitcast(f"i{self.value.kind[1]}")

    def as_float(self) -> Term:
        """Return the floats of these bits."""
        return self._bitcast(f"f{self.value.kind[1]}")

    def _bitcast(self, kind: str) -> Term:
        return Term(self.formula, self.formula.b.reinterpret(self.value, kind))


class Constants(NamedTuple):
    """What formulas know of a format of floats; tuples are sums of floats.

    Attributes
    ----------
    digits
        The bits of a fraction.
    bias
        What the bits of an exponent are at 1.
    log_2, log2_e, log10_e, log10_2, third, half_pi
        log 2, log2 e, log10 e, log10 2, 1/3 and π/2. The first parts of log 2 and log10
        2 have few digits: their product with an exponent is exact.
    root_half_bits
        The bits of √½.
    exp_zero, exp_infinite, exp_normal
        Where the exponential is 0 and infinite, and up to where, with either sign, it
        is a normal number.
    erfc_zero
        Where erfc is 0.
    half_pi_short
        π/2 in parts of few digits: their products with a small number are exact.
    most_angle
        The largest angle that formulas reduce, with and without a fused multiply-add.
    safe_square, lift_square
        The exponent up to which squares keep their digits, and one that brings others
        there.
    polynomials
        Coefficients by name.
    """

    kind: str
    digits: int
    bias: int
    log_2: tuple[float, float]
    log2_e: tuple[float, float]
    log10_e: tuple[float, float]
    log10_2: tuple[float, float]
    third: tuple[float, float]
    half_pi: tuple[float, float, float]
    half_pi_short: tuple[float, float, float, float]
    root_half_bits: int
    exp_zero: float
    exp_infinite: float
    exp_normal: float
    erfc_zero: float
    most_angle: tuple[float, float]
    safe_square: int
    lift_square: int
    polynomials: Mapping[str, tuple[float, ...]]

    @property
    def size(self) -> int:
        """The bits of a float."""
        return 8 * int(self.kind[1])

    @property
    def integer_kind(self) -> str:
        """The kind of integer that holds the bits of a float."""
        return f"i{self.kind[1]}"

    @property
    def shifter(self) -> float:
        """The number that rounds a small addend into its lowest bits."""
        return 1.5 * 2.0**self.digits

    @property
    def one_bits(self) -> int:
        """The bits of 1."""
        return self.bias << self.digits

    @property
    def sign_bit(self) -> int:
        """The bits of -0."""
        return -(1 << (self.size - 1))

    @property
    def fraction_bits(self) -> int:
        """The bits of a fraction, all set."""
        return (1 << self.digits) - 1

    @property
    def smallest(self) -> float:
        """The smallest number of all digits."""
        return 2.0 ** (1 - self.bias)

    @property
    def lift(self) -> int:
        """A power of 2 that makes subnormal numbers normal; a multiple of 3."""
        return 3 * (self.digits // 3 + 1)


class Formula:
    """The body of a function of vectors, during its construction.

    Attributes
    ----------
    b
        The builder of its text.
    constants
        Of the format of floats that it computes in.
    fused
        The processor multiplies and adds in one rounding.
    """

    def __init__(self, b: EntryBuilder, constants: Constants) -> None:
        self.b = b
        self.constants = constants
        self.fused = b.has_fma

    def literal(self, number: Number, kind: str = "") -> Term:
        """Return a number in every lane; return a term unchanged."""
        if isinstance(number, Term):
            return number
        made = self.b.literal(number, kind or self.constants.kind)
        assert isinstance(made, Value)
        return Term(self, made)

    def call(self, intrinsic: str, *xs: Number) -> Term:
        """Call one of LLVM's functions of floats."""
        values = [self.literal(x).value for x in xs]
        return Term(self, self.b.intrinsic(f"llvm.{intrinsic}", *values))

    def where(self, condition: Term, x: Number, y: Number) -> Term:
        """Return ``x`` where the condition holds, ``y`` elsewhere; ints are bits."""
        kinds = [z.value.kind for z in (x, y) if isinstance(z, Term)]
        bits = self.constants.integer_kind if type(x) is int else ""
        kind = kinds[0] if kinds else bits
        chosen = [self.literal(z, kind).value for z in (x, y)]
        return Term(self, self.b.choose(condition.value, *chosen))

    def fma(self, x: Number, y: Number, z: Number) -> Term:
        """Return ``x y + z``, rounded once where the processor can do so."""
        if self.fused:
            return self.call("fma", x, y, z)
        made: Term = x * y + z
        return made

    def polynomial(self, name: str, x: Term) -> Term:
        """Return a polynomial of the tables.

        Of a long one, even and odd powers are two chains that run side by side.
        """
        coefficients = self.constants.polynomials[name]
        if len(coefficients) < 8:
            return self._run_chain(x, coefficients)
        square = x * x
        even = self._run_chain(square, coefficients[0::2])
        odd = self._run_chain(square, coefficients[1::2])
        return self.fma(odd, x, even)

    def _run_chain(self, x: Term, coefficients: tuple[float, ...]) -> Term:
        y = self.literal(coefficients[-1])
        for c in reversed(coefficients[:-1]):
            y = self.fma(y, x, c)
        return y

    # Signs and exponents, which are bits

    def sign_of(self, x: Term) -> Term:
        """Return the bits of the sign."""
        return x.bits() & self.constants.sign_bit

    def with_sign(self, x: Term, sign: Term) -> Term:
        """Return ``x``, turned by the bits of a sign."""
        return (x.bits() ^ sign).as_float()

    def clamp(self, x: Term, low: float, high: float) -> Term:
        """Return ``x`` between two numbers; NaN stays."""
        x = self.where(x < low, low, x)
        return self.where(self.literal(high) < x, high, x)

    def power_of_two(self, shifted: Term) -> Term:
        """Return 2^n, a normal number, for n in the lowest bits of a shifted one."""
        c = self.constants
        return ((shifted.bits() << c.digits) + c.one_bits).as_float()

    def scale(self, x: Term, shifted: Term) -> Term:
        """Return ``x 2^n``, rounded once where that is subnormal or infinite."""
        c = self.constants
        half = self.fma(shifted - c.shifter, 0.5, c.shifter)
        rest = (shifted.bits() - half.bits()) << c.digits
        return x * self.power_of_two(half) * (rest + c.one_bits).as_float()

    # Numbers whose rounding error is a second number

    def add_exactly(self, x: Number, y: Number) -> tuple[Term, Term]:
        """Return a sum and its error."""
        total: Term = x + y
        other = total - x
        return total, (x - (total - other)) + (y - other)

    def add_smaller(self, x: Number, y: Number) -> tuple[Term, Term]:
        """Return a sum and its error, where ``y`` is not larger than ``x``."""
        total: Term = x + y
        return total, y - (total - x)

    def multiply_exactly(self, x: Term, y: Number) -> tuple[Term, Term]:
        """Return a product and its error."""
        y = self.literal(y)
        product = x * y
        if self.fused:
            return product, self.fma(x, y, -product)
        upper = -(1 << (self.constants.digits // 2 + 1))
        x_high, y_high = ((z.bits() & upper).as_float() for z in (x, y))
        x_low, y_low = x - x_high, y - y_high
        error = (x_high * y_high - product) + x_high * y_low + x_low * y_high
        return product, error + x_low * y_low

    def subtract_product(self, z: Term, x: Term, y: Number) -> Term:
        """Return ``z - x y``, exact where the result is a float."""
        if self.fused:
            return self.fma(x, -y, z)
        product, error = self.multiply_exactly(x, y)
        return (z - product) - error

    # Rare lanes

    def split(
        self, rare: Term, general: Callable[[], Term], usual: Callable[[], Term]
    ) -> Term:
        """Return the term of ``general`` if a condition holds in any lane.

        Otherwise return what ``usual`` writes. Both give the same where the condition
        does not hold, so that no lane depends on its neighbours.
        """
        return self.split_several(rare, lambda: (general(),), lambda: (usual(),))[0]

    def split_several(
        self,
        rare: Term,
        general: Callable[[], tuple[Term, ...]],
        usual: Callable[[], tuple[Term, ...]],
    ) -> tuple[Term, ...]:
        """Return several terms as `split` returns one."""
        ways = [
            lambda write=write: [x.value for x in write()] for write in (general, usual)
        ]
        made = self.b.branch(rare.value, ways[0], ways[1])
        return tuple([Term(self, x) for x in made])

    def call_library(self, name: str, x: Term) -> Term:
        """Call one of C's functions."""
        return Term(self, self.b.call_library(name, x.value))


Terms = Term | tuple[Term, ...]
Writer = Callable[..., Terms]


def define(
    machine: Machine, name: str, writer: Writer, constants: Constants, lanes: int
) -> str:
    """Write a function of vectors for a machine, once; return its symbol.

    Several results are one structure of vectors.
    """
    kind = constants.kind
    symbol = f"workbench_{name}_{kind}x{lanes}"
    if symbol in machine.definitions:
        return symbol
    b = Builder(machine, lanes)
    formula = Formula(b, constants)
    operands = [f"%x{i}" for i in range(len(signature(writer).parameters) - 1)]
    type_ = b.type(kind)
    b.lines = ["", "start:"]
    made = writer(formula, *(Term(formula, Value(x, kind)) for x in operands))
    if isinstance(made, Term):
        result, returned = type_, made.value.text
    else:
        result, returned = f"{{{', '.join([type_] * len(made))}}}", "poison"
        for i, x in enumerate(made):
            part = f"insertvalue {result} {returned}, {type_} {x.value.text}, {i}"
            returned = b.emit(part, kind).text
    b.line(f"ret {result} {returned}")
    b.lines.append("}")
    given = ", ".join(f"{type_} {x}" for x in operands)
    b.lines[0] = f"define {result} @{symbol}({given}) {{"
    machine.definitions[symbol] = Definition(
        f"declare {result} @{symbol}({', '.join([type_] * len(operands))})",
        "\n".join([*sorted(b.declared), *b.lines]),
        frozenset(b.symbols | {s for s in IMPLIED if find_address(s) is not None}),
        1 if isinstance(made, Term) else len(made),
    )
    return symbol


def call_formula(
    b: EntryBuilder, name: str, writer: Writer, constants: Constants, *values: Value
) -> list[Value]:
    """Return the results of a formula: of a call, or written where they are used."""
    if b.inlines_formulas:
        formula = Formula(b, constants)
        made = writer(formula, *(Term(formula, x) for x in values))
        return [x.value for x in (made if isinstance(made, tuple) else (made,))]
    assert isinstance(b, Builder)
    symbol = define(b.machine, name, writer, constants, b.lanes)
    b.declared.add(b.machine.definitions[symbol].declaration)
    b.symbols.add(symbol)
    kind, type_ = constants.kind, b.type(constants.kind)
    given = ", ".join(f"{b.type(x.kind)} {x.text}" for x in values)
    count = b.machine.definitions[symbol].results
    if count == 1:
        return [b.emit(f"call {type_} @{symbol}({given})", kind)]
    result = f"{{{', '.join([type_] * count)}}}"
    all_ = b.emit(f"call {result} @{symbol}({given})", kind).text
    return [b.emit(f"extractvalue {result} {all_}, {i}", kind) for i in range(count)]
