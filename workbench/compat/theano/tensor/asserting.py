"""`Assert`: a variable that is what it was, if a condition holds."""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.compat.theano.apply import Apply
from workbench.compat.theano.op import Op
from workbench.compat.theano.types import as_tensor_variable

__all__ = ["Assert"]


class Assert(Op):
    """Hand on a variable, or raise `AssertionError` if a condition is false."""

    __props__ = ("msg",)

    def __init__(self, msg: str = "Theano Assert failed!") -> None:
        self.msg = msg

    def make_node(self, value: Any, *conds: Any) -> Apply:
        """One output, of the type of the first input."""
        value = as_tensor_variable(value)
        return Apply(self, [value, *conds], [value.type()])

    def perform(self, node: Any, inputs: Any, output_storage: Any) -> None:
        """Look at the conditions, and hand on."""
        value, *conds = inputs
        if not all(map(np.all, conds)):
            raise AssertionError(self.msg)
        output_storage[0][0] = value

    def infer_shape(self, node: Any, shapes: Any) -> Any:
        """As the first input."""
        return [shapes[0]]

    def grad(self, inputs: Any, output_grads: Any) -> Any:
        """What arrives, to the first input."""
        return [output_grads[0], *[None] * (len(inputs) - 1)]

    def R_op(self, inputs: Any, eval_points: Any) -> Any:
        """What moves."""
        return [eval_points[0]]
