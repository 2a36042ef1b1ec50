"""An exception of a cell as the notebook shows it: the user's frames, no others.

The exception itself stays as it is, with its whole traceback for a debugger;
only what IPython displays is cut.
"""

from __future__ import annotations

import traceback
from types import TracebackType
from typing import Any

from workbench.errors import WorkbenchError, wrapped_text

__all__ = ["shown"]


def shown(error: BaseException, shell: Any, filename: str) -> BaseException:
    """The exception to raise out of the magic, so that IPython shows it well.

    Parameters
    ----------
    error
        What the cell has raised.
    shell
        The IPython shell, which renders it.
    filename
        The name under which the cell was compiled.
    """
    frames = _users(error, filename)
    if isinstance(error, SyntaxError):
        # IPython would list all frames above a SyntaxError that a magic raises.
        listed = traceback.extract_tb(frames)
        lines = shell.SyntaxTB.structured_traceback(type(error), error, listed)
        made: BaseException = type(type(error).__name__, (_Shown,), {})(error)
        _render(made, lambda: lines)
        return made

    def render() -> list[str]:
        cause, suppress = error.__cause__, error.__suppress_context__
        if isinstance(error, WorkbenchError) or _raised_here(error):
            # Its text holds all that is worth reading of the cause.
            error.__cause__, error.__suppress_context__ = None, True
        try:
            lines: list[str] = shell.InteractiveTB.structured_traceback(
                # No line of the user: our own mistake, shown whole.
                type(error),
                error,
                frames or error.__traceback__,
                tb_offset=0,
            )
        finally:
            error.__cause__, error.__suppress_context__ = cause, suppress
        return wrapped_text(lines) if isinstance(error, WorkbenchError) else lines

    _render(error, render)
    return error


def _raised_here(error: BaseException) -> bool:
    """Whether Workbench raised it, such as an IndexError that tells the user's line."""
    step, name = error.__traceback__, ""
    while step is not None:
        name = step.tb_frame.f_globals.get("__name__", "")
        step = step.tb_next
    return name.startswith("workbench.")


class _Shown(Exception):
    """Stands in for an error that IPython would show with all its frames."""

    def __str__(self) -> str:
        return str(self.args[0])


def _render(error: BaseException, render: Any) -> None:
    """What IPython asks an exception for before it makes a traceback itself."""
    error._render_traceback_ = render  # type: ignore[attr-defined]


def _users(error: BaseException, filename: str) -> TracebackType | None:
    """The traceback from the cell on, without Workbench's frames."""
    found: list[TracebackType] = []
    raised: BaseException | None = error
    while raised is not None and not found:
        # What a closing trace has put in other words still knows the line.
        step = raised.__traceback__
        inside = False
        while step is not None:
            frame = step.tb_frame
            inside = inside or frame.f_code.co_filename == filename
            name = frame.f_globals.get("__name__", "")
            if inside and not name.startswith("workbench."):
                found.append(step)
            step = step.tb_next
        raised = raised.__cause__
    made = None
    for step in reversed(found):
        made = TracebackType(made, step.tb_frame, step.tb_lasti, step.tb_lineno)
    return made
