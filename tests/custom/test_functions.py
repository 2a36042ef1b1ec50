"""`custom_gradient`, `custom_vjp`, `custom_jvp`: functions with rules of their own."""

from __future__ import annotations

import math
import pickle
from typing import Any

import numpy as np
import pytest
from scipy import special

import workbench as wb
from workbench.backends.numpy import compile
from workbench.errors import NotDifferentiableError, ShapeError, TraceError, UsageError

X = np.array([0.3, -1.0, 2.0])


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


@wb.custom_gradient
def paired(x: Any) -> Any:
    """TensorFlow's own example."""
    e = np.exp(x)
    return np.log(1 + e), lambda g: g * (1 - 1 / (1 + e))


def ruled(node: Any, g: Any) -> Any:
    return g * sigmoid(node.inputs[0])


with_rule = wb.custom_vjp(lambda x: np.logaddexp(x, 0), vjp=ruled)

with_tangent = wb.custom_jvp(lambda x: np.logaddexp(x, 0), jvp=ruled)

with_both = wb.custom_vjp(lambda x: np.logaddexp(x, 0), vjp=ruled, jvp=ruled)


@wb.custom_vjp
def as_jax(x: Any) -> Any:
    return np.logaddexp(x, 0)


as_jax.defvjp(lambda x: (as_jax(x), sigmoid(x)), lambda kept, g: (g * kept,))


@wb.custom_jvp
def pushed(x: Any) -> Any:
    return np.logaddexp(x, 0)


@pushed.defjvp
def pushed_rule(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    return pushed(x), t * sigmoid(x)


def compiled(x: Any) -> Any:
    """Nothing that a trace could follow."""
    return np.array([math.log1p(math.exp(v)) for v in np.ravel(x)]).reshape(np.shape(x))


opaque = wb.custom_vjp(compiled, vjp=ruled)

FORMS = {
    "custom_gradient": paired,
    "custom_vjp": with_rule,
    "custom_jvp": with_tangent,
    "both": with_both,
    "defvjp": as_jax,
    "defjvp": pushed,
    "opaque": opaque,
}


@pytest.mark.parametrize("f", FORMS.values(), ids=FORMS)
def test_every_derivative_of_every_form(f: Any) -> None:
    s = sigmoid(X)
    second = s * (1 - s)
    np.testing.assert_allclose(f(X), np.logaddexp(X, 0), rtol=1e-14)
    np.testing.assert_allclose(wb.grad(lambda x: np.sum(f(x)))(X), s)
    np.testing.assert_allclose(
        wb.hessian(lambda x: np.sum(f(x)))(X), np.diag(second), atol=1e-15
    )
    np.testing.assert_allclose(wb.grad(wb.grad(wb.grad(f)))(0.0), 0, atol=1e-15)
    for mode in ("fwd", "rev"):
        found = wb.jacobian(f, mode=mode)(X)
        np.testing.assert_allclose(found, np.diag(s), atol=1e-15)
    np.testing.assert_allclose(wb.jvp(f, (X,), (2 * X,))[1], 2 * X * s)
    assert wb.check_grads(lambda x: np.sum(f(x) ** 2), (X,), order=2).ok


@pytest.mark.parametrize("f", FORMS.values(), ids=FORMS)
def test_under_vmap(f: Any) -> None:
    s = sigmoid(X)
    np.testing.assert_allclose(wb.vmap(f)(X), np.logaddexp(X, 0), rtol=1e-14)
    np.testing.assert_allclose(wb.vmap(wb.grad(f))(X), s)
    whole = lambda x: np.sum(wb.vmap(f)(x) ** 2)  # noqa: E731
    np.testing.assert_allclose(wb.grad(whole)(X), 2 * np.logaddexp(X, 0) * s)
    np.testing.assert_allclose(
        np.diag(wb.hessian(whole)(X)),
        2 * s**2 + 2 * np.logaddexp(X, 0) * s * (1 - s),
    )
    tangent = wb.jvp(lambda x: wb.vmap(f)(x), (X,), (X,))[1]
    np.testing.assert_allclose(tangent, X * s)
    names = [n.op.name for n in wb.trace(whole)(X).nodes]
    assert names.count(f.__op__) == 1


@pytest.mark.parametrize("f", FORMS.values(), ids=FORMS)
def test_on_symbols_and_compiled(f: Any) -> None:
    x = wb.tensor("x", shape=(3,))
    y = f(x)
    assert (y.shape, y.dtype, y.op.name) == ((3,), np.dtype(float), f.__op__)
    graph = wb.trace(lambda x: np.sum(f(x)))(wb.Spec((3,), float))
    assert float(compile(graph)(X)[0]) == pytest.approx(np.sum(np.logaddexp(X, 0)))
    gradient = wb.trace(wb.grad(lambda x: np.sum(f(x))))
    if f is not opaque:
        (found,) = compile(gradient(wb.Spec((3,), float)))(X)
        np.testing.assert_allclose(found, sigmoid(X))
    (found,) = compile(gradient(X))(2 * X)
    np.testing.assert_allclose(found, sigmoid(2 * X))


def test_it_is_one_node_on_the_users_line() -> None:
    graph = wb.trace(lambda x: 2 * paired(x))(X)
    node = next(n for n in graph.nodes if n.op.name == "paired")
    assert node.site is not None
    assert "2 * paired(x)" in node.site.text
    assert "paired" in str(graph)
    assert paired.__name__ == "paired"
    assert paired.__doc__ == "TensorFlow's own example."
    assert "paired" in repr(paired)
    for target in ("paired", paired):
        half = wb.override(target, "0.5 * d")
        found = wb.grad(lambda x: np.sum(paired(x)), overrides=[half])(X)
        np.testing.assert_allclose(found, sigmoid(X) / 2)


@pytest.mark.parametrize("form", [wb.custom_vjp, wb.custom_jvp])
def test_a_rule_that_is_no_function(form: Any) -> None:
    with pytest.raises(UsageError, match=r"sin: the rule 'clip.*wb\.graph_rule"):
        form(np.sin, "clip(d, -1, 1)")


def test_a_function_named_like_an_op() -> None:
    @wb.custom_gradient
    def tanh(x: Any) -> Any:
        return np.tanh(x), lambda g: 7 * g

    f = lambda x: tanh(x) + np.tanh(x)  # noqa: E731
    graph = wb.trace(f)(0.0)
    assert {"custom_tanh", "tanh"} < {n.op.name for n in graph.nodes}
    assert wb.grad(f)(0.0) == 8
    assert wb.grad(f, overrides=[wb.override("tanh", "2 * d")])(0.0) == 9
    assert "tanh(x)" in compile(graph).source
    assert wb.custom_vjp(lambda x: x, vjp=ruled).__op__ == "custom_function"


def test_the_forward_pass_runs_once() -> None:
    """What `forward` and the pair's function keep is kept for the gradient."""
    calls = []

    @wb.custom_gradient
    def counted(x: Any) -> Any:
        calls.append("pair")
        return x**2, lambda g: 2 * x * g

    @wb.custom_vjp
    def kept(x: Any) -> Any:
        calls.append("plain")
        return x**2

    def forward(x: Any) -> Any:
        calls.append("forward")
        return x**2, x

    kept.defvjp(forward, lambda x, g: (2 * x * g,))
    assert wb.grad(counted)(3.0) == 6
    assert calls == ["pair"]
    assert wb.grad(kept)(3.0) == 6
    assert calls == ["pair", "forward"]
    assert kept(3.0) == 9
    assert calls == ["pair", "forward", "plain"]


def test_the_calls_of_a_function_share_what_is_known_of_its_rule() -> None:
    """That it is linear is found out once, not in each call."""
    asked = []

    @wb.custom_gradient
    def square(x: Any) -> Any:
        def grad(g: Any) -> Any:
            asked.append(g)
            return 2 * x * g

        return x * x, grad

    def f(x: Any) -> Any:
        for _ in range(20):
            x = square(x)
        return x

    assert wb.jvp(f, (1.0,), (1.0,))[1] == 2.0**20
    assert len(asked) < 30


def test_against_scipy() -> None:
    """A function whose derivative SciPy knows, written by its series."""

    @wb.custom_vjp(
        vjp=lambda node, g: g * 2 / np.sqrt(np.pi) * np.exp(-(node.inputs[0] ** 2))
    )
    def by_series(x: Any) -> Any:
        total, term = x * 1.0, x * 1.0
        for n in range(1, 60):
            term = -term * x * x / n
            total = total + term / (2 * n + 1)
        return total * 2 / np.sqrt(np.pi)

    np.testing.assert_allclose(by_series(X), special.erf(X), rtol=1e-12)
    want = -2 * X * 2 / np.sqrt(np.pi) * np.exp(-(X**2))
    found = wb.hessian(lambda x: np.sum(by_series(x)))(X)
    np.testing.assert_allclose(np.diag(found), want)


def test_in_and_around_other_functions() -> None:
    inner = wb.custom_gradient(lambda x: (np.sin(x), lambda g: g * np.cos(x)))
    outer = wb.custom_gradient(lambda x: (inner(inner(x)), lambda g: g * slope(x)))

    def slope(x: Any) -> Any:
        return np.cos(inner(x)) * np.cos(x)

    want = np.cos(np.sin(X)) * np.cos(X)
    for f in (outer, wb.checkpoint(outer), lambda x: inner(wb.checkpoint(inner)(x))):
        np.testing.assert_allclose(wb.grad(lambda x, f=f: np.sum(f(x)))(X), want)
        second = wb.hessian(lambda x, f=f: np.sum(f(x)))(X)
        true = -np.sin(np.sin(X)) * np.cos(X) ** 2 - np.cos(np.sin(X)) * np.sin(X)
        np.testing.assert_allclose(np.diag(second), true, rtol=1e-10)


def test_on_symbols_of_unknown_length_and_in_loops() -> None:
    x = wb.vector("x")
    for f in (paired, with_rule, as_jax):
        run = wb.function([x], wb.grad(np.sum(f(x)), x))
        for n in (1, 4):
            data = np.linspace(-1, 1, n)
            np.testing.assert_allclose(run(data), sigmoid(data))
    sine = wb.custom_vjp(np.sin, vjp=lambda node, g: g * np.cos(node.inputs[0]))
    last = wb.scan(lambda c: sine(c), initial=x, n_steps=3)[-1]
    found = wb.function([x], wb.grad(np.sum(last), x))(X)
    a, b = np.sin(X), np.sin(np.sin(X))
    np.testing.assert_allclose(found, np.cos(b) * np.cos(a) * np.cos(X))


def test_B2_a_rule_that_is_no_derivative_in_a_loop_as_jax_has_it() -> None:
    """Six steps with ``atan2_safe`` as a function, an op and a graph; JAX's numbers."""

    def parts(x: Any, y: Any, g: Any) -> tuple[Any, Any]:
        square = x * x + y * y + 0.01
        return -g * y / square, g * x / square

    class LoopAngle(wb.Op):
        def compute(self, x: Any, y: Any) -> Any:
            return np.arctan2(y, x)

        def vjp(self, node: Any, g: Any) -> Any:
            return parts(*node.inputs, g)

    paired = wb.custom_vjp(lambda x, y: np.arctan2(y, x))
    paired.defvjp(
        lambda x, y: (np.arctan2(y, x), (x, y)), lambda kept, g: parts(*kept, g)
    )
    x, y, g = wb.scalars("x y g")
    rule = wb.OpFromGraph([x, y, g], parts(x, y, g), name="loop_angle_grad")
    graph = wb.OpFromGraph([x, y], np.arctan2(y, x), vjp=rule, name="loop_angle_graph")
    at = np.array([0.7, -0.4])
    for angle in (paired, graph, LoopAngle()):

        def cost(v: Any, angle: Any = angle) -> Any:
            def step(c: Any) -> Any:
                a = angle(c[0], c[1])
                return np.stack([np.sin(a) * c[1] + c[0], a * c[0] - c[1]]), a

            carried, angles = wb.scan(step, initial=[v, None], n_steps=6)
            return np.sum(angles**2) + np.prod(carried[-1])

        assert np.isclose(cost(at), 0.27117011687390086, rtol=1e-12)
        assert np.allclose(wb.grad(cost)(at), [-0.64062382, -1.12109169], rtol=1e-8)
        assert np.allclose(
            wb.hessian(cost)(at),
            [[2.15446656, 2.21419162], [2.16875693, 1.07210611]],
            rtol=1e-8,
        )
        rows = wb.vmap(wb.grad(cost))(np.stack([at, 2 * at]))
        assert np.allclose(rows[1], [-0.32375651, -0.56657389], rtol=1e-7)


# What is refused


@pytest.mark.parametrize("inside", [True, False])
def test_what_it_reads_from_outside_would_lose_its_gradient(inside: bool) -> None:
    def outer(w: Any) -> Any:
        scaled = wb.custom_vjp(lambda x: w * x, vjp=lambda node, g: g)
        return scaled(w if inside else 2.0)

    with pytest.raises(TraceError) as error:
        wb.grad(outer)(3.0)
    text = str(error.value)
    assert "reads the input 'w'" in text
    assert "Make it an argument, or read x.value" in text
    assert "test_functions.py" in text


def test_reading_its_value_cuts_on_purpose() -> None:
    def outer(w: Any) -> Any:
        return wb.custom_vjp(lambda x: w.value * x, vjp=lambda node, g: 5 * g)(w)

    assert wb.grad(outer)(3.0) == 5


def test_a_function_without_a_rule() -> None:
    with pytest.raises(UsageError, match=r"has no rule yet.*f\.defvjp"):
        wb.custom_vjp(np.sin)(1.0)
    with pytest.raises(UsageError, match="not a function"):
        wb.custom_vjp(3.0)


@pytest.mark.parametrize(
    ("function", "kind", "says"),
    [
        (
            wb.custom_gradient(lambda x, y: x * y),
            UsageError,
            "returned .*Return two things, the value and its gradient",
        ),
        (
            wb.custom_gradient(lambda x, y: (x * y, x)),
            UsageError,
            r"as its gradient, which is not a function",
        ),
        (
            wb.custom_gradient(lambda x, y: (x * y, lambda g: g)),
            UsageError,
            r"returned 1 gradient; custom_function was given 2 arguments",
        ),
        (
            wb.custom_gradient(lambda x, y: (x * y, lambda g: (g, g, g))),
            UsageError,
            r"returned 3 gradients",
        ),
        (
            wb.custom_gradient(lambda x, y: (x * y, lambda g: (g[:2], g))),
            ShapeError,
            r"shape \(2,\) for input 0, which is float64\[3\]",
        ),
        (
            wb.custom_gradient(lambda x, y: (x * y, lambda g, h: (g, g))),
            UsageError,
            r"takes \(g, h\), but custom_function has 1 output. Write lambda g:",
        ),
        (
            wb.custom_vjp(lambda x, y: x * y, vjp=lambda node: None),
            UsageError,
            "custom_function has 1 output, so it gets the node and 1 gradient",
        ),
        (
            wb.custom_vjp(lambda x, y: x * y, vjp=lambda node, g: g),
            UsageError,
            "returned 1 gradient; custom_function has 2 inputs",
        ),
    ],
)
def test_rules_that_do_not_fit(function: Any, kind: Any, says: str) -> None:
    with pytest.raises(kind, match=says):
        wb.grad(lambda x: np.sum(function(x, X)))(X)


def test_a_gradient_that_is_no_derivative_has_no_forward_mode() -> None:
    clipped = wb.custom_gradient(lambda x: (x * 1, lambda g: np.clip(g, -1, 1)))
    assert wb.grad(lambda x: 5 * clipped(x))(1.0) == 1
    with pytest.raises(NotDifferentiableError, match=r"clip.*Write a jvp too"):
        wb.jvp(clipped, (1.0,), (1.0,))
    straight = wb.custom_gradient(
        lambda x: (np.round(x), lambda g: np.clip(g, -1, 1)), jvp=lambda node, t: t
    )
    assert wb.jvp(straight, (1.3,), (2.0,)) == (1.0, 2.0)
    assert wb.grad(lambda x: 5 * straight(x))(1.3) == 1


def test_what_it_is_lent_it_cannot_change() -> None:
    def spoil(x: Any) -> Any:
        x += 1
        return x * 1

    f = wb.custom_vjp(spoil, vjp=lambda node, g: g)
    with pytest.raises(TraceError, match=r"changed in place.*x \+= 1.*\.copy\(\)"):
        wb.grad(lambda x: np.sum(f(np.sin(x))))(X)
    same = wb.custom_vjp(lambda x: x, vjp=lambda node, g: 5 * g)
    assert same(X) is X
    value, gradient = wb.value_and_grad(lambda x: np.sum(same(x)))(X)
    assert value == np.sum(X)
    assert gradient.tolist() == [5, 5, 5]


def test_a_rule_that_reads_a_tensor_of_the_derivative_gives_plain_numbers() -> None:
    def f(w: Any) -> Any:
        return wb.custom_vjp(lambda x: np.sin(x), vjp=lambda node, g: g * w)(2 * w)

    def h(w: Any) -> Any:
        return wb.custom_jvp(lambda x: np.sin(x), jvp=lambda node, t: t * w)(2 * w)

    for made in (wb.grad(f)(3.0), wb.grad(h)(3.0), wb.jvp(f, (3.0,), (1.0,))[1]):
        assert not isinstance(made, wb.Tensor)
        assert made == 6.0


def test_arguments_that_were_written_to_have_gradients() -> None:
    with_pair = wb.custom_gradient(lambda p: (np.sin(p), lambda g: g * np.cos(p)))
    with_vjp = wb.custom_vjp(np.sin, vjp=lambda node, g: g * np.cos(node.inputs[0]))
    with_jvp = wb.custom_jvp(lambda p: np.sin(p))
    with_jvp.defjvp(lambda at, t: (np.sin(at[0]), np.cos(at[0]) * t[0]))

    def fill(x: Any) -> Any:
        out = np.zeros(3)
        out[:] = x * x
        out[1:] *= x[0]
        return out

    x = np.array([-0.9, 0.4, 0.3])
    slope = np.cos(x * x * np.array([1.0, x[0], x[0]]))
    expected = slope * 2 * x * np.array([1.0, x[0], x[0]])
    expected[0] += np.sum((slope * x * x)[1:])
    for f in (with_pair, with_vjp, with_jvp):
        found = wb.grad(lambda x, f=f: np.sum(f(fill(x))))(x)
        np.testing.assert_allclose(found, expected, rtol=1e-13)


# Many examples


def cube_rule(node: Any, g: Any) -> Any:
    return g * 3 * node.inputs[0] ** 2


@wb.custom_vjp(vjp=cube_rule)
def cube(x: Any) -> Any:
    return x**3


@wb.custom_vjp(vjp=cube_rule)
def cube_of_values(x: Any) -> Any:
    """A function that looks at values, and so runs example by example."""
    return x**3 if float(np.sum(x)) != 7 else x * x * x


class CubeOp(wb.Op):
    def compute(self, x: Any) -> Any:
        return x**3

    def vjp(self, node: Any, g: Any) -> Any:
        return cube_rule(node, g)


S = wb.vector("s")
CUBES: dict[str, Any] = {
    "op": CubeOp(),
    "function": cube,
    "function of values": cube_of_values,
    "graph": wb.OpFromGraph([S], S**3),
    "graph with a rule": wb.OpFromGraph([S], S**3, vjp=cube_rule),
    "checkpoint": wb.checkpoint(lambda x: x**3),
}


@pytest.mark.parametrize("name", CUBES)
def test_a_batch_of_batches_is_one_node(name: str) -> None:
    """It has the value and derivatives of x³; pickled, overridden and compiled too."""
    x = np.arange(1.0, 13.0).reshape(2, 3, 2) / 7
    many = wb.vmap(wb.vmap(CUBES[name]))
    total = lambda x: np.sum(many(x))  # noqa: E731
    np.testing.assert_allclose(many(x), x**3)
    np.testing.assert_allclose(wb.grad(total)(x), 3 * x**2)
    np.testing.assert_allclose(wb.jvp(many, (x,), (x,))[1], 3 * x**3)
    np.testing.assert_allclose(wb.hvp(total, x, x), 6 * x**2)
    graph = wb.trace(many)(x)
    (node,) = graph.interior
    assert node.op.name != "power"
    again = pickle.loads(pickle.dumps(wb.trace(many)(wb.Spec(x.shape, x.dtype))))
    np.testing.assert_allclose(again.run([x])[0], x**3)
    gradient = wb.compile(wb.grad(total), backend="compiled")
    np.testing.assert_allclose(gradient(x), 3 * x**2)
    inside = name in ("graph", "checkpoint")
    doubled = [wb.override("power" if inside else node.op.name, "2 * d")]
    np.testing.assert_allclose(wb.grad(total, overrides=doubled)(x), 6 * x**2)
    assert wb.grad(total)(x[:0]).shape == (0, 3, 2)


def test_what_examples_share_gets_the_sum_of_their_gradients() -> None:
    product = wb.custom_vjp(
        lambda x, w: x * w,
        lambda node, g: (g * node.inputs[1], g * node.inputs[0]),
    )
    x, w = np.arange(6.0).reshape(3, 2), np.array([2.0, -1.0])
    total = x.sum(0)

    def f(w: Any, count: int = 3) -> Any:
        return np.sum(wb.vmap(product, (0, None))(x[:count], w))

    np.testing.assert_allclose(wb.grad(f)(w), total)
    second = wb.hessian(lambda w: f(w) ** 2)(w)
    np.testing.assert_allclose(second, 2 * np.outer(total, total))
    np.testing.assert_array_equal(wb.grad(lambda w: f(w, 0))(w), [0, 0])


def test_a_forward_rule_that_skips_zero_tangents() -> None:
    """Its gradient is the transpose of what it does with other ones."""

    @wb.custom_jvp
    def f(x: Any) -> Any:
        return np.sin(x)

    @f.defjvp
    def rule(primals: Any, tangents: Any) -> Any:
        (x,), (t,) = primals, tangents
        return f(x), t * np.cos(x) if np.any(t) else t

    x = np.array([1.0, 2.0])
    np.testing.assert_allclose(wb.grad(lambda x: np.sum(f(x)))(x), np.cos(x))
    np.testing.assert_allclose(wb.jacobian(f, mode="rev")(x), np.diag(np.cos(x)))
