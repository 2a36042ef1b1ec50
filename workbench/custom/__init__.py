"""Ops with gradients of their own, made by users.

`op.py` makes one of any code (`Op`), `from_graph.py` one of a graph of symbols
(`OpFromGraph`), built on the op of a recorded program (`whole.py`). `registry.py` has
the gradients that are registered by name, `running.py` runs all their rules.
"""
