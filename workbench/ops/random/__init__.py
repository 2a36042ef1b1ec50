"""Random draws as nodes of a program, and what moves with a shape parameter."""

from workbench.ops.random import draws, implicit, slopes

__all__ = ["draws", "implicit", "slopes"]
