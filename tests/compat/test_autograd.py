"""autograd's names: derivatives, its habits, and functions with rules of one's own.

Values are checked against derivatives written by hand, complex steps and SciPy.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap
import warnings
from collections import OrderedDict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import scipy.signal
import scipy.special
import scipy.stats

import workbench as wb
import workbench.compat.autograd.numpy as anp
from workbench.compat import autograd
from workbench.compat.autograd import (
    core,
    deriv,
    elementwise_grad,
    grad,
    grad_and_aux,
    grad_named,
    hessian,
    hessian_vector_product,
    holomorphic_grad,
    jacobian,
    make_ggnvp,
    make_hvp,
    make_jvp,
    make_vjp,
    multigrad_dict,
    tensor_jacobian_product,
    value_and_grad,
)
from workbench.compat.autograd.extend import (
    Box,
    VSpace,
    def_linear,
    defjvp,
    defvjp,
    defvjp_argnum,
    notrace_primitive,
    primitive,
    vspace,
)
from workbench.compat.autograd.misc import const_graph, flatten, optimizers
from workbench.compat.autograd.misc.fixed_points import fixed_point
from workbench.compat.autograd.scipy import signal, special, stats
from workbench.compat.autograd.test_util import check_grads, combo_check
from workbench.compat.autograd.tracer import Node, getval, isbox, trace
from workbench.errors import UsageError


@pytest.fixture
def installed() -> Iterator[None]:
    autograd.install()
    try:
        yield
    finally:
        autograd.uninstall()


def complex_step(f: Any, x: Any, h: float = 1e-30) -> Any:
    """The derivative of a function of one real number, to the last digit."""
    return np.imag(f(x + 1j * h)) / h


# Derivatives


def test_gradients_by_position_and_name() -> None:
    def f(x: Any, y: Any) -> Any:
        return anp.sum(x**2 * anp.sin(y))

    x, y = np.array([1.0, 2.0]), np.array([0.3, 0.4])
    by_x, by_y = 2 * x * np.sin(y), x**2 * np.cos(y)
    np.testing.assert_allclose(grad(f)(x, y), by_x, rtol=1e-15)
    np.testing.assert_allclose(grad(f, 1)(x, y), by_y, rtol=1e-15)
    np.testing.assert_allclose(grad_named(f, "y")(x, y), by_y, rtol=1e-15)
    for made in (grad(f, (0, 1))(x, y), grad(f, [0, 1])(x, y)):
        assert isinstance(made, tuple)
        np.testing.assert_allclose(made[1], by_y, rtol=1e-15)
    value, g = value_and_grad(f)(x, y)
    assert value == np.sum(x**2 * np.sin(y))
    np.testing.assert_allclose(g, by_x, rtol=1e-15)
    found = multigrad_dict(f)(x, y)
    assert isinstance(found, OrderedDict)
    np.testing.assert_allclose(found["y"], by_y, rtol=1e-15)


def test_integers_and_objects_are_floats() -> None:
    assert grad(lambda x: x**3)(2) == 12.0
    assert type(grad(lambda x: x**3)(np.int32(2))) is np.float64
    g = grad(lambda x: anp.sum(x**3))(np.array([1, 2]))
    assert g.dtype == float
    assert np.array_equal(g, [3.0, 12.0])
    g = grad(lambda x: anp.sum(x**3))(np.array([1, 2.0], dtype=object))
    assert np.array_equal(g, [3.0, 12.0])
    g = grad(lambda p: p["a"] * p["b"][0])({"a": 2, "b": [5]})
    assert g == {"a": 5.0, "b": [2.0]}
    # Of the library itself no such habit is known.
    with pytest.raises(TypeError, match="int"):
        wb.grad(lambda x: x**3)(2)


def test_a_result_with_one_entry_is_a_number() -> None:
    x = np.array([2.0])
    assert np.array_equal(grad(lambda x: x**2)(x), [4.0])
    assert np.array_equal(grad(lambda x: anp.reshape(x**2, (1, 1)))(x), [4.0])
    with pytest.raises(TypeError, match="one number"):
        grad(lambda x: x**2)(np.ones(2))
    with pytest.raises(TypeError, match="one number"):
        value_and_grad(lambda x: x**2)(np.ones(2))
    with pytest.raises(AssertionError, match="position"):
        grad(anp.sum, "x")


def test_higher_orders() -> None:
    f = anp.tanh
    for _ in range(3):
        f = elementwise_grad(f)
    x = np.linspace(-1, 1, 5)
    y = np.tanh(x)
    third = (1 - y**2) * (6 * y**2 - 2)
    np.testing.assert_allclose(f(x), third, rtol=1e-12, atol=1e-14)
    with pytest.raises(TypeError, match="real-output"):
        elementwise_grad(lambda x: x * 1j)(x)


def test_matrices_and_products() -> None:
    A = np.array([[2.0, 1.0, 0.0], [0.0, 3.0, 1.0]])

    def f(x: Any, c: Any = 1.0) -> Any:
        return c * anp.dot(A, x) ** 2

    x, v, u = np.array([1.0, -1.0, 0.5]), np.array([0.2, 0.3, -1.0]), np.ones(2)
    J = 2 * (A @ x)[:, None] * A
    np.testing.assert_allclose(jacobian(f)(x), J, rtol=1e-14)
    np.testing.assert_allclose(make_jvp(f)(x)(v)[1], J @ v, rtol=1e-14)
    np.testing.assert_allclose(tensor_jacobian_product(f)(x, u), u @ J, rtol=1e-14)
    vjp, value = make_vjp(f)(x, c=2.0)
    np.testing.assert_allclose(value, 2 * (A @ x) ** 2)
    np.testing.assert_allclose(vjp(u), 2 * u @ J, rtol=1e-14)
    np.testing.assert_allclose(vjp([1, 1]), 2 * u @ J, rtol=1e-14)

    def loss(x: Any) -> Any:
        return anp.sum(f(x))

    H = 2 * A.T @ A
    np.testing.assert_allclose(hessian(loss)(x), H, rtol=1e-14)
    np.testing.assert_allclose(hessian(f)(x).sum(0), H, rtol=1e-14)
    np.testing.assert_allclose(hessian_vector_product(loss)(x, v), H @ v, rtol=1e-14)
    hvp, g = make_hvp(loss)(x)
    np.testing.assert_allclose(g, 2 * A.T @ (A @ x), rtol=1e-14)
    np.testing.assert_allclose(hvp(v), H @ v, rtol=1e-14)
    np.testing.assert_allclose(make_ggnvp(f)(x)(v), J.T @ (J @ v), rtol=1e-14)
    g, aux = grad_and_aux(lambda x: (loss(x), x + 1))(x)
    np.testing.assert_allclose(aux, x + 1)
    np.testing.assert_allclose(g, 2 * A.T @ (A @ x), rtol=1e-14)


def test_forward_mode_and_complex() -> None:
    assert deriv(anp.sin)(1.0) == np.cos(1.0)
    z = 0.3 + 0.4j
    assert abs(holomorphic_grad(anp.exp)(z) - np.exp(z)) < 1e-15

    def f(x: Any) -> Any:
        return anp.real(anp.exp(1j * x) * x)

    want = complex_step(lambda x: x * np.cos(x), 0.7)
    assert abs(grad(f)(0.7) - want) < 1e-15


def test_a_checkpoint_has_the_same_gradient() -> None:
    f = autograd.checkpoint(lambda x: anp.sum(anp.sin(x) ** 2))
    x = np.array([0.1, 0.7])
    np.testing.assert_allclose(grad(f)(x), np.sin(2 * x), rtol=1e-14)


# NumPy and SciPy


def test_arrays_of_tensors() -> None:
    def f(x: Any) -> Any:
        rows = anp.stack(x[i] * anp.ones(2) for i in range(3))
        more = anp.concatenate(anp.array([x[i], 1.0]) for i in range(2))
        filled = anp.zeros(3)
        filled[1] = x[1] ** 2
        tall = anp.vstack([anp.full(2, x[0]), anp.array([x[1], x[2]])])
        joined = anp.r_[x, 1.0]
        return (
            anp.sum(rows) + anp.sum(more) + anp.sum(filled) + anp.sum(tall)
            + anp.sum(joined) + anp.sum(anp.hstack((x, x))) + anp.append(x, x)[0]
        )  # fmt: skip

    x = np.array([1.0, 2.0, 3.0])
    np.testing.assert_allclose(grad(f)(x), [9.0, 11.0, 6.0], rtol=1e-15)
    D = jacobian(lambda x: anp.make_diagonal(x, axis1=-1, axis2=-2))(x)
    assert np.array_equal(D[1], [[0, 0, 0], [0, 1, 0], [0, 0, 0]])


def test_names_of_numpy_and_those_that_nobody_has() -> None:
    assert anp.sin is np.sin
    assert anp.linalg.svd is np.linalg.svd
    assert {"sin", "linalg", "random"} <= set(anp.__all__)
    with pytest.raises(AttributeError, match=r"autograd\.numpy\.sinn is not known"):
        _ = anp.sinn
    with pytest.raises(AttributeError, match=r"autograd\.scipy\.signal\.foo is not"):
        _ = signal.foo
    with pytest.raises(AttributeError, match=r"autograd\.gradd is not known"):
        _ = autograd.gradd


def test_cotangents_of_broadcast_arguments() -> None:
    x, y = np.ones((3, 1)), np.ones(4)
    g = np.arange(12.0).reshape(3, 4)
    for target, want in ((x, g.sum(1, keepdims=True)), (y, g.sum(0)), (1.0, g.sum())):
        made = anp.unbroadcast_f(target, lambda g: 2 * g)(g)
        assert np.shape(made) == np.shape(target)
        assert np.array_equal(made, 2 * want)
    made = anp.unbroadcast(g * 1j, anp.metadata(y))
    assert np.array_equal(made, np.zeros(4))  # the real part, of a real argument


def test_functions_of_scipy() -> None:
    assert abs(grad(special.gammaln)(2.5) - scipy.special.psi(2.5)) < 1e-15
    x = np.array([0.3, -1.0])
    soft = scipy.special.softmax(x)
    np.testing.assert_allclose(grad(special.logsumexp)(x), soft, rtol=1e-14)
    g = grad(lambda x: stats.norm.logpdf(x, 1.0, 2.0))(0.5)
    assert abs(g - 0.125) < 1e-15
    S = np.array([[2.0, 0.3], [0.3, 1.0]])
    g = grad(lambda m: stats.multivariate_normal.logpdf(x, m, S))(np.zeros(2))
    np.testing.assert_allclose(g, np.linalg.solve(S, x), rtol=1e-13)
    assert stats.norm.cdf(0.0) == 0.5


def convolve_by_loops(A: Any, B: Any, mode: str) -> Any:
    """Along the last axes, summed over the second of A and the first of B."""
    made = [
        [
            sum(
                scipy.signal.convolve(A[n, c], B[c, k], mode) for c in range(B.shape[0])
            )
            for k in range(B.shape[1])
        ]
        for n in range(A.shape[0])
    ]
    return np.array(made)


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
def test_convolution_over_chosen_axes(mode: str, rng: np.random.Generator) -> None:
    A, B = rng.normal(size=(2, 3, 6, 5)), rng.normal(size=(3, 4, 3, 2))
    settings: Any = {"axes": ([2, 3], [2, 3]), "dot_axes": ([1], [0]), "mode": mode}
    made = signal.convolve(A, B, **settings)
    np.testing.assert_allclose(made, convolve_by_loops(A, B, mode), atol=1e-12)
    c = rng.normal(size=made.shape)
    g = grad(lambda B: anp.sum(c * signal.convolve(A, B, **settings)))(B)
    V = rng.normal(size=B.shape)  # it is linear in B
    along = np.sum(c * signal.convolve(A, V, **settings))
    np.testing.assert_allclose(np.sum(g * V), along, rtol=1e-12)
    if mode == "valid":  # the shorter one may come first
        swapped = signal.convolve(
            B, A, axes=([2, 3], [2, 3]), dot_axes=([0], [1]), mode=mode
        )
        np.testing.assert_allclose(
            swapped, np.transpose(made, (1, 0, 2, 3)), atol=1e-12
        )
    with pytest.raises(AssertionError, match="undefined"):
        signal.convolve(A, B, mode="circular")


# Rules of one's own


def test_a_primitive_is_one_node_with_its_own_rule() -> None:
    calls = []

    @primitive
    def logsumexp(x: Any) -> Any:
        calls.append(type(x))
        top = x.max()
        return top + np.log(np.exp(x - top).sum())

    defvjp(logsumexp, lambda ans, x: lambda g: g * anp.exp(x - ans))
    x = np.array([0.1, 2.0, -1.0])
    soft = scipy.special.softmax(x)
    np.testing.assert_allclose(grad(logsumexp)(x), soft, rtol=1e-14)
    assert set(calls) == {np.ndarray}  # it is run on values alone
    H = np.diag(soft) - np.outer(soft, soft)
    np.testing.assert_allclose(hessian(logsumexp)(x), H, rtol=1e-13)
    # Forward mode is its transpose.
    np.testing.assert_allclose(make_jvp(logsumexp)(x)(x)[1], soft @ x, rtol=1e-14)
    graph = wb.trace(lambda x: 2 * logsumexp(x))(x)
    assert [n.op.name for n in graph.interior] == ["logsumexp", "multiply"] or (
        graph.interior[0].op.name.endswith("logsumexp")
    )
    check_grads(logsumexp, modes=["rev"])(x)


def test_rules_by_argument() -> None:
    @primitive
    def scaled(x: Any, y: Any, power: int = 2) -> Any:
        return np.asarray(x) * np.asarray(y) ** power

    defvjp(scaled, None, lambda ans, x, y, power=2: lambda g: g * power * ans / y)
    assert grad(scaled)(3.0, 2.0) == 0.0  # None: it is zero
    assert grad(scaled, 1)(3.0, 2.0) == 12.0
    assert grad(lambda y: scaled(3.0, y, power=3))(2.0) == 36.0
    defvjp(scaled, lambda ans, x, y, power=2: lambda g: g * y**power, argnums=(0,))
    assert grad(scaled)(3.0, 2.0) == 4.0
    with pytest.raises(NotImplementedError, match=r"wrt argnums \(1,\) not defined"):
        grad(scaled, 1)(3.0, 2.0)

    @primitive
    def plain(x: Any) -> Any:
        return x

    with pytest.raises(NotImplementedError, match=r"VJP of plain wrt argnums \(0,\)"):
        grad(plain)(1.0)
    with pytest.raises(TypeError, match="Bad VJP '3' for 'plain'"):
        defvjp(plain, 3)

    @primitive
    def product(*factors: Any) -> Any:
        return np.prod(factors)

    defvjp_argnum(product, lambda i, ans, args, kwargs: lambda g: g * ans / args[i])
    assert grad(product, 2)(2.0, 3.0, 4.0) == 6.0


def test_rules_of_forward_mode() -> None:
    @primitive
    def fall(x: Any, y: Any) -> Any:
        return x * y

    defjvp(fall, "same", lambda g, ans, x, y: g * x)
    assert make_jvp(fall)(3.0, 4.0)(1.0)[1] == 4.0
    assert make_jvp(fall, (0, 1))(3.0, 4.0)((1.0, 1.0))[1] == 7.0
    assert deriv(lambda x: fall(x, x))(3.0) == 6.0

    @primitive
    def halve(x: Any) -> Any:
        return x / 2

    def_linear(halve)
    assert deriv(halve)(3.0) == 0.5


def test_results_of_a_primitive_may_nest_differently_from_call_to_call() -> None:
    @primitive
    def scale(x: Any) -> Any:
        return {"a": x * 2, "b": x * 3} if x.shape == (2,) else (x * 5,)

    def rule(ans: Any, x: Any) -> Any:
        return lambda g: 2 * g["a"] + 3 * g["b"] if type(g) is dict else 5 * g[0]

    defvjp(scale, rule)
    g = grad(lambda x: np.sum(scale(x)["b"]) + np.sum(scale(x[:1])[0]))(np.ones(2))
    assert np.array_equal(g, [8.0, 3.0])


def test_a_rule_for_a_function_of_numpys_holds_everywhere_until_uninstall() -> None:
    def run_elsewhere(f: Any) -> Any:
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(f).result()

    def define() -> Iterator[None]:
        defvjp(np.tan, lambda ans, x: lambda g: 7.0 * g)
        yield

    compiled = wb.compile(lambda x: wb.grad(np.tan)(x))
    assert [float(compiled(0.0)) for _ in range(3)] == [1.0] * 3
    waiting = define()  # a generator that stays suspended
    next(waiting)
    try:
        assert grad(np.tan)(0.0) == 7.0
        assert run_elsewhere(lambda: grad(np.tan)(0.0)) == 7.0
        assert float(compiled(0.0)) == 7.0  # which had its program before
        defvjp(np.tan, lambda ans, x: lambda g: 5.0 * g)
        assert run_elsewhere(lambda: wb.grad(np.tan)(0.0)) == 5.0
        with wb.overrides(wb.override("tan", "2 * d")):
            assert wb.grad(np.tan)(0.0) == 2.0
    finally:
        autograd.uninstall()
    assert wb.grad(np.tan)(0.0) == run_elsewhere(lambda: wb.grad(np.tan)(0.0)) == 1.0
    defjvp(np.tan, lambda g, ans, x: 3.0 * g)
    try:
        assert wb.grad(np.tan)(0.0) == 1.0
    finally:
        autograd.uninstall()


def test_a_rule_for_a_function_of_numpys_takes_its_place() -> None:
    # In a process of its own: it holds from then on.
    code = """
        from workbench.compat import autograd
        import workbench.compat.autograd.numpy as np
        from workbench.compat.autograd.extend import defjvp, defvjp
        defvjp(np.tanh, lambda ans, x: lambda g: 7.0 * g)
        print(autograd.grad(np.tanh)(1.0), autograd.grad(np.cos)(0.0))
        defjvp(np.exp, lambda g, ans, x: 5.0 * g)
        print(autograd.deriv(np.exp)(0.0), autograd.grad(np.exp)(0.0))
        try:
            defvjp(len, None)
        except TypeError as error:
            print(error)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True
    )
    first, forward, second = done.stdout.splitlines()
    assert first == "7.0 -0.0", done.stderr
    assert forward == "5.0 1.0"
    assert "len is no primitive. Decorate it" in second


def test_values_through_all_levels() -> None:
    seen = []

    @notrace_primitive
    def show(x: Any) -> Any:
        seen.append(type(x))
        return 2.0

    def f(x: Any) -> Any:
        assert isbox(x)
        assert isinstance(x, Box)
        return show(x) * x**2 * getval(x)

    assert grad(grad(f))(3.0) == 12.0
    assert not isbox(3.0)
    assert set(seen) <= {float, np.float64}


class Polynomial:
    """A function with coefficients by degree, which a program differentiates by."""

    def __init__(self, coefficients: dict[int, float]) -> None:
        self.coefficients = coefficients

    @primitive
    def __call__(self, x: Any) -> Any:
        return sum(c * x**n for n, c in self.coefficients.items())


class PolynomialBox(Box, Polynomial):  # type: ignore[misc]
    pass


class PolynomialSpace(VSpace):
    def zeros(self) -> Any:
        return Polynomial({})

    def _add(self, p: Any, q: Any) -> Any:
        degrees = {*p.coefficients, *q.coefficients}
        both = p.coefficients, q.coefficients
        return Polynomial({n: sum(c.get(n, 0.0) for c in both) for n in degrees})


def test_objects_of_a_type_of_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Box, "type_mappings", {})
    monkeypatch.setattr(VSpace, "mappings", {})
    PolynomialBox.register(Polynomial)
    PolynomialSpace.register(Polynomial)
    defvjp(
        Polynomial.__call__,
        lambda ans, p, x: lambda g: Polynomial({n: g * x**n for n in p.coefficients}),
    )
    p = Polynomial({0: 1.0, 2: 3.0})

    def loss(p: Any) -> Any:
        return (p(2.0) - 5.0) ** 2 + p(1.0)

    g = grad(loss)(p)
    # 2 (p(2) - 5) x^n at 2, plus x^n at 1
    assert g.coefficients == {0: 17.0, 2: 65.0}
    assert grad(lambda p: 3.0)(p).coefficients == {}


def test_spaces_of_values() -> None:
    space = vspace({"a": np.zeros((2, 1)), "b": [1.0, 2j]})
    assert space.size == 5
    assert space == vspace({"a": np.ones((2, 1)), "b": [5.0, 1j]})
    basis = list(space.standard_basis())
    assert len(basis) == 5
    ones = space.ones()
    assert ones["b"][1] == 1 + 1j
    assert all(space.inner_prod(ones, unit) == 1 for unit in basis)
    x = space.randn()
    assert space.inner_prod(x, x) > 0
    doubled = space.add(x, x)
    assert np.array_equal(doubled["b"][1], space.scalar_mul(x, 2)["b"][1])
    with pytest.raises(TypeError, match="Can't find vector space for value"):
        vspace("text")


# The trace, and what comes with autograd


def test_nodes_of_a_trace() -> None:
    class Told(Node):
        __slots__ = ("name", "parents", "value")

        def __init__(self, value, fun, args, kwargs, argnums, parents):  # type: ignore[no-untyped-def]
            self.value, self.name = value, fun.__name__
            self.parents = dict(zip(argnums, parents, strict=True))
            again = [
                p.value if args[i] is None else args[i] for i, p in self.parents.items()
            ]
            assert len(again) == len(self.parents)

        def initialize_root(self, value: Any) -> None:
            self.value, self.name, self.parents = value, "input", {}

    value, node = trace(Told.new_root(2.0), lambda x: anp.exp(x) * x, 2.0)
    assert abs(value - 2 * np.exp(2)) < 1e-14
    assert node.name == "multiply"
    assert node.parents[1].name == "input"
    with pytest.warns(UserWarning, match="independent"):
        assert trace(Told.new_root(2.0), lambda x: 3.0, 2.0) == (3.0, None)


def test_a_graph_that_is_kept() -> None:
    calls = []

    def f(x: Any, y: Any) -> Any:
        calls.append(1)
        return anp.dot(x, y)

    g = const_graph(f)
    assert g(np.ones(2), np.ones(2)) == 2.0
    assert g(np.array([1.0, 3.0]), np.array([2.0, 5.0])) == 17.0
    assert len(calls) == 1


def test_nests_as_vectors() -> None:
    nest = {"b": [np.ones((2, 2)), 3], "a": (np.arange(2.0), np.zeros(0))}
    vector, unflatten = flatten(nest)
    assert np.array_equal(vector, [0, 1, 1, 1, 1, 1, 3])
    again = unflatten(vector)
    assert list(again) == ["b", "a"]
    assert np.array_equal(again["b"][0], np.ones((2, 2)))
    assert flatten([])[0].shape == (0,)
    g = grad(lambda v: unflatten(v)["b"][1] ** 2 + anp.sum(flatten(nest)[0]))(vector)
    assert np.array_equal(g, [0, 0, 0, 0, 0, 0, 6])


@pytest.mark.parametrize("name", ["sgd", "rmsprop", "adam"])
def test_optimizers_go_down(name: str) -> None:
    def loss(p: Any, i: int) -> Any:
        return anp.sum((p["w"] - 3.0) ** 2) + (p["b"] + 1.0) ** 2

    seen = []
    made = getattr(optimizers, name)(
        grad(loss), {"w": np.zeros(2), "b": 0.0}, num_iters=400, step_size=0.05,
        callback=lambda p, i, g: seen.append((i, p["b"], g["b"])),
    )  # fmt: skip
    np.testing.assert_allclose(made["w"], 3.0, atol=0.05)
    np.testing.assert_allclose(made["b"], -1.0, atol=0.05)
    assert seen[0] == (0, 0.0, 2.0)
    assert len(seen) == 400


def test_fixed_points_have_implicit_derivatives() -> None:
    def newton(a: Any) -> Any:
        return lambda x: 0.5 * (x + a / x)

    def root(a: Any) -> Any:
        return fixed_point(newton, a, 1.0, lambda x, y: abs(x - y), 1e-13)

    np.testing.assert_allclose(root(2.0), np.sqrt(2), rtol=1e-13)
    np.testing.assert_allclose(grad(root)(2.0), 0.5 / np.sqrt(2), rtol=1e-12)
    np.testing.assert_allclose(grad(grad(root))(2.0), -0.25 * 2**-1.5, rtol=1e-10)


def test_a_wrong_rule_is_an_assertion_error() -> None:
    @primitive
    def wrong(x: Any) -> Any:
        return x**2

    defvjp(wrong, lambda ans, x: lambda g: 3 * g * x)
    with pytest.raises(AssertionError, match="wrong"):
        check_grads(wrong, modes=["rev"], order=1)(2.0)
    combo_check(anp.power, (0, 1), order=1)([1.5, 2.0], [2.0, 3.0])


def test_types_of_tensors_are_those_of_their_arrays() -> None:
    from workbench.compat.autograd.builtins import dict, isinstance, list, tuple, type

    def f(p: Any) -> Any:
        assert isinstance(p, dict)
        assert isinstance(p["x"], np.ndarray)
        assert type(p["x"]) is np.ndarray
        assert isinstance(p["y"], tuple)
        return anp.sum(p["x"]) * tuple(list(p["y"]))[0]

    g = grad(f)({"x": np.ones(2), "y": (3.0,)})
    assert np.array_equal(g["x"], [3.0, 3.0])
    assert g["y"] == (2.0,)


# Installed


PROGRAM = """
    import autograd.numpy as np
    import autograd.numpy.random as npr
    import autograd.scipy.stats.norm as norm
    import autograd.scipy.stats.multivariate_normal as mvn
    from autograd import grad, value_and_grad
    from autograd.core import VJPNode, vspace
    from autograd.misc.optimizers import adam
    from autograd.numpy.linalg import solve
    from autograd.scipy.special import expit as sigmoid
    from autograd.tracer import getval
    from scipy.optimize import minimize

    xs, ys = np.array([[0.5, 1.0], [-1.0, 0.3], [2.0, -0.7]]), np.array([1, 0, 1])

    def loss(w):
        p = sigmoid(np.dot(xs, w))
        fit = -np.sum(ys * np.log(p) + (1 - ys) * np.log(1 - p))
        return fit - norm.logpdf(w[0], 0, 1) - norm.logpdf(w[1], 0, 1)

    found = minimize(value_and_grad(loss), np.zeros(2), jac=True, tol=1e-9)
"""


@pytest.mark.usefixtures("installed")
def test_a_program_runs_as_it_stands() -> None:
    space: dict[str, Any] = {"__name__": "program"}
    exec(textwrap.dedent(PROGRAM), space)
    w, xs, ys = space["found"].x, space["xs"], space["ys"]
    p = scipy.special.expit(xs @ w)
    np.testing.assert_allclose(xs.T @ (ys - p), w, atol=1e-6)  # where its slope is 0
    with pytest.raises(ModuleNotFoundError, match=r"autograd\.keras is not known"):
        exec("import autograd.keras", {})


def test_autograd_itself_is_not_pushed_aside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "autograd", type(sys)("autograd"))
    with pytest.raises(UsageError, match="autograd itself has been imported"):
        autograd.install()
    autograd.uninstall()


def test_the_pair_of_core() -> None:
    vjp, value = core.make_vjp(anp.sin, 1)
    assert (value, vjp(1.0)) == (np.sin(1.0), np.cos(1.0))
    assert core.make_jvp(anp.sin, 1)(2.0)[1] == 2 * np.cos(1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert grad(lambda x: 3.0)(1.0) == 0.0


def test_where_takes_names_and_plain_truths() -> None:
    x, y = np.array([1.0, 2.0, 3.0]), np.array([4.0, 5.0, 6.0])
    slope = grad(lambda x: anp.sum(anp.where(y > 4.5, x=x**2, y=y)))(x)
    assert slope.tolist() == [0, 4, 6]
    assert anp.where(True, [1, 2], [3]) == [1, 2]
    assert anp.where(y > 4.5)[0].tolist() == [1, 2]


# Names that autograd has dropped


def test_a_check_of_second_order_differentiates_by_the_cotangent() -> None:
    @primitive
    def bare(x: Any) -> Any:
        return x**3

    defvjp(bare, lambda ans, x: lambda g: 3 * x**2 * getval(g))
    check_grads(bare, modes=["rev"], order=1)(0.5)
    with pytest.raises(AssertionError, match="bare"):
        check_grads(bare, modes=["rev"], order=2)(0.5)
    check_grads(lambda x: anp.sin(x) * x, order=3)(0.5)
    check_grads(lambda x, y: {"a": x * anp.exp(y)}, (0, 1))(np.array([1.0, 2.0]), 0.3)


def test_methods_that_gave_rules_before_autograd_1_2() -> None:
    @primitive
    def product(x: Any, y: Any, n: Any) -> Any:
        return x * y**n

    f: Any = product
    f.defgrad(lambda ans, x, y, n: lambda g: g * y**n)
    f.defvjp(lambda g, ans, vs, gvs, x, y, n: g * ans * n / y, argnum=1)
    f.defgrad_is_zero(argnums=(2,))
    found = grad(product, (0, 1, 2))(3.0, 2.0, 4.0)
    np.testing.assert_allclose(found, (16.0, 96.0, 0.0), rtol=1e-15)

    @primitive
    def ratio(x: Any, y: Any) -> Any:
        return x / y

    def pull(argnum: int, g: Any, ans: Any, vs: Any, gvs: Any, x: Any, y: Any) -> Any:
        assert vs.shape == gvs.shape == (2,)
        return -g * ans / y if argnum else g / y

    f = ratio
    f.defvjps(pull, argnums=[0, 1])
    x, y = np.array([1.0, 2.0]), np.array([4.0, 8.0])
    found = grad(lambda x, y: anp.sum(ratio(x, y)), (0, 1))(x, y)
    np.testing.assert_allclose(found, (1 / y, -x / y**2), rtol=1e-15)
    f.defgrads(lambda i, ans, x, y: lambda g: g * i, argnums=[0, 1])
    assert grad(ratio, (0, 1))(1.0, 2.0) == (0.0, 1.0)


def test_old_ways_of_rules_keep_those_of_other_arguments() -> None:
    @primitive
    def f(x: Any, y: Any) -> Any:
        return x * y

    defvjp(f, lambda ans, x, y: lambda g: g * 0.0, lambda ans, x, y: lambda g: g * x)
    f.defgrad(lambda ans, x, y: lambda g: g * y)
    assert (grad(f, 0)(2.0, 3.0), grad(f, 1)(2.0, 3.0)) == (3.0, 2.0)
    both = grad(lambda z: f(z, z**2))(2.0)  # by both arguments at once
    assert both == 12.0
    f.defgrad_is_zero(argnums=(1,))
    assert grad(lambda z: f(z, z**2))(2.0) == 4.0


@pytest.mark.usefixtures("installed")
def test_modules_held_more_names_before_autograd_1_2() -> None:
    program = """
        from autograd.core import primitive
        from autograd.numpy.numpy_vjps import defvjp
        from autograd.numpy.numpy_wrapper import wrap_namespace
        from autograd.util import *
    """
    got: dict[str, Any] = {}
    exec(textwrap.dedent(program), got)
    assert (got["primitive"], got["defvjp"]) == (primitive, defvjp)
    vector, back = got["flatten"]({"a": np.ones(2), "b": 3.0})
    assert back(2 * vector)["b"] == 6.0
    at = {"a": np.array([3.0])}
    run, _, vector = got["flatten_func"](lambda p: {"a": p["a"] ** 2}, at)
    assert run(vector) == [9.0]
    np.testing.assert_allclose(got["nd"](np.sin, 0.3)[0], np.cos(0.3), rtol=1e-7)
    got["check_grads"](lambda x, y: anp.sin(x) * y, 0.3, 2.0)
    with pytest.warns(UserWarning, match="check_grads"):
        got["quick_grad_check"](anp.sin, 0.3)
    space: dict[str, Any] = {}
    got["wrap_namespace"](vars(scipy.special), space)
    assert grad(space["expit"])(0.0) == 0.25
