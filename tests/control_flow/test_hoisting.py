"""Loops whose steps do less: the same numbers, from a shorter step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.backends.numpy import compile
from workbench.control_flow import hoisting
from workbench.control_flow.op import SCAN
from workbench.control_flow.pieces import CHUNKED
from workbench.core.graph import Graph
from workbench.core.op import declare
from workbench.core.tensor import Tensor, apply
from workbench.core.trace import make_leaf_like, record
from workbench.core.types import spec_of

N, K, B = 13, 9, 3


def trace(f: Callable[..., Any], args: list[Any]) -> Graph:
    return record(lambda leaves: f(*leaves), [wb.Spec(a.shape, a.dtype) for a in args])


def hoist(graph: Graph, args: list[Any]) -> Graph:
    """The program with each loop cut, as a backend that compiles asks for it."""

    def observe(node: Tensor, operands: tuple[Any, ...]) -> Any:
        if node.op.hoist is not None:
            return tuple(node.op.hoist(operands, node.params))
        if node.op is declare("item") and isinstance(operands[0], tuple):
            return operands[0][node.params["index"]]
        return apply(node.op, operands, node.params)

    leaves = [make_leaf_like(spec_of(a)) for a in args]
    return Graph(leaves, graph.run(leaves, observe))


def list_ops(graph: Graph) -> list[str]:
    """The ops in the steps of the loops of a program."""
    loops = [x.params["loop"] for x in graph.interior if x.op is SCAN]
    return [x.op.name for loop in loops for x in loop.body.interior]


def check_same(f: Callable[..., Any], args: list[Any]) -> tuple[Graph, Graph]:
    graph = trace(f, args)
    other = hoist(graph, args)
    for a, b in zip(compile(graph)(*args), compile(other)(*args), strict=True):
        np.testing.assert_allclose(
            b, a, rtol=1e-11, atol=1e-11 * np.max(np.abs(a), initial=0)
        )
    return graph, other


def run_net(Wx: Any, Wh: Any, b: Any, X: Any, h: Any, **settings: Any) -> Any:
    step = lambda x, h: np.tanh(x @ Wx + h @ Wh + np.exp(b))  # noqa: E731
    return wb.scan(step, X, h, **settings)


def make_net(rng: np.random.Generator, batch: tuple[int, ...]) -> list[Any]:
    return [rng.normal(size=(K, K)) / 3, rng.normal(size=(K, K)) / 3,
            rng.normal(size=K), rng.normal(size=(N, *batch, K)),
            rng.normal(size=(*batch, K))]  # fmt: skip


@pytest.mark.parametrize("batch", [(), (B,)], ids=str)
@pytest.mark.parametrize("reverse", [False, True])
def test_a_net_has_one_product_a_step(
    batch: tuple[int, ...], reverse: bool, rng: np.random.Generator
) -> None:
    """Forward: that with the state; back: that of its cotangent."""
    args = make_net(rng, batch)
    before, after = check_same(lambda *a: run_net(*a, reverse=reverse), args)
    assert list_ops(before).count("matmul") == 2
    assert "exp" in list_ops(before)
    assert list_ops(after).count("matmul") == 1
    assert "exp" not in list_ops(after)
    loss = lambda *a: np.sum(run_net(*a, reverse=reverse) ** 2)  # noqa: E731
    _, after = check_same(wb.grad(loss, (0, 1, 2, 3, 4)), args)
    back = [x.params["loop"] for x in after.interior if x.op is SCAN][-1]
    assert [x.op.name for x in back.body.interior].count("matmul") == 1
    # The sums that are left are those of vectors.
    shapes = [x.spec.shape for x in back.body.leaves[-back.carries :]]
    assert (K, K) not in shapes


@pytest.mark.parametrize("batch", [(), (B,)], ids=str)
def test_second_derivatives(batch: tuple[int, ...], rng: np.random.Generator) -> None:
    args = make_net(rng, batch)
    loss = lambda *a: np.sum(run_net(*a) ** 2)  # noqa: E731
    along = [rng.normal(size=a.shape) for a in args]
    check_same(lambda *a: wb.jvp(wb.grad(loss, (0, 1, 3)), a, along)[1], args)


@pytest.mark.parametrize("memory", [1, 4, 13, 20])
def test_pieces_are_a_loop_of_loops(memory: int, rng: np.random.Generator) -> None:
    """Also where the last piece is shorter, and where there is one piece."""
    args = make_net(rng, ())
    loss = lambda *a: np.sum(run_net(*a, memory=memory, last=True) ** 2)  # noqa: E731
    before, after = check_same(wb.grad(loss, (0, 1, 2, 3, 4)), args)
    assert any(x.op is CHUNKED for x in before.interior)
    assert not any(x.op is CHUNKED for x in after.interior)


LOOPS: dict[str, Callable[..., Any]] = {
    "a loop without sequences": lambda W, x: wb.scan(
        lambda h: np.sin(W @ h), initial=x, n_steps=5
    ),
    "a stacked constant": lambda W, x: wb.scan(
        lambda h: (h + 1, W @ x), initial=[x, None], n_steps=4
    )[1],
    "a sum of the same term": lambda W, x: wb.scan(
        lambda total: total + np.outer(x, x), initial=0 * W, n_steps=4, last=True
    ),
    "a sum that a step reads": lambda W, x: wb.scan(
        lambda h, total: (np.sin(h) + total[0], total + np.outer(h, h)),
        initial=[x, 0 * W], n_steps=4, last=True,
    )[1],
    "rows alone": lambda W, x: wb.scan(lambda row: np.exp(row) @ W, W),
    "rows of both": lambda W, x: wb.scan(
        lambda a, b, h: (h + a[0], np.outer(a, b) @ W), [W, W.T], [x, None]
    )[1],
    "until": lambda W, x: wb.scan(
        lambda h: (W @ h, wb.until(np.sum(h) > -1e9)), initial=x, n_steps=4
    ),
    "one step": lambda W, x: wb.scan(lambda h: W @ h, initial=x, n_steps=1),
    "no step": lambda W, x: wb.scan(lambda h: W @ h, initial=x, n_steps=0),
    "an integer": lambda W, x: wb.scan(
        lambda i, h: (i + 1, h * i), initial=[np.int64(0), x], n_steps=5
    )[1],
}  # fmt: skip


@pytest.mark.parametrize("name", LOOPS)
def test_loops_of_all_kinds(name: str, rng: np.random.Generator) -> None:
    args = [rng.normal(size=(K, K)), rng.normal(size=K)]
    check_same(LOOPS[name], args)
    if name != "no step":
        loss = lambda W, x: np.sum(LOOPS[name](W, x) ** 2)  # noqa: E731
        check_same(wb.grad(loss, (0, 1)), args)


# Loops on arrays


class Count(wb.Op):
    """Twice an array; it counts how often it is computed."""

    made = 0

    def compute(self, x: Any) -> Any:
        Count.made += 1
        return 2.0 * x

    def infer(self, x: Any) -> Any:
        return x

    def pull(self, g: Any, y: Any, x: Any) -> Any:
        return (2.0 * g,)


@pytest.mark.parametrize("steps", [2, 60])
def test_what_no_step_changes_is_computed_once(
    steps: int, rng: np.random.Generator
) -> None:
    """Where that saves more than to find it costs: in few small steps it does not."""
    count, x = Count(), rng.normal(size=3)
    Count.made = 0
    made = wb.scan(lambda h, x: np.tanh(count(x) + h), initial=[x], n_steps=steps,
                   non_sequences=[x], last=True)  # fmt: skip
    h = x
    for _ in range(steps):
        h = np.tanh(2.0 * x + h)
    np.testing.assert_allclose(made, h, rtol=1e-13)
    assert Count.made <= (2 if steps > 2 else steps + 1)


def unroll(Wx: Any, Wh: Any, b: Any, X: Any, h: Any, reverse: bool) -> Any:
    """The net as a loop of Python's."""
    rows = []
    for x in X[::-1] if reverse else X:
        h = np.tanh(x @ Wx + h @ Wh + np.exp(b))
        rows.append(h)
    return np.stack(rows)


@pytest.mark.parametrize("always", [False, True])
@pytest.mark.parametrize("batch", [(), (B,)], ids=str)
@pytest.mark.parametrize("settings", [{}, {"reverse": True}, {"memory": 4}], ids=str)
def test_a_loop_on_arrays_gives_what_its_steps_give(
    always: bool, batch: tuple[int, ...], settings: dict[str, Any],
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Value and gradient, cut and as it stands."""
    monkeypatch.setattr(hoisting, "CUT", -1 if always else 10**9)
    args, reverse = make_net(rng, batch), settings.get("reverse", False)
    loss = lambda *a: np.sum(run_net(*a, **settings) ** 2)  # noqa: E731
    plain = lambda *a: np.sum(unroll(*a, reverse) ** 2)  # noqa: E731
    rows = run_net(*args, **settings)
    np.testing.assert_allclose(rows, unroll(*args, reverse), rtol=1e-12)
    for made, expected in zip(
        wb.grad(loss, (0, 1, 2, 3, 4))(*args), wb.grad(plain, (0, 1, 2, 3, 4))(*args),
        strict=True,
    ):  # fmt: skip
        np.testing.assert_allclose(made, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", LOOPS)
def test_loops_on_arrays_of_all_kinds(
    name: str, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    args = [rng.normal(size=(K, K)), rng.normal(size=K)]
    made = []
    for cut, most in ((10**9, 2**28), (-1, 2**28), (-1, 0)):  # the last stacks nothing
        monkeypatch.setattr(hoisting, "CUT", cut)
        monkeypatch.setattr(hoisting, "MOST_BYTES", most)
        made.append(np.asarray(LOOPS[name](*args)))
    for other in made[1:]:
        assert other.dtype == made[0].dtype
        np.testing.assert_allclose(other, made[0], rtol=1e-11, atol=1e-11)


def test_draws_stay_where_they_are(rng: np.random.Generator) -> None:
    """A draw in each step is another in each step."""
    stream = wb.random.stream(3)
    f = lambda x: wb.scan(  # noqa: E731
        lambda h: h + stream.normal(size=(3,)), initial=x, n_steps=4
    )
    args = [rng.normal(size=3)]
    before = trace(f, args)
    assert any(name.startswith("random_") for name in list_ops(before))
    assert list_ops(hoist(before, args)) == list_ops(before)
