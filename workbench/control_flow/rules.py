"""The rules of loops: each makes further loops, of any order, in linear time.

The cotangents of a loop are a loop in the other direction, whose carries are the
cotangents of the carries and the sums of those of the constants. Its tangents are a
loop beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from workbench.autodiff.higher_order import (
    batch_graph,
    detach_leaves,
    is_masked,
    make_bitmask,
    name_after,
    pull_graph,
    push_graph,
    refuse_inner_draws,
    smooth_reads,
)
from workbench.autodiff.steps import Rules
from workbench.control_flow.loop import Loop, find_moving_leaves, pad_rows, take_window
from workbench.control_flow.op import SCAN, run_loop
from workbench.control_flow.pieces import Chunks, run_chunks
from workbench.control_flow.running import Absent
from workbench.control_flow.steps import apply_step_rules
from workbench.core import blame
from workbench.core.graph import Graph
from workbench.core.tensor import Tensor, mask_cotangent, value_of
from workbench.core.trace import make_leaf_like
from workbench.core.types import Array, Params, Spec, is_differentiable
from workbench.errors import TraceError
from workbench.ops.define import shape_of

# Making one loop out of another: what the rules of loops are made of.


class Given(NamedTuple):
    """A leaf of a new step, and its value among the op's operands."""

    leaf: Tensor
    value: Any


def pair_leaves(leaves: Sequence[Tensor], values: Sequence[Any]) -> list[Given]:
    """Return leaves paired with their values, as far as there are values."""
    return [Given(x, v) for x, v in zip(leaves, values, strict=False)]


def list_leaves(entries: Sequence[Given | NewCarry]) -> list[Tensor]:
    """Return the leaves of some inputs of a step."""
    return [x.leaf for x in entries]


class NewCarry(NamedTuple):
    """A carry of a new step: its leaf, first value and output."""

    leaf: Tensor
    value: Any
    output: Any
    #: Whether somebody asks for its last value.
    wanted: bool


class Again(NamedTuple):
    """A loop that runs once more, in pieces, for values that were not kept."""

    source: Loop
    #: Its inputs, and its carries before each piece.
    inputs: list[Any]
    every: int


def build_loop(
    consts: Sequence[Given],
    seqs: Sequence[Given],
    carries: Sequence[NewCarry],
    stacked: Sequence[Any],
    again: Again | None = None,
    **settings: Any,
) -> tuple[list[Any], list[Any]]:
    """Make and run a new loop; return its last carries and its stacks.

    A carry that is not wanted is None.

    What no wanted output depends on is left out. Sequences without value are what the
    loop ``again`` gives.
    """
    seqs = sorted(seqs, key=lambda x: x.value is None)
    count = settings.pop("count", None)
    if not stacked and not any(x.wanted for x in carries):
        return [None] * len(carries), []
    leaves = [*list_leaves(consts), *list_leaves(seqs), *list_leaves(carries)]
    outs = [x.output for x in carries]
    whole = Graph(leaves, [*outs, *stacked])
    first = len(consts) + len(seqs)
    used = make_bitmask(first + i for i, x in enumerate(carries) if x.wanted)
    for mask in whole.reads[len(carries) :]:
        used |= mask
    grown = 0
    while grown != used:
        grown = used
        for i, mask in enumerate(whole.reads[: len(carries)]):
            if used >> (first + i) & 1:
                used |= mask
    kept_consts = [x for i, x in enumerate(consts) if used >> i & 1]
    kept_seqs = [x for i, x in enumerate(seqs) if used >> (len(consts) + i) & 1]
    if not kept_seqs and seqs and settings.get("steps") is None and count is None:
        kept_seqs = [seqs[0]]
    kept = [i for i in range(len(carries)) if used >> (first + i) & 1]
    moved = [carries[i] for i in kept]
    body = detach_leaves(
        Graph(
            [*list_leaves(kept_consts), *list_leaves(kept_seqs), *list_leaves(moved)],
            [*(x.output for x in moved), *stacked],
        )
    )
    inputs = [
        value
        for group in (kept_consts, kept_seqs, moved)
        for value in (x.value for x in group)
        if value is not None
    ]
    given = [count, *inputs, *(again.inputs if again else ())]
    loop = Loop(
        body, len(kept_consts), len(kept_seqs), len(moved),
        hide=any(isinstance(x, Tensor) for x in given),
        counted=count is not None, **settings,
    )  # fmt: skip
    loop.derived = True
    virtual = [x.leaf.serial for x in kept_seqs if x.value is None]
    if virtual and again is not None:
        # Of what runs again only what is read is needed.
        source = again.source
        wanted = [x.leaf.serial for x in seqs if x.value is None]
        ends = source.carries
        outs = [source.body.outputs[ends + wanted.index(s)] for s in virtual]
        heads = source.body.outputs[:ends]
        less = Loop(
            Graph(source.body.leaves, [*heads, *outs]), source.consts, source.seqs,
            ends, steps=source.steps, counted=source.counted, uneven=source.uneven,
        )  # fmt: skip
        less.derived = True
        chunks = Chunks(less, loop, again.every)
        made = run_chunks(chunks, [*again.inputs, *inputs])
    else:
        made = run_loop(loop, [*([] if count is None else [count]), *inputs])
    lasts: list[Any] = [None] * len(carries)
    for i, y in zip(kept, made, strict=False):
        lasts[i] = y
    ys = list(made[len(moved) : len(moved) + len(stacked)])
    for i, x in enumerate(carries):
        if is_masked(x.output) and lasts[i] is not None:
            lasts[i] = mask_cotangent(lasts[i])
    return lasts, [
        mask_cotangent(y) if is_masked(out) else y
        for y, out in zip(ys, stacked, strict=True)
    ]


# Loops over a batch of examples (`vmap`): all of them make each step together.
#
# Where examples make different numbers of steps, the loop goes on until the last one is
# ready, and those that are keep their state.


def _batch(
    inputs: tuple[Any, ...], batched: tuple[bool, ...], params: Params
) -> tuple[Any, ...]:
    """Return all outputs of a loop for many examples, the axis of the batch first."""
    loop: Loop = params["loop"]
    size = next(shape_of(x)[0] for x, b in zip(inputs, batched, strict=True) if b)
    count, consts, seqs, inits = loop.split_inputs(inputs)
    start, first = int(loop.counted), loop.consts + loop.seqs
    flags = batched[start:]
    uneven = bool(start and batched[0])
    mask = find_moving_leaves(
        loop, make_bitmask(i for i, b in enumerate(flags) if b), None
    )
    if loop.until and not uneven:
        # Whether examples stop by themselves.
        uneven = bool(loop.body.reads[-1] & mask)
    if uneven:
        mask |= make_bitmask(range(first, first + loop.carries))
    moving = [i for i in range(len(loop.body.leaves)) if mask >> i & 1]
    carried = [i for i in range(loop.carries) if mask >> (first + i) & 1]
    ends = len(loop.body.outputs)
    spread = [*carried, *(range(loop.carries, ends) if uneven else ())]
    body, have, inner = batch_graph(loop.body, moving, size, spread)
    seqs = [
        np.moveaxis(x, 0, 1) if flags[loop.consts + i] else x
        for i, x in enumerate(seqs)
    ]
    inits = [
        x if flags[first + i] or i not in carried else _broadcast_batch(x, size)
        for i, x in enumerate(inits)
    ]
    settings: dict[str, Any] = {
        "reverse": loop.reverse, "until": loop.until, "hide": False,
        "visible": loop.visible, "every": loop.every, "limit": loop.limit,
        "uneven": loop.uneven,
    }  # fmt: skip
    if not uneven:
        new = Loop(
            body, loop.consts, loop.seqs, loop.carries, steps=loop.steps,
            counted=loop.counted, marks=loop.marks, **settings,
        )  # fmt: skip
        head = [count] if start else []
        more = 0
    else:
        new, count, limits, added = _freeze_finished(
            loop, body, (size, inner), count, settings, inputs
        )
        consts, inits = [limits, *consts], [*inits, *added]
        head, more = [count], len(added)
    new.derived = loop.derived
    new.keep, new.pulled, new.draws = loop.keep, loop.pulled, loop.draws
    made = list(run_loop(new, [*head, *consts, *seqs, *inits]))
    extra = made[loop.carries : loop.carries + more]
    made[loop.carries : loop.carries + more] = []
    if more and loop.marks:
        begin, end = ends - loop.until, len(made) - loop.until
        made[begin:end] = [made[begin + i] for i in loop.marks]
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
            results.append(_broadcast_batch(y, size))
    return tuple(results)


def _broadcast_batch(x: Array, size: Any) -> Array:
    return np.broadcast_to(x, (size, *shape_of(x)))


def _freeze_finished(
    loop: Loop,
    body: Graph,
    sizes: tuple[Any, Any],
    count: Any,
    settings: dict[str, Any],
    inputs: Sequence[Any],
) -> tuple[Loop, Any, Any, list[Any]]:
    """Return a loop in which an example that has ended keeps its state.

    Two more carries tell which examples are at work, and how many steps were made; in a
    loop that goes by numbers alone the second is the place it is at. ``sizes`` are the
    number of examples outside, and as a length of the leaves of the body.
    """
    size, inner = sizes
    if loop.visible and not loop.derived:
        raise TraceError(
            "vmap of a scan whose examples make different numbers of steps"
            f"{blame.user_line()}: the stacks of their outputs have different lengths."
            " Ask for the last values (last=True), or write wb.while_loop."
        )
    outputs = list(body.outputs)
    stop: Any = outputs.pop() if loop.until else None
    olds = body.leaves[loop.consts + loop.seqs :]
    at_work = make_leaf_like(Spec((inner,), np.dtype(bool)))
    made = make_leaf_like(Spec((inner,), np.dtype(np.int64)))
    most = make_leaf_like(Spec((inner,), np.dtype(np.int64)))
    each = np.int64(loop.count_steps(inputs)) if count is None else count
    limits = np.broadcast_to(each, (size,))
    top = np.max(limits)

    def select_active(new: Array, old: Array) -> Array:
        active = np.reshape(at_work, (inner, *(1,) * (len(shape_of(old)) - 1)))
        return np.where(active, new, old)

    carries = [select_active(y, x) for y, x in zip(outputs, olds, strict=False)]
    stacks = outputs[loop.carries :]
    if loop.derived:
        # Carries stay as they are; tangents and cotangents come to an end.
        states = {x.serial for x in olds}
        stacks = [
            y
            if isinstance(y, Tensor) and y.serial in states
            else select_active(y, np.zeros_like(y))
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
    whole = detach_leaves(
        Graph(
            [most, *body.leaves, at_work, made], [*carries, work, done, *stacks, *end]
        )
    )
    new = Loop(
        whole, loop.consts + 1, loop.seqs, loop.carries + 2, counted=True,
        # A step that runs once more asks who is at work, which any state may tell.
        marks=loop.marks and range(loop.carries + 2), **(settings | {"uneven": True}),
    )  # fmt: skip
    return new, top, limits, starts


# The rules of `SCAN`


def _pull(
    mask: int,
    g: Any,
    y: Any,
    inputs: tuple[Any, ...],
    params: Params,
    rules: Rules = None,
) -> list[Any]:
    loop: Loop = params["loop"]
    loop.keep = loop.pulled = True
    refuse_inner_draws(loop.body, "scan")
    body, first = loop.body, loop.consts + loop.seqs
    count, consts, seqs, inits = loop.split_inputs(inputs)
    mask >>= int(loop.counted)
    rules, flags_of = apply_step_rules(loop, rules, inputs, y)
    flagging = [Given(*pair) for pair in flags_of]
    asked = make_bitmask(
        i
        for i, x in enumerate(body.leaves)
        if mask >> i & 1 and is_differentiable(x.spec.dtype)
    )
    moving = find_moving_leaves(loop, asked, "pull", rules)
    flows, stacks = _find_flows(loop, g, moving, rules)
    wanted = [i for i in range(first) if asked >> i & 1]
    masked = {i for i in (*flows, *stacks) if is_masked(g[i])}
    fresh, results = _pull_step(loop, flows, stacks, wanted, masked, rules)
    back = results[len(wanted) :]
    saved, again = _collect_saved(loop, inputs, y, fresh, results)
    if loop.until:
        count = y[-1]
    entries = pair_leaves(body.leaves[loop.consts :], seqs)
    if loop.until:
        entries = [Given(x.leaf, take_window(x.value, count)) for x in entries]
    entries += [*saved, *flagging]
    heads = len(flows)
    entries += [Given(fresh[heads + i], g[s]) for i, s in enumerate(stacks)]
    moved = []
    for i, leaf, c in zip(flows, fresh, back, strict=False):
        start = np.zeros_like(inits[i]) if g[i] is None else g[i]
        moved.append(NewCarry(leaf, start, np.zeros_like(leaf) if c is None else c,
                           bool(asked >> first + i & 1)))  # fmt: skip
    stacked = []
    for place, c in zip(wanted, results, strict=False):
        if place < loop.consts and c is not None:
            added = name_after(make_leaf_like(body.leaves[place]), body.leaves[place])
            value = np.zeros_like(consts[place])
            moved.append(NewCarry(added, value, added + c, True))
        elif c is not None:
            stacked.append(c)
    given = pair_leaves(body.leaves, consts)
    lasts, ys = build_loop(
        given, entries, moved, stacked, reverse=not loop.reverse,
        steps=None if count is not None else loop.steps,
        count=count, again=again, uneven=loop.uneven,
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
            made[start + place] = pad_rows(row, x) if loop.until else row
    return made


def _find_flows(
    loop: Loop, g: Any, moving: int, rules: Rules
) -> tuple[list[int], list[int]]:
    """Return the carries with flowing cotangents, and stacks with a cotangent.

    ``moving`` is the bitmask of the leaves that a derivative is asked by.
    """
    first = loop.consts + loop.seqs
    varies = smooth_reads(loop.body, rules, "pull")
    ends = len(loop.body.outputs) - loop.until
    arrived = [i for i in range(ends) if g[i] is not None and varies[i] & moving]
    live = make_bitmask(i for i in arrived if i < loop.carries)
    stacks = [i for i in arrived if i >= loop.carries]
    read = 0
    for i in stacks:
        read |= varies[i]
    grown = -1
    while grown != live:
        grown = live
        total = read
        for i in range(loop.carries):
            if live >> i & 1:
                total |= varies[i]
        live |= (total & moving) >> first
    flows = [
        i for i in range(loop.carries) if live >> i & 1 and moving >> first + i & 1
    ]
    return flows, stacks


def _pull_step(
    loop: Loop,
    flows: Sequence[int],
    stacks: Sequence[int],
    wanted: Sequence[int],
    masked: set[int],
    rules: Rules,
) -> tuple[Sequence[Tensor], Sequence[Any]]:
    """Return the cotangent leaves of a step, and the cotangents that result.

    First by the ``wanted`` leaves, then by the carries whose cotangents flow.
    """
    first = loop.consts + loop.seqs
    wrt = [*wanted, *(first + i for i in flows)]
    while True:  # a cotangent that leaves a mask stays one in all further steps
        fresh, results = pull_graph(loop.body, [*flows, *stacks], wrt, masked, rules)
        back = results[len(wanted) :]
        more = {i for i, c in zip(flows, back, strict=True) if is_masked(c)} - masked
        if not more:
            break
        masked = masked | more
    for i, leaf in zip(flows, fresh, strict=False):
        name_after(leaf, loop.body.leaves[first + i])
    return fresh, results


def _collect_saved(
    loop: Loop, inputs: Sequence[Any], y: Any, fresh: Sequence[Tensor], results: Any
) -> tuple[list[Given], Again | None]:
    """Return the stacked values of the forward loop that its cotangents may read.

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
    pieces = bool(loop.marks) and not absent and not _has_absent(y, loop)
    known = [*body.leaves[:first], *fresh, *(x.leaf for x in found.values())]
    kept = {x.serial for x in known}
    more = [x for x in body.leaves[first:] if x.serial not in kept]
    if pieces:
        more += [x for x in loop.stored if x.inputs]
    read = 0
    for mask in Graph([*known, *more], results).reads:
        read |= mask
    lost = [x for i, x in enumerate(more, len(known)) if read >> i & 1]
    if not lost:
        return list(found.values()), None
    count, consts, seqs, inits = loop.split_inputs(inputs)
    if loop.until:
        count = y[-1]
        seqs = [take_window(x, count) for x in seqs]
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
            detach_leaves(Graph(leaves, outs)),
            loop.consts, loop.seqs + len(drawn), len(at),
            steps=None if count is not None else loop.steps,
            counted=count is not None, uneven=loop.uneven,
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
        NewCarry(x, v, out, False)
        for x, v, out in zip(body.leaves[first:], inits, body.outputs, strict=False)
    ]
    entries = [*pair_leaves(body.leaves[loop.consts :], seqs), *drawn]
    _, ys = build_loop(
        pair_leaves(body.leaves, consts), entries, states, lost, count=count,
        steps=None if count is not None else loop.steps, reverse=loop.reverse,
        uneven=loop.uneven,
    )  # fmt: skip
    return [*found.values(), *pair_leaves(lost, ys)], None


def _has_absent(y: Any, loop: Loop) -> bool:
    end = len(loop.body.outputs) - loop.until
    return any(isinstance(value_of(x), Absent) for x in y[end:])


def _push(
    tangents: tuple[Any, ...],
    y: Any,
    inputs: tuple[Any, ...],
    params: Params,
    rules: Rules = None,
) -> tuple[Any, ...]:
    loop: Loop = params["loop"]
    refuse_inner_draws(loop.body, "scan")
    body, first = loop.body, loop.consts + loop.seqs
    count, consts, seqs, inits = loop.split_inputs(inputs)
    given = tangents[int(loop.counted) :]
    rules, flags_of = apply_step_rules(loop, rules, inputs, y)
    flagging = [Given(*pair) for pair in flags_of]
    start = make_bitmask(
        i
        for i, (t, x) in enumerate(zip(given, body.leaves, strict=True))
        if t is not None and is_differentiable(x.spec.dtype)
    )
    mask = find_moving_leaves(loop, start, "push", rules)
    moving = [i for i in range(len(body.leaves)) if mask >> i & 1]
    flags = {i for i in moving if is_masked(given[i])}
    while True:
        fresh, results = push_graph(body, moving, flags, rules)
        more = {
            first + i for i, t in enumerate(results[: loop.carries]) if is_masked(t)
        }
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
        seqs = [take_window(x, count) for x in seqs]
    values = [*consts, *seqs, *inits]
    drawn = [Given(body.outputs[i], y[i]) for i in loop.draws]

    def both(a: int, b: int) -> list[Given]:
        found = [Given(body.leaves[i], values[i]) for i in range(a, b)]
        for i in range(a, b):
            if i in of:
                t = given[i]
                t = take_window(t, count) if loop.until and i >= loop.consts else t
                found.append(Given(of[i], t))
        return found

    moved = [
        NewCarry(body.leaves[first + i], inits[i], body.outputs[i], False)
        for i in range(loop.carries)
    ]
    carried = [i for i in range(loop.carries) if first + i in of]
    for i in carried:
        x, t = of[first + i], results[i]
        value = given[first + i]
        value = np.zeros_like(inits[i]) if value is None else value
        moved.append(NewCarry(x, value, np.zeros_like(x) if t is None else t, True))
    lasts, ys = build_loop(
        both(0, loop.consts), [*both(loop.consts, first), *drawn, *flagging], moved,
        [results[i] for i in wanted], reverse=loop.reverse, count=count,
        uneven=loop.uneven, steps=None if count is not None else loop.steps,
    )  # fmt: skip
    made: list[Any] = [None] * (ends + len(loop.marks) + loop.until)
    for i, t in zip(carried, lasts[loop.carries :], strict=True):
        made[i] = t
    for i, t in zip(wanted, ys, strict=True):
        made[i] = t
    return tuple(made)


SCAN.pull = _pull
SCAN.push = _push
SCAN.batch = _batch
