"""Arguments of the transforms that do not fit say what does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.errors import DtypeError, UsageError

X = np.array([0.5, 1.5, 2.5])


def total(x: Any, y: Any = None) -> Any:
    return np.sum(x * x) + (0.0 if y is None else y)


@pytest.mark.parametrize("argnums", ["x", 1.5, (0, "x"), slice(0, 1)])
def test_positions(argnums: Any) -> None:
    for transform in (wb.grad, wb.jacobian, wb.hessian):
        with pytest.raises(UsageError, match="neither a position nor a sequence"):
            transform(total, argnums)(X)


@pytest.mark.parametrize("f", [None, 3, "total"])
def test_no_function(f: Any) -> None:
    asks: list[Callable[[], Any]] = [
        lambda: wb.grad(f)(X),
        lambda: wb.jacobian(f)(X),
        lambda: wb.vjp(f, X),
        lambda: wb.jvp(f, (X,), (X,)),
    ]
    for ask in asks:
        with pytest.raises(UsageError, match="needs a function of arrays"):
            ask()


def test_primals_without_their_tuple() -> None:
    with pytest.raises(UsageError, match=r"primals is an array.*write \(x,\)"):
        wb.jvp(total, X, X)
    with pytest.raises(UsageError, match=r"primals is 2\.0.*write \(x,\)"):
        wb.jvp(total, 2.0, 1.0)


def test_none_among_arguments_is_an_option_left_out() -> None:
    rows = np.stack([X, X + 1])
    expected = np.sum(rows**2, axis=1)
    np.testing.assert_allclose(wb.vmap(total)(rows, None), expected)
    np.testing.assert_allclose(wb.vmap(total, in_axes=(0, 0))(rows, None), expected)
    np.testing.assert_allclose(wb.vmap(total, in_axes=(0, None))(rows, None), expected)
    swapped = wb.vmap(lambda y, x: total(x, y))
    np.testing.assert_allclose(swapped(None, rows), expected)
    nested = wb.vmap(lambda p: total(p["x"], p["y"]), in_axes=({"x": 0, "y": 0},))
    np.testing.assert_allclose(nested({"x": rows, "y": None}), expected)
    g = wb.grad(lambda y, x: total(x, y), 1)(None, X)
    np.testing.assert_allclose(g, 2 * X)
    graph = wb.trace(lambda y, x: total(x, y))(None, X)
    assert [leaf.name for leaf in graph.inputs] == ["x"]
    with pytest.raises(DtypeError, match="grad: x is of dtype int64"):
        wb.grad(lambda y, x: total(x, y), 1)(None, np.arange(3))


def test_none_from_an_inner_function() -> None:
    def nothing(*args: Any) -> Any:
        return None

    asks: list[Callable[[Any], Any]] = [
        lambda a: wb.checkpoint(nothing)(a) or total(a),
        lambda a: wb.fixed_point(nothing, np.ones(3), a),
        lambda a: np.sum(wb.custom_root(lambda y: y - a, np.ones(3), nothing)),
        lambda a: np.sum(wb.custom_linear_solve(lambda v: 2 * v, a, nothing)),
    ]
    for ask in asks:
        with pytest.raises(DtypeError, match=r"None.*with a `return`"):
            wb.grad(ask)(X)
    with pytest.raises(DtypeError, match="None"):
        wb.vjp(np.sin, X)[1](None)
