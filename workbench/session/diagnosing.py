"""The doctor on a session: what is wrong with what it has now, and what mends it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from workbench.checks.doctor.case import Case, Progress
from workbench.checks.doctor.diagnose import examine, fix_of
from workbench.checks.doctor.finding import Finding, Findings
from workbench.core import types, walk
from workbench.core.tensor import Tensor
from workbench.errors import UsageError
from workbench.overrides.override import override
from workbench.overrides.targets import ByNode, ByOp
from workbench.session.applied_override import Attached
from workbench.session.coding import code_line
from workbench.session.history import Entry

#: A `Session`, whose file stands above this one.
Session = Any

__all__ = ["diagnose", "fix"]


def diagnose(session: Session, progress: Progress | None = None) -> Findings:
    """Look at the state that a session has; kept as its `findings`."""
    with session.lock:  # a run in another thread changes all of it at once
        state = session._state
        session.needed()
        nodes = state.forward.graph.nodes
        seed = state.objective.cotangent(state.forward)
        output = session.output
        wrt = list(session.wrt)
    case = Case(
        f"session {session.name!r}",
        [nodes[output]],
        [seed],
        [nodes[i] for i in wrt],
        None if state.resolution is None else state.resolution.pulls(),
        named=_namer(session, state),
        progress=progress,
        unread=_unread(state.forward.graph, nodes[output], wrt, nodes),
    )
    found = examine(case)
    found = replace(found, found=tuple(_said(session, state, one) for one in found))
    session._keep("findings", found, state)
    return found


def _said(session: Session, state: Any, finding: Finding) -> Finding:
    """The finding with the line that attaches its fix to this session."""
    mend, i = finding.fix, state.forward.ids.get(finding.node.serial)
    if mend is None or mend.rule is None or i is None:
        return finding
    target = ByOp(finding.node.op.name) if mend.everywhere else ByNode(i)
    entry = Entry(0, override(target, mend.rule))
    line = code_line(session.name, entry, session.nodes)
    return replace(finding, fix=replace(mend, code=line))


def _namer(session: Session, state: Any) -> Callable[[Tensor], str]:
    """What the picture calls a node."""
    ids, labels = state.forward.ids, session.nodes.labels

    def named(node: Tensor) -> str:
        i = ids.get(node.serial)
        return labels[i] if i is not None else node.name or node.op.name

    return named


def _unread(graph: Any, output: Tensor, wrt: list[int], nodes: Any) -> list[Tensor]:
    """Float inputs of the program that its output does not depend on at all."""
    reached = {x.serial for x in walk.order([output])}
    return [
        x
        for x in graph.inputs
        if x.serial not in reached and types.differentiable(x.dtype)
    ]


def fix(session: Session, which: Finding | int) -> Attached | str:
    """Attach what mends a finding; or the code to write, where that is not enough.

    Raises
    ------
    UsageError
        If there is no such finding, nothing mends it, or it is of another program.
    """
    if isinstance(which, Finding):
        finding = which
    elif type(which) is not int:
        raise UsageError(
            f"{session.name}.fix({which!r}): give a finding, or its number among"
            f" {session.name}.findings."
        )
    else:
        found = session.findings
        if found is None:
            raise UsageError(
                f"{session.name}.fix({which}): nothing was found yet. Call"
                f" {session.name}.diagnose() first."
            )
        if not -len(found) <= which < len(found):
            raise UsageError(
                f"{session.name}.fix({which}): there are {len(found)} findings, from 0"
                f" to {len(found) - 1}."
                if len(found)
                else f"{session.name}.fix({which}): there is no finding."
            )
        finding = found[which]
    mend = fix_of(finding)
    if mend.rule is None:
        return mend.code
    node = finding.node
    known = session._diagnosed
    # Of a run that others have followed the Tensors are gone, their ids are not.
    i = None if known is None else known[0].forward.ids.get(node.serial)
    at = session.nodes.find(node) if i is None else i
    target = node.op.name if mend.everywhere else at
    made: Attached = session.override(target, mend.rule)
    return made
