"""Kernels of plans on an NVIDIA GPU: as on the host, bit by bit the same each time.

The speeds of large ones are among the closing lines of a run, beside that of a copy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.backends.compiled.accuracy import check_accuracy
from tests.backends.compiled.programs import trace
from tests.backends.cupy.host import MARGIN, HostDevice, write_all
from tests.backends.cupy.test_kernels import PROGRAMS, draw, make, plan_program
from tests.gpu.device import cupy, needed
from workbench.backends.compiled.expansion import expand
from workbench.backends.compiled.lowering import lower
from workbench.backends.cupy.launches import OPTIONS, Device, Launch, compile_unit
from workbench.core.types import spec_of

pytestmark = needed()


class Functions:
    """The functions of launches, compiled by CuPy once."""

    def __init__(self, launches: list[Launch]) -> None:
        unit = compile_unit(launches)
        module = cupy.RawModule(code=unit.source, options=OPTIONS)
        self._functions = {name: module.get_function(name) for name in unit.names}

    def launch(self, launch: Launch, addresses: list[int]) -> None:
        given = tuple(np.uint64(addresses[i] + at) for i, at in launch.pointers)
        self._functions[launch.name]((launch.blocks,), (launch.threads,), given)


class CopiedDevice(HostDevice):
    """A plan whose kernels run on the GPU, on copies of the host's memory."""

    def load(self, launches: list[Launch]) -> None:
        self.functions = Functions(launches)

    def run_launches(self, launches: list[Launch]) -> None:
        copies = [(whole, cupy.asarray(whole)) for whole, _ in self.memory]
        addresses = []
        for base in self.bases:
            address = 0 if base is None else base.ctypes.data
            for whole, copy in copies:
                at = address - whole.ctypes.data
                if MARGIN <= at <= whole.nbytes - MARGIN:
                    address = copy.data.ptr + at
                    break
            addresses.append(address)
        for launch in launches:
            self.functions.launch(launch, addresses)
        for whole, copy in copies:
            whole[...] = copy.get()


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str, rng: np.random.Generator) -> None:
    f, args = make(PROGRAMS[name], draw(rng))
    plan, want = plan_program(f, args)
    device = CopiedDevice(plan)
    results = []
    for _ in range(3):
        got = device.run(args)
        assert device.flag == 0
        check_accuracy(plan.graph, args, got, want)
        results.append([np.asarray(a).tobytes() for a in got])
    assert all(one == results[0] for one in results)


def test_subnormal_singles_are_zero() -> None:
    """CuPy compiles with ``-ftz=true``: kernels agree with its own, not with NumPy."""
    tiny = np.array([1e-39, -1e-39, 1e-37], np.float32)
    truth = cupy.asnumpy(cupy.asarray(tiny) * np.float32(0.5))
    np.testing.assert_array_equal(truth, [0, 0, np.float32(1e-37) * np.float32(0.5)])
    for given in (tiny, np.array([1e-310, -1e-310, 1e-300])):
        plan, want = plan_program(lambda x: x * 0.5, [given])
        (found,) = CopiedDevice(plan).run([given])
        if given is tiny:
            want = [truth]
        np.testing.assert_array_equal(np.asarray(found), np.asarray(want[0]))


N = 2**25
#: Programs of x, y (4096, 8192), s of float32, i (2**22,), w (N / 8, 8); and how many
#: bytes they must move.
LARGE: dict[str, tuple[Callable[..., Any], str, int]] = {
    "copy": (lambda x: x * 1.0, "x", 16 * N),
    "chain": (lambda x, y: np.exp(-x * x) * np.sin(y) + np.tanh(x * y), "xy", 24 * N),
    "chain of singles": (lambda s: np.exp(-s * s) * np.sin(s), "s", 8 * N),
    "gradient": (
        lambda x, y: wb.grad(lambda a: np.sum(np.tanh(a * y) ** 2))(x), "xy", 24 * N,
    ),
    "broadcast": (lambda x: x * x[:1] + x[:, :1], "x", 16 * N),
    "transpose": (lambda x: x.T + 1.0, "x", 16 * N),
    "total": (lambda x, y: np.sum(x * y), "xy", 16 * N),
    "total of singles": (lambda s: np.sum(s), "s", 4 * N),
    "rows": (lambda x: np.sum(x, 1), "x", 8 * N),
    "columns": (lambda x: np.sum(x, 0), "x", 8 * N),
    "short rows": (lambda w: np.sum(w, 1), "w", 8 * N),
    "few columns": (lambda w: np.sum(w, 0), "w", 8 * N),
    "softmax": (
        lambda x: np.exp(x - np.max(x, 1, keepdims=True)), "x", 24 * N,
    ),
    "take": (lambda x, i: np.reshape(x, -1)[i], "xi", 24 * 2**22),
    "add to many": (
        lambda x, i: wb.at(np.reshape(x, -1))[i].add(1.0), "xi", 24 * 2**22,
    ),
    "add to few": (lambda x, i: wb.at(x[0])[i % 999].add(1.0), "xi", 8 * 2**22),
    "set rows": (lambda x, i: wb.at(x)[i[:999] % 4096].set(1.0), "xi", 8 * 999 * 8192),
    "set many": (lambda x, i: wb.at(x[0])[i[:2**16] % 999].set(1.0), "xi", 8 * 2**16),
    "running": (lambda x: np.cumsum(np.reshape(x, -1)), "x", 16 * N),
    "running rows": (lambda x: np.cumsum(x, 1), "x", 16 * N),
}  # fmt: skip


@pytest.mark.parametrize("name", LARGE)
def test_speeds(name: str, measured: Callable[[str], None]) -> None:
    f, names, size = LARGE[name]
    device = Device(cupy.cuda.runtime.getDeviceProperties(0)["multiProcessorCount"])
    x = cupy.random.standard_normal((4096, 8192))
    given = {
        "x": x, "y": x * 0.5 + 1, "s": x.astype("f4"), "w": cupy.reshape(x, (-1, 8)),
        "i": cupy.random.randint(0, N, 2**22),
    }  # fmt: skip
    args = [given[n] for n in names]
    specs = [wb.Spec(a.shape, a.dtype) for a in args]
    graph = trace(f, specs)
    given_specs = [spec_of(s) for s in specs]
    plan = lower(expand(graph, given_specs, kinds=device.kinds), device)
    launches = write_all(plan, device)
    functions = Functions([x for xs in launches.values() for x in xs])
    arrays = []
    for buffer in plan.buffers:
        if buffer.kind == "input":
            arrays.append(args[buffer.place])
        elif buffer.kind == "constant":
            arrays.append(cupy.asarray(buffer.value))
        else:
            arrays.append(cupy.zeros(max(buffer.size, 1), np.uint8))
    addresses = [a.data.ptr for a in arrays]
    each: dict[str, float] = {}

    def run() -> float:
        total = 0.0
        for several in launches.values():
            for launch in several:
                begin, end = cupy.cuda.Event(), cupy.cuda.Event()
                begin.record()
                functions.launch(launch, addresses)
                end.record()
                end.synchronize()
                took = cupy.cuda.get_elapsed_time(begin, end)
                each[launch.name] = min(took, each.get(launch.name, np.inf))
                total += took
        return total

    best = min(run() for _ in range(7))
    parts = ", ".join(f"{k.split('_')[0]} {1e3 * t:.0f}" for k, t in each.items())
    measured(f"{name}: {1e3 * best:.0f} us ({parts}), {size / best / 1e6:.0f} GB/s")
