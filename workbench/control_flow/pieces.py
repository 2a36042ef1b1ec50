"""`Chunks`: the loop back of a loop that kept only some of its states.

Between two kept states the steps run once more, and store what the steps back read;
then those steps back run. So no more than that is held at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from workbench.autodiff.call import Call
from workbench.autodiff.higher_order import detach_leaves, outer_specs
from workbench.backends.numpy import NumpyFunction
from workbench.control_flow.hoisting import Cut, find_consts, is_worthwhile
from workbench.control_flow.loop import Loop
from workbench.control_flow.op import run_loop, run_steps
from workbench.control_flow.running import get_runner
from workbench.core.graph import Graph
from workbench.core.op import OPS
from workbench.core.trace import make_leaf_like
from workbench.core.types import Params, Spec, spec_of
from workbench.ops import define
from workbench.ops.define import shape_of

CHUNKED = OPS["scan_back"] = Call(
    "scan_back", run=lambda inputs, chunks: chunks.run_unchunked(inputs)
)
#: Steps of a loop as a function of arrays.
Run = Callable[[Sequence[Any]], Sequence[Any]]


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

    def split_inputs(
        self, inputs: Sequence[Any]
    ) -> tuple[list[Any], list[Any], list[Any]]:
        """Split inputs: those of the source, kept carries, those of the loop back."""
        source = self.source
        a = source.counted + source.consts + source.seqs + source.carries
        b = a + source.carries
        return list(inputs[:a]), list(inputs[a:b]), list(inputs[b:])

    def count_steps(self, inputs: Sequence[Any]) -> Any:
        """Return the number of steps."""
        return self.source.count_steps(inputs)

    def run(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """Return the outputs of the loop back, on arrays."""
        source, back, k = self.source, self.back, self.every
        given, marks, own = self.split_inputs(inputs)
        n = self.count_steps(inputs)
        _, consts, seqs, inits = source.split_inputs(given)
        real = back.seqs - source.visible
        fixed, rows = own[: back.consts], own[back.consts : back.consts + real]
        carries = own[back.consts + real :]
        stacks: list[Any] = []
        if n <= 0:
            lost = run_steps(source, 0, [*consts, *seqs, *inits])[source.carries :]
            return run_steps(
                back, 0, [*fixed, *rows, *lost[: source.visible], *carries]
            )
        #: Both loops for pieces of some length, which are cut once for all of these.
        forth: dict[int, Run] = {}
        behind: dict[int, Run] = {}
        for piece in reversed(range(-(-n // k))):
            a, b = piece * k, min((piece + 1) * k, n)
            starts = [x[piece] for x in marks]
            part = [*consts, *(x[a:b] for x in seqs), *starts]
            if b - a not in forth:
                forth[b - a] = _prepare_steps(source, b - a, part)
            lost = tuple(forth[b - a](part))[source.carries :]
            part = [*fixed, *(x[a:b] for x in rows), *lost[: source.visible], *carries]
            if b - a not in behind:
                behind[b - a] = _prepare_steps(back, b - a, part)
            made = tuple(behind[b - a](part))
            carries = list(made[: back.carries])
            ys = made[back.carries : back.carries + back.visible]
            if not stacks:
                stacks = [np.empty_like(y, shape=(n, *y.shape[1:])) for y in ys]
            for whole, y in zip(stacks, ys, strict=True):
                whole[a:b] = y
            del lost, part, made, ys  # before the next piece stores its own
        return (*carries, *stacks)

    def run_unchunked(self, inputs: Sequence[Any]) -> list[Any]:
        """Return the same outputs by ops with derivatives, which keep all states."""
        source, back = self.source, self.back
        given, _, own = self.split_inputs(inputs)
        source.keep = back.keep = True
        lost = run_loop(source, given)[source.carries :][: source.visible]
        at = back.consts + back.seqs - source.visible
        count = given[: int(back.counted)]  # both make the same number of steps
        made = run_loop(back, [*count, *own[:at], *lost, *own[at:]])
        return list(made[: back.carries + back.visible])


def _prepare_steps(loop: Loop, steps: int, inputs: Sequence[Any]) -> Run:
    """Return so many steps of a loop as a function of arrays like these.

    What no step need do is cut off once, for all calls.
    """
    plain = all(isinstance(x, (np.ndarray, np.generic)) for x in inputs)
    if not plain or not is_worthwhile(loop, steps):
        return partial(get_runner(loop), steps)
    leaves = [make_leaf_like(spec_of(x)) for x in inputs]
    first = loop.consts + loop.seqs
    cut = Cut(
        _set_steps(loop, steps), leaves[: loop.consts], leaves[loop.consts : first],
        leaves[first:], steps, saving=False,
    )  # fmt: skip
    return NumpyFunction(Graph(leaves, cut.run(run_loop))).run


def run_chunks(chunks: Chunks, inputs: Sequence[Any]) -> tuple[Any, ...]:
    """Return the outputs of the loop back, as Tensors where an input is one."""
    return define.apply_and_split(CHUNKED, tuple(inputs), {"chunks": chunks})


def _compute(*inputs: Any, chunks: Chunks) -> tuple[Any, ...]:
    return chunks.run(inputs)


def _infer(*inputs: Any, chunks: Chunks) -> tuple[Any, ...]:
    source, back = chunks.source, chunks.back
    given, _, own = chunks.split_inputs(inputs)
    n = chunks.count_steps(inputs)
    at = back.consts + back.seqs - source.visible
    lost = outer_specs(source.body, given[source.counted :], _sequence_places(source))
    lost = [Spec((n, *s.shape), s.dtype) for s in lost[source.carries :]]
    values = [*own[:at], *lost[: source.visible], *own[at:]]
    specs = outer_specs(back.body, values, _sequence_places(back))
    heads = [
        Spec(shape_of(x), s.dtype)
        for s, x in zip(specs, values[len(values) - back.carries :], strict=False)
    ]
    rows = specs[back.carries :][: back.visible]
    return (*heads, *(Spec((n, *s.shape), s.dtype) for s in rows))


def _sequence_places(loop: Loop) -> range:
    return range(loop.consts, loop.consts + loop.seqs)


CHUNKED.repeats = True
CHUNKED.graphs = lambda inputs, params: [
    loop.body for loop in (params["chunks"].source, params["chunks"].back)
]
CHUNKED.compute = _compute
CHUNKED.infer = _infer
CHUNKED.rule = "the rule of each step, which runs once more"


# As a loop over the pieces


def hoist_pieces(values: Sequence[Any], params: Params) -> Sequence[Any]:
    """Return the outputs of a loop back in pieces: as a loop over the pieces."""
    chunks: Chunks = params["chunks"]
    source, back, every = chunks.source, chunks.back, chunks.every
    n = chunks.count_steps(values)
    given, marks, own = chunks.split_inputs(values)
    count, consts, seqs, _ = source.split_inputs(given)
    if not isinstance(n, int) or count is not None or n < 1:
        return run_chunks(chunks, values)
    at = back.consts + back.seqs - source.visible
    fixed, rows, carries = own[: back.consts], own[back.consts : at], own[at:]
    whole = n // every
    stacks: list[list[Any]] = []

    def run_piece(steps: int, starts: Any, seqs: Any, rows: Any, carries: Any) -> Any:
        ahead, behind = _set_steps(source, steps), _set_steps(back, steps)
        lost = run_loop(ahead, [*consts, *seqs, *starts])[source.carries :]
        return run_loop(behind, [*fixed, *rows, *lost[: source.visible], *carries])

    if n % every:  # the last steps, which come first
        starts = [x[whole] for x in marks]
        parts = [[x[whole * every :] for x in xs] for xs in (seqs, rows)]
        made = run_piece(n % every, starts, parts[0], parts[1], carries)
        carries = list(made[: back.carries])
        stacks.append(list(made[back.carries :][: back.visible]))
    if whole:
        made = _scan_pieces(run_piece, chunks, whole, marks, seqs, rows, carries)
        carries = made[: back.carries]
        stacks.append([np.reshape(y, (whole * every, *y.shape[2:]))
                       for y in made[back.carries :]])  # fmt: skip
    joined = [np.concatenate(ys[::-1]) if len(ys) > 1 else ys[0]
              for ys in zip(*stacks, strict=True)]  # fmt: skip
    return [*carries, *joined]


def _set_steps(loop: Loop, steps: int) -> Loop:
    """Return the same loop for another number of steps."""
    made = Loop(
        loop.body, loop.consts, loop.seqs, loop.carries, steps=steps,
        reverse=loop.reverse, hide=False, visible=loop.visible, uneven=loop.uneven,
    )  # fmt: skip
    made.derived = loop.derived
    return made


def _scan_pieces(
    run_piece: Any, chunks: Chunks, whole: int, marks: Any, seqs: Any, rows: Any,
    carries: Any,
) -> list[Any]:  # fmt: skip
    """Return the outputs of a loop back over all pieces of the same length."""
    every = chunks.every
    cut = [np.reshape(x[: whole * every], (whole, every, *shape_of(x)[1:]))
           for x in (*seqs, *rows)]  # fmt: skip
    taken = [*(x[:whole] for x in marks), *cut]
    leaves = [make_leaf_like(Spec(shape_of(x)[1:], x.dtype)) for x in taken]
    states = [make_leaf_like(spec_of(x)) for x in carries]
    starts, parts = leaves[: len(marks)], leaves[len(marks) :]
    outputs = run_piece(
        every, starts, parts[: len(seqs)], parts[len(seqs) :], states
    )[: chunks.back.carries + chunks.back.visible]  # fmt: skip
    consts = find_consts(Graph([*leaves, *states], outputs))
    body = detach_leaves(Graph([*consts, *leaves, *states], outputs))
    loop = Loop(
        body, len(consts), len(leaves), len(states), steps=whole, reverse=True,
        hide=False,
    )  # fmt: skip
    loop.derived = True
    return list(run_loop(loop, [*consts, *taken, *carries]))


CHUNKED.hoist = hoist_pieces
