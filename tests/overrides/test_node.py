"""What a rule sees of its node: gradients of all inputs, whichever are asked for."""

from __future__ import annotations

import subprocess
import sys
import warnings
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.errors import OverrideError

W = np.array([-1.0, 2.0])
X = np.array([[1.0, 2.0], [3.0, 4.0]])


def halved(node: Any, g: Any) -> Any:
    return [0.5 * c for c in node.vjp(g)]


@pytest.mark.parametrize(
    ("target", "f", "expected"),
    [
        ("matmul", lambda w: np.sum(X @ w), [2.0, 3.0]),
        ("power", lambda w: np.sum(w**3), [1.5, 6.0]),
        ("power", lambda w: np.sum(w**3.0), [1.5, 6.0]),
        ("where", lambda w: np.sum(np.where(w > 0, w, 0.0)), [0.0, 0.5]),
        ("multiply", lambda w: np.sum(3.0 * w), [1.5, 1.5]),
        ("getitem", lambda w: np.sum(w[[1, 1]]), [0.0, 1.0]),
        (
            wb.pattern(lambda x, n: (2 * x) ** n),
            lambda w: np.sum((2 * w) ** 2),
            [-4.0, 8.0],
        ),
    ],
)
def test_a_rule_need_not_know_which_inputs_vary(
    target: Any, f: Any, expected: Any
) -> None:
    given = [wb.override(target, halved)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # of log(-1), by an exponent nobody asks for
        found = wb.grad(f, overrides=given)(W)
        forward = wb.jacobian(f, mode="fwd", overrides=given)(W)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    np.testing.assert_allclose(forward, expected, rtol=1e-12)


def test_gradients_that_nobody_asks_for_are_true_ones() -> None:
    seen: dict[str, Any] = {}

    def look(node: Any, g: Any) -> Any:
        seen["vjp"], seen["wrt"] = node.vjp(g), node.vjp_wrt(g)
        return node.vjp_wrt(g)

    given = [wb.override("matmul", look)]
    wb.grad(lambda w: np.sum(X @ w), overrides=given)(W)
    np.testing.assert_allclose(seen["vjp"][0], np.outer(np.ones(2), W))
    np.testing.assert_allclose(seen["vjp"][1], [4.0, 6.0])
    assert seen["wrt"][0] is None
    given = [wb.override("getitem", look)]
    wb.grad(lambda w: w[np.array([1])][0], overrides=given)(W)
    assert all(c is not None for c in seen["vjp"])


def test_a_function_of_numpy_that_is_no_op_is_told_so() -> None:
    words = "NumPy's take is not an op, but made of others. Its ops: "
    with pytest.raises(OverrideError, match=words):
        wb.grad(
            lambda w: np.sum(np.take(w, [0])), overrides=[wb.override("take", "d")]
        )(W)


def test_a_function_of_numpy_means_its_op_and_is_no_predicate() -> None:
    """`np.mean` of a node is a number, which is true almost everywhere."""
    x = np.ones(3)
    half = wb.override(np.mean, "0.5 * d")
    found = wb.grad(lambda x: np.mean(np.sin(x)), overrides=[half])(x)
    np.testing.assert_allclose(found, np.cos(x) / 6)
    assert str(half.target) == "every mean"
    assert str(wb.override(np.where, "d").target) == "every where"
    for function in (np.divmod, np.amax):
        with pytest.raises(OverrideError, match="is not an op, but made of others"):
            wb.override(function, "d")
    for wrong in (wb.logsumexp, lambda node: np.mean(node)):
        given = [wb.override(wrong, "d")]
        with pytest.raises(OverrideError, match="says True or False of it"):
            wb.grad(lambda x: np.mean(np.sin(x)), overrides=given)(x)
    large = [wb.override(lambda node: np.max(node) > 0.9, "0.5 * d")]
    assert wb.grad(np.exp, overrides=large)(0.0) == 0.5


def test_one_override_in_the_place_of_a_list_is_told_so() -> None:
    with pytest.raises(OverrideError, match=r"Write overrides=\[it\]"):
        wb.grad(np.sin, overrides=wb.override("sin", "d"))(0.0)  # type: ignore[arg-type]


def test_what_is_no_gradient_at_all_is_told_so() -> None:
    for wrong in ("x", {"a": 1}):
        given = [wb.override("sin", lambda node, g, wrong=wrong: wrong)]
        with pytest.raises(OverrideError, match="Return one array of numbers"):
            wb.grad(np.sin, overrides=given)(0.0)


def test_an_op_may_be_loaded_after_its_override_is_made() -> None:
    code = """
import numpy as np, scipy.linalg
import workbench as wb
given = [wb.override(t, "0.5 * d") for t in ("expm", scipy.linalg.expm)]
f = lambda x: wb.scipy.linalg.expm(x)[0, 0]
for one in given:
    g = wb.grad(f, overrides=[one])(np.zeros((2, 2)))
    assert np.allclose(g, [[0.5, 0], [0, 0]]), g
"""
    subprocess.run([sys.executable, "-c", code], check=True)


# What a rule hands on, and what is remembered of it


def cell() -> Any:
    x, w = wb.vector("x"), wb.vector("w")
    return wb.OpFromGraph([x, w], np.tanh(x * w), name="cell_of_rules")


@pytest.mark.parametrize(
    "rule",
    ["3 * d", lambda node, g: [3 * c for c in node.vjp(g)]],
    ids=["expression", "function"],
)
def test_the_true_rule_keeps_the_overrides_inside(rule: Any) -> None:
    """`d` and `node.vjp` are what would be passed on without this override."""
    op, x, w = cell(), np.array([0.5, 0.9]), np.array([0.7, -0.4])
    f = lambda w: np.sum(op(x, w))  # noqa: E731
    given = [wb.override("tanh", "2 * d"), wb.override("cell_of_rules", rule)]
    truth = 6 * x * (1 - np.tanh(w * x) ** 2)
    np.testing.assert_allclose(wb.grad(f, overrides=given)(w), truth, rtol=1e-12)
    _, moved = wb.jvp(f, (w,), (np.ones(2),), overrides=given)
    np.testing.assert_allclose(moved, truth.sum(), rtol=1e-12)
    given[1] = wb.override("cell_of_rules", "true", jvp="3 * d")
    _, moved = wb.jvp(f, (w,), (np.ones(2),), overrides=given)
    np.testing.assert_allclose(moved, truth.sum(), rtol=1e-12)


def test_a_rule_that_looks_at_its_node_is_asked_for_each() -> None:
    """Linear at one node, it may not be so at the next: nothing is transposed then."""

    def rule(node: Any, g: Any) -> Any:
        return g if node.position == 0 else g * g

    given = [wb.override("tanh", rule)]
    f = lambda x: np.sum(np.tanh(x) + 2 * np.tanh(3 * x))  # noqa: E731
    with pytest.raises(OverrideError, match="forward mode cannot follow"):
        wb.jvp(f, (np.ones(2),), (np.ones(2),), overrides=given)


def test_settings_of_a_function_are_part_of_what_is_known_of_it() -> None:
    @wb.custom_vjp
    def scaled(x: Any, power: Any) -> Any:
        return 2 * x

    scaled.defvjp(
        lambda x, power: (scaled(x, power), power),
        lambda power, g: (2 * g if power == 1 else 2 * g * g, None),
    )
    one = np.ones(2)
    _, moved = wb.jvp(lambda x: scaled(x, 1), (one,), (one,))
    np.testing.assert_array_equal(moved, 2 * one)
    with pytest.raises(wb.errors.NotDifferentiableError, match=r"test_node\.py"):
        wb.jvp(lambda x: scaled(x, 2), (one,), (one,))


def test_a_forward_expression_that_fails_names_its_override() -> None:
    given = [wb.override("sum", "d", jvp="t * x")]
    with pytest.raises(OverrideError, match=r"the rule 't \* x' "):
        wb.jvp(np.sum, (np.ones((2, 3)),), (np.ones((2, 3)),), overrides=given)


def test_an_outer_rule_does_not_hide_one_inside_that_is_not_linear() -> None:
    f = lambda x: np.sum(wb.scan(np.tanh, initial=x, n_steps=2)[-1])  # noqa: E731
    given = [
        wb.override("tanh", "clip(d, -0.1, 0.1)"),
        wb.override("scan", "0.5 * d"),
    ]
    with pytest.raises(OverrideError, match="not linear"):
        wb.jvp(f, (W,), (np.ones(2),), overrides=given)
    wb.jvp(f, (W,), (np.ones(2),), overrides=given[1:])
    with pytest.raises(OverrideError, match="not linear"):
        wb.jvp(f, (W,), (np.ones(2),), overrides=given)


def test_functions_of_one_name_are_told_apart() -> None:
    double = wb.custom_vjp(lambda x: 2 * x, lambda node, g: [2 * g])
    bounded = wb.custom_vjp(lambda x: 2 * x, lambda node, g: [np.clip(g, -0.1, 0.1)])
    given = [wb.override("custom_function", "0.5 * d")]
    wb.jvp(lambda x: np.sum(double(x)), (W,), (np.ones(2),), overrides=given)
    with pytest.raises(OverrideError, match="not linear"):
        wb.jvp(lambda x: np.sum(bounded(x)), (W,), (np.ones(2),), overrides=given)


def test_names_of_inputs_are_told_apart() -> None:
    def rule(node: Any, g: Any) -> Any:
        return np.clip(g, -0.1, 0.1) if node.names[0] == "u" else 2 * g

    given = [wb.override("tanh", rule)]
    wb.jvp(lambda v: np.sum(np.tanh(v)), (W,), (np.ones(2),), overrides=given)
    with pytest.raises(OverrideError, match="not linear"):
        wb.jvp(lambda u: np.sum(np.tanh(u)), (W,), (np.ones(2),), overrides=given)


def test_a_rule_for_forward_mode_leaves_reverse_mode_alone() -> None:
    class Opaque(wb.Op):
        def compute(self, x: Any) -> Any:
            return x + 0.0

    given = [wb.override("sign", "true", jvp="t")]
    f = lambda x: np.sum(x**2) + np.sum(Opaque()(np.sign(x)))  # noqa: E731
    np.testing.assert_allclose(wb.grad(f, overrides=given)(W), 2 * W)
    g = lambda x: np.sum(np.sign(x))  # noqa: E731
    assert float(wb.jvp(g, (W,), (np.ones(2),), overrides=given)[1]) == 2.0


def test_a_number_that_becomes_an_array_is_no_node_of_the_users() -> None:
    def f(x: Any) -> Any:
        with wb.scope("layer"):
            return np.sin(x)

    seen: list[int] = []

    def rule(node: Any, g: Any) -> Any:
        seen.append(node.position)
        return 5 * node.vjp(g)[0]

    given = [wb.override("layer/*", rule)]
    assert float(wb.grad(f, overrides=given)(0.0)) == 5.0
    assert seen == [0]
