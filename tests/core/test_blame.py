"""An error names the function that the user called and the line of the program.

A rule runs when a derivative is asked for, a function of SciPy's runs inside its
decorators, an op may raise an error of its own: none of it hides the user's line.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.special
import scipy.stats

import workbench as wb
from workbench.core import blame
from workbench.core.op import OPS
from workbench.core.tensor import apply
from workbench.errors import (
    DtypeError,
    GradientLostError,
    NotDifferentiableError,
    OverrideError,
    ShapeError,
    UsageError,
)
from workbench.ops.define import op

#: As a function finds it whose names are not swapped: inside of an installed package.
scipy = SimpleNamespace(**vars(scipy))

X = np.array([0.5, 1.5, 2.5])


def by_order(a: Any) -> Any:
    y = scipy.special.jv(a, 2.0)
    return np.sum(y * y)


@pytest.mark.parametrize(
    "ask",
    [
        lambda: wb.grad(by_order)(X),
        lambda: wb.jvp(by_order, (X,), (X,)),
        lambda: wb.jacobian(by_order)(X),
        lambda: wb.hessian(by_order)(X),
        lambda: wb.vmap(wb.grad(by_order))(X[None]),
        lambda: wb.grad(lambda a: wb.grad(by_order)(a) @ a)(X),
        lambda: wb.grad(by_order, overrides=[wb.override("sum", vjp="d")])(X),
    ],
)
def test_a_rule_that_fails_tells_the_line_of_its_op(ask: Callable[[], Any]) -> None:
    with pytest.raises(NotDifferentiableError) as error:
        ask()
    text = str(error.value)
    assert "jv float64[3]" in text
    assert len(re.findall(r"\(at test_blame\.py:\d+: y = scipy\.", text)) == 1


def test_a_function_of_one_argument_without_derivative() -> None:
    with pytest.raises(NotDifferentiableError, match=r"zeta.*no closed form") as error:
        wb.grad(lambda x: np.sum(scipy.special.zeta(x)))(X + 1)
    assert "riemann_zeta (at test_blame.py" in str(error.value)


def test_a_rule_of_ones_own_that_fails_keeps_its_error_and_gets_a_note() -> None:
    def rule(node: Any, g: Any) -> Any:
        raise KeyError("mine")

    backward = [wb.override("sin", vjp=rule)]
    forward = [wb.override("sin", vjp="d", jvp=rule)]
    for ask in (
        lambda: wb.grad(lambda x: np.sum(np.sin(x)), overrides=backward)(X),
        lambda: wb.jvp(np.sin, (X,), (X,), overrides=forward),
    ):
        with pytest.raises(KeyError) as error:
            ask()
        assert str(error.value) == "'mine'"
        (note,) = error.value.__notes__
        assert "In the derivative of sin float64[3]" in note
        assert "test_blame.py" in note


def test_an_error_of_an_ops_own_stays_what_it_is() -> None:
    def compute(*x: Any) -> Any:
        raise UsageError("the op's own words")

    made = op("test_own_error", compute)
    try:
        for f in (
            lambda: wb.grad(lambda x: apply(made, (x,)))(X),
            lambda: wb.grad(lambda x: apply(made, (x, x)))(X),
            lambda: wb.trace(lambda x: apply(made, (x,)))(wb.Spec((3,), X.dtype)),
        ):
            with pytest.raises(UsageError) as error:
                f()
            assert type(error.value) is UsageError
            assert str(error.value) == "the op's own words"
            assert error.value.__cause__ is None  # not itself
    finally:
        del OPS["test_own_error"]
    told = ShapeError("said already")
    assert blame.explain_refusal(OPS["add"], (), told, None, 0) is told


@pytest.mark.parametrize(
    ("f", "name", "cure"),
    [
        (
            lambda x: scipy.special.spherical_jn(1, x),
            "scipy.special.spherical_jn",
            "Write workbench.scipy.special.spherical_jn, which does",
        ),
        (
            lambda x: scipy.special.spherical_kn(1, x),
            "scipy.special.spherical_kn",
            "Write workbench.scipy.special.spherical_kn, which does",
        ),
        (scipy.stats.gmean, "scipy.stats.gmean", "NumPy's functions"),
        (scipy.stats.hmean, "scipy.stats.hmean", "NumPy's functions"),
        (scipy.stats.skew, "scipy.stats.skew", "NumPy's functions"),
        (
            lambda x: scipy.stats.ttest_ind(x, x**2).statistic,
            "scipy.stats.ttest_ind",
            "NumPy's functions",
        ),
        (
            lambda x: scipy.stats.Normal().logpdf(x),
            "scipy.stats.Normal.logpdf",
            "NumPy's functions",
        ),
        (
            lambda x: scipy.stats.Uniform(a=0.0, b=x).cdf(0.1),
            "scipy.stats.Uniform",
            "NumPy's functions",
        ),
        (
            lambda x: scipy.stats.gaussian_kde(x)(0.1),
            "scipy.stats.gaussian_kde",
            "NumPy's functions",
        ),
    ],
)
def test_a_decorated_function_of_scipy(
    f: Callable[[Any], Any], name: str, cure: str
) -> None:
    with pytest.raises(GradientLostError) as error:
        wb.grad(lambda x: np.sum(f(x)))(X)
    text = str(error.value)
    assert text.startswith(f"{name} (at test_blame.py"), text
    assert cure in text


def test_one_branch_of_where() -> None:
    for f in (lambda x: np.where(x > 1, x), lambda x: np.where(x > 1, None, x)):
        with pytest.raises(ValueError, match="both or neither of x and y") as error:
            wb.grad(lambda x, f=f: np.sum(f(x)))(X)
        assert "test_blame.py" in str(error.value)
        assert "np.where(c, x, 0.0)" in str(error.value)


@pytest.mark.parametrize(
    ("transform", "offered"),
    [
        (wb.grad, True),
        (wb.value_and_grad, True),
        (wb.jacobian, True),
        (wb.hessian, True),
        (wb.elementwise_grad, False),
    ],
)
def test_integers_may_be_left_out_where_that_is_offered(
    transform: Any, offered: bool
) -> None:
    with pytest.raises(DtypeError, match=r"n.*astype\(float\)") as error:
        transform(lambda n: np.sum(n["n"]))({"n": np.arange(3)})
    assert ("allow_int=True" in str(error.value)) is offered


def test_a_misspelt_op_is_looked_for_in_the_program_first() -> None:
    import workbench.ops.special  # which has a tandg

    assert workbench.ops.special
    assert "tandg" in OPS
    asked = wb.grad(lambda x: np.sum(np.tanh(x)), overrides=[wb.override("tahn", "d")])
    with pytest.raises(OverrideError, match=r"Did you mean the op 'tanh'\?"):
        asked(X)
