"""`import workbench` is light: NumPy, nothing optional."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable

PROBE = """
import json, sys, time
before = set(sys.modules)
start = time.perf_counter()
{statement}
seconds = time.perf_counter() - start
loaded = {{name.partition(".")[0] for name in set(sys.modules) - before}}
foreign = [
    name for name in sorted(loaded - sys.stdlib_module_names)
    if not name.startswith(("_cython", "cython_runtime", "_sysconfigdata"))
]
print(json.dumps([seconds, foreign]))
"""


def loaded_by(statement: str) -> tuple[float, set[str]]:
    """Seconds and the packages beside Python's own that a fresh process loads."""
    answer = subprocess.run(
        [sys.executable, "-c", PROBE.format(statement=statement)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    seconds, names = json.loads(answer.stdout)
    return seconds, set(names)


def test_import_loads_only_numpy(measured: Callable[[str], None]) -> None:
    own, needed = loaded_by("import numpy")
    seconds, names = loaded_by("import workbench")
    measured(f"import numpy: {own:.3f} s, {', '.join(sorted(needed))}")
    measured(f"import workbench: {seconds:.3f} s, {', '.join(sorted(names))}")
    assert "workbench" in names
    assert names - needed - {"workbench"} == set()


def test_the_probe_sees_what_is_loaded() -> None:
    assert "scipy" in loaded_by("import scipy.linalg")[1]


def test_the_parts_of_scipy_load_when_first_used() -> None:
    code = (
        "import sys, workbench as wb\n"
        "assert 'workbench.scipy' not in sys.modules\n"
        "wb.scipy.linalg.expm\n"
        "assert 'workbench.scipy.stats' not in sys.modules\n"
        "wb.scipy.stats.norm\n"
        "try: wb.scipy.nothing\n"
        "except AttributeError as error: print(error)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert ran.stdout.strip() == "module 'workbench.scipy' has no attribute 'nothing'"


def test_import_loads_nothing_for_errors_or_pictures_alone() -> None:
    """What words an error is loaded when there is one: milliseconds of each start."""
    slow = (
        "pathlib", "urllib.parse", "difflib", "fnmatch", "inspect", "opt_einsum",
        "workbench.core.drawing", "workbench.core.listing",
    )  # fmt: skip
    program = (
        "import sys, numpy; before = set(sys.modules); import workbench;"
        f" print(sorted(set({slow}) & (set(sys.modules) - before)))"
    )
    answer = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert answer.stdout.strip() == "[]"


def test_showing_a_session_loads_no_plotly() -> None:
    _, foreign = loaded_by("import workbench.jupyter.display")
    assert "plotly" not in foreign


def test_what_differentiates_expressions_loads_with_the_first_one() -> None:
    code = (
        "import sys, workbench as wb\n"
        "wb.grad(lambda x: x * x)(3.0)\n"
        "later = {'derivatives', 'expressions'}\n"
        "def loaded(): return {m.rpartition('.')[2] for m in sys.modules} & later\n"
        "assert not loaded(), loaded()\n"
        "x = wb.scalar('x'); wb.jacobian(x * x, x)\n"
        "assert loaded() == later\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_what_overrides_do_loads_with_the_first_one() -> None:
    code = (
        "import sys, workbench as wb\n"
        "f = lambda x: x * x\n"
        "wb.jacobian(f)(3.0), wb.hessian(f)(3.0), wb.grad(f)(3.0)\n"
        "names = 'override resolution rules rule_parser named'.split()\n"
        "later = {'workbench.overrides.' + name for name in names}\n"
        "def loaded(): return later.intersection(sys.modules)\n"
        "assert not loaded(), loaded()\n"
        "with wb.overrides(wb.override('multiply', '0 * d')):\n"
        "    assert wb.grad(f)(3.0) == 0\n"
        "assert loaded() == later\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
