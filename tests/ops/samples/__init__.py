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

__all__ = ["ALIKE", "ALIKE_IN_KIND", "KINKS", "SAMPLES", "Kink", "Sample"]

load_all_ops()
NAMES = sorted(file.stem for file in Path(__file__).parent.glob("*.py"))
FILES = [
    import_module(f"tests.ops.samples.{name}")
    for name in NAMES
    if name not in ("__init__", "kinks", "table")
]
SAMPLES: list[Sample] = [sample for file in FILES for sample in file.row.rows]
#: Files of samples of elementwise functions.
ELEMENTWISE = ("elementwise", "emath", "special", "special_families", "stats")
#: How many words name a function, where it is more than the first.
WORDS = {"at": 2, "linalg.qr": 2, "scipy": 3, "sparse": 2, "zeta": 2}


def find_alike() -> tuple[set[str], set[str]]:
    """Return the names of samples after the first of their function, and of their kind.

    The methods of all distributions are alike; so is, to what batches, lays out and
    compiles, one elementwise function to another.
    """
    alike, of_one_kind = set(), set()
    for file in FILES:
        kind = file.__name__.rpartition(".")[2]
        known: set[str] = set()
        for name in (sample.name for sample in file.row.rows):
            words = name.split()
            function = " ".join(words[: WORDS.get(words[0], 1)])
            if function in known or kind == "stats":
                alike.add(name)
            if function in known or kind in ELEMENTWISE:
                of_one_kind.add(name)
            known.add(function)
    return alike, of_one_kind


#: Samples of which a third stands for the others: to what an op says of itself, and to
#: what treats all ops of a kind by one rule.
ALIKE, ALIKE_IN_KIND = find_alike()
