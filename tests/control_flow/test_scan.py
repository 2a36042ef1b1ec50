"""`scan`: against plain Python loops, complex steps and known sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.errors import ShapeError


def complex_step(f: Callable[[Any], Any], x: Any) -> Any:
    """The gradient of a real function of reals, by a step along i."""
    x = np.asarray(x, dtype=float)
    g = np.empty(x.shape)
    for i in np.ndindex(x.shape):
        z = x.astype(complex)
        z[i] += 1e-30j
        g[i] = np.imag(f(z)) / 1e-30
    return g


def cell(W: Any, x: Any, h: Any) -> Any:
    return np.tanh(W @ h + x)


def recurrent(W: Any, xs: Any, h: Any) -> Any:
    """A recurrent net as a plain loop: the sum of squares of all its states."""
    total = 0.0
    for x in xs:
        h = cell(W, x, h)
        total = total + np.sum(h**2)
    return total


def scanned(W: Any, xs: Any, h: Any) -> Any:
    return np.sum(wb.scan(lambda x, h: cell(W, x, h), xs, h) ** 2)


@pytest.fixture
def net(rng: np.random.Generator) -> tuple[Any, Any, Any]:
    return rng.normal(size=(3, 3)), rng.normal(size=(6, 3)), rng.normal(size=3)


@pytest.mark.parametrize("place", [0, 1, 2])
def test_C8_a_recurrent_net_against_complex_steps(place: int, net: Any) -> None:
    def at(x: Any) -> Any:
        return recurrent(*net[:place], x, *net[place + 1 :])

    want = complex_step(at, net[place])
    assert np.allclose(wb.grad(scanned, place)(*net), want, rtol=1e-12, atol=1e-12)
    forward = wb.jacfwd(scanned, place)(*net)
    assert np.allclose(forward, want, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("place", [0, 1, 2])
def test_C8_second_order_in_every_mix_of_modes(place: int, net: Any) -> None:
    def at(x: Any) -> Any:
        return recurrent(*net[:place], x, *net[place + 1 :])

    want = wb.hessian(at)(net[place])
    for outer in (wb.jacfwd, wb.jacrev):
        for inner in (wb.jacfwd, wb.grad):
            made = outer(inner(scanned, place), place)(*net)
            assert np.allclose(made, want, rtol=1e-9, atol=1e-11)


def test_C8_on_symbols_of_known_and_unknown_lengths(net: Any) -> None:
    want = wb.grad(recurrent, (0, 1, 2))(*net)
    known = (
        wb.matrix("W", shape=(3, 3)),
        wb.matrix("xs", shape=(6, 3)),
        wb.vector("h", shape=3),
    )
    unknown = wb.matrix("W"), wb.matrix("xs"), wb.vector("h", shape=3)
    for symbols in (known, unknown):
        cost = scanned(*symbols)
        f = wb.function(list(symbols), [cost, *wb.grad(cost, list(symbols))])
        made = f(*net)
        assert np.allclose(made[0], recurrent(*net))
        for a, b in zip(made[1:], want, strict=True):
            assert np.allclose(a, b)
    W, xs, h = net
    shorter = wb.grad(recurrent, 0)(W, xs[:2], h)
    assert np.allclose(f(W, xs[:2], h)[1], shorter)


def test_C8_pushforward_through_a_scan(net: Any) -> None:
    """Rop: the tangent of all states along a direction, as a graph of symbols."""
    W, xs, h = net
    symbol = wb.matrix("W", shape=(3, 3))
    t = wb.matrix("t", shape=(3, 3))
    states = wb.scan(lambda x, h: cell(symbol, x, h), xs, h)
    from workbench.autodiff.forward import push_forward

    (moved,) = push_forward([states], [symbol], [t], record=True)
    f = wb.function([symbol, t], moved)
    direction = np.ones((3, 3)) * 0.3

    def plain(W: Any) -> Any:
        made, state = [], h
        for x in xs:
            state = cell(W, x, state)
            made.append(state)
        return np.stack(made)

    want = np.imag(plain(W + 1e-30j * direction)) / 1e-30
    assert np.allclose(f(W, direction), want, rtol=1e-12, atol=1e-12)


def test_C8_the_power_of_theanos_tutorial() -> None:
    """A**k, its gradient by A, for a number of steps that is a symbol."""
    k = wb.scalar("k", dtype=int)
    A = wb.vector("A")
    result = wb.scan(
        lambda prior, A: prior * A,
        initial=np.ones_like(A),
        non_sequences=A,
        n_steps=k,
    )
    power = wb.function([A, k], [result[-1], wb.grad(np.sum(result[-1]), A)])
    x = np.arange(5.0)
    for count in (1, 2, 7):
        y, g = power(x, count)
        assert np.array_equal(y, x**count)
        assert np.allclose(g, count * x ** (count - 1))


def test_C8_a_polynomial(rng: np.random.Generator) -> None:
    """Theano's tutorial: terms from coefficients, powers and a value."""
    c = rng.normal(size=5)

    def polynomial(c: Any, x: Any) -> Any:
        terms = wb.scan(
            lambda a, power, x: a * x**power,
            sequences=[c, np.arange(5)],
            initial=None,
            non_sequences=x,
        )
        return np.sum(terms)

    x = 1.7
    assert np.isclose(polynomial(c, x), np.polyval(c[::-1], x))
    slope = np.polyval(np.polyder(c[::-1]), x)
    assert np.isclose(wb.grad(polynomial, 1)(c, x), slope)
    bend = np.polyval(np.polyder(c[::-1], 2), x)
    assert np.isclose(wb.hessian(polynomial, 1)(c, x), bend)
    assert np.allclose(wb.grad(polynomial)(c, x), x ** np.arange(5))


def test_taps_of_sequences_and_outputs(rng: np.random.Generator) -> None:
    x, start = rng.normal(size=9), rng.normal(size=3)

    def plain(x: Any, start: Any, w: Any) -> Any:
        h = [start[0], start[1], start[2]]
        for t in range(1, len(x) - 1):
            h.append(x[t - 1] * x[t] + np.sin(x[t + 1] * h[-1]) - w * h[-3])
        return np.stack(h[3:])

    def loop(x: Any, start: Any, w: Any) -> Any:
        return wb.scan(
            lambda before, here, after, h3, h1, w: (
                before * here + np.sin(after * h1) - w * h3
            ),
            {"input": x, "taps": [-1, 0, 1]},
            {"initial": start, "taps": [-3, -1]},
            w,
        )

    args = (x, start, 0.4)
    assert np.array_equal(loop(*args), plain(*args))
    for place in range(3):
        want = wb.jacrev(plain, place)(*args)
        assert np.allclose(wb.jacrev(loop, place)(*args), want)
        assert np.allclose(wb.jacfwd(loop, place)(*args), want)
        want = wb.hessian(lambda *a: np.sum(plain(*a) ** 2), place)(*args)
        made = wb.hessian(lambda *a: np.sum(loop(*a) ** 2), place)(*args)
        assert np.allclose(made, want)


def test_fibonacci_is_a_power_of_its_matrix() -> None:
    first = {"initial": np.array([0.0, 1.0]), "taps": [-2, -1]}
    made = wb.scan(lambda a, b: a + b, initial=first, n_steps=30)
    want = [np.linalg.matrix_power(np.array([[0, 1], [1, 1]]), n)[1, 1]
            for n in range(1, 31)]  # fmt: skip
    assert np.array_equal(made, want)


def test_a_single_tap_leaves_out_the_ends_as_in_theano() -> None:
    x = np.arange(5.0)
    before = wb.scan(lambda a: a, {"input": x, "taps": -1})
    after = wb.scan(lambda a: a, {"input": x, "taps": [2]})
    assert np.array_equal(before, x[:-1])
    assert np.array_equal(after, x[2:])


def test_reverse_goes_backward_and_gives_the_first_step_first() -> None:
    x = np.arange(1.0, 5.0)
    made = wb.scan(lambda a, h: a + 2 * h, x, 0.0, reverse=True)
    assert np.array_equal(made, [4, 11, 24, 49])
    g = wb.grad(lambda x: wb.scan(lambda a, h: a + 2 * h, x, 0.0, reverse=True)[-1])(x)
    assert np.array_equal(g, [1, 2, 4, 8])


def test_the_shortest_sequence_counts() -> None:
    made = wb.scan(lambda a, b: a * b, [np.arange(5.0), np.arange(3.0)])
    assert np.array_equal(made, [0, 1, 4])
    g = wb.grad(lambda x: np.sum(wb.scan(lambda a, b: a * b, [x, np.arange(3.0)])))
    assert np.array_equal(g(np.ones(5)), [0, 1, 2, 0, 0])


def test_fewer_steps_than_entries() -> None:
    g = wb.grad(lambda x: wb.scan(lambda a, h: a * h, x, 1.0, n_steps=2)[-1])
    assert np.array_equal(g(np.array([2.0, 3.0, 5.0])), [3, 2, 0])


def test_no_step_at_all() -> None:
    f = lambda w: np.sum(wb.scan(lambda h: w * h, initial=np.ones(2), n_steps=0))  # noqa: E731
    assert wb.scan(lambda h: h * 2, initial=np.ones(2), n_steps=0).shape == (0, 2)
    assert wb.grad(f)(3.0) == 0
    k, w = wb.scalar("k", dtype=int), wb.scalar("w")
    y = np.sum(wb.scan(lambda h: w * h, initial=np.ones(2), n_steps=k))
    g = wb.function([k, w], [y, wb.grad(y, w)])
    assert [float(v) for v in g(0, 2.0)] == [0, 0]
    assert [float(v) for v in g(2, 3.0)] == [24, 14]


def test_nests_of_arrays_as_state(rng: np.random.Generator) -> None:
    W = rng.normal(size=(2, 2))
    xs = {"a": rng.normal(size=(4, 2)), "b": rng.normal(size=4)}

    def loss(W: Any, xs: Any) -> Any:
        def step(x: Any, state: Any) -> Any:
            h = np.tanh(W @ state["h"] + x["a"])
            return {"h": h, "c": state["c"] + x["b"] * h[0]}

        states = wb.scan(step, [xs], [{"h": np.ones(2), "c": 0.0}])
        return np.sum(states["c"]) + np.sum(states["h"][-1])

    def plain(W: Any, xs: Any) -> Any:
        h, c, total = np.ones(2), 0.0, 0.0
        for a, b in zip(xs["a"], xs["b"], strict=True):
            h = np.tanh(W @ h + a)
            c = c + b * h[0]
            total = total + c
        return total + np.sum(h)

    g, want = wb.grad(loss, (0, 1))(W, xs), wb.grad(plain, (0, 1))(W, xs)
    assert np.allclose(g[0], want[0])
    assert np.allclose(g[1]["a"], want[1]["a"])
    assert np.allclose(g[1]["b"], want[1]["b"])


def test_several_outputs_as_they_were_returned() -> None:
    pair = wb.scan(lambda x, h: (h + x, x * x), np.arange(3.0), [0.0, None])
    assert isinstance(pair, tuple)
    assert [list(y) for y in pair] == [[0, 1, 3], [0, 1, 4]]
    assert isinstance(wb.scan(lambda x: [x], np.arange(3.0)), list)


def test_nested_loops_accumulate_outer_products(rng: np.random.Generator) -> None:
    a, b = rng.normal(size=3), rng.normal(size=4)

    def loop(a: Any, b: Any) -> Any:
        def row(x: Any, total: Any) -> Any:
            inner = wb.scan(lambda y, s: s + np.sin(x * y), b, 0.0)
            return total + inner[-1] * x

        return wb.scan(row, a, 0.0)[-1]

    def plain(a: Any, b: Any) -> Any:
        return np.sum(np.sin(np.outer(a, b)) * a[:, None])

    assert np.isclose(loop(a, b), plain(a, b))
    for place in (0, 1):
        want = wb.grad(plain, place)(a, b)
        assert np.allclose(wb.grad(loop, place)(a, b), want)
        want = wb.hessian(plain, place)(a, b)
        assert np.allclose(wb.hessian(loop, place)(a, b), want)


def test_until_ends_after_the_step_in_which_it_is_true() -> None:
    made = wb.scan(lambda x: (2 * x, wb.until(2 * x > 50)), initial=1.0, n_steps=99)
    assert np.array_equal(made, [2, 4, 8, 16, 32, 64])
    again = wb.scan(lambda x: 2 * x, initial=1.0, n_steps=99, until=lambda x: x > 50)
    assert np.array_equal(made, again)


def test_until_has_derivatives_of_any_order() -> None:
    def last(w: Any) -> Any:
        def step(x: Any) -> Any:
            return w * x, wb.until(w * x > 50)

        return wb.scan(step, initial=1.0, n_steps=99)[-1]

    assert wb.grad(last)(2.0) == 6 * 2**5
    assert wb.jvp(last, (2.0,), (1.0,))[1] == 6 * 2**5
    assert wb.hessian(last)(2.0) == 30 * 2**4
    assert wb.grad(wb.grad(last))(2.0) == 30 * 2**4
    w = wb.scalar("w")
    y = last(w)
    f = wb.function([w], [y, wb.grad(y, w)])
    assert [float(v) for v in f(2.0)] == [64, 192]
    assert [float(v) for v in f(3.0)] == [81, 108]


def test_until_with_sequences_leaves_the_rest_of_them_alone() -> None:
    def total(x: Any) -> Any:
        return wb.scan(lambda a, s: (s + a * a, wb.until(s + a * a > 5)), x, 0.0)[-1]

    x = np.array([1.0, 2.0, 1.5, 7.0])
    assert total(x) == 7.25
    assert np.array_equal(wb.grad(total)(x), [2, 4, 3, 0])
    assert np.array_equal(wb.jacfwd(total)(x), [2, 4, 3, 0])
    assert np.array_equal(wb.hessian(total)(x), np.diag([2.0, 2, 2, 0]))


def test_vmap_of_and_through_a_scan(rng: np.random.Generator) -> None:
    xs, w = rng.normal(size=(4, 6)), rng.normal(size=4)

    def loss(w: Any, x: Any) -> Any:
        return np.sum(wb.scan(lambda a, h: np.sin(w * h + a), x, 0.5) ** 2)

    want = [wb.grad(loss)(w[i], xs[i]) for i in range(4)]
    assert np.allclose(wb.vmap(wb.grad(loss))(w, xs), want)
    got = wb.grad(lambda w: np.sum(wb.vmap(loss)(w, xs)))(w)
    assert np.allclose(got, want)
    got = wb.vmap(lambda w: loss(w, xs[0]))(w)
    assert np.allclose(got, [loss(v, xs[0]) for v in w])
    # A loop whose steps map over a batch.
    many = wb.scan(
        lambda x, h: wb.vmap(lambda a, b: np.sin(a + b))(x, h), xs.T, np.zeros(4)
    )
    want = np.stack([wb.scan(lambda a, h: np.sin(a + h), x, 0.0) for x in xs], axis=1)
    assert np.allclose(many, want)


def test_masked_branches_do_not_poison_the_steps_before() -> None:
    """G4 through steps: sqrt at 0 in the branch not taken, two steps later."""

    def loop(x: Any) -> Any:
        def step(t: Any, h: Any) -> Any:
            return h + np.where(t > 0, np.sqrt(h * t), 0.0 * h)

        return wb.scan(step, np.array([0.0, 0.0, 1.0]), x)[-1]

    with np.errstate(invalid="ignore"):  # as of the branch not taken without a loop
        assert np.isclose(wb.grad(loop)(4.0), 1 + 0.25)
        assert np.isclose(wb.jvp(loop, (4.0,), (1.0,))[1], 1 + 0.25)


def test_shared_values_are_carried_and_come_back() -> None:
    w, count = wb.shared(2.0, "w"), wb.shared(0, "count")
    x = wb.vector("x")

    def step(a: Any, h: Any) -> Any:
        return h * w + a, {w: w * 0.5, count: count + 1}

    states, updates = wb.scan(step, x, 1.0, return_updates=True)
    f = wb.function([x], [states, wb.grad(states[-1], w)], updates=updates)
    states_1, g = f([1.0, 1.0, 1.0])
    # h: 1*2+1 = 3, 3*1+1 = 4, 4*0.5+1 = 3
    assert list(states_1) == [3, 4, 3]
    # ((w + 1) w / 2 + 1) w / 4 + 1 at w = 2
    assert np.isclose(g, 3 * 4 / 8 + 2 * 2 / 8 + 1 / 4)
    assert w.get_value() == 0.25
    assert count.get_value() == 3


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex128])
def test_dtypes_stay(dtype: Any) -> None:
    x = np.arange(3).astype(dtype)
    made = wb.scan(lambda a, h: h * 0.5 + a, x, 0.0)
    assert made.dtype == dtype
    g = wb.grad(lambda x: np.real(wb.scan(lambda a, h: h * 0.5 + a, x, 0.0)[-1]))(x)
    assert g.dtype == dtype
    assert np.allclose(g, [0.25, 0.5, 1])


def test_captured_tensors_get_gradients_too(rng: np.random.Generator) -> None:
    xs = rng.normal(size=5)

    def loop(w: Any) -> Any:
        v = np.exp(w)
        return wb.scan(lambda x, h: np.sin(v * h + x), xs, 0.0)[-1]

    def plain(w: Any) -> Any:
        h = 0.0
        for x in xs:
            h = np.sin(np.exp(w) * h + x)
        return h

    assert np.isclose(wb.grad(loop)(0.3), np.imag(plain(0.3 + 1e-30j)) / 1e-30)


def test_the_logistic_map_of_10_000_steps() -> None:
    """dx/dr along the orbit at a fixed point: x* = 1 - 1/r, d/dr = 1/r**2."""

    def last(r: Any) -> Any:
        return wb.scan(lambda x: r * x * (1 - x), initial=0.4, n_steps=10_000)[-1]

    r = 2.8
    assert np.isclose(last(r), 1 - 1 / r)
    assert np.isclose(wb.grad(last)(r), 1 / r**2)
    assert np.isclose(wb.jvp(last, (r,), (1.0,))[1], 1 / r**2)
    assert np.isclose(wb.hessian(last)(r), -2 / r**3)


def test_euler_steps_of_a_differential_equation() -> None:
    """y' = a y in 10,000 steps: y = (1 + a h)^n, dy/da = n h (1 + a h)^(n - 1)."""
    n = 10_000
    h = 1.0 / n

    def last(a: Any, y: Any) -> Any:
        return wb.scan(lambda y: y + h * a * y, initial=y, n_steps=n, last=True)

    a, y = 0.7, np.float64(2.0)
    assert np.isclose(last(a, y), y * (1 + a * h) ** n)
    ga, gy = wb.grad(last, (0, 1))(a, y)
    assert np.isclose(ga, y * n * h * (1 + a * h) ** (n - 1))
    assert np.isclose(gy, (1 + a * h) ** n)
    second = wb.hessian(last)(a, y)
    assert np.isclose(second, y * (n - 1) / n * (1 + a * h) ** (n - 2))


def test_a_plain_sequence_beside_one_of_unknown_length() -> None:
    """Theano's polynomial: the coefficients, and more powers than there are."""
    c, x = wb.vector("c"), wb.scalar("x")
    terms = wb.scan(lambda c, p, x: c * x**p, [c, np.arange(100)], None, x)
    total = np.sum(terms)
    f = wb.function([c, x], [total, *wb.grad(total, [c, x])])
    value, by_c, by_x = f([1.0, 0.0, 2.0], 3.0)
    assert (value, by_x) == (19.0, 12.0)
    assert np.array_equal(by_c, [1.0, 3.0, 9.0])
    with pytest.raises(ShapeError, match="100"):
        wb.scan(lambda c, p: c, [c, np.arange(100)], n_steps=101)
    assert np.array_equal(f(np.zeros(101), 1.0)[1], np.r_[np.ones(100), 0.0])


def test_sequences_of_unequal_length_meet_at_their_ends_in_reverse() -> None:
    """As in Theano, which turns them around before it cuts them."""
    both = [np.arange(3.0), np.arange(5.0)]
    want = [24.0, 13.0, 2.0]
    made = wb.scan(lambda a, b: 10 * a + b, both, reverse=True)
    assert np.array_equal(made, want)
    assert np.array_equal(
        wb.scan(lambda a: a, np.arange(5.0), n_steps=2, reverse=True), [4.0, 3.0]
    )
    a, b = wb.vectors("a b")
    n = wb.scalar("n", dtype=int)
    y = wb.scan(lambda a, b: 10 * a + b, [a, b], reverse=True)
    f = wb.function([a, b], [y, wb.grad(np.sum(y * [1.0, 2.0, 3.0]), b)])
    made, slopes = f(*both)
    assert np.array_equal(made, want)
    assert np.array_equal(slopes, [0, 0, 3, 2, 1])
    y = wb.scan(lambda a, b: 10 * a + b, [a, b], n_steps=n, reverse=True)
    assert np.array_equal(wb.function([a, b, n], y)(*both, 2), want[:2])
    taps = {"input": np.arange(6.0), "taps": [-1, 2]}
    made = wb.scan(lambda x, y: 10 * x + y, taps, n_steps=2, reverse=True)
    assert np.array_equal(made, [25.0, 14.0])
