"""Jacobians, Hessians, checks and ensembles, shared out: as at home."""

from __future__ import annotations

from typing import Any

import dask.array as da
import numpy as np
import pytest

import workbench as wb
import workbench.distributed as wd
from workbench.errors import DtypeError, GradientError, UsageError

RNG = np.random.default_rng(0)
A = RNG.normal(size=(120, 120)) / 10  # large enough to be sent apart
X = RNG.normal(size=120)
M = RNG.normal(size=(3, 4))


def model(x: Any) -> Any:
    return x + 0.1 * (A @ np.tanh(A @ x))


def wide(m: Any, scale: Any) -> Any:
    return np.stack([np.sum(m**2), scale * np.prod(np.sin(m))])


def chain(u: Any) -> Any:
    return u[:-2] * u[2:] - 2 * np.sin(u[1:-1]) + u[1:-1] ** 3


def energy(u: Any) -> Any:
    return np.sum(chain(u) ** 2)


def same(found: Any, truth: Any) -> None:
    np.testing.assert_allclose(found, truth, rtol=1e-11, atol=1e-13)


def test_a_jacobian_in_both_modes(client: Any) -> None:
    seen = []

    def watch(done: int, count: int) -> None:
        seen.append((done, count))

    J = wd.jacobian(model, pieces=5, progress=watch)
    same(J(X), wb.jacobian(model)(X))
    assert seen[-1] == (5, 5)
    assert "in 5 pieces" in J.explain()
    same(J(2 * X), wb.jacobian(model)(2 * X))
    same(wd.jacobian(wide, pieces=2)(M, 2.0), wb.jacobian(wide)(M, 2.0))


def test_a_hessian(client: Any) -> None:
    found = wd.hessian(lambda m: wide(m, 1.0)[1], pieces=2)(M)
    same(found, wb.hessian(lambda m: wide(m, 1.0)[1])(M))


@pytest.mark.parametrize("format", ["csr", "csc"])
def test_colours_are_shared_out(client: Any, format: Any) -> None:
    u = RNG.normal(size=60)
    J = wd.jacobian(chain, sparse=True, pieces=2, format=format)(u)
    assert J.format == format
    same(J.toarray(), wb.jacobian(chain)(u))
    if format == "csr":
        H = wd.hessian(energy, sparse=True, pieces=3)(u)
        same(H.toarray(), wb.hessian(energy)(u))


def test_what_costs_little_is_computed_here(client: Any) -> None:
    J = wd.jacobian(model)
    same(J(X), wb.jacobian(model)(X))
    assert "computed here" in J.explain()


def test_what_is_no_matrix_is_refused(client: Any) -> None:
    with pytest.raises(DtypeError, match=r"argument 0 is a nest\. Write wb\.jacobian"):
        wd.jacobian(lambda w: w["a"] ** 2)({"a": X})
    with pytest.raises(UsageError, match="pieces=0"):
        wd.jacobian(model, pieces=0)
    with pytest.raises(UsageError, match="the position of one array"):
        wd.hessian(energy, (0, 1))


def test_a_check_is_shared_out(client: Any) -> None:
    x = RNG.normal(size=7)
    report = wd.check_grads(energy, x, seed=1, pieces=3)
    here = wb.check_grads(energy, x, seed=1)
    assert report.ok
    for a, b in zip(report.comparisons, here.comparisons, strict=True):
        assert (a.argument, a.order, a.mode) == (b.argument, b.order, b.mode)
        assert [e.index for e in a.entries] == [e.index for e in b.entries]
        same(a.numeric, b.numeric)


def wrong(x: Any) -> Any:
    return np.sum(doubled(x))


doubled = wb.custom_vjp(lambda x: x**2, vjp=lambda node, g: [3 * g * node.inputs[0]])


def test_a_wrong_rule_is_found_there(client: Any) -> None:
    with pytest.raises(GradientError) as found:
        wd.check_grads(wrong, np.ones(5), modes=("rev",), pieces=2)
    assert not found.value.report.ok
    assert len(found.value.report.comparisons[0].entries) == 5


def test_an_ensemble(client: Any) -> None:
    thetas = RNG.normal(size=(10, 3))

    def f(theta: Any) -> Any:
        return {"sum": np.sum(np.sin(theta)), "product": np.outer(theta, theta)}

    found, truth = wd.vmap(f, pieces=3)(thetas), wb.vmap(f)(thetas)
    for k in truth:
        same(found[k], truth[k])
    lazy = wd.vmap(lambda t: np.outer(t, t))(da.from_array(thetas, chunks=(4, 3)))
    assert lazy.shape == (10, 3, 3)
    same(lazy.compute(), truth["product"])
    assert "10 examples" in (g := wd.vmap(np.sum)).explain() or g(thetas).shape == (10,)


def test_other_arguments_may_be_nests(client: Any) -> None:
    def f(more: Any, x: Any, names: Any) -> Any:
        return more["scale"] * np.tanh(more["parts"][0] @ x) * len(names["of"])

    A = np.cos(np.arange(X.size**2.0)).reshape(X.size, -1)
    args = {"scale": X + 2, "parts": [A]}, X, {"of": "abc"}
    truth = wb.jacobian(f, 1)(*args)
    same(wd.jacobian(f, 1, pieces=3)(*args), truth)
    J = wd.jacobian(f, 1, sparse=True, pieces=2)
    same(J(*args).toarray(), truth)
    same(J({"scale": X, "parts": [A]}, X, {"of": "ab"}).toarray(),
         wb.jacobian(f, 1)({"scale": X, "parts": [A]}, X, {"of": "ab"}))  # fmt: skip
    H = wd.hessian(lambda p, x: np.sum(p["a"] * x**3), 1, pieces=2)
    same(H({"a": X}, X), np.diag(6 * X * X))
