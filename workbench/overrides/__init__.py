"""Overrides of gradients: targets, patterns, precedence, rules and their runner.

`override.py` is the value that users make, `override_blocks.py` the ``with`` block.
What it means stands in `targets.py`, `patterns.py`, `linear_structures.py` and
`subgraphs.py`; `resolution.py` finds where it holds in one program. Its rule is a
function, data, or a name (`named.py`, `rule_parser.py`), and runs by `rules.py`. A rule
that is data is a text (`expression.py`) or a list of nodes (`graph_rule.py`), of
functions that `allowed_ops.py` lets it name: recorded, weighed by `autodiff/budget.py`,
and run as a Graph. `shipped/` holds the rules of `workbench.rules`.
"""
