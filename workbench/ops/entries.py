"""The entries of a Tensor, as NumPy asks for them, and one Tensor made of them again.

``np.asarray(x)`` does not ask the protocols: it wants an array, and NumPy has none for
Tensors but one of Python objects. Whatever is computed with that is computed entry by
entry. So an `Entry` notes what happens to it and computes nothing; those to which the
same happened stand on one `Sheet`, and when an array of them meets an op again,
`gather` reads off the sheet what was done to the whole: one node for each operation, as
without ``np.asarray``. An entry that is used by itself becomes a node of its own.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import count
from operator import attrgetter
from typing import Any
from weakref import ReferenceType, ref

import numpy as np

from workbench.core import source, traces
from workbench.core.memory import explain_entry
from workbench.core.methods import FUNCTION_METHODS
from workbench.core.op import UFUNCS, Op, ViewParams, declare
from workbench.core.operators import OPERATORS
from workbench.core.tensor import CHANGED, Tensor, apply, next_serial, note_view
from workbench.core.types import WEAK_TYPES
from workbench.ops.indexing import GETITEM

_frame = sys._getframe
_new = object.__new__

#: How many operations wait at most, one upon the other: gathering them recurses.
DEEPEST = 32
#: What `x + y + ...` of many entries is: their reduction, and the running one.
FOLDS: dict[Op, tuple[Callable[..., Any], Callable[..., Any]]] = {
    declare("add"): (np.sum, np.cumsum),
    declare("multiply"): (np.prod, np.cumprod),
}
#: Terms of different origin that are added one by one, as they are written.
MOST_ADDED = 4
#: Numbers that an entry may meet.
NUMBERS = frozenset({*WEAK_TYPES, np.float64, np.float32, np.int64})

Places = np.ndarray[Any, np.dtype[Any]]


class SharedEntry(ViewParams):
    """The params of an entry that NumPy would not copy, as in `asarray`."""


class Sheet:
    """The results of one operation for some entries, in the order of computation.

    Of a sheet without an ``op`` they are the entries of ``tensor``. Otherwise ``left``
    and ``right`` have the operands of each: the place on the sheet in ``operands``
    where there is one, else a number or a Tensor. Of a running sum a place below 0 in
    ``left`` is ``~place`` on the sheet itself.
    """

    __slots__ = (
        "__weakref__",
        "context",
        "depth",
        "derived",
        "holder",
        "left",
        "next_place",
        "nodes",
        "op",
        "operands",
        "right",
        "seen",
        "sums",
        "tensor",
    )

    def __init__(self, op: Op | None, operands: tuple[Sheet | None, ...] = ()) -> None:
        self.op = op
        self.operands = operands
        self.left: dict[int, Any] = {}
        self.right: dict[int, Any] = {}
        self.next_place = count().__next__  # counts right in several threads
        self.derived: dict[Any, ReferenceType[Sheet]] = {}
        self.nodes: dict[Any, Any] = {}
        #: Running sums that are nodes, by their places.
        self.sums: dict[int, Any] = {}
        self.tensor: Any = None
        #: For entries of the memory of ``tensor``: a weak reference to their array,
        #: while the array exists.
        self.holder: Any = None
        #: The memory that ``tensor`` shows, if it was written to, and the version.
        self.seen: tuple[Any, int] = None, 0
        self.depth: int = 1 + max(
            (s.depth for s in operands if s is not None), default=-1
        )
        self.context: Any = None
        if op is not None:
            outer = source.current_context()
            if outer is None or outer.code is None:
                scope = None if outer is None else outer.scope
                outer = source.Context(scope, *source.caller(3))
            self.context = outer

    def derive(self, op: Op, operands: tuple[Sheet | None, ...]) -> Sheet:
        """Return the sheet of an operation on entries, this sheet among the operands.

        One that somebody still has entries of goes on.
        """
        # By their ids, for a key that holds a sheet would be a circle.
        key = op if len(operands) == 1 else (op, *map(id, operands))
        known = self.derived.get(key)
        made = None if known is None else known()
        if made is None or made.op is None:
            for sheet in {s for s in operands if s is not None}:
                if sheet.depth >= DEEPEST:
                    sheet.settle()
            made = Sheet(op, operands)
            self.derived[key] = ref(made)
        return made

    def settle(self) -> None:
        """Replace the noted operations by a Tensor of their results."""
        self.tensor = self.gather(np.arange(len(self.left)))
        self.op, self.operands, self.depth = None, (), 0
        self.left, self.right, self.nodes = {}, {}, {}

    def check_memory(self) -> None:
        """Refuse to read memory that was changed in place since."""
        memory, version = self.seen
        written = type(self.tensor) in CHANGED
        if memory is not None and memory.version != version:
            written = True
        if written and self.is_shared():
            raise explain_entry(self.tensor)

    def is_shared(self) -> bool:
        """Return whether there is an array that stands for the memory of the Tensor."""
        return self.holder is not None and self.holder() is not None

    def gather(self, places: Places) -> Any:
        """Return one Tensor of the entries at these places, of the same shape."""
        key = places.shape, places.tobytes()
        made = self.nodes.get(key)
        if made is None or type(made) in CHANGED:
            if self.op is None:
                made = _take_entries(self.tensor, places)
            else:
                outer = source.CONTEXT.set(self.context)
                try:
                    made = self._compute(places)
                finally:
                    source.CONTEXT.reset(outer)
            self.nodes[key] = made
        return made

    def _compute(self, places: Places) -> Any:
        assert self.op is not None
        flat = places.ravel().tolist()
        if self.is_fold() and any(self.left[p] < 0 for p in flat):
            return self._fold(self.op, flat, places.shape)
        columns = (self.left, self.right)
        operands = tuple(
            _gather_operand(sheet, [column[p] for p in flat], places.shape)
            for sheet, column in zip(self.operands, columns, strict=False)
        )
        made = apply(self.op, operands)
        return _broadcast(made, places.shape)

    def is_single(self) -> bool:
        """Return whether one entry alone was computed: by a program of scalars."""
        return self.op is not None and len(self.left) == 1

    def is_fold(self) -> bool:
        """Return whether entries may be running sums or products of others."""
        return self.op in FOLDS and self.operands[0] is not None

    def _fold(self, op: Op, flat: list[int], shape: tuple[int, ...]) -> Any:
        """Return running sums, or products, by the reduction that they are."""
        reduce, accumulate = FOLDS[op]
        left, right = self.left, self.right
        head_sheet, row_sheet = self.operands
        assert head_sheet is not None
        paths = np.array(self._find_paths(flat))
        if paths.ndim == 2:
            start = np.reshape(self.gather(paths[:, 0]), (-1, 1))
            rest = [right[p] for p in paths[:, 1:].ravel().tolist()]
            steps = _gather_column(row_sheet, rest, (len(paths), -1))
            runs = accumulate(np.concatenate([start, steps], axis=1), axis=1)
            where = {p: i for i, p in enumerate(paths.ravel().tolist())}
            return _take_entries(
                runs, np.array([where[p] for p in flat]).reshape(shape)
            )
        rows: list[list[Any]] = []
        heads: list[int] = []
        for place in flat:
            row: list[Any] = []
            head = ~place
            while head < 0 and ~head not in self.sums:
                row.append(right[~head])
                head = left[~head]
            heads.append(head)
            rows.append(row[::-1])
            if head < 0 or len(row) != len(rows[0]):
                return np.reshape(np.stack(self._run(op, flat)), shape)
        if head_sheet is not row_sheet and len(rows[0]) <= MOST_ADDED:
            total = head_sheet.gather(np.array(heads).reshape(shape))
            for column in zip(*rows, strict=True):
                step = _gather_operand(row_sheet, list(column), shape)
                total = apply(op, (total, step))
            return _broadcast(total, shape)
        if head_sheet is row_sheet:
            rows = [[head, *row] for head, row in zip(heads, rows, strict=True)]
        added = [x for row in rows for x in row]
        whole = _gather_column(row_sheet, added, (*shape, len(rows[0])))
        total = reduce(whole, axis=-1)
        if head_sheet is row_sheet:
            return total
        return apply(op, (head_sheet.gather(np.array(heads).reshape(shape)), total))

    def _find_paths(self, flat: list[int]) -> list[list[int]]:
        """Return running sums of which each goes on from the one before.

        Nothing if there are none, or not equally many of each.
        """
        ends: dict[int, list[int]] = {}
        paths: list[list[int]] = []
        for place in sorted(set(flat)):
            path = ends.pop(~self.left[place], None)
            if path is None:
                paths.append(path := [])
            path.append(place)
            ends[place] = path
        lengths = set(map(len, paths))
        return paths if len(lengths) == 1 and lengths != {1} else []

    def _run(self, op: Op, flat: list[int]) -> list[Any]:
        """Return running sums of several lengths, each from the one before."""
        left, right, sums = self.left, self.right, self.sums
        head_sheet, row_sheet = self.operands
        assert head_sheet is not None
        for last in flat:
            path = [last]
            while (before := left[path[-1]]) < 0 and ~before not in sums:
                path.append(~before)
            for place in reversed(path):
                if place in sums:
                    continue
                before = left[place]
                start = (
                    sums[~before] if before < 0 else head_sheet.gather(np.array(before))
                )
                step = _gather_column(row_sheet, [right[place]], ())
                sums[place] = apply(op, (start, step))
        return [sums[p] for p in flat]


# One Tensor for the places on a sheet


def _gather_operand(
    sheet: Sheet | None, column: list[Any], shape: tuple[int, ...]
) -> Any:
    """Return one operand of an operation on a whole, which may be broadcast."""
    if sheet is not None:
        return sheet.gather(_strip_repeats(np.array(column).reshape(shape)))
    first = column[0]
    if all(x is first for x in column):
        return first
    if column[0].__class__ is Entry and len(_find_sheets(column)) == 1:
        column = [x.place for x in column]
        return _gather_operand(first.sheet, column, shape)
    return _gather_column(None, column, shape)


def _gather_column(
    sheet: Sheet | None, column: list[Any], shape: tuple[int, ...]
) -> Any:
    """Return the places on a sheet, or the objects, as one Tensor or array."""
    if sheet is not None:
        return sheet.gather(np.array(column).reshape(shape))
    if all(type(x) in NUMBERS for x in column):
        return np.array(column).reshape(shape)
    return gather(np.fromiter(column, object, len(column)).reshape(shape))


def _strip_repeats(places: Places) -> Places:
    """Return the places without the axes along which they repeat."""
    for axis, n in enumerate(places.shape):
        if n > 1:
            one = places.take([0], axis)
            if (places == one).all():
                places = one
    while places.ndim and places.shape[0] == 1:
        places = places[0]
    return places


def _broadcast(x: Any, shape: tuple[int, ...]) -> Any:
    return x if x.shape == shape else np.broadcast_to(x, shape)


def _take_entries(x: Any, places: Places) -> Any:
    """Return entries of a Tensor by their numbers in C order, by one op if possible."""
    x = traces.node_of(x)  # what NumPy copied is as it was
    size = x.size
    flat = places.ravel()
    if places.size == size and np.array_equal(np.sort(flat), np.arange(size)):
        found = _find_transposition(x, places)
        if found is not None:
            return found
    return x[_find_index(x.shape, places)]


def _find_transposition(x: Any, places: Places) -> Any:
    """Return all entries of a Tensor as a reshape and a transposition, or None."""
    if (places.ravel() == np.arange(places.size)).all():
        return x if x.shape == places.shape else np.reshape(x, places.shape)
    steps = [
        int(places.take(1, axis).flat[0] - places.flat[0]) if n > 1 else 0
        for axis, n in enumerate(places.shape)
    ]
    order = sorted(range(places.ndim), key=lambda axis: -steps[axis])
    turned = places.transpose(order)
    if (turned.ravel() != np.arange(places.size)).any():
        return None
    y = x if x.shape == turned.shape else np.reshape(x, turned.shape)
    return np.transpose(y, np.argsort(order).tolist())


def _find_index(shape: tuple[int, ...], places: Places) -> tuple[Any, ...]:
    """Return the index of entries by their numbers: of slices if that is possible."""
    coordinates = np.unravel_index(places, shape)
    key: list[Any] = []
    axis = 0
    for line in coordinates:
        first = int(line.flat[0]) if line.size else 0
        if (line == first).all() and line.size:
            key.append(first)
            continue
        if axis == places.ndim:
            return coordinates
        along = np.moveaxis(line, axis, 0).reshape(places.shape[axis], -1)
        if along.shape[0] < 2 or (along != along[:, :1]).any():
            return coordinates
        steps = np.diff(along[:, 0])
        step = int(steps[0])
        if step == 0 or (steps != step).any():
            return coordinates
        end = int(along[-1, 0]) + (1 if step > 0 else -1)
        key.append(slice(first, end if end >= 0 else None, step))
        axis += 1
    return tuple(key) if axis == places.ndim else coordinates


# Entries


#: What an entry has when it is a node.
NODE = ("op", "inputs", "args", "params", "_value", "code", "lasti", "context")


class Entry(Tensor):
    """One entry of an array of objects: a place on a sheet, made a node when needed."""

    __slots__ = ("place", "sheet")

    place: int
    sheet: Sheet

    @property
    def shape(self) -> tuple[Any, ...]:
        """No axis."""
        return ()

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype."""
        # `np.mean` makes plain numbers of what has a dtype; it divides what has none.
        if _frame(1).f_globals.get("__name__") == "numpy._core._methods":
            raise AttributeError("dtype")
        dtype: np.dtype[Any] = Tensor.dtype.fget(self)  # type: ignore[attr-defined]
        return dtype

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("__array_") or attribute == "dtype":
            raise AttributeError(attribute)
        if attribute == "serial" or attribute in NODE:
            self._become_node()
            return getattr(self, attribute)
        if attribute == "spec":
            self.op  # noqa: B018 makes the node, which may have it
            with suppress(AttributeError):
                return object.__getattribute__(self, attribute)
        return super().__getattr__(attribute)

    def _become_node(self) -> None:
        sheet = self.sheet
        sheet.check_memory()
        x = sheet.tensor
        if sheet.op is None and type(x) not in CHANGED and x._value is not None:
            self._take_value(x, x._value)
        else:
            self._copy_node(sheet.gather(np.array(self.place)))
        self.serial = next_serial()
        if sheet.is_shared():
            self.params = SharedEntry(self.params)
            self.params.holder = sheet.holder
            note_view(x, self)

    def _take_value(self, x: Any, value: Any) -> None:
        """Be the node that indexing would make."""
        rest, index = self.place, []
        for n in reversed(x.shape):
            rest, i = divmod(rest, n)
            index.append(i)
        key = tuple(reversed(index))
        self.op, self.inputs, self.args = GETITEM, (x,), (value,)
        self.params, self._value = {"key": key}, value[key]
        self.code, self.lasti = source.caller(4)
        self.context = source.current_context()

    def _copy_node(self, node: Any) -> None:
        for slot in NODE:
            setattr(self, slot, getattr(node, slot))
        if self.sheet.is_fold():
            self.sheet.sums[self.place] = node
        with suppress(AttributeError):
            self.spec = object.__getattribute__(node, "spec")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        if (dtype is None or np.dtype(dtype) == object) and traces.OPEN:
            holder = np.empty((), object)  # host array: of Python objects
            holder[()] = self
            return holder
        return super().__array__(dtype, copy)

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any
    ) -> Any:
        if method == "__call__" and not kwargs and (op := UFUNCS.get(ufunc)):
            note = UNARY.get(op)
            if note is not None and not self.sheet.is_single():
                return note(self)
            if op.elementwise and len(inputs) == 2:
                made = _note_binary(op, *inputs)
                if made is not None:
                    return made
        return super().__array_ufunc__(ufunc, method, *inputs, **kwargs)


def _note_binary(op: Op, x: Any, y: Any) -> Entry | None:
    """Return the entry of a noted operation; None where NumPy must compute instead."""
    left = right = None
    a, b = x, y
    if x.__class__ is Entry:
        left = x.sheet
        a = x.place
        if left.tensor.__class__ in CHANGED:
            left.check_memory()
    elif not (x.__class__ in NUMBERS or _is_number(x)):
        return None
    if y.__class__ is Entry:
        right = y.sheet
        b = y.place
        if right.tensor.__class__ in CHANGED:
            right.check_memory()
    elif not (y.__class__ in NUMBERS or _is_number(y)):
        return None
    owner = right if left is None else left
    target = None
    goes_on = left is not None and left.op is op and left.is_fold()
    if left is not None and goes_on and left is not right:
        known_right = left.operands[1]
        if known_right is None or known_right is right:
            target, a = left, ~a
        if known_right is not right or right is None:
            right, b = None, y  # of a sum of anything the objects themselves
    if target is None:
        if goes_on:
            pass
        elif (left is None or left.is_single()) and (
            right is None or right.is_single()
        ):
            return None
        assert owner is not None
        known = owner.derived.get((op, id(left), id(right)))
        target = None if known is None else known()
        if target is None or target.op is None:
            target = owner.derive(op, (left, right))
    made: Entry = _new(Entry)
    made.sheet = target
    made.place = place = target.next_place()
    target.right[place] = b
    target.left[place] = a
    return made


def _is_number(x: Any) -> bool:
    return isinstance(x, Tensor) and x.shape == ()


def _make_unary_method(op: Op, general: Any) -> Callable[[Entry], Any]:
    """Return the method of an op that NumPy calls for each entry."""

    def method(self: Entry) -> Any:
        sheet = self.sheet
        if sheet.op is None:
            if sheet.tensor.__class__ in CHANGED:
                sheet.check_memory()
        elif len(sheet.left) == 1:
            return general(self)
        known = sheet.derived.get(op)
        target = None if known is None else known()
        if target is None or target.op is None:
            target = sheet.derive(op, (sheet,))
        made: Entry = _new(Entry)
        made.sheet = target
        made.place = place = target.next_place()
        target.left[place] = self.place
        return made

    return method


def _make_binary_methods(name: str, op: Op) -> None:
    general = getattr(Tensor, f"__{name}__")
    reflected = getattr(Tensor, f"__r{name}__")

    def method(self: Entry, other: Any) -> Any:
        made = _note_binary(op, self, other)
        return general(self, other) if made is None else made

    def reflected_method(self: Entry, other: Any) -> Any:
        made = _note_binary(op, other, self)
        return reflected(self, other) if made is None else made

    setattr(Entry, f"__{name}__", method)
    setattr(Entry, f"__r{name}__", reflected_method)


for _name, _op in OPERATORS.items():
    _make_binary_methods(_name, declare(_op[0]))
#: The methods of ops that have one operand.
UNARY: dict[Op, Callable[[Entry], Any]] = {}
#: What NumPy calls by another name: ``np.floor`` of an object is its ``__floor__``.
_SIGNS = {
    "__neg__": np.negative,
    "__pos__": np.positive,
    "__abs__": np.absolute,
    "__floor__": np.floor,
    "__ceil__": np.ceil,
    "__trunc__": np.trunc,
}
for _name, _ufunc in (*_SIGNS.items(), *FUNCTION_METHODS.items()):
    if isinstance(_ufunc, np.ufunc) and _ufunc.nin == 1:
        _known = UFUNCS.get(_ufunc)
        if _known is not None and _known.elementwise:
            _method = _make_unary_method(_known, getattr(Tensor, _name, _ufunc))
            UNARY[_known] = _method
            setattr(Entry, _name, _method)


# Arrays of entries


def make_entries(x: Tensor, copy: bool | None) -> np.ndarray[Any, Any]:
    """Return an array of objects, the entries of a Tensor.

    Where no copy was asked for, it stands for the memory of the Tensor: the array is
    read-only, since a write would not show in the Tensor.
    """
    sheet = Sheet(None)
    if type(x) in CHANGED:
        sheet.seen = x.memory.memory, x.memory.memory.version
        x = x.memory.read()
    sheet.tensor = x
    made = np.fromiter(_iterate_entries(sheet, x.size), object, x.size)
    holder = made.reshape(x.shape)
    if not copy:
        sheet.holder = ref(made)  # which owns the memory: views of it have it too
    holder.flags.writeable = bool(copy)
    return holder


def _iterate_entries(sheet: Sheet, size: int) -> Iterable[Entry]:
    for i in range(size):
        entry: Entry = _new(Entry)
        entry.sheet = sheet
        entry.place = i
        yield entry


def gather(array: np.ndarray[Any, Any]) -> Any:
    """Return one Tensor from an array of objects: entries, other Tensors and numbers.

    Entries of one sheet are one op, whatever their order; those of several are joined.
    """
    flat: list[Any] = array.ravel().tolist()
    sheets = _find_sheets(flat)
    if sheets == [None]:
        return np.reshape(np.stack(flat), array.shape)
    if len(sheets) == 1 and sheets[0] is not None:
        return _gather_sheet(sheets[0], flat, array.shape)
    if None not in sheets and array.ndim > 1 and len(array) == len(sheets):
        rows = [row.ravel().tolist() for row in array]
        if all(len(_find_sheets(row)) == 1 for row in rows):  # np.array([x, y])
            return np.stack(
                [_gather_sheet(row[0].sheet, row, array.shape[1:]) for row in rows]
            )
    parts: dict[Any, list[int]] = {}
    for i, x in enumerate(flat):
        kind = x.sheet if x.__class__ is Entry else isinstance(x, Tensor)
        parts.setdefault(kind, []).append(i)
    joined = []
    for kind, members in parts.items():
        own = [flat[i] for i in members]
        if isinstance(kind, Sheet):
            joined.append(_gather_sheet(kind, own, (len(own),)))
        else:
            joined.append(np.stack(own) if kind else np.array(own))
    order = np.concatenate([np.array(members) for members in parts.values()])
    whole: Any = np.concatenate(joined)
    if (order != np.arange(len(flat))).any():
        whole = whole[np.argsort(order)]
    return np.reshape(whole, array.shape)


def _find_sheets(flat: list[Any]) -> list[Sheet | None]:
    """Return the sheets of some entries; None stands for any other object."""
    if set(map(type, flat)) == {Entry}:
        return list(dict.fromkeys(map(attrgetter("sheet"), flat)))
    found = [x.sheet if x.__class__ is Entry else None for x in flat]
    return list(dict.fromkeys(found))


def has_entries(flat: list[Any]) -> bool:
    """Return whether there are entries of sheets among some objects."""
    return any(x.__class__ is Entry for x in flat)


def _gather_sheet(sheet: Sheet, entries: list[Any], shape: tuple[int, ...]) -> Any:
    sheet.check_memory()
    places = np.fromiter(map(attrgetter("place"), entries), np.intp, len(entries))
    return sheet.gather(places.reshape(shape))
