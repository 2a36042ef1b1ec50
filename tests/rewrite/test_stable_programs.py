"""Programs whose recorded gradients overflow, and do not once they are simplified."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import special

import workbench as wb
import workbench.scipy.special

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


SCORES = np.array([[1000.0, 0.0, -1000.0], [-800.0, -801.0, -802.0]])
TARGETS = np.array([[0.0, 1.0, 0.0], [0.2, 0.3, 0.5]])
CHOSEN = np.array([1, 2])


def softmax_of(z: Any) -> Any:
    e = np.exp(z)
    return e / np.sum(e, axis=1, keepdims=True)


def choose_entries(p: Any) -> Any:
    """The entries of the chosen class: of TARGETS the rows would have a 1 there."""
    return p[np.arange(2), CHOSEN]


@pytest.mark.parametrize(
    ("loss", "targets"),
    [
        (lambda z: -np.sum(TARGETS * np.log(softmax_of(z))), TARGETS),
        (lambda z: -np.mean(np.sum(TARGETS * np.log(softmax_of(z)), axis=1)),
         TARGETS / 2),
        (lambda z: -np.mean(np.log(choose_entries(softmax_of(z)))),
         np.eye(3)[CHOSEN] / 2),
        (lambda z: -np.sum(np.log(choose_entries(np.exp(z) / np.sum(np.exp(z), axis=1,
         keepdims=True)))), np.eye(3)[CHOSEN]),
        (lambda z: np.sum(TARGETS * (np.log(np.sum(np.exp(z), axis=1, keepdims=True))
         - z)), TARGETS),
        (lambda z: np.sum(np.log(np.sum(np.exp(z), axis=1)))
         - np.sum(choose_entries(z)), np.eye(3)[CHOSEN]),
    ],
)  # fmt: skip
def test_softmax_cross_entropy_and_its_gradient(loss: Any, targets: Any) -> None:
    """Written in plain NumPy, recorded with its gradient, and simplified as one."""
    z = wb.matrix("z", shape=SCORES.shape)
    y = loss(z)
    graph = wb.Graph([z], [y, wb.grad(y, z)])
    with np.errstate(all="ignore"):
        assert not np.isfinite(graph.run([SCORES])[1]).all()
    with np.errstate(over="ignore"):  # of a sum that is read for its shape alone
        value, slope = wb.simplify(graph).run([SCORES])
    weight = np.sum(targets, axis=1, keepdims=True)
    np.testing.assert_allclose(
        value, -np.sum(targets * special.log_softmax(SCORES, axis=1)), 1e-12
    )
    np.testing.assert_allclose(
        slope, weight * special.softmax(SCORES, axis=1) - targets, 1e-12, 1e-15
    )


def test_a_product_of_a_sum_that_is_spread_over_its_own_terms_stays() -> None:
    """In a square, ``a / sum(exp(x), axis=1)`` lies along the other axis."""
    x = wb.matrix("x", shape=(3, 3))
    graph = wb.Graph([x], [3.0 / np.sum(np.exp(x), axis=1) * np.exp(x)])
    simple = wb.simplify(graph)
    at = np.arange(9.0).reshape(3, 3) / 4
    np.testing.assert_allclose(simple.run([at]), graph.run([at]), 1e-13)


def test_the_logistic_function_is_simplified_before_it_is_derived() -> None:
    x = wb.vector("x", shape=len(AT))
    simple = wb.simplify(wb.Graph([x], [1 / (1 + np.exp(-x))]))
    slope = wb.grad(lambda x: np.sum(simple.run([x])[0]))(AT)
    np.testing.assert_allclose(slope, SLOPE, 1e-12, 1e-300)


@pytest.mark.parametrize(
    "loss",
    [
        lambda p, t: -np.mean(t * np.log(p) + (1 - t) * np.log(1 - p)),
        lambda p, t: -np.sum(np.where(t > 0.5, np.log(p), np.log(1 - p))) / len(AT),
    ],
)
@pytest.mark.parametrize(
    "sigmoid",
    [lambda z: 1 / (1 + np.exp(-z)), workbench.scipy.special.expit],
)
def test_sigmoid_cross_entropy_and_its_gradient(loss: Any, sigmoid: Any) -> None:
    """The mean over the observations of a logistic regression."""
    z = wb.vector("z", shape=len(AT))
    targets = np.array([1.0, 0, 1, 0, 1, 0, 0])
    y = loss(sigmoid(z), targets)
    graph = wb.Graph([z], [y, wb.grad(y, z)])
    with np.errstate(all="ignore"):
        plain = graph.run([AT])
        value, slope = wb.simplify(graph).run([AT])
    assert not np.allclose(plain[0], value)
    sure = targets * special.log_expit(AT) + (1 - targets) * special.log_expit(-AT)
    np.testing.assert_allclose(value, -np.mean(sure), 1e-12)
    np.testing.assert_allclose(slope, (SIGMOID - targets) / len(AT), 1e-12, 1e-15)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.exp(x) / np.sum(np.exp(x), axis=1, keepdims=True),
        lambda x: x / np.linalg.norm(x),
        lambda x: np.log(np.sum(np.exp(x), axis=1)),
    ],
)
def test_a_length_that_is_0_in_the_run(f: Callable[[Any], Any]) -> None:
    """Where the plain form is empty, the stable one has no maximum of nothing."""
    x = wb.matrix("x")
    y = f(x)
    graph = wb.Graph([x], [y, wb.grad(np.sum(y), x)])
    simple = wb.simplify(graph)
    assert simple.steps
    for found, true in zip(simple.run([np.ones((0, 3))]), graph.run([np.ones((0, 3))]),
                           strict=True):  # fmt: skip
        assert np.shape(found) == np.shape(true)


def test_a_chain_of_softplus_is_rewritten_in_linear_time() -> None:
    """Each factor can be read as sums of sums of products in very many ways.

    Read one after the other these would take longer than any test may.
    """

    def chain(x: Any) -> Any:
        for _ in range(30):
            x = np.sin(x) * 0.5 + x / (1 + x * x) - np.exp(-x * x)
            x = np.log(1 + np.exp(x)) + np.sqrt(1 + x * x) * np.tanh(x - 0.5)
        return np.sum(x)

    x = wb.vector("x", shape=3)
    simple = wb.simplify(wb.Graph([x], [wb.grad(chain(x), x)]))
    at = np.array([0.1, 0.4, -0.3])
    (found,) = simple.run([at])
    truth = [np.imag(chain(at + 1e-30j * e)) / 1e-30 for e in np.eye(3)]
    np.testing.assert_allclose(found, truth, rtol=1e-10)


@pytest.mark.parametrize("depth", [8, 18, 60])
def test_a_quotient_read_by_many_sums_is_built_once(depth: int) -> None:
    """Built for each reader it would be built 2 to the depth times."""

    def doubled(x: Any) -> Any:
        p = np.exp(x) / np.sum(np.exp(x))
        q = x / p
        for _ in range(depth):
            q = np.sin(x) ** 2 * q + np.cos(x) ** 2 * q
        return p * q

    x = np.array([0.1, 0.4, -0.3])
    np.testing.assert_allclose(wb.compile(doubled, backend="numpy")(x), x, rtol=1e-12)


#: A program in one spelling and in others, what rewrites each, and its value at 800.
SPELLINGS: list[tuple[str, float, list[Callable[[Any], Any]]]] = [
    ("exp minus 1", np.inf,
     [lambda x: np.exp(x) - 1, lambda x: np.exp(x) + -1, lambda x: -1.0 + np.exp(x)]),
    ("mirrored sigmoid", 0.0,
     [lambda x: 1 / (1 + np.exp(x)), lambda x: np.reciprocal(1 + np.exp(x)),
      lambda x: np.reciprocal(np.exp(x) + 1.0)]),
    ("slope of a sigmoid", 0.0,
     [lambda x: np.exp(x) / (1 + np.exp(x)) ** 2,
      lambda x: np.exp(x) / np.square(np.exp(x) + 1),
      lambda x: np.exp(x) / np.power(1 + np.exp(x), 2.0),
      lambda x: np.exp(x) / ((1 + np.exp(x)) * (np.exp(x) + 1))]),
    ("root of a square", 1e200,
     [lambda x: np.sqrt(x * x), lambda x: np.sqrt(x**2),
      lambda x: np.sqrt(np.square(x))]),
    ("root of a sum of squares", np.sqrt(2) * 1e200,
     [lambda x: np.sqrt(x * x + (2 * x - x) ** 2),
      lambda x: np.sqrt(np.square(x) + np.power(-x + 2 * x, 2))]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "value", "f"),
    [(name, value, f) for name, value, programs in SPELLINGS for f in programs],
)
def test_a_stable_form_is_found_in_each_spelling(
    name: str, value: float, f: Callable[[Any], Any]
) -> None:
    x = wb.vector("x", shape=1)
    simple = wb.simplify(wb.Graph([x], [f(x)]))
    assert name in [step.name for step in simple.steps]
    at = 1e200 if name.startswith("root") else 800.0
    with np.errstate(over="ignore"):
        (found,) = simple.run([np.array([at])])
    np.testing.assert_allclose(found, [value], rtol=1e-15)


def test_what_no_rule_rewrites_stays_in_its_own_spelling() -> None:
    x, y = wb.vector("x", shape=3), wb.vector("y", shape=3)
    outputs = [x + -1, np.reciprocal(x), x**2, np.square(x + y), x * x, y - 1]
    program = wb.Graph([x, y], outputs)
    assert str(wb.simplify(program)) == str(program)


def test_a_rule_of_a_user_means_the_spelling_it_is_written_in() -> None:
    mine = wb.rewrite_rule("square", lambda x: x**2, lambda x: x * x)
    x = wb.vector("x", shape=3)
    simple = wb.simplify(wb.Graph([x], [x**2, np.square(x), x * x]), [mine])
    assert [step.name for step in simple.steps] == ["square", "equal nodes"]
    assert [y.op.name for y in simple.outputs] == ["multiply", "square", "multiply"]
