"""CuPy, for the tests of this folder; `needed` skips them where there is no GPU."""

from __future__ import annotations

import os
from typing import Any

import pytest

__all__ = ["cupy", "needed"]

cupy: Any
try:
    import cupy  # type: ignore[no-redef, unused-ignore]
except ImportError:
    cupy = None


def needed() -> list[pytest.MarkDecorator]:
    """The marks of a module of tests; without a GPU it is skipped with the reason."""
    if cupy is None:
        pytest.skip("needs CuPy: pip install '.[gpu]'", allow_module_level=True)
    try:
        count = int(cupy.cuda.runtime.getDeviceCount())
    except cupy.cuda.runtime.CUDARuntimeError:  # no driver
        count = 0
    if os.environ.get("GPU_TEST_WITHOUT_POOL"):
        cupy.cuda.set_allocator(None)
    if not count:
        pytest.skip("needs an NVIDIA GPU", allow_module_level=True)
    return [
        pytest.mark.gpu,
        pytest.mark.filterwarnings("ignore:.*is computed on the CPU"),
        pytest.mark.filterwarnings("ignore:numpy.fix is deprecated"),
    ]
