"""The runner: a part that hangs is stopped, one that fails is counted."""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path

import pytest

from tests import run
from tests.run import Count


def test_a_command_that_hangs_is_stopped_with_its_children(tmp_path: Path) -> None:
    child = f"import time; time.sleep(2); open({str(tmp_path / 'late')!r}, 'w')"
    parent = (
        f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    )
    start = time.perf_counter()
    assert run.run(sys.executable, "-c", parent, limit=1) == 124
    assert time.perf_counter() - start < 10
    time.sleep(2)
    assert not (tmp_path / "late").exists()


def use_plain_pytest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the pytest of these tests without plugins, whose import takes seconds."""
    for name in [name for name in os.environ if name.startswith("PYTEST_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p xdist")


@pytest.mark.parametrize(
    ("count", "exit_code", "failed"),
    [(Count(passed=3), 0, 0), (Count(passed=3), 1, 1), (Count(2, 2), 1, 2)],
)
def test_a_runner_that_fails_is_counted(
    count: Count, exit_code: int, failed: int
) -> None:
    assert run.settle(count, exit_code).failed == failed


@pytest.mark.parametrize(
    ("tests", "counted"),
    [
        ("def test_a(): assert 1", Count(passed=1)),
        ("def test_a(): assert 0\ndef test_b(): pass", Count(1, 1)),
        # Fails the first time alone.
        (
            "import pathlib\n"
            "def test_a():\n"
            "    mark = pathlib.Path(__file__).with_suffix('.mark')\n"
            "    known = mark.exists()\n"
            "    mark.touch()\n"
            "    assert known\n"
            "def test_b(): assert 0",
            Count(1, 1, unsteady=1),
        ),
        # A worker that dies is a failed test too.
        (
            "import os, pathlib\n"
            "def test_a():\n"
            "    mark = pathlib.Path(__file__).with_suffix('.mark')\n"
            "    if not mark.exists():\n"
            "        mark.touch()\n"
            "        os.abort()\n"
            "def test_b(): pass",
            Count(2, 0, unsteady=1),
        ),
        # A test that never ends takes its worker with it.
        (
            "import pathlib, time\n"
            "mark = pathlib.Path(__file__).with_name('mark')\n"
            "def test_a():\n"
            "    if not mark.exists():\n"
            "        mark.touch()\n"
            "        time.sleep(1000)\n"
            "def test_b(): pass",
            Count(2, 0, unsteady=1),
        ),
        # All of many: no accident.
        (
            "import pytest\n"
            "@pytest.mark.parametrize('number', range(20))\n"
            "def test_a(number): assert 0",
            Count(failed=20),
        ),
    ],
    ids=["passes", "fails", "unsteady", "dies", "hangs", "many"],
)
def test_what_fails_is_tried_once_more(
    tests: str, counted: Count, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "test_a.py").write_text(tests)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = long\n")
    monkeypatch.setattr(run.run, "__kwdefaults__", {"cwd": tmp_path})
    soon = tuple(word.replace("=500", "=10") for word in run.STUCK)
    monkeypatch.setattr(run, "STUCK", soon)
    use_plain_pytest(monkeypatch)
    assert run.pytest(tmp_path, "not long", limit=60) == counted


def test_the_last_words_of_a_worker_that_dies_are_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "test_a.py").write_text(
        "import os\n"
        "def test_a():\n"
        "    os.write(2, b'LLVM ERROR: relocation out of range\\n')\n"
        "    os.abort()\n"
        "def test_b():\n"
        "    print('what a test prints')\n"
    )
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = long\n")
    monkeypatch.setattr(run.run, "__kwdefaults__", {"cwd": tmp_path})
    use_plain_pytest(monkeypatch)
    run.run_pytest(tmp_path, "not long", "-n", "2", limit=60)
    told = "".join(capfd.readouterr())
    assert "LLVM ERROR: relocation out of range" in told
    assert "what a test prints" not in told


@pytest.mark.parametrize(("unsteady", "code"), [(5, 0), (6, 1)])
def test_many_unsteady_tests_fail_the_run(
    unsteady: int,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    parts = {
        "a": lambda _: Count(9, unsteady=3),
        "b": lambda _: Count(9, unsteady=unsteady - 3),
    }
    monkeypatch.setattr(run, "PARTS", parts)
    monkeypatch.setattr(run, "prepare_node", lambda: None)
    assert run.main([]) == code
    *_, before, last = capsys.readouterr().out.splitlines()
    assert last == f"18 passed, 0 failed, {unsteady} unsteady"
    words = (
        "6 tests passed only at a second try, more than 5: this run counts as failed"
    )
    assert before.startswith(words) == bool(code)


def test_every_part_runs_and_the_last_line_adds_them_up(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    counts = {"a": Count(1, 1), "b": Count(2, 0, 3)}
    parts = {name: lambda _, name=name: counts[name] for name in counts}
    monkeypatch.setattr(run, "PARTS", parts)
    monkeypatch.setattr(run, "prepare_node", lambda: None)
    assert run.main([]) == 1
    assert capsys.readouterr().out.splitlines()[-1] == "3 passed, 1 failed, 3 skipped"
    assert run.main(["b"]) == 0
    assert run.main(["c"]) == 2


def test_the_page_runs_beside_the_others_and_is_shown_after_them(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    both = threading.Barrier(2, timeout=60)

    def part(word: str) -> Count:
        both.wait()
        run.run("echo", word, limit=60)
        both.wait()
        return Count(1)

    def broken(word: str) -> Count:
        raise RuntimeError(word)

    parts = {
        "python": lambda _: part("of python"),
        "typescript": lambda _: part("of the page"),
        "browser": lambda _: broken("no browser"),
    }
    monkeypatch.setattr(run, "PARTS", parts)
    monkeypatch.setattr(run, "prepare_node", lambda: None)
    assert run.main([]) == 1
    told = capfd.readouterr().out
    places = ["\nof python", "\nof the page", "RuntimeError: no browser", "2 passed, 1"]
    assert sorted(places, key=told.index) == places


def test_the_long_part_runs_when_asked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    parts = {"a": lambda _: Count(1), "long": lambda _: Count(2)}
    monkeypatch.setattr(run, "PARTS", parts)
    monkeypatch.setattr(run, "prepare_node", lambda: None)
    for chosen, line in (([], "1 passed, 0 failed"), (["long"], "2 passed, 0 failed")):
        assert run.main(chosen) == 0
        assert capsys.readouterr().out.splitlines()[-1] == line


def test_a_journey_without_a_tag_is_in_the_long_lane(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tests").mkdir()
    spec = "test('a @smoke', async () => {});\n  test('b', async ({\nlab('c @alone', x"
    (tmp_path / "tests/a.spec.ts").write_text(spec)
    monkeypatch.setattr(run, "UI_TESTS", tmp_path)
    monkeypatch.setattr(run, "find_chromium", lambda: None)
    for lane in ("smoke", "long", "alone"):
        assert run.browser(tmp_path, lane) == Count(skipped=1)
