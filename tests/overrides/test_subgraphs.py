"""Overrides of a part of a program that is cut out by hand.

The truth is the chain rule by hand, with the rule of the override for the part.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.errors import DisconnectedInputError, OverrideError

X = np.array([0.3, -1.2, 0.7])


def symbols() -> tuple[Any, Any, Any, Any]:
    """x, its norm, the unit vector, a cost of both."""
    x = wb.vector("x")
    n = np.sqrt(np.sum(x**2))
    n.name = "n"
    u = x / n
    u.name = "u"
    return x, n, u, np.sum(u * np.array([1.0, 2.0, 3.0])) + n**2


def safe(node: Any, g: Any) -> Any:
    (x,), (y,) = node.inputs, node.outputs
    return g * x / np.maximum(y, 1e-8)


def test_a_part_with_one_output_by_tensor_and_by_name() -> None:
    x, n, _, cost = symbols()
    plain = wb.function([x], wb.grad(cost, x))
    for target in (wb.subgraph(n, x), wb.subgraph("n", ["x"])):
        one = wb.override(target, safe)
        f = wb.function([x], wb.grad(cost, x, overrides=[one]))
        assert np.allclose(f(X), plain(X), rtol=1e-13)
        norm = wb.function([x], wb.grad(n, x, overrides=[one]))
        assert np.array_equal(norm(np.zeros(3)), np.zeros(3))
    doubled = wb.override(wb.subgraph(n, x), "2 * d")
    f = wb.function([x], wb.grad(n, x, overrides=[doubled]))
    assert np.allclose(f(X), 2 * X / np.linalg.norm(X))


def test_an_inner_value_read_elsewhere_keeps_its_true_rule_there() -> None:
    x = wb.vector("x")
    s = np.sin(x)
    y = np.sum(s * s)
    one = wb.override(wb.subgraph(y, x), lambda node, g: 0 * node.inputs[0])
    f = wb.function([x], wb.grad(y + np.sum(s), x, overrides=[one]))
    assert np.allclose(f(X), np.cos(X))


def two_ends(x: Any, w: Any) -> tuple[Any, Any]:
    h = np.tanh(x * w)
    a, b = h * 2.0, h - x
    a.name, b.name = "a", "b"
    return a, b


def both(node: Any, ga: Any, gb: Any) -> Any:
    """A rule that is not a gradient, of two cotangents and two inputs."""
    x, w = node.inputs
    return [ga * w - 3 * gb, np.cos(ga) * x + gb * node.outputs[1]]


def hand(x: Any, w: Any) -> list[Any]:
    h = np.tanh(x * w)
    a, b = h * 2.0, h - x
    ga, gb = np.cos(a) + b, a
    return [ga * w - 3 * gb, np.cos(ga) * x + gb * b]


def cost_of(a: Any, b: Any) -> Any:
    return np.sum(np.sin(a)) + np.sum(a * b)


W = np.array([1.5, 0.2, -0.4])


def test_a_part_with_two_outputs() -> None:
    x, w = wb.vectors("x w")
    a, b = two_ends(x, w)
    one = wb.override(wb.subgraph([a, b], [x, w]), both)
    f = wb.function([x, w], wb.grad(cost_of(a, b), [x, w], overrides=[one]))
    for found, expected in zip(f(X, W), hand(X, W), strict=True):
        assert np.allclose(found, expected, rtol=1e-13)
    true = wb.override(wb.subgraph([a, b], [x, w]), lambda node, *g: node.vjp(*g))
    plain = wb.grad(cost_of(a, b), [x, w])
    held = wb.grad(cost_of(a, b), [x, w], overrides=[true])
    g = wb.function([x, w], [*plain, *held])
    found = g(X, W)
    for p, q in zip(found[:2], found[2:], strict=True):
        assert np.allclose(p, q, rtol=1e-14)


def test_two_outputs_in_a_function_forward_and_at_second_order() -> None:
    def f(x: Any, w: Any) -> Any:
        return cost_of(*two_ends(x, w))

    target = wb.subgraph(["a", "b"], ["x", "w"])
    found = wb.grad(f, (0, 1), overrides=[wb.override(target, both)])(X, W)
    for g, expected in zip(found, hand(X, W), strict=True):
        assert np.allclose(g, expected, rtol=1e-13)
    linear = wb.override(target, lambda node, *g: [2 * c for c in node.vjp(*g)])
    tangents = (np.array([1.0, 0.5, -1.0]), np.array([0.1, 0.2, 0.3]))
    plain = wb.jvp(f, (X, W), tangents)[1]
    assert np.isclose(wb.jvp(f, (X, W), tangents, overrides=[linear])[1], 2 * plain)
    true = wb.override(target, both, jvp="true")
    assert np.isclose(wb.jvp(f, (X, W), tangents, overrides=[true])[1], plain)
    same = wb.override(target, lambda node, *g: node.vjp(*g))
    for a, b in zip(
        wb.hessian(f, (0, 1), overrides=[same])(X, W)[0],
        wb.hessian(f, (0, 1))(X, W)[0],
        strict=True,
    ):
        assert np.allclose(a, b, rtol=1e-12)
    only = wb.override(target, both)  # nothing arrives at b: zeros
    g = wb.grad(lambda x: np.sum(two_ends(x, W)[0]), overrides=[only])
    with pytest.raises(OverrideError, match="nothing there is called 'b'"):
        g(X)
    both_ways = wb.grad(lambda x, w: np.sum(two_ends(x, w)[0]), 0, overrides=[only])
    with pytest.raises(OverrideError, match="nothing there is called 'b'"):
        both_ways(X, W)


def test_a_jvp_of_two_outputs() -> None:
    def f(x: Any, w: Any) -> Any:
        return cost_of(*two_ends(x, w))

    def push(node: Any, tx: Any, tw: Any) -> Any:
        return tx * 2.0, tw - tx

    given = [wb.override(wb.subgraph(["a", "b"], ["x", "w"]), both, jvp=push)]
    tx, tw = np.array([1.0, 0.5, -1.0]), np.array([0.1, 0.2, 0.3])
    a, b = two_ends(wb.trace(lambda x: x)(X).outputs[0], W)
    a, b = a.value, b.value
    expected = np.sum((np.cos(a) + b) * 2 * tx + a * (tw - tx))
    moved = wb.jvp(f, (X, W), (tx, tw), overrides=given)[1]
    assert np.isclose(moved, expected)


def test_in_a_session_by_name_and_id_with_undo_and_other_inputs() -> None:
    def f(x: Any, w: Any) -> Any:
        return cost_of(*two_ends(x, w))

    session = wb.Session(wb.trace(f)(X, W))
    one = session.override(wb.subgraph(["a", "b"], ["x", "w"]), both)
    assert len(one.matched) == 2
    for name, expected in zip("xw", hand(X, W), strict=True):
        assert np.allclose(session.grads[name], expected, rtol=1e-13)
    session.run(x=2 * X)
    for name, expected in zip("xw", hand(2 * X, W), strict=True):
        assert np.allclose(session.grads[name], expected, rtol=1e-13)
    x, w = np.asarray(session.jacobian(None, "x")), session.grads["x"]
    assert np.allclose(x, w)
    session.undo()
    plain = wb.grad(f, (0, 1))(2 * X, W)
    assert np.allclose(session.grads["x"], plain[0])
    again = session.override(
        wb.subgraph(session["a"], [session.nodes.find("x"), "w"]), "0.5 * d"
    )
    assert again.matched == one.matched[:1]


# Errors


def refused(target: Any, cost: Any, wrt: Any, text: str) -> None:
    with pytest.raises(OverrideError, match=text):
        wb.grad(cost, wrt, overrides=[wb.override(target, "d")])


def test_a_way_around_the_inputs_is_named() -> None:
    x, w = wb.vectors("x w")
    h = np.tanh(x * w)
    h.name = "h"
    y = np.sum(h * x)
    refused(wb.subgraph(y, h), y, x, r"'x'.* is read in it and is not among.*Add it")
    refused(wb.subgraph(y, [x, w]), y, [h, x], r"'h'.* lies inside it")
    held = wb.override(wb.subgraph(y, h), "0.5 * d")
    f = wb.function([x, w], wb.grad(y, w, overrides=[held]))
    assert np.allclose(f(X, W), 0.5 * X * X * (1 - np.tanh(X * W) ** 2))


def test_what_cuts_nothing_out_is_refused() -> None:
    x, w = wb.vectors("x w")
    h = np.tanh(x)
    y = np.sum(h * w)
    refused(wb.subgraph(h, [x, w]), y, x, "is not read between the inputs and the out")
    refused(wb.subgraph(h, w), y, x, "does not depend on the inputs")
    refused(wb.subgraph([h, x], x), y, x, "is an output and an input")
    refused(wb.subgraph("k", x), y, x, "nothing there is called 'k'")
    for outputs, inputs in (([], x), (h, [])):
        with pytest.raises(OverrideError, match="cuts nothing out"):
            wb.subgraph(outputs, inputs)
    with pytest.raises(OverrideError, match="is given twice"):
        wb.subgraph(h, [x, x])
    with pytest.raises(
        OverrideError, match=r"is not a value of a program.*outputs first, wb\.subgraph"
    ):
        wb.subgraph(h, [3.5])  # type: ignore[list-item]
    refused(wb.subgraph(3, 0), y, x, "ids belong to a session")


def test_what_is_no_value_is_refused() -> None:
    given: Any
    for given in (3.5, None, [3.5]):
        with pytest.raises(OverrideError, match=r"among the outputs is not a value"):
            wb.subgraph(given, "x")


def test_an_order_in_which_no_rule_can_run_is_refused() -> None:
    x = wb.vector("x")
    a = np.sin(x)
    c = np.cos(a)  # computed from one output, and read by the other
    b = c * x
    cost = np.sum(a) + np.sum(b)
    refused(wb.subgraph([a, b], [x, c]), cost, x, "is computed after the output")


def test_two_values_of_one_name_are_refused() -> None:
    x = wb.vector("x")
    a, b = np.sin(x), np.cos(x)
    a.name = b.name = "same"
    refused(wb.subgraph("same", x), np.sum(a * b), x, "2 values .* called 'same'")


def test_stops_and_asked_outputs_of_a_part() -> None:
    x = wb.vector("x")
    a = np.tanh(x)
    b = np.sin(a)
    cost = np.sum(a * a) + np.sum(b * b)
    true = [wb.override(wb.subgraph([a, b], [x]), lambda n, *g: n.vjp(*g))]
    made = wb.grad(cost, x, consider_constant=[b], overrides=true)
    t = np.tanh(X)
    np.testing.assert_allclose(made.eval({x: X}), 2 * t * (1 - t**2))
    # `a` is read by `b`, so a derivative by it passes through the part.
    with pytest.raises(OverrideError, match="lies inside it and is not among"):
        wb.grad(cost, [a, x], overrides=true)
    with pytest.raises(DisconnectedInputError):
        wb.grad(cost, x, consider_constant=[a], overrides=true)
