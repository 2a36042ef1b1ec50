"""`Session`: one traced program with every stage kept, and its overrides.

Values, then gradients: a change runs only the stages after it. An override runs
the backward sweep again, new inputs run what depends on them. Everything is
computed before anything is let go, so a change that fails or is interrupted
leaves the last good state. What the page shows of a session is written by
`snapshot.py`; nothing here knows a notebook.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from workbench.errors import UsageError
from workbench.session import checking, derivatives, diagnosing
from workbench.session.derivative import Derivative, derivative
from workbench.session.edits import Changing
from workbench.session.nodes import Node

if TYPE_CHECKING:
    from workbench.checks.doctor.case import Progress
    from workbench.checks.doctor.finding import Finding, Findings
    from workbench.checks.report import Report
    from workbench.session.applied_override import Attached

__all__ = ["Session"]


class Session(Changing):
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

    def derivative(
        self,
        of: Node | None = None,
        wrt: Iterable[Node] | Node | None = None,
        *,
        mode: Literal["auto", "forward", "reverse"] = "auto",
        overrides: bool = True,
    ) -> Derivative:
        """The derivative of any node by others, computed where it is looked at.

        Parameters
        ----------
        of
            The node, its name or id; by default the output.
        wrt
            One node or several, side by side; by default the session's ``wrt``. One
            that is computed from another is held while that varies.
        mode
            ``"forward"``: one sweep for each entry of ``wrt``; ``"reverse"``: one for
            each entry of ``of``; ``"auto"``: what costs less, by the number of sweeps
            and the sizes of what lies between.
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
        return derivative(self, of, wrt, mode, overrides)

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
        self,
        wrt: Iterable[Node] | Node | None = None,
        *,
        nodes: bool = True,
        progress: Progress | None = None,
        **settings: Any,
    ) -> Report:
        """Check each node's rule by itself, and the gradients as a whole.

        The truth is what the ops compute, by the complex step or differences; see
        `workbench.checks.nodes` for what an entry may be off by. Where overrides run
        the true gradient is compared, and the report tells what they change.

        Parameters
        ----------
        wrt
            Some of the session's ``wrt``; by default all.
        nodes
            Whether to check the rules of the nodes too.
        progress
            Called with (done, all) before each node and each entry; true stops the
            check, and so does an interrupt: the report then holds what was found. By
            default a check of more than a second says how far it is.
        settings
            ``entries``, ``rtol``, ``atol``, ``seed``, as for `check_grads`, and
            ``order``: 1 leaves out the derivatives of the rules. Of a large program
            fewer entries are checked by default, and all along a direction.

        Returns
        -------
        A report, be it good or bad; ``report.raise_if_wrong()`` raises. It is kept as
        `report`, and shown in the picture.

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
        return checking.check(self, wrt, nodes, progress, settings)

    def diagnose(self, progress: Progress | None = None) -> Findings:
        """Find the nodes to blame for what is wrong with values and gradients.

        Overrides are in force: it looks at what runs. What it finds is kept as
        `findings`, and shown in the picture.

        Parameters
        ----------
        progress
            Called with (done, all) now and then; true stops it, and what was found so
            far is returned.

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
        return diagnosing.diagnose(self, progress)

    def fix(self, which: Finding | int) -> Attached | str:
        """Attach what mends a finding, as an override on the node to blame.

        Parameters
        ----------
        which
            A finding, or its position among the `findings`.

        Returns
        -------
        The override. Where the program itself has to change: the line to write.

        Raises
        ------
        UsageError
            If there is no such finding, or nothing general mends it.

        Examples
        --------
        >>> import numpy as np, workbench as wb
        >>> length = lambda x: np.sqrt(np.sum(x**2))
        >>> with np.errstate(all="ignore"):
        ...     session = wb.Session(wb.trace(length)(np.zeros(2)))
        >>> session.fix(session.diagnose()[0]).matched, session.grads["x"]
        ((3,), array([0., 0.]))
        """
        return diagnosing.fix(self, which)

    def show(self) -> Any:
        """The session as a picture in the notebook, in words outside of one.

        See `workbench.show`.

        Examples
        --------
        >>> import numpy as np, workbench as wb
        >>> wb.Session(wb.trace(lambda x: np.sum(x**2))(np.ones(3))).show()
        <Session 'ad': sum = 3 by x; 3 nodes>
          ‖∂/∂x‖ = 3.464
        """
        if Session.presenter is None:
            raise UsageError("a session is shown by workbench.show(session).")
        return Session.presenter(self)
