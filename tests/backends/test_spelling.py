"""The text of each op is what one would write, and computes what the op does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.special import erf

import workbench as wb
from tests.backends.texts import run_text
from workbench.backends import text
from workbench.backends.numpy import compile
from workbench.core.op import OPS, declare, load_all_ops
from workbench.core.tensor import apply
from workbench.ops.updates import at
from workbench.scipy.linalg import expm, logm, solve_triangular
from workbench.scipy.signal import lfilter
from workbench.scipy.special import spherical_yn

SPELLINGS: dict[str, Any] = {
    "arithmetic": lambda x: -(x + 1) * (2 - x) / (x - (3 - x)) ** -2.0 % 1.5 // 0.3,
    "powers": lambda x: (-x) ** 2 + (-(x**2)) ** 3 + 2.0 ** (x**0.5) ** 2,
    "comparisons": lambda x: (x > 0.5) & ~(x <= 0.7) | (x == 0.2),
    "slices": lambda x: (x[0], x[1:, None], x[..., ::-1], x[:, 1:3:2], x[-1, 2]),
    "indices": lambda x: (x[np.array([0, 1, 0])], x[:, np.array([2, 0])], x[x > 0.5]),
    "scattered": wb.grad(lambda x: np.sum(x[np.array([0, 1, 0])] * x[0, 1] + x[1:])),
    "updates": lambda x: (
        at(x)[0, 1:].set(x[1, 1:] * 2),
        at(x)[np.array([0, 0])].add(1.5),
        at(x)[1].max(0.5),
        at(x)[:, 0].min(0.5),
    ),
    "einsum": lambda x: (np.einsum("ij,kj->ik", x, x), np.einsum("ii->", x[:, :2])),
    "contractions": lambda x: (x @ x.T, np.tensordot(x, x, 2), np.outer(x[0], x[1])),
    "joins": lambda x: (np.concatenate([x, x], 1), np.stack([x, x * 2], -1)),
    "shapes": lambda x: (
        np.reshape(x, (3, 2)),
        np.reshape(x, -1, order="F"),
        np.transpose(x)[None],
        np.broadcast_to(x, (4, 2, 3)),
        np.squeeze(x[:, :1]),
        np.flip(x, 1),
        np.roll(x, 2, 0),
        np.tile(x, (2, 1)),
        np.repeat(x, 3, axis=1),
        np.pad(x, ((1, 0), (0, 2)), constant_values=7.0),
    ),
    "makers": lambda x: (
        np.full_like(x, 3.0) * x,
        np.eye(2, like=x) @ x,
        x * np.zeros_like(x, shape=(1,)),
        x.astype(np.float32),
    ),
    "reductions": lambda x: (
        np.sum(x, axis=0),
        np.mean(x, keepdims=True),
        np.max(x, axis=(0, 1)),
        np.var(x, axis=1, ddof=1),
        np.argmax(x, axis=1) * 1.0,
        np.cumsum(x, axis=1),
        np.prod(x),
        np.linalg.norm(x),
    ),
    "linear algebra": lambda x: (
        np.linalg.solve(x @ x.T, x),
        np.linalg.slogdet(x @ x.T)[1],
        np.linalg.inv(x @ x.T),
        np.linalg.det(x[:, :2]),
    ),
    "choices": lambda x: (np.where(x > 0.5, x, 0), np.clip(x, 0.2, 0.8), np.abs(x)),
    "gradients": wb.grad(lambda x: np.sum(np.where(x > 0.5, np.log(x), x) / x)),
}


@pytest.mark.parametrize("name", SPELLINGS)
def test_the_text_of_each_op_computes_what_the_op_does(
    name: str, rng: np.random.Generator
) -> None:
    x = rng.uniform(0.1, 1, (2, 3))
    function = compile(wb.trace(SPELLINGS[name])(x))
    assert not any(map(callable, function.constants.values()))
    for got, expected in zip(run_text(function, x), function(x), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-14)
        assert np.asarray(got).dtype == np.asarray(expected).dtype


PROGRAM = "its setting is a program, which solvers call, or the way back"

SERIES = "a quadrature of our own: SciPy has no derivative by this shape"

LATER = "the rule of an op, which needs a length that is not known before the run"

DRAW = "drawn by arguments of our own, from a generator that is handed over"

#: Ops whose text needs a function handed over, and why.
OPAQUE = {
    "batch": LATER,
    "call": "a function of SciPy's names; one of NumPy is called by its name",
    "jvp": LATER,
    "vjp": LATER,
    **dict.fromkeys(("to_device", "to_host"), "arrays move between libraries"),
    "custom_linear_solve": PROGRAM,
    "custom_root": PROGRAM,
    "initial_value_adjoint": PROGRAM,
    "initial_value_problem": PROGRAM,
    "integral": PROGRAM,
    "jacobian": PROGRAM,
    **dict.fromkeys(("limit_of_jvp", "limit_of_vjp"), PROGRAM),
    "null_gradient": "a gradient that cannot be computed",
    "random_gamma_slope": SERIES,
    "random_gamma_bend": SERIES,
    "random_beta_slope": SERIES,
    "random_beta_bend": SERIES,
    "random_permutation": DRAW,
    "random_permuted": DRAW,
    "random_choice": DRAW,
}


def test_every_op_is_spelled_with_numpy_and_scipy() -> None:
    """The text of an op is NumPy's or SciPy's, or that of a helper; few have none."""
    load_all_ops()
    assert wb.scan  # looked at: its modules say how it is lowered
    names = text.Names(text.Module())
    unknown = {
        name
        for name, op in OPS.items()
        if not name.endswith("_test")
        and op.lower is None
        and op.template is None
        and not op.helper
        and not hasattr(op.compute, "template")
        and not names.callee(op).startswith("np.")
    }
    assert unknown <= set(OPAQUE)


@pytest.mark.parametrize(
    ("program", "lines"),
    [
        (
            lambda x: np.cos(erf(x)),
            ["from scipy import special", "    return np.cos(special.erf(x))"],
        ),
        (
            lambda x: np.linalg.svd(x, full_matrices=False)[0] @ x,
            ["    return np.linalg.svd(x, full_matrices=False)[0] @ x"],
        ),
        (
            lambda x: matmul_of_both(np.linalg.eigh(x)),
            [
                "    values, vectors = np.linalg.eigh(x, UPLO='L')",
                "    return vectors @ values",
            ],
        ),
        (
            lambda x: solve_triangular(x, x, lower=True) + expm(x),
            [
                "from scipy import linalg",
                "    t = linalg.solve_triangular(x, x, lower=True,"
                " unit_diagonal=False)",
                "    return t + linalg.expm(x)",
            ],
        ),
        (
            lambda x: wb.checkpoint(lambda x: np.sin(x) * x)(x),
            ["def checkpoint(a_0):", "    return checkpoint(x)"],
        ),
    ],
)
def test_the_text_is_what_users_write(
    program: Callable[[Any], Any], lines: list[str]
) -> None:
    x = np.array([[2.0, 0.5], [0.5, 3.0]])
    function = compile(wb.trace(program)(x))
    assert function.constants == {}
    for line in lines:
        assert line in function.source
    (made,) = run_text(function, x)
    np.testing.assert_allclose(made, program(x), rtol=1e-14)


def matmul_of_both(pair: Any) -> Any:
    values, vectors = pair
    return vectors @ values


def test_names_of_modules_stay_free() -> None:
    """A user's `special` is another name where the text imports SciPy's."""
    special = wb.trace(lambda special: erf(special))(1.5)
    function = compile(special)
    assert "def function(special2):" in function.source
    (made,) = run_text(function, 0.5)
    assert made == erf(0.5)
    alone = compile(wb.trace(lambda special: np.exp(special))(1.5))
    assert "def function(special):" in alone.source


def test_a_difference_of_squares_divides_as_one() -> None:
    """The derivative of arcsin and arctanh: g / ((1 - x) * (1 + x))."""
    function = compile(
        wb.trace(lambda x: 3.0 / apply(declare("one_minus_square"), (x,)))(0.5)
    )
    (made,) = run_text(function, 0.5)
    assert made == 4.0


def test_a_draw_without_values_calls_the_generator() -> None:
    graph = wb.trace(lambda scale: wb.random.default_rng(3).normal(0.0, scale, (4,)))(
        wb.Spec((), np.float64)
    )
    function = compile(graph)
    assert "scale * generator.standard_normal(size=(4,))" in function.source
    assert not any(map(callable, function.constants.values()))
    (made,) = run_text(function, 2.0)
    assert made.shape == (4,)


@pytest.mark.parametrize(
    "program",
    [
        lambda x: spherical_yn(2, x, derivative=True),
        lambda x: logm(x * np.eye(3, dtype=np.float32))[0],
        lambda x: lfilter(x[:1], x, x),
        lambda x: solve_triangular(np.diag(x), x),
        lambda x: np.linalg.lstsq(np.diag(x), x)[0],
        lambda x: np.linalg.det(np.diag(x)) * x,
    ],
)
def test_float32_stays_float32_in_the_text(program: Callable[[Any], Any]) -> None:
    x = np.array([1.0, 2.0, 3.0], np.float32)
    for f in (program, wb.grad(lambda x: np.sum(program(x)))):
        function = compile(wb.trace(f)(x))
        (made,), (expected,) = run_text(function, x), function(x)
        assert made.dtype == expected.dtype == np.float32
        np.testing.assert_allclose(made, expected, rtol=1e-4, atol=1e-5)


def test_brackets_stand_where_operators_need_them() -> None:
    """A shift binds less than a sum; a power takes its base before the sign."""
    n, x = wb.vector("n", dtype=int), wb.vector("x")
    program = [(n << 2) + 1, n << (n + 1), (-x) ** 2, -(x**2)]
    function = compile(wb.Graph([n, x], program))
    assert "return (n << 2) + 1, n << n + 1, (-x) ** 2, -x ** 2" in function.source
    values = np.array([2, 5]), np.array([1.5, -2.0])
    for made, expected in zip(
        run_text(function, *values), function(*values), strict=True
    ):
        np.testing.assert_array_equal(made, expected)
