"""A rule tried on shapes alone, as a form does while it is typed."""

from __future__ import annotations

from typing import Any

from workbench.core import types
from workbench.core.tensor import Tensor, leaf
from workbench.core.traces import OpenTrace
from workbench.core.types import Spec
from workbench.errors import TraceError
from workbench.ops import several
from workbench.overrides.expression import Expression
from workbench.overrides.rule_parser import Bound
from workbench.overrides.rules import Pull, has_derivative

__all__ = ["check_on"]


def check_on(rule: Expression | Bound, node: Tensor, label: str) -> None:
    """Run a rule on Tensors like those of a node, which have no values.

    A function by its name that asks for values is left to the run.

    Raises
    ------
    OverrideError
        If the rule reads what the node has not, or gives the wrong shape.
    """
    with OpenTrace():
        inputs = tuple(abstract(x) if isinstance(x, Tensor) else x for x in node.inputs)
        y = abstract(node)
        mask = sum(1 << i for i, x in enumerate(node.inputs) if isinstance(x, Tensor))
        g = abstract(node)
        if isinstance(g, tuple):
            g = several.Parts(c if has_derivative(c) else None for c in g)
        if isinstance(rule, Bound):
            rule.check(node)
        try:
            Pull(node, rule, label)(mask, g, y, inputs, node.params)
        except TraceError:
            if isinstance(rule, Expression):
                raise


def abstract(node: Tensor) -> Any:
    """A Tensor like a node without its value; a tuple of them for several outputs."""
    made = []
    outputs = several.parts(node)
    for x in (node,) if outputs is None else outputs:
        spec = types.spec_of(x)
        made.append(leaf(None))
        made[-1].spec = Spec(spec.shape, spec.dtype)
    return made[0] if outputs is None else tuple(made)
