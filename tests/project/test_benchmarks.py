"""The tables of speed are what the kept results say."""

from __future__ import annotations

from tests.benchmarks.table import write_pages


def test_the_pages_show_what_is_kept() -> None:
    for path, text in write_pages().items():
        shown = path.read_text(encoding="utf-8")
        assert shown == text, "run python -m tests.benchmarks.table --write"
