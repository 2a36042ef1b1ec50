"""The names users type: complete, sorted, explained, with an example that runs.

The examples themselves run as doctests (`--doctest-modules workbench`).
"""

import ast
import importlib
import inspect
import itertools
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import workbench as wb
from tests.chunks import parametrize_chunks
from workbench import gradient as toolbox

PACKAGE = Path(wb.__file__).parent


def test_all_is_sorted_and_complete() -> None:
    assert wb.__all__ == sorted(wb.__all__)
    for name in wb.__all__:
        assert getattr(wb, name) is not None
    public = {
        name
        for name, value in vars(wb).items()
        if not name.startswith("_") and not inspect.ismodule(value)
    }
    ours = {"load_ipython_extension"}  # IPython calls it, nobody types it
    assert public - {"annotations", "Any", "TYPE_CHECKING"} - ours <= set(wb.__all__)


@pytest.mark.parametrize("name", wb.__all__)
def test_every_public_name_explains_itself(name: str) -> None:
    value = getattr(wb, name)
    if inspect.ismodule(value):
        assert value.__doc__
        return
    text = inspect.getdoc(value)
    assert text, f"wb.{name} has no docstring"
    assert ">>>" in text, f"the docstring of wb.{name} has no example"


@pytest.mark.parametrize("name", toolbox.__all__)
def test_every_name_of_the_toolbox_explains_itself(name: str) -> None:
    text = inspect.getdoc(getattr(toolbox, name))
    assert text, f"workbench.gradient.{name} has no docstring"
    if not name.endswith("Error"):
        assert ">>>" in text, f"{name} has no example"


@pytest.mark.parametrize(
    ("module", "name"),
    [(m, name) for m in (wb.rules, wb.plots) for name in m.__all__],
)
def test_every_rule_and_plot_explains_itself(module: ModuleType, name: str) -> None:
    value = getattr(module, name)
    text = inspect.getdoc(value)
    assert text, f"{module.__name__}.{name} has no docstring"
    assert ">>>" in text, f"{name} has no example"
    for argument in inspect.signature(value).parameters:
        assert re.search(rf"\b{argument}\b", text), f"{name} says nothing of {argument}"


#: What other floors ask of a session, and nobody types.
PLUMBING = {"adopt", "compute_by", "get_result", "make_copy", "require_backward"}


@pytest.mark.parametrize(
    "name",
    [
        name
        for name in dir(wb.Session)
        if inspect.isfunction(inspect.getattr_static(wb.Session, name))
        and not name.startswith("_")
        and name not in PLUMBING
    ],
)
def test_every_method_of_a_session_explains_itself(name: str) -> None:
    text = inspect.getdoc(getattr(wb.Session, name))
    assert text, f"Session.{name} has no docstring"
    assert ">>>" in text, f"Session.{name} has no example"


def test_the_methods_of_a_session_stand_in_its_class() -> None:
    """Go-to-definition, `help` and the API page find them there."""
    for name, value in vars(wb.Session).items():
        if inspect.isfunction(value):
            assert inspect.unwrap(value).__qualname__ == f"Session.{name}"


def test_rules_and_plots_are_sorted() -> None:
    for module in (wb.rules, wb.plots):
        assert module.__all__ == sorted(module.__all__)


def test_the_toolbox_is_sorted() -> None:
    assert toolbox.__all__ == sorted(toolbox.__all__)


MODULES = sorted(
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
    for path in PACKAGE.rglob("*.py")
    if path.name != "__init__.py"
)


@parametrize_chunks("module", {name: (name,) for name in MODULES})
def test_every_module_lists_its_names(module: str) -> None:
    """`__all__` holds what exists, and every module says what it is."""
    loaded = importlib.import_module(module)
    assert loaded.__doc__, f"{module} does not say what lives there"
    listed = getattr(loaded, "__all__", None)
    if listed is not None:
        assert all(hasattr(loaded, name) for name in listed)


def test_the_tree_of_errors_is_the_one_drawn() -> None:
    """Every exception stands in the drawing at the top of `errors.py`."""
    from workbench import errors

    for name in errors.__all__:
        kind = getattr(errors, name)
        assert issubclass(kind, errors.WorkbenchError)
        assert name in (errors.__doc__ or "")


#: The faces whose names users type, and whose docstrings open with a verb.
FACES = [
    "workbench",
    "workbench.errors",
    "workbench.gradient",
    "workbench.numpy",
    "workbench.numpy.fft",
    "workbench.numpy.linalg",
    "workbench.patterns",
    "workbench.plots",
    "workbench.random",
    "workbench.rules",
    *(f"workbench.scipy.{name}" for name in wb.scipy.__all__),
    "workbench.scipy.sparse.linalg",
]

#: The sections of numpydoc that are used here, in its order.
SECTIONS = ["Parameters", "Attributes", "Returns", "Raises", "Notes", "Examples"]

#: First words that are no imperative; pydocstyle's D401 takes unknown words for verbs.
NO_VERBS = set(
    "A An As At For From How If In It No Of On Same See Several Some Such That The"
    " Their These This To What When Where Whether Which Who With".split()
)


@parametrize_chunks("module", {name: (name,) for name in MODULES})
def test_docstrings_open_with_a_verb(module: str) -> None:
    """The docstrings of private functions open with a verb too, not with a name."""
    path = PACKAGE.parent / Path(*module.split(".")).with_suffix(".py")
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            line = (ast.get_docstring(node) or "Return").splitlines()[0]
            marks = [ast.unparse(mark) for mark in node.decorator_list]
            if not any("property" in mark for mark in marks):
                assert re.match(r"[A-Z][a-z]+\b", line), f"{node.name}: {line}"
                assert line.split()[0] not in NO_VERBS - {"See"}, f"{node.name}: {line}"


def public_functions(face: str) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield the functions and methods of a face that are written here."""
    module = importlib.import_module(face)
    for name in module.__all__:
        value = getattr(module, name)
        members = {name: value}
        if inspect.isclass(value):
            keys = [key for key in dir(value) if not key.startswith("_")]
            members = {f"{name}.{key}": getattr(value, key) for key in keys}
        for key, member in members.items():
            home = getattr(member, "__module__", None) or ""
            # Loaded by another test, `compat` gives every Tensor Theano's methods.
            is_ours = re.match(r"workbench\b(?!\.compat)", home)
            if inspect.isroutine(member) and is_ours:
                yield f"{face}.{key}", member


@pytest.mark.parametrize("face", FACES)
def test_public_docstrings_open_with_a_verb(face: str) -> None:
    """First lines are imperative, and sections are numpydoc's, in its order."""
    for name, function in public_functions(face):
        lines = (inspect.getdoc(function) or "").splitlines() or [""]
        verb = lines[0].partition(" ")[0]
        assert re.fullmatch("[A-Z][a-z]*", verb), f"{name}: {lines[0]}"
        assert not re.search("[^s]s$|ed$|ing$", verb), f"{name}: {lines[0]}"
        assert verb not in NO_VERBS, f"{name}: {lines[0]}"
        titles = [
            title
            for title, rule in itertools.pairwise(lines)
            if title and rule == "-" * len(title)
        ]
        assert titles == [s for s in SECTIONS if s in titles], f"{name}: {titles}"
        # A literal that goes on in the next line is broken there: the first line of
        # a result is read as its type.
        if "Returns" in titles:
            result = itertools.takewhile(str.strip, lines[lines.index("Returns") :])
            for line in result:
                assert line.count("``") % 2 == 0, f"{name}: {line}"
