"""CuPy, for the tests of this folder; `needed` skips them where there is no GPU."""

from __future__ import annotations

import os
from functools import cache
from typing import Any

import pytest

__all__ = ["cupy", "has_gpu", "needed"]

cupy: Any
try:
    import cupy  # type: ignore[no-redef, unused-ignore]
except ImportError:
    cupy = None


@cache
def has_gpu() -> bool:
    """Whether there is CuPy, and a GPU."""
    try:
        return cupy is not None and cupy.cuda.runtime.getDeviceCount() > 0
    except cupy.cuda.runtime.CUDARuntimeError:  # no driver
        return False


def needed() -> list[pytest.MarkDecorator]:
    """The marks of a module of tests; without a GPU it is skipped with the reason."""
    if cupy is None:
        pytest.skip("needs CuPy: pip install '.[gpu]'", allow_module_level=True)
    if os.environ.get("GPU_TEST_WITHOUT_POOL"):
        cupy.cuda.set_allocator(None)
    if not has_gpu():
        pytest.skip("needs an NVIDIA GPU", allow_module_level=True)
    return [
        pytest.mark.gpu,
        pytest.mark.filterwarnings("ignore:.*is computed on the CPU"),
        pytest.mark.filterwarnings("ignore:numpy.fix is deprecated"),
    ]
