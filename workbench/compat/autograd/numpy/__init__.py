"""`autograd.numpy`: NumPy's own functions, which Tensors answer, and a few habits.

What makes arrays (``array``, ``full``, ``zeros``, ...) takes Tensors, and lets them be
stored, as in traced code that imports NumPy itself. What joins arrays takes generators
too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

import numpy as np
from numpy import fft, linalg, random

from workbench.compat.autograd import extend
from workbench.compat.autograd.boxes import ArrayBox, Box, getval
from workbench.compat.autograd.namespace import NAMESPACE
from workbench.numpy.namespaces import BY_ID

# All names of NumPy's, at once: a program looks them up in each step.
globals().update(
    {name: BY_ID.get(id(x), x) for name, x in vars(np).items() if name[:2] != "__"}
)

__version__ = np.__version__
__all__ = ["ArrayBox", "Box", "fft", "linalg", "make_diagonal", "random"]
__all__ += [name for name in np.__all__ if name not in __all__]


def _take_iterables(name: str) -> Callable[..., Any]:
    """Return a function that joins arrays, which takes a generator of them too."""
    function: Any = globals()[name]

    @wraps(function)
    def join(arrays: Iterable[Any], *args: Any, **kwargs: Any) -> Any:
        if not isinstance(arrays, (list, tuple, np.ndarray)):
            arrays = list(arrays)
        return function(arrays, *args, **kwargs)

    return join


globals().update(
    {
        name: _take_iterables(name)
        for name in "column_stack concatenate dstack hstack stack vstack".split()
    }
)
row_stack = globals()["vstack"]


def where(condition: Any, x: Any = None, y: Any = None) -> Any:
    """Choose as `numpy.where` does, by names of arguments too; of True or False, as is.

    >>> import workbench.compat.autograd.numpy as np
    >>> np.where([True, False], x=1.0, y=2.0)
    array([1., 2.])
    """
    if x is None and y is None:
        return np.where(condition)
    if condition is True or condition is False:
        return x if condition else y
    return np.where(condition, x, y)


def make_diagonal(D: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    """Return matrices with the last axis of an array on their diagonals."""
    if (offset, axis1, axis2) != (0, -1, -2):
        raise NotImplementedError(
            "make_diagonal takes offset=0, axis1=-1, axis2=-2 alone; np.diag makes one"
            " matrix of a vector, on any diagonal."
        )
    return D[..., None] * np.eye(D.shape[-1])


def metadata(A: Any) -> tuple[Any, ...]:
    """Return the shape, the number of axes, the dtype, and whether it is complex."""
    return np.shape(A), np.ndim(A), np.result_type(getval(A)), np.iscomplexobj(A)


def unbroadcast(x: Any, target_meta: tuple[Any, ...], broadcast_idx: int = 0) -> Any:
    """Sum a cotangent over the axes along which its argument was broadcast."""
    shape, ndim, _, is_complex = target_meta
    while np.ndim(x) > ndim:
        x = np.sum(x, axis=broadcast_idx)
    axes = tuple(i for i, n in enumerate(shape) if n == 1 and np.shape(x)[i] != 1)
    x = np.sum(x, axis=axes, keepdims=True) if axes else x
    return np.real(x) if np.iscomplexobj(x) and not is_complex else x


def unbroadcast_f(target: Any, f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a map of cotangents with its results summed to a target's shape."""
    meta = metadata(target)
    return lambda g: unbroadcast(f(g), meta)


def wrap_namespace(old: dict[str, Any], new: dict[str, Any]) -> None:
    """Put the functions of a module into another: there is nothing to wrap here."""
    new.update({name: x for name, x in old.items() if name[:1] != "_"})


__getattr__ = NAMESPACE.fall_back("numpy", np, extend)
