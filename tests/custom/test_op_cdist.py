"""The seed's `cdist`, an op whose gradient stands beside it (A1 to A5)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.spatial import distance

import workbench as wb
from workbench.backends.numpy import compile
from workbench.errors import GradientError

X = np.array([[0.3, -1.2], [0.5, 2.0], [-0.7, 0.4]])

W = np.array([[1.0, 0.2], [-0.4, 0.9], [2.0, -2.0], [0.1, 0.1]])


def by_inputs(node: Any, g: Any) -> Any:
    """The seed's first form; there ``g`` lacks its axis, ``dimshuffle(0, 1, 'x')``."""
    x, w = node.inputs
    diff = x[:, None, :] - w[None, :, :]
    z = np.sqrt(np.sum(diff**2, axis=2, keepdims=True))
    diff = g[:, :, None] * diff / z
    return np.sum(diff, axis=1), -np.sum(diff, axis=0)


def by_outputs(node: Any, g: Any) -> Any:
    """The seed's second form, which reads the distance that was computed."""
    x, w = node.inputs
    (z,) = node.outputs
    diff = x[:, None, :] - w[None, :, :]
    diff = g[:, :, None] * diff / z[:, :, None]
    return np.sum(diff, axis=1), -np.sum(diff, axis=0)


def safe(node: Any, g: Any) -> Any:
    """The second form, with the subgradient 0 where two points coincide."""
    x, w = node.inputs
    z = node.outputs[0][:, :, None]
    diff = x[:, None, :] - w[None, :, :]
    unit = np.where(z > 0, diff / np.where(z > 0, z, 1.0), 0.0)
    diff = g[:, :, None] * unit
    return np.sum(diff, axis=1), -np.sum(diff, axis=0)


def cdist_with(rule: Callable[..., Any]) -> Any:
    class Cdist(wb.Op):
        def compute(self, x: Any, w: Any) -> Any:
            return distance.cdist(x, w, "euclidean")

        def vjp(self, node: Any, g: Any) -> Any:
            return rule(node, g)

    return Cdist()


def true_distance(x: Any, w: Any) -> Any:
    """Of complex arrays too, for the complex step."""
    return np.sqrt(np.sum((x[:, None, :] - w[None, :, :]) ** 2, axis=2))


def complex_step(f: Callable[[Any], Any], x: Any) -> Any:
    """The derivative of f, which may be an array, by each entry of x."""
    columns = []
    for i in np.ndindex(x.shape):
        z = x.astype(complex)
        z[i] += 1e-30j
        columns.append(np.imag(f(z)) / 1e-30)
    made = np.stack(columns, axis=-1)
    return made.reshape(made.shape[:-1] + x.shape)


def cube(c: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, w: np.sum(c(x, w) ** 3)


def true_gradient(x: Any, w: Any) -> Any:
    """That of ``sum(distance**3)`` by x: ``3 z**2 * diff / z``, in closed form."""
    diff = x[:, None, :] - w[None, :, :]
    return np.sum(3 * true_distance(x, w)[:, :, None] * diff, axis=1)


# The seed


def test_A1_cdist_computes_by_scipy_and_its_type_is_inferred() -> None:
    cdist = cdist_with(by_inputs)
    np.testing.assert_array_equal(cdist(X, W), distance.cdist(X, W))
    symbol = cdist(wb.tensor("x", shape=(3, 2)), wb.tensor("w", shape=(4, 2)))
    assert (symbol.shape, symbol.dtype) == ((3, 4), np.dtype(float))
    assert symbol.op.name == "cdist"
    graph = wb.trace(cube(cdist))(X, W)
    node = next(n for n in graph.nodes if n.op.name == "cdist")
    assert "return lambda x, w: np.sum(c(x, w) ** 3)" in str(node.site)


@pytest.mark.parametrize("rule", [by_inputs, by_outputs], ids=["A2", "A3"])
def test_A2_A3_the_two_forms_of_its_gradient(rule: Callable[..., Any]) -> None:
    f = cube(cdist_with(rule))
    for i in (0, 1):
        want = complex_step(
            lambda z, i=i: cube(true_distance)(*((z, W), (X, z))[i]), (X, W)[i]
        )
        np.testing.assert_allclose(wb.grad(f, i)(X, W), want, rtol=1e-12)
    want = complex_step(lambda z: true_gradient(z, W), X)
    np.testing.assert_allclose(wb.hessian(f)(X, W), want, rtol=1e-10, atol=1e-12)
    assert wb.check_grads(f, (X, W), order=2).ok


@pytest.mark.parametrize("rule", [by_inputs, by_outputs])
def test_both_modes_agree_with_the_complex_step(rule: Callable[..., Any]) -> None:
    cdist = cdist_with(rule)
    want = complex_step(lambda z: true_distance(z, W), X)
    for mode in ("fwd", "rev"):
        found = wb.jacobian(cdist, mode=mode)(X, W)
        np.testing.assert_allclose(found, want, rtol=1e-12)


def test_A4_the_gradient_is_another_op() -> None:
    class CdistGrad(wb.Op):
        def compute(self, x: Any, w: Any, z: Any, g: Any) -> Any:
            scaled = (g / z)[:, :, None] * (x[:, None, :] - w[None, :, :])
            return scaled.sum(axis=1), -scaled.sum(axis=0)

        def vjp(self, node: Any, a: Any, b: Any) -> Any:
            x, w, z, g = node.inputs
            diff = x[:, None, :] - w[None, :, :]
            apart = np.sum((a[:, None, :] - b[None, :, :]) * diff, axis=2)
            both = (g / z)[:, :, None] * (a[:, None, :] - b[None, :, :])
            return (
                np.sum(both, axis=1),
                -np.sum(both, axis=0),
                -apart * g / z**2,
                apart / z,
            )

    op = CdistGrad()
    cdist = cdist_with(lambda node, g: op(*node.inputs, *node.outputs, g))
    f = cube(cdist)
    np.testing.assert_allclose(wb.grad(f)(X, W), true_gradient(X, W), rtol=1e-12)
    want = complex_step(lambda z: true_gradient(z, W), X)
    np.testing.assert_allclose(wb.hessian(f)(X, W), want, rtol=1e-10, atol=1e-12)
    recorded = wb.trace(wb.grad(f))(X, W)
    assert "cdist_grad" in {node.op.name for node in recorded.nodes}


@pytest.mark.parametrize("rule", [by_inputs, by_outputs])
def test_A5_points_that_coincide_are_nan_and_the_check_says_where(
    rule: Callable[..., Any],
) -> None:
    """0/0: the account of it names the op and its line."""
    cdist = cdist_with(rule)
    x = np.vstack([X[:2], W[1]])
    with np.errstate(all="ignore"):
        found = wb.grad(lambda x: np.sum(cdist(x, W)))(x)
        assert np.array_equal(np.isnan(found).any(axis=1), [False, False, True])
        with pytest.raises(GradientError) as error:
            wb.check_grads(lambda x: np.sum(cdist(x, W)), (x,))
    assert "nan" in str(error.value).lower()
    assert "cdist" in str(error.value)
    assert "test_op_cdist.py" in str(error.value)


def test_A5_a_safe_division_gives_the_subgradient_0() -> None:
    cdist = cdist_with(safe)
    x = np.vstack([X[:2], W[1]])
    found = wb.grad(lambda x: np.sum(cdist(x, W)))(x)
    others = np.delete(W, 1, axis=0)
    diff = W[1] - others
    want = np.sum(diff / np.linalg.norm(diff, axis=1)[:, None], axis=0)
    np.testing.assert_allclose(found[2], want, rtol=1e-12)
    assert np.all(wb.grad(lambda x: np.sum(cdist(x, x)))(x[:1]) == 0)
    block = wb.hessian(lambda x: np.sum(cdist(x, W[1:2])))(x)
    assert np.isfinite(block).all()
    assert not block[2].any()


def test_where_keeps_the_branch_not_taken_out_of_a_rule() -> None:
    """A5, G4: the seed's form as it stands, where the program asks for z > 0."""
    for rule in (by_inputs, by_outputs):
        cdist = cdist_with(rule)

        def f(x: Any, cdist: Any = cdist) -> Any:
            z = cdist(x, W)
            return np.sum(np.where(z > 0, z, 0.0))

        x = np.vstack([X[:2], W[1]])
        with np.errstate(all="ignore"):
            found = wb.grad(f)(x)
        diff = W[1] - np.delete(W, 1, axis=0)
        want = np.sum(diff / np.linalg.norm(diff, axis=1)[:, None], axis=0)
        np.testing.assert_allclose(found[2], want, rtol=1e-12)


# Many examples, compiled, on symbols


def test_vmap_is_one_node_and_keeps_every_derivative() -> None:
    cdist = cdist_with(by_outputs)
    many = np.stack([X, 2 * X - 0.1])
    f = lambda x, w: np.sum(wb.vmap(cdist, in_axes=(0, None))(x, w) ** 3)  # noqa: E731
    np.testing.assert_array_equal(
        wb.vmap(cdist, in_axes=(0, None))(many, W),
        np.stack([distance.cdist(x, W) for x in many]),
    )
    np.testing.assert_allclose(
        wb.grad(f)(many, W), np.stack([true_gradient(x, W) for x in many])
    )
    np.testing.assert_allclose(
        wb.grad(f, 1)(many, W), sum(true_gradient(W, x) for x in many)
    )
    hessian = wb.hessian(f)(many, W)
    want = complex_step(lambda z: true_gradient(z, W), many[1])
    np.testing.assert_allclose(hessian[1][:, :, 1], want, rtol=1e-10, atol=1e-12)
    tangent = wb.jvp(lambda x: f(x, W), (many,), (np.ones_like(many),))[1]
    assert tangent == pytest.approx(np.sum(wb.grad(f)(many, W)))
    names = [n.op.name for n in wb.trace(f)(many, W).nodes]
    assert names.count("cdist") == 1
    per_example = wb.vmap(wb.grad(cube(cdist)), in_axes=(0, None))(many, W)
    np.testing.assert_allclose(per_example, wb.grad(f)(many, W))


def test_no_example_at_all() -> None:
    cdist = cdist_with(by_outputs)
    none = np.zeros((0, 3, 2))
    many = wb.vmap(cdist, in_axes=(0, None))
    assert many(none, W).shape == (0, 3, 4)
    gx, gw = wb.grad(lambda x, w: np.sum(many(x, w)), (0, 1))(none, W)
    assert gx.shape == none.shape
    assert not gw.any()
    tangent = wb.jvp(lambda w: many(none, w), (W,), (W,))[1]
    assert tangent.shape == (0, 3, 4)


def test_in_compiled_programs_and_their_text() -> None:
    cdist = cdist_with(by_outputs)
    graph = wb.trace(wb.grad(cube(cdist)))(X, W)
    function = compile(graph)
    np.testing.assert_allclose(function(2 * X, W)[0], true_gradient(2 * X, W))
    assert "cdist(x, w)" in function.source
    assert "#   cdist: a function" in function.source
    scope = dict(function.constants)
    exec(function.source, scope)
    np.testing.assert_allclose(scope["function"](2 * X, W), true_gradient(2 * X, W))


def test_on_symbols() -> None:
    cdist = cdist_with(by_inputs)
    x, w = wb.tensor("x", shape=(3, 2)), wb.tensor("w", shape=(4, 2))
    cost = np.sum(cdist(x, w) ** 3)
    found = wb.function([x, w], wb.grad(cost, x))(X, W)
    np.testing.assert_allclose(found, true_gradient(X, W))
