"""Sparse arrays: as variables, as constants, in nests, against dense ones."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg

import workbench as wb
import workbench.backends.numpy as backend
from tests.chunks import parametrize_chunks
from workbench.core.tensor import Tensor
from workbench.errors import (
    ConvergenceError,
    DtypeError,
    GradientLostError,
    MatrixError,
    ShapeError,
    TraceError,
    UsageError,
)
from workbench.ops.sparse.tensor import SparseTensor
from workbench.scipy import sparse
from workbench.scipy.sparse.linalg import factorized, norm, spsolve

KINDS = [
    f"{name}_{sort}"
    for sort in ("array", "matrix")
    for name in ("csr", "csc", "coo", "bsr", "dia", "lil", "dok")
]
D = np.array(
    [[1.0, 0, 2, 0], [0, -3, 0, 0.5], [0, 0, 0, 0], [4, 0, 0.7, 0], [0, 1.5, 0, -2]]
)
X = np.array([0.1, -0.2, 0.3, 0.4])
B = np.linspace(-1, 1, 5)


def made(kind: str, dtype: Any = float) -> Any:
    if kind.startswith("bsr"):
        return getattr(sp, kind)(D.astype(dtype), blocksize=(1, 2))
    return getattr(sp, kind)(D.astype(dtype))


def places(s: Any) -> Any:
    """Where values are stored, zeros too."""
    marked = s.tocoo() if s.format in ("lil", "dok") else s.copy()
    marked.data[...] = 1
    return marked.toarray() != 0


def loss(S: Any) -> Any:
    return np.sum(np.tanh(S @ X) ** 2) + np.sum(np.sin(B @ S))


@pytest.mark.parametrize("kind", KINDS)
def test_a_gradient_has_the_class_and_the_pattern(kind: str) -> None:
    S = made(kind)
    dense = wb.grad(loss)(D)
    value, g = wb.value_and_grad(loss)(S)
    assert type(g) is type(S)
    assert g.shape == S.shape
    assert g.dtype == S.dtype
    assert value == pytest.approx(loss(D), rel=1e-14)
    stored = places(S)
    np.testing.assert_allclose(g.toarray(), np.where(stored, dense, 0), rtol=1e-13)
    assert (places(g) == stored).all()
    t = S.copy() * 0.5
    _, tangent = wb.jvp(loss, (S,), (t,))
    np.testing.assert_allclose(tangent, np.sum(dense * D) / 2, rtol=1e-13)


@pytest.mark.parametrize("kind", KINDS)
def test_results_are_those_of_scipy(kind: str) -> None:
    """Every operator and method: class, shape and values, and the derivative of D."""
    S = made(kind)
    matrix = kind.endswith("matrix")
    W = np.arange(1.0, 21).reshape(5, 4) / 7
    programs: dict[str, Callable[[Any], Any]] = {
        "scaled": lambda s: s * 2.0 / 3.0 + s,
        "negative": lambda s: -s - s.T.T,
        "transposed": lambda s: s.T,
        "entries": lambda s: s.multiply(W),
        "column": lambda s: s.multiply(W[:, :1]),
        "row": lambda s: s.multiply(W[0]),
        "quotient": lambda s: s / W,
        "square": lambda s: s.multiply(s),
        "cube": lambda s: s.power(3),
        "gram": lambda s: s @ s.T,
        "sum of two": lambda s: s + sp.csr_array(W).T.tocsr().T * 1.0 if not matrix
        else s + sp.csr_matrix(W),
        "tanh": lambda s: abs(s).tanh().expm1(),
        "rows": lambda s: s.tocsr()[[3, 0, 3]],
        "slice": lambda s: s.tocsr()[1:, ::2],
        "mask": lambda s: s.tocsc()[:, np.array([True, False, True, True])],
        "reshaped": lambda s: s.reshape(4, 5),
        "coo": lambda s: s.tocoo(),
        "csc": lambda s: s.tocsc(),
        "sum": lambda s: s.sum(),
        "sums of columns": lambda s: s.sum(axis=0),
        "sums of rows": lambda s: s.sum(axis=1),
        "mean": lambda s: s.mean(axis=1),
        "diagonal": lambda s: s.diagonal(),
        "trace": lambda s: s.trace(),
        "dense": lambda s: s.toarray(),
        "plus dense": lambda s: s + W,
        "minus dense": lambda s: W - s,
        "one": lambda s: s.tocsr()[3, 2] * 2,
        "none": lambda s: s.tocsr()[2, 2] * 2,
        "dot": lambda s: s.dot(X),
        "conj": lambda s: s.conj(),
    }  # fmt: skip
    for name, program in programs.items():
        out: list[Any] = []

        def watched(s: Any, program: Any = program, out: Any = out) -> Any:
            y = program(s)
            out.append(y)
            return y

        expected = program(S)
        y, pullback = wb.vjp(watched, S)
        assert isinstance(out[0], (Tensor, SparseTensor)), name
        assert sp.issparse(y) == sp.issparse(expected), name
        assert y.shape == np.shape(expected), name
        assert y.dtype == expected.dtype, name
        plain = expected.toarray() if sp.issparse(expected) else np.asarray(expected)
        got = y.toarray() if sp.issparse(y) else y
        np.testing.assert_allclose(got, plain, rtol=1e-14, atol=1e-14, err_msg=name)
        if sp.issparse(y):
            assert isinstance(y, sp.sparray) == isinstance(expected, sp.sparray), name
            if y.format in ("lil", "dok"):
                continue  # SciPy has no array of their values
            y.data[...] = np.cos(np.arange(y.data.size)).reshape(y.data.shape)
            seed, weights = y, y.toarray()
        else:
            seed = weights = np.cos(np.arange(np.size(got))).reshape(np.shape(got))
            seed = seed[()]
        (g,) = pullback(seed)
        h, moved = 1e-6, S.copy()
        moved = moved * (1 + h)
        back = S * (1 - h)
        ahead, behind = program(moved), program(back)
        difference = (ahead - behind) / (2 * h)
        if sp.issparse(difference):
            difference = difference.toarray()
        pairing = np.sum(weights * np.asarray(difference))
        assert np.sum(g.toarray() * D) == pytest.approx(pairing, abs=1e-7), name


def test_scipys_constants_meet_tensors() -> None:
    S = sp.csr_array(D)
    T = np.cos(np.arange(20.0)).reshape(5, 4) + 2
    dense = {
        "S * t": (lambda t: (S * t).sum(), lambda t: np.sum(D * t)),
        "t * S": (lambda t: np.sum(t * S), lambda t: np.sum(D * t)),
        "S / t": (lambda t: (S / t).sum(), lambda t: np.sum(D / t)),
        "S + t": (lambda t: np.sum(np.sin(S + t)), lambda t: np.sum(np.sin(D + t))),
        "t - S": (lambda t: np.sum(np.sin(t - S)), lambda t: np.sum(np.sin(t - D))),
        "S @ t": (lambda t: np.sum((S @ t.T) ** 2), lambda t: np.sum((D @ t.T) ** 2)),
        "t @ S": (lambda t: np.sum((t.T @ S) ** 2), lambda t: np.sum((t.T @ D) ** 2)),
        "dot": (lambda t: np.sum(S.dot(t.T) ** 2), lambda t: np.sum((D @ t.T) ** 2)),
        "np.dot": (
            lambda t: np.sum(np.dot(t.T, S) ** 2),
            lambda t: np.sum((t.T @ D) ** 2),
        ),
    }
    for name, (ours, truth) in dense.items():
        y, g = wb.value_and_grad(ours)(T)
        assert y == pytest.approx(truth(T), rel=1e-14), name
        np.testing.assert_allclose(g, wb.grad(truth)(T), rtol=1e-13, err_msg=name)
    y = wb.vjp(lambda t: S * t[0, 0], T)[0]
    assert isinstance(y, sp.csr_array)
    matrix = sp.csr_matrix(D)
    np.testing.assert_allclose(wb.grad(lambda x: np.sum(matrix * x))(X), D.sum(0))


def test_second_order_and_jacobians() -> None:
    S = sp.csr_array(D)
    stored = S.tocoo()
    index = np.ravel_multi_index(stored.coords, D.shape)
    whole = wb.hessian(loss)(D).reshape(20, 20)
    np.testing.assert_allclose(
        wb.hessian(loss)(S), whole[np.ix_(index, index)], rtol=1e-11, atol=1e-13
    )
    rows = wb.jacobian(lambda D: np.sin(D @ X))(D).reshape(5, 20)
    for mode in ("fwd", "rev"):
        block = wb.jacobian(lambda S: np.sin(S @ X), mode=mode)(S)
        np.testing.assert_allclose(block, rows[:, index], rtol=1e-13)
    # A sparse result: one row for each stored value.
    block = wb.jacobian(lambda S: S.power(2))(S)
    np.testing.assert_allclose(block, np.diag(2 * S.data))
    product = wb.hvp(loss, S, S)
    assert isinstance(product, sp.csr_array)
    np.testing.assert_allclose(
        product.data, whole[np.ix_(index, index)] @ S.data, rtol=1e-11
    )
    third = wb.grad(lambda S: np.sum(wb.grad(lambda S: (S.power(3)).sum())(S).data))
    assert third(S).data == pytest.approx(6 * S.data)


def test_in_nests() -> None:
    S = sp.csc_array(D)
    params = {"layer": [S, X], "scale": 2.0}

    def f(p: Any) -> Any:
        S, x = p["layer"]
        return np.sum((S @ x) ** 2) * p["scale"]

    g = wb.grad(f)(params)
    truth = wb.grad(f)({"layer": [D, X], "scale": 2.0})
    assert isinstance(g["layer"][0], sp.csc_array)
    np.testing.assert_allclose(
        g["layer"][0].toarray(), np.where(D != 0, truth["layer"][0], 0)
    )
    np.testing.assert_allclose(g["layer"][1], truth["layer"][1])
    both = wb.grad(lambda x, S: np.sum(S @ x), argnums=(0, 1))(X, S)
    assert isinstance(both[1], sp.csc_array)
    # A function that does not depend on it: stored zeros.
    none = wb.grad(lambda S: 1.0)(S)
    assert none.nnz == S.nnz
    assert not none.data.any()


def test_vjp_and_jvp_give_and_take_scipys() -> None:
    S = sp.csr_array(D)
    y, pullback = wb.vjp(lambda S: S * 3.0, S)
    assert isinstance(y, sp.csr_array)
    (g,) = pullback(S)
    np.testing.assert_allclose(g.toarray(), 3 * D)
    y, t = wb.jvp(lambda S: S.T @ S, (S,), (S,))
    np.testing.assert_allclose(t.toarray(), 2 * D.T @ D)
    other = sp.csr_array(np.roll(D, 1))
    with pytest.raises(ShapeError, match=r"csr_array 5×4, 8 stored"):
        wb.jvp(lambda S: S * 3.0, (S,), (other,))


def test_a_gradient_does_not_share_its_indices() -> None:
    S = sp.csr_array(D)
    g = wb.grad(lambda S: np.sum(S @ np.array([0.0, 1, 1, 1])))(S)
    g.eliminate_zeros()
    np.testing.assert_array_equal(S.toarray(), D)


def test_batches() -> None:
    S = sp.csr_array(D)
    batch = np.cos(np.arange(12.0)).reshape(3, 4)
    f = wb.vmap(lambda S, x: np.tanh(S @ x), in_axes=(None, 0))
    np.testing.assert_allclose(f(S, batch), np.tanh(batch @ D.T))
    per_example = wb.vmap(
        wb.grad(lambda S, x: np.sum((S @ x) ** 2)), in_axes=(None, 0)
    )(S, batch)
    for values, x in zip(per_example, batch, strict=True):
        truth = wb.grad(lambda S, x=x: np.sum((S @ x) ** 2))(S)
        np.testing.assert_allclose(values, truth.data)
    # A batch of arrays of one pattern is a batch of stored values.
    values = np.stack([S.data, 2 * S.data, S.data**2])

    def built(data: Any) -> Any:
        return sparse.csr_array((data, S.indices, S.indptr), shape=S.shape) @ X

    np.testing.assert_allclose(
        wb.vmap(built)(values), np.stack([built(v) for v in values])
    )
    with pytest.raises(UsageError, match=r"vmap.*in_axes=None"):
        wb.vmap(lambda S: S @ X)(S)


def test_places_that_are_stored_twice() -> None:
    rows, columns = np.array([0, 1, 0, 1]), np.array([1, 1, 1, 0])
    S = sp.coo_array((np.array([1.0, 2.0, 3.0, 4.0]), (rows, columns)), shape=(2, 2))
    x = np.array([10.0, 1.0])
    g = wb.grad(lambda S: np.sum((S @ x) ** 2))(S)
    assert g.nnz == 4
    np.testing.assert_allclose(g.data, [8.0, 84.0, 8.0, 840.0])
    # A function of entries is one of their sums.
    g = wb.grad(lambda S: S.power(2).sum())(S)
    np.testing.assert_allclose(g.data, [8.0, 4.0, 8.0, 8.0])
    g = wb.grad(lambda S: (S * S).sum() + S.tocsr()[0, 1])(S)
    np.testing.assert_allclose(g.data, [9.0, 4.0, 9.0, 8.0])
    whole = wb.jacobian(lambda S: S.toarray())(S)
    np.testing.assert_allclose(whole[0, 1], [1, 0, 1, 0])


def test_dtypes_stay() -> None:
    S = made("csr_array", np.float32)
    x = X.astype(np.float32)
    y, g = wb.value_and_grad(lambda S: np.sum((S * 2.0 @ x) ** 2) / 3)(S)
    assert y.dtype == np.float32
    assert g.dtype == np.float32
    C = sp.csr_array(D * (1 + 2j))
    g = wb.grad(lambda S: np.sum(np.abs(S @ X) ** 2))(C)
    truth = wb.grad(lambda S: np.sum(np.abs(S @ X) ** 2))(D * (1 + 2j))
    np.testing.assert_allclose(g.toarray(), np.where(D != 0, truth, 0))
    with pytest.raises(DtypeError, match=r"S is of dtype int64.*S\.astype\(float\)"):
        wb.grad(lambda S: np.sum(S @ X))(made("csr_array", int))


def test_vectors() -> None:
    v = sp.coo_array(np.array([0.0, 2.0, 0.0, 3.0]))
    g = wb.grad(lambda v: (v @ X) ** 2)(v)
    np.testing.assert_allclose(g.toarray(), 2 * (v @ X) * np.array([0, -0.2, 0, 0.4]))
    S = sp.csr_array(D)
    y, _ = wb.vjp(lambda S: S[3], S)
    assert y.shape == (4,)
    np.testing.assert_allclose(y.toarray(), D[3])
    g = wb.grad(lambda S: S[3] @ X + np.sum(S[3].toarray() ** 2))(S)
    np.testing.assert_allclose(g.toarray()[3], (X + 2 * D[3]) * (D[3] != 0))


def test_makers() -> None:
    e = np.array([1.0, 2.0, 3.0])
    cases: dict[str, Callable[[Any, Any], Any]] = {
        "csr": lambda m, d: m.csr_array((d, ([0, 1, 1], [2, 0, 1])), shape=(2, 3)),
        "csc": lambda m, d: m.csc_array((d, [0, 1, 0], [0, 1, 2, 3])),
        "twice": lambda m, d: m.csr_array((d, ([0, 0, 1], [1, 1, 0])), shape=(2, 3)),
        "coo_matrix": lambda m, d: m.coo_matrix((d, ([0, 1, 1], [2, 0, 1]))),
        "dia": lambda m, d: m.dia_array((d[None], [0]), shape=(3, 4)),
        "diags": lambda m, d: m.diags_array([d, d[1:] * 2], offsets=[0, -1]),
        "diags format": lambda m, d: m.diags([d, d], [0, 2], (3, 5), "csr"),
        "diags scalar": lambda m, d: m.diags([d[0], d[1]], [0, 1], shape=(3, 3)),
        "diagonal": lambda m, d: m.diags_array(d),
        "kron": lambda m, d: m.kron(m.diags_array(d), sp.csr_array(D), format="csr"),
        "kronsum": lambda m, d: m.kronsum(m.diags_array(d), sp.eye_array(2)),
        "block_diag": lambda m, d: m.block_diag([m.diags_array(d), D]),
        "hstack": lambda m, d: m.hstack([m.diags_array(d), sp.eye_array(3)], "csc"),
        "block": lambda m, d: m.block_array(
            [[m.diags_array(d), None], [None, m.diags_array(d * 2)]]
        ),
        "bmat": lambda m, d: m.bmat([[m.diags(d), m.diags(d * 2)]], format="csr"),
        "tril": lambda m, d: m.tril(m.diags_array([d, d[1:]], offsets=[0, 1])),
        "triu": lambda m, d: m.triu(m.diags([d, d[1:]], [0, -1]), 0, "csr"),
    }  # fmt: skip
    for name, case in cases.items():
        truth = case(sp, e)
        y, pullback = wb.vjp(lambda d, case=case: case(sparse, d), e)
        np.testing.assert_allclose(y.toarray(), truth.toarray(), err_msg=name)
        assert isinstance(y, sp.sparray) == isinstance(truth, sp.sparray), name
        columns = [
            (case(sp, e + h).toarray() - case(sp, e - h).toarray()) / 2e-3
            for h in 1e-3 * np.eye(3)
        ]
        y.data[...] = np.sin(np.arange(1, y.data.size + 1)).reshape(y.data.shape)
        weights = y.toarray()
        expected = [np.sum(weights * c) for c in columns]
        np.testing.assert_allclose(pullback(y)[0], expected, atol=1e-9, err_msg=name)
        assert type(case(sparse, e)) is type(truth), name
    rows, columns, values = sparse.find(sp.csr_array(D))
    assert len(rows) == len(columns) == len(values) == 8
    assert sparse.issparse(sp.csr_array(D))
    assert sparse.eye_array is sp.eye_array


def test_solving() -> None:
    A = sp.csc_array(D[[0, 1, 3, 4]] + 5 * np.eye(4))
    b = np.array([1.0, -1.0, 0.5, 2.0])

    def f(A: Any, b: Any) -> Any:
        return np.sum(np.sin(spsolve(A, b)))

    def g(A: Any, b: Any) -> Any:
        return np.sum(np.sin(np.linalg.solve(A, b)))

    dense = A.toarray()
    inverse = np.linalg.inv(dense)
    x = inverse @ b
    u = inverse.T @ np.cos(x)
    ga, gb = wb.grad(f, argnums=(0, 1))(A, b)
    assert isinstance(ga, sp.csc_array)
    np.testing.assert_allclose(gb, u, rtol=1e-13)
    np.testing.assert_allclose(
        ga.toarray(), np.where(dense != 0, -np.outer(u, x), 0), rtol=1e-13
    )
    h = 1e-5
    moved = wb.grad(f)(A * (1 + h), b).data - wb.grad(f)(A * (1 - h), b).data
    np.testing.assert_allclose(
        wb.hvp(lambda A: f(A, b), A, A).data, moved / (2 * h), rtol=1e-7
    )
    solve = factorized(A)
    np.testing.assert_allclose(wb.jacobian(solve)(b), inverse, rtol=1e-12)
    np.testing.assert_allclose(spsolve(A, b), x)
    integers = sp.csc_array(np.array([[2, 1], [0, 4]]))
    np.testing.assert_allclose(
        wb.jacobian(lambda b: spsolve(integers, b))(np.ones(2)),
        [[0.5, -0.125], [0, 0.25]],
    )


def test_norms() -> None:
    S = sp.csr_array(D)
    for order in (None, "fro", 1, -1, np.inf, -np.inf):
        y, g = wb.value_and_grad(lambda S, order=order: norm(S, order))(S)
        assert y == pytest.approx(scipy.sparse.linalg.norm(S, order)), order
        if order is None:
            np.testing.assert_allclose(g.data, S.data / y)
    with pytest.raises(TraceError, match=r"norm.*toarray"):
        wb.grad(lambda S: norm(S, 2))(S)


def test_numpys_functions() -> None:
    S = sp.csr_array(D)
    g = wb.grad(lambda S: np.sum(np.tanh(S)) + np.trace(S) + np.sum(np.dot(S, X)))(S)
    whole = 1 / np.cosh(D) ** 2 + np.eye(5, 4) + X
    np.testing.assert_allclose(g.toarray(), np.where(D != 0, whole, 0))
    g = wb.grad(lambda S: np.mean(np.abs(S)) + np.add(S, D).sum())(S)
    np.testing.assert_allclose(g.data, np.sign(S.data) / 20 + 1)


def test_programs_are_shown() -> None:
    text = str(wb.trace(lambda S, x: np.tanh(S @ x))(sp.csr_array(D), X))
    assert "S      = input" in text
    assert "sparse_matmul(S, x, pattern=csr_array 5×4, 8 stored)" in text
    out: list[Any] = []
    wb.trace(lambda S: out.append(S * 2.0) or (S * 2.0).sum())(sp.csr_array(D))
    assert repr(out[0]) == "<SparseTensor csr_array float64[5×4], 8 stored>"


@pytest.mark.parametrize(
    ("f", "error", "text"),
    [
        (lambda S: S + 1.0, NotImplementedError, r"fill it.*toarray\(\) \+ c"),
        (lambda S: np.cos(S), TraceError, r"np\.cos.*toarray"),
        (lambda S: np.linalg.norm(S), TraceError, r"norm.*toarray"),
        (lambda S: S == 0, TraceError, r"equal.*toarray"),
        (lambda S: 1 / S, TraceError, r"division by a sparse.*toarray"),
        (lambda S: S.argmax(), TraceError, r"csr_array\.argmax is not known"),
        (lambda S: np.asarray(S), TraceError, r"plain array.*toarray"),
        (lambda S: S @ np.ones(3), ShapeError, r"sparse_matmul.*as many columns"),
        (lambda S: S @ S, ShapeError, r"4 columns, the second 5 rows.*\.T"),
        (lambda S: S + S.T, ShapeError, r"have no sum"),
        (lambda S: S * np.ones(3), ShapeError, r"stretched"),
        (lambda S: sp.csr_array(D).multiply(S), TraceError, r"S \* x"),
        (lambda S: S.data * sp.csr_array(D), ShapeError, r"stretched"),
        (lambda S: sp.csr_array(D).multiply(S.data), TraceError, r"S \* x"),
        (lambda S: np.add(S.data, sp.csr_array(D)), TraceError, r"the operator"),
        (lambda S: sparse.csr_array(S.toarray()), TraceError, r"dense Tensor.*which"),
        (lambda S: spsolve(S, X), ShapeError, r"square"),
        (lambda S: spsolve(S, sp.csr_array(D)), DtypeError, r"b\.toarray"),
        (lambda S: float(S.sum()), GradientLostError, r"x\.value"),
        (lambda S: bool(S), ValueError, "truth"),
        (lambda S: S.power(0), NotImplementedError, "ones"),
    ],
)
def test_refusals(f: Callable[..., Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        wb.grad(f)(sp.csr_array(D))


def test_a_singular_system() -> None:
    A = sp.csc_array(np.array([[1.0, 2.0], [2.0, 4.0]]))
    with pytest.raises(MatrixError, match="singular"):
        wb.grad(lambda A: np.sum(spsolve(A, np.ones(2))))(A)


def test_factors_are_those_of_the_values_in_a_buffer_that_is_used_again() -> None:
    A, b = sp.csr_array(np.array([[4.0, 1.0], [1.0, 3.0]])), np.array([1.0, 2.0])
    run = backend.compile(wb.trace(spsolve)(A, b))
    values = A.data.copy()
    for factor in (1.0, 2.0):
        values[:] = factor * A.data
        (found,) = run(values, b)
        np.testing.assert_allclose(found, np.linalg.solve(factor * A.toarray(), b))


# What is not a sum or a product


@pytest.mark.parametrize("kind", ["csr_array", "csc_array", "coo_array", "csr_matrix"])
def test_extremes_are_those_of_scipy(kind: str) -> None:
    S = made(kind)
    dense = D.copy()
    dense[2, 1] = 0.0
    for name in ("max", "min"):
        for axis in (None, 0, 1, -1, (0, 1)):

            def f(S: Any, name: str = name, axis: Any = axis) -> Any:
                y = getattr(S, name)(axis)
                assert isinstance(y, (Tensor, SparseTensor))
                return y.toarray() if isinstance(y, SparseTensor) else y

            y, _ = wb.jvp(f, (S,), (S,))
            with_scipy = getattr(S, name)(axis=None if axis == (0, 1) else axis)
            expected = with_scipy.toarray() if sp.issparse(with_scipy) else with_scipy
            np.testing.assert_array_equal(y, expected)
    number = wb.grad(lambda S: np.sum(S.maximum(-1.0).toarray()))(S)
    np.testing.assert_array_equal(number.toarray()[D != 0], (D > -1.0)[D != 0])


#: Calls of methods, right and wrong ones: what SciPy answers, or that it refuses.
CALLS: dict[str, Callable[[Any], Any]] = {
    **{
        f"{name}(axis={axis!r})": lambda s, name=name, axis=axis: getattr(s, name)(axis)
        for name in ("sum", "mean", "max", "min")
        for axis in (None, 0, 1, -1, -2, 2, -3, 5, 1.5, "0", (1, 1), (0, 5), True)
    },
    "sum(dtype)": lambda s: s.sum(1, dtype=np.float32),
    "mean(dtype)": lambda s: s.mean(1, dtype=np.float32),
    "sum(out)": lambda s: s.sum(0, out=np.zeros(7)),
    "mean(out)": lambda s: s.mean(0, out=np.zeros(7)),
    "max(out)": lambda s: s.max(0, out=np.zeros(7)),
    "max(explicit)": lambda s: s.max(0, explicit=True),
    "min(explicit)": lambda s: s.min(explicit=True),
    "min of rows (explicit)": lambda s: s.min(1, explicit=True),
    "transpose(None)": lambda s: s.transpose(),
    "transpose((1, 0))": lambda s: s.transpose((1, 0)),
    "transpose((2, 0))": lambda s: s.transpose((2, 0)),
    "reshape(n)": lambda s: s.reshape(np.int64(4), np.int64(5)),
    "reshape((n, m))": lambda s: s.reshape((2, 10)),
    "reshape(-1)": lambda s: s.reshape(10, -1),
    "reshape by columns": lambda s: s.reshape(4, 5, order="F"),
    "reshape(3)": lambda s: s.reshape(3, 3),
    "reshape by name": lambda s: s.reshape(4, 5, order="K"),
    "toarray(order)": lambda s: s.toarray(order="F"),
    "toarray(order K)": lambda s: s.toarray(order="K"),
    "toarray(out)": lambda s: s.toarray(out=np.zeros((7, 1))),
    "diagonal(k)": lambda s: s.diagonal(k=-1),
    "trace(offset)": lambda s: s.trace(offset=1),
    "astype": lambda s: s.astype(np.float32),
    "astype(safe)": lambda s: s.astype(np.float32, casting="safe"),
    "astype(casting)": lambda s: s.astype(complex, casting="safe"),
    "asformat": lambda s: s.asformat("coo"),
    "asformat(none)": lambda s: s.asformat("xyz"),
    "tobsr": lambda s: s.tobsr(blocksize=(5, 2)),
    "tobsr that does not fit": lambda s: s.tobsr(blocksize=(2, 3)),
    "tolil": lambda s: s.tolil(),
    "todok": lambda s: s.todok(),
    "power(2)": lambda s: s.power(2),
    "power(0)": lambda s: s.power(0),
    "power of arrays": lambda s: s.power(np.ones(4)),
    "gram ** 2": lambda s: (s @ s.T) ** 2,
    "gram ** -1": lambda s: (s @ s.T) ** -1.5,
    "a product with a number": lambda s: s @ 2.0,
    "a product of lengths": lambda s: s @ np.ones(7),
    "dot(number)": lambda s: s.dot(2.0),
    "round": lambda s: round(s, 1),
    "nanmax": lambda s: s.tocsr().nanmax(),
    "rows": lambda s: sparse.vstack(list(s.tocsr())),
    "set": lambda s: s.tocsr().__setitem__((0, 5), 1.0),
}  # fmt: skip

#: What SciPy does and a traced array refuses in words: `out`, and entries in place.
IN_WORDS = {
    "nanmax", "toarray(out)", "sum(out)", "mean(out)", "set", "sum(axis=True)",
    "mean(axis=True)",
}  # fmt: skip


KINDS_OF_CALLS = "csr_array", "csc_array", "coo_array", "csr_matrix"


@parametrize_chunks(
    "name kind", {f"{n}-{kind}": (n, kind) for n in CALLS for kind in KINDS_OF_CALLS}
)
def test_methods_answer_or_refuse_as_scipy(name: str, kind: str) -> None:
    program, S = CALLS[name], made(kind)
    try:
        expected = program(S)
    except Exception:
        expected = None
    if expected is None or name in IN_WORDS:
        with pytest.raises(Exception, match=r"[a-z]{3}") as caught:
            wb.vjp(program, S)
        assert "SparseTensor" not in str(caught.value)
        return
    y, _ = wb.vjp(program, S)
    assert sp.issparse(y) == sp.issparse(expected)
    assert y.dtype == expected.dtype
    dense = expected.toarray() if sp.issparse(expected) else np.asarray(expected)
    got = y.toarray() if sp.issparse(y) else np.asarray(y)
    np.testing.assert_allclose(got, dense, rtol=1e-6)


def test_sums_and_means_have_the_derivatives_of_dense_ones() -> None:
    S, w = made("csr_array"), np.arange(1.0, 5)
    for f in (
        lambda s: np.sum(s.mean(axis=-2) * w),
        lambda s: np.sum(s.sum(axis=-2) ** 2),
        lambda s: s.mean(axis=(0, -1)),
    ):
        got = wb.grad(f)(S).toarray()
        np.testing.assert_allclose(got, np.where(D != 0, wb.grad(f)(D), 0))


def test_many_rows_of_many_lengths() -> None:
    """An arrow: one row and one column are full; nothing of its area is made."""
    n = 20_000
    one = np.zeros(n, int), np.arange(n)
    S = sp.coo_array((np.arange(n) + 1.0, one), shape=(n, n)).tocsr()
    S = (S + S.T + sp.eye_array(n)).tocsr()
    g = wb.grad(lambda S: S.max(axis=1).sum())(S)
    assert g.nnz == S.nnz
    assert g.sum() == n
    assert g[0, n - 1] == 1.0


def test_among_equal_entries_the_gradient_is_shared() -> None:
    S = sp.csr_array([[2.0, 0, 2.0], [0, -1.0, 0]])
    g = wb.grad(lambda S: S.max(axis=1).sum())(S)
    # In the second row the zeros that are not stored are the largest.
    np.testing.assert_array_equal(g.toarray(), [[0.5, 0, 0.5], [0, 0, 0]])


def test_eigenvalues_of_a_large_matrix() -> None:
    """Of the chain they are known: 2 - 2 cos(i π / (n + 1))."""
    n = 2000
    K = sp.diags_array([2.0 * np.ones(n), -np.ones(n - 1)], offsets=[0, 1]).tocsr()
    K = (K + K.T - sp.diags_array(K.diagonal())).tocsr()
    eigsh = sparse.linalg.eigsh
    lowest = lambda K: eigsh(K, 2, sigma=0.0, return_eigenvectors=False)  # noqa: E731
    angle = np.arange(1, 3) * np.pi / (n + 1)
    (values,) = wb.vjp(lowest, K)[0:1]
    np.testing.assert_allclose(values, 2 - 2 * np.cos(angle), rtol=1e-6)
    g = wb.grad(lambda K: lowest(K)[0])(K)
    v = np.sin(np.arange(1, n + 1) * angle[0]) * np.sqrt(2 / (n + 1))
    rows, columns = K.tocoo().coords
    np.testing.assert_allclose(g.data, v[rows] * v[columns], atol=1e-9)


def test_repeated_eigenvalues_have_derivatives_of_the_values_alone() -> None:
    S = sp.diags_array([1.0, 1.0, 3.0, 4.0]).tocsr()
    eigsh = sparse.linalg.eigsh
    total = wb.grad(lambda S: np.sum(eigsh(S, 2, which="SA")[0]))(S)
    np.testing.assert_allclose(total.data, [1, 1, 0, 0], atol=1e-12)
    with pytest.raises(MatrixError, match="eigenvalue 0 is repeated"):
        wb.grad(lambda S: np.sum(eigsh(S, 2, which="SA")[1][:, 0] ** 3))(S)


def test_factors_outside_a_derivative_are_those_of_scipy() -> None:
    A = sp.csc_array(np.diag([2.0, 3.0]) + np.eye(2, k=1))
    ours, theirs = sparse.linalg.splu(A), scipy.sparse.linalg.splu(A)
    for trans in "NTH":
        np.testing.assert_allclose(
            ours.solve(np.ones(2), trans), theirs.solve(np.ones(2), trans)
        )
    np.testing.assert_array_equal(ours.L.toarray(), theirs.L.toarray())
    assert ours.shape == theirs.shape


def make_parts(count: int, size: int, seed: int) -> Any:
    """A block diagonal matrix, and a chain between the first two blocks."""
    rng = np.random.default_rng(seed)
    blocks = [
        np.eye(size) * 4 + rng.uniform(0.1, 1, (size, size)) for _ in range(count)
    ]
    made = sp.block_diag(blocks, format="lil")
    made[0, size] = 0.5
    return sp.csr_array(made.tocsr())


@pytest.mark.parametrize("name", ["expm", "inv"])
@pytest.mark.parametrize("count", [1, 6])
def test_functions_of_a_matrix_keep_its_parts(name: str, count: int) -> None:
    """Values and three orders of derivatives, of full results and of sparse ones."""
    f = getattr(sparse.linalg, name)
    S = make_parts(count, 2, 5) if count > 1 else sp.csr_array(D[:2, :2] + np.eye(2))
    dense = scipy.linalg.expm if name == "expm" else np.linalg.inv
    y = wb.vjp(f, S)[0]
    assert y.nnz == (4 * count + 4 if count > 1 else 2)
    np.testing.assert_allclose(y.toarray(), dense(S.toarray()), atol=1e-12)
    weights = np.cos(np.arange(S.shape[0] ** 2)).reshape(S.shape)
    wide = wb.scipy.linalg.expm if name == "expm" else np.linalg.inv
    cost = lambda S: np.sum(np.sin(f(S).toarray()) * weights)  # noqa: E731
    full = lambda A: np.sum(np.sin(wide(A)) * weights)  # noqa: E731
    stored = places(S)
    g, truth = wb.grad(cost)(S).toarray(), wb.grad(full)(S.toarray())
    np.testing.assert_allclose(g, np.where(stored, truth, 0), atol=1e-10)
    t = S * 0.3
    _, moved = wb.jvp(cost, (S,), (t,))
    np.testing.assert_allclose(moved, np.sum(truth * t.toarray()), atol=1e-10)
    if count > 1:
        second = wb.jvp(lambda S: wb.grad(cost)(S).data, (S,), (t,))[1]
        want = wb.jvp(wb.grad(full), (S.toarray(),), (t.toarray(),))[1]
        np.testing.assert_allclose(second, want[stored], atol=1e-9)


def test_functions_of_many_parts_make_nothing_of_the_whole() -> None:
    """40,000 rows: a dense matrix would not fit."""
    S = make_parts(20_000, 2, 0)
    g = wb.grad(lambda S: np.sum(sparse.linalg.inv(S).data))(S)
    small = make_parts(4, 2, 0)
    want = wb.grad(lambda S: np.sum(sparse.linalg.inv(S).data))(small)
    np.testing.assert_allclose(g.data[:12], want.data[:12], rtol=1e-9)
    assert g.nnz == S.nnz


def test_reach_of_a_function_of_a_triangular_matrix() -> None:
    """Nothing is stored where nothing can be."""
    S = sp.csr_array(np.triu(np.ones((4, 4))) + np.diag([1.0, 2, 3, 4]))
    for f in (sparse.linalg.expm, sparse.linalg.inv):
        y = wb.vjp(f, S)[0]
        assert y.nnz == 10
        np.testing.assert_allclose(y.toarray(), f(S).toarray(), atol=1e-9)
    # Without a stored diagonal the inverse may be anywhere.
    swap = sp.csr_array([[0.0, 2.0], [4.0, 0.0]])
    y = wb.vjp(sparse.linalg.inv, swap)[0]
    np.testing.assert_allclose(y.toarray(), [[0, 0.25], [0.5, 0]])


@pytest.mark.parametrize(
    ("f", "error", "text"),
    [
        (lambda S: S.maximum(1.0), NotImplementedError, r"np.maximum\(S.toarray\(\)"),
        (lambda S: S.maximum(S.sum()), TraceError, "number that varies"),
        (lambda S: S.minimum(S[:, :1]), ShapeError, "Give both the same shape"),
        (lambda S: (1j * S).max(), DtypeError, "have no order"),
        (lambda S: S.max(axis=5), ShapeError, "from -2 to 1"),
        (lambda S: S.min(axis=-3), ShapeError, "has 2 axes"),
        (lambda S: S.max(axis=1.5), TypeError, "1.5 is not an axis"),
        (lambda S: S.max(axis=True), TypeError, "True is not an axis"),
        (lambda S: S.max(axis=(0, 0)), ShapeError, "one axis twice"),
        (lambda S: S.max(axis=(0, -2)), ShapeError, "one axis twice"),
        (lambda S: S.max(axis=()), ShapeError, "has no axis"),
        (lambda S: S.max(out=np.zeros(3)), UsageError, r"made = S.max\(\.\.\.\)"),
        (
            lambda S: S.maximum(np.nan),
            NotImplementedError,
            r"np.maximum\(S.toarray\(\)",
        ),
        (
            lambda S: S.minimum(np.nan),
            NotImplementedError,
            r"np.minimum\(S.toarray\(\)",
        ),
        (lambda S: sparse.linalg.eigsh(S, "2"), UsageError, "Write an integer"),
        (lambda S: sparse.linalg.eigsh(S, 1, which="XX"), UsageError, "'LM', 'SM'"),
        (lambda S: sparse.linalg.eigsh(S, 3), ShapeError, "eigh.*for all eigenvalues"),
        (lambda S: sparse.linalg.eigsh(S, 1, v0=1), UsageError, "v0=.*Leave it out"),
        (lambda S: sparse.linalg.eigsh(1j * S, 1), DtypeError, "A is complex"),
        (lambda S: sparse.linalg.cg(S, np.ones(2)), ShapeError, r"b of \(2,\)"),
        (
            lambda S: sparse.linalg.cg(S, np.ones(3), callback=print),
            UsageError,
            "callback=",
        ),
        (
            lambda S: sparse.linalg.gmres(S, np.ones(3), rtol=1e-15, maxiter=1),
            ConvergenceError,
            "has not converged.*preconditioner",
        ),
        (lambda S: sparse.linalg.expm(S[:2]), ShapeError, "must be square"),
        (lambda S: sparse.linalg.splu(S).L, TraceError, "have no derivative here"),
        (lambda S: sparse.linalg.splu(S, "x"), TraceError, r"Write splu\(A\)"),
        (
            lambda S: sparse.linalg.splu(S).solve(np.ones(3), "X"),
            UsageError,
            "write N, T or H",
        ),
    ],
)
def test_what_functions_of_matrices_refuse(
    f: Callable[..., Any], error: type[Exception], text: str
) -> None:
    S = sp.csr_array([[2.0, 1.0, 0], [1.0, 3.0, 1e9], [0, 1e-9, 1e12]])
    with pytest.raises(error, match=text):
        wb.vjp(f, S)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_eigenvalues_have_the_dtype_of_scipys(dtype: Any) -> None:
    S = sp.csr_array(np.diag([1, 2, 5, 9]).astype(dtype))
    wanted = scipy.sparse.linalg.eigsh(S, 2)
    found = wb.trace(lambda S: sparse.linalg.eigsh(S, 2))(S)
    run = backend.compile(found)(S.data)
    assert [x.dtype for x in run] == [x.dtype for x in wanted]
    np.testing.assert_allclose(run[0], wanted[0], rtol=1e-6)
    if dtype is np.float32:
        gradient = wb.grad(lambda S: np.sum(sparse.linalg.eigsh(S, 1)[0]))(S)
        assert gradient.dtype == dtype
        np.testing.assert_allclose(gradient.data, [0, 0, 0, 1], atol=1e-6)


@pytest.mark.parametrize("trans", ["N", "T"])
def test_factors_with_settings_solve_for_tensors(trans: str) -> None:
    A = sp.csc_array([[2.0, 1.0], [0.0, 4.0]])
    b, weights = np.array([3.0, 4.0]), np.array([1.0, 2.0])
    factors = sparse.linalg.splu(A, permc_spec="NATURAL")
    A.data[:] = 0  # the factors are of what it was
    by_scipy = scipy.sparse.linalg.splu(
        sp.csc_array([[2.0, 1.0], [0.0, 4.0]]), permc_spec="NATURAL"
    )
    np.testing.assert_array_equal(factors.solve(b, trans), by_scipy.solve(b, trans))
    np.testing.assert_array_equal(factors.perm_c, by_scipy.perm_c)
    gradient = wb.grad(lambda b: weights @ factors.solve(b, trans))(b)
    other = {"N": "T", "T": "N"}[trans]
    np.testing.assert_allclose(gradient, by_scipy.solve(weights, other))


def test_linalg_needs_no_import_of_its_own() -> None:
    code = (
        "import workbench as wb, numpy as np, scipy.sparse as sp;"
        "A = sp.csc_array(np.eye(2));"
        "print(wb.scipy.sparse.linalg.spsolve(A, np.ones(2)))"
    )
    told = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert told.stdout.strip() == "[1. 1.]"


@pytest.mark.parametrize(
    "places", [([0, 2], [1, 2]), ([0, 1], [1, 2]), ([2, 1], [0, 0]), ([], [])]
)
def test_the_exponential_of_a_matrix_without_a_stored_diagonal(places: Any) -> None:
    def fill(d: Any) -> Any:
        return sparse.coo_array((d, places), shape=(3, 3))

    def exponential(d: Any) -> Any:
        return sparse.linalg.expm(fill(d)).toarray()

    d = np.array([0.5, 0.3])[: len(places[0])]
    whole = np.zeros((3, 3))
    whole[places] = d
    for k in range(len(d)):
        along = np.zeros((3, 3))
        along[places[0][k], places[1][k]] = 1
        expected = scipy.linalg.expm_frechet(whole, along, compute_expm=False)
        for mode in ("fwd", "rev"):
            found = wb.jacobian(exponential, mode=mode)(d)[..., k]
            np.testing.assert_allclose(found, expected, atol=1e-14)
    hessian = wb.hessian(lambda d: exponential(d).sum())(d)
    assert hessian.shape == (len(d), len(d))
    values = lambda d: sparse.linalg.expm(fill(d)).data  # noqa: E731
    width = len(values(d))
    assert wb.vmap(values)(np.ones((1, len(d)))).shape == (1, width)
    assert wb.vmap(values)(np.ones((0, len(d)))).shape == (0, width)


def test_stored_values_are_written_to() -> None:
    """Those of a copy are its own."""
    A = sp.csr_array(np.array([[1.0, 2.0], [0.0, 3.0]]))

    def f(x: Any, make: Any) -> Any:
        S = make((x * 1.0, A.indices, A.indptr), shape=(2, 2))
        T = S.copy()
        S.data[0] = x[1] * x[2]
        S.data *= 2
        T.data[1:] += x[0]
        return np.sum((S + T) @ np.array([1.0, 10.0]))

    x = np.array([0.6, 1.5, 2.5])
    traced = lambda x: f(x, sparse.csr_array)  # noqa: E731
    value, gradient = wb.value_and_grad(traced)(x)
    np.testing.assert_allclose(value, f(x, sp.csr_array))
    h = 1e-6
    truth = [
        (f(x + h * e, sp.csr_array) - f(x - h * e, sp.csr_array)) / (2 * h)
        for e in np.eye(3)
    ]
    np.testing.assert_allclose(gradient, truth, rtol=1e-7)
