"""CUDA C++ compiled by NVRTC for real GPUs, of which none is needed."""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import Any

from workbench.backends.cupy.launches import OPTIONS


def load_nvrtc() -> Any:
    """CuPy's binding of NVRTC; None where CuPy or NVRTC is not installed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # there is no driver
            import_module("cupy")
            nvrtc = import_module("cupy_backends.cuda.libs.nvrtc")
            nvrtc.getVersion()
    except Exception:
        return None
    return nvrtc


def compile_cubin(nvrtc: Any, source: str, architecture: str) -> bytes:
    """Compile a translation unit as CuPy does; an error has NVRTC's log."""
    program = nvrtc.createProgram(source, "kernels.cu", [], [])
    try:
        options = (f"--gpu-architecture={architecture}", *OPTIONS, "-ftz=true")
        nvrtc.compileProgram(program, options)
        made: bytes = nvrtc.getCUBIN(program)
        return made
    except nvrtc.NVRTCError as error:
        raise RuntimeError(nvrtc.getProgramLog(program)[:4000]) from error
    finally:
        nvrtc.destroyProgram(program)
