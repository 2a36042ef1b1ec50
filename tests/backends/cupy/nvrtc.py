"""CUDA C++ compiled by NVRTC for real GPUs, of which none is needed, nor CuPy."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from importlib import metadata

from workbench.backends.cupy.launches import OPTIONS

#: The wheel that has the compiler, where there is one: on Linux.
WHEEL = "nvidia-cuda-nvrtc"


class Nvrtc:
    """NVIDIA's compiler as a library."""

    def __init__(self, path: str) -> None:
        self._library = ctypes.CDLL(path)

    def compile(self, source: str, options: Sequence[str]) -> dict[str, bytes]:
        """Compile a translation unit; an error has the compiler's log.

        What is made is the ``CUBIN`` for a real GPU, and the ``PTX`` before it.
        """
        program = ctypes.c_void_p()
        self._call(
            "CreateProgram", ctypes.byref(program), source.encode(), b"kernels.cu", 0,
            None, None,
        )  # fmt: skip
        given = (ctypes.c_char_p * len(options))(*(x.encode() for x in options))
        try:
            status = self._library.nvrtcCompileProgram(program, len(options), given)
            if status:
                log = self._read("ProgramLog", program).decode(errors="replace")
                raise RuntimeError(log[:4000] or f"NVRTC ends with status {status}")
            return {what: self._read(what, program) for what in ("CUBIN", "PTX")}
        finally:
            self._call("DestroyProgram", ctypes.byref(program))

    def _read(self, what: str, program: ctypes.c_void_p) -> bytes:
        size = ctypes.c_size_t()
        self._call(f"Get{what}Size", program, ctypes.byref(size))
        text = ctypes.create_string_buffer(size.value)
        self._call(f"Get{what}", program, text)
        return text.raw

    def _call(self, name: str, *args: object) -> None:
        status = getattr(self._library, f"nvrtc{name}")(*args)
        assert status == 0, f"nvrtc{name}: {status}"


@cache
def load_nvrtc() -> Nvrtc | None:
    """The compiler; None where its wheel is not installed."""
    try:
        files = metadata.files(WHEEL) or []
    except metadata.PackageNotFoundError:
        return None
    for file in files:
        if file.name.startswith("libnvrtc.so"):
            return Nvrtc(str(file.locate()))
    return None


def compile_cubin(nvrtc: Nvrtc, source: str, architecture: str) -> bytes:
    """Compile a translation unit as CuPy does."""
    options = (f"--gpu-architecture={architecture}", *OPTIONS, "-ftz=true")
    return nvrtc.compile(source, options)["CUBIN"]
