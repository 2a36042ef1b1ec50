"""CUDA C++ on the host: functions compiled by g++, plans run on NumPy's arrays.

`host_cuda.hpp` gives kernels their blocks and threads, which are fibers that change
places where they wait for each other. Between buffers lie bytes that nobody may touch.
"""

from __future__ import annotations

import ctypes
import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from workbench import trace
from workbench.backends.compiled.expansion import expand
from workbench.backends.compiled.kernel import Kernel, View
from workbench.backends.compiled.lowering import lower
from workbench.backends.compiled.memory import place_buffers
from workbench.backends.compiled.products import ProductStep
from workbench.backends.compiled.steps import (
    ChoiceStep,
    Held,
    HostStep,
    KernelStep,
    LoopStep,
    MoveStep,
    Plan,
    Rows,
    is_plain,
)
from workbench.backends.cupy.kernel_code import write_launches
from workbench.backends.cupy.launches import (
    ALIGNMENT,
    PRELUDE,
    Device,
    Launch,
)
from workbench.core import tree
from workbench.core.deferred import compute_op
from workbench.core.types import spec_of
from workbench.errors import CompilerError

HEADER = Path(__file__).with_name("host_cuda.hpp")
COMPILER = shutil.which("g++")
#: Most texts run once: what an optimiser takes is more than what it saves.
FLAGS = "-std=c++17 -O0 -ffp-contract=off -w -fPIC".split()
#: The bytes between buffers, and what they hold: floats of such bytes are NaN.
MARGIN, FILL = 256, 0xFF
#: A small device, so that small arrays are cut in pieces too.
SMALL = Device(processors=4, most_scratch=2**20)

Array = np.ndarray[Any, Any]


class HostModule:
    """The functions of launches, compiled for the host, once for each text.

    The header takes as long as ten functions: those of many plans at once are cheap.
    """

    _functions: dict[str, Any] = {}  # noqa: RUF012 of all modules
    _kept: list[Any] = []  # noqa: RUF012

    def __init__(self, launches: Sequence[Launch]) -> None:
        if all(x.name in self._functions for x in launches):
            return
        # Known ones too: another process has compiled the same text, maybe.
        sources = {x.name: x.source for x in launches}
        ends = [f"HOST_CUDA_KERNEL({name})" for name in sources]
        text = "\n".join([PRELUDE, *sources.values(), *ends])
        loaded = ctypes.CDLL(str(compile_host(text, "-shared")))
        for name in sources:
            function = loaded[f"{name}_launch"]
            function.restype = ctypes.c_char_p
            function.argtypes = [
                ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint, ctypes.c_void_p,
            ]  # fmt: skip
            self._functions[name] = function

    def run(self, launch: Launch, addresses: Sequence[int], order: int = 0) -> None:
        """Run a launch; ``addresses`` are those of all buffers of the plan."""
        given = np.array([addresses[i] + at for i, at in launch.pointers], np.uintp)
        places = np.arange(len(given), dtype=np.uintp) * 8 + given.ctypes.data
        shape = np.array([launch.blocks, 1, 1, launch.threads, 1, 1], np.uint32)
        error = self._functions[launch.name](
            shape.ctypes.data, 0, order, places.ctypes.data
        )
        if error:
            raise RuntimeError(f"{launch.name}: {error.decode()}")


def compile_host(text: str, *flags: str) -> Path:
    """Compile C++ with the header; what was compiled before is kept."""
    header = HEADER if flags != ("-shared",) else _compile_header()
    command = [str(COMPILER), *FLAGS, "-include", str(header), *flags]
    return _keep(text, [*command, "-x", "c++", "-"])


@cache
def _compile_header() -> Path:
    """Return a header of that name beside what the compiler has made of ours."""
    command = [str(COMPILER), *FLAGS, "-x", "c++-header", str(HEADER)]
    made = _keep("", command, ".hpp.gch")
    named = made.with_suffix("")  # nobody reads it
    named.touch()
    return named


def _keep(text: str, command: list[str], ending: str = "") -> Path:
    """Return what a command makes of a text, which is done once for all processes."""
    folder = Path(tempfile.gettempdir()) / f"workbench-host-cuda-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    key = repr((text, command, HEADER.read_bytes()))
    name = hashlib.sha256(key.encode()).hexdigest()[:24]
    made = folder / f"{name}{ending}"
    with (folder / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            part = folder / f"{name}.{os.getpid()}"
            done = subprocess.run(
                [*command, "-o", str(part)], input=text, capture_output=True, text=True
            )
            if done.returncode:
                raise RuntimeError(done.stderr[:4000])
            os.replace(part, made)
    return made


def list_kernels(plan: Plan) -> list[tuple[Kernel, Plan]]:
    """All kernels of a plan and of those inside of it, each with its plan."""
    found: list[tuple[Kernel, Plan]] = []
    for step in plan.steps:
        if isinstance(step, KernelStep):
            found.append((step.kernel, plan))
        elif isinstance(step, MoveStep):
            found += [(part, plan) for part in step.parts]
        elif isinstance(step, LoopStep):
            found += list_kernels(step.program.plan)
        elif isinstance(step, ChoiceStep):
            for program in step.programs:
                found += list_kernels(program.plan)
    return found


def write_all(plan: Plan, device: Device = SMALL) -> dict[int, list[Launch]]:
    """The launches of all kernels of a plan, by the id of each."""
    return {id(k): write_launches(k, p, device) for k, p in list_kernels(plan)}


class HostDevice:
    """A plan that runs: kernels on the host as CUDA C++, the other steps by NumPy."""

    def __init__(
        self, plan: Plan, launches: dict[int, list[Launch]] | None = None
    ) -> None:
        self.plan = plan
        self.launches = write_all(plan) if launches is None else launches
        self.size = place_buffers(plan)
        self.load([x for xs in self.launches.values() for x in xs])

    def load(self, launches: list[Launch]) -> None:
        """Compile all functions."""
        self.module = HostModule(launches)

    def run(self, args: Sequence[Any], order: int = 0) -> list[Any]:
        """Run the plan; ``order`` is that of threads: up, down or at random."""
        self.order = order
        self.memory: list[tuple[Array, int]] = []
        self.held: dict[int, Any] = {}
        block = self._allocate(self.size)
        self.bases: list[Array | None] = []
        for buffer in self.plan.buffers:
            base: Array | None = None
            if buffer.kind in ("inner", "partial", "flag"):
                if buffer.offset >= 0:
                    base = block[buffer.offset : buffer.offset + buffer.known_size]
            elif buffer.kind == "input":
                base = self._copy(np.asarray(args[buffer.place], buffer.spec.dtype))
            elif buffer.kind == "constant":
                base = self._copy(buffer.value)
            elif buffer.kind == "output":
                base = self._allocate(buffer.size)
            self.bases.append(base)
        if self.plan.flag >= 0:
            self.bases[self.plan.flag][...] = 0
        for step in self.plan.steps:
            self._run_step(step)
        for whole, size in self.memory:
            assert np.all(whole[:MARGIN] == FILL), "a write before a buffer"
            assert np.all(whole[MARGIN + size :] == FILL), "a write behind a buffer"
        return [self._read(y, copy=True) for y in self.plan.outputs]

    @property
    def flag(self) -> int:
        """What the flag holds after a run."""
        if self.plan.flag < 0:
            return 0
        return int(self.bases[self.plan.flag].view(np.int64)[0])

    def _allocate(self, size: int) -> Array:
        """Return memory between bytes that nobody may touch."""
        whole = np.full(size + 2 * MARGIN + ALIGNMENT, FILL, np.uint8)
        whole = whole[-whole.ctypes.data % ALIGNMENT :][: size + 2 * MARGIN]
        self.memory.append((whole, size))
        return whole[MARGIN : MARGIN + size]

    def _copy(self, array: Array) -> Array:
        made = self._allocate(array.nbytes)
        made[...] = np.frombuffer(array.tobytes(), np.uint8)
        return made

    def _array(self, view: View) -> Array:
        base = self.bases[view.buffer]
        assert base is not None
        dtype = np.dtype(view.kind)
        return np.ndarray(view.shape, dtype, base, view.offset, view.strides)

    def _read(self, x: Any, copy: bool = False) -> Any:
        if isinstance(x, Held):
            return self.held[x.buffer]
        if isinstance(x, Rows):
            if x.view.buffer in self.held:
                return self.held[x.view.buffer]
            count = x.view.shape[0]
            if x.length is not None:
                count = int(self._array(x.length)[()])
            shape = (count, *x.view.shape[1:])
            return self._array(x.view._replace(shape=shape)).copy()
        if not isinstance(x, View):
            return x
        array = self._array(x)
        return array[()] if not array.shape else array.copy() if copy else array

    def run_launches(self, launches: list[Launch]) -> None:
        """Run the launches of a kernel."""
        addresses = [0 if b is None else b.ctypes.data for b in self.bases]
        for launch in launches:
            self.module.run(launch, addresses, self.order)

    def _run_step(self, step: Any) -> None:
        if isinstance(step, KernelStep):
            self.run_launches(self.launches[id(step.kernel)])
        elif isinstance(step, MoveStep):
            if step.zeros >= 0:
                self.bases[step.zeros][...] = 0
            for part in step.parts:
                self.run_launches(self.launches[id(part)])
        elif isinstance(step, ProductStep):
            out = self._array(step.out)
            out[...] = np.matmul(self._array(step.a), self._array(step.b))
        else:
            self._call_numpy(step)

    def _call_numpy(self, step: HostStep | LoopStep | ChoiceStep) -> None:
        operands = [self._read(x) for x in step.operands]
        made = compute_op(step.node.op, operands, step.node.params)
        several = isinstance(step.node.spec, tuple)
        for i, value in zip(step.results, made if several else (made,), strict=True):
            buffer = self.plan.buffers[i]
            if buffer.kind == "absent":
                continue
            if buffer.kind == "growing" or not is_plain(buffer.spec, SMALL.kinds):
                self.held[i] = value
                continue
            array = np.asarray(value)
            spec = buffer.spec
            if (array.shape, array.dtype) != (tuple(spec.shape), spec.dtype):
                raise CompilerError(f"{step.node.op.name} gave no {spec}.")
            base = self.bases[i]
            if base is None:
                self.bases[i] = self._copy(array)
            else:
                base[...] = np.frombuffer(array.tobytes(), np.uint8)


def run_kernels(f: Callable[..., Any], *args: Any) -> Any:
    """What a function returns, computed by the kernels that a GPU would run."""
    leaves, _ = tree.flatten(args)
    graph = trace(f)(*args)
    specs = [spec_of(x) for x in leaves]
    plan = lower(expand(graph, specs, kinds=SMALL.kinds), SMALL)
    _, structure = tree.flatten(f(*args))
    return structure(HostDevice(plan).run(leaves))
