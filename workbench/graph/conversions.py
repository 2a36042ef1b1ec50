"""What Python asks of a Tensor: its truth, its number, its length, its items.

Inside a trace, what would turn a Tensor into a plain number is an error with a
cure, because its gradient would be lost in silence.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.errors import TraceError
from workbench.graph import blame, traces

__all__ = ["Conversions"]


class Conversions:
    """The part of `Tensor` that answers Python's own protocols."""

    __slots__ = ()

    if TYPE_CHECKING:
        _value: Any

        @property
        def shape(self) -> tuple[int, ...]: ...  # noqa: D102 stands in tensor.py
        @property
        def site(self) -> Any: ...  # noqa: D102 stands in tensor.py
        def __getitem__(self, index: Any) -> Any: ...

    def __bool__(self) -> bool:
        if self._value is None:
            raise TraceError(
                f"the truth of {_name(self)} is not known while tracing without values"
                f"{blame.at(self.site)}. Write np.where(condition, a, b) in"
                " place of `if`, or trace with values (wb.grad, a %%autodiff cell)."
            )
        return bool(self._value)

    def __float__(self) -> float:
        return float(_plain(self, "float(x)"))

    def __complex__(self) -> complex:
        return complex(_plain(self, "complex(x)"))

    def __int__(self) -> int:
        return int(_plain(self, "int(x)"))

    def __index__(self) -> int:
        return operator.index(_plain(self, "operator.index(x)"))

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError(f"len() of {_name(self)}, which has no axis")
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __contains__(self, item: Any) -> bool:
        return bool(np.any(self == item))

    def __setitem__(self, index: Any, value: Any) -> None:
        raise TraceError(
            f"item assignment to {_name(self)}{blame.here()}"
            ": a traced value never changes in place. Write x = wb.at(x)[i].set(v)"
            " (or .add(v)); in a %%autodiff cell, x[i] = v works on arrays that the"
            " cell made."
        )


def _name(x: Any) -> str:
    return blame.describe(x)


def _plain(x: Any, what: str) -> Any:
    """The value of a Tensor that Python wants as a plain number."""
    integral = what.startswith(("int", "operator")) and x.dtype.kind in "biu"
    if x._value is None or (not integral and traces.active(x)):
        raise blame.lost(x, what)
    return x._value
