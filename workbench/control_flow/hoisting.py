"""What need not be done step by step, before and after a loop.

A backend that compiles takes a loop whose steps do less, and so does a loop on arrays
where that saves more than it costs: what is the same in each step is computed once;
products of matrices of which a step's own state is no factor, and those that only give
stacked outputs, are one large product each, before or after the loop; a sum over the
steps of products is one product of stacked factors. Results are the same but for the
order in which sums are taken.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from workbench.autodiff.batch import run_batch
from workbench.autodiff.higher_order import detach_leaves, is_draw
from workbench.control_flow.loop import LEAST, Loop, count_uses, find_sums, find_term
from workbench.core.graph import Graph
from workbench.core.op import declare
from workbench.core.tensor import Tensor, take_name
from workbench.core.trace import make_leaf_like
from workbench.core.types import Spec, spec_of
from workbench.ops.define import shape_of

#: Products with factors that are worth stacking.
PRODUCTS = (declare("matmul"), declare("tensordot"))
#: Ops that keep the order of the entries.
FLAT = (declare("reshape"),)
#: What is stacked for a product takes no more bytes than this.
MOST_BYTES = 2**28
#: To cut a loop takes about as long as to compute so many times the nodes of its step.
CUT = 20
#: About so many entries are computed in the time in which NumPy is called.
CALL = 1000


def is_worthwhile(loop: Loop, steps: int) -> bool:
    """Return whether a cut of a loop of so many steps saves more than its cost."""
    if loop.draws or loop.is_cut:
        return False
    body = loop.body
    fixed = {x.serial for x in body.leaves[: loop.consts]}
    known = fixed | {x.serial for x in body.leaves[loop.consts :][: loop.seqs]}
    nodes = [x for x in body.interior if x.inputs or x._value is None]
    saved = 0.0
    for node in nodes:
        read = {x.serial for x in node.inputs if isinstance(x, Tensor)}
        if read <= fixed and not is_draw(node):
            fixed.add(node.serial)
            known.add(node.serial)
            saved += _estimate_cost(node)
        elif read <= known:
            known.add(node.serial)
            saved += _estimate_cost(node) * (node.op in PRODUCTS and not loop.until)
    if not loop.until:
        starts = body.leaves[loop.consts + loop.seqs :]
        for i in find_sums(
            loop.marks, starts, body.outputs, count_uses(nodes, body.outputs)
        ):
            term = find_term(body.outputs[i], starts[i])
            if _find_factors(term) is not None:
                saved += 2 * _estimate_cost(term)
    return steps * saved > CUT * len(nodes)


def _estimate_cost(node: Tensor) -> float:
    """Return the approximate cost of a node, in calls of NumPy."""
    specs = [spec_of(x) for x in (node, *node.inputs)]
    sizes = [math.prod(s.shape) for s in specs if not isinstance(s, tuple)]
    return 1 + max((n for n in sizes if isinstance(n, int)), default=0) / CALL


class Cut:
    """A loop during the cut: the parts before, inside and after.

    Parameters
    ----------
    loop
        The loop as it is written.
    consts, seqs, inits
        What it takes: Tensors or arrays.
    steps
        The number of steps; None: it is not known before the loop.
    saving
        Whether what only reverse mode reads is an output.
    """

    def __init__(
        self,
        loop: Loop,
        consts: Sequence[Any],
        seqs: Sequence[Any],
        inits: Sequence[Any],
        steps: int | None,
        saving: bool = True,
    ) -> None:
        self.loop, self.inits, self.steps = loop, inits, steps
        self.rows = [
            _make_leaf(Spec(shape_of(x)[1:], x.dtype), leaf)
            for x, leaf in zip(seqs, loop.body.leaves[loop.consts :], strict=False)
        ]
        first = loop.consts + loop.seqs
        self.carries = [
            _make_leaf(spec_of(x), leaf)
            for x, leaf in zip(inits, loop.body.leaves[first:], strict=True)
        ]
        #: The values of all rows, by their leaves.
        self.values = {x.serial: v for x, v in zip(self.rows, seqs, strict=True)}
        # On the values outside, what is the same in each step is recorded out there.
        self.outputs = loop.body.run([*consts, *self.rows, *self.carries])
        self.marks = loop.marks if saving else []
        if not saving:
            hidden = slice(loop.carries + loop.visible, len(self.outputs) - loop.until)
            del self.outputs[hidden]

    def run(self, run_rest: Callable[[Loop, list[Any]], Sequence[Any]]) -> list[Any]:
        """Return the outputs of the loop.

        ``run_rest`` runs the loop that is left on what it takes: constants, sequences
        and first values.
        """
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

        asked, visible = [], 0
        for i in range(loop.carries, ends):
            asked.append(None if i in later else stack(self.outputs[i]))
            if i < loop.carries + loop.visible:
                visible = len(stacked)
        factors = [x for pair in sums.values() for x in pair]
        cuts = [x for xs in later.values() for x in xs]
        for x in (*factors, *cuts):
            if x.serial not in self.values:
                stack(x)
        stop = self.outputs[ends:]
        rest, given = self._write_rest(kept, [*state, *stacked, *stop], visible)
        made = run_rest(rest, given)
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

    def _write_rest(
        self, kept: Sequence[int], outputs: Sequence[Any], visible: int
    ) -> tuple[Loop, list[Any]]:
        """Return the remaining loop with the kept carries, and its operands.

        And what it takes.
        """
        loop = self.loop
        carries = [self.carries[i] for i in kept]
        rows = [*self.rows, *self.hoisted]
        whole = Graph([*rows, *carries], outputs)
        consts = find_consts(whole)
        read = 0
        for mask in whole.reads:
            read |= mask
        rows = [x for i, x in enumerate(rows) if read >> i & 1]
        if not rows and not loop.counted and loop.steps is None:
            rows = self.rows[:1]  # which tells the number of steps
        body = detach_leaves(Graph([*consts, *rows, *carries], outputs))
        rest = Loop(
            body, len(consts), len(rows), len(carries),
            steps=loop.steps, counted=loop.counted, reverse=loop.reverse,
            until=loop.until, hide=False, visible=visible, every=loop.every,
            limit=loop.limit, marks=[kept.index(i) for i in self.marks],
            uneven=loop.uneven,
        )  # fmt: skip
        rest.derived, rest.keep, rest.is_cut = loop.derived, True, True
        starts = [self.inits[i] for i in kept]
        return rest, [*consts, *(self.values[x.serial] for x in rows), *starts]

    #: What products before the loop give, a row for each step.
    hoisted: tuple[Tensor, ...] = ()

    #: The program of a step and its nodes, until products are taken out of it.
    _steps: tuple[Graph, list[Tensor]] | None = None

    def _list_steps(self) -> tuple[Graph, list[Tensor]]:
        """Return the program of a step, and the nodes that differ from step to step."""
        if self._steps is None:
            leaves = [*self.rows, *self.hoisted, *self.carries]
            whole = Graph(leaves, self.outputs)
            self._steps = whole, _list_inside(whole)
        return self._steps

    def _hoist_products(self) -> None:
        """Compute before the loop the products of rows and constants alone."""
        assert self.steps is not None
        whole, inside = self._list_steps()
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
        self._steps = None

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
        whole, nodes = self._list_steps()
        inside = {x.serial for x in nodes}
        uses = count_uses(nodes, self.outputs)
        found = {}
        for i in find_sums(self.marks, self.carries, self.outputs, uses):
            term = find_term(self.outputs[i], self.carries[i])
            factors = _find_factors(term) if term.serial in inside else None
            if factors is not None and uses[term.serial] == 1:
                # Factors that depend on no step are none of a sum over the steps.
                varying = all(x.serial in whole.schedule.varying for x in factors)
                if varying and self._count_bytes(factors) <= MOST_BYTES:
                    found[i] = factors
        return found

    def _find_later(
        self, state: Sequence[Any], sums: dict[int, tuple[Tensor, Tensor]]
    ) -> dict[int, list[Tensor]]:
        """Return stacked outputs of products that no step reads, with their factors.

        They are computed after the loop, of all steps at once.
        """
        loop = self.loop
        ends = len(self.outputs) - loop.until
        if ends == loop.carries:
            return {}
        leaves = [*self.rows, *self.hoisted, *self.carries]
        factors = [x for pair in sums.values() for x in pair]
        before = Graph(leaves, [*state, *factors, *self.outputs[ends:]])
        needed = {x.serial for x in _list_inside(before)}
        whole, nodes = self._list_steps()
        varying = whole.schedule.varying
        after: set[int] = set()
        for node in nodes:
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
            if self._count_bytes(list(cuts.values())) <= MOST_BYTES:
                found[i] = list(cuts.values())
        return found

    def _count_bytes(self, values: Sequence[Tensor]) -> int:
        """Return how many bytes a stack of values of the steps takes more."""
        sizes = [
            x.spec.dtype.itemsize * math.prod(x.spec.shape)
            for x in values
            if x.serial not in self.values
        ]
        return (self.steps or 0) * sum(sizes)


def _make_leaf(spec: Spec, like: Tensor) -> Tensor:
    """Return a leaf that is called as another one, if anybody asks."""
    made = make_leaf_like(spec)
    take_name(made, like)
    return made


def _list_inside(graph: Graph) -> list[Tensor]:
    """Return the nodes that differ from step to step."""
    varying = graph.schedule.varying
    nodes = [step.node for step in graph.schedule.steps]
    return [x for x in nodes if x.serial in varying]


def find_consts(graph: Graph) -> list[Tensor]:
    """Return the Tensors behind the outputs that are the same in each step."""
    varying = graph.schedule.varying
    read = (x for node in _list_inside(graph) for x in node.inputs)
    found = {
        x.serial: x
        for x in (*read, *graph.outputs)
        if isinstance(x, Tensor) and x.serial not in varying
    }
    return [found[serial] for serial in sorted(found)]


def _find_factors(term: Tensor) -> tuple[Tensor, Tensor] | None:
    """Return matrices ``u`` and ``v`` with ``u.T @ v`` equal to a term, or None."""
    shape = term.spec.shape
    if len(shape) != 2 or term.spec.dtype.kind not in "fc":
        return None
    if not all(isinstance(n, int) and n >= LEAST for n in shape):
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
    """Return an earlier Tensor with the same entries in the same order."""
    while x.op in FLAT and isinstance(x.inputs[0], Tensor):
        x = x.inputs[0]
    return x


def _sum_products(u: Any, v: Any, shape: Sequence[int]) -> Any:
    """Return the sum over all steps of products ``u.T @ v``, as one product."""
    rows, columns = shape
    return np.reshape(u, (-1, rows)).T @ np.reshape(v, (-1, columns))
