"""Python's operators on Tensors: the hottest path of the library.

Each method is made once by a closure over its op; importing this module sets
them on `Tensor`. An operand that is not a Tensor or a plain number, and every
error, goes the general way through :func:`workbench.core.tensor.apply`.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from workbench.core import source
from workbench.core.inplace import make_in_place
from workbench.core.memory import METHODS
from workbench.core.op import ATTRIBUTES, Op, declare, load_ops_of
from workbench.core.plain import complete_classes
from workbench.core.tensor import (
    ANSWERING,
    CHANGED,
    LARGE,
    NO_PARAMS,
    LeanTensor,
    MaskedTensor,
    Tensor,
    apply,
    make_lean,
    next_serial,
)
from workbench.core.tree import Stored, is_sparse

_frame = sys._getframe
_new = object.__new__
_context = source.CONTEXT.get
NOTED = source.NOTED
_Array = np.ndarray


def _make_operator(name: str, compute: Callable[[Any, Any], Any]) -> tuple[Any, Any]:
    """Return the method of a binary operator and its reflection."""
    op = declare(name)
    plain = (float, int, np.float64, np.float32)

    def method(self: Tensor, other: Any) -> Any:
        a = self._value
        kind = type(other)
        if kind is Tensor:
            b = other._value
        elif kind in plain:
            b = other
        elif kind is np.ndarray:
            return apply(op, (self, other))
        else:
            return _apply_other(op, (self, other), other)
        if a is None or b is None:
            return apply(op, (self, other))
        try:
            value = compute(a, b)
        except (ValueError, TypeError, ArithmeticError):  # Python's own: 1.0 / 0.0
            return apply(op, (self, other))
        # What Tensor.__init__ does, without the call: it is 5 % of an op.
        made = _new(Tensor)
        made.op = op
        made.inputs = (self, other)
        made.args = (a, b)
        made.params = NO_PARAMS
        made._value = value
        made.serial = next_serial()
        frame = _frame(1)
        made.code = code = frame.f_code
        made.lasti = frame.f_lasti
        if code is not NOTED[0]:
            made.code, made.lasti = source.place_of(frame)
        made.context = context = _context()
        if context and context.block and context.block.moves:
            made.context = source.prune_scopes(context)
        # With a number the result is no larger than the operand, which is not large.
        if kind is Tensor and type(value) is _Array and value.nbytes >= LARGE:
            make_lean(made)
        return made

    def reflected(self: Tensor, other: object) -> Any:
        a = self._value
        if type(other) not in plain or a is None:
            return _apply_other(op, (other, self), other)
        try:
            value = compute(other, a)
        except ArithmeticError:
            return apply(op, (other, self))
        frame = _frame(1)
        code, lasti = frame.f_code, frame.f_lasti
        if code is not NOTED[0]:
            code, lasti = source.place_of(frame)
        context = source.current_context()
        inputs, args = (other, self), (other, a)
        return Tensor(op, inputs, args, NO_PARAMS, value, code, lasti, context)

    return method, reflected


def _make_unary(name: str, compute: Callable[[Any], Any]) -> Callable[[Tensor], Any]:
    """Return the method of a unary operator; a Python number gives a number."""
    op = declare(name)

    def method(self: Tensor) -> Any:
        a = self._value
        if a is None or type(self) is not Tensor:
            return apply(op, (self,))
        frame = _frame(1)
        code, lasti = frame.f_code, frame.f_lasti
        if code is not NOTED[0]:
            code, lasti = source.place_of(frame)
        context = source.current_context()
        return Tensor(op, (self,), (a,), NO_PARAMS, compute(a), code, lasti, context)

    return method


def _apply_other(op: Op, operands: tuple[Any, Any], other: object) -> Any:
    if isinstance(other, str) or other is None or type(other) in ANSWERING:
        return NotImplemented
    if getattr(other, "__array_ufunc__", NotImplemented) is None:
        return NotImplemented  # it asks to be given the operator, as NumPy has it
    if is_sparse(other):
        load_ops_of("scipy.sparse")
        return ATTRIBUTES[Stored](op.name, *operands)
    return apply(op, operands)


def _make_general_operator(name: str) -> tuple[Any, Any]:
    """Return the methods for operands that not every result forgets: see `apply`."""
    op = declare(name)

    def method(self: Tensor, other: object) -> Any:
        return _apply_other(op, (self, other), other)

    def reflected(self: Tensor, other: object) -> Any:
        return _apply_other(op, (other, self), other)

    return method, reflected


OPERATORS: dict[str, tuple[str, Callable[[Any, Any], Any]]] = {
    "add": ("add", operator.add),
    "sub": ("subtract", operator.sub),
    "mul": ("multiply", operator.mul),
    "truediv": ("divide", operator.truediv),
    "floordiv": ("floor_divide", operator.floordiv),
    "mod": ("remainder", operator.mod),
    "pow": ("power", operator.pow),
    "matmul": ("matmul", operator.matmul),
    "and": ("bitwise_and", operator.and_),
    "or": ("bitwise_or", operator.or_),
    "xor": ("bitwise_xor", operator.xor),
    "lshift": ("left_shift", operator.lshift),
    "rshift": ("right_shift", operator.rshift),
}
SIGNS = "+= -= *= /= //= %= **= @= &= |= ^= <<= >>=".split()
COMPARISONS: dict[str, tuple[str, Callable[[Any, Any], Any]]] = {
    "lt": ("less", operator.lt),
    "le": ("less_equal", operator.le),
    "gt": ("greater", operator.gt),
    "ge": ("greater_equal", operator.ge),
    "eq": ("equal", operator.eq),
    "ne": ("not_equal", operator.ne),
}
for (_name, (_op, _compute)), _sign in zip(OPERATORS.items(), SIGNS, strict=True):
    _method, _reflected = _make_operator(_op, _compute)
    setattr(Tensor, f"__{_name}__", _method)
    setattr(Tensor, f"__r{_name}__", _reflected)
    setattr(Tensor, f"__i{_name}__", make_in_place(_sign, _method))
for _name, (_op, _compute) in COMPARISONS.items():
    setattr(Tensor, f"__{_name}__", _make_operator(_op, _compute)[0])
for _name, _op, _apply in (
    ("neg", "negative", operator.neg),
    ("pos", "positive", operator.pos),
    ("abs", "absolute", abs),
):
    setattr(Tensor, f"__{_name}__", _make_unary(_op, _apply))
for _kind in (MaskedTensor, LeanTensor):  # what they make is masked, or lean, too
    for (_name, (_op, _)), _sign in zip(OPERATORS.items(), SIGNS, strict=True):
        _method, _reflected = _make_general_operator(_op)
        setattr(_kind, f"__{_name}__", _method)
        setattr(_kind, f"__r{_name}__", _reflected)
        setattr(_kind, f"__i{_name}__", make_in_place(_sign, _method))
for _name, (_op, _) in COMPARISONS.items():
    setattr(LeanTensor, f"__{_name}__", _make_general_operator(_op)[0])


def _make_handle_operator(name: str) -> Any:
    """Return an operator of handles: that of the node that one stands for."""
    own = getattr(Tensor, name)

    def method(self: Any, *others: Any) -> Any:
        node = self.memory.read()
        others = tuple([x.memory.read() if type(x) in CHANGED else x for x in others])
        plain = type(node) is Tensor
        made = own(node, *others) if plain else getattr(node, name)(*others)
        if made is not NotImplemented and made.code is code:
            made.code, made.lasti = source.place_of(_frame(1))
        return made

    code = method.__code__
    return method


def make_handle_methods() -> dict[str, Any]:
    """Return the operators of handles, whatever class their Tensors are of."""
    made: dict[str, Any] = {"__hash__": Tensor.__hash__}
    for name, sign in zip(OPERATORS, SIGNS, strict=True):
        method = _make_handle_operator(f"__{name}__")
        made[f"__{name}__"] = method
        made[f"__r{name}__"] = _make_handle_operator(f"__r{name}__")
        made[f"__i{name}__"] = make_in_place(sign, method)
    for name in (*COMPARISONS, "neg", "pos", "abs"):
        made[f"__{name}__"] = _make_handle_operator(f"__{name}__")
    return made


METHODS.update(make_handle_methods())
complete_classes(zip(OPERATORS, SIGNS, strict=True))
