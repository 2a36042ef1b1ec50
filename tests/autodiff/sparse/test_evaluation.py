"""Sparse Jacobians and Hessians equal the dense ones, and say what is wrong."""

from __future__ import annotations

import re

import numpy as np
import pytest
import scipy.sparse

import workbench as wb
from workbench.autodiff.sparse.colouring import GENERAL
from workbench.errors import (
    GradientError,
    OverrideError,
    ShapeError,
    TraceError,
    UsageError,
)

POINT = np.array([0.3, -1.2, 2.0, 0.7, 1.1])


def chain(x):
    return x[1:] * np.sin(x[:-1])


def energy(x):
    return np.sum(x[1:] ** 3 * x[:-1]) + x[0] * x[-1]


def places(matrix):
    return wb.SparsityPattern.from_scipy(matrix)


def dense_of(matrix):
    return matrix.toarray()


@pytest.fixture
def bidiagonal():
    return np.eye(4, 5) + np.eye(4, 5, k=1)


# What is given


@pytest.mark.parametrize("format", ["csr", "csc", "coo"])
@pytest.mark.parametrize("colouring", ["auto", *GENERAL])
def test_a_jacobian_in_each_format(bidiagonal, format, colouring):
    J = wb.jacobian(chain, sparse=bidiagonal, format=format, colouring=colouring)
    found = J(POINT)
    assert isinstance(found, getattr(scipy.sparse, f"{format}_array"))
    np.testing.assert_allclose(dense_of(found), wb.jacobian(chain)(POINT), rtol=1e-14)
    if colouring != "auto":
        assert J.colouring.mode == colouring


@pytest.mark.parametrize("format", ["csr", "csc", "coo"])
@pytest.mark.parametrize("colouring", ["auto", "star", "columns", "rows"])
def test_a_hessian_in_each_format(format, colouring):
    H = wb.hessian(energy, sparse=True, format=format, colouring=colouring)
    expected = wb.hessian(energy)(POINT)
    np.testing.assert_allclose(dense_of(H(POINT)), expected, rtol=1e-13, atol=1e-13)
    np.testing.assert_array_equal(H.pattern.toarray(), expected != 0)


def test_zeros_are_stored_so_that_the_structure_stays(bidiagonal):
    J = wb.jacobian(chain, sparse=bidiagonal)
    at_zero, elsewhere = J(np.zeros(5)), J(POINT)
    assert at_zero.nnz == elsewhere.nnz == 8
    assert np.count_nonzero(at_zero.data) == 0
    np.testing.assert_array_equal(at_zero.indices, elsewhere.indices)


def test_modes_of_jacobian_say_what_is_coloured(bidiagonal):
    forward = wb.jacobian(chain, mode="fwd", sparse=bidiagonal).prepare(POINT)
    reverse = wb.jacobian(chain, mode="rev", sparse=bidiagonal).prepare(POINT)
    assert (forward.colouring.mode, reverse.colouring.mode) == ("columns", "rows")


def test_a_colouring_of_ones_own(bidiagonal):
    own = places(bidiagonal).colouring("rows", "natural")
    J = wb.jacobian(chain, sparse=own.pattern, colouring=own)
    np.testing.assert_allclose(dense_of(J(POINT)), wb.jacobian(chain)(POINT))
    assert J.colouring is own
    assert wb.jacobian(chain, sparse=True, colouring=own).pattern is own.pattern
    with pytest.raises(UsageError, match="the colouring is one of another pattern"):
        wb.jacobian(chain, sparse=np.ones((4, 5)), colouring=own)


def test_several_arguments_and_outputs_stand_side_by_side():
    def f(a, scale, b):
        return {"first": a * np.exp(b[0]), "second": scale * b[1:]}

    a, b = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([0.5, -1.0, 2.0])
    found = wb.jacobian(f, argnums=(0, 2), sparse=True)(a, 3.0, b)
    blocks = wb.jacobian(f, argnums=(0, 2))(a, 3.0, b)
    expected = np.block(
        [
            [np.reshape(block, (-1, n)) for block, n in zip(row, (4, 3), strict=True)]
            for row in blocks.values()
        ]
    )
    np.testing.assert_allclose(dense_of(found), expected)
    np.testing.assert_allclose(
        dense_of(wb.jacobian(f, argnames="b", sparse=True)(a, 3.0, b=b)),
        expected[:, 4:],
    )


def test_cross_blocks_of_a_hessian():
    def f(x, y):
        return np.sum(x * y[:2] ** 2)

    x, y = np.array([1.0, 2.0]), np.array([3.0, 4.0, 5.0])
    found = dense_of(wb.hessian(f, argnums=(0, 1), sparse=True)(x, y))
    blocks = wb.hessian(f, argnums=(0, 1))(x, y)
    np.testing.assert_allclose(found, np.block([list(row) for row in blocks]))


# Prepared once


def test_it_is_prepared_once_for_each_shape(bidiagonal):
    calls = []

    def f(x):
        calls.append(x.shape)
        return chain(x)

    J = wb.jacobian(f, sparse=bidiagonal)
    J(POINT)
    count = len(calls)
    for k in range(5):
        np.testing.assert_allclose(
            dense_of(J(POINT + k)), wb.jacobian(chain)(POINT + k)
        )
    assert len(calls) == count
    found = wb.jacobian(f, sparse=True)
    assert found(POINT).shape == (4, 5)
    assert found(POINT[:3]).shape == (2, 3)
    assert found.pattern.shape == (2, 3)
    assert found(POINT).shape == (4, 5)


def test_settings_of_the_function_are_part_of_what_is_prepared():
    J = wb.jacobian(lambda x, power: x**power, sparse=True)
    np.testing.assert_allclose(J(POINT, 2).diagonal(), 2 * POINT)
    np.testing.assert_allclose(J(POINT, 3).diagonal(), 3 * POINT**2)
    np.testing.assert_allclose(J(POINT, power=1).diagonal(), 1)


def test_pattern_and_colouring_are_known_once_it_is_prepared(bidiagonal):
    J = wb.jacobian(chain, sparse=True)
    with pytest.raises(UsageError, match="is not prepared yet"):
        _ = J.pattern
    with pytest.raises(UsageError, match=r"J\.prepare\(x\)"):
        J.explain()
    assert J.prepare(POINT) is J
    assert J.pattern == places(bidiagonal)
    np.testing.assert_array_equal(J.colours, [0, 1, 0, 1, 0])
    assert repr(J) == "<sparse jacobian of chain>"
    given = wb.jacobian(chain, sparse=bidiagonal)
    assert given.pattern == places(bidiagonal)


@pytest.mark.parametrize("format", ["csr", "csc", "coo"])
def test_out_is_written_over(bidiagonal, format):
    J = wb.jacobian(chain, sparse=bidiagonal, format=format)
    first = J(POINT)
    entries = first.data
    assert J(2 * POINT, out=first) is first
    assert first.data is entries
    np.testing.assert_allclose(dense_of(first), wb.jacobian(chain)(2 * POINT))
    copy = first.copy()  # its places are the same
    np.testing.assert_allclose(dense_of(J(POINT, out=copy)), wb.jacobian(chain)(POINT))


def test_an_out_with_other_places_is_refused_and_left_alone(bidiagonal):
    J = wb.jacobian(chain, sparse=bidiagonal)
    for wrong in (
        J(POINT).tocsc(),
        scipy.sparse.csr_array(np.eye(4, 5)),
        scipy.sparse.csr_array(np.eye(4, 6)),
        np.zeros((4, 5)),
    ):
        before = wrong.copy()
        with pytest.raises(UsageError, match="where those of the jacobian do"):
            J(POINT, out=wrong)
        assert abs(before - wrong).max() == 0
    shrunk = J(np.zeros(5))
    shrunk.eliminate_zeros()
    with pytest.raises(UsageError, match="Give a matrix that this derivative returned"):
        J(POINT, out=shrunk)
    with pytest.raises(UsageError, match="holds float32"):
        wb.jacobian(chain, sparse=bidiagonal)(POINT + 0j, out=J(POINT).astype("f4"))


def test_results_share_no_memory(bidiagonal):
    J = wb.jacobian(chain, sparse=bidiagonal)
    one = J(np.zeros(5))
    one.eliminate_zeros()
    one = J(POINT)
    one.data[:] = 0
    one.indices[:] = 0
    np.testing.assert_allclose(dense_of(J(POINT)), wb.jacobian(chain)(POINT))


def test_a_function_that_looks_at_values_is_recorded_anew():
    def f(x):
        return x**2 if x[0] > 0 else x**3

    J = wb.jacobian(f, sparse=np.eye(5))
    np.testing.assert_allclose(J(POINT).diagonal(), 2 * POINT)
    np.testing.assert_allclose(J(-POINT).diagonal(), 3 * POINT**2)
    with pytest.raises(TraceError, match=r"np\.where"):
        wb.jacobian(f, sparse=True)(POINT)


def test_compiled_code_gives_the_same(bidiagonal):
    pytest.importorskip("llvmlite")
    J = wb.jacobian(chain, sparse=bidiagonal, backend="compiled")
    J(POINT)
    assert J.wait()
    assert J.backend == "compiled"
    np.testing.assert_allclose(dense_of(J(POINT)), wb.jacobian(chain)(POINT))


# Patterns that do not fit


def test_a_pattern_that_is_too_small_is_found_out(bidiagonal):
    bidiagonal[2, 3] = 0
    with pytest.raises(GradientError, match=r"the entry \(2, 3\), which is 0\.9093"):
        wb.jacobian(chain, sparse=bidiagonal)(POINT)
    with pytest.raises(
        GradientError, match=r"entry \(2,\) of the output by entry \(3,"
    ):
        wb.jacobian(chain, sparse=bidiagonal, mode="rev")(POINT)
    H = np.eye(5) + np.eye(5, k=1) + np.eye(5, k=-1)
    with pytest.raises(GradientError, match=r"hessian: .* the entry \((0, 4|4, 0)\)"):
        wb.hessian(energy, sparse=H)(POINT)


def test_the_probe_is_made_once_and_can_be_left_out(bidiagonal):
    J = wb.jacobian(lambda x: np.where(x < 5, x, x[::-1]), sparse=np.eye(5))
    J(POINT)
    J(POINT + 9)  # not looked at again
    missing = np.eye(4, 5)
    assert wb.jacobian(chain, sparse=missing, check=False)(POINT).nnz == 4


def test_a_pattern_that_is_too_large_is_right(bidiagonal):
    found = wb.jacobian(chain, sparse=np.ones((4, 5)))(POINT)
    assert found.nnz == 20
    np.testing.assert_allclose(dense_of(found), wb.jacobian(chain)(POINT))


def test_shapes_and_settings_that_do_not_fit(bidiagonal):
    with pytest.raises(ShapeError, match=r"of shape \(5, 5\), and the matrix has 4"):
        wb.jacobian(chain, sparse=np.eye(5))(POINT)
    with pytest.raises(ShapeError, match=r"Write pattern \| pattern\.T"):
        wb.hessian(energy, sparse=np.triu(np.ones((5, 5))))(POINT)
    with pytest.raises(UsageError, match="sparse='yes'"):
        wb.jacobian(chain, sparse="yes")
    with pytest.raises(UsageError, match="format='dia'"):
        wb.jacobian(chain, sparse=bidiagonal, format="dia")
    with pytest.raises(UsageError, match="has no option 'fromat'"):
        wb.jacobian(chain, sparse=bidiagonal, fromat="csr")
    with pytest.raises(UsageError, match="has_aux=True do not go together"):
        wb.jacobian(chain, sparse=True, has_aux=True)
    with pytest.raises(UsageError, match="no colouring 'lines'"):
        wb.jacobian(chain, sparse=bidiagonal, colouring="lines")(POINT)


# Odd matrices


@pytest.mark.parametrize(
    ("f", "x"),
    [
        (lambda x: x[:0], np.ones(3)),
        (lambda x: x * 2, np.ones(0)),
        (lambda x: np.zeros(4), np.ones(3)),
        (lambda x: np.ones((2, 2)) * x, 2.0),
        (lambda x: np.sum(x**2), np.ones((2, 3))),
        (lambda x: (x > 0).astype(int), np.ones(3)),
        (lambda x: np.outer(x, x), np.arange(3.0)),
    ],
    ids="no-rows no-columns constant number one-row integers dense".split(),
)
def test_matrices_at_the_edges(f, x):
    count, size = np.size(f(x)), np.size(x)
    for sparse in (True, np.ones((count, size))):
        found = wb.jacobian(f, sparse=sparse)(x)
        expected = np.reshape(wb.jacobian(f)(x), (count, size))
        assert found.shape == (count, size)
        np.testing.assert_allclose(dense_of(found), expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, np.complex128])
@pytest.mark.parametrize("colouring", GENERAL)
@pytest.mark.parametrize("part", [np.positive, np.real, np.abs])
def test_dtypes(dtype, colouring, part):
    def f(x):
        return part(x[1:] * x[:-1])

    random = np.random.default_rng(3)
    x = random.normal(size=5) + (1j if np.dtype(dtype).kind == "c" else 0)
    x = x.astype(dtype)
    expected = wb.jacobian(f)(x)
    found = wb.jacobian(f, sparse=np.eye(4, 5) + np.eye(4, 5, k=1), colouring=colouring)
    assert found(x).dtype == expected.dtype
    np.testing.assert_allclose(
        dense_of(found(x)), expected, rtol=100 * np.finfo(dtype).eps
    )


def test_an_argument_that_is_not_differentiated_by_may_be_anything():
    index = np.array([2, 0, 1])
    f = lambda x, index, kind: np.sin(x[index]) if kind == "sin" else x[index]  # noqa: E731
    J = wb.jacobian(f, sparse=True)
    np.testing.assert_allclose(
        dense_of(J(POINT, index, "sin")), wb.jacobian(f)(POINT, index, "sin")
    )
    assert set(J(POINT, index, "plain").data) == {1.0}


# Where it pays


def test_auto_is_sparse_where_it_pays_and_says_why(capsys):
    def f(x):
        return x**2 + np.roll(x, 1)

    x = np.arange(400.0)
    J = wb.jacobian(f, sparse="auto", explain=True)
    assert scipy.sparse.issparse(J(x))
    said = capsys.readouterr().out
    assert said.strip() == J.explain()
    assert "jacobian 400×400: 800 entries can differ from zero (0.5 %)." in said
    assert "Each entry is computed by itself" in said
    assert "Sparse: 800 entries in the place of 160,000." in said
    assert re.search(r"1/\d+ of a dense one; to find .* pays from \d+ calls? on", said)
    few = wb.jacobian(f, sparse="auto")
    np.testing.assert_array_equal(few(x[:20]), wb.jacobian(f)(x[:20]))
    assert "Dense: it is small. 40 entries and a sparse array cost" in few.explain()

    def g(x):
        return np.cumsum(x)[:2].sum() * x

    J = wb.jacobian(g, sparse="auto")
    J(x)
    assert "Sparse: 3 products in the place of 400, and" in J.explain()
    small = wb.jacobian(f, sparse="auto")
    np.testing.assert_array_equal(small(x[:3]), wb.jacobian(f)(x[:3]))
    assert "Dense: 67 % of the entries" in small.explain()
    with pytest.raises(UsageError, match="out= is for a sparse matrix"):
        small(x[:3], out=J(x))
    full = wb.hessian(lambda x: np.sum(x) ** 2, sparse="auto")
    assert isinstance(full(x), np.ndarray)


# Derivatives of it, expressions, overrides


def test_it_can_be_differentiated_again(bidiagonal):
    J = wb.jacobian(chain, sparse=bidiagonal)
    w, v = np.arange(1.0, 5.0), np.arange(2.0, 7.0)
    found = wb.grad(lambda x: w @ (J(x) @ v))(POINT)
    expected = wb.grad(lambda x: w @ (wb.jacobian(chain)(x) @ v))(POINT)
    np.testing.assert_allclose(found, expected)


@pytest.mark.parametrize("sparse", [True, np.ones((5, 5))])
def test_expressions(sparse):
    x = wb.vector("x", shape=5)
    y = np.exp(x) * 2
    J, H = wb.jacobian(y, x, sparse=sparse), wb.hessian(np.sum(y), x, sparse=sparse)
    for one in (J, H):
        assert one.format == "csr"
        found = wb.function([x], one)(POINT)
        np.testing.assert_allclose(dense_of(found), np.diag(2 * np.exp(POINT)))


def test_auto_of_expressions_is_sparse_where_they_are_large():
    for n in (5, 500):
        x = wb.vector("x", shape=n)
        J = wb.jacobian(np.exp(x) * 2, x, sparse="auto")
        at = np.arange(n) / n
        found = wb.function([x], J)(at)
        assert scipy.sparse.issparse(found) == (n == 500)
        made = found if n == 5 else dense_of(found)
        np.testing.assert_allclose(made, np.diag(2 * np.exp(at)))


def test_expressions_of_several_and_of_unknown_length():
    x, z = wb.vector("x", shape=3), wb.vector("z", shape=2)
    J = wb.jacobian([x[:2] * z, z], [x, z], sparse=True, format="coo")
    found = wb.function([x, z], J)(np.arange(3.0), np.array([5.0, 6.0]))
    np.testing.assert_allclose(
        dense_of(found),
        [[5, 0, 0, 0, 0], [0, 6, 0, 0, 1], [0, 0, 0, 1, 0], [0] * 4 + [1]],
    )
    n = wb.vector("n")
    with pytest.raises(ShapeError, match="needs known lengths"):
        wb.jacobian(n * 2, n, sparse=True)


def test_overrides_hold(bidiagonal):
    rules = [wb.override("sin", lambda node, g: 10 * g)]
    J = wb.jacobian(chain, sparse=bidiagonal, overrides=rules)
    expected = wb.jacobian(chain, overrides=rules)(POINT)
    np.testing.assert_allclose(dense_of(J(POINT)), expected)


def test_rules_of_reverse_mode_alone():
    def rule(node, g):
        return 10 * g if np.any(g > 0) else 5 * g

    rules = [wb.override("sin", rule)]
    expected = wb.jacobian(chain, overrides=rules)(POINT)
    J = wb.jacobian(chain, sparse=np.ones((4, 5)), overrides=rules, check=False)
    np.testing.assert_allclose(dense_of(J(POINT)), expected)
    assert J.colouring.mode == "rows"
    with pytest.raises(OverrideError, match="for reverse mode only"):
        wb.jacobian(chain, mode="fwd", sparse=np.ones((4, 5)), overrides=rules)(POINT)


def test_out_is_taken_only_with_the_index_arrays_of_the_derivative():
    f = lambda x: x * np.append(x[1:], 1)  # noqa: E731
    x = np.array([1.0, 2.0, 3.0])
    J = wb.jacobian(f, sparse=True, format="coo")
    with pytest.raises(UsageError, match="do not stand where"):
        J(x, out=J(x).T)
    J = wb.jacobian(f, sparse=True)
    changed = J(x)
    changed.indices[:] = changed.indices[::-1].copy()
    with pytest.raises(UsageError, match="do not stand where"):
        J(x, out=changed)


def test_frozen_index_arrays_are_left_alone():
    J = wb.jacobian(lambda x: x[1:] * x[:-1], sparse=True)
    x = np.array([1.0, 2.0, 3.0])
    for _ in range(6):
        made = J(x)
        np.testing.assert_array_equal(made.toarray(), [[2, 1, 0], [0, 3, 2]])
        made.indices.flags.writeable = False
        del made


# Arguments that choose entries


def take_chosen(x, mask):
    return x[mask] ** 2


def take_indexed(x, index):
    return np.sin(x[index]) * x[0]


def take_both(x, mask, index, scale):
    return scale * np.sum(x[mask]) * x[index] ** 2


MASKS = [POINT > 0.5, POINT < 0.5, np.zeros(5, bool), np.ones(5, bool)]
INDICES = [np.array([0, 3]), np.array([4, 4, 1]), np.array([[2], [0]], np.int8)]


@pytest.mark.parametrize("settings", [{}, {"colouring": "columns"}])
def test_masks_and_indices_are_those_of_each_call(settings):
    by_mask = wb.jacobian(take_chosen, sparse=True, **settings)
    by_index = wb.jacobian(take_indexed, sparse=True, **settings)
    by_both = wb.jacobian(take_both, sparse=True, **settings)
    for _ in range(2):
        for mask in MASKS:
            expected = wb.jacobian(take_chosen)(POINT, mask)
            found = by_mask(POINT, mask)
            assert found.nnz == mask.sum()
            np.testing.assert_allclose(found.toarray(), expected)
            for index in INDICES:
                for scale in (2.0, np.array(3.0)):
                    args = POINT, mask, index, scale
                    expected = wb.jacobian(take_both)(*args).reshape(-1, 5)
                    np.testing.assert_allclose(by_both(*args).toarray(), expected)
        for index in INDICES:
            expected = wb.jacobian(take_indexed)(POINT, index).reshape(-1, 5)
            np.testing.assert_allclose(by_index(POINT, index).toarray(), expected)
    if not settings:
        assert "no products" in by_both.explain()


def test_a_mask_that_the_caller_changes_is_another():
    J, mask = wb.jacobian(take_chosen, sparse=True), POINT > 0
    assert J(POINT, mask).shape == (4, 5)
    mask[:2] = [False, True]
    expected = wb.jacobian(take_chosen)(POINT, mask)
    np.testing.assert_allclose(J(POINT, mask).toarray(), expected)
    by_name = wb.jacobian(lambda x, *, mask: x[mask] ** 2, sparse=True)
    np.testing.assert_allclose(by_name(POINT, mask=mask).toarray(), expected)


def test_masks_of_hessians_and_of_dense_matrices():
    f = lambda x, mask: np.sum(x[mask]) ** 2 + np.sum(x**3)  # noqa: E731
    for sparse in (True, "auto"):
        H = wb.hessian(f, sparse=sparse)
        for mask in MASKS:
            found = H(POINT, mask)
            found = found.toarray() if hasattr(found, "toarray") else found
            np.testing.assert_allclose(found, wb.hessian(f)(POINT, mask))


def test_a_given_pattern_is_probed_where_asked():
    f = lambda x: x * x[::-1] * (x > 0)  # noqa: E731
    J = wb.jacobian(f, sparse=np.eye(2))
    assert J(np.array([-1.0, -2.0])).nnz == 2  # all zeros tell nothing
    J.check(np.array([-3.0, -2.0]))
    with pytest.raises(GradientError, match=r"the entry \(0, 1\)"):
        J.check(np.array([1.0, 2.0]))
    trusting = wb.jacobian(f, sparse=np.eye(2), check=False)
    trusting(np.array([1.0, 2.0]))
    with pytest.raises(GradientError, match="that was given is too small"):
        trusting.check(np.array([1.0, 2.0]))
