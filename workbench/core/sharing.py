"""Sharing of memory between arrays, and the layout of arrays.

Whether a result of NumPy's is a view depends on strides: what is written to it, and to
what it was made of, with it. Of values that is seen; of Tensors without values each op
back to the leaves is run once on stand-ins, which lie in memory as the values would.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.core import blame, dims, traces, types
from workbench.core.deferred import compute_op
from workbench.core.memory import READ, Memory, resolve
from workbench.core.op import CopyParams, RavelParams, ViewParams, declare
from workbench.core.tensor import CHANGED, IDENTITY, Tensor
from workbench.core.traces import node_of
from workbench.errors import TraceError


def find_memory(x: Tensor) -> Tensor:
    """Return the Tensor that owns the memory of a Tensor, perhaps itself."""
    while type(x) in CHANGED or (
        x.op.view is not None and _may_be_view(x, x.inputs[0])
    ):
        if type(x) in CHANGED:
            if x.memory.whole:
                return x
            x = x.memory.node
        else:
            x = x.inputs[0]
    return x


def _may_be_view(x: Tensor, base: object) -> bool:
    """Return whether a Tensor is a view, or may be one where values are not known."""
    unknown = isinstance(base, Tensor) and READ(x) is None
    if unknown and type(x.params) is not CopyParams:
        return x.op.view is not None and x.op.view.shares(x.params)
    return is_view(x, base)


def is_view(x: Tensor, base: object) -> bool:
    """Return whether a Tensor is a view of its operand ``base``."""
    if not isinstance(base, Tensor):
        return False
    if isinstance(x.params, ViewParams):
        return x.params.holder is None or x.params.holder() is not None
    if type(x.params) is CopyParams or is_number(x) or is_number(base):
        return False
    a, b = READ(x), READ(base)
    if type(a) is np.ndarray and type(b) is np.ndarray:
        return a is b or bool(np.may_share_memory(a, b))
    if a is None and x._value is None:
        return _is_symbolic_view(x, base)
    return x.op.view is not None and x.op.view.shares(x.params)


def _is_symbolic_view(x: Tensor, base: Tensor) -> bool:
    """Return whether NumPy would give a view, found at stand-ins of known lengths."""
    if x.op.view is None or not x.op.view.shares(x.params):
        return False
    if not x.op.view.may_copy:
        return True
    if (example := find_layout(base)) is not None:
        made = compute_op(x.op, (example, *x.inputs[1:]), x.params)
        if type(x.params) is RavelParams and not made.flags.c_contiguous:
            return False
        return bool(np.may_share_memory(example, made))
    raise TraceError(
        f"whether {blame.describe(x)} shares memory with its"
        f" operand{blame.quote_site(x.site)}, and would be changed in"
        f" place{blame.user_line()}, depends on the order of entries in memory, which"
        " is not known while tracing without values. Write .copy() where it is made,"
        " or before that."
    )


COPY = declare("copy")


def find_layout(node: Any) -> Any:
    """Return an array that lies in memory as the value of a node would; or None.

    Each op back to the leaves is run once on arrays of ones, which lie as values would.
    None where it is not known: in the functions that are recorded once, arguments of
    two axes may lie in either order.
    """
    stack = traces.LOCAL.stack or traces.OPEN
    known = stack[0].layouts if stack else {}
    node = node_of(node)
    todo = [node]
    while todo:
        x = todo[-1]
        if not isinstance(x, Tensor) or x.serial in known:
            todo.pop()
            continue
        value = READ(x)
        if value is None and (example := _find_example(x)) is not None:
            value = example
        if value is not None or _has_unknown_length(x):
            known[todo.pop().serial] = value
            continue
        inputs = [node_of(i) for i in x.inputs]
        missing = [i for i in inputs if isinstance(i, Tensor) and i.serial not in known]
        if missing:
            todo += missing
            continue
        parts = [known[i.serial] if isinstance(i, Tensor) else i for i in inputs]
        known[todo.pop().serial] = _lay_out_example(x, parts)
    return known[node.serial] if isinstance(node, Tensor) else node


def note_example(leaf: Tensor, batch: Any, axis: int) -> None:
    """Note how the examples of a batch lie in memory, for a leaf without a value."""
    batch = resolve(batch)
    value = batch._value if isinstance(batch, Tensor) else batch
    if type(value) is np.ndarray and value.ndim and value.size:
        example = value[(slice(None),) * (axis % value.ndim) + (0,)]
        if type(example) is np.ndarray:
            trace = traces.LOCAL.stack[-1]
            trace.examples = {**(trace.examples or {}), leaf.serial: example}


def _find_example(x: Tensor) -> Any:
    """Return an example of a leaf without a value, if a trace knows one."""
    if x.op is IDENTITY:
        for trace in traces.LOCAL.stack or traces.OPEN:
            if trace.examples and x.serial in trace.examples:
                return trace.examples[x.serial]
    return None


def _has_unknown_length(x: Tensor) -> bool:
    spec: Any = x.spec  # several of a node with several outputs
    specs = spec if isinstance(spec, tuple) else (spec,)
    return any(dims.has_dim(spec.shape) for spec in specs)


def _lay_out_example(x: Tensor, parts: list[Any]) -> Any:
    spec: Any = x.spec
    several = isinstance(spec, tuple)
    if not several:
        shape, dtype = spec.shape, spec.dtype
        order = x.params.get("order") if x.op is COPY else None
        if x.op is IDENTITY and parts:  # what an inner trace makes of a Tensor
            return parts[0]
        if x.op is IDENTITY and len(shape) > 1:
            return None
        if x.op is IDENTITY or not shape or order in ("C", "F"):
            return np.ones(shape, dtype, order=order or "C")  # host array: a stand-in
    if any(p is None for p in parts):
        return None
    try:
        with np.errstate(all="ignore"):
            made = compute_op(x.op, parts, x.params)
    except Exception:
        return None
    if several:
        return made
    if type(made) is not np.ndarray or made.shape != shape:
        return None
    if type(x.params) is RavelParams:
        made = np.ascontiguousarray(made)
    for part in parts:  # one array for all that lie alike: a program has many nodes
        if type(part) is np.ndarray and part.dtype == made.dtype:
            if part.shape == shape and part.strides == made.strides:
                return part
    return made


def is_number(x: Tensor) -> bool:
    """Return whether a Tensor is a number to NumPy, which has no memory to share."""
    if type(x.memory) is Memory:
        return False
    value = READ(x)
    if type(value) is np.ndarray:
        return False
    if isinstance(value, np.generic) or types.is_weak(value):
        return True
    # Without a value, or of a device, whose numbers are arrays without axes.
    if (x.spec if value is None else value).shape:
        return False
    # A view without axes is an array; an entry is a number, and so is a reduction.
    whole = x.op.view is None or type(x.params) is CopyParams
    return whole or ("key" in x.params and Ellipsis not in x.params["key"])


def list_views(x: Tensor) -> list[Tensor]:
    """Return the views of a Tensor that are no handles yet."""
    return [
        view
        for r in x.views or ()
        if (view := r()) is not None and type(view) not in CHANGED and is_view(view, x)
    ]
