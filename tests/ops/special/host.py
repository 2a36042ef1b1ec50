"""Compile the kernels of `scipy.special`'s functions for the host, and run them.

xsf and our own headers are C++ for both, so that the arithmetic of the device is
compared with SciPy's without one.
"""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.backends.cupy.nvrtc import Nvrtc
from workbench.ops.special.define import F
from workbench.ops.special.device import (
    HEADERS,
    ROWS,
    DeviceFunction,
    DeviceLoop,
    list_options,
)

_C = {"l": "long long", "d": "double", "D": "std::complex<double>"}
_NUMPY = {"l": np.int64, "d": np.float64, "D": np.complex128}


def cupy_headers() -> Path:
    """The folder of CuPy's headers; the test is skipped where they are not."""
    spec = find_spec("cupy")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("needs the headers of CuPy's wheel: pip install '.[gpu]'")
    return Path(spec.submodule_search_locations[0], "_core", "include")


def function_of(name: str) -> DeviceFunction:
    """A function of the table."""
    return DeviceFunction(name, getattr(F, name).ufunc)


def by_header(names: Iterable[str] = ROWS) -> dict[str, list[str]]:
    """Names of functions by the header that they need."""
    found: dict[str, list[str]] = {}
    for name in names:
        found.setdefault(ROWS[name][0], []).append(name)
    return found


def _source(name: str, loop: DeviceLoop) -> str:
    params = [f"const {_C[c]}* x{i}" for i, c in enumerate(loop.inputs)]
    params += [f"{_C[c]}* y{i}" for i, c in enumerate(loop.outputs)]
    ins = "".join(f"const {_C[c]} in{i} = x{i}[k]; " for i, c in enumerate(loop.inputs))
    outs = "".join(f"{_C[c]}& out{i} = y{i}[k]; " for i, c in enumerate(loop.outputs))
    return (
        f'extern "C" void {name}_{loop.inputs}(long count, {", ".join(params)})'
        f" {{ for (long k = 0; k < count; ++k) {{ {ins}{outs}{loop.statement}; }} }}\n"
    )


class HostLibrary:
    """Functions of one header, compiled for the host."""

    def __init__(self, names: list[str], folder: Path) -> None:
        functions = {name: function_of(name) for name in names}
        source = functions[names[0]].preamble + "\n"
        include = [f"-idirafter{HEADERS}"]
        if "cupy/" in source or "xsf_begin" in source:
            include.append(f"-I{cupy_headers()}")
        for name, function in functions.items():
            for loop in function.loops.values():
                source += _source(name, loop)
        compiler = shutil.which("g++")
        if compiler is None:
            pytest.skip("needs g++")
        path = folder / f"{names[0]}.so"
        command = [compiler, "-x", "c++", "-std=c++17", "-O1", "-w", "-fPIC", "-shared"]
        command += ["-ffp-contract=off", *include, "-o", str(path), "-"]
        done = subprocess.run(
            command, input=source, text=True, capture_output=True, check=False
        )
        assert done.returncode == 0, done.stderr[:4000]
        self._library = ctypes.CDLL(str(path))

    def call(self, name: str, loop: DeviceLoop, args: list[np.ndarray]) -> list[Any]:
        """Return the outputs of a loop, one element after the other."""
        pairs = zip(args, loop.inputs, strict=True)
        ins = [np.ascontiguousarray(a, _NUMPY[c]) for a, c in pairs]
        outs = [np.empty(args[0].shape, _NUMPY[c]) for c in loop.outputs]
        entry = self._library[f"{name}_{loop.inputs}"]
        pointers = (a.ctypes.data_as(ctypes.c_void_p) for a in [*ins, *outs])
        entry(ctypes.c_long(args[0].size), *pointers)
        return outs


def compile_for_device(nvrtc: Nvrtc, names: list[str]) -> dict[str, bytes]:
    """Compile kernels of one header for sm_90, as CuPy does; return CUBIN and PTX."""
    include = cupy_headers()
    library = include / "cupy" / "_cccl"
    folders = [include, *(library / part for part in ("libcudacxx", "cub", "thrust"))]
    toolkit = find_spec("nvidia")
    if toolkit is not None and toolkit.submodule_search_locations:
        for place in toolkit.submodule_search_locations:
            folders += sorted(Path(place).glob("c*/include"))
    source = function_of(names[0]).preamble + "\n"
    for name in names:
        for loop in function_of(name).loops.values():
            source += _source(name, loop).replace("void", "__global__ void", 1)
    source = source.replace("std::complex", "thrust::complex")
    options = [
        "--gpu-architecture=sm_90",
        "-w",
        "-DCUPY_NO_JITIFY",
        *list_options(),
    ]
    options += ["--device-as-default-execution-space", *(f"-I{f}" for f in folders)]
    return nvrtc.compile(source, options)


def find_recursive(ptx: str) -> set[str]:
    """Names of the kernels that reach a function which calls itself."""
    calls: dict[str, set[str]] = {}
    for head, body in re.findall(
        r"\.(?:func|entry)([^;{}]*)\{(.*?)^\}", ptx, re.DOTALL | re.MULTILINE
    ):
        name = re.match(r"\s*(?:\([^()]*\)\s*)?([\w$]+)", head)
        assert name is not None
        called = re.findall(r"\bcall(?:\.uni)?\s*(?:\([^()]*\),\s*)?([\w$%]+)", body)
        calls[name[1]] = set(called)
    reached = {name: set(of) for name, of in calls.items()}
    for _ in calls:
        for of in reached.values():
            of.update(*(reached.get(other, ()) for other in tuple(of)))
    loops = {name for name, of in reached.items() if name in of}
    return {name for name, of in reached.items() if of & loops}
