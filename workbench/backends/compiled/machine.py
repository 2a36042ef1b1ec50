"""The processor that kernels are compiled for: its vectors, its libraries, its code.

LLVM (by llvmlite) makes object code of IR and links it into the process. Object code is
kept on disk, by a key of the IR, the processor and the versions, so that the next
process only links it. Outside functions are called by name, never by address.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import hashlib
import os
import stat
import sys
import tempfile
import threading
import weakref
from collections.abc import Collection, Iterable
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from workbench.errors import CompilerError

#: What is kept on disk at most, in bytes; the entries read longest ago go first.
MOST_KEPT = 256 * 2**20
#: After so many new entries the size on disk is looked at.
LOOK_AFTER = 64
#: The number of calls that a signature of the vector math library has, by lanes.
_MVEC = {
    ("double", 2): "_ZGVbN2v", ("double", 4): "_ZGVdN4v", ("double", 8): "_ZGVeN8v",
    ("float", 4): "_ZGVbN4v", ("float", 8): "_ZGVdN8v", ("float", 16): "_ZGVeN16v",
}  # fmt: skip
_MVEC_FEATURE = {"b": None, "d": "avx2", "e": "avx512f"}


class Machine:
    """What code is made for, and how it comes into the process.

    Attributes
    ----------
    width
        The bytes of a vector register: 16, 32 or 64.
    key
        What object code depends on besides its IR.
    """

    def __init__(self) -> None:
        try:
            self.llvm: Any = import_module("llvmlite.binding")
            version = import_module("llvmlite").__version__
        except ImportError as error:
            raise CompilerError(
                "llvmlite is not installed, so programs run as NumPy. Install it: pip"
                " install llvmlite."
            ) from error
        llvm = self.llvm
        try:
            llvm.initialize_native_target()
            llvm.initialize_native_asmprinter()
            target = llvm.Target.from_default_triple()
            self.features = dict(llvm.get_host_cpu_features())
        except RuntimeError as error:
            raise CompilerError(
                f"LLVM does not know this processor ({error}), so programs run as"
                " NumPy."
            ) from error
        cpu, flat = llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()
        self._targets = {
            level: target.create_target_machine(
                cpu=cpu, features=flat, opt=level, jit=True
            )
            for level in (0, 1)
        }
        self._jit = llvm.create_lljit_compiler(self._targets[1])
        self._lock = threading.Lock()
        self._count = 0
        self.key = "\n".join(
            [version, str(llvm.llvm_version_info), target.triple, cpu, flat]
        )
        self.width = (
            64 if self.features.get("avx512f") else 32 if self.features.get("avx2")
            else 16
        )  # fmt: skip

    def find_vector_function(self, name: str, scalar: str, lanes: int) -> str | None:
        """Return the symbol of a function of vectors; None: there is none.

        ``scalar`` is LLVM's word for the type of an entry, ``name`` that of C's
        function of doubles.
        """
        prefix = _MVEC.get((scalar, lanes))
        if prefix is None or not sys.platform.startswith("linux"):
            return None
        feature = _MVEC_FEATURE[prefix[4]]
        if feature is not None and not self.features.get(feature):
            return None
        several = "v" if name in TWO_OPERANDS else ""
        symbol = f"{prefix}{several}_{name}{'f' if scalar == 'float' else ''}"
        return symbol if find_address(symbol) is not None else None

    def compile(
        self, ir: str, names: Collection[str], symbols: Iterable[str], quick: bool
    ) -> Library:
        """Return the functions of these names, compiled or read from disk.

        Parameters
        ----------
        ir
            LLVM's IR as text.
        symbols
            The outside functions that it declares.
        quick
            Compile fast rather than make fast code.

        Raises
        ------
        CompilerError
            If LLVM refuses the text, or a symbol is nowhere.
        """
        found = {symbol: find_address(symbol) for symbol in symbols}
        if missing := [symbol for symbol, at in found.items() if at is None]:
            raise CompilerError(f"no library here has {', '.join(missing)}.")
        level = 0 if quick else 1
        digest = hashlib.sha256(f"{self.key}\n{level}\n{ir}".encode()).hexdigest()
        try:
            with self._lock:
                code = read_object(digest)
                cached = code is not None
                if code is None:
                    context = self.llvm.create_context()  # goes with the module
                    module = self.llvm.parse_assembly(ir, context)
                    module.verify()
                    code = self._targets[level].emit_object(module)
                    write_object(digest, code)
                builder = self.llvm.JITLibraryBuilder().add_object_img(code)
                for symbol, address in found.items():
                    builder = builder.import_symbol(symbol, address)
                for name in names:
                    builder = builder.export_symbol(name)
                self._count += 1
                tracker = builder.link(self._jit, f"library{self._count}")
                addresses = {name: tracker[name] for name in names}
        except RuntimeError as error:
            raise CompilerError(f"LLVM refuses a kernel: {error}") from error
        return Library(addresses, _anchor_code(tracker), cached)


class Library(NamedTuple):
    """Compiled functions by name; their code lives as long as the anchor."""

    addresses: dict[str, int]
    anchor: np.ndarray[Any, Any]
    #: The object code was read from disk.
    cached: bool


def _anchor_code(tracker: Any) -> np.ndarray[Any, Any]:
    """Return an object with which linked code goes, and not before.

    Where the collector breaks up a cycle of references, finalizers of all that is in it
    come first, in any order, and may still run the code. It knows nothing of an array.
    """
    anchor = np.empty(0)
    weakref.finalize(anchor, tracker.close).atexit = False
    return anchor


@cache
def get_machine() -> Machine:
    """Return the machine of this process; llvmlite loads here.

    Raises
    ------
    CompilerError
        If llvmlite is missing or does not know the processor.
    """
    return Machine()


# Functions of C's libraries, BLAS and LAPACK as SciPy has them

#: Functions of two operands.
TWO_OPERANDS = frozenset(("pow", "atan2", "hypot", "fmod"))


@cache
def find_address(symbol: str) -> int | None:
    """Return where a function of C's libraries, BLAS or LAPACK is, if anywhere."""
    library, _, name = symbol.partition("_")
    if library in ("blas", "lapack") and name:
        return _find_linear_algebra(library, name)
    for library in _list_libraries():
        try:
            function = library[symbol]
        except AttributeError:
            continue
        return ctypes.cast(function, ctypes.c_void_p).value
    return None


@cache
def _list_libraries() -> list[Any]:
    names = {
        "linux": ["libmvec.so.1", "libm.so.6", "libc.so.6"],
        "darwin": ["libSystem.dylib"],
        "win32": ["ucrtbase.dll", "msvcrt.dll"],
    }.get(sys.platform, [ctypes.util.find_library("m")])
    found = []
    for name in names:
        try:
            found.append(ctypes.CDLL(name))
        except OSError:
            continue
    return found


def _find_linear_algebra(library: str, name: str) -> int | None:
    """Return the address of a function of BLAS or LAPACK that SciPy hands out."""
    try:
        capsules = import_module(f"scipy.linalg.cython_{library}").__pyx_capi__
        capsule = capsules[name]
    except (ImportError, AttributeError, KeyError):
        return None
    read_name = ctypes.pythonapi.PyCapsule_GetName
    read_name.restype, read_name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    read = ctypes.pythonapi.PyCapsule_GetPointer
    read.restype, read.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    address: int | None = read(capsule, read_name(capsule))
    return address


# Object code on disk: whole or not at all, and only what this user has written.


@cache
def find_cache_folder() -> Path | None:
    """Return the folder of object code, made if need be; None: nothing is kept.

    It is ``WORKBENCH_CACHE``, or lies where the system keeps what can be made again. A
    folder of somebody else, or that others may write to, is not used: what lies there
    runs in this process.
    """
    chosen = os.environ.get("WORKBENCH_CACHE")
    if chosen == "":
        return None
    try:
        folder = Path(chosen) if chosen is not None else _find_cache_root()
        folder = (folder / "autodiff-workbench" / "kernels").absolute()
        folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder.mkdir(exist_ok=True, mode=0o700)
        folder = folder.resolve()
        mine = _is_mine(folder) and _is_mine(folder.parent)
        return folder if mine and all(map(_is_safe, folder.parents)) else None
    except (OSError, RuntimeError, ValueError):
        return None


def _find_cache_root() -> Path:
    """Return where the system keeps what can be made again."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", tempfile.gettempdir()))
    if sys.platform == "darwin":
        return Path("~/Library/Caches").expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()


def _is_mine(folder: Path) -> bool:
    """Return whether a folder is this user's, and nobody else may write to it."""
    if not hasattr(os, "getuid"):
        return True
    state = folder.stat()
    return state.st_uid == os.getuid() and not state.st_mode & 0o022


def _is_safe(folder: Path) -> bool:
    """Return whether nobody else can put another folder in the place of one inside."""
    if not hasattr(os, "getuid"):
        return True
    state = folder.stat()
    shared = state.st_mode & 0o002 and not state.st_mode & stat.S_ISVTX
    return state.st_uid in (0, os.getuid()) and not shared


def read_object(digest: str) -> bytes | None:
    """Return object code by its key; None if there is none, or it is damaged."""
    folder = find_cache_folder()
    if folder is None:
        return None
    entry = folder / digest
    try:
        whole = entry.read_bytes()
    except OSError:
        return None
    with suppress(OSError):  # it cannot be noted where nothing may be written
        os.utime(entry)
    code = whole[32:]
    # The linker notices neither a wrong byte nor the code of another key.
    return code if _checksum(digest, code) == whole[:32] else None


def write_object(digest: str, code: bytes) -> None:
    """Keep object code; a disk that refuses is no error."""
    global _written
    folder = find_cache_folder()
    if folder is None:
        return
    part = folder / f"{digest}.{os.getpid()}.{threading.get_ident()}"
    with suppress(OSError):
        try:
            part.write_bytes(_checksum(digest, code) + code)
            os.replace(part, folder / digest)
        finally:
            part.unlink(missing_ok=True)
        if _written % LOOK_AFTER == 0:
            shrink_cache(folder, MOST_KEPT)
        _written += 1


def _checksum(digest: str, code: bytes) -> bytes:
    return hashlib.sha256(digest.encode() + code).digest()


_written = 0


def shrink_cache(folder: Path, most: int) -> None:
    """Remove what was read longest ago until the rest takes at most so many bytes."""
    entries = []
    with os.scandir(folder) as found:
        for entry in found:
            with suppress(OSError):  # another process has removed it
                state = entry.stat()
                entries.append((state.st_mtime, state.st_size, entry.path))
    size = sum(entry[1] for entry in entries)
    for _, bytes_, path in sorted(entries):
        if size <= most:
            return
        with suppress(OSError):
            Path(path).unlink(missing_ok=True)
            size -= bytes_
