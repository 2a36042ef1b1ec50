"""`grad`, `vjp`, `jvp`: known derivatives, nested to any order."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

import workbench as wb
from workbench.errors import (
    DtypeError,
    GradientLostError,
    NonScalarOutputError,
    ShapeError,
    TraceError,
    UsageError,
)

# Values and gradients


def test_a_gradient_by_analysis(rng: np.random.Generator) -> None:
    W, b, x = (
        rng.standard_normal((3, 4)),
        rng.standard_normal(3),
        rng.standard_normal(4),
    )

    def loss(W: Any, b: Any) -> Any:
        return np.sum(np.tanh(W @ x + b) ** 2)

    h = np.tanh(W @ x + b)
    d = 2 * h * (1 - h * h)
    value, (dW, db) = wb.value_and_grad(loss, (0, 1))(W, b)
    assert value == pytest.approx(np.sum(h * h), rel=1e-14)
    assert type(dW) is np.ndarray
    np.testing.assert_allclose(dW, np.outer(d, x), rtol=1e-12)
    np.testing.assert_allclose(db, d, rtol=1e-12)


def test_the_seed_of_the_mission_comes_out_right() -> None:
    """Row B2's true gradient: atan2(y, x) at (1, 0) with its 0.01 added."""
    g = wb.grad(lambda y, x: np.arctan2(y, x), (0, 1))(0.0, 1.0)
    assert g == (1.0, 0.0)


class Layer(NamedTuple):
    W: Any
    b: Any


@dataclass
class Model:
    layers: list[Layer]
    scale: Any


def test_nests_come_back_as_they_were(rng: np.random.Generator) -> None:
    model = Model([Layer(rng.standard_normal((2, 2)), np.ones(2))], {"k": 2.0})

    def f(m: Model) -> Any:
        layer = m.layers[0]
        return np.sum(layer.W) * m.scale["k"] + np.sum(layer.b)

    g = wb.grad(f)(model)
    assert isinstance(g, Model)
    assert isinstance(g.layers[0], Layer)
    np.testing.assert_array_equal(g.layers[0].W, np.full((2, 2), 2.0))
    np.testing.assert_array_equal(g.layers[0].b, np.ones(2))
    assert g.scale["k"] == pytest.approx(model.layers[0].W.sum())


def test_what_the_output_does_not_depend_on_is_zero() -> None:
    g = wb.grad(lambda x, y: np.sum(x), (0, 1))(np.ones(2), np.ones((2, 2), np.float32))
    np.testing.assert_array_equal(g[1], np.zeros((2, 2)))
    assert g[1].dtype == np.float32
    np.testing.assert_array_equal(wb.grad(lambda x: 3.0)(np.ones(2)), np.zeros(2))
    np.testing.assert_array_equal(
        wb.grad(lambda x: np.sum(np.sign(x)))(np.ones(2)), np.zeros(2)
    )


def test_aux_values_are_plain() -> None:
    (y, aux), g = wb.value_and_grad(
        lambda x: (np.sum(x * x), {"h": x * 2}), has_aux=True
    )(np.ones(2))
    assert y == 2.0
    assert type(aux["h"]) is np.ndarray
    np.testing.assert_array_equal(g, [2.0, 2.0])


def test_a_variable_used_twice_and_an_output_that_is_the_input() -> None:
    assert wb.grad(lambda x: x * x + x)(3.0) == 7.0
    assert wb.grad(lambda x: x)(3.0) == 1.0
    np.testing.assert_array_equal(
        wb.grad(lambda x: np.sum(x[0] * x[1:]))(np.arange(3.0)), [3.0, 0.0, 0.0]
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64])
def test_dtypes_stay(dtype: Any) -> None:
    x = np.array([0.5, 1.5], dtype)
    y, g = wb.value_and_grad(lambda x: np.real(np.sum(2.5 * np.sin(x) / 3 + 1)))(x)
    assert g.dtype == dtype
    assert y.dtype == np.real(x).dtype


def test_python_numbers_are_weak() -> None:
    x = np.ones(2, np.float32)
    assert wb.grad(lambda s, x: np.sum(x * s), 1)(2.0, x).dtype == np.float32
    assert wb.value_and_grad(lambda s: np.sum(x * s))(2.0)[0].dtype == np.float32


def test_the_gradient_by_a_complex_number() -> None:
    """df/dx - i df/dy, as the design fixes it."""
    z = np.array([0.3 + 0.4j, -1.0 + 2j])
    g = wb.grad(lambda z: np.sum(np.real(z) ** 2 * np.imag(z)))(z)
    np.testing.assert_allclose(g, 2 * z.real * z.imag - 1j * z.real**2, rtol=1e-14)


# vjp and jvp


def test_pullback_and_pushforward_are_adjoint(rng: np.random.Generator) -> None:
    A = rng.standard_normal((3, 4))
    x, v = rng.standard_normal((2, 4))

    def f(x: Any) -> Any:
        return {"a": np.tanh(A @ x), "b": [np.sum(x * x), x[::2] * x[1::2]]}

    y, pullback = wb.vjp(f, x)
    _, ty = wb.jvp(f, (x,), (v,))
    w = {"a": rng.standard_normal(3), "b": [1.5, rng.standard_normal(2)]}
    left = w["a"] @ ty["a"] + 1.5 * ty["b"][0] + w["b"][1] @ ty["b"][1]
    assert left == pytest.approx(pullback(w)[0] @ v, rel=1e-12)
    # The pullback may be used again.
    np.testing.assert_array_equal(pullback(w)[0], pullback(w)[0])
    assert set(y) == {"a", "b"}


def test_seeds_must_fit() -> None:
    _, pullback = wb.vjp(lambda x: {"y": np.sin(x)}, np.ones(3))
    with pytest.raises(ShapeError, match=r"Give one of shape \(3,\)"):
        pullback({"y": np.ones(2)})
    with pytest.raises(ShapeError, match="one cotangent per output"):
        pullback(np.ones(3))
    with pytest.raises(ShapeError, match="one tangent per primal"):
        wb.jvp(np.add, (1.0, 2.0), (1.0,))


# Nested to any order


def test_derivatives_of_high_order() -> None:
    f: Any = lambda x: np.exp(2 * x)  # noqa: E731
    for order in range(1, 7):
        f = wb.grad(f)
        assert f(0.5) == pytest.approx(2**order * np.exp(1), rel=1e-12)


@pytest.mark.parametrize("inner", ["rev", "fwd"])
@pytest.mark.parametrize("outer", ["rev", "fwd"])
def test_perturbations_are_not_confused(outer: str, inner: str) -> None:
    """d/dx of x * d/dy (x + y) at y = 1: 1, not 2."""

    def derivative(f: Any, mode: str) -> Any:
        if mode == "rev":
            return wb.grad(f)
        return lambda x: wb.jvp(f, (x,), (1.0,))[1]

    def f(x: Any) -> Any:
        return x * derivative(lambda y: x + y, inner)(1.0)

    assert derivative(f, outer)(2.0) == 1.0

    def g(x: Any) -> Any:
        return derivative(lambda y: x**2 * y**3, inner)(x)

    # d/dx of 3 x^4
    assert derivative(g, outer)(2.0) == pytest.approx(12 * 2.0**3)


def test_a_gradient_inside_a_loop_of_the_traced_function() -> None:
    """Gradient descent, differentiated by its step size; by hand too."""

    def descend(rate: Any) -> Any:
        x: Any = 2.0
        for _ in range(5):
            x = x - rate * wb.grad(lambda x: x * x)(x)
        return x

    expected = 2.0 * 5 * (1 - 2 * 0.1) ** 4 * -2
    assert wb.grad(descend)(0.1) == pytest.approx(expected, rel=1e-12)
    _, moved = wb.jvp(descend, (0.1,), (1.0,))
    assert moved == pytest.approx(expected, rel=1e-12)


def test_control_flow_follows_the_values() -> None:
    def f(x: Any) -> Any:
        while x < 10:
            x = x * x if x > 1.5 else x + 1
        return x

    assert wb.grad(f)(2.0) == pytest.approx(4 * 2.0**3)
    assert wb.grad(f)(0.75) == pytest.approx(8 * 1.75**7)


def test_second_order_by_three_roads(rng: np.random.Generator) -> None:
    x, v = rng.standard_normal((2, 4))

    def f(x: Any) -> Any:
        return np.sum(np.log(1 + np.exp(x)) * np.roll(x, 1))

    g = wb.grad(f)
    forward_over_reverse = wb.jvp(g, (x,), (v,))[1]
    reverse_over_reverse = wb.grad(lambda x: g(x) @ v)(x)
    reverse_over_forward = wb.grad(lambda x: wb.jvp(f, (x,), (v,))[1])(x)
    np.testing.assert_allclose(forward_over_reverse, reverse_over_reverse, rtol=1e-11)
    np.testing.assert_allclose(reverse_over_forward, reverse_over_reverse, rtol=1e-11)
    h = 1e-5
    numeric = (g(x + h * v) - g(x - h * v)) / (2 * h)
    np.testing.assert_allclose(forward_over_reverse, numeric, rtol=1e-7, atol=1e-8)


def test_results_are_plain_outside_and_recorded_inside() -> None:
    assert type(wb.grad(np.sum)(np.ones(2))) is np.ndarray
    kept = []

    def f(x: Any) -> Any:
        g = wb.grad(lambda y: np.sum(y * y))(x)
        kept.append(g)
        return np.sum(g)

    np.testing.assert_array_equal(wb.grad(f)(np.ones(2)), [2.0, 2.0])
    assert isinstance(kept[0], wb.Tensor)
    plain = []

    def h(x: Any) -> Any:
        plain.append(wb.grad(lambda y: np.sum(y * y))(np.ones(2)))
        return np.sum(x)

    wb.grad(h)(np.ones(2))
    assert type(plain[0]) is np.ndarray


# `where`: the branch not taken poisons nothing, orders 1 to 3


WHERE = {
    "sqrt": (lambda x: np.where(x > 0, np.sqrt(x), 0.0), lambda u: u**0.5),
    "log": (lambda x: np.where(x > 0, np.log(x), x), np.log),
    "power": (lambda x: np.where(x > 0, x**0.3, 0.0), lambda u: u**0.3),
    "divide": (lambda x: np.where(x != 0, 1 / x, 0.0), lambda u: 1 / u),
    "nested": (
        lambda x: np.where(x > 0, np.exp(np.sqrt(x) * np.log(x)), 0.0),
        lambda u: np.exp(u**0.5 * np.log(u)),
    ),
    "after": (
        lambda x: np.sin(np.where(x > 0, np.sqrt(x), 0.0)) ** 2,
        lambda u: np.sin(u**0.5) ** 2,
    ),
    "times": (
        lambda x: np.where(x > 0, x, 0.0) * np.where(x > 0, np.log(x), 0.0),
        lambda u: u * np.log(u),
    ),
}


def cauchy_derivative(f: Any, u: float, order: int) -> float:
    """A derivative of an analytic function by Cauchy's formula."""
    turns = np.exp(2j * np.pi * np.arange(64) / 64)
    radius = u / 4
    values = f(u + radius * turns)
    return float(
        np.mean(values / turns**order).real * math.factorial(order) / radius**order
    )


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("mode", ["rev", "fwd"])
@pytest.mark.parametrize("name", WHERE)
def test_where_is_never_poisoned(name: str, mode: str, order: int) -> None:
    f, branch = WHERE[name]

    def derivative(g: Any) -> Any:
        if mode == "rev":
            return wb.grad(lambda x: np.sum(g(x)))
        return lambda x: wb.jvp(g, (x,), (np.ones_like(x),))[1]

    g: Any = f
    for _ in range(order):
        g = derivative(g)
    x = np.array([0.0, 1.7])
    with np.errstate(all="ignore"):
        made = g(x)
    beyond = 1.0 if name == "log" and order == 1 else 0.0
    expected = cauchy_derivative(branch, 1.7, order)
    np.testing.assert_allclose(made, [beyond, expected], rtol=1e-9)


def test_unmasked_code_keeps_ieee_rules() -> None:
    """Without a `where`, zero times infinity stays a NaN for the doctor to find."""
    with np.errstate(all="ignore"):
        assert np.isnan(wb.grad(lambda x: 0 * np.sqrt(x) * np.log(x))(0.0))


# Buffers


def test_a_buffer_reused_in_a_loop_is_an_error_and_no_wrong_gradient() -> None:
    buffer = np.ones(3)

    def f(x: Any) -> Any:
        total: Any = 0.0
        for i in range(2):
            buffer[:] = i
            total = total + np.sum(x * buffer)
        return total

    with pytest.raises(TraceError, match=r"\.copy\(\)"):
        wb.grad(f)(np.ones(3))
    buffer[:] = 5  # writeable again


def test_arguments_are_writeable_again_and_so_are_views() -> None:
    base = np.arange(6.0)
    view = base.reshape(2, 3)

    def inner(y: Any) -> Any:
        return np.sum(view * y)

    def outer(x: Any) -> Any:
        return np.sum(base * np.sum(x)) + wb.grad(inner)(2.0) * np.sum(x)

    wb.grad(outer)(np.ones(2))
    base[0] = 7.0
    view[0, 1] = 8.0
    assert base.flags.writeable
    assert view.flags.writeable


# Bad input


def test_an_integer_argument() -> None:
    with pytest.raises(DtypeError) as caught:
        wb.grad(lambda n: n * 2.0)(3)
    assert "grad: n is of dtype int64" in str(caught.value)
    assert "Pass 3.0" in str(caught.value)
    with pytest.raises(DtypeError, match=r"Pass x\.astype\(float\)"):
        wb.grad(lambda x: np.sum(x))(np.arange(3))


def test_an_output_of_many_numbers() -> None:
    with pytest.raises(NonScalarOutputError) as caught:
        wb.grad(lambda x: np.sin(x))(np.ones(3))
    text = str(caught.value)
    assert "sin float64[3]" in text
    assert "wb.grad(lambda x: np.sin(x))(np.ones(3))" in text
    assert "np.sum, np.mean" in text
    with pytest.raises(NonScalarOutputError, match="returned 2 values"):
        wb.grad(lambda x: (x, x))(1.0)


def test_argnums_out_of_range() -> None:
    with pytest.raises(UsageError, match="the call has 1 positional arguments"):
        wb.grad(np.sin, 1)(1.0)


@pytest.mark.parametrize(
    ("f", "cure"),
    [
        (lambda x: math.sin(x), "np.sin(x) in place of math.sin(x)"),
        (lambda x: float(x) * 2, "x itself in place of float(x)"),
        (lambda x: __import__("numpy").asarray(x, float) * 2, "leave the dtype out"),
    ],
)
def test_no_gradient_is_lost_in_silence(f: Any, cure: str) -> None:
    with pytest.raises(GradientLostError) as caught:
        wb.grad(f)(1.0)
    text = str(caught.value)
    assert cure in text
    assert "x.value" in text


def test_storing_into_a_plain_array_is_an_error() -> None:
    z = np.zeros(2)

    def f(x: Any) -> Any:
        z[0] = x
        return np.sum(z)

    with pytest.raises(GradientLostError, match=r"np\.stack"):
        wb.grad(f)(1.0)


# Between the function and its pullback


def test_primals_may_change_before_the_pullback() -> None:
    x, w = np.array([1.0, 2.0]), {"w": np.array([3.0, 4.0])}
    _, pullback = wb.vjp(lambda x, p: np.sum(x[::-1] * x * p["w"]), x, w)
    expected = [x.copy() for x in pullback(1.0)[:1]]
    x[:] = 7
    w["w"] *= 0
    np.testing.assert_array_equal(pullback(1.0)[0], expected[0])
    np.testing.assert_array_equal(pullback(1.0)[1]["w"], [2.0, 2.0])


def test_what_else_the_function_read_may_not_change() -> None:
    data, x = np.array([1.0, 2.0]), np.ones(2)
    before = data[:]
    _, pullback = wb.vjp(lambda x: x * data, x)
    np.testing.assert_array_equal(pullback(x)[0], [1, 2])
    with pytest.raises(ValueError, match="read-only"):
        data[0] = 5
    before[0] = 5  # NumPy leaves a view that was made before writeable
    with pytest.raises(TraceError, match=r"changed in place before its pullback"):
        pullback(x)
    before[0] = 1
    np.testing.assert_array_equal(pullback(x)[0], [1, 2])
