"""What the doctor is asked, and refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.errors import UsageError


@pytest.mark.parametrize(
    ("returned", "told"),
    [
        (None, r"the function returned None\. Does it end with a `return`\?"),
        ("a text", "the function returned 'a text'"),
        ([], "the function returned no number"),
        (["a", "b"], "the function returned no number"),
    ],
)
def test_G3_a_function_that_returns_no_number_is_told_so(
    returned: Any, told: str
) -> None:
    with pytest.raises(UsageError, match=told):
        wb.diagnose(lambda x: returned, np.ones(2))


def test_what_stands_beside_a_number_is_left_alone() -> None:
    found = wb.diagnose(lambda x: (np.sum(x**2), "a text", None), np.ones(2))
    assert list(found) == []


@pytest.mark.parametrize("which", ["0", None, 0.0, True])
def test_a_fix_is_of_a_finding_or_its_number(which: Any) -> None:
    with np.errstate(all="ignore"):
        session = wb.Session(wb.trace(lambda x: np.sum(np.sqrt(x)))(np.zeros(1)))
    session.diagnose()
    with pytest.raises(UsageError, match="pass a finding, or its number"):
        session.fix(which)
    assert session.overrides == []
