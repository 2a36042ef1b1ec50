"""What is said where there is no GPU, and how arrays go there and back."""

from __future__ import annotations

import gc
import sys
import threading
import types
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.backends.cupy.standin import DeviceArray, Reading, Standin
from tests.gpu.stand_in import Foreign
from workbench.backends.cupy import devices
from workbench.backends.cupy.devices import find_problem
from workbench.backends.cupy.functions import CupyFunction
from workbench.backends.cupy.launches import Launch
from workbench.backends.cupy.runtime import CupyRuntime
from workbench.errors import DeviceError, DeviceMemoryError, DtypeError, UsageError


class CudaError(RuntimeError):
    """An error of CUDA's, as CuPy raises it."""

    def __init__(self, status: int, text: str = "cudaErrorOfTest") -> None:
        super().__init__(text)
        self.status = status


def fake_cupy(
    monkeypatch: pytest.MonkeyPatch,
    *,
    driver: int = 13020,
    built: int = 13000,
    count: int = 1,
    status: int = 0,
    nvrtc: bool = True,
) -> None:
    """Put something in CuPy's place that answers what is asked before a GPU is used."""

    def count_devices() -> int:
        if status:
            raise CudaError(status)
        return count

    def get_version() -> tuple[int, int]:
        if not nvrtc:
            raise RuntimeError("libnvrtc.so.13: cannot open shared object file")
        return 13, 0

    api = types.SimpleNamespace(
        CUDARuntimeError=CudaError,
        runtimeGetVersion=lambda: built,
        driverGetVersion=lambda: driver,
        getDeviceCount=count_devices,
    )
    cupy: Any = types.ModuleType("cupy")
    cupy.cuda = types.SimpleNamespace(runtime=api)
    libraries: Any = types.ModuleType("cupy_backends.cuda.libs.nvrtc")
    libraries.getVersion = get_version
    monkeypatch.setattr(devices, "_RUNTIME", None)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setitem(sys.modules, "cupy_backends", types.ModuleType("cupy_backends"))
    for name in ("cupy_backends.cuda", "cupy_backends.cuda.libs"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setitem(sys.modules, "cupy_backends.cuda.libs.nvrtc", libraries)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"driver": 0}, "NVIDIA's driver is not installed. It comes with the system"),
        ({"driver": 12040}, "NVIDIA's driver knows CUDA 12.4, and this CuPy was made"),
        ({"driver": 12040}, "Install a newer driver: https://www.nvidia.com/drivers."),
        ({"count": 0}, "the driver finds no NVIDIA GPU. Look at the output of"),
        ({"status": 100}, "the driver finds no NVIDIA GPU"),
        ({"status": 999}, "CUDA does not start (cudaErrorOfTest)"),
        ({"nvrtc": False}, "NVRTC, which compiles kernels, cannot be loaded (libnvrtc"),
        ({"nvrtc": False}, "pip install nvidia-cuda-nvrtc"),
    ],
)
def test_what_is_missing(
    options: Any, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_cupy(monkeypatch, **options)
    problem = str(find_problem())
    assert problem.startswith("there is no GPU to compute on: ")
    assert told in problem


def test_nothing_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_cupy(monkeypatch)
    assert find_problem() is None


def test_cupy_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "_RUNTIME", None)

    def refuse(name: str) -> Any:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.setattr(devices, "import_module", refuse)
    problem = str(find_problem())
    assert "pip install 'cupy-cuda13x[ctk]'" in problem
    assert "12" not in problem  # its NVRTC does not know all options


def make_cell() -> Any:
    return wb.Session(wb.trace(lambda x: x * x)(2.0), backend="cupy")


@pytest.mark.parametrize(
    "ask",
    [
        lambda: wb.compile(np.sin, backend="cupy"),
        lambda: wb.function([x := wb.scalar("x")], x * x, backend="cupy"),
        lambda: wb.to_gpu({"W": np.ones(2)}),
        make_cell,
    ],
)
def test_who_asks_for_a_gpu_is_told(
    ask: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_cupy(monkeypatch, driver=0)
    with pytest.raises(DeviceError, match="NVIDIA's driver is not installed"):
        ask()


# With a device of tests


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Standin:
    made = Standin()
    monkeypatch.setattr(devices, "_RUNTIME", made)
    return made


def test_nests_go_there_and_back(runtime: Standin) -> None:
    given = {
        "W": np.ones((2, 3), np.float32),
        "rates": [0.1, np.arange(3)],
        "name": "f",
    }
    there = wb.to_gpu(given)
    assert isinstance(there["W"], DeviceArray)
    assert there["W"].dtype == np.float32
    assert isinstance(there["rates"][1], DeviceArray)
    assert (there["rates"][0], there["name"]) == (0.1, "f")
    back = wb.to_cpu(there)
    assert type(back["W"]) is np.ndarray
    np.testing.assert_array_equal(back["rates"][1], np.arange(3))


def test_arrays_come_back_at_once_and_only_if_there_are_some(runtime: Standin) -> None:
    here, x = np.ones(3), wb.to_gpu(np.arange(4.0))
    y = wb.to_gpu(np.arange(5))
    back = wb.to_cpu({"x": x, "here": here, "none": None, "y": [y, 2.0, x]})
    assert runtime.reads == 1
    assert back["here"] is here
    assert (back["none"], back["y"][1]) == (None, 2.0)
    for got, want in ((back["x"], 4), (back["y"][0], 5), (back["y"][2], 4)):
        assert type(got) is np.ndarray
        np.testing.assert_array_equal(got, np.arange(want))
    assert wb.to_cpu([here, 0.1])[0] is here
    assert runtime.reads == 1  # nothing was waited for
    np.testing.assert_array_equal(devices.fetch_array(x), np.arange(4.0))
    assert runtime.reads == 2


def test_what_comes_back_tells_of_an_index_out_of_bounds(runtime: Standin) -> None:
    runtime.pending.add("getitem", Reading(1))
    with pytest.raises(DeviceError, match="out of bounds in an earlier call: of geti"):
        wb.to_cpu(wb.to_gpu(np.ones(2)))
    wb.to_cpu(wb.to_gpu(np.ones(2)))


def test_an_array_of_another_gpu_is_not_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Array:
        def __init__(self, number: int) -> None:
            self.data = types.SimpleNamespace(device_id=number)

    runtime: Any = make_cupy(CudaOfTest(), monkeypatch)
    runtime.cupy, runtime.number = types.SimpleNamespace(ndarray=Array), 0
    owned = [runtime.owns(x) for x in (Array(0), Array(1), np.ones(2), 2.0)]
    assert owned == [True, False, False, False]


def test_a_device_that_has_stopped_is_not_asked_again(runtime: Standin) -> None:
    runtime.failure = "a device of tests has stopped: cudaErrorIllegalAddress"
    for ask in (lambda: wb.compile(np.sin, backend="cupy"),
                lambda: wb.to_gpu(np.ones(2))):  # fmt: skip
        with pytest.raises(DeviceError, match="a device of tests has stopped"):
            ask()
    # The CPU goes on.
    assert wb.compile(np.sin)(0.0) == 0.0
    session = wb.Session(wb.trace(lambda x: np.sum(x * x))(np.ones(2)))
    np.testing.assert_array_equal(session.grads["x"], [2.0, 2.0])


class There(Standin):
    """A device whose arrays are the stand-in's for CuPy's."""

    def owns(self, x: object) -> bool:
        return isinstance(x, Foreign)


def test_compute_follows_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "_RUNTIME", There())
    monkeypatch.setattr(
        CupyFunction, "patience", 0.0
    )  # its kernels have no such arrays
    f = wb.compile(wb.grad(lambda x: np.sum(np.tanh(x) ** 2)))
    made = f(Foreign(np.ones(3)))
    assert isinstance(made, Foreign)
    assert f.backend == "cupy"
    assert type(f(np.ones(3))) is np.ndarray
    assert f.backend != "cupy"


def test_arrays_of_the_cpu_are_not_moved_in_silence(runtime: Standin) -> None:
    @wb.compile(backend="cupy")
    def slope(W: Any, x: Any) -> Any:
        return wb.grad(lambda W: np.sum(np.tanh(W * x) ** 2))(W)

    with pytest.raises(UsageError, match=r"'W' and 'x' are ndarrays.*wb\.to_gpu"):
        slope(np.arange(3.0), np.ones(3))


def test_arrays_of_all_kinds_go_there(runtime: Standin) -> None:
    whole = np.arange(24.0).reshape(4, 6)
    for x in (whole.T, whole[::2, ::-1], np.broadcast_to(whole[0], (3, 6)),
              whole[:0], np.array(2.0), np.ones(3, np.float16)):  # fmt: skip
        x = x.view()
        x.flags.writeable = False
        there = wb.to_gpu(x)
        assert there.flags.writeable
        assert there.flags.c_contiguous
        assert there.dtype == x.dtype
        np.testing.assert_array_equal(wb.to_cpu(there), x)


@pytest.mark.skipif(
    np.dtype(np.longdouble) == np.float64, reason="longdouble is float64 here"
)
def test_numbers_that_no_gpu_has_are_told(runtime: Standin) -> None:
    with pytest.raises(DtypeError, match=r"no float\d+.*x\.astype\(np\.float64\)"):
        wb.to_gpu({"W": np.ones(2, np.longdouble)})
    with pytest.raises(DtypeError, match=r"no complex\d+.*astype\(np\.complex128\)"):
        wb.to_gpu([np.ones(2, np.clongdouble)])


@pytest.mark.parametrize(
    ("x", "instead"),
    [
        (np.ma.masked_equal([1.0, 2.0], 2), r"MaskedArray\. .* the mask"),
        (np.ones((2, 2)).view(np.matrix), r"matrix\. Move np\.asarray\(x\)"),
    ],
)
def test_what_an_array_means_is_not_lost(
    x: Any, instead: str, runtime: Standin
) -> None:
    with pytest.raises(UsageError, match=f"to_gpu.* a GPU has no {instead}"):
        wb.to_gpu([np.ones(2), {"x": x}])


def test_an_array_on_another_gpu_is_named(runtime: Standin) -> None:
    given = [runtime.upload(np.ones(2)), Foreign(np.ones(2))]
    told = r"x lies on another GPU, .*on a device of tests.*wb\.to_gpu"
    with pytest.raises(UsageError, match=told):
        devices.check_places(runtime, given, ["W", "x"])


def test_modules_go_with_their_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    class Module:
        def __init__(self, code: str, options: tuple[str, ...]) -> None:
            # Each operation is rounded by itself, as on other processors.
            assert "--fmad=false" in options

        def get_function(self, name: str) -> Any:
            return types.SimpleNamespace()

    monkeypatch.setattr(CupyRuntime, "__init__", lambda self: None)
    runtime = CupyRuntime()
    runtime.cupy = types.SimpleNamespace(RawModule=Module)
    runtime._lock = threading.Lock()
    runtime._modules = weakref.WeakValueDictionary()
    launches = [Launch(f"f{k}", f"void f{k}();", (), 1, 1) for k in range(3)]
    first, second = runtime.load(launches), runtime.load(launches)
    assert len(runtime._modules) == 1
    del first
    assert len(runtime._modules) == 1
    del second
    gc.collect()
    assert not runtime._modules


@pytest.mark.parametrize(
    ("status", "kind", "stopped"),
    [(2, DeviceMemoryError, False), (1, DeviceError, False), (700, DeviceError, True)],
)
def test_errors_of_cuda_are_told_apart(
    status: int, kind: type, stopped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CupyRuntime, "__init__", lambda self: None)
    runtime = CupyRuntime()
    runtime.name, runtime.failure = "a GPU", None
    runtime._api = types.SimpleNamespace(CUDARuntimeError=CudaError)
    runtime._cuda = types.SimpleNamespace(
        memory=types.SimpleNamespace(OutOfMemoryError=MemoryError),
        driver=types.SimpleNamespace(CUDADriverError=CudaError),
    )
    assert type(runtime.translate(CudaError(status))) is kind
    assert (runtime.failure is not None) is stopped
    assert runtime.translate(ValueError("no")) is None


# What CuPy is asked for


class StreamOfTest:
    """A stream that copies when it is waited for, and not before."""

    def __init__(self) -> None:
        self.work: list[Callable[[], None]] = []
        self.waits = 0

    def synchronize(self) -> None:
        self.waits += 1
        while self.work:
            self.work.pop(0)()


class ArrayOfTest:
    """An array of CuPy's, as far as it is brought to the host."""

    def __init__(self, value: np.ndarray[Any, Any], stream: StreamOfTest) -> None:
        self.value, self.stream = value, stream
        self.shape, self.dtype, self.nbytes = value.shape, value.dtype, value.nbytes

    def get(self, out: Any = None, blocking: bool = True) -> Any:
        if out is None:
            assert blocking
            self.stream.synchronize()
            return self.value.copy()
        assert not blocking
        self.stream.work.append(lambda: np.copyto(out, self.value))
        return out


class Refused(Exception):
    """CUDA's error."""


class CudaOfTest:
    """Pinned memory, of which there is so much."""

    def __init__(self, most: int = 10**6) -> None:
        self.stream = StreamOfTest()
        self.left = most
        self.pinned: set[int] = set()
        self.pinned_memory = self

    def get_current_stream(self) -> StreamOfTest:
        return self.stream

    def alloc_pinned_memory(self, size: int) -> bytearray:
        if size > self.left:
            raise Refused("no memory")
        self.left -= size
        return bytearray(b"\xff" * size)

    def is_memory_pinned(self, address: int) -> bool:
        return address in self.pinned


def make_cupy(cuda: CudaOfTest, monkeypatch: pytest.MonkeyPatch) -> CupyRuntime:
    monkeypatch.setattr(CupyRuntime, "__init__", lambda self: None)
    runtime: Any = CupyRuntime()
    runtime._cuda, runtime._api = cuda, types.SimpleNamespace(CUDARuntimeError=Refused)
    return runtime  # type: ignore[no-any-return]


def test_memory_goes_back_from_both_pools(monkeypatch: pytest.MonkeyPatch) -> None:
    freed: list[str] = []

    def make_pool(name: str) -> Any:
        pool = types.SimpleNamespace(free_all_blocks=lambda: freed.append(name))
        return lambda: pool

    runtime: Any = make_cupy(CudaOfTest(), monkeypatch)
    runtime.cupy = types.SimpleNamespace(
        get_default_memory_pool=make_pool("device"),
        get_default_pinned_memory_pool=make_pool("pinned"),
    )
    runtime.free()
    assert sorted(freed) == ["device", "pinned"]


def test_times_are_those_between_events(monkeypatch: pytest.MonkeyPatch) -> None:
    log: list[str] = []
    events = iter(["start", "stop"])

    def make_event() -> Any:
        name = next(events)
        return types.SimpleNamespace(
            name=name, synchronize=lambda: log.append(f"wait for {name}")
        )

    cuda: Any = CudaOfTest()
    cuda.Event = make_event
    cuda.stream.record = lambda event: log.append(event.name)
    cuda.get_elapsed_time = lambda start, stop: 250.0  # ms
    assert make_cupy(cuda, monkeypatch).time(lambda: log.append("work")) == 0.25
    assert log == ["start", "work", "stop", "wait for stop"]


@pytest.mark.parametrize(("most", "waits"), [(10**6, 1), (100, 3), (0, 5)])
def test_arrays_come_by_pinned_memory(
    most: int, waits: int, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    """Together; those for which none is left come alone, as empty ones do."""
    cuda = CudaOfTest(most)
    values = [rng.normal(size=n) for n in (5, (2, 3), 7)] + [np.array(2j)]
    arrays: list[Any] = [ArrayOfTest(x, cuda.stream) for x in values]
    made = make_cupy(cuda, monkeypatch).download(arrays)
    assert cuda.stream.waits == waits
    for got, want in zip(made, values, strict=True):
        assert (type(got), got.dtype, got.base) == (np.ndarray, want.dtype, None)
        np.testing.assert_array_equal(got, want)


def test_large_arrays_come_by_memory_that_is_not_pinned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("workbench.backends.cupy.runtime.MOST_PINNED", 50)
    cuda = CudaOfTest()
    values = [np.arange(9.0), np.arange(4.0), np.arange(3.0), np.zeros(0)]
    arrays: list[Any] = [ArrayOfTest(x, cuda.stream) for x in values]
    made = make_cupy(cuda, monkeypatch).download(arrays)
    assert cuda.left == 10**6 - 4 * 8
    for got, want in zip(made, values, strict=True):
        np.testing.assert_array_equal(got, want)


def test_pinned_memory_is_kept_until_nobody_writes_to_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cuda = CudaOfTest()
    arrays: list[Any] = [ArrayOfTest(np.ones(3), cuda.stream) for _ in range(2)]

    def interrupt(**settings: Any) -> None:
        raise KeyboardInterrupt

    arrays[1].get = interrupt
    with pytest.raises(KeyboardInterrupt):
        make_cupy(cuda, monkeypatch).download(arrays)
    assert cuda.stream.waits == 1


@pytest.mark.parametrize("pinned", [True, False])
def test_an_array_in_pinned_memory_is_waited_for(
    pinned: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CuPy copies from there while the user may write to it."""
    cuda, told = CudaOfTest(), {}
    x = np.ones(3)
    if pinned:
        cuda.pinned.add(x.ctypes.data)
    runtime: Any = make_cupy(cuda, monkeypatch)
    runtime.cupy = types.SimpleNamespace(asarray=lambda x, **given: told.update(given))
    runtime.upload(x)
    assert told == {"order": "C", "blocking": pinned}
