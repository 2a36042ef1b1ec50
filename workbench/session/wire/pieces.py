"""A large state in pieces, so that the page stands still for none of them.

The buffers go ahead of the message that says what they are: piece by piece, each when
the one before is acknowledged, like any state. `extension/src/wire/pieces.ts` puts them
together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

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
