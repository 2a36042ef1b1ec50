"""A standard array namespace: ``import workbench.numpy as wnp``.

The functions of the Python array API standard, version 2024.12, with its
extensions ``linalg`` and ``fft``, for Tensors and plain arrays alike; besides,
every other name of NumPy. Code written for the standard finds it by itself::

    xp = x.__array_namespace__()      # of a Tensor: this module

so SciPy's and scikit-learn's array-API paths run on Tensors and differentiate
(set ``SCIPY_ARRAY_API=1`` before SciPy is imported; scikit-learn also wants
``sklearn.config_context(array_api_dispatch=True)``).

Most names are NumPy's own functions, which Tensors answer. Those stand here in
which the standard asks for more than NumPy does:

- ``asarray``, ``array``, ``full`` and ``full_like`` take Tensors, and nests of
  them, and keep their gradient;
- what makes arrays (``zeros``, ``arange``, ``asarray`` of plain data, ...) takes
  ``device=x.device`` and makes an array of that library. While a trace is open it
  makes a Tensor without a gradient: all arrays of a traced program then name the
  same namespace, which SciPy insists on. Outside it makes plain arrays;
- ``clip`` takes its bounds by position and by name;
  ``sort`` and ``argsort`` take ``descending``; ``count_nonzero`` makes an array
  in every case; ``unique_*`` keep the gradient of the values; ``finfo`` and
  ``iinfo`` take arrays and have Python numbers; ``fft.fftfreq`` takes a dtype.

Arrays of a traced program are written to as NumPy's are (``x[i] = v``, ``x += y``,
``out=``, ``np.copyto``, ...): all names and views of the memory show the change, and
the gradient goes through it. So the code of SciPy and scikit-learn, which fills the
arrays that it has made, runs as it is. Data that meet a Tensor in such a function are
to be of its namespace: ``scipy.signal.oaconvolve(x, wnp.asarray(data))``. Many of these
functions look at values (scikit-learn's at whether all are finite, unless
``assume_finite=True``), so they need a trace with values (`workbench.grad`, not
`workbench.vmap`); a function that ends in Python's ``float`` is an error, since the
gradient would be lost: ask scikit-learn's metrics for ``multioutput="raw_values"``.

Examples
--------
>>> import numpy as np, workbench as wb, workbench.numpy as wnp
>>> def f(x):
...     xp = x.__array_namespace__()
...     return xp.sum(xp.asarray([1.0, 2.0]) * xp.sin(x))
>>> f(np.zeros(2)), wb.grad(f)(np.zeros(2))
(np.float64(0.0), array([1., 2.]))
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy import (
    abs,
    acos,
    acosh,
    add,
    all,
    any,
    argmax,
    argmin,
    asin,
    asinh,
    atan,
    atan2,
    atanh,
    bitwise_and,
    bitwise_invert,
    bitwise_left_shift,
    bitwise_or,
    bitwise_right_shift,
    bitwise_xor,
    bool,
    broadcast_arrays,
    broadcast_to,
    ceil,
    complex64,
    complex128,
    concat,
    conj,
    copysign,
    cos,
    cosh,
    cumulative_prod,
    cumulative_sum,
    diff,
    divide,
    e,
    equal,
    exp,
    expand_dims,
    expm1,
    flip,
    float32,
    float64,
    floor,
    floor_divide,
    greater,
    greater_equal,
    hypot,
    imag,
    inf,
    int8,
    int16,
    int32,
    int64,
    isdtype,
    isfinite,
    isinf,
    isnan,
    less,
    less_equal,
    log,
    log1p,
    log2,
    log10,
    logaddexp,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    matmul,
    matrix_transpose,
    max,
    maximum,
    mean,
    meshgrid,
    min,
    minimum,
    moveaxis,
    multiply,
    nan,
    negative,
    newaxis,
    nextafter,
    not_equal,
    permute_dims,
    pi,
    positive,
    pow,
    prod,
    real,
    reciprocal,
    remainder,
    repeat,
    reshape,
    result_type,
    roll,
    round,
    searchsorted,
    sign,
    signbit,
    sin,
    sinh,
    sqrt,
    square,
    squeeze,
    stack,
    std,
    subtract,
    sum,
    take,
    take_along_axis,
    tan,
    tanh,
    tensordot,
    tile,
    tril,
    triu,
    trunc,
    uint8,
    uint16,
    uint32,
    uint64,
    unstack,
    var,
    vecdot,
    where,
)

from workbench.numpy import fft, linalg
from workbench.numpy.creation import (
    JOINED,
    arange,
    array,
    asanyarray,
    asarray,
    ascontiguousarray,
    empty,
    empty_like,
    eye,
    from_dlpack,
    full,
    full_like,
    join_maker,
    linspace,
    ones,
    ones_like,
    zeros,
    zeros_like,
)
from workbench.numpy.dtypes import VERSION as __array_api_version__
from workbench.numpy.dtypes import Info as __array_namespace_info__
from workbench.numpy.dtypes import (
    astype,
    can_cast,
    finfo,
    iinfo,
)
from workbench.numpy.functions import (
    argsort,
    clip,
    count_nonzero,
    nonzero,
    sort,
    unique_all,
    unique_counts,
    unique_inverse,
    unique_values,
)

__all__ = [
    "__array_api_version__",
    "__array_namespace_info__",
    "abs",
    "acos",
    "acosh",
    "add",
    "all",
    "any",
    "arange",
    "argmax",
    "argmin",
    "argsort",
    "array",
    "asanyarray",
    "asarray",
    "ascontiguousarray",
    "asin",
    "asinh",
    "astype",
    "atan",
    "atan2",
    "atanh",
    "bitwise_and",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "bool",
    "broadcast_arrays",
    "broadcast_to",
    "can_cast",
    "ceil",
    "clip",
    "complex64",
    "complex128",
    "concat",
    "conj",
    "copysign",
    "cos",
    "cosh",
    "count_nonzero",
    "cumulative_prod",
    "cumulative_sum",
    "diff",
    "divide",
    "e",
    "empty",
    "empty_like",
    "equal",
    "exp",
    "expand_dims",
    "expm1",
    "eye",
    "fft",
    "finfo",
    "flip",
    "float32",
    "float64",
    "floor",
    "floor_divide",
    "from_dlpack",
    "full",
    "full_like",
    "greater",
    "greater_equal",
    "hypot",
    "iinfo",
    "imag",
    "inf",
    "int8",
    "int16",
    "int32",
    "int64",
    "isdtype",
    "isfinite",
    "isinf",
    "isnan",
    "less",
    "less_equal",
    "linalg",
    "linspace",
    "log",
    "log1p",
    "log2",
    "log10",
    "logaddexp",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "matmul",
    "matrix_transpose",
    "max",
    "maximum",
    "mean",
    "meshgrid",
    "min",
    "minimum",
    "moveaxis",
    "multiply",
    "nan",
    "negative",
    "newaxis",
    "nextafter",
    "nonzero",
    "not_equal",
    "ones",
    "ones_like",
    "permute_dims",
    "pi",
    "positive",
    "pow",
    "prod",
    "real",
    "reciprocal",
    "remainder",
    "repeat",
    "reshape",
    "result_type",
    "roll",
    "round",
    "searchsorted",
    "sign",
    "signbit",
    "sin",
    "sinh",
    "sort",
    "sqrt",
    "square",
    "squeeze",
    "stack",
    "std",
    "subtract",
    "sum",
    "take",
    "take_along_axis",
    "tan",
    "tanh",
    "tensordot",
    "tile",
    "tril",
    "triu",
    "trunc",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "unique_all",
    "unique_counts",
    "unique_inverse",
    "unique_values",
    "unstack",
    "var",
    "vecdot",
    "where",
    "zeros",
    "zeros_like",
]


def __getattr__(name: str) -> Any:
    if name == "special":  # where SciPy looks for its own special functions
        from workbench.scipy import special

        return special
    if name in JOINED:
        return join_maker(name)
    try:
        return getattr(np, name)
    except AttributeError:
        message = f"neither workbench.numpy nor numpy has {name!r}"
        raise AttributeError(message) from None


def __dir__() -> list[str]:
    return sorted({*globals(), *dir(np)})
