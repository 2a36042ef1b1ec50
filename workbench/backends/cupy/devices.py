"""Which GPU there is, why there is none, and how arrays go there and back.

Nothing is imported and no device is asked before somebody wants one.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np

from workbench.backends.cupy.runtime import CupyRuntime, Runtime
from workbench.core import blame, tree
from workbench.core.types import is_device_array
from workbench.errors import DeviceError, DtypeError, UsageError

#: The status of CUDA's errors where there is no driver, or no GPU.
NO_DRIVER, NO_DEVICE = 35, 100

_LOCK = threading.Lock()
#: The GPU of this process, found at the first request.
_RUNTIME: Runtime | None = None


def find_runtime() -> Runtime:
    """Return the runtime that runs programs on the GPU.

    Raises
    ------
    DeviceError
        If there is no GPU to be used, with what is missing and how to get it.
    """
    global _RUNTIME
    with _LOCK:
        if _RUNTIME is None:
            problem = find_problem()
            if problem is not None:
                raise DeviceError(problem)
            _RUNTIME = CupyRuntime()
        if _RUNTIME.failure is not None:
            raise DeviceError(f"{_RUNTIME.failure}.")
        return _RUNTIME


def find_problem() -> str | None:
    """Return in words why no program can run on a GPU here; None: one can.

    Examples
    --------
    >>> problem = find_problem()
    >>> problem is None or problem.startswith("there is no GPU to compute on: ")
    True
    """
    what = _find_missing()
    return None if what is None else f"there is no GPU to compute on: {what}"


def _find_missing() -> str | None:
    try:
        cupy: Any = import_module("cupy")
    except ImportError as error:
        if isinstance(error, ModuleNotFoundError) and error.name == "cupy":
            return (
                "CuPy is not installed. For a driver of CUDA 13: pip install"
                " 'cupy-cuda13x[ctk]'."
            )
        return (
            f"CuPy cannot be imported ({error}). Install it anew, for a driver of CUDA"
            " 13: pip install --force-reinstall 'cupy-cuda13x[ctk]'."
        )
    api = cupy.cuda.runtime
    try:
        built, driver = api.runtimeGetVersion(), api.driverGetVersion()
    except api.CUDARuntimeError as error:
        return f"CUDA does not start ({error})."
    if driver == 0:
        return (
            "NVIDIA's driver is not installed. It comes with the system, and not with"
            " Python: see nvidia-smi, and https://www.nvidia.com/drivers."
        )
    if driver // 1000 < built // 1000:
        return (
            f"NVIDIA's driver knows CUDA {_format_version(driver)}, and this CuPy was"
            f" made for CUDA {_format_version(built)}. Install a newer driver:"
            " https://www.nvidia.com/drivers."
        )
    try:
        count = int(api.getDeviceCount())
    except api.CUDARuntimeError as error:
        if getattr(error, "status", 0) not in (NO_DRIVER, NO_DEVICE):
            return f"CUDA does not start ({error})."
        count = 0
    if not count:
        return (
            "the driver finds no NVIDIA GPU. Look at the output of nvidia-smi and at"
            " the variable CUDA_VISIBLE_DEVICES."
        )
    try:
        import_module("cupy_backends.cuda.libs.nvrtc").getVersion()
    except Exception as error:  # whatever keeps a library of C from being loaded
        return (
            f"NVRTC, which compiles kernels, cannot be loaded ({error}). pip install"
            " nvidia-cuda-nvrtc brings it, as does 'cupy-cuda13x[ctk]'."
        )
    return None


def _format_version(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"


def check_places(runtime: Runtime, arrays: Sequence[Any], names: Sequence[str]) -> None:
    """Raise an error if an array does not lie on the GPU; numbers may.

    Raises
    ------
    UsageError
        With the names of those to move, and how.
    """
    elsewhere = [
        i
        for i, x in enumerate(arrays)
        if not (runtime.owns(x) or isinstance(x, (np.generic, int, float, complex)))
    ]
    if not elsewhere:
        return
    other = [i for i in elsewhere if is_device_array(arrays[i])]
    if other:
        x = arrays[other[0]]
        raise UsageError(
            f"{names[other[0]]} lies on another GPU, {getattr(x, 'device', '?')}, and"
            f" the program runs on {runtime.name}, the first one. Bring it there:"
            " wb.to_gpu(x)."
        )
    listed = _join(names[i] for i in elsewhere)
    there = [i for i, x in enumerate(arrays) if runtime.owns(x)]
    kind = type(arrays[elsewhere[0]]).__name__
    what = f"{listed} {'is an' if len(elsewhere) == 1 else 'are'} {kind}"
    if len(elsewhere) > 1:
        what += "s"
    what += " in the memory of the CPU"
    if there:
        what += f", and {_join(names[i] for i in there)} on the GPU"
    raise UsageError(
        f"{what}{blame.user_line()}. The program runs on the GPU, and nothing moves in"
        " silence. Write wb.to_gpu(x) for each array that is on the CPU (once, before"
        " a loop), or wb.to_cpu(x) for the others."
    )


def _join(names: Any) -> str:
    shown = [repr(name) for name in names]
    if len(shown) > 4:
        shown[3:] = [f"{len(shown) - 3} others"]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


#: The widest floats and complex numbers of a GPU.
WIDEST = {"f": "float64", "c": "complex128"}
#: What to move instead of a masked array, and of a matrix.
PLAIN = (
    "Move the numbers, x.data, and the mask, np.ma.getmaskarray(x).",
    "Move np.asarray(x), and write @ for *.",
)


def to_gpu(value: Any) -> Any:
    """Return a nest with its arrays copied to the GPU.

    Parameters
    ----------
    value
        An array, or a nest of dicts, lists, tuples and dataclasses. NumPy's arrays of
        numbers become CuPy's, of the same dtypes and shapes; those on the GPU stay what
        they are; numbers and all else too.

    Returns
    -------
    The same nest. The copies are in the memory of the first GPU.

    Raises
    ------
    DeviceError
        If there is no GPU, with what is missing and how to get it.
    DeviceMemoryError
        If the arrays do not fit there.
    DtypeError
        If a GPU has no such numbers, as those of ``longdouble``.
    UsageError
        If an array means something else there: a masked one, an ``np.matrix``.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> def describe(weights):
    ...     try:
    ...         return type(wb.to_gpu(weights)["W"]).__module__
    ...     except wb.errors.DeviceError as error:  # where there is none
    ...         return str(error).split(":")[0]
    >>> describe({"W": np.ones((2, 3)), "rate": 0.1}) in (
    ...     "cupy", "there is no GPU to compute on")
    True
    """
    runtime = find_runtime()

    def move(x: Any) -> Any:
        if is_device_array(x):
            return x if runtime.owns(x) else runtime.upload(x)
        if isinstance(x, np.ndarray) and x.dtype.kind in "biufc":
            if isinstance(x, (np.ma.MaskedArray, np.matrix)):
                raise UsageError(
                    f"to_gpu{blame.user_line()}: a GPU has no {type(x).__name__}."
                    f" {PLAIN[isinstance(x, np.matrix)]}"
                )
            if x.dtype.str[1:] not in runtime.description.kinds:
                raise DtypeError(
                    f"to_gpu{blame.user_line()}: a GPU has no {x.dtype}. Convert the"
                    f" array before: x.astype(np.{WIDEST[x.dtype.kind]})."
                )
            return runtime.upload(x)
        return x

    with runtime.use(), runtime.guard():
        return tree.map_tree(move, value)


def to_cpu(value: Any) -> Any:
    """Return a nest with its arrays copied to the memory of the CPU.

    It waits until they are computed. An index that was out of bounds in a program that
    has computed on the GPU is told here at the latest, where compiled code computed
    it: calls that run op by op, as those before it is ready do, are not checked.

    Parameters
    ----------
    value
        An array, or a nest of dicts, lists, tuples and dataclasses. CuPy's arrays
        become NumPy's; all else stays what it is.

    Raises
    ------
    DeviceError
        If a program was given an index out of bounds, or the GPU has stopped.

    Examples
    --------
    Without a GPU there is nothing to bring back:

    >>> import numpy as np, workbench as wb
    >>> wb.to_cpu({"W": np.ones(2), "rate": 0.1})
    {'W': array([1., 1.]), 'rate': 0.1}
    """
    cupy: Any = sys.modules.get("cupy")
    runtime = _RUNTIME

    def move(x: Any) -> Any:
        return cupy.asnumpy(x) if cupy is not None and is_device_array(x) else x

    if runtime is None:
        return tree.map_tree(move, value)
    leaves, nest = tree.flatten(value)
    with runtime.use(), runtime.guard():
        there = [x for x in leaves if runtime.owns(x)]
        made = iter(runtime.download(there) if there else ())
        moved = [next(made) if runtime.owns(x) else move(x) for x in leaves]
        runtime.pending.check_all()
    return nest(moved)


def fetch_array(x: Any) -> Any:
    """Return a copy of an array of a device, in the memory of the CPU."""
    runtime = _RUNTIME
    if runtime is None or not runtime.owns(x):
        return x.get()
    with runtime.use(), runtime.guard():
        return runtime.download([x])[0]
