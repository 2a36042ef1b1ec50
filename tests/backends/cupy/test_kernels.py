"""Kernels as CUDA C++, run on the host and compared with NumPy.

Sizes are odd, threads go up, down and at random. The device is small, so that arrays
of some thousand entries are cut in pieces as large ones are on a real one.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.backends.compiled.accuracy import check_accuracy
from tests.backends.compiled.programs import trace
from tests.backends.cupy.host import COMPILER, SMALL, HostDevice, HostModule, write_all
from tests.backends.cupy.nvrtc import compile_cubin, load_nvrtc
from tests.chunks import mark_rest
from workbench.backends.compiled.builder import Value
from workbench.backends.compiled.expansion import expand
from workbench.backends.compiled.lowering import lower
from workbench.backends.compiled.steps import HostStep, Plan
from workbench.backends.cupy.builder import CudaBuilder
from workbench.backends.cupy.launches import Device, list_units
from workbench.backends.numpy import compile
from workbench.core.types import spec_of

needs_compiler = pytest.mark.skipif(COMPILER is None, reason="g++ is not installed")
ORDERS = (0, 1, 2)

# ruff: noqa: E501 a program is one line
#: Of x, y (37, 53), v (5003,), w (1001, 3), t (5, 7, 11), i (999,) in -36..35, j (999,).
#: z is complex, h of halves.
PROGRAMS = {
    "chain": "np.exp(-x * x) * np.sin(y) + np.tanh(x * y)",
    "vector": "v * 2 + np.sqrt(np.abs(v)), v > 0, v[1:] - v[:-1]",
    "several packs": "np.tile(v, 9) * 2 + np.tile(x[0], 850)[:45027], np.tile(v, 29).astype('f4') ** 2",
    "rows and columns": "x * v[:53], x[:, :1] + y, x.T + 1, y[::2, ::-1] * 2",
    "transposed": "x.T + np.reshape(v[:1961], (53, 37)), np.exp(x).T",
    "totals": "np.sum(x * y), np.max(x), np.min(y), np.prod(1 + x / 99), np.sum(v * v)",
    "by rows": "np.sum(x * y, 1), np.max(x, 1), np.prod(1 + x / 9, 1), np.sum(w, 1)",
    "by columns": "np.sum(x * y, 0), np.min(x, 0), np.sum(w, 0), np.max(w * w, 0)",
    "many by columns": "(*(np.sum(w[:500] * x[0, k], 0) for k in range(52)), *(np.sum(z * x[0, k], 0) for k in range(9)))",
    "by long columns": "np.sum(np.reshape(v[:5001], (1667, 3)), 0), np.sum(np.reshape(np.exp(v[:5001]), (1667, 3)), 0)",
    "by several axes": "np.sum(t, (0, 2)), np.sum(t, 1), np.sum(t, (0, 1), keepdims=True)",
    "all at once": "np.sum(x * y), np.sum(x, 0), np.sum(x * y, 1), np.max(y), x - y",
    "in place": "np.sum(np.exp(np.sin(x) * y) * np.sin(x)), np.sin(x) * 2",
    "logic": "np.any(x > 2), np.all(x > -9, 0), np.sum(x > 0), np.argmax(x, 1), np.argmin(v)",
    "softmax": "np.exp(x - np.max(x, 1, keepdims=True)) / np.sum(np.exp(x - np.max(x, 1, keepdims=True)), 1, keepdims=True)",
    "variances": "np.var(x, 0), np.std(v), np.mean(t, 2), np.linalg.norm(w, axis=0)",
    "take": "x[i], v[i], x[i, j], np.sum(x[i] ** 2, 1)",
    "put": "grad(lambda x: np.sum(x[i] ** 2))(x), grad(lambda v: np.sum(v[i] ** 3))(v)",
    "put pairs": "grad(lambda x: np.sum(np.sin(x[i, j])))(x), grad(lambda w: np.sum(w[i] ** 2))(w)",
    "put to few": "grad(lambda q: np.sum(q[i % 3] * v[:999]))(v[:7])",
    "put backwards": "grad(lambda x: np.sum(x[::-1][i % 37, 1:8][:, [6, 2]] ** 3))(x), grad(lambda x: np.sum(x[np.arange(36, -1, -1), j[:37]] * 2))(x), grad(lambda t: np.sum(t[:, [6, 0, 0, 1]][:, :, [9, 2]] ** 2))(t), grad(lambda x: np.sum(x[i[:99, None] % 5, np.arange(52, -1, -1)] ** 2))(x)",
    "set": "at(x)[i].set(x[i + 1]), at(v)[i].set(v[:999]), at(x)[i, j].set(2.0), at(v)[i % 2].set(v[:999])",
    "limit": "at(x)[i].max(0.5), at(v)[i].min(v[:999]), at(v)[i % 4].max(v[:999]), at(i)[j % 9].max(j)",
    "add": "at(x)[i].add(1.0), at(i)[j].add(j), at(z)[i].add(z[i]), at(x.astype('f4'))[i, j].add(1)",
    "put to known": "grad(lambda x: np.sum(x[:, [3, 1, 4]] ** 2))(x), grad(lambda v: np.sum(v[[0, 0, 2]] ** 2))(v)",
    "running": "np.cumsum(v), np.cumprod(1 + v / 999), np.cumsum(x, 0), np.cumsum(x, 1)",
    "running in pieces": "np.cumsum(np.concatenate([v, v, v, v, v])), np.cumsum(np.reshape(v[:5002], (2, 2501)), 1), np.cumprod(np.reshape(1 + v[:5002] / 999, (2501, 2)), 0), np.cumsum(np.concatenate([z, z, z]))",
    "moves": "np.concatenate([x, y]), np.stack([x, y], 1), np.pad(x, 3), np.roll(v, 7)",
    "integers": "i // 7, i % 5, i * j + 3, np.sum(i), np.max(i), np.cumsum(i), i & 6, i ^ j, -i, np.abs(i)",
    "narrow": "i.astype('i1') * 3, i.astype('u1') + 250, i.astype('i2') // 3, np.sum(i.astype('u2')), i.astype(bool)",
    "singles": "np.exp(x.astype('f4')) / 3, np.sum(x.astype('f4'), 1), np.sum(v.astype('f4')), v.astype('f4') * v",
    "complex": "z * np.conj(z), np.exp(z) + 1j, np.abs(z), np.tanh(z), np.sqrt(z), z / (2 + z), np.log(z)",
    "complex sums": "np.sum(z), np.sum(z, 0), np.sum(z * z, 1), np.cumsum(z, 0), z.T * 2, z.real, z[i]",
    "complex singles": "np.sin(z.astype('c8')), np.sum(z.astype('c8'), 1), z.astype('c8') * 2",
    "halves": "h * h + h / 3, np.exp(h), np.sqrt(np.abs(h)), h > 0.5, np.signbit(h), np.logaddexp(h, h[:, ::-1]), np.logaddexp2(h, h[::-1]), h // (np.abs(h[::-1]) + 0.01), h % (np.abs(h[::-1]) + 0.01), np.hypot(h, h[::-1]), np.arctan2(h, h[::-1]), h.astype('f8'), x.astype('f2'), np.maximum(h, 0)",
    "halves by index": "h[i], h[i, j], np.sum(h[i], 1), at(h)[i].add(h[i]), at(h)[i].set(h[i + 1]), at(h)[i].max(h[i + 1]), at(h[0])[j].min(0.5), grad(lambda h: np.sum(h[i] ** 2))(h)",
    "windows": "grad(lambda x: np.sum(np.max(windows(x, (2, 2))[::2, ::2], (-2, -1)) ** 2))(x), grad(lambda v: np.sum(np.mean(windows(v, 5), -1) ** 3))(v), grad(lambda z: np.sum(np.abs(np.sum(windows(z, 1, 0), -1))))(z), grad(lambda t: np.sum(windows(t, 7, 1) ** 2))(t)",
    "convolutions": "np.convolve(v[:200], v[:9]), grad(lambda v: np.sum(np.convolve(v[:200], v[200:209]) ** 2))(v), grad(lambda v: np.sum(np.convolve(v[:170], v[170:183], 'valid') ** 2))(v)",
    "angles": "np.sin(x) * np.cos(x) + np.cos(y), np.sum(np.sin(v) * np.exp(np.cos(v))), np.cos(x.astype('f4')) / np.sin(x.astype('f4')), np.cos(h) - np.sin(h), np.sin(z) / np.cos(z), np.where(x > 0, np.sin(y), np.cos(y)), np.sin(x) + np.cos(-x)",
    "remainders": "x % 0.3, y // 0.7, np.fmod(x, y), np.floor(y), np.round(x, 2), np.sign(x), np.copysign(x, y)",
    "powers": "x ** 3, np.abs(x) ** y, np.hypot(x, y), np.arctan2(x, y), np.log1p(x * x), np.cbrt(x), np.expm1(y)",
}  # fmt: skip


NAMES = {
    "np": np, "grad": wb.grad, "at": wb.at,
    "windows": np.lib.stride_tricks.sliding_window_view,
}  # fmt: skip


def draw(rng: np.random.Generator) -> dict[str, Any]:
    x, y = rng.normal(size=(2, 37, 53))
    return {
        "x": x, "y": y, "v": rng.normal(size=5003), "w": rng.normal(size=(1001, 3)),
        "t": rng.normal(size=(5, 7, 11)), "i": rng.integers(-36, 36, 999),
        "j": rng.integers(-53, 53, 999), "z": x + 1j * y, "h": x.astype("f2"),
    }  # fmt: skip


def make(text: str, args: dict[str, Any]) -> tuple[Callable[..., Any], list[Any]]:
    """A program as a function of what it names, and the arguments."""
    used = {x.id for x in ast.walk(ast.parse(text)) if isinstance(x, ast.Name)}
    names = [name for name in args if name in used]

    def f(*values: Any) -> Any:
        given = dict(zip(names, values, strict=True))
        made = eval(text, {**NAMES, **given})
        return made if type(made) is tuple else (made,)

    return f, [args[n] for n in names]


def plan_program(f: Callable[..., Any], args: list[Any]) -> tuple[Plan, list[Any]]:
    """The plan of a program for the device, and what NumPy says."""
    graph = trace(f, args)
    with np.errstate(all="ignore"):
        want = compile(graph).run(args)
    specs = [spec_of(a) for a in args]
    return lower(expand(graph, specs, kinds=SMALL.kinds), SMALL), want


@cache
def compile_programs() -> None:
    """Compile the kernels of all programs for the host, at once."""
    args, launches = draw(np.random.default_rng(0)), []
    for text in PROGRAMS.values():
        plan, _ = plan_program(*make(text, args))
        launches += [x for xs in write_all(plan).values() for x in xs]
    HostModule(launches)


@needs_compiler
@pytest.mark.parametrize("name", mark_rest(PROGRAMS, "kernels"))
def test_programs(name: str, rng: np.random.Generator) -> None:
    compile_programs()
    f, args = make(PROGRAMS[name], draw(rng))
    plan, want = plan_program(f, args)
    assert not any(isinstance(step, HostStep) for step in plan.steps)
    device = HostDevice(plan)
    results = []
    for order in ORDERS:
        got = device.run(args, order)
        assert device.flag == 0
        check_accuracy(plan.graph, args, got, want)
        results.append([np.asarray(a).tobytes() for a in got])
    # Bit by bit the same, whichever thread comes first.
    assert all(one == results[0] for one in results)


@needs_compiler
def test_functions_of_halves_round_once() -> None:
    x = np.array([-0.7773, -1.286, 0.333, 5.0], "f2")
    y = np.array([-0.615, 0.001705, 2.7, 0.1], "f2")
    f = lambda x, y: (np.logaddexp(x, y), np.logaddexp2(x, y), x // y)  # noqa: E731
    plan, _ = plan_program(f, [x, y])
    *logs, quotient = HostDevice(plan).run([x, y])
    wide = x.astype("f8"), y.astype("f8")
    for made, truth in zip(logs, f(*wide), strict=False):
        assert made.dtype == np.float16
        assert np.all(np.abs(made - truth) <= 0.505 * np.spacing(truth.astype("f2")))
    np.testing.assert_array_equal(quotient, x // y)


@needs_compiler
def test_large_reductions_are_made_in_pieces(rng: np.random.Generator) -> None:
    args = draw(rng)
    for name in ("totals", "by long columns", "put to few", "running"):
        f, given = make(PROGRAMS[name], args)
        plan, _ = plan_program(f, given)
        counts = [len(launches) for launches in write_all(plan).values()]
        assert max(counts) > 1, name
        assert any(buffer.kind == "partial" for buffer in plan.buffers)


@needs_compiler
@pytest.mark.parametrize("at", [0, 500, 998])
@pytest.mark.parametrize("wrong", [37, -38, 2**62, -(2**63)])
def test_indices_out_of_bounds_raise_the_flag(
    at: int, wrong: int, rng: np.random.Generator
) -> None:
    args = draw(rng)
    x, i = args["x"], args["i"]
    for text in ("x[i] * 2", "grad(lambda x: np.sum(x[i] ** 2))(x)", "at(x)[i].set(1)"):
        f, _ = make(text, args)
        plan, _ = plan_program(f, [x, i])
        device = HostDevice(plan)
        changed = i.copy()
        changed[at] = wrong
        device.run([x, changed])  # which fails where it writes beside a buffer
        assert device.flag == 1
        device.run([x, i])
        assert device.flag == 0


def test_equal_structures_are_one_function(rng: np.random.Generator) -> None:
    def list_launches(f: Callable[..., Any], *args: Any) -> list[Any]:
        plan, _ = plan_program(f, list(args))
        return [x for launches in write_all(plan).values() for x in launches]

    x = rng.normal(size=(37, 53))
    one = list_launches(lambda x, y: (np.sum(np.exp(x), 1), np.cos(y[:5])), x, x)
    two = list_launches(lambda y: np.sum(np.exp(y), 1), x)
    other = list_launches(lambda y: np.sum(np.exp(y), 1), x[:, :52])
    assert {x.name for x in two} < {x.name for x in one}
    assert not {x.name for x in other} & {x.name for x in one}
    (unit,) = list_units([*one, *two, *other, *one])
    assert len(unit.names) == len(set(unit.names)) == len(one) + len(other)


def test_kernels_load_packs_stride_over_the_grid_and_need_no_atomics(
    rng: np.random.Generator,
) -> None:
    args, device = draw(rng), Device()
    for name, text in PROGRAMS.items():
        f, given = make(text, args)
        plan, _ = plan_program(f, given)
        for launches in write_all(plan, device).values():
            for launch in launches:
                assert "atomic" not in launch.source, name
    for size in (2**12, 2**22):
        for kind, length in (("f8", 2), ("f4", 4), ("f2", 8)):
            x = np.zeros(size, kind)
            plan = lower(trace(lambda x: x * x, [x]), device)
            ((launch,),) = write_all(plan, device).values()
            packs = re.findall(rf"\(const Pack<[a-z ]+, {length}>\*\)", launch.source)
            assert packs, (size, kind)
            if size == 2**12:  # a larger one has a thread for each few packs
                assert "i += (unsigned)gridDim.x * 256u" in launch.source
            assert launch.blocks * launch.threads * length <= max(size, 256 * length)


@pytest.mark.parametrize(("kind", "name"), [("f8", "sincos"), ("f4", "sincosf")])
def test_the_sine_and_cosine_of_an_angle_are_computed_together(
    kind: str, name: str
) -> None:
    def source(f: Callable[..., Any]) -> str:
        plan = lower(trace(f, [np.ones(4, kind)]), Device())
        ((launch,),) = write_all(plan, Device()).values()
        return launch.source

    both = source(lambda x: np.sin(x) * np.cos(x) + np.sin(x + 1))
    assert both.count(f"{name}(") == 1
    assert len(re.findall(r"\bsinf?\(", both)) == 1
    assert not re.findall(r"\bcosf?\(", both)


def test_what_one_block_of_a_kernel_has_computed_is_not_used_in_the_next() -> None:
    b = CudaBuilder()
    x = Value("x", "f8")
    b.line("if (a) {")
    b.call_library("sin", x)
    b.line("}")
    b.line("{")
    b.call_library("cos", x)
    b.call_library("sin", x)
    b.line("}")
    sines = [line for line in b.lines if "sin" in line]
    assert sines[0] == "const double v1 = sin(x);"
    assert sines[1] == "double v3, v2; sincos(x, &v3, &v2);"


def test_a_number_that_is_repeated_is_no_load() -> None:
    ones = np.broadcast_to(3.0, (70, 50))
    plan = lower(trace(lambda x: x * ones, [np.ones((70, 50))]), Device())
    ((launch,),) = write_all(plan, Device()).values()
    assert "* 3.0;" in launch.source
    assert len(launch.pointers) == 2
    assert [b.kind for b in plan.buffers] == ["input", "output"]


def test_lowering_needs_no_llvm() -> None:
    code = (
        "import sys; sys.modules['llvmlite'] = None; import numpy as np\n"
        "import workbench as wb\n"
        "from workbench.core.trace import record\n"
        "from workbench.core.types import spec_of\n"
        "from workbench.backends.compiled.expansion import expand\n"
        "from workbench.backends.compiled.lowering import lower\n"
        "from workbench.backends.cupy.kernel_code import write_launches\n"
        "from workbench.backends.cupy.launches import Device\n"
        "spec = wb.Spec((3, 4), np.float64)\n"
        "graph = record(lambda xs: np.sum(np.tanh(xs[0]) @ xs[0].T, 0), [spec])\n"
        "plan = lower(expand(graph, [spec]), Device())\n"
        "print(*(type(step).__name__ for step in plan.steps))\n"
        "write_launches(plan.steps[0].kernel, plan, Device())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["KernelStep", "ProductStep", "KernelStep"]


ARCHITECTURES = ("sm_80", "sm_90", "sm_100")


@pytest.mark.parametrize(
    "architecture",
    [
        pytest.param(a, marks=[] if a == "sm_90" else [pytest.mark.long])
        for a in ARCHITECTURES
    ],
)
def test_programs_compile_for_a_gpu(
    architecture: str, rng: np.random.Generator
) -> None:
    nvrtc = load_nvrtc()
    if nvrtc is None:
        pytest.skip("NVRTC is not installed")
    args, launches = draw(rng), []
    for text in PROGRAMS.values():
        f, given = make(text, args)
        devices = (Device(),) if architecture == "sm_90" else (SMALL, Device())
        for device in devices:
            plan, _ = plan_program(f, given)
            launches += [x for xs in write_all(plan, device).values() for x in xs]
    for unit in list_units(launches):
        assert len(compile_cubin(nvrtc, unit.source, architecture)) > 1000
