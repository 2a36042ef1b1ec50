"""Plain ``numpy`` in a traced function that fills arrays.

``np.zeros`` of NumPy makes an array that no protocol sees. While a trace runs a
function whose code, or whose helpers', stores into arrays, the global names of these
modules that are bound to NumPy, or to one of its makers, are bound to `NUMPY`, whose
makers of float arrays make Tensors while a trace is open in this thread, and which is
NumPy elsewhere.
"""

from __future__ import annotations

import dis
import functools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from workbench.core import hooks, traces
from workbench.core.tensor import Tensor
from workbench.numpy import creation
from workbench.numpy.dtypes import join_trace

FRESH = """
zeros ones empty eye identity arange linspace logspace geomspace tri copy zeros_like
ones_like empty_like full full_like array asarray asanyarray ascontiguousarray
asfortranarray fromiter fromfunction diag diagflat tile repeat concatenate stack vstack
hstack outer meshgrid broadcast_to where
""".split()
#: Those that take Tensors in lists.
GATHERING = {
    "array": creation.array,
    "asarray": creation.asarray,
    "asanyarray": creation.asanyarray,
    "ascontiguousarray": creation.ascontiguousarray,
}
#: Whose results share memory with what they are given, if that is an array.
SHARING = set(
    "asarray asanyarray ascontiguousarray asfortranarray broadcast_to".split()
)


def _join(made: Any, fresh: bool = True) -> Any:
    """Return a float array as part of the trace; integers and flags as they are."""
    if type(made) is list or type(made) is tuple:
        return type(made)(_join(x, fresh) for x in made)
    if type(made) is not np.ndarray or not traces.LOCAL.stack:
        return made
    if made.dtype.kind not in "fc":
        if made.dtype.kind not in "biu" or traces.LOCAL.stack[-1].unknown is None:
            return made
    return join_trace(made, fresh=fresh)


def _make(name: str) -> Any:
    function = getattr(np, name)

    @functools.wraps(function)
    def maker(*args: Any, **kwargs: Any) -> Any:
        if not traces.LOCAL.stack or kwargs.get("like") is not None:
            return function(*args, **kwargs)
        if name in GATHERING and args and not isinstance(args[0], np.ndarray):
            kw = {k: v for k, v in kwargs.items() if k in ("dtype", "copy", "order")}
            if isinstance(args[0], Tensor) or creation._has_tensor(args[0]):
                made = GATHERING[name](*args, **kw)
                ndmin = kwargs.get("ndmin", 0)
                short = ndmin - made.ndim
                return made.reshape((1,) * short + made.shape) if short > 0 else made
        if name == "full" and isinstance(args[1] if len(args) > 1 else None, Tensor):
            return np.copy(creation.full(args[0], args[1], *args[2:], **kwargs))
        made = function(*args, **kwargs)
        shares = name in SHARING and args and isinstance(args[0], np.ndarray)
        return made if shares else _join(made)

    return maker


class Namespace(ModuleType):
    """NumPy, whose makers take part in traces."""

    def __getattr__(self, name: str) -> Any:
        value = getattr(np, name)
        setattr(self, name, value)
        return value

    def __dir__(self) -> list[str]:
        return dir(np)


class _Arrays(type):
    """Lets ``isinstance(x, np.ndarray)`` be true of Tensors too."""

    def __instancecheck__(cls, x: object) -> bool:
        return isinstance(x, (np.ndarray, Tensor))

    def __subclasscheck__(cls, kind: type) -> bool:
        return issubclass(kind, (np.ndarray, Tensor))

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        return np.ndarray(*args, **kwargs)

    def __getattr__(cls, name: str) -> Any:
        return getattr(np.ndarray, name)


class ndarray(metaclass=_Arrays):
    """NumPy's arrays, and Tensors."""


NUMPY = Namespace("numpy", np.__doc__)
NUMPY.ndarray = ndarray
BY_ID: dict[int, Any] = {id(np): NUMPY, id(np.ndarray): ndarray}
for _name in FRESH:
    _maker = _make(_name)
    setattr(NUMPY, _name, _maker)
    BY_ID[id(getattr(np, _name))] = _maker


# Which code stores

STORES = {"STORE_SUBSCR", "STORE_SLICE"}
WRITING = {
    "at", "copyto", "put", "place", "putmask", "put_along_axis", "fill_diagonal",
    "fill", "sort", "partition", "flat",
}  # fmt: skip


@functools.lru_cache(maxsize=4096)
def _facts(code: CodeType) -> tuple[bool, tuple[str, ...]]:
    """Return whether a code stores into arrays, and the names that it reads."""
    stores, names = False, set(code.co_names)
    for step in dis.get_instructions(code):
        if step.opname in STORES or (
            step.opname == "BINARY_OP" and step.argrepr.endswith("=")
        ):
            stores = True
            break
    stores = stores or not WRITING.isdisjoint(names)
    for const in code.co_consts:
        if isinstance(const, CodeType):
            inner, more = _facts(const)
            stores = stores or inner
            names |= set(more)
        elif isinstance(const, tuple) and "out" in const:
            stores = True
    return stores, tuple(names)


LIBRARIES = ("workbench", "numpy", "scipy", "sklearn", "builtins", "pandas", "torch")


def _functions_of(value: Any) -> Iterator[FunctionType]:
    """Yield the functions behind a global: itself, methods, what it wraps."""
    while isinstance(value, functools.partial):
        value = value.func
    while hasattr(value, "__wrapped__"):
        if isinstance(value, FunctionType):
            yield value
        value = value.__wrapped__
    if isinstance(value, MethodType):
        yield from _functions_of(type(value.__self__))
        value = value.__func__
    if isinstance(value, FunctionType):
        yield value
    elif isinstance(value, type):
        for kind in value.__mro__:
            for part in vars(kind).values():
                part = getattr(part, "__func__", getattr(part, "fget", part))
                if isinstance(part, FunctionType):
                    yield part
    elif not isinstance(value, (ModuleType, np.ndarray, Tensor, int, float, str)):
        kind = type(value)
        if kind.__module__.partition(".")[0] not in LIBRARIES and (
            kind.__flags__ & (1 << 9)
        ):
            yield from _functions_of(kind)


def find_modules(f: Any) -> list[dict[str, Any]]:
    """Return the globals of the code that a function reaches; none, if none stores."""
    stores, found = False, {}
    seen: set[int] = set()
    stack = list(_functions_of(f))
    while stack:
        function = stack.pop()
        code = function.__code__
        space = function.__globals__
        home = str(space.get("__name__", "")).partition(".")[0]
        if id(function) in seen or home in LIBRARIES:
            continue
        seen.add(id(function))
        found[id(space)] = space
        wrote, names = _facts(code)
        stores = stores or wrote
        for name in names:
            if name in space:
                stack += _functions_of(space[name])
        for cell in function.__closure__ or ():
            try:
                stack += _functions_of(cell.cell_contents)
            except ValueError:
                pass
    return list(found.values()) if stores else []


_LOCK = threading.RLock()
#: How many traces have swapped the names of a module: its dict, what was there.
_ACTIVE: dict[int, list[Any]] = {}


@contextmanager
def swapped(f: Any) -> Iterator[bool]:
    """Bind NumPy's names to ours where a function, or a helper, stores into arrays."""
    spaces = find_modules(f)
    if not spaces:
        yield False
        return
    with _LOCK:
        for space in spaces:
            entry = _ACTIVE.setdefault(id(space), [space, 0, {}])
            entry[1] += 1
            if entry[1] > 1:
                continue
            for name, value in list(space.items()):
                new = BY_ID.get(id(value))
                if new is not None:
                    entry[2][name] = value, new
                    space[name] = new
    try:
        yield True
    finally:
        with _LOCK:
            for space in spaces:
                entry = _ACTIVE[id(space)]
                entry[1] -= 1
                if entry[1]:
                    continue
                del _ACTIVE[id(space)]
                for name, (old, new) in entry[2].items():
                    if space.get(name) is new:
                        space[name] = old


hooks.join_plain.set(_join)
hooks.swap_names.set(swapped)
