"""What every test may use: seeded random numbers, the package as a wheel."""

from __future__ import annotations

import fcntl
import functools
import gc
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.chunks import SEED, choose_seed, generator
from tests.project import environments

#: What a process of the tests may need, a page that it starts included.
WORKER_BYTES = 2 * 2**30

if TYPE_CHECKING:
    from tests.project.executed import Tutorial


@pytest.hookimpl(tryfirst=True)  # before Hypothesis reads its option
def pytest_configure(config: pytest.Config) -> None:
    """Choose one seed for the whole run; worker processes inherit it.

    Where interrupts are ignored, as in a job that a shell put into the background,
    they would be by the tests too, and those of interrupts would wait for ever.
    """
    choose_seed()
    if getattr(config.option, "hypothesis_seed", None) is None:
        config.option.hypothesis_seed = int(os.environ[SEED])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if not os.access(Path.home(), os.W_OK):  # IPython warns, and kernels are not kept
        home = tempfile.TemporaryDirectory(prefix="workbench-home-")
        os.environ["HOME"] = home.name
        config.add_cleanup(home.cleanup)


def pytest_xdist_auto_num_workers() -> int | None:
    """Return a process for each core, while there is memory for them.

    PYTEST_XDIST_AUTO_NUM_WORKERS says another number.
    """
    if os.environ.get("PYTEST_XDIST_AUTO_NUM_WORKERS"):
        return None
    here = getattr(os, "sched_getaffinity", None)
    cores = len(here(0)) if here else os.cpu_count() or 1
    names = os.sysconf_names
    if "SC_PHYS_PAGES" not in names:
        return cores
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return max(1, min(cores, memory // WORKER_BYTES))


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
