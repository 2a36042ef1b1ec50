"""Loops and branches as Python code: a function with a ``for`` for each loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from workbench.backends import text
from workbench.backends.spelling import SPELLED
from workbench.backends.text import Written
from workbench.graph import types
from workbench.graph.tensor import Tensor
from workbench.loops.loop import Loop

__all__: list[str] = []

INDENT = "    "
WIDTH = 80

Fresh = Callable[[str], str]


def _scan(node: Tensor) -> Written:
    """A loop, as a function of the values that its op takes."""
    loop: Loop = node.params["loop"]

    def frame(
        name: str, names: list[str], lines: list[str], outputs: list[str], fresh: Fresh
    ) -> list[str]:
        return _for(loop, name, names, lines, outputs, fresh)

    return Written(
        ("scan", id(loop), loop.keep),
        [(node.name or "scan", loop.body.graph)],
        frame,
        lambda functions, operands: f"{functions[0]}({', '.join(operands)})",
    )


def _for(
    loop: Loop,
    name: str,
    names: list[str],
    lines: list[str],
    outputs: list[str],
    fresh: Fresh,
) -> list[str]:
    """The lines of a loop, around those of its step."""
    first = loop.consts + loop.seqs
    rows, carries = names[loop.consts : first], names[first:]
    seqs = [fresh(f"{row}s") for row in rows]
    count = [fresh("n")] if loop.counted else []
    arguments = [*count, *names[: loop.consts], *seqs, *carries]
    made = [f"def {name}({', '.join(arguments)}):"]
    if len(made[0]) > WIDTH:
        inner = "".join(f"{INDENT}{x},\n" for x in arguments)
        made = f"def {name}(\n{inner}):".split("\n")
    ends = len(outputs) - loop.until
    stop = outputs[-1] if loop.until else None
    stored = list(
        range(loop.carries, ends if loop.keep else loop.carries + loop.visible)
    )
    stacks = {i: fresh("rows") for i in stored}
    marks = [fresh("kept") for _ in loop.marks] if loop.keep else []
    steps = fresh("steps") if loop.until or marks else ""
    made += [f"{INDENT}{stack} = []" for stack in (*stacks.values(), *marks)]
    if steps:
        made.append(f"{INDENT}{steps} = 0")
    turned = "[::-1]" if loop.reverse else ""
    if seqs:
        source = ", ".join(f"{x}{turned}" for x in seqs)
        source = f"zip({source})" if len(seqs) > 1 else source
        made.append(f"{INDENT}for {', '.join(rows)} in {source}:")
    else:
        n = count[0] if count else repr(loop.steps)
        made.append(f"{INDENT}for _ in range({n}):")
    pad = INDENT * 2
    if marks:
        made.append(f"{pad}if {steps} % {loop.every} == 0:")
        made += [
            f"{pad}{INDENT}{kept}.append({carries[i]})"
            for kept, i in zip(marks, loop.marks, strict=True)
        ]
    if steps:
        made.append(f"{pad}{steps} += 1")
    made += [f"{INDENT}{line}" for line in lines]
    made += [f"{pad}{stack}.append({outputs[i]})" for i, stack in stacks.items()]
    if stop is not None and not stop.isidentifier():
        stop, code = fresh("stop"), stop
        made.append(f"{pad}{stop} = {code}")
    moved = [i for i in range(loop.carries) if outputs[i] != carries[i]]
    if moved:
        left = ", ".join(carries[i] for i in moved)
        made.append(f"{pad}{left} = {', '.join(outputs[i] for i in moved)}")
    if stop is not None:
        made += [f"{pad}if {stop}:", f"{pad}{INDENT}break"]
    if made[-1].endswith(":"):
        made.append(f"{pad}pass")
    results = list(carries)
    for i in range(loop.carries, ends):
        results.append(_stack(loop, i, stacks[i]) if i in stacks else "None")
    results += [f"np.stack({kept})" for kept in marks]
    results += ["None"] * (len(loop.marks) - len(marks))
    if loop.until:
        results.append(f"np.int64({steps})")
    code = ", ".join(results) + ("," if len(results) == 1 else "")
    if len(code) > WIDTH - 12:
        return [
            *made,
            f"{INDENT}return (",
            *(f"{INDENT * 2}{x}," for x in results),
            f"{INDENT})",
        ]
    return [*made, f"{INDENT}return {code}"]


def _stack(loop: Loop, output: int, rows: str) -> str:
    turned = f"{rows}[::-1]" if loop.reverse else rows
    if loop.steps is not None and loop.steps > 0:
        return f"np.stack({turned})"
    spec = types.spec_of(loop.body.outputs[output])
    shape = tuple(n if isinstance(n, int) else 0 for n in spec.shape)
    return f"np.stack({turned}) if {rows} else np.zeros({(0, *shape)}, np.{spec.dtype})"


def _cond(node: Tensor) -> Written:
    """A choice of two functions."""
    branches = node.params["branches"]

    def call(functions: Sequence[str], operands: Sequence[str]) -> str:
        yes, no = functions
        return f"({yes} if {operands[0]} else {no})({', '.join(operands[1:])})"

    return Written(
        ("cond", id(branches)),
        [
            (name, body.graph)
            for name, body in zip(("on_true", "on_false"), branches, strict=True)
        ],
        _plain,
        call,
    )


def _plain(
    name: str, names: list[str], lines: list[str], outputs: list[str], fresh: Fresh
) -> list[str]:
    head = f"def {name}({', '.join(names)}):"
    results = ", ".join(outputs) + ("," if len(outputs) == 1 else "")
    return [head, *lines, f"{INDENT}return {results or '()'}"]


text.WRITTEN["scan"] = _scan
text.WRITTEN["cond"] = _cond
SPELLED["scan_window"] = "{0:20}[:{1}]"
HELPERS: dict[str, Any] = text.HELPERS
HELPERS["scan_pad"] = '''\
def scan_pad(g, x):
    """g, and zeros after it, as many rows as x has."""
    out = np.zeros_like(g, shape=(len(x), *g.shape[1:]))
    out[: len(g)] = g
    return out
'''
