"""The words of the language of rules: functions, operators, names, refusals.

`expression.py` reads a text with them. The list of functions is fixed: what is not in
a table here cannot be written.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from workbench.core import dims
from workbench.ops.arithmetic import stop_gradient
from workbench.ops.define import shape_of

__all__ = [
    "CHARACTERS",
    "COMPARISONS",
    "FUNCTIONS",
    "LARGEST_EXPONENT",
    "MEANING",
    "MEANT",
    "MOST_CHARACTERS",
    "MOST_NESTING",
    "NUMBERED",
    "OPERATORS",
    "OPERATOR_REFUSED",
    "OTHERWISE",
    "REDUCTIONS",
    "REFUSED",
    "usage",
]

MOST_CHARACTERS = 1000
MOST_NESTING = 50
LARGEST_EXPONENT = 16


class Function(NamedTuple):
    """A function of the language: what computes it and what it takes."""

    compute: Callable[..., Any]
    arguments: int
    reduces: bool = False


def norm(
    x: Any, axis: int | tuple[int, ...] | None = None, keepdims: bool = False
) -> Any:
    """The Euclidean norm, of entries whose squares overflow or vanish too.

    A gradient that explodes is what it is taken of, and in float32 the square of 1e20
    is infinite. Dividing by a power of 2 changes no digit.
    """
    unknown = dims.found(shape_of(x))  # of such a length nobody can ask yet
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
    "clip": Function(np.clip, 3),
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


def usage(name: str) -> str:
    """How a function is called, as an error shows it."""
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
