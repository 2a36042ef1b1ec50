"""Settings that hold lengths, measured when the program runs.

In ``np.reshape(x, (n, 2))`` with an unknown ``n`` the settings of the node are
`LengthParams`, where a length is an `OperandLength`, "axis 0 of input 1": it follows
the inputs into every copy of the program, on symbols, batches or arrays. Where no
operand has the length, a Tensor that has it becomes a further input, so that each walk
over a program sees that the node needs it. `measure_lengths` gives what the op takes,
its operands and its settings, with `Dim`s or numbers in the place of places; of a node
as it stands these are `Tensor.operands` and `Tensor.settings`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from types import CodeType
from typing import Any

import numpy as np

from workbench.core import dims, hooks, source
from workbench.core.dims import Atom, Dim, Length, dim_of_atom
from workbench.core.op import OPS, Op
from workbench.core.types import Params, Spec, Specs
from workbench.errors import ShapeError, UnknownLengthError, WorkbenchError


class OperandLength(Atom):
    """The length of an axis of an input, by its position."""

    __slots__ = ("axis", "position")

    def __init__(self, position: int, axis: int) -> None:
        self.position = position
        self.axis = axis
        self.key = (2, position, axis)

    def __str__(self) -> str:
        return f"inputs[{self.position}].shape[{self.axis}]"


def operand_shape(x: Any) -> tuple[Any, ...]:
    """Return the shape of an operand: a Tensor, an array, a number."""
    array = getattr(x, "_value", x)
    if array is None:
        array = x.spec
    shape: tuple[Any, ...] = (
        tuple(array.shape) if hasattr(array, "shape") else np.shape(array)
    )
    return shape


class LengthParams(dict[str, Any]):
    """The settings of a node that name lengths of its inputs.

    The op takes the first ``count`` inputs, the others only have a length.
    """

    __slots__ = ("count",)

    def __init__(self, settings: Params, count: int) -> None:
        super().__init__(settings)
        self.count = count

    def __reduce__(self) -> Any:
        return LengthParams, (dict(self), self.count)


def measure_lengths(
    inputs: Sequence[Any], params: Params, batched: Sequence[bool] = ()
) -> tuple[tuple[Any, ...], Params]:
    """Return the operands and the settings of an op, lengths in the place of places.

    Inputs that are ``batched`` have one axis more, in front. Settings that name no
    place are returned as they are, with all inputs.
    """
    if type(params) is not LengthParams:
        return tuple(inputs), params

    def length(atom: Atom) -> Any:
        if isinstance(atom, OperandLength):
            shape = operand_shape(inputs[atom.position])
            return shape[atom.axis + (bool(batched) and batched[atom.position])]
        return None

    own: Params = dims.replace_dims(dict(params), length)
    return tuple(inputs[: params.count]), own


def compute_op(op: Op, inputs: Sequence[Any], params: Params) -> Any:
    """Compute an op on the values of a node's inputs."""
    operands, settings = measure_lengths(inputs, params)
    return op.compute(*operands, **settings)


def bind_settings(op: Op, params: Params) -> Callable[..., Any]:
    """Return an op with a node's settings as a function of the node's inputs."""
    if type(params) is LengthParams:
        return lambda *inputs: compute_op(op, inputs, params)
    return partial(op.compute, **params) if params else op.compute


def place_lengths(
    inputs: tuple[Any, ...], params: Params
) -> tuple[tuple[Any, ...], LengthParams]:
    """Return a node's inputs and settings, each `Dim` placed in an input."""
    places: dict[Any, OperandLength] = {}
    for position, x in enumerate(inputs):
        if getattr(x, "_value", x) is None:
            _note_places(places, x, position)
    operands = list(inputs)

    def place(atom: Atom) -> Dim | None:
        alone = dim_of_atom(atom)
        at = places.get(alone.key)
        if at is None and isinstance(atom, Length):
            operands.append(_length_owner(atom))
            _note_places(places, operands[-1], len(operands) - 1)
            at = OperandLength(len(operands) - 1, atom.axis)
            places[alone.key] = at
        return None if at is None else dim_of_atom(at)

    placed: Params = {k: _place_length(v, places, place) for k, v in params.items()}
    return tuple(operands), LengthParams(placed, len(inputs))


def _place_length(
    x: object, places: dict[Any, OperandLength], place: Callable[[Atom], Any]
) -> object:
    """Return a setting with places for lengths: whole lengths first, then parts."""
    if isinstance(x, Dim):
        at = places.get(x.key)
        return x.replace(place) if at is None else dim_of_atom(at)
    if isinstance(x, (tuple, list)) and dims.has_dim(x):
        parts: list[Any] = [_place_length(y, places, place) for y in x]
        return type(x)(*parts) if hasattr(x, "_fields") else type(x)(parts)
    return x


def _length_owner(length: Length) -> Any:
    """Return the Tensor that has a length: of a node's outputs the one that does.

    No op but ``item`` takes a tuple: what captures, batches or differentiates operands
    may count on arrays.
    """
    whole, part = length.tensor, length.part
    if part is None:
        return whole
    made = type(whole)(
        OPS["item"], (whole,), (whole._value,), {"index": part}, None, whole.code,
        whole.lasti, whole.context,
    )  # fmt: skip
    made.spec = whole.spec[part]
    return made


def _note_places(places: dict[Any, OperandLength], x: Any, position: int) -> None:
    """Note where each unknown length of a Tensor is found."""
    for axis, n in enumerate(() if isinstance(x.spec, tuple) else x.spec.shape):
        if isinstance(n, Dim):
            places.setdefault(n.key, OperandLength(position, axis))


def fill_own_lengths(node: Any, spec: Specs) -> Any:
    """Return a spec in which each length that is None is one of the node itself."""
    if isinstance(spec, tuple):
        return tuple(_fill_own_lengths(node, s, part) for part, s in enumerate(spec))
    return _fill_own_lengths(node, spec, None)


def _fill_own_lengths(node: Any, spec: Spec, part: int | None) -> Spec:
    if None not in spec.shape:
        return spec
    shape = tuple(
        dim_of_atom(Length(node, axis, part)) if n is None else n
        for axis, n in enumerate(spec.shape)
    )
    return type(spec)(shape, spec.dtype, spec.weak)


def defer_op(
    op: Op,
    inputs: tuple[Any, ...],
    params: Params,
    spec: Specs,
    kind: Callable[..., Any],
    code: CodeType | None,
    lasti: int,
    context: source.Context | None,
) -> Any:
    """Return the Tensor of an op whose settings hold unknown lengths."""
    operands, settings = place_lengths(inputs, params)
    args = tuple([getattr(x, "_value", x) for x in operands])
    node = kind(op, operands, args, settings, None, code, lasti, context)
    node.spec = fill_own_lengths(node, spec)
    return node


# Functions that need a length


def can_defer(
    error: Exception, function: object, args: object, settings: object
) -> bool:
    """Return whether a function failed because a length is not known yet."""
    if isinstance(error, UnknownLengthError) and error.function is function:
        return False
    ours = isinstance(error, WorkbenchError)
    if ours and not isinstance(error, (UnknownLengthError, ShapeError)):
        return False
    stack: list[Any] = [args, settings]
    while stack:
        x = stack.pop()
        if isinstance(x, (tuple, list)):
            stack += x
        elif isinstance(x, dict):
            stack += x.values()
        elif isinstance(x, Dim):
            return True
        elif getattr(x, "_value", x) is None and x is not None:
            specs = x.spec if isinstance(x.spec, tuple) else (x.spec,)
            if any(isinstance(n, Dim) for spec in specs for n in spec.shape):
                return True
    return False


def defer_call(
    error: Exception,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    settings: Params,
) -> Any:
    """Return the node that calls a function once lengths are known.

    Raises
    ------
    Exception
        ``error`` itself, if no lengths satisfy the function.
    """
    try:
        return hooks.call_deferred(function, args, settings)
    except ShapeError:
        if isinstance(error, UnknownLengthError):
            raise
        raise error from None
