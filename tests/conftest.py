"""What every test may use: seeded random numbers, the package as a wheel."""

from __future__ import annotations

import fcntl
import functools
import gc
import os
import random
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.chunks import SEED, generator
from tests.project import environments

if TYPE_CHECKING:
    from tests.project.executed import Tutorial


def pytest_configure() -> None:
    """Choose one seed for the whole run; worker processes inherit it."""
    os.environ.setdefault(SEED, str(random.randrange(10**6)))


def pytest_report_header() -> str:
    """Say how to repeat this run."""
    return f"seed: {os.environ[SEED]} (again: {SEED}={os.environ[SEED]})"


@pytest.fixture(autouse=True, scope="session")
def own_time() -> None:
    """Let the budget of a check count its own work: the machine may be busy."""
    from workbench.checks import progress

    progress.clock = time.thread_time


@pytest.fixture
def measured(record_property: Callable[[str, object], None]) -> Callable[[str], None]:
    """Takes a line that stands among the run's closing lines."""
    return lambda line: record_property("measured", line)


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Puts the stand-in in the place of CuPy; its module ``cupy``."""
    from tests.gpu.stand_in import use_stand_in

    return use_stand_in(monkeypatch)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what the tests measured."""
    lines = [
        value
        for outcome in ("passed", "failed")
        for report in terminalreporter.getreports(outcome)
        for key, value in report.user_properties
        if key == "measured"
    ]
    if lines:
        terminalreporter.section("measured")
        for line in lines:
            terminalreporter.line(str(line))


@pytest.fixture
def interruptible() -> Iterator[None]:
    """No callback of the garbage collector's, where an interrupt would be lost.

    Hypothesis has one, and Python throws away what is raised in it.
    """
    callbacks = gc.callbacks[:]
    gc.callbacks.clear()
    yield
    gc.callbacks.extend(callbacks)


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """A generator that depends on the run's seed and the test's name alone."""
    return generator(request.node.nodeid)


@pytest.fixture(scope="session")
def common_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of this run, the same for all worker processes."""
    folder = tmp_path_factory.getbasetemp()
    return folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder


@pytest.fixture(scope="session")
def tutorial(common_folder: Path) -> Tutorial:
    """Gives a tutorial by its name, run once in all worker processes."""
    from tests.project.executed import execute

    folder = common_folder / "tutorials"
    folder.mkdir(exist_ok=True)
    return functools.cache(lambda name: execute(name, folder))


@pytest.fixture(scope="session")
def wheel(common_folder: Path) -> Path:
    """The package as `pip wheel .` makes it in a fresh clone, without Node."""
    folder = common_folder
    made = folder / "wheel"
    with (folder / "wheel.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            checkout = environments.copy_checkout(folder / "checkout")
            path = environments.path_without_node(folder / "path")
            pip = (sys.executable, "-m", "pip", "wheel", ".", "--no-deps", "-w", "dist")
            environments.run(*pip, cwd=checkout, PATH=path)
            (checkout / "dist").rename(made)
            shutil.rmtree(checkout)  # a gigabyte of npm packages
    (file,) = made.glob("*.whl")
    return file
