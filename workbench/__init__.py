"""Workbench: see, change and check your gradients, live, in JupyterLab.

The names users type. `wb.grad` and friends differentiate NumPy functions;
`%load_ext workbench` gives `%%autodiff` cells with their graph beside them.
"""

from __future__ import annotations

from importlib import import_module as _import
from importlib.util import find_spec as _find_spec
from typing import TYPE_CHECKING, Any

from workbench import ops as _ops  # declares every op
from workbench.autodiff.grad import grad, value_and_grad
from workbench.core import hooks as _hooks
from workbench.core import operators as _operators  # sets Tensor's operators
from workbench.core.graph import Graph
from workbench.core.source import scope
from workbench.core.tensor import Tensor
from workbench.core.trace import trace
from workbench.core.types import Spec
from workbench.ops.elementwise import stop_gradient
from workbench.ops.reductions import logsumexp
from workbench.ops.updates import at

# At once: it has the name of its room, in whose place it stands from here on.
from workbench.overrides.override_blocks import overrides

if TYPE_CHECKING:
    from workbench import models, optimize, patterns, plots, rules
    from workbench.autodiff.checkpoint import checkpoint
    from workbench.autodiff.expressions import write_chain_rule
    from workbench.autodiff.implicit import (
        custom_linear_solve,
        custom_root,
        fixed_point,
    )
    from workbench.autodiff.jacobian import hessian, jacfwd, jacobian, jacrev, jvp, vjp
    from workbench.autodiff.products import elementwise_grad, gnvp, hvp, linearize
    from workbench.autodiff.sparse.colouring import Colouring
    from workbench.autodiff.sparse.evaluation import SparseDerivative
    from workbench.autodiff.sparse.pattern import SparsityPattern
    from workbench.autodiff.sparse.sparsity import sparsity
    from workbench.autodiff.vmap import per_example_grad, vmap
    from workbench.backends.cupy.devices import to_cpu, to_gpu
    from workbench.backends.cupy.listing import plan_kernels
    from workbench.checks.doctor.diagnose import diagnose
    from workbench.checks.gradient_check import check_grads
    from workbench.control_flow.cond import cond
    from workbench.control_flow.scan import scan
    from workbench.control_flow.signature import until
    from workbench.control_flow.while_loop import while_loop
    from workbench.core.shared import Shared
    from workbench.custom.from_graph import OpFromGraph
    from workbench.custom.functions import custom_gradient, custom_jvp, custom_vjp
    from workbench.custom.kernels import KernelOp
    from workbench.custom.op import Op
    from workbench.custom.registry import register_gradient
    from workbench.jupyter import show
    from workbench.numpy.swap import trace_packages
    from workbench.ops.conv import conv, conv_transpose
    from workbench.ops.pooling import max_pool, mean_pool
    from workbench.overrides.graph_rule import graph_rule
    from workbench.overrides.named import named_rule
    from workbench.overrides.override import override
    from workbench.overrides.patterns import pattern
    from workbench.overrides.subgraphs import subgraph
    from workbench.rewrite.check import rewrite_rule
    from workbench.rewrite.driver import simplify
    from workbench.session import Session
    from workbench.symbolic.compiled_function import compile
    from workbench.symbolic.function import Function, function
    from workbench.symbolic.variables import (
        constant,
        matrices,
        matrix,
        scalar,
        scalars,
        shared,
        sparse_matrix,
        tensor,
        vector,
        vectors,
    )

__version__ = "0.1.0"

__all__ = [
    "Colouring",
    "Function",
    "Graph",
    "KernelOp",
    "Op",
    "OpFromGraph",
    "Session",
    "Shared",
    "SparseDerivative",
    "SparsityPattern",
    "Spec",
    "Tensor",
    "at",
    "check_grads",
    "checkpoint",
    "compile",
    "cond",
    "constant",
    "conv",
    "conv_transpose",
    "custom_gradient",
    "custom_jvp",
    "custom_linear_solve",
    "custom_root",
    "custom_vjp",
    "diagnose",
    "elementwise_grad",
    "fixed_point",
    "function",
    "gnvp",
    "grad",
    "graph_rule",
    "hessian",
    "hvp",
    "jacfwd",
    "jacobian",
    "jacrev",
    "jvp",
    "linearize",
    "logsumexp",
    "matrices",
    "matrix",
    "max_pool",
    "mean_pool",
    "models",
    "named_rule",
    "optimize",
    "override",
    "overrides",
    "pattern",
    "patterns",
    "per_example_grad",
    "plan_kernels",
    "plots",
    "register_gradient",
    "rewrite_rule",
    "rules",
    "scalar",
    "scalars",
    "scan",
    "scope",
    "shared",
    "show",
    "simplify",
    "sparse_matrix",
    "sparsity",
    "stop_gradient",
    "subgraph",
    "tensor",
    "to_cpu",
    "to_gpu",
    "trace",
    "trace_packages",
    "until",
    "value_and_grad",
    "vector",
    "vectors",
    "vjp",
    "vmap",
    "while_loop",
    "write_chain_rule",
]

# ``from workbench import *`` and ``help(workbench)`` leave out what needs the extra
# ``jupyter``; by its name it says so.
if not _find_spec("ipywidgets"):
    __all__.remove("show")
if not (_find_spec("plotly") and _find_spec("ipywidgets")):
    __all__.remove("plots")

#: Names whose modules load when they are first used.
_LATER = {
    "Function": "workbench.symbolic",
    "KernelOp": "workbench.custom.kernels",
    "Op": "workbench.custom.op",
    "OpFromGraph": "workbench.custom.from_graph",
    "Session": "workbench.session",
    "Shared": "workbench.symbolic",
    "SparseDerivative": "workbench.autodiff.sparse.evaluation",
    "SparsityPattern": "workbench.autodiff.sparse.pattern",
    "Colouring": "workbench.autodiff.sparse.colouring",
    "check_grads": "workbench.checks.gradient_check",
    "compile": "workbench.symbolic",
    "checkpoint": "workbench.autodiff.checkpoint",
    "cond": "workbench.control_flow.cond",
    "constant": "workbench.symbolic",
    "conv": "workbench.ops.conv",
    "conv_transpose": "workbench.ops.conv",
    "custom_gradient": "workbench.custom.functions",
    "custom_jvp": "workbench.custom.functions",
    "custom_linear_solve": "workbench.autodiff.implicit",
    "custom_root": "workbench.autodiff.implicit",
    "custom_vjp": "workbench.custom.functions",
    "diagnose": "workbench.checks.doctor.diagnose",
    "elementwise_grad": "workbench.autodiff.products",
    "fixed_point": "workbench.autodiff.implicit",
    "function": "workbench.symbolic",
    "gnvp": "workbench.autodiff.products",
    "graph_rule": "workbench.overrides.graph_rule",
    "hessian": "workbench.autodiff.jacobian",
    "hvp": "workbench.autodiff.products",
    "jacfwd": "workbench.autodiff.jacobian",
    "jacobian": "workbench.autodiff.jacobian",
    "jacrev": "workbench.autodiff.jacobian",
    "jvp": "workbench.autodiff.jacobian",
    "linearize": "workbench.autodiff.products",
    "matrices": "workbench.symbolic",
    "matrix": "workbench.symbolic",
    "max_pool": "workbench.ops.pooling",
    "mean_pool": "workbench.ops.pooling",
    "named_rule": "workbench.overrides.named",
    "override": "workbench.overrides.override",
    "pattern": "workbench.overrides.patterns",
    "per_example_grad": "workbench.autodiff.vmap",
    "plan_kernels": "workbench.backends.cupy.listing",
    "register_gradient": "workbench.custom.registry",
    "rewrite_rule": "workbench.rewrite.check",
    "scalar": "workbench.symbolic",
    "scalars": "workbench.symbolic",
    "scan": "workbench.control_flow.scan",
    "shared": "workbench.symbolic",
    "show": "workbench.jupyter",
    "sparse_matrix": "workbench.symbolic",
    "simplify": "workbench.rewrite.driver",
    "sparsity": "workbench.autodiff.sparse.sparsity",
    "subgraph": "workbench.overrides.subgraphs",
    "tensor": "workbench.symbolic",
    "to_cpu": "workbench.backends.cupy.devices",
    "to_gpu": "workbench.backends.cupy.devices",
    "trace_packages": "workbench.numpy.swap",
    "until": "workbench.control_flow.signature",
    "vector": "workbench.symbolic",
    "vectors": "workbench.symbolic",
    "vjp": "workbench.autodiff.jacobian",
    "vmap": "workbench.autodiff.vmap",
    "while_loop": "workbench.control_flow.while_loop",
    "write_chain_rule": "workbench.autodiff.expressions",
}

#: Modules that load when first used. Those with the name of another package are not
#: in `__all__`: ``from workbench import *`` would hide it.
_MODULES = {
    "gradient": "workbench.gradient",
    "models": "workbench.models",
    "numpy": "workbench.numpy",
    "optimize": "workbench.optimize",
    "patterns": "workbench.patterns",
    "plots": "workbench.plots",
    "random": "workbench.random",
    "rules": "workbench.rules",
    "scipy": "workbench.scipy",
}

# What array libraries get when they ask a Tensor for its namespace.
_hooks.namespace.set(lambda name: _import(_MODULES.get(name, name)))

del _hooks, _operators, _ops


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        value: Any = _import(_MODULES[name])
    elif name in _LATER:
        value = getattr(_import(_LATER[name]), name)
    else:
        raise AttributeError(f"module 'workbench' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def load_ipython_extension(shell: object) -> None:
    """Register ``%%autodiff``: IPython calls this for ``%load_ext workbench``."""
    from workbench.jupyter.magic import load

    load(shell)
