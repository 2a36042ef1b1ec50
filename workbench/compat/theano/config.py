"""`theano.config` and `theano.Mode`: flags and modes that old programs set.

``floatX`` decides the dtype of what is declared without one, and ``compute_test_value``
and its like are taken and change nothing: graphs here are checked when they are built,
and nothing is compiled. `THEANO_FLAGS` is read once, as Theano read it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from workbench.errors import UsageError
from workbench.gradient.verify import MODES, check_mode

__all__ = ["Config", "change_flags", "config"]

# `theano.Mode` and its kin: taken and kept, and without effect; names are known.

#: What Theano ran programs by.
LINKERS = (
    "c", "c&py", "c|py", "c|py_nogc", "cvm", "cvm_nogc", "py", "vm", "vm_nogc",
)  # fmt: skip


class Mode:
    """Theano's way to compile: accepted and kept, without effect here."""

    def __init__(self, linker: object = None, *args: Any, **settings: Any) -> None:
        if isinstance(linker, str) and linker not in (*LINKERS, *MODES):
            raise UsageError(
                f"Mode: there is no linker {linker!r}. Give one of"
                f" {', '.join(LINKERS)}; none of them has an effect here."
            )
        self.args, self.settings = (linker, *args), settings

    def including(self, *tags: str) -> Mode:
        """Return the same."""
        return self

    def excluding(self, *tags: str) -> Mode:
        """Return the same."""
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
    """Return the mode of functions that are given none."""
    return FAST_RUN


def get_mode(mode: object) -> Mode:
    """Return a mode by its name."""
    check_mode(mode, "get_mode")
    return mode if isinstance(mode, Mode) else Mode(mode)


# The flags

FLOATS = ("float16", "float32", "float64")

TESTED = ("off", "ignore", "warn", "raise", "pdb")
#: What some flags may be; a slip of the pen would change nothing, and not be seen.
CHOICES: dict[str, tuple[str, ...]] = {
    "floatX": FLOATS,
    "mode": MODES,
    "linker": LINKERS,
    "on_unused_input": ("raise", "warn", "ignore"),
    "compute_test_value": TESTED,
    "compute_test_value_opt": TESTED,
}

#: Flags that are kept as they are set, with what Theano had.
QUIET: dict[str, Any] = {
    "allow_gc": True,
    "assert_no_cpu_op": "ignore",
    "base_compiledir": "",
    "blas": "",
    "cast_policy": "custom",
    "check_input": True,
    "compiledir": "",
    "compute_test_value": "off",
    "compute_test_value_opt": "off",
    "cxx": "",
    "deterministic": "default",
    "device": "cpu",
    "dnn": "",
    "exception_verbosity": "low",
    "experimental": "",
    "force_device": False,
    "gcc": "",
    "gpuarray": "",
    "int_division": "int",
    "lib": "",
    "linker": "cvm",
    "mode": "Mode",
    "nvcc": "",
    "on_opt_error": "warn",
    "on_unused_input": "raise",
    "openmp": False,
    "openmp_elemwise_minsize": 200000,
    "optimizer": "fast_run",
    "optimizer_including": "",
    "optimizer_excluding": "",
    "optimizer_verbose": False,
    "print_active_device": True,
    "pickle_test_value": True,
    "print_test_value": False,
    "profile": False,
    "profile_memory": False,
    "profile_optimizer": False,
    "reoptimize_unpickled_function": False,
    "scan": "",
    "traceback": "",
    "unittests": "",
    "vm": "",
    "warn": "",
    "warn_float64": "ignore",
}


class Section:
    """Flags with a dot in their names, ``config.gcc.cxxflags``: kept, unused."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, flag: str) -> Any:
        if flag.startswith("_"):
            raise AttributeError(flag)
        return ""

    def __repr__(self) -> str:
        return f"<flags {self._name}.*>"


class Config:
    """The flags, as attributes.

    >>> from workbench.compat import theano
    >>> theano.config.floatX
    'float64'
    """

    floatX: str

    def __init__(self) -> None:
        made: dict[str, Any] = {"floatX": "float64", **QUIET}
        for name in ("blas", "dnn", "experimental", "gcc", "gpuarray", "lib", "nvcc",
                     "scan", "traceback", "unittests", "vm", "warn"):  # fmt: skip
            made[name] = Section(name)
        vars(self).update(made)

    def __setattr__(self, flag: str, value: Any) -> None:
        known = CHOICES.get(flag)
        if known is not None and value not in known:
            raise UsageError(
                f"config.{flag} is one of {', '.join(known)}, not {value!r}."
            )
        object.__setattr__(self, flag, value)

    def __getattr__(self, flag: str) -> Any:
        raise AttributeError(
            f"config.{flag} is not set, and Workbench has no default for it. It"
            " uses floatX and on_unused_input; set any other flag before you read"
            " it."
        )

    @contextmanager
    def change_flags(self, **flags: Any) -> Iterator[None]:
        """Set flags for a while: ``with change_flags(floatX="float32"):``."""
        old = {flag: vars(self).get(flag) for flag in flags}
        try:
            for flag, value in flags.items():
                setattr(self, flag, value)
            yield
        finally:
            for flag, value in old.items():
                setattr(self, flag, value)

    def read(self, text: str) -> None:
        """Set the flags in a text of `THEANO_FLAGS`: ``floatX=float32,device=cpu``."""
        for part in filter(None, (part.strip() for part in text.split(","))):
            flag, _, value = part.partition("=")
            if "." not in flag:
                setattr(self, flag.strip(), value.strip())


config = Config()
config.read(os.environ.get("THEANO_FLAGS", ""))
change_flags = config.change_flags
