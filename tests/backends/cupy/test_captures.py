"""CUDA graphs: kernels of users in them, and what CuPy is asked for to make one."""

from __future__ import annotations

import threading
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.backends.compiled.programs import trace
from tests.backends.cupy.host import COMPILER, SMALL
from tests.backends.cupy.standin import DeviceArray, Standin
from tests.custom.kernels.sources import CDistGrad, KernelSquares, ZeroOut
from workbench.backends.compiled.expansion import expand
from workbench.backends.cupy.matrices import WORKSPACE
from workbench.backends.cupy.obstacles import OTHERWISE
from workbench.backends.cupy.program import WARM, Program
from workbench.backends.cupy.runtime import CupyRuntime
from workbench.core import tree
from workbench.core.types import spec_of
from workbench.errors import CompilerError

pytestmark = pytest.mark.skipif(COMPILER is None, reason="needs g++")


def branches(x: Any, A: Any) -> Any:
    """Four chains that wait for nobody but the start, and one that waits for all."""
    ends = []
    for k in range(4):
        h = x[: 3 + k] * (k + 1.0)
        for _ in range(5):
            h = np.tanh(np.cumsum(h))
        ends.append(np.sum(h))
    return sum(ends) + np.sum(A @ x)


def compile_program(f: Callable[..., Any], args: tuple[Any, ...], device: Any) -> Any:
    with device.use():
        graph = trace(f, list(args))
        specs = [spec_of(a) for a in args]
        return Program(expand(graph, specs, kinds=SMALL.kinds), device)


def run_program(
    program: Program, args: tuple[Any, ...], device: Standin
) -> list[np.ndarray[Any, Any]]:
    with device.use():
        made = program.run([device.upload(a) for a in args])
    return [np.array(y.view(np.ndarray)) for y in made]


def test_arrays_of_the_device_stay_there(rng: np.random.Generator) -> None:
    x, A = rng.standard_normal(9), rng.standard_normal((9, 9))
    device = Standin()
    program = compile_program(branches, (x, A), device)
    before = DeviceArray.transfers
    with device.use():
        given = [device.upload(a) for a in (x, A)]
        for _ in range(WARM + 3):
            made = program.run(given)
    assert DeviceArray.transfers == before
    assert all(isinstance(y, DeviceArray) for y in tree.flatten(made)[0])


# Kernels of users


class Scaled(wb.KernelOp):
    """A number of each dtype that a kernel takes, and two results."""

    inputs = "x: T[n, m], k: float64[]"
    outputs = "y: T[n, m], sums: T[n]"
    name = "scaled_in_graphs"
    factor: float
    twice: bool
    cuda = r"""
    __global__ void scaled_in_graphs(const T *x, const double *k, T *y, T *sums,
                                      int64_t n, int64_t m, double factor, bool twice) {
        int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
        if (i >= n * m) return;
        y[i] = x[i] * (T)(*k * factor) * (twice ? 2 : 1);
        if (i % m == 0) for (int64_t j = 0; j < m; j++) sums[i / m] += x[i + j];
    }
    """

    def fallback(self, x: Any, k: Any) -> Any:
        by = (k * self.factor).astype(x.dtype) * (2 if self.twice else 1)
        return (x * by).astype(x.dtype), np.sum(x, 1)


def test_the_listing_tells_a_users_kernel_and_a_choice() -> None:
    """The first is captured as it is; of the second it tells both ways."""
    op = Scaled(factor=2.0, twice=True)

    def f(x: Any, k: Any) -> Any:
        y, _ = op(x, k)
        return wb.cond(
            np.sum(y) > 0, lambda y: np.cumsum(y, 1), lambda y: y @ y.T @ y, y
        )

    plan = wb.plan_kernels(wb.trace(f)(wb.Spec((4, 3), "f8"), wb.Spec((), "f8")))
    texts = {step.name: str(step) for step in plan}
    assert texts["call 1"].split() == ["call", "1", "scaled_in_graphs"]
    assert texts["choice 1"].endswith("or both and a selection if they are short)")


def test_a_kernel_of_a_user_is_captured(rng: np.random.Generator) -> None:
    scaled = Scaled(factor=0.5, twice=True)

    def f(x: Any, k: Any) -> Any:
        y, sums = scaled(np.sin(x), k)
        z, more = scaled(np.cos(x).T, np.array(3.0))  # lies otherwise; a constant
        for _ in range(4):
            y = np.tanh(np.cumsum(y, 0))
        return y, np.cumsum(sums) * np.sum(more), z

    device = Standin()
    args = rng.standard_normal((7, 40)), np.array(2.0)
    program = compile_program(f, args, device)
    assert program.list_uncaptured() == []
    for _ in range(WARM + 4):
        made = run_program(program, args, device)
        for got, want in zip(made, f(*args), strict=True):
            assert got.dtype == np.asarray(want).dtype
            np.testing.assert_allclose(got, want, rtol=1e-12)
        args = args[0] * 1.1, args[1]
    assert program.captured == 1


def test_the_seeds_kernels_are_captured(rng: np.random.Generator) -> None:
    """Those of A4 and E4: `zero_out`, and the gradient of `cdist`."""

    def f(x: Any, w: Any) -> Any:
        gap = x[:, None, :] - w[None, :, :]
        y = np.sqrt(np.sum(gap * gap, axis=2))
        dx, dw = CDistGrad()(x, w, y, np.cos(y))
        zeroed, index = ZeroOut()(np.sum(dx, 1))
        return dx, np.cumsum(dw, 0), np.tanh(np.cumsum(zeroed)), index * 2

    device = Standin()
    args = rng.standard_normal((5, 3)), rng.standard_normal((4, 3))
    program = compile_program(f, args, device)
    assert program.list_uncaptured() == []
    for _ in range(WARM + 3):
        made = run_program(program, args, device)
        for got, want in zip(made, f(*args), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-14)
    assert program.captured == 1


def test_a_kernel_without_cuda_stands_between_graphs(
    rng: np.random.Generator,
) -> None:
    args = (rng.standard_normal(30),)
    program = compile_program(lambda x: KernelSquares()(np.sin(x)), args, Standin())
    (told,) = program.list_uncaptured()
    assert told.startswith("kernel_squares (at ")
    assert told.endswith(f"), which CuPy computes: {OTHERWISE}")


# What CuPy is asked for


class CudaOfTest:
    """CuPy's streams and cuBLAS's stream, as CUDA has them under capture."""

    def __init__(self) -> None:
        self.recording: list[Callable[[], None]] | None = None
        self.current: list[Any] = []
        self.uploaded: list[Any] = []
        self.blas: list[tuple[int, ...]] = []
        self.made = 0
        cuda = self

        class Stream:
            def __init__(self, *, non_blocking: bool = False) -> None:
                assert non_blocking  # the default stream must not wait for it
                cuda.made += 1
                self.ptr = 100 + cuda.made

            def __enter__(self) -> Stream:
                cuda.current.append(self)
                return self

            def __exit__(self, *error: object) -> None:
                assert cuda.current.pop() is self

            def begin_capture(self) -> None:
                cuda.recording = []

            def end_capture(self) -> Any:
                made, cuda.recording = cuda.recording, None
                assert made is not None
                graph = types.SimpleNamespace(upload=cuda.uploaded.append)
                graph.launch = lambda: [one() for one in made]
                return graph

        self.Stream = Stream
        self.device = types.SimpleNamespace(get_cublas_handle=lambda: 7)
        self.outer = Stream(non_blocking=True)
        self.current.append(self.outer)

    def get_current_stream(self) -> Any:
        return self.current[-1]

    # cuBLAS

    def select_stream(self, handle: int, *given: int) -> None:
        self.blas.append(given)

    def multiply(self, handle: int, gemm: Any, addresses: Any) -> None:
        assert self.recording is not None
        stream, _, size = self.blas[-1]
        assert (stream, size) == (self.current[-1].ptr, WORKSPACE)
        self.recording.append(gemm)


@pytest.fixture
def cuda() -> CudaOfTest:
    return CudaOfTest()


def make_runtime(cuda: CudaOfTest, monkeypatch: pytest.MonkeyPatch) -> CupyRuntime:
    monkeypatch.setattr(CupyRuntime, "__init__", lambda self: None)
    runtime: Any = CupyRuntime()
    runtime._cuda, runtime._cublas = cuda, cuda
    runtime._local = threading.local()
    runtime.find_address = lambda memory: memory
    return runtime  # type: ignore[no-any-return]


def test_cupy_captures_products(
    cuda: CudaOfTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = make_runtime(cuda, monkeypatch)
    done: list[int] = []

    def run() -> None:
        for k in range(3):
            gemm: Any = lambda k=k: done.append(k)  # noqa: E731
            runtime.multiply(gemm, [])

    replay = runtime.capture(run, 1000)
    assert cuda.current == [cuda.outer]
    assert cuda.uploaded == [cuda.outer]
    assert cuda.blas[-1] == (cuda.outer.ptr,)
    assert {memory for _, memory, _ in cuda.blas[:-1]} == {1000}
    for _ in range(3):
        done.clear()
        replay()
        assert done == [0, 1, 2]


@pytest.mark.parametrize(
    "error", [RuntimeError("no transfers here"), KeyboardInterrupt()]
)
def test_a_capture_that_fails_leaves_the_stream_as_it_was(
    error: BaseException, cuda: CudaOfTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = make_runtime(cuda, monkeypatch)

    def refuse() -> None:
        raise error

    told = CompilerError if isinstance(error, Exception) else KeyboardInterrupt
    with pytest.raises(told, match="transfers" if told is CompilerError else None):
        runtime.capture(refuse, 1000)
    assert cuda.current == [cuda.outer]
    assert cuda.recording is None
    assert cuda.blas == [(cuda.outer.ptr,)]
