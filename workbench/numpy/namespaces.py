"""What stands for NumPy and SciPy in the code of traced functions.

`NUMPY` makes arrays of NumPy which turn into Tensors when one is stored in them
(`core/plain.py`); a function of SciPy is `workbench.scipy`'s where it is given Tensors;
`type` and `isinstance` answer of a Tensor what they would of its array. `swap.py` puts
them under the names that a module gives to NumPy's own.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable
from types import FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from workbench.core import plain, traces, types
from workbench.core.op import FUNCTIONS, WRITERS
from workbench.core.sharing import is_number
from workbench.core.tensor import TENSORS, Tensor
from workbench.numpy import creation

_frame = sys._getframe


# What makes arrays

#: Functions of NumPy that make arrays of what is no Tensor.
MAKERS = """
arange array asanyarray asarray ascontiguousarray asfortranarray broadcast_to
concatenate copy diag diagflat empty empty_like eye frombuffer fromfunction fromiter
full full_like geomspace hstack identity linspace logspace meshgrid ones ones_like outer
repeat stack tile tri vander vstack where zeros zeros_like
""".split()
#: Those of them whose array may lie in the memory of an object that they are given.
LENDERS = {
    "array", "asanyarray", "asarray", "ascontiguousarray", "asfortranarray",
    "frombuffer",
}  # fmt: skip
#: What lends them no memory that is unknown.
OWN = (np.ndarray, np.generic, int, float, complex, list, tuple)
#: Those of them that NumPy does not let a Tensor answer for.
TAKERS = {"array", "asanyarray", "asarray", "ascontiguousarray", "full"}
#: Functions of arrays that make plain numbers of a list's entries.
READERS = """
angle average corrcoef cov fix gradient i0 mean median nanmean nanmedian nanpercentile
nanquantile nanstd nanvar percentile quantile std var
""".split()


def _owner_of(x: Any) -> Any:
    return traces.base_chain(x)[-1]


def _join(made: Any, given: Iterable[Any]) -> Any:
    """Return an array that has been made as one that Tensors can be stored in.

    One of the caller's, or of an object that lends its memory, stays as it is: others
    would see what is stored in it.
    """
    if type(made) is list or type(made) is tuple:
        return type(made)([_join(x, given) for x in made])
    if type(made) is not np.ndarray or not traces.LOCAL.stack:
        return made
    for x in given:
        if type(x) is plain.Turned:
            continue
        if type(x) in plain.PLAIN and np.may_share_memory(made, x):
            same = made.shape == x.shape and made.strides == x.strides
            return x if same and made.dtype == x.dtype else made.view(type(x))
        if isinstance(x, np.ndarray) and _owner_of(x) is _owner_of(made):
            return made
    return plain.join_program(made)


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
            if object in (kwargs.get("dtype"), *args[place + 1 : place + 2]):
                return function(*args, **kwargs)  # whose entries are the Tensors
            if plain.holds_tensor(value):
                return own(*args, **kwargs)
        made = function(*args, **kwargs)
        if name in LENDERS:
            value = args[0] if args else next(iter(kwargs.values()), None)
            is_copied = name == "array" and kwargs.get("copy", True)
            if not is_copied and not isinstance(value, OWN):
                return made
        return _join(made, (*args, *kwargs.values()))

    return maker


def _make_writer(function: Any) -> Any:
    @functools.wraps(function)
    def writer(a: Any, *args: Any, **kwargs: Any) -> Any:
        # NumPy asks a list for no protocol, and makes numbers of its entries.
        lists = [x for x in (*args, *kwargs.values()) if type(x) in (list, tuple)]
        if traces.LOCAL.stack and any(map(plain.holds_tensor, lists)):
            return FUNCTIONS[function](a, *args, **kwargs)
        return function(a, *args, **kwargs)

    return writer


def _make_reader(name: str) -> Any:
    function = getattr(np, name)

    def as_array(x: Any) -> Any:
        listed = type(x) in (list, tuple) and plain.holds_tensor(x)
        return creation.asarray(x) if listed else x

    @functools.wraps(function)
    def reader(*args: Any, **kwargs: Any) -> Any:
        if traces.LOCAL.stack:
            args = tuple(map(as_array, args))
            kwargs = {key: as_array(x) for key, x in kwargs.items()}
        return function(*args, **kwargs)

    return reader


class Joiner:
    """``np.c_`` or ``np.r_``, which joins Tensors too."""

    __slots__ = ("_theirs",)

    def __init__(self, theirs: Any) -> None:
        self._theirs = theirs

    def __getitem__(self, key: Any) -> Any:
        parts = [plain.handle_of(x) for x in (key if type(key) is tuple else (key,))]
        if isinstance(parts[0], str) or not any(isinstance(x, Tensor) for x in parts):
            return self._theirs[tuple(parts)]
        axis = self._theirs.axis
        joined = [
            self._add_axes(x) if isinstance(x, Tensor) else self._theirs[x]
            for x in parts
        ]
        return np.concatenate(joined, axis)

    def _add_axes(self, x: Any) -> Any:
        missing = self._theirs.ndmin - x.ndim
        return x if missing <= 0 else np.reshape(x, (*x.shape, *(1,) * missing))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._theirs, name)

    def __len__(self) -> int:
        return len(self._theirs)

    def __reduce__(self) -> Any:
        return _return, (self._theirs,)


# The namespace

#: How many traces have swapped the names of a module, by the id of its globals.
ACTIVE: dict[int, Any] = {}


class Namespace(ModuleType):
    """NumPy for the code of swapped modules; NumPy itself for all other code."""

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)  # NumPy loads these at their first use

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
    for name in READERS:
        theirs = getattr(np, name)
        ours = found[id(theirs)] = _make_reader(name)
        setattr(Namespace, name, _choose_by_caller(ours, theirs))
    for function in WRITERS:
        ours = found[id(function)] = _make_writer(function)
        setattr(Namespace, function.__name__, _choose_by_caller(ours, function))
    for name in ("c_", "r_"):
        theirs = getattr(np, name)
        ours = found[id(theirs)] = Joiner(theirs)
        setattr(Namespace, name, _choose_by_caller(ours, theirs))
    own = {k: v for k, v in vars(np).items() if not hasattr(Namespace, k)}
    vars(made).update(own)
    for name in ("__spec__", "__loader__", "__file__", "__path__", "__package__"):
        vars(made)[name] = getattr(np, name)
    return made, found


#: Replacements by the id of NumPy's own object.
NUMPY, BY_ID = _make_namespace()


# What an array is


class _Types(type):
    """Lets a replaced name of `type` act as `type`."""

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
    """Return the answer of ``type(x)`` in a program that NumPy runs."""
    kind = type(x)
    if kind in plain.PLAIN or kind is plain.Turned:
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
    """Return the answer of ``isinstance`` in a program that NumPy runs."""
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

    def __instancecheck__(self, x: object) -> bool:
        ours = self._ours if isinstance(self._ours, type) else ()
        return isinstance(x, self._theirs) or isinstance(x, ours)

    def __subclasscheck__(self, kind: type) -> bool:
        return issubclass(find_true(kind), self._theirs)

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[Any, ...]:
        return (self._theirs,)

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
        cells = [content_of(cell) for cell in value.__closure__ or ()]
        return _is_given([*cells, value.__defaults__], depth)
    # A rotation of ours or a constraint may hold some too, as may a function's object.
    if type(value).__module__.startswith(("workbench.scipy.", "scipy.")):
        return _is_given(vars_of(value), depth)
    return callable(value) and _is_given(vars_of(value), depth - 1)


def vars_of(x: Any) -> dict[str, Any]:
    """Return the attributes of an object; none of one that has no place for them."""
    if isinstance(x, (type, ModuleType)) or not type(x).__dictoffset__:
        return {}
    found = object.__getattribute__(x, "__dict__")  # not what it answers to others
    return found if isinstance(found, dict) else {}


def content_of(cell: Any) -> Any:
    """Return the content of a closure's cell, or None for an empty cell."""
    try:
        return cell.cell_contents
    except ValueError:  # it is not set yet
        return None


class SciPyModule(ModuleType):
    """A module of SciPy, with our functions where SciPy's do not take Tensors."""

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


#: Replacements of SciPy's objects, by the ids of these.
_SCIPY: dict[int, Any] = {}
_SEEN: set[str] = set()


def swap_scipy(value: Any) -> Any:
    """Return the replacement of a module, function or object of SciPy, or itself."""
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


# Objects that SciPy made, such as a spline through numbers, are called with Tensors.
# So, while a trace runs, these methods of their classes ask whether they are given one.

#: The classes of ours that can be made of an object of SciPy's, and the methods that
#: take Tensors then. Each has a class method ``adopt``.
ADOPTED: dict[str, dict[str, tuple[str, ...]]] = {
    "scipy.interpolate": {
        "PPoly": ("__call__", "integrate"),
        "BSpline": ("__call__", "integrate"),
        "interp1d": ("__call__",),
        "RegularGridInterpolator": ("__call__",),
        "RBFInterpolator": ("__call__",),
        "LinearNDInterpolator": ("__call__",),
        "NearestNDInterpolator": ("__call__",),
    },
    "scipy.spatial": {"KDTree": ("query",)},
    "scipy.spatial.transform": {
        "Rotation": ("apply", "__mul__", "__pow__", "mean"),
        "Slerp": ("__call__",),
    },
}


class Methods:
    """The methods of a class of SciPy's, as names of a module."""

    __slots__ = ("_kind", "_names")

    def __init__(self, kind: type, names: list[tuple[str, Any, Any]]) -> None:
        self._kind, self._names = kind, names

    def find_names(self) -> list[tuple[Any, Any, Any]]:
        """Return what to swap: name, old value, new value."""
        return self._names

    def get(self, name: str) -> Any:
        """Return a method as the class itself has it."""
        return vars(self._kind).get(name)

    def __setitem__(self, name: str, value: Any) -> None:
        setattr(self._kind, name, value)


def _make_method(theirs: Any, ours: Any) -> Any:
    """Return a method that makes an object of SciPy's ours if it is given Tensors."""

    @functools.wraps(theirs)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        if traces.LOCAL.stack and (_is_given(args) or _is_given(kwargs)):
            return getattr(ours.adopt(self), theirs.__name__)(*args, **kwargs)
        return theirs(self, *args, **kwargs)

    return method


_METHODS: dict[str, list[Methods]] = {}


def list_methods() -> list[Methods]:
    """Return the methods to swap of the modules of SciPy that are loaded."""
    found: list[Methods] = []
    for home, kinds in ADOPTED.items():
        if home in sys.modules:
            if home not in _METHODS:
                _METHODS[home] = _find_methods(home, kinds)
            found += _METHODS[home]
    return found


def _find_methods(home: str, kinds: dict[str, tuple[str, ...]]) -> list[Methods]:
    by_class: dict[type, list[tuple[str, Any, Any]]] = {}
    for name, methods in kinds.items():
        ours = getattr(_import(f"workbench.{home}"), name)
        theirs = getattr(sys.modules[home], name)
        for method in methods:
            owner = next(kind for kind in theirs.__mro__ if method in vars(kind))
            old = vars(owner)[method]
            by_class.setdefault(owner, []).append(
                (method, old, _make_method(old, ours))
            )
    return [Methods(kind, names) for kind, names in by_class.items()]


def _import(name: str) -> Any:
    from importlib import import_module

    try:
        return import_module(name)
    except ImportError:
        return None


def swap_value(value: Any) -> Any:
    """Return the replacement of an object of NumPy's or SciPy's, or itself."""
    found = BY_ID.get(id(value))
    return swap_scipy(value) if found is None else found


#: The function that finds the original of a replacement, by its class.
STANDING: dict[type, Callable[[Any], Any]] = {
    Namespace: lambda x: np,
    SciPyModule: lambda x: vars(x)["_theirs"],
    Choice: lambda x: x._theirs,
    Joiner: lambda x: x._theirs,
    _Types: lambda x: type,
    FunctionType: lambda x: _FUNCTIONS.get(id(x), x),
}
_FUNCTIONS: dict[int, Any] = {
    id(x): vars(x)["__wrapped__"] for x in BY_ID.values() if type(x) is FunctionType
}
_FUNCTIONS[id(is_instance)] = isinstance


def find_true(value: Any) -> Any:
    """Return the original of a replacement, or the value itself."""
    find = STANDING.get(type(value))
    return value if find is None else find(value)
