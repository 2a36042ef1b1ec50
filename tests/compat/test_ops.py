"""`theano.Op` and its kin: every method that an old op may bring."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest

import workbench as wb
import workbench.compat.theano as theano
import workbench.compat.theano.tensor as T
from workbench.compat.theano import gof
from workbench.errors import (
    DisconnectedInputError,
    NotDifferentiableError,
    NullTypeGradError,
    ShapeError,
    UsageError,
    WorkbenchError,
)


class Scale(theano.Op):
    """``a x``, with everything that an op may have."""

    __props__ = ("a",)

    def __init__(self, a: float) -> None:
        self.a = a

    def make_node(self, x: Any) -> Any:
        x = T.as_tensor_variable(x)
        return gof.Apply(self, [x], [x.type()])

    def perform(self, node: Any, inputs: Any, output_storage: Any) -> None:
        assert node.inputs[0].type.dtype == str(inputs[0].dtype)
        output_storage[0][0] = inputs[0] * self.a

    def infer_shape(self, node: Any, shapes: Any) -> Any:
        return shapes

    def grad(self, inputs: Any, output_grads: Any) -> Any:
        return [self.a * output_grads[0]]

    def R_op(self, inputs: Any, eval_points: Any) -> Any:
        return [self.a * eval_points[0]]


class SumAndArgmax(theano.Op):
    """Two outputs, of which one is of integers."""

    __props__ = ()

    def make_node(self, x: Any) -> Any:
        x = T.as_tensor_variable(x)
        return theano.Apply(self, [x], [T.dscalar(), T.lscalar()])

    def perform(self, node: Any, inputs: Any, outputs: Any) -> None:
        (x,) = inputs
        outputs[0][0] = np.asarray(np.sum(x**2))
        outputs[1][0] = np.asarray(np.argmax(x))

    def connection_pattern(self, node: Any) -> Any:
        return [[True, False]]

    def L_op(self, inputs: Any, outputs: Any, grads: Any) -> Any:
        return [2 * inputs[0] * grads[0]]


def test_an_op_in_both_modes_and_twice() -> None:
    x, t = T.dvectors("x", "t")
    y = Scale(3.0)(x) ** 2
    g = T.grad(y.sum(), x)
    f = theano.function([x, t], [y, g, T.Rop(y, x, t), T.Rop(g, x, t)])
    a, b = np.array([1.0, -2.0]), np.array([0.5, 1.0])
    for got, want in zip(f(a, b), (9 * a**2, 18 * a, 18 * a * b, 18 * b), strict=True):
        np.testing.assert_allclose(got, want)


def test_infer_shape_tells_lengths_before_the_op_runs() -> None:
    x = T.dmatrix("x")
    assert Scale(2.0)(x).shape == x.shape
    # Without it, lengths are those that come out.
    z = theano.function([x], Doubled()(x).sum(axis=0))
    assert np.array_equal(z(np.ones((3, 2))), [6.0, 6.0])


class Doubled(theano.Op):
    def make_node(self, x: Any) -> Any:
        return gof.Apply(self, [x], [x.type()])

    def perform(self, node: Any, inputs: Any, output_storage: Any) -> None:
        output_storage[0][0] = inputs[0] * 2


def test_props_make_ops_equal() -> None:
    assert Scale(2.0) == Scale(2.0)
    assert hash(Scale(2.0)) == hash(Scale(2.0))
    assert Scale(2.0) != Scale(3.0)
    assert Doubled() != Doubled()
    assert str(Scale(2.0)) == "Scale{a=2.0}"


def test_several_outputs_and_the_owner() -> None:
    x = T.dvector("x")
    total, place = SumAndArgmax()(x)
    f = theano.function([x], [total, place, T.grad(total, x)])
    s, i, g = f([1.0, 5.0, 2.0])
    assert (s, i) == (30.0, 1)
    np.testing.assert_allclose(g, [2.0, 10.0, 4.0])
    assert total.owner.op == SumAndArgmax()
    assert total.owner == place.owner
    assert total.owner.inputs[0] is x
    assert [y.type for y in total.owner.outputs] == [T.dscalar, T.lscalar]
    assert (total.index, place.index, x.owner) == (0, 1, None)
    with pytest.raises(DisconnectedInputError):
        T.grad(place * 1.0, x)


def test_an_op_without_gradient_says_so() -> None:
    x = T.dvector("x")
    with pytest.raises(NotDifferentiableError, match="doubled"):
        T.grad(Doubled()(x).sum(), x)


class Undefined(Doubled):
    def grad(self, inputs: Any, output_grads: Any) -> Any:
        return [theano.gradient.grad_undefined(self, 0, inputs[0], "no slope here")]


class NotWritten(Doubled):
    def grad(self, inputs: Any, output_grads: Any) -> Any:
        return [theano.gradient.grad_not_implemented(self, 0, inputs[0], "later")]


class Cut(Doubled):
    def connection_pattern(self, node: Any) -> Any:
        return [[False]]

    def grad(self, inputs: Any, output_grads: Any) -> Any:
        return [theano.gradient.DisconnectedType()()]


def test_gradients_that_are_none() -> None:
    x = T.dvector("x")
    with pytest.raises(NullTypeGradError, match="no slope here"):
        T.grad(Undefined()(x).sum(), x)
    with pytest.raises(NotImplementedError, match="later"):
        T.grad(NotWritten()(x).sum(), x)
    with pytest.raises(DisconnectedInputError):
        T.grad(Cut()(x).sum(), x)


class Wrong(Doubled):
    def grad(self, inputs: Any, output_grads: Any) -> Any:
        return [output_grads[0], output_grads[0]]


class Empty(Doubled):
    def perform(self, node: Any, inputs: Any, output_storage: Any) -> None:
        pass


class Flat(Doubled):
    def perform(self, node: Any, inputs: Any, output_storage: Any) -> None:
        output_storage[0][0] = inputs[0].sum()


class Native(theano.Op):
    def make_node(self, x: Any) -> Any:
        return gof.Apply(self, [x], [x.type()])

    def c_code(self, *args: Any) -> str:
        return ""


def test_what_is_wrong_with_an_op_is_said() -> None:
    x = T.dvector("x")
    with pytest.raises(WorkbenchError, match="2 gradients"):
        T.grad(Wrong()(x).sum(), x)
    with pytest.raises(UsageError, match=r"output_storage\[0\]\[0\] = array"):
        Empty()(x).eval({x: [1.0]})
    with pytest.raises(ShapeError, match="has 1 axes"):
        Flat()(x).eval({x: [1.0]})
    with pytest.raises(NotImplementedError, match=r"workbench\.KernelOp"):
        Native()(x).eval({x: [1.0]})
    with pytest.raises(UsageError, match=r"is not an Op"):
        gof.Apply(object(), [x], [x.type()])


def test_itypes_and_otypes_stand_in_for_make_node() -> None:
    class Plus(theano.Op):
        itypes = (T.dvector, T.dscalar)
        otypes = (T.dvector,)

        def perform(self, node: Any, inputs: Any, output_storage: Any) -> None:
            output_storage[0][0] = inputs[0] + inputs[1]

    x = T.fvector("x")
    f = theano.function([x], Plus()(x, 2))
    assert f(np.float32([1, 2])).tolist() == [3.0, 4.0]
    with pytest.raises(UsageError, match="takes 2 inputs"):
        Plus()(x)
    with pytest.raises(UsageError, match="input 0"):
        Plus()(T.dmatrix(), 2.0)


def test_a_function_becomes_an_op() -> None:
    @theano.compile.ops.as_op(
        itypes=[theano.tensor.fmatrix, theano.tensor.fmatrix],
        otypes=[theano.tensor.fmatrix],
        infer_shape=lambda node, shapes: [(shapes[0][0], shapes[1][1])],
    )
    def numpy_dot(a: Any, b: Any) -> Any:
        return np.dot(a, b)

    a, b = T.fmatrices("a", "b")
    y = numpy_dot(a, b)
    assert y.shape == (a.shape[0], b.shape[1])
    one = np.arange(6, dtype="float32").reshape(2, 3)
    assert np.array_equal(y.eval({a: one, b: one.T}), one @ one.T)


def test_an_old_op_in_new_code() -> None:
    """An op of an old program runs eagerly, under grad, vmap and check_grads."""
    scale = Scale(3.0)
    x = np.array([1.0, 2.0])
    np.testing.assert_allclose(wb.grad(lambda x: np.sum(scale(x) ** 2))(x), 18 * x)
    np.testing.assert_allclose(
        wb.vmap(lambda x: scale(x) + 1)(np.ones((2, 3))), np.full((2, 3), 4.0)
    )
    wb.check_grads(lambda x: np.sin(scale(x)), (x,), order=2)


def test_an_op_prints_and_asserts(capsys: pytest.CaptureFixture[str]) -> None:
    x = T.dvector("x")
    y = theano.printing.Print("x is", attrs=("shape",))(x)
    f = theano.function([x], T.grad((y**2).sum(), x))
    assert capsys.readouterr().out == ""
    assert np.array_equal(f([3.0]), [6.0])
    assert capsys.readouterr().out == "x is shape = (1,)\n"
    checked = T.opt.Assert("not positive")(x, T.all(x > 0))
    g = theano.function([x], T.grad((checked**2).sum(), x))
    assert np.array_equal(g([3.0]), [6.0])
    with pytest.raises(AssertionError, match="not positive"):
        g([-1.0])


def graph_op(**more: Any) -> Any:
    x, y = T.dscalars("x", "y")
    return theano.OpFromGraph([x, y], [x * y, x + y], **more)


def both(op: Any) -> list[float]:
    """The gradient of ``2 u + 3 v`` for the outputs u and v of an op, at (5, 7)."""
    x, y = T.dscalars("x", "y")
    u, v = op(x, y)
    f = theano.function([x, y], T.grad(2 * u + 3 * v, [x, y]), on_unused_input="ignore")
    return [float(g) for g in f(5.0, 7.0)]


def test_overrides_of_an_op_from_a_graph() -> None:
    assert both(graph_op()) == [17.0, 13.0]
    whole = graph_op(grad_overrides=lambda i, g: [g[0] + i[0], g[1] + i[1]])
    assert both(whole) == [2.0 + 5.0, 3.0 + 7.0]
    listed = graph_op(grad_overrides=[lambda i, g: 100 * g[0], "default"])
    assert both(listed) == [200.0, 13.0]
    by_outputs = graph_op(lop_overrides=lambda i, o, g: [g[0] * o[0], g[1] * o[1]])
    assert both(by_outputs) == [2.0 * 35.0, 3.0 * 12.0]
    a, b, c, d = T.dscalars("a", "b", "c", "d")
    rule = theano.OpFromGraph([a, b, c, d], [c * a, d * b])
    assert both(graph_op(grad_overrides=rule)) == [10.0, 21.0]
    e, f = T.dscalars("e", "f")
    with_outputs = theano.OpFromGraph(
        [a, b, e, f, c, d], [c * e, d * f], on_unused_input="ignore"
    )
    assert both(graph_op(lop_overrides=with_outputs)) == [70.0, 36.0]
    with pytest.raises(UsageError, match="lop_overrides or grad_overrides"):
        graph_op(lop_overrides=rule, grad_overrides=rule)


def test_forward_mode_overrides_of_an_op_from_a_graph() -> None:
    x, y, t = T.dscalars("x", "y", "t")
    op = theano.OpFromGraph(
        [x, y], [x * y], rop_overrides=lambda i, e: [10 * e[0] + i[1]]
    )
    f = theano.function([x, y, t], T.Rop(op(x, y), x, t))
    assert f(5.0, 7.0, 2.0) == 27.0


def test_an_op_from_a_graph_reads_shared_values() -> None:
    w = theano.shared(np.array([1.0, 2.0]), "w")
    x = T.dvector("x")
    op = theano.OpFromGraph([x], [T.sum(w * x**2)], inline=True)
    f = theano.function([x], T.grad(op(x), [x, w]))
    for got, want in zip(f([3.0, 4.0]), ([6.0, 16.0], [9.0, 16.0]), strict=True):
        np.testing.assert_allclose(got, want)


def test_a_gradient_of_the_disconnected_type() -> None:
    class Times(theano.Op):
        itypes: ClassVar = [T.dvector, T.lscalar]
        otypes: ClassVar = [T.dvector]
        __props__ = ()

        def perform(self, node: Any, inputs: Any, outputs: Any) -> None:
            outputs[0][0] = inputs[0] * inputs[1]

        def grad(self, inputs: Any, grads: Any) -> Any:
            return [grads[0] * inputs[1], theano.gradient.DisconnectedType()()]

        def connection_pattern(self, node: Any) -> Any:
            return [[True], [False]]

    x, n = T.dvector("x"), T.lscalar("n")
    f = theano.function([x, n], T.grad(Times()(x, n).sum(), x))
    assert np.array_equal(f([1.0, 2.0], 3), [3.0, 3.0])


def test_a_view_whose_gradient_is_turned_round() -> None:
    class Reversed(theano.compile.ViewOp):
        __props__ = ("scale",)

        def __init__(self, scale: float) -> None:
            super().__init__()
            self.scale = scale

        def grad(self, inputs: Any, grads: Any) -> Any:
            return [-self.scale * grads[0]]

    x = T.dvector("x")
    y = Reversed(0.5)(x)
    f = theano.function([x], [y, T.grad((y**2).sum(), x), T.grad(y[0] + x[0], x)])
    value, slope, mixed = f([1.0, -3.0])
    assert np.array_equal(value, [1.0, -3.0])
    assert np.array_equal(slope, [-1.0, 3.0])
    assert np.array_equal(mixed, [0.5, 0.0])


def test_a_name_of_an_old_op_is_free_for_another() -> None:
    class SameName(theano.Op):  # type: ignore[misc, name-defined]
        __props__ = ()

        def make_node(self, x: Any) -> Any:
            return theano.Apply(self, [x], [x.type()])

        def perform(self, node: Any, inputs: Any, storage: Any) -> None:
            storage[0][0] = inputs[0] * 2

    x = T.dvector("x")
    old = theano.function([x], SameName()(x))

    new = type("SameName", (wb.Op,), {"compute": lambda self, x: x * 3})
    assert new()(np.ones(2)).tolist() == [3, 3]
    assert old(np.ones(2)).tolist() == [2, 2]
