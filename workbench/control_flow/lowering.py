"""What loops and branches are to backends: Python code, or data to compile.

As code a loop is a function with a ``for`` around the lines of its step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from workbench.backends import text
from workbench.control_flow.loop import Loop
from workbench.control_flow.pieces import Chunks
from workbench.core import types
from workbench.core.dims import Dim, Length, atoms_of, format_dim
from workbench.core.op import Choice, Lowering, Repetition, declare
from workbench.core.tensor import Tensor
from workbench.core.types import Spec

#: What the loop is called that runs once more.
AGAIN = "scan_again"

PIECES = '''\
def scan_pieces(again, back, n, k, consts, seqs, first, kept, same, rows, carries):
    """A loop back, k steps at a time; the steps forth run again before them."""
    stacks = []
    for a in reversed(range(0, max(n, 1), k)):
        b = min(a + k, n)
        start = [x[a // k] for x in kept] if n else first
        lost = again(b - a, *consts, *[x[a:b] for x in seqs], *start)[len(start):]
        made = back(b - a, *same, *[x[a:b] for x in rows], *lost, *carries)
        stacks.append(made[len(carries):])
        carries = made[:len(carries)]
    return *carries, *[np.concatenate(x[::-1]) for x in zip(*stacks)]
'''

#: Names of the operands by the serials of the leaves; 1 for one whose rows they are.
Measured = dict[int, tuple[str, int]]


def _lower_scan(node: Tensor, backend: str) -> Lowering | Repetition | None:
    """Return a loop, as a function of the values that its op takes."""
    loop: Loop = node.params["loop"]
    if backend == "compiled":
        return _describe_repetition(loop)
    graphs = [(node.name or "scan", loop.body)]
    return Lowering(("scan", id(loop), loop.keep), graphs, partial(_write_loop, loop))


def _describe_repetition(loop: Loop) -> Repetition | None:
    """Return a loop as data; None for states kept backward, which nobody asks for."""
    if loop.marks and loop.reverse:
        return None
    rows = range(loop.carries, len(loop.body.outputs) - loop.until)
    results = [
        *(("last", i) for i in range(loop.carries)),
        *(("rows", i) for i in rows),
        *(("marks", i) for i in loop.marks),
        *([("count", 0)] if loop.until else []),
    ]
    return Repetition(
        loop.body, loop.consts, loop.seqs, loop.carries, results, loop.steps,
        loop.reverse, loop.until, loop.every or 0, loop.limit is not None,
    )  # fmt: skip


def _write_loop(
    loop: Loop,
    lines: text.Lines,
    name: str,
    names: list[str],
    outputs: list[str],
    piece: bool = False,
) -> list[str]:
    """Return the lines of a loop, around those of its step.

    A ``piece`` is told how many steps it makes, and gives what is seen alone.
    """
    fresh = lines.names.name
    first = loop.consts + loop.seqs
    rows, carries = names[loop.consts : first], names[first:]
    seqs = [fresh(f"{row}s") for row in rows]
    count = [fresh("n")] if loop.counted or piece else []
    arguments = [*count, *names[: loop.consts], *seqs, *carries]
    made = [text.format_head(name, arguments)]
    ends = len(outputs) - loop.until
    seen = loop.carries + loop.visible
    stored = ends if loop.keep and not piece else seen
    stacks = {i: fresh("rows") for i in range(loop.carries, stored)}
    marks = [fresh("kept") for _ in loop.marks] if loop.keep else []
    steps = fresh("steps") if loop.until or marks else ""
    made += [f"{text.INDENT}{stack} = []" for stack in (*stacks.values(), *marks)]
    made += [f"{text.INDENT}{steps} = 0"] if steps else []
    made.append(_write_head(loop, rows, seqs, count))
    pad = text.INDENT * 2
    if marks:
        made.append(f"{pad}if {steps} % {loop.every} == 0:")
    for kept, i in zip(marks, loop.marks, strict=False):  # none where none are kept
        made.append(f"{pad}{text.INDENT}{kept}.append({carries[i]})")
    made += [f"{pad}{steps} += 1"] if steps else []
    made += [f"{text.INDENT}{line}" for line in lines.lines]
    made += [f"{pad}{stack}.append({outputs[i]})" for i, stack in stacks.items()]
    made += _write_moves(loop, carries, outputs, fresh)
    if made[-1].endswith(":"):
        made.append(f"{pad}pass")
    # Who tells the lengths of rows where there is none.
    measured = {
        leaf.serial: (x, int(loop.consts <= i < first))
        for i, (leaf, x) in enumerate(
            zip(loop.body.leaves, arguments[len(count) :], strict=True)
        )
    }
    results = list(carries)
    sure = loop.steps is not None and loop.steps > 0 and not piece
    results += [
        _write_stack(
            stacks[i], types.spec_of(loop.body.outputs[i]), measured, loop.reverse, sure
        )
        if i in stacks
        else "None"
        for i in range(loop.carries, seen if piece else ends)
    ]
    results += [
        _write_stack(kept, loop.leaf(i).spec, measured, False, loop.steps or 0)
        for kept, i in zip(marks, loop.marks, strict=False)
    ]
    results += ["None"] * (len(loop.marks) - len(marks))
    if loop.until:
        results.append(f"np.int64({steps})")
    return [*made, *text.format_return(text.format_tuple(results))]


def _write_head(loop: Loop, rows: list[str], seqs: list[str], count: list[str]) -> str:
    """Return the line that begins a loop: over rows of sequences, or so many steps."""
    if seqs:
        turned = "[::-1]" if loop.reverse else ""
        source = ", ".join(f"{x}{turned}" for x in seqs)
        source = f"zip({source})" if len(seqs) > 1 else source
        return f"{text.INDENT}for {', '.join(rows)} in {source}:"
    n = count[0] if count else repr(loop.steps)
    return f"{text.INDENT}for _ in range({n}):"


def _write_moves(
    loop: Loop, carries: list[str], outputs: list[str], fresh: Callable[[str], str]
) -> list[str]:
    """Return the lines that end a step: hand the carries on, and perhaps stop.

    Whether the loop stops is decided before the carries move.
    """
    made = []
    stop = outputs[-1]
    if loop.until and not stop.isidentifier():
        stop = fresh("stop")
        made.append(f"{stop} = {outputs[-1]}")
    moved = [i for i in range(loop.carries) if outputs[i] != carries[i]]
    if moved:
        left = ", ".join(carries[i] for i in moved)
        made.append(f"{left} = {', '.join(outputs[i] for i in moved)}")
    if loop.until:
        made += [f"if {stop}:", f"{text.INDENT}break"]
    return [f"{text.INDENT * 2}{line}" for line in made]


def _write_stack(
    rows: str, row: Spec, measured: Measured, reverse: bool, sure: object
) -> str:
    """Return the rows as one array; of no rows, one that has their shape."""
    stack = f"np.stack({rows}[::-1])" if reverse else f"np.stack({rows})"
    if sure:
        return stack
    shape = ", ".join(["0", *(_write_length(n, measured) for n in row.shape)])
    shape += "," * (not row.shape)
    return f"{stack} if {rows} else np.zeros(({shape}), np.{row.dtype})"


def _write_length(n: object, measured: Measured) -> str:
    """Return the code of a length that the operands of the loop tell."""
    if not isinstance(n, Dim):
        return str(n)
    atoms = [atom for atom in atoms_of(n) if isinstance(atom, Length)]
    if any(atom.tensor.serial not in measured for atom in atoms):
        return "0"  # a step alone would tell

    def name(atom: Any) -> str:
        x, row = measured[atom.tensor.serial]
        return f"np.shape({x})[{atom.axis + row}]"

    return format_dim(n, name, code=True)


def _lower_chunks(node: Tensor, backend: str) -> Lowering | None:
    """Return a loop back, some steps at a time, after the same steps forth."""
    if backend == "compiled":
        return None
    chunks: Chunks = node.params["chunks"]
    source, back = chunks.source, chunks.back

    def frame(
        lines: text.Lines, name: str, arguments: list[str], outputs: list[str]
    ) -> list[str]:
        loop = source if name.startswith(AGAIN) else back
        return _write_loop(loop, lines, name, arguments, outputs, piece=True)

    def call(functions: Sequence[str], operands: Sequence[str]) -> str:
        given, kept, own = chunks.split_inputs(operands)
        count, consts, seqs, inits = source.split_inputs(given)
        at = back.consts + back.seqs - source.visible
        n = str(source.steps) if count is None else count
        if count is None and source.steps is None:
            n = f"len({seqs[0]})"
        groups = consts, seqs, inits, kept, own[: back.consts], own[back.consts : at]
        parts = [f"[{', '.join(group)}]" for group in (*groups, own[at:])]
        first = f"{', '.join(functions)}, {n}, {chunks.every}"
        return f"scan_pieces({first}, {', '.join(parts)})"

    graphs = [(AGAIN, source.body), ("scan_back", back.body)]
    return Lowering(("scan_back", id(chunks)), graphs, frame, call, (PIECES,))


def _lower_cond(node: Tensor, backend: str) -> Lowering | Choice:
    """Return a choice of two functions."""
    branches = node.params["branches"]
    if backend == "compiled":
        return Choice(branches)

    def call(functions: Sequence[str], operands: Sequence[str]) -> str:
        yes, no = functions
        return f"({yes} if {operands[0]} else {no})({', '.join(operands[1:])})"

    yes, no = branches
    graphs = [("on_true", yes), ("on_false", no)]
    return Lowering(("cond", id(branches)), graphs, call=call)


declare("scan").lower = _lower_scan
declare("scan_back").lower = _lower_chunks
declare("cond").lower = _lower_cond
