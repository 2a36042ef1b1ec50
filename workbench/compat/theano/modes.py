"""`theano.Mode` and its kin: taken and kept, and without effect; names are known."""

from __future__ import annotations

from typing import Any

from workbench.errors import UsageError
from workbench.gradient.verify import MODES, check_mode

__all__ = [
    "FAST_COMPILE",
    "FAST_RUN",
    "LINKERS",
    "DebugMode",
    "Mode",
    "MonitorMode",
    "NanGuardMode",
    "check_mode",
    "get_default_mode",
    "get_mode",
]

#: What Theano ran programs by.
LINKERS = (
    "c", "c&py", "c|py", "c|py_nogc", "cvm", "cvm_nogc", "py", "vm", "vm_nogc",
)  # fmt: skip


class Mode:
    """How Theano compiled: taken and kept, and without effect here."""

    def __init__(self, linker: Any = None, *args: Any, **settings: Any) -> None:
        if isinstance(linker, str) and linker not in (*LINKERS, *MODES):
            raise UsageError(
                f"theano.Mode: there is no linker {linker!r}. Theano had"
                f" {', '.join(LINKERS)}; none has an effect here."
            )
        self.args, self.settings = (linker, *args), settings

    def including(self, *tags: str) -> Mode:
        """The same."""
        return self

    def excluding(self, *tags: str) -> Mode:
        """The same."""
        return self


class DebugMode(Mode):
    """Taken, and without effect: `workbench.check_grads` checks a program."""


class NanGuardMode(Mode):
    """Taken, and without effect."""


class MonitorMode(Mode):
    """Taken, and without effect."""


FAST_RUN = Mode("FAST_RUN")
FAST_COMPILE = Mode("FAST_COMPILE")


def get_default_mode() -> Mode:
    """The mode of functions that are given none."""
    return FAST_RUN


def get_mode(mode: Any) -> Any:
    """A mode by its name."""
    check_mode(mode, "theano.get_mode")
    return mode if isinstance(mode, Mode) else Mode(mode)
