"""What stands in `surface.json` is what the installed CuPy has; no GPU is needed."""

from __future__ import annotations

import warnings

import pytest

from tests.gpu.surface import PATH, SURFACE, format_surface, read_surface


@pytest.mark.long
def test_the_surface_is_that_of_the_installed_cupy() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # there is no driver
        cupy = pytest.importorskip("cupy", reason="needs CuPy: pip install '.[gpu]'")
    assert SURFACE["version"] == cupy.__version__, "python -m tests.gpu.surface"
    assert format_surface(read_surface()) == PATH.read_text(), (
        "run python -m tests.gpu.surface"
    )
