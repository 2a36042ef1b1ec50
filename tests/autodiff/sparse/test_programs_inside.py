"""Patterns through loops, choices, checkpoints and functions with own rules."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from scipy import ndimage

import workbench as wb
from workbench.autodiff.sparse import propagation
from workbench.autodiff.sparse.relations import Relation
from workbench.core.op import OPS, Op
from workbench.core.tensor import apply
from workbench.errors import GradientError, ShapeError, UsageError
from workbench.ops.define import linear, op


def find_columns(f: Callable[..., Any], x: np.ndarray) -> np.ndarray:
    units = 1e-5 * np.eye(x.size).reshape(-1, *x.shape)
    columns = [np.ravel(f(x + u) - f(x - u)) / 2e-5 for u in units]
    return np.abs(np.stack(columns, axis=1)) > 1e-6


def heat(x: Any) -> Any:
    """Some explicit steps of a stencil."""
    return wb.scan(
        lambda u: u + 0.1 * (np.roll(u, 1) - 2 * u + np.roll(u, -1)),
        initial=x,
        n_steps=2,
        last=True,
    )


LOOPS: dict[str, tuple[Callable[..., Any], bool]] = {
    "carry": (heat, True),
    "rows": (lambda x: wb.scan(lambda r: r * r, x), True),
    "carry and rows": (
        lambda x: wb.scan(lambda r, c: c + r * r, x, initial=x[0] * 0.5), True,
    ),
    "reverse": (
        lambda x: wb.scan(lambda r, c: c + r, x, initial=x[0], reverse=True), True,
    ),
    "taps": (
        lambda x: wb.scan(
            lambda a, b: a * b, initial={"initial": x[:2], "taps": [-2, -1]}, n_steps=3
        ),
        True,
    ),
    "counted index": (
        lambda x: wb.scan(
            lambda i, c, y: c + y[i], np.arange(3), initial=0.0, non_sequences=x
        ),
        True,
    ),
    "nested": (
        lambda x: wb.scan(lambda r: np.sum(wb.scan(lambda a: a * r, x[:2])), x), True,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LOOPS)
def test_loops_step_by_step(name: str) -> None:
    f, tight = LOOPS[name]
    x = np.array([0.7, 1.3, 0.9, 1.1, 0.6])
    pattern, truth = wb.sparsity(f, x).toarray(), find_columns(f, x)
    assert not np.any(truth & ~pattern)
    if tight:
        np.testing.assert_array_equal(pattern, truth)


@pytest.mark.parametrize("name", LOOPS)
def test_loops_to_a_fixed_point(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is found without counting steps contains what is found step by step."""
    f, _ = LOOPS[name]
    x = np.array([0.7, 1.3, 0.9, 1.1, 0.6])
    first, second = (wb.sparsity(f, x, order=n) for n in (1, 2))
    monkeypatch.setattr(propagation, "MOST_STEPS", 0)
    assert wb.sparsity(f, x).contains(first)
    assert wb.sparsity(f, x, order=2).contains(second)


def test_a_loop_until_something() -> None:
    def f(x: Any) -> Any:
        return wb.while_loop(lambda u: u[0] < 3, lambda u: u + u * np.roll(u, 1), x)

    x = np.array([0.5, 0.6, 0.7, 0.8])
    pattern = wb.sparsity(f, x).toarray()
    assert not np.any(find_columns(f, x) & ~pattern)
    g = lambda x: wb.while_loop(lambda u: u[0] < 3, lambda u: u * 2, x)  # noqa: E731
    np.testing.assert_array_equal(wb.sparsity(g, x).toarray(), np.eye(4, dtype=bool))
    hessian = wb.sparsity(lambda x: np.sum(f(x)), x, order=2)
    assert hessian.nnz == 16


def test_a_choice_is_a_union_and_locally_one() -> None:
    def f(x: Any) -> Any:
        return wb.cond(x[0] > 0, lambda x: x * 2, lambda x: x[::-1] * x[0], x)

    x = np.array([1.0, 2.0, 3.0])
    whole = wb.sparsity(f, x).toarray()
    both = find_columns(f, x) | find_columns(f, -x)
    np.testing.assert_array_equal(whole, both)
    here = wb.sparsity(f, x, local=True)
    np.testing.assert_array_equal(here.toarray(), np.eye(3, dtype=bool))
    assert "local" in here.report()
    assert wb.sparsity(lambda x: np.sum(f(x)), x, order=2).nnz == 5


def test_functions_with_rules_of_their_own() -> None:
    """What a rule gives may be anywhere; without one the program tells."""
    clipped = wb.custom_vjp(lambda x: x * x)
    clipped.defvjp(lambda x: (x * x, x), lambda x, g: (np.clip(g, -1, 1),))
    x = np.arange(1.0, 4)
    pattern = wb.sparsity(clipped, x)
    assert pattern.nnz == 9
    assert "its own rule" in pattern.report()
    cube = wb.OpFromGraph([v := wb.vector("v", shape=(3,))], [v[::-1] * v])
    assert wb.sparsity(lambda x: cube(x) * 2, x).nnz == 5
    checkpoint = wb.checkpoint(lambda x: x[1:] * x[:-1])
    assert wb.sparsity(lambda x: np.sum(checkpoint(x)), x, order=2).nnz == 4


def make_rounding() -> dict[str, Callable[..., Any]]:
    """Functions whose program has derivative 0, and whose rule has not."""
    by_pair = wb.custom_vjp(lambda v: np.round(v))
    by_pair.defvjp(lambda v: (np.round(v), v), lambda v, g: (g * v**2,))
    by_node = wb.custom_vjp(lambda v: np.round(v), lambda node, g: g * node.inputs[0])
    forward = wb.custom_jvp(lambda v: np.round(v), lambda node, t: t * node.inputs[0])
    paired = wb.custom_gradient(lambda v: (np.round(v), lambda g: g * v[::-1]))
    v = wb.vector("v", shape=(3,))
    graph = wb.OpFromGraph([v], np.round(v), vjp=lambda node, g: g * node.inputs[0])
    return {
        "pair": by_pair, "node": by_node, "forward": forward, "gradient": paired,
        "graph": graph,
    }  # fmt: skip


@pytest.mark.parametrize("name", make_rounding())
def test_numbers_of_a_rule_are_kept(name: str) -> None:
    made, x = make_rounding()[name], np.arange(1.0, 4)
    f = lambda x: made(x) * 2  # noqa: E731
    dense = wb.jacobian(f)(x)
    assert np.count_nonzero(dense) == 3
    found = wb.jacobian(f, sparse=True)(x)
    np.testing.assert_allclose(found.toarray(), dense)
    (op,) = wb.sparsity(f, x).dense_ops
    assert "rule" in op.reason


def test_second_derivatives_of_a_rule_are_kept() -> None:
    twice = wb.custom_vjp(lambda v: 2 * v)
    twice.defvjp(lambda v: (2 * v, v), lambda v, g: (g * v**2,))
    f, x = lambda x: np.sum(twice(x)), np.arange(1.0, 4)
    dense = wb.hessian(f)(x)
    assert np.count_nonzero(dense) == 3
    np.testing.assert_allclose(wb.hessian(f, sparse=True)(x).toarray(), dense)


def test_an_op_made_of_a_graph_for_many_examples() -> None:
    v = wb.vector("v", shape=(3,))
    cube = wb.OpFromGraph([v], [v[::-1] * v])
    x = np.arange(1.0, 7).reshape(2, 3)
    f = lambda x: wb.vmap(cube)(x)  # noqa: E731
    truth = wb.jacobian(f)(x).reshape(6, 6) != 0
    assert not np.any(truth & ~wb.sparsity(f, x).toarray())


class Neighbours(wb.Op):
    """x times the entry before it, by a rule of its own."""

    tells: bool = True
    wrong: bool = False

    def compute(self, x: Any) -> Any:
        return x * np.roll(x, 1)

    def vjp(self, node: Any, g: Any) -> Any:
        (x,) = node.inputs
        return g * np.roll(x, 1) + np.roll(g * x, -1)

    def pattern(self, x: Any) -> Any:
        n = x.shape[0]
        if not self.tells:
            return np.ones((n, n))
        unit = np.eye(n, dtype=bool)
        return unit if self.wrong else unit | np.roll(unit, -1, axis=1)


def test_an_op_of_the_user_tells_what_it_reads() -> None:
    op, x = Neighbours(), np.arange(1.0, 7)
    f = lambda x: np.sin(op(x))  # noqa: E731
    pattern = wb.sparsity(f, x)
    np.testing.assert_array_equal(pattern.toarray(), find_columns(f, x))
    assert "Taken as dense" not in pattern.report()
    assert "which entries it reads is given with it" in pattern.report()
    np.testing.assert_allclose(wb.jacobian(f, sparse=True)(x).toarray(),
                               wb.jacobian(f)(x))  # fmt: skip
    total = lambda x: np.sum(op(x) ** 2)  # noqa: E731
    second = wb.hessian(total, sparse=True)
    np.testing.assert_allclose(second(x).toarray(), wb.hessian(total)(x))
    assert second.pattern.nnz < 36


def test_an_op_of_the_user_for_many_examples() -> None:
    x = np.arange(1.0, 13).reshape(3, 4)
    for made, each in ((Neighbours(), 8), (Neighbours(tells=False), 16)):
        pattern = wb.sparsity(lambda x, made=made: wb.vmap(made)(x), x)
        assert pattern.nnz == 3 * each
        shared = wb.sparsity(
            lambda v, made=made: wb.vmap(lambda a, b: a * made(b), in_axes=(0, None))(
                x, v
            ),
            x[0],
        )
        assert shared.nnz == 3 * each


@pytest.mark.parametrize(
    ("returned", "error", "text"),
    [
        (np.eye(3), ShapeError, r"is of shape \(3, 3\).* of shape \(4, 4\)"),
        ([np.eye(4), None], UsageError, "It has 1 inputs: return a list"),
        ("all", UsageError, "is no pattern"),
    ],
)
def test_a_pattern_that_is_none_is_refused(
    returned: Any, error: type[Exception], text: str
) -> None:
    class Telling(wb.Op):
        name = "telling"

        def compute(self, x: Any) -> Any:
            return x * 2

        def vjp(self, node: Any, g: Any) -> Any:
            return g * 2

        def pattern(self, x: Any) -> Any:
            return returned

    with pytest.raises(error, match=text):
        wb.sparsity(Telling(), np.ones(4))


def test_a_pattern_of_an_op_that_is_too_small_is_found_out() -> None:
    op = Neighbours(wrong=True)
    with pytest.raises(GradientError, match="is given for an op is too small"):
        wb.jacobian(lambda x: op(x), sparse=True)(np.arange(1.0, 5))


def test_an_op_of_the_user_is_dense_and_named() -> None:
    class Shift(wb.Op):
        def compute(self, x: Any) -> Any:
            return np.roll(x, 1)

        def vjp(self, g: Any, y: Any, x: Any) -> Any:
            return np.roll(g, -1)

    shift = Shift()
    pattern = wb.sparsity(lambda x: shift(x), np.ones(3))
    assert pattern.nnz == 9
    (op,) = pattern.dense_ops
    assert "Shift" in op.name or "shift" in op.name


# Ops of others, each of one row: what it says is enough


@contextmanager
def declared(op: Op) -> Iterator[Op]:
    """Take the op out of the table again at the end."""
    try:
        yield op
    finally:
        del OPS[op.name]


def check_row(op: Op, x: np.ndarray, **params: Any) -> wb.SparsityPattern:
    """Compare the pattern with differences of ``compute``; it says nothing is dense."""
    pattern = wb.sparsity(lambda x: apply(op, (x,), params), x)
    truth = find_columns(lambda x: op.compute(x, **params), x)
    np.testing.assert_array_equal(pattern.toarray(), truth)
    assert not pattern.dense_ops
    return pattern


def test_a_row_may_give_its_pattern() -> None:
    def relate(node: Any) -> list[Any]:
        return [Relation(np.arange(node.size)[::-1].astype(np.int32))]

    def turn(x: Any) -> Any:
        return np.array(x.tolist()[::-1]) + 0 * np.sum(x)

    row = op("test_flip", turn, lambda g, y, x: np.flip(g), pattern=relate)
    with declared(row) as flip:
        pattern = wb.sparsity(lambda x: apply(flip, (x,)), np.ones(3))
        np.testing.assert_array_equal(pattern.toarray(), np.eye(3, dtype=bool)[::-1])
        flip.pattern = None  # its function records nothing, and it is not linear
        pattern = wb.sparsity(lambda x: apply(flip, (x,)), np.ones(3))
        assert pattern.nnz == 9
        assert "nothing is known" in pattern.report()


def test_a_row_of_a_linear_op_needs_no_pattern(rng: np.random.Generator) -> None:
    row = linear(
        "test_circular_difference",
        lambda x: np.roll(x, -1, axis=-1) - x,
        lambda g, x: np.roll(g, 1, axis=-1) - g,
    )
    with declared(row) as difference:
        pattern = check_row(difference, rng.normal(size=(3, 5)))
        assert pattern.nnz == 30
        x = wb.Spec((100_000,), float)
        assert wb.sparsity(lambda x: apply(difference, (x,)), x).nnz == 200_000


def test_a_row_of_a_linear_op_that_numpy_does_not_compute(
    rng: np.random.Generator,
) -> None:
    def smooth(x: Any, **params: Any) -> Any:
        return ndimage.correlate1d(x, [1.0, 0.0, -2.0], mode="wrap", **params)

    row = linear(
        "test_smooth",
        smooth,
        lambda g, x, **params: NotImplemented,
        infer=lambda x, **params: wb.Spec(x.shape, x.dtype),
    )
    with declared(row) as smoothed:
        pattern = check_row(smoothed, rng.normal(size=(3, 5)), axis=0)
        assert pattern.nnz == 30
        pattern = wb.sparsity(
            lambda x: apply(smoothed, (x,), {"axis": 0}), wb.Spec((2000,), float)
        )
        assert "too many entries to be tried" in pattern.report()


def test_a_row_of_a_reduction_needs_no_pattern(rng: np.random.Generator) -> None:
    row = op(
        "test_sumsq",
        lambda x, *, axis: np.sum(x * x, axis=axis),
        lambda g, y, x, *, axis: 2 * x * np.expand_dims(g, axis),
    )
    with declared(row) as sumsq:
        for axis in (0, 1, (0, 2)):
            check_row(sumsq, rng.normal(size=(2, 3, 4)), axis=axis)


def shift_pattern(x: Any, n: int) -> Any:
    return np.roll(np.eye(x.shape[0], dtype=bool), n, axis=0)


def pull_shift(node: Any, g: Any) -> Any:
    return np.roll(g, -node.get_attr("n")) * np.cos(node.inputs[0])


def push_shift(node: Any, t: Any) -> Any:
    return np.roll(t * np.cos(node.inputs[0]), node.get_attr("n"))


def shift(x: Any, n: int) -> Any:
    return np.roll(np.sin(x), n)


def shift_with_gradient(x: Any, n: int) -> Any:
    return shift(x, n), lambda g: (np.roll(g, -n) * np.cos(x), None)


@pytest.mark.parametrize(
    "op",
    [
        wb.custom_vjp(shift, pull_shift, pattern=shift_pattern),
        wb.custom_vjp(vjp=pull_shift, pattern=shift_pattern)(shift),
        wb.custom_jvp(shift, push_shift, pattern=shift_pattern),
        wb.custom_gradient(shift_with_gradient, pattern=shift_pattern),
        wb.custom_gradient(pattern=shift_pattern)(shift_with_gradient),
    ],
)
def test_a_function_with_a_gradient_of_its_own_tells_what_it_reads(op: Any) -> None:
    x = np.arange(1.0, 7)
    f = lambda x: op(x, 1) + op(x, n=3)  # noqa: E731
    pattern = wb.sparsity(f, x)
    np.testing.assert_array_equal(pattern.toarray(), find_columns(f, x))
    assert "Pattern given by the user" in pattern.report()
    J = wb.jacobian(f, sparse=True)(x)
    assert J.nnz == 12
    np.testing.assert_allclose(J.toarray(), wb.jacobian(f)(x), rtol=1e-12)
    many = wb.sparsity(wb.vmap(lambda x: op(x, 1)), np.ones((2, 3)))
    assert many.nnz == 6


def test_patterns_of_several_arrays_of_a_custom_function() -> None:
    def reads(pair: Any, scale: Any) -> Any:
        unit = np.eye(pair["a"].shape[0])
        return [unit, None, np.ones((pair["a"].shape[0], 1))]

    op = wb.custom_vjp(
        lambda pair, scale: pair["a"] * scale + np.round(pair["b"][0]),
        lambda node, g: [g * node.inputs[2], None, np.sum(g * node.inputs[0])],
        pattern=reads,
    )
    a, b = np.arange(1.0, 4), np.ones(2)
    pattern = wb.sparsity(
        lambda a, b, s: op({"a": a, "b": b}, s), a, b, 2.0, argnums=(0, 1, 2)
    )
    expected = np.hstack([np.eye(3), np.zeros((3, 2)), np.ones((3, 1))])
    np.testing.assert_array_equal(pattern.toarray(), expected)


def test_wrong_patterns_of_custom_functions_are_refused() -> None:
    x = np.arange(1.0, 5)
    op = wb.custom_vjp(shift, pull_shift, pattern=lambda x, n: np.eye(3))
    with pytest.raises(ShapeError, match=r"shift: the pattern for input 0 .*\(4, 4\)"):
        wb.sparsity(lambda x: op(x, 1), x)
    with pytest.raises(
        UsageError, match=r"(?s)pattern=array.* is not a function\. Write"
    ):
        wb.custom_vjp(shift, pull_shift, pattern=np.eye(4))
    op = wb.custom_vjp(shift, pull_shift, pattern=lambda x, n: np.eye(4))
    with pytest.raises(GradientError, match="is given for an op is too small"):
        wb.jacobian(lambda x: op(x, 1), sparse=True)(x)
