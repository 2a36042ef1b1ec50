"""How a loop runs: its step as straight Python code, inside one ``for``.

The code is written once for each structure (its text is the key), so what a step
costs beyond NumPy is what these lines cost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

import numpy as np

from workbench.backends.numpy import Function
from workbench.control_flow.code import FILE
from workbench.control_flow.loop import Loop
from workbench.control_flow.straight import Place, Straight, kept_by, rows_for
from workbench.core import blame, types
from workbench.core.graph import Graph
from workbench.core.source import Context
from workbench.core.tensor import Tensor

__all__ = ["Absent", "runner"]

#: Beyond so many ops the step is no straight code, whose compiling would take longer.
MOST_LINES = 4000


class Absent(np.ndarray[Any, Any]):
    """Stands for the saved values of a run that saved none: NaN, without memory."""


def absent(shape: Sequence[int], dtype: np.dtype[Any]) -> Any:
    """What a loop returns in the place of values that nobody is going to read."""
    nothing = np.nan if dtype.kind in "fc" else 0
    return np.broadcast_to(np.full((), nothing, dtype), tuple(shape)).view(Absent)


def runner(loop: Loop) -> Callable[..., tuple[Any, ...]]:
    """A loop as a function of arrays, which is made once; see `Runner`."""
    found = loop.runners.get(loop.keep)
    if found is None:
        found = loop.runners[loop.keep] = Runner(loop, loop.keep)
    return found


class Runner:
    """A loop as a function of arrays; ``saving`` as the loop's `keep`."""

    def __init__(self, loop: Loop, saving: bool) -> None:
        self.loop = loop
        total = len(loop.body.outputs) - loop.until
        self.marks = loop.marks if saving else []
        self.hidden = [] if saving else list(range(loop.carries + loop.visible, total))
        self.places = self._places(
            [i for i in range(loop.carries, total) if i not in set(self.hidden)]
        )
        self.run: Callable[..., Any]
        #: The node of each line of the code, and how many arrays hold what is summed
        #: later.
        self.nodes: list[Tensor | None] = []
        self.held = 0
        if len(loop.body.nodes) > MOST_LINES:
            self.run = self._stepwise()
        else:
            made = Straight(loop, self.places, self.marks)
            self.run, self.nodes, self.held = made.run, made.nodes, made.held

    def _places(self, wanted: list[int]) -> list[Place]:
        """Where outputs go; those that lag behind another share its buffer."""
        loop, body = self.loop, self.loop.body
        behind = {} if loop.until else loop.behind(body)
        carries = {
            x.serial: i for i, x in enumerate(body.leaves[loop.consts + loop.seqs :])
        }
        places: dict[int, Place] = {}
        lagging = []
        for i in wanted:
            y = body.outputs[i]
            carry = carries.get(y.serial, -1) if isinstance(y, Tensor) else -1
            if i >= loop.carries + loop.visible and carry in behind:
                lagging.append((behind[carry][1], i, carry))
            else:
                places[i] = Place(i)
        for hops, i, carry in sorted(lagging):
            place = places[behind[carry][0]]
            if len(place.chain) == hops - 1:
                place.chain.append((i, carry))
                place.ahead = hops
            else:
                places[i] = Place(i)
        return list(places.values())

    # Running

    def __call__(
        self,
        n: int,
        inputs: Sequence[Any],
        held: list[Any] | None = None,
        final: bool = True,
    ) -> tuple[Any, ...]:
        """All outputs of the loop: last carries, stacked outputs, number of steps.

        A loop that runs in pieces gets the same list ``held`` for each, which keeps
        what has not been summed yet, until the ``final`` one.
        """
        loop = self.loop
        # A number computes faster than an array of one, and to the same bits.
        consts = [bare(x) for x in inputs[: loop.consts]]
        seqs = inputs[loop.consts : loop.consts + loop.seqs]
        inits = [bare(x) for x in inputs[loop.consts + loop.seqs :]]
        if n <= 0:
            return self._empty(consts, seqs, inits)
        held = [] if held is None else held
        try:
            carries, buffers, done, marks = self.run(
                n, consts, seqs, inits, self.start(held), final
            )
        except Exception as error:
            told = self._told(error, error.__traceback__)
            if told is error:
                raise
            raise told from error
        made: dict[int, Any] = {}
        for place, rows in zip(self.places, buffers, strict=True):
            if loop.until:
                rows = stacked(rows)
            ahead = place.ahead
            for late, (i, _) in enumerate(place.chain, 1):
                start = late if loop.reverse else ahead - late
                made[i] = rows[start : start + n]
            if ahead:
                rows = rows[:n] if loop.reverse else rows[ahead:]
            made[place.output] = rows
        kept = [stacked(rows) for rows in marks]
        return self._result(carries, made, done, kept)

    def start(self, held: list[Any]) -> list[Any]:
        """The list for what is summed later, made ready at the first piece."""
        if not held:
            held += [0, *[None] * self.held]
        return held

    def _result(
        self,
        carries: Sequence[Any],
        made: dict[int, Any],
        done: int,
        marks: Sequence[Any],
    ) -> tuple[Any, ...]:
        loop, outputs = self.loop, self.loop.body.outputs
        for i in self.hidden:
            spec = types.spec_of(outputs[i])
            shape = [m if isinstance(m, int) else 0 for m in spec.shape]
            made[i] = absent((done, *shape), spec.dtype)
        ys = [made[i] for i in range(loop.carries, len(outputs) - loop.until)]
        counted = (np.int64(done),) if loop.until else ()
        if len(marks) < len(loop.marks):
            rows = -(-done // (loop.every or 1))
            specs = [loop.leaf(i).spec for i in loop.marks]
            shapes = [[m if isinstance(m, int) else 0 for m in s.shape] for s in specs]
            marks = [
                absent((rows, *shape), s.dtype)
                for s, shape in zip(specs, shapes, strict=True)
            ]
        return (*carries, *ys, *marks, *counted)

    def _empty(
        self, consts: Sequence[Any], seqs: Sequence[Any], inits: Sequence[Any]
    ) -> tuple[Any, ...]:
        """The outputs of no step at all."""
        loop = self.loop
        made = {}
        for place in self.places:
            for i in (place.output, *(i for i, _ in place.chain)):
                spec = types.spec_of(loop.body.outputs[i])
                shape = spec.shape
                if not all(isinstance(m, int) for m in shape):
                    shape = self._measured(i, consts, seqs, inits)
                like = next(iter((*inits, *seqs, *consts)), np.float64(0))
                made[i] = np.empty_like(like, shape=(0, *shape), dtype=spec.dtype)
        marks = [inits[i] for i in loop.marks]
        marks = [np.empty_like(x, shape=(0, *np.shape(x))) for x in marks]
        return self._result(inits, made, 0, marks)

    def _measured(
        self,
        output: int,
        consts: Sequence[Any],
        seqs: Sequence[Any],
        inits: Sequence[Any],
    ) -> tuple[int, ...]:
        """The shape of an output that only a step can tell: one step on zeros."""
        body = self.loop.body
        entries = [np.zeros_like(x, shape=x.shape[1:]) for x in seqs]
        with np.errstate(all="ignore"):
            function = Function(Graph(body.leaves, [body.outputs[output]]))
            (y,) = function(*consts, *entries, *inits)
        return np.shape(y)

    def _told(self, error: Exception, trace: TracebackType | None) -> Exception:
        """NumPy's refusal in a step, with the op and the user's line."""
        line = None
        while trace is not None:
            if trace.tb_frame.f_code.co_filename == FILE:
                line = trace.tb_lineno
            trace = trace.tb_next
        if line is None or line > len(self.nodes):
            return error
        node = self.nodes[line - 1]
        if node is None or not isinstance(error, (ValueError, TypeError)):
            return error
        place = node.context
        if place is None or place.code is None:
            place = Context(None, node.code, node.lasti)
        specs = tuple(x if not isinstance(x, Tensor) else x.spec for x in node.inputs)
        return blame.refusal(node.op, specs, error, place.code, place.lasti)

    def _stepwise(self) -> Callable[..., Any]:
        """The loop around a compiled step, for steps that are very long."""
        loop, body = self.loop, self.loop.body
        step = Function(body.graph)
        places, until = self.places, loop.until
        marks, every = self.marks, loop.every or 1

        def run(
            n: int,
            consts: Sequence[Any],
            seqs: Sequence[Any],
            inits: Sequence[Any],
            held: Any,
            final: bool,
        ) -> tuple[Sequence[Any], list[Any], int, list[Any]]:
            carries = list(inits)
            buffers: list[Any] = [[] if until else None for _ in places]
            kept: list[Any] = [[] for _ in marks]
            first = n - 1 if loop.reverse else 0
            done = 0
            for t in range(n - 1, -1, -1) if loop.reverse else range(n):
                if marks and t % every == 0:
                    for rows, i in zip(kept, marks, strict=True):
                        rows.append(carries[i])
                made = step(*consts, *[x[t] for x in seqs], *carries)
                for at, place in enumerate(places):
                    y = made[place.output]
                    if until:
                        buffers[at].append(y)
                        continue
                    if t == first:
                        buffers[at] = rows_for(n + place.ahead, y)
                        for late, (_, carry) in enumerate(place.chain, 1):
                            row = n + late - 1 if loop.reverse else place.ahead - late
                            buffers[at][row] = inits[carry]
                    buffers[at][t + (0 if loop.reverse else place.ahead)] = y
                if done == 0:
                    for i, (old, new) in enumerate(
                        zip(carries, made[: loop.carries], strict=True)
                    ):
                        kept_by(loop, i)(old, new)
                carries = made[: loop.carries]
                done += 1
                if until and made[-1]:
                    break
            return carries, buffers, done, kept

        return run


def bare(x: Any) -> Any:
    """A number for an array of one."""
    return x[()] if type(x) is np.ndarray and x.ndim == 0 else x


def stacked(values: list[Any]) -> Any:
    """A list of equal arrays or numbers as one array."""
    if np.ndim(values[0]):
        return np.stack(values)
    return np.asarray(values, like=values[0]) if hasattr(
        values[0], "__cuda_array_interface__"
    ) else np.asarray(values)  # fmt: skip
