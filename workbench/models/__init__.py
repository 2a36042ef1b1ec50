"""Models of other libraries as functions of NumPy, and back.

An importer is an interpreter: it walks a foreign program and calls, for each step, the
NumPy function that it means. What it gives is a function as any other, of plain arrays
or Tensors, so that derivatives, pictures, checks, overrides and compiled code need
nothing of their own. No foreign library is imported before one of the names is used.
"""

from __future__ import annotations

from importlib import import_module as _import
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from workbench.models.export import to_onnx
    from workbench.models.jax import as_jax_function, from_jax
    from workbench.models.onnx import from_onnx
    from workbench.models.torch import as_torch_function, from_torch

__all__ = [
    "as_jax_function",
    "as_torch_function",
    "from_jax",
    "from_onnx",
    "from_torch",
    "to_onnx",
]

#: Where each name is, whose module loads when it is first used.
_LATER = {
    "as_jax_function": "workbench.models.jax",
    "as_torch_function": "workbench.models.torch",
    "from_jax": "workbench.models.jax",
    "from_onnx": "workbench.models.onnx",
    "from_torch": "workbench.models.torch",
    "to_onnx": "workbench.models.export",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'workbench.models' has no attribute {name!r}")
    value = globals()[name] = getattr(_import(_LATER[name]), name)
    return value
