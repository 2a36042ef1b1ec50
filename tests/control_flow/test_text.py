"""The text of a program with loops: Python code with a `for`, that runs alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import workbench as wb


def alone(f: Any, args: Sequence[Any]) -> list[Any]:
    """What the text of a function gives, run by itself."""
    scope: dict[str, Any] = dict(f.constants)
    exec(f.source, scope)
    made: list[Any] = scope["function"](*args)
    return made


def same(f: Any, *args: Any) -> None:
    for a, b in zip(f(*args), alone(f, args), strict=True):
        assert np.array_equal(a, b)


def test_D3_a_recurrent_net_reads_as_a_for_loop(rng: np.random.Generator) -> None:
    W, xs = wb.matrix("W", shape=(3, 3)), wb.matrix("xs")
    states = wb.scan(lambda x, h: np.tanh(W @ h + x), xs, np.zeros(3))
    cost = np.sum(states**2)
    f = wb.function([W, xs], [cost, wb.grad(cost, W)])
    lines = [line.strip() for line in f.source.splitlines()]
    assert "for x in xs:" in lines
    assert "t = np.tanh(W @ h + x)" in lines
    assert not f.constants
    args = rng.normal(size=(3, 3)), rng.normal(size=(5, 3))
    same(f, *args)
    same(f, args[0], args[1][:0])
    second = wb.grad(np.sum(wb.grad(cost, W) ** 2), W)
    same(wb.function([W, xs], [second]), *args)


def test_branches_are_functions() -> None:
    x, a = wb.scalars("x a")
    y = wb.cond(x > 0, np.log, lambda x: x * a - 1, x)
    f = wb.function([x, a], [y, *wb.grad(y, [x, a])])
    assert "on_true if" in f.source
    for value in (1.5, -1.5):
        same(f, value, 2.0)


def test_loops_that_stop_and_loops_in_loops(rng: np.random.Generator) -> None:
    a = wb.scalar("a")
    root = wb.while_loop(
        lambda x: np.abs(x * x - a) > 1e-12, lambda x: (x + a / x) / 2, 1.0
    )
    f = wb.function([a], [root, wb.grad(root, a)])
    assert "break" in f.source
    same(f, 3.0)

    xs, ys = wb.vector("xs"), wb.vector("ys")

    def row(x: Any, total: Any) -> Any:
        inner = wb.scan(lambda y, s: s + np.sin(x * y), ys, 0.0)
        return total + inner[-1] * x

    nested = wb.scan(row, xs, 0.0)[-1]
    f = wb.function([xs, ys], [nested, *wb.grad(nested, [xs, ys])])
    same(f, rng.normal(size=3), rng.normal(size=4))


def test_taps_reverse_and_kept_states(rng: np.random.Generator) -> None:
    x, w = wb.vector("x"), wb.scalar("w")
    taps = wb.scan(
        lambda a, b, h2, h1: np.sin(a * h1) + w * b * h2,
        {"input": x, "taps": [-1, 0]},
        {"initial": np.array([0.1, 0.2]), "taps": [-2, -1]},
        reverse=True,
    )
    cost = np.sum(taps)
    f = wb.function([x, w], [cost, *wb.grad(cost, [x, w])])
    same(f, rng.normal(size=6), 0.3)
    kept = wb.scan(lambda a, h: a * h * w, x, 1.0, memory=2, last=True, name="product")
    f = wb.function([x, w], [kept, wb.grad(kept, w)])
    assert "def product(" in f.source
    same(f, rng.normal(size=6), 0.3)


def test_D3_states_that_were_not_kept_are_computed_again_by_the_text_itself(
    rng: np.random.Generator,
) -> None:
    W, xs, h = wb.matrix("W"), wb.matrix("xs"), wb.vector("h")
    states = wb.scan(
        lambda x, h: np.tanh(W @ np.tanh(W @ h) + x), xs, h, memory=2, name="net"
    )
    slopes = wb.grad(np.sum(states**2), [W, xs, h])
    f = wb.function([W, xs, h], [states, *slopes])
    assert not f.constants
    assert "def scan_again" in f.source
    for n in (7, 1, 0):
        args = rng.normal(size=(3, 3)), rng.normal(size=(n, 3)), rng.normal(size=3)
        for a, b in zip(f(*args), alone(f, args), strict=True):
            assert a.shape == b.shape
            assert np.allclose(a, b, rtol=1e-12)
    a = wb.scalar("a")
    root = wb.while_loop(
        lambda x: np.abs(x * x - a) > 1e-12, lambda x: (x + a / x) / 2, 1.0, memory=2
    )
    same(wb.function([a], [root, wb.grad(root, a)]), 3.0)
    power = wb.scan(lambda p: np.sin(p * a), initial=1.0, n_steps=9, memory=4)
    f = wb.function([a], [wb.grad(np.sum(power), a)])
    same(f, 3.0)
    n = wb.scalar("n", dtype=int)
    power = wb.scan(lambda p: np.sin(p * a), initial=1.0, n_steps=n, memory=4)
    f = wb.function([a, n], [wb.grad(np.sum(power), a)])
    same(f, 3.0, 9)
    same(f, 3.0, 0)
