"""A node as code: the text of a program at the place of a rewrite."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench.core import types
from workbench.core.deferred import unwrap_deferred
from workbench.core.spelling import (
    ATOM,
    Expression,
    constant_expression,
    fill_template,
    format_literal,
)
from workbench.core.tensor import Tensor
from workbench.rewrite.forms import skip_identities


def format_node(x: Any, depth: int = 3) -> str:
    """Return a node as code of its operands, nested so deep; below that an ellipsis.

    >>> import workbench as wb
    >>> x = wb.scalar("x")
    >>> format_node(1.0 * (x + 2))
    '1 * (x + 2)'
    """
    return _write(x, depth).code


def _write(x: Any, depth: int) -> Expression:
    if not isinstance(x, Tensor):
        return constant_expression(_format_constant(x))
    x = skip_identities(x)
    if not isinstance(x, Tensor):
        return constant_expression(_format_constant(x))
    if not x.inputs:
        if x.name is None and x._value is not None:
            return constant_expression(_format_constant(x._value))
        return Expression(x.name or x.op.name, ATOM)
    if depth == 0:
        return Expression(x.name or "…", ATOM)
    op, inputs, params = unwrap_deferred(x)
    operands = [_write(y, depth - 1) for y in inputs]
    template = op.template
    if isinstance(template, str) and template:
        if template.startswith("-"):  # a rewrite of -(-x) is shown as it stands
            operands = [_enclose_sign(y) for y in operands]
        try:
            return fill_template(template, operands, params, _write_setting)
        except (KeyError, IndexError, SyntaxError):
            pass
    return Expression(_write_call(op.name, operands, params), ATOM)


def _enclose_sign(x: Expression) -> Expression:
    return Expression(f"({x.code})", ATOM) if x.code.startswith("-") else x


def _write_setting(setting: Any, _: str) -> str:
    return format_literal(setting) or repr(setting)


def _write_call(
    name: str, operands: Sequence[Expression], params: dict[str, Any]
) -> str:
    given = [x.code for x in operands]
    given += [f"{key}={_write_setting(v, key)}" for key, v in params.items()]
    return f"{name}({', '.join(given)})"


def _format_constant(x: Any) -> str:
    """Return a constant in short: 1 for 1.0, an array by its spec."""
    shape = getattr(x, "shape", ())
    if shape != () or not isinstance(x, (np.ndarray, np.generic, *types.WEAK_TYPES)):
        return repr(types.spec_of(x)) if hasattr(x, "dtype") else repr(x)
    number = x.item() if hasattr(x, "item") else x
    if isinstance(number, float) and number.is_integer() and abs(number) < 1e16:
        return f"{number:.0f}"
    return repr(number)
