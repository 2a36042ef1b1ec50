"""`Session`: one traced program with every stage kept, and its overrides.

Values, then gradients: a change runs only the stages after it. An override runs
the backward sweep again, new inputs run what depends on them. Everything is
computed before anything is let go, so a change that fails or is interrupted
leaves the last good state. What the page shows of a session is written by
`snapshot.py`; nothing here knows a notebook.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

import numpy as np

from workbench.errors import UnknownNodeError, UsageError
from workbench.graph.graph import Graph
from workbench.graph.tensor import Tensor
from workbench.ops.define import shape_of
from workbench.session import attached, derivatives, question, stages
from workbench.session.attached import Attached
from workbench.session.history import Entries, Entry, History, entry_of
from workbench.session.nodes import Arrays, Node, Nodes, fitted, handed
from workbench.session.stages import Backward, Forward
from workbench.session.turns import Turns
from workbench.transforms import overrides as overriding
from workbench.transforms import reverse
from workbench.transforms.expression import parse
from workbench.transforms.overrides import Override, Resolution, resolve
from workbench.transforms.rules import check_on

if TYPE_CHECKING:
    from workbench.checks.report import Report

__all__ = ["Session"]

F = TypeVar("F", bound=Callable[..., Any])


def changing(method: F) -> F:
    """A method that one thread at a time may run: the page has one of its own."""

    @wraps(method)
    def alone(self: Session, *args: Any, **kwargs: Any) -> Any:
        with self.lock:
            return method(self, *args, **kwargs)

    return cast(F, alone)


@dataclass(frozen=True)
class State:
    """Everything a session shows; it never changes, a session swaps it."""

    forward: Forward
    entries: Entries
    resolution: Resolution | None
    backward: Backward | None


class Session:
    """A traced program that is kept, looked at, overridden and run again.

    Parameters
    ----------
    graph
        The program, from a ``%%autodiff`` cell or :func:`workbench.trace`.
    output
        What is differentiated: a Tensor of the graph or its name; by default the
        last output.
    wrt
        What it is differentiated by, Tensors or names; by default every float
        input that the output depends on.
    name
        What its own code calls it.
    seed
        The cotangent of an output that is not one number, in its shape.
    copy
        Run on copies of the inputs, so that what later happens to them in place
        does not reach the session. False for who hands its arrays over.

    Raises
    ------
    NonScalarOutputError
        If the output is several numbers and there is no seed.
    DisconnectedInputError
        If the output does not depend on something in ``wrt``.
    DtypeError
        If something in ``wrt`` is of integer dtype.

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

    #: What shows a session; set by the floor that knows notebooks.
    presenter: ClassVar[Callable[[Session], Any] | None] = None

    def __init__(
        self,
        graph: Graph,
        output: Node | None = None,
        wrt: Iterable[Node] | None = None,
        *,
        name: str = "ad",
        seed: Any = None,
        copy: bool = True,
    ) -> None:
        #: Held while the session changes, and by who reads several of its stages.
        self.lock = Turns()
        #: What its own code calls it.
        self.name = name
        #: Its nodes by name and id.
        self.nodes = Nodes(graph.nodes, name)
        #: The id of the node that is differentiated.
        self.output = question.output_of(self.nodes, graph, output)
        #: The ids of the nodes it is differentiated by.
        self.wrt = question.wrt_of(self.nodes, graph, self.output, wrt)
        #: The cotangent of an output that is not one number.
        self.seed = question.seed_for(seed, graph.nodes[self.output])
        self.history = History()
        self._next = 1
        self._listeners: list[Callable[[str], object]] = []
        self._gradient_graph: tuple[State, Graph] | None = None
        traced = Forward(graph)
        self._take(self._made(stages.own(traced) if copy else traced, ()))

    # Stages

    def _made(self, forward: Forward, entries: Entries) -> State:
        """The state that follows from inputs and overrides."""
        nodes = forward.graph.nodes
        resolution = None
        if entries:
            given = [entry.override for entry in entries]
            resolution = resolve(given, nodes, where=f"session {self.name!r}")
        backward = None
        if nodes[self.output]._value is not None:
            if resolution is not None and resolution.winners:
                backward = self._swept(forward, resolution)
            else:
                backward = self._true(forward)
        return State(forward, entries, resolution, backward)

    def _swept(self, forward: Forward, resolution: Resolution | None) -> Backward:
        seed = self._seed_of(forward)
        return stages.sweep(forward, self.output, seed, self.wrt, resolution)

    def _true(self, forward: Forward) -> Backward:
        if forward.truth is None:
            forward.truth = self._swept(forward, None)
        return forward.truth

    def _seed_of(self, forward: Forward) -> Any:
        if self.seed is not None:
            return self.seed
        return np.ones_like(forward.graph.nodes[self.output]._value)

    def _take(self, state: State) -> None:
        self._state = state
        self.nodes.current = state.forward.ids

    def _change(self, state: State, what: str) -> None:
        self._take(state)
        for callback in list(self._listeners):
            callback(what)

    # What it shows

    @property
    def graph(self) -> Graph:
        """The program, forward."""
        return self._state.forward.graph

    @property
    def forward(self) -> Forward:
        """The stage of the values."""
        return self._state.forward

    @property
    def backward(self) -> Backward | None:
        """The stage of the gradients; None for a program without values."""
        return self._state.backward

    @property
    def truth(self) -> Backward | None:
        """The stage of the gradients with all overrides off."""
        state = self._state
        return None if state.backward is None else self._true(state.forward)

    @property
    def resolution(self) -> Resolution | None:
        """Which override runs where; None without overrides."""
        return self._state.resolution

    def needed(self) -> Backward:
        """The stage of the gradients, or the error that says why there is none."""
        if self._state.backward is None:
            raise UsageError(
                f"session {self.name!r} has no values, so no gradients: it was traced"
                f" without. Give all inputs to {self.name}.run(...)."
            )
        return self._state.backward

    @property
    def value(self) -> Any:
        """The output's value."""
        return handed(self.graph.nodes[self.output]._value)

    @property
    def values(self) -> Arrays:
        """The value of each node, by its name, its id or its Tensor."""
        nodes = self.graph.nodes
        names = self.nodes.names
        return Arrays(self.nodes, names, lambda i: nodes[i]._value, "values")

    @property
    def grads(self) -> Arrays:
        """The gradient by each ``wrt``, under its name; overrides applied."""
        known, nodes = self.needed().cotangents, self.graph.nodes
        names = {self.nodes.labels[i]: i for i in self.wrt}

        def gradient(i: int) -> Any:
            if i not in self.wrt:
                label = self.nodes.labels[i]
                raise UnknownNodeError(
                    f"{label} is not in wrt ({', '.join(names)}). What flows back to"
                    f" it is {self.name}.cotangents[{label!r}]."
                )
            return known[i] if i in known else np.zeros_like(nodes[i]._value)

        return Arrays(self.nodes, names, gradient, "gradients")

    @property
    def cotangents(self) -> Arrays:
        """What flows back to each node; None where nothing does."""
        known = self.needed().cotangents
        names = {name: i for name, i in self.nodes.names.items() if i in known}
        return Arrays(self.nodes, names, known.get, "cotangents")

    @property
    def gradient_graph(self) -> Graph:
        """The gradients as a program, overrides applied.

        Each of its Tensors names the forward node that it belongs to (`origin`).
        """
        state = self._state
        if self._gradient_graph is None or self._gradient_graph[0] is not state:
            self.needed()
            nodes = state.forward.graph.nodes
            made = reverse.pull_back(
                [nodes[self.output]],
                [self._seed_of(state.forward)],
                [nodes[i] for i in self.wrt],
                record=True,
                rules=None if state.resolution is None else state.resolution.pulls(),
            )
            graph = Graph(state.forward.graph.inputs, made)
            self._gradient_graph = state, graph
        return self._gradient_graph[1]

    def __getitem__(self, node: Node) -> Tensor:
        return self.graph.nodes[self.nodes.find(node)]

    def __repr__(self) -> str:
        state, labels = self._state, self.nodes.labels
        node = state.forward.graph.nodes[self.output]
        text = node.name or node.op.name
        if shape_of(node) != ():
            text += f" {node.shape}"
        elif node._value is not None:
            number = node._value.item() if hasattr(node._value, "item") else node._value
            text += f" = {number:g}"
        by = ", ".join(labels[i] for i in self.wrt) or "nothing"
        more = len(state.entries)
        tail = f", {more} override{'s' * (more != 1)}" if more else ""
        return (
            f"<Session {self.name!r}: {text} by {by}; {self.nodes.count} nodes{tail}>"
        )

    # Other derivatives

    def jacobian(
        self, of: Node | None = None, wrt: Iterable[Node] | Node | None = None
    ) -> Any:
        """The derivative of any node by others, overrides applied.

        Parameters
        ----------
        of
            The node, its name or id; by default the output.
        wrt
            One node: an array of the shapes of both. Several (by default the
            session's ``wrt``): a dict of such arrays.

        Examples
        --------
        >>> import numpy as np, workbench as wb
        >>> session = wb.Session(wb.trace(lambda x: np.sum(x**2))(np.arange(3.0)))
        >>> session.jacobian(wrt="x")
        array([0., 2., 4.])
        """
        return derivatives.jacobian(self, of, wrt)

    def hessian(self, wrt: Iterable[Node] | Node | None = None) -> Any:
        """The second derivative of the output, overrides applied.

        One node: an array; several (by default the session's ``wrt``): a dict of
        dicts, with the cross blocks.

        Examples
        --------
        >>> import numpy as np, workbench as wb
        >>> session = wb.Session(wb.trace(lambda x: np.sum(x**3))(np.ones(2)))
        >>> session.hessian("x")
        array([[6., 0.],
               [0., 6.]])
        """
        return derivatives.hessian(self, wrt)

    def check(
        self, wrt: Iterable[Node] | Node | None = None, **settings: Any
    ) -> Report:
        """Compare the gradients, overrides applied, with differences of the values.

        Parameters
        ----------
        wrt
            Some of the session's ``wrt``; by default all.
        settings
            ``entries``, ``rtol``, ``atol``, ``seed``, as for `check_grads`.

        Returns
        -------
        A report, be it good or bad; ``report.raise_if_wrong()`` raises.

        Examples
        --------
        >>> import numpy as np, workbench as wb
        >>> session = wb.Session(wb.trace(lambda x: np.sum(x**3))(np.ones(2)))
        >>> session.check().ok
        True
        """
        return derivatives.check(self, wrt, settings)

    # Changes

    @changing
    def run(self, values: Mapping[str, Any] | None = None, **named: Any) -> Any:
        """Run the program with other inputs, and its gradients with it.

        Python's ``if`` and ``for`` went one way when the program was traced; they
        are not asked again.

        Parameters
        ----------
        values, named
            Inputs by their names, each in the shape it has; the others stay.

        Returns
        -------
        The output's new value.

        Examples
        --------
        >>> import numpy as np, workbench as wb
        >>> session = wb.Session(wb.trace(lambda x: np.sum(x**2))(np.ones(2)))
        >>> float(session.run(x=np.array([3.0, 4.0]))), session.grads["x"]
        (25.0, array([6., 8.]))
        """
        nodes, labels = self.graph.nodes, self.nodes.labels
        leaves: dict[int, Any] = {}
        for key, value in {**(values or {}), **named}.items():
            i = self.nodes.find(key)
            if not stages.is_leaf(nodes[i]):
                inputs = [labels[k] for k, x in enumerate(nodes) if stages.is_leaf(x)]
                raise UsageError(
                    f"run: {labels[i]} is computed, it is not an input. The inputs are"
                    f" {', '.join(inputs)}."
                )
            leaves[i] = fitted(value, nodes[i], labels[i])
        state = self._state
        self._change(self._made(state.forward.run(leaves), state.entries), "values")
        return self.value

    @changing
    def override(
        self,
        target: Any,
        vjp: str | Callable[..., Any] | None = None,
        *,
        jvp: str | Callable[..., Any] | None = None,
        name: str | None = None,
        enabled: bool = True,
        replacing: int | Attached | None = None,
    ) -> Attached:
        """Attach another gradient rule, and run the backward sweep again.

        Parameters
        ----------
        target
            As for :func:`workbench.override`, and the name of a node; a name that
            an op has too means the op, ``session[name]`` is the node. Or an
            override that exists already.
        vjp, jvp, name, enabled
            As for :func:`workbench.override`.
        replacing
            An override, or its id, whose place this one takes. One that is there
            already, with the same rule as data, is not attached again.

        Raises
        ------
        OverrideError
            If it matches nothing or its rule does not fit; nothing has changed then.
        """
        find = partial(attached.target_in, self.nodes, self.graph.nodes)
        if isinstance(target, Override):
            made = replace(target, target=find(target.target))
        else:
            made = overriding.override(
                find(target), vjp, jvp=jvp, name=name, enabled=enabled
            )
        entries = self._state.entries
        where = attached.target_text(made.target, self.nodes)
        if replacing is None and made.data:
            # The same line again, as when its cell runs twice, changes nothing.
            line = attached.code_line(self.name, made, self.nodes)
            for one in self.overrides:
                if one.override.data and one.code == line:
                    return one
        if replacing is None:
            entry = Entry(self._next, made)
            self._edit(f"{made.label} on {where}", (*entries, entry))
            self._next += 1
        else:
            entry = Entry(entry_of(entries, number(replacing)).id, made)
            self._edit(
                f"change to {made.label} on {where}",
                tuple(entry if e.id == entry.id else e for e in entries),
            )
        return next(one for one in self.overrides if one.id == entry.id)

    @changing
    def switch(self, which: int | Attached, enabled: bool) -> None:
        """Switch an override on or off; one that is off stays listed."""
        entries = self._state.entries
        old = entry_of(entries, number(which))
        new = Entry(old.id, replace(old.override, enabled=bool(enabled)))
        self._edit(
            f"switch {'on' if enabled else 'off'} {old.override.label}",
            tuple(new if e.id == old.id else e for e in entries),
        )

    @changing
    def remove(self, which: int | Attached) -> None:
        """Remove an override."""
        entries = self._state.entries
        old = entry_of(entries, number(which))
        self._edit(
            f"remove {old.override.label}",
            tuple(e for e in entries if e.id != old.id),
        )

    @changing
    def undo(self) -> None:
        """Take the last change of the overrides back."""
        self._step(back=True)

    @changing
    def redo(self) -> None:
        """Do again what was taken back."""
        self._step(back=False)

    def _edit(self, text: str, entries: Entries) -> None:
        before = self._state
        state = self._made(before.forward, entries)
        self.history.note(text, before.entries)
        self._change(state, "overrides")

    def _step(self, back: bool) -> None:
        before = self._state
        state = self._made(before.forward, self.history.peek(back))
        self.history.step(back, before.entries)
        self._change(state, "overrides")

    @property
    def overrides(self) -> list[Attached]:
        """All overrides in order: what each matched and what it changes."""
        state = self._state
        if state.resolution is None:
            return []
        return [
            Attached(
                entry.id,
                entry.override,
                tuple(state.forward.ids[node.serial] for node in matched),
                attached.target_text(entry.override.target, self.nodes),
                attached.code_line(self.name, entry.override, self.nodes),
                partial(self._effects, state, entry.override),
            )
            for entry, matched in zip(
                state.entries, state.resolution.matched, strict=True
            )
        ]

    def _effects(self, state: State, override: Override) -> list[attached.Effect]:
        if state.backward is None:
            return []
        on = [e.override for e in state.entries if e.override.enabled]
        forward = state.forward
        alone: Mapping[int, Any] | None
        if on == [override]:
            alone = state.backward.cotangents
        elif (alone := forward.alone.get(override)) is None:
            resolution = resolve([override], forward.graph.nodes)
            alone = self._swept(forward, resolution).cotangents
            # Kept without what flows elsewhere, which is large.
            alone = {i: g for i, g in alone.items() if i in self.wrt}
            for gone in set(forward.alone).difference(on):
                del forward.alone[gone]
            forward.alone[override] = alone
        true = self._true(forward).cotangents
        return attached.effects(alone, true, self.wrt, self.nodes.labels)

    def code(self) -> str:
        """The lines of Python that attach the overrides as they are now."""
        return "\n".join(one.code for one in self.overrides)

    def check_rule(self, target: Any, rule: str) -> str:
        """Whether an expression would do for a target, as it is typed.

        Returns a few words about where it would run.

        Raises
        ------
        OverrideError
            If it would not; an `ExpressionError` if the expression is refused.
        """
        nodes = self.graph.nodes
        parsed = parse(rule)
        found = overriding.override(attached.target_in(self.nodes, nodes, target), rule)
        (matched,) = resolve([found], nodes).matched
        for node in attached.kinds(matched):
            check_on(parsed, node, found.label)
        return f"ok for {len(matched)} nodes" if len(matched) > 1 else "ok"

    def subscribe(self, callback: Callable[[str], object]) -> Callable[[], None]:
        """Call back after each change, with ``"values"`` or ``"overrides"``.

        Returns the function that ends it.
        """
        listeners = self._listeners  # who holds `end` does not hold the session
        listeners.append(callback)

        def end() -> None:
            if callback in listeners:
                listeners.remove(callback)

        return end

    def show(self) -> Any:
        """The session as a picture in the notebook; see `workbench.show`."""
        if Session.presenter is None:
            raise UsageError("a session is shown by workbench.show(session).")
        return Session.presenter(self)


def number(which: int | Attached) -> int:
    """The number of an override that is given by itself or by its number."""
    return which.id if isinstance(which, Attached) else which
