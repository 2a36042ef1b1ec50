"""Rules and functions that need lengths which are known only when the program runs.

A few rules of ops, and a few of NumPy's functions, look at a length with Python's
``if`` or count up to it. In a program of unknown lengths each of them becomes one
node, which runs the same rule or function on the arrays at hand: `vjp` and `jvp` of
an op, `batch` of an op, `call` of a function. Their derivatives are those of what
they run, so every order works.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from workbench.autodiff import batch as batching
from workbench.autodiff import forward, reverse
from workbench.autodiff.call import Call
from workbench.autodiff.steps import KIND, Settings
from workbench.core import dims, hooks, types
from workbench.core.op import LENGTHS, OPS, Op
from workbench.core.refusals import name_of
from workbench.core.tensor import Tensor
from workbench.core.trace import record
from workbench.core.types import Batched, Params, Spec
from workbench.errors import TraceError, UnknownLengthError
from workbench.ops import define
from workbench.ops.define import dtype_of, shape_of


@contextmanager
def _keep_kind() -> Iterator[None]:
    """Leave `KIND` as it was after the block, also where the block fails."""
    token = KIND.set(None)
    try:
        yield
    finally:
        KIND.reset(token)


def declare_run(
    name: str,
    run: Callable[..., Sequence[Any]],
    lengths: Callable[..., tuple[Spec, ...]] | None,
    rule: str,
) -> Op:
    """Declare an op of several outputs that is a function of its operands, flat."""

    def compute(*arrays: Any, **params: Any) -> tuple[Any, ...]:
        outputs = tuple(run(arrays, **params))
        if any(isinstance(y, Tensor) and y._value is None for y in outputs):
            raise TraceError(
                f"{name} of {params.get('function', params.get('of'))} reads a symbol"
                " besides its arguments, which has no value when it runs. Give it as an"
                " argument."
            )
        return outputs

    made = OPS[name] = Call(name, run=run, check=_require_lengths)
    made.compute, made.infer, made.rule = compute, lengths, rule
    return made


def _require_lengths(operands: Sequence[Any]) -> None:
    """Leave it to the run, where lengths are not known."""
    if any(dims.has_dim(shape_of(x)) for x in operands if hasattr(x, "shape")):
        raise UnknownLengthError("a rule that runs when lengths are known")


def _infer_by_tracing(
    run: Callable[..., Sequence[Any]],
) -> Callable[..., tuple[Spec, ...]]:
    """Return the specs of the outputs of a flat function, at known lengths."""

    def infer(*operands: Any, **params: Any) -> tuple[Spec, ...]:
        made = record(
            lambda leaves: list(run(leaves, **params)), _check_known(operands)
        )
        return tuple(types.spec_of(y) for y in made.outputs)

    return infer


def _check_known(operands: Sequence[Any]) -> list[Any]:
    if any(isinstance(x, Spec) and dims.has_dim(x.shape) for x in operands):
        raise UnknownLengthError("asked at stand-ins")
    return list(operands)


# A reverse rule


def _run_pull(
    arrays: Sequence[Any],
    *,
    of: Op,
    rule: define.Rule | None,
    mask: int,
    given: tuple[bool, ...] | None,
    settings: Settings,
) -> list[Any]:
    """Return what a rule (None: the op's) passes on, for inputs whose bit is set."""
    g, y, inputs = _split_operands(arrays, given)
    pull = rule or of.pull
    assert pull is not None
    passed = list(pull(mask, g, y, inputs, dict(settings)))
    cotangents = []
    for i, x in enumerate(inputs):
        if mask >> i & 1:
            c = passed[i] if i < len(passed) else None
            c = None if c is None else reverse.fit_cotangent(c, x)
            cotangents.append(np.zeros_like(x) if c is None else c)
    return cotangents


def _split_operands(
    arrays: Sequence[Any], given: tuple[bool, ...] | None
) -> tuple[Any, Any, tuple[Any, ...]]:
    """Return the cotangents, the outputs and the inputs among the operands.

    ``given`` says of each output whether it has a cotangent; None for a single one.
    """
    rest = iter(arrays)
    if given is None:
        return next(rest), next(rest), tuple(rest)
    g = define.Parts(next(rest) if there else None for there in given)
    y = tuple(next(rest) for _ in given)
    return g, y, tuple(rest)


def _cotangent_specs(
    *operands: Any,
    of: Op,
    rule: object,
    mask: int,
    given: tuple[bool, ...] | None,
    settings: Settings,
) -> tuple[Spec, ...]:
    _, _, inputs = _split_operands(operands, given)
    return tuple(
        Spec(shape_of(x), dtype_of(x)) for i, x in enumerate(inputs) if mask >> i & 1
    )


declare_run(
    "vjp", _run_pull, _cotangent_specs, "the rule of the op, as the program runs"
)


# A forward rule


def _run_push(
    arrays: Sequence[Any],
    *,
    of: Op,
    rule: define.Rule | None,
    moving: tuple[bool, ...],
    count: int | None,
    settings: Settings,
) -> list[Any]:
    """Return the tangents of the outputs of an op; ``count`` is None for one output."""
    rest = iter(arrays)
    tangents = tuple(next(rest) if there else None for there in moving)
    y: Any = next(rest) if count is None else tuple(next(rest) for _ in range(count))
    inputs = tuple(rest)
    push = rule or forward.push_of(of)
    assert push is not None
    pushed = push(tangents, y, inputs, dict(settings))
    parts = (y,) if count is None else y
    tangents_out = (pushed,) if count is None else pushed
    if pushed is None:
        tangents_out = (None,) * len(parts)
    return [
        np.zeros_like(part) if t is None else forward.fit_tangent(t, part)
        for t, part in zip(tangents_out, parts, strict=True)
    ]


def _tangent_specs(
    *operands: Any,
    of: Op,
    rule: object,
    moving: tuple[bool, ...],
    count: int | None,
    settings: Settings,
) -> tuple[Spec, ...]:
    first = sum(moving)
    outputs = operands[first : first + (1 if count is None else count)]
    return tuple(Spec(shape_of(y), dtype_of(y)) for y in outputs)


declare_run(
    "jvp", _run_push, _tangent_specs, "the rule of the op, as the program runs"
)


# A rule for batches


def _run_batch(
    arrays: Sequence[Any], *, of: Op, batched: Batched, settings: Settings
) -> Sequence[Any]:
    """Return the outputs of an op for many examples."""
    first = next(x for x, b in zip(arrays, batched, strict=True) if b)
    with _keep_kind():
        outputs = batching.apply_to_examples(
            of, tuple(arrays), batched, dict(settings), shape_of(first)[0]
        )
        if isinstance(outputs, Tensor):
            outputs = define.split_outputs(outputs)
    KIND.set(outputs)
    return outputs if isinstance(outputs, tuple) else (outputs,)


BATCH = declare_run(
    "batch", _run_batch, None, "the rule of the op, as the program runs"
)
BATCH.infer = _infer_by_tracing(_run_batch)


# A function


class Hole(int):
    """The place of an operand among the arguments of a call."""

    __slots__ = ()


class ListSetting(tuple[Any, ...]):
    """A list among the arguments of a call, as a setting holds it."""

    __slots__ = ()


class SliceSetting(tuple[Any, ...]):
    """A slice among the arguments of a call, as a setting holds it."""

    __slots__ = ()


class DictSetting(tuple[Any, ...]):
    """A dict among the arguments of a call, as a setting holds it."""

    __slots__ = ()


def _as_setting(x: object, operands: list[Any]) -> object:
    """Return an argument as a setting; its Tensors and arrays become operands."""
    if isinstance(x, Tensor) or type(x) is np.ndarray:
        operands.append(x)
        return Hole(len(operands) - 1)
    if type(x) is tuple:
        return tuple(_as_setting(y, operands) for y in x)
    if type(x) is list:
        return ListSetting(_as_setting(y, operands) for y in x)
    if type(x) is slice:
        return SliceSetting(_as_setting(y, operands) for y in (x.start, x.stop, x.step))
    if type(x) is dict:
        return DictSetting((k, _as_setting(v, operands)) for k, v in x.items())
    return x


def _fill_operands(x: object, operands: Sequence[Any]) -> Any:
    """Return the argument again, with other operands."""
    if type(x) is Hole:
        return operands[x]
    if type(x) is ListSetting:
        return [_fill_operands(y, operands) for y in x]
    if type(x) is SliceSetting:
        return slice(*[_fill_operands(y, operands) for y in x])
    if type(x) is DictSetting:
        return {k: _fill_operands(v, operands) for k, v in x}
    if type(x) is tuple:
        return tuple(_fill_operands(y, operands) for y in x)
    return x


def _run_call(
    arrays: Sequence[Any],
    *,
    function: Callable[..., object],
    args: tuple[object, ...],
    settings: DictSetting,
    single: bool = False,
) -> Sequence[Any]:
    """Return the results of a function, flat; ``single`` says it returns no list."""
    with _keep_kind():
        made = function(
            *_fill_operands(args, arrays), **_fill_operands(settings, arrays)
        )
    KIND.set(made)
    return list(made) if isinstance(made, (tuple, list)) else [made]


def _infer_call(
    *operands: Any,
    function: Callable[..., object],
    args: tuple[object, ...],
    settings: DictSetting,
    single: bool = False,
) -> tuple[Any, ...]:
    """Return the shapes of the results, where the function has a rule of them."""
    rule = LENGTHS.get(function)
    if rule is None:
        raise UnknownLengthError("measured when it runs")
    made = rule(*_fill_operands(args, operands), **_fill_operands(settings, operands))
    return tuple(made) if isinstance(made, list) else (made,)


CALL = declare_run("call", _run_call, None, "the derivative of the function")
CALL.infer, CALL.lengths = _infer_by_tracing(_run_call), _infer_call


def _spell_call(node: Tensor) -> tuple[str, dict[str, Any]] | None:
    """Return a function of NumPy by its name: ``np.median({0}, axis={v1})``."""
    params, named = node.params, dict[str, Any]()
    if not _is_numpy(params["function"]):
        return None

    def code(x: Any) -> str:
        if type(x) is Hole:
            return f"{{{x}}}"
        if type(x) is DictSetting:
            return f"dict([{', '.join(f'({code(k)}, {code(v)})' for k, v in x)}])"
        if type(x) in (ListSetting, SliceSetting, tuple):
            inside = ", ".join(map(code, x)) + "," * (type(x) is tuple and len(x) == 1)
            return _AROUND[type(x)].format(inside)
        named[f"v{len(named)}"] = x
        return f"{{v{len(named) - 1}}}"

    given = [*map(code, params["args"])]
    given += [f"{k}={code(v)}" for k, v in params["settings"]]
    return f"{name_of(params['function'])}({', '.join(given)})", named


_AROUND: dict[type, str] = {
    ListSetting: "[{}]",
    SliceSetting: "slice({})",
    tuple: "({})",
}
CALL.template = _spell_call


def _is_numpy(function: object) -> bool:
    home = getattr(function, "__module__", None) or ""
    return name_of(function).startswith("np.") and home.partition(".")[0] == "numpy"


def is_single(node: object) -> bool:
    """Return whether a node is written as a call that gives its result, and no list."""
    return (
        isinstance(node, Tensor)
        and bool(node.params.get("single"))
        and _is_numpy(node.params["function"])
    )


def _call_deferred(
    function: Callable[..., object], args: Iterable[object], settings: Params
) -> Any:
    """Return a call of a function as one node, which runs it on arrays."""
    operands: list[Any] = []
    params = {
        "function": function,
        "args": _as_setting(tuple(args), operands),
        "settings": _as_setting(dict(settings), operands),
    }
    parts = define.apply_and_split(CALL, tuple(operands), params)
    result_kind = KIND.get()
    if isinstance(result_kind, list):
        return list(parts)
    if isinstance(result_kind, tuple):
        return (
            type(result_kind)(*parts)
            if hasattr(result_kind, "_fields")
            else tuple(parts)
        )
    call = parts[0].inputs[0]
    call.params = {**call.params, "single": True}
    return parts[0]


hooks.call_deferred.set(_call_deferred)
