"""What need not be done step by step, before and after a loop.

A backend that compiles takes a loop whose steps do less: what is the same in each step
is computed once; products of matrices of which a step's own state is no factor, and
those that only give stacked outputs, are one large product each, before or after the
loop; a sum over the steps of products is one product of stacked factors. Results are
the same but for the order in which sums are taken.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench.autodiff.batch import run_batch
from workbench.autodiff.higher_order import detach_leaves
from workbench.control_flow.loop import LEAST, Loop, count_uses, find_sums, find_term
from workbench.control_flow.op import SCAN, run_loop
from workbench.control_flow.rules import CHUNKED, Chunks, run_chunks
from workbench.core.graph import Graph
from workbench.core.op import declare
from workbench.core.tensor import Tensor
from workbench.core.trace import make_leaf_like
from workbench.core.types import Array, Params, Spec, spec_of
from workbench.ops.define import shape_of

#: Products whose factors are worth to be stacked.
PRODUCTS = (declare("matmul"), declare("tensordot"))
#: Ops that keep the order of the entries.
FLAT = (declare("reshape"),)
#: What is stacked for a product takes no more bytes than this.
MOST_BYTES = 2**28


def hoist_loop(values: Sequence[Any], params: Params) -> Sequence[Any]:
    """Return the outputs of a loop, with less in each of its steps."""
    loop: Loop = params["loop"]
    count, consts, seqs, inits = loop.split_inputs(values)
    given = [*consts, *seqs, *inits]
    if loop.draws or any(_is_unknown(x) for x in given):
        return run_loop(loop, values)
    return _Hoisting(loop, count, consts, seqs, inits).run()


def _is_unknown(x: Array) -> bool:
    """Return whether a length of an operand is unknown, but for that of the steps."""
    return not all(isinstance(n, int) for n in shape_of(x)[1:])


class _Hoisting:
    """A loop while it is being cut: what stands before, inside and after."""

    def __init__(
        self,
        loop: Loop,
        count: Any,
        consts: Sequence[Any],
        seqs: Sequence[Any],
        inits: Sequence[Any],
    ) -> None:
        self.loop, self.count, self.inits = loop, count, inits
        self.rows = [
            make_leaf_like(Spec(shape_of(x)[1:], x.dtype), leaf.name)
            for x, leaf in zip(seqs, loop.body.leaves[loop.consts :], strict=False)
        ]
        first = loop.consts + loop.seqs
        self.carries = [
            make_leaf_like(spec_of(x), leaf.name)
            for x, leaf in zip(inits, loop.body.leaves[first:], strict=True)
        ]
        #: The values of all rows, by their leaves.
        self.values = {x.serial: v for x, v in zip(self.rows, seqs, strict=True)}
        # On the values outside, what is the same in each step is recorded out there.
        self.outputs = loop.body.run([*consts, *self.rows, *self.carries])
        steps = (
            None if loop.until else loop.count_steps([*self._head(), *consts, *seqs])
        )
        self.steps: int | None = steps if isinstance(steps, int) else None

    def _head(self) -> list[Any]:
        return [] if self.count is None else [self.count]

    def run(self) -> list[Any]:
        """Return the outputs of the loop."""
        loop = self.loop
        ends = len(self.outputs) - loop.until
        sums: dict[int, tuple[Tensor, Tensor]] = {}
        if self.steps is not None and self.steps > 1:
            self._hoist_products()
            sums = self._find_sums()
        kept = [i for i in range(loop.carries) if i not in sums]
        state = [self.outputs[i] for i in kept]
        later = self._find_later(state, sums) if self.steps and self.steps > 1 else {}
        #: What the loop stacks: each Tensor once.
        stacked: list[Any] = []
        places: dict[int, int] = {}

        def stack(y: Any) -> int:
            key = y.serial if isinstance(y, Tensor) else -id(y)
            if key not in places:
                places[key] = len(stacked)
                stacked.append(y)
            return places[key]

        asked = [
            None if i in later else stack(self.outputs[i])
            for i in range(loop.carries, ends)
        ]
        factors = [x for pair in sums.values() for x in pair]
        cuts = [x for xs in later.values() for x in xs]
        for x in (*factors, *cuts):
            if x.serial not in self.values:
                stack(x)
        stop = self.outputs[ends:]
        made = self._run_rest(kept, [*state, *stacked, *stop])
        lasts = dict(zip(kept, made, strict=False))
        rows = made[len(kept) :]

        def read_rows(x: Tensor) -> Any:
            known = self.values.get(x.serial)
            return rows[places[x.serial]] if known is None else known

        for i, (u, v) in sums.items():
            total = _sum_products(read_rows(u), read_rows(v), shape_of(self.inits[i]))
            lasts[i] = self.inits[i] + total
        results = [lasts[i] for i in range(loop.carries)]
        for i, place in enumerate(asked, loop.carries):
            if place is not None:
                results.append(rows[place])
                continue
            graph = Graph(later[i], [self.outputs[i]])
            size = self.steps
            assert size is not None
            results += run_batch(graph, [read_rows(x) for x in later[i]], size)
        return [*results, *rows[len(stacked) :]]

    def _run_rest(self, kept: Sequence[int], outputs: Sequence[Any]) -> list[Any]:
        """Run the loop that is left; its carries are those that are kept."""
        loop = self.loop
        carries = [self.carries[i] for i in kept]
        rows = [*self.rows, *self.hoisted]
        whole = Graph([*rows, *carries], outputs)
        consts = _find_consts(whole)
        read = 0
        for mask in whole.reads:
            read |= mask
        rows = [x for i, x in enumerate(rows) if read >> i & 1]
        if not rows and self.count is None and loop.steps is None:
            rows = self.rows[:1]  # which tells the number of steps
        body = detach_leaves(Graph([*consts, *rows, *carries], outputs))
        rest = Loop(
            body, len(consts), len(rows), len(carries),
            steps=loop.steps, counted=loop.counted, reverse=loop.reverse,
            until=loop.until, hide=False, every=loop.every, limit=loop.limit,
            marks=[kept.index(i) for i in loop.marks], uneven=loop.uneven,
        )  # fmt: skip
        rest.derived, rest.keep = loop.derived, loop.keep
        return list(
            run_loop(
                rest,
                [*self._head(), *consts, *(self.values[x.serial] for x in rows),
                 *(self.inits[i] for i in kept)],
            )
        )  # fmt: skip

    #: What products before the loop give, a row for each step.
    hoisted: tuple[Tensor, ...] = ()

    def _hoist_products(self) -> None:
        """Compute before the loop what products make of rows and constants alone."""
        assert self.steps is not None
        whole = Graph([*self.rows, *self.carries], self.outputs)
        inside = _list_inside(whole)
        of_rows = {x.serial for x in self.rows}
        roots = []
        for node in inside:
            varying = [
                x.serial for x in node.inputs if isinstance(x, Tensor)
                and x.serial in whole.schedule.varying
            ]  # fmt: skip
            if all(serial in of_rows for serial in varying):
                of_rows.add(node.serial)
                if node.op in PRODUCTS and self._is_worthwhile(node):
                    roots.append(node)
        if not roots:
            return
        graph = Graph(self.rows, roots)
        made = run_batch(graph, [self.values[x.serial] for x in self.rows], self.steps)
        self.hoisted = tuple(roots)
        self.values |= {x.serial: v for x, v in zip(roots, made, strict=True)}

    def _is_worthwhile(self, node: Tensor) -> bool:
        """Return whether one product for all steps is better than one for each."""
        assert self.steps is not None
        sizes = [math.prod(shape_of(x)) for x in (*node.inputs, node)]
        stacked = self.steps * sizes[-1] * node.spec.dtype.itemsize
        return max(sizes[:-1]) >= LEAST * LEAST and stacked <= MOST_BYTES

    def _find_sums(self) -> dict[int, tuple[Tensor, Tensor]]:
        """Return the carries that are sums of products, and the factors of each.

        A factor is a matrix whose columns are summed over: ``u.T @ v``.
        """
        loop = self.loop
        whole = Graph([*self.rows, *self.hoisted, *self.carries], self.outputs)
        inside = {x.serial for x in _list_inside(whole)}
        uses = count_uses(_list_inside(whole), self.outputs)
        found = {}
        for i in find_sums(loop.marks, self.carries, self.outputs, uses):
            term = find_term(self.outputs[i], self.carries[i])
            factors = _find_factors(term) if term.serial in inside else None
            if factors is not None and uses[term.serial] == 1:
                # Factors that depend on no step are none of a sum over the steps.
                if all(x.serial in whole.schedule.varying for x in factors):
                    found[i] = factors
        return found

    def _find_later(
        self, state: Sequence[Any], sums: dict[int, tuple[Tensor, Tensor]]
    ) -> dict[int, list[Tensor]]:
        """Return stacked outputs that products give which no step reads, and of what.

        They are computed after the loop, of all steps at once.
        """
        loop, steps = self.loop, self.steps
        assert steps is not None
        ends = len(self.outputs) - loop.until
        leaves = [*self.rows, *self.hoisted, *self.carries]
        factors = [x for pair in sums.values() for x in pair]
        before = Graph(leaves, [*state, *factors, *self.outputs[ends:]])
        needed = {x.serial for x in _list_inside(before)}
        whole = Graph(leaves, self.outputs)
        varying = whole.schedule.varying
        after: set[int] = set()
        for node in _list_inside(whole):
            if node.serial in needed:
                continue
            if (node.op in PRODUCTS and self._is_worthwhile(node)) or any(
                isinstance(x, Tensor) and x.serial in after for x in node.inputs
            ):
                after.add(node.serial)
        found: dict[int, list[Tensor]] = {}
        for i in range(loop.carries, ends):
            y = self.outputs[i]
            if not isinstance(y, Tensor) or y.serial not in after:
                continue
            cuts: dict[int, Tensor] = {}
            waiting, seen = [y], {y.serial}
            while waiting:
                for x in waiting.pop().inputs:
                    if not isinstance(x, Tensor) or x.serial in seen:
                        continue
                    seen.add(x.serial)
                    if x.serial in after:
                        waiting.append(x)
                    elif x.serial in varying:
                        cuts[x.serial] = x
            sizes = [
                x.spec.dtype.itemsize * math.prod(x.spec.shape)
                for x in cuts.values()
                if x.serial not in self.values
            ]
            if steps * sum(sizes) <= MOST_BYTES:
                found[i] = list(cuts.values())
        return found


def _list_inside(graph: Graph) -> list[Tensor]:
    """Return the nodes that differ from step to step."""
    varying = graph.schedule.varying
    nodes = [step.node for step in graph.schedule.steps]
    return [x for x in nodes if x.serial in varying]


def _find_consts(graph: Graph) -> list[Tensor]:
    """Return what the outputs read, or are, that is the same in each step."""
    varying = graph.schedule.varying
    read = (x for node in _list_inside(graph) for x in node.inputs)
    found = {
        x.serial: x
        for x in (*read, *graph.outputs)
        if isinstance(x, Tensor) and x.serial not in varying
    }
    return [found[serial] for serial in sorted(found)]


def _find_factors(term: Tensor) -> tuple[Tensor, Tensor] | None:
    """Return two matrices ``u`` and ``v`` whose product ``u.T @ v`` a term is."""
    shape = term.spec.shape
    if len(shape) != 2 or min(shape) < LEAST or term.spec.dtype.kind not in "fc":
        return None
    if not all(
        isinstance(x, Tensor) and x.spec.dtype == term.spec.dtype for x in term.inputs
    ):
        return None
    if term.op is declare("multiply"):
        for u, v in (term.inputs, term.inputs[::-1]):
            row = v.spec.shape in ((shape[1],), (1, shape[1]))
            if row and u.spec.shape == (shape[0], 1):
                return _flatten(u), _flatten(v)
    if term.op is declare("matmul") and all(x.spec.shape[1:] for x in term.inputs):
        left, right = term.inputs
        turned = left.op is declare("transpose") and left.params.get("axes") in (
            None, (1, 0),
        )  # fmt: skip
        columns: Any = left.inputs[0] if turned else np.transpose(left)
        return columns, right
    return None


def _flatten(x: Tensor) -> Tensor:
    """Return what has the same entries in the same order, and is computed before."""
    while x.op in FLAT and isinstance(x.inputs[0], Tensor):
        x = x.inputs[0]
    return x


def _sum_products(u: Any, v: Any, shape: Sequence[int]) -> Any:
    """Return the sum over all steps of products ``u.T @ v``, as one product."""
    rows, columns = shape
    return np.reshape(u, (-1, rows)).T @ np.reshape(v, (-1, columns))


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
        reverse=loop.reverse, hide=False, uneven=loop.uneven,
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
    consts = _find_consts(Graph([*leaves, *states], outputs))
    body = detach_leaves(Graph([*consts, *leaves, *states], outputs))
    loop = Loop(
        body, len(consts), len(leaves), len(states), steps=whole, reverse=True,
        hide=False,
    )  # fmt: skip
    loop.derived = True
    return list(run_loop(loop, [*consts, *taken, *carries]))


SCAN.hoist = hoist_loop
CHUNKED.hoist = hoist_pieces
