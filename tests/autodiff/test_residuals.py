"""Gradients of large arrays: which values they keep, and which they write into.

What is counted is arrays, by the most memory that Python has seen in use.
"""

from __future__ import annotations

import gc
import tracemalloc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.autodiff.programs import Program, programs
from tests.autodiff.test_fuzz import close, dotted, fuzz, moves, printed
from workbench.core import operators, residuals, tensor
from workbench.errors import TraceError

#: Entries of an array that is just large enough to be looked after.
N = residuals.LARGE // 8
X = np.linspace(0.1, 1.0, N)
Y = np.linspace(-0.5, 0.7, N)


def count_arrays(call: Callable[[], Any]) -> float:
    """The most memory that a call has in use, in arrays."""
    call()  # what is made once, at the first call, is no array
    gc.collect()
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1] / X.nbytes
    finally:
        tracemalloc.stop()


def repeat(step: Callable[[Any], Any], times: int) -> Callable[[Any], Any]:
    def f(x: Any) -> Any:
        y = x
        for _ in range(times):
            y = step(y)
        return np.sum(y)

    return f


@pytest.fixture
def all_lean(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look after every array, be it ever so small."""
    for module in (residuals, tensor, operators):
        monkeypatch.setattr(module, "LARGE", 1)


# What is kept


@pytest.mark.parametrize(
    ("step", "each"),
    [
        (lambda y: y + 1.0, 0),
        (lambda y: 2.0 * y - y / 4, 0),
        (lambda y: -y + X, 0),
        (lambda y: np.where(X > 0.5, y, 1.0), 0),
        (lambda y: np.exp(-y), 1),  # what comes out
        (lambda y: np.sin(y + 1.0), 1),  # what goes in
        (lambda y: np.tanh(1.01 * y + X) - 0.1, 1),
        (lambda y: (y * y + 2.0) / 3, 1),
        (lambda y: y**2 - 1.0, 1),
        (lambda y: np.cos(y) * np.exp(0.1 * y), 3),
    ],
)
def test_only_what_a_rule_reads_is_kept(step: Callable[[Any], Any], each: int) -> None:
    many = 12
    most = count_arrays(lambda: wb.grad(repeat(step, many))(X))
    # Besides: an operand, the result, the cotangent and what a rule makes of these.
    assert many * each < most <= many * each + 6


def test_a_gradient_takes_no_more_than_its_values_and_one_array_of_each_kind() -> None:
    def f(x: Any, y: Any) -> Any:
        return np.sum(np.exp(-x * x) * np.sin(y) + np.tanh(x * y))

    assert count_arrays(lambda: wb.grad(f, (0, 1))(X, Y)) <= 8.5
    assert count_arrays(lambda: wb.value_and_grad(f, (0, 1))(X, Y)) <= 8.5


def test_values_go_as_the_sweep_passes_them() -> None:
    seen: list[weakref.ref[Any]] = []
    alive: list[int] = []

    @wb.custom_gradient
    def double_and_count(x: Any) -> Any:
        def rule(g: Any) -> Any:
            alive.append(sum(r() is not None for r in seen))
            return g

        return 2.0 * x, rule

    def f(x: Any) -> Any:
        y = double_and_count(x)
        for _ in range(10):
            y = np.sin(y)
            seen.append(weakref.ref(y.stored))
        return np.sum(y)

    wb.grad(f)(X)
    assert alive == [0]
    assert all(r() is None for r in seen)


def test_a_pullback_runs_again() -> None:
    y, pullback = wb.vjp(lambda x: np.exp(np.sin(x + 1.0)) * 3.0 - x, X)
    truth = 3.0 * np.exp(np.sin(X + 1.0)) * np.cos(X + 1.0) - 1.0
    for scale in (1.0, 2.0):
        (g,) = pullback(np.full(N, scale))
        np.testing.assert_allclose(g, scale * truth, rtol=1e-13)
    np.testing.assert_allclose(y, 3.0 * np.exp(np.sin(X + 1.0)) - X, rtol=1e-15)


# What is there for those who look


def test_values_that_somebody_holds_stay() -> None:
    held: list[Any] = []

    def f(x: Any) -> Any:
        held.append(x + 1.0)
        held.append(held[0] - 2.0)
        return np.sum(-held[-1])

    np.testing.assert_array_equal(wb.grad(f)(X), np.full(N, -1.0))
    np.testing.assert_array_equal(held[0].value, X + 1.0)
    np.testing.assert_array_equal(held[1].value, X + 1.0 - 2.0)


def test_a_value_that_was_let_go_is_computed_again() -> None:
    left: list[Any] = []

    def f(x: Any) -> Any:
        y = x + 1.0
        for _ in range(3):
            y = -y * 2.0
        before = y.inputs[0].inputs[0]
        assert before.shape == (N,)
        assert before.dtype == float
        np.testing.assert_array_equal(before.value, 4.0 * (X + 1.0))
        left.append(y)
        # Those made from it are right too, with their gradients.
        return np.sum(y) + np.sum(before * before)

    np.testing.assert_array_equal(wb.grad(f)(X), -8.0 + 32.0 * (X + 1.0))
    last = left[0].inputs[0].inputs[0].inputs[0]
    assert last.shape == (N,)
    with pytest.raises(TraceError, match=r"was let go.*Give it a name"):
        _ = last.value


def test_derivatives_inside_read_what_they_need() -> None:
    def f(x: Any) -> Any:
        y = (x + 1.0) * 2.0
        inner = wb.grad(lambda z: np.sum(np.tanh(z) * z))(y)
        _, pushed = wb.jvp(np.sin, (y,), (x,))
        return np.sum(inner + pushed)

    def truth(x: Any) -> Any:
        y = (x + 1.0) * 2.0
        s = 1 - np.tanh(y) ** 2
        second = 2 * s - 2 * y * s * np.tanh(y)
        return 2 * second + np.cos(y) - 2 * x * np.sin(y)

    np.testing.assert_allclose(wb.grad(f)(X), truth(X), rtol=1e-12)


def test_a_change_in_place_is_seen_as_ever() -> None:
    def f(x: Any) -> Any:
        y = x * 1.0
        for k in range(6):
            y += k * x
        return np.sum(np.exp(y))

    np.testing.assert_allclose(wb.grad(f)(X), 16 * np.exp(16 * X), rtol=1e-12)

    def shared(x: Any) -> Any:
        y = x * 1.0
        other = y
        y += 1.0
        return np.sum(other * y)

    np.testing.assert_allclose(wb.grad(shared)(X), 2 * (X + 1), rtol=1e-12)


def test_overrides_see_all_values() -> None:
    seen: list[Any] = []

    def rule(node: Any, g: Any) -> Any:
        seen.append((np.array(node.inputs[0]), np.array(node.outputs[0])))
        return g

    f = repeat(lambda y: -(y + 1.0), 2)
    wb.grad(f, overrides=[wb.override("negative", vjp=rule)])(X)
    np.testing.assert_array_equal(seen[1][0], X + 1.0)
    np.testing.assert_array_equal(seen[0][1], -(-(X + 1.0) + 1.0))


# What is written into

KEPT: list[tuple[Any, Any]] = []
CACHED = np.full(N, 0.5)


def keep(array: Any) -> Any:
    """Remember an array, and what is in it now."""
    KEPT.append((array, np.array(array)))
    return array


RULES: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "what it was given": (keep, 1.0),
    "a new array that it keeps": (lambda g: keep(2.0 * g), 2.0),
    "an array that is always the same": (lambda g: keep(CACHED), None),
    "a view of what it keeps": (lambda g: keep(3.0 * g)[::-1], None),
    "a broadcast number": (lambda g: keep(np.broadcast_to(np.array(0.25), N)), None),
}


@pytest.fixture(params=RULES)
def kept_rule(request: pytest.FixtureRequest) -> Iterator[Callable[[Any], Any]]:
    KEPT.clear()
    yield RULES[request.param][0]
    KEPT.clear()


def test_what_a_rule_keeps_never_changes(kept_rule: Callable[[Any], Any]) -> None:
    @wb.custom_gradient
    def mine(x: Any) -> Any:
        return np.sin(x), kept_rule

    def f(x: Any) -> Any:
        a, b = mine(x), mine(x + 1.0)
        return np.sum(a * b) + np.sum(np.tanh(a)) + np.sum(b * b) + np.sum(x * x)

    g = wb.grad(f)(X)
    assert len(KEPT) == 2
    for array, was in KEPT:
        assert not np.shares_memory(array, g)
        np.testing.assert_array_equal(array, was)
    a, b = np.sin(X), np.sin(X + 1.0)
    passed = [kept_rule(b + 1 - np.tanh(a) ** 2), kept_rule(a + 2 * b)]
    np.testing.assert_allclose(g, passed[0] + passed[1] + 2 * X, rtol=1e-12)


def test_one_array_for_two_inputs_is_not_added_to_itself_twice() -> None:
    @wb.custom_gradient
    def both(x: Any, y: Any) -> Any:
        def rule(g: Any) -> Any:
            made = 3.0 * g
            return made, made

        return x + y, rule

    def f(x: Any, y: Any) -> Any:
        a, b = np.sin(x), np.cos(y)
        return np.sum(both(a, b) * a + both(a, a) * b + both(b, b))

    a, b = np.sin(X), np.cos(Y)
    by_a = 3 * a + (a + b) + 6 * b
    by_b = 3 * a + (a + a) + 6
    gx, gy = wb.grad(f, (0, 1))(X, Y)
    np.testing.assert_allclose(gx, by_a * np.cos(X), rtol=1e-12)
    np.testing.assert_allclose(gy, -by_b * np.sin(Y), rtol=1e-12)


def test_cotangents_of_the_user_stay_as_they_are() -> None:
    seed = np.linspace(1.0, 2.0, N)
    was = seed.copy()
    _, pullback = wb.vjp(lambda x: (-np.exp(x), x / 2.0), X)
    for _ in range(2):
        (g,) = pullback((seed, seed))
        np.testing.assert_allclose(g, was * (0.5 - np.exp(X)), rtol=1e-13)
        np.testing.assert_array_equal(seed, was)


def test_arguments_and_data_stay_as_they_are() -> None:
    x, data = X.copy(), Y.copy()
    g = wb.grad(lambda x: np.sum((x * data - data) * x / (1 + data * data)))(x)
    np.testing.assert_array_equal(x, X)
    np.testing.assert_array_equal(data, Y)
    np.testing.assert_allclose(g, Y * (2 * X - 1) / (1 + Y * Y), atol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128", ">f8"])
def test_every_dtype_is_as_it_is_on_small_arrays(dtype: str) -> None:
    def f(x: Any) -> Any:
        y = np.exp(-x / 2.0) * x + 3 * x**2
        return np.sum(np.real(y * np.sin(y) - y / x))

    g = wb.grad(f)(X.astype(dtype))
    few = wb.grad(f)(X[:1000].astype(dtype))
    assert g.dtype == few.dtype
    rtol = 1e-5 if dtype == "float32" else 1e-12
    np.testing.assert_allclose(g[:1000], few, rtol=rtol)


def test_the_branch_not_taken_sends_back_zero() -> None:
    x = np.concatenate([np.zeros(N), X])

    def f(x: Any) -> Any:
        y = np.where(x > 0, x, 0.0) * 1.0
        return np.sum(np.where(x > 0, np.sqrt(y) / y, 0.0))

    with np.errstate(all="ignore"):
        g = wb.grad(f)(x)
        assert count_arrays(lambda: wb.grad(f)(x)) <= 2 * 16
    np.testing.assert_array_equal(g[:N], 0.0)
    np.testing.assert_allclose(g[N:], -0.5 * X**-1.5, rtol=1e-12)


@pytest.mark.usefixtures("all_lean")
@fuzz(programs(most=20))
def test_programs(program: Program) -> None:
    with printed(program):
        f, args = program.function, list(program.inputs.values())
        before = [a.copy() for a in args]
        ts = moves(args)
        _, gs = wb.value_and_grad(f, tuple(range(len(args))))(*args)
        _, tangent = wb.jvp(f, tuple(args), tuple(ts))  # which lets nothing go
        total, size = dotted(gs, ts)
        close(tangent, total, size, 1e-9)
        _, pullback = wb.vjp(f, *args)
        for _ in range(2):
            for again, g in zip(pullback(1.0), gs, strict=True):
                close(again, g, size, 1e-12)
        for a, b in zip(args, before, strict=True):
            np.testing.assert_array_equal(a, b)
