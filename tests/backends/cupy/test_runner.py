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


@pytest.mark.long
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
    assert run.run([sys.executable, "-c", text], dict(os.environ), 1) == 124


def test_the_status_is_that_of_the_command() -> None:
    command = [sys.executable, "-c", "raise SystemExit(3)"]
    assert run.run(command, dict(os.environ), 60) == 3


@pytest.mark.parametrize("failing", ["", "racecheck"])
def test_kernels_run_under_each_tool_of_the_sanitizer(
    failing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program in the sanitizer's place notes what it is to do."""
    tool, noted = tmp_path / "compute-sanitizer", tmp_path / "noted"
    tool.write_text(
        f'#!/bin/sh\necho "$GPU_TEST_WITHOUT_POOL $@" >> {noted}\n'
        f'test "$2" != "{failing}" || exit 9\n'
    )
    tool.chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert run.sanitize(dict(os.environ)) == (9 if failing else 0)
    lines = noted.read_text().splitlines()
    assert [line.split()[:3] for line in lines] == [
        ["1", "--tool", "memcheck"],
        ["1", "--tool", "racecheck"],
    ]
    assert all("--error-exitcode 9" in line for line in lines)
    assert all("pytest tests/gpu/test_launches.py" in line for line in lines)


def test_a_missing_sanitizer_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    assert run.sanitize({}) == 1
    assert "it comes with the CUDA toolkit" in capsys.readouterr().out
