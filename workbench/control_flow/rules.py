"""The rules of loops: each makes further loops, of any order, in linear time.

The cotangents of a loop are a loop in the other direction, whose carries are the
cotangents of the carries and the sums of those of the constants. Its tangents are a
loop beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench.autodiff.body import Body, bits, flagged, refuse_inner_draws
from workbench.control_flow.loop import Loop, moving_leaves
from workbench.control_flow.making import Again, Given, Moved, built, paired
from workbench.control_flow.many import batch
from workbench.control_flow.op import SCAN
from workbench.control_flow.running import Absent
from workbench.control_flow.windows import pad, window
from workbench.core.tensor import Tensor, value_of
from workbench.core.trace import blank
from workbench.core.types import differentiable

__all__: list[str] = []

Params = dict[str, Any]


def _pull(
    mask: int, g: Any, y: Any, inputs: tuple[Any, ...], params: Params
) -> list[Any]:
    loop: Loop = params["loop"]
    loop.keep = loop.pulled = True
    refuse_inner_draws(loop.body, "scan")
    body, first = loop.body, loop.consts + loop.seqs
    count, consts, seqs, inits = loop.split(inputs)
    mask >>= int(loop.counted)
    asked = bits(
        i
        for i, x in enumerate(body.leaves)
        if mask >> i & 1 and differentiable(x.spec.dtype)
    )
    moving = moving_leaves(loop, asked)
    ends = len(body.outputs) - loop.until
    arrived = [i for i in range(ends) if g[i] is not None and body.varies[i] & moving]
    # The carries whose cotangents go from step to step.
    live = bits(i for i in arrived if i < loop.carries)
    stacks = [i for i in arrived if i >= loop.carries]
    read = 0
    for i in stacks:
        read |= body.varies[i]
    grown = -1
    while grown != live:
        grown = live
        total = read
        for i in range(loop.carries):
            if live >> i & 1:
                total |= body.varies[i]
        live |= (total & moving) >> first
    flows = [
        i for i in range(loop.carries) if live >> i & 1 and moving >> first + i & 1
    ]
    arriving = [*flows, *stacks]
    wanted = [i for i in range(first) if asked >> i & 1]
    wrt = [*wanted, *(first + i for i in flows)]
    flags = {i for i in (*flows, *stacks) if flagged(g[i])}
    while True:  # a cotangent that leaves a mask stays one in all further steps
        fresh, results = body.pull(arriving, wrt, flags)
        back = results[len(wanted) :]
        more = {i for i, c in zip(flows, back, strict=True) if flagged(c)} - flags
        if not more:
            break
        flags |= more
    for i, leaf in zip(flows, fresh, strict=False):
        leaf.name = _d(body.leaves[first + i])
    saved, again = _saved(loop, inputs, y, fresh, results)
    if loop.until:
        count = y[-1]
    entries = paired(body.leaves[loop.consts :], seqs)
    if loop.until:
        entries = [Given(x.leaf, window(x.value, count)) for x in entries]
    entries += saved
    heads = len(flows)
    entries += [Given(fresh[heads + i], g[s]) for i, s in enumerate(stacks)]
    moved = []
    for i, leaf, c in zip(flows, fresh, back, strict=False):
        start = np.zeros_like(inits[i]) if g[i] is None else g[i]
        moved.append(Moved(leaf, start, np.zeros_like(leaf) if c is None else c,
                           bool(asked >> first + i & 1)))  # fmt: skip
    stacked = []
    for place, c in zip(wanted, results, strict=False):
        if place < loop.consts and c is not None:
            added = blank(body.leaves[place], _d(body.leaves[place]))
            value = np.zeros_like(consts[place])
            moved.append(Moved(added, value, added + c, True))
        elif c is not None:
            stacked.append(c)
    given = paired(body.leaves, consts)
    lasts, ys = built(
        given, entries, moved, stacked, reverse=not loop.reverse,
        steps=None if count is not None else loop.steps,
        count=count, again=again,
    )  # fmt: skip
    made: list[Any] = [None] * len(inputs)
    start = int(loop.counted)
    for i, last in zip(flows, lasts, strict=False):
        made[start + first + i] = last
    sums, rows = iter(lasts[len(flows) :]), iter(ys)
    for place, c in zip(wanted, results, strict=False):
        if c is not None and place < loop.consts:
            made[start + place] = next(sums)
        elif c is not None:
            row = next(rows)
            x = seqs[place - loop.consts]
            made[start + place] = pad(row, x) if loop.until else row
    return made


def _d(x: Tensor) -> str | None:
    """What the cotangent of a leaf is called."""
    return f"d_{x.name}" if x.name else None


def _saved(
    loop: Loop, inputs: Sequence[Any], y: Any, fresh: Sequence[Tensor], results: Any
) -> tuple[list[Given], Again | None]:
    """The stacked values of the forward loop that its cotangents may read.

    Those without value come from running it again in pieces.
    """
    body, first = loop.body, loop.consts + loop.seqs
    plain = {x.serial for x in body.leaves[:first]}
    found: dict[int, Given] = {}
    absent = False
    for i in range(loop.carries, len(body.outputs) - loop.until):
        x = body.outputs[i]
        if isinstance(x, Tensor) and x.serial not in plain:
            if isinstance(value_of(y[i]), Absent):
                absent = True
            else:
                found.setdefault(x.serial, Given(x, y[i]))
    pieces = bool(loop.marks) and not absent and not _absent(y, loop)
    known = [*body.leaves[:first], *fresh, *(x.leaf for x in found.values())]
    kept = {x.serial for x in known}
    more = [x for x in body.leaves[first:] if x.serial not in kept]
    if pieces:
        more += [x for x in loop.stored if x.inputs]
    read = 0
    for mask in Body([*known, *more], results).reads:
        read |= mask
    lost = [x for i, x in enumerate(more, len(known)) if read >> i & 1]
    if not lost:
        return list(found.values()), None
    count, consts, seqs, inits = loop.split(inputs)
    if loop.until:
        count = y[-1]
        seqs = [window(x, count) for x in seqs]
    drawn = [Given(body.outputs[i], y[i]) for i in loop.draws]
    if pieces:
        at = loop.marks
        leaves = [
            *body.leaves[:first],
            *(x.leaf for x in drawn),
            *(loop.leaf(i) for i in at),
        ]
        outs = [*(body.outputs[i] for i in at), *lost]
        source = Loop(
            Body(leaves, outs).cut(), loop.consts, loop.seqs + len(drawn), len(at),
            steps=None if count is not None else loop.steps,
            counted=count is not None,
        )  # fmt: skip
        source.derived = True
        given = [*consts, *seqs, *(x.value for x in drawn), *(inits[i] for i in at)]
        given = given if count is None else [count, *given]
        end = len(body.outputs) - loop.until
        marks = y[end : end + len(at)]
        assert loop.every is not None
        again = Again(source, [*given, *marks], loop.every)
        return [*found.values(), *(Given(x, None) for x in lost)], again
    # The values before each step, computed again.
    states = [
        Moved(x, v, out, False)
        for x, v, out in zip(body.leaves[first:], inits, body.outputs, strict=False)
    ]
    entries = [*paired(body.leaves[loop.consts :], seqs), *drawn]
    _, ys = built(
        paired(body.leaves, consts), entries, states, lost, count=count,
        steps=None if count is not None else loop.steps, reverse=loop.reverse,
    )  # fmt: skip
    return [*found.values(), *paired(lost, ys)], None


def _absent(y: Any, loop: Loop) -> bool:
    end = len(loop.body.outputs) - loop.until
    return any(isinstance(value_of(x), Absent) for x in y[end:])


def _push(
    tangents: tuple[Any, ...], y: Any, inputs: tuple[Any, ...], params: Params
) -> tuple[Any, ...]:
    loop: Loop = params["loop"]
    refuse_inner_draws(loop.body, "scan")
    body, first = loop.body, loop.consts + loop.seqs
    count, consts, seqs, inits = loop.split(inputs)
    given = tangents[int(loop.counted) :]
    start = bits(
        i
        for i, (t, x) in enumerate(zip(given, body.leaves, strict=True))
        if t is not None and differentiable(x.spec.dtype)
    )
    mask = moving_leaves(loop, start)
    moving = [i for i in range(len(body.leaves)) if mask >> i & 1]
    flags = {i for i in moving if flagged(given[i])}
    while True:
        fresh, results = body.push(moving, flags)
        more = {first + i for i, t in enumerate(results[: loop.carries]) if flagged(t)}
        if more <= flags:
            break
        flags |= more
    of = dict(zip(moving, fresh, strict=True))
    ends = len(body.outputs) - loop.until
    wanted = [
        i
        for i in range(
            loop.carries, ends if loop.pulled else loop.carries + loop.visible
        )
        if results[i] is not None
    ]
    if loop.until:
        count = y[-1]
        seqs = [window(x, count) for x in seqs]
    values = [*consts, *seqs, *inits]
    drawn = [Given(body.outputs[i], y[i]) for i in loop.draws]

    def both(a: int, b: int) -> list[Given]:
        found = [Given(body.leaves[i], values[i]) for i in range(a, b)]
        for i in range(a, b):
            if i in of:
                t = given[i]
                t = window(t, count) if loop.until and i >= loop.consts else t
                found.append(Given(of[i], t))
        return found

    moved = [
        Moved(body.leaves[first + i], inits[i], body.outputs[i], False)
        for i in range(loop.carries)
    ]
    carried = [i for i in range(loop.carries) if first + i in of]
    for i in carried:
        x, t = of[first + i], results[i]
        value = given[first + i]
        value = np.zeros_like(inits[i]) if value is None else value
        moved.append(Moved(x, value, np.zeros_like(x) if t is None else t, True))
    lasts, ys = built(
        both(0, loop.consts), [*both(loop.consts, first), *drawn], moved,
        [results[i] for i in wanted], reverse=loop.reverse, count=count,
        steps=None if count is not None else loop.steps,
    )  # fmt: skip
    made: list[Any] = [None] * (ends + len(loop.marks) + loop.until)
    for i, t in zip(carried, lasts[loop.carries :], strict=True):
        made[i] = t
    for i, t in zip(wanted, ys, strict=True):
        made[i] = t
    return tuple(made)


def _batch(
    inputs: tuple[Any, ...], batched: tuple[bool, ...], params: Params
) -> tuple[Any, ...]:
    return batch(params["loop"], inputs, batched)


SCAN.pull = _pull
SCAN.push = _push
SCAN.batch = _batch
