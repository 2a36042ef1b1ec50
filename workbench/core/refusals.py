"""The functions that Workbench refuses, with reasons, and unknown functions.

A function of NumPy is supported, or stands in `REFUSED` with its reason (a test
looks through all of them), or was added to NumPy later: then it is not known.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

import numpy as np

from workbench.core import blame, hooks
from workbench.core.op import CALLS, FUNCTIONS, UFUNCS
from workbench.errors import TraceError

_DATES = "dates have no derivative"
_FILES = "a file holds numbers and no gradient"

#: Functions of NumPy that take arrays and no Tensors: why, and what to write.
REFUSED: dict[str, tuple[str, str]] = {
    "np.busday_count": (_DATES, "np.busday_count(x.value, ...)"),
    "np.busday_offset": (_DATES, "np.busday_offset(x.value, ...)"),
    "np.datetime_as_string": (_DATES, "np.datetime_as_string(x.value)"),
    "np.is_busday": (_DATES, "np.is_busday(x.value)"),
    "np.isnat": (_DATES, "np.isnan(x) for floats"),
    "np.save": (_FILES, "np.save(file, x.value)"),
    "np.savetxt": (_FILES, "np.savetxt(file, x.value)"),
    "np.savez": (_FILES, "np.savez(file, x=x.value)"),
    "np.savez_compressed": (_FILES, "np.savez_compressed(file, x=x.value)"),
}


def name_of(function: object) -> str:
    """Return how users write a function: ``"np.sum"``, ``"scipy.special.gamma"``.

    >>> name_of(np.sum), name_of(np.linalg.inv), name_of(np.add)
    ('np.sum', 'np.linalg.inv', 'np.add')
    """
    name = getattr(function, "__name__", repr(function))
    if isinstance(function, np.ufunc):
        if getattr(np, name, None) is function:
            return f"np.{name}"
        special = sys.modules.get("scipy.special")
        return (
            f"scipy.special.{name}"
            if special is not None and getattr(special, name, None) is function
            else name
        )
    home: str = getattr(function, "__module__", None) or ""
    home = "np" + home.removeprefix("numpy") if home.startswith("numpy") else home
    return f"{home}.{name}" if home else name


def supported_functions() -> dict[str, Any]:
    """Return the functions of NumPy, and of a loaded SciPy, that take Tensors.

    Loads all ops that are not loaded yet, but does not load SciPy for its own.
    """
    for home, module in hooks.OP_MODULES.items():
        if home.partition(".")[0] in sys.modules:
            import_module(module)
    answered = {*filter(callable, FUNCTIONS), *UFUNCS, *CALLS}
    return {name_of(f): f for f in answered if not isinstance(f, type)}


def unsupported_error(function: object, part: str = "") -> TraceError:
    """Return the error for a function that takes no Tensors, at the user's line.

    ``part`` names the method or argument of the function that is meant, such as
    ``".reduceat"``.
    """
    name = name_of(function)
    if isinstance(function, np.ufunc) and {*"".join(function.types)} == {*"O->"}:
        own = function.__name__.removesuffix(" (vectorized)")
        call = "the function" if own.startswith("<") else own
        return TraceError(
            f"np.frompyfunc({own}, ...){blame.user_line()} gives an array of Python"
            f" objects, and gradients would be lost. Call {call} itself on the whole"
            " array, if it is written with NumPy's functions; else entry by entry:"
            " np.stack([f(v) for v in x]). Or declare u, which np.frompyfunc gave:"
            ' workbench.ops.define.elementwise("name", u, "...") with its partial'
            " derivatives as text; or cut the gradient on purpose: give it x.value."
        )
    if name in REFUSED:
        why, instead = REFUSED[name]
        return TraceError(
            f"{name}{part}{blame.user_line()} takes no Tensors: {why}. Write {instead}."
        )
    short = {full.rpartition(".")[2]: full for full in sorted(supported_functions())}
    near = blame.find_similar(name.rpartition(".")[2], short, alike=0.6)
    close = ", ".join(short[n] for n in near if short[n] != name)
    if isinstance(function, np.ufunc):
        add = (
            f'workbench.ops.define.elementwise("{function.__name__}", {name}, "...")'
            " with its partial derivatives as text"
        )
    else:
        add = (
            f"@workbench.core.op.implements({name}) above a function of the same"
            " arguments, written with functions that are known"
        )
    return TraceError(
        f"{name}{part} is not known to Workbench, so its gradient would be lost"
        f"{blame.user_line()}. "
        + (f"Known and near to it: {close}. " if close and not part else "")
        + ("Write it with NumPy functions that are known" if part else f"Add it: {add}")
        + f", or cut the gradient on purpose: give {name}{part} x.value."
    )
