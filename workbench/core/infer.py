"""The spec of an op's result before there is a result, from the operands' specs.

An op may say so by itself (`Op.infer`); otherwise it runs on examples. Where lengths
are unknown, an elementwise op broadcasts and an op may have a rule (`Op.lengths`). What
neither tells is asked at stand-ins: how many axes a result has and which dtype. Its
lengths are its own then, measured when the program runs, which is always right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from itertools import cycle, islice
from math import prod
from typing import Any
from warnings import catch_warnings, simplefilter

import numpy as np

from workbench.core import blame, dims, source, types
from workbench.core.dims import (
    Atom,
    Dim,
    Length,
    Replace,
    atoms_of,
    broadcast_shapes,
)
from workbench.core.op import OPS, Op
from workbench.core.types import Spec, Specs
from workbench.errors import DtypeError, ShapeError, TraceError, UnknownLengthError

#: Told of each op that is recorded without a value, its operands as specs or values,
#: its settings, and the spec of the result (`autodiff/budget.py`).
WATCHING: ContextVar[Callable[[Op, Sequence[Any], dict[str, Any], Any], None] | None]
WATCHING = ContextVar("what is told of recorded ops", default=None)


def infer_spec(op: Op, inputs: Sequence[Any], params: dict[str, Any]) -> Any:
    """Return the spec of an op's result (a tuple of specs for several outputs).

    Operands are Tensors, values or specs; a length that only the result itself can
    tell is None.
    """
    specs = [
        x.spec if (held := getattr(x, "_value", x)) is None and x is not None else held
        for x in inputs
    ]
    watch = WATCHING.get()
    # What an op's rule records to tell lengths never runs: nobody is told of it.
    asking = None if watch is None else WATCHING.set(None)
    try:
        if has_unknown_length(specs, params):
            made = _infer_unknown(op, specs, params)
        else:
            made = _infer_known(op, specs, params)
    except Exception as error:
        told = blame.explain_refusal(op, tuple(specs), error, *source.caller(3))
        if told is error:
            raise
        raise told from error
    finally:
        if asking is not None:
            WATCHING.reset(asking)
    if watch is not None:
        watch(op, specs, params, made)
    return made


def _infer_known(op: Op, specs: list[Any], params: dict[str, Any]) -> Specs:
    """Return the spec of a result of operands with known lengths."""
    if op.infer is not None:
        known: Specs = op.infer(*specs, **params)
        return known
    if op.elementwise and (found := _infer_elementwise(op, specs, params)) is not None:
        return found
    if op.lengths is not None and (found := _infer_large(op, specs, params)):
        return found
    examples = [x.example() if isinstance(x, Spec) else x for x in specs]
    return _run_on(op, examples, params)


def _run_on(op: Op, examples: list[Any], params: dict[str, Any]) -> Specs:
    with np.errstate(all="ignore"):
        made = op.compute(*examples, **params)
    if isinstance(made, tuple):
        return tuple(map(types.spec_of, made))
    spec: Spec = types.spec_of(made)
    return spec


def _infer_large(op: Op, specs: list[Any], params: dict[str, Any]) -> Specs | None:
    """Return the spec of a result by the op's rule, where examples would be large.

    The rule tells lengths, one entry of each operand the dtypes. None where the rule
    does not tell, or refuses small operands: NumPy says what does not fit.
    """
    if len(specs) == 1 and op.view is not None and op.view.shares(params):
        return None  # a view of an example takes no memory
    given = [tuple(x.shape) for x in specs if isinstance(x, Spec)]
    widest = max(map(prod, given), default=0)
    try:
        told: Any = op.lengths(*specs, **params) if op.lengths is not None else None
    except UnknownLengthError:
        return None
    except MemoryError:
        raise  # the examples are no smaller
    except Exception:
        if widest > MOST_ENTRIES:
            raise
        return None
    several = isinstance(told, tuple) and any(
        isinstance(y, (Spec, tuple)) for y in told
    )
    parts = told if several else (told,)
    shapes = [tuple(getattr(y, "shape", y)) for y in parts]
    if any(type(n) is Dim or n is None for shape in shapes for n in shape):
        return None
    if max(widest, *map(prod, shapes)) <= MOST_ENTRIES:
        return None
    if any(isinstance(y, Spec) for y in parts):
        found: Specs = told
        return found
    one = [
        _with_shape(x, tuple(min(n, 1) for n in x.shape)) if isinstance(x, Spec) else x
        for x in specs
    ]
    try:
        made = _run_on(
            op, [x.example() if isinstance(x, Spec) else x for x in one], params
        )
    except MemoryError:
        raise
    except Exception:
        return None
    if isinstance(made, tuple):
        return tuple(map(_with_shape, made, shapes))
    return _with_shape(made, shapes[0])


#: What an elementwise op makes of one entry of each operand, by the op and what
#: the entries are: half the time of a program without values goes into asking.
_MADE: dict[tuple[Any, ...], Specs] = {}


def _infer_elementwise(
    op: Op, specs: list[Any], params: dict[str, Any]
) -> Specs | None:
    """Return the spec of an elementwise op's result, from one entry of each operand.

    None where that does not tell, or fails: then the whole example says why.
    """
    kinds: list[Any] = []
    shapes = []
    weak = 0  # a bit for each: NumPy's dtypes equal Python's types
    certain = not params and OPS.get(op.name) is op
    for x in specs:
        weak *= 2
        if types.is_weak(x):
            weak += 1
            # NumPy squares truth values as int8, and raises them to 3 as int64.
            is_exponent = op.traits.symbol == "**" and type(x) is int
            kinds.append(x if is_exponent else type(x))
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
    spec = _MADE.get(key) if certain else None
    try:
        shape = shapes[0] if shapes else ()
        if any(other != shape for other in shapes):
            shape = np.broadcast_shapes(*shapes)
        if spec is None:
            spec = _run_on_entries(op, specs, params)
    except (ValueError, TypeError):
        return None
    if certain:
        _MADE[key] = spec
    if isinstance(spec, tuple):
        return tuple([Spec(shape, y.dtype) for y in spec]) if shape else spec
    return Spec(shape, spec.dtype) if shape else spec


def _run_on_entries(op: Op, specs: list[Any], params: dict[str, Any]) -> Specs:
    """Return the spec of an op's result on one entry of each operand."""
    entries = []
    for x in specs:
        if isinstance(x, Spec) and x.weak:
            entries.append(x.example())
        else:
            entries.append(x if types.is_weak(x) else np.ones((), x.dtype))
    return _run_on(op, entries, params)


# Unknown lengths


def has_unknown_length(specs: Sequence[Any], params: dict[str, Any]) -> bool:
    """Return whether a length among the operands or settings of an op is unknown."""
    for x in specs:
        if isinstance(x, Spec):
            for n in x.shape:
                if type(n) is Dim:
                    return True
        elif isinstance(x, tuple) and any(
            isinstance(s, Spec) and dims.has_dim(s.shape) for s in x
        ):
            return True
    return bool(params) and dims.has_dim(params)


def _infer_unknown(op: Op, specs: list[Any], params: dict[str, Any]) -> Any:
    """Return the spec, a tuple for several results.

    A length is None if only the result itself can tell.

    Raises
    ------
    ShapeError
        If no lengths satisfy the op.
    """
    rule = op.lengths or op.infer
    if rule is not None:
        try:
            result = _typed(op, specs, params, rule(*specs, **params))
            return _drop_foreign_lengths(result, specs, params)
        except UnknownLengthError:
            pass
    elif op.elementwise and not dims.has_dim(params):
        found = _broadcast(op, specs, params)
        if found is not None:
            return _drop_foreign_lengths(found, specs, params)
    result = _infer_at_stand_ins(op, specs, params)
    if isinstance(result, tuple):
        return tuple(_with_shape(y, (None,) * len(y.shape)) for y in result)
    return _with_shape(result, (None,) * len(result.shape))


def _typed(op: Op, specs: list[Any], params: dict[str, Any], result: Any) -> Any:
    """Return specs for a rule's answer: specs, or shapes alone, one or several."""
    parts = result if isinstance(result, tuple) else (result,)
    if any(isinstance(y, Spec) for y in parts):
        return result
    trial = _infer_at_stand_ins(op, specs, params, often=1)
    if not isinstance(trial, tuple):
        return _with_shape(trial, result)
    return tuple(map(_with_shape, trial, result))


def _with_shape(spec: Spec, shape: tuple[Any, ...]) -> Spec:
    return Spec(shape, spec.dtype, spec.weak)


def _broadcast(op: Op, specs: list[Any], params: dict[str, Any]) -> Specs | None:
    """Return an elementwise op: the operands broadcast, one entry tells the dtype."""
    shapes, entries = [], []
    for x in specs:
        if isinstance(x, Spec) and not x.weak:
            shapes.append(x.shape)
            entries.append(Spec((), x.dtype))
        elif types.is_weak(x) or isinstance(x, Spec):
            entries.append(x)
        elif hasattr(x, "dtype") and hasattr(x, "shape"):
            shapes.append(tuple(x.shape))
            entries.append(Spec((), x.dtype))
        else:
            return None
    made, shape = _infer_known(op, entries, params), broadcast_shapes(*shapes)
    if isinstance(made, tuple):
        return tuple([Spec(shape, y.dtype) for y in made])
    return Spec(shape, made.dtype)


#: Lengths with more parts than this are measured, not derived.
MOST_PARTS = 40


def _drop_foreign_lengths(
    made: Specs, specs: list[Any], params: dict[str, Any]
) -> Specs:
    """Return derived specs without lengths of other Tensors or of many parts."""
    own_lengths = {id(n) for x in specs for n in getattr(x, "shape", ())}
    parts = made if isinstance(made, tuple) else (made,)
    if {id(n) for x in parts for n in x.shape if type(n) is Dim} <= own_lengths:
        return made  # nearly always: the very lengths of the operands
    known_atoms = set(atoms_of([_shapes(specs), params]))

    def is_known(n: object) -> bool:
        if not isinstance(n, Dim):
            return True
        parts = [*atoms_of(n)]
        inside = known_atoms.issuperset(a for a in parts if isinstance(a, Length))
        return inside and len(parts) + len(n.terms) <= MOST_PARTS

    def drop_unknown(spec: Spec) -> Spec:
        if all(map(is_known, spec.shape)):
            return spec
        return _with_shape(
            spec, tuple([n if is_known(n) else None for n in spec.shape])
        )

    return (
        tuple(map(drop_unknown, made))
        if isinstance(made, tuple)
        else drop_unknown(made)
    )


# Stand-ins: small numbers for unknown lengths, which never stay in a program

#: Numbers for unknown lengths in turn: equal ones, and of which one is the larger.
STAND_INS = ((3, 3), (2, 2), (3, 2), (2, 3))
#: What else all unknown lengths may be together, as each length that is known.
OTHERS = (1, 4, 5, 6, 7, 8, 64)
#: Of how many entries the largest example is.
MOST_ENTRIES = 4**8


def _infer_at_stand_ins(
    op: Op, specs: list[Any], params: dict[str, Any], often: int = 4
) -> Specs:
    """Return an op's result at lengths that fit; axes and dtypes are right.

    The op is asked ``often``, where its result might have other axes at other lengths.

    Raises
    ------
    ShapeError
        If no lengths fit.
    UnknownLengthError
        If how many axes or results there are depends on lengths.
    """
    errors: list[Exception] = []
    atoms = atoms_of([_shapes(specs), params])
    keys = list(dict.fromkeys(a.key for a in atoms if isinstance(a, Length)))
    rank = max((len(_shapes(x)) for x in specs), default=0)
    others = [n for n in _shapes(specs) if not isinstance(n, Dim)]
    others += [n for n in OTHERS if n**rank <= MOST_ENTRIES]

    def answers() -> Iterator[Specs]:
        for pair in dict.fromkeys((*STAND_INS, *zip(others, others, strict=True))):
            numbers = dict(zip(keys, cycle(pair), strict=False))

            def new(atom: Atom, numbers: dict[Any, int] = numbers) -> Any:
                return numbers.get(atom.key)

            try:
                given = [_replace_lengths(x, new) for x in specs]
                yield _infer_known(op, given, dims.replace_dims(params, new))
            except Exception as error:
                errors.append(error)

    with catch_warnings():
        simplefilter("ignore")  # of stand-ins, which nobody has written
        made = list(islice(answers(), often))
    for other in made[1:]:
        _check_same_form(op, made[0], other)
    if made:
        return made[0]
    if isinstance(errors[0], (DtypeError, TraceError)):
        raise errors[0]
    shown = ", ".join(repr(types.as_spec(x)) for x in specs)
    raise ShapeError(
        f"{op.name}({shown}): no lengths make these shapes fit."
        f" {op.cure or 'Compare them with what the function expects.'}"
    )


def _shapes(x: object) -> list[Any]:
    """Return all lengths of operands."""
    if isinstance(x, (tuple, list)):
        return [n for part in x for n in _shapes(part)]
    return list(getattr(x, "shape", ()))


def _replace_lengths(x: object, new: Replace) -> object:
    """Return an operand at known lengths."""
    if isinstance(x, tuple):
        return tuple(_replace_lengths(part, new) for part in x)
    if not isinstance(x, Spec) or not dims.has_dim(x.shape):
        return x
    shape = dims.replace_dims(x.shape, new)
    if any(n < 0 for n in shape):
        raise ValueError(f"negative lengths {shape}")
    return _with_shape(x, shape)


def _check_same_form(op: Op, a: Any, b: Any) -> None:
    """Refuse an op with results of another form at other lengths."""
    if isinstance(a, tuple) and isinstance(b, tuple):
        if len(a) != len(b):
            raise UnknownLengthError(
                f"{op.name}: how many results there are depends on lengths that are"
                " known only when the program runs."
            )
        for x, y in zip(a, b, strict=True):
            _check_same_form(op, x, y)
    elif len(a.shape) != len(b.shape):
        raise UnknownLengthError(
            f"{op.name}: how many axes the result has depends on lengths that are known"
            " only when the program runs. Name the axes."
        )
