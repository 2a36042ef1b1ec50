"""`theano.compile`: functions, shared values, ops of functions and of graphs.

The modules that these names stood in (``theano.compile.ops``, ``.io``, ...) are this
one.
"""

from __future__ import annotations

import sys
from typing import Any

from workbench.compat.theano.from_graph import OpFromGraph
from workbench.compat.theano.functions import In, Out, Param, function
from workbench.compat.theano.op import ViewOp, as_op
from workbench.compat.theano.sharing import SharedVariable, shared
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


class Mode:
    """How Theano compiled: taken and kept, and without effect here."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        self.args, self.settings = args, settings

    def including(self, *tags: str) -> Mode:
        """The same."""
        return self

    def excluding(self, *tags: str) -> Mode:
        """The same."""
        return self


class DebugMode(Mode):
    """Taken, and without effect: `workbench.check_grads` checks a program."""


class NanGuardMode(Mode):
    """Taken, and without effect."""


class MonitorMode(Mode):
    """Taken, and without effect."""


FAST_RUN = Mode("FAST_RUN")
FAST_COMPILE = Mode("FAST_COMPILE")


def get_default_mode() -> Mode:
    """The mode of functions that are given none."""
    return FAST_RUN


def get_mode(mode: Any) -> Any:
    """A mode by its name."""
    return mode if isinstance(mode, Mode) else Mode(mode)


builders = debugmode = function_module = io = mode = monitormode = sys.modules[__name__]
nanguardmode = ops = pfunc = sharedvalue = sys.modules[__name__]
