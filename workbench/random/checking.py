"""What a draw asks of its parameters before it is made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from workbench.errors import NotDifferentiableError, ShapeError
from workbench.graph import blame, source, traces
from workbench.graph.tensor import Tensor, admit, value_of
from workbench.graph.types import differentiable
from workbench.ops.define import shape_of
from workbench.ops.random import draws

__all__ = ["Drawing", "checked", "constant", "extent", "fitted", "traced"]


def traced(*parameters: Any) -> bool:
    """Whether a Tensor is among the parameters, or inside of one."""
    return any(
        isinstance(x, Tensor)
        or (isinstance(x, (list, tuple)) and traced(*x))
        or (isinstance(x, np.ndarray) and x.dtype == object)
        for x in parameters
    )


def constant(x: Any, call: str) -> Any:
    """A parameter through which no derivative goes."""
    if not traced(x):
        return x
    x = admit(x)
    cut = not differentiable(x.dtype) or x.op.name == "stop_gradient"
    if cut or (x._value is not None and not traces.active(x)):
        return x if x._value is None else x._value
    raise NotDifferentiableError(
        f"{call}{blame.here()}: a draw has no derivative by {blame.describe(x)}, not at"
        " fixed noise either. Write wb.stop_gradient(x) in its place to draw at"
        " its value; the gradient of an expectation then needs the score function: add"
        " wb.stop_gradient(loss) * log_probability(draw, x) to what is differentiated."
    )


def extent(call: str, size: Any, *parameters: Any) -> Any:
    """The shape of the draws; None for one number."""
    shape = np.broadcast_shapes(*map(shape_of, parameters))
    if size is None:
        return shape or None
    whole = (size,) if isinstance(size, (int, np.integer)) else tuple(size)
    if np.broadcast_shapes(whole, shape) != whole:
        raise ShapeError(
            f"{call}{blame.here()}: size {whole} does not hold parameters of shape"
            f" {shape}. Give size=None, or a size that they are stretched to."
        )
    return whole


def checked(call: str, condition: Callable[[Any], Any], **parameters: Any) -> None:
    """NumPy's refusal of a parameter out of range, where its value is known."""
    for name, x in parameters.items():
        value = value_of(x)
        if value is not None and not np.all(condition(value) | np.isnan(value)):
            raise ValueError(f"{call}{blame.here()}: {name} = {value} is out of range")


def fitted(z: Any, *parameters: Any) -> Any:
    """The noise in the library of the parameters: NumPy draws on the host."""
    for x in parameters:
        value = value_of(x)
        if hasattr(value, "__cuda_array_interface__"):
            return np.asarray(z, like=value)
    return z


class Drawing(np.random.Generator):
    """NumPy's generator, whose draws are nodes in a traced program."""

    def _plain(self, name: str, size: Any, **settings: Any) -> Any:
        with source.pinned():
            return draws.drawn(self, name, size, settings)
