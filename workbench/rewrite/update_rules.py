"""Rules for arrays that are filled entry by entry.

A loop over ``out[i] = v`` is a chain of updates, each with a constant index. What such
an entry holds is known without the array, so a read of it is the value that was stored;
and an array of which every entry was stored is one `numpy.stack` of these values. What
is known of each entry is kept by its index, at all versions of the array: a program of
n updates and reads is rewritten in time that grows as n, but for a logarithm.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from typing import Any, NamedTuple

import numpy as np

from workbench.core import types
from workbench.core.deferred import LengthParams
from workbench.core.tensor import IDENTITY, MaskedTensor, Tensor, apply
from workbench.ops.indexing import SCATTER
from workbench.ops.updates import ADD, SET, add_to_entries, list_update
from workbench.rewrite.rule import Replacement, Uses, node_rule

ZERO = "The sign of a zero may change."
#: Of an array that was changed in two ways, the first versions are looked through.
MOST_BRANCHES = 8
#: Of which entry a value is: one integer per axis, counted from the start.
Place = tuple[int, ...]


class Version(NamedTuple):
    """An array after a number of updates of another array."""

    array: Updated
    number: int


class Updated:
    """An array that is changed entry by entry, in all its versions.

    Attributes
    ----------
    first
        The array before the first update.
    depth
        How many axes the indices of its updates name.
    stored
        For each entry the numbers of the updates that set it, and the values that
        they stored; None for one that is not like an entry.
    last
        The number of updates.
    merged
        The number of the last one after which it was to be one `numpy.stack`.
    """

    def __init__(self, first: Any, depth: int) -> None:
        self.first = first
        self.depth = depth
        self.stored: dict[Place, tuple[list[int], list[Any]]] = {}
        self.last = self.merged = 0

    def store(self, place: Place, value: Any) -> Version:
        """Add an update of the last version."""
        self.last += 1
        numbers, values = self.stored.setdefault(place, ([], []))
        numbers.append(self.last)
        values.append(value)
        return Version(self, self.last)


class Entries:
    """The known entries of the arrays of one program, as far as updates tell."""

    def __init__(self) -> None:
        self.versions: dict[int, Version] = {}

    def find_version(self, x: Any) -> Version | None:
        """Return the array and version of a value; None if the value is no update."""
        new: list[tuple[Tensor, Place]] = []
        while isinstance(x, Tensor) and x.op is SET and x.serial not in self.versions:
            place = _find_place(x)
            if place is None:
                break
            new.append((x, place))
            x = x.inputs[0]
        found = self.versions.get(x.serial) if isinstance(x, Tensor) else None
        for node, place in reversed(new):
            x, v = node.inputs
            if (
                found is None
                or found.number != found.array.last
                or found.array.depth != len(place)
            ):
                found = Version(Updated(x, len(place)), 0)
            found = found.array.store(place, _as_entry(v, node, len(place)))
            self.versions[node.serial] = found
        return found

    def find(self, x: Any, place: Place) -> tuple[Any, Any]:
        """Return the value of an entry of an array; None if unknown.

        Also return an array with the same entry: ``x``, or ``x`` before other entries
        were updated.
        """
        for _ in range(MOST_BRANCHES):
            version = self.find_version(x)
            if version is None:
                return _read_first(x, place), x
            if version.array.depth != len(place):
                break
            numbers, values = version.array.stored.get(place, ((), ()))
            k = bisect_right(numbers, version.number)
            if k:
                return values[k - 1], x
            x = version.array.first
        return None, x


def _entries_of(uses: Uses) -> Entries:
    """Return the known entries in this run of the rules."""
    found: Entries = uses.notes.setdefault(Entries, Entries())
    return found


def _find_place(node: Tensor) -> Place | None:
    """Return which entry of its first operand a node reads or changes.

    None if its index is not made of constant integers.
    """
    key = node.params["key"]
    if isinstance(node, MaskedTensor):  # its zeros are not those of a plain array
        return None
    spec = types.spec_of(node.inputs[0])
    if not (isinstance(spec, types.Spec) and len(key) <= len(spec.shape)):
        return None
    if not key or "order" in node.params:
        return None
    if not all(type(k) is int for k in (*key, *spec.shape)):
        return None
    return tuple([k % n for k, n in zip(key, spec.shape, strict=False)])


def _as_entry(v: Any, node: Tensor, depth: int) -> Any:
    """Return the value that an update stores, in the shape of an entry, or None.

    A number becomes one of the array's dtype.
    """
    whole, spec = types.spec_of(node), types.spec_of(v)
    shape = whole.shape[depth:]
    if isinstance(v, Tensor) and v.op is IDENTITY and v._value is not None:
        v = v._value
    if not isinstance(v, Tensor):
        if not np.can_cast(spec.dtype, whole.dtype, "same_kind"):
            return None
        value = np.broadcast_to(np.asarray(v).astype(whole.dtype), shape)
        return value[()]
    same = spec.shape == shape and spec.dtype == whole.dtype and not spec.weak
    return v if same else None


def _read_first(x: Any, place: Place) -> Any:
    """Return an entry of an array without updates; None if unknown.

    Entries of constants are known, and of arrays that other values were spread over
    or put into.
    """
    if isinstance(x, Tensor) and x.op is IDENTITY and x._value is not None:
        x = x._value
    if isinstance(x, MaskedTensor):
        return None
    if not isinstance(x, Tensor):
        return np.asarray(x)[place] if isinstance(x, np.ndarray) else None
    spec = types.spec_of(x)
    name = x.op.name
    if x.op is SCATTER and type(x.params) is not LengthParams:
        own = x.params["key"]
        if len(own) == len(place) and len(x.inputs) == 1:
            if all(type(k) is int for k in own):
                shape = spec.shape[len(place) :]
                same = all(
                    k % n == at
                    for k, n, at in zip(own, spec.shape, place, strict=False)
                )
                return x.inputs[0] if same else np.zeros(shape, spec.dtype)[()]
    if name == "broadcast_to" and len(place) == len(spec.shape):
        one = types.spec_of(x.inputs[0])
        return x.inputs[0] if one.shape == () and one.dtype == spec.dtype else None
    if name == "reshape" and len(place) == len(spec.shape):
        inner = x.inputs[0]
        if len(x.inputs) == 1 and x.params.get("order", "C") == "C":
            if isinstance(inner, Tensor) and len(types.spec_of(inner).shape) == 1:
                place = (int(np.ravel_multi_index(place, spec.shape)),)
                x, name = inner, inner.op.name
    if name == "stack" and x.params.get("axis", 0) == 0 and len(place) == 1:
        return x.inputs[place[0]]
    return None


# The rules


@node_rule("entry that was stored", "getitem", "at(x)[i].set(v)[i]", "v",
    group="simplify", uses=True,
    reads="index_set scatter broadcast_to reshape stack")  # fmt: skip
def read_stored(node: Tensor, uses: Uses) -> Replacement | None:
    """Take the value that was stored, and not the entry of the array."""
    place = _find_place(node) if len(node.inputs) == 1 else None
    if place is None:
        return None
    (x,) = node.inputs
    found, same = _entries_of(uses).find(x, place)
    if found is not None:
        return Replacement((found,), _return_operand)
    if same is x or not _has_many_updates(node, len(place), uses):
        return None
    return Replacement((same,), lambda x: x[place], place)


def _has_many_updates(node: Tensor, depth: int, uses: Uses) -> bool:
    """Return whether a program has as many updates as an array has entries.

    So it is worth a copy of the array before: an update in place makes none.
    """
    shape = types.spec_of(node.inputs[0]).shape[:depth]
    # A sum with a scatter may become an update.
    updates = sum(uses.counts[op.name] for op in (SET, ADD, SCATTER))
    return updates >= int(math.prod(shape))


def _return_operand(x: Any) -> Any:
    return x


@node_rule("sum with a few entries", "add", "x + scatter(v, i)", "at(x)[i].add(v)",
    group="simplify", reads="scatter index_add", note=ZERO)  # fmt: skip
def add_few(node: Tensor) -> Replacement | None:
    """Add to those entries alone where the other operand is not zero."""
    found = None if node.params else add_to_entries(*node.inputs)
    if found is None:
        return None
    whole, updates = found
    parts = [list_update(x) for x, _ in updates]
    keys = tuple([(key, len(p)) for (_, key), p in zip(updates, parts, strict=True)])

    def build(made: Any, *rest: Any) -> Any:
        for key, count in keys:
            made = apply(ADD, (made, *rest[:count]), {"key": key})
            rest = rest[count:]
        return made

    return Replacement((whole, *[x for part in parts for x in part]), build, keys)


@node_rule("sum with an entry that was stored", "index_add",
    "at(at(x)[i].set(v))[i].add(w)", "at(x)[i].set(v + w)", group="simplify",
    uses=True, note=ZERO)  # fmt: skip
def add_to_stored(node: Tensor, uses: Uses) -> Replacement | None:
    """Store the sum where the value of an entry is known."""
    place = _find_place(node) if len(node.inputs) == 2 else None
    if place is None:
        return None
    x, w = node.inputs
    held, same = _entries_of(uses).find(x, place)
    if _as_entry(w, node, len(place)) is None:
        return None
    key = node.params["key"]
    if held is None:
        if not _has_many_updates(node, len(place), uses):
            return None
        return Replacement(
            (x, same, w),
            lambda x, y, w: apply(SET, (x, y[place] + w), {"key": key}),
            (key, 1),
        )
    if not isinstance(held, Tensor) and not np.any(held):
        return Replacement((x, w), lambda x, w: apply(SET, (x, w), {"key": key}), key)
    return Replacement(
        (x, held, w), lambda x, v, w: apply(SET, (x, v + w), {"key": key}), (key, 0)
    )


@node_rule("array stored entry by entry", "index_set", "at(at(x)[0].set(v))[1].set(w)",
    "stack([v, w])", group="simplify", uses=True)  # fmt: skip
def stack_stored(node: Tensor, uses: Uses) -> Replacement | None:
    """Stack the entries of an array where all entries are known.

    It is done where the array is read, and not for each of its versions: there are at
    least half as many updates before as it has entries.
    """
    version = _entries_of(uses).find_version(node)
    if version is None:
        return None
    array, number = version
    shape = types.spec_of(node).shape
    count = math.prod(shape[: array.depth])
    if 2 * (number - array.merged) < count:
        return None
    if number != array.last or not _is_read(array.depth, uses):
        return None
    array.merged = number
    values = []
    for place in np.ndindex(*shape[: array.depth]):
        _, held = array.stored.get(place, ((), ()))
        values.append(held[-1] if held else _read_first(array.first, place))
    if any(v is None for v in values) or not any(isinstance(v, Tensor) for v in values):
        return None

    def build(*values: Any) -> Any:
        made = np.stack(values)
        return made if array.depth == 1 else np.reshape(made, shape)

    return Replacement(tuple(values), build, (shape, array.depth))


def _is_read(depth: int, uses: Uses) -> bool:
    """Return whether the node being rewritten is read other than entry by entry."""
    if "output" in uses.at_place:
        return True
    for reader in uses.nodes_at_place:
        if reader.op.name == "add" and not reader.params:
            few = add_to_entries(*reader.inputs)  # becomes an update of it
            if few is None or few[0] is not uses.place:
                return True
            continue
        if reader.op.name not in ("getitem", "index_set"):
            return True
        place = _find_place(reader)
        others = reader.inputs[1:]
        if place is None or len(place) != depth or any(x is uses.place for x in others):
            return True
    return False
