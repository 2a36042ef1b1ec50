"""`Launch`: one call of a CUDA function as data; `Device`: its target.

A kernel of a plan is one launch or a few (`kernel_code`). Launches of one structure are
one function; about a hundred functions are one text, which NVRTC compiles at a time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import NamedTuple

from workbench.backends.compiled.builder import HALF, KINDS, EntryBuilder
from workbench.backends.compiled.kernel import View
from workbench.backends.compiled.products import lies_for_blas
from workbench.backends.cupy.builder import CudaBuilder

#: Every buffer of a plan must begin at a multiple of so many bytes.
ALIGNMENT = 16
#: How NVRTC compiles: each operation is rounded by itself, as on every other processor.
#: CuPy adds ``-ftz=true``: a float32 below 1.2e-38 is 0 there, as in CuPy's own
#: kernels, and not as in NumPy.
OPTIONS = ("--std=c++17", "--fmad=false")
#: So many functions are one translation unit.
MOST_FUNCTIONS = 100

#: What all functions use. Memory holds a float16 as its bits.
PRELUDE = """\
template <class T> struct alignas(2 * sizeof(T)) Pair { T x, y; };
template <class T, int N> struct alignas(N * sizeof(T)) Pack { T e[N]; };
template <class T> __device__ __forceinline__ T shift_down(T x, int by) {
  if constexpr (sizeof(T) < 4) return (T)__shfl_down_sync(0xffffffffu, (int)x, by);
  else return __shfl_down_sync(0xffffffffu, x, by);
}
template <class T> __device__ __forceinline__ T shift_up(T x, int by) {
  if constexpr (sizeof(T) < 4) return (T)__shfl_up_sync(0xffffffffu, (int)x, by);
  else return __shfl_up_sync(0xffffffffu, x, by);
}
template <class T> __device__ __forceinline__ T take_last(T x) {
  if constexpr (sizeof(T) < 4) return (T)__shfl_sync(0xffffffffu, (int)x, 31);
  else return __shfl_sync(0xffffffffu, x, 31);
}
#ifdef __CUDACC__
__device__ __forceinline__ unsigned short half_bits(float x) {
  unsigned short h;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(x));
  return h;
}
__device__ __forceinline__ float half_value(unsigned short h) {
  float x;
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(h));
  return x;
}
__device__ __forceinline__ float round_half_of_double(double x) {
  unsigned short h;
  asm("cvt.rn.f16.f64 %0, %1;" : "=h"(h) : "d"(x));
  return half_value(h);
}
#endif
__device__ __forceinline__ float round_half(float x) {
  return half_value(half_bits(x));
}
"""


class Launch(NamedTuple):
    """One call of a function on the device.

    Attributes
    ----------
    name
        Of the function, from its text.
    body
        Its statements. Lengths and strides are numbers; ``p0``, ``p1``, ... point to
        memory.
    pointers
        The parameters, all ``char*``: a buffer of the plan and an offset in bytes.
    blocks, threads
        How many blocks run, of how many threads.
    """

    name: str
    body: str
    pointers: tuple[tuple[int, int], ...]
    blocks: int
    threads: int

    @property
    def source(self) -> str:
        """The text of the function, for use after `PRELUDE`."""
        parameters = ", ".join(f"char* p{k}" for k in range(len(self.pointers)))
        return (
            f'extern "C" __global__ void __launch_bounds__({self.threads})\n'
            f"{self.name}({parameters}) {{\n{self.body}\n}}\n"
        )


class Unit(NamedTuple):
    """A text compiled as one unit, and its functions."""

    source: str
    names: tuple[str, ...]

    @property
    def key(self) -> str:
        """The digest of the text, unique to each unit."""
        return hashlib.sha256(self.source.encode()).hexdigest()


class Device(NamedTuple):
    """A GPU in plans: the target that `compiled.lowering.lower` takes.

    Attributes
    ----------
    processors
        Its multiprocessors, each of which runs several blocks at a time.
    most_scratch
        How many bytes of memory one kernel may use for itself.
    """

    processors: int = 132
    most_scratch: int = 2**25

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of entries that kernels compute with."""
        return KINDS | {HALF}

    def make_builder(self) -> EntryBuilder:
        """Return a builder that writes an entry as CUDA C++."""
        return CudaBuilder()

    def has_products(self, kind: str) -> bool:
        """Return whether cuBLAS multiplies matrices of a kind of entries."""
        return True

    def takes_matrices(self, a: View, b: View) -> bool:
        """Return whether cuBLAS takes matrices as they lie."""
        return lies_for_blas(a) and lies_for_blas(b)

    def has_systems(self, op: str, kind: str) -> bool:
        """Return whether plans call LAPACK; here CuPy's own functions are called."""
        return False


def compile_unit(launches: Iterable[Launch]) -> Unit:
    """Return the text of all functions of launches, each of them once."""
    sources = {launch.name: launch.source for launch in launches}
    return Unit("\n".join([PRELUDE, *sources.values()]), tuple(sources))


def list_units(launches: Iterable[Launch]) -> list[Unit]:
    """Return the texts of all functions of launches, about a hundred in each."""
    distinct = list({launch.name: launch for launch in launches}.values())
    return [
        compile_unit(distinct[k : k + MOST_FUNCTIONS])
        for k in range(0, len(distinct), MOST_FUNCTIONS)
    ]
