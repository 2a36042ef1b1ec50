"""Checks of gradients, and the search for faults in them.

`gradient_check.py` holds what users call; `comparison.py` compares derivatives with
differences of values (`differences.py`), `progress.py` counts, `report.py` holds the
results. `nodes.py` checks each node's rule by itself (`isolated_node.py`,
`check_rule.py`), small nodes of one op together (`alike_nodes.py`); `step_sweep.py`
measures the error of differences against their step. `statistics.py` measures arrays.
`doctor/` finds causes.
"""
