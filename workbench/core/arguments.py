"""The arguments of the entry points: functions, their arguments, programs.

Python's own words for a missing argument name a function that the user did not call;
these name what was called, and show the line to write.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from workbench.core.graph import Graph
from workbench.core.tensor import Tensor
from workbench.core.trace import Tracing
from workbench.errors import UsageError


def check_arguments(
    f: Callable[..., Any], args: Sequence[Any], name: str, line: str
) -> None:
    """Raise an error if a function does not take the arguments that are given.

    Parameters
    ----------
    f
        The function.
    args
        Its arguments by position.
    name
        What the user called.
    line
        How that is written, with ``{}`` in the place of the arguments:
        ``"wb.check_grads(f, ({}))"``.

    Raises
    ------
    UsageError
        With the function's parameters, and the line to write.

    Examples
    --------
    >>> check_arguments(lambda a, b: a * b, [1.0], "diagnose", "wb.diagnose(f, {})")
    Traceback (most recent call last):
    workbench.errors.UsageError: diagnose: f(a, b) is given 1 argument. Write
    wb.diagnose(f, a, b), with a value for each.
    """
    signature = _signature(f)
    if signature is None:
        return
    try:
        signature.bind(*args)
    except TypeError:
        count = len(args)
        words = f"{count or 'no'} argument{'s' * (count != 1)}"
        needed = _required_parameters(signature)
        bare = _format_parameters(signature)
        told = f"{name}: {name_of_function(f)}({bare}) is given {words}."
        if count == 1 and isinstance(args[0], list) and len(needed) == len(args[0]):
            told += " A list is one argument; a tuple holds one for each parameter."
        inner = ", ".join(needed)
        if len(needed) == 1 and "({})" in line:
            inner += ","  # a tuple of one
        cure = f" Write {line.format(inner)}, with a value for each."
        raise UsageError(told + (cure if needed else "")) from None


def check_graph(x: object, what: str, line: str) -> None:
    """Raise an error unless the object is a program.

    Parameters
    ----------
    x
        What is given.
    what
        What takes it: ``"a Session"``.
    line
        How that is written, with ``{}`` in the place of the program.

    Raises
    ------
    UsageError
        With the line to write.

    Examples
    --------
    >>> check_graph(lambda x, y: x * y, "a Session", "wb.Session({})")
    Traceback (most recent call last):
    workbench.errors.UsageError: a Session is made of a Graph, and this is a function.
    Trace it with its arguments: wb.Session(wb.trace(f)(x, y)).
    """
    if isinstance(x, Graph):
        return
    if isinstance(x, Tensor):
        form = line.format("wb.Graph([x], [y])")
        problem = f"a Tensor. Name the inputs of the program too: {form}"
    elif isinstance(x, Tracing):
        problem = (
            "the result of wb.trace(f), a function that waits for its arguments. Write"
            f" {line.format(format_trace_call(x.function))}"
        )
    elif callable(x):
        form = line.format(format_trace_call(x))
        problem = f"a function. Trace it with its arguments: {form}"
    else:
        raise UsageError(
            f"{what} is made of a Graph, not {type(x).__name__}. Trace a function:"
            f" {line.format('wb.trace(f)(*args)')}."
        )
    raise UsageError(f"{what} is made of a Graph, and this is {problem}.")


def format_trace_call(f: Callable[..., Any]) -> str:
    """Return the call that makes a graph of a function, for a user to copy.

    >>> format_trace_call(lambda x, y: x * y)
    'wb.trace(f)(x, y)'
    """
    signature = _signature(f)
    names = ["*args"] if signature is None else _required_parameters(signature)
    return f"wb.trace({name_of_function(f)})({', '.join(names or ['*args'])})"


def name_of_function(f: object) -> str:
    """Return the name of a function for a line to show; ``f`` if nameless."""
    name = getattr(f, "__name__", "f")
    return name if isinstance(name, str) and name.isidentifier() else "f"


def _signature(f: Callable[..., Any]) -> inspect.Signature | None:
    try:
        return inspect.signature(f)
    except (TypeError, ValueError):
        return None  # compiled, and does not say


def _format_parameters(signature: inspect.Signature) -> str:
    """Return the parameters of a function without their annotations."""
    bare = [
        p.replace(annotation=inspect.Parameter.empty)
        for p in signature.parameters.values()
    ]
    return str(inspect.Signature(bare))[1:-1]


def _required_parameters(signature: inspect.Signature) -> list[str]:
    """Return the parameters that a call by position must give."""
    return [
        f"*{p.name}" if p.kind is p.VAR_POSITIONAL else p.name
        for p in signature.parameters.values()
        if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.VAR_POSITIONAL)
        and p.default is p.empty
    ]
