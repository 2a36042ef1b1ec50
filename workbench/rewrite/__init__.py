"""Patterns, and what finds them in a program."""
