"""Rules and functions that need lengths which are known only when the program runs.

A few rules of ops, and a few of NumPy's functions, look at a length with Python's
``if`` or count up to it. In a program of unknown lengths each of them becomes one
node, which runs the same rule or function on the arrays at hand: `vjp` and `jvp` of
an op, `batch` of an op, `call` of a function. Their derivatives are those of what
they run, so every order works.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from typing import Any, NamedTuple

import numpy as np

from workbench.autodiff import batch as batching
from workbench.autodiff import forward, reverse
from workbench.autodiff.call import Call
from workbench.autodiff.steps import Sealed
from workbench.core import dims, hooks, types
from workbench.core.op import LENGTHS, OPS, Op
from workbench.core.refusals import name_of
from workbench.core.tensor import Tensor
from workbench.core.trace import record
from workbench.core.types import Batched, Params, Spec
from workbench.errors import TraceError, UnknownLengthError
from workbench.ops import define
from workbench.ops.define import dtype_of, shape_of


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
            of = next(iter(params.get("args", ())), None)
            what = of if isinstance(of, Op) else params.get("function")
            raise TraceError(
                f"{name} of {what} reads a symbol"
                " besides its arguments, which has no value when it runs. Give it as an"
                " argument."
            )
        return outputs

    made = OPS[name] = Call(name, run=run, check=_require_lengths)
    made.compute, made.infer, made.rule = compute, lengths, rule
    return made


def _require_lengths(operands: Sequence[Any]) -> None:
    """Defer to the run if a length of an operand is unknown."""
    if any(dims.has_dim(shape_of(x)) for x in operands if hasattr(x, "shape")):
        raise UnknownLengthError("a rule that runs when lengths are known")


# The rules of an op, as functions of all that they read


def pull_later(
    of: Op,
    rule: define.Rule | None,
    mask: int,
    g: Any,
    y: Any,
    inputs: tuple[Any, ...],
    settings: Sealed,
) -> list[Any]:
    """Return a rule's cotangents (None: the op's rule), for inputs with a bit set."""
    pull = rule or of.pull
    assert pull is not None
    g = define.Parts(g) if isinstance(y, tuple) else g
    passed = list(pull(mask, g, y, inputs, dict(settings.items)))
    cotangents = []
    for i, x in enumerate(inputs):
        if mask >> i & 1:
            c = passed[i] if i < len(passed) else None
            c = None if c is None else reverse.fit_cotangent(c, x)
            cotangents.append(np.zeros_like(x) if c is None else c)
    return cotangents


def _cotangent_specs(
    of: Op, rule: Any, mask: int, g: Any, y: Any, inputs: tuple[Any, ...], *_: Any
) -> list[Spec]:
    return [
        Spec(shape_of(x), dtype_of(x)) for i, x in enumerate(inputs) if mask >> i & 1
    ]


def push_later(
    of: Op,
    rule: define.Rule | None,
    tangents: tuple[Any, ...],
    y: Any,
    inputs: tuple[Any, ...],
    settings: Sealed,
) -> list[Any]:
    """Return the tangents of the outputs of an op, by a rule (None: the op's)."""
    push = rule or forward.push_of(of)
    assert push is not None
    pushed = push(tangents, y, inputs, dict(settings.items))
    parts = y if isinstance(y, tuple) else (y,)
    moved = (None,) * len(parts) if pushed is None else pushed
    return [
        np.zeros_like(part) if t is None else forward.fit_tangent(t, part)
        for t, part in zip(
            moved if isinstance(moved, tuple) else (moved,), parts, strict=True
        )
    ]


def _tangent_specs(
    of: Op, rule: object, tangents: object, y: Any, inputs: object, settings: object
) -> list[Spec]:
    parts = y if isinstance(y, tuple) else (y,)
    return [Spec(shape_of(part), dtype_of(part)) for part in parts]


def batch_later(
    of: Op, inputs: tuple[Any, ...], batched: Batched, settings: Sealed
) -> Any:
    """Return the outputs of an op for many examples."""
    first = next(x for x, b in zip(inputs, batched, strict=True) if b)
    made = batching.apply_to_examples(
        of, inputs, batched, dict(settings.items), shape_of(first)[0]
    )
    return define.split_outputs(made) if isinstance(made, Tensor) else made


LENGTHS[pull_later], LENGTHS[push_later] = _cotangent_specs, _tangent_specs


# The arguments of a call, as operands and settings


class Hole(int):
    """The place of an operand among the arguments of a call."""

    __slots__ = ()


class Nest(NamedTuple):
    """A list, dict or slice among the arguments of a call, in the form of a setting."""

    kind: Any
    parts: tuple[Any, ...]


def _as_setting(x: Any, operands: list[Any]) -> Any:
    """Return an argument as a setting; its Tensors and arrays become operands."""
    if isinstance(x, Tensor) or type(x) is np.ndarray or types.is_device_array(x):
        operands.append(x)
        return Hole(len(operands) - 1)
    kind = type(x)
    if kind is slice:
        x = (x.start, x.stop, x.step)
    elif kind is dict:
        x = x.items()
    elif kind is not tuple and kind is not list:
        return x
    parts = tuple(_as_setting(y, operands) for y in x)
    return parts if kind is tuple else Nest(kind, parts)


def _fill_operands(x: Any, operands: Sequence[Any]) -> Any:
    """Return the argument again, with other operands."""
    if type(x) is Hole:
        return operands[x]
    if type(x) is tuple:
        return tuple(_fill_operands(y, operands) for y in x)
    if type(x) is Nest:
        parts = [_fill_operands(y, operands) for y in x.parts]
        return slice(*parts) if x.kind is slice else x.kind(parts)
    return x


# The node of a call

#: What the last call returned, for how it nests.
KIND: ContextVar[Any] = ContextVar("kind", default=None)


def _run_call(
    arrays: Sequence[Any],
    *,
    function: Callable[..., object],
    args: tuple[object, ...],
    settings: Nest,
    single: bool = False,
) -> Sequence[Any]:
    """Return a function's results, flat; ``single``: the function returns no list."""
    token = KIND.set(None)  # of the calls inside, also where one of them fails
    try:
        made = function(
            *_fill_operands(args, arrays), **_fill_operands(settings, arrays)
        )
    finally:
        KIND.reset(token)
    KIND.set(made)
    return list(made) if isinstance(made, (tuple, list)) else [made]


def _tell_lengths(
    *operands: Any,
    function: Callable[..., object],
    args: tuple[object, ...],
    settings: Nest,
    single: bool = False,
) -> tuple[Any, ...]:
    """Return the shapes or specs of the results, if the function has a rule of them."""
    rule = LENGTHS.get(function)
    if rule is None:
        raise UnknownLengthError("measured when it runs")
    made = rule(*_fill_operands(args, operands), **_fill_operands(settings, operands))
    KIND.set(made if isinstance(made, list) else None)
    return tuple(made) if isinstance(made, list) else (made,)


def _infer(*operands: Any, **params: Any) -> tuple[Any, ...]:
    """Return the specs of the results, at known lengths; a rule may tell them."""
    if LENGTHS.get(params["function"]) in (_cotangent_specs, _tangent_specs):
        return _tell_lengths(*operands, **params)
    made = record(lambda leaves: _run_call(leaves, **params), operands)
    return tuple(types.spec_of(y) for y in made.outputs)


def _declare_call(name: str, rule: str) -> Op:
    made = declare_run(name, _run_call, _infer, rule)
    made.lengths = _tell_lengths
    return made


CALL = _declare_call("call", "the derivative of the function")
BATCH = _declare_call("batch", "the rule of the op, as the program runs")
for _name in ("vjp", "jvp"):
    _declare_call(_name, "the rule of the op, as the program runs")


def _spell_call(node: Tensor) -> tuple[str, dict[str, Any]] | None:
    """Return a function of NumPy by its name: ``np.median({0}, axis={v1})``."""
    params, named = node.params, dict[str, Any]()
    if not _is_numpy(params["function"]):
        return None

    def code(x: Any) -> str:
        if type(x) is Hole:
            return f"{{{x}}}"
        if type(x) is tuple:
            return f"({', '.join(map(code, x))}{',' * (len(x) == 1)})"
        if type(x) is Nest:
            return _AROUND[x.kind].format(", ".join(map(code, x.parts)))
        named[f"v{len(named)}"] = x
        return f"{{v{len(named) - 1}}}"

    given = [*map(code, params["args"])]
    given += [f"{k}={code(v)}" for k, v in params["settings"].parts]
    return f"{name_of(params['function'])}({', '.join(given)})", named


_AROUND: dict[type, str] = {list: "[{}]", slice: "slice({})", dict: "dict([{}])"}
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


#: What runs a rule of an op, by the name of the node.
_RULES: dict[str, Callable[..., Any]] = {
    "vjp": pull_later,
    "jvp": push_later,
    "batch": batch_later,
}


def _call_deferred(
    function: Callable[..., object] | str, args: Iterable[object], settings: Params
) -> Any:
    """Return a call of a function, or rule, as one node that runs on arrays."""
    name = function if isinstance(function, str) else "call"
    operands: list[Any] = []
    params = {
        "function": _RULES.get(name, function),
        "args": _as_setting(tuple(args), operands),
        "settings": _as_setting(dict(settings), operands),
    }
    parts = define.apply_and_split(OPS[name], tuple(operands), params)
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
    call.params["single"] = True
    return parts[0]


hooks.call_deferred.set(_call_deferred)
