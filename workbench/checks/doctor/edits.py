"""Advice as a change of the user's source: which lines, and what to write there.

Python stores the source range of each operation, so the expression that made a node is
found in the syntax tree of its file or cell, wherever it stands and however often the
same text occurs. A change is offered only where the tree says that it is right: the
expression computes that node and nothing else, every name of the new code means the
same there, and the changed source reads as the old one with this one expression
replaced. Nothing is run.
"""

from __future__ import annotations

import ast
import linecache
import types
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

from workbench.checks.doctor import spelling
from workbench.checks.doctor.case import Case
from workbench.checks.doctor.finding import Edit, Fix
from workbench.core import sites
from workbench.core.spelling import add_brackets, fill_names, least_binding, parse_code
from workbench.core.tensor import Tensor

#: How Python's operators are written.
OPERATORS: dict[type[ast.AST], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Pow: "**",
    ast.MatMult: "@", ast.USub: "-",
}  # fmt: skip
#: What a module of the advice is called where its own name is not known.
ABBREVIATIONS = {"workbench": "wb"}
SCOPES = (ast.Module, ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
LOOPS = (ast.For, ast.AsyncFor, ast.While)


def edit_expression(
    case: Case, node: Tensor, code: str, quoted: Iterable[tuple[Tensor, str]]
) -> Edit | None:
    """Return the change that writes other code for a node; None where that is unsafe.

    Parameters
    ----------
    case
        The program.
    node, code
        The node, and the expression to write in the place of the one that made it.
    quoted
        What the code takes over from the user's source: each text, and the node whose
        expression has it.
    """
    found = _find_expression(node)
    if found is None or not _is_whole(case, node, found.place):
        return None
    names = set[str]()
    for reader, text in quoted:
        used = _list_names(_parse(text))
        if text == spelling.LEFT_OUT or not _means_the_same(found, reader, node, used):
            return None
        names |= used
    return _replace(found, code, names)


def edit_operand(node: Tensor, k: int, code: str) -> Edit | None:
    """Return the change that writes other code for input k of a node; None if unsafe.

    The code may name what the operand's own text names.
    """
    found = _find_expression(node)
    if found is None:
        return None
    made_by, _ = sites.instruction_of(node)
    places = spelling.list_operands(found.place, made_by, spelling.Spelling.of(node.op))
    count = len(node.inputs)
    if k >= min(len(places), count):
        return None
    # An argument beyond the operands is a setting, such as an axis. One with a name may
    # be an operand: then another argument is the setting, or a list is one operand.
    if any(_list_names(x) for x in places[count:]):
        return None
    if any(isinstance(x, ast.Starred) for x in places[: k + 1]):
        return None
    if ast.unparse(places[k]) != spelling.quote_operand(node, k):
        return None  # the code names what it is called elsewhere
    names = _list_names(places[k])
    return _replace(found._replace(place=places[k]), code, names)


def widen_operand(node: Tensor, text: str = "compute this part in float64") -> Fix:
    """Return the fix that gives a node its first operand in float64."""
    code = spelling.spell(node, "{0}.astype(np.float64)", "A")
    return Fix(text, code, edit=edit_operand(node, 0, code))


# The expression in the source


class _Source(NamedTuple):
    """The source of a file or cell, with its tree."""

    lines: tuple[str, ...]
    tree: ast.Module
    parents: dict[ast.AST, ast.AST]


class _Expression(NamedTuple):
    """An expression of the user's."""

    file: str
    source: _Source
    place: ast.expr

    def list_parents(self) -> Iterator[ast.AST]:
        """Yield the parents of the expression, from the inside out."""
        at = self.source.parents.get(self.place)
        while at is not None:
            yield at
            at = self.source.parents.get(at)


@lru_cache(maxsize=8)
def _read_source(lines: tuple[str, ...]) -> _Source | None:
    tree = _parse_program(lines)
    if tree is None:
        return None
    parents = {kid: x for x in ast.walk(tree) for kid in ast.iter_child_nodes(x)}
    return _Source(lines, tree, parents)


def _parse_program(lines: Iterable[str]) -> ast.Module | None:
    """Return the tree of a program; the line of a cell's magic is passed over."""
    rows = list(lines)
    first = next((i for i, row in enumerate(rows) if row.strip()), 0)
    if rows and rows[first].startswith("%%"):
        rows[first] = "\n"
    try:
        return ast.parse("".join(rows))
    except (SyntaxError, ValueError, RecursionError):
        return None


def _parse(text: str) -> ast.expr | None:
    """Return the tree of an expression, or of an index; None for other texts."""
    try:
        tree = ast.parse(f"_[{text}]", mode="eval").body
    except (SyntaxError, ValueError):
        return None
    return tree.slice if isinstance(tree, ast.Subscript) else None


def _list_names(tree: ast.AST | None) -> set[str]:
    walked = () if tree is None else ast.walk(tree)
    return {x.id for x in walked if isinstance(x, ast.Name)}


def _find_expression(node: Tensor) -> _Expression | None:
    code, lasti = sites.instruction_of(node)
    position = spelling.find_position(code, lasti)
    if code is None or position is None:
        return None
    read = _read_source(tuple(linecache.getlines(code.co_filename)))
    if read is None:
        return None
    for x in ast.walk(read.tree):
        if isinstance(x, ast.expr) and _place_of(x) == position:
            return _Expression(code.co_filename, read, x)
    return None


def _place_of(x: ast.expr | ast.stmt) -> tuple[int, int | None, int, int | None]:
    return x.lineno, x.end_lineno, x.col_offset, x.end_col_offset


def _is_whole(case: Case, node: Tensor, place: ast.expr) -> bool:
    """Return whether an expression is this node alone, not a call that goes further."""
    if isinstance(place, ast.BinOp | ast.UnaryOp):
        unary = "x" if isinstance(place, ast.UnaryOp) else ""
        symbol = OPERATORS.get(type(place.op))
        return symbol is not None and node.op.traits.symbol == symbol + unary
    made_by = sites.instruction_of(node)
    readers = case.readers.get(node.serial, ())
    return not isinstance(node._value, tuple) and all(
        sites.instruction_of(reader) != made_by for reader in readers
    )


# What names mean


def _means_the_same(
    found: _Expression, reader: Tensor, node: Tensor, names: set[str]
) -> bool:
    """Return whether names mean the same at an expression and at another node's.

    They do if both stand there, and no statement between the two binds one of them.
    """
    if not names:
        return True
    quoted = _find_expression(reader)
    code, _ = sites.instruction_of(node)
    if quoted is None or sites.instruction_of(reader)[0] is not code:
        return False
    if not names <= _list_names(quoted.place):
        return False  # what it is called elsewhere
    here, there = (_statement_of(x) for x in (found, quoted))
    if here is None or there is None or _scope_of(found) is not _scope_of(quoted):
        return False
    if here is there:
        return not any(isinstance(x, ast.NamedExpr) for x in ast.walk(here))
    if there.lineno > here.lineno:
        return False
    around = {x for x in found.list_parents() if isinstance(x, LOOPS)}
    around -= set(quoted.list_parents())
    for name, line in _list_bindings(_scope_of(found)):
        if name in names and (
            there.lineno <= line < here.lineno
            or any(x.lineno <= line <= (x.end_lineno or 0) for x in around)
        ):
            return False
    return True


def _statement_of(found: _Expression) -> ast.stmt | None:
    return next((x for x in found.list_parents() if isinstance(x, ast.stmt)), None)


def _scope_of(found: _Expression) -> ast.AST | None:
    return next((x for x in found.list_parents() if isinstance(x, SCOPES)), None)


def _list_bindings(scope: ast.AST | None) -> Iterator[tuple[str, int]]:
    """Yield each name that a scope binds or changes the entries of, with the line."""
    for x in ast.walk(scope) if scope is not None else ():
        if isinstance(x, ast.ExceptHandler | ast.FunctionDef | ast.ClassDef):
            if x.name is not None:
                yield x.name, x.lineno
        elif isinstance(x, ast.Import | ast.ImportFrom):
            for one in x.names:
                yield (one.asname or one.name).partition(".")[0], x.lineno
        elif isinstance(x, ast.Name | ast.Subscript | ast.Attribute) and not isinstance(
            x.ctx, ast.Load
        ):
            base: ast.expr = x
            while isinstance(base, ast.Subscript | ast.Attribute | ast.Starred):
                base = base.value
            if isinstance(base, ast.Name):
                yield base.id, x.lineno


# The change


def _replace(found: _Expression, code: str, names: set[str]) -> Edit | None:
    """Return the change that writes code in the place of an expression.

    ``names`` are those that the code takes over from the user's source; the others
    must be modules that the source knows.
    """
    place, read = found.place, found.source
    for name, short in ABBREVIATIONS.items():
        if not _is_module(name, found):
            code = fill_names(code, {name: parse_code(short)}).code
    tree = _parse(code)
    if tree is None or "\n" in code:
        return None
    if not all(_is_module(name, found) for name in _list_names(tree) - names):
        return None
    first, last = place.lineno - 1, place.end_lineno or place.lineno
    before = read.lines[first:last]
    start = before[0].encode()[: place.col_offset].decode()
    end = before[-1].encode()[place.end_col_offset :].decode()
    written = code
    parent = read.parents.get(place)
    inside = start.rstrip().endswith("(") and end.lstrip().startswith(")")
    if isinstance(parent, ast.expr | ast.keyword) and not inside:
        written = add_brackets(parse_code(code), least_binding(parent, place))
    after = (start + written + end,)
    lines = (*read.lines[:first], *after, *read.lines[last:])
    # The proof: the new source is the old one with this expression replaced.
    made, expected = _parse_program(lines), _parse_program(read.lines)
    if made is None or expected is None:
        return None
    value = ast.parse(code, mode="eval").body
    swapped = _Swap(place, value).visit(expected)
    if ast.dump(made) != ast.dump(swapped):
        return None
    return Edit(
        sites.display_name(found.file),
        place.lineno,
        tuple(line.rstrip("\r\n") for line in before),
        tuple(line.rstrip("\r\n") for line in after),
    )


def _is_module(name: str, found: _Expression) -> bool:
    """Return whether a name is a module where an expression stands."""
    if name not in spelling.MODULES:
        return False
    for module in spelling.find_modules(found.file):
        if name in vars(module):
            return isinstance(vars(module)[name], types.ModuleType)
    tree = found.source.tree
    imported = {bound for bound, _ in _list_bindings(tree)}
    return name in imported | _list_names(tree)


# Two changes as one


class _Span(NamedTuple):
    """The characters that a change replaces in a text, and what it puts there."""

    start: int
    end: int
    text: str


def join_edits(node: Tensor, edits: Iterable[Edit]) -> Edit | None:
    """Return changes of several expressions in the file of a node as one change.

    None where two different ones change the same characters.
    """
    code, _ = sites.instruction_of(node)
    if code is None:
        return None
    # A line that runs several times has the same change each time.
    found = list(dict.fromkeys(edits))
    first = min(one.line for one in found)
    last = max(one.line + len(one.before) for one in found)
    rows = linecache.getlines(code.co_filename)[first - 1 : last - 1]
    before = [row.rstrip("\r\n") for row in rows]
    text = "\n".join(before)
    after = text
    # From the end, so that the places of the others stay.
    limit = len(text)
    spans = [_find_span(before, first, one) for one in found]
    for span in sorted(spans, reverse=True):
        if span.end > limit:
            return None
        after = after[: span.start] + span.text + after[span.end :]
        limit = span.start
    return Edit(found[0].file, first, tuple(before), tuple(after.split("\n")))


def _find_span(rows: list[str], first: int, edit: Edit) -> _Span:
    start = edit.line - first
    new = [*rows[:start], *edit.after, *rows[start + len(edit.before) :]]
    old, text = "\n".join(rows), "\n".join(new)
    same = _count_equal(old, text)
    tail = _count_equal(old[same:][::-1], text[same:][::-1])
    return _Span(same, len(old) - tail, text[same : len(text) - tail])


def _count_equal(a: str, b: str) -> int:
    """Return how many characters are the same at the start of two texts."""
    return next((k for k, (x, y) in enumerate(zip(a, b, strict=False)) if x != y),
                min(len(a), len(b)))  # fmt: skip


class _Swap(ast.NodeTransformer):
    """Puts another expression where one stands."""

    def __init__(self, old: ast.expr, new: ast.expr) -> None:
        self.kind, self.place, self.new = type(old), _place_of(old), new

    def visit(self, node: ast.AST) -> ast.AST:
        if type(node) is self.kind and isinstance(node, ast.expr):
            if _place_of(node) == self.place:
                return self.new
        visited: ast.AST = self.generic_visit(node)
        return visited
