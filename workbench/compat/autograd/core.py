"""`autograd.core`: both modes for functions of one argument, and the other names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from workbench.compat.autograd import differential_operators as operators
from workbench.compat.autograd.extend import (
    JVPNode,
    Node,
    SparseObject,
    VJPNode,
    def_linear,
    defjvp,
    defjvp_argnum,
    defjvp_argnums,
    defvjp,
    defvjp_argnum,
    defvjp_argnums,
    primitive,
    primitive_jvps,
    primitive_vjps,
)
from workbench.compat.autograd.tracer import Box, getval, isbox, new_box, toposort
from workbench.compat.autograd.vector_spaces import VSpace, vspace
from workbench.compat.autograd.wrap_util import take_argument

__all__ = [
    "Box",
    "JVPNode",
    "Node",
    "SparseObject",
    "VJPNode",
    "VSpace",
    "backward_pass",
    "def_linear",
    "defjvp",
    "defjvp_argnum",
    "defjvp_argnums",
    "defvjp",
    "defvjp_argnum",
    "defvjp_argnums",
    "getval",
    "isbox",
    "make_jvp",
    "make_vjp",
    "new_box",
    "primitive",
    "primitive_jvps",
    "primitive_vjps",
    "primitive_with_deprecation_warnings",
    "toposort",
    "vspace",
]

primitive_with_deprecation_warnings = primitive


def make_vjp(fun: Callable[..., Any], x: Any) -> tuple[Callable[..., Any], Any]:
    """Return the map from cotangents to gradients, and the value."""
    return operators.make_vjp(fun)(take_argument(x))


def make_jvp(fun: Callable[..., Any], x: Any) -> Callable[..., Any]:
    """Return the map from a tangent to the value and its tangent."""
    return operators.make_jvp(fun)(take_argument(x))


def backward_pass(g: Any, end_node: Any) -> Any:
    """Return the cotangent of the root of nodes that know how to pull one back."""
    arrived: dict[int, Any] = {id(end_node): g}
    last = g
    for node in toposort(end_node):
        last = arrived.pop(id(node))
        for parent, c in zip(node.parents, node.vjp(last), strict=True):
            known = arrived.get(id(parent))
            arrived[id(parent)] = c if known is None else vspace(c).add(known, c)
    return last
