"""Gauss-Newton, Fisher and the examples' gradients, against NumPy and loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import expit

import workbench as wb
from workbench.errors import DisconnectedInputError, ShapeError, UsageError
from workbench.jupyter import plots
from workbench.session.curvature import find_cuts

RNG = np.random.default_rng(11)
N, D, H = 14, 3, 4
X, t = RNG.standard_normal((N, D)), (RNG.random(N) > 0.5) * 1.0
W1, b1, W2 = RNG.standard_normal((D, H)), RNG.standard_normal(H), RNG.random(H)


def classify(W1: Any, b1: Any, W2: Any) -> Any:
    """The cross-entropy of a network with one hidden layer."""
    z = np.tanh(X @ W1 + b1) @ W2
    return np.mean(np.logaddexp(0, z) - t * z)


def jacobian_by_hand(W1: Any, b1: Any, W2: Any) -> tuple[Any, Any]:
    """What the network says, and its derivative by all weights, from the formulas."""
    h = np.tanh(X @ W1 + b1)
    back = (1 - h**2) * W2
    by_W1 = np.einsum("ni,nj->nij", X, back).reshape(N, -1)
    return h @ W2, np.hstack([by_W1, back, h])


def make_session(f: Any = classify, *values: Any) -> wb.Session:
    return wb.Session(wb.trace(f)(*(values or (W1, b1, W2))))


def entries_of(figure: Any) -> Any:
    return np.asarray(figure.data[0].z)


def note_of(figure: Any) -> str:
    return str(figure.layout.title.subtitle.text).replace("<br>", " ")


# The Gauss-Newton matrix


def test_gauss_newton_is_the_hessian_of_the_loss_between_two_jacobians() -> None:
    z, J = jacobian_by_hand(W1, b1, W2)
    p = expit(z)
    expected = J.T @ np.diag(p * (1 - p) / N) @ J
    session = make_session()
    figure = wb.plots.gauss_newton(session)
    assert_allclose(entries_of(figure), expected, rtol=1e-10, atol=1e-14)
    assert "Gauss-Newton matrix of mean" in figure.layout.title.text
    # Where the network is linear in its weights it is the Hessian itself.
    last = wb.plots.gauss_newton(session, wrt=session.wrt[-1])
    assert_allclose(entries_of(last), session.hessian(session.wrt[-1]), atol=1e-14)


def test_the_middle_is_the_first_array_that_all_weights_go_through() -> None:
    session = make_session()
    labels = [session.nodes.labels[i] for i in find_cuts(session._state, None)]
    operations = [label.split()[0] for label in labels]
    assert operations == ["matmul", "subtract"]
    # For some of the weights too: what all go through is the same.
    figure = wb.plots.gauss_newton(session, wrt=session.wrt[0])
    assert figure.layout.title.text.endswith(f"through {labels[0]}")
    z, J = jacobian_by_hand(W1, b1, W2)
    p = expit(z)
    part = J[:, : D * H]
    assert_allclose(
        entries_of(figure), part.T @ np.diag(p * (1 - p) / N) @ part, atol=1e-14
    )


def test_another_middle_and_what_the_loss_reads_besides() -> None:
    """The loss multiplies the middle by the weights: these do not vary in it."""

    def f(x: Any) -> Any:
        y = np.sin(x)
        return np.sum(y**3 * x)

    x = np.array([0.3, 1.2, -0.7])
    session = make_session(f, x)
    J, bend = np.cos(x), 6 * np.sin(x) * x
    found = wb.plots.gauss_newton(session, "sin 1")
    assert_allclose(entries_of(found), np.diag(J * bend * J), atol=1e-14)
    with pytest.raises(UsageError, match=r"no array stands on all paths .* Name the"):
        wb.plots.gauss_newton(make_session(lambda x: np.sum(x**2) + np.sum(x), x))


def test_it_is_that_of_the_true_derivatives() -> None:
    session = make_session()
    true = entries_of(wb.plots.gauss_newton(session))
    session.override("tanh", "0 * d")
    figure = wb.plots.gauss_newton(session)
    assert_allclose(entries_of(figure), true, atol=1e-15)
    assert "the true one, without 1 override" in note_of(figure)


def test_a_part_that_is_not_finite_and_one_that_is_zero_are_told() -> None:
    zero = make_session(lambda x: np.sum(np.tanh(x)), np.ones(2))
    figure = wb.plots.gauss_newton(zero, "tanh 1")
    assert not np.any(entries_of(figure))
    assert "sum 2 is linear in tanh 1" in note_of(figure)
    window = wb.plots.gauss_newton(make_session(), window=((0, 2), (5, 9)))
    assert entries_of(window).shape == (2, 4)


# The Fisher matrix


def test_fisher_is_the_mean_of_outer_products() -> None:
    z, J = jacobian_by_hand(W1, b1, W2)
    g = J * (expit(z) - t)[:, None]
    expected = sum(np.outer(one, one) for one in g) / N
    assert_allclose(entries_of(wb.plots.fisher(make_session())), expected, atol=1e-14)


def test_of_an_example_with_several_entries_it_is_their_sum() -> None:
    A = RNG.standard_normal((5, 2, 3))
    session = make_session(lambda w: np.sum(A @ w), np.ones(3))
    g = A.sum(1)
    assert_allclose(entries_of(wb.plots.fisher(session)), g.T @ g / 5, atol=1e-14)
    shown = wb.plots.spread(session).data
    sizes = np.sort(np.concatenate([trace.x for trace in shown]))
    assert_allclose(sizes, np.sort(np.linalg.norm(g, axis=1)), rtol=1e-12)


def test_one_number_has_no_examples() -> None:
    session = make_session()
    for plot in (wb.plots.fisher, wb.plots.spread):
        with pytest.raises(UsageError, match=r"is one number. Name an array with an"):
            plot(session, session.output)
    two = make_session(lambda x, y: np.sum(np.sin(x) + np.exp(y)), X[0], X[1])
    exp = next(label for label in two.nodes.labels if label.startswith("exp"))
    with pytest.raises(DisconnectedInputError, match="is not computed from"):
        wb.plots.fisher(two, exp, two.wrt[0])


# Single examples


def one_loss(W1: Any, b1: Any, W2: Any, x: Any, label: Any) -> Any:
    z = np.tanh(x @ W1 + b1) @ W2
    return np.logaddexp(0, z) - label * z


def test_per_example_gradients_are_those_of_a_loop() -> None:
    found = wb.per_example_grad(one_loss, (0, 1, 2))(W1, b1, W2, X, t)
    z, J = jacobian_by_hand(W1, b1, W2)
    g = J * (expit(z) - t)[:, None]
    assert [x.shape for x in found] == [(N, D, H), (N, H), (N, H)]
    assert_allclose(np.hstack([x.reshape(N, -1) for x in found]), g, atol=1e-14)
    last = wb.per_example_grad(one_loss, -3, (None, None, None, 0, 0))
    assert_allclose(last(W1, b1, W2, X, t), found[2], rtol=1e-12)
    with pytest.raises(ShapeError, match="examples"):
        wb.per_example_grad(one_loss)(W1, b1, W2, X, t)
    with pytest.raises(UsageError, match="no argument counts the examples"):
        wb.per_example_grad(lambda x: np.sum(x**2))(np.ones(3))


def test_the_spread_has_norms_angles_and_the_noise_scale() -> None:
    z, J = jacobian_by_hand(W1, b1, W2)
    g = J * (expit(z) - t)[:, None]
    mean = g.mean(0)
    sizes = np.array([np.sqrt(np.sum(one**2)) for one in g])
    cosines = np.array([one @ mean for one in g]) / sizes / np.linalg.norm(mean)
    noise = np.trace(np.cov(g.T)) / (mean @ mean)
    figure = wb.plots.spread(make_session())
    order = np.concatenate([trace.customdata for trace in figure.data])
    assert_allclose(np.concatenate([x.x for x in figure.data]), sizes[order])
    assert_allclose(np.concatenate([x.y for x in figure.data]), cosines[order])
    assert all(figure.data[0].y >= 0)
    assert all(figure.data[1].y < 0)
    note = note_of(figure)
    assert f"{np.count_nonzero(cosines < 0)} against the mean gradient" in note
    assert f"noise scale {noise:.3g}" in note


def test_the_spread_follows_overrides_and_counts_what_has_no_direction() -> None:
    session = make_session()
    session.override("tanh", "0 * d")
    figure = wb.plots.spread(session, wrt=session.wrt[0])
    assert f"{N} have gradient zero, and no direction" in note_of(figure)
    assert "with 1 override" in note_of(figure)


@pytest.mark.parametrize("kind", ["gauss_newton", "fisher", "spread"])
def test_the_page_has_it_beside_the_hessian(kind: str) -> None:
    session = make_session()
    plot = plots.PLOTS[kind].draw(session, of=None, wrt=None, overrides=True)
    assert plot.views == plots.HESSIAN
    assert kind in plot.views
    if kind != "spread":
        assert plot.matrix is not None
        assert plot.matrix["kind"] == kind


def test_keywords_of_examples_are_refused() -> None:
    def loss(w: Any, x: Any, t: Any) -> Any:
        return np.sum((x @ w - t) ** 2)

    X, t = np.array([[1.0, 0.0], [1.0, 2.0]]), np.array([1.0, 0.0])
    made = wb.per_example_grad(loss, np.int64(0))(np.ones(2), X, t)
    np.testing.assert_allclose(made, [[0, 0], [6, 12]])
    with pytest.raises(UsageError, match=r"t= holds an array.*Pass it by position"):
        wb.per_example_grad(loss)(np.ones(2), X, t=t)
    shared = wb.per_example_grad(loss, in_axes=(None, 0))(np.ones(2), X, t=1.0)
    np.testing.assert_allclose(shared, [[0, 0], [4, 8]])


@pytest.mark.parametrize("count", [0, 1])
def test_batches_of_few_examples_are_drawn(count: int) -> None:
    x = np.ones((count, 2))
    session = wb.Session(wb.trace(lambda w: np.sum((x @ w) ** 2))(np.ones(2)))
    wb.plots.gauss_newton(session)
    wb.plots.fisher(session)
    wb.plots.spread(session)
    with pytest.raises(UsageError, match="a node that sum 3 is computed from"):
        wb.plots.fisher(session, wrt=[])
