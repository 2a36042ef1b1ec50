"""What a cell says, changed as little as a trace needs.

Every line stays where it is. Five things change, each into a call of the object
that `items.py` puts under `RUNTIME`:

- ``out[i] = v``, in any target: ``RUNTIME.name(out, "out")[i] = v``, whose item
  assignment is a functional update where a Tensor takes part;
- ``h += v``: ``h = RUNTIME.augment("iadd", h, v, "h")``;
- ``np.array(...)`` and its kin: ``RUNTIME.maker(np.array)(...)``;
- ``rng.normal(...)`` and its kin: ``RUNTIME.drawer(rng.normal)(...)``;
- ``h = value``: ``h = RUNTIME.named(value, "h")``, so that the node is called h;
  ``U, S = value``: ``U, S = RUNTIME.each_named(value, ("U", "S"))``.

On plain arrays each of them does what Python would have done.
"""

from __future__ import annotations

import ast
import symtable
from collections.abc import Iterator

__all__ = ["DRAWS", "MAKERS", "RUNTIME", "assigned", "names_read", "rewrite"]

#: The name under which the rewritten code finds `items.py`, among the builtins.
RUNTIME = "__workbench__"

#: NumPy's makers of arrays that lose Tensors inside lists.
MAKERS = {
    "array",
    "asanyarray",
    "asarray",
    "ascontiguousarray",
    "asfortranarray",
    "full",
    "full_like",
}

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

_METHODS: dict[type[ast.operator], str] = {
    ast.Add: "iadd",
    ast.BitAnd: "iand",
    ast.BitOr: "ior",
    ast.BitXor: "ixor",
    ast.Div: "itruediv",
    ast.FloorDiv: "ifloordiv",
    ast.LShift: "ilshift",
    ast.MatMult: "imatmul",
    ast.Mod: "imod",
    ast.Mult: "imul",
    ast.Pow: "ipow",
    ast.RShift: "irshift",
    ast.Sub: "isub",
}


def rewrite(tree: ast.Module) -> ast.Module:
    """The same cell with its stores, makers and assignments as calls."""
    made: ast.Module = _Rewriter().visit(tree)
    return ast.fix_missing_locations(made)


class _Rewriter(ast.NodeTransformer):
    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        target = node.targets[0]
        self.generic_visit(node)
        if isinstance(target, ast.Name):
            node.value = _named(node.value, target.id)
        elif isinstance(target, (ast.Tuple, ast.List)):
            names = [x.id if isinstance(x, ast.Name) else "" for x in target.elts]
            listed = ast.Tuple([ast.Constant(name) for name in names], ast.Load())
            node.value = _call("each_named", node.value, node.value, listed)
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.target, ast.Name) and node.value is not None:
            node.value = _named(node.value, node.target.id)
        return node

    def visit_NamedExpr(self, node: ast.NamedExpr) -> ast.AST:
        self.generic_visit(node)
        node.value = _named(node.value, node.target.id)
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        target = node.target
        if isinstance(target, ast.Name):
            method = ast.Constant(_METHODS[type(node.op)])
            old = ast.copy_location(ast.Name(target.id, ast.Load()), target)
            value = self.visit(node.value)
            made = _call("augment", node, method, old, value, ast.Constant(target.id))
            return ast.copy_location(ast.Assign([target], made), node)
        if isinstance(target, ast.Attribute):
            text = ast.Constant(ast.unparse(target))
            self.generic_visit(node)
            target.value = _call("owner", target.value, target.value, text)
            return node
        return self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        if isinstance(node.ctx, ast.Store):
            node.value = self._place(node.value)
            node.slice = self.visit(node.slice)
            return node
        return self.generic_visit(node)

    def _place(self, node: ast.expr) -> ast.expr:
        """An expression whose items are assigned to, as a `Place` of `items.py`."""
        text = ast.Constant(ast.unparse(node))
        if isinstance(node, ast.Subscript):
            place = ast.Subscript(
                self._place(node.value), self.visit(node.slice), ast.Load()
            )
            return ast.copy_location(place, node)
        if isinstance(node, ast.Attribute):
            owner = self.visit(node.value)
            return _call("attribute", node, owner, ast.Constant(node.attr), text)
        return _call("name", node, self.visit(node), text)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        function = node.func
        if isinstance(function, ast.Attribute):
            name = function.attr
        elif isinstance(function, ast.Name):
            name = function.id
        else:
            return node
        if name in MAKERS:
            node.func = _call("maker", function, function)
        elif name in DRAWS and isinstance(function, ast.Attribute):
            node.func = _call("drawer", function, function)
        return node


def _named(value: ast.expr, name: str) -> ast.expr:
    if isinstance(value, (ast.Constant, ast.Lambda)):
        return value
    return _call("named", value, value, ast.Constant(name))


def _call(method: str, at: ast.AST, *args: ast.expr) -> ast.Call:
    """``RUNTIME.method(*args)``, on the line of ``at``."""
    runtime = ast.Name(RUNTIME, ast.Load())
    made = ast.Call(ast.Attribute(runtime, method, ast.Load()), list(args), [])
    return _located(made, at)


def _located(made: ast.Call, at: ast.AST) -> ast.Call:
    ast.copy_location(made, at)
    for part in (made.func, *ast.walk(made.func), *made.args):
        if not hasattr(part, "lineno") and isinstance(part, ast.expr):
            ast.copy_location(part, at)
    return made


def names_read(source: str, tree: ast.Module) -> list[str]:
    """The global names that a cell's own code reads, in order of appearance.

    Names that only functions of other cells read are not seen here.
    """
    read = set(_referenced(symtable.symtable(source, "<cell>", "exec")))
    for node in ast.walk(tree):
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            read.add(node.target.id)
    names = [x for x in ast.walk(tree) if isinstance(x, ast.Name) and x.id in read]
    names.sort(key=lambda x: (x.lineno, x.col_offset))
    return list(dict.fromkeys(x.id for x in names))


def _referenced(table: symtable.SymbolTable) -> Iterator[str]:
    top = table.get_type() == "module"
    for symbol in table.get_symbols():
        if symbol.is_referenced() and (top or symbol.is_global()):
            yield symbol.get_name()
    for child in table.get_children():
        yield from _referenced(child)


def assigned(tree: ast.Module) -> list[str]:
    """The names that the cell binds at its top level, in order of appearance."""
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
