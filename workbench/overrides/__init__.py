"""Overrides of gradients: targets, patterns, precedence, rules and their runner."""
