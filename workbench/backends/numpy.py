"""The backend that is the definition: a graph runs op by op, as NumPy.

Nothing is compiled, so a `Function` answers at once, however large its graph.
`Function.source` is the same program as readable text (see `text.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from operator import itemgetter
from typing import Any

import numpy as np

from workbench.autodiff.program import inlined
from workbench.backends import text
from workbench.backends.checking import Checks, Known, checks, declared
from workbench.backends.module import Form
from workbench.backends.schedule import Schedule, Step, schedule
from workbench.core import blame
from workbench.core.graph import Graph
from workbench.core.source import Context
from workbench.errors import ShapeError, UsageError

__all__ = ["Function", "compile"]

#: compute, how to take several operands (None: one), the one operand, the
#: result's slot, the slots to forget.
_Instruction = tuple[
    Callable[..., Any],
    Callable[[list[Any]], tuple[Any, ...]] | None,
    int,
    int,
    tuple[int, ...],
]


class Function:
    """A graph that runs: ``function(*arrays) -> [outputs]``.

    It takes one array per input of the graph, in order, and returns one per
    output. Compute follows data: CuPy arrays in, CuPy arrays out.

    Attributes
    ----------
    graph
        What it computes.
    schedule
        In which order, and in which slots.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> graph = wb.trace(lambda x, y: np.sin(x) * y)(np.zeros(2), 3.0)
    >>> function = compile(graph)
    >>> function(np.array([0.0, np.pi / 2]), 2.0)
    [array([0., 2.])]
    >>> print(function.source)
    import numpy as np
    <BLANKLINE>
    <BLANKLINE>
    def function(x, y):
        return np.sin(x) * y
    """

    def __init__(self, graph: Graph, own: bool = False) -> None:
        self.schedule: Schedule = schedule(graph)
        if any(step.node.op.inline for step in self.schedule.steps):
            graph = inlined(graph)
            self.schedule = schedule(graph)
        self.graph = graph
        self._template: list[Any] = [None] * self.schedule.size
        for slot, value in self.schedule.constants.items():
            if own and isinstance(value, np.ndarray) and value.flags.writeable:
                value = value.copy()
                value.flags.writeable = False
            self._template[slot] = value
        self._program = [_instruction(step) for step in self.schedule.steps]
        self._checks = checks(graph, [step.node for step in self.schedule.steps])

    def __call__(self, *arrays: Any) -> list[Any]:
        """The outputs for these inputs."""
        return self.run(arrays)

    def run(self, arrays: Sequence[Any]) -> list[Any]:
        """As a call."""
        inputs = self.schedule.inputs
        if len(arrays) != len(inputs):
            names = ", ".join(self.graph.label(x) for x in self.graph.inputs)
            raise UsageError(
                f"the function takes {len(inputs)} arrays ({names}), not {len(arrays)}."
            )
        values = self._template.copy()
        for slot, array in zip(inputs, arrays, strict=True):
            if slot >= 0:
                values[slot] = array
        if self._checks is not None:
            return self._checked(values, self._checks, self._checks.start(arrays))
        del arrays
        done = 0
        try:
            for compute, take, only, out, forgets in self._program:
                values[out] = (
                    compute(values[only]) if take is None else compute(*take(values))
                )
                done += 1
                for slot in forgets:
                    values[slot] = None
        except (ValueError, TypeError, IndexError) as error:
            step = self.schedule.steps[done]
            raise _refusal(
                step, [values[slot] for slot in step.reads], error
            ) from error
        return [values[slot] for slot in self.schedule.outputs]

    def _checked(self, values: list[Any], checks: Checks, known: Known) -> list[Any]:
        """The outputs, where lengths are looked at on the way."""
        done = 0
        try:
            for compute, take, only, out, forgets in self._program:
                values[out] = made = (
                    compute(values[only]) if take is None else compute(*take(values))
                )
                checks.after(done, made, known)
                done += 1
                for slot in forgets:
                    values[slot] = None
        except (ValueError, TypeError, IndexError) as error:
            step = self.schedule.steps[done]
            told = _refusal(step, [values[slot] for slot in step.reads], error)
            if told is error:
                raise
            if isinstance(told, ShapeError):
                told.args = (f"{told}{declared(step.node)}",)
            raise told from error
        return [values[slot] for slot in self.schedule.outputs]

    @cached_property
    def _text(self) -> text.Text:
        return self.text()

    def text(self, form: Form | None = None) -> text.Text:
        """The program as NumPy code, in a form of the caller's."""
        steps = [step.node for step in self.schedule.steps]
        return text.write(self.graph, steps, form)

    @property
    def source(self) -> str:
        """The program as NumPy code; it runs with ``constants`` as its globals."""
        return self._text.source

    @property
    def constants(self) -> dict[str, Any]:
        """The arrays that the text of the program names but cannot spell out."""
        return self._text.constants


def _refusal(step: Step, operands: list[Any], error: Exception) -> Exception:
    """NumPy's refusal, with op, operands and the line that traced the op."""
    node = step.node
    place = node.context
    if place is None or place.code is None:
        place = Context(None, node.code, node.lasti)
    return blame.refusal(node.op, tuple(operands), error, place.code, place.lasti)


def _instruction(step: Step) -> _Instruction:
    op, params = step.node.op, step.node.params
    compute = partial(op.compute, **params) if params else op.compute
    reads = step.reads
    if len(reads) == 1:
        return compute, None, reads[0], step.writes, step.forgets
    take = itemgetter(*reads) if reads else _nothing
    return compute, take, -1, step.writes, step.forgets


def _nothing(values: list[Any]) -> tuple[Any, ...]:
    return ()


def compile(graph: Graph, own: bool = False) -> Function:
    """The graph as a function; at once, in time linear in its size.

    With ``own`` it has a copy of each constant, which others may then write into.
    """
    return Function(graph, own)
