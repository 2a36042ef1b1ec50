"""`load_op_library`: ops of a C++ source that is written for TensorFlow.

The source is compiled behind `op_kernel.h`, the part of TensorFlow's interface that
such sources use, by the compiler and in the cache of `workbench.KernelOp`. Each op that
it registers becomes a `workbench.Op`, each gradient a `workbench.graph_rule`.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
from collections import namedtuple
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from workbench.core.blame import user_line
from workbench.core.op import CUSTOM
from workbench.core.tensor import Tensor
from workbench.custom.kernels import toolchain, units
from workbench.custom.kernels.native import FLAGS, STANDARDS
from workbench.custom.op import Op
from workbench.custom.registry import register_gradient
from workbench.errors import DtypeError, KernelError, UsageError
from workbench.overrides.graph_rule import graph_rule
from workbench.overrides.targets import snake

__all__ = ["find_core_op", "load_op_library", "make_rule"]

HEADER = Path(__file__).with_name("op_kernel.h")
#: What the header stands for.
INCLUDED = re.compile(r'#include\s*[<"](tensorflow|third_party|unsupported)/.*')
#: How the names of types in sources, and their numbers, are called by NumPy.
DTYPES = {
    "float": ("float32", 1), "double": ("float64", 2), "int32": ("int32", 3),
    "uint8": ("uint8", 4), "int16": ("int16", 5), "int8": ("int8", 6),
    "int64": ("int64", 9), "bool": ("bool", 10), "uint16": ("uint16", 17),
    "uint32": ("uint32", 22), "uint64": ("uint64", 23),
}  # fmt: skip
DTYPES["float32"], DTYPES["float64"] = DTYPES["float"], DTYPES["double"]
NUMBERS = {np.dtype(name): number for name, number in DTYPES.values()}
ATTR_TYPES: dict[str, type] = {
    "int": int, "float": float, "bool": bool, "string": str,
    "list(int)": tuple, "list(float)": tuple,
}  # fmt: skip
TIME_LIMIT = 120.0


class Library:
    """The compiled library of a source: what it registers, and how a kernel runs."""

    def __init__(self, source: Path) -> None:
        text = source.read_text(encoding="utf-8")
        self.name = source.stem
        whole = (
            f'#line 1 "{units.OURS}"\n{HEADER.read_text(encoding="utf-8")}\n'
            f'#line 1 "{units.SOURCE}"\n{INCLUDED.sub("", text)}\n'
        )
        found = toolchain.find_compiler("cpp")
        command = (*found, STANDARDS["cpp"], *FLAGS, "-fvisibility=hidden")

        def make_error(said: str) -> KernelError:
            lines, _ = toolchain.read_errors(
                said, text, lambda line: f"{source.name}:{line}"
            )
            return KernelError(
                f"load_op_library: {source.name} does not compile"
                f" ({os.path.basename(command[0])}):\n{lines}\nOf TensorFlow's headers"
                " it finds the classes of ops, kernels, tensors and gradients."
            )

        key = toolchain.cache_key(whole, command, toolchain.version(found))
        file = toolchain.build(key, whole, ".cpp", command, TIME_LIMIT, make_error)
        self._calls = calls = ctypes.CDLL(str(file))
        for name, kind in (
            ("describe", ctypes.c_char_p), ("run", ctypes.c_void_p),
            ("said", ctypes.c_char_p), ("data", ctypes.c_void_p),
            ("length", ctypes.c_int64),
        ):  # fmt: skip
            getattr(calls, f"workbench_{name}").restype = kind
        told = calls.workbench_describe().decode()
        if told.startswith("!"):
            raise KernelError(f"load_op_library: {source.name} has thrown: {told[1:]}")
        self.described: dict[str, Any] = json.loads(told)

    def run(
        self, op: str, settings: str, arrays: Sequence[Any], made: Sequence[Any]
    ) -> tuple[list[Any], str]:
        """Return the outputs of a kernel, of these dtypes; and what it said if none."""
        given = [np.ascontiguousarray(x).reshape(np.shape(x)) for x in arrays]
        lengths = [n for x in given for n in x.shape]
        calls, n, m = self._calls, len(given), len(made)
        run = ctypes.c_void_p(
            calls.workbench_run(
                op.encode(), settings.encode(), n,
                (ctypes.c_void_p * n)(*[x.ctypes.data for x in given]),
                (ctypes.c_int * n)(*[NUMBERS[x.dtype] for x in given]),
                (ctypes.c_int * n)(*[x.ndim for x in given]),
                (ctypes.c_int64 * len(lengths))(*lengths), m,
                (ctypes.c_int * m)(*[NUMBERS[dtype] for dtype in made]),
            )
        )  # fmt: skip
        try:
            said = calls.workbench_said(run).decode("utf-8", "replace")
            return (
                [] if said else [self._read(run, i, made[i]) for i in range(m)]
            ), said
        finally:
            calls.workbench_free(run)

    def _read(self, run: Any, i: int, dtype: np.dtype[Any]) -> Any:
        calls = self._calls
        shape = tuple(
            calls.workbench_length(run, i, axis)
            for axis in range(calls.workbench_rank(run, i))
        )
        out = np.empty(shape, dtype)
        if out.nbytes:
            ctypes.memmove(out.ctypes.data, calls.workbench_data(run, i), out.nbytes)
        return out


def load_op_library(library_filename: str | os.PathLike[str]) -> ModuleType:
    """Compile a C++ source of TensorFlow's form; return a module with its ops.

    Parameters
    ----------
    library_filename
        The file of the source. Of a program's ``"zero_out.so"`` the source beside it
        is taken, ``zero_out.cc`` or ``zero_out.cpp``.

    Returns
    -------
    A module: for the op ``ZeroOut`` the function ``zero_out(*inputs, **attrs)``. One
    output comes as itself, several as a named tuple. Gradients of the source
    (``REGISTER_OP_GRADIENT``) are registered.

    Raises
    ------
    KernelError
        If there is no compiler or source, or the source does not compile.
    """
    given = Path(library_filename)
    places = [given.with_suffix(end) for end in (".cc", ".cpp", ".cxx")]
    if given.suffix not in (".so", ".dylib", ".dll"):
        places = [given]
    source = next((place for place in places if place.is_file()), None)
    if source is None:
        raise KernelError(
            f"load_op_library({str(given)!r}): there is no C++ source"
            f" {' or '.join(place.name for place in places)}. A library that was built"
            " with TensorFlow needs TensorFlow; its source is compiled here."
        )
    library = Library(source)
    module = ModuleType(library.name, f"The ops of {source.name}.")
    for told in library.described["ops"]:
        setattr(module, snake(told["name"]), _make_op(library, told))
    for name, told in library.described["gradients"].items():
        if isinstance(told, str):
            raise KernelError(f"load_op_library: the gradient of {name} says: {told}")
        find_core_op(name)
        register_gradient(snake(name))(make_rule(f"{name}Grad", **told))
    return module


# Its ops


def _split(text: str) -> tuple[str, str]:
    name, _, kind = text.partition(":")
    return name.strip(), kind.strip()


def _read_default(text: str, kind: type) -> Any:
    if kind is bool:
        return text.lower() == "true"
    if kind is tuple:
        return tuple(json.loads(text))
    return kind(text.strip("'\""))


def _make_op(library: Library, told: dict[str, Any]) -> Callable[..., Any]:
    """Return the function of an op, and make its `Op`."""
    name = told["name"]
    inputs = [_split(text) for text in told["inputs"]]
    outputs = [_split(text) for text in told["outputs"]]
    allowed: dict[str, list[str]] = {}
    annotations: dict[str, type] = {}
    defaults: dict[str, Any] = {}
    for attr, declared in map(_split, told["attrs"]):
        kind, _, default = (part.strip() for part in declared.partition("="))
        if kind == "type" or kind.startswith("{"):
            allowed[attr] = [x.strip() for x in kind.strip("{}").split(",")]
            continue
        kind = kind.partition(">")[0].strip()  # a bound, "int >= 1"
        if kind not in ATTR_TYPES:
            raise KernelError(
                f"load_op_library: the attribute {attr} of {name} is declared as"
                f" {declared!r}. Workbench knows {', '.join(ATTR_TYPES)}, and types."
            )
        annotations[attr] = ATTR_TYPES[kind]
        if default:
            defaults[attr] = _read_default(default, ATTR_TYPES[kind])
    for arg, kind in (*inputs, *outputs):
        if kind not in DTYPES and kind not in allowed:
            raise KernelError(
                f"load_op_library: {arg} of {name} is declared as {kind!r}, which is"
                " neither a type nor one of its attributes."
            )

    def find_types(arrays: Sequence[Any]) -> dict[str, np.dtype[Any]]:
        found: dict[str, np.dtype[Any]] = {}
        for (arg, kind), x in zip(inputs, arrays, strict=True):
            own = np.dtype(x.dtype)
            if kind in DTYPES:
                wanted = [DTYPES[kind][0]]
            elif kind in found:
                wanted = [str(found[kind])]
            elif allowed[kind] == ["type"]:
                wanted = [name for name, _ in DTYPES.values()]
            else:
                wanted = [DTYPES[n][0] for n in allowed[kind] if n in DTYPES]
            if str(own) not in wanted:
                raise DtypeError(
                    f"{name}{user_line()}: {arg} is of dtype {own}, and the op takes"
                    f" {' or '.join(dict.fromkeys(wanted))}. Write"
                    f" {arg}.astype({wanted[0]!r})."
                )
            if kind in allowed:
                found[kind] = own
        return found

    def compute(self: Any, *arrays: Any) -> Any:
        if len(arrays) != len(inputs):
            raise UsageError(
                f"{name}{user_line()} takes {len(inputs)} inputs"
                f" ({', '.join(arg for arg, _ in inputs)}), not {len(arrays)}."
            )
        types = find_types(arrays)
        settings = {attr: getattr(self, attr) for attr in annotations}
        lines = [f"{attr}={_write(value)}" for attr, value in settings.items()]
        for attr, line in zip(settings, lines, strict=True):
            if "\n" in line or "\0" in line:  # what would end it
                raise UsageError(
                    f"{name}{user_line()}: the setting {attr} is"
                    f" {settings[attr]!r}, and one cannot hold a line break or a zero"
                    " byte. Give another text."
                )
        lines += [f"{letter}={NUMBERS[dtype]}" for letter, dtype in types.items()]
        made = [types.get(kind) or np.dtype(DTYPES[kind][0]) for _, kind in outputs]
        results, said = library.run(name, "\n".join(lines), arrays, made)
        if said:
            raise UsageError(f"{name}{user_line()}: {said}.")
        return results[0] if len(results) == 1 else tuple(results)

    body = {
        "__annotations__": annotations, "__module__": library.name, **defaults,
        "__doc__": f"The op {name} of {library.name}.", "compute": compute,
        "n_outputs": len(outputs),
    }  # fmt: skip
    ops: Any = type(name, (Op,), body)
    fields = [arg for arg, _ in outputs]
    several: Any = namedtuple(name, fields) if len(fields) > 1 else None

    settings = [f"{k}={defaults[k]!r}" if k in defaults else k for k in annotations]
    names = [arg for arg, _ in inputs]
    signature = ", ".join([*names, *["*"] * bool(settings), *settings])

    def call(*given: Any, name: str | None = None, **attrs: Any) -> Any:
        by_name = {arg: attrs.pop(arg) for arg in names[len(given) :] if arg in attrs}
        missing = [arg for arg in names[len(given) :] if arg not in by_name]
        if missing or len(given) > len(names):
            told = f"lacks {', '.join(missing)}" if missing else (
                f"takes {len(names)} inputs, not {len(given)}; settings go by name"
            )  # fmt: skip
            raise UsageError(
                f"{call.__name__}{user_line()} {told}. Write"
                f" {call.__name__}({signature})."
            )
        arrays = [
            x
            if isinstance(x, (Tensor, np.ndarray, np.generic)) or kind not in DTYPES
            else np.asarray(x, DTYPES[kind][0])
            for x, (_, kind) in zip((*given, *by_name.values()), inputs, strict=True)
        ]
        made = ops(**attrs)(*arrays)
        return made if several is None else several(*made)

    call.__name__ = call.__qualname__ = snake(name)
    call.__doc__ = f"Apply {name} to {', '.join(arg for arg, _ in inputs)}."
    call.op = ops  # type: ignore[attr-defined]
    return call


def _write(value: Any) -> str:
    if isinstance(value, (tuple, list)):
        return " ".join(map(str, value))
    return str(value)


# Its gradients


def make_rule(
    name: str,
    inputs: Sequence[str],
    returns: Sequence[str],
    types: Sequence[str],
    nodes: Sequence[Any],
) -> graph_rule:
    """Return the rule of a FunctionDefHelper's arguments: nodes of existing ops.

    Examples
    --------
    >>> from workbench.compat.tensorflow.op_library import make_rule
    >>> print(make_rule(
    ...     "SquareGrad", ["x: T", "dy: T"], ["dx: T"], ["T: {float, double}"],
    ...     [(["s"], "Multiply", ["x", 2.0], {}), (["dx"], "Multiply", ["s", "dy"])],
    ... ))
    dx of (x, dy):
      s = Multiply(x, 2.0)
      dx = Multiply(s, dy)
    """
    letters = {f"${_split(text)[0]}" for text in types}
    kept = []
    for outs, op, args, *rest in nodes:
        find_core_op(op)
        params = {
            k: v for k, v in (rest[0] if rest else {}).items() if v not in letters
        }
        kept.append((outs, op, args, params))
    made = graph_rule(
        inputs, [_split(text)[0] for text in returns], kept, types=types, name=name
    )
    made.__module__ = __name__  # the same name again is the same definition
    return made


def find_core_op(name: str) -> None:
    """Make an op of TensorFlow's own that a rule names, and that there is not yet."""
    if name in ("Relu", "ReluGrad") and snake(name) not in CUSTOM:
        _make_relu()


def _make_relu() -> None:
    class ReluGrad(Op):
        """The gradient of relu: ``dy`` where ``x`` is positive."""

        def compute(self, dy: Any, x: Any) -> Any:
            return np.where(x > 0, dy, np.zeros_like(dy))

        def vjp(self, node: Any, g: Any) -> Any:
            x = node.inputs[1]
            return [np.where(x > 0, g, np.zeros_like(g)), None]

    class Relu(Op):
        """The larger of ``x`` and 0; its gradient is registered."""

        def compute(self, x: Any) -> Any:
            return np.maximum(x, 0)

    KEPT.extend((Relu, ReluGrad))
    register_gradient("relu")(
        make_rule(
            "ReluGrad", ["x: T", "dy: T"], ["dx: T"], ["T: {float, double}"],
            [(["dx"], "ReluGrad", ["dy", "x"], {})],
        )
    )  # fmt: skip


#: Classes live as long as anybody holds them.
KEPT: list[Any] = []


def relu(features: Any, name: str | None = None) -> Any:
    """Return the larger of each entry and 0; an op whose gradient is registered."""
    find_core_op("Relu")
    maker: Any = CUSTOM["relu"].maker
    return maker()()(features)
