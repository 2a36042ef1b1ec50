"""ONNX models as functions of NumPy: `from_onnx`.

`read_model` checks a file and takes it apart into a `Program` of steps; running one
calls for each step, in this order: its row of the tables; without a Tensor among its
operands, or of a kind of number that NumPy does not have, the implementation of the
package `onnx`; the definition of its op by other ops; that implementation, which is
plain NumPy, on Tensors. A program inside a step (`If`, `Loop`, `Scan`) is a `Program`
too.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import import_module
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any

import numpy as np

from workbench.control_flow.cond import cond
from workbench.control_flow.scan import scan
from workbench.core import blame
from workbench.core.source import scope
from workbench.core.tensor import Tensor, value_of
from workbench.errors import (
    DtypeError,
    ModelError,
    ShapeError,
    UsageError,
    check_packages,
)
from workbench.models import (  # noqa: F401  (enter their rows)
    onnx_layer_rules,
    onnx_recurrence_rules,
    onnx_sampling_rules,
)
from workbench.models.onnx_rules import (
    ROWS,
    RefusedError,
    Unsupported,
    check_count,
    read_integers,
)

#: The values of a running program by their names; "" is an operand that is left out.
Values = dict[str, Any]
#: How deep programs may stand in each other, functions that call functions included.
DEEPEST = 40
#: Names of ONNX's own set of ops.
ONNX_DOMAINS = ("", "ai.onnx")


def from_onnx(
    model: str | os.PathLike[str] | bytes | Any,
) -> tuple[Callable[..., list[Any]], dict[str, Any]]:
    """Return an ONNX model as a function of NumPy, and its weights.

    The function is called as ``f(weights, *inputs)`` and returns the list of the
    model's outputs: plain arrays for plain arrays, and with Tensors it is recorded as
    any NumPy code. Nodes named ``/encoder/layer0/MatMul`` stand in the scope
    ``encoder/layer0``. `Loop` and `Scan` of a known number of steps stay loops; others,
    and `If`, follow the values they see. Nothing of a file is run, and no file but it
    and its external data is read.

    Parameters
    ----------
    model
        A path, the bytes of a file, or an ``onnx.ModelProto``.

    Returns
    -------
    f
        The function. Its inputs are those of the model without an initialiser, in the
        model's order.
    weights
        The model's initialisers of floats by name, arrays to be changed or given to
        `workbench.grad` at will. Integers, which are shapes and places, stay in the
        function.

    Raises
    ------
    ModelError
        If the data is no ONNX model, damaged, or of a newer version than the installed
        package knows; if external data is missing or lies outside the model's folder.
        The function raises it for a step that cannot be computed, with op and node.
    MissingPackageError
        Without the package ``onnx``.

    Examples
    --------
    >>> import numpy as np, workbench as wb  # doctest: +SKIP
    >>> f, weights = wb.models.from_onnx("model.onnx")  # doctest: +SKIP
    >>> loss = lambda w, x: np.sum(f(w, x)[0] ** 2)  # doctest: +SKIP
    >>> sorted(wb.grad(loss)(weights, np.ones((1, 4), np.float32)))  # doctest: +SKIP
    ['bias', 'weight']
    """
    program, weights = read_model(model)
    initialized = program.initial | program.constants.keys()
    names = [name for name in program.inputs if name not in initialized]

    def run_model(weights: Mapping[str, Any], *inputs: Any) -> list[Any]:
        if len(inputs) != len(names):
            raise UsageError(
                f"The model{blame.user_line()} takes weights and"
                f" {blame.format_count(len(names), 'input')}"
                f" ({', '.join(map(blame.shorten, names))}), not {len(inputs)}. Call"
                " f(weights, *inputs)."
            )
        missing = program.initial - weights.keys()
        if missing:
            raise UsageError(
                f"The model{blame.user_line()} needs the weight"
                f" {blame.shorten(min(missing))!r}, which is not among those given."
                " Give all that from_onnx returned: {**weights, name: new}."
            )
        given = {**weights, **dict(zip(names, inputs, strict=True))}
        given = {name: _as_array(program, name, x) for name, x in given.items()}
        # An array of the model itself is handed out as one to be changed.
        return [
            y.copy() if isinstance(y, np.ndarray) and not y.flags.writeable else y
            for y in run_program(program, given)
        ]

    kinds = {name: (x.dtype, x.shape) for name, x in weights.items()}
    program = replace(program, kinds={**program.kinds, **kinds})
    return run_model, weights


def _as_array(program: Program, name: str, x: Any) -> Any:
    """Return a number, or a list where the model wants an array, as an array."""
    if x is None or hasattr(x, "dtype"):
        return x
    dtype, _ = program.kinds.get(name, (None, ()))
    if isinstance(x, (list, tuple)) and dtype is None:
        return x  # a sequence
    try:
        return np.asarray(x, dtype)
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"The model{blame.user_line()} takes {blame.shorten(name)!r} as an array of"
            f" {dtype or 'numbers'}, and this {type(x).__name__} is none: {error}. Give"
            " an array."
        ) from None


# What a file says


@dataclass(frozen=True)
class Step:
    """One node of a model: its op, the names of its values, its settings."""

    op: str
    domain: str
    version: int
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    #: By name; a program in it is a `Program`.
    settings: dict[str, Any]
    #: A path of names, or None.
    scope: str | None
    #: What it was made of, and which functions and versions hold there.
    proto: Any
    source: Source
    #: The names that are read for the last time.
    last_reads: list[str] = field(default_factory=list)
    #: Its op's definitions by other ops, and what `onnx` runs, once they are made.
    made: dict[Any, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        """Return how errors call it."""
        op = f"{self.domain}.{self.op}" if self.domain else self.op
        name = self.name or (self.outputs[0] if self.outputs else "")
        return f"{blame.shorten(op)}, node {blame.shorten(name)!r} of the model"


@dataclass(frozen=True)
class Program:
    """The steps between inputs and outputs, all by name."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    steps: tuple[Step, ...]
    #: Values that are there from the start.
    constants: Values
    #: The names of constants that whoever runs it gives.
    initial: frozenset[str]
    #: The names that it reads of the program around it.
    captures: frozenset[str]
    #: The dtypes and shapes of inputs and outputs that are told; None is any length.
    kinds: Mapping[str, tuple[Any, tuple[int | None, ...]]]


@dataclass(frozen=True)
class Source:
    """What holds in one file or function: versions of op sets, functions, a folder."""

    versions: Mapping[str, int]
    #: By domain, name and overload.
    functions: Mapping[tuple[str, str, str], Any]
    depth: int = 0

    def descend(self, versions: Mapping[str, int] | None = None) -> Source:
        """Return what holds one program further inside."""
        if self.depth >= DEEPEST:
            raise ModelError(
                f"from_onnx{blame.user_line()}: programs stand in each other more than"
                f" {DEEPEST} deep, or a function of the model calls itself."
            )
        return Source(versions or self.versions, self.functions, self.depth + 1)


@cache
def load_library() -> ModuleType:
    """Return the package `onnx`."""
    check_packages("workbench.models.from_onnx", "onnx", "onnx")
    import_module("onnx.numpy_helper")
    return import_module("onnx")


def read_model(model: Any) -> tuple[Program, dict[str, Any]]:
    """Return a model as a program and its initialisers, checked."""
    onnx = load_library()
    proto, folder = parse_model(onnx, model)
    versions = read_versions(onnx, proto.opset_import)
    if proto.ir_version < 3:  # before versions were told
        versions.setdefault("", 1)
    functions = {(f.domain, f.name, f.overload): f for f in proto.functions}
    if len(functions) < len(proto.functions):
        raise _refuse("two functions have one domain, name and overload")
    arrays = read_initializers(onnx, proto.graph, folder)
    weights = {name: x for name, x in arrays.items() if x.dtype.kind in "fc"}
    source = Source(versions, functions)
    program = read_graph(proto.graph, source, frozenset(), folder, (arrays, weights))
    if program.captures:
        raise _refuse(f"nothing makes {blame.shorten(min(program.captures))!r}")
    return program, weights


def _refuse(why: str) -> ModelError:
    return ModelError(f"from_onnx{blame.user_line()}: {why}.")


def parse_model(onnx: ModuleType, model: Any) -> tuple[Any, Path | None]:
    """Return a model as a message, and the folder that its external data lies in."""
    folder = None
    if isinstance(model, onnx.ModelProto):
        proto = model
    else:
        what = "these bytes are"
        if not isinstance(model, bytes):
            path = Path(model)
            folder, what = path.absolute().parent, f"{path.name} is"
            model = path.read_bytes()
        try:
            proto = onnx.load_model_from_string(model)
        except Exception as error:
            raise _refuse(f"{what} no ONNX model: {error}") from None
        # Any bytes may be a message without a field that is known.
        if not proto.ir_version or not proto.HasField("graph"):
            raise _refuse(f"{what} no ONNX model: there is no graph in it")
    return proto, folder


def read_versions(onnx: ModuleType, entries: Iterable[Any]) -> dict[str, int]:
    """Return the version of each set of ops, or raise an error if one is too new."""
    known = {"": onnx.defs.onnx_opset_version()}
    known["ai.onnx.ml"] = onnx.defs.onnx_ml_opset_version()
    versions = {}
    for entry in entries:
        domain = "" if entry.domain in ONNX_DOMAINS else entry.domain
        if entry.version > known.get(domain, math.inf):
            raise _refuse(
                f"the model is of version {entry.version} of the ops"
                f" {domain or 'ai.onnx'}, and onnx {onnx.__version__} knows up to"
                f" {known[domain]}. Run pip install --upgrade onnx"
            )
        versions[domain] = entry.version
    return versions


def read_initializers(
    onnx: ModuleType, graph: Any, folder: Path | None
) -> dict[str, Any]:
    """Return the arrays of a graph by name."""
    found = [(x.name, read_array(onnx, x, folder)) for x in graph.initializer]
    for sparse in graph.sparse_initializer:
        found.append((sparse.values.name, read_sparse(onnx, sparse, folder)))
    _check_names([name for name, _ in found], "initialiser")
    return dict(found)


def _check_names(names: Sequence[str], what: str) -> None:
    """Raise an error if a name is empty, which is what is left out, or there twice."""
    if "" in names:
        raise _refuse(f"an {what} has no name")
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise _refuse(f"two {what}s have the name {blame.shorten(name)!r}")
        seen.add(name)


def read_array(onnx: ModuleType, tensor: Any, folder: Path | None) -> Any:
    """Return a stored tensor as an array of its own."""
    name = blame.shorten(tensor.name)
    if any(n < 0 for n in tensor.dims):
        raise _refuse(f"the tensor {name!r} has a negative length")
    try:
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            whole = onnx.TensorProto()
            whole.CopyFrom(tensor)
            whole.raw_data = read_external(tensor, folder)
            whole.data_location = onnx.TensorProto.DEFAULT
            tensor = whole
        return np.array(onnx.numpy_helper.to_array(tensor))
    except ModelError:
        raise
    except Exception as error:
        raise _refuse(f"the tensor {name!r} is damaged: {error}") from None


def _lock(array: Any) -> Any:
    """Return an array that nobody writes to: it is part of a model."""
    array.flags.writeable = False
    return array


def read_external(tensor: Any, folder: Path | None) -> bytes:
    """Return the bytes of a tensor that lie in a file beside the model's."""
    name = blame.shorten(tensor.name)
    entries = {x.key: x.value for x in tensor.external_data}
    place = entries.get("location", "")
    told = f"the data of {name!r} is in another file, {blame.shorten(place)!r}, "
    if folder is None:
        raise _refuse(told + "which is found beside a path only. Give the path")
    file = (folder / place).resolve()
    if not file.is_relative_to(folder.resolve()) or file == folder.resolve():
        raise _refuse(told + "outside the model's folder, which is not read")
    if not file.is_file():
        raise _refuse(told + "which is not there")
    start = int(entries.get("offset", 0))
    size = file.stat().st_size
    count = int(entries.get("length", size - start))
    if start < 0 or count < 0 or start + count > size:
        raise _refuse(told + f"which has no bytes {start} to {start + count}")
    with file.open("rb") as stream:
        stream.seek(start)
        return stream.read(count)


def read_sparse(onnx: ModuleType, tensor: Any, folder: Path | None) -> Any:
    """Return a sparse tensor as an array with its zeros."""
    values = read_array(onnx, tensor.values, folder)
    places = read_array(onnx, tensor.indices, folder)
    shape = tuple(tensor.dims)
    check_count(shape, "a sparse tensor")
    whole = np.zeros(shape, values.dtype)
    try:
        if places.ndim == 1:
            whole.reshape(-1)[places] = values
        else:
            whole[tuple(places.T)] = values
    except (IndexError, ValueError) as error:
        raise _refuse(f"a sparse tensor is damaged: {error}") from None
    return whole


def read_graph(
    graph: Any,
    source: Source,
    outer: frozenset[str],
    folder: Path | None,
    given: tuple[Values, Values] | None = None,
) -> Program:
    """Return a graph as a program.

    ``given`` are its initialisers, where they are read, and those that users give.
    """
    onnx = load_library()
    arrays, weights = given or (read_initializers(onnx, graph, folder), {})
    constants = {name: x for name, x in arrays.items() if name not in weights}
    initial = frozenset(weights)
    constants = {name: _lock(x) for name, x in constants.items()}
    inputs = tuple(x.name for x in graph.input)
    _check_names(inputs, "input")
    names = {*initial, *constants, *inputs}
    outputs = tuple(x.name for x in graph.output)
    return read_nodes(
        graph.node,
        source,
        (inputs, outputs),
        names,
        outer,
        folder,
        (constants, initial),
        dict(filter(None, map(_read_kind, [*graph.input, *graph.output]))),
    )


def _read_kind(x: Any) -> tuple[str, tuple[Any, tuple[int | None, ...]]] | None:
    """Return the name of an array, its dtype and its shape; None of what is none."""
    told = x.type.tensor_type
    if not x.type.HasField("tensor_type") or not told.elem_type:
        return None
    try:
        dtype = load_library().helper.tensor_dtype_to_np_dtype(told.elem_type)
    except (KeyError, TypeError):
        return None
    lengths = (n.dim_value if n.HasField("dim_value") else None for n in told.shape.dim)
    return x.name, (dtype, tuple(lengths))


def read_nodes(
    nodes: Sequence[Any],
    source: Source,
    ends: tuple[tuple[str, ...], tuple[str, ...]],
    names: set[str],
    outer: frozenset[str],
    folder: Path | None,
    values: tuple[Values, frozenset[str]],
    kinds: Mapping[str, Any] = MappingProxyType({}),
) -> Program:
    """Return nodes as a program, once each reads only what stands before it."""
    captures: set[str] = set()
    last: dict[str, int] = {}

    def note_read(name: str, i: int, reader: str) -> None:
        if not name:
            return
        if name not in names:
            if name not in outer:
                raise _refuse(
                    f"{reader} reads {blame.shorten(name)!r}, which nothing before it"
                    " makes: nodes stand in a circle, or a part is missing"
                )
            captures.add(name)
        last[name] = i

    steps = []
    for i, node in enumerate(nodes):
        step = read_step(node, source, (outer, names), folder)
        for name in node.input:
            note_read(name, i, str(step))
        for inner in step.settings.values():
            if isinstance(inner, Program):
                for name in inner.captures:
                    note_read(name, i, str(step))
        for name in filter(None, node.output):
            if name in names:
                raise _refuse(f"{step} makes {blame.shorten(name)!r} a second time")
            names.add(name)
        steps.append(step)
    inputs, outputs = ends
    for name in outputs:
        note_read(name, len(steps), "the list of outputs")
    for name, i in last.items():
        if i < len(steps):
            steps[i].last_reads.append(name)
    constants, initial = values
    return Program(
        inputs, outputs, tuple(steps), constants, initial, frozenset(captures), kinds
    )


def read_step(
    node: Any,
    source: Source,
    names: tuple[Iterable[str], ...],
    folder: Path | None,
) -> Step:
    """Return a node as a step."""
    domain = "" if node.domain in ONNX_DOMAINS else node.domain
    if not domain and "" not in source.versions:
        raise _refuse(
            f"the model does not tell the version of ONNX's ops that its"
            f" {blame.shorten(node.op_type)} is of: its opset_import is missing"
        )
    settings = {x.name: read_setting(x, source, names, folder) for x in node.attribute}
    return Step(
        node.op_type, domain, source.versions.get(domain, 1), node.name,
        tuple(node.input), tuple(node.output), settings, read_scope(node.name), node,
        source,
    )  # fmt: skip


def read_setting(
    entry: Any,
    source: Source,
    names: tuple[Iterable[str], ...],
    folder: Path | None,
) -> Any:
    """Return the value of an attribute."""
    onnx = load_library()
    kind = onnx.AttributeProto
    if entry.type == kind.GRAPH:
        return read_graph(entry.g, source.descend(), frozenset().union(*names), folder)
    if entry.type == kind.TENSOR:
        return _lock(read_array(onnx, entry.t, folder))
    if entry.type == kind.SPARSE_TENSOR:
        return _lock(read_sparse(onnx, entry.sparse_tensor, folder))
    try:
        value = onnx.helper.get_attribute_value(entry)
    except ValueError as error:
        raise _refuse(f"an attribute is damaged: {error}") from None
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if entry.type in (kind.INTS, kind.FLOATS):
        return tuple(value)
    if entry.type == kind.STRINGS:
        return tuple(x.decode(errors="replace") for x in value)
    return value


def read_scope(name: str) -> str | None:
    """Return the scope of a node: its name without what stands last.

    >>> read_scope("/encoder/layer.0/attention/MatMul_1")
    'encoder/layer.0/attention'
    """
    parts = [re.sub(r"[^\w.]+", "_", x)[:60] for x in name.split("/")[:-1] if x]
    return "/".join(parts[:20]) or None


def bind_function(function: Any, given: Mapping[str, Any], source: Source) -> Program:
    """Return a function of a model, or of an op's definition, as a program.

    ``given`` are the attributes of the node that calls it.
    """
    onnx = load_library()
    bound = onnx.FunctionProto()
    bound.CopyFrom(function)
    settings = {x.name: x for x in function.attribute_proto} | dict(given)
    _bind_nodes(bound.node, settings)
    versions = read_versions(onnx, bound.opset_import) or source.versions
    inputs = tuple(bound.input)
    # An output may be left out, where an attribute says so.
    names = {*inputs, *(name for node in bound.node for name in node.output)}
    outputs = tuple(name if name in names else "" for name in bound.output)
    return read_nodes(
        bound.node,
        source.descend({**source.versions, **versions}),
        (inputs, outputs),
        set(inputs),
        frozenset(),
        None,
        ({}, frozenset()),
    )


def _bind_nodes(nodes: Iterable[Any], given: Mapping[str, Any]) -> None:
    """Put the attributes of the caller in the place of references to them."""
    for node in nodes:
        kept = []
        for entry in node.attribute:
            if entry.ref_attr_name:
                if entry.ref_attr_name not in given:
                    continue
                made = type(entry)()
                made.CopyFrom(given[entry.ref_attr_name])
                made.name = entry.name
                kept.append(made)
            else:
                _bind_nodes(entry.g.node, given)
                kept.append(entry)
        kept = [type(x).FromString(x.SerializeToString()) for x in kept]
        del node.attribute[:]
        node.attribute.extend(kept)


# How it runs


def run_program(program: Program, values: Values) -> list[Any]:
    """Return the outputs of a program on arrays or Tensors."""
    values = {"": None, **program.constants, **values}
    for step in program.steps:
        operands = [values[name] for name in step.inputs]
        traced = any(map(_is_traced, operands)) or any(
            _is_traced(values[name])
            for inner in step.settings.values()
            if isinstance(inner, Program)
            for name in inner.captures
        )
        with scope(step.scope) if step.scope and traced else nullcontext():
            try:
                made = run_step(step, operands, values, traced)
            except ModelError:
                raise
            except RefusedError as error:
                raise ModelError(f"{step}{blame.user_line()}: {error}.") from None
            except MemoryError as error:
                raise ModelError(
                    f"{step}{blame.user_line()} needs more memory than there is:"
                    f" {error}"
                ) from None
            except Exception as error:
                error.add_note(f"in {step}")
                raise
        values.update(
            (name, y) for name, y in zip(step.outputs, made, strict=False) if name
        )
        for name in step.last_reads:
            values.pop(name, None)
    return [values[name] for name in program.outputs]


def _is_traced(x: Any) -> bool:
    return isinstance(x, Tensor) or (
        isinstance(x, list) and any(isinstance(y, Tensor) for y in x)
    )


def run_step(
    step: Step, operands: Sequence[Any], values: Values, traced: bool
) -> Sequence[Any]:
    """Return the outputs of a step."""
    control = CONTROL.get(step.op) if not step.domain else None
    if control is not None:
        return control(step, operands, values)
    reasons = []
    row = (
        ROWS.get(step.op) if not step.domain and all(map(_is_plain, operands)) else None
    )
    if row is not None:
        try:
            made = row(step, operands)
            made = made if isinstance(made, (list, tuple)) else (made,)
            return [np.asarray(y) if isinstance(y, np.generic) else y for y in made]
        except Unsupported as error:
            reasons.append(str(error))
    if not traced:
        computed = run_implementation(step, operands, values, checked=True)
        if computed is not None:
            return computed
    body = find_definition(step, operands)
    if body is not None:
        given = dict(zip(body.inputs, operands, strict=False))
        return run_program(body, {**dict.fromkeys(body.inputs), **given})
    if traced:
        computed = run_implementation(step, operands, values, checked=False)
        if computed is not None:
            return computed
    told = f" ({'; '.join(reasons)})" if reasons else ""
    raise ModelError(
        f"{step}{blame.user_line()}: this op{told} has no NumPy here, no definition by"
        " other ops, and no implementation in the package onnx. Replace it in the model"
        " by ops of ONNX, or give the model its definition as a function."
    )


def _is_plain(x: Any) -> bool:
    """Return whether an operand is of NumPy's own numbers, which rows compute with."""
    return x is None or (hasattr(x, "dtype") and x.dtype.kind in "biufc")


def find_definition(step: Step, operands: Sequence[Any]) -> Program | None:
    """Return the definition of a step by other ops: a function, or the op's own."""
    onnx = load_library()
    proto = step.proto
    function = step.source.functions.get((proto.domain, step.op, proto.overload))
    given = {x.name: x for x in step.proto.attribute}
    if function is not None:
        if "function" not in step.made:
            step.made["function"] = bind_function(function, given, step.source)
        program: Program = step.made["function"]
        return program
    types = []
    for x in operands:
        kind = onnx.TypeProto()
        if x is not None and hasattr(x, "dtype"):
            code = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(x.dtype))
            lengths = [n if isinstance(n, int) else None for n in x.shape]
            kind = onnx.helper.make_tensor_type_proto(code, lengths)
        types.append(kind.SerializeToString())
    key = tuple(types)
    if key not in step.made:
        step.made[key] = _define(onnx, step, given, types)
    defined: Program | None = step.made[key]
    return defined


def _define(
    onnx: ModuleType, step: Step, given: Mapping[str, Any], types: list[bytes]
) -> Program | None:
    try:
        schema = onnx.defs.get_schema(step.op, step.version, step.domain)
    except onnx.defs.SchemaError:
        return None
    if schema.has_function:
        function = schema.function_body
    elif schema.has_context_dependent_function:
        function = onnx.FunctionProto()
        function.ParseFromString(
            schema.get_context_dependent_function(step.proto.SerializeToString(), types)
        )
    else:
        return None
    if not function.node:
        return None
    defaults = {
        x.name: x.default_value
        for x in schema.attributes.values()
        if x.default_value.name
    }
    return bind_function(function, {**defaults, **given}, step.source)


def run_implementation(
    step: Step, operands: Sequence[Any], values: Values, checked: bool
) -> Sequence[Any] | None:
    """Return what the package `onnx` computes; None where it has nothing.

    ``checked``: on plain arrays, with the checks of types that Tensors do not pass.
    """
    if "implementation" not in step.made:
        step.made["implementation"] = _load_implementation(step)
    node = step.made["implementation"]
    if node is None:
        return None
    operands = list(operands)
    with np.errstate(all="ignore"):
        if checked:
            made: Sequence[Any] = node.run(*operands)
            return made
        given = {name: getattr(node, name) for name in node.attributes_names_}
        try:
            made = node._run(*operands, **given)
        except (TypeError, ValueError, IndexError, AttributeError) as error:
            raise ModelError(
                f"{step}{blame.user_line()} cannot be differentiated: what the package"
                " onnx has for it takes plain arrays alone"
                f" ({blame.shorten(str(error), 200)}). Compute this step outside, or"
                " replace it by other ops of ONNX."
            ) from error
        return made


def _load_implementation(step: Step) -> Any:
    base = {
        "": "onnx.reference.ops._op_list",
        "ai.onnx.ml": "onnx.reference.ops.aionnxml._op_list",
        "ai.onnx.preview": "onnx.reference.ops.aionnx_preview._op_list",
    }.get(step.domain)
    if base is None:
        return None
    settings = {
        "log": lambda *_: None, "opsets": dict(step.source.versions), "new_ops": None,
        "verbose": 0, "existing_functions": {},
    }  # fmt: skip
    try:
        kind = import_module(base).load_op(step.domain, step.op, step.version)
        made = kind(step.proto, settings)
    except Exception:  # whatever it raises: it has no implementation of its own
        return None
    return None if type(made).__name__.startswith("OpFunction") else made


# Programs inside a step


def run_inner(program: Program, operands: Sequence[Any], values: Values) -> list[Any]:
    """Return the outputs of a program that stands in a step, which it may read by."""
    captured = {name: values[name] for name in program.captures}
    given = dict(zip(program.inputs, operands, strict=True))
    return run_program(program, {**captured, **given})


def read_body(step: Step, name: str) -> Program:
    """Return a program that a step holds."""
    body = step.settings.get(name)
    if not isinstance(body, Program):
        raise RefusedError(f"its {name} is missing")
    return body


def run_if(step: Step, operands: Sequence[Any], values: Values) -> Sequence[Any]:
    """Run one of two branches; on symbols the choice becomes a node."""
    yes, no = read_body(step, "then_branch"), read_body(step, "else_branch")
    flag = np.reshape(operands[0], ())
    if value_of(flag) is None:
        made = cond(
            flag,
            lambda: tuple(run_inner(yes, (), values)),
            lambda: tuple(run_inner(no, (), values)),
        )
        return list(made)
    return run_inner(yes if bool(value_of(flag)) else no, (), values)


def run_loop(step: Step, operands: Sequence[Any], values: Values) -> Sequence[Any]:
    """Run a `Loop`: as a loop where it cannot end early, else on values."""
    body = read_body(step, "body")
    most, flag, *state = operands
    count = None if most is None else read_integers(most)[0]
    going = flag is None or bool(value_of(np.reshape(flag, ())))
    if not going:
        count = 0
    if count is not None and count > 0 and _never_ends_early(body):
        stepped = _scan_steps(
            lambda i, *carried: run_inner(body, [i, np.bool_(True), *carried], values)[
                1:
            ],
            [np.arange(check_count((count,), "the steps of a Loop")[0])],
            state,
            len(body.outputs) - 1 - len(state),
        )
        if stepped is not None:
            return stepped
    rows: list[list[Any]] = []
    i = 0
    while going and (count is None or i < count):
        go, *made = run_inner(body, [np.array(i), np.bool_(True), *state], values)
        state, row = made[: len(state)], made[len(state) :]
        rows.append(row)
        going, i = bool(value_of(np.reshape(go, ()))), i + 1
    stacks = len(body.outputs) - 1 - len(state)
    return [*state, *_stack_rows(rows, body, stacks)]


def _never_ends_early(body: Program) -> bool:
    """Return whether a loop's condition is handed on as it is, or constant."""
    name = body.outputs[0]
    makers = {y: step for step in body.steps for y in step.outputs}
    while name in makers and makers[name].op == "Identity":
        name = makers[name].inputs[0]
    if name == body.inputs[1]:
        return True
    maker = makers.get(name)
    value = maker.settings.get("value") if maker and maker.op == "Constant" else None
    value = body.constants.get(name, value)
    return value is not None and bool(np.all(value))


def run_scan(step: Step, operands: Sequence[Any], values: Values) -> Sequence[Any]:
    """Run a `Scan`, as a loop."""
    if step.version < 9:
        raise ModelError(f"{step}: version 8 of Scan is not read. Convert the model.")
    body, settings = read_body(step, "body"), step.settings
    taken = settings["num_scan_inputs"]
    split = len(operands) - taken
    state, sequences = list(operands[:split]), list(operands[split:])
    stacks = len(body.outputs) - split
    axes = settings.get("scan_input_axes", (0,) * taken)
    ways = settings.get("scan_input_directions", (0,) * taken)
    for i, (axis, way) in enumerate(zip(axes, ways, strict=True)):
        moved = np.moveaxis(sequences[i], axis, 0)
        sequences[i] = np.flip(moved, 0) if way else moved

    def call(*entries: Any) -> list[Any]:
        return run_inner(body, [*entries[taken:], *entries[:taken]], values)

    count = sequences[0].shape[0] if sequences else 0
    empty = isinstance(count, int) and not count
    made = None if empty else _scan_steps(call, sequences, state, stacks)
    if made is None:
        rows = []
        for i in range(count):
            stepped = call(*[x[i] for x in sequences], *state)
            state = stepped[:split]
            rows.append(stepped[split:])
        made = [*state, *_stack_rows(rows, body, stacks)]
    out_axes = settings.get("scan_output_axes", (0,) * stacks)
    out_ways = settings.get("scan_output_directions", (0,) * stacks)
    for i, (axis, way) in enumerate(zip(out_axes, out_ways, strict=True), split):
        y = np.flip(made[i], 0) if way else made[i]
        made[i] = np.moveaxis(y, 0, axis)
    return made


def _stack_rows(rows: Sequence[Sequence[Any]], body: Program, stacks: int) -> list[Any]:
    """Return what each step gave, stacked; without a step, what the body tells."""
    if not rows:
        made = []
        for name in body.outputs[len(body.outputs) - stacks :]:
            dtype, shape = body.kinds.get(name, (np.float32, ()))
            lengths = check_count([n or 0 for n in shape])
            made.append(np.zeros((0, *lengths), dtype))
        return made
    return [np.stack(column) for column in zip(*rows, strict=True)]


def _scan_steps(
    call: Callable[..., Sequence[Any]],
    sequences: list[Any],
    state: Sequence[Any],
    stacks: int,
) -> list[Any] | None:
    """Return the last state and the stacks of all steps; None if these do not fit.

    Steps whose state changes its shape, or that look at values, are written out.
    """
    if any(isinstance(x, list) for x in state):
        return None
    given = [np.asarray(x) if value_of(x) is x else x for x in state]
    try:
        made = scan(
            lambda *entries: tuple(call(*entries)),
            sequences,
            initial=[*given, *[None] * stacks],
        )
    except (ShapeError, DtypeError, UsageError, TypeError, ModelError):
        return None
    made = list(made) if isinstance(made, (list, tuple)) else [made]
    return [*[x[-1] for x in made[: len(state)]], *made[len(state) :]]


#: The ops with programs inside.
CONTROL = {"If": run_if, "Loop": run_loop, "Scan": run_scan}
