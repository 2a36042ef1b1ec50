"""Every sample of every op: the backend, its text, and whole Jacobians."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.backends.test_spelling import OPAQUE
from tests.chunks import parametrize_chunks
from tests.ops.samples import ALIKE_IN_KIND, SAMPLES, Sample
from workbench.backends.numpy import compile

FLOATS = {s.name: (s,) for s in SAMPLES if "f" in s.kinds}


def drawn(sample: Sample, rng: np.random.Generator) -> list[Any]:
    return [np.asarray(a, np.float64) for a in sample.arguments(rng)]


def same(got: Any, expected: Any, dtype: bool = True) -> None:
    assert np.shape(got) == np.shape(expected)
    if dtype:
        assert np.asarray(got).dtype == np.asarray(expected).dtype
    # Of a function of whole matrices the largest entry sets how far rounding goes.
    sizes = np.abs(np.asarray(expected)[np.isfinite(expected)])
    scale = max(0.1, np.max(sizes, initial=0))
    np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-12 * scale)


def steps(function: Any) -> Any:
    return function.schedule.steps


def run_text(function: Any, arrays: list[Any]) -> Any:
    namespace = dict(function.constants)
    opaque = [k for k, v in namespace.items() if not isinstance(v, np.ndarray)]
    assert not opaque or OPAQUE.keys() & {s.node.op.name for s in steps(function)}
    exec(function.source, namespace)
    made = namespace["function"](*arrays)
    return list(made) if isinstance(made, tuple) else [made]


@parametrize_chunks("sample", FLOATS, alike=ALIKE_IN_KIND)
def test_the_backend_and_its_text_on_values_not_traced(
    sample: Sample, rng: np.random.Generator
) -> None:
    """Traced on specs where it can be, so that nothing of the trace is left over."""
    args = drawn(sample, rng)
    starts: list[Any] = args
    if sample.batch:
        starts = [wb.Spec(a.shape, a.dtype) for a in args]
    function = compile(wb.trace(sample.f)(*starts))
    (made,) = function(*args)
    same(made, sample.f(*args))
    same(run_text(function, args)[0], made)


@parametrize_chunks("sample", FLOATS, alike=ALIKE_IN_KIND)
def test_gradients_as_functions_and_as_text(
    sample: Sample, rng: np.random.Generator
) -> None:
    args = drawn(sample, rng)
    shape = np.shape(sample.f(*args))
    weight = rng.standard_normal(shape)

    def gradients(*args: Any) -> Any:
        return wb.grad(
            lambda *a: np.real(np.sum(weight * sample.f(*a))), tuple(range(len(args)))
        )(*args)

    function = compile(wb.trace(gradients)(*args))
    made = function(*args)
    for got, expected in zip(made, gradients(*args), strict=True):
        same(got, expected)
    for got, expected in zip(run_text(function, args), made, strict=True):
        same(got, expected)


@pytest.mark.long
@parametrize_chunks(
    "sample", {name: row for name, row in FLOATS.items() if row[0].batch}
)
def test_jacobians_in_both_modes_are_made_of_gradients(
    sample: Sample, rng: np.random.Generator
) -> None:
    """Run on all unit vectors at once, against one pullback for each output."""
    args = drawn(sample, rng)
    y, pullback = wb.vjp(sample.f, *args)
    rows = []
    for k in range(np.size(y)):
        seed = np.zeros(np.shape(y))
        seed.flat[k] = 1
        rows.append(pullback(seed))
    numbers = tuple(range(len(args)))
    for mode in ("fwd", "rev"):
        J = wb.jacobian(_plain(sample.f), numbers, mode)(*args)
        for n, block in enumerate(J):
            assert block.shape == np.shape(y) + args[n].shape
            expected = np.reshape([row[n] for row in rows], block.shape)
            np.testing.assert_allclose(block, expected, rtol=1e-9, atol=1e-11)


def _plain(f: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args: f(*args)
