"""Programs rewritten: rules, their driver, and the search for patterns.

A pattern is recorded as graphs (`forms.py`) and found in a program (`patterns.py`); a
rule puts something else in its place (`rule.py`). The rules stand in tables,
`exact_rules.py`, `stable_rules.py` and `contract_rules.py` with `contraction.py`;
`check.py` tries those of users on numbers. `driver.py` applies them to a program and
keeps each step, which `text.py` writes.

To add a rule: one row in `exact_rules.py` (every value stays) or `stable_rules.py`
(more digits, no overflow), such as ``rule("double negative", "-(-x)", "x",
group="simplify")``. Names that NumPy does not have are wildcards; ``when=`` is a
condition on them. A row of `stable_rules.py` is found in all spellings of its ops; an
op that is another spelling of one says so in its row (``spelling=Spelling("multiply",
lambda x: (x, x))``). Then ``python -m tests.rewrite.listing --write``, and ``python -m
pytest tests/rewrite``: each rule is tried there on numbers of all kinds.
"""
