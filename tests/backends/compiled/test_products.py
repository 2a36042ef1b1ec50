"""Products of matrices, of stacks and of many operands: BLAS, registers, loops."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.backends.compiled.programs import (
    check_equal,
    check_program,
    compile_graph,
    list_machines,
    trace,
)
from workbench.backends.compiled import products
from workbench.backends.compiled.products import ProductStep
from workbench.backends.compiled.steps import HostStep, KernelStep


def count_kinds(program: Any) -> tuple[int, int, int]:
    steps = program.plan.steps
    kinds = (ProductStep, KernelStep, HostStep)
    return tuple(sum(isinstance(s, kind) for s in steps) for kind in kinds)  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("dtype", "small"), [("f8", 0), ("f8", 2**15), ("f4", 2**15), ("c16", 0)]
)
@pytest.mark.parametrize("m", [1, 2, 5, 8, 11])
@pytest.mark.parametrize("some", [3, pytest.param(7, marks=pytest.mark.long)])
def test_matrices_of_every_layout(
    m: int, dtype: str, small: int, some: int, rng: np.random.Generator,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Of each pair of lengths some of the layouts, drawn anew; in the long run all."""
    monkeypatch.setattr(products, "SMALL", small)
    forms: list[Any] = []
    args: list[Any] = []
    for k, n in itertools.product([1, 2, 4, 7, 9], [1, 2, 4, 7, 16, 33]):
        at = len(args)
        for shape in ((m, k), (k, m), (k, n), (n, k)):
            args.append(rng.normal(size=shape).astype(dtype))
        layouts = [
            lambda x, i=at: x[i] @ x[i + 2],
            lambda x, i=at: x[i + 1].T @ x[i + 2],
            lambda x, i=at: x[i] @ x[i + 3].T,
            lambda x, i=at: x[i + 1].T @ x[i + 3].T,
            lambda x, i=at: x[i][0] @ x[i + 2],
            lambda x, i=at: x[i] @ x[i + 2][:, 0],
            lambda x, i=at: x[i][:, ::-1] @ x[i + 2][::-1],
        ]  # fmt: skip
        forms += [layouts[j] for j in rng.permutation(len(layouts))[:some]]
    graph = trace(lambda *x: tuple(f(x) for f in forms), args)
    check_program(graph, args, 64)


def test_vectors_of_every_width(rng: np.random.Generator) -> None:
    args = [rng.normal(size=s) for s in ((6, 7), (7, 5), (5, 7), (7,), (7, 16))]
    graph = trace(lambda a, b, c, x, d: (a @ b, a @ c.T, a @ x, x @ d), args)
    expected = graph.run(args)
    for machine in list_machines():
        made = compile_graph(graph, args, machine).run(args)
        for got, want in zip(made, expected, strict=True):
            check_equal(got, want, 64)


@pytest.mark.parametrize(
    "shapes",
    [((4, 3, 5), (4, 5, 2)), ((4, 3, 5), (5, 2)), ((3, 5), (4, 5, 2)),
     ((2, 1, 3, 5), (4, 5, 2)), ((4, 3, 5), (5,)), ((5,), (4, 5, 2)),
     ((2, 3, 40, 50), (2, 1, 50, 30)), ((300, 4, 4), (300, 4, 4)),
     ((3, 1, 7), (3, 7, 1))],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("dtype", ["f8", "c8"])
def test_stacks(shapes: Any, dtype: str, rng: np.random.Generator) -> None:
    args = [rng.normal(size=s).astype(dtype) for s in shapes]
    program = check_program(trace(lambda a, b: a @ b, args), args, 128)
    assert count_kinds(program)[2] == 0


def test_many_products_are_shared_among_cores(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    args = [rng.normal(size=(2003, 8, 8)), rng.normal(size=(2003, 8, 8))]
    program = check_program(trace(lambda a, b: a @ b, args), args, 64)
    assert program is not None
    made = []
    for count in ("1", "3"):
        monkeypatch.setenv("WORKBENCH_THREADS", count)
        made.append(program.run(args)[0])
    np.testing.assert_array_equal(*made)


@pytest.mark.parametrize("dtype", ["i8", "i4", "u1", "?"])
def test_whole_numbers_wrap_as_in_numpy(dtype: str, rng: np.random.Generator) -> None:
    args = [rng.integers(-(2**31), 2**31, s).astype(dtype) for s in ((3, 4, 5), (5, 6))]
    graph = trace(
        lambda a, b: (a @ b, a[0, 0] @ b, a @ b[:, 0], a[0, 0] @ b[:, 0]), args
    )
    assert count_kinds(check_program(graph, args))[2] == 0


EINSUMS = [
    "ij,jk->ik", "ij,jk->ki", "ij,kj->ik", "ij,ij->", "ij,ij->i", "ij,ij->ij",
    "ij,j->i", "i,j->ij", "i,j->ji", "bij,bjk->bik", "bij,bkj->kbi", "bij,bij->b",
    "bij,bj->bi", "ij->ji", "ij->", "ij->j", "ii->i", "ii->", "iij->ji", "ijk,jk->i",
    "ij,jk,kl->il", "ij,jk,kl->li", "i,i,i->", "i,j,k->kij", "ij,jk,ik->",
    "ab,cd->abcd", "abij,bjc->aic", "nk,kij,nj->ni", "i,->i", "ij,k->ik", "bij,cj->bci",
    "ij,jj->i",
]  # fmt: skip


@pytest.mark.parametrize("subscripts", EINSUMS)
@pytest.mark.parametrize("dtype", ["f8", "c16"])
def test_einsums(subscripts: str, dtype: str, rng: np.random.Generator) -> None:
    lengths = dict(zip("abcdijklmn", (2, 3, 4, 5, 6, 6, 7, 2, 3, 8), strict=True))
    lengths["j"] = 5 if "ii" not in subscripts and "jj" not in subscripts else 6
    terms = subscripts.split("->")[0].split(",")
    args = [rng.normal(size=[lengths[c] for c in t]).astype(dtype) for t in terms]
    f = lambda *xs: np.einsum(subscripts, *xs)  # noqa: E731
    program = check_program(trace(f, args), args, 64)
    assert count_kinds(program)[2] == 0
    if dtype == "f8":

        def slopes(*xs: Any) -> Any:
            return wb.grad(lambda *a: np.sum(np.tanh(f(*a))), tuple(range(len(xs))))(
                *xs
            )

        program = check_program(trace(slopes, args), args, 256)
        assert count_kinds(program)[2] == 0


def test_an_axis_of_length_1_is_spread(rng: np.random.Generator) -> None:
    args = [rng.normal(size=(1, 4)), rng.normal(size=(3, 4)), rng.normal(size=(3, 1))]
    for subscripts in ("ij,ij,ij->ij", "ij,ij,ij->j", "ij,kj,kl->ikl"):
        graph = trace(lambda *x, s=subscripts: np.einsum(s, *x), args)
        check_program(graph, args, 64)


def test_contractions_of_several_axes(rng: np.random.Generator) -> None:
    args = [rng.normal(size=(3, 4, 5)), rng.normal(size=(5, 4, 2)), rng.normal(size=4)]

    def contract(a: Any, b: Any, v: Any) -> Any:
        return (
            np.tensordot(a, b, ((1, 2), (1, 0))), np.tensordot(a, b, ((2,), (0,))),
            np.tensordot(a, v, ((1,), (0,))), np.inner(v, a[:, :, 0]), np.outer(v, v),
            np.kron(v, a[0]), np.vecdot(a[:, :, 0], v), np.tensordot(v, v, 0),
        )  # fmt: skip

    assert count_kinds(check_program(trace(contract, args), args, 64))[2] == 0


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("lengths", [(9, 4), (4, 9), (7, 7), (6, 1), (300, 90)])
@pytest.mark.parametrize("dtype", ["f8", "c16", "i4"])
def test_convolutions(
    lengths: tuple[int, int], mode: Any, dtype: str, rng: np.random.Generator
) -> None:
    args = [(5 * rng.normal(size=n)).astype(dtype) for n in lengths]
    graph = trace(
        lambda a, v: (np.convolve(a, v, mode), np.correlate(a, v, mode)), args
    )
    program = check_program(graph, args, 256)
    assert (count_kinds(program)[2] > 0) == (min(lengths) > 64)
