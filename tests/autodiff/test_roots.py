"""Even powers of lengths: the derivatives of sums of squares, however spelled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.scipy import linalg

ZERO = np.zeros(2)
I = np.eye(2)  # noqa: E741
SPREAD = np.array([[0.5, -0.5], [-0.5, 0.5]])  # the Hessian of the variance of two
norm = np.linalg.norm
MODES = (wb.jacrev, wb.jacfwd)


def once(f: Callable[[Any], Any], length: Any) -> Any:
    return f(length)


#: A function of two numbers, and its Hessian at 0: that of the same polynomial.
SPELLINGS: dict[str, tuple[Callable[[Any], Any], Any]] = {
    # lengths
    "norm": (lambda x: norm(x) ** 2, 2 * I),
    "norm of order 2": (lambda x: norm(x, 2) ** 2, 2 * I),
    "fro": (lambda x: norm(x[None], "fro") ** 2, 2 * I),
    "norm along an axis": (lambda x: np.sum(norm(x[None], axis=1) ** 2), 2 * I),
    "keepdims": (lambda x: np.sum(norm(x[None], axis=1, keepdims=True) ** 2), 2 * I),
    "all keepdims": (lambda x: np.sum(norm(x[None], keepdims=True) ** 2), 2 * I),
    "vector_norm": (lambda x: np.linalg.vector_norm(x) ** 2, 2 * I),
    "matrix_norm": (lambda x: np.linalg.matrix_norm(x[None]) ** 2, 2 * I),
    "scipy": (lambda x: linalg.norm(x) ** 2, 2 * I),
    "complex norm": (lambda x: norm(x * (1 + 2j)) ** 2, 10 * I),
    "abs": (lambda x: np.sum(np.abs(x) ** 2), 2 * I),
    "fabs": (lambda x: np.sum(np.fabs(x) ** 2), 2 * I),
    "complex abs": (lambda x: np.abs(x[0] + 1j * x[1]) ** 2, 2 * I),
    "hypot": (lambda x: np.hypot(x[0], x[1]) ** 2, 2 * I),
    "hypot.reduce": (lambda x: np.hypot.reduce([x[0], x[1], x[0]]) ** 2,
                     np.diag([4.0, 2.0])),
    "norm of norms": (lambda x: norm(norm(np.stack([x, x]), axis=1)) ** 2, 4 * I),
    "std": (lambda x: np.std(x) ** 2, SPREAD),
    "std, ddof": (lambda x: np.std(x, ddof=1) ** 2, 2 * SPREAD),
    "std of some": (lambda x: np.std(x, where=[True, True]) ** 2, SPREAD),
    "nanstd": (lambda x: np.nanstd(x) ** 2, SPREAD),
    "complex std": (lambda x: np.std(x * (1 + 1j)) ** 2, 2 * SPREAD),
    "sqrt of a sum": (lambda x: np.sqrt(np.sum(x * x)) ** 2, 2 * I),
    "sqrt of a product": (lambda x: np.sqrt(x @ x) * np.sqrt(x @ x), 2 * I),
    "sqrt of a variance": (lambda x: np.sqrt(np.var(x)) ** 2, SPREAD),
    "power 0.5": (lambda x: (np.sum(x**2) ** 0.5) ** 2, 2 * I),
    # even functions
    "square": (lambda x: np.square(norm(x)), 2 * I),
    "product": (lambda x: once(lambda y: y * y, norm(x)), 2 * I),
    "product of two": (lambda x: norm(x - 1.0 + 1.0) * norm(x - 1.0 + 1.0), 2 * I),
    "abs times abs": (lambda x: np.sum(abs(x) * abs(x)), 2 * I),
    "power": (lambda x: np.power(norm(x), 2), 2 * I),
    "float_power": (lambda x: np.float_power(norm(x), 2), 2 * I),
    "power 2.0": (lambda x: norm(x) ** 2.0, 2 * I),
    "powers": (lambda x: np.sum(norm(x) ** np.array([2, 4, 2.0])), 4 * I),
    "power 4": (lambda x: norm(x) ** 4, 0 * I),
    "@": (lambda x: abs(x) @ abs(x), 2 * I),
    "vdot": (lambda x: np.vdot(abs(x), abs(x)), 2 * I),
    "einsum": (lambda x: np.einsum("i,i->", abs(x), abs(x)), 2 * I),
    "vecdot": (lambda x: np.vecdot(abs(x), abs(x)), 2 * I),
    "tensordot": (lambda x: np.tensordot(abs(x), abs(x), 1), 2 * I),
    # what carries a length on
    "scaled": (lambda x: (norm(x) / 0.5) ** 2, 8 * I),
    "scaled by what varies": (lambda x: (norm(x) * np.exp(x[0])) ** 2, 2 * I),
    "scaled and moved": (lambda x: np.sum((abs(x) * np.exp(x[0])).reshape(2, 1) ** 2),
                         2 * I),
    "two scales": (lambda x: (3 * norm(x)) * (norm(x) / 2), 3 * I),
    "negative": (lambda x: (-norm(x)) ** 2, 2 * I),
    "single": (lambda x: norm(x).astype(np.float32) ** 2, 2 * I),
    "broadcast": (lambda x: np.sum((norm(x[None], axis=1) * np.arange(3.0)[:, None])
                                   .ravel() ** 2), 10 * I),
    "indexed": (lambda x: norm(np.stack([x, 2 * x, x + 1]), axis=1)[1] ** 2, 8 * I),
    "taken": (lambda x: np.sum(norm(np.stack([x, 2 * x]), axis=1)[[0, 1, 1]] ** 2),
              18 * I),
    "transposed": (lambda x: np.sum(norm(np.stack([[x, 2 * x]]), axis=-1).T ** 2),
                   10 * I),
    "stacked": (lambda x: np.sum(np.stack([norm(x), norm(2 * x)]) ** 2), 10 * I),
    "joined": (lambda x: np.sum(np.concatenate([abs(x), 2 * abs(x), x]) ** 2), 12 * I),
    "chosen": (lambda x: np.sum(np.where([True, False], abs(x), 0) ** 2),
               np.diag([2.0, 0.0])),
    # inside other functions
    "kernel": (lambda x: np.exp(-0.5 * (norm(x) / 0.5) ** 2), -4 * I),
    "multiquadric": (lambda x: np.sqrt(1 + norm(x) ** 2), I),
    "Huber": (lambda x: once(lambda n: np.where(n < 1, n**2 / 2, n - 0.5), norm(x)), I),
    "beside a kink": (lambda x: norm(x) + norm(x) ** 2, 2 * I),
    "least squares": (lambda x: norm(x - 0.0) ** 2 + 0.5 * x[0] ** 2,
                      np.diag([3.0, 2.0])),
    "nothing": (lambda x: norm(x - x) ** 2 + norm(x - x), 0 * I),
}  # fmt: skip


@pytest.mark.parametrize("name", SPELLINGS)
def test_even_powers_have_the_derivatives_of_sums_of_squares(name: str) -> None:
    f, truth = SPELLINGS[name]
    tight = {"rtol": 1e-12, "atol": 1e-12}
    for first in MODES:
        np.testing.assert_allclose(first(f)(ZERO), wb.grad(f)(ZERO), **tight)
        for second in MODES:
            np.testing.assert_allclose(second(first(f))(ZERO), truth, **tight)
    hessian = wb.hessian(f)
    for backend in ("numpy", "compiled"):
        compiled = wb.compile(hessian, backend=backend)
        np.testing.assert_allclose(compiled(ZERO), truth, **tight)
    batch = wb.vmap(hessian)(np.stack([ZERO, ZERO]))
    np.testing.assert_allclose(batch, [truth, truth], **tight)


@pytest.mark.parametrize("name", SPELLINGS)
def test_away_from_the_kink_they_are_right_too(name: str) -> None:
    x = np.array([0.3, -0.4])
    f = SPELLINGS[name][0]
    if name not in ("single",):  # differences of single precision tell less
        wb.check_grads(f, (x,), order=2)


def test_symbols_have_them_with_an_unknown_length() -> None:
    x = wb.vector("x")
    cost = np.exp(-(norm(x) ** 2)) + np.std(x) ** 2
    hessian = wb.function([x], wb.gradient.hessian(cost, x))
    np.testing.assert_allclose(hessian(np.zeros(2)), -2 * I + SPREAD, atol=1e-15)


def test_lengths_go_through_a_shape_that_is_measured() -> None:
    a, t = wb.matrix("a"), wb.matrix("t")
    rows = np.linalg.norm(np.reshape(a, (a.shape[0], -1, 1)), axis=1)
    gradient = wb.grad(np.sum(np.reshape(rows, (1, -1)) ** 2), a)
    second = wb.function([a, t], wb.grad(np.sum(gradient * t), a))
    np.testing.assert_array_equal(second(np.zeros((2, 3)), np.ones((2, 3))), 2)


def test_a_kernel_at_equal_points() -> None:
    points = np.array([[0.5, 1.0], [0.5, 1.0], [2.0, 0.0]])

    def kernel(x: Any) -> Any:
        distances = norm(x[:, None] - x[None], axis=-1)
        return np.sum(np.exp(-(distances**2)))

    def smooth(x: Any) -> Any:
        return np.sum(np.exp(-np.sum((x[:, None] - x[None]) ** 2, axis=-1)))

    for first in MODES:
        for second in MODES:
            found = second(first(kernel))(points)
            np.testing.assert_allclose(found, wb.hessian(smooth)(points), atol=1e-14)


def test_a_length_of_0_inside_one_that_is_not() -> None:
    x = np.array([0.0, 0.0, 2.0])
    for f in (
        lambda x: np.hypot(np.hypot(x[0], x[1]), x[2]),
        lambda x: norm(np.stack([norm(x[:2]), x[2]])),
    ):
        for first in MODES:
            for second in MODES:
                np.testing.assert_allclose(
                    second(first(f))(x), np.diag([0.5, 0.5, 0.0]), atol=1e-15
                )


def test_third_derivatives() -> None:
    # Of s |x|² (s x₀ ... ) the third derivative by s, x, x is 2 I; by l of (|x| / l)²
    # it is -4 / l³.
    for f, by in (
        (lambda v: v[2] * norm(v[:2]) ** 2, 2.0),
        (lambda v: (norm(v[:2]) / v[2]) ** 2, -4 / 8),
    ):
        v = np.array([0.0, 0.0, 2.0])
        truth = np.zeros((3, 3, 3))
        for k in (0, 1):
            truth[k, k, 2] = truth[k, 2, k] = truth[2, k, k] = by
        for first in MODES:
            for second in MODES:
                for third in MODES:
                    found = third(second(first(f)))(v)
                    np.testing.assert_allclose(found, truth, atol=1e-14)


def test_the_fourth_derivative_of_a_fourth_power() -> None:
    f = lambda x: abs(x) ** 4  # noqa: E731
    d = f
    for _ in range(4):
        d = wb.grad(d)
    assert d(0.0) == 24.0


def test_an_override_of_the_length_or_of_the_power_holds() -> None:
    f = lambda x: norm(x) ** 2  # noqa: E731
    x = np.array([3.0, 4.0])

    def rule(node: Any, g: Any) -> Any:
        return 7 * g + 0 * node.inputs[0]

    for op, truth in (("norm", 7 * 2 * 5.0), ("power", 7 * x / 5)):
        with wb.overrides(wb.override(op, vjp=rule)):
            found = wb.grad(f)(x)
            recorded = wb.compile(wb.grad(f))(x)
        np.testing.assert_allclose(found, np.broadcast_to(truth, 2))
        np.testing.assert_allclose(recorded, found)


def test_what_is_held_constant_or_asked_for_on_the_way() -> None:
    x = wb.vector("x")
    y = norm(x)
    cost = y**2 + np.sum(x**2)
    by_x, by_y = wb.gradient.grad(cost, [x, y])
    constant = wb.gradient.grad(cost, x, consider_constant=[y])
    run = wb.function([x], [by_x, by_y, constant])
    for point in (np.array([3.0, 4.0]), ZERO):
        found = run(point)
        for g, truth in zip(
            found, (4 * point, 2 * norm(point), 2 * point), strict=True
        ):
            np.testing.assert_allclose(g, truth, rtol=1e-15)


def test_a_session_shows_the_gradient_of_each_node() -> None:
    def f(x: Any) -> Any:
        length = np.sqrt(np.sum(x * x))
        return length**2

    session = wb.Session(wb.trace(f)(ZERO))
    report = session.check()
    assert report.ok
    np.testing.assert_array_equal(session.cotangents["x"], ZERO)
    np.testing.assert_array_equal(wb.grad(f)(ZERO), ZERO)


CONVENTIONS: dict[str, Callable[[Any], Any]] = {
    "norm": lambda x: np.cos(norm(x)),
    "hypot": lambda x: np.cos(np.hypot(x[0], x[1])),
    "absolute": lambda x: np.sum(np.cos(np.abs(x))),
    "std": lambda x: np.cos(np.std(x)),
    "root_of_squares": lambda x: np.cos(np.nanstd(x)),
}


@pytest.mark.parametrize("op", CONVENTIONS)
def test_what_is_a_convention_is_told(op: str) -> None:
    f = CONVENTIONS[op]
    np.testing.assert_array_equal(wb.hessian(f)(ZERO), 0 * I)
    for asked in (f, wb.hessian(f)):
        found = [x for x in wb.diagnose(asked, ZERO) if x.kind == "convention"]
        assert [x.node.op.name for x in found] == [op]
        assert "test_roots.py" in found[0].place
        assert "by convention its second derivative is 0" in found[0].cause
        assert found[0].fix is not None
        assert "** 2 + 1e-16)" in found[0].fix.code


def test_the_checks_blame_no_rule_for_a_convention() -> None:
    with pytest.raises(wb.errors.GradientError) as caught:
        wb.check_grads(CONVENTIONS["norm"], (ZERO,), order=2)
    text = str(caught.value)
    assert "No rule is wrong: norm" in text
    assert "by convention its second derivative is 0" in text
    assert "np.sqrt(y ** 2 + 1e-16)" in text
    smooth = lambda x: np.cos(np.sqrt(norm(x) ** 2 + 1e-16))  # noqa: E731
    np.testing.assert_allclose(wb.hessian(smooth)(ZERO), -I, rtol=1e-12)


def test_the_doctor_is_silent_where_it_is_no_convention() -> None:
    points = np.array([[0.5, 1.0], [2.0, 0.0]])  # only the diagonal is 0, always
    distances = lambda x: norm(x[:, None] - x[None], axis=-1)  # noqa: E731
    for f, x in (
        (lambda x: norm(x) ** 2 + x[0], ZERO),
        (lambda x: np.exp(-(norm(x) ** 2)) + x[0], ZERO),
        (lambda x: norm(x) ** 3 + x[0], ZERO),
        (lambda x: np.sum(np.cos(distances(x))), points),
        (lambda x: np.sum(np.where(abs(x) > 0, np.sqrt(abs(x)), 0)), np.arange(2.0)),
    ):
        assert "convention" not in [found.kind for found in wb.diagnose(f, x)]


LARGE_PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "squares of roots": lambda x: np.sum(np.sqrt(2.0 * x) ** 2),
    "powers": lambda x: np.sum((2.0 * x) ** 0.5 * (2.0 * x) ** 0.5),
    "of sums": lambda x: np.sum(np.sqrt(np.sum(x * 2.0, axis=0)) ** 2),
}


@pytest.mark.parametrize("name", LARGE_PROGRAMS)
def test_roots_of_large_arrays_whose_values_were_let_go(name: str) -> None:
    """No rule of the ops reads these values; what cancels at 0 does."""
    x = np.zeros((2, 2**17))
    x[:, ::2] = 1.0
    np.testing.assert_allclose(wb.grad(LARGE_PROGRAMS[name])(x), 2.0)


def test_a_root_of_a_large_array_needs_no_value_that_was_let_go() -> None:
    x = np.ones(2**18)
    found = wb.grad(lambda x: np.sum(x**0.5) + np.sum(np.abs(x) ** 2))(x)
    np.testing.assert_allclose(found, 2.5)


@pytest.mark.parametrize("square", [np.square, lambda y: np.power(y, 2)])
def test_ufuncs_of_a_number_of_python_are_even_too(square: Any) -> None:
    assert wb.grad(wb.grad(lambda x: square(abs(x))))(0.0) == 2


def test_an_einsum_of_one_operand_is_no_product() -> None:
    """It stands among lengths in the same program."""
    f = lambda x: np.sum(np.einsum("ii->i", x) ** 3) + np.linalg.norm(x) ** 2  # noqa: E731
    x = np.zeros((2, 2))
    for hessian in (wb.hessian(f), wb.jacfwd(wb.jacfwd(f)), wb.jacrev(wb.grad(f))):
        np.testing.assert_allclose(hessian(x).reshape(4, 4), 2 * np.eye(4))
