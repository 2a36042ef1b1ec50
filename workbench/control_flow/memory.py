"""How much of a loop's values is kept for reverse mode.

Either what it reads of each step is stored, or the state before every k-th step: the
steps between run once more, k at a time, when reverse mode comes to them (Griewank &
Walther, *Evaluating Derivatives*, 2nd ed., ch. 12). The steps of reverse mode are the
same in both, in the same order, so the numbers agree bit for bit.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

from workbench.control_flow import rules, text  # noqa: F401  (they make the op whole)
from workbench.control_flow.loop import Loop
from workbench.control_flow.op import run_loop
from workbench.core import blame
from workbench.core.tensor import Tensor
from workbench.core.trace import live
from workbench.core.types import Spec
from workbench.errors import UsageError

__all__ = ["BUDGET", "every", "run_saving"]

#: What ``memory="auto"`` may take for one loop, in bytes.
BUDGET = 256 * 2**20
UNITS = {"B": 1, "KB": 2**10, "MB": 2**20, "GB": 2**30}


def run_saving(
    make: Any, inputs: Sequence[Any], memory: int | str, name: str | None = None
) -> list[Any]:
    """The last carries and the stacks that the user sees.

    ``make(every)`` is the loop that keeps all (None) or every so many states.
    """
    loop: Loop = make(None)
    k = every(loop, inputs, memory)
    if k is not None:
        loop = make(k)
    loop.keep |= any(
        live(x) and x._value is not None for x in inputs if isinstance(x, Tensor)
    )
    made = run_loop(loop, inputs)
    if name is not None:
        for y in made:
            if isinstance(y, Tensor):
                y.inputs[0].name = name
                break
    return list(made[: loop.carries + loop.visible])


def every(loop: Loop, inputs: Sequence[Any], memory: int | str) -> int | None:
    """After how many steps a state is kept; None for what is read of each step.

    Raises
    ------
    UsageError
        If ``memory`` is none of the choices.
    """
    budget = BUDGET
    if isinstance(memory, str):
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMG]?B)\s*", memory.upper())
        if memory == "all":
            return None
        if found is not None:
            budget = int(float(found[1]) * UNITS[found[2]])
        elif memory != "auto":
            raise _unknown(memory)
    elif isinstance(memory, bool) or not hasattr(memory, "__index__") or memory < 1:
        raise _unknown(memory)
    else:
        return int(memory)
    n = loop.length(inputs)
    kept = sum(_bytes(x.spec) for x in loop.stored)
    if not kept:
        return None
    told = all(isinstance(m, int) for x in loop.stored for m in x.spec.shape)
    if isinstance(n, int) and n * kept <= budget and (told or memory == "auto"):
        return None
    open_ended = not isinstance(n, int) or loop.until
    if open_ended and memory == "auto":
        return None
    if open_ended and told:
        # Only the run tells how much all would be: what is given is for the steps
        # between two kept states.
        return max(1, budget // kept)
    if not isinstance(n, int):
        raise UsageError(
            f"memory={memory!r}{blame.here()}: how many bytes a step keeps"
            " shows only when the program runs. Give the number of steps after"
            " which a state is kept, or declare lengths with shape=."
        )
    # An amount that is asked for is not taken to suffice where nothing shows that it
    # does. Unknown lengths count the same on both sides here, so that the least
    # memory is found without them.
    state = sum(_bytes(loop.leaf(i).spec) for i in loop.restart())
    return min(n, max(1, round(math.sqrt(n * state / kept))))


def _unknown(memory: Any) -> UsageError:
    return UsageError(
        f"memory={memory!r}{blame.here()} is none of the choices: 'all', 'auto', an"
        " amount such as '64 MB', or a number k of steps, of which the first is kept."
    )


def _bytes(spec: Spec) -> int:
    """Bytes of a value; unknown lengths count as 1."""
    return spec.dtype.itemsize * math.prod(
        n if isinstance(n, int) else 1 for n in spec.shape
    )
