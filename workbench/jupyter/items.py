"""What the rewritten code of a cell calls: stores, makers and names.

A Tensor never changes, so ``out[i] = v`` makes a new value and binds every name
of the old one to it. `Memory` keeps the list of what was replaced: whatever
still looks at an old value afterwards would see what NumPy would have changed,
so that is an error with the line where it happened, never a wrong gradient.

On plain arrays everything here does what Python does, inside a cell or not.
"""

from __future__ import annotations

import gc
import operator
import sys
from collections.abc import Callable, Iterable, Sequence
from types import CellType
from typing import Any

import numpy as np

from workbench.errors import TraceError
from workbench.graph import blame, traces
from workbench.graph.tensor import Tensor, next_serial, value_of
from workbench.jupyter import frames
from workbench.jupyter.rewrite import MAKERS
from workbench.ops.updates import at

__all__ = ["Memory", "Place", "Runtime", "root"]

Names = dict[str, Any]


def root(array: Any) -> Any:
    """The array that owns the memory behind an array."""
    while isinstance(getattr(array, "base", None), np.ndarray):
        array = array.base
    return array


def is_array(x: Any) -> bool:
    """Whether it is an array that an item assignment would change in place."""
    value = value_of(x)
    if isinstance(x, Tensor):
        return hasattr(value, "shape") and not isinstance(value, np.generic)
    return type(value) is np.ndarray and value.dtype != object


class Replaced:
    """An array of the cell before one of its item assignments.

    ``region`` is the part that has changed since; ``after`` the serial of the
    node that did it.
    """

    __slots__ = ("after", "new", "old", "place", "region")

    def __init__(self, old: Any, new: Any, region: Any, place: str) -> None:
        self.old = old
        self.new = new
        self.region = region
        self.place = place
        self.after = new.serial if isinstance(new, Tensor) else next_serial()


class Memory:
    """Which arrays a cell may change, and which it has replaced.

    Parameters
    ----------
    names
        The names of the notebook, where the cell runs.
    older
        Arrays that were there before the cell; it must not change them.
    """

    def __init__(self, names: Names, older: Iterable[Any]) -> None:
        self.names = names
        self.older = {id(root(x)): x for x in older}
        #: By the id of the memory's owner.
        self.replaced: dict[int, list[Replaced]] = {}
        self._new: dict[int, Replaced] = {}
        #: What holds an array besides names, by the array's id.
        self._held: dict[int, list[Any]] = {}

    def check(self, obj: Any, name: str) -> None:
        """Refuse an array that the cell must not change."""
        value = value_of(obj)
        if id(root(value)) in self.older:
            raise TraceError(
                f"{name} changes in place{blame.here()}, and the array behind it is"
                " older than this cell: the graph would not know its new value. Write"
                f" {name} = {name}.copy() before, and change that."
            )
        if getattr(value, "base", None) is not None or not isinstance(obj, Tensor):
            self._check_views(obj, name)

    def _check_views(self, obj: Any, name: str) -> None:
        """Refuse an array that shares memory with one that another name shows."""
        value = value_of(obj)
        owner = root(value)
        visible: list[tuple[str, Any]] = list(self.names.items())
        for frame in frames.running():
            visible += frames.locals_of(frame).items()
        for label, x in visible:
            if x is obj or not is_array(x) or root(value_of(x)) is not owner:
                continue
            if np.may_share_memory(value_of(x), value) and not _made_from(x, obj):
                view = f"{name} is a view of {label}"
                if getattr(value, "base", None) is None:
                    view = f"{label} is a view of it"
                raise TraceError(
                    f"{name} changes in place{blame.here()}, and {view}, which would"
                    f" change too. Assign to one of them only: write {name} ="
                    f" {name}.copy() before, or take the .copy() for {label}."
                )

    def replace(self, place: Place, new: Any, key: Any, held: list[Any]) -> None:
        """Bind all that held the array of a place to ``new``.

        ``held`` are the `holders` of a plain array; of a Tensor they are known.
        """
        old = place.value
        value = value_of(old)
        region = value if key is None else value[key]
        if not (isinstance(region, np.ndarray) and np.may_share_memory(region, value)):
            region = value
        held = held or self._held.pop(id(old), [])
        entry = Replaced(old, new, region, place.text)
        self.replaced.setdefault(id(root(value)), []).append(entry)
        self._new[id(old)] = entry
        if isinstance(old, Tensor) and isinstance(new, Tensor) and old.name:
            new.name = old.name
        for label, x in self.names.items():
            if x is old:
                self.names[label] = new
        for frame in frames.running():
            frames.rebind(frame, old, new)
        if held:
            self._held[id(new)] = held
            for holder in held:
                _swap(holder, old, new)

    def holders(self, place: Place) -> list[Any]:
        """Lists, dicts and objects that hold a plain array, besides names.

        Called while the place alone refers to the array, for it counts references.
        """
        known = sum(x is place.value for x in self.names.values())
        for frame in frames.running():
            found = sum(x is place.value for x in frames.locals_of(frame).values())
            known += found * frames.REFERENCES
        if place.owner is not None:
            known += 1
        if sys.getrefcount(place.value) - known <= ALONE:
            return []
        # Somebody else holds it: ask every object, which takes a moment.
        held, found = [], gc.get_referrers(place.value)
        ours = {id(self.names), *(id(x.locked) for x in traces.LOCAL.stack)}
        for x in found:
            if isinstance(x, tuple):
                owners = [y for y in gc.get_referrers(x) if y is not found]
                self._refuse_tuple(owners, place)
            elif id(x) not in ours and (
                isinstance(x, (list, dict, CellType))
                or type(x).__module__ == "__main__"
            ):
                held.append(x)
        return held

    def _refuse_tuple(self, owners: list[Any], place: Place) -> None:
        """A tuple cannot be given the new array; those of calls and loops need not."""
        if any(isinstance(x, (list, dict)) for x in owners):
            raise TraceError(
                f"{place.text} changes in place{blame.here()}, and a tuple holds it,"
                " which would change too. Use a list in place of the tuple."
            )

    def latest(self, x: Any) -> Any:
        """What an object has become through all item assignments."""
        while (entry := self._new.get(id(x))) is not None:
            x = entry.new
        return x

    def check_reads(self, nodes: Sequence[Tensor]) -> None:
        """Refuse a program that read an array after it had been replaced."""
        if not self.replaced:
            return
        for node in nodes:
            for arg in node.args:
                if not isinstance(arg, np.ndarray):
                    continue
                for entry in self.replaced.get(id(root(arg)), ()):
                    if node.serial > entry.after and np.may_share_memory(
                        arg, entry.region
                    ):
                        raise TraceError(
                            f"{node.op.name}{blame.at(node.site)} reads an array as it"
                            f" was before {entry.place} changed it: it is a view of"
                            " it, or a list or another object holds it. Keep a"
                            " .copy() where it is to stay as it was; otherwise read"
                            f" {entry.place.split('[')[0]} itself."
                        )


def _swap(holder: Any, old: Any, new: Any) -> None:
    """Put ``new`` wherever a list, dict, closure or object holds ``old``."""
    if isinstance(holder, list):
        for i, x in enumerate(holder):
            if x is old:
                holder[i] = new
    elif isinstance(holder, CellType):
        if holder.cell_contents is old:
            holder.cell_contents = new
    else:
        held = holder if isinstance(holder, dict) else vars(holder)
        for key, x in list(held.items()):
            if x is old:
                held[key] = new


def _made_from(x: Any, base: Any) -> bool:
    """Whether a Tensor is a view taken from another."""
    while isinstance(x, Tensor) and x.inputs and x.serial > getattr(base, "serial", 0):
        x = x.inputs[0]
        if x is base:
            return True
    return False


class Runtime:
    """What rewritten code finds under `RUNTIME`."""

    def __init__(self) -> None:
        #: The memory of the cell that runs now.
        self.memory: Memory | None = None

    # What the code calls

    def name(self, value: Any, text: str) -> Place:
        """The place behind a name, or any other expression."""
        return Place(self, value, text)

    def attribute(self, owner: Any, name: str, text: str) -> Place:
        """The place behind ``owner.name``."""
        return Place(self, getattr(owner, name), text, owner=owner, key=name)

    def owner(self, owner: Any, text: str) -> Owner:
        """An object one of whose attributes is changed by ``+=``."""
        return Owner(self, owner, text)

    def named(self, value: Any, name: str) -> Any:
        """The value itself; a node that had no name has this one."""
        if type(value) is Tensor and value.name is None:
            value.name = name
        return value

    def augment(self, method: str, old: Any, operand: Any, text: str) -> Any:
        """``old += operand`` and its kin."""
        change = getattr(operator, method)
        plain = not isinstance(old, Tensor) and not isinstance(operand, Tensor)
        memory = self.memory
        if memory is None or not is_array(old) or (plain and _writeable(old)):
            return self.named(change(old, operand), text)
        place = Place(self, old, text)
        del old
        memory.check(place.value, text)
        held = [] if isinstance(place.value, Tensor) else memory.holders(place)
        if plain:
            new = change(place.value.copy(), operand)
        else:
            new = _in_dtype(method, place.value, operand)
        memory.replace(place, new, None, held)
        return new

    def maker(self, function: Any) -> Any:
        """``np.array`` and its kin as they are, or one that keeps Tensors."""
        known = getattr(function, "__name__", "")
        if known not in MAKERS or getattr(np, known, None) is not function:
            return function

        def make(*args: Any, **kwargs: Any) -> Any:
            if not _holds_tensor(args) and not _holds_tensor(list(kwargs.values())):
                return function(*args, **kwargs)
            return _maker(known)(*args, **kwargs)

        return make


class Place:
    """Where ``...[key] = value`` writes to.

    ``value`` is the array or container; ``owner`` and ``key`` tell where it was
    found: an attribute of an object, or an item of another place.
    """

    __slots__ = ("key", "owner", "runtime", "text", "value")

    def __init__(
        self,
        runtime: Runtime,
        value: Any,
        text: str,
        owner: Any = None,
        key: Any = None,
    ) -> None:
        self.runtime = runtime
        self.value = value
        self.text = text
        self.owner = owner
        self.key = key

    def __getitem__(self, key: Any) -> Place:
        return Place(self.runtime, self.value[key], f"{self.text}[...]", self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        tensors = isinstance(self.value, Tensor) or _holds_tensor((value, key))
        memory = self.runtime.memory
        if (
            memory is None
            or not is_array(self.value)
            or (not tensors and _writeable(self.value))
        ):
            self.value[key] = value
            return
        owner, held = self.owner, []
        inside = isinstance(owner, Place) and is_array(owner.value)
        if not inside:
            memory.check(self.value, self.text)
            if not isinstance(self.value, Tensor):
                held = memory.holders(self)
        if tensors:
            new = at(self.value)[key].set(value)
        else:
            new = self.value.copy()
            new[key] = value
        if not inside:
            memory.replace(self, new, key, held)
            if isinstance(owner, Place):
                owner.value[self.key] = new
            elif owner is not None:
                setattr(owner, self.key, new)
        elif np.may_share_memory(value_of(self.value), value_of(owner.value)):
            # `out[0][1] = v`: the middle is a view that nobody else has. (Of an
            # index that copies, NumPy too changes only the copy.)
            owner[self.key] = new

    def _augmented(self, method: str, operand: Any) -> Any:
        owner = self.owner
        inside = isinstance(owner, Place) and is_array(owner.value)
        tensors = isinstance(self.value, Tensor) or isinstance(operand, Tensor)
        if not inside:
            return self.runtime.augment(method, self.value, operand, self.text)
        if tensors and is_array(self.value):
            return _in_dtype(method, self.value, operand)
        if is_array(self.value) and not _writeable(self.value):
            return getattr(operator, method)(self.value.copy(), operand)
        return getattr(operator, method)(self.value, operand)


def _augmenting(method: str) -> Callable[[Place, Any], Any]:
    def augmented(self: Place, operand: Any) -> Any:
        return self._augmented(method, operand)

    return augmented


for (
    _operator
) in "add and floordiv lshift matmul mod mul or pow rshift sub truediv xor".split():
    setattr(Place, f"__i{_operator}__", _augmenting(f"i{_operator}"))


class Owner:
    """An object with an attribute that ``+=`` changes."""

    __slots__ = ("_object", "_runtime", "_text")

    def __init__(self, runtime: Runtime, owner: Any, text: str) -> None:
        object.__setattr__(self, "_runtime", runtime)
        object.__setattr__(self, "_object", owner)
        object.__setattr__(self, "_text", text)

    def __getattr__(self, name: str) -> Place:
        return Place(self._runtime, getattr(self._object, name), self._text)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._object, name, value)


#: The references to an array that only a place refers to, as they are counted.
ALONE = sys.getrefcount(Place(Runtime(), np.zeros(1), "").value)


def _writeable(array: np.ndarray[Any, Any]) -> bool:
    """Whether no trace has caught an array, nor what it is a view of."""
    while True:
        if not array.flags.writeable:
            return False
        if not isinstance(array.base, np.ndarray):
            return True
        array = array.base


def _in_dtype(method: str, old: Any, operand: Any) -> Any:
    """The result of an in-place operator: in the shape and dtype of ``old``."""
    name = method[1:]
    binary = getattr(operator, f"{name}_" if name in ("and", "or") else name)
    new = binary(old, operand)
    have = value_of(old)
    if new.shape != have.shape or new.dtype != have.dtype:
        # NumPy's own refusal, where it refuses; else its rounding.
        getattr(operator, method)(have.copy(), value_of(operand))
        new = new.astype(have.dtype)
    return new


def _holds_tensor(values: Sequence[Any]) -> bool:
    """Whether a Tensor is among the values, or in lists and tuples there."""
    stack: list[Any] = list(values)
    while stack:
        x = stack.pop()
        if isinstance(x, Tensor):
            return True
        if type(x) in (list, tuple):
            stack.extend(x)
    return False


def _maker(name: str) -> Callable[..., Any]:
    return {"full": _full, "full_like": np.full_like}.get(name, _array)


def _array(
    values: Any,
    dtype: Any = None,
    *,
    copy: bool | None = True,
    ndmin: int = 0,
    **settings: Any,
) -> Any:
    made = np.copy(values) if isinstance(values, Tensor) and copy else _stacked(values)
    if dtype is not None and made.dtype != np.dtype(dtype):
        made = made.astype(dtype)
    return made.reshape((1,) * (ndmin - made.ndim) + made.shape) if ndmin else made


def _stacked(values: Any) -> Any:
    """Nested lists with Tensors inside as one Tensor."""
    if not isinstance(values, (list, tuple)):
        return values
    if not _holds_tensor(values):
        return np.array(values)
    return np.stack([_stacked(x) for x in values])


def _full(shape: Any, fill_value: Any, dtype: Any = None, **settings: Any) -> Any:
    made = np.copy(np.broadcast_to(fill_value, shape))
    return made if dtype is None else made.astype(dtype)
