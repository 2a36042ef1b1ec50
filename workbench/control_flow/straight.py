"""A loop as one function of Python code, its step as straight lines in a ``for``.

What depends on nothing that changes from step to step is computed before the loop.
Sums over the steps are made in place; those of outer products some steps at a time,
as one product of matrices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

import numpy as np

from workbench.autodiff.body import is_draw
from workbench.control_flow.code import Code, compiled
from workbench.control_flow.loop import Loop
from workbench.core import blame, dims
from workbench.core.graph import Graph
from workbench.core.tensor import Tensor
from workbench.errors import ShapeError

__all__ = ["Place", "Straight", "kept_by", "rows_for"]

#: So many outer products are summed as one product of matrices, from this size on.
BLOCK = 32
LEAST = 8


class Place:
    """Where the values of an output of the step go: rows of a buffer.

    Values that a carry has *before* each step are those that the output had one step
    earlier, so they are rows of the same buffer, which then begins with the carry's
    first value.
    """

    __slots__ = ("ahead", "chain", "output")

    def __init__(self, output: int) -> None:
        self.output = output
        #: The outputs that hold the same, 1, 2, ... steps late, and their carries.
        self.chain: list[tuple[int, int]] = []
        self.ahead = 0


class Straight:
    """The code of a loop.

    Attributes
    ----------
    run
        ``run(n, consts, seqs, inits, held, final)``: the last carries, the buffers of
        the places, the number of steps, the kept carries. ``held`` is a list for what
        is summed later, if the run is not the ``final`` piece of a loop.
    nodes
        The node that each line computes.
    held
        How many arrays ``held`` has.
    """

    def __init__(self, loop: Loop, places: Sequence[Place], marks: list[int]) -> None:
        self.loop = loop
        self.places = places
        self.marks = marks
        self.held = 0
        self.nodes: list[Tensor | None] = []
        self.run = self.write()

    def write(self) -> Callable[..., Any]:
        """The whole loop as one function."""
        loop, body = self.loop, self.loop.body
        before, inside, inputs, results = _invariants(loop)
        code = Code()
        self.nodes = code.nodes
        consts = [f"c{i}" for i in range(loop.consts)]
        seqs = [f"s{i}" for i in range(loop.seqs)]
        carries = [f"k{i}" for i in range(loop.carries)]
        rows = [f"b{i}" for i in range(len(self.places))]
        code.line("def run(n, consts, seqs, inits, held, final):")
        for names, source in ((consts, "consts"), (carries, "inits")):
            if names:
                code.line(f"    {', '.join(names)}, = {source}")
        if seqs:
            code.line(f"    {', '.join(f'q{i}' for i in range(loop.seqs))}, = seqs")
        added = self._added(inside)
        outer = self._outer(added, inside)
        for i in added:
            code.line(f"    if k{i}.ndim: k{i} = k{i}.copy()")
        pairs = [f"x{i}, y{i}" for i in outer]
        if outer:
            code.line(f"    f, {', '.join(pairs)} = held")
        known = code.write(before, dict(zip(body.leaves, consts, strict=False)), "    ")
        known_as = {x.serial: name for x, name in zip(inputs, known, strict=True)}
        # In the loop
        for name in rows:
            code.line(f"    {name} = {'[]' if loop.until else 'None'}")
        kept = [f"m{i}" for i in range(len(self.marks))]
        for name in kept:
            code.line(f"    {name} = []")
        order = "range(n - 1, -1, -1)" if loop.reverse else "range(n)"
        if loop.until and not (loop.seqs or loop.reverse):
            order = "count()"
        code.line("    t = -1")
        code.line(f"    for t in {order}:")
        pad = "        "
        if order == "count()":
            code.line(f"{pad}if t == n:")
            code.line(f"{pad}    t -= 1")
            code.line(f"{pad}    break")
        for k, name in enumerate(seqs):
            code.line(f"{pad}{name} = q{k}[t]")
        leaves = [*consts, *seqs, *carries]
        for x, name in zip(body.leaves, leaves, strict=True):
            known_as[x.serial] = name
        skipped = {body.outputs[i].serial for i in added}
        skipped |= {_term(loop, i).serial for i in outer}
        values = code.steps(inside, known_as, pad, results, skipped)
        first = "n - 1" if loop.reverse else "0"
        chosen = [values[place.output] for place in self.places]
        if rows and not loop.until:
            code.line(f"{pad}if t == {first}:")
            for name, value, place in zip(rows, chosen, self.places, strict=True):
                code.line(f"{pad}    {name} = rows(n + {place.ahead}, {value})")
                for late, (_, carry) in enumerate(place.chain, 1):
                    row = f"n + {late - 1}" if loop.reverse else f"{place.ahead - late}"
                    code.line(f"{pad}    {name}[{row}] = inits[{carry}]")
        for name, value, place in zip(rows, chosen, self.places, strict=True):
            if loop.until:
                code.line(f"{pad}{name}.append({value})")
            else:
                ahead = f" + {place.ahead}" if place.ahead and not loop.reverse else ""
                code.line(f"{pad}{name}[t{ahead}] = {value}")
        for i, carry in enumerate(self.marks):
            if i == 0:
                code.line(f"{pad}if t % {loop.every} == 0:")
            code.line(f"{pad}    m{i}.append(k{carry})")
        for i in added:
            # The one who sums owns the sum.
            term = _term(loop, i)
            if i not in outer:
                text = code.name_of(term, known_as)
                code.line(f"{pad}k{i} += {text}", body.outputs[i])
                continue
            u, v = (code.name_of(x, known_as) for x in outer[i])
            code.line(f"{pad}if x{i} is None:")
            code.line(f"{pad}    x{i}, y{i} = rows({BLOCK}, {u}), rows({BLOCK}, {v})")
            code.line(f"{pad}x{i}[f], y{i}[f] = {u}, {v}", term)
        if outer:
            code.line(f"{pad}f += 1")
            code.line(f"{pad}if f == {BLOCK}:")
            for i in outer:
                code.line(f"{pad}    k{i} += products(x{i}, y{i}, f)")
            code.line(f"{pad}    f = 0")
        moved = [i for i in range(loop.carries) if i not in added]
        moved = [i for i in moved if values[i] != f"k{i}"]
        unsure = [i for i in moved if not _surely_same(loop, i)]
        for at, i in enumerate(unsure):
            # Only the run tells whether a step changes the shape.
            if at == 0:
                code.line(f"{pad}if t == {first}:")
            kept_shape = code.object(kept_by(loop, i), ("kept", i))
            code.line(f"{pad}    {kept_shape}(k{i}, {values[i]})")
        if moved:
            left = ", ".join(f"k{i}" for i in moved)
            code.line(f"{pad}{left} = {', '.join(values[i] for i in moved)}")
        if code.lines[-1].endswith(f"{order}:"):
            code.line(f"{pad}pass")
        if loop.until:
            code.line(f"{pad}if {values[-1]}:")
            code.line(f"{pad}    break")
        if outer:
            code.line("    if final and f:")
            for i in outer:
                code.line(f"        k{i} += products(x{i}, y{i}, f)")
            code.line(f"    held[:] = f, {', '.join(pairs)}")
        self.held = 2 * len(outer)
        finals = ", ".join(carries) + ("," if carries else "")
        made = ", ".join(rows) + ("," if rows else "")
        done = "t + 1" if loop.until else "n"
        saved = ", ".join(kept) + ("," if kept else "")
        code.line(f"    return ({finals}), ({made}), {done}, ({saved})")
        code.scope.update(rows=rows_for, count=count, products=_products)
        exec(compiled("\n".join(code.lines)), code.scope)
        made_run: Callable[..., Any] = code.scope["run"]
        return made_run

    def _uses(self, inside: Sequence[Tensor]) -> dict[int, int]:
        """How often each value of a step is read."""
        uses: dict[int, int] = {}
        for node in inside:
            for x in node.inputs:
                if isinstance(x, Tensor):
                    uses[x.serial] = uses.get(x.serial, 0) + 1
        for y in self.loop.body.outputs:
            if isinstance(y, Tensor):
                uses[y.serial] = uses.get(y.serial, 0) + 1
        return uses

    def _outer(
        self, added: Sequence[int], inside: Sequence[Tensor]
    ) -> dict[int, tuple[Tensor, Tensor]]:
        """The sums of outer products, with the column and the row of each step.

        Some steps of them together are one product of matrices.
        """
        loop, uses, found = self.loop, self._uses(inside), {}
        for i in added:
            term = _term(loop, i)
            shape = term.spec.shape
            if (
                term.op.name == "multiply"
                and uses[term.serial] == 1
                and any(term is node for node in inside)
                and len(shape) == 2
                and all(isinstance(m, int) and m >= LEAST for m in shape)
                and all(isinstance(x, Tensor) for x in term.inputs)
            ):
                for u, v in (term.inputs, term.inputs[::-1]):
                    row = v.spec.shape in ((shape[1],), (1, shape[1]))
                    if row and u.spec.shape == (shape[0], 1):
                        if u.spec.dtype == v.spec.dtype == term.spec.dtype:
                            found[i] = (u, v)
                        break
        return found

    def _added(self, inside: Sequence[Tensor]) -> list[int]:
        """The carries that are sums: each step adds a term, and nobody else reads."""
        loop, body = self.loop, self.loop.body
        uses = self._uses(inside)
        found = []
        for i in range(loop.carries):
            node, own = body.outputs[i], loop.leaf(i)
            if (
                isinstance(node, Tensor)
                and node.op.name == "add"
                and uses[node.serial] == 1
                and uses.get(own.serial) == 1
                and i not in loop.marks
                and sum(x is own for x in node.inputs) == 1
                and all(
                    isinstance(x, Tensor) and dims.same(x.spec.shape, own.spec.shape)
                    for x in node.inputs
                )
                and all(x.spec.dtype == own.spec.dtype for x in node.inputs)
            ):
                found.append(i)
        return found


def _term(loop: Loop, carry: int) -> Tensor:
    """What each step adds to a carry that is a sum."""
    left, right = loop.body.outputs[carry].inputs
    term: Tensor = right if left is loop.leaf(carry) else left
    return term


def _surely_same(loop: Loop, carry: int) -> bool:
    """Whether a step is known to keep the shape of a carry."""
    y, x = loop.body.outputs[carry], loop.leaf(carry)
    shape = y.spec.shape if isinstance(y, Tensor) else np.shape(y)
    return len(shape) == len(x.spec.shape) and dims.same(shape, x.spec.shape)


def kept_by(loop: Loop, carry: int) -> Callable[[Any, Any], None]:
    """What compares a carry before and after a step.

    Raises
    ------
    ShapeError
        If the step has changed its shape.
    """
    y, x = loop.body.outputs[carry], loop.leaf(carry)

    def kept(old: Any, new: Any) -> None:
        if np.shape(old) != np.shape(new):
            what = repr(x.name) if x.name else "a value"
            place = blame.at(y.site) if isinstance(y, Tensor) else ""
            raise ShapeError(
                f"scan: a step changes the shape of {what}{place}: it is given shape"
                f" {np.shape(old)}, and returns shape {np.shape(new)}. Give a first"
                " value of the shape that the step returns."
            )

    return kept


def _products(columns: Any, rows: Any, count: int) -> Any:
    """The sum of outer products."""
    left = columns[:count].reshape(count, -1)
    return left.T @ rows[:count].reshape(count, -1)


def rows_for(n: int, y: Any) -> Any:
    """A buffer for n values like this one."""
    return np.empty_like(y, shape=(n, *np.shape(y)))


def _invariants(
    loop: Loop,
) -> tuple[Graph, list[Tensor], list[Tensor], list[Any]]:
    """The part of the step that is the same in each, and the rest.

    Returns the graph of the former, the nodes of the latter, what they read of the
    former, and the outputs.
    """
    body = loop.body
    fixed = {x.serial for x in body.leaves[: loop.consts]}
    same = set()
    inside = []
    for node in body.nodes:
        if not is_draw(node) and all(
            x.serial in fixed or x.serial in same
            for x in node.inputs
            if isinstance(x, Tensor)
        ):
            same.add(node.serial)
        else:
            inside.append(node)
    read = {
        x.serial: x
        for x in (*(x for node in inside for x in node.inputs), *body.outputs)
        if isinstance(x, Tensor) and x.serial in same
    }
    inputs = list(read.values())
    return Graph(body.leaves[: loop.consts], inputs), inside, inputs, body.outputs
