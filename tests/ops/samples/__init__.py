"""One table of samples: every op, as a user would call it, on small arrays.

A row names a function of arrays and what to draw its arguments from. The tests
run each row for value, both modes, second order, dtype, batching and inference.
Entries drawn are apart from each other and from 0 unless a row says otherwise, so
that no difference steps over a kink; the kinks have a table of their own.
"""

from importlib import import_module
from pathlib import Path

from tests.ops.samples.kinks import KINKS, Kink
from tests.ops.samples.table import Sample
from workbench.core.op import load_all_ops

__all__ = ["ALIKE", "KINKS", "SAMPLES", "Kink", "Sample"]

load_all_ops()
NAMES = sorted(file.stem for file in Path(__file__).parent.glob("*.py"))
FILES = [
    import_module(f"tests.ops.samples.{name}")
    for name in NAMES
    if name not in ("__init__", "kinks", "table")
]
SAMPLES: list[Sample] = [sample for file in FILES for sample in file.row.rows]
#: Names of many ways to ask for the same: the methods of distributions, the norms and
#: lengths of transforms, the modes of convolutions.
ALIKE = {
    sample.name
    for file in FILES
    if file.__name__.endswith((".convolution", ".fft", ".stats"))
    for sample in file.row.rows
}
