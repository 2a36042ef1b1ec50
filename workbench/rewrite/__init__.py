"""Patterns (`forms.py`), and what finds them in a program (`patterns.py`)."""
