"""How a state goes out to the pages: in which pieces, and when.

`Outbox` numbers all messages, and sends a large state in pieces, each acknowledged
before the next. `Pacer` says when the next state may go, so that a loop of Python over
a session is not held up by its picture. Neither knows a session; `link.py` has both.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from workbench.jupyter.jobs import Clock, Later

Array = np.ndarray[Any, Any]
Message = dict[str, Any]

#: Bytes of a piece, and of the largest state that is sent whole.
PIECE, WHOLE = 4_000_000, 8_000_000


def cut_state(
    message: Message, buffers: Sequence[Array], first: int
) -> list[tuple[Message, list[Array]]]:
    """Return the messages of a state with their buffers: its pieces, itself at last.

    ``first`` is the number of the message that is sent next; all pieces bear it. A
    small state is one message.

    >>> import numpy as np
    >>> state = cut_state({"type": "patch"}, [np.zeros(600_000), np.zeros(700_000)], 7)
    >>> [(m["type"], sum(b.nbytes for b in buffers)) for m, buffers in state]
    [('piece', 4000000), ('piece', 4000000), ('piece', 2400000), ('patch', 0)]
    """
    sizes = [buffer.nbytes for buffer in buffers]
    if sum(sizes) <= WHOLE:
        return [(message, [*buffers])]
    cut: list[tuple[Message, list[Array]]] = []
    for number, parts in enumerate(cut_buffers(buffers, PIECE)):
        place = {"first": first, "start": number * PIECE, "sizes": sizes}
        cut.append(({"type": "piece", **place}, parts))
    return [*cut, ({**message, "pieces": first}, [])]


def cut_buffers(buffers: Sequence[Array], size: int) -> Iterator[list[Array]]:
    """Yield the bytes of all buffers in a row, so many at a time; nothing is copied."""
    parts: list[Array] = []
    left = size
    for buffer in buffers:
        data = buffer.view(np.uint8)
        while data.size:
            parts.append(data[:left])
            data, left = data[left:], left - parts[-1].size
            if not left:
                yield parts
                parts, left = [], size
    if parts:
        yield parts


# The outbox

#: Seconds from one patch to the next, at least.
PAUSE = 0.05
#: The part of the processor's time of a loop that its picture may take.
SHARE = 0.015
#: A loop that waits for something else, for data say, takes little of that: by the
#: clock it waits for its picture so many times as long at most.
MOST_WAIT = 4
#: Seconds that Jupyter takes for a patch and its acknowledgement, in other threads.
MESSAGES = 0.005
#: The part of the time of a loop that the gradients along loops in it may take.
LOOP_SHARE = 0.01
#: Bytes a second of the slowest line that everything is waited for.
SLOWEST = 5e6

Send = Callable[[Message, list[Any]], object]


class Outbox:
    """The states that go out to the pages of a session, one at a time.

    Parameters
    ----------
    send
        Takes a message and its buffers.
    clock
        The time in seconds.

    Attributes
    ----------
    seq
        The number of the last message.
    state
        The number of the last state, once all of it has gone; 0 before the first.
    """

    def __init__(self, send: Send, clock: Clock) -> None:
        self._send = send
        self._clock = clock
        self.seq = self.state = 0
        #: The number of the last message of a state, or piece of one.
        self._unacknowledged: int | None = None
        #: What is left to send of that state, once it is acknowledged.
        self._rest: deque[tuple[Message, list[Any]]] = deque()
        #: When that message has come to the page, if it is not lost; and how long the
        #: page may be held up.
        self._arrives = self._patience = 0.0

    def post(self, message: Message, buffers: list[Any] | None = None) -> None:
        """Send a message that nobody acknowledges."""
        self.seq += 1
        self._send({**message, "seq": self.seq}, buffers or [])

    @property
    def is_waiting(self) -> bool:
        """True while the last message of a state is not acknowledged."""
        return self._unacknowledged is not None

    @property
    def is_arriving(self) -> bool:
        """True while that message may still be on its way."""
        return self.is_waiting and self._clock() < self._arrives

    def send_state(self, message: Message, buffers: list[Any]) -> bool:
        """Begin to send a state; return whether the whole state has gone."""
        self._rest = deque(cut_state(message, buffers, self.seq + 1))
        return self._send_piece()

    def acknowledge(self, seq: int) -> bool:
        """Go on after a message; return whether the last piece has gone now."""
        if seq != self._unacknowledged:
            return False
        self._unacknowledged = None
        return bool(self._rest) and self._send_piece()

    def _send_piece(self) -> bool:
        message, buffers = self._rest.popleft()
        self.post(message, buffers)
        self._unacknowledged = self.seq
        size = sum(buffer.nbytes for buffer in buffers)
        self._arrives = self._clock() + self._patience + size / SLOWEST
        if self._rest:
            return False
        self.state = self.seq
        return True

    def set_patience(self, seconds: float) -> None:
        """Say how long the page may be held up, by this state and the next ones."""
        self._patience = seconds
        self._arrives += seconds

    def close(self) -> None:
        """Send no more messages."""
        self._rest.clear()
        self._send = _discard


def _discard(message: Message, buffers: list[Any]) -> None:
    """Drop a message: the outbox is closed."""


class Pacer:
    """The times when the next state may go out, and when loops may be measured.

    Parameters
    ----------
    clock, processor_clock
        The time in seconds, and the seconds that the process has had of the processor.
    later
        Calls back after some seconds.
    """

    def __init__(self, clock: Clock, processor_clock: Clock, later: Later) -> None:
        self._clock = clock
        self._processor_clock = processor_clock
        self._later = later
        #: When the state is to be sent that waits; None if none does.
        self._due: float | None = None
        #: When the last state went out, by both clocks.
        self._last = -PAUSE
        self._processor_last = -PAUSE
        #: How much of the processor a loop is to have after that, not to be held up.
        self._pause = 0.0
        #: When loops may be measured again while a cell runs; whether that is planned.
        self._loops_due = 0.0
        self._has_planned = False

    def note_sent(self) -> None:
        """Note that a state has gone out just now."""
        self._last, self._processor_last = self._clock(), self._processor_clock()

    def charge(self, seconds: float) -> None:
        """Let a loop have its time of the processor after so much work for a state."""
        # Whichever thread has done it, a loop of Python stood still meanwhile.
        self._pause = (seconds + MESSAGES) / SHARE

    def find_time_left(self, in_loop: bool) -> float:
        """Return the seconds until a state may go out, by the clock.

        A loop counts by what it has had of the processor, as the cost of a patch does:
        on a busy machine its picture comes as much less often as it is slower.
        """
        waited = self._clock() - self._last
        if not in_loop:
            return PAUSE - waited
        had = self._processor_clock() - self._processor_last
        left = self._pause - had
        if left > 0:
            # Looked at again when it has had that at its pace so far, and after a pause
            # at least: each timer is a thread.
            pace = had / waited if waited > PAUSE else 1.0
            left = max(left / pace if pace > 0 else left, PAUSE)
        return max(min(left, MOST_WAIT * self._pause - waited), PAUSE - waited)

    @property
    def has_plan(self) -> bool:
        """True if a state is to be sent by itself."""
        return self._due is not None

    def plan(self, seconds: float, resume: Callable[[], None]) -> None:
        """Call back after some seconds, unless that is to happen before."""
        due = self._clock() + seconds
        if self._due is None or due < self._due:
            self._due = due
            self._later(seconds, resume)

    def end_plan(self) -> None:
        """Note that the planned work happens now."""
        self._due = None

    def may_measure_loops(self, in_loop: bool) -> bool:
        """Return whether gradients along loops may be measured now."""
        return not in_loop or self._clock() >= self._loops_due

    def charge_loops(self, seconds: float) -> None:
        """Let a loop have its time after so much for the gradients along loops."""
        self._loops_due = self._clock() + seconds / LOOP_SHARE

    def plan_loops(self, is_running: bool, resume: Callable[[], None]) -> None:
        """Call back for the gradients along loops, unless that is planned."""
        if not self._has_planned:
            self._has_planned = True
            due = self._loops_due - self._clock() if is_running else 0.0
            self._later(max(PAUSE, due), resume)

    def end_loops(self) -> None:
        """Note that the loops are measured now."""
        self._has_planned = False
