"""What a step, a branch or a function inside reads of the program around it.

Lengths, and the outputs of nodes that have several, against central differences and
closed forms.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.gradient import grad, hessian, jacobian

POINT = np.array([0.3, -0.5, 0.7])
TALL = np.array([[1.0, 2.0], [3.0, 4.5], [0.5, 6.0]])


def differences(f: Callable[..., Any], x: Any) -> Any:
    """The Jacobian of a function of an array, the axes of the array last."""
    steps = []
    for i in np.ndindex(x.shape):
        e = np.zeros(x.shape)
        e[i] = 1e-5
        steps.append((np.asarray(f(x + e)) - np.asarray(f(x - e))) / 2e-5)
    made = np.stack(steps, -1)
    return made.reshape(*made.shape[:-1], *x.shape)


# A program of a vector of unknown length, inside each kind of inner program


def loop(s: Any, w: Any) -> Any:
    return s + wb.scan(
        lambda t, w: 1.1 * t + np.sum(np.sin(w) ** 2),
        initial=0.0, non_sequences=w, n_steps=2,
    )[-1]  # fmt: skip


def closure(s: Any, w: Any) -> Any:
    return (
        1.1 * s
        + wb.scan(
            lambda t: np.tanh(t) + np.sum(np.sin(w) ** 2), initial=0.0, n_steps=2
        )[-1]
    )


def long_state(s: Any, w: Any) -> Any:
    """A length of the outer program stands in the settings of an inner op."""
    first = np.sum(w[:2])

    def step(t: Any) -> Any:
        return np.tanh(t) + np.sin(w) * np.sum(np.broadcast_to(first, w.shape))

    return s + np.sum(wb.scan(step, initial=np.zeros_like(w), n_steps=2)[-1] ** 2)


def branch(s: Any, w: Any) -> Any:
    def taken(t: Any) -> Any:
        return np.tanh(t) + np.sum(np.sin(w) ** 2) * np.sum(np.broadcast_to(t, w.shape))

    return wb.cond(s < 1e9, taken, lambda t: t * 1.0, s + np.sum(w**3))


def endless(s: Any, w: Any) -> Any:
    def step(state: Any) -> Any:
        k, t = state
        return k + 1, np.tanh(t) + np.sum(np.sin(w) ** 2)

    return wb.while_loop(lambda state: state[0] < 3, step, (0, s))[1]


def stored_less(s: Any, w: Any) -> Any:
    return wb.checkpoint(lambda t: np.tanh(t) + np.sum(np.sin(w) ** 2))(s)


def whole(s: Any, w: Any) -> Any:
    t, v = wb.scalar("t"), wb.vector("v")
    return wb.OpFromGraph([t, v], [np.tanh(t) + np.sum(np.sin(v) ** 2)])(s, w)


INSIDE = [loop, closure, long_state, branch, endless, stored_less, whole]


@pytest.mark.long
@pytest.mark.parametrize("inside", INSIDE)
def test_C8_second_order_of_a_loop_around_a_loop(inside: Any) -> None:
    w = wb.vector("w")
    cost = wb.scan(inside, initial=0.0, non_sequences=w, n_steps=2)[-1]
    first = wb.function([w], grad(cost, w))
    np.testing.assert_allclose(
        first(POINT), differences(wb.function([w], cost), POINT), atol=1e-7
    )
    f = wb.function([w], [hessian(cost, w), jacobian(grad(cost, w), w)])
    for x in (POINT, POINT[:2]):
        want = differences(first, x)
        for got in f(x):
            np.testing.assert_allclose(got, want, atol=1e-6)


@pytest.mark.parametrize("known", [True, False])
def test_C8_the_seed_s_shared_non_sequence(known: bool) -> None:
    """Each of n steps adds the sum of squares: the Hessian is 2n on the diagonal."""
    w = wb.vector("w")
    n = 2 if known else wb.tensor(dtype="int64", shape=(), name="n")

    def outer(s: Any, w: Any) -> Any:
        inner = wb.scan(
            lambda t, w: t + np.sum(w**2), initial=0.0, non_sequences=w, n_steps=1
        )
        return s + inner[-1]

    cost = wb.scan(outer, initial=0.0, non_sequences=w, n_steps=n)[-1]
    made = hessian(cost, w)
    if known:
        got = wb.function([w], made)(np.ones(3))
    else:
        got = wb.function([w, n], made)(np.ones(3), 2)
    np.testing.assert_array_equal(got, 4 * np.eye(3))


@pytest.mark.parametrize("inside", INSIDE)
def test_a_batch_of_symbols_around_a_loop(inside: Any) -> None:
    """As many examples as the program tells when it runs."""
    rows = wb.matrix("rows")
    made = wb.vmap(lambda row: inside(0.5, row))(rows)
    f = wb.function([rows], made)
    point = np.stack([POINT, 2 * POINT])
    w = wb.vector("w")
    one = wb.function([w], inside(wb.constant(0.5), w))
    np.testing.assert_allclose(f(point), [one(x) for x in point])


def test_a_batch_of_loops_of_unequal_length() -> None:
    """Examples that are ready wait; how many there are only the run tells."""
    rows = wb.matrix("rows")

    def halves(row: Any) -> Any:
        step = lambda state: (state[0] + 1, state[1] / 2)  # noqa: E731
        return wb.while_loop(lambda state: np.sum(state[1]) > 1, step, (0, row))[0]

    f = wb.function([rows], wb.vmap(halves)(rows))
    assert f(np.array([[1.0, 1.0], [4.0, 4.0], [0.1, 0.1]])).tolist() == [1, 3, 0]


# Outputs of a node that has several


def triangle(u: Any) -> Any:
    return np.sum(np.linalg.qr(u)[1], axis=0)


def by_rows(y: Any, u: Any) -> Any:
    return wb.scan(lambda i: wb.grad(y[i], u), np.arange(2))


def by_branch(y: Any, u: Any) -> Any:
    return wb.cond(y[0] > -1e9, lambda: wb.grad(y[0], u) + 0 * u, lambda: u * 0)


def by_while(y: Any, u: Any) -> Any:
    step = lambda state: (state[0] + 1, state[1] + wb.grad(y[0], u))  # noqa: E731
    return wb.while_loop(lambda state: state[0] < 2, step, (0, u * 0))[1]


def by_checkpoint(y: Any, u: Any) -> Any:
    return wb.checkpoint(lambda t: wb.grad(y[0], u) * t)(np.sum(u))


def by_whole(y: Any, u: Any) -> Any:
    t = wb.scalar("t")
    return wb.OpFromGraph([t, u], [t * wb.grad(y[0], u)])(np.sum(u), u)


@pytest.mark.parametrize(
    ("inside", "plain"),
    [
        (by_rows, lambda first, second, u: np.stack([first, second])),
        (by_branch, lambda first, second, u: first),
        (by_while, lambda first, second, u: 2 * first),
        (by_checkpoint, lambda first, second, u: first * np.sum(u)),
        (by_whole, lambda first, second, u: first * np.sum(u)),
    ],
)
def test_a_derivative_inside_of_what_several_outputs_gave(
    inside: Any, plain: Any
) -> None:
    u = wb.matrix("u")
    made = inside(triangle(u), u)

    def want(x: Any) -> Any:
        return plain(*wb.jacobian(triangle)(x), x)

    f = wb.function([u], made)
    np.testing.assert_allclose(f(TALL), want(TALL), atol=1e-12)
    by_hand = differences(lambda x: np.sum(np.linalg.qr(x)[1], axis=0), TALL)
    np.testing.assert_allclose(
        want(TALL), plain(by_hand[0], by_hand[1], TALL), atol=1e-8
    )
    total = wb.function([u], grad(np.sum(made**2), u))
    np.testing.assert_allclose(
        total(TALL), differences(lambda x: np.sum(f(x) ** 2), TALL), atol=1e-6
    )


def test_a_derivative_inside_of_a_scan_outside() -> None:
    """Row i of the Jacobian of the last state, each by a step of another loop."""
    u, h, w = wb.matrix("u"), wb.vector("h"), wb.matrix("w")
    states = wb.scan(lambda u, h, w: np.tanh(w @ (u + h)), u, h, non_sequences=w)
    last = states[-1]
    rows = wb.scan(lambda i: wb.grad(last[i], u), np.arange(3))
    point = np.linspace(-0.5, 0.6, 12).reshape(4, 3), POINT, np.diag([0.5, 0.9, 1.1])

    def plain(u: Any) -> Any:
        h = point[1]
        for x in u:
            h = np.tanh(point[2] @ (x + h))
        return h

    got = wb.function([u, h, w], rows)(*point)
    np.testing.assert_allclose(got, differences(plain, point[0]), atol=1e-9)


def test_a_length_that_only_one_of_several_outputs_tells() -> None:
    """How many steps a loop made, as a setting of an op and in a further loop."""
    v = wb.vector("v")
    _, b = wb.scan(
        lambda x, s, t: ((s + x, t * x + 1), wb.until(s > 3.5)), v, initial=[0.0, 1.0]
    )
    spread = np.sum(np.broadcast_to(np.sum(v), (b.shape[0],)))
    inner = wb.scan(lambda i: i * np.sum(b) * b.shape[0], np.arange(2) * 1.0)
    f = wb.function([v], [spread, np.reshape(b, (b.shape[0], 1)), inner])
    x = np.arange(6.0)
    total, column, rows = f(x)
    assert total == 5 * 15  # it stops when s is 6, after five steps
    assert column[:, 0].tolist() == [1, 2, 5, 16, 65]
    assert rows.tolist() == [0, 89 * 5]
    made = wb.function([v], grad(spread + np.sum(inner), v))(x)
    want = differences(lambda x: f(x)[0] + np.sum(f(x)[2]), x)
    np.testing.assert_allclose(made, want, rtol=1e-7)
