"""What a function is called where it is shown: a lambda by its source."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
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
    """The lambda in the source of the line where a function was made."""
    code = getattr(function, "__code__", None)
    if code is None or code.co_name != "<lambda>":
        return None
    try:
        lines, _ = inspect.getsourcelines(function)
    except (OSError, TypeError, IndentationError, SyntaxError):
        return None
    text = textwrap.dedent("".join(lines)).strip()
    # The line may be the middle of a statement: the lambda is looked for from its
    # word on, up to where it can be read.
    found = []
    start = text.find("lambda")
    while start >= 0:
        nodes = (n for n in lambdas_at(text[start:]) if is_made_of(n, code))
        found += [node for node, _ in zip(nodes, "1", strict=False)]
        start = text.find("lambda", start + 1)
    bodies = {ast.unparse(node) for node in found}
    return found[0] if len(bodies) == 1 else None


def lambdas_at(text: str) -> Iterator[ast.Lambda]:
    """The lambdas that a text may begin with, the shortest first."""
    ends = [i for i, c in enumerate(text) if c in ",)]}\n;:#"] + [len(text)]
    for end in ends[:200]:
        try:
            tree = ast.parse(f"({text[:end]}\n)", mode="eval").body
        except (SyntaxError, ValueError, MemoryError, RecursionError):
            continue
        if isinstance(tree, ast.Lambda):
            yield tree


def is_made_of(node: ast.Lambda, code: Any) -> bool:
    """Whether a lambda in a text is the one that a code object was made of."""
    arguments = node.args
    names = [a.arg for a in (*arguments.posonlyargs, *arguments.args)]
    if tuple(names) != code.co_varnames[: code.co_argcount]:
        return False
    made = compile(ast.fix_missing_locations(ast.Expression(node)), "", "eval")
    inner = next((c for c in made.co_consts if hasattr(c, "co_code")), None)
    if inner is None or {*inner.co_names} - {*code.co_names, *code.co_freevars}:
        return False
    # A variable of a function around it is read by another instruction here.
    return bool(code.co_freevars) or len(inner.co_code) == len(code.co_code)
