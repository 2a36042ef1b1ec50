"""Floor 5: whether a gradient is right."""
