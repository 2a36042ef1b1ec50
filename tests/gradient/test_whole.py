"""Gradients of a cost: row C1 of the mission, and `format_as`, row C6."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from time import process_time
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.core.tensor import Tensor
from workbench.errors import (
    DisconnectedInputError,
    DtypeError,
    NonScalarOutputError,
    NullTypeGradError,
    ShapeError,
    UsageError,
)
from workbench.gradient import (
    DisconnectedType,
    disconnected_grad,
    format_as,
    grad,
    jacobian,
    zero_grad,
)


def at(expression: Any, **values: Any) -> Any:
    """An expression's value, for those of these symbols that it needs."""
    graph = wb.Graph([], [expression])
    given = {
        x: values[x.name] for x in graph.nodes if x.name in values and not x.inputs
    }
    return expression.eval(given)


def ops(expression: Any) -> list[str]:
    """The ops of an expression, in order."""
    return [x.op.name for x in wb.Graph([], [expression]).nodes]


# What is returned


def test_C1_containers_keep_kind_and_order() -> None:
    x, y = wb.scalars("x y")
    cost = x * y**2
    one = grad(cost, x)
    assert isinstance(one, Tensor)
    assert isinstance(grad(cost, [x]), list)
    assert isinstance(grad(cost, (x, y)), tuple)
    for kind in (dict, OrderedDict, MappingProxyType):
        made = grad(cost, kind({"y": y, "x": x}))
        assert isinstance(made, Mapping)
        assert list(made) == ["y", "x"]
        assert at(made["x"], x=2.0, y=3.0) == 9.0
        assert at(made["y"], x=2.0, y=3.0) == 12.0
    nest = grad(cost, {"a": [x, (y,)]})
    assert at(nest["a"][1][0], x=2.0, y=3.0) == 12.0


def test_C1_names() -> None:
    x, y = wb.scalars("x y")
    cost = np.sin(x) * y
    cost.name = "cost"
    named = grad(cost, [x, y])
    assert named[0].name == "(dcost/dx)"
    # What was there before keeps its name (or has none): it is handed on.
    assert named[1].name == "(dcost/dy)"
    assert named[1].inputs[0] is cost.inputs[0]
    assert named[1].inputs[0].name is None
    assert named[1].inputs[0].origin is None
    assert grad(cost, x, add_names=False).name is None
    assert grad(np.cos(x), x).name is None


def test_C1_by_what_was_computed_on_the_way_and_by_the_cost_itself() -> None:
    x, y = wb.scalars("x y")
    h = np.tanh(x)
    cost = h**2 * y
    made = grad(cost, [h, cost, x])
    t = np.tanh(0.5)
    assert at(made[0], x=0.5, y=3.0) == pytest.approx(6 * t, rel=1e-14)
    assert at(made[1]) == 1.0
    assert at(made[2], x=0.5, y=3.0) == pytest.approx(6 * t * (1 - t**2), rel=1e-14)


def test_C1_shared_variables() -> None:
    w = wb.shared(np.array([1.0, 2.0]), "w")
    x = wb.vector("x", shape=2)
    g = grad(np.sum(w**2 * x), w)
    assert at(g, x=np.array([10.0, 100.0])).tolist() == [20.0, 400.0]
    w.set_value(np.array([3.0, 4.0]))
    assert at(g, x=np.array([10.0, 100.0])).tolist() == [60.0, 800.0]


def test_no_products_with_the_one_that_the_walk_begins_with() -> None:
    x = wb.scalar("x")
    g = grad(x * x + x - 2, x)
    assert ops(g) == ["identity", "identity", "add", "add"]
    assert at(g, x=3.0) == 7.0
    v = wb.vector("v", shape=3)
    made = grad(np.sum(v * v), v)
    assert ops(made) == ["identity", "add"]
    # Broken provenance would break the picture.
    assert made.origin is not None


def test_provenance() -> None:
    x = wb.scalar("x")
    y = np.sin(x)
    g = grad(y * y, x)
    cosine = next(n for n in wb.Graph([], [g]).nodes if n.op.name == "cos")
    assert cosine.origin.forward is y
    assert not cosine.origin.overridden
    assert cosine.site is not None
    assert "grad(y * y, x)" in cosine.site.text


# Dtypes


def test_float_gradients_have_the_dtype_of_their_variable() -> None:
    x = wb.vector("x", shape=2, dtype=np.float32)
    y = wb.vector("y", shape=2)
    a, b = grad(np.sum(x * y), [x, y])
    assert (a.dtype, b.dtype) == (np.float32, np.float64)
    known = grad(None, x, known_grads={x * 2: np.ones(2)})
    assert known.dtype == np.float32


def test_integers_have_a_float_gradient_of_zeros() -> None:
    n = wb.vector("n", shape=3, dtype=np.int64)
    x = wb.scalar("x")
    for cost in (np.sum(n * x), np.sum(n * 1.0)):
        g = grad(cost, n)
        assert g.dtype == np.float64
        assert at(g, n=np.arange(3), x=1.0).tolist() == [0.0, 0.0, 0.0]
    # A cost of integers is flat.
    assert at(grad(np.sum(n), n), n=np.arange(3)).tolist() == [0.0, 0.0, 0.0]


def test_what_is_flat_is_connected() -> None:
    x = wb.vector("x", shape=2)
    flat = (
        np.sum(np.floor(x)),
        np.sum((x > 0) * 1.0),
        np.sum(np.sign(x)),
        np.sum(x.astype(int) * 2.0),
    )
    for cost in flat:
        assert at(grad(cost, x), x=np.array([1.5, -2.0])).tolist() == [0.0, 0.0]


# Disconnected inputs


def test_C1_disconnected_inputs() -> None:
    x, y = wb.scalars("x y")
    cost = np.exp(x)
    with pytest.raises(DisconnectedInputError, match="does not depend on 'y'") as told:
        grad(cost, [x, y])
    assert isinstance(told.value, ValueError)
    assert "disconnected_inputs='ignore'" in str(told.value)
    with pytest.warns(UserWarning, match="does not depend on 'y'") as warned:
        a, b = grad(cost, [x, y], disconnected_inputs="warn")
    assert warned[0].filename == __file__
    assert (at(a, x=0.0), at(b, y=1.0)) == (1.0, 0.0)
    assert at(grad(cost, y, disconnected_inputs="ignore"), y=1.0) == 0.0
    with pytest.raises(UsageError, match="'raise', 'warn', 'ignore'"):
        grad(cost, x, disconnected_inputs="no")


def test_C1_return_disconnected() -> None:
    x = wb.scalar("x")
    y = wb.vector("y", shape=3, dtype=np.float32)

    def ask(how: str) -> Any:
        return grad(
            np.exp(x), [x, y], disconnected_inputs="ignore", return_disconnected=how
        )

    zero = ask("zero")[1]
    assert (zero.shape, zero.dtype) == ((3,), np.float32)
    assert at(zero, y=np.ones(3, np.float32)).tolist() == [0, 0, 0]
    assert ask("None")[1] is None
    found = ask("Disconnected")[1]
    assert isinstance(found, DisconnectedType)
    assert found.wrt is y
    assert "'y'" in repr(found)
    with pytest.raises(UsageError, match="'zero', 'None', 'Disconnected'"):
        ask("zeros")


@pytest.mark.parametrize(
    "cut",
    [
        disconnected_grad,
        wb.stop_gradient,
        np.zeros_like,
        lambda x: np.ones_like(x) * 2,
        lambda x: np.full_like(x, 3.0),
    ],
)
def test_C1_only_the_shape_or_cut_off_is_disconnected(cut: Any) -> None:
    x = wb.vector("x", shape=3)
    with pytest.raises(DisconnectedInputError):
        grad(np.sum(cut(x)), x)
    # With another way there it is connected.
    g = grad(np.sum(cut(x) + x), x)
    assert at(g, x=np.ones(3)).tolist() == [1.0, 1.0, 1.0]


def test_what_is_behind_several_outputs() -> None:
    a, b = wb.matrix("a", shape=(2, 2)), wb.scalar("b")
    q, _ = np.linalg.qr(a)
    g = grad(np.sum(q) * b, [a, b])
    point = np.array([[1.0, 2.0], [3.0, 5.0]])
    assert at(g[1], a=point) == pytest.approx(np.sum(np.linalg.qr(point)[0]))
    numeric = np.empty((2, 2))
    for i in np.ndindex(2, 2):
        step = np.zeros((2, 2))
        step[i] = 1e-6
        high, low = (np.sum(np.linalg.qr(point + s)[0]) for s in (step, -step))
        numeric[i] = (high - low) / 2e-6
    got = at(g[0], a=point, b=1.0)
    np.testing.assert_allclose(got, numeric, rtol=1e-6, atol=1e-8)


def test_overrides_connect_what_an_op_does_not() -> None:
    x = wb.scalar("x")
    through = wb.override("stop_gradient", "g")
    cost = wb.stop_gradient(x) * 2
    g = wb.grad(cost, x, overrides=[through])
    assert at(g) == 2.0
    straight = wb.override("floor", "g")
    assert at(wb.grad(np.floor(x) * 3, x, overrides=[straight])) == 3.0


# Constants


def test_C1_consider_constant() -> None:
    x, y = wb.scalars("x y")
    h = x * y
    cost = h * x
    g = grad(cost, [x, y], consider_constant=[h], disconnected_inputs="ignore")
    assert at(g[0], x=2.0, y=3.0) == 6.0
    assert at(g[1], y=3.0) == 0.0
    with pytest.raises(DisconnectedInputError, match="consider_constant"):
        grad(cost, y, consider_constant=[h])
    # What is held constant has a gradient of its own.
    assert at(grad(cost, h, consider_constant=[h]), x=2.0) == 2.0
    with pytest.raises(UsageError, match="consider_constant holds 3"):
        grad(cost, x, consider_constant=[3])  # type: ignore[list-item]


def test_one_expression_that_is_considered_constant() -> None:
    """A Tensor is one, and no list of its entries."""
    x = wb.vector("x", shape=2)
    h = np.sin(x)
    at = np.array([0.5, 2.0])
    g = grad(np.sum(h * x), x, consider_constant=h)
    np.testing.assert_allclose(g.eval(x=at), np.sin(at))
    block = jacobian(h * x, x, consider_constant=h)
    np.testing.assert_allclose(block.eval(x=at), np.diag(np.sin(at)))
    with pytest.raises(UsageError, match="consider_constant holds 2, which is no"):
        grad(np.sum(h), x, consider_constant=[2])


def test_zero_grad_is_connected() -> None:
    x = wb.scalar("x")
    assert at(grad(zero_grad(x) ** 2, x), x=2.0) == 0.0


# Known gradients


def test_C1_known_grads() -> None:
    x, w = wb.vector("x", shape=3), wb.vector("w", shape=3)
    h = w * x
    out = np.tanh(h)
    direct = grad(np.sum(out**2), [w, x])
    by_hand = grad(np.sum(out**2), [out])[0]
    made = grad(None, [w, x], known_grads={out: by_hand})
    for a, b in zip(direct, made, strict=True):
        values = {"x": np.array([0.1, -0.5, 2.0]), "w": np.array([1.0, 2.0, -1.0])}
        np.testing.assert_allclose(at(a, **values), at(b, **values), rtol=1e-15)


def test_known_grads_take_the_place_of_what_arrives() -> None:
    x = wb.scalar("x")
    h = np.sin(x)
    cost = h**2 + 5 * x
    g = grad(cost, [x, h], known_grads={h: 100.0})
    assert at(g[0], x=0.0) == 105.0
    assert at(g[1]) == 100.0
    # A known gradient of the cost scales all.
    assert at(grad(cost, x, known_grads={cost: 2.0}), x=0.0) == 10.0


def test_known_grads_of_several_are_added_in_order() -> None:
    x = wb.scalar("x")
    known = MappingProxyType({x * 2: 10.0, x * 3: wb.constant(100.0)})
    assert at(grad(None, x, known_grads=known)) == 320.0


def test_known_grads_that_are_disconnected() -> None:
    x, y = wb.scalars("x y")
    h = x * y
    with pytest.raises(DisconnectedInputError):
        grad(h**2, x, known_grads={h: None})
    g = grad(h**2 + x, x, known_grads={h: DisconnectedType()})
    assert at(g) == 1.0


def test_known_grads_must_fit() -> None:
    x = wb.vector("x", shape=3)
    y = x * 2
    with pytest.raises(ShapeError, match=r"has shape \(2,\).*has \(3,\)"):
        grad(None, x, known_grads={y: np.ones(2)})
    with pytest.raises(DtypeError, match="complex128"):
        grad(None, x, known_grads={y: np.ones(3) * 1j})
    with pytest.raises(UsageError, match="known_grads holds 'y'"):
        grad(None, x, known_grads={"y": np.ones(3)})  # type: ignore[dict-item]


# Bad input


def test_a_cost_that_is_not_one_number() -> None:
    x = wb.vector("x", shape=3)
    y = x * 2
    with pytest.raises(NonScalarOutputError, match="one number") as told:
        grad(y, x)
    assert "multiply float64[3]" in str(told.value)
    assert "y = x * 2" in str(told.value)
    assert "jacobian" in str(told.value)


def test_bad_arguments() -> None:
    x = wb.scalar("x")
    with pytest.raises(UsageError, match="not an expression"):
        grad(x, [1.0])
    with pytest.raises(UsageError, match="not an expression"):
        grad(3.0, x)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="neither a cost nor known_grads"):
        grad(None, x)
    with pytest.raises(UsageError, match="wrt is missing"):
        wb.grad(x * 2)
    with pytest.raises(UsageError, match="has_aux=True is for functions"):
        wb.grad(x * 2, x, has_aux=True)
    with pytest.raises(UsageError, match=r"'steps'.*known_grads"):
        wb.grad(x * 2, x, steps=1)
    with pytest.raises(UsageError, match="neither an expression nor a function"):
        wb.grad(2.0, x)
    with pytest.raises(UsageError, match="wrt holds None"):
        wb.grad(x * 2, [None])
    with pytest.raises(UsageError, match="has no option 'consider_constant'"):
        wb.grad(np.sum, 0, consider_constant=[x])
    with pytest.raises(UsageError, match="'raise', 'return'"):
        grad(x * 2, x, null_gradients="no")


def test_the_same_under_wb() -> None:
    x, y = wb.scalars("x y")
    cost = x**3 * y
    assert at(wb.grad(cost, x), x=2.0, y=1.0) == 12.0
    assert at(wb.grad(cost, wrt=[x, y])[1], x=2.0) == 8.0
    assert at(wb.grad(cost, x, consider_constant=[y]), x=2.0, y=1.0) == 12.0
    known = wb.grad(None, x, known_grads={cost: 2.0})
    assert at(known, x=2.0, y=1.0) == 24.0
    value, g = wb.value_and_grad(cost, x)
    assert value is cost
    assert at(g, x=2.0, y=1.0) == 12.0


def test_second_and_third_order() -> None:
    x = wb.scalar("x")
    third = wb.grad(wb.grad(wb.grad(np.sin(x), x), x), x)
    assert at(third, x=0.7) == pytest.approx(-np.cos(0.7), rel=1e-14)


@pytest.mark.long
def test_a_long_chain_takes_linear_time() -> None:
    def seconds(n: int) -> float:
        x = wb.scalar("x")
        y = x
        for _ in range(n):
            y = y * 1.0000001 + x
        start = process_time()
        grad(y, x)
        return process_time() - start

    seconds(1000)
    small, large = seconds(2_000), seconds(20_000)
    assert large < 40 * small + 0.5


# format_as


def test_C6_format_as() -> None:
    assert format_as(True, False, 1) == [1]
    assert format_as(False, True, 1) == (1,)
    assert format_as(True, False, (1, 2)) == [1, 2]
    assert format_as(False, True, [1, 2]) == (1, 2)
    assert format_as(False, False, 1) == 1
    assert format_as(False, False, [1]) == 1
    with pytest.raises(UsageError, match="both true"):
        format_as(True, True, 1)
    with pytest.raises(UsageError, match="2 results"):
        format_as(False, False, [1, 2])


# Where the data lies


@pytest.mark.parametrize("length", [3, None])
def test_no_array_of_numpy_gets_into_a_gradient(length: int | None) -> None:
    """Inputs on a GPU would not meet one there: ones are like what they belong to."""
    v, w = wb.vector("v", shape=(length,)), wb.vector("w", shape=(length,))
    for cost in (
        np.sum(v / w),
        np.sum(v) / 3,
        np.sum(np.where(v > 0, v, w) * 2),
        np.mean(v - w),
        np.sum(np.sum(np.stack([v, w]), axis=0) ** 2) * 0.5,
    ):
        made = grad(cost, [v, w], disconnected_inputs="ignore")
        for node in wb.Graph([], made).nodes:
            assert node.value is None or np.shape(node.value) == ()
        point = {"v": np.array([1.0, -2.0, 3.0]), "w": np.array([4.0, 5.0, 6.0])}
        f = wb.function([v, w], made, on_unused_input="ignore")
        for g, x in zip(f(*point.values()), point, strict=True):
            step = 1e-6
            for i in range(3):
                near = [{k: a.copy() for k, a in point.items()} for _ in range(2)]
                near[0][x][i] += step
                near[1][x][i] -= step
                high, low = (at(cost, **p) for p in near)
                assert g[i] == pytest.approx((high - low) / (2 * step), abs=1e-7)


def test_a_gradient_of_constants_is_a_constant() -> None:
    x = wb.scalar("x")
    g = grad(3 * x - x / 2, x)
    assert float(g.value) == 2.5
    assert at(grad(grad(3 * x, x), x, disconnected_inputs="ignore"), x=1.0) == 0.0


class Told(wb.Op):
    """Two inputs, of which a rule says in words that it has no gradient."""

    name = "told_in_words"
    word: str

    def compute(self, x: Any, w: Any) -> Any:
        return x * w

    def vjp(self, node: Any, g: Any) -> Any:
        null = wb.gradient.NullType("not smooth")
        apart = wb.gradient.DisconnectedType()
        return g * 3, null if self.word == "null" else apart


def test_C6_a_rule_may_say_null_or_disconnected() -> None:
    x, w = wb.scalars("x w")
    null, apart = Told("null")(x, w), Told("apart")(x, w)
    assert at(grad(null, x), x=1.0, w=2.0) == 3
    with pytest.raises(NullTypeGradError, match=r"input 1 of told.*not smooth"):
        grad(null, w)
    with pytest.raises(DisconnectedInputError, match="'w'"):
        grad(apart, w)
    assert at(grad(apart + w, w), x=1.0, w=2.0) == 1
    assert wb.grad(lambda w: Told("apart")(1.0, w))(2.0) == 0
    with pytest.raises(NullTypeGradError, match=r"input 1 of told.*not smooth"):
        wb.grad(lambda w: Told("null")(1.0, w))(2.0)
    never = wb.override("sin", lambda node, g: wb.gradient.NullType())
    with pytest.raises(NullTypeGradError, match="input 0 of sin"):
        wb.grad(np.sin, overrides=[never])(1.0)
