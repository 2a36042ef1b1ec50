"""Programs whose recorded gradients overflow, and do not once they are simplified."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import special

import workbench as wb

AT = np.array([-800.0, -30.0, -1e-3, 0.0, 0.5, 30.0, 800.0])
with np.errstate(under="ignore"):
    SIGMOID = special.expit(AT)
    SLOPE = SIGMOID * special.expit(-AT)


@pytest.mark.parametrize(
    ("f", "value", "slope"),
    [
        (lambda x: np.exp(x) / (1 + np.exp(x)), SIGMOID, SLOPE),
        (lambda x: np.log(np.exp(x) / (1 + np.exp(x))),
         special.log_expit(AT), special.expit(-AT)),
        (lambda x: np.log(1 - 1 / (1 + np.exp(-x))),
         special.log_expit(-AT), -SIGMOID),
        (lambda x: (np.exp(x) - np.exp(-x)) / (np.exp(x) + np.exp(-x)),
         np.tanh(AT), 1 / np.cosh(np.clip(AT, -300, 300)) ** 2),
        (lambda x: (np.exp(2 * x) - 1) / (np.exp(2 * x) + 1),
         np.tanh(AT), 1 / np.cosh(np.clip(AT, -300, 300)) ** 2),
    ],
)  # fmt: skip
def test_the_gradient_of_a_simplified_function(
    f: Callable[[Any], Any], value: Any, slope: Any
) -> None:
    x = wb.vector("x", shape=len(AT))
    simple = wb.simplify(wb.Graph([x], [f(x)]))
    (found,) = simple.run([AT])
    np.testing.assert_allclose(found, value, 1e-13, 1e-15)
    derivative = wb.grad(lambda x: np.sum(simple.run([x])[0]))(AT)
    np.testing.assert_allclose(derivative, slope, 1e-12, 1e-15)


@pytest.mark.parametrize(
    "f", [lambda x: 1 / (1 + np.exp(-x)), lambda x: np.exp(x) / (1 + np.exp(x))]
)
def test_a_gradient_that_is_recorded_already(f: Callable[[Any], Any]) -> None:
    x = wb.vector("x", shape=len(AT))
    y = f(x)
    graph = wb.Graph([x], [y, wb.grad(np.sum(y), x)])
    with np.errstate(all="ignore"):
        assert np.isnan(graph.run([AT])[1]).any()
        value, slope = wb.simplify(graph).run([AT])
    np.testing.assert_allclose(value, SIGMOID, 1e-12, 1e-300)
    np.testing.assert_allclose(slope, SLOPE, 1e-12, 1e-15)
