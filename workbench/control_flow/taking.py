"""What a step or a branch takes: an error that names what it gets, in order."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from workbench.custom.registry import counted, placed
from workbench.errors import UsageError

__all__ = ["check_takes"]


def check_takes(
    f: Callable[..., Any], given: Sequence[str], what: str, cure: str = ""
) -> None:
    """Raise an error if a function does not take what a loop hands it.

    Parameters
    ----------
    f
        The function.
    given
        What each of its arguments is.
    what
        The loop, and what the function is to it: ``"scan: the step"``.
    cure
        What to write instead.

    Raises
    ------
    UsageError
        If it takes more, or fewer.
    """
    if hasattr(f, "__wrapped__") and "__signature__" in vars(f):
        return  # copied from what it wraps, as NumPy's ufuncs have it
    try:
        # A wrapper is called by its own parameters, not by those of what it wraps.
        signature = inspect.signature(f, follow_wrapped=False)
    except (TypeError, ValueError):
        return  # it is compiled, and says nothing of itself
    try:
        signature.bind(*given)
    except TypeError:
        listed = f": {', '.join(given)}" if given else ""
        raise UsageError(
            f"{what} {placed(f)} takes {signature}, and gets"
            f" {counted(len(given), 'argument')}{listed}. {cure}".rstrip()
        ) from None
