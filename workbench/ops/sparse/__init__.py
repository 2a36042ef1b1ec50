"""Sparse arrays: fixed in the places of their entries, traced in the values."""

from workbench.ops.sparse import (
    arithmetic,
    entries,
    pattern,
    products,
    tensor,
)

__all__ = ["arithmetic", "entries", "pattern", "products", "tensor"]
