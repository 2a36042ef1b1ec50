"""Whether a derivative is asked of an expression, and with what.

`grad` and its kind take functions and expressions; what differentiates expressions
(`expressions.py`) loads when there is one.
"""

from __future__ import annotations

from typing import Any

from workbench.core import tree
from workbench.core.tensor import Tensor
from workbench.errors import UsageError

__all__ = ["is_expression", "no_options", "only_for_functions", "wrt_of"]


def is_expression(x: Any) -> bool:
    """Whether an argument is an expression, or a nest that holds one."""
    if isinstance(x, Tensor):
        return True
    return isinstance(x, (list, tuple, dict)) and any(
        isinstance(part, Tensor) for part in tree.flatten(x)[0]
    )


def only_for_functions(name: str, **settings: Any) -> None:
    """Refuse the settings of a function's derivative beside an expression."""
    for key, value in settings.items():
        if value not in (None, False):
            raise UsageError(
                f"{name}: {key}={value!r} is for functions, and an expression was"
                f" given. Write wb.{name}(expression, wrt)."
            )


def no_options(name: str, options: dict[str, Any]) -> None:
    """Refuse the options of an expression's derivative beside a function."""
    for key in options:
        raise UsageError(
            f"{name}: a function has no option {key!r}. Those of an expression's"
            f" gradient go with wb.{name}(expression, wrt); a function takes argnums,"
            " argnames, has_aux, holomorphic, allow_int and overrides."
        )


#: What the derivatives of expressions take besides.
OPTIONS = {
    "grad": (
        "consider_constant", "disconnected_inputs", "add_names", "known_grads",
        "return_disconnected", "null_gradients",
    ),
    "jacobian": ("consider_constant", "disconnected_inputs"),
    "hessian": ("consider_constant", "disconnected_inputs", "cross"),
}  # fmt: skip
OPTIONS["value_and_grad"] = OPTIONS["grad"]


def wrt_of(name: str, given: Any, options: dict[str, Any]) -> Any:
    """What an expression is to be differentiated by, given by place or by name.

    Takes ``wrt`` out of the options, and refuses those that there are not.
    """
    if given is None:
        given = options.pop("wrt", None)
    for key in options:
        if key not in OPTIONS.get(name, ()):
            raise UsageError(
                f"{name}(expression, wrt) has no option {key!r}. It has"
                f" {', '.join(OPTIONS.get(name, ()))} and overrides."
            )
    if given is None:
        raise UsageError(
            f"{name}(expression, wrt): wrt is missing. Name the Tensors to"
            f" differentiate by: wb.{name}(y, x), or a list of them."
        )
    return given
