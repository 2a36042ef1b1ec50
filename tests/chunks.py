"""Tests of many small samples: several dozen of them are one item of pytest.

An item costs more than most samples do: to collect, to set up, to send and report.
"""

from __future__ import annotations

import functools
import inspect
import os
import random
import zlib
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np
import pytest

SEED = "WORKBENCH_SEED"
#: The seed of a run that asks for none: everybody's first run draws the same numbers.
USUAL_SEED = 2026
#: `WORKBENCH_CHUNK=1` makes each sample an item of its own, for `-k` and a debugger.
SIZE = int(os.environ.get("WORKBENCH_CHUNK", "50"))

Test = Callable[..., None]


def choose_seed(usual: int | None = USUAL_SEED) -> None:
    """Settle the seed of this run: as asked, ``random`` for a new one, or the usual.

    Processes of this one inherit it. Without a usual one a new one is drawn.
    """
    asked = os.environ.get(SEED) or ("random" if usual is None else str(usual))
    drawn = str(random.randrange(10**6)) if asked == "random" else asked
    os.environ[SEED] = drawn


def generator(name: str) -> np.random.Generator:
    """Return random numbers that depend on the run's seed and this name alone."""
    print(f"seed: {os.environ[SEED]}")
    return np.random.default_rng([int(os.environ[SEED]), zlib.crc32(name.encode())])


def is_drawn(label: str) -> bool:
    """Return whether this run takes a sample of those it takes a third of."""
    return zlib.crc32(f"{label} {os.environ.get(SEED)}".encode()) % 3 == 0


def parametrize_chunks(
    names: str,
    samples: Mapping[str, tuple[Any, ...]],
    alike: Collection[str] = (),
) -> Callable[[Test], Test]:
    """Run a test for every sample: its label, and the values that these names take.

    Each sample is a subtest: one that fails is reported with its label, and those
    after it run. `rng` is drawn anew for each, and depends on its label. Of those
    whose labels are ``alike`` a third is drawn; the long run takes them all.
    """
    some = [x for x in samples.items() if x[0] not in alike or is_drawn(x[0])]
    rest = [x for x in samples.items() if x[0] in alike]
    chunks = []
    for rows, marks in ((some, ()), (rest, (pytest.mark.long,))):
        for chunk in (rows[i : i + SIZE] for i in range(0, len(rows), SIZE)):
            first, last = chunk[0][0], chunk[-1][0]
            label = first if len(chunk) == 1 else f"{first} to {last}"
            label = f"all, {label}" if marks else label
            chunks.append(pytest.param(chunk, marks=marks, id=label))

    def decorate(test: Test) -> Test:
        taken = inspect.signature(test).parameters
        fixtures = [name for name in taken if name not in (*names.split(), "rng")]

        @functools.wraps(test)
        def run_chunk(
            chunk: list[tuple[str, tuple[Any, ...]]],
            subtests: pytest.Subtests,
            request: pytest.FixtureRequest,
            **given: Any,
        ) -> None:
            where = request.node.nodeid.partition("[")[0]
            for label, values in chunk:
                with subtests.test(label):
                    if "rng" in taken:
                        given["rng"] = generator(f"{where}[{label}]")
                    test(**dict(zip(names.split(), values, strict=True)), **given)

        run_chunk.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [
                inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY)
                for name in ("chunk", "subtests", "request", *fixtures)
            ]
        )
        return pytest.mark.parametrize("chunk", chunks)(run_chunk)

    return decorate
