"""`function`: expressions become something that can be called."""

from __future__ import annotations

import math
import pickle
import re
import time
import warnings
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.errors import (
    DtypeError,
    MissingInputError,
    ShapeError,
    TraceError,
    UnusedInputError,
    UsageError,
)
from workbench.gradient import Lop, Rop, grad, hessian, hessian_vector_product, jacobian

x, y = wb.scalars("x y")

v = wb.vector("v", shape=3)

# What it returns


def test_outputs_nest_as_they_were_given() -> None:
    f = wb.function([x, y], {"sum": x + y, "more": [x * y, (x - y, 7.0)]})
    made = f(3.0, 2.0)
    assert list(made) == ["sum", "more"]
    assert made == {"sum": 5.0, "more": [6.0, (1.0, 7.0)]}
    assert wb.function([x], x + 1)(1.0) == 2.0
    assert wb.function([x], [x + 1])(1.0) == [2.0]
    assert wb.function([x], (x,))(1.0) == (1.0,)
    assert wb.function([], None)() is None


def test_a_dataclass_of_outputs() -> None:
    @dataclass
    class Moments:
        mean: Any
        variance: Any

    f = wb.function([v], Moments(np.mean(v), np.var(v)))
    made = f([1.0, 2.0, 6.0])
    assert isinstance(made, Moments)
    np.testing.assert_allclose([made.mean, made.variance], [3.0, 14 / 3])


def test_derivatives_are_outputs_like_any_other() -> None:
    f = wb.function([v], wb.grad(np.sum(np.sin(v) * v), v))
    at = np.array([0.3, -1.0, 2.0])
    np.testing.assert_allclose(f(at), np.sin(at) + at * np.cos(at))


def test_a_gradient_that_is_constant_uses_its_input() -> None:
    np.testing.assert_array_equal(
        wb.function([v], wb.grad(np.sum(v), v))(np.ones(3)), np.ones(3)
    )


def derivatives_that_need_little() -> dict[str, Any]:
    """Derivatives that read less than what they are derivatives of, at (2, 3)."""
    cost = x**2 + np.floor(y)
    return {
        "factor": (grad(x * y, x), 3),
        "part": (grad(x**2 + y**2, x), 4),
        "flat": (grad(cost, y), 0),
        "disconnected": (grad(x * 2, y, disconnected_inputs="ignore"), 0),
        "block": (hessian(cost, [x, y])[1][0], 0),
        "own block": (hessian(cost, x), 2),
        "product": (hessian_vector_product(cost, [x, y], [1.0, None])[1], 0),
        "row": (jacobian([x**2, y**2], [x, y])[0][1], 0),
        "pulled": (Lop([x * y, y], x, [1.0, 5.0]), 3),
        "pushed": (Rop(x**2 + y, y, 7.0), 7),
        "constant": (grad(wb.constant(5.0) * x + y, x), 5),
    }


@pytest.mark.parametrize("kind", [*derivatives_that_need_little()])
def test_a_derivative_takes_all_symbols_of_what_it_is_one_of(kind: str) -> None:
    """As in Theano, where each gradient reads the cost, if only for its shape."""
    g, truth = derivatives_that_need_little()[kind]
    assert wb.function([x, y], g)(2.0, 3.0) == truth
    assert g.eval({x: 2.0, y: 3.0}) == truth
    with pytest.raises(UnusedInputError):
        wb.function([x, y, wb.scalar("z")], g)


def test_what_is_returned_is_the_callers_own() -> None:
    constant = np.ones(3)
    w = wb.shared(np.ones(3), "w")
    outputs = [v, v[1:], v.reshape(1, 3), w, w[:2], constant * 1, wb.constant([1.0])]
    f = wb.function([v], [*outputs, constant])
    given = np.zeros(3)
    for made in f(given):
        made += 100.0
    np.testing.assert_array_equal(given, 0)
    np.testing.assert_array_equal(w.get_value(), 1)
    np.testing.assert_array_equal(constant, 1)
    np.testing.assert_array_equal(f(given)[-1], 1)
    np.testing.assert_array_equal(f(given)[-2], 1)


def test_a_constant_is_that_of_the_time_when_the_function_was_made() -> None:
    W = np.eye(3)
    f = wb.function([v], W @ v)
    W *= 5
    np.testing.assert_array_equal(f(np.ones(3)), np.ones(3))


def test_integers_booleans_and_complex_numbers() -> None:
    n, z = wb.scalar("n", dtype=int), wb.vector("z", dtype=complex, shape=2)
    b = wb.vector("b", dtype=bool, shape=2)
    f = wb.function([n, z, b], np.where(b, z * n, np.conj(z)))
    np.testing.assert_array_equal(
        f(2, [1 + 1j, 2 - 1j], [True, False]), [2 + 2j, 2 + 1j]
    )


# How it is called


def test_by_position_by_name_and_by_default() -> None:
    f = wb.function([x, y], x - 2 * y, defaults={y: 3.0})
    assert f(1.0) == f(x=1.0) == f(1.0, 3.0) == f(y=3.0, x=1.0) == -5.0
    assert f(1.0, y=0.0) == 1.0
    ((symbol, value),) = f.defaults.items()
    assert symbol is y
    assert value == 3.0


def test_a_default_belongs_to_the_function() -> None:
    start = np.zeros(3)
    f = wb.function([x, v], x + v, defaults=[(v, start)])
    f.defaults[v][:] = 7
    start += 5
    np.testing.assert_array_equal(f(1.0), np.ones(3))


def test_inputs_nest_too() -> None:
    f = wb.function([{"w": v, "b": x}, y], np.sum(v) * x + y)
    assert f({"w": [1, 2, 3], "b": 2}, 1.0) == 13.0
    g = wb.function({"model": (v, x), "shift": y}, np.sum(v) * x + y)
    assert g((np.ones(3), 2.0), 1.0) == g(shift=1.0, model=([1, 1, 1], 2.0)) == 7.0
    with pytest.raises(UsageError, match="model is nested otherwise"):
        g((np.ones(3),), 1.0)


@pytest.mark.parametrize(
    ("args", "named", "told"),
    [
        ((), {}, "f is called without x. It takes x, y."),
        ((1, 2, 3), {}, "f takes 2 arguments (x, y), and is called with 3."),
        ((1,), {"z": 2}, "f has no argument 'z'. Its arguments are x, y."),
        ((1,), {"x": 2}, "f is given 'x' twice: by position and by name."),
    ],
)
def test_a_call_that_does_not_fit(args: Any, named: Any, told: str) -> None:
    f = wb.function([x, y], x + y, name="f", defaults={y: 0})
    with pytest.raises(UsageError, match=re.escape(told)):
        f(*args, **named)


def test_two_inputs_of_one_name_go_by_position() -> None:
    a, b = wb.scalar("a"), wb.scalar("a")
    f = wb.function([a, b], a - b)
    assert f(3.0, 1.0) == 2.0
    with pytest.raises(UsageError, match="several arguments of the name 'a'"):
        f(a=1.0)


single = wb.vector("single", dtype="float32", shape=2)

short = wb.scalar("short", dtype="int8")

whole = wb.scalar("whole", dtype="int64")

turning = wb.scalar("turning", dtype="complex128")

truth = wb.scalar("truth", dtype=bool)


@pytest.mark.parametrize(
    ("symbol", "value"),
    [
        (x, 1), (x, True), (x, np.int32(1)), (x, np.float32(1)), (x, np.array(1)),
        (v, [1, 2, 3]), (v, range(3)), (v, np.arange(3)), (v, np.ones(3, np.float16)),
        (single, [0.1, 0.2]), (single, [1, 2]), (single, np.ones(2, np.int16)),
        (short, -128), (short, True), (short, np.int8(3)),
        (x, -0.0), (x, math.inf), (x, math.nan), (x, np.float64(2)), (x, 1 << 62),
        (whole, -(1 << 63)), (whole, np.int64(3)), (turning, 1 + 2j), (truth, True),
    ],
)  # fmt: skip
def test_casts_that_change_no_value_are_made(symbol: Any, value: Any) -> None:
    made = wb.function([symbol], symbol)(value)
    assert made.dtype == symbol.dtype
    np.testing.assert_array_equal(made, np.asarray(value, symbol.dtype))


@pytest.mark.parametrize(
    ("symbol", "value", "error", "told"),
    [
        (
            single,
            np.ones(2),
            DtypeError,
            ["'single'", "float32", ".astype(np.float32)"],
        ),
        (single, np.arange(2), DtypeError, ["'single'", "int64"]),
        (x, 1j, DtypeError, ["'x'", "complex128", "real part"]),
        (x, "1", DtypeError, ["'x'", "not an array of numbers"]),
        (x, None, DtypeError, ["'x'", "None"]),
        (x, np.datetime64("2026-01-01"), DtypeError, ["'x'"]),
        (short, 1.0, DtypeError, ["'short'", "int8"]),
        (short, 300, DtypeError, ["'short'", "300", "out of its range"]),
        (whole, 1 << 63, DtypeError, ["'whole'", "out of its range"]),
        (whole, 1 << 70, DtypeError, ["'whole'", "not an array of numbers"]),
        (x, [1.0], ShapeError, ["'x'", "shape (1,)", "0 axes, not 1"]),
        (v, 1.0, ShapeError, ["'v'", "shape ()", "1 axis, not 0"]),
        (v, [1.0, 2.0], ShapeError, ["'v'", "float64[3]", "(2,)"]),
        (v, [[1.0], [1.0, 2.0]], ShapeError, ["'v'", "uneven"]),
        (v, np.ma.masked_array([1.0, 2, 3], [0, 1, 0]), TraceError, ["'v'", "masked"]),
        (v, np.ones((1, 3)).view(np.matrix), TraceError, ["'v'", "np.matrix"]),
    ],
)
def test_an_argument_that_does_not_fit_is_named(
    symbol: Any, value: Any, error: type[Exception], told: list[str]
) -> None:
    with pytest.raises(error) as caught:
        wb.function([symbol], symbol * 1)(value)
    for word in told:
        assert word in str(caught.value)


def test_a_symbol_without_a_name_is_named_by_its_place() -> None:
    a, b = wb.scalar(), wb.vector(shape=2)
    with pytest.raises(ShapeError, match=r"number 2 float64\[2\] \(at test_function"):
        wb.function([a, b], a * b)(1.0, 1.0)


# What it is made of


def test_a_symbol_that_no_input_gives() -> None:
    with pytest.raises(MissingInputError) as caught:
        wb.function([x], x + np.sum(v) * y, name="model")
    told = str(caught.value)
    for word in ("model needs the symbols", "'y' float64[]", "'v' float64[3]"):
        assert word in told
    assert 'wb.scalars("x y")' in told  # the line that made it


@pytest.mark.parametrize(
    ("inputs", "told"),
    [
        ([x, x], "the symbol 'x' is given twice among the inputs, at places 1 and 2"),
        ([{"a": x}, [x]], "given twice"),
        ([x + 1], "is computed from others"),
        ([wb.constant(1.0)], "has a value already"),
        ([wb.shared(1.0, "w")], "the input 'w' float64[]"),
        ([wb.shared(1.0, "w")], "is a shared value"),
        ([1.0], "the input 1.0 is not a symbol"),
        ("x", "a list of symbols, not 'x'"),
        (None, "a list of symbols, not None"),
        ({1: x}, "names, not 1"),
    ],
)
def test_an_input_that_is_none(inputs: Any, told: str) -> None:
    with pytest.raises(UsageError, match=re.escape(told)):
        wb.function(inputs, x * 2)


def test_an_input_that_nothing_reads() -> None:
    with pytest.raises(UnusedInputError, match="nothing reads the input 'y'"):
        wb.function([x, y], x)
    with pytest.warns(UserWarning, match="nothing reads the input 'y'"):
        f = wb.function([x, y], x, on_unused_input="warn")
    assert f(1.0, 2.0) == 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert wb.function([x, y], x, on_unused_input="ignore")(1.0, 2.0) == 1.0
    w = wb.shared(0.0)
    wb.function([x, y], x, updates={w: y})  # read by an update


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (
            {"backend": "fast"},
            "no backend 'fast'. Choose 'numpy', 'compiled', 'auto', 'cupy'.",
        ),
        ({"on_unused_input": "no"}, "not one of 'raise', 'warn', 'ignore'"),
        ({"name": 3}, "the name of a function is a text, not 3"),
        ({"updates": {x: 1.0}}, "is not a shared value"),
        ({"updates": 3}, "a mapping or a list of pairs, not int"),
        ({"updates": [3]}, "3 is not a pair"),
        ({"givens": {"x": 1.0}}, "'x' is not a Tensor"),
        ({"givens": [(x, 1.0), (x, 2.0)]}, "is replaced twice"),
        ({"defaults": {y: 1.0}}, "none of the inputs (x)"),
    ],
)
def test_an_option_that_does_not_fit(options: Any, told: str) -> None:
    with pytest.raises(UsageError, match=re.escape(told)):
        wb.function([x], x * 2, **options)


def test_outputs_that_are_none() -> None:
    with pytest.raises(UsageError, match="not 'text'"):
        wb.function([x], [x, "text"])


def test_a_sparse_array_is_no_dense_one() -> None:
    """The product of two sparse matrices is @: A * A would be another number."""
    sparse = pytest.importorskip("scipy.sparse")
    A = wb.matrix("A")
    f = wb.function([A], A * A)
    for S in (sparse.csr_matrix(np.eye(2)), sparse.csr_array(np.eye(2))):
        for give in (
            lambda S=S: f(S),
            lambda S=S: (A * A).eval({A: S}),
            lambda S=S: wb.function([A], A * A, defaults={A: S}),
            lambda S=S: wb.function([], A * A, givens={A: S}),
            lambda S=S: wb.shared(S),
            lambda S=S: wb.shared(np.eye(2)).set_value(S),
            lambda S=S: wb.constant(S),
        ):
            with pytest.raises(DtypeError, match="sparse array of shape"):
                give()
        x = wb.vector("x")
        np.testing.assert_array_equal((S @ x).eval(x=np.ones(2)), 1)


def test_a_tensor_of_unknown_length_is_measured_when_the_program_runs() -> None:
    y, z, m = wb.tensor("y", shape=(3,)), wb.vector("z"), wb.matrix("m")
    double = wb.function([y], y * 2)
    outer = wb.function([z], double(z[1:]))
    np.testing.assert_array_equal(outer([9.0, 1.0, 2.0, 3.0]), [2.0, 4.0, 6.0])
    with pytest.raises(ShapeError, match="3"):
        outer([1.0, 2.0])
    square = wb.tensor("s", shape=(2, 2))
    with pytest.raises(ShapeError, match=r"'s' takes float64\[2, 2\].* only when the"):
        wb.function([square], square * 2)(m)


# Inside derivatives, copies


def test_a_function_is_differentiated_like_any_other() -> None:
    w = wb.shared(np.array([1.0, 2.0, 3.0]), "w")
    f = wb.function([v], np.sum(w * v**3))
    at = np.array([1.0, -1.0, 2.0])
    np.testing.assert_allclose(wb.grad(f)(at), 3 * w.get_value() * at**2)
    np.testing.assert_allclose(wb.hessian(f)(at), np.diag(6 * w.get_value() * at))
    u = wb.vector("u", shape=3)
    inside = wb.function([u], wb.grad(f(2 * u), u))
    np.testing.assert_allclose(inside(at), 48 * np.array([1, 2, 3]) / 2 * at**2)
    step = wb.function([v], np.sum(v), updates={w: v})
    with pytest.raises(TraceError, match="with updates"):
        wb.grad(step)(at)


def test_a_copy_on_other_values() -> None:
    n, m = wb.shared(0.0, "n"), wb.shared(5.0, "m")
    f = wb.function([x], n * x, updates={n: n + x}, defaults={x: 1.0}, name="f")
    g = f.copy(swap={n: m}, name="g")
    assert g(2.0) == 10.0
    assert (n.get_value(), m.get_value()) == (0.0, 7.0)
    still = f.copy(updates=False)
    assert still(2.0) == 0.0
    assert n.get_value() == 0.0
    assert (still.name, g.name, g.defaults[x]) == ("f", "g", 1.0)
    with pytest.raises(UsageError, match="neither reads nor writes"):
        f.copy(swap={m: n})
    with pytest.raises(UsageError, match="takes the place of"):
        f.copy(swap={n: wb.shared(np.ones(2))})


# Size


@pytest.mark.long
def test_many_nodes_are_linear() -> None:
    def seconds(count: int) -> float:
        z = x
        for _ in range(count // 2):
            z = np.sin(z) + 1.0
        start = time.process_time()
        f = wb.function([x], [z, wb.grad(z, x)])
        f(0.5)
        return time.process_time() - start

    small, large = seconds(4_000), seconds(24_000)  # and their gradients
    assert large < 20 * max(small, 0.1)


@pytest.mark.long
def test_ten_thousand_symbols(rng: np.random.Generator) -> None:
    many = [wb.scalar(f"x{i}") for i in range(10_000)]
    total: Any = 0.0
    for symbol in many:
        total = total + symbol
    start = time.process_time()
    f = wb.function(many, total)
    values = rng.normal(size=10_000)
    np.testing.assert_allclose(f(*values), np.sum(values), atol=1e-9)
    made = total.eval(dict(zip(many, values, strict=True)))
    np.testing.assert_allclose(made, np.sum(values), atol=1e-9)
    assert time.process_time() - start < 5


# What a symbol is not


@pytest.mark.parametrize(
    ("ask", "error", "told"),
    [
        (lambda a: 1 if a > 0 else 2, TraceError, ["np.where", "wb.cond", ".eval("]),
        (float, TraceError, ["np.sin(x) in place of math.sin(x)", ".eval({x: 1.0})"]),
        (math.cos, TraceError, ["an expression of symbols", ".eval("]),
        (pickle.dumps, TypeError, ["cannot be pickled"]),
    ],
)
def test_what_asks_a_symbol_for_its_value(
    ask: Any, error: type[Exception], told: list[str]
) -> None:
    with pytest.raises(error) as caught:
        ask(x)
    for words in told:
        assert words in str(caught.value)


@pytest.mark.parametrize("number", [Fraction(1, 2), Decimal("0.5"), 0.5])
def test_numbers_of_other_kinds(number: Any) -> None:
    assert wb.function([x], x * 2)(number) == 1.0


def test_the_second_gradient_of_a_choice_is_computed() -> None:
    """Its seed is a masked constant, on which a node of constants alone stands."""
    x = wb.vector("x", shape=3)
    y = np.sum(np.where(np.array([True, False, True]), np.log(x), x**2))
    (found,) = wb.Graph([x], [wb.grad(np.sum(wb.grad(y, x) ** 2), x)]).run([np.ones(3)])
    np.testing.assert_allclose(found, [-2, 8, -2])


def test_symbols_of_sparse_matrices() -> None:
    sparse = pytest.importorskip("scipy.sparse")
    K = sparse.csr_array([[2.0, -1.0, 0.0], [0.0, 3.0, 1.0]])
    S, x = wb.sparse_matrix("S", K), wb.vector("x")
    assert (S.shape, S.nnz, S.format) == ((2, 3), 4, "csr")
    f = wb.function([S, x], [S @ x, wb.grad(np.sum(np.sin(S @ x)), S), S.max()])
    point = np.array([0.1, -0.2, 0.3])
    y, g, top = f(K, point)
    np.testing.assert_allclose(y, K @ point)
    assert top == 3.0
    assert type(g) is type(K)
    truth = np.cos(K @ point)[:, None] * point
    np.testing.assert_allclose(g.toarray(), np.where(K.toarray() != 0, truth, 0))
    np.testing.assert_allclose(f(2 * K, point)[0], 2 * K @ point)
    of_pattern = wb.sparse_matrix("P", wb.SparsityPattern.from_scipy(K))
    again = wb.function([of_pattern, x], of_pattern @ x)
    np.testing.assert_allclose(again(K, point), K @ point)


def test_a_sparse_symbol_takes_its_own_places_alone() -> None:
    """The values of another pattern, or of another order, would be other entries."""
    sparse = pytest.importorskip("scipy.sparse")
    K = sparse.csr_array([[2.0, -1.0], [0.0, 3.0]])
    S, x = wb.sparse_matrix("S", K), wb.vector("x")
    f = wb.function([S, x], S @ x)
    for other in (K.tocsc(), K.T.tocsr(), sparse.csr_array(np.ones((2, 2))), np.eye(2)):
        with pytest.raises(UsageError, match=r"nested otherwise.*csr_array 2×2"):
            f(other, np.ones(2))
    with pytest.raises(UsageError, match=r"which entries are\s+stored is part"):
        wb.sparse_matrix("S", np.eye(2))
    with pytest.raises(UsageError, match="Give a sparse array"):
        wb.sparse_matrix("S")
