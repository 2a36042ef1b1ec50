"""Derivatives of programs: reverse and forward mode, Jacobians, vmap, checkpoints."""
