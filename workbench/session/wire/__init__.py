"""Floor 6: a session as versioned data, for the page and for saved notebooks.

`protocol.py` is the Python side of the wire's types, `columns.py` writes a session
as a header and flat buffers (`numbers.py` its columns of numbers, `header.py` its
overrides, `found.py` its checks and findings). `saved.py` puts that into a notebook
and reads it back, `listed.py` and `doubt.py` look at what it holds. `detail.py` and
`inside.py` answer questions about one node.
"""

from workbench.session.wire.columns import Patch, Snapshot, changes, failed, take
from workbench.session.wire.detail import detail, read_target
from workbench.session.wire.protocol import MIME_TYPE, SCHEMA
from workbench.session.wire.saved import read_saved, saved

__all__ = [
    "MIME_TYPE",
    "SCHEMA",
    "Patch",
    "Snapshot",
    "changes",
    "detail",
    "failed",
    "read_saved",
    "read_target",
    "saved",
    "take",
]
