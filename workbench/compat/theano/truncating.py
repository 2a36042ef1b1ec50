"""``scan(truncate_gradient=k)``: a gradient that goes back through the last steps only.

A step before the last ``k`` hands on its outputs without their gradient: nothing that
it read gets one, and neither does what came before it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from workbench.compat.theano.tensor.lengths import as_length
from workbench.compat.theano.tensor.making import arange
from workbench.compat.theano.types import as_tensor_variable
from workbench.control_flow.returned import Until
from workbench.core.broadcasting import smallest
from workbench.core.tensor import Tensor
from workbench.core.types import differentiable
from workbench.errors import UsageError
from workbench.ops.arithmetic import stop_gradient

__all__ = ["truncated"]


def truncated(
    fn: Callable[..., Any], sequences: Sequence[Any], n_steps: Any, last: Any
) -> tuple[Callable[..., Any], list[Any]]:
    """The step and the sequences of a loop whose gradient reads ``last`` steps."""
    if not isinstance(last, (int, np.integer)) or last < 1:
        raise UsageError(
            f"scan: truncate_gradient={last!r} is the number of steps that the gradient"
            " goes back, or -1 for all of them."
        )
    n = as_length(n_steps) if n_steps is not None else _steps(sequences)
    first = as_tensor_variable(n) - int(last)

    def step(k: Any, *args: Any) -> Any:
        return _gated(fn(*args), k >= first)

    return step, [arange(n), *sequences]


def _steps(sequences: Sequence[Any]) -> Any:
    """How many steps the sequences make."""
    lengths = []
    for entry in sequences:
        taps: Any = (0,)
        if isinstance(entry, Mapping):
            taps = np.atleast_1d(entry.get("taps") or 0).tolist()
            entry = entry["input"]
        lengths.append(entry.shape[0] - max(0, *taps) + min(0, *taps))
    if not lengths:
        raise UsageError("scan: there are no sequences. Give n_steps=.")
    n = lengths[0]
    for length in lengths[1:]:
        n = smallest(n, length)
    return n


def _gated(made: Any, open_: Any) -> Any:
    """What a step returns, with its gradient where ``open_`` is true."""
    if isinstance(made, (list, tuple)):
        return type(made)([_gated(y, open_) for y in made])
    if isinstance(made, Until):
        raise UsageError(
            "scan: with truncate_gradient the number of steps must be known before the"
            " loop runs, and until() ends it earlier."
        )
    if isinstance(made, Tensor) and differentiable(made.dtype):
        return np.where(open_, made, stop_gradient(made))
    return made
