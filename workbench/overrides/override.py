"""Overrides: another gradient rule for some nodes of a program, as a value.

An `Override` says which nodes (its target) and what runs there (its rules). It
changes nothing by itself: `resolution.py` finds the nodes of a given program that it
applies to, and the sweeps run the rules that result. Targets stand in `targets.py`,
how rules run in `rules.py` and at a node in `node_rule.py`, the language of textual
rules in `expression.py`, rules by their names in `named.py` and `rule_parser.py`, with
the short texts for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any

from workbench.core.blame import shorten
from workbench.core.tensor import Tensor
from workbench.errors import OverrideError
from workbench.overrides.expression import Expression
from workbench.overrides.node_rule import NodeRule, NodeRunner
from workbench.overrides.rule_parser import BoundRule, label_of, parse_rule
from workbench.overrides.targets import (
    ByNode,
    ByOp,
    ByPart,
    ByPredicate,
    ByScope,
    Target,
    name_of,
    target_of,
)

#: The longest name of an override.
MOST_NAME = 200


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Override:
    """Another gradient rule for some nodes; made by :func:`workbench.override`.

    Attributes
    ----------
    target
        Which nodes.
    vjp, jvp
        The rules: an expression, the name of a registered rule, a function,
        ``"true"``, or (``jvp``) None.
    name
        What the picture and errors call it.
    enabled
        Whether it is applied; one that is off is still listed.
    steps
        In which iterations of the loop around the node; None: in all.
    """

    target: Target
    vjp: str | Callable[..., Any]
    jvp: str | Callable[..., Any] | None = None
    name: str | None = None
    enabled: bool = True
    steps: int | slice | None = None
    #: Which of its rules are known to be linear.
    linear: set[Any] = field(default_factory=set, init=False, repr=False)

    @property
    def label(self) -> str:
        """Its name, or a short text for its rule: ``"clip ±0.1"``."""
        return self.name or label_of(self.vjp)

    @property
    def rule(self) -> str:
        """The text, or the name of the function."""
        if self.vjp == "true":
            return "d"
        return self.vjp if isinstance(self.vjp, str) else name_of(self.vjp)

    @property
    def data(self) -> bool:
        """True if the rules are texts, which can be edited and stored."""
        return isinstance(self.vjp, str) and isinstance(self.jvp, (str, type(None)))

    @property
    def stored(self) -> bool:
        """True if the rules can be stored: texts, or nodes of `wb.graph_rule`."""
        return all(
            rule is None or isinstance(rule, str) or hasattr(rule, "to_json")
            for rule in (self.vjp, self.jvp)
        )

    @property
    def distinguishes_inputs(self) -> bool:
        """True if the rules may treat one input otherwise than another.

        A function may; so may an expression that names one: ``x0``, ``t1``.
        """
        for rule, arriving in ((self.vjp, "g"), (self.jvp, "t")):
            made = None if rule is None else prepare_rule(rule, arriving)
            if isinstance(made, Expression):
                if made.numbered:
                    return True
            elif made not in (None, "true"):
                return True
        return False

    def at(
        self, node: Tensor, position: int = 0, otherwise: NodeRule | None = None
    ) -> NodeRule:
        """Return its rules at a node; the arguments as `NodeRule` has them.

        Raises
        ------
        OverrideError
            If a registered rule is not made for the op.
        """
        return self.prepare()(node, position, otherwise)

    def prepare(self) -> Callable[[Tensor, int, NodeRule | None], NodeRule]:
        """Return `at` with the texts of the rules read, once for many nodes."""
        vjp, jvp = prepare_rule(self.vjp, "g"), prepare_rule(self.jvp, "t")
        bound = [rule for rule in (vjp, jvp) if isinstance(rule, BoundRule)]
        turned = vjp  # what forward mode transposes, if it has no rule of its own
        if isinstance(jvp, BoundRule):
            turned, jvp = jvp, jvp.forward_rule()
        elif jvp is None and isinstance(vjp, BoundRule):
            jvp = vjp.forward_rule()
        if jvp is None and turned == "true":
            jvp = "true"

        def make(node: Tensor, position: int, otherwise: NodeRule | None) -> NodeRule:
            for rule in bound:
                rule.check(node)
            back = ahead = NodeRunner(node, self, vjp, jvp, position)
            if turned is not vjp:
                ahead = NodeRunner(node, self, turned, jvp, position)
            return NodeRule(back, ahead, otherwise)

        return make

    def __repr__(self) -> str:
        off = "" if self.enabled else ", off"
        where = f"{self.target}{describe_steps(self.steps)}"
        return f"<override {self.label!r} on {where}{off}>"


def override(
    target: object,
    vjp: str | Callable[..., Any] | None = None,
    *,
    jvp: str | Callable[..., Any] | None = None,
    name: str | None = None,
    enabled: bool = True,
    steps: int | slice | None = None,
) -> Override:
    """Return another gradient rule for part of a program.

    Parameters
    ----------
    target
        A Tensor or (in a session) its id: this node. An op or its name,
        ``"matmul"``: every node of that op. A scope or a glob of scopes,
        ``"encoder/*"``: every node in them. A function of a node: every node for
        which it is true. A structure, :func:`workbench.pattern`, or a part of the
        program, :func:`workbench.subgraph`: one rule for each place, which sees it
        as one node. Where several apply, the more particular wins (node; structure
        or part; function, scope, op), then the later one.
    vjp
        The reverse rule. A function ``rule(node, *cotangents)`` that returns one
        gradient (or None) per input; see :class:`workbench.overrides.node.Node`.
        Of a complex gradient of a real input the real part counts.
        An op that takes the inputs, then the cotangents.
        Or an expression, such as ``"clip(d, -1, 1)"``, that is computed once for
        each input: ``g`` is the gradient that arrives, ``d`` what the true rule
        would pass on, ``x`` the input (``x0``, ``x1``, ... all of them), ``y`` the
        output; the page "Rules and formulas" has the grammar. Or the name of a
        registered rule, ``"safe_sqrt"`` or ``"safe_sqrt(eps=1e-6)"``: those of
        `workbench.rules` and your own (:func:`workbench.named_rule`). Or ``"true"``.
    jvp
        The forward rule: a function ``rule(node, *tangents)`` with None for an
        input that does not vary, an expression of the tangent ``t`` (``t0``, ...),
        the name of a registered rule, or ``"true"``. By default what the rule of
        ``vjp`` says of forward mode, or ``vjp`` transposed, if it is linear in ``g``.
    name
        What to call it; by default a short text for its rule.
    enabled
        Whether to apply it.
    steps
        Of a node in the step of a loop (:func:`workbench.scan`,
        :func:`workbench.while_loop`): the iteration in which the rule holds, counted
        from 0, from the end if negative; or several, ``slice(10, 20)``. In all others
        holds what would hold without this override: another one, or the true rule.
        Nodes outside of loops that the target means too keep the rules that they
        have. Of a structure or a subgraph one override alone may name steps, and a
        node in a branch, a checkpoint or the like inside the step takes none.

    Raises
    ------
    OverrideError
        If it has no rule; ExpressionError if an expression is refused, or no rule
        has that name.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> f = lambda x: np.sum(np.square(x))
    >>> clip = wb.override("square", "clip(d, -1, 1)")
    >>> wb.grad(f, overrides=[clip])(np.array([0.1, 5.0]))
    array([0.2, 1. ])
    """
    if vjp is None:
        known = isinstance(target, (ByOp, ByScope, ByPredicate, ByNode, ByPart))
        raise OverrideError(
            f"the override of {target if known else repr(target)} has no vjp: give the"
            " reverse rule after the target, such as 'clip(d, -1, 1)', '0 * d' for no"
            " gradient, 'true' for the true one, or a function rule(node, g)."
        )
    for rule, arriving, which in ((vjp, "g", "vjp"), (jvp, "t", "jvp")):
        if isinstance(rule, str) and rule != "true":
            parse_rule(rule, arriving)
        elif rule is not None and not isinstance(rule, str) and not callable(rule):
            raise OverrideError(
                f"{which}={rule!r} is not a rule: give an expression in a string, or a"
                " function rule(node, g)."
            )
    if name is not None:
        _check_name(name)
        if name == label_of(vjp):
            name = None  # it says that by itself, and its code stays short
    if steps is not None:
        steps = _check_steps(steps)
    return Override(target_of(target), vjp, jvp, name, enabled, steps)


def write_steps(steps: int | slice | None) -> str:
    """Return iterations as a subscript has them: ``"3"``, ``"10:20"``; "" for all."""
    if not isinstance(steps, slice):
        return "" if steps is None else str(steps)
    ends = [steps.start, steps.stop, *([] if steps.step is None else [steps.step])]
    return ":".join("" if n is None else str(n) for n in ends)


def describe_steps(steps: int | slice | None, times: int | None = None) -> str:
    """Return the words for steps, to stand after a target; "" for None.

    ``times`` is the number of all steps, if that is known.

    >>> describe_steps(17, 500), describe_steps(slice(10, 20)), describe_steps(-1)
    (' in step 17 of 500', ' in steps 10 to 19', ' in the last step')
    """
    if not isinstance(steps, slice):
        of = "" if times is None else f" of {times}"
        last = " in the last step"
        return "" if steps is None else last if steps == -1 else f" in step {steps}{of}"
    first, end = steps.start or 0, steps.stop
    if steps.step in (None, 1) and first >= 0:
        if end is None and first == 0:
            return " in all steps" if times is None else f" in all {times} steps"
        if end is None:
            return f" from step {first} on"
        if end > first:
            return f" in steps {first} to {end - 1}"
    return f" in steps {write_steps(steps)}"


def _check_steps(steps: object) -> int | slice:
    """Return the iterations with Python's numbers, or raise an error for others."""
    if not isinstance(steps, bool) and isinstance(steps, Integral):
        return int(steps)
    if isinstance(steps, slice) and steps.step != 0:
        ends = steps.start, steps.stop, steps.step
        if all(n is None or isinstance(n, Integral) for n in ends) and not any(
            isinstance(n, bool) for n in ends
        ):
            return slice(*[None if n is None else int(n) for n in ends])
    raise OverrideError(
        f"steps={steps!r} names no iterations of a loop: give a number, steps=3 or"
        " steps=-1 for the last, or several, steps=slice(10, 20)."
    )


def _check_name(name: object) -> None:
    """Raise an error for a name that is not a text, too long, or not encodable."""
    good = isinstance(name, str) and len(name) <= MOST_NAME and _is_encodable(name)
    if not good:
        raise OverrideError(
            f"name={shorten(repr(name))} is not a name of an override: give a text of"
            f" at most {MOST_NAME} characters."
        )


def _is_encodable(text: str) -> bool:
    """Return whether UTF-8 can encode a text; half a surrogate pair fails."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def prepare_rule(rule: Any, arriving: str) -> Any:
    """Return a text parsed; a function or ``"true"`` stays unchanged."""
    if isinstance(rule, str) and rule != "true":
        return parse_rule(rule, arriving)
    return rule


def check_overrides(overrides: Iterable[Any]) -> list[Override]:
    """Return the overrides as a list, or raise the error that says how to make one."""
    if isinstance(overrides, Override):
        raise OverrideError(
            f"overrides takes a list of overrides, and got {overrides!r}. Write"
            " overrides=[it]."
        )
    checked = list(overrides)
    for value in checked:
        if not isinstance(value, Override):
            raise OverrideError(
                f"{value!r} is not an override. Make one with"
                ' wb.override("tanh", "clip(d, -1, 1)").'
            )
    return checked
