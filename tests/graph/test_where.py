"""`where` and masks never poison: the branch not taken stays out, at any order.

Each program is finite, and so are its derivatives; only the branch not taken is
infinite or NaN. The truth is the same program on the taken entries alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.graph.tensor import MaskedTensor
from workbench.matrices import vmap
from workbench.ops.updates import at

X = np.array([-1.0, 0.0, 0.5, 2.0])
TAKEN = X > 0

Program = Callable[[Any], Any]
#: Name, the program on all of X, the same on the positive entries, X > 0 alone.
PROGRAMS: list[tuple[str, Program, Program]] = [
    ("log", lambda x: np.where(x > 0, np.log(x), 0), np.log),
    ("sqrt", lambda x: np.where(x > 0, np.sqrt(x), 0), np.sqrt),
    ("reciprocal", lambda x: np.where(x > 0, 1 / x, 0), lambda x: 1 / x),
    ("power", lambda x: np.where(x > 0, x**0.5, 0), lambda x: x**0.5),
    ("xlogx", lambda x: np.where(x > 0, x * np.log(x), 0), lambda x: x * np.log(x)),
    ("chain", lambda x: np.where(x > 0, np.exp(np.sqrt(np.log(x) ** 2)), 0),
     lambda x: np.exp(np.sqrt(np.log(x) ** 2))),
    ("quotient", lambda x: np.where(x > 0, np.sin(x) / x**1.5, 0),
     lambda x: np.sin(x) / x**1.5),
    ("mask", lambda x: at(0 * x)[TAKEN].set(np.log(x)[TAKEN]), np.log),
    ("where=", lambda x: np.sum(np.log(x), where=x > 0), lambda x: np.sum(np.log(x))),
    ("select", lambda x: np.select([x > 0], [np.log(x)], 0), np.log),
    ("nansum", lambda x: np.nansum(np.where(x > 0, np.log(x), np.nan)), np.log),
    ("broadcast", lambda x: np.where(x > 0, np.log(x * np.ones((2, 4))), 0),
     lambda x: 2 * np.log(x)),
    ("divide after", lambda x: np.where(x > 0, np.log(x), 1) / np.where(x > 0, x, 1),
     lambda x: np.log(x) / x),
]  # fmt: skip


@pytest.fixture(autouse=True)
def quiet() -> Any:
    """The branch not taken divides by zero on purpose."""
    with np.errstate(all="ignore"):
        yield


def nth(f: Program, order: int, mode: str) -> Program:
    """The derivative of ``sum(f(x))`` along ones, ``order`` times."""
    g: Program = lambda x: np.sum(f(x))  # noqa: E731 rebound below
    for k in range(order):

        def deeper(x: Any, g: Program = g, k: int = k) -> Any:
            if mode == "rev" or (mode == "mixed" and k % 2 == 0):
                return np.sum(wb.grad(g)(x))
            return wb.jvp(g, (x,), (np.ones_like(x),))[1]

        g = deeper
    return g


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("mode", ["rev", "fwd", "mixed"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p[0])
def test_orders(program: tuple[str, Program, Program], mode: str, order: int) -> None:
    _, f, alone = program
    found = nth(f, order, mode)(X)
    truth = nth(alone, order, mode)(X[TAKEN])
    assert np.isfinite(found)
    np.testing.assert_allclose(found, truth, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p[0])
def test_gradient_entries(program: tuple[str, Program, Program]) -> None:
    _, f, alone = program
    found = wb.grad(lambda x: np.sum(f(x)))(X)
    assert type(found) is np.ndarray
    np.testing.assert_array_equal(found[~TAKEN], 0)
    truth = wb.grad(lambda x: np.sum(alone(x)))(X[TAKEN])
    np.testing.assert_allclose(found[TAKEN], truth)


#: Infinite and NaN in the column that no program takes.
B = np.array([[1.0, np.inf, 2.0], [-3.0, np.nan, 0.5]])
FINITE = np.where(np.isfinite(B), B, 0)
KEPT = np.array([True, False, True])
PRODUCTS: list[tuple[str, Callable[[Any, Any], Any]]] = [
    ("matmul", lambda a, b: a @ b),
    ("matmul of matrices", lambda a, b: (np.stack([a, 2 * a]) @ b)[1]),
    ("matmul from the left", lambda a, b: b.T @ a),
    ("tensordot", lambda a, b: np.tensordot(a, b[:, :, None], 1)[:, 0]),
    ("einsum", lambda a, b: np.einsum("i,ij->j", a, b)),
    ("outer", lambda a, b: np.sum(np.outer(a, [1.0, 2.0, 3.0]) * b, axis=0)),
]


@pytest.mark.parametrize("program", PRODUCTS, ids=lambda p: p[0])
def test_products_that_are_summed(
    program: tuple[str, Callable[[Any, Any], Any]],
) -> None:
    a = np.array([0.5, -2.0])

    def derivatives(b: Any) -> list[Any]:
        def f(a: Any) -> Any:
            return np.sum(np.where(KEPT, program[1](a, b), 0) ** 3)

        def slope(a: Any) -> Any:
            return np.sum(wb.grad(f)(a))

        return [wb.grad(f)(a), wb.grad(slope)(a), wb.jvp(slope, (a,), (a,))[1]]

    for found, truth in zip(derivatives(B), derivatives(FINITE), strict=True):
        np.testing.assert_allclose(found, truth, rtol=1e-12)


def test_both_factors_of_a_product_vary() -> None:
    x = np.array([1.0, 2.0])

    def f(x: Any) -> Any:
        table = 1 / np.outer(x, np.array([1.0, 0.0]))  # its second column is inf
        return np.sum(np.where([True, False], x @ table, 0))

    # x @ table's first column is sum(x / x) = 2, whatever x is.
    np.testing.assert_allclose(wb.grad(f)(x), [0, 0], atol=1e-15)
    np.testing.assert_allclose(wb.jvp(f, (x,), (x,))[1], 0, atol=1e-15)


def test_without_where_infinity_stays() -> None:
    """What is not masked is honest: 0 * inf is NaN there."""
    g = wb.grad(lambda x: np.sum(0 * np.sqrt(x)))(np.array([0.0]))
    assert np.isnan(g[0])


def test_a_masked_cotangent_stays_masked() -> None:
    flagged = []

    def f(x: Any) -> Any:
        _, pullback = wb.vjp(lambda x: np.where(x > 0, np.log(x), 0), x)
        g = pullback(np.ones(4))[0]
        flagged.append(g + x)
        flagged.append(x - g)
        flagged.append(-g)
        flagged.append(g @ np.ones(4))
        return np.sum(g)

    wb.grad(f)(X)
    assert [type(g) for g in flagged] == [MaskedTensor] * 4


def test_in_a_batch() -> None:
    def f(x: Any) -> Any:
        return np.sum(np.where(x > 0, np.log(x), 0))

    found = vmap(wb.grad(f))(np.stack([X, X + 1]))
    np.testing.assert_allclose(found, np.stack([wb.grad(f)(X), wb.grad(f)(X + 1)]))
