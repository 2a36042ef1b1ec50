"""One table of samples: every op, as a user would call it, on small arrays.

A row names a function of arrays and what to draw its arguments from. The tests
run each row for value, both modes, second order, dtype, batching and inference.
Entries drawn are apart from each other and from 0 unless a row says otherwise, so
that no difference steps over a kink; the kinks have a table of their own.
"""

from tests.ops.samples import (
    elementwise,
    indexing,
    linalg,
    products,
    reductions,
    shapes,
)
from tests.ops.samples.kinks import KINKS, Kink
from tests.ops.samples.table import Sample

__all__ = ["KINKS", "SAMPLES", "Kink", "Sample"]

FILES = (elementwise, reductions, shapes, indexing, products, linalg)
SAMPLES: list[Sample] = [sample for file in FILES for sample in file.row.rows]
