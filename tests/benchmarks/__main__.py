"""Benchmarks: ``python -m tests.benchmarks [case ...] [--no-save] [--no-probes]``.

Without cases, all of them. Peers that are not installed are left out; `make bench`
installs them into an environment of its own. Each case runs in a process of its own,
on one core; a case bound by matrix products runs a second time with OpenBLAS's
AVX-512 kernels where the processor has them, which NumPy's wheel does not choose.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

#: The modules of cases that have peers, in the order in which they run.
CASES = (
    "eager_chain",
    "filling",
    "small_call",
    "elementwise",
    "gmm",
    "rosenbrock",
    "dense_jacobian",
    "dense_hessian",
    "burgers",
    "blocks",
    "recurrent",
    "small_loops",
    "descent",
    "mlp",
)
#: Those that measure in a way of their own.
STUDIES = (
    "startup",
    "first_call",
    "vector_math",
    "simplify",
    "breadth",
    "overrides",
    "checks",
    "doctor",
    "live_cell",
    "sparse",
    "optimise",
    "distributed",
)
MODULES = CASES + STUDIES


def has_avx512() -> bool:
    """Return whether OpenBLAS has faster kernels than those it chooses."""
    try:
        return "avx512f" in Path("/proc/cpuinfo").read_text()
    except OSError:
        return False


def list_cases(modules: Iterable[str] = CASES) -> Iterator[Any]:
    """Return the cases of modules."""
    for module in modules:
        yield from import_module(f"tests.benchmarks.{module}").CASES


def list_parts(module: str) -> list[str]:
    """Return the parts of a study that run in processes of their own."""
    return list(getattr(import_module(f"tests.benchmarks.{module}"), "PARTS", ()))


def run(module: str, options: argparse.Namespace) -> bool:
    """Measure the cases of a module in this process; return whether answers agree."""
    from tests.benchmarks import harness

    harness.pin()
    loaded = import_module(f"tests.benchmarks.{module}")
    keep, probes = not options.no_save, not options.no_probes
    names = None if options.peers is None else options.peers.split(",")
    if module in STUDIES:
        if options.case:
            loaded.run(options.case, keep, names)
        else:
            loaded.run(keep)
        return True
    cases = [c for c in loaded.CASES if options.case in (None, c.name)]
    agree = [harness.run(case, keep, probes, names) for case in cases]
    return all(agree)


def find_processes(names: list[str]) -> list[tuple[str, str | None, bool]]:
    """Return the processes to run: module, case, and whether products bound it."""
    made: list[tuple[str, str | None, bool]] = []
    for module in MODULES:
        if module in STUDIES:
            parts = list_parts(module)
            if not names or module in names:
                made += [(module, part, False) for part in parts or [None]]
            else:
                chosen = [
                    p for p in parts if any(f"{p}.".startswith(f"{n}.") for n in names)
                ]
                made += [(module, part, False) for part in chosen]
            continue
        made += [
            (module, case.name, case.products)
            for case in list_cases([module])
            if not names or module in names or case.name in names
        ]
    return made


def main() -> int:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks")
    parser.add_argument("cases", nargs="*", help=f"of {', '.join(MODULES)}")
    parser.add_argument("--no-save", action="store_true", help="print only")
    parser.add_argument(
        "--no-probes", action="store_true", help="no first calls and no memory"
    )
    parser.add_argument("--peers", help="only these, with commas: torch,jax")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--case", help=argparse.SUPPRESS)
    parser.add_argument("--probe", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    # Before NumPy is imported, which reads it once.
    os.environ.update(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1")
    if options.probe:
        from tests.benchmarks import harness

        harness.pin()
        name, peer = options.probe
        (case,) = [case for case in list_cases() if case.name == name]
        harness.probe(case, peer)
        return 0
    if options.one:
        return 0 if run(options.one, options) else 1
    known = {*MODULES, *(case.name for case in list_cases())}
    for part in (part for module in STUDIES for part in list_parts(module)):
        known |= {part, part.rpartition(".")[0]}
    unknown = set(options.cases) - known
    if unknown:
        parser.error(f"no such case: {', '.join(unknown)}; of {', '.join(MODULES)}")
    code = 0
    for module, case, products in find_processes(options.cases):
        kernels = [None]
        if products and has_avx512():
            kernels.append("SkylakeX")
        for kernel in kernels:
            command = [sys.executable, "-m", "tests.benchmarks", "--one", module]
            command += ["--no-save"] * options.no_save
            command += ["--no-probes"] * options.no_probes
            command += ["--case", case] if case else []
            command += ["--peers", options.peers] if options.peers else []
            environment = dict(os.environ)
            environment.pop("OPENBLAS_CORETYPE", None)
            if kernel is not None:
                environment["OPENBLAS_CORETYPE"] = kernel
            code |= subprocess.run(command, env=environment).returncode
            print()
    return code


if __name__ == "__main__":
    sys.exit(main())
