"""The harness itself: planted bugs are found, on the host and by its sanitizer."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.backends.compiled.accuracy import check_accuracy
from tests.backends.cupy.host import (
    COMPILER,
    HostDevice,
    HostModule,
    compile_host,
    write_all,
)
from tests.backends.cupy.test_kernels import PROGRAMS, draw, make, plan_program
from workbench.backends.compiled.kernel import View
from workbench.backends.compiled.steps import KernelStep, MoveStep, Plan
from workbench.backends.cupy.launches import PRELUDE, Launch

needs_compiler = pytest.mark.skipif(COMPILER is None, reason="g++ is not installed")
#: A program, what its kernels are changed to, and what is said then; of wrong numbers
#: nothing is said.
BUGS: dict[str, tuple[str, tuple[str, str], str]] = {
    "no barrier": ("np.sum(x)", ("__syncthreads();", ""), ""),
    "one too far": ("v > 0", ("i < 2501u", "i <= 2501u"), "behind a buffer"),
    "one too early": ("np.exp(v)", ("(p1 + j", "(p1 - 16 + j"), "before a buffer"),
    "half of a warp": ("np.sum(x)", ("by = 16", "by = 8"), ""),
    "one lane alone": ("np.sum(x)", ("by >>= 1) {", "by >>= 1) { if (member) break;"),
                       "do not come|takes no part"),
}  # fmt: skip


def change(
    launches: dict[int, list[Launch]], name: str, old: str, new: str
) -> dict[int, list[Launch]]:
    """Launches whose text is another one."""
    found = 0
    made = {}
    for key, several in launches.items():
        made[key] = []
        for x in several:
            found += old in x.body
            text = x.body.replace(old, new)
            made[key].append(x._replace(body=text, name=f"{x.name}_{name}"))
    assert found, f"no kernel says {old!r}"
    return made


@needs_compiler
@pytest.mark.parametrize("bug", BUGS)
def test_planted_bugs_are_found(bug: str, rng: np.random.Generator) -> None:
    text, (old, new), message = BUGS[bug]
    f, args = make(text, draw(rng))
    plan, want = plan_program(f, args)
    launches = write_all(plan)
    wrong = change(launches, bug.replace(" ", "_"), old, new)

    def run(device: HostDevice) -> None:
        for order in (0, 1, 2):
            check_accuracy(plan.graph, args, device.run(args, order), want)

    run(HostDevice(plan, launches))
    with pytest.raises((AssertionError, RuntimeError), match=message or None):
        run(HostDevice(plan, wrong))


# The sanitizer, which ends a process that touches a byte too much


def write_main(plan: Plan, launches: dict[int, list[Launch]]) -> str:
    """C++ that runs a plan of kernels on memory of its own, buffer by buffer.

    It reads the contents of inputs and constants, and writes the outputs.
    """
    lines, begins = [], ["input", "constant"]
    for buffer in plan.buffers:
        size = max(buffer.size, 1)
        lines.append(f"  b[n++] = take({size}, {int(buffer.kind in begins)}, in);")
    for step in plan.steps:
        if isinstance(step, MoveStep) and step.zeros >= 0:
            lines.append(f"  memset(b[{step.zeros}], 0, sizes[{step.zeros}]);")
        keys = [id(step)]
        if isinstance(step, KernelStep | MoveStep):
            kernels = step.parts if isinstance(step, MoveStep) else (step.kernel,)
            keys = [id(kernel) for kernel in kernels]
        for launch in (x for key in keys for x in launches[key]):
            given = ", ".join(f"b[{i}] + {at}" for i, at in launch.pointers)
            lines += [
                f"  {{ char* p[] = {{{given}}}; void* a[{len(launch.pointers)}];",
                "    for (size_t i = 0; i < sizeof p / 8; i++) a[i] = &p[i];",
                f"    unsigned shape[] = {{{launch.blocks}, 1, 1, {launch.threads}, 1,"
                " 1};",
                f"    if (const char* e = {launch.name}_launch(shape, 0,"
                " 0, a)) { puts(e); return 1; } }",
            ]
    for y in plan.outputs:
        assert isinstance(y, View)
        size = plan.buffers[y.buffer].size
        lines.append(f"  fwrite(b[{y.buffer}], 1, {size}, out);")
    sizes = ", ".join(str(max(b.size, 1)) for b in plan.buffers)
    sources = {x.name: x.source for xs in launches.values() for x in xs}
    ends = [f"HOST_CUDA_KERNEL({name})" for name in sources]
    return "\n".join([
        PRELUDE, *sources.values(), *ends,
        "static char* take(size_t size, bool given, FILE* in) {",
        "  char* p = (char*)malloc(size);",
        "  memset(p, 255, size);",
        "  if (given && fread(p, 1, size, in) != size) exit(3);",
        "  return p;",
        "}",
        "int main(int, char** names) {",
        '  FILE *in = fopen(names[1], "rb"), *out = fopen(names[2], "wb");',
        f"  static char* b[{len(plan.buffers)}]; int n = 0;",
        f"  static size_t sizes[] = {{{sizes}}}; (void)sizes;",
        *lines,
        "  fclose(out);",
        "  return 0;",
        "}",
    ])  # fmt: skip


def run_sanitized(
    plan: Plan, launches: dict[int, list[Launch]], args: Sequence[Any], folder: Path,
    sanitizer: str = "address",
) -> tuple[subprocess.CompletedProcess[str], list[Any]]:  # fmt: skip
    """Run a plan under a sanitizer; return what it says, and the outputs.

    That of addresses finds a byte too much; that of threads two threads of a block at
    one place without a barrier between them.
    """
    placed = ("-no-pie", "-fno-pic") if sanitizer == "address" else ("-pie", "-fPIE")
    text = write_main(plan, launches)
    program = compile_host(text, f"-fsanitize={sanitizer}", "-g", *placed)
    contents = b""
    for buffer in plan.buffers:
        if buffer.kind == "input":
            contents += np.asarray(args[buffer.place], buffer.spec.dtype).tobytes()
        elif buffer.kind == "constant":
            contents += buffer.value.tobytes()
    (folder / "in").write_bytes(contents)
    # The scheduler of fibers is one thread, and says what they wait for.
    (folder / "own").write_text("race_top:host_cuda.hpp\n")
    done = subprocess.run(
        [program, folder / "in", folder / "out"],
        capture_output=True, text=True,
        env={
            "ASAN_OPTIONS": "detect_leaks=0",
            "TSAN_OPTIONS": f"suppressions={folder / 'own'}",
        },
    )  # fmt: skip
    made, at = [], 0
    whole = (folder / "out").read_bytes() if done.returncode == 0 else b""
    for y in plan.outputs:
        size = plan.buffers[y.buffer].size
        if whole:
            part = np.frombuffer(whole[at : at + size], np.uint8)
            made.append(np.ndarray(y.shape, y.kind, part, y.offset, y.strides))
        at += size
    return done, made


@needs_compiler
def test_the_sanitizer_finds_a_read_too_far(
    tmp_path: Path, rng: np.random.Generator
) -> None:
    f, args = make("np.sum(v)", draw(rng))
    plan, want = plan_program(f, args)
    launches = write_all(plan)
    done, made = run_sanitized(plan, launches, args, tmp_path)
    assert done.returncode == 0, done.stderr[:2000]
    check_accuracy(plan.graph, args, made, want)
    # A read behind the end adds what may be 0: no number tells.
    wrong = change(launches, "far", "5003u ?", "5004u ?")
    wrong = change(wrong, "end", ": 5003u", ": 5004u")
    done, _ = run_sanitized(plan, wrong, args, tmp_path)
    assert done.returncode != 0
    assert "heap-buffer-overflow" in done.stderr


@pytest.mark.long
@needs_compiler
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_under_the_sanitizer(
    name: str, tmp_path: Path, rng: np.random.Generator
) -> None:
    f, args = make(PROGRAMS[name], draw(rng))
    plan, want = plan_program(f, args)
    done, made = run_sanitized(plan, write_all(plan), args, tmp_path)
    assert done.returncode == 0, done.stderr[:2000]
    check_accuracy(plan.graph, args, made, want)


@needs_compiler
def test_a_launch_that_cuda_refuses_is_refused(rng: np.random.Generator) -> None:
    f, args = make("np.exp(v)", draw(rng))
    plan, _ = plan_program(f, args)
    ((launch,),) = write_all(plan).values()
    with pytest.raises(RuntimeError, match="CUDA refuses this launch"):
        HostModule([launch]).run(launch._replace(threads=2048), [0, 0])
