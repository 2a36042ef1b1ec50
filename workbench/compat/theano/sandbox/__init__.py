"""`theano.sandbox`: the random streams."""

from __future__ import annotations

from workbench.compat.theano.sandbox import rng_mrg

__all__ = ["rng_mrg"]
