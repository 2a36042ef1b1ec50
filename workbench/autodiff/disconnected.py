"""What is said and done where no derivative reaches: error, warning, or nothing."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from typing import Any

from workbench.core import blame, source
from workbench.core.tensor import Tensor
from workbench.errors import DisconnectedInputError, UsageError

__all__ = ["disconnected", "named", "one_of", "still"]


def named(x: Tensor) -> str:
    """How a sentence calls a Tensor: by its name where it has one."""
    return repr(x.name) if x.name else f"{blame.describe(x)}{blame.at(x.site)}"


def disconnected(x: Tensor, outputs: Sequence[Tensor], policy: str, name: str) -> None:
    """Act on a Tensor that is asked for and that nothing depends on."""
    of = ", ".join(map(named, outputs)) or "nothing"
    told(
        f"{name}: {of} does not depend on {named(x)}: it is not part of the program, or"
        " its values are cut off on the way (disconnected_grad, consider_constant, a"
        " shape). Take it out of wrt, or write disconnected_inputs='ignore' for a"
        " gradient of zero.",
        policy,
    )


def still(y: Tensor, wrt: Sequence[Tensor], policy: str, name: str) -> None:
    """Act on an output that depends on nothing that moves."""
    told(
        f"{name}: {named(y)} depends on none of {', '.join(map(named, wrt))}. Leave it"
        " out, or write disconnected_outputs='ignore' for a tangent of zero.",
        policy,
    )


def told(message: str, policy: str) -> None:
    """Raise, warn or be silent about what is disconnected."""
    if policy == "raise":
        raise DisconnectedInputError(message)
    if policy == "warn":
        warnings.warn(message, stacklevel=_user_level())


def _user_level() -> int:
    """How many frames up the nearest one outside Workbench is."""
    level, frame = 2, sys._getframe(2)
    while source.internal(frame) and frame.f_back is not None:
        level, frame = level + 1, frame.f_back
    return level


def one_of(name: str, option: str, value: Any, known: Sequence[str]) -> None:
    """Refuse an option's value that there is not."""
    if value not in known:
        raise UsageError(
            f"{name}: {option}={value!r}. Write one of {', '.join(map(repr, known))}."
        )
