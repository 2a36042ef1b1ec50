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
from workbench.control_flow.loop import (
    Loop,
    find_moving_leaves,
    pad_rows,
    read_back,
    take_window,
)
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
    leaves = [*(x.leaf for x in (*consts, *seqs)), *(x.leaf for x in carries)]
    outs = [x.output for x in carries]
    whole = Graph(leaves, [*outs, *stacked])
    first = len(consts) + len(seqs)
    used = _find_used(whole, first, carries)
    kept_consts = [x for i, x in enumerate(consts) if used >> i & 1]
    kept_seqs = [x for i, x in enumerate(seqs) if used >> (len(consts) + i) & 1]
    if not kept_seqs and seqs and settings.get("steps") is None and count is None:
        kept_seqs = [seqs[0]]
    kept = [i for i in range(len(carries)) if used >> (first + i) & 1]
    moved = [carries[i] for i in kept]
    body = detach_leaves(
        Graph(
            [*(x.leaf for x in (*kept_consts, *kept_seqs)), *(x.leaf for x in moved)],
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
    if again is not None and any(x.value is None for x in kept_seqs):
        less = _leave_unread_out(again.source, seqs, kept_seqs)
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


def _find_used(whole: Graph, first: int, carries: Sequence[NewCarry]) -> int:
    """Return the bitmask of the leaves of a step that wanted outputs depend on.

    The outputs of the carries come first, their leaves from ``first`` on.
    """
    used = make_bitmask(first + i for i, x in enumerate(carries) if x.wanted)
    for mask in whole.reads[len(carries) :]:
        used |= mask
    return read_back(used, whole.reads[: len(carries)], first)


def _leave_unread_out(
    source: Loop, seqs: Sequence[Given], kept: Sequence[Given]
) -> Loop:
    """Return a loop that runs again, with those of its stacks that are read.

    Its stacks are the sequences without value, in their order; ``kept`` are read.
    """
    stacks = [x.leaf.serial for x in seqs if x.value is None]
    read = [x.leaf.serial for x in kept if x.value is None]
    ends = source.carries
    outs = [source.body.outputs[ends + stacks.index(s)] for s in read]
    less = Loop(
        Graph(source.body.leaves, [*source.body.outputs[:ends], *outs]),
        source.consts, source.seqs, ends,
        steps=source.steps, counted=source.counted, uneven=source.uneven,
    )  # fmt: skip
    less.derived = True
    return less


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
    batched_leaves = make_bitmask(i for i, b in enumerate(flags) if b)
    mask = find_moving_leaves(loop, batched_leaves, None)
    if loop.until and not uneven:
        # Whether examples stop by themselves.
        uneven = bool(loop.body.reads[-1] & mask)
    if uneven:
        mask |= make_bitmask(range(first, first + loop.carries))
    moving = [i for i in range(len(loop.body.leaves)) if mask >> i & 1]
    carried = [i - first for i in moving if i >= first]
    ends = len(loop.body.outputs)
    spread = [*carried, *(range(loop.carries, ends) if uneven else ())]
    body, have, inner = batch_graph(loop.body, moving, size, spread)
    for i in range(loop.seqs):
        if flags[loop.consts + i]:
            seqs[i] = np.moveaxis(seqs[i], 0, 1)
    for i in carried:
        if not flags[first + i]:
            inits[i] = _broadcast_batch(inits[i], size)
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
    ends -= loop.until
    whole = [i for i in range(loop.carries) if have[i]]
    if loop.until and uneven:
        made[-1] = extra[1]  # each example's own number of steps
        whole.append(len(made) - 1)
    stacks = [i for i in range(loop.carries, ends) if have[i]]
    stacks += [ends + k for k, i in enumerate(loop.marks) if i in carried]
    return _put_batch_first(made, whole, stacks, size)


def _put_batch_first(
    made: Sequence[Any], whole: Sequence[int], stacks: Sequence[int], size: Any
) -> tuple[Any, ...]:
    """Return results with the axis of the batch first.

    Those that are ``whole`` have it there, ``stacks`` behind the steps, others nowhere.
    """
    results = []
    for i, y in enumerate(made):
        if i in stacks:
            results.append(np.moveaxis(y, 1, 0))
        else:
            results.append(y if i in whole else _broadcast_batch(y, size))
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
    rows = [take_window(x, count) for x in seqs] if loop.until else seqs
    entries = [*pair_leaves(body.leaves[loop.consts :], rows), *saved, *flagging]
    entries += pair_leaves(fresh[len(flows) :], [g[s] for s in stacks])
    moved = []
    for i, leaf, c in zip(flows, fresh, back, strict=False):
        start = np.zeros_like(inits[i]) if g[i] is None else g[i]
        out = np.zeros_like(leaf) if c is None else c
        moved.append(NewCarry(leaf, start, out, bool(asked >> first + i & 1)))
    pairs = zip(wanted, results, strict=False)
    arriving = [(place, c) for place, c in pairs if c is not None]
    moved += [
        _add_up(c, body.leaves[place], consts[place])
        for place, c in arriving
        if place < loop.consts
    ]
    stacked = [c for place, c in arriving if place >= loop.consts]
    lasts, ys = build_loop(
        pair_leaves(body.leaves, consts), entries, moved, stacked, again, count=count,
        steps=None if count is not None else loop.steps,
        reverse=not loop.reverse, uneven=loop.uneven,
    )  # fmt: skip
    if loop.until:  # the rows of steps that were not made
        longer = [seqs[p - loop.consts] for p, _ in arriving if p >= loop.consts]
        ys = [pad_rows(y, x) for y, x in zip(ys, longer, strict=True)]
    found: dict[int, Any] = {first + i: y for i, y in zip(flows, lasts, strict=False)}
    sums, back_rows = iter(lasts[len(flows) :]), iter(ys)
    for place, _ in arriving:
        found[place] = next(sums if place < loop.consts else back_rows)
    start = int(loop.counted)
    return [found.get(i - start) for i in range(len(inputs))]


def _add_up(arriving: Any, leaf: Tensor, const: Any) -> NewCarry:
    """Return the carry in which the cotangents of a constant are added up."""
    total = name_after(make_leaf_like(leaf), leaf)
    return NewCarry(total, np.zeros_like(const), total + arriving, True)


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
    live = make_bitmask(first + i for i in arrived if i < loop.carries)
    stacks = [i for i in arrived if i >= loop.carries]
    for i in stacks:
        live |= varies[i] & moving
    carried = [mask & moving for mask in varies[: loop.carries]]
    live = read_back(live, carried, first) & moving
    return [i for i in range(loop.carries) if live >> first + i & 1], stacks


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
        again = _run_in_pieces(loop, (count, consts, seqs, inits), y, drawn, lost)
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


def _run_in_pieces(
    loop: Loop,
    inputs: tuple[Any, Sequence[Any], Sequence[Any], Sequence[Any]],
    y: Any,
    drawn: Sequence[Given],
    lost: Sequence[Tensor],
) -> Again:
    """Return the loop that runs again from each kept mark, for the ``lost`` nodes.

    ``inputs`` are the number of steps, constants, sequences and first carries.
    """
    (count, consts, seqs, inits), at = inputs, loop.marks
    body = loop.body
    leaves = [
        *body.leaves[: loop.consts + loop.seqs],
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
    assert loop.every is not None
    return Again(source, [*given, *y[end : end + len(at)]], loop.every)


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
    masked = {i for i in moving if is_masked(given[i])}
    of, results = _push_step(loop, moving, masked, rules)
    ends = len(body.outputs) - loop.until
    seen = ends if loop.pulled else loop.carries + loop.visible
    wanted = [i for i in range(loop.carries, seen) if results[i] is not None]
    if loop.until:
        count = y[-1]
        seqs = [take_window(x, count) for x in seqs]
    drawn = [Given(body.outputs[i], y[i]) for i in loop.draws]
    moving_consts = [Given(of[i], given[i]) for i in range(loop.consts) if i in of]
    moving_seqs = [
        Given(of[i], take_window(given[i], count) if loop.until else given[i])
        for i in range(loop.consts, first)
        if i in of
    ]
    moved = [
        NewCarry(x, v, out, False)
        for x, v, out in zip(body.leaves[first:], inits, body.outputs, strict=False)
    ]
    carried = [i for i in range(loop.carries) if first + i in of]
    for i in carried:
        x, value, t = of[first + i], given[first + i], results[i]
        value = np.zeros_like(inits[i]) if value is None else value
        moved.append(NewCarry(x, value, np.zeros_like(x) if t is None else t, True))
    lasts, ys = build_loop(
        [*pair_leaves(body.leaves, consts), *moving_consts],
        [*pair_leaves(body.leaves[loop.consts :], seqs), *moving_seqs, *drawn,
         *flagging],
        moved, [results[i] for i in wanted], reverse=loop.reverse, count=count,
        uneven=loop.uneven, steps=None if count is not None else loop.steps,
    )  # fmt: skip
    made: list[Any] = [None] * (ends + len(loop.marks) + loop.until)
    for i, t in zip(carried, lasts[loop.carries :], strict=True):
        made[i] = t
    for i, t in zip(wanted, ys, strict=True):
        made[i] = t
    return tuple(made)


def _push_step(
    loop: Loop, moving: Sequence[int], masked: set[int], rules: Rules
) -> tuple[dict[int, Tensor], Sequence[Any]]:
    """Return the tangent's leaf of each leaf that moves, and the results of a step.

    A tangent that leaves a mask stays one in all further steps.
    """
    first = loop.consts + loop.seqs
    while True:
        fresh, results = push_graph(loop.body, moving, masked, rules)
        carried = enumerate(results[: loop.carries])
        more = {first + i for i, t in carried if is_masked(t)} - masked
        if not more:
            return dict(zip(moving, fresh, strict=True)), results
        masked = masked | more


SCAN.pull = _pull
SCAN.push = _push
SCAN.batch = _batch
