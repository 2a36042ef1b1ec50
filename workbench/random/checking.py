"""What a draw asks of its parameters before it is made."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from workbench.core import blame, dims, source, traces
from workbench.core.broadcasting import broadcast_shapes
from workbench.core.shared import Shared
from workbench.core.tensor import Tensor, admit, value_of
from workbench.core.types import Spec, differentiable
from workbench.errors import NotDifferentiableError, ShapeError
from workbench.ops import random
from workbench.ops.define import shape_of

__all__ = [
    "Drawing",
    "checked",
    "constant",
    "extent",
    "fitted",
    "traced",
    "waiting",
]


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
    shape = broadcast_shapes(*map(shape_of, parameters))
    if size is None:
        return shape or None
    whole = tuple(size) if isinstance(size, (tuple, list)) else (size,)
    if not dims.same(broadcast_shapes(whole, shape), whole):
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

    #: Whether they are nodes outside of every trace too.
    always = False

    _shared: Shared | None = None
    _numpys: np.random.Generator | None = None

    @property
    def plain(self) -> np.random.Generator:
        """NumPy's own generator of the same stream."""
        if self._numpys is None:
            self._numpys = np.random.Generator(self.bit_generator)
        return self._numpys

    @property
    def shared(self) -> Shared:
        """The shared value that holds this generator for expressions of symbols.

        Functions that draw from it find it by themselves; ``set_value`` of another
        generator makes them draw from that.
        """
        if self._shared is None:
            spec = Spec((), np.dtype(object))
            self._shared = Shared(self, spec, "rng", source.caller())
        return self._shared

    def _plain(self, name: str, size: Any, **settings: Any) -> Any:
        with source.pinned():
            return random.drawn(self, name, size, settings)


def waiting(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method whose draws wait for the program, if a parameter is a symbol."""

    @wraps(method)
    def called(self: Drawing, *args: Any, **named: Any) -> Any:
        if random.unknown() is None and (
            (self.always and not traces.any_open())
            or any(_unknown(x) for x in (*args, *named.values()))
        ):
            with source.pinned(), random.anchored(self.shared):
                return method(self, *args, **named)
        return method(self, *args, **named)

    return called


def _unknown(x: Any) -> bool:
    """Whether a Tensor without value is a parameter, or inside of one."""
    if isinstance(x, Tensor):
        return x._value is None
    if isinstance(x, (list, tuple)):
        return any(map(_unknown, x))
    return (
        isinstance(x, np.ndarray) and x.dtype == object and any(map(_unknown, x.flat))
    )
