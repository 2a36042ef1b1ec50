"""The same programs on an NVIDIA GPU: CuPy arrays in, CuPy arrays out.

Skipped, with the reason, where there is no CuPy or no device.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.gpu.device import cupy, needed
from tests.ops.samples import SAMPLES, Sample
from tests.ops.test_foreign_arrays import MIXED, PROGRAMS, B, W
from workbench.backends.numpy import compile

pytestmark = needed()


def host(x: Any) -> Any:
    """The values of a device array, which everything in a result must be."""
    if isinstance(x, (tuple, list)):
        return [host(part) for part in x]
    assert isinstance(x, cupy.ndarray), f"{type(x)} came back"
    return cupy.asnumpy(x)


def both(
    f: Callable[..., Any], args: tuple[Any, ...], tolerance: float = 1e-10
) -> None:
    """The same on the device as on the host."""
    expected = f(*args)
    made = host(f(*map(cupy.asarray, args)))
    if not isinstance(expected, (tuple, list)):
        expected, made = [expected], [made]
    for got, truth in zip(made, expected, strict=True):
        assert got.dtype == np.asarray(truth).dtype
        np.testing.assert_allclose(got, truth, rtol=tolerance, atol=tolerance)


@pytest.fixture
def args(rng: np.random.Generator) -> tuple[Any, ...]:
    return rng.standard_normal(4), W, B


@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients(name: str, args: tuple[Any, ...]) -> None:
    both(wb.grad(PROGRAMS[name], (0, 1, 2)), args)


@pytest.mark.parametrize("name", PROGRAMS)
def test_forward_mode_and_second_order(name: str, args: tuple[Any, ...]) -> None:
    f = PROGRAMS[name]
    both(lambda *args: wb.jvp(f, args, args)[1], args)
    both(lambda *args: wb.hvp(f, args, args), args)


@pytest.mark.parametrize("mode", ["fwd", "rev"])
def test_jacobians_and_hessians(mode: Any, args: tuple[Any, ...]) -> None:
    both(wb.jacobian(lambda x, W, b: np.tanh(W @ x) * b, mode=mode), args)
    both(wb.jacobian(lambda x, W, b: np.where(x > 0, x * x, 0), mode=mode), args)
    both(wb.hessian(PROGRAMS["network"]), args)


def test_batches(args: tuple[Any, ...]) -> None:
    def f(x: Any, W: Any, b: Any) -> Any:
        per_row = wb.vmap(wb.grad(lambda r, k: np.sum(np.sin(r) * k)), (0, 0))
        return per_row(W * x, b)

    both(f, args)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_graph_traced_on_the_host_runs_on_the_device(
    name: str, args: tuple[Any, ...]
) -> None:
    specs = [wb.Spec(np.shape(a), np.dtype(float)) for a in args]
    both(compile(wb.trace(PROGRAMS[name])(*specs)), args)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dtypes_stay(dtype: Any, args: tuple[Any, ...]) -> None:
    single = tuple(a.astype(dtype) for a in args)
    tolerance = 1e-4 if dtype == np.float32 else 1e-10
    both(wb.grad(PROGRAMS["network"], (0, 1, 2)), single, tolerance)


@pytest.mark.parametrize(
    "sample", [s for s in SAMPLES if "f" in s.kinds], ids=lambda s: s.name
)
def test_every_sample_of_every_op(sample: Sample, rng: np.random.Generator) -> None:
    """Values and gradients; an op that CuPy does not have says so."""
    if sample.name in MIXED:
        pytest.skip(MIXED[sample.name])
    args = [np.asarray(a, np.float64) for a in sample.arguments(rng)]
    seed = rng.standard_normal(np.shape(sample.f(*args)))

    def gradients(*args: Any) -> Any:
        weight = cupy.asarray(seed) if isinstance(args[0], cupy.ndarray) else seed
        y, pullback = wb.vjp(sample.f, *args)
        return [y, *pullback(weight)]

    try:
        both(gradients, tuple(args), 1e-8)
    except TypeError as error:
        if "no implementation found" not in str(error):
            raise
        pytest.skip(f"CuPy has no such function: {error}")
