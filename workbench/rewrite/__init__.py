"""Programs rewritten: rules, their driver, and the search for patterns.

A pattern is recorded as graphs (`forms.py`) and found in a program (`patterns.py`); a
rule puts something else in its place (`rule.py`). The rules stand in tables,
`exact_rules.py`, `stable_rules.py` and `contract_rules.py` with `contraction.py`;
`check.py` tries those of users on numbers. `driver.py` applies them to a program and
keeps each step, which `text.py` writes.
"""
