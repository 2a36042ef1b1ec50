"""Overrides of gradients: targets, patterns, precedence, rules and their runner.

`override.py` is the value that users make, `override_blocks.py` the ``with`` block.
What it means stands in `targets.py`, `patterns.py`, `linear_structures.py` and
`subgraphs.py`; `resolution.py` finds where it holds in one program. Its rule is a
function, an expression (`expression.py`) or a name (`named.py`, `rule_parser.py`), and
runs by `rules.py`. `shipped/` holds the rules of `workbench.rules`.
"""
