"""Row G3: no false alarm on programs of many fields, trained ones and at optima."""

from __future__ import annotations

import numpy as np
import pytest

import workbench as wb
from tests.checks.doctor import optima
from tests.checks.doctor.fields import PROGRAMS

assert optima  # it adds its programs to the table


@pytest.mark.parametrize("name", PROGRAMS)
def test_G3_no_alarm_in_a_program_of_another_field(
    name: str, rng: np.random.Generator
) -> None:
    f, args = PROGRAMS[name](rng)
    found = wb.diagnose(f, *args)
    assert [one for one in found if one.severity != "note"] == [], found
    assert len(found) <= 1
