"""Tensors that NumPy takes apart, and arrays of Tensors put together again.

``np.array([t, u])`` does not ask the protocols. It asks each Tensor for an array,
and gets one of its entries, as Tensors; so what NumPy builds has the right shape,
whatever it does next, and the first op that meets it gathers one Tensor.
"""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any
from weakref import ref

import numpy as np

from workbench.core import blame, dims, hooks
from workbench.core.aliases import STALE
from workbench.core.blame import library_call
from workbench.core.op import ViewParams
from workbench.core.tensor import Tensor, admit, apply, note_view
from workbench.errors import DtypeError, TraceError
from workbench.ops.indexing import GETITEM

__all__ = ["by_operator"]

#: An array of more Python objects than this would take seconds and much memory.
LIMIT = 100_000

#: Functions of SciPy that are written in NumPy alone, and keep the gradient.
BY_ENTRIES = {
    "scipy.integrate.simpson",
    "scipy.integrate.trapezoid",
    "scipy.special.softmax",
}


class _Entry(dict[str, Any]):
    """The params of an entry that NumPy asked for; no line of the user's has it."""


class _SharedEntry(_Entry, ViewParams):
    """The params of an entry in what NumPy would make no copy of, as `asarray`."""


@hooks.entries.set
def _entries(x: Tensor, copy: bool | None = None) -> np.ndarray[Any, Any]:
    """An object array of the entries of a Tensor.

    Where no copy was asked for, it stands for the memory of the Tensor: nobody may
    write to it, since nobody would see that in the Tensor.
    """
    shape = x.shape
    frame = sys._getframe(2)
    called = library_call(frame)
    # SciPy's sparse arrays step aside for what is an array of no axis.
    asking = frame.f_globals.get("__name__", "")
    sparse = asking.startswith("scipy.sparse")
    if called is not None and not sparse and called not in BY_ENTRIES:
        raise blame.lost(x, called, called)
    if sparse:
        by_operator(frame)
    # Of lengths not known, NumPy gets the Tensor whole.
    apart = shape != () and not sparse and not dims.found(shape)
    if apart and x.size > LIMIT:
        raise TraceError(
            f"{blame.describe(x)}{blame.here()} is to become an array of Python"
            f" objects, and has {x.size} entries. Leave out np.asarray(x), or write"
            " np.stack in place of np.array."
        )
    holder = np.empty(shape if apart else (), object)  # host array: of Python objects
    if not apart:
        holder[()] = x
    else:
        kind = _Entry if copy else _SharedEntry
        for index in np.ndindex(*shape):
            holder[index] = entry = apply(GETITEM, (x,), kind(key=index))
            if not copy:
                # Of a list of Tensors NumPy copies this and lets it go.
                entry.params.holder = ref(holder)
                note_view(x, entry)
    holder.flags.writeable = bool(copy)
    return holder


def by_operator(frame: FrameType) -> None:
    """Refuse a method of SciPy's sparse arrays that would return NotImplemented.

    Of an operator, Python hears that and asks the Tensor; of ``S.multiply(x)`` the
    user would get it.
    """
    outer = frame
    while outer.f_back is not None and outer.f_back.f_globals.get(
        "__name__", ""
    ).startswith("scipy.sparse"):
        outer = outer.f_back
    if outer.f_code.co_name == "multiply":
        raise TraceError(
            f"S.multiply(x){blame.here()}: SciPy does not ask x, which is traced."
            " Write S * x (of the older csr_matrix classes"
            " scipy.sparse.csr_array(S) * x)."
        )


@hooks.gather.set
def _gather(array: np.ndarray[Any, Any]) -> Any:
    """One Tensor from an object array whose entries are Tensors and numbers."""
    flat: list[Any] = array.ravel().tolist()
    flat = [admit(x) if isinstance(x, dims.Dim) else x for x in flat]
    example = next((x for x in flat if isinstance(x, Tensor)), None)
    if example is None:
        raise DtypeError(
            f"an object array of shape {array.shape} has no derivative"
            f"{blame.here()}. Make it a float array with .astype(float)."
        )
    wholes = _wholes(flat)
    if wholes is None:
        return np.reshape(np.stack(flat), array.shape + example.shape)
    if len(wholes) == 1 and wholes[0].shape == array.shape:
        return wholes[0]
    return np.reshape(np.stack(wholes), array.shape)


def _wholes(flat: list[Any]) -> list[Tensor] | None:
    """The Tensors whose entries, all and in order, these are; None if they are not."""
    found: list[Tensor] = []
    at = 0
    while at < len(flat):
        first = flat[at]
        if not isinstance(first, Tensor) or not isinstance(first.params, _Entry):
            return None
        whole = first.inputs[0]
        if found and whole.shape != found[0].shape:
            return None
        if type(whole) in STALE:
            return None  # what NumPy copied entry by entry is as it was
        for key in np.ndindex(*whole.shape):
            x = flat[at] if at < len(flat) else None
            if not isinstance(x, Tensor) or not isinstance(x.params, _Entry):
                return None
            if x.inputs[0] is not whole or x.params["key"] != key:
                return None
            at += 1
        found.append(whole)
    return found


@hooks.gather_list.set
def _gather_list(items: Any) -> Any:
    """One array or Tensor from a list of numbers, arrays and Tensors."""
    if _holds_tensor(items):
        return np.stack([admit(x) for x in items])
    array = np.array(items)  # host array: a list of numbers
    return _gather(array) if array.dtype == object else array


def _holds_tensor(items: Any) -> bool:
    return any(
        isinstance(x, Tensor) or (isinstance(x, (list, tuple)) and _holds_tensor(x))
        for x in items
    )
