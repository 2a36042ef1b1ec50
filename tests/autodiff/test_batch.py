"""`vmap` against a loop over the examples, alone and under derivatives."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.autodiff.jacobian import hessian, jacobian
from workbench.autodiff.vmap import vmap
from workbench.core.op import Op, declare
from workbench.core.tensor import apply
from workbench.errors import ShapeError, TraceError, UsageError
from workbench.ops.define import ITEM

N = 5
W = np.arange(12.0).reshape(3, 4) / 7 - 0.6


def softmax(x: Any) -> Any:
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


#: Functions of one example (a vector of 4 numbers) that look at no value.
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "elementwise": lambda x: np.tanh(x) * x - 2.0**x,
    "broadcast up": lambda x: x[:, None] * x[None, :] + W[0],
    "matrix": lambda x: W @ np.sin(x),
    "matrix from the right": lambda x: x @ W.T,
    "inner": lambda x: x @ x,
    "outer": lambda x: np.outer(x, np.cos(x)),
    "quadratic": lambda x: np.einsum("i,ij,jk,k->", x, W.T, W, x),
    "softmax": softmax,
    "logsumexp": lambda x: np.log(np.sum(np.exp(x))),
    "mean and var": lambda x: np.mean(x) + np.var(x),
    "maximum": lambda x: np.maximum(x, 0) + np.minimum(x, 1),
    "where": lambda x: np.where(x > 0, x, np.exp(x) - 1),
    "max": lambda x: np.max(x),
    "prod": lambda x: np.prod(x),
    "cumsum": lambda x: np.cumsum(x) * x,
    "reshape": lambda x: np.reshape(x, (2, 2)).T,
    "concatenate": lambda x: np.concatenate([x, W[0] * x, x[::-1]]),
    "stack": lambda x: np.stack([x, np.flip(x)], axis=1),
    "index": lambda x: x[np.array([0, 2, 2])] * x[1],
    "slice": lambda x: x[1:] - x[:-1],
    "gathered": lambda x: np.array([x[0] ** 2, x[1] * x[2]]),
    "constant": lambda x: np.ones(3),
    "nest": lambda x: {"a": (x, np.sum(x)), "b": [x[0]]},
}


def loop(f: Callable[..., Any], *batches: Any) -> Any:
    """What `vmap` must give, example by example."""
    from workbench.core import tree

    rows = [tree.flatten(f(*row)) for row in zip(*batches, strict=True)]
    columns = zip(*[leaves for leaves, _ in rows], strict=True)
    return rows[0][1]([np.stack([np.asarray(y) for y in ys]) for ys in columns])


def assert_same(left: Any, right: Any) -> None:
    from workbench.core import tree

    (a, structure), (b, other) = tree.flatten(left), tree.flatten(right)
    assert structure == other
    for x, y in zip(a, b, strict=True):
        assert type(x) is np.ndarray or np.shape(x) == ()
        assert np.asarray(x).dtype == np.asarray(y).dtype
        np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_vmap_is_a_loop(name: str, rng: np.random.Generator) -> None:
    f, X = FUNCTIONS[name], rng.standard_normal((N, 4))
    assert_same(vmap(f)(X), loop(f, X))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_vmap_of_a_gradient(name: str, rng: np.random.Generator) -> None:
    """Per-example gradients: the backward pass is batched too."""
    f, X = FUNCTIONS[name], rng.standard_normal((N, 4))

    def scalar(x: Any) -> Any:
        y = f(x)
        return np.sum((y["a"][0] if isinstance(y, dict) else y) * 1.5)

    assert_same(vmap(wb.grad(scalar))(X), loop(wb.grad(scalar), X))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradient_of_vmap(name: str, rng: np.random.Generator) -> None:
    f, X = FUNCTIONS[name], rng.standard_normal((N, 4))

    def leaf(y: Any) -> Any:
        return y["a"][0] if isinstance(y, dict) else y

    def batched(X: Any) -> Any:
        return np.sum(np.sin(leaf(vmap(f)(X))))

    def looped(X: Any) -> Any:
        return sum(np.sum(np.sin(leaf(f(X[i])))) for i in range(N))

    assert_same(wb.grad(batched)(X), wb.grad(looped)(X))


@pytest.mark.parametrize("name", ["elementwise", "matrix", "softmax", "where", "prod"])
def test_forward_mode_both_ways_around(name: str, rng: np.random.Generator) -> None:
    f = FUNCTIONS[name]
    X, V = rng.standard_normal((2, N, 4))
    _, outside = wb.jvp(vmap(f), (X,), (V,))
    inside = vmap(lambda x, v: wb.jvp(f, (x,), (v,))[1])(X, V)
    expected = np.stack([wb.jvp(f, (x,), (v,))[1] for x, v in zip(X, V, strict=True)])
    np.testing.assert_allclose(outside, expected, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(inside, expected, rtol=1e-12, atol=1e-14)


def test_all_pairs_by_two_nested_maps(rng: np.random.Generator) -> None:
    X, Y = rng.standard_normal((3, 4)), rng.standard_normal((6, 4))

    def distance(x: Any, y: Any) -> Any:
        return np.sqrt(np.sum((x - y) ** 2))

    pairs = vmap(vmap(distance, in_axes=(None, 0)), in_axes=(0, None))
    expected = np.sqrt(((X[:, None] - Y[None]) ** 2).sum(-1))
    np.testing.assert_allclose(pairs(X, Y), expected, rtol=1e-13)
    gradient = wb.grad(lambda X: np.sum(pairs(X, Y)))(X)
    np.testing.assert_allclose(
        gradient, ((X[:, None] - Y[None]) / expected[..., None]).sum(1), rtol=1e-12
    )


def test_an_inner_map_gives_what_only_the_outer_one_maps(
    rng: np.random.Generator,
) -> None:
    """Its output is the same for each inner example, with the axes of an outer one."""
    X = rng.standard_normal((2, 3))
    for n in (3, 4):  # as many as an example has entries, and more
        outer = vmap(lambda a, n=n: vmap(lambda _: 2.0 * a)(np.arange(float(n))))
        expected = np.broadcast_to(2 * X[:, None], (2, n, 3))
        np.testing.assert_array_equal(outer(X), expected)
        gradient = wb.grad(lambda X, f=outer: np.sum(f(X) ** 2))(X)
        np.testing.assert_allclose(gradient, 8 * n * X, rtol=1e-14)
        graph = wb.trace(outer)(wb.Spec((2, 3), float))
        np.testing.assert_array_equal(graph.run([X])[0], expected)


def test_three_levels_and_second_order(rng: np.random.Generator) -> None:
    A = rng.standard_normal((2, 3, 4))

    def f(x: Any) -> Any:
        return np.sum(np.sin(x) ** 2)

    second = vmap(vmap(vmap(wb.grad(wb.grad(lambda x: np.sin(x) ** 2)))))
    np.testing.assert_allclose(second(A), 2 * np.cos(2 * A), rtol=1e-12, atol=1e-14)
    H = vmap(vmap(hessian(f)))(A)
    expected = np.zeros((2, 3, 4, 4))
    np.einsum("...ii->...i", expected)[:] = 2 * np.cos(2 * A)
    np.testing.assert_allclose(H, expected, rtol=1e-12, atol=1e-14)


def test_axes(rng: np.random.Generator) -> None:
    X, Y = rng.standard_normal((4, N)), rng.standard_normal((N, 4))
    out = vmap(lambda x, y: (x * y, x @ y), in_axes=(1, 0), out_axes=(1, 0))(X, Y)
    np.testing.assert_allclose(out[0], X * Y.T)
    np.testing.assert_allclose(out[1], np.sum(X * Y.T, axis=0))
    shared = vmap(lambda x, s: (x + s, s * 2), in_axes=(-1, None), out_axes=(-1, None))
    moved, same = shared(X, 3.0)
    np.testing.assert_allclose(moved, X + 3)
    assert same == 6.0


def test_nests_and_other_arguments(rng: np.random.Generator) -> None:
    params = {"W": rng.standard_normal((N, 2, 4)), "b": rng.standard_normal((N, 2))}
    x = rng.standard_normal(4)

    def f(p: Any, x: Any, power: int, *, scale: float) -> Any:
        return scale * (p["W"] @ x + p["b"]) ** power

    out = vmap(f, in_axes=(0, None, None))(params, x, 3, scale=2.0)
    expected = 2 * (params["W"] @ x + params["b"]) ** 3
    np.testing.assert_allclose(out, expected, rtol=1e-13)


def test_tensors_from_outside_are_shared(rng: np.random.Generator) -> None:
    """A closure over a variable of an outer derivative keeps its gradient."""
    X = rng.standard_normal((N, 4))

    def loss(w: Any) -> Any:
        return np.sum(vmap(lambda x: np.tanh(x @ w))(X))

    w = rng.standard_normal(4)
    expected = X.T @ (1 - np.tanh(X @ w) ** 2)
    np.testing.assert_allclose(wb.grad(loss)(w), expected, rtol=1e-12)
    mixed = wb.grad(lambda w: np.sum(vmap(lambda x: np.tanh(w) * 2)(X)))(w)
    np.testing.assert_allclose(mixed, 2 * N * (1 - np.tanh(w) ** 2), rtol=1e-12)


def test_gradient_inside_a_map_by_a_shared_variable(rng: np.random.Generator) -> None:
    """Per-example gradients by shared weights, then a derivative of those."""
    X, w = rng.standard_normal((N, 4)), rng.standard_normal(4)

    def per_example(w: Any) -> Any:
        return vmap(wb.grad(lambda w, x: np.sin(x @ w)), in_axes=(None, 0))(w, X)

    np.testing.assert_allclose(per_example(w), np.cos(X @ w)[:, None] * X, rtol=1e-12)
    J = jacobian(per_example)(w)
    expected = -np.sin(X @ w)[:, None, None] * X[:, :, None] * X[:, None, :]
    np.testing.assert_allclose(J, expected, rtol=1e-12)


def test_integers_and_conditions_are_batched(rng: np.random.Generator) -> None:
    X, k = rng.standard_normal((N, 4)), rng.integers(0, 4, N)
    out = vmap(lambda x, k: np.where(x > 0, x, k) * (k + 1))(X, k)
    np.testing.assert_allclose(out, np.where(X > 0, X, k[:, None]) * (k[:, None] + 1))


def test_float32_stays() -> None:
    X = np.ones((3, 2), np.float32)
    assert vmap(lambda x: np.sum(x * 2.5) / 3)(X).dtype == np.float32
    assert vmap(wb.grad(lambda x: np.sum(x**2) / 3))(X).dtype == np.float32


def test_an_empty_batch() -> None:
    assert vmap(lambda x: np.tanh(W @ x))(np.ones((0, 4))).shape == (0, 3)
    assert vmap(lambda x: _cubed(x))(np.ones((0, 4))).shape == (0, 4)


def test_one_example_is_traced_however_many_there_are() -> None:
    calls = []

    def f(x: Any) -> Any:
        calls.append(x)
        return np.sin(x) * 2

    vmap(f)(np.zeros(1000))
    assert len(calls) == 1


def _cubed(x: Any) -> Any:
    """An op whose batching nobody has written."""
    op = declare("cubed_for_batch_test")
    op.compute = lambda x: x**3
    op.pull = lambda mask, g, y, inputs, params: (3 * g * inputs[0] ** 2,)
    return apply(op, (x,))


def test_an_op_without_a_rule_for_batches_runs_in_a_loop(
    rng: np.random.Generator,
) -> None:
    X = rng.standard_normal((N, 4))
    np.testing.assert_allclose(vmap(lambda x: _cubed(x) + 1)(X), X**3 + 1)
    gradient = wb.grad(lambda X: np.sum(vmap(_cubed)(X)))(X)
    np.testing.assert_allclose(gradient, 3 * X**2, rtol=1e-12)


def test_an_op_with_several_outputs(rng: np.random.Generator) -> None:
    """A tuple of arrays, each with the batch axis; by a loop, under derivatives."""
    pair = Op("pair")
    pair.compute = lambda x: (np.sin(x), np.sum(x * x))
    pair.pull = lambda mask, g, y, inputs, params: (
        g[0] * np.cos(inputs[0]) + g[1] * 2 * inputs[0],
    )

    X = rng.standard_normal((N, 4))
    parts = [
        vmap(lambda x, i=i: apply(ITEM, (apply(pair, (x,)),), {"index": i}) * 2)(X)
        for i in range(2)
    ]
    np.testing.assert_allclose(parts[0], 2 * np.sin(X), rtol=1e-14)
    np.testing.assert_allclose(parts[1], 2 * np.sum(X * X, axis=1), rtol=1e-14)
    empty = vmap(lambda x: apply(ITEM, (apply(pair, (x,)),), {"index": 0}))(X[:0])
    assert empty.shape == (0, 4)


def test_where_is_not_poisoned_inside_a_map() -> None:
    def f(x: Any) -> Any:
        return np.where(x > 0, np.sqrt(x), 0.0)

    X = np.array([-1.0, 0.0, 4.0])
    with np.errstate(all="ignore"):
        for order, expected in ((1, 0.25), (2, -1 / 32), (3, 3 / 256)):
            g: Any = f
            for _ in range(order):
                g = wb.grad(g)
            assert vmap(g)(X).tolist() == pytest.approx([0, 0, expected])
            outside = wb.grad(lambda X: np.sum(vmap(f)(X)))(X)
            assert outside.tolist() == pytest.approx([0, 0, 0.25])


def test_a_batched_node_keeps_its_line_and_its_forward_node() -> None:
    def f(x: Any) -> Any:
        return np.sum(np.tanh(x))  # the line to find

    graph = wb.trace(vmap(wb.grad(f)))(np.ones((3, 2)))
    lines = {node.site.text for node in graph.nodes if node.op.name == "tanh"}
    assert lines == {"return np.sum(np.tanh(x))  # the line to find"}
    (tanh,) = [node for node in graph.nodes if node.op.name == "tanh"]
    backward = [node.origin for node in graph.nodes if node.origin is not None]
    assert any(origin.forward is tanh for origin in backward)


@pytest.mark.long
def test_a_long_program_needs_no_recursion() -> None:
    def chain(x: Any) -> Any:
        for _ in range(20_000):
            x = x * 0.9999 + 0.0001
        return x

    out = vmap(chain)(np.array([0.0, 1.0]))
    assert out == pytest.approx([1 - 0.9999**20_000, 1.0])


def test_different_numbers_of_examples() -> None:
    with pytest.raises(ShapeError) as caught:
        vmap(lambda x, y: x + y)(np.ones((3, 2)), np.ones((4, 2)))
    text = str(caught.value)
    assert "x has 3 along axis 0, y has 4 along axis 0" in text
    assert "in_axes=None" in text


def test_asking_for_the_truth_of_an_example() -> None:
    def f(x: Any) -> Any:
        return x if x > 0 else -x

    with pytest.raises(TraceError, match=r"np\.where\(condition, a, b\)") as caught:
        vmap(f)(np.ones(3))
    assert "return x if x > 0 else -x" in str(caught.value)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda: vmap(np.sin)(2.0),
            r"in_axes=0 for \w+, of shape \(\): it has no such",
        ),
        (lambda: vmap(np.sin, in_axes=2)(np.ones((2, 2))), "has no such axis"),
        (lambda: vmap(np.add, in_axes=(0,))(np.ones(2), 1.0), "one entry per argument"),
        (
            lambda: vmap(np.sin, in_axes=None)(np.ones(2)),
            "no argument has a batch axis",
        ),
        (
            lambda: vmap(np.sin, out_axes=None)(np.ones(2)),
            "differs from example to example",
        ),
        (
            lambda: vmap(np.sin, out_axes=(0, 0))(np.ones(2)),
            "returns no tuple of outputs",
        ),
    ],
)
def test_axes_that_do_not_fit(call: Callable[[], Any], text: str) -> None:
    with pytest.raises(UsageError, match=text):
        call()


# Axes, nested


@dataclasses.dataclass
class Layer:
    w: Any
    b: Any


NESTED = {
    "w": (np.arange(24.0).reshape(2, 3, 4), np.arange(8.0).reshape(4, 2)),
    "b": 2.0,
}


def test_axes_nest_as_the_arguments() -> None:
    def f(p: Any, x: Any) -> Any:
        return {"y": p["w"][0] @ p["w"][1] * p["b"] + x, "n": [np.sum(x)]}

    X = np.arange(3.0)
    made = vmap(f, ({"w": (1, None), "b": None}, -1), {"y": -1, "n": 0})(NESTED, X)
    for k in range(3):
        one = f({"w": (NESTED["w"][0][:, k], NESTED["w"][1]), "b": 2.0}, X[k])
        np.testing.assert_allclose(made["y"][..., k], one["y"])
        np.testing.assert_allclose(made["n"][0][k], one["n"][0])
    layer = Layer(np.eye(3), np.arange(3.0))
    made = vmap(lambda p: p.w * p.b, (Layer(-1, 0),), -1)(layer)
    np.testing.assert_allclose(made, np.diag(np.arange(3.0)))
    made = vmap(lambda p: p["w"][0].sum(), ({"w": (1, 1), "b": None},))(
        {**NESTED, "w": (NESTED["w"][0], np.ones((2, 3)))}
    )
    np.testing.assert_allclose(made, NESTED["w"][0].sum(axis=(0, 2)))


@pytest.mark.parametrize(
    ("in_axes", "out_axes", "text"),
    [
        (({"w": 0}, 0), 0, "does not fit dict of b, w"),
        (({"w": (0, 0, 0), "b": None}, 0), 0, "does not fit tuple of 0, 1"),
        (({"w": 0, "b": {"c": 0}}, 0), 0, "does not fit an array"),
        (("rows", 0), 0, "in_axes='rows' does not fit dict"),
        ((None, 1), 0, "in_axes=1 for x, of shape (3,)"),
        ((None, -2), 0, "in_axes=-2 for x, of shape (3,)"),
        ((None, 0), 4, "out_axes=4 for an output of shape (2, 2)"),
        ((None, 0), -4, "the result has 3 axes"),
        ((None, 0), {"y": 0}, "out_axes={'y': 0} does not fit an array"),
        ((None, 0, 0), 0, "has 3 entries, the call 2 arguments"),
    ],
)
def test_axes_that_do_not_fit_say_so(in_axes: Any, out_axes: Any, text: str) -> None:
    with pytest.raises(UsageError) as error:
        vmap(lambda p, x: p["w"][0][:, 0] @ p["w"][1] * np.ones((2, 1)) * x,
             in_axes, out_axes)(NESTED, np.arange(3.0))  # fmt: skip
    assert text in str(error.value)


@pytest.mark.parametrize("size", [0, 1, 3])
def test_everything_nests_at_every_size(size: int, rng: np.random.Generator) -> None:
    X = rng.standard_normal((size, 4))
    M = rng.standard_normal((size, 2, 4))

    def f(x: Any) -> Any:
        return np.sum(np.tanh(W @ x) ** 2)

    def each(g: Callable[[Any], Any], rows: Any) -> Any:
        made = [g(x) for x in rows]
        return np.stack(made) if made else np.zeros((0, *np.shape(g(np.ones(4)))))

    for g in (
        wb.grad(f),
        wb.jacrev(lambda x: np.sin(W @ x)),
        wb.jacfwd(lambda x: np.sin(W @ x)),
        hessian(f),
        lambda x: wb.hvp(f, x, x),
        lambda x: wb.jvp(f, (x,), (x,))[1],
        wb.grad(lambda x: np.sum(vmap(lambda s: f(s * x))(np.arange(3.0)))),
        jacobian(lambda x: vmap(lambda s: s * x)(np.arange(3.0))),
        wb.grad(wb.checkpoint(f)),
        lambda x: wb.linearize(f, x)[1](x),
        lambda x: wb.gnvp(lambda x: W @ x, lambda y: np.sum(y**4), x, x),
        wb.elementwise_grad(np.tanh),
    ):
        np.testing.assert_allclose(vmap(g)(X), each(g, X), rtol=1e-10, atol=1e-12)
    twice = vmap(vmap(wb.grad(f)))(M)
    assert twice.shape == M.shape
    for i in range(size):
        for j in range(2):
            np.testing.assert_allclose(twice[i, j], wb.grad(f)(M[i, j]), rtol=1e-10)
    total = wb.grad(lambda X: np.sum(vmap(wb.grad(f))(X) ** 2))(X)
    rows = each(wb.grad(lambda x: np.sum(wb.grad(f)(x) ** 2)), X)
    np.testing.assert_allclose(total, rows, rtol=1e-10)


@pytest.mark.parametrize("size", [0, 2])
def test_an_op_without_batch_rule_takes_no_examples_of_unknown_length(
    size: int,
) -> None:
    x = wb.matrix("x")
    f = wb.function([x], vmap(lambda row: np.packbits(row > 0))(x))
    made = f(np.ones((size, 9)))
    assert made.shape == (size, 2)
    assert made.dtype == np.uint8
