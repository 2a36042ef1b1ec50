"""Sparse derivatives: which entries can differ from zero, and how few sweeps find them.

`pattern.py` holds what is known of a matrix before it has values, `propagation.py`
finds it from a program.
"""
