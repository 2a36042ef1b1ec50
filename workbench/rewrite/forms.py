"""A pattern as graphs: a function of wildcards, recorded for their possible values.

NumPy's functions may record other ops for other ranks and kinds of numbers. So a
pattern is recorded for those that a program has, once each; forms of the same
structure count once. Which settings and constants it has is asked of the form for the
very shapes of a match.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import product
from typing import Any, NoReturn

import numpy as np

from workbench.core import types, walk
from workbench.core.op import Op, declare
from workbench.core.tensor import IDENTITY, Tensor
from workbench.core.trace import record
from workbench.core.types import Spec
from workbench.errors import OverrideError, WorkbenchError
from workbench.ops import define

#: Rank and kind of numbers of a value: ``(2, "f")``.
Kind = tuple[int, str]
#: As many forms for exact shapes a pattern keeps.
MOST_EXACT = 1_000
#: As many combinations of kinds a pattern is recorded for.
MOST_FORMS = 4096
#: The length of each axis where only the structure is asked for: all fit together.
LENGTH = 3
DTYPES = {"f": "f8", "c": "c16", "i": "i8", "u": "u8", "b": "?"}

#: What makes a Python number a scalar of NumPy: no step that anybody has written.
STRONG = declare("strong")
#: What a function may fail with for ranks that it is not meant for.
UNFIT = (WorkbenchError, ValueError, TypeError, IndexError, ArithmeticError,
         NotImplementedError)  # fmt: skip


class PatternForm:
    """A pattern as a graph, for values of some shapes and dtypes.

    Attributes
    ----------
    leaves
        The wildcards.
    root
        What the pattern computes.
    nodes
        The ops between them, ascending.
    """

    def __init__(self, leaves: Sequence[Tensor], root: Tensor) -> None:
        self.leaves = list(leaves)
        self.root = skip_identities(root)
        stop = {x.serial for x in leaves}
        first = min(stop, default=0)
        self.nodes = [
            x
            for x in walk.order_nodes([self.root], first, stop)
            if x.serial not in stop and x.op is not STRONG
        ]
        self.own = stop | {x.serial for x in self.nodes}

    @property
    def unread(self) -> list[str]:
        """The names of the wildcards that the form does not read."""
        read = {x.serial for n in self.nodes for x in read_operands(n)
                if isinstance(x, Tensor)}  # fmt: skip
        return [str(x.name) for x in self.leaves if x.serial not in read]

    @cached_property
    def structure(self) -> Any:
        """The ops and the operands of each, without settings and constants."""
        place = {x.serial: i for i, x in enumerate([*self.leaves, *self.nodes])}
        return tuple(
            (
                n.op.name,
                *[
                    place.get(x.serial, -1) if isinstance(x, Tensor) else -1
                    for x in read_operands(n)
                ],
            )
            for n in self.nodes
        )

    @cached_property
    def details(self) -> Sequence[tuple[Op, Mapping[str, Any], list[tuple[int, Any]]]]:
        """The op, settings and constants of each node, which the structure leaves open.

        Constants stand with the number of the operand.
        """
        made = []
        for n in self.nodes:
            constants = [
                (i, x)
                for i, x in enumerate(read_operands(n))
                if not isinstance(x, Tensor) or x.serial not in self.own
            ]
            made.append((n.op, n.settings, constants))
        return made


class Forms:
    """A pattern's function, and its recorded forms.

    It is tried with arrays of the given ranks first.

    Raises
    ------
    OverrideError
        If it cannot be a pattern: it has no parameters, ignores one, returns no
        Tensor, or nothing but a parameter.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        text: str,
        ranks: Sequence[int] = (1, 2, 3, 0),
    ) -> None:
        self.function = function
        #: What errors call it.
        self.text = text
        self.names = find_wildcards(function)
        self.exact: dict[Any, PatternForm | None] = {}
        self.known: dict[Any, list[PatternForm]] = {}
        self.failed: Exception | None = None
        #: The structures that it has for arrays of one rank.
        self.usual: set[Any] = set()
        for rank in ranks:
            form = self.record_form([make_spec((rank, "f"))] * len(self.names))
            if form is not None:
                if form.unread:
                    self.refuse(
                        f"it does not read {form.unread[0]!r}",
                        "Each parameter is a wildcard for a value that it reads: leave"
                        " out what is not part of the structure.",
                    )
                if rank:
                    self.usual.add(form.structure)

    def record_form(self, specs: Sequence[Any]) -> PatternForm | None:
        """Return the form for these values; None if the function refuses them."""
        try:
            with np.errstate(all="ignore"):
                made = record(
                    lambda leaves: self.function(*leaves), specs, list(self.names)
                )
        except UNFIT as error:
            self.failed = self.failed or error
            return None
        if len(made.outputs) != 1:
            self.refuse(
                f"it returns {len(made.outputs)} values",
                "It computes one array; a part with several outputs is named by"
                " wb.subgraph(outputs, inputs).",
            )
        root = made.outputs[0]
        if any(root is x for x in made.leaves):
            self.refuse(
                "it computes nothing",
                "It is made of ops: lambda x: np.tanh(x). Every node is meant by the"
                " target lambda node: True.",
            )
        first = min(x.serial for x in made.leaves)
        if not isinstance(root, Tensor) or root.serial < first:
            self.refuse(
                "it returns a constant", "Return what it computes from its parameters."
            )
        form = PatternForm(made.leaves, root)
        return form

    def forms_for(self, kinds: Iterable[Kind]) -> list[PatternForm]:
        """Return one form per structure of the function for values of these kinds.

        Empty where the function fails for all of them: `failed` says why.
        """
        kinds = sorted(set(kinds) or {(0, "f")}, key=lambda k: ("fcbiu".find(k[1]), k))
        key = tuple(kinds)
        if key not in self.known:
            found: dict[Any, PatternForm] = {}
            arrays = set(self.usual)
            for chosen in self.combinations(kinds):
                form = self.record_form([make_spec(kind) for kind in chosen])
                if form is not None and not form.unread:
                    structure = form.structure
                    found.setdefault(structure, form)
                    if all(rank for rank, _ in chosen):
                        arrays.add(structure)
            # Of numbers some functions make another op (`np.dot` multiplies): where
            # there is a form for arrays, 0.1 * s + t is no np.dot(W, x) + b.
            found = {
                key: form for key, form in found.items() if not arrays or key in arrays
            }
            self.known[key] = list(found.values())
        return self.known[key]

    def combinations(self, kinds: Sequence[Kind]) -> Iterator[tuple[Kind, ...]]:
        """Return the kinds to try: all combinations, or those of floats."""
        count = len(self.names)
        if len(kinds) ** count <= MOST_FORMS:
            return product(kinds, repeat=count)
        floats = [kind for kind in kinds if kind[1] == "f"] or list(kinds)
        if len(floats) ** count > MOST_FORMS:
            self.refuse(
                f"its {count} wildcards may each be of {len(floats)} ranks here, which"
                f" is more than {MOST_FORMS:,} combinations",
                "Make it of fewer wildcards, or name the part by wb.subgraph(outputs,"
                " inputs).",
            )
        return product(floats, repeat=count)

    def form_at(self, bound: Sequence[Any]) -> PatternForm | None:
        """Return the form for the exact shapes and dtypes of the wildcards' values."""
        specs = [types.spec_of(x) for x in bound]
        if not all(isinstance(n, int) for s in specs for n in s.shape):
            return self.record_form(specs)  # an unknown length is that of one array
        key = tuple([(s.shape, s.dtype, s.weak) for s in specs])
        if key not in self.exact:
            if len(self.exact) >= MOST_EXACT:
                self.exact.clear()
            self.exact[key] = self.record_form(specs)
        return self.exact[key]

    def refuse(self, what: str, cure: str) -> NoReturn:
        """Raise an error that names the pattern."""
        stop = "" if what.endswith((".", "?")) else "."
        raise OverrideError(f"{self.text}: {what}{stop} {cure}".rstrip())


def find_wildcards(function: Callable[..., Any]) -> tuple[str, ...]:
    """Return the names of the parameters without default."""
    if not callable(function):
        raise OverrideError(
            f"a pattern is a function of arrays, not {function!r}. Write"
            " wb.pattern(lambda W, x, b: W @ x + b)."
        )
    try:
        given = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        if isinstance(function, np.ufunc):
            return tuple(f"x{i}" for i in range(function.nin))
        raise OverrideError(
            f"the parameters of {function!r} cannot be read. Write a function of your"
            " own around it: wb.pattern(lambda x: ...)."
        ) from None
    if isinstance(function, np.ufunc):
        return tuple(f"x{i}" for i in range(function.nin))
    found = []
    for one in given:
        if one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD):
            raise OverrideError(
                f"a pattern has as many wildcards as its function has parameters, and"
                f" {one} may be any number. Name them: lambda W, x, b: ..."
            )
        if one.default is one.empty:
            if one.kind is one.KEYWORD_ONLY:
                raise OverrideError(
                    f"the wildcard {one.name!r} of a pattern is a keyword. Wildcards"
                    " are given by position: write it before the *."
                )
            found.append(one.name)
    if not found:
        raise OverrideError(
            "a pattern without parameters matches nothing: its parameters stand for"
            " any values. Write wb.pattern(lambda x: 2 * x + 1)."
        )
    return tuple(found)


def make_spec(kind: Kind) -> Spec:
    """Return an example spec for a rank and a kind of numbers."""
    return Spec((LENGTH,) * kind[0], np.dtype(DTYPES.get(kind[1], "f8")))


def read_operands(node: Tensor) -> tuple[Any, ...]:
    """Return the values that a node computes with, behind steps nobody has written."""
    return tuple(map(skip_identities, node.operands))


def skip_identities(x: Any) -> Any:
    """Return the value behind the steps that nobody has written.

    Those are the identities that functions wrap their arguments in, and what makes a
    Python number a scalar of NumPy.
    """
    while isinstance(x, Tensor) and (x.op is IDENTITY or x.op is STRONG) and x.inputs:
        x = x.inputs[0]
    return x


# What a wildcard stands for, and when two values or settings are the same.

#: In the place of a value that is not known yet.
MISSING = object()


def kinds_of(nodes: Sequence[Tensor], known: Collection[int]) -> set[Kind]:
    """Return the ranks and kinds of numbers that a program has.

    ``known`` are the serials of the nodes.
    """
    outside = [
        x
        for node in nodes
        for x in node.inputs
        if not (isinstance(x, Tensor) and x.serial in known)
    ]
    held = [x._value if isinstance(x, Tensor) else x for x in (*nodes, *outside)]
    found = {(x.ndim, x.dtype.kind) for x in held if type(x) is np.ndarray}
    weak = {type(x) for x in held if types.is_weak(x)}
    found.update((0, np.result_type(one).kind) for one in weak)
    for x, value in zip((*nodes, *outside), held, strict=True):
        if type(value) is np.ndarray or type(value) in weak:
            continue
        spec = x.spec if value is None and isinstance(x, Tensor) else value
        shape, dtype = getattr(spec, "shape", None), getattr(spec, "dtype", None)
        if shape is not None and dtype is not None:
            found.add((len(shape), dtype.kind))
    return {kind for kind in found if kind[1] in "fcbiu"}


def number_of(x: Any) -> complex | None:
    """Return the value of a constant that is one number, else None."""
    if type(x) in types.WEAK_TYPES or (
        isinstance(x, (np.number, np.ndarray)) and x.shape == () and x.dtype != object
    ):
        return complex(x)
    return None


def is_value(x: Any) -> bool:
    """Return whether a wildcard may stand for a value: one array or number."""
    if isinstance(x, Tensor):
        return type(x._value) is np.ndarray or define.output_values(x) is None
    return types.is_weak(x) or (hasattr(x, "dtype") and hasattr(x, "shape"))


def is_same_value(a: Any, b: Any) -> bool:
    """Return whether two places hold one value: the same Tensor, or equal constants."""
    if isinstance(a, Tensor) or isinstance(b, Tensor):
        return a is b or (a is not MISSING and skip_identities(a) is skip_identities(b))
    return a is not MISSING and is_equal_constant(a, b)


def is_alike(x: Any, y: Any, depth: int = 4) -> bool:
    """Return whether two values are the same, or alike functions of the same values.

    The operands of a commutative op may stand in either order.
    """
    if is_same_value(x, y):
        return True
    x, y = skip_identities(x), skip_identities(y)
    if not (depth and isinstance(x, Tensor) and isinstance(y, Tensor)):
        return False
    if not x.inputs or x.op is not y.op or not x.op.elementwise or x.op.custom:
        return False  # inputs of a program are alike to nothing but themselves
    if not has_same_settings(x.params, y.params):
        return False
    orders = [y.inputs, y.inputs[::-1]] if x.op.traits.commutative else [y.inputs]
    return any(
        all(is_alike(a, b, depth - 1) for a, b in zip(x.inputs, order, strict=True))
        for order in orders
    )


def is_equal_constant(a: Any, b: Any) -> bool:
    """Return whether two constants are equal, numbers and arrays by their entries."""
    if a is b:
        return True
    if type(a) in types.WEAK_TYPES and type(b) in types.WEAK_TYPES:
        return bool(a == b)
    if not (is_value(a) and is_value(b)):
        return type(a) is type(b) and bool(a == b)
    if types.spec_of(a).shape != types.spec_of(b).shape:
        return False
    found = a == b
    return bool(found if types.is_weak(found) else found.all())


def has_same_settings(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    """Return whether two nodes of an op have the same settings."""
    if a is b or not (a or b):
        return True
    if a.keys() != b.keys():
        return False
    try:
        return all(
            x is b[key] or (type(x) is type(b[key]) and bool(x == b[key]))
            for key, x in a.items()
        )
    except (TypeError, ValueError):
        return False


def name_wildcards(names: Sequence[str], bound: Sequence[Any]) -> dict[str, Any]:
    """Return the values of the wildcards by name; a Python number as an array."""
    return {
        name: np.asarray(x) if types.is_weak(x) else x  # host array: a number
        for name, x in zip(names, bound, strict=True)
    }
