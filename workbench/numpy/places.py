"""Where an array lies, and how what the namespace makes joins a trace.

Compute follows data: a device is ``"cpu"`` for NumPy, and what the arrays of
another library call theirs (``cupy.cuda.Device(0)``) for that library.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from workbench.core import source, traces
from workbench.core.op import CopyParams, declare
from workbench.core.tensor import NO_PARAMS, Tensor, admit, value_of

__all__ = ["constant", "devices", "is_host", "made_on", "same_device"]

HOST = "cpu"


#: The settings of what the namespace has made and nobody else has seen.
FRESH = CopyParams()


def constant(made: Any, like: Any = None, *, fresh: bool = True) -> Any:
    """What a function of the namespace has made, as the caller is to see it.

    Outside a trace, the array itself. While one is open, a Tensor without a
    gradient: code written for the standard asks the arrays that it has made for
    their namespace, and must find that of its arguments. A Tensor as ``like``
    asks for a Tensor in any case. ``fresh``: it shares no memory with what others
    hold, so that a library may fill it (see `assignment.py`).
    """
    if isinstance(made, Tensor) or not (traces.any_open() or isinstance(like, Tensor)):
        return made
    if type(made) is np.ndarray:
        made = admit(made)  # what another library has made is that library's
    op = declare("stop_gradient")
    params = FRESH if fresh else NO_PARAMS
    return Tensor(op, (made,), (made,), params, made, *source.caller())


def is_host(device: Any) -> bool:
    """Whether a device is NumPy's; None is where the data are, by default there."""
    return device is None or (isinstance(device, str) and device == HOST)


def device_of(x: Any) -> Any:
    """The device of an array or a Tensor; that of NumPy for a plain number."""
    return getattr(value_of(x), "device", HOST)


def same_device(x: Any, device: Any) -> bool:
    """Whether an array lies where it is asked to be; None asks for nothing."""
    return device is None or bool(device_of(x) == device)


def _library(device: Any) -> Any:
    """The library whose device this is.

    Raises
    ------
    ValueError
        For what is no device.
    """
    if is_host(device):
        return np
    if not isinstance(device, str):
        found = sys.modules.get(type(device).__module__.partition(".")[0])
        if found is not None and hasattr(found, "asarray"):
            return found
    raise ValueError(
        f"{device!r} is no device. Write 'cpu', or x.device of an array that lies"
        " where the new one is to be."
    )


def made_on(device: Any, make: Callable[[Any], Any]) -> Any:
    """``make(library)`` while ``device`` is the current one of its library."""
    library = _library(device)
    inside: AbstractContextManager[Any] = nullcontext()
    if library is not np and hasattr(device, "__enter__"):
        inside = device
    with inside:
        return make(library)


def devices() -> list[Any]:
    """NumPy's device, and CuPy's where it is loaded."""
    found: list[Any] = [HOST]
    cupy = sys.modules.get("cupy")
    if cupy is not None:
        count = cupy.cuda.runtime.getDeviceCount()
        found += [cupy.cuda.Device(i) for i in range(count)]
    return found
