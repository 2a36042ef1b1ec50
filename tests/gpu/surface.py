"""What CuPy has of NumPy's and SciPy's names, as data: `surface.json`.

The stand-in for CuPy's arrays answers to these names, keywords and types alone, also
where CuPy is not installed. ``python -m tests.gpu.surface`` reads them off an
installed CuPy (no GPU is needed) and writes the file anew; a test tells where the
file is of another one.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import re
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Any

__all__ = ["SURFACE", "read_surface"]

PATH = Path(__file__).with_name("surface.json")

#: The modules of CuPy, each with the one whose names it takes.
MODULES = {
    "cupy": "numpy",
    "cupy.fft": "numpy.fft",
    "cupy.linalg": "numpy.linalg",
    "cupy.lib.stride_tricks": "numpy.lib.stride_tricks",
    "cupy.ndarray": "numpy.ndarray",
    "cupyx.scipy.fft": "scipy.fft",
    "cupyx.scipy.linalg": "scipy.linalg",
    "cupyx.scipy.ndimage": "scipy.ndimage",
    "cupyx.scipy.signal": "scipy.signal",
    "cupyx.scipy.sparse": "scipy.sparse",
    "cupyx.scipy.sparse.linalg": "scipy.sparse.linalg",
    "cupyx.scipy.special": "scipy.special",
}

#: ``{module: {name: parameters}}``; of a ufunc the types of its loops, after "->";
#: None where CuPy does not tell.
SURFACE: dict[str, Any] = json.loads(PATH.read_text()) if PATH.exists() else {}


def read_surface() -> dict[str, Any]:
    """Return the surface of the installed CuPy."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # there is no driver
        import cupy

        found: dict[str, Any] = {"version": cupy.__version__}
        for name, model in MODULES.items():
            found[name] = dict(sorted(_read_module(name, model).items()))
    return found


def _read_module(name: str, model: str) -> dict[str, str | None]:
    known = _find(model)
    try:
        module = _find(name)
    except ImportError:  # a library of CUDA is missing
        return {n: s for n, s in _parse_module(name).items() if hasattr(known, n)}
    return {
        n: _describe(getattr(module, n))
        for n in dir(module)
        if not n.startswith("_")
        and hasattr(known, n)
        and not inspect.ismodule(getattr(module, n))
        # CuPy steps back where a name of its is NumPy's own.
        and getattr(module, n) is not getattr(known, n)
    }


def _find(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        above, _, last = name.rpartition(".")
        return getattr(importlib.import_module(above), last)


def _describe(value: Any) -> str | None:
    if isinstance(types := getattr(value, "types", None), (list, tuple)):
        # E is bfloat16, which CuPy has only beside `ml_dtypes`, and NumPy never.
        return "-> " + " ".join(x for x in types if "E" not in x)
    try:
        found = inspect.signature(value)
    except ValueError:  # Cython writes it into the docstring
        return _parse_docstring(value)
    except TypeError:  # an attribute
        return None
    return _write(
        [(p.name, p.kind, p.default is p.empty) for p in found.parameters.values()]
    )


def _write(parameters: list[tuple[str, Any, bool]]) -> str:
    """Return parameters as code; what a default is, is left out."""
    words, keyword_only = [], False
    for i, (name, kind, needed) in enumerate(parameters):
        if kind is inspect.Parameter.VAR_POSITIONAL:
            words.append(f"*{name}")
            keyword_only = True
            continue
        if kind is inspect.Parameter.KEYWORD_ONLY and not keyword_only:
            words.append("*")
            keyword_only = True
        if kind is inspect.Parameter.VAR_KEYWORD:
            words.append(f"**{name}")
            continue
        words.append(name if needed else f"{name}=0")
        positional = inspect.Parameter.POSITIONAL_ONLY
        following = parameters[i + 1][1] if i + 1 < len(parameters) else None
        if kind is positional and following is not positional:
            words.append("/")
    return ", ".join(words)


def _parse_docstring(function: Any) -> str | None:
    line = (function.__doc__ or "").split(" -> ")[0].split("\n")[0]
    found = re.match(r"(?:\w+\.)?\w+\((.*)\)$", line)
    if found is None:
        return None
    text = re.sub(r"\b(?:Py_ssize_t|bint|_ndarray_base|str|int|bool) (?=\w)", "",
                  found[1])  # fmt: skip
    return _parse_parameters(text)


def _parse_parameters(text: str) -> str | None:
    try:
        tree = ast.parse(f"lambda {text}: 0", mode="eval").body
    except SyntaxError:
        return None
    assert isinstance(tree, ast.Lambda)
    return _write_tree(tree.args)


def _write_tree(args: ast.arguments) -> str:
    kinds = inspect.Parameter
    plain = [(a.arg, kinds.POSITIONAL_ONLY) for a in args.posonlyargs]
    plain += [(a.arg, kinds.POSITIONAL_OR_KEYWORD) for a in args.args]
    first = len(plain) - len(args.defaults)
    made = [(name, kind, i < first) for i, (name, kind) in enumerate(plain)]
    if args.vararg:
        made.append((args.vararg.arg, kinds.VAR_POSITIONAL, True))
    for a, default in zip(args.kwonlyargs, args.kw_defaults, strict=True):
        made.append((a.arg, kinds.KEYWORD_ONLY, default is None))
    if args.kwarg:
        made.append((args.kwarg.arg, kinds.VAR_KEYWORD, True))
    return _write(made)


def _parse_module(name: str) -> dict[str, str | None]:
    """Return what a module that cannot be imported here has, from its source."""
    made: dict[str, str | None] = {}
    for node in ast.walk(ast.parse(_source_of(name))):
        if not isinstance(node, ast.ImportFrom) or not node.module:
            continue
        text = _source_of(node.module)
        defined = {
            n.name: _write_tree(n.args)
            for n in ast.parse(text).body
            if isinstance(n, ast.FunctionDef)
        }
        for alias in node.names:
            if not alias.name.startswith("_"):
                made[alias.asname or alias.name] = defined.get(alias.name)
    return made


def _source_of(module: str) -> str:
    # Without an import of the package above, which its own `__init__` would run.
    first, *rest = module.split(".")
    found = find_spec(first)
    assert found is not None
    assert found.origin is not None
    path = Path(found.origin).parent.joinpath(*rest)
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return file.read_text() if file.exists() else ""


def format_surface(surface: dict[str, Any]) -> str:
    """Return the text of the file: one line for each module."""
    lines = [f"{json.dumps(k)}: {json.dumps(v)}" for k, v in surface.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    PATH.write_text(format_surface(read_surface()))
