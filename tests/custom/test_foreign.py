"""A user's ops on arrays of another library: nothing comes to the host."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.gpu.stand_in import Foreign, inner

pytestmark = pytest.mark.usefixtures("stand_in")

X = np.array([0.3, -1.0, 2.0])


class ForeignPower(wb.Op):
    name = "foreign_power_of_test"
    n: int = 3

    def compute(self, x: Any, scale: Any) -> Any:
        assert not isinstance(x, np.ndarray)
        return scale * x**self.n, np.argmax(x)

    def infer(self, x: wb.Spec, scale: Any) -> Any:
        return x, wb.Spec((), np.intp)  # `compute` refuses examples of NumPy's

    def vjp(self, node: Any, g: Any, _: Any) -> Any:
        x, scale = node.inputs
        return g * scale * self.n * x ** (self.n - 1), None


class ForwardOnly(wb.Op):
    name = "foreign_forward_of_test"

    def compute(self, x: Any) -> Any:
        return 2.0 * x**3

    def jvp(self, node: Any, t: Any) -> Any:
        return 6.0 * node.inputs[0] ** 2 * t


@wb.custom_gradient
def paired(x: Any) -> Any:
    return 2.0 * x**3, lambda g: g * 6.0 * x**2


by_rule = wb.custom_vjp(
    lambda x: 2.0 * x**3,
    vjp=wb.graph_rule(
        ["x", "dy"],
        ["dx"],
        [
            ("square", "square", ["x"]),
            ("slope", "multiply", [6.0, "square"]),
            ("dx", "multiply", ["dy", "slope"]),
        ],
    ),
)

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "op": lambda x: ForeignPower()(x, 2.0)[0],
    "forward": ForwardOnly(),
    "paired": paired,
    "rule": by_rule,
}


@pytest.mark.parametrize("f", FUNCTIONS.values(), ids=FUNCTIONS)
def test_every_mode_stays_where_the_data_is(f: Any) -> None:
    x = Foreign(X)
    total = lambda x: np.sum(f(x))  # noqa: E731
    np.testing.assert_allclose(inner(f(x)), 2 * X**3)
    np.testing.assert_allclose(inner(wb.grad(total)(x)), 6 * X**2)
    np.testing.assert_allclose(inner(wb.jvp(f, (x,), (x,))[1]), 6 * X**3)
    product = wb.jvp(wb.grad(total), (x,), (x,))[1]
    np.testing.assert_allclose(inner(product), 12 * X**2)
    many = wb.vmap(wb.grad(total))(Foreign(np.stack([X, -X])))
    np.testing.assert_allclose(inner(many), np.stack([6 * X**2] * 2))
    batched = wb.grad(lambda x: np.sum(wb.vmap(f)(x)))(Foreign(np.stack([X, -X])))
    np.testing.assert_allclose(inner(batched), np.stack([6 * X**2] * 2))
