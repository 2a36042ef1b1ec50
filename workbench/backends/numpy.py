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
from workbench.backends.schedule import Schedule, Step, schedule
from workbench.backends.text import Form
from workbench.core import blame, dims
from workbench.core.deferred import Late
from workbench.core.dims import Dim, Length
from workbench.core.graph import Graph
from workbench.core.source import Context
from workbench.core.tensor import Tensor
from workbench.errors import ShapeError, UsageError

# What was inferred of unknown lengths, checked while a program runs.
#
# NumPy itself checks most: operands that do not fit, shapes that hold too few entries.
# What it cannot know is which lengths a symbol was declared with, and what was found
# out about an op by asking it at a few lengths. Both are compared once per node; a
# program without unknown lengths has no checks.

#: What is known of lengths in one run, by the key of an atom.
Known = dict[Any, int]
#: A place in a shape, and its length: what it must be, or what it tells.
Look = tuple[int | None, int, Any]


class Checks:
    """Which shapes tell or are compared, when."""

    def __init__(
        self, inputs: list[tuple[int, Tensor, list[Look]]],
        steps: dict[int, tuple[Tensor, list[Look]]],
    ) -> None:  # fmt: skip
        self.inputs = inputs
        self.steps = steps

    def start(self, arrays: Sequence[Any]) -> Known:
        """The lengths that the inputs tell.

        Raises
        ------
        ShapeError
            If they contradict what was declared.
        """
        known: Known = {}
        for i, x, looks in self.inputs:
            _look(x, arrays[i], looks, known)
        return known

    def after(self, step: int, value: Any, known: Known) -> None:
        """Look at what a step has made."""
        found = self.steps.get(step)
        if found is not None:
            _look(found[0], value, found[1], known)


def checks(graph: Graph, nodes: Sequence[Tensor]) -> Checks | None:
    """The checks of a program; None if it has no unknown lengths."""
    if not (any(map(_unknown, graph.inputs)) or any(map(_unknown, nodes))):
        return None
    told: set[Any] = set()
    inputs = []
    for i, x in enumerate(graph.inputs):
        looks = _looks(x, told, trusted=False)
        if looks:
            inputs.append((i, x, looks))
    steps = {}
    needed = _needed(nodes)
    for i, node in enumerate(nodes):
        op = node.op.base if isinstance(node.op, Late) else node.op
        trusted = op.elementwise or (op.lengths is not None and not op.custom)
        looks = _looks(node, told, trusted=trusted)
        # What nobody compares with need not be measured.
        looks = [x for x in looks if not _tells(x) or _key(x) in needed]
        if looks:
            steps[i] = node, looks
    return Checks(inputs, steps) if inputs or steps else None


def _unknown(node: Tensor) -> bool:
    if node._value is not None:
        return False
    spec: Any = node.spec
    specs = spec if type(spec) is tuple else (spec,)
    return any(dims.found(x.shape) for x in specs)


def _tells(look: Look) -> bool:
    return isinstance(look[2], tuple)


def _key(look: Look) -> Any:
    return look[2]


def _needed(nodes: Sequence[Tensor]) -> set[Any]:
    """The lengths of nodes that shapes of other nodes name."""
    found: set[Any] = set()
    for node in nodes:
        for spec in _specs(node):
            for n in spec.shape:
                if isinstance(n, Dim):
                    alone = n.alone
                    own = isinstance(alone, Length) and alone.tensor is node
                    if not own:
                        found.update(a.key for p in n.terms for a in p)
    return found


def _specs(node: Tensor) -> tuple[Any, ...]:
    spec: Any = node.spec if node._value is None else ()
    return spec if isinstance(spec, tuple) else (spec,)


def _looks(node: Tensor, told: set[Any], *, trusted: bool) -> list[Look]:
    """What to look at in the shape of a node, which tells some lengths."""
    specs = _specs(node)
    many = node._value is None and isinstance(node.spec, tuple)
    found: list[Look] = []
    unknown = any(isinstance(n, Dim) for spec in specs for n in spec.shape)
    for part, spec in enumerate(specs) if unknown else ():
        for axis, n in enumerate(spec.shape):
            place = part if many else None
            if not isinstance(n, Dim):
                if not trusted:
                    found.append((place, axis, n))
                continue
            alone = n.alone
            if alone is not None and alone.key not in told:
                told.add(alone.key)
                found.append((place, axis, alone.key))
            elif not trusted and all(a.key in told for p in n.terms for a in p):
                found.append((place, axis, n))
    return found


def _look(node: Tensor, value: Any, looks: list[Look], known: Known) -> None:
    for part, axis, n in looks:
        held = value if part is None else value[part]
        shape = getattr(held, "shape", ())
        whole: Any = node.spec
        spec = whole if part is None else whole[part]
        if len(shape) != len(spec.shape):
            raise _mismatch(node, spec, shape, known)
        have = shape[axis]
        if type(n) is tuple:
            known[n] = have
        elif have != (n.replaced(lambda a: known.get(a.key)) if type(n) is Dim else n):
            raise _mismatch(node, spec, shape, known)


def _mismatch(node: Tensor, spec: Any, shape: Any, known: Known) -> ShapeError:
    atoms = {
        a.key: f"{a} = {known[a.key]}"
        for n in spec.shape
        if isinstance(n, Dim)
        for product in n.terms
        for a in product
        if a.key in known
    }
    where = f" ({', '.join(atoms.values())})" if atoms else ""
    cure = "Give arrays of the lengths that the symbols were declared with."
    if node.op.custom:
        cure = (
            "If its lengths depend on values, write infer(self, *specs) that returns"
            " wb.Spec with None in their place."
        )
    return ShapeError(
        f"{blame.describe(node)}{blame.at(node.site)} came out with shape"
        f" {tuple(shape)}, and was to have {spec}{where}. {cure}"
    )


def declared(node: Tensor) -> str:
    """What the operands of a node were declared as, where lengths were unknown."""
    shown = []
    for x in node.inputs:
        if (
            isinstance(x, Tensor)
            and x._value is None
            and _looks(x, set(), trusted=True)
        ):
            name = f"{x.name!r} " if x.name else ""
            shown.append(f"{name}{x.spec}")
    return f" The operands: {', '.join(shown)}." if shown else ""


# The function of a graph

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
