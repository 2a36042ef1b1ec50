"""`compile`: a function of arrays as a program that is traced once and compiled.

It is traced without values, once for each set of shapes, dtypes and settings, and
simplified; NumPy runs it until its compiled code is ready.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial, update_wrapper
from types import BuiltinFunctionType, MethodType
from typing import Any, NamedTuple, overload

import numpy as np

from workbench.backends.compiled import tiers
from workbench.backends.profile import Profile, measure
from workbench.core import blame, hooks, traces, tree, walk
from workbench.core.graph import Graph, inline
from workbench.core.pickling import find_own_name
from workbench.core.shared import Shared, read_states
from workbench.core.tensor import Tensor
from workbench.core.trace import ArgumentNames, check_function, is_live, record
from workbench.core.tree import Tree
from workbench.core.types import Spec, is_device_array, strip_subclass
from workbench.errors import GradientLostError, TraceError, UsageError
from workbench.overrides.override_blocks import (
    EVERYWHERE,
    OWNED,
    STACK,
    blocks_in_force,
)
from workbench.rewrite.driver import Replay, Rewrites, check_rewrites
from workbench.rewrite.rule import Rule
from workbench.symbolic.function import BACKENDS, check_backend, copy_aliases

#: Settings that are the same if they are equal.
SIMPLE = (int, bool, str)
#: A function keeps programs for so many sets of shapes and settings.
MOST_PROGRAMS = 64


def is_fixed(setting: Any) -> bool:
    """Return whether identity alone decides if a setting is unchanged.

    Other objects can change; their ``==`` and ``hash`` then tell that they differ.
    """
    own: Any = type(setting)
    fixed = (*SIMPLE, type(None), type, BuiltinFunctionType)
    return own in fixed or own.__hash__ is object.__hash__


class Recorded(NamedTuple):
    """A program of one set of shapes and settings."""

    function: Any
    tree: Tree
    shared: list[Shared]
    #: The structure of the arguments, whether all are arrays by position, and those
    #: that are settings, by their places.
    structure: Tree
    is_bare: bool
    settings: dict[int, Any]
    #: Whether a setting that is the same object is an equal one (`is_fixed`).
    has_fixed_settings: bool

    def find_inputs(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Sequence[Any] | None:
        """Return the program's inputs, if arguments nest as in the recorded call.

        Shapes and dtypes are not looked at. None: they nest otherwise, or may do so.
        """
        positional, named = self.structure.children
        if not self.has_fixed_settings:
            return None
        if len(args) != len(positional.children):
            return None
        if self.is_bare and not kwargs:
            return args
        leaves: list[Any] = []
        for child, x in zip(positional.children, args, strict=True):
            if child.kind is None:
                leaves.append(x)
            elif not child.collect(x, leaves):
                return None
        if (kwargs or named.children) and not named.collect(kwargs, leaves):
            return None
        for i, value in self.settings.items():
            x = leaves[i]
            if x is not value and (
                type(x) is not type(value) or type(x) not in SIMPLE or x != value
            ):
                return None
        if self.settings:
            leaves = [x for i, x in enumerate(leaves) if i not in self.settings]
        return leaves + read_states(self.shared) if self.shared else leaves


@overload
def compile(
    f: Callable[..., Any],
    *,
    backend: str | None = None,
    rules: Iterable[Rule] = (),
    without: str | Collection[str] = (),
    fast: bool = False,
) -> CompiledFunction: ...


@overload
def compile(
    f: None = None,
    *,
    backend: str | None = None,
    rules: Iterable[Rule] = (),
    without: str | Collection[str] = (),
    fast: bool = False,
) -> Callable[[Callable[..., Any]], CompiledFunction]: ...


def compile(
    f: Callable[..., Any] | None = None,
    *,
    backend: str | None = None,
    rules: Iterable[Rule] = (),
    without: str | Collection[str] = (),
    fast: bool = False,
) -> Any:
    """Return a function that runs as a compiled program; also a decorator.

    Parameters
    ----------
    f
        A function of arrays and numbers, or of nests of them; one that `grad`,
        `jacobian`, `vmap` and the like return, or that calls them. It is run on
        arrays without values to learn what it does: once for each set of shapes and
        dtypes of its arrays and floats, and for each value of other arguments
        (integers, truth values, strings, the object of a method), which are settings of
        the program: what changes inside of one is not noticed, and the function holds
        it as long as its program (of the last 64 that it has recorded). Without it,
        a decorator with these settings is returned.
    backend
        What runs it: ``"compiled"``, from the first call on as soon as it is ready;
        ``"auto"``, once NumPy has spent some time on it; ``"numpy"``; or ``"cupy"``,
        the GPU, where all arrays must lie (:func:`workbench.to_gpu`). By default it
        follows the data: ``"cupy"`` for arrays of CuPy's, else ``"compiled"``.
    rules, without, fast
        How the program is simplified: as :func:`workbench.simplify` takes them.

    Returns
    -------
    A :class:`CompiledFunction` of the same arguments. Arrays that the function has read
    from outside are constants of the program, as they were at the first call.

    Raises
    ------
    UsageError
        If there is no such backend, or an argument is no array, number or setting.
        From the call, if some arrays lie on the GPU and others do not.
    DeviceError
        With ``"cupy"``, if there is no GPU, with what is missing and how to get it.
    TraceError
        From the call, if what the function does depends on values: an ``if`` on one,
        say. Write ``np.where`` or `workbench.cond`.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> @wb.compile
    ... def slope(x):
    ...     return wb.grad(lambda x: np.sum(np.tanh(x) ** 2))(x)
    >>> slope(np.zeros(3))
    array([0., 0., 0.])
    >>> slope.wait(), slope.backend
    (True, 'compiled')

    >>> @wb.compile(backend="auto")
    ... def double(x):
    ...     return 2 * x
    >>> double(np.ones(2))
    array([2., 2.])
    """
    if backend is not None:
        check_backend(backend)
    rewrites = check_rewrites(rules, without, fast)

    def wrap(function: Callable[..., Any]) -> CompiledFunction:
        check_function(function, "compile")
        return CompiledFunction(function, backend, rewrites)

    return wrap if f is None else wrap(f)


class CompiledFunction:
    """A function of arrays as a compiled program; made by :func:`workbench.compile`.

    Attributes
    ----------
    function
        What it was made from.
    """

    def __init__(
        self, function: Callable[..., Any], backend: str | None, rewrites: Rewrites
    ) -> None:
        update_wrapper(self, function)
        self.function = function
        self._backend = backend
        self._rewrites = rewrites
        self._programs: dict[Any, Recorded] = {}
        self._last: Recorded | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return what the function returns.

        Inside a trace (`grad`, `vmap`, another compiled function), or while a block of
        overrides is open, the function itself runs.
        """
        last = self._last
        if last is not None and not (traces.LOCAL.stack or blocks_in_force()):
            inputs = last.find_inputs(args, kwargs)
            made = None if inputs is None else last.function.run_ready(inputs)
            if made is not None:
                return last.tree(made)
        leaves, structure = tree.flatten_call(args, kwargs)
        if traces.LOCAL.stack or blocks_in_force():
            return self.function(*args, **kwargs)
        if any(isinstance(x, Tensor) and is_live(x) for x in leaves):
            return self.function(*args, **kwargs)
        found, given = self._find_program(args, kwargs, leaves, structure)
        return found.tree(copy_aliases(found.function.run(given), given))

    #: The same, where `__call__` is an entry of machine code.
    _run = __call__

    def _find_program(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        leaves: list[Any],
        structure: Tree,
    ) -> tuple[Recorded, list[Any]]:
        """Return the program for some arguments, and the inputs of that program."""
        places, arrays, key = _sort_arguments(leaves)
        try:
            found = self._programs.get((structure, *key))
        except TypeError:
            refusal = self._find_argument_error(leaves)
            if refusal is None:  # two of them refuse to be compared
                raise
            raise refusal from None
        if found is None:
            found = self._record(args, kwargs, leaves, places, arrays)
            while len(self._programs) >= MOST_PROGRAMS:
                self._programs.pop(list(self._programs)[0], None)  # noqa: RUF015
            self._programs[structure, *key] = found
        self._last = found
        return found, [*arrays, *read_states(found.shared)]

    def _record(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        leaves: list[Any],
        places: list[int],
        arrays: list[Any],
    ) -> Recorded:
        """Return the program for arguments like these."""
        specs = [_describe_spec(x) for x in arrays]
        structure = tree.flatten((args, kwargs))[1]
        positional, named = structure.children
        names = ArgumentNames(
            self.function,
            [*range(len(args)), *named.entries],
            [*positional.children, *named.children],
            places,
        )

        def call(symbols: list[Tensor]) -> Any:
            filled = list(leaves)
            for i, x, spec in zip(places, symbols, specs, strict=True):
                x.spec = spec
                filled[i] = x
            new_args, new_kwargs = structure(filled)
            return self.function(*new_args, **new_kwargs)

        made = record(call, specs, names)
        for y in made.outputs:
            if not isinstance(y, Tensor) and np.asarray(y).dtype.kind not in "biufc":
                raise TraceError(
                    f"{self!r} returns {blame.shorten(repr(y))}, which is not an array"
                    " of numbers. Return arrays, numbers, or nests of them."
                )
        nodes = walk.order_nodes([y for y in made.outputs if isinstance(y, Tensor)])
        if traces.OPEN and any(map(traces.is_active, nodes)):
            raise GradientLostError(
                f"{self!r} reads a Tensor from outside that another thread"
                " differentiates, and whose gradient would be lost. Pass it as an"
                " argument, or call the function that was compiled (f.function)."
            )
        shared = [x for x in nodes if isinstance(x, Shared)]
        graph = inline(Graph([*made.inputs, *shared], made.outputs))
        simplified = Replay(graph, self._rewrites).run()
        backend = self._backend
        if backend is None:
            backend = "cupy" if any(map(is_device_array, arrays)) else "compiled"
        run = BACKENDS[backend](simplified, own=True)
        flat = all(one.kind is None for one in positional.children)
        bare = len(args) == len(places) == len(leaves) and flat and not shared
        form = made.tree.kind
        if (
            isinstance(run, tiers.TieredFunction)
            and bare
            and (form is None or all(c.kind is None for c in made.tree.children))
            and form in (None, tuple, list)
        ):
            run.on_compiled = partial(self._install_entry, form)
        settings = {i: x for i, x in enumerate(leaves) if i not in places}
        fixed = all(map(is_fixed, settings.values()))
        return Recorded(run, made.tree, shared, structure, bare, settings, fixed)

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        """Return the function as a method, whose object is a setting."""
        return self if instance is None else MethodType(self, instance)

    def __copy__(self) -> CompiledFunction:
        return self

    def __deepcopy__(self, memo: Any) -> CompiledFunction:
        return self

    def __reduce__(self) -> Any:
        """Pickle as functions do: by name, where that leads here.

        Else by what is compiled and how; so does cloudpickle with what a notebook has
        defined, which no other process finds by name.
        """
        name = find_own_name(self)
        if name is not None:
            return name
        return CompiledFunction, (self.function, self._backend, self._rewrites)

    def _install_entry(self, form: type | None, program: Any) -> None:
        """Let a small program answer calls by position without Python code."""
        guards = {"context": STACK, "empty": (OWNED, EVERYWHERE, traces.OPEN)}
        tiers.install_entry(self, program, CompiledFunction, form, "_run", **guards)

    def _find_argument_error(self, leaves: list[Any]) -> UsageError | None:
        """Return an error about the first argument without a hash."""
        for x in leaves:
            if not _is_hashable(x) and not _is_input(x):
                return UsageError(
                    f"{self!r} is given {blame.shorten(repr(x))}, which is not an"
                    " array, a number or a setting that can be compared. Pass arrays,"
                    " or make it part of the function."
                )
        return None

    @property
    def graph(self) -> Graph:
        """The simplified program of the last call.

        Raises
        ------
        UsageError
            Before the first call.
        """
        if self._last is None:
            raise UsageError(f"{self!r} was not called yet: its program is not known.")
        graph: Graph = self._last.function.graph
        return graph

    @property
    def backend(self) -> str:
        """The backend for the last shapes: ``numpy``, ``compiled`` or ``cupy``."""
        return "numpy" if self._last is None else str(self._last.function.backend)

    def is_ready(self) -> bool:
        """Return whether compiled code for the last shapes is in place, or refused."""
        return self._last is not None and bool(self._last.function.is_ready())

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until compiled code for the last shapes is in place, or refused.

        Parameters
        ----------
        timeout
            Seconds to wait at most.

        Returns
        -------
        Whether the waiting has come to its end; False before the first call.
        """
        return self._last is not None and bool(self._last.function.wait(timeout))

    def profile(self, *args: Any, **kwargs: Any) -> Profile:
        """Return the cost of each step of a call, as a table to print.

        The program runs a few times with a clock around each step: each kernel of
        compiled code, which is waited for, or each node that NumPy runs.

        Examples
        --------
        >>> import numpy as np, workbench as wb
        >>> f = wb.compile(lambda x: np.sum(np.exp(x)))
        >>> profile = f.profile(np.zeros(1000))
        >>> profile.backend, [(row.step, row.ops) for row in profile]
        ('compiled', [('kernel 1', 'exp, sum')])
        """
        leaves, structure = tree.flatten((args, kwargs))
        found, given = self._find_program(args, kwargs, leaves, structure)
        return measure(found.function, given)

    def release(self) -> None:
        """Let the memory go that compiled code keeps for the next call."""
        for one in self._programs.values():
            one.function.release()

    def __repr__(self) -> str:
        name = getattr(self.function, "__name__", type(self.function).__name__)
        return f"<CompiledFunction {name}>"


def _is_input(x: object) -> bool:
    """Return whether an argument is an input of the program, not a setting."""
    if isinstance(x, (np.ndarray, np.generic)):
        return x.dtype.kind in "biufc"
    return type(x) in (float, complex) or isinstance(x, Tensor) or is_device_array(x)


def _is_hashable(x: object) -> bool:
    try:
        hash(x)
    except TypeError:
        return False
    return True


def _sort_arguments(leaves: list[Any]) -> tuple[list[int], list[Any], list[Any]]:
    """Return the places of inputs, the inputs, and the key of their program.

    A subclass of NumPy's array is an array; one that means something else is refused.
    """
    places: list[int] = []
    arrays: list[Any] = []
    key: list[Any] = []
    for i, x in enumerate(leaves):
        if not _is_input(x):
            key.append((type(x), x))
            continue
        if type(x) is np.ndarray:
            places.append(i)
            arrays.append(x)
            key.append((x.dtype, x.shape))
            continue
        if isinstance(x, Tensor):
            x = x.state if isinstance(x, Shared) else x._value
        if isinstance(x, np.ndarray) and type(x) is not np.ndarray:
            x = strip_subclass(x)
        places.append(i)
        arrays.append(x)
        if is_device_array(x):
            key.append(("cupy", x.dtype, x.shape))
        else:
            key.append((x.dtype, x.shape) if hasattr(x, "dtype") else type(x))
    return places, arrays, key


def _describe_spec(x: Any) -> Spec:
    """Return the spec of an input; a Python number's is weak."""
    if hasattr(x, "dtype"):
        return Spec(tuple(x.shape), x.dtype)
    return Spec((), np.result_type(type(x)), True)


def _compile_for_backend(f: Callable[..., Any], backend: str | None) -> Any:
    return compile(f, backend=backend)


hooks.compile.set(_compile_for_backend)
