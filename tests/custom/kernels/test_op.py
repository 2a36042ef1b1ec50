"""Native kernels as a user writes them: values, dtypes, both modes, bad input."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import workbench as wb
from tests.custom.kernels.sources import (
    SQUARES,
    CDistGrad,
    KernelSquares,
    ZeroOut,
    needs_c,
    needs_cpp,
)
from workbench.errors import DtypeError, KernelError, ShapeError, TraceError, UsageError

# What a kernel may be


class KernelMoments(wb.KernelOp):
    """Settings of each type, an output of another length, a status, C++'s library."""

    inputs = "x: T[..., d], mask: bool[d]"
    outputs = "mean: float64[], kernel_padded: T[d + extra], kept: int64[]"
    extra: int
    scale: float = 1.0
    refuse: bool = False
    messages: ClassVar = {7: "it was told to refuse"}
    cpp = r"""
    #include <numeric>
    int kernel_moments(
        const T *x, const bool *mask, double *mean, T *padded, int64_t *kept,
        int64_t size, int64_t d, int64_t extra, double scale, bool refuse
    ) {
        if (refuse) return extra;
        *mean = scale * std::accumulate(x, x + size * d, 0.0) / (size * d);
        for (int64_t i = 0; i < d; i++) {
            padded[i] = x[i];
            *kept += mask[i];
        }
        return 0;
    }
    """


@needs_cpp
def test_settings_shapes_and_dtypes_reach_the_kernel() -> None:
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    mask = np.array([True, False, True, True])
    mean, padded, kept = KernelMoments(2, scale=10)(x, mask)
    assert mean == 115
    assert padded.dtype == np.float32
    np.testing.assert_array_equal(padded, [0, 1, 2, 3, 0, 0])
    assert (kept, kept.dtype) == (3, np.int64)
    assert KernelMoments(1)(x[0, 0].astype(float), mask)[1].shape == (5,)
    assert KernelMoments(2) == KernelMoments(2, 1.0)
    assert KernelMoments(2) != KernelMoments(3)


@needs_cpp
def test_a_status_becomes_its_message() -> None:
    x, mask = np.ones((2, 2)), np.ones(2, bool)
    with pytest.raises(KernelError, match="status 7: it was told to refuse") as e:
        KernelMoments(7, refuse=True)(x, mask)
    assert "kernel_moments(float64[2, 2], bool[2])" in str(e.value)
    with pytest.raises(KernelError, match="status 3: it has no message"):
        KernelMoments(3, refuse=True)(x, mask)
    assert "test_op.py" in str(e.value)


class KernelThrows(wb.KernelOp):
    inputs, outputs = "which: int32[]", "y: float64[]"
    cpp = r"""
    #include <vector>
    #include <stdexcept>
    int kernel_throws(const int32_t *which, double *y) {
        std::vector<double> none;
        if (*which == 1) throw std::runtime_error("the matrix is singular");
        if (*which == 2) throw 3;
        if (*which == 3) *y = none.at(7);
        return *which == 4 ? 9 : 0;
    }
    """


@needs_cpp
@pytest.mark.parametrize(
    ("which", "said"),
    [
        (1, "threw an exception: the matrix is singular"),
        (2, "threw an exception: not a std::exception"),
        (3, "threw an exception: vector"),
        (4, "returned status 9"),
    ],
)
def test_a_cpp_exception_does_not_end_the_process(which: int, said: str) -> None:
    assert KernelThrows()(0) == 0
    with pytest.raises(KernelError, match=said):
        KernelThrows()(which)


class KernelTurned(wb.KernelOp):
    """A complex number per entry, in C++."""

    inputs = "z: C[n]"
    outputs = "w: C[n]"
    types = "C: complex64 | complex128"
    cpp = r"""
    void kernel_turned(const C *z, C *w, int64_t n) {
        for (int64_t i = 0; i < n; i++) w[i] = std::conj(z[i]) * C(0, 1);
    }
    """


class KernelHalved(wb.KernelOp):
    """A complex number per entry, in C."""

    inputs = "z: complex128[n]"
    outputs = "w: complex128[n]"
    c = r"""
    void kernel_halved(const double _Complex *z, double _Complex *w, int64_t n) {
        for (int64_t i = 0; i < n; i++) w[i] = z[i] / 2;
    }
    """


@needs_cpp
@needs_c
def test_complex_numbers(rng: np.random.Generator) -> None:
    z = rng.normal(size=5) + 1j * rng.normal(size=5)
    np.testing.assert_allclose(KernelTurned()(z), z.conj() * 1j, rtol=1e-15)
    assert KernelTurned()(z.astype(np.complex64)).dtype == np.complex64
    np.testing.assert_array_equal(KernelHalved()(z), z / 2)


class KernelWeighted(wb.KernelOp):
    """Numbers beside arrays: ``a * x + b``."""

    inputs = "a: T[], x: T[n], b: int32[]"
    outputs = "y: T[n]"
    c = r"""
    void kernel_weighted(const T *a, const T *x, const int32_t *b, T *y, int64_t n) {
        for (int64_t i = 0; i < n; i++) y[i] = *a * x[i] + *b;
    }
    """

    def vjp(self, node: Any, g: Any) -> Any:
        a, x, _ = node.inputs
        return np.sum(g * x), a * g, None


@needs_c
def test_python_numbers_take_the_dtype_of_the_arrays() -> None:
    x = np.arange(3, dtype=np.float32)
    y = KernelWeighted()(2, x, 1)
    assert y.dtype == np.float32
    np.testing.assert_array_equal(y, [1, 3, 5])
    np.testing.assert_array_equal(KernelWeighted()(2, [1.0, 2.0], 1), [3, 5])
    np.testing.assert_array_equal(
        wb.grad(lambda a: np.sum(KernelWeighted()(a, x, 1)))(2.0), 3.0
    )
    np.testing.assert_array_equal(
        wb.grad(lambda x: np.sum(KernelWeighted()(2.0, x, 1)))(x), [2, 2, 2]
    )
    with pytest.raises(DtypeError, match=r"input b is the number 1\.5.*int32"):
        KernelWeighted()(2.0, x, 1.5)
    with pytest.raises(DtypeError, match="cannot hold it"):
        KernelWeighted()(2.0, x, 2**40)


@needs_c
def test_lists_with_tensors_among_them() -> None:
    x = np.array([1.0, 2.0, 3.0])
    for made in (lambda x: [x[2], x[0]], lambda x: np.array([x[2], x[0]])):
        g = wb.grad(lambda x, made=made: np.sum(KernelSquares()(made(x))))(x)
        np.testing.assert_array_equal(g, [2, 0, 6])
    np.testing.assert_array_equal(KernelSquares()((1.0, 2.0)), [1, 4])


@needs_c
def test_arrays_of_any_layout() -> None:
    wide = np.arange(12.0).reshape(3, 4)
    op = KernelSquares()
    np.testing.assert_array_equal(op(wide[:, 1]), wide[:, 1] ** 2)
    np.testing.assert_array_equal(op(wide[1, ::-1]), wide[1, ::-1] ** 2)
    np.testing.assert_array_equal(op(np.broadcast_to(3.0, 4)), [9] * 4)
    big = np.arange(3).astype(">f8")
    np.testing.assert_array_equal(op(big), [0, 1, 4])
    odd = np.zeros(25, np.uint8)[1:].view("f8")
    assert not odd.flags.aligned
    odd[:] = 2
    np.testing.assert_array_equal(op(odd), [4, 4, 4])
    fortran = np.asfortranarray(wide)
    np.testing.assert_array_equal(
        CDistGrad()(fortran, fortran, np.ones((3, 3)), np.ones((3, 3)))[0],
        CDistGrad().fallback(wide, wide, np.ones((3, 3)), np.ones((3, 3)))[0],
    )


@needs_c
def test_an_input_is_never_written(rng: np.random.Generator) -> None:
    x = rng.normal(size=4)
    before = x.copy()
    wb.grad(lambda x: np.sum(KernelSquares()(x)))(x)
    np.testing.assert_array_equal(x, before)


# In programs


@needs_c
def test_one_node_with_its_line_and_overrides_by_name() -> None:
    x = np.array([1.0, -2.0])
    graph = wb.trace(lambda x: np.sum(KernelSquares()(x)))(x)
    (node,) = graph.outputs[0].inputs
    assert node.op.name == "kernel_squares"
    assert node.site is not None
    assert "KernelSquares()(x)" in node.site.text
    flipped = wb.override("kernel_squares", vjp=lambda node, g: -g)
    np.testing.assert_array_equal(
        wb.grad(lambda x: np.sum(KernelSquares()(x)), overrides=[flipped])(x), [-1, -1]
    )


@needs_c
def test_symbols_and_specs() -> None:
    x = wb.vector("x", shape=3)
    y = KernelSquares()(x)
    assert (y.shape, y.dtype) == ((3,), np.float64)
    d = wb.grad(np.sum(y), x)
    f = wb.function([x], [y, d])
    values, slope = f(np.array([1.0, 2.0, 3.0]))
    np.testing.assert_array_equal(values, [1, 4, 9])
    np.testing.assert_array_equal(slope, [2, 4, 6])
    with pytest.raises(DtypeError, match="float32"):
        KernelSquares()(wb.vector("x", dtype="float32", shape=3))


@needs_c
def test_vmap_is_a_loop_over_the_kernel(rng: np.random.Generator) -> None:
    x = rng.normal(size=(4, 3))
    np.testing.assert_array_equal(wb.vmap(KernelSquares())(x), x**2)
    np.testing.assert_allclose(
        wb.vmap(wb.grad(lambda x: np.sum(KernelSquares()(x))))(x), 2 * x, rtol=1e-15
    )
    np.testing.assert_allclose(
        wb.hessian(lambda x: np.sum(KernelSquares()(x)))(x[0]),
        2 * np.eye(3),
        rtol=1e-15,
    )


@needs_c
def test_a_compiled_program_calls_the_kernel() -> None:
    from workbench.backends.numpy import compile

    graph = wb.trace(lambda x: np.sum(KernelSquares()(x) + 1))(np.ones(3))
    assert compile(graph)(np.array([1.0, 2.0, 3.0])) == [17.0]


# Unknown lengths


class KernelPadded(wb.KernelOp):
    """Outputs of several lengths that follow from one."""

    inputs = "x: T[n]"
    outputs = "y: T[n], wider: T[2 * n + 1], half: T[n // 2], total: T[]"
    c = r"""
    void kernel_padded(const T *x, T *y, T *wider, T *half, T *total, int64_t n) {
        for (int64_t i = 0; i < n; i++) {
            y[i] = x[i] * x[i];
            wider[2 * i] = x[i];
            *total += x[i];
        }
        for (int64_t i = 0; i < n / 2; i++) half[i] = -1;
    }
    """

    def vjp(self, node: Any, g: Any, g_wider: Any, g_half: Any, g_total: Any) -> Any:
        (x,) = node.inputs
        return 2 * x * g + g_wider[:-1:2] + g_total


@needs_c
def test_lengths_that_are_not_known_yet() -> None:
    x = wb.vector("x")
    y, wider, half, total = KernelPadded()(x)
    (n,) = x.shape
    shapes = [part.shape for part in (y, wider, half, total)]
    assert shapes == [(n,), (2 * n + 1,), (n // 2,), ()]
    slope = wb.grad(np.sum(y) + 10 * np.sum(wider) + 100 * total, x)
    f = wb.function([x], [half, total, slope])
    for size in (0, 1, 5):
        at = np.arange(size) + 1.0
        found = f(at)
        assert found[0].shape == (size // 2,)
        assert found[1] == at.sum()
        np.testing.assert_array_equal(found[2], 2 * at + 110)


@needs_c
def test_a_letter_says_that_two_unknown_lengths_are_one(
    rng: np.random.Generator,
) -> None:
    names = ("x", "w", "y", "g")
    x, w, y, g = (wb.matrix(name) for name in names)
    dx, dw = CDistGrad()(x, w, y, g)
    assert (dx.ndim, dw.ndim) == (2, 2)
    f = wb.function([x, w, y, g], [dx, dw])
    at = (
        rng.normal(size=(3, 2)), rng.normal(size=(4, 2)),
        1 + rng.random((3, 4)), rng.normal(size=(3, 4)),
    )  # fmt: skip
    for found, want in zip(f(*at), CDistGrad().fallback(*at), strict=True):
        np.testing.assert_allclose(found, want, rtol=1e-12)
    with pytest.raises(ShapeError, match="both are d"):
        f(at[0], np.ones((4, 3)), *at[2:])
    with pytest.raises(ShapeError, match="of length 3 and axis 1 of w is of length 5"):
        CDistGrad()(wb.matrix(shape=(None, 3)), wb.matrix(shape=(2, 5)), y, g)


# Bad input


def refused(op: Any, *inputs: Any) -> str:
    with pytest.raises((DtypeError, ShapeError)) as found:
        op(*inputs)
    text = str(found.value)
    assert "test_op.py" in text
    return text


def test_a_wrong_dtype_says_which_are_allowed_and_the_cast() -> None:
    text = refused(KernelSquares(), np.arange(3))
    assert (
        "kernel_squares: the input x is int64[3], and the kernel takes float64[n]"
        in text
    )
    assert "x.astype('float64')" in text
    text = refused(ZeroOut(), np.ones(3, np.float16))
    assert "T int32 or int64 or float32 or float64" in text
    assert "to_zero.astype('float32')" in text
    assert "np.real(x)" in refused(KernelSquares(), np.ones(3) * 1j)
    x = np.ones((2, 2))
    text = refused(CDistGrad(), x, x.astype(np.float32), x, x)
    assert "x is float64 and w is float32, and both are T" in text


def test_a_wrong_shape_says_which_axes_disagree() -> None:
    x = np.ones((2, 3))
    text = refused(CDistGrad(), x, np.ones((4, 5)), np.ones((2, 4)), np.ones((2, 4)))
    assert "axis 1 of x is of length 3 and axis 1 of w is of length 5" in text
    assert "both are d" in text
    text = refused(KernelSquares(), x)
    assert "float64[2, 3], of 2 axes, and the kernel takes float64[n]" in text
    text = refused(KernelSquares(), x, x)
    assert "kernel_squares takes 1 array (x) and got 2" in text


def test_a_setting_of_another_type() -> None:
    with pytest.raises(UsageError, match=r"extra=2\.5 is declared as int"):
        KernelMoments(2.5)(np.ones((2, 2)), np.ones(2, bool))  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="extra=True"):
        KernelMoments(True)(np.ones((2, 2)), np.ones(2, bool))
    with pytest.raises(UsageError, match="extra="):
        KernelMoments(2**63)(np.ones((2, 2)), np.ones(2, bool))


def declared(**parts: Any) -> None:
    """Make a class of these parts; where it stands is this function's."""
    type("Declared", (wb.KernelOp,), {"__module__": __name__, **parts})


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({"inputs": {"x": "float64"}}, "not a dtype and shape"),
        ({"inputs": {"x": "float65[n]"}}, "not one of the dtypes"),
        ({"inputs": {"x": "float64[n**2]"}}, r"'n\*\*2' is not a length"),
        ({"inputs": {"x": "float64[n + 1]"}}, "no input has an axis of length n"),
        ({"inputs": {"x": "float64[..., ...]"}}, "once only"),
        ({"inputs": {"int": "float64[n]"}}, "cannot name an array"),
        ({"inputs": {"n": "float64[n]"}}, "n stands for two things"),
        ({"outputs": {"y": "float64[k]"}}, "no input has an axis of length k"),
        ({"outputs": {"y": "T[n]"}}, "no input is of the dtype T"),
        ({"outputs": {}}, "no output is declared"),
        ({"inputs": "x float64[n]"}, "not a list of arrays"),
        ({"inputs": "x: float64[n], x: float64[n]"}, "not a list of arrays"),
        ({"inputs": "x: float64[n"}, "not a list of arrays"),
        ({"inputs": "x: float64[...], size: float64[n]"}, "size stands for two"),
        ({"inputs": "x: float64[int]"}, "'int' is a word of C's"),
        ({"inputs": "x: long[n]"}, "'long' is not one of the dtypes"),
        ({"types": "T = float64"}, "T = float64"),
        ({"flags": 3}, "not flags of a compiler"),
        ({"flags": (3,)}, "not flags of a compiler"),
        ({"types": {"T": ["float16"]}}, "float16"),
        ({"c": None}, "has no source"),
        ({"c": 3}, "is not a source"),
        ({"cpp": "void declared() {}"}, "C and C"),
        ({"c": Path("nowhere.c")}, "cannot be read"),
        ({"threads": "n * k"}, "is not a number of the letters n"),
        ({"derivatives": "fallback"}, "write derivatives"),
        ({"__annotations__": {"mode": str}}, "of type bool, int or float"),
        ({"__annotations__": {"flags": tuple}}, "not a setting but belongs to the"),
        ({"compute": lambda self, x: x}, "the value of a kernel"),
    ],
)
def test_a_declaration_that_makes_no_sense(parts: dict[str, Any], said: str) -> None:
    good = {"inputs": {"x": "float64[n]"}, "outputs": {"y": "float64[n]"}, "c": "-"}
    with pytest.raises((KernelError, UsageError), match=said):
        declared(**{**good, **parts})


def test_the_base_itself_computes_nothing() -> None:
    with pytest.raises(UsageError, match="declares no arrays yet"):
        wb.KernelOp()


@needs_c
def test_inputs_by_name_and_arrays_that_mean_something_else() -> None:
    squares = KernelSquares()
    assert squares(x=np.array([1.0, 3.0])).tolist() == [1, 9]
    with pytest.raises(UsageError, match="kernel_squares takes x; 0 by position and z"):
        squares(z=np.ones(2))
    with pytest.raises(TraceError, match="its mask would be lost"):
        squares(np.ma.masked_array([1.0, 2.0], [0, 1]))


# Threads


@needs_c
def test_two_threads_compile_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from workbench.custom.kernels import toolchain

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    builds = []
    run = toolchain.run

    def counted(command: Any, *rest: Any) -> Any:
        builds.append(command)
        return run(command, *rest)

    class Threaded(wb.KernelOp):
        inputs = "x: float64[n]"
        outputs = "y: float64[n]"
        c = SQUARES.format(name="threaded")

    op, found = Threaded(), []
    KernelSquares()(np.ones(1))  # the version of the compiler is known now
    monkeypatch.setattr(toolchain, "run", counted)
    threads = [
        threading.Thread(target=lambda: found.append(op(np.array([3.0]))))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [float(y[0]) for y in found] == [9.0] * 8
    assert len(builds) == 1


@needs_c
def test_other_threads_run_while_a_kernel_does() -> None:
    class Waits(wb.KernelOp):
        inputs = "ready: int32[n]"
        outputs = "seen: int32[]"
        c = r"""
        #include <unistd.h>
        void waits(const int32_t *ready, int32_t *seen, int64_t n) {
            for (int turn = 0; turn < 5000 && !*(volatile const int32_t *)ready; turn++)
                usleep(1000);
            *seen = ready[0];
        }
        """

    ready = np.zeros(1, np.int32)
    Waits()(np.ones(1, np.int32))  # compiled
    threading.Timer(0.05, lambda: ready.__setitem__(0, 1)).start()
    assert Waits()(ready) == 1
