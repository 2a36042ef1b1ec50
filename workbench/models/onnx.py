"""ONNX models as functions of NumPy: `from_onnx`.

`onnx_reader` checks a file and takes it apart into a `Program` of steps; running one
calls for each step, in this order: its row of the tables; without a Tensor among its
operands, or of a kind of number that NumPy does not have, the implementation of the
package `onnx`; the definition of its op by other ops; that implementation, which is
plain NumPy, on Tensors. A program inside a step (`If`, `Loop`, `Scan`) is a `Program`
too.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from importlib import import_module
from types import ModuleType
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
)
from workbench.models import (  # noqa: F401  (enter their rows)
    onnx_layer_rules,
    onnx_recurrence_rules,
    onnx_sampling_rules,
)
from workbench.models.onnx_reader import (
    Program,
    Step,
    Values,
    bind_function,
    load_library,
    read_model,
)
from workbench.models.onnx_rules import (
    ROWS,
    RefusedError,
    Unsupported,
    check_count,
    read_integers,
)


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
        The model's initialisers of floats by name, and constants of several floats:
        arrays to be changed or given to `workbench.grad` at will. Integers, which are
        shapes and places, stay in the function, as do the scales of ``Resize``.

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
