"""What an ONNX file says, checked: `read_model`.

Files are of strangers: names are text, lengths are checked, and no file is read but the
model's and its external data.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any

import numpy as np

from workbench.core import blame
from workbench.errors import (
    ModelError,
    check_packages,
)
from workbench.models.onnx_rules import (
    check_count,
)

#: The values of a running program by their names; "" is an operand that is left out.
Values = dict[str, Any]
#: How deep programs may stand in each other, functions that call functions included.
DEEPEST = 40
#: Names of ONNX's own set of ops.
ONNX_DOMAINS = ("", "ai.onnx")


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
    settings = _find_settings(proto.graph)
    weights = {
        name: x
        for name, x in arrays.items()
        if x.dtype.kind in "fc" and name not in settings
    }
    source = Source(versions, functions)
    program = read_graph(proto.graph, source, frozenset(), folder, (arrays, weights))
    if program.captures:
        raise _refuse(f"nothing makes {blame.shorten(min(program.captures))!r}")
    return program, weights


def _find_settings(graph: Any) -> set[str]:
    """Return the names of floats that decide how long a result is: no weights."""
    sizing = [x for x in graph.node if x.op_type in ("Resize", "Upsample")]
    return {name for node in sizing for name in node.input[1:]}


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
    inputs = {x.name for x in graph.input}
    for node in filter(holds_weights, graph.node):  # where some exporters keep them
        if node.input or len(node.output) != 1:
            names = blame.shorten(", ".join(node.output))
            raise _refuse(f"the constant of {names!r} has inputs, or not one output")
        (name,) = node.output
        if name in inputs:
            raise _refuse(
                f"a constant has the name {blame.shorten(name)!r} of an input"
            )
        found.append((name, read_array(onnx, node.attribute[0].t, folder)))
    for sparse in graph.sparse_initializer:
        found.append((sparse.values.name, read_sparse(onnx, sparse, folder)))
    _check_names([name for name, _ in found], "initialiser")
    return dict(found)


def holds_weights(node: Any) -> bool:
    """Return whether a node is a constant of several floats, as an initialiser is."""
    if node.op_type != "Constant" or node.domain not in ONNX_DOMAINS:
        return False
    if len(node.attribute) != 1 or node.attribute[0].name != "value":
        return False
    tensor, types = node.attribute[0].t, load_library().TensorProto
    floats = (types.FLOAT, types.DOUBLE, types.FLOAT16)
    return tensor.data_type in floats and math.prod(tensor.dims) > 1


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
        [node for node in graph.node if not holds_weights(node)],
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
