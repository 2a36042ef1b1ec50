"""`theano.tensor`: each function against NumPy or SciPy, on symbols of any length."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.linalg
import scipy.signal
import scipy.special

import workbench.compat.theano as theano
import workbench.compat.theano.tensor as T

A = np.array([[0.3, -1.2, 0.7], [1.1, 0.4, -0.6]])
B = np.array([[1.5, 0.2, -0.9], [-0.3, 0.8, 2.2]])
S = np.array([[2.0, 0.3, 0.1], [0.3, 1.5, -0.2], [0.1, -0.2, 1.0]])
V = np.array([0.5, -1.5, 2.5])
I3 = np.array([2, 0, 1])

Row = tuple[Callable[..., Any], Callable[..., Any], tuple[Any, ...]]


def symbols(values: tuple[Any, ...]) -> list[Any]:
    """A symbol per array, of its dtype and rank; no length is known."""
    return [
        T.TensorType(np.asarray(v).dtype, (False,) * np.ndim(v))(f"x{i}")
        for i, v in enumerate(values)
    ]


def run(build: Callable[..., Any], *values: Any) -> Any:
    """What an expression gives for these values."""
    xs = symbols(values)
    return theano.function(xs, build(*xs), on_unused_input="ignore")(*values)


def close(got: Any, want: Any) -> None:
    """Compare, several results in order."""
    if isinstance(want, (list, tuple)):
        assert len(got) == len(want)
        for g, w in zip(got, want, strict=True):
            close(g, w)
        return
    want = np.asarray(want)
    assert np.shape(got) == want.shape
    np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-12)


UNARY: dict[str, tuple[Callable[..., Any], Any]] = {
    "abs_": (np.abs, A), "neg": (np.negative, A), "inv": (lambda x: 1 / x, A),
    "exp": (np.exp, A), "exp2": (np.exp2, A), "expm1": (np.expm1, A),
    "log": (np.log, A**2), "log2": (np.log2, A**2), "log10": (np.log10, A**2),
    "log1p": (np.log1p, A**2), "sqrt": (np.sqrt, A**2), "sqr": (np.square, A),
    "sgn": (np.sign, A), "sin": (np.sin, A), "cos": (np.cos, A), "tan": (np.tan, A),
    "arcsin": (np.arcsin, A / 3), "arccos": (np.arccos, A / 3),
    "arctan": (np.arctan, A), "sinh": (np.sinh, A), "cosh": (np.cosh, A),
    "tanh": (np.tanh, A), "arcsinh": (np.arcsinh, A), "arctanh": (np.arctanh, A / 3),
    "arccosh": (np.arccosh, A**2 + 1), "deg2rad": (np.deg2rad, A),
    "rad2deg": (np.rad2deg, A), "ceil": (np.ceil, A), "floor": (np.floor, A),
    "trunc": (np.trunc, A), "round": (np.round, A), "erf": (scipy.special.erf, A),
    "erfc": (scipy.special.erfc, A), "erfcx": (scipy.special.erfcx, A),
    "erfinv": (scipy.special.erfinv, A / 3),
    "erfcinv": (scipy.special.erfcinv, A**2 / 3 + 0.1),
    "gamma": (scipy.special.gamma, A**2 + 1),
    "gammaln": (scipy.special.gammaln, A**2 + 1),
    "psi": (scipy.special.psi, A**2 + 1), "j0": (scipy.special.j0, A),
    "j1": (scipy.special.j1, A), "i0": (scipy.special.i0, A),
    "i1": (scipy.special.i1, A), "isnan": (np.isnan, A), "isinf": (np.isinf, A),
    "tri_gamma": (lambda x: scipy.special.polygamma(1, x), A**2 + 1),
    "invert": (np.invert, I3), "identity": (np.copy, A), "real": (np.real, A + 1j),
    "imag": (np.imag, A + 1j), "conj": (np.conj, A + 1j), "angle": (np.angle, A + 1j),
}  # fmt: skip


@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one(name: str) -> None:
    ours, value = UNARY[name]
    close(run(T.TABLE[name], value), ours(value))
    # Of a plain number or array it is a constant, which is a variable too.
    assert isinstance(T.TABLE[name](value), T.TensorVariable)


BINARY: dict[str, Callable[..., Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "true_div": np.divide,
    "int_div": np.floor_divide, "mod": np.remainder, "maximum": np.maximum,
    "minimum": np.minimum, "arctan2": np.arctan2, "eq": np.equal,
    "neq": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal, "isclose": np.isclose, "allclose": np.allclose,
    "largest": np.maximum, "smallest": np.minimum,
}  # fmt: skip


@pytest.mark.parametrize("name", BINARY)
def test_functions_of_two(name: str) -> None:
    close(run(T.TABLE[name], A, B), BINARY[name](A, B))
    close(run(T.TABLE[name], A, V), BINARY[name](A, V))


ROWS: dict[str, Row] = {
    "add of three": (lambda x, y, z: T.add(x, y, z), lambda x, y, z: x + y + z,
                     (A, B, V)),
    "and": (lambda x, y: T.and_(T.gt(x, 0), T.lt(y, 1)),
            lambda x, y: (x > 0) & (y < 1), (A, B)),
    "or": (lambda x, y: T.or_(x > 0, y < 1), lambda x, y: (x > 0) | (y < 1), (A, B)),
    "xor": (lambda x, y: T.xor(x, y), np.bitwise_xor, (I3, I3[::-1].copy())),
    "switch": (lambda x, y: T.switch(x > 0, x, y), lambda x, y: np.where(x > 0, x, y),
               (A, B)),
    "switch of numbers": (lambda i, x: T.switch(i, x, 0), lambda i, x: x * (i != 0),
                          (I3, V)),
    "clip": (lambda x: T.clip(x, -0.5, 0.5), lambda x: np.clip(x, -0.5, 0.5), (A,)),
    "second": (lambda x, y: T.second(x, y), lambda x, y: np.zeros_like(x) + y, (A, V)),
    "pow": (lambda x: T.pow(x, 3), lambda x: x**3, (A,)),
    "cast": (lambda x: T.cast(x, "int32"), lambda x: x.astype("int32"), (A,)),
    "round away": (lambda x: T.round(x, mode="half_away_from_zero"),
                   lambda x: np.array([1.0, -2.0, 3.0]), (V,)),
    "jv": (lambda x: T.jv(1.5, x), lambda x: scipy.special.jv(1.5, x), (A**2,)),
    "complex": (lambda x, y: T.complex(x, y), lambda x, y: x + 1j * y, (A, B)),
    "polar": (lambda r, t: T.complex_from_polar(r, t),
              lambda r, t: r * np.exp(1j * t), (A, B)),
    "ceil_intdiv": (lambda i: T.ceil_intdiv(i + 5, 3), lambda i: -(-(i + 5) // 3),
                    (I3,)),
    "chi2sf": (lambda x: T.chi2sf(x, 3.0), lambda x: scipy.special.chdtrc(3.0, x),
               (A**2,)),
    # reductions
    "sum": (lambda x: T.sum(x), np.sum, (A,)),
    "sum axis": (lambda x: T.sum(x, axis=1), lambda x: x.sum(1), (A,)),
    "sum axes": (lambda x: T.sum(x, axis=[0, 1]), np.sum, (A,)),
    "sum keepdims": (lambda x: T.sum(x, axis=0, keepdims=True),
                     lambda x: x.sum(0, keepdims=True), (A,)),
    "mean": (lambda x: T.mean(x, axis=1), lambda x: x.mean(1), (A,)),
    "mean of ints": (lambda i: T.mean(i), np.mean, (I3,)),
    "prod": (lambda x: T.prod(x, axis=0), lambda x: x.prod(0), (A,)),
    "var": (lambda x: T.var(x, axis=1, ddof=1), lambda x: x.var(1, ddof=1), (A,)),
    "std": (lambda x: T.std(x), np.std, (A,)),
    "max": (lambda x: T.max(x, axis=0), lambda x: x.max(0), (A,)),
    "min": (lambda x: T.min(x), np.min, (A,)),
    "all": (lambda x: T.all(x > -2, axis=0), lambda x: (x > -2).all(0), (A,)),
    "any": (lambda x: T.any(x > 1), lambda x: (x > 1).any(), (A,)),
    "argmax": (lambda x: T.argmax(x, axis=1), lambda x: x.argmax(1), (A,)),
    "argmax of all": (lambda x: T.argmax(x), np.argmax, (A,)),
    "argmax of axes": (
        lambda x: T.argmax(x, axis=(0, 2)),
        lambda x: np.transpose(x, (1, 0, 2)).reshape(3, -1).argmax(1),
        (np.arange(24.0).reshape(4, 3, 2)[::-1] % 7,),
    ),
    "argmin": (lambda x: T.argmin(x, axis=0), lambda x: x.argmin(0), (A,)),
    "max_and_argmax": (lambda x: T.max_and_argmax(x, axis=1),
                       lambda x: [x.max(1), x.argmax(1)], (A,)),
    "cumsum": (lambda x: T.cumsum(x, axis=1), lambda x: x.cumsum(1), (A,)),
    "cumprod": (lambda x: T.cumprod(x), np.cumprod, (A,)),
    "ptp": (lambda x: T.ptp(x, axis=0), lambda x: np.ptp(x, axis=0), (A,)),
    "sort": (lambda x: T.sort(x, axis=0), lambda x: np.sort(x, axis=0), (A,)),
    "argsort": (lambda x: T.argsort(x), np.argsort, (A,)),
    "topk": (lambda x: T.topk(x, 2), lambda x: np.sort(x)[:, :-3:-1], (A,)),
    "bottomk": (lambda x: T.topk(x, -2), lambda x: np.sort(x)[:, :2], (A,)),
    "norm 2": (lambda x: x.norm(2), np.linalg.norm, (A,)),
    "norm 1": (lambda x: x.norm(1, axis=0), lambda x: np.abs(x).sum(0), (A,)),
    "norm inf": (lambda x: x.norm(np.inf), lambda x: np.abs(x).max(), (A,)),
    "norm 3": (lambda x: x.norm(3, axis=1), lambda x: np.linalg.norm(x, 3, axis=1),
               (A,)),
    "prod_without_zeros": (lambda x: T.prod_without_zeros(x), lambda x: -3.0,
                           (np.array([0.0, -1.5, 2.0]),)),
    # shapes
    "dimshuffle": (lambda x: x.dimshuffle(1, "x", 0), lambda x: x.T[:, None], (A,)),
    "dimshuffle of a list": (lambda x: x.dimshuffle([0, "x", 1]),
                             lambda x: x[:, None], (A,)),
    "dimshuffle drops": (lambda x: x.sum(axis=1, keepdims=True).dimshuffle(0),
                         lambda x: x.sum(1), (A,)),
    "reshape": (lambda x: T.reshape(x, (3, -1)), lambda x: x.reshape(3, -1), (A,)),
    "reshape by lengths": (
        lambda x: x.reshape((x.shape[1], x.shape[0]), ndim=2),
        lambda x: x.reshape(3, 2), (A,)),
    "reshape by a vector": (lambda x, n: T.reshape(x, n, ndim=2),
                            lambda x, n: x.reshape(3, 2), (A, np.array([3, 2]))),
    "flatten": (lambda x: x.flatten(), np.ravel, (A,)),
    "flatten to 2": (lambda x: x[None].flatten(2), lambda x: x.reshape(1, -1), (A,)),
    "padleft": (lambda x: T.shape_padleft(x, 2), lambda x: x[None, None], (A,)),
    "padright": (lambda x: T.shape_padright(x), lambda x: x[..., None], (A,)),
    "padaxis": (lambda x: T.shape_padaxis(x, 1), lambda x: x[:, None], (A,)),
    "concatenate": (lambda x, y: T.concatenate([x, y], axis=1),
                    lambda x, y: np.concatenate([x, y], 1), (A, B)),
    "join": (lambda x, y: T.join(0, x, y), lambda x, y: np.concatenate([x, y]),
             (A, B)),
    "stack": (lambda x, y: T.stack([x, y], axis=1), lambda x, y: np.stack([x, y], 1),
              (A, B)),
    "stack of arguments": (lambda x, y: T.stack(x, y), lambda x, y: np.stack([x, y]),
                           (A, B)),
    "stacklists": (lambda x: T.stacklists([[x[0], 1.0], [x[1], x[2]]]),
                   lambda x: np.array([[x[0], 1.0], [x[1], x[2]]]), (V,)),
    "vertical_stack": (lambda x, y: T.vertical_stack(x, y),
                       lambda x, y: np.vstack([x, y]), (A, B)),
    "horizontal_stack": (lambda x, y: T.horizontal_stack(x, y),
                         lambda x, y: np.hstack([x, y]), (A, B)),
    "split": (lambda x: T.split(x, [1, 2], 2, axis=1),
              lambda x: [x[:, :1], x[:, 1:]], (A,)),
    "tile": (lambda x: T.tile(x, (2, 1)), lambda x: np.tile(x, (2, 1)), (A,)),
    "repeat": (lambda x: T.repeat(x, 2, axis=1), lambda x: x.repeat(2, 1), (A,)),
    "roll": (lambda x: T.roll(x, 1), lambda x: np.roll(x, 1), (V,)),
    "roll by a variable": (lambda x, k: T.roll(x, k[0], axis=0),
                           lambda x, k: np.roll(x, k[0]), (V, I3)),
    "transpose": (lambda x: x.T, np.transpose, (A,)),
    "swapaxes": (lambda x: T.swapaxes(x, 0, 1), np.transpose, (A,)),
    "addbroadcast": (lambda x, y: T.addbroadcast(x, 0) + y, lambda x, y: x + y,
                     (A[:1], B)),
    "patternbroadcast": (lambda x, y: T.patternbroadcast(x, (True, False)) + y,
                         lambda x, y: x + y, (A[:1], B)),
    "unbroadcast": (lambda x: T.unbroadcast(x, 0), np.copy, (A,)),
    "specify_shape": (lambda x: T.specify_shape(x, (2, 3)), np.copy, (A,)),
    "dot": (lambda x, v: T.dot(x, v), np.dot, (A, V)),
    "tensordot": (lambda x, y: T.tensordot(x, y, axes=[[1], [1]]),
                  lambda x, y: x @ y.T, (A, B)),
    "outer": (lambda x, y: T.outer(x, y), np.outer, (V, V + 1)),
    "batched_dot": (lambda x, y: T.batched_dot(x[None], y.T[None]),
                    lambda x, y: (x @ y.T)[None], (A, B)),
    "batched_dot of vectors": (lambda x, y: T.batched_dot(x, y),
                               lambda x, y: (x * y).sum(1), (A, B)),
    "batched_dot by vectors": (
        lambda x, y: T.batched_dot(T.stack([x, 2 * x], 0), y),
        lambda x, y: np.stack([x @ y[0], 2 * x @ y[1]]), (A, B)),
    "batched_tensordot": (
        lambda x, y: T.batched_tensordot(x, y, axes=[[1], [1]]),
        lambda x, y: (x * y).sum(1), (A, B)),
    "diag": (lambda v: T.diag(v), np.diag, (V,)),
    "diag of a matrix": (lambda m: T.diag(m), np.diag, (S,)),
    "diagonal": (lambda m: m.diagonal(), np.diag, (S,)),
    "trace": (lambda m: T.nlinalg.trace(m), np.trace, (S,)),
    "tril": (lambda m: T.tril(m), np.tril, (S,)),
    "triu": (lambda m: T.triu(m, 1), lambda m: np.triu(m, 1), (S,)),
    "squeeze": (lambda x: T.squeeze(x.sum(axis=0, keepdims=True)),
                lambda x: x.sum(0), (A,)),
    # made from lengths
    "zeros_like": (lambda x: T.zeros_like(x), np.zeros_like, (A,)),
    "ones_like": (lambda x: x.ones_like(), np.ones_like, (A,)),
    "zeros": (lambda x: T.zeros((x.shape[1], 2)), lambda x: np.zeros((3, 2)), (A,)),
    "zeros by a variable": (lambda i: T.zeros((i[0], 2)), lambda i: np.zeros((2, 2)),
                            (I3,)),
    "ones of numbers": (lambda x: T.ones((2, 2)) + x[0], lambda x: 1 + x[0] * np.ones(
        (2, 2)), (V,)),
    "alloc": (lambda x: T.alloc(x[0], 2, x.shape[0]), lambda x: np.full((2, 3), x[0]),
              (V,)),
    "arange": (lambda x: T.arange(x.shape[0]), lambda x: np.arange(3), (V,)),
    "arange by variables": (lambda i: T.arange(i[2], i[0] * 4, 2),
                            lambda i: np.arange(1, 8, 2), (I3,)),
    "eye": (lambda x: T.eye(x.shape[0]), lambda x: np.eye(3), (V,)),
    "eye of numbers": (lambda x: T.eye(2, 3, 1) * x, lambda x: np.eye(2, 3, 1) * x,
                       (V,)),
    "identity_like": (lambda m: T.identity_like(m), np.eye, (np.array(3),)),
    # indices
    "set_subtensor": (lambda x: T.set_subtensor(x[1:], 9.0),
                      lambda x: np.array([x[0], 9.0, 9.0]), (V,)),
    "set row": (lambda x, v: T.set_subtensor(x[0], v),
                lambda x, v: np.stack([v, x[1]]), (A, V)),
    "inc_subtensor": (lambda x, i: T.inc_subtensor(x[i], 1.0),
                      lambda x, i: x + np.array([2.0, 0.0, 1.0]),
                      (V, np.array([0, 0, 2]))),
    "rows by index": (lambda x, i: x[T.arange(i.shape[0]), i],
                      lambda x, i: x[[0, 1, 2], i], (S, I3)),
    "reversed": (lambda x: x[::-1], lambda x: x[::-1], (A,)),
    "take": (lambda x, i: T.take(x, i, axis=1), lambda x, i: x[:, i], (A, I3)),
    "permute rows": (lambda x, i: T.permute_row_elements(x, i), lambda x, i: x[:, i],
                     (A, I3)),
    "inverse_permutation": (lambda i: T.inverse_permutation(i), np.argsort, (I3,)),
    "diff": (lambda x: T.extra_ops.diff(x, axis=0), lambda x: np.diff(x, axis=0),
             (A,)),
    "to_one_hot": (lambda i: T.extra_ops.to_one_hot(i, 4), lambda i: np.eye(4)[i],
                   (I3,)),
    "fill_diagonal": (lambda m: T.fill_diagonal(m, 7.0),
                      lambda m: m - np.diag(np.diag(m)) + 7 * np.eye(3), (S,)),
    "searchsorted": (lambda x: T.searchsorted(T.sort(x), 0.7),
                     lambda x: np.searchsorted(np.sort(x), 0.7), (V,)),
    "unravel_index": (lambda i: T.unravel_index(i + 3, (2, 3)),
                      lambda i: list(np.unravel_index(i + 3, (2, 3))), (I3,)),
    "ravel_multi_index": (lambda i: T.ravel_multi_index((i, i), (3, 3)),
                          lambda i: np.ravel_multi_index((i, i), (3, 3)), (I3,)),
    # methods
    "zeros_like method": (lambda x: x.zeros_like(), np.zeros_like, (A,)),
    "fill": (lambda x: T.fill(x, 2.0), lambda x: np.full_like(x, 2), (A,)),
    "sum of ints": (lambda i: i.sum(dtype="int64", acc_dtype="int64"), np.sum, (I3,)),
    "method mean": (lambda x: x.mean(axis=[0, 1]), np.mean, (A,)),
    "method repeat": (lambda x: x.repeat(2), lambda x: x.repeat(2), (V,)),
    "method clip": (lambda x: x.clip(0, 1), lambda x: x.clip(0, 1), (A,)),
    "method argmax": (lambda x: x.argmax(axis=-1), lambda x: x.argmax(-1), (A,)),
    "astype": (lambda x: x.astype("float32"), lambda x: x.astype("float32"), (A,)),
    # linear algebra
    "inverse": (lambda m: T.nlinalg.matrix_inverse(m), np.linalg.inv, (S,)),
    "inverse by its op": (lambda m: T.nlinalg.MatrixInverse()(m), np.linalg.inv, (S,)),
    "pinv": (lambda m: T.nlinalg.pinv(m), np.linalg.pinv, (A,)),
    "det": (lambda m: T.nlinalg.det(m), np.linalg.det, (S,)),
    "eigh": (lambda m: T.nlinalg.eigh(m)[0], np.linalg.eigvalsh, (S,)),
    "svd": (lambda m: T.nlinalg.svd(m, full_matrices=False)[1],
            lambda m: np.linalg.svd(m)[1], (A,)),
    "qr": (lambda m: abs(T.nlinalg.qr(m)[1]), lambda m: abs(np.linalg.qr(m)[1]), (S,)),
    "nlinalg norm": (lambda m: T.nlinalg.norm(m, 2), lambda m: np.linalg.norm(m, 2),
                     (A,)),
    "matrix_dot": (lambda x, m, v: T.nlinalg.matrix_dot(x, m, v),
                   lambda x, m, v: x @ m @ v, (A, S, V)),
    "matrix_power": (lambda m: T.nlinalg.matrix_power(m, 3),
                     lambda m: m @ m @ m, (S,)),
    "extract_diag": (lambda m: T.nlinalg.extract_diag(m), np.diag, (S,)),
    "alloc_diag": (lambda v: T.nlinalg.AllocDiag()(v), np.diag, (V,)),
    "cholesky": (lambda m: T.slinalg.cholesky(m), np.linalg.cholesky, (S,)),
    "cholesky upper": (lambda m: T.slinalg.Cholesky(lower=False)(m),
                       lambda m: np.linalg.cholesky(m).T, (S,)),
    "solve": (lambda m, v: T.slinalg.solve(m, v), np.linalg.solve, (S, V)),
    "solve_lower_triangular": (
        lambda m, v: T.slinalg.solve_lower_triangular(T.tril(m), v),
        lambda m, v: np.linalg.solve(np.tril(m), v), (S, V)),
    "expm": (lambda m: T.slinalg.expm(m), scipy.linalg.expm, (S,)),
    "kron": (lambda m, v: T.slinalg.kron(m, v), np.kron, (S, A)),
    "eigvalsh": (lambda m: T.slinalg.eigvalsh(m, T.eye(3) * 2),
                 lambda m: np.linalg.eigvalsh(m) / 2, (S,)),
}  # fmt: skip
ROWS["identity_like"] = (lambda m: T.identity_like(m), lambda m: np.eye(3), (S,))


@pytest.mark.parametrize("name", ROWS)
def test_a_name_computes_what_numpy_does(name: str) -> None:
    build, want, values = ROWS[name]
    close(run(build, *values), want(*values))


SMOOTH = """
    mean; var; max; norm 2; norm 3; prod; dimshuffle; reshape by lengths; flatten to 2;
    concatenate; stack; split; tile; repeat; roll by a variable; addbroadcast; dot;
    tensordot; outer; batched_dot by vectors; diag; trace; tril; alloc; set_subtensor;
    inc_subtensor; rows by index; reversed; take; permute rows; switch; clip; second;
    inverse; det; cholesky; solve; expm; kron; cumsum; sort; topk
"""


@pytest.mark.parametrize("name", [name.strip() for name in SMOOTH.split(";")])
def test_gradients_agree_with_differences(name: str) -> None:
    build, _, values = ROWS[name]
    xs = symbols(values)
    made = build(*xs)
    made = T.stack([part.sum() for part in made]) if isinstance(made, list) else made
    cost = (made * T.cos(T.arange(made.flatten().shape[0]).reshape(made.shape))).sum()
    wrt = [x for x in xs if x.dtype.kind == "f"]
    f = theano.function(xs, cost, on_unused_input="ignore")
    slopes = T.grad(cost, wrt, disconnected_inputs="ignore")
    grads = theano.function(xs, slopes, on_unused_input="ignore")
    got = grads(*values)
    floats = [i for i, v in enumerate(values) if np.asarray(v).dtype.kind == "f"]
    for i, g in zip(floats, got, strict=True):
        for place in np.ndindex(values[i].shape):
            ends = []
            for h in (1e-5, -1e-5):
                moved = [np.array(v) for v in values]
                moved[i][place] += h
                ends.append(f(*moved))
            slope = (ends[0] - ends[1]) / 2e-5
            assert abs(slope - g[place]) < 1e-6 * max(1.0, abs(slope)), (name, i, place)


@pytest.mark.parametrize("options", [{}, {"truncate_gradient": 9}])
def test_in_place_operators_in_a_step_bind_the_name_again(options: Any) -> None:
    # A variable of Theano has no memory that another name could see.
    m = T.dmatrix("m")

    def double(a: Any, h: Any) -> Any:
        h += a
        h *= 2
        return h

    def alias(a: Any, h: Any) -> Any:
        b = a
        b += h
        v = b[1:]
        v += 7
        return a + b

    rows = np.array([[1.0, 1.0], [2.0, 2.0], [4.0, 4.0]])
    truth = {double: [[2, 2], [8, 8], [24, 24]], alias: [[2, 2], [6, 6], [14, 14]]}
    for step, expected in truth.items():
        stacks, _ = theano.scan(
            step, sequences=m, outputs_info=T.zeros_like(m[0]), **options
        )
        run = theano.function([m], [stacks, theano.grad(T.sum(stacks), m)])
        found, slope = run(rows)
        np.testing.assert_array_equal(found, expected)
        # What a row adds to its own step and, as the state goes on, to later ones.
        weights = {double: [2 + 4 + 8, 2 + 4, 2], alias: [2 + 2 + 2, 2 + 2, 2]}[step]
        np.testing.assert_array_equal(slope, np.outer(weights, [1, 1]))
    for fold in (theano.reduce, theano.foldl):
        last, _ = fold(double, m, T.zeros_like(m[0]))
        np.testing.assert_array_equal(theano.function([m], last)(rows), [24, 24])
