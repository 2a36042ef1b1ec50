"""`pytensor.tensor.random`: streams of random variables.

Its functions of a generator (``normal(0, 1, rng=...)``) are not known: a
`RandomStream` holds the generators, and functions advance them by themselves.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.compat.pytensor.namespace import NAMESPACE
from workbench.compat.theano.tensor.shared_randomstreams import RandomStreams
from workbench.core.types import Array

__all__ = ["RandomStream"]


class RandomStream:
    """Makes random variables: of the laws of NumPy's generators, by their names.

    Draws of floats are of `config.floatX`, unless ``dtype`` is given. Their gradients
    are those at fixed noise, where `workbench.random` has them.

    Parameters
    ----------
    seed
        An integer; the same gives the same draws.

    Raises
    ------
    AttributeError
        If NumPy's generators have no such law.

    Examples
    --------
    >>> from workbench.compat import pytensor
    >>> import workbench.compat.pytensor.tensor as pt
    >>> loc = pt.scalar("loc")
    >>> z = pt.random.RandomStream(seed=3).normal(loc, 2.0, size=(5,))
    >>> slope = pytensor.grad(z.sum(), loc)
    >>> float(pytensor.function([loc], slope)(1.0))
    5.0
    """

    def __init__(self, seed: int | None = None, **_: Any) -> None:
        self._streams = RandomStreams(seed)
        self.updates, self.seed = self._streams.updates, self._streams.seed

    def __getattr__(self, law: str) -> Any:
        if law.startswith("_") or not hasattr(np.random.Generator, law):
            raise AttributeError(
                f"RandomStream.{law} is not known to Workbench: the names are those of"
                " np.random.Generator."
            )

        def draw(*parameters: Any, size: Any = None, **named: Any) -> Array:
            return self._streams.draw(law, size, *parameters, **named)

        return draw

    def choice(
        self, a: Any, size: Any = None, replace: bool = True, p: Any = None
    ) -> Array:
        """Draw entries of ``a``, or integers below ``a``."""
        return self._streams.choice(() if size is None else size, a, replace, p)

    def permutation(self, x: int) -> Array:
        """Draw an order of the integers below a number."""
        return self._streams.permutation(n=x)


__getattr__ = NAMESPACE.fall_back("tensor.random")
