"""Overrides of a session as the lines of Python that attach them."""

from __future__ import annotations

from typing import Any

from workbench.errors import OverrideError
from workbench.overrides.lambdas import lambda_text
from workbench.overrides.linear_structures import ByLinear
from workbench.overrides.patterns import ByPattern
from workbench.overrides.subgraphs import BySubgraph
from workbench.overrides.targets import (
    ByNode,
    ByOp,
    ByScope,
    Target,
    name_of,
    target_of,
)
from workbench.session.applied_override import is_data
from workbench.session.history import Entry
from workbench.session.nodes import Nodes

__all__ = ["code_line", "lines_of"]


def lines_of(lines: list[str]) -> str:
    """The lines that attach overrides, in order.

    A line that stands there twice attaches once, and it is the later of two equal
    overrides that has the say.
    """
    kept = list(dict.fromkeys(reversed(lines)))
    return "\n".join(reversed(kept))


def code_line(session: str, entry: Entry, nodes: Nodes) -> str:
    """The line of Python that attaches an override to a session.

    A lambda is written out, another function called by its name, and one that has
    neither source nor name ``rule_1`` or ``where_1``, by the number of the override:
    the comment says which are the user's own.
    """
    override, yours = entry.override, list[str]()
    text = target_code(override.target, entry.id, session, nodes, yours)
    settings = []
    for which, rule in (("vjp", override.vjp), ("jvp", override.jvp)):
        if rule is None:
            continue
        if isinstance(rule, str) or is_data(rule):
            settings.append(f"{which}={rule!r}")
        else:
            word = "rule" if which == "vjp" else "forward"
            settings.append(f"{which}={called(rule, f'{word}_{entry.id}', yours)}")
    if override.name is not None:
        settings.append(f"name={override.name!r}")
    if not override.enabled:
        settings.append("enabled=False")
    line = f"{session}.override({text}, {', '.join(settings)})"
    if not yours:
        return line
    return f"{line}  # with your function {', '.join(dict.fromkeys(yours))}"


def target_code(
    target: Target, number: int, session: str, nodes: Nodes, yours: list[str]
) -> str:
    """A target as code; the user's functions in it are noted in ``yours``."""
    if isinstance(target, ByNode):
        i = nodes.find(target.node)
        name = nodes.name_of(i)
        if name is None:
            return repr(i)
        return repr(name) if means_node(name) else f"{session}[{name!r}]"
    if isinstance(target, ByOp):
        if target.maker is None:
            return repr(target.op)
        yours.append(target.op)
        return target.op
    if isinstance(target, ByScope):
        return repr(f"{target.glob.removesuffix('/*')}/*")
    if isinstance(target, BySubgraph):
        ends, reads = (
            ", ".join(repr(place(x, nodes)) for x in part)
            for part in (target.outputs, target.inputs)
        )
        return f"wb.subgraph([{ends}], [{reads}])"
    if isinstance(target, ByLinear):
        data, where = target.data_text, target.where
        if data is None:
            yours.append(data := f"data_{number}")
        return target.spelled(
            data, None if where is None else called(where, f"where_{number}", yours)
        )
    if isinstance(target, ByPattern):
        text = called(target.function, f"pattern_{number}", yours)
        if target.where is not None:
            text += f", where={called(target.where, f'where_{number}', yours)}"
        return f"wb.pattern({text}{target.declared})"
    predicate = getattr(target, "predicate", None)
    return called(predicate, f"where_{number}", yours)


def place(node: Any, nodes: Nodes) -> str | int:
    """What finds a node in a session: its name, or its id."""
    i = nodes.find(node)
    return nodes.name_of(i) or i


def means_node(name: str) -> bool:
    """Whether a name alone means the node, and not an op of that name."""
    try:
        return isinstance(target_of(name), ByScope)
    except OverrideError:
        return False


def called(function: Any, otherwise: str, yours: list[str]) -> str:
    """A function as code: a lambda, a name, or what stands for one without."""
    text = lambda_text(function)
    if text is not None:
        return text
    name = name_of(function) if hasattr(function, "__name__") else ""
    name = name if name.isidentifier() else otherwise
    yours.append(name)
    return name
