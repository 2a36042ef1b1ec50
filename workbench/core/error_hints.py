"""What NumPy and SciPy say of Tensors that they do not see, in words that help.

``np.array([t, u])`` is an array of objects, and compiled code takes Tensors for numbers
that they are not. Both end in errors that tell nobody what to write.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Any

import numpy as np

from workbench.core import blame, source
from workbench.core.blame import instead, library_call, numpy_call
from workbench.core.tensor import Tensor
from workbench.errors import GradientLostError, ShapeError, TraceError, WorkbenchError

#: What NumPy says when a Tensor is to become an entry of a plain array.
STORING = (
    "setting an array element with a sequence",
    "Error setting single item of array",  # x.flat[i] = v
)
#: What its functions of numbers say of an array of Tensors.
OBJECTS = (
    "which has no callable",  # np.exp, of Tensors beside plain numbers
    "from dtype('O')",  # np.linalg.det
    "not supported for the input types",  # np.fft.fft
)


def place(error: BaseException) -> str:
    """The user's line in a traceback, as an error quotes it."""
    found = ""
    for step in _steps(error):
        if not source.internal(step.tb_frame):
            found = blame.at(source.decode(step.tb_frame.f_code, step.tb_lasti))
    return found


def explained(error: Exception, locked: bool) -> Exception | None:
    """What to raise in place of a ValueError or TypeError of a traced function.

    ``locked`` tells whether the trace has made arrays read-only. None for an error
    that says it all.
    """
    if isinstance(error, WorkbenchError):  # told by a trace inside of this one
        return None
    text, where = str(error), place(error)
    called = _library(error)
    stored = any(part in text for part in STORING) or isinstance(
        error.__cause__, GradientLostError
    )
    if called is not None and (stored or _took_tensors(error)):
        return GradientLostError(
            f"{called}{where} does not see Tensors, whose gradient would be lost"
            f" ({text.rstrip('.')}). {instead(called)}, or give it x.value to cut the"
            " gradient on purpose."
        )
    if "inhomogeneous" in text:
        return ShapeError(
            f"rows of different lengths make no array{where}: {text}"
            " Pad them to one length, or keep them apart in a list."
        )
    if stored:
        return GradientLostError(blame.STORED.format(where))
    if any(part in text for part in OBJECTS):
        asked = next((s.tb_frame for s in _steps(error) if _numpys(s)), None)
        named = (numpy_call(asked) if asked else None) or "a NumPy function"
        return TraceError(
            f"{named} meets an array of objects{where}: np.array([...]) and lists of"
            f" Tensors are no array of numbers to it ({text}). Make one Tensor of them"
            " with np.array([...], like=x), where x is any Tensor or array."
        )
    if "read-only" in text and locked:
        return TraceError(
            f"an array that the trace has used is changed in place{where}, and its"
            " gradient would be wrong. Work on a .copy(), or make a new array in each"
            " step."
        )
    return None


def _steps(error: BaseException) -> Iterator[TracebackType]:
    """A traceback, from the outermost call to where the error arose."""
    step = error.__traceback__
    while step is not None:
        yield step
        step = step.tb_next


def _home(step: TracebackType) -> str:
    return str(step.tb_frame.f_globals.get("__name__", ""))


def _numpys(step: TracebackType) -> bool:
    return _home(step).startswith("numpy.")


def _library(error: BaseException) -> str | None:
    """The function of SciPy or scikit-learn in which an error arose."""
    last = list(_steps(error))[-1:]
    return library_call(last[0].tb_frame) if last else None


def _took_tensors(error: BaseException) -> bool:
    """Whether a function of the library in which an error arose was given Tensors."""
    return any(
        _holds(value)
        for step in _steps(error)
        if _home(step).startswith(("scipy.", "sklearn."))
        for value in step.tb_frame.f_locals.values()
    )


def _holds(value: Any) -> bool:
    """Whether a value is a Tensor, an array of them, or a tuple or list with one."""
    if isinstance(value, np.ndarray) and value.dtype == object:
        return any(isinstance(x, Tensor) for x in value.flat)
    if isinstance(value, (list, tuple)):
        return any(map(_holds, value))
    return isinstance(value, Tensor)
