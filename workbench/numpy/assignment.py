"""``x[i] = v`` in code of libraries that is written for the standard.

SciPy and scikit-learn fill arrays that they have made: ``out[mask] = nan``. What
one means is a new value under the same name, so the Tensor that ``out`` names
becomes the updated one, and what was computed from it before keeps the old one,
as a Tensor of its own. That is right as long as no other name sees the same memory
under NumPy, so a view that anybody still holds is an error. A user's own code is
asked to write ``wb.at(x)[i].set(v)``, which says what happens.

Who holds what is counted: it needs a collector that knows every object and counts
of references that are exact, and where either is missing, assignment is an error. A
count that is too high (a debugger's) refuses more than it must, never less. And it
needs that our functions share memory wherever NumPy's do: a test goes through them.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterable
from contextlib import suppress
from types import FrameType
from typing import Any

import numpy as np

from workbench.core import blame, hooks, traces
from workbench.core.op import CopyParams
from workbench.core.tensor import IDENTITY, LeanTensor, MaskedTensor, Tensor
from workbench.core.types import ArrayLike
from workbench.errors import TraceError
from workbench.ops.indexing import ARRAY, GETITEM
from workbench.ops.updates import at

#: Whose code may assign.
LIBRARIES = ("scipy.", "sklearn.", "array_api_extra.")

KINDS = frozenset({Tensor, LeanTensor, MaskedTensor})
SLOTS = [
    name
    for kind in Tensor.__mro__
    for name in getattr(kind, "__slots__", ())
    if name != "__weakref__"
]

#: Objects that the collector has been told to forget, before any Tensor was made.
FROZEN = gc.get_freeze_count()


@hooks.assign.set
def _assign(x: Tensor, key: Any, value: ArrayLike, frame: FrameType) -> bool:
    """Assign, if it is a library that asks; else False.

    Raises
    ------
    TraceError
        Where an array that is not ``x`` would change too, or ``x`` is an input or
        has no value.
    """
    if not frame.f_globals.get("__name__", "").startswith(LIBRARIES):
        return False
    why = _find_obstacle(x)
    if why is None:
        users, shared = _find_users(x)
        why = SHARED if shared else None
    if why is not None:
        raise TraceError(
            f"item assignment{blame.user_line()} to {blame.describe(x)}, {why}. Call"
            " the function with x.value to cut the gradient on purpose, or write it"
            " with NumPy's functions."
        )
    before = _copy_tensor(x)
    after = _update(before, key, value)
    for user in users:
        user.inputs = tuple([before if i is x else i for i in user.inputs])
    _overwrite(x, after)
    return True


def _update(x: Tensor, key: Any, value: ArrayLike) -> Any:
    mask = isinstance(key, (Tensor, np.ndarray)) and key.dtype.kind == "b"
    if mask and key.shape == x.shape and np.shape(value) == ():
        # What `where` leaves out never poisons a gradient.
        made = np.where(key, value, x)
        return made if made.dtype == x.dtype else made.astype(x.dtype)
    return at(x)[key].set(value)


def _copy_tensor(x: Tensor) -> Tensor:
    """Return a new Tensor with all that ``x`` holds, its serial number included."""
    made = object.__new__(type(x))
    _overwrite(made, x)
    return made


def _overwrite(x: Tensor, other: Tensor) -> None:
    """Let ``x`` hold all that ``other`` holds."""
    if type(x) is not type(other):
        x.__class__ = type(other)
    for name in SLOTS:
        try:
            setattr(x, name, object.__getattribute__(other, name))
        except AttributeError:  # a slot of the other that nobody has set
            with suppress(AttributeError):
                delattr(x, name)


# Who else sees the memory

#: What `numpy.diagonal` reads.
DIAGONAL = (Ellipsis, ARRAY, ARRAY)


def _is_diagonal(x: Any) -> bool:
    """Return whether it may be a diagonal: a view in NumPy, and gathered here."""
    return x.op is GETITEM and bool(x.params["key"] == DIAGONAL)


SHARED = "which shares memory with an array that is still in use"


def _find_obstacle(x: Tensor) -> str | None:
    """Return why ``x`` can never change; None: it may."""
    if x.op is IDENTITY:
        return "which is an input: the caller's own array would change"
    if x._value is None:
        return "which has no value, so what shares its memory is unknown"
    opened = traces.LOCAL.stack[-1].leaves if traces.LOCAL.stack else set()
    if opened and x.serial < min(opened):
        return "which is older than the trace that runs"
    if gc.get_freeze_count() not in (0, FROZEN):
        return "and after gc.freeze() what shares its memory is unknown"
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        return "and without Python's lock what shares its memory is unknown"
    return None


def _find_users(x: Tensor) -> tuple[list[Tensor], bool]:
    """Return what was computed from ``x``, and whether others see its memory too.

    Bases of ``x`` and views of them share its memory. One that the graph alone
    refers to will be read by nobody; of another, NumPy would show the change.
    """
    root: Tensor | None = x
    while root is not None:
        top = root
        root = next((i for i in top.inputs if _has_shared_memory(top, i)), None)
    fresh = type(top.params) is CopyParams
    if not fresh and any(_is_same_memory(i, top) for i in top.inputs):
        return [], True  # with an array that is not a Tensor: who holds it is not known
    users = _collect_users(top.serial)
    family = [top]
    for member in family:
        family += [
            u for u in users.get(id(member), ()) if _has_shared_memory(u, member)
        ]
    if any(map(_is_diagonal, family)):
        return [], True  # whose own views cannot be told from copies
    family = [m for m in family if m is not x and _has_shared_memory(m, x)]
    uses = [_count_uses(m, users.get(id(m), ())) for m in family]
    own = users.get(id(x), [])
    # Lists that hold members are references too: only these two may be left.
    del users, top, member
    shared = any(
        count - sum(u is m for u in own) > used
        for m, count, used in zip(family, _count_references(family), uses, strict=True)
    )
    return own, shared or any(m.op is IDENTITY for m in family)


def _count_uses(x: Tensor, users: Iterable[Tensor]) -> int:
    """Return how many references there are to ``x`` from the inputs of others."""
    # Two Tensors may have one tuple of inputs, which refers to x only once.
    tuples = {id(user.inputs): user.inputs for user in users}
    return sum(i is x for inputs in tuples.values() for i in inputs)


def _collect_users(serial: int) -> dict[int, list[Tensor]]:
    """Return the Tensors made since, once per input, by the identity of that input.

    No Tensor knows them, which would slow every op down; Python's collector knows
    every object.
    """
    found: dict[int, list[Tensor]] = {}
    for x in gc.get_objects():
        # Not isinstance: it asks objects of others for their class, and takes longer.
        # One whose making was interrupted, which a traceback may keep, has no serial.
        if type(x) in KINDS and getattr(x, "serial", 0) > serial:
            for i in x.inputs:
                if type(i) in KINDS:
                    found.setdefault(id(i), []).append(x)
    return found


def _has_shared_memory(x: Any, other: object) -> bool:
    """Return whether two Tensors share memory; numbers and scalars never change."""
    if _is_diagonal(x):
        return True
    return _is_same_memory(getattr(x, "_value", None), other)


def _is_same_memory(a: object, x: object) -> bool:
    """Return whether an array and a Tensor share memory."""
    b = getattr(x, "_value", None)
    if not hasattr(a, "flags") or not hasattr(b, "flags"):
        return False
    if isinstance(a, np.generic) or isinstance(b, np.generic):
        return False
    return a is b or bool(np.may_share_memory(a, b))


def _count_references(objects: list[Any]) -> list[int]:
    """Return how many references there are to each, besides the one from the list."""
    return [sys.getrefcount(x) - OWN for x in objects]


#: What counting adds itself; it depends on the version of Python.
OWN = 0
OWN = _count_references([object()])[0]
