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


# An array of one entry is one number, with its axes

CUBES = 3 * X**2
ONE_NUMBER: dict[str, Callable[[Any], Any]] = {
    "grad": lambda f: wb.grad(f)(X),
    "value_and_grad": lambda f: wb.value_and_grad(f)(X)[1],
    "compiled": lambda f: wb.compile(wb.grad(f))(X),
    "checkpoint": lambda f: wb.grad(wb.checkpoint(f))(X),
    "vmap": lambda f: wb.vmap(wb.grad(f))(X[None])[0],
    "numeric_grad": lambda f: wb.gradient.numeric_grad(f, X).gf,
    "session": lambda f: wb.Session(wb.trace(f)(X)).grads["x"],
    "session without values": lambda f: (
        s := wb.Session(wb.trace(f)(wb.Spec((3,), float))),
        s.run(x=X),
        s.grads["x"],
    )[2],
    "expression": lambda f: wb.grad(f(V), V).eval({V: X}),
    "function": lambda f: wb.function([V], wb.value_and_grad(f(V), V)[1])(X),
    "chain rule": lambda f: wb.write_chain_rule(f(V), V).run([X])[0],
    "hessian": lambda f: np.sum(wb.hessian(f)(X), 0) * X / 2,
    "sparse hessian": lambda f: wb.hessian(f, sparse=True)(X) @ X / 2,
    "hvp": lambda f: wb.hvp(f, (X,), (X,))[0] / 2,
    "hessian of an expression": lambda f: wb.hessian(f(V), V).eval({V: X}) @ X / 2,
    "hessian of a session": lambda f: (
        wb.Session(wb.trace(f)(X)).hessian()["x"]["x"] @ X / 2),
}  # fmt: skip
V = wb.vector("v", shape=3)


@pytest.mark.parametrize("shape", [(1,), (1, 1)])
@pytest.mark.parametrize("name", ONE_NUMBER)
def test_an_array_of_one_entry_is_one_number(name: str, shape: Any) -> None:
    def f(x: Any) -> Any:
        return np.reshape(np.sum(x**3), shape)

    np.testing.assert_allclose(ONE_NUMBER[name](f), CUBES, rtol=1e-7)


def test_the_value_of_one_entry_keeps_its_axes() -> None:
    y, g = wb.value_and_grad(lambda x: x**2)(np.array([[3.0]]))
    assert y.shape == g.shape == (1, 1)
    (y, note), _ = wb.value_and_grad(lambda x: (x[:1], "note"), has_aux=True)(X)
    assert (y.shape, note) == ((1,), "note")
    z = np.array([1 + 2j])
    np.testing.assert_allclose(wb.grad(np.square, holomorphic=True)(z), 2 * z)
    np.testing.assert_array_equal(wb.grad(lambda x: np.ones(1))(X), np.zeros(3))
    assert wb.check_grads(lambda x: np.sum(x**3, keepdims=True), (X,), order=2).ok
    solved = wb.optimize.problem(
        lambda x: np.sum(x**2, keepdims=True), X, constraints=[(np.sum, 3.0, None)]
    ).solve("SLSQP")
    np.testing.assert_allclose(solved.x, [1.0, 1.0, 1.0], rtol=1e-6)
    for more in (X, np.ones((1, 2)), np.ones(0)):
        with pytest.raises(NonScalarOutputError, match=r"Reduce it \(np\.sum"):
            wb.grad(lambda x, more=more: x[0] * more)(X)


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
