"""Dtypes and devices: the standard's names, limits, how they combine."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from types import ModuleType
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from workbench.core import source, traces
from workbench.core.op import CopyParams, declare
from workbench.core.tensor import NO_PARAMS, Tensor, admit, value_of
from workbench.core.types import Array, ArrayLike

# Where an array lies, and how what the namespace makes joins a trace.
#
# Compute follows data: a device is ``"cpu"`` for NumPy, and what the arrays of
# another library call theirs (``cupy.cuda.Device(0)``) for that library.

HOST = "cpu"


#: The settings of arrays that the namespace has just made.
FRESH = CopyParams()


def join_trace(made: Any, like: object = None, *, fresh: bool = True) -> Any:
    """Return an array that a function of the namespace has made, as part of the trace.

    Outside a trace that is the array itself. While one is open, it is a Tensor
    without a gradient: code written for the standard asks the arrays that it has made
    for their namespace, and must find that of its arguments. A Tensor as ``like``
    asks for a Tensor in any case. ``fresh``: it shares no memory with other arrays, so
    that it may be filled (see `core/memory.py`).
    """
    if isinstance(made, Tensor) or not (
        traces.has_open_trace() or isinstance(like, Tensor)
    ):
        return made
    if type(made) is np.ndarray or not isinstance(made, np.ndarray):
        made = admit(made)  # an array of a subclass stays on its device
        if isinstance(made, Tensor):  # it was one of objects, which are Tensors
            return made
    op = declare("stop_gradient")
    params = FRESH if fresh else NO_PARAMS
    return Tensor(op, (made,), (made,), params, made, *source.caller())


def is_host(device: object) -> bool:
    """Return whether a device is NumPy's, or None, the device of the data."""
    return device is None or (isinstance(device, str) and device == HOST)


def device_of(x: ArrayLike) -> Any:
    """Return the device of an array or a Tensor; that of NumPy for a plain number."""
    return getattr(value_of(x), "device", HOST)


def is_same_device(x: ArrayLike, device: object) -> bool:
    """Return whether an array lies on a device; None accepts every device."""
    return device is None or bool(device_of(x) == device)


def _find_library(device: object) -> ModuleType:
    """Return the library that owns a device.

    Raises
    ------
    ValueError
        For what is not a device.
    """
    if is_host(device):
        return np
    if not isinstance(device, str):
        found = sys.modules.get(type(device).__module__.partition(".")[0])
        if found is not None and hasattr(found, "asarray"):
            return found
    raise ValueError(
        f"{device!r} is not a device. Write 'cpu', or x.device of an array that lies"
        " where the new one is to be."
    )


def make_on_device(device: Any, make: Callable[[Any], Any]) -> Any:
    """Call ``make(library)`` while ``device`` is the current one of its library."""
    library = _find_library(device)
    inside: AbstractContextManager[Any] = nullcontext()
    if library is not np and hasattr(device, "__enter__"):
        inside = device
    with inside:
        return make(library)


def list_devices() -> list[Any]:
    """Return NumPy's device, and CuPy's devices if CuPy is loaded."""
    found: list[Any] = [HOST]
    cupy = sys.modules.get("cupy")
    if cupy is not None:
        try:
            count = cupy.cuda.runtime.getDeviceCount()
        except Exception:  # CuPy is installed, and no driver
            count = 0
        found += [cupy.cuda.Device(i) for i in range(count)]
    return found


# Dtypes

VERSION = "2024.12"

#: The standard's dtypes by kind; ``integral`` and ``numeric`` are made of these.
KINDS: dict[str, tuple[str, ...]] = {
    "bool": ("bool",),
    "signed integer": ("int8", "int16", "int32", "int64"),
    "unsigned integer": ("uint8", "uint16", "uint32", "uint64"),
    "real floating": ("float32", "float64"),
    "complex floating": ("complex64", "complex128"),
}
KINDS["integral"] = KINDS["signed integer"] + KINDS["unsigned integer"]
KINDS["numeric"] = (
    KINDS["integral"] + KINDS["real floating"] + KINDS["complex floating"]
)


def _dtype_of(x: Any) -> Any:
    """Return the dtype of an array or Tensor, or a dtype itself."""
    return getattr(x, "dtype", x) if not isinstance(x, type) else x


def astype(
    x: Any,
    dtype: npt.DTypeLike | None,
    /,
    *,
    copy: bool = True,
    device: object = None,
) -> Array:
    """Return ``x`` in another dtype; the gradient comes back in that of ``x``.

    Parameters
    ----------
    x
        An array or a Tensor.
    dtype
        What it becomes.
    copy
        Whether to copy where ``x`` has this dtype already.
    device
        That of ``x``: nothing is moved.

    Raises
    ------
    ValueError
        For another device.

    Examples
    --------
    >>> import numpy as np, workbench.numpy as wnp
    >>> wnp.astype(np.arange(3), wnp.float32)
    array([0., 1., 2.], dtype=float32)
    """
    if not is_same_device(x, device):
        raise ValueError(
            f"astype(..., device={device!r}): the array lies on {x.device!r}. Move it"
            " first, with wnp.asarray(x, device=...)."
        )
    if not copy and x.dtype == dtype:
        return x
    return x.astype(dtype)


def can_cast(
    from_: Any,
    to: Any,
    /,
    casting: Literal["no", "equiv", "safe", "same_kind", "unsafe"] = "safe",
) -> bool:
    """Return whether a dtype (or that of an array) casts to another without loss.

    >>> import workbench.numpy as wnp
    >>> wnp.can_cast(wnp.int32, wnp.float64), wnp.can_cast(wnp.float64, wnp.int32)
    (True, False)
    """
    return np.can_cast(_dtype_of(from_), _dtype_of(to), casting)


class finfo:
    """The limits of a float dtype, as Python floats: ``finfo(dtype or array)``.

    For a complex dtype, those of its parts. What NumPy has besides the standard's
    attributes (``tiny``, ``resolution``, ...) is there too.

    Attributes
    ----------
    bits, dtype, eps, max, min, smallest_normal
        As `numpy.finfo`.

    Examples
    --------
    >>> import numpy as np, workbench.numpy as wnp
    >>> wnp.finfo(np.zeros(3)).eps
    2.220446049250313e-16
    """

    def __init__(self, type: npt.DTypeLike | Array, /) -> None:
        self._info = np.finfo(_dtype_of(type))
        self.bits = int(self._info.bits)
        self.dtype = np.dtype(self._info.dtype)
        self.eps = float(self._info.eps)
        self.max = float(self._info.max)
        self.min = float(self._info.min)
        self.smallest_normal = float(self._info.smallest_normal)

    def __getattr__(self, name: str) -> Any:
        if name == "_info":  # while it is being copied
            raise AttributeError(name)
        return getattr(self._info, name)

    def __repr__(self) -> str:
        return f"finfo({self.dtype})"


class iinfo:
    """The limits of an integer dtype, as Python integers: ``iinfo(dtype or array)``.

    Attributes
    ----------
    bits, dtype, max, min
        As `numpy.iinfo`.

    Examples
    --------
    >>> import workbench.numpy as wnp
    >>> wnp.iinfo(wnp.int8).max
    127
    """

    def __init__(self, type: npt.DTypeLike | Array, /) -> None:
        info = np.iinfo(_dtype_of(type))
        self.bits = int(info.bits)
        self.dtype = np.dtype(info.dtype)
        self.max = int(info.max)
        self.min = int(info.min)

    def __repr__(self) -> str:
        return f"iinfo({self.dtype})"


class Info:
    """What the namespace can do: ``wnp.__array_namespace_info__()``.

    >>> import workbench.numpy as wnp
    >>> info = wnp.__array_namespace_info__()
    >>> info.default_device(), info.default_dtypes()["real floating"]
    ('cpu', dtype('float64'))
    >>> sorted(info.dtypes(kind="real floating"))
    ['float32', 'float64']
    """

    def capabilities(self) -> dict[str, Any]:
        """Return the capabilities: masks as indices, shapes that depend on data."""
        return {
            "boolean indexing": True,
            "data-dependent shapes": True,
            "max dimensions": 64,
        }

    def default_device(self) -> str:
        """Return where arrays are made if nobody says where."""
        return "cpu"

    def default_dtypes(self, *, device: object = None) -> dict[str, Any]:
        """Return the dtypes of arrays that are made without one, by kind."""
        _check_device(device)
        return {
            "real floating": np.dtype(np.float64),
            "complex floating": np.dtype(np.complex128),
            "integral": np.dtype(np.intp),
            "indexing": np.dtype(np.intp),
        }

    def dtypes(
        self, *, device: object = None, kind: str | tuple[str, ...] | None = None
    ) -> dict[str, Any]:
        """Return the dtypes of a kind by name, of several kinds, or all.

        Raises
        ------
        ValueError
            For a kind that the standard does not know.
        """
        _check_device(device)
        kinds = ("bool", "numeric") if kind is None else kind
        kinds = (kinds,) if isinstance(kinds, str) else kinds
        for one in kinds:
            if one not in KINDS:
                raise ValueError(
                    f"{one!r} is not a kind of dtype. There are {', '.join(KINDS)}."
                )
        names = [name for one in kinds for name in KINDS[one]]
        return {name: np.dtype(name) for name in dict.fromkeys(names)}

    def devices(self) -> list[Any]:
        """Return ``"cpu"``, and CuPy's devices if CuPy is loaded."""
        return list_devices()


def _check_device(device: object) -> None:
    if not is_host(device) and device not in list_devices():
        raise ValueError(f"{device!r} is not a device. There are {list_devices()}.")
