"""Runs the tests and adds them up: `make test` and `make test-long` end here.

`python tests/run.py lint python` runs only these parts; without a name all but `long`
run, the others beside Python. No part keeps another from running; each has a limit;
the last line counts them all. Where a machine has more cores, or should use fewer,
PYTEST_XDIST_AUTO_NUM_WORKERS says how many processes run the Python tests.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import tomllib
import traceback
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Thread
from typing import IO, Any

ROOT = Path(__file__).resolve().parent.parent
EXTENSION = ROOT / "extension"
UI_TESTS = EXTENSION / "ui-tests"
CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

sys.path[:0] = [str(EXTENSION), str(ROOT)]
import node  # noqa: E402

from tests.chunks import choose_seed  # noqa: E402


@dataclass(frozen=True)
class Count:
    """How many tests of a part passed, failed and were skipped; which failed."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    failures: tuple[str, ...] = ()

    def __add__(self, other: Count) -> Count:
        return Count(
            self.passed + other.passed,
            self.failed + other.failed,
            self.skipped + other.skipped,
            self.failures + other.failures,
        )

    def __str__(self) -> str:
        skipped = f", {self.skipped} skipped" if self.skipped else ""
        return f"{self.passed} passed, {self.failed} failed{skipped}"


#: Where this thread and its commands print; None is the standard output.
OUTPUT: ContextVar[IO[str] | None] = ContextVar("output", default=None)
RUNNING: set[subprocess.Popen[bytes]] = set()


def say(text: str) -> None:
    """Print a line among those of this thread's commands."""
    print(text, file=OUTPUT.get(), flush=True)


def run(*command: str, limit: float, cwd: Path = ROOT, **environment: str) -> int:
    """The exit code of a command that is stopped after `limit` seconds."""
    say(f"\n$ {' '.join(command)}")
    process = subprocess.Popen(
        command,
        cwd=cwd,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        stdout=OUTPUT.get(),
        stderr=OUTPUT.get() and subprocess.STDOUT,
        start_new_session=True,
    )
    RUNNING.add(process)
    try:
        return process.wait(limit)
    except subprocess.TimeoutExpired:
        say(f"stopped: {command[0]} was not done after {limit:.0f} s")
        return 124
    finally:
        stop(process)


def stop(process: subprocess.Popen[bytes]) -> None:
    """Let a command leave nothing behind, its servers included."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, sign)
            process.wait(10)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            pass
    RUNNING.discard(process)


def check(*command: str, limit: float, cwd: Path = ROOT) -> Count:
    """A tool that knows only good and bad counts as one test."""
    if run(*command, limit=limit, cwd=cwd) == 0:
        return Count(passed=1)
    return Count(failed=1, failures=(" ".join(command),))


def settle(count: Count, exit_code: int) -> Count:
    """A runner that failed without a failed test failed all the same."""
    return replace(count, failed=max(count.failed, int(exit_code != 0)))


def prepare_node() -> None:
    """Put Node on the PATH, from the package index where there is none."""
    if node.folder() is None:
        run(sys.executable, "-m", "pip", "install", "--quiet", node.PACKAGE, limit=300)
    scripts = str(Path(sys.executable).parent)
    folders = [scripts, node.folder() or "", os.environ["PATH"]]
    os.environ["PATH"] = os.pathsep.join(filter(None, folders))


def install(package: Path) -> bool:
    """The npm packages that `package` locks, unless they are there already."""
    lock, installed = package / "yarn.lock", package / "node_modules/.yarn-state.yml"
    if installed.exists() and installed.stat().st_mtime > lock.stat().st_mtime:
        return True
    code = run(
        "jlpm",
        "install",
        "--immutable",
        cwd=package,
        limit=600,
        PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD="1",
    )
    if code == 0:
        installed.touch()
    return code == 0


def find_chromium() -> str | None:
    """A Chromium, installed from Debian's packages where that is possible."""
    found = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if found or os.geteuid() != 0 or not shutil.which("apt-get"):
        return found
    quiet = {"DEBIAN_FRONTEND": "noninteractive"}
    run("apt-get", "update", "-qq", limit=120, **quiet)
    packages = ("chromium", "fonts-dejavu-core")
    options = ("install", "-y", "-qq", "--no-install-recommends")
    run("apt-get", *options, *packages, limit=400, **quiet)
    return shutil.which("chromium")


def lint(reports: Path) -> Count:
    """Style and types of the Python code."""
    python = (sys.executable, "-m")
    return check(*python, "ruff", "check", ".", limit=120) + check(
        *python, "mypy", limit=400
    )


def typescript(reports: Path) -> Count:
    """Style, types and unit tests of the page."""
    if not install(EXTENSION):
        return Count(failed=1)
    count = check("jlpm", "lint", cwd=EXTENSION, limit=200)
    count += check("jlpm", "types", cwd=EXTENSION, limit=200)
    report = reports / "vitest.json"
    options = ("--reporter=default", "--reporter=json", f"--outputFile.json={report}")
    code = run("jlpm", "test", *options, cwd=EXTENSION, limit=300)
    if not report.exists():
        return count + Count(failed=1)
    found = json.loads(report.read_text())
    skipped = found["numPendingTests"] + found["numTodoTests"]
    failures = [
        test["fullName"]
        for file in found["testResults"]
        for test in file["assertionResults"]
        if test["status"] == "failed"
    ]
    tests = Count(
        found["numPassedTests"], found["numFailedTests"], skipped, tuple(failures)
    )
    return count + settle(tests, code)


def browser(reports: Path, lane: str = "smoke") -> Count:
    """The page in a real JupyterLab in a real browser: the journeys of a lane.

    A journey is in the lane that its title names by a tag; without one, in `long`. One
    of `measure` runs by hand alone.
    """
    chromium = find_chromium()
    if chromium is None:
        say("no Chromium: browser tests skipped; Debian: apt-get install chromium")
        specs = "\n".join(path.read_text() for path in UI_TESTS.glob("tests/*.spec.ts"))
        titles = re.findall(r"^ *(?:test|lab)\((.*)", specs, re.M)
        lanes = [
            re.findall(r"@(smoke|alone|measure)\b", title) or ["long"]
            for title in titles
        ]
        return Count(skipped=lanes.count([lane]))
    if not install(UI_TESTS):
        return Count(failed=1)
    # Once: the other lanes are made of the same files.
    types = lane == "smoke"
    count = check("jlpm", "types", cwd=UI_TESTS, limit=200) if types else Count()
    report = reports / f"playwright-{lane}.json"
    code = run(
        "jlpm",
        "test",
        cwd=UI_TESTS,
        limit=2500,  # more than Playwright gives itself
        TMPDIR=str(reports),  # Galata and Chromium leave folders behind
        WORKBENCH_CHROMIUM=chromium,
        WORKBENCH_TEST_PORT=str(free_port()),
        WORKBENCH_TEST_REPORT=str(report),
        WORKBENCH_TEST_LANE=lane,
    )
    if not report.exists():
        return count + Count(failed=1)
    found = json.loads(report.read_text())
    stats = found["stats"]
    passed = stats["expected"] + stats["flaky"]  # these at the second try
    failures = tuple(find_failures(found))
    tests = Count(passed, stats["unexpected"], stats["skipped"], failures)
    return count + settle(tests, code)


def find_failures(suite: Any) -> Iterator[str]:
    """Yield the files and titles of the failed journeys in a suite of Playwright."""
    for spec in suite.get("specs", ()):
        if not spec["ok"]:
            yield f"{spec['file']}: {spec['title']}"
    for inner in suite.get("suites", ()):
        yield from find_failures(inner)


def free_port() -> int:
    """A port of this machine that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def python(reports: Path) -> Count:
    """The kernel side, its docstrings' examples, the tutorials."""
    return pytest(reports, "not long", limit=3000)


#: What the long tests have besides: the other places where the picture is live, CuPy,
#: which says without a GPU what it has. Their tests skip without them. Those of models
#: of other libraries run in an environment of their own: tests/models/test_tutorial.py.
EXTRAS = ("hosts", "gpu")


def install_extras() -> None:
    """Install what the long tests have besides, each part if there is one to be had."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for name in EXTRAS:
        needed = project["optional-dependencies"][name]
        outside = [one for one in needed if not one.startswith(project["name"])]
        # Libraries that need a GPU, a gigabyte, are left out.
        outside = [re.sub(r"\[.*?\]", "", one) for one in outside]
        run(sys.executable, "-m", "pip", "install", "--quiet", *outside, limit=300)


def long(reports: Path) -> Count:
    """What takes long and seldom finds more: many programs, whole environments."""
    choose_seed(usual=None)
    install_extras()
    count = pytest(reports, "long", limit=2200)
    return count + browser(reports, "long") + browser(reports, "alone")


#: The exit code of pytest that has run all tests, some of which failed.
FAILED = 1


def pytest(reports: Path, marked: str, limit: float) -> Count:
    """The tests with these marks, on as many cores as there are.

    What fails for want of time passes when it is tried again; a fault fails again.
    """
    count, code = run_pytest(reports, "-n", "auto", "-m", marked, limit=limit)
    if code != FAILED or not count.failures:
        return count
    again = ("-n", "1", "--last-failed", "--last-failed-no-failures=none")
    second, _ = run_pytest(reports, *again, "-m", marked, limit=limit)
    if not second.passed and not second.failures:  # it has not begun
        return count
    return replace(second, passed=count.passed + second.passed, skipped=count.skipped)


def run_pytest(reports: Path, *options: str, limit: float) -> tuple[Count, int]:
    """Run pytest; count what it reports of each test, and return its exit code."""
    report = reports / "pytest.xml"
    report.unlink(missing_ok=True)
    # Where a library ends the process, its last words go to the error output itself.
    more = ("--dist", "worksteal", "--capture=sys", f"--junit-xml={report}")
    code = run(sys.executable, "-m", "pytest", *options, *more, limit=limit)
    if not report.exists():
        return Count(failed=1), code
    count = Count()
    for suite in ElementTree.parse(report).iter("testsuite"):
        total, failures, errors, skipped = (
            int(suite.get(key, 0)) for key in ("tests", "failures", "errors", "skipped")
        )
        failed = failures + errors
        names = [
            f"{test.get('classname')}.{test.get('name')}"
            for test in suite.iter("testcase")
            if test.find("failure") is not None or test.find("error") is not None
        ]
        passed = max(total - failed - skipped, 0)
        count += Count(passed, failed, skipped, tuple(names))
    return settle(count, code), code


# Each writes what it reports about itself into the folder it is given.
PARTS: dict[str, Callable[[Path], Count]] = {
    "lint": lint,
    "typescript": typescript,
    "browser": browser,
    "python": python,
    "long": long,
}
#: What runs beside all others, one after the other: much of it waits.
SECOND_LANE = ("lint", "typescript", "browser")


def main(chosen: list[str]) -> int:
    """Run the chosen parts, print what came of each, and say if all is well."""
    unknown = set(chosen) - set(PARTS)
    if unknown:
        print(f"no such part: {', '.join(unknown)}; there are {', '.join(PARTS)}")
        return 2
    prepare_node()
    names = chosen or [name for name in PARTS if name != "long"]
    results: dict[str, tuple[Count, str]] = {}

    def run_second_lane() -> None:
        OUTPUT.set(printed)
        run_parts((name for name in names if name in SECOND_LANE), results)

    with tempfile.TemporaryFile("w+", errors="replace") as printed:
        second = Thread(target=run_second_lane, daemon=True)
        second.start()
        try:
            run_parts((name for name in names if name not in SECOND_LANE), results)
            second.join()
        finally:
            for process in list(RUNNING):
                stop(process)
        printed.seek(0)
        print(printed.read(), flush=True)

    total = sum((count for count, _ in results.values()), Count())
    print("", *(results[name][1] for name in names), "", sep="\n")
    # Among the last lines, which are what is left of a long output.
    print(*(f"failed: {name}" for name in total.failures[:50]), sep="\n")
    print(total)
    return int(total.failed > 0)


def run_parts(names: Iterable[str], results: dict[str, tuple[Count, str]]) -> None:
    """Run these parts one after the other; keep the count and a line of each."""
    for name in names:
        start = time.perf_counter()
        try:
            with tempfile.TemporaryDirectory(
                prefix="workbench-", ignore_cleanup_errors=True
            ) as reports:
                count = PARTS[name](Path(reports))
        except Exception:
            say(traceback.format_exc())
            count = Count(failed=1, failures=(f"the part {name}",))
        line = f"{name:<10} {count} in {time.perf_counter() - start:.0f} s"
        results[name] = count, line


if __name__ == "__main__":
    # Or each of a hundred processes compiles the package, each worker all tests.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    # A limit around all of this leaves none of its commands behind either.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(main(sys.argv[1:]))
