"""`theano.tensor.signal`: pooling, and convolutions of single images."""

from __future__ import annotations

from workbench.compat.theano.tensor.signal import conv, downsample, pool

__all__ = ["conv", "downsample", "pool"]
