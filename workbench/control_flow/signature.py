"""The arguments of a loop, and the signature of its step."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from workbench.core import blame, tree, types
from workbench.core.blame import format_count
from workbench.core.shared import Shared
from workbench.core.tensor import Tensor, admit
from workbench.core.types import Array, ArrayLike
from workbench.errors import DtypeError, ShapeError, UsageError
from workbench.ops.define import shape_of
from workbench.overrides.rule_errors import describe_rule


class Sequenced(NamedTuple):
    """A sequence: a nest of arrays, with the steps as first axis."""

    label: str
    leaves: list[Any]
    tree: tree.Tree
    taps: tuple[int, ...]

    @property
    def left_out(self) -> int:
        """The number of entries that taps leave out at the ends."""
        return max(*self.taps, 0) - min(*self.taps, 0)


class Recurrence(NamedTuple):
    """An output that is fed back: its first values, by the depth of its taps."""

    label: str
    leaves: list[Any]
    tree: tree.Tree
    taps: tuple[int, ...]
    #: The first values as they were given, to tell numbers from arrays.
    first_values: list[Any]

    @property
    def depth(self) -> int:
        """The number of earlier values that a step may read."""
        return -min(self.taps)

    @property
    def rows(self) -> bool:
        """True if the first values have an axis of their own."""
        return self.taps != (-1,)

    def starts(self, leaf: int, dtype: npt.DTypeLike | None = None) -> list[Any]:
        """Return the first values at the depths 1, 2, ..., cast to a dtype if given."""
        x = self.leaves[leaf]
        if dtype is not None:
            x = np.astype(x, dtype)
        if not self.rows:
            return [x]
        return [x[self.depth - d] for d in range(1, self.depth + 1)]


def list_entries(entries: object) -> list[Any]:
    """Return the entries of a list or tuple, or a single entry, as a list."""
    if entries is None:
        return []
    return list(entries) if isinstance(entries, (list, tuple)) else [entries]


def check_array(x: object, what: str) -> Array:
    """Return a leaf as an array or Tensor.

    Raises
    ------
    DtypeError
        If it holds no numbers.
    """
    if isinstance(x, Tensor):
        return x
    x = admit(x)
    if isinstance(x, Tensor):
        return x
    if not hasattr(x, "dtype") or not hasattr(x, "shape"):
        x = np.asarray(x)
    if x.dtype.kind not in "biufc":
        raise DtypeError(f"scan: {what} is {x!r}, not an array of numbers.")
    return x


def _read_taps(what: str, settings: dict[str, Any], key: str) -> Any:
    """Return the array and the taps of an entry that is a dict with settings."""
    known = {key, "taps", "name"}
    unknown = sorted(set(settings) - known)
    if unknown:
        raise UsageError(
            f"scan: {what} has the setting {unknown[0]!r}; it takes {key}= and taps=."
        )
    taps = settings.get("taps")
    taps = list_entries(taps) if taps is not None else None
    if taps is not None and not all(
        isinstance(k, (int, np.integer)) and not isinstance(k, bool) for k in taps
    ):
        raise UsageError(f"scan: the taps of {what} are {taps!r}, and not integers.")
    return settings.get(key), None if taps is None else tuple(int(k) for k in taps)


def read_sequences(sequences: object) -> list[Sequenced]:
    """Return the sequences of a loop.

    Raises
    ------
    ShapeError
        If one has no axis of steps.
    """
    read = []
    for at, entry in enumerate(list_entries(sequences)):
        label = f"sequence {at}"
        taps: Any = (0,)
        if isinstance(entry, dict) and "input" in entry:
            entry, found = _read_taps(label, entry, "input")
            taps = found or (0,)
        leaves, structure = tree.flatten(_join_numbers(entry))
        leaves = [check_array(x, label) for x in leaves]
        for x in leaves:
            if not shape_of(x):
                said = blame.describe(x) if isinstance(x, Tensor) else repr(x)
                raise ShapeError(
                    f"scan: {label} is {said}{blame.user_line()}, which has no axis of"
                    " steps. What is the same in each step belongs into non_sequences."
                )
        read.append(Sequenced(label, leaves, structure, taps))
    return read


def _join_numbers(entry: object) -> object:
    """Return a list of plain numbers as an array; else the entry unchanged."""
    if isinstance(entry, (list, tuple)) and entry and all(map(_is_number_nest, entry)):
        return np.asarray(entry)
    return entry


def _is_number_nest(x: object) -> bool:
    if isinstance(x, (list, tuple)):
        return all(map(_is_number_nest, x))
    return types.is_weak(x) or isinstance(x, np.generic)


def read_initial(outputs_info: object) -> list[Recurrence | None]:
    """Return the outputs that have first values; None for one that is not fed back.

    Raises
    ------
    UsageError
        If an entry has taps and no first values, or taps that are not in the past.
    ShapeError
        If there are too few first values for the taps.
    """
    recurrences: list[Recurrence | None] = []
    for at, entry in enumerate(list_entries(outputs_info)):
        label = f"output {at}"
        taps: Any = None
        if isinstance(entry, dict) and set(entry) <= {"initial", "taps", "name"}:
            entry, taps = _read_taps(label, entry, "initial")
            if entry is None and taps is not None:
                raise UsageError(
                    f"scan: {label} has taps={list(taps)} and no initial values. Give"
                    f" them: dict(initial=x0, taps={list(taps)}), where x0 has"
                    f" {-min(taps)} rows."
                )
        if entry is None:
            recurrences.append(None)
            continue
        taps = taps or (-1,)
        if any(k >= 0 for k in taps):
            raise UsageError(
                f"scan: {label} has taps={list(taps)}; a step reads earlier values,"
                " so its taps are negative: -1 is the value before."
            )
        if len(set(taps)) < len(taps):
            raise UsageError(
                f"scan: {label} has taps={list(taps)}, one of them twice. Name"
                " each once."
            )
        rows = taps != (-1,)
        nest = _join_numbers(entry) if rows else entry
        leaves, structure = tree.flatten(nest)
        plain = list(leaves)
        leaves = [check_array(x, f"the initial value of {label}") for x in leaves]
        depth = -min(taps)
        for x in leaves if rows else ():
            shape = shape_of(x)
            if not shape or (isinstance(shape[0], int) and shape[0] < depth):
                raise ShapeError(
                    f"scan: {label} has taps={list(taps)}, so its initial values need"
                    f" {depth} rows, the oldest first; they have shape {shape}. Write"
                    " np.stack([...])."
                )
        recurrences.append(Recurrence(label, leaves, structure, taps, plain))
    return recurrences


# What a step or a branch takes: an error that names what it gets, in order.


def call_user(
    f: Callable[..., Any],
    args: Sequence[Any],
    describe_arguments: Callable[[], Sequence[str]],
    what: str,
    cure: str = "",
) -> Any:
    """Call a user's function; list its arguments where the call does not fit.

    ``describe_arguments()`` says what each of them is; the rest as for `check_takes`.
    """
    try:
        return f(*args)
    except TypeError:
        check_callable(f, describe_arguments(), what, cure)
        raise


def check_callable(
    f: Callable[..., Any], arguments: Sequence[str], what: str, cure: str = ""
) -> None:
    """Raise an error if a function cannot take the arguments of a loop.

    Parameters
    ----------
    f
        The function.
    arguments
        What each of its arguments is.
    what
        The loop, and what the function is to it: ``"scan: the step"``.
    cure
        What to write instead.

    Raises
    ------
    UsageError
        If it takes more, or fewer.
    """
    if hasattr(f, "__wrapped__") and "__signature__" in vars(f):
        return  # copied from what it wraps, as NumPy's ufuncs have it
    try:
        # A wrapper is called by its own parameters, not by those of what it wraps.
        signature = inspect.signature(f, follow_wrapped=False)
    except (TypeError, ValueError):
        return  # it is compiled, and says nothing of itself
    try:
        signature.bind(*arguments)
    except TypeError:
        listed = f": {', '.join(arguments)}" if arguments else ""
        raise UsageError(
            f"{what} {describe_rule(f)} takes {signature}, and gets"
            f" {format_count(len(arguments), 'argument')}{listed}. {cure}".rstrip()
        ) from None


# What a step returns: outputs, what becomes of shared values, whether to stop.


class Until:
    """A condition that ends a loop after the step where the condition is true."""

    __slots__ = ("condition",)

    def __init__(self, condition: ArrayLike) -> None:
        self.condition = condition


def until(condition: ArrayLike) -> Until:
    """End a :func:`workbench.scan` after the step in which a condition is true.

    A step returns it beside its outputs.

    Parameters
    ----------
    condition
        A boolean: a number or a Tensor of shape ``()``.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> def double(x):
    ...     return 2 * x, wb.until(2 * x > 50)
    >>> wb.scan(double, initial=1.0, n_steps=1000)
    array([ 2.,  4.,  8., 16., 32., 64.])
    """
    return Until(condition)


class Returned(NamedTuple):
    """The parts of a step's results."""

    #: The outputs, one entry each, and whether it was one bare output.
    outputs: list[Any]
    bare: bool
    #: How several outputs came: as a list or as a tuple.
    kind: type
    updates: dict[Shared, Any]
    stop: Any


def read_returned(value: object, count: int) -> Returned:
    """Split the return value of a step, in any of Theano's orders.

    ``count`` is the number of initial entries: where it is one, a tuple may be one
    nested output.
    """
    stop, updates = None, {}
    rest: Any = value
    if isinstance(value, Until):
        rest, stop = (), value.condition
    elif _is_updates(value):
        rest, updates = (), dict(_list_updates(value))
    elif isinstance(value, tuple) and len(value) in (2, 3):
        tail = value[1:]
        if all(isinstance(x, Until) or _is_updates(x) for x in tail):
            rest = value[0]
            for x in tail:
                if isinstance(x, Until):
                    stop = x.condition
                else:
                    updates = dict(_list_updates(x))
            if isinstance(rest, Until):
                stop, rest = rest.condition, ()
            elif _is_updates(rest):
                updates = {**dict(_list_updates(rest)), **updates}
                rest = ()
        elif isinstance(value[-1], Until):
            rest, stop = value[:-1], value[-1].condition
    if rest is None:
        if not (updates or stop is not None):
            raise UsageError(
                f"scan: the step returned None{blame.user_line()}. Does it end with"
                " a `return`?"
            )
        rest = ()
    kind = list if isinstance(rest, list) else tuple
    bare = not isinstance(rest, (list, tuple)) or hasattr(rest, "_fields")
    outputs = [rest] if bare else list(rest)
    return Returned(outputs, bare, kind, updates, stop)


def _list_updates(value: Any) -> Any:
    return value.items() if isinstance(value, Mapping) else value


def _is_updates(value: object) -> bool:
    """Return whether a value is updates: new values of shared values."""
    if isinstance(value, Mapping):
        return all(isinstance(key, Shared) for key in value)
    return (
        isinstance(value, (list, tuple))
        and len(value) > 0
        and all(
            isinstance(pair, (list, tuple))
            and len(pair) == 2
            and isinstance(pair[0], Shared)
            for pair in value
        )
    )


def check_condition(value: Any, name: str) -> Any:
    """Return a condition as one boolean.

    Raises
    ------
    ShapeError
        If it is several.
    """
    if not hasattr(value, "dtype"):
        value = np.asarray(value)
    if shape_of(value) != ():
        raise ShapeError(
            f"{name}: the condition has shape {shape_of(value)}{blame.user_line()}, and"
            " must be one boolean. Reduce it with np.all or np.any."
        )
    return value if value.dtype.kind == "b" else value != 0
