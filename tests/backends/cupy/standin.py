"""A runtime whose device is this machine: NumPy's memory, kernels compiled by g++.

It records what a program asks of the device, and counts each time an array of the
device is read by the host.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from tests.backends.cupy.host import SMALL, HostModule, compile_host
from workbench.backends.compiled.kernel import Kernel
from workbench.backends.compiled.steps import Plan
from workbench.backends.cupy.kernel_code import write_launches
from workbench.backends.cupy.launches import ALIGNMENT, Launch
from workbench.backends.cupy.matrices import Gemm
from workbench.backends.cupy.runtime import Pending
from workbench.core.op import CudaCall
from workbench.errors import CompilerError, DeviceMemoryError

#: What CuPy's pool gives begins at multiples of so many bytes.
PAGE = 512


class DeviceArray(np.ndarray):  # type: ignore[type-arg]
    """An array of the device; what brings it to the host is counted."""

    __module__ = "numpy"  # whose functions compute with it
    transfers = 0

    def _count(self) -> np.ndarray[Any, Any]:
        DeviceArray.transfers += 1
        return self.view(np.ndarray)

    def __float__(self) -> float:
        return float(self._count())

    def __int__(self) -> int:
        return int(self._count())

    def __bool__(self) -> bool:
        return bool(self._count())

    def __index__(self) -> int:
        return int(self._count())

    def __complex__(self) -> complex:
        return complex(self._count())

    def get(self) -> np.ndarray[Any, Any]:
        return self._count().copy()

    def item(self, *args: Any) -> Any:
        return self._count().item(*args)

    def tolist(self) -> Any:
        return self._count().tolist()


def allocate(shape: tuple[int, ...], dtype: Any) -> DeviceArray:
    """An array that holds nonsense, as new memory of a device does."""
    dtype = np.dtype(dtype)
    size = int(np.prod(shape)) * dtype.itemsize
    whole = np.full(size + PAGE, 0xA5, np.uint8)
    start = -whole.ctypes.data % PAGE
    made = whole[start : start + size].view(dtype).reshape(shape)
    return made.view(DeviceArray)


class Reading:
    """A word that arrives when it is asked for, or when `arrive` is called."""

    def __init__(self, value: int) -> None:
        self.value = value
        self.arrived = False

    def is_done(self) -> bool:
        return self.arrived

    def wait(self) -> int:
        self.arrived = True
        return self.value


class Standin:
    """A device for tests; see `workbench.backends.cupy.runtime.Runtime`.

    Attributes
    ----------
    log
        What was put on the stream, in words, in order.
    failing
        How many allocations will fail.
    """

    name = "a device of tests"
    description = SMALL

    def __init__(self) -> None:
        self.reads = 0
        self.failure: str | None = None
        self.pending = Pending()
        self.log: list[str] = []
        self.readings: list[Reading] = []
        self.failing = 0
        self.freed = 0
        self.captures = 0
        self.workspaces: set[int] = set()
        self.refuses_capture = False
        self._workspace: Any = None
        #: What is being captured.
        self._recorded: list[Callable[[], None]] | None = None
        self._local = threading.local()

    def _check_current(self) -> None:
        """What is asked of a GPU goes to the one that is current in the thread."""
        assert getattr(self._local, "depth", 0), "another device is the current one"

    def _do(self, what: str, run: Callable[[], None]) -> None:
        self._check_current()
        if self._recorded is not None:
            self._recorded.append(run)
            return
        self.log.append(what)
        run()

    def owns(self, x: object) -> bool:
        return isinstance(x, DeviceArray)

    def make_array(self, shape: tuple[int, ...], dtype: Any) -> Any:
        if self._recorded is not None:
            raise CompilerError("memory is asked for while work is captured")
        if self.failing:
            self.failing -= 1
            raise MemoryError("Out of memory allocating 8,000 bytes")
        return allocate(shape, dtype)

    def view(self, base: Any, offset: int, shape: Any, strides: Any, dtype: Any) -> Any:
        return np.ndarray.__new__(DeviceArray, shape, dtype, base, offset, strides)

    def find_address(self, array: Any) -> int:
        address: int = array.__array_interface__["data"][0]
        return address

    def pack(self, array: Any) -> Any:
        if array.flags.c_contiguous:
            return array
        made = self.make_array(array.shape, array.dtype)
        made[...] = array
        return made

    def upload(self, array: Any) -> Any:
        array = np.asarray(array)
        made = allocate(array.shape, array.dtype)
        made[...] = array
        return made

    def download(self, arrays: Sequence[Any]) -> list[Any]:
        self._check_current()
        self.reads += 1
        return [np.array(array.view(np.ndarray)) for array in arrays]

    def fill(self, array: Any, number: Any) -> None:
        def run() -> None:
            array[...] = number

        self._do("fill", run)

    def write_number(self, address: int, number: int) -> None:
        def run() -> None:
            ctypes.c_int64.from_address(address).value = number

        self._do("number", run)

    def clear(self, address: int, size: int) -> None:
        self._do("clear", lambda: void(ctypes.memset(address, 0, size)))

    def copy(self, target: int, source: int, size: int) -> None:
        self._do("copy", lambda: void(ctypes.memmove(target, source, size)))

    def read(self, address: int, dtype: Any) -> int:
        if self._recorded is not None:
            raise CompilerError("the host waits while work is captured")
        self.reads += 1
        data = ctypes.string_at(address, np.dtype(dtype).itemsize)
        return int(np.frombuffer(data, dtype)[0])

    def read_later(self, address: int) -> Reading:
        self._check_current()
        self.readings.append(Reading(ctypes.c_int64.from_address(address).value))
        return self.readings[-1]

    def write(self, kernel: Kernel, plan: Plan) -> Sequence[Launch]:
        return write_launches(kernel, plan, self.description)

    def load(self, launches: Sequence[Launch]) -> list[Callable[..., None]]:
        module = HostModule(launches)

        def make(launch: Launch) -> Callable[..., None]:
            given = tuple((k, 0) for k in range(len(launch.pointers)))
            own = launch._replace(pointers=given)

            def run(*addresses: int) -> None:
                for address, (_, offset) in zip(
                    addresses, launch.pointers, strict=True
                ):
                    # A GPU stops at a pack of entries that lies at an odd place.
                    assert (address - offset) % ALIGNMENT == 0
                self._do(launch.name, lambda: module.run(own, addresses))

            return run

        return [make(launch) for launch in launches]

    def load_call(self, call: CudaCall) -> Callable[..., None]:
        text = f"{call.source}\nHOST_CUDA_KERNEL({call.name})"
        library = ctypes.CDLL(str(compile_host(text, "-shared")))
        function = library[f"{call.name}_launch"]
        function.restype = ctypes.c_char_p
        function.argtypes = [
            ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint, ctypes.c_void_p,
        ]  # fmt: skip
        shape = np.array([call.blocks, 1, 1, call.threads, 1, 1], np.uint32)

        def launch(values: list[np.ndarray[Any, Any]]) -> None:
            places = np.array([x.ctypes.data for x in values], np.uintp)
            error = function(shape.ctypes.data, 0, 2, places.ctypes.data)
            assert not error, error

        def run(*addresses: int) -> None:
            values = [np.array(x, np.uintp) for x in addresses]
            values += [np.array(x) for x in call.numbers]
            self._do(call.name, lambda: launch(values))

        return run

    def multiply(self, gemm: Gemm, addresses: Sequence[int]) -> None:
        if self._recorded is not None:
            assert self._workspace is not None, "a product is captured without memory"
            self.workspaces.add(self.find_address(self._workspace))
        self._do("product", lambda: multiply(gemm, addresses))

    def capture(self, run: Callable[[], None], workspace: Any) -> Callable[[], None]:
        if self.refuses_capture:
            raise CompilerError("it cannot be captured: not here")
        self.captures += 1
        self._workspace = workspace
        self._recorded = recorded = []
        try:
            run()
        finally:
            self._recorded = None

        def replay() -> None:
            self.log.append("graph")
            for one in recorded:
                one()

        return replay

    def time(self, run: Callable[[], None]) -> float:
        run()
        return 1e-3

    def settle(self) -> None:
        pass

    def find_stream(self) -> Any:
        return "the stream"

    def mark(self, mark: Any = None) -> Any:
        return self.find_stream()

    def follow(self, mark: Any) -> None:
        if mark != self.find_stream():  # work on one stream is in order
            self.log.append(f"follow {mark}")

    def wait(self, mark: Any) -> None:
        self.log.append(f"wait for {mark}")

    @contextmanager
    def guard(self) -> Iterator[None]:
        try:
            yield
        except MemoryError as error:
            raise DeviceMemoryError(str(error)) from error

    @contextmanager
    def use(self) -> Iterator[None]:
        self._local.depth = getattr(self._local, "depth", 0) + 1
        try:
            yield
        finally:
            self._local.depth -= 1

    def free(self) -> None:
        self.freed += 1

    def describe_memory(self) -> str:
        return "1 MB of 2 MB of a device of tests are free"


def void(x: object) -> None:
    """Nothing: for calls of C that give something."""


def multiply(gemm: Gemm, addresses: Sequence[int]) -> None:
    """What cuBLAS does, with its columns, leading dimensions and steps."""
    dtype = np.dtype(gemm.kind)
    size = dtype.itemsize

    def read(k: int, rows: int, columns: int) -> Any:
        lead, step = gemm.leading[k] * size, gemm.steps[k] * size
        assert gemm.leading[k] >= rows
        extent = (columns - 1) * lead + (gemm.products - 1) * step + rows * size
        memory = (ctypes.c_char * extent).from_address(addresses[k])
        shape, strides = (gemm.products, rows, columns), (step, size, lead)
        return np.ndarray(shape, dtype, memory, 0, strides)

    m, n, k = gemm.rows, gemm.columns, gemm.depth
    a = read(0, *((k, m) if gemm.turned[0] else (m, k)))
    b = read(1, *((n, k) if gemm.turned[1] else (k, n)))
    a = a.swapaxes(1, 2) if gemm.turned[0] else a
    b = b.swapaxes(1, 2) if gemm.turned[1] else b
    read(2, m, n)[...] = a @ b
