"""What `+=` and its kin mean on a Tensor: a new value, and aliases that are stale.

A Tensor never changes, so ``y += 1`` binds the name to a new one. NumPy would change
the memory, and with it all that shares it: other names of ``y``, its base, its views.
These Tensors become stale, and who reads one of them later gets an error with both
lines. They become so by their class, whose ``_value`` is a property in place of the
slot: no op asks whether an operand is stale, and none that is gets through.

What was recorded before is right as it is: the sweeps of derivatives and programs that
run again read the old values (`traces.OldValues`), and a trace that closes takes off
the marks that were set in it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from functools import cache, wraps
from typing import Any

import numpy as np

from workbench.core import blame, dims, residuals, source, traces, types
from workbench.core.methods import assign_items
from workbench.core.op import CopyParams, ViewParams
from workbench.core.tensor import IDENTITY, LeanTensor, Tensor
from workbench.core.traces import Change, OldValues, OpenTrace
from workbench.errors import DtypeError, ShapeError, TraceError

_frame = sys._getframe

#: The slot behind the property of stale Tensors.
SLOT: Any = vars(Tensor)["_value"]
READ = SLOT.__get__

#: How much work may go into finding out whether two views have an entry in common.
MOST_WORK = 10_000
#: Ops whose result NumPy gives as a view that cannot be written to.
READ_ONLY = frozenset({"broadcast_to", "windows"})


def make_in_place(
    name: str, method: Callable[[Any, Any], Any]
) -> Callable[[Any, Any], Any]:
    """Return the in-place operator that belongs to an operator: ``+=`` to ``+``."""

    def operate_in_place(self: Tensor, other: Any) -> Any:
        result = method(self, other)
        if result is NotImplemented:
            return result
        if result.code is own:  # the fast way of an operator has taken our frame
            result.code, result.lasti = source.place_of(_frame(1))
        value = self._value
        if type(value) is np.ndarray:
            return _rebind(self, value, result, name) if traces.OPEN else result
        if isinstance(value, np.generic) or types.is_weak(value) or not traces.OPEN:
            return result  # numbers have no memory to share, symbols none at all
        return _rebind(self, value, result, name)

    own = operate_in_place.__code__
    return operate_in_place


def _rebind(x: Tensor, value: Any, new: Tensor, name: str) -> Tensor:
    """Fit the result to the memory of ``x``, and mark what shares that as stale."""
    opened = traces.LOCAL.stack or tuple(traces.OPEN)
    if opened[-1].rebinds:
        return new
    if value is None:
        if _is_number(x):
            return new
        if x.serial < min(min(trace.leaves, default=0) for trace in opened):
            return new  # a symbol from outside
    result = new._value
    if result is None or result.dtype != value.dtype or result.shape != value.shape:
        new = _fit_memory(x, new, name)
    owner, family = opened[0], [x]
    own = x.op.view is None and x.op is not IDENTITY and x.views is None
    if not own or len(opened) > 1 or owner.unknown is not None:
        with OldValues():
            base, path = _find_memory_path(x)
            _check_writeable(x, base, path, opened, name)
            family = _find_sharing(x, base)
        for trace in opened:
            if min(trace.leaves, default=0) <= base.serial:
                owner = trace
    owner.changes.append(Change(x, new, name, family, _stale_class))
    return new


def _fit_memory(x: Tensor, new: Tensor, name: str) -> Tensor:
    """Return the result in the shape and dtype of the memory that would hold it."""
    cure = f"Write x = x {name[:-1]} y, which makes a new array."
    if dims.always_differ(new.shape, x.shape):
        raise ShapeError(
            f"x {name} y{blame.user_line()}: the result has shape {new.shape}, and"
            f" does not fit into {blame.describe(x)}. {cure}"
        )
    if new.dtype == x.dtype:
        return new
    if not np.can_cast(new.dtype, x.dtype, "same_kind"):
        raise DtypeError(
            f"x {name} y{blame.user_line()}: the result is of dtype {new.dtype}, and"
            f" does not fit into {blame.describe(x)}. {cure}"
        )
    converted: Tensor = new.astype(x.dtype)
    return converted


def _check_writeable(
    x: Tensor,
    base: Tensor,
    path: list[Tensor],
    opened: Iterable[OpenTrace],
    name: str,
) -> None:
    """Refuse a change that NumPy refuses, or that others than the program would see."""
    what = "it" if base is x else f"{blame.describe(base)}, of which it is a view,"
    cure = f"Write x = x {name[:-1]} y, or work on a copy: x = x.copy()."
    if base.op is IDENTITY or _shows_array(base):
        raise TraceError(
            f"x {name} y{blame.user_line()} changes {blame.describe(x)} in place, and"
            f" {what} was given to the function: what its caller holds would change"
            f" too, an array or, in a loop, an earlier result. {cure}"
        )
    for view in path or [x]:  # one without entries has no memory to be found by
        if view.op.name in READ_ONLY or type(view.params) is ViewParams:
            raise TraceError(
                f"x {name} y{blame.user_line()}: x is a view by {view.op.name}"
                f"{blame.quote_site(view.site)}, which NumPy does not let anybody write"
                f" to. {cure}"
            )
    for trace in opened:
        if trace.unknown is not None and base.serial < min(trace.leaves, default=0):
            raise TraceError(
                f"x {name} y{blame.user_line()} changes {blame.describe(x)} in place in"
                " a function that is recorded once and runs many times, and it was made"
                f" outside of that: each run would change it again. {cure}"
            )


# Who shares the memory


def _shows_array(x: Tensor) -> bool:
    """Return whether the memory is that of a plain array, which others may see."""
    if x.op.view is None or type(x.params) is CopyParams:
        return False
    return type(x.inputs[0]) is np.ndarray


def find_memory(x: Tensor) -> Tensor:
    """Return the Tensor whose memory a Tensor shows, perhaps its own."""
    return _find_memory_path(x)[0]


def _find_memory_path(x: Tensor) -> tuple[Tensor, list[Tensor]]:
    """Return the Tensor whose memory ``x`` shows, and the views on the way to it."""
    path = []
    while x.op.view is not None and _is_view(x, base := x.inputs[0]):
        path.append(x)
        x = base
    return x, path


def _find_sharing(x: Tensor, base: Tensor) -> list[Tensor]:
    """Return all Tensors that share memory with ``x``, itself too."""
    sharing, stack = [], [base]
    while stack:
        member = stack.pop()
        if member is x or _overlaps(member, x):
            sharing.append(member)
        for view in member.views or ():
            if (alive := view()) is not None and _is_view(alive, member):
                stack.append(alive)
    return sharing


def _is_view(x: Tensor, base: object) -> bool:
    """Return whether a Tensor is a view of the one that it was made of."""
    if not isinstance(base, Tensor):
        return False
    if isinstance(x.params, ViewParams):
        return x.params.holder is None or x.params.holder() is not None
    a, b = READ(x), READ(base)
    if type(x.params) is CopyParams or _is_number(x) or _is_number(base):
        return False
    if type(a) is np.ndarray and type(b) is np.ndarray:
        return a is b or bool(np.may_share_memory(a, b))
    return x.op.view is not None and x.op.view(x.params)


def _is_number(x: Tensor) -> bool:
    """Return whether a Tensor is a number to NumPy, which has no memory to share."""
    value = READ(x)
    if value is not None:
        return isinstance(value, np.generic) or types.is_weak(value)
    if x.spec.shape:
        return False
    # A view without axes is an array; an entry is a number, and so is a reduction.
    whole = x.op.view is None or type(x.params) is CopyParams
    return whole or ("key" in x.params and Ellipsis not in x.params["key"])


def _overlaps(x: Tensor, other: Tensor) -> bool:
    """Return whether two Tensors of one memory have entries in common, or may have."""
    a, b = READ(x), READ(other)
    if type(a) is not np.ndarray or type(b) is not np.ndarray:
        return True
    if isinstance(x.params, ViewParams) or isinstance(other.params, ViewParams):
        return True
    try:
        return bool(np.shares_memory(a, b, max_work=MOST_WORK))  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True


# What is stale

#: The classes of stale Tensors.
STALE: set[type] = set()


@cache
def _stale_class(kind: type[Tensor]) -> type[Tensor]:
    """Return the class that Tensors of a class have when they are stale."""
    if kind in STALE:
        return kind
    shape, dtype = (getattr(kind, name).fget for name in ("shape", "dtype"))
    stale: type[Tensor] = type(
        f"Stale{kind.__name__}",
        (kind,),
        {
            "__slots__": (),
            "__module__": __name__,
            "__doc__": "A Tensor whose memory has been changed in place since.",
            "__repr__": lambda self: f"{_read_old(kind.__repr__, self)[:-1]}, stale>",
            "__setitem__": _assign_stale_items,
            "_value": property(_read_value, SLOT.__set__),
            # What a change in place leaves as it was.
            "shape": property(lambda self: _read_old(shape, self)),
            "dtype": property(lambda self: _read_old(dtype, self)),
        },
    )
    STALE.add(stale)
    return stale


def _read_value(x: Tensor) -> Any:
    """Return the old value to who may see it; who may not gets an error."""
    change = traces.MARKED.get(id(x))
    if change is None or change.number <= traces.LOCAL.last_change:
        return residuals.read_value(x) if isinstance(x, LeanTensor) else READ(x)
    raise _stale_error(x, change, "is read")


def _read_old(function: Any, x: Tensor) -> Any:
    """Return what a function gives of a stale Tensor as it was before the change."""
    with OldValues():
        return function(x)


def _assign_stale_items(x: Tensor, index: object, value: object) -> None:
    """Assign items: ``x[i] += v`` has changed a view before, for this very purpose."""
    change = traces.MARKED.get(id(x))
    if change is not None and change.new() is value:
        change.lift()
    with OldValues():
        assign_items(x, index, value, _frame(1))


def check_read(values: Iterable[Any], how: str) -> None:
    """Refuse to hand over Tensors that are stale, as the results of a function.

    Raises
    ------
    TraceError
        With the line of the change, and ``how`` it is read.
    """
    for x in values:
        if type(x) in STALE:
            raise _stale_error(x, traces.MARKED[id(x)], how)


def _stale_error(x: Tensor, change: Change, how: str) -> TraceError:
    with OldValues():
        site = source.decode(change.code, change.lasti)
        name = change.name
        return TraceError(
            f"{blame.describe(x)}{blame.quote_site(x.site)} {how}{blame.user_line()}"
            f" after {name}{blame.quote_site(site)} has changed its memory in place."
            " NumPy would show the change here; a traced value never changes. Read the"
            f" result of the {name}, or write x = x {name[:-1]} y there, which leaves"
            " what others see as it is, or take a .copy() before."
        )


def rebind_in_place(step: Callable[..., Any]) -> Callable[..., Any]:
    """Return a step of a loop in which ``x += y`` always binds ``x`` to a new value.

    That is what it means to Theano, whose variables have no memory.
    """

    @wraps(step)
    def run(*args: Any) -> Any:
        traces.LOCAL.stack[-1].rebinds = True
        return step(*args)

    return run
