"""The seed's `atan2` with another gradient, as ops made of graphs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench as wb

EPS = 0.01

both = pytest.mark.parametrize("inline", [False, True], ids=["whole", "inline"])


def atan2_safe(inline: bool, name: str = "atan2_safe") -> Any:
    """The seed's op, letter by letter in our names."""
    x, y = wb.scalars("x y")
    darg = wb.scalar()
    arg = np.arctan2(y, x)
    abs2 = np.square(x) + np.square(y) + EPS
    dx = -y / abs2
    dy = x / abs2
    grad = wb.OpFromGraph(
        [x, y, darg], [dx, dy], inline=inline, on_unused_input="ignore",
        name=f"{name}_grad",
    )  # fmt: skip
    return wb.OpFromGraph([x, y], [arg], inline=inline, vjp=grad, name=name)


def linear_atan2(inline: bool = False, name: str = "atan2_linear") -> Any:
    """The same with a gradient that is linear in what arrives."""
    x, y, g = wb.scalars("x y g")
    abs2 = x**2 + y**2 + EPS
    grad = wb.OpFromGraph([x, y, g], [-g * y / abs2, g * x / abs2], inline=inline)
    return wb.OpFromGraph([x, y], np.arctan2(y, x), inline=inline, vjp=grad, name=name)
