"""One traced program with every stage kept, and its overrides.

`session.py` is `Session`, what users call. Its content at one moment is a `State`
(`state.py`, with undo and the lock of a session); `stages.py` computes its values and
gradients, `nodes.py` finds nodes by name, `applied_override.py` describes an override
and writes it as code, `storage.py` puts overrides into files. `timeline.py` remembers
the norms of each run, `comparison.py` compares two of them, or two sessions.

`derivative.py` takes the derivative of any node by any other: a `Matrix` (`matrix.py`)
that is computed part by part. `checks.py` compares gradients with the truth and runs
the doctor. `wire/` writes a session as data.
"""

from workbench.session.session import Session

__all__ = ["Session"]
