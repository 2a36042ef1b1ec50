"""One call of a function that is differentiated: `Call`.

Which arguments vary (by position, by name), what is recorded, and how results are
given back: nested as they came, each array the caller's own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from inspect import signature
from operator import index
from typing import Any

import numpy as np

from workbench.autodiff import reverse, steps
from workbench.core import aliases, blame, hooks, source, traces, tree, types, walk
from workbench.core.hooks import Override, OverrideRules
from workbench.core.tensor import IDENTITY, Tensor, value_of
from workbench.core.trace import (
    argument_names,
    check_float,
    check_function,
    live,
    record,
    wrap,
)
from workbench.errors import DtypeError, TraceError, UsageError

Function = Callable[..., Any]
Argnums = int | Sequence[int] | None
Argnames = str | Sequence[str] | None


class Call:
    """One call of a function to differentiate: which leaves vary, what came out."""

    def __init__(
        self,
        f: Function,
        argnums: Argnums,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str,
        overrides: Sequence[Override] | None = None,
        *,
        argnames: Argnames = None,
        allow_int: bool | None = None,
        holomorphic: bool = False,
    ) -> None:
        check_function(f, name)
        single, places = chosen_arguments(f, argnums, argnames, args, kwargs, name)
        chosen = tuple(args[p] if isinstance(p, int) else kwargs[p] for p in places)
        for place, x in zip(places, chosen, strict=True):
            if x is None:  # which is a nest without leaves to `tree`
                check_float(x, f"argument {place!r}", name)
        flat, self.tree = tree.flatten(chosen[0] if single else chosen)
        #: The arguments that nothing is differentiated by.
        rest = [x for p, x in (*enumerate(args), *kwargs.items()) if p not in places]
        self.given = tree.flatten(rest)[0] if rest else []
        labels = _labels(f, args, kwargs, places)
        #: Which leaves vary; with ``allow_int`` the others have no gradient.
        #: (None: the transform does not offer it.)
        self.varies = [not (allow_int and not has_derivative(value)) for value in flat]
        picked = [label for label, v in zip(labels, self.varies, strict=True) if v]
        self.values = [x for x, v in zip(flat, self.varies, strict=True) if v]
        cure = "" if allow_int is None else ", or allow_int=True to leave it out"
        for value, label in zip(self.values, picked, strict=True):
            check_float(value, str(label), name, cure=cure)
            if holomorphic and types.spec_of(value).dtype.kind != "c":
                raise DtypeError(
                    f"{name}(holomorphic=True): {label} is of dtype"
                    f" {types.spec_of(value).dtype}. The complex derivative is by a"
                    f" complex number: pass {label} + 0j."
                )

        asked = hooks.overrides(overrides)
        parts = asked is not None and asked.means_parts

        def call(leaves: list[Tensor]) -> Any:
            rest = iter(leaves)
            rebuilt = self.tree(
                [next(rest) if v else x for x, v in zip(flat, self.varies, strict=True)]
            )
            new = [drawing(x) for x in args]
            named = {key: drawing(x) for key, x in kwargs.items()}
            if parts:
                # A structure is seen where each step of it is, also those that the
                # leaves take no part in: the other arguments are recorded too.
                named_places = _labels_at(f, args, kwargs)
                new = [recorded(x, named_places[i]) for i, x in enumerate(new)]
                named = {k: recorded(x, named_places[k]) for k, x in named.items()}
            for place, x in zip(places, (rebuilt,) if single else rebuilt, strict=True):
                if isinstance(place, int):
                    new[place] = x
                else:
                    named[place] = x
            if isinstance(f, np.ufunc):  # which has no frame of the user's
                with source.pinned():
                    return f(*new, **named)
            return f(*new, **named)

        self.recording = record(call, self.values, picked)
        if name != "grad":  # which says more of what it needs
            check_outputs(self.outputs, name)
        elif not holomorphic:
            self._check_real()
        self.resolution: OverrideRules | None = None
        if asked is not None:
            self.resolution = asked.resolve(self.outputs, self.leaves, name)
        for y in self.outputs if holomorphic else ():
            if isinstance(y, Tensor) and y.dtype.kind != "c":
                raise DtypeError(
                    f"{name}(holomorphic=True): the function returned"
                    f" {blame.describe(y)}{blame.at(y.site)}, and a function with a"
                    " complex derivative has complex values. Drop holomorphic=True:"
                    " the gradient of a real function is df/dx - i df/dy."
                )

    def _check_real(self) -> None:
        """Refuse a complex result of real numbers: half of its derivative."""
        real = [x for x in self.leaves if x.dtype.kind != "c"]
        for y in self.outputs if real else ():
            if isinstance(y, Tensor) and y.dtype.kind == "c":
                raise DtypeError(
                    f"grad: the function returned {blame.describe(y)}"
                    f"{blame.at(y.site)}, and the gradient by"
                    f" {blame.describe(real[0])} would be that of the real part alone."
                    " Return the part that is meant, np.real(y), np.imag(y) or"
                    " np.abs(y), or ask for wb.jacobian, which is complex."
                )

    def nested(self, gradients: Sequence[Any]) -> Any:
        """What belongs to the leaves that vary, nested as the arguments are."""
        rest = iter(gradients)
        return self.tree([next(rest) if v else None for v in self.varies])

    @property
    def leaves(self) -> list[Tensor]:
        """The Tensors that stand for what is differentiated by."""
        return self.recording.leaves

    @property
    def first(self) -> int:
        """The serial from which on the call has made Tensors."""
        return min((x.serial for x in self.leaves), default=0)

    @property
    def outputs(self) -> list[Any]:
        """The leaves of what the function returned."""
        return self.recording.outputs

    def unchanged(self, later: str) -> Callable[[], None]:
        """A check, to be made later, that no array the program reads was changed.

        Those arrays are read-only as long as the check exists. NumPy leaves views made
        before writeable, hence the check; of a large array, entries that stand evenly
        apart are looked at. ``later`` is what runs then.
        """
        hold = traces.LastingHold()
        sums: dict[int, tuple[Any, int]] = {}
        roots = [y for y in self.outputs if isinstance(y, Tensor)]
        for node in steps.everything(walk.order(roots, self.first)):
            for x in node.inputs:
                if (
                    type(x) is np.ndarray
                    and id(x) not in sums
                    and x.nbytes
                    and not x.dtype.hasobject
                ):
                    sums[id(x)] = x, traces.checksum(x)
                    hold.add(x)

        def check(hold: traces.Hold = hold) -> None:  # which lives as long as this
            for x, found in sums.values():
                if traces.checksum(x) != found:
                    raise TraceError(
                        f"an array of shape {x.shape} that the function read was"
                        f" changed in place before its {later} ran{blame.here()}, and"
                        " the derivative would be wrong. Let the function read a"
                        " .copy(), or make a new array in each step."
                    )

        return check

    def result(self, *, saved: bool = False) -> Any:
        """What the function returned, plain where no outer trace takes part.

        ``saved``: a pullback still reads the values, so the caller gets copies.
        """
        made = [released(x) for x in self.outputs]
        others = made if saved else self.known()
        return self.recording.tree(owned(made, others, self.first))

    def gradients(self, cotangents: Sequence[Any]) -> Any:
        """The cotangents of the arguments, nested as they are; zeros for None."""
        rules = None if self.resolution is None else self.resolution.pulls()
        made = reverse.pull_back(self.outputs, cotangents, self.leaves, rules=rules)
        filled = [
            zeros_like(v) if g is None else g
            for v, g in zip(self.values, made, strict=True)
        ]
        return self.nested(owned(filled, (*self.known(), *cotangents), self.first))

    def known(self) -> list[Any]:
        """The arrays that others know: what the function was given, and has read."""
        return [*self.given, *self.values, *self.recording.caught.values()]


def recorded(x: Any, labels: Sequence[str | None]) -> Any:
    """An argument that nothing is differentiated by, its arrays as Tensors."""
    flat, structure = tree.flatten(x)
    if not any(map(is_plain, flat)):
        return x
    return structure(
        [
            wrap(y, label) if is_plain(y) else y
            for y, label in zip(flat, labels, strict=True)
        ]
    )


def is_plain(x: Any) -> bool:
    """Whether it is an array of floats (a Python number is a setting as often)."""
    return not isinstance(x, Tensor) and hasattr(x, "dtype") and has_derivative(x)


def drawing(x: Any) -> Any:
    """An argument; a generator of NumPy's as one whose draws are nodes.

    Both share one stream, so the function draws what it would have drawn.
    """
    if type(x).__module__ != "numpy.random._generator":
        return x
    from workbench.random import Generator

    return Generator(x)


def check_outputs(outputs: Sequence[Any], name: str) -> None:
    """Refuse what a function returned and no derivative can be of: None, a text."""
    for y in outputs:
        if isinstance(y, Tensor):
            continue
        dtype = getattr(y, "dtype", None) or np.asarray(y).dtype  # host array: a number
        if np.dtype(dtype).kind not in "biufc":
            cure = (
                "Has it a `return` at its end?"
                if y is None
                else "What is no number can be given back beside them by has_aux=True."
            )
            raise DtypeError(
                f"{name} needs arrays or numbers; the function returned {y!r}. {cure}"
            )


def chosen_arguments(
    f: Function,
    argnums: Argnums,
    argnames: Argnames,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    name: str,
) -> tuple[bool, list[int | str]]:
    """Whether one argument alone is meant, and where each stands in the call."""
    if argnums is None:
        argnums = () if argnames is not None else 0
    names = (argnames,) if isinstance(argnames, str) else tuple(argnames or ())
    try:
        numbers: tuple[int, ...] = (index(argnums),)  # type: ignore[arg-type]
        bare = True
    except TypeError:
        try:
            numbers, bare = tuple(map(index, argnums)), False  # type: ignore[arg-type]
        except TypeError as error:
            raise UsageError(
                f"{name}: argnums={argnums!r} is no position and no sequence of"
                " positions. Count from 0, or give a name: argnames='x'."
            ) from error
    for n in numbers:
        if not -len(args) <= n < len(args):
            raise UsageError(
                f"{name}: argnums={argnums!r}, but the call has {len(args)}"
                " positional arguments. Count from 0, and pass what is"
                " differentiated by position, or give its name: argnames='x'."
            )
    places: list[int | str] = [n % len(args) for n in numbers]
    for label in names:
        places.append(_place(f, label, args, kwargs, name))
    if not places and not args:
        raise UsageError(
            f"{name}: the function is given no arguments. Write wb.{name}(f, x)."
        )
    if not places:
        raise UsageError(
            f"{name}: argnums and argnames name no argument. Name at least one."
        )
    if len(set(places)) < len(places):
        which = f"argnums={argnums!r}"
        if names:
            which += f", argnames={argnames!r}"
        raise UsageError(f"{name}: {which} names an argument twice. Name each once.")
    return len(places) == 1 and (bare or isinstance(argnames, str)), places


def _place(
    f: Function,
    label: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    name: str,
) -> int | str:
    """Where the argument of this name stands in a call."""
    if label in kwargs:
        return label
    try:
        parameters = list(signature(f).parameters)
    except (TypeError, ValueError):
        parameters = []
    if label in parameters[: len(args)]:
        return parameters.index(label)
    given = ", ".join([*parameters[: len(args)], *kwargs]) or "none by name"
    raise UsageError(
        f"{name}: argnames={label!r} is no argument of this call; it has {given}."
    )


def _labels(
    f: Function,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    places: Sequence[int | str],
) -> list[str | None]:
    """The names of the leaves of the arguments at these places."""
    found = _labels_at(f, args, kwargs)
    return [label for place in places for label in found[place]]


def _labels_at(
    f: Function, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> dict[int | str, list[str | None]]:
    """The names of the leaves of each argument, by its place."""
    names = argument_names(f, args, kwargs)
    keys: list[int | str] = [*range(len(args)), *sorted(kwargs)]
    found: dict[int | str, list[str | None]] = {}
    start = 0
    for key in keys:
        value = args[key] if isinstance(key, int) else kwargs[key]
        count = 0 if value is None else len(tree.flatten(value)[0])
        found[key] = names[start : start + count]
        start += count
    return found


def has_derivative(value: Any) -> bool:
    """Whether a leaf is a float or complex number or array of them."""
    if types.weak(value):
        return isinstance(value, (float, complex))
    if not hasattr(value, "dtype"):
        return value is not None and not isinstance(value, str)
    return types.differentiable(value.dtype)


class Aux:
    """A function with ``has_aux``: it keeps aside the second of what is returned."""

    def __init__(self, f: Function, wanted: bool) -> None:
        self.wanted = wanted
        self.value: Any = None
        self.target = self._split(f) if wanted else f

    def _split(self, f: Function) -> Function:
        @wraps(f)
        def first(*args: Any, **kwargs: Any) -> Any:
            pair = f(*args, **kwargs)
            if not isinstance(pair, (tuple, list)) or len(pair) != 2:
                raise UsageError(
                    "has_aux=True: the function must return a pair, what is"
                    f" differentiated and anything else; it returned {pair!r}."
                )
            y, self.value = pair
            aliases.check_read(tree.flatten(self.value)[0], "is returned")
            return y

        return first

    def with_aux(self, call: Call, *results: Any, saved: bool = False) -> Any:
        """Return the results, and after them what was kept aside, if anything was.

        ``saved``: a pullback still reads its values, so the caller gets copies.
        """
        if self.wanted:
            flat, structure = tree.flatten(self.value)
            made = [released(x) for x in flat]
            seen = [*call.known(), *tree.flatten(results)[0]]
            if saved:
                seen += [x for x, y in zip(made, flat, strict=True) if x is not y]
            results = (*results, structure(owned(made, seen, call.first)))
        return results if len(results) > 1 else results[0]


def kept(primals: Sequence[Any]) -> tuple[Any, ...]:
    """The primals, each array a copy: the caller may change his before a pullback."""
    return tuple(
        tree.map_tree(
            lambda x: x.copy() if type(x) is np.ndarray else x, tuple(primals)
        )
    )


def released(x: Any) -> Any:
    """A Tensor of a closed trace as its value, unless an outer trace needs it."""
    return x if live(x) else value_of(x)


def owned(arrays: Sequence[Any], others: Sequence[Any], since: int = 0) -> list[Any]:
    """Return the arrays, each the caller's own to write into: copies where shared.

    A rule passes on what it got, or a view of it: the gradients of ``a + b`` are one
    array, that of ``sum`` is a single number seen many times. A view of what nobody
    else has stays one, unless it keeps much more memory than its own. A Tensor is
    one's own if it was made ``since`` this serial.
    """
    made = list(arrays)
    bases: set[int] = set()
    for i, x in enumerate(made):
        if isinstance(x, Tensor):
            base: Any = aliases.memory_of(x)
            if base.serial < since or base.op is IDENTITY or base.serial in bases:
                made[i] = base = np.copy(x)
            bases.add(base.serial)
    places = [i for i, x in enumerate(made) if isinstance(x, np.ndarray)]
    if not places:
        return made
    taken = {id(_owner(x)) for x in map(value_of, others) if isinstance(x, np.ndarray)}
    for i in places:
        x = made[i]
        owner = _owner(x)
        if (
            id(owner) in taken
            or not x.flags.writeable
            or not owner.flags.owndata
            or owner.nbytes > 2 * x.nbytes
        ):
            made[i] = owner = x.copy()
        taken.add(id(owner))
    return made


def _owner(array: Any) -> Any:
    """The array whose memory an array shows."""
    return traces.chain_of(array)[-1]


def zeros_like(value: Any) -> Any:
    """A zero gradient for an argument that the output does not depend on."""
    return np.zeros_like(value_of(value) if not live(value) else value)


# Whether a derivative is asked of an expression, and with what.
#
# `grad` and its kind take functions and expressions; what differentiates expressions
# (`expressions.py`) loads when there is one.


def is_expression(x: Any) -> bool:
    """Whether an argument is an expression, or a nest that holds one."""
    if isinstance(x, Tensor):
        return True
    return isinstance(x, (list, tuple, dict)) and any(
        isinstance(part, Tensor) for part in tree.flatten(x)[0]
    )


def only_for_functions(name: str, **settings: Any) -> None:
    """Refuse the settings of a function's derivative beside an expression."""
    for key, value in settings.items():
        if value not in (None, False):
            raise UsageError(
                f"{name}: {key}={value!r} is for functions, and an expression was"
                f" given. Write wb.{name}(expression, wrt)."
            )


def no_options(name: str, options: dict[str, Any]) -> None:
    """Refuse the options of an expression's derivative beside a function."""
    for key in options:
        raise UsageError(
            f"{name}: a function has no option {key!r}. Those of an expression's"
            f" gradient go with wb.{name}(expression, wrt); a function takes argnums,"
            " argnames, has_aux, holomorphic, allow_int and overrides."
        )


#: What the derivatives of expressions take besides.
OPTIONS = {
    "grad": (
        "consider_constant", "disconnected_inputs", "add_names", "known_grads",
        "return_disconnected", "null_gradients",
    ),
    "jacobian": ("consider_constant", "disconnected_inputs"),
    "hessian": ("consider_constant", "disconnected_inputs", "cross"),
}  # fmt: skip
OPTIONS["value_and_grad"] = OPTIONS["grad"]


def wrt_of(name: str, given: Any, options: dict[str, Any]) -> Any:
    """What an expression is to be differentiated by, given by place or by name.

    Takes ``wrt`` out of the options, and refuses those that there are not.
    """
    if given is None:
        given = options.pop("wrt", None)
    for key in options:
        if key not in OPTIONS.get(name, ()):
            raise UsageError(
                f"{name}(expression, wrt) has no option {key!r}. It has"
                f" {', '.join(OPTIONS.get(name, ()))} and overrides."
            )
    if given is None:
        raise UsageError(
            f"{name}(expression, wrt): wrt is missing. Name the Tensors to"
            f" differentiate by: wb.{name}(y, x), or a list of them."
        )
    return given
