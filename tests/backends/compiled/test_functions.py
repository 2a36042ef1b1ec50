"""Elementary functions written as formulas, for themselves: range, lanes, processors.

The truth is mpmath's; where there is no number to count from, NumPy's or SciPy's.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy import special

from tests.backends.compiled import polynomials
from tests.backends.compiled.programs import count_ulps
from workbench.backends.compiled.builder import IMPLIED, TYPES, Builder, Value
from workbench.backends.compiled.formula import define
from workbench.backends.compiled.functions import CONSTANTS, FUNCTIONS, call_function
from workbench.backends.compiled.machine import Machine, find_address
from workbench.errors import CompilerError

KINDS = ("f8", "f4")
TWO = {"pow", "atan2", "hypot"}
#: What NumPy calls them.
NAMES = {
    "asin": "arcsin", "acos": "arccos", "atan": "arctan", "atan2": "arctan2",
    "asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh", "pow": "power",
}  # fmt: skip
TRUTH: dict[str, Any] = {
    "exp2": lambda x: mpmath.power(2, x), "log2": lambda x: mpmath.log(x, 2),
    "cbrt": lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x)), "pow": mpmath.power,
}  # fmt: skip
#: Entries of a sample; the long tests take twenty times as many.
COUNT, MANY = 240, 20

Run = Callable[..., Any]


@cache
def make_machine(has_fma: bool) -> Machine:
    machine = Machine()
    machine.has_fma = machine.has_fma and has_fma
    return machine


def write_loop(machine: Machine, name: str, kind: str, lanes: int) -> tuple[str, Any]:
    """A function of arrays as IR, and the symbols that it needs."""
    b = Builder(machine, lanes)
    type_ = b.type(kind)
    b.lines = [
        "define void @run(ptr %y, ptr %x0, ptr %x1, i64 %n) {",
        "start:", "  br label %head", "head:",
        "  %i = phi i64 [0, %start], [%next, %body]",
        "  %more = icmp slt i64 %i, %n",
        "  br i1 %more, label %body, label %end", "body:",
    ]  # fmt: skip

    def step(pointer: str) -> str:
        return b.emit(f"getelementptr {TYPES[kind]}, ptr {pointer}, i64 %i", kind).text

    operands = [
        b.emit(f"load {type_}, ptr {step(f'%x{i}')}, align 1", kind)
        for i in range(1 + (name in TWO))
    ]
    made = call_function(b, name, *operands)
    b.line(f"store {type_} {made.text}, ptr {step('%y')}, align 1")
    b.lines += [
        f"  %next = add i64 %i, {lanes}", "  br label %head", "end:", "  ret void", "}",
    ]  # fmt: skip
    symbols = b.symbols | {s for s in IMPLIED if find_address(s) is not None}
    return "\n".join([*sorted(b.declared), *b.lines]), symbols


@cache
def make_function(name: str, kind: str, lanes: int, has_fma: bool = True) -> Run:
    """A function of arrays of whole vectors."""
    machine = make_machine(has_fma)
    ir, symbols = write_loop(machine, name, kind, lanes)
    library = machine.compile(ir, ["run"], symbols, quick=False)
    signature = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, ctypes.c_int64)
    call = signature(library.addresses["run"])

    def run(*xs: Any) -> Any:
        assert library is not None  # whose code this is
        assert len(xs[0]) % lanes == 0
        y = np.empty_like(xs[0])
        call(y.ctypes.data, xs[0].ctypes.data, xs[-1].ctypes.data, len(y))
        return y

    return run


def draw(rng: np.random.Generator, kind: str, count: int) -> Any:
    """Numbers of every exponent, around 1, and where functions do their work."""
    whole = np.dtype(f"i{kind[1]}")
    limits = np.iinfo(whole)
    bits = rng.integers(limits.min, limits.max, count, dtype=whole).view(kind)
    size = np.exp(rng.uniform(-12, 6.6, count))
    near = [
        rng.uniform(-1, 1, count),
        rng.choice([-1, 1], count) * size,
        1 + rng.normal(0, 1, count) * np.exp(rng.uniform(-20, 0, count)),
        rng.integers(-40, 40, count) * (np.pi / 4),
    ]
    x = np.concatenate([bits, *(part.astype(kind) for part in near)])
    return np.where(np.isfinite(x), x, x.dtype.type(1))


def draw_operands(
    rng: np.random.Generator, name: str, kind: str, count: int
) -> list[Any]:
    x = draw(rng, kind, count)
    if name not in TWO:
        return [x]
    y = rng.permutation(draw(rng, kind, count))
    half = len(x) // 2
    with np.errstate(all="ignore"):
        if name == "pow":  # most results are neither 0 nor infinite
            x = np.abs(x)
            most = np.log(np.finfo(x.dtype).max)
            y[:half] = rng.uniform(-most, most, half) / np.log(np.abs(x[:half]))
        else:
            y[:half] = x[:half] * np.exp(rng.normal(0, 2, half))
    return [x, np.where(np.isfinite(y), y, x.dtype.type(1))]


def find_reference(name: str) -> Any:
    known = getattr(np, NAMES.get(name, name), None)
    return getattr(special, name) if known is None else known


def check_accuracy(rng: np.random.Generator, name: str, kind: str, count: int) -> None:
    args = draw_operands(rng, name, kind, count)
    with np.errstate(all="ignore"):
        expected = find_reference(name)(*args)
    inside = ~np.isnan(expected) & (
        np.isfinite(expected) | (np.abs(args[0]) > 1e-3)  # overflow, not a pole
    )
    truth_of = TRUTH.get(name) or getattr(mpmath, name)
    with mpmath.workprec(160):
        chosen = zip(*(a[inside].tolist() for a in args), strict=True)
        truth = [find_truth(truth_of, name, *map(mpmath.mpf, one)) for one in chosen]
        for has_fma in (True, False):
            got = make_function(name, kind, 1, has_fma)(*args)
            np.testing.assert_array_equal(np.isnan(got), np.isnan(expected))
            apart = count_ulps(got[inside], truth, np.dtype(kind))
            worst = int(np.argmax(apart))
            at = [float(a[inside][worst]) for a in args]
            assert apart[worst] <= 4, (name, at, apart[worst], has_fma)


def find_truth(f: Any, name: str, *xs: Any) -> Any:
    """mpmath's value; where that takes long, the limit, or a number too large."""
    x = xs[0]
    if name in ("exp", "exp2", "sinh", "cosh", "expm1") and abs(x) > 1e5:
        floor = -1 if name == "expm1" else 0
        large = mpmath.mpf(10) ** 999
        if name == "cosh":
            return large
        return large if x > 0 else -large if name == "sinh" else mpmath.mpf(floor)
    if name in ("erf", "erfc", "tanh") and abs(x) > 1e3:
        y = mpmath.sign(x)
        return 1 - y if name == "erfc" else y
    if name == "pow":
        power = xs[1] * mpmath.log(x) if x else mpmath.mpf(0)
        if abs(power) > 1e5:
            return mpmath.mpf(10) ** (999 * int(mpmath.sign(power)))
    return f(*xs)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_four_units_over_the_whole_range(
    name: str, kind: str, rng: np.random.Generator
) -> None:
    check_accuracy(rng, name, kind, COUNT)


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_four_units_over_the_whole_range_with_many(
    name: str, kind: str, rng: np.random.Generator
) -> None:
    check_accuracy(rng, name, kind, COUNT * MANY)


def list_ends(name: str, kind: str) -> list[Any]:
    """Zeros, infinities, NaN, ends of the format and of domains, whole numbers."""
    limits = np.finfo(kind)
    least = float(limits.smallest_subnormal)
    ends = [
        0.0, np.inf, np.nan, least, 3 * least, float(limits.smallest_normal),
        float(limits.max), 1.0, 0.5, 2.0, 3.0, 1 + float(limits.eps),
        1 - float(limits.epsneg), 2.0**-30, 1e20, 17.0, 88.7, 103.9, 104.1, 127.9,
        149.5, 708.5, 709.7, 709.8, 710.4, 745.0, 746.0, 1023.9, 1074.6, 2.5, 6e9,
        1e9,
    ]  # fmt: skip
    with np.errstate(all="ignore"):
        x = np.array([*ends, *(-e for e in ends)]).astype(kind)
    if name not in TWO:
        return [x]
    return [a.ravel().copy() for a in np.meshgrid(x, x)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_ends_are_as_numpy_has_them(name: str, kind: str) -> None:
    args = list_ends(name, kind)
    with np.errstate(all="ignore"):
        expected = find_reference(name)(*args)
    for lanes in (1, 4):
        got = make_function(name, kind, lanes)(*args)
        np.testing.assert_array_equal(np.isnan(got), np.isnan(expected))
        limit = np.finfo(kind)
        # SciPy's own erfc is 0 where the result is subnormal.
        tiny = float(limit.smallest_normal) if name == "erfc" else 0.0
        np.testing.assert_allclose(
            got, expected, rtol=16 * float(limit.eps),
            atol=max(tiny, 4 * float(limit.smallest_subnormal)),
        )  # fmt: skip
        number = ~np.isnan(expected) & (np.abs(expected) > tiny)
        np.testing.assert_array_equal(
            np.signbit(got[number]), np.signbit(expected[number])
        )
        exact = (expected == 0) & (np.abs(args[0]) <= 3)
        np.testing.assert_array_equal(
            np.signbit(got[exact]), np.signbit(expected[exact])
        )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_lane_depends_on_its_argument_alone(
    name: str, kind: str, rng: np.random.Generator
) -> None:
    args = draw_operands(rng, name, kind, COUNT)
    one = make_function(name, kind, 1)(*args)
    for lanes in (2, 4, 8):
        np.testing.assert_array_equal(make_function(name, kind, lanes)(*args), one)


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_no_digit_is_lost_next_to_multiples_of_a_right_angle(name: str) -> None:
    right = np.arange(1.0, 2**29, 500_009) * (np.pi / 2)
    x = np.concatenate([right, -right, 1e22 * np.arange(1.0, 5)])
    with mpmath.workprec(1400):
        truth = [getattr(mpmath, name)(mpmath.mpf(v)) for v in x.tolist()]
        for has_fma in (True, False):
            got = make_function(name, "f8", 1, has_fma)(x)
            assert count_ulps(got, truth, np.dtype("f8")).max() <= 4


def test_what_is_exact_on_paper_is_exact() -> None:
    whole = np.arange(-300.0, 300)
    small = np.arange(-30.0, 30)
    f = {name: make_function(name, "f8", 1) for name in FUNCTIONS}
    np.testing.assert_array_equal(f["exp2"](whole), np.ldexp(1.0, whole.astype(int)))
    np.testing.assert_array_equal(f["log2"](np.ldexp(1.0, whole.astype(int))), whole)
    powers = 10.0 ** np.arange(0.0, 23)
    np.testing.assert_array_equal(f["log10"](powers), np.arange(0.0, 23))
    np.testing.assert_array_equal(f["pow"](small, np.full(60, 2.0)), small**2)
    np.testing.assert_array_equal(f["pow"](small, np.full(60, 3.0)), small**3)
    np.testing.assert_array_equal(f["cbrt"](small**3), small)
    np.testing.assert_array_equal(f["hypot"](3 * small, 4 * small), np.abs(5 * small))
    np.testing.assert_array_equal(f["cos"](np.zeros(4)), np.ones(4))


TARGETS = {
    "x86-64": ("x86_64-unknown-linux-gnu", "x86-64", "", False, 2),
    "AVX-512": ("x86_64-unknown-linux-gnu", "skylake-avx512", "", True, 8),
    "Windows": ("x86_64-pc-windows-msvc", "haswell", "", True, 4),
    "ARM": ("aarch64-unknown-linux-gnu", "generic", "+neon", True, 2),
    "macOS": ("arm64-apple-darwin", "apple-m1", "", True, 2),
}


@pytest.mark.long
@pytest.mark.parametrize("target", TARGETS)
def test_other_processors_have_code(target: str) -> None:
    """Object code comes out; what it calls is C's library, on its rare ways."""
    llvm = make_machine(True).llvm
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    triple, cpu, features, has_fma, lanes = TARGETS[target]
    made = llvm.Target.from_triple(triple).create_target_machine(
        cpu=cpu, features=features, opt=1
    )
    # Where this machine has no fused multiply-add, the text has none either.
    machine = make_machine(has_fma)
    for kind, constants in CONSTANTS.items():
        for name, writer in FUNCTIONS.items():
            count = lanes * 8 // int(kind[1])
            symbol = define(machine, name, writer, constants, count)
            module = llvm.parse_assembly(machine.definitions[symbol].ir)
            module.triple = triple
            module.verify()
            assert made.emit_object(module)
            assert not re.search(r"\bfmaf?\b", made.emit_assembly(module))


def test_a_function_of_other_values_is_refused() -> None:
    b = Builder(make_machine(True), 1)
    with pytest.raises(CompilerError, match="no kernel computes gamma of f8"):
        call_function(b, "gamma", Value("%x", "f8"))
    with pytest.raises(CompilerError, match="no kernel computes exp of i4"):
        call_function(b, "exp", Value("%x", "i4"))


@pytest.mark.long
def test_the_coefficients_are_those_that_were_computed() -> None:
    assert Path(polynomials.FILE).read_text() == polynomials.write_module()


def test_formats_agree_with_numpy() -> None:
    for kind, c in CONSTANTS.items():
        limits = np.finfo(kind)
        assert c.digits == limits.nmant
        assert c.smallest == float(limits.smallest_normal)
        assert c.smallest * 2.0 ** (c.lift - c.digits) >= c.smallest
        one = np.array(c.one_bits, c.integer_kind).view(kind)
        assert one == 1
        root = np.array(c.root_half_bits, c.integer_kind).view(kind)
        assert root == np.sqrt(one / 2, dtype=kind)
