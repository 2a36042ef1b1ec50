"""What `OpFromGraph` refuses, and that the error says what to write instead."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.errors import (
    DtypeError,
    ExpressionError,
    MissingInputError,
    RegistrationError,
    ShapeError,
    UnusedInputError,
    UsageError,
)


def product(**more: Any) -> Any:
    x, y = wb.vector("x", shape=2), wb.vector("y", shape=2)
    return wb.OpFromGraph([x, y], x * y, name="product_of_a_test", **more)


ONES = np.ones(2)


# Making one


def test_an_input_that_nothing_needs() -> None:
    x, y = wb.scalars("x y")
    with pytest.raises(UnusedInputError, match="no output needs input 'y'") as error:
        wb.OpFromGraph([x, y], x * 2)
    assert "on_unused_input='ignore'" in str(error.value)
    with pytest.warns(UserWarning, match="no output needs input 'y'"):
        wb.OpFromGraph([x, y], x * 2, on_unused_input="warn")
    op = wb.OpFromGraph([x, y], x * 2, on_unused_input="ignore")
    assert op(3.0, 1.0) == 6
    with pytest.raises(UsageError, match="'raise', 'warn' or 'ignore'"):
        wb.OpFromGraph([x], x * 2, on_unused_input="sometimes")


def test_a_symbol_that_is_no_input() -> None:
    x, y = wb.scalars("x y")
    with pytest.raises(MissingInputError, match="'y'") as error:
        wb.OpFromGraph([x], x * y, name="lacking")
    assert "lacking" in str(error.value)
    assert "wb.shared" in str(error.value)


def test_an_input_given_twice() -> None:
    x = wb.scalar("x")
    with pytest.raises(UsageError, match="input 'x' is given twice"):
        wb.OpFromGraph([x, x], x * 2)


def test_inputs_that_are_no_symbols() -> None:
    x = wb.scalar("x")
    with pytest.raises(UsageError, match=r"input 0 is 3\.0, not a symbol"):
        wb.OpFromGraph([3.0], x * 2)
    with pytest.raises(UsageError, match="is an expression"):
        wb.OpFromGraph([x + 1], (x + 1) * 2)
    with pytest.raises(UsageError, match="holds a value"):
        wb.OpFromGraph([wb.constant(2.0)], x)
    with pytest.raises(UsageError, match="reads without an input"):
        wb.OpFromGraph([wb.shared(2.0, "w")], x)


def test_outputs_that_are_none() -> None:
    x = wb.scalar("x")
    with pytest.raises(UsageError, match="there is no output"):
        wb.OpFromGraph([x], [])
    with pytest.raises(UsageError, match=r"output 1 is float.*wb.constant"):
        wb.OpFromGraph([x], [x * 2, 3.0])


def test_a_random_draw_inside_that_depends_on_an_input() -> None:
    """Its gradient would draw anew, and belong to other noise than the value."""
    x = wb.vector("x")
    stream = wb.random.stream(3)
    with pytest.raises(UsageError, match=r"a random draw inside.* depends on an input"):
        wb.OpFromGraph([x], x * stream.normal(size=x.shape))


def test_a_name_that_another_op_has() -> None:
    x = wb.scalar("x")
    with pytest.raises(RegistrationError, match="tanh"):
        wb.OpFromGraph([x], x * 2, name="tanh")
    with pytest.raises(RegistrationError, match="letters, digits"):
        wb.OpFromGraph([x], x * 2, name="a b")


def test_a_gradient_that_takes_or_gives_another_number() -> None:
    x, y, g, h = (wb.vector(n, shape=2) for n in "xygh")
    short = wb.OpFromGraph([x, g], [x * g, x * g], name="short")
    with pytest.raises(UsageError, match="takes 2 arrays") as error:
        product(vjp=short)
    assert "It must take 3: input 'x', input 'y', then one cotangent" in str(
        error.value
    )
    assert "on_unused_input='ignore'" in str(error.value)
    one = wb.OpFromGraph([x, y, g], x * y * g, name="gives_one")
    with pytest.raises(
        UsageError, match=r"gives 1 array.*It must give 2: one gradient"
    ):
        product(vjp=one)
    assert wb.grad(lambda x: np.sum(product(vjp=[one, None])(x, ONES)))(ONES)[0] == 1
    with pytest.raises(UsageError, match="takes 3 arrays"):
        product(jvp=one)
    four = wb.OpFromGraph([x, y, g, h], [x * g, y * h], name="gives_two")
    with pytest.raises(UsageError, match="It must give 1: one tangent"):
        product(jvp=four)


def test_a_gradient_of_another_rank() -> None:
    x, y = wb.vector("x", shape=2), wb.vector("y", shape=2)
    g = wb.scalar("g")
    flat = wb.OpFromGraph([x, y, g], [y * g, x * g], name="of_numbers")
    with pytest.raises(ShapeError, match="input 'g' of its vjp of_numbers has 0 axes"):
        product(vjp=flat)


def test_a_list_of_another_length() -> None:
    with pytest.raises(UsageError, match=r"vjp holds 1 rules, and the op has 2 inputs"):
        product(vjp=[None])
    with pytest.raises(UsageError, match=r"jvp holds 2 rules, and the op has 1 output"):
        product(jvp=[None, None])


def test_what_is_no_rule() -> None:
    with pytest.raises(UsageError, match="vjp=3 is not a rule"):
        product(vjp=3)
    with pytest.raises(ExpressionError):
        product(vjp="__import__('os')")


def test_a_pattern_of_another_shape() -> None:
    with pytest.raises(ShapeError, match=r"one row per input \(2\)"):
        product(connection_pattern=[[True]])


# Calling one


def test_another_number_of_arguments() -> None:
    with pytest.raises(UsageError, match=r"takes 2 arrays \(input 'x', input 'y'\)"):
        product()(ONES)


def test_another_rank_or_length() -> None:
    with pytest.raises(ShapeError, match="input 'y' has 1 axis"):
        product()(ONES, 3.0)
    with pytest.raises(ShapeError, match=r"input 'x' has shape \(2,\)"):
        product()(np.ones(3), ONES)


def test_another_dtype() -> None:
    x = wb.vector("x", dtype="float32")
    op = wb.OpFromGraph([x], np.sum(x), name="single_of_a_test")
    with pytest.raises(DtypeError, match=r"input 'x' is of dtype float32") as error:
        op(np.ones(3))
    assert ".astype(np.float32)" in str(error.value)
    assert op(np.ones(3, np.float16)) == 3
    with pytest.raises(DtypeError):
        op(["a", "b"])


# What a rule returns


def loss(op: Any) -> Any:
    return lambda x, y: np.sum(op(x, y))


@pytest.mark.parametrize(
    ("rule", "kind", "text"),
    [
        (lambda node, g: (g,), UsageError, "returned 1 gradient"),
        (lambda node, g: (g, np.ones(3)), ShapeError, r"shape \(3,\) for input 'y'"),
        (lambda node, g: (g > 0, g), DtypeError, "input 'x' with dtype bool"),
        (lambda node: (1, 2), UsageError, "gets the node and 1 gradient"),
    ],
)
def test_gradients_that_do_not_fit(rule: Any, kind: Any, text: str) -> None:
    with pytest.raises(kind, match=text) as error:
        wb.grad(loss(product(vjp=rule)), (0, 1))(ONES, ONES)
    assert "product_of_a_test" in str(error.value)


def test_one_gradient_of_a_list_that_does_not_fit() -> None:
    with pytest.raises(UsageError, match=r"returned 2 gradients\. Return 1"):
        wb.grad(loss(product(vjp=[lambda node, g: (g, g), None])))(ONES, ONES)


def test_tangents_that_do_not_fit() -> None:
    op = product(vjp="d", jvp=lambda node, t, u: np.ones(3))
    with pytest.raises(ShapeError, match=r"tangent of shape \(3,\)"):
        wb.jvp(op, (ONES, ONES), (ONES, ONES))


def test_a_gradient_against_the_declared_pattern() -> None:
    declared = [[True], [False]]
    both = product(vjp=lambda node, g: (g, g), connection_pattern=declared)
    with pytest.raises(UsageError, match="gradient for input 'y', on which no output"):
        wb.grad(loss(both), (0, 1))(ONES, ONES)
    none = product(vjp=lambda node, g: (None, None), connection_pattern=declared)
    with pytest.raises(UsageError, match="returned None for input 'x'"):
        wb.grad(loss(none))(ONES, ONES)
    right = product(vjp=lambda node, g: (g, None), connection_pattern=declared)
    assert np.array_equal(wb.grad(loss(right))(ONES, ONES), ONES)
