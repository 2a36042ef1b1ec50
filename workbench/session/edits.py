"""What changes a session: other inputs, overrides, undo and redo.

Everything is computed before anything is let go, so a change that fails or is
interrupted leaves the last good state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from workbench.autodiff.supernode import whole_of
from workbench.errors import OverrideError, UsageError
from workbench.overrides import override as overriding
from workbench.overrides.matching import resolve
from workbench.overrides.override import Override
from workbench.overrides.rule_parser import read
from workbench.overrides.validate_rule import check_on
from workbench.session import applied_override, coding, stages
from workbench.session.applied_override import Attached
from workbench.session.fair_lock import changing
from workbench.session.history import Entry, entry_of
from workbench.session.nodes import fitted
from workbench.session.saving import Saving

__all__ = ["Changing"]


class Changing(Saving):
    """The part of `Session` that changes it."""

    @changing
    def run(self, values: Mapping[str, Any] | None = None, **named: Any) -> Any:
        """Run the program with other inputs, and its gradients with it.

        Python's ``if`` and ``for`` went one way when the program was traced; they
        are not asked again.

        Parameters
        ----------
        values, named
            Inputs by their names, each in the shape it has; the others stay.

        Returns
        -------
        The output's new value.

        Examples
        --------
        >>> import numpy as np, workbench as wb
        >>> session = wb.Session(wb.trace(lambda x: np.sum(x**2))(np.ones(2)))
        >>> float(session.run(x=np.array([3.0, 4.0]))), session.grads["x"]
        (25.0, array([6., 8.]))
        """
        nodes, labels = self.graph.nodes, self.nodes.labels
        leaves: dict[int, Any] = {}
        for key, value in {**(values or {}), **named}.items():
            i = self.nodes.find(key)
            if not stages.is_leaf(nodes[i]):
                inputs = [labels[k] for k, x in enumerate(nodes) if stages.is_leaf(x)]
                raise UsageError(
                    f"run: {labels[i]} is computed, it is not an input. The inputs are"
                    f" {', '.join(inputs)}."
                )
            leaves[i] = fitted(value, nodes[i], labels[i])
        state = self._state
        made = self._made(state.forward.run(leaves), state.entries, state.history)
        self._change(made, "values")
        return self.value

    @changing
    def override(
        self,
        target: Any,
        vjp: str | Callable[..., Any] | None = None,
        *,
        jvp: str | Callable[..., Any] | None = None,
        name: str | None = None,
        enabled: bool = True,
        replacing: int | Attached | None = None,
    ) -> Attached:
        """Attach another gradient rule, and run the backward sweep again.

        Parameters
        ----------
        target
            As for :func:`workbench.override`, and the name of a node, or what the
            picture calls it, ``"tanh 3"``; a name that an op has too means the op,
            ``session[name]`` is the node. Or an override that exists already.
        vjp, jvp, name, enabled
            As for :func:`workbench.override`.
        replacing
            An override, or its id, whose place this one takes. One that is there
            already, with the same rule as data, is not attached again.

        Raises
        ------
        OverrideError
            If it matches nothing or its rule does not fit, an `ExpressionError` if
            its text is refused; nothing has changed then.

        Examples
        --------
        >>> import numpy as np, workbench as wb
        >>> def loss(W, x, b):
        ...     h = np.tanh(W @ x + b)
        ...     h.name = "h"
        ...     return np.sum(h)
        >>> graph = wb.trace(loss)(np.eye(2), np.ones(2), np.zeros(2))
        >>> session = wb.Session(graph, wrt=["b"])
        >>> session.override("h", "clip(d, -0.1, 0.1)")
        <override 1: clip ±0.1 on h; changes b by 76 %>
        >>> session.override(wb.pattern(lambda W, x, b: W @ x + b), "2 * d")
        <override 2: scale ×2 on pattern W @ x + b; changes b by 100 %>
        >>> session.grads["b"]
        array([0.2, 0.2])
        """
        find = partial(applied_override.target_in, self.nodes, self.forward.program)
        if isinstance(target, Override):
            made = replace(target, target=find(target.target))
        else:
            made = overriding.override(
                find(target), vjp, jvp=jvp, name=name, enabled=enabled
            )
        where = applied_override.target_text(made.target, self.nodes)
        if replacing is not None:
            text = f"change to {made.label} on {where}"
            return self._exchange(replacing, made, text)
        if made.data:
            # The same line again, as when its cell runs twice, changes nothing.
            for one in self.overrides:
                if applied_override.alike(one.override, made):
                    return one
        state = self._state
        entry = Entry(state.following, made)
        self._edit(f"{made.label} on {where}", (*state.entries, entry))
        return self._attached(entry.id)

    @changing
    def edit(
        self,
        which: int | Attached,
        vjp: str | Callable[..., Any] | None = None,
        *,
        jvp: str | Callable[..., Any] | None = None,
        name: str | None = None,
    ) -> Attached:
        """Give an override another rule; its target, its number and place stay.

        Parameters
        ----------
        which
            The override, or its number.
        vjp, jvp
            The new rules, as for :func:`workbench.override`; without either, those
            that it has stay. With a new ``vjp`` the old ``jvp`` goes, which belonged
            to the old one.
        name
            What to call it; by default a short text for a new rule.

        Raises
        ------
        OverrideError
            If there is no such override, or the rule does not fit; nothing has
            changed then.

        Examples
        --------
        >>> import numpy as np, workbench as wb
        >>> session = wb.Session(wb.trace(lambda x: np.sum(np.tanh(x)))(np.zeros(2)))
        >>> one = session.override(lambda node: node.op.name == "tanh", "0.5 * d")
        >>> session.edit(one, "3 * d").id, session.grads["x"]
        (1, array([3., 3.]))
        """
        old = entry_of(self._state.entries, number(which)).override
        if vjp is None:
            jvp = old.jvp if jvp is None else jvp
            name = old.name if name is None else name
            vjp = old.vjp
        made = overriding.override(
            old.target, vjp, jvp=jvp, name=name, enabled=old.enabled
        )
        where = applied_override.target_text(made.target, self.nodes)
        return self._exchange(which, made, f"change to {made.label} on {where}")

    @changing
    def switch(self, which: int | Attached, enabled: bool) -> None:
        """Switch an override on or off; one that is off stays listed.

        Raises
        ------
        OverrideError
            If there is no such override.

        Examples
        --------
        >>> import numpy as np, workbench as wb
        >>> session = wb.Session(wb.trace(lambda x: np.sum(np.tanh(x)))(np.zeros(2)))
        >>> one = session.override("tanh", "2 * d")
        >>> session.switch(one, False)
        >>> session.overrides, session.grads["x"]
        ([<override 1: scale ×2 on every tanh, off>], array([1., 1.]))
        """
        old = entry_of(self._state.entries, number(which)).override
        made = replace(old, enabled=bool(enabled))
        self._exchange(which, made, f"switch {'on' if enabled else 'off'} {old.label}")

    @changing
    def move(self, which: int | Attached, to: int) -> None:
        """Put an override at another place in the order; 0 is the first.

        Of two overrides with the same kind of target that meet at a node, the later
        has the say.

        Raises
        ------
        OverrideError
            If there is no such override, or no such place.

        Examples
        --------
        >>> import numpy as np, workbench as wb
        >>> session = wb.Session(wb.trace(lambda x: np.sum(np.tanh(x)))(np.zeros(2)))
        >>> one = session.override("tanh", "2 * d")
        >>> two = session.override("tanh", "3 * d")
        >>> session.move(one, 1)
        >>> [o.id for o in session.overrides], session.grads["x"]
        ([2, 1], array([2., 2.]))
        """
        entries = self._state.entries
        one = entry_of(entries, number(which))
        if type(to) is not int or not 0 <= to < len(entries):
            raise OverrideError(
                f"move({one.id}, {to!r}): places go from 0 to {len(entries) - 1}."
            )
        rest = [e for e in entries if e.id != one.id]
        rest.insert(to, one)
        if tuple(rest) != entries:
            self._edit(f"move {one.override.label} to place {to + 1}", tuple(rest))

    @changing
    def remove(self, which: int | Attached) -> None:
        """Remove an override.

        Raises
        ------
        OverrideError
            If there is no such override.

        Examples
        --------
        >>> import numpy as np, workbench as wb
        >>> session = wb.Session(wb.trace(lambda x: np.sum(np.tanh(x)))(np.zeros(2)))
        >>> session.remove(session.override("tanh", "2 * d"))
        >>> session.overrides
        []
        """
        entries = self._state.entries
        old = entry_of(entries, number(which))
        self._edit(
            f"remove {old.override.label}",
            tuple(e for e in entries if e.id != old.id),
        )

    @changing
    def undo(self, steps: int = 1) -> None:
        """Take the last change of the overrides back, or the last few.

        Raises
        ------
        UsageError
            If there are not as many.

        Examples
        --------
        >>> import numpy as np, workbench as wb
        >>> session = wb.Session(wb.trace(lambda x: np.sum(np.tanh(x)))(np.zeros(2)))
        >>> one = session.override("tanh", "2 * d")
        >>> session.undo()
        >>> session.history.done, session.history.undone
        ([], ['scale ×2 on every tanh'])
        """
        self._step(True, steps)

    @changing
    def redo(self, steps: int = 1) -> None:
        """Do again what was taken back, one change or a few.

        Raises
        ------
        UsageError
            If there are not as many.

        Examples
        --------
        >>> import numpy as np, workbench as wb
        >>> session = wb.Session(wb.trace(lambda x: np.sum(np.tanh(x)))(np.zeros(2)))
        >>> one = session.override("tanh", "2 * d")
        >>> session.undo()
        >>> session.redo()
        >>> session.grads["x"]
        array([2., 2.])
        """
        self._step(False, steps)

    def _exchange(self, which: int | Attached, made: Override, text: str) -> Attached:
        """Another override in the place of one, under its number."""
        entries = self._state.entries
        entry = Entry(entry_of(entries, number(which)).id, made)
        self._edit(text, tuple(entry if e.id == entry.id else e for e in entries))
        return self._attached(entry.id)

    def _attached(self, number: int) -> Attached:
        return next(one for one in self.overrides if one.id == number)

    def _step(self, back: bool, steps: int) -> None:
        before = self._state
        history, entries = before.history.stepped(back, before.entries, steps)
        self._change(self._made(before.forward, entries, history), "overrides")

    def code(self) -> str:
        """The lines of Python that attach the overrides as they are now.

        Run on a fresh session of the same program, they give the same gradients.
        Lambdas are written out; other rules, predicates and ops of the user's own are
        called by their names, which a comment lists.

        Examples
        --------
        >>> import numpy as np, workbench as wb
        >>> session = wb.Session(wb.trace(lambda x: np.sum(np.tanh(x)))(np.zeros(2)))
        >>> one = session.override("tanh", wb.rules.clip(0.1), name="gentle")
        >>> print(session.code())
        ad.override('tanh', vjp='clip(d, -0.1, 0.1)', name='gentle')
        """
        return coding.lines_of([one.code for one in self.overrides])

    def check_rule(self, target: Any, rule: str) -> str:
        """Whether a rule's text would do for a target, as it is typed.

        The target is as for `override`, or an override of the session, whose target
        is meant. Returns a few words about where it would run.

        Raises
        ------
        OverrideError
            If it would not; an `ExpressionError` if the expression is refused.

        Examples
        --------
        >>> import numpy as np, workbench as wb
        >>> session = wb.Session(wb.trace(lambda x: np.sum(np.tanh(x)))(np.zeros(2)))
        >>> session.check_rule("tanh", "clip(d, -1, 1)"), session.overrides
        ('ok', [])
        """
        nodes = self.forward.program
        parsed = read(rule)
        meant = target.override.target if isinstance(target, Attached) else target
        found = overriding.override(
            applied_override.target_in(self.nodes, nodes, meant), rule
        )
        wrt = [self.forward.graph.nodes[i] for i in self.wrt]
        resolution = resolve([found], nodes, wrt=wrt)
        (matched,) = resolution.matched
        # For a part of the program stands a node with the inputs of the part.
        stood = (whole_of(node) for _, node in resolution.winners.values())
        for node in applied_override.kinds(stood):
            check_on(parsed, node, found.label)
        return f"ok for {len(matched)} nodes" if len(matched) > 1 else "ok"

    def subscribe(self, callback: Callable[[str], object]) -> Callable[[], None]:
        """Call back after each change: ``"values"``, ``"overrides"``, ``"checks"``.

        Returns the function that ends it.

        Examples
        --------
        >>> import numpy as np, workbench as wb
        >>> session = wb.Session(wb.trace(lambda x: np.sum(np.tanh(x)))(np.zeros(2)))
        >>> end = session.subscribe(print)
        >>> one = session.override("tanh", "2 * d")
        overrides
        >>> end()
        >>> session.undo()
        """
        listeners = self._listeners  # who holds `end` does not hold the session
        listeners.append(callback)

        def end() -> None:
            if callback in listeners:
                listeners.remove(callback)

        return end


def number(which: int | Attached) -> int:
    """The number of an override that is given by itself or by its number."""
    return which.id if isinstance(which, Attached) else which
