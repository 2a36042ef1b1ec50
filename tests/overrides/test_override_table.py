"""The table of the design: every form of rule at every target, in every transform.

One rule in all its forms, half the true gradient of a tanh; one program, with the
tanh in a scope; the numbers by hand.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.overrides.named import RULES

A = np.array([0.3, -1.2, 0.8])
E = np.array([1.0, -2.0, 0.5])


def f(x: Any) -> Any:
    with wb.scope("layer"):
        h = np.tanh(2 * x)
    return h * E


def total(x: Any) -> Any:
    return np.sum(f(x))


#: dy/dx is (1 - y²) of the tanh, halved: times 2 inside and E outside.
Y = np.tanh(2 * A)
FIRST = E * (1 - Y**2)
#: d/dx of E (1 - y²), where dy/dx is (1 - y²) by the override.
SECOND = E * -2 * Y * (1 - Y**2)


def half(node: Any, g: Any) -> Any:
    (y,) = node.outputs
    return 0.5 * g * (1 - y * y)


def graph_op() -> Any:
    """An op of the input and the cotangent, as `OpFromGraph` takes for a gradient."""
    x, g = wb.vector("x"), wb.vector("g")
    return wb.OpFromGraph([x, g], [0.5 * g * (1 - np.tanh(x) ** 2)])


FORMS: dict[str, Any] = {
    "function": lambda: half,
    "expression": lambda: "0.5 * d",
    "name": lambda: "half_of_table",
    "name with settings": lambda: "half_of_table(part=0.5)",
    "nodes": lambda: wb.graph_rule(
        inputs=["x", "y", "dy"],
        returns=["dx"],
        nodes=[
            (["s"], "multiply", ["y", "y"], {}),
            (["c"], "subtract", [1.0, "s"], {}),
            (["d"], "multiply", ["c", "dy"], {}),
            (["dx"], "multiply", ["d", 0.5], {}),
        ],
    ),
    "op": graph_op,
    "shipped": lambda: wb.rules.scale(0.5),
}
TARGETS: dict[str, Any] = {
    "op": "tanh",
    "ufunc": np.tanh,
    "scope": None,  # in which a multiply stands too: see `given`
    "predicate": lambda node: node.op.name == "tanh",
    "pattern": lambda v: np.tanh(v),
}


@pytest.fixture(autouse=True)
def registry() -> Any:
    wb.rules.scale(1)
    before = dict(RULES)

    @wb.named_rule("half_of_table")
    def rule(node: Any, g: Any, *, part: float = 0.5) -> Any:
        return part * g * (1 - node.outputs[0] ** 2)

    yield
    RULES.clear()
    RULES.update(before)


@pytest.fixture(params=FORMS, ids=lambda name: name.replace(" ", "-"))
def form(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(params=TARGETS)
def given(form: str, request: pytest.FixtureRequest) -> list[wb.Override]:
    rule, name = FORMS[form](), request.param
    if name == "pattern":
        return [wb.override(wb.pattern(TARGETS[name]), rule)]
    if name == "scope":
        # The whole scope keeps its true rules, and the tanh in it has another.
        return [
            wb.override("layer/*", "true"),
            wb.override(lambda node: node.op.name == "tanh", rule),
        ]
    return [wb.override(TARGETS[name], rule)]


def second_of(form: str) -> Any:
    """Where a rule computes the tanh anew, the override does not reach that one."""
    return 2 * SECOND if form == "op" else SECOND


def test_G1_gradients(given: Any) -> None:
    np.testing.assert_allclose(wb.grad(total, overrides=given)(A), FIRST, rtol=1e-12)
    with wb.overrides(*given):
        np.testing.assert_allclose(wb.grad(total)(A), FIRST, rtol=1e-12)


def test_G1_forward_mode_is_the_transpose(given: Any) -> None:
    t = np.array([1.0, 2.0, -1.0])
    _, tangent = wb.jvp(f, (A,), (t,), overrides=given)
    np.testing.assert_allclose(tangent, FIRST * t, rtol=1e-12)
    for mode in ("fwd", "rev", "auto"):
        found = wb.jacobian(f, mode=mode, overrides=given)(A)
        np.testing.assert_allclose(found, np.diag(FIRST), rtol=1e-12, atol=1e-14)


def test_G1_second_order_differentiates_the_rule(given: Any, form: str) -> None:
    found = wb.hessian(total, overrides=given)(A)
    expected = np.diag(second_of(form))
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)
    v = np.array([1.0, 2.0, -1.0])
    product = wb.hvp(total, A, v, overrides=given)
    np.testing.assert_allclose(product, expected @ v, rtol=1e-12)


def test_G1_batches(given: Any) -> None:
    rows = np.stack([A, A, A])
    found = wb.vmap(wb.grad(total, overrides=given))(rows)
    np.testing.assert_allclose(found, np.stack([FIRST] * 3), rtol=1e-12)


def test_G1_inside_a_scan(given: Any) -> None:
    """h ← tanh(2 h) twice: the chain rule with the halved slope at each step."""

    def loop(x: Any) -> Any:
        def step(h: Any) -> Any:
            with wb.scope("layer"):
                return np.tanh(2 * h)

        return np.sum(wb.scan(step, initial=x, n_steps=2)[-1] * E)

    one = np.tanh(2 * A)
    two = np.tanh(2 * one)
    expected = E * (1 - two**2) * (1 - one**2)
    for found in (
        wb.grad(loop, overrides=given)(A),
        wb.jacobian(loop, mode="fwd", overrides=given)(A),
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_G1_in_a_session_before_and_after(given: Any) -> None:
    session = wb.Session(wb.trace(total)(A))
    for one in given:
        session.override(one)
    np.testing.assert_allclose(session.grads["x"], FIRST, rtol=1e-12)
    session.undo(len(given))
    np.testing.assert_allclose(session.grads["x"], 2 * FIRST, rtol=1e-12)
    session.redo(len(given))
    np.testing.assert_allclose(session.grads["x"], FIRST, rtol=1e-12)


def test_G1_at_one_node_by_its_number(form: str) -> None:
    session = wb.Session(wb.trace(total)(A))
    number = [node.op.name for node in session.graph.nodes].index("tanh")
    one = session.override(number, FORMS[form]())
    assert one.matched == (number,)
    np.testing.assert_allclose(session.grads["x"], FIRST, rtol=1e-12)


def test_G1_of_symbols(given: Any) -> None:
    x = wb.tensor("x", shape=(3,))
    gradient = wb.grad(total(x), x, overrides=given)
    np.testing.assert_allclose(wb.function([x], gradient)(A), FIRST, rtol=1e-12)
