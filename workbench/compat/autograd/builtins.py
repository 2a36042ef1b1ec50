"""`autograd.builtins`: Python's containers and questions of type, for Tensors too.

Nests of Tensors are plain lists, tuples and dicts here; `type` and `isinstance` answer
of a Tensor what they would of its array.
"""

from __future__ import annotations

import builtins
from typing import Any

from workbench.numpy.namespaces import is_instance, type_of

__all__ = ["dict", "isinstance", "list", "tuple", "type"]

dict: Any = builtins.dict
list: Any = builtins.list
tuple: Any = builtins.tuple
isinstance = is_instance
type = type_of
