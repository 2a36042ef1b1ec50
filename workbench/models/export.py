"""Graphs as ONNX models: `to_onnx`, and the ops that need a writer of their own.

All others are written by what they say of themselves: `export_writer`.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench.core import blame, dims, types
from workbench.core.graph import Graph
from workbench.core.tensor import Tensor, value_of
from workbench.errors import ModelError, UsageError, check_packages
from workbench.models.export_writer import Writer, writes
from workbench.models.onnx_reader import load_library
from workbench.ops.arranging import FLIP
from workbench.ops.contraction import MATMUL
from workbench.ops.conv import CONV
from workbench.ops.convolution import CONVOLVE, CONVOLVE_ND
from workbench.ops.define import ITEM, UNBROADCAST
from workbench.ops.elementwise import WHERE
from workbench.ops.indexing import (
    ARRAY,
    GETITEM,
    SCATTER,
    WHOLE,
    Slice,
    as_index,
    without_ellipsis,
)
from workbench.ops.joining import CONCATENATE, STACK
from workbench.ops.makers import ASTYPE
from workbench.ops.pooling import MAX_POOL, MEAN_POOL
from workbench.ops.scans import CUMSUM
from workbench.ops.shaping import BROADCAST, RESHAPE, TRANSPOSE
from workbench.ops.sorting import ARGSORT
from workbench.ops.updates import SET
from workbench.ops.windows import OVERLAP, WINDOWS

#: The oldest version of ONNX's ops that is written: before it, axes are no operands.
OLDEST = 18


def to_onnx(
    graph: Graph, path: str | os.PathLike[str] | None = None, *, opset: int = 20
) -> Any:
    """Return a graph as an ONNX model; ``wb.trace(wb.grad(f))(x)`` exports a gradient.

    Inputs are called ``x0``, ``x1``, … and outputs ``y0``, ``y1``, …; overrides of the
    graph are in what is written. Loops and branches stay what they are.

    Parameters
    ----------
    graph
        What `workbench.trace` gives, at known shapes.
    path
        A file to write it to.
    opset
        The version of ONNX's ops, from 18 on.

    Returns
    -------
    An ``onnx.ModelProto``, checked.

    Raises
    ------
    ModelError
        If ONNX cannot say an op of the graph; it names the op and its line.
    UsageError
        If ``opset`` is older than 18, or newer than the installed package knows.
    MissingPackageError
        Without the package ``onnx``.

    Examples
    --------
    >>> import numpy as np, workbench as wb  # doctest: +SKIP
    >>> f = lambda x: np.sum(np.tanh(x))  # doctest: +SKIP
    >>> slope = wb.trace(wb.grad(f))(np.ones(3))  # doctest: +SKIP
    >>> model = wb.models.to_onnx(slope, "slope.onnx")  # doctest: +SKIP
    >>> f, weights = wb.models.from_onnx("slope.onnx")  # doctest: +SKIP
    >>> f(weights, np.zeros(3))  # doctest: +SKIP
    [array([1., 1., 1.])]
    """
    check_packages("workbench.models.to_onnx", "onnx", "onnx")
    onnx = load_library()
    newest = onnx.defs.onnx_opset_version()
    if not OLDEST <= opset <= newest:
        raise UsageError(
            f"to_onnx{blame.user_line()}: opset={opset} is not written. Give a version"
            f" from {OLDEST} to {newest}, which onnx {onnx.__version__} knows."
        )
    writer = Writer(onnx)
    for i, x in enumerate(graph.inputs):
        writer.names[x] = f"x{i}"
    inputs = [writer.describe(f"x{i}", x) for i, x in enumerate(graph.inputs)]
    outputs = writer.write_program(graph, "y")
    made = onnx.helper.make_graph(
        writer.nodes, "workbench", inputs, outputs, writer.initializers
    )
    versions = [onnx.helper.make_opsetid("", opset)]
    known = onnx.helper.find_min_ir_version_for(versions)
    model = onnx.helper.make_model(
        made, opset_imports=versions, ir_version=known, producer_name="workbench"
    )
    try:
        onnx.checker.check_model(model, full_check=True)
    except (
        onnx.checker.ValidationError, onnx.shape_inference.InferenceError
    ) as error:  # fmt: skip
        raise ModelError(
            f"to_onnx{blame.user_line()}: ONNX does not take what was written of the"
            f" graph: {blame.shorten(str(error), 300)}. Compute in float64, float32 or"
            " int64, which its ops take."
        ) from None
    if path is not None:
        onnx.save(model, os.fspath(path))
    return model


# Layers of networks


def _join_pads(padding: Any) -> list[int] | None:
    """Return padding as ONNX writes it; None if it cuts."""
    pads = [low for low, _ in padding] + [high for _, high in padding]
    return None if min(pads) < 0 else pads


@writes(CONV)
def _write_convolution(writer: Writer, node: Tensor) -> str | None:
    params = node.params
    pads, dtype = _join_pads(params["padding"]), types.spec_of(node).dtype
    if pads is None or max(params["spacing"]) > 1 or dtype.kind != "f":
        return None
    return writer.add(
        "Conv", *(writer.name_of(x, dtype) for x in node.inputs), pads=pads,
        strides=params["stride"], dilations=params["dilation"], group=params["groups"],
    )  # fmt: skip


def _pool_settings(node: Tensor) -> dict[str, Any] | None:
    params = node.params
    pads = _join_pads(params["padding"])
    if pads is None:
        return None
    return {
        "kernel_shape": params["size"], "strides": params["stride"], "pads": pads,
        "dilations": params["dilation"],
    }  # fmt: skip


@writes(MAX_POOL)
def _write_max_pool(writer: Writer, node: Tensor) -> str | None:
    settings, x = _pool_settings(node), node.inputs[0]
    return (
        None
        if settings is None
        else writer.add("MaxPool", writer.name_of(x), **settings)
    )


@writes(MEAN_POOL)
def _write_mean_pool(writer: Writer, node: Tensor) -> str | None:
    settings = _pool_settings(node)
    if settings is None or max(node.params["dilation"]) > 1:
        return None
    counts = int(node.params["counts_padding"])
    x = writer.name_of(node.inputs[0])
    return writer.add("AveragePool", x, count_include_pad=counts, **settings)


@writes(CONVOLVE)
@writes(CONVOLVE_ND)
def _write_convolved_axes(writer: Writer, node: Tensor) -> str | None:
    """Write a convolution along axes; those in front are groups."""
    dtype, batch, mode = node.dtype, node.params.get("batch", 0), node.params["mode"]
    a, b = node.inputs
    n, m = (types.spec_of(x).shape for x in (a, b))
    front = n[:batch]
    if dtype.kind != "f" or dims.has_dim((*n, *m)) or front != m[:batch]:
        return None
    if mode != "full" and any(k > i for i, k in zip(n, m, strict=True)):
        if mode == "same" or any(i > k for i, k in zip(n, m, strict=True)):
            return None
        (a, n), (b, m) = (b, m), (a, n)
    if 0 in (*n, *m):
        return None
    whole = [k - 1 for k in m[batch:]]
    before = after = [0 for _ in whole] if mode == "valid" else whole
    if mode == "same":
        after = [k // 2 for k in whole]
        before = [k - i for k, i in zip(whole, after, strict=True)]
    back = Slice(None, None, -1)
    x, w = (writer.name_of(v, dtype) for v in (a, b))
    turned = writer.slice_axes(w, dict.fromkeys(range(batch, len(m)), back))
    groups = math.prod(front)
    y = writer.add(
        "Conv",
        writer.reshape(x, (1, groups, *n[batch:])),
        writer.reshape(turned, (groups, 1, *m[batch:])),
        pads=[*before, *after],
        group=groups,
    )
    return writer.reshape(y, types.spec_of(node).shape)


@writes(WINDOWS)
def _write_windows(writer: Writer, node: Tensor) -> str | None:
    return writer.write_move(node)


@writes(OVERLAP)
def _write_overlap(writer: Writer, node: Tensor) -> str | None:
    spec = types.spec_of(node)
    if dims.has_dim(spec.shape):
        return None
    whole = np.arange(math.prod(spec.shape)).reshape(spec.shape)
    places = np.asarray(WINDOWS.compute(whole, **node.params))
    g = writer.name_of(node.inputs[0], spec.dtype)
    return _write_sum(writer, places, g, spec)


# Ops that have no ufunc


@writes(WHERE)
def _write_choice_of_entries(writer: Writer, node: Tensor) -> str:
    dtype = types.spec_of(node).dtype
    flag, *parts = node.inputs
    return writer.add(
        "Where", writer.name_of(flag, bool), *(writer.name_of(x, dtype) for x in parts)
    )


@writes(ASTYPE)
def _write_cast(writer: Writer, node: Tensor) -> str:
    return writer.name_of(node.inputs[0], types.spec_of(node).dtype)


@writes(ITEM)
def _write_item(writer: Writer, node: Tensor) -> str | None:
    names = writer.names.get(node.inputs[0])
    return names[node.params["index"]] if isinstance(names, list) else None


@writes(RESHAPE)
def _write_reshape(writer: Writer, node: Tensor) -> str | None:
    if node.params.get("order", "C") not in ("C", None):
        return None
    return writer.reshape(writer.name_of(node.inputs[0]), types.spec_of(node).shape)


@writes(BROADCAST)
def _write_broadcast(writer: Writer, node: Tensor) -> str:
    shape = writer.integers(types.spec_of(node).shape)
    return writer.add("Expand", writer.name_of(node.inputs[0]), shape)


@writes(TRANSPOSE)
def _write_transpose(writer: Writer, node: Tensor) -> str:
    rank = len(types.spec_of(node).shape)
    axes = [n % rank for n in node.params.get("axes") or range(rank)[::-1]]
    name = writer.name_of(node.inputs[0])
    return name if axes == [*range(rank)] else writer.add("Transpose", name, perm=axes)


@writes(UNBROADCAST)
def _write_unbroadcast(writer: Writer, node: Tensor) -> str:
    old, new = types.spec_of(node.inputs[0]).shape, types.spec_of(node).shape
    lead = len(old) - len(new)
    axes = [*range(lead)]
    axes += [lead + i for i, n in enumerate(new) if n == 1 != old[lead + i]]
    name = writer.name_of(node.inputs[0])
    if axes:
        name = writer.add("ReduceSum", name, writer.integers(axes), keepdims=1)
    return writer.reshape(name, new)


@writes(MATMUL)
def _write_product(writer: Writer, node: Tensor) -> str | None:
    dtype = types.spec_of(node).dtype
    if dtype.kind not in "fiu" or node.params:
        return None
    return writer.add("MatMul", *(writer.name_of(x, dtype) for x in node.inputs))


@writes(CONCATENATE)
def _write_join(writer: Writer, node: Tensor) -> str:
    dtype = types.spec_of(node).dtype
    parts = [writer.name_of(x, dtype) for x in node.inputs]
    return writer.add("Concat", *parts, axis=node.params["axis"])


@writes(STACK)
def _write_stack(writer: Writer, node: Tensor) -> str:
    dtype, rank = types.spec_of(node).dtype, len(types.spec_of(node).shape)
    axis = node.params["axis"] % rank
    at = writer.integers([axis])
    parts = [writer.add("Unsqueeze", writer.name_of(x, dtype), at) for x in node.inputs]
    return writer.add("Concat", *parts, axis=axis)


@writes(CUMSUM)
def _write_running_sum(writer: Writer, node: Tensor) -> str | None:
    axis = node.params.get("axis")
    if axis is None:
        return None
    x = writer.name_of(node.inputs[0], types.spec_of(node).dtype)
    return writer.add("CumSum", x, writer.constant(axis, np.int64))


@writes(ARGSORT)
def _write_order(writer: Writer, node: Tensor) -> str | None:
    x = node.inputs[0]
    spec, axis = types.spec_of(x), node.params.get("axis", -1)
    if spec.dtype.kind not in "fi" or axis is None or not spec.shape:
        return None
    count = writer.integers([spec.shape[axis]])
    made, order = writer.make_name("sorted"), writer.make_name("order")
    writer.nodes.append(
        writer.onnx.helper.make_node(
            "TopK",
            [writer.name_of(x), count],
            [made, order],
            order,
            axis=axis,
            largest=0,
        )
    )
    return order


@writes(FLIP)
def _write_flip(writer: Writer, node: Tensor) -> str:
    rank = len(types.spec_of(node).shape)
    axis = node.params.get("axis")
    axes = range(rank) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    back = Slice(None, None, -1)
    name = writer.name_of(node.inputs[0])
    return writer.slice_axes(name, {n % rank: back for n in axes})


@writes(GETITEM)
def _write_getitem(writer: Writer, node: Tensor) -> str:
    x, *arrays = node.inputs
    shape = types.spec_of(x).shape
    key = without_ellipsis(node.params["key"], len(shape))
    traced = [a for a in arrays if isinstance(a, Tensor) and a in writer.names]
    if traced:
        if len(arrays) == len(shape) and all(part is ARRAY for part in key):
            flat = writer.reshape(writer.name_of(x), [-1])
            return writer.add("Gather", flat, _name_flat_places(writer, arrays, shape))
        axis = _find_only_array(key)
        if axis is None or len(arrays) > 1:
            raise writer.refuse("an index that is computed is written along one axis")
        place = _name_places(writer, arrays[0])
        return writer.add("Gather", writer.name_of(x), place, axis=axis)
    if not arrays and all(type(part) is Slice for part in key):
        taken = {i: part for i, part in enumerate(key) if part != WHOLE}
        lengths = {i: shape[i] for i in taken}
        return writer.slice_axes(writer.name_of(x), taken, lengths)
    return writer.move(_find_places(writer, key, arrays, shape), writer.name_of(x))


@writes(SCATTER)
def _write_scatter(writer: Writer, node: Tensor) -> str:
    g, *arrays = node.inputs
    spec = types.spec_of(node)
    if any(isinstance(a, Tensor) and a in writer.names for a in arrays):
        return _write_scatter_of_rows(writer, node)
    places = _find_places(writer, node.params["key"], arrays, spec.shape)
    return _write_sum(writer, places, writer.name_of(g, spec.dtype), spec)


def _write_sum(writer: Writer, places: Any, value: str, spec: types.Spec) -> str:
    """Write zeros with a value added at flat places."""
    zeros = writer.constant(np.zeros(math.prod(spec.shape), spec.dtype))
    reduction = "none" if np.unique(places).size == places.size else "add"
    return _write_update(writer, zeros, places, value, spec.shape, reduction)


def _write_scatter_of_rows(writer: Writer, node: Tensor) -> str:
    """Write rows that are added at places which are computed."""
    g, *arrays = node.inputs
    spec = types.spec_of(node)
    key = without_ellipsis(node.params["key"], len(spec.shape))
    if len(arrays) == len(spec.shape) and all(part is ARRAY for part in key):
        flat = _name_flat_places(writer, arrays, spec.shape)
        whole = writer.constant(np.zeros(math.prod(spec.shape), spec.dtype))
        made = writer.add(
            "ScatterElements", whole, writer.reshape(flat, [-1]),
            writer.reshape(writer.name_of(g, spec.dtype), [-1]), axis=0,
            reduction="add",
        )  # fmt: skip
        return writer.reshape(made, spec.shape)
    if _find_only_array(key) != 0 or len(arrays) > 1:
        raise writer.refuse("an index that is computed is written along the first axis")
    place = _name_places(writer, arrays[0])
    n = spec.shape[0]
    # Places from the end become those from the start.
    length = writer.constant(n, np.int64)
    whole = writer.add("Mod", writer.add("Add", place, length), length)
    last = writer.add("Unsqueeze", whole, writer.integers([-1]))
    zeros = writer.constant(np.zeros(spec.shape, spec.dtype))
    value = writer.name_of(g, spec.dtype)
    return writer.add("ScatterND", zeros, last, value, reduction="add")


@writes(SET)
def _write_set(writer: Writer, node: Tensor) -> str:
    x, v, *arrays = node.inputs
    spec = types.spec_of(node)
    if any(isinstance(a, Tensor) and a in writer.names for a in arrays):
        raise writer.refuse("values are not written at places that are computed")
    places = _find_places(writer, node.params["key"], arrays, spec.shape)
    flat = writer.reshape(writer.name_of(x, spec.dtype), [-1])
    value = writer.name_of(v, spec.dtype)
    value = writer.add("Expand", value, writer.integers(places.shape))
    return _write_update(writer, flat, places, value, spec.shape, "none")


def _name_flat_places(
    writer: Writer, arrays: Sequence[Any], shape: Sequence[Any]
) -> str:
    """Return the name of flat places, of an array for each axis."""
    writer.integers(shape)  # or an error
    flat = ""
    for axis, (places, n) in enumerate(zip(arrays, shape, strict=True)):
        length = writer.constant(n, np.int64)
        # Places from the end become those from the start.
        along = writer.add("Add", _name_places(writer, places), length)
        along = writer.add("Mod", along, length)
        stride = writer.constant(math.prod(shape[axis + 1 :]), np.int64)
        part = writer.add("Mul", along, stride)
        flat = writer.add("Add", flat, part) if flat else part
    return flat


def _name_places(writer: Writer, places: Any) -> str:
    """Return the name of computed places, which a mask is not."""
    if types.spec_of(places).dtype.kind == "b":
        raise writer.refuse(
            "a mask takes a number of entries that depends on values, and the graph's"
            " lengths are fixed. Write np.where(mask, x, 0)"
        )
    return writer.name_of(places, np.int64)


def _write_update(
    writer: Writer,
    flat: str,
    places: Any,
    value: str,
    shape: Sequence[Any],
    reduction: str,
) -> str:
    flat_value = writer.reshape(value, [-1])
    at = writer.constant(places.reshape(-1))
    made = writer.add(
        "ScatterElements", flat, at, flat_value, axis=0, reduction=reduction
    )
    return writer.reshape(made, shape)


def _find_only_array(key: Sequence[Any]) -> int | None:
    """Return the axis of the one array of an index that takes all else whole."""
    at = [i for i, part in enumerate(key) if part is ARRAY]
    whole = all(part in (ARRAY, WHOLE) for part in key)
    return at[0] if len(at) == 1 and whole else None


def _find_places(
    writer: Writer, key: Sequence[Any], arrays: Sequence[Any], shape: Sequence[Any]
) -> Any:
    """Return the flat places that an index takes of an array of a known shape."""
    if dims.has_dim(tuple(shape)):
        raise writer.refuse("a length is not known. Trace at arrays or known shapes")
    known = tuple(np.asarray(value_of(a)) for a in arrays)
    places: Any = np.arange(math.prod(shape)).reshape(tuple(shape))
    return np.asarray(places[as_index(tuple(key), known)])
