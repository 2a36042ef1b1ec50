"""Elementary functions of vectors: ours, glibc's libmvec where it is, and NumPy's.

Nanoseconds an entry, in a loop over arrays that fit the cache, on one core.
"""

from __future__ import annotations

import ctypes
import math
import random
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special

from tests.benchmarks import harness
from workbench.backends.compiled.builder import TYPES
from workbench.backends.compiled.formula import define
from workbench.backends.compiled.functions import CONSTANTS, FUNCTIONS
from workbench.backends.compiled.machine import Machine

NAME = "vector_math"
TITLE = "Elementary functions of vectors, nanoseconds an entry"
GOAL = "ours ≤ 1.5 times libmvec, and faster than NumPy"
LENGTH, ROUNDS = 8192, 60
#: What NumPy calls them.
NAMES = {
    "asin": "arcsin", "acos": "arccos", "atan": "arctan", "atan2": "arctan2",
    "asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh", "pow": "power",
}  # fmt: skip
TWO = {"pow", "atan2", "hypot"}
MVEC = {("f8", 2): "b", ("f8", 4): "d", ("f8", 8): "e", ("f4", 4): "b", ("f4", 8): "d",
        ("f4", 16): "e"}  # fmt: skip


def make_loop(machine: Machine, kind: str, lanes: int, count: int) -> Any:
    """Compile a loop that calls a function of vectors by its address."""
    type_ = f"<{lanes} x {TYPES[kind]}>"
    loads = [
        f"%p{i} = getelementptr {TYPES[kind]}, ptr %x{i}, i64 %i\n"
        f"%v{i} = load {type_}, ptr %p{i}, align 1"
        for i in range(count)
    ]
    given = ", ".join(f"{type_} %v{i}" for i in range(count))
    ir = "\n".join(
        [
            "define void @run(ptr %f, i64 %n, ptr %y, ptr %x0, ptr %x1) {",
            "start:", "br label %head", "head:",
            "%i = phi i64 [0, %start], [%next, %body]", "%more = icmp slt i64 %i, %n",
            "br i1 %more, label %body, label %end", "body:", *loads,
            f"%v = call {type_} %f({given})",
            f"%p = getelementptr {TYPES[kind]}, ptr %y, i64 %i",
            f"store {type_} %v, ptr %p, align 1",
            f"%next = add i64 %i, {lanes}", "br label %head", "end:", "ret void", "}",
        ]
    )  # fmt: skip
    library = machine.compile(ir, ["run"], [], quick=False)
    pointer = ctypes.c_void_p
    signature = ctypes.CFUNCTYPE(None, pointer, ctypes.c_int64, *[pointer] * 3)
    return signature(library.addresses["run"]), library


def find_ours(machine: Machine, name: str, kind: str, lanes: int) -> tuple[int, Any]:
    """Return where our function is, and the code that must live."""
    symbol = define(machine, name, FUNCTIONS[name], CONSTANTS[kind], lanes)
    one = machine.definitions[symbol]
    library = machine.compile(one.ir, [symbol], one.symbols, quick=False)
    return library.addresses[symbol], library


def find_libmvec(name: str, kind: str, lanes: int) -> int | None:
    """Return where glibc's function is, if anywhere."""
    several = "v" * (1 + (name in TWO))
    suffix = "f" if kind == "f4" else ""
    symbol = f"_ZGV{MVEC[kind, lanes]}N{lanes}{several}_{name}{suffix}"
    try:
        function = ctypes.CDLL("libmvec.so.1")[symbol]
    except (OSError, AttributeError):
        return None
    return ctypes.cast(function, ctypes.c_void_p).value


def draw(rng: np.random.Generator, name: str, kind: str) -> list[Any]:
    """Arguments of usual sizes, inside the domain."""
    x, y = rng.normal(0, 1.5, (2, LENGTH))
    if name in ("asin", "acos", "atanh"):
        x = rng.uniform(-0.99, 0.99, LENGTH)
    elif name in ("log", "log2", "log10", "log1p", "pow"):
        x = np.abs(x) + 1e-3
    elif name == "acosh":
        x = np.abs(x) + 1
    elif name in ("sin", "cos", "tan"):
        x = 10 * x
    return [a.astype(kind) for a in ((x, y) if name in TWO else (x,))]


def measure(name: str, kind: str) -> dict[str, float]:
    """Return the least nanoseconds an entry of each, interleaved."""
    machine = Machine()
    lanes = machine.width // int(kind[1])
    args = draw(np.random.default_rng(7), name, kind)
    out = np.empty_like(args[0])
    loop, _alive = make_loop(machine, kind, lanes, len(args))
    ours, _code = find_ours(machine, name, kind, lanes)
    addresses = [a.ctypes.data for a in (out, args[0], args[-1])]

    def call(address: int) -> Callable[[], None]:
        return lambda: loop(address, LENGTH, *addresses)

    known = getattr(np, NAMES.get(name, name), None) or getattr(special, name)
    peers = {"ours": call(ours), "numpy": lambda: known(*args, out=out)}
    theirs = find_libmvec(name, kind, lanes)
    if theirs is not None:
        peers["libmvec"] = call(theirs)
    plain = Machine()
    plain.has_fma = False
    separate, _more = find_ours(plain, name, kind, lanes)
    peers["ours without fma"] = call(separate)
    best = dict.fromkeys(peers, math.inf)
    order = list(peers)
    for _ in range(ROUNDS):
        random.shuffle(order)
        for peer in order:
            start = time.perf_counter()
            peers[peer]()
            best[peer] = min(best[peer], time.perf_counter() - start)
    return {peer: round(t / LENGTH * 1e9, 2) for peer, t in best.items()}


def run(keep: bool) -> None:
    """Measure, print and keep."""
    columns = ("ours", "ours without fma", "libmvec", "numpy")
    print(TITLE)
    print(f"  goal: {GOAL}")
    print(f"  {'function':<12}" + "".join(f"{c:>18}" for c in columns))
    rows = []
    for kind in CONSTANTS:
        for name in FUNCTIONS:
            found = measure(name, kind)
            rows.append({"function": name, "kind": kind, **found})
            shown = "".join(f"{found.get(c, math.nan):>18.2f}" for c in columns)
            print(f"  {name + ' ' + kind:<12}{shown}", flush=True)
    if keep:
        harness.save(NAME, TITLE, {"goal": GOAL, "rows": rows})
