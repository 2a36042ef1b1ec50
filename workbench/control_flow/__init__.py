"""Loops and branches in the graph: `scan`, `while_loop`, `cond`.

A loop is an op built on a function: its step is recorded once, as a program of its
own (`loop.py`), and runs as straight code (`running.py`), after what no step need do
was cut off (`hoisting.py`). What the op computes stands in `op.py`, its rules in
`rules.py`: the derivative of a loop is a loop again, in either mode, so that any order
works and the time is linear in the steps; of a loop that keeps few states it runs in
pieces (`pieces.py`). What users call stands in `scan.py`, `while_loop.py` and
`cond.py`; what a step takes and returns in `signature.py`, what backends see of a loop
in `lowering.py`.
"""
