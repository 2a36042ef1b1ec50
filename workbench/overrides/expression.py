"""The language of gradient rules that are data: small, fixed, never run as Python.

A rule such as ``"clip(d, -1, 1)"`` says what flows back to one input of a node:

======================  ======================================================
``g``                   the gradient that arrives, in the shape of the output
``d``                   what the true rule would pass on to this input
``x``                   this input; ``x0``, ``x1``, ... all inputs in order
``y``                   the output
numbers                 finite: ``2``, ``0.5``, ``1e-3``; a function that counts gets
                        what is written as an integer as one: ``roll(d, 1)``
``+ - * / **``          arithmetic; constant exponents up to 16 in magnitude
``< <= > >= == !=``     comparisons of two operands, for ``where``
functions               NumPy's, by their names, that `allowed_ops.py` lets rules
                        name; ``abs`` and ``conj``, and ``norm``, which does not
                        overflow
``axis=0``              settings of functions: numbers, True, False, None, tuples
======================  ======================================================

In grammar::

    rule     = sum [("<" | "<=" | ">" | ">=" | "==" | "!=") sum]
    sum      = product {("+" | "-") product}
    product  = factor {("*" | "/") factor}
    factor   = ("+" | "-") factor | power
    power    = atom ["**" factor]
    atom     = number | name | function "(" rule {"," rule} {"," setting} ")"
             | "(" rule ")"
    setting  = name "=" (["-"] number | "True" | "False" | "None" | tuple)

A forward-mode rule is written alike, with ``t`` (``t0``, ``t1``, ...) for the
tangents that arrive in place of ``g``. A text may also be the name of a registered
rule, see `rule_parser.py`. At most 1,000 characters and 50 levels of
nesting. Everything else is an `ExpressionError` that says where and what is
allowed. Texts come from saved notebooks and are not trusted: they are read by
`ast.parse`, which runs nothing. For values of each kind an expression is recorded as a
Graph, and weighed, before it runs.
"""

from __future__ import annotations

import ast
import inspect
import math
import operator
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, NoReturn

import numpy as np

from workbench.autodiff.budget import MOST_FREE, WeighedFunction, find_budget
from workbench.core.blame import find_similar, format_count, shorten
from workbench.core.op import OPS
from workbench.core.types import Array
from workbench.errors import ExpressionError
from workbench.overrides.allowed_ops import (
    check_setting,
    find_function,
    find_op,
    list_functions,
    norm,
)

# The words of the language of rules: operators, names, refusals.

MOST_CHARACTERS = 1000
MOST_NESTING = 50
LARGEST_EXPONENT = 16

OPERATORS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}
#: Functions whose second argument is an exponent.
POWERS = (np.power, np.float_power)
COMPARISONS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}

#: What people write for the names of the language.
MEANT = {
    **dict.fromkeys(("gradient", "grad", "dy", "cotangent", "upstream"), "g"),
    **dict.fromkeys(("dx", "delta", "default", "true", "rule"), "d"),
    **dict.fromkeys(("input", "inp", "a"), "x"),
    **dict.fromkeys(("output", "out", "value"), "y"),
}

MEANING = {
    "g": "g (the gradient that arrives)",
    "t": "t (the tangent that arrives)",
    "d": "d (what the true rule gives)",
    "x": "x (the input; x0, x1, ... all of them)",
    "y": "y (the output)",
}
NUMBERED = re.compile(r"[xt]\d{1,2}")
CHARACTERS = re.compile(r"[A-Za-z0-9_ \t.,()+\-*/<>=!]*")


OPERATOR_REFUSED = (
    "this operator",
    "Use + - * / ** and < <= > >= == !=; matrix products need a function"
    " rule(node, g).",
)
OTHERWISE = (
    "this is not part of an expression",
    "Use numbers, names, functions, + - * / **, comparisons and parentheses.",
)
REFUSED: dict[type, tuple[str, str]] = {
    ast.BoolOp: (
        "'and' and 'or'",
        "Write logical_and(a, b) or logical_or(a, b).",
    ),
    ast.UnaryOp: ("'not'", "Write logical_not(a)."),
    ast.IfExp: ("'if'", "Write where(condition, a, b)."),
    ast.Attribute: ("a dot", "Functions stand alone: clip(d, -1, 1)."),
    ast.Tuple: ("a comma", "A rule gives one gradient; it runs once per input."),
    ast.Starred: ("a star", "Write the arguments one by one."),
}


# Reading and computing

#: A part of an expression: what it computes of the values of all names, or a constant.
_Part = Callable[[Mapping[str, Any]], Any] | float


class Expression:
    """A rule's text, checked and ready to be computed any number of times.

    It is called with the values of its names, arrays or Tensors.

    >>> rule = parse("where(x > 0, d, 0.1 * d)")
    >>> rule({"x": np.array([-1.0, 1.0]), "d": np.array([5.0, 5.0])})
    array([0.5, 5. ])
    """

    __slots__ = ("arriving", "names", "numbered", "part", "program", "text")

    def __init__(
        self, text: str, arriving: str, names: Mapping[str, int], part: _Part
    ) -> None:
        self.text = text
        self.arriving = arriving
        #: The names it reads, each with its first place in the text, from 0.
        self.names = names
        #: Those that tell of one input or tangent, ``x0``, with its number.
        self.numbered = {n: int(n[1:]) for n in names if n[1:].isdigit()}
        self.part = part
        self.program = WeighedFunction(self._compute_operands, varies=True)

    def __reduce__(self) -> Any:
        return parse, (self.text, self.arriving)

    def _compute_operands(self, *operands: Any) -> Any:
        return _compute_part(self.part, dict(zip(self.names, operands, strict=True)))

    def __call__(self, values: Mapping[str, Any]) -> Array:
        """Return the value of the expression.

        Raises
        ------
        UsageError
            If it would make far more than all that is given.
        TraceError
            If the shape of what it would make depends on values.
        """
        if not self.names:
            return _compute_part(self.part, values)  # a number
        operands = [values[name] for name in self.names]
        found: Array = self.program.run(operands, {}, find_budget(values.values()))
        return found

    def refuse(self, name: str, why: str) -> NoReturn:
        """Raise an error at the place where a name stands."""
        _refuse(self.text, self.names[name], why)

    def __repr__(self) -> str:
        return f"Expression({self.text!r})"


def _compute_part(part: _Part, values: Mapping[str, Any]) -> Any:
    return part if isinstance(part, float) else part(values)


def _counts(function: Callable[..., Any], place: int) -> bool:
    """Return whether the argument at this place has an integer default."""
    parameters = [*inspect.signature(function).parameters.values()]
    return place < len(parameters) and type(parameters[place].default) is int


def _keep_integer(node: ast.expr, part: _Part) -> _Part:
    """Return an operand; keep an integer literal as an integer.

    NumPy takes no float for an axis or a count.
    """
    if isinstance(node, ast.UnaryOp):
        node = node.operand
    written = isinstance(node, ast.Constant) and isinstance(node.value, int)
    if not (written and isinstance(part, float) and abs(part) <= MOST_FREE):
        return part
    number = int(part)
    return lambda values: number


@lru_cache(maxsize=256)
def parse(text: str, arriving: str = "g") -> Expression:
    """Read a rule.

    Parameters
    ----------
    text
        The rule, as the module's docstring says.
    arriving
        The name of what arrives: ``"g"`` for a vjp, ``"t"`` for a jvp.

    Raises
    ------
    ExpressionError
        With the position and what is allowed there.

    Examples
    --------
    >>> parse("clip(d, -1, 1)")({"d": np.array([-3.0, 0.5])})
    array([-1. ,  0.5])
    >>> parse("clip(dd, -1, 1)")
    Traceback (most recent call last):
    workbench.errors.ExpressionError: 'clip(dd, -1, 1)': unknown name 'dd' at
    character 6. Did you mean d? Names: g (the gradient that arrives), ...
    """
    return _Reader(text, arriving).read()


class _Reader:
    """One reading of one text."""

    def __init__(self, text: str, arriving: str) -> None:
        self.text = text
        self.arriving = arriving
        self.allowed = (arriving, "d", "x", "y")
        self.names: dict[str, int] = {}
        self.shift = 0

    def read(self) -> Expression:
        text = self.text
        if not isinstance(text, str):
            raise ExpressionError(
                f"a rule is an expression in a string, not {type(text).__name__}"
            )
        if len(text) > MOST_CHARACTERS:
            raise ExpressionError(
                f"the rule has {len(text)} characters; at most {MOST_CHARACTERS} are"
                " read. Write a function rule(node, g) instead."
            )
        strange = CHARACTERS.match(text).end()  # type: ignore[union-attr]
        if strange < len(text):
            self.refuse(
                strange,
                f"{text[strange]!r} has no meaning",
                "An expression is made of numbers, names, functions, + - * / **,"
                " comparisons and parentheses.",
            )
        body = text.lstrip(" \t")
        self.shift = len(text) - len(body)
        if not body:
            raise ExpressionError(
                f"the rule is empty. Write an expression of {self.list_meanings()}."
            )
        part = self.read_part(self.parse_tree(body), 1)
        return Expression(text, self.arriving, self.names, part)

    def parse_tree(self, body: str) -> ast.expr:
        try:
            # Python warns of things like "1if" while it reads them.
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return ast.parse(body, mode="eval").body
        except SyntaxError as error:
            # Python gives no place where the text ends too early.
            at = error.offset - 1 if error.offset else len(body)
            self.refuse(at + self.shift, f"not an expression ({error.msg})", "")
        except (ValueError, MemoryError, RecursionError, OverflowError):
            raise ExpressionError(
                f"{self.quote()} cannot be read: at most {MOST_NESTING} levels of"
                " nesting are allowed."
            ) from None

    def read_part(self, node: ast.expr, depth: int) -> _Part:
        """Return the function of a part of the tree, or its constant."""
        if depth > MOST_NESTING:
            self.refuse_at(
                node,
                f"nested more than {MOST_NESTING} levels deep",
                "Write a function rule(node, g) instead.",
            )
        if isinstance(node, ast.Constant):
            return self.read_number(node)
        if isinstance(node, ast.Name):
            return self.read_name(node)
        if isinstance(node, ast.BinOp):
            return self.read_chain(node, depth)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
            operand = self.read_part(node.operand, depth + 1)
            if isinstance(node.op, ast.UAdd):
                return operand
            return self.join(node, operator.neg, [operand])
        if isinstance(node, ast.Compare):
            return self.read_comparison(node, depth)
        if isinstance(node, ast.Call):
            return self.read_call(node, depth)
        self.refuse_at(node, *REFUSED.get(type(node), OTHERWISE))

    def read_number(self, node: ast.Constant) -> float:
        value = node.value
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            number = value
            return self.fold(node, lambda: float(number))
        self.refuse_at(
            node,
            f"{value!r} is not a real number",
            "Write numbers such as 2, 0.5 or 1e-3.",
        )

    def read_name(self, node: ast.Name) -> _Part:
        name = node.id
        numbered = NUMBERED.fullmatch(name) and name[0] in ("x", self.arriving)
        if name not in self.allowed and not numbered:
            if name.lower() not in MEANT and find_function(name) is not None:
                self.refuse_at(
                    node, f"{name} is a function", f"Write {name}(d), for example."
                )
            self.refuse_unknown(node, "name", name)
        self.names.setdefault(name, node.col_offset + self.shift)
        return operator.itemgetter(name)

    def read_chain(self, node: ast.BinOp, depth: int) -> _Part:
        """Return the function of operators in a row, ``d + d + d``: one level deep."""
        links = [node]
        while isinstance(links[-1].left, ast.BinOp):
            links.append(links[-1].left)
        start = self.read_part(links[-1].left, depth + 1)
        chain: list[tuple[Callable[..., Any], _Part]] = []
        for link in reversed(links):
            compute = OPERATORS.get(type(link.op))
            if compute is None:
                self.refuse_at(link, *OPERATOR_REFUSED)
            right = self.read_part(link.right, depth + 1)
            if isinstance(link.op, ast.Pow):
                self.check_exponent(link.right, right)
            if not chain and isinstance(start, float) and isinstance(right, float):
                start = self.fold(link, partial(compute, start, right))
            else:
                chain.append((compute, right))
        if not chain:
            return start

        def run(values: Mapping[str, Any]) -> Any:
            found = _compute_part(start, values)
            for compute, part in chain:
                found = compute(found, _compute_part(part, values))
            return found

        return run

    def check_exponent(self, node: ast.expr, part: _Part) -> None:
        """Refuse a constant exponent that is large."""
        if isinstance(part, float) and abs(part) > LARGEST_EXPONENT:
            self.refuse_at(
                node,
                f"the exponent {part:g}",
                f"Constant exponents go up to {LARGEST_EXPONENT} in magnitude.",
            )

    def read_comparison(self, node: ast.Compare, depth: int) -> _Part:
        compute = COMPARISONS.get(type(node.ops[0]))
        if compute is None:
            self.refuse_at(node, *OPERATOR_REFUSED)
        if len(node.ops) > 1:
            self.refuse_at(
                node.comparators[1],
                "a second comparison",
                "Write logical_and(0 < x, x < 1).",
            )
        sides = [node.left, node.comparators[0]]
        return self.join(
            node, compute, [self.read_part(side, depth + 1) for side in sides]
        )

    def read_call(self, node: ast.Call, depth: int) -> _Part:
        if not isinstance(node.func, ast.Name):
            self.refuse_at(node.func, *REFUSED.get(type(node.func), OTHERWISE))
        name = node.func.id
        if find_function(name) is None:
            self.refuse_unknown(node.func, "function", name)
        for argument in node.args:
            if isinstance(argument, ast.Starred):
                self.refuse_at(argument, *REFUSED[ast.Starred])
        params = {str(k.arg): self.read_setting(name, k) for k in node.keywords}

        def refuse(what: str, cure: str) -> NoReturn:
            self.refuse_at(node, what, cure)

        compute = find_op(name, len(node.args), 1, params, refuse)
        parts = [self.read_part(part, depth + 1) for part in node.args]
        if compute in POWERS:
            self.check_exponent(node.args[1], parts[1])
        call = partial(compute, **params) if params else compute
        if isinstance(compute, np.ufunc) or compute is norm:
            return self.join(node, call, parts)
        row = OPS.get(name)
        elementwise = row is not None and row.elementwise
        if not elementwise and all(isinstance(part, float) for part in parts):
            # Nothing has weighed what it would make.
            cure = "Write functions of g, d, x or y."
            self.refuse_at(node, f"{name} of numbers alone", cure)
        for i, argument in enumerate(node.args):
            # Other integers that an elementwise one is given may be gradients.
            if not elementwise or _counts(compute, i):
                parts[i] = _keep_integer(argument, parts[i])
        return self.join(node, partial(self.call_function, node, name, call), parts)

    def call_function(
        self, node: ast.Call, name: str, call: Callable[..., Any], *given: Any
    ) -> Any:
        """Return the array that a function of NumPy's gives; refuse several."""
        made = call(*given)
        if isinstance(made, (list, tuple)):
            kind = "list" if isinstance(made, list) else "tuple"
            self.refuse_at(
                node,
                f"{name} gives {format_count(len(made), 'array')} in a {kind}",
                "A rule computes with one array at a time.",
            )
        return made

    def read_setting(self, name: str, keyword: ast.keyword) -> object:
        if keyword.arg is None:
            self.refuse_at(keyword, f"{name} with **", "Write settings one by one.")
        try:
            value = ast.literal_eval(keyword.value)
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            value = ""
        if isinstance(value, str):
            self.refuse_at(
                keyword,
                f"this {keyword.arg}=",
                "A setting is a number, True, False, None or a tuple: axis=0,"
                " axis=(0, 1), keepdims=True.",
            )

        def refuse(what: str, cure: str) -> NoReturn:
            self.refuse_at(keyword, what, cure)

        return check_setting(value, refuse, f"{name} with {keyword.arg}=")

    def join(
        self, node: ast.expr, compute: Callable[..., Any], parts: Sequence[_Part]
    ) -> _Part:
        """Return the function of several parts, or its value if constant."""
        numbers = [x for x in parts if isinstance(x, float)]
        if len(numbers) == len(parts):
            return self.fold(node, lambda: compute(*numbers))
        return lambda values: compute(*[_compute_part(part, values) for part in parts])

    def fold(self, node: ast.expr, compute: Callable[[], Any]) -> float:
        """Return the value of a constant part: a finite number."""
        try:
            with np.errstate(all="ignore"):
                value = compute()
        except (ArithmeticError, TypeError, ValueError):
            value = None
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            number = float(value)
            if math.isfinite(number):
                return number
        self.refuse_at(
            node,
            "a constant that is not a finite number",
            "Write finite numbers, and functions of g, d, x or y.",
        )

    # Errors

    def list_meanings(self) -> str:
        return ", ".join(MEANING[name] for name in self.allowed)

    def refuse_unknown(self, node: ast.expr, kind: str, name: str) -> NoReturn:
        functions = [key for key in list_functions() if key.isidentifier()]
        names = self.allowed if kind == "name" else ()
        close = find_similar(name, names, 1, 0.6)
        close = close or find_similar(name, functions, 1, 0.6)
        meant = MEANT.get(name.lower(), "")
        if kind == "name" and meant in self.allowed:
            close = [meant]
        hint = f"Did you mean {close[0]}? " if close else ""
        allowed = "Functions are NumPy's, without the np: clip(d, -1, 1)."
        if kind == "name":
            allowed = f"Names: {self.list_meanings()}. {allowed}"
        self.refuse_at(node, f"unknown {kind} {shorten(name, 40)!r}", hint + allowed)

    def refuse_at(
        self, node: ast.expr | ast.keyword, what: str, allowed: str
    ) -> NoReturn:
        self.refuse(node.col_offset + self.shift, what, allowed)

    def refuse(self, at: int, what: str, allowed: str) -> NoReturn:
        _refuse(self.text, at, what, allowed)

    def quote(self) -> str:
        return quote(self.text)


def quote(text: str) -> str:
    """Return the text of a rule, quoted for an error."""
    return repr(shorten(text, 80))


def _refuse(text: str, at: int, what: str, allowed: str = "") -> NoReturn:
    where = f"{quote(text)}: {what} at character {at + 1}."
    raise ExpressionError(f"{where} {allowed}".rstrip())
