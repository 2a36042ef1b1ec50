"""`StreamPlan`: which steps of a captured program run side by side on the GPU.

Steps that wait for each other form chains. Long chains that do not wait for each other
get streams of their own; a step waits for what it reads, or writes over, on another
stream. What the memory plan puts into one place must not be in use at one time: a
buffer keeps its place until all later steps come after its last reader.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from workbench.backends.compiled.memory import place_buffers
from workbench.backends.compiled.steps import Plan, list_buffers, list_written
from workbench.backends.cupy.actions import (
    Action,
    Frame,
    LaunchAction,
    ProductAction,
)

#: A program has at most so many streams. Each that multiplies has work memory of
#: cuBLAS's, and more than a few kernels at a time fill a GPU.
MOST_STREAMS = 4
#: What steps take is estimated from what an H200 has measured: the seconds of the
#: least kernel of a CUDA graph, bytes and operations a second of the whole device.
LATENCY, BANDWIDTH, RATE = 1e-6, 4e12, 5e13
#: The rows and columns of a product that one multiprocessor computes at a time.
TILE = 64
#: A wait for another stream costs about as much as a kernel (a guess, not measured), so
#: a chain of less than four kernels' time gains nothing by a fork and a join.
WAIT, LEAST_BRANCH = 1e-6, 4e-6
#: Streams are taken if they save this part of the time: the estimate is a rough one.
LEAST_SAVED = 0.1
#: Steps side by side may take so many bytes more than one after the other.
MOST_SPREAD = 2**26


class StreamPlan(NamedTuple):
    """On which stream each step of a plan runs, and for which others it waits.

    Attributes
    ----------
    streams
        The number of the stream of each step. What is captured as one CUDA graph
        begins and ends on stream 0.
    waits
        For each step those on other streams that must be done before it begins, and of
        which no step before it on its stream has waited.
    """

    streams: tuple[int, ...]
    waits: tuple[tuple[int, ...], ...]

    @classmethod
    def of_one(cls, plan: Plan) -> StreamPlan:
        """Return the plan whose steps run one after the other."""
        return cls((0,) * len(plan.steps), ((),) * len(plan.steps))

    @property
    def width(self) -> int:
        """The number of streams."""
        return 1 + max(self.streams, default=0)


class Cost(NamedTuple):
    """What a step takes, about.

    Attributes
    ----------
    seconds
        Alone on the device.
    busy
        The seconds in which it would fill the whole device: two steps side by side
        take no less than both of these.
    """

    seconds: float
    busy: float


def spread_steps(
    plan: Plan, actions: Sequence[Action], processors: int
) -> tuple[StreamPlan, int]:
    """Choose the streams of a plan, and place its buffers for them.

    Returns
    -------
    The streams, and the size of the block of memory.
    """
    size = place_buffers(plan)
    streams = choose_streams(plan, actions, processors)
    if streams.width == 1:
        return streams, size
    ends = [buffer.last for buffer in plan.buffers]
    extend_lifetimes(plan, streams, find_segments(plan, actions))
    spread = place_buffers(plan)
    if spread - size <= MOST_SPREAD:
        return streams, spread
    for buffer, last in zip(plan.buffers, ends, strict=True):
        buffer.last = last
    return StreamPlan.of_one(plan), place_buffers(plan)


def find_segments(plan: Plan, actions: Sequence[Action]) -> list[range]:
    """Return the steps that follow each other in one CUDA graph each.

    A step that cannot be captured is a segment by itself.
    """
    outside = {action.step for action in actions if not action.is_capturable}
    segments: list[range] = []
    start = 0
    for number in sorted(outside):
        segments += [range(start, number), range(number, number + 1)]
        start = number + 1
    segments.append(range(start, len(plan.steps)))
    return [segment for segment in segments if segment]


def choose_streams(
    plan: Plan, actions: Sequence[Action], processors: int
) -> StreamPlan:
    """Return the stream of each step; all are 0 where nothing is to be gained."""
    needs = find_dependencies(plan)
    costs = estimate_costs(plan, actions, processors)
    streams = [0] * len(plan.steps)
    for segment in find_segments(plan, actions):
        chosen = _choose_segment(segment, needs, costs)
        for step, stream in zip(segment, chosen, strict=True):
            streams[step] = stream
    clocks = _Clocks(streams)
    for segment in find_segments(plan, actions):
        clocks.add_segment(segment, needs)
    return StreamPlan(tuple(streams), tuple(map(tuple, clocks.waits)))


# What waits for what


def find_dependencies(plan: Plan) -> list[list[int]]:
    """Return for each step those before it that it must wait for.

    It waits for who writes what it reads, and for who reads or writes what it writes.
    The flag is no reason: all that write to it write the same.
    """
    writers: dict[int, int] = {}
    readers: dict[int, list[int]] = defaultdict(list)
    needs: list[list[int]] = []
    for number, step in enumerate(plan.steps):
        written = set(list_written(step)) - {plan.flag}
        touched = set(list_buffers(step)) - {plan.flag}
        found = {writers[i] for i in touched if i in writers}
        for i in written:
            found.update(readers.pop(i, ()))
            writers[i] = number
        for i in touched - written:
            readers[i].append(number)
        needs.append(sorted(found))
    return needs


class _Clocks:
    """What is known to be done when a step is.

    Attributes
    ----------
    waits
        For each step the others that it waits for.
    known
        For each step and stream the last step there that is done before it ends.
    """

    def __init__(self, streams: Sequence[int]) -> None:
        self.streams = streams
        self.waits: list[list[int]] = []
        self.known = np.zeros((len(streams), 1 + max(streams, default=0)), np.int64)

    def add_segment(self, segment: range, needs: Sequence[Sequence[int]]) -> None:
        """Find the waits of a segment, before which all earlier steps are done."""
        width = self.known.shape[1]
        now = np.full((width, width), segment.start - 1)
        for step in segment:
            own = self.streams[step]
            known = now[own]
            waits = []
            for other in reversed(needs[step]):  # the latest may know of the others
                if known[self.streams[other]] < other:
                    waits.append(other)
                    np.maximum(known, self.known[other], out=known)
            known[own] = step
            self.waits.append(waits)
            self.known[step] = known


def extend_lifetimes(
    plan: Plan, streams: StreamPlan, segments: Sequence[range]
) -> None:
    """Let each buffer keep its place until its readers on all streams are done.

    Its ``last`` becomes the first step from which on every step knows that.
    """
    clocks = _Clocks(streams.streams)
    for segment in segments:
        clocks.add_segment(segment, [streams.waits[k] for k in range(segment.stop)])
    sure = np.minimum.accumulate(clocks.known[::-1])[::-1]
    uses: dict[int, set[int]] = defaultdict(set)
    for number, step in enumerate(plan.steps):
        for i in list_buffers(step):
            uses[i].add(number)
    for i, buffer in enumerate(plan.buffers):
        if buffer.first < 0 or buffer.last >= len(plan.steps):
            continue
        for use in uses[i] | {buffer.first, buffer.last}:
            done = np.searchsorted(sure[:, streams.streams[use]], use)
            buffer.last = max(buffer.last, int(done))


# What it is worth


def estimate_costs(
    plan: Plan, actions: Sequence[Action], processors: int
) -> list[Cost]:
    """Return what each step takes."""
    costs = [Cost(0.0, 0.0)] * len(plan.steps)
    for action in actions:
        # A round of a loop in one block takes as long as a kernel, about.
        seconds = (action.count + action.rounds) * LATENCY
        busy, share = 0.0, 1.0
        if isinstance(action, LaunchAction):
            touched = {i for i, _ in action.launch.pointers}
            busy = sum(plan.buffers[i].known_size for i in touched) / BANDWIDTH
            share = min(1.0, action.launch.blocks / processors)
        elif isinstance(action, ProductAction):
            tiles = 0
            for one in action.gemms:
                work = one.rows * one.columns * one.depth * one.products
                busy += 2.0 * work / RATE
                rows, columns = -(-one.rows // TILE), -(-one.columns // TILE)
                tiles += rows * columns * one.products
            share = min(1.0, tiles / processors)
        old = costs[action.step]
        seconds += busy / max(share, 1 / processors)
        costs[action.step] = Cost(old.seconds + seconds, old.busy + busy)
    return costs


def _choose_segment(
    segment: range, needs: Sequence[Sequence[int]], costs: Sequence[Cost]
) -> list[int]:
    """Return the stream of each step of a segment."""
    chains, depth = _find_chains(segment, needs, costs)
    lengths = [sum(costs[k].seconds for k in chain) for chain in chains]
    long = [n >= LEAST_BRANCH for n in lengths]
    if sum(long) < 2:
        return [0] * len(segment)
    chosen: dict[int, int] = {}
    free = [0.0] * MOST_STREAMS  # when a stream has done what it has got
    for chain, length, is_long in zip(chains, lengths, long, strict=True):
        if is_long:
            ready = depth[chain[0]] - costs[chain[0]].seconds
            begins = [max(one, ready) for one in free]
            stream = begins.index(min(begins))
            free[stream] = begins[stream] + length
            chosen.update(dict.fromkeys(chain, stream))
    readers: dict[int, int] = {}
    for step in reversed(segment):
        readers.update(dict.fromkeys(needs[step], step))
    for chain, is_long in zip(chains, long, strict=True):
        if not is_long:  # it stays beside who waits for it, or it waits for
            around = [*needs[chain[0]], readers.get(chain[-1], -1)]
            known = [chosen[k] for k in around if k in chosen]
            chosen.update(dict.fromkeys(chain, known[-1] if known else 0))
    order = list(dict.fromkeys(chosen[k] for k in segment))
    made = [order.index(chosen[k]) for k in segment]
    alone = math.fsum(costs[k].seconds for k in segment)
    together = _estimate_span(segment, made, needs, costs)
    return made if alone - together >= LEAST_SAVED * alone else [0] * len(segment)


def _find_chains(
    segment: range, needs: Sequence[Sequence[int]], costs: Sequence[Cost]
) -> tuple[list[list[int]], dict[int, float]]:
    """Return steps that wait for each other as chains, in the order of their starts.

    A step goes on with the chain of that step before it which has the most before
    itself. With them come the seconds of all that must be done at the end of a step.
    """
    chains: list[list[int]] = []
    tails: dict[int, list[int]] = {}
    depth: dict[int, float] = {}
    for step in segment:
        before = [k for k in needs[step] if k in depth]
        depth[step] = costs[step].seconds + max((depth[k] for k in before), default=0)
        open_ = [k for k in before if k in tails]
        chain = tails.pop(max(open_, key=depth.__getitem__)) if open_ else []
        if not chain:
            chains.append(chain)
        chain.append(step)
        tails[step] = chain
    return chains, depth


def _estimate_span(
    segment: range, streams: Sequence[int], needs: Sequence[Sequence[int]],
    costs: Sequence[Cost],
) -> float:  # fmt: skip
    """Return the seconds that a segment takes on such streams."""
    free: dict[int, float] = defaultdict(float)
    ends: dict[int, float] = {}
    own = dict(zip(segment, streams, strict=True))
    for step in segment:
        stream = own[step]
        start = free[stream] if stream in free or not stream else WAIT
        for k in needs[step]:
            if k in ends:
                start = max(start, ends[k] + WAIT * (own[k] != stream))
        free[stream] = ends[step] = start + costs[step].seconds
    joined = [end + WAIT * (stream != 0) for stream, end in free.items()]
    return max(math.fsum(costs[k].busy for k in segment), *joined)


# What is captured


def put_on_streams(
    actions: Sequence[Action], plan: StreamPlan, frame: Frame, streams: Sequence[Any]
) -> None:
    """Put actions on streams while the first of these captures.

    The others begin behind an event of the first, and the first waits for their ends.
    """
    runtime = frame.runtime
    of_step: dict[int, list[Action]] = defaultdict(list)
    for action in actions:
        of_step[action.step].append(action)
    steps = range(actions[0].step, actions[-1].step + 1)
    awaited = {other for step in steps for other in plan.waits[step]}
    start = runtime.mark()
    marks: dict[int, Any] = {}
    begun = {0}
    for step in steps:
        stream = plan.streams[step]
        with runtime.select(streams[stream]):
            if stream not in begun:
                begun.add(stream)
                runtime.follow(start)
            for other in plan.waits[step]:
                if other in steps:  # those before do nothing
                    runtime.follow(marks[other])
            for action in of_step[step]:
                action.run(frame)
            if step in awaited:
                marks[step] = runtime.mark()
    for stream in sorted(begun - {0}):
        with runtime.select(streams[stream]):
            marks[-stream] = runtime.mark()
        runtime.follow(marks[-stream])
