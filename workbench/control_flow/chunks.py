"""The loop back of a loop that kept only some of its states.

Between two kept states the steps run once more, and store what the steps back read;
then those steps back run. So no more than that is held at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench.autodiff.flat import pulled, pushed, vectorized
from workbench.control_flow.lengths import outward
from workbench.control_flow.loop import Loop
from workbench.control_flow.op import run_loop
from workbench.control_flow.running import runner
from workbench.core.op import declare
from workbench.core.types import Spec
from workbench.ops import several
from workbench.ops.define import shape_of

__all__ = ["CHUNKED", "Chunks", "run_chunks"]

Params = dict[str, Any]

CHUNKED = declare("scan_back")


class Chunks:
    """A loop that is to run once more, in pieces, and the loop back.

    The stacked outputs of ``source`` are the last sequences of ``back``. The op takes
    the inputs of the source, the kept first carries of its pieces, and the inputs of
    the loop back without those sequences.
    """

    def __init__(self, source: Loop, back: Loop, every: int) -> None:
        self.source = source
        self.back = back
        self.every = every

    def __repr__(self) -> str:
        return f"<{self.back!r}, {self.every} steps at a time>"

    def split(self, inputs: Sequence[Any]) -> tuple[list[Any], list[Any], list[Any]]:
        """The inputs of the source, the kept carries, the inputs of the loop back."""
        source = self.source
        a = source.counted + source.consts + source.seqs + source.carries
        b = a + source.carries
        return list(inputs[:a]), list(inputs[a:b]), list(inputs[b:])

    def length(self, inputs: Sequence[Any]) -> Any:
        """The number of steps."""
        return self.source.length(inputs)

    def run(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """The outputs of the loop back, on arrays."""
        source, back, k = self.source, self.back, self.every
        given, marks, own = self.split(inputs)
        n = self.length(inputs)
        _, consts, seqs, inits = source.split(given)
        real = back.seqs - source.visible
        fixed, rows = own[: back.consts], own[back.consts : back.consts + real]
        carries = own[back.consts + real :]
        stacks: list[Any] = []
        if n <= 0:
            lost = runner(source)(0, [*consts, *seqs, *inits])[source.carries :]
            return runner(back)(0, [*fixed, *rows, *lost[: source.visible], *carries])
        held: list[Any] = []
        for piece in reversed(range(-(-n // k))):
            a, b = piece * k, min((piece + 1) * k, n)
            starts = [x[piece] for x in marks]
            part = [*consts, *(x[a:b] for x in seqs), *starts]
            lost = runner(source)(b - a, part)[source.carries :]
            part = [*fixed, *(x[a:b] for x in rows), *lost[: source.visible], *carries]
            made = runner(back)(b - a, part, held, final=piece == 0)
            carries = list(made[: back.carries])
            ys = made[back.carries : back.carries + back.visible]
            if not stacks:
                stacks = [np.empty_like(y, shape=(n, *y.shape[1:])) for y in ys]
            for whole, y in zip(stacks, ys, strict=True):
                whole[a:b] = y
            del lost, part, made, ys  # before the next piece stores its own
        return (*carries, *stacks)

    def whole(self, inputs: Sequence[Any]) -> list[Any]:
        """The same with all states at hand, as ops that have derivatives."""
        source, back = self.source, self.back
        given, _, own = self.split(inputs)
        source.keep = back.keep = True
        lost = run_loop(source, given)[source.carries :][: source.visible]
        at = back.consts + back.seqs - source.visible
        count = given[: int(back.counted)]  # both make the same number of steps
        made = run_loop(back, [*count, *own[:at], *lost, *own[at:]])
        return list(made[: back.carries + back.visible])


def run_chunks(chunks: Chunks, inputs: Sequence[Any]) -> tuple[Any, ...]:
    """The outputs of the loop back, as Tensors where an input is one."""
    return several.several(CHUNKED, tuple(inputs), {"chunks": chunks})


def _compute(*inputs: Any, chunks: Chunks) -> tuple[Any, ...]:
    return chunks.run(inputs)


def _infer(*inputs: Any, chunks: Chunks) -> tuple[Any, ...]:
    source, back = chunks.source, chunks.back
    given, _, own = chunks.split(inputs)
    n = chunks.length(inputs)
    at = back.consts + back.seqs - source.visible
    lost = outward(source.body, given[source.counted :], _rows(source))
    lost = [Spec((n, *s.shape), s.dtype) for s in lost[source.carries :]]
    values = [*own[:at], *lost[: source.visible], *own[at:]]
    specs = outward(back.body, values, _rows(back))
    heads = [
        Spec(shape_of(x), s.dtype)
        for s, x in zip(specs, values[len(values) - back.carries :], strict=False)
    ]
    rows = specs[back.carries :][: back.visible]
    return (*heads, *(Spec((n, *s.shape), s.dtype) for s in rows))


def _rows(loop: Loop) -> range:
    return range(loop.consts, loop.consts + loop.seqs)


def _pull(
    mask: int, g: Any, y: Any, inputs: tuple[Any, ...], params: Params
) -> Sequence[Any]:
    return pulled(params["chunks"].whole, inputs, g)


def _push(
    tangents: tuple[Any, ...], y: Any, inputs: tuple[Any, ...], params: Params
) -> tuple[Any, ...]:
    return tuple(pushed(params["chunks"].whole, inputs, tangents))


def _batch(
    inputs: tuple[Any, ...], batched: tuple[bool, ...], params: Params
) -> tuple[Any, ...]:
    return tuple(vectorized(params["chunks"].whole, inputs, batched))


CHUNKED.compute = _compute
CHUNKED.infer = _infer
CHUNKED.lengths = _infer
CHUNKED.pull = _pull
CHUNKED.push = _push
CHUNKED.batch = _batch
CHUNKED.rule = "the rule of each step, which runs once more"
CHUNKED.reads = None
