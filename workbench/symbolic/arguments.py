"""The inputs of a function of symbols, and the arguments that a call may give.

An array is checked against the symbol that it stands for, by rank, known lengths and
dtype, and named in the error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from workbench.core import blame, dims, tree, types
from workbench.core.shared import Shared, copy_state, matches_lengths, refuse_sparse
from workbench.core.tensor import IDENTITY, Tensor, read_argument
from workbench.core.trace import is_live
from workbench.core.types import Array, Spec
from workbench.errors import DtypeError, ShapeError, TraceError, UsageError


class Input(NamedTuple):
    """One argument of a function: a symbol, or a nest of symbols."""

    #: What it is called by; None where only its position tells.
    name: str | None
    symbols: list[Tensor]
    tree: tree.Tree


def is_symbol(x: object) -> bool:
    """Return whether ``x`` is a symbol: a leaf without value that functions take."""
    return (
        isinstance(x, Tensor)
        and x.op is IDENTITY
        and not x.inputs
        and x._value is None
        and not isinstance(x, Shared)
    )


def quote_symbol(x: Tensor, position: int | None = None) -> str:
    """Return the words for a symbol in an error: its name, or else its spec."""
    if x.name is not None:
        return repr(x.name)
    place = "" if position is None else f" number {position + 1}"
    return f"{place.strip()} {types.spec_of(x)}{blame.quote_site(x.site)}".strip()


def as_pairs(given: object, what: str, example: str) -> Iterator[tuple[Any, Any]]:
    """Return the items of a mapping, or of a sequence of pairs."""
    if given is None:
        return
    if isinstance(given, Mapping):
        yield from given.items()
        return
    if isinstance(given, (list, tuple)):
        for item in given:
            if not isinstance(item, (list, tuple)) or len(item) != 2:
                raise UsageError(
                    f"{what} is a mapping or a list of pairs; {item!r} is not a pair."
                    f" Write {what}={example}."
                )
            yield item[0], item[1]
        return
    raise UsageError(
        f"{what} is a mapping or a list of pairs, not {type(given).__name__}. Write"
        f" {what}={example}."
    )


class Signature:
    """The arguments of a function, and how a call becomes one array per symbol."""

    def __init__(self, inputs: object, defaults: object, name: str) -> None:
        self.function = name
        self.inputs = _as_inputs(inputs)
        self.symbols = [x for one in self.inputs for x in one.symbols]
        seen: dict[int, int] = {}
        for i, x in enumerate(self.symbols):
            if x.serial in seen:
                raise UsageError(
                    f"{name}: the symbol {quote_symbol(x)} is given twice among the"
                    f" inputs, at places {seen[x.serial] + 1} and {i + 1}. Give it"
                    " once."
                )
            seen[x.serial] = i
        #: Whether each argument is a symbol, none a nest of symbols.
        self.bare = all(one.tree is _BARE for one in self.inputs)
        self.places: dict[str, int] = {}
        #: Names of several arguments, which are given by position.
        self.ambiguous: set[str] = set()
        for i, one in enumerate(self.inputs):
            if one.name is not None:
                if one.name in self.places:
                    self.ambiguous.add(one.name)
                self.places[one.name] = i
        self.check: list[Callable[[Any], Any]] = [
            _make_checker(x, i) for i, x in enumerate(self.symbols)
        ]
        #: The default of an argument that is left out, by its symbol.
        self.defaults: dict[Tensor, Any] = {}
        for x, value in as_pairs(defaults, "defaults", "{x: 1.0}"):
            if not isinstance(x, Tensor) or x.serial not in seen:
                raise UsageError(
                    f"{name}: a default is given for {_describe_argument(x)}, which is"
                    f" none of the inputs ({self.list_arguments()}). Its keys are"
                    " symbols."
                )
            self.defaults[x] = copy_state(self.check[seen[x.serial]](value))

    def list_arguments(self) -> str:
        """Return the arguments by name, for errors."""
        names = [
            one.name or ", ".join(repr(x.spec) for x in one.symbols) or "()"
            for one in self.inputs
        ]
        return ", ".join(names) or "none"

    def arrays(self, args: tuple[Any, ...], named: dict[str, Any]) -> list[Any]:
        """Return one checked array per symbol, in order."""
        if self.bare and not named and len(args) == len(self.check):
            return [check(x) for check, x in zip(self.check, args, strict=True)]
        flat: list[Any] = []
        if not named and len(args) == len(self.inputs):
            nests = zip(self.inputs, args, strict=True)
            if all(one.tree.collect(x, flat) for one, x in nests):
                return [check(x) for check, x in zip(self.check, flat, strict=True)]
            flat = []
        given = self._by_place(args, named)
        for i, one in enumerate(self.inputs):
            if i not in given:
                flat += [self.defaults[x] for x in one.symbols]
                continue
            start = len(flat)
            for k, x in enumerate(self._leaves(one, given[i])):
                flat.append(self.check[start + k](x))
        return flat

    def _by_place(self, args: tuple[Any, ...], named: dict[str, Any]) -> dict[int, Any]:
        """Return the given value of each argument, keyed by position."""
        f, count = self.function, len(self.inputs)
        if len(args) > count:
            raise UsageError(
                f"{f} takes {count} argument{'s' * (count != 1)}"
                f" ({self.list_arguments()}), and is called with {len(args)}."
            )
        given = dict(enumerate(args))
        for name, value in named.items():
            place = self.places.get(name)
            if place is None:
                raise UsageError(
                    f"{f} has no argument {name!r}. Its arguments are"
                    f" {self.list_arguments()}."
                )
            if name in self.ambiguous:
                raise UsageError(
                    f"{f} has several arguments of the name {name!r}. Give them by"
                    " position."
                )
            if place in given:
                raise UsageError(
                    f"{f} is given {name!r} twice: by position and by name."
                )
            given[place] = value
        missing = [
            one.name or f"number {i + 1}"
            for i, one in enumerate(self.inputs)
            if i not in given and not all(x in self.defaults for x in one.symbols)
        ]
        if missing:
            raise UsageError(
                f"{f} is called without {', '.join(missing)}. It takes"
                f" {self.list_arguments()}."
            )
        return given

    def _leaves(self, one: Input, value: object) -> list[Any]:
        """Return the arrays of one argument, nested as its symbols are."""
        if one.tree is _BARE:
            return [value]
        try:
            return one.tree.leaves(value)
        except ValueError as error:
            difference = tree.describe_difference(one.tree, tree.flatten(value)[1])
            raise UsageError(
                f"{self.function}: {one.name or 'an argument'} is nested otherwise than"
                f" its symbols are: {difference}. Give one array for each symbol."
            ) from error


_BARE = tree.flatten(0.0)[1]

#: The dtypes of which Python has every value.
WHOLE = [np.dtype(kind) for kind in (bool, np.int64, np.float64, np.complex128)]


def _as_inputs(inputs: object) -> list[Input]:
    """Return the arguments of a function from its ``inputs``."""
    if isinstance(inputs, Tensor):
        inputs = [inputs]
    if isinstance(inputs, Mapping):
        items: list[tuple[Any, Any]] = list(inputs.items())
        for key, _ in items:
            if not isinstance(key, str):
                raise UsageError(
                    "the keys of a mapping of inputs are names, not"
                    f" {_describe_argument(key)}: wb.function({{'x': x}}, y), or"
                    " wb.function([x], y)."
                )
    elif isinstance(inputs, Sequence) and not isinstance(inputs, str):
        items = [(None, x) for x in inputs]
    else:
        raise UsageError(
            "the inputs of a function are a list of symbols, not"
            f" {_describe_argument(inputs)}: wb.function([x, y], x + y)."
        )
    made = []
    for name, x in items:
        leaves, structure = tree.flatten(x)
        for leaf in leaves:
            _check_symbol(leaf)
        if name is None and isinstance(x, Tensor):
            name = x.name
        made.append(Input(name, leaves, structure))
    return made


def _check_symbol(x: object) -> None:
    if is_symbol(x):
        return
    if not isinstance(x, Tensor):
        why, cure = "is not a symbol", "Make one: wb.scalar('x'), wb.vector('v')."
    elif isinstance(x, Shared):
        why = "is a shared value, which every function that reads it finds by itself"
        cure = "Leave it out, and change it with set_value, givens= or updates=."
    elif x._value is not None:
        why, cure = "has a value already", "Make a symbol: wb.scalar('x')."
    else:
        why = "is computed from others"
        cure = "Name the symbols it is made of, or replace it with givens={x: new}."
    shown = _describe_argument(x).removeprefix("the input ")
    raise UsageError(f"the input {shown} {why}. {cure}")


def _describe_argument(x: object) -> str:
    if isinstance(x, Tensor):
        return blame.describe(x) + blame.quote_site(x.site)
    return blame.shorten(repr(x))


def _make_checker(x: Tensor, position: int) -> Callable[[Any], Any]:
    """Return a function that turns an argument into an array that fits a symbol."""
    spec: Spec = types.spec_of(x)
    dtype, shape = spec.dtype, spec.shape
    if not shape and dtype.isnative and dtype.kind in "biufc":
        return _make_number_checker(x, position)
    known = all(isinstance(n, int) for n in shape)
    rank = len(shape)

    def check(value: Any) -> Any:
        if type(value) is np.ndarray and value.dtype == dtype:
            if value.shape == shape if known else value.ndim == rank:
                if known or matches_lengths(value.shape, shape):
                    return value
        return check_value(value, x, position)

    return check


def _defer_symbol(value: Tensor, spec: Spec, name: str) -> Array:
    """Return a Tensor for a symbol, with known lengths checked at run time."""
    have, want = value.shape, spec.shape
    late = [i for i, n in enumerate(have) if not isinstance(n, int)]
    if not late or len(have) != len(want) or dims.has_dim(want):
        return value
    if len(late) > 1 or 0 in want:
        raise ShapeError(
            f"the input {name} takes {spec}, and is given {_describe_argument(value)},"
            " whose lengths are known only when the program runs. Declare the symbol"
            " with another shape=, None for a length that may be any."
        )
    if any(have[i] != n for i, n in enumerate(want) if i not in late):
        return value
    # Of one length alone: a reshape fails unless it is that.
    return np.reshape(value, want)


def _make_number_checker(x: Tensor, position: int) -> Callable[[Any], Any]:
    """Return a function that turns an argument into a number for a symbol."""
    dtype = types.spec_of(x).dtype
    kind = dtype.type
    # Python's numbers that are of its kind and that it holds as they are.
    own = {"b": bool, "i": int, "f": float, "c": complex}.get(dtype.kind)
    plain = own if dtype in WHOLE else None

    def check(value: Any) -> Any:
        given = type(value)
        if given is kind:
            return value
        if given is plain:
            try:
                return kind(value)
            except OverflowError:
                pass  # an integer out of range: `check_value` tells
        elif given is np.ndarray and value.dtype == dtype and not value.shape:
            return value
        return check_value(value, x, position)

    return check


def check_value(value: Any, x: Tensor, position: int | None = None) -> Any:
    """Return a value in the dtype of a symbol, if rank and known lengths agree.

    Python's numbers and lists take the symbol's dtype where that is of their kind;
    an array is cast only where no value can change.

    Raises
    ------
    DtypeError, ShapeError
        Otherwise; with the name of the symbol.
    """
    spec: Spec = types.spec_of(x)
    name = quote_symbol(x, position)
    if isinstance(value, np.ndarray) and type(value) is not np.ndarray:
        try:
            value = types.strip_subclass(value)
        except TraceError as error:
            raise TraceError(f"the input {name}: {error}") from None
    if isinstance(value, Shared):
        value = value.state
    elif isinstance(value, Tensor) and not is_live(value):
        value = value._value
    refuse_sparse(value, f"the input {name}")
    value = read_argument(value)
    plain = not (hasattr(value, "dtype") and hasattr(value, "shape"))
    given = value
    if isinstance(value, Tensor):
        value = _defer_symbol(value, spec, name)
    if plain:
        value = _as_array(value, spec, name)
    if value.dtype.kind not in "biufc" and spec.dtype.kind in "biufc":
        raise DtypeError(
            f"the input {name} is given {_describe_argument(given)}, which is not an"
            f" array of numbers. It takes {spec}."
        )
    _check_shape(value, spec, name)
    if value.dtype == spec.dtype:
        return value if value.shape or not plain else value[()]
    if not np.can_cast(value.dtype, spec.dtype, "same_kind" if plain else "safe"):
        real = value.dtype.kind == "c" and spec.dtype.kind != "c"
        cure = (
            "Give its real part, or declare the symbol complex"
            if real
            else f"Cast it on purpose, .astype(np.{spec.dtype}), or declare the symbol"
            f" with dtype=np.{value.dtype}"
        )
        raise DtypeError(
            f"the input {name} takes {spec.dtype}, and is given {value.dtype}, which"
            f" it does not hold. {cure}."
        )
    made = value.astype(spec.dtype)
    if plain and spec.dtype.kind in "iu" and np.any(made != value):
        raise DtypeError(
            f"the input {name} takes {spec.dtype}, and {_describe_argument(given)} is"
            " out of its range."
        )
    return made if made.shape or not plain else made[()]


def _as_array(value: Any, spec: Spec, name: str) -> Any:
    """Return Python's numbers, in lists or not, as an array."""
    if isinstance(value, (Real, Decimal)) and not types.is_weak(value):
        value = float(value)  # a fraction
    try:
        return np.asarray(value)
    except ValueError as error:
        raise ShapeError(
            f"the input {name} is given a nest of uneven lengths: {error} It"
            f" takes {spec}."
        ) from error


def _check_shape(value: Any, spec: Spec, name: str) -> None:
    if matches_lengths(value.shape, spec.shape):
        return
    want, have = len(spec.shape), len(value.shape)
    axes = f"{want} {'axis' if want == 1 else 'axes'}"
    why = f"it has {axes}, not {have}" if want != have else "the lengths differ"
    raise ShapeError(
        f"the input {name} takes {spec}, and is given an array of shape"
        f" {tuple(value.shape)}: {why}. Declare it with another shape=, None for a"
        " length that may be any, or reshape what is given."
    )
