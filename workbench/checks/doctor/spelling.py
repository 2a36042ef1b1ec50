"""The user's source text of operands, for the lines of a fix.

Python stores the source range of each operation; the operands are found in its syntax
tree. Nothing is run.
"""

from __future__ import annotations

import ast
import linecache
import re
import sys
from functools import lru_cache
from itertools import islice
from types import CodeType, ModuleType
from typing import Any, NamedTuple

from workbench.core import sites, spelling
from workbench.core.op import Op
from workbench.core.tensor import Tensor

#: A longer operand would make a line too long to copy.
MOST = 60
#: The text for a longer operand, and for one without source.
LEFT_OUT = "..."


class Spelling(NamedTuple):
    """How users may have written an op."""

    names: tuple[str, ...]
    symbol: str
    #: It is the user's own, and may have any name where it is called.
    custom: bool

    @classmethod
    def of(cls, op: Op) -> Spelling:
        """Return how an op may have been written."""
        return cls((op.name, *op.traits.aliases), op.traits.symbol, op.custom)


def quote_operand(node: Tensor, k: int = 0) -> str:
    """Return the user's text of input k of a node: ``"z"``, ``"h @ W + b"``."""
    x = node.inputs[k]
    # A loop has its operands in another order than its call.
    found = None
    if not node.op.repeats:
        found = _parse_operand(
            *sites.instruction_of(node), k, Spelling.of(node.op), len(node.inputs)
        )
    named = isinstance(x, Tensor) and x.name is not None and x.name.isidentifier()
    # In a function the same value may have another name.
    if found is not None and (not named or found.isidentifier()):
        return found if len(found) <= MOST else LEFT_OUT
    if isinstance(x, Tensor):
        text = x.name or _quote_nested(node, x) or LEFT_OUT
        return text if len(text) <= MOST else LEFT_OUT
    return format_constant(x)


# Steps of a library's function: their code is not the user's to change.

#: The folders that packages are installed in, wherever their environment is.
INSTALLED = re.compile(r"[\\/](site|dist)-packages[\\/](\w+)")


def find_package(node: Tensor) -> str | None:
    """Return the installed package with the file that made a node, or None."""
    found = INSTALLED.search(node.code.co_filename) if node.code is not None else None
    return None if found is None else found[2]


def find_outer_call(node: Tensor) -> str | None:
    """Return the function that was called to make a node, unless that of its op."""
    return _find_outer_call(*sites.instruction_of(node), Spelling.of(node.op))


@lru_cache(maxsize=1024)
def _find_outer_call(code: CodeType | None, lasti: int, op: Spelling) -> str | None:
    text = _read_segment(code, lasti)
    try:
        tree = ast.parse(f"({text})", mode="eval").body if text else None
    except (SyntaxError, ValueError):
        return None
    if not isinstance(tree, ast.Call) or isinstance(tree.func, ast.Call):
        return None
    return None if _is_call_of(tree.func, op) else ast.unparse(tree.func)


def find_own_logarithm(node: Tensor) -> str | None:
    """Return the function for the logarithm of the function under a logarithm node.

    For the logarithm of ``st.norm.cdf(x)`` that is ``st.norm.logcdf``, where the object
    before the last dot has a function of that name; else None.
    """
    text = quote_operand(node)
    try:
        tree = ast.parse(f"({text})", mode="eval").body
    except (SyntaxError, ValueError):
        return None
    if node.code is None or not isinstance(tree, ast.Call):
        return None
    called = tree.func
    if not isinstance(called, ast.Attribute):
        return None
    owner = ast.unparse(called.value)
    root, *path = owner.split(".")
    for module in find_modules(node.code.co_filename):
        found = vars(module).get(root)
        for name in path:
            found = getattr(found, name, None)
        for prefix in ("log", "log_"):
            if found is not None and hasattr(found, prefix + called.attr):
                return f"{owner}.{prefix}{called.attr}"
    return None


def _quote_nested(node: Tensor, x: Tensor) -> str | None:
    """Return the user's text of an operand that stands inside the call of a node.

    As ``A @ A.T`` in ``st.multivariate_normal.logpdf(y, m, A @ A.T)``, whose steps
    have no text of their own.
    """
    if x.code is None or x.code is not node.code or not x.inputs:
        return None
    outer = find_position(*sites.instruction_of(node))
    inner = find_position(*sites.instruction_of(x))
    if outer is None or inner is None or inner == outer:
        return None
    starts = outer[0], outer[2], inner[0], inner[2]
    ends = outer[1], outer[3], inner[1], inner[3]
    if starts[:2] > starts[2:] or ends[:2] < ends[2:]:
        return None
    text = quote_line(x)
    if find_outer_call(x):
        return None  # one of several steps that have this text
    try:
        return ast.unparse(ast.parse(f"({text})", mode="eval").body)
    except (SyntaxError, ValueError):
        return None


def to_expression(text: str) -> spelling.Expression:
    """Return the text of an operand as an expression, which knows its binding."""
    return spelling.Expression(
        text, spelling.ATOM if spelling.parse_code(text).binding == spelling.ATOM else 0
    )


def parenthesize(text: str) -> str:
    """Return the text of an operand, in parentheses if there are operators."""
    return spelling.add_brackets(to_expression(text), spelling.ATOM)


def quote_subscript(node: Tensor) -> str:
    """Return the user's text of an index: ``"i, t"``; `LEFT_OUT` if unknown."""
    text = _read_segment(*sites.instruction_of(node))
    try:
        tree = ast.parse(f"({text})", mode="eval").body if text else None
    except (SyntaxError, ValueError):
        tree = None
    if not isinstance(tree, ast.Subscript) or isinstance(tree.slice, ast.Starred):
        return LEFT_OUT
    tree.value = ast.Name("x", ast.Load())
    return ast.unparse(tree)[2:-1]


def is_literal(text: str) -> bool:
    """Return whether a text is a literal number, like ``-1.5``."""
    try:
        return isinstance(ast.literal_eval(text), int | float | complex)
    except (SyntaxError, ValueError, TypeError):
        return False


def spell(node: Tensor, template: str, *names: str) -> str:
    """Return a template filled with the user's text of a node's operands.

    ``names`` replace operands whose text is unknown.
    """
    texts = [quote_operand(node, k) for k in range(len(node.inputs))]
    for k, name in enumerate(names):
        texts[k] = name if texts[k] == LEFT_OUT else texts[k]
    return spelling.fill_template(template, [*map(to_expression, texts)]).code


def negate_text(text: str) -> str:
    """Return the code for the negative of an expression."""
    return spelling.fill_names("-x", {"x": to_expression(text)}).code


def format_constant(x: Any) -> str:
    """Return a constant as code, or a word for a large one."""
    if isinstance(x, (int, float, complex)) or getattr(x, "shape", None) == ():
        return f"{x:.6g}" if isinstance(x, float) else str(x)
    return "constant"


def quote_line(node: Tensor) -> str:
    """Return the source of the expression that made a node; empty if unknown."""
    found = _read_segment(*sites.instruction_of(node))
    return "" if found is None else found


def find_position(
    code: CodeType | None, lasti: int
) -> tuple[int, int, int, int] | None:
    """Return where the expression of an instruction stands; None if unknown.

    That is its first and last line, from 1, and where it begins and ends in them, in
    bytes from 0.
    """
    if code is None or lasti < 0:
        return None
    found = next(islice(code.co_positions(), lasti // 2, None), None)
    line, end, column, stop = found or (None, None, None, None)
    if line is None or end is None or column is None or stop is None:
        return None
    return line, end, column, stop


@lru_cache(maxsize=1024)
def _read_segment(code: CodeType | None, lasti: int) -> str | None:
    if code is None:
        return None
    found = find_position(code, lasti)
    if found is None:
        return None
    line, end, column, stop = found
    rows = [linecache.getline(code.co_filename, i) for i in range(line, end + 1)]
    if not any(rows):
        return None
    raw = [row.encode() for row in rows]
    raw[-1] = raw[-1][:stop]
    raw[0] = raw[0][column:]
    return b"".join(raw).decode(errors="replace")


@lru_cache(maxsize=1024)
def _parse_operand(
    code: CodeType | None, lasti: int, k: int, op: Spelling, count: int
) -> str | None:
    text = _read_segment(code, lasti)
    if text is None or code is None:
        return None
    try:
        tree = ast.parse(f"({text})", mode="eval").body
    except (SyntaxError, ValueError):
        return None
    parts = list_operands(tree, code, op)
    if k >= min(len(parts), count) or isinstance(parts[k], ast.Starred):
        return None
    return ast.unparse(parts[k])


def list_operands(
    tree: ast.expr, code: CodeType | None, op: Spelling
) -> list[ast.expr]:
    """Return the operands of an op in its source expression; none if unknown."""
    parts: list[ast.expr] = []
    if isinstance(tree, ast.BinOp):
        parts = [tree.left, tree.right]
    elif isinstance(tree, ast.UnaryOp):
        parts = [tree.operand]
    elif isinstance(tree, ast.Compare):
        parts = [tree.left, *tree.comparators]
        if op.symbol == MIRRORED.get(type(tree.ops[0])):
            parts.reverse()  # Python calls the Tensor's method: 0 < x is x > 0
    elif isinstance(tree, ast.Call) and isinstance(tree.func, ast.Call):
        return []  # wb.grad(f)(x): what is inside has other operands
    elif isinstance(tree, ast.Call):
        if not _is_call_of(tree.func, op):
            return []  # the call makes several ops
        parts = [
            part
            for x in tree.args
            for part in (x.elts if isinstance(x, ast.List | ast.Tuple) else [x])
            if not (isinstance(part, ast.Constant) and isinstance(part.value, str))
        ]
        if isinstance(tree.func, ast.Attribute) and not _is_module(
            tree.func.value, code
        ):
            parts = [tree.func.value, *parts]
    return parts


def _is_call_of(called: ast.expr, op: Spelling) -> bool:
    """Return whether a call is of this op itself, not of a function built on the op."""
    if isinstance(called, ast.Attribute):
        name = called.attr
    elif isinstance(called, ast.Name):
        if op.custom:
            return True
        name = called.id
    else:
        return False
    return name in op.names


def _is_module(x: ast.expr, code: CodeType | None) -> bool:
    """Return whether the expression before a dot is a module: ``np.linalg``."""
    while isinstance(x, ast.Attribute):
        x = x.value
    if not isinstance(x, ast.Name):
        return False
    if code is not None and x.id not in code.co_varnames:
        for module in find_modules(code.co_filename):
            if x.id in vars(module):
                return isinstance(vars(module)[x.id], ModuleType)
    return x.id in MODULES


def find_modules(file: str) -> list[ModuleType]:
    """Return the modules of a file; for a notebook's code ``__main__``."""
    found = [
        module
        for module in list(sys.modules.values())
        if getattr(module, "__file__", None) == file
    ]
    return found or [sys.modules["__main__"]]


MODULES = {"np", "numpy", "wb", "workbench", "sp", "scipy", "special", "xp", "cp"}
#: Comparisons that Python delegates to the right operand, mirrored.
MIRRORED = {ast.Lt: ">", ast.LtE: ">=", ast.Gt: "<", ast.GtE: "<="}
