"""The derivative of any node of a session by any other, in whole and in part."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import workbench as wb
from workbench.autodiff.linear_map import LinearMap
from workbench.errors import DisconnectedInputError, DtypeError, UsageError
from workbench.session import derivative as derivatives


def session_of(f: Callable[..., Any], *args: Any, **settings: Any) -> wb.Session:
    return wb.Session(wb.trace(f)(*args), **settings)


def named(x: Any, name: str) -> Any:
    x.name = name
    return x


def layers(W1: Any, b1: Any, W2: Any, x: Any) -> Any:
    a = named(W1 @ x + b1, "a")
    h = named(np.tanh(a), "h")
    p = named(W2 @ h, "p")
    return named(np.sum(p**2), "loss")


class Model:
    """Two layers, and their derivatives by hand."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.W1, self.b1 = rng.normal(size=(4, 3)), rng.normal(size=4)
        self.W2, self.x = rng.normal(size=(2, 4)), rng.normal(size=3)
        args = (self.W1, self.b1, self.W2, self.x)
        self.session = session_of(layers, *args, wrt=["W1", "b1", "W2"])
        self.h = np.tanh(self.W1 @ self.x + self.b1)
        self.slope = 1 - self.h**2
        self.p = self.W2 @ self.h

    def h_by_W1(self) -> Any:
        made = np.zeros((4, 4, 3))
        for i in range(4):
            made[i, i] = self.slope[i] * self.x
        return made


@pytest.fixture
def model(rng: np.random.Generator) -> Model:
    return Model(rng)


# G2: any two nodes


@pytest.mark.parametrize("mode", ["auto", "forward", "reverse"])
def test_G2_any_two_nodes(model: Model, mode: Any) -> None:
    ask = model.session.derivative
    assert_allclose(ask("h", "W1", mode=mode).value, model.h_by_W1(), rtol=1e-13)
    by_h = ask("loss", "h", mode=mode).value
    assert_allclose(by_h, 2 * model.W2.T @ model.p, rtol=1e-13)
    assert_allclose(ask("p", "a", mode=mode), model.W2 * model.slope, rtol=1e-13)
    assert_array_equal(ask("h", "h", mode=mode), np.eye(4))


def test_a_derivative_is_like_an_array_in_the_shapes_of_both(model: Model) -> None:
    d = model.session.derivative("h", "W1")
    assert (d.shape, d.rows, d.columns) == ((4, 4, 3), 4, 12)
    assert_allclose(np.asarray(d), model.h_by_W1(), rtol=1e-13)
    assert_allclose(d.matrix, model.h_by_W1().reshape(4, 12), rtol=1e-13)
    assert_allclose(d[2, 2], model.slope[2] * model.x, rtol=1e-13)
    assert np.asarray(d, np.float32).dtype == np.float32
    assert len(d) == 4
    value = d.value
    value[:] = 0  # the caller's own
    assert np.any(d.value)


def test_several_variables_stand_side_by_side(model: Model) -> None:
    d = model.session.derivative("p", ["W2", "b1"])
    assert d.shape == (2, 8 + 4)
    by_W2 = np.kron(np.eye(2), model.h).reshape(2, 2, 4)
    by_b1 = model.W2 * model.slope
    whole = np.concatenate([by_W2.reshape(2, 8), by_b1], 1)
    assert_allclose(d.value, whole, rtol=1e-13)
    assert list(d.blocks) == ["W2", "b1"]
    assert_allclose(d.blocks["W2"], by_W2, rtol=1e-13)


def test_what_is_computed_from_another_is_held_while_that_varies(
    model: Model,
) -> None:
    for mode in ("forward", "reverse"):
        d = model.session.derivative("p", ["h", "b1"], mode=mode)
        assert_allclose(d.blocks["h"], model.W2, rtol=1e-13)
        assert not np.any(d.blocks["b1"])
        assert "does not depend on b1 while the others are held" in d.notes[0]


def test_the_path_has_both_ends_and_nothing_beside_it(model: Model) -> None:
    session = model.session
    names = [session.nodes.labels[i] for i in session.derivative("h", "b1").path]
    assert names[0] == "b1"
    assert names[-2:] == ["a", "h"]
    assert not {"W1", "x", "p", "loss"} & set(names)
    assert len(names) == 3
    assert session.derivative("h", "h").path == [session.nodes.find("h")]


def test_no_derivative_flows_through_a_comparison_so_no_path_leads_there() -> None:
    def f(x: Any) -> Any:
        twice = named(2 * x, "twice")
        return np.sum(np.where(twice > 0, np.sin(x), x))

    session = session_of(f, np.ones(2))
    names = {session.nodes.labels[i] for i in session.derivative(wrt="x").path}
    assert "twice" not in names
    assert {"x", "sum 5"} <= names
    assert session.derivative("twice", "x").path != []


def test_reversed_and_unconnected_nodes_are_told_apart(model: Model) -> None:
    with pytest.raises(
        DisconnectedInputError,
        match=r"h is computed from W1, not the other way round.*Swap them:"
        r" ad\.derivative\('h', 'W1'\)",
    ):
        model.session.derivative("W1", "h")
    with pytest.raises(DisconnectedInputError, match="no path between them"):
        model.session.derivative("h", "W2")


def test_what_has_no_derivative_is_said() -> None:
    def f(x: Any) -> Any:
        steps = named(np.sign(x), "s")
        n = named(np.round(x).astype(np.int64), "n")
        return np.sum(steps * x * n)

    session = session_of(f, np.array([1.0, -2.0]))
    d = session.derivative("s", "x")
    assert_array_equal(d.value, np.zeros((2, 2)))
    assert "zero everywhere: s (sign) has no derivative" in repr(d)
    with pytest.raises(DtypeError, match="n is of dtype int64"):
        session.derivative(wrt="n")
    with pytest.raises(DtypeError, match=r"and has no derivative\. Choose a float"):
        session.derivative("n", "x")
    with pytest.raises(UsageError, match="wrt is empty"):
        session.derivative("s", [])
    with pytest.raises(UsageError, match="mode='backward'"):
        session.derivative("s", "x", mode="backward")  # type: ignore[arg-type]


def test_a_node_with_several_arrays_says_which_to_ask_for() -> None:
    def f(x: Any) -> Any:
        values, _ = np.linalg.eigh(x)
        return np.sum(values)

    session = session_of(f, np.diag([1.0, 2.0]))
    with pytest.raises(UsageError, match=r"several outputs.*Choose one of them"):
        session.derivative("eigh 1", "x")


def test_without_values_it_says_how_to_give_them() -> None:
    kind = wb.Spec((2,), np.dtype(np.float64))
    session = wb.Session(wb.trace(lambda x: np.sum(x**2))(kind))
    with pytest.raises(UsageError, match=r"has no value.*Pass all inputs to ad\.run"):
        session.derivative()
    session.run(x=np.array([1.0, 2.0]))
    assert_allclose(session.derivative(), [2.0, 4.0])


# The cheaper mode


def test_the_cheaper_mode_is_taken_and_no_sweep_is_run_in_vain() -> None:
    def f(x: Any) -> Any:
        wide = named(np.outer(x, np.arange(1.0, 51.0)).ravel(), "wide")
        return named(np.sum(np.sin(wide)), "total")

    session = session_of(f, np.array([0.1, 0.2]))
    tall = session.derivative("wide", "x")
    assert tall.mode == "forward"
    told: list[tuple[int, int]] = []
    tall.compute_all(lambda *far: told.append(far))
    assert told[-1] == (2, 2)
    assert_allclose(tall.value, np.kron(np.eye(2), np.arange(1.0, 51.0)).T)
    flat = session.derivative("total", "wide")
    assert flat.mode == "reverse"
    flat.compute_all(lambda *far: told.append(far))
    assert told[-1] == (1, 1)
    assert_allclose(flat.value, np.cos(session.values["wide"]))


def test_the_work_between_counts_not_only_the_number_of_sweeps() -> None:
    def f(a: Any, b: Any) -> Any:
        long = a
        for _ in range(40):
            long = np.tanh(long)
        near = named(np.concatenate([b, b, b]), "near")
        return named(np.sum(long) * near, "y")

    # By b there are fewer entries than in y, by both there are more.
    session = session_of(
        f, np.ones(100), np.arange(1.0, 31.0), output="y", seed=np.ones(90)
    )
    assert session.derivative("y", "b").mode == "forward"
    assert session.derivative("y", ["a", "b"]).mode == "reverse"


def test_a_window_runs_only_the_sweeps_that_it_needs(rng: np.random.Generator) -> None:
    A = rng.normal(size=(60, 80))
    session = session_of(lambda x: np.sin(A @ x), rng.normal(size=80), seed=np.ones(60))
    d = session.derivative("sin 2", "x")
    x = session.values["x"]
    whole = np.cos(A @ x)[:, None] * A
    told: list[tuple[int, int]] = []
    found = d.window((5, 8), (0, 80), lambda *far: told.append(far))
    assert_allclose(found, whole[5:8], rtol=1e-12)
    assert d.choose_mode((5, 8), (0, 80)) == "reverse"
    assert told[-1] == (3, 3)
    found = d.window(slice(None), slice(70, 71), lambda *far: told.append(far))
    assert_allclose(found, whole[:, 70:71], rtol=1e-12)
    assert d.choose_mode((0, 60), (70, 71)) == "forward"
    assert told[-1] == (1, 1)
    assert_allclose(d.window((59, 60), (79, 80)), whole[59:, 79:], rtol=1e-12)


def test_windows_cut_through_several_variables(model: Model) -> None:
    for mode in ("forward", "reverse"):
        d = model.session.derivative("p", ["W1", "W2", "b1"], mode=mode)
        whole = d.matrix
        again = model.session.derivative("p", ["W1", "W2", "b1"], mode=mode)
        for rows, columns in (((0, 1), (10, 21)), ((1, 2), (3, 5)), ((0, 2), (12, 24))):
            part = again.window(rows, columns)
            assert_allclose(part, whole[slice(*rows), slice(*columns)], rtol=1e-13)


@pytest.mark.parametrize(
    ("window", "words"),
    [
        ({"rows": (0, 9)}, r"rows=\(0, 9\) lies outside the matrix, which has 2 rows"),
        ({"columns": (3, 3)}, "lies outside"),
        ({"columns": (-1, 3)}, "lies outside"),
        ({"rows": (0.0, 1.0)}, r"is not a part of a matrix. Write.*rows=\(0, 2\)"),
        ({"rows": (False, True)}, "is not a part of a matrix"),
        ({"rows": 3}, "is not a part of a matrix"),
        ({"rows": slice(0, 2, 2)}, "has a step"),
    ],
)
def test_bad_windows(model: Model, window: Any, words: str) -> None:
    d = model.session.derivative("p", "h")
    with pytest.raises(UsageError, match=words):
        d.window(**window)


# Overrides


def test_overrides_hold_and_can_be_left_out(model: Model) -> None:
    session = model.session
    session.override("tanh", "0.5 * d")
    for mode in ("forward", "reverse"):
        d = session.derivative("h", "W1", mode=mode)
        assert_allclose(d.value, model.h_by_W1() / 2, rtol=1e-13)
        true = session.derivative("h", "W1", mode=mode, overrides=False)
        assert_allclose(true.value, model.h_by_W1(), rtol=1e-13)


def test_without_a_forward_rule_reverse_mode_stands_in() -> None:
    session = session_of(
        lambda x: np.outer(np.sin(x), np.ones(9)), np.ones(2), seed=np.ones((2, 9))
    )
    assert session.derivative(wrt="x").mode == "forward"
    session.override("sin", "clip(d, -0.1, 0.1)")
    d = session.derivative(wrt="x")
    assert d.mode == "reverse"
    assert_allclose(d.value[:, 0], 0.1 * np.eye(2))
    with pytest.raises(wb.errors.OverrideError, match="forward"):
        session.derivative(wrt="x", mode="forward").value  # noqa: B018


def test_a_rule_that_looks_at_what_arrives_is_run_row_by_row() -> None:
    def rule(node: Any, g: Any) -> Any:
        return g if np.sum(g) > 0 else -3 * g

    def f(x: Any) -> Any:
        return np.array([1.0, -2.0]) * np.exp(x)

    session = session_of(f, np.zeros(2), seed=np.ones(2))
    session.override("exp", rule)
    d = session.derivative(wrt="x")
    assert_allclose(d.value, [[1.0, 0.0], [0.0, 6.0]])
    wide = session_of(lambda x: np.outer(np.sin(x), np.ones(90)), 0.3 * np.ones(2),
                      seed=np.ones((2, 90)))  # fmt: skip
    wide.override("sin", rule)
    d = wide.derivative(wrt="x")
    told: list[int] = []
    d.window(progress=lambda done, total: told.append(done))
    assert d.mode == "reverse"
    assert told[-1] == 180
    assert len(told) > 5
    assert_allclose(d.value[:, 0], np.eye(2))


def test_an_override_inside_a_loop_holds() -> None:
    def f(w: Any) -> Any:
        hs = wb.scan(lambda h, w: np.tanh(w * h), None, [np.full(2, 0.5)], w, n_steps=3)
        return hs[-1]

    w = np.array([0.5, -0.3])
    session = session_of(f, w, seed=np.ones(2))

    def by_hand(slope: Callable[[Any], Any]) -> Any:
        h, by_w = np.full(2, 0.5), np.zeros(2)
        for _ in range(3):
            new = np.tanh(w * h)
            by_w = slope(1 - new**2) * (h + w * by_w)
            h = new
        return np.diag(by_w)

    assert_allclose(session.derivative(wrt="w"), by_hand(lambda s: s), rtol=1e-12)
    session.override("tanh", "0.5 * d")
    assert_allclose(session.derivative(wrt="w"), by_hand(lambda s: s / 2), rtol=1e-12)


# Dtypes and shapes


def test_one_number_by_one_number() -> None:
    session = session_of(lambda x: x**3, 2.0)
    d = session.derivative()
    assert (d.shape, d.rows, d.columns) == ((), 1, 1)
    assert_allclose(np.asarray(d), 12.0)
    with pytest.raises(TypeError, match="no length"):
        len(d)


def test_single_precision_stays(rng: np.random.Generator) -> None:
    A = rng.normal(size=(3, 2)).astype(np.float32)
    session = session_of(lambda x: A @ x, A[0], seed=np.ones(3))
    d = session.derivative()
    assert d.value.dtype == np.float32
    assert_array_equal(d, A)
    assert d.singular_values.dtype == np.float64


def test_nothing_at_all_is_an_empty_matrix() -> None:
    session = session_of(lambda x: x.sum() + np.zeros(3), np.zeros(0), seed=np.ones(3))
    d = session.derivative()
    assert d.value.shape == (3, 0)
    assert (d.rank, d.singular_values.shape) == (0, (0,))
    assert d.sparsity.shape == (3, 0)


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_complex_entries_follow_the_convention(mode: Any) -> None:
    z = np.array([1.0 + 2.0j, 0.5 - 1.0j])
    analytic = session_of(lambda z: z * z * z, z, seed=np.ones(2, complex))
    assert_allclose(analytic.derivative(mode=mode).value, np.diag(3 * z**2))
    real = session_of(lambda z: np.real(z) ** 2 + 3 * np.imag(z), z, seed=np.ones(2))
    # df/dx - i df/dy
    assert_allclose(
        real.derivative(mode=mode).value, np.diag(2 * z.real - 3j), rtol=1e-13
    )
    x = np.array([0.5, 2.0])
    wave = session_of(lambda x: np.exp(1j * x), x, seed=np.ones(2, complex))
    assert_allclose(
        wave.derivative(mode=mode).value, np.diag(1j * np.exp(1j * x)), rtol=1e-13
    )


# What follows from the entries


def test_singular_values_rank_and_condition_are_those_of_scipy(
    rng: np.random.Generator,
) -> None:
    linalg = pytest.importorskip("scipy.linalg")
    A = rng.normal(size=(6, 2)) @ rng.normal(size=(2, 5))
    session = session_of(lambda x: A @ x, np.ones(5), seed=np.ones(6))
    d = session.derivative()
    assert_allclose(d.singular_values, linalg.svdvals(A), atol=1e-14)
    assert d.rank == 2
    assert d.condition > 1e14
    B = A[:, :2] + np.eye(6, 2)
    d = session_of(lambda x: B @ x, np.ones(2), seed=np.ones(6)).derivative()
    assert_allclose(d.condition, np.linalg.cond(B), rtol=1e-12)


def test_sparsity_is_where_entries_can_differ_from_zero(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def f(x: Any) -> Any:
        return x[1:] * x[1:] + np.where(x[:-1] > 1, x[:-1], 0.0)

    session = session_of(f, np.array([0.0, 2.0, 0.0]), seed=np.ones(2))
    d = session.derivative()
    with monkeypatch.context() as patch:
        for name in ("push", "pull", "matrix", "windows"):
            patch.setattr(LinearMap, name, None)  # no number is computed
        assert isinstance(d.sparsity, wb.SparsityPattern)
        assert_array_equal(d.sparsity.toarray(), [[1, 1, 0], [0, 1, 1]])
        assert d.colouring.count == 2
    found = d.to_scipy("csc")
    assert (found.format, found.nnz) == ("csc", 4)  # zeros are kept
    assert_allclose(found.toarray(), [[0, 4, 0], [0, 1, 0]])
    assert_allclose(found.toarray(), d.matrix)


def test_sparsity_with_overrides_is_where_entries_are_not_zero() -> None:
    session = session_of(np.sin, np.array([0.0, 1.0, 2.0]), seed=np.ones(3))
    session.override("sin", "g * (x > 0.5)")
    d = session.derivative()
    assert_array_equal(d.sparsity.toarray(), np.diag([0, 1, 1]))
    assert_allclose(d.to_scipy().toarray(), d.matrix)
    true = session.derivative(overrides=False)
    assert_array_equal(true.sparsity.toarray(), np.eye(3))
    assert_allclose(true.to_scipy().toarray(), np.diag(np.cos([0, 1, 2])))


@pytest.mark.parametrize("kind", ["columns", "rows", "both", "float32", "complex"])
def test_entries_by_colours_are_those_of_the_matrix(
    kind: str, rng: np.random.Generator
) -> None:
    def f(x: Any, y: Any) -> Any:
        wide = x * x * y
        if kind == "rows":
            return np.stack([wide[:20].sum(), wide[20:].sum()])
        if kind == "both":
            return np.concatenate([wide.sum(keepdims=True), x[:1] * x[1:]])
        return np.diff(wide)

    x = rng.normal(size=40)
    x = x.astype(np.float32) if kind == "float32" else x
    x = x + 1j * x[::-1] if kind == "complex" else x
    session = session_of(f, x, x[0], seed=np.ones_like(f(x, x[0])))
    for wrt in ("x", ["x", "y"]):
        d = session.derivative(wrt=wrt)
        if kind in ("rows", "both") and wrt == "x":
            assert d.colouring.mode == kind
        found = d.to_scipy()
        assert found.dtype == d.dtype
        assert_allclose(found.toarray(), d.matrix, rtol=1e-6)


def test_not_finite_entries_are_said_where_they_hurt() -> None:
    with np.errstate(all="ignore"):
        session = session_of(np.sqrt, np.array([1.0, 0.0]), seed=np.ones(2))
    d = session.derivative()
    assert np.isinf(d.value[1, 1])
    with pytest.raises(UsageError, match="1 entry that is not finite, the first inf"):
        d.singular_values  # noqa: B018


def test_too_much_is_refused_with_what_to_do() -> None:
    session = session_of(np.tanh, np.zeros(20_000), seed=np.ones(20_000))
    d = session.derivative()
    with pytest.raises(UsageError, match=r"20,000 × 20,000.*\.window.*\.plot\(\)"):
        d.value  # noqa: B018
    with pytest.raises(UsageError, match="decomposition would take minutes"):
        d.singular_values  # noqa: B018
    assert_array_equal(d.window((19_998, 20_000), (19_998, 20_000)), np.eye(2))
    huge = session_of(np.tanh, np.zeros(70_000), seed=np.ones(70_000)).derivative()
    with pytest.raises(UsageError, match=r"70,000 × 70,000.*Give a window"):
        huge.pool((0, 70_000), (0, 70_000), (350, 350))


# The second derivative


def test_second_derivatives_of_all_blocks_and_their_eigenvalues() -> None:
    A = np.array([[4.0, 1.0], [1.0, -2.0]])

    def f(x: Any, y: Any) -> Any:
        return x @ A @ x / 2 + y * np.sum(x)

    session = session_of(f, np.array([1.0, 2.0]), 3.0)
    found = derivatives.make_second_derivative(session._state, None)
    whole = np.block([[A, np.ones((2, 1))], [np.ones((1, 2)), np.zeros((1, 1))]])
    assert_allclose(found.matrix, whole, atol=1e-14)
    assert derivatives.make_second_derivative(session._state, "x").mode == "forward"
    values, asymmetry = found.eigenvalues()
    assert_allclose(values, np.linalg.eigvalsh(whole))
    assert asymmetry < 1e-14
    blocks = session.hessian()
    assert_allclose(blocks["x"]["y"], np.ones(2))
    assert_allclose(blocks["y"]["y"], 0.0)


def test_a_seed_weighs_the_outputs_of_a_hessian() -> None:
    session = session_of(lambda x: x**3, np.array([1.0, 2.0]), seed=np.array([1.0, 10]))
    assert_allclose(session.hessian("x"), np.diag([6.0, 120.0]))


def test_an_override_makes_a_hessian_asymmetric_and_that_is_measured() -> None:
    session = session_of(lambda x, y: np.sin(x) * y, 0.3, 2.0)
    session.override("sin", "2 * d")
    # g_x = 2 y cos x, g_y = sin x; the override acts on the second pass too.
    found = derivatives.make_second_derivative(session._state, None)
    expected = [[-2 * 2 * np.sin(0.3), 2 * np.cos(0.3)], [2 * np.cos(0.3), 0.0]]
    assert_allclose(found.matrix, expected, rtol=1e-13)
    assert found.eigenvalues()[1] < 1e-12
    session.remove(session.overrides[0])
    session.override("sin", lambda node, g: g * np.cos(node.inputs[0]) + 0 * g)
    session.override("multiply", "d * (1 + x0)")
    found = derivatives.make_second_derivative(session._state, None)
    assert found.eigenvalues()[1] > 0.1


def test_a_complex_hessian_has_no_spectrum() -> None:
    session = session_of(lambda z: np.sum(z**3), np.array([1.0 + 1j, 2.0]), output=None)
    with pytest.raises(UsageError, match="is complex: it is symmetric, not Hermitian"):
        derivatives.make_second_derivative(session._state, None).eigenvalues()


def test_B3_derivatives_through_a_structure_that_is_overridden(model: Model) -> None:
    def halved(node: Any, g: Any) -> Any:
        W, x, _ = node.inputs
        return 0.5 * np.outer(g, x), 0.25 * (W.T @ g), 2.0 * g

    session = model.session
    session.override(wb.pattern(lambda W, x, b: W @ x + b), halved)
    for mode in ("forward", "reverse"):
        ask = session.derivative
        by_W1 = ask("h", "W1", mode=mode)
        assert_allclose(by_W1, model.h_by_W1() / 2, rtol=1e-13)
        by_x = ask("p", "x", mode=mode)
        true = model.W2 @ (model.slope[:, None] * model.W1)
        assert_allclose(by_x, true / 4, rtol=1e-12)
        assert_allclose(ask("h", "b1", mode=mode), 2 * np.diag(model.slope))
        assert_allclose(ask("p", "a", mode=mode), model.W2 * model.slope, rtol=1e-13)
    blocks = session.jacobian("h", ["W1", "b1"])
    assert_allclose(blocks["b1"], 2 * np.diag(model.slope))
    # Second order: the gradient by b1 is twice the true one, and so is its derivative.
    rows = model.W2 * model.slope
    bend = np.diag(-2 * model.h * model.slope * (2 * model.W2.T @ model.p))
    true = 2 * rows.T @ rows + bend
    assert_allclose(session.hessian("b1"), 4 * true, rtol=1e-11)


def inner_square(x: Any) -> Any:
    return (np.sin(x) * x) ** 2


def step_square(x: Any) -> Any:
    last = wb.scan(lambda h: np.sin(h) * x, None, [x], n_steps=1, last=True, memory=1)
    return last**2


@pytest.mark.parametrize(
    "f",
    [
        wb.checkpoint(inner_square),
        step_square,
        lambda x: wb.cond(np.sum(x) > 0, inner_square, lambda x: x, x),
    ],
    ids=["checkpoint", "scan in pieces", "branch"],
)
def test_a_hessian_through_ops_that_run_again(f: Any) -> None:
    """What such an op computes is part of the gradient that is differentiated."""
    at = np.array([0.5, 0.7])
    s, c = np.sin(at), np.cos(at)
    slope = s + at * c
    truth = 2 * slope**2 + 2 * at * s * (2 * c - at * s)
    session = wb.Session(wb.trace(lambda x: np.sum(f(x)))(at))
    np.testing.assert_allclose(session.hessian("x"), np.diag(truth), rtol=1e-12)
