"""Noise: of the right law, the same when asked again, another where it should be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.gpu.stand_in import Foreign, inner
from workbench.errors import OverrideError

N = 20_000


def noisy(rule: str, x: Any, f: Callable[[Any], Any] = np.sin) -> Any:
    """What the rule adds to the gradient of sum(f(x))."""
    g = lambda x: np.sum(f(x))  # noqa: E731
    return wb.grad(g, overrides=[wb.override("sin", rule)])(x) - wb.grad(g)(x)


def test_B4_it_is_gaussian_noise_of_that_size() -> None:
    """Mean, deviation, skewness, kurtosis and correlations, within 5 deviations."""
    z = noisy(wb.rules.noise(0.5, seed=11), np.linspace(-1, 1, N)) / 0.5
    assert abs(np.mean(z)) < 5 / N**0.5
    assert abs(np.std(z) - 1) < 5 / (2 * N) ** 0.5
    assert abs(np.mean(z**3)) < 5 * (15 / N) ** 0.5
    assert abs(np.mean(z**4) - 3) < 5 * (96 / N) ** 0.5
    assert abs(np.mean(z[1:] * z[:-1])) < 5 / N**0.5
    assert np.max(np.abs(z)) < 6
    # The distribution function, as Kolmogorov and Smirnov compare it.
    from math import erf

    normal = np.array([(1 + erf(v / 2**0.5)) / 2 for v in np.sort(z)])
    assert np.max(np.abs(normal - np.arange(N) / N)) < 1.95 / N**0.5


def test_it_is_the_same_again_and_another_by_seed_step_and_node() -> None:
    x = np.zeros(50)
    one = noisy(wb.rules.noise(1.0), x)
    np.testing.assert_array_equal(noisy(wb.rules.noise(1.0), x), one)
    np.testing.assert_allclose(noisy(wb.rules.noise(1.0), x + 1), one, rtol=1e-12)
    others = [noisy(wb.rules.noise(1.0, seed=1), x), noisy("noise(scale=1, step=0)", x)]
    others.append(noisy(wb.rules.noise(1.0), x, lambda x: np.sin(np.sin(x))) - one)
    others.append(noisy(wb.rules.noise(1.0, seed=2**63), x))
    for other in others:
        assert abs(np.corrcoef(one, other)[0, 1]) < 0.6
        assert not np.any(one == other)


def test_it_dies_away_with_the_step_as_the_paper_says() -> None:
    """σ² = η / (1 + t)^γ."""
    x = np.zeros(N)
    for step, decay in ((0, 0.55), (99, 0.55), (99, 1.0)):
        z = noisy(wb.rules.noise(0.3, step=step, decay=decay), x)
        assert np.std(z) == pytest.approx(0.3 / (1 + step) ** (decay / 2), rel=0.05)


def test_each_input_has_its_own() -> None:
    f = lambda a, b: np.sum(a * b)  # noqa: E731
    given = [wb.override("multiply", wb.rules.noise(1.0))]
    a, b = wb.grad(f, (0, 1), overrides=given)(np.zeros(9), np.zeros(9))
    assert not np.any(a == b)


def test_it_has_no_part_in_second_derivatives() -> None:
    x = np.array([0.3, -1.0])
    f = lambda x: np.sum(np.exp(np.sin(x)))  # noqa: E731
    given = [wb.override("sin", wb.rules.noise(0.1))]
    gradient = wb.grad(f, overrides=given)
    true = [wb.override("sin", wb.rules.noise(0.1), jvp="true")]
    h = 1e-5
    for v in np.eye(2):
        slope = (gradient(x + h * v) - gradient(x - h * v)) / (2 * h)
        product = wb.hvp(f, x, v, overrides=true)
        np.testing.assert_allclose(product, slope, rtol=1e-9, atol=1e-9)
        expected = np.exp(np.sin(x)) * (np.cos(x) ** 2 - np.sin(x)) * v
        np.testing.assert_allclose(product, expected, rtol=1e-12, atol=1e-12)


def test_it_is_that_of_one_example_for_all_of_a_batch() -> None:
    rows = np.array([[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]])
    given = [wb.override("sin", wb.rules.noise(0.1))]
    gradient = wb.grad(lambda x: np.sum(np.sin(x)), overrides=given)
    found = wb.vmap(gradient)(rows)
    np.testing.assert_allclose(found, [gradient(row) for row in rows], rtol=1e-12)


@pytest.mark.usefixtures("stand_in")
def test_dtypes_and_places() -> None:
    x = np.linspace(0, 1, 5)
    single = noisy(wb.rules.noise(0.1), x.astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, noisy(wb.rules.noise(0.1), x), rtol=1e-4)
    f = lambda x: np.sum(np.sin(x))  # noqa: E731
    given = [wb.override("sin", wb.rules.noise(0.1))]
    np.testing.assert_allclose(
        inner(wb.grad(f, overrides=given)(Foreign(x))), wb.grad(f, overrides=given)(x)
    )
    z = x + 0.5j
    _, pullback = wb.vjp(np.sin, z, overrides=given)
    z_noise = pullback(np.ones(5, complex))[0] - np.cos(z)
    assert z_noise.dtype == complex
    assert np.all(z_noise.real != 0)
    assert np.all(z_noise.imag != 0)
    assert isinstance(float(noisy(wb.rules.noise(0.1), 0.5)), float)


def test_in_a_compiled_function() -> None:
    x = wb.tensor("x", shape=(4,))
    given = [wb.override("sin", wb.rules.noise(0.1))]
    gradient = wb.grad(np.sum(np.sin(x)), x, overrides=given)
    run = wb.function([x], gradient)
    found = run(np.zeros(4))
    np.testing.assert_allclose(found - 1, noisy(wb.rules.noise(0.1), np.zeros(4)))
    y = wb.vector("y")
    total = np.sum(np.sin(y))
    with pytest.raises(OverrideError, match="Give the input a shape"):
        wb.grad(total, y, overrides=given)


@pytest.mark.parametrize(
    "settings",
    [{"scale": -1.0}, {"scale": np.inf}, {"scale": "1"}, {"scale": 1.0, "seed": -1},
     {"scale": 1.0, "seed": 0.5}, {"scale": 1.0, "step": -2},
     {"scale": 1.0, "decay": np.nan}],
)  # fmt: skip
def test_what_cannot_be_is_refused(settings: Any) -> None:
    with pytest.raises(OverrideError, match="noise: "):
        wb.rules.noise(**settings)


def test_its_label_says_how_large_it_is() -> None:
    assert wb.override("sin", wb.rules.noise(0.1)).label == "noise ±0.1"
    assert wb.override("sin", wb.rules.noise(0.1, step=99)).label == "noise ±0.0282"
