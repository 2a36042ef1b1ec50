"""What a function returns that no derivative can be of is said, in every transform."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.errors import DtypeError, NonScalarOutputError

X = np.array([0.5, 1.5, 2.5])

TRANSFORMS: dict[str, Callable[[Any], Any]] = {
    "jacobian": lambda f: wb.jacobian(f)(X),
    "jacfwd": lambda f: wb.jacfwd(f)(X),
    "vjp": lambda f: wb.vjp(f, X),
    "jvp": lambda f: wb.jvp(f, (X,), (X,)),
    "linearize": lambda f: wb.linearize(f, X),
    "elementwise_grad": lambda f: wb.elementwise_grad(f)(X),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_no_number(name: str) -> None:
    ask = TRANSFORMS[name]
    with pytest.raises(DtypeError, match=r"returned None.* with a `return`"):
        ask(lambda x: None)
    for odd in ("text", np.sin, {"y": X, "note": "text"}, np.timedelta64(1, "s")):
        with pytest.raises(DtypeError, match=r"arrays or numbers.*has_aux=True"):
            ask(lambda x, odd=odd: odd)
    with pytest.raises(DtypeError, match="the function returned <generator"):
        ask(lambda x: (v for v in x))


def test_grad_says_that_it_needs_one() -> None:
    for odd in (None, "text", np.sin):
        with pytest.raises(NonScalarOutputError, match="needs one number"):
            wb.grad(lambda x, odd=odd: odd)(X)


def test_integers_and_constants_are_constant() -> None:
    for constant in (3, True, 2.5, np.arange(2)):
        J = wb.jacobian(lambda x, c=constant: c)(X)
        np.testing.assert_array_equal(J, np.zeros((*np.shape(constant), 3)))


def test_a_complex_result_of_real_numbers() -> None:
    def f(x: Any) -> Any:
        return np.sum(np.exp(1j * x))

    with pytest.raises(DtypeError, match=r"real part alone.*np\.real\(y\)") as error:
        wb.grad(f)(X)
    assert "test_odd_results.py" in str(error.value)
    with pytest.raises(DtypeError, match="gradient by the input 'x'"):
        wb.value_and_grad(lambda x, z: f(x) * z, (0, 1))(X, 1j)
    np.testing.assert_allclose(wb.jacobian(f)(X), 1j * np.exp(1j * X))
    np.testing.assert_allclose(wb.grad(lambda x: np.imag(f(x)))(X), np.cos(X))
    z = X + 1j
    np.testing.assert_allclose(wb.grad(f)(z), 1j * np.exp(1j * z))
