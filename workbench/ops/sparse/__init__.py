"""Sparse arrays: fixed in the places of their entries, traced in the values."""

from workbench.ops.sparse import (
    arithmetic,
    entries,
    nests,
    pattern,
    products,
    solving,
    stacking,
    tensor,
)

__all__ = [
    "arithmetic",
    "entries",
    "nests",
    "pattern",
    "products",
    "solving",
    "stacking",
    "tensor",
]
