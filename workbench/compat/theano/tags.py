"""``x.tag``: what a program writes on a variable, and its test value.

Test values are computed where they are asked for, whatever
``config.compute_test_value`` says: a program is not run while it is built.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from workbench.core import walk
from workbench.core.shared import Shared
from workbench.core.tensor import Tensor
from workbench.symbolic.preparing import is_leaf

__all__ = ["Tag", "get_test_value", "tag_of"]


class Tag(SimpleNamespace):
    """Attributes of a program's own; ``test_value`` is computed if it is not set.

    >>> import workbench.compat.theano.tensor as T
    >>> x = T.dvector("x")
    >>> x.tag.test_value = [1.0, 2.0]
    >>> float((x**2).sum().tag.test_value)
    5.0
    """

    def __init__(self, variable: Tensor) -> None:
        super().__init__()
        self._variable = variable

    def __getattr__(self, name: str) -> Any:
        if name == "test_value":
            return _tested(self._variable)
        raise AttributeError(f"nothing has set .tag.{name} of {self._variable!r}")


def _tested(x: Tensor) -> Any:
    if x._value is not None:
        return x.value
    if isinstance(x, Shared):
        return x.get_value()
    if is_leaf(x):
        raise AttributeError(
            f"{x!r} has no test value: set {x.name or 'x'}.tag.test_value = array."
        )
    leaves = [y for y in walk.order([x]) if is_leaf(y) and not isinstance(y, Shared)]
    return x.eval({y: tag_of(y).test_value for y in leaves if y._value is None})


def tag_of(x: Tensor) -> Tag:
    """The tag of a variable, made when it is first asked for."""
    if x.notes is None:
        x.notes = Tag(x)
    made: Tag = x.notes
    return made


def get_test_value(x: Any) -> Any:
    """The test value of a variable: what is set, or follows from what is set."""
    return tag_of(x).test_value if isinstance(x, Tensor) else x
