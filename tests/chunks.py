"""Tests of many small samples: several dozen of them are one item of pytest.

An item costs more than most samples do: to collect, to set up, to send and report.
"""

from __future__ import annotations

import functools
import inspect
import os
import random
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
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


def draw_share(labels: Iterable[str], alike: Collection[str], test: str) -> list[str]:
    """Return the labels that a test takes in each run: of those alike a third.

    They lie apart in their order, so that of rows that stand together each third is
    taken, and the tests of one table meet all of it between them.
    """
    labels = list(labels)
    some = [label for label in labels if label in alike]
    left_out = set(some).difference(some[zlib.crc32(test.encode()) % 3 :: 3])
    return [label for label in labels if label not in left_out]


def mark_rest(labels: Iterable[str], test: str) -> list[Any]:
    """Return parameters; a test takes a third in each run, and the rest are long."""
    labels = list(labels)
    some = set(draw_share(labels, labels, test))
    return [x if x in some else pytest.param(x, marks=pytest.mark.long) for x in labels]


def parametrize_chunks(
    names: str,
    samples: Mapping[str, tuple[Any, ...]],
    alike: Collection[str] = (),
) -> Callable[[Test], Test]:
    """Run a test for every sample: its label, and the values that these names take.

    A sample that fails is reported with its label, as a subtest, and those after it
    run. `rng` is drawn anew for each, and depends on its label. Of those whose labels
    are ``alike`` a third is taken; the long run takes them all.
    """

    def decorate(test: Test) -> Test:
        some = draw_share(samples, alike, test.__qualname__)
        rest = [label for label in samples if label in alike]
        chunks = [
            *list_chunks([(label, samples[label]) for label in some]),
            *list_chunks([(label, samples[label]) for label in rest], pytest.mark.long),
        ]
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
                if "rng" in taken:
                    given["rng"] = generator(f"{where}[{label}]")
                arguments = dict(zip(names.split(), values, strict=True))
                try:
                    test(**arguments, **given)
                except BaseException:
                    # A report of each that passes costs more than most samples do.
                    with subtests.test(label):
                        raise

        run_chunk.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [
                inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY)
                for name in ("chunk", "subtests", "request", *fixtures)
            ]
        )
        return pytest.mark.parametrize("chunk", chunks)(run_chunk)

    return decorate


def list_chunks(
    rows: Sequence[tuple[str, tuple[Any, ...]]], *marks: pytest.MarkDecorator
) -> list[Any]:
    """Return parameters of several dozen rows each."""
    chunks = []
    for chunk in (rows[i : i + SIZE] for i in range(0, len(rows), SIZE)):
        first, last = chunk[0][0], chunk[-1][0]
        label = first if len(chunk) == 1 else f"{first} to {last}"
        label = f"all, {label}" if marks else label
        chunks.append(pytest.param(chunk, marks=marks, id=label))
    return chunks
