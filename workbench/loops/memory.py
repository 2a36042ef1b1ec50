"""How much of a loop's values are kept for reverse mode."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench.graph.tensor import Tensor
from workbench.graph.trace import live
from workbench.loops.loop import Loop, run_loop

__all__ = ["run_saving"]


def run_saving(
    loop: Loop,
    inputs: Sequence[Any],
    memory: int | str,
    *,
    explicit: bool,
    name: str | None = None,
) -> list[Any]:
    """The last carries and the stacks that the user sees."""
    loop.keep = any(
        live(x) and x._value is not None for x in inputs if isinstance(x, Tensor)
    )
    made = run_loop(loop, inputs)
    if name is not None:
        for y in made:
            if isinstance(y, Tensor):
                y.inputs[0].name = name
                break
    return list(made[: loop.carries + loop.visible])
