"""Kernels of complex values: error beside the modulus, and where infinities stand.

The truth is mpmath's; at infinities and NaN it is NumPy's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

from tests.backends.compiled.programs import compile_graph, list_machines, trace
from workbench.backends.compiled.steps import HostStep

TRUTH: dict[str, Callable[[Any], Any]] = {
    "exp": mpmath.exp, "log": mpmath.log, "log2": lambda z: mpmath.log(z, 2),
    "log10": mpmath.log10, "sqrt": mpmath.sqrt, "sin": mpmath.sin, "cos": mpmath.cos,
    "tan": mpmath.tan, "sinh": mpmath.sinh, "cosh": mpmath.cosh, "tanh": mpmath.tanh,
    "reciprocal": lambda z: 1 / z, "sign": lambda z: z / abs(z),
    "absolute": abs, "square": lambda z: z * z,
}  # fmt: skip
#: Of these a large argument takes mpmath long, and the result is infinite or known.
GROWING = set("exp sin cos tan sinh cosh tanh".split())
DTYPES = (np.complex128, np.complex64)
COUNT, MANY = 100, 40


def compute(f: Callable[..., Any], args: list[Any]) -> list[Any]:
    """What kernels give, with vectors of each width."""
    graph = trace(f, args)
    made = []
    for machine in list_machines():
        program = compile_graph(graph, args, machine)
        assert not any(isinstance(step, HostStep) for step in program.plan.steps)
        made.append(program.run(args)[0].copy())
    return made


def join(real: Any, imag: Any, dtype: Any) -> Any:
    """Complex numbers of parts as they are, infinite ones too."""
    z = np.empty(real.shape, dtype)
    z.real, z.imag = real, imag
    return z


def draw(rng: np.random.Generator, dtype: Any, name: str, count: int) -> Any:
    """Numbers of many sizes, around 1, and of every exponent."""
    part = np.dtype(dtype).type(0).real.dtype
    limits = np.finfo(part)
    most = np.log(float(limits.max)) - 1
    shape = (2, count)
    sign = rng.choice([-1, 1], shape)
    apart = 10.0 ** rng.uniform(-8, 0, count)
    groups = [
        sign * np.minimum(np.exp(rng.uniform(-20, 7, shape)), most),
        rng.normal(0, 2, shape),
        rng.normal(0, 0.3, shape) * apart + np.array([[1.0], [0.0]]),
    ]
    if name not in GROWING:
        highest = most / 2.1 if name == "square" else most - 1
        groups.append(sign * np.exp(rng.uniform(-highest, highest, shape)))
    parts = np.concatenate(groups, 1).astype(part)
    return join(parts[0], parts[1], dtype)


def check_accuracy(rng: np.random.Generator, name: str, dtype: Any, count: int) -> None:
    z = draw(rng, dtype, name, count)
    limits = np.finfo(dtype)
    with mpmath.workprec(160):
        truth = [TRUTH[name](mpmath.mpc(complex(v))) for v in z.tolist()]
        for got in compute(getattr(np, name), [z]):
            for x, y, t in zip(z.tolist(), got.tolist(), truth, strict=True):
                size = np.asarray(float(abs(t)), limits.dtype)
                spacing = max(float(np.spacing(size)), float(limits.smallest_subnormal))
                apart = float(abs(mpmath.mpmathify(y) - t)) / spacing
                assert apart <= 4, (name, x, y, apart)


@pytest.mark.parametrize("dtype", DTYPES, ids=["c16", "c8"])
@pytest.mark.parametrize("name", TRUTH)
def test_four_units_of_the_modulus(
    name: str, dtype: Any, rng: np.random.Generator
) -> None:
    check_accuracy(rng, name, dtype, COUNT)


@pytest.mark.long
@pytest.mark.parametrize("dtype", DTYPES, ids=["c16", "c8"])
@pytest.mark.parametrize("name", TRUTH)
def test_four_units_of_the_modulus_with_many(
    name: str, dtype: Any, rng: np.random.Generator
) -> None:
    check_accuracy(rng, name, dtype, COUNT * MANY)


def list_ends(dtype: Any) -> Any:
    limits = np.finfo(dtype)
    ends = [0.0, 0.5, 1.0, 1.5, np.inf, float(limits.smallest_normal) / 8, 1e30]
    both = np.array([*ends, *(-e for e in ends), np.nan]).astype(limits.dtype)
    real, imag = np.meshgrid(both, both)
    return join(real.ravel(), imag.ravel(), dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=["c16", "c8"])
@pytest.mark.parametrize("name", [*TRUTH, "isnan", "isinf", "isfinite", "conjugate"])
def test_ends_are_as_numpy_has_them(name: str, dtype: Any) -> None:
    z = list_ends(dtype)
    if name == "square":  # with or without a fused multiply-add, NumPy's differs
        z = z[np.isfinite(z) & (np.abs(z) < 1e15)]
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(z)
    for got in compute(getattr(np, name), [z]):
        if expected.dtype == bool:
            np.testing.assert_array_equal(got, expected)
            continue
        for part in ("real", "imag"):
            mine, theirs = getattr(got, part), getattr(expected, part)
            odd = ~np.isfinite(theirs)
            np.testing.assert_array_equal(mine[odd], theirs[odd], str(z[odd]))
        finite = np.isfinite(expected)
        bound = 16 * np.finfo(dtype).eps * np.abs(expected[finite])
        apart = np.abs(got[finite] - expected[finite])
        assert np.all(apart <= bound + 1e-37), z[finite][apart > bound]


@pytest.mark.parametrize("power", [0, 1, 2, 3, 7, 16, -1, -2, -5])
@pytest.mark.parametrize("dtype", DTYPES, ids=["c16", "c8"])
def test_powers_to_whole_numbers(
    dtype: Any, power: int, rng: np.random.Generator
) -> None:
    z = join(rng.normal(0, 2, 50), rng.normal(0, 2, 50), dtype)
    expected = z.astype(np.complex128) ** power
    bound = (abs(power) + 2) * np.finfo(dtype).eps * np.abs(expected)
    for got in compute(lambda x: x**power, [z]):
        assert got.dtype == dtype
        assert np.all(np.abs(got - expected) <= bound)
    zero = np.zeros(8, dtype)
    with np.errstate(all="ignore"):
        expected = zero**power
    for got in compute(lambda x: x**power, [zero]):
        np.testing.assert_array_equal(got, expected)


def test_other_powers_are_those_of_numpy(rng: np.random.Generator) -> None:
    """By its own loop, inside a kernel."""
    z = join(rng.normal(0, 2, 9), rng.normal(0, 2, 9), complex)
    graph = trace(lambda x: x**0.3 + x, [z])
    program = compile_graph(graph, [z])
    assert not any(isinstance(step, HostStep) for step in program.plan.steps)
    np.testing.assert_allclose(program.run([z])[0], z**0.3 + z, rtol=1e-14)
