"""Text in pictures: whatever a name holds, it is text there, and never markup."""

from __future__ import annotations

import re

__all__ = ["safe", "short"]

#: What means something else there; `xml.sax` would load half of the network's modules.
_ESCAPED = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"})

#: What XML cannot hold, even escaped.
_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def safe(text: str) -> str:
    """A text as XML writes it.

    >>> safe('<a href="b">')
    '&lt;a href=&quot;b&quot;&gt;'
    """
    return _FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", text).translate(_ESCAPED)


def short(text: str, most: int) -> str:
    """A text cut to a length.

    >>> short("broadcast_to", 8)
    'broadca…'
    """
    return text if len(text) <= most else f"{text[: most - 1]}…"
