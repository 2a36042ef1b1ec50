"""See, change and check your gradients."""

__version__ = "0.1.0"
