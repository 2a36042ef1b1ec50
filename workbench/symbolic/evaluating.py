"""`expression.eval`: a function made once per expression, and called."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workbench.autodiff.derivatives import programs
from workbench.core import blame, hooks, walk
from workbench.core.shared import Shared
from workbench.core.tensor import Tensor
from workbench.errors import UsageError
from workbench.symbolic.arguments import called
from workbench.symbolic.function import Function, function
from workbench.symbolic.preparing import is_leaf, missing_symbols

__all__ = ["evaluate"]


def evaluate(y: Tensor, values: Any, named: Mapping[str, Any]) -> Any:
    """See `Tensor.eval`."""
    if y._value is not None:
        return y.value
    if isinstance(y, Shared):
        return y.get_value()
    if values is not None and not isinstance(values, Mapping):
        raise UsageError(
            "expression.eval takes a mapping from symbols to values, not"
            f" {type(values).__name__}: y.eval({{x: 1.0}}), or y.eval(x=1.0)."
        )
    run: Function | None = getattr(y, "compiled", None)
    if run is None:
        symbols = [
            x for x in walk.order([y]) if is_leaf(x) and not isinstance(x, Shared)
        ]
        run = y.compiled = function(symbols, y, name="eval")
    symbols = run._signature.symbols
    places = {x.serial: i for i, x in enumerate(symbols)}
    names: dict[str, list[int]] = {}
    for i, x in enumerate(symbols):
        if x.name is not None:
            names.setdefault(x.name, []).append(i)
    given: dict[int, Any] = {}
    others: set[Any] | None = None
    for key, value in [*(values or {}).items(), *named.items()]:
        if isinstance(key, Tensor):
            found = [places[key.serial]] if key.serial in places else []
        else:
            found = names.get(key, [])
        if not found:
            others = _others(y) if others is None else others
            if key in others:
                continue
        if len(found) != 1:
            shown = called(key) if isinstance(key, Tensor) else repr(key)
            why = "is no symbol of it" if not found else "names several of its symbols"
            listed = ", ".join(map(called, symbols)) or "none"
            raise UsageError(
                f"eval of {blame.describe(y)}{blame.at(y.site)}: {shown} {why}."
                f" Its symbols are {listed}."
            )
        given[found[0]] = value
    missing = [x for i, x in enumerate(symbols) if i not in given]
    if missing:
        cure = ", ".join(f"{x.name or 'x'}: ..." for x in missing[:5])
        raise missing_symbols(
            missing,
            f"eval of {blame.describe(y)}{blame.at(y.site)}",
            f"Give a value: .eval({{{cure}}})",
        )
    return run(*(given[i] for i in range(len(symbols))))


def _others(y: Tensor) -> set[Any]:
    """The symbols, and their names, of what a gradient is one of.

    It may need none of them (see `programs`).
    """
    symbols = [x for x in programs(walk.order([y])) if is_leaf(x)]
    return {*symbols, *(x.name for x in symbols if x.name is not None)}


hooks.evaluate.set(evaluate)
