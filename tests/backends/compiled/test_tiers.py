"""NumPy answers at once, compiled code later: the same results, whoever computes."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import warnings
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.backends.compiled.programs import check_equal, trace
from tests.gpu.stand_in import Foreign
from workbench.backends.compiled import memory, tiers
from workbench.backends.compiled.tiers import TieredFunction
from workbench.errors import CompilerError


def make(f: Any, *args: Any, **options: Any) -> TieredFunction:
    return TieredFunction(trace(f, list(args)), **options)


def test_the_first_call_is_numpys_and_a_later_one_compiled(
    rng: np.random.Generator,
) -> None:
    x = rng.normal(size=(4, 5))
    f = make(lambda x: np.exp(x) @ x.T, x)
    assert (f.backend, f.is_ready()) == ("numpy", False)
    first = f(x)
    assert f.wait(60)
    assert (f.backend, f.is_ready(), f.reason) == ("compiled", True, None)
    check_equal(f(x)[0], first[0], 64)


def test_each_set_of_shapes_and_dtypes_has_its_own_code(
    rng: np.random.Generator,
) -> None:
    x = wb.vector("x")
    f = wb.function([x], [np.sum(np.tanh(x)), x[::-1]], backend="compiled")
    assert not f.wait()  # the length is not known yet
    for n in (3, 1000, 3, 0, 7):
        v = rng.normal(size=n)
        f(v)
        assert f.wait(60)
        total, turned = f(v)
        np.testing.assert_allclose(total, np.sum(np.tanh(v)), rtol=1e-12)
        np.testing.assert_array_equal(turned, v[::-1])


def test_a_program_of_known_shapes_may_be_compiled_before_its_first_call() -> None:
    x = wb.vector("x", shape=3)
    f = wb.function([x], np.exp(x), backend="compiled")
    assert f.wait(60)
    assert f.backend == "compiled"
    assert f.is_ready()
    np.testing.assert_allclose(f([0.0, 1.0, 2.0]), np.exp([0.0, 1, 2]), rtol=1e-15)


def test_auto_compiles_what_has_run_for_a_while(
    monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    monkeypatch.setattr(tiers, "WORTHWHILE", 1e9)
    v = rng.normal(size=10)
    x = wb.vector("x")
    f = wb.function([x], np.exp(x), backend="auto")
    for _ in range(5):
        f(v)
    assert f.backend == "numpy"
    assert not f.is_ready()
    monkeypatch.setattr(tiers, "WORTHWHILE", 0.0)
    f(v)
    assert f.wait(60)
    assert f.backend == "compiled"


def test_results_belong_to_the_caller(rng: np.random.Generator) -> None:
    """A later call never writes into what an earlier one gave, nor into a view."""
    x = rng.normal(size=100)
    f = make(lambda x: (np.exp(x), x * 2, np.sum(x)), x)
    f(x)
    f.wait(60)
    kept, copies, views = [], [], []
    for i in range(6):
        made = f(x + i)
        kept.append(made[0])
        views.append(made[1][3:7])
        copies.append((made[0].copy(), made[1][3:7].copy()))
        del made
    for a, b, (x1, x2) in zip(kept, views, copies, strict=True):
        np.testing.assert_array_equal(a, x1)
        np.testing.assert_array_equal(b, x2)
    kept[0][...] = 7.0
    np.testing.assert_array_equal(f(x)[0], copies[0][0])


def test_memory_is_used_again_once_nobody_holds_it(rng: np.random.Generator) -> None:
    x = rng.normal(size=1000)
    f = make(lambda x: np.exp(x), x)
    f(x)
    f.wait(60)
    place = f(x)[0].__array_interface__["data"][0]
    gc.collect()
    assert f(x)[0].__array_interface__["data"][0] == place
    held = f(x)[0]
    assert f(x)[0].__array_interface__["data"][0] != held.__array_interface__["data"][0]
    program = f._last.program if f._last else None
    assert program is not None
    assert program._pool.count_bytes() > 0
    f.release()
    assert program._pool.count_bytes() == 0
    check_equal(f(x)[0], held)


def test_many_threads_call_at_once(rng: np.random.Generator) -> None:
    x = rng.normal(size=(60, 40))
    f = make(lambda x: (np.tanh(x) @ x.T, np.sum(np.exp(x), 0)), x)
    expected = [f(x + i) for i in range(8)]
    f.wait(60)
    wrong: list[str] = []

    def work(i: int) -> None:
        for _ in range(50):
            for got, want in zip(f(x + i), expected[i], strict=True):
                if not np.allclose(got, want, rtol=1e-12):
                    wrong.append(f"thread {i}")

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_what_cannot_be_compiled_is_told_once_and_runs(
    monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    def refuse(*args: Any) -> Any:
        raise CompilerError("a test refuses it.")

    monkeypatch.setattr(tiers, "Program", refuse)
    x = rng.normal(size=3)
    f = make(lambda x: np.exp(x), x)
    f(x)
    f.wait(60)
    with pytest.warns(RuntimeWarning) as told:
        check_equal(f(x)[0], np.exp(x))
    assert str(told[0].message) == "the program runs as NumPy: a test refuses it."
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        f(x)
    assert (f.backend, f.reason) == ("numpy", "a test refuses it.")


def test_a_bug_of_the_compiler_is_no_error_of_the_users(
    monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    def fail(*args: Any) -> Any:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr(tiers, "Program", fail)
    f = make(lambda x: np.exp(x), rng.normal(size=3))
    f(np.zeros(3))
    assert f.wait(60)
    with pytest.warns(
        RuntimeWarning, match=r"compiler failed: ZeroDivisionError: oops"
    ):
        np.testing.assert_array_equal(f(np.zeros(3))[0], np.ones(3))


def test_dtypes_that_depend_on_values_run_as_numpy() -> None:
    """NumPy's eigvals gives floats or complex numbers, as they come out."""
    graph = wb.trace(lambda a: np.linalg.eigvals(a))(np.eye(3))
    f = TieredFunction(graph)
    f(np.eye(3))
    f.wait(60)
    with pytest.warns(RuntimeWarning, match="eigvals gave float64"):
        f(np.eye(3))
    for a in (np.eye(3), np.diag([3.0, 1.0, 2.0])):
        np.testing.assert_array_equal(np.sort(f(a)[0]), np.sort(np.diag(a)))


def test_an_error_names_the_op_and_the_line(rng: np.random.Generator) -> None:
    x, i = wb.vector("x", shape=3), wb.tensor("i", dtype=np.int64, shape=(2,))
    f = wb.function([x, i], np.exp(x)[i] * 2, backend="compiled")
    v = rng.normal(size=3)
    f(v, np.array([0, 2]))
    f.wait(60)
    np.testing.assert_allclose(f(v, np.array([0, -1])), np.exp(v)[[0, 2]] * 2)
    for _ in range(2):
        with pytest.raises(IndexError, match="out of bounds for axis 0 with size 3"):
            f(v, np.array([0, 3]))


def test_functions_with_updates(rng: np.random.Generator) -> None:
    w = wb.shared(np.ones(4), "w")
    x = wb.vector("x", shape=4)
    step = wb.function([x], np.sum(w), updates={w: w - 0.1 * x}, backend="compiled")
    v = rng.normal(size=4)
    step(v)
    step.wait(60)
    for _ in range(3):
        step(v)
    np.testing.assert_allclose(w.get_value(), 1 - 0.4 * v, rtol=1e-12)


def test_llvmlite_is_loaded_only_to_compile() -> None:
    program = """
import sys, numpy as np, workbench as wb
x = wb.vector("x", shape=3)
f = wb.function([x], np.exp(x), backend="auto")
f(np.zeros(3))
assert "llvmlite" not in sys.modules
g = wb.function([x], np.exp(x), backend="compiled")
g.wait()
assert "llvmlite" in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_without_llvmlite_one_line_says_so_and_numpy_runs() -> None:
    program = """
import sys, warnings
sys.modules["llvmlite"] = sys.modules["llvmlite.binding"] = None
import numpy as np, workbench as wb
f = wb.compile(lambda x: np.exp(x))
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    for _ in range(4):
        print(float(f(np.zeros(1))[0]), f.wait(), f.backend)
print(len(told), told[0].message)
"""
    made = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    lines = made.stdout.splitlines()
    assert lines[:4] == ["1.0 True numpy"] * 4
    assert lines[4].startswith("1 the program runs as NumPy: llvmlite is not installed")


def run_program(text: str, *flags: str, **more: Any) -> str:
    """What a program of its own prints; a crash is an error."""
    made = subprocess.run(
        [sys.executable, *flags, "-c", text], capture_output=True, text=True, **more
    )
    assert made.returncode == 0, made.stderr
    return made.stdout


LONG = """
import os, time, numpy as np, workbench as wb
os.environ["WORKBENCH_CACHE"] = ""
x = wb.vector("x", shape=50)
y = x
for i in range(60):
    y = np.sin(y) * 1.01 + np.exp(-y * y)
f = wb.function([x], [y, wb.grad(np.sum(y), x)], backend="compiled", without="all")
f(np.ones(50))
"""


DELAYS = [0.05, *(pytest.param(d, marks=pytest.mark.long) for d in (0.0, 0.1, 0.2))]


@pytest.mark.long
@pytest.mark.parametrize("delay", DELAYS)
def test_a_process_may_end_while_it_compiles(delay: float) -> None:
    """LLVM's own end came in the midst of its work, and aborted the process."""
    run_program(f"{LONG}\ntime.sleep({delay})")


@pytest.mark.long
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.parametrize("delay", DELAYS)
def test_a_fork_while_it_compiles(delay: float) -> None:
    """The child waited for ever: for a thread that it has not, or for its locks."""
    program = f"""{LONG}
time.sleep({delay})
child = os.fork()
g = wb.compile(lambda x: x * 3)
g(np.ones(2))
good = f.wait(60) and g.wait(60) and f.backend == g.backend == "compiled"
good = good and g(np.ones(2))[0] == 3 and np.isfinite(f(np.ones(50))[0]).all()
if child == 0:
    os._exit(0 if good else 1)
print(good, os.waitpid(child, 0)[1])
"""
    assert run_program(program, timeout=120) == "True 0\n"


def test_what_is_missing_is_told_once_however_many_functions_there_are() -> None:
    program = """
import sys, warnings
sys.modules["llvmlite"] = sys.modules["llvmlite.binding"] = None
import numpy as np, workbench as wb
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    for n in range(3):
        x = wb.vector("x", shape=3)
        f = wb.function([x], wb.grad(np.sum(x ** n), x), backend="compiled")
        g, h = wb.compile(lambda x: np.exp(x)), wb.compile(np.cos, backend="auto")
        for _ in range(2):
            for one in (f, g, h):
                one(np.zeros(3))
                one.wait()
(one,) = told
print(one.filename, one.message)
"""
    said = run_program(program)
    assert said.startswith(
        "<string> the program runs as NumPy: llvmlite is not install"
    )


def test_an_unknown_processor_is_told_and_numpy_runs() -> None:
    program = """
import warnings
import llvmlite.binding as llvm
def refuse(*args): raise RuntimeError("no such processor")
llvm.get_host_cpu_features = refuse
import numpy as np, workbench as wb
f = wb.compile(np.exp)
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    print([float(f(np.zeros(1))[0]) for _ in range(3) if f.wait() or True], f.backend)
print(told[0].message)
"""
    first, second = run_program(program).splitlines()
    assert first == "[1.0, 1.0, 1.0] numpy"
    assert "LLVM does not know this processor (no such processor)" in second


def test_constants_are_those_of_the_first_call_and_nobody_elses() -> None:
    table = np.arange(3.0)
    f = wb.compile(lambda x: (x + table, table, 2 * table))
    f(np.zeros(3))
    table[...] = 7.0  # perhaps before the background reads it
    assert f.wait(60)
    for _ in range(3):
        made = f(np.zeros(3))
        for got, want in zip(made, ([0, 1, 2], [0, 1, 2], [0, 2, 4]), strict=True):
            np.testing.assert_array_equal(got, want)
            got[...] = 9.0
    np.testing.assert_array_equal(table, 7.0)


def test_arrays_of_other_libraries_run_on_the_definition() -> None:
    """Whatever has a dtype and a shape has no code of its own, and takes none."""

    class Strange(np.lib.mixins.NDArrayOperatorsMixin):
        dtype, shape = np.dtype(float), (3,)

        def __array_ufunc__(self, *args: Any, **kwargs: Any) -> str:
            return "strange"

    f = make(lambda x: x + 1, np.zeros(3))
    f(np.zeros(3))
    f.wait(60)
    with pytest.warns(RuntimeWarning, match="Strange is not an array of NumPy's"):
        assert f(Strange()) == ["strange"]
    np.testing.assert_array_equal(f(np.zeros(3))[0], np.ones(3))
    assert f.backend == "compiled"


def test_arrays_of_the_gpu_are_told_what_compiles_them() -> None:
    """CuPy's class has the name of NumPy's."""
    f = wb.compile(lambda x: x + 1, backend="compiled")
    told = "cupy.Foreign is not an array of NumPy's. backend=.cupy. compiles it"
    with pytest.warns(RuntimeWarning, match=told):
        assert isinstance(f(Foreign(np.zeros(3))), Foreign)


@pytest.mark.skipif(sys.platform == "win32", reason="this system has no such timer")
def test_an_interrupt_ends_a_run_that_other_cores_share() -> None:
    """What they still write to is nobody else's until they are done."""
    program = """
import os, signal
os.environ["WORKBENCH_THREADS"] = "3"
import numpy as np, workbench as wb
x = np.linspace(0, 1, 300_000)
f = wb.compile(lambda x: (np.sin(np.exp(np.cos(x))), np.sum(np.tanh(x))))
want = f(x)
f.wait()
assert f.backend == "compiled"
def interrupt(*args):
    raise KeyboardInterrupt
signal.signal(signal.SIGALRM, interrupt)
for k in range(20):
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.002 + 0.0001 * k)
        while True:
            made = f(x)
            assert np.allclose(made[0], want[0], rtol=1e-14)
            assert np.allclose(made[1], want[1], rtol=1e-12)
    except KeyboardInterrupt:
        pass
print("done")
"""
    assert run_program(program) == "done\n"


def test_functions_still_run_while_python_ends() -> None:
    program = """
import atexit, os
os.environ["WORKBENCH_THREADS"] = "3"
import numpy as np, workbench as wb
x = np.linspace(0, 1, 300_000)
f = wb.compile(lambda x: np.sin(np.exp(np.cos(x))))
f(x), f.wait(), f(x)
g = wb.compile(lambda x: 2 * x)
@atexit.register
def last():
    print(np.allclose(f(x), np.sin(np.exp(np.cos(x)))), g(3.0), g.wait(), g.backend)
import workbench.backends.compiled.tiers as tiers
atexit.register(tiers.BACKGROUND.end)
"""
    assert run_program(program) == "True 6.0 True numpy\n"


def test_the_memory_of_all_pools_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "MOST_IDLE", 10_000)
    pools = [memory.Pool() for _ in range(5)]
    dtype = np.dtype(np.float64)
    for pool in pools:
        for n in (100, 200, 300):
            held = [pool.take((n,), dtype)[0] for _ in range(7)]
            assert len({id(x) for x in held}) == 7
            del held
        assert pool.count_bytes() >= 4800  # what one call needs
        assert sum(p.count_bytes() for p in pools) <= 10_000 + 4800
    pools[-1].clear()
    assert pools[-1].count_bytes() == 0


def test_blocks_are_used_again_and_released(rng: np.random.Generator) -> None:
    x = rng.normal(size=(300, 400))
    f = make(lambda x: np.sum(np.exp(x - np.max(x, 1, keepdims=True)) @ x.T), x)
    f(x)
    f.wait(60)
    program = f._last.program if f._last else None
    assert program is not None
    for _ in range(5):
        f(x)
    once = program._pool.count_bytes()
    assert 0 < once <= 3 * x.nbytes
    f.release()
    assert program._pool.count_bytes() == 0
    f(x)
    assert program._pool.count_bytes() == once
