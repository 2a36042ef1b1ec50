"""Vectors of repeated values: who hangs on them is told, who does not is not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.stats

import workbench as wb

Rng = np.random.Generator
L = np.linalg


def told(f: Any, A: Any) -> list[tuple[str, str]]:
    return [(one.kind, one.node.op.name) for one in wb.diagnose(f, A)]


def repeated(rng: Rng, values: Any, dtype: Any = float) -> Any:
    """A Hermitian matrix with these eigenvalues."""
    n = len(values)
    kind = scipy.stats.unitary_group if np.dtype(dtype).kind == "c" else (
        scipy.stats.ortho_group
    )  # fmt: skip
    u = kind.rvs(n, random_state=rng)
    a = (u * np.asarray(values)) @ u.conj().T
    return ((a + a.conj().T) / 2).astype(dtype)


def fourth(x: Any) -> Any:
    return np.sum(np.abs(x) ** 4)


@pytest.mark.parametrize(
    ("f", "A", "op"),
    [
        # Each has a gradient that is finite, and nothing was said of it.
        (lambda A: np.sum(L.svd(A)[0]), np.zeros((3, 3)), "svd"),
        (lambda A: fourth(L.svd(A)[0][:, 1]), np.diag([3.0, 0, 0]), "svd"),
        (lambda A: fourth(L.svd(A)[2][1]), np.diag([3.0, 0, 0]), "svd"),
        (lambda A: fourth(L.svd(A)[0][:, 0]), np.eye(3), "svd"),
        (lambda A: fourth(L.eigh(A)[1][:, 0]), np.eye(3), "eigh"),
        (lambda A: fourth(L.eig(A)[1]), np.eye(3), "eig"),
        # What completes a basis.
        (lambda A: fourth(L.svd(A)[0][:, 3]), np.eye(5)[:, :2] * [2, 3], "svd"),
        (
            lambda A: fourth(L.qr(A, mode="complete")[0][:, 3]),
            np.eye(5)[:, :2] + 0.1,
            "qr",
        ),
        # In a stack.
        (
            lambda A: fourth(L.eigh(A)[1][..., 0]),
            np.stack([np.diag([1.0, 2, 3]), np.eye(3)]),
            "eigh",
        ),
    ],
)
def test_what_hangs_on_a_choice_of_rounding_is_told(f: Any, A: Any, op: str) -> None:
    found = wb.diagnose(f, A)
    assert [(one.kind, one.node.op.name) for one in found] == [("undetermined", op)]
    assert found[0].severity == "error"
    assert "the result changes by" in found[0].evidence


@pytest.mark.parametrize("dtype", [float, complex, np.float32])
def test_rotated_too_and_by_its_slope(dtype: Any, rng: Rng) -> None:
    A = repeated(rng, [3, 1, 1, 0.5], dtype)
    weights = rng.normal(size=4).astype(np.float32)

    def f(A: Any) -> Any:
        return np.sum(np.abs(L.eigh(A)[1][:, 1]) ** 4 * weights)

    assert ("undetermined", "eigh") in told(f, A)


@pytest.mark.parametrize("dtype", [float, complex])
def test_what_is_the_same_for_every_choice_is_left_alone(dtype: Any, rng: Rng) -> None:
    A = repeated(rng, [3, 1, 1, 0, 0], dtype)

    def projector(A: Any) -> Any:
        v = L.eigh(A)[1][:, 2:4]
        return fourth(v @ np.conj(v.T))

    assert told(projector, A) == []
    assert told(lambda A: np.sum(L.eigvalsh(A) ** 3), A) == []
    assert told(lambda A: np.sum(L.svd(A, compute_uv=False) ** 3), A) == []
    Q = 2 * L.qr(rng.normal(size=(4, 4)))[0]

    def nearest(A: Any) -> Any:
        u, _, vh = L.svd(A)
        return fourth(u @ vh)

    assert told(nearest, Q) == []
    # Two calls choose the same vectors.
    B = rng.normal(size=(5, 2))
    assert told(lambda A: fourth(L.svd(A)[0][:, 2:] @ L.svd(A)[0][:, 2:].T), B) == []
    assert told(lambda A: fourth(L.eigh(A)[1][:, 1]), repeated(rng, [1, 2, 4])) == []


def test_nearly_equal_values_are_told_by_the_digits_they_leave(rng: Rng) -> None:
    def f(A: Any) -> Any:
        return fourth(L.eigh(A)[1][:, 0] * np.arange(3.0))

    for gap, severity in ((1e-13, "warning"), (1e-9, None)):
        A = repeated(rng, [1, 1 + gap, 3])
        found = [one for one in wb.diagnose(f, A) if one.kind == "undetermined"]
        assert [one.severity for one in found] == [severity][: severity is not None]


def test_a_gradient_that_is_nan_for_it_says_so(rng: Rng) -> None:
    A = np.outer(np.arange(1, 5.0), np.ones(4))
    found = wb.diagnose(lambda A: fourth(L.svd(A)[0][:, 2]), A)
    assert [one.kind for one in found] == ["undetermined"]
    assert "every basis" in found[0].cause.lower()
    assert found[0].sweep in ("forward", "backward")
