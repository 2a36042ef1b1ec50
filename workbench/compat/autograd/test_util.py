"""`autograd.test_util`: gradients against differences, by `workbench.check_grads`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np

from workbench.checks import gradient_check
from workbench.compat.autograd.differential_operators import make_jvp, make_vjp
from workbench.compat.autograd.vector_spaces import vspace
from workbench.compat.autograd.wrap_util import get_name, unary_to_nary
from workbench.errors import GradientError

__all__ = ["check_equivalent", "check_grads", "combo_check", "scalar_close"]

TOL = RTOL = 1e-6


def scalar_close(a: Any, b: Any) -> bool:
    """Return whether two numbers agree to 1e-6, relative or absolute."""
    return bool(abs(a - b) < TOL or abs(a - b) / abs(a + b) < RTOL)


def check_equivalent(x: Any, y: Any) -> None:
    """Raise an AssertionError if two values differ in shape, dtype or a projection."""
    one, other = vspace(x), vspace(y)
    if one != other:
        raise AssertionError(f"VSpace mismatch:\nx: {one}\ny: {other}")
    v = one.randn()
    if not scalar_close(one.inner_prod(x, v), other.inner_prod(y, v)):
        raise AssertionError(f"Value mismatch:\nx: {x}\ny: {y}")


@unary_to_nary
def check_grads(
    f: Callable[..., Any], x: Any, modes: Sequence[str] | None = None, order: int = 2
) -> None:
    """Compare derivatives with differences, by `workbench.check_grads`.

    Of the second order on, the products of each mode are checked as functions of ``x``
    and of the vector, so that a rule must be a program of its cotangent too.

    Raises
    ------
    AssertionError
        If they differ.

    Examples
    --------
    >>> import workbench.compat.autograd.numpy as np
    >>> from workbench.compat.autograd.test_util import check_grads
    >>> check_grads(np.sin, modes=["rev"])(1.0)
    """
    modes = ["fwd", "rev"] if modes is None else modes
    if not set(modes) <= {"fwd", "rev"}:
        raise AssertionError(f"modes are 'fwd' and 'rev', not {modes!r}")
    try:
        gradient_check.check_grads(f, (x,), 1, tuple(modes))
    except GradientError as error:
        raise AssertionError(str(error)) from error
    for mode in modes if order > 1 else ():
        vector = vspace(x if mode == "fwd" else f(x)).randn()
        check_grads(_make_product(f, mode), (0, 1), modes, order - 1)(x, vector)


def _make_product(f: Callable[..., Any], mode: str) -> Callable[..., Any]:
    """Return the function of ``x`` and a vector that one sweep computes."""

    def push(x: Any, tangent: Any) -> Any:
        return make_jvp(f)(x)(tangent)[1]

    def pull(x: Any, cotangent: Any) -> Any:
        return make_vjp(f)(x)[0](cotangent)

    made, name = (push, "jvp") if mode == "fwd" else (pull, "vjp")
    made.__name__ = f"{name}_of_{get_name(f)}"
    return made


def combo_check(
    fun: Callable[..., Any], *check_args: Any, **check_kwargs: Any
) -> Callable[..., None]:
    """Return a check of all combinations of the arguments that it is given."""

    def check(*args: Any, **kwargs: Any) -> None:
        pairs = [[(key, x) for x in xs] for key, xs in kwargs.items()]
        for chosen in product(*args):
            for settings in product(*pairs):
                check_grads(fun, *check_args, **check_kwargs)(*chosen, **dict(settings))

    return check


def check_vjp(f: Callable[..., Any], x: Any) -> None:
    """Compare the gradient with differences, to the first order."""
    check_grads(f, modes=["rev"], order=1)(x)


def check_jvp(f: Callable[..., Any], x: Any) -> None:
    """Compare the tangent with differences, to the first order."""
    check_grads(f, modes=["fwd"], order=1)(x)


def make_numerical_jvp(f: Callable[..., Any], x: Any) -> Callable[..., Any]:
    """Return the map from a tangent to the difference quotient along it."""
    space, at = vspace(x), vspace(f(x))

    def jvp(v: Any) -> Any:
        ends = [f(space.add(x, space.scalar_mul(v, h))) for h in (5e-7, -5e-7)]
        return at.scalar_mul(at.add(ends[0], at.scalar_mul(ends[1], -1.0)), 1e6)

    return jvp


def nd(f: Callable[..., Any], *args: Any) -> Any:
    """Return numerical gradients by all arguments of a function of one number."""
    made = []
    for i, x in enumerate(args):

        def at(x: Any, i: int = i) -> Any:
            return f(*args[:i], x, *args[i + 1 :])

        slope = make_numerical_jvp(at, x)
        basis = vspace(x).standard_basis()
        made.append(np.reshape([slope(e) for e in basis], np.shape(x)))
    return tuple(made)
