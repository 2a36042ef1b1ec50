"""How settings that hold lengths are written as code: ``np.reshape(x, x.shape)``.

A length that is known only when the program runs is read off an operand there (see
`core/deferred.py`), and so it is in the text.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from typing import Any

from workbench.autodiff.deferred import Hole, Listed, Mapped, Sliced
from workbench.backends.spelling import Code
from workbench.core.deferred import Place, shape_at
from workbench.core.dims import Dim, found, written
from workbench.core.refusals import name_of
from workbench.core.tensor import Tensor

__all__ = ["binding_of", "call_text", "coded", "single"]


#: The code of what lengths broadcast to.
_COMMON = re.compile(r"np\.broadcast_shapes\((?:\([^()]*\)(?:, )?)+\)\[0\]")


def coded(
    node: Tensor,
    shape: Callable[[Tensor], str],
    local: Callable[[str], str],
) -> dict[str, Any]:
    """The settings of a node with code for lengths.

    ``shape(x)`` is the code of the shape of an operand; ``local(code)`` the name of a
    local variable that holds what the code gives.
    """

    def name(place: Any) -> str:
        return f"{shape(node.inputs[place.position])}[{place.axis}]"

    def code(x: Any) -> Any:
        if isinstance(x, Dim):
            text = written(x, name, code=True)
            return Code(_COMMON.sub(lambda found: local(found[0]), text))
        if not isinstance(x, (tuple, list)) or not found(x):
            return x
        whole = None if hasattr(x, "_fields") else _whole(node, x)
        if whole is not None:
            return Code(shape(node.inputs[whole.position]))
        parts = [code(y) for y in x]
        return type(x)(*parts) if hasattr(x, "_fields") else type(x)(parts)

    return {k: code(v) for k, v in node.params.items()}


def call_text(
    params: dict[str, Any], operands: list[str], literal: Callable[[Any], str]
) -> str | None:
    """The code of a call of a function of NumPy: ``np.median(x, axis=0)``.

    None for another function.
    """
    if not _of_numpy(params["function"]):
        return None
    name = name_of(params["function"])

    def code(x: Any) -> str:
        if type(x) is Hole:
            return operands[x]
        if type(x) is Listed:
            return f"[{', '.join(map(code, x))}]"
        if type(x) is Sliced:
            return f"slice({', '.join(map(code, x))})"
        if type(x) is Mapped:
            return f"{{{', '.join(f'{k!r}: {code(v)}' for k, v in x)}}}"
        if type(x) is tuple:
            return f"({', '.join(map(code, x))}{',' * (len(x) == 1)})"
        return literal(x)

    given = [*map(code, params["args"])]
    given += [f"{k}={code(v)}" for k, v in params["settings"]]
    return f"{name}({', '.join(given)})"


def _of_numpy(function: Any) -> bool:
    home = getattr(function, "__module__", None) or ""
    return name_of(function).startswith("np.") and home.partition(".")[0] == "numpy"


def single(params: dict[str, Any]) -> bool:
    """Whether a call is written as one that returns its only result, and no list."""
    return bool(params.get("single")) and _of_numpy(params["function"])


def binding_of(code: str) -> int:
    """How tightly the code of a length binds: 20 for a name or a call."""
    tree = ast.parse(code, mode="eval").body
    if isinstance(tree, ast.BinOp):
        return 12 if isinstance(tree.op, (ast.Add, ast.Sub)) else 13
    return 14 if isinstance(tree, ast.UnaryOp) else 20


def _whole(node: Tensor, lengths: Any) -> Place | None:
    """A place of the operand whose shape these lengths are, if there is one."""
    places = [n.alone if isinstance(n, Dim) else n for n in lengths]
    first = next((p for p in places if isinstance(p, Place)), None)
    if first is None:
        return None
    have = shape_at(node.inputs[first.position])
    if len(have) != len(places):
        return None
    for axis, (p, n) in enumerate(zip(places, have, strict=True)):
        same = p == n if isinstance(p, int) and isinstance(n, int) else (
            isinstance(p, Place) and p == Place(first.position, axis)
        )  # fmt: skip
        if not same:
            return None
    return first
