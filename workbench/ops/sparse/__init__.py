"""Sparse arrays: fixed in the places of their entries, traced in the values."""

from workbench.ops.sparse import (
    arithmetic,
    eigen,
    extremes,
    pattern,
    solving,
    stacking,
    tensor,
)

__all__ = [
    "arithmetic",
    "eigen",
    "extremes",
    "pattern",
    "solving",
    "stacking",
    "tensor",
]
