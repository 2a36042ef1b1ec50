"""Answers to questions about one node, and what the page's targets mean."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from workbench.core import types
from workbench.core.tensor import Tensor
from workbench.errors import OverrideError
from workbench.ops.define import shape_of
from workbench.overrides.targets import ByNode, ByOp, ByScope, Target
from workbench.session import Session, statistics
from workbench.session.stages import is_leaf
from workbench.session.wire.columns import constant_text
from workbench.session.wire.header import cut
from workbench.session.wire.inside import code_of, settings_of
from workbench.session.wire.protocol import DetailBody

__all__ = ["detail", "read_target"]

#: What stands between the rules of an op by each of its inputs.
BETWEEN = "   "

#: Arrays up to so many entries are shown in full.
SMALL = 100


def detail(session: Session, node: int) -> DetailBody:
    """The rule, the inputs, the settings and the numbers of one node.

    Raises
    ------
    UnknownNodeError
        If there is no such node.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> session = wb.Session(wb.trace(lambda x: np.sum(np.tanh(x)))(np.ones(2)))
    >>> found = detail(session, 1)
    >>> found["rule"], found["inputs"], found["gradient_array"]
    ('g · (1 − y²)', ['x'], '[1. 1.]')
    """
    i = session.nodes.find(node)
    g = true = None
    with session.lock:  # a run in another thread changes all stages at once
        found = session.graph.nodes[i]
        if session.backward is not None:
            g = session.backward.cotangents.get(i)
        if session.resolution is not None and session.truth is not None:
            true = session.truth.cotangents.get(i)
    return DetailBody(
        node=i,
        rule=ruled(found, session),
        inputs=[said(x, session) for x in found.inputs],
        params=[[name, cut(text)] for name, text in settings_of(found)],
        code=code_of(found),
        value=statistics.distribution(found._value),
        gradient=statistics.distribution(g),
        true_gradient=statistics.distribution(true),
        array=printed(found._value),
        gradient_array=printed(g),
    )


def ruled(node: Tensor, session: Session) -> str | None:
    """A node's rule; of several rules those by its nodes, each with the node's name."""
    if is_leaf(node) or not node.op.rule:
        return None
    rules = node.op.rule.split(BETWEEN)
    if len(rules) == 1 or len(rules) != len(node.inputs):
        return node.op.rule
    return BETWEEN.join(
        f"by {said(x, session)}: {rule}"
        for x, rule in zip(node.inputs, rules, strict=True)
        if isinstance(x, Tensor)
    )


def said(x: Any, session: Session) -> str:
    """An input as text: a node by its name, a constant by its value or shape."""
    if isinstance(x, Tensor):
        label = session.nodes.labels[session.nodes.find(x)]
        return (is_leaf(x) and constant_text(x)) or label
    if types.weak(x) or getattr(x, "shape", None) == ():
        return cut(str(x))
    return repr(types.spec_of(x)) if hasattr(x, "shape") else cut(repr(x))


def printed(x: Any) -> str | None:
    """A small array in full, as NumPy prints it."""
    if x is None or isinstance(x, tuple):
        return None
    if types.weak(x):
        return str(x)
    if not hasattr(x, "shape") or int(np.prod(shape_of(x))) > SMALL:
        return None
    return cut(str(x))


def read_target(data: Mapping[str, Any]) -> Target:
    """What the page means by a target.

    Raises
    ------
    OverrideError
        If it is none, or one that only Python can give.
    """
    kind = data.get("kind")
    value = data.get(kind) if kind in ("node", "op", "scope") else None
    if kind == "node" and type(value) is int:
        return ByNode(value)
    if kind == "op" and isinstance(value, str):
        return ByOp(value)
    if kind == "scope" and isinstance(value, str):
        return ByScope(value)
    raise OverrideError(
        f"{cut(repr(dict(data)))} is no target that the page can give: a node, an op"
        " or a scope."
    )
