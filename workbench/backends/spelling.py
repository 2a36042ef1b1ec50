"""How each op is written as NumPy code: tables, and constants as literals.

An op whose name NumPy has needs no entry: it is called by its name, with its
settings as keywords.
"""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from workbench.core.dims import Dim
from workbench.core.op import Op
from workbench.core.tensor import Tensor
from workbench.ops.contraction import LETTERS, tensordot_subscripts
from workbench.ops.define import dtype_of, shape_of


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
NUMPY_HELPERS: dict[str, str] = {
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


# How ops of linear algebra, and those that SciPy computes, are written as code.
#
# An entry is a template as above, or gives one for a node: where SciPy has a
# function, the text calls it as users do (``special.erf(x)``, ``linalg.expm(a)``);
# elsewhere a helper above the program says what is computed.

#: A template, and what it names besides the settings of the op.
Template = tuple[str, dict[str, Any]]

#: What several outputs are called where the user has not named them.
OUTPUTS: dict[str, tuple[str, ...]] = {
    "svd": ("U", "S", "Vh"),
    "qr": ("Q", "R"),
    "eig": ("values", "vectors"),
    "eigh": ("values", "vectors"),
    "lu": ("P", "L", "U"),
    "airy": ("Ai", "Aip", "Bi", "Bip"),
    "ellipj": ("sn", "cn", "dn", "ph"),
}

#: Modules of SciPy, as the text imports them.
MODULES = ("special", "linalg", "fft", "signal", "sparse")
_MODULE = re.compile(rf"(?<![\w.}}])({'|'.join(MODULES)})\.")


def libraries_of(template: str) -> list[str]:
    """The modules of SciPy that a template calls.

    >>> libraries_of("special.erf({0}) + np.linalg.det({1})")
    ['special']
    """
    return _MODULE.findall(template)


def special(op: Op, node: Tensor | None = None) -> str | None:
    """The template of a function of `scipy.special`, None for another op."""
    text = repr(op.compute) if type(op.compute).__name__ == "Special" else ""
    if not text:
        return None
    name = text.removeprefix("scipy.special.")
    if name.startswith("spherical_") and name.endswith("_d"):
        # SciPy gives derivatives in double precision alone.
        cast = f".astype(np.{node.dtype})" if node is not None and _single(node) else ""
        return f"special.{name[:-2]}({{all}}, derivative=True){cast}"
    return f"special.{ {'riemann_zeta': 'zeta'}.get(name, name) }({{all}})"


def _single(node: Tensor) -> bool:
    return node.dtype in (np.float32, np.complex64)


def _widened(call: str) -> Callable[[Tensor], Template]:
    """A function that SciPy has in double precision alone."""

    def spelled(node: Tensor) -> Template:
        if not _single(node):
            return call.format("{0}"), {}
        wide = "complex" if dtype_of(node.inputs[0]).kind == "c" else "float"
        return f"{call.format(f'{{0:20}}.astype({wide})')}.astype(np.{node.dtype})", {}

    return spelled


def _least_squares(node: Tensor) -> Template:
    a, b = map(shape_of, node.inputs)
    limit = node.params.get("rcond")
    if len(a) == 2 and len(b) <= 2:
        return "np.linalg.lstsq({0}, {1}, rcond={limit})[0]", {"limit": limit}
    if limit is None or limit < 0:
        # The limit of `lstsq`, which is not that of `pinv` by default.
        eps = float(np.finfo(dtype_of(node.inputs[0])).eps)
        limit = eps if limit is not None else eps * max(a[-2:])
    return "(np.linalg.pinv({0}, rcond={limit}) @ {1:14})", {"limit": limit}


def _convolution(node: Tensor) -> Template:
    batch, axes = node.params["batch"], len(node.shape)
    if node.params["method"] == "fft":
        more = f", axes={tuple(range(batch, axes))}" if batch else ""
        return f"signal.fftconvolve({{0}}, {{1}}, {{mode}}{more})", {}
    if batch:
        return "convolve_each({0}, {1}, {mode}, {batch})", {}
    if axes == 1:
        return "np.convolve({0}, {1}, {mode})", {}
    return 'signal.convolve({0}, {1}, {mode}, "direct")', {}


def _trigonometric(name: str) -> Callable[[Tensor], Template]:
    def spelled(node: Tensor) -> Template:
        even = node.params["orthogonalize"]
        if node.dtype.kind == "c" and even != (node.params["norm"] == "ortho"):
            # SciPy forgets orthogonalize= of complex arrays.
            parts = (f"fft.{name}({{0:20}}.{x}{{more}})" for x in ("real", "imag"))
            return f"({next(parts)} + 1j * {next(parts)})", {}
        return f"fft.{name}({{0}}{{more}})", {}

    return spelled


def _filter(node: Tensor) -> Template:
    one = "[1.0]" if not _single(node) else f"np.ones(1, np.{node.dtype})"
    return f"signal.lfilter({one}, {{0}}, {{1}})", {}


def _sparse(node: Tensor) -> Template:
    """The sparse array whose stored values are the first operand."""
    pattern = node.params["pattern"]
    name = pattern.format if pattern.format in ("csr", "csc", "bsr", "dia") else "coo"
    labels = {"dia": ["offsets"], "coo": ["rows", "columns"][: len(pattern.index)]}
    names = labels.get(name, ["indices", "starts"])
    where = ", ".join(f"{{{label}}}" for label in names)
    where = f"({where}{',' * (len(names) == 1)})" if name == "coo" else where
    template = f"sparse.{name}_array(({{0}}, {where}), shape={{shape}})"
    return template, dict(zip(names, pattern.index, strict=True), shape=pattern.shape)


def _sparse_matmul(node: Tensor) -> Template:
    template, named = _sparse(node)
    product = f"({template} @ {{1:14}})"
    if len(named["shape"]) == 1 or named["shape"][0] == 1:
        # SciPy makes a number of one row in COO.
        return f"np.reshape({product}, {{result}})", {**named, "result": _rows(node)}
    return product, named


def _rows(node: Tensor) -> tuple[int, ...]:
    """The shape of a product of one row; the number of columns is left to NumPy."""
    return tuple(-1 if isinstance(n, Dim) else n for n in node.shape)


def _sparse_sample(node: Tensor) -> Template:
    pattern = node.params["pattern"]
    named = {"rows": pattern.rows, "columns": pattern.columns}
    if len(shape_of(node.inputs[0])) == 1:
        return "({0:20}[{rows}] * {1:20}[{columns}])", named
    return 'np.einsum("kj,kj->k", {0:20}[{rows}], {1:20}[{columns}])', named


def _sparse_solve(node: Tensor) -> Template:
    template, named = _sparse(node)
    turned = ', "T"' * node.params["transposed"]
    return f"sparse.linalg.splu({template}.tocsc()).solve({{1}}{turned})", named


def _matmul0(node: Tensor) -> Template:
    ranks = [len(shape_of(x)) for x in node.inputs]
    loops = [LETTERS[: max(n - 2, 0)] for n in ranks]
    widest = LETTERS[: max(map(len, loops))]
    left, right = (widest[len(widest) - len(loop) :] for loop in loops)
    row, column = "Y" * (ranks[0] > 1), "Z" * (ranks[1] > 1)
    spelt = f"{left}{row}X,{right}X{column}->{widest}{row}{column}"
    return "einsum0({subscripts}, {all})", {"subscripts": spelt}


def _tensordot0(node: Tensor) -> Template:
    a, b = (len(shape_of(x)) for x in node.inputs)
    spelt = tensordot_subscripts((a, b), *node.params["axes"])
    return "einsum0({subscripts}, {all})", {"subscripts": spelt}


def draw(node: Tensor) -> Template:
    """A random draw: what the trace has drawn, or a call of the generator."""
    made = node.params.get("draw")
    if made is None:
        return "{0:20}", {}
    if made.name in ("permutation", "permuted", "choice"):
        return "", {}  # drawn by arguments of our own
    names = [name for name in made.names if name != "generator"]
    given = {name: f"{{{i}}}" for i, name in enumerate(names, 1)}
    later = [k for k in node.params if k not in ("draw", "size")]
    texts = [
        f"{k}={given.get(k, f'{{{k}}}')}" for k in (*made.settings, *later, *given)
    ]
    call = f"{{generator}}.{made.name}({', '.join([*texts, 'size={size}'])})"
    named = {"generator": made.generator}
    if "size" not in node.params:
        named["size"] = made.size
    return call, made.settings | named


#: What is the same for every node.
FROM_LIBRARIES: dict[str, str] = {
    "einsum0": "einsum0({subscripts}, {all})",
    "eigen_weights": "eigen_weights({0}, {1}, {UPLO})",
    "singular_weights": "singular_weights({0}, {1})",
    "cofactor": "cofactor({0})",
    "cofactor_along": "cofactor_along({all})",
    "lu_pivots": "lu_pivots({0}, {count})",
    "pivot_order": "pivot_order({0})",
    "pivoted_columns": "pivoted_columns({0})",
    "overlap_add": "overlap_add({0}, {window}, {axis})",
    "windows": "np.lib.stride_tricks.sliding_window_view({0}, {window}, {axis})",
    "exponent": "np.frexp({0})[1]",
    "fraction": "np.modf({0})[0]",
    "lu": "linalg.lu({0})",
    "solve_triangular": (
        "linalg.solve_triangular({0}, {1}, lower={lower}, unit_diagonal={unit})"
    ),
    "solve_sylvester": "linalg.solve_sylvester({0}, {1}, {2})",
    "solve_banded": "linalg.solve_banded(({lower}, {upper}), {0}, {1})",
    **{
        name: f"linalg.{name}({{0}})"
        for name in "expm sqrtm sinm cosm tanm sinhm coshm tanhm".split()
    },
    "random_gamma_quantile": "gamma_quantile({0}, {1})",
    "random_beta_quantile": "beta_quantile({0}, {1}, {2})",
}

#: What depends on shapes, dtypes or settings of a node.
NAMED: dict[str, Callable[[Tensor], Template]] = {
    "least_squares": _least_squares,
    "convolve_nd": _convolution,
    "dct": _trigonometric("dct"),
    "dst": _trigonometric("dst"),
    "recursive_filter": _filter,
    "logm": _widened("linalg.logm({})"),
    "fractional_matrix_power": _widened("linalg.fractional_matrix_power({}, {{t}})"),
    "sparse_matmul": _sparse_matmul,
    "sparse_sample": _sparse_sample,
    "sparse_solve": _sparse_solve,
    "matmul0": _matmul0,
    "tensordot0": _tensordot0,
}

LIBRARY_HELPERS: dict[str, str] = {
    "einsum0": '''\
def einsum0(subscripts, *arrays):
    """An einsum whose every product is 0 where a factor is 0."""
    with np.errstate(all="ignore"):
        y = np.einsum(subscripts, *arrays)
        if np.all(np.isfinite(y)):
            return y
        inputs, output = subscripts.split("->")
        letters = output + "".join(sorted(set(inputs) - {*output, ","}))
        product, nothing = 1, False
        for term, x in zip(inputs.split(","), arrays):
            kept = "".join(c for c in letters if c in term)
            x = np.einsum(f"{term}->{kept}", x)
            x = np.expand_dims(x, [i for i, c in enumerate(letters) if c not in kept])
            product, nothing = product * x, nothing | (x == 0)
    axes = tuple(range(len(output), len(letters)))
    return np.sum(np.where(nothing, 0, product), axis=axes)
''',
    "eigen_weights": '''\
def eigen_weights(x, w, UPLO):
    """The matrix with the eigenvectors of x and the eigenvalues w."""
    vectors = np.linalg.eigh(x, UPLO=UPLO)[1]
    return (vectors * w[..., None, :]) @ np.conj(np.swapaxes(vectors, -1, -2))
''',
    "singular_weights": '''\
def singular_weights(x, w):
    """The matrix with the singular vectors of x and the singular values w."""
    U, _, Vh = np.linalg.svd(x, full_matrices=False)
    return (U * w[..., None, :]) @ Vh
''',
    "cofactor": '''\
def cofactor(x):
    """The derivative of det: all singular values but one multiply."""
    U, S, Vh = np.linalg.svd(x)
    others = np.where(np.eye(x.shape[-1], dtype=bool), 1, S[..., None, :])
    middle = np.prod(others, axis=-1)[..., None, :]
    sign = np.linalg.det(U) * np.linalg.det(Vh)
    return sign[..., None, None] * ((np.conj(U) * middle) @ np.conj(Vh))
''',
    "cofactor_along": '''\
def cofactor_along(x, *directions):
    """The derivative of the cofactors along each direction, a polynomial of x."""
    *others, t = directions
    n = x.shape[-1]
    if others:  # by values on a circle, as many as the polynomial's degree
        count, total = max(n - len(directions), 2), np.zeros_like(sum(directions, x))
        if n <= len(directions):
            return total
        size, step = (np.max(np.abs(v), (-2, -1), keepdims=True) for v in (x, t))
        radius = np.where(size == 0, 1, size) / np.where(step == 0, 1, step)
        for k in range(count):
            turn = 1 - 2 * k if count == 2 else np.exp(2j * np.pi * k / count)
            part = cofactor_along(x + turn * radius * t, *others)
            part = part / (turn * count * radius)
            total = total + (part if np.iscomplexobj(total) else np.real(part))
        return total
    U, S, Vh = np.linalg.svd(x)
    others = np.zeros_like(S, shape=(*S.shape, n))
    for i, j in np.ndindex(n, n):
        if i != j:
            others[..., i, j] = np.prod(np.delete(S, [i, j], -1), axis=-1)
    turned = np.conj(np.swapaxes(U, -1, -2)) @ t @ np.conj(np.swapaxes(Vh, -1, -2))
    on = np.einsum("...ij,...jj->...i", others, turned)[..., None, :]
    middle = on * np.eye(n, dtype=S.dtype) - others * np.swapaxes(turned, -1, -2)
    sign = np.linalg.det(U) * np.linalg.det(Vh)
    return sign[..., None, None] * (np.conj(U) @ middle @ np.conj(Vh))
''',
    "lu_pivots": '''\
def lu_pivots(p, count):
    """The row that each row was swapped with, from the permutation that came of it."""
    pivots = np.zeros((*p.shape[:-2], count), np.int32)
    for at in np.ndindex(p.shape[:-2]):
        order, now = list(np.argmax(p[at], axis=0)), list(range(p.shape[-1]))
        for j in range(count):
            i = now.index(order[j])
            now[i], now[j], pivots[(*at, j)] = now[j], now[i], i
    return pivots
''',
    "pivot_order": '''\
def pivot_order(swaps):
    """The order of rows after each row was swapped with another."""
    orders = np.zeros(swaps.shape, np.intp)
    for at in np.ndindex(swaps.shape[:-1]):
        order = list(range(swaps.shape[-1]))
        for j, i in enumerate(swaps[at]):
            order[i], order[j] = order[j], order[i]
        orders[at] = order
    return orders
''',
    "pivoted_columns": '''\
def pivoted_columns(x):
    """The order in which QR with pivoting takes the columns."""
    orders = np.zeros((*x.shape[:-2], x.shape[-1]), np.int32)
    for at in np.ndindex(x.shape[:-2]):
        orders[at] = linalg.qr(x[at], mode="r", pivoting=True)[1]
    return orders
''',
    "overlap_add": '''\
def overlap_add(g, window, axis):
    """Windows along an axis, added where they overlap."""
    g = np.moveaxis(g, axis - 1 if axis < 0 else axis, 0)
    out = np.zeros_like(g, shape=(g.shape[0] + window - 1, *g.shape[1:-1]))
    for shift in range(window):
        out[shift : shift + g.shape[0]] += g[..., shift]
    return np.moveaxis(out, 0, axis)
''',
    "convolve_each": '''\
def convolve_each(a, b, mode, axes):
    """The convolution of each pair along some axes in front."""
    if not axes:
        return signal.convolve(a, b, mode, "direct")
    return np.stack([convolve_each(x, y, mode, axes - 1) for x, y in zip(a, b)])
''',
    "gamma_quantile": '''\
def gamma_quantile(a, q):
    """The gamma draw below which q lies, or above which -q does."""
    size = np.abs(q)
    above = special.gammainccinv(a, size)
    return np.where(q >= 0, special.gammaincinv(a, size), above)
''',
    "beta_quantile": '''\
def beta_quantile(a, b, q):
    """The beta draw below which q lies, or above which -q does."""
    size = np.abs(q)
    above = special.betainccinv(a, b, size)
    return np.where(q >= 0, special.betaincinv(a, b, size), above)
''',
}
