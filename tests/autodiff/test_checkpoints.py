"""`checkpoint`: the same derivatives of every kind, with less memory."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.backends.numpy import compile
from workbench.core import tree

W = np.array([[0.3, -1.2, 0.5], [2.0, 0.1, -0.7], [0.4, 0.4, 1.1]])
X = np.array([0.2, -0.4, 0.9])


def block(W: Any, x: Any) -> Any:
    return np.tanh(W @ np.sin(W @ x)) * x


def branching(W: Any, x: Any) -> Any:
    return block(W, x) if x[0] > 0 else -x


def nested(W: Any, x: Any) -> Any:
    return wb.checkpoint(block)(W, wb.checkpoint(block)(W, x)) + x


def several(W: Any, x: Any) -> Any:
    made = wb.checkpoint(lambda p, s: {"y": p["W"] @ x, "n": (np.sum(x), s, 3)})
    out = made({"W": W}, "text")
    assert out["n"][1:] == ("text", 3)
    return out["y"] * out["n"][0]


def plain_several(W: Any, x: Any) -> Any:
    return W @ x * np.sum(x)


def plain_nested(W: Any, x: Any) -> Any:
    return block(W, block(W, x)) + x


def closure(W: Any, x: Any) -> Any:
    return wb.checkpoint(lambda z: np.exp(W @ z) * x)(x * 2)


def plain_closure(W: Any, x: Any) -> Any:
    return np.exp(W @ (x * 2)) * x


PAIRS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "block": (wb.checkpoint(block), block),
    "branch": (wb.checkpoint(branching), branching),
    "nested": (nested, plain_nested),
    "nests": (several, plain_several),
    "closure": (closure, plain_closure),
    "whole": (wb.checkpoint(nested), plain_nested),
}

TRANSFORMS: dict[str, Callable[[Callable[..., Any]], Any]] = {
    "value": lambda f: f(W, X),
    "grad": lambda f: wb.grad(lambda W, x: np.sum(f(W, x) ** 2), (0, 1))(W, X),
    "jvp": lambda f: wb.jvp(f, (W, X), (W + 1, X - 1)),
    "jacfwd": lambda f: wb.jacfwd(f, (0, 1))(W, X),
    "jacrev": lambda f: wb.jacrev(f, (0, 1))(W, X),
    "hessian": lambda f: wb.hessian(lambda W, x: np.sum(f(W, x) ** 2), (0, 1))(W, X),
    "reverse over reverse": lambda f: wb.grad(
        lambda W: np.sum(wb.grad(lambda W: np.sum(f(W, X) ** 2))(W) ** 2)
    )(W),
    "reverse over forward": lambda f: wb.grad(
        lambda x: np.sum(wb.jvp(f, (W, x), (W, X))[1])
    )(X),
    "third order": lambda f: wb.jacobian(wb.hessian(lambda x: np.sum(f(W, x))))(X),
    "batch": lambda f: wb.vmap(f, (None, 0))(W, np.outer([1.0, 2.0], X)),
    "batch of gradients": lambda f: wb.vmap(
        wb.grad(lambda W, x: np.sum(f(W, x))), (None, 0)
    )(W, np.outer([1.0, 2.0], X)),
    "gradient of a batch": lambda f: wb.grad(
        lambda W: np.sum(wb.vmap(f, (None, 0))(W, np.outer([1.0, 2.0], X)) ** 2)
    )(W),
}


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("name", PAIRS)
def test_nothing_changes(name: str, transform: str) -> None:
    ours, plain = PAIRS[name]
    if name == "branch" and "batch" in transform:
        pytest.skip("vmap gives a branch no value to look at")
    made, expected = TRANSFORMS[transform](ours), TRANSFORMS[transform](plain)
    flat = lambda x: tree.flatten(x)[0]  # noqa: E731
    for a, b in zip(flat(made), flat(expected), strict=True):
        assert type(a) is type(b)
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13)


def peak(call: Callable[[], Any]) -> int:
    """The most bytes that a call holds beside what was held before."""
    call()
    gc.collect()
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.long
@pytest.mark.parametrize("order", [1, 2])
def test_memory_is_that_of_the_borders(order: int, measured: Any) -> None:
    """Ten layers of ten arrays: about ten and ten instead of a hundred."""
    size, layers, steps = 50_000, 10, 10

    def layer(x: Any) -> Any:
        for _ in range(steps):
            x = np.sin(x)
        return x

    def loss(f: Callable[..., Any]) -> Callable[..., Any]:
        def total(x: Any) -> Any:
            for _ in range(layers):
                x = f(x)
            return np.sum(x)

        return total

    x = np.linspace(0, 1, size)
    kept, saved = loss(layer), loss(wb.checkpoint(layer))
    if order == 2:
        kept = lambda x, f=kept: wb.jvp(wb.grad(f), (x,), (x,))[1]  # noqa: E731
        saved = lambda x, f=saved: wb.jvp(wb.grad(f), (x,), (x,))[1]  # noqa: E731
    else:
        kept, saved = wb.grad(kept), wb.grad(saved)
    np.testing.assert_allclose(kept(x), saved(x), rtol=1e-12)
    if order == 2:
        return  # the gradient itself is recorded there, and holds what it reads
    most, least = peak(lambda: kept(x)), peak(lambda: saved(x))
    measured(f"checkpoint: {most / 8 / size:.0f} arrays become {least / 8 / size:.0f}")
    assert most > layers * steps * size * 8
    assert least < 0.35 * most


def test_it_stands_in_a_graph_as_one_node_and_compiles() -> None:
    graph = wb.trace(lambda x: wb.checkpoint(block)(W, x) * 2)(X)
    names = [node.op.name for node in graph.nodes]
    assert names == ["identity", "checkpoint", "multiply"]
    again = compile(graph)
    np.testing.assert_allclose(again(X + 1)[0], block(W, X + 1) * 2)


def test_without_values_too() -> None:
    graph = wb.trace(wb.grad(lambda x: np.sum(wb.checkpoint(block)(W, x))))(
        wb.Spec((3,), float)
    )
    expected = wb.grad(lambda x: np.sum(block(W, x)))(X)
    np.testing.assert_allclose(compile(graph)(X)[0], expected, rtol=1e-12)


def test_keyword_arguments_and_float32() -> None:
    f = wb.checkpoint(lambda x, *, scale, power=2: np.sum(scale * x**power))
    x = X.astype(np.float32)
    g, s = wb.grad(f, 0, argnames="scale")(x, scale=np.float32(3.0))
    assert g.dtype == s.dtype == np.float32
    np.testing.assert_allclose(g, 6 * x)
    np.testing.assert_allclose(s, np.sum(x**2), rtol=1e-6)
    assert f(x, scale=1.0, power=0) == 3.0


def test_integer_results_and_arguments() -> None:
    def f(x: Any, i: Any) -> Any:
        return np.argsort(x), x[i] ** 2

    def total(x: Any) -> Any:
        order, y = wb.checkpoint(f)(x, np.array([0, 0, 2]))
        return np.sum(y) + np.sum(x[order] * np.arange(3))

    def plain(x: Any) -> Any:
        order, y = f(x, np.array([0, 0, 2]))
        return np.sum(y) + np.sum(x[order] * np.arange(3))

    np.testing.assert_allclose(wb.grad(total)(X), wb.grad(plain)(X))


def test_the_function_runs_once_in_python() -> None:
    calls = []

    def f(x: Any) -> Any:
        calls.append(1)
        return x**2

    assert wb.grad(lambda x: wb.checkpoint(f)(x))(3.0) == 6.0
    assert calls == [1]


def fill(x: Any) -> Any:
    out = np.zeros(3)
    out[:] = x * x
    out[1:] *= x[0]
    return out


@pytest.mark.parametrize(
    "make", [fill, lambda x: np.array([x[0], 2 * x[1], x[2] * x[0]]), lambda x: x * x]
)
def test_arguments_that_were_written_to_have_gradients(
    make: Callable[[Any], Any],
) -> None:
    x = np.array([-0.9, 0.4, 0.3])

    def f(x: Any, again: Callable[[Any], Any]) -> Any:
        v = make(x)
        return np.sum(again(lambda p, q: np.sin(p) * q * np.sum(v))(v, x))

    found = wb.grad(lambda x: f(x, wb.checkpoint))(x)
    complex_step = [
        np.imag(f(x + 1e-30j * e, lambda g: g)) / 1e-30
        for e in np.eye(3)
        if make is not fill
    ]
    expected = complex_step or wb.grad(lambda x: f(x, lambda g: g))(x)
    np.testing.assert_allclose(found, expected, rtol=1e-13)
    np.testing.assert_allclose(
        wb.hessian(lambda x: f(x, wb.checkpoint))(x),
        wb.hessian(lambda x: f(x, lambda g: g))(x),
        rtol=1e-12, atol=1e-14,
    )  # fmt: skip
