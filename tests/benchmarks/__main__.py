"""Benchmarks: ``python -m tests.benchmarks [case ...] [--no-save]``.

Without cases, all of them. Peers that are not installed are left out; put them on
the path of Python to have them measured. Each case runs in a process of its own,
on one core; a case bound by matrix products runs a second time with OpenBLAS's
AVX-512 kernels where the processor has them, which NumPy's wheel does not choose.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

CASES = (
    "eager_chain",
    "small_call",
    "number_call",
    "startup",
    "dense_jacobian",
    "dense_hessian",
    "recurrent",
    "small_loop",
    "function_call",
    "breadth",
    "overrides",
    "checks",
    "doctor",
    "live_cell",
    "simplify",
)


def has_avx512() -> bool:
    """Whether OpenBLAS has faster kernels than those it chooses."""
    try:
        return "avx512f" in Path("/proc/cpuinfo").read_text()
    except OSError:
        return False


def run(name: str, keep: bool) -> None:
    """Measure one case in this process."""
    from importlib import import_module

    from tests.benchmarks import harness

    harness.pin()
    module = import_module(f"tests.benchmarks.{name}")
    if hasattr(module, "run"):
        module.run(keep)
    else:
        harness.report(module.CASE, harness.measure(module.CASE), keep)


def main() -> int:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks")
    parser.add_argument("cases", nargs="*", help=f"of {', '.join(CASES)}")
    parser.add_argument("--no-save", action="store_true", help="print only")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--probe", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    # Before NumPy is imported, which reads it once.
    os.environ.update(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1")
    if options.probe:
        from importlib import import_module

        from tests.benchmarks import harness

        harness.pin()
        case, peer = options.probe
        harness.probe(import_module(f"tests.benchmarks.{case}").CASE, peer)
        return 0
    if options.one:
        run(options.one, not options.no_save)
        return 0
    unknown = set(options.cases) - set(CASES)
    if unknown:
        parser.error(f"no such case: {', '.join(unknown)}; of {', '.join(CASES)}")
    code = 0
    for name in options.cases or CASES:
        kernels = [None]
        if name.startswith("dense") and has_avx512():
            kernels.append("SkylakeX")
        for kernel in kernels:
            command = [sys.executable, "-m", "tests.benchmarks", "--one", name]
            command += ["--no-save"] * options.no_save
            environment = dict(os.environ)
            environment.pop("OPENBLAS_CORETYPE", None)
            if kernel is not None:
                environment["OPENBLAS_CORETYPE"] = kernel
            code |= subprocess.run(command, env=environment).returncode
            print()
    return code


if __name__ == "__main__":
    sys.exit(main())
