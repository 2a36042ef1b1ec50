"""The changes of a session's overrides: each takes a state, and returns the next one.

What fails has changed nothing. `Session` takes the state and tells its listeners;
`applied_override.py` says what an override does, `history.py` keeps the changes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from os import PathLike
from typing import Any, NamedTuple

from workbench.core.blame import format_count
from workbench.errors import OverrideError, UsageError
from workbench.overrides import override as overriding
from workbench.overrides.override import Override
from workbench.session import storage
from workbench.session.applied_override import (
    AppliedOverride,
    complete_steps,
    format_target,
    is_equal,
    resolve_target,
)
from workbench.session.history import Entries, NumberedOverride, find_entry
from workbench.session.state import State


class Attached(NamedTuple):
    """A state with an override that was attached or changed, and its position."""

    state: State
    position: int

    @property
    def override(self) -> AppliedOverride:
        """The override in this state."""
        entry = self.state.entries[self.position]
        return AppliedOverride(*entry, self.position, self.state)


def attach_override(
    state: State,
    target: Any,
    vjp: str | Callable[..., Any] | None,
    replacing: int | AppliedOverride | None,
    **settings: Any,
) -> Attached:
    """Attach an override, or replace another one.

    The settings are ``jvp``, ``name``, ``enabled`` and ``steps``. Where an equal
    override is there already, the state is the same.
    """
    nodes, program = state.objective.nodes, state.forward.program
    if isinstance(target, Override):
        place = resolve_target(nodes, program, target.target)
        new = replace(target, target=place)
    else:
        place = resolve_target(nodes, program, target)
        settings["steps"] = complete_steps(target, place, settings.get("steps"), nodes)
        new = overriding.override(place, vjp, **settings)
    where = format_target(place, nodes, new.steps)
    if replacing is not None:
        text = f"change to {new.label} on {where}"
        return _exchange(state, find_override(state, replacing), new, text)
    if new.data:
        # An equal line, as when its cell runs twice, changes nothing.
        for k, entry in enumerate(state.entries):
            if is_equal(entry.override, new):
                return Attached(state, k)
    entries = (*state.entries, NumberedOverride(state.next_id, new))
    made = state.edit(f"{new.label} on {where}", entries)
    return Attached(made, len(entries) - 1)


def edit_override(
    state: State,
    which: int | AppliedOverride,
    vjp: str | Callable[..., Any] | None,
    jvp: str | Callable[..., Any] | None,
    name: str | None,
) -> Attached:
    """Give an override another rule."""
    entry = find_override(state, which)
    old = entry.override
    if vjp is None:
        jvp = old.jvp if jvp is None else jvp
        name = old.name if name is None else name
        vjp = old.vjp
    new = overriding.override(
        old.target, vjp, jvp=jvp, name=name, enabled=old.enabled, steps=old.steps
    )
    where = format_target(new.target, state.objective.nodes, new.steps)
    return _exchange(state, entry, new, f"change to {new.label} on {where}")


def switch_override(
    state: State, which: int | AppliedOverride, enabled: bool | None
) -> State:
    """Switch an override on or off."""
    entry = find_override(state, which)
    old = entry.override
    if enabled is None:
        name, number = state.objective.nodes.session, entry.id
        raise UsageError(
            f"switch({number}) needs a second argument: write"
            f" {name}.switch({number}, False) to switch the override off,"
            f" {name}.switch({number}, True) to switch it on."
        )
    new = replace(old, enabled=bool(enabled))
    text = f"switch {'on' if enabled else 'off'} {old.label}"
    return _exchange(state, entry, new, text).state


def move_override(state: State, which: int | AppliedOverride, to: int) -> State:
    """Put an override at another place in the order; 0 is the first."""
    entries = state.entries
    one = find_override(state, which)
    if type(to) is not int or not 0 <= to < len(entries):
        raise OverrideError(
            f"move({one.id}, {to!r}): places go from 0 to {len(entries) - 1}."
        )
    rest = [e for e in entries if e.id != one.id]
    rest.insert(to, one)
    if tuple(rest) == entries:
        return state
    return state.edit(f"move {one.override.label} to place {to + 1}", tuple(rest))


def remove_override(state: State, which: int | AppliedOverride) -> State:
    """Remove an override."""
    old = find_override(state, which)
    rest = tuple(e for e in state.entries if e.id != old.id)
    return state.edit(f"remove {old.override.label}", rest)


def load_overrides(
    state: State, path: str | PathLike[str], strict: bool
) -> tuple[State, list[str]]:
    """Attach the overrides of a file; return a line for each that does not fit too."""
    stored = storage.read(path)
    added, lines = storage.make_entries(stored, state, state.objective.nodes, strict)
    if added:
        entries: Entries = (*state.entries, *added)
        state = state.edit(f"load {format_count(len(added), 'override')}", entries)
    return state, lines


def _exchange(
    state: State, old: NumberedOverride, new: Override, text: str
) -> Attached:
    """Replace an override by another one under the same number."""
    entries, place = [*state.entries], state.entries.index(old)
    entries[place] = NumberedOverride(old.id, new)
    return Attached(state.edit(text, tuple(entries)), place)


def find_override(state: State, which: int | AppliedOverride) -> NumberedOverride:
    """Return an override, given itself or its number."""
    number = which.id if isinstance(which, AppliedOverride) else which
    return find_entry(state.entries, number)
