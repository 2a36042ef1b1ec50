"""Runs the tests and the benchmarks on a GPU from the bare source tree.

`python3 tests/gpu/run.py test` and `... bench`: nothing is installed, and no registry
is asked. `... sanitize` runs the tests of kernels under NVIDIA's compute-sanitizer,
where it is installed. `... wheels` collects, on another machine, what the one with the
GPU lacks, into `build/gpu-wheels`; it is found there if it lies beside this tree.
Results go to the folder that OUT names, or where they are kept. The tests are stopped
after as many seconds as GPU_TEST_SECONDS says, and report what was done.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
import zipfile
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WHEELS = ROOT / "build" / "gpu-wheels"
UNPACKED = ROOT / "build" / "gpu-packages"
#: What the machine with the GPU lacks, and for which Python the wheels are.
PACKAGES = ("optree>=0.16,<1", "opt-einsum>=3.4,<4", "mpmath>=1.3,<2")
PYTHON = "3.12"
PLATFORMS = ("manylinux_2_28_x86_64", "manylinux_2_27_x86_64", "manylinux2014_x86_64")
#: All wheels together have at most so many bytes.
MOST_BYTES = 64 * 2**20
#: The tests may take so many seconds, the benchmarks so many.
TEST_SECONDS, BENCH_SECONDS = int(os.environ.get("GPU_TEST_SECONDS", "240")), 170
#: Where CUDA's toolkit is unless it is told; the sanitizer's tools; the tests for them.
CUDA = "/usr/local/cuda"
TOOLS = ("memcheck", "racecheck")
SANITIZED = ("tests/gpu/test_launches.py", "-k", "test_programs")
#: What is stopped may take so many to end.
END_SECONDS = 30


def main(command: str) -> int:
    """Do what the command says; return the exit status."""
    if command == "wheels":
        return collect_wheels()
    environment = make_environment()
    if command == "test":
        return run_tests(environment)
    if command == "bench":
        return run([sys.executable, "-m", "tests.benchmarks.gpu"], environment,
                   BENCH_SECONDS)  # fmt: skip
    if command == "sanitize":
        return sanitize(environment)
    print("python3 tests/gpu/run.py test | bench | sanitize | wheels")
    return 2


def collect_wheels() -> int:
    """Download the wheels of what a machine with a GPU lacks."""
    WHEELS.mkdir(parents=True, exist_ok=True)
    command = [
        sys.executable, "-m", "pip", "download", "--quiet", "--only-binary", ":all:",
        "--no-deps", "--python-version", PYTHON, "--dest", str(WHEELS),
    ]  # fmt: skip
    for platform in PLATFORMS:
        command += ["--platform", platform]
    done = subprocess.run([*command, *PACKAGES])
    if done.returncode:
        return done.returncode
    sizes = {path.name: path.stat().st_size for path in sorted(WHEELS.glob("*.whl"))}
    for name, size in sizes.items():
        print(f"{size / 2**20:6.2f} MiB  {name}")
    total = sum(sizes.values())
    print(f"{total / 2**20:6.2f} MiB in {WHEELS}")
    return int(total > MOST_BYTES)


def make_environment() -> dict[str, str]:
    """Return the variables in which this tree and the wheels are found."""
    paths = [str(ROOT)]
    for wheel in sorted(WHEELS.glob("*.whl")):
        target = UNPACKED / wheel.name
        if not target.is_dir():
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(target)
        paths.append(str(target))
    paths += filter(None, [os.environ.get("PYTHONPATH", "")])
    threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    return {**os.environ, **threads, "PYTHONPATH": os.pathsep.join(paths)}


def run(command: list[str], environment: dict[str, str], seconds: int) -> int:
    """Run a command in this tree; after so many seconds it is told to end.

    It may still write what it knows until then, as pytest does.
    """
    # A process that ignores the signal, as one in the background of a shell, has
    # children that do.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with subprocess.Popen(command, cwd=ROOT, env=environment) as process:
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            print(f"stopped after {seconds} s", flush=True)
        process.send_signal(signal.SIGINT)
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
    return 124


def sanitize(environment: dict[str, str]) -> int:
    """Run the tests of kernels under each tool of the sanitizer; return a status."""
    toolkit = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH") or CUDA
    path = os.pathsep.join([os.environ.get("PATH", ""), f"{toolkit}/bin"])
    found = shutil.which("compute-sanitizer", path=path)
    if found is None:
        print("compute-sanitizer is not installed: it comes with the CUDA toolkit")
        return 1
    # A pool's memory is one piece to the tool: a read beyond an array would be in it.
    environment = {**environment, "GPU_TEST_WITHOUT_POOL": "1"}
    worst = 0
    for tool in TOOLS:
        command = [
            found, "--tool", tool, "--error-exitcode", "9", sys.executable, "-m",
            "pytest", *SANITIZED, "-q", "--tb=short", "-n0", "-p", "no:cacheprovider",
            "-p", "no:benchmark",
        ]  # fmt: skip
        status = run(command, environment, TEST_SECONDS)
        print(f"{tool}: {'no fault' if not status else f'status {status}'}", flush=True)
        worst = max(worst, status)
    return worst


def run_tests(environment: dict[str, str]) -> int:
    """Run tests/gpu on all cores; print how each file did, and keep JUnit's report."""
    folder = Path(os.environ.get("OUT") or ROOT / "build")
    folder.mkdir(parents=True, exist_ok=True)
    report = folder / "gpu-tests.xml"
    report.unlink(missing_ok=True)
    workers = max(1, min(14, len(os.sched_getaffinity(0)) - 2))
    command = [
        sys.executable, "-m", "pytest", "tests/gpu", "-q", "--tb=short", "-rN",
        "-p", "no:cacheprovider", "-p", "no:benchmark", "-n", str(workers),
        f"--junitxml={report}",
        "-o", "junit_family=xunit2", *sys.argv[2:],
    ]  # fmt: skip
    status = run(command, environment, TEST_SECONDS)
    if not report.exists():
        print("the tests have left no report")
        return status or 1
    count_results(report)
    return status


def count_results(report: Path) -> None:
    """Print for each file how many tests passed, failed and were skipped."""
    counts: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    failed = []
    for test in ElementTree.parse(report).iter("testcase"):
        name = test.get("classname", "")
        kinds = {child.tag for child in test}
        bad = kinds & {"failure", "error"}
        kind = "failed" if bad else "skipped" if "skipped" in kinds else "passed"
        counts[name][kind] += 1
        if bad:
            child = next(c for c in test if c.tag in bad)
            said = (child.get("message") or "").strip().splitlines()
            failed.append(f"{name}::{test.get('name')}: {said[0] if said else ''}")
    for line in failed:
        print(line[:200])
    kinds = ("passed", "failed", "skipped")
    print(f"{'':40}" + "".join(f"{kind:>9}" for kind in kinds))
    for name in sorted(counts):
        print(f"{name:40}" + "".join(f"{counts[name][kind]:9}" for kind in kinds))
    total = [sum(one[kind] for one in counts.values()) for kind in kinds]
    print(f"{'all':40}" + "".join(f"{n:9}" for n in total))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else ""))
