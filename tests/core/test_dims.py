"""Lengths that are known only when the program runs: arithmetic, errors, programs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import workbench as wb
from workbench.backends.numpy import compile
from workbench.core import dims
from workbench.core.dims import (
    Dim,
    Length,
    broadcast_lengths,
    dim_of_atom,
    format_dim,
    largest,
    lower_bound,
    smallest,
)
from workbench.core.graph import Graph
from workbench.core.op import OPS
from workbench.core.tensor import apply, make_leaf
from workbench.errors import ShapeError, UnknownLengthError
from workbench.ops.define import op

NAMES = ("n", "m", "k")
LEAVES = [make_leaf(None, name) for name in NAMES]
DIMS = [dim_of_atom(Length(x, 0)) for x in LEAVES]


# Arithmetic: what a Dim says is what Python says of the numbers

LENGTHS = st.integers(0, 12)
EXPRESSIONS = st.recursive(
    st.one_of(st.sampled_from(NAMES), st.integers(-4, 6).map(str)),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from("+-*"), inner).map(
            lambda t: f"({t[0]} {t[1]} {t[2]})"
        ),
        st.tuples(inner, st.sampled_from(["//", "%"]), st.integers(1, 5)).map(
            lambda t: f"({t[0]} {t[1]} {t[2]})"
        ),
        st.tuples(st.sampled_from(["max", "min"]), inner, inner).map(
            lambda t: f"{t[0]}({t[1]}, {t[2]})"
        ),
    ),
    max_leaves=8,
)


def evaluated(x: Any, numbers: dict[str, int]) -> int:
    def new(atom: Any) -> Any:
        return numbers[atom.tensor.name] if isinstance(atom, Length) else None

    return int(dims.replace_dims(x, new))


@given(EXPRESSIONS, LENGTHS, LENGTHS, LENGTHS)
@settings(max_examples=300, deadline=None)
def test_arithmetic_is_that_of_integers(text: str, n: int, m: int, k: int) -> None:
    numbers = dict(zip(NAMES, (n, m, k), strict=True))
    functions = {"max": largest, "min": smallest}
    made = eval(text, dict(zip(NAMES, DIMS, strict=True)), functions)
    assert evaluated(made, numbers) == eval(text, numbers)
    # As code, it says the same.
    code = format_dim(made, lambda a: a.tensor.name, code=True)
    assert eval(code, {**numbers, "np": np}) == eval(text, numbers)
    if isinstance(made, Dim):
        assert lower_bound(made) <= eval(text, numbers)
        assert lower_bound(-made) <= -eval(text, numbers)


@given(EXPRESSIONS, EXPRESSIONS, LENGTHS, LENGTHS, LENGTHS)
@settings(max_examples=300, deadline=None)
def test_comparisons_never_lie(a: str, b: str, n: int, m: int, k: int) -> None:
    numbers = dict(zip(NAMES, (n, m, k), strict=True))
    functions = {"max": largest, "min": smallest}
    scope = dict(zip(NAMES, DIMS, strict=True))
    left, right = eval(a, scope, functions), eval(b, scope, functions)
    x, y = eval(a, numbers), eval(b, numbers)
    for sign in ("==", "!=", "<", "<=", ">", ">="):
        try:
            said = eval(f"a {sign} b", {"a": left, "b": right})
        except UnknownLengthError:
            continue
        assert said == eval(f"a {sign} b", {"a": x, "b": y})


@given(st.lists(st.sampled_from([*NAMES, "1", "4"]), min_size=1, max_size=4))
@settings(deadline=None)
def test_lengths_broadcast_as_in_numpy(parts: list[str]) -> None:
    scope = dict(zip(NAMES, DIMS, strict=True))
    made = broadcast_lengths(*(eval(p, scope) for p in parts))
    for numbers in ((4, 1, 4), (1, 1, 1), (4, 4, 1), (1, 4, 4)):
        known = dict(zip(NAMES, numbers, strict=True))
        shapes = [(eval(p, known),) for p in parts]
        assert evaluated(made, known) == np.broadcast_shapes(*shapes)[0]


@given(
    LENGTHS,
    st.one_of(st.none(), st.integers(-14, 14)),
    st.one_of(st.none(), st.integers(-14, 14)),
    st.one_of(st.none(), st.integers(-4, 4).filter(bool)),
)
@settings(max_examples=300, deadline=None)
def test_slices_have_the_length_that_python_gives_them(
    n: int, start: int | None, stop: int | None, step: int | None
) -> None:
    y = wb.vector("x")[start:stop:step]
    made = y.shape[0]
    found = made if isinstance(made, int) else made.replace(lambda atom: n if (
        isinstance(atom, Length)) else None)  # fmt: skip
    assert found == len(range(n)[start:stop:step])


def test_equal_lengths_are_equal() -> None:
    n, m, _ = DIMS
    assert n + m == m + n
    assert hash(n + m) == hash(m + n)
    assert (n * m) // m == n
    assert type((2 * n + 3) // np.int64(2) - n) is int
    assert (n + 1) * 2 == 2 * n + 2
    assert n != n + 1
    assert n != -1
    assert n - n == 0
    assert {n: 1}[n + 0] == 1
    assert math.prod((n, 2, m)) == np.prod((n, 2, m)) == 2 * n * m
    assert n >= 0
    assert n + 1 > 0
    assert bool(n + 1)


def test_a_slice_of_a_slice_stays_short() -> None:
    x = wb.vector("x")
    for _ in range(1000):
        x = x[1:]
    assert repr(x.shape[0]) == "max(0, x.shape[0] - 1000)"
    assert x.eval(x=np.arange(1002.0)).tolist() == [1000, 1001]


@pytest.mark.parametrize(
    ("f", "length"),
    [
        (lambda x: x[2:] - 2 * x[1:-1] + x[:-2], "max(0, x.shape[0] - 2)"),
        (lambda x: np.pad(x, 1)[1:-1] - x, "x.shape[0]"),
        (lambda x: np.convolve(x, np.ones(3))[1:-1] - x, "x.shape[0]"),
        (
            lambda x: np.stack([x, x]).reshape(-1) - np.concatenate([x, x]),
            "2*x.shape[0]",
        ),
        (lambda x: np.outer(x, x[1:]).reshape(x.shape[0], -1)[0], None),
    ],
)
def test_slices_and_sums_keep_their_exact_length(f: Any, length: str | None) -> None:
    x = wb.vector("x")
    made = f(x)
    assert str(made.shape[0]) == (length or "max(0, x.shape[0] - 1)")
    for n in (3, 6):
        a = np.arange(n) ** 2.0
        np.testing.assert_array_equal(made.eval(x=a), f(a))


@pytest.mark.parametrize("n", [3, 4])
def test_lengths_told_in_two_ways_are_compared_when_it_runs(n: int) -> None:
    """That (n + 1)(m + 2) is nm + 2n + m + 2 is not known before."""
    A = wb.matrix("A")
    rows, columns = A.shape
    left = np.ones((rows + 1) * (columns + 2), like=A)
    right = np.ones(rows * columns + 2 * rows + columns + 2, like=A)
    total = wb.function([A], left + right)
    np.testing.assert_array_equal(total(np.ones((n, 2))), 2 * np.ones((n + 1) * 4))
    wrong = wb.function([A], left + right[1:])
    with pytest.raises(ShapeError, match=r"add\(float64\[.*test_dims.py"):
        wrong(np.ones((n, 2)))


# Errors


def test_what_needs_the_number_says_what_to_write() -> None:
    x = wb.vector("x")
    n = x.shape[0]
    for ask in (
        lambda: int(n),
        lambda: range(n),
        lambda: float(n),
        lambda: bool(n),
        lambda: len(x),
        lambda: list(x),
        lambda: n == 3,
        lambda: n < 3,
        lambda: [0, 1][n],
    ):
        with pytest.raises(UnknownLengthError) as caught:
            ask()
        text = str(caught.value)
        assert "length of axis 0 of 'x' is known only when the program runs" in text
        assert "test_dims.py" in text
        assert "x / n" in text
        assert "shape=(3,)" in text


def test_any_negative_number_is_the_length_that_follows() -> None:
    x = wb.matrix("x")
    assert str(x.reshape(-2, 3).shape) == "((x.shape[0]*x.shape[1]) // 3, 3)"
    got = wb.function([x], x.reshape(-2, 3))(np.ones((2, 3)))
    assert got.shape == np.ones((2, 3)).reshape(-2, 3).shape
    for shape in ((-1, -1), (-3, -2)):
        with pytest.raises(ValueError, match="can only specify one unknown dimension"):
            x.reshape(shape)


def test_makers_of_arrays_say_like() -> None:
    x = wb.vector("x")
    with pytest.raises(UnknownLengthError, match=r"np\.zeros_like\(x, shape=\.\.\.\)"):
        np.zeros(x.shape)
    with pytest.raises(UnknownLengthError, match=r"np\.ones\(\.\.\., like=x\)"):
        np.ones((x.shape[0], 2))
    made = np.ones((x.shape[0], 2), like=x) + np.arange(x.shape[0], like=x)[:, None]
    assert made.eval(x=np.zeros(2)).tolist() == [[1, 1], [2, 2]]
    assert np.zeros_like(x, shape=(x.shape[0], 1)).eval(x=np.ones(2)).shape == (2, 1)


def test_lengths_that_cannot_fit_are_an_error_at_once() -> None:
    x, y = wb.vector("x"), wb.vector("y", shape=3)
    with pytest.raises(ShapeError, match=r"broadcast|fit"):
        np.concatenate([x, x, x])[: x.shape[0]] + np.ones((2, 1)) + np.ones((3, 1))
    with pytest.raises(ShapeError, match=r"matmul.*min\(2, x\.shape\[0\]\)"):
        x[:2] @ y
    with pytest.raises(ShapeError, match="arrays of 1 and 2 axes"):
        np.concatenate([x, wb.matrix("A")])


def test_the_run_names_both_symbols() -> None:
    A, x = wb.matrix("A"), wb.vector("x")
    f = wb.function([A, x], A @ x)
    with pytest.raises(ShapeError) as caught:
        f(np.ones((2, 3)), np.ones(4))
    text = str(caught.value)
    assert "matmul(float64[2, 3], float64[4])" in text
    assert "'A' float64[A.shape[0], A.shape[1]], 'x' float64[x.shape[0]]" in text
    assert "test_dims.py" in text


def test_a_length_shared_by_two_symbols_is_checked() -> None:
    x = wb.vector("x")
    y = wb.vector("y", shape=x.shape)
    f = wb.function([x, y], wb.grad(np.sum(x * y), [x, y]))
    assert "unbroadcast" not in f.source
    assert f(np.ones(2), np.array([3.0, 4.0]))[0].tolist() == [3, 4]
    with pytest.raises(ShapeError, match=r"input 'y'.*x\.shape\[0\] = 2"):
        f(np.ones(2), np.ones(1))


def test_axes_that_no_small_length_told_of_are_an_error_when_it_runs() -> None:
    op("uneven_in_test", lambda x: x if len(x) < 70 else x[None], rule="none")
    try:
        x = wb.vector("x")
        f = wb.function([x], apply(OPS["uneven_in_test"], (x,)) * 2.0)
        assert f(np.ones(5)).tolist() == [2] * 5
        with pytest.raises(ShapeError, match=r"uneven_in_test.*with shape \(1, 80\)"):
            f(np.ones(80))
    finally:
        del OPS["uneven_in_test"]


def test_lengths_that_a_program_says_to_be_equal_are_compared_by_numpy() -> None:
    """The inner product is built of any operands; that they differ, the run says."""
    A, x = wb.matrix("A"), wb.vector("x")
    product = wb.OpFromGraph([A, x], [A @ x])
    u, v = wb.tensor("u", shape=(2, 3)), wb.vector("v", shape=4)
    f = wb.function([u, v], product(u, v))
    with pytest.raises(ShapeError, match=r"\(2, 3\) @ \(4,\): 3 ≠ 4.*test_dims.py"):
        f(np.ones((2, 3)), np.ones(4))


def test_squeeze_wants_the_axis() -> None:
    x = wb.matrix("x")
    with pytest.raises(UnknownLengthError, match=r"np\.squeeze\(x, axis=0\)"):
        np.squeeze(x)
    assert np.squeeze(x, axis=0).eval(x=np.ones((1, 3))).shape == (3,)
    with pytest.raises(ValueError, match="reshape"):
        np.squeeze(x, axis=0).eval(x=np.ones((2, 3)))


# Programs


@pytest.mark.parametrize("n", [1, 4])
@pytest.mark.parametrize("m", [1, 4])
def test_what_was_broadcast_at_run_time_is_summed(n: int, m: int) -> None:
    """Broadcasting of unknown lengths, and its gradient at each way it comes out."""
    x, y = wb.vector("x"), wb.matrix("y")
    cost = np.sum(np.sin(x) * y * y)
    f = wb.function([x, y], [cost, *wb.grad(cost, [x, y])])
    a, b = np.linspace(0.2, 0.8, n), np.linspace(1.0, 2.0, 3 * m).reshape(3, m)
    value, by_x, by_y = f(a, b)
    np.testing.assert_allclose(value, np.sum(np.sin(a) * b * b))
    wide_a, wide_b = np.broadcast_arrays(a, b)
    every_x = np.cos(wide_a) * wide_b**2
    every_y = 2 * np.sin(wide_a) * wide_b
    expected_x = every_x.sum(0) if n > 1 or m == 1 else every_x.sum().reshape(1)
    expected_y = every_y if m > 1 or n == 1 else every_y.sum(1, keepdims=True)
    np.testing.assert_allclose(by_x, expected_x)
    np.testing.assert_allclose(by_y, expected_y)


@pytest.mark.parametrize(("n", "m"), [(4, 1), (1, 4), (4, 4)])
def test_products_of_broadcast_stacks_are_summed(
    n: int, m: int, rng: np.random.Generator
) -> None:
    """Of a product, the lengths that must be equal are not summed over: the loop is."""
    a, b = (wb.tensor(name, shape=(None,) * 3) for name in "ab")
    f = wb.function([a, b], wb.grad(np.sum((a @ b) ** 2), [a, b]))
    x, y = rng.standard_normal((n, 2, 3)), rng.standard_normal((m, 3, 5))
    by_x, by_y = 2 * (x @ y) @ y.swapaxes(1, 2), 2 * x.swapaxes(1, 2) @ (x @ y)
    by_x = by_x if n > 1 else by_x.sum(axis=0, keepdims=True)
    by_y = by_y if m > 1 else by_y.sum(axis=0, keepdims=True)
    for got, right in zip(f(x, y), (by_x, by_y), strict=True):
        np.testing.assert_allclose(got, right, rtol=1e-12)


def test_a_product_of_symbols_has_a_plain_gradient() -> None:
    A, x = wb.matrix("A"), wb.vector("x")
    f = wb.function([A, x], wb.grad(np.sum((A @ x) ** 2), [A, x]))
    assert "unbroadcast" not in f.source


@pytest.mark.parametrize(("n", "m"), [(4, 1), (1, 4), (4, 4)])
def test_second_derivatives_through_it(n: int, m: int) -> None:
    """Of (Σᵢ xᵢ yᵢ)² by complex steps of its gradient, which is analytic."""
    x, y = wb.vector("x"), wb.vector("y")
    cost = np.sum(x * y) ** 2
    g = wb.grad(cost, x)
    v = wb.vector("v", shape=x.shape)
    f = wb.function([x, y, v], wb.grad(np.sum(g * v), [x, y]))
    rng = np.random.default_rng(0)
    a, b, t = rng.normal(size=n), rng.normal(size=m), rng.normal(size=n)

    def slope(a: Any, b: Any) -> Any:
        """vᵀ of the gradient by x."""
        every = 2 * np.sum(a * b) * np.broadcast_to(b, np.broadcast_shapes((n,), (m,)))
        return np.sum((every if n > 1 or m == 1 else every.sum(keepdims=True)) * t)

    h = 1e-30
    by_x = [np.imag(slope(a + 1j * h * e, b)) / h for e in np.eye(n)]
    by_y = [np.imag(slope(a, b + 1j * h * e)) / h for e in np.eye(m)]
    found_x, found_y = f(a, b, t)
    np.testing.assert_allclose(found_x, by_x, rtol=1e-12)
    np.testing.assert_allclose(found_y, by_y, rtol=1e-12)


def test_a_length_is_a_python_integer_to_dtypes() -> None:
    x = wb.vector("x", dtype="float32")
    mean = np.sum(x) / x.shape[0]
    assert mean.dtype == np.float32
    made = mean.eval(x=np.ones(4, np.float32))
    assert made == 1
    assert made.dtype == np.float32
    root = np.sqrt(x.shape[0]) * np.array([1.0, 2.0])
    assert root.eval(x=np.ones(4, np.float32)).tolist() == [2, 4]
    pair = wb.function([x], np.array([x.shape[0], 2]))
    assert pair(np.ones(4, np.float32)).tolist() == [4, 2]


def test_the_source_reads_lengths_off_arrays() -> None:
    x = wb.vector("x")
    mean = np.sum(x) / x.shape[0]
    source = wb.function([x], wb.grad(np.mean(x * x), x), name="g").source
    assert "x.shape[0]" in source
    assert "c:" not in source
    namespace: dict[str, Any] = {}
    exec(source, namespace)
    for n in (2, 5):
        np.testing.assert_allclose(
            namespace["g"](np.arange(n * 1.0)), 2 / n * np.arange(n)
        )
    assert "np.sum(x) / x.shape[0]" in wb.function([x], mean).source


def test_known_lengths_take_the_place_of_unknown_ones() -> None:
    """A function of symbols on Tensors, in a trace, under vmap and in a checkpoint."""
    x = wb.vector("x")
    f = wb.function([x], np.reshape(np.tanh(x), (1, x.shape[0])) / x.shape[0])
    point = np.array([0.1, 0.2, 0.3])
    expected = (1 - np.tanh(point) ** 2) / 3
    np.testing.assert_allclose(wb.grad(lambda v: np.sum(f(v)))(point), expected)
    twice = wb.vmap(f)(np.stack([point, point]))
    assert twice.shape == (2, 1, 3)
    layer = wb.checkpoint(lambda v: np.sum(np.tanh(v)) / v.shape[0])
    g = wb.function([x], wb.grad(layer(x), x))
    np.testing.assert_allclose(g(point), expected)
    np.testing.assert_allclose(g(point[:2]), (1 - np.tanh(point[:2]) ** 2) / 2)


def test_rules_that_need_a_number_run_later() -> None:
    """np.cumprod's rule counts up to the length: one node runs it, at any order."""
    x = wb.vector("x")
    cost = np.sum(np.cumprod(x) ** 2)
    g = wb.grad(cost, x)
    h = wb.grad(np.sum(g * g), x)
    f = wb.function([x], [g, h])
    for n in (2, 5):
        point = np.linspace(0.5, 1.5, n)
        first = wb.grad(lambda v: np.sum(np.cumprod(v) ** 2))
        second = wb.grad(lambda v: np.sum(first(v) ** 2))  # noqa: B023
        np.testing.assert_allclose(f(point)[0], first(point), rtol=1e-12)
        np.testing.assert_allclose(f(point)[1], second(point), rtol=1e-12)


def test_vmap_over_an_unknown_number_of_rows() -> None:
    A = wb.matrix("A")
    rows = wb.vmap(lambda r: np.median(r) * np.sum(r))(A)
    f = wb.function([A], [rows, wb.grad(np.sum(rows), A)])
    a = np.array([[1.0, 2.0, 4.0], [3.0, 8.0, 5.0]])
    value, g = f(a)
    np.testing.assert_allclose(value, [14, 80])
    np.testing.assert_allclose(g, [[2, 9, 2], [5, 5, 21]])


def test_a_program_without_unknown_lengths_has_no_checks() -> None:
    x = wb.vector("x", shape=3)
    y = np.sum(np.reshape(x * x, (3, 1)))
    assert compile(Graph([x], [y]))._checks is None
    assert compile(Graph([x], [y])).source.count("shape") == 1


def test_a_plain_mask_is_its_places() -> None:
    x = wb.vector("x")
    y = x[np.array([True, False, True])]
    f = wb.function([x], [y, wb.grad(np.sum(y * y), x)])
    value, g = f(np.array([1.0, 2.0, 3.0]))
    assert value.tolist() == [1, 3]
    assert g.tolist() == [2, 0, 6]


@pytest.mark.long
def test_many_nodes() -> None:
    x = wb.vector("x")
    y = x
    for _ in range(10_000):
        y = y * 1.0 + 0.0
    f = wb.function([x], wb.grad(np.sum(y), x))
    assert f(np.ones(2)).tolist() == [1, 1]


def test_arrays_of_an_unknown_length_know_it() -> None:
    x = wb.matrix("x")
    n, m = x.shape
    made = {
        "int64[min(x.shape[0], 2*x.shape[1])]": np.arange(smallest(n, 2 * m), like=x),
        "int64[max(0, x.shape[0] - 1)]": np.arange(1, n, like=x),
        "float32[x.shape[0]]": np.arange(n, dtype=np.float32, like=x),
        "bool[x.shape[0], 2]": np.ones((n, 2), dtype=bool, like=x),
        "float64[x.shape[0], x.shape[1]]": np.eye(n, m, k=1, like=x),
    }
    for spec, y in made.items():
        assert repr(y.spec) == spec
        for shape in ((4, 3), (9, 1), (0, 2)):
            got = wb.function([x], y)(np.ones(shape))
            lengths = [
                int(eval(str(d), {"x": np.ones(shape)}))
                if not isinstance(d, int)
                else d
                for d in y.shape
            ]
            assert (list(got.shape), got.dtype) == (lengths, y.dtype)


def test_a_diagonal_of_what_was_tiled() -> None:
    """Its length is the lesser of two, neither of which is always so."""
    x = wb.matrix("x")
    y = np.sum(np.diagonal(np.tile(x, 2)) ** 2)
    f = wb.function([x], wb.grad(y, x))
    for shape in ((3, 1), (2, 4), (6, 2), (1, 1)):
        a = np.arange(1.0, 1 + shape[0] * shape[1]).reshape(shape)
        right = wb.grad(lambda x: np.sum(np.diagonal(np.tile(x, 2)) ** 2))(a)
        np.testing.assert_allclose(f(a), right)


def test_what_lengths_broadcast_to_has_a_name_in_texts() -> None:
    w, b = wb.matrix("W"), wb.vector("b")
    y = np.sum(np.mean(np.tanh(w + b), axis=1) ** 2)
    f = wb.function([w, b], wb.grad(y, [w, b]))
    table = str(f.graph)
    assert table.endswith("n      = broadcast(W.shape[1], b.shape[0])")
    assert table.count("broadcast(W") == 1
    assert "float64[W.shape[0], n]" in table
    source = f.source
    assert source.count("np.broadcast_shapes") == 1
    alone: dict[str, Any] = {}
    exec(source, alone)
    for shapes in (((2, 3), (3,)), ((2, 1), (3,)), ((2, 3), (1,))):
        args = [np.full(s, 0.3) for s in shapes]
        for got, right in zip(alone["function"](*args), f(*args), strict=True):
            np.testing.assert_allclose(got, right)
