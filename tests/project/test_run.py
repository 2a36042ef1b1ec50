"""The runner: a part that hangs is stopped, one that fails is counted."""

from __future__ import annotations

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


@pytest.mark.parametrize(
    ("count", "exit_code", "failed"),
    [(Count(passed=3), 0, 0), (Count(passed=3), 1, 1), (Count(2, 2), 1, 2)],
)
def test_a_runner_that_fails_is_counted(
    count: Count, exit_code: int, failed: int
) -> None:
    assert run.settle(count, exit_code).failed == failed


@pytest.mark.long
def test_python_tests_are_counted_and_tried_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "test_a.py").write_text(
        "import os, pathlib\n"
        "import pytest\n"
        "\n"
        "def is_first(name):\n"
        "    mark = pathlib.Path(__file__).with_name(name)\n"
        "    known = mark.exists()\n"
        "    mark.touch()\n"
        "    return not known\n"
        "\n"
        "def test_passes(): pass\n"
        "def test_fails(): assert 0\n"
        "def test_fails_once(): assert not is_first('failed')\n"
        "def test_ends_its_process_once(): is_first('ended') and os.abort()\n"
        "@pytest.mark.long\n"
        "def test_long(): pass\n"
        "@pytest.mark.skip(reason='for the count')\n"
        "def test_skipped(): pass\n"
    )
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = long\n")
    monkeypatch.setattr(run.run, "__kwdefaults__", {"cwd": tmp_path})
    monkeypatch.setenv("PYTEST_XDIST_AUTO_NUM_WORKERS", "1")
    count = run.pytest(tmp_path, "not long", limit=60)
    assert count == Count(3, 1, 1, ("test_a.test_fails",))


def test_a_run_that_did_not_come_to_its_end_is_not_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = Count(5, 1, 0, ("test_a.test_fails_once",))
    answers = iter([(broken, 3), (Count(1), 0)])
    monkeypatch.setattr(run, "run_pytest", lambda *_, **__: next(answers))
    assert run.pytest(tmp_path, "not long", limit=60) == broken


def test_journeys_that_failed_are_named_those_of_groups_too() -> None:
    specs = [
        {"file": "a.ts", "title": name, "ok": name == "good"}
        for name in ("good", "bad")
    ]
    group = {"specs": specs, "suites": []}
    found = {"suites": [{"specs": specs, "suites": [group]}]}
    assert list(run.find_failures(found)) == ["a.ts: bad", "a.ts: bad"]


def test_every_part_runs_and_the_last_line_adds_them_up(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The page's parts beside the others, shown after them; the long one if asked."""
    both = threading.Barrier(2, timeout=60)

    def part(word: str, count: Count) -> Count:
        both.wait()
        run.run("echo", word, limit=60)
        both.wait()
        return count

    def broken(_: Path) -> Count:
        raise RuntimeError("no browser")

    parts = {
        "python": lambda _: part("of python", Count(1, 1)),
        "typescript": lambda _: part("of the page", Count(2, 0, 3)),
        "browser": broken,
        "long": lambda _: Count(5),
    }
    monkeypatch.setattr(run, "PARTS", parts)
    monkeypatch.setattr(run, "prepare_node", lambda: None)
    assert run.main([]) == 1
    told = capfd.readouterr().out
    words = ["\nof python", "\nof the page", "RuntimeError: no browser"]
    places = [*words, "failed: the part browser", "3 passed, 2"]
    assert sorted(places, key=told.index) == places
    assert told.splitlines()[-1] == "3 passed, 2 failed, 3 skipped"
    assert run.main(["long"]) == 0
    assert capfd.readouterr().out.splitlines()[-1] == "5 passed, 0 failed"
    assert run.main(["unknown"]) == 2


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
