"""The rules of an op: one mode, both or none, of another op, over many examples."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.errors import NotDifferentiableError, OverrideError, UsageError


def test_jvp_alone_and_both() -> None:
    calls = []

    class Sine(wb.Op):
        name = "sine_of_test"

        def compute(self, x: Any, y: Any) -> Any:
            return np.sin(x) * y

        def jvp(self, node: Any, tx: Any, ty: Any) -> Any:
            x, y = node.inputs
            total = np.zeros_like(node.outputs[0])
            if tx is not None:
                total = total + tx * np.cos(x) * y
            if ty is not None:
                total = total + ty * np.sin(x)
            return total

    class Both(Sine):
        name = "both_of_test"

        def vjp(self, node: Any, g: Any) -> Any:
            calls.append("vjp")
            x, y = node.inputs
            return g * np.cos(x) * y, g * np.sin(x)

    x, y = np.array([0.3, 1.2]), np.array([2.0, -1.0])
    for op in (Sine(), Both()):
        f = lambda x, y, op=op: np.sum(op(x, y) ** 2)  # noqa: E731
        s, c = np.sin(x), np.cos(x)
        for i, want in enumerate((2 * s * c * y**2, 2 * s**2 * y)):
            np.testing.assert_allclose(wb.grad(f, i)(x, y), want)
        np.testing.assert_allclose(
            wb.hessian(f)(x, y), np.diag(2 * np.cos(2 * x) * y**2), atol=1e-15
        )
        np.testing.assert_allclose(
            wb.jacobian(op, mode="fwd")(x, y), np.diag(c * y), atol=1e-15
        )
    assert calls


def test_a_rule_that_is_not_linear_is_not_transposed() -> None:
    class Clipped(wb.Op):
        def compute(self, x: Any) -> Any:
            return x * 1.0

        def vjp(self, node: Any, g: Any) -> Any:
            return np.clip(g, -1, 1)

    class Signed(wb.Op):
        def compute(self, x: Any) -> Any:
            return x * 1.0

        def jvp(self, node: Any, t: Any) -> Any:
            return np.sign(t)

    x = np.ones(2)
    assert wb.grad(lambda x: 5 * Clipped()(x)[0])(x)[0] == 1
    with pytest.raises(NotDifferentiableError, match=r"clipped has a vjp only.*clip"):
        wb.jvp(Clipped(), (x,), (x,))
    with pytest.raises(NotDifferentiableError, match=r"signed has a jvp only.*a vjp"):
        wb.grad(lambda x: np.sum(Signed()(x)))(x)
    # `jacobian` of its own choice takes the other mode.
    np.testing.assert_array_equal(wb.jacobian(Clipped())(x), np.eye(2))


def test_no_rule_at_all() -> None:
    class Rounded(wb.Op):
        def compute(self, x: Any) -> Any:
            return np.round(x)

    f = lambda x: np.sum(Rounded()(x) * x)  # noqa: E731
    for derivative in (wb.grad(f), lambda x: wb.jvp(f, (x,), (x,))):
        with pytest.raises(NotDifferentiableError) as error:
            derivative(np.ones(2))
        assert "rounded has no derivative" in str(error.value)
        assert "Write vjp(self, node, *cotangents) in Rounded" in str(error.value)
        assert '@wb.register_gradient("rounded")' in str(error.value)
        assert "test_op_rules.py" in str(error.value)


def test_a_jvp_that_forgets_its_return() -> None:
    def forgets(node: Any, t: Any) -> None:
        """Returns nothing."""

    class Forgetful(wb.Op):
        def compute(self, x: Any) -> Any:
            return 2 * x

        def jvp(self, node: Any, t: Any) -> Any:
            forgets(node, t)

    says = r"returned None: does it end with a `return`\? For an output that does not"
    with pytest.raises(UsageError, match=says):
        wb.jvp(Forgetful(), (1.0,), (1.0,))
    with (
        pytest.raises(OverrideError, match=says),
        wb.overrides(wb.override("tanh", vjp="d", jvp=forgets)),
    ):
        wb.jvp(np.tanh, (1.0,), (1.0,))


def test_a_rule_that_changes_what_it_is_lent() -> None:
    class ChangesG(wb.Op):
        def compute(self, x: Any) -> Any:
            return x * 2

        def vjp(self, node: Any, g: Any) -> Any:
            g *= 2
            return g

        def jvp(self, node: Any, t: Any) -> Any:
            node.inputs[0][0] = 5.0
            return t

    op, x = ChangesG(), np.ones(2)
    says = r"ChangesG\.vjp.*changes an array.*in place.*x\.copy\(\)"
    with pytest.raises(UsageError, match=says):
        wb.grad(lambda x: np.sum(op(x)))(x)
    with pytest.raises(UsageError, match=r"ChangesG\.jvp.*changes an array"):
        wb.jvp(op, (x,), (x,))
    assert x.tolist() == [1, 1]

    def rule(node: Any, g: Any) -> Any:
        g *= 2
        return g

    changed = wb.override("sin", rule)
    with pytest.raises(OverrideError, match=r"changes an array.*Work on a copy"):
        wb.grad(lambda x: np.sum(np.sin(x)), overrides=[changed])(x)


def test_where_hides_the_outputs_that_nothing_reads_too() -> None:
    class LogAndRoot(wb.Op):
        def compute(self, x: Any) -> Any:
            with np.errstate(all="ignore"):
                return np.log(x), np.sqrt(x)

        def vjp(self, node: Any, g: Any, h: Any) -> Any:
            return g / node.inputs[0] + h / (2 * node.outputs[1])

    op = LogAndRoot()
    x = np.array([0.0, -1.0, 4.0])
    for f, expected in (
        (lambda x: op(x)[0], 0.25),
        (lambda x: op(x)[1], 0.25),
        (lambda x: sum(op(x)), 0.5),
    ):
        made = wb.grad(lambda x, f=f: np.sum(np.where(x > 0, f(x), 0)))(x)
        assert np.array_equal(made, [0, 0, expected])


# Another op as the rule


def test_A4_an_op_is_a_rule_wherever_a_function_is() -> None:
    class SquareGrad(wb.Op):
        def compute(self, x: Any, g: Any) -> Any:
            return 2 * g * x

        def vjp(self, node: Any, h: Any) -> Any:
            x, g = node.inputs
            return 2 * g * h, 2 * x * h

    class SquareByOp(wb.Op):
        vjp = SquareGrad()

        def compute(self, x: Any) -> Any:
            return x**2

    class SquareRegistered(wb.Op):
        def compute(self, x: Any) -> Any:
            return x**2

    wb.register_gradient("square_registered")(SquareGrad())
    x, u, g = wb.vectors("x u g")
    graph = wb.OpFromGraph([u, g], 2 * g * u, name="square_grad_graph")
    at = np.array([0.5, -2.0])
    for f, given in (
        (SquareByOp(), None),
        (SquareRegistered(), None),
        (wb.custom_vjp(lambda x: x**2, vjp=SquareGrad()), None),
        (wb.custom_vjp(lambda x: x**2, vjp=graph), None),
        (wb.OpFromGraph([x], x**2, vjp=graph, name="square_by_graph"), None),
        (np.square, wb.override("square", SquareGrad())),
        (np.square, wb.override("square", graph)),
    ):
        rules = [given] if given else None
        cost = lambda x, f=f: np.sum(f(x))  # noqa: E731
        assert np.array_equal(wb.grad(cost, overrides=rules)(at), 2 * at)
        assert np.array_equal(
            wb.jvp(f, (at,), (np.ones(2),), overrides=rules)[1], 2 * at
        )
        if given is None:
            assert np.array_equal(wb.hessian(cost)(at), 2 * np.eye(2))
            assert np.array_equal(wb.vmap(wb.grad(lambda x, f=f: f(x)[0]))(
                np.stack([at, at])), [[1, 0], [1, 0]])  # fmt: skip


def test_an_op_that_is_a_rule_gets_zeros_where_nothing_arrives() -> None:
    class TwoGrad(wb.Op):
        def compute(self, x: Any, g: Any, h: Any, i: Any) -> Any:
            assert all(isinstance(c, (np.ndarray, np.generic)) for c in (g, h, i))
            return 3 * g + 5 * h + 0 * i

    class TwoAndIndex(wb.Op):
        vjp = TwoGrad()

        def compute(self, x: Any) -> Any:
            return 3 * x, 5 * x, np.argmax(x)

    op, x = TwoAndIndex(), np.ones(2)
    assert wb.grad(lambda x: np.sum(op(x)[0]))(x).tolist() == [3, 3]
    assert wb.grad(lambda x: np.sum(op(x)[0] + op(x)[1]))(x).tolist() == [8, 8]


# Many examples


def test_a_batch_rule_and_a_rule_that_looks_at_values() -> None:
    calls = []

    class Branching(wb.Op):
        def compute(self, x: Any) -> Any:
            return x**2 if x[0] > 0 else x**3

        def vjp(self, node: Any, g: Any) -> Any:
            (x,) = node.inputs
            return g * 2 * x if x[0] > 0 else g * 3 * x**2

    class Fast(Branching):
        def batch(self, inputs: Any, batched: Any) -> Any:
            calls.append(batched)
            (x,) = inputs
            return np.where(x[:, :1] > 0, x**2, x**3)

    x = np.array([[1.0, 2.0], [-1.0, 3.0]])
    want = np.array([[1.0, 4.0], [-1.0, 27.0]])
    for op in (Branching(), Fast()):
        np.testing.assert_array_equal(wb.vmap(op)(x), want)
        found = wb.grad(lambda x, op=op: np.sum(wb.vmap(op)(x)))(x)
        np.testing.assert_array_equal(found, [[2.0, 4.0], [3.0, 27.0]])
    assert calls


def test_a_rule_that_indexes_what_all_examples_share() -> None:
    class Picked(wb.Op):
        def compute(self, x: Any, i: Any) -> Any:
            return x[i]

        def vjp(self, node: Any, g: Any) -> Any:
            x, i = node.inputs
            return wb.at(np.zeros_like(x))[i].add(g + 0 * x[i]), None

    places = np.array([[0, 2], [1, 1]])
    f = lambda x: np.sum(wb.vmap(lambda i: Picked()(x, i))(places) ** 2)  # noqa: E731
    assert wb.grad(f)(np.array([1.0, 2.0, 3.0])).tolist() == [2, 8, 6]
