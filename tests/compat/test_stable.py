"""Losses of saturated networks: finite, and as SciPy's stable formulas have them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import special

import workbench.compat.theano.tensor as T
from workbench.compat import theano

X = np.array([[1000.0, -1000.0, 0.0], [-800.0, 3.0, 900.0]])
Y = np.array([1, 0])
TARGETS = np.array([[0.0, 1.0, 0.5], [1.0, 1.0, 0.0]])

x, t, y = T.dmatrix("x"), T.dmatrix("t"), T.lvector("y")
p, s = T.nnet.softmax(x), T.nnet.sigmoid(x)

ROWS = special.log_softmax(X, axis=1)
PICKED = -ROWS[np.arange(2), Y]
PICKED_SLOPE = special.softmax(X, axis=1) - np.eye(3)[Y]
#: -(t log s + (1 - t) log(1 - s)) = log(1 + exp(x)) - t x
BINARY = np.logaddexp(0, X) - TARGETS * X
BINARY_SLOPE = special.expit(X) - TARGETS

CASES: dict[str, tuple[Any, Any, Any]] = {
    "log(softmax)[rows, y]": (T.log(p)[T.arange(2), y], PICKED, PICKED_SLOPE),
    "log(softmax[rows, y])": (T.log(p[T.arange(2), y]), PICKED, PICKED_SLOPE),
    "categorical, classes": (
        -T.nnet.categorical_crossentropy(p, y), PICKED, PICKED_SLOPE,
    ),
    "categorical, rows": (
        -T.nnet.categorical_crossentropy(p, t),
        -np.sum(TARGETS * ROWS, axis=1),
        special.softmax(X, axis=1) * TARGETS.sum(1, keepdims=True) - TARGETS,
    ),
    "binary": (-T.nnet.binary_crossentropy(s, t), BINARY, BINARY_SLOPE),
    "log and log(1 - s)": (
        t * T.log(s) + (1 - t) * T.log(1 - s), BINARY, BINARY_SLOPE,
    ),
    "log(1 + exp)": (-T.log(1 + T.exp(x)), np.logaddexp(0, X), special.expit(X)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_saturated_loss_is_finite_and_so_is_its_gradient(name: str) -> None:
    made, want, slope = CASES[name]
    f = theano.function(
        [x, t, y], [-made, T.grad(-made.sum(), x)], on_unused_input="ignore"
    )
    with np.errstate(all="raise", under="ignore"):
        got, g = f(X, TARGETS, Y)
    np.testing.assert_allclose(got, want, rtol=1e-14)
    np.testing.assert_allclose(g, slope, atol=1e-14)


def test_other_logarithms_are_numpys() -> None:
    f = theano.function([x], [T.log(x), T.log(2 - s), T.log(1 + T.exp2(x))])
    z = np.abs(X) / 1000 + 0.5
    want = np.log(z), np.log(2 - special.expit(z)), np.log(1 + np.exp2(z))
    for got, w in zip(f(z), want, strict=True):
        np.testing.assert_allclose(got, w, rtol=1e-14)
    assert T.log(1.0).eval() == 0.0
