"""Loops of ufuncs inside kernels: NumPy's own numbers, and SciPy's errors."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from scipy import special

import workbench as wb
from tests.backends.compiled.programs import compile_graph, list_machines, trace
from workbench.backends.compiled.entries import COMPLEX, PRIMITIVES
from workbench.backends.compiled.program import Retreat
from workbench.backends.compiled.steps import HostStep, LoopStep
from workbench.backends.compiled.ufuncs import find_loop
from workbench.core.op import OPS, UFUNCS, load_all_ops


def list_ufuncs(operands: int) -> list[np.ufunc]:
    """SciPy's ufuncs of one result that no primitive and no scalar computes."""
    load_all_ops()
    formulas = {*PRIMITIVES, *COMPLEX}
    ours = {
        op.ufunc
        for name, op in OPS.items()
        if op.elementwise and not op.scalar and name not in formulas
    }
    return sorted(
        (f for f in ours & {*UFUNCS}
         if f is not None and f.nin == operands and not hasattr(np, f.__name__)),
        key=lambda f: f.__name__,
    )  # fmt: skip


@pytest.mark.filterwarnings("ignore:floating point number truncated")
@pytest.mark.filterwarnings("ignore:non-integer arg n")
@pytest.mark.parametrize("kind", ["f8", "f4", "c16", "c8"])
@pytest.mark.parametrize("operands", [1, 2, 3, 4])
def test_numbers_are_the_ufuncs(
    kind: str, operands: int, rng: np.random.Generator
) -> None:
    shape = (3, 7)  # one that no vector divides
    args = [rng.uniform(0.1, 1.2, shape).astype(kind) for _ in range(operands)]
    if kind[0] == "c":
        args = [x * np.exp(1j * rng.uniform(-1, 1, shape)).astype(kind) for x in args]
    ufuncs = []
    for f in list_ufuncs(operands):
        try:
            loop = f.resolve_dtypes((*[x.dtype for x in args], None))
        except TypeError:
            continue  # of reals alone
        if find_loop(f, tuple(d.str[1:] for d in loop[:-1])) is not None:
            ufuncs.append(f)
    assert len(ufuncs) > (30 if operands < 3 and kind[0] == "f" else -1)
    graph = trace(lambda *xs: tuple(f(*xs) for f in ufuncs), args)
    with np.errstate(all="ignore"):
        expected = [f(*args) for f in ufuncs]
    for machine in list_machines():
        program = compile_graph(graph, args, machine)
        assert not any(isinstance(s, HostStep) for s in program.plan.steps)
        for f, got, want in zip(ufuncs, program.run(args), expected, strict=True):
            assert got.dtype == want.dtype, f
            np.testing.assert_array_equal(got, want, f.__name__)


@pytest.mark.parametrize("kinds", ["ii", "bd", "id"])
def test_of_integers_and_booleans(kinds: str, rng: np.random.Generator) -> None:
    a, b = (rng.integers(0, 9, 11).astype(c) for c in kinds)
    ufuncs = (np.left_shift, np.gcd) if kinds == "ii" else (special.eval_hermite,)
    graph = trace(lambda a, b: tuple(f(a, b) for f in ufuncs), [a, b])
    for f, got in zip(ufuncs, compile_graph(graph, [a, b]).run([a, b]), strict=True):
        np.testing.assert_array_equal(got, f(a, b))
        assert got.dtype == f(a, b).dtype


def test_a_loop_that_calls_them_is_native(rng: np.random.Generator) -> None:
    x = rng.uniform(1, 2, (5, 3))

    def f(x: Any) -> Any:
        return wb.scan(lambda r, h: special.psi(h + r), x, [x[0]])

    program = compile_graph(trace(f, [x]), [x])
    assert any(isinstance(s, LoopStep) for s in program.plan.steps)
    h = x[0]
    for row in x:
        h = special.psi(h + row)
    np.testing.assert_array_equal(np.asarray(program.run([x])[0])[-1], h)


def wait_for_code(f: Any, x: Any) -> None:
    """Call a function until compiled code runs it."""
    f(x)
    f.wait()
    f(x)


@pytest.mark.parametrize("size", [3, 2**17])  # on one core, and on several
def test_errors_of_scipy_reach_the_user(size: int) -> None:
    psi = wb.compile(special.psi, backend="compiled")
    x = -np.arange(size, dtype=float)
    wait_for_code(psi, x)
    assert np.all(np.isnan(psi(x)[1:]))
    with special.errstate(singular="raise"):
        with pytest.raises(special.SpecialFunctionError, match=r"psi: singularity"):
            psi(x)
    with special.errstate(singular="warn"):
        with pytest.warns(special.SpecialFunctionWarning, match=r"psi: singularity"):
            psi(x)
    np.testing.assert_array_equal(psi(x + 1.5), special.psi(x + 1.5))


def test_errors_of_scipy_reach_the_user_wherever_they_are() -> None:
    """SciPy asks each thread what becomes of errors, and other cores are not asked."""
    x = np.linspace(1.5, 2.5, 2**20)
    program = compile_graph(trace(lambda x: special.psi(x) * 2, [x]), [x])
    for at in range(0, x.size, 2**16):
        bad = x.copy()
        bad[at] = -1.0
        with special.errstate(singular="raise"), pytest.raises(Retreat):
            program.run([bad])
    assert np.isnan(program.run([bad])[0][at])


def test_ufuncs_of_one_name_are_two() -> None:
    loops = [find_loop(f, ("f8",)) for f in (np.exp2, special.exp2)]
    found = [loop for loop in loops if loop is not None]
    assert found
    assert len({loop.function for loop in found}) == len(found)


@pytest.mark.parametrize("size", [3, 2**17])
def test_errors_of_numpy_name_the_line(size: int) -> None:
    power = wb.compile(lambda x, p: x**p, backend="compiled")
    x, p = np.arange(size) % 3, np.arange(size) % 5
    power(x + 1, p)
    power.wait()
    power(x + 1, p)
    np.testing.assert_array_equal(power(x + 1, p), (x + 1) ** p)
    with pytest.raises(ValueError, match=r"^power\(.*\(at test_ufuncs.py:.* negative"):
        power(x + 1, -p)
    np.testing.assert_array_equal(power(x + 1, p), (x + 1) ** p)


def test_of_numbers_that_meet_arrays(rng: np.random.Generator) -> None:
    """Python's numbers take the dtype of what they meet."""
    for kind, n in itertools.product(("f4", "f8"), (2, 0.5)):
        x = rng.uniform(1, 2, 5).astype(kind)
        got = compile_graph(trace(lambda x, n=n: special.jv(n, x), [x]), [x]).run([x])
        assert got[0].dtype == special.jv(n, x).dtype
        np.testing.assert_array_equal(got[0], special.jv(n, x))
