"""What a function is called where it is shown: a lambda by its source."""

from __future__ import annotations

import ast
import inspect
import linecache
from functools import lru_cache
from typing import Any

__all__ = ["body_of", "lambda_text", "short", "written"]


def short(function: Any) -> str:
    """The name of a function, or of a lambda what it takes.

    >>> short(abs), short(eval("lambda x, y: x"))
    ('abs', 'of x, y')
    """
    name = getattr(function, "__name__", None) or type(function).__name__
    if name != "<lambda>":
        return str(name)
    try:
        return f"of {', '.join(inspect.signature(function).parameters)}"
    except (TypeError, ValueError):
        return "lambda"


def written(function: Any) -> str:
    """A lambda as it is written; any other function by its name."""
    found = lambda_text(function)
    return short(function) if found is None else found


def lambda_text(function: Any) -> str | None:
    """A lambda as it is written; None for another function, or one not found."""
    node = lambda_node(function)
    return None if node is None else ast.unparse(node)


def body_of(function: Any) -> str | None:
    """What a lambda computes, as it is written."""
    node = lambda_node(function)
    return None if node is None else ast.unparse(node.body)


def lambda_node(function: Any) -> ast.Lambda | None:
    """The lambda that a function was made of, found by its place in its file."""
    code = getattr(function, "__code__", None)
    if code is None or code.co_name != "<lambda>":
        return None
    source = "".join(linecache.getlines(code.co_filename))
    if not source:
        return None
    ran = set(code.co_positions())
    found = [
        node
        for node in lambdas_of(source)
        if place_of(node.body) in ran
        and node.lineno <= code.co_firstlineno <= place_of(node.body)[1]
    ]
    # Of lambdas in lambdas the outer one runs the whole of its own body alone.
    return max(found, key=lambda node: len(ast.unparse(node)), default=None)


@lru_cache(maxsize=8)
def lambdas_of(source: str) -> list[ast.Lambda]:
    """All lambdas of a file, or of a cell."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return []
    return [node for node in ast.walk(tree) if isinstance(node, ast.Lambda)]


def place_of(node: ast.expr) -> tuple[int, int, int, int]:
    """Where an expression stands, as instructions have it."""
    end, last = node.end_lineno, node.end_col_offset
    assert end is not None
    assert last is not None
    return node.lineno, end, node.col_offset, last
