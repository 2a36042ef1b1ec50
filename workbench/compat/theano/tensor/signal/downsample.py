"""`theano.tensor.signal.downsample`: the older name of pooling."""

from __future__ import annotations

from workbench.compat.theano.tensor.signal.pool import max_pool_2d

__all__ = ["max_pool_2d"]
