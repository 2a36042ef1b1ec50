"""Whether a gradient is right, and who is to blame where it is not.

`verify.py` holds what users call; `running.py` is a check while it runs, `progress.py`
how far it is, `report.py` what it found. `differences.py` takes derivatives of values,
`nodes.py` looks at each node's rule, one node at a time (`local.py`, `check_rule.py`);
`steps.py` measures the error of differences against their step. `doctor/` finds causes.
"""
