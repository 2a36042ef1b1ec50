"""What is known of ops stands in their rows: who knows them by name, and how often.

Counted are lines outside of `ops/` and the faces of other libraries that hold the name
of an op where it tells ops apart: compared with the ``name`` of something, or in a set,
a list, a tuple or a dict; and lines that put Op objects into one of these. A new line
here is a table that the next op is missing from: ask a trait (`core/traits.py`), follow
the body of the op, or put the fact into its row.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

from workbench.core.op import Op

ROOT = Path(__file__).resolve().parents[2]
#: Rooms of rows and rules, and faces that answer names of NumPy, SciPy, Theano, ONNX,
#: PyTorch and JAX.
FACES = (
    "workbench/ops/", "workbench/numpy/", "workbench/scipy/", "workbench/random/",
    "workbench/compat/", "workbench/jupyter/", "workbench/__init__.py",
    "workbench/rules.py", "workbench/patterns.py", "workbench/gradient/__init__.py",
    "workbench/models/onnx_rules", "workbench/models/torch_rules",
    "workbench/models/jax_rules",
)  # fmt: skip
#: Names of ops that are mostly something else: modes, settings, parts of arrays.
WORDS = frozenset(
    """
    all and any astype batch call cond copy divide fft i1 index item jacobian jvp
    least_squares length log mask max mean min norm or power real root round scan
    shape sign size solve sort split std sum take vjp where y0 y1
    """.split()
)
#: Modules that declare ops and are not among those of `load_all_ops`.
LATE = """
autodiff.checkpoint autodiff.implicit control_flow.cond control_flow.scan ops.filters
scipy.linalg scipy.signal
""".split()
COLLECTIONS = (ast.Set, ast.Tuple, ast.List, ast.Dict)
#: Files that may, how many of their lines do, and why.
KNOWN: dict[str, tuple[int, str]] = {
    "workbench/autodiff/sparse/propagation.py": (1, "arrays like another's shape"),
    "workbench/backends/compiled/coefficients.py": (16, "series of functions"),
    "workbench/backends/compiled/complex_functions.py": (1, "code of primitives"),
    "workbench/backends/compiled/entries.py": (30, "code of primitives"),
    "workbench/backends/compiled/functions.py": (4, "code of primitives"),
    "workbench/backends/compiled/systems.py": (1, "what LAPACK calls them"),
    "workbench/backends/compiled/ufuncs.py": (1, "a field of NumPy's ufuncs"),
    "workbench/backends/cupy/builder.py": (3, "what CUDA calls LLVM's operators"),
    "workbench/control_flow/hoisting.py": (1, "products worth a stack of factors"),
    "workbench/control_flow/lowering.py": (2, "parts of a text"),
    "workbench/core/blame.py": (1, "an input is called one"),
    "workbench/core/operators.py": (20, "what NumPy calls Python's operators"),
    "workbench/core/sites.py": (2, "the same, by their signs"),
    "workbench/overrides/allowed_ops.py": (1, "its text is a setting of a rule"),
    "workbench/overrides/shipped/fisher.py": (1, "which side the weight is on"),
    "workbench/overrides/shipped/safe.py": (8, "for which ops each rule is written"),
}


@cache
def names() -> frozenset[str]:
    """The names of all ops, whatever other tests have loaded and made."""
    code = f"""
from importlib import import_module
from workbench.core.op import OPS, load_all_ops
load_all_ops()
for room in {LATE!r}:
    import_module("workbench." + room)
print(*OPS)
"""
    made = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return frozenset(made.stdout.split())


def knows(text: str, least: frozenset[str] | set[str]) -> bool:
    """Whether a text is names of ops alone, one of them no common word."""
    words = text.split()
    return bool(words) and all(w in names() for w in words) and bool(set(words) - least)


def is_op_name(x: ast.AST) -> bool:
    """Whether an expression is the name of an op: ``node.op.name``."""
    if not isinstance(x, ast.Attribute) or x.attr != "name":
        return False
    owner = x.value
    return "op" in (getattr(owner, "attr", ""), getattr(owner, "id", ""))


def strings(node: ast.AST) -> Iterator[ast.Constant]:
    for x in ast.iter_child_nodes(node):
        if isinstance(x, ast.Constant) and isinstance(x.value, str):
            yield x


def find_lines(tree: ast.AST, ops: frozenset[str] = frozenset()) -> set[int]:
    """The lines of a file that know ops by name, or hold a collection of ``ops``."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            parts = [node.left, *node.comparators]
            if any(map(is_op_name, parts)):
                flat = [y for x in parts for y in (x, *ast.iter_child_nodes(x))]
                found |= {
                    x.lineno
                    for x in flat
                    if isinstance(x, ast.Constant)
                    and isinstance(x.value, str)
                    and knows(x.value, set())
                }
        elif isinstance(node, COLLECTIONS):
            found |= {x.lineno for x in strings(node) if knows(x.value, WORDS)}
            held = [x for x in ast.iter_child_nodes(node) if is_op(x, ops)]
            found |= {x.lineno for x in held} if len(held) > 1 else set()
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr == "split":  # a list, written as a text
                value = node.func.value
                if isinstance(value, ast.Constant) and isinstance(value.value, str):
                    if len(value.value.split()) > 1 and knows(value.value, WORDS):
                        found.add(value.lineno)
    return found


def is_op(x: ast.AST, ops: frozenset[str]) -> bool:
    if isinstance(x, ast.Call) and isinstance(x.func, ast.Name):
        return x.func.id == "declare"
    return isinstance(x, ast.Name) and x.id in ops


def count_lines() -> Counter[str]:
    found: Counter[str] = Counter()
    for path in sorted((ROOT / "workbench").rglob("*.py")):
        file = path.relative_to(ROOT).as_posix()
        if file.startswith(FACES) or "rules.py" in file.split("/rewrite/")[-1]:
            continue
        module = file.removesuffix(".py").replace("/", ".")
        tree = ast.parse(path.read_text(encoding="utf-8"))
        if lines := find_lines(tree, list_ops(tree, module)):
            found[file] = len(lines)
    return found


def list_ops(tree: ast.AST, module: str) -> frozenset[str]:
    """The names in a file that are Op objects of `ops/`, by their capitals."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith(
            "workbench.ops"
        ):
            home = import_module(str(node.module))
            found |= {
                a.asname or a.name
                for a in node.names
                if isinstance(getattr(home, a.name, None), Op)
            }
    return frozenset(found)


def test_what_is_known_of_ops_stands_in_their_rows() -> None:
    found = count_lines()
    more = {f: n for f, n in found.items() if n > KNOWN.get(f, (0, ""))[0]}
    assert not more, "ask the rows of the ops (core/traits.py), not their names"
    less = {f: (n, found[f]) for f, (n, _) in KNOWN.items() if found[f] < n}
    assert not less, "fewer lines know ops by name: lower the numbers in KNOWN"


@pytest.mark.parametrize(
    ("code", "lines"),
    [
        ('x.op.name == "tanh"', {1}),
        ('x.op.name in ("add",\n "sum")', {1, 2}),
        ('TABLE = {"tanh": 1, "other": 2}', {1}),
        ('NAMES = "tanh exp".split()', {1}),
        ("KEPT = {TANH, EXP}", {1}),
        ("KEPT = (declare(a), declare(b))", {1}),
        ('f("tanh")', set()),
        ('mode in ("vjp", "jvp")', set()),
        ("op is TANH", set()),
        ("a.op.name == b.op.name", set()),
    ],
)
def test_a_line_that_knows_ops_by_name_is_found(code: str, lines: set[int]) -> None:
    assert find_lines(ast.parse(code), frozenset({"TANH", "EXP"})) == lines
