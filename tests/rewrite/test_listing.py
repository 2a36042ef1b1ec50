"""The guide's list of rewrite rules is what the tables say."""

from __future__ import annotations

from tests.rewrite.listing import PAGE, put_into_page


def test_the_page_lists_every_rule() -> None:
    text = PAGE.read_text()
    assert text == put_into_page(text), "run python -m tests.rewrite.listing --write"
