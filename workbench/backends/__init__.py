"""A Graph becomes a function of arrays.

`numpy.py` is the definition: it runs op by op what `core/schedule.py` has put in order.
`text.py` writes a graph as NumPy code, each op as `core/spelling.py` has it;
`compiled/` makes fused kernels of it; `profile.py` says what each step costs. What a
backend is to those who call it is said here: to add one, write a class that has what
`Executable` names, and put it into `BACKENDS` of `symbolic/function.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from workbench.backends.text import Form, Text
    from workbench.core.graph import Graph
    from workbench.core.schedule import Observer, Schedule


class Executable(Protocol):
    """A graph that a backend runs."""

    @property
    def graph(self) -> Graph:
        """The graph of the program."""

    @property
    def schedule(self) -> Schedule:
        """The order in which NumPy computes the nodes, and their slots."""

    @property
    def backend(self) -> str:
        """The backend of the next call, for the last shapes."""

    def run(self, arrays: Sequence[Any], observer: Observer | None = None) -> list[Any]:
        """Return the outputs for these inputs; an observer as for `Graph.run`."""

    def run_ready(self, arrays: Sequence[Any]) -> list[Any] | None:
        """Return the outputs of code ready for these arrays; None: use `run`."""

    def is_ready(self) -> bool:
        """Return whether code for the last shapes is in place, or refused."""

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the code is ready; return whether ready."""

    def release(self) -> None:
        """Let the memory go that is kept for the next call."""

    def text(self, form: Form | None = None) -> Text:
        """Return the program as NumPy code, in a form of the caller's."""

    @property
    def source(self) -> str:
        """The program as NumPy code."""

    @property
    def constants(self) -> dict[str, Any]:
        """The arrays that its code names but cannot spell out."""


class Backend(Protocol):
    """Makes an `Executable` of a graph; at once, in time linear in its size.

    With ``own`` it has a copy of each constant, which others may then write into.
    """

    def __call__(self, graph: Graph, own: bool = False) -> Executable:
        """Return the graph as a function."""
