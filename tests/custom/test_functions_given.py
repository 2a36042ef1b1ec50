"""What a function with its own rule is given and returns: nests, settings, counts."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import workbench as wb

X = np.array([0.3, -1.0, 2.0])


@wb.custom_vjp
def layer(p: Any, x: Any, *, activation: str = "tanh", n: int = 2) -> Any:
    assert activation == "tanh"
    y = np.tanh(p["W"] @ x + p["b"])
    return {"y": y * n, "activation": activation, "z": x * 2}


def layer_forward(p: Any, x: Any, *, activation: str = "tanh", n: int = 2) -> Any:
    y = np.tanh(p["W"] @ x + p["b"])
    return {"y": y * n, "activation": activation, "z": x * 2}, (p, x, y)


def layer_backward(kept: Any, g: Any) -> Any:
    p, x, y = kept
    assert g["activation"] == "tanh"
    d = g["y"] * 2 * (1 - y * y)
    return {"W": np.outer(d, x), "b": d}, p["W"].T @ d + 2 * g["z"]


layer.defvjp(layer_forward, layer_backward)


def test_nests_keywords_and_arguments_that_are_no_arrays(
    rng: np.random.Generator,
) -> None:
    p = {"W": rng.normal(size=(2, 3)), "b": rng.normal(size=2)}
    x = rng.normal(size=3)

    def f(p: Any, x: Any) -> Any:
        out = layer(p, x=x, activation="tanh")
        assert out["activation"] == "tanh"
        return np.sum(np.sin(out["y"])) + np.sum(out["z"] ** 2)

    def plain(p: Any, x: Any) -> Any:
        y = np.tanh(p["W"] @ x + p["b"])
        return np.sum(np.sin(2 * y)) + np.sum(4 * x**2)

    def entry(z: Any) -> Any:
        return plain({"W": z, "b": p["b"]}, x)

    step = 1e-30
    want = np.zeros((2, 3))
    for i in np.ndindex(2, 3):
        z = p["W"].astype(complex)
        z[i] += 1j * step
        want[i] = np.imag(entry(z)) / step
    (found, by_x) = wb.grad(f, (0, 1))(p, x)
    np.testing.assert_allclose(found["W"], want, rtol=1e-12, atol=1e-13)
    d = 2 * np.cos(2 * np.tanh(p["W"] @ x + p["b"]))
    d *= 1 - np.tanh(p["W"] @ x + p["b"]) ** 2
    np.testing.assert_allclose(found["b"], d, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(by_x, p["W"].T @ d + 8 * x, rtol=1e-12, atol=1e-13)
    assert wb.check_grads(f, (p, x), order=2).ok


def test_settings_reach_the_rule() -> None:
    def rule(node: Any, g: Any) -> Any:
        assert node.get_attr("n") == 3
        (x,) = node.inputs
        (y,) = node.outputs
        assert y.shape == x.shape
        return g * 3 * x**2

    @wb.custom_vjp(vjp=rule)
    def power(x: Any, n: int) -> Any:
        return x**n

    assert wb.grad(lambda x: power(x, 3))(2.0) == 12
    assert wb.grad(lambda x: power(x, n=3))(2.0) == 12
    assert power(2.0, 3) == 8


def test_arguments_without_a_gradient_as_jax_has_them() -> None:
    @partial(wb.custom_vjp, nondiff_argnums=(0,))
    def applied(f: Any, x: Any) -> Any:
        return f(x)

    applied.defvjp(lambda f, x: (f(x), x), lambda f, x, g: (5 * g * f(x),))
    assert wb.grad(lambda x: applied(np.cos, x))(0.0) == 5

    @partial(wb.custom_jvp, nondiff_argnums=(0,))
    def also(f: Any, x: Any) -> Any:
        return f(x)

    also.defjvp(lambda f, primals, tangents: (f(*primals), 3 * tangents[0]))
    assert wb.jvp(lambda x: also(np.cos, x), (0.0,), (2.0,)) == (1.0, 6.0)


def test_several_outputs_and_integers() -> None:
    @wb.custom_gradient
    def both(x: Any, index: Any) -> Any:
        def grad(gy: Any, gi: Any) -> Any:
            assert gi is None
            return gy * np.cos(x), None

        return (np.sin(x), index + 1), grad

    index = np.array([0, 2, 1])
    f = lambda x: np.sum(both(x, index)[0][index] * np.arange(3.0))  # noqa: E731
    want = np.cos(X)
    want[index] *= np.arange(3.0)
    np.testing.assert_allclose(wb.grad(f)(X), want)
    tangent = wb.jvp(lambda x: both(x, index)[0], (X,), (np.ones(3),))[1]
    np.testing.assert_allclose(tangent, np.cos(X))


def test_methods() -> None:
    class Model:
        def __init__(self, scale: float) -> None:
            self.scale = scale

        @wb.custom_gradient
        def run(self, x: Any) -> Any:
            return self.scale * x, lambda g: (None, 10 * self.scale * g)

    model = Model(2.0)
    assert model.run(3.0) == 6
    assert wb.grad(model.run)(3.0) == 20


def test_settings_that_are_lists_and_functions_and_nothing() -> None:
    def rule(node: Any, g: Any) -> Any:
        assert node.get_attr("sizes") == [1, 2]
        assert node.get_attr("f") is np.cos
        assert node.get_attr("nothing") is None
        return g * 2

    @wb.custom_vjp(vjp=rule)
    def f(x: Any, sizes: Any, f: Any, nothing: Any = None) -> Any:
        return 2 * x

    assert wb.grad(lambda x: f(x, [1, 2], np.cos, None))(1.0) == 2


def test_defaults_that_stay_are_settings_too() -> None:
    def rule(node: Any, g: Any) -> Any:
        factor = 3.0 if node.get_attr("kind") == "triple" else 5.0
        return g * factor * node.get_attr("scale") * (node.get_attr("n") or 1)

    @wb.custom_vjp(vjp=rule)
    def f(x: Any, kind: str = "triple", scale: float = 2.0, *, n: Any = None) -> Any:
        return x

    assert wb.grad(f)(1.0) == 6
    assert wb.grad(f)(1.0, "other") == 10
    assert wb.grad(f)(1.0, kind="other") == 10
    assert wb.grad(lambda x: f(x, n=7))(1.0) == 42


def test_calls_that_look_alike_are_told_apart() -> None:
    def rule(node: Any, g: Any) -> Any:
        x, n = node.inputs[0], node.get_attr("n")
        return (g * n * x ** (n - 1), *[None] * (len(node.inputs) - 1))

    @wb.custom_vjp(vjp=rule)
    def power(x: Any, n: Any, unused: Any = None) -> Any:
        return x**n if unused is None else x**n + 0 * unused

    def f(x: Any) -> Any:
        return (
            power(x, 2) + power(x, 3) + power(x, True) + power(x, 2, x) + power(x, n=2)
        )

    assert f(3.0) == 9 + 27 + 3 + 9 + 9
    assert wb.grad(f)(3.0) == 6 + 27 + 1 + 6 + 6
    assert wb.grad(f)(2.0) == 4 + 12 + 1 + 4 + 4


def test_calls_that_return_more_than_arrays() -> None:
    @wb.custom_vjp(vjp=lambda node, g: g)
    def counted(x: Any) -> Any:
        return x * 1, int(x.size)

    def f(x: Any) -> Any:
        (a, n), (b, m) = counted(x), counted(x[:2])
        assert (n, m) == (3, 2)
        return np.sum(a) * n + np.sum(b) * m

    assert wb.grad(f)(X).tolist() == [5, 5, 3]
