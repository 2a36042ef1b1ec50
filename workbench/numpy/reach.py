"""The code that a function reaches, and the effects of that code on arrays.

It is read off the bytecode: what a function calls by a global name, an attribute of a
module, a closure, a default, a decorator or an object. Code of installed packages is
not looked at, except of those named by `trace_packages`.
"""

from __future__ import annotations

import functools
import sys
from dis import get_instructions
from inspect import CO_VARARGS
from types import (
    BuiltinFunctionType,
    CellType,
    CodeType,
    FunctionType,
    MethodType,
    ModuleType,
)
from typing import Any, NamedTuple
from weakref import ref

import numpy as np

from workbench.core import source
from workbench.core.op import WRITERS
from workbench.core.plain import PLAIN, Turned
from workbench.numpy.namespaces import (
    BY_ID,
    NOTHING,
    READERS,
    content_of,
    swap_scipy,
    vars_of,
)

Space = dict[str, Any]


# What code does


class Facts(NamedTuple):
    """What the bytecode of a function says.

    Attributes
    ----------
    code
        The code itself, so that its id stays its own.
    stores
        Whether it may store into arrays.
    lists, reads
        Whether it makes lists or tuples; calls functions that make numbers of theirs.
    names
        The global names that it reads.
    attributes
        The attributes that it reads.
    asks
        What it may ask of an array with: ``type``, ``isinstance``.
    """

    code: CodeType
    stores: bool
    lists: bool
    reads: bool
    names: tuple[str, ...]
    attributes: frozenset[str]
    asks: frozenset[str]


#: Attributes, and functions, by which an array is written to, or Tensors are taken.
WRITING = {
    "__setitem__", "asarray", "ascontiguousarray", "at", "c_", "fill", "flat",
    "ndarray", "partition", "r_", "sort",
    *(function.__name__ for function in WRITERS),
}  # fmt: skip
#: Functions and methods that fill lists and tuples, and steps of code that make them.
LISTING = {"append", "extend", "insert", "list", "sorted", "tuple", "zip"}
LISTING_STEPS = {"BUILD_LIST", "BUILD_TUPLE", "LIST_APPEND"}
#: Steps whose operand is an index.
INDEXING = {"BINARY_SUBSCR", "BINARY_OP", "DELETE_SUBSCR", "STORE_SUBSCR"}
READING = frozenset(READERS)
#: Attributes of an array that may be set.
PARTS = {"flat", "imag", "real"}
_FACTS: dict[int, Facts] = {}


def read_code(code: CodeType) -> Facts:
    """Return the facts in the bytecode of a function and of its inner functions."""
    found = _FACTS.get(id(code))
    if found is not None:
        return found
    names: dict[str, None] = {}
    attributes: set[str] = set()
    stores, lists = False, bool(code.co_flags & CO_VARARGS)
    steps = list(get_instructions(code))
    for step, after in zip(steps, [*steps[1:], steps[-1]], strict=True):
        name = step.opname
        if name in ("LOAD_GLOBAL", "LOAD_NAME"):
            names[step.argval] = None
        elif name in ("LOAD_ATTR", "LOAD_METHOD"):
            attributes.add(step.argval)
        elif name in ("STORE_SUBSCR", "STORE_SLICE"):
            stores = True
        elif name in LISTING_STEPS:
            # A tuple that is an index, or what an inner function closes over, is none.
            is_index = after.opname in INDEXING or type(after.argval) is CodeType
            lists = lists or name != "BUILD_TUPLE" or not is_index
        elif name == "STORE_ATTR":
            stores = stores or step.argval in PARTS
        elif name == "BINARY_OP":
            stores = stores or step.argrepr.endswith("=")
    read = attributes.union(names)
    stores = stores or not WRITING.isdisjoint(read)
    lists, reads = lists or not LISTING.isdisjoint(read), not READING.isdisjoint(read)
    asks = {"isinstance"} & set(names)
    if "type" in names and ("ndarray" in names or "ndarray" in attributes):
        asks.add("type")
    for const in code.co_consts:
        if isinstance(const, CodeType):
            inner = read_code(const)
            stores, lists = stores or inner.stores, lists or inner.lists
            reads = reads or inner.reads
            asks |= inner.asks
            names.update(dict.fromkeys(inner.names))
            attributes |= inner.attributes
        elif type(const) is tuple and "out" in const:  # the names of arguments
            stores = True
    if len(_FACTS) > 8192:
        _FACTS.clear()
    made = Facts(
        code, stores, lists, reads, tuple(names), frozenset(attributes),
        frozenset(asks),
    )  # fmt: skip
    _FACTS[id(code)] = made
    return made


# What a function reaches

#: Installed packages whose code is looked at, and how many ask for it.
PACKAGES: dict[str, int] = {}
#: Packages and modules that are libraries wherever they lie.
LIBRARIES = {"workbench", "numpy", "scipy"}
#: The types of values that lead to no code.
PASSED = {
    bool, bytes, complex, float, int, str, type(None), type(Ellipsis), range,
    np.ndarray, np.ufunc, np.float64, np.float32, np.int64, np.bool_, np.dtype,
    BuiltinFunctionType, *PLAIN, Turned,
}  # fmt: skip
MISSING: Any = object()


@functools.lru_cache(maxsize=4096)
def is_library(home: str, filename: str) -> bool:
    """Return whether code is Workbench's own, or that of an installed package."""
    package = home.partition(".")[0]
    if package in PACKAGES:
        return False
    if package in LIBRARIES or home in LIBRARIES:
        return True
    return source.is_installed(filename)


def is_library_class(kind: type) -> bool:
    """Return whether a class is not the user's own.

    One of arrays of a kind of their own, which answer NumPy's protocols, counts as
    none: what it does with Tensors is below the program, not a part of it.
    """
    if not kind.__flags__ & (1 << 9):  # it is no class of Python's code
        return True
    if "__array_ufunc__" in vars(kind) or "__array_function__" in vars(kind):
        return True
    home = kind.__module__
    module = sys.modules.get(home) if isinstance(home, str) else None
    return is_library(str(home), getattr(module, "__file__", None) or "")


def _names_of(owner: Any) -> Any:
    """Return the names that are looked up in a module, a class, an object or globals.

    Of a function, they are its globals.
    """
    kind = type(owner)
    if kind is FunctionType:
        return owner.__globals__
    if isinstance(owner, (type, ModuleType)):
        return vars(owner)
    return vars_of(owner)


class Defaults:
    """What a function holds, as names of a module: default arguments, closed names.

    The key of a default is its place or name, that of a closed name its cell.
    """

    __slots__ = ("_function",)

    def __init__(self, function: FunctionType) -> None:
        self._function = function

    def find_names(self) -> list[tuple[Any, Any, Any]]:
        """Return what to swap: key, old value, new value."""
        function = self._function
        positional, named = function.__defaults__, function.__kwdefaults__
        cells = function.__closure__
        if positional is None and named is None and cells is None:
            return []
        found: list[tuple[Any, Any]] = [
            *enumerate(positional or ()),
            *(named or {}).items(),
            *((cell, content_of(cell)) for cell in cells or ()),
        ]
        changed = [
            (key, value, BY_ID.get(id(value)) or swap_scipy(value))
            for key, value in found
            if type(value) not in PASSED or id(value) in BY_ID
        ]
        return [entry for entry in changed if entry[2] is not entry[1]]

    def get(self, key: Any) -> Any:
        """Return a default, or the content of a cell."""
        if isinstance(key, CellType):
            return content_of(key)
        if isinstance(key, str):
            return (self._function.__kwdefaults__ or {}).get(key)
        values = self._function.__defaults__ or ()
        return values[key] if key < len(values) else None

    def __setitem__(self, key: Any, value: Any) -> None:
        if isinstance(key, CellType):
            key.cell_contents = value
        elif isinstance(key, str):
            named: Any = self._function.__kwdefaults__
            named[key] = value
        else:
            values = list(self._function.__defaults__ or ())
            values[key] = value
            self._function.__defaults__ = tuple(values)


class _Look:
    """The names looked up in one place, with their values.

    Those that lead to code are known by its identity, all others by their type. What
    has the names is held weakly: that an answer is kept must keep nothing else.
    """

    __slots__ = ("inside", "length", "names", "owner", "passed")

    def __init__(self, owner: Any) -> None:
        self.owner = ref(owner)
        self.length: int | None = None
        self.names: dict[str, int] = {}
        self.passed: dict[str, type] = {}
        #: What lists and dicts held, by their names.
        self.inside: dict[str, list[int]] = {}

    def note(self, name: str, value: Any) -> bool:
        """Note the value of a name; return whether the value may lead to code."""
        kind = type(value)
        if kind in PASSED:
            self.passed[name] = kind
            return False
        self.names[name] = id(value)
        if kind in (list, dict, set) and len(value) <= MANY_ITEMS:
            items = _items_of(value)
            if any(type(x) not in PASSED for x in items):
                self.inside[name] = list(map(id, items))
        return True

    def freeze(self, root: Any) -> tuple[Any, ...]:
        """Return the notes of this owner in a form that compares quickly.

        The owner is None if it is ``root``: another one may be asked about.
        """
        names, passed = self.names, self.passed
        owner = None if self.owner() is root else self.owner
        return (
            owner, self.length, tuple(names), list(names.values()),
            tuple(passed), list(passed.values()), self.inside,
        )  # fmt: skip


#: How many objects, and items of a list or dict, are looked at for code.
MANY_OBJECTS = 10_000
MANY_ITEMS = 256


def _items_of(value: Any) -> list[Any]:
    return list(value.values() if type(value) is dict else value)


class Reach:
    """The code that a function reaches: a walk over the names that code reads.

    A name of a function's leads to what its globals hold, and an attribute to what the
    modules, the classes and the objects hold that have been met, by that name.

    Attributes
    ----------
    stores, uses_scipy
        Whether some of it stores into arrays; reads a name of SciPy's.
    swaps
        Whether names are to be swapped for it.
    asking
        What code asks of arrays with, by the ids of its globals.
    known
        The names that were looked at, and what they were.
    """

    def __init__(self, root: Any) -> None:
        #: A function of each module that is reached, by the id of its globals.
        self._of_spaces: dict[int, ref[FunctionType]] = {}
        #: Functions that have NumPy, or a thing of SciPy's, as a default.
        self._of_defaults: dict[int, ref[FunctionType]] = {}
        self.stores = self.uses_scipy = self._lists = self._reads = False
        self.asking: dict[int, frozenset[str]] = {}
        #: What was looked at, by the id of what has the names.
        self._looks: dict[int, _Look] = {}
        self._seen: set[int] = set()
        self._attributes: set[str] = set()
        self._holders: list[Any] = []
        self._classes: set[type] = set()
        #: What is still to be followed; held, so that no id is another's.
        self._values: list[Any] = [root]
        self._held: list[Any] = []
        if isinstance(root, ModuleType):  # what is read of it is not known
            self._attributes.update(vars(root))
        while self._values:
            self._follow(self._values.pop())
        self.known = [look.freeze(root) for look in self._looks.values()]
        # A list that one function makes may be what another one hands to NumPy.
        self.swaps = self.stores or self.uses_scipy or (self._lists and self._reads)
        #: The names that are swapped for it, by the ids of globals (`swap.py`).
        self.names: dict[int, list[tuple[str, Any, Any]]] = {}
        self._held.clear()
        self._holders.clear()
        self._looks.clear()
        self._classes.clear()

    def holds(self, root: Any) -> bool:
        """Return whether all names still have the same values, for any root."""
        for owner, length, names, ids, passed, kinds, inside in self.known:
            if (found := root if owner is None else owner()) is None:
                return False
            is_function = type(found) is FunctionType
            holder = found.__globals__ if is_function else _names_of(found)
            if length is not None and len(holder) != length:
                return False
            if names and list(map(id, map(holder.get, names))) != ids:
                return False
            if passed and list(map(type, map(holder.get, passed))) != kinds:
                return False
            for name, items in inside.items():
                if list(map(id, _items_of(holder.get(name)))) != items:
                    return False
        return True

    @property
    def spaces(self) -> list[Space]:
        """The globals of the code."""
        found = [function() for function in self._of_spaces.values()]
        return [function.__globals__ for function in found if function is not None]

    @property
    def functions(self) -> list[FunctionType]:
        """Its functions that have NumPy, or a thing of SciPy's, as a default."""
        found = [function() for function in self._of_defaults.values()]
        return [function for function in found if function is not None]

    def _look_up(self, owner: Any, name: str) -> None:
        # The names of a class are another view at each call: its id says nothing.
        key = id(owner.__globals__ if type(owner) is FunctionType else owner)
        look = self._looks.get(key)
        if look is None:
            look = self._looks[key] = _Look(owner)
        value = _names_of(owner).get(name)
        if look.note(name, value):
            self._values.append(value)

    def _hold(self, owner: Any) -> None:
        """Note an owner of attributes, and follow the attributes that code has read."""
        names = _names_of(owner)
        self._holders.append(owner)
        look = self._looks[id(owner)] = _Look(owner)
        if not isinstance(owner, ModuleType):
            look.length = len(names)
        for name in list(names):
            if name in self._attributes or (
                isinstance(owner, type)
                and name.startswith("__")
                and type(names[name]) is FunctionType
            ):
                self._look_up(owner, name)

    def _read(self, function: FunctionType) -> None:
        """Follow the names that the code of a function reads."""
        space, code = function.__globals__, function.__code__
        self._values += [content_of(cell) for cell in function.__closure__ or ()]
        self._values += function.__defaults__ or ()
        if is_library(str(space.get("__name__", "")), code.co_filename):
            return
        facts = read_code(code)
        self.stores = self.stores or facts.stores
        self._lists = self._lists or facts.lists
        self._reads = self._reads or facts.reads
        self._of_spaces[id(space)] = ref(function)
        if Defaults(function).find_names():
            self._of_defaults[id(function)] = ref(function)
        if facts.asks:
            asked = self.asking.get(id(space), NOTHING)
            self.asking[id(space)] = asked | facts.asks
        for name in facts.names:
            self._look_up(function, name)
        new = facts.attributes - self._attributes
        self._attributes |= new
        for owner in tuple(self._holders) if new else ():
            for name in new.intersection(_names_of(owner)):
                self._look_up(owner, name)

    def _follow(self, value: Any) -> None:
        """Follow a value to the code behind the value."""
        kind = type(value)
        if kind in PASSED or id(value) in self._seen:
            return
        self._seen.add(id(value))
        self._held.append(value)
        if kind is FunctionType:
            if str(value.__module__).startswith("scipy."):
                self.uses_scipy = True
                return
            if (inner := value.__dict__.get("__wrapped__")) is not None:
                self._values.append(inner)
            self._read(value)
        elif kind is MethodType:
            self._values += (value.__func__, value.__self__)
        elif isinstance(value, ModuleType):
            name = value.__name__
            if name == "scipy" or name.startswith("scipy."):
                self.uses_scipy = True
            elif not is_library(name, getattr(value, "__file__", None) or "<made>"):
                self._hold(value)
        elif isinstance(value, type):
            for base in value.__mro__:
                if str(base.__module__).startswith("scipy."):
                    self.uses_scipy = True
                if not is_library_class(base) and base not in self._classes:
                    self._classes.add(base)
                    self._hold(base)
        elif kind is property:
            self._values += (value.fget, value.fset)
        elif kind in (staticmethod, classmethod):
            self._values.append(value.__func__)
        elif kind is functools.partial:
            self._values += (value.func, *value.args, *value.keywords.values())
        elif kind in (list, tuple, set, dict):
            if len(value) <= MANY_ITEMS:
                self._values += _items_of(value)
        elif str(kind.__module__).startswith("scipy."):
            self.uses_scipy = True
        else:
            self._follow_object(value, kind)

    def _follow_object(self, value: Any, kind: type) -> None:
        held = vars_of(value)
        if "__wrapped__" in held:  # a function of another library around one
            self._values.append(held["__wrapped__"])
        if "func" in held:  # a cached property
            self._values.append(held["func"])
        if not is_library_class(kind):
            self._values.append(kind)
            is_weak = type(value).__weakrefoffset__ != 0
            if held and is_weak and len(self._holders) < MANY_OBJECTS:
                self._hold(value)
        elif str(kind.__module__).startswith("workbench."):
            self._values += held.values()


#: What functions reach, by their ids, as long as they are there; that of functions that
#: are nothing but code and globals also by these, for the next one from the same line.
REACHED: dict[Any, tuple[Any, CodeType | None, Reach]] = {}


def find_reach(function: Any) -> Reach:
    """Return the reach of a function, kept in a cache while still valid."""
    key: Any = id(function)
    owner = function
    if type(function) is MethodType:  # which is another object each time
        owner, key = function.__self__, (id(function.__self__), id(function.__func__))
    code: Any = None
    owners = {key: owner}
    if type(function) is FunctionType:
        code = function.__code__
        has_own = function.__closure__ or function.__defaults__ or function.__dict__
        if not (has_own or function.__kwdefaults__):
            owners[id(code), id(function.__globals__)] = code
    for key, owner in owners.items():
        entry = REACHED.get(key)
        if entry is not None:
            found, known, reach = entry
            if found() is owner and code is known and reach.holds(function):
                return reach
    reach = Reach(function)
    for key, owner in owners.items():
        if owner is code and reach.swaps:
            continue  # it holds the modules by this function
        try:
            # No code of Python's: an interrupt in a callback would go unheard.
            held = ref(owner, functools.partial(REACHED.pop, key))
        except TypeError:
            continue
        REACHED[key] = held, code, reach
    return reach
