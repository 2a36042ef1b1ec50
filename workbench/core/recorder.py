"""`Recorder` and `capture`: a function becomes a Graph with all of its reads.

A function of arrays may read Tensors of open traces through its closure. It is
recorded once, these are found, and each becomes a leaf of the graph: a capture. What
comes out runs on arrays (and is plain) or on Tensors (and records), in time linear in
its size, so ops can be built on functions: `checkpoint`, implicit differentiation,
loops.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from workbench.core import blame, traces, tree, types, walk
from workbench.core.graph import Graph
from workbench.core.memory import resolve
from workbench.core.op import declare
from workbench.core.tensor import (
    Tensor,
    admit,
    apply,
    make_leaf,
    next_serial,
    take_name,
    value_of,
)
from workbench.core.trace import ArgumentNames, is_live, record
from workbench.core.types import Spec
from workbench.errors import TraceError

ITEM = declare("item")


def is_array(x: object) -> bool:
    """Return whether an argument is data: arrays, Tensors, floats; no flags."""
    return isinstance(x, (Tensor, Spec, float, complex)) or (
        hasattr(x, "dtype") and hasattr(x, "shape")
    )


def capture(f: Callable[..., Any], *examples: Any) -> tuple[Graph, list[Tensor]]:
    """Record a function of nests, and find all live Tensors that the function reads.

    Parameters
    ----------
    f
        A function of arrays or nests; its result may be a nest too.
    examples
        Its arguments. Arrays, Tensors and floats become inputs of the graph;
        everything else (integers, strings, None) is fixed as it is.

    Returns
    -------
    A graph without values, and for each of its captures the Tensor that it stands for.

    Raises
    ------
    TraceError
        If ``f`` asks for a value.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> def f(theta):
    ...     graph, captured = capture(lambda x: np.sin(theta) * x, np.zeros(3))
    ...     assert captured[0] is theta
    ...     return np.sum(graph.run([theta, np.ones(3)])[0])
    >>> float(wb.grad(f)(0.0))
    3.0
    """
    made = Recorder(f, *examples)
    return made.graph, made.captured


def take_argument(x: Any) -> Any:
    """Return the node of an array that was written to, or of an array of Tensors."""
    if type(x) is np.ndarray and x.dtype == object:
        return admit(x)
    return resolve(x)


class Recorder:
    """A function that gives a Graph: once, or for the values of each run.

    Parameters
    ----------
    f, examples
        As for `capture`.
    values
        Record on the values of the examples, so that Python's ``if`` may look at
        them: the graph is then right for these values alone.
    dynamic
        Where the function cannot be recorded without values, record it anew, on
        the values at hand, whenever it runs.
    code
        What of the user's it runs, where that says more quickly what code it reaches.

    Attributes
    ----------
    graph
        The program of what was captured and of the arguments, without values.
    captured
        The live Tensors that the function read besides its arguments.
    arguments
        The arguments that are arrays, flat, in order, as they were given.
    values
        The outputs' values, where the arguments had some.
    """

    def __init__(
        self,
        f: Callable[..., Any],
        *examples: Any,
        values: bool = False,
        dynamic: bool = False,
        code: Any = None,
    ) -> None:
        self.function = f
        self._dynamic = dynamic
        self._code = code
        flat, self._structure = tree.flatten(examples)
        self._flat = [*map(take_argument, flat)]
        self._chosen = [i for i, x in enumerate(self._flat) if is_array(x)]
        places, trees = range(len(examples)), self._structure.children
        self._names = ArgumentNames(f, places, trees, self._chosen)
        self.arguments = [self._flat[i] for i in self._chosen]
        #: The first run, where each run records anew.
        self._first: _Copy | None = None
        specs = [x if isinstance(x, Spec) else types.spec_of(x) for x in self.arguments]
        if not values:
            try:
                self._keep(self._record(specs))
                return
            except TraceError:
                if not dynamic or any(isinstance(x, Spec) for x in self.arguments):
                    raise
        copied = self._record(self.arguments)
        self._keep(copied)
        self._first = copied if not values else None

    def _keep(self, copied: _Copy) -> None:
        self.graph, self.captured = copied.graph, [*copied.captured.values()]
        self.values = copied.values
        #: Shape and dtype of each output.
        self.specs = [types.spec_of(y) for y in self.graph.outputs]

    @property
    def inputs(self) -> tuple[Any, ...]:
        """The operands of an op on this program: captures, then arguments."""
        return (*self.captured, *self.arguments)

    @property
    def is_fixed(self) -> bool:
        """True if each run is one of the graph, and none is recorded anew."""
        return self._first is None

    def run(self, values: Sequence[Any]) -> list[Any]:
        """Return the outputs, flat, for values of the captures, then the arguments."""
        if self._first is None:
            return self.graph.run(values)
        count = len(self.captured)
        known = dict(zip(self.captured, values, strict=False))
        anew = self._record(values[count:])
        captured = [known[x] for x in anew.captured.values()]
        return anew.graph.run([*captured, *values[count:]])

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the graph alone, which is all that runs."""
        if self._first is not None:
            raise TypeError(
                f"{self.function!r} cannot be pickled as a part of a program: it looks"
                " at values, and is recorded anew in each run. Use np.where or wb.cond"
                " in it."
            )
        kept = {"graph": self.graph, "specs": self.specs, "_first": None}
        return {**kept, "captured": [], "arguments": [], "values": None}

    def _call(self, leaves: Sequence[Any]) -> Any:
        filled = list(self._flat)
        for i, x in zip(self._chosen, leaves, strict=True):
            filled[i] = x
        return self.function(*self._structure(filled))

    def _record(self, args: Sequence[Any]) -> _Copy:
        first = next_serial()
        recorded = record(
            self._call, args, self._names, function=self._code, anew=self._dynamic
        )
        return _Copy(first, recorded, self._first)

    def __repr__(self) -> str:
        count = len(self.graph.leaves)
        return f"<a function of {count} array{'s' * (count != 1)}>"


class _Copy:
    """A recorded graph made anew without values, on leaves of its own."""

    def __init__(self, first: int, recorded: Graph, first_copy: _Copy | None) -> None:
        #: The copy of the first run. The traces that were open then may be closed
        #: now, so it alone tells what is captured and what is a constant.
        self.first_copy = first_copy
        self.constants: set[int] = set()
        self.captured: dict[int, Tensor] = {}
        #: Outputs of nodes from outside, by the node's serial and their number.
        self.parts: dict[tuple[int, int], Tensor] = (
            {} if first_copy is None else first_copy.parts
        )
        inputs = [_make_leaf(x) for x in recorded.inputs]
        self.copies: dict[int, Any] = {
            x.serial: y for x, y in zip(recorded.inputs, inputs, strict=True)
        }
        roots = [x for x in recorded.outputs if isinstance(x, Tensor)]
        for node in walk.order_nodes(roots, first):
            if node.serial not in self.copies:
                self.copies[node.serial] = self.node(node)
        outputs = list(map(self.operand, recorded.outputs))
        captures = [self.copies[serial] for serial in self.captured]
        self.graph = Graph(inputs, outputs, captures, tree=recorded.tree)
        self.values = [value_of(y) for y in recorded.outputs]

    def node(self, node: Tensor) -> Any:
        """Return the copy of one node, or its value if no input reaches the node."""
        source = node.inputs[0] if node.op is ITEM else None
        if isinstance(source, Tensor) and source.serial not in self.copies:
            return self.operand(self.part(source, node))
        inputs = tuple(map(self.operand, node.inputs))
        if not inputs and node._value is None:
            return self.operand(node)  # a symbol or a shared value made inside
        if not any(isinstance(x, Tensor) for x in inputs):
            return value_of(node)
        args = tuple(map(value_of, inputs))
        copy = walk.copy_node(node, inputs, args, None)
        if node.origin is not None:
            forward = self.copies.get(node.origin.forward.serial)
            if isinstance(forward, Tensor):
                copy.origin = node.origin._replace(forward=forward)
        return copy

    def part(self, node: Tensor, item: Tensor) -> Tensor:
        """Return an output of a node from outside: arrays are captured, no tuples."""
        key = node.serial, item.params["index"]
        if key not in self.parts:
            self.parts[key] = apply(ITEM, (node,), item.params)
        return self.parts[key]

    def operand(self, x: object) -> Any:
        """Return the copy of a Tensor: for a live one from outside a placeholder.

        Others from outside are constants.
        """
        if not isinstance(x, Tensor):
            if type(x) is np.ndarray:
                traces.lock(x)  # the trace around this one reads it too
            return x
        if x.serial in self.copies:
            return self.copies[x.serial]
        if not self.captures(x):
            self.constants.add(x.serial)
            return x._value
        self.captured[x.serial] = x
        self.copies[x.serial] = made = _make_leaf(x)
        return made

    def captures(self, x: Tensor) -> bool:
        """Return whether a Tensor from outside is an input, and no constant."""
        first_copy = self.first_copy
        if first_copy is None:
            return is_live(x)
        if x.serial not in first_copy.captured and x.serial not in first_copy.constants:
            raise TraceError(
                f"{blame.describe(x)}{blame.quote_site(x.site)} is read by a function"
                " in one of its branches only, and the first run took another. Give it"
                " as an argument, or choose with np.where."
            )
        return x.serial in first_copy.captured


def _make_leaf(x: Tensor) -> Tensor:
    """Return a leaf without value that looks like a Tensor."""
    made = make_leaf(None)
    take_name(made, x)
    made.spec = types.spec_of(x)
    return made
