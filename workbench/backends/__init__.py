"""Floor 4: a Graph becomes a function of arrays."""
