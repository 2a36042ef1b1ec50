"""`linearize`, `gnvp`, `elementwise_grad`, `jacrev` and `jacfwd`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.errors import ShapeError, TraceError

A = np.array([[0.3, -1.2, 0.5], [2.0, 0.1, -0.7]])
X = np.array([0.2, -0.4, 0.9])
V = np.array([1.0, 2.0, -1.0])


def net(p: Any) -> Any:
    return np.tanh(p["W"] @ p["x"]), np.sum(p["x"] ** 2)


P = {"W": A, "x": X}
DP = {"W": A[::-1] * 2, "x": V}


def test_linearize_is_jvp() -> None:
    y, f_jvp = wb.linearize(net, P)
    expected, moved = wb.jvp(net, (P,), (DP,))
    np.testing.assert_allclose(y[0], expected[0])
    for _ in range(2):
        made = f_jvp(DP)
        np.testing.assert_allclose(made[0], moved[0], rtol=1e-13)
        np.testing.assert_allclose(made[1], moved[1], rtol=1e-13)
        assert type(made[0]) is np.ndarray


def test_linearize_runs_the_function_once_and_keeps_its_own_copy() -> None:
    calls = []

    def f(x: Any) -> Any:
        calls.append(1)
        return np.sin(x) if x[0] > 0 else x

    x = X.copy()
    y, f_jvp = wb.linearize(f, x)
    y[:] = 7
    np.testing.assert_allclose(f_jvp(V), np.cos(X) * V)
    np.testing.assert_allclose(f_jvp(2 * V), 2 * np.cos(X) * V)
    assert calls == [1]


def test_linearize_finds_data_that_changed() -> None:
    data = np.array([1.0, 2.0])
    before = data[:]
    _, f_jvp = wb.linearize(lambda x: x * data, np.ones(2))
    np.testing.assert_array_equal(f_jvp(np.ones(2)), [1, 2])
    with pytest.raises(ValueError, match="read-only"):
        data[0] = 5
    view = before[:1]
    view[0] = 5  # NumPy leaves a view that was made before writeable
    with pytest.raises(TraceError, match=r"changed in place before its derivative"):
        f_jvp(np.ones(2))
    del f_jvp
    data[0] = 5


def test_linearize_nests_and_batches() -> None:
    def f(x: Any) -> Any:
        return np.sin(x) * np.sum(x**2)

    def quadratic(x: Any) -> Any:
        _, f_jvp = wb.linearize(f, x)
        return V @ f_jvp(V)

    expected = wb.grad(lambda x: V @ wb.jvp(f, (x,), (V,))[1])(X)
    np.testing.assert_allclose(wb.grad(quadratic)(X), expected, rtol=1e-12)
    _, f_jvp = wb.linearize(f, X)
    np.testing.assert_allclose(wb.vmap(f_jvp)(np.eye(3)).T, wb.jacobian(f)(X))
    np.testing.assert_allclose(
        wb.grad(lambda v: V @ f_jvp(v))(X), wb.jacobian(f)(X).T @ V
    )


def test_linearize_follows_the_overrides_of_a_block() -> None:
    with wb.overrides(wb.override("tanh", vjp="3 * g")):
        _, f_jvp = wb.linearize(lambda x: np.tanh(x) * 2, X)
    np.testing.assert_array_equal(f_jvp(X), 6 * X)


def test_linearize_of_what_does_not_move() -> None:
    y, f_jvp = wb.linearize(lambda x: (np.sign(x), x * 2), X)
    np.testing.assert_array_equal(y[0], np.sign(X))
    made = f_jvp(V)
    np.testing.assert_array_equal(made[0], np.zeros(3))
    np.testing.assert_array_equal(made[1], 2 * V)


def test_linearize_says_how_tangents_nest() -> None:
    _, f_jvp = wb.linearize(net, P)
    with pytest.raises(ShapeError, match="Give one tangent per primal"):
        f_jvp(A, X)
    with pytest.raises(ShapeError, match="the tangent has shape"):
        f_jvp({"W": A.T, "x": X})


def loss(z: Any) -> Any:
    return np.log(np.sum(np.exp(z)))


def test_gnvp_is_the_product_of_three_matrices() -> None:
    def f(x: Any) -> Any:
        return np.tanh(A @ x) * np.sum(x**2)

    J, H = wb.jacobian(f)(X), wb.hessian(loss)(f(X))
    np.testing.assert_allclose(wb.gnvp(f, loss, X, V), J.T @ H @ J @ V, rtol=1e-12)
    (made,) = wb.gnvp(f, loss, (X,), (V,))
    np.testing.assert_allclose(made, J.T @ H @ J @ V, rtol=1e-12)
    # Where f is linear it is the Hessian.
    linear = lambda x: A @ x  # noqa: E731
    np.testing.assert_allclose(
        wb.gnvp(linear, loss, X, V), wb.hvp(lambda x: loss(A @ x), X, V), rtol=1e-12
    )


def test_gnvp_of_nests_and_under_grad() -> None:
    def f(p: Any) -> Any:
        return p["W"] @ np.sin(p["x"])

    (made,) = wb.gnvp(f, loss, (P,), (DP,))
    J, H = wb.jacobian(f)(P), wb.hessian(loss)(f(P))
    moved = np.einsum("ijk,jk->i", J["W"], DP["W"]) + J["x"] @ V
    np.testing.assert_allclose(made["x"], J["x"].T @ H @ moved, rtol=1e-12)
    np.testing.assert_allclose(
        made["W"], np.einsum("ijk,i->jk", J["W"], H @ moved), rtol=1e-12
    )
    curved = lambda x: V @ wb.gnvp(np.sin, loss, x, V)  # noqa: E731

    def plain(x: Any) -> Any:
        H = wb.hessian(loss)(np.sin(x))
        return V @ (np.cos(x) * (H @ (np.cos(x) * V)))

    np.testing.assert_allclose(wb.grad(curved)(X), wb.grad(plain)(X), rtol=1e-11)


def test_elementwise_grad() -> None:
    d = wb.elementwise_grad
    f = lambda x: np.exp(x) * np.sin(x)  # noqa: E731
    np.testing.assert_allclose(d(f)(X), np.exp(X) * (np.sin(X) + np.cos(X)))
    np.testing.assert_allclose(d(d(f))(X), 2 * np.exp(X) * np.cos(X))
    M = np.outer(X, X)
    np.testing.assert_allclose(d(np.arctan)(M), 1 / (1 + M**2))
    np.testing.assert_allclose(d(np.power, 1)(abs(X), V), abs(X) ** V * np.log(abs(X)))
    by_both = d(lambda x, s: x * s, (0, 1))(X, 2.0)
    np.testing.assert_allclose(by_both[0], np.full(3, 2.0))
    np.testing.assert_allclose(by_both[1], np.sum(X))
    assert d(lambda x, k=2: x**k, argnames="x")(3.0) == 6.0
    assert d(np.floor)(2.5) == 0


def test_elementwise_grad_refuses_what_is_not() -> None:
    for f in (np.sum, lambda x: x[:2], lambda x: x[:, None] * x):
        with pytest.raises(ShapeError, match="does not work entry by entry"):
            wb.elementwise_grad(f)(X)


def test_jacrev_and_jacfwd() -> None:
    f = lambda x, s: np.tanh(A @ x) * s  # noqa: E731
    for made in (wb.jacrev, wb.jacfwd):
        np.testing.assert_allclose(made(f)(X, 2.0), wb.jacobian(f)(X, 2.0), rtol=1e-13)
        J = made(f, argnums=(1, 0))(X, 2.0)
        assert [b.shape for b in J] == [(2,), (2, 3)]
    assert wb.jacfwd(f, argnames="s")(X, 2.0).shape == (2,)
