"""A session as versioned data, for the page and for saved notebooks.

`protocol/` is the Python side of the wire's types. `columns.py` writes a session as
a header and flat buffers, `header.py` what the header says of overrides, checks and
findings. `notebook.py` puts that into a notebook and reads it back, with
suspicion. `detail.py` answers questions about one node, `array_part.py` draws its
arrays, `inner_program.py` tells of the program in it, `timeline.py` and `moments.py`
of past runs, `rewriting.py` of how the derivative is simplified.
"""

from workbench.session.wire.array_part import encode_array, list_array_history
from workbench.session.wire.columns import (
    Picture,
    Snapshot,
    encode_picture,
    find_changes,
    take_failed_snapshot,
    take_snapshot,
)
from workbench.session.wire.detail import (
    encode_entry,
    encode_preview,
    gather_details,
    list_details,
)
from workbench.session.wire.inner_program import take_inside
from workbench.session.wire.lesson import write_lesson
from workbench.session.wire.moments import (
    encode_moments,
    list_peers,
    take_moment,
    take_peer,
)
from workbench.session.wire.notebook import read_saved, save_snapshot
from workbench.session.wire.protocol.fields import MIME_TYPE, SCHEMA
from workbench.session.wire.rewriting import list_rewrites, take_program
from workbench.session.wire.timeline import list_norms, merge_points, name_branches

__all__ = [
    "MIME_TYPE",
    "SCHEMA",
    "Picture",
    "Snapshot",
    "encode_array",
    "encode_entry",
    "encode_moments",
    "encode_picture",
    "encode_preview",
    "find_changes",
    "gather_details",
    "list_array_history",
    "list_details",
    "list_norms",
    "list_peers",
    "list_rewrites",
    "merge_points",
    "name_branches",
    "read_saved",
    "save_snapshot",
    "take_failed_snapshot",
    "take_inside",
    "take_moment",
    "take_peer",
    "take_program",
    "take_snapshot",
    "write_lesson",
]
