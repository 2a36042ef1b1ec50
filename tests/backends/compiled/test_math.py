"""Functions of kernels over their whole range: 4 units in the last place, and limits.

The truth is mpmath, of 60 digits; at infinities, NaN and zeros it is NumPy.
"""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest

from tests.backends.compiled.programs import (
    compile_graph,
    count_ulps,
    list_machines,
    trace,
)
from workbench.backends.compiled.lowering import HostStep

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


def compute(name: str, args: list[Any]) -> list[Any]:
    """The values that kernels give, with vectors of each width."""
    graph = trace(lambda *xs: getattr(np, name)(*xs), args)
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
