"""Ops that old programs name by their classes, against NumPy; gradients by hand."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import workbench.compat.theano as theano
import workbench.compat.theano.tensor as T
from workbench.errors import UsageError

POINTS = np.array([[1.0, 0.0, 3.0], [2.0, 5.0, 0.5]])
LINE = np.array([3.0, 1.0, 2.0])


def at(expression: Any, **values: Any) -> Any:
    return theano.function(SYMBOLS, expression, on_unused_input="ignore")(
        values.get("x", POINTS), values.get("v", LINE)
    )


SYMBOLS = [T.dmatrix("x"), T.dvector("v")]
x, v = SYMBOLS

CASES = {
    "Sum": (T.elemwise.Sum(axis=0)(x), POINTS.sum(0)),
    "Prod": (T.elemwise.Prod(1)(x), POINTS.prod(1)),
    "ProdWithoutZeros": (T.ProdWithoutZeros(axis=1)(x), [3.0, 5.0]),
    "Max": (T.Max(axis=1)(x), POINTS.max(1)),
    "Argmax": (T.Argmax(axis=1)(x), POINTS.argmax(1)),
    "CumOp": (T.extra_ops.cumsum(x, 1), POINTS.cumsum(1)),
    "CumOp add": (T.CumOp(axis=1)(x), POINTS.cumsum(1)),
    "CumOp mul": (T.CumOp(axis=0, mode="mul")(x), POINTS.cumprod(0)),
    "RepeatOp": (T.RepeatOp(axis=0)(v, 2), LINE.repeat(2)),
    "SearchsortedOp": (T.SearchsortedOp("right")(T.sort(v), 2.0), 2),
    "DiffOp": (T.DiffOp(n=1, axis=0)(v), np.diff(LINE)),
    "DimShuffle": (
        T.DimShuffle((False, False), (1, "x", 0))(x), POINTS.T[:, None, :]
    ),
    "Reshape": (T.Reshape(1)(x, (6,)), POINTS.ravel()),
    "Join": (T.Join()(0, x, x), np.concatenate([POINTS, POINTS])),
    "Split": (T.Split(2)(v, 0, [1, 2])[1], LINE[1:]),
    "Dot": (T.Dot()(x, v), POINTS @ LINE),
    "Alloc": (T.Alloc()(2.0, 2, 3), np.full((2, 3), 2.0)),
    "ARange": (T.ARange("int64")(1, 7, 2), np.arange(1, 7, 2)),
    "Eye": (T.Eye("float64")(2, 3, 1), np.eye(2, 3, 1)),
    "MakeVector": (T.MakeVector("float64")(v[0], v[2]), LINE[[0, 2]]),
    "Shape_i": (T.Shape_i(1)(x), 3),
    "FillDiagonal": (T.FillDiagonal()(x, 9.0), [[9, 0, 3], [2, 9, 0.5]]),
    "scalar_from_tensor": (T.scalar_from_tensor(v[0]), 3.0),
    "Elemwise": (T.Elemwise(theano.scalar.exp)(x), np.exp(POINTS)),
    "CAReduce": (T.CAReduce(theano.scalar.mul, axis=[0, 1])(x), POINTS.prod()),
    "CAReduce all": (T.CAReduce(theano.scalar.add)(x), POINTS.sum()),
    "CAReduce without zeros": (
        T.CAReduce(theano.scalar.mul_without_zeros, axis=1)(x), [3.0, 5.0]
    ),
    "MulWithoutZeros": (T.MulWithoutZeros()(x[0], v), [3.0, 1.0, 6.0]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_classes_give_what_their_functions_give(name: str) -> None:
    expression, expected = CASES[name]
    np.testing.assert_allclose(at(expression), expected, rtol=1e-14)


def test_ops_with_the_same_settings_are_equal() -> None:
    assert T.Sum(axis=0) == T.Sum(0) != T.Sum(axis=1)
    assert len({T.CumOp(axis=0), T.CumOp(0, "add"), T.CumOp(0, "mul")}) == 2
    assert isinstance(T.exp(x).owner.op, T.Elemwise)
    assert isinstance(T.Elemwise(theano.scalar.exp), T.Elemwise)
    assert not isinstance(T.dot(x, v).owner.op, T.Elemwise)


def test_settings_and_numbers_that_do_not_fit_are_named() -> None:
    with pytest.raises(UsageError, match=r"CumOp takes axis, mode, not \[.*'order'\]"):
        T.CumOp(order=2)
    with pytest.raises(UsageError, match="mode is 'add' or 'mul', not 'max'"):
        T.CumOp(mode="max")(v)
    with pytest.raises(UsageError, match="not known as an associative op"):
        T.CAReduce(theano.scalar.exp)(v)
    with pytest.raises(UsageError, match="has 1 axes, not none"):
        T.scalar_from_tensor(v)


class Hypotenuse(theano.scalar.BinaryScalarOp):
    def impl(self, a: float, b: float) -> float:
        return (a * a + b * b) ** 0.5

    def grad(self, inputs: Any, gradients: Any) -> Any:
        (a, b), (g,) = inputs, gradients
        return [g * a / self(a, b), g * b / self(a, b)]


def test_a_scalar_op_of_a_program_works_entry_by_entry() -> None:
    y = T.Elemwise(Hypotenuse(name="hypotenuse"))(x, v)
    np.testing.assert_allclose(at(y), np.hypot(POINTS, LINE), rtol=1e-14)
    found = at(T.grad(y.sum(), v))
    np.testing.assert_allclose(
        found, (LINE / np.hypot(POINTS, LINE)).sum(0), rtol=1e-14
    )
    with pytest.raises(UsageError, match="Hypotenuse takes 2 numbers, not 1"):
        Hypotenuse()(x)


def test_gradients_flow_back_from_several_sources() -> None:
    y, z = T.tanh(v), v**2
    found = theano.gradient.grad_sources_inputs(
        [(y, T.ones_like(y)), (z, 2 * T.ones_like(z)), (x, None)], [v, x]
    )
    assert list(found) == [v]
    expected = 1 - np.tanh(LINE) ** 2 + 4 * LINE
    np.testing.assert_allclose(at(found[v]), expected, rtol=1e-14)
    found = theano.gradient.grad_sources_inputs([(y, v)])
    np.testing.assert_allclose(
        at(found[v]), LINE * (1 - np.tanh(LINE) ** 2), rtol=1e-14
    )


def test_connections_of_inputs_and_outputs() -> None:
    pattern = theano.gradient.io_connection_pattern(
        [x, v], [x.sum(), x @ v, T.sgn(v), theano.gradient.disconnected_grad(v)]
    )
    assert pattern == [[True, True, False, False], [False, True, False, False]]


def test_nodes_and_shared_values_of_a_function() -> None:
    weights = theano.shared(LINE, "weights")
    y = T.exp(v) * weights
    f = theano.function([v], y)
    assert f.get_shared() == [weights]
    assert f.maker.fgraph.apply_nodes == set(f.maker.fgraph.toposort())
    assert {str(n.op) for n in theano.gof.graph.ops([v], [y])} >= {"<op exp>"}
    assert theano.gof.graph.orphans([v], [y]) == [weights]


def test_draws_inside_an_op_are_the_same_for_its_gradient() -> None:
    streams = T.shared_randomstreams.RandomStreams(7)
    noise = streams.normal((3,))
    op = theano.OpFromGraph([v], [v**2 * noise])
    y = op(v)
    f = theano.function([v], [y, T.grad(y.sum(), v)])
    calls = [f(LINE) for _ in range(2)]
    for value, slope in calls:
        np.testing.assert_allclose(slope, 2 * value / LINE, rtol=1e-12)
    for (a, _), (b, _) in itertools.pairwise(calls):
        assert not np.allclose(a, b)  # drawn anew in each call


def test_a_draw_that_depends_on_an_input_is_refused_inside() -> None:
    streams = T.shared_randomstreams.RandomStreams(7)
    with pytest.raises(UsageError, match="depends on an input, and its gradient would"):
        theano.OpFromGraph([v], [v * streams.normal(v.shape)])


@pytest.fixture
def installed() -> Iterator[None]:
    theano.install()
    try:
        yield
    finally:
        theano.uninstall()


def test_classes_stand_where_theano_has_them(installed: None) -> None:
    from theano.scalar.basic import UnaryScalarOp, upgrade_to_float
    from theano.tensor.extra_ops import CumOp, Unique

    assert CumOp is T.CumOp
    assert pickle.loads(pickle.dumps(T.Sum(axis=1))) == T.Sum(axis=1)
    counts = Unique(return_counts=True)(T.constant([2.0, 1.0, 2.0]))[1]
    assert counts.eval().tolist() == [1, 2]

    class Twice(UnaryScalarOp):
        def impl(self, x: float) -> float:
            return 2 * x

    y = Twice(upgrade_to_float, name="twice")(T.bvector("n"))
    assert y.dtype == "float32"
    with pytest.raises(AttributeError, match=r"extra_ops\.CumulativeOp is not known"):
        T.extra_ops.CumulativeOp  # noqa: B018


def test_a_subclass_has_only_its_own_instances() -> None:
    class Own(T.Elemwise):
        pass

    assert not isinstance(T.exp(x).owner.op, Own)
    assert np.isinf(
        T.mul_without_zeros(np.array([0, np.inf]), np.array([np.inf, 0])).eval()
    ).all()
