"""CUDA kernels without a GPU: compiled for one, and their launch on a stand-in.

The stand-in compiles the very text that CuPy would get as C++ and runs it for each
thread of the grid, one after another. It takes arguments as a driver does, by their
addresses, and refuses a wrong number or width. What it cannot show: NVIDIA's own
compiler in CuPy, memory of a GPU, threads at the same time.
"""

from __future__ import annotations

import contextlib
import ctypes
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.custom.kernels.sources import (
    Cdist,
    CDistGrad,
    ZeroOut,
    needs_cpp,
    needs_cuda,
)
from tests.gpu.stand_in import Foreign
from workbench.custom.kernels import cuda, toolchain
from workbench.errors import KernelError, UsageError

SHIM = r"""
#include <cstdint>
#include <type_traits>
#include <utility>
#define __global__
#define __device__
struct Index { unsigned x, y, z; };
static Index blockIdx, threadIdx, blockDim, gridDim;
"""

DRIVER = r"""
template <typename... P, std::size_t... I>
static void one(void (*f)(P...), void **at, std::index_sequence<I...>) {
    f(*static_cast<std::remove_cv_t<P> *>(at[I])...);
}
template <typename... P>
static void grid(void (*f)(P...), unsigned blocks, unsigned threads, void **at) {
    gridDim = {blocks, 1, 1}; blockDim = {threads, 1, 1};
    for (unsigned b = 0; b < blocks; b++)
        for (unsigned t = 0; t < threads; t++) {
            blockIdx = {b, 0, 0}; threadIdx = {t, 0, 0};
            one(f, at, std::index_sequence_for<P...>());
        }
}
template <typename... P>
static int64_t widths(void (*)(P...), int64_t *out) {
    int64_t found[] = {int64_t(sizeof(P))...};
    for (std::size_t i = 0; i < sizeof...(P); i++) out[i] = found[i];
    return sizeof...(P);
}
extern "C" void driver_grid(unsigned blocks, unsigned threads, void **at) {
    grid(NAME, blocks, threads, at);
}
extern "C" int64_t driver_widths(int64_t *out) { return widths(NAME, out); }
"""


class RawModule:
    """CuPy's, on the CPU."""

    folder: Path
    made: int = 0

    def __init__(self, *, code: str, options: tuple[str, ...]) -> None:
        assert options == ("--std=c++17",)
        self.code = code

    def get_function(self, name: str) -> Any:
        type(self).made += 1
        file = self.folder / f"{name}{self.made}.cpp"
        file.write_text(f"{SHIM}{self.code}\n#define NAME {name}\n{DRIVER}")
        library = file.with_suffix(".so")
        command = [
            *toolchain.find_compiler("cpp"),
            "-O1",
            "-fPIC",
            "-shared",
            "-std=c++17",
        ]
        subprocess.run([*command, str(file), "-o", str(library)], check=True)
        loaded = ctypes.CDLL(str(library))
        want = (ctypes.c_int64 * 64)()
        count = loaded.driver_widths(want)

        def kernel(grid: Any, block: Any, args: Any) -> None:
            (blocks,), (threads,) = grid, block
            assert blocks > 0
            assert threads == 256
            assert len(args) == count
            held = []
            for x, width in zip(args, want, strict=False):
                if isinstance(x, Foreign):
                    assert x._inner.flags.c_contiguous
                    held.append(ctypes.c_void_p(x._inner.ctypes.data))
                    assert width == 8
                else:
                    assert isinstance(x, np.generic)
                    assert x.itemsize == width
                    held.append((ctypes.c_char * width).from_buffer_copy(x.tobytes()))
            at = (ctypes.c_void_p * count)(*map(ctypes.addressof, held))
            loaded.driver_grid(blocks, threads, at)

        return kernel


@pytest.fixture
def device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """CuPy's few names that a launch needs; says when the device was entered."""
    entered: list[str] = []

    @contextlib.contextmanager
    def device(_: Any) -> Iterator[None]:
        entered.append("entered")
        yield

    def asarray(x: Any, dtype: Any, order: str) -> Foreign:
        assert order == "C"
        inner = x._inner if isinstance(x, Foreign) else x
        return Foreign(np.array(inner, dtype, order="C"))

    cupy = types.SimpleNamespace(
        RawModule=RawModule,
        asarray=asarray,
        zeros=lambda shape, dtype: Foreign(np.zeros(shape, dtype)),
    )
    monkeypatch.setitem(sys.modules, "cupy", cupy)  # type: ignore[arg-type]
    monkeypatch.setattr(Foreign, "device", property(device), raising=False)
    monkeypatch.setattr(RawModule, "folder", tmp_path, raising=False)
    monkeypatch.setattr(cuda, "_MODULES", {})
    return entered


@needs_cuda
def test_E4_the_cuda_source_of_zero_out_compiles_for_each_dtype() -> None:
    assert ZeroOut.check_cuda() in ("nvcc", *[f"NVRTC {n}" for n in _versions()])


@needs_cuda
def test_A4_the_cuda_source_of_the_gradient_of_cdist_compiles() -> None:
    assert CDistGrad().check_cuda("sm_80")


def _versions() -> list[str]:
    try:
        from cupy_backends.cuda.libs import nvrtc

        return [".".join(map(str, nvrtc.getVersion()))]
    except Exception:
        return []


@needs_cuda
def test_cuda_source_that_does_not_compile_is_shown_at_its_lines() -> None:
    class Refused(wb.KernelOp):
        inputs, outputs = "x: float64[n]", "y: float64[n]"
        cuda = r"""
        __global__ void refused(const double *x, double *y, int64_t n) {
            y[threadIdx.x] = twice * x[0];
        }
        """

    with pytest.raises(KernelError, match="the CUDA source does not compile") as e:
        Refused.check_cuda()
    text = str(e.value)
    assert 'identifier "twice" is undefined\n      y[threadIdx.x] = twice' in text
    lines = enumerate(Path(__file__).read_text().splitlines(), 1)
    line = next(n for n, of_file in lines if "= twice *" in of_file)
    assert f"test_cuda.py:{line}: " in text


@needs_cuda
def test_cuda_source_of_other_arguments_is_another_kernel() -> None:
    class Other(wb.KernelOp):
        inputs, outputs = "x: float64[n]", "y: float64[n]"
        cuda = "__global__ void other(const double *x, double *y, int n) {}"

    with pytest.raises(KernelError, match="no kernel other of the arguments") as e:
        Other.check_cuda()
    assert "__global__ void other(const double *x, double *y, int64_t n)" in str(
        e.value
    )


def test_without_cuda_source_or_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(KernelError, match="by_numpy has no CUDA source"):
        ByNumpy.check_cuda()
    monkeypatch.setattr(cuda, "import_module", lambda name: 1 / 0)
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(toolchain, "TOOLKIT", str(tmp_path))
    with pytest.raises(KernelError, match="nor nvcc on the PATH"):
        ZeroOut.check_cuda()


@needs_cpp
@pytest.mark.parametrize("n", [0, 1, 300])
def test_E4_the_launch_of_zero_out(device: list[str], n: int) -> None:
    zeroed, index = ZeroOut()(Foreign(np.arange(5, 5 + n).astype(np.float32)))
    assert isinstance(zeroed, Foreign)
    assert isinstance(index, Foreign)
    assert (zeroed.dtype, index.dtype) == (np.float32, np.int32)
    np.testing.assert_array_equal(zeroed._inner, [5, *[0] * (n - 1)][:n])
    assert index._inner == 3
    assert device == ["entered"]


@needs_cpp
def test_A4_the_launch_of_the_gradient_of_cdist(
    device: list[str], rng: np.random.Generator
) -> None:
    """Threads for the rows of both gradients; columns of a larger array."""
    x, w = rng.normal(size=(7, 300)), rng.normal(size=(5, 2))
    x, w[3] = x[:, 3:5], x[2, 3:5]
    y = Cdist()(x, w)
    g = rng.normal(size=y.shape)
    op = CDistGrad()
    want = op(x, w, y, g)
    found = op(*[Foreign(a) for a in (x, w, y, g)])
    for a, b in zip(found, want, strict=True):
        np.testing.assert_allclose(a._inner, b, rtol=1e-13, atol=1e-13)


class KernelScaled(wb.KernelOp):
    """Settings of each type, a number among the inputs, axes of any number."""

    inputs, outputs = "x: T[...], by: T[]", "y: T[...]"
    times: int
    plus: float = 0.5
    negate: bool = False
    threads = "size"
    cuda = r"""
    __global__ void kernel_scaled(
        const T *x, const T *by, T *y, int64_t size, int64_t times, double plus,
        bool negate
    ) {
        int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
        if (i < size) y[i] = (negate ? -1 : 1) * (times * by[0] * x[i] + plus);
    }
    """

    def vjp(self, node: Any, g: Any) -> Any:
        _, by = node.inputs
        times, sign = node.get_attr("times"), 1 - 2 * node.get_attr("negate")
        return sign * times * by * g, None


@needs_cpp
def test_settings_and_numbers_reach_a_cuda_kernel(device: list[str]) -> None:
    x = np.arange(6.0).reshape(2, 3)
    y = KernelScaled(3, negate=True)(Foreign(x), 2.0)
    np.testing.assert_array_equal(y._inner, -(6 * x + 0.5))
    g = wb.grad(lambda x: np.sum(KernelScaled(3)(x, 2.0)))(Foreign(x))
    np.testing.assert_array_equal(g._inner, np.full((2, 3), 6.0))


def test_arrays_of_the_cpu_do_not_move_in_silence(device: list[str]) -> None:
    x = np.ones((2, 2))
    with pytest.raises(UsageError, match=r"w lies on the CPU.*cupy\.asarray\(w\)"):
        CDistGrad()(Foreign(x), x, Foreign(x), Foreign(x))


def test_numpy_arrays_need_a_source_for_the_cpu() -> None:
    with pytest.raises(
        KernelError, match=r"no source for arrays on the CPU\. Write c ="
    ):
        KernelScaled(3)(np.ones((2, 3)), 2.0)


class ByNumpy(wb.KernelOp):
    """No CUDA source: NumPy's functions run on the GPU's arrays too."""

    inputs, outputs = "x: float64[n]", "y: float64[n]"
    c = "void by_numpy(const double *x, double *y, int64_t n) { y[0] = -1; }"

    def fallback(self, x: Any) -> Any:
        return np.tanh(x)


def test_the_fallback_serves_arrays_of_the_device() -> None:
    y = ByNumpy()(Foreign(np.ones(3)))
    np.testing.assert_array_equal(y._inner, np.tanh(np.ones(3)))
