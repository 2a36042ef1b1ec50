"""Kernels on the CPU: compiled when first called, loaded by ctypes.

Two threads that call the same kernel compile it once; the call itself lets other
threads run.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from workbench.custom.kernels import toolchain, units
from workbench.custom.kernels.signature import Signature
from workbench.errors import KernelError

STANDARDS = {"c": "-std=gnu11", "cpp": "-std=gnu++17"}
FLAGS = ("-O2", "-fPIC", "-shared")
#: What C lets pass with a warning, and what then fails when it runs.
STRICT = tuple(
    f"-Werror={name}"
    for name in ("implicit-function-declaration", "int-conversion",
                 "incompatible-pointer-types")
)  # fmt: skip

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)

#: The C type of an argument that is not a pointer, by its Python type.
PASSED: dict[type, Callable[[Any], Any]] = {
    bool: ctypes.c_bool,
    int: ctypes.c_int64,
    float: ctypes.c_double,
}


class Native:
    """One compiled kernel, for one choice of dtypes.

    Parameters
    ----------
    call
        The function of the library.
    guarded
        Whether it takes a place for the text of what it throws.
    """

    def __init__(self, call: Any, guarded: bool) -> None:
        self.call = call
        self.guarded = guarded

    def __call__(
        self,
        inputs: Sequence[np.ndarray[Any, Any]],
        outputs: Sequence[np.ndarray[Any, Any]],
        lengths: Sequence[int],
        settings: Sequence[Any],
    ) -> tuple[int, str]:
        """Run on contiguous arrays; return the status, 0 if none, and what it threw."""
        pointers = [ctypes.c_void_p(x.ctypes.data) for x in (*inputs, *outputs)]
        numbers = [ctypes.c_int64(n) for n in lengths]
        told = [PASSED[type(x)](x) for x in settings]
        if not self.guarded:
            return self.call(*pointers, *numbers, *told) or 0, ""
        said = ctypes.create_string_buffer(units.MOST_SAID + 1)
        status = self.call(*pointers, *numbers, *told, said)
        return status, said.value.decode("utf-8", "replace")


#: What stands before the declaration that a source must fit.
CALLED = "\nThe kernel is called as\n  "


def _load(file: Path, name: str, guarded: bool, source: str, must: str) -> Any:
    """Return the function of a compiled library."""
    lacks = KernelError(
        f"{name}: the {source} has no function {name} of the arguments that it"
        f" gets.{CALLED}{must}"
    )
    try:
        return getattr(ctypes.CDLL(str(file)), f"{name}_guarded" if guarded else name)
    except AttributeError:
        raise lacks from None
    except OSError as error:
        said = str(error)
        cure = (
            "If programs may not run from that folder, set XDG_CACHE_HOME to one"
            " where they may."
        )
        missing = re.search(r"undefined symbol: (\w+)|Symbol not found: _?(\w+)", said)
        if missing and name in missing.groups():
            raise lacks from None
        if missing:
            said = f"it calls {missing[1] or missing[2]}, which nothing defines"
            cure = "Define it, or name its library: flags = '-l...'."
        raise KernelError(
            f"{name}: the {source} is compiled, but {said}. {cure}"
        ) from (error)


def return_type(source: str, name: str) -> str:
    """Return ``"int"`` for a function that returns a status, else ``"void"``."""
    plain = _COMMENT.sub(" ", source)
    return "int" if re.search(rf"\bint(?:32_t)?\s+{name}\s*\(", plain) else "void"


def load_native(
    language: str,
    text: units.Text,
    signature: Signature,
    chosen: Mapping[str, np.dtype[Any]],
    settings: Mapping[str, type],
    flags: Sequence[str],
    limit: float,
) -> Native:
    """Return the compiled kernel: from this process, from disk, or built now.

    Raises
    ------
    KernelError
        If there is no compiler, or it refuses the source.
    """
    spoken = units.LANGUAGES[language]
    kind = return_type(text.text, signature.op)
    whole = units.write_unit(text.text, signature, chosen, settings, spoken, kind)
    found = toolchain.find_compiler(language)
    guarded = language == "cpp"
    strict = STRICT if language == "c" else ()
    command = (*found, STANDARDS[language], *FLAGS, *strict, *flags)
    name = toolchain.cache_key(whole, command, toolchain.version(found))
    with _get_lock(name):
        call = _LOADED.get(name)
        if call is not None:
            return Native(call, guarded)

        must = units.write_declaration(signature, settings, spoken, kind)

        def make_error(said: str) -> KernelError:
            lines, amiss = toolchain.read_errors(said, text.text, text.place)
            return KernelError(
                f"{signature.op}: the {spoken.title} source does not compile"
                f" ({os.path.basename(command[0])}):\n{lines}"
                f"{f'{CALLED}{must}' * amiss}"
            )

        try:
            file = toolchain.build(
                name, whole, spoken.suffix, command, limit, make_error
            )
        except OSError as error:
            raise KernelError(
                f"{signature.op}: the compiled kernel cannot be written: {error}. Make"
                " room, or set XDG_CACHE_HOME to another folder."
            ) from error
        source = f"{spoken.title} source{text.where()}"
        call = _load(file, signature.op, guarded, source, must)
        call.restype = ctypes.c_int if guarded or kind == "int" else None
        _LOADED[name] = call
    return Native(call, guarded)


#: What this process has loaded; a library is never unloaded.
_LOADED: dict[str, Any] = {}

#: One lock for each kernel that is being made.
_TURNS: dict[str, Lock] = {}
_GUARD = Lock()


def _get_lock(name: str) -> Lock:
    with _GUARD:
        return _TURNS.setdefault(name, Lock())


def _after_fork() -> None:
    """Replace the locks in a forked child: one held by another thread stays locked."""
    global _GUARD
    _GUARD = Lock()
    _TURNS.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
