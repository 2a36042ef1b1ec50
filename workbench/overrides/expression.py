"""The language of gradient rules that are data: small, fixed, never run as Python.

A rule such as ``"clip(d, -1, 1)"`` says what flows back to one input of a node:

======================  ======================================================
``g``                   the gradient that arrives, in the shape of the output
``d``                   what the true rule would pass on to this input
``x``                   this input; ``x0``, ``x1``, ... all inputs in order
``y``                   the output
numbers                 finite: ``2``, ``0.5``, ``1e-3``
``+ - * / **``          arithmetic; constant exponents up to 16 in magnitude
``< <= > >= == !=``     comparisons of two operands, for ``where``
functions               those of `FUNCTIONS`, NumPy's by NumPy's names
``axis=``, ``keepdims=``  of reductions: whole numbers, True or False
======================  ======================================================

In grammar::

    rule     = sum [("<" | "<=" | ">" | ">=" | "==" | "!=") sum]
    sum      = product {("+" | "-") product}
    product  = factor {("*" | "/") factor}
    factor   = ("+" | "-") factor | power
    power    = atom ["**" factor]
    atom     = number | name | function "(" rule {"," rule} {"," setting} ")"
             | "(" rule ")"
    setting  = "axis" "=" axis | "keepdims" "=" ("True" | "False")

A forward-mode rule is written alike, with ``t`` (``t0``, ``t1``, ...) for the
tangents that arrive in place of ``g``. A text may also be the name of a registered
rule, see `rule_parser.py`. At most 1,000 characters and 50 levels of
nesting. Everything else is an `ExpressionError` that says where and what is
allowed. Texts come from saved notebooks and are not trusted: they are read by
`ast.parse`, which runs nothing, and compiled to the steps of a stack machine.
"""

from __future__ import annotations

import ast
import math
import operator
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple, NoReturn

import numpy as np

from workbench.autodiff.budget import check_broadcast
from workbench.core import dims
from workbench.core.blame import shorten
from workbench.core.types import Array
from workbench.errors import ExpressionError
from workbench.ops.define import shape_of
from workbench.ops.elementwise import stop_gradient

# The words of the language of rules: functions, operators, names, refusals.
#
# The reader below knows these words alone. The list of functions is fixed: what is not
# in a table here cannot be written.

MOST_CHARACTERS = 1000
MOST_NESTING = 50
LARGEST_EXPONENT = 16


class Function(NamedTuple):
    """A function of the language: what computes it and what it takes."""

    compute: Callable[..., Any]
    arguments: int
    reduces: bool = False


#: The types of bounds that `clip` reads by itself.
_PLAIN = frozenset({int, float, np.ndarray})


def clip(x: Array, low: Any, high: Any) -> Array:
    """Return ``np.clip``, which takes twice as long for small arrays."""
    # Of plain arrays only: the method does not ask a Tensor in a bound.
    if type(x) is np.ndarray and type(low) in _PLAIN and type(high) in _PLAIN:
        return x.clip(low, high)  # what it calls
    return np.clip(x, low, high)


def norm(
    x: Array, axis: int | tuple[int, ...] | None = None, keepdims: bool = False
) -> Array:
    """Return the Euclidean norm, of entries whose squares overflow or vanish too.

    A gradient that explodes is what it is taken of, and in float32 the square of 1e20
    is infinite. Dividing by a power of 2 changes no digit.
    """
    unknown = dims.has_dim(shape_of(x))  # of such a length nobody can ask yet
    if not unknown and 0 in shape_of(x):
        return np.linalg.norm(x, axis=axis, keepdims=keepdims)
    none: dict[str, Any] = {"initial": 0} if unknown else {}
    largest = stop_gradient(np.max(np.abs(x), axis=axis, keepdims=True, **none))
    usual = np.logical_and(largest > 0, np.isfinite(largest))
    power = np.floor(np.log2(np.where(usual, largest, 1)))
    size = np.exp2(power - np.sign(power))  # the next one may be infinite
    found = np.linalg.norm(x / size, axis=axis, keepdims=True) * size
    if keepdims:
        return found
    return np.reshape(found, ()) if axis is None else np.squeeze(found, axis)


_ONE = """
abs arccos arccosh arcsin arcsinh arctan arctanh cbrt ceil conj cos cosh exp exp2
expm1 floor isfinite isinf isnan log log10 log1p log2 logical_not nan_to_num
ones_like reciprocal rint sign sin sinh sqrt square tan tanh trunc zeros_like
""".split()
_TWO = """
arctan2 copysign hypot logaddexp logical_and logical_or maximum minimum
""".split()
REDUCTIONS = "max mean min prod std sum var".split()

#: Every function by its name.
FUNCTIONS: dict[str, Function] = {
    **{name: Function(getattr(np, name), 1) for name in _ONE},
    **{name: Function(getattr(np, name), 2) for name in _TWO},
    **{name: Function(getattr(np, name), 1, True) for name in REDUCTIONS},
    "clip": Function(clip, 3),
    "norm": Function(norm, 1, True),
    "where": Function(np.where, 3),
}

OPERATORS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}
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


def show_usage(name: str) -> str:
    """Return an example of a call of a function, for errors."""
    examples = {
        "clip": "clip(d, -1, 1)",
        "where": "where(x > 0, d, 0)",
        "maximum": "maximum(d, 0)",
        "minimum": "minimum(d, 1)",
    }
    count = FUNCTIONS[name].arguments
    return examples.get(name, f"{name}({', '.join(['d', 'g', 'y'][:count])})")


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

#: A step of the stack machine: a number of operands with what joins them, or a
#: constant (-1), or a name (-2).
_Step = tuple[int, Any]
_CONSTANT, _NAME = -1, -2


class Expression:
    """A rule's text, checked and ready to be computed any number of times.

    It is called with the values of its names, arrays or Tensors.

    >>> rule = parse("where(x > 0, d, 0.1 * d)")
    >>> rule({"x": np.array([-1.0, 1.0]), "d": np.array([5.0, 5.0])})
    array([0.5, 5. ])
    """

    __slots__ = ("names", "numbered", "reduces", "steps", "text")

    def __init__(self, text: str, names: Mapping[str, int], steps: list[_Step]) -> None:
        self.text = text
        #: The names it reads, each with its first place in the text, from 0.
        self.names = names
        #: Those that tell of one input or tangent, ``x0``, with its number.
        self.numbered = {n: int(n[1:]) for n in names if n[1:].isdigit()}
        self.steps = steps
        #: Whether a step sums over an axis, so that shapes differ on the way.
        self.reduces = any(isinstance(what, partial) for _, what in steps)

    def __call__(self, values: Mapping[str, Any]) -> Array:
        """Return the value of the expression.

        Raises
        ------
        ValueError
            If operands broadcast to far more than all that is given.
        """
        stack: list[Any] = []
        differ = self.reduces or (
            len(self.names) > 1
            and len({getattr(values[name], "shape", ()) for name in self.names}) > 1
        )
        for count, what in self.steps:
            if count == _NAME:
                stack.append(values[what])
            elif count == _CONSTANT:
                stack.append(what)
            else:
                operands = stack[-count:]
                del stack[-count:]
                if differ and count > 1:
                    check_broadcast(operands, values.values())
                stack.append(what(*operands))
        return stack[0]

    def refuse(self, name: str, why: str) -> NoReturn:
        """Raise an error at the place where a name stands."""
        _refuse(self.text, self.names[name], why)

    def __repr__(self) -> str:
        return f"Expression({self.text!r})"


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
        made = self.emit(self.parse_tree(body), 1)
        if isinstance(made, float):
            made = [(_CONSTANT, made)]
        return Expression(text, self.names, made)

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

    def emit(self, node: ast.expr, depth: int) -> list[_Step] | float:
        """Return the steps of a part of the tree, or its value where it is constant."""
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
            operand = self.emit(node.operand, depth + 1)
            if isinstance(node.op, ast.UAdd):
                return operand
            return self.join_steps(node, operator.neg, [operand])
        if isinstance(node, ast.Compare):
            return self.read_comparison(node, depth)
        if isinstance(node, ast.Call):
            return self.read_call(node, depth)
        self.refuse_at(node, *REFUSED.get(type(node), OTHERWISE))

    def read_number(self, node: ast.Constant) -> float:
        value = node.value
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            number = value
            return self.check_finite(node, lambda: float(number))
        self.refuse_at(
            node,
            f"{value!r} is not a real number",
            "Write numbers such as 2, 0.5 or 1e-3.",
        )

    def read_name(self, node: ast.Name) -> list[_Step]:
        name = node.id
        numbered = NUMBERED.fullmatch(name) and name[0] in ("x", self.arriving)
        if name not in self.allowed and not numbered:
            if name in FUNCTIONS:
                self.refuse_at(
                    node, f"{name} is a function", f"Write {name}(d), for example."
                )
            self.refuse_unknown(node, "name", name)
        self.names.setdefault(name, node.col_offset + self.shift)
        return [(_NAME, name)]

    def read_chain(self, node: ast.BinOp, depth: int) -> list[_Step] | float:
        """Return the steps of operators in a row, ``d + d + d``: one level deep."""
        links = [node]
        while isinstance(links[-1].left, ast.BinOp):
            links.append(links[-1].left)
        steps = self.emit(links[-1].left, depth + 1)
        for link in reversed(links):
            compute = OPERATORS.get(type(link.op))
            if compute is None:
                self.refuse_at(link, *OPERATOR_REFUSED)
            right = self.emit(link.right, depth + 1)
            if isinstance(link.op, ast.Pow) and isinstance(right, float):
                if abs(right) > LARGEST_EXPONENT:
                    self.refuse_at(
                        link.right,
                        f"the exponent {right:g}",
                        f"Constant exponents go up to {LARGEST_EXPONENT} in magnitude.",
                    )
            steps = self.join_steps(link, compute, [steps, right])
        return steps

    def read_comparison(self, node: ast.Compare, depth: int) -> list[_Step] | float:
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
        return self.join_steps(
            node, compute, [self.emit(side, depth + 1) for side in sides]
        )

    def read_call(self, node: ast.Call, depth: int) -> list[_Step] | float:
        if not isinstance(node.func, ast.Name):
            self.refuse_at(node.func, *REFUSED.get(type(node.func), OTHERWISE))
        name = node.func.id
        function = FUNCTIONS.get(name)
        if function is None:
            self.refuse_unknown(node.func, "function", name)
        if len(node.args) != function.arguments:
            plural = "argument" if function.arguments == 1 else "arguments"
            self.refuse_at(
                node,
                f"{name} with {len(node.args)}",
                f"{name} takes {function.arguments} {plural}: {show_usage(name)}.",
            )
        compute = function.compute
        settings = {str(k.arg): self.read_setting(name, k) for k in node.keywords}
        if settings:
            compute = partial(compute, **settings)
        return self.join_steps(
            node, compute, [self.emit(argument, depth + 1) for argument in node.args]
        )

    def read_setting(self, name: str, keyword: ast.keyword) -> object:
        if keyword.arg not in ("axis", "keepdims") or not FUNCTIONS[name].reduces:
            self.refuse_at(
                keyword,
                f"{name} with {keyword.arg or '**'}=",
                f"Reductions ({', '.join(REDUCTIONS)}, norm) take axis= and"
                " keepdims=; nothing else takes a setting.",
            )
        try:
            value = ast.literal_eval(keyword.value)
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            value = None
        if keyword.arg == "keepdims":
            good = isinstance(value, bool)
        else:
            axes = value if isinstance(value, tuple) else (value,)
            good = bool(axes) and all(type(a) is int and abs(a) < 64 for a in axes)
        if not good:
            self.refuse_at(
                keyword,
                f"this {keyword.arg}=",
                "Write axis=0, axis=(0, 1) or keepdims=True.",
            )
        return value

    def join_steps(
        self,
        node: ast.expr,
        compute: Callable[..., Any],
        operands: Sequence[list[_Step] | float],
    ) -> list[_Step] | float:
        """Return the steps of an operation, or its value if it is constant."""
        numbers = [x for x in operands if isinstance(x, float)]
        if len(numbers) == len(operands):
            return self.check_finite(node, lambda: compute(*numbers))
        steps: list[_Step] = []
        for operand in operands:
            if isinstance(operand, float):
                steps.append((_CONSTANT, operand))
            else:
                steps += operand
        steps.append((len(operands), compute))
        return steps

    def check_finite(self, node: ast.expr, compute: Callable[[], Any]) -> float:
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
        from difflib import get_close_matches

        candidates = [*self.allowed, *FUNCTIONS] if kind == "name" else [*FUNCTIONS]
        close = get_close_matches(name, candidates, 1, 0.6)
        meant = MEANT.get(name.lower(), "")
        if kind == "name" and meant in self.allowed:
            close = [meant]
        hint = f"Did you mean {close[0]}? " if close else ""
        allowed = "help(wb.rules.formula) lists the functions."
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
    """Return the text of a rule as an error quotes it."""
    return repr(shorten(text, 80))


def _refuse(text: str, at: int, what: str, allowed: str = "") -> NoReturn:
    where = f"{quote(text)}: {what} at character {at + 1}."
    raise ExpressionError(f"{where} {allowed}".rstrip())
