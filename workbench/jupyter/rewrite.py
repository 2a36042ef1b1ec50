"""The rewriting of a cell's code for the trace: names, draws and imports alone.

Every line stays where it is. Each change is a call of the object under `RUNTIME`, a
`Runtime`:

- ``h = value``: ``h = RUNTIME.name_value(value, "h")``, so that the node is called h;
  ``U, S = value``: ``U, S = RUNTIME.name_each(value, ("U", "S"))``;
  ``h += value``: ``RUNTIME.name_value(h, "h")`` after it;
- ``rng.normal(...)`` and its kin: ``RUNTIME.wrap_draw(rng.normal)(...)``;
- ``import numpy as np``: ``np = RUNTIME.note_import(np)`` after it.

Each of them gives back what it is given, but for draws and modules of arrays.
"""

from __future__ import annotations

import ast
import symtable
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from workbench.core.plain import PLAIN
from workbench.core.tensor import Tensor

#: The name under which the rewritten code finds the `Runtime`, among the builtins.
RUNTIME = "__workbench__"

#: Draws of NumPy's generators, which do not see Tensors.
DRAWS = set(
    """
    beta binomial chisquare choice dirichlet exponential f gamma geometric gumbel
    hypergeometric integers laplace logistic lognormal logseries multinomial
    multivariate_hypergeometric multivariate_normal negative_binomial
    noncentral_chisquare noncentral_f normal pareto permutation permuted poisson power
    random rayleigh shuffle standard_cauchy standard_exponential standard_gamma
    standard_normal standard_t triangular uniform vonmises wald weibull zipf
    """.split()
)


def rewrite(tree: ast.Module) -> ast.Module:
    """Return the same cell with its assignments, draws and imports as calls."""
    made: ast.Module = _Rewriter().visit(tree)
    return ast.fix_missing_locations(made)


class _Rewriter(ast.NodeTransformer):
    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        target = node.targets[0]
        self.generic_visit(node)
        if isinstance(target, ast.Name):
            node.value = _wrap_named(node.value, target.id)
        elif isinstance(target, (ast.Tuple, ast.List)):
            names = [x.id if isinstance(x, ast.Name) else "" for x in target.elts]
            listed = ast.Tuple([ast.Constant(name) for name in names], ast.Load())
            node.value = _make_call("name_each", node.value, node.value, listed)
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.target, ast.Name) and node.value is not None:
            node.value = _wrap_named(node.value, node.target.id)
        return node

    def visit_NamedExpr(self, node: ast.NamedExpr) -> ast.AST:
        self.generic_visit(node)
        node.value = _wrap_named(node.value, node.target.id)
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST | list[ast.AST]:
        self.generic_visit(node)
        if not isinstance(node.target, ast.Name):
            return node
        name = node.target.id
        named = _make_call(
            "name_value", node, ast.Name(name, ast.Load()), ast.Constant(name)
        )
        return [node, ast.copy_location(ast.Expr(named), node)]

    def visit_Import(self, node: ast.Import) -> ast.AST | list[ast.AST]:
        names = [x.asname or x.name.partition(".")[0] for x in node.names]
        return [node, *(_note_import(node, name) for name in names)]

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST | list[ast.AST]:
        if node.module == "__future__":
            return node
        names = [x.asname or x.name for x in node.names]
        if names == ["*"]:
            noted = _make_call("note_import", node, ast.Constant(None))
            return [node, ast.copy_location(ast.Expr(noted), node)]
        return [node, *(_note_import(node, name) for name in names)]

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        function = node.func
        if isinstance(function, ast.Attribute) and function.attr in DRAWS:
            node.func = _make_call("wrap_draw", function, function)
        return node


def _wrap_named(value: ast.expr, name: str) -> ast.expr:
    if isinstance(value, (ast.Constant, ast.Lambda)):
        return value
    return _make_call("name_value", value, value, ast.Constant(name))


def _note_import(node: ast.stmt, name: str) -> ast.stmt:
    noted = _make_call("note_import", node, ast.Name(name, ast.Load()))
    return ast.copy_location(ast.Assign([ast.Name(name, ast.Store())], noted), node)


def _make_call(method: str, at: ast.AST, *args: ast.expr) -> ast.Call:
    """Return the code ``RUNTIME.method(*args)``, on the line of ``at``."""
    runtime = ast.Name(RUNTIME, ast.Load())
    made = ast.Call(ast.Attribute(runtime, method, ast.Load()), list(args), [])
    return _copy_location(made, at)


def _copy_location(call: ast.Call, at: ast.AST) -> ast.Call:
    ast.copy_location(call, at)
    for part in (call.func, *ast.walk(call.func), *call.args):
        if not hasattr(part, "lineno") and isinstance(part, ast.expr):
            ast.copy_location(part, at)
    return call


def find_read(source: str, tree: ast.Module) -> list[str]:
    """Return the global names that a cell's own code reads, in order of appearance.

    Names that only functions of other cells read are not seen here.
    """
    read = set(_iterate_referenced(symtable.symtable(source, "<cell>", "exec")))
    for node in ast.walk(tree):
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            read.add(node.target.id)
    names = [x for x in ast.walk(tree) if isinstance(x, ast.Name) and x.id in read]
    names.sort(key=lambda x: (x.lineno, x.col_offset))
    return list(dict.fromkeys(x.id for x in names))


def _iterate_referenced(table: symtable.SymbolTable) -> Iterator[str]:
    top = table.get_type() == "module"
    for symbol in table.get_symbols():
        if symbol.is_referenced() and (top or symbol.is_global()):
            yield symbol.get_name()
    for child in table.get_children():
        yield from _iterate_referenced(child)


def find_assigned(tree: ast.Module) -> list[str]:
    """Return the names that the cell binds at its top level, in order of appearance."""
    found: list[ast.Name] = []
    stack: list[ast.AST] = [tree]
    names: list[str] = []
    while stack:
        node = stack.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.append(node.name)
            continue
        if isinstance(node, ast.Lambda):
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.append(node)
        stack.extend(ast.iter_child_nodes(node))
    found.sort(key=lambda x: (x.lineno, x.col_offset))
    return list(dict.fromkeys([x.id for x in found] + names))


class Runtime:
    """The object that rewritten code finds under `RUNTIME`."""

    def __init__(self) -> None:
        #: Returns what the cell that runs now has imported, as it is to see it; None:
        #: no cell runs.
        self.take_import: Callable[[Any], Any] | None = None

    def name_value(self, value: Any, name: str) -> Any:
        """Return the value itself, after naming a node without a name."""
        if isinstance(value, Tensor):
            if value.name is None:
                value.name = name
        elif type(value) in PLAIN and value.label is None:
            value.label = name
        return value

    def name_each(self, value: Any, names: tuple[str, ...]) -> Any:
        """Return the value itself, after naming the entries of a fitting tuple."""
        if isinstance(value, tuple) and len(value) == len(names):
            for x, name in zip(value, names, strict=True):
                if name:
                    self.name_value(x, name)
        return value

    def note_import(self, value: Any) -> Any:
        """Return a cell's import; NumPy in the form for arrays that are filled."""
        return value if self.take_import is None else self.take_import(value)

    def wrap_draw(self, function: Any) -> Any:
        """Return a draw method of a NumPy generator in a form that draws nodes."""
        owner = getattr(function, "__self__", None)
        if type(owner) is not np.random.Generator:
            return function
        from workbench.random import Generator

        return getattr(Generator(owner), function.__name__)
