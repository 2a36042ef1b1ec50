"""Facts of an op's mathematics beside its value and derivatives.

Rewriting, checks, the doctor, overrides and loops ask an op for these facts, so that
none of them knows an op by its name. They stand in the op's row in `workbench/ops`;
each has a default that holds for an op of which nothing is known, one of the user's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

#: Why an op has a slope of 0 wherever it has one.
Flat = Literal["", "comparison", "position", "rounding", "stop"]

#: Which condition of its matrix the digits of an op's result depend on.
Condition = Literal[
    "", "banded", "columns", "definite", "determinant", "eigenvectors", "factors",
    "function", "general", "least squares", "pseudoinverse", "sparse", "sylvester",
    "triangular",
]  # fmt: skip


class SingularPoint(NamedTuple):
    """Operands at which an op has no finite value, or no finite slope.

    Attributes
    ----------
    kind
        The kind of trouble, ``"log-of-zero"``.
    where
        ``where(*operands) -> mask``, the entries that have it.
    trouble
        What the op does there, to stand after its name.
    cause
        Why that is so, in a sentence.
    text
        What avoids it, in words.
    code
        The same as code, with ``{0}``, ``{1}`` for the operands, ``{op}`` for the name
        of the op, ``{tiny}`` for a number beside 0 and ``{near}`` for one beside 1 that
        the dtype of the operand can hold.
    bounds
        Between which the code changes no operand that is finite, written in the same
        way.
    blamed
        The operand to look at; the divisor of a quotient is the last one, -1.
    """

    kind: str
    where: Callable[..., Any]
    trouble: str
    cause: str
    text: str = ""
    code: str = ""
    bounds: tuple[str, str] = ("-np.inf", "np.inf")
    blamed: int = 0


class Exponential(NamedTuple):
    """How an op grows that is an exponential of its operand."""

    #: ``log(largest)`` is the operand from which on it overflows.
    log: Callable[[Any], Any]
    #: It does so towards minus infinity too.
    even: bool = False


class Basis(NamedTuple):
    """The vectors among the outputs of a factorisation, which rounding may choose."""

    #: What may be repeated, so that every basis of the vectors is as good.
    name: str
    #: The output that holds these values; None where nothing but a completion is free.
    values: int | None
    #: The outputs whose columns are vectors.
    columns: tuple[int, ...]
    #: Those whose rows are, conjugated.
    rows: tuple[int, ...] = ()


class Spelling(NamedTuple):
    """Another op that computes the same, to the last digit of real numbers.

    Attributes
    ----------
    op
        The name of that op.
    read
        ``read(*operands)``: the operands that the other op has. None where the two do
        not compute the same.
    """

    op: str
    read: Callable[..., tuple[Any, ...] | None]


class Traits(NamedTuple):
    """The facts of an op; a row sets those that are not the default.

    Attributes
    ----------
    aliases
        Functions of other names of which a call makes one such node.
    analytic
        ``compute`` carries complex numbers, and the op has complex derivatives wherever
        it is finite.
    basis
        The vectors among its outputs (`Basis`). None: it has none.
    commutative
        Its two operands may change places.
    condition
        Which condition of its first operand, a matrix, the digits of its result depend
        on. Empty: on none.
    contracts
        It multiplies the entries of two operands, and sums the products.
    exponential
        How it overflows as exponentials do (`Exponential`). None: not so.
    flat
        Why its slope is 0 wherever it has one: it compares, gives positions, rounds, or
        stops a gradient. Empty: it has another slope.
    grows
        Its result may be larger than a dtype holds for the size of its operands alone.
    length
        It has a kink where its result is 0, and no `Op.root` for that.
    logistic
        It is ``low + (high - low) / (1 + exp(-k x))`` of these two bounds. None: not.
    moves
        Each entry of its result is an entry of its first operand, or that in another
        dtype.
    picks
        Its result is the largest of what it takes (``">"``), or the smallest (``"<"``).
    purpose
        What it does to a gradient on purpose, while its value is its operand. Empty:
        its derivatives are true.
    safe
        The rule for it by name that stays finite at its singular points.
    saturates
        It is flat where its operand is large.
    selects
        Some entries of its operands do not reach its result, by their values.
    spelling
        The one op in whose words the stable forms are looked for (`Spelling`): a square
        is a product. None: it is in its own words.
    steep
        Where its slope is infinite though its value is finite.
    subscripts
        ``subscripts(operands, **settings)``, the product that it is as `numpy.einsum`
        spells it. None: it is no such product.
    sums
        Its result is a sum of entries of its operands, or of their products.
    symbol
        Python's operator for it: ``"-"`` of two operands, ``"-x"`` of one.
    undefined
        Where its value is infinite or NaN for finite operands.
    """

    aliases: tuple[str, ...] = ()
    analytic: bool = False
    basis: Basis | None = None
    commutative: bool = False
    condition: Condition = ""
    contracts: bool = False
    exponential: Exponential | None = None
    flat: Flat = ""
    grows: bool = False
    length: bool = False
    logistic: tuple[float, float] | None = None
    moves: bool = False
    picks: str = ""
    purpose: str = ""
    safe: str = ""
    saturates: bool = False
    selects: bool = False
    spelling: Spelling | None = None
    steep: tuple[SingularPoint, ...] = ()
    subscripts: Callable[..., str] | None = None
    sums: bool = False
    symbol: str = ""
    undefined: tuple[SingularPoint, ...] = ()


#: Of an op of which nothing is known.
UNKNOWN = Traits()
