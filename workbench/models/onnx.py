"""ONNX models as functions of NumPy: `from_onnx`."""

from __future__ import annotations

from typing import Any


def from_onnx(model: Any) -> Any:
    """Return an ONNX model as a function, and its weights."""
    raise NotImplementedError
