"""`sanitise_entries`: what is not finite is left out before it is summed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench as wb


class Before(wb.Op):
    """All distances; the cotangent comes before the quotient."""

    def compute(self, x: Any, w: Any) -> Any:
        return np.sqrt(np.sum((x[:, None] - w) ** 2, axis=2))

    def vjp(self, node: Any, g: Any) -> Any:
        (x, w), (z,) = node.inputs, node.outputs
        parts = g[:, :, None] * (x[:, None] - w) / z[:, :, None]
        return np.sum(parts, axis=1), -np.sum(parts, axis=0)


class Behind(Before):
    """The cotangent comes after the quotient, which is 0 / 0 already."""

    def vjp(self, node: Any, g: Any) -> Any:
        (x, w), (z,) = node.inputs, node.outputs
        parts = (x[:, None] - w) / z[:, :, None] * g[:, :, None]
        return np.sum(parts, axis=1), -np.sum(parts, axis=0)


def composed(x: Any, w: Any) -> Any:
    return np.sqrt(np.sum((x[:, None] - w) ** 2, axis=2))


WAYS: dict[str, Callable[..., Any]] = {
    "cotangent first": Before(),
    "cotangent last": Behind(),
    "of NumPy": composed,
    "as a power": lambda x, w: np.sum((x[:, None] - w) ** 2, axis=2) ** 0.5,
    "in a checkpoint": lambda x, w: wb.checkpoint(composed)(x, w),
    "row by row": lambda x, w: np.stack(
        [np.sqrt(np.sum((x[i] - w) ** 2, axis=1)) for i in range(len(x))]
    ),
}


def points(rng: np.random.Generator) -> tuple[Any, Any]:
    """Two sets of points that meet at two."""
    x, w = rng.normal(size=(4, 3)), rng.normal(size=(5, 3))
    x[1], x[3] = w[2], w[0]
    return x, w


def truth(x: Any, w: Any) -> tuple[Any, Any]:
    """The gradients of the sum of all distances, those at 0 left out."""
    apart = x[:, None] - w
    length = np.sqrt(np.sum(apart**2, axis=2, keepdims=True))
    parts = np.divide(apart, length, out=np.zeros_like(apart), where=length > 0)
    return parts.sum(1), -parts.sum(0)


@pytest.mark.parametrize("way", WAYS)
def test_G3_the_fix_for_distances_of_0_keeps_all_other_pairs(
    way: str, rng: np.random.Generator
) -> None:
    x, w = points(rng)

    def f(x: Any, w: Any) -> Any:
        return np.sum(WAYS[way](x, w))

    with np.errstate(all="ignore"):
        session = wb.Session(wb.trace(f)(x, w))
        assert not np.isfinite(session.grads["x"]).all()
        for finding in session.diagnose():
            assert finding.fix is not None
            assert finding.fix.rule is not None
            session.fix(finding)
    for name, expected in zip("xw", truth(x, w), strict=True):
        np.testing.assert_allclose(session.grads[name], expected, atol=1e-12)


def test_the_seed_at_points_that_meet() -> None:
    """Of the seed's `cdist` the gradient is that of the points that do not meet."""
    x = np.array([[0.0, 0.0, 0.0]])
    w = np.array([[0.0, 0.0, 0.0], [1.3, 0.2, 0.18]])
    for op in (Before(), Behind()):
        with np.errstate(all="ignore"):
            (found,) = wb.diagnose(lambda x, op=op: np.sum(op(x, w)), x)
            rule = wb.override(found.node.op.name, found.fix.rule)
            g = wb.grad(lambda x, op=op: np.sum(op(x, w)), overrides=[rule])(x)
        expected = (x - w)[1] / np.linalg.norm((x - w)[1])
        np.testing.assert_allclose(g, expected[None])


@pytest.mark.parametrize("op", [Before(), Behind()])
def test_second_order_and_forward_mode(op: Any, rng: np.random.Generator) -> None:
    x, w = points(rng)
    rule = wb.override(type(op).__name__.lower(), "sanitise_entries")
    f = lambda x: np.sum(op(x, w))  # noqa: E731
    v = rng.normal(size=x.shape)
    with np.errstate(all="ignore"):
        _, moved = wb.jvp(f, (x,), (v,), overrides=[rule])
        hessian = wb.hessian(f, overrides=[rule])(x)
    assert moved == pytest.approx(np.sum(truth(x, w)[0] * v))
    # Of the rows that meet no other point the Hessian is the true one.
    free = [0, 2]
    true = wb.hessian(lambda a: np.sum(composed(a, w)))(x[free])
    np.testing.assert_allclose(hessian[np.ix_(free, range(3), free)], true, atol=1e-10)


def test_where_all_is_finite_it_is_the_true_rule(rng: np.random.Generator) -> None:
    a, b = rng.normal(size=(3, 4)), rng.normal(size=(4, 2))
    f = lambda a, b: np.sum(np.tanh(a @ b))  # noqa: E731
    rule = wb.override("matmul", "sanitise_entries")
    got = wb.grad(f, argnums=(0, 1), overrides=[rule])(a, b)
    for g, h in zip(got, wb.grad(f, argnums=(0, 1))(a, b), strict=True):
        np.testing.assert_array_equal(g, h)


def test_an_infinite_entry_of_a_product_spoils_its_own_part_alone() -> None:
    w = np.array([[1.0, np.inf], [2.0, 3.0]])
    f = lambda x: np.sum(wb.at(x @ w)[1].set(0.0))  # noqa: E731
    rule = wb.override("matmul", "sanitise_entries")
    with np.errstate(all="ignore"):
        g = wb.grad(f, overrides=[rule])(np.array([1.0, 1.0]))
    np.testing.assert_array_equal(g, [1.0, 2.0])


def test_a_rule_that_takes_arrays_alone_is_sanitised_after_its_sums() -> None:
    class Root(wb.Op):
        def compute(self, x: Any) -> Any:
            return np.sqrt(x)

        def vjp(self, node: Any, g: Any) -> Any:
            (y,) = node.outputs
            return np.array([float(a) / (2 * float(b)) if b else np.inf for a, b in
                             zip(g, y, strict=True)])  # fmt: skip

    rule = wb.override("root", "sanitise_entries")
    g = wb.grad(lambda x: np.sum(Root()(x)), overrides=[rule])(np.array([0.0, 4.0]))
    np.testing.assert_array_equal(g, [0.0, 0.25])
