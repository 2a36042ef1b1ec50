"""PyTensor's names: Theano's, and those that came since.

Values are checked against SciPy and derivatives written by hand.
"""

from __future__ import annotations

import importlib
import sys
import textwrap
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import scipy.linalg
import scipy.special

import workbench.compat.pytensor.tensor as pt
from workbench.compat import pytensor
from workbench.errors import GradUndefinedError, ShapeError, TraceError, UsageError


@pytest.fixture
def installed() -> Iterator[None]:
    pytensor.install()
    try:
        yield
    finally:
        pytensor.uninstall()


PROGRAM = """
    import numpy as np
    import pytensor
    import pytensor.tensor as pt
    import pytensor.tensor.linalg as ptl
    from pytensor.compile.function import function
    from pytensor.compile.ops import as_op
    from pytensor.configdefaults import config
    from pytensor.gradient import verify_grad
    from pytensor.graph.basic import Apply, Constant, ancestors
    from pytensor.graph.op import Op
    from pytensor.raise_op import Assert
    from pytensor.scan.basic import scan
    from pytensor.tensor.variable import TensorVariable

    class Normal(Op):
        def make_node(self, x):
            x = pt.as_tensor(x)
            return Apply(self, [x], [pt.dscalar()])

        def perform(self, node, inputs, outputs):
            outputs[0][0] = np.array(-0.5 * (inputs[0] ** 2).sum())

        def grad(self, inputs, g):
            return [-g[0] * inputs[0]]

    x, A = pt.vector("x", shape=(3,)), pt.dmatrix("A")
    density = Normal()(pt.matmul(A, x))
    f = function([x, A], [density, *pytensor.grad(density, [x, A])], mode="NUMBA")

    steps = scan(lambda x, s: s * x, sequences=x, outputs_info=pt.constant(1.0),
                 return_updates=False)
    g = pytensor.function([x], [steps, pytensor.grad(steps[-1], x)])
    is_variable = isinstance(x, TensorVariable) and x in ancestors([density])
    kind = x.dtype + "!"
"""


@pytest.mark.usefixtures("installed")
def test_a_program_runs_as_it_stands() -> None:
    space: dict[str, Any] = {"__name__": "program"}
    exec(textwrap.dedent(PROGRAM), space)
    x, A = np.array([1.0, 2.0, 3.0]), np.arange(6.0).reshape(2, 3)
    y = A @ x
    value, by_x, by_A = space["f"](x, A)
    assert value == -0.5 * y @ y
    np.testing.assert_allclose(by_x, -A.T @ y, rtol=1e-15)
    np.testing.assert_allclose(by_A, -np.outer(y, x), rtol=1e-15)
    steps, slope = space["g"](x)
    assert steps.tolist() == [1.0, 2.0, 6.0]
    assert slope.tolist() == [6.0, 3.0, 2.0]
    assert (space["is_variable"], space["kind"]) == (True, "float64!")


@pytest.mark.usefixtures("installed")
def test_every_module_is_found_and_gone_again() -> None:
    for place in pytensor.NAMESPACE.modules:
        name = f"pytensor.{place}"
        assert importlib.import_module(name) is sys.modules[name]
    with pytest.raises(ModuleNotFoundError, match=r"pytensor\.link is not known"):
        importlib.import_module("pytensor.link.jax")
    pytensor.uninstall()
    assert not [name for name in sys.modules if name.partition(".")[0] == "pytensor"]


@pytest.mark.usefixtures("installed")
def test_a_function_hides_the_module_of_its_name() -> None:
    space: dict[str, Any] = {}
    exec(
        "import pytensor.tensor.basic as basic\n"
        "from pytensor.tensor.shape import shape\n"
        "from pytensor.tensor.sort import sort\n",
        space,
    )
    assert space["basic"] is pt.type is pt.math is pt
    A = pt.dmatrix("A")
    at = np.array([[3.0, 1.0, 2.0]])
    for found in (pt.sort(A), space["sort"](A)):
        np.testing.assert_array_equal(found.eval({A: at}), [[1.0, 2.0, 3.0]])
    for lengths in (pt.shape(A), space["shape"](A)):
        assert pytensor.function([A], lengths)(at).tolist() == [1, 3]


@pytest.mark.usefixtures("installed")
def test_the_names_that_there_are_are_listed() -> None:
    assert {"exp", "logsumexp", "sort", "softplus", "math"} <= set(dir(pt))
    assert {"cholesky", "solve_triangular", "slogdet"} <= set(dir(pt.linalg))
    assert {"expit", "softmax"} <= set(dir(pt.special))
    assert {"function", "tensor", "gradient"} <= set(dir(pytensor))
    assert {"ancestors", "basic"} <= set(dir(pytensor.graph))
    for module in (pytensor, pytensor.graph, pt, pt.linalg, pt.special):
        assert [n for n in dir(module) if not hasattr(module, n)] == []
    with pytest.raises(ModuleNotFoundError, match=r"has compile, .*graph\.basic"):
        importlib.import_module("pytensor.graph.rewriting")


@pytest.mark.parametrize("also_installed", [False, True])
def test_theano_stays_as_it_is_when_pytensor_goes(also_installed: bool) -> None:
    from workbench.compat import theano

    x = pt.vector("x")
    theano.install()
    try:
        if also_installed:
            pytensor.install()
        pytensor.uninstall()
        assert x.dtype + "!" == "float64!"
        assert bool(x)
    finally:
        theano.uninstall()
    assert type(x.dtype) is type(np.dtype(float))
    with pytest.raises(TraceError):
        bool(x)


def test_functions_that_theano_did_not_have() -> None:
    x, m = pt.vector("x"), pt.matrix("m")
    at, A = np.array([0.3, 1.0, 2.0]), np.diag([1.0, 2.0, 4.0]) + 0.1
    pairs = {
        "softplus": (pt.softplus(x), np.log1p(np.exp(at))),
        "sigmoid": (pt.sigmoid(x), scipy.special.expit(at)),
        "log1mexp": (pt.log1mexp(-x), np.log(1 - np.exp(-at))),
        "logsumexp": (pt.logsumexp(x), scipy.special.logsumexp(at)),
        "softmax": (pt.special.softmax(x), scipy.special.softmax(at)),
        "betaln": (pt.special.betaln(x, 2.0), scipy.special.betaln(at, 2.0)),
        "einsum": (pt.einsum("ij,j->i", m, x), A @ at),
        "expand_dims": (pt.expand_dims(x, 0), at[None]),
        "full": (pt.full((2, x.shape[0]), x[1]), np.full((2, 3), 1.0)),
        "full_like": (pt.full_like(x, 2), np.full(3, 2.0)),
        "det": (pt.linalg.det(m), np.linalg.det(A)),
        "solve_triangular": (
            pt.linalg.solve_triangular(m, x, lower=True),
            np.linalg.solve(np.tril(A), at),
        ),
        "set": (x[1:].set(7.0), [0.3, 7.0, 7.0]),
        "inc": (x[0].inc(1.0), [1.3, 1.0, 2.0]),
    }
    f = pytensor.function(
        [x, m], [y for y, _ in pairs.values()], on_unused_input="ignore"
    )
    for name, found, (_, want) in zip(pairs, f(at, A), pairs.values(), strict=True):
        np.testing.assert_allclose(found, want, rtol=1e-14, err_msg=name)
    slope = pytensor.function([x], pytensor.grad(pt.sum(pt.log1mexp(-x)), x))
    tiny = np.array([1e-20, 0.5, 800.0])  # where either form alone loses all digits
    np.testing.assert_allclose(
        slope(tiny), -np.exp(-tiny) / np.expm1(-tiny), rtol=1e-14
    )


def test_arguments_stand_where_pytensor_has_them() -> None:
    x, A = pt.vector("x"), pt.matrix("A")
    at, B = np.array([0.3, np.nan, np.inf]), np.array([[1.0, 2.0], [3.0, 5.0]])
    rows = np.log(np.exp(B).sum(1, keepdims=True))
    pairs = [
        (pt.logsumexp(A, 1, True), rows),
        (pt.logsumexp(A, 1, False), rows[:, 0]),
        (pt.logsumexp(A, [0, 1]), np.log(np.exp(B).sum())),
        (pt.nan_to_num(x, 7.0, 8.0), [0.3, 7.0, 8.0]),
        (pt.nan_to_num(-x, 7.0, 8.0, 9.0), [-0.3, 7.0, 9.0]),
        (pt.logaddexp(A, A, 2 * A), np.log(2 * np.exp(B) + np.exp(2 * B))),
    ]
    f = pytensor.function([x, A], [found for found, _ in pairs])
    for found, (_, want) in zip(f(at, B), pairs, strict=True):
        np.testing.assert_allclose(found, want, rtol=1e-14)
    with pytest.raises(UsageError, match=r"write tensor\(dtype='float32', shape="):
        pt.tensor("float32", shape=(None,))


MATRIX = np.array([[4.0, 1.0], [1.0, 3.0]])


def test_matrices_by_spellings_of_pytensor() -> None:
    A, b, B = pt.matrix("A"), pt.vector("b"), pt.matrix("B")
    at, sides = np.array([1.0, 2.0]), np.array([[1.0, 2.0], [5.0, -1.0], [0.0, 3.0]])
    each = np.stack([scipy.linalg.solve(MATRIX, row) for row in sides])
    low = scipy.linalg.cholesky(MATRIX, lower=True)
    linalg = pt.linalg
    pairs = [
        (linalg.cholesky(A), low),
        (linalg.cholesky(A, lower=False), low.T),
        (linalg.solve(A, b, b_ndim=1), scipy.linalg.solve(MATRIX, at)),
        (linalg.solve(A, b, assume_a="pos"), scipy.linalg.solve(MATRIX, at)),
        (linalg.solve(A, B.T, b_ndim=2), each.T),
        (linalg.solve(A, B, b_ndim=1), each),  # a stack of vectors
        (
            linalg.solve_triangular(A, b, lower=True, b_ndim=1),
            scipy.linalg.solve_triangular(MATRIX, at, lower=True),
        ),
        (
            linalg.cho_solve((linalg.cholesky(A), True), b, b_ndim=1),
            scipy.linalg.solve(MATRIX, at),
        ),
        (linalg.norm(A, 2, axis=0), np.linalg.norm(MATRIX, 2, axis=0)),
    ]
    f = pytensor.function([A, b, B], [y for y, _ in pairs], trust_input=True)
    for found, (_, want) in zip(f(MATRIX, at, sides), pairs, strict=True):
        np.testing.assert_allclose(found, want, rtol=1e-13)
    with pytest.raises(ShapeError, match=r"solve: b has 1 axes, and b_ndim=2\. Write"):
        linalg.solve(A, b, b_ndim=2)
    with pytest.raises(UsageError, match="on_error='nan'"):
        linalg.cholesky(A, on_error="nan")


def test_programs_by_spellings_of_pytensor() -> None:
    x, y = pt.scalars("x", "y")
    assert float(pytensor.clone_replace(x**2, {x: y}).eval({y: 3.0})) == 9.0
    with pytensor.config.change_flags(floatX="float32"):
        assert pt.scalar().dtype == "float32"
    assert pytensor.config.floatX == "float64"
    w = pytensor.shared(np.ones((2, 3)), "w", shape=(None, 3))
    assert w.shape[1] == 3
    w.set_value(np.ones((5, 3)))
    with pytest.raises(ShapeError):
        w.set_value(np.ones((5, 2)))

    @pytensor.compile.ops.wrap_py(itypes=[pt.dscalar], otypes=[pt.dscalar])
    def double(x: Any) -> Any:
        return np.asarray(2.0 * x)

    assert float(double(x).eval({x: 4.0})) == 8.0


@pytest.mark.parametrize(
    "make",
    [
        lambda: pytensor.function(pt.scalar("x"), 1.0),
        lambda: pytensor.function([], [], mode="FASTEST"),
        lambda: pytensor.shared(1.0, taste="sweet"),
        lambda: pytensor.compile.mode.Mode(linker="fastest"),
        lambda: pytensor.config.change_flags(floatX="float8").__enter__(),
        lambda: pytensor.config.flavour,
        lambda: pytensor.graph.Apply(None, [], []),
        lambda: pytensor.graph.Type()(),
        lambda: pytensor.scan(lambda: 1.0, n_steps=2, mode="FASTEST"),
    ],
)
def test_errors_do_not_name_theano(make: Any) -> None:
    with pytest.raises((UsageError, AttributeError, NotImplementedError)) as told:
        make()
    assert "theano" not in str(told.value)


def test_shapes_of_symbols() -> None:
    x = pt.tensor("x", dtype="float32", shape=(None, 3, 1))
    assert x.shape[1:] == (3, 1)
    assert (x.name, x.dtype, x.type.shape) == ("x", "float32", (None, None, 1))
    kind = pt.TensorType("float64", shape=(None, 2))
    assert (
        kind == pt.TensorType("float64", (None, 2)) != pt.TensorType("float64", (0, 0))
    )
    assert repr(kind) == "TensorType(float64, shape=(None, 2))"
    assert kind.is_valid_value(np.ones((5, 2)))
    assert not kind.is_valid_value(np.ones((5, 3)))
    assert pt.dmatrix("m", shape=(2, None)).shape[0] == 2
    with pytest.raises(ShapeError, match=r"shape=\(2,\) has not the 2 axes"):
        pt.matrix("m", shape=(2,))
    empty = pt.TensorType("float64", shape=(2, 0))
    assert (empty.shape, empty.clone(dtype="int8").shape) == ((2, 0), (2, 0))
    assert empty("x").shape == (2, 0)
    assert not empty.is_valid_value(np.ones((2, 1)))
    assert pt.tensor("x", shape=(0,)).shape == pt.vector("x", shape=(0,)).shape == (0,)
    assert pt.vector("x").type.clone(shape=(3,)).shape == (3,)
    assert pt.row("x").type.clone("float32").shape == (1, None)
    for shape, wrong in {(2.5, 3): "2.5", (3, -1): "-1"}.items():
        with pytest.raises(ShapeError, match=rf"{wrong} is no length\. Write a whole"):
            pt.TensorType("float64", shape=shape)
    for make in (pt.vector, pt.dvector, pt.tensor):
        with pytest.raises(ShapeError, match=r"write shape=\(3,\)"):
            make("a", shape=3)


def test_graphs_by_names_of_pytensor() -> None:
    x, y = pt.scalars("x", "y")
    w = pytensor.shared(2.0, "w")
    z = w * x + 1.0
    assert pytensor.graph.explicit_graph_inputs([z]) == [x]
    assert float(pytensor.graph.clone_replace(z, {x: y}).eval({y: 3.0})) == 7.0
    assert [n.op.name for n in pytensor.graph.toposort([z])] == ["multiply", "add"]


def test_draws_of_a_stream() -> None:
    loc = pt.scalar("loc")
    stream = pt.random.RandomStream(seed=1)
    normal, poisson = (
        stream.normal(loc, scale=2.0, size=(9000,)),
        stream.poisson(lam=3.0),
    )
    picked, order = (
        stream.choice(5, size=(4,), p=[0, 0, 1, 0, 0]),
        stream.permutation(4),
    )
    f = pytensor.function([loc], [normal, poisson, picked, order])
    (first, whole, picks, turned), (second, *_) = f(1.0), f(1.0)
    assert abs(first.mean() - 1.0) < 0.15  # seven standard errors
    assert abs(first.std() - 2.0) < 0.15
    assert not np.array_equal(first, second)
    assert whole == int(whole) >= 0
    assert picks.tolist() == [2] * 4
    assert sorted(turned) == [0, 1, 2, 3]
    stream.seed(7)
    again = f(1.0)[0]
    stream.seed(7)
    assert np.array_equal(f(1.0)[0], again)
    with pytest.raises(AttributeError, match=r"names are those of np\.random"):
        _ = stream.normale


def test_draws_of_floats_are_of_the_configured_dtype() -> None:
    stream = pt.random.RandomStream(seed=1)
    with pytensor.change_flags(floatX="float32"):
        smooth = [stream.normal(), stream.gamma(2.0), stream.wald(1.0, 2.0)]
        assert [z.dtype for z in smooth] == ["float32"] * 3
        assert stream.poisson(3.0).dtype == stream.choice(5).dtype == "int64"
        assert stream.normal(dtype="float64").dtype == "float64"
    assert stream.normal().dtype == "float64"


def test_gradients_of_draws_by_their_laws() -> None:
    scale = pt.scalar("scale")
    stream = pt.random.RandomStream(seed=1)
    for draw, factor in (  # z = scale * noise, or z = exp(scale + noise)
        (stream.exponential(scale, size=(4,)), 0.5),
        (stream.gamma(2.0, scale, size=(4,)), 0.5),
        (stream.lognormal(scale, 1.0, size=(4,)), 1.0),
    ):
        f = pytensor.function([scale], [draw, pytensor.grad(draw.sum(), scale)])
        values, slope = f(2.0)
        np.testing.assert_allclose(slope, factor * values.sum(), rtol=1e-13)
    for law, draw in {
        "wald": stream.wald(scale, 1.0),
        "poisson": stream.poisson(scale, dtype="float64"),
    }.items():
        with pytest.raises(GradUndefinedError, match=rf"draw of rng\.{law} has no"):
            pytensor.grad(draw, scale)


def test_updates_are_not_lost() -> None:
    count = pytensor.shared(0.0)

    def step(x: Any) -> Any:
        return x, {count: count + 1}

    with pytest.raises(UsageError, match="return_updates=False would lose"):
        pytensor.scan(step, sequences=pt.vector("x"), return_updates=False)


@pytest.mark.parametrize(
    ("module", "name"), [(pytensor, "dot2"), (pt, "dot2"), (pt.linalg, "dot2")]
)
def test_what_is_not_known_is_an_error(module: Any, name: str) -> None:
    with pytest.raises(AttributeError, match=rf"pytensor.*\.{name} is not known"):
        getattr(module, name)
    with pytest.raises(UsageError, match="mode='FASTEST' is not a mode of Theano's or"):
        pytensor.function([], [], mode="FASTEST")
