"""Ops that are written in simpler ones: statistics, places, what arranges anew."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.backends.compiled.programs import check_program, trace
from workbench.backends.compiled.steps import HostStep

PROGRAMS = {
    "var": "np.var(x), np.var(x, 0), np.var(x, (0, 2), keepdims=True, ddof=1)",
    "std": "np.std(x), np.std(x, -1), np.std(x, (0, 1), ddof=2)",
    "norm": "np.linalg.norm(x), np.linalg.norm(x, axis=1), np.linalg.norm(x[0])",
    "power norm": "np.linalg.norm(x, 3, axis=1), np.linalg.norm(x, -1, axis=0)",
    "extrema": "np.max(x, initial=0.5), np.min(x, 1), np.ptp(x, 0)",
    "missing": "np.nanmax(y, 0), np.nanmin(y, 1), np.nansum(y, 2), np.nanmean(y, 1)",
    "counts": "np.count_nonzero(x > 0, 1), np.any(x, 0), np.all(x > -3), np.any(y)",
    "places": "np.argmax(x, 1), np.argmin(x), np.argmax(x, 2, keepdims=True)",
    "places of NaN": "np.argmax(y, 1), np.argmin(y), np.argmin(y, 2), np.argmax(x > 0)",
    "roll": "np.roll(x, 2), np.roll(x, -1, 1), np.roll(x, (1, 7), (0, 2))",
    "tile": "np.tile(x, 2), np.tile(x[0], (2, 1, 3)), np.repeat(x, 3, 1)",
    "pad": "np.pad(x, 1), np.pad(x, ((0, 1), (2, 0), (1, 1)), constant_values=2.5)",
    "edges": "np.pad(x, 2, mode='edge'), np.pad(x[0], 1, mode='reflect')",
    "lines": "np.linspace(x[0], x[1], 5), np.linspace(x[0, 0], 2, 3, endpoint=False)",
    "round": "np.round(x), np.round(x, 2), np.round(100 * x, -1)",
    "triangles": "np.tril(x), np.triu(x[0], 1), np.trace(x), np.diag(x[0, 0])",
    "pieces": "np.diff(x, axis=1), np.flip(x), np.split(x, 3, 1)[1], np.kron(x, x[0])",
    "choices": "np.select([x > 1, x > 0], [x, -x], 7.0), np.clip(x, -0.5, None)",
    "averages": "np.average(x, 0, x[:, 0, 0] ** 2), np.median(x[:, :1]), np.cov(x[0])",
    "whole numbers": "np.sum(n, 0), np.prod(n, 1), np.argmax(n), np.mean(n), np.std(n)",
}  # fmt: skip
#: What NumPy still computes of them.
BY_NUMPY = {"argpartition"}


def draw(rng: np.random.Generator) -> list[Any]:
    x = rng.normal(size=(4, 3, 5))
    y = np.where(rng.uniform(size=x.shape) < 0.2, np.nan, x)
    return [x, y, rng.integers(-5, 5, (4, 6))]


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS.keys())
def test_values(program: str, rng: np.random.Generator) -> None:
    args = draw(rng)
    args[1][0] = np.where(np.isnan(args[1][0]), 1.0, args[1][0])  # no row is all NaN

    def compute(x: Any, y: Any, n: Any) -> Any:
        return eval(program, {"np": np, "x": x, "y": y, "n": n})

    made = check_program(trace(compute, args), args, 64)
    assert made is not None
    hosts = {s.node.op.name for s in made.plan.steps if isinstance(s, HostStep)}
    assert hosts <= BY_NUMPY


@pytest.mark.parametrize("name", ["var", "std", "max", "min", "mean", "prod", "median"])
def test_gradients_where_entries_tie(name: str, rng: np.random.Generator) -> None:
    x = np.round(rng.uniform(1, 3, size=(6, 7)))

    def slopes(x: Any) -> Any:
        return tuple(
            wb.grad(lambda x, a=axis: np.sum(getattr(np, name)(x, axis=a) ** 2))(x)
            for axis in (None, 0, 1)
        )

    check_program(trace(slopes, [x]), [x], 256)


def test_a_row_of_nothing_but_nan(rng: np.random.Generator) -> None:
    x = rng.normal(size=(3, 4))
    x[1] = np.nan
    graph = trace(lambda x: (np.nanmax(x, 1), np.argmax(x, 1), np.max(x, 1)), [x])
    check_program(graph, [x])


def test_large_sums_round_as_numpys_do(rng: np.random.Generator) -> None:
    """Against sums of fractions that are exact in 53 bits more."""
    x = rng.uniform(size=2**20 + 3).astype(np.float32)
    rows = x[: 2**20].reshape(4, -1)
    exact = np.sum(x.astype(float)), np.sum(rows.astype(float), 1)
    program = check_program(trace(lambda x, r: (np.sum(x), np.sum(r, 1)), [x, rows]),
                            [x, rows], 64)  # fmt: skip
    assert program is not None
    for got, want in zip(program.run([x, rows]), exact, strict=True):
        assert np.all(np.abs(got - want) <= 8 * np.finfo(np.float32).eps * want)


@pytest.mark.parametrize("dtype", ["f8", "f4", "c16", "i8", "i2", "u1", "?"])
def test_running_sums_and_products(dtype: str, rng: np.random.Generator) -> None:
    x = rng.uniform(0.5, 1.5, size=(5, 9, 6)).astype(dtype)
    y = x[:, 0]

    def run(x: Any, y: Any) -> Any:
        return (
            *(np.cumsum(x, axis) for axis in (None, 0, 1, 2)), np.cumsum(x[:, 3, 1]),
            np.cumsum(x[::-1], 0)[::-1], np.cumprod(y, 1), np.cumprod(y.T, 1),
            np.flip(np.cumsum(np.flip(x, 1), 1), 1),
        )  # fmt: skip

    program = check_program(trace(run, [x, y]), [x, y], 64)
    assert program is not None
    hosts = {s.node.op.name for s in program.plan.steps if isinstance(s, HostStep)}
    assert hosts <= ({"cumprod"} if dtype == "c16" else set())


def test_gradients_of_running_sums_and_products(rng: np.random.Generator) -> None:
    x = rng.uniform(0.5, 1.5, size=(6, 7))

    def slopes(x: Any) -> Any:
        return wb.grad(lambda x: np.sum(np.cumsum(x, 1) ** 2 * np.cumprod(x, 0)))(x)

    program = check_program(trace(slopes, [x]), [x], 256)
    assert program is not None
    assert not any(isinstance(s, HostStep) for s in program.plan.steps)
