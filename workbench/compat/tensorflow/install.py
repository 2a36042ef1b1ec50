"""`install`: ``import tensorflow`` finds this package, until `uninstall`."""

from __future__ import annotations

from types import ModuleType

from workbench.compat.namespace import ForeignNamespace

__all__ = ["NAMESPACE", "install", "uninstall"]

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


def install() -> ModuleType:
    """Make ``from tensorflow.python.framework import ops`` and the like work.

    Returns
    -------
    The module that ``import tensorflow`` gives from now on, in this process.

    Raises
    ------
    UsageError
        If TensorFlow itself has been imported.

    Examples
    --------
    >>> from workbench.compat import tensorflow
    >>> _ = tensorflow.install()
    >>> from tensorflow.python.ops import array_ops
    >>> array_ops.reshape([[1.0, 2.0]], [-1])
    array([1., 2.])
    >>> tensorflow.uninstall()
    """
    return NAMESPACE.install()


def uninstall() -> None:
    """Undo `install`; names that programs have imported already stay."""
    NAMESPACE.uninstall()
