"""The names that a rule that is data may use: NumPy's functions, user ops, settings."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from functools import partial
from math import isfinite
from typing import Any, NoReturn

import numpy as np

from workbench.autodiff.budget import MOST_FREE
from workbench.core import dims
from workbench.core.blame import format_count, suggest
from workbench.core.op import CUSTOM, OPS, Op
from workbench.core.refusals import supported_functions
from workbench.core.tensor import apply
from workbench.core.types import Array
from workbench.ops.define import shape_of
from workbench.ops.elementwise import stop_gradient
from workbench.overrides.targets import snake

#: ``function(*inputs, **params)``.
Function = Callable[..., Any]
Refuse = Callable[[str, str], NoReturn]

#: Functions of NumPy that write into arrays, run functions, make arrays of any size
#: from numbers alone, read memory that holds nothing, or give no arrays.
EXCLUDED = frozenset(
    """
    apply_along_axis apply_over_axes arange array array2string array_repr array_str
    can_cast common_type copyto einsum_path empty empty_like eye fill_diagonal full
    geomspace identity linspace logspace may_share_memory min_scalar_type ndim ones
    piecewise place put put_along_axis putmask result_type shape shares_memory size tri
    zeros
    """.split()
)
#: Settings that write, or that are no data.
REFUSED = frozenset(
    {"out", "like", "subok", "casting", "order", "device", "kind", "optimize"}
)
MOST_ENTRIES = 10_000
#: What `find_function` has found.
FOUND: dict[str, Any] = {}
#: How a text names one dtype; NumPy's own reader takes lists and shapes too.
PLAIN_DTYPE = re.compile(r"[<>=|]?[A-Za-z?]\w*", re.ASCII)


def find_op(
    name: str,
    inputs: int,
    outputs: int,
    params: dict[str, Any],
    refuse: Refuse,
    numbers: Sequence[Any] = (),
) -> Function:
    """Return the function of NumPy's, or the elementwise op, that a name means.

    ``numbers`` are those of its inputs that are numbers. Another name, or inputs and
    params that do not fit, are refused.
    """
    plain = name.removeprefix("np.")
    if plain == "identity" or name == "Identity":
        return lambda x, **_: x
    for bad in REFUSED & set(params):
        refuse(f"{name} sets {bad!r}", "A rule does not set it.")
    if (kind := params.get("dtype")) is not None and not _is_numeric(kind):
        refuse(f"{name}: {kind!r} is not a dtype of numbers", 'Write "float64".')
    if plain == "astype":
        if inputs != 1 or set(params) != {"dtype"}:
            refuse("astype takes one input, and the setting dtype", "")
        return _cast
    for candidate in (name, plain, snake(name)):
        if (function := find_function(candidate)) is not None:
            _check(function, name, inputs, outputs, params, refuse)
            if not isinstance(function, np.ufunc):
                _check_lengths([*numbers, *params.values()], refuse, name)
            return function
        op = OPS.get(candidate)
        if op is not None and op.elementwise and not params:
            return partial(_apply, op)
    known = {*list_functions(), *CUSTOM}
    meant = suggest(name, known) or suggest(snake(name), known)
    cure = f"{meant} An op is a function of NumPy's, or one that you have defined."
    refuse(f"the op {name!r} is unknown", cure.lstrip())


def find_function(name: str) -> Function | None:
    """Return the function of NumPy's that a name or an alias means, or None.

    >>> find_function("abs"), find_function("linalg.inv").__name__
    (<ufunc 'absolute'>, 'inv')
    >>> find_function("empty")
    """
    found = FOUND.get(name)
    if found is None:
        functions = list_functions()
        found = functions.get(name) or functions.get(_resolve_alias(name))
        if found is not None:
            FOUND[name] = found
    return found


def _cast(x: Any, *, dtype: Any) -> Any:
    return np.astype(x, dtype)


def _apply(op: Op, *given: Any) -> Any:
    return apply(op, given)


def list_functions() -> dict[str, Any]:
    """Return the functions that a rule may name: NumPy's, without `EXCLUDED`."""
    found = {
        key: f
        for whole, f in supported_functions().items()
        if whole[:3] == "np." and (key := whole[3:]) not in EXCLUDED
    }
    return {**found, "einsum": _einsum, "norm": norm}


def norm(
    x: Array, axis: int | tuple[int, ...] | None = None, keepdims: bool = False
) -> Array:
    """Return the Euclidean norm, also where squares overflow or vanish.

    A gradient that explodes is what it is taken of, and in float32 the square of 1e20
    is infinite. Dividing by a power of 2 changes no digit.
    """
    unknown = dims.has_dim(shape_of(x))  # an unknown length cannot be compared yet
    found: Array
    if not unknown and 0 in shape_of(x):
        found = np.linalg.norm(x, axis=axis, keepdims=keepdims)
        return found
    none: dict[str, Any] = {"initial": 0} if unknown else {}
    largest = stop_gradient(np.max(np.abs(x), axis=axis, keepdims=True, **none))
    usual = np.logical_and(largest > 0, np.isfinite(largest))
    power = np.floor(np.log2(np.where(usual, largest, 1)))
    size = np.exp2(power - np.sign(power))  # the next one may be infinite
    found = np.linalg.norm(x / size, axis=axis, keepdims=True) * size
    if not keepdims:
        found = np.reshape(found, ()) if axis is None else np.squeeze(found, axis)
    return found


def _einsum(*operands: Any, subscripts: str | None = None) -> Any:
    """Return `numpy.einsum`; its text is a setting, for a node reads no text."""
    if subscripts is None:
        return np.einsum(*operands)
    if not isinstance(subscripts, str):
        raise TypeError(f"subscripts={subscripts!r} is no text")
    return np.einsum(subscripts, *operands)


def _is_numeric(kind: Any) -> bool:
    """Return whether a setting names a dtype of numbers, or a setting of the node."""
    return isinstance(kind, str) and (kind[:1] == "$" or read_dtype(kind) is not None)


def read_dtype(name: Any) -> np.dtype[Any] | None:
    """Return the dtype of numbers that a text names, or None."""
    if not isinstance(name, str) or not PLAIN_DTYPE.fullmatch(name):
        return None
    try:
        made = np.dtype(name)
    except (TypeError, ValueError):
        return None
    return made if made.kind in "biufc" else None


def _resolve_alias(name: str) -> str:
    """Return NumPy's first name for an alias: ``absolute`` for ``abs``."""
    function = vars(np).get(name)  # NumPy imports modules for names that it lacks
    return str(getattr(function, "__name__", name))


def find_custom_op(
    name: str, params: dict[str, Any], refuse: Refuse
) -> Function | None:
    """Return the function of a user's op; None for other names."""
    name = name if name in CUSTOM else snake(name)
    if name not in CUSTOM:
        return None
    maker = CUSTOM[name].maker
    made = maker() if maker is not None else None
    if made is None:
        refuse(
            f"the op {name!r} cannot be called by its name",
            "Name an op: a class, or what wb.OpFromGraph made.",
        )
    if not isinstance(made, type):
        whole = made
        return lambda *given, **_: whole(*given)
    if not any(isinstance(v, str) and v[:1] == "$" for v in params.values()):
        try:
            made(**params)
        except TypeError as error:
            refuse(f"{name}: {error}", "Give the settings of the op.")

    def run(*given: Any, **settings: Any) -> Any:
        # As it is defined when the rule runs: a cell may have run again.
        entry = CUSTOM.get(name)
        kind = None if entry is None or entry.maker is None else entry.maker()
        return (kind or made)(**settings)(*given)

    return run


def _check(
    function: Any,
    name: str,
    inputs: int,
    outputs: int,
    params: dict[str, Any],
    refuse: Refuse,
) -> None:
    """Raise an error if a function does not take so many inputs, or these params."""
    if isinstance(function, np.ufunc):
        if function.nin != inputs or function.nout != outputs:
            refuse(
                f"{name} takes {format_count(function.nin, 'input')} and gives"
                f" {format_count(function.nout, 'output')}, not {inputs} and {outputs}",
                "",
            )
        if extra := sorted(set(params) - {"dtype"}):
            refuse(f"{name} has no setting {extra[0]!r}", "")
        return
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return  # compiled, and does not say
    try:
        bound = signature.bind(*[None] * inputs, **params)
    except TypeError as error:
        refuse(f"{name}{signature} does not take what it is given: {error}", "")
    for bad in REFUSED.intersection(bound.arguments):  # by position
        refuse(f"{name} sets {bad!r}", "A rule does not set it.")


def _check_lengths(values: Sequence[Any], refuse: Refuse, name: str) -> None:
    """Raise an error if numbers ask for more entries than a rule may make."""
    for value in values:
        found, stack = 1, [value]
        while stack:
            x = stack.pop()
            stack += x if isinstance(x, tuple) else ()
            found *= max(abs(x), 1) if type(x) is int else 1
            if found > MOST_FREE:
                refuse(
                    f"{name} asks for more than {MOST_FREE:,} entries",
                    "Write a function rule(node, g).",
                )


def check_setting(value: Any, refuse: Refuse, where: str) -> Any:
    """Return a setting with lists as tuples, or refuse one that is not plain data."""
    count = 0
    stack = [(value, 0)]
    while stack:
        x, depth = stack.pop()
        count += 1
        if isinstance(x, (list, tuple)):
            stack += [(part, depth + 1) for part in x]
        elif isinstance(x, float) and not isfinite(x):
            refuse(f"{where} has the number {x}", "A constant is finite.")
        elif not (x is None or isinstance(x, (bool, int, float, str))):
            refuse(
                f"{where} has {type(x).__name__} among its params",
                "A param is a number, a text, None or a list of them.",
            )
        if count > MOST_ENTRIES or depth > 10 or (isinstance(x, str) and len(x) > 1000):
            refuse(f"{where} has a param that is too large", "")
        if isinstance(x, int) and abs(x) > 2**53:
            refuse(f"{where} has an integer beyond 2**53", "Write it as a float.")
    return _freeze(value)


def _freeze(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return tuple(map(_freeze, value))
    return value
