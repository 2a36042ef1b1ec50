"""Compilers: which ones exist, how one runs, and the meaning of its complaints.

A compiler runs without a shell, under a limit of time, and ends with its children
when the user interrupts.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import warnings
from atexit import register
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache, lru_cache
from pathlib import Path
from shutil import rmtree
from tempfile import gettempdir

from workbench.custom.kernels.units import OURS, SOURCE
from workbench.errors import KernelError

#: Where the environment names a compiler, and what is looked for otherwise.
LOOKED_FOR = {
    "c": ("CC", ("cc", "gcc", "clang")),
    "cpp": ("CXX", ("c++", "g++", "clang++")),
}
INSTALL = (
    "Install one (Debian and Ubuntu: apt-get install gcc g++; macOS: xcode-select"
    " --install; conda: conda install c-compiler cxx-compiler)"
)

#: Where NVIDIA's installer puts its compiler.
TOOLKIT = "/usr/local/cuda/bin"

#: One complaint of gcc or clang, of nvcc or NVRTC: the line of the source, the words.
_GNU = re.compile(r"(.+?):(\d+):(?:(\d+):)? (error|fatal error): (.*)")
_NVIDIA = re.compile(r"(.+?)\((\d+)\): ((?:catastrophic )?error)(?: #[\w-]+)?: (.*)")

#: What the words say where a function is not the one that is called.
AMISS = ("conflicting", "overloaded function", "redeclared", "ambiguating")


class MissingCompiler(KernelError):
    """No compiler of the language was found."""


def find_compiler(language: str) -> tuple[str, ...]:
    """Return the command of the C or C++ compiler, with the flags that CC or CXX adds.

    Raises
    ------
    MissingCompiler
        If there is none; it says what was looked for.
    """
    title = "C" if language == "c" else "C++"
    if sys.platform == "emscripten":
        raise MissingCompiler(
            f"this kernel needs a {title} compiler, which a browser has not. Run it in"
            " a Python of your own machine, or on Binder."
        )
    variable, names = LOOKED_FOR[language]
    told = os.environ.get(variable, "").strip()
    if told:
        try:
            command = shlex.split(told)
        except ValueError:
            command = [told]
        found = shutil.which(command[0])
        if found:
            return (found, *command[1:])
        looked = (
            f"{variable} names {command[0]!r}, which is not a command on this machine"
        )
    else:
        for name in names:
            found = shutil.which(name)
            if found:
                return (found,)
        looked = f"none of {', '.join(names)} is on the PATH, and {variable} is not set"
    raise MissingCompiler(
        f"there is no {title} compiler: {looked}. {INSTALL}, or set {variable} to its"
        " command."
    )


def find_nvcc() -> str:
    """Return NVIDIA's compiler: on the PATH, or in the toolkit's own folder."""
    homes = [os.environ.get(name) for name in ("CUDA_HOME", "CUDA_PATH")]
    places = [*(f"{home}/bin" for home in homes if home), TOOLKIT]
    found = shutil.which("nvcc") or shutil.which("nvcc", path=os.pathsep.join(places))
    if found is None:
        raise MissingCompiler(
            "there is no CUDA compiler: neither NVRTC (which CuPy brings) nor nvcc on"
            " the PATH or in CUDA_HOME. Install CuPy with"
            " pip install 'cupy-cuda13x[ctk]', or NVIDIA's CUDA toolkit."
        )
    return found


@lru_cache(maxsize=32)
def _version(command: tuple[str, ...], stamp: tuple[int, int]) -> str:
    code, said = run([*command, "--version"], Path(gettempdir()), 20)
    return said if code == 0 else f"{command}, which tells no version"


def version(command: tuple[str, ...]) -> str:
    """Return the version text of a compiler, cached until its file changes."""
    stat = os.stat(command[0])
    return _version(command, (stat.st_mtime_ns, stat.st_size))


def run(command: Sequence[str], folder: Path, limit: float) -> tuple[int, str]:
    """Run a command; return its exit status and its output.

    Raises
    ------
    KernelError
        If it cannot start or does not end in time.
    """
    try:
        process = subprocess.Popen(
            list(command),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, "LC_ALL": "C"},
            start_new_session=True,  # so that its children end with it
        )
    except OSError as error:
        raise KernelError(f"{command[0]} does not start: {error}.") from error
    try:
        said, _ = process.communicate(timeout=limit)
    except BaseException as error:
        _kill(process)
        if isinstance(error, subprocess.TimeoutExpired):
            raise KernelError(
                f"{Path(command[0]).name} did not finish within {limit:g} seconds and"
                " was stopped. Make the source smaller, or raise time_limit."
            ) from None
        raise
    return process.returncode, said.decode("utf-8", "replace")


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a compiler and its child processes."""
    with suppress(OSError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


def read_errors(
    said: str, source: str, place: Callable[[int], str], most: int = 5
) -> tuple[str, bool]:
    """Return errors at the author's lines, and whether the declaration is wrong.

    ``place(line)`` names a line of the source, such as ``"net.py:20"``.
    """
    lines = source.splitlines()
    shown, found, amiss = [], 0, False
    for text in said.splitlines():
        match = _GNU.fullmatch(text)
        nvidia = None if match else _NVIDIA.fullmatch(text)
        if match:
            file, line, column, _, words = match.groups()
        elif nvidia:
            (file, line, _, words), column = nvidia.groups(), None
        else:
            continue
        amiss |= any(word in words for word in AMISS)
        if file == OURS and found:
            continue  # what comes of it there
        found += 1
        if found > most:
            continue
        if file != SOURCE:
            shown.append(f"  {file}:{line}: {words}")
            continue
        n = int(line)
        quoted = lines[n - 1] if 0 < n <= len(lines) else ""
        shown.append(f"  {place(n)}: {words}\n      {quoted.strip()}")
        if column and quoted.strip():
            at = int(column) - 1 - (len(quoted) - len(quoted.lstrip()))
            if 0 <= at <= len(quoted.strip()):
                shown[-1] += f"\n      {' ' * at}^"
    if found > most:
        shown.append(f"  and {found - most} more")
    return "\n".join(shown) or "  " + said.strip()[-2000:].replace("\n", "\n  "), amiss


# Compiled kernels on disk, found by their content.
#
# A file's name holds what it was made from (source, flags, compiler, machine) and the
# digest of what is in it: a damaged one is seen, and built again. It is written under
# another name first and then renamed, so that two processes may build at once. The
# folder belongs to the user alone; what others could write is not loaded.

SUFFIX = {"darwin": ".dylib", "win32": ".dll"}.get(sys.platform, ".so")

#: Changed when what we put around a source changes.
FORMAT = "2"


def cache_folder() -> Path:
    """Return the folder of compiled kernels: ``workbench/kernels`` in the cache."""
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


def _prepare_folder() -> Path:
    """Return the cache folder, made private if missing, or a temporary one."""
    try:
        wanted = cache_folder()
    except RuntimeError as error:  # the user has no home
        return _make_own_folder("the user's home", str(error))
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
        return _make_own_folder(str(wanted), str(error))
    return wanted


@cache
def _make_own_folder(wanted: str, why: str) -> Path:
    """Return a folder for this process alone, which is removed at its end."""
    warnings.warn(
        f"compiled kernels are not kept in {wanted}: {why}. They are built again in"
        " each process until XDG_CACHE_HOME names a folder of yours.",
        RuntimeWarning,
        stacklevel=2,
    )
    made, owner = tempfile.mkdtemp(prefix="workbench-kernels-"), os.getpid()

    def remove() -> None:
        if os.getpid() == owner:  # and not in a fork
            rmtree(made, ignore_errors=True)

    register(remove)
    return Path(made)


def cache_key(text: str, command: Sequence[str], version: str) -> str:
    """Return the name of the library that a compiler makes of a text here."""
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
    """Return the kind of processor, for code that runs on no other."""
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return "\n".join(
            sorted({x for x in lines if x.startswith(("model name", "flags"))})
        )
    return f"{platform.processor()} {platform.node()}"


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:40]


def _is_sound(file: Path, digest: str) -> bool:
    """Return whether a file is the user's own and has the digest in its name."""
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


def build(
    name: str,
    text: str,
    suffix: str,
    command: Sequence[str],
    limit: float,
    make_error: Callable[[str], KernelError],
) -> Path:
    """Return the library that a compiler makes of a text, from the cache or built.

    Parameters
    ----------
    name
        What `cache_key` gave for it.
    text, suffix
        The text, and how its file's name ends.
    command
        The compiler and its flags, without the names of files.
    limit
        How many seconds it may take.
    make_error
        Makes the error from the compiler's output.
    """
    home = _prepare_folder()
    for file in sorted(home.glob(f"{name}-*{SUFFIX}")):
        if _is_sound(file, file.stem.rpartition("-")[2]):
            return file
        with suppress(OSError):
            file.unlink()
    with tempfile.TemporaryDirectory(prefix="build-", dir=home) as made:
        place = Path(made)
        (place / f"kernel{suffix}").write_text(text, encoding="utf-8")
        # A linker looks into a library for what it has met before.
        libraries = [flag for flag in command if flag.startswith("-l")]
        files = [f"kernel{suffix}", "-o", f"kernel{SUFFIX}"]
        code, said = run([*command, *files, *libraries], place, limit)
        library = place / f"kernel{SUFFIX}"
        if code != 0 or not library.is_file():
            raise make_error(said)
        library.chmod(0o700)
        file = home / f"{name}-{_digest(library.read_bytes())}{SUFFIX}"
        os.replace(library, file)
    return file
