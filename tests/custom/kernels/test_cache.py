"""Compiled kernels on disk: kept, shared, repaired, closed to others."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.custom.kernels.sources import needs_c
from workbench.custom.kernels import native, toolchain

PROGRAM = """
import numpy as np, workbench as wb
class Kept(wb.KernelOp):
    inputs, outputs = "x: T[n]", "y: T[n]"
    c = '''
    void kept(const T *x, T *y, int64_t n) {
        for (int64_t i = 0; i < n; i++) y[i] = 2 * x[i];
    }
    '''
assert np.all(Kept()(np.ones(3)) == 2)
"""


def run(folder: Path, program: str = PROGRAM, **told: str) -> None:
    environment = {**os.environ, "XDG_CACHE_HOME": str(folder), **told}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True)


def kept(folder: Path) -> list[Path]:
    home = folder / "workbench" / "kernels"
    return sorted(home.iterdir()) if home.is_dir() else []


@pytest.fixture
def op(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Any]:
    """A fresh op each time, as in a fresh process."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def fresh() -> Any:
        monkeypatch.setattr(native, "_LOADED", {})

        class Cached(wb.KernelOp):
            inputs, outputs = "x: T[n]", "y: T[n]"
            c = r"""
            void cached(const T *x, T *y, int64_t n) {
                for (int64_t i = 0; i < n; i++) y[i] = 2 * x[i];
            }
            """

        return Cached()

    return fresh


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The runs of a compiler."""
    made: list[Any] = []
    true = toolchain.run

    def counted(command: Any, folder: Path, limit: float) -> tuple[int, str]:
        made.append(command)
        return true(command, folder, limit)

    toolchain.version(toolchain.find_compiler("c"))  # asked once for each compiler
    monkeypatch.setattr(toolchain, "run", counted)
    return made


@needs_c
def test_nothing_is_compiled_before_the_first_call(
    op: Callable[[], Any], builds: list[Any], tmp_path: Path
) -> None:
    made = op()
    wb.trace(lambda x: made(x))(wb.Spec((3,), float))
    assert builds == kept(tmp_path) == []
    made(np.ones(3))
    assert len(builds) == len(kept(tmp_path)) == 1


@needs_c
def test_a_second_process_finds_it(
    op: Callable[[], Any], builds: list[Any], tmp_path: Path
) -> None:
    np.testing.assert_array_equal(op()(np.ones(3)), [2, 2, 2])
    np.testing.assert_array_equal(op()(np.ones(2)), [2, 2])
    assert len(builds) == 1
    op()(np.ones(2, np.float32))
    assert len(builds) == 2
    assert len(kept(tmp_path)) == 2


@needs_c
def test_what_it_is_made_of_is_its_name(tmp_path: Path) -> None:
    names = {
        toolchain.cache_key("a", ["cc", "-O2"], "1"),
        toolchain.cache_key("b", ["cc", "-O2"], "1"),
        toolchain.cache_key("a", ["cc", "-O3"], "1"),
        toolchain.cache_key("a", ["cc", "-O2"], "2"),
        toolchain.cache_key("a", ["cc", "-O2", ""], "1"),
        toolchain.cache_key("a", ["cc", "-O2", "-march=native"], "1"),
    }
    assert len(names) == 6


@needs_c
@pytest.mark.parametrize("damage", [b"", b"not a library", None])
def test_a_damaged_file_is_built_again(
    op: Callable[[], Any], builds: list[Any], tmp_path: Path, damage: bytes | None
) -> None:
    op()(np.ones(3))
    (file,) = kept(tmp_path)
    # Another file, since the one that is loaded must not change beneath us.
    whole = file.read_bytes()
    file.unlink()
    file.write_bytes(whole[:-64] + bytes(64) if damage is None else damage)
    np.testing.assert_array_equal(op()(np.ones(3)), [2, 2, 2])
    assert len(builds) == 2
    assert len(kept(tmp_path)) == 1


@needs_c
@pytest.mark.skipif(not hasattr(os, "getuid"), reason="permissions of POSIX")
def test_it_belongs_to_the_user_alone(
    op: Callable[[], Any], builds: list[Any], tmp_path: Path
) -> None:
    op()(np.ones(3))
    (file,) = kept(tmp_path)
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(file.stat().st_mode) & 0o077 == 0
    file.parent.chmod(0o777)
    file.chmod(0o722)  # others could have written it
    op()(np.ones(3))
    assert len(builds) == 2
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    (made,) = kept(tmp_path)
    target = tmp_path / "elsewhere"
    made.rename(target)
    made.symlink_to(target)
    op()(np.ones(3))
    assert len(builds) == 3


@needs_c
@pytest.mark.skipif(not hasattr(os, "getuid"), reason="permissions of POSIX")
def test_a_folder_that_cannot_be_used(
    op: Callable[[], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "workbench").write_text("a file where the folder should be")
    with pytest.warns(RuntimeWarning, match="XDG_CACHE_HOME names a folder of yours"):
        np.testing.assert_array_equal(op()(np.ones(3)), [2, 2, 2])
    np.testing.assert_array_equal(op()(np.ones(3)), [2, 2, 2])
    (tmp_path / "workbench").unlink()
    real = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: real + 1)
    with pytest.warns(RuntimeWarning, match="it belongs to another user"):
        assert toolchain._prepare_folder() != toolchain.cache_folder()


@pytest.mark.long
@needs_c
def test_several_processes_at_once(tmp_path: Path) -> None:
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    running = [
        subprocess.Popen([sys.executable, "-c", PROGRAM], env=environment)
        for _ in range(2)
    ]
    assert [process.wait(60) for process in running] == [0] * 2
    files = kept(tmp_path)
    assert files
    assert all(file.suffix == toolchain.SUFFIX for file in files)
    before = {file: file.stat().st_mtime_ns for file in files}
    run(tmp_path)
    assert {file: file.stat().st_mtime_ns for file in kept(tmp_path)} == before


@needs_c
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_while_another_thread_compiles(tmp_path: Path) -> None:
    """The lock that the thread held is held by nobody in the child."""
    program = PROGRAM + (
        "import os, sys, threading\n"
        "from workbench.custom.kernels import native\n"
        "from workbench.custom.kernels.op import NATIVES\n"
        "turns = dict(native._TURNS)\n"
        "native._LOADED.clear(); NATIVES[Kept].clear()\n"
        "for lock in (*turns.values(), native._GUARD): lock.acquire()\n"
        "if (child := os.fork()) == 0:\n"
        "    ok = np.all(Kept()(np.ones(3)) == 2)\n"
        "    os._exit(0 if ok else 1)\n"
        "sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    run(tmp_path, program)


def test_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert toolchain.cache_folder() == tmp_path / "workbench" / "kernels"
    for told in ("", "relative/folder"):
        monkeypatch.setenv("XDG_CACHE_HOME", told)
        assert toolchain.cache_folder().is_relative_to(Path.home())


def test_importing_workbench_looks_for_no_compiler() -> None:
    program = (
        "import sys, workbench; assert 'workbench.custom.kernels' not in sys.modules;"
        "assert 'ctypes.util' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
