"""Graphs as ONNX models: `to_onnx`."""

from __future__ import annotations

from typing import Any


def to_onnx(graph: Any, path: Any = None) -> Any:
    """Return a graph as an ONNX model."""
    raise NotImplementedError
