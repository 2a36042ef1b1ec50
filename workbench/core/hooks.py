"""Calls from a lower room to a higher one: each of them stands here, typed.

A module imports from its own room and from lower ones. Where it needs a function of
a room above, it calls a `Hook`, which a module up there sets as it loads. Those that
say "leaving" go once a program is one Graph.

What NumPy's protocols lead to is no hook: it stands in the tables of `op.py`, keyed
by NumPy's function itself; and what one op alone knows is an attribute of that op.
`tests/project/test_layers.py` reads in the source who sets a hook and who calls it.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

if TYPE_CHECKING:
    from workbench.core.dims import Dim

P = ParamSpec("P")
R = TypeVar("R")


class Hook(Generic[P, R]):
    """A function that a room above gives and a room below calls.

    Attributes
    ----------
    name
        The constant that holds it.
    does
        What the function does, in a sentence.
    module
        What is loaded by the first call, to set it; None: what sets it is loaded
        before anybody calls. Such a module sets it in its last lines, so that no
        thread calls a module that another is still loading.
    call
        The function itself, for who counts frames or nanoseconds.
    """

    __slots__ = ("call", "does", "is_set", "module", "name")

    call: Callable[P, R]

    def __init__(self, name: str, does: str, module: str | None = None) -> None:
        self.name = name
        self.does = does
        self.module = module
        self.is_set = False
        self.call = self._load

    def set(self, function: Callable[P, R]) -> Callable[P, R]:
        """Let the hook call this function; a decorator too."""
        self.call = function
        self.is_set = True
        return function

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call what has been set."""
        return self.call(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<hook {self.name}: {self.does}>"

    def _load(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if self.module is not None:
            import_module(self.module)
        if not self.is_set:
            raise RuntimeError(
                f"an error inside Workbench: nobody has set the hook {self.name!r},"
                f" which is to do this: {self.does}"
            )
        return self.call(*args, **kwargs)


# Leaving with One Graph. From `core` to `ops`:

#: Set by `ops.entries`; called where a Tensor meets an array of objects.
gather: Hook[[Any], Any] = Hook(
    "gather", "Return one Tensor for an object array of Tensors and numbers."
)
#: Set by `ops.entries`; called where a Tensor meets a list.
gather_list: Hook[[Any], Any] = Hook(
    "gather_list", "Return one array or Tensor for a list of numbers and Tensors."
)
#: Set by `ops.entries`; called where NumPy asks a Tensor for an array.
entries: Hook[[Any, bool | None], Any] = Hook(
    "entries", "Return an object array of the entries of a Tensor."
)
#: Set by `ops.lengths`; called where an unknown length is an operand.
length: Hook[[Dim], Any] = Hook("length", "Return a length as an integer Tensor.")
#: Set by `ops.ufuncs`; called for each use of a ufunc but the plain call of an op.
call_ufunc: Hook[[Any, str, tuple[Any, ...], dict[str, Any]], Any] = Hook(
    "call_ufunc", "Call a method of a ufunc, or a ufunc with settings, on Tensors."
)
#: Set by `ops.sparse.nests`; called where a nest of arguments holds a sparse array.
take_sparse: Hook[[Any], tuple[Any, Any]] = Hook(
    "take_sparse",
    "Return the stored values and the pattern of a sparse array.",
    "workbench.ops.sparse",
)
#: Set by `ops.sparse.nests`; called where such a nest is built again.
build_sparse: Hook[[Any, Any], Any] = Hook(
    "build_sparse",
    "Return the sparse array of stored values and a pattern.",
    "workbench.ops.sparse",
)
#: Set by `ops.sparse.nests`; called where a Tensor meets a sparse array.
operate_sparse: Hook[[str, Any, Any], Any] = Hook(
    "operate_sparse",
    "Apply an operator to a Tensor and a sparse array.",
    "workbench.ops.sparse",
)
