"""Derivatives as optimisers ask for them: `wb.optimize.problem`.

`problem.py` turns NumPy functions into values, gradients, Jacobians and Hessians of
one flat vector, each computed once per point; `solvers.py` puts them into the words of
SciPy's solvers and of IPOPT.
"""

from __future__ import annotations

from workbench.optimize.problem import Problem, System, problem

__all__ = ["Problem", "System", "problem"]
