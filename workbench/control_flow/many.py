"""Loops over a batch of examples (`vmap`): all of them make each step together.

Where examples make different numbers of steps, the loop goes on until the last one is
ready, and those that are keep their state.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench.autodiff.body import Body, bits
from workbench.control_flow.loop import Loop, moving_leaves
from workbench.control_flow.op import run_loop
from workbench.core import blame
from workbench.core.tensor import Tensor
from workbench.core.trace import blank
from workbench.core.types import Spec
from workbench.errors import TraceError
from workbench.ops.define import shape_of

__all__ = ["batch"]


def batch(
    loop: Loop, inputs: Sequence[Any], batched: Sequence[bool]
) -> tuple[Any, ...]:
    """All outputs of a loop for many examples, the axis of the batch first."""
    size = next(shape_of(x)[0] for x, b in zip(inputs, batched, strict=True) if b)
    count, consts, seqs, inits = loop.split(inputs)
    start, first = int(loop.counted), loop.consts + loop.seqs
    flags = batched[start:]
    uneven = bool(start and batched[0])
    mask = moving_leaves(loop, bits(i for i, b in enumerate(flags) if b), smooth=False)
    if loop.until and not uneven:
        # Whether examples stop by themselves.
        uneven = bool(loop.body.reads[-1] & mask)
    if uneven:
        mask |= bits(range(first, first + loop.carries))
    moving = [i for i in range(len(loop.body.leaves)) if mask >> i & 1]
    carried = [i for i in range(loop.carries) if mask >> (first + i) & 1]
    ends = len(loop.body.outputs)
    spread = [*carried, *(range(loop.carries, ends) if uneven else ())]
    body, have, inner = loop.body.batch(moving, size, spread)
    seqs = [
        np.moveaxis(x, 0, 1) if flags[loop.consts + i] else x
        for i, x in enumerate(seqs)
    ]
    inits = [
        x if flags[first + i] or i not in carried else _spread(x, size)
        for i, x in enumerate(inits)
    ]
    settings: dict[str, Any] = {
        "reverse": loop.reverse, "until": loop.until, "hide": False,
        "visible": loop.visible, "every": loop.every, "limit": loop.limit,
    }  # fmt: skip
    if not uneven:
        new = Loop(
            body, loop.consts, loop.seqs, loop.carries, steps=loop.steps,
            counted=loop.counted, marks=loop.marks, **settings,
        )  # fmt: skip
        head = [count] if start else []
        more = 0
    else:
        new, count, limits, added = _uneven(
            loop, body, (size, inner), count, settings, inputs
        )
        consts, inits = [limits, *consts], [*inits, *added]
        head, more = [count], len(added)
    new.derived = loop.derived
    new.keep, new.pulled, new.draws = loop.keep, loop.pulled, loop.draws
    made = list(run_loop(new, [*head, *consts, *seqs, *inits]))
    extra = made[loop.carries : loop.carries + more]
    made[loop.carries : loop.carries + more] = []
    results = []
    for i, y in enumerate(made):
        at = i if i < ends - loop.until else -1
        mark = i - (ends - loop.until)
        if at >= 0 and have[at]:
            results.append(y if i < loop.carries else np.moveaxis(y, 1, 0))
        elif at < 0 and mark < len(loop.marks) and loop.marks[mark] in carried:
            results.append(np.moveaxis(y, 1, 0))
        elif loop.until and uneven and i == len(made) - 1:
            results.append(extra[1])  # each example's own number of steps
        else:
            results.append(_spread(y, size))
    return tuple(results)


def _spread(x: Any, size: Any) -> Any:
    return np.broadcast_to(x, (size, *shape_of(x)))


def _uneven(
    loop: Loop,
    body: Body,
    sizes: tuple[Any, Any],
    count: Any,
    settings: dict[str, Any],
    inputs: Sequence[Any],
) -> tuple[Loop, Any, Any, list[Any]]:
    """A loop in which examples that have made their steps keep their state.

    Two more carries tell who is at work, and how many steps were made; in a loop that
    goes by numbers alone the second is the place it is at. ``sizes`` are the number of
    examples outside, and as a length of the leaves of the body.
    """
    size, inner = sizes
    if loop.visible and not loop.derived:
        raise TraceError(
            "vmap of a scan whose examples make different numbers of steps"
            f"{blame.here()}: the stacks of their outputs have different lengths. Ask"
            " for the last values (last=True), or write wb.while_loop."
        )
    outputs = list(body.outputs)
    stop: Any = outputs.pop() if loop.until else None
    olds = body.leaves[loop.consts + loop.seqs :]
    at_work = blank(Spec((inner,), np.dtype(bool)))
    made = blank(Spec((inner,), np.dtype(np.int64)))
    most = blank(Spec((inner,), np.dtype(np.int64)))
    each = np.int64(loop.length(inputs)) if count is None else count
    limits = np.broadcast_to(each, (size,))
    top = np.max(limits)

    def kept(new: Any, old: Any) -> Any:
        active = np.reshape(at_work, (inner, *(1,) * (len(shape_of(old)) - 1)))
        return np.where(active, new, old)

    carries = [kept(y, x) for y, x in zip(outputs, olds, strict=False)]
    stacks = outputs[loop.carries :]
    if loop.derived:
        # Carries stay as they are; tangents and cotangents come to an end.
        states = {x.serial for x in olds}
        stacks = [
            y
            if isinstance(y, Tensor) and y.serial in states
            else kept(y, np.zeros_like(y))
            for y in stacks
        ]
    if loop.until:
        done = made + at_work
        work = at_work & np.equal(stop, False) & (done < most)
        starts = [limits > 0, np.zeros_like(limits)]
        end = [np.logical_not(np.any(work))]
    else:
        done = made + (-1 if loop.reverse else 1)
        work = (done < most) & (done >= 0)
        first = np.broadcast_to(top - 1 if loop.reverse else top * 0, (size,))
        starts = [first < limits, first]
        end = []
    whole = Body(
        [most, *body.leaves, at_work, made], [*carries, work, done, *stacks, *end]
    ).cut()
    new = Loop(
        whole, loop.consts + 1, loop.seqs, loop.carries + 2, counted=True,
        marks=loop.marks, **settings,
    )  # fmt: skip
    return new, top, limits, starts
