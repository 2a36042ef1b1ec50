"""Plain ``import numpy as np`` in functions that fill arrays.

``np.zeros`` of NumPy makes an array that no protocol sees. So, while a trace runs a
function, the modules whose code it reaches have other things under the names that they
give to NumPy: `NUMPY` for ``np``, and makers of its own for ``from numpy import
zeros``. What these make is an array of NumPy which turns into a Tensor when one is
stored in it (`core/plain.py`). It is so in this thread, for code of these modules, and
until the function returns or raises: everybody else finds NumPy's own.

The names of SciPy are swapped too: where `workbench.scipy` has a function, it answers
a call that is given Tensors.

Which modules a function reaches is read off its bytecode: what it calls by a global
name, an attribute of a module, a closure, a decorator or an object. Code of installed
packages is not looked at, except of those named by `trace_packages`. Nothing is swapped
unless the code stores into arrays, or calls SciPy.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from dis import get_instructions
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    MethodType,
    ModuleType,
    TracebackType,
)
from typing import Any, NamedTuple, Self
from weakref import ref

import numpy as np

from workbench.core import hooks, source, traces, types
from workbench.core.inplace import is_number
from workbench.core.plain import PLAIN, Turned, holds_tensor, join_program
from workbench.core.tensor import TENSORS, Tensor
from workbench.errors import UsageError
from workbench.numpy import creation

Space = dict[str, Any]
_frame = sys._getframe


# What makes arrays

#: Functions of NumPy that make arrays of what is no Tensor.
MAKERS = """
arange array asanyarray asarray ascontiguousarray asfortranarray broadcast_to
concatenate copy diag diagflat empty empty_like eye frombuffer fromfunction fromiter
full full_like geomspace hstack identity linspace logspace meshgrid ones ones_like outer
repeat stack tile tri vander vstack where zeros zeros_like
""".split()
#: Those of them that NumPy does not let a Tensor answer for.
TAKERS = {"array", "asanyarray", "asarray", "ascontiguousarray", "full"}


def _owner_of(x: Any) -> Any:
    return traces.base_chain(x)[-1]


def _join(made: Any, given: Iterable[Any]) -> Any:
    """Return an array that has been made as one that Tensors can be stored in.

    One of the caller's stays as it is: others would see what is stored in it.
    """
    if type(made) is list or type(made) is tuple:
        return type(made)([_join(x, given) for x in made])
    if type(made) is not np.ndarray or not traces.LOCAL.stack:
        return made
    for x in given:
        if type(x) in PLAIN and np.may_share_memory(made, x):
            same = made.shape == x.shape and made.strides == x.strides
            return x if same and made.dtype == x.dtype else made.view(type(x))
        if isinstance(x, np.ndarray) and _owner_of(x) is _owner_of(made):
            return made
    return join_program(made)


def _make_maker(name: str) -> Any:
    function = getattr(np, name)
    own = getattr(creation, name) if name in TAKERS else None
    place, key = (1, "fill_value") if name == "full" else (0, "")

    @functools.wraps(function)
    def maker(*args: Any, **kwargs: Any) -> Any:
        if not traces.LOCAL.stack or kwargs.get("like") is not None:
            return function(*args, **kwargs)
        # An object's own `__array__` must give an array of NumPy's, perhaps of Tensors.
        if own is not None and _frame(1).f_code.co_name != "__array__":
            value = args[place] if len(args) > place else kwargs.get(key)
            if holds_tensor(value):
                return own(*args, **kwargs)
        return _join(function(*args, **kwargs), args)

    return maker


# The namespace

#: How many traces have swapped the names of a module, by the id of its globals.
ACTIVE: dict[int, Swapped] = {}


class Namespace(ModuleType):
    """NumPy as the code of swapped modules has it; for all other code NumPy's own."""

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)  # what NumPy loads when it is asked for

    def __dir__(self) -> list[str]:
        return dir(np)

    def __reduce__(self) -> Any:
        return functools.partial(_import_numpy), ()


def _import_numpy() -> ModuleType:
    return np


def _choose_by_caller(ours: Any, theirs: Any) -> property:
    """Return an attribute that only the code of swapped modules finds to be ours.

    Compilers of functions, debuggers, and libraries that were handed ``np`` find
    NumPy's.
    """

    def read(self: Any) -> Any:
        return ours if id(_frame(1).f_globals) in ACTIVE else theirs

    return property(read)


def _make_namespace() -> tuple[Namespace, dict[int, Any]]:
    made = Namespace("numpy", np.__doc__)
    found: dict[int, Any] = {id(np): made}
    for name in MAKERS:
        theirs = getattr(np, name)
        ours = found[id(theirs)] = _make_maker(name)
        setattr(Namespace, name, _choose_by_caller(ours, theirs))
    own = {k: v for k, v in vars(np).items() if not hasattr(Namespace, k)}
    vars(made).update(own)
    for name in ("__spec__", "__loader__", "__file__", "__path__", "__package__"):
        vars(made)[name] = getattr(np, name)
    return made, found


#: What stands for NumPy, and what is swapped by the id of NumPy's own.
NUMPY, BY_ID = _make_namespace()


# What an array is


class _Types(type):
    """Lets a name for `type` be what `type` is."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and not kwargs:
            return type_of(args[0])
        return type(*args, **kwargs)

    def __instancecheck__(cls, x: object) -> bool:
        return isinstance(x, type)

    def __subclasscheck__(cls, kind: type) -> bool:
        return issubclass(kind, type)

    def __getattr__(cls, name: str) -> Any:
        return getattr(type, name)

    def __eq__(cls, other: object) -> bool:
        return other is cls or other is type

    def __hash__(cls) -> int:
        return hash(type)


class Type(metaclass=_Types):
    """`type` in modules that compare the type of an array with ``np.ndarray``."""


def type_of(x: Any) -> Any:
    """Return what ``type(x)`` is where NumPy runs the program."""
    kind = type(x)
    if kind in PLAIN or kind is Turned:
        return np.ndarray
    if kind not in TENSORS:
        return kind
    node = traces.node_of(x)
    if not is_number(node):
        return np.ndarray
    value = node._value
    if value is not None and (types.is_weak(value) or isinstance(value, np.generic)):
        return type(value)
    return node.dtype.type


def is_instance(x: Any, kinds: Any) -> bool:
    """Return what ``isinstance`` does where NumPy runs the program."""
    if isinstance(x, kinds):
        return True
    return type(x) in TENSORS and issubclass(type_of(x), kinds)


#: What code asks of arrays with, and what answers in its place.
ASKING: dict[str, Any] = {"type": Type, "isinstance": is_instance}
NOTHING: frozenset[str] = frozenset()


# SciPy


class Choice:
    """A function or an object of SciPy's; ours answers a call that is given Tensors."""

    __slots__ = ("_ours", "_theirs")

    def __init__(self, theirs: Any, ours: Any) -> None:
        self._theirs, self._ours = theirs, ours

    __class__ = property(lambda self: type(self._theirs))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the one of the two that takes these arguments."""
        is_ours = traces.LOCAL.stack and (_is_given(args) or _is_given(kwargs))
        return (self._ours if is_ours else self._theirs)(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        theirs = getattr(self._theirs, name)
        ours = getattr(self._ours, name, None)
        if callable(theirs) and callable(ours) and not name.startswith("__"):
            return Choice(theirs, ours)
        return theirs

    def __repr__(self) -> str:
        return repr(self._theirs)

    def __reduce__(self) -> Any:
        return _return, (self._theirs,)


def _return(x: Any) -> Any:
    return x


def _is_given(value: Any, depth: int = 4) -> bool:
    """Return whether an argument is a Tensor, holds one or is a function of one."""
    if isinstance(value, Tensor):
        return True
    if not depth or value is None:
        return False
    if isinstance(value, dict):
        return any(_is_given(x, depth - 1) for x in value.values())
    if isinstance(value, (list, tuple)):
        return any(_is_given(x, depth - 1) for x in value)
    if isinstance(value, np.ndarray):
        return value.dtype.hasobject and any(isinstance(x, Tensor) for x in value.flat)
    if isinstance(value, functools.partial):
        parts = (value.func, value.args, value.keywords)
        return _is_given(parts, depth)
    if isinstance(value, MethodType):
        return _is_given(vars_of(value.__self__), depth - 1)
    if isinstance(value, FunctionType):
        cells = [_content(cell) for cell in value.__closure__ or ()]
        return _is_given([*cells, value.__defaults__], depth)
    return callable(value) and _is_given(vars_of(value), depth - 1)


def vars_of(x: Any) -> dict[str, Any]:
    """Return the attributes of an object; none of one that has no place for them."""
    if isinstance(x, (type, ModuleType)) or not type(x).__dictoffset__:
        return {}
    found = object.__getattribute__(x, "__dict__")  # not what it answers to others
    return found if isinstance(found, dict) else {}


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # it is not set yet
        return None


class SciPyModule(ModuleType):
    """A module of SciPy, with ours in the place of what does not take Tensors."""

    def __init__(self, theirs: ModuleType) -> None:
        super().__init__(theirs.__name__, theirs.__doc__)
        vars(self).update(
            {
                k: v
                for k, v in vars(theirs).items()
                if k.startswith("__") and k not in ("__getattr__", "__dir__")
            }
        )
        vars(self)["_theirs"] = theirs

    def __getattr__(self, name: str) -> Any:
        found = swap_scipy(getattr(self._theirs, name))
        vars(self)[name] = found
        return found

    def __dir__(self) -> list[str]:
        return dir(self._theirs)

    def __reduce__(self) -> Any:
        return sys.modules.__getitem__, (self.__name__,)


#: What stands for things of SciPy's, by the ids of these.
_SCIPY: dict[int, Any] = {}
_SEEN: set[str] = set()


def swap_scipy(value: Any) -> Any:
    """Return what stands for a module, function or object of SciPy; or itself."""
    if isinstance(value, ModuleType):
        name = value.__name__
        if type(value) is SciPyModule:
            return value
        if name == "scipy" or name.startswith("scipy."):
            found = _SCIPY.get(id(value))
            if found is None:
                found = _SCIPY[id(value)] = SciPyModule(value)
            return found
        return value
    home = getattr(value, "__module__", None)
    if not isinstance(home, str) or not home.startswith("scipy."):
        return value
    parts = home.split(".")
    for name in (".".join(parts[:2]), ".".join(parts[:3])):
        if name not in _SEEN:
            _SEEN.add(name)
            _learn_names(name)
    return _SCIPY.get(id(value), value)


def _learn_names(name: str) -> None:
    """Note which names of a module of SciPy's ours has too."""
    ours, theirs = _import(f"workbench.{name}"), sys.modules.get(name)
    if ours is None or theirs is None:
        return
    for key in ours.__all__:
        mine, other = getattr(ours, key), getattr(theirs, key, None)
        if mine is not other and callable(other) and not isinstance(other, np.ufunc):
            _SCIPY[id(other)] = Choice(other, mine)


def _import(name: str) -> Any:
    from importlib import import_module

    try:
        return import_module(name)
    except ImportError:
        return None


def swap_value(value: Any) -> Any:
    """Return what stands for something of NumPy's or SciPy's; or itself."""
    found = BY_ID.get(id(value))
    return swap_scipy(value) if found is None else found


#: What stands for NumPy's and SciPy's own, by its class: so it is found in a walk.
STANDING: dict[type, Callable[[Any], Any]] = {
    Namespace: lambda x: np,
    SciPyModule: lambda x: vars(x)["_theirs"],
    Choice: lambda x: x._theirs,
    _Types: lambda x: type,
    FunctionType: lambda x: _FUNCTIONS.get(id(x), x),
}
_FUNCTIONS: dict[int, Any] = {
    id(x): x.__wrapped__ for x in BY_ID.values() if x is not NUMPY
}
_FUNCTIONS[id(is_instance)] = isinstance


def find_true(value: Any) -> Any:
    """Return what something stands for; anything else as it is."""
    find = STANDING.get(type(value))
    return value if find is None else find(value)


# What code does


class Facts(NamedTuple):
    """What the bytecode of a function says.

    Attributes
    ----------
    code
        The code itself, so that its id stays its own.
    stores
        Whether it may store into arrays.
    names
        The global names that it reads.
    attributes
        The attributes that it reads.
    asks
        What it may ask of an array with: ``type``, ``isinstance``.
    """

    code: CodeType
    stores: bool
    names: tuple[str, ...]
    attributes: frozenset[str]
    asks: frozenset[str]


#: Attributes, and functions, by which an array is written to, or Tensors are taken.
WRITING = {
    "__setitem__", "asarray", "ascontiguousarray", "at", "copyto", "fill",
    "fill_diagonal", "flat", "ndarray", "partition", "place", "put", "put_along_axis",
    "putmask", "sort",
}  # fmt: skip
_FACTS: dict[int, Facts] = {}


def read_code(code: CodeType) -> Facts:
    """Return what the bytecode of a function, and of those in it, says."""
    found = _FACTS.get(id(code))
    if found is not None:
        return found
    names: dict[str, None] = {}
    attributes: set[str] = set()
    stores = False
    for step in get_instructions(code):
        name = step.opname
        if name in ("LOAD_GLOBAL", "LOAD_NAME"):
            names[step.argval] = None
        elif name in ("LOAD_ATTR", "LOAD_METHOD"):
            attributes.add(step.argval)
        elif name in ("STORE_SUBSCR", "STORE_SLICE"):
            stores = True
        elif name == "BINARY_OP":
            stores = stores or step.argrepr.endswith("=")
    stores = stores or not WRITING.isdisjoint(attributes.union(names))
    asks = {"isinstance"} & set(names)
    if "type" in names and ("ndarray" in names or "ndarray" in attributes):
        asks.add("type")
    for const in code.co_consts:
        if isinstance(const, CodeType):
            inner = read_code(const)
            stores = stores or inner.stores
            asks |= inner.asks
            names.update(dict.fromkeys(inner.names))
            attributes |= inner.attributes
        elif type(const) is tuple and "out" in const:  # the names of arguments
            stores = True
    if len(_FACTS) > 8192:
        _FACTS.clear()
    made = Facts(code, stores, tuple(names), frozenset(attributes), frozenset(asks))
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
def _is_library(home: str, filename: str) -> bool:
    """Return whether code is Workbench's own, or that of an installed package."""
    package = home.partition(".")[0]
    if package in PACKAGES:
        return False
    if package in LIBRARIES or home in LIBRARIES:
        return True
    return source.is_installed(filename)


def _is_library_class(kind: type) -> bool:
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
    return _is_library(str(home), getattr(module, "__file__", None) or "")


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


class _Look:
    """The names that were looked up in one place, and what they were.

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
        """Note what a name is; return whether it may lead to code."""
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

    def freeze(self) -> tuple[Any, ...]:
        """Return it in the form that is compared quickly."""
        names, passed = self.names, self.passed
        return (
            self.owner, self.length, tuple(names), list(names.values()),
            tuple(passed), list(passed.values()), self.inside,
        )  # fmt: skip


#: How many objects, and items of a list or dict, are looked at for code.
MANY_OBJECTS = 10_000
MANY_ITEMS = 256


def _items_of(value: Any) -> list[Any]:
    return list(value.values() if type(value) is dict else value)


class Reach:
    """The code that a function reaches: a walk over what it reads.

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
        self.stores = self.uses_scipy = False
        self.asking: dict[int, frozenset[str]] = {}
        #: What was looked at, by the id of what holds it.
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
        self.known = [look.freeze() for look in self._looks.values()]
        self.swaps = self.stores or self.uses_scipy
        self._held.clear()
        self._holders.clear()
        self._looks.clear()
        self._classes.clear()

    def holds(self) -> bool:
        """Return whether all names are still what they were."""
        for owner, length, names, ids, passed, kinds, inside in self.known:
            if (found := owner()) is None:
                return False
            holder = _names_of(found)
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
        names = _names_of(owner)
        look = self._looks.get(id(names))
        if look is None:
            look = self._looks[id(names)] = _Look(owner)
        value = names.get(name)
        if look.note(name, value):
            self._values.append(value)

    def _hold(self, owner: Any) -> None:
        """Note what has attributes, and follow those that code has read so far."""
        names = _names_of(owner)
        self._holders.append(owner)
        look = self._looks[id(names)] = _Look(owner)
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
        """Follow what the code of a function reads."""
        space, code = function.__globals__, function.__code__
        self._values += [_content(cell) for cell in function.__closure__ or ()]
        self._values += function.__defaults__ or ()
        if _is_library(str(space.get("__name__", "")), code.co_filename):
            return
        facts = read_code(code)
        self.stores = self.stores or facts.stores
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
        """Follow a value to the code that it leads to."""
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
            elif not _is_library(name, getattr(value, "__file__", None) or "<made>"):
                self._hold(value)
        elif isinstance(value, type):
            for base in value.__mro__:
                if not _is_library_class(base) and base not in self._classes:
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
        if not _is_library_class(kind):
            self._values.append(kind)
            is_weak = type(value).__weakrefoffset__ != 0
            if held and is_weak and len(self._holders) < MANY_OBJECTS:
                self._hold(value)
        elif str(kind.__module__).startswith("workbench."):
            self._values += held.values()


#: What functions reach, by their ids, as long as they are there.
_REACHED: dict[Any, tuple[Any, CodeType | None, Reach]] = {}


def find_reach(function: Any) -> Reach:
    """Return what a function reaches; the answer is kept while it holds."""
    key: Any = id(function)
    owner = function
    if type(function) is MethodType:  # which is another object each time
        owner, key = function.__self__, (id(function.__self__), id(function.__func__))
    entry = _REACHED.get(key)
    code: Any = function.__code__ if type(function) is FunctionType else None
    if entry is not None:
        found, known, reach = entry
        if found() is owner and code is known and reach.holds():
            return reach
    reach = Reach(function)
    try:
        held = ref(owner, lambda _: _REACHED.pop(key, None))
    except TypeError:
        return reach
    _REACHED[key] = held, code, reach
    return reach


# Swapping

_LOCK = threading.RLock()
#: The names of a module that are swapped, by the id of its globals and their number.
_NAMES: dict[int, tuple[int, frozenset[str], list[tuple[str, Any, Any]]]] = {}


class Defaults:
    """The default arguments of a function, by place or name, as names of a module."""

    __slots__ = ("_function",)

    def __init__(self, function: FunctionType) -> None:
        self._function = function

    def find_names(self) -> list[tuple[Any, Any, Any]]:
        """Return those to swap: what they are, and what they shall be."""
        positional = self._function.__defaults__
        named = self._function.__kwdefaults__
        if positional is None and named is None:
            return []
        found = [*enumerate(positional or ()), *(named or {}).items()]
        changed = [
            (key, value, BY_ID.get(id(value)) or swap_scipy(value))
            for key, value in found
            if type(value) not in PASSED or id(value) in BY_ID
        ]
        return [entry for entry in changed if entry[2] is not entry[1]]

    def get(self, key: Any) -> Any:
        """Return a default."""
        if isinstance(key, str):
            return (self._function.__kwdefaults__ or {}).get(key)
        values = self._function.__defaults__ or ()
        return values[key] if key < len(values) else None

    def __setitem__(self, key: Any, value: Any) -> None:
        if isinstance(key, str):
            named: Any = self._function.__kwdefaults__
            named[key] = value
        else:
            values = list(self._function.__defaults__ or ())
            values[key] = value
            self._function.__defaults__ = tuple(values)


class Swapped:
    """The globals of a module whose names are swapped, and by how many traces."""

    __slots__ = ("count", "key", "names", "space")

    def __init__(self, space: Any, key: int) -> None:
        self.space, self.key, self.count = space, key, 0
        self.names: list[tuple[Any, Any, Any]] = []


def _find_names(space: Space, asked: frozenset[str]) -> list[tuple[str, Any, Any]]:
    """Return the names of a module to swap: what they are, and what they shall be."""
    known = _NAMES.get(id(space))
    if known is not None and known[0] == len(space) and known[1] >= asked:
        if all(space.get(name, MISSING) is old for name, old, _ in known[2]):
            return known[2]
    found: list[tuple[str, Any, Any]] = []
    kept: set[str] = set()
    for name, value in list(space.items()):
        kind = type(value)
        new = BY_ID.get(id(value))
        if new is None:
            if kind in PASSED:
                continue
            new = swap_scipy(value)
        if new is not value:
            found.append((name, value, new))
        elif kind is FunctionType or isinstance(value, type):
            continue
        else:  # what has been compiled reads the names themselves
            inner = vars_of(value).get("py_func")
            if type(inner) is FunctionType and inner.__globals__ is space:
                kept.update(read_code(inner.__code__).names)
    found = [x for x in found if x[0] not in kept or x[2] is NUMPY]
    for name in asked:
        if name not in space:
            found.append((name, MISSING, ASKING[name]))
    if len(_NAMES) > 1024:
        _NAMES.clear()
    _NAMES[id(space)] = len(space), asked, found
    return found


class Swap:
    """Binds the names of modules while its block runs; it may be entered again.

    Attributes
    ----------
    fills
        Whether the code stores into arrays.
    """

    __slots__ = ("_asking", "_functions", "_held", "_spaces", "fills")

    def __init__(
        self,
        spaces: Iterable[Space],
        fills: bool = True,
        asking: Mapping[int, frozenset[str]] | None = None,
        functions: Iterable[FunctionType] = (),
    ) -> None:
        self._functions = tuple(functions)
        self._spaces = tuple(spaces)
        self._asking = asking or {}
        self._held: list[Swapped] = []
        self.fills = fills

    def run(self, call: Callable[..., Any], *args: Any) -> Any:
        """Return what a function returns that runs with the names swapped.

        The names are restored even where an interrupt strikes as they are; a ``with``
        statement cannot promise that.
        """
        self.__enter__()
        try:
            return call(*args)
        finally:
            try:
                self.restore()
            except BaseException:
                self.restore()
                raise

    def __enter__(self) -> Self:
        try:
            with _LOCK:
                for space in self._spaces:
                    self._bind(space, id(space))
                for function in self._functions:
                    self._bind(Defaults(function), id(function))
        except BaseException:
            self.restore()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.restore()

    def _bind(self, space: Any, key: int) -> None:
        entry = ACTIVE.get(key)
        if entry is None:
            if isinstance(space, Defaults):
                names = space.find_names()
            else:
                names = _find_names(space, self._asking.get(key, NOTHING))
            entry = Swapped(space, key)
            entry.names = names  # noted first: an interrupt may strike anywhere
            ACTIVE[key] = entry
        entry.count += 1
        self._held.append(entry)
        if entry.count == 1:
            for name, _, new in entry.names:
                space[name] = new

    def restore(self) -> None:
        """Bind what was there before; what the code has bound anew stays."""
        with _LOCK:
            held = self._held
            while held:
                entry = held[-1]
                if entry.count <= 1:
                    space = entry.space
                    for name, old, new in entry.names:
                        if space.get(name) is new:
                            if old is MISSING:
                                del space[name]
                            else:
                                space[name] = old
                    ACTIVE.pop(entry.key, None)
                    entry.count = 1
                entry.count -= 1  # before the call: an interrupt may strike after it
                held.pop()


def find_swap(function: Any) -> Swap | None:
    """Return the swap for what a function reaches; None where none is needed.

    In a tuple with it, the arguments of the call, whose methods it may call.
    """
    if PACKAGES:
        _bind_packages()
    entry = _REACHED.get(id(function))
    if entry is not None and entry[0]() is function:  # as `find_reach`, at once
        _, code, reach = entry
        is_same = code is None or function.__code__ is code
        if is_same and (not reach.known or reach.holds()):
            return _make_swap([reach], []) if reach.swaps else None
    if type(function) is not FunctionType or _is_ours(function):
        users: list[Any] = []
        _list_users(function, users, 4)
        if not users:
            return None
        function = users[0] if len(users) == 1 else tuple(users)
    reach = find_reach(function)
    return _make_swap([reach], []) if reach.swaps else None


def _is_ours(value: Any) -> bool:
    home = value.__module__
    return isinstance(home, str) and home.startswith("workbench.")


def _list_users(value: Any, found: list[Any], depth: int) -> None:
    """List the user's own functions and objects that a function of ours runs."""
    kind = type(value)
    if kind in PASSED or not depth:
        return
    if kind is tuple or kind is list:
        for x in value[:MANY_ITEMS]:
            _list_users(x, found, depth - 1)
    elif kind is FunctionType and _is_ours(value):
        for cell in value.__closure__ or ():
            _list_users(_content(cell), found, depth - 1)
    elif kind is MethodType and _is_ours(type(value.__self__)):
        _list_users(value.__self__, found, depth)
    elif _is_ours(kind):
        for x in list(vars_of(value).values()):
            _list_users(x, found, depth - 1)
    elif callable(value) or not _is_library_class(kind):
        found.append(value)


def _make_swap(reaches: Iterable[Reach], more: Iterable[Space]) -> Swap:
    spaces = {id(space): space for space in more}
    asking: dict[int, frozenset[str]] = {}
    functions: dict[int, FunctionType] = {}
    stores = bool(spaces)
    for reach in reaches:
        stores = stores or reach.stores
        spaces |= {id(space): space for space in reach.spaces}
        functions |= {id(f): f for f in reach.functions}
        for key, asked in reach.asking.items():
            asking[key] = asking.get(key, NOTHING) | asked
    return Swap(spaces.values(), stores, asking, functions.values())


def swapped(*parts: Any) -> Swap:
    """Return a context in which NumPy's names are swapped for functions or globals.

    A dict is taken as the globals of code; of anything else, it is the code that it
    reaches.
    """
    spaces = [part for part in parts if type(part) is dict]
    return _make_swap([find_reach(x) for x in parts if type(x) is not dict], spaces)


# Named packages


class trace_packages:
    """Let code of installed packages fill arrays while it is traced, as your own does.

    The modules of these packages find, in place of NumPy and SciPy, what takes Tensors:
    ``np.zeros`` makes arrays in which traced values can be stored, and
    ``scipy.stats.norm`` takes them. Outside of traces nothing changes.

    Parameters
    ----------
    *names
        Names of packages that can be imported, such as ``"statsmodels"``.

    Returns
    -------
    A context manager, for who wants it in one block alone. Called by itself, it holds
    from then on.

    Raises
    ------
    UsageError
        If a package is not installed, or is one that NumPy is made of.

    Examples
    --------
    >>> import workbench as wb
    >>> with wb.trace_packages("statistics"):
    ...     pass
    """

    def __init__(self, *names: str) -> None:
        from importlib.util import find_spec

        if not names:
            raise UsageError(
                "trace_packages() was given no package. Write its name, as in"
                ' wb.trace_packages("statsmodels").'
            )
        for name in names:
            if not isinstance(name, str) or "." in name or not name:
                raise UsageError(
                    f"trace_packages({name!r}): give the name of a whole package, as in"
                    ' wb.trace_packages("statsmodels").'
                )
            if name in ("numpy", "scipy", "workbench", "builtins"):
                raise UsageError(
                    f"trace_packages({name!r}): what {name} does to Tensors is known"
                    " without it. Name a package that is written with NumPy."
                )
            if name not in sys.modules and find_spec(name) is None:
                raise UsageError(
                    f"trace_packages({name!r}): there is no package of this name here."
                    f" Install it (pip install {name}), or write the name that you"
                    " import it by."
                )
        self.names = names
        with _LOCK:
            for name in names:
                PACKAGES[name] = PACKAGES.get(name, 0) + 1
        _forget_answers()
        _LOADED[0] = 0
        _bind_packages()
        self._open = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if not self._open:
            return
        self._open = False
        with _LOCK:
            for name in self.names:
                PACKAGES[name] -= 1
                if not PACKAGES[name]:
                    del PACKAGES[name]
        _forget_answers()
        _bind_packages()

    def __repr__(self) -> str:
        return f"trace_packages({', '.join(map(repr, self.names))})"


def _forget_answers() -> None:
    _is_library.cache_clear()
    _REACHED.clear()


def _swap_module(space: Space) -> Swap:
    """Return the swap for all the code of a module."""
    asked: frozenset[str] = frozenset()
    functions: list[FunctionType] = []
    for value in list(space.values()):
        parts = [value]
        if isinstance(value, type) and value.__module__ == space.get("__name__"):
            parts = [getattr(x, "__func__", x) for x in vars(value).values()]
        for part in parts:
            if type(part) is FunctionType and part.__globals__ is space:
                asked |= read_code(part.__code__).asks
                if Defaults(part).find_names():
                    functions.append(part)
    return Swap([space], True, {id(space): asked}, functions)


#: The modules of named packages that are swapped, and how many modules were loaded.
_BOUND: dict[str, Swap] = {}
_LOADED = [0]


def _bind_packages() -> None:
    """Swap the names of all modules of the named packages, as long as these are named.

    What stands for NumPy there is NumPy wherever no trace is open.
    """
    if len(sys.modules) == _LOADED[0] and PACKAGES and _BOUND:
        return
    with _LOCK:
        for home in [h for h in _BOUND if h.partition(".")[0] not in PACKAGES]:
            _BOUND.pop(home).restore()
        for home, module in list(sys.modules.items()):
            if home.partition(".")[0] in PACKAGES and home not in _BOUND:
                if isinstance(module, ModuleType):
                    swap = _BOUND[home] = _swap_module(vars(module))
                    swap.__enter__()
        _LOADED[0] = len(sys.modules)


def join_given(x: Any) -> Any:
    """Return an array that a function was given, so that it may store Tensors in it.

    Its caller's array never shows them.
    """
    if type(x) is not np.ndarray or x.dtype.kind not in "fc":
        return x
    return join_program(x, is_given=True)


hooks.swap_names.set(find_swap)
hooks.swap_function.set(swap_scipy)
hooks.join_given.set(join_given)
