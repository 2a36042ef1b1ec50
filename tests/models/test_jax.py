"""What comes with a JAX function: its lines, scopes, loops, rules; and the way back."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench import errors, models

jax = pytest.importorskip("jax", reason="pip install autodiff-workbench[jax]")
pytestmark = pytest.mark.long
jnp, lax = jax.numpy, jax.lax
THIS = "test_jax.py"


@pytest.fixture(autouse=True)
def _double() -> Iterator[None]:
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


def line_of(mark: str) -> int:
    with open(__file__) as file:
        return next(i for i, line in enumerate(file, 1) if line.endswith(f"# {mark}\n"))


def names_of(graph: wb.Graph) -> list[str]:
    return [node.op.name for node in graph.interior]


# Which primitives there are

#: Of these only JAX knows: nothing of floats comes in or goes out, devices, references.
NO_SLOPE = (
    "all_gather all_to_all eq_to get le_to lt_to ppermute psum ragged_all_to_all swap"
    " random_bits random_fold_in random_seed random_split shift_right_logical"
).split()
#: One node each, with JAX's derivatives.
FOREIGN = (
    "approx_top_k bitcast_convert_type custom_linear_solve eig lu random_gamma reduce"
    " reduce_window select_and_gather_add select_and_scatter_add tridiagonal_solve"
).split()


def test_every_public_primitive_with_a_jvp_has_a_row_or_is_foreign() -> None:
    from jax.extend.core import primitives
    from jax.interpreters import ad

    from workbench.models.jax import HIGHER
    from workbench.models.jax_rules import RULES

    public = [getattr(primitives, n) for n in dir(primitives) if n.endswith("_p")]
    moving = {p.name for p in public if p in ad.primitive_jvps}
    assert len(moving) > 130
    assert moving - RULES.keys() - HIGHER.keys() == {*NO_SLOPE, *FOREIGN}


@pytest.mark.parametrize(
    "f",
    [
        lambda x: lax.linalg.lu(x)[0],
        lambda x: jnp.linalg.solve(x + 3 * jnp.eye(3), x[0]),
        lambda x: lax.linalg.tridiagonal_solve(x[0], x[1] + 3, x[2], x.T[:, :1]),
        lambda x: lax.reduce_precision(x, 11, 40) ** 2,
    ],
    ids=["lu", "solve", "tridiagonal", "reduce_precision"],
)
def test_jaxs_own_op_has_derivatives_of_any_order(f: Any) -> None:
    x = np.random.default_rng(0).normal(size=(3, 3)) + np.diag([4.0, 5.0, 6.0])
    total = lambda x: jnp.sum(f(x) ** 2)  # noqa: E731
    own = models.from_jax(total)
    assert any(name.startswith("jax_") for name in names_of(wb.trace(own)(x)))
    np.testing.assert_allclose(wb.grad(own)(x), jax.grad(total)(x), rtol=1e-11)
    tangent = np.ones_like(x)
    forward, wanted = (
        wb.jvp(own, (x,), (tangent,)), jax.jvp(total, (x,), (tangent,))
    )  # fmt: skip
    np.testing.assert_allclose(forward, wanted, rtol=1e-11)
    second = jax.jvp(jax.grad(total), (x,), (tangent,))[1]
    (found,) = wb.hvp(own, (x,), (tangent,))
    np.testing.assert_allclose(found, second, rtol=1e-9, atol=1e-9)


# Kinks, NaN, integers


def pool(x: Any, padding: str = "VALID") -> Any:
    return lax.reduce_window(x, -jnp.inf, lax.max, (2,), (2,), padding)


NAN = np.nan


@pytest.mark.parametrize(
    ("f", "args"),
    [
        (lambda x: 1 / jnp.abs(x), [[-0.0, 1.0]]),
        (jnp.abs, [[0.0, -0.0, -1.0, NAN]]),
        (lambda low, x: lax.clamp(low, x, 5.0), [[1.0, 1.0, 0.0], [1.0, 0.0, 2.0]]),
        (lambda x, high: lax.clamp(0.0, x, high), [[0.0, 2.0, 3.0], [1.0, 2.0, 2.0]]),
        (pool, [[1.0, 1.0, 0.0, 0.0]]),
        (lambda x: pool(x, "SAME"), [[-1.0, -1.0, 0.0, 2.0, -3.0]]),
        (lambda x: -pool(-x), [[1.0, 1.0, 0.0, 0.0]]),
        (lambda x: lax.top_k(x, 2)[0], [[1.0, NAN, 2.0, 2.0]]),
        (jax.nn.relu, [[-1.0, 0.0, 1.0, NAN]]),
    ],
)
def test_slopes_at_kinks_are_jaxs(f: Any, args: Any) -> None:
    args = [np.array(x) for x in args]
    own = models.from_jax(f)
    with np.errstate(divide="ignore", invalid="ignore"):
        (made,) = wb.trace(own)(*args).run(args)
    np.testing.assert_allclose(made, f(*map(jnp.asarray, args)), rtol=1e-15)
    every = tuple(range(len(args)))
    with np.errstate(divide="ignore", invalid="ignore"):
        found = wb.grad(lambda *xs: np.sum(own(*xs)), every)(*args)
    wanted = jax.grad(lambda *xs: jnp.sum(f(*xs)), every)(*args)
    for own_slope, slope in zip(found, wanted, strict=True):
        np.testing.assert_allclose(own_slope, slope, rtol=1e-15)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.bool_])
def test_the_largest_integers_are_found(dtype: Any) -> None:
    x = np.array([0, 3, 128, 1], np.uint8).astype(dtype)
    own = models.from_jax(lambda x: lax.top_k(x, 3))
    for made, wanted in zip(own(x), lax.top_k(jnp.asarray(x), 3), strict=True):
        np.testing.assert_array_equal(made, wanted)
        assert made.dtype == wanted.dtype


# Lines, scopes, loops, rules


def test_lines_and_scopes_are_the_users_own() -> None:
    def f(x: Any) -> Any:
        with jax.named_scope("encoder"):
            x = jnp.tanh(x)  # TANH
        return jnp.sum(x)

    graph = wb.trace(models.from_jax(f))(np.ones(3))
    (tanh,) = [node for node in graph.interior if node.op.name == "tanh"]
    assert tanh.scope == "encoder"
    assert tanh.site.place == f"{THIS}:{line_of('TANH')}"


def test_loops_stay_loops() -> None:
    def f(x: Any) -> Any:
        y = lax.fori_loop(0, 50, lambda i, v: v * 0.9 + x, x)
        return lax.while_loop(lambda v: v < 1000, lambda v: v * v, y)

    own = models.from_jax(f)
    graph = wb.trace(own)(2.0)
    assert len(graph.interior) < 12
    assert names_of(graph).count("scan") == 2
    step = 1e-6
    slope = (f(2.0 + step) - f(2.0 - step)) / (2 * step)
    np.testing.assert_allclose(wb.grad(own)(2.0), slope, rtol=1e-7)


@jax.custom_vjp
def wrong_cube(x: Any) -> Any:
    return x**3


wrong_cube.defvjp(lambda x: (x**3, x), lambda x, g: (2 * g * x,))


@jax.custom_vjp
def scaled(x: Any, n: Any) -> Any:
    return x * n


scaled.defvjp(lambda x, n: (x * n, (x, n)), lambda kept, g: (g * kept[1], None))


@jax.custom_jvp
def log1pexp(x: Any) -> Any:
    return jnp.log(1.0 + jnp.exp(x))


@log1pexp.defjvp
def _(primals: Any, tangents: Any) -> Any:
    return log1pexp(*primals), (1 - 1 / (1 + jnp.exp(primals[0]))) * tangents[0]


def test_a_wrong_rule_is_kept_and_found() -> None:
    def f(x: Any) -> Any:
        return jnp.sum(wrong_cube(x))  # RULE

    own, x = models.from_jax(f), np.array([0.5, -1.0, 2.0])
    np.testing.assert_allclose(wb.grad(own)(x), 2 * x)  # as JAX has it
    with pytest.raises(errors.GradientError, match="wrong_cube") as caught:
        wb.check_grads(own, (x,))
    assert f"{THIS}:{line_of('RULE')}" in str(caught.value)
    right = wb.override("wrong_cube", "3 * g * x**2")
    np.testing.assert_allclose(wb.grad(own, overrides=[right])(x), 3 * x**2)


def test_right_rules_are_kept_in_both_modes_and_orders() -> None:
    own = models.from_jax(lambda x: jnp.sum(log1pexp(x) ** 2))
    x = np.array([0.3, -1.2])
    wb.check_grads(own, (x,), order=2)
    # Without the author's rule this would be NaN.
    assert float(wb.grad(models.from_jax(log1pexp))(1000.0)) == 1.0
    by_integer = models.from_jax(lambda x: jnp.sum(scaled(x, 3)))
    np.testing.assert_allclose(wb.grad(by_integer)(x), [3.0, 3.0])


def test_a_nan_is_found_by_its_line() -> None:
    def f(x: Any) -> Any:
        return jnp.sum(jnp.sqrt(x * x))  # NAN

    (first, *_) = wb.diagnose(models.from_jax(f), np.array([1.0, 0.0]))
    assert f"{THIS}:{line_of('NAN')}" in str(first)


def test_it_is_traced_once_for_each_kind_of_arguments() -> None:
    calls = []

    def f(x: Any) -> Any:
        calls.append(x.shape)
        return {"y": jnp.sum(x)}

    own = models.from_jax(f)
    for n in (2, 3, 2):
        assert float(own(np.ones(n))["y"]) == n
    assert calls == [(2,), (3,)]
    compiled = wb.compile(lambda x: own(x)["y"])
    assert float(compiled(np.ones(4))) == 4.0


# The way back


def test_overrides_come_back_under_jit() -> None:
    def f(w: Any, x: Any) -> Any:
        return {"y": np.sum(np.tanh(x @ w) ** 2)}

    draws = np.random.default_rng(0)
    w, x = draws.normal(size=4), draws.normal(size=(5, 4))
    clip = wb.override("tanh", "clip(d, -0.1, 0.1)")
    wanted = wb.grad(lambda w: f(w, x)["y"], overrides=[clip])(w)
    g = models.as_jax_function(f, [clip])
    found = jax.jit(jax.grad(lambda w: g(w, x)["y"]))(w)
    np.testing.assert_allclose(found, wanted, rtol=1e-14)
    true = wb.hessian(lambda w: f(w, x)["y"])(w)
    plain = models.as_jax_function(f)
    twice = jax.jacrev(jax.grad(lambda w: plain(w, x)["y"]))(w)
    np.testing.assert_allclose(twice, true, rtol=1e-12)


# Refusals


def test_floats_that_numpy_lacks_are_refused() -> None:
    narrow = jnp.bfloat16

    def f(x: Any) -> Any:
        return jnp.sum((x.astype(narrow) * 3).astype(jnp.float32))  # NARROW

    own = models.from_jax(f)
    np.testing.assert_allclose(own(np.ones(2)), 6.0)
    with pytest.raises(errors.ModelError, match=r"bfloat16.*float32") as caught:
        wb.grad(own)(np.ones(2))
    assert f"{THIS}:{line_of('NARROW')}" in str(caught.value)
    with pytest.raises(errors.ModelError, match=r"as_jax_function.*bfloat16"):
        models.as_jax_function(np.tanh)(jnp.ones(2, narrow))


def test_what_does_not_fit_is_told() -> None:
    with pytest.raises(errors.UsageError, match="is not a function"):
        models.from_jax(3.0)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="dot_general"):
        models.from_jax(lambda x: x @ x)(np.ones((2, 3)))


def test_without_the_library_it_says_what_to_install() -> None:
    program = (
        "import importlib.util as u; find = u.find_spec\n"
        "import workbench.errors as errors\n"
        "errors.find_spec = lambda name: None if name == 'jax' else find(name)\n"
        "from workbench import models\n"
        "for f in (models.from_jax, models.as_jax_function):\n"
        "    try: f(abs)\n"
        "    except errors.MissingPackageError as e: print(e)"
    )
    made = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert made.stdout.count("pip install 'autodiff-workbench[jax]'") == 2
