"""What can be computed: importing this package declares every op."""

from workbench.ops import (
    arithmetic,
    arranging,
    contraction,
    indexing,
    joining,
    linalg,
    makers,
    moments,
    products,
    reductions,
    scans,
    shaping,
    sorting,
    taking,
    ufuncs,
    updates,
)

__all__ = [
    "arithmetic",
    "arranging",
    "contraction",
    "indexing",
    "joining",
    "linalg",
    "makers",
    "moments",
    "products",
    "reductions",
    "scans",
    "shaping",
    "sorting",
    "taking",
    "ufuncs",
    "updates",
]
