"""TensorFlow's modules, and where each is found here."""

from __future__ import annotations

from workbench.compat.namespace import ForeignNamespace

#: The modules of TensorFlow's that this one stands for: they hold its names.
PLACES = """
    compat.v1 framework math nn ops python python.framework python.framework.ops
    python.ops python.ops.array_ops python.ops.custom_gradient
    python.ops.gradients python.ops.gradients_impl python.ops.math_ops
    python.ops.nn_ops python.ops.sparse_ops
""".split()

NAMESPACE = ForeignNamespace(
    "tensorflow",
    __name__.rpartition(".")[0],
    aliases={"compat": "", **dict.fromkeys(PLACES, "")},
)
