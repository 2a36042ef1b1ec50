"""Ops with several outputs, through every transform."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.backends.numpy import compile
from workbench.core.op import OPS
from workbench.errors import OverrideError, UsageError
from workbench.ops.define import Parts, apply_and_split, op
from workbench.session.wire import gather_details, take_snapshot

X = np.array([0.3, -0.7])


def _pull(g: Any, y: Any, x: Any) -> Any:
    sin, cos, _ = y
    total = 0 * x
    if g[0] is not None:
        total = total + g[0] * cos
    if g[1] is not None:
        total = total - g[1] * sin
    return total


@pytest.fixture(params=["push", "no push", "batch"])
def sincos(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Sine, cosine, and the sign as an integer: with and without rules of its own."""
    more: dict[str, Any] = {}
    if request.param == "push":
        more["push"] = lambda t, y, x: (t[0] * y[1], -t[0] * y[0], None)
    if request.param == "batch":
        more["batch"] = lambda inputs, batched, params: apply_and_split(made, inputs)
    made = op(
        "sincos_of_test",
        lambda x: (np.sin(x), np.cos(x), np.sign(x).astype(int)),
        _pull,
        **more,
    )
    yield lambda x: apply_and_split(made, (x,))
    del OPS["sincos_of_test"]


def test_both_modes_and_orders(sincos: Any) -> None:
    s, c = np.sin(X), np.cos(X)
    f = lambda x: np.sum(sincos(x)[0] ** 2 + 3 * sincos(x)[1])  # noqa: E731
    np.testing.assert_allclose(wb.grad(f)(X), 2 * s * c - 3 * s)
    one = lambda x: np.sum(sincos(x)[1])  # noqa: E731
    np.testing.assert_allclose(wb.hessian(one)(X), np.diag(-c))
    third = wb.grad(lambda x: np.sum(wb.grad(lambda z: np.sum(wb.grad(one)(z)))(x)))
    np.testing.assert_allclose(third(X), s)
    (a, b, k), tangents = wb.jvp(sincos, (X,), (np.ones(2),))
    np.testing.assert_allclose((a, b), (s, c))
    assert k.tolist() == [1, -1]
    np.testing.assert_allclose(tangents[0], c)
    np.testing.assert_allclose(tangents[1], -s)


def test_one_op_shared_by_its_outputs(sincos: Any) -> None:
    def f(x: Any) -> Any:
        sin, cos, _ = sincos(x)
        return sin * cos

    np.testing.assert_allclose(wb.jacobian(f)(X), np.diag(np.cos(2 * X)))
    np.testing.assert_allclose(wb.jacobian(f, mode="fwd")(X), np.diag(np.cos(2 * X)))
    graph = wb.trace(f)(X)
    assert [n.op.name for n in graph.nodes].count("sincos_of_test") == 1
    assert "(float64[2], float64[2], int64[2])" in str(graph)
    (made,) = compile(wb.trace(f)(wb.Spec((2,), float)))(X)
    np.testing.assert_allclose(made, np.sin(X) * np.cos(X))


def test_batches(sincos: Any) -> None:
    stacked = np.stack([X, 2 * X, X - 1])

    def f(x: Any) -> Any:
        sin, cos, _ = sincos(x)
        return sin * cos

    np.testing.assert_allclose(wb.vmap(f)(stacked), np.sin(stacked) * np.cos(stacked))
    rows = wb.vmap(wb.grad(lambda x: np.sum(f(x))))(stacked)
    np.testing.assert_allclose(rows, np.cos(2 * stacked))
    per_row = wb.grad(lambda z: np.sum(wb.vmap(f)(z)))(stacked)
    np.testing.assert_allclose(per_row, np.cos(2 * stacked))


def test_a_session_shows_it(sincos: Any) -> None:
    graph = wb.trace(lambda x: np.sum(sincos(x)[0] * sincos(x)[1]))(X)
    session = wb.Session(graph)
    np.testing.assert_allclose(session.grads["x"], np.cos(2 * X))
    product = next(n for n in graph.nodes if n.op.name == "multiply")
    session.override(product, "2 * d")
    np.testing.assert_allclose(session.grads["x"], 2 * np.cos(2 * X))
    shown = take_snapshot(session)
    assert "3 outputs" in shown.header["strings"]
    # What flows back to all outputs has a norm, and an override upstream a change.
    node = next(n for n in graph.nodes if "sincos" in n.op.name)
    stats = shown.columns["grad_stats"].reshape(-1, 6)[graph.ids[node]]
    np.testing.assert_allclose(stats[4], np.linalg.norm(2 * np.cos(X)))
    np.testing.assert_allclose(shown.columns["change"][graph.ids[node]], 1.0)
    gather_details(
        session, graph.ids[next(n for n in graph.nodes if "sincos" in n.op.name)]
    )


def test_overrides(sincos: Any) -> None:
    s, c = np.sin(X), np.cos(X)

    def f(x: Any) -> Any:
        sin, cos, _ = sincos(x)
        return np.sum(sin * 2.0) + np.sum(cos)

    def gradient(target: str, rule: Any) -> Any:
        return wb.grad(f, overrides=[wb.override(target, rule)])(X)

    np.testing.assert_allclose(gradient("sincos_of_test", "3 * d"), 3 * (2 * c - s))
    # At one output the rule sees that output, and its gradient.
    np.testing.assert_allclose(gradient("item", "5 * g + 0 * x"), 5 * (2 * c - s))
    np.testing.assert_allclose(gradient("item", "clip(d, -1.5, 1.5)"), 1.5 * c - s)
    np.testing.assert_allclose(gradient("item", lambda node, g: g * 5), 5 * (2 * c - s))

    def whole(node: Any, sin: Any, cos: Any, sign: Any) -> Any:
        assert sign is None
        assert len(node.outputs) == 3
        return node.vjp(7 * sin, cos, None)[0]

    np.testing.assert_allclose(gradient("sincos_of_test", whole), 14 * c - s)
    pushed = wb.jvp(f, (X,), (np.ones(2),), overrides=[wb.override("item", "5 * d")])
    np.testing.assert_allclose(pushed[1], np.sum(5 * (2 * c - s)))
    with pytest.raises(
        OverrideError, match=r"3 outputs.*one g.*rule\(node, g0, g1, g2"
    ):
        gradient("sincos_of_test", "g + d")


def test_parts_add_where_something_arrived() -> None:
    assert Parts((None, 1)) + Parts((2, 3)) + Parts((None, None)) == (2, 4)


FACTORED = np.array([[2.0, 0.3], [-0.4, 1.0], [0.5, 0.7]])


def _factored(a: Any) -> Any:
    u, s, vh = np.linalg.svd(a, full_matrices=False)
    return np.sum(np.log(s) * s) + np.sum((u @ vh) ** 3)


def test_a_rule_is_checked_as_it_is_typed_for_an_op_and_for_its_outputs() -> None:
    session = wb.Session(wb.trace(_factored)(FACTORED))
    for node in session.graph.nodes:
        if node.op.name == "item":
            for rule in ("clip(d, -1, 1)", "g * y", "where(x > 0, d, 0)"):
                assert session.check_rule(node, rule) == "ok"
        if node.op.name == "svd":
            assert session.check_rule(node, "clip(d, -1, 1)") == "ok"
            with pytest.raises(OverrideError, match=r"3 outputs.*rule\(node, g0, g1,"):
                session.check_rule(node, "g")
    assert session.check_rule("item", "2 * d") == "ok for 3 nodes"


def test_an_output_with_another_gradient_is_the_gradient_by_hand() -> None:
    session = wb.Session(wb.trace(_factored)(FACTORED))
    u, s, vh = np.linalg.svd(FACTORED, full_matrices=False)
    true = session.grads["a"]
    (values,) = (
        node
        for node in session.graph.nodes
        if node.op.name == "item" and node.params["index"] == 1
    )
    session.override(values, "clip(d, -0.1, 0.1)")
    # Singular values move by the diagonal of uᵀ da v.
    through = lambda g: u @ np.diag(g) @ vh  # noqa: E731
    g = np.log(s) + 1
    expected = true - through(g) + through(np.clip(g, -0.1, 0.1))
    np.testing.assert_allclose(session.grads["a"], expected, rtol=1e-10)


def test_a_derivative_of_several_outputs_at_once_is_refused() -> None:
    session = wb.Session(wb.trace(_factored)(FACTORED))
    op = next(node for node in session.graph.nodes if node.op.name == "svd")
    words = (
        r"svd.* \(at test_several.py:\d+.*has several outputs.* item 2, item 3, item 4"
    )
    with pytest.raises(UsageError, match=words):
        session.jacobian(op, "a")
    with pytest.raises(UsageError, match="one array by others"):
        session.hessian(op)
