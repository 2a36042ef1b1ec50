"""Ops on CuPy's arrays where CuPy lacks a function of NumPy or SciPy.

An op's ``compute`` is plain NumPy, which CuPy answers through NumPy's protocols. Where
it has no such function, or takes fewer arguments, the op has a second value: a
composition of what CuPy has (`on_cupy`), or, where there is none, the CPU's
(`leave_device`), with a warning. A page of the guide lists the latter.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt

from workbench.core import source
from workbench.core.op import Op
from workbench.core.types import is_device_array, is_device_type

__all__ = [
    "ON_HOST",
    "compute_on_host",
    "find_library",
    "leave_device",
    "make_zeros",
    "on_cupy",
]

Compute = Callable[..., Any]

#: The ops that are computed on the CPU, each with what CuPy lacks for it.
ON_HOST: dict[str, str] = {}

_WARNED: set[str] = set()


def find_library(x: object, module: str) -> Any:
    """Return the module of SciPy, or CuPy's copy of that module, for an array."""
    if not is_device_array(x):
        return import_module(f"scipy.{module}")
    name = f"cupyx.scipy.{module}"
    if name not in sys.modules:
        with warnings.catch_warnings():
            # As it loads, CuPy warns of what it uses itself.
            warnings.simplefilter("ignore", FutureWarning)
            return import_module(name)
    return sys.modules[name]


def make_zeros(
    like: Any, shape: tuple[Any, ...], dtype: npt.DTypeLike | None = None
) -> Any:
    """Return zeros as `numpy.zeros_like` makes them, of any shape.

    CuPy takes the shape () for none given, and makes as many as the other array has.
    """
    if shape == () and is_device_array(like):
        return np.reshape(np.zeros_like(like, dtype=dtype, shape=(1,)), ())
    return np.zeros_like(like, dtype=dtype, shape=shape)  # not (): of CuPy's


def on_cupy(op: Op) -> Callable[[Compute], Compute]:
    """Let a function give the value of an op where an operand is CuPy's."""

    def register(function: Compute) -> Compute:
        own = op.compute

        @wraps(own)
        def compute(*arrays: Any, **params: Any) -> Any:
            # A stack has a thousand operands of one type: ask once per type.
            few = arrays if len(arrays) < 9 else {type(x): x for x in arrays}.values()
            for x in few:
                kind: Any = type(x)
                if is_device_type(kind):
                    return function(*arrays, **params)
            return own(*arrays, **params)

        op.compute = compute
        return function

    return register


def leave_device(op: Op, lacks: str) -> None:
    """Compute an op on the CPU where an operand is CuPy's; say so once.

    ``lacks`` is what CuPy has not, for the warning and for the guide.
    """
    own = op.compute
    ON_HOST[op.name] = lacks
    on_cupy(op)(
        lambda *arrays, **params: compute_on_host(op.name, lacks, own, arrays, params)
    )


def compute_on_host(
    name: str,
    lacks: str,
    compute: Compute,
    arrays: tuple[Any, ...],
    params: dict[str, Any] | None = None,
) -> Any:
    """Compute a function on NumPy arrays; return the result on the operands' device.

    The first time, warn that ``name`` leaves the device, for CuPy has no ``lacks``.
    """
    if name not in _WARNED:
        _WARNED.add(name)
        warnings.warn(
            f"{name} is computed on the CPU: CuPy has no {lacks}. Its operands and its"
            " result are copied at each call.",
            RuntimeWarning,
            stacklevel=source.count_frames(),
        )
    like = next(x for x in arrays if is_device_array(x))
    made = compute(
        *[x.get() if is_device_array(x) else x for x in arrays], **(params or {})
    )
    if isinstance(made, tuple):
        return tuple(np.asarray(y, like=like) for y in made)
    return np.asarray(made, like=like)
