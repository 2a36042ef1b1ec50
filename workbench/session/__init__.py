"""Floor 6: one traced program with every stage kept, and its overrides.

`session.py` is `Session`; what it has at one moment is a `State` (`state.py`), which
follows from its `Objective` (`objective.py`: of what, by what), its inputs and its
overrides. `history.py` keeps what can be undone, `stages.py` computes values and
gradients, `nodes.py` finds nodes, `applied_override.py` describes overrides,
`coding.py` says them as code, `storing.py` puts them into files. `derivatives.py`
takes other derivatives of the same program: `chosen.py` says of what by what,
`derivative.py` and `matrix.py` are what comes out, `sweeping.py` and `recorded.py`
compute a part of it at a time, `pooling.py` sees such parts. `checking.py` and
`diagnosing.py` judge the gradients, `statistics.py` says numbers about arrays,
`fair_lock.py` is the lock.
"""

from workbench.session.session import Session

__all__ = ["Session"]
