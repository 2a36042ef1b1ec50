"""What changes a session: other inputs, overrides, undo and redo.

Everything is computed before anything is let go, so a change that fails or is
interrupted leaves the last good state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial, wraps
from typing import Any, TypeVar, cast

from workbench.errors import UsageError
from workbench.session import attached, stages
from workbench.session.attached import Attached
from workbench.session.history import Entries, Entry, entry_of
from workbench.session.kept import Kept
from workbench.session.nodes import fitted
from workbench.transforms import overrides as overriding
from workbench.transforms.expression import parse
from workbench.transforms.overrides import Override
from workbench.transforms.resolving import resolve
from workbench.transforms.trying import check_on

__all__ = ["Changing"]

F = TypeVar("F", bound=Callable[..., Any])


def changing(method: F) -> F:
    """A method that one thread at a time may run: the page has one of its own."""

    @wraps(method)
    def alone(self: Changing, *args: Any, **kwargs: Any) -> Any:
        with self.lock:
            return method(self, *args, **kwargs)

    return cast(F, alone)


class Changing(Kept):
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
        self._change(self._made(state.forward.run(leaves), state.entries), "values")
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
            As for :func:`workbench.override`, and the name of a node; a name that
            an op has too means the op, ``session[name]`` is the node. Or an
            override that exists already.
        vjp, jvp, name, enabled
            As for :func:`workbench.override`.
        replacing
            An override, or its id, whose place this one takes. One that is there
            already, with the same rule as data, is not attached again.

        Raises
        ------
        OverrideError
            If it matches nothing or its rule does not fit; nothing has changed then.
        """
        find = partial(attached.target_in, self.nodes, self.forward.program)
        if isinstance(target, Override):
            made = replace(target, target=find(target.target))
        else:
            made = overriding.override(
                find(target), vjp, jvp=jvp, name=name, enabled=enabled
            )
        entries = self._state.entries
        where = attached.target_text(made.target, self.nodes)
        if replacing is None and made.data:
            # The same line again, as when its cell runs twice, changes nothing.
            line = attached.code_line(self.name, made, self.nodes)
            for one in self.overrides:
                if one.override.data and one.code == line:
                    return one
        if replacing is None:
            entry = Entry(self._next, made)
            self._edit(f"{made.label} on {where}", (*entries, entry))
            self._next += 1
        else:
            entry = Entry(entry_of(entries, number(replacing)).id, made)
            self._edit(
                f"change to {made.label} on {where}",
                tuple(entry if e.id == entry.id else e for e in entries),
            )
        return next(one for one in self.overrides if one.id == entry.id)

    @changing
    def switch(self, which: int | Attached, enabled: bool) -> None:
        """Switch an override on or off; one that is off stays listed."""
        entries = self._state.entries
        old = entry_of(entries, number(which))
        new = Entry(old.id, replace(old.override, enabled=bool(enabled)))
        self._edit(
            f"switch {'on' if enabled else 'off'} {old.override.label}",
            tuple(new if e.id == old.id else e for e in entries),
        )

    @changing
    def remove(self, which: int | Attached) -> None:
        """Remove an override."""
        entries = self._state.entries
        old = entry_of(entries, number(which))
        self._edit(
            f"remove {old.override.label}",
            tuple(e for e in entries if e.id != old.id),
        )

    @changing
    def undo(self) -> None:
        """Take the last change of the overrides back."""
        self._step(back=True)

    @changing
    def redo(self) -> None:
        """Do again what was taken back."""
        self._step(back=False)

    def _edit(self, text: str, entries: Entries) -> None:
        before = self._state
        state = self._made(before.forward, entries)
        self.history.note(text, before.entries)
        self._change(state, "overrides")

    def _step(self, back: bool) -> None:
        before = self._state
        state = self._made(before.forward, self.history.peek(back))
        self.history.step(back, before.entries)
        self._change(state, "overrides")

    def code(self) -> str:
        """The lines of Python that attach the overrides as they are now."""
        return "\n".join(one.code for one in self.overrides)

    def check_rule(self, target: Any, rule: str) -> str:
        """Whether an expression would do for a target, as it is typed.

        Returns a few words about where it would run.

        Raises
        ------
        OverrideError
            If it would not; an `ExpressionError` if the expression is refused.
        """
        nodes = self.forward.program
        parsed = parse(rule)
        found = overriding.override(attached.target_in(self.nodes, nodes, target), rule)
        (matched,) = resolve([found], nodes).matched
        for node in attached.kinds(matched):
            check_on(parsed, node, found.label)
        return f"ok for {len(matched)} nodes" if len(matched) > 1 else "ok"

    def subscribe(self, callback: Callable[[str], object]) -> Callable[[], None]:
        """Call back after each change: ``"values"``, ``"overrides"``, ``"checks"``.

        Returns the function that ends it.
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
