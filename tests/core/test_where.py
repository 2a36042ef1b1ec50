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
from tests.chunks import parametrize_chunks
from workbench.autodiff.vmap import vmap
from workbench.core.tensor import MaskedTensor
from workbench.errors import TraceError
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
    ("nested", lambda x: np.where(x > 0, np.where(x > 1, np.log(x), np.sqrt(x)), 0),
     lambda x: np.where(x > 1, np.log(x), np.sqrt(x))),
    ("nested the other way",
     lambda x: np.where(x > 1, np.log(x), np.where(x > 0, 1 / np.sqrt(x), 0)),
     lambda x: np.where(x > 1, np.log(x), 1 / np.sqrt(x))),
    ("root of a square", lambda x: np.where(x > 0, np.sqrt(5 * x * x), 0),
     lambda x: np.sqrt(5 * x * x)),
    ("norm", lambda x: np.where(x > 0, np.linalg.norm(np.stack([x, x**2]), axis=0), 0),
     lambda x: np.sqrt(x**2 + x**4)),
    ("norm of masked", lambda x: np.linalg.norm(np.where(x > 0, np.log(x), 0)),
     lambda x: np.linalg.norm(np.log(x))),
    ("negative power", lambda x: np.where(x > 0, x**-1.5, 0), lambda x: x**-1.5),
    ("x to itself", lambda x: np.where(x > 0, x**x, 0), lambda x: x**x),
    ("guard below", lambda x: np.where(x > 0, np.sqrt(np.maximum(x, 0)), 0), np.sqrt),
    ("guard inside", lambda x: np.log(np.where(x > 0, x, 1)), np.log),
    ("guard twice", lambda x: np.where(x > 0, np.log(np.where(x > 0, x, 1)), 0),
     np.log),
    ("cumprod", lambda x: np.cumprod(np.where(x > 0, np.log(x), 1)),
     lambda x: np.cumprod(np.log(x))),
    ("prod", lambda x: np.prod(np.where(x > 0, np.log(x), 1)),
     lambda x: np.prod(np.log(x))),
    ("logaddexp", lambda x: np.where(x > 0, np.logaddexp(np.log(x), 1 / x), 0),
     lambda x: np.logaddexp(np.log(x), 1 / x)),
    ("arctan2 and hypot", lambda x: np.where(
        x > 0, np.arctan2(np.log(x), x) * np.hypot(x, 1 / x), 0),
     lambda x: np.arctan2(np.log(x), x) * np.hypot(x, 1 / x)),
    ("arcs", lambda x: np.where(x > 0, np.arccosh(1 + x) + np.arctan(1 / x), 0),
     lambda x: np.arccosh(1 + x) + np.arctan(1 / x)),
    ("overflow", lambda x: np.where(x > 0, np.exp(-1 / x) * np.sinh(1 / x), 0),
     lambda x: np.exp(-1 / x) * np.sinh(1 / x)),
    ("both sides", lambda x: np.where(x > 0, np.log(x), 0)
     + np.where(x <= 0, 0, 1 / x), lambda x: np.log(x) + 1 / x),
    ("mean where=", lambda x: np.mean(np.log(x), where=x > 0),
     lambda x: np.mean(np.log(x))),
    ("select of three", lambda x: np.select(
        [x > 1, x > 0], [np.log(x), np.sqrt(x)], 0 * x),
     lambda x: np.where(x > 1, np.log(x), np.sqrt(x))),
    ("choose", lambda x: np.choose((x > 0).astype(int), [0 * x, np.log(x)]), np.log),
    ("boolean index", lambda x: np.sqrt(x[x > 0]) * np.log(x[x > 0]),
     lambda x: np.sqrt(x) * np.log(x)),
    ("at multiply", lambda x: at(0 * x + 1)[TAKEN].multiply(np.log(x)[TAKEN])
     - np.where(TAKEN, 0, 1), np.log),
    ("moved about", lambda x: np.where(
        (x > 0)[::-1, None], np.log(x)[::-1, None] * np.ones(2), 0).T.reshape(-1),
     lambda x: 2 * np.log(x)),
    ("summed", lambda x: np.where(x > 0, np.log(x), 0) @ np.ones(4)
     + np.tensordot(np.where(x > 0, 1 / x, 0), np.ones(4), 1),
     lambda x: np.sum(np.log(x) + 1 / x)),
    ("piecewise", lambda x: np.piecewise(x, [x > 0], [np.log, 0.0]), np.log),
    ("sine over x", lambda x: np.where(x > 0, np.sin(x) / x, 1),
     lambda x: np.sin(x) / x),
    ("standardised", lambda x: np.where(x > 0, np.log(x), 0)
     / np.std(np.where(x > 0, x, 1)),
     lambda x: np.log(x) / np.std(np.concatenate([x, np.ones(2)]))),
    ("log-sum-exp", lambda x: wb.logsumexp(np.where(x > 0, np.log(x), -np.inf)),
     lambda x: wb.logsumexp(np.log(x))),
    ("solve", lambda x: np.linalg.solve(
        np.diag(np.where(x > 0, np.log(x), 1)) + 0.1, np.where(x > 0, 1 / x, 0)),
     lambda x: np.linalg.solve(
        np.diag(np.concatenate([np.ones(2), np.log(x)])) + 0.1,
        np.concatenate([np.zeros(2), 1 / x]))),
    ("at set", lambda x: at(np.log(x))[x <= 0].set(0.0), np.log),
    ("at set, chain", lambda x: at(np.exp(np.sqrt(np.log(x) ** 2)))[~TAKEN].set(0),
     lambda x: np.exp(np.sqrt(np.log(x) ** 2))),
    ("at set of another", lambda x: at(np.log(x) / x)[~TAKEN].set(
        np.where(x > 0, 0, x)[:2] * 0), lambda x: np.log(x) / x),
    ("at set of rows", lambda x: at(np.log(x)[:, None] * np.ones(2))[~TAKEN].set(0.0),
     lambda x: 2 * np.log(x)),
    ("at set of columns", lambda x: at(np.ones((2, 1)) * x**-1.5)[:, ~TAKEN].set(0.0),
     lambda x: 2 * x**-1.5),
    ("at set of a part", lambda x: at(np.ones((2, 1)) * np.sqrt(x) * np.log(x))[
        np.array([[True], [True]]) & ~TAKEN].set(0.0),
     lambda x: 2 * np.sqrt(x) * np.log(x)),
    ("compress", lambda x: np.compress(x > 0, np.log(x)), np.log),
    ("compress an axis", lambda x: np.compress(
        TAKEN, np.ones((2, 1)) * x * np.log(x), axis=1), lambda x: 2 * x * np.log(x)),
    ("compress by numbers", lambda x: np.compress([0, 0, 1, 1], 1 / x),
     lambda x: 1 / x),
    ("compress by less", lambda x: np.compress([True, True], np.log(x)[::-1]), np.log),
    ("extract", lambda x: np.extract(x > 0, np.log(x)), np.log),
    ("delete", lambda x: np.delete(np.log(x) ** 2, ~TAKEN), lambda x: np.log(x) ** 2),
    ("sort", lambda x: np.sort(np.where(x > 0, np.log(x), 9)) ** 2,
     lambda x: np.log(x) ** 2),
]  # fmt: skip


#: Those whose shape depends on values, so that no batch has them.
SHAPED = {"boolean index", "mask", "at multiply", "compress", "extract"}


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


@parametrize_chunks(
    "program mode order",
    {
        f"{program[0]}-{mode}-{order}": (program, mode, order)
        for program in PROGRAMS
        for mode in ("rev", "fwd", "mixed")
        for order in (1, 2, 3)
    },
)
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


MASKED: list[Callable[[Any], Any]] = [
    lambda y: np.ma.masked_array(y, mask=~TAKEN).filled(0),
    lambda y: np.ma.masked_where(~TAKEN, y),
    lambda y: np.ma.masked_invalid(y),
    lambda y: np.ma.array([y[2], y[3]]),
    lambda y: np.ma.sum(y),
]


@pytest.mark.parametrize("form", MASKED)
def test_a_masked_array_of_a_tensor_is_refused_with_the_where_form(form: Any) -> None:
    with pytest.raises(TraceError) as caught:
        wb.grad(lambda x: np.sum(form(np.log(x))))(X)
    told = str(caught.value)
    assert "np.where(mask, 0.0, x)" in told
    assert "test_where.py" in told


def test_a_masked_array_of_plain_numbers_is_no_matter_of_a_trace() -> None:
    def f(x: Any) -> Any:
        weights = np.ma.masked_array(X, mask=(x <= 0).value).filled(0.0)
        return np.sum(weights * x)

    np.testing.assert_array_equal(wb.grad(f)(X), np.where(TAKEN, X, 0))


HONEST: list[Callable[[Any], Any]] = [
    lambda x: (x > 0) * np.log(x),
    lambda x: np.maximum(np.log(x), -5.0),
    lambda x: np.minimum(1 / x, 9.0),
    lambda x: np.log(x)[3],
    lambda x: np.take(np.log(x), [2, 3]),
    lambda x: at(np.log(x))[1].set(0.0),
]


@pytest.mark.parametrize("f", HONEST)
def test_what_the_docstring_of_where_says_of_others(f: Any) -> None:
    """Nothing says there what is left out: the slope of `log` at 0 meets its 0."""
    assert np.isnan(wb.grad(lambda x: np.sum(f(x)))(np.abs(X) * TAKEN)).any()


def test_a_mask_of_each_example_and_a_mask_of_all() -> None:
    many = np.stack([X, X[::-1], 2 * X])
    own = lambda x: np.sum(at(np.log(x))[x <= 0].set(0.0))  # noqa: E731
    found = wb.grad(lambda xs: np.sum(vmap(own)(xs)))(many)
    np.testing.assert_allclose(found, np.where(many > 0, 1 / many, 0))

    def same(x: Any) -> Any:
        return at(np.log(x)[:, None] * np.ones(2))[~TAKEN].set(0.0)

    rows = np.stack([X, 3 * X])
    found = wb.grad(lambda xs: np.sum(vmap(same)(xs)))(rows)
    np.testing.assert_allclose(found, np.where(rows > 0, 2 / rows, 0))


SYMBOLS: list[tuple[Callable[[Any], Any], Callable[[Any], Any]]] = [
    (lambda x: np.log(x)[x > 0], np.log),
    (lambda x: at(np.log(x))[x <= 0].set(0.0), np.log),
    (lambda x: at(x**-1.5)[x <= 0].set(np.exp(x[x <= 0])),
     lambda x: x**-1.5),
    (lambda x: np.compress(x > 0, np.log(x) * x), lambda x: np.log(x) * x),
]  # fmt: skip


@pytest.mark.parametrize(("f", "alone"), SYMBOLS)
def test_masks_of_symbols(f: Any, alone: Any) -> None:
    x = wb.vector("x")
    found = wb.function([x], wb.grad(np.sum(f(x)), x))(X)
    np.testing.assert_allclose(
        found[TAKEN], wb.grad(lambda x: np.sum(alone(x)))(X[TAKEN])
    )
    assert np.isfinite(found).all()


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


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p[0])
def test_batches_of_gradients(program: tuple[str, Program, Program]) -> None:
    name, f, _ = program
    if name in SHAPED:
        pytest.skip("its shape depends on values")
    many = np.stack([X, X, 2 * X])
    found = vmap(wb.grad(lambda x: np.sum(f(x))))(many)
    truth = np.stack([wb.grad(lambda x: np.sum(f(x)))(x) for x in many])
    assert np.all(np.isfinite(found))
    np.testing.assert_allclose(found, truth, rtol=1e-12, atol=1e-14)
    outer = wb.grad(lambda xs: np.sum(vmap(f)(xs)))(many)
    np.testing.assert_allclose(outer, truth, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("mode", ["fwd", "rev"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p[0])
def test_jacobians(program: tuple[str, Program, Program], mode: Any) -> None:
    name, f, alone = program
    if name in SHAPED:
        pytest.skip("its shape depends on values")
    J = wb.jacobian(f, mode=mode)(X)
    assert np.all(np.isfinite(J))
    np.testing.assert_array_equal(J[..., ~TAKEN], 0)
    truth = wb.jacobian(alone, mode=mode)(X[TAKEN])
    sums = [np.sum(j, axis=tuple(range(np.ndim(j) - 1))) for j in (J, truth)]
    np.testing.assert_allclose(sums[0][TAKEN], sums[1], rtol=1e-12)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p[0])
def test_hessians(program: tuple[str, Program, Program]) -> None:
    name, f, alone = program
    if name in SHAPED:
        pytest.skip("its shape depends on values")
    H = wb.hessian(lambda x: np.sum(f(x)))(X)
    truth = wb.hessian(lambda x: np.sum(alone(x)))(X[TAKEN])
    np.testing.assert_array_equal(H[~TAKEN], 0)
    np.testing.assert_array_equal(H[:, ~TAKEN], 0)
    np.testing.assert_allclose(H[TAKEN][:, TAKEN], truth, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p[0])
def test_float32(program: tuple[str, Program, Program]) -> None:
    _, f, _ = program
    x = X.astype(np.float32)
    found = wb.grad(lambda x: np.sum(f(x)))(x)
    assert found.dtype == np.float32
    truth = wb.grad(lambda x: np.sum(f(x)))(X)
    np.testing.assert_allclose(found, truth, rtol=1e-4, atol=1e-5)
    again = wb.grad(lambda x: np.sum(wb.grad(lambda x: np.sum(f(x)))(x)))(x)
    assert again.dtype == np.float32
    assert np.all(np.isfinite(again))


@pytest.mark.parametrize(
    ("f", "alone"),
    [
        (lambda z: np.where(TAKEN, np.log(z), 0), np.log),
        (lambda z: np.where(TAKEN, np.sqrt(z) / z, 0), lambda z: np.sqrt(z) / z),
        (lambda z: np.where(TAKEN, z**-1.5, 0), lambda z: z**-1.5),
        (lambda z: np.where(TAKEN, np.abs(z) / z, 0), lambda z: np.abs(z) / z),
    ],
)
def test_complex(f: Program, alone: Program) -> None:
    z = X * (1 + 0.3j)

    def loss(f: Program) -> Program:
        return lambda z: np.sum(np.real(f(z)) + np.imag(f(z)) ** 2)

    found = wb.grad(loss(f))(z)
    np.testing.assert_array_equal(found[~TAKEN], 0)
    np.testing.assert_allclose(found[TAKEN], wb.grad(loss(alone))(z[TAKEN]))
    moves = np.full(4, 0.5 + 1j)
    _, t = wb.jvp(wb.grad(loss(f)), (z,), (moves,))
    _, truth = wb.jvp(wb.grad(loss(alone)), (z[TAKEN],), (moves[TAKEN],))
    np.testing.assert_array_equal(t[~TAKEN], 0)
    np.testing.assert_allclose(t[TAKEN], truth)


def test_the_input_itself_is_not_a_number() -> None:
    x = np.array([np.nan, np.inf, -np.inf, 2.0])

    def f(x: Any) -> Any:
        return np.sum(np.where(np.isfinite(x), np.exp(x) * x**2 / (1 + x), 0))

    found = wb.grad(f)(x)
    np.testing.assert_array_equal(found[:3], 0)
    np.testing.assert_allclose(found[3], wb.grad(f)(x[3:])[0])
    H = wb.hessian(f)(x)
    np.testing.assert_array_equal(H[:3], 0)
    np.testing.assert_allclose(H[3, 3], wb.hessian(f)(x[3:])[0, 0])


def test_rows_that_are_padding() -> None:
    """A batch of rows of different lengths, as one writes it with a mask."""
    rows = np.array([[1.0, 2.0, 0.0], [3.0, 0.0, 0.0]])
    mask = rows > 0

    def loss(w: Any) -> Any:
        scores = np.where(mask, np.log(rows) * w, -np.inf)
        p = np.exp(scores - wb.logsumexp(scores, axis=1, keepdims=True))
        entropy = -np.sum(np.where(mask, p * np.log(p), 0), axis=1)
        return np.mean(entropy)

    def plain(w: Any) -> Any:
        p = np.array([1.0, 2.0]) ** w
        p = p / np.sum(p)
        return -np.sum(p * np.log(p)) / 2

    for order in (1, 2, 3):
        f, g = loss, plain
        for _ in range(order):
            f, g = wb.grad(f), wb.grad(g)
        np.testing.assert_allclose(f(0.7), g(0.7), rtol=1e-12)
