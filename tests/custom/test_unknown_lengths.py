"""Ops of one's own on symbols of unknown lengths: any number of them.

What comes out is compared with the plain program, at several lengths.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
import pytest

import workbench as wb

Maker = Callable[[Callable[..., Any], list[Any]], Any]


def as_graph(f: Callable[..., Any], like: list[Any]) -> Any:
    inputs = [wb.tensor(f"i{k}", shape=(None,) * x.ndim) for k, x in enumerate(like)]
    made = f(*inputs)
    return wb.OpFromGraph(inputs, list(made) if isinstance(made, tuple) else made)


def as_function(f: Callable[..., Any], like: list[Any]) -> Any:
    return wb.custom_vjp(f, vjp=lambda node, *g: [None] * len(like))


def as_op(f: Callable[..., Any], like: list[Any]) -> Any:
    class Plain(wb.Op):
        name = "plain_op"

        def compute(self, *arrays: Any) -> Any:
            return f(*arrays)

    return Plain()


def as_arrays_alone(f: Callable[..., Any], like: list[Any]) -> Any:
    """Code that looks at its arrays, as SciPy's does: it cannot be traced."""

    class Opaque(wb.Op):
        name = "opaque_op"

        def compute(self, *arrays: Any) -> Any:
            return f(*[np.array(memoryview(x)) for x in arrays])

    return Opaque()


MAKERS = [as_graph, as_function, as_op, as_arrays_alone]


def total(*xs: Any) -> Any:
    return reduce(lambda a, b: a + b, xs)


def product_and_sum(*xs: Any) -> Any:
    return reduce(lambda a, b: a * b, xs), total(*xs), np.sum(xs[0])


def chain(*xs: Any) -> Any:
    return reduce(np.matmul, xs)


def two_chains(a: Any, b: Any, c: Any, d: Any) -> Any:
    return a @ b + c @ d, np.sum(a) * 1.0


def distances(a: Any, b: Any, w: Any, c: Any) -> Any:
    steps = (a[:, None] - b[None]) * w
    return np.sqrt(np.sum(steps**2, axis=-1)) + np.sum(c)


def check(op: Any, f: Callable[..., Any], sizes: list[list[tuple[int, ...]]]) -> None:
    rng = np.random.default_rng(7)
    symbols = [
        wb.tensor(f"s{k}", shape=(None,) * len(s)) for k, s in enumerate(sizes[0])
    ]
    made = op(*symbols)
    run = wb.function(symbols, list(made) if isinstance(made, tuple) else made)
    for shapes in sizes:
        given = [rng.standard_normal(s) for s in shapes]
        got, want = run(*given), f(*given)
        if not isinstance(want, tuple):
            got, want = [got], (want,)
        for y, z in zip(got, want, strict=True):
            np.testing.assert_allclose(y, z)


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("count", [2, 4, 5, 7])
@pytest.mark.parametrize("ndim", [1, 2, 3])
def test_any_number_of_equal_shapes(maker: Maker, count: int, ndim: int) -> None:
    sizes = [[shape] * count for shape in ((2, 3, 4)[:ndim], (1,) * ndim)]
    like = [np.ones(s) for s in sizes[0]]
    check(maker(total, like), total, sizes)
    check(maker(product_and_sum, like), product_and_sum, sizes)


@pytest.mark.parametrize("maker", MAKERS)
def test_shapes_that_broadcast(maker: Maker) -> None:
    sizes = [
        [(3, 4), (1, 4), (3, 1), (3, 4)],
        [(1, 1), (2, 5), (2, 5), (2, 5)],
        [(3, 4)] * 4,
    ]
    check(maker(total, [np.ones(s) for s in sizes[0]]), total, sizes)


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("count", [2, 3, 5, 6])
def test_a_chain_of_products(maker: Maker, count: int) -> None:
    sizes = [
        [(k + 2, k + 3) for k in range(count)],
        [(1, 1)] * count,
        [(9 - k, 8 - k) for k in range(count)],
    ]
    check(maker(chain, [np.ones(s) for s in sizes[0]]), chain, sizes)


@pytest.mark.parametrize("maker", MAKERS)
def test_relations_of_many_kinds(maker: Maker) -> None:
    sizes = [[(2, 3), (3, 4), (2, 5), (5, 4)], [(1, 7), (7, 2), (1, 3), (3, 2)]]
    check(maker(two_chains, [np.ones(s) for s in sizes[0]]), two_chains, sizes)
    sizes = [[(5, 3), (4, 3), (3,), (2, 6)], [(2, 8), (2, 8), (8,), (1, 1)]]
    check(maker(distances, [np.ones(s) for s in sizes[0]]), distances, sizes)


@pytest.mark.parametrize("maker", MAKERS)
def test_operands_that_are_sums(maker: Maker) -> None:
    """What two lengths broadcast to is a length too."""
    times = lambda x, y: x * y  # noqa: E731
    op = maker(times, [np.ones(1)] * 2)
    c, d, e = (wb.vector(k) for k in "cde")
    cases = [
        (op(c + d, e), lambda c, d, e: (c + d) * e),
        (op(c + d, c), lambda c, d, e: (c + d) * c),
        (op(c * 2, e), lambda c, d, e: c * 2 * e),
        (op(e, np.concatenate([c, d])), lambda c, d, e: np.concatenate([c, d]) * e),
    ]
    for made, want in cases:
        f = wb.function([c, d, e], made, on_unused_input="ignore")
        sizes = ((3, 3, 6) if made is cases[3][0] else (3, 3, 3)), (1, 0, 1), (1, 1, 2)
        for size in sizes:
            given = [np.arange(1.0, n + 1) for n in size]
            np.testing.assert_allclose(f(*given), want(*given))
    p, q, r = (wb.matrix(k) for k in "pqr")
    both = maker(lambda x, y: (x * y, x + y), [np.ones((1, 1))] * 2)(p + q, r)
    given = [np.full((2, 3), k) for k in (1.0, 2.0, 4.0)]
    first, second = wb.function([p, q, r], list(both))(*given)
    assert first.tolist() == [[12.0] * 3] * 2
    assert second.tolist() == [[7.0] * 3] * 2


def test_gradients_of_many_matrices() -> None:
    def f(a: Any, b: Any, c: Any, d: Any) -> Any:
        return np.tanh(a @ b) * c + d

    like = [np.ones(s) for s in ((2, 3), (3, 4), (2, 4), (2, 4))]
    rng = np.random.default_rng(3)
    given = [rng.standard_normal(x.shape) for x in like]
    symbols = [wb.matrix(k) for k in "abcd"]
    made = as_graph(f, like)(*symbols)
    got = wb.function(symbols, wb.grad(np.sum(made**2), symbols))(*given)
    t = np.tanh(given[0] @ given[1])
    y = 2 * (t * given[2] + given[3])
    inner = y * given[2] * (1 - t**2)
    want = [inner @ given[1].T, given[0].T @ inner, y * t, y]
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(g, w)


def test_what_a_trace_would_tell_wrongly_is_asked_for() -> None:
    """An array of one Tensor, as np.asarray gives: .T and .sum() act on that."""

    class Turned(wb.Op):
        def compute(self, a: Any, b: Any) -> Any:
            return np.asarray(a).T @ b, np.asarray(a).sum()

    a, b = wb.matrix("a"), wb.matrix("b")
    y, total = Turned()(a, b)
    assert total.shape == ()
    given = np.arange(6.0).reshape(3, 2), np.arange(12.0).reshape(3, 4)
    first, second = wb.function([a, b], [y, total])(*given)
    np.testing.assert_allclose(first, given[0].T @ given[1])
    assert second == 15


def test_infer_is_asked_in_lengths_themselves() -> None:
    seen = []

    class Outer(wb.Op):
        name = "outer_told"

        def compute(self, *xs: Any) -> Any:
            return reduce(np.multiply.outer, [np.array(x) for x in xs])

        def infer(self, *xs: Any) -> Any:
            seen.append(xs[0].shape)
            return wb.Spec(tuple(n for x in xs for n in x.shape), xs[0].dtype)

    symbols = [wb.vector(k) for k in "abcdefghi"]
    y = Outer()(*symbols)
    assert [n == x.shape[0] for n, x in zip(y.shape, symbols, strict=True)] == [
        True
    ] * 9
    assert len(seen) == 1
