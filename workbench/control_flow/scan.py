"""`scan`, `map`, `reduce`, `foldl`, `foldr`: a step that runs many times, one node."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from functools import partial, wraps
from operator import index
from typing import Any

import numpy as np

from workbench.autodiff.higher_order import detach_leaves
from workbench.control_flow import (  # noqa: F401  (they make the op whole)
    lowering,
    rules,
    signature,
)
from workbench.control_flow.loop import Loop, take_window
from workbench.control_flow.op import run_loop
from workbench.core import blame, dims, tree, types
from workbench.core.dims import smallest
from workbench.core.graph import Graph
from workbench.core.recorder import Recorder, is_array
from workbench.core.shared import Shared
from workbench.core.tensor import Tensor, admit, make_leaf
from workbench.core.trace import is_live, make_leaf_like
from workbench.core.types import Array, ArrayLike, Spec
from workbench.errors import DtypeError, ShapeError, UsageError
from workbench.ops.define import dtype_of, shape_of

# How much of a loop's values is kept for reverse mode.
#
# Either what it reads of each step is stored, or the state before every k-th step: the
# steps between run once more, k at a time, when reverse mode comes to them (Griewank &
# Walther, *Evaluating Derivatives*, 2nd ed., ch. 12). The steps of reverse mode are the
# same in both, in the same order, so the numbers agree bit for bit.

#: What ``memory="auto"`` may take for one loop, in bytes.
BUDGET = 256 * 2**20
UNITS = {"B": 1, "KB": 2**10, "MB": 2**20, "GB": 2**30}


def run_saving(
    make: Callable[..., Loop],
    inputs: Sequence[Any],
    memory: int | str,
    name: str | None = None,
) -> list[Any]:
    """Return the last carries and the stacks that the user sees.

    ``make(hide=)`` gives the loop, with `Loop`'s settings; with ``every=``, one that
    keeps some states.
    """
    # A loop of plain arrays keeps nothing: there is no derivative of it.
    hide = any(isinstance(x, Tensor) for x in inputs)
    loop = make(hide=hide)
    k = choose_interval(loop, inputs, memory)
    if k is not None:
        loop = make(hide=hide, every=k)
    loop.keep |= any(
        is_live(x) and x._value is not None for x in inputs if isinstance(x, Tensor)
    )
    made = run_loop(loop, inputs)
    if name is not None:
        for y in made:
            if isinstance(y, Tensor):
                y.inputs[0].name = name
                break
    return list(made[: loop.carries + loop.visible])


def choose_interval(loop: Loop, inputs: Sequence[Any], memory: int | str) -> int | None:
    """Return after how many steps a state is kept; None to keep all that is read.

    Raises
    ------
    UsageError
        If ``memory`` is not valid.
    """
    budget = BUDGET
    if isinstance(memory, str):
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMG]?B)\s*", memory.upper())
        if memory == "all":
            return None
        if found is not None:
            budget = int(float(found[1]) * UNITS[found[2]])
        elif memory != "auto":
            raise _unknown_memory(memory)
    elif isinstance(memory, bool) or not hasattr(memory, "__index__") or memory < 1:
        raise _unknown_memory(memory)
    else:
        return int(memory)
    n = loop.count_steps(inputs)
    kept = sum(_count_bytes(x.spec) for x in loop.stored)
    if not kept:
        return None
    told = all(isinstance(m, int) for x in loop.stored for m in x.spec.shape)
    if isinstance(n, int) and n * kept <= budget and (told or memory == "auto"):
        return None
    open_ended = not isinstance(n, int) or loop.until
    if open_ended and memory == "auto":
        return None
    if open_ended and told:
        # Only the run tells how much all would be: what is given is for the steps
        # between two kept states.
        return max(1, budget // kept)
    if not isinstance(n, int):
        raise UsageError(
            f"memory={memory!r}{blame.user_line()}: how many bytes a step keeps"
            " shows only when the program runs. Give the number of steps after"
            " which a state is kept, or declare lengths with shape=."
        )
    # An amount that is asked for is not taken to suffice where nothing shows that it
    # does. Unknown lengths count the same on both sides here, so that the least
    # memory is found without them.
    state = sum(_count_bytes(loop.leaf(i).spec) for i in loop.find_restart_carries())
    return min(n, max(1, round(math.sqrt(n * state / kept))))


def _unknown_memory(memory: object) -> UsageError:
    return UsageError(
        f"memory={memory!r}{blame.user_line()} is not valid. Give 'all', 'auto', an"
        " amount such as '64 MB', or a number k: of k steps the first is kept."
    )


def _count_bytes(spec: Spec) -> int:
    """Return the size of a value in bytes; unknown lengths count as 1."""
    return spec.dtype.itemsize * math.prod(
        n if isinstance(n, int) else 1 for n in spec.shape
    )


# A user's step, traced, and the loop that is made around it.

# The step as a program

KIND: Any = "same_kind"


class Step:
    """A user's step, and its traced results."""

    def __init__(
        self,
        fn: Callable[..., Any],
        sequences: Sequence[signature.Sequenced],
        fed: Sequence[signature.Recurrence | None],
        rest: list[Any],
        until: Callable[..., Any] | None,
    ) -> None:
        if not callable(fn):
            raise UsageError(f"scan: the step is {fn!r}, which cannot be called.")
        self.fn = fn
        self.sequences = sequences
        self.fed = fed
        self.rest = rest
        self.until = until
        self.returned: signature.Returned
        #: For each output that is fed back, the dtypes of its leaves.
        self.dtypes: list[list[Any]] = [
            [
                # A plain number takes the dtype of what the step makes of it.
                None if types.is_weak(g) else dtype_of(x)
                for x, g in zip(entry.leaves, entry.first_values, strict=True)
            ]
            if entry
            else []
            for entry in fed
        ]
        #: How each output nests, and how many leaves it has.
        self.trees: list[tree.Tree] = []
        self.counts: list[int] = []

    def argument_labels(self) -> list[str]:
        """Return the names of the step's arguments for errors."""
        entries = [(x.label, x.taps) for x in self.sequences]
        entries += [(f"earlier {x.label}", x.taps) for x in self.fed if x is not None]
        made = [
            f"{label} at {tap}" if len(taps) > 1 else label
            for label, taps in entries
            for tap in taps
        ]
        return made + [f"non-sequence {i}" for i in range(len(self.rest))]

    def argument_specs(self, seqs: Sequence[Sequence[Sequence[Any]]]) -> list[Any]:
        """Return the arguments of the step as specs."""
        made = []
        for entry, by_tap in zip(self.sequences, seqs, strict=True):
            for leaves in by_tap:
                specs = [Spec(shape_of(x)[1:], dtype_of(x)) for x in leaves]
                made.append(entry.tree(specs))
        for again, dtypes in zip(self.fed, self.dtypes, strict=True):
            if again is not None:
                specs = [
                    Spec(shape_of(x)[again.rows :], d or dtype_of(x), d is None)
                    for x, d in zip(again.leaves, dtypes, strict=True)
                ]
                made += [again.tree(specs) for _ in again.taps]
        return made + self.rest

    def trace(self, seqs: Sequence[Sequence[Sequence[Any]]]) -> Recorder:
        """Record the step, again while the dtypes of first values change.

        A Python number as a first value takes the dtype of the step's output.
        """

        # Its leaves are called as the arguments of the user's function.
        call: Callable[..., Any] = wraps(self.fn)(lambda *args: self.call(*args))
        for _ in range(3):
            given = self.argument_specs(seqs)
            flat = tree.flatten(given)[0]
            rest = [x for x in flat if not is_array(x)]
            is_alone = not rest and self.until is None
            code = self.fn if is_alone else (self.fn, self.until, *rest)
            if len(rest) == len(flat):
                # What it draws would be drawn once for all steps: draws hang on a leaf.
                bare = partial(_call_without_leaf, call, given)
                closed = Recorder(bare, Spec((), np.dtype(float)), code=code)
            else:
                closed = Recorder(call, *given, code=code)
            if not self._adopt_dtypes(closed):
                break
        return closed

    def call(self, *args: Any) -> list[Any]:
        """Call the step; return its outputs, updates and condition as a flat list."""
        order = "It gets an entry of each sequence, earlier outputs, non-sequences."
        value = signature.call_user(
            self.fn, args, self.argument_labels, "scan: the step", order
        )
        found = signature.read_returned(value, len(self.fed))
        if len(self.fed) == 1 and self.fed[0] is not None and len(found.outputs) != 1:
            # One output that is a tuple of arrays.
            nest = found.kind(found.outputs)
            if tree.flatten(nest)[1] == self.fed[0].tree:
                found = found._replace(outputs=[nest], bare=True)
        stop = found.stop
        if self.until is not None:
            if stop is not None:
                raise UsageError(
                    "scan: the step returns wb.until(...), and until= is given too."
                    " Give one of them."
                )
            labels = [f"output {i}" for i in range(len(found.outputs))]
            stop = signature.call_user(
                self.until, found.outputs, lambda: labels, "scan: until"
            )
            found = found._replace(stop=stop)
        self.returned = found
        flat: list[Any] = []
        self.trees, self.counts = [], []
        for y in found.outputs:
            leaves, structure = tree.flatten(y)
            self.trees.append(structure)
            self.counts.append(len(leaves))
            flat += [_check_output(x) for x in leaves]
        flat += [_check_output(x) for x in found.updates.values()]
        if stop is not None:
            flat.append(signature.check_condition(stop, "scan"))
        return flat

    def _adopt_dtypes(self, closed: Recorder) -> bool:
        """Give first values that are plain numbers the dtype of their output."""
        changed = False
        flat = iter(closed.graph.outputs)
        for count, again, dtypes in zip(
            self.counts, self.fed, self.dtypes, strict=False
        ):
            leaves = [next(flat) for _ in range(count)]
            if again is None or len(leaves) != len(dtypes):
                continue
            for i, (y, x) in enumerate(zip(leaves, again.first_values, strict=True)):
                want = types.spec_of(y).dtype
                if dtypes[i] is None:
                    own = np.result_type(type(x))
                    kept = types.spec_of(y).weak or not np.can_cast(own, want, KIND)
                    dtypes[i] = own if kept else want
                    changed = True
                    continue
                number = types.is_weak(x) or isinstance(x, (list, tuple))
                if (
                    number
                    and np.can_cast(dtypes[i], want, KIND)
                    and (dtypes[i] != want)
                ):
                    dtypes[i] = want
                    changed = True
        return changed


def _check_output(x: object) -> Array:
    """Return a result of a step as a Tensor or an array."""
    if isinstance(x, Tensor):
        return np.asarray(x) if types.spec_of(x).weak and x._value is not None else x
    if isinstance(x, signature.Until):
        raise UsageError(
            f"scan{blame.user_line()}: wb.until(...) stands among the outputs. Return"
            " it last: return outputs, wb.until(condition)."
        )
    return signature.check_array(x, "what the step returns")


# The loop around it


def _call_without_leaf(
    call: Callable[..., Any], given: Sequence[Any], leaf: object
) -> object:
    return call(*given)


class Assembled:
    """A traced step, sorted into constants, sequences and carries."""

    def __init__(
        self,
        step: Step,
        closed: Recorder,
        found: signature.Returned,
        seqs: Sequence[Sequence[Sequence[Any]]],
        n: Any,
        count: Any,
        reverse: bool,
    ) -> None:
        self.step, self.returned, self.n, self.count = step, found, n, count
        outputs = list(closed.graph.outputs)
        self.stop = outputs.pop() if found.stop is not None else None
        ends = len(outputs) - len(found.updates)
        news = outputs[ends:]
        flat = iter(outputs[:ends])
        self.ys = [[next(flat) for _ in range(k)] for k in step.counts]
        self.check_count()
        captured = closed.captured
        places = closed.graph.leaves
        heads, tails = places[: len(captured)], iter(places[len(captured) :])
        #: Leaves of the body with the values that the loop takes for them.
        self.consts: list[tuple[Tensor, Any]] = []
        self.seqs: list[tuple[Tensor, Any]] = []
        #: Carries: leaf, first value, what the step gives.
        self.carries: list[tuple[Tensor, Any, Any]] = []
        for by_tap in seqs:
            for leaves in by_tap:
                self.seqs += [(next(tails), x) for x in leaves]
        #: For each output the places of its leaves among the carries.
        self.back: list[list[int]] = []
        for k, again in enumerate(step.fed):
            if again is None:
                self.back.append([])
                continue
            self.back.append(self.add_carries(again, self.ys[k], step.dtypes[k], tails))
        given = tree.flatten(tuple(step.rest))[0]
        given = [x for x in given if is_array(x)]
        self.consts += [(next(tails), x) for x in given]
        # The leaf of a step that takes nothing.
        self.consts += [(tail, np.zeros(())) for tail in tails]
        inside = {}
        for head, x in zip(heads, captured, strict=True):
            if isinstance(x, Shared) and x in found.updates:
                inside[x] = head
            else:
                self.consts.append((head, x))
        self.updated = []
        for x, new in zip(found.updates, news, strict=True):
            self.check_unchanged(
                x.name or "a shared value", new, types.spec_of(x), True
            )
            leaf = inside[x] if x in inside else make_leaf_like(x, x.name)
            self.updated.append(len(self.carries))
            self.carries.append((leaf, x, new))
        self.reverse = reverse

    def check_count(self) -> None:
        """Raise an error if the outputs are not as many as the initial entries."""
        fed, outputs = self.step.fed, self.returned.outputs
        if fed and len(fed) != len(outputs):
            raise UsageError(
                f"scan{blame.user_line()}: the step returns {len(outputs)}"
                f" output{'s' * (len(outputs) != 1)}, and initial has {len(fed)}"
                f" entr{'ies' if len(fed) != 1 else 'y'}. Give one entry per output,"
                " None for one that is not fed back."
            )

    def add_carries(
        self, again: signature.Recurrence, ys: list[Any], dtypes: list[Any], tails: Any
    ) -> list[int]:
        """Add the carries of an output, one for each depth of its taps."""
        at = int(again.label.rpartition(" ")[2])
        structure = self.step.trees[at]
        if structure != again.tree:
            raise UsageError(
                f"scan{blame.user_line()}: {again.label} is not nested as its initial"
                f" value: {tree.describe_difference(again.tree, structure)}. Give the"
                " same nest."
            )
        leaves = [[next(tails) for _ in again.leaves] for _ in again.taps]
        places = []
        for i, (y, x, dtype) in enumerate(zip(ys, again.leaves, dtypes, strict=True)):
            shape = shape_of(x)[again.rows :]
            self.check_unchanged(again.label, y, Spec(shape, dtype), False)
            starts = again.starts(i, None if dtype == dtype_of(x) else dtype)
            by_depth: dict[int, Tensor] = {}
            for tap, found in zip(again.taps, leaves, strict=True):
                by_depth[-tap] = found[i]
            for depth in range(1, again.depth + 1):
                if depth not in by_depth:
                    by_depth[depth] = make_leaf_like(Spec(shape, dtype))
            places.append(len(self.carries))
            for depth, start in enumerate(starts, 1):
                new = y if depth == 1 else by_depth[depth - 1]
                self.carries.append((by_depth[depth], start, new))
        return places

    def check_unchanged(self, label: str, y: Array, want: Spec, shared: bool) -> None:
        """Raise an error if a step changes the shape or dtype of a carry."""
        have = types.spec_of(y)
        is_reshaped = len(have.shape) != len(want.shape) or any(
            isinstance(a, int) and isinstance(b, int) and a != b
            for a, b in zip(have.shape, want.shape, strict=True)
        )
        if not is_reshaped and have.dtype == want.dtype:
            return
        place = blame.quote_site(y.site) if isinstance(y, Tensor) else ""
        first = "its value" if shared else "its initial value"
        if is_reshaped:
            cure = (
                f"Give an initial value of shape {have.shape}"
                if have.shape != () and want.shape == ()
                else "Reshape what the step returns, or the initial value"
            )
            raise ShapeError(
                f"scan: {label} changes its shape{place}: {first} has shape"
                f" {want.shape}, the step returns shape {have.shape}. {cure}, so that"
                " the next step can take it."
            )
        raise DtypeError(
            f"scan: {label} changes its dtype{place}: {first} is of dtype"
            f" {want.dtype}, the step returns {have.dtype}. Give an initial value"
            f" of dtype {have.dtype}, or write .astype({want.dtype}) in the step."
        )

    def run(
        self, memory: int | str, last: bool, with_updates: bool, name: str | None
    ) -> Any:
        """Make the loop, and run the steps."""
        stacked = [y for ys in self.ys for y in ys]
        fed = self.back or [[] for _ in self.ys]
        if last:
            stacked = [
                y
                for ys, places in zip(self.ys, fed, strict=True)
                for y in ys
                if not places
            ]
        leaves = [x for x, *_ in (*self.consts, *self.seqs, *self.carries)]
        outs = [out for _, _, out in self.carries]
        stop = [] if self.stop is None else [self.stop]
        body = detach_leaves(Graph(leaves, [*outs, *stacked, *stop]))
        make = partial(
            Loop, body, len(self.consts), len(self.seqs), len(self.carries),
            steps=self.n if isinstance(self.n, int) else None,
            counted=self.count is not None, until=self.stop is not None,
        )  # fmt: skip
        inputs = [x for _, x, *_ in (*self.consts, *self.seqs, *self.carries)]
        if self.count is not None:
            inputs = [self.count, *inputs]
        made = run_saving(make, inputs, memory, name)
        finals = made[: len(self.carries)]
        rest = iter(made[len(self.carries) :])
        results = []
        for ys, structure, places in zip(self.ys, self.step.trees, fed, strict=True):
            if last and places:
                results.append(structure([finals[i] for i in places]))
            else:
                rows = [next(rest) for _ in ys]
                results.append(structure([x[-1] for x in rows] if last else rows))
        outputs: Any = results[0] if self.returned.bare else self.returned.kind(results)
        if not with_updates:
            if self.updated:
                raise UsageError(
                    f"scan{blame.user_line()}: the step updates shared values. Write"
                    " outputs, updates = wb.scan(..., return_updates=True), and give"
                    " updates= to wb.function."
                )
            return outputs
        updates = {
            x: finals[i]
            for x, i in zip(self.returned.updates, self.updated, strict=True)
        }
        return outputs, updates


# What users call


def scan(
    fn: Callable[..., Any],
    sequences: Any = (),
    initial: Any = (),
    non_sequences: Any = (),
    *,
    n_steps: ArrayLike | None = None,
    reverse: bool = False,
    until: Callable[..., Any] | None = None,
    strict: bool = False,
    memory: int | str = "auto",
    last: bool = False,
    return_updates: bool = False,
    name: str | None = None,
) -> Any:
    """Run a step many times, and stack the outputs of all steps.

    The step is traced once. In the program the loop is one node, so its size and the
    time of its gradient's making do not grow with the steps; its derivatives are
    loops again, in both modes, of any order.

    Parameters
    ----------
    fn
        The step. Its arguments are, in this order: an entry of each sequence (one
        for each of its taps), the earlier values of each output that has initial
        ones (one for each of its taps), the non-sequences. It returns the outputs:
        one, or a list or tuple; after them, if it likes, what becomes of shared
        values (``{shared: new}``) and ``wb.until(condition)``.
    sequences
        What the steps go through: an array, a nest of arrays, or a list of these.
        ``dict(input=x, taps=[-1, 0, 1])`` gives a step the entries before, at and
        after its place; the loop then has only the steps that have them all. Of
        several lengths the shortest counts.
    initial
        One entry for each output: its value before the first step (an array or a
        nest of arrays); ``dict(initial=x0, taps=[-2, -1])``, where ``x0`` holds as
        many rows as the deepest tap, the oldest first; or None for an output that
        is not fed back.
    non_sequences
        Further arguments of the step, the same each time. It may also read Tensors
        through its closure.
    n_steps
        The number of steps, an integer or a Tensor; by default the sequences tell.
    reverse
        Go through the sequences from their ends, which meet in the first step where
        their lengths differ. The first output is that of the first step.
    until
        ``until(*outputs)`` ends the loop after the step in which it is true. The
        outputs have as many entries as steps were made.
    strict
        Refuse a step that reads Tensors through its closure.
    memory
        What is kept for reverse mode. ``"all"``: what it reads of each step. A
        number ``k``: the state before every k-th step; the steps between run once
        more. A text like ``"64 MB"``: all if that fits, else some states. ``"auto"``:
        the same with 256 MB. Where only the run tells how many steps there are,
        ``"auto"`` keeps all, and an amount is what the steps between two kept states
        take. Where lengths are unknown, ``"auto"`` keeps all, and an amount keeps as
        many states as take the least memory. Gradients are the same bit for bit;
        those of a gradient keep all.
    last
        Return the values after the last step instead of the stacks of all: ``[-1]`` of
        a stack is the same number, and holds every step in memory whatever ``memory``.
    return_updates
        Return ``(outputs, updates)``, to be given to :func:`workbench.function`.
    name
        How the node is called in pictures and texts.

    Raises
    ------
    ShapeError, DtypeError
        If a step changes the shape or dtype of what is fed back; if a sequence has no
        axis of steps, or fewer entries than ``n_steps``.
    UsageError
        If outputs and ``initial`` do not match; if nothing tells the number of steps;
        with ``strict``, if the step reads what it was not given.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> wb.scan(lambda x, total: total + x, np.arange(5.0), initial=0.0)
    array([ 0.,  1.,  3.,  6., 10.])
    >>> fibonacci = dict(initial=np.array([0.0, 1.0]), taps=[-2, -1])
    >>> wb.scan(lambda a, b: a + b, initial=fibonacci, n_steps=6)
    array([ 1.,  2.,  3.,  5.,  8., 13.])
    >>> power = lambda A, k: wb.scan(
    ...     lambda p, A: p * A, initial=np.ones_like(A), non_sequences=A, n_steps=k
    ... )[-1]
    >>> wb.grad(lambda A: np.sum(power(A, 3)))(np.array([1.0, 2.0]))
    array([ 3., 12.])
    """
    taken = signature.read_sequences(sequences)
    fed = signature.read_initial(initial)
    seqs, n, count = _cut_sequences(taken, n_steps, reverse)
    rest = signature.list_entries(non_sequences)
    step = Step(fn, taken, fed, rest, until)
    closed = step.trace(seqs)
    found = step.returned
    if strict and closed.captured:
        names = ", ".join(blame.describe(x) for x in closed.captured)
        raise UsageError(
            f"scan(strict=True){blame.user_line()}: the step reads {names} without"
            " being given it. Add it to non_sequences."
        )
    return Assembled(step, closed, found, seqs, n, count, reverse).run(
        memory, last, return_updates, name
    )


# How many steps


def _cut_sequences(
    sequences: Sequence[signature.Sequenced], n_steps: Any, reverse: bool
) -> tuple[list[list[list[Any]]], Any, Any]:
    """Return the sequences, cut and turned: for each its taps, for each tap its leaves.

    Beside them the number of steps where it is known, and the Tensor that tells it.
    """
    lengths = [
        shape_of(x)[0] - entry.left_out for entry in sequences for x in entry.leaves
    ]
    n, count = _count_steps(n_steps, sequences, lengths)
    made = []
    for entry in sequences:
        first, last = -min(*entry.taps, 0), max(*entry.taps, 0)
        by_tap = []
        for tap in entry.taps:
            # Entries before the first one that this tap reads, if we go from there.
            skipped = last - tap if reverse else first + tap
            cut = []
            for x in entry.leaves:
                length = shape_of(x)[0]
                x = x[::-1] if reverse else x
                if count is not None:
                    x = take_window(x[skipped:] if skipped else x, count)
                elif skipped or not dims.is_same_shape((n,), (length,)):
                    if isinstance(n, dims.Dim) and not isinstance(x, Tensor):
                        x = make_leaf(x)  # no slice of NumPy's ends at such a length
                    x = x[skipped : skipped + n]
                cut.append(x)
            by_tap.append(cut)
        made.append(by_tap)
    return made, n, count


def _count_steps(
    n_steps: Any, sequences: Sequence[signature.Sequenced], lengths: list[Any]
) -> Any:
    labels = [entry.label for entry in sequences for _ in entry.leaves]
    if isinstance(n_steps, Tensor):
        if n_steps.dtype.kind not in "iu" or n_steps.shape != ():
            raise DtypeError(
                f"scan: n_steps is {blame.describe(n_steps)}{blame.user_line()}, and"
                " must be one integer: wb.scalar('n', dtype=int)."
            )
        if not is_live(n_steps):
            n_steps = int(n_steps)
        else:
            return None, n_steps
    if n_steps is None:
        if not lengths:
            raise UsageError(
                f"scan{blame.user_line()}: there are no sequences, so nothing tells the"
                " number of steps. Give n_steps=."
            )
        n = lengths[0]
        for length in lengths[1:]:
            n = smallest(n, length)
        if isinstance(n, int) and n < 0:
            n = 0
        return n, None
    if isinstance(n_steps, (float, np.floating)) and float(n_steps).is_integer():
        n_steps = int(n_steps)
    if isinstance(n_steps, dims.Dim):
        if not lengths:
            return None, admit(n_steps)
    else:
        try:
            n_steps = _to_int(n_steps)
        except TypeError:
            raise DtypeError(
                f"scan: n_steps={n_steps!r}{blame.user_line()} is not a number of"
                " steps. Give an integer."
            ) from None
        if n_steps < 0:
            raise UsageError(
                f"scan: n_steps={n_steps}{blame.user_line()} is negative. To go"
                f" backward write n_steps={-n_steps}, reverse=True."
            )
        for length, label in zip(lengths, labels, strict=True):
            if isinstance(length, int) and n_steps > length:
                raise ShapeError(
                    f"scan: n_steps={n_steps}{blame.user_line()}, and {label} has"
                    f" entries for {max(length, 0)} steps. Give a longer one, or fewer"
                    " steps."
                )
    return n_steps, None


def _to_int(n: Any) -> int:
    if isinstance(n, np.ndarray) and n.ndim == 0:
        n = n[()]
    if isinstance(n, (bool, np.bool_)):
        raise TypeError
    return index(n)


# `map`, `reduce`, `foldl`, `foldr`: small loops over `scan`, as Theano has them.

StepFunction = Callable[..., Any]


def map(
    fn: StepFunction, sequences: Any, non_sequences: Any = (), **settings: Any
) -> Any:
    """Return the results of a function at each entry of the sequences, stacked.

    >>> import numpy as np
    >>> map(lambda x: x * x, np.arange(4.0))
    array([0., 1., 4., 9.])
    """
    return scan(fn, sequences, None, non_sequences, **settings)


def reduce(
    fn: StepFunction,
    sequences: Any,
    initial: Any,
    non_sequences: Any = (),
    **settings: Any,
) -> Any:
    """Return the last value of a function of each entry and the value before.

    >>> import numpy as np
    >>> float(reduce(lambda x, total: total + x, np.arange(5.0), 0.0))
    10.0
    """
    return scan(fn, sequences, initial, non_sequences, last=True, **settings)


def foldl(
    fn: StepFunction,
    sequences: Any,
    initial: Any,
    non_sequences: Any = (),
    **settings: Any,
) -> Any:
    """Reduce from the first entry to the last.

    >>> import numpy as np
    >>> float(foldl(lambda x, y: 2 * y + x, np.array([1.0, 0.0, 1.0]), 0.0))
    5.0
    """
    return reduce(fn, sequences, initial, non_sequences, reverse=False, **settings)


def foldr(
    fn: StepFunction,
    sequences: Any,
    initial: Any,
    non_sequences: Any = (),
    **settings: Any,
) -> Any:
    """Reduce from the last entry to the first.

    >>> import numpy as np
    >>> float(foldr(lambda x, y: 2 * y + x, np.array([1.0, 1.0, 0.0]), 0.0))
    3.0
    """
    return reduce(fn, sequences, initial, non_sequences, reverse=True, **settings)
