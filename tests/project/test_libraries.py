"""Libraries that are written with NumPy differentiate unchanged."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.project import environments

SCRIPT = Path(__file__).with_name("libraries.py")
#: What takes no gradient, and why. A function ends in Python's `float`; a kink.
KNOWN = {
    "statsmodels": {},
    "lmfit": {
        "thermal_distribution": "float",
        "bose": "float",
        "fermi": "float",
        "exponential": "float",
        "rectangle": "expected",
    },
    "numpy_ml": {},
}


@pytest.mark.long
@pytest.mark.parametrize("library", KNOWN)
def test_a_library_as_it_is(
    library: str, wheel: Path, tmp_path: Path, measured: Callable[[str], None]
) -> None:
    try:
        packages = (wheel, library.replace("_", "-"))
        programs = environments.environment(tmp_path / "env", *packages)
    except AssertionError as error:
        pytest.skip(f"{library} cannot be installed here: {str(error)[-200:]}")
    text = environments.run(programs / "python", SCRIPT, library, cwd=tmp_path)
    told: dict[str, str] = json.loads(text.splitlines()[-1])
    right = [name for name, found in told.items() if found == "right"]
    measured(f"{library}: {len(right)} of {len(told)} differentiate unchanged")
    wrong = {name: found for name, found in told.items() if found != "right"}
    assert wrong.keys() == KNOWN[library].keys(), wrong
    for name, found in wrong.items():
        assert KNOWN[library][name] in found
