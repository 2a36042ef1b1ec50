"""The processor that kernels are compiled for: its vectors, its libraries, its code.

LLVM (by llvmlite) makes object code of IR and links it into the process. Object code is
kept on disk, by a key of the IR, the processor and the versions, so that the next
process only links it. Outside functions are called by name, never by address.
"""

from __future__ import annotations

import atexit
import ctypes
import ctypes.util
import hashlib
import mmap
import os
import stat
import sys
import tempfile
import threading
import weakref
from collections.abc import Callable, Collection, Iterable
from contextlib import ExitStack, suppress
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
#: JITLink puts all parts of a library into one piece of memory. LLVM's older linker
#: asks for each by itself: where large arrays leave only gaps they come to lie too far
#: apart for the small code model, and LLVM aborts. On Windows only that one is mature.
_HAS_JIT_LINK = sys.platform != "win32"
#: Constants are read relative to the code, which takes half the instructions; where the
#: linker may put them far away, by their addresses.
_CODE_MODEL = "small" if _HAS_JIT_LINK else "jitdefault"
#: LLVM ends the process where it gets no memory. Before it is called so many bytes are
#: tried, beside a multiple of its input, and so many separate maps of memory.
_ROOM, _ROOM_TIMES, _MAPS = 2**24, 64, 16
#: What llvmlite tracks linked code by, by its id, as long as the code is there.
_TRACKERS: dict[int, Any] = {}


class Machine:
    """The processor that code is made for, and the way to load code.

    Attributes
    ----------
    width
        The bytes of a vector register: 16, 32 or 64.
    has_fma
        One instruction multiplies and adds in one rounding.
    key
        What object code depends on besides its IR.
    """

    _lock = threading.Lock()  # of all machines: LLVM does one thing at a time

    def __init__(self) -> None:
        try:
            self.llvm: Any = import_module("llvmlite.binding")
            version = import_module("llvmlite").__version__
        except ImportError as error:
            raise CompilerError(
                "llvmlite is not installed, so programs run as NumPy. Run pip install"
                " 'autodiff-workbench[compiled]'."
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
                cpu=cpu,
                features=flat,
                opt=level,
                jit=True,
                reloc="pic",
                codemodel=_CODE_MODEL,
            )
            for level in (0, 1)
        }
        self._jit = llvm.create_lljit_compiler(
            self._targets[1], use_jit_link=_HAS_JIT_LINK
        )
        #: Functions that kernels share, by symbol, and those that have been compiled.
        self.definitions: dict[str, Definition] = {}
        self._shared: dict[str, Library] = {}
        self._count = 0
        self.key = "\n".join(
            [
                version,
                str(llvm.llvm_version_info),
                target.triple,
                cpu,
                flat,
                _CODE_MODEL,
            ]
        )
        self.has_fma = bool(self.features.get("fma") or "aarch64" in target.triple)
        self.width = (
            64 if self.features.get("avx512f") else 32 if self.features.get("avx2")
            else 16
        )  # fmt: skip

    def compile(
        self, ir: str, names: Collection[str], symbols: Iterable[str], quick: bool
    ) -> Library:
        """Return the functions of these names, compiled or read from disk.

        Parameters
        ----------
        ir
            LLVM's IR as text.
        symbols
            The outside functions that it declares: `definitions`, or C's libraries.
        quick
            Compile fast rather than make fast code.

        Raises
        ------
        CompilerError
            If LLVM refuses the text, a symbol is nowhere, or memory is short.
        """
        found = {symbol: self._find_address(symbol) for symbol in symbols}
        if missing := [symbol for symbol, at in found.items() if at is None]:
            raise CompilerError(f"no library here has {', '.join(missing)}.")
        check_room(len(ir))
        level = 0 if quick else 1
        digest = hashlib.sha256(f"{self.key}\n{level}\n{ir}".encode()).hexdigest()
        try:
            with Machine._lock:
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

    def _find_address(self, symbol: str) -> int | None:
        """Return where a function is; one that kernels share is compiled now."""
        one = self.definitions.get(symbol)
        if one is None:
            return find_address(symbol)
        if symbol not in self._shared:
            self._shared[symbol] = self.compile(
                one.ir, [symbol], one.symbols, quick=False
            )
        return self._shared[symbol].addresses[symbol]


class Definition(NamedTuple):
    """A function that kernels share: its declaration, its IR, its own declarations."""

    declaration: str
    ir: str
    symbols: frozenset[str]
    #: How many values it returns.
    results: int


class Library(NamedTuple):
    """Compiled functions by name; their code lives as long as the anchor."""

    addresses: dict[str, int]
    anchor: np.ndarray[Any, Any]
    #: The object code was read from disk.
    cached: bool


def check_room(size: int) -> None:
    """Raise if the system has no memory for LLVM, which would end the process.

    Parameters
    ----------
    size
        The bytes of what LLVM is to read.

    Raises
    ------
    CompilerError
        If the system refuses memory, or more maps of memory.
    """
    if not hasattr(mmap, "MAP_ANONYMOUS"):
        return
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    # Neighbours of other rights are maps of their own.
    rights = [mmap.PROT_READ, mmap.PROT_READ | mmap.PROT_WRITE] * (_MAPS // 2)
    pieces = [(_ROOM + _ROOM_TIMES * size, rights[1])]
    pieces += [(mmap.PAGESIZE, right) for right in rights]
    with ExitStack() as stack:
        try:
            for length, right in pieces:
                stack.enter_context(mmap.mmap(-1, length, flags=flags, prot=right))
        except OSError as error:
            raise CompilerError(
                f"the system has no memory for the compiler ({error.strerror})."
                " Let large arrays go, or raise the limit that it sets."
            ) from error


def _anchor_code(tracker: Any) -> np.ndarray[Any, Any]:
    """Return an object with which linked code goes, and not before.

    Where the collector breaks up a cycle of references, finalizers of all that is in it
    come first, in any order, and may still run the code. It knows nothing of an array.
    """
    anchor = np.empty(0)
    _TRACKERS[id(tracker)] = tracker
    weakref.finalize(anchor, _drop_code, id(tracker)).atexit = False
    return anchor


def _drop_code(key: int, is_ending: Callable[[], bool] = sys.is_finalizing) -> None:
    """Free linked code, unless Python ends, and llvmlite has ended before."""
    if not is_ending():
        _TRACKERS.pop(key).close()


@atexit.register
def _leave_code() -> None:
    """Leave linked code to the end of the process.

    llvmlite that a thread loads while Python ends does not hear of the end. It frees
    the code when its own modules are gone, and Python prints that this failed.
    """
    for tracker in list(_TRACKERS.values()):
        tracker.detach()


def _renew_lock() -> None:
    """Take a new lock in the child of a fork: the old owner does not exist there."""
    Machine._lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)


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


#: Where functions are that no library names, by names of our own (see `ufuncs`).
ADDRESSES: dict[str, int] = {}


@cache
def find_address(symbol: str) -> int | None:
    """Return where a function of C, Python, BLAS or LAPACK is, if anywhere."""
    if symbol in ADDRESSES:
        return ADDRESSES[symbol]
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
    known: dict[str, list[str | None]] = {
        "linux": ["libm.so.6", "libc.so.6", None],  # None: what the process has
        "darwin": ["libSystem.dylib"],
        "win32": ["ucrtbase.dll", "msvcrt.dll"],
    }
    names = known.get(sys.platform, [ctypes.util.find_library("m")])
    found = []
    for name in names:
        try:
            found.append(ctypes.CDLL(name))
        except OSError:
            continue
    return [*found, ctypes.pythonapi]


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
    """Return the system's folder for caches."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", tempfile.gettempdir()))
    if sys.platform == "darwin":
        return Path("~/Library/Caches").expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()


def _is_mine(folder: Path) -> bool:
    """Return whether a folder is this user's, and closed to writes by others."""
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
    """Return object code by its key; None if missing or damaged."""
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
    """Remove the entries read longest ago until the rest fits a number of bytes."""
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
