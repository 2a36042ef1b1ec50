"""A cluster of two processes for each module, and a client of it for each test."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = str(Path(__file__).parents[2])


@pytest.fixture(scope="module")
def local() -> Iterator[Any]:
    import distributed

    paths = [ROOT, os.environ.get("PYTHONPATH", "")]
    with pytest.MonkeyPatch.context() as patch:
        # Workers are processes of their own, which import the package and the tests.
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))
        with distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, memory_limit="2GB",
            dashboard_address=":0", silence_logs=logging.CRITICAL,
        ) as made:  # fmt: skip
            yield made


@pytest.fixture
def client(local: Any) -> Iterator[Any]:
    from distributed import Client

    with Client(local) as made:
        made.wait_for_workers(2, timeout=120)  # the test before may have killed some
        yield made
