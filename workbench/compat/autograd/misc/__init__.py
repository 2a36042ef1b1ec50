"""`autograd.misc`: `flatten`, `const_graph`, optimizers and fixed points."""

from __future__ import annotations

from workbench.compat.autograd.misc import fixed_points, optimizers, tracers
from workbench.compat.autograd.misc.flatten import flatten
from workbench.compat.autograd.misc.tracers import const_graph

__all__ = ["const_graph", "fixed_points", "flatten", "optimizers", "tracers"]
