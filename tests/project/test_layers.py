"""The house stands: imports go down, never in a circle, and rules stay plain.

The floors are those of the design: a module imports from its own floor or from
lower ones, wherever in the file the import stands. What is imported for types
alone closes no circle, since it never runs. Calls to higher rooms go through the
hooks of `core/hooks.py` alone: each is set once, by no lower room than calls it.
"""

from __future__ import annotations

import ast
import functools
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from workbench.core import hooks
from workbench.core.op import FUNCTIONS, OPS, load_all_ops

ROOT = Path(__file__).resolve().parents[2]
#: The rooms from the lowest to the highest, each on a floor of its own; `patterns` and
#: `rules` are faces of `overrides`.
ROOMS = (
    "errors core ops random rewrite autodiff backends overrides patterns rules custom"
    " control_flow models symbolic checks gradient optimize session distributed scipy"
    " numpy compat jupyter plots"
).split()
FLOORS = {room: floor for floor, room in enumerate(ROOMS)}
TOP = len(ROOMS)  # workbench/__init__.py
HOOKS = "workbench.core.hooks"
HOST_ARRAY = "# host array:"
#: Modules that compute with indices alone, which lie in the memory of the host.
INDEX_MODULES = {
    "workbench.ops.entries",
    "workbench.ops.sparse.structure",
    *(
        f"workbench.autodiff.sparse.{name}"
        for name in (
            "accumulation assembly colouring curvature greedy node_facts"
            " nonlinearity pattern places products propagation relations rules"
            " solutions tangents"
        ).split()
    ),
}
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


@dataclass(frozen=True)
class Outline:
    """What a file says that a test here asks about: the tree itself is large."""

    #: The statements of imports, each with whether it runs.
    imports: list[tuple[ast.Import | ast.ImportFrom, bool]]
    #: The values of `NAME: Hook = Hook(...)` at its top.
    hooks: list[str]
    #: The attributes of the module of hooks, each with whether it is set.
    hooked: list[tuple[str, bool]]
    arrows: list[tuple[int, str]]
    bare_makers: list[int]
    narrow_calls: list[int]
    vague_shapes: list[int]


@functools.cache
def outline(source: str) -> Outline:
    """Read a file, once for all tests."""
    tree, lines = ast.parse(source), source.splitlines()
    nodes = [*ast.walk(tree)]
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    for_types = {
        inner
        for statement in filter(is_type_checking, nodes)
        for inner in ast.walk(statement)
    }
    return Outline(
        [
            (node, node not in for_types)
            for node in nodes
            if isinstance(node, ast.Import | ast.ImportFrom)
        ],
        list(declared_hooks(tree)),
        list(hooks_of(nodes)),
        list(arrows_of_strings(nodes)),
        list(bare_makers(calls, lines)),
        list(narrow_calls(calls, lines)),
        list(vague_shapes(calls, lines)),
    )


def imports(module: str, known: dict[str, Path]) -> Iterator[tuple[str, int, bool]]:
    """The modules of workbench that `module` imports, where, and if they run."""
    file = known[module]
    package = module if file.name == "__init__.py" else module.rpartition(".")[0]
    for statement, runs in outline(file.read_text()).imports:
        if isinstance(statement, ast.Import):
            names = [alias.name for alias in statement.names]
        else:
            base = statement.module or ""
            if statement.level:
                above = package.split(".")
                above = above[: len(above) - statement.level + 1]
                base = ".".join([*above, base]).rstrip(".")
            inside = [f"{base}.{alias.name}" for alias in statement.names]
            names = [name if name in known else base for name in inside]
        for name in names:
            if name == "workbench" or name.startswith("workbench."):
                while name not in known:
                    name = name.rpartition(".")[0]
                yield name, statement.lineno, runs


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


@dataclass
class Hooks:
    """The hooks that a tree declares, and the modules that set and call each."""

    declared: list[str] = field(default_factory=list)
    set_by: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    called_by: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))


def read_hooks(known: dict[str, Path]) -> Hooks:
    """Read who sets and who calls each hook, ``hooks.NAME.set`` and ``hooks.NAME``."""
    found = Hooks(outline(known[HOOKS].read_text()).hooks)
    for module, file in known.items():
        for name, is_set in outline(file.read_text()).hooked:
            if name in found.declared and is_set:
                found.set_by[name].append(module)
            elif name in found.declared:
                found.called_by[name].add(module)
    return found


def declared_hooks(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if (
            isinstance(node, ast.AnnAssign)
            and isinstance(node.target, ast.Name)
            and isinstance(node.value, ast.Call)
            and isinstance(node.value.func, ast.Name)
            and node.value.func.id == "Hook"
        ):
            yield node.target.id


def hooks_of(nodes: Sequence[ast.AST]) -> Iterator[tuple[str, bool]]:
    """Every attribute of the module of hooks, and whether it is set."""
    names = {
        alias.asname or alias.name
        for node in nodes
        if isinstance(node, ast.ImportFrom) and node.module == "workbench.core"
        for alias in node.names
        if alias.name == "hooks"
    }
    setters = set()
    for node in nodes:  # from the outside to the inside
        if isinstance(node, ast.Attribute) and node.attr == "set":
            setters.add(node.value)
        if (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id in names
        ):
            yield node.attr, node in setters


def hook_faults(known: dict[str, Path]) -> list[str]:
    """Every hook that is not set once, by no lower room than those that call it."""
    hooks, found = read_hooks(known), []
    for name in hooks.declared:
        setters, callers = hooks.set_by[name], hooks.called_by[name]
        if len(setters) != 1:
            found.append(f"hook {name} is set {len(setters)} times, by {setters}")
        if not callers:
            found.append(f"hook {name} is never called")
        found += [
            f"hook {name} is set by {setter}, below {caller} which calls it"
            for setter in setters
            for caller in sorted(callers)
            if floor(setter) < floor(caller)
        ]
    return found


def arrows_of_strings(nodes: Sequence[ast.AST]) -> Iterator[tuple[int, str]]:
    """Every look-up in FUNCTIONS by a string, and import of a module by its name."""
    for node in nodes:
        keys: list[ast.expr | None] = []
        if isinstance(node, ast.Subscript):
            name, keys = dotted(node.value), [node.slice]
        elif isinstance(node, ast.Call):
            name, keys = dotted(node.func), [*node.args]
            for given in node.args:
                keys += given.keys if isinstance(given, ast.Dict) else ()
            if name == "FUNCTIONS.update" and node.keywords:
                yield node.lineno, f"{name} by strings"
        else:
            continue
        texts = [
            key.value
            for key in keys
            if isinstance(key, ast.Constant) and isinstance(key.value, str)
        ]
        own = [text for text in texts if text.split(".")[0] == "workbench"]
        if (texts and name.split(".")[0] == "FUNCTIONS") or (
            own and name in ("import_module", "importlib.import_module", "sys.modules")
        ):
            yield node.lineno, f"{name} of {texts[0]!r}"


def dotted(node: ast.expr) -> str:
    """Return a name with dots as it is written, and nothing of what is none."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def bare_makers(calls: Sequence[ast.Call], lines: Sequence[str]) -> Iterator[int]:
    """Lines that make an array which no input leads to the right library."""
    for call in calls:
        if (
            isinstance(call.func, ast.Attribute)
            and isinstance(call.func.value, ast.Name)
            and call.func.value.id in ("np", "numpy")
            and call.func.attr in MAKERS
            and not any(keyword.arg == "like" for keyword in call.keywords)
        ):
            own = lines[call.lineno - 1 : call.end_lineno]
            if not any(HOST_ARRAY in line for line in own):
                yield call.lineno


def narrow_calls(calls: Sequence[ast.Call], lines: Sequence[str]) -> Iterator[int]:
    """The lines that call NumPy with what CuPy's functions do not know.

    ``ones``, ``full`` and ``eye`` with ``like=`` hand ``device=`` on, and reductions
    have neither ``initial=`` nor ``where=``. A line may say that it is about a Tensor,
    whose op knows them, or about NumPy's own arrays.
    """
    for call in calls:
        if not (
            isinstance(call.func, ast.Attribute)
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
                yield call.lineno


LIKES = {"zeros_like", "ones_like", "full_like", "empty_like"}
AN_AXIS = "# not ():"


def vague_shapes(calls: Sequence[ast.Call], lines: Sequence[str]) -> Iterator[int]:
    """The lines that ask for ``zeros_like`` of a shape that may be ().

    CuPy takes () for no shape given. A tuple that is written out with an entry has an
    axis; a line may say why another one has.
    """
    for call in calls:
        if not (isinstance(call.func, ast.Attribute) and call.func.attr in LIKES):
            continue
        for keyword in call.keywords:
            shape = keyword.value
            if keyword.arg != "shape" or (
                isinstance(shape, ast.Tuple)
                and any(not isinstance(one, ast.Starred) for one in shape.elts)
            ):
                continue
            if AN_AXIS not in "".join(lines[call.lineno - 1 : call.end_lineno]):
                yield call.lineno


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
        for line in outline(file.read_text()).narrow_calls
    ]
    assert found == [], (
        "write np.identity(n, like=x), np.ones_like(x, shape=...), `peak` of"
        " ops/linalg/shared.py, np.where inside the sum; where no array of CuPy can be,"
        f" end the line with `{A_TENSOR} reason` or `{HOST_ARRAY} reason`"
    )


def test_an_array_of_no_axes_is_made_as_cupy_makes_it() -> None:
    found = [
        f"{file.relative_to(ROOT)}:{line}"
        for file in modules().values()
        for line in outline(file.read_text()).vague_shapes
    ]
    assert found == [], (
        "CuPy takes shape=() for none given: write make_zeros(x, shape) of"
        f" ops/device.py, or end the line with `{AN_AXIS} reason`"
    )


def test_vague_shapes_are_found() -> None:
    source = """
np.zeros_like(x, shape=shape)
np.zeros_like(x, shape=(n, *rest))
np.zeros_like(
    x, shape=(*rest,)
)
np.empty_like(x)
np.full_like(x, 1, shape=shape)  # not (): it has an axis
"""
    assert outline(source).vague_shapes == [2, 4]


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
    assert outline(source).narrow_calls == [2, 4, 6]


def test_every_module_has_a_floor() -> None:
    tops = {name.split(".")[1] for name in modules() if "." in name}
    assert tops <= set(FLOORS)


def test_imports_go_down_and_never_in_a_circle() -> None:
    assert faults(modules()) == []


#: So many hooks there are. It may fall: what one room sets and one room calls is a row
#: of a table in `core/op.py`, an attribute of an op, or code in the wrong room.
HOOKS_AT_MOST = 18


def test_no_hook_is_added() -> None:
    declared = read_hooks(modules()).declared
    assert len(declared) <= HOOKS_AT_MOST, "let no room call a higher one"
    assert len(declared) == HOOKS_AT_MOST, "there are fewer: lower HOOKS_AT_MOST"


def test_hooks_are_set_once_and_from_above() -> None:
    assert hook_faults(modules()) == []


def test_no_arrow_is_a_string() -> None:
    found = [
        f"{name}:{line} {what}"
        for name, file in modules().items()
        for line, what in outline(file.read_text()).arrows
    ]
    assert found == []
    assert {type(key) for key in FUNCTIONS if not callable(key)} <= {tuple}


def test_what_a_hook_loads_sets_it() -> None:
    known = modules()
    setters = read_hooks(known).set_by
    for name, hook in vars(hooks).items():
        if isinstance(hook, hooks.Hook):
            assert hook.name == name
            assert hook.does.endswith(".")
            (setter,) = setters[name]
            assert hook.module is None or f"{setter}.".startswith(f"{hook.module}.")
    for module in hooks.OP_MODULES.values():
        assert floor(module) <= FLOORS["ops"]
        assert module in known


def test_a_hook_that_nobody_has_set_says_so() -> None:
    hook: hooks.Hook[[int], int] = hooks.Hook("double", "Return twice a number.")
    with pytest.raises(RuntimeError, match="nobody has set the hook 'double'"):
        hook(1)
    hook.set(lambda x: 2 * x)
    assert hook(1) == hook.call(1) == 2


def test_rules_make_arrays_like_their_inputs() -> None:
    found = [
        f"{file.relative_to(ROOT)}:{line}"
        for name, file in modules().items()
        if name.startswith(
            ("workbench.ops", "workbench.autodiff", "workbench.overrides")
        )
        and name not in INDEX_MODULES
        for line in outline(file.read_text()).bare_makers
    ]
    assert found == [], (
        "write `like=x` or np.zeros_like(x), so that symbols and CuPy arrays pass; "
        f"where the array must be NumPy's, end the line with `{HOST_ARRAY} reason`"
    )


@pytest.mark.parametrize(
    ("files", "fault"),
    [
        (
            {"core/a.py": "def f():\n    from ..session import x"},
            f"floor {FLOORS['session']}",
        ),
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


SET, CALL = "hooks.h.set(len)", "hooks.h(1)"


@pytest.mark.parametrize(
    ("files", "fault"),
    [
        ({"ops": CALL}, "is set 0 times"),
        ({"ops": f"{CALL}; {SET}", "autodiff": SET}, "is set 2 times"),
        ({"ops": SET}, "never called"),
        ({"ops": SET, "autodiff": CALL}, "below workbench.autodiff"),
        ({"ops": SET, "core": CALL}, None),
    ],
)
def test_a_wrong_hook_is_found(
    tmp_path: Path, files: dict[str, str], fault: str | None
) -> None:
    import_line = "from workbench.core import hooks"
    known = {HOOKS: tmp_path / "hooks.py"}
    known[HOOKS].write_text("h: Hook[[Any], Any] = Hook('h', 'Do it.')")
    for name, text in files.items():
        known[f"workbench.{name}"] = file = tmp_path / f"{name}.py"
        file.write_text(f"{import_line}\n{text}")
    found = hook_faults(known)
    assert [fault in line for line in found] == [True] if fault else found == []


def test_arrows_of_strings_are_found() -> None:
    source = """
FUNCTIONS["late"] = f
FUNCTIONS[np.sum] = f
FUNCTIONS.update(late=f)
FUNCTIONS.update({"late": f})
FUNCTIONS.get("late")
import_module("workbench.session")
import_module("scipy")
sys.modules["workbench"]
"""
    assert [line for line, _ in outline(source).arrows] == [2, 4, 5, 6, 7, 9]


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
    assert outline(source).bare_makers == [2, 6]


#: Where the machine code of primitives stands: the one table of each kind of machine.
PRIMITIVES = {
    f"workbench.backends.compiled.{name}"
    for name in ("entries", "functions", "complex_functions", "coefficients", "systems")
}


def list_op_tables(text: str) -> Iterator[int]:
    """The lines of literals that name three ops and more."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Dict, ast.Set, ast.Tuple, ast.List)):
            parts = node.keys if isinstance(node, ast.Dict) else node.elts
        elif isinstance(node, ast.Constant):
            parts = [node]
        else:
            continue
        words = [
            word
            for x in parts
            if isinstance(x, ast.Constant) and isinstance(x.value, str)
            for word in x.value.split()
        ]
        known = {*words} & {*OPS}
        if len(known) > 2 and len(known) > len(words) / 2:
            yield node.lineno


def test_backends_ask_the_rows_of_ops() -> None:
    load_all_ops()
    found = [
        f"{file.relative_to(ROOT)}:{line}"
        for name, file in modules().items()
        if name.startswith("workbench.backends") and name not in PRIMITIVES
        for line in list_op_tables(file.read_text())
    ]
    assert found == [], "write what you need to know of these ops into their rows"


@pytest.mark.parametrize(
    "text", ['X = {"sum": 1, "max": 2, "min": 3}', '("concatenate", "stack", "tile")',
             '"sin cos tan".split()'],
)  # fmt: skip
def test_tables_of_ops_are_found(text: str) -> None:
    load_all_ops()
    assert list(list_op_tables(text)) == [1]
    assert not [*list_op_tables('["sum", "of", "what", "max", "or", "min"]')]
