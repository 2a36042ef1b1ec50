"""`pytensor.graph`: the parts of a graph, and walks over graphs, by PyTensor's names.

The modules that these names stand in (``pytensor.graph.basic``, ``.traversal``, ...)
are this one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from workbench.compat import theano
from workbench.compat.pytensor.namespace import NAMESPACE
from workbench.compat.theano import gof

__all__ = [
    "applys_between",
    "clone_replace",
    "explicit_graph_inputs",
    "graph_inputs",
    "graph_replace",
    "orphans_between",
    "toposort",
    "vars_between",
]

clone_replace = graph_replace = theano.clone
graph_inputs = gof.inputs
applys_between, orphans_between, vars_between = gof.ops, gof.orphans, gof.variables


def explicit_graph_inputs(graph: Any) -> list[Any]:
    """Return the symbols that some variables were computed from.

    >>> import workbench.compat.pytensor.tensor as pt
    >>> from workbench.compat.pytensor.graph import explicit_graph_inputs
    >>> [x.name for x in explicit_graph_inputs(pt.scalar("x") * 2.0)]
    ['x']
    """
    roots = graph if isinstance(graph, (list, tuple)) else [graph]
    plain = (gof.Constant, theano.SharedVariable)
    return [x for x in graph_inputs(roots) if not isinstance(x, plain)]


def toposort(graphs: Iterable[Any]) -> list[Any]:
    """Return the nodes that some variables were computed by, in topological order."""
    return gof.io_toposort([], graphs)


__getattr__ = NAMESPACE.fall_back("graph", gof)
__dir__ = NAMESPACE.list_names("graph", __all__, gof)
