"""`Loop`: one step, and the way to repeat the step.

A loop takes constants (the same in each step), sequences (one entry a step) and first
values of carries (what a step hands to the next). It gives the last carries and the
stacked outputs of all steps; after those that the user sees come the values that
reverse mode reads, which are stored only when they are wanted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from workbench.autodiff.higher_order import (
    is_draw,
    knows_lengths,
    needed_values,
    read_values,
    smooth_reads,
)
from workbench.autodiff.steps import Mode, Rules
from workbench.core.dims import Length, atoms_of, is_same_shape
from workbench.core.graph import Graph
from workbench.core.op import declare
from workbench.core.tensor import Tensor, apply, value_of
from workbench.core.types import Array, Batched, Params, Spec, is_differentiable
from workbench.errors import ShapeError
from workbench.ops import define
from workbench.ops.define import linear, shape_of

ADD = declare("add")
#: A number of steps that is never reached.
ENDLESS = 2**62


class Loop:
    """One step, as a `Graph`, and the way to repeat the step.

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
    uneven
        It makes the steps of a batch whose examples end at different ones.
    """

    def __init__(
        self,
        body: Graph,
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
        uneven: bool = False,
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
        self.uneven = uneven
        #: The carries whose values before every so many steps are outputs too.
        self.marks = list(marks or ())
        #: What is stored of each step, where nothing else holds it.
        self.stored: list[Tensor] = []
        stacked = len(body.outputs) - carries - until
        self.visible = stacked if visible is None else visible
        self.body = self._add_hidden_outputs(body) if hide else body
        #: The stacked outputs that are random draws.
        self.draws = [
            i
            for i in range(carries, len(self.body.outputs) - until)
            if is_draw(self.body.outputs[i])
        ]
        self.keep = bool(self.draws)
        #: Whether a derivative reads the hidden outputs, so that they need tangents.
        self.pulled = False
        #: A rule has made it: what it stacks are cotangents or tangents.
        self.derived = False
        #: It is what is left of a loop that was cut; see `hoisting`.
        self.is_cut = False
        #: The loop as functions of arrays, by `keep`: made by `running.runner`.
        self.runners: dict[bool, Callable[..., tuple[Any, ...]]] = {}

    def __repr__(self) -> str:
        count = len(self.body.interior)
        return f"<a loop of {count} op{'s' * (count != 1)} a step>"

    def __reduce__(self) -> Any:
        """Pickle without what has been made to run it."""
        body = self.body
        whole = Graph(body.inputs, [*body.outputs, *self.stored], body.captures)
        made = {"body", "stored", "runners"}
        settings = {k: v for k, v in vars(self).items() if k not in made}
        return _rebuild_loop, (whole, len(body.outputs), settings)

    def _add_hidden_outputs(self, body: Graph) -> Graph:
        """Return the body with outputs for the values that its reverse mode reads."""
        needed = needed_values(body)
        stacked = body.outputs[self.carries : len(body.outputs) - self.until]
        emitted = {y.serial for y in stacked if isinstance(y, Tensor)}
        lags = {} if self.until else self.find_lagging(body)
        saved: list[Tensor] = []
        for i, x in enumerate(body.leaves[self.consts + self.seqs :]):
            if x.serial in needed and x.serial not in emitted:
                (saved if i in lags else self.stored).append(x)
        known = emitted | {x.serial for x in body.leaves}
        self.stored += find_costly(
            body, known, {x.serial for x in body.leaves[: self.consts]}
        )
        if self.every is None:
            saved += self.stored
        elif self.stored:
            # Where lengths are unknown, reverse mode may read any state for its shape.
            self.marks = list(range(self.carries))
            if knows_lengths(body):
                self.marks = self.find_restart_carries(body, needed)
        # What was drawn is drawn once: no derivative may draw it again.
        saved += [x for x in body.interior if is_draw(x) and x.serial not in emitted]
        end = len(body.outputs) - self.until
        outputs = [*body.outputs[:end], *saved, *body.outputs[end:]]
        return Graph(body.leaves, outputs) if saved else body

    def find_lagging(self, body: Graph) -> dict[int, tuple[int, int]]:
        """Return the carries that lag behind a stacked output, with their lags.

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
        """Return the leaf of a carry."""
        return self.body.leaves[self.consts + self.seqs + carry]

    def find_restart_carries(
        self, body: Graph | None = None, needed: set[int] | None = None
    ) -> list[int]:
        """Return the carries needed to compute again the values of reverse mode."""
        body = self.body if body is None else body
        needed = needed_values(body) if needed is None else needed
        first = self.consts + self.seqs
        seeds = [x for x in (*body.leaves, *body.interior) if x.serial in needed]
        mask = 0
        for m in Graph(body.leaves, seeds).reads:
            mask |= m
        mask = read_back(mask, body.reads[: self.carries], first)
        return [i for i in range(self.carries) if mask >> (first + i) & 1]

    def split_inputs(
        self, xs: Sequence[Any]
    ) -> tuple[Any, list[Any], list[Any], list[Any]]:
        """Split inputs of the op: the count, constants, sequences, first carries."""
        start = int(self.counted)
        a = start + self.consts
        b = a + self.seqs
        return (
            (xs[0] if start else None),
            list(xs[start:a]),
            list(xs[a:b]),
            list(xs[b:]),
        )

    def count_steps(self, inputs: Sequence[Any]) -> Any:
        """Return the number of steps, or its upper limit; None if unknown."""
        count, _, seqs, _ = self.split_inputs(inputs)
        if self.counted:
            count = value_of(count)
            return None if count is None or isinstance(count, Spec) else int(count)
        if self.steps is not None:
            return self.steps
        return shape_of(seqs[0])[0] if seqs else ENDLESS


def _rebuild_loop(whole: Graph, count: int, settings: dict[str, Any]) -> Loop:
    """Return the loop from pickled parts: its body's outputs, then its stores."""
    loop = object.__new__(Loop)
    vars(loop).update(settings)
    loop.body = Graph(whole.inputs, whole.outputs[:count], whole.captures)
    loop.stored = list(whole.outputs[count:])
    loop.runners = {}
    return loop


def find_costly(body: Graph, known: set[int], consts: set[int]) -> list[Tensor]:
    """Return the values that reverse mode reads, if costly to compute again.

    The operand of a stored extremum is stored beside it. What depends on constants
    alone is computed once for all steps, and no cost. What has another length in each
    step is never stored: no stack would hold it.
    """
    inner = {x.serial for x in body.interior}
    same = set(consts)
    for node in body.interior:
        if all(x.serial in same for x in node.inputs if isinstance(x, Tensor)):
            same.add(node.serial)
    known = known | same
    read = set()
    for node in body.interior:
        if node.op.pull is not None:
            read |= read_values(node)
    heavy: dict[int, bool] = {}
    saved: list[Tensor] = []
    for node in body.interior:
        serial = node.serial
        if serial in known:
            heavy[serial] = False
            continue
        again = any(
            heavy.get(x.serial, False) for x in node.inputs if isinstance(x, Tensor)
        )
        plain = (
            node.op.elementwise
            or node.op is define.ITEM
            or (node.op.traits.moves and node.op.view is not None)
        )
        heavy[serial] = again or not plain
        if (
            heavy[serial]
            and serial in read
            and define.output_values(node) is None
            and not is_draw(node)
            and node.op.pull is not None
            and not _is_uneven(node, inner)
        ):
            # The rule of an extremum looks for its result among the entries of its
            # operand. Both come from the same run: computed again, by NumPy after
            # native code, say, an entry may have another last bit.
            if node.op.traits.picks and not node.op.elementwise:
                saved += _list_unsaved([node.inputs[0]], known, saved, inner)
            saved.append(node)
            heavy[serial] = False
    return saved


def _list_unsaved(
    xs: Sequence[Any], known: set[int], saved: Sequence[Tensor], inner: set[int]
) -> list[Tensor]:
    """Return values of a step that are to be stored, and that nothing holds yet."""
    held = known | {x.serial for x in saved}
    return [
        x
        for x in xs
        if isinstance(x, Tensor)
        and x.serial in inner
        and x.serial not in held
        and not is_draw(x)
        and not _is_uneven(x, inner)
    ]


def _is_uneven(node: Tensor, inner: set[int]) -> bool:
    """Return whether a length of a value depends on a value of the step."""
    lengths = [a for a in atoms_of(node.spec.shape) if isinstance(a, Length)]
    return any(a.tensor.serial in inner for a in lengths)


def read_back(mask: int, reads: Sequence[int], first: int) -> int:
    """Return the leaves of a step that some leaves depend on, in earlier steps too.

    ``reads`` are the leaves that each carry is computed from; those of the carries
    stand from ``first`` on.
    """
    before = -1
    while before != mask:
        before = mask
        for i, more in enumerate(reads, first):
            if mask >> i & 1:
                mask |= more
    return mask


def find_moving_leaves(
    loop: Loop, start: int, smooth: Mode | None, rules: Rules = None
) -> int:
    """Return which leaves of a step vary when those in the mask do, carries included.

    ``smooth``: through derivatives alone, of this mode.
    """
    body = loop.body
    reads = smooth_reads(body, rules, smooth) if smooth else body.reads
    first = loop.consts + loop.seqs
    mask, before = start, -1
    while mask != before:
        before = mask
        for i in range(loop.carries):
            if reads[i] & mask and not mask >> (first + i) & 1:
                spec = body.leaves[first + i].spec
                if not smooth or is_differentiable(spec.dtype):
                    mask |= 1 << (first + i)
    return mask


# Carries that are sums: a step adds a term, and reads no more of them.

#: Products of matrices are worth to be put together from this length on.
LEAST = 8


def count_uses(inside: Sequence[Tensor], outputs: Sequence[Any]) -> dict[int, int]:
    """Return how often each value of a step is read."""
    uses: dict[int, int] = {}
    for x in (*(x for node in inside for x in node.inputs), *outputs):
        if isinstance(x, Tensor):
            uses[x.serial] = uses.get(x.serial, 0) + 1
    return uses


def find_sums(
    marks: Sequence[int],
    carries: Sequence[Tensor],
    outputs: Sequence[Any],
    uses: dict[int, int],
) -> list[int]:
    """Return the carries that are sums, which nothing in the step reads."""
    found = []
    for i, (own, node) in enumerate(zip(carries, outputs, strict=False)):
        if (
            isinstance(node, Tensor)
            and node.op is ADD
            and uses[node.serial] == 1
            and uses.get(own.serial) == 1
            and i not in marks
            and sum(x is own for x in node.inputs) == 1
            and all(
                isinstance(x, Tensor)
                and is_same_shape(x.spec.shape, own.spec.shape)
                and x.spec.dtype == own.spec.dtype
                for x in node.inputs
            )
        ):
            found.append(i)
    return found


def find_term(total: Tensor, carry: Tensor) -> Tensor:
    """Return the term that a step adds to a carry."""
    left, right = total.inputs
    term: Tensor = right if left is carry else left
    return term


# The first entries of a sequence, where only the run knows how many.


WINDOW = declare("scan_window")
PAD = declare("scan_pad")


def take_window(x: Array, n: Array | int) -> Array:
    """Return ``x[:n]``, where ``n`` may be a Tensor.

    Raises
    ------
    ShapeError
        When it runs, if ``x`` has fewer entries.
    """
    return apply(WINDOW, (x, n))


def pad_rows(g: Array, x: Array) -> Array:
    """Return ``g`` padded with rows of zeros to the length of ``x``."""
    return apply(PAD, (g, x))


def _window(x: Array, n: Any) -> Array:
    n, rows = int(n), x.shape[0]
    if n > rows:
        raise ShapeError(
            f"scan: {n} steps, and a sequence has entries for {rows}. Give a longer"
            " one, or fewer steps."
        )
    return x[: max(n, 0)]


def _pad(g: Array, x: Array) -> Array:
    made = np.zeros_like(g, shape=(x.shape[0], *g.shape[1:]))
    made[: g.shape[0]] = g
    return made


def _window_spec(x: Array | Spec, n: Any) -> Spec:
    known = not isinstance(n, Spec)
    return Spec((int(n) if known else None, *shape_of(x)[1:]), x.dtype)


def _pad_spec(g: Array | Spec, x: Array | Spec) -> Spec:
    return Spec((shape_of(x)[0], *shape_of(g)[1:]), g.dtype)


def _batch_window(inputs: tuple[Any, ...], batched: Batched, params: Params) -> Array:
    """Return the first entries for each example, as many as the longest needs."""
    (x, n), (many, uneven) = inputs, batched
    if not many:
        made: Any = take_window(x, np.max(n))
        return np.broadcast_to(made, (shape_of(n)[0], *shape_of(made)))
    made = take_window(np.moveaxis(x, 0, 1), np.max(n) if uneven else n)
    return np.moveaxis(made, 1, 0)


def _batch_pad(inputs: tuple[Any, ...], batched: Batched, params: Params) -> Array:
    (g, x), (many, like) = inputs, batched
    x = np.moveaxis(x, 0, 1) if like else x
    made: Any
    if not many:
        made = pad_rows(g, x)
        return np.broadcast_to(made, (shape_of(x)[1], *shape_of(made)))
    made = pad_rows(np.moveaxis(g, 0, 1), x)
    return np.moveaxis(made, 1, 0)


linear(
    "scan_window",
    _window,
    lambda g, x, n: pad_rows(g, x),
    rule="g, and zeros for the entries left out",
    infer=_window_spec,
    batch=_batch_window,
    kind="window",
)
linear(
    "scan_pad",
    _pad,
    lambda g, x, like: take_window(g, shape_of(x)[0]),
    rule="the first entries of g",
    infer=_pad_spec,
    batch=_batch_pad,
)
WINDOW.template = "{0}[:{1}]"
PAD.helper = '''\
def scan_pad(g, x):
    """g, and zeros after it, as many rows as x has."""
    out = np.zeros_like(g, shape=(len(x), *g.shape[1:]))
    out[: len(g)] = g
    return out
'''
