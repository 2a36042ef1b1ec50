"""What errors say of a Tensor: the op, the shapes, the user's line, the cure.

`tensor.py` raises these, so a Tensor is `Any` here.
"""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import numpy as np

from workbench.errors import DtypeError, GradientLostError, MatrixError, ShapeError
from workbench.graph import source, types
from workbench.graph.libraries import instead, library_call
from workbench.graph.op import Op

__all__ = ["at", "describe", "here", "lost", "refusal"]


def here() -> str:
    """The user's line that runs now, as an error quotes it."""
    return at(source.decode(*source.caller()))


def describe(x: Any) -> str:
    """How an error names a Tensor: ``tanh 'h' float64[569, 16]``."""
    name = f" {x.name!r}" if x.name else ""
    op = "the input" if x.op.name == "identity" else x.op.name
    return f"{op}{name} {types.spec_of(x)}"


def at(site: source.Site | None) -> str:
    """A place as an error quotes it: ``" (at [3]:1: h = np.tanh(x))"``."""
    return "" if site is None else f" (at {site.place}: {site.text})"


def lost(x: Any, what: str, called: str | None = None) -> GradientLostError:
    """The error for a Tensor that would become a plain number.

    ``called`` is the function of SciPy or scikit-learn that asks for the number;
    found where none is given.
    """
    called = called or library_call(_asking())
    if called is not None:
        return GradientLostError(
            f"{called}{here()} does not see Tensors, and {describe(x)} would lose its"
            f" gradient. {instead(called)}, or give it x.value to cut the gradient on"
            " purpose."
        )
    why = (
        "has no value while tracing without values"
        if x._value is None
        else "would lose its gradient"
    )
    return GradientLostError(
        f"{what}: {describe(x)} {why}{here()}. Write the"
        " NumPy spelling, which keeps the gradient (np.sin(x) in place of math.sin(x),"
        " x itself in place of float(x)), or x.value to cut it on purpose."
    )


def _asking() -> FrameType | None:
    """The nearest frame outside Workbench."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals["__name__"].startswith("workbench."):
        frame = frame.f_back
    return frame


def refusal(
    op: Op, args: tuple[Any, ...], error: Exception, code: Any, lasti: int
) -> Exception:
    """NumPy's refusal, with the op, the operands and the user's line."""
    if not isinstance(error, (ValueError, TypeError)) or isinstance(error, ShapeError):
        return error
    operands = ", ".join(
        repr(types.spec_of(x)) if hasattr(x, "shape") else repr(x) for x in args
    )
    cure = op.cure or (
        "Shapes are compared from the right; each pair must be equal or 1: add an axis"
        " with x[:, None] or reshape one operand."
        if op.elementwise
        else "Compare the shapes with what the function expects."
    )
    kind: type[Exception] = ShapeError if isinstance(error, ValueError) else DtypeError
    if isinstance(error, np.linalg.LinAlgError) and "must be" not in str(error):
        kind = MatrixError
        cure = "Look at its eigenvalues; a small multiple of np.eye(n) added may do."
    elif isinstance(error, TypeError):
        cure = "Convert the operands to one numeric dtype with .astype."
    return kind(
        f"{op.name}({operands}){at(source.decode(code, lasti))}: {error}. {cure}"
    )
