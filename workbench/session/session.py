"""`Session`: one traced program with every stage kept, and its overrides.

The values are one stage, the gradients the next; a change runs only the later stages.
All that a session holds at one moment is a `State`, which never changes: a method of
`Session` asks a function for the next state, takes it and notifies the listeners. These
functions, and those that look at a state, stand in the files of their subjects. `wire/`
writes what the page shows; nothing here knows a notebook.
"""

from __future__ import annotations

import threading
import warnings
import weakref
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from copy import copy as copied
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Self, overload

import numpy as np

from workbench.checks.doctor.finding import Finding, Findings
from workbench.checks.progress import BUDGET, Progress, ProgressMeter
from workbench.core import hooks
from workbench.core.arguments import check_graph
from workbench.core.blame import format_count
from workbench.core.graph import Graph
from workbench.core.tensor import Tensor
from workbench.errors import LoopStoppedError, UnknownNodeError, UsageError
from workbench.ops.define import shape_of
from workbench.overrides.override import Override
from workbench.overrides.resolution import Resolution
from workbench.rewrite.rule import Rule
from workbench.session import applied_override, checks, stages, storage
from workbench.session import derivative as derivatives
from workbench.session.applied_override import (
    AppliedOverride,
    attached_overrides,
    check_rule,
    join_lines,
)
from workbench.session.branch import MOST_BRANCHES, InputRules, ask_update, find_runs
from workbench.session.comparison import (
    NormChanges,
    Preview,
    Side,
    measure_other,
    measure_present,
    measure_run,
    measure_truth,
    preview_override,
)
from workbench.session.derivative import Derivative
from workbench.session.derivative_program import simplify_gradients
from workbench.session.history import EntryValue, History
from workbench.session.inner_program import InnerProgram, open_inside
from workbench.session.nodes import (
    Arrays,
    Node,
    Nodes,
    copy_for_user,
    fit_input,
    name_entry,
    quote_argument,
    read_number,
    read_real_entries,
)
from workbench.session.objective import Objective, check_name
from workbench.session.profile import SessionProfile, measure_profile
from workbench.session.programs import Programs
from workbench.session.repeats import scope_stores
from workbench.session.stages import Backward, Values
from workbench.session.state import FairLock, Found, LoopView, State, with_lock
from workbench.session.stop_condition import StopCondition, find_stop_nodes
from workbench.session.timeline import Timeline
from workbench.symbolic.function import check_backend

if TYPE_CHECKING:
    from workbench.checks.report import Report

#: The most runs of the past that pages look at, of which all arrays are there.
MOST_VIEWS = 4


class Session:
    """A traced program that can be inspected, overridden and run again.

    Its gradients are computed at first use, and then with each change.

    Parameters
    ----------
    graph
        The program, from a ``%%autodiff`` cell or :func:`workbench.trace`.
    output
        The Tensor to differentiate, or its name; by default the last output.
    wrt
        The Tensors to differentiate by, or their names; by default every float input
        that the output depends on.
    name
        The variable name of the session in its own code.
    seed
        The cotangent of an output that is not one number, in its shape.
    copy
        Whether to copy the inputs and values that share their memory, so that later
        changes in place do not reach the session. False if nothing else uses them.
    lent
        Other arrays that may change; values that share memory with one of them are
        copied too.
    backend
        What computes the output and the gradients in :meth:`run`. ``"numpy"`` computes
        node by node. ``"compiled"`` compiles the gradients as one program in the
        background, from the first run on; until that is ready, and where it cannot
        be, NumPy answers. ``"auto"`` compiles once NumPy has spent some time on it.
        What else is looked at, the picture of a node say, is computed then, by NumPy.

    Raises
    ------
    NonScalarOutputError
        If the output is several numbers and there is no seed.
    DisconnectedInputError
        If the output does not depend on something in ``wrt``.
    DtypeError
        If something in ``wrt`` is of integer dtype.

    Notes
    -----
    Gradients are computed under the ``np.errstate`` of the moment when the session was
    made or last changed, not of that when they are read.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> def loss(w, x):
    ...     return np.sum(np.tanh(w * x))
    >>> session = wb.Session(wb.trace(loss)(np.ones(2), np.ones(2)), wrt=["w"])
    >>> session
    <Session 'ad': sum = 1.52319 by w; 5 nodes>
    >>> session.grads["w"]
    array([0.41997434, 0.41997434])
    >>> session.override("tanh", "clip(d, -0.1, 0.1)")
    <override 1: clip ±0.1 on every tanh; changes w by 76 %>
    >>> session.grads["w"]
    array([0.1, 0.1])
    >>> session.undo()
    """

    def __init__(
        self,
        graph: Graph,
        output: Node | None = None,
        wrt: Iterable[Node] | None = None,
        *,
        name: str = "ad",
        seed: Any = None,
        copy: bool = True,
        lent: Iterable[Any] = (),
        backend: str = "numpy",
    ) -> None:
        if type(graph) is not Graph:
            check_graph(graph, "a Session", "wb.Session({})")
        #: Its variable name in its own code.
        self.name = check_name(name)
        #: Its nodes by name and id.
        self.nodes = Nodes(graph, name)
        self._fair_lock = FairLock()
        self._listeners: list[Callable[[str], object]] = []
        programs = None
        if check_backend(backend) != "numpy":
            programs = Programs(backend, partial(_notify, self._listeners, "backend"))
        self._has_warned = False
        self._timeline = Timeline(self.nodes, weakref.ref(self))
        # The last report and findings, each with its state.
        self._checked: Found[Report] | None = None
        self._diagnosed: Found[Findings] | None = None
        # The last profile, with the overrides that held.
        self._profiled: tuple[tuple[Override, ...], SessionProfile] | None = None
        objective = Objective(self.nodes, graph, output, wrt, seed)
        #: The id of the node that is differentiated.
        self.output = objective.output
        #: The ids of the nodes it is differentiated by.
        self.wrt = objective.wrt
        #: The cotangent of an output that is not one number.
        self.seed = objective.seed
        #: What `stop_when` has set; remove one, or clear all, and loops go on.
        self.stops: list[StopCondition] = []
        #: What `run_again` has made, the last one last.
        self.branches: list[Session] = []
        #: The first run of a branch that is its own; None if it is no branch.
        self.branch_step: int | None = None
        #: What a branch is called; "" if it is none.
        self.branch_name = ""
        # How many branches there have been from each run.
        self._branch_counts: Counter[int] = Counter()
        # What pages look at of the past, by the run.
        self._views: dict[int, Session] = {}
        #: The thread that ran it last; None once its loop is over.
        self._runner: int | None = None
        #: What that thread reads until its next run; None: the last state.
        self._step: LoopView | None = None
        #: Its current state.
        owned = stages.own_arrays(graph, lent) if copy else graph
        if copy:
            scope_stores(owned)
        self._last = State(objective, Values(owned), programs=programs)
        self.nodes.graph = owned

    @property
    def _state(self) -> State:
        """Its state: the last one, or in the midst of a step that of the step."""
        step = self._step
        if (
            step is None
            or step.thread != threading.get_ident()
            or self._fair_lock.is_owned()  # whoever changes it goes on from the last
        ):
            return self._last
        return step.state

    # Its stages

    @property
    def graph(self) -> Graph:
        """The program, forward."""
        return self.forward.graph

    @property
    def forward(self) -> Values:
        """The stage of the values."""
        forward = self._state.forward
        self.nodes.graph = forward.graph  # whose Tensors are its nodes from now on
        return forward

    @property
    def backward(self) -> Backward | None:
        """The stage of the gradients; None for a program without values."""
        return self._state.backward

    @property
    def truth(self) -> Backward | None:
        """The stage of the gradients with all overrides off."""
        return self._state.truth

    @property
    def resolution(self) -> Resolution | None:
        """The nodes at which each override runs; None without overrides."""
        return self._state.resolution

    def require_backward(self) -> Backward:
        """Return the stage of the gradients; raise an error if there is none."""
        return self._state.require_backward()

    def open_inside(self, path: Sequence[tuple[int, int]]) -> InnerProgram:
        """Return the program inside a node, run again for one step of a loop.

        Parameters
        ----------
        path
            The id of the node, and the step, from 0, from the end if negative; then
            those of a node in there, and so on. Where there is no loop the step is 0.

        Raises
        ------
        UsageError
            If a node holds no program, has no such step, or draws random numbers in it.

        Examples
        --------
        >>> import numpy as np, workbench as wb
        >>> def power(w):
        ...     return wb.scan(lambda h: w * h, initial=[w], n_steps=9)[-1]
        >>> session = wb.Session(wb.trace(power)(2.0))
        >>> step = session.open_inside([(1, 3)])
        >>> step.steps, step.forward.graph.nodes[-1].value, step.backward.cotangents[2]
        (9, 32.0, np.float64(32.0))
        """
        return open_inside(self._state, path)

    @property
    def value(self) -> Any:
        """The output's value."""
        return copy_for_user(self._state.value)

    @property
    def values(self) -> Arrays:
        """The value of each node, by its name, its id or its Tensor."""
        nodes = self.graph.nodes
        names = self.nodes.names
        return Arrays(self.nodes, names, lambda i: nodes[i]._value, "values")

    @property
    def grads(self) -> Arrays:
        """The gradient by each ``wrt``, under its name; overrides applied."""
        state = self._state
        gradients, nodes = state.require_gradients(), state.start.graph.nodes
        names = {self.nodes.labels[i]: i for i in self.wrt}

        def gradient(i: int) -> Any:
            if i not in self.wrt:
                label = self.nodes.labels[i]
                raise UnknownNodeError(
                    f"{label} is not in wrt ({', '.join(names)}). Its cotangent is"
                    f" {self.name}.cotangents[{label!r}]."
                )
            return gradients[i] if i in gradients else np.zeros_like(nodes[i]._value)

        return Arrays(self.nodes, names, gradient, "gradients")

    @property
    def cotangents(self) -> Arrays:
        """The cotangent of each node; None where there is none."""
        known = self.require_backward().cotangents
        names = {name: i for name, i in self.nodes.names.items() if i in known}
        return Arrays(self.nodes, names, known.get, "cotangents")

    @property
    def gradient_graph(self) -> Graph:
        """The gradients as a program, overrides applied.

        Each of its Tensors names the forward node that it belongs to (`origin`).
        """
        self.nodes.graph = self.forward.graph
        return self._state.gradient_graph

    @property
    def chain_rule(self) -> Graph:
        """The gradients as the chain rule writes them, before anything is simplified.

        With every product with 1; overrides applied. Of one number by one number it
        is written as by hand, from the input on. :meth:`simplify` goes on from there.
        """
        return self._state.chain_rule

    @property
    def overrides(self) -> list[AppliedOverride]:
        """All overrides in order, with their matches and effects."""
        return attached_overrides(self._state)

    @property
    def history(self) -> History:
        """The changes of overrides, done and undone."""
        return self._state.history

    @property
    def timeline(self) -> Timeline:
        """The record of each :meth:`run`: the loss, and the norms of all nodes.

        Examples
        --------
        >>> import numpy as np, workbench as wb
        >>> session = wb.Session(wb.trace(lambda x: np.sum(x**2))(np.ones(2)))
        >>> values = [session.run(x=np.full(2, k)) for k in (3.0, 2.0)]
        >>> session.timeline
        <timeline: 2 steps, loss 18 to 8>
        >>> session.timeline[2].values
        {'x': 2.8284271247461903, 'power 1': 5.656854249492381, 'sum 2': 8.0}
        """
        return self._timeline

    def __getitem__(self, node: Node) -> Tensor:
        return self.graph.nodes[self.nodes.find(node)]

    def __copy__(self) -> Self:
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__)
        return made

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"{self!r} cannot be pickled: it holds the whole history of a program, and"
            f" who looks at it. Pickle its program, {self.name}.graph, and write"
            f" {self.name}.save(path) for its overrides, or {self.name}.to_html(path)"
            " for the picture."
        )

    def __repr__(self) -> str:
        state, labels = self._state, self.nodes.labels
        node, value = state.start.graph.nodes[self.output], state.value
        text = node.name or node.op.name
        if shape_of(node) != ():
            text += f" {node.shape}"
        elif value is not None:
            number = value.item() if hasattr(value, "item") else value
            text += f" = {number:g}"
        by = ", ".join(labels[i] for i in self.wrt) or "nothing"
        more = format_count(len(state.entries), "override")
        tail = f", {more}" if state.entries else ""
        return (
            f"<Session {self.name!r}: {text} by {by}; {self.nodes.count} nodes{tail}>"
        )

    def show(self) -> Any:
        """Show the session as a picture in a notebook, elsewhere as text.

        See `workbench.show`.

        Examples
        --------
        >>> import numpy as np, workbench as wb
        >>> wb.Session(wb.trace(lambda x: np.sum(x**2))(np.ones(3))).show()
        <Session 'ad': sum = 3 by x; 3 nodes>
          ‖∂/∂x‖ = 3.464
        <Picture of 'ad'>
        """
        return hooks.show(self, None)

    @overload
    def to_html(self, path: None = None, *, lesson: bool = False) -> str: ...
    @overload
    def to_html(self, path: str | PathLike[str], *, lesson: bool = False) -> Path: ...
    def to_html(
        self, path: str | PathLike[str] | None = None, *, lesson: bool = False
    ) -> str | Path:
        """Write the picture of the session into one HTML file.

        The file holds the graph with its numbers, overrides, checks and findings as
        they are now, and all that draws it: it opens in a browser without a kernel and
        without a network.

        Parameters
        ----------
        path
            Where to write; a file that is there is replaced.
        lesson
            Begin with the lesson: both sweeps step by step, with the numbers of small
            arrays and the chain rule in symbols.

        Returns
        -------
        The path, or the text of the file where no path is given.

        Raises
        ------
        UsageError
            If the program has more than 50,000 nodes, with ``lesson`` more than 100.

        Examples
        --------
        >>> import numpy as np, workbench as wb
        >>> session = wb.Session(wb.trace(lambda x: np.sum(x**2))(np.ones(3)))
        >>> session.to_html()[:15]
        '<!doctype html>'
        """
        text = hooks.write_page(self, lesson)
        if path is None:
            return text
        written = Path(path)
        written.write_text(text, encoding="utf-8")
        return written

    # Changes

    @with_lock
    def run(self, values: Mapping[str, Any] | None = None, **named: Any) -> Any:
        """Run the program with other inputs, and its gradients.

        Python's ``if`` and ``while`` were decided when the program was traced; inputs
        with which they would go another way are refused. Of an ``int(x)`` or
        ``x.item()`` that would be another number a warning tells, once: the program
        may hold it. With a backend other than NumPy the gradients are one program,
        which is compiled in the background; see `backend`.

        Parameters
        ----------
        values, named
            Inputs by their names, each in the shape it has; the others stay.

        Returns
        -------
        The output's new value.

        Raises
        ------
        UsageError
            If Python, which has looked at a value (``if``, ``while``, an index), would
            decide otherwise with the new inputs; it names the line. Or if something is
            no input.
        LoopStoppedError
            If a condition of `stop_when` holds; the run has been done.

        Examples
        --------
        >>> import numpy as np, workbench as wb
        >>> session = wb.Session(wb.trace(lambda x: np.sum(x**2))(np.ones(2)))
        >>> float(session.run(x=np.array([3.0, 4.0]))), session.grads["x"]
        (25.0, array([6., 8.]))
        """
        self._run_leaves(self._find_leaves({**(values or {}), **named}))
        if not self._has_warned and (reason := self._state.reason) is not None:
            self._has_warned = True
            programs = self._state.programs
            on_gpu = programs is not None and programs.backend == "cupy"
            text = f"{self.name} runs as {'CuPy' if on_gpu else 'NumPy'}: {reason}"
            warnings.warn(text, RuntimeWarning, stacklevel=3)
        if self.stops:
            self._test_stops()
        return self.value

    @with_lock
    def change_entry(
        self, node: Node, index: int, value: float, *, drag: object = None
    ) -> None:
        """Set one entry of an input by hand, and run the program: what if it were so?

        It is no run of the timeline. `undo` takes it back, in one step for all changes
        of it in one ``drag``; once `run` has replaced the input, it cannot be undone.

        Parameters
        ----------
        node
            The input.
        index
            The place of the entry in the flat array.
        value
            Its new value.
        drag
            What tells one movement of a slider from the next.

        Raises
        ------
        UsageError
            If it is no input of real numbers, has no such entry, or the value is no
            real number.

        Examples
        --------
        >>> import numpy as np, workbench as wb
        >>> session = wb.Session(wb.trace(lambda w: np.sum(w**2))(np.ones(2)))
        >>> session.change_entry("w", 1, 3.0)
        >>> float(session.value), session.grads["w"], session.timeline.count
        (10.0, array([2., 6.]), 0)
        >>> session.undo()
        >>> session.grads["w"]
        array([2., 2.])
        """
        i = self.nodes.find_input(node)
        label = self.nodes.labels[i]
        array = read_real_entries(self._state.find_leaf(i), label, index)
        if read_number(value) is None:
            raise UsageError(
                f"{self.name}.change_entry({label!r}, {index}, ...): its new value is a"
                " real number within the range of float64, such as 0.5, not"
                f" {quote_argument(value)}."
            )
        before = EntryValue(i, index, array.flat[index])
        array.flat[index] = value
        after = before._replace(value=array.flat[index])
        text = f"{name_entry(label, array.shape, index)} = {float(after.value):.4g}"
        self._change(self._state.change_entry(before, after, text, drag), "inputs")

    def _run_leaves(self, leaves: Mapping[int, Any]) -> None:
        """Run the program with other inputs, by their ids."""
        self._timeline.inputs.watch(leaves, self._state)
        self._change(self._state.run(leaves), "values")

    def stop_when(
        self,
        node: Node | None = None,
        *,
        not_finite: bool = True,
        norm_above: float | None = None,
        norm_below: float | None = None,
        angle_above: float | None = None,
    ) -> StopCondition:
        """Stop the loop that runs the session as soon as a gradient meets a condition.

        The run that meets one is done, and is the last one: the picture is there, with
        a mark in the timeline, `run` raises an error, and the loop ends. Conditions are
        listed in `stops`; ``session.stops.clear()`` lets loops go on.

        Parameters
        ----------
        node
            The node whose gradient counts; by default all of ``wrt`` as one vector.
        not_finite
            Stop where an entry is NaN or infinite.
        norm_above, norm_below
            Stop where the L2 norm is larger, or smaller.
        angle_above
            Stop where the gradient has turned by more degrees since the run before.

        Raises
        ------
        UsageError
            If there is no such node, it has no gradient, or there is no condition.

        Examples
        --------
        >>> import numpy as np, workbench as wb
        >>> session = wb.Session(wb.trace(lambda w: np.sum(w**4))(np.ones(2)))
        >>> session.stop_when("w", norm_above=20)
        <stop when the gradient of w is not finite or has a norm above 20>
        >>> w = np.ones(2)
        >>> try:
        ...     for _ in range(100):
        ...         loss = session.run(w=w)
        ...         w = w + 0.1 * session.grads["w"]
        ... except wb.errors.LoopStoppedError as error:
        ...     print(str(error).partition(".")[0])
        ad stopped at run 3: the gradient of w has norm 88
        >>> session.timeline.marks[-1].kind, session.timeline.count
        ('stop', 3)
        """
        nodes = find_stop_nodes(self._state, node)
        made = StopCondition(
            self.nodes, nodes, not_finite=not_finite, norm_above=norm_above,
            norm_below=norm_below, angle_above=angle_above,
        )  # fmt: skip
        self.stops.append(made)
        _notify(self._listeners, "stops")
        return made

    def _test_stops(self) -> None:
        """Raise an error if a condition holds for the last run, and mark that run."""
        found = [(stop, stop.find_reason(self._last)) for stop in [*self.stops]]
        for stop, reason in found:
            if reason is not None:
                nodes = stop.nodes
                self._timeline.mark_stop(nodes[0] if len(nodes) == 1 else None, reason)
                _notify(self._listeners, "values")
                raise LoopStoppedError(
                    f"{self.name} stopped at run {self._timeline.count}: {reason}. The"
                    f" picture is there; {self.name}.diagnose() looks for the cause,"
                    f" {self.name}.stops.clear() lets loops go on."
                )

    def _find_leaves(self, values: Mapping[str, Any]) -> dict[int, Any]:
        """Return inputs as they are run, by their ids."""
        nodes, labels = self._state.start.graph.nodes, self.nodes.labels
        leaves: dict[int, Any] = {}
        for key, value in values.items():
            i = self.nodes.find_input(key)
            leaves[i] = fit_input(value, nodes[i], labels[i])
        return leaves

    @property
    def backend(self) -> str:
        """The name of the backend of the next :meth:`run`: ``numpy`` or ``compiled``.

        Examples
        --------
        >>> import numpy as np, workbench as wb
        >>> graph = wb.trace(lambda x: np.sum(np.exp(x)))(np.zeros(3))
        >>> session = wb.Session(graph, backend="compiled")
        >>> session.backend, session.wait(), session.backend
        ('numpy', True, 'compiled')
        >>> float(session.run(x=np.ones(3)) - 3 * np.e) < 1e-12
        True
        """
        return self._state.backend

    @property
    def seconds(self) -> float:
        """The time to compute the present values and gradients."""
        return self._state.seconds

    def compute_by(self, programs: Programs) -> None:
        """Let these programs compute the output and the gradients of each `run`.

        What is shown of inner nodes is computed here all the same.
        """
        last = self._last
        state = State(
            last.objective, last.start, last.entries, last.history, last.next_id,
            programs,
        )  # fmt: skip
        with self.lock:
            self._last = state

    def is_ready(self) -> bool:
        """Return whether compiled code is in place, or refused, or not asked for.

        Examples
        --------
        >>> import numpy as np, workbench as wb
        >>> wb.Session(wb.trace(lambda x: np.sum(x**2))(np.ones(3))).is_ready()
        True
        """
        state = self._state
        if state.programs is None or state.reason is not None:
            return True
        program = state.programs.find(state.key)
        return program is not None and program.is_ready()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until compiled code is in place, or refused; start compiling if needed.

        Parameters
        ----------
        timeout
            Seconds to wait at most.

        Returns
        -------
        Whether the waiting has come to its end.

        Examples
        --------
        >>> import numpy as np, workbench as wb
        >>> graph = wb.trace(lambda x: np.sum(x**2))(np.ones(3))
        >>> wb.Session(graph, backend="compiled").wait()
        True
        """
        with self.lock:
            state = self._state
            made = state.make_program()
            function = None if made is None else made.function
            if function is not None and not function.is_ready():
                function.run(state.list_inputs())  # so that it knows their types
        return function is None or function.wait(timeout)

    def release(self) -> None:
        """Let the memory go that compiled code keeps for the next run.

        Examples
        --------
        >>> import numpy as np, workbench as wb
        >>> graph = wb.trace(lambda x: np.sum(x**2))(np.ones(3))
        >>> session = wb.Session(graph, backend="compiled")
        >>> value = session.run(x=np.zeros(3))
        >>> session.release()
        """
        if (programs := self._state.programs) is not None:
            programs.release()

    # Its overrides

    @with_lock
    def override(
        self,
        target: Any,
        vjp: str | Callable[..., Any] | None = None,
        *,
        jvp: str | Callable[..., Any] | None = None,
        name: str | None = None,
        enabled: bool = True,
        steps: int | slice | None = None,
        replacing: int | AppliedOverride | None = None,
    ) -> AppliedOverride:
        """Attach another gradient rule, and run the backward sweep again.

        Parameters
        ----------
        target
            As for :func:`workbench.override`, or the name of a node, its name or op
            with its line, ``"tanh@3"``, ``"tanh@3#2"`` for the second one there, or
            its label in the picture, ``"tanh 3"``. A name that an op has too means the
            op; the node is ``session[name]``. Or an override that exists already.
        vjp, jvp, name, enabled
            As for :func:`workbench.override`.
        steps
            As for :func:`workbench.override`. In the loop of a Python program a name
            means all steps; an id, a Tensor or a label means that one node.
        replacing
            The override that this one replaces, or its id. An equal override whose rule
            is data is not attached twice.

        Raises
        ------
        OverrideError
            If it matches nothing or its rule does not fit; an `ExpressionError` if its
            text is refused. Then nothing has changed.

        Examples
        --------
        >>> import numpy as np, workbench as wb
        >>> def loss(W, x, b):
        ...     with wb.scope("affine"):
        ...         h = np.tanh(W @ x + b)
        ...     return np.sum(h)
        >>> graph = wb.trace(loss)(np.eye(2), np.ones(2), np.zeros(2))
        >>> session = wb.Session(graph, wrt=["b"])
        >>> session.nodes.labels
        ['W', 'x', 'b', 'matmul 3', 'add 4', 'tanh 5', 'sum 6']
        >>> session.override("tanh 5", "clip(d, -0.1, 0.1)")
        <override 1: clip ±0.1 on tanh 5; changes b by 76 %>
        >>> session.override(wb.pattern(lambda W, x, b: W @ x + b), "2 * d")
        <override 2: scale ×2 on pattern W @ x + b; changes b by 100 %>
        >>> session.grads["b"]
        array([0.2, 0.2])
        >>> session.override("affine", "true").matched  # all nodes of the scope
        (3, 4, 5)
        """
        made = applied_override.attach_override(
            self._state, target, vjp, replacing,
            jvp=jvp, name=name, enabled=enabled, steps=steps,
        )  # fmt: skip
        self._take(made.state)
        return made.override

    @with_lock
    def edit(
        self,
        which: int | AppliedOverride,
        vjp: str | Callable[..., Any] | None = None,
        *,
        jvp: str | Callable[..., Any] | None = None,
        name: str | None = None,
    ) -> AppliedOverride:
        """Give an override another rule; its target, its number and place stay.

        Parameters
        ----------
        which
            The override, or its number.
        vjp, jvp
            The new rules, as for :func:`workbench.override`; without either, the old
            rules stay. A new ``vjp`` drops the old ``jvp``, which belonged to the old
            ``vjp``.
        name
            Its new name; by default a short text for a new rule.

        Raises
        ------
        OverrideError
            If there is no such override, or the rule does not fit; nothing has
            changed then.

        Examples
        --------
        >>> import numpy as np, workbench as wb
        >>> session = wb.Session(wb.trace(lambda x: np.sum(np.tanh(x)))(np.zeros(2)))
        >>> one = session.override(lambda node: node.op.name == "tanh", "0.5 * d")
        >>> session.edit(one, "3 * d").id, session.grads["x"]
        (1, array([3., 3.]))
        """
        made = applied_override.edit_override(self._state, which, vjp, jvp, name)
        self._take(made.state)
        return made.override

    @with_lock
    def switch(self, which: int | AppliedOverride, enabled: bool | None = None) -> None:
        """Switch an override on or off; one that is off stays listed.

        Raises
        ------
        OverrideError
            If there is no such override.

        Examples
        --------
        >>> import numpy as np, workbench as wb
        >>> session = wb.Session(wb.trace(lambda x: np.sum(np.tanh(x)))(np.zeros(2)))
        >>> one = session.override("tanh", "2 * d")
        >>> session.switch(one, False)
        >>> session.overrides, session.grads["x"]
        ([<override 1: scale ×2 on every tanh, off>], array([1., 1.]))
        """
        self._take(applied_override.switch_override(self._state, which, enabled))

    @with_lock
    def move(self, which: int | AppliedOverride, to: int) -> None:
        """Put an override at another place in the order; 0 is the first.

        Of two overrides with the same kind of target at a node, the later one runs.

        Raises
        ------
        OverrideError
            If there is no such override, or no such place.

        Examples
        --------
        >>> import numpy as np, workbench as wb
        >>> session = wb.Session(wb.trace(lambda x: np.sum(np.tanh(x)))(np.zeros(2)))
        >>> one = session.override("tanh", "2 * d")
        >>> two = session.override("tanh", "3 * d")
        >>> session.move(one, 1)
        >>> [o.id for o in session.overrides], session.grads["x"]
        ([2, 1], array([2., 2.]))
        """
        self._take(applied_override.move_override(self._state, which, to))

    @with_lock
    def remove(self, which: int | AppliedOverride) -> None:
        """Remove an override.

        Raises
        ------
        OverrideError
            If there is no such override.

        Examples
        --------
        >>> import numpy as np, workbench as wb
        >>> session = wb.Session(wb.trace(lambda x: np.sum(np.tanh(x)))(np.zeros(2)))
        >>> session.remove(session.override("tanh", "2 * d"))
        >>> session.overrides
        []
        """
        self._take(applied_override.remove_override(self._state, which))

    @with_lock
    def undo(self, steps: int = 1) -> None:
        """Undo the last change of the overrides, or of an entry, or the last few.

        Raises
        ------
        UsageError
            If there are not as many.

        Examples
        --------
        >>> import numpy as np, workbench as wb
        >>> session = wb.Session(wb.trace(lambda x: np.sum(np.tanh(x)))(np.zeros(2)))
        >>> one = session.override("tanh", "2 * d")
        >>> session.undo()
        >>> session.history.done, session.history.undone
        ([], ['scale ×2 on every tanh'])
        """
        self._take(self._state.step(True, steps))

    @with_lock
    def redo(self, steps: int = 1) -> None:
        """Redo the last undone change, or the last few.

        Raises
        ------
        UsageError
            If there are not as many.

        Examples
        --------
        >>> import numpy as np, workbench as wb
        >>> session = wb.Session(wb.trace(lambda x: np.sum(np.tanh(x)))(np.zeros(2)))
        >>> one = session.override("tanh", "2 * d")
        >>> session.undo()
        >>> session.redo()
        >>> session.grads["x"]
        array([2., 2.])
        """
        self._take(self._state.step(False, steps))

    def code(self) -> str:
        """Return the lines of Python that attach the current overrides.

        Run on a fresh session of the same program, they give the same gradients.
        Lambdas are written out; other rules, predicates and ops of the user's own are
        called by their names, which a comment lists.

        Examples
        --------
        >>> import numpy as np, workbench as wb
        >>> session = wb.Session(wb.trace(lambda x: np.sum(np.tanh(x)))(np.zeros(2)))
        >>> one = session.override("tanh", wb.rules.clip(0.1), name="gentle")
        >>> print(session.code())
        ad.override('tanh', vjp='clip(d, -0.1, 0.1)', name='gentle')
        """
        return join_lines([one.code for one in self.overrides])

    def save(self, path: str | PathLike[str]) -> list[str]:
        """Write the overrides to a file, those that are data.

        Parameters
        ----------
        path
            The file, which is replaced. It holds JSON: rules that are texts or lists
            of nodes (`wb.graph_rule`), and targets that are nodes, ops or scopes.

        Returns
        -------
        A line for each override that was not saved, since its rule or target is code,
        such as a pattern; a warning lists them too.

        Raises
        ------
        OSError
            If the file cannot be written; an old one is then unchanged.

        Examples
        --------
        >>> import numpy as np, tempfile, workbench as wb
        >>> path = tempfile.mkdtemp() + "/overrides.json"
        >>> graph = wb.trace(lambda x: np.sum(np.tanh(x)))(np.zeros(2))
        >>> session = wb.Session(graph)
        >>> one = session.override("tanh", "0.5 * d")
        >>> session.save(path)
        []
        >>> other = wb.Session(graph)
        >>> other.load(path)
        []
        >>> other.overrides
        [<override 1: scale ×0.5 on every tanh; changes x by 50 %>]
        """
        with self.lock:
            state = self._state
            text, skipped = storage.serialize(
                self.name, state.entries, self.nodes, state.forward.graph.nodes
            )
        storage.write(path, text)
        if skipped:
            warnings.warn(
                f"{self.name}.save: not saved, since they are code:"
                f" {'; '.join(skipped)}. {self.name}.code() prints their lines.",
                stacklevel=2,
            )
        return skipped

    @with_lock
    def load(self, path: str | PathLike[str], *, strict: bool = True) -> list[str]:
        """Attach the overrides of a file that :meth:`save` has written.

        They come after the present ones, as one change for undo; equal ones are not
        attached twice. The file is not trusted: nothing in it runs.

        Parameters
        ----------
        path
            The file.
        strict
            Whether all must fit. If not, those that fit are attached.

        Returns
        -------
        A line for each override that did not fit; empty if all did.

        Raises
        ------
        OverrideError
            If one does not fit: a node that is missing or has another op or shape, or
            an unknown rule. Then nothing has changed.
        UsageError
            If a rule would make arrays far larger than the program's, or run far
            longer: it is refused before it runs, and nothing has changed.
        SnapshotError
            If the file is damaged, too large, or of a newer Workbench.
        OSError
            If it cannot be read.

        Examples
        --------
        >>> import numpy as np, tempfile, workbench as wb
        >>> path = tempfile.mkdtemp() + "/overrides.json"
        >>> tanh, sin = (
        ...     wb.Session(wb.trace(lambda x: np.sum(f(x)))(np.zeros(2)))
        ...     for f in (np.tanh, np.sin)
        ... )
        >>> one = tanh.override("tanh", "0.5 * d")
        >>> tanh.save(path)
        []
        >>> len(sin.load(path, strict=False)), sin.overrides
        (1, [])
        """
        state, lines = storage.load_overrides(self._state, path, strict)
        self._take(state)
        return lines

    def check_rule(self, target: Any, rule: str) -> str:
        """Check the text of a rule for a target, before the rule is attached.

        The target is as for `override`, or an override of the session, whose target is
        used. Returns a few words about where the rule would run.

        Raises
        ------
        OverrideError
            If the rule does not fit; an `ExpressionError` if the expression is refused.

        Examples
        --------
        >>> import numpy as np, workbench as wb
        >>> session = wb.Session(wb.trace(lambda x: np.sum(np.tanh(x)))(np.zeros(2)))
        >>> session.check_rule("tanh", "clip(d, -1, 1)"), session.overrides
        ('ok', [])
        """
        return check_rule(self._state, target, rule)

    def _take(self, state: State) -> None:
        """Take the state after a change of the overrides, if there was one."""
        if state is not self._state:
            self._change(state, "overrides")

    # One change after another

    def _change(self, state: State, what: str) -> None:
        """Take another state, and notify the listeners."""
        # Its gradients first: an error or interrupt leaves the last state.
        if state.results is None:
            _ = state.backward
        before = self._last
        if what != "values":
            self._timeline.complete(before)  # with the overrides that held
        # All at once: an interrupt comes at a call, so before or after all.
        thread = threading.get_ident()
        if what == "values":
            self._runner = thread
        if self._step is not None and self._step.thread == thread:
            self._step = None
        self._last = state
        self.nodes.graph = state.last_values.graph
        if what == "values" and state.value is not None:
            self._timeline.record(state, before)
        _notify(self._listeners, what)

    def subscribe(self, callback: Callable[[str], object]) -> Callable[[], None]:
        """Call back after each change, with its name.

        ``"values"`` after a run, ``"inputs"`` after an entry was changed by hand,
        ``"overrides"``, ``"checks"``, ``"branches"``, ``"stops"``.

        And with ``"backend"``, from another thread, when compiled code is ready.
        Returns the function that ends the subscription.

        Examples
        --------
        >>> import numpy as np, workbench as wb
        >>> session = wb.Session(wb.trace(lambda x: np.sum(np.tanh(x)))(np.zeros(2)))
        >>> end = session.subscribe(print)
        >>> one = session.override("tanh", "2 * d")
        overrides
        >>> end()
        >>> session.undo()
        """
        listeners = self._listeners  # so `end` keeps no reference to the session
        listeners.append(callback)

        def end() -> None:
            if callback in listeners:
                listeners.remove(callback)

        return end

    @property
    def lock(self) -> AbstractContextManager[Any]:
        """The lock for changes, and for reading several stages together."""
        return self._fair_lock.lock

    def keep_step(self) -> None:
        """Let a loop in another thread go on to see this state until its next run.

        Called under the lock, before a change, by who knows that the loop goes on.

        Examples
        --------
        >>> import numpy as np, workbench as wb
        >>> from threading import Thread
        >>> session = wb.Session(wb.trace(lambda x: np.sum(np.tanh(x)))(np.zeros(2)))
        >>> value = session.run(x=np.zeros(2))
        >>> def edit():
        ...     with session.lock:
        ...         session.keep_step()
        ...         session.override("tanh", "2 * d")
        >>> page = Thread(target=edit)
        >>> page.start(), page.join()
        (None, None)
        >>> session.grads["x"], float(session.run()), session.grads["x"]
        (array([1., 1.]), 0.0, array([2., 2.]))
        """
        runner = self._runner
        if self._step is None and runner is not None:
            if runner != threading.get_ident():
                self._step = LoopView(runner, self._last)

    def end_step(self) -> None:
        """Let all threads see the last state, once the loop of runs is over.

        Examples
        --------
        >>> import numpy as np, workbench as wb
        >>> session = wb.Session(wb.trace(lambda x: np.sum(np.tanh(x)))(np.zeros(2)))
        >>> session.end_step()
        """
        self._runner = self._step = None

    def make_copy(self) -> Self:
        """Return an independent copy, for work in another thread.

        Later changes of the session do not change the copy.
        """
        with self.lock:
            made = copied(self)
            made.end_step()
            made.nodes = copied(self.nodes)
            made._fair_lock = FairLock()
            made._listeners = []
            made._timeline = self._timeline.cut(made.nodes, weakref.ref(made))
            made._views = {}
            made.branches, made.stops = [*self.branches], []
            made._branch_counts = self._branch_counts.copy()
            return made

    # The past

    def at(self, step: int) -> Session:
        """Return the session as it was at a run, to be looked at, or to go on from.

        It is a session of its own: values, gradients, overrides, checks, the doctor and
        Jacobians are those of that run, computed again from its inputs. What is run and
        overridden there is a branch: this session stays as it is.

        Parameters
        ----------
        step
            The run, counted from 1, or negative from the last one that is kept. Kept
            are the first and the last run, those where a NaN or an explosion began and
            the ones before them, and as many between as have room in 64 MB.

        Raises
        ------
        UsageError
            If there is no such run, its inputs are not kept, or it has drawn random
            numbers anew.

        Examples
        --------
        >>> import numpy as np, workbench as wb
        >>> session = wb.Session(wb.trace(lambda x: np.sum(np.log(x)))(np.ones(2)))
        >>> with np.errstate(all="ignore"):
        ...     values = [session.run(x=np.full(2, x)) for x in (1.0, 0.5, -0.1)]
        >>> session.at(2).values["x"], float(session.at(2).value)
        (array([0.5, 0.5]), -1.3862943611198906)
        >>> branch = session.at(2)
        >>> float(branch.run(x=np.full(2, 0.25))), branch.timeline.count, session.value
        (-2.772588722239781, 3, np.float64(nan))
        """
        with self.lock:
            inputs = self._timeline.inputs
            run = inputs.find(step, self.name)
            made = self.make_copy()
            made._last = self._last.go_to(run.values, run.entries)
            made._timeline = self._timeline.cut(made.nodes, weakref.ref(made), run)
            made._checked = made._diagnosed = None
            # What it costs does not depend on values, but on rules.
            if made._profiled is not None and made._profiled[0] != made._last.key:
                made._profiled = None
        made.nodes.graph = made._last.last_values.graph
        return made

    def run_again(
        self,
        step: int,
        until: int | None = None,
        *,
        update: Callable[[Session], Mapping[str, Any]] | None = None,
        progress: Progress | None = None,
    ) -> Session:
        """Run the program again from a past run on, with the overrides of now.

        The runs are a branch: a session of its own, which is kept in `branches` and
        drawn as a second curve. This session stays as it is. Where the inputs of the
        run are not kept, the runs from the nearest kept one before it are made again
        first, with the overrides that they had.

        Parameters
        ----------
        step
            The run, as for `at`; or one that is not kept.
        until
            The last run of the branch; by default the last one of the session.
        update
            Called with the branch after each run; it returns the inputs of the next
            one by their names. Inputs that it leaves out, and all without it: gradient
            descent is recognised by the runs that there were, and its rate measured; an
            input that was the same in all runs stays so; others have the values that
            they had, where these are kept.
        progress
            Called with (done, all) before each run; true stops the branch there, and so
            does an interrupt.

        Returns
        -------
        The branch, at its last run. :meth:`compare` compares it with this session.

        Raises
        ------
        UsageError
            If there is no such run; if it has drawn random numbers anew; or if the
            inputs of a run are not known, which leaves the branch until then.

        Examples
        --------
        >>> import numpy as np, workbench as wb
        >>> session = wb.Session(wb.trace(lambda w: np.sum(w**4))(np.ones(2)))
        >>> w = np.ones(2)
        >>> for _ in range(4):
        ...     loss = session.run(w=w)
        ...     w = w - 0.1 * session.grads["w"]
        >>> one = session.override("power", "clip(d, -0.5, 0.5)")
        >>> session.run_again(2).timeline.losses.round(4)
        array([2.    , 0.2592, 0.183 , 0.125 ])
        >>> session.compare(4, session.branches[0])["w"]
        <w: gradient 0.5485 → 0.7071, value 0.6497 → 0.7071>
        """
        with self.lock:
            line, entries = self._timeline, self._last.entries
            base, number, last = find_runs(line, step, until, self.name)
            past = self.at(base.step)
            kept = line.inputs.cut(line.count)
            branch = past.make_copy()
            owner = weakref.ref(branch)
            branch._timeline = line.cut_before(branch.nodes, owner, base, number)
            branch._timeline.inputs.budget = kept.budget // MOST_BRANCHES
            branch.branch_step, branch.branches = number, []
        rules = InputRules(past._last, kept, base.step, last)
        if update is None and last > base.step:
            rules.find(frozenset())  # which may refuse, before there is a branch

        def find_inputs(run: Session, k: int) -> dict[int, Any]:
            example = run.nodes.labels[run.wrt[0]] if run.wrt else "x"
            given = run._find_leaves(ask_update(update, run, run.name, example))
            return rules.make_inputs(run._last, k, given)

        with ProgressMeter(progress, last - base.step + 1, verb="run") as meter:
            values = {**base.values}
            for k in range(base.step + 1, number + 1):  # those between, as they were
                meter.step()
                values |= find_inputs(past, k)
                past._change(past._last.go_to(values, line.find_entries(k)), "values")
            meter.step()
            branch._change(past._last.go_to(values, entries), "values")
            self._add_branch(branch)
            for k in range(number + 1, last + 1):
                meter.step()
                branch._run_leaves(find_inputs(branch, k))
        return branch

    def _add_branch(self, branch: Session) -> None:
        """Keep a branch under a name that none had, and notify the listeners."""
        with self.lock:
            step = branch.branch_step or 1
            self._branch_counts[step] += 1
            count = self._branch_counts[step]
            name = f"branch from run {step}"
            branch.branch_name = name if count == 1 else f"{name} ({count})"
            self.branches[:] = [*self.branches, branch][-MOST_BRANCHES:]
        _notify(self._listeners, "branches")

    def find_view(self, step: int) -> Session:
        """Return the session at a run for looking alone: the same one each time.

        Of the last few that were asked for, so that what was computed of them stays,
        if that has room in 64 MB; of the last one always.

        Raises
        ------
        UsageError
            As by `at`.

        Examples
        --------
        >>> import numpy as np, workbench as wb
        >>> session = wb.Session(wb.trace(lambda x: np.sum(x**2))(np.ones(2)))
        >>> values = [session.run(x=np.full(2, k)) for k in (3.0, 2.0)]
        >>> session.find_view(1) is session.find_view(1), session.find_view(1).value
        (True, np.float64(18.0))
        """
        with self.lock:
            inputs, views = self._timeline.inputs, self._views
            step = inputs.resolve(step, self.name)
            found = views.pop(step, None) or self.at(step)
            left = inputs.budget
            for number, (old, view) in enumerate([*views.items()][::-1], 2):
                left -= view._last.count_bytes()
                if left < 0 or number > MOST_VIEWS:
                    del views[old]
            views[step] = found  # the last one asked for comes last
        return found

    # Other derivatives, and checks

    def derivative(
        self,
        of: Node | None = None,
        wrt: Iterable[Node] | Node | None = None,
        *,
        mode: Literal["auto", "forward", "reverse"] = "auto",
        overrides: bool = True,
    ) -> Derivative:
        """Return the derivative of any node by others, computed only when used.

        Parameters
        ----------
        of
            The node, its name or id; by default the output.
        wrt
            One node or several, side by side; by default the session's ``wrt``. One
            that is computed from another stays constant while the other varies.
        mode
            ``"forward"``: one sweep for each entry of ``wrt``; ``"reverse"``: one for
            each entry of ``of``; ``"auto"``: the cheaper one, by the number of sweeps
            and the sizes of the nodes between them.
        overrides
            Whether they are applied; False for the true derivative.

        Raises
        ------
        DisconnectedInputError
            If no path leads from ``wrt`` to ``of``; it says if one leads back.
        DtypeError
            If one of them is of integer dtype.
        UsageError
            If the session has no values.

        Examples
        --------
        >>> import numpy as np, workbench as wb
        >>> def f(W, x):
        ...     h = np.tanh(W @ x)
        ...     return np.sum(h**2)
        >>> session = wb.Session(wb.trace(f)(np.eye(2), np.zeros(2)))
        >>> d = session.derivative("tanh 3", "x")
        >>> d.value
        array([[1., 0.],
               [0., 1.]])
        >>> [session.nodes.labels[i] for i in d.path], d.singular_values
        (['x', 'matmul 2', 'tanh 3'], array([1., 1.]))
        """
        return derivatives.make_derivative(
            self._state, of, wrt, mode=mode, overrides=overrides
        )

    def jacobian(
        self,
        of: Node | None = None,
        wrt: Iterable[Node] | Node | None = None,
        *,
        overrides: bool = True,
    ) -> Any:
        """Return the derivative of any node by others, overrides applied.

        Parameters
        ----------
        of
            The node, its name or id; by default the output.
        wrt
            One node: an array of the shapes of both. Several (by default the
            session's ``wrt``): a dict of such arrays.
        overrides
            Whether they are applied; False for the true derivative.

        Examples
        --------
        >>> import numpy as np, workbench as wb
        >>> session = wb.Session(wb.trace(lambda x: np.sum(x**2))(np.arange(3.0)))
        >>> session.jacobian(wrt="x")
        array([0., 2., 4.])
        """
        return derivatives.compute_jacobian(self._state, of, wrt, overrides=overrides)

    def hessian(
        self,
        wrt: Iterable[Node] | Node | None = None,
        *,
        overrides: bool = True,
    ) -> Any:
        """Return the second derivative of the output, overrides applied.

        Parameters
        ----------
        wrt
            One node: an array; several (by default the session's ``wrt``): a dict of
            dicts, with the cross blocks.
        overrides
            Whether they are applied; False for the true derivative.

        Examples
        --------
        >>> import numpy as np, workbench as wb
        >>> session = wb.Session(wb.trace(lambda x: np.sum(x**3))(np.ones(2)))
        >>> session.hessian("x")
        array([[6., 0.],
               [0., 6.]])
        """
        return derivatives.compute_hessian(self._state, wrt, overrides=overrides)

    def preview(
        self,
        at: Node,
        target: Any,
        vjp: Any,
        *,
        steps: int | slice | None = None,
        replacing: int | AppliedOverride | None = None,
    ) -> Preview:
        """Return a node's cotangents with and without an override; nothing is attached.

        Two backward sweeps run: one without the override, one with it.

        Parameters
        ----------
        at
            The node to look at.
        target, vjp, steps
            Those of the override, as for `Session.override`.
        replacing
            The override that it would replace, or its number: it counts as absent.

        Raises
        ------
        OverrideError
            If it matches nothing, or its rule does not fit or does not run.
        UsageError
            If the session has no values, or no gradient reaches the node.

        Examples
        --------
        >>> import numpy as np, workbench as wb
        >>> session = wb.Session(wb.trace(lambda x: np.sum(np.tanh(x)))(np.zeros(2)))
        >>> found = session.preview("tanh 1", "tanh", "clip(d, -0.1, 0.1)")
        >>> found.before[0], found.after[0], session.overrides
        (array([1., 1.]), array([0.1, 0.1]), [])
        """
        return preview_override(
            self._state, at, target, vjp, steps=steps, replacing=replacing
        )

    def simplify(
        self,
        rules: Iterable[Rule] = (),
        *,
        without: Collection[str] = (),
        fast: bool = False,
    ) -> Graph:
        """Return the gradients as a program, simplified step by step.

        Overrides are applied. It begins with what the chain rule gives
        (:attr:`Session.chain_rule`). What an override set stays so, and stays marked
        (``origin`` of the Tensors).

        Parameters
        ----------
        rules, without, fast
            As for :func:`workbench.simplify`.

        Returns
        -------
        A :class:`workbench.Graph`, with an output for each ``wrt``; its ``steps`` say
        what was done.

        Raises
        ------
        UsageError
            If the session has no values, or no rule has a name that is switched off.
        RewriteError
            If two rules undo each other without end.

        Examples
        --------
        >>> import workbench as wb
        >>> session = wb.Session(wb.trace(lambda x: x * x + x - 2)(3.0))
        >>> for step in session.simplify().steps:
        ...     print(step)
        1. one times x: 1 * x → x
        2. one times x: x * 1 → x
        3. x plus x: x + x → 2 * x
        4. x minus zero: 2 * x + 1 - 0 → 2 * x + 1
        >>> print(session.simplify(without=["x plus x"]))
        x      = input            float64[]
        %1     = add(x, x)        float64[]    from multiply: g · x₁   g · x₀
        %2     = add(%1, 1.0)     float64[]    from add: g   g
        """
        return simplify_gradients(self._state, rules, without=without, fast=fast)

    def check(
        self,
        wrt: Iterable[Node] | Node | None = None,
        *,
        nodes: bool = True,
        progress: Progress | None = None,
        budget: float | None = BUDGET,
        **settings: Any,
    ) -> Report:
        """Check each node's rule by itself, and the gradients as a whole.

        The truth is what the ops compute, by the complex step or differences; see
        `workbench.checks.nodes` for the error that an entry may have. Where overrides
        run the true gradient is compared, and the report lists their changes.

        Parameters
        ----------
        wrt
            Some of the session's ``wrt``; by default all.
        nodes
            Whether to check the rules of the nodes too.
        progress
            Called with (done, all) before each node and each entry; true stops the
            check, and so does an interrupt: the report then holds the results so far.
            By default a check of more than a second shows its progress.
        budget
            The seconds that the check may take; None: no limit. What it has not come to
            stands in the report, and in its ``unchecked``. A slow node leaves time for
            the others, and the nodes leave time for the gradients as a whole.
        settings
            ``entries``, ``rtol``, ``atol``, ``seed``, as for `check_grads`, and
            ``order``: 1 leaves out the derivatives of the rules. Of a large program
            fewer entries are checked by default, and all along a direction.

        Returns
        -------
        A report, with or without errors; ``report.raise_if_wrong()`` raises. It is
        kept as `report`, and shown in the picture.

        Raises
        ------
        UsageError
            If the session has no values.

        Examples
        --------
        >>> import numpy as np, workbench as wb
        >>> session = wb.Session(wb.trace(lambda x: np.sum(x**3))(np.ones(2)))
        >>> report = session.check()
        >>> report.ok, report.counts
        (True, {'right': 2})
        """
        state = self._state
        report = checks.check_gradients(
            state, wrt, nodes=nodes, progress=progress, budget=budget, **settings
        )
        self._keep("report", report, state)
        return report

    def diagnose(
        self,
        progress: Progress | None = None,
        *,
        budget: float | None = BUDGET,
    ) -> Findings:
        """Find the nodes to blame for wrong values and gradients.

        The doctor examines the program with its overrides. Where runs have led to NaN
        or infinities, he examines the first run that had them, ``timeline.first_bad``,
        with the overrides of now: later ones only carry on what was wrong there. The
        findings are kept as `findings`, and shown in the picture.

        Parameters
        ----------
        progress
            Called with (done, all) now and then; if it returns true, the search stops
            and returns what it has found.
        budget
            The seconds that the search may take beyond one gradient; None: no limit.
            What was not looked at stands in the findings, and in their ``unchecked``.

        Returns
        -------
        `Findings`, most important first; empty for a healthy program.

        Raises
        ------
        UsageError
            If the session has no values.

        Examples
        --------
        >>> import numpy as np, workbench as wb
        >>> length = lambda x: np.sqrt(np.sum(x**2))
        >>> with np.errstate(all="ignore"):
        ...     session = wb.Session(wb.trace(length)(np.zeros(2)))
        >>> [finding.title for finding in session.diagnose()]
        ['sqrt 3 has an infinite slope at 0']
        """
        state, line, step = self._state, self._timeline, self._find_examined_step()
        if step is not None:
            values = line.inputs.find(step, self.name).values
            state = state.go_to(values, state.entries).make_visible()
        found = checks.find_causes(
            state, progress, budget=budget, step=step, count=line.count
        )
        if step is not None and step > 1:
            fed_back = checks.find_fed_back(state, line.inputs.first_values)
            found = checks.blame_update(found, state, fed_back)
        ids = state.forward.ids
        serials = [one.node.serial for one in found]
        self.nodes.serials |= {one: ids[one] for one in serials if one in ids}
        self._keep("findings", found, state)
        return found

    def _find_examined_step(self) -> int | None:
        """Return the run that the doctor examines now; None for the present."""
        line = self._timeline
        bad = line.first_bad if line.is_bad and line.count > 1 else None
        return bad.step if bad is not None and bad.step in line.inputs.steps else None

    def profile(self) -> SessionProfile:
        """Return the costs of a run, by steps and by nodes; print the result.

        The output and the gradients are computed a few times, on the present inputs,
        with a clock around each step: each kernel of compiled code, which is waited
        for, or each node that NumPy computes. Nothing changes.

        Raises
        ------
        UsageError
            If the session has no values.

        Examples
        --------
        >>> import numpy as np, workbench as wb
        >>> graph = wb.trace(lambda x: np.sum(np.tanh(x)))(np.ones(1000))
        >>> session = wb.Session(graph, backend="compiled")
        >>> profile = session.profile()
        >>> profile.backend, [(row.step, row.ops) for row in profile]
        ('compiled', [('kernel 1', 'tanh, multiply, subtract, sum')])
        >>> profile.values[1].row, profile.rules[1].row  # of tanh
        (0, 0)
        """
        state = self._state
        found = measure_profile(state)
        self._keep("profile", found, state)
        return found

    def compare(
        self,
        before: int | Session | Literal["true"] = "true",
        after: int | Session | None = None,
    ) -> NormChanges:
        """Compare the norms of all nodes at two moments, or in two sessions.

        Parameters
        ----------
        before, after
            Each a run of the timeline, from 1 or negative from the last one that is
            kept; another session, as it is now, of the same program, or of one that
            differs in few ops, whose nodes are paired by names and by what they read;
            ``"true"`` for this one as it is now, without its overrides; None, by
            default for ``after``, for this one as it is now.

        Returns
        -------
        One row for each node, the largest change first. Print it, iterate over it, or
        ask for a node by its name.

        Raises
        ------
        UnknownNodeError
            If the norms of a run are not kept; the text names those beside it.
        UsageError
            If another session has a program with little in common; the text says where
            they differ.

        Examples
        --------
        >>> import numpy as np, workbench as wb
        >>> def loss(w):
        ...     return np.sum(np.tanh(w) ** 2)
        >>> session = wb.Session(wb.trace(loss)(np.ones(2)))
        >>> one = session.override("tanh", "clip(d, -0.1, 0.1)")
        >>> session.compare()["w"]  # without the override, and with it
        <w: gradient 0.9047 → 0.1414, value 1.414 → 1.414>
        >>> w = np.ones(2)
        >>> for _ in range(5):
        ...     value = session.run(w=w)
        ...     w = w - session.grads["w"]
        >>> changes = session.compare(1, 5)
        >>> changes[0], changes["tanh 1"].value_ratio < 1
        (<power 2: gradient 1.414 → 1.414, value 0.8203 → 0.4079>, True)
        """
        return NormChanges(
            self._measure_side(before), self._measure_side(after), self.nodes
        )

    def _measure_side(self, which: int | Session | Literal["true"] | None) -> Side:
        """Return one side of a comparison."""
        if isinstance(which, Session) and which is not self:
            with which.lock:  # alone: a comparison the other way would wait for ever
                label = f"session {which.name}"
                if which.branch_name:
                    label = which.branch_name
                return measure_other(self._state, which._state, label)
        if isinstance(which, int) and which not in set(self.timeline):
            if which in self.timeline.inputs.steps:  # then all of it is computed again
                return measure_present(self.find_view(which)._state, f"run {which}")
        with self.lock:
            if which is None or which is self:
                return measure_present(self._state, "now")
            if which == "true":
                return measure_truth(self._state)
            if isinstance(which, (int, np.integer)) and not isinstance(which, bool):
                return measure_run(self.timeline, int(which))
        raise UsageError(
            f"{self.name}.compare({which!r}): a side is a run (12, or -1 for the last),"
            ' another session, "true" for what the true rules give, or None for now.'
        )

    def fix(self, which: Finding | int) -> AppliedOverride | str:
        """Attach the fix of a finding, as an override on the node to blame.

        Parameters
        ----------
        which
            A finding, or its position among the `findings`.

        Returns
        -------
        The override. Where the program itself must change (``fix.rule`` is None)
        nothing is attached, and the result is a text: the line to write.

        Raises
        ------
        UsageError
            If there is no such finding, or it has no general fix.

        Examples
        --------
        >>> import numpy as np, workbench as wb
        >>> length = lambda x: np.sqrt(np.sum(x**2))
        >>> with np.errstate(all="ignore"):
        ...     session = wb.Session(wb.trace(length)(np.zeros(2)))
        >>> session.fix(session.diagnose()[0]).matched, session.grads["x"]
        ((3,), array([0., 0.]))
        """
        found = checks.find_fix(self.nodes, which, self.findings)
        return found if isinstance(found, str) else self.override(*found)

    @property
    def report(self) -> Report | None:
        """The last gradient check; None before the first."""
        return None if self._checked is None else self._checked.result

    @property
    def findings(self) -> Findings | None:
        """The last findings of the doctor; None before the first."""
        return None if self._diagnosed is None else self._diagnosed.result

    @property
    def last_profile(self) -> SessionProfile | None:
        """The result of the last :meth:`profile`; None before the first."""
        return None if self._profiled is None else self._profiled[1]

    @property
    def stale(self) -> frozenset[str]:
        """Those of ``"report"`` and ``"findings"`` that are of an earlier state.

        And ``"profile"``, if other overrides held: it does not depend on values.
        """
        state, profiled = self._state, self._profiled
        known: dict[str, Found[Any] | None] = {
            "report": self._checked,
            "findings": self._diagnosed,
        }
        names = {
            name
            for name, found in known.items()
            if found is not None and not self._is_about(found)
        }
        if profiled is not None and profiled[0] != state.key:
            names.add("profile")
        return frozenset(names)

    def _is_about(self, found: Found[Any]) -> bool:
        """Return whether something was found of the state, or of a run to examine."""
        state, step = self._state, getattr(found.result, "step", None)
        if step is None:
            return found.state is state
        return found.state.key == state.key and step == self._find_examined_step()

    @overload
    def get_result(self, what: Literal["report"]) -> Found[Report] | None: ...
    @overload
    def get_result(self, what: Literal["findings"]) -> Found[Findings] | None: ...
    @overload
    def get_result(self, what: str) -> Found[Any] | None: ...
    def get_result(self, what: str) -> Found[Any] | None:
        """Return the report or the findings, with the state that they are about."""
        return self._checked if what == "report" else self._diagnosed

    def adopt(self, what: str, result: Any, copy: Session) -> None:
        """Keep a report, findings, a profile or a branch of a copy."""
        if what == "branch":
            if result in copy.branches:
                self._add_branch(result)
            else:  # it was stopped before its first run
                _notify(self._listeners, "branches")
            return
        found = None if what == "profile" else copy.get_result(what)
        self._keep(what, result, copy._state if found is None else found.state)

    def _keep(self, what: str, result: Any, state: State) -> None:
        """Keep a report, findings or a profile, and notify the listeners."""
        with self.lock:
            if what == "report":
                self._checked = Found(state, result)
            elif what == "findings":
                self._diagnosed = Found(state, result)
            else:
                self._profiled = state.key, result
            _notify(self._listeners, "checks")


def _notify(listeners: Iterable[Callable[[str], object]], what: str) -> None:
    """Tell all listeners of a change, by its name."""
    for callback in list(listeners):
        callback(what)
