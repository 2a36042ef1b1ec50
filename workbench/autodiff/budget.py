"""The budget of a gradient rule that is data: memory and work beside its program.

Such a rule comes from a file or a page, perhaps a stranger's. Before each of its steps
runs, it is recorded on shapes alone, and what its ops will make is added up; what is
beyond the budget is refused before any memory is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property
from math import prod
from typing import Any, NamedTuple

import numpy as np

from workbench.core.formatting import format_bytes
from workbench.core.graph import Graph
from workbench.core.infer import WATCHING
from workbench.core.op import Op
from workbench.core.tensor import Tensor
from workbench.core.trace import record
from workbench.core.types import as_spec, is_weak
from workbench.errors import UsageError

#: Entries of 8 bytes that a rule may hold at a time, however small its program is.
MOST_FREE = 10**7
#: Bytes that it may hold for each byte of the arrays that it is given.
GROWTH = 64
#: Steps of work, each about a nanosecond, however small its program is.
FREE_WORK = 3e9
#: Work for each entry that it is given, and for each entry of a product of matrices
#: that are as large: n**3 for n**2 entries.
WORK_EACH, WORK_PRODUCT = 1e4, 64.0


#: Nanoseconds for calling an op at all, for an entry that is read or made, and for one
#: whose position is found by sorting.
CALLED, COMPUTED, SORTED = 1e3, 20.0, 200.0
#: The same for a product and a sum, and for one of the n³ steps with a matrix.
MULTIPLIED, FACTORED = 4.0, 30.0
#: The same for recording an op, once for all operands of these shapes.
RECORDED = 5e4
#: As many ops one step may be made of.
MOST_OPS = 10_000


class Demand(NamedTuple):
    """The memory and work that a step takes, at most.

    Attributes
    ----------
    entries
        Entries of its results.
    work
        How many operations it takes, each about a nanosecond.
    """

    entries: float
    work: float


class Budget:
    """The budget of rules that are data: shared while one is open, else one each.

    A text is a rule of its own at every node; the nodes of a `workbench.graph_rule`
    share one.

    Parameters
    ----------
    given
        The arrays of the program: what the rules are given, or all its values.

    Examples
    --------
    >>> import numpy as np
    >>> budget = Budget([np.ones(3)])
    >>> budget.refusal(Demand(3e8, 3e8))
    '300,000,000 entries (2.4 GB), and a rule that is data may hold 80 MB at a time
    beside arrays of 24 bytes'
    """

    def __init__(self, arrays: Iterable[Any]) -> None:
        self._arrays = tuple(arrays)
        self.used_bytes = 0
        self.worked = 0.0

    @cached_property
    def given_bytes(self) -> int:
        """The bytes of the arrays of the program."""
        return count_bytes(self._arrays)

    @cached_property
    def bytes(self) -> int:
        """The bytes that the rules may hold at a time."""
        return 8 * MOST_FREE + GROWTH * self.given_bytes

    @cached_property
    def work(self) -> float:
        """The operations that the rules may take."""
        entries = count_entries(self._arrays)
        product: float = entries**1.5
        return FREE_WORK + WORK_EACH * entries + WORK_PRODUCT * product

    def refusal(self, demand: Demand, itemsize: int = 8) -> str:
        """Return the reason why a step exceeds the budget; empty if the step fits."""
        size = demand.entries * itemsize
        if (
            self.used_bytes + size <= 8 * MOST_FREE
            and self.worked + demand.work <= FREE_WORK
        ):
            return ""  # whatever is given
        if self.used_bytes + size > self.bytes:
            more = (
                f", of which {format_bytes(self.used_bytes)} are taken"
                if self.used_bytes
                else ""
            )
            return (
                f"{demand.entries:,.0f} entries ({format_bytes(size)}), and a rule"
                f" that is data may hold {format_bytes(self.bytes)} at a time{more}"
                f" beside arrays of {format_bytes(self.given_bytes)}"
            )
        if self.worked + demand.work > self.work:
            return (
                f"{demand.entries:,.0f} entries in some {demand.work:.2g} operations,"
                f" and a rule that is data may take {self.work:.2g} of arrays of"
                f" {format_bytes(self.given_bytes)}"
            )
        return ""

    def take(self, size: int, work: float) -> None:
        """Count the bytes and the work of a step."""
        self.used_bytes += size
        self.worked += work

    def give_back(self, size: int) -> None:
        """Subtract bytes that are released."""
        self.used_bytes -= size


_OPEN: ContextVar[Budget | None] = ContextVar("budget of rules", default=None)


def find_budget(arrays: Iterable[Any]) -> Budget:
    """Return the budget that is open, else one for these arrays alone."""
    return _OPEN.get() or Budget(arrays)


@contextmanager
def budget_for(arrays: Iterable[Any]) -> Iterator[Budget]:
    """Give the budget that is open, else one for these arrays, open inside.

    >>> import numpy as np
    >>> with budget_for([np.ones(3)]) as outer, budget_for([]) as inner:
    ...     inner is outer
    True
    """
    budget = find_budget(arrays)
    token = _OPEN.set(budget)
    try:
        yield budget
    finally:
        _OPEN.reset(token)


# What a step will make


class Weighed(NamedTuple):
    """A function, recorded on the shapes of operands, and its demand.

    There is no graph of numbers alone, which stay Python's, nor where lengths are those
    of another program: the function itself runs.
    """

    graph: Graph | None
    demand: Demand
    itemsize: int


#: For so many kinds of operands a function remembers what it makes.
MOST_KNOWN = 64


class WeighedFunction:
    """A function that data names: recorded for each kind of operands, and weighed.

    What runs is what has been recorded, not the function: NumPy's own may take another
    way, which nobody has weighed. On Tensors the function records the same again, where
    it is asked.

    Parameters
    ----------
    function
        What runs, ``function(*operands, **settings)``.
    varies
        Whether numbers among the operands differ from call to call, so that they are
        operands of the recorded program; else they are a part of it.

    Examples
    --------
    >>> import numpy as np
    >>> add = WeighedFunction(np.add)
    >>> add.run([np.ones(2), np.zeros((3, 1))], {}, Budget([])).shape
    (3, 2)
    """

    __slots__ = ("function", "known", "varies")

    def __init__(self, function: Callable[..., Any], varies: bool = False) -> None:
        self.function = function
        self.varies = varies
        self.known: dict[Any, Weighed] = {}

    def weigh(
        self, operands: Sequence[Any], settings: dict[str, Any], budget: Budget
    ) -> Weighed:
        """Return the program for these operands, and its demand.

        Raises
        ------
        BudgetError
            If the demand is beyond the budget.
        TraceError
            If the shape of a result depends on values.
        """
        kinds = [_describe(x, self.varies) for x in operands]
        key: Any = tuple(kinds)
        if settings:
            key = key, _describe(sorted(settings.items(), key=str))
        found = None
        try:
            found = self.known.get(key)
        except TypeError:  # settings of the node's own
            key = None
        if found is None:
            found = weigh(self.function, operands, settings, budget, self.varies)
            if key is not None:
                if len(self.known) >= MOST_KNOWN:
                    self.known.clear()
                self.known[key] = found
        if told := budget.refusal(found.demand, found.itemsize):
            raise BudgetError(told)
        return found

    def run(
        self, operands: Sequence[Any], settings: dict[str, Any], budget: Budget
    ) -> Any:
        """Return the result, or several in a row, and charge the budget for the work.

        What the results hold is charged by who keeps them.
        """
        found = self.weigh(operands, settings, budget)
        budget.take(0, found.demand.work)
        arrays = operands if self.varies else list_arrays(operands)
        if found.graph is None or any(isinstance(x, Tensor) for x in arrays):
            return self.function(*operands, **settings)
        # A warning is told at the node whose rule this is.
        made = found.graph.schedule.run(arrays)
        return made[0] if len(made) == 1 else made


def _describe(x: Any, varies: bool = False) -> Any:
    """Return a key of operands: shape and dtype of arrays, type or value of others.

    Numbers are what they look like, unless they vary: 0.0 and -0.0, 1 and True are
    equal to Python.
    """
    if type(x) is np.ndarray:
        return x.shape, x.dtype
    if isinstance(x, (list, tuple)):
        return type(x), tuple([_describe(part, varies) for part in x])
    if hasattr(x, "shape"):
        return x.shape, x.dtype, is_weak(getattr(x, "_value", None))
    if varies:
        return type(x)
    return type(x), repr(x) if isinstance(x, (float, complex)) else x


def _itemsize(x: Any) -> int:
    """Return the bytes of one entry of an operand or a result, the most of several."""
    if isinstance(x, (list, tuple)):
        return max(map(_itemsize, x), default=8)
    return int(getattr(getattr(x, "dtype", None), "itemsize", 8))


def weigh(
    function: Callable[..., Any],
    operands: Sequence[Any],
    settings: dict[str, Any],
    budget: Budget,
    varies: bool = False,
) -> Weighed:
    """Record a function on the shapes of operands, and sum the demands of its ops.

    Raises
    ------
    BudgetError
        As soon as an op that is recorded is beyond the budget.
    TraceError
        If the shape of a result depends on values.

    Examples
    --------
    >>> import numpy as np
    >>> outer = weigh(np.outer, [np.ones(3), np.ones(1000)], {}, Budget([]))
    >>> outer.demand.entries
    3000.0
    """
    arrays = list(operands) if varies else list_arrays(operands)
    numbers = not arrays
    if numbers:
        arrays = [np.asarray(operands[0])]  # host array: of numbers
    wide = max(8, *map(_itemsize, operands))
    if settings.get("dtype") is not None:
        wide = max(wide, np.dtype(settings["dtype"]).itemsize)
    total = _Sum(budget, wide)

    def call(leaves: list[Any]) -> Any:
        rest = iter(leaves)
        if numbers:
            return function(next(rest), *operands[1:], **settings)

        def fill(x: Any) -> Any:
            if isinstance(x, (list, tuple)):
                return type(x)([fill(part) for part in x])
            return next(rest) if varies or hasattr(x, "shape") else x

        return function(*map(fill, operands), **settings)

    token = WATCHING.set(total.add)
    try:
        graph = record(call, list(map(as_spec, arrays)))
    finally:
        WATCHING.reset(token)
        budget.take(0, RECORDED * total.count)
    constants = [y for y in graph.outputs if not isinstance(y, Tensor)]
    held = _count_peak(graph) + count_entries(constants)
    return Weighed(
        None if numbers or graph.captures else graph,
        Demand(held, total.work),
        total.itemsize,
    )


def _count_peak(graph: Graph) -> float:
    """Return the most entries that the values of a graph take at any time.

    A view takes none of its own, and keeps its base.
    """
    nodes = graph.interior
    owner: dict[int, int] = {}
    sizes: dict[int, int] = {}
    last: dict[int, int] = {}
    for k, node in enumerate(nodes):
        for x in node.inputs:
            if isinstance(x, Tensor):
                last[owner.get(x.serial, x.serial)] = k
        own, size, first = node.serial, count_entries(node.spec), node.inputs[0]
        if isinstance(first, Tensor) and _is_view(
            node.op, node.params, size, count_entries(node.inputs)
        ):
            own, size = owner.get(first.serial, first.serial), 0
        owner[node.serial] = own
        sizes[node.serial], last[own] = size, k
    for y in graph.outputs:
        if isinstance(y, Tensor):
            last[owner.get(y.serial, y.serial)] = len(nodes)
    ends: dict[int, list[int]] = {}
    for serial, k in last.items():
        ends.setdefault(k, []).append(serial)
    alive = peak = 0
    for k, node in enumerate(nodes):
        alive += sizes[node.serial]
        peak = max(peak, alive)
        alive -= sum([sizes.get(serial, 0) for serial in ends.get(k, ())])
    return float(peak)


def _is_view(op: Op, params: dict[str, Any], size: int, read: int) -> bool:
    """Return whether a result is a view of the first operand, and no larger."""
    return op.view is not None and size <= read and op.view.shares(params)


def list_arrays(operands: Sequence[Any]) -> list[Any]:
    """Return the arrays among operands, and in lists of them."""
    return list(_iterate_arrays(operands))


def _iterate_arrays(x: Any) -> Iterator[Any]:
    if isinstance(x, (list, tuple)):
        for part in x:
            yield from _iterate_arrays(part)
    elif hasattr(x, "shape"):
        yield x


class BudgetError(UsageError):
    """A recorded program is beyond a budget; the message tells the demand."""


class _Sum:
    """The sum of recorded ops: the entries of each alone, and the work of all."""

    def __init__(self, budget: Budget, itemsize: int) -> None:
        self.budget, self.itemsize = budget, itemsize
        self.work, self.count = CALLED, 0

    def add(
        self, op: Op, operands: Sequence[Any], params: dict[str, Any], made: Any
    ) -> None:
        """Add an op's entries and work, and refuse an op beyond the budget."""
        read, size = count_entries(list(operands)), count_entries(made)
        self.itemsize = max(self.itemsize, _itemsize(made))  # of floats made complex
        self.count += 1
        self.work += CALLED + _count_work(op, operands, params, read, size)
        entries = 0 if _is_view(op, params, size, read) else size
        work = self.work + RECORDED * self.count
        told = self.budget.refusal(Demand(entries, work), self.itemsize)
        if not told and self.count > MOST_OPS:
            told = f"more than {MOST_OPS:,} ops, and a rule that is data may not"
        if told:
            raise BudgetError(told)


def _count_work(
    op: Op, operands: Sequence[Any], params: dict[str, Any], read: int, size: int
) -> float:
    """Return about how many nanoseconds an op takes."""
    shapes = list(map(operand_lengths, operands))
    if op.elementwise:
        return COMPUTED * size
    if (spell := op.traits.subscripts) is not None:
        terms = spell(tuple(operands), **params).partition("->")[0].split(",")
        lengths: dict[str, int] = {}
        for term, shape in zip(terms, shapes, strict=True):
            for letter, n in zip(term, shape, strict=True):
                lengths[letter] = max(n, lengths.get(letter, 1))
        order = CALLED * len(terms) ** 3 if len(terms) > 2 else 0.0  # of the products
        return MULTIPLIED * prod(map(float, lengths.values())) * len(terms) + order
    if op.traits.contracts:
        return MULTIPLIED * prod(prod(map(float, shape)) for shape in shapes)
    if op.kind == "matrix":
        n = max(shapes[0][-2:], default=1)
        return FACTORED * (read + size) * n
    if op.traits.flat == "position":
        return SORTED * read
    return COMPUTED * (read if size < read else size)


# Sizes


def operand_lengths(x: object) -> tuple[int, ...]:
    """Return the shape of an operand, or of the array that a list makes.

    A length that nobody knows before the program runs counts as 1, and an empty one
    too: what is summed over it has all the others.
    """
    if isinstance(x, (list, tuple)):
        inner = [operand_lengths(part) for part in x]
        return (max(len(x), 1), *max(inner, key=prod, default=()))
    shape = getattr(x, "shape", ())
    return tuple([n if isinstance(n, int) and n else 1 for n in shape])


def count_entries(x: object) -> int:
    """Return the number of entries of an operand; of a list those of its parts."""
    if isinstance(x, (list, tuple)):
        return sum(map(count_entries, x))
    return prod(operand_lengths(x))


def count_bytes(x: object) -> int:
    """Return the size of an operand; of a list that of its parts."""
    if isinstance(x, (list, tuple)):
        return sum(map(count_bytes, x))
    return prod(operand_lengths(x)) * getattr(getattr(x, "dtype", None), "itemsize", 8)


def explain_excess(entries: float, arrays: Iterable[Any]) -> str:
    """Return the reason to refuse this many entries; empty if they are allowed.

    >>> explain_excess(10**6, []), explain_excess(10**9, [])[:28]
    ('', '1,000,000,000 entries (8 GB)')
    """
    if entries <= MOST_FREE:
        return ""
    return Budget(arrays).refusal(Demand(entries, 0.0))
