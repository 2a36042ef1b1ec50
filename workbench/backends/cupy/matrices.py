"""Products of matrices on a GPU: calls of cuBLAS, as data, and cuBLAS itself.

CuPy refuses to call cuBLAS while work is captured into a CUDA graph, and a call through
its arrays costs more than a small product. So the C function is called, on the handle
that CuPy has made.
"""

from __future__ import annotations

import ctypes
import itertools
import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

from workbench.backends.compiled.kernel import join_axes
from workbench.backends.compiled.products import (
    ProductStep,
    find_leading,
    read_matrix,
)
from workbench.errors import CompilerError

#: cuBLAS's numbers of a kind of entries, and of the precision it computes in.
TYPES = {"f2": 2, "f4": 0, "f8": 1, "c8": 4, "c16": 5}
PRECISIONS = {"f2": 68, "f4": 68, "f8": 70, "c8": 68, "c16": 70}
#: The bytes of work memory that cuBLAS is given while a CUDA graph is made.
WORKSPACE = 2**24


class Gemm(NamedTuple):
    """One call of cuBLAS: products of matrices that lie by columns.

    Attributes
    ----------
    kind
        Of the entries.
    turned
        Whether each factor is transposed.
    rows, columns, depth
        The lengths: of the result, and of what is summed.
    leading
        From one column to the next, in entries: in both factors, in the result.
    steps
        From one product to the next, in entries.
    products
        How many products there are.
    places
        The buffer of each matrix, and the offset in bytes.
    """

    kind: str
    turned: tuple[bool, bool]
    rows: int
    columns: int
    depth: int
    leading: tuple[int, int, int]
    steps: tuple[int, int, int]
    products: int
    places: tuple[tuple[int, int], ...]


def write_gemms(step: ProductStep) -> list[Gemm]:
    """Return the calls of cuBLAS that compute a product; see `ProductStep`.

    Raises
    ------
    CompilerError
        If cuBLAS cannot take the matrices as they lie.
    """
    kind = step.out.kind
    size = int(kind[1:])
    a, b, out = map(read_matrix, (step.a, step.b, step.out))
    target = find_leading(out, size)
    if target is None or kind not in TYPES:
        raise CompilerError(f"cuBLAS does not write a product of {kind} so.")
    if target[0]:  # by columns, as cuBLAS has it
        factors = (step.a, a), (step.b, b)
        rows, columns = out.rows, out.columns
    else:  # by rows: the columns of the transpose, which is bᵀ aᵀ
        factors = (step.b, b.transposed), (step.a, a.transposed)
        rows, columns = out.columns, out.rows
    leading, turned = [], []
    for _, matrix in factors:
        found = find_leading(matrix, size)
        if found is None:
            raise CompilerError(f"cuBLAS does not read a product of {kind} so.")
        by_columns, step_ = found
        turned.append(not by_columns)
        leading.append(step_)
    views = factors[0][0], factors[1][0], step.out
    kept = [i for i, n in enumerate(step.out.shape[:-2]) if n != 1]
    lengths, strides = join_axes(
        [step.out.shape[i] for i in kept],
        [[view.strides[i] for i in kept] for view in views],
    )
    count = lengths[-1] if lengths else 1
    steps = [one[-1] // size if one else 0 for one in strides]
    calls = []
    for index in itertools.product(*map(range, lengths[:-1])):
        places = tuple(
            (view.buffer, view.offset + sum(map(operator.mul, index, one)))
            for view, one in zip(views, strides, strict=True)
        )
        calls.append(
            Gemm(
                kind, (turned[0], turned[1]), rows, columns, a.columns,
                (leading[0], leading[1], target[1]), (steps[0], steps[1], steps[2]),
                count, places,
            )
        )  # fmt: skip
    return calls


class Cublas:
    """The C functions of cuBLAS that a program calls.

    Raises
    ------
    OSError
        If the library is not in this process.
    """

    def __init__(self, version: int) -> None:
        library = ctypes.CDLL(f"libcublas.so.{version}")
        self._set_stream = library.cublasSetStream_v2
        self._set_workspace = library.cublasSetWorkspace_v2
        self._gemm = library.cublasGemmStridedBatchedEx
        for function in (self._set_stream, self._set_workspace, self._gemm):
            function.restype = ctypes.c_int
        number: Any = ctypes.c_int
        long: Any = ctypes.c_longlong
        pointer: Any = ctypes.c_void_p
        self._set_stream.argtypes = [pointer, pointer]
        self._set_workspace.argtypes = [pointer, pointer, ctypes.c_size_t]
        matrix: list[Any] = [pointer, number, number, long]
        self._gemm.argtypes = [
            pointer, number, number, number, number, number, pointer, *matrix, *matrix,
            pointer, *matrix, number, number, number,
        ]  # fmt: skip
        #: One and zero in each kind; a complex number is two parts.
        self._numbers: dict[str, tuple[Any, Any]] = {}
        for kind in TYPES:
            part = ctypes.c_double if PRECISIONS[kind] == 70 else ctypes.c_float
            self._numbers[kind] = (part * 2)(1, 0), (part * 2)(0, 0)

    def select_stream(
        self, handle: int, stream: int, workspace: int = 0, size: int = 0
    ) -> None:
        """Let the calls that follow run on a stream, in this work memory if given."""
        _check(self._set_stream(handle, stream), "cublasSetStream")
        if size:
            done = self._set_workspace(handle, workspace, size)
            _check(done, "cublasSetWorkspace")

    def multiply(self, handle: int, gemm: Gemm, addresses: Sequence[int]) -> None:
        """Call cuBLAS for matrices that begin at these addresses."""
        one, zero = self._numbers[gemm.kind]
        type_ = TYPES[gemm.kind]
        a, b, c = addresses
        done = self._gemm(
            handle, gemm.turned[0], gemm.turned[1], gemm.rows, gemm.columns, gemm.depth,
            ctypes.byref(one), a, type_, gemm.leading[0], gemm.steps[0],
            b, type_, gemm.leading[1], gemm.steps[1],
            ctypes.byref(zero), c, type_, gemm.leading[2], gemm.steps[2],
            gemm.products, PRECISIONS[gemm.kind], -1,
        )  # fmt: skip
        _check(done, "cublasGemmStridedBatchedEx")


def _check(status: int, function: str) -> None:
    if status:
        raise CompilerError(f"{function} of cuBLAS gave the status {status}.")
