"""How Python code is written: literals, indices, and where operators need brackets.

How each op is spelled stands in its row (`Op.template`, `Op.helper`). An op whose name
NumPy has needs no spelling: it is called by its name, with its settings as keywords.
"""

from __future__ import annotations

import ast
import math
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from workbench.core.tensor import Tensor


class Expression(NamedTuple):
    """A piece of code and how tightly it binds; a name or a call binds tightest."""

    code: str
    binding: int


#: How tightly a name or a call binds, and a sign in front.
ATOM, UNARY = 20, 15

#: How tightly an operator binds, and the least that its left and right operand must
#: bind to do without brackets.
BINDING: dict[type[ast.operator], tuple[int, int, int]] = {
    ast.BitOr: (9, 9, 10),
    ast.BitXor: (10, 10, 11),
    ast.BitAnd: (11, 11, 12),
    **dict.fromkeys((ast.LShift, ast.RShift), (12, 12, 13)),
    **dict.fromkeys((ast.Add, ast.Sub), (13, 13, 14)),
    **dict.fromkeys((ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.MatMult),
                    (14, 14, 15)),
    ast.Pow: (16, 17, 16),
}  # fmt: skip
COMPARISON = 8

_ATOMS = (ast.Name, ast.Attribute, ast.Subscript, ast.Call, ast.Constant, ast.List)


def bound(x: Expression, least: int) -> str:
    """The code of an operand, in brackets if it binds less than that."""
    return x.code if x.binding >= least else f"({x.code})"


@lru_cache(maxsize=1024)
def parsed(code: str) -> Expression:
    """Code, and how tightly it binds; not at all where it is no expression.

    >>> parsed("a + b"), parsed("f(a)")
    (Expression(code='a + b', binding=13), Expression(code='f(a)', binding=20))
    """
    try:
        return Expression(code, _binding(ast.parse(code, mode="eval").body))
    except (SyntaxError, ValueError):
        return Expression(code, 0)


def constant(code: str) -> Expression:
    """The code of a literal or a name, which may have a sign."""
    return Expression(code, UNARY if code.startswith("-") else ATOM)


def _binding(tree: ast.expr) -> int:
    if isinstance(tree, ast.BinOp):
        return BINDING[type(tree.op)][0]
    if isinstance(tree, ast.UnaryOp):
        return 0 if isinstance(tree.op, ast.Not) else UNARY
    if isinstance(tree, ast.Compare):
        return COMPARISON
    return ATOM if isinstance(tree, _ATOMS) else 0


class _Place(NamedTuple):
    """A name in code, from where to where, and how tightly it must bind there."""

    start: int
    end: int
    name: str
    least: int
    #: The same of the minus sign before it, if one stands there.
    sign: tuple[int, int] | None


@lru_cache(maxsize=1024)
def _places(code: str) -> tuple[int, tuple[_Place, ...]]:
    """How tightly code binds, and the names in it."""
    tree = ast.parse(code, mode="eval").body
    found = []
    stack: list[tuple[ast.AST, int, tuple[int, int] | None]] = [(tree, 0, None)]
    while stack:
        node, least, sign = stack.pop()
        if isinstance(node, ast.Name):
            end = node.end_col_offset or 0
            found.append(_Place(node.col_offset, end, node.id, least, sign))
        minus = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub)
        above = (node.col_offset, least) if minus else None  # type: ignore[attr-defined]
        stack += [(kid, _least(node, kid), above) for kid in ast.iter_child_nodes(node)]
    return _binding(tree), tuple(sorted(found))


def _least(node: ast.AST, kid: ast.AST) -> int:
    """How tightly a part of an expression must bind to stand without brackets."""
    if isinstance(node, ast.BinOp):
        _, left, right = BINDING[type(node.op)]
        return left if kid is node.left else right
    if isinstance(node, ast.UnaryOp):
        return UNARY
    if isinstance(node, ast.Compare):
        return COMPARISON + 1
    listed = ast.Call | ast.Subscript | ast.List | ast.Tuple | ast.keyword | ast.Starred
    head = getattr(node, "func", getattr(node, "value", None))
    inside = isinstance(node, listed | ast.Slice) and (
        kid is not head or isinstance(node, ast.keyword | ast.Starred)
    )
    return 0 if inside else ATOM


def fill(code: str, given: Mapping[str, Expression]) -> Expression:
    """Code with expressions in place of names, in brackets where they need them.

    >>> fill("a * b - c", {"a": parsed("x + y"), "c": parsed("-z")}).code
    '(x + y) * b - -z'
    >>> fill("-a", {"a": parsed("-x")}).code
    'x'
    """
    binding, places = _places(code)
    raw, made, at = code.encode(), b"", 0
    for start, end, name, least, sign in places:
        x = given.get(name)
        if x is None:
            continue
        if sign and x.code[:1] == "-" and parsed(x.code).binding == UNARY:
            (start, least), x = sign, parsed(x.code[1:])
        if start == 0 and end == len(raw):
            return x
        made += raw[at:start] + bound(x, least).encode()
        at = end
    return Expression((made + raw[at:]).decode(), binding)


def written(
    template: str, operands: Sequence[Expression], params: Mapping[str, Any],
    literal: Callable[[Any, str], str],
) -> Expression:  # fmt: skip
    """The template of an op, filled in; ``literal`` writes a setting as code."""
    slots = set(_SLOT.findall(template))
    given: dict[str, Expression] = {}
    for key, number in slots - {("more", "")}:
        if key.isdigit():
            x = operands[int(key)]
        elif key == "all":
            x = Expression(", ".join(x.code for x in operands), ATOM)
        elif key == "index" and "key" in params:
            arrays = [x.code for x in operands[int(number or len(operands)) :]]
            x = Expression(index_text(params["key"], arrays), ATOM)
        else:
            setting = params[key]
            code = literal(setting, key)
            x = parsed(code) if isinstance(setting, Code) else constant(code)
        given[f"_{key}"] = x
    named = {key for key, _ in slots}
    more = [
        f", {k}={literal(v, 'c')}" for k, v in params.items() if k not in named
    ] if "more" in named else []  # fmt: skip
    parts = [_SLOT.sub(r"_\1", part) for part in template.split("{more}")]
    return fill("".join(more).join(parts), given)


_SLOT = re.compile(r"\{(\w+)(?::(\d+))?\}")
#: What is an operator of Python, or hands its operand on.
OPERATOR = re.compile(r"-?\{0\}|\{0\} \S+ \{1\}")


def operator_of(node: Tensor) -> str | None:
    """The template of a node that is an operator of Python, or hands its operand on.

    >>> import workbench as wb
    >>> operator_of(wb.scalar("x") + 1)
    '{0} + {1}'
    """
    template = node.op.template
    if not isinstance(template, str) or node.params or node.op.custom:
        return None
    return template if OPERATOR.fullmatch(template) else None


#: Modules of SciPy, as the text imports them.
MODULES = ("special", "linalg", "fft", "signal", "sparse")
_MODULE = re.compile(rf"(?<![\w.}}])({'|'.join(MODULES)})\.")


def libraries_of(template: str) -> list[str]:
    """The modules of SciPy that a template calls.

    >>> libraries_of("special.erf({0}) + np.linalg.det({1})")
    ['special']
    """
    return _MODULE.findall(template)


def index_text(key: tuple[Any, ...], arrays: list[str]) -> str:
    """The text of an index from its static key and the texts of its arrays.

    >>> index_text((1, None, slice(2, None)), [])
    '1, None, 2:'
    """
    rest = iter(arrays)
    parts = [_key_part(part, rest.__next__) for part in key]
    if not parts:
        return "()"
    return ", ".join(parts) + ("," if len(parts) == 1 and parts[0] == "()" else "")


def _key_part(part: Any, array: Callable[[], str]) -> str:
    if part is None or isinstance(part, int):
        return repr(part)
    if isinstance(part, Code):  # an unknown length
        return str(part)
    if part is Ellipsis:
        return "..."
    if isinstance(part, slice):
        part = (part.start, part.stop, part.step)
    if isinstance(part, tuple):  # a slice, as keys hold it
        start, stop, step = ("" if n is None else str(n) for n in part)
        return f"{start}:{stop}:{step}" if step else f"{start}:{stop}"
    return array()


class Code(str):
    """A setting that is code already: ``x.shape[0]``."""

    __slots__ = ()


def literal(x: Any) -> str | None:
    """A plain value as code that makes it again, None where that is no use.

    >>> literal(np.float32(0.5)), literal((1, None)), literal(float("inf"))
    ('np.float32(0.5)', '(1, None)', 'float("inf")')
    """
    if x is Ellipsis:
        return "..."
    if isinstance(x, Code):
        return x
    if x is None or isinstance(x, (str, bool)):
        return repr(x)
    if type(x) in (int, float, complex):
        return repr(x) if math.isfinite(abs(x)) else f'{type(x).__name__}("{x}")'
    if isinstance(x, np.generic):
        plain = x.item()
        simple = isinstance(plain, (bool, int, float, complex))
        return f"np.{x.dtype.name}({literal(plain)})" if simple else None
    if isinstance(x, np.dtype):
        return f"np.{x.name}" if hasattr(np, x.name) else repr(x.str)
    if isinstance(x, type) and issubclass(x, np.generic):
        return f"np.{x.__name__}"
    if isinstance(x, type) and x in (bool, int, float, complex):
        return x.__name__
    if isinstance(x, slice):
        return _sequence((x.start, x.stop, x.step), "slice({})")
    if type(x) is list:
        return _sequence(tuple(x), "[{}]")
    if type(x) is tuple:
        return _sequence(x, "({},)" if len(x) == 1 else "({})")
    if type(x) is np.ndarray and 0 < x.size <= 6 and x.dtype.kind in "biufc":
        listed = literal(x.tolist())
        same = np.asarray(x.tolist()).dtype == x.dtype
        return f"np.array({listed}{'' if same else f', dtype=np.{x.dtype.name}'})"
    return None


#: An array whose text would be longer is handed over as it is.
MOST_TEXT = 4000


def array_text(x: Any, left: str) -> str | None:
    """The line that makes an array and gives it a name; None for one too large.

    >>> array_text(np.arange(8.0), "c = ")
    'c = np.array([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0])'
    """
    if type(x) is not np.ndarray or x.dtype.kind not in "biufc" or x.size > MOST_TEXT:
        return None
    if not x.size:
        return f"{left}np.zeros({x.shape}, dtype=np.{x.dtype.name})"
    listed = literal(x.tolist())
    if listed is None or len(listed) > MOST_TEXT:
        return None
    same = np.asarray(x.tolist()).dtype == x.dtype
    ending = ")" if same else f", dtype=np.{x.dtype.name})"
    line = f"{left}np.array({listed}{ending}"
    if len(line) <= 88:
        return line
    inside = textwrap.fill(
        f"{listed}{'' if same else ','}", 84, break_long_words=False,
        initial_indent="    ", subsequent_indent="    ",
    )  # fmt: skip
    if not same:
        inside += f"\n    dtype=np.{x.dtype.name},"
    return f"{left}np.array(\n{inside}\n)"


def _sequence(parts: tuple[Any, ...], around: str) -> str | None:
    codes = [literal(part) for part in parts]
    known = [code for code in codes if code is not None]
    return around.format(", ".join(known)) if len(known) == len(codes) else None
