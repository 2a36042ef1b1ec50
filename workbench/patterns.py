"""Structures that a model has many of, as targets of overrides.

`linear` is every linear layer, however it is written; `layer` gives the roles of one
to a rule. A structure of your own is :func:`workbench.pattern`.
"""

from workbench.overrides.linear_structures import Layer, layer, linear

__all__ = ["Layer", "layer", "linear"]
