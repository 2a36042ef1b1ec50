"""`autograd.wrap_util`: operators on functions of one argument, made to take many."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import wraps as _wraps
from typing import Any

import numpy as np

from workbench.core import tree

__all__ = ["get_doc", "get_name", "unary_to_nary", "wraps"]

Function = Callable[..., Any]
Argnum = int | tuple[int, ...] | list[int]


def get_name(f: Any) -> Any:
    """Return the name of a function."""
    return getattr(f, "__name__", "[unknown name]")


def get_doc(f: Any) -> Any:
    """Return the docstring of a function."""
    return getattr(f, "__doc__", "")


def wraps(
    fun: Any, namestr: str = "{fun}", docstr: str = "{doc}", **names: Any
) -> Callable[[Function], Function]:
    """Name a function after another one: a decorator."""

    def name(f: Function) -> Function:
        with suppress(AttributeError, KeyError, ValueError):
            f.__name__ = namestr.format(fun=get_name(fun), **names)
            f.__doc__ = docstr.format(fun=get_name(fun), doc=get_doc(fun), **names)
        return f

    return name


def as_float(x: Any) -> Any:
    """Return a number or an array of integers, or of numbers as objects, as floats."""
    kind = type(x)
    if kind is float or kind is complex:
        return x
    if kind is np.ndarray:
        if x.dtype.kind in "fc":
            return x
        return x.astype(float) if x.dtype.kind in "iub" else _number_objects(x)
    if kind is int or kind is bool or isinstance(x, (np.integer, np.bool_)):
        return float(x)
    return x


def _number_objects(x: Any) -> Any:
    try:
        return x.astype(float)
    except (TypeError, ValueError):
        return x


def take_argument(x: Any) -> Any:
    """Return what is differentiated by, its integers as floats."""
    return as_float(x) if type(x) is np.ndarray else tree.map_tree(as_float, x)


def check_argnum(argnum: Any) -> None:
    """Refuse what is no position, or no tuple or list of them."""
    if type(argnum) not in (int, tuple, list):
        raise AssertionError(
            f"argnum is the position of an argument, or a tuple of positions, not"
            f" {argnum!r}."
        )


def substitute(args: tuple[Any, ...], argnum: Any, x: Any) -> list[Any]:
    """Return arguments with others at these positions."""
    filled = list(args)
    if type(argnum) is int:
        filled[argnum] = x
    else:
        for place, value in zip(argnum, x, strict=True):
            filled[place] = value
    return filled


def unary_to_nary(unary_operator: Function) -> Function:
    """Let an operator ``(function, x)`` take functions of many arguments.

    The operator made takes the function, and the position of its ``x`` or a tuple of
    positions, whose ``x`` is a tuple; it returns a function of all the arguments.

    Examples
    --------
    >>> from workbench.compat.autograd.wrap_util import unary_to_nary
    >>> double = unary_to_nary(lambda f, x: 2 * f(x))
    >>> double(lambda a, b: a - b, 1)(5.0, 3.0)
    4.0
    """

    @_wraps(unary_operator)
    def nary(fun: Function, argnum: Any = 0, *op_args: Any, **op_kwargs: Any) -> Any:
        check_argnum(argnum)

        def call(*args: Any, **kwargs: Any) -> Any:
            def unary(x: Any) -> Any:
                return fun(*substitute(args, argnum, x), **kwargs)

            single = type(argnum) is int
            x = args[argnum] if single else tuple([args[i] for i in argnum])
            unary.__name__ = str(get_name(fun))
            return unary_operator(unary, take_argument(x), *op_args, **op_kwargs)

        name = f"{get_name(unary_operator)}_of_{{fun}}_wrt_argnum_{argnum}"
        return wraps(fun, name)(call)

    return nary
