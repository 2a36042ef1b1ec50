"""Small ONNX models, and what all their tests need."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

HAS_ONNX = find_spec("onnx") is not None

if HAS_ONNX:
    from onnx import TensorProto, helper, numpy_helper

#: What a module of tests is marked with that reads ONNX.
NEEDS_ONNX = [
    pytest.mark.long,
    pytest.mark.skipif(not HAS_ONNX, reason="pip install 'autodiff-workbench[onnx]'"),
]


def value(name: str, shape: Sequence[Any] | None = None, kind: str = "DOUBLE") -> Any:
    """Return what a graph says of an input or output."""
    return helper.make_tensor_value_info(name, getattr(TensorProto, kind), shape)


def node(op: str, inputs: str, outputs: str, **settings: Any) -> Any:
    """Return a node; a dot is an operand that is left out."""
    names = [x if x != "." else "" for x in inputs.split()]
    return helper.make_node(op, names, outputs.split(), **settings)


def model(
    *nodes: Any,
    inputs: str = "x",
    outputs: str = "y",
    opset: int = 20,
    functions: Sequence[Any] = (),
    kinds: dict[str, str] | None = None,
    **arrays: Any,
) -> Any:
    """Return a model of these nodes; ``arrays`` are its initialisers."""
    kinds = kinds or {}
    graph = helper.make_graph(
        list(nodes),
        "program",
        [value(x, None, kinds.get(x, "DOUBLE")) for x in inputs.split()],
        [value(x, None, kinds.get(x, "DOUBLE")) for x in outputs.split()],
        [
            x if hasattr(x, "dims") else numpy_helper.from_array(np.asarray(x), name)
            for name, x in arrays.items()
        ],
    )
    versions = [helper.make_opsetid("", opset)]
    versions += [helper.make_opsetid(f.domain, 1) for f in functions]
    return helper.make_model(
        graph, opset_imports=versions, ir_version=10, functions=list(functions)
    )


def body(nodes: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any]) -> Any:
    """Return a graph that stands in a node."""
    return helper.make_graph(list(nodes), "body", list(inputs), list(outputs))


def external(location: str, **entries: Any) -> Any:
    """Return a stored tensor of two floats whose data lies in another file."""
    tensor = TensorProto()
    tensor.name, tensor.data_type = "w", TensorProto.FLOAT
    tensor.dims.extend([2])
    tensor.data_location = TensorProto.EXTERNAL
    for key, text in {"location": location, **entries}.items():
        entry = tensor.external_data.add()
        entry.key, entry.value = key, str(text)
    return tensor


def stored(kind: int, dims: Sequence[int], data: bytes = b"") -> Any:
    """Return a stored tensor, damaged or not."""
    tensor = TensorProto()
    tensor.name, tensor.data_type, tensor.raw_data = "w", kind, data
    tensor.dims.extend(dims)
    return tensor
