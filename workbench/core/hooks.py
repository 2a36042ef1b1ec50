"""Calls from a lower room to a higher one: each of them stands here, typed.

A module imports from its own room and from lower ones. Where it needs a function of
a room above, it calls a `Hook`, which a module up there sets as it loads.

What NumPy's protocols lead to is no hook: it stands in the tables of `op.py`, keyed
by NumPy's function, method or class itself; and what one op alone knows is an attribute
of that op.
`tests/project/test_layers.py` reads in the source who sets a hook and who calls it.
Tensors, ops and lengths are `Any` here: their modules call hooks, and a type that
looks back at them would close a circle.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic, Literal, ParamSpec, Protocol, TypeVar

if TYPE_CHECKING:
    from types import ModuleType


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
        The function itself, for callers that count frames or nanoseconds.
    """

    __slots__ = ("call", "does", "is_set", "module", "name")

    call: Callable[P, R]

    def __init__(self, name: str, does: str, module: str | None = None) -> None:
        self.name = name
        self.does = does
        self.module = module
        self.is_set = False
        self.call = self._load_and_call

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

    def load(self) -> None:
        """Load the module that sets the hook."""
        if self.module is not None:
            import_module(self.module)

    def _load_and_call(self, *args: P.args, **kwargs: P.kwargs) -> R:
        self.load()
        if not self.is_set:
            raise RuntimeError(
                f"an error inside Workbench: nobody has set the hook {self.name!r},"
                f" which is to do this: {self.does}"
            )
        return self.call(*args, **kwargs)


class Override(Protocol):
    """Another gradient rule for part of a program, in the form that lower rooms know.

    It is what :func:`workbench.override` returns.
    """

    @property
    def label(self) -> str:
        """Its name, or a short text for its rule."""

    @property
    def enabled(self) -> bool:
        """True if the override is applied."""

    @property
    def steps(self) -> int | slice | None:
        """The iterations of a loop in which the override holds; None: all."""

    @property
    def linear(self) -> set[Any]:
        """The rules of the override that are known to be linear."""


class OverrideRules(Protocol):
    """The rules that overrides put in the place of the true rules in one program."""

    @property
    def rules(self) -> Mapping[int, Any]:
        """The rules, by the serial of the node (see `autodiff.steps.Rules`)."""


class CallOverrides(Protocol):
    """The overrides of one derivative: its own, and those of the blocks around."""

    @property
    def means_parts(self) -> bool:
        """True if one means parts of programs, which are then recorded whole."""

    def resolve(
        self, outputs: Sequence[Any], wrt: Sequence[Any], name: str
    ) -> OverrideRules:
        """Return the rules for the program that leads from ``wrt`` to the outputs."""


#: Set by `overrides.override_blocks`; called by `autodiff` before it traces a function
#: and, of its result, after it. None: there are none, and nothing more is loaded.
overrides: Hook[[Sequence[Override] | None], CallOverrides | None] = Hook(
    "overrides", "Return the overrides that hold for a derivative, if there are any."
)
#: Set by `workbench/__init__.py`; called where other libraries ask a Tensor for the
#: functions of its arrays, and where the lines that the doctor advises are tried.
namespace: Hook[[Literal["numpy", "workbench"]], ModuleType] = Hook(
    "namespace", "Return the module of NumPy's names for Tensors, or of all names."
)
#: Set by `symbolic.function`; called by `Tensor.eval`.
evaluate: Hook[[Any, Any, dict[str, Any]], Any] = Hook(
    "evaluate",
    "Return the value of an expression for values of its symbols.",
    "workbench.symbolic.function",
)
#: Set by `symbolic.compiled_function`; called by a sparse derivative that is prepared.
compile: Hook[[Any, str | None], Any] = Hook(
    "compile",
    "Return a function as a program that is recorded once, for a backend.",
    "workbench.symbolic.compiled_function",
)
#: Set by `backends.compiled.routine`; called where sparsity patterns are coloured.
compile_routine: Hook[
    [Sequence[Callable[..., Any]], Any], Callable[..., int] | None
] = Hook(
    "compile_routine",
    "Return loops over integers as machine code; None where there is no LLVM.",
    "workbench.backends.compiled.routine",
)
#: Set by `jupyter.cell`, if a notebook runs; called to name a line.
source: Hook[[str], str | None] = Hook(
    "source", "Return how the cell of a file name is called, ``[3]``; None: no cell."
)
#: Set by `jupyter`; called by what a session offers to look at.
show: Hook[[Any, Any], Any] = Hook(
    "show",
    "Show a session; or draw a derivative, of which a window may be meant.",
    "workbench.jupyter",
)
#: Set by `session.html`; called by a session that is to be written into a file.
write_page: Hook[[Any, bool], str] = Hook(
    "write_page", "Return a session as one HTML file.", "workbench.session.html"
)

# A function of the user's, as a trace runs it

#: Set by `numpy.swap`; called where a function of the user's is run in a trace.
swap_names: Hook[[Any], Any] = Hook(
    "swap_names",
    "Return the swap of the NumPy names that a function reads, or None.",
    "workbench.numpy.swap",
)
#: Set by `numpy.swap`; called where a function of SciPy's itself is differentiated.
swap_function: Hook[[Any], Any] = Hook(
    "swap_function",
    "Return the function that takes Tensors, in the place of one of SciPy's.",
    "workbench.numpy.swap",
)

# Arrays that are written to, and rules that are looked for

#: Set by `ops.writing`; called by `core.inplace`.
write_view: Hook[[Any, Sequence[Any], Any], None] = Hook(
    "write_view", "Let a view of an array be a new value."
)
#: Set by `ops.writing`; called by `Tensor` for a function of NumPy.
write_out: Hook[[Any, tuple[Any, ...], dict[str, Any]], Any] = Hook(
    "write_out", "Call a function of NumPy, and write the result into `out`."
)
#: Set by `overrides.shipped`; called where a rule is looked for by its name.
load_rules: Hook[[], None] = Hook(
    "load_rules",
    "Let the rules that are shipped be known by their names.",
    "workbench.overrides.shipped",
)

# What runs a rule or a function once lengths are known

#: Set by `autodiff.deferred`; called where a function, or a rule of an op (``"vjp"``,
#: ``"jvp"``, ``"batch"``), looks at an unknown length.
call_deferred: Hook[[Any, Any, dict[str, Any]], Any] = Hook(
    "call_deferred",
    "Return the node that calls a function, or rule, once lengths are known.",
    "workbench.autodiff.deferred",
)
#: Set by `autodiff.limits`; called by `autodiff.reverse`.
pull_limit: Hook[[Any, int, Any], list[Any] | None] = Hook(
    "pull_limit",
    "Return the cotangents of a node, also where some of its values are equal.",
    "workbench.autodiff.limits",
)
#: Set by `autodiff.limits`; called by `autodiff.forward`.
push_limit: Hook[[Any, tuple[Any, ...], Sequence[Any], bool], list[Any] | None] = Hook(
    "push_limit",
    "Return the tangents that equal values among a node's outputs add.",
    "workbench.autodiff.limits",
)
#: Set by `autodiff.call`; called where the first rule of such an op is asked for.
derive_from_body: Hook[[Any, Any], None] = Hook(
    "derive_from_body",
    "Give an op the derivatives that follow from its body.",
    "workbench.autodiff.call",
)
#: Set by `autodiff.call`; called by the `batch` of such an op.
batch_by_body: Hook[
    [Any, Any, tuple[Any, ...], tuple[bool, ...], dict[str, Any]], Any
] = Hook(
    "batch_by_body",
    "Return an op for many examples, by its body.",
    "workbench.autodiff.call",
)

#: The modules of ops that load when the first function of a module of NumPy or SciPy
#: meets a Tensor, by the name of that module. Filled by `ops`; read by `core.op`.
OP_MODULES: dict[str, str] = {}
