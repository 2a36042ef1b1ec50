"""`theano.compile`: functions, shared values, ops of functions and of graphs.

The modules that these names stood in (``theano.compile.ops``, ``.io``, ...) are this
one.
"""

from __future__ import annotations

import sys

from workbench.compat.theano.config import (
    FAST_COMPILE,
    FAST_RUN,
    DebugMode,
    Mode,
    MonitorMode,
    NanGuardMode,
    get_default_mode,
    get_mode,
)
from workbench.compat.theano.functions import (
    In,
    Out,
    Param,
    SharedVariable,
    function,
    shared,
)
from workbench.compat.theano.op import OpFromGraph, ViewOp, as_op
from workbench.errors import UnusedInputError
from workbench.symbolic.function import Function

__all__ = [
    "FAST_COMPILE",
    "FAST_RUN",
    "DebugMode",
    "Function",
    "In",
    "Mode",
    "MonitorMode",
    "NanGuardMode",
    "OpFromGraph",
    "Out",
    "Param",
    "SharedVariable",
    "SymbolicInput",
    "SymbolicOutput",
    "UnusedInputError",
    "ViewOp",
    "as_op",
    "function",
    "get_default_mode",
    "get_mode",
    "shared",
]

SymbolicInput = In
SymbolicOutput = Out


builders = debugmode = function_module = io = mode = monitormode = sys.modules[__name__]
nanguardmode = ops = pfunc = sharedvalue = sys.modules[__name__]
