"""`Session`: one traced program with every stage kept, and its overrides.

Values, then gradients: a change runs only the stages after it. An override runs
the backward sweep again, new inputs run what depends on them. Everything is
computed before anything is let go, so a change that fails or is interrupted
leaves the last good state. What the page shows of a session is written by
`snapshot.py`; nothing here knows a notebook.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

from workbench.errors import UsageError
from workbench.session import attached, derivatives, stages
from workbench.session.attached import Attached
from workbench.session.history import Entries, Entry, entry_of
from workbench.session.kept import Kept
from workbench.session.nodes import Node, fitted
from workbench.transforms import overrides as overriding
from workbench.transforms.expression import parse
from workbench.transforms.overrides import Override, resolve
from workbench.transforms.trying import check_on

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


class Session(Kept):
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
        find = partial(attached.target_in, self.nodes, self.forward.program)
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
        nodes = self.forward.program
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
