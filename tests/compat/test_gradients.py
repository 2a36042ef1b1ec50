"""`theano.gradient` at its edges: integers, what is disconnected, what is undefined.

Numbers against closed forms and differences; what is refused against what Theano's
own documentation says of each method.
"""

from __future__ import annotations

import inspect
from operator import attrgetter
from typing import Any, ClassVar

import numpy as np
import pytest
from scipy.spatial import distance

import workbench as wb
import workbench.compat.theano as theano
import workbench.compat.theano.tensor as T
from workbench.compat.theano import gof
from workbench.errors import (
    DisconnectedInputError,
    GradientError,
    NullTypeGradError,
    UsageError,
)
from workbench.gradient import DisconnectedType, NullType

# Integers


def at(y: Any, **values: Any) -> Any:
    return y.eval({**values})


def test_a_gradient_by_an_integer_is_that_of_the_real_number() -> None:
    i = T.iscalar("i")
    assert at(T.grad((i * 1.5) ** 2, i), i=3) == 13.5
    assert at(T.grad(T.cast(i, "float64") ** 2, i), i=3) == 6
    assert at(T.grad(T.exp(i / 2.0), i), i=2) == pytest.approx(np.exp(1) / 2)
    assert T.grad((i * 1.5) ** 2, i).dtype == "float64"


def test_what_an_integer_is_by_itself_is_one() -> None:
    i = T.iscalar("i")
    assert at(T.grad(i, i), i=12) == 1
    # An op that makes integers is a step function: 0, as Theano has it.
    assert at(T.grad(T.cast(i * 2, "float64"), i), i=12) == 0


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8"])
def test_a_matrix_of_integers_is_differentiated_as_floats_are(dtype: str) -> None:
    rng = np.random.default_rng(5)
    w, b = rng.standard_normal((3, 2)), rng.standard_normal(2)
    x = rng.integers(0, 4, (4, 3))

    def gradient(kind: str) -> Any:
        X = T.TensorType(kind, (False, False))("X")
        W, B = T.dmatrix("W"), T.dvector("B")
        cost = T.nnet.sigmoid(T.dot(X, W) + B).sum()
        f = theano.function([X, W, B], T.grad(cost, [X, W]))
        return f(x.astype(kind), w, b)

    by_integers, by_floats = gradient(dtype), gradient("float64")
    s = 1 / (1 + np.exp(-(x @ w + b)))
    np.testing.assert_allclose(by_integers[0], (s * (1 - s)) @ w.T)
    for one, other in zip(by_integers, by_floats, strict=True):
        np.testing.assert_allclose(one, other)


def test_products_jacobians_and_second_derivatives_by_integers() -> None:
    v, i = T.lvector("v"), T.iscalar("i")
    y = T.sqr(v * 0.5)
    x = np.array([1, 2, 5])
    np.testing.assert_allclose(
        at(theano.gradient.jacobian(y, v), v=x), np.diag(0.5 * x)
    )
    np.testing.assert_allclose(
        at(theano.gradient.Lop(y, v, T.ones((3,))), v=x), 0.5 * x
    )
    np.testing.assert_allclose(at(theano.gradient.hessian((i * 1.5) ** 2, i), i=3), 4.5)
    np.testing.assert_allclose(
        at(theano.gradient.hessian((y * v).sum(), v), v=x), np.diag(1.5 * x)
    )


def test_an_index_has_no_derivative_and_is_connected() -> None:
    x, i = T.dvector("x"), T.iscalar("i")
    by_x, by_i = T.grad(x[i] ** 2 * i, [x, i])
    assert at(by_x, x=[1.0, 3.0], i=1).tolist() == [0, 6]
    assert at(by_i, x=[1.0, 3.0], i=1) == 9
    assert at(T.grad(x[i], i), x=[1.0, 3.0], i=1) == 0
    with pytest.raises(DisconnectedInputError, match="'i'"):
        T.grad(x.sum(), i)


def test_known_gradients_and_names_by_integers() -> None:
    i, x = T.iscalar("i"), T.dscalar("x")
    h = i * x
    h.name = "h"
    cost = h**2
    cost.name = "cost"
    assert T.grad(cost, i).name == "(dcost/di)"
    by_h = T.grad(None, i, known_grads={h: 10.0})
    assert at(by_h, x=3.0, i=1) == 30
    held = T.grad(cost + i * 1.0, i, consider_constant=[h])
    assert at(held, x=3.0, i=1) == 1


def test_in_the_library_integers_do_not_vary() -> None:
    i = wb.tensor("i", dtype="int64", shape=())
    assert at(wb.gradient.grad((i * 1.5) ** 2, i), i=3) == 0


# What has no derivative


class Handed(theano.Op):
    """An op that hands on, for rules of any kind."""

    __props__: ClassVar[tuple[str, ...]] = ()

    def make_node(self, x: Any) -> Any:
        x = T.as_tensor_variable(x)
        return gof.Apply(self, [x], [x.type()])

    def perform(self, node: Any, inputs: Any, outputs: Any) -> None:
        outputs[0][0] = inputs[0].copy()


class Unmoved(Handed):
    def R_op(self, inputs: Any, eval_points: Any) -> Any:
        return [None]


class Cut(Handed):
    def grad(self, inputs: Any, grads: Any) -> Any:
        return [DisconnectedType()()]


class Undefined(Handed):
    def grad(self, inputs: Any, grads: Any) -> Any:
        return [NullType("a step")()]


@pytest.mark.parametrize("add", [False, True])
def test_a_tangent_of_none_is_an_error(add: bool) -> None:
    x, v = T.dvector("x"), T.dvector("v")
    y = Unmoved()(x) * 2
    says = r"Unmoved: Unmoved\.R_op .* returned None for output 0: .*0 \* inputs\[0\]"
    with pytest.raises(ValueError, match=says):  # Theano: ValueError
        T.Rop(x + y if add else y, x, v)


def test_a_rule_that_says_disconnected_is_believed() -> None:
    x, w = T.dvector("x"), T.dvector("w")
    y = Cut()(x).sum()
    with pytest.raises(DisconnectedInputError, match="does not depend on 'x'"):
        T.grad(y, x)
    with pytest.warns(UserWarning, match="does not depend on 'x'"):
        T.grad(y, x, disconnected_inputs="warn")
    zero = T.grad(y, x, disconnected_inputs="ignore")
    assert at(zero, x=[1.0, 2.0]).tolist() == [0, 0]
    none = T.grad(
        y, x, disconnected_inputs="ignore", return_disconnected="Disconnected"
    )
    assert isinstance(none, DisconnectedType)
    assert isinstance(none.type, DisconnectedType)
    # By another way it is connected; so is what is not behind the op.
    assert at(T.grad(y + (x * w).sum(), x), x=[1.0, 2.0], w=[3.0, 4.0]).tolist() == [
        3,
        4,
    ]
    # Two applications of one op: of one the operand is connected another way.
    both = T.grad(Cut()(x).sum() + Cut()(w).sum() + w.sum(), w)
    assert at(both, x=[1.0], w=[2.0]).tolist() == [1]


def test_a_gradient_that_is_a_null_type() -> None:
    x = T.dvector("x")
    y = Undefined()(x).sum()
    says = r"'x' cannot be computed: .*input 0 of Undefined .*\(a step\)"
    with pytest.raises(NullTypeGradError, match=says.replace("Undefined", ".*")):
        T.grad(y, x)
    null = T.grad(y, x, null_gradients="return")
    assert isinstance(null, NullType)
    assert isinstance(null.type, NullType)
    assert null.type.why_null == "a step"
    assert not isinstance(x.type, NullType)


def test_a_null_type_among_known_gradients() -> None:
    x, w = T.dvector("x"), T.dvector("w")
    h = x * 2
    with pytest.raises(NullTypeGradError, match="'x' cannot be computed"):
        T.grad(None, x, known_grads={h: NullType()()})
    found = T.grad(w.sum(), [w, x], known_grads={h: DisconnectedType()()},
                   disconnected_inputs="ignore")  # fmt: skip
    assert [g.tolist() for g in theano.function([x, w], found)([1.0], [1.0])] == [
        [1],
        [0],
    ]


def test_a_null_type_in_an_override() -> None:
    x, w = T.dvector("x"), T.dvector("w")
    op = theano.OpFromGraph(
        [x, w], [x * w],
        grad_overrides=[lambda inputs, grads: 3 * grads[0], lambda *_: NullType()()],
    )  # fmt: skip
    a, b = T.dvector("a"), T.dvector("b")
    y = op(a, b).sum()
    assert at(T.grad(y, a), a=[1.0], b=[2.0]).tolist() == [3]
    with pytest.raises(NullTypeGradError, match="'b' cannot be computed"):
        T.grad(y, b)


class Split(theano.Op):
    """A copy, and a number that does not depend on the input."""

    __props__: ClassVar[tuple[str, ...]] = ()

    def make_node(self, x: Any) -> Any:
        return gof.Apply(self, [x], [x.type(), T.dscalar()])

    def connection_pattern(self, node: Any) -> Any:
        return [[True, False]]

    def perform(self, node: Any, inputs: Any, outputs: Any) -> None:
        outputs[0][0], outputs[1][0] = inputs[0].copy(), np.asarray(1.0)

    def grad(self, inputs: Any, grads: Any) -> Any:
        return [grads[0]]


class Half(theano.Op):
    """The sum of one input, with no gradient by the other."""

    __props__: ClassVar[tuple[str, ...]] = ()

    def make_node(self, f: Any, g: Any) -> Any:
        return gof.Apply(self, [f, g], [T.dscalar()])

    def perform(self, node: Any, inputs: Any, outputs: Any) -> None:
        outputs[0][0] = np.asarray(inputs[0].sum())

    def grad(self, inputs: Any, grads: Any) -> Any:
        null = theano.gradient.grad_undefined(self, 1, inputs[1])
        return [inputs[0] * 0 + grads[0], null]


@pytest.mark.parametrize("known", [True, False])
def test_what_is_undefined_behind_a_cut_does_not_matter(known: bool) -> None:
    x: Any = wb.vector("x", shape=2) if known else T.dvector("x")
    f, g = Split()(x)
    assert at(T.grad(Half()(f, g), x), x=[1.0, 2.0]).tolist() == [1, 1]
    with pytest.raises(NullTypeGradError):
        T.grad(Half()(x * 1.0, x.sum()), x)


# Rop and verify_grad


def test_the_product_with_a_gradient_that_is_the_same_everywhere() -> None:
    x = T.dvector("x")
    slope = T.grad(T.dot(T.arange(3.0), x).sum(), x)
    assert at(T.Rop(slope, x, x), x=[1.0, 2.0, 3.0]).tolist() == [0, 0, 0]
    w = theano.shared(np.ones(20), "w")
    line = T.dot(T.arange(20.0).reshape((1, 20)), w).sum()
    assert T.Rop(T.grad(line, w), w, w).eval().tolist() == [0] * 20
    y = T.dvector("y")
    with pytest.raises(DisconnectedInputError, match="depends on none of 'x'"):
        T.Rop(y * 2, x, x)


class Cdist(theano.Op):
    """The seed's op."""

    __props__ = ()
    power = 1.0

    def __init__(self) -> None:
        super(Cdist, self).__init__()  # noqa: UP008  as the seed writes it

    def make_node(self, x: Any, w: Any) -> Any:
        return gof.Apply(self, [x, w], [x.type()])

    def perform(self, node: Any, inputs: Any, output_storage: Any) -> None:
        x, w = inputs[0], inputs[1]
        z = output_storage[0]
        z[0] = distance.cdist(x, w, "euclidean")

    def L_op(self, inputs: Any, outputs: Any, out_grads: Any) -> Any:
        x, y = inputs
        (z,) = outputs
        (g,) = out_grads
        diff = x.dimshuffle(0, "x", 1) - y.dimshuffle("x", 0, 1)
        diff = g.dimshuffle(0, 1, "x") * diff / z.dimshuffle(0, 1, "x") ** self.power
        return [T.sum(diff, axis=1), -T.sum(diff, axis=0)]


class WrongCdist(Cdist):
    power = 2.0


def test_verify_grad_of_the_seed_s_op() -> None:
    rng = np.random.RandomState(1)
    points = [rng.rand(4, 2), rng.rand(3, 2)]
    theano.gradient.verify_grad(Cdist(), points, rng=rng)
    theano.gradient.verify_grad(lambda x, w: T.sqr(Cdist()(x, w)), points, rng=rng)
    with pytest.raises(GradientError, match=r"argument [01] is wrong"):
        theano.gradient.verify_grad(WrongCdist(), points, rng=rng)


def test_verify_grad_of_what_takes_a_gradient() -> None:
    rng, point = np.random.RandomState(1), np.array([1.0, 2.0])
    cube = lambda x: T.grad((x**3).sum(), x)  # noqa: E731
    theano.gradient.verify_grad(cube, [point], rng=rng)

    def wrong(x: Any) -> Any:
        return T.grad((theano.gradient.zero_grad(x) * x**2).sum(), x)

    with pytest.raises(GradientError, match="argument 0 is wrong"):
        theano.gradient.verify_grad(wrong, [point], rng=rng)


# Words that were never any


@pytest.mark.parametrize(
    "given",
    [
        lambda x: theano.function([x], x * 2, mode="nonsense"),
        lambda x: theano.function([x], x * 2, mode=theano.Mode(linker="nonsense")),
        lambda x: theano.compile.get_mode("nonsense"),
        lambda x: theano.scan(lambda a: a, sequences=x, mode="nonsense"),
        lambda x: theano.map(lambda a: a, x, mode="nonsense"),
        lambda x: theano.reduce(lambda a, b: a + b, x, T.zeros(()), mode="nonsense"),
        lambda x: theano.gradient.verify_grad(
            lambda y: y * 2, [np.ones(2)], rng=np.random, mode="nonsense"
        ),
        lambda x: setattr(theano.config, "mode", "nonsense"),
        lambda x: setattr(theano.config, "linker", "nonsense"),
        lambda x: setattr(theano.config, "on_unused_input", "nonsense"),
        lambda x: setattr(theano.config, "compute_test_value", "nonsense"),
    ],
)
def test_a_word_that_is_none_is_refused_with_those_that_are(given: Any) -> None:
    with pytest.raises(UsageError, match="nonsense") as caught:
        given(T.dvector("x"))
    assert any(word in str(caught.value) for word in ("FAST_RUN", "cvm", "raise"))


@pytest.mark.parametrize(
    "mode", [None, "FAST_RUN", "FAST_COMPILE", "DebugMode", theano.Mode(linker="cvm")]
)
def test_the_modes_there_were_are_taken(mode: Any) -> None:
    x = T.dscalar("x")
    assert theano.function([x], x * 2, mode=mode)(3.0) == 6
    assert theano.compile.get_mode("FAST_RUN") is not None


# A few names


def test_names_that_cost_nothing() -> None:
    x = T.dmatrix("x")
    points = np.array([[1.0, 2.0], [0.0, 4.0]])
    assert at(T.elemwise.Prod(axis=1)(x), x=points).tolist() == [2, 0]
    assert at(T.elemwise.ProdWithoutZeros(axis=1)(x), x=points).tolist() == [2, 4]
    assert at(T.elemwise.Sum()(x), x=points) == 7
    assert theano.scalar.constant(2.0).value == 2
    assert theano.config.compute_test_value_opt == "off"


# Every signature that Theano documents for its gradients, by place and by keyword

DOCUMENTED = """
Lop(f, wrt, eval_points, consider_constant=None, disconnected_inputs='raise')
Rop(f, wrt, eval_points)
consider_constant(x)
disconnected_grad(x)
format_as(use_list, use_tuple, outputs)
grad(cost, wrt, consider_constant=None, disconnected_inputs='raise', add_names=True, \
known_grads=None, return_disconnected='zero', null_gradients='raise')
grad_clip(x, lower_bound, upper_bound)
grad_not_implemented(op, x_pos, x, comment='')
grad_undefined(op, x_pos, x, comment='')
hessian(cost, wrt, consider_constant=None, disconnected_inputs='raise')
jacobian(expression, wrt, consider_constant=None, disconnected_inputs='raise')
numeric_grad(f, pt, eps=None, out_type=None)
subgraph_grad(wrt, end, start=None, cost=None, details=False)
verify_grad(fun, pt, n_tests=2, rng=None, eps=None, out_type=None, abs_tol=None, \
rel_tol=None, mode=None, cast_to_output_type=False)
zero_grad(x)
GradientError(arg, err_pos, abs_err, rel_err, abs_tol, rel_tol)
numeric_grad.abs_rel_err(a, b)
numeric_grad.abs_rel_errors(self, g_pt)
numeric_grad.max_err(self, g_pt, abs_tol, rel_tol)
""".strip().splitlines()


@pytest.mark.parametrize("module", [theano.gradient, wb.gradient])
@pytest.mark.parametrize("line", DOCUMENTED, ids=lambda line: line.partition("(")[0])
def test_every_documented_signature(module: Any, line: str) -> None:
    name, _, parameters = line.partition("(")
    scope: dict[str, Any] = {}
    exec(f"def told({parameters}: pass", scope)
    told = [*inspect.signature(scope["told"]).parameters.values()]
    function = attrgetter(name)(module)
    ours = [*inspect.signature(function).parameters.values()]
    for want, have in zip(told, ours, strict=False):
        assert (want.name, want.default) == (have.name, have.default)
    # What runs, not what a wrapper says of it.
    runs = inspect.signature(function, follow_wrapped=False)
    runs.bind(*[p.name for p in told])
    runs.bind(**{p.name: p.name for p in told})


x, y, i = T.dscalar("x"), T.dvector("y"), T.iscalar("i")
h = x * x
two = np.array([1.0, 10.0])

BY_KEYWORD: dict[str, tuple[Any, Any]] = {
    "grad": (lambda m: m.grad(cost=x**2, wrt=x), 6.0),
    "grad by an integer": (
        lambda m: theano.grad(cost=(i * 1.5) ** 2, wrt=i), 13.5),
    "grad of all": (
        lambda m: m.grad(
            cost=h + x, wrt=x, consider_constant=[h], disconnected_inputs="ignore",
            add_names=False, known_grads=None, return_disconnected="zero",
            null_gradients="return"),
        1.0),
    "known_grads by place": (
        lambda m: m.grad(None, x, None, "raise", True, {h: T.constant(10.0)}), 60.0),
    "known_grads of an integer by place": (
        lambda m: theano.grad(None, i, None, "raise", True, {i * 1.5: 10.0}), 15.0),
    "Lop": (
        lambda m: m.Lop(f=y * x, wrt=x, eval_points=T.constant(two),
                        consider_constant=None, disconnected_inputs="raise"), 52.0),
    "Lop of an integer": (
        lambda m: theano.Lop(f=i * y, wrt=i, eval_points=T.constant(two)), 52.0),
    "Rop": (lambda m: m.Rop(f=y * x, wrt=x, eval_points=T.constant(2.0)), [4.0, 10.0]),
    "jacobian": (
        lambda m: m.jacobian(expression=y * x, wrt=x, consider_constant=[y],
                             disconnected_inputs="raise"), [2.0, 5.0]),
    "hessian": (
        lambda m: m.hessian(cost=T.sum(y**3), wrt=y, consider_constant=None,
                            disconnected_inputs="raise"), np.diag([12.0, 30.0])),
    "subgraph_grad": (
        lambda m: m.subgraph_grad(wrt=[x], end=[y], start={h: T.constant(1.0)},
                                  cost=T.sum(y * x), details=False)[0][0], 13.0),
    "grad_clip": (
        lambda m: m.grad(m.grad_clip(x=x, lower_bound=-1, upper_bound=1) ** 2, x), 1.0),
    "zero_grad": (lambda m: m.grad(m.zero_grad(x=x) * x, x), 3.0),
    "disconnected_grad": (lambda m: m.grad(m.disconnected_grad(x=x) * x, x), 3.0),
    "consider_constant": (lambda m: m.grad(m.consider_constant(x=x) * x, x), 3.0),
    "format_as": (
        lambda m: m.format_as(use_list=False, use_tuple=True, outputs=x)[0], 3.0),
}  # fmt: skip


@pytest.mark.parametrize("module", [theano.gradient, wb.gradient])
@pytest.mark.parametrize("name", BY_KEYWORD)
def test_every_documented_keyword_gives_its_value(module: Any, name: str) -> None:
    make, want = BY_KEYWORD[name]
    f = theano.function([x, y, i], make(module), on_unused_input="ignore")
    np.testing.assert_allclose(f(3.0, [2.0, 5.0], 3), want, rtol=1e-12)


def test_the_other_documented_keywords() -> None:
    for module in (theano, T, theano.gradient):
        assert at(module.grad(cost=x**2, wrt=x), x=3.0) == 6.0
    for make in (theano.gradient.grad_undefined, theano.gradient.grad_not_implemented):
        null = make(op=T.tanh, x_pos=0, x=x, comment="said so")
        with pytest.raises(NullTypeGradError, match="said so"):
            T.grad(cost=x**2, wrt=x, known_grads={x: null})
    theano.gradient.verify_grad(
        fun=T.tanh, pt=[np.array([0.3, -0.7])], n_tests=1, rng=np.random, eps=1e-6,
        out_type="float64", abs_tol=1e-4, rel_tol=1e-4, mode="FAST_RUN",
        cast_to_output_type=True,
    )  # fmt: skip
    found = theano.gradient.numeric_grad(
        f=lambda x: x**2, pt=np.array(3.0), eps=1e-6, out_type="float64"
    )
    np.testing.assert_allclose(found.gf, 6.0, rtol=1e-6)
    told = theano.gradient.GradientError(
        arg=1, err_pos=2, abs_err=3.0, rel_err=4.0, abs_tol=5.0, rel_tol=6.0
    )
    assert (told.arg, told.err_pos, told.abs_tol, told.rel_tol) == (1, 2, 5.0, 6.0)


def test_an_unknown_keyword_is_told_with_the_name_of_the_function() -> None:
    x = theano.tensor.dscalar()
    with pytest.raises(TypeError, match=r"^grad\(\): .*'bogus'"):
        theano.grad(x**2, x, bogus=1)
