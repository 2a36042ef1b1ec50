"""Making one loop out of another: what the rules of loops are made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from workbench.autodiff.body import Body, bits, flagged
from workbench.control_flow.chunks import Chunks, run_chunks
from workbench.control_flow.loop import Loop
from workbench.control_flow.op import run_loop
from workbench.core.tensor import Tensor
from workbench.ops.define import masked

__all__ = ["Again", "Given", "Moved", "built", "paired"]


class Given(NamedTuple):
    """A leaf of a step that is to be made, and the value that the op takes for it."""

    leaf: Tensor
    value: Any


def paired(leaves: Sequence[Tensor], values: Sequence[Any]) -> list[Given]:
    """The first of some leaves with their values."""
    return [Given(x, v) for x, v in zip(leaves, values, strict=False)]


def leaves_of(given: Sequence[Given | Moved]) -> list[Tensor]:
    """The leaves of what a step is given."""
    return [x.leaf for x in given]


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
    if not stacked and not any(x.wanted for x in carries):
        return [None] * len(carries), []
    leaves = [*leaves_of(consts), *leaves_of(seqs), *leaves_of(carries)]
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
        [*leaves_of(kept_consts), *leaves_of(kept_seqs), *leaves_of(moved)],
        [*(x.output for x in moved), *stacked],
    ).cut()
    loop = Loop(
        body, len(kept_consts), len(kept_seqs), len(moved),
        counted=count is not None, **settings,
    )  # fmt: skip
    loop.derived = True
    inputs = [
        value
        for group in (kept_consts, kept_seqs, moved)
        for value in (x.value for x in group)
        if value is not None
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
        if flagged(x.output) and lasts[i] is not None:
            lasts[i] = masked(lasts[i])
    return lasts, [
        masked(y) if flagged(out) else y for y, out in zip(ys, stacked, strict=True)
    ]
