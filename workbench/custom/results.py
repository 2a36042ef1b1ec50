"""What a user's `compute` and `infer` return, looked at."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.core import blame, dims, tensor, types
from workbench.core.blame import counted
from workbench.core.op import Op
from workbench.core.tensor import Tensor
from workbench.core.types import Spec
from workbench.errors import (
    DtypeError,
    ShapeError,
    TraceError,
    UnknownLengthError,
    UsageError,
    WorkbenchError,
)
from workbench.overrides.node import lend
from workbench.overrides.rule_errors import ONTO_COPIES, in_place, placed

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
    """Return what an op's ``infer`` says, looked at: one spec, or a tuple of them."""
    given = [s if isinstance(s, Spec) else types.spec_of(s) for s in specs]
    try:
        made = op.infer(*given)
    except WorkbenchError:
        raise
    except Exception as error:  # whatever the user's code says of lengths
        if not dims.found([s.shape for s in given]):
            raise
        raise UnknownLengthError("it is asked at stand-ins") from error
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
