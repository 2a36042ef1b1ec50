"""Floor 2: what can be computed. One op, one paragraph."""
