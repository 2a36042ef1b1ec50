"""The backend that is the definition: a graph runs op by op, as NumPy.

Nothing is compiled, so a `NumpyFunction` answers at once, however large its graph.
`NumpyFunction.source` is the same program as readable text (see `text.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

from workbench.backends import text
from workbench.backends.text import Form
from workbench.core import blame, dims
from workbench.core.deferred import operand_shape
from workbench.core.dims import Dim, Length
from workbench.core.graph import Graph, inline
from workbench.core.schedule import Observer, Schedule, compute_node
from workbench.core.tensor import Tensor
from workbench.errors import ShapeError, UsageError

# What was said of unknown lengths, checked while a program runs.
#
# NumPy itself checks most: operands that do not fit, shapes that hold too few entries.
# What it cannot know is which lengths a symbol was declared with, and how many axes the
# result of an op has that was asked at a few lengths. A program without unknown lengths
# has no checks.


class Checks(NamedTuple):
    """Which inputs and results are compared with what they were to be."""

    #: The place of an input, the input, and for each axis the key of the length that it
    #: tells, or what it must be.
    inputs: list[tuple[int, Tensor, list[Any]]]
    #: The specs of results with lengths that only the run tells, by the node.
    asked: dict[int, tuple[Any, ...]]

    def start(self, arrays: Sequence[Any]) -> None:
        """Compare the arrays with the declared lengths of the inputs.

        Raises
        ------
        ShapeError
            If they contradict each other.
        """
        lengths: dict[Any, int] = {}
        for i, x, axes in self.inputs:
            shape = operand_shape(arrays[i])
            if len(shape) != len(axes):
                raise _mismatch_error(x, x.spec, shape, lengths)
            for n, have in zip(axes, shape, strict=True):
                if type(n) is tuple:
                    n = lengths.setdefault(n, have)
                elif type(n) is Dim:
                    n = n.replace(lambda a: lengths.get(a.key))
                if type(n) is int and n != have:
                    raise _mismatch_error(x, x.spec, shape, lengths)

    def observe(self, observer: Observer | None) -> Observer:
        """Return an observer of a run that counts the axes of results."""
        run = observer or compute_node

        def look(node: Tensor, operands: tuple[Any, ...]) -> Any:
            made = run(node, operands)
            specs = self.asked.get(node.serial, ())
            parts = made if isinstance(made, tuple) else (made,)
            for spec, part in zip(specs, parts, strict=False):
                shape = getattr(part, "shape", ())
                if len(shape) != len(spec.shape):
                    raise _mismatch_error(node, spec, shape, {})
            return made

        return look


def find_checks(graph: Graph, nodes: Sequence[Tensor]) -> Checks | None:
    """Return the checks of a program; None if all lengths are known."""
    inputs = [
        (i, x, [_key_of_length(n) for n in x.spec.shape])
        for i, x in enumerate(graph.leaves)
        if any(dims.has_dim(spec.shape) for spec in _specs(x))
    ]
    asked = {x.serial: _specs(x) for x in nodes if _has_own_length(x)}
    return Checks(inputs, asked) if inputs or asked else None


def _specs(node: Tensor) -> tuple[Any, ...]:
    """Return the specs of a node's outputs; none if the node has a value."""
    spec: Any = node.spec if node._value is None else ()
    return spec if isinstance(spec, tuple) else (spec,)


def _key_of_length(n: int | Dim) -> Any:
    """Return the key of a length that is that of a Tensor, else the length."""
    return n.atom.key if isinstance(n, Dim) and isinstance(n.atom, Length) else n


def _has_own_length(node: Tensor) -> bool:
    """Return whether a length of a result is one that only its op tells."""
    lengths = [n for spec in _specs(node) for n in spec.shape if isinstance(n, Dim)]
    return any(isinstance(n.atom, Length) and n.atom.tensor is node for n in lengths)


def _mismatch_error(
    node: Tensor, spec: Any, shape: tuple[int, ...], lengths: dict[Any, int]
) -> ShapeError:
    atoms = {
        a.key: f"{a} = {lengths[a.key]}"
        for a in dims.atoms_of(spec.shape)
        if a.key in lengths
    }
    where = f" ({', '.join(atoms.values())})" if atoms else ""
    cure = "Give arrays of the lengths that the symbols were declared with."
    return ShapeError(
        f"{blame.describe(node)}{blame.quote_site(node.site)} came out with shape"
        f" {tuple(shape)}, and was to have {spec}{where}. {cure}"
    )


def describe_operands(node: Tensor) -> str:
    """Return the declared specs of operands with unknown lengths, as text."""
    shown = []
    for x in node.inputs:
        if isinstance(x, Tensor) and any(dims.has_dim(s.shape) for s in _specs(x)):
            name = f"{x.name!r} " if x.name else ""
            shown.append(f"{name}{x.spec}")
    return f" The operands: {', '.join(shown)}." if shown else ""


# The function of a graph


class NumpyFunction:
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
        self.schedule = Schedule(graph.leaves, graph.outputs, whole=True, own=own)
        if any(step.node.op.inline for step in self.schedule.steps):
            graph = inline(graph)
            self.schedule = Schedule(graph.leaves, graph.outputs, whole=True, own=own)
        self.graph = graph
        self._checks = find_checks(graph, [step.node for step in self.schedule.steps])

    #: What runs it: nothing is waited for.
    backend = "numpy"

    def __call__(self, *arrays: Any) -> list[Any]:
        """Return the outputs for these inputs."""
        return self.run(arrays)

    def is_ready(self) -> bool:
        """Return True: nothing is compiled."""
        return True

    def wait(self, timeout: float | None = None) -> bool:
        """Return True at once: nothing is compiled."""
        return True

    def release(self) -> None:
        """Do nothing: no memory is kept between calls."""

    def run_ready(self, arrays: Sequence[Any]) -> list[Any] | None:
        """Return None: NumPy's results may share memory with other arrays."""

    def run(self, arrays: Sequence[Any], observer: Observer | None = None) -> list[Any]:
        """Return the outputs for these inputs; an observer as for `Graph.run`."""
        if len(arrays) != len(self.schedule.inputs):
            names = ", ".join(self.graph.label(x) for x in self.graph.leaves)
            raise UsageError(
                f"the function takes {len(self.schedule.inputs)} arrays ({names}), not"
                f" {len(arrays)}."
            )
        if self._checks is None:
            return self.schedule.run(arrays, observer)
        self._checks.start(arrays)
        if self._checks.asked:
            observer = self._checks.observe(observer)
        try:
            return self.schedule.run(arrays, observer)
        except ShapeError as error:
            if error.node is not None:
                error.args = (f"{error}{describe_operands(error.node)}",)
            raise

    @cached_property
    def _text(self) -> text.Text:
        return self.text()

    def text(self, form: Form | None = None) -> text.Text:
        """Return the program as NumPy code, in a form of the caller's."""
        steps = [step.node for step in self.schedule.steps]
        return text.write_text(self.graph, steps, form)

    @property
    def source(self) -> str:
        """The program as NumPy code, to run with ``constants`` as its globals."""
        return self._text.source

    @property
    def constants(self) -> dict[str, Any]:
        """The arrays that the text of the program names but cannot spell out."""
        return self._text.constants


def compile(graph: Graph, own: bool = False) -> NumpyFunction:
    """Return the graph as a function; at once, in time linear in its size.

    With ``own`` it has a copy of each constant, which others may then write into.
    """
    return NumpyFunction(graph, own)
