"""Gradients of functions: `grad`, `value_and_grad`; and the call that is recorded.

Each takes a function of arrays and returns a function of arrays. Arguments and
results may be nests. Called on plain arrays outside every trace, they return
plain arrays; inside another derivative they record, so they nest to any order.
A `RecordedCall` holds what all derivatives of functions need: which arguments vary (by
position, by name), what is recorded, and how results are given back, each array the
caller's own. `vjp`, `jvp` and whole Jacobians stand in `jacobian.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from operator import index
from types import FunctionType
from typing import Any

import numpy as np

from workbench import errors
from workbench.autodiff import reverse, steps
from workbench.core import blame, hooks, sharing, source, traces, tree, types, walk
from workbench.core.float_warnings import NamedWarnings
from workbench.core.graph import Graph
from workbench.core.hooks import CallOverrides, Override, OverrideRules
from workbench.core.memory import adopt, resolve
from workbench.core.plain import join_given
from workbench.core.tensor import (
    IDENTITY,
    Tensor,
    gather_argument,
    next_serial,
    value_of,
)
from workbench.core.trace import (
    ArgumentNames,
    check_float,
    check_function,
    detach,
    is_float,
    is_live,
    parameters_of,
    record,
    trace,
    wrap,
)
from workbench.core.types import Array, ArrayLike
from workbench.ops.define import shape_of

Function = Callable[..., Any]
Argnums = int | Sequence[int] | None
Argnames = str | Sequence[str] | None


def is_number_of_any_value(x: object) -> bool:
    """Return whether an argument is a real or complex number, or an array of them."""
    if types.is_weak(x):
        return isinstance(x, (float, complex))
    return hasattr(x, "shape") and getattr(x, "dtype", np.dtype(int)).kind in "fc"


class RecordedCall:
    """One call of a function to differentiate: its varying leaves, and its results.

    Attributes
    ----------
    tree
        How what is differentiated by is nested.
    values
        Its leaves, without those that have no derivative (``allow_int``).
    recording
        The program of the call: its ``leaves`` and ``outputs``, and what they read.
    known
        The arrays that others know: what the function was given, and has read.
    first
        The serial from which on the call has made Tensors.
    resolution
        The rules of the overrides that hold for it, if there are any.
    """

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
        has_aux: bool = False,
    ) -> None:
        if type(f) is not FunctionType:
            check_function(f, name)
        if str(getattr(f, "__module__", ""))[:6] == "scipy.":
            f = hooks.swap_function.call(f)
        self.f, self.args, self.kwargs = f, args, kwargs
        #: Whether the function returns a pair, whose second is only kept; and that.
        self.has_aux, self.aux = has_aux, None
        names = self._choose_leaves(argnums, argnames, name, bool(allow_int))
        cure = "" if allow_int is None else ", or allow_int=True to leave it out"
        for i, x in enumerate(self.values):
            if not is_float(x):
                x = self.values[i] = gather_argument(x)
                check_float(x, names[i], name, cure=cure)
            if holomorphic:
                check_complex(x, names[i], name)
        #: The overrides that hold for it, if there are any.
        self.active: CallOverrides | None = None
        if overrides or source.OVERRIDDEN[0]:
            self.active = hooks.overrides.call(overrides)
        active = self.active
        self.is_whole = active is not None and active.means_parts
        lean = active is None and name in ("grad", "vjp")
        reached = (f, *self.constant_leaves) if self.constant_leaves else f
        self.recording = record(
            self._run, self.values, names, function=reached, lean=lean, owns=True,
            constants=self.constant_leaves,
        )  # fmt: skip
        self.leaves, self.outputs = self.recording.leaves, self.recording.outputs
        self.first = self.leaves[0].serial if self.leaves else 0
        self.read_arrays = [
            *self.constant_leaves,
            *self.values,
            *self.recording.caught.values(),
        ]
        if name not in ("grad", "hessian", "hvp"):  # which say more of what they need
            check_outputs(self.outputs, name)
        self.resolution: OverrideRules | None = None
        if active is not None:
            self.resolution = active.resolve(self.outputs, self.leaves, name)
        if holomorphic:
            check_complex_outputs(self.outputs, name)

    def _choose_leaves(
        self, argnums: Argnums, argnames: Argnames, name: str, allow_int: bool
    ) -> ArgumentNames:
        """Separate the differentiated arguments; return the names of their leaves."""
        self.places: list[int | str]
        place = 0 if argnums is None else argnums
        if type(place) is int and argnames is None and 0 <= place < len(self.args):
            self.single, self.places = True, [place]
        else:
            self.single, self.places = chosen_arguments(
                self.f, argnums, argnames, self.args, self.kwargs, name
            )
        chosen = []
        for at in self.places:
            x = self.args[at] if isinstance(at, int) else self.kwargs[at]
            if x is None:  # which is a nest without leaves to `tree`
                check_float(x, f"argument {at!r}", name)
            chosen.append(x)
        self.flat, self.tree = tree.flatten(chosen[0] if self.single else tuple(chosen))
        self.values = self.flat
        #: Which of the leaves vary, if not all of them do.
        self.varying: list[int] | None = None
        if allow_int:
            self.flat = list(map(gather_argument, self.flat))
            self.varying = [i for i, x in enumerate(self.flat) if has_derivative(x)]
            self.values = [self.flat[i] for i in self.varying]
        #: The leaves of the arguments that nothing is differentiated by.
        self.constant_leaves: list[Any] = []
        if len(self.places) < len(self.args) + len(self.kwargs):
            named = (*enumerate(self.args), *self.kwargs.items())
            rest = [x for place, x in named if place not in self.places]
            self.constant_leaves = tree.flatten(rest)[0]
        trees = [self.tree] if self.single else self.tree.children
        return ArgumentNames(self.f, self.places, trees, self.varying)

    def _run(
        self,
        leaves: list[Tensor],
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
    ) -> object:
        """Call the function with Tensors in place of the differentiated arguments.

        Its other arguments are those of the call, unless others are given.
        """
        args = self.args if args is None else args
        kwargs = self.kwargs if kwargs is None else kwargs
        if self.varying is not None:
            leaves = self._fill_leaves(leaves, self.flat)
        chosen = self.tree(leaves)
        new: dict[int | str, Any] = {self.places[0]: chosen}
        if not self.single:
            new = dict(zip(self.places, chosen, strict=True))
        args = [
            new[i] if i in new else self._wrap_other(i, x) for i, x in enumerate(args)
        ]
        kwargs = {
            key: new[key] if key in new else self._wrap_other(key, x)
            for key, x in kwargs.items()
        }
        if isinstance(self.f, np.ufunc):  # which has no frame of the user's
            with source.pin_line():
                return self.f(*args, **kwargs)
        made = self.f(*args, **kwargs)
        return self._keep_aux(made) if self.has_aux else made

    def trace_structure(self) -> Graph | None:
        """Trace the function again, on shapes alone; None if values are needed.

        What it decides by values where it can, the place of a median, is then a part
        of the program, whose leaves come first and stand in the same order. Real and
        complex numbers of the other arguments are not known either: after them come
        inputs for those. Integers and booleans, which choose and count, stay as given.
        """
        given, structure = tree.flatten((list(self.args), dict(self.kwargs)))
        count = len(self.values)
        unknown = [i for i, x in enumerate(given) if is_number_of_any_value(x)]

        def run(*leaves: Tensor) -> object:
            filled = list(given)
            for i, x in zip(unknown, leaves[count:], strict=True):
                filled[i] = x
            return self._run(list(leaves[:count]), *structure(filled))

        aux = self.aux
        try:
            return trace(run)(
                *map(types.spec_of, self.values),
                *(types.spec_of(given[i]) for i in unknown),
            )
        except errors.WorkbenchError:
            return None
        finally:
            self.aux = aux

    def _keep_aux(self, pair: object) -> object:
        """Return the first part of the function's result, and keep the second."""
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise errors.UsageError(
                "has_aux=True: the function must return a pair, what is"
                f" differentiated and anything else; it returned {pair!r}."
            )
        y, self.aux = pair
        if traces.WRITTEN[0]:
            self.aux = tree.map_tree(lambda x: adopt(resolve(x)), self.aux)
        return y

    def _wrap_other(self, place: int | str, x: object) -> object:
        """Return an argument that is not differentiated, in the form the function gets.

        A structure is seen where each step of it is, also those that the leaves take no
        part in: where an override means one, the arrays of the other arguments are
        recorded too.
        """
        x = record_argument(x)
        return wrap_arrays(self.f, place, x) if self.is_whole else x

    def _fill_leaves(
        self, varying: Sequence[Any], constant: Sequence[Any]
    ) -> list[Any]:
        """Return all leaves: the first ones where they vary, else the second ones."""
        leaves = list(constant)
        for i, x in zip(self.varying or (), varying, strict=True):
            leaves[i] = x
        return leaves

    def nest(self, gradients: Sequence[Any]) -> Any:
        """Return the results for the varying leaves, nested as the arguments are."""
        if self.varying is not None:
            gradients = self._fill_leaves(gradients, [None] * len(self.flat))
        return self.tree(gradients)

    def guard_arrays(self, later: str) -> Callable[[], None]:
        """Return a check, to be made later, that no array that is read has changed.

        Those arrays are read-only as long as the check exists. NumPy leaves views made
        before writeable, hence the check; of a large array, entries that stand evenly
        apart are looked at. ``later`` is what runs then.
        """
        hold = traces.LastingHold()
        sums: dict[int, tuple[Any, int]] = {}
        roots = [y for y in self.outputs if isinstance(y, Tensor)]
        for node in steps.with_inner_nodes(walk.order_nodes(roots, self.first)):
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
            for x, total in sums.values():
                if traces.checksum(x) != total:
                    raise errors.TraceError(
                        f"an array of shape {x.shape} that the function read was"
                        f" changed in place before its {later} ran{blame.user_line()},"
                        " and the derivative would be wrong. Let the function read a"
                        " .copy(), or make a new array in each step."
                    )

        return check

    def result(self, *, saved: bool = False) -> Any:
        """Return the function's result, plain arrays where no outer trace takes part.

        ``saved``: a pullback still reads the values, so the caller gets copies.
        """
        outputs = [detach(x) for x in self.outputs]
        inputs = outputs if saved else self.read_arrays
        return self.recording.tree(ensure_owned(outputs, inputs, self.first))

    def with_aux(self, *results: Any, saved: bool = False) -> Any:
        """Return the results, followed by the auxiliary value if there is one.

        ``saved``: a pullback still reads its values, so the caller gets copies.
        """
        if self.has_aux:
            flat, structure = tree.flatten(self.aux)
            self.aux = None  # a pullback keeps the call
            detached = [detach(x) for x in flat]
            inputs = [*self.read_arrays, *tree.flatten(results)[0]]
            if saved:
                inputs += [x for x, y in zip(detached, flat, strict=True) if x is not y]
            results = (*results, structure(ensure_owned(detached, inputs, self.first)))
        return results if len(results) > 1 else results[0]

    def gradients(
        self, cotangents: Sequence[Any], *, last: bool = False, record: bool = False
    ) -> Any:
        """Return the cotangents of the arguments, nested as these; zeros for None.

        ``last``: nobody asks for more of what was recorded, and it is let go.
        ``record``: return them as a list of expressions, to be differentiated again.
        """
        rules = None if self.resolution is None else self.resolution.rules
        outputs = [*self.outputs]
        if last:
            del self.outputs, self.recording
        is_long = next_serial() - self.first > traces.SELDOM
        if is_long:
            traces.collect_seldom()
        try:
            with NamedWarnings():
                pulled = reverse.pull_back(
                    outputs, cotangents, self.leaves, rules=rules, last=last,
                    record=record,
                )  # fmt: skip
        finally:
            if is_long:
                traces.collect_often()
        for i, g in enumerate(pulled):
            if g is None:
                pulled[i] = zeros_like(self.values[i])
        if record:
            return pulled
        owned = ensure_owned(pulled, [*self.read_arrays, *cotangents], self.first)
        return self.tree(owned) if self.varying is None else self.nest(owned)


def wrap_arrays(f: Function, place: int | str, x: object) -> object:
    """Return an argument that nothing is differentiated by, its arrays as Tensors."""
    flat, structure = tree.flatten(x)
    names = ArgumentNames(f, [place], [structure])
    for i, y in enumerate(flat):
        if is_plain(y):
            flat[i] = wrap(y, names[i])
    return structure(flat)


def is_plain(x: object) -> bool:
    """Return whether ``x`` is an array of floats (a Python number may be a setting)."""
    return not isinstance(x, Tensor) and hasattr(x, "dtype") and has_derivative(x)


def record_argument(x: Any) -> object:
    """Return an argument in the form that a traced function needs.

    A generator of NumPy's becomes one that draws nodes. Both share one stream, so the
    function draws the same numbers. An array becomes one that the function can fill,
    if its code fills arrays.
    """
    if type(x) is np.ndarray:
        return join_given(x) if traces.LOCAL.stack[-1].fills else x
    if type(x).__module__ != "numpy.random._generator":
        return x
    from workbench.random import Generator

    return Generator(x)


def check_complex(x: object, label: str, name: str) -> None:
    """Refuse an argument of a complex derivative that is not complex."""
    dtype = types.spec_of(x).dtype
    if dtype.kind != "c":
        raise errors.DtypeError(
            f"{name}(holomorphic=True): {label} is of dtype {dtype}. The complex"
            f" derivative is by a complex number: pass {label} + 0j."
        )


def check_complex_outputs(outputs: Sequence[Any], name: str) -> None:
    """Refuse a result that no function with a complex derivative has."""
    for y in outputs:
        if isinstance(y, Tensor) and y.dtype.kind != "c":
            raise errors.DtypeError(
                f"{name}(holomorphic=True): the function returned"
                f" {blame.describe(y)}{blame.quote_site(y.site)}, and a function with a"
                " complex derivative has complex values. Drop holomorphic=True:"
                " the gradient of a real function is df/dx - i df/dy."
            )


def check_outputs(outputs: Sequence[Any], name: str) -> None:
    """Refuse results that no derivative can be taken of: None, a text."""
    for y in outputs:
        if isinstance(y, Tensor):
            continue
        dtype = getattr(y, "dtype", None) or np.asarray(y).dtype  # host array: a number
        if np.dtype(dtype).kind not in "biufc":
            cure = (
                "Does it end with a `return`?"
                if y is None
                else "has_aux=True returns other things with the numbers."
            )
            raise errors.DtypeError(
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
    """Return whether one argument alone is meant, and where each stands in the call."""
    if argnums is None:
        argnums = () if argnames is not None else 0
    names = (argnames,) if isinstance(argnames, str) else tuple(argnames or ())
    try:
        numbers: tuple[int, ...] = (index(argnums),)  # type: ignore[arg-type]
        is_number = True
    except TypeError:
        try:
            numbers, is_number = tuple(map(index, argnums)), False  # type: ignore[arg-type]
        except TypeError as error:
            raise errors.UsageError(
                f"{name}: argnums={argnums!r} is neither a position nor a sequence of"
                " positions. Count from 0, or give a name: argnames='x'."
            ) from error
    for n in numbers:
        if not -len(args) <= n < len(args):
            raise errors.UsageError(
                f"{name}: argnums={argnums!r}, but the call has {len(args)}"
                " positional arguments. Count from 0, and pass what is"
                " differentiated by position, or give its name: argnames='x'."
            )
    places: list[int | str] = [n % len(args) for n in numbers]
    for label in names:
        places.append(_find_argument(f, label, args, kwargs, name))
    if not places and not args:
        raise errors.UsageError(
            f"{name}: the function is given no arguments. Write wb.{name}(f, x)."
        )
    if not places:
        raise errors.UsageError(
            f"{name}: argnums and argnames name no argument. Name at least one."
        )
    if len(set(places)) < len(places):
        which = f"argnums={argnums!r}"
        if names:
            which += f", argnames={argnames!r}"
        raise errors.UsageError(
            f"{name}: {which} names an argument twice. Name each once."
        )
    return len(places) == 1 and (is_number or isinstance(argnames, str)), places


def _find_argument(
    f: Function,
    label: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    name: str,
) -> int | str:
    """Return the position or the keyword of the argument of this name in a call."""
    if label in kwargs:
        return label
    parameters = [one.name for one in parameters_of(f)]
    if label in parameters[: len(args)]:
        return parameters.index(label)
    given = ", ".join([*parameters[: len(args)], *kwargs]) or "none by name"
    raise errors.UsageError(
        f"{name}: argnames={label!r} is not an argument of this call; it has {given}."
    )


def has_derivative(value: object) -> bool:
    """Return whether a leaf is a float or complex number or array of them."""
    if types.is_weak(value):
        return isinstance(value, (float, complex))
    if not hasattr(value, "dtype"):
        return value is not None and not isinstance(value, str)
    return types.is_differentiable(value.dtype)


def copy_arrays(primals: Sequence[Any]) -> tuple[Any, ...]:
    """Return the primals, each array a copy: the caller may change his afterwards."""
    return tuple(
        tree.map_tree(
            lambda x: copy_with_layout(x) if type(x) is np.ndarray else x,
            tuple(primals),
        )
    )


def copy_with_layout(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return a copy that allows NumPy the same views as ``x`` does.

    Its axes lie in memory in the same order and direction, with a gap of one entry
    wherever ``x`` has any.

    >>> import numpy as np
    >>> copy_with_layout(np.ones((4, 6))[::2, ::-2]).strides
    (56, -16)
    """
    if x.flags.c_contiguous:
        return x.copy()
    if x.flags.f_contiguous:
        return x.copy(order="F")
    extent = room = x.itemsize  # of the axes so far, in x and in the copy
    start, strides = 0, [0] * x.ndim
    for n in sorted(range(x.ndim), key=lambda n: abs(x.strides[n])):
        length, step = x.shape[n], abs(x.strides[n])
        if length < 2 or not step:
            continue
        own = room if step == extent else room + x.itemsize
        extent, room = step * length, own * length
        strides[n] = own if x.strides[n] > 0 else -own
        start += 0 if x.strides[n] > 0 else own * (length - 1)
    memory = np.empty(max(room, x.itemsize), np.uint8)  # host array: a copy of one
    made: np.ndarray[Any, Any] = np.ndarray(x.shape, x.dtype, memory, start, strides)
    made[...] = x
    return made


def ensure_owned(
    arrays: Sequence[Any], inputs: Sequence[Any], since: int = 0
) -> list[Any]:
    """Return the arrays, each the caller's own to write into: copies where shared.

    A rule passes on what it got, or a view of it: the gradients of ``a + b`` are one
    array, that of ``sum`` is a single number seen many times. A view of what nobody
    else has stays one, unless it keeps much more memory than its own. A Tensor is
    one's own if it was made ``since`` this serial.
    """
    owned = list(arrays)
    bases: set[int] = set()
    shared_ids: set[int] | None = None
    for i, x in enumerate(owned):
        if isinstance(x, np.ndarray):
            if shared_ids is None:
                shared_ids = set()
                for y in inputs:
                    value = y._value if isinstance(y, Tensor) else y
                    if isinstance(value, np.ndarray):
                        shared_ids.add(id(value))
                        if value.base is not None:
                            shared_ids.update(map(id, traces.base_chain(value)))
            owner = x if x.base is None else traces.base_chain(x)[-1]
            if (
                id(owner) in shared_ids
                or not x.flags.writeable
                or not owner.flags.owndata
                or owner.nbytes > 2 * x.nbytes
            ):
                owned[i] = owner = x.copy()
            shared_ids.add(id(owner))
        elif isinstance(x, Tensor):
            base: Any = sharing.find_memory(x)
            if base.serial < since or base.op is IDENTITY or base.serial in bases:
                owned[i] = base = np.copy(x)
            bases.add(base.serial)
    return owned


def zeros_like(value: ArrayLike) -> Array:
    """Return a zero gradient for an argument that the output does not depend on."""
    return np.zeros_like(value_of(value) if not is_live(value) else value)


# Whether a derivative is asked of an expression, and with what.
#
# `grad` and its kind take functions and expressions; what differentiates expressions
# (`expressions.py`) loads when there is one.


def refuse_settings(name: str, **settings: Any) -> None:
    """Refuse the settings of a function's derivative beside an expression."""
    for key, value in settings.items():
        if value not in (None, False):
            raise errors.UsageError(
                f"{name}: {key}={value!r} is for functions, and an expression was"
                f" given. Write wb.{name}(expression, wrt)."
            )


def refuse_options(name: str, options: dict[str, Any]) -> None:
    """Refuse the options of an expression's derivative beside a function."""
    for key in options:
        raise errors.UsageError(
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
    "jacobian": ("consider_constant", "disconnected_inputs", "sparse"),
    "hessian": ("consider_constant", "disconnected_inputs", "cross", "sparse"),
}  # fmt: skip
OPTIONS["value_and_grad"] = OPTIONS["grad"]


def wrt_of(name: str, wrt: object, options: dict[str, Any]) -> object:
    """Return ``wrt`` of an expression, given by position or by keyword.

    Takes ``wrt`` out of the options, and refuses unknown options.
    """
    if wrt is None:
        wrt = options.pop("wrt", None)
    for key in options:
        if key not in OPTIONS.get(name, ()):
            raise errors.UsageError(
                f"{name}(expression, wrt) has no option {key!r}. It has"
                f" {', '.join(OPTIONS.get(name, ()))} and overrides."
            )
    if wrt is None:
        raise errors.UsageError(
            f"{name}(expression, wrt): wrt is missing. Name the Tensors to"
            f" differentiate by: wb.{name}(y, x), or a list of them."
        )
    return wrt


# Gradients of one number


def scalar_seed(
    call: RecordedCall, name: str = "grad", *, holomorphic: bool
) -> Array | None:
    """Return the cotangent 1 of the one number that a gradient needs; or an error.

    None for a number that nothing can vary. ``name`` is what the user called.
    """
    y = call.outputs[0] if len(call.outputs) == 1 else None
    if isinstance(y, Tensor) and isinstance(y._value, float):  # of NumPy's doubles too
        return np.array(1.0)  # host array: as the value is
    if not holomorphic:
        check_real(call, name)
    first = name == "grad"  # and no second derivative
    if len(call.outputs) != 1:
        more = ", or use value_and_grad(..., has_aux=True), or vjp with a seed for each"
        raise errors.NonScalarOutputError(
            f"{name} needs a function that returns one number; it returned"
            f" {len(call.outputs)} values. Return one of them{more if first else ''}."
        )
    dtype = getattr(y, "dtype", None) or np.asarray(y).dtype  # host array: a number
    if not isinstance(y, Tensor) and dtype.kind not in "biufc":
        forgot = " Does it end with a `return`?" if y is None else ""
        raise errors.NonScalarOutputError(
            f"{name} needs one number; the function returned {y!r}.{forgot}"
        )
    shape = shape_of(y if hasattr(y, "shape") else np.asarray(y))  # host array: list
    if shape and not types.is_one_number(shape):
        where = blame.quote_site(y.site) if isinstance(y, Tensor) else ""
        what = blame.describe(y) if isinstance(y, Tensor) else "the output"
        cure = "give a seed (wb.vjp), or ask for wb.jacobian"
        if not first:
            cure = "or ask for wb.jacobian(wb.jacobian(f))"
        raise errors.NonScalarOutputError(
            f"{name} needs one number; the function returned {what}{where}. Reduce it"
            f" (np.sum, np.mean), {cure}."
        )
    if not isinstance(y, Tensor) or not (y._value is None or is_float(y)):
        return None
    return np.ones_like(y if y._value is None else y._value)


def check_real(call: RecordedCall, name: str) -> None:
    """Refuse a complex result of real numbers: half of its derivative."""
    real = [x for x in call.leaves if x.dtype.kind != "c"]
    for y in call.outputs if real else ():
        if isinstance(y, Tensor) and y.dtype.kind == "c":
            raise errors.DtypeError(
                f"{name}: the function returned {blame.describe(y)}"
                f"{blame.quote_site(y.site)}, and the gradient by"
                f" {blame.describe(real[0])} would be that of the real part alone."
                " Return the part that is meant, np.real(y), np.imag(y) or"
                " np.abs(y), or ask for wb.jacobian, which is complex."
            )


def check_target(argnums: object, name: str) -> None:
    """Refuse ``grad(f, x)``: the point stands where ``argnums`` belongs."""
    if isinstance(argnums, Tensor):
        raise errors.UsageError(
            f"{name}: {blame.describe(argnums)} is what to differentiate by, and what"
            " to differentiate is neither an expression nor a function. Write"
            f" wb.{name}(expression, wrt)."
        )
    dtype = getattr(argnums, "dtype", None)
    if dtype is not None and np.dtype(dtype).kind not in "iu":
        raise errors.UsageError(
            f"{name}(f, x) is {name}(f)(x): it returns a function of the arguments of"
            " f. The second place is for argnums, the position of what is"
            " differentiated by."
        )


def value_and_grad(
    f: Any,
    argnums: Any = None,
    *,
    argnames: Argnames = None,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    overrides: Sequence[Override] | None = None,
    **options: Any,
) -> Any:
    """Return a function that gives ``(f(*args), gradient)``; of an expression the pair.

    Parameters
    ----------
    f
        A function of arrays that returns one number, an array of one entry too, and
        the value is that array; with ``has_aux`` a pair of that and anything else. Or
        an expression: then ``argnums`` is ``wrt`` and ``options`` are as for
        :func:`workbench.grad`.
    argnums
        The position, or positions, of what is differentiated by; the first by
        default. An argument may be a nest of arrays; its gradient is nested alike.
    argnames
        The name, or names, of further arguments to differentiate by; they may be
        passed by keyword. Their gradients follow those of ``argnums``.
    has_aux
        The function returns a pair, and only the first is differentiated.
    holomorphic
        The function is complex-differentiable, and its complex derivative is
        wanted: arguments and result must be complex.
    allow_int
        Arrays of integers (and other things without a derivative) among what is
        differentiated by have gradient None, instead of an error.
    overrides
        Other gradient rules for parts of ``f``; see :func:`workbench.override`.

    Returns
    -------
    A function ``(*args) -> (value, gradient)``; with ``has_aux``
    ``((value, aux), gradient)``. Each gradient has the shape and dtype of its
    argument; the complex gradient is df/dx - i df/dy.

    Raises
    ------
    NonScalarOutputError
        If ``f`` returns more than one number.
    DtypeError
        If an argument to differentiate by is of integer dtype.
    OverrideError
        If an override matches nothing in ``f``.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> y, g = wb.value_and_grad(lambda x: np.sum(x**3))(np.array([1.0, 2.0]))
    >>> float(y), g
    (9.0, array([ 3., 12.]))
    >>> loss = lambda x, *, scale: np.sum(scale * x)
    >>> y, g = wb.value_and_grad(loss, argnames="scale")(np.ones(2), scale=3.0)
    >>> float(g)
    2.0
    """
    if isinstance(f, Tensor):
        refuse_settings(
            "value_and_grad", argnames=argnames, has_aux=has_aux,
            holomorphic=holomorphic, allow_int=allow_int,
        )  # fmt: skip
        from workbench.autodiff import expressions

        wrt = wrt_of("value_and_grad", argnums, options)
        return f, expressions.gradient(f, wrt, overrides=overrides, **options)
    if options:
        refuse_options("value_and_grad", options)
    if argnums is not None:
        check_target(argnums, "grad")

    @wraps(f)
    def differentiated(*args: Any, **kwargs: Any) -> Any:
        call = RecordedCall(
            f, argnums, args, kwargs, "grad", overrides, argnames=argnames,
            allow_int=allow_int, holomorphic=holomorphic, has_aux=has_aux,
        )  # fmt: skip
        seed = scalar_seed(call, holomorphic=holomorphic)
        y = call.with_aux(call.result())
        return y, call.gradients([seed], last=True)

    return differentiated


def grad(
    f: Any,
    argnums: Any = None,
    *,
    argnames: Argnames = None,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    overrides: Sequence[Override] | None = None,
    **options: Any,
) -> Any:
    """Return the gradient of a function that returns one number, or of an expression.

    Nests to any order; a function that does not depend on its argument has gradient
    zero.

    Parameters
    ----------
    f
        A function of arrays that returns one number, an array of one entry too; with
        ``has_aux`` a pair of that and anything else. Or an expression of symbols.
    argnums
        The position, or positions, of what is differentiated by; the first by
        default. An argument may be a nest of arrays; its gradient is nested alike.
        Of an expression ``wrt``: a Tensor or a nest of them.
    argnames
        The name, or names, of further arguments to differentiate by; they may be
        passed by keyword. Their gradients follow those of ``argnums``.
    has_aux
        The function returns a pair, and only the first is differentiated.
    holomorphic
        The function is complex-differentiable, and its complex derivative is
        wanted: arguments and result must be complex.
    allow_int
        Arrays of integers (and other things without a derivative) among what is
        differentiated by have gradient None, instead of an error.
    overrides
        Other gradient rules for parts of ``f``; see :func:`workbench.override`.
    options
        Of an expression alone, those of :func:`workbench.gradient.grad`:
        ``consider_constant``, ``disconnected_inputs``, ``known_grads``, and more.

    Returns
    -------
    A function ``(*args) -> gradient``; with ``has_aux`` ``(gradient, aux)``. Each
    gradient has the shape and dtype of its argument; the complex gradient is
    df/dx - i df/dy. Of an expression: expressions, nested as ``wrt``.

    Raises
    ------
    NonScalarOutputError
        If ``f`` returns more than one number.
    DtypeError
        If an argument to differentiate by is of integer dtype.
    OverrideError
        If an override matches nothing, or its rule does not fit its node.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> wb.grad(lambda x: np.sum(np.sin(x)))(np.zeros(3))
    array([1., 1., 1.])
    >>> third = wb.grad(wb.grad(wb.grad(lambda x: x**4)))
    >>> float(third(2.0))
    48.0
    >>> complex(wb.grad(np.exp, holomorphic=True)(0j))
    (1+0j)
    >>> x, w = wb.scalars("x w")
    >>> f = wb.function([x, w], wb.grad(x**2 * w, [x, w]))
    >>> [float(g) for g in f(3.0, 2.0)]
    [12.0, 9.0]
    """
    if isinstance(f, Tensor) or "known_grads" in options:
        refuse_settings(
            "grad", argnames=argnames, has_aux=has_aux, holomorphic=holomorphic,
            allow_int=allow_int,
        )  # fmt: skip
        from workbench.autodiff import expressions

        wrt = wrt_of("grad", argnums, options)
        return expressions.gradient(f, wrt, overrides=overrides, **options)
    if options:
        refuse_options("grad", options)
    if argnums is not None:
        check_target(argnums, "grad")

    @wraps(f)
    def gradient(*args: Any, **kwargs: Any) -> Any:
        call = RecordedCall(
            f, argnums, args, kwargs, "grad", overrides, argnames=argnames,
            allow_int=allow_int, holomorphic=holomorphic, has_aux=has_aux,
        )  # fmt: skip
        seed = scalar_seed(call, holomorphic=holomorphic)
        g = call.gradients([seed], last=True)
        return call.with_aux(g) if has_aux else g

    return gradient
