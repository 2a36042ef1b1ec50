"""What ufuncs do besides being called plainly: methods and keyword arguments.

`np.add.reduce` is `np.sum`, `np.multiply.accumulate` is `np.cumprod`, and so on;
`dtype=` casts the operands. ``out=`` and ``where=`` write into arrays that exist,
which a traced program cannot do, and say what to write instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from workbench.core import blame, hooks
from workbench.core.op import CALLS, UFUNCS, load
from workbench.core.refusals import unknown
from workbench.core.tensor import admit, apply
from workbench.core.types import weak
from workbench.errors import TraceError
from workbench.ops.complex_parts import sign
from workbench.ops.define import no_out, shape_of
from workbench.ops.rounding import frexp, modf
from workbench.ops.ufunc_methods import accumulate, reduce, reduceat

Ufunc = Any


@hooks.call_ufunc.set
def _answer(
    ufunc: Ufunc, method: str, inputs: tuple[Any, ...], settings: dict[str, Any]
) -> Any:
    """Answer every use of a ufunc that is not a plain call of a known op."""
    name = ufunc.__name__
    if getattr(np, name, None) is ufunc:  # not one of SciPy's
        name = f"np.{name}"
    if method == "at":
        raise TraceError(
            f"{name}.at{blame.here()} writes in place, and the gradient would be lost."
            " Write x = wb.at(x)[i].add(v), or .multiply, .min, .max, .set."
        )
    no_out(
        name if method == "__call__" else f"{name}.{method}", settings.pop("out", None)
    )
    answer = METHODS.get(method)
    if answer is None:
        raise unknown(ufunc, f".{method}")
    return answer(ufunc, name, *inputs, **settings)


# A call: with keyword arguments, or of a ufunc that is written with other ops


def _call(
    ufunc: Ufunc,
    name: str,
    *inputs: Any,
    where: Any = True,
    dtype: Any = None,
    **settings: Any,
) -> Any:
    if where is not True:
        raise TraceError(
            f"{name}(..., where=...){blame.here()} leaves memory as it was where the"
            f" condition fails, which a traced value does not have. Write"
            f" np.where(condition, {name}(...), 0)."
        )
    named = {}
    if ufunc is np.vecdot and "axis" in settings:
        named["axis"] = settings.pop("axis")
    for setting in ("signature", "axes", "axis", "keepdims"):
        if settings.get(setting) is not None:
            raise unknown(ufunc, f"(..., {setting}=...)")
    if dtype is not None:
        arrays = tuple(map(admit, inputs))
        inputs = tuple(x if weak(x) else x.astype(dtype) for x in arrays)
    if ufunc in UFUNCS:
        return apply(UFUNCS[ufunc], inputs)
    if ufunc in CALLS:
        return CALLS[ufunc](*inputs, **named)
    if load(ufunc) and (ufunc in UFUNCS or ufunc in CALLS):
        return _call(ufunc, name, *inputs, dtype=dtype, **named)
    raise unknown(ufunc)


CALLS[np.divmod] = lambda a, b: (np.floor_divide(a, b), np.remainder(a, b))
CALLS.update({np.sign: sign, np.frexp: frexp, np.modf: modf})


# outer


def _outer(ufunc: Ufunc, name: str, a: Any, b: Any, **settings: Any) -> Any:
    a, b = admit(a), admit(b)
    tall = np.reshape(a, shape_of(a) + (1,) * len(shape_of(b)))
    return _call(ufunc, name, tall, b, **settings)


METHODS: dict[str, Callable[..., Any]] = {
    "__call__": _call,
    "reduce": reduce,
    "accumulate": accumulate,
    "reduceat": reduceat,
    "outer": _outer,
}
