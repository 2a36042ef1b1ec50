"""`theano.sandbox.rng_mrg`: `RandomStreams` under the name of another generator."""

from __future__ import annotations

from typing import Any

from workbench.compat.theano.tensor.shared_randomstreams import RandomStreams

__all__ = ["MRG_RandomStreams"]


class MRG_RandomStreams(RandomStreams):
    """Random variables; the generator is NumPy's, as for `RandomStreams`."""

    def __init__(
        self, seed: int | None = 12345, use_cuda: object = None, **settings: Any
    ) -> None:
        super().__init__(seed, **settings)
