"""Kernels on an NVIDIA GPU: checked by a compiler anywhere, launched through CuPy.

A check compiles for an architecture without a GPU or driver: by NVRTC where CuPy
brings it, else by nvcc.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from workbench.core.op import CUDA_OPTIONS, CudaCall
from workbench.core.types import Spec
from workbench.custom.kernels import toolchain
from workbench.custom.kernels.signature import Signature
from workbench.custom.kernels.units import (
    CUDA,
    SOURCE,
    Text,
    write_declaration,
    write_unit,
)
from workbench.errors import KernelError, UsageError

#: Hopper: H100 and H200.
ARCHITECTURE = "sm_90"

#: How many threads share a block.
BLOCK = 256

#: The most blocks that a grid of one axis may have.
MOST_BLOCKS = 2**31 - 1

_MODULES: dict[Any, Any] = {}
_LOCK = Lock()


def is_device(x: Any) -> bool:
    """Return whether an array lies on a GPU."""
    return hasattr(x, "__cuda_array_interface__")


def check(
    text: Text,
    signature: Signature,
    chosen: Mapping[str, np.dtype[Any]],
    settings: Mapping[str, type],
    architecture: str,
    limit: float,
) -> str:
    """Compile a kernel without keeping the result; return the compiler's name.

    Raises
    ------
    KernelError
        If there is no compiler, or it refuses the source.
    """
    whole = write_unit(text.text, signature, chosen, settings, CUDA)
    try:
        nvrtc = import_module("cupy_backends.cuda.libs.nvrtc")
        number = ".".join(map(str, nvrtc.getVersion()))
    except Exception:  # there is no CuPy, or the library that it needs is not there
        name, said = _by_nvcc(whole, architecture, limit)
    else:
        name, said = f"NVRTC {number}", _by_nvrtc(nvrtc, whole, architecture)
    must = (
        f"\nThe kernel is called as\n  {write_declaration(signature, settings, CUDA)}"
    )
    if isinstance(said, str):
        lines, amiss = toolchain.read_errors(said, text.text, text.place)
        raise KernelError(
            f"{signature.op}: the CUDA source does not compile ({name}):\n{lines}"
            f"{must * amiss}"
        )
    # Of other arguments it is another function to C++, with a name of its own.
    if f".text.{signature.op}\0".encode() not in said:
        raise KernelError(
            f"{signature.op}: the CUDA source{text.where()} has no kernel"
            f" {signature.op} of the arguments that it gets.{must}"
        )
    return name


def _by_nvcc(whole: str, architecture: str, limit: float) -> tuple[str, str | bytes]:
    """Return the name of the compiler, and its binary or its error text."""
    found = toolchain.find_nvcc()
    command = (
        found, "-cubin", f"-arch={architecture}", "-std=c++17", "-w",
        "kernel.cu", "-o", "kernel.cubin",
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as made:
        (Path(made) / "kernel.cu").write_text(whole, encoding="utf-8")
        code, said = toolchain.run(command, Path(made), limit)
        if code:
            return Path(found).name, said
        return Path(found).name, (Path(made) / "kernel.cubin").read_bytes()


def _by_nvrtc(nvrtc: Any, whole: str, architecture: str) -> str | bytes:
    """Return the binary, or the compiler's error text."""
    program = nvrtc.createProgram(whole, SOURCE, [], [])
    try:
        nvrtc.compileProgram(
            program, [f"--gpu-architecture={architecture}", "--std=c++17", "-w"]
        )
        return bytes(nvrtc.getCUBIN(program))
    except nvrtc.NVRTCError:
        return str(nvrtc.getProgramLog(program))
    finally:
        nvrtc.destroyProgram(program)


def plan_launch(
    text: Text,
    signature: Signature,
    chosen: Mapping[str, np.dtype[Any]],
    settings: Mapping[str, Any],
    kinds: Mapping[str, type],
    lengths: Sequence[int],
    threads: int,
) -> CudaCall:
    """Return the call of a kernel, one thread for each of ``threads``.

    Raises
    ------
    KernelError
        If these are more threads than a GPU starts.
    """
    # One at least, so that outputs without a length are written as on the CPU.
    blocks = max(1, -(-threads // BLOCK))
    if blocks > MOST_BLOCKS:
        raise KernelError(
            f"{signature.op}: {threads} threads are more than a GPU starts. Let"
            " each do more, with a loop in the kernel."
        )
    numbers = [np.int64(n) for n in lengths]
    numbers += [_WIDTHS[kinds[k]](v) for k, v in settings.items()]
    source = write_unit(text.text, signature, chosen, kinds, CUDA)
    return CudaCall(source, signature.op, blocks, BLOCK, tuple(numbers))


def launch(
    call: CudaCall,
    signature: Signature,
    inputs: Sequence[Any],
    dtypes: Sequence[np.dtype[Any]],
    outputs: Sequence[Spec],
) -> list[Any]:
    """Run a kernel on CuPy arrays.

    CuPy compiles it for the GPU at hand and keeps the result on disk.
    """
    cupy: Any = import_module("cupy")
    for x, pattern in zip(inputs, signature.inputs, strict=True):
        if not is_device(x) and np.ndim(x) > 0:
            raise UsageError(
                f"{signature.op}: {pattern.name} lies on the CPU and others on a GPU."
                f" Nothing moves in silence: write cupy.asarray({pattern.name})."
            )
    # Beside the device that the arrays are on, nothing may be launched.
    with next(x for x in inputs if is_device(x)).device:
        given = [
            cupy.asarray(x, dtype, order="C")
            for x, dtype in zip(inputs, dtypes, strict=True)
        ]
        made = [cupy.zeros(spec.shape, spec.dtype) for spec in outputs]
        with _LOCK:
            module = _MODULES.get(call.source)
            if module is None:
                module = _MODULES[call.source] = cupy.RawModule(
                    code=call.source, options=CUDA_OPTIONS
                )
            kernel = module.get_function(call.name)
        kernel((call.blocks,), (call.threads,), (*given, *made, *call.numbers))
    return made


#: A setting as CuPy passes it: in the very width of the kernel's parameter.
_WIDTHS: dict[type, Any] = {bool: np.bool_, int: np.int64, float: np.float64}
