"""What can be computed: importing this package declares every op."""

from workbench.ops import (
    arithmetic,
    contraction,
    indexing,
    joining,
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
    "contraction",
    "indexing",
    "joining",
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
