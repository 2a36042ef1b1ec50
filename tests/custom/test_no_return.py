"""A rule that gives a bare None forgot its `return`: an error, no zero gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.compat import theano
from workbench.errors import OverrideError, UsageError

SAYS = r"no_return.* returned None: does it end with a `return`\? .*return \[None\]"


def no_return(*args: Any) -> None:
    """A rule whose last line computes a gradient and keeps it to itself."""


def nothing(*args: Any) -> list[Any]:
    """A rule of an input without gradient."""
    return [None]


def by_op(rule: Callable[..., Any]) -> Callable[..., Any]:
    class BareNone(wb.Op):
        def compute(self, x: Any) -> Any:
            return 2 * x

        def vjp(self, node: Any, g: Any) -> Any:
            return rule(node, g)

    BareNone.vjp = rule  # type: ignore[method-assign]
    return BareNone()


def by_vjp(rule: Callable[..., Any]) -> Callable[..., Any]:
    return wb.custom_vjp(lambda x: 2 * x, vjp=rule)  # type: ignore[no-any-return]


def by_pair(rule: Callable[..., Any]) -> Callable[..., Any]:
    f = wb.custom_vjp(lambda x: 2 * x)
    f.defvjp(lambda x: (2 * x, x), rule)
    return f  # type: ignore[no-any-return]


def by_gradient(rule: Callable[..., Any]) -> Callable[..., Any]:
    return wb.custom_gradient(lambda x: (2 * x, rule))  # type: ignore[no-any-return]


def by_registration(rule: Callable[..., Any]) -> Callable[..., Any]:
    class BareNoneToo(wb.Op):
        name = f"registered_{rule.__name__}"

        def compute(self, x: Any) -> Any:
            return 2 * x

    wb.register_gradient(BareNoneToo)(rule)
    return BareNoneToo()


def by_graph(rule: Callable[..., Any]) -> Callable[..., Any]:
    x = wb.vector("x")
    return wb.OpFromGraph([x], [2 * x], vjp=rule)


def by_one_rule(rule: Callable[..., Any]) -> Callable[..., Any]:
    x = wb.vector("x")
    return wb.OpFromGraph([x], [2 * x], vjp=[rule])


def by_old_override(rule: Callable[..., Any]) -> Callable[..., Any]:
    x = wb.vector("x")
    return theano.OpFromGraph([x], [2 * x], grad_overrides=[rule])


WAYS = [by_op, by_vjp, by_pair, by_gradient, by_registration, by_graph, by_one_rule,
        by_old_override]  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_a_rule_without_return_is_an_error(way: Any) -> None:
    f = way(no_return)
    with pytest.raises(UsageError, match=SAYS):
        wb.grad(lambda x: np.sum(f(x)))(np.ones(3))


@pytest.mark.parametrize("way", WAYS)
def test_none_in_a_list_is_no_gradient(way: Any) -> None:
    f = way(nothing)
    found = wb.grad(lambda x: np.sum(f(x)) + np.sum(x))(np.ones(3))
    np.testing.assert_array_equal(found, np.ones(3))


def test_an_override_without_return_is_an_error() -> None:
    rule = wb.override("tanh", no_return)
    says = r"the rule returned None: does it end with a `return`\? For an input"
    with pytest.raises(OverrideError, match=says):
        wb.grad(lambda x: np.sum(np.tanh(x)), overrides=[rule])(np.ones(3))


def test_an_old_op_without_return_is_an_error() -> None:
    class Forgot(theano.Op):
        def make_node(self, x: Any) -> Any:
            x = theano.tensor.as_tensor_variable(x)
            return theano.Apply(self, [x], [x.type()])

        def perform(self, node: Any, inputs: Any, output_storage: Any) -> None:
            output_storage[0][0] = 2 * inputs[0]

        def grad(self, inputs: Any, grads: Any) -> None:
            self.given = [2 * grads[0]]

    x = theano.tensor.dvector("x")
    with pytest.raises(UsageError, match=r"Forgot.grad.* returned None: does it"):
        theano.grad(Forgot()(x).sum(), x)


class Halves(wb.Op):
    """Two outputs of floats and one of integers."""

    name = "halves_and_count"

    def compute(self, x: Any) -> Any:
        return x / 2, -x / 2, np.int64(len(x))

    def jvp(self, node: Any, t: Any) -> Any:
        return t / 2, None, None


class HalvesThatRest(Halves):
    name = "halves_that_rest"

    def jvp(self, node: Any, t: Any) -> Any:
        return t / 2, np.zeros_like(node.outputs[1]), None


def graph_of_two(jvp: Any) -> Any:
    x = wb.vector("x")
    return wb.OpFromGraph([x], [2 * x, 3 * x], jvp=jvp, name="two_of_graph")


def two_by_rule(jvp: Any) -> Any:
    return wb.custom_jvp(lambda x: (2 * x, 3 * x), jvp=jvp)


@pytest.mark.parametrize(
    "op",
    [
        Halves(),
        graph_of_two(lambda node, t: (t, None)),
        graph_of_two([None, lambda node, t: None]),
        two_by_rule(lambda node, t: [t, None]),
    ],
    ids=["op", "graph", "graph, one for each", "function"],
)
def test_a_tangent_left_out_of_several_is_an_error(op: Any) -> None:
    """It would be 0 in silence; what is 0 is written down."""
    x = np.ones(3)
    says = r"None for the tangent of output 1\. .*np\.zeros_like\(node\.outputs\[1\]\)"
    with pytest.raises(UsageError, match=says):
        wb.jvp(lambda x: op(x)[0], (x,), (x,))


def test_tangents_that_are_written_down() -> None:
    x = np.ones(3)
    first, second, _ = wb.jvp(HalvesThatRest(), (x,), (x,))[1]
    assert first.tolist() == [0.5] * 3
    assert second.tolist() == [0, 0, 0]
    for rules, want in (
        (["zero", None], (0, 3)),
        (["disconnected", "true"], (0, 3)),
        ([None, lambda node, t: np.zeros_like(node.outputs[1])], (2, 0)),
        ("zero", (0, 0)),
    ):
        made = wb.jvp(graph_of_two(rules), (x,), (x,))[1]
        assert [t.tolist() for t in made] == [[n] * 3 for n in want]
    y = wb.vector("y")
    one = wb.OpFromGraph([y], [2 * y], jvp="zero")
    assert wb.jvp(one, (x,), (x,))[1].tolist() == [0, 0, 0]


def test_a_gradient_left_out_of_several_inputs_is_none() -> None:
    """Seed 004: roi pooling has no gradient by its regions, `return g, None`."""

    class Weighted(wb.Op):
        name = "weighted_by_regions"

        def compute(self, x: Any, regions: Any) -> Any:
            return x * regions

        def vjp(self, node: Any, g: Any) -> Any:
            return g * node.inputs[1], None

    op, x = Weighted(), np.ones(3)
    by_x, by_r = wb.grad(lambda x, r: np.sum(op(x, r)), (0, 1))(x, 2 * x)
    assert by_x.tolist() == [2, 2, 2]
    assert by_r.tolist() == [0, 0, 0]
