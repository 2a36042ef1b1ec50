"""What an op's result looks like before there is one: its spec, from the operands'.

An op may say so by itself (`Op.infer`); otherwise it runs on examples. Where lengths
are unknown, an elementwise op broadcasts by rule, an op may derive them (`Op.lengths`),
and all others are asked at stand-ins (`probe.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from workbench.core import blame, dims, source, types
from workbench.core.broadcasting import Facts, broadcast_shapes, noted
from workbench.core.dims import Dim
from workbench.core.op import OPS, Op
from workbench.core.probe import Probe, simple
from workbench.core.types import Spec
from workbench.errors import UnknownLengthError


def inferred(op: Op, inputs: Sequence[Any], params: dict[str, Any]) -> tuple[Any, Any]:
    """The spec, and the facts that it rests on: None where all lengths are known.

    Operands are Tensors, values or specs; a length that only the result itself can
    tell is None.
    """
    specs = [x.spec if _unvalued(x) else getattr(x, "_value", x) for x in inputs]

    def ask(specs: list[Any], params: dict[str, Any]) -> Any:
        return _asked(op, specs, params)

    try:
        if unknown(specs, params):
            return _at_lengths(op, specs, params, ask)
        made = _asked(op, specs, params)
        # An op may know that a length is one that only its run tells.
        return made, [] if op.infer is not None and _unsized(made) else None
    except Exception as error:
        told = blame.refusal(op, tuple(specs), error, *source.caller(3))
        if told is error:
            raise
        raise told from error


def _unvalued(x: Any) -> bool:
    return getattr(x, "_value", x) is None and x is not None


def _unsized(spec: Any) -> bool:
    if isinstance(spec, tuple):
        return any(map(_unsized, spec))
    return None in spec.shape


def _asked(op: Op, specs: list[Any], params: dict[str, Any]) -> Any:
    """The spec of a result of operands whose lengths are all known."""
    if op.infer is not None:
        return op.infer(*specs, **params)
    if op.elementwise and (found := _entrywise(op, specs, params)) is not None:
        return found
    examples = [x.example() if isinstance(x, Spec) else x for x in specs]
    with np.errstate(all="ignore"):
        made = op.compute(*examples, **params)
    if isinstance(made, tuple):
        return tuple(map(types.spec_of, made))
    return types.spec_of(made)


#: What an elementwise op makes of one entry of each operand, by the op and what
#: the entries are: half the time of a program without values goes into asking.
_MADE: dict[tuple[Any, ...], Spec] = {}


def _entrywise(op: Op, specs: list[Any], params: dict[str, Any]) -> Spec | None:
    """The spec of an elementwise op's result, from one entry of each operand.

    None where that does not tell, or fails: then the whole example says why.
    """
    kinds: list[Any] = []
    shapes = []
    weak = 0  # a bit for each: NumPy's dtypes equal Python's types
    certain = not params and OPS.get(op.name) is op
    for x in specs:
        weak *= 2
        if types.weak(x):
            weak += 1
            kinds.append(type(x))
            # Whether an integer fits, or may be an exponent, its value tells.
            certain = certain and (type(x) is not int or 0 <= x < 128)
        elif isinstance(x, Spec) and x.weak:
            weak += 1
            kinds.append(x.dtype.type)
        elif hasattr(x, "dtype") and hasattr(x, "shape"):
            kinds.append(x.dtype)
            shapes.append(x.shape)
        else:
            return None
    key = (op, weak, *kinds)
    found = _MADE.get(key) if certain else None
    try:
        shape = shapes[0] if shapes else ()
        if any(other != shape for other in shapes):
            shape = np.broadcast_shapes(*shapes)
        if found is None:
            found = _of_entries(op, specs, params)
    except (ValueError, TypeError):
        return None
    if found is None:
        return None
    if certain:
        _MADE[key] = found
    return Spec(shape, found.dtype) if shape else found


def _of_entries(op: Op, specs: list[Any], params: dict[str, Any]) -> Spec | None:
    """The spec of what an op makes of one entry of each operand, if it is one."""
    entries = []
    for x in specs:
        if isinstance(x, Spec) and x.weak:
            entries.append(x.example())
        else:
            entries.append(x if types.weak(x) else np.ones((), x.dtype))
    with np.errstate(all="ignore"):
        made = op.compute(*entries, **params)
    return None if isinstance(made, tuple) else types.spec_of(made)


# Unknown lengths


def unknown(specs: Sequence[Any], params: dict[str, Any]) -> bool:
    """Whether a length among the operands or settings of an op is unknown."""
    for x in specs:
        if isinstance(x, Spec):
            for n in x.shape:
                if type(n) is Dim:
                    return True
        elif isinstance(x, tuple) and any(
            isinstance(s, Spec) and dims.found(s.shape) for s in x
        ):
            return True
    return bool(params) and dims.found(params)


def _at_lengths(
    op: Op, specs: list[Any], params: dict[str, Any], ask: Callable[..., Any]
) -> tuple[Any, Facts]:
    """The spec of a result (a tuple for several), and the facts it rests on.

    A length is None where it is that of the result itself. ``ask(specs, params)`` is
    the op at known lengths.

    Raises
    ------
    ShapeError
        If no lengths satisfy the op.
    """
    if op.lengths is not None:
        with noted() as facts:
            try:
                return simple(op.lengths(*specs, **params)), facts
            except UnknownLengthError:
                pass
    elif op.elementwise and not dims.found(params):
        found = _broadcast(op, specs, params, ask)
        if found is not None:
            return simple(found), []
    return Probe(op, specs, params, ask).run()


def _broadcast(
    op: Op, specs: list[Any], params: dict[str, Any], ask: Callable[..., Any]
) -> Spec | None:
    """An elementwise op: the operands broadcast, one entry tells the dtype."""
    shapes, entries = [], []
    for x in specs:
        if isinstance(x, Spec) and not x.weak:
            shapes.append(x.shape)
            entries.append(Spec((), x.dtype))
        elif types.weak(x) or isinstance(x, Spec):
            entries.append(x)
        elif hasattr(x, "dtype") and hasattr(x, "shape"):
            shapes.append(tuple(x.shape))
            entries.append(Spec((), x.dtype))
        else:
            return None
    made = ask(entries, params)
    if isinstance(made, tuple):
        return None
    return Spec(broadcast_shapes(*shapes), made.dtype)
