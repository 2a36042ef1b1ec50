"""What every test may use: a generator whose seed is on the first lines."""

from __future__ import annotations

import os
import random
import zlib

import numpy as np
import pytest

SEED = "WORKBENCH_SEED"


def pytest_configure() -> None:
    """Choose one seed for the whole run; worker processes inherit it."""
    os.environ.setdefault(SEED, str(random.randrange(10**6)))


def pytest_report_header() -> str:
    """Say how to repeat this run."""
    return f"seed: {os.environ[SEED]} (again: {SEED}={os.environ[SEED]})"


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """A generator that depends on the run's seed and the test's name alone."""
    seed = int(os.environ[SEED])
    print(f"seed: {seed}")
    return np.random.default_rng([seed, zlib.crc32(request.node.nodeid.encode())])
