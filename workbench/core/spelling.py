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
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from workbench.core.tensor import Tensor


class Expression(NamedTuple):
    """A piece of code and its binding strength; a name or a call binds tightest."""

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


def add_brackets(x: Expression, least: int) -> str:
    """Return the code of an operand, in brackets if binding less than ``least``."""
    return x.code if x.binding >= least else f"({x.code})"


@lru_cache(maxsize=1024)
def parse_code(code: str) -> Expression:
    """Return code with its binding strength: 0 for other code than expressions.

    >>> parse_code("a + b"), parse_code("f(a)")
    (Expression(code='a + b', binding=13), Expression(code='f(a)', binding=20))
    """
    try:
        return Expression(code, _find_binding(ast.parse(code, mode="eval").body))
    except (SyntaxError, ValueError):
        return Expression(code, 0)


def constant_expression(code: str) -> Expression:
    """Return the code of a literal or a name, which may have a sign."""
    return Expression(code, UNARY if code.startswith("-") else ATOM)


def _find_binding(tree: ast.expr) -> int:
    if isinstance(tree, ast.BinOp):
        return BINDING[type(tree.op)][0]
    if isinstance(tree, ast.UnaryOp):
        return 0 if isinstance(tree.op, ast.Not) else UNARY
    if isinstance(tree, ast.Compare):
        return COMPARISON
    return ATOM if isinstance(tree, _ATOMS) else 0


class _Place(NamedTuple):
    """A name in code, and the binding strength required there."""

    #: The code before it, since the last one.
    before: str
    name: str
    least: int
    #: How tightly it must bind in the place of the minus sign before it, if one is.
    sign: int | None


class _Form(NamedTuple):
    """The filled form of code."""

    binding: int
    places: tuple[_Place, ...]
    after: str
    #: The slots of a template: those of operands, and others with their numbers.
    operands: tuple[tuple[str, int], ...]
    slots: tuple[tuple[str, str], ...]


@lru_cache(maxsize=1024)
def _read_template(template: str) -> _Form:
    """Return the places of a template, or of code with names; ``{more}`` is one too."""
    code, places = "", list[tuple[int, int, str, int, int | None]]()
    for i, part in enumerate(template.split("{more}")):
        if i:
            places.append((len(code), len(code), "_more", 0, None))
        code += _SLOT.sub(r"_\1", part)
    tree = ast.parse(code, mode="eval").body
    stack: list[tuple[ast.AST, int, int | None]] = [(tree, 0, None)]
    while stack:
        node, least, sign = stack.pop()
        if isinstance(node, ast.Name):
            # Python counts bytes.
            start, end = (
                len(code.encode()[:n].decode())
                for n in (node.col_offset, node.end_col_offset)
            )
            places.append((start, end, node.id, least, sign))
        minus = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub)
        above = least if minus else None
        stack += [
            (kid, least_binding(node, kid), above) for kid in ast.iter_child_nodes(node)
        ]
    at, made = 0, []
    for start, end, name, least, sign in sorted(places, key=lambda place: place[:2]):
        made.append(_Place(code[at:start], name, least, sign))
        at = end
    found = dict.fromkeys(_SLOT.findall(template))
    operands = tuple((f"_{key}", int(key)) for key, _ in found if key.isdigit())
    slots = tuple(slot for slot in found if not slot[0].isdigit())
    return _Form(_find_binding(tree), tuple(made), code[at:], operands, slots)


def least_binding(node: ast.AST, kid: ast.AST) -> int:
    """Return how tightly a part of an expression must bind to need no brackets."""
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


def fill_names(code: str, expressions: Mapping[str, Expression]) -> Expression:
    """Return code with expressions in place of names, in brackets where needed.

    >>> fill_names("a * b - c", {"a": parse_code("x + y"), "c": parse_code("-z")}).code
    '(x + y) * b - -z'
    >>> fill_names("-a", {"a": parse_code("-x")}).code
    'x'
    """
    return _fill_form(_read_template(code), expressions)


def _fill_form(form: _Form, expressions: Mapping[str, Expression]) -> Expression:
    made = []
    for before, name, least, sign in form.places:
        x = expressions.get(name)
        if x is None:
            made += [before, name]
            continue
        code, binding = x
        if sign is not None and code[:1] == before[-1:] == "-":
            bare = parse_code(code[1:]) if parse_code(code).binding == UNARY else None
            if bare is not None:
                before, least, (code, binding) = before[:-1], sign, bare
        if not before and not form.after and len(form.places) == 1:
            return Expression(code, binding)
        made += [before, code if binding >= least else f"({code})"]
    made.append(form.after)
    return Expression("".join(made), form.binding)


def fill_template(
    template: str,
    operands: Sequence[Expression],
    params: Mapping[str, Any] = MappingProxyType({}),
    literal: Callable[[Any, str], str] = lambda setting, _: repr(setting),
) -> Expression:
    """Return the template of an op, filled in; ``literal`` writes a setting as code."""
    form = _read_template(template)
    given = {name: operands[i] for name, i in form.operands}
    for key, number in form.slots:
        if key == "all":
            x = Expression(", ".join([x.code for x in operands]), ATOM)
        elif key == "more":
            named = [key for key, _ in form.slots]
            rest = [(k, v) for k, v in params.items() if k not in named]
            x = Expression("".join([f", {k}={literal(v, 'c')}" for k, v in rest]), ATOM)
        elif key == "index" and "key" in params:
            arrays = [x.code for x in operands[int(number or len(operands)) :]]
            x = Expression(format_key(params["key"], arrays), ATOM)
        else:
            setting = params[key]
            code = literal(setting, key)
            x = (
                parse_code(code)
                if isinstance(setting, Code)
                else constant_expression(code)
            )
        given[f"_{key}"] = x
    return _fill_form(form, given)


_SLOT = re.compile(r"\{(\w+)(?::(\d+))?\}")
#: What is an operator of Python, or hands its operand on.
OPERATOR = re.compile(r"-?\{0\}|\{0\} \S+ \{1\}")


def operator_of(node: Tensor) -> str | None:
    """Return the template of a node that is an operator of Python, or its operand.

    >>> import workbench as wb
    >>> operator_of(wb.scalar("x") + 1)
    '{0} + {1}'
    """
    template = node.op.template
    if not isinstance(template, str) or node.params or node.op.custom:
        return None
    return template if OPERATOR.fullmatch(template) else None


#: Modules of SciPy, as the text imports them.
MODULES = (
    "special", "linalg", "fft", "interpolate", "ndimage", "signal", "sparse", "spatial"
)  # fmt: skip
_MODULE = re.compile(rf"(?<![\w.}}])({'|'.join(MODULES)})\.")


@lru_cache(maxsize=1024)
def libraries_of(template: str) -> list[str]:
    """Return the modules of SciPy that a template calls.

    >>> libraries_of("special.erf({0}) + np.linalg.det({1})")
    ['special']
    """
    return _MODULE.findall(template)


def format_key(key: tuple[Any, ...], arrays: list[str]) -> str:
    """Return the text of an index from its static key and the texts of its arrays.

    >>> format_key((1, None, slice(2, None)), [])
    '1, None, 2:'
    """
    rest = iter(arrays)
    parts = [_format_key_part(part, rest.__next__) for part in key]
    if not parts:
        return "()"
    return ", ".join(parts) + ("," if len(parts) == 1 and parts[0] == "()" else "")


def _format_key_part(part: Any, array: Callable[[], str]) -> str:
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


def format_literal(x: Any) -> str | None:
    """Return a plain value as code that makes an equal one, or None.

    >>> format_literal(np.float32(0.5)), format_literal((1, None))
    ('np.float32(0.5)', '(1, None)')
    >>> format_literal(float("inf"))
    'float("inf")'
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
        return f"np.{x.dtype.name}({format_literal(plain)})" if simple else None
    if isinstance(x, np.dtype):
        return f"np.{x.name}" if hasattr(np, x.name) else repr(x.str)
    if isinstance(x, type) and issubclass(x, np.generic):
        return f"np.{x.__name__}"
    if isinstance(x, type) and x in (bool, int, float, complex):
        return x.__name__
    if isinstance(x, slice):
        return _format_sequence((x.start, x.stop, x.step), "slice({})")
    if type(x) is list:
        return _format_sequence(tuple(x), "[{}]")
    if type(x) is tuple:
        return _format_sequence(x, "({},)" if len(x) == 1 else "({})")
    if type(x) is np.ndarray and 0 < x.size <= 6 and x.dtype.kind in "biufc":
        listed = format_literal(x.tolist())
        same = np.asarray(x.tolist()).dtype == x.dtype
        return f"np.array({listed}{'' if same else f', dtype=np.{x.dtype.name}'})"
    return None


#: An array whose text would be longer is handed over as it is.
MOST_TEXT = 4000


def format_array(x: Any, left: str) -> str | None:
    """Return the line that makes and names an array; None for one too large.

    >>> format_array(np.arange(8.0), "c = ")
    'c = np.array([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0])'
    """
    if type(x) is not np.ndarray or x.dtype.kind not in "biufc" or x.size > MOST_TEXT:
        return None
    if not x.size:
        return f"{left}np.zeros({x.shape}, dtype=np.{x.dtype.name})"
    listed = format_literal(x.tolist())
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


def _format_sequence(parts: tuple[Any, ...], around: str) -> str | None:
    codes = [format_literal(part) for part in parts]
    known = [code for code in codes if code is not None]
    return around.format(", ".join(known)) if len(known) == len(codes) else None
