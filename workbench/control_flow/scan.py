"""`scan`: a step that runs many times, as one node of the program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import index
from typing import Any

import numpy as np

from workbench.control_flow.entries import Sequenced, listed, recurrences, sequenced
from workbench.control_flow.stepping import Assembled, Step
from workbench.control_flow.windows import window
from workbench.core import blame, dims
from workbench.core.broadcasting import smallest
from workbench.core.tensor import Tensor, admit, leaf
from workbench.core.trace import live
from workbench.errors import DtypeError, ShapeError, UsageError
from workbench.ops.define import shape_of

__all__ = ["scan"]


def scan(
    fn: Callable[..., Any],
    sequences: Any = (),
    initial: Any = (),
    non_sequences: Any = (),
    *,
    n_steps: Any = None,
    reverse: bool = False,
    until: Callable[..., Any] | None = None,
    strict: bool = False,
    memory: int | str = "auto",
    last: bool = False,
    return_updates: bool = False,
    name: str | None = None,
) -> Any:
    """Run a step many times: the outputs of all steps, stacked.

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
    taken = sequenced(sequences)
    fed = recurrences(initial)
    seqs, n, count = _cut(taken, n_steps, reverse)
    rest = listed(non_sequences)
    step = Step(fn, taken, fed, rest, until)
    closed = step.close(seqs)
    found = step.found
    if strict and closed.captured:
        names = ", ".join(blame.describe(x) for x in closed.captured)
        raise UsageError(
            f"scan(strict=True){blame.here()}: the step reads {names} without being"
            " given it. Add it to non_sequences."
        )
    return Assembled(step, closed, found, seqs, n, count, reverse).run(
        memory, last, return_updates, name
    )


# How many steps


def _cut(
    taken: Sequence[Sequenced], n_steps: Any, reverse: bool
) -> tuple[list[list[list[Any]]], Any, Any]:
    """The sequences, cut and turned: for each its taps, for each tap its leaves.

    Beside them the number of steps where it is known, and the Tensor that tells it.
    """
    lengths = [shape_of(x)[0] - entry.lost for entry in taken for x in entry.leaves]
    n, count = _steps(n_steps, taken, lengths)
    made = []
    for entry in taken:
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
                    x = window(x[skipped:] if skipped else x, count)
                elif skipped or not dims.same((n,), (length,)):
                    if isinstance(n, dims.Dim) and not isinstance(x, Tensor):
                        x = leaf(x)  # no slice of NumPy's ends at such a length
                    x = x[skipped : skipped + n]
                cut.append(x)
            by_tap.append(cut)
        made.append(by_tap)
    return made, n, count


def _steps(n_steps: Any, taken: Sequence[Sequenced], lengths: list[Any]) -> Any:
    labels = [entry.label for entry in taken for _ in entry.leaves]
    if isinstance(n_steps, Tensor):
        if n_steps.dtype.kind not in "iu" or n_steps.shape != ():
            raise DtypeError(
                f"scan: n_steps is {blame.describe(n_steps)}{blame.here()}, and must be"
                " one integer: wb.scalar('n', dtype=int)."
            )
        if not live(n_steps):
            n_steps = int(n_steps._value)
        else:
            return None, n_steps
    if n_steps is None:
        if not lengths:
            raise UsageError(
                f"scan{blame.here()}: there are no sequences, so nothing tells the"
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
            n_steps = _index(n_steps)
        except TypeError:
            raise DtypeError(
                f"scan: n_steps={n_steps!r}{blame.here()} is no number of steps. Give"
                " an integer."
            ) from None
        if n_steps < 0:
            raise UsageError(
                f"scan: n_steps={n_steps}{blame.here()} is negative. To go backward"
                f" write n_steps={-n_steps}, reverse=True."
            )
        for length, label in zip(lengths, labels, strict=True):
            if isinstance(length, int) and n_steps > length:
                raise ShapeError(
                    f"scan: n_steps={n_steps}{blame.here()}, and {label} has entries"
                    f" for {max(length, 0)} steps. Give a longer one, or fewer steps."
                )
    return n_steps, None


def _index(n: Any) -> int:
    if isinstance(n, np.ndarray) and n.ndim == 0:
        n = n[()]
    if isinstance(n, (bool, np.bool_)):
        raise TypeError
    return index(n)
