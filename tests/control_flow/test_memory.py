"""What loops keep for reverse mode: less memory, the same numbers bit for bit."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.errors import UsageError

Loss = Callable[[Any, Any, Any], Any]


def loss(memory: int | str, last: bool) -> Loss:
    def f(W: Any, xs: Any, h: Any) -> Any:
        made = wb.scan(
            lambda x, h: np.sin(W @ np.tanh(W @ h) + x), xs, h, memory=memory, last=last
        )
        return np.sum(made**2)

    return f


@pytest.fixture
def data(rng: np.random.Generator) -> tuple[Any, Any, Any]:
    return rng.normal(size=(9, 9)) / 3, rng.normal(size=(83, 9)), rng.normal(size=9)


@pytest.mark.parametrize("last", [True, False])
@pytest.mark.parametrize("memory", [1, 2, 5, 23, 100, "500 B", "auto", "1 GB"])
def test_gradients_agree_bit_for_bit(memory: Any, last: bool, data: Any) -> None:
    want = wb.grad(loss("all", last), (0, 1, 2))(*data)
    made = wb.grad(loss(memory, last), (0, 1, 2))(*data)
    for a, b in zip(made, want, strict=True):
        assert np.array_equal(a, b)


@pytest.mark.parametrize("last", [True, False])
def test_second_order_through_what_runs_again(last: bool, data: Any) -> None:
    W, xs, h = data

    def gradient(memory: Any) -> Any:
        return lambda W: wb.grad(loss(memory, last))(W, xs, h)

    forward = [wb.jvp(gradient(m), (W,), (W,))[1] for m in ("all", 4)]
    assert np.allclose(*forward, rtol=1e-12, atol=1e-13)
    back = [wb.grad(lambda W, m=m: np.sum(gradient(m)(W) ** 2))(W) for m in ("all", 4)]
    assert np.allclose(*back, rtol=1e-12, atol=1e-12)
    hs = np.stack([h, -h, 2 * h])
    many = [
        wb.vmap(wb.grad(lambda h, m=m: loss(m, last)(W, xs, h)))(hs) for m in ("all", 4)
    ]
    assert np.allclose(*many, rtol=1e-12, atol=1e-13)


def test_on_symbols_of_unknown_length(data: Any) -> None:
    results = []
    for memory in ("all", 4):
        W, xs, h = wb.matrix("W"), wb.matrix("xs"), wb.vector("h", shape=9)
        cost = loss(memory, True)(W, xs, h)
        f = wb.function([W, xs, h], [cost, *wb.grad(cost, [W, xs, h])])
        results.append(f(*data))
    for a, b in zip(*results, strict=True):
        assert np.array_equal(a, b)


def test_loops_that_say_when_to_stop(data: Any) -> None:
    W, _, h = data

    def rounds(memory: Any) -> Any:
        def f(W: Any, h: Any) -> Any:
            state = wb.while_loop(
                lambda s: s["count"] < 17,
                lambda s: {"count": s["count"] + 1, "h": np.sin(W @ s["h"])},
                {"count": 0, "h": h},
                memory=memory,
            )
            return np.sum(state["h"])

        return wb.grad(f, (0, 1))(W, h)

    def until(memory: Any) -> Any:
        def f(W: Any, h: Any) -> Any:
            def step(count: Any, h: Any) -> Any:
                return (count + 1, np.sin(W @ h)), wb.until(count > 15)

            _, states = wb.scan(step, initial=[0, h], n_steps=99, memory=memory)
            return np.sum(states**2)

        return wb.grad(f, (0, 1))(W, h)

    for made in (rounds, until):
        for a, b in zip(made(5), made("all"), strict=True):
            assert np.array_equal(a, b)


def test_second_order_where_only_the_run_tells_the_number_of_steps() -> None:
    xs = np.array([0.3, -0.4, 0.9, 0.2, 0.5])

    def plain(a: Any, most: float = 0.99) -> Any:
        h: Any = 0.5
        for x in xs:
            h = np.sin(a * h + x)
            if h > most:
                break
        return h * h

    def stopping(a: Any, memory: Any) -> Any:
        def step(x: Any, h: Any) -> Any:
            new = np.sin(a * h + x)
            return new, wb.until(new > 0.99)

        return wb.scan(step, xs, 0.5, memory=memory, last=True) ** 2

    def counted(a: Any, memory: Any) -> Any:
        n = wb.scalar("n", dtype=int)
        made = wb.scan(
            lambda x, h: np.sin(a * h + x), xs, 0.5, n_steps=n, memory=memory, last=True
        )
        return made**2, n

    want = wb.grad(plain)(1.3, 2.0), wb.hessian(plain)(1.3, 2.0)
    for memory in ("all", 2, 3, "30 B"):
        bend = wb.hessian(lambda a, m=memory: stopping(a, m))(1.3)
        assert np.isclose(bend, wb.hessian(plain)(1.3), rtol=1e-12)
        a = wb.scalar("a")
        cost, n = counted(a, memory)
        slope = wb.grad(cost, a)
        f = wb.function([a, n], [slope, wb.grad(slope, a)])
        assert np.allclose(f(1.3, len(xs)), want, rtol=1e-12)


def test_a_state_that_is_read_for_its_shape_alone() -> None:
    """At unknown lengths a sum asks for it: a gradient has the shape of its state."""
    xs = np.array([[0.3, -0.4], [0.9, 0.2], [0.5, -0.1], [0.7, 0.8], [-0.2, 0.6]])

    def cost(xs: Any, h: Any, k: Any, memory: Any) -> Any:
        def step(x: Any, h: Any, k: Any) -> Any:
            return k, np.where(x > 0, np.exp(-k * k), k + k), h + np.sum(k) * x

        hs, ks, ys = wb.scan(step, xs, [h, k, None], memory=memory)
        return np.sum(ys * ys) + np.sum(hs * ks)

    args = xs, np.array([0.3, -0.6]), np.array([0.4, 0.1])
    want = wb.grad(cost, (0, 1, 2))(*args, "all")
    symbols = [wb.matrix("xs"), *wb.vectors("h k")]
    for memory in (1, 2, 3):
        slopes = wb.grad(cost(*symbols, memory), symbols)
        made = wb.function(symbols, slopes)(*args)
        for a, b in zip(made, want, strict=True):
            assert np.allclose(a, b, rtol=1e-12)


def test_peak_memory_falls_with_the_square_root() -> None:
    """900 steps of 80 kB: kept they take 72 MB, 30 states and 30 steps 5 MB."""
    x = np.linspace(0.1, 0.9, 10_000)

    def peak(memory: Any) -> float:
        f = wb.grad(
            lambda x: np.sum(
                wb.scan(
                    lambda h: h - 0.01 * h * h,
                    initial=x,
                    n_steps=900,
                    memory=memory,
                    last=True,
                )
            )
        )
        tracemalloc.start()
        f(x)
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found / 1e6

    everything = peak("all")
    assert 72 < everything < 90
    for memory in (30, "8 MB"):
        assert peak(memory) < 9


@pytest.mark.parametrize("memory", [30, "3 MB"])
def test_peak_memory_falls_where_only_the_run_tells_the_number_of_steps(
    memory: Any,
) -> None:
    """400 steps of 80 kB, which are 32 MB."""
    start = np.linspace(0.1, 0.9, 10_000)
    x, n = wb.vector("x", shape=10_000), wb.scalar("n", dtype=int)

    def step(h: Any) -> Any:
        return h - 0.01 * h * h

    def gradient(memory: Any, counted: bool) -> Any:
        if counted:
            end = wb.scan(step, initial=x, n_steps=n, memory=memory, last=True)
        else:
            end = wb.while_loop(
                lambda s: s[0] < n, lambda s: (s[0] + 1, step(s[1])), (0, x),
                memory=memory,
            )[1]  # fmt: skip
        return wb.function([x, n], wb.grad(np.sum(end), x))

    def peak(f: Any) -> tuple[Any, float]:
        tracemalloc.start()
        made = f(start, 400)
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return made, found / 1e6

    for counted in (True, False):
        want, everything = peak(gradient("all", counted))
        made, less = peak(gradient(memory, counted))
        assert np.array_equal(made, want)
        assert everything > 32
        assert less < 9


def test_an_amount_is_held_where_lengths_are_unknown() -> None:
    """400 steps of 80 kB: kept they take 32 MB, 20 states and 20 steps 3 MB."""
    start = np.linspace(0.1, 0.9, 10_000)
    x = wb.vector("x")
    found = {}
    for memory in ("all", "3 MB"):
        end = wb.scan(
            lambda h: h - 0.01 * h * h, initial=x, n_steps=400, memory=memory, last=True
        )
        f = wb.function([x], wb.grad(np.sum(end), x))
        tracemalloc.start()
        slope = f(start)
        found[memory] = slope, tracemalloc.get_traced_memory()[1] / 1e6
        tracemalloc.stop()
    assert np.array_equal(found["3 MB"][0], found["all"][0])
    assert found["all"][1] > 32
    assert found["3 MB"][1] < 5


def test_an_amount_for_steps_of_unknown_size_is_refused() -> None:
    h, n = wb.vector("h"), wb.scalar("n", dtype=int)
    with pytest.raises(UsageError, match=r"Give the number of steps after which"):
        wb.scan(lambda h: np.sin(h) * h, initial=h, n_steps=n, memory="3 MB", last=True)


def test_what_is_no_choice_is_refused() -> None:
    for memory in ("some", 0, -3, True, 2.5):
        with pytest.raises(UsageError, match=r"'all', 'auto', an amount"):
            wb.scan(lambda h: h, initial=1.0, n_steps=2, memory=memory)


def test_a_state_is_changed_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """By its last reader, where nobody else holds it."""
    n, copies = 40, 0
    copy = np.copy

    def count(x: Any, *args: Any, **settings: Any) -> Any:
        nonlocal copies
        copies += np.shape(x) == (n,)
        return copy(x, *args, **settings)

    def fill(x: Any, scan: Any) -> Any:
        def step(i: Any, row: Any, out: Any) -> Any:
            return wb.at(out)[i].set(out[i - 1] / 2 + row)

        return scan(step, [np.arange(n), x * x], 0 * x)

    def keep_all(step: Any, rows: Any, start: Any) -> Any:
        """What each step gives, without a loop of ours."""
        made = [start]
        for row in zip(*rows, strict=True):
            made.append(step(*row, made[-1]))
        return np.stack(made[1:])

    x, start = np.linspace(0.1, 0.9, n), np.zeros(n)
    expected = fill(x, keep_all)
    monkeypatch.setattr(np, "copy", count)
    last = wb.scan(
        lambda i, row, out: wb.at(out)[i].set(out[i - 1] / 2 + row),
        [np.arange(n), x * x],
        start,
        last=True,
    )
    assert copies < 4  # of 40
    np.testing.assert_array_equal(last, expected[-1])
    np.testing.assert_array_equal(start, 0)
    np.testing.assert_array_equal(fill(x, wb.scan), expected)
