"""`wb.patterns.linear()`: every linear structure, its roles, in whatever spelling.

The truth is the chain rule by hand: for ``loss = sum(sin(y))`` the gradient of ``y`` is
``cos(y)``, that of a weight the product of it and the input.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.errors import OverrideError

RNG = np.random.default_rng(20170114)
W1, B1 = RNG.normal(size=(4, 3)), RNG.normal(size=4)
W2, B2 = RNG.normal(size=(2, 4)), RNG.normal(size=2)
PARAMETERS = (W1, B1, W2, B2)
X, T = RNG.normal(size=(5, 3)), RNG.normal(size=(5, 2))
x = X[0]
LINEAR = wb.patterns.linear()


def bent(node: Any, g: Any) -> list[Any]:
    """No gradient of anything, and another for each role."""
    d_w, d_x, d_b = node.vjp(g)
    return [2 * d_w, 3 * d_x, 5 * d_b]


BENT = wb.override(LINEAR, bent)

# The structure as a function of weight and bias, and its axes.
SPELLINGS: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "W @ x + b": (lambda W, b: W @ x + b, "oi,i->o"),
    "b + W @ x": (lambda W, b: b + W @ x, "oi,i->o"),
    "W @ x - b": (lambda W, b: W @ x - b, "oi,i->o"),
    "b - W @ x": (lambda W, b: b - W @ x, "oi,i->o"),
    "x @ W.T + b": (lambda W, b: x @ W.T + b, "oi,i->o"),
    "X @ W.T + b": (lambda W, b: X @ W.T + b, "oi,bi->bo"),
    "X @ W.T - b": (lambda W, b: X @ W.T - b, "oi,bi->bo"),
    "columns": (lambda W, b: W @ X.T + b[:, None], "oi,ib->ob"),
    "dot": (lambda W, b: np.dot(X, W.T) + b, "oi,bi->bo"),
    "method": (lambda W, b: W.dot(x) + b, "oi,i->o"),
    "matmul": (lambda W, b: np.add(np.matmul(X, np.transpose(W)), b), "oi,bi->bo"),
    "inner": (lambda W, b: np.inner(X, W) + b, "oi,bi->bo"),
    "vecdot": (lambda W, b: np.vecdot(W, x) + b, "oi,i->o"),
    "swapaxes": (lambda W, b: X @ np.swapaxes(W, 0, 1) + b, "oi,bi->bo"),
    "tensordot": (lambda W, b: np.tensordot(X, W, axes=(1, 1)) + b, "oi,bi->bo"),
    "tensordot 1": (lambda W, b: np.tensordot(W, x, axes=1) + b, "oi,i->o"),
    "einsum": (lambda W, b: np.einsum("nj,mj->nm", X, W) + b, "oi,bi->bo"),
    "einsum turned": (lambda W, b: np.einsum("kl,nl->kn", W, X) + b[:, None],
                      "oi,bi->ob"),
    "multi_dot": (lambda W, b: np.linalg.multi_dot([W, x]) + b, "oi,i->o"),
    "batches": (lambda W, b: X.reshape(5, 1, 3) @ W.T + b, "oi,bci->bco"),
}  # fmt: skip


@pytest.mark.parametrize("name", SPELLINGS)
def test_B3_every_spelling_has_the_same_roles(name: str) -> None:
    made, subscripts = SPELLINGS[name]
    seen: list[Any] = []

    def rule(node: Any, g: Any) -> Any:
        seen.append(node)
        return bent(node, g)

    def loss(W: Any, b: Any) -> Any:
        return np.sum(np.sin(made(W, b)))

    given = [wb.override(LINEAR, rule)]
    d_w, d_b = wb.grad(loss, (0, 1), overrides=given)(W1, B1)
    (node,) = seen
    assert np.array_equal(node["weight"], W1)
    assert node["input"].size in (X.size, x.size)
    assert node["bias"].size == B1.size
    assert node.get_attr("subscripts") == subscripts
    signs = node.get_attr("sign"), node.get_attr("bias_sign")
    assert signs == {"W @ x - b": (1, -1), "X @ W.T - b": (1, -1),
                     "b - W @ x": (-1, 1)}.get(name, (1, 1))  # fmt: skip
    product = signs[0] * np.einsum(subscripts, W1, node["input"])
    assert np.allclose(product + signs[1] * node["bias"], made(W1, B1))
    # By hand: a row of inputs for each example, a row of outputs beside it.
    whole = len(np.ravel(node["input"])) > 3
    inputs = X if whole else X[:1]
    slope = np.cos(signs[0] * inputs @ W1.T + signs[1] * B1)
    assert np.allclose(d_w, 2 * signs[0] * slope.T @ inputs, rtol=1e-12)
    assert np.allclose(d_b, 5 * signs[1] * slope.sum(axis=0), rtol=1e-12)


def test_a_sign_beside_a_structure_is_no_sum() -> None:
    def loss(W: Any, b: Any) -> Any:
        return np.sum(-np.sin(W @ x + b))

    true = wb.grad(loss, (0, 1))(W1, B1)
    d_w, d_b = wb.grad(loss, (0, 1), overrides=[BENT])(W1, B1)
    np.testing.assert_allclose(d_w, 2 * true[0], rtol=1e-12)
    np.testing.assert_allclose(d_b, 5 * true[1], rtol=1e-12)


@pytest.mark.parametrize("name", SPELLINGS)
def test_a_rule_is_written_once_for_all_spellings(name: str) -> None:
    """The true rule, by matrices, changes no gradient."""
    made = SPELLINGS[name][0]

    def rule(node: Any, g: Any) -> Any:
        layer = wb.patterns.layer(node, g)
        assert layer.weight.shape == (4, 3)
        assert layer.input.shape[1] == 3
        assert layer.gradient.shape == (len(layer.input), 4)
        assert np.allclose(layer.rows(node.vjp(g)[0]), layer.gradient.T @ layer.input)
        return layer.restore(
            layer.gradient.T @ layer.input, layer.gradient @ layer.weight
        )

    def loss(W: Any, b: Any, s: Any) -> Any:
        return np.sum(np.sin(made(s * W, b)))

    for x_asked in (False, True):
        argnums = (0, 1, 2) if x_asked else (0, 1)
        true = wb.grad(loss, argnums)(W1, B1, 0.7)
        given = [wb.override(LINEAR, rule)]
        found = wb.grad(loss, argnums, overrides=given)(W1, B1, 0.7)
        for a, b in zip(found, true, strict=True):
            assert np.allclose(a, b, rtol=1e-12)


# A model of several layers


def model(w1: Any, b1: Any, w2: Any, b2: Any, data: Any = X, target: Any = T) -> Any:
    """Two layers that are spelled differently; the target is not a bias."""
    h = np.tanh(data @ w1.T + b1)
    return np.mean((np.einsum("nh,oh->no", h, w2) + b2 - target) ** 2)


def by_hand(weight: float, inner: float, bias: float) -> list[Any]:
    """The gradient, with factors on what each layer passes on."""
    h = np.tanh(X @ W1.T + B1)
    g2 = 2 * (h @ W2.T + B2 - T) / T.size
    g1 = inner * (g2 @ W2) * (1 - h**2)
    return [
        weight * g1.T @ X,
        bias * g1.sum(axis=0),
        weight * g2.T @ h,
        bias * g2.sum(axis=0),
    ]


def assert_same(found: Any, expected: Any) -> None:
    for a, b in zip(found, expected, strict=True):
        assert np.shape(a) == np.shape(b)
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-15)


ALL = (0, 1, 2, 3)


def test_B3_all_linear_structures_of_a_model_at_once() -> None:
    assert_same(wb.grad(model, ALL)(*PARAMETERS), by_hand(1, 1, 1))
    found = wb.grad(model, ALL, overrides=[BENT])(*PARAMETERS)
    assert_same(found, by_hand(2, 3, 5))
    # Data as arguments that nobody differentiates by.
    found = wb.grad(model, ALL, overrides=[BENT])(*PARAMETERS, X, T)
    assert_same(found, by_hand(2, 3, 5))
    with wb.overrides(BENT):
        assert_same(wb.grad(model, ALL)(*PARAMETERS), by_hand(2, 3, 5))


def test_B3_a_session_before_and_after() -> None:
    session = wb.Session(wb.trace(model)(*PARAMETERS), name="net")
    attached = session.override(LINEAR, bent)
    assert_same([session.grads[i] for i in session.wrt], by_hand(2, 3, 5))
    assert len(attached.matched) == 2
    assert "net.override(wb.patterns.linear(), vjp=bent)" in session.code()
    session.undo()
    assert_same([session.grads[i] for i in session.wrt], by_hand(1, 1, 1))
    assert session.check_rule(LINEAR, "0.5 * d") == "ok for 2 nodes"


def test_B3_a_session_keeps_it_in_a_file(tmp_path: Path) -> None:
    """Names are data; a condition is code, and stays out."""
    graph = wb.trace(lambda data, *p: model(*p, data))(X, *PARAMETERS)
    one = wb.Session(graph, name="one")
    one.override(wb.patterns.linear(data="data"), "0.5 * d")
    expected = {name: one.grads[name] for name in ("w1", "w2") if name in one.grads}
    one.save(tmp_path / "kept.json")
    two = wb.Session(graph, name="two")
    two.load(tmp_path / "kept.json")
    assert two.code() == one.code().replace("one.", "two.")
    assert "wb.patterns.linear(data='data')" in two.code()
    for name, value in expected.items():
        assert np.array_equal(two.grads[name], value)
    text = (tmp_path / "kept.json").read_text()
    (tmp_path / "bad.json").write_text(text.replace('"data"\n', "7\n"))
    with pytest.raises(wb.errors.SnapshotError, match="data"):
        two.load(tmp_path / "bad.json")


def test_B3_code_names_what_it_cannot_spell() -> None:
    session = wb.Session(wb.trace(model)(*PARAMETERS), name="net")
    session.override(wb.patterns.linear(data=[X, T]), "0.5 * d")
    session.override(wb.patterns.linear(where=lambda m: m["weight"].ndim == 2), "2 * d")
    first, second = session.code().splitlines()
    assert first.startswith("net.override(wb.patterns.linear(data=data_1), ")
    assert first.endswith("data_1")  # the comment says that it is the user's own
    assert "where=lambda m: m['weight'].ndim == 2" in second
    assert_same(
        [session.grads[i] for i in session.wrt], by_hand(2, 2, 2)
    )  # the later one has the say


def test_B3_symbols_of_unknown_lengths() -> None:
    symbols = [wb.matrix("w1"), wb.vector("b1"), wb.matrix("w2"), wb.vector("b2")]
    data = wb.matrix("data")
    gradients = wb.grad(model(*symbols, data), symbols, overrides=[BENT])
    f = wb.function([*symbols, data], gradients)
    assert_same(f(*PARAMETERS, X), by_hand(2, 3, 5))


def test_B5_forward_mode_and_second_order() -> None:
    """A second derivative of ``sum(sin(W x + b))`` passes through the rule twice."""
    tangents = tuple(RNG.normal(size=np.shape(p)) for p in PARAMETERS)
    _, moved = wb.jvp(model, PARAMETERS, tangents, overrides=[BENT])
    pairs = zip(by_hand(2, 3, 5), tangents, strict=True)
    assert np.isclose(moved, sum(np.sum(g * t) for g, t in pairs), rtol=1e-12)

    def loss(W: Any, b: Any) -> Any:
        return np.sum(np.sin(x @ W.T + b))

    (ww, _), (_, bb) = wb.hessian(loss, (0, 1), overrides=[BENT])(W1, B1)
    curve = -np.sin(W1 @ x + B1)
    assert np.allclose(bb, 25 * np.diag(curve))
    expected = np.einsum("o,op,i,j->oipj", curve, np.eye(4), x, x)
    assert np.allclose(ww, 4 * expected)
    many = wb.vmap(lambda v: wb.grad(lambda W: np.sum(np.sin(W @ v)), overrides=[BENT])
                   (W1))(X)  # fmt: skip
    for row, v in zip(many, X, strict=True):
        assert np.allclose(row, 2 * np.outer(np.cos(W1 @ v), v))
    jacobian = wb.jacobian(lambda W: W @ x, overrides=[BENT])(W1)
    assert np.allclose(jacobian, 2 * np.einsum("op,i->opi", np.eye(4), x))


def test_B3_steps_of_loops_branches_and_checkpoints() -> None:
    """A carry is data from the second step on, and a weight stays one."""
    U = RNG.normal(size=(4, 4)) / 4

    def step(v: Any, h: Any, W: Any, u: Any, b: Any) -> Any:
        return np.tanh(W @ v + (u @ h + b))

    def unrolled(W: Any, u: Any, b: Any) -> Any:
        h = np.zeros(4)
        for v in X:
            h = step(v, h, W, u, b)
        return np.sum(h)

    def scanned(W: Any, u: Any, b: Any) -> Any:
        hs = wb.scan(lambda v, h: step(v, h, W, u, b), X, np.zeros(4))
        return np.sum(hs[-1])

    def kept(W: Any, u: Any, b: Any) -> Any:
        h = np.zeros(4)
        for v in X:
            h = wb.checkpoint(step)(v, h, W, u, b)
        return np.sum(h)

    def by_steps() -> list[Any]:
        hs = [np.zeros(4)]
        for v in X:
            hs.append(np.tanh(W1 @ v + U @ hs[-1] + B1))
        d_w, d_u, d_b, g = 0 * W1, 0 * U, 0 * B1, np.ones(4)
        for t in range(len(X) - 1, -1, -1):
            g = g * (1 - hs[t + 1] ** 2)
            d_w, d_b = d_w + 2 * np.outer(g, X[t]), d_b + 5 * g
            d_u = d_u + 2 * np.outer(g, hs[t])
            g = 3 * U.T @ g
        return [d_w, d_u, d_b]

    # The sum of the two products is not a bias of the first, since it depends on data.
    for f in (unrolled, scanned, kept):
        found = wb.grad(f, (0, 1, 2), overrides=[BENT])(W1, U, B1)
        assert_same(found, by_steps())

    symbol = wb.matrix("W")
    flag = wb.scalar("flag")
    y = wb.cond(flag > 0, lambda: symbol @ x, lambda: 2 * (symbol @ x))
    g = wb.grad(np.sum(y), symbol, overrides=[BENT])
    f = wb.function([symbol, flag], g)
    assert np.allclose(f(W1, 1.0), 2 * np.outer(np.ones(4), x))
    assert np.allclose(f(W1, -1.0), 4 * np.outer(np.ones(4), x))


# What is not a linear structure


def counted(
    f: Callable[..., Any], *args: Any, of: Any = LINEAR, argnums: Any = 0
) -> int:
    """How many structures the rule is asked for."""
    seen = []

    def rule(node: Any, g: Any) -> Any:
        seen.append(node)
        return node.vjp(g)

    wb.grad(f, argnums, overrides=[wb.override(of, rule)])(*args)
    return len(seen)


def test_attention_has_three_and_no_more() -> None:
    """Queries and keys depend on data both: their product has no weight."""

    def attention(q: Any, k: Any, v: Any) -> Any:
        scores = (X @ q) @ (X @ k).T
        exponents = np.exp(scores - np.max(scores))
        return np.sum((exponents @ (X @ v)) ** 2)

    squares = [RNG.normal(size=(3, 3)) / 3 for _ in range(3)]
    assert counted(attention, *squares, argnums=(0, 1, 2)) == 3


def test_a_weight_that_is_a_product() -> None:
    u, v = RNG.normal(size=(4, 2)), RNG.normal(size=(2, 4))

    def loss(w: Any, u: Any, v: Any) -> Any:
        return np.sum(np.tanh(X @ w.T) @ (u @ v))

    assert counted(loss, W1, u, v, argnums=(0, 1, 2)) == 2
    whole = wb.grad(loss, (0, 1, 2), overrides=[BENT])(W1, u, v)
    h = np.tanh(X @ W1.T)
    total = 2 * h.T @ np.ones((5, 4))  # of the weight u @ v, whose own rule is true
    assert np.allclose(whole[1], total @ v.T)
    assert np.allclose(whole[2], u.T @ total)


def test_a_weight_with_a_mask() -> None:
    """The mask is an array that nobody asks by, and no data all the same."""
    mask = np.array([[1.0, 0.0, 1.0, 1.0], [0.0, 1.0, 1.0, 0.0]])

    def loss(w1: Any, w2: Any) -> Any:
        return np.sum(np.sin(np.tanh(X @ w1.T) @ (w2 * mask).T))

    with pytest.raises(OverrideError, match="such as a mask"):
        counted(loss, W1, W2, argnums=(0, 1))
    known = wb.override(wb.patterns.linear(data=X), bent)
    found = wb.grad(loss, (0, 1), overrides=[known])(W1, W2)
    h = np.tanh(X @ W1.T)
    g = np.cos(h @ (W2 * mask).T)
    assert np.allclose(found[1], 2 * mask * (g.T @ h))
    inner = 3 * (g @ (W2 * mask)) * (1 - h**2)
    assert np.allclose(found[0], 2 * inner.T @ X)


def test_two_values_of_data_that_are_looked_up() -> None:
    """Two towers: what is looked up depends on data, as an input does."""
    index = np.array([0, 2, 1])

    def loss(rows: Any, columns: Any, w: Any) -> Any:
        return np.sum(np.sin(rows[index] @ columns[index].T) @ w)

    args = W1, RNG.normal(size=(4, 3)), np.ones(3)
    assert counted(loss, *args, argnums=(0, 1, 2)) == 1


def test_a_residual_is_no_bias_and_neither_is_a_target() -> None:
    def loss(W: Any) -> Any:
        return np.sum((X[:, :3] + X @ W) ** 2) + np.sum((X @ W - X) ** 2)

    seen: list[Any] = []

    def rule(node: Any, g: Any) -> Any:
        seen.append(node["bias"])
        return node.vjp(g)

    wb.grad(loss, overrides=[wb.override(LINEAR, rule)])(W1[:3])
    assert seen == [0.0, 0.0]


def test_a_product_that_is_read_twice_has_no_bias() -> None:
    def loss(W: Any, b: Any) -> Any:
        y = W @ x
        return np.sum(np.sin(y + b)) + np.sum(y**2)

    d_w, d_b = wb.grad(loss, (0, 1), overrides=[BENT])(W1, B1)
    y = W1 @ x
    assert np.allclose(d_w, 2 * np.outer(np.cos(y + B1) + 2 * y, x))
    assert np.allclose(d_b, np.cos(y + B1))


def test_a_sum_that_is_larger_is_no_bias() -> None:
    def loss(W: Any, b: Any) -> Any:
        return np.sum(np.sin(W @ x + b))

    bias = RNG.normal(size=(2, 4))
    _, d_b = wb.grad(loss, (0, 1), overrides=[BENT])(W1, bias)
    assert np.allclose(d_b, np.cos(W1 @ x + bias))


@pytest.mark.parametrize(
    "f",
    [
        lambda w: np.sum(w * x),
        lambda w: np.sum(np.outer(w, x)),
        lambda w: np.sum(np.einsum("i,i->i", w, x)),
        lambda w: np.sum(np.einsum("i,j->", w, x)),
        lambda w: np.sum(np.einsum("i,i,i->", w, x, x)),
        lambda w: np.sum(np.sin(w)),
    ],
)
def test_what_multiplies_and_does_not_sum_over_both(f: Any) -> None:
    with pytest.raises(OverrideError, match="no product of two arrays"):
        wb.grad(f, overrides=[BENT])(x)


# What is data


def test_the_derivative_by_the_data_needs_to_know_which_it_is() -> None:
    for argnums in (4, (0, 4), 0, 1, range(6)):
        with pytest.raises(OverrideError) as caught:
            wb.grad(model, argnums, overrides=[BENT])(*PARAMETERS, X, T)
        text = str(caught.value)
        assert "is the weight is not clear" in text
        assert "data=" in text
        assert "where=" in text
    known = [
        wb.override(wb.patterns.linear(data=d), bent) for d in ("data", X, ["data"])
    ]
    h = np.tanh(X @ W1.T + B1)
    g2 = 2 * (h @ W2.T + B2 - T) / T.size
    by_data = 9 * ((g2 @ W2) * (1 - h**2)) @ W1
    for one in known:
        found = wb.grad(model, 4, overrides=[one])(*PARAMETERS, X, T)
        assert np.allclose(found, by_data, rtol=1e-12)


def test_the_rule_runs_whichever_weights_the_gradient_is_asked_by() -> None:
    one = wb.override(wb.patterns.linear(data=["data", "target"]), bent)
    for i in ALL:
        found = wb.grad(model, i, overrides=[one])(*PARAMETERS, X, T)
        assert_same([found], [by_hand(2, 3, 5)[i]])


def test_a_condition_chooses_the_roles() -> None:
    chosen = wb.patterns.linear(where=lambda m: m["weight"].name in ("w1", "w2"))
    one = wb.override(chosen, bent)
    found = wb.grad(model, range(6), overrides=[one])(*PARAMETERS, X, T)
    assert_same(found[:4], by_hand(2, 3, 5))
    # What it refuses in every reading is left alone.
    second = wb.patterns.linear(where=lambda m: m["weight"].name == "w2")
    assert counted(model, *PARAMETERS, of=second, argnums=ALL) == 1
    # And where it refuses neither, that is not clear still.
    vague = wb.override(wb.patterns.linear(where=lambda m: True), bent)
    with pytest.raises(OverrideError, match="not clear"):
        wb.grad(model, range(6), overrides=[vague])(*PARAMETERS, X, T)


def test_a_text_that_treats_all_alike_needs_no_roles() -> None:
    half = wb.override(LINEAR, "0.5 * d")
    found = wb.grad(model, 1, overrides=[half])(*PARAMETERS)
    assert_same([found], [by_hand(0.5, 0.5, 0.5)[1]])
    with pytest.raises(OverrideError, match="not clear"):
        wb.grad(model, 1, overrides=[wb.override(LINEAR, "d * sum(x0)")])(*PARAMETERS)


def test_an_override_that_is_off_asks_nothing() -> None:
    session = wb.Session(wb.trace(lambda W, v: np.sum(W @ v))(W1, x))
    with pytest.raises(OverrideError, match="all that stands in products"):
        session.override(LINEAR, bent)
    assert session.override(LINEAR, bent, enabled=False).enabled is False


def test_what_matches_nothing_says_why() -> None:
    def product(a: Any, b: Any) -> Any:
        return np.sum(np.sin(a @ b)) + np.sum(X @ X.T @ np.ones((5, 1)) * a[0, 0])

    none = wb.override(wb.patterns.linear(data="Q"), bent)
    with pytest.raises(OverrideError, match="data='Q'; its names: b1, b2, w1, w2"):
        wb.grad(model, ALL, overrides=[none])(*PARAMETERS)
    never = wb.override(wb.patterns.linear(where=lambda m: False), bent)
    with pytest.raises(OverrideError, match="where= refused 2 products"):
        wb.grad(model, ALL, overrides=[never])(*PARAMETERS)
    both = wb.override(wb.patterns.linear(data=["data", "w1", "w2"]), bent)
    with pytest.raises(OverrideError, match="both operands depend on data in 2"):
        wb.grad(model, ALL, overrides=[both])(*PARAMETERS, X, T)
    with pytest.raises(OverrideError, match="where= refused 2 products"):
        with wb.overrides(never):
            wb.grad(model, ALL)(*PARAMETERS)
    with pytest.raises(OverrideError, match="is not data"):
        wb.patterns.linear(data=3)
    with pytest.raises(OverrideError, match=r'm\["weight"\]'):
        wb.patterns.linear(where="W")


def test_layers_that_differ_from_example_to_example_are_no_matrix() -> None:
    def rule(node: Any, g: Any) -> Any:
        assert node.get_attr("subscripts") == "Aoi,Ai->Ao"
        with pytest.raises(OverrideError, match="another weight for each example"):
            wb.patterns.layer(node, g)
        return bent(node, g)

    weights = RNG.normal(size=(5, 4, 3))

    def loss(w: Any) -> Any:
        return np.sum(np.sin(np.einsum("noi,ni->no", w, X)))

    found = wb.grad(loss, overrides=[wb.override(LINEAR, rule)])(weights)
    slope = np.cos(np.einsum("noi,ni->no", weights, X))
    assert np.allclose(found, 2 * slope[:, :, None] * X[:, None, :])
    with pytest.raises(OverrideError, match="not a linear structure"):
        wb.grad(np.sin, overrides=[wb.override("sin", wb.patterns.layer)])(1.0)


def test_B4_natural_gradients_of_every_spelling() -> None:
    """K-FAC and the Fisher metric of one layer, against their definitions."""
    slopes = RNG.normal(size=(5, 4))
    a = X.T @ X / 5
    s = 5 * slopes.T @ slopes
    pi = np.sqrt(np.mean(np.diag(a)) / np.mean(np.diag(s)))
    root = 0.1**0.5
    d = slopes.T @ X
    kfac = np.linalg.solve(s + root / pi * np.eye(4), d) @ np.linalg.inv(
        a + root * pi * np.eye(3)
    )
    rows = np.array(
        [np.outer(5 * g, v).ravel() for g, v in zip(slopes, X, strict=True)]
    )
    metric = rows.T @ rows / 5 + 0.1 * np.eye(12)
    fisher = np.linalg.solve(metric, d.ravel()).reshape(4, 3)
    forms: list[Callable[[Any], Any]] = [
        lambda w: X @ w.T, lambda w: (w @ X.T).T, lambda w: np.inner(X, w),
        lambda w: np.einsum("ab,cb->ca", w, X), lambda w: np.tensordot(X, w, (1, 1)),
    ]  # fmt: skip
    for text, expected in (
        (wb.rules.kfac(0.1), kfac), (wb.rules.fisher(0.1), fisher),
    ):  # fmt: skip
        for form in forms:
            found = wb.grad(
                lambda w, form=form: np.sum(slopes * form(w)),
                overrides=[wb.override(LINEAR, text)],
            )(W1)
            assert np.allclose(found, expected, rtol=1e-9)
    wrong = wb.override(LINEAR, wb.rules.kfac(0.1, weights=1))
    with pytest.raises(OverrideError, match="Leave weights out"):
        wb.grad(lambda w: np.sum(X @ w.T), overrides=[wrong])(W1)


def test_precedence_of_structures_and_patterns() -> None:
    """Of two structures that overlap the later has the say, and that is told."""
    session = wb.Session(wb.trace(model)(*PARAMETERS), name="net")
    session.override(wb.pattern(lambda W, b: np.tanh(W + b)), "0 * d")
    session.override(LINEAR, bent)
    first, second = session.overrides
    assert len(second.matched) == 2
    assert "linear" in repr(second)
    assert first.note or second.note


def test_thousands_of_layers_that_share_a_weight() -> None:
    def deep(W: Any) -> Any:
        h = x
        for _ in range(2000):
            h = np.tanh(W @ h)
        return np.sum(h)

    square = np.eye(3)
    assert counted(deep, square) == 2000
