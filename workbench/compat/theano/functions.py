"""`theano.function` and `theano.shared`, with Theano's arguments.

What comes back is the library's `Function`; only ``allow_input_downcast`` and
``no_default_updates`` put something around it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from workbench.compat.theano.config import config
from workbench.compat.theano.op import owner
from workbench.compat.theano.types import as_tensor_variable, type_of
from workbench.core import walk
from workbench.core.shared import Shared
from workbench.core.tensor import IDENTITY, Tensor
from workbench.core.types import Array, ArrayLike
from workbench.errors import UsageError
from workbench.gradient.verify import check_mode
from workbench.symbolic.arguments import is_symbol
from workbench.symbolic.function import Function
from workbench.symbolic.function import function as ours
from workbench.symbolic.variables import shared as share

__all__ = ["In", "Out", "Param", "SymbolicOutput", "function"]

# `theano.shared`: values that functions share, whose lengths may change.

SharedVariable = Shared

#: What `default_update` has been set to, by the serial of the shared value.
DEFAULT_UPDATES: dict[int, Any] = {}


def shared(
    value: Any,
    name: str | None = None,
    strict: bool = False,
    allow_downcast: bool | None = None,
    *,
    borrow: bool = False,
    broadcastable: Sequence[bool] | None = None,
    shape: Sequence[int | None] | None = None,
    **settings: Any,
) -> Shared:
    """Return a value that functions share: `workbench.shared`, with all lengths open.

    An axis that ``broadcastable`` names has the length 1 for good, and those that
    ``shape`` knows have theirs.

    >>> from workbench.compat import theano
    >>> state = theano.shared(0)
    >>> count = theano.function([], state, updates=[(state, state + 1)])
    >>> int(count()), int(count())
    (0, 1)
    """
    unknown = set(settings) - {"target", "allow_gc"}
    if unknown:
        raise UsageError(f"shared: unknown settings {', '.join(unknown)}.")
    if not hasattr(value, "dtype"):
        value = np.asarray(value)
    if shape is None:
        ones = broadcastable or (False,) * len(value.shape)
        shape = tuple(1 if b else None for b in ones)
    return share(value, name, shape=shape, borrow=borrow)


def _default_update(x: Shared) -> Any:
    return DEFAULT_UPDATES.get(x.serial)


def _set_default_update(x: Shared, new: Any) -> None:
    if new is None:
        DEFAULT_UPDATES.pop(x.serial, None)
    else:
        DEFAULT_UPDATES[x.serial] = new


Shared.default_update = property(  # type: ignore[attr-defined]
    _default_update, _set_default_update, doc="What each function updates it to."
)


# `theano.function`


class In:
    """An input with a default, a name of its own, or an update.

    Parameters
    ----------
    variable
        The symbol.
    name
        What a call may name it by; the symbol's own name unless given.
    value
        What stands for it where a call leaves it out.
    update
        What it becomes after the call: the function keeps it from then on.
    """

    def __init__(
        self,
        variable: Any,
        name: str | None = None,
        value: Any = None,
        update: Any = None,
        mutable: bool | None = None,
        strict: bool = False,
        allow_downcast: bool | None = None,
        autoname: bool = True,
        implicit: bool | None = None,
        borrow: bool | None = None,
        shared: bool = False,
    ) -> None:
        self.variable = as_tensor_variable(variable)
        self.name = name or self.variable.name
        self.value = value
        self.update = update
        self.allow_downcast = allow_downcast


def Param(
    variable: Any, default: Any = None, name: str | None = None, **settings: Any
) -> In:
    """Return an input with a default: `In` under its older name."""
    return In(variable, name=name, value=default, **settings)


class Out:
    """An output; ``borrow`` changes nothing, for every result is the caller's own."""

    def __init__(self, variable: Any, borrow: bool = False) -> None:
        self.variable = variable


SymbolicOutput = Out


def function(
    inputs: Any,
    outputs: Any = None,
    mode: Any = None,
    updates: Any = None,
    givens: Any = None,
    no_default_updates: Any = False,
    accept_inplace: bool = False,
    name: str | None = None,
    rebuild_strict: bool = True,
    allow_input_downcast: bool | None = None,
    profile: Any = None,
    on_unused_input: str | None = None,
    *,
    trust_input: bool = False,
) -> Any:
    """Expressions as a function of their variables: `workbench.function`.

    Parameters
    ----------
    inputs
        Variables, or `In` with a default. One that is computed from others is an
        input all the same: what it is computed from is not needed then.
    outputs
        A variable, a list, a mapping, or None.
    mode
        A `Mode` or the name of one: taken, and without effect, for nothing is
        compiled. A name that Theano does not have is an error.
    updates, givens, name, on_unused_input
        As `workbench.function` has them.
    profile, trust_input
        Taken, and without effect: ``f.profile(...)`` measures any function, and the
        arguments of all are checked.
    no_default_updates
        Draw the same random numbers in each call, and leave shared values alone that
        have a ``default_update``; or a list of those meant.
    allow_input_downcast
        Cast arrays that do not fit into the dtype of their input.

    Examples
    --------
    >>> from workbench.compat import theano
    >>> import workbench.compat.theano.tensor as T
    >>> x, y = T.dscalars("x", "y")
    >>> f = theano.function([x, theano.In(y, value=1)], x + y)
    >>> float(f(33)), float(f(33, 2))
    (34.0, 35.0)
    """
    if not isinstance(inputs, (list, tuple)):
        raise UsageError(f"function: inputs is a list of variables: {inputs!r}.")
    check_mode(mode, "function")
    given = [x if isinstance(x, In) else _input(x) for x in inputs]
    changed = _pairs(updates, "updates")
    replaced = _pairs(givens, "givens")
    symbols: list[Tensor] = []
    defaults: dict[Tensor, Any] = {}
    named: dict[str, Tensor] = {}
    for one in given:
        x = one.variable
        if one.update is not None:
            # It lives in the function: a shared value that a call need not give.
            state = shared(np.asarray(one.value, x.dtype), one.name)
            replaced.append((x, state))
            changed.append((state, one.update))
            continue
        if not is_symbol(x):
            symbol = type_of(x)(x.name)
            replaced.append((x, symbol))
            x = symbol
        symbols.append(x)
        if one.name != x.name:
            named[str(one.name)] = x
        if one.value is not None:
            value = one.value
            defaults[x] = value.get_value() if isinstance(value, Shared) else value
    wanted, structure = _outputs(outputs)
    changed += _default_updates([*wanted, *[new for _, new in changed]], changed,
                                no_default_updates)  # fmt: skip
    takes: Any = symbols
    if named:
        names = {x.serial: name for name, x in named.items()}
        takes = {
            names.get(x.serial) or x.name or f"input{i}": x
            for i, x in enumerate(symbols)
        }
    made = ours(
        takes,
        structure(wanted),
        updates=changed,
        givens=replaced,
        defaults=defaults,
        on_unused_input=on_unused_input or config.on_unused_input,
        name=name,
    )
    made.maker = Maker(made)  # type: ignore[attr-defined]
    made.get_shared = lambda: list(made.shared)  # type: ignore[attr-defined]
    around: Any = made
    casting = [
        allow_input_downcast or one.allow_downcast
        for one in given if one.update is None
    ]  # fmt: skip
    if any(casting):
        around = _Around(made, _casting(symbols, casting))
    if no_default_updates:
        around = _Around(around, _restore_generators(made, no_default_updates))
    return around


def _input(x: ArrayLike) -> In:
    if isinstance(x, (list, tuple)):  # (variable, default)
        return In(x[0], value=x[1])
    if not isinstance(x, Tensor):
        raise UsageError(f"function: the input {x!r} is not a variable.")
    if isinstance(x, Shared):
        raise UsageError(
            f"function: {x.describe()} cannot be an input, because"
            " functions read shared variables by themselves. To replace it, use"
            " givens={shared: variable}."
        )
    return In(x)


def _pairs(given: Any, what: str) -> list[tuple[Any, Any]]:
    if given is None:
        return []
    if isinstance(given, Mapping):
        return list(given.items())
    found = [tuple(pair) for pair in given]
    if any(len(pair) != 2 for pair in found):
        raise UsageError(f"function: {what} is a list of pairs.")
    return [(a, b) for a, b in found]


def _outputs(outputs: Any) -> tuple[list[Any], Callable[[list[Any]], Any]]:
    """Return the outputs as variables, and how they nest."""
    if outputs is None:
        return [], lambda ys: None
    if isinstance(outputs, Mapping):
        names = list(outputs)
        found = [_to_variable(outputs[n]) for n in names]
        return found, lambda ys: dict(zip(names, ys, strict=True))
    # A tuple of lengths is one output, the shape.
    several = isinstance(outputs, tuple) and any(
        isinstance(y, (Tensor, Out)) for y in outputs
    )
    if several or isinstance(outputs, list):
        return [_to_variable(y) for y in outputs], list
    return [_to_variable(outputs)], lambda ys: ys[0]


def _to_variable(y: ArrayLike) -> Array:
    return as_tensor_variable(y.variable if isinstance(y, Out) else y)


def _default_updates(
    outputs: Sequence[Any], updates: Sequence[Any], without: Any
) -> list[Any]:
    """Return the default updates of the shared values behind the outputs."""
    if not DEFAULT_UPDATES or without is True:
        return []
    known = {x.serial for x, _ in updates}
    known |= {x.serial for x in without or ()}
    roots = [y for y in outputs if isinstance(y, Tensor)]
    return [
        (x, DEFAULT_UPDATES[x.serial])
        for x in walk.order_nodes(roots)
        if x.serial in DEFAULT_UPDATES and x.serial not in known
    ]


class _Around:
    """A function with actions before and after each call."""

    def __init__(self, inner: Any, prepare: Any) -> None:
        self.inner = inner
        self.prepare = prepare

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Return the outputs."""
        args, named, after = self.prepare(args, named)
        try:
            return self.inner(*args, **named)
        finally:
            after()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def __repr__(self) -> str:
        return repr(self.inner)


def _do_nothing() -> None:
    pass


def _casting(symbols: list[Tensor], chosen: list[Any]) -> Callable[..., Any]:
    """Casts arguments to the dtypes of their inputs."""
    by_name = {x.name: x for x, on in zip(symbols, chosen, strict=True) if on}

    def prepare(args: Any, named: Any) -> Any:
        cast = [
            np.asarray(a, x.dtype) if on else a
            for a, x, on in zip(args, symbols, chosen, strict=False)
        ]
        given = {
            k: np.asarray(v, by_name[k].dtype) if k in by_name else v
            for k, v in named.items()
        }
        return (*cast, *args[len(cast) :]), given, _do_nothing

    return prepare


def _restore_generators(compiled: Function, chosen: Any) -> Callable[..., Any]:
    """Restore the state of generators after each call."""
    sources = [
        x for x in compiled.shared
        if x.spec.dtype == object and (chosen is True or x in set(chosen))
    ]  # fmt: skip

    def prepare(args: Any, named: Any) -> Any:
        bits = [x.state.bit_generator for x in sources]
        states = [b.state for b in bits]

        def after() -> None:
            for b, state in zip(bits, states, strict=True):
                b.state = state

        return args, named, after

    return prepare


class Maker:
    """Hold ``f.maker.fgraph``, the program of a function."""

    def __init__(self, function: Function) -> None:
        self._function = function
        self.mode = None

    @property
    def fgraph(self) -> SimpleNamespace:
        """Its inputs, outputs, variables and nodes; `toposort` lists these in order."""
        graph = self._function.graph
        nodes = [owner(x) for x in graph.nodes if x.op is not IDENTITY]
        return SimpleNamespace(
            inputs=list(graph.inputs),
            outputs=list(graph.outputs),
            variables=set(graph.nodes),
            apply_nodes=set(nodes),
            toposort=lambda: nodes,
        )
