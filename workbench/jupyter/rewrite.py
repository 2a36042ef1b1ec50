"""The rewriting of a cell's code for the trace, as little as possible.

Every line stays where it is. Five things change, each into a call of the object
under `RUNTIME`, a `Runtime`:

- ``out[i] = v``, in any target: ``RUNTIME.make_place(out, "out")[i] = v``, whose item
  assignment is a functional update where a Tensor takes part;
- ``h += v``: ``h = RUNTIME.augment("iadd", h, v, "h")``;
- ``np.array(...)`` and its kin: ``RUNTIME.wrap_maker(np.array)(...)``;
- ``rng.normal(...)`` and its kin: ``RUNTIME.wrap_draw(rng.normal)(...)``;
- ``h = value``: ``h = RUNTIME.name_value(value, "h")``, so that the node is called h;
  ``U, S = value``: ``U, S = RUNTIME.name_each(value, ("U", "S"))``.

On plain arrays each of them does what Python would have done.
"""

from __future__ import annotations

import ast
import operator
import symtable
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from workbench.core.tensor import Tensor, value_of
from workbench.jupyter.memory import (
    Memory,
    is_array,
    is_buffer,
    make_older_error,
    may_overlap,
)
from workbench.ops.updates import at

#: The name under which the rewritten code finds the `Runtime`, among the builtins.
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
    """Return the same cell with its stores, makers and assignments as calls."""
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

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        target = node.target
        if isinstance(target, ast.Name):
            method = ast.Constant(_METHODS[type(node.op)])
            old = ast.copy_location(ast.Name(target.id, ast.Load()), target)
            value = self.visit(node.value)
            made = _make_call(
                "augment", node, method, old, value, ast.Constant(target.id)
            )
            return ast.copy_location(ast.Assign([target], made), node)
        if isinstance(target, ast.Attribute):
            text = ast.Constant(ast.unparse(target))
            self.generic_visit(node)
            target.value = _make_call("wrap_owner", target.value, target.value, text)
            return node
        return self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        if isinstance(node.ctx, ast.Store):
            node.value = self._make_place(node.value)
            node.slice = self.visit(node.slice)
            return node
        return self.generic_visit(node)

    def _make_place(self, node: ast.expr) -> ast.expr:
        """Return the code of a `Place` for an expression whose items are assigned."""
        text = ast.Constant(ast.unparse(node))
        if isinstance(node, ast.Subscript):
            place = ast.Subscript(
                self._make_place(node.value), self.visit(node.slice), ast.Load()
            )
            return ast.copy_location(place, node)
        if isinstance(node, ast.Attribute):
            owner = self.visit(node.value)
            return _make_call(
                "place_attribute", node, owner, ast.Constant(node.attr), text
            )
        return _make_call("make_place", node, self.visit(node), text)

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
            node.func = _make_call("wrap_maker", function, function)
        elif name in DRAWS and isinstance(function, ast.Attribute):
            node.func = _make_call("wrap_draw", function, function)
        return node


def _wrap_named(value: ast.expr, name: str) -> ast.expr:
    if isinstance(value, (ast.Constant, ast.Lambda)):
        return value
    return _make_call("name_value", value, value, ast.Constant(name))


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


# The functions for the rewritten code of a cell: stores, makers and names.
#
# On plain arrays they all do what Python does, inside a cell or not. With a Tensor
# ``out[i] = v`` and ``out += v`` are functional updates, and `memory.py` replaces the
# old value everywhere.


class Runtime:
    """The object that rewritten code finds under `RUNTIME`."""

    def __init__(self) -> None:
        #: The memory of the cell that runs now.
        self.memory: Memory | None = None

    # Called by rewritten code

    def make_place(self, value: object, text: str) -> Place:
        """Return the place behind a name, or any other expression."""
        return Place(self, value, text)

    def place_attribute(self, owner: object, name: str, text: str) -> Place:
        """Return the place behind ``owner.name``."""
        return Place(self, getattr(owner, name), text, owner=owner, key=name)

    def wrap_owner(self, owner: object, text: str) -> Owner:
        """Return a wrapper of an object, one of whose attributes ``+=`` changes."""
        return Owner(self, owner, text)

    def name_value(self, value: Any, name: str) -> Any:
        """Return the value itself, after naming it if it is a node without a name."""
        if type(value) is Tensor and value.name is None:
            value.name = name
        return value

    def name_each(self, value: Any, names: tuple[str, ...]) -> Any:
        """Return the value itself, after naming the entries of such a tuple."""
        if isinstance(value, tuple) and len(value) == len(names):
            for x, name in zip(value, names, strict=True):
                if name:
                    self.name_value(x, name)
        return value

    def augment(self, method: str, old: Any, operand: Any, text: str) -> Any:
        """Return the result of ``old += operand`` or another such operator."""
        change = getattr(operator, method)
        plain = not isinstance(old, Tensor) and not isinstance(operand, Tensor)
        memory = self.memory
        if memory is None or not is_array(old) or (plain and _is_writeable(old)):
            return self.name_value(change(old, operand), text)
        place = Place(self, old, text)
        del old
        memory.check(place.value, text)
        held = [] if isinstance(place.value, Tensor) else memory.find_holders(place)
        if plain:
            new = change(np.copy(place.value), operand)
        else:
            new = _augment_in_dtype(method, place.value, operand)
        memory.replace(place, new, None, held)
        return new

    def wrap_maker(self, function: Any) -> Any:
        """Return a version of ``np.array`` or its like that keeps Tensors."""
        known = getattr(function, "__name__", "")
        numpys: Callable[..., Any] = function
        if known not in MAKERS or function is not vars(np)[known]:
            return function

        def make(*args: Any, **kwargs: Any) -> Any:
            if not _holds_tensor(args) and not _holds_tensor(list(kwargs.values())):
                return numpys(*args, **kwargs)
            return _MAKERS[known](*args, **kwargs)

        return make

    def wrap_draw(self, function: Any) -> Any:
        """Return a draw method of a NumPy generator whose draws are nodes."""
        owner = getattr(function, "__self__", None)
        if type(owner) is not np.random.Generator:
            return function
        from workbench.random import Generator

        return getattr(Generator(owner), function.__name__)


class Place:
    """The target of ``...[key] = value``.

    ``value`` is the array or container; ``owner`` and ``key`` say where it is: an
    attribute of an object, or an item of another place.
    """

    __slots__ = ("key", "owner", "runtime", "text", "value")

    def __init__(
        self,
        runtime: Runtime,
        value: Any,
        text: str,
        owner: Any = None,
        key: Any = None,
    ) -> None:
        self.runtime = runtime
        self.value = value
        self.text = text
        self.owner = owner
        self.key = key

    def __getitem__(self, key: Any) -> Place:
        return Place(self.runtime, self.value[key], f"{self.text}[...]", self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        tensors = isinstance(self.value, Tensor) or _holds_tensor((value, key))
        memory = self.runtime.memory
        if (
            memory is None
            or not is_array(self.value)
            or (not tensors and _is_writeable(self.value))
        ):
            self.value[key] = value
            return
        owner, held = self.owner, []
        nested = isinstance(owner, Place) and is_array(owner.value)
        if not nested:
            if not isinstance(self.value, Tensor) and _is_foreign(owner):
                raise make_older_error(self.text)
            memory.check(self.value, self.text)
            if not isinstance(self.value, Tensor):
                held = memory.find_holders(self)
        if tensors:
            new = at(self.value)[key].set(value)
        else:
            new = np.copy(self.value)
            new[key] = value
        if not nested:
            memory.replace(self, new, key, held)
            if isinstance(owner, Place):
                owner.value[self.key] = new
            elif owner is not None:
                setattr(owner, self.key, new)
        elif may_overlap(value_of(self.value), value_of(owner.value)):
            # `out[0][1] = v`: the inner array is a view that nothing else holds. (With
            # an index that copies, NumPy too changes only the copy.)
            owner[self.key] = new

    def _augment(self, method: str, operand: Any) -> Any:
        owner = self.owner
        nested = isinstance(owner, Place) and is_array(owner.value)
        tensors = isinstance(self.value, Tensor) or isinstance(operand, Tensor)
        if not nested:
            return self.runtime.augment(method, self.value, operand, self.text)
        if tensors and is_array(self.value):
            return _augment_in_dtype(method, self.value, operand)
        if is_array(self.value) and not _is_writeable(self.value):
            return getattr(operator, method)(np.copy(self.value), operand)
        return getattr(operator, method)(self.value, operand)


def _make_augment(method: str) -> Callable[[Place, Any], Any]:
    def augmented(self: Place, operand: Any) -> Any:
        return self._augment(method, operand)

    return augmented


_OPERATORS = "add and floordiv lshift matmul mod mul or pow rshift sub truediv xor"
for _name in _OPERATORS.split():
    setattr(Place, f"__i{_name}__", _make_augment(f"i{_name}"))


class Owner:
    """An object with an attribute that ``+=`` changes."""

    __slots__ = ("_object", "_runtime", "_text")

    _object: Any
    _runtime: Runtime
    _text: str

    def __init__(self, runtime: Runtime, owner: object, text: str) -> None:
        object.__setattr__(self, "_runtime", runtime)
        object.__setattr__(self, "_object", owner)
        object.__setattr__(self, "_text", text)

    def __getattr__(self, name: str) -> Place:
        return Place(self._runtime, getattr(self._object, name), self._text)

    def __setattr__(self, name: str, value: object) -> None:
        setattr(self._object, name, value)


def _is_foreign(owner: object) -> bool:
    """Return whether other code may share an array that is this object's attribute."""
    return (
        owner is not None
        and not isinstance(owner, (Place, SimpleNamespace))
        and getattr(owner, "__module__", None) != "__main__"
    )


def _is_writeable(array: object) -> bool:
    """Return whether no trace has made an array read-only, nor one that it views.

    False for arrays of another library, where it is unknown.
    """
    while type(array) is np.ndarray:
        if not array.flags.writeable:
            return False
        if array.base is None:
            return True
        array = array.base
    return isinstance(array, np.ndarray) or not is_buffer(array)


def _augment_in_dtype(method: str, old: Any, operand: Any) -> Any:
    """Return the result of an in-place operator: in the shape and dtype of ``old``."""
    name = method[1:]
    binary = getattr(operator, f"{name}_" if name in ("and", "or") else name)
    new = binary(old, operand)
    have = value_of(old)
    if new.shape != have.shape or new.dtype != have.dtype:
        # NumPy's own refusal, where it refuses; else its rounding.
        getattr(operator, method)(np.copy(have), value_of(operand))
        new = new.astype(have.dtype)
    return new


def _holds_tensor(values: Sequence[object]) -> bool:
    """Return whether a Tensor is among the values, or in lists and tuples there."""
    stack: list[Any] = list(values)
    while stack:
        x = stack.pop()
        if isinstance(x, Tensor):
            return True
        if type(x) in (list, tuple):
            stack.extend(x)
    return False


def _make_array(
    values: Any,
    dtype: Any = None,
    *,
    copy: bool | None = True,
    ndmin: int = 0,
    **settings: Any,
) -> Any:
    made = np.copy(values) if isinstance(values, Tensor) and copy else _stack(values)
    if dtype is not None and made.dtype != np.dtype(dtype):
        made = made.astype(dtype)
    return made.reshape((1,) * (ndmin - made.ndim) + made.shape) if ndmin else made


def _make_asarray(
    values: Any, dtype: Any = None, order: Any = None, **settings: Any
) -> Any:
    return _make_array(values, dtype, copy=settings.get("copy"))


def _stack(values: Any) -> Any:
    """Return nested lists with Tensors inside as one Tensor."""
    if not isinstance(values, (list, tuple)):
        return values
    if not _holds_tensor(values):
        return np.array(values)
    return np.stack([_stack(x) for x in values])


def _make_full(shape: Any, fill_value: Any, dtype: Any = None, **settings: Any) -> Any:
    made = np.copy(np.broadcast_to(fill_value, shape))
    return made if dtype is None else made.astype(dtype)


_MAKERS: dict[str, Callable[..., Any]] = dict.fromkeys(MAKERS, _make_asarray) | {
    "array": _make_array,
    "full": _make_full,
    "full_like": cast(Any, np.full_like),
}
