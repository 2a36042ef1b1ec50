"""The user's own text for what a node was made from, for the lines of a fix.

Python keeps from where to where in the source each operation stands; the operands are
read off its syntax. Nothing is run.
"""

from __future__ import annotations

import ast
import linecache
from functools import lru_cache
from itertools import islice
from types import CodeType
from typing import Any

from workbench.graph.tensor import Tensor

__all__ = ["LEFT_OUT", "closed", "line_of", "minus", "operand", "short", "subscript"]

#: A longer operand would not be read in a line that is to be copied.
MOST = 60
#: What stands for it, and for what there is no source of.
LEFT_OUT = "..."


def operand(node: Tensor, k: int = 0) -> str:
    """How the user has written input k of a node: ``"z"``, ``"h @ W + b"``."""
    x = node.inputs[k]
    if isinstance(x, Tensor) and x.name and x.name.isidentifier():
        return x.name
    # A loop has its operands in another order than its call.
    found = None if node.op.name == "scan" else _operand(*_place(node), k)
    if found is not None:
        return found if len(found) <= MOST else LEFT_OUT
    if isinstance(x, Tensor):
        return x.name or LEFT_OUT
    return short(x)


def closed(text: str) -> str:
    """The text of an operand in brackets, where it has operators of its own."""
    try:
        tree = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError):
        return f"({text})"
    whole = ast.Name | ast.Attribute | ast.Subscript | ast.Call | ast.Constant
    return text if isinstance(tree, whole) else f"({text})"


def subscript(node: Tensor, k: int = 0) -> str:
    """What the user takes of an operand, with its brackets: ``"[i, t]"``
    nothing where it is spelled without.
    """
    text = _operand(*_place(node), k)
    tree = None if text is None else ast.parse(text, mode="eval").body
    if not isinstance(tree, ast.Subscript):
        return ""
    tree.value = ast.Name("x", ast.Load())
    return ast.unparse(tree)[1:]


def minus(text: str) -> str:
    """The negative of what a text stands for."""
    try:
        tree = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError):
        tree = None
    if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.USub):
        return ast.unparse(tree.operand)
    return f"-{closed(text)}"


def short(x: Any) -> str:
    """A constant as code, or a word for a large one."""
    if isinstance(x, (int, float, complex)) or getattr(x, "shape", None) == ():
        return f"{x:.6g}" if isinstance(x, float) else str(x)
    return "constant"


def line_of(node: Tensor) -> str:
    """The expression that made a node, as it stands in the source; maybe nothing."""
    found = _segment(*_place(node))
    return "" if found is None else found


def _place(node: Tensor) -> tuple[CodeType | None, int]:
    context = node.context
    if context is not None and context.code is not None:
        return context.code, context.lasti
    return node.code, node.lasti


@lru_cache(maxsize=1024)
def _segment(code: CodeType | None, lasti: int) -> str | None:
    if code is None or lasti < 0:
        return None
    found = next(islice(code.co_positions(), lasti // 2, None), None)
    if found is None or any(x is None for x in found):
        return None
    line, end, column, stop = found
    rows = [linecache.getline(code.co_filename, i) for i in range(line, end + 1)]  # type: ignore[operator, arg-type]
    if not any(rows):
        return None
    raw = [row.encode() for row in rows]
    raw[-1] = raw[-1][:stop]
    raw[0] = raw[0][column:]
    return b"".join(raw).decode(errors="replace")


@lru_cache(maxsize=1024)
def _operand(code: CodeType | None, lasti: int, k: int) -> str | None:
    text = _segment(code, lasti)
    if text is None:
        return None
    try:
        tree = ast.parse(f"({text})", mode="eval").body
    except (SyntaxError, ValueError):
        return None
    parts: list[ast.expr] = []
    if isinstance(tree, ast.BinOp):
        parts = [tree.left, tree.right]
    elif isinstance(tree, ast.UnaryOp):
        parts = [tree.operand]
    elif isinstance(tree, ast.Compare):
        parts = [tree.left, *tree.comparators]
    elif isinstance(tree, ast.Call) and isinstance(tree.func, ast.Call):
        return None  # wb.grad(f)(x): what is inside has other operands
    elif isinstance(tree, ast.Call):
        parts = [
            part
            for x in tree.args
            for part in (x.elts if isinstance(x, ast.List | ast.Tuple) else [x])
            if not (isinstance(part, ast.Constant) and isinstance(part.value, str))
        ]
        if isinstance(tree.func, ast.Attribute) and not _module(tree.func.value):
            parts = [tree.func.value, *parts]
    if k >= len(parts) or isinstance(parts[k], ast.Starred):
        return None
    return ast.unparse(parts[k])


def _module(x: ast.expr) -> bool:
    """Whether what stands before the dot is a module: ``np``, ``np.linalg``."""
    while isinstance(x, ast.Attribute):
        x = x.value
    return isinstance(x, ast.Name) and x.id in MODULES


MODULES = {"np", "numpy", "wb", "workbench", "sp", "scipy", "special", "xp", "cp"}
