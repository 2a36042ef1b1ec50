"""Recorded programs that run again: `Program`, and closure conversion.

`close` turns a function into a program of all that it reads from outside; `inline`
replaces nodes that ask for it by the ops they are made of. Ops that are built on
functions differentiate and batch such programs as flat functions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

import numpy as np

from workbench.autodiff import forward, reverse
from workbench.autodiff.batch import Batched
from workbench.core import blame, source, traces, tree, types, walk
from workbench.core.graph import Graph
from workbench.core.tensor import (
    MaskedTensor,
    Tensor,
    apply,
    leaf,
    next_serial,
    value_of,
)
from workbench.core.trace import argument_names, live, record
from workbench.core.types import Spec
from workbench.errors import TraceError
from workbench.ops.define import ITEM, masked, shape_of


class Program:
    """A graph that runs on values for its leaves.

    Plain arrays give plain arrays, and what no later step reads is let go at once;
    a Tensor among the values, or a live one among the constants, and the steps
    record, each on its user's line, in its scope, under its name.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> graph = wb.trace(lambda x: np.exp(-x) * 2)(wb.Spec((3,), float))
    >>> Program(graph.outputs, graph.inputs)([np.zeros(3)])
    [array([2., 2., 2.])]
    """

    def __init__(self, outputs: Sequence[Any], leaves: Sequence[Tensor]) -> None:
        self.outputs = list(outputs)
        self.leaves = list(leaves)
        slots = {x.serial: i for i, x in enumerate(self.leaves)}
        template: list[Any] = [None] * len(slots)

        def slot(x: Any) -> int:
            if isinstance(x, Tensor):
                if x.serial in slots:
                    return slots[x.serial]
                if not live(x):
                    x = value_of(x)
            template.append(x)
            return len(template) - 1

        steps: list[tuple[Tensor, tuple[int, ...], int]] = []
        for node in _between(self.outputs, self.leaves):
            reads = tuple([slot(x) for x in node.inputs])
            slots[node.serial] = len(template)
            template.append(None)
            steps.append((node, reads, slots[node.serial]))
        self._results = [slot(x) for x in self.outputs]
        self._template = template
        # A value is let go after the last step that reads it.
        made = {out for _, _, out in steps} | set(range(len(self.leaves)))
        seen = set(self._results)
        self._steps = []
        for node, reads, out in reversed(steps):
            dead = tuple([i for i in {*reads} if i in made and i not in seen])
            seen.update(reads)
            self._steps.append((node, _taker(reads), out, dead))
        self._steps.reverse()
        self._recorded = any(isinstance(x, Tensor) for x in template)

    def __call__(self, values: Sequence[Any]) -> list[Any]:
        """The outputs for one value per leaf."""
        if traces.MARKED and not traces.reads_old():
            with traces.OldValues():
                return self(values)
        slots = self._template.copy()
        slots[: len(values)] = values
        if self._recorded or any(map(_recording, values)):
            self._record(slots)
        else:
            for node, take, out, dead in self._steps:
                # Not by `apply`: among plain arrays there is nothing to record.
                slots[out] = node.op.compute(*take(slots), **node.params)
                for i in dead:
                    slots[i] = None
        return [slots[i] for i in self._results]

    def _record(self, slots: list[Any]) -> None:
        # The recorded Tensor of a node, which its gradient's nodes refer to.
        became: dict[int, Tensor] = {}
        token = source.CONTEXT.set(source.CONTEXT.get())
        try:
            for node, take, out, dead in self._steps:
                source.CONTEXT.set(_place(node))
                made = apply(node.op, take(slots), node.params)
                if isinstance(made, Tensor):
                    if isinstance(node, MaskedTensor) and type(made) is Tensor:
                        made = masked(made)
                    became[node.serial] = made
                    if node.name is not None:
                        made.name = node.name
                    if node.origin is not None and made.origin is None:
                        first = became.get(node.origin.forward.serial)
                        made.origin = (
                            node.origin
                            if first is None
                            else node.origin._replace(forward=first)
                        )
                slots[out] = made
                for i in dead:
                    slots[i] = None
        finally:
            source.CONTEXT.reset(token)


def _recording(x: Any) -> bool:
    """Whether it is a Tensor, or an array of Tensors."""
    return isinstance(x, Tensor) or (type(x) is np.ndarray and x.dtype == object)


def _taker(reads: tuple[int, ...]) -> Callable[[list[Any]], tuple[Any, ...]]:
    """How a step takes its operands out of the slots: always a tuple."""
    if len(reads) > 1:
        return itemgetter(*reads)
    return lambda slots: tuple([slots[i] for i in reads])


def _place(node: Tensor) -> source.Context:
    """The user's line and scope of a node, for what is recorded in its place."""
    context = node.context
    if context is None or context.code is None:
        context = source.Context(node.scope, node.code, node.lasti)
    return context


def _between(outputs: Sequence[Any], leaves: Sequence[Tensor]) -> list[Tensor]:
    """The nodes that depend on a leaf and on which an output depends, ascending."""
    varying = {x.serial for x in leaves}
    roots = [x for x in outputs if isinstance(x, Tensor)]
    found = []
    for node in walk.order(roots, min(varying, default=0)):
        if node.serial not in varying and any(
            isinstance(x, Tensor) and x.serial in varying for x in node.inputs
        ):
            varying.add(node.serial)
            found.append(node)
    return found


# Derivatives and batches of flat functions: a sequence of arrays to another.
#
# They run on arrays, and record where a Tensor takes part: what the rules of ops that
# are built on functions are made of (see `close`).

Run = Callable[[Sequence[Any]], Sequence[Any]]


def pulled(run: Run, values: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
    """The cotangents of ``values``; None for one that ``run`` does not depend on.

    >>> import numpy as np
    >>> pulled(lambda xs: [np.sin(xs[0]) * xs[1]], [0.0, 3.0], [np.float64(1)])
    [np.float64(3.0), np.float64(0.0)]
    """
    return valued(run, values, cotangents)[1]


def valued(
    run: Run, values: Sequence[Any], cotangents: Sequence[Any]
) -> tuple[list[Any], list[Any]]:
    """The outputs, and what `pulled` gives, of one run.

    >>> import numpy as np
    >>> valued(lambda xs: [xs[0] ** 2], [3.0], [np.float64(1)])
    ([9.0], [np.float64(6.0)])
    """
    made = record(lambda leaves: list(run(leaves)), values)
    seeds = [
        None if g is None or not isinstance(y, Tensor) else reverse.fit(g, y)
        for g, y in zip(cotangents, made.outputs, strict=True)
    ]
    outputs = [y if live(y) else value_of(y) for y in made.outputs]
    return outputs, reverse.pull_back(made.outputs, seeds, made.leaves)


def pushed(run: Run, values: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
    """The tangents of the outputs; None for one that does not move."""
    made = record(lambda leaves: list(run(leaves)), values)
    fitted = [
        None if t is None else reverse.fit(t, x)
        for t, x in zip(tangents, made.leaves, strict=True)
    ]
    return forward.push_forward(made.outputs, made.leaves, fitted)


def vectorized(run: Run, values: Sequence[Any], batched: Sequence[bool]) -> list[Any]:
    """The outputs for many examples: axis 0 of the values that are ``batched``.

    Every output carries the batch axis first.
    """
    chosen = [i for i, b in enumerate(batched) if b]
    size = values[chosen[0]].shape[0]
    specs = [Spec(values[i].shape[1:], values[i].dtype) for i in chosen]

    def call(inner: list[Tensor]) -> list[Any]:
        filled = list(values)
        for i, x in zip(chosen, inner, strict=True):
            filled[i] = x
        return list(run(filled))

    made = record(call, specs)
    program = Batched(made.outputs, made.leaves)
    outputs = program([values[i] for i in chosen], size)
    return [
        y if b else np.broadcast_to(y, (size, *shape_of(y)))
        for y, b in zip(outputs, program.batched, strict=True)
    ]


# Inlining: nodes that ask for it become the ops that they are made of.
#
# An op with rules of its own must stay one node until the program has been
# differentiated; a backend puts its ops in its place when it makes a function.


def inlined(graph: Graph) -> Graph:
    """The graph with the ops inside in place of every node that is to be inlined.

    Each stands on the line where it was written. The same graph if there is none.

    Examples
    --------
    >>> import workbench as wb
    >>> x = wb.scalar("x")
    >>> cube = wb.OpFromGraph([x], x * x * x, inline=True, vjp="clip(d, -1, 1)")
    >>> print(inlined(Graph([x], [cube(x)])))
    x      = input              float64[]
    %1     = multiply(x, x)     float64[]
    %2     = multiply(%1, x)    float64[]
    """
    if not any(node.op.inline for node in graph.nodes):
        return graph
    made: dict[int, Any] = {}
    programs: dict[Any, Program] = {}
    given = {x.serial for x in graph.inputs}
    for node in graph.nodes:
        if node.serial in given:
            continue
        inputs = tuple(
            [made.get(x.serial, x) if isinstance(x, Tensor) else x for x in node.inputs]
        )
        if node.op.inline and node.op.body is not None:
            key = node.op, tuple(map(_spec, inputs))
            program = programs.get(key)
            if program is None:
                body = node.op.body(*map(_spec, inputs))
                program = programs[key] = Program(body.outputs, body.inputs)
            outputs = program(inputs)
            several = isinstance(types.spec_of(node), tuple)
            made[node.serial] = tuple(outputs) if several else outputs[0]
            _name(made[node.serial], node)
        elif node.op is ITEM and isinstance(inputs[0], tuple):
            made[node.serial] = inputs[0][node.params["index"]]
            _name(made[node.serial], node)
        elif any(a is not b for a, b in zip(inputs, node.inputs, strict=True)):
            values = tuple(map(value_of, inputs))
            made[node.serial] = walk.like(node, inputs, values, node._value)
    outputs = [
        made.get(y.serial, y) if isinstance(y, Tensor) else y for y in graph.outputs
    ]
    return Graph(graph.inputs, outputs)


def _spec(x: Any) -> Any:
    return types.spec_of(x)


def _name(made: Any, node: Tensor) -> None:
    """What stands for a node bears its name."""
    if isinstance(made, Tensor) and node.name is not None and made.name is None:
        made.name = node.name


# Closure conversion: a function becomes a program of all that it reads.
#
# A function of arrays may read Tensors of open traces through its closure. `close`
# records it once, finds these, and makes each an input of its own. What comes out
# runs on arrays (and is plain) or on Tensors (and records), in time linear in its
# size, so ops can be built on functions: `checkpoint`, implicit differentiation,
# differential equations.


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
