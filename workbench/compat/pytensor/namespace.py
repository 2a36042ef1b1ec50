"""PyTensor's modules, and where each is found here."""

from __future__ import annotations

from workbench.compat.namespace import ForeignNamespace
from workbench.compat.theano.variables import begin, end

#: The modules of PyTensor's by the one of ours that holds their names.
PLACES = {
    "compile": """
        compile compile.builders compile.function compile.function.pfunc
        compile.function.types compile.io compile.mode compile.ops compile.sharedvalue
    """,
    "configparser": "configdefaults",
    "gradient": "gradient",
    "graph": """
        graph graph.basic graph.fg graph.null_type graph.op graph.replace
        graph.traversal graph.type graph.utils
    """,
    "ifelse": "ifelse",
    "printing": "printing",
    "linalg": "tensor.linalg tensor.nlinalg tensor.slinalg",
    "random": "tensor.random tensor.random.utils",
    "scalar": "scalar scalar.basic scalar.math",
    "scan_module": "scan scan.basic scan.utils scan.views",
    "sparse": "sparse",
    "tensor": """
        raise_op tensor tensor.basic tensor.blas tensor.einsum tensor.elemwise
        tensor.extra_ops tensor.functional tensor.math tensor.pad tensor.shape
        tensor.sharedvar tensor.sort tensor.subtensor tensor.type tensor.type_other
        tensor.var tensor.variable
    """,
    "tensor.special": "tensor.special",
    "updates": "updates",
}

NAMESPACE = ForeignNamespace(
    "pytensor",
    __name__.rpartition(".")[0],
    aliases={name: ours for ours, names in PLACES.items() for name in names.split()},
    begin=begin,
    end=end,
)
