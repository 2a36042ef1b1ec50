"""What a node is made of, in words and as code: loops, branches, ops of the user's.

All of it is text, and of bounded size: the page shows it and never runs it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from workbench.autodiff import inner_programs
from workbench.backends import numpy as backend
from workbench.core import blame, source, types, walk
from workbench.core.graph import Graph
from workbench.core.tensor import Tensor, leaf
from workbench.errors import WorkbenchError

__all__ = ["code_of", "settings_of"]

#: Programs of more nodes are told in words, and longer texts are cut.
MOST_NODES = 300
MOST_CHARACTERS = 8000


def settings_of(node: Tensor) -> Iterator[tuple[str, str]]:
    """The settings of a node as text; those that hold programs or rules in words."""
    for name, value in node.params.items():
        if name == "loop" and node.op.name == "scan":
            yield from _looped(node, value)
        elif name == "branches" and node.op.name == "cond":
            yield "branches", "on_true, on_false"
        else:
            yield name, repr(value) if isinstance(value, str) else str(value)
    yield from _written(node.op.maker)


def _looped(node: Tensor, loop: Any) -> Iterator[tuple[str, str]]:
    """What a loop goes through, and what it carries."""
    names = [x.name or "" for x in loop.body.leaves]
    first = loop.consts + loop.seqs
    yield "steps", _steps(node, loop)
    for what, part in (
        ("sequences", names[loop.consts : first]),
        ("states", names[first:]),
        ("constants", names[: loop.consts]),
    ):
        if part:
            named = ", ".join(name or "…" for name in part)
            yield what, f"{len(part)}: {named}" if any(part) else str(len(part))
    yield "each step", f"{len(loop.body.nodes):,} ops"
    if loop.every is not None:
        yield "memory", f"every {loop.every} steps, the others are run again"


def _steps(node: Tensor, loop: Any) -> str:
    count = loop.steps
    if loop.counted:
        n = node.inputs[0]
        count = n._value if isinstance(n, Tensor) else n
    elif loop.seqs:
        at = loop.counted + loop.consts
        shape = types.spec_of(node.inputs[at]).shape
        count = shape[0] if shape else None
    told = "as many as there are entries" if count is None else str(count)
    if loop.until:
        told = f"until it says so, at most {told}" if count is not None else told
    return f"{told}, from the last" if loop.reverse else told


def _written(maker: Any) -> Iterator[tuple[str, str]]:
    """The lines on which the user has written an op: its value and its rules."""
    given = getattr(maker, "_gives", None)
    for name in ("f", "compute", "fallback", "vjp", "jvp", "backward"):
        function = getattr(maker, name, None)
        if function is None or (
            given is not None and name in ("vjp", "jvp") and not given(name)
        ):
            continue
        code = getattr(getattr(function, "__func__", function), "__code__", None)
        site = source.decode(code, 0)
        if site is not None and not site.filename.startswith(_OWN):
            yield "value" if name == "f" else name, blame.at(site).strip(" ()")
    texts = getattr(maker, "_texts", None)
    if texts:
        languages = {"c": "C", "cpp": "C++", "cuda": "CUDA"}
        state = "compiled" if maker._natives else "not compiled yet"
        if maker._warned and not maker._natives:
            state = "not compiled: the NumPy fallback runs"
        yield "kernel", f"{', '.join(languages[k] for k in texts)}; {state}"


#: Where Workbench's own files stand: their lines are none of the user's.
_OWN = blame.__file__.removesuffix("core/blame.py")


def code_of(node: Tensor) -> str | None:
    """What runs inside a node: NumPy code, a kernel's source; None: nothing."""
    op = node.op
    texts = getattr(op.maker, "_texts", None)
    if texts:
        return _cut("\n\n".join(text.text.strip("\n") for text in texts.values()))
    held = op.source is not None
    if not held and op.body is None:
        return None
    try:
        inner = _inside(node, held)
        if len(inner) > MOST_NODES:
            counts = Counter(x.op.name for x in inner)
            told = ", ".join(f"{n:,} × {name}" for name, n in counts.most_common(8))
            return f"{len(inner):,} ops: {told}{', …' if len(counts) > 8 else ''}"
        return _cut(backend.compile(_alone(node)).source)
    except WorkbenchError:
        return None


def _inside(node: Tensor, held: bool) -> list[Tensor]:
    """The nodes that run inside a node, and those inside them."""
    if held:
        return inner_programs.everything([node])[1:]
    assert node.op.body is not None
    specs = [types.spec_of(x) for x in node.inputs]
    graph: Graph = node.op.body(*specs)
    return inner_programs.everything([x for x in graph.nodes if x.inputs])


def _alone(node: Tensor) -> Graph:
    """A program of this node and nothing else, on inputs of its own."""
    leaves: dict[int, Tensor] = {}
    inputs: list[Any] = []
    for x in node.inputs:
        if isinstance(x, Tensor) and x.serial not in leaves:
            leaves[x.serial] = new = leaf(x._value, x.name)
            if x._value is None:
                new.spec = x.spec
        inputs.append(leaves[x.serial] if isinstance(x, Tensor) else x)
    made = walk.like(node, tuple(inputs), node.args, node._value)
    return Graph(list(leaves.values()), [made])


def _cut(text: str) -> str:
    """A text of bearable length, whole lines of it."""
    if len(text) <= MOST_CHARACTERS:
        return text
    kept = text[:MOST_CHARACTERS].rpartition("\n")[0]
    return f"{kept}\n… and {text.count(chr(10)) - kept.count(chr(10))} more lines"
