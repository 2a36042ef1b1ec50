"""`wb.Op`: an op that a user writes, with any code inside and its own gradient."""

from __future__ import annotations

import dataclasses
import inspect
import sys
from collections.abc import Sequence
from functools import cached_property as Kept
from functools import partial
from math import inf
from typing import Any, ClassVar, Self, dataclass_transform
from weakref import WeakKeyDictionary, WeakValueDictionary, ref

import numpy as np

from workbench import errors
from workbench.autodiff.call import apply_to_batch
from workbench.core import blame, dims, tensor, types
from workbench.core.blame import format_count
from workbench.core.infer import infer_spec
from workbench.core.op import Op as Core
from workbench.core.tensor import Tensor, admit
from workbench.core.types import Spec
from workbench.custom.registry import OpRunner, RegisteredOp, enter, home_of
from workbench.ops import define
from workbench.overrides.node import lend_arrays
from workbench.overrides.rule_errors import (
    COPY_CURE,
    describe_change_in_place,
    describe_rule,
)
from workbench.overrides.targets import snake

# What a user's op takes: how many inputs, and what may be one.


def count_inputs(cls: Any) -> tuple[float, float]:
    """Return how many inputs the `compute` of a class takes: at least, at most."""
    kind = type(inspect.getattr_static(cls, "compute"))
    own = 0 if kind in (staticmethod, classmethod) else 1
    try:
        parameters = list(inspect.signature(cls.compute).parameters.values())[own:]
    except (TypeError, ValueError):
        return 0, inf
    places = [p for p in parameters if p.kind <= p.POSITIONAL_OR_KEYWORD]
    many = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    least = sum(p.default is p.empty for p in places)
    return least, inf if many else len(places)


def format_range(least: float, most: float) -> str:
    """Return a range in words: ``2 inputs``, ``1 to 2 inputs``, ``at least 1``."""
    if least == most:
        return format_count(int(least), "input")
    if most == inf:
        return f"at least {format_count(int(least), 'input')}"
    return f"{int(least)} to {format_count(int(most), 'input')}"


def convert_operand(x: Any) -> Any:
    """Return an operand: arrays and Tensors as they are, lists as arrays."""
    if isinstance(x, (list, tuple)):
        found = admit(x)
        return found if hasattr(found, "dtype") else np.asarray(x)  # host array: a list
    if isinstance(x, Tensor) or types.is_weak(x) or hasattr(x, "dtype"):
        return x
    if x is None:
        types.spec_of(x)  # says so
    return admit(x)


# `wb.Op`


class BoundOp(Core):
    """One op with its settings, in the form that programs hold."""

    __slots__ = ("__weakref__", "owner", "settings")

    owner: Op
    settings: dict[str, Any]

    def __reduce__(self) -> Any:
        return _get_bound_op, (self.owner,)


@dataclass_transform(frozen_default=True, eq_default=False)
class Op:
    """An op of your own: any code for its value, with its gradient beside.

    Write a subclass with `compute`, and `vjp` for the gradient. Everything else is
    optional. Annotated attributes are settings, as the fields of a dataclass: they are
    given where the op is made, take part in equality, and are what
    ``node.get_attr("name")`` finds. They must not change, so a list is a tuple.

    Calling an instance on plain arrays gives plain arrays; on Tensors it records one
    node, named after the class in snake case (``ZeroOut``: ``"zero_out"``), or as the
    class attribute ``name`` says. Overrides and `register_gradient` know that name
    from the moment the class is made. A definition that runs again, as when the cell
    of a notebook does, replaces the one before.

    Attributes
    ----------
    name
        The op's name, a class attribute.
    n_outputs
        How many outputs it has, a class attribute; counted when `compute` first runs
        if it is not declared. One comes as itself, several as a tuple.

    Raises
    ------
    RegistrationError
        If the op's name is taken.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> class IntegerPower(wb.Op):
    ...     n: int
    ...     def compute(self, x):
    ...         return x**self.n
    ...     def vjp(self, node, g):
    ...         (x,), n = node.inputs, node.get_attr("n")
    ...         return g * n * x ** (n - 1)
    >>> cube = IntegerPower(n=3)
    >>> cube(np.array([1.0, 2.0]))
    array([1., 8.])
    >>> wb.grad(lambda x: np.sum(cube(x)))(np.array([1.0, 2.0]))
    array([ 3., 12.])
    """

    name: ClassVar[str] = ""
    n_outputs: ClassVar[int | None] = None
    #: The op's name, where an override asks what a class or an instance means.
    __op__: ClassVar[str] = ""
    #: The least and the most inputs that `compute` takes.
    _takes: ClassVar[tuple[float, float]]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        annotated = getattr(cls, "__annotations__", {})
        for taken in ("name", "n_outputs"):
            if taken in annotated and "ClassVar" not in str(annotated[taken]):
                raise errors.UsageError(
                    f"{cls.__qualname__}: {taken} is not a setting but belongs to the"
                    f" class: write {taken} = ... without an annotation, and call a"
                    " setting by another name."
                )
        for base in cls.__mro__[:0:-1]:
            _make_fields(
                base
            )  # a decorator of a subclass asks for the fields of its bases
        if "name" not in cls.__dict__:
            cls.name = snake(cls.__name__)
        cls.__op__ = cls.name
        if cls.compute is Op.compute:
            return  # a base for further classes, no op itself
        cls._takes = count_inputs(cls)
        for rule in ("vjp", "jvp"):
            given = getattr(cls, rule)
            if given is not None and not callable(given):
                raise errors.UsageError(
                    f"{cls.__qualname__}.{rule} is {given!r}, which is not a method."
                    f" Write def {rule}(self, node, {'g' if rule == 'vjp' else 't'}):"
                    " ..."
                )
        entry_of(cls)

    @classmethod
    def _gives(cls, method: str) -> bool:
        return getattr(cls, method) is not getattr(Op, method)

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Return an instance; the settings of its class become fields first."""
        if cls.compute is Op.compute:
            raise errors.UsageError(
                f"{cls.__qualname__} computes nothing yet: write"
                " def compute(self, *arrays) in it, which returns an array or several."
            )
        _make_fields(cls)
        entry_of(cls)  # of a class that pickle has filled after it was made
        return super().__new__(cls)

    # What a user writes

    def compute(self, *arrays: Any) -> Any:
        """Return the value: an array, or a tuple of arrays, by any library's code.

        The arrays that come in are read-only. The same inputs must give the same
        result, and as many outputs each time.
        """
        raise NotImplementedError

    def infer(self, *specs: Any) -> Any:
        """Return the result's ``wb.Spec(shape, dtype)``, a tuple of them for several.

        Needed only where `compute` cannot run on arrays of ones (zeros, for integers)
        in the shape of each input.
        """
        raise NotImplementedError

    def vjp(self, node: Any, *cotangents: Any) -> Any:
        """Return the gradient of each input (reverse mode), None where none is needed.

        None counts as a gradient of 0; that an output does not depend on an input at
        all (see ``disconnected_inputs``) is said by ``connection``.
        Of a complex gradient of a real input the real part counts.

        There is one cotangent for each output: zeros for one of floats that nothing
        depends on, None for one of integers. ``node.inputs`` and ``node.outputs`` are
        what went in and came out. Written in NumPy or with other ops, it can be
        differentiated again. In place of a method, ``vjp = op`` may name an op that
        takes the inputs, then the cotangents. Of the branch that `np.where` does
        not take, 0 wins over infinity in the NumPy of a rule, but not in the `compute`
        of an op that it calls: there, choose with `np.where` before dividing.
        """
        raise NotImplementedError

    def jvp(self, node: Any, *tangents: Any) -> Any:
        """Return the tangent of the output (forward mode), or a tuple, one per output.

        There is one tangent for each input, None for an input that does not vary. An
        output of floats that does not move gets ``np.zeros_like``, not None.
        By default that of `vjp`, transposed; and `vjp` is that of `jvp` where only
        this is written.
        """
        raise NotImplementedError

    def batch(self, inputs: tuple[Any, ...], batched: tuple[bool, ...]) -> Any:
        """Compute many examples at once, for ``wb.vmap``; by default in a loop.

        ``batched[i]`` says that input i has the axis of the batch in front; every
        output must have it.
        """
        raise NotImplementedError

    def connection(self) -> Sequence[Sequence[bool]]:
        """Return which outputs depend on which inputs: a row of outputs for each input.

        By default all on all. What `vjp` returns is held against it.
        """
        raise NotImplementedError

    def pattern(self, *specs: Any) -> Any:
        """Return which entries of each input the derivatives of the output read.

        For sparse derivatives; by default all entries are taken to be read.
        ``specs`` are the ``wb.Spec(shape, dtype)`` of the inputs.

        Returns
        -------
        A list with a matrix of 0 and 1 for each input, None where it is not read: an
        array, a sparse array or a `SparsityPattern`, with a row for each entry of the
        output and a column for each entry of the input, both in C order. For a single
        input the matrix alone; for several outputs a tuple of such lists.

        Examples
        --------
        >>> import numpy as np, workbench as wb
        >>> class Shift(wb.Op):
        ...     def compute(self, x):
        ...         return np.roll(x, 1)
        ...     def vjp(self, node, g):
        ...         return np.roll(g, -1)
        ...     def pattern(self, x):
        ...         return np.roll(np.eye(x.shape[0]), 1, axis=0)
        >>> wb.sparsity(Shift(), np.ones(4))
        <SparsityPattern 4×4, 4 nonzeros, density 0.25>
        """
        raise NotImplementedError

    # How it is applied

    def _lower(self, node: Any, backend: str) -> Any:
        """Return the form of a node for a backend; None: its ``compute`` is called."""
        return None

    def __call__(self, *inputs: Any, **named: Any) -> Any:
        """Return its outputs for arrays or Tensors: one, or a tuple of several."""
        if named:
            inputs = self._order_inputs(inputs, named)
        least, most = type(self)._takes
        if not least <= len(inputs) <= most:
            raise errors.UsageError(
                f"{self.name} takes {format_range(least, most)}, not {len(inputs)}, as"
                f" {describe_rule(self.compute)} says."
            )
        given = tuple(map(convert_operand, inputs))
        bound = self._bound_op
        made = tensor.apply(bound, given, bound.settings)
        if isinstance(made, Tensor):
            return define.split_outputs(made)
        return made

    def _order_inputs(self, inputs: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Return the inputs in the order of `compute`, also those given by name."""
        what = "which it does not take so"
        try:
            bound = inspect.signature(self.compute).bind(*inputs, **named)
            if not bound.kwargs:
                return bound.args
            what = "which its compute takes by name alone"
        except (TypeError, ValueError):
            pass
        raise errors.UsageError(
            f"{self.name} is given {', '.join(named)} by name, {what}, as"
            f" {describe_rule(self.compute)} says. Give its inputs by position; what is"
            " no array is a setting: an annotated attribute of the class."
        )

    @property
    def _settings(self) -> dict[str, Any]:
        """The settings by name: fields, or the attributes that ``__init__`` set."""
        cls: Any = type(self)
        if dataclasses.is_dataclass(cls):
            # Not those of ``__dataclass_fields__``: a ClassVar is among them.
            fields = dataclasses.fields(cls)
            return {f.name: getattr(self, f.name) for f in fields if f.compare}
        return {
            name: value
            for name, value in vars(self).items()
            # What is computed from settings, and kept, is none.
            if name[:1] != "_" and not isinstance(getattr(cls, name, None), Kept)
        }

    def _key(self) -> Any:
        """Return a key that differs for other settings; 1 and 1.0 differ here."""
        made = []
        for name, value in self._settings.items():
            parts = value if isinstance(value, tuple) else (value,)
            if any(isinstance(part, Tensor) for part in parts):
                raise errors.UsageError(
                    f"{type(self).__name__}: the setting {name} is a Tensor, whose"
                    " gradient would be lost. Make it an input of the op."
                )
            try:
                hash(value)
            except TypeError:
                raise errors.UsageError(
                    f"{type(self).__name__}: the setting {name}={value!r} can change,"
                    " and an op's settings cannot. Give a tuple in place of a list, or"
                    " an array as an input."
                ) from None
            made.append((name, _exact_key(value)))
        return tuple(made)

    @property
    def _bound_op(self) -> BoundOp:
        """The op with these settings, in the form that programs hold."""
        found: BoundOp | None = self.__dict__.get("_made")
        if found is None:
            cls = type(self)
            params = getattr(cls, "__dataclass_params__", None)
            if params is not None and not params.frozen:
                raise errors.UsageError(
                    f"the settings of {cls.__name__} could be changed after it was"
                    " used. Write @dataclass(frozen=True), or leave the decorator out:"
                    " annotated attributes are settings without it."
                )
            key = self._key()
            bounds = BOUNDS.setdefault(cls, WeakValueDictionary())
            found = bounds.get(key)
            if found is None:
                bounds[key] = found = _bind(self)
            object.__setattr__(self, "_made", found)
        return found

    def __setattr__(self, name: str, value: Any) -> None:
        if "_made" in self.__dict__ and not name.startswith("_"):
            raise errors.UsageError(
                f"{type(self).__name__}.{name} cannot change: the op is in use. Make"
                f" another, {type(self).__name__}({name}={value!r})."
            )
        object.__setattr__(self, name, value)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return bool(self._key() == other._key())

    def __hash__(self) -> int:
        return hash((type(self), self._key()))

    def __deepcopy__(self, memo: Any) -> Op:
        return self  # its settings do not change

    def __getstate__(self) -> dict[str, Any]:
        """Return what pickle keeps: not the op that programs hold, which is rebuilt."""
        held = ("_made", "_count")
        return {key: v for key, v in self.__dict__.items() if key not in held}


#: What is known of each class, and its ops by their settings: beside the classes, which
#: can be pickled then.
ENTRIES: WeakKeyDictionary[type[Op], RegisteredOp] = WeakKeyDictionary()
BOUNDS: WeakKeyDictionary[type[Op], WeakValueDictionary[Any, BoundOp]] = (
    WeakKeyDictionary()
)


def entry_of(cls: type[Op]) -> RegisteredOp:
    """Return the entry of a class in the list of user's ops; add one if missing."""
    found = ENTRIES.get(cls)
    if found is None:
        brings = next((n for n in ("vjp", "jvp") if cls._gives(n)), None)
        declared = cls.__dict__.get("n_outputs")
        found = ENTRIES[cls] = enter(
            RegisteredOp(
                cls.name,
                home_of(cls),
                None if brings is None else f"{cls.__name__}.{brings}",
                set() if declared is None else {declared},
                ref(cls),
            )
        )
    return found


def _make_fields(cls: type) -> None:
    """Make a dataclass of an op's class, unless already made.

    Not when the class is made, since a decorator may do it with settings of its own.
    A class with an ``__init__`` of its own stays as it is.
    """
    if not issubclass(cls, Op) or cls is Op or "__dataclass_fields__" in vars(cls):
        return
    maker = next(k for k in cls.__mro__ if "__init__" in vars(k))
    if maker is object or "__dataclass_fields__" in vars(maker):
        # Equality is that of `Op.__eq__`, which knows 1 from 1.0.
        dataclasses.dataclass(frozen=True, eq=False)(cls)


def _get_bound_op(op: Op) -> BoundOp:
    return op._bound_op


def _bind(op: Op) -> BoundOp:
    """Return an op with its settings, in the form that programs run."""
    made = BoundOp(op.name)
    made.owner = made.maker = op
    made.settings = op._settings
    made.custom = True
    made.cure = (
        f"The error comes from {type(op).__name__}.compute, called with these operands."
    )
    made.compute = Compute(op)
    # A second op without `infer` finds the result by running on examples.
    probe = Core(op.name)
    probe.compute = Probe(op)
    if op._gives("infer"):
        made.infer = partial(infer_declared, op)
    else:
        made.infer = lambda *specs, **params: infer_by_probe(op, probe, specs)
    if op._gives("batch"):
        made.batch = lambda inputs, batched, params: call_batch(op, inputs, batched)
    else:
        made.batch = partial(apply_to_batch, made)
    if op._gives("pattern"):
        made.pattern = partial(_read_pattern, op)
    if type(op)._lower is not Op._lower:
        made.lower = op._lower
    if op._gives("connection"):
        made.connection = lambda inputs, params: check_connection(op, len(inputs))
    OpRunner(
        made,
        op.vjp if op._gives("vjp") else None,
        op.jvp if op._gives("jvp") else None,
        f"Write vjp(self, node, *cotangents) in {type(op).__name__}, or register one:"
        f' @wb.register_gradient("{op.name}").',
        connection=made.connection,
    )
    return made


def _read_pattern(op: Op, node: Any) -> Any:
    """Return the relations of an op's `pattern` for a node."""
    from workbench.custom.dependence import read_declaration

    return read_declaration(op.name, op.pattern, node)


def _exact_key(value: Any) -> Any:
    """Return a key of a setting, in which equal values of other types differ."""
    if isinstance(value, tuple):
        return tuple, type(value), tuple(map(_exact_key, value))
    if type(value) is float:
        return float, value.hex()
    return type(value), value


# What `compute`, `infer` and `connection` return, looked at.


class Compute:
    """An op's value: `compute` on read-only arrays."""

    __slots__ = ("__name__", "op")

    def __init__(self, op: Op) -> None:
        self.op = op
        self.__name__ = op.name

    def __call__(self, *arrays: Any, **params: Any) -> Any:
        """Return the outputs; the settings are the op's own."""
        op = self.op
        lent = lend_arrays(arrays)
        try:
            made = op.compute(*lent)
        except ValueError as error:
            if (told := describe_change_in_place(error)) is None:
                raise
            raise errors.UsageError(
                f"{op.name}: {describe_rule(op.compute)} {told}. {COPY_CURE}"
            ) from error
        results, single = _check_results(op, made)
        if op._gives("infer"):
            _check_declared(op, lent, results)
        # A view of an input cannot be written, and a buffer that the op keeps would be
        # changed by the next call.
        owned = [
            y.copy()
            if type(y) is np.ndarray and (not y.flags.writeable or count > ALONE)
            else y
            for y, count in zip(results, _count_references(results), strict=True)
        ]
        return owned[0] if single else tuple(owned)

    def __repr__(self) -> str:
        return f"<{self.op!r}.compute>"


class Probe(Compute):
    """`compute` on examples, which are views of one number: nothing is copied."""

    __slots__ = ()

    def __call__(self, *arrays: Any, **params: Any) -> Any:
        """Return the outputs without a copy; they may be views."""
        made = self.op.compute(*lend_arrays(arrays))
        results, single = _check_results(self.op, made)
        return results[0] if single else tuple(results)


def infer_declared(op: Op, /, *specs: Any, **params: Any) -> Any:
    """Return the checked result of an op's ``infer``: a spec, or a tuple of them."""
    given = [s if isinstance(s, Spec) else types.spec_of(s) for s in specs]
    try:
        made = op.infer(*given)
    except errors.WorkbenchError:
        raise
    except Exception as error:  # whatever the user's code says of lengths
        if not dims.has_dim([s.shape for s in given]):
            raise
        raise errors.UnknownLengthError(
            "its infer needs numbers for the lengths"
        ) from error
    several = isinstance(made, (tuple, list))
    found = tuple(made) if several else (made,)
    for y in found:
        if not isinstance(y, Spec):
            raise errors.UsageError(
                f"{op.name}: {describe_rule(op.infer)} returned {y!r}. Return"
                " wb.Spec(shape, dtype) for one output, a tuple of them for"
                " several."
            )
    _note_count(op, len(found))
    return found if several else found[0]


def infer_by_probe(op: Op, probe: Core, specs: tuple[Any, ...]) -> Any:
    """Return the spec of a result, by running `compute` on examples."""
    try:
        return infer_spec(probe, specs, {})
    except (errors.UsageError, errors.TraceError):
        raise
    except Exception as error:
        given = ", ".join(repr(types.spec_of(s)) for s in specs)
        raise errors.TraceError(
            f"{op.name}({given}){blame.user_line()}: the shape of its result is not"
            f" known, since {describe_rule(op.compute)} does not run on arrays of ones"
            f" of that shape ({type(error).__name__}: {error}). Write infer(self,"
            f" *specs) in {type(op).__name__}, which returns wb.Spec(shape, dtype)."
        ) from error


def call_batch(op: Op, inputs: tuple[Any, ...], batched: tuple[bool, ...]) -> Any:
    """Call the op's own rule for batches; return one array per output."""
    made = op.batch(inputs, batched)
    return tuple(made) if isinstance(made, list) else made


def _check_results(op: Op, made: Any) -> tuple[list[Any], bool]:
    """Return the results of `compute` as a list, and whether there was a single one."""
    single = not isinstance(made, (tuple, list))
    if isinstance(made, list) and not any(map(_is_array, made)):
        single, made = True, np.asarray(made)  # host array: a list of numbers
    found = [made] if single else list(made)
    if not found:
        raise errors.UsageError(
            f"{op.name}: {describe_rule(op.compute)} returned no output. Return an"
            " array."
        )
    _note_count(op, len(found))
    return [
        _check_output(op, y, None if single else i) for i, y in enumerate(found)
    ], single


def _count_references(results: list[Any]) -> list[int]:
    """Return the number of references to each array, or to the base of a view."""
    return [
        sys.getrefcount(y)
        if getattr(y, "base", None) is None
        else sys.getrefcount(y.base) + ALONE - BASE
        for y in results
    ]


def _count_own_references() -> tuple[int, int]:
    """Return those numbers for an array without other references, and for a view."""
    made = np.zeros(2)  # host array: it is only counted
    results = [made]
    view = np.zeros(2)[:1]  # host array: likewise
    (alone,) = [sys.getrefcount(y) for y in results]
    return alone, sys.getrefcount(view.base)


ALONE, BASE = _count_own_references()


def _check_declared(op: Op, arrays: list[Any], results: list[Any]) -> None:
    """Raise an error if `compute` returned another shape or dtype than `infer` says."""
    said = op.infer(*map(types.spec_of, arrays))
    for i, (want, y) in enumerate(
        zip(said if isinstance(said, (tuple, list)) else (said,), results, strict=False)
    ):
        have = types.spec_of(y)
        if isinstance(want, Spec) and not _matches_spec(want, have):
            which = f" as output {i}" if len(results) > 1 else ""
            raise errors.ShapeError(
                f"{op.name}: {describe_rule(op.compute)} returned {have}{which}, and"
                f" {describe_rule(op.infer)} says {want}. The two must agree."
            )


def _matches_spec(want: Spec, have: Spec) -> bool:
    """Return whether a result is as `infer` says, which may leave lengths open."""
    return (
        want.dtype == have.dtype
        and len(want.shape) == len(have.shape)
        and all(
            n is None or n == m for n, m in zip(want.shape, have.shape, strict=True)
        )
    )


def _is_array(x: Any) -> bool:
    return hasattr(x, "shape") and hasattr(x, "dtype") and np.ndim(x) > 0


def _check_output(op: Op, y: Any, i: int | None) -> Any:
    """Return one output of `compute` as an array or a NumPy scalar."""
    which = "" if i is None else f" as output {i}"
    if y is None:
        raise errors.UsageError(
            f"{op.name}: {describe_rule(op.compute)} returned None{which}. Does a"
            " `return` lack at its end?"
        )
    if isinstance(y, Tensor):
        raise errors.UsageError(
            f"{op.name}: {describe_rule(op.compute)} returned a Tensor{which}. It"
            " computes with the arrays that it is given; a Tensor from outside must be"
            " an input."
        )
    if hasattr(y, "dtype") and hasattr(y, "shape"):
        if type(y) is not np.ndarray and isinstance(y, np.ndarray):
            y = types.strip_subclass(y)
        if getattr(y.dtype, "kind", "") != "O":
            return y
    made = np.asarray(y)  # host array: a number of Python's, or a list of them
    if made.dtype.kind not in "biufc":
        raise errors.DtypeError(
            f"{op.name}: {describe_rule(op.compute)} returned {type(y).__name__} of"
            f" dtype {made.dtype}{which}, which is not an array of numbers."
        )
    return made[()]


def _note_count(op: Op, count: int) -> None:
    """Note the number of outputs; raise an error if the number has changed."""
    known = op.__dict__.get("_count", type(op).n_outputs)
    if known is None:
        object.__setattr__(op, "_count", count)
        entry_of(type(op)).counts.add(count)
    elif count != known:
        said = "declares" if type(op).n_outputs is not None else "had"
        raise errors.UsageError(
            f"{op.name}: {describe_rule(op.compute)} returned"
            f" {format_count(count, 'output')}, but the op {said} {known}. An op has"
            " the same number of outputs each time."
        )


def check_connection(op: Op, inputs: int) -> list[list[bool]]:
    """Return the connection that an op declares, a row of outputs for each input.

    Raises
    ------
    UsageError
        If it is anything else.
    """
    declared: Any = op.connection()
    outputs = op.__dict__.get("_count", type(op).n_outputs)
    rows = list(declared) if isinstance(declared, (list, tuple)) else []
    fits = len(rows) == inputs and all(
        isinstance(row, (list, tuple))
        and len(row) == (len(rows[0]) if outputs is None else outputs)
        and all(isinstance(c, (bool, np.bool_)) for c in row)
        for row in rows
    )
    if not fits:
        whose = "" if outputs is None else f", here of {outputs}"
        raise errors.UsageError(
            f"{op.name}: {describe_rule(op.connection)} returned {declared!r}. Return"
            f" one list for each of its {format_count(inputs, 'input')}, and in it True"
            f" or False for each output{whose}."
        )
    return rows
