"""Object code on disk: read whole or not at all, bounded, and only one's own."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.backends.compiled.programs import compile_graph, trace
from workbench.backends.compiled import machine
from workbench.errors import CompilerError

IR = "define double @f(double %x) {\n  %y = fadd double %x, 1.0\n  ret double %y\n}"

on_linux = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="it reads and sets Linux's limits"
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("WORKBENCH_CACHE", str(tmp_path))
    machine.find_cache_folder.cache_clear()
    yield tmp_path / "autodiff-workbench" / "kernels"
    machine.find_cache_folder.cache_clear()


def call(library: machine.Library, x: float) -> float:
    import ctypes

    f = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(library.addresses["f"])
    return float(f(x))


def test_the_second_time_code_is_read(folder: Path) -> None:
    target = machine.get_machine()
    first = target.compile(IR, ["f"], [], quick=False)
    second = target.compile(IR, ["f"], [], quick=False)
    assert not first.cached
    assert second.cached
    assert call(second, 2.0) == 3.0
    assert len(list(folder.iterdir())) == 1


def test_code_of_another_key_is_not_taken(folder: Path) -> None:
    """Whoever gave a file another's name: its functions have the same names."""
    target = machine.get_machine()
    target.compile(IR, ["f"], [], quick=False)
    (entry,) = folder.iterdir()
    other = IR.replace("1.0", "2.0")
    target.compile(other, ["f"], [], quick=False)
    (second,) = set(folder.iterdir()) - {entry}
    second.write_bytes(entry.read_bytes())
    again = target.compile(other, ["f"], [], quick=False)
    assert not again.cached
    assert call(again, 1.0) == 3.0


def test_code_for_another_processor_has_another_key(folder: Path) -> None:
    target = machine.Machine()
    target.compile(IR, ["f"], [], quick=False)
    target.key = target.key.replace("\n", "\n+avx512f,", 1)
    assert not target.compile(IR, ["f"], [], quick=False).cached
    assert len(list(folder.iterdir())) == 2


@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "other"])
def test_a_damaged_file_is_compiled_again(folder: Path, damage: str) -> None:
    target = machine.get_machine()
    target.compile(IR, ["f"], [], quick=False)
    (entry,) = folder.iterdir()
    whole = entry.read_bytes()
    changed = bytearray(whole)
    changed[len(whole) // 2] ^= 1
    entry.write_bytes(
        {"cut": whole[:-5], "flip": bytes(changed), "empty": b"", "other": b"x" * 99}[
            damage
        ]
    )
    again = target.compile(IR, ["f"], [], quick=False)
    assert not again.cached
    assert call(again, 2.0) == 3.0
    assert entry.read_bytes() == whole


def test_the_size_is_bounded_and_the_oldest_goes_first(tmp_path: Path) -> None:
    for i in range(10):
        entry = tmp_path / str(i)
        entry.write_bytes(b"x" * 100)
        os.utime(entry, (i, i))
    machine.shrink_cache(tmp_path, 350)
    assert sorted(x.name for x in tmp_path.iterdir()) == ["7", "8", "9"]


def test_a_folder_that_others_may_write_to_is_not_used(folder: Path) -> None:
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    assert machine.find_cache_folder() is None
    assert call(machine.get_machine().compile(IR, ["f"], [], quick=False), 1.0) == 2.0
    assert not list(folder.iterdir())


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="this system has no modes")
def test_nor_one_that_others_may_put_another_in_the_place_of(
    folder: Path, tmp_path: Path
) -> None:
    tmp_path.chmod(0o777)
    assert machine.find_cache_folder() is None
    machine.find_cache_folder.cache_clear()
    tmp_path.chmod(0o1777)  # as /tmp is: only its owner renames a folder there
    assert machine.find_cache_folder() == folder.resolve()


@pytest.mark.parametrize("name", ["write_bytes", "read_bytes", "mkdir", "unlink"])
def test_a_disk_that_refuses_is_no_error(
    folder: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise OSError(28, "no space left on device")

    target = machine.get_machine()
    monkeypatch.setattr(Path, name, refuse)
    monkeypatch.setattr(machine, "MOST_KEPT", 0)
    monkeypatch.setattr(machine, "LOOK_AFTER", 1)
    for _ in range(2):
        assert call(target.compile(IR, ["f"], [], quick=False), 1.0) == 2.0


def test_what_may_only_be_read_is_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = machine.get_machine()
    target.compile(IR, ["f"], [], quick=False)

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise PermissionError("read-only file system")

    monkeypatch.setattr(os, "utime", refuse)
    assert target.compile(IR, ["f"], [], quick=False).cached


def test_a_user_without_a_home_has_no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("WORKBENCH_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "expanduser", refuse)
    machine.find_cache_folder.cache_clear()
    if sys.platform != "win32":
        assert machine.find_cache_folder() is None
    machine.find_cache_folder.cache_clear()


@pytest.mark.long
def test_processes_that_fill_and_shrink_one_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each removes what another is about to read or to look at."""
    program = f"""
import os
os.environ["WORKBENCH_CACHE"] = {str(folder.parent.parent)!r}
from workbench.backends.compiled import machine
import ctypes
machine.MOST_KEPT, machine.LOOK_AFTER = 3000, 1
target = machine.get_machine()
for i in range(60):
    text = {IR!r}.replace("1.0", f"{{i % 7 + 1}}.0")
    library = target.compile(text, ["f"], [], quick=True)
    f = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(library.addresses["f"])
    assert f(1.0) == i % 7 + 2
"""
    running = [subprocess.Popen([sys.executable, "-c", program]) for _ in range(3)]
    assert [p.wait() for p in running] == [0, 0, 0]
    assert sum(x.stat().st_size for x in folder.iterdir()) <= 3000 + 3 * 2000
    assert all(len(x.name) == 64 for x in folder.iterdir())


def test_nothing_is_kept_if_nobody_wants_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKBENCH_CACHE", "")
    machine.find_cache_folder.cache_clear()
    assert machine.find_cache_folder() is None
    machine.find_cache_folder.cache_clear()


@pytest.mark.long
def test_threads_and_processes_write_the_same_entry(folder: Path) -> None:
    program = (
        "from workbench.backends.compiled import machine\n"
        f"made = machine.get_machine().compile({IR!r}, ['f'], [], quick=False)\n"
    )
    running = [subprocess.Popen([sys.executable, "-c", program]) for _ in range(3)]
    made: list[Any] = []

    def compile_here() -> None:
        made.append(machine.get_machine().compile(IR, ["f"], [], quick=False))

    threads = [threading.Thread(target=compile_here) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [p.wait() for p in running] == [0, 0, 0]
    assert [call(library, 1.0) for library in made] == [2.0] * 4
    assert len(list(folder.iterdir())) == 1


def test_what_llvm_refuses_is_an_error_that_says_so() -> None:
    target = machine.get_machine()
    with pytest.raises(CompilerError, match=r"^LLVM refuses a kernel: LLVM IR parsing"):
        target.compile("define nonsense", ["f"], [], quick=False)
    with pytest.raises(
        CompilerError, match=r"^no library here has no_such_function\.$"
    ):
        target.compile(IR, ["f"], ["no_such_function"], quick=False)


def test_without_llvmlite_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "llvmlite", None)
    monkeypatch.setitem(sys.modules, "llvmlite.binding", None)
    with pytest.raises(CompilerError, match=r"^llvmlite is not installed, so programs"):
        machine.Machine()


@pytest.mark.parametrize("width", [16, 32, 64])
def test_narrower_vectors_give_the_same(width: int, rng: np.random.Generator) -> None:
    """What other processors run: fewer lanes, and functions of one number at a time."""
    from workbench.backends.compiled.expansion import expand
    from workbench.backends.compiled.program import Program
    from workbench.core.types import spec_of

    target = machine.Machine()
    if width > target.width:
        return  # this processor would stop
    target.width = width
    target.features = {}
    args = [rng.normal(size=(5, 13)), rng.normal(size=13)]

    def f(x: Any, y: Any) -> Any:
        return np.exp(x) * np.sin(y), np.sum(np.tanh(x + y), axis=0), np.max(x)

    graph = trace(f, args)
    program = Program(expand(graph, [spec_of(a) for a in args]), target)
    for got, want in zip(program.run(args), f(*args), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-14, atol=1e-14)
    assert compile_graph(graph, args).run(args)[2] == np.max(args[0])


LIBRARY = """
import ctypes, os, sys
os.environ["WORKBENCH_CACHE"] = ""
from workbench.backends.compiled.machine import get_machine
from workbench.errors import CompilerError

ROW = ", ".join(["double 1.5"] * 4000)
IR = '''
@row = private unnamed_addr constant [4000 x double] [ROW]
declare double @sin(double)
define double @f(double %x, i64 %i) {{
  %place = getelementptr [4000 x double], ptr @row, i64 0, i64 %i
  %value = load double, ptr %place
  %sine = call double @sin(double %x)
  %made = fmul double %sine, %value
  %sum = fadd double %made, {}.0
  ret double %sum
}}
'''.replace("ROW", ROW)
kept = []

def compile_library(number):
    kept.append(get_machine().compile(IR.format(number), ["f"], ["sin"], quick=False))
    kind = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double, ctypes.c_int64)
    assert kind(kept[-1].addresses["f"])(0.0, 3999) == number

compile_library(0)
"""

#: Large arrays that leave only gaps of one page near the libraries of the process.
GAPS = """
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *3 * [ctypes.c_int],
                      ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]

def reserve(size):  # nobody may touch it, so that it takes no memory
    return libc.mmap(None, size, 0, 0x4022, -1, 0)

SIZE = 8 * 2**30
whole = reserve(SIZE)
for size in (2**30, 2**24, 2**20, 2**16, 2**12):
    while (place := reserve(size)) > whole:
        pass
    libc.munmap(place, size)
for k in range(1, 200):
    libc.munmap(whole + SIZE - 2 * k * 4096, 4096)
for number in range(1, 20):
    compile_library(number)
"""

#: A limit of memory that some libraries reach.
LIMIT = """
import resource
pages = int(open("/proc/self/statm").read().split()[0])
most = pages * resource.getpagesize() + 2**25
resource.setrlimit(resource.RLIMIT_AS, (most, resource.RLIM_INFINITY))
"""

#: Nearly all maps of memory that a process may have.
MAPS = """
import mmap
most = int(open("/proc/sys/vm/max_map_count").read())
rights = [mmap.PROT_READ, mmap.PROT_READ | mmap.PROT_WRITE]
flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
used = len(open("/proc/self/maps").readlines())
maps = [mmap.mmap(-1, 4096, flags=flags, prot=rights[k % 2])
        for k in range(most - used - 60)]
"""

UNTIL_REFUSED = """
try:
    for number in range(1, 2000):
        compile_library(number)
except CompilerError as error:
    print(error)
    # What has been compiled still runs.
    kind = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double, ctypes.c_int64)
    assert kind(kept[1].addresses["f"])(0.0, 0) == 1.0
"""


def run_program(text: str) -> str:
    """Return what a program prints; that it is aborted is an error."""
    made = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, timeout=300
    )
    assert made.returncode == 0, made.stderr[-2000:]
    return made.stdout


@on_linux
def test_the_parts_of_a_library_lie_together_whatever_else_is_in_memory() -> None:
    """Its constants came to lie beyond 2 GB of its code, and LLVM aborted."""
    run_program(LIBRARY + GAPS)


@pytest.mark.long
@on_linux
@pytest.mark.parametrize("shortage", [LIMIT, MAPS], ids=["bytes", "maps"])
def test_a_shortage_of_memory_is_an_error_and_not_the_end(shortage: str) -> None:
    said = run_program(LIBRARY + shortage + UNTIL_REFUSED)
    assert said.startswith(
        "the system has no memory for the compiler (Cannot allocate memory)."
    )


#: llvmlite loads in a thread; a slow disk or a busy machine lets the script end before.
LATE = """
import sys, time
class Late:
    def find_spec(self, name, path=None, target=None):
        if name == "llvmlite":
            time.sleep(1.5)
sys.meta_path.insert(0, Late())
"""


@pytest.mark.parametrize("begin", ["", LATE], ids=["loaded", "loading at the end"])
def test_compiled_functions_of_a_script_end_with_it_in_silence(begin: str) -> None:
    """Their finalizers ran when llvmlite had ended, and Python told so."""
    text = """
import numpy as np, workbench as wb
for x in (np.ones((4, 4)), np.ones((4, 4))[::-1], np.ones(4), np.array(1.0)):
    c = wb.compile(wb.grad(lambda v: np.sum(np.sin(v) * np.ravel(v).sum())),
                   backend="compiled")
    c(x), c(x)
"""
    made = subprocess.run(
        [sys.executable, "-c", begin + text],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert (made.returncode, made.stderr) == (0, "")
