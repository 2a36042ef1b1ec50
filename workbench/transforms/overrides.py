"""Overrides: another gradient rule for some nodes of a program, as a value.

An `Override` says which nodes (its target) and what runs there (its rules). It
changes nothing by itself: `resolving.py` finds the nodes of a given program that it
applies to, and the sweeps run the rules that result. Targets stand in `targets.py`,
what a rule does at a node in `rules.py`, the language of textual rules in
`expression.py`, the short texts for them in `labels.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from workbench.errors import OverrideError
from workbench.graph.tensor import Tensor
from workbench.transforms.expression import parse
from workbench.transforms.labels import label_of
from workbench.transforms.rules import Pull, Push
from workbench.transforms.targets import Target, name_of, target_of

__all__ = ["Override", "override"]


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Override:
    """Another gradient rule for some nodes; made by :func:`workbench.override`.

    Attributes
    ----------
    target
        Which nodes.
    vjp, jvp
        The rules: an expression, a function, ``"true"``, or (``jvp``) None.
    name
        What the picture and errors call it.
    enabled
        Whether it is applied; one that is off is still listed.
    """

    target: Target
    vjp: str | Callable[..., Any]
    jvp: str | Callable[..., Any] | None = None
    name: str | None = None
    enabled: bool = True

    @property
    def label(self) -> str:
        """Its name, or a short text for its rule: ``"clip ±0.1"``."""
        return self.name or label_of(self.vjp)

    @property
    def rule(self) -> str:
        """The expression, or the name of the function."""
        if self.vjp == "true":
            return "d"
        return self.vjp if isinstance(self.vjp, str) else name_of(self.vjp)

    @property
    def data(self) -> bool:
        """Whether the rule is data, so that it can be edited and stored."""
        return isinstance(self.vjp, str)

    def pull(self, node: Tensor) -> Pull | None:
        """The reverse rule at a node; None for the true one."""
        if self.vjp == "true":
            return None
        return Pull(node, ready(self.vjp, "g"), self.label)

    def push(self, node: Tensor) -> Push | None:
        """The forward rule at a node; None for the true one."""
        if self.jvp == "true" or (self.jvp is None and self.vjp == "true"):
            return None
        pull = Pull(node, ready(self.vjp, "g"), self.label)
        return Push(pull, None if self.jvp is None else ready(self.jvp, "t"))

    def __repr__(self) -> str:
        off = "" if self.enabled else ", off"
        return f"<override {self.label!r} on {self.target}{off}>"


def override(
    target: Any,
    vjp: str | Callable[..., Any] | None = None,
    *,
    jvp: str | Callable[..., Any] | None = None,
    name: str | None = None,
    enabled: bool = True,
) -> Override:
    """Another gradient rule for part of a program.

    Parameters
    ----------
    target
        A Tensor or (in a session) its id: this node. An op or its name,
        ``"matmul"``: every node of that op. A scope or a glob of scopes,
        ``"encoder/*"``: every node in them. A function of a node: every node for
        which it is true. Where several apply to a node, the more particular
        wins (node, function, scope, op), then the later one.
    vjp
        The reverse rule. A function ``rule(node, *cotangents)`` that returns one
        gradient (or None) per input; see :class:`workbench.transforms.rules.Node`.
        Of a complex gradient of a real input the real part counts.
        An op that takes the inputs, then the cotangents.
        Or an expression, such as ``"clip(d, -1, 1)"``, that is computed once for
        each input: ``g`` is the gradient that arrives, ``d`` what the true rule
        would pass on, ``x`` the input (``x0``, ``x1``, ... all of them), ``y`` the
        output. Or ``"true"``.
    jvp
        The forward rule: a function ``rule(node, *tangents)`` with None for an
        input that does not vary, an expression of the tangent ``t`` (``t0``, ...),
        or ``"true"``. By default ``vjp`` transposed, if it is linear in ``g``.
    name
        What to call it; by default a short text for its rule.
    enabled
        Whether to apply it.

    Raises
    ------
    OverrideError
        If it has no rule; ExpressionError if an expression is refused.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> f = lambda x: np.sum(np.square(x))
    >>> clip = wb.override("square", "clip(d, -1, 1)")
    >>> wb.grad(f, overrides=[clip])(np.array([0.1, 5.0]))
    array([0.2, 1. ])
    """
    if vjp is None:
        raise OverrideError(
            f"override({target!r}) has no vjp: give the reverse rule, such as"
            ' vjp="clip(d, -1, 1)", or vjp="true" for the true rule.'
        )
    for rule, arriving, which in ((vjp, "g", "vjp"), (jvp, "t", "jvp")):
        if isinstance(rule, str) and rule != "true":
            parse(rule, arriving)
        elif rule is not None and not isinstance(rule, str) and not callable(rule):
            raise OverrideError(
                f"{which}={rule!r} is not a rule: give an expression in a string, or a"
                " function rule(node, g)."
            )
    if name == label_of(vjp):
        name = None  # it says that by itself, and its code stays short
    return Override(target_of(target), vjp, jvp, name, enabled)


def ready(rule: str | Callable[..., Any], arriving: str) -> Any:
    """A rule as it runs: an expression read, a function as it is."""
    if isinstance(rule, str):
        return parse("d" if rule == "true" else rule, arriving)
    return rule
