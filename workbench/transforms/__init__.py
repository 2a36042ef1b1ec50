"""Floor 3: Graph in, Graph out."""
