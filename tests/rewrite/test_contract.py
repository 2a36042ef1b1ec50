"""Rules that contract products: the same sums of the same products, in other orders."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.rewrite.graphs import assert_within, only, run, simplify_soundly
from tests.rewrite.test_rules import (
    CONTRACT,
    Program,
    derive,
    draw_array,
    trace,
)
from workbench.rewrite.rule import RULES

#: Programs of the rules that contract products.
CONTRACTED: dict[str, list[tuple[Program, list[tuple[int, ...]]]]] = {
    "sum of a product": [
        (lambda x, y: np.sum(x * y), [(5,), (5,)]),
        (lambda x: np.sum(x * x, axis=1), [(3, 4)]),
        (lambda x: np.mean(np.square(x)), [(3, 4)]),
        (lambda x, y: np.sum(x[:, None, :] * y[None], -1), [(3, 4), (5, 4)]),
        (lambda x, y: np.sum(x[:, None] * y, axis=0, keepdims=True), [(3,), (3, 4)]),
        (lambda x, y: np.sum(x[..., None] * y, axis=1), [(2, 3), (2, 3, 4)]),
        (
            lambda x, y: np.sum(x[:, :, None, :] * y[:, None], -1),
            [(2, 3, 9), (2, 8, 9)],
        ),
        (lambda x, y: np.sum(x * -y, axis=0), [(3, 4), (3, 4)]),
        (lambda x, y: np.sum(x.T * y, axis=0), [(3, 4), (4, 3)]),
        (lambda x, y: np.mean(x * y, axis=(0, 2)), [(2, 3, 4), (2, 3, 4)]),
    ],
    "sum of a product of several": [
        (lambda x, y: np.sum(x[:, :, None] * y[:, None], -1), [(3, 2), (3, 4)]),
        (lambda x, y: np.sum(x[:, None] * y, axis=1), [(2, 9), (2, 3, 9)]),
        (lambda x, y: np.sum(3 * x * -y, axis=0), [(3, 4), (3, 4)]),
        (lambda x, y, z: np.sum(x * y * z, axis=1), [(3, 4), (3, 4), (3, 4)]),
        (lambda x, y, z: np.sum(x[:, None] * y * z), [(3,), (3, 4), (4,)]),
        (lambda x, y: np.sum(x[:, None, None] * y), [(2,), (3, 4)]),
        (lambda x, y: np.sum(x * np.broadcast_to(y, (3, 4)), axis=0), [(3, 4), (4,)]),
        (lambda x, y: np.sum(np.reshape(x, (3, 1, 4)) * y, (0, 2)), [(3, 4), (5, 4)]),
    ],
    "sum of a negative": [
        (lambda x: np.sum(-x, axis=0), [(3, 4)]),
        (lambda x: np.mean(-np.sin(x), axis=1, keepdims=True), [(3, 4)]),
    ],
    "sum of a broadcast": [
        (lambda x: np.sum(np.broadcast_to(x, (5, 3, 4)), axis=0), [(3, 4)]),
        (lambda x: np.sum(np.broadcast_to(x, (3, 4))), [(3, 1)]),
        (lambda x: np.sum(np.broadcast_to(x, (3, 4)), axis=0), [()]),
    ],
    "sum of a sum of products": [
        (lambda x, y: np.sum(x * y + np.sin(x) * x, axis=0), [(3, 4), (3, 4)]),
        (lambda x, y: np.sum(x @ y - x * y), [(3, 3), (3, 3)]),
    ],
    "sum of a matrix product": [
        (lambda x, y: np.sum(x @ y, axis=0), [(3, 4), (4, 5)]),
        (lambda x, y: np.sum(x @ y), [(3, 4), (4, 5)]),
        (lambda x, y: np.sum(x @ y, axis=1, keepdims=True), [(2, 3, 4), (2, 4, 5)]),
        (lambda x, y: np.sum(x @ y), [(3, 4), (4,)]),
        (lambda x, y: np.sum(x @ y, axis=0), [(2, 3, 4), (4, 5)]),
        (lambda x, y: np.sum(x @ y, axis=(0, 2)), [(3, 4), (2, 4, 5)]),
        (lambda x, y: np.sum(np.tensordot(x, y, (0, 1)), 0), [(3, 4), (5, 3)]),
        (
            lambda x, y: np.sum(np.einsum("bij,bjk->bki", x, y), 1),
            [(2, 3, 4), (2, 4, 5)],
        ),
    ],
    "small factors first": [
        (lambda x, y: 3 * (x[:, None] * y), [(3,), (3, 4)]),
        (lambda x: (x * 0.5) * 4, [(3, 4)]),
        (lambda x, y, z: x[:, None] * (y * z), [(3,), (3, 4), (3, 1)]),
    ],
    "negative of a product": [
        (lambda x, y: -(x[:, None] * y), [(3,), (3, 4)]),
        (lambda x: -(np.sin(x) * 2.5), [(3, 4)]),
    ],
    "order of a chain of matrices": [
        (lambda x, y, v: x @ y @ v, [(3, 4), (4, 5), (5,)]),
        (lambda v, x, y: v @ (x @ y), [(3,), (3, 4), (4, 5)]),
        (lambda x, y, v: (x @ y).T @ v, [(3, 4), (4, 5), (3,)]),
        (lambda x, y, z: x @ y @ z, [(9, 2), (2, 9), (9, 2)]),
        (lambda x, y, z: x @ y @ z, [(2, 9, 2), (2, 9), (2, 9, 2)]),
        (lambda x, y, z, w: x @ y.T @ (z @ w), [(9, 2), (9, 2), (9, 8), (8, 2)]),
    ],
    "transpose of a product": [
        (lambda x, y: (x.T @ y).T * 2, [(3, 4), (3, 5)]),
        (
            lambda x, y: np.swapaxes(x @ np.swapaxes(y, 1, 2), 1, 2),
            [(2, 3, 4), (2, 5, 4)],
        ),
    ],
    "transpose of a vector": [
        (lambda x: x.T * 2, [(3,)]),
        (lambda x: np.transpose(x, (0, 1)) * 2, [(3, 4)]),
    ],
}

#: Dtypes, and those where a rule need not hold.
USUAL = ("float64", "float32", "complex128")
OTHER = ("float16", "int64", "int8", "bool")
#: By how much a result may differ, of the sum of the sizes of its terms.
ULPS = 8

CONTRACTING = [name for name, rule in RULES.items() if rule.site[0] == CONTRACT]


def names(graph: wb.Graph) -> list[str]:
    """Return the names of the steps."""
    return [step.name for step in graph.steps]


def sizes(program: wb.Graph, args: list[Any]) -> Any:
    """Return how large a result is without signs, at least 1e-300 times its terms."""
    (size,) = run(program, [np.abs(x) for x in args])
    return np.max(np.abs(size), initial=0) + np.zeros_like(np.abs(size))


def test_every_rule_has_programs() -> None:
    assert set(CONTRACTED) == set(CONTRACTING)


@pytest.mark.parametrize("name", CONTRACTING)
def test_programs_of_a_rule(name: str, rng: np.random.Generator) -> None:
    rule = RULES[name]
    for k, (f, shapes) in enumerate(CONTRACTED[name]):
        for dtype in (*USUAL, *OTHER):
            args = [draw_array(rng, shape, dtype, False) for shape in shapes]
            before = trace(f, args)
            if before is None:
                assert dtype in OTHER
                continue
            after = simplify_soundly(before, without=only(rule), fast=True)
            if dtype in ("float64", "float32"):
                assert after.steps, f"it does not fire in program {k}\n{before}"
            if not after.steps:
                continue
            note = f"program {k} of {name!r}: {dtype}\n{before}\nbecomes\n{after}"
            try:
                (truth,), (found,) = run(before, args), run(after, args)
                assert_within(found, truth, sizes(before, args), ULPS)
                if dtype in OTHER:
                    continue
                g = draw_array(rng, np.shape(truth), dtype, False)
                moves = [draw_array(rng, shape, dtype, False) for shape in shapes]
                slopes, tangent = derive(before, args, g, moves)
                others, other = derive(after, args, g, moves)
                for a, b in zip([*others, other], [*slopes, tangent], strict=True):
                    scale = np.full_like(np.abs(b), 1 + 100 * np.max(np.abs(b)))
                    assert_within(np.asarray(a), b, scale, ULPS)
            except Exception as error:
                error.add_note(note)
                raise


@pytest.mark.parametrize("name", CONTRACTING)
def test_nan_stays_and_nothing_else_becomes_nan(
    name: str, rng: np.random.Generator
) -> None:
    """A NaN among the arguments reaches the same results; none comes of finite ones."""
    for f, shapes in CONTRACTED[name]:
        args = [draw_array(rng, shape, "float64", False) for shape in shapes]
        for k in range(len(args)):
            given = list(args)
            given[k] = np.where(rng.random(shapes[k]) < 0.3, np.nan, args[k])
            before = trace(f, given)
            assert before is not None
            after = simplify_soundly(before, without=only(RULES[name]), fast=True)
            (truth,), (found,) = run(before, given), run(after, given)
            np.testing.assert_array_equal(np.isnan(found), np.isnan(truth))


@pytest.mark.parametrize("name", CONTRACTING)
def test_an_infinity_is_not_lost(name: str, rng: np.random.Generator) -> None:
    """What was not finite is not finite, though a NaN may be an infinity."""
    for f, shapes in CONTRACTED[name]:
        args = [draw_array(rng, shape, "float64", False) for shape in shapes]
        for k in range(len(args)):
            given = list(args)
            given[k] = np.where(rng.random(shapes[k]) < 0.3, np.inf, args[k])
            before = trace(f, given)
            assert before is not None
            after = simplify_soundly(before, without=only(RULES[name]), fast=True)
            (truth,), (found,) = run(before, given), run(after, given)
            np.testing.assert_array_equal(np.isfinite(found), np.isfinite(truth))


@pytest.mark.parametrize("name", CONTRACTING)
def test_unknown_lengths(name: str, rng: np.random.Generator) -> None:
    """Where a rule holds for unknown lengths, it is right for all."""
    for f, shapes in CONTRACTED[name]:
        specs = [wb.tensor(f"x{i}", shape=(None,) * len(shape), dtype="float64")
                 for i, shape in enumerate(shapes)]  # fmt: skip
        try:
            before = wb.Graph(specs, [f(*specs)])
        except ValueError:  # not meant for unknown lengths
            continue
        after = simplify_soundly(before, without=only(RULES[name]), fast=True)
        args = [draw_array(rng, shape, "float64", False) for shape in shapes]
        (truth,), (found,) = run(before, args), run(after, args)
        assert_within(found, truth, sizes(before, args), ULPS)


def test_what_a_mixture_of_gaussians_records() -> None:
    """No product over components, points and dimensions is summed, one is left out."""
    k, n, d = 4, 50, 3
    means, roots = wb.tensor("m", shape=(k, d)), wb.tensor("q", shape=(k, d, d))
    x = wb.tensor("x", shape=(n, d))
    y = (x[None] - means[:, None, :]) @ np.transpose(roots, (0, 2, 1))
    inner = -0.5 * np.sum(y * y, -1)
    loss = np.sum(wb.logsumexp(inner, axis=0))
    graph = wb.Graph([means, roots, x], [loss, *wb.grad(loss, [means, roots])])
    after = wb.simplify(graph, fast=True)
    large = [node.op.name for node in after.interior if node.shape == (k, n, d)]
    assert sorted(large) == ["matmul", "multiply", "subtract"]
    rng = np.random.default_rng(0)
    args = [rng.normal(size=s) for s in ((k, d), (k, d, d), (n, d))]
    for a, b in zip(run(after, args), run(graph, args), strict=True):
        np.testing.assert_allclose(a, b, 1e-10, 1e-10)


def test_a_product_that_is_read_elsewhere_stays() -> None:
    x, y = wb.matrix("x", shape=(3, 4)), wb.matrix("y", shape=(3, 4))
    product = x * y
    graph = wb.simplify(wb.Graph([x, y], [np.sum(product, 0), np.sin(product)]))
    assert names(graph) == []
    sums = wb.simplify(wb.Graph([x, y], [np.sum(product, 0), np.sum(product, 1)]))
    assert names(sums) == ["sum of a product"] * 2
    a, b = wb.matrix("a", shape=(9, 9)), wb.matrix("b", shape=(9, 9))
    v, inner = wb.vector("v", shape=9), a @ b
    assert names(wb.simplify(wb.Graph([a, b, v], [inner @ v, inner]), fast=True)) == []


def test_sums_whose_digits_would_cancel_stay() -> None:
    x, y = wb.vector("x", shape=5), wb.vector("y", shape=5)
    assert names(wb.simplify(wb.Graph([x, y], [np.sum(x - y)]))) == []


def test_a_chain_is_ordered_as_a_whole() -> None:
    lengths = [30, 35, 15, 5, 10, 20, 25]  # 15,125 products: Cormen et al., 15.2
    symbols = [wb.matrix(f"a{i}", shape=(n, lengths[i + 1]))
               for i, n in enumerate(lengths[:-1])]  # fmt: skip
    whole: Any = symbols[0]
    for x in symbols[1:]:
        whole = whole @ x
    graph = wb.simplify(wb.Graph(symbols, [whole]), fast=True)
    assert names(graph) == ["order of a chain of matrices"]
    products = sum(node.inputs[0].shape[1] * np.prod(node.shape)
                   for node in graph.interior)  # fmt: skip
    assert products == 15125


def test_a_long_chain_is_no_recursion() -> None:
    """Of a chain of any length some matrices at its end are ordered."""
    x, v = wb.matrix("x", shape=(9, 9)), wb.vector("v", shape=9)
    y: Any = x
    for _ in range(3000):
        y = y @ x
    graph = wb.simplify(wb.Graph([x, v], [y @ v]), fast=True)
    assert names(graph) == ["order of a chain of matrices"]
    assert len(graph) == 3003


#: Programs that are finite at these numbers, and not if multiplied in another order.
FINITE: list[tuple[Program, list[Any]]] = [
    (lambda x: 1e200 * (1e200 * x), [np.full(3, 1e-300)]),
    (lambda x: 1e-200 * (1e-200 * x), [np.full(3, 1e300)]),
    (lambda x, y: np.sum(x * y * 1e-300), [np.full(9, 1e200), np.full(9, 1e105)]),
    (lambda x: np.sum(1e-10 * x), [np.full(9, 1e308)]),
    (lambda x: np.sum(1e-10 * x, axis=0), [np.full((9, 3), 1e308)]),
    (
        lambda x, y: np.sum(x[:, None] * y, 1),
        [np.full(3, 1e-9), np.full((3, 9), 1e308)],
    ),
    (
        lambda x, y, v: x @ y @ v,
        [np.full((9, 2), 1e200), np.full((2, 9), 1e-200), np.full(9, 1e200)],
    ),
    (
        lambda x, y, v: x @ (y @ v),
        [np.full((9, 2), 1e-300), np.full((2, 9), 1e200), np.full(9, 1e100)],
    ),
    (lambda x, y: np.sum(x @ y, 0), [np.full((9, 2), 1e308), np.full((2, 3), 1e-9)]),
    (lambda x, y: np.sum(x * y), [np.full(9, 1e200), np.full(9, 1e-200)]),
    (
        lambda x, y, z: np.sum(x * y * z),
        [np.full(9, s) for s in (1e200, 1e-200, 1e200)],
    ),
]


@pytest.mark.parametrize("k", range(len(FINITE)))
def test_what_was_finite_stays_finite_unless_asked(k: int) -> None:
    """Only `fast=True` multiplies in an order in which another product overflows."""
    f, args = FINITE[k]
    before = trace(f, args)
    assert before is not None
    after = simplify_soundly(before)
    (truth,), (found,) = run(before, args), run(after, args)
    assert np.all(np.isfinite(truth))
    np.testing.assert_allclose(found, truth, 1e-12)


def test_fast_multiplies_in_another_order() -> None:
    """Each rule that may overflow anew is off until it is asked for."""
    for name in CONTRACTING:
        rule = RULES[name]
        assert ("may overflow or vanish" in rule.note) == (rule.group == "fast"), name
    x = wb.vector("x", shape=3)
    graph = wb.Graph([x], [2 * (3 * x)])
    assert names(wb.simplify(graph)) == []
    assert names(wb.simplify(graph, fast=True)) == ["small factors first", "constants"]


@pytest.mark.parametrize("dtype", ["uint8", "int8", "bool", "float32"])
def test_small_factors_of_another_dtype_keep_their_values(dtype: str) -> None:
    """Integers wrap around where their product with floats does not."""
    x = wb.matrix("x", shape=(2, 3))
    c = wb.tensor("c", dtype=dtype, shape=(3,))
    d = wb.tensor("d", dtype=dtype, shape=(1,))
    number = np.dtype(dtype).type(1)
    outputs = [-(c * x), c * (d * x), -(number * x), 2 * (c * x), number * (number * x)]
    graph = wb.simplify(wb.Graph([x, c, d], outputs), fast=True)
    a = np.array([[0.5, -1.0, 2.0], [3.0, 0.25, 1.0]])
    b, e = np.array([1, 100, 127]).astype(dtype), np.array([100]).astype(dtype)
    truth = [-(b * a), b * (e * a), -a, 2 * (b * a), a]
    for found, y in zip(graph.run([a, b, e]), truth, strict=True):
        np.testing.assert_allclose(found, y, rtol=1e-14)


@pytest.mark.parametrize("c", [0, np.int64(-(2**63)), 3])
def test_a_whole_number_without_a_negative_stays(c: Any) -> None:
    """-0 is 0, and the least integer its own negative."""
    x = np.array([1.0, -2.0, 0.0])
    found = wb.compile(lambda x: -(c * x), backend="numpy")(x)
    np.testing.assert_array_equal(found, -(c * x))
    np.testing.assert_array_equal(np.signbit(found), np.signbit(-(c * x)))
