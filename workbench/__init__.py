"""Workbench: see, change and check your gradients, live, in JupyterLab.

The names users type. `wb.grad` and friends differentiate NumPy functions;
`%load_ext workbench` gives `%%autodiff` cells with their graph beside them.
"""

from workbench.calculus import grad, jvp, value_and_grad, vjp
from workbench.graph import operators as _operators  # sets Tensor's operators
from workbench.graph.graph import Graph
from workbench.graph.source import scope
from workbench.graph.tensor import Tensor
from workbench.graph.trace import trace
from workbench.graph.types import Spec
from workbench.ops.arithmetic import stop_gradient
from workbench.session import Session
from workbench.transforms.overrides import override, overrides

__version__ = "0.1.0"

__all__ = [
    "Graph",
    "Session",
    "Spec",
    "Tensor",
    "grad",
    "jvp",
    "override",
    "overrides",
    "scope",
    "stop_gradient",
    "trace",
    "value_and_grad",
    "vjp",
]

del _operators
