"""Functions of kernels over their whole range: 4 units in the last place, and limits.

The truth is mpmath, of 60 digits; at infinities, NaN and zeros it is NumPy.
"""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest
from scipy import special

from tests.backends.compiled.programs import (
    compile_graph,
    count_ulps,
    list_machines,
    trace,
)
from workbench.backends.compiled.steps import HostStep

UNARY: dict[str, Any] = {
    "exp": mpmath.exp, "exp2": lambda x: mpmath.power(2, x), "expm1": mpmath.expm1,
    "log": mpmath.log, "log2": lambda x: mpmath.log(x, 2), "log10": mpmath.log10,
    "log1p": mpmath.log1p, "sin": mpmath.sin, "cos": mpmath.cos, "tan": mpmath.tan,
    "arcsin": mpmath.asin, "arccos": mpmath.acos, "arctan": mpmath.atan,
    "sinh": mpmath.sinh, "cosh": mpmath.cosh, "tanh": mpmath.tanh,
    "arcsinh": mpmath.asinh, "arccosh": mpmath.acosh, "arctanh": mpmath.atanh,
    "cbrt": lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x)), "sqrt": mpmath.sqrt,
}  # fmt: skip
BINARY: dict[str, Any] = {
    "power": mpmath.power, "arctan2": mpmath.atan2, "hypot": mpmath.hypot,
    "divide": lambda x, y: x / y,
}  # fmt: skip
SPECIAL = np.array(
    [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 5e-324, -5e-324, 2.3e-308, 1e308]
)
COUNT = 600


def draw(rng: np.random.Generator, dtype: Any, inside: Any) -> Any:
    """Numbers of every exponent, and of those where functions do their work."""
    bits = rng.integers(0, 2**63 - 1, COUNT, dtype=np.int64).view(np.float64)
    wide = np.where(rng.uniform(size=COUNT) < 0.5, bits, -bits)
    near = np.concatenate(
        [
            rng.uniform(-1, 1, COUNT),
            rng.normal(0, 30, COUNT),
            rng.uniform(0.5, 2, COUNT),
        ]
    )
    with np.errstate(all="ignore"):
        x = np.concatenate([wide, near]).astype(dtype)
        x = x[np.isfinite(x) & (x != 0)]
        return x[np.isfinite(inside(x))]


def list_special(dtype: Any) -> Any:
    with np.errstate(all="ignore"):
        return SPECIAL.astype(dtype)


def compute(name: str, args: list[Any], library: Any = np) -> list[Any]:
    """The values that kernels give, with vectors of each width."""
    graph = trace(lambda *xs: getattr(library, name)(*xs), args)
    made = []
    for machine in list_machines():
        program = compile_graph(graph, args, machine)
        assert not any(isinstance(step, HostStep) for step in program.plan.steps)
        made.append(program.run(args)[0].copy())
    return made


@pytest.mark.parametrize("dtype", [np.float64, np.float32], ids=["f8", "f4"])
@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one(name: str, dtype: Any, rng: np.random.Generator) -> None:
    x = draw(rng, dtype, getattr(np, name))
    with mpmath.workdps(60):
        truth = [UNARY[name](mpmath.mpf(float(v))) for v in x]
        for got in compute(name, [x]):
            apart = count_ulps(got, truth, dtype)
            worst = int(np.argmax(apart))
            assert apart[worst] <= 4, (name, x[worst], apart[worst])
    check_special(name, [list_special(dtype)])


@pytest.mark.parametrize("dtype", [np.float64, np.float32], ids=["f8", "f4"])
@pytest.mark.parametrize("name", BINARY)
def test_functions_of_two(name: str, dtype: Any, rng: np.random.Generator) -> None:
    x, y = (draw(rng, dtype, np.isfinite) for _ in range(2))
    n = min(len(x), len(y))
    x, y = x[:n], rng.permutation(y[:n])
    if name == "power":
        x, y = np.abs(x), np.where(rng.uniform(size=n) < 0.8, y % dtype(9), y)
    with np.errstate(all="ignore"):
        inside = np.isfinite(getattr(np, name)(x, y))
    x, y = x[inside], y[inside]
    with mpmath.workdps(60):
        pairs = zip(x.tolist(), y.tolist(), strict=True)
        truth = [BINARY[name](mpmath.mpf(a), mpmath.mpf(b)) for a, b in pairs]
        for got in compute(name, [x, y]):
            apart = count_ulps(got, truth, dtype)
            worst = int(np.argmax(apart))
            assert apart[worst] <= 4, (name, x[worst], y[worst], apart[worst])
    both = np.meshgrid(list_special(dtype), list_special(dtype))
    check_special(name, [a.ravel().copy() for a in both])


def check_special(name: str, args: list[Any]) -> None:
    """NaN and infinities stand where NumPy has them; the rest is near."""
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(*args)
    for got in compute(name, args):
        np.testing.assert_array_equal(np.isnan(got), np.isnan(expected))
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-37)


TWO_SIDED = "maximum minimum fmax fmin copysign heaviside fmod remainder floor_divide"


@pytest.mark.parametrize("name", TWO_SIDED.split())
def test_exact_functions_of_two_agree_everywhere(
    name: str, rng: np.random.Generator
) -> None:
    pairs = np.meshgrid(
        np.concatenate([SPECIAL, rng.normal(0, 9, 40), np.arange(-5.0, 6)]),
        np.concatenate([SPECIAL, rng.normal(0, 9, 40), np.arange(-5.0, 6)]),
    )
    args = [a.ravel().copy() for a in pairs]
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(*args)
    for got in compute(name, args):
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize(
    "name",
    "floor ceil trunc rint sign fabs square isnan isinf isfinite signbit".split(),
)
def test_exact_functions_of_one_agree_everywhere(
    name: str, rng: np.random.Generator
) -> None:
    x = np.concatenate([SPECIAL, rng.normal(0, 9, 100), np.arange(-4, 4) + 0.5])
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(x)
    for got in compute(name, [x]):
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize(
    "relation", "less less_equal greater greater_equal equal not_equal".split()
)
@pytest.mark.parametrize("dtype", ["f8", "i4", "u1", "?"])
def test_comparisons(relation: str, dtype: str, rng: np.random.Generator) -> None:
    x, y = (rng.integers(0, 3, 30).astype(dtype) for _ in range(2))
    if dtype == "f8":
        x[3] = y[7] = np.nan
    for got in compute(relation, [x, y]):
        np.testing.assert_array_equal(got, getattr(np, relation)(x, y))


SPECIAL_FUNCTIONS = {
    "logit": 1, "expit": 1, "log_expit": 1, "entr": 1, "exp10": 1, "exprel": 1,
    "cosm1": 1, "ndtr": 1, "erf": 1, "xlogy": 2, "xlog1py": 2, "rel_entr": 2,
    "kl_div": 2, "huber": 2, "pseudo_huber": 2,
}  # fmt: skip


@pytest.mark.parametrize("name", SPECIAL_FUNCTIONS)
def test_rows_of_special_functions(name: str, rng: np.random.Generator) -> None:
    f = getattr(special, name)
    ends = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, 1e300, 710.0, 720.0]
    if SPECIAL_FUNCTIONS[name] == 1:
        args = [np.concatenate([ends, rng.uniform(0, 1, 50), rng.normal(0, 9, 50)])]
    else:
        grid = [a.ravel() for a in np.meshgrid(ends, ends)]
        x = np.exp(rng.normal(0, 2, 100))
        y = x * np.exp(rng.normal(0, 1, 100))
        args = [np.concatenate(pair) for pair in zip(grid, (x, y), strict=True)]
    with np.errstate(all="ignore"):
        expected = f(*args)
    # a small difference has the digits of what is subtracted
    scale = np.maximum(np.abs(expected), 1.0)
    for a in args:
        scale = np.maximum(scale, np.where(np.isfinite(a), np.abs(a), 0))
    finite = np.isfinite(expected)
    for got in compute(name, args, special):
        np.testing.assert_array_equal(got[~finite], expected[~finite])
        apart = np.abs(got[finite] - expected[finite])
        assert np.all(apart <= 16 * np.finfo(float).eps * scale[finite])


INTEGERS = "i1 i2 i4 i8 u1 u2 u4 u8".split()


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("name", ["floor_divide", "remainder", "fmod"])
def test_integers_are_divided_by_all(name: str, dtype: str) -> None:
    """By 0 too, and the lowest number by -1, where a processor stops."""
    limits = np.iinfo(dtype)
    ends = [limits.min, limits.min + 1, limits.max, 0, 1, 2, 3, 7]
    signed = [-1, -2, -3, -7] if dtype[0] == "i" else [9, 11, 30, 100]
    whole = np.array([*ends, *signed], dtype)
    args = [a.ravel().copy() for a in np.meshgrid(whole, whole)]
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(*args)
    for got in compute(name, args):
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize(
    ("dtype", "decimals"),
    [(dtype, n) for dtype in ("f4", "f8", "c16") for n in (-2, 0, 1, 3)]
    + [(dtype, n) for dtype in INTEGERS for n in (0, 2)],
)
def test_rounding_to_decimals(
    dtype: str, decimals: int, rng: np.random.Generator
) -> None:
    x = rng.integers(-120, 120, 50) * (1 if dtype[0] in "iu" else 1.005)
    x = x.astype(dtype) * (np.dtype(dtype).type(1j) if dtype == "c16" else 1)
    expected = np.round(x, decimals)
    graph = trace(lambda a: np.round(a, decimals), [x])
    for machine in list_machines():
        got = compile_graph(graph, [x], machine).run([x])[0]
        assert got.dtype == expected.dtype
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_powers_of_integers_wrap(dtype: str) -> None:
    x = np.arange(0, 40).astype(dtype)
    expected = x**5
    graph = trace(lambda a: a**5, [x])
    for machine in list_machines():
        program = compile_graph(graph, [x], machine)
        assert not any(isinstance(step, HostStep) for step in program.plan.steps)
        np.testing.assert_array_equal(program.run([x])[0], expected)
