"""`Programs`: the programs that a session runs again and again, compiled.

A session with a backend records the output and its gradients as one program of its
inputs, without values, once for the overrides that hold. NumPy runs it until compiled
code is ready. The values of all other nodes are computed when somebody looks at them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from typing import Any, NamedTuple

from workbench.backends.compiled import tiers
from workbench.backends.compiled.program import Program
from workbench.core import blame
from workbench.core.graph import Graph, inline
from workbench.core.tensor import Tensor
from workbench.errors import TraceError
from workbench.rewrite.driver import Replay, check_rewrites
from workbench.symbolic.function import BACKENDS

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
