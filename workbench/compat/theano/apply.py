"""`Apply`: an op on some inputs, as old programs make it and look at it.

``gof.Apply(op, inputs, outputs)`` records the op: its outputs are variables of the
types given, whose values the op's ``perform`` computes. Seen from a variable,
``x.owner`` is the same thing again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from workbench.compat.theano.types import as_tensor_variable, type_of
from workbench.core.tensor import IDENTITY, Tensor
from workbench.errors import UsageError
from workbench.ops import several
from workbench.ops.several import ITEM

__all__ = ["Apply", "NotScalarConstantError", "owner", "position", "scalar_value"]


class NotScalarConstantError(UsageError):
    """A constant number was asked of a variable whose value is not known yet."""


class Apply:
    """An op on its inputs, with its outputs.

    Parameters
    ----------
    op
        An instance of a subclass of `theano.Op`.
    inputs
        Variables, or what can be made one.
    outputs
        One new variable per output: ``[x.type()]``. They say the types; the outputs
        themselves are made here.
    """

    def __init__(self, op: Any, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        self.op = op
        self.inputs = [as_tensor_variable(x) for x in inputs]
        record: Callable[[Apply, Sequence[Any]], list[Any]] | None
        record = getattr(op, "record", None)
        if record is None:
            raise UsageError(
                f"Apply of {op!r}, which is no theano.Op: derive its class from"
                " theano.Op, with make_node and perform."
            )
        self.types = [type_of(y) for y in outputs]
        self.outputs = record(self, outputs)

    @property
    def nin(self) -> int:
        """The number of inputs."""
        return len(self.inputs)

    @property
    def nout(self) -> int:
        """The number of outputs."""
        return len(self.outputs)

    @property
    def out(self) -> Any:
        """The only output."""
        if len(self.outputs) != 1:
            raise UsageError(f"{self!r} has {len(self.outputs)} outputs.")
        return self.outputs[0]

    def default_output(self) -> Any:
        """The only output."""
        return self.out

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Apply):
            return NotImplemented
        return _node(self).serial == _node(other).serial

    def __hash__(self) -> int:
        return hash(_node(self).serial)

    def __repr__(self) -> str:
        inputs = ", ".join(x.name or x.op.name for x in self.inputs)
        return f"{self.op}({inputs})"


def _node(made: Apply) -> Tensor:
    """The node of the program behind the outputs."""
    y: Tensor = made.outputs[0]
    whole: Tensor = y.inputs[0] if y.op is ITEM else y
    return whole


def owner(x: Tensor) -> Apply | None:
    """What made a variable; None for a symbol or a constant."""
    node = x.inputs[0] if x.op is ITEM else x
    if node.op is IDENTITY and not node.inputs:
        return None
    made = Apply.__new__(Apply)
    made.op = theirs(node.op)
    made.inputs = [as_tensor_variable(i) for i in node.inputs]
    made.outputs = [x]
    if node is not x:
        found = several.parts(node)
        made.outputs = [x if x.params["index"] == i else y for i, y in
                        enumerate(several.outputs(node))]  # fmt: skip
        assert len(made.outputs) == len(found)
    made.types = [type_of(y) for y in made.outputs]
    return made


def theirs(op: Any) -> Any:
    """The op of an old program behind one of the library's; that itself otherwise."""
    return getattr(getattr(op, "owner", None), "op", op)


def position(x: Tensor) -> int | None:
    """Which output of its owner a variable is."""
    if x.op is IDENTITY and not x.inputs:
        return None
    return int(x.params["index"]) if x.op is ITEM else 0


def scalar_value(x: Tensor) -> Any:
    """The number that a constant holds."""
    if x._value is None or np.ndim(x._value) != 0:
        raise NotScalarConstantError(
            f"{x!r} is no constant number: its value is known when the program runs."
        )
    return np.asarray(x._value)
