"""How each op is written as NumPy code: tables, and constants as literals.

An op whose name NumPy has needs no entry: it is called by its name, with its
settings as keywords.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

__all__ = [
    "ARITHMETIC",
    "ATOM",
    "HELPERS",
    "INFIX",
    "RENAMED",
    "SILENT",
    "SPELLED",
    "Code",
    "Expression",
    "array_text",
    "bound",
    "index_text",
    "literal",
]


class Expression(NamedTuple):
    """A piece of code and how tightly it binds; a name or a call binds tightest."""

    code: str
    binding: int


#: How tightly a name or a call binds.
ATOM = 20


def bound(x: Expression, least: int) -> str:
    """The code of an operand, in parentheses if it binds less than that."""
    return x.code if x.binding >= least else f"({x.code})"


#: Operators of Python: the sign, how tightly it binds, and the least binding that
#: its left and right operand need to do without parentheses.
INFIX: dict[str, tuple[str, int, int, int]] = {
    "add": ("+", 12, 12, 13),
    "subtract": ("-", 12, 12, 13),
    "multiply": ("*", 13, 13, 14),
    "divide": ("/", 13, 13, 14),
    "floor_divide": ("//", 13, 13, 14),
    "remainder": ("%", 13, 13, 14),
    "matmul": ("@", 13, 13, 14),
    "power": ("**", 15, 16, 15),
    "less": ("<", 8, 9, 9),
    "less_equal": ("<=", 8, 9, 9),
    "greater": (">", 8, 9, 9),
    "greater_equal": (">=", 8, 9, 9),
    "equal": ("==", 8, 9, 9),
    "not_equal": ("!=", 8, 9, 9),
    "bitwise_or": ("|", 9, 9, 10),
    "bitwise_xor": ("^", 10, 10, 11),
    "bitwise_and": ("&", 11, 11, 12),
    "left_shift": ("<<", 12, 12, 13),
    "right_shift": (">>", 12, 12, 13),
}

#: Those where a number beside an array takes the array's dtype.
ARITHMETIC = frozenset({"add", "subtract", "multiply", "divide"})

#: Ops that hand their operand on.
SILENT = frozenset(
    "identity positive stop_gradient zero_grad grad_clip grad_scale mask".split()
)

#: Ops that NumPy spells in its own way. ``{0}`` is an operand, ``{0:14}`` one that
#: must bind by 14, ``{all}`` all of them, ``{index:1}`` the index whose arrays are
#: the operands from 1 on, ``{name}`` a setting, ``{more}`` the other settings.
SPELLED: dict[str, str] = {
    "negative": "-{0:14}",
    "strong": "np.asarray({0})",
    "item": "{0:20}[{index}]",
    "length": "{n}",
    "unbroadcast": "unbroadcast({0}, {shape})",
    "getitem": "{0:20}[{index:1}]",
    "nonzero_places": "np.stack(np.nonzero({0}))",
    "one_minus_square": "((1 - {0:13}) * (1 + {0:13}))",
    "scatter": "scatter({0}, np.s_[{index:1}], {shape})",
    "index_set": "index_set({0}, np.s_[{index:2}], {1})",
    "index_add": "index_at(np.add, {0}, np.s_[{index:2}], {1})",
    "index_max": "index_at(np.maximum, {0}, np.s_[{index:2}], {1})",
    "index_min": "index_at(np.minimum, {0}, np.s_[{index:2}], {1})",
    "einsum": "np.einsum({subscripts}, {all}{more})",
    "concatenate": "np.concatenate([{all}]{more})",
    "stack": "np.stack([{all}]{more})",
    "lexsort": "np.lexsort([{all}]{more})",
    "reshape": "np.reshape({0}, {shape}{more})",
    "broadcast_to": "np.broadcast_to({0}, {shape})",
    "repeat": "np.repeat({0}, {repeats}, *{axis})",
    "astype": "np.astype({0}, {dtype})",
    "direction": "np.sign({0})",
    "power_norm": "np.linalg.vector_norm({0}{more})",
    "logabsdet": "np.linalg.slogdet({0})[1]",
    "sign_of_det": "np.linalg.slogdet({0})[0]",
    "make_like": "make_like({0}, {maker}, *{settings})",
}

#: Settings that NumPy calls otherwise.
RENAMED: dict[str, dict[str, str]] = {
    "full_like": {"fill": "fill_value"},
    "pad": {"width": "pad_width", "fill": "constant_values"},
}

#: Helpers that stand above the function where it calls them.
HELPERS: dict[str, str] = {
    "specify_shape": '''\
def specify_shape(x, shape):
    """x, which has these lengths; None is any."""
    if len(x.shape) != len(shape) or any(
        n not in (None, m) for m, n in zip(x.shape, shape)
    ):
        raise ValueError(f"an array of shape {x.shape} is to have {shape}")
    return x
''',
    "mul0": '''\
def mul0(a, b):
    """a * b, and 0 where either is 0, be the other infinite or NaN."""
    with np.errstate(all="ignore"):
        return np.where((a == 0) | (b == 0), 0, a * b)
''',
    "div0": '''\
def div0(a, b):
    """a / b, and 0 where a is 0."""
    with np.errstate(all="ignore"):
        return np.where(a == 0, 0, a / b)
''',
    "unbroadcast": '''\
def unbroadcast(g, shape):
    """g summed over the axes along which an array of this shape was broadcast."""
    extra = g.ndim - len(shape)
    axes = [i for i, n in enumerate(shape, extra) if n == 1 != g.shape[i]]
    return np.reshape(np.sum(g, axis=(*range(extra), *axes)), shape)
''',
    "scatter": '''\
def scatter(g, index, shape):
    """Zeros with g added at an index."""
    out = np.zeros_like(g, shape=shape)
    np.add.at(out, index, g)
    return out
''',
    "index_set": '''\
def index_set(x, index, v):
    """A copy of x with v at an index."""
    out = np.copy(x)
    out[index] = v
    return out
''',
    "index_at": '''\
def index_at(ufunc, x, index, v):
    """A copy of x, changed at an index by a ufunc and v."""
    out = np.copy(x)
    ufunc.at(out, index, v)
    return out
''',
    "span": '''\
def span(x, *ends, axis, key):
    """x[start:stop:step] along an axis; what the key does not hold is given."""
    ends = iter(ends)
    part = slice(*[int(next(ends)) if type(k) is str else k for k in key])
    return x[(slice(None),) * axis + (part,)]
''',
    "unspan": '''\
def unspan(g, *ends, axis, key, length):
    """Zeros that hold g in a slice along an axis."""
    ends = iter(ends)
    part = slice(*[int(next(ends)) if type(k) is str else k for k in key])
    out = np.zeros_like(g, shape=(*g.shape[:axis], length, *g.shape[axis + 1 :]))
    out[(slice(None),) * axis + (part,)] = g
    return out
''',
    "make_like": '''\
def make_like(x, maker, args, settings):
    """An array of the library of x."""
    like = {"like": x} if hasattr(x, "__array_function__") else {}
    return getattr(np, maker)(*args, **like, **dict(settings))
''',
    "logsumexp": '''\
def logsumexp(x, axis=None, keepdims=False):
    """log(sum(exp(x))) without overflow."""
    shift = np.max(x, axis=axis, keepdims=True)
    shift = np.where(np.isfinite(shift), shift, 0)
    with np.errstate(divide="ignore", over="ignore"):
        total = np.log(np.sum(np.exp(x - shift), axis=axis, keepdims=keepdims))
    return total + (shift if keepdims else np.reshape(shift, total.shape))
''',
}


def index_text(key: tuple[Any, ...], arrays: list[str]) -> str:
    """The text of an index from its static key and the texts of its arrays.

    >>> index_text((1, None, slice(2, None)), [])
    '1, None, 2:'
    """
    rest = iter(arrays)
    parts = [_key_part(part, rest.__next__) for part in key]
    if not parts:
        return "()"
    return ", ".join(parts) + ("," if len(parts) == 1 and parts[0] == "()" else "")


def _key_part(part: Any, array: Callable[[], str]) -> str:
    if part is None or isinstance(part, int):
        return repr(part)
    if isinstance(part, Code):  # an unknown length
        return str(part)
    if part is Ellipsis:
        return "..."
    if isinstance(part, slice):
        part = (part.start, part.stop, part.step)
    if isinstance(part, tuple):  # a slice, as keys hold it
        start, stop, step = ("" if n is None else str(n) for n in part)
        return f"{start}:{stop}:{step}" if step else f"{start}:{stop}"
    return array()


class Code(str):
    """A setting that is code already: ``x.shape[0]``."""

    __slots__ = ()


def literal(x: Any) -> str | None:
    """A plain value as code that makes it again, None where that is no use.

    >>> literal(np.float32(0.5)), literal((1, None)), literal(float("inf"))
    ('np.float32(0.5)', '(1, None)', 'float("inf")')
    """
    if x is Ellipsis:
        return "..."
    if isinstance(x, Code):
        return x
    if x is None or isinstance(x, (str, bool)):
        return repr(x)
    if type(x) in (int, float, complex):
        return repr(x) if math.isfinite(abs(x)) else f'{type(x).__name__}("{x}")'
    if isinstance(x, np.generic):
        plain = x.item()
        simple = isinstance(plain, (bool, int, float, complex))
        return f"np.{x.dtype.name}({literal(plain)})" if simple else None
    if isinstance(x, np.dtype):
        return f"np.{x.name}" if hasattr(np, x.name) else repr(x.str)
    if isinstance(x, type) and issubclass(x, np.generic):
        return f"np.{x.__name__}"
    if isinstance(x, type) and x in (bool, int, float, complex):
        return x.__name__
    if isinstance(x, slice):
        return _sequence((x.start, x.stop, x.step), "slice({})")
    if type(x) is list:
        return _sequence(tuple(x), "[{}]")
    if type(x) is tuple:
        return _sequence(x, "({},)" if len(x) == 1 else "({})")
    if type(x) is np.ndarray and 0 < x.size <= 6 and x.dtype.kind in "biufc":
        listed = literal(x.tolist())
        same = np.asarray(x.tolist()).dtype == x.dtype
        return f"np.array({listed}{'' if same else f', dtype=np.{x.dtype.name}'})"
    return None


#: An array whose text would be longer is handed over as it is.
MOST_TEXT = 4000


def array_text(x: Any, left: str) -> str | None:
    """The line that makes an array and gives it a name; None for one too large.

    >>> array_text(np.arange(8.0), "c = ")
    'c = np.array([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0])'
    """
    if type(x) is not np.ndarray or x.dtype.kind not in "biufc" or x.size > MOST_TEXT:
        return None
    if not x.size:
        return f"{left}np.zeros({x.shape}, dtype=np.{x.dtype.name})"
    listed = literal(x.tolist())
    if listed is None or len(listed) > MOST_TEXT:
        return None
    same = np.asarray(x.tolist()).dtype == x.dtype
    ending = ")" if same else f", dtype=np.{x.dtype.name})"
    line = f"{left}np.array({listed}{ending}"
    if len(line) <= 88:
        return line
    inside = textwrap.fill(
        f"{listed}{'' if same else ','}", 84, break_long_words=False,
        initial_indent="    ", subsequent_indent="    ",
    )  # fmt: skip
    if not same:
        inside += f"\n    dtype=np.{x.dtype.name},"
    return f"{left}np.array(\n{inside}\n)"


def _sequence(parts: tuple[Any, ...], around: str) -> str | None:
    codes = [literal(part) for part in parts]
    known = [code for code in codes if code is not None]
    return around.format(", ".join(known)) if len(known) == len(codes) else None
