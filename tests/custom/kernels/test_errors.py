"""Source that does not compile: the compiler's words at the user's own lines."""

from __future__ import annotations

import inspect
import linecache
import os
import signal
import stat
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.custom.kernels.sources import needs_c, needs_cpp
from workbench.custom.kernels import toolchain
from workbench.custom.kernels.op import NATIVES
from workbench.errors import KernelError


def here() -> int:
    """The line that calls."""
    frame = inspect.currentframe()
    assert frame is not None
    assert frame.f_back is not None
    return frame.f_back.f_lineno


def failure(op: Any) -> str:
    with pytest.raises(KernelError) as found:
        op(np.ones(3))
    return str(found.value)


@needs_c
def test_the_lines_are_those_of_the_users_file() -> None:
    class Misspelled(wb.KernelOp):
        inputs = "x: float64[n]"
        outputs = "y: float64[n]"
        line = here()
        c = r"""
        void misspelled(const double *x, double *y, int64_t n) {
            for (int64_t i = 0; i < n; i++) y[i] = twice * x[i];
        }
        """

    text = failure(Misspelled())
    assert "misspelled: the C source does not compile" in text
    assert f"test_errors.py:{Misspelled.line + 3}: 'twice' undeclared" in text
    assert "for (int64_t i = 0; i < n; i++) y[i] = twice * x[i];\n" in text
    shown = text.splitlines()
    caret = next(i for i, line in enumerate(shown) if line.strip() == "^")
    assert shown[caret - 1][shown[caret].index("^") :].startswith("twice")


@needs_cpp
def test_in_a_cell_they_are_those_of_the_cell() -> None:
    cell = textwrap.dedent(
        """
        import workbench as wb
        class OfACell(wb.KernelOp):
            inputs = "x: float64[n]"
            outputs = "y: float64[n]"
            cpp = r'''
            void of_a_cell(const double *x, double *y, int64_t n) {
                std::vector<double> all;
            }
            '''
        """
    )
    name = "<ipython-input-of-a-test>"
    linecache.cache[name] = (len(cell), None, cell.splitlines(True), name)
    scope: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(cell, name, "exec"), scope)
    text = failure(scope["OfACell"]())
    assert f"{name}:8: 'vector' is not a member of 'std'" in text


@needs_c
def test_without_the_file_they_are_those_of_the_source() -> None:
    scope: dict[str, Any] = {"__name__": "__main__", "wb": wb}
    exec(
        "class Nowhere(wb.KernelOp):\n"
        "    inputs, outputs = 'x: T[n]', 'y: T[n]'\n"
        "    c = 'int a;\\nvoid nowhere(;'\n",
        scope,
    )
    assert "line 2 of the source: expected" in failure(scope["Nowhere"]())


@needs_c
def test_a_source_in_a_file_of_its_own(tmp_path: Path) -> None:
    file = tmp_path / "twice.c"
    file.write_text(
        "void from_file(const double *x, double *y, int64_t n) {\n"
        "    for (int64_t i = 0; i < n; i++) y[i] = 2 * x[i];\n}\n"
    )

    class FromFile(wb.KernelOp):
        inputs, outputs, c = "x: float64[n]", "y: float64[n]", file

    np.testing.assert_array_equal(FromFile()(np.ones(2)), [2, 2])
    file.write_text("\n\nvoid broken_file(\n")

    class BrokenFile(wb.KernelOp):
        inputs, outputs, c = "x: float64[n]", "y: float64[n]", file

    assert "twice.c:" in failure(BrokenFile())


@needs_c
@pytest.mark.parametrize(
    "signature",
    [
        "double *x, double *y, int64_t n",  # could write its input
        "const double *x, double *y, int n",
        "const float *x, double *y, int64_t n",
        "const double *x, double *y",
    ],
)
def test_arguments_that_do_not_fit_do_not_compile(signature: str) -> None:
    class Misfit(wb.KernelOp):
        inputs, outputs = "x: float64[n]", "y: float64[n]"
        c = f"void misfit({signature}) {{}}"

    text = failure(Misfit())
    assert "conflicting types for 'misfit'" in text
    assert "void misfit(const double *x, double *y, int64_t n)" in text


@needs_cpp
def test_nor_does_another_name_or_in_cpp_another_overload() -> None:
    class Named(wb.KernelOp):
        inputs, outputs = "x: float64[n]", "y: float64[n]"
        cpp = "void called(const double *x, double *y, int64_t n) {}"

    class Overloaded(wb.KernelOp):
        inputs, outputs = "x: float64[n]", "y: float64[n]"
        cpp = "void overloaded(const double *x, double *y, int n) {}"

    for op in (Named(), Overloaded()):
        text = failure(op)
        assert f"has no function {op.name} of the arguments that it gets" in text
        assert f"void {op.name}(const double *x, double *y, int64_t n)" in text
        assert "test_errors.py" in text


@needs_c
def test_a_function_that_nobody_defines() -> None:
    """C lets it pass, and the program would end when it is called."""

    class Undeclared(wb.KernelOp):
        inputs, outputs = "x: float64[n]", "y: float64[n]"
        c = "void undeclared(const double *x, double *y, int64_t n) { nobody(x); }"

    assert "implicit declaration of function 'nobody'" in failure(Undeclared())

    class Unlinked(wb.KernelOp):
        inputs, outputs = "x: float64[n]", "y: float64[n]"
        c = r"""
        double nobody(const double *x);
        void unlinked(const double *x, double *y, int64_t n) { y[0] = nobody(x); }
        """

    assert "it calls nobody, which nothing defines" in failure(Unlinked())


@needs_c
def test_warnings_are_not_shown(capfd: pytest.CaptureFixture[str]) -> None:
    class Warned(wb.KernelOp):
        inputs, outputs = "x: float64[n]", "y: float64[n]"
        flags = ("-Wall",)
        c = r"""
        void warned(const double *x, double *y, int64_t n) {
            int unused;
            for (int64_t i = 0; i < n; i++) y[i] = x[i];
        }
        """

    np.testing.assert_array_equal(Warned()(np.ones(2)), [1, 1])
    assert capfd.readouterr() == ("", "")


@needs_c
def test_flags_reach_the_compiler() -> None:
    class Defined(wb.KernelOp):
        inputs, outputs = "x: float64[n]", "y: float64[n]"
        flags = "-DTIMES=5 -O3"
        c = r"""
        void defined(const double *x, double *y, int64_t n) {
            for (int64_t i = 0; i < n; i++) y[i] = TIMES * x[i];
        }
        """

    np.testing.assert_array_equal(Defined()(np.ones(2)), [5, 5])


# Compilers that are missing, hang, or are interrupted


def script(folder: Path, name: str, text: str) -> Path:
    """A command of this name."""
    file = folder / name
    file.write_text(f"#!{sys.executable}\n{textwrap.dedent(text)}")
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return file


TIMES = "void {name}(const double *x, double *y, int64_t n) {{ y[0] = {by} * x[0]; }}"


class KernelDoubled(wb.KernelOp):
    inputs, outputs = "x: float64[n]", "y: float64[n]"
    c = TIMES.format(name="kernel_doubled", by=2)


class KernelTripled(KernelDoubled):
    inputs, outputs = "x: float64[n]", "y: float64[n]"
    c = TIMES.format(name="kernel_tripled", by=3)

    def fallback(self, x: Any) -> Any:
        return 3 * x


def without_compilers(
    monkeypatch: pytest.MonkeyPatch, folder: Path, **told: str
) -> None:
    monkeypatch.setenv("PATH", str(folder))
    for name in ("CC", "CXX"):
        monkeypatch.delenv(name, raising=False)
    for name, value in told.items():
        monkeypatch.setenv(name, value)
    for op in (KernelDoubled, KernelTripled):
        monkeypatch.delitem(NATIVES, op, raising=False)
        monkeypatch.setattr(op, "_warned", False)


def test_a_missing_compiler_says_what_was_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_compilers(monkeypatch, tmp_path)
    text = failure(KernelDoubled())
    assert "kernel_doubled: there is no C compiler: none of cc, gcc, clang" in text
    assert "CC is not set" in text
    assert "apt-get install gcc" in text
    assert "write fallback(self, *arrays) in KernelDoubled" in text
    without_compilers(monkeypatch, tmp_path, CC="icc -fast")
    assert "CC names 'icc', which is not a command" in failure(KernelDoubled())


def test_the_fallback_is_used_with_one_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_compilers(monkeypatch, tmp_path)
    with pytest.warns(RuntimeWarning, match="runs by its NumPy fallback") as w:
        y = KernelTripled()(np.ones(3))
    np.testing.assert_array_equal(y, [3, 3, 3])
    assert [Path(x.filename).name for x in w] == ["test_errors.py"]
    assert "kernel_tripled runs" in str(w[0].message)
    assert "there is no C compiler" in str(w[0].message)
    np.testing.assert_array_equal(KernelTripled()(np.ones(2)), [3, 3])


def test_a_fallback_that_is_not_what_was_declared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Wrong(wb.KernelOp):
        inputs, outputs = "x: float32[n]", "y: float32[n]"

        def fallback(self, x: Any) -> Any:
            return x.astype(float)

    with pytest.raises(KernelError, match=r"returned float64\[2\], and.*float32\[2\]"):
        Wrong()(np.ones(2, np.float32))


@needs_c
def test_cc_names_the_compiler_with_its_flags(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (found,) = toolchain.find_compiler("c")[:1]
    log = tmp_path / "log"
    script(
        tmp_path, "mine",
        f"""
        import os, sys
        with open({str(log)!r}, "a") as log:
            print(*sys.argv[1:], file=log)
        os.execv({found!r}, [{found!r}, *(x for x in sys.argv[1:] if x != "--mine")])
        """,
    )  # fmt: skip
    path = os.environ["PATH"]
    without_compilers(monkeypatch, tmp_path, CC="mine --mine")
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{path}")
    assert KernelDoubled()(np.ones(1)) == 2
    assert "--mine -std=gnu11 -O2" in log.read_text()


def test_a_compiler_that_does_not_end_is_stopped_with_its_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script(
        tmp_path, "slow",
        f"""
        import os, subprocess, sys, time
        if "--version" in sys.argv:
            sys.exit()
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
        with open({str(tmp_path / "child")!r}, "w") as file:
            file.write(str(child.pid))
        time.sleep(60)
        """,
    )  # fmt: skip
    without_compilers(monkeypatch, tmp_path, CC="slow")
    monkeypatch.setattr(KernelDoubled, "time_limit", 1.5)
    started = time.monotonic()
    assert "slow did not finish within 1.5 seconds" in failure(KernelDoubled())
    assert time.monotonic() - started < 20
    gone(int((tmp_path / "child").read_text()))


def gone(pid: int) -> None:
    """Wait until a process has ended, or is a zombie."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            if not Path("/proc").is_dir():
                try:
                    os.kill(pid, 0)
                except OSError:
                    return
            else:
                return
        else:
            if state == "Z":
                return
        time.sleep(0.02)
    raise AssertionError(f"process {pid} still runs")


def test_an_interrupt_ends_the_compiler(tmp_path: Path) -> None:
    """As in a notebook: the signal comes while the compiler runs."""
    script(
        tmp_path, "slow",
        f"""
        import os, sys, time
        if "--version" in sys.argv:
            sys.exit()
        with open({str(tmp_path / "begun.tmp")!r}, "w") as file:
            file.write(str(os.getpid()))
        os.rename({str(tmp_path / "begun.tmp")!r}, {str(tmp_path / "begun")!r})
        time.sleep(60)
        """,
    )  # fmt: skip
    program = textwrap.dedent(
        """
        import numpy as np, workbench as wb
        class Interrupted(wb.KernelOp):
            inputs, outputs = "x: float64[n]", "y: float64[n]"
            c = "void interrupted(const double *x, double *y, int64_t n) {}"
        try:
            Interrupted()(np.ones(3))
        except KeyboardInterrupt:
            print("interrupted")
        """
    )
    environment = {
        **os.environ, "CC": str(tmp_path / "slow"), "XDG_CACHE_HOME": str(tmp_path)
    }  # fmt: skip
    process = subprocess.Popen(
        [sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE
    )
    deadline = time.monotonic() + 30
    while not (tmp_path / "begun").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=30)
    assert said.strip() == b"interrupted"
    gone(int((tmp_path / "begun").read_text()))
