"""Types, variables, functions and shared values as old programs use them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench.compat.theano as theano
import workbench.compat.theano.tensor as T
from workbench.errors import (
    DtypeError,
    MissingInputError,
    NullTypeGradError,
    ShapeError,
    UnusedInputError,
    UsageError,
)


@pytest.mark.parametrize("prefix", "bwilfdcz")
@pytest.mark.parametrize(
    "kind", "scalar vector row col matrix tensor3 tensor4 tensor5".split()
)
def test_every_type_has_a_name(prefix: str, kind: str) -> None:
    dtypes = dict(
        zip(
            "bwilfdcz",
            "int8 int16 int32 int64 float32 float64 complex64 complex128".split(),
            strict=True,
        )
    )
    made = T.TABLE[prefix + kind]("x")
    assert made.dtype == dtypes[prefix]
    assert made.name == "x"
    assert made.type == T.TABLE[prefix + kind]
    ones = {"row": (True, False), "col": (False, True)}.get(kind)
    assert ones is None or made.broadcastable == ones
    assert made.ndim == len(made.broadcastable)


def test_the_configured_dtype() -> None:
    assert T.matrix().dtype == "float64"
    with theano.change_flags(floatX="float32"):
        assert T.matrix().dtype == "float32"
        assert T.zeros((2,)).dtype == "float32"
        assert theano._asarray([1.0], dtype="floatX").dtype == np.float32
        assert T.cast(T.ivector(), "floatX").dtype == "float32"
    assert theano.config.floatX == "float64"
    with pytest.raises(UsageError, match="float32"):
        theano.config.floatX = "double"
    theano.config.exception_verbosity = "high"
    assert theano.config.exception_verbosity == "high"
    theano.config.exception_verbosity = "low"
    with pytest.raises(AttributeError, match="no_such_flag is not set"):
        _ = theano.config.no_such_flag


def test_several_symbols() -> None:
    assert [x.name for x in T.scalars("xy")] == ["x", "y"]
    assert [x.name for x in T.dmatrices("a", "b")] == ["a", "b"]
    assert [x.name for x in T.ivectors(["u", "v"])] == ["u", "v"]
    assert len(T.fvectors(3)) == 3


def test_a_type_makes_and_checks() -> None:
    kind = T.TensorType("float32", (False, True))
    assert kind("x").broadcastable == (False, True)
    assert kind == T.TensorType("float32", [0, 1])
    assert repr(kind) == "TensorType(float32, col)"
    assert kind.filter([[1], [2]], allow_downcast=True).dtype == np.float32
    assert not kind.is_valid_value(np.ones((2, 2), np.float32))
    with pytest.raises(ShapeError):
        kind.filter(np.ones((2, 2), np.float32))
    with pytest.raises(DtypeError):
        kind.filter(np.ones((2, 1)), strict=True)
    x = T.dvector("x")
    assert x.type() is not x
    assert x.type().type == x.type
    assert x.clone().name == "x"
    assert isinstance(x, theano.Variable)
    assert isinstance(T.constant(1.0), T.TensorConstant)
    assert not isinstance(x, T.TensorConstant)
    assert T.constant(3.0).data == 3.0
    x.tag.test_value = np.ones(3)  # nothing looks at it


def test_what_becomes_a_variable() -> None:
    x, y = T.dscalars("x", "y")
    assert T.as_tensor_variable(x) is x
    stacked = T.as_tensor_variable([x, y, 1.0])
    assert np.array_equal(stacked.eval({x: 2.0, y: 3.0}), [2.0, 3.0, 1.0])
    assert T.as_tensor_variable(np.float32([1])).dtype == "float32"
    assert T.as_tensor_variable(x, ndim=1).ndim == 1
    with pytest.raises(ShapeError):
        T.as_tensor_variable(T.dmatrix(), ndim=1)
    assert T.get_scalar_constant_value(T.constant(4)) == 4
    with pytest.raises(T.NotScalarConstantError):
        T.get_scalar_constant_value(x)
    # A Python number takes the dtype of what it meets, wherever it stands.
    assert (T.fvector() * T.sqrt(2.0)).dtype == "float32"
    assert (T.fvector() + T.as_tensor_variable(1.5)).dtype == "float32"
    assert (T.fvector() + T.ivector()).dtype == "float64"


def test_shapes_are_outputs_too() -> None:
    x = T.dmatrix("x")
    f = theano.function([x], [x.shape, x.shape[0], x.size])
    shape, rows, size = f(np.ones((2, 5)))
    assert shape.tolist() == [2, 5]
    assert (rows, size) == (2, 10)
    assert theano.function([x], x.shape)(np.ones((2, 5))).tolist() == [2, 5]


def test_dimshuffle_and_flatten_refuse_what_does_not_fit() -> None:
    x = T.dmatrix("x")
    with pytest.raises(ShapeError, match="not known to be 1"):
        x.dimshuffle(0)
    with pytest.raises(ShapeError, match="twice"):
        x.dimshuffle(0, 0)
    with pytest.raises(ShapeError, match="has 2 axes"):
        x.dimshuffle(0, 2)
    with pytest.raises(ShapeError):
        x.flatten(3)
    with pytest.raises(ShapeError, match="specify_shape"):
        T.specify_shape(x, (2, 2)).eval({x: np.ones((2, 3))})
    with pytest.raises(UsageError, match="an indexed variable"):
        T.set_subtensor(x, 0.0)


def test_shared_values() -> None:
    w = theano.shared(np.arange(3.0), name="w", borrow=True)
    assert w.name == "w"
    f = theano.function([], w.sum())
    assert f() == 3.0
    w.set_value(np.ones(5))  # of another length
    assert f() == 5.0
    row = theano.shared(np.ones((1, 3)), broadcastable=(True, False))
    assert row.broadcastable == (True, False)
    with pytest.raises(ShapeError):
        row.set_value(np.ones((2, 3)))
    with pytest.raises(UsageError, match="nosuch"):
        theano.shared(1.0, nosuch=True)
    assert isinstance(w, theano.compile.SharedVariable)


def test_default_updates() -> None:
    n = theano.shared(0, "n")
    n.default_update = n + 1
    f = theano.function([], n * 10)
    g = theano.function([], n, no_default_updates=True)
    assert [int(f()), int(f()), int(g()), int(g())] == [0, 10, 2, 2]
    h = theano.function([], n, updates={n: n + 5})
    assert [int(h()), int(h())] == [2, 7]
    n.default_update = None


def test_inputs_of_functions() -> None:
    x, y = T.dscalars("x", "y")
    z = x * y
    inner = theano.function([z], z + 1)  # an input that is computed from others
    assert inner(5.0) == 6.0
    by_pair = theano.function([x, (y, 3.0)], z)
    assert by_pair(2.0) == 6.0
    assert theano.function([x, theano.Param(y, default=4.0)], z)(2.0) == 8.0
    out = theano.function([x], theano.Out(x + 1, borrow=True))
    assert out(1.0) == 2.0
    assert theano.function([], [])() == []
    with pytest.warns(UserWarning, match="'y'"):
        theano.function([x, y], x, on_unused_input="warn")
    with pytest.raises(UnusedInputError, match="'y'"):
        theano.function([x, y], x)
    with theano.change_flags(on_unused_input="ignore"):
        theano.function([x, y], x)
    with pytest.raises(MissingInputError, match="'y'"):
        theano.function([x], z)
    with pytest.raises(UsageError, match="list of variables"):
        theano.function(x, x)
    with pytest.raises(UsageError, match="givens"):
        theano.function([theano.shared(1.0)], x)


def test_a_gradient_that_needs_no_value_may_have_its_input() -> None:
    x = T.dscalar("x")
    f = theano.function([x], T.grad(2 * x, x))
    assert f(7.0) == 2.0
    y = T.dscalar("y")
    cost = theano.gradient.disconnected_grad(x) * y + theano.gradient.zero_grad(x)
    g = theano.function([x, y], T.grad(cost, [x, y], disconnected_inputs="ignore"))
    assert g(2.0, 3.0) == [0.0, 2.0]


def test_casts_of_arguments() -> None:
    x = T.fvector("x")
    strict = theano.function([x], x * 2)
    loose = theano.function([x], x * 2, allow_input_downcast=True)
    wide = np.array([1.0, 2.0])
    with pytest.raises(DtypeError, match="'x'"):
        strict(wide)
    assert loose(wide).dtype == np.float32
    assert loose(x=wide).tolist() == [2.0, 4.0]
    assert strict([1.0, 2.0]).tolist() == [2.0, 4.0]
    one = theano.function([theano.In(x, allow_downcast=True)], x)
    assert one(wide).dtype == np.float32


def test_a_function_shows_its_nodes() -> None:
    x = T.dvector("x")
    f = theano.function([x], T.tanh(x).sum(), name="f", mode="FAST_COMPILE")
    names = [node.op.name for node in f.maker.fgraph.toposort()]
    assert names == ["tanh", "sum"]
    assert theano.pp(T.grad((x**2).sum(), x)) != ""
    text = theano.printing.debugprint(f, file="str")
    assert "tanh(x)" in text


def test_clone_and_walks() -> None:
    x, y = T.dscalars("x", "y")
    z = x * 2 + y
    moved = theano.clone(z, replace={x: y**2})
    assert moved.eval({y: 3.0}) == 21.0
    assert theano.gof.inputs([z]) == [x, y] or [
        v.name for v in theano.gof.graph.inputs([z])
    ] == ["x", "y"]
    assert len(theano.gof.io_toposort([x, y], [z])) == 2


def test_updates_add() -> None:
    a, b = theano.shared(0, "a"), theano.shared(0, "b")
    both = theano.OrderedUpdates({a: a + 1}) + theano.OrderedUpdates({b: b + 2})
    theano.function([], [], updates=both)()
    assert (a.get_value(), b.get_value()) == (1, 2)
    with pytest.raises(UsageError, match="collide"):
        both.update({a: a + 3})
    with pytest.raises(UsageError, match="shared values"):
        both[1] = 2


def test_what_is_not_known_says_so() -> None:
    with pytest.raises(AttributeError, match=r"theano\.tensor\.nosuch"):
        _ = T.nosuch
    with pytest.raises(AttributeError, match=r"theano\.nosuch"):
        _ = theano.nosuch
    with pytest.raises(UsageError, match="SciPy"):
        theano.sparse.csr_matrix("s")
    with pytest.raises(UsageError, match=r"Use a sparse array .* \(S @ x\)"):
        theano.sparse.as_sparse_variable(T.dmatrix("m"))


@pytest.mark.parametrize(
    ("mode", "width"), [("valid", 0), ("half", 2), ("full", 4), ((1, 3), None)]
)
def test_filters_are_laid_with_gaps(mode: Any, width: int | None) -> None:
    import scipy.signal

    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(1, 1, 9, 8)), rng.normal(size=(1, 1, 3, 3))
    y = T.nnet.conv2d(T.dtensor4("x"), w, border_mode=mode, filter_dilation=(2, 2))
    found = theano.function(theano.gof.inputs([y])[:1], y)(x)
    spread = np.zeros((5, 5))
    spread[::2, ::2] = w[0, 0]
    pads = [(n, n) for n in ((width, width) if width is not None else mode)]
    expected = scipy.signal.convolve2d(np.pad(x[0, 0], pads), spread, "valid")
    np.testing.assert_allclose(found[0, 0], expected, rtol=1e-12)


def test_sparse_constants() -> None:
    import scipy.sparse

    S = scipy.sparse.random(4, 3, 0.5, format="csr", random_state=0)
    x = T.dvector("x")
    y = theano.sparse.dot(S, x)
    f = theano.function([x], [y, T.grad((y**2).sum(), x)])
    v = np.array([1.0, -2.0, 0.5])
    got, slope = f(v)
    np.testing.assert_allclose(got, S @ v)
    np.testing.assert_allclose(slope, 2 * S.T @ (S @ v))


NETWORKS: dict[str, Any] = {
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "ultra_fast_sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "hard_sigmoid": lambda x: np.clip(0.2 * x + 0.5, 0, 1),
    "softplus": lambda x: np.log1p(np.exp(x)),
    "relu": lambda x: np.maximum(x, 0),
    "elu": lambda x: np.where(x > 0, x, np.expm1(x)),
    "softsign": lambda x: x / (1 + abs(x)),
    "softmax": lambda x: np.exp(x) / np.exp(x).sum(1, keepdims=True),
    "logsoftmax": lambda x: x - np.log(np.exp(x).sum(1, keepdims=True)),
}
X = np.array([[0.3, -1.2, 2.7], [-4.1, 0.4, -0.6]])


@pytest.mark.parametrize("name", NETWORKS)
def test_activations(name: str) -> None:
    x = T.dmatrix("x")
    y = getattr(T.nnet, name)(x)
    weights = np.arange(6.0).reshape(2, 3) + 1
    f = theano.function([x], [y, T.grad((weights * y).sum(), x)])
    got, slope = f(X)
    np.testing.assert_allclose(got, NETWORKS[name](X), rtol=1e-12)
    for place in np.ndindex(X.shape):
        step = np.zeros_like(X)
        step[place] = 1e-6
        ends = [np.sum(weights * NETWORKS[name](X + s)) for s in (step, -step)]
        assert abs((ends[0] - ends[1]) / 2e-6 - slope[place]) < 1e-7


def test_losses() -> None:
    x, i, t = T.dmatrix("x"), T.ivector("i"), T.dmatrix("t")
    p = T.nnet.softmax(x)
    classes, target = np.int32([2, 1]), np.eye(3)[[2, 1]]
    soft = np.exp(X) / np.exp(X).sum(1, keepdims=True)
    want = -np.log(soft[[0, 1], classes])
    bias = np.array([0.1, 0.2, -0.3])
    moved = np.exp(X + bias) / np.exp(X + bias).sum(1, keepdims=True)
    outputs = [
        T.nnet.categorical_crossentropy(p, i),
        T.nnet.categorical_crossentropy(p, t),
        T.nnet.crossentropy_softmax_1hot(x, i)[0],
        *T.nnet.crossentropy_softmax_argmax_1hot_with_bias(x, bias, i),
        T.nnet.binary_crossentropy(T.nnet.sigmoid(x), t),
        T.nnet.sigmoid_binary_crossentropy(x, t),
        T.nnet.selu(x),
    ]
    got = theano.function([x, i, t], outputs)(X, classes, target)
    binary = -(target * np.log(1 / (1 + np.exp(-X)))
               + (1 - target) * np.log(1 / (1 + np.exp(X))))  # fmt: skip
    expected = [
        want, want, want, -np.log(moved[[0, 1], classes]), moved, moved.argmax(1),
        binary, binary,
        1.0507009873554805 * np.where(X > 0, X, 1.6732632423543772 * np.expm1(X)),
    ]  # fmt: skip
    for g, w in zip(got, expected, strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-10)
    # A vector is one row, in Theano's way.
    assert T.nnet.softmax(T.dvector()).ndim == 2
    with pytest.raises(ShapeError):
        T.nnet.softmax(T.dscalar())


def test_batch_normalisation(rng: np.random.Generator) -> None:
    x = T.dmatrix("x")
    gamma, beta = np.array([1.5, 0.5, 1.0]), np.array([0.1, 0.0, -0.2])
    data = rng.normal(size=(6, 3))
    out, mean, inverse, run, var = T.nnet.bn.batch_normalization_train(
        x, gamma, beta, running_mean=np.zeros(3), running_var=np.ones(3)
    )
    got = theano.function([x], [out, mean, inverse, run, var])(data)
    m, v = data.mean(0), data.var(0)
    normal = (data - m) / np.sqrt(v + 1e-4)
    expected = [
        normal * gamma + beta, m[None], 1 / np.sqrt(v + 1e-4)[None], 0.1 * m[None],
        0.9 + 0.1 * data.var(0, ddof=1)[None],
    ]  # fmt: skip
    for g, w in zip(got, expected, strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-10)
    test = T.nnet.bn.batch_normalization_test(x, gamma, beta, m, v)
    np.testing.assert_allclose(test.eval({x: data}), normal * gamma + beta)
    plain = T.nnet.bn.batch_normalization(x, gamma, beta, m, np.sqrt(v))
    np.testing.assert_allclose(
        plain.eval({x: data}), (data - m) / np.sqrt(v) * gamma + beta
    )


def test_what_values_choose() -> None:
    x, i = T.dvector("x"), T.lvector("i")
    outputs = [
        x[x > 0],
        x.nonzero()[0],
        T.nonzero_values(x),
        T.grad((x[(x > 0).nonzero()] ** 2).sum(), x),
        T.extra_ops.bincount(i, minlength=5),
        T.extra_ops.bincount(i, weights=x),
        T.grad(T.extra_ops.bincount(i, weights=x)[1], x),
        *T.extra_ops.unique(i, return_counts=True),
    ]
    a, k = np.array([1.0, 0.0, -2.0]), np.array([1, 3, 1])
    got = theano.function([x, i], outputs)(a, k)
    want = [
        [1.0], [0, 2], [1.0, -2.0], [2.0, 0.0, 0.0], [0, 2, 0, 1, 0],
        [0.0, -1.0, 0.0, 0.0], [1.0, 0.0, 1.0], [1, 3], [2, 1],
    ]  # fmt: skip
    for g, w in zip(got, want, strict=True):
        assert np.array_equal(g, w)


def test_slices_that_end_at_variables_are_written() -> None:
    x, i = T.dmatrix("x"), T.iscalar("i")
    changed = [T.inc_subtensor(x[i:], 1.0), T.set_subtensor(x[:, :i], 0.0)]
    f = theano.function([x, i], [*changed, T.grad(changed[1].sum(), x)])
    value = np.arange(6.0).reshape(3, 2)
    more, zeroed, slope = f(value, 1)
    assert np.array_equal(more, value + [[0.0], [1.0], [1.0]])
    assert np.array_equal(zeroed, value * [0.0, 1.0])
    assert np.array_equal(slope, np.broadcast_to([0.0, 1.0], (3, 2)))
    with pytest.raises(UsageError, match="one after the other"):
        T.set_subtensor(x[i:, 0], 1.0)


def test_second_derivatives_by_several() -> None:
    """C3: Theano's hessian of a list is each variable's own block."""
    x, y = T.dvectors("x", "y")
    cost = (x**2).sum() * (y**3).sum()
    one, two = theano.function([x, y], theano.gradient.hessian(cost, [x, y]))(
        [1.0, 2.0], [3.0]
    )
    np.testing.assert_allclose(one, 54 * np.eye(2))
    np.testing.assert_allclose(two, [[90.0]])


def test_a_draw_of_whole_numbers_has_no_gradient_by_its_law() -> None:
    srng = T.shared_randomstreams.RandomStreams(1)
    p = T.dvector("p")
    sample = srng.binomial(size=p.shape, n=1, p=p, dtype="float64")
    f = theano.function([p], sample)
    assert f([0.0, 1.0]).tolist() == [0.0, 1.0]
    with pytest.raises(NullTypeGradError, match=r"a draw of rng\.binomial"):
        T.grad((sample * p).sum(), p)
    slope = T.grad((sample * p).sum(), p, consider_constant=[sample])
    both = theano.function([p], [sample, slope])([0.5, 0.5])
    assert np.array_equal(*both)
    # Those of a smooth law move with it.
    mean = T.dscalar("mean")
    y = srng.normal((3,), avg=mean, std=2.0)
    assert T.grad(y.sum(), mean).eval({mean: 1.0}) == 3.0


def test_a_variable_of_a_type_written_in_place() -> None:
    x = T.tensor("float32", (False, True, False), name="x")
    assert (x.name, x.type) == ("x", T.TensorType("float32", (False, True, False)))


def test_sparse_constants_with_all_entries() -> None:
    import scipy.sparse

    S = scipy.sparse.csr_array([[0.0, 2.0], [3.0, 0.0]])
    assert np.array_equal(theano.sparse.dense_from_sparse(S).eval(), S.toarray())
