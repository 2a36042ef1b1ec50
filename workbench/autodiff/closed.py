"""Closure conversion: a function becomes a program of all that it reads.

A function of arrays may read Tensors of open traces through its closure. `close`
records it once, finds these, and makes each an input of its own. What comes out
runs on arrays (and is plain) or on Tensors (and records), in time linear in its
size, so ops can be built on functions: `checkpoint`, implicit differentiation,
differential equations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from workbench.autodiff.program import Program
from workbench.core import blame, traces, tree, types, walk
from workbench.core.tensor import Tensor, apply, leaf, next_serial, value_of
from workbench.core.trace import argument_names, live, record
from workbench.core.types import Spec
from workbench.errors import TraceError
from workbench.ops.several import ITEM

__all__ = ["Closed", "close", "is_array"]


class Closed:
    """A function as a program of its arguments and of what it captured.

    Attributes
    ----------
    captured
        The live Tensors that the function read besides its arguments.
    leaves
        The arguments that are arrays, flat, in order, as they were given.
    specs
        Shape and dtype of each output.
    tree
        How the outputs nest.
    values
        The outputs' values, where the arguments had some.
    """

    def __init__(
        self,
        program: Program,
        captured: list[Tensor],
        leaves: list[Any],
        structure: tree.Tree,
        values: list[Any],
    ) -> None:
        self.program = program
        self.captured = captured
        self.leaves = leaves
        self.tree = structure
        self.values = values
        self.specs = [types.spec_of(x) for x in program.outputs]
        #: Records the function anew on the values of each run, if it must.
        self.again: Callable[[Sequence[Any]], Closed] | None = None

    def __repr__(self) -> str:
        count = len(self.program.leaves)
        return f"<a function of {count} array{'s' * (count != 1)}>"

    @property
    def inputs(self) -> tuple[Any, ...]:
        """What an op built on it takes: what was captured, then the arguments."""
        return (*self.captured, *self.leaves)

    def only(self, places: Sequence[int]) -> Closed:
        """The same program for some of its outputs, which nest no more."""
        outputs = [self.program.outputs[i] for i in places]
        program = Program(outputs, self.program.leaves)
        flat = tree.flatten(outputs)[1]
        return Closed(program, self.captured, self.leaves, flat, [])

    def run(self, captured: Sequence[Any], leaves: Sequence[Any]) -> list[Any]:
        """The outputs, flat, for values of what was captured and of the arguments."""
        if self.again is None:
            return self.program([*captured, *leaves])
        anew = self.again(leaves)
        known = dict(zip(self.captured, captured, strict=True))
        return anew.program([*[known[x] for x in anew.captured], *leaves])

    def flat(self, values: Sequence[Any]) -> list[Any]:
        """`run` on one sequence: what was captured, then the arguments."""
        count = len(self.captured)
        return self.run(values[:count], values[count:])


def is_array(x: Any) -> bool:
    """Whether an argument is data: arrays, Tensors, floats; no flags or counts."""
    return isinstance(x, (Tensor, Spec, float, complex)) or (
        hasattr(x, "dtype") and hasattr(x, "shape")
    )


def close(
    f: Callable[..., Any],
    *examples: Any,
    values: bool = False,
    dynamic: bool = False,
) -> Closed:
    """Record a function of nests, and find all live Tensors that it reads.

    Parameters
    ----------
    f
        A function of arrays or nests; its result may be a nest too.
    examples
        Its arguments. Arrays, Tensors and floats become leaves of the program;
        everything else (integers, strings, None) is fixed as it is.
    values
        Record on the values of the examples, so that Python's ``if`` may look at
        them: the program is then right for these values alone.
    dynamic
        Where the function cannot be recorded without values, record it anew, on
        the values at hand, whenever it runs.

    Raises
    ------
    TraceError
        If ``f`` asks for a value, and there is none.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> def f(theta):
    ...     closed = close(lambda x: np.sin(theta) * x, np.zeros(3))
    ...     assert closed.captured[0] is theta
    ...     return np.sum(closed.run([theta], [np.ones(3)])[0])
    >>> float(wb.grad(f)(0.0))
    3.0
    """
    flat, structure = tree.flatten(examples)
    chosen = [i for i, x in enumerate(flat) if is_array(x)]
    names = argument_names(f, examples, {})
    labels = [names[i] for i in chosen]

    def call(inner: Sequence[Any]) -> Any:
        filled = list(flat)
        for i, x in zip(chosen, inner, strict=True):
            filled[i] = x
        return f(*structure(filled))

    def closed_on(
        given: Sequence[Any], leaves: Sequence[Any], known: _Copy | None = None
    ) -> Closed:
        first = next_serial()
        recording = record(call, given, labels)
        copied = _Copy(first, recording.leaves, known)
        copies.append(copied)
        outputs = copied.of(recording.outputs)
        captured = list(copied.captured.values())
        starts = [copied.placeholder[x.serial] for x in captured]
        starts += [copied.placeholder[x.serial] for x in recording.leaves]
        found = [value_of(x) for x in recording.outputs]
        return Closed(
            Program(outputs, starts), captured, list(leaves), recording.tree, found
        )

    copies: list[_Copy] = []
    leaves = [flat[i] for i in chosen]
    specs = [x if isinstance(x, Spec) else types.spec_of(x) for x in leaves]
    if values:
        return closed_on(leaves, leaves)
    try:
        return closed_on(specs, leaves)
    except TraceError:
        if not dynamic or any(isinstance(x, Spec) for x in leaves):
            raise
    made = closed_on(leaves, leaves)
    first_run = copies[-1]
    made.again = lambda given: closed_on(given, given, first_run)
    return made


class _Copy:
    """A recorded graph made anew without values, on leaves of its own."""

    def __init__(
        self, first: int, leaves: Sequence[Tensor], known: _Copy | None
    ) -> None:
        self.first = first
        #: The copy of the first run. The traces that were open then may be closed
        #: now, so it alone tells what is captured and what is a constant.
        self.known = known
        self.constants: set[int] = set()
        self.captured: dict[int, Tensor] = {}
        #: Outputs of nodes from outside, by the node's serial and their number.
        self.parts: dict[tuple[int, int], Tensor] = {} if known is None else known.parts
        self.placeholder: dict[int, Tensor] = {x.serial: _blank(x) for x in leaves}
        self.made: dict[int, Any] = dict(self.placeholder)

    def of(self, outputs: Sequence[Any]) -> list[Any]:
        """The copies of outputs, and of all that they need."""
        roots = [x for x in outputs if isinstance(x, Tensor)]
        for node in walk.order(roots, self.first):
            if node.serial not in self.made:
                self.made[node.serial] = self.node(node)
        return [
            self.made[x.serial]
            if isinstance(x, Tensor) and x.serial in self.made
            else self.outer(x)
            for x in outputs
        ]

    def node(self, node: Tensor) -> Any:
        """The copy of one node, or its value if it depends on no input."""
        whole = node.inputs[0] if node.op is ITEM else None
        if isinstance(whole, Tensor) and whole.serial not in self.made:
            return self.outer(self.part(whole, node))
        inputs = tuple(
            [
                self.made[x.serial]
                if isinstance(x, Tensor) and x.serial in self.made
                else self.outer(x)
                for x in node.inputs
            ]
        )
        if not inputs and node._value is None:
            return self.outer(node)  # a symbol or a shared value made inside
        if not any(isinstance(x, Tensor) for x in inputs):
            return value_of(node)
        args = tuple(map(value_of, inputs))
        made = type(node)(
            node.op, inputs, args, node.params, None, node.code, node.lasti,
            node.context,
        )  # fmt: skip
        made.spec = types.spec_of(node)
        if node.name is not None:
            made.name = node.name
        if node.origin is not None:
            forward = self.made.get(node.origin.forward.serial)
            made.origin = (
                node.origin._replace(forward=forward)
                if isinstance(forward, Tensor)
                else node.origin
            )
        return made

    def part(self, whole: Tensor, item: Tensor) -> Tensor:
        """Return an output of a node from outside: arrays are captured, no tuples."""
        key = whole.serial, item.params["index"]
        if key not in self.parts:
            self.parts[key] = apply(ITEM, (whole,), item.params)
        return self.parts[key]

    def outer(self, x: Any) -> Any:
        """A placeholder for a live Tensor from outside; others are constants."""
        if not isinstance(x, Tensor):
            if type(x) is np.ndarray:
                traces.lock(x)  # the trace around this one reads it too
            return x
        if not self.captures(x):
            self.constants.add(x.serial)
            return x._value
        if x.serial not in self.placeholder:
            self.captured[x.serial] = x
            self.placeholder[x.serial] = self.made[x.serial] = _blank(x)
        return self.placeholder[x.serial]

    def captures(self, x: Tensor) -> bool:
        """Whether a Tensor from outside is an input, and no constant."""
        known = self.known
        if known is None:
            return live(x)
        if x.serial not in known.captured and x.serial not in known.constants:
            raise TraceError(
                f"{blame.describe(x)}{blame.at(x.site)} is read by a function in one"
                " of its branches only, and the first run took another. Give it as an"
                " argument, or choose with np.where."
            )
        return x.serial in known.captured


def _blank(x: Tensor) -> Tensor:
    """A leaf without value that looks like a Tensor."""
    made = leaf(None, x.name)
    made.spec = types.spec_of(x)
    return made
