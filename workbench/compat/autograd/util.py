"""`autograd.util`: small functions that programs import.

Before autograd 1.2 it held those of `misc.flatten` and `test_util` too.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from workbench.compat.autograd import test_util
from workbench.compat.autograd.misc.flatten import flatten, flatten_func
from workbench.compat.autograd.test_util import check_equivalent, nd
from workbench.compat.autograd.tracer import toposort

__all__ = [
    "check_equivalent",
    "check_grads",
    "flatten",
    "flatten_func",
    "func",
    "nd",
    "quick_grad_check",
    "subval",
    "subvals",
    "toposort",
]


def func(f: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function of a method that was looked up in its class."""
    return f


def subvals(x: Sequence[Any], ivs: Iterable[tuple[int, Any]]) -> tuple[Any, ...]:
    """Return a sequence with other values at some positions."""
    made = list(x)
    for i, value in ivs:
        made[i] = value
    return tuple(made)


def subval(x: Sequence[Any], i: int, v: Any) -> tuple[Any, ...]:
    """Return a sequence with another value at a position."""
    return subvals(x, [(i, v)])


def check_grads(fun: Callable[..., Any], *args: Any) -> None:
    """Check the gradients by all arguments, as before autograd 1.2."""
    test_util.check_grads(fun, tuple(range(len(args))), ["rev"])(*args)


def quick_grad_check(
    fun: Callable[..., Any],
    arg0: Any,
    extra_args: Sequence[Any] = (),
    kwargs: dict[str, Any] | None = None,
    **settings: Any,
) -> None:
    """Check the gradient by the first argument; `check_grads` is its other name."""
    warnings.warn("quick_grad_check is check_grads today.", stacklevel=2)

    def at(x: Any) -> Any:
        return fun(x, *extra_args, **(kwargs or {}))

    test_util.check_grads(at, modes=["rev"], order=1)(arg0)
