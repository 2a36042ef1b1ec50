"""The house stands: imports go down, never in a circle, and rules stay plain.

The floors are those of the design: a module imports from its own floor or from
lower ones, wherever in the file the import stands. What is imported for types
alone closes no circle, since it never runs.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FLOORS = {
    "errors": 0,
    "core": 1,
    "ops": 2,
    "random": 3,
    "rewrite": 3,
    "autodiff": 4,
    "backends": 4,
    "overrides": 4,
    "custom": 5,
    "patterns": 5,
    "rules": 5,
    "control_flow": 5,
    "symbolic": 5,
    "gradient": 5,
    "checks": 5,
    "session": 6,
    "jupyter": 7,
    "numpy": 7,
    "scipy": 7,
    "compat": 7,
}
TOP = 8  # workbench/__init__.py
HOST_ARRAY = "# host array:"
MAKERS = {
    "arange",
    "array",
    "asarray",
    "empty",
    "eye",
    "full",
    "identity",
    "linspace",
    "ones",
    "tri",
    "zeros",
}


def module_name(file: Path, root: Path) -> str:
    parts = file.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def modules(root: Path = ROOT) -> dict[str, Path]:
    files = sorted((root / "workbench").rglob("*.py"))
    return {module_name(file, root): file for file in files}


def floor(module: str) -> int:
    parts = module.split(".")
    return FLOORS[parts[1]] if len(parts) > 1 else TOP


def is_type_checking(statement: ast.AST) -> bool:
    return (
        isinstance(statement, ast.If)
        and isinstance(statement.test, ast.Name)
        and statement.test.id == "TYPE_CHECKING"
    )


def imports(module: str, known: dict[str, Path]) -> Iterator[tuple[str, int, bool]]:
    """The modules of workbench that `module` imports, where, and if they run."""
    file = known[module]
    package = module if file.name == "__init__.py" else module.rpartition(".")[0]
    tree = ast.parse(file.read_text())
    for_types = {
        inner
        for statement in filter(is_type_checking, ast.walk(tree))
        for inner in ast.walk(statement)
    }
    for statement in ast.walk(tree):
        if isinstance(statement, ast.Import):
            names = [alias.name for alias in statement.names]
        elif isinstance(statement, ast.ImportFrom):
            base = statement.module or ""
            if statement.level:
                above = package.split(".")
                above = above[: len(above) - statement.level + 1]
                base = ".".join([*above, base]).rstrip(".")
            inside = [f"{base}.{alias.name}" for alias in statement.names]
            names = [name if name in known else base for name in inside]
        else:
            continue
        for name in names:
            if name == "workbench" or name.startswith("workbench."):
                while name not in known:
                    name = name.rpartition(".")[0]
                yield name, statement.lineno, statement not in for_types


def faults(known: dict[str, Path]) -> list[str]:
    """Every import that goes up, takes from the top, or closes a circle."""
    found = []
    arrows: dict[str, set[str]] = {}
    for module in known:
        arrows[module] = set()
        for target, line, runs in imports(module, known):
            if runs:
                arrows[module].add(target)
            if target == "workbench":
                found.append(f"{module}:{line} imports from workbench/__init__")
            elif floor(target) > floor(module):
                found.append(
                    f"{module}:{line} (floor {floor(module)}) imports {target} "
                    f"(floor {floor(target)})"
                )
        arrows[module].discard(module)
    try:
        TopologicalSorter(arrows).prepare()
    except CycleError as error:
        found.append(f"circle: {' -> '.join(reversed(error.args[1]))}")
    return found


def bare_makers(source: str) -> list[int]:
    """Lines that make an array which no input leads to the right library."""
    lines = source.splitlines()
    found = []
    for call in ast.walk(ast.parse(source)):
        if (
            isinstance(call, ast.Call)
            and isinstance(call.func, ast.Attribute)
            and isinstance(call.func.value, ast.Name)
            and call.func.value.id in ("np", "numpy")
            and call.func.attr in MAKERS
            and not any(keyword.arg == "like" for keyword in call.keywords)
        ):
            own = lines[call.lineno - 1 : call.end_lineno]
            if not any(HOST_ARRAY in line for line in own):
                found.append(call.lineno)
    return found


def narrow_calls(source: str) -> list[int]:
    """The lines that call NumPy with what CuPy's functions do not know.

    ``ones``, ``full`` and ``eye`` with ``like=`` hand ``device=`` on, and reductions
    have neither ``initial=`` nor ``where=``. A line may say that it is about a Tensor,
    whose op knows them, or about NumPy's own arrays.
    """
    lines, found = source.splitlines(), []
    for call in ast.walk(ast.parse(source)):
        if not (
            isinstance(call, ast.Call)
            and isinstance(call.func, ast.Attribute)
            and isinstance(call.func.value, ast.Name)
            and call.func.value.id == "np"
        ):
            continue
        known = {"like"} if call.func.attr in ("ones", "full", "eye") else set()
        if call.func.attr in REDUCTIONS:
            known = {"initial", "where"}
        if known & {keyword.arg for keyword in call.keywords}:
            own = lines[call.lineno - 1 : call.end_lineno]
            if not any(told in line for line in own for told in (HOST_ARRAY, A_TENSOR)):
                found.append(call.lineno)
    return found


#: What runs on the arrays of users, wherever these are.
ANYWHERE = tuple(
    f"workbench.{name}"
    for name in ("ops autodiff overrides control_flow scipy gradient custom").split()
)
A_TENSOR = "# a Tensor:"
REDUCTIONS = {"sum", "prod", "max", "min", "amax", "amin", "mean", "any", "all", "std",
              "var", "nansum", "nanmax", "nanmin", "nanmean"}  # fmt: skip


def test_nothing_is_asked_of_cupy_that_it_does_not_know() -> None:
    found = [
        f"{file.relative_to(ROOT)}:{line}"
        for name, file in modules().items()
        if name.startswith(ANYWHERE)
        for line in narrow_calls(file.read_text())
    ]
    assert found == [], (
        "write np.identity(n, like=x), np.ones_like(x, shape=...), `peak` of"
        " ops/linalg/shared.py, np.where inside the sum; where no array of CuPy can be,"
        f" end the line with `{A_TENSOR} reason` or `{HOST_ARRAY} reason`"
    )


def test_narrow_calls_are_found() -> None:
    source = """
np.eye(3, like=x)
np.identity(3, like=x)
np.max(x, initial=0)
np.sum(x, where=c)  # a Tensor: its own op
np.max(
    x, where=c
)
"""
    assert narrow_calls(source) == [2, 4, 6]


def test_every_module_has_a_floor() -> None:
    tops = {name.split(".")[1] for name in modules() if "." in name}
    assert tops <= set(FLOORS)


def test_imports_go_down_and_never_in_a_circle() -> None:
    assert faults(modules()) == []


def test_rules_make_arrays_like_their_inputs() -> None:
    found = [
        f"{file.relative_to(ROOT)}:{line}"
        for name, file in modules().items()
        if name.startswith(
            ("workbench.ops", "workbench.autodiff", "workbench.overrides")
        )
        for line in bare_makers(file.read_text())
    ]
    assert found == [], (
        "write `like=x` or np.zeros_like(x), so that symbols and CuPy arrays pass; "
        f"where the array must be NumPy's, end the line with `{HOST_ARRAY} reason`"
    )


@pytest.mark.parametrize(
    ("files", "fault"),
    [
        ({"core/a.py": "def f():\n    from ..session import x"}, "floor 6"),
        ({"ops/a.py": "from workbench import grad"}, "__init__"),
        (
            {
                "ops/a.py": "import workbench.ops.b",
                "ops/b.py": "from . import a",
            },
            "circle",
        ),
    ],
)
def test_a_fault_is_found(tmp_path: Path, files: dict[str, str], fault: str) -> None:
    files = {"__init__.py": "", "session.py": "", **files}
    for name, text in files.items():
        file = tmp_path / "workbench" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    (found,) = faults(modules(tmp_path))
    assert fault in found


def test_bare_makers_are_found() -> None:
    source = """
np.zeros(3)
np.zeros(3, like=x)
np.ones_like(x)
np.arange(3)  # host array: an axis, not a value
np.full(
    3, 1.0
)
"""
    assert bare_makers(source) == [2, 6]
