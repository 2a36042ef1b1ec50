"""`theano.gof`: the parts of a graph, and walks over graphs.

The modules that these names stood in (``theano.gof.graph``, ``.op``, ``.type``) are
this one.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from workbench.compat.theano.op import Apply, Op, PureOp, owner
from workbench.compat.theano.types import TensorConstant as Constant
from workbench.compat.theano.types import Type, get_test_value
from workbench.core import walk
from workbench.core.tensor import IDENTITY
from workbench.core.tensor import Tensor as Variable
from workbench.errors import MissingInputError
from workbench.gradient import NullType
from workbench.ops.define import ITEM

__all__ = [
    "Apply",
    "Constant",
    "MissingInputError",
    "NullType",
    "Op",
    "PureOp",
    "Type",
    "Variable",
    "ancestors",
    "get_test_value",
    "inputs",
    "io_toposort",
    "list_of_nodes",
    "ops",
    "orphans",
    "variables",
]


def ancestors(variable_list: Iterable[Any], blockers: Any = None) -> list[Any]:
    """Return all variables that some were computed from, and these themselves."""
    roots = list(variable_list)
    blocked = {x.serial for x in blockers or ()}
    if not blocked:
        return [x for x in walk.order_nodes(roots) if not _holds_several(x)]
    found: dict[int, Any] = {}
    stack = list(roots)
    while stack:
        x = stack.pop()
        if x.serial not in found:
            found[x.serial] = x
            if x.serial not in blocked:
                stack += [i for i in x.inputs if isinstance(i, Variable)]
    return [found[n] for n in sorted(found)]


def _holds_several(x: Any) -> bool:
    """Return whether a Tensor holds several outputs at once, which no variable does."""
    return isinstance(getattr(x, "spec", None), tuple) and x.op is not ITEM


def inputs(variable_list: Iterable[Any], blockers: Any = None) -> list[Any]:
    """Return the symbols, constants and shared values that some were computed from."""
    return [
        x for x in ancestors(variable_list, blockers)
        if x.op is IDENTITY and not x.inputs
    ]  # fmt: skip


def variables(i: Iterable[Any], o: Iterable[Any]) -> list[Any]:
    """Return all variables between inputs and outputs, both included."""
    return ancestors(o, list(i))


def io_toposort(inputs: Iterable[Any], outputs: Iterable[Any]) -> list[Any]:
    """Return the nodes between inputs and outputs, in topological order."""
    known = {x.serial for x in inputs}
    found = ancestors(outputs, list(inputs))
    nodes = [owner(x) for x in found if x.serial not in known]
    return list(dict.fromkeys(n for n in nodes if n is not None))


def list_of_nodes(inputs: Iterable[Any], outputs: Iterable[Any]) -> list[Any]:
    """Return the nodes between inputs and outputs, as `io_toposort` does."""
    return io_toposort(list(inputs), outputs)


def ops(i: Iterable[Any], o: Iterable[Any]) -> set[Any]:
    """Return the nodes between inputs and outputs, as a set."""
    return set(io_toposort(list(i), o))


def orphans(i: Iterable[Any], o: Iterable[Any]) -> list[Any]:
    """Return what outputs read besides the inputs: constants and shared values."""
    given = list(i)
    known = {x.serial for x in given}
    found = ancestors(o, given)
    return [x for x in found if x.serial not in known and owner(x) is None]


fg = graph = null_type = op = type = utils = sys.modules[__name__]
