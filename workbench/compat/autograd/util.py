"""`autograd.util`: small functions that programs import."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from workbench.compat.autograd.test_util import check_grads
from workbench.compat.autograd.tracer import toposort

__all__ = ["func", "quick_grad_check", "subval", "subvals", "toposort"]


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

    check_grads(at, modes=["rev"], order=1)(arg0)
