"""Functions that make arrays, or convert existing ones.

They make plain arrays: NumPy's, or those of the library whose ``device`` is
given. While a trace is open they make Tensors without a gradient, so that all
arrays of a traced program have one namespace.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from types import ModuleType
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from workbench.core.op import declare
from workbench.core.tensor import Tensor, admit, apply, value_of
from workbench.core.types import WEAK_TYPES, Array, ArrayLike, is_weak
from workbench.numpy.dtypes import is_host, is_same_device, join_trace, make_on_device

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
#: How entries lie in memory: rows or columns first.
Order = Literal["C", "F"]


def asarray(
    obj: ArrayLike,
    /,
    dtype: npt.DTypeLike | None = None,
    order: Literal["K", "A", "C", "F"] | None = None,
    *,
    device: object = None,
    copy: bool | None = None,
) -> Array:
    """Return an array or Tensor of any array-like object, as `numpy.asarray` does.

    Parameters
    ----------
    obj
        A Tensor, an array of any library, a number, a buffer, an object with
        ``__dlpack__``, or nested sequences of Tensors and numbers.
    dtype
        That of the result; by default that of ``obj``.
    order
        The layout of the result; by default that of ``obj``.
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
    nested = _has_tensor(obj)
    if nested or (type(obj) is np.ndarray and obj.dtype == object):
        obj = admit(obj)
        if copy is False and isinstance(obj, Tensor):
            raise ValueError(
                "asarray(..., copy=False): a Tensor made of several is new. Leave out"
                " copy."
            )
    if isinstance(obj, Tensor):
        return _convert_tensor(obj, dtype, device, None if nested else copy, order)
    if not isinstance(obj, (np.ndarray, np.generic)):
        if hasattr(obj, "__array_function__") and is_same_device(obj, device):
            made = _convert_foreign(obj, dtype, copy)
            return join_trace(made, fresh=made is not obj)
        if hasattr(obj, "__dlpack__") and not hasattr(obj, "__array__"):
            made = from_dlpack(obj, device=device, copy=copy)
            return made if dtype is None else made.astype(dtype)
    if is_host(device):
        made = np.asarray(obj, dtype=dtype, order=order, copy=copy)
        fresh = isinstance(obj, (*WEAK_TYPES, list, tuple)) or bool(copy)
        if not fresh and isinstance(obj, np.ndarray):
            fresh = not np.may_share_memory(made, obj)
        return join_trace(made, fresh=fresh)
    if copy is False:
        raise ValueError(f"asarray(..., copy=False): moving to {device!r} copies.")
    return join_trace(make_on_device(device, lambda xp: xp.asarray(obj, dtype=dtype)))


def _has_tensor(items: object) -> bool:
    return isinstance(items, (list, tuple)) and any(
        isinstance(x, Tensor) or _has_tensor(x) for x in items
    )


def _convert_tensor(
    x: Tensor,
    dtype: npt.DTypeLike | None,
    device: object,
    copy: bool | None,
    order: str | None,
) -> Array:
    x = x.to_device(x.device if device is None else device)
    if dtype is not None and np.dtype(dtype) != x.dtype:
        if copy is False:
            raise ValueError(
                f"asarray(..., copy=False): {x.dtype} to {np.dtype(dtype)} copies."
            )
        return x.astype(dtype, order=order or "K")
    if x.spec.weak if x._value is None else is_weak(x._value):
        x = apply(declare("strong"), (x,))
    laid: Any = x
    if order in ("C", "F"):
        settings: dict[str, Any] = {"order": order, "like": x}
        laid = np.asarray(x, **settings)
    return np.copy(x) if copy and laid is x else laid


def _convert_foreign(x: Any, dtype: npt.DTypeLike | None, copy: bool | None) -> Array:
    """Return an array of another library in its own place."""
    if dtype is not None and np.dtype(dtype) != x.dtype:
        if copy is False:
            raise ValueError(
                f"asarray(..., copy=False): {x.dtype} to {np.dtype(dtype)} copies."
            )
        return x.astype(dtype)
    return np.copy(x) if copy else x


def array(
    obj: ArrayLike,
    dtype: npt.DTypeLike | None = None,
    *,
    copy: bool | None = True,
    order: Literal["K", "A", "C", "F"] | None = None,
    subok: bool = False,
    ndmin: int = 0,
    like: Array | None = None,
) -> Array:
    """Return a new array or Tensor of an array-like object, as `numpy.array` does.

    Parameters
    ----------
    obj, dtype, order
        As of `asarray`: nests of Tensors too.
    copy
        True always copies, False never does, None where it must.
    subok
        Keep an array of a subclass as one.
    ndmin
        How many axes the result has at least; new ones come first.
    like
        An array of the library that is to make it.

    Examples
    --------
    >>> import workbench as wb, workbench.numpy as wnp
    >>> wb.jacobian(lambda x: wnp.array([x, x * x]))(3.0)
    array([1., 6.])
    """
    if like is not None and not isinstance(obj, Tensor) and not _has_tensor(obj):
        settings: dict[str, Any] = {"copy": copy, "order": order, "like": like}
        return join_trace(np.array(obj, dtype, **settings))
    if subok and isinstance(obj, np.ndarray) and type(obj) is not np.ndarray:
        made: Any = np.array(obj, dtype, copy=copy, order=order, subok=True)
    else:
        made = asarray(obj, dtype, order, copy=None if _has_tensor(obj) else copy)
    short = ndmin - made.ndim
    return np.reshape(made, (1,) * short + made.shape) if short > 0 else made


def asanyarray(
    obj: ArrayLike,
    dtype: npt.DTypeLike | None = None,
    order: Literal["K", "A", "C", "F"] | None = None,
) -> Array:
    """Return an array; keep a subclass of NumPy's array, and a Tensor."""
    kept = isinstance(obj, np.ndarray) and type(obj) is not np.ndarray
    return np.asanyarray(obj, dtype, order) if kept else asarray(obj, dtype, order)


def ascontiguousarray(obj: ArrayLike, dtype: npt.DTypeLike | None = None) -> Array:
    """Return an array in C order, of one axis or more; a Tensor has no layout."""
    made = asarray(obj, dtype, "C")
    return np.atleast_1d(made) if made.ndim == 0 else made


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Array:
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

        return join_trace(cupy.from_dlpack(x), fresh=False)
    if is_host(device):
        made = np.from_dlpack(x, device=device, copy=copy)
        return join_trace(made, fresh=bool(copy))
    return join_trace(make_on_device(device, lambda xp: xp.from_dlpack(x)), fresh=False)


#: DLPack's numbers for the memory of CUDA devices, and for managed memory.
CUDA = (2, 13)


# Filled arrays


def _make(
    name: str,
    args: tuple[Any, ...],
    dtype: npt.DTypeLike | None,
    order: Order,
    device: object,
    like: Array | None,
) -> Array:
    """Return the array of a NumPy maker, or of its namesake on a device."""
    settings: dict[str, Any] = {"dtype": dtype}
    if order != "C":
        settings["order"] = order
    if like is not None:
        return join_trace(getattr(np, name)(*args, like=like, **settings), like=like)
    return join_trace(
        make_on_device(device, lambda xp: getattr(xp, name)(*args, **settings))
    )


def empty(
    shape: Shape,
    dtype: npt.DTypeLike | None = None,
    order: Order = "C",
    *,
    device: object = None,
    like: Array | None = None,
) -> Array:
    """Return an array of a shape, with entries that are not set.

    >>> import workbench.numpy as wnp
    >>> wnp.empty((2, 3)).shape
    (2, 3)
    """
    return _make("empty", (shape,), dtype or float, order, device, like)


def zeros(
    shape: Shape,
    dtype: npt.DTypeLike | None = None,
    order: Order = "C",
    *,
    device: object = None,
    like: Array | None = None,
) -> Array:
    """Return an array of zeros; float64 where no dtype is given.

    >>> import workbench.numpy as wnp
    >>> wnp.zeros(2)
    array([0., 0.])
    """
    return _make("zeros", (shape,), dtype or float, order, device, like)


def ones(
    shape: Shape,
    dtype: npt.DTypeLike | None = None,
    order: Order = "C",
    *,
    device: object = None,
    like: Array | None = None,
) -> Array:
    """Return an array of ones; float64 where no dtype is given.

    >>> import workbench.numpy as wnp
    >>> wnp.ones(2, dtype=wnp.int32)
    array([1, 1], dtype=int32)
    """
    return _make("ones", (shape,), dtype or float, order, device, like)


def full(
    shape: Shape,
    fill_value: ArrayLike,
    dtype: npt.DTypeLike | None = None,
    order: Order = "C",
    *,
    device: object = None,
    like: Array | None = None,
) -> Array:
    """Return an array of one number; one that is a Tensor keeps its gradient.

    >>> import numpy as np, workbench as wb, workbench.numpy as wnp
    >>> float(wb.grad(lambda x: np.sum(wnp.full(4, x)))(1.0))
    4.0
    """
    if isinstance(fill_value, Tensor):
        whole = np.broadcast_to(asarray(fill_value, device=device), shape)
        made = np.copy(whole, order=order)
        return made if dtype is None else made.astype(dtype)
    return _make("full", (shape, fill_value), dtype, order, device, like)


def eye(
    n_rows: int,
    n_cols: int | None = None,
    /,
    k: int = 0,
    dtype: npt.DTypeLike | None = None,
    order: Order = "C",
    *,
    device: object = None,
    like: Array | None = None,
) -> Array:
    """Return a matrix with ones on its ``k``-th diagonal.

    >>> import workbench.numpy as wnp
    >>> wnp.eye(2)
    array([[1., 0.],
           [0., 1.]])
    """
    return _make("eye", (n_rows, n_cols, k), dtype or float, order, device, like)


def arange(
    start: ArrayLike,
    /,
    stop: ArrayLike | None = None,
    step: ArrayLike = 1,
    dtype: npt.DTypeLike | None = None,
    *,
    device: object = None,
    like: Array | None = None,
) -> Array:
    """Return evenly spaced numbers in ``[start, stop)``, or in ``[0, start)``.

    Parameters
    ----------
    start, stop
        The ends; ``stop`` is left out.
    step
        The distance of two numbers.
    dtype
        That of the result; by default that of the arguments.
    device
        Where the result is to lie; by default in NumPy's memory.

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
    return _make("arange", (first, last, by), dtype, "C", device, like)


def linspace(
    start: Any,
    stop: Any,
    /,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: npt.DTypeLike | None = None,
    axis: int = 0,
    *,
    device: object = None,
) -> Any:
    """Return evenly spaced numbers from ``start`` to ``stop``, which may be Tensors.

    Parameters
    ----------
    start, stop
        The ends, numbers or arrays that broadcast.
    num
        How many numbers.
    endpoint
        Whether ``stop`` is the last of them.
    retstep
        Whether to return the step too.
    dtype
        That of the result; by default a float.
    axis
        Where the numbers lie in the result, for ends that are arrays.
    device
        Where the result is to lie; by default in NumPy's memory.

    Examples
    --------
    >>> import numpy as np, workbench as wb, workbench.numpy as wnp
    >>> wnp.linspace(0, 1, 3)
    array([0. , 0.5, 1. ])
    >>> wb.jacobian(lambda x: wnp.linspace(0.0, x, 3))(2.0)
    array([0. , 0.5, 1. ])
    """
    settings: dict[str, Any] = {"endpoint": endpoint, "retstep": retstep, "axis": axis}
    if isinstance(start, Tensor) or isinstance(stop, Tensor):
        return np.linspace(start, stop, num, dtype=dtype, **settings)

    def make(xp: ModuleType) -> Array:
        return xp.linspace(start, stop, num, dtype=dtype, **settings)

    made = make_on_device(device, make)
    return (join_trace(made[0]), made[1]) if retstep else join_trace(made)


# Arrays in the shape of another


def _make_like(
    name: str, make: Callable[..., Any], make_fresh: Callable[..., Any]
) -> Callable[..., Any]:
    def like_x(
        x: Array,
        /,
        dtype: npt.DTypeLike | None = None,
        order: Literal["K", "A", "C", "F"] = "K",
        subok: bool = True,
        shape: Shape | None = None,
        *,
        device: object = None,
    ) -> Array:
        settings = _list_settings(order, subok, shape)
        if is_same_device(x, device):
            return join_trace(make(x, dtype=dtype, **settings), like=x)
        lengths = np.shape(x) if shape is None else shape
        kind = x.dtype if dtype is None else dtype
        return make_fresh(lengths, dtype=kind, device=device)

    like_x.__name__ = like_x.__qualname__ = name
    like_x.__doc__ = (
        f"Return an array like ``x``: `numpy.{name}`, with its shape and device.\n\n"
        "    >>> import numpy as np, workbench.numpy as wnp\n"
        f"    >>> wnp.{name}(np.arange(3)).shape\n"
        "    (3,)\n"
    )
    return like_x


empty_like = _make_like("empty_like", np.empty_like, empty)
ones_like = _make_like("ones_like", np.ones_like, ones)
zeros_like = _make_like("zeros_like", np.zeros_like, zeros)


def _list_settings(order: str, subok: bool, shape: Shape | None) -> dict[str, Any]:
    """Return the settings that differ from the defaults: some libraries have few."""
    settings: dict[str, Any] = {}
    if order != "K":
        settings["order"] = order
    if not subok:
        settings["subok"] = subok
    if shape is not None:
        settings["shape"] = shape
    return settings


def full_like(
    x: Array,
    /,
    fill_value: ArrayLike,
    dtype: npt.DTypeLike | None = None,
    order: Literal["K", "A", "C", "F"] = "K",
    subok: bool = True,
    shape: Shape | None = None,
    *,
    device: object = None,
) -> Array:
    """Return an array of one number in the shape of ``x``; a Tensor keeps its gradient.

    >>> import numpy as np, workbench.numpy as wnp
    >>> wnp.full_like(np.zeros(2), 3)
    array([3., 3.])
    """
    if is_same_device(x, device) and not isinstance(fill_value, Tensor):
        settings = _list_settings(order, subok, shape)
        return join_trace(np.full_like(x, fill_value, dtype=dtype, **settings), like=x)
    kind = x.dtype if dtype is None else dtype
    lengths = x.shape if shape is None else shape
    made = full(lengths, fill_value, kind, device=device)
    if order == "F" or (order in ("K", "A") and shape is None and lies_by_columns(x)):
        return np.copy(made, order="F")
    return made


def lies_by_columns(x: Any) -> bool:
    """Return whether a value lies in memory with its columns first."""
    flags = getattr(value_of(x), "flags", None)
    return bool(flags is not None and flags.f_contiguous and not flags.c_contiguous)


#: Other makers, of which NumPy alone knows: what they make takes part in a trace too.
JOINED = frozenset(
    "fromfunction fromiter geomspace identity indices logspace tri vander".split()
)


def join_maker(name: str) -> Callable[..., Any]:
    """Return a maker of NumPy with results that join the open trace."""
    function = getattr(np, name)

    @wraps(function)
    def make(*args: Any, **settings: Any) -> Any:
        made = function(*args, **settings)
        return join_trace(made) if type(made) is np.ndarray else made

    return make
