"""`map`, `reduce`, `foldl`, `foldr`: small loops over `scan`, as Theano has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from workbench.control_flow.scan import scan

__all__ = ["foldl", "foldr", "map", "reduce"]

Step = Callable[..., Any]


def map(fn: Step, sequences: Any, non_sequences: Any = (), **settings: Any) -> Any:
    """The results of a function at each entry of the sequences, stacked.

    >>> import numpy as np
    >>> map(lambda x: x * x, np.arange(4.0))
    array([0., 1., 4., 9.])
    """
    return scan(fn, sequences, None, non_sequences, **settings)


def reduce(
    fn: Step, sequences: Any, initial: Any, non_sequences: Any = (), **settings: Any
) -> Any:
    """The last of the values that a function makes of an entry and the value before.

    >>> import numpy as np
    >>> float(reduce(lambda x, total: total + x, np.arange(5.0), 0.0))
    10.0
    """
    return scan(fn, sequences, initial, non_sequences, last=True, **settings)


def foldl(
    fn: Step, sequences: Any, initial: Any, non_sequences: Any = (), **settings: Any
) -> Any:
    """`reduce` from the first entry to the last.

    >>> import numpy as np
    >>> float(foldl(lambda x, y: 2 * y + x, np.array([1.0, 0.0, 1.0]), 0.0))
    5.0
    """
    return reduce(fn, sequences, initial, non_sequences, reverse=False, **settings)


def foldr(
    fn: Step, sequences: Any, initial: Any, non_sequences: Any = (), **settings: Any
) -> Any:
    """`reduce` from the last entry to the first.

    >>> import numpy as np
    >>> float(foldr(lambda x, y: 2 * y + x, np.array([1.0, 1.0, 0.0]), 0.0))
    3.0
    """
    return reduce(fn, sequences, initial, non_sequences, reverse=True, **settings)
