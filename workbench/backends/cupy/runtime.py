"""`Runtime`: the functions of a GPU that programs need; `CupyRuntime`: by CuPy.

Everything is put on CuPy's current stream and not waited for, but for `read`, which
says so. Tests have a runtime of their own, whose memory is NumPy's.
"""

from __future__ import annotations

import math
import threading
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from typing import Any, Protocol

import numpy as np

from workbench.backends.compiled.kernel import Kernel
from workbench.backends.compiled.steps import Plan
from workbench.backends.cupy.kernel_code import write_launches
from workbench.backends.cupy.launches import OPTIONS, Device, Launch, list_units
from workbench.backends.cupy.matrices import WORKSPACE, Cublas, Gemm
from workbench.core.formatting import format_bytes
from workbench.core.op import CUDA_OPTIONS, CudaCall
from workbench.errors import CompilerError, DeviceError, DeviceMemoryError

#: Arrays of so many bytes together come to the host by pinned memory, which the system
#: cannot use for anything else.
MOST_PINNED = 64 * 2**20
#: The status of CUDA's errors where memory does not suffice.
NO_MEMORY = 2
#: What the status of a CUDA error is after which nothing works on the GPU.
STICKY = frozenset({214, 700, 709, 710, 714, 715, 716, 717, 718, 719, 721, 999})

_AS_IT_IS = nullcontext()

Address = int
Array = Any


class Reading(Protocol):
    """A word of the GPU that is being copied to the host."""

    def is_done(self) -> bool:
        """Return whether the word has arrived."""

    def wait(self) -> int:
        """Wait for the word to arrive, and return its value."""


class Pending:
    """The words on their way to the host that say if an index was out of bounds.

    They are kept apart from the programs, which may be gone before a word arrives.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        #: For each list of nodes, in words, the readings of their calls in order.
        self._readings: dict[str, deque[Reading]] = {}

    def add(self, nodes: str, reading: Reading) -> None:
        """Keep the reading of a call of these nodes."""
        with self._lock:
            self._readings.setdefault(nodes, deque()).append(reading)

    def check(self, nodes: str, wait: bool = False) -> None:
        """Raise an error if an index was out of bounds in a call of these nodes.

        Parameters
        ----------
        nodes
            Which, in words.
        wait
            Wait for the calls that are not done, and not only look at the others.
        """
        while (reading := self._take(nodes, wait)) is not None:
            if reading.wait():
                with self._lock:
                    others = self._readings.pop(nodes, ())
                for other in others:  # their words are written to until they arrive
                    other.wait()
                raise DeviceError(
                    f"an index was out of bounds in an earlier call: of {nodes}. The"
                    " GPU computed with index 0 in its place, so the result of that"
                    " call is not NumPy's. Call it with wb.to_cpu of the arguments,"
                    " and NumPy says which index it is."
                )

    def check_all(self) -> None:
        """Wait for all calls; raise an error if an index was out of bounds in one."""
        with self._lock:
            known = list(self._readings)
        for nodes in known:
            self.check(nodes, wait=True)

    def _take(self, nodes: str, wait: bool) -> Reading | None:
        with self._lock:
            readings = self._readings.get(nodes)
            if readings is None or not (wait or readings[0].is_done()):
                return None
            reading = readings.popleft()
            if not readings:
                del self._readings[nodes]
            return reading


class Runtime(Protocol):
    """What a program asks of a device.

    Attributes
    ----------
    name
        Of the device, as its maker calls it.
    description
        What the lowering of a graph, and kernels, must know of it.
    reads
        How many words the host has waited for.
    failure
        Why the device computes no more; None: it does.
    pending
        What calls have still to say about their indices.
    """

    name: str
    description: Any
    reads: int
    failure: str | None
    pending: Pending

    def owns(self, x: object) -> bool:
        """Return whether an array lies in the memory of this device."""

    def make_array(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """Return a new array, with entries that are not set."""

    def view(
        self, base: Array, offset: int, shape: tuple[int, ...],
        strides: tuple[int, ...], dtype: np.dtype[Any],
    ) -> Array:  # fmt: skip
        """Return an array in the memory of another, so many bytes further on."""

    def find_address(self, array: Array) -> Address:
        """Return where an array begins."""

    def pack(self, array: Array) -> Array:
        """Return a contiguous array: the same one, or a copy."""

    def upload(self, array: Any) -> Array:
        """Return a copy of an array of NumPy's on the device."""

    def download(self, arrays: Sequence[Array]) -> list[Any]:
        """Return copies of arrays as NumPy's; they are waited for together."""

    def fill(self, array: Array, number: Any) -> None:
        """Set all entries to a number of the host."""

    def write_number(self, address: Address, number: int) -> None:
        """Write an integer of eight bytes that the host knows."""

    def clear(self, address: Address, size: int) -> None:
        """Set bytes to zero."""

    def copy(self, target: Address, source: Address, size: int) -> None:
        """Copy bytes on the device."""

    def read(self, address: Address, dtype: np.dtype[Any]) -> int:
        """Wait for all that is to be done, and return a number from the device."""

    def read_later(self, address: Address) -> Reading:
        """Begin to copy a word of eight bytes to the host."""

    def write(self, kernel: Kernel, plan: Plan) -> Sequence[Launch]:
        """Return the launches that compute a kernel of a plan."""

    def load(self, launches: Sequence[Launch]) -> list[Callable[..., None]]:
        """Return for each launch a function of the addresses of its pointers."""

    def load_call(self, call: CudaCall) -> Callable[..., None]:
        """Return a launcher of a user's kernel, given the addresses of arrays.

        Raises
        ------
        CompilerError
            If its source does not compile.
        """

    def multiply(self, gemm: Gemm, addresses: Sequence[Address]) -> None:
        """Multiply matrices that begin at these addresses."""

    def capture(self, run: Callable[[], None], workspace: Array) -> Callable[[], None]:
        """Return a function that repeats the stream work of ``run``.

        Parameters
        ----------
        run
            It puts work on a stream that is the current one meanwhile.
        workspace
            The memory that cuBLAS works in whenever it is repeated; None: it is not
            called.

        Raises
        ------
        CompilerError
            If it cannot be captured.
        """

    def time(self, run: Callable[[], None]) -> float:
        """Run ``run``, wait for its stream work, and return the seconds."""

    def settle(self) -> None:
        """Wait until all that was put on the stream is done."""

    def find_stream(self) -> Any:
        """Return the stream that work is put on."""

    def mark(self, mark: Any = None) -> Any:
        """Return a mark behind the work on the current stream; move one there."""

    def follow(self, mark: Any) -> None:
        """Let later work on the current stream wait for the work before a mark."""

    def wait(self, mark: Any) -> None:
        """Wait for the work before a mark."""

    def guard(self) -> Any:
        """Return a context in which errors of the device are errors of Workbench's."""

    def use(self) -> Any:
        """Return a context in which this device is the current one of the thread."""

    def free(self) -> None:
        """Give memory back that nobody uses."""

    def describe_memory(self) -> str:
        """Return in words how much memory there is."""


class CupyRuntime:
    """A GPU by CuPy."""

    def __init__(self, number: int = 0) -> None:
        self.cupy: Any = import_module("cupy")
        self._cuda = self.cupy.cuda
        self._api = self._cuda.runtime
        self.number = number
        properties = self._api.getDeviceProperties(number)
        self.name: str = properties["name"].decode()
        self.description = Device(int(properties["multiProcessorCount"]))
        self.reads = 0
        self.failure: str | None = None
        self.pending = Pending()
        self._guard = _Guard(self)
        self._cublas: Cublas | None = None
        self._cublas_missing = False
        #: The modules of living programs: each of their kernels holds its own.
        self._modules: weakref.WeakValueDictionary[str, _Module] = (
            weakref.WeakValueDictionary()
        )
        self._lock = threading.Lock()
        #: Of each thread that captures, the work memory of cuBLAS by its stream.
        self._local = threading.local()

    # Arrays

    def owns(self, x: object) -> bool:
        """Return whether an array lies in the memory of this device."""
        return isinstance(x, self.cupy.ndarray) and x.data.device_id == self.number

    def make_array(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """Return a new array, with entries that are not set."""
        return self.cupy.ndarray(shape, dtype)

    def view(
        self, base: Array, offset: int, shape: tuple[int, ...],
        strides: tuple[int, ...], dtype: np.dtype[Any],
    ) -> Array:  # fmt: skip
        """Return an array in the memory of another, so many bytes further on."""
        return self.cupy.ndarray(shape, dtype, base.data + offset, strides)

    def find_address(self, array: Array) -> Address:
        """Return where an array begins."""
        return int(array.data.ptr)

    def pack(self, array: Array) -> Array:
        """Return a contiguous array: the same one, or a copy."""
        if array.flags.c_contiguous:
            return array
        return self.cupy.ascontiguousarray(array)

    def upload(self, array: Any) -> Array:
        """Return a copy of an array of NumPy's on the device.

        CuPy copies it to pinned memory, and from there while the host goes on. What is
        pinned already, and may be written to meanwhile, is waited for.
        """
        is_pinned = self._cuda.pinned_memory.is_memory_pinned
        blocking = isinstance(array, np.ndarray) and is_pinned(array.ctypes.data)
        return self.cupy.asarray(array, order="C", blocking=blocking)

    def download(self, arrays: Sequence[Array]) -> list[Any]:
        """Return copies of arrays as NumPy's; they are waited for together.

        They go to pinned memory one after the other, and from there to memory that is
        not; large ones, and all where no memory can be pinned, directly.
        """
        made: list[Any] = [None] * len(arrays)
        room = MOST_PINNED
        try:
            for k, array in enumerate(arrays):
                if 0 < array.nbytes <= room:
                    made[k] = self._pin(array.shape, array.dtype)
                if made[k] is not None:
                    room -= array.nbytes
                    array.get(out=made[k], blocking=False)
        finally:  # the memory is written to until then, also if an interrupt comes
            self.find_stream().synchronize()
        for k, array in enumerate(arrays):
            made[k] = array.get() if made[k] is None else made[k].copy()
        return made

    def _pin(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        """Return an array of NumPy's in pinned memory; None if there is none left."""
        size = math.prod(shape) * dtype.itemsize
        try:
            memory = self._cuda.alloc_pinned_memory(size)
        except self._api.CUDARuntimeError:
            return None
        return np.ndarray(shape, dtype, memory)

    def fill(self, array: Array, number: Any) -> None:
        """Set all entries to a number of the host."""
        array.fill(number)

    def write_number(self, address: Address, number: int) -> None:
        """Write an integer of eight bytes that the host knows."""
        memory = self._cuda.UnownedMemory(address, 8, self, self.number)
        place = self._cuda.MemoryPointer(memory, 0)
        self.cupy.ndarray((), np.int64, place).fill(number)

    def clear(self, address: Address, size: int) -> None:
        """Set bytes to zero."""
        self._api.memsetAsync(address, 0, size, self.find_stream().ptr)

    def copy(self, target: Address, source: Address, size: int) -> None:
        """Copy bytes on the device."""
        kind = self._api.memcpyDeviceToDevice
        self._api.memcpyAsync(target, source, size, kind, self.find_stream().ptr)

    def read(self, address: Address, dtype: np.dtype[Any]) -> int:
        """Wait for all that is to be done, and return a number from the device."""
        self.reads += 1
        stream = self.find_stream()
        word = self._cuda.alloc_pinned_memory(dtype.itemsize)
        kind = self._api.memcpyDeviceToHost
        self._api.memcpyAsync(word.ptr, address, dtype.itemsize, kind, stream.ptr)
        stream.synchronize()
        return int(np.frombuffer(word, dtype, 1)[0])

    def read_later(self, address: Address) -> Reading:
        """Begin to copy a word of eight bytes to the host."""
        stream = self.find_stream()
        word = self._cuda.alloc_pinned_memory(8)
        kind = self._api.memcpyDeviceToHost
        self._api.memcpyAsync(word.ptr, address, 8, kind, stream.ptr)
        return _PinnedReading(self, word, stream.record())

    # Work

    def write(self, kernel: Kernel, plan: Plan) -> Sequence[Launch]:
        """Return the launches that compute a kernel of a plan."""
        return write_launches(kernel, plan, self.description)

    def load(self, launches: Sequence[Launch]) -> list[Callable[..., None]]:
        """Return for each launch a function of the addresses of its pointers."""
        functions: dict[str, tuple[Any, _Module]] = {}
        for unit in list_units(launches):
            with self._lock:
                module = self._modules.get(unit.key)
                if module is None:
                    raw = self.cupy.RawModule(code=unit.source, options=OPTIONS)
                    module = self._modules[unit.key] = _Module(raw)
            for name in unit.names:
                functions[name] = module.raw.get_function(name), module
        made: list[Callable[..., None]] = []
        for one in launches:
            function, module = functions[one.name]
            made.append(_Kernel(function, one, module))
        return made

    def load_call(self, call: CudaCall) -> Callable[..., None]:
        """Return a launcher of a user's kernel, given the addresses of arrays."""
        module = self.cupy.RawModule(code=call.source, options=CUDA_OPTIONS)
        try:
            function = module.get_function(call.name)
        except self._cuda.compiler.CompileException as error:
            raise CompilerError(f"{call.name} does not compile: {error}") from error
        grid, block = (call.blocks,), (call.threads,)
        return lambda *places: function(grid, block, (*places, *call.numbers))

    def multiply(self, gemm: Gemm, addresses: Sequence[Address]) -> None:
        """Multiply matrices that begin at these addresses."""
        blas = self._find_cublas()
        handle = self._cuda.device.get_cublas_handle()
        stream: int = self.find_stream().ptr
        workspace = getattr(self._local, "workspace", None)
        memory = () if workspace is None else (self.find_address(workspace), WORKSPACE)
        blas.select_stream(handle, stream, *memory)
        blas.multiply(handle, gemm, addresses)

    def _find_cublas(self) -> Cublas:
        if self._cublas is None:
            if self._cublas_missing:
                raise CompilerError("cuBLAS is not in this process.")
            self._cuda.device.get_cublas_handle()  # loads it
            try:
                self._cublas = Cublas(self._api.runtimeGetVersion() // 1000)
            except (OSError, AttributeError) as error:
                self._cublas_missing = True
                raise CompilerError(f"cuBLAS cannot be called: {error}") from error
        return self._cublas

    def capture(self, run: Callable[[], None], workspace: Array) -> Callable[[], None]:
        """Return a function that repeats the stream work of ``run``.

        It has been run before, so that nothing is loaded or made ready any more.
        """
        handle, blas = 0, None
        if workspace is not None:
            blas = self._find_cublas()
            handle = self._cuda.device.get_cublas_handle()
        outer = self.find_stream()
        graph, stream = None, self._cuda.Stream(non_blocking=True)
        with stream:
            stream.begin_capture()
            try:
                self._local.workspace = workspace
                run()
                graph = stream.end_capture()
            except BaseException as error:  # an interrupt ends the capture too
                if graph is None:
                    _end_capture(stream)
                if not isinstance(error, Exception):
                    raise
                raise CompilerError(f"it cannot be captured: {error}") from error
            finally:
                self._local.workspace = None
                if blas is not None:
                    blas.select_stream(handle, outer.ptr)
        graph.upload(outer)
        return _Replay(graph, workspace)

    def time(self, run: Callable[[], None]) -> float:
        """Run ``run``, wait for its stream work, and return the seconds."""
        stream = self.find_stream()
        start = self._cuda.Event()
        stop = self._cuda.Event()
        stream.record(start)
        run()
        stream.record(stop)
        stop.synchronize()
        return float(self._cuda.get_elapsed_time(start, stop)) * 1e-3

    def settle(self) -> None:
        """Wait until all that was put on the stream is done."""
        self.find_stream().synchronize()

    def find_stream(self) -> Any:
        """Return the stream that work is put on."""
        return self._cuda.get_current_stream()

    def mark(self, mark: Any = None) -> Any:
        """Return a mark behind the work on the current stream; move one there."""
        event = self._cuda.Event(disable_timing=True) if mark is None else mark
        self.find_stream().record(event)
        return event

    def follow(self, mark: Any) -> None:
        """Let later work on the current stream wait for the work before a mark."""
        self.find_stream().wait_event(mark)

    def wait(self, mark: Any) -> None:
        """Wait for the work before a mark."""
        mark.synchronize()

    def use(self) -> AbstractContextManager[Any]:
        """Return a context in which this device is the current one of the thread."""
        if self._api.getDevice() == self.number:
            return _AS_IT_IS
        device: AbstractContextManager[Any] = self._cuda.Device(self.number)
        return device

    # Memory and errors

    def free(self) -> None:
        """Give memory back that nobody uses."""
        self.cupy.get_default_memory_pool().free_all_blocks()
        self.cupy.get_default_pinned_memory_pool().free_all_blocks()

    def describe_memory(self) -> str:
        """Return in words how much memory there is."""
        free, whole = self._api.memGetInfo()
        return f"{format_bytes(free)} of {format_bytes(whole)} of {self.name} are free"

    def guard(self) -> _Guard:
        """Return a context in which errors of the device are errors of Workbench's."""
        return self._guard

    def translate(self, error: BaseException) -> DeviceError | None:
        """Return an error of CUDA's as Workbench's; None for any other error."""
        if isinstance(error, self._cuda.memory.OutOfMemoryError):
            return DeviceMemoryError(str(error))
        kinds = self._api.CUDARuntimeError, self._cuda.driver.CUDADriverError
        if not isinstance(error, kinds):
            return None
        status = getattr(error, "status", 0)
        if status == NO_MEMORY:
            return DeviceMemoryError(str(error))
        if status not in STICKY:
            return DeviceError(
                f"CUDA refused a step on {self.name}: {error}. Nothing was changed; the"
                " call can be tried again, or the arrays brought to the CPU with"
                " wb.to_cpu."
            )
        self.failure = (
            f"{self.name} has stopped: {error}. What lies in its memory is lost, and"
            " this process cannot use it again. Programs and sessions on NumPy's arrays"
            " go on as before; to use the GPU again, restart the kernel"
        )
        return DeviceError(f"{self.failure}.")


class _Guard:
    """A context in which errors of the device are errors of Workbench's."""

    def __init__(self, runtime: CupyRuntime) -> None:
        self._runtime = runtime

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: object, error: BaseException | None, where: object
    ) -> None:
        if error is not None:
            told = self._runtime.translate(error)
            if told is not None:
                raise told from error


def _end_capture(stream: Any) -> None:
    try:
        stream.end_capture()
    except Exception:  # what was captured until then is of no use
        return


class _Module:
    """A module of CuPy's, which itself cannot be the target of a weak reference."""

    def __init__(self, raw: Any) -> None:
        self.raw = raw


class _Kernel:
    """A launch, ready for the addresses of its pointers."""

    def __init__(self, function: Any, launch: Launch, module: _Module) -> None:
        self._function = function
        self._module = module
        self._grid = (launch.blocks,)
        self._block = (launch.threads,)

    def __call__(self, *addresses: Address) -> None:
        self._function(self._grid, self._block, addresses)


class _Replay:
    """A CUDA graph, and its memory."""

    def __init__(self, graph: Any, workspace: Any) -> None:
        self._launch = graph.launch
        self._graph = graph
        self._workspace = workspace

    def __call__(self) -> None:
        self._launch()


class _PinnedReading:
    """A word on its way to pinned memory."""

    def __init__(self, runtime: CupyRuntime, word: Any, event: Any) -> None:
        self._runtime = runtime
        self._word = word
        self._event = event

    def is_done(self) -> bool:
        """Return whether the word has arrived."""
        return bool(self._event.done)

    def wait(self) -> int:
        """Wait for the word to arrive, and return its value."""
        if not self._event.done:
            self._runtime.reads += 1
            self._event.synchronize()
        return int(np.frombuffer(self._word, np.int64, 1)[0])
