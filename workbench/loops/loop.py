"""`Loop`: one step and how often it runs, and `SCAN`, the op that runs it.

The op takes constants (the same in each step), sequences (one entry a step) and first
values of carries (what a step hands to the next). It gives the last carries and the
stacked outputs of all steps; after those that the user sees come the values that
reverse mode reads, which are stored only when they are wanted.

The cotangents of a loop are a loop in the other direction, whose carries are the
cotangents of the carries and the sums of those of the constants. Its tangents are a
loop beside it. So each rule makes further loops, of any order, in linear time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from workbench.errors import UsageError
from workbench.graph import types
from workbench.graph.op import declare
from workbench.graph.tensor import Tensor, value_of
from workbench.graph.types import Spec, differentiable
from workbench.loops.body import Body, bits, blank, flagged
from workbench.loops.chunks import Chunks, run_chunks
from workbench.loops.lengths import outward
from workbench.loops.many import batch
from workbench.loops.running import ENDLESS, Absent, Runner
from workbench.loops.windows import pad, window
from workbench.ops import several
from workbench.ops.define import masked, shape_of

__all__ = ["SCAN", "Given", "Loop", "Moved", "built", "moving_leaves", "run_loop"]

Params = dict[str, Any]

SCAN = declare("scan")


class Loop:
    """One step, as a `Body`, and how it is repeated.

    The leaves of the body are the constants, then one entry of each sequence, then
    the carries; its outputs the carries after the step, then what is stacked, and at
    the end of a loop with ``until`` whether to stop.

    Attributes
    ----------
    body
        The program of one step; its nodes keep the user's lines and scopes.
    consts, seqs, carries
        How many there are of each.
    visible
        How many stacked outputs are the user's.
    steps
        The number of steps, None where the sequences or the first input tell it.
    counted
        The first input of the op is the number of steps.
    reverse
        Steps go from the last entries of the sequences to the first.
    until
        The last output of the body says whether to stop after this step.
    keep
        Whether the values that reverse mode reads are stored.
    limit
        Called with the number of steps where `until` has not become true.
    """

    def __init__(
        self,
        body: Body,
        consts: int,
        seqs: int,
        carries: int,
        *,
        steps: Any = None,
        counted: bool = False,
        reverse: bool = False,
        until: bool = False,
        hide: bool = True,
        visible: int | None = None,
        every: int | None = None,
        marks: Sequence[int] | None = None,
        limit: Callable[[], None] | None = None,
    ) -> None:
        self.consts = consts
        self.seqs = seqs
        self.carries = carries
        self.steps = steps
        self.counted = counted
        self.reverse = reverse
        self.until = until
        self.every = every
        self.limit = limit
        #: The carries whose values before every so many steps are outputs too.
        self.marks = list(marks or ())
        #: What is stored of each step, where nothing else holds it.
        self.stored: list[Tensor] = []
        stacked = len(body.outputs) - carries - until
        self.visible = stacked if visible is None else visible
        self.body = self._hiding(body) if hide else body
        self.keep = False
        #: Whether a derivative reads the hidden outputs, so that they need tangents.
        self.pulled = False
        #: A rule has made it: what it stacks are cotangents or tangents.
        self.derived = False
        self._runners: dict[bool, Runner] = {}

    def __repr__(self) -> str:
        count = len(self.body.nodes)
        return f"<a loop of {count} op{'s' * (count != 1)} a step>"

    @property
    def hidden(self) -> int:
        """How many stacked outputs there are for reverse mode alone."""
        return len(self.body.outputs) - self.until - self.carries - self.visible

    def _hiding(self, body: Body) -> Body:
        """The body that also gives what its own reverse mode reads."""
        needed = body.needed()
        stacked = body.outputs[self.carries : len(body.outputs) - self.until]
        emitted = {y.serial for y in stacked if isinstance(y, Tensor)}
        behind = {} if self.until else self.behind(body)
        saved = []
        for i, x in enumerate(body.leaves[self.consts + self.seqs :]):
            if x.serial in needed and x.serial not in emitted:
                (saved if i in behind else self.stored).append(x)
        self.stored += costly(body, emitted | {x.serial for x in body.leaves})
        if self.every is None:
            saved += self.stored
        elif self.stored:
            self.marks = self.restart(body, needed)
        end = len(body.outputs) - self.until
        outputs = [*body.outputs[:end], *saved, *body.outputs[end:]]
        return Body(body.leaves, outputs) if saved else body

    def behind(self, body: Body) -> dict[int, tuple[int, int]]:
        """The carries whose values lag behind a stacked output, by how many steps.

        A carry that takes over another's value lags one step further behind.
        """
        leaves = {
            x.serial: i for i, x in enumerate(body.leaves[self.consts + self.seqs :])
        }
        ends = self.carries + self.visible
        roots: dict[int, int] = {}
        for i in range(self.carries, ends):
            y = body.outputs[i]
            if isinstance(y, Tensor) and y.serial not in leaves:
                roots.setdefault(y.serial, i)
        found = {}
        for carry in range(self.carries):
            at, hops, seen = carry, 1, {carry}
            while True:
                y = body.outputs[at]
                serial = y.serial if isinstance(y, Tensor) else -1
                if serial in roots:
                    found[carry] = roots[serial], hops
                    break
                at = leaves.get(serial, -1)
                if at < 0 or at in seen:
                    break
                seen.add(at)
                hops += 1
        return found

    def leaf(self, carry: int) -> Tensor:
        """The leaf of a carry."""
        return self.body.leaves[self.consts + self.seqs + carry]

    def restart(
        self, body: Body | None = None, needed: set[int] | None = None
    ) -> list[int]:
        """The carries that a step needs to compute what reverse mode reads."""
        body = self.body if body is None else body
        needed = body.needed() if needed is None else needed
        first = self.consts + self.seqs
        seeds = [x for x in (*body.leaves, *body.nodes) if x.serial in needed]
        mask = 0
        for m in Body(body.leaves, seeds).reads:
            mask |= m
        before = -1
        while before != mask:
            before = mask
            for i in range(self.carries):
                if mask >> (first + i) & 1:
                    mask |= body.reads[i]
        return [i for i in range(self.carries) if mask >> (first + i) & 1]

    def runner(self) -> Runner:
        """The loop as a function of arrays."""
        found = self._runners.get(self.keep)
        if found is None:
            found = self._runners[self.keep] = Runner(self, self.keep)
        return found

    def split(self, xs: Sequence[Any]) -> tuple[Any, list[Any], list[Any], list[Any]]:
        """Inputs of the op: the count, constants, sequences, first carries."""
        start = int(self.counted)
        a = start + self.consts
        b = a + self.seqs
        return (
            (xs[0] if start else None),
            list(xs[start:a]),
            list(xs[a:b]),
            list(xs[b:]),
        )

    def length(self, inputs: Sequence[Any]) -> Any:
        """The number of steps, or the most there can be; None where it is not known."""
        count, _, seqs, _ = self.split(inputs)
        if self.counted:
            count = value_of(count)
            return None if count is None or isinstance(count, Spec) else int(count)
        if self.steps is not None:
            return self.steps
        return shape_of(seqs[0])[0] if seqs else ENDLESS


#: Ops that cost more to compute again than to store, besides those of many entries.
CHEAP = {
    "getitem", "reshape", "transpose", "broadcast_to", "item", "mask", "identity",
    "expand_dims", "squeeze", "swapaxes", "moveaxis", "stop_gradient", "astype",
}  # fmt: skip


def costly(body: Body, known: set[int]) -> list[Tensor]:
    """What reverse mode reads and cannot compute again by elementwise ops alone."""
    read = set()
    for node in body.nodes:
        op = node.op
        if op.pull is None:
            continue
        reads = op.reads
        if reads is None:
            reads = (*range(len(node.inputs)), "y")
        if "y" in reads:
            read.add(node.serial)
        read.update(
            node.inputs[i].serial
            for i in reads
            if isinstance(i, int)
            and i < len(node.inputs)
            and isinstance(node.inputs[i], Tensor)
        )
    heavy: dict[int, bool] = {}
    saved = []
    for node in body.nodes:
        serial = node.serial
        if serial in known:
            heavy[serial] = False
            continue
        again = any(
            heavy.get(x.serial, False) for x in node.inputs if isinstance(x, Tensor)
        )
        plain = node.op.elementwise or node.op.name in CHEAP
        heavy[serial] = again or not plain
        if (
            heavy[serial]
            and serial in read
            and not isinstance(node.spec, tuple)
            and node.op.pull is not None
        ):
            saved.append(node)
            heavy[serial] = False
    return saved


# Making one loop out of another


class Given(NamedTuple):
    """A leaf of a step that is to be made, and the value that the op takes for it."""

    leaf: Tensor
    value: Any


def paired(leaves: Sequence[Tensor], values: Sequence[Any]) -> list[Given]:
    """The first of some leaves with their values."""
    return [Given(x, v) for x, v in zip(leaves, values, strict=False)]


class Moved(NamedTuple):
    """A carry of a step that is to be made."""

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


def built(
    consts: Sequence[Given],
    seqs: Sequence[Given],
    carries: Sequence[Moved],
    stacked: Sequence[Any],
    again: Again | None = None,
    **settings: Any,
) -> tuple[list[Any], list[Any]]:
    """Run a new loop: the last carries (None for those not wanted), the stacks.

    What no wanted output depends on is left out. Sequences without value are what the
    loop ``again`` gives.
    """
    seqs = sorted(seqs, key=lambda x: x.value is None)
    count = settings.pop("count", None)
    leaves = [x.leaf for x in (*consts, *seqs, *carries)]
    outs = [x.output for x in carries]
    whole = Body(leaves, [*outs, *stacked])
    first = len(consts) + len(seqs)
    used = bits(first + i for i, x in enumerate(carries) if x.wanted)
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
    body = Body(
        [x.leaf for x in (*kept_consts, *kept_seqs, *moved)],
        [*(x.output for x in moved), *stacked],
    ).cut()
    loop = Loop(
        body, len(kept_consts), len(kept_seqs), len(moved),
        counted=count is not None, **settings,
    )  # fmt: skip
    loop.derived = True
    inputs = [
        x.value for x in (*kept_consts, *kept_seqs, *moved) if x.value is not None
    ]
    virtual = [x.leaf.serial for x in kept_seqs if x.value is None]
    if virtual and again is not None:
        # Of what runs again only what is read is needed.
        source = again.source
        wanted = [x.leaf.serial for x in seqs if x.value is None]
        ends = source.carries
        outs = [source.body.outputs[ends + wanted.index(s)] for s in virtual]
        heads = source.body.outputs[:ends]
        less = Loop(
            Body(source.body.leaves, [*heads, *outs]), source.consts, source.seqs,
            ends, steps=source.steps, counted=source.counted,
        )  # fmt: skip
        chunks = Chunks(less, loop, again.every)
        made = run_chunks(chunks, [*again.inputs, *inputs])
    else:
        made = run_loop(loop, [*([] if count is None else [count]), *inputs])
    lasts: list[Any] = [None] * len(carries)
    for i, y in zip(kept, made, strict=False):
        lasts[i] = y
    ys = list(made[len(moved) : len(moved) + len(stacked)])
    for i, x in enumerate(carries):
        if flagged(x.output) and lasts[i] is not None:
            lasts[i] = masked(lasts[i])
    return lasts, [
        masked(y) if flagged(out) else y for y, out in zip(ys, stacked, strict=True)
    ]


def run_loop(loop: Loop, inputs: Sequence[Any]) -> tuple[Any, ...]:
    """The outputs of a loop, as Tensors where an input is one."""
    return several.several(SCAN, tuple(inputs), {"loop": loop})


# The op


def _compute(*inputs: Any, loop: Loop) -> tuple[Any, ...]:
    n = loop.length(inputs)
    _, consts, seqs, inits = loop.split(inputs)
    if n < 0:
        raise UsageError(
            f"scan: n_steps={n} is negative. To go backward write reverse=True."
        )
    made = loop.runner()(n, [*consts, *seqs, *inits])
    if loop.limit is not None:
        loop.limit(*made[: loop.carries])
    return made


def _infer(*inputs: Any, loop: Loop) -> tuple[Any, ...]:
    body = loop.body
    n = loop.length(inputs)
    if loop.until:
        n = None
    specs = [_strong(y) for y in body.outputs[: len(body.outputs) - loop.until]]
    return _stacked(loop, n, specs)


def _lengths(*inputs: Any, loop: Loop) -> tuple[Any, ...]:
    """As `_infer`, where lengths are unknown; None for what only the run tells."""
    body, start = loop.body, int(loop.counted)
    n = None if loop.until else loop.length(inputs)
    rows = range(loop.consts, loop.consts + loop.seqs)
    specs = outward(body, inputs[start:], rows)[: len(body.outputs) - loop.until]
    for i in range(loop.carries):  # a carry keeps the shape of its first value
        x = inputs[start + loop.consts + loop.seqs + i]
        specs[i] = Spec(shape_of(x), specs[i].dtype)
    return _stacked(loop, n, specs)


def _stacked(loop: Loop, n: Any, specs: list[Spec]) -> tuple[Any, ...]:
    """The specs of all outputs, from those of the step's and the number of steps."""
    rows = None if n is None or loop.every is None else -(-n // loop.every)
    return (
        *specs[: loop.carries],
        *(Spec((n, *s.shape), s.dtype) for s in specs[loop.carries :]),
        *(Spec((rows, *specs[i].shape), specs[i].dtype) for i in loop.marks),
        *([Spec((), np.dtype(np.int64))] if loop.until else []),
    )


def _strong(y: Any) -> Spec:
    spec = types.spec_of(y)
    return Spec(spec.shape, spec.dtype)


def moving_leaves(loop: Loop, start: int, smooth: bool = True) -> int:
    """The leaves of a step that vary when those in the mask do, carries included."""
    body = loop.body
    reads = body.varies if smooth else body.reads
    first = loop.consts + loop.seqs
    mask, before = start, -1
    while mask != before:
        before = mask
        for i in range(loop.carries):
            if reads[i] & mask and not mask >> (first + i) & 1:
                spec = body.leaves[first + i].spec
                if not smooth or differentiable(spec.dtype):
                    mask |= 1 << (first + i)
    return mask


def _pull(
    mask: int, g: Any, y: Any, inputs: tuple[Any, ...], params: Params
) -> list[Any]:
    loop: Loop = params["loop"]
    loop.keep = loop.pulled = True
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
    for i, x, c in zip(flows, fresh, back, strict=False):
        start = np.zeros_like(inits[i]) if g[i] is None else g[i]
        moved.append(Moved(x, start, np.zeros_like(x) if c is None else c,
                           bool(asked >> first + i & 1)))  # fmt: skip
    stacked = []
    for place, c in zip(wanted, results, strict=False):
        if place < loop.consts and c is not None:
            total = blank(body.leaves[place])
            value = np.zeros_like(consts[place])
            moved.append(Moved(total, value, total + c, True))
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
    if pieces:
        at = loop.marks
        leaves = [*body.leaves[:first], *(loop.leaf(i) for i in at)]
        outs = [*(body.outputs[i] for i in at), *lost]
        source = Loop(
            Body(leaves, outs).cut(), loop.consts, loop.seqs, len(at),
            steps=None if count is not None else loop.steps,
            counted=count is not None,
        )  # fmt: skip
        given = [*consts, *seqs, *(inits[i] for i in at)]
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
    _, ys = built(
        paired(body.leaves, consts), paired(body.leaves[loop.consts :], seqs), states,
        lost, steps=None if count is not None else loop.steps, count=count,
        reverse=loop.reverse,
    )  # fmt: skip
    return [*found.values(), *paired(lost, ys)], None


def _absent(y: Any, loop: Loop) -> bool:
    end = len(loop.body.outputs) - loop.until
    return any(isinstance(value_of(x), Absent) for x in y[end:])


def _push(
    tangents: tuple[Any, ...], y: Any, inputs: tuple[Any, ...], params: Params
) -> tuple[Any, ...]:
    loop: Loop = params["loop"]
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
        both(0, loop.consts), both(loop.consts, first), moved,
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


SCAN.compute = _compute
SCAN.infer = _infer
SCAN.lengths = _lengths
SCAN.pull = _pull
SCAN.push = _push
SCAN.batch = _batch
SCAN.rule = "the rule of each step, from the last to the first"
SCAN.reads = None
