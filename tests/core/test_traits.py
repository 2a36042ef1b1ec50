"""Traits: each that a number can tell is true, tried at numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from workbench.core import hooks
from workbench.core.op import OPS, Op, load_all_ops
from workbench.core.tensor import make_leaf, value_of
from workbench.core.traits import UNKNOWN
from workbench.overrides.named import RULES

load_all_ops()
RNG = np.random.default_rng(0)
A, B = RNG.normal(size=30), RNG.normal(size=30)


def named(**traits: Any) -> list[str]:
    """The ops that have these traits."""
    return sorted(
        name
        for name, op in OPS.items()
        if all(getattr(op.traits, key) == value for key, value in traits.items())
    )


def run(op: Op, *operands: Any) -> Any:
    with np.errstate(all="ignore"):
        return np.asarray(op.compute(*operands))


@pytest.mark.parametrize("name", named(commutative=True))
def test_operands_of_a_commutative_op_may_change_places(name: str) -> None:
    a, b = (
        (A, B) if not name.startswith("bitwise") else (np.arange(30), np.ones(30, int))
    )
    np.testing.assert_array_equal(run(OPS[name], a, b), run(OPS[name], b, a))


def test_no_op_of_two_operands_commutes_and_does_not_say_so() -> None:
    for name, op in OPS.items():
        if not op.elementwise or not isinstance(op.compute, np.ufunc):
            continue
        if op.compute.nin == 2 and "dd->d" in op.compute.types:
            turned = np.array_equal(run(op, A, B), run(op, B, A), equal_nan=True)
            assert turned == op.traits.commutative, name


#: Operands of which an op is another one: by its name.
SPELT = {
    "add": [(A, -1.5), (-2, A), (A, -make_leaf(B)), (-make_leaf(A), B)],
    "power": [(A, 2), (A, 2.0)],
    "reciprocal": [(A,)],
    "square": [(A,)],
}
#: Operands of which the same ops are nothing else.
PLAIN = {"add": [(A, B), (A, 1.5), (A, 0.0)], "power": [(A, 3), (A, B)]}


def test_an_op_computes_the_same_in_its_other_spelling() -> None:
    spelt = {name for name, op in OPS.items() if op.traits.spelling is not None}
    assert spelt == SPELT.keys()
    for name, samples in SPELT.items():
        spelling = OPS[name].traits.spelling
        assert spelling is not None
        for operands in samples:
            read = spelling.read(*operands)
            assert read is not None
            truth = run(OPS[name], *map(value_of, operands))
            found = run(OPS[spelling.op], *map(value_of, read))
            np.testing.assert_array_equal(found, truth)
            assert np.array_equal(np.signbit(found), np.signbit(truth))
        for operands in PLAIN.get(name, ()):
            assert spelling.read(*operands) is None


@pytest.mark.parametrize("name", named(flat="comparison") + named(flat="rounding"))
def test_a_flat_op_does_not_change_nearby(name: str) -> None:
    op = OPS[name]
    one = op.pull is None and name in "sign floor ceil trunc rint round signbit".split()
    operands = (A,) if one or name == "logical_not" else (A, B)
    moved = [x + 1e-12 * k for k, x in enumerate(operands, 1)]
    np.testing.assert_array_equal(run(op, *operands), run(op, *moved))


def list_points() -> list[tuple[str, str]]:
    return [
        (name, point.kind) for name, op in OPS.items() for point in op.traits.undefined
    ]


@pytest.mark.parametrize(("name", "kind"), list_points())
def test_an_op_is_not_finite_where_it_says_so(name: str, kind: str) -> None:
    """And finite at the operands beside, which is what the masks are for."""
    op = OPS[name]
    (point,) = [p for p in op.traits.undefined if p.kind == kind]
    grid = np.array([-3.0, -1.5, -1.0, -0.5, 0.0, 0.25, 0.5, 1.0, 1.5, 2.0])
    count = point.where.__code__.co_argcount or 2
    operands = [grid] if count == 1 else [x.ravel() for x in np.meshgrid(grid, grid)]
    if len(operands) == 2 and op.compute is np.reciprocal:
        operands = [grid]
    every = np.zeros(operands[0].shape, bool)
    for p in op.traits.undefined:
        every |= p.where(*operands)
    y = run(op, *operands)
    assert not np.isfinite(y[point.where(*operands)]).any()
    assert np.isfinite(y[~every]).all()


@pytest.mark.parametrize("name", [n for n, op in OPS.items() if op.traits.exponential])
def test_an_exponential_overflows_where_it_says_so(name: str) -> None:
    op, grows = OPS[name], OPS[name].traits.exponential
    assert grows is not None
    top = float(grows.log(np.finfo(float).max))
    assert np.isfinite(run(op, top - 1))
    assert np.isinf(run(op, top + 1))
    assert np.isinf(run(op, -top - 1)) == grows.even


@pytest.mark.parametrize("name", [n for n, op in OPS.items() if op.traits.logistic])
def test_a_logistic_op_lies_between_its_bounds(name: str) -> None:
    assert OPS[name].traits.logistic is not None
    low, high = OPS[name].traits.logistic
    x = np.array([-1e3, 0.0, 1e3])
    np.testing.assert_allclose(run(OPS[name], x), [low, (low + high) / 2, high])


@pytest.mark.parametrize("name", [n for n, op in OPS.items() if op.traits.symbol])
def test_a_symbol_is_pythons_operator(name: str) -> None:
    op, symbol = OPS[name], OPS[name].traits.symbol
    a, b = np.array([5, 3, 2]), np.array([2, 3, 4])
    if symbol.endswith("x"):
        np.testing.assert_array_equal(run(op, a), eval(symbol, {"x": a}))
    else:
        np.testing.assert_array_equal(run(op, a, b), eval(f"a {symbol} b"))


def test_products_are_the_einsums_that_they_say() -> None:
    a, b = RNG.normal(size=(2, 3, 4)), RNG.normal(size=(2, 4, 5))
    for name, params in (("matmul", {}), ("tensordot", {"axes": ((2,), (1,))})):
        spell = OPS[name].traits.subscripts
        assert spell is not None
        np.testing.assert_allclose(
            OPS[name].compute(a, b, **params),
            np.einsum(spell((a, b), **params), a, b),
        )


def test_safe_rules_are_those_of_the_ops_that_name_them() -> None:
    hooks.load_rules()
    safe = {op.traits.safe for op in OPS.values()} - {""}
    for rule in safe:
        assert sorted(RULES[rule].of) == named(safe=rule)
    assert safe == {name for name in RULES if name.startswith("safe_")}


def test_of_an_op_of_the_users_nothing_is_known() -> None:
    assert Op("multiply").traits is UNKNOWN
