"""Every sample with lengths that are known only when the program runs.

Value, gradient, tangent and second order are made once, of symbols all of whose
lengths are unknown. They run on the sample's own arrays, and on longer ones where the
sample allows, against the same sample on plain arrays; the text runs alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.ops.samples import SAMPLES, Sample
from workbench.backends.numpy import compile
from workbench.graph.graph import Graph
from workbench.graph.tensor import Tensor
from workbench.transforms import forward, reverse

FLOATS = [s for s in SAMPLES if "f" in s.kinds and s.batch]


def drawn(sample: Sample, rng: np.random.Generator) -> list[Any]:
    return [np.asarray(a, np.float64) for a in sample.arguments(rng)]


def symbols(args: list[Any]) -> list[Tensor]:
    return [
        wb.tensor(f"x{i}", dtype=a.dtype, shape=(None,) * a.ndim)
        for i, a in enumerate(args)
    ]


def same(got: Any, expected: Any, tolerance: float = 1e-10) -> None:
    assert np.shape(got) == np.shape(expected)
    scale = max(1.0, float(np.max(np.abs(expected), initial=0)))
    np.testing.assert_allclose(got, expected, rtol=0, atol=tolerance * scale)


def run_text(function: Any, arrays: list[Any]) -> Any:
    namespace = dict(function.constants)
    exec(function.source, namespace)
    made = namespace["function"](*arrays)
    return list(made) if isinstance(made, tuple) else [made]


@pytest.mark.parametrize("sample", FLOATS, ids=lambda s: s.name)
def test_samples(sample: Sample, rng: np.random.Generator) -> None:
    args = drawn(sample, rng)
    xs = symbols(args)
    y = sample.f(*xs)
    expected = sample.f(*args)
    if not isinstance(y, Tensor):
        same(y, expected)
        return
    seed = wb.tensor("seed", dtype=y.dtype, shape=y.shape)
    ts = [wb.tensor(f"t{i}", dtype=x.dtype, shape=x.shape) for i, x in enumerate(xs)]
    gradients = reverse.pull_back([y], [seed], xs, record=True)
    (tangent,) = forward.push_forward([y], xs, ts, record=True)
    weight = np.asarray(rng.standard_normal(np.shape(expected)), y.dtype)
    moves = [rng.standard_normal(a.shape) for a in args]
    _, pullback = wb.vjp(sample.f, *args)
    back = [g for g in gradients if g is not None]
    whole = pullback(weight)
    truth = [expected, *(w for w, g in zip(whole, gradients, strict=True) if g is not None)]
    outputs = [y, *back]
    if tangent is not None:
        outputs.append(tangent)
        truth.append(wb.jvp(sample.f, tuple(args), tuple(moves))[1])
    function = compile(Graph([*xs, seed, *ts], outputs))
    arrays = [*args, weight, *moves]
    made = function(*arrays)
    for got, right in zip(made, truth, strict=True):
        same(got, right)
    for got, right in zip(run_text(function, arrays), made, strict=True):
        same(got, right)
