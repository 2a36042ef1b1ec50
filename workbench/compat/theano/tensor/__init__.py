"""`theano.tensor`: its names over NumPy and Workbench.

Types and symbols, elementwise functions, reductions, shapes, indexing, linear
algebra, random streams, and the derivatives of expressions. `TABLE` holds them all;
each is a line or three in the module that its subject names.

A comparison ``x == y`` of variables is elementwise here, as NumPy's is, where Theano
asked whether they are the same; `eq` is elementwise in both. ``x.dtype`` is NumPy's
dtype, which equals its name (``x.dtype == "float64"``).
"""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import numpy as np

from workbench.compat.theano import types
from workbench.compat.theano.functions import SharedVariable as TensorSharedVariable
from workbench.compat.theano.functions import shared
from workbench.compat.theano.gradient import (
    Lop,
    Rop,
    grad,
    hessian,
    jacobian,
    verify_grad,
)
from workbench.compat.theano.namespace import NAMESPACE
from workbench.compat.theano.op import NotScalarConstantError, as_op, scalar_value
from workbench.compat.theano.tensor import (
    elementwise,
    extra_ops,
    nlinalg,
    nnet,
    op_classes,
    reductions,
    shapes,
    shared_randomstreams,
    signal,
    slinalg,
    subtensor,
)
from workbench.compat.theano.tensor.lifting import Table
from workbench.compat.theano.tensor.shapes import Assert
from workbench.compat.theano.types import (
    TensorConstant,
    TensorType,
    as_tensor_variable,
    constant,
)
from workbench.core.tensor import Tensor as TensorVariable

#: Everything in `theano.tensor` that is a function, by name.
TABLE: Table = {
    **types.SYMBOLS,
    **types.TYPES,
    **elementwise.TABLE,
    **reductions.TABLE,
    **shapes.TABLE,
    **shapes.MAKERS,
    **subtensor.TABLE,
    **op_classes.CLASSES,
    **{name: getattr(extra_ops, name) for name in extra_ops.__all__},
    **{
        name: getattr(nlinalg, name)
        for name in ("alloc_diag", "extract_diag", "matrix_dot", "matrix_inverse")
    },
    "get_scalar_constant_value": scalar_value,
}

discrete_dtypes = ["bool", *types.INTEGERS, *types.UNSIGNED]
int_dtypes = list(types.INTEGERS)
uint_dtypes = list(types.UNSIGNED)
integer_dtypes = [*types.INTEGERS, *types.UNSIGNED]
float_dtypes = list(types.FLOATS)
complex_dtypes = list(types.COMPLEX)
continuous_dtypes = [*types.FLOATS, *types.COMPLEX]
all_dtypes = list(types.ALL_DTYPES)

mgrid, ogrid = np.mgrid, np.ogrid
as_tensor = as_tensor_variable
inf, nan, pi, e = np.inf, np.nan, np.pi, np.e
Tensor = TensorType

globals().update(TABLE)

# `theano.tensor.var` is the variance, and the module of what variables are.
_variance: Any = TABLE["var"]
_variance.TensorVariable, _variance.TensorConstant = TensorVariable, TensorConstant

# The modules that these names stood in.
basic = elemwise = opt = sharedvar = type = sys.modules[__name__]
random = raw_random = shared_randomstreams

__all__ = [
    "Assert",
    "Lop",
    "NotScalarConstantError",
    "Rop",
    "TensorConstant",
    "TensorSharedVariable",
    "TensorType",
    "TensorVariable",
    "all_dtypes",
    "as_op",
    "as_tensor",
    "as_tensor_variable",
    "complex_dtypes",
    "constant",
    "continuous_dtypes",
    "discrete_dtypes",
    "e",
    "extra_ops",
    "float_dtypes",
    "grad",
    "hessian",
    "inf",
    "int_dtypes",
    "integer_dtypes",
    "jacobian",
    "mgrid",
    "nan",
    "nlinalg",
    "nnet",
    "ogrid",
    "pi",
    "shared",
    "shared_randomstreams",
    "signal",
    "slinalg",
    "subtensor",
    "uint_dtypes",
    "verify_grad",
]
__all__ += sorted(TABLE)

# Theano has the classes of ops in the modules of their functions.
vars(extra_ops)["__getattr__"] = NAMESPACE.fall_back(
    "tensor.extra_ops", SimpleNamespace(**op_classes.CLASSES)
)

__getattr__ = NAMESPACE.fall_back(
    "tensor",
    cure=lambda name: (
        "NumPy's functions take variables as they are:"
        f" np.{name if hasattr(np, name) else 'sin'}(x)."
    ),
)
