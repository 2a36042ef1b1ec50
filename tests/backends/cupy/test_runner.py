"""The runner of the tests on a GPU, where there is none."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.gpu import run

#: A test that is done, and one that takes too long.
TESTS = """
import time
def test_quick(): pass
def test_slow():
    open({ready!r}, "w").close()
    time.sleep(60)
"""


def test_tests_that_are_stopped_leave_a_report(tmp_path: Path) -> None:
    ready, report = tmp_path / "ready", tmp_path / "report.xml"
    file = tmp_path / "test_it.py"
    file.write_text(TESTS.format(ready=str(ready)))
    command = [
        sys.executable, "-m", "pytest", str(file), "-q", "-n0", "-c", os.devnull,
        "-p", "no:cacheprovider", "-p", "no:benchmark", f"--junitxml={report}",
    ]  # fmt: skip
    status = run.run(command, dict(os.environ), 12)
    assert status == 124
    assert ready.exists()
    assert "test_quick" in report.read_text()


def test_what_does_not_end_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "END_SECONDS", 1)
    text = "import signal, time; signal.signal(2, signal.SIG_IGN); time.sleep(60)"
    assert run.run([sys.executable, "-c", text], dict(os.environ), 3) == 124


def test_the_status_is_that_of_the_command() -> None:
    command = [sys.executable, "-c", "raise SystemExit(3)"]
    assert run.run(command, dict(os.environ), 60) == 3
