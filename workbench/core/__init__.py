"""Programs: Tensors and their Graph, and the way from NumPy code to a Graph.

`tensor.py` and `op.py` are the two nouns, `graph.py` a program and `schedule.py` what
runs it, `trace.py` how a function becomes one (`traces.py`: which traces are open),
`recorder.py` one of all that a function reads. Lengths that are unknown stand in
`dims.py`, what a result looks like in `infer.py`, the user's lines in `source.py`, what
errors say in `blame.py`, calls to rooms above in `hooks.py`.
"""
