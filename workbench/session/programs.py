"""`Programs`: the programs that a session runs again and again, compiled.

A session with a backend records the output and its gradients as one program of its
inputs, without values, once for the overrides that hold. NumPy runs it until compiled
code is ready. The values of all other nodes are computed when somebody looks at them.
`Rewriting` is the derivative as a program of its own.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from workbench.backends.compiled import tiers
from workbench.backends.compiled.program import Program
from workbench.core import blame
from workbench.core.graph import Graph, inline
from workbench.core.tensor import Tensor
from workbench.errors import TraceError
from workbench.rewrite.driver import Key, Replay, check_rewrites, prepare_replay
from workbench.rewrite.rule import Rule
from workbench.symbolic.function import BACKENDS

if TYPE_CHECKING:
    from workbench.session.state import State

#: A session keeps so many programs, those of the overrides that held last.
MOST_PROGRAMS = 8


class Recorded(NamedTuple):
    """A program of a session, or why there is none.

    Attributes
    ----------
    function
        What runs it; None if it cannot be recorded.
    refusal
        Why not.
    ids
        The ids of the nodes that the origins of its nodes lead to, by serial.
    """

    function: tiers.TieredFunction | None
    refusal: str | None
    ids: Mapping[int, int]


class Programs:
    """The programs of a session, by the overrides that hold.

    Parameters
    ----------
    backend
        ``"compiled"`` or ``"auto"``.
    tell
        Called, from another thread, when compiled code is ready.
    """

    #: They run here, and their steps can be timed.
    is_local = True

    def __init__(self, backend: str, tell: Callable[[], object]) -> None:
        self.backend = backend
        self._tell = tell
        self._known: OrderedDict[Hashable, Recorded] = OrderedDict()
        #: The kernels of the program that was looked at last, with it: `profile.py`.
        self.kernels: tuple[Any, Any] = None, None

    def renew(self) -> Programs:
        """Return programs of the same backend, none of them made yet."""
        return Programs(self.backend, self._tell)

    def find(self, key: Hashable) -> tiers.TieredFunction | None:
        """Return the program of some overrides; None if refused or not made yet."""
        found = self._known.get(key)
        return None if found is None else found.function

    def find_reason(self, key: Hashable) -> str | None:
        """Return the reason why NumPy computes for good; None if there is none.

        With ``auto``, which promises nothing, there is no reason to give.
        """
        found = self._known.get(key)
        if self.backend == "auto" or found is None:
            return None
        return found.refusal if found.function is None else found.function.reason

    def make(
        self, key: Hashable, record: Callable[[], tuple[Graph, Mapping[int, int]]]
    ) -> Recorded:
        """Return the program of some overrides, recorded if need be."""
        if key not in self._known:
            self._known[key] = self._compile(record)
            if len(self._known) > MOST_PROGRAMS:
                self._known.popitem(last=False)
        self._known.move_to_end(key)
        return self._known[key]

    def _compile(
        self, record: Callable[[], tuple[Graph, Mapping[int, int]]]
    ) -> Recorded:
        try:
            graph, ids = record()
            _refuse_masks(graph)
            simplified = Replay(inline(graph), check_rewrites((), (), False)).run()
            function = BACKENDS[self.backend](simplified, own=True)
        except Exception as error:  # a rule of the user's that looks at values, say
            refusal = f"it cannot be recorded without values: {error}"
            return Recorded(None, refusal, {})

        def tell(_: Program) -> None:
            self._tell()

        assert isinstance(function, tiers.TieredFunction)
        function.on_compiled = tell
        function.has_warned = True  # the session does, in its own words
        return Recorded(function, None, ids)

    def release(self) -> None:
        """Let the memory go that compiled code keeps for the next run."""
        for one in self._known.values():
            if one.function is not None:
                one.function.release()


def _refuse_masks(graph: Graph) -> None:
    """Raise an error if a mask takes entries: another number of them in each run."""
    for node in graph.interior:
        if "key" in node.params and any(
            isinstance(x, Tensor) and x._value is None and x.dtype.kind == "b"
            for x in node.inputs[1:]
        ):
            raise TraceError(
                f"the mask of {blame.describe(node)}{blame.quote_site(node.site)} takes"
                " another number of entries for other values. Write np.where(mask, x,"
                " 0) for sums"
            )


# The derivative as a program: as the chain rule writes it, and simplified.

#: So many programs at steps are kept: those that a page goes to and fro between.
MOST_KEPT = 8


_TEMPORARY = re.compile(r"t[1-9][0-9]{0,8}")


def _name_temporary(number: int, used: Iterable[int]) -> str:
    """Return the name of a temporary, past the numbers that are used, ascending.

    >>> [_name_temporary(k, [1, 3]) for k in (1, 2, 3)]
    ['t2', 't4', 't5']
    """
    for one in used:
        number += one <= number
    return f"t{number}"


class Rewriting:
    """One simplification of a session's derivative, with the program at each step."""

    def __init__(self, replay: Replay) -> None:
        self.replay = replay
        self._known: dict[int, tuple[Graph, dict[int, Key]]] = {}

    @property
    def result(self) -> Graph:
        """The program in its last form."""
        return self._finished[0]

    @property
    def keys(self) -> dict[int, Key]:
        """The key of each node of all steps, by its serial."""
        return self._finished[1]

    def find_names(
        self, keys: Mapping[int, Key] | None = None, taken: Iterable[str] = ()
    ) -> dict[int, str]:
        """Return names for the nodes that the user has not named, by serial.

        Temporaries are numbered in the order of the program, ``t1``, ``t2``, further
        on by the steps that make them: a name means one node at all steps. Names that
        are ``taken`` are left out.
        Without ``keys`` those of the nodes of all steps.
        """
        used = sorted({int(x[1:]) for x in taken if _TEMPORARY.fullmatch(x)})
        numbers, count = self._numbers, len(self._numbers)
        names = {}
        for serial, key in (self._finished[1] if keys is None else keys).items():
            step, place = key
            if step:
                names[serial] = _name_temporary(count + step, used) + "′" * place
            elif key in numbers:
                names[serial] = _name_temporary(numbers[key], used)
        return names

    @cached_property
    def _numbers(self) -> dict[Key, int]:
        nodes = self.replay.program.nodes
        places = [i for i, x in enumerate(nodes) if x.inputs and not x.name]
        return {(0, place): number for number, place in enumerate(places, 1)}

    @cached_property
    def _finished(self) -> tuple[Graph, dict[int, Key]]:
        return self.replay.run_with_keys()

    def find_program(self, number: int) -> tuple[Graph, dict[int, Key]]:
        """Return the program after so many steps, and the key of each of its nodes."""
        found = self._known.pop(number, None) or self.replay.run_with_keys(number)
        self._known[number] = found  # as the one used last
        while len(self._known) > MOST_KEPT:
            del self._known[next(iter(self._known))]
        return found


def find_rewriting(
    state: State,
    rules: Iterable[Rule] = (),
    *,
    without: Collection[str] = (),
    fast: bool = False,
) -> Rewriting:
    """Return the simplification of a session's derivative; the last one is kept."""
    replay = prepare_replay(state.chain_rule, rules, without=without, fast=fast)
    known: Rewriting | None = state.rewriting
    if known is None or known.replay != replay:
        state.rewriting = known = Rewriting(replay)
    return known


def simplify_gradients(
    state: State,
    rules: Iterable[Rule] = (),
    *,
    without: Collection[str] = (),
    fast: bool = False,
) -> Graph:
    """Return the gradients as a program, simplified step by step; overrides applied.

    See `Session.simplify`.
    """
    return find_rewriting(state, rules, without=without, fast=fast).result
