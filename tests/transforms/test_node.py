"""What a rule sees of its node: gradients of all inputs, whichever are asked for."""

from __future__ import annotations

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
        seen["vjp"], seen["asked"] = node.vjp(g), node.asked(g)
        return node.asked(g)

    given = [wb.override("matmul", look)]
    wb.grad(lambda w: np.sum(X @ w), overrides=given)(W)
    np.testing.assert_allclose(seen["vjp"][0], np.outer(np.ones(2), W))
    np.testing.assert_allclose(seen["vjp"][1], [4.0, 6.0])
    assert seen["asked"][0] is None
    given = [wb.override("getitem", look)]
    wb.grad(lambda w: w[np.array([1])][0], overrides=given)(W)
    assert all(c is not None for c in seen["vjp"])


def test_a_function_of_numpy_that_is_no_op_is_told_so() -> None:
    words = "NumPy's take is no op, but made of others. Its ops: "
    with pytest.raises(OverrideError, match=words):
        wb.grad(
            lambda w: np.sum(np.take(w, [0])), overrides=[wb.override("take", "d")]
        )(W)
