"""A node as code: the text of a program at the place of a rewrite."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from workbench.core import types
from workbench.core.spelling import (
    ATOM,
    Expression,
    constant_expression,
    fill_template,
    format_literal,
)
from workbench.core.tensor import Tensor
from workbench.rewrite.forms import skip_identities

#: Constants of so many entries are compared, to write equal ones as a number.
MOST_COMPARED = 10_000
#: The names of nodes in the place of their own, by serial.
Names = Mapping[int, str]


def format_node(
    x: Any,
    depth: int = 3,
    names: Names = MappingProxyType({}),
    atoms: Collection[int] = (),
) -> str:
    """Return a node as code of its operands, nested so deep; below that by their names.

    Those without a name of their own have one in ``names``, or are an ellipsis. The
    operands whose serials are in ``atoms`` are written by name at any depth.

    >>> import workbench as wb
    >>> x = wb.scalar("x")
    >>> y = x + 2
    >>> format_node(1.0 * y), format_node(1.0 * y, 1, {y.serial: "t1"})
    ('1 * (x + 2)', '1 * t1')
    """
    writer = _Writer(names, frozenset(atoms) - {getattr(x, "serial", None)})
    return writer.write(x, depth).code


class _Writer(NamedTuple):
    """Writes nodes, with names for some of them."""

    names: Names
    atoms: Collection[int | None]

    def write(self, x: Any, depth: int) -> Expression:
        """Return a node as an expression of its operands, nested so deep."""
        if isinstance(x, Tensor):
            x = skip_identities(x)
        if not isinstance(x, Tensor):
            return constant_expression(_format_constant(x))
        if not x.inputs:
            if x.name is None and x._value is not None:
                return constant_expression(_format_constant(x._value))
            return Expression(x.name or x.op.name, ATOM)
        if depth == 0 or x.serial in self.atoms:
            return Expression(self.names.get(x.serial) or x.name or "…", ATOM)
        op, params = x.op, x.settings
        operands = [self.write(y, depth - 1) for y in x.operands]
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
    """Return a constant in short: 1 for 1.0, an array of equal entries as one of them.

    Another array is written by its spec.
    """
    shape = getattr(x, "shape", ())
    if type(x) is np.ndarray and 0 < x.size <= MOST_COMPARED and x.dtype.kind in "biuf":
        first = x.flat[0]
        if bool((x == first).all()):
            x, shape = first, ()
    if shape != () or not isinstance(x, (np.ndarray, np.generic, *types.WEAK_TYPES)):
        return repr(types.spec_of(x)) if hasattr(x, "dtype") else repr(x)
    number = x.item() if hasattr(x, "item") else x
    if isinstance(number, float) and number.is_integer() and abs(number) < 1e16:
        return f"{number:.0f}"
    return repr(number)
