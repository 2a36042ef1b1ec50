"""Arrays of NumPy in a traced function, plain until a Tensor is stored in one.

`Plain` is NumPy's array to all other code: its buffer, its views, its speed; only
``x[i] = v`` looks at ``v``. What varies is first stored by ``x[i] = v``, ``x += v``,
``out=``, ``np.copyto`` or ``ufunc.at``; then the array, and all views of the memory
that are alive, *turn*: each of these objects becomes a `Turned`, which answers as the
Tensor that it stands for from then on (`memory.py`). So no name, list or attribute that
holds one need be found.

Compiled code reads the memory of an array behind all protocols. Of one that has turned
it must never read old numbers in silence: the dtype of the object is that of raw bytes,
which nobody takes for numbers, and the memory is filled with NaN for who has a pointer
to it. When the trace has ended, the memory holds the last values, and the objects are
plain arrays again.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, pairwise
from math import prod
from sys import getrefcount
from typing import Any
from weakref import ref

import numpy as np

from workbench.core import blame, inplace, source, traces, types
from workbench.core.memory import (
    COUNTS,
    LOCK,
    METHODS,
    changed_class,
    copy_in_place,
)
from workbench.core.op import ATTRIBUTES
from workbench.core.tensor import (
    TENSORS,
    Tensor,
    gather_result,
    is_labelled,
    next_serial,
)
from workbench.errors import DtypeError, TraceError

_frame = sys._getframe
_array: Any = np.ndarray
_set_dtype: Any = vars(np.ndarray)["dtype"].__set__
_set_class: Any = vars(object)["__class__"].__set__
_set_item = np.ndarray.__setitem__
_view = np.ndarray.view
_wrap = np.ndarray.__array_wrap__
_set_flags = np.ndarray.setflags
_get_item = np.ndarray.__getitem__

#: What else refers to an array where its references are counted: its view, the call.
HOLDERS = 2
#: How many views an array notes before it looks which of them are still there.
MANY_VIEWS = 64
#: Bytes of an array beyond which equal copies of it are kept once.
LARGE = 2**12
#: What is stored by NumPy itself.
NUMBERS = {float, int, bool, complex, np.float64, np.float32, np.int64, np.bool_}


class Plain(np.ndarray[Any, Any]):
    """An array of NumPy that a traced function may store Tensors in.

    Attributes
    ----------
    born
        The serial that a Tensor would have which was made in its place.
    root
        Of a view: the array that owns the memory.
    shows
        Of the array that owns the memory: weak references to the views of it, those of
        other classes of arrays too.
    is_given
        Whether the memory is that of an array of the caller's.
    label
        What a cell calls it, and the Tensor that it becomes.
    """

    __slots__ = ("born", "handle", "is_given", "label", "memory", "root", "shows")

    __array_priority__ = 0

    def __array_finalize__(self, parent: Any) -> None:
        kind = type(self)
        if kind is Turned:  # made behind all protocols, of raw bytes
            raise _explain_bytes(parent)
        self.label = None
        if kind is not Unvalued:
            fitting = Whole if self.dtype.kind in "biu" else Plain
            if kind is not fitting:  # it was computed from one of the other class
                self.__class__ = fitting
        base: Any = self.base
        self.root: Any = None
        if type(base) in PLAIN:
            self.root = _root_of(base)
        elif base is not None and type(base) is not np.ndarray:  # of a masked array
            self.root = _find_root(base)
        elif base is not None and type(parent) in PLAIN:  # `squeeze` has one between
            if np.may_share_memory(self, parent):
                self.root = _root_of(parent)
        if self.root is not None:
            _note_view(self.root, self)
            return
        self.born = next_serial()
        next_serial()  # for the version that it becomes: see `turn`
        self.shows: list[ref[Any]] = []
        self.is_given = False
        if stack := traces.LOCAL.stack:
            stack[-1].note_plain(ref(self))

    def __array_wrap__(
        self, made: Any, context: Any = None, return_scalar: bool = False
    ) -> Any:
        """Return what a ufunc has made: of no axes a number, as of NumPy's own arrays.

        An array without axes in its place would change under all of its names.
        """
        if return_scalar and not made.ndim:
            return made[()]
        return _wrap(self, made, context)

    def __setitem__(self, key: Any, value: Any) -> None:
        kind = type(value)
        if kind in NUMBERS or not traces.OPEN or not holds_tensor(value):
            _set_item(self, key, value)
            return
        if not self.size:  # it has no entry to store in
            _set_item(self, key, np.empty(np.shape(value)))
            return
        line = source.place_of(_frame(1))
        turn(self)
        _assign(self, key, value, line)

    def view(self, *args: Any, **settings: Any) -> Any:
        """Return a view, perhaps of another class of arrays."""
        made = _view(self, *args, **settings)
        if type(made) is not np.ndarray and type(made) not in PLAIN:
            _note_view(_root_of(self), made)
        return made

    @property
    def _optinfo(self) -> dict[str, Any]:
        """The empty options that masked arrays ask for; note a new masked view.

        It takes the view behind all protocols.
        """
        frame = _frame(1)
        made = frame.f_locals.get("self")
        if isinstance(made, np.ma.MaskedArray) and _find_root(made) is not None:
            _note_view(_root_of(self), made)
        return {}

    def __reduce__(self) -> Any:
        return self.view(np.ndarray).__reduce__()

    def __repr__(self) -> str:
        return repr(self.view(np.ndarray))

    def fill(self, value: Any) -> None:
        """Set all entries to a number."""
        _find_array(self, value).fill(value)

    def put(self, indices: Any, values: Any, mode: Any = "raise") -> None:
        """Set entries of the array in one line."""
        _find_array(self, values).put(indices, values, mode)

    @property
    def flat(self) -> Any:
        """The entries in one line, which may be written to."""
        if not traces.OPEN:
            return _array.flat.__get__(self)
        if self.flags.c_contiguous:
            return self.reshape(-1)
        turn(self)
        return ATTRIBUTES[np.ndarray.flat](self)

    @flat.setter
    def flat(self, values: Any) -> None:
        if traces.OPEN and holds_tensor(values):
            turn(self)
            self.flat = values
        else:
            _array.flat.__set__(self, values)

    @property
    def real(self) -> Any:
        """The real part."""
        return _array.real.__get__(self)

    @real.setter
    def real(self, values: Any) -> None:
        self.real[...] = values

    @property
    def imag(self) -> Any:
        """The imaginary part."""
        return _array.imag.__get__(self)

    @imag.setter
    def imag(self, values: Any) -> None:
        self.imag[...] = values


class Unvalued(Plain):
    """An array made in a trace without values, and indexed by Tensors of that trace."""

    __slots__ = ()

    def __getitem__(self, key: Any) -> Any:
        if traces.OPEN and _has_unknown(key):
            turn(self)
            return self[key]
        return _get_item(self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        if traces.OPEN and (_has_unknown(key) or holds_tensor(value)):
            line = source.place_of(_frame(1))
            turn(self)
            _assign(self, key, value, line)
        else:
            _set_item(self, key, value)


class Whole(Plain):
    """Integers or flags: no Tensor is stored in them, and an op notes a copy."""

    __slots__ = ()

    __setitem__ = _set_item


#: The classes of plain arrays that turn.
PLAIN: set[type] = {Plain, Unvalued, Whole}
NUMBERS |= PLAIN


def _assign(x: Any, key: Any, value: Any, line: Any) -> None:
    kind: Any = Tensor
    kind.__setitem__(x, key, value, line)


def _has_unknown(key: Any) -> bool:
    """Return whether an index has parts without values."""
    for part in key if type(key) is tuple else (key,):
        if isinstance(part, Tensor):
            return part._value is None
        if type(part) is slice and _has_unknown((part.start, part.stop, part.step)):
            return True
    return False


def holds_tensor(value: Any) -> bool:
    """Return whether a Tensor would be stored, perhaps in a list."""
    kind = type(value)
    if kind in TENSORS or kind in traces.CHANGED:
        return True
    if kind is np.ndarray:
        return value.dtype.hasobject and any(map(holds_tensor, value.flat))
    if kind is list or kind is tuple:
        return any(map(holds_tensor, value))
    return is_labelled(value) and isinstance(gather_result(value), Tensor)


def _find_array(x: Any, value: Any) -> Any:
    """Return the object that takes a write: NumPy's array, or the Tensor."""
    if traces.OPEN and holds_tensor(value):
        turn(x)
        return x.handle
    return x.view(np.ndarray)


def join_program(made: Any, *, is_given: bool = False) -> Any:
    """Return an array of NumPy as one that the function may store Tensors in."""
    trace = traces.LOCAL.stack[-1]
    kind: type = Plain if trace.unknown is None else Unvalued
    if made.dtype.kind not in "fc":
        if made.dtype.kind not in "biu":
            return made
        kind = Whole if kind is Plain else kind
    joined = made.view(kind)
    joined.is_given = is_given
    return joined


def join_given(x: Any) -> Any:
    """Return an argument array in a form that can store Tensors.

    Its caller's array never shows them.
    """
    if type(x) is not np.ndarray or x.dtype.kind not in "fc":
        return x
    trace = traces.LOCAL.stack[-1]
    given = trace.given_arrays
    if given is None:
        given = trace.given_arrays = {}
    if id(x) not in given:  # which its view holds: one given twice is one array
        given[id(x)] = join_program(x, is_given=True)
    return given[id(x)]


# What is recorded of one


def copy_constant(x: Any) -> Any:
    """Return the constant that an op notes of an array which may be written to later.

    Of large ones a trace keeps one copy as long as they hold the same: a loop may use a
    matrix in each step.
    """
    if x.nbytes <= LARGE or x.dtype.hasobject:
        return _copy(x)
    opened = traces.LOCAL.stack or traces.OPEN
    if not opened:
        return _copy(x)
    copies = opened[-1].copies
    if copies is None:
        copies = opened[-1].copies = {}
    place = _address(x), x.shape, x.strides, x.dtype
    found = copies.get(place)
    if found is None or not np.array_equal(_bits(x), _bits(found)):
        found = copies[place] = _copy(x)
    return found


def _copy(x: Any) -> Any:
    return copy_in_place(x.view(np.ndarray))


def _bits(x: Any) -> Any:
    """Return an array's bits as integers if possible: NaN then equals itself."""
    x = x.view(np.ndarray)
    return x.view(f"u{x.itemsize}") if x.itemsize <= 8 else x


for _kind in PLAIN:
    types.CONSTANTS[_kind] = copy_constant


# Turning


def _root_of(x: Any) -> Any:
    return x if x.root is None else x.root


def _find_root(x: Any) -> Any:
    """Return the plain array behind an array of another class, or None.

    It holds what it is a view of.
    """
    while x is not None and type(x) not in PLAIN:
        x = x.base if isinstance(x, np.ndarray) else None
    return None if x is None else _root_of(x)


def _note_view(root: Any, view: Any) -> None:
    shows = root.shows
    n = len(shows)
    if n >= MANY_VIEWS and not n & (n - 1):
        shows[:] = [x for x in shows if x() is not None]
    shows.append(ref(view))


def _address(x: Any) -> int:
    address: int = x.__array_interface__["data"][0]
    return address


def _check_views(root: Any) -> None:
    """Refuse a Tensor in memory that an array of NumPy's own class shows too.

    Some functions give a view of that class, which nobody notes; it holds the array
    that the memory belongs to. Without the GIL a count says nothing. One of another
    class of arrays has no Tensor that it could stand for.
    """
    for found in root.shows:
        view = found()
        if view is not None and not issubclass(type(view), Plain):
            raise TraceError(
                f"x[i] = v{blame.user_line()}: a {type(view).__name__} shares the"
                " memory of x, and would not show the traced value that is stored"
                " there. Make it of a copy: x.copy()."
            )
    if root.is_given or root.base is None or not COUNTS:
        return
    between = sum(
        type(view.base) is np.ndarray
        for view in (found() for found in root.shows)
        if view is not None
    )
    held = traces.HELD.get(id(root.base), 0)
    if getrefcount(root.base) - HOLDERS - held > between:
        raise TraceError(
            f"x[i] = v{blame.user_line()}: another NumPy array shares the memory of x,"
            " and would not show the stored value: a view by np.einsum, as_strided,"
            " np.broadcast_arrays or x.view(np.ndarray), a masked array, or a loop of"
            " np.ndenumerate over x. Make it after the stores, or of a copy."
        )


def _is_writeable(x: Any) -> bool:
    """Return whether an array is writeable, apart from the hold of a trace."""
    return x.flags.writeable or id(x) in traces.HELD


def _fill_blank(root: Any) -> None:
    """Fill an array with NaN, even where a trace holds the array.

    Of integers, which have none, it is the number farthest from all places.
    """
    kind = root.dtype.kind
    blank: Any = np.nan
    if kind in "iu":
        limits = np.iinfo(root.dtype)
        blank = limits.min if kind == "i" else limits.max
    chain = traces.base_chain(root)[::-1]
    held = [x for x in chain if not x.flags.writeable]
    for x in held:
        x.flags.writeable = True
    root.view(np.ndarray)[...] = blank
    for x in held:
        x.flags.writeable = False


def _check_given(root: Any, opened: Iterable[Any]) -> None:
    """Refuse a Tensor in an argument that shares memory with another one."""
    for trace in opened if root.is_given else ():
        for key, given in (trace.given_arrays or {}).items():
            if given is root:
                inplace.check_alone(trace, root, "x[i] = v", key=key)


def turn(x: Any) -> None:
    """Let an array and all views of its memory stand for Tensors from now on.

    Raises
    ------
    TraceError
        Where NumPy refuses writes, or arrays outside the program would change too.
    """
    with LOCK:
        if type(x) not in PLAIN:
            return  # another thread was first
        root = _root_of(x)
        if type(root) is Whole:
            raise DtypeError(
                f"a Tensor is stored in an array of dtype {root.dtype}"
                f"{blame.user_line()}: the values would be rounded and their gradient"
                " lost. Make it an array of floats, or write x = x + v, which makes a"
                " new one."
            )
        opened = traces.LOCAL.stack or traces.OPEN
        if not root.is_given and not _is_writeable(x):
            raise ValueError("assignment destination is read-only")
        _check_views(root)
        _check_given(root, opened)
        code, lasti = source.caller()
        value = _copy(root)
        node = inplace.make_copy(None, value, value, (code, lasti))
        node.serial = root.born
        objects = [root]
        nodes = [node]
        for found in root.shows:
            view = found()
            if view is not None and type(view) in PLAIN:
                objects.append(view)
                is_part = view.size > 0
                nodes.append(
                    _make_view(node, root, view) if is_part else _make_empty(view)
                )
        for other, handle in zip(objects, nodes, strict=True):
            if other.label is not None and handle.name is None:
                handle.name = other.label
        memory, _ = inplace.open_memory(node, "x[i] = v")
        first = inplace.make_copy(None, value, value, (code, lasti))
        first.serial = root.born + 1  # it stands where the array was made
        inplace.store(memory, first)
        loan = Loan(root, objects, memory)
        opened[-1].changes.append(loan)
        for trace in opened:
            trace.has_turned = True
        if not root.is_given and _is_writeable(root):
            _fill_blank(root)
        for other, handle in zip(objects, nodes, strict=True):
            other.handle, other.memory = handle, handle.memory
            _set_dtype(other, np.dtype(("V", other.dtype.itemsize)))
            _set_flags(other, write=False)  # what compiled code writes would be lost
            other.__class__ = Turned
        root.shows = []


class Loan:
    """The duty of a trace at its end: plain arrays again, with their last values."""

    __slots__ = ("memory", "objects", "shape")

    def __init__(self, root: Any, objects: Sequence[Any], memory: Any) -> None:
        self.memory, self.shape = memory, root.shape
        self.objects = [(ref(x), type(x), x.dtype, _is_writeable(x)) for x in objects]

    def hand_over(self, outer: Any, first: int, walked: set[int]) -> None:
        """Leave the memory to the outer trace."""

    def is_shown(self) -> bool:
        """Return whether somebody still has one of the arrays."""
        return any(found() is not None for found, *_ in self.objects)

    def close(self) -> None:
        """Give the memory the last values, in its own shape.

        Where there are none, for no run of the program has been, nobody can read it.
        """
        value = self.memory.latest._value
        if value is None:
            for found, *_ in self.objects:
                if (x := found()) is not None:
                    x.handle = x.memory = Gone(blame.describe(x.handle))
            return
        if np.shape(value) != self.shape:
            return
        for place, (found, kind, dtype, is_writeable) in enumerate(self.objects):
            x = found()
            if x is None:
                continue
            _set_class(x, kind)
            _set_dtype(x, dtype)
            _set_flags(x, write=is_writeable)
            x.handle = x.memory = None
            if not place and not x.is_given and x.flags.writeable:
                x.view(np.ndarray)[...] = value
                if self.memory.owner is None:  # views that are Tensors show it, too
                    self.memory.show(x.view(np.ndarray))
            elif place:
                _root_of(x).shows.append(found)


class Gone:
    """The rest of an array with unknown values: any read raises an error."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def __getattr__(self, name: str) -> Any:
        raise TraceError(
            f"an array ({self._text}) is used{blame.user_line()} that was kept of a"
            " function which was recorded without values, for wb.vmap or wb.compile: it"
            " has none. Return it from the function, which gives them in each run."
        )

    def __repr__(self) -> str:
        return f"<{self._text}, of a function that was recorded without values>"


# A view, as a view of the Tensor


def _make_view(node: Tensor, root: Any, view: Any) -> Any:
    """Return the same view of a Tensor that lies in memory as an array does."""
    strides, offset = root.strides, _address(view) - _address(root)
    whole: Any = node
    if view.dtype != root.dtype:
        if view.dtype.itemsize * 2 != root.itemsize or root.dtype.kind != "c":
            raise _explain_view(view)
        is_imag = offset % root.itemsize != 0
        whole, offset = (node.imag, offset - view.itemsize) if is_imag else (
            node.real, offset)  # fmt: skip
    made = _take_strides(whole, root.shape, strides, offset, view)
    here, there = made._value, view
    same = here.shape == there.shape and all(
        a == b
        for n, a, b in zip(here.shape, here.strides, there.strides, strict=True)
        if n > 1
    )
    if not same or _address(here) - _address(node._value) != (
        _address(view) - _address(root)
    ):
        raise _explain_view(view)
    return made


def _make_empty(view: Any) -> Any:
    """Return a Tensor without entries, which show nothing of any memory."""
    value, line = _copy(view), source.caller()
    node, first = (inplace.make_copy(None, value, value, line) for _ in range(2))
    inplace.store(inplace.open_memory(node, "x[i] = v")[0], first)
    return node


def _explain_view(view: Any) -> TraceError:
    return TraceError(
        f"x[i] = v{blame.user_line()}: a view of x, of shape {view.shape} and dtype"
        f" {view.dtype}, is not made by indices, slices, transposes and reshapes, and"
        " would not show the change. Write .copy() where it is made."
    )


def _take_strides(
    x: Any, shape: tuple[int, ...], strides: tuple[int, ...], offset: int, view: Any
) -> Any:
    """Return the view of a Tensor that starts at an offset and has given strides."""
    order = sorted(range(len(shape)), key=lambda i: -abs(strides[i]) * (shape[i] > 1))
    if order != list(range(len(shape))):
        x = np.transpose(x, order)
    shape = tuple([shape[i] for i in order])
    steps = [strides[i] for i in order]
    for lengths, sizes in _list_shapes(shape, steps, view):
        key = _find_key(lengths, sizes, offset, view)
        if key is not None:
            break
    else:
        raise _explain_view(view)
    if lengths != shape:
        x = np.reshape(x, lengths)
    parts, axes = key
    x = x[(*parts, Ellipsis)]
    if axes != sorted(axes):
        x = np.transpose(x, [sorted(axes).index(i) for i in axes])
    long = [n > 1 and s != 0 for n, s in zip(view.shape, view.strides, strict=True)]
    if not all(long):
        x = x[tuple([slice(None) if n else None for n in long])]
        if x.shape != view.shape:
            x = np.broadcast_to(x, view.shape)
    return x


def _list_shapes(
    shape: tuple[int, ...], steps: Sequence[int], view: Any
) -> Iterator[tuple[tuple[int, ...], list[int]]]:
    """Yield shapes in which the memory may have been when a view was taken."""
    yield shape, list(steps)
    unit, size = min((s for n, s in zip(shape, steps, strict=True) if n > 1),
                     default=view.itemsize), prod(shape)  # fmt: skip
    tight = [prod(shape[i + 1 :]) * unit for i in range(len(shape))]
    if any(n > 1 and s != t for n, s, t in zip(shape, steps, tight, strict=True)):
        return  # it has gaps, and takes no other shape
    for count in range(len(shape) - 1, 0, -1):
        for cuts in combinations(range(1, len(shape)), count - 1):
            ends = [0, *cuts, len(shape)]
            merged = tuple([prod(shape[a:b]) for a, b in pairwise(ends)])
            yield merged, [prod(merged[i + 1 :]) * unit for i in range(len(merged))]
    lengths = zip(view.shape, view.strides, strict=True)
    sizes = sorted({abs(s) for n, s in lengths if n > 1 and s}, reverse=True)
    sizes = [s for s in sizes if s % unit == 0]
    if sizes and sizes[-1] != unit:
        sizes.append(unit)
    before, split = size * unit, []
    for s in sizes:
        if before % s:
            return
        split.append(before // s)
        before = s
    yield tuple(split), sizes


def _find_key(
    shape: tuple[int, ...], steps: Sequence[int], offset: int, view: Any
) -> tuple[list[Any], list[int]] | None:
    """Return the index that takes a view, and the axis of each of its axes."""
    starts = []
    for n, step in zip(shape, steps, strict=True):
        start = offset // step if n > 1 else 0
        starts.append(start)
        offset -= start * step
        if not 0 <= start < n:
            return None
    if offset:
        return None
    parts: list[Any] = list(starts)
    axes: list[int] = []
    for n, stride in zip(view.shape, view.strides, strict=True):
        if n <= 1 or stride == 0:
            continue
        fitting = [
            i
            for i, (m, step) in enumerate(zip(shape, steps, strict=True))
            if m > 1 and i not in axes and stride % step == 0
        ]
        for i in fitting:
            by = stride // steps[i]
            if 0 <= starts[i] + by * (n - 1) < shape[i]:
                break
        else:
            return None
        stop = starts[i] + by * n
        parts[i] = slice(starts[i], stop if stop >= 0 else None, by)
        axes.append(i)
    return parts, axes


# What has turned


def _explain_bytes(x: Any) -> TraceError:
    return TraceError(
        f"compiled code{blame.user_line()} reads the memory of"
        f" {blame.describe(_handle_of(x))}, which holds no numbers: traced values have"
        " been stored in it. Write it with NumPy's functions, or give it x.value to"
        " cut the gradient on purpose."
    )


class Turned(Unvalued, Whole):
    """An array that holds Tensors, and acts as its Tensor.

    It is a kind of each class it can meet: of two operands NumPy asks the subclass
    first, and an array's own answer would read the raw memory of the other.
    """

    __slots__ = ()

    #: So that ``isinstance(x, Tensor)`` is true; of `numpy.ndarray` it is by its type.
    __class__ = property(lambda self: Tensor)

    @property
    def _optinfo(self) -> dict[str, Any]:
        raise blame.masked_array_error(_handle_of(self))

    def __getattr__(self, name: str) -> Any:
        return getattr(_handle_of(self), name)

    def __getitem__(self, index: Any) -> Any:
        node = self.memory.read()
        if type(index) is int and node.shape:
            n = node.shape[0]  # a loop over rows that has begun before ends by this
            if type(n) is int and not -n <= index < n:
                raise IndexError(
                    f"index {index} is out of bounds for axis 0 with size {n}"
                )
        return ATTRIBUTES[np.ndarray.__getitem__](
            self, index, source.place_of(_frame(1))
        )

    def __setitem__(self, key: Any, value: Any) -> None:
        _assign(self, key, value, source.place_of(_frame(1)))


_handle_of: Any = vars(Plain)["handle"].__get__


def handle_of(x: Any) -> Any:
    """Return the Tensor behind an array; else the object unchanged."""
    return _handle_of(x) if type(x) is Turned else x


def _delegate(name: str) -> Any:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(_handle_of(self), name)(*args, **kwargs)

    method.__name__ = name
    return method


def _delegate_attribute(name: str) -> property:
    def read(self: Any) -> Any:
        return getattr(_handle_of(self), name)

    def write(self: Any, value: Any) -> None:
        setattr(_handle_of(self), name, value)

    return property(read, write)


def _make_in_place(name: str, sign: str) -> Any:
    method = METHODS[f"__{name}__"]

    def operate_in_place(self: Any, other: Any) -> Any:
        result = method(self, other)
        if result is NotImplemented:
            return result
        result.code, result.lasti = source.place_of(_frame(1))
        inplace.write_whole(_handle_of(self), result, sign)
        return self

    return operate_in_place


def _fill_class(signs: Iterable[tuple[str, str]]) -> None:
    """Give `Turned` the attributes of Tensors and of arrays."""
    own = vars(Turned)
    like: Any = changed_class(Tensor)
    kept = {"__class__", "__dict__", "__weakref__", "__new__", "__init__", "__slots__"}
    kept |= {"__init_subclass__", "__subclasshook__", "__getattribute__", "__doc__"}
    kept |= {"__setattr__", "__delattr__", "__sizeof__", "__array_finalize__"}
    kept |= {"__array_wrap__", "__module__", "__class_getitem__", "__dir__"}
    direct = {*METHODS, "__array_ufunc__", "__array_function__"}
    for name in {*dir(np.ndarray), *dir(Tensor), *vars(Plain)}:
        if name in kept or (name in own and name not in direct):
            continue
        if name in vars(Plain) and name in Plain.__slots__:
            continue
        if name in direct:
            made: Any = vars(like)[name]
        elif not (name.startswith("__") and name.endswith("__")):
            made = _delegate_attribute(name)
        elif name.startswith("__array_") and not callable(getattr(Tensor, name, None)):
            made = _delegate_attribute(name)
        else:
            made = _delegate(name)
        setattr(Turned, name, made)
    for name, sign in signs:
        setattr(Turned, f"__i{name}__", _make_in_place(name, sign))


def complete_classes(signs: Iterable[tuple[str, str]]) -> None:
    """Complete the class of turned arrays, after Tensors have all operators."""
    _fill_class(signs)
    for kind in (Plain, Unvalued, Whole, Turned):
        kind.__name__ = kind.__qualname__ = "ndarray"
        kind.__module__ = "numpy"
    traces.CHANGED.add(Turned)
