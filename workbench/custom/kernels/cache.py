"""Compiled kernels on disk, found by their content.

A file's name holds what it was made from (source, flags, compiler, machine) and the
digest of what is in it: a damaged one is seen, and built again. It is written under
another name first and then renamed, so that two processes may build at once. The
folder belongs to the user alone; what others could write is not loaded.
"""

from __future__ import annotations

import hashlib
import os
import platform
import stat
import sys
import tempfile
import warnings
from atexit import register
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from shutil import rmtree

from workbench.custom.kernels import toolchain
from workbench.errors import KernelError

__all__ = ["built", "folder", "key"]

SUFFIX = {"darwin": ".dylib", "win32": ".dll"}.get(sys.platform, ".so")

#: Changed when what we put around a source changes.
FORMAT = "2"


def folder() -> Path:
    """Where compiled kernels lie: ``workbench/kernels`` in the user's cache folder."""
    told = os.environ.get("XDG_CACHE_HOME", "")
    if told and Path(told).is_absolute():
        home = Path(told)
    elif sys.platform == "darwin":
        home = Path("~/Library/Caches").expanduser()
    elif sys.platform == "win32" and os.environ.get("LOCALAPPDATA"):
        home = Path(os.environ["LOCALAPPDATA"])
    else:
        home = Path("~/.cache").expanduser()
    return home / "workbench" / "kernels"


def _usable() -> Path:
    """The folder, made if need be and closed to others; or one for this process."""
    try:
        wanted = folder()
    except RuntimeError as error:  # the user has no home
        return _own("the user's home", str(error))
    try:
        wanted.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = wanted.stat()
        if not hasattr(os, "getuid"):
            return wanted
        if found.st_uid != os.getuid():
            raise PermissionError("it belongs to another user")
        if stat.S_IMODE(found.st_mode) & 0o077:
            wanted.chmod(0o700)
        if not os.access(wanted, os.W_OK | os.X_OK):
            raise PermissionError("it cannot be written")
    except OSError as error:
        return _own(str(wanted), str(error))
    return wanted


@cache
def _own(wanted: str, why: str) -> Path:
    """A folder for this process alone, gone when it ends."""
    warnings.warn(
        f"compiled kernels are not kept in {wanted}: {why}. They are built again in"
        " each process until XDG_CACHE_HOME names a folder of yours.",
        RuntimeWarning,
        stacklevel=2,
    )
    made, owner = tempfile.mkdtemp(prefix="workbench-kernels-"), os.getpid()

    def gone() -> None:
        if os.getpid() == owner:  # and not in a fork
            rmtree(made, ignore_errors=True)

    register(gone)
    return Path(made)


def key(text: str, command: Sequence[str], version: str) -> str:
    """The name of what a compiler makes of a text on this machine."""
    parts = [
        FORMAT, text, *command, version, sys.platform, platform.machine(),
        *platform.libc_ver(),
    ]  # fmt: skip
    if any("native" in flag for flag in command):
        parts.append(_processor())
    whole = "\0".join(f"{len(part)}:{part}" for part in parts)
    return hashlib.sha256(whole.encode()).hexdigest()[:40]


@cache
def _processor() -> str:
    """The kind of processor, for code that runs on no other."""
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return "\n".join(
            sorted({x for x in lines if x.startswith(("model name", "flags"))})
        )
    return f"{platform.processor()} {platform.node()}"


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:40]


def _sound(file: Path, digest: str) -> bool:
    """Whether a file is the user's own and holds what its name says."""
    try:
        found = file.lstat()
        if not stat.S_ISREG(found.st_mode):
            return False
        if hasattr(os, "getuid") and (
            found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o022
        ):
            return False
        return _digest(file.read_bytes()) == digest
    except OSError:
        return False


def built(
    name: str,
    text: str,
    suffix: str,
    command: Sequence[str],
    limit: float,
    failed: Callable[[str], KernelError],
) -> Path:
    """The library that a compiler makes of a text: kept from before, or made now.

    Parameters
    ----------
    name
        What ``key`` gave for it.
    text, suffix
        The text, and how its file's name ends.
    command
        The compiler and its flags, without the names of files.
    limit
        How many seconds it may take.
    failed
        Makes the error of what the compiler said.
    """
    home = _usable()
    for file in sorted(home.glob(f"{name}-*{SUFFIX}")):
        if _sound(file, file.stem.rpartition("-")[2]):
            return file
        with suppress(OSError):
            file.unlink()
    with tempfile.TemporaryDirectory(prefix="build-", dir=home) as made:
        place = Path(made)
        (place / f"kernel{suffix}").write_text(text, encoding="utf-8")
        # A linker looks into a library for what it has met before.
        libraries = [flag for flag in command if flag.startswith("-l")]
        files = [f"kernel{suffix}", "-o", f"kernel{SUFFIX}"]
        code, said = toolchain.run([*command, *files, *libraries], place, limit)
        library = place / f"kernel{SUFFIX}"
        if code != 0 or not library.is_file():
            raise failed(said)
        library.chmod(0o700)
        file = home / f"{name}-{_digest(library.read_bytes())}{SUFFIX}"
        os.replace(library, file)
    return file
