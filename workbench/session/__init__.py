"""One traced program with every stage kept, and its overrides.

`session.py` is `Session`, what users call. What it has at one moment is a `State`
(`state.py`, with what can be undone and the lock of a session); `stages.py` computes
its values and gradients, `nodes.py` finds nodes by name, `applied_override.py`
describes an override and says it as code, `storage.py` puts overrides into files.

`derivative.py` takes the derivative of any node by any other: a `Matrix` (`matrix.py`)
that is computed a part at a time. `checks.py` compares gradients to the truth and asks
the doctor. `statistics.py` says numbers about arrays, `wire/` writes a session as data.
"""

from workbench.session.session import Session

__all__ = ["Session"]
