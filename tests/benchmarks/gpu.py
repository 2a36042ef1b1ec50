"""Benchmarks on a GPU: ``python -m tests.benchmarks.gpu [question ...]``.

Times are of the wall, with the GPU waited for after many calls: ours, torch's and
JAX's alike. Beside them stand the speed of a copy and of products of matrices on that
very machine. Each question is kept as it is answered, in a file of its own; one that
fails is kept as failed, and so is a peer. Everything ends after three minutes.
"""

from __future__ import annotations

import contextlib
import datetime
import functools
import json
import os
import random
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

import workbench as wb
from tests.benchmarks import dense_hessian, dense_jacobian, gmm, mlp, recurrent
from tests.benchmarks.harness import (
    RESULTS,
    Case,
    compare_answers,
    flatten_answer,
    limit_time,
)
from tests.benchmarks.peers import (
    NotApplicable,
    Peer,
    Problem,
    differentiate,
    jax,
    torch,
)

#: All questions together take at most so many seconds; a peer's first answer.
MOST_SECONDS, PATIENCE = 150.0, 30
#: Times are the least of so many rounds, each of at least so many seconds.
ROUNDS, LEAST = 7, 0.03
STARTED = time.perf_counter()

Call = Callable[[], Any]


def has_time() -> bool:
    """Return whether there is time for another peer."""
    return time.perf_counter() - STARTED < MOST_SECONDS


def find_cupy() -> Any:
    import cupy

    return cupy


def synchronize(answer: Any = None) -> None:
    """Wait for the GPU, whoever uses it, and for JAX's answer."""
    if "jax" in sys.modules:
        sys.modules["jax"].block_until_ready(answer)
    find_cupy().cuda.Device().synchronize()


def time_call(call: Call, rounds: int = ROUNDS) -> float:
    """Return the least seconds of a call among many that follow each other."""
    for _ in range(3):
        answer = call()
    synchronize(answer)
    start = time.perf_counter()
    synchronize(call())
    count = int(min(max(1, LEAST / max(time.perf_counter() - start, 1e-7)), 1000))
    best = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(count):
            answer = call()
        synchronize(answer)
        best = min(best, (time.perf_counter() - start) / count)
    return best


def compile_ready(f: Callable[..., Any], *args: Any) -> Any:
    """Return a function that has compiled its program for these arguments."""
    run = wb.compile(f, backend="cupy")
    run(*args)
    run.wait(120)
    for _ in range(4):  # it is captured meanwhile
        run(*args)
    synchronize()
    return run


def describe_program(run: Any) -> dict[str, Any]:
    """Return what is known of the compiled program of a function."""
    function = run._last.function
    program = function._last.program if function._last is not None else None
    if program is None:
        return {"compiled": False, "reason": function.reason}
    return {
        "compiled": True,
        "launches": sum(action.count for action in program.actions),
        "graphs": program.captured,
        "not captured": program.refusal,
        "between graphs": program.list_uncaptured(),
        "memory": program.memory,
    }


# What the machine does


@functools.cache
def measure_copy() -> float:
    """Return the bytes a second that a copy reads and writes."""
    cupy = find_cupy()
    source = cupy.ones(2**27)
    target = cupy.empty_like(source)
    seconds = time_call(lambda: cupy.copyto(target, source))
    return float(2 * source.nbytes / seconds)


def ask_machine() -> dict[str, Any]:
    """Return the speed of a copy and of products of matrices."""
    cupy = find_cupy()
    made: dict[str, Any] = {"copy GB/s": measure_copy() / 1e9}
    for dtype, n in (("float64", 4096), ("float32", 8192), ("float16", 8192)):
        a = cupy.ones((n, n), dtype)
        out = cupy.empty_like(a)
        seconds = time_call(lambda a=a, out=out: cupy.matmul(a, a, out=out), rounds=3)
        made[f"product {dtype} TFLOP/s"] = 2 * n**3 / seconds / 1e12
    return made


# Ours against what the machine can do


def ask_elementwise() -> dict[str, Any]:
    """Return how near gradients of elementwise functions come to a copy's speed."""

    def light(x: Any) -> Any:
        return np.sum(x**3 - 2 * x * x + x)

    def heavy(x: Any) -> Any:
        return np.sum(np.sin(x) * np.exp(-x * x))

    def two(x: Any, y: Any) -> Any:
        return np.sum(x * y / (1 + y * y))

    cupy, made = find_cupy(), {}
    for dtype in ("float64", "float32"):
        x = cupy.random.default_rng(0).random(2**26).astype(dtype)
        y = x + 1
        for name, f, args in (
            ("polynomial", light, (x,)),
            ("sin and exp", heavy, (x,)),
            ("two inputs", two, (x, y)),
        ):
            run = compile_ready(wb.grad(f, tuple(range(len(args)))), *args)
            seconds = time_call(lambda run=run, args=args: run(*args))
            rate = 2 * sum(a.nbytes for a in args) / seconds
            made[f"{name}, {dtype}"] = {
                "seconds": seconds,
                "GB/s": rate / 1e9,
                "of a copy": rate / measure_copy(),
                **describe_program(run),
            }
    return made


def ask_step() -> dict[str, Any]:
    """Return how much of a training step of a large network its products take."""
    sizes = ("float32", 4096), ("float64", 2048)
    return {f"{dtype}, {n}": measure_step(dtype, n) for dtype, n in sizes}


def measure_step(dtype: str, n: int) -> dict[str, Any]:
    """Return the seconds of a step of three layers, and of its products alone."""
    cupy = find_cupy()
    rng = cupy.random.default_rng(0)
    weights = [rng.standard_normal((n, n)).astype(dtype) / n for _ in range(3)]
    x = rng.standard_normal((n, n)).astype(dtype)

    def step(x: Any, *weights: Any) -> Any:
        def loss(*weights: Any) -> Any:
            h = x
            for W in weights:
                h = np.tanh(h @ W)
            return np.mean(h * h)

        value, grads = wb.value_and_grad(loss, (0, 1, 2))(*weights)
        return value, [W - 0.1 * g for W, g in zip(weights, grads, strict=True)]

    run = compile_ready(step, x, *weights)
    seconds = time_call(lambda: run(x, *weights), rounds=3)
    out = cupy.empty_like(x)

    def multiply() -> None:
        for W in weights:  # forward, and by the weights
            cupy.matmul(x, W, out=out)
            cupy.matmul(x.T, W, out=out)
        for W in weights[1:]:  # by the layers before
            cupy.matmul(x, W.T, out=out)

    products = time_call(multiply, rounds=3)
    return {
        "seconds": seconds,
        "products": products,
        "share of products": products / seconds,
        **describe_program(run),
    }


def ask_launch() -> dict[str, Any]:
    """Return what a captured function of about a hundred kernels costs a call."""
    cupy = find_cupy()

    def f(x: Any) -> Any:
        for k in range(50):
            x = np.sin(x + np.sum(x * x) * (1e-3 * k))
        return x

    x = cupy.linspace(0, 1, 100)
    run = compile_ready(f, x)
    synchronize()
    least = float("inf")
    for _ in range(20):
        start = time.perf_counter()
        for _ in range(10):
            run(x)
        least = min(least, (time.perf_counter() - start) / 10)
        synchronize()
    made = {"host seconds": least, "seconds": time_call(lambda: run(x))}
    function = run._last.function
    program = function._last.program
    if program is not None and program._capture is not None:
        replay, _ = program._capture._copying[0]
        start = time.perf_counter()
        for _ in range(10):
            replay(None)
        made["graph launch seconds"] = (time.perf_counter() - start) / 10
        synchronize()
        made["graph seconds"] = time_call(lambda: replay(None))
    return {**made, **describe_program(run)}


def ask_first_call() -> dict[str, Any]:
    """Return the seconds to a first answer, and until it is compiled, in a process.

    The first process finds empty caches, the second what the first has left.
    """
    made = {}
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            **os.environ, "CUPY_CACHE_DIR": folder, "WORKBENCH_CACHE": folder,
            "CUDA_CACHE_PATH": folder,
        }  # fmt: skip
        for name in ("empty caches", "filled caches"):
            done = subprocess.run(
                [sys.executable, "-m", "tests.benchmarks.gpu", "--first"],
                env=environment, capture_output=True, text=True, timeout=60,
            )  # fmt: skip
            if done.returncode:
                raise RuntimeError(done.stderr[-1500:])
            made[name] = json.loads(done.stdout.splitlines()[-1])
    return made


def print_first_call() -> None:
    """Print the seconds of a first call in this process, whose libraries are loaded."""
    cupy = find_cupy()
    x = cupy.ones((64, 64))
    (x @ x).sum()
    synchronize()
    wb.compile(lambda x: x)(np.ones(2))

    def loss(W: Any, x: Any) -> Any:
        return np.sum(np.tanh(x @ W) ** 2)

    start = time.perf_counter()
    run = wb.compile(wb.value_and_grad(loss), backend="cupy")
    run(x, x)
    synchronize()
    first = time.perf_counter() - start
    run.wait(50)
    compiled = time.perf_counter() - start
    run(x, x)
    synchronize()
    whole = time.perf_counter() - start
    print(json.dumps({"first": first, "compiled": compiled, "second call": whole}))


# Against torch and JAX


def ours(problem: Problem) -> Peer:
    """Run a case on the GPU, compiled."""
    arrays = wb.to_gpu(problem.arrays)
    objective, derivative = (
        wb.compile(f, backend="cupy") for f in differentiate(problem)
    )

    def wait() -> None:
        for f in (objective, derivative):
            f.wait(60)

    peer = Peer(
        lambda: objective(*arrays), lambda: derivative(*arrays), wb.to_cpu, wait
    )
    PROGRAMS[id(peer)] = derivative
    return peer


def run_jax(problem: Problem) -> Peer:
    """Run a case by JAX, whose products of float32 are as exact as the others'."""
    import jax as library

    library.config.update("jax_default_matmul_precision", "highest")
    return jax(problem, waits=False)


#: The derivative of each peer of ours.
PROGRAMS: dict[int, Any] = {}


def list_peers() -> dict[str, Callable[[Problem], Peer]]:
    """Return who computes, by name."""
    return {
        "workbench": ours,
        "jax": run_jax,
        "torch": functools.partial(torch, device="cuda"),
        "torch.compile": functools.partial(torch, compiled=True, device="cuda"),
    }


def compare_peers(case: Case) -> dict[str, Any]:
    """Return what the derivative of a case takes each peer, and what went wrong."""
    problem = case.make(False)
    made: dict[str, Any] = {}
    calls: dict[str, Call] = {}
    expected: Any = None
    for name, make in list_peers().items():
        if name in case.without:
            made[name] = {"left out": case.without[name]}
            continue
        if not has_time():
            made[name] = {"left out": "no time is left"}
            continue
        try:
            with limit_time(PATIENCE):
                start = time.perf_counter()
                peer = make(problem)
                synchronize(peer.derivative())
                first = time.perf_counter() - start
                peer.wait()
                for _ in range(4):
                    answer = peer.derivative()
                synchronize(answer)
            arrays = flatten_answer(peer.read(answer))
            expected = arrays if expected is None else expected
            off = compare_answers(arrays, expected)
            made[name] = {"first seconds": first, "off": off}
            if not off <= max(case.tolerance, 1e-7):
                made[name]["error"] = "its answer differs"
                continue
            if id(peer) in PROGRAMS:
                made[name] |= describe_program(PROGRAMS[id(peer)])
            calls[name] = peer.derivative
        except NotApplicable as error:
            made[name] = {"left out": str(error)}
        except Exception as error:
            said = str(error).splitlines() or [""]
            made[name] = {"error": f"{type(error).__name__}: {said[0][:300]}"}
    for name in calls:
        made[name]["seconds"] = float("inf")
    order = list(calls)
    for _ in range(3):
        random.shuffle(order)
        for name in order:
            seconds = time_call(calls[name], rounds=2)
            made[name]["seconds"] = min(made[name]["seconds"], seconds)
    return made


def list_cases() -> list[Case]:
    """Return the cases that are compared."""
    chosen = {"gmm_10k_matmul", "gmm_1k_matmul", "recurrent_1", "recurrent_32"}
    modules = (mlp, gmm, dense_jacobian, dense_hessian, recurrent)
    cases = [case for module in modules for case in module.CASES]
    small = {"mlp", "dense_jacobian", "dense_hessian"}
    return [case for case in cases if case.name in chosen | small]


# All of it


def list_questions() -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    """Return each question by its name, the cheapest first."""
    yield "machine", ask_machine
    yield "elementwise", ask_elementwise
    yield "step", ask_step
    yield "launch", ask_launch
    yield "first_call", ask_first_call
    for case in list_cases():
        yield case.name, functools.partial(compare_peers, case)


def describe_machine() -> dict[str, Any]:
    """Return the versions, and the name of the device."""
    cupy = find_cupy()
    versions = {}
    for name in ("numpy", "scipy", "torch", "jax", "llvmlite"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    api = cupy.cuda.runtime
    properties = api.getDeviceProperties(0)
    return {
        "device": properties["name"].decode(),
        "driver": api.driverGetVersion(),
        "runtime": api.runtimeGetVersion(),
        "cupy": cupy.__version__,
        "python": sys.version.split()[0],
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        **versions,
    }


def main(chosen: list[str]) -> int:
    """Answer the questions, and keep each answer."""
    from workbench.backends.cupy.devices import find_problem

    problem = find_problem()
    if problem is not None:
        print(problem)
        return 1
    # Others take most of the memory at once, unless told.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    folder = Path(os.environ.get("OUT") or RESULTS)
    folder.mkdir(parents=True, exist_ok=True)
    machine = describe_machine()
    print(json.dumps(machine), flush=True)
    failed = 0
    for name, ask in list_questions():
        if chosen and name not in chosen:
            continue
        began = time.perf_counter()
        try:
            answer = ask() if has_time() else {"left out": "no time is left"}
        except Exception:
            answer = {"error": traceback.format_exc()[-3000:]}
            failed += 1
        spent = time.perf_counter() - began
        kept = {"machine": machine, "took": spent, "answer": answer}
        text = json.dumps(kept, indent=1, default=str)
        (folder / f"gpu_{name}.json").write_text(text + "\n")
        print(f"{name} ({spent:.1f} s): {json.dumps(answer, default=str)}", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    if "--first" in sys.argv:
        print_first_call()
    else:
        sys.exit(main(sys.argv[1:]))
