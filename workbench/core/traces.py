"""Which traces are open, and the arrays they have caught.

"Inside a trace" means: depends on a `wrt` leaf of a trace that is still open.
A Tensor does not carry that; it is found by a walk when somebody tries to turn
one into a plain number, which is rare, so tracing pays nothing for it.
"""

from __future__ import annotations

import gc
import threading
import zlib
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import CodeType, TracebackType
from typing import Any, NamedTuple, Self
from weakref import ref

import numpy as np

from workbench.core import source
from workbench.errors import TraceError


class _Local(threading.local):
    def __init__(self) -> None:
        self.stack: list[OpenTrace] = []


LOCAL = _Local()

Array = np.ndarray[Any, Any]

#: Bytes of an array beyond which entries of it are summed: 64 KiB take 20 microseconds.
MOST_SUMMED = 2**16
#: About how many of its entries, evenly spaced: 5 microseconds.
ENTRIES_SUMMED = 1024

#: From how many weak references, or changes, on those that are gone are looked for.
MANY = 64

_COUNTING = threading.Lock()

#: The open traces of all threads: a function that is traced may use a thread of
#: its own, and what it computes there must not lose its gradient either.
OPEN: list[OpenTrace] = []


#: The classes of handles: Tensors whose memory was written to (`memory.py`).
CHANGED: set[type] = set()
#: Whether there ever was one: then programs may be made from handles.
WRITTEN = [False]


#: The allocations after which Python looks for garbage while a long program is made or
#: swept: all its nodes are kept till the end, and to look at them again and again took
#: half the time of a program of 100,000 nodes.
SELDOM = 50_000
#: How many programs ask for that, and what was set before.
_SELDOM: list[Any] = [0, None]


def collect_seldom() -> None:
    """Let Python look for garbage more seldom, until `collect_often`."""
    with _COUNTING:
        _SELDOM[0] += 1
        if _SELDOM[0] == 1 and gc.isenabled() and 0 < gc.get_threshold()[0] < SELDOM:
            _SELDOM[1] = gc.get_threshold()
            gc.set_threshold(SELDOM, *_SELDOM[1][1:])


def collect_often() -> None:
    """Let Python look for garbage as before, unless somebody else has changed that."""
    with _COUNTING:
        _SELDOM[0] -= 1
        if not _SELDOM[0] and _SELDOM[1] is not None:
            if gc.get_threshold()[0] == SELDOM:
                gc.set_threshold(*_SELDOM[1])
            _SELDOM[1] = None


def node_of(x: Any) -> Any:
    """Return the original node of a handle; else the object unchanged."""
    return x.memory.node if type(x) in CHANGED else x


class Arrays(dict[int, Array]):
    """Arrays by their ids; a class of its own, not to be confused with a user's."""


#: How many hold each array that we have made read-only, by its id.
HELD: dict[int, int] = {}
#: Views without a holder that must wait for their base to be writeable.
WAITING: dict[int, ref[Array]] = {}
#: Arrays that were held, with counts still to be lowered.
RELEASED: deque[list[Array]] = deque()


class Hold:
    """Arrays that are read-only as long as somebody holds them.

    An array is held by traces, pullbacks and linear maps; when the last of them is
    done, or dropped, it is writeable again. Only flags that were set here are taken
    back: an array that the user made read-only stays so.
    """

    __slots__ = ("arrays",)

    def __init__(self) -> None:
        self.arrays = Arrays()

    def add(self, array: Array) -> None:
        """Hold an array and the bases of its memory."""
        chain = [array] if array.base is None else base_chain(array)
        flags = chain[-1].flags
        if not ((flags.owndata and flags.writeable) or _can_be_restored(chain[-1])):
            return
        with _COUNTING:
            for member in chain:
                key = id(member)
                if key in self.arrays:
                    continue
                waiting = WAITING.pop(key, None)
                is_held = key in HELD
                ours = member.flags.writeable or (waiting and waiting() is member)
                if not (is_held or ours):
                    continue  # the user has made it read-only
                # Noted first: an interrupt must not leave it read-only for good.
                HELD[key] = HELD.get(key, 0) + 1
                self.arrays[key] = member
                if not is_held:
                    member.flags.writeable = False
        if RELEASED:
            _try_lower_counts()

    def release(self) -> None:
        """Let all arrays go."""
        RELEASED.append(list(self.arrays.values()))
        self.arrays.clear()
        with _COUNTING:  # not _settle alone: they are writeable when this returns
            _lower_counts()
        if RELEASED:
            _try_lower_counts()


class LastingHold(Hold):
    """A hold that ends when dropped, as of a pullback.

    A trace lets go by itself: an interrupt that strikes in here would be lost.
    """

    __slots__ = ()

    def __del__(self) -> None:
        # A collection may strike anywhere, in the midst of counting too.
        if self.arrays and RELEASED is not None:
            RELEASED.append(list(self.arrays.values()))
            _try_lower_counts()


def _try_lower_counts() -> None:
    """Lower the counts of released arrays, unless another thread is counting."""
    while RELEASED and _COUNTING.acquire(blocking=False):
        try:
            _lower_counts()
        finally:
            _COUNTING.release()


def _lower_counts() -> None:
    """Lower the counts, and make arrays without a holder writeable, bases first."""
    while RELEASED:
        for member in reversed(RELEASED.popleft()):
            key = id(member)
            HELD[key] -= 1
            if not HELD[key]:
                del HELD[key]
                if type(member) in CHANGED:
                    continue  # it holds Tensors since: no numbers are written there
                try:
                    member.flags.writeable = True
                except ValueError:  # what it is a view of is still held
                    WAITING[key] = ref(member)
    progress = True
    while progress and WAITING:
        progress = False
        for key, found in list(WAITING.items()):
            array = found()
            if array is not None:
                try:
                    array.flags.writeable = True
                except ValueError:
                    continue
            del WAITING[key]
            progress = True


def base_chain(array: Array) -> list[Array]:
    """Return an array, its base, and so on to the owner of the memory."""
    chain = [array]
    while isinstance(base := array.base, np.ndarray):
        chain.append(array := base)
    return chain


def _can_be_restored(owner: Array) -> bool:
    """Return whether NumPy lets an array be writeable again that was made read-only."""
    if not owner.flags.writeable and id(owner) not in HELD:
        return False
    if owner.flags.owndata:
        return True
    base: Any = owner.base
    try:
        return base is None or not memoryview(base).readonly
    except TypeError:
        return False


class Decision(NamedTuple):
    """A Tensor that became a plain number, by which Python chose a branch.

    ``kind`` is ``"bool"``, ``"cond"`` (of `wb.cond`), ``"index"``, ``"int"``,
    ``"float"``, ``"complex"``, ``"item"`` or ``"tolist"``; ``code`` and ``lasti`` are
    the place of the user's that asked.
    """

    node: Any
    kind: str
    value: Any
    code: CodeType
    lasti: int


class OpenTrace(Hold):
    """A trace while open: its `wrt` leaves, and the arrays that the trace locked.

    An array that a trace has caught is read-only until the trace ends (`Hold`), so
    that a buffer reused in a loop is an error and not a wrong gradient. NumPy leaves
    views made before writeable; what they do is found when the trace ends, by a
    checksum: of all of a small array, of evenly spaced entries of a large one, of which
    a whole that is scaled or filled again is found, and a single entry may not be.
    """

    around: source.Context | None
    #: Whether Python looks for garbage more seldom until it ends: arrays are filled.
    collects_seldom = False
    #: An error of ours that compiled code has taken, to raise one of its own.
    taken: Exception | None = None
    #: Why its leaves must not be written to, in the words of an error.
    given = (
        "was given to the function: what its caller holds would change too, an array"
        " or, in a loop, an earlier result"
    )
    #: Whether the function that it runs stores into arrays, as `numpy.swap` has found.
    fills = False
    #: Whether Tensors were stored in an array of NumPy's own class (`plain.py`).
    has_turned = False
    #: Copies of large arrays that may be written to later, by place (`plain.py`).
    copies: dict[Any, Any] | None = None
    #: The arguments that are its leaves, and the arrays among the others.
    arguments: Sequence[Any] = ()
    constants: Sequence[Any] = ()
    #: From this many changes on, search for those without a reader.
    most_changes = MANY

    #: One of its leaves without a value, if it has any: values come later, many
    #: times (`vmap`), and so must random draws.
    unknown: Any = None
    #: Whether its leaves are its own to write to.
    owns = False
    #: Python's decisions by values in it, in order; None: not recorded.
    decisions: list[Decision] | None = None
    #: Whether what is recorded in it is recorded anew in each run.
    decides_anew = False
    #: Whether `+=` in it binds a name to a new value, and changes nothing.
    rebinds = False
    #: The large values that it may let go (see `residuals.py`); None: it keeps all.
    pending: Any = None
    #: Weak references to the arrays that it made to store Tensors in (`plain.py`).
    plain: list[ref[Any]] | None = None
    #: Arrays of the outer traces that must not change in this one; checksums.
    older: Sequence[tuple[Any, int]] = ()
    #: Arrays of the caller's as the function has them, by their ids.
    given_arrays: dict[int, Any] | None = None
    #: What leaves without values will look like, where that is known, by their serials.
    examples: dict[int, Any] | None = None

    def __init__(self) -> None:
        self.arrays = Arrays()
        self.leaves: set[int] = set()
        self.dependent: dict[int, bool] = {}
        #: All arrays that it has caught, and the checksums of the owners of memory.
        self.caught = Arrays()
        self.sums: dict[int, int] = {}
        #: What has been changed in place of the Tensors that it made.
        self.changes: list[Any] = []
        #: How values would lie in memory, by the serials of nodes (`sharing.py`).
        self.layouts: dict[int, Any] = {}

    def __enter__(self) -> Self:
        # An interrupt may strike where a place in the user's code has just been pinned.
        self.around = source.CONTEXT.get()
        LOCAL.stack.append(self)
        OPEN.append(self)
        return self

    def note_plain(self, found: ref[Any]) -> None:
        """Note an array that may be written to during its lifetime."""
        known = self.plain
        if known is None:
            known = self.plain = []
        n = len(known)
        if n >= MANY and not n & (n - 1):
            known[:] = [x for x in known if x() is not None]
        known.append(found)

    def hold_older(self) -> None:
        """Let nobody write to arrays of the traces around: each run would do so again.

        NumPy's own functions, which call no protocol, refuse to write to read-only
        arrays; all but `numpy.ufunc.at`, whose change is found when the trace ends.
        """
        older: list[tuple[Any, int]] = []
        for trace in LOCAL.stack:
            for found in trace.plain or () if trace is not self else ():
                x = found()
                if x is None or type(x) in CHANGED:
                    continue
                older.append((x, checksum(np.asarray(x))))
                for view in (x, *(view() for view in x.shows)):
                    if view is not None:
                        self.add(view)
        self.older = older

    def check_older(self) -> None:
        """Refuse changes to an array of an outer trace, found by checksum."""
        for x, total in self.older:
            if type(x) not in CHANGED and checksum(np.asarray(x)) != total:
                raise TraceError(
                    f"np.add.at, or its like, changes an array of shape {x.shape} in a"
                    " function that is recorded once and runs many times, and it was"
                    " made outside of that: each run would change it again. Work on a"
                    " copy: x = x.copy()."
                )

    def close_changes(self, outer: OpenTrace | None) -> None:
        """End the changes of this trace, or leave them to the outer one.

        That keeps what somebody may still read. An interrupt keeps none from its end;
        it is raised after the last.
        """
        changes, self.changes = self.changes, []
        if outer is not None:
            walked: set[int] = set()
            for change in changes:
                change.hand_over(outer, min(self.leaves, default=0), walked)
            outer.changes += changes
            if len(outer.changes) >= outer.most_changes:
                outer.changes = [x for x in outer.changes if x.is_shown()]
                outer.most_changes = max(MANY, 2 * len(outer.changes))
            for found in self.plain or ():
                if found() is not None:
                    outer.note_plain(found)
            return
        stopped: BaseException | None = None
        for change in changes:
            try:
                change.close()
            except BaseException as error:
                stopped = error
        if stopped is not None:
            raise stopped

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            explained = self.explain(error) if isinstance(error, Exception) else None
        finally:
            LOCAL.stack.remove(self)
            OPEN.remove(self)
            if source.CONTEXT.get() is not self.around:
                source.CONTEXT.set(self.around)
            try:
                if self.changes or self.plain:
                    self.close_changes(LOCAL.stack[-1] if LOCAL.stack else None)
            finally:
                if self.collects_seldom:
                    collect_often()
                if self.arrays:
                    self.release()
        if explained is not None:
            raise explained from error
        if self.older and kind is None:
            self.check_older()
        caught, sums = self.caught, self.sums
        self.caught, self.sums = Arrays(), {}
        for key, total in sums.items() if kind is None else ():
            array = caught[key]
            if checksum(array) != total:
                raise TraceError(
                    f"an array of shape {array.shape} that the trace has used was"
                    " changed in place through another view of it, and its gradient"
                    " would be wrong. Work on a .copy(), or make a new array in each"
                    " step."
                )

    def explain(self, error: Exception) -> Exception | None:
        """Return a better error for an error of the block, or None."""
        return None

    def reaches(self, tensor: Any) -> bool:
        """Return whether a Tensor depends on a leaf of this trace.

        Every answer is kept, so that a gradient in each step of a long loop
        looks only at what that step added.
        """
        leaves, known_serials = self.leaves, self.dependent
        if not leaves:
            return False
        first = min(leaves)
        if tensor.serial < first:
            return False
        reached = {tensor.serial: tensor}
        stack = [tensor]
        while stack:
            for x in stack.pop().inputs:
                serial = getattr(x, "serial", -1)
                if (
                    serial >= first
                    and serial not in reached
                    and serial not in known_serials
                ):
                    reached[serial] = x
                    stack.append(x)
        for serial in sorted(reached):
            known_serials[serial] = serial in leaves or any(
                known_serials.get(getattr(x, "serial", -1), False)
                for x in reached[serial].inputs
            )
        return known_serials[tensor.serial]


def has_open_trace() -> bool:
    """Return whether any trace is open in this thread."""
    return bool(LOCAL.stack)


def note_decision(tensor: Any, kind: str, value: Any) -> None:
    """Tell interested traces that a Tensor became a plain number."""
    # A thread of the function's own has no traces; it works for those of others.
    for trace in reversed(LOCAL.stack or OPEN):
        if trace.decides_anew:
            return
        if trace.decisions is not None:
            made = Decision(tensor, kind, value, *source.caller(2))
            trace.decisions.append(made)


def checksum(array: Array) -> int:
    """Return a number that changes with an entry (of a large array with some only)."""
    if array.nbytes > MOST_SUMMED:
        most = int(ENTRIES_SUMMED ** (1 / array.ndim))
        steps = [max(1, n // most) for n in array.shape]
        array = array[tuple(slice(None, None, step) for step in steps)]
    whole = array.flags.c_contiguous and array.dtype.kind not in "mM"
    return zlib.adler32(array.data if whole else array.tobytes())


def lock(array: Array) -> None:
    """Make an array that the innermost open trace has caught read-only."""
    stack = LOCAL.stack
    if not stack or id(array) in stack[-1].caught:
        return
    trace = stack[-1]
    owner = array if array.base is None else base_chain(array)[-1]
    trace.caught[id(array)] = array
    may_change = owner.flags.writeable or id(owner) in HELD
    if may_change and not owner.dtype.hasobject:
        if len(stack) == 1 or all(id(owner) not in other.sums for other in stack):
            trace.caught[id(owner)] = owner
            trace.sums[id(owner)] = checksum(owner)
        trace.add(array)


def reopen_trace(values: Iterable[Any]) -> AbstractContextManager[Any]:
    """Return a trace in which all that depends on Tensors is recorded.

    That of the program they are from may have ended. Of Tensors without values it is
    recorded in any case.
    """
    leaves = {x.serial for x in values if getattr(x, "_value", None) is not None}
    if not leaves:
        return nullcontext()
    opened = OpenTrace()
    opened.leaves.update(leaves)
    return opened


def is_active(tensor: Any) -> bool:
    """Return whether a Tensor depends on a leaf of an open trace of any thread."""
    if type(tensor) in CHANGED:
        tensor = tensor.memory.read()
    return any(trace.reaches(tensor) for trace in tuple(OPEN))
