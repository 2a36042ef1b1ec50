"""Overrides of a session as the lines of Python that attach them."""

from __future__ import annotations

from typing import Any

from workbench.errors import OverrideError
from workbench.session.attached import is_data
from workbench.session.history import Entry
from workbench.session.nodes import Nodes
from workbench.transforms.targets import (
    ByNode,
    ByOp,
    ByScope,
    Target,
    name_of,
    target_of,
)

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

    A function is called by its name, and one without a name ``rule_1`` or
    ``where_1``, by the number of the override: the comment says which are the user's
    own.
    """
    override, yours = entry.override, []
    text, function = target_code(override.target, entry.id, session, nodes)
    if function:
        yours.append(function)
    settings = []
    for which, rule in (("vjp", override.vjp), ("jvp", override.jvp)):
        if rule is None:
            continue
        if isinstance(rule, str) or is_data(rule):
            settings.append(f"{which}={rule!r}")
        else:
            word = "rule" if which == "vjp" else "forward"
            called = called_by(rule, f"{word}_{entry.id}")
            settings.append(f"{which}={called}")
            yours.append(called)
    if override.name is not None:
        settings.append(f"name={override.name!r}")
    if not override.enabled:
        settings.append("enabled=False")
    line = f"{session}.override({text}, {', '.join(settings)})"
    if not yours:
        return line
    return f"{line}  # with your function {', '.join(dict.fromkeys(yours))}"


def target_code(
    target: Target, number: int, session: str, nodes: Nodes
) -> tuple[str, str]:
    """A target as code, and the user's function in it, if there is one."""
    if isinstance(target, ByNode):
        i = nodes.find(target.node)
        name = nodes.name_of(i)
        if name is None:
            return repr(i), ""
        return (repr(name) if means_node(name) else f"{session}[{name!r}]"), ""
    if isinstance(target, ByOp):
        if target.maker is None:
            return repr(target.op), ""
        called = called_by(target.maker, target.op)
        return called, called
    if isinstance(target, ByScope):
        return repr(f"{target.glob.removesuffix('/*')}/*"), ""
    if (code := getattr(target, "code", None)) is not None:
        return str(code), ""
    called = called_by(getattr(target, "predicate", None), f"where_{number}")
    return called, called


def means_node(name: str) -> bool:
    """Whether a name alone means the node, and not an op of that name."""
    try:
        return isinstance(target_of(name), ByScope)
    except OverrideError:
        return False


def called_by(function: Any, otherwise: str) -> str:
    """The name of a function that code can call it by."""
    if not hasattr(function, "__name__"):
        return otherwise
    name = name_of(function)
    return name if name.isidentifier() else otherwise
