"""What a user's `compute` and `infer` return, looked at."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.autodiff.higher_order import told_outside
from workbench.core import blame, tensor, types, walk
from workbench.core.broadcasting import Facts, meet, noted
from workbench.core.dims import Dim, Length, Made, atoms_of, replaced
from workbench.core.op import Op
from workbench.core.probe import STAND_INS
from workbench.core.tensor import Tensor, next_serial
from workbench.core.trace import record
from workbench.core.types import Spec
from workbench.errors import (
    DtypeError,
    ShapeError,
    TraceError,
    UnknownLengthError,
    UsageError,
    WorkbenchError,
)
from workbench.overrides.rule_errors import ONTO_COPIES, counted, in_place, placed
from workbench.overrides.rules import lend

if TYPE_CHECKING:
    from workbench.custom.op import Op as UserOp


class Compute:
    """An op's value: `compute` on arrays that it cannot change."""

    __slots__ = ("__name__", "op")

    def __init__(self, op: UserOp) -> None:
        self.op = op
        self.__name__ = op.name

    def __call__(self, *arrays: Any, **params: Any) -> Any:
        """The outputs; the settings are the op's own."""
        op = self.op
        lent = lend(arrays)
        try:
            made = op.compute(*lent)
        except ValueError as error:
            if (told := in_place(error)) is None:
                raise
            raise UsageError(
                f"{op.name}: {placed(op.compute)} {told}. {ONTO_COPIES}"
            ) from error
        results, single = _results(op, made)
        if op._gives("infer"):
            _declared(op, lent, results)
        # A view of an input cannot be written, and a buffer that the op keeps would be
        # changed by the next call.
        owned = [
            y.copy()
            if type(y) is np.ndarray and (not y.flags.writeable or count > ALONE)
            else y
            for y, count in zip(results, _holders(results), strict=True)
        ]
        return owned[0] if single else tuple(owned)

    def __repr__(self) -> str:
        return f"<{self.op!r}.compute>"


class Probe(Compute):
    """`compute` on examples, which are views of one number: nothing is copied."""

    __slots__ = ()

    def __call__(self, *arrays: Any, **params: Any) -> Any:
        """The outputs as they are: views, perhaps."""
        made = self.op.compute(*lend(arrays))
        results, single = _results(self.op, made)
        return results[0] if single else tuple(results)


def infer_declared(op: UserOp, /, *specs: Any, **params: Any) -> Any:
    """What an op's ``infer`` says, looked at: one spec, or a tuple of them."""
    given = [s if isinstance(s, Spec) else types.spec_of(s) for s in specs]
    made = op.infer(*given)
    several = isinstance(made, (tuple, list))
    found = tuple(made) if several else (made,)
    for y in found:
        if not isinstance(y, Spec):
            raise UsageError(
                f"{op.name}: {placed(op.infer)} returned {y!r}. Return"
                " wb.Spec(shape, dtype) for one output, a tuple of them for"
                " several."
            )
    _count(op, len(found))
    return found if several else found[0]


def infer_lengths(op: UserOp, /, *specs: Any, **params: Any) -> Any:
    """An op's result at unknown lengths: by its ``infer``, or by tracing `compute`.

    Code that takes arrays alone cannot be traced; it runs on examples at stand-ins.

    Raises
    ------
    UnknownLengthError
        If neither tells.
    """
    if op._gives("infer"):
        try:
            return infer_declared(op, *specs)
        except WorkbenchError:
            raise
        except Exception as error:  # whatever the user's code says of lengths
            raise UnknownLengthError("it is asked at stand-ins") from error
    single = True

    def run(leaves: Sequence[Any]) -> list[Any]:
        nonlocal single
        made = op.compute(*leaves)
        single = not isinstance(made, (tuple, list))
        if isinstance(made, list) and not any(map(_is_array, made)):
            raise UnknownLengthError("a list of numbers is one array")
        return [y if isinstance(y, Tensor) else _array(op, y, None)
                for y in ([made] if single else made)]  # fmt: skip

    ask = op._bound.infer
    assert ask is not None
    found = traced_lengths(run, specs, ask)
    return found[0] if single else found


def probed(op: UserOp, probe: Op, specs: tuple[Any, ...]) -> Any:
    """The spec of a result, by running `compute` on examples."""
    try:
        return tensor.infer(probe, specs, {})
    except (UsageError, TraceError):
        raise
    except Exception as error:
        given = ", ".join(repr(types.spec_of(s)) for s in specs)
        raise TraceError(
            f"{op.name}({given}){blame.here()}: the shape of its result is not known,"
            f" since {placed(op.compute)} does not run on arrays of ones of that shape"
            f" ({type(error).__name__}: {error}). Write infer(self, *specs) in"
            f" {type(op).__name__}, which returns wb.Spec(shape, dtype)."
        ) from error


def traced_lengths(
    run: Callable[..., Any], specs: Sequence[Any], ask: Callable[..., Any]
) -> tuple[Spec, ...]:
    """Return what a user's function makes of operands of unknown lengths.

    It is traced, and what that tells is compared with what ``ask`` tells at small
    lengths: the function was written for arrays.

    Raises
    ------
    UnknownLengthError
        If it cannot be traced, or not at these lengths, or does otherwise then.
    """
    given = list(map(types.value_spec, specs))
    with noted() as facts:
        try:
            made = trace_specs(run, given)
        except Exception as error:  # whatever the user's code says of Tensors
            raise UnknownLengthError("it is asked at stand-ins") from error
    if not _agrees(made, facts, given, ask):
        raise UnknownLengthError("it is asked at stand-ins")
    for pair in facts:
        meet(*pair)
    return made


# What a program inside an op makes of operands of unknown lengths.
#
# The ops inside know it: their lengths are told by those of what they are given, and
# what they need to be equal the whole needs. Nothing is guessed at stand-ins.


def trace_specs(
    run: Callable[[Sequence[Any]], Sequence[Any]], specs: Sequence[Any]
) -> tuple[Spec, ...]:
    """Return the specs of the outputs of a flat function, which is traced.

    A length that only its run tells is None; what must be equal is a fact of the op
    that asks (`facts.meet`).
    """
    first = next_serial()
    made = record(lambda leaves: list(run(leaves)), list(map(types.value_spec, specs)))
    found = [y for y in made.outputs if isinstance(y, Tensor)]

    def is_inner(length: Length) -> bool:
        return bool(length.tensor.serial >= first)

    given = list(map(types.spec_of, made.outputs))
    return tuple(
        told_outside(walk.order(found, first), given, lambda atom: None, is_inner)
    )


def _agrees(
    made: Sequence[Spec],
    facts: Facts,
    specs: Sequence[Any],
    ask: Callable[..., Any],
) -> bool:
    """Whether what a trace tells is what the function itself gives at small lengths.

    Code that takes arrays alone may do anything with Tensors: gather them as objects,
    for one. ``ask`` gives the specs of its outputs for operands of known lengths.
    """
    together = [*facts]
    shapes = [s.shape for s in (*made, *specs)]
    for atom in atoms_of([n for shape in shapes for n in shape]):
        if isinstance(atom, Made) and atom.kind == "broadcast":
            together += [(atom.args[0], other) for other in atom.args[1:]]
    groups: list[set[Any]] = [{a} for a in set(atoms_of(shapes))]
    for pair in together:
        ends = {n.alone if isinstance(n, Dim) else n for n in pair}
        touched = [group for group in groups if group & ends]
        groups = [g for g in groups if g not in touched] + [set().union(ends, *touched)]
    for row in STAND_INS[:2]:
        lengths: dict[Any, Any] = {}
        for group, n in zip(groups, cycle(row)):
            known = [m for m in group if isinstance(m, int)]
            at = known[0] if known else n
            lengths |= {a.key: at for a in group if isinstance(a, Length)}

        def new(atom: Any, lengths: dict[Any, Any] = lengths) -> Any:
            return lengths.get(atom.key)

        try:
            found = ask(*[Spec(replaced(s.shape, new), s.dtype) for s in specs])
        except Exception:  # of lengths that it does not take
            return False
        found = found if isinstance(found, tuple) else (found,)
        if len(found) != len(made) or not all(
            len(y.shape) == len(want.shape)
            and y.dtype == want.dtype
            and all(
                n is None or replaced(n, new) == m
                for n, m in zip(want.shape, y.shape, strict=True)
            )
            for y, want in zip(found, made, strict=True)
        ):
            return False
    return True


def batched_by(op: UserOp, inputs: tuple[Any, ...], batched: tuple[bool, ...]) -> Any:
    """What the op's own rule for batches gives, one array per output."""
    made = op.batch(inputs, batched)
    return tuple(made) if isinstance(made, list) else made


def _results(op: UserOp, made: Any) -> tuple[list[Any], bool]:
    """What `compute` returned, as arrays, and whether that is one by itself."""
    single = not isinstance(made, (tuple, list))
    if isinstance(made, list) and not any(map(_is_array, made)):
        single, made = True, np.asarray(made)  # host array: a list of numbers
    found = [made] if single else list(made)
    if not found:
        raise UsageError(
            f"{op.name}: {placed(op.compute)} returned no output. Return an array."
        )
    _count(op, len(found))
    return [_array(op, y, None if single else i) for i, y in enumerate(found)], single


def _holders(results: list[Any]) -> list[int]:
    """How many hold each array, or the array that it is a view of."""
    return [
        sys.getrefcount(y)
        if getattr(y, "base", None) is None
        else sys.getrefcount(y.base) + ALONE - BASE
        for y in results
    ]


def _alone() -> tuple[int, int]:
    """How many that are of an array that nobody else holds, and of its base."""
    made = np.zeros(2)  # host array: it is only counted
    results = [made]
    view = np.zeros(2)[:1]  # host array: likewise
    (alone,) = [sys.getrefcount(y) for y in results]
    return alone, sys.getrefcount(view.base)


ALONE, BASE = _alone()


def _declared(op: UserOp, arrays: list[Any], results: list[Any]) -> None:
    """Raise an error if `compute` returned another shape or dtype than `infer` says."""
    said = op.infer(*map(types.spec_of, arrays))
    for i, (want, y) in enumerate(
        zip(said if isinstance(said, (tuple, list)) else (said,), results, strict=False)
    ):
        have = types.spec_of(y)
        if isinstance(want, Spec) and not _agree(want, have):
            which = f" as output {i}" if len(results) > 1 else ""
            raise ShapeError(
                f"{op.name}: {placed(op.compute)} returned {have}{which}, and"
                f" {placed(op.infer)} says {want}. The two must agree."
            )


def _agree(want: Spec, have: Spec) -> bool:
    """Whether a result is as `infer` says; a length that it leaves open is None."""
    return (
        want.dtype == have.dtype
        and len(want.shape) == len(have.shape)
        and all(
            n is None or n == m for n, m in zip(want.shape, have.shape, strict=True)
        )
    )


def _is_array(x: Any) -> bool:
    return hasattr(x, "shape") and hasattr(x, "dtype") and np.ndim(x) > 0


def _array(op: UserOp, y: Any, i: int | None) -> Any:
    """One output of `compute` as an array or a NumPy scalar."""
    which = "" if i is None else f" as output {i}"
    if y is None:
        raise UsageError(
            f"{op.name}: {placed(op.compute)} returned None{which}. Does a `return`"
            " lack at its end?"
        )
    if isinstance(y, Tensor):
        raise UsageError(
            f"{op.name}: {placed(op.compute)} returned a Tensor{which}. It computes"
            " with the arrays that it is given; a Tensor from outside must be an input."
        )
    if hasattr(y, "dtype") and hasattr(y, "shape"):
        if type(y) is not np.ndarray and isinstance(y, np.ndarray):
            y = types.plain(y)
        if getattr(y.dtype, "kind", "") != "O":
            return y
    made = np.asarray(y)  # host array: a number of Python's, or a list of them
    if made.dtype.kind not in "biufc":
        raise DtypeError(
            f"{op.name}: {placed(op.compute)} returned {type(y).__name__} of dtype"
            f" {made.dtype}{which}, which is no array of numbers."
        )
    return made[()]


def _count(op: UserOp, count: int) -> None:
    """Note how many outputs there are, and refuse another number of them."""
    known = op.__dict__.get("_count", type(op).n_outputs)
    if known is None:
        object.__setattr__(op, "_count", count)
        op._entry.counts.add(count)
    elif count != known:
        said = "declares" if type(op).n_outputs is not None else "had"
        raise UsageError(
            f"{op.name}: {placed(op.compute)} returned {counted(count, 'output')}, but"
            f" the op {said} {known}. An op has the same number of outputs each time."
        )


def connections(op: UserOp, inputs: int) -> list[list[bool]]:
    """What an op declares to depend on what, if that is a row for each input.

    Raises
    ------
    UsageError
        If it is anything else.
    """
    declared: Any = op.connection()
    outputs = op.__dict__.get("_count", type(op).n_outputs)
    rows = list(declared) if isinstance(declared, (list, tuple)) else []
    fits = len(rows) == inputs and all(
        isinstance(row, (list, tuple))
        and len(row) == (len(rows[0]) if outputs is None else outputs)
        and all(isinstance(c, (bool, np.bool_)) for c in row)
        for row in rows
    )
    if not fits:
        whose = "" if outputs is None else f", here of {outputs}"
        raise UsageError(
            f"{op.name}: {placed(op.connection)} returned {declared!r}. Return one list"
            f" for each of its {counted(inputs, 'input')}, and in it True or False for"
            f" each output{whose}."
        )
    return rows
