"""Ops with settings that hold lengths, measured when the program runs.

``np.reshape(x, (n, 2))`` with an unknown ``n`` becomes a node of the op
``DeferredOp(reshape)``. In its settings a length is an `OperandLength`, "axis 0 of
operand 1": it follows the operands into every copy of the program, on symbols, batches
or arrays.
Where no operand has the length, a Tensor that has it becomes a further operand, so
each walk over a program sees that the node needs it. Rules get the op's own operands
and settings, with `Dim`s or numbers in place of these. Who reads a node asks any op
alike: `Op.base` is the op whose rules these are, `Op.measure_lengths` gives the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from types import CodeType
from typing import Any

import numpy as np

from workbench.core import dims, hooks, source
from workbench.core.dims import Atom, Dim, Length, dim_of_atom
from workbench.core.infer import infer_spec
from workbench.core.op import OPS, Op
from workbench.core.types import Params, Spec, Specs
from workbench.errors import ShapeError, UnknownLengthError, WorkbenchError


class OperandLength(Atom):
    """The length of an axis of an operand, by its position."""

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


#: What a deferred op has in common with its base. Not ``joins``: lengths may come from
#: further operands, which are no parts.
_SHARED = (
    "carries", "combines", "cure", "custom", "graphs", "inner_sources", "kind", "lower",
    "passes", "pattern", "reads", "repeats", "rule", "traits", "view",
)  # fmt: skip


class DeferredOp(Op):
    """An op on ``count`` operands, with settings that name places of its operands."""

    __slots__ = ("base", "count")
    base: Op

    def __init__(self, base: Op, count: int) -> None:
        super().__init__(base.name)
        self.base = base
        self.count = count
        self.compute = self._compute
        for fact in _SHARED:
            setattr(self, fact, getattr(base, fact))
        self.masked = None if base.masked is None else deferred_op(base.masked, count)
        self.pull = None if base.pull is None else self._pull
        self.push = None if base.push is None else self._push
        self.unfold = None if base.unfold is None else self._unfold
        self.pairs = None if base.pairs is None else self._pairs

    def __reduce__(self) -> Any:
        return deferred_op, (self.base, self.count)

    def measure_lengths(
        self, inputs: Sequence[Any], params: Params, batched: Sequence[bool] = ()
    ) -> tuple[Op, tuple[Any, ...], Params]:
        """Return the base, its own operands, and settings with lengths for places."""

        def length(atom: Atom) -> Any:
            if isinstance(atom, OperandLength):
                shape = operand_shape(inputs[atom.position])
                return shape[atom.axis + (bool(batched) and batched[atom.position])]
            return None

        own: Params = dims.replace_dims(params, length)
        return self.base, tuple(inputs[: self.count]), own

    def _unfold(self, values: Sequence[Any], params: Params) -> Sequence[Any] | None:
        base, own, settings = self.measure_lengths(values, params)
        assert base.unfold is not None
        return base.unfold(own, settings)

    def _pairs(self, inputs: tuple[Any, ...], params: Params) -> bool:
        base, own, settings = self.measure_lengths(inputs, params)
        assert base.pairs is not None
        return base.pairs(own, settings)

    def _compute(self, *arrays: Any, **params: Any) -> Any:
        base, own, settings = self.measure_lengths(arrays, params)
        return base.compute(*own, **settings)

    def _pull(
        self,
        mask: int,
        g: Any,
        y: Any,
        inputs: tuple[Any, ...],
        params: Params,
        *inside: Any,
    ) -> Sequence[Any]:
        base, own, settings = self.measure_lengths(inputs, params)
        mask &= (1 << self.count) - 1
        assert base.pull is not None
        return list(base.pull(mask, g, y, own, settings, *inside)) if mask else []

    def _push(
        self,
        tangents: tuple[Any, ...],
        y: Any,
        inputs: tuple[Any, ...],
        params: Params,
        *inside: Any,
    ) -> Any:
        base, own, settings = self.measure_lengths(inputs, params)
        tangents = tangents[: self.count]
        if all(t is None for t in tangents):
            return None
        assert base.push is not None
        return base.push(tangents, y, own, settings, *inside)


@cache
def deferred_op(base: Op, count: int) -> DeferredOp:
    """Return the one op that stands for ``base`` on so many operands."""
    return DeferredOp(base, count)


def place_lengths(
    op: Op, inputs: tuple[Any, ...], params: Params
) -> tuple[DeferredOp, tuple[Any, ...], Params]:
    """Return a node's op, operands and settings, each `Dim` placed in an operand."""
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
    return deferred_op(op, len(inputs)), tuple(operands), placed


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


def unwrap_deferred(node: Any) -> tuple[Op, tuple[Any, ...], Params]:
    """Return the op, own operands and settings of any node, with lengths for places."""
    made: tuple[Op, tuple[Any, ...], Params] = node.op.measure_lengths(
        node.inputs, node.params
    )
    return made


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
    kind: Callable[..., Any],
    code: CodeType | None,
    lasti: int,
    context: source.Context | None,
) -> Any:
    """Return the Tensor of an op with settings that hold unknown lengths."""
    spec = infer_spec(op, inputs, params)
    waiting, operands, settings = place_lengths(op, inputs, params)
    args = tuple([getattr(x, "_value", x) for x in operands])
    node = kind(waiting, operands, args, settings, None, code, lasti, context)
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
