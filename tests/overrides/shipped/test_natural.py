"""Natural gradients: by any metric, and by the Fisher information of linear layers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.gpu.stand_in import Foreign, inner
from workbench.errors import (
    ConvergenceError,
    DtypeError,
    MatrixError,
    OverrideError,
    ShapeError,
)

R = wb.rules


def definite(n: int, rng: np.random.Generator, least: float = 0.1) -> Any:
    a = rng.standard_normal((n, n))
    return a @ a.T + least * np.eye(n)


# Any metric


@pytest.mark.parametrize("solver", ["solve", "cg"])
def test_B4_any_metric_by_solve_or_by_conjugate_gradients(
    solver: str, rng: np.random.Generator
) -> None:
    m, x = definite(6, rng), rng.standard_normal((2, 3))
    true = 2 * np.sin(x) * np.cos(x)
    expected = np.reshape(np.linalg.inv(m) @ true.ravel(), x.shape)
    rule = R.natural(m, solver=solver)
    f = lambda x: np.sum(np.sin(x) ** 2)  # noqa: E731
    found = wb.grad(f, overrides=[wb.override("sin", rule)])(x)
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-9)
    damped = R.natural(m, damping=0.7, solver=solver)
    found = wb.grad(f, overrides=[wb.override("sin", damped)])(x)
    expected = np.linalg.inv(m + 0.7 * np.eye(6)) @ true.ravel()
    np.testing.assert_allclose(found.ravel(), expected, rtol=1e-8, atol=1e-9)


def test_a_metric_may_be_a_product_and_is_never_made(rng: np.random.Generator) -> None:
    """200,000 rows and columns: the discrete Laplacian plus one, by products."""
    n = 200_000
    asked = []

    def metric(node: Any) -> Any:
        def product(v: Any) -> Any:
            asked.append(v.shape)
            return 3 * v - np.roll(v, 1) - np.roll(v, -1)

        return product

    b = rng.standard_normal(n)
    rule = wb.override("multiply", R.natural(metric, input=0, tolerance=1e-8))
    found = wb.grad(lambda x: np.sum(x * b), overrides=[rule])(np.zeros(n))
    back = 3 * found - np.roll(found, 1) - np.roll(found, -1)
    assert np.linalg.norm(back - b) <= 1e-7 * np.linalg.norm(b)
    assert len(asked) < 60  # its condition number is 5


def test_a_metric_that_reads_the_node_is_differentiated_too() -> None:
    """M = x² + 1 on each entry: the gradient of x³/3 is x²/(x² + 1)."""

    def metric(node: Any) -> Any:
        (x,) = node.inputs
        return np.diag(x**2 + 1)

    f = lambda x: np.sum(np.exp(x))  # noqa: E731
    x = np.array([0.5, -2.0])
    given = [wb.override("exp", R.natural(metric))]
    w, e = x**2 + 1, np.exp(x)
    np.testing.assert_allclose(wb.grad(f, overrides=given)(x), e / w, rtol=1e-12)
    # d/dx of e / w, where d e / dx is e / w by the override itself.
    expected = np.diag(e / w / w - e * 2 * x / w**2)
    free = R.natural(lambda node: lambda v: (node.inputs[0] ** 2 + 1) * v)
    for rule in (given[0], wb.override("exp", free)):
        hessian = wb.hessian(f, overrides=[rule])(x)
        np.testing.assert_allclose(hessian, expected, rtol=1e-9, atol=1e-12)


def test_the_inputs_that_it_changes_are_chosen() -> None:
    """By position or by name; the other input keeps its true gradient."""
    a, b = np.array([1.0, 2.0]), np.array([3.0, 5.0])
    m = np.diag([2.0, 4.0])

    def f(a: Any, b: Any) -> Any:
        return np.sum(a * b)

    for chosen, half_a, half_b in (
        (0, True, False), (1, False, True), (None, True, True), ("b", False, True),
        ((0, "b"), True, True), (-1, False, True),
    ):  # fmt: skip
        given = [wb.override("multiply", R.natural(m, input=chosen))]
        by_a, by_b = wb.grad(f, (0, 1), overrides=given)(a, b)
        np.testing.assert_allclose(by_a, b / np.diag(m) if half_a else b)
        np.testing.assert_allclose(by_b, a / np.diag(m) if half_b else a)
    for chosen in (2, "c"):
        given = [wb.override("multiply", R.natural(m, input=chosen))]
        with pytest.raises(OverrideError, match=r"2 inputs, 'a', 'b'\. Give a pos"):
            wb.grad(f, (0, 1), overrides=given)(a, b)


@pytest.mark.parametrize(
    ("make", "kind", "words"),
    [
        (lambda: R.natural(np.diag([1.0, -2.0])), MatrixError,
         "the smallest eigenvalue of this one is -2. Give damping="),
        (lambda: R.natural(np.diag([1.0, 0.0])), MatrixError, "positive definite"),
        (lambda: R.natural(np.diag([1.0, -2.0]), damping=1), MatrixError,
         "with its damping"),
        (lambda: R.natural(np.array([[1.0, 2.0], [0.0, 1.0]])), MatrixError,
         "differs from its transpose by 2"),
        (lambda: R.natural(np.array([[1.0, np.nan], [np.nan, 1.0]])), MatrixError,
         "differs from its transpose"),
        (lambda: R.natural(np.ones(3)), ShapeError, "a square matrix"),
        (lambda: R.natural([[1, 2], [3]]), ShapeError, "rows of one length"),
        (lambda: R.natural(np.eye(2), solver="lu"), OverrideError, '"cg"'),
        (lambda: R.natural(np.eye(2), damping=-1), OverrideError, "not negative"),
    ],
)  # fmt: skip
def test_what_is_no_metric_is_refused_where_it_is_made(
    make: Any, kind: Any, words: str
) -> None:
    with pytest.raises(kind) as caught:
        make()
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("rule", "kind", "words"),
    [
        (R.natural(np.eye(3)), ShapeError, "it must have shape (2, 2)"),
        (R.natural(lambda node: lambda v: -v), MatrixError, "v · M v = -1 |v|²"),
        (R.natural(lambda node: np.diag([1.0, -1.0])), MatrixError, "eigenvalue"),
        (R.natural(np.diag([1.0, 1e9]), solver="cg", iterations=1), ConvergenceError,
         "after 1 iterations"),
        (R.natural(lambda node: lambda v: v, solver="solve"), OverrideError,
         'Write solver="cg"'),
        (R.natural(lambda node: lambda v: np.sum(v)), ShapeError, "has shape ()"),
    ],
)  # fmt: skip
def test_what_fails_at_the_node_says_why(rule: Any, kind: Any, words: str) -> None:
    f = lambda x: np.sum(np.sin(x))  # noqa: E731
    with pytest.raises(kind) as caught:
        wb.grad(f, overrides=[wb.override("sin", rule)])(np.array([0.1, 0.2]))
    assert words in str(caught.value)


def test_a_complex_metric_is_hermitian() -> None:
    m = np.array([[2.0, 1j], [-1j, 3.0]])
    z, g = np.array([0.2 + 0.1j, 0.5]), np.array([1.0 + 0j, 2j])
    for solver in ("solve", "cg"):
        given = [wb.override("exp", R.natural(m, solver=solver))]
        _, pullback = wb.vjp(np.exp, z, overrides=given)
        expected = np.linalg.inv(m) @ (g * np.exp(z))
        np.testing.assert_allclose(pullback(g)[0], expected, rtol=1e-8)


# The Fisher information


X = np.array([[0.5, -1.0, 2.0], [1.5, 0.3, -0.7], [-0.2, 0.8, 0.1], [1.1, -0.4, 0.6],
              [0.9, 0.2, -1.3]])  # fmt: skip
W = np.array([[0.3, -0.6], [0.8, 0.2], [-0.5, 0.9]])
N = len(X)


def loss_right(w: Any) -> Any:
    return np.mean(np.sum(np.tanh(X @ w) ** 2, axis=1))


def loss_left(w: Any) -> Any:
    return np.mean(np.sum(np.tanh(w @ X.T) ** 2, axis=0))


def each() -> tuple[Any, Any]:
    """What goes in, and the slope of each example's own loss, row by row."""
    y = np.tanh(X @ W)
    return X, 2 * y * (1 - y**2)


def by_fisher(damping: float, scale: float = 1.0) -> Any:
    """The empirical Fisher information of W as a matrix, inverted."""
    a, s = each()
    rows = np.stack([np.outer(x, g).ravel() for x, g in zip(a, s, strict=True)]) * scale
    whole = rows.T @ rows / N + damping * np.eye(6)
    true = np.mean(rows, axis=0) / scale
    return np.reshape(np.linalg.inv(whole) @ true, (3, 2))


def by_kfac(damping: float) -> Any:
    a, s = each()
    first, second = a.T @ a / N, s.T @ s / N
    pi = np.sqrt((np.trace(first) / 3) / (np.trace(second) / 2))
    whole = np.kron(first + pi * damping**0.5 * np.eye(3),
                    second + damping**0.5 / pi * np.eye(2))  # fmt: skip
    true = (a.T @ s / N).ravel()
    return np.reshape(np.linalg.solve(whole, true), (3, 2))


@pytest.mark.parametrize("damping", [1e-3, 0.1, 10.0])
@pytest.mark.parametrize("name", ["fisher", "kfac"])
def test_B4_the_fisher_information_of_a_layer(name: str, damping: float) -> None:
    """Against the whole matrix of six rows, for X @ W and for W @ X."""
    expected = {"fisher": by_fisher, "kfac": by_kfac}[name](damping)
    given = [wb.override("matmul", getattr(R, name)(damping))]
    found = wb.grad(loss_right, overrides=given)(W)
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    found = wb.grad(loss_left, overrides=given)(W.T)
    np.testing.assert_allclose(found, expected.T, rtol=1e-9)


@pytest.mark.parametrize("count", [2, 3, 4, 30])
def test_with_fewer_examples_than_weights_and_with_more(
    count: int, rng: np.random.Generator
) -> None:
    """Of a vector of weights, whose information is a mean of aₙ aₙᵀ sₙ²."""
    x, w = rng.standard_normal((count, 3)), rng.standard_normal(3)
    s = 2 * (x @ w)
    rows = x * s[:, None]
    whole = rows.T @ rows / count + 0.2 * np.eye(3)
    loss = lambda w: np.mean((x @ w) ** 2)  # noqa: E731
    found = wb.grad(loss, overrides=[wb.override("matmul", R.fisher(0.2))])(w)
    np.testing.assert_allclose(
        found, np.linalg.solve(whole, np.mean(rows, axis=0)), rtol=1e-8
    )


def test_a_loss_that_is_a_sum_is_said() -> None:
    summed = lambda w: N * loss_right(w)  # noqa: E731
    given = [wb.override("matmul", R.fisher(0.1, mean=False))]
    found = wb.grad(summed, overrides=given)(W)
    np.testing.assert_allclose(found, N * by_fisher(0.1), rtol=1e-9)
    given = [wb.override("matmul", R.kfac(0.1, mean=False))]
    found = wb.grad(summed, overrides=given)(W)
    np.testing.assert_allclose(found, N * by_kfac(0.1), rtol=1e-9)


def test_every_linear_part_of_a_model_at_once() -> None:
    """Two layers and biases: only the weights' gradients change, each by its own."""

    def model(w1: Any, b1: Any, w2: Any) -> Any:
        return np.mean(np.sum(np.tanh(np.tanh(X @ w1 + b1) @ w2) ** 2, axis=1))

    b1, w2 = np.array([0.1, -0.2]), np.array([[0.7, 0.1, 0.4], [-1.3, 0.2, 0.5]])
    given = [wb.override("matmul", R.kfac(0.1, weights=1))]
    true = wb.grad(model, (0, 1, 2))(W, b1, w2)
    found = wb.grad(model, (0, 1, 2), overrides=given)(W, b1, w2)
    h = np.tanh(X @ W + b1)
    z = np.tanh(h @ w2)
    s2 = 2 * z * (1 - z**2)
    s1 = (s2 @ w2.T) * (1 - h**2)
    np.testing.assert_allclose(true[0], X.T @ s1 / N, rtol=1e-12)
    for found_w, a, s in ((found[0], X, s1), (found[2], h, s2)):
        first, second = a.T @ a / N, s.T @ s / N
        pi = np.sqrt(np.mean(np.diag(first)) / np.mean(np.diag(second)))
        expected = np.linalg.solve(
            first + pi * 0.1**0.5 * np.eye(len(first)), a.T @ s / N
        ) @ np.linalg.inv(second + 0.1**0.5 / pi * np.eye(len(second)))
        np.testing.assert_allclose(found_w, expected, rtol=1e-9)
    np.testing.assert_allclose(found[1], true[1], rtol=1e-12)  # of the bias


@pytest.mark.skipif(not hasattr(wb, "pattern"), reason="needs wb.pattern")
@pytest.mark.parametrize("name", ["fisher", "kfac"])
def test_B3_B4_at_a_pattern_the_bias_keeps_its_own(name: str) -> None:
    """The part W @ x + b as one node: its W gets what the matmul alone would."""
    b = np.array([0.0, 0.0])

    def model(w: Any, b: Any) -> Any:
        return np.mean(np.sum(np.tanh(X @ w + b) ** 2, axis=1))

    linear = wb.pattern(lambda W, x, b: W @ x + b)
    given = [wb.override(linear, getattr(R, name)(0.1, weights=1))]
    found = wb.grad(model, (0, 1), overrides=given)(W, b)
    expected = {"fisher": by_fisher, "kfac": by_kfac}[name](0.1)
    np.testing.assert_allclose(found[0], expected, rtol=1e-9)
    np.testing.assert_allclose(found[1], np.mean(each()[1], axis=0), rtol=1e-12)


@pytest.mark.parametrize("name", ["fisher", "kfac"])
def test_it_trains_where_the_axes_have_other_scales(name: str) -> None:
    """A logistic regression of badly scaled inputs, on which plain descent fails."""
    rng = np.random.default_rng(3)
    x = rng.standard_normal((200, 4)) * np.array([1.0, 0.1, 0.01, 10.0])
    target = (x @ np.array([1.0, -8.0, 60.0, 0.2]) + rng.standard_normal(200) > 0) * 1.0

    def loss(w: Any) -> Any:
        z = x @ w
        return np.mean(np.logaddexp(0, z) - target * z)

    def trained(given: list[Any], rate: float) -> float:
        w = np.zeros(4)
        step = wb.grad(loss, overrides=given)
        for _ in range(40):
            w = w - rate * step(w)
        return float(loss(w))

    natural = trained([wb.override("matmul", getattr(R, name)(1e-6))], 0.2)
    plain = min(trained([], rate) for rate in (0.003, 0.03, 0.3))
    assert natural < plain - 0.05


@pytest.mark.usefixtures("stand_in")
@pytest.mark.parametrize("name", ["fisher", "kfac"])
def test_second_order_batches_dtypes_and_places(name: str) -> None:
    rule = getattr(R, name)(0.1)
    given = [wb.override("matmul", rule)]
    gradient = wb.grad(loss_right, overrides=given)
    true = [wb.override("matmul", rule, jvp="true")]
    v = np.cos(np.arange(6.0)).reshape(3, 2)
    h = 1e-4
    slope = sum(
        k * (gradient(W + s * h * v) - gradient(W - s * h * v)) / (2 * s * h)
        for k, s in ((1.5, 1), (-0.6, 2), (0.1, 3))
    )
    product = wb.hvp(loss_right, W, v, overrides=true)
    np.testing.assert_allclose(product, slope, rtol=1e-8, atol=1e-9)
    assert np.all(np.isfinite(wb.hessian(loss_right, overrides=given)(W)))
    stack = np.stack([W, 0.5 * W, -W])
    np.testing.assert_allclose(
        wb.vmap(gradient)(stack), [gradient(w) for w in stack], rtol=1e-10
    )
    small = X.astype(np.float32)
    loss = lambda w: np.mean(np.sum(np.tanh(small @ w) ** 2, axis=1))  # noqa: E731
    found = wb.grad(loss, overrides=given)(W.astype(np.float32))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, gradient(W), rtol=1e-3)
    far = Foreign(X)
    loss = lambda w: np.mean(np.sum(np.tanh(far @ w) ** 2, axis=1))  # noqa: E731
    found = inner(wb.grad(loss, overrides=given)(Foreign(W)))
    np.testing.assert_allclose(found, gradient(W), rtol=1e-10)


@pytest.mark.parametrize("name", ["fisher", "kfac"])
def test_what_is_no_layer_is_refused(name: str) -> None:
    rule = getattr(R, name)
    with pytest.raises(OverrideError, match="give a positive number, since the Fisher"):
        rule(0)
    both = lambda a, b: np.sum(a @ b)  # noqa: E731
    square = np.eye(2)
    with pytest.raises(OverrideError, match=f"{name}.weights=0.") as caught:
        wb.grad(both, (0, 1), overrides=[wb.override("matmul", rule())])(square, square)
    assert "inputs 0 and 1 vary" in str(caught.value)
    f = lambda x: np.sum(np.sin(x))  # noqa: E731
    with pytest.raises(OverrideError, match="is not a linear layer"):
        wb.grad(f, overrides=[wb.override("sin", rule())])(np.ones(2))
    given = [wb.override("matmul", rule(weights=0))]
    with pytest.raises(DtypeError, match="is complex here"):
        wb.vjp(both, square + 1j, square, overrides=given)[1](1j)
    with pytest.raises(OverrideError, match="weights=2, and matmul has 2 inputs"):
        wb.grad(both, overrides=[wb.override("matmul", rule(weights=2))])(
            square, square
        )


def test_a_gradient_of_zero_stays_zero() -> None:
    for rule in (R.fisher(), R.kfac()):
        given = [wb.override("matmul", rule)]
        found = wb.grad(lambda w: 0 * loss_right(w), overrides=given)(W)
        np.testing.assert_array_equal(found, 0)


def test_they_are_data_where_they_can_be() -> None:
    assert R.kfac(0.01, weights=1) == "kfac(damping=0.01, weights=1)"
    assert R.fisher() == "fisher"
    one = wb.override("matmul", R.kfac(0.01))
    assert one.data
    assert one.label == "K-FAC +0.01"
    assert wb.override("matmul", R.fisher(1e-3)).label == "Fisher +0.001"
    own = wb.override("sin", R.natural(np.eye(2)))
    assert not own.data
    assert not own.stored
    assert own.label == "natural gradient"


def test_where_lengths_are_not_known_yet() -> None:
    v, m = wb.vector("v"), wb.matrix("m")
    for metric in (2 * np.eye(2), lambda node: lambda u: 2 * u):
        given = [wb.override("sin", R.natural(metric))]
        gradient = wb.function([v], wb.grad(np.sum(np.sin(v)), v, overrides=given))
        np.testing.assert_allclose(gradient(np.zeros(2)), [0.5, 0.5])
    total = np.sum(X @ m)
    for rule in (R.fisher(), R.kfac()):
        with pytest.raises(OverrideError, match="Give the inputs shapes"):
            wb.grad(total, m, overrides=[wb.override("matmul", rule)])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("part", [0.6, -0.6])
def test_B4_conjugate_gradients_of_any_size(dtype: Any, part: float) -> None:
    """Squares of such numbers overflow, or vanish."""
    size = dtype(float(np.finfo(dtype).max) ** part)
    rule = R.natural(lambda node: lambda v: 5 * v, solver="cg")
    f = lambda x: np.sum(np.sin(x) * size)  # noqa: E731
    found = wb.grad(f, overrides=[wb.override("sin", rule)])(np.zeros(2, dtype))
    np.testing.assert_allclose(found, np.full(2, size / 5), rtol=1e-6)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_is_not_hidden_by_conjugate_gradients(bad: float) -> None:
    rule = R.natural(np.eye(2), solver="cg")
    f = lambda x: np.sum(np.sin(x) * np.array([bad, 1.0]))  # noqa: E731
    with np.errstate(invalid="ignore"):
        found = wb.grad(f, overrides=[wb.override("sin", rule)])(np.zeros(2))
    assert not np.any(np.isfinite(found))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("fisher(damping=None)", "fisher: damping=None; give a positive number"),
        ("kfac(weights=0.5)", "kfac: weights=0.5; give the position"),
        ("fisher(weights=True)", "fisher: weights=True; give the position"),
        ("kfac(mean=3)", "kfac: mean=3; write True"),
        ("noise(scale=None)", "noise: scale=None; give a finite number"),
    ],
)
def test_settings_of_another_kind_in_a_text_by_hand(text: str, words: str) -> None:
    f = lambda W: np.sum(W @ np.ones(2))  # noqa: E731
    with pytest.raises(OverrideError, match=words):
        wb.grad(f, overrides=[wb.override("matmul", text)])(np.eye(2))


@pytest.mark.parametrize(
    "settings",
    [{"damping": "a"}, {"damping": None}, {"iterations": 1.5}, {"tolerance": "a"},
     {"input": 1.5}],
)  # fmt: skip
def test_settings_of_another_kind(settings: dict[str, Any]) -> None:
    with pytest.raises(OverrideError, match=f"natural: {next(iter(settings))}="):
        R.natural(np.eye(2), **settings)
