"""Overrides: another gradient rule for some nodes of a program, as a value.

An `Override` says which nodes (its target) and what runs there (its rules). It
changes nothing by itself: `resolve` finds the nodes of a given program that it
applies to, and the sweeps run the rules that result. Targets stand in
`targets.py`, what a rule does at a node in `rules.py`, the language of textual
rules in `expression.py`.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import inf
from types import TracebackType
from typing import Any
from weakref import WeakKeyDictionary

from workbench.errors import OverrideError
from workbench.graph import blame, walk
from workbench.graph.tensor import IDENTITY, Tensor, next_serial
from workbench.transforms import within
from workbench.transforms.expression import parse
from workbench.transforms.rules import Pull, Push
from workbench.transforms.targets import (
    ByNode,
    Nodes,
    Target,
    missed,
    name_of,
    target_of,
)

__all__ = [
    "Override",
    "Resolution",
    "label_of",
    "override",
    "overrides",
    "resolve",
    "resolve_call",
]

# The value


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


_NUMBER = r"([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)"
_LABELS: list[tuple[str, Callable[..., str]]] = [
    ("true|d", lambda: "true"),
    (
        rf"clip\(d,{_NUMBER},{_NUMBER}\)",
        lambda low, high: (
            f"clip ±{short(abs(float(high)))}"
            if float(low) == -float(high)
            else f"clip {short(float(low))} … {short(float(high))}"
        ),
    ),
    (rf"{_NUMBER}\*d", lambda factor: f"scale ×{short(float(factor))}"),
    (r"zeros_like\(d\)", lambda: "stop"),
    ("-d", lambda: "reverse"),
    ("g", lambda: "straight-through"),
]


def label_of(rule: str | Callable[..., Any]) -> str:
    """A short text for a rule.

    >>> label_of("clip(d, -0.1, 0.1)"), label_of("0.5 * d"), label_of("g")
    ('clip ±0.1', 'scale ×0.5', 'straight-through')
    """
    if not isinstance(rule, str):
        return name_of(rule)
    packed = "".join(rule.split())
    for pattern, label in _LABELS:
        if (match := re.fullmatch(pattern, packed)) is not None:
            return label(*match.groups())
    text = " ".join(rule.split())
    return text if len(text) <= 28 else f"{text[:27]}…"


def short(number: float) -> str:
    """A number as people write it: no needless zeros, a real minus sign."""
    text = re.sub(r"e([+-])0*", r"e\1", repr(number).removesuffix(".0"))
    return text.replace("e+", "e").replace("-", "−")


# Which nodes of a program


class Resolution:
    """Which override's rule runs at which node of one program.

    Attributes
    ----------
    overrides
        All that were asked for, those that are off too.
    matched
        For each of them, the nodes that its target means.
    winners
        The override that has the say at a node, by the node's serial: its
        position in `overrides`, and the node.
    """

    def __init__(
        self, overrides: Sequence[Override], matched: list[list[Tensor]]
    ) -> None:
        self.overrides = list(overrides)
        self.matched = matched
        self.winners: dict[int, tuple[int, Tensor]] = {}
        order = sorted((o.target.rank, i) for i, o in enumerate(overrides) if o.enabled)
        for _, i in order:
            for node in matched[i]:
                self.winners[node.serial] = i, node

    def pulls(self) -> dict[int, Pull]:
        """The rules for `reverse.pull_back`."""
        made = {s: self.overrides[i].pull(n) for s, (i, n) in self.winners.items()}
        return {s: rule for s, rule in made.items() if rule is not None}

    def pushes(self) -> dict[int, Push]:
        """The rules for `forward.push_forward`."""
        made = {s: self.overrides[i].push(n) for s, (i, n) in self.winners.items()}
        return {s: rule for s, rule in made.items() if rule is not None}


#: When an override last matched something: the serial of a Tensor made then.
_MATCHED: WeakKeyDictionary[Override, int] = WeakKeyDictionary()


def resolve(
    overrides: Sequence[Override],
    nodes: Nodes,
    *,
    where: str = "the program",
    since: float = inf,
) -> Resolution:
    """Find the nodes of a program that each override applies to.

    Parameters
    ----------
    overrides
        In order: of two of the same kind at one node, the later one wins.
    nodes
        All nodes of the program; an id means a position among them.
    where
        What an error calls the program.
    since
        An override that has matched elsewhere after this serial need not match
        here: of a Hessian, the gradient inside may hold all the nodes.

    Raises
    ------
    OverrideError
        If an override that is on matches nothing; with what was close.
    """
    # A node that a derivative has made is none of the user's program, unless the
    # user points at it.
    ops = [n for n in nodes if n.op is not IDENTITY and n.origin is None]
    matched = []
    for given in overrides:
        by_id = isinstance(given.target, ByNode)
        found = given.target.select(nodes if by_id else ops)
        if by_id and found and found[0].op is IDENTITY:
            raise OverrideError(
                f"{blame.describe(found[0])} has no op, so no rule to override."
                " Override a node that reads it."
            )
        if found:
            _MATCHED[given] = next_serial()
        elif given.enabled and _MATCHED.get(given, 0) < since:
            raise OverrideError(missed(given.target, given.label, nodes, where))
        matched.append(found)
    return Resolution(overrides, matched)


# Overrides of calls


class _Local(threading.local):
    def __init__(self) -> None:
        self.stack: list[overrides] = []


_LOCAL = _Local()


class overrides:
    """Apply overrides to every derivative that is taken inside a ``with`` block.

    Parameters
    ----------
    given
        What :func:`workbench.override` made. Of two with the same kind of target,
        that of the inner block wins, and ``overrides=`` of a call over both.

    Raises
    ------
    OverrideError
        At the end of the block, for one that has matched nothing in it.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> with wb.overrides(wb.override("sin", "0.5 * d")):
    ...     wb.grad(lambda x: np.sum(np.sin(x)))(np.zeros(2))
    array([0.5, 0.5])
    """

    def __init__(self, *given: Override) -> None:
        self.given = checked(given)
        self.unmatched: set[int] = set()
        #: One node for each op and scope that a derivative in the block has seen.
        self.seen: dict[tuple[str, str | None], Tensor] = {}

    def __enter__(self) -> overrides:
        self.unmatched = {i for i, o in enumerate(self.given) if o.enabled}
        self.seen.clear()
        _LOCAL.stack.append(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        _LOCAL.stack.remove(self)
        if error is None and self.unmatched:
            given = self.given[min(self.unmatched)]
            if not self.seen:
                raise OverrideError(
                    f"override {given.label!r} on {given.target}: no derivative was"
                    " taken in the `with` block. Call wb.grad(f)(x) inside it."
                )
            raise OverrideError(
                missed(
                    given.target,
                    given.label,
                    self.seen.values(),
                    "what the block differentiated",
                )
            )

    def meet(self, nodes: Nodes) -> list[Override]:
        """Those that apply to a program, so that they are not missed later."""
        for node in nodes:
            self.seen.setdefault((node.op.name, node.scope), node)
        found = []
        for i, given in enumerate(self.given):
            if given.target.select(nodes):
                self.unmatched.discard(i)
                found.append(given)
        return found


def checked(given: Iterable[Any]) -> list[Override]:
    """A list of overrides, or the error that says how one is made."""
    found = list(given)
    for value in found:
        if not isinstance(value, Override):
            raise OverrideError(
                f"{value!r} is not an override. Make one with"
                ' wb.override("tanh", "clip(d, -1, 1)").'
            )
    return found


def resolve_call(
    given: Sequence[Override] | None, outputs: Sequence[Any], leaves: Nodes, what: str
) -> Resolution | None:
    """The overrides of one call of `grad` and its like; None if there are none.

    Those of the `with` blocks around it come first, then those of the call. Only
    the program that the user wrote is looked at: a node that a derivative made
    while it was recorded is none of its nodes.
    """
    if not given and not _LOCAL.stack:
        return None
    roots = [x for x in outputs if isinstance(x, Tensor)]
    first = min((x.serial for x in leaves), default=0)
    inside = {x.serial for x in leaves}
    nodes = [
        node
        for node in walk.order(roots, first)
        if node.op is not IDENTITY and node.serial not in inside and node.origin is None
    ]
    nodes = within.everything(nodes)
    found = [o for block in _LOCAL.stack for o in block.meet(nodes)]
    own = checked(given or ())
    for value in own:
        if isinstance(value.target, ByNode) and isinstance(value.target.node, int):
            raise OverrideError(
                f"override {value.label!r} targets node {value.target.node}, but ids"
                f" belong to a session, not to {what}. Target an op, a scope or a"
                " predicate, or use session.override."
            )
    where = f"the function given to {what}"
    return resolve([*found, *own], nodes, where=where, since=first)
