"""Every exception Workbench raises, each with a cause and a cure.

```
WorkbenchError
├── ShapeError              (ValueError)   shapes that do not fit together
│   └── MatrixShapeError     (LinAlgError)  a matrix that must be square, or two axes
├── MatrixError             (LinAlgError)  a matrix that cannot be factored
├── DtypeError              (TypeError)    a dtype that an operation cannot take
├── TraceError              (TypeError)    a step a trace cannot follow
│   ├── GradientLostError                  a Tensor turned into a plain number
│   └── UnknownLengthError                 a length needed before the program runs
├── NotDifferentiableError  (TypeError)    an op without a derivative
│   └── NullTypeGradError                  a gradient that cannot be computed
│       ├── GradUndefinedError              or that mathematics does not define
│       └── GradNotImplementedError  (NotImplementedError)  or that nobody wrote
├── DisconnectedInputError  (ValueError)   an output that does not depend on wrt
├── NonScalarOutputError    (ValueError)   a gradient of more than one number
├── OverrideError           (ValueError)   an override that cannot apply
│   └── ExpressionError                    a rule's text that is refused
├── RewriteError            (ValueError)   a rewrite rule that is wrong
├── ConvergenceError        (RuntimeError) a solver that did not converge
├── GradientError           (ArithmeticError)  a check found a wrong gradient
├── LoopStoppedError        (RuntimeError) a condition of Session.stop_when holds
├── SnapshotError           (ValueError)   saved data that cannot be read
├── ModelError              (ValueError)   a foreign model that cannot be read or made
├── RegistrationError       (ValueError)   a gradient that cannot be registered
├── KernelError             (RuntimeError) native source that cannot be built
├── CompilerError           (RuntimeError) a program that cannot be compiled
├── ClusterError            (RuntimeError) what a Dask cluster could not do
├── MissingPackageError     (ImportError)  a package that an extra brings
├── DeviceError             (RuntimeError) a GPU that refuses a step, or has stopped
│   └── DeviceMemoryError    (MemoryError)  or has too little memory
└── UsageError              (ValueError)   options that do not fit
    ├── MissingInputError                  a symbol without a value
    ├── UnusedInputError                   an input that nothing reads
    └── UnknownNodeError    (KeyError)     a node that a session does not have
```

Each also derives from the built-in exception that plain NumPy would raise, so
that a user's ``except ValueError`` keeps its meaning. An axis or index out of range
is NumPy's own `AxisError` or `IndexError`, with the user's line.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

from numpy.linalg import LinAlgError

__all__ = [
    "ClusterError",
    "CompilerError",
    "ConvergenceError",
    "DeviceError",
    "DeviceMemoryError",
    "DisconnectedInputError",
    "DtypeError",
    "ExpressionError",
    "GradNotImplementedError",
    "GradUndefinedError",
    "GradientError",
    "GradientLostError",
    "KernelError",
    "LoopStoppedError",
    "MatrixError",
    "MatrixShapeError",
    "MissingInputError",
    "MissingPackageError",
    "ModelError",
    "NonScalarOutputError",
    "NotDifferentiableError",
    "NullTypeGradError",
    "OverrideError",
    "RegistrationError",
    "RewriteError",
    "ShapeError",
    "SnapshotError",
    "TraceError",
    "UnknownLengthError",
    "UnknownNodeError",
    "UnusedInputError",
    "UsageError",
    "WorkbenchError",
]


class WorkbenchError(Exception):
    """The root of the tree: everything Workbench raises on purpose."""

    def __reduce__(self) -> Any:
        """Pickle with what it carries, but for places in a program of this process."""
        places = ("node", "function")
        kept = {k: v for k, v in self.__dict__.items() if k not in places}
        return type(self), self.args, kept

    def _render_traceback_(self) -> list[str]:
        """Return IPython's own traceback, with long lines broken.

        A notebook breaks a line wherever it ends, in the middle of a word too.
        """
        shell = sys.modules["IPython"].get_ipython()
        return wrap_lines(
            shell.InteractiveTB.structured_traceback(
                type(self), self, self.__traceback__
            )
        )


class ShapeError(WorkbenchError, ValueError):
    """Shapes that do not fit together."""

    #: The node of a program that refuses its operands, where one runs.
    node: Any = None


class MatrixShapeError(ShapeError, LinAlgError):
    """An array that is not a matrix, or not a square one, where one is needed."""


class MatrixError(WorkbenchError, LinAlgError):
    """A matrix that cannot be inverted or factored: singular, or not definite."""


class DtypeError(WorkbenchError, TypeError):
    """A dtype that an operation cannot take, such as an integer in ``wrt``."""


class TraceError(WorkbenchError, TypeError):
    """A step that a trace cannot follow."""


class GradientLostError(TraceError):
    """A Tensor would have become a plain number, and its gradient zero."""


class UnknownLengthError(TraceError):
    """A length is needed before the program runs, and is known only then."""

    #: The function whose result needs it, and cannot wait as a node of the program.
    function: object = None


class NotDifferentiableError(WorkbenchError, TypeError):
    """An op on the way from ``wrt`` to the output has no derivative."""


class NullTypeGradError(NotDifferentiableError):
    """A gradient cannot be computed; the message says for which op."""


class GradUndefinedError(NullTypeGradError):
    """A gradient is needed that mathematics does not define."""


class GradNotImplementedError(NullTypeGradError, NotImplementedError):
    """A gradient is needed that an op does not implement."""


class DisconnectedInputError(WorkbenchError, ValueError):
    """The output does not depend on what it is to be differentiated by."""


class NonScalarOutputError(WorkbenchError, ValueError):
    """A gradient needs one number; the output holds several."""


class OverrideError(WorkbenchError, ValueError):
    """A gradient override that matches nothing or cannot apply."""


class ExpressionError(OverrideError):
    """The text of an override's rule is refused; the message says where and why."""


class RewriteError(WorkbenchError, ValueError):
    """A rewrite rule that is wrong, or rules that undo each other without end."""


class ConvergenceError(WorkbenchError, RuntimeError):
    """A solver did not converge."""


class GradientError(WorkbenchError, ArithmeticError):
    """A gradient check failed; ``report`` holds what was compared.

    Parameters
    ----------
    message
        The worst entry, its op and its line.
    report
        The report of the check that failed; None from `workbench.gradient.verify_grad`.
    arg, err_pos
        From that function: the argument, and the flat position in it, where the error
        is largest.
    abs_err, rel_err
        The absolute and relative error there.
    abs_tol, rel_tol
        The tolerances that were exceeded.
    """

    def __init__(
        self,
        message: str,
        report: object = None,
        *,
        arg: int | None = None,
        err_pos: int | None = None,
        abs_err: float | None = None,
        rel_err: float | None = None,
        abs_tol: float | None = None,
        rel_tol: float | None = None,
    ) -> None:
        super().__init__(message)
        self.report = report
        self.arg, self.err_pos = arg, err_pos
        self.abs_err, self.rel_err = abs_err, rel_err
        self.abs_tol, self.rel_tol = abs_tol, rel_tol


class LoopStoppedError(WorkbenchError, RuntimeError):
    """A condition of ``Session.stop_when`` holds: the loop of runs ends at this run."""


class SnapshotError(WorkbenchError, ValueError):
    """Saved data that is damaged or of a newer schema."""


class ModelError(WorkbenchError, ValueError):
    """A model of another library that cannot be read, or a graph it cannot say."""


class RegistrationError(WorkbenchError, ValueError):
    """A gradient cannot be registered: the op is unknown, or has one already."""


class KernelError(WorkbenchError, RuntimeError):
    """Native source cannot be compiled or loaded; with the compiler's messages."""


class CompilerError(WorkbenchError, RuntimeError):
    """A program, or a part of one, that cannot be compiled here; it runs as NumPy."""


class ClusterError(WorkbenchError, RuntimeError):
    """What a Dask cluster could not do: workers or data lost, or pieces that fail."""


class MissingPackageError(WorkbenchError, ImportError):
    """A package is not installed that one of Workbench's extras brings."""


class DeviceError(WorkbenchError, RuntimeError):
    """A GPU refuses a step, has stopped, or was given an index out of bounds."""


class DeviceMemoryError(DeviceError, MemoryError):
    """A GPU has too little memory left; the message says how much was needed."""


class UsageError(WorkbenchError, ValueError):
    """Options or arguments that do not fit together."""


class MissingInputError(UsageError):
    """An expression needs a symbol that has no value and is not an input."""


class UnusedInputError(UsageError):
    """An input that no output needs."""


class UnknownNodeError(UsageError, KeyError):
    """A name, id or Tensor that stands for no node of a session."""

    # KeyError would put the message into quotes.
    __str__ = Exception.__str__


def check_packages(owner: str, extra: str, *names: str) -> None:
    """Raise an error if a module needs packages that are not installed.

    Parameters
    ----------
    owner
        The name of the module.
    extra
        The extra of Workbench that brings them.
    names
        The packages, as they are imported.

    Raises
    ------
    MissingPackageError
        With the packages and the command that installs them.

    Examples
    --------
    >>> check_packages("workbench.plots", "jupyter", "numpy")
    >>> check_packages("workbench.plots", "jupyter", "numpy", "plotly_of_old")
    Traceback (most recent call last):
        ...
    workbench.errors.MissingPackageError: workbench.plots needs plotly_of_old, which is
    not installed. Run pip install 'autodiff-workbench[jupyter]'.
    """
    missing = [name for name in names if find_spec(name) is None]
    if missing:
        # A browser has no shell: the command stands in a cell.
        sign = "%" if sys.platform == "emscripten" else ""
        raise MissingPackageError(
            f"{owner} needs {' and '.join(missing)}, which"
            f" {'is' if len(missing) == 1 else 'are'} not installed. Run"
            f" {sign}pip install 'autodiff-workbench[{extra}]'."
        )


def wrap_lines(lines: Sequence[str], width: int = 80) -> list[str]:
    """Return the lines of a traceback, the last of which is its text, broken at words.

    >>> wrap_lines(["Traceback", "ShapeError: one two three"], 20)
    ['Traceback', 'ShapeError: one two\\nthree']
    """
    from textwrap import wrap

    *frames, message = lines
    broken = [
        wrap(line, width, break_long_words=False, break_on_hyphens=False,
             replace_whitespace=False, drop_whitespace=True) or [""]
        for line in message.split("\n")
    ]  # fmt: skip
    return [*frames, "\n".join(line for part in broken for line in part)]
