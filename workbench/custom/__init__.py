"""Ops with gradients of their own, made by users.

`op.py` makes one of any code (`Op`), `from_graph.py` one of a graph of symbols
(`OpFromGraph`), `functions.py` one of a function with its rules. `registry.py` has the
gradients that are registered by name; `running.py` runs the rules of all these, by
`overrides/rules.py`, and has the op for many examples; `kernels/` has ops in C and
CUDA.
"""
