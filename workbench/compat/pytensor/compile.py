"""`pytensor.compile`: Theano's names of functions and modes, and those that came since.

The modules that these names stand in (``pytensor.compile.ops``, ``.mode``, ...) are
this one.
"""

from __future__ import annotations

from workbench.compat.pytensor.namespace import NAMESPACE
from workbench.compat.theano import compile as theano

__all__ = ["wrap_py"]

wrap_py = theano.as_op

__getattr__ = NAMESPACE.fall_back("compile", theano)
__dir__ = NAMESPACE.list_names("compile", __all__, theano)
