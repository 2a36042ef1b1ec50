"""Plain ``import numpy as np`` in functions that fill arrays.

``np.zeros`` of NumPy makes an array that no protocol sees. So, while a trace runs a
function, the modules whose code it reaches (`reach.py`) have other things under the
names that they give to NumPy and SciPy (`namespaces.py`). It is so in this thread, for
code of these modules, and until the function returns or raises: everybody else finds
NumPy's own. Nothing is swapped unless the code stores into arrays, calls SciPy, or
makes lists and calls what makes numbers of their entries (`np.mean`).
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import FunctionType, MethodType, ModuleType, TracebackType
from typing import Any, Self

from workbench.core import hooks
from workbench.errors import UsageError
from workbench.numpy import namespaces
from workbench.numpy.reach import (
    MANY_ITEMS,
    MISSING,
    PACKAGES,
    PASSED,
    REACHED,
    Defaults,
    Reach,
    Space,
    find_reach,
    is_library,
    is_library_class,
    read_code,
)

# Swapping

_LOCK = threading.RLock()


class Swapped:
    """The globals of a module with swapped names, and the holders of the swap."""

    __slots__ = ("holders", "key", "names", "space")

    def __init__(self, space: Any, key: int) -> None:
        self.space, self.key = space, key
        self.holders: set[object] = set()
        self.names: list[tuple[Any, Any, Any]] = []


def _find_names(space: Space, asked: frozenset[str]) -> list[tuple[str, Any, Any]]:
    """Return the names of a module to swap: name, old value, new value."""
    found: list[tuple[str, Any, Any]] = []
    kept: set[str] = set()
    for name, value in list(space.items()):
        kind = type(value)
        new = namespaces.BY_ID.get(id(value))
        if new is None:
            if kind in PASSED:
                continue
            new = namespaces.swap_scipy(value)
        if new is not value:
            found.append((name, value, new))
        elif kind is FunctionType or isinstance(value, type):
            continue
        else:  # what has been compiled reads the names themselves
            inner = namespaces.vars_of(value).get("py_func")
            if type(inner) is FunctionType and inner.__globals__ is space:
                kept.update(read_code(inner.__code__).names)
    found = [x for x in found if x[0] not in kept or x[2] is namespaces.NUMPY]
    for name in asked:
        if name not in space:
            found.append((name, MISSING, namespaces.ASKING[name]))
    return found


class Swap:
    """Binds the names of modules during a block, which may be entered again.

    Attributes
    ----------
    fills
        Whether the code stores into arrays.
    """

    __slots__ = (
        "_asking", "_functions", "_held", "_methods", "_names", "_spaces", "fills"
    )  # fmt: skip

    def __init__(
        self,
        spaces: Iterable[Space],
        fills: bool = True,
        asking: Mapping[int, frozenset[str]] | None = None,
        functions: Iterable[FunctionType] = (),
        names: dict[int, list[tuple[str, Any, Any]]] | None = None,
        methods: Iterable[namespaces.Methods] = (),
    ) -> None:
        #: The names of each module, once found, as long as what it is for is the same.
        self._names = {} if names is None else names
        self._functions = tuple(functions)
        self._methods = tuple(methods)
        self._spaces = tuple(spaces)
        self._asking = asking or {}
        self._held: list[tuple[Swapped, object]] = []
        self.fills = fills

    def run(self, call: Callable[..., Any], *args: Any) -> Any:
        """Run a function with the names swapped, and return its result.

        The names are restored even where an interrupt strikes as they are; a ``with``
        statement cannot promise that.
        """
        try:
            self.__enter__()
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
                for methods in self._methods:
                    self._bind(methods, id(methods))
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
        entry = namespaces.ACTIVE.get(key)
        if entry is None:
            if isinstance(space, (Defaults, namespaces.Methods)):
                names = space.find_names()
            else:
                known = self._names.get(key)
                if known is None or any(
                    space.get(name, MISSING) is not old for name, old, _ in known
                ):
                    known = _find_names(
                        space, self._asking.get(key, namespaces.NOTHING)
                    )
                    self._names[key] = known
                names = known
            entry = Swapped(space, key)
            entry.names = names
        holder = object()
        self._held.append((entry, holder))  # first: an interrupt may strike anywhere
        entry.holders.add(holder)
        if len(entry.holders) == 1:
            namespaces.ACTIVE[key] = entry
            for name, _, new in entry.names:
                space[name] = new
        elif key in self._asking:  # the code of a trace within may ask for more
            for name in self._asking[key]:
                if space.get(name, MISSING) is MISSING:
                    entry.names = [
                        *entry.names,
                        (name, MISSING, namespaces.ASKING[name]),
                    ]
                    space[name] = namespaces.ASKING[name]

    def restore(self) -> None:
        """Restore the old values, except where code has assigned a new one."""
        with _LOCK:
            held = self._held
            while held:
                entry, holder = held[-1]
                if entry.holders <= {holder}:
                    space = entry.space
                    for name, old, new in entry.names:
                        if space.get(name) is new:
                            if old is MISSING:
                                del space[name]
                            else:
                                space[name] = old
                    namespaces.ACTIVE.pop(entry.key, None)
                entry.holders.discard(holder)
                held.pop()  # last: an interrupt before repeats all of it


def find_swap(function: Any) -> Swap | None:
    """Return the swap for everything that a function reaches; None if not needed.

    In a tuple with it, the arguments of the call, whose methods it may call.
    """
    if PACKAGES:
        _bind_packages()
    entry = REACHED.get(id(function))
    if entry is not None and entry[0]() is function:  # as `find_reach`, at once
        _, code, reach = entry
        is_same = code is None or function.__code__ is code
        if is_same and (not reach.known or reach.holds(function)):
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
            _list_users(namespaces.content_of(cell), found, depth - 1)
    elif kind is MethodType and _is_ours(type(value.__self__)):
        _list_users(value.__self__, found, depth)
    elif _is_ours(kind):
        for x in list(namespaces.vars_of(value).values()):
            _list_users(x, found, depth - 1)
    elif callable(value) or not is_library_class(kind):
        found.append(value)


def _make_swap(reaches: Sequence[Reach], more: Iterable[Space]) -> Swap:
    names = reaches[0].names if len(reaches) == 1 and not more else None
    spaces = {id(space): space for space in more}
    asking: dict[int, frozenset[str]] = {}
    functions: dict[int, FunctionType] = {}
    stores = bool(spaces)
    for reach in reaches:
        stores = stores or reach.stores
        spaces |= {id(space): space for space in reach.spaces}
        functions |= {id(f): f for f in reach.functions}
        for key, asked in reach.asking.items():
            asking[key] = asking.get(key, namespaces.NOTHING) | asked
    uses_scipy = any(reach.uses_scipy for reach in reaches)
    methods = namespaces.list_methods() if uses_scipy else ()
    return Swap(spaces.values(), stores, asking, functions.values(), names, methods)


def swapped(*parts: Any) -> Swap:
    """Return a context in which NumPy's names are swapped for functions or globals.

    A dict is taken as the globals of code; of anything else, it is the code that it
    reaches.
    """
    spaces = [part for part in parts if type(part) is dict]
    return _make_swap([find_reach(x) for x in parts if type(x) is not dict], spaces)


# Named packages


class trace_packages:
    """Let code of installed packages fill arrays in a trace, as your own code does.

    The modules of these packages find, in place of NumPy and SciPy, what takes Tensors:
    ``np.zeros`` makes arrays in which traced values can be stored, and
    ``scipy.stats.norm`` takes them. Outside of traces nothing changes.

    Parameters
    ----------
    *names
        Names of packages that can be imported, such as ``"statsmodels"``.

    Returns
    -------
    A context manager, for use in a single block. Called by itself, it holds from then
    on.

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
                    f"trace_packages({name!r}): {name} needs no such call to take"
                    " Tensors. Name a package that is written with NumPy."
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
    is_library.cache_clear()
    REACHED.clear()
    _LOADED[0] = 0


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


hooks.swap_names.set(find_swap)
hooks.swap_function.set(namespaces.swap_scipy)
