"""Floor 6: one traced program with every stage kept, and its overrides.

`session.py` is the `Session` itself, `kept.py` what it keeps, `changing.py` what
changes it; `question.py` looks at what it is asked to differentiate, `stages.py`
computes values and gradients, `nodes.py` finds nodes, `attached.py` describes
overrides, `coding.py` says them as code, `saving.py` and `storing.py` put them into
files, `history.py` keeps what can be undone, `derivatives.py` takes other
derivatives of the same program: `chosen.py` says of what by what, `derivative.py`
and `matrix.py` are what comes out, `sweeping.py` and `recorded.py` compute a part of
it at a time, `pooling.py` sees such parts; `statistics.py` says numbers about arrays,
and `turns.py` is its lock.
"""

from workbench.session.session import Session

__all__ = ["Session"]
