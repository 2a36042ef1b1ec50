"""The changes of a session's overrides: attach, edit, order, undo, save and load.

Each makes the next state and lets the session take it: one that fails changes nothing.
The functions are methods of `Session`; `applied_override.py` tells what an override
does, `history.py` keeps the changes.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from os import PathLike
from typing import Any, Protocol

from workbench.core.blame import format_count
from workbench.errors import OverrideError, UsageError
from workbench.overrides import override as overriding
from workbench.overrides.override import Override
from workbench.session import applied_override, storage
from workbench.session.applied_override import AppliedOverride, attached_overrides
from workbench.session.history import NumberedOverride, find_entry
from workbench.session.state import FairLock, HasState, State, with_lock


class HasOverrides(HasState, Protocol):
    """The attributes of a session that the changes of its overrides use."""

    _fair_lock: FairLock

    def _change(self, state: State, what: str) -> None:
        """Take another state, and notify the listeners."""


@with_lock
def override(
    session: HasOverrides,
    target: Any,
    vjp: str | Callable[..., Any] | None = None,
    *,
    jvp: str | Callable[..., Any] | None = None,
    name: str | None = None,
    enabled: bool = True,
    steps: int | slice | None = None,
    replacing: int | AppliedOverride | None = None,
) -> AppliedOverride:
    """Attach another gradient rule, and run the backward sweep again.

    Parameters
    ----------
    target
        As for :func:`workbench.override`, or the name of a node, or its label in
        the picture, ``"tanh 3"``. A name that an op has too means the op; the
        node is ``session[name]``. Or an override that exists already.
    vjp, jvp, name, enabled, steps
        As for :func:`workbench.override`.
    replacing
        The override that this one replaces, or its id. An equal override whose rule
        is data is not attached twice.

    Raises
    ------
    OverrideError
        If it matches nothing or its rule does not fit; an `ExpressionError` if its
        text is refused. Then nothing has changed.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> def loss(W, x, b):
    ...     with wb.scope("affine"):
    ...         h = np.tanh(W @ x + b)
    ...     return np.sum(h)
    >>> graph = wb.trace(loss)(np.eye(2), np.ones(2), np.zeros(2))
    >>> session = wb.Session(graph, wrt=["b"])
    >>> session.nodes.labels
    ['W', 'x', 'b', 'matmul 3', 'add 4', 'tanh 5', 'sum 6']
    >>> session.override("tanh 5", "clip(d, -0.1, 0.1)")
    <override 1: clip ±0.1 on tanh 5; changes b by 76 %>
    >>> session.override(wb.pattern(lambda W, x, b: W @ x + b), "2 * d")
    <override 2: scale ×2 on pattern W @ x + b; changes b by 100 %>
    >>> session.grads["b"]
    array([0.2, 0.2])
    >>> session.override("affine", "true").matched  # all nodes of the scope
    (3, 4, 5)
    """
    state = session._state
    find = partial(
        applied_override.resolve_target, session.nodes, state.forward.program
    )
    if isinstance(target, Override):
        new = replace(target, target=find(target.target))
    else:
        new = overriding.override(
            find(target), vjp, jvp=jvp, name=name, enabled=enabled, steps=steps
        )
    where = applied_override.format_target(new.target, session.nodes, new.steps)
    if replacing is not None:
        text = f"change to {new.label} on {where}"
        return exchange(session, replacing, new, text)
    if new.data:
        # An equal line, as when its cell runs twice, changes nothing.
        for one in attached_overrides(state):
            if applied_override.is_equal(one.override, new):
                return one
    entries = (*state.entries, NumberedOverride(state.next_id, new))
    session._change(state.edit(f"{new.label} on {where}", entries), "overrides")
    return attached_overrides(session._state)[-1]


@with_lock
def edit(
    session: HasOverrides,
    which: int | AppliedOverride,
    vjp: str | Callable[..., Any] | None = None,
    *,
    jvp: str | Callable[..., Any] | None = None,
    name: str | None = None,
) -> AppliedOverride:
    """Give an override another rule; its target, its number and place stay.

    Parameters
    ----------
    which
        The override, or its number.
    vjp, jvp
        The new rules, as for :func:`workbench.override`; without either, the old
        rules stay. A new ``vjp`` drops the old ``jvp``, which belonged to the old
        ``vjp``.
    name
        Its new name; by default a short text for a new rule.

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
    old = find_override(session, which).override
    if vjp is None:
        jvp = old.jvp if jvp is None else jvp
        name = old.name if name is None else name
        vjp = old.vjp
    made = overriding.override(
        old.target, vjp, jvp=jvp, name=name, enabled=old.enabled, steps=old.steps
    )
    where = applied_override.format_target(made.target, session.nodes, made.steps)
    return exchange(session, which, made, f"change to {made.label} on {where}")


@with_lock
def switch(
    session: HasOverrides, which: int | AppliedOverride, enabled: bool | None = None
) -> None:
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
    one = find_override(session, which)
    old = one.override
    if enabled is None:
        raise UsageError(
            f"switch({one.id}) needs a second argument: write"
            f" {session.name}.switch({one.id}, False) to switch the override off,"
            f" {session.name}.switch({one.id}, True) to switch it on."
        )
    made = replace(old, enabled=bool(enabled))
    exchange(session, which, made, f"switch {'on' if enabled else 'off'} {old.label}")


@with_lock
def move(session: HasOverrides, which: int | AppliedOverride, to: int) -> None:
    """Put an override at another place in the order; 0 is the first.

    Of two overrides with the same kind of target at a node, the later one runs.

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
    entries = session._state.entries
    one = find_override(session, which)
    if type(to) is not int or not 0 <= to < len(entries):
        raise OverrideError(
            f"move({one.id}, {to!r}): places go from 0 to {len(entries) - 1}."
        )
    rest = [e for e in entries if e.id != one.id]
    rest.insert(to, one)
    if tuple(rest) != entries:
        text = f"move {one.override.label} to place {to + 1}"
        session._change(session._state.edit(text, tuple(rest)), "overrides")


@with_lock
def remove(session: HasOverrides, which: int | AppliedOverride) -> None:
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
    old = find_override(session, which)
    rest = tuple(e for e in session._state.entries if e.id != old.id)
    text = f"remove {old.override.label}"
    session._change(session._state.edit(text, rest), "overrides")


@with_lock
def undo(session: HasOverrides, steps: int = 1) -> None:
    """Undo the last change of the overrides, or the last few.

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
    _move_steps(session, True, steps)


@with_lock
def redo(session: HasOverrides, steps: int = 1) -> None:
    """Redo the last undone change, or the last few.

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
    _move_steps(session, False, steps)


def _move_steps(session: HasOverrides, is_undo: bool, steps: int) -> None:
    """Take the overrides of some changes before, or of those undone."""
    session._change(session._state.step(is_undo, steps), "overrides")


def exchange(
    session: HasOverrides, which: int | AppliedOverride, new: Override, text: str
) -> AppliedOverride:
    """Replace an override by another one under the same number."""
    old = find_override(session, which)
    entries, place = [*session._state.entries], session._state.entries.index(old)
    entries[place] = NumberedOverride(old.id, new)
    session._change(session._state.edit(text, tuple(entries)), "overrides")
    return attached_overrides(session._state)[place]


def find_override(
    session: HasOverrides, which: int | AppliedOverride
) -> NumberedOverride:
    """Return an override, given itself or its number."""
    number = which.id if isinstance(which, AppliedOverride) else which
    return find_entry(session._state.entries, number)


def code(session: HasOverrides) -> str:
    """Return the lines of Python that attach the current overrides.

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
    return applied_override.join_lines(
        [one.code for one in attached_overrides(session._state)]
    )


def save(session: HasOverrides, path: str | PathLike[str]) -> list[str]:
    """Write the overrides to a file, those that are data.

    Parameters
    ----------
    path
        The file, which is replaced. It holds JSON: rules that are texts or lists
        of nodes (`wb.graph_rule`), and targets that are nodes, ops or scopes.

    Returns
    -------
    A line for each override that was not saved, since its rule or target is code,
    such as a pattern; a warning lists them too.

    Raises
    ------
    OSError
        If the file cannot be written; an old one is then unchanged.

    Examples
    --------
    >>> import numpy as np, tempfile, workbench as wb
    >>> path = tempfile.mkdtemp() + "/overrides.json"
    >>> graph = wb.trace(lambda x: np.sum(np.tanh(x)))(np.zeros(2))
    >>> session = wb.Session(graph)
    >>> one = session.override("tanh", "0.5 * d")
    >>> session.save(path)
    []
    >>> other = wb.Session(graph)
    >>> other.load(path)
    []
    >>> other.overrides
    [<override 1: scale ×0.5 on every tanh; changes x by 50 %>]
    """
    with session._fair_lock.lock:
        text, skipped = storage.serialize(
            session.name,
            session._state.entries,
            session.nodes,
            session._state.forward.graph.nodes,
        )
    storage.write(path, text)
    if skipped:
        warnings.warn(
            f"{session.name}.save: not saved, since they are code:"
            f" {'; '.join(skipped)}. {session.name}.code() prints their lines.",
            stacklevel=2,
        )
    return skipped


@with_lock
def load(
    session: HasOverrides, path: str | PathLike[str], *, strict: bool = True
) -> list[str]:
    """Attach the overrides of a file that :meth:`save` has written.

    They come after the present ones, as one change for undo; equal ones are not
    attached twice. The file is not trusted: nothing in it runs.

    Parameters
    ----------
    path
        The file.
    strict
        Whether all must fit. If not, those that fit are attached.

    Returns
    -------
    A line for each override that did not fit; empty if all did.

    Raises
    ------
    OverrideError
        If one does not fit: a node that is missing or has another op or shape, or
        an unknown rule. Then nothing has changed.
    UsageError
        If a rule would make arrays far larger than the program's, or run far
        longer: it is refused before it runs, and nothing has changed.
    SnapshotError
        If the file is damaged, too large, or of a newer Workbench.
    OSError
        If it cannot be read.

    Examples
    --------
    >>> import numpy as np, tempfile, workbench as wb
    >>> path = tempfile.mkdtemp() + "/overrides.json"
    >>> tanh, sin = (
    ...     wb.Session(wb.trace(lambda x: np.sum(f(x)))(np.zeros(2)))
    ...     for f in (np.tanh, np.sin)
    ... )
    >>> one = tanh.override("tanh", "0.5 * d")
    >>> tanh.save(path)
    []
    >>> len(sin.load(path, strict=False)), sin.overrides
    (1, [])
    """
    stored = storage.read(path)
    added, lines = storage.make_entries(stored, session._state, session.nodes, strict)
    if added:
        count = format_count(len(added), "override")
        entries = (*session._state.entries, *added)
        session._change(session._state.edit(f"load {count}", entries), "overrides")
    return lines
