"""Random steps: loops against the same steps written one after the other.

First derivatives against complex steps of plain NumPy, second ones against those of
the program without a loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench as wb

N = 3
#: Pieces of a step: of the matrix, an entry of the sequence, and two states.
PIECES: list[Callable[[Any, Any, Any, Any], Any]] = [
    lambda W, x, h, k: np.sin(W @ h + x),
    lambda W, x, h, k: h * k - 0.3 * x,
    lambda W, x, h, k: np.concatenate([k[1:], h[:1]]) * np.cos(x),
    lambda W, x, h, k: np.where(np.real(x) > 0, np.exp(-h * h), h + k),
    lambda W, x, h, k: (W * h) @ np.tanh(k),
    lambda W, x, h, k: k,
    lambda W, x, h, k: np.cumsum(h) / (1 + k * k),
    lambda W, x, h, k: h + np.sum(k) * W[0] * x[1],
    lambda W, x, h, k: np.outer(h, x) @ k * 0.2 + W[:, 1],
]


def step_of(chosen: Any) -> Callable[..., Any]:
    first, second, third = (PIECES[i] for i in chosen)

    def step(x: Any, h: Any, k: Any, W: Any) -> Any:
        new = first(W, x, h, k)
        return new, second(W, x, new, k), third(W, x, h, new)

    return step


def unrolled(step: Any, W: Any, xs: Any, h: Any, k: Any) -> Any:
    total = 0.0
    for i in range(len(xs)):
        h, k, y = step(xs[i], h, k, W)
        total = total + np.sum(y * y) * 0.1 + np.sum(h * k)
    return total


@pytest.mark.parametrize("which", range(12))
def test_random_steps(which: int, rng: np.random.Generator) -> None:
    chosen = rng.integers(len(PIECES), size=3)
    print("pieces:", chosen)
    step = step_of(chosen)
    memory = ["all", 2, "300 B"][which % 3]
    args = [
        rng.normal(size=(N, N)) / 2, rng.normal(size=(5, N)), rng.normal(size=N) / 2,
        rng.normal(size=N) / 2,
    ]  # fmt: skip

    def loop(W: Any, xs: Any, h: Any, k: Any, memory: Any = memory) -> Any:
        hs, ks, ys = wb.scan(step, xs, [h, k, None], W, memory=memory)
        return np.sum(ys * ys) * 0.1 + np.sum(hs * ks)

    assert np.isclose(loop(*args), unrolled(step, *args))
    places = range(4)
    grads = wb.grad(loop, places)(*args)
    for i in places:
        direction = rng.normal(size=args[i].shape)
        z = [a + 1e-30j * direction if j == i else a for j, a in enumerate(args)]
        want = np.imag(unrolled(step, *z)) / 1e-30
        assert np.isclose(np.sum(grads[i] * direction), want, rtol=1e-9, atol=1e-12)
        moved = wb.jvp(lambda x, i=i: loop(*args[:i], x, *args[i + 1 :]),
                       (args[i],), (direction,))[1]  # fmt: skip
        assert np.isclose(moved, want, rtol=1e-9, atol=1e-12)

    def along(f: Any) -> Any:
        return lambda W: wb.grad(f)(W, *args[1:])

    def flat(*a: Any) -> Any:
        return unrolled(step, *a)

    want = wb.jvp(along(flat), (args[0],), (args[0],))[1]
    made = wb.jvp(along(loop), (args[0],), (args[0],))[1]
    assert np.allclose(made, want, rtol=1e-8, atol=1e-10)
    want = wb.grad(lambda W: np.sum(along(flat)(W) ** 2))(args[0])
    made = wb.grad(lambda W: np.sum(along(loop)(W) ** 2))(args[0])
    assert np.allclose(made, want, rtol=1e-8, atol=1e-10)
    many = np.stack([args[2], -args[2]])
    batched = wb.vmap(wb.grad(lambda h: loop(args[0], args[1], h, args[3])))(many)
    assert np.allclose(batched[0], grads[2], rtol=1e-9, atol=1e-12)

    if which % 2:
        fixed = [wb.matrix("W"), wb.matrix("xs"), *wb.vectors("h k")]
    else:
        fixed = [
            wb.matrix("W", shape=(N, N)),
            wb.matrix("xs", shape=(None, N)),
            wb.vector("h", shape=N),
            wb.vector("k", shape=N),
        ]
    # How much a step of unknown lengths keeps cannot be told: no amount of memory.
    cost = loop(*fixed, memory=3 if which % 2 and which % 3 == 2 else memory)
    g = wb.grad(cost, fixed, disconnected_inputs="ignore")
    f = wb.function(fixed, [cost, *g])
    value, *slopes = f(*args)
    assert np.isclose(value, loop(*args))
    for a, b in zip(slopes, grads, strict=True):
        assert np.allclose(a, b, rtol=1e-9, atol=1e-12)
