"""Functions that make arrays, and take what others have made.

They make plain arrays: NumPy's, or those of the library whose ``device`` is
given. While a trace is open they make Tensors without a gradient, so that all
arrays of a traced program have one namespace.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from workbench.core.op import declare
from workbench.core.tensor import Tensor, admit, apply
from workbench.core.types import WEAK_TYPES, is_weak
from workbench.numpy.dtypes import constant, is_host, made_on, same_device

__all__ = [
    "arange",
    "array",
    "asanyarray",
    "asarray",
    "ascontiguousarray",
    "empty",
    "empty_like",
    "eye",
    "from_dlpack",
    "full",
    "full_like",
    "linspace",
    "ones",
    "ones_like",
    "zeros",
    "zeros_like",
]

Shape = int | tuple[int, ...]


def asarray(
    obj: Any,
    /,
    dtype: Any = None,
    order: Any = None,
    *,
    device: Any = None,
    copy: bool | None = None,
) -> Any:
    """`numpy.asarray`, which also takes Tensors and nests of them.

    Parameters
    ----------
    obj
        A Tensor, an array of any library, a number, a buffer, an object with
        ``__dlpack__``, or nested sequences of Tensors and numbers.
    dtype
        That of the result; by default that of ``obj``.
    order
        The layout of a new NumPy array; Tensors have none.
    device
        Where it is to lie; by default where ``obj`` does.
    copy
        True always copies, False never does, None where it must.

    Raises
    ------
    ValueError
        If ``copy=False`` and a copy is needed, or for a Tensor on another device.

    Examples
    --------
    >>> import numpy as np, workbench as wb, workbench.numpy as wnp
    >>> wnp.asarray([1, 2], dtype=wnp.float32)
    array([1., 2.], dtype=float32)
    >>> wb.jacobian(lambda x: wnp.asarray([x[0] * x[1], 3.0]))(np.array([2.0, 5.0]))
    array([[5., 2.],
           [0., 0.]])
    """
    nested = _holds_tensor(obj)
    if nested or (type(obj) is np.ndarray and obj.dtype == object):
        obj = admit(obj)
        if copy is False and isinstance(obj, Tensor):
            raise ValueError(
                "asarray(..., copy=False): a Tensor made of several is new. Leave out"
                " copy."
            )
    if isinstance(obj, Tensor):
        return _from_tensor(obj, dtype, device, False if nested else copy)
    if not isinstance(obj, (np.ndarray, np.generic)):
        if hasattr(obj, "__array_function__") and same_device(obj, device):
            made = _foreign(obj, dtype, copy)
            return constant(made, fresh=made is not obj)
        if hasattr(obj, "__dlpack__") and not hasattr(obj, "__array__"):
            made = from_dlpack(obj, device=device, copy=copy)
            return made if dtype is None else made.astype(dtype)
    if is_host(device):
        made = np.asarray(obj, dtype=dtype, order=order, copy=copy)
        fresh = isinstance(obj, (*WEAK_TYPES, list, tuple)) or bool(copy)
        if not fresh and isinstance(obj, np.ndarray):
            fresh = not np.may_share_memory(made, obj)
        return constant(made, fresh=fresh)
    if copy is False:
        raise ValueError(f"asarray(..., copy=False): moving to {device!r} copies.")
    return constant(made_on(device, lambda xp: xp.asarray(obj, dtype=dtype)))


def _holds_tensor(items: Any) -> bool:
    return isinstance(items, (list, tuple)) and any(
        isinstance(x, Tensor) or _holds_tensor(x) for x in items
    )


def _from_tensor(x: Tensor, dtype: Any, device: Any, copy: bool | None) -> Any:
    x = x.to_device(x.device if device is None else device)
    if dtype is not None and np.dtype(dtype) != x.dtype:
        if copy is False:
            raise ValueError(
                f"asarray(..., copy=False): {x.dtype} to {np.dtype(dtype)} copies."
            )
        return x.astype(dtype)
    if x.spec.weak if x._value is None else is_weak(x._value):
        x = apply(declare("strong"), (x,))
    return np.copy(x) if copy else x


def _foreign(x: Any, dtype: Any, copy: bool | None) -> Any:
    """Return an array of another library in its own place."""
    if dtype is not None and np.dtype(dtype) != x.dtype:
        if copy is False:
            raise ValueError(
                f"asarray(..., copy=False): {x.dtype} to {np.dtype(dtype)} copies."
            )
        return x.astype(dtype)
    return np.copy(x) if copy else x


def array(
    obj: Any, dtype: Any = None, *, copy: bool | None = True, order: Any = None
) -> Any:
    """`numpy.array`, which also takes Tensors and nests of them.

    >>> import workbench as wb, workbench.numpy as wnp
    >>> wb.jacobian(lambda x: wnp.array([x, x * x]))(3.0)
    array([1., 6.])
    """
    if _holds_tensor(obj):
        copy = None
    return asarray(obj, dtype, order, copy=copy)


def asanyarray(obj: Any, dtype: Any = None, order: Any = None) -> Any:
    """`numpy.asanyarray`; a Tensor stays what it is."""
    kept = isinstance(obj, np.ndarray) and type(obj) is not np.ndarray
    return np.asanyarray(obj, dtype, order) if kept else asarray(obj, dtype, order)


def ascontiguousarray(obj: Any, dtype: Any = None) -> Any:
    """`numpy.ascontiguousarray`; a Tensor has no layout and stays what it is."""
    made = asarray(obj, dtype, "C")
    return np.atleast_1d(made) if made.ndim == 0 else made


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Any:
    """Return an array that shares memory with ``x``, through DLPack.

    A Tensor comes back as it is, with its gradient.

    Raises
    ------
    BufferError
        If the data cannot be shared, for instance because they lie elsewhere.

    Examples
    --------
    >>> import numpy as np, workbench.numpy as wnp
    >>> wnp.from_dlpack(np.arange(3))
    array([0, 1, 2])
    """
    if isinstance(x, (Tensor, np.ndarray, np.generic)):
        return asarray(x, device=device, copy=copy)
    if device is None and x.__dlpack_device__()[0] in CUDA:
        import cupy

        return constant(cupy.from_dlpack(x), fresh=False)
    if is_host(device):
        made = np.from_dlpack(x, device=device, copy=copy)
        return constant(made, fresh=bool(copy))
    return constant(made_on(device, lambda xp: xp.from_dlpack(x)), fresh=False)


#: DLPack's numbers for the memory of CUDA devices, and for managed memory.
CUDA = (2, 13)


# Filled arrays


def empty(shape: Shape, dtype: Any = None, *, device: Any = None) -> Any:
    """Return an array of a shape whose entries are not set.

    >>> import workbench.numpy as wnp
    >>> wnp.empty((2, 3)).shape
    (2, 3)
    """
    return constant(made_on(device, lambda xp: xp.empty(shape, dtype=dtype or float)))


def zeros(shape: Shape, dtype: Any = None, *, device: Any = None) -> Any:
    """Return an array of zeros; float64 where no dtype is given.

    >>> import workbench.numpy as wnp
    >>> wnp.zeros(2)
    array([0., 0.])
    """
    return constant(made_on(device, lambda xp: xp.zeros(shape, dtype=dtype or float)))


def ones(shape: Shape, dtype: Any = None, *, device: Any = None) -> Any:
    """Return an array of ones; float64 where no dtype is given.

    >>> import workbench.numpy as wnp
    >>> wnp.ones(2, dtype=wnp.int32)
    array([1, 1], dtype=int32)
    """
    return constant(made_on(device, lambda xp: xp.ones(shape, dtype=dtype or float)))


def full(
    shape: Shape, fill_value: Any, dtype: Any = None, *, device: Any = None
) -> Any:
    """Return an array of one number; one that is a Tensor keeps its gradient.

    >>> import numpy as np, workbench as wb, workbench.numpy as wnp
    >>> float(wb.grad(lambda x: np.sum(wnp.full(4, x)))(1.0))
    4.0
    """
    if isinstance(fill_value, Tensor):
        made = np.broadcast_to(asarray(fill_value, device=device), shape)
        return made if dtype is None else made.astype(dtype)
    return constant(made_on(device, lambda xp: xp.full(shape, fill_value, dtype=dtype)))


def eye(
    n_rows: int,
    n_cols: int | None = None,
    /,
    k: int = 0,
    dtype: Any = None,
    *,
    device: Any = None,
) -> Any:
    """Return a matrix with ones on its ``k``-th diagonal.

    >>> import workbench.numpy as wnp
    >>> wnp.eye(2)
    array([[1., 0.],
           [0., 1.]])
    """
    return constant(
        made_on(device, lambda xp: xp.eye(n_rows, n_cols, k, dtype=dtype or float))
    )


def arange(
    start: Any,
    /,
    stop: Any = None,
    step: Any = 1,
    dtype: Any = None,
    *,
    device: Any = None,
) -> Any:
    """Evenly spaced numbers in ``[start, stop)``, or in ``[0, start)``.

    Raises
    ------
    GradientLostError
        For an end that is a Tensor with a gradient: how many entries there are
        has none. ``start + wnp.arange(n) * step`` keeps that of the entries.

    Examples
    --------
    >>> import workbench.numpy as wnp
    >>> wnp.arange(1, 7, 2)
    array([1, 3, 5])
    """
    ends = (0, start) if stop is None else (start, stop)
    first, last, by = (x.item() if isinstance(x, Tensor) else x for x in (*ends, step))
    return constant(made_on(device, lambda xp: xp.arange(first, last, by, dtype=dtype)))


def linspace(
    start: Any,
    stop: Any,
    /,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Any = None,
    axis: int = 0,
    *,
    device: Any = None,
) -> Any:
    """``num`` evenly spaced numbers from ``start`` to ``stop``, which may be Tensors.

    >>> import numpy as np, workbench as wb, workbench.numpy as wnp
    >>> wnp.linspace(0, 1, 3)
    array([0. , 0.5, 1. ])
    >>> wb.jacobian(lambda x: wnp.linspace(0.0, x, 3))(2.0)
    array([0. , 0.5, 1. ])
    """
    settings: dict[str, Any] = {"endpoint": endpoint, "retstep": retstep, "axis": axis}
    if isinstance(start, Tensor) or isinstance(stop, Tensor):
        return np.linspace(start, stop, num, dtype=dtype, **settings)

    def make(xp: Any) -> Any:
        return xp.linspace(start, stop, num, dtype=dtype, **settings)

    made = made_on(device, make)
    return (constant(made[0]), made[1]) if retstep else constant(made)


# Arrays in the shape of another


def _like(
    name: str, make: Callable[..., Any], fresh: Callable[..., Any]
) -> Callable[..., Any]:
    def made(x: Any, /, dtype: Any = None, *, device: Any = None) -> Any:
        if same_device(x, device):
            return constant(make(x, dtype=dtype), like=x)
        return fresh(x.shape, dtype=x.dtype if dtype is None else dtype, device=device)

    made.__name__ = made.__qualname__ = name
    made.__doc__ = (
        f"`numpy.{name}`: the shape, dtype and device of ``x`` where not given.\n\n"
        "    >>> import numpy as np, workbench.numpy as wnp\n"
        f"    >>> wnp.{name}(np.arange(3)).shape\n"
        "    (3,)\n"
    )
    return made


empty_like = _like("empty_like", np.empty_like, empty)
ones_like = _like("ones_like", np.ones_like, ones)
zeros_like = _like("zeros_like", np.zeros_like, zeros)


def full_like(
    x: Any, /, fill_value: Any, dtype: Any = None, *, device: Any = None
) -> Any:
    """Return an array of one number in the shape of ``x``; a Tensor keeps its gradient.

    >>> import numpy as np, workbench.numpy as wnp
    >>> wnp.full_like(np.zeros(2), 3)
    array([3., 3.])
    """
    if same_device(x, device) and not isinstance(fill_value, Tensor):
        return constant(np.full_like(x, fill_value, dtype=dtype), like=x)
    kind = x.dtype if dtype is None else dtype
    return full(x.shape, fill_value, kind, device=device)
