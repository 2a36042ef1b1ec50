"""How a loop runs: its step as straight Python code, inside one ``for``.

The code is written once for each structure (its text is the key), so what a step
costs beyond NumPy is what these lines cost. It stays NumPy's own arithmetic, however
often a loop runs: compiled code may round otherwise, and a loop outside of a program
must not give other digits from one call to the next. `workbench.compile` is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from contextlib import nullcontext
from functools import lru_cache, partial
from itertools import count
from types import CodeType, TracebackType
from typing import Any

import numpy as np

from workbench.backends.numpy import NumpyFunction
from workbench.control_flow.loop import Loop, count_uses, find_sums, find_term
from workbench.core import blame, dims, types
from workbench.core.deferred import LengthParams, bind_settings
from workbench.core.graph import Graph
from workbench.core.op import Op
from workbench.core.residuals import is_private
from workbench.core.source import Context
from workbench.core.spelling import operator_of
from workbench.core.tensor import Tensor
from workbench.core.types import Array
from workbench.errors import ShapeError
from workbench.ops.define import ITEM
from workbench.ops.device import make_zeros

# The lines of a step: each op one line of Python.

#: What tracebacks call the code of a loop.
FILE = "<step of a loop>"
#: What stands before a line of the step.
PAD = "        "


class Code:
    """The lines of a loop, the objects that they name, and the node of each line."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.nodes: list[Tensor | None] = []
        self.scope: dict[str, Any] = {}
        self.objects: dict[Any, str] = {}
        #: Whether an array is changed in place.
        self.updates = False

    def line(self, text: str, node: Tensor | None = None) -> None:
        """Add a line with the node that the line computes."""
        self.lines.append(text)
        self.nodes.append(node)

    def name_object(self, value: Any, key: Hashable = None) -> str:
        """Return the name under which the code finds an object."""
        key = ("id", id(value)) if key is None else key
        if key not in self.objects:
            self.objects[key] = f"f{len(self.objects)}"
            self.scope[self.objects[key]] = value
        return self.objects[key]

    def steps(
        self,
        nodes: Sequence[Tensor],
        names: dict[int, str],
        pad: str,
        outputs: Sequence[Any],
        skipped: set[int],
        letter: str = "v",
        dying: Collection[int] = (),
    ) -> list[str]:
        """Return the lines of nodes; names are used again when their value is dead.

        What changes a copy of its operand changes that itself, if it reads it last: a
        value of the step, or a leaf that is ``dying`` in it.
        """
        # What only hands its operand on has no line, and goes by the operand's name.
        same: dict[int, int] = {}
        for node in nodes:
            if _is_silent(node):
                serial = node.inputs[0].serial
                same[node.serial] = same.get(serial, serial)

        def list_sources(xs: Sequence[Any]) -> list[int]:
            return [same.get(x.serial, x.serial) for x in xs if isinstance(x, Tensor)]

        last: dict[int, int] = {}
        kept = set(list_sources(outputs))
        for at, node in enumerate(nodes):
            if node.serial in skipped:
                kept.update(list_sources(node.inputs))
            for serial in list_sources(node.inputs):
                last[serial] = at
        own: dict[int, str] = {}
        free: list[str] = []
        made = 0
        for at, node in enumerate(nodes):
            if node.serial in skipped or (not node.inputs and node._value is not None):
                continue  # what has a value is a constant
            if node.serial in same:
                names[node.serial] = names[same[node.serial]]
                continue
            operands = [self.name_of(x, names) for x in node.inputs]
            text = self.expression(node, operands)
            if node.op.compute_into is not None and isinstance(node.inputs[0], Tensor):
                (first,) = list_sources(node.inputs[:1])
                is_last = last[first] == at and first not in kept
                if is_last and (first in own or first in dying):
                    alone = operands.count(operands[0]) == 1
                    if alone and type(node.params) is not LengthParams:
                        text = self.update(node, operands, pad)
            for serial in dict.fromkeys(list_sources(node.inputs)):
                if last[serial] == at and serial in own and serial not in kept:
                    free.append(own.pop(serial))
            if free:
                name = free.pop()
            else:
                name = f"{letter}{made}"
                made += 1
            self.line(f"{pad}{name} = {text}", node)
            names[node.serial] = own[node.serial] = name
        return [
            "" if getattr(y, "serial", None) in skipped else self.name_of(y, names)
            for y in outputs
        ]

    def name_of(self, x: Any, names: dict[int, str]) -> str:
        """Return the code of an operand: its name, or a number."""
        if isinstance(x, Tensor):
            found = names.get(x.serial)
            if found is not None:
                return found
            x = x._value
        if type(x) in (int, bool):
            return f"({x!r})"
        return self.name_object(x)

    def update(self, node: Tensor, operands: list[str], pad: str) -> str:
        """Return an update as an expression, after a line that hands its operand over.

        Whether somebody else holds the array, Python tells at each step.
        """
        first, *others = operands
        self.updates = True
        self.line(f"{pad}held_back.append({first}); {first} = None", node)
        update = partial(_update, node.op, node.params)
        callee = self.name_object(update, ("update", node.serial))
        return f"{callee}({', '.join(['held_back', *others])})"

    def expression(self, node: Tensor, operands: list[str]) -> str:
        """Return a node as an expression of its operands."""
        op, params = node.op, node.params
        if (template := operator_of(node)) is not None:
            return template.format(*operands)
        if op is ITEM:
            return f"{operands[0]}[{params['index']}]"
        if params:
            callee = self.name_object(bind_settings(op, params), ("node", node.serial))
        else:
            callee = self.name_object(op.compute)
        return f"{callee}({', '.join(operands)})"


def _update(op: Op, params: dict[str, Any], held: list[Any], *others: Any) -> Any:
    """Compute an update of the array in a list, in place where private."""
    into = op.compute_into
    assert into is not None
    change = into if is_private(held) else op.compute
    return change(held.pop(), *others, **params)


def _is_silent(node: Tensor) -> bool:
    """Return whether a node only passes on an operand."""
    return (
        node.op.template == "{0}"
        and len(node.inputs) == 1
        and not node.params
        and isinstance(node.inputs[0], Tensor)
    )


@lru_cache(maxsize=512)
def compile_text(text: str) -> CodeType:
    """Return the code of a text, compiled once."""
    return compile(text, FILE, "exec")


# A loop as one function of Python code, its step as straight lines in a ``for``.
#
# Sums over the steps are made in place.


#: Where the outputs of the step go, each to rows of a buffer: with each output those
#: that hold the same 1, 2, ... steps late, and their carries. Values that a carry has
#: *before* each step are those that an output had one step earlier, so they are rows of
#: the same buffer, which then begins with the carry's first value.
Places = dict[int, list[tuple[int, int]]]


def _keeps_shape(loop: Loop, carry: int) -> bool:
    """Return whether a step certainly keeps the shape of a carry."""
    y, x = loop.body.outputs[carry], loop.leaf(carry)
    shape = y.spec.shape if isinstance(y, Tensor) else np.shape(y)
    return len(shape) == len(x.spec.shape) and dims.is_same_shape(shape, x.spec.shape)


def make_shape_check(loop: Loop, carry: int) -> Callable[[Any, Any], None]:
    """Return a function that compares a carry before and after a step.

    Raises
    ------
    ShapeError
        If the step has changed its shape.
    """
    y, x = loop.body.outputs[carry], loop.leaf(carry)

    def check_shape(old: Array, new: Array) -> None:
        if np.shape(old) != np.shape(new):
            what = repr(x.name) if x.name else "a value"
            place = blame.quote_site(y.site) if isinstance(y, Tensor) else ""
            raise ShapeError(
                f"scan: a step changes the shape of {what}{place}: it is given shape"
                f" {np.shape(old)}, and returns shape {np.shape(new)}. Give a first"
                " value of the shape that the step returns."
            )

    return check_shape


def _name(count: int, letter: str) -> list[str]:
    """Return so many names: ``k0``, ``k1``, ..."""
    return [f"{letter}{i}" for i in range(count)]


def make_buffer(n: int, y: Array) -> Array:
    """Return a buffer for n values like this one."""
    return np.empty_like(y, shape=(n, *np.shape(y)))


# The runner: values in, values out


class Absent(np.ndarray[Any, Any]):
    """Stands for the saved values of a run that saved none: NaN, without memory."""


def make_absent(shape: Sequence[int], dtype: np.dtype[Any]) -> Array:
    """Return a placeholder for saved values that nothing is going to read."""
    nothing = np.nan if dtype.kind in "fc" else 0
    return np.broadcast_to(np.full((), nothing, dtype), tuple(shape)).view(Absent)


def get_runner(loop: Loop) -> Callable[..., tuple[Any, ...]]:
    """Return a loop as a function of arrays, which is made once; see `Runner`."""
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
        ends = total if saving else loop.carries + loop.visible
        self.places = self._places(list(range(loop.carries, ends)))
        #: The node of each line of the code.
        self.nodes: list[Tensor | None] = []
        #: ``run(n, consts, seqs, inits)``: the last carries, the buffers of the places,
        #: the number of steps, the kept carries.
        self.run = self._compile_loop()

    def _places(self, visible: list[int]) -> Places:
        """Return where outputs go; those that lag behind another share its buffer."""
        loop, body = self.loop, self.loop.body
        lags = {} if loop.until else loop.find_lagging(body)
        carries = {
            x.serial: i for i, x in enumerate(body.leaves[loop.consts + loop.seqs :])
        }
        places: Places = {}
        lagging = []
        for i in visible:
            y = body.outputs[i]
            carry = carries.get(y.serial, -1) if isinstance(y, Tensor) else -1
            if i >= loop.carries + loop.visible and carry in lags:
                lagging.append((lags[carry][1], i, carry))
            else:
                places[i] = []
        for hops, i, carry in sorted(lagging):
            late = places[lags[carry][0]]
            if len(late) == hops - 1:
                late.append((i, carry))
            else:
                places[i] = []
        return places

    # Its code

    def _compile_loop(self) -> Callable[..., Any]:
        """Return the whole loop as one function of Python code.

        Constants are ``c0``, sequences ``q0`` and their entries ``s0``, carries ``k0``,
        stacked outputs ``b0``, kept carries ``m0``, and ``t`` is the step.
        """
        loop, body, code = self.loop, self.loop.body, Code()
        self.nodes = code.nodes
        starts = body.leaves[loop.consts + loop.seqs :]
        uses = count_uses(body.interior, body.outputs)
        added = find_sums(loop.marks, starts, body.outputs, uses)
        self._open_loop(code, added)
        names = {x.serial: name for x, name in zip(body.leaves, [
            *_name(loop.consts, "c"), *_name(loop.seqs, "s"), *_name(loop.carries, "k")
        ], strict=True)}  # fmt: skip
        skipped = {body.outputs[i].serial for i in added}
        dying = {
            x.serial
            for i, x in enumerate(starts)
            if i not in added and i not in self.marks and _keeps_shape(loop, i)
        }
        values = code.steps(
            body.interior, names, PAD, body.outputs, skipped, "v", dying
        )
        self._store_rows(code, values)
        for i, carry in enumerate(self.marks):
            if i == 0:
                code.line(f"{PAD}if t % {loop.every} == 0:")
            code.line(f"{PAD}    m{i}.append(k{carry})")
        for i in added:
            # The sum is the array of the loop itself: add in place.
            term = find_term(body.outputs[i], loop.leaf(i))
            code.line(f"{PAD}k{i} += {code.name_of(term, names)}", body.outputs[i])
        self._hand_on(code, values, [i for i in range(loop.carries) if i not in added])
        if code.lines[-1].startswith("    for "):
            code.line(f"{PAD}pass")
        if loop.until:
            code.line(f"{PAD}if {values[-1]}:")
            code.line(f"{PAD}    break")
        finals, rows, kept = (
            "".join(f"{name}, " for name in _name(many, letter))
            for many, letter in (
                (loop.carries, "k"), (len(self.places), "b"), (len(self.marks), "m")
            )
        )  # fmt: skip
        done = "t + 1" if loop.until else "n"
        code.line(f"    return ({finals}), ({rows}), {done}, ({kept})")
        code.scope.update(rows=make_buffer, count=count)
        exec(compile_text("\n".join(code.lines)), code.scope)
        made_run: Callable[..., Any] = code.scope["run"]
        return made_run

    def _open_loop(self, code: Code, added: Sequence[int]) -> None:
        """Write the code before the step; the ``added`` carries are sums."""
        loop = self.loop
        code.line("def run(n, consts, seqs, inits):")
        code.line("    held_back = []")
        for many, letter, source in (
            (loop.consts, "c", "consts"),
            (loop.carries, "k", "inits"),
            (loop.seqs, "q", "seqs"),
        ):
            if many:
                code.line(f"    {', '.join(_name(many, letter))}, = {source}")
        for i in added:
            code.line(f"    if getattr(k{i}, 'ndim', 0): k{i} = k{i}.copy()")
        for name in _name(len(self.places), "b"):
            code.line(f"    {name} = {'[]' if loop.until else 'None'}")
        for name in _name(len(self.marks), "m"):
            code.line(f"    {name} = []")
        endless = loop.until and not (loop.seqs or loop.reverse)
        order = "range(n - 1, -1, -1)" if loop.reverse else "range(n)"
        code.line("    t = -1")
        code.line(f"    for t in {'count()' if endless else order}:")
        if endless:
            code.line(f"{PAD}if t == n:")
            code.line(f"{PAD}    t -= 1")
            code.line(f"{PAD}    break")
        for k in range(loop.seqs):
            code.line(f"{PAD}s{k} = q{k}[t]")

    @property
    def _is_first(self) -> str:
        """The code of whether a step is the first one."""
        return f"t == {'n - 1' if self.loop.reverse else '0'}"

    def _store_rows(self, code: Code, values: Sequence[str]) -> None:
        """Write the code that stores a step's results in the stacked outputs."""
        loop, places = self.loop, list(enumerate(self.places.items()))
        if loop.until:
            for at, (output, _) in places:
                code.line(f"{PAD}b{at}.append({values[output]})")
            return
        if places:
            code.line(f"{PAD}if {self._is_first}:")
        for at, (output, late) in places:
            code.line(f"{PAD}    b{at} = rows(n + {len(late)}, {values[output]})")
            for k, (_, carry) in enumerate(late, 1):
                row = f"n + {k - 1}" if loop.reverse else f"{len(late) - k}"
                code.line(f"{PAD}    b{at}[{row}] = inits[{carry}]")
        for at, (output, late) in places:
            ahead = f" + {len(late)}" if late and not loop.reverse else ""
            code.line(f"{PAD}b{at}[t{ahead}] = {values[output]}")

    def _hand_on(
        self, code: Code, values: Sequence[str], carries: Sequence[int]
    ) -> None:
        """Write how some carries become those of the next step."""
        loop = self.loop
        moved = [i for i in carries if values[i] != f"k{i}"]
        unsure = [i for i in moved if not _keeps_shape(loop, i)]
        for at, i in enumerate(unsure):
            # Only the run tells whether a step changes the shape.
            if at == 0:
                code.line(f"{PAD}if {self._is_first}:")
            kept_shape = code.name_object(make_shape_check(loop, i), ("kept", i))
            code.line(f"{PAD}    {kept_shape}(k{i}, {values[i]})")
        if not moved:
            return
        left = ", ".join(f"k{i}" for i in moved)
        code.line(f"{PAD}{left} = {', '.join(values[i] for i in moved)}")
        # A carry that is written to must have no other name.
        other = {values[i] for i in moved if values[i][0] == "v"}
        if loop.until:
            other.discard(values[-1])
        if code.updates and other:
            code.line(f"{PAD}{' = '.join(sorted(other))} = None")

    # Running

    def __call__(self, n: int, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """Return all outputs: last carries, stacked outputs, number of steps."""
        loop = self.loop
        # A number computes faster than an array of one, and to the same bits.
        consts = [unwrap_number(x) for x in inputs[: loop.consts]]
        seqs = inputs[loop.consts : loop.consts + loop.seqs]
        inits = [unwrap_number(x) for x in inputs[loop.consts + loop.seqs :]]
        if n <= 0:
            return self._run_no_steps(consts, seqs, inits)
        # Of examples that have made their steps, further results are not read.
        quiet = np.errstate(all="ignore") if loop.uneven else nullcontext()
        try:
            with quiet:
                carries, buffers, done, marks = self.run(n, consts, seqs, inits)
        except Exception as error:
            told = self._explain_error(error, error.__traceback__)
            if told is error:
                raise
            raise told from error
        made: dict[int, Any] = {}
        for (output, lags), rows in zip(self.places.items(), buffers, strict=True):
            if loop.until:
                rows = stack_values(rows)
            ahead = len(lags)
            for late, (i, _) in enumerate(lags, 1):
                start = late if loop.reverse else ahead - late
                made[i] = rows[start : start + n]
            if ahead:
                rows = rows[:n] if loop.reverse else rows[ahead:]
            made[output] = rows
        kept = [stack_values(rows) for rows in marks]
        return assemble_outputs(loop, carries, made, done, kept)

    def _run_no_steps(
        self, consts: Sequence[Any], seqs: Sequence[Any], inits: Sequence[Any]
    ) -> tuple[Any, ...]:
        """Return the outputs of a loop without steps."""
        loop = self.loop
        made = {}
        for output, late in self.places.items():
            for i in (output, *(i for i, _ in late)):
                spec = types.spec_of(loop.body.outputs[i])
                shape = spec.shape
                if not all(isinstance(m, int) for m in shape):
                    shape = self._measure_shape(i, consts, seqs, inits)
                like = next(iter((*inits, *seqs, *consts)), np.float64(0))
                made[i] = np.empty_like(like, shape=(0, *shape), dtype=spec.dtype)
        marks = [inits[i] for i in loop.marks]
        marks = [np.empty_like(x, shape=(0, *np.shape(x))) for x in marks]
        return assemble_outputs(loop, inits, made, 0, marks)

    def _measure_shape(
        self,
        output: int,
        consts: Sequence[Any],
        seqs: Sequence[Any],
        inits: Sequence[Any],
    ) -> tuple[int, ...]:
        """Return the shape of an output, measured by one step on zeros."""
        body = self.loop.body
        entries = [make_zeros(x, x.shape[1:]) for x in seqs]
        with np.errstate(all="ignore"):
            function = NumpyFunction(Graph(body.leaves, [body.outputs[output]]))
            (y,) = function(*consts, *entries, *inits)
        return np.shape(y)

    def _explain_error(
        self, error: Exception, trace: TracebackType | None
    ) -> Exception:
        """Return NumPy's error in a step with the op and the user's line."""
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
        return blame.explain_refusal(node.op, specs, error, place.code, place.lasti)


def assemble_outputs(
    loop: Loop,
    carries: Sequence[Any],
    stacks: dict[int, Any],
    done: int,
    marks: Sequence[Any],
) -> tuple[Any, ...]:
    """Return all outputs of a loop, with placeholders where nothing was saved."""
    outputs = loop.body.outputs

    def hide(n: int, spec: Any) -> Array:
        shape = [m if isinstance(m, int) else 0 for m in spec.shape]
        return make_absent((n, *shape), spec.dtype)

    ys = [
        stacks[i] if i in stacks else hide(done, types.spec_of(outputs[i]))
        for i in range(loop.carries, len(outputs) - loop.until)
    ]
    if len(marks) < len(loop.marks):
        rows = -(-done // (loop.every or 1))
        marks = [hide(rows, loop.leaf(i).spec) for i in loop.marks]
    counted = (np.int64(done),) if loop.until else ()
    return (*carries, *ys, *marks, *counted)


def unwrap_number(x: Array) -> Array:
    """Return a NumPy scalar for an array of shape (); else the value unchanged."""
    return x[()] if type(x) is np.ndarray and x.ndim == 0 else x


def stack_values(values: list[Any]) -> Array:
    """Return a list of equal arrays or numbers as one array."""
    if np.ndim(values[0]):
        return np.stack(values)
    return np.asarray(values, like=values[0]) if hasattr(
        values[0], "__cuda_array_interface__"
    ) else np.asarray(values)  # fmt: skip
