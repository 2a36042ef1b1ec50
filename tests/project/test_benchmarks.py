"""The guide's tables of speed are what the kept results say."""

from __future__ import annotations

from tests.benchmarks.table import PAGE, put_into_page


def test_the_page_shows_what_is_kept() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert text == put_into_page(text), "run python -m tests.benchmarks.table --write"
