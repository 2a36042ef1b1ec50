"""After each test the GPU is waited for, so that an error is blamed on its own test."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.gpu.device import cupy, has_gpu


@pytest.fixture(autouse=True)
def settle(request: pytest.FixtureRequest) -> Iterator[None]:
    """Wait for the GPU; where it has stopped, no later test of this process can run.

    Of several processes this one ends then: pytest-xdist blames the test, and lets a
    new one go on.
    """
    yield
    if not has_gpu():
        return
    try:
        cupy.cuda.Device().synchronize()
    except Exception:
        if "PYTEST_XDIST_WORKER" in os.environ:
            os._exit(1)
        pytest.exit(f"the GPU has stopped in {request.node.nodeid}", 1)
