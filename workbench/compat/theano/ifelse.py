"""`theano.ifelse`: of two branches only the one that is run_branch runs."""

from __future__ import annotations

from typing import Any

from workbench.compat.theano.types import as_tensor_variable
from workbench.core import walk
from workbench.core.graph import Graph
from workbench.core.tensor import Tensor
from workbench.symbolic.preparing import is_leaf

__all__ = ["ifelse"]


def ifelse(
    condition: Any, then_branch: Any, else_branch: Any, name: str | None = None
) -> Any:
    """Return ``then_branch`` if the condition is not 0, else ``else_branch``.

    `workbench.cond`: what only the other branch needs is not computed.

    >>> from workbench.compat.theano.ifelse import ifelse
    >>> import workbench.compat.theano.tensor as T
    >>> a, b = T.scalars("a", "b")
    >>> z = ifelse(T.lt(a, b), T.exp(a), T.exp(b))
    >>> float(z.eval({a: 0.0, b: 1.0}))
    1.0
    """
    from workbench.control_flow.cond import cond

    several = isinstance(then_branch, (list, tuple))
    branches = [
        [as_tensor_variable(y) for y in (branch if several else [branch])]
        for branch in (then_branch, else_branch)
    ]
    # The branches exist already: they are run anew, each inside its own.
    leaves = [x for x in walk.order_nodes(branches[0] + branches[1]) if is_leaf(x)]
    graphs = [Graph(leaves, branch) for branch in branches]

    def run_branch(graph: Graph) -> Any:
        return lambda *values: graph.run(values)

    choice: Any = as_tensor_variable(condition)
    made = cond(
        choice != 0,
        run_branch(graphs[0]),
        run_branch(graphs[1]),
        *leaves,
    )
    found: list[Tensor] = [as_tensor_variable(y) for y in made]
    return found if several else found[0]
