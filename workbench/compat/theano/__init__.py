"""Theano's names over Workbench: old programs run as they stand.

``from workbench.compat import theano``, or `install`, after which ``import theano``
finds this package. A variable is a `workbench.Tensor`, a function what
`workbench.function` makes, an op a `workbench.Op`; nothing is computed here.

What differs
------------
- ``x == y`` on variables is elementwise; Theano asked whether they are the same (`is`).
  After `install` its truth says that, so ``x in params`` works, ``if W:`` is true and
  ``x.dtype.startswith("float")`` works. Without, write `is`, ``W is not None`` and
  ``str(x.dtype)``: ``x.dtype`` is NumPy's dtype, which equals its name.
- ``x.shape`` is a tuple of lengths, not a vector; a function may return it all the
  same.
- ``x.tag.test_value`` is computed where it is asked for, and never while a program is
  built, whatever ``config.compute_test_value`` says.
- A variable takes no attributes but those of ``x.tag``.
- Results of functions that are single numbers are NumPy's scalars, not arrays without
  axes.
- An axis of length 1 broadcasts, whether declared so or not.
- Gradients at ties and kinks are the library's: ties of ``max`` share, ``abs`` and a
  norm have 0 at 0. That of an integer is refused in functions of ours and 0 here.
- ``T.log`` of a sigmoid or a softmax, and the cross-entropies, are computed of what
  these were computed of, so that they stay finite. By the probabilities themselves
  they have no gradient: write ``np.log(p)`` for that.
- Random numbers are NumPy's. ``x.fill(v)`` is refused, as NumPy's would change ``x``:
  write ``T.fill(x, v)``.

What is not known raises an error that names it: symbols of sparse matrices, ``c_code``
without ``perform``, `theano.tensor.fft`, h_softmax, the ops of GPUs, graph optimizers
and linkers. Modes and most flags are taken without effect.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from workbench.compat.theano import (
    compile,
    gof,
    gradient,
    ifelse,
    methods,
    printing,
    sandbox,
    scalar,
    scan_module,
    sparse,
    tensor,
    types,
    updates,
)
from workbench.compat.theano import config as configparser
from workbench.compat.theano.compile import Mode, NanGuardMode
from workbench.compat.theano.config import change_flags, config
from workbench.compat.theano.functions import (
    In,
    Out,
    Param,
    SharedVariable,
    function,
    shared,
)
from workbench.compat.theano.gof import Constant, Type, Variable
from workbench.compat.theano.gradient import Lop, Rop, grad, subgraph_grad
from workbench.compat.theano.namespace import NAMESPACE
from workbench.compat.theano.op import (
    Apply,
    NotScalarConstantError,
    Op,
    OpFromGraph,
    as_op,
)
from workbench.compat.theano.printing import debugprint as dprint
from workbench.compat.theano.printing import pp, pprint
from workbench.compat.theano.scan_module import foldl, foldr, map, reduce, scan
from workbench.compat.theano.tensor.shapes import dot
from workbench.compat.theano.types import as_tensor_variable
from workbench.compat.theano.updates import OrderedUpdates
from workbench.symbolic.preparing import replace_symbols

__all__ = [
    "Apply",
    "Constant",
    "In",
    "Lop",
    "Mode",
    "NanGuardMode",
    "NotScalarConstantError",
    "Op",
    "OpFromGraph",
    "OrderedUpdates",
    "Out",
    "Param",
    "Rop",
    "SharedVariable",
    "Type",
    "Variable",
    "as_op",
    "as_tensor_variable",
    "change_flags",
    "clone",
    "compile",
    "config",
    "configparser",
    "dot",
    "dprint",
    "foldl",
    "foldr",
    "function",
    "gof",
    "grad",
    "gradient",
    "ifelse",
    "install",
    "map",
    "methods",
    "pp",
    "pprint",
    "printing",
    "reduce",
    "sandbox",
    "scalar",
    "scan",
    "scan_module",
    "shared",
    "sparse",
    "subgraph_grad",
    "tensor",
    "types",
    "uninstall",
    "updates",
]

#: The version of Theano whose names these are.
__version__ = "1.0.5"


def clone(output: Any, replace: Any = None, strict: bool = True, **_: Any) -> Any:
    """Expressions with some of their variables replaced, all at once.

    >>> import workbench.compat.theano as theano, workbench.compat.theano.tensor as T
    >>> x, y = T.dscalars("x", "y")
    >>> float(theano.clone(x**2, replace={x: y + 1}).eval({y: 2.0}))
    9.0
    """
    several = isinstance(output, (list, tuple))
    outputs = output if several else [output]
    made = replace_symbols([as_tensor_variable(y) for y in outputs], replace)
    return made if several else made[0]


def _asarray(a: Any, dtype: npt.DTypeLike | None, order: Any = None) -> Any:
    """Convert to an array; ``"floatX"`` is the configured dtype."""
    return np.asarray(a, dtype=types.dtype_name(dtype), order=order)


install, uninstall = NAMESPACE.install, NAMESPACE.uninstall
__getattr__ = NAMESPACE.fall_back()
