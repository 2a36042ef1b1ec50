"""The base of every generator: draws as nodes, and checks of their parameters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, SupportsIndex

import numpy as np

from workbench.core import blame, dims, source, traces
from workbench.core.dims import broadcast_shapes
from workbench.core.shared import Shared
from workbench.core.tensor import Tensor, admit, value_of
from workbench.core.types import Array, Spec, is_differentiable
from workbench.errors import NotDifferentiableError, ShapeError
from workbench.ops import random
from workbench.ops.define import shape_of

#: The shape of what is drawn; None is that of the parameters.
Size = SupportsIndex | Sequence[SupportsIndex] | None

# The methods that take the place of NumPy's are typed with Any as their result: NumPy
# types a single draw as a float.


def has_tensor(*parameters: object) -> bool:
    """Return whether a Tensor is among the parameters, or inside one of them."""
    return any(
        isinstance(x, Tensor)
        or (isinstance(x, (list, tuple)) and has_tensor(*x))
        or (isinstance(x, np.ndarray) and x.dtype == object)
        for x in parameters
    )


def require_constant(x: object, call: str) -> Any:
    """Return a parameter through which no derivative goes.

    Raises
    ------
    NotDifferentiableError
        For a Tensor that would need one.
    """
    if not has_tensor(x):
        return x
    tensor: Any = admit(x)
    value = tensor._value
    is_constant = (
        not is_differentiable(tensor.dtype) or tensor.op.name == "stop_gradient"
    )
    if is_constant or (value is not None and not traces.is_active(tensor)):
        return tensor if value is None else value
    raise NotDifferentiableError(
        f"{call}{blame.user_line()}: a draw has no derivative by {blame.describe(x)},"
        " not at fixed noise either. Write wb.stop_gradient(x) in its place to draw at"
        " its value; the gradient of an expectation then needs the score function: add"
        " wb.stop_gradient(loss) * log_probability(draw, x) to the loss."
    )


def broadcast_size(
    call: str, size: Size, *parameters: object
) -> tuple[Any, ...] | None:
    """Return the shape of the draws; None for one number.

    Raises
    ------
    ShapeError
        If the parameters do not broadcast to ``size``.
    """
    shape = broadcast_shapes(*map(shape_of, parameters))
    if size is None:
        return shape or None
    drawn = tuple(size) if isinstance(size, (tuple, list)) else (size,)
    if not dims.is_same_shape(broadcast_shapes(drawn, shape), drawn):
        raise ShapeError(
            f"{call}{blame.user_line()}: size {drawn} does not hold parameters of shape"
            f" {shape}. Give size=None, or a size that they broadcast to."
        )
    return drawn


def check_range(
    call: str, condition: Callable[[Any], Any], **parameters: object
) -> None:
    """Refuse a parameter out of range as NumPy does, where its value is known."""
    for name, x in parameters.items():
        value = value_of(x)
        if value is not None and not np.all(condition(value) | np.isnan(value)):
            raise ValueError(
                f"{call}{blame.user_line()}: {name} = {value} is out of range"
            )


def match_library(z: Array, *parameters: object) -> Array:
    """Return noise, which NumPy drew, as an array of the library of the parameters."""
    for x in parameters:
        value = value_of(x)
        if hasattr(value, "__cuda_array_interface__"):
            return np.asarray(z, like=value)
    return z


class Drawing(np.random.Generator):
    """NumPy's generator, with draws that are nodes in a traced program."""

    #: Whether the draws are nodes outside of every trace too.
    is_stream = False

    _shared: Shared | None = None
    _plain: np.random.Generator | None = None

    @property
    def plain(self) -> np.random.Generator:
        """NumPy's own generator of the same stream."""
        if self._plain is None:
            self._plain = np.random.Generator(self.bit_generator)
        return self._plain

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

    def _draw(self, name: str, size: Any, **settings: Any) -> Array:
        """Draw from one of NumPy's laws with constant parameters."""
        with source.pin_line():
            return random.draw_sample(self, name, size, settings)


def defer_draws(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method that draws when the program runs, if a parameter is a symbol."""

    @wraps(method)
    def draw(self: Drawing, *args: Any, **named: Any) -> object:
        if random.find_anchor() is None and (
            (self.is_stream and not traces.has_open_trace())
            or any(_has_unknown(x) for x in (*args, *named.values()))
        ):
            with source.pin_line(), random.anchor_draws(self.shared):
                return method(self, *args, **named)
        return method(self, *args, **named)

    return draw


def _has_unknown(x: object) -> bool:
    """Return whether a parameter is a Tensor without a value, or holds one."""
    if isinstance(x, Tensor):
        return x._value is None
    if isinstance(x, (list, tuple)):
        return any(map(_has_unknown, x))
    return (
        isinstance(x, np.ndarray)
        and x.dtype == object
        and any(map(_has_unknown, x.flat))
    )


#: How the methods that tables make describe their parameter ``size``.
SIZE_TEXT = "The shape of the result; by default that of the parameters."


def describe_method(
    method: Any, name: str, summary: str, texts: dict[str, str]
) -> Callable[..., Any]:
    """Name a method, and write its docstring in numpydoc's layout."""
    method.__name__, method.__qualname__ = name, f"Generator.{name}"
    parameters = "".join(f"\n{key}\n    {text}" for key, text in texts.items())
    method.__doc__ = f"{summary}\n\nParameters\n----------{parameters}\n"
    return method
