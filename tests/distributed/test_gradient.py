"""One gradient over the chunks of Dask arrays, and the first bad row of them."""

from __future__ import annotations

from typing import Any

import dask.array as da
import numpy as np
import pytest

import workbench as wb
import workbench.distributed as wd
from workbench.errors import ClusterError, TraceError, UsageError

RNG = np.random.default_rng(3)
X, Y = RNG.normal(size=(100, 4)), RNG.normal(size=100)
W = {"a": RNG.normal(size=(4, 3)), "b": RNG.normal(size=3)}
DX, DY = da.from_array(X, chunks=(30, 4)), da.from_array(Y, chunks=30)


def loss(W: Any, X: Any, y: Any) -> Any:
    return np.mean((np.tanh(X @ W["a"]) @ W["b"] - y) ** 2)


def total(W: Any, X: Any, y: Any) -> Any:
    return np.sum((np.tanh(X @ W["a"]) @ W["b"] - y) ** 2)


def same(found: Any, truth: Any) -> None:
    np.testing.assert_allclose(found[0], truth[0], rtol=1e-12)
    for k in truth[1]:
        np.testing.assert_allclose(found[1][k], truth[1][k], rtol=1e-11, atol=1e-14)


def test_the_gradient_is_that_of_all_rows(client: Any) -> None:
    """Unequal chunks, one of them without rows."""
    seen: list[tuple[int, int]] = []

    def watch(done: int, count: int) -> None:
        seen.append((done, count))

    f = wd.value_and_grad(loss, progress=watch)
    truth = wb.value_and_grad(loss)(W, X, Y)
    same(f(W, DX, DY), truth)
    assert seen[-1] == (4, 4)
    other = {"a": W["a"] + 1, "b": W["b"] * 2}
    same(f(other, DX, DY), wb.value_and_grad(loss)(other, X, Y))
    assert "4 chunks" in f.explain()
    uneven = DX.rechunk(((50, 0, 20, 30), (4,))), DY.rechunk(((50, 0, 20, 30),))
    same(f(W, *uneven), truth)
    same(
        wd.value_and_grad(total, reduce="sum")(W, DX, DY),
        wb.value_and_grad(total)(W, X, Y),
    )
    labels = da.from_array((Y > 0).astype(int), chunks=30)  # integers are data too
    g = wd.grad(loss, overrides=[wb.override("tanh", "clip(d, -0.01, 0.01)")])(
        W, DX, labels
    )
    truth = wb.grad(loss, overrides=[wb.override("tanh", "clip(d, -0.01, 0.01)")])(
        W, X, Y > 0
    )
    np.testing.assert_allclose(g["a"], truth["a"], rtol=1e-11, atol=1e-14)


def test_an_open_block_of_overrides_holds_there(client: Any) -> None:
    f = wd.grad(loss)
    before = f(W, DX, DY)
    with wb.overrides(wb.override("tanh", "0 * d")):
        assert not np.any(f(W, DX, DY)["a"])
    np.testing.assert_array_equal(f(W, DX, DY)["a"], before["a"])


def test_the_digits_depend_on_no_worker(client: Any, local: Any) -> None:
    fine = DX.rechunk((7, 4)), DY.rechunk(7)
    f = wd.value_and_grad(loss)
    first = f(W, *fine)
    local.scale(1)
    try:
        again = wd.value_and_grad(loss)(W, *fine)
    finally:
        local.scale(2)
    assert again[0] == first[0]
    assert all(np.array_equal(again[1][k], first[1][k]) for k in W)


def test_single_precision_stays(client: Any) -> None:
    w = np.ones(4, np.float32)
    data = DX.astype(np.float32)
    value, g = wd.value_and_grad(lambda w, X: np.mean(np.sin(X @ w)))(w, data)
    assert value.dtype == g.dtype == np.float32


@pytest.mark.parametrize("reduce", ["mean", "sum"])
def test_a_loss_that_is_no_sum_is_refused_with_both_numbers(
    client: Any, reduce: Any
) -> None:
    def penalised(w: Any, X: Any) -> Any:
        return np.sum((X @ w) ** 2) + 3 * np.sum(w**2)

    def variance(w: Any, X: Any) -> Any:
        return np.var(X @ w)

    f = variance if reduce == "mean" else penalised
    with pytest.raises(ClusterError, match=rf"no {reduce} over rows") as caught:
        wd.grad(f, reduce=reduce)(np.ones(4), DX)
    assert f"{float(f(np.ones(4), X[:8])):.6g}" in str(caught.value)


def test_arrays_that_are_split_otherwise_are_refused(client: Any) -> None:
    f = wd.value_and_grad(loss)
    with pytest.raises(ClusterError, match=r"rechunk\(\{0: rows, 1: -1\}\)"):
        f(W, DX, DY.rechunk(20))
    with pytest.raises(ClusterError, match=r"rechunk\(\{0: rows, 1: -1\}\)"):
        f(W, DX.rechunk((30, 2)), DY)
    with pytest.raises(ClusterError, match=r"compute_chunk_sizes\(\)"):
        f(W, DX[DY > 0], DY[DY > 0])
    with pytest.raises(UsageError, match=r"wb\.value_and_grad\(f\)"):
        f(W, X, Y)
    for reduce in ("mean", "exact"):
        with pytest.raises(UsageError, match=r"one of them is a Dask array.*argnums=1"):
            wd.grad(lambda X, w: np.mean(X @ w), reduce=reduce)(DX, np.ones(4))
    with pytest.raises(TraceError, match=r"wd\.value_and_grad\(loss\)"):
        wb.value_and_grad(loss)(W, DX, DY)


def test_the_first_bad_row_is_found_and_explained(client: Any) -> None:
    bad = X.copy()
    bad[57, 2] = bad[91, 0] = np.nan
    found = wd.diagnose(loss, W, da.from_array(bad, chunks=(30, 4)), DY)
    assert found.rows == (57, 58)
    assert found.chunk == 1
    assert found[0].severity == "error"
    assert repr(found).startswith("loss, row 57 (from row 27 of chunk 1): ")
    healthy = wd.diagnose(loss, W, DX, DY)
    assert healthy.rows is None
    assert list(healthy) == []


def test_rows_that_are_bad_together_are_found(client: Any) -> None:
    """Two factors whose product is infinite, in other halves of a quarter."""
    rows = np.ones((20, 1))
    rows[11] = rows[12] = 1e200

    def f(w: Any, X: Any) -> Any:
        return np.prod(X * w)

    found = wd.diagnose(f, np.ones(1), da.from_array(rows, chunks=(20, 1)))
    assert found.rows == (10, 15)


def test_an_error_in_one_chunk_has_its_line(client: Any) -> None:
    def factor(w: Any, X: Any) -> Any:
        return np.mean(X, axis=0) @ np.linalg.cholesky(np.diag(w * X[0] * X[-1])) @ w

    data = np.ones((40, 3))
    data[31] = -1.0  # alone the first of its chunk
    split = da.from_array(data, chunks=((31, 9), (3,)))
    f = wd.grad(factor, reduce="sum")
    with pytest.raises(
        wb.errors.MatrixError, match=r"test_gradient\.py:\d+: "
    ) as found:
        run_unchecked(f, np.ones(3), split)
    assert "rows 31 to 40" in found.value.__notes__[0]


def run_unchecked(f: Any, *args: Any) -> Any:
    """Call a gradient whose loss is not a sum over rows, as if it were."""
    from workbench.distributed import gradient

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gradient, "check_reduction", lambda *a: None)
        return f(*args)


def test_what_cannot_be_sent_says_so(client: Any, tmp_path: Any) -> None:
    with open(tmp_path / "log", "w") as log:

        def f(w: Any, X: Any) -> Any:
            log.write("a call")
            return np.sum(X @ w)

        text = "the function f cannot be sent to the workers: .*, for log = "
        with pytest.raises(ClusterError, match=text):
            wd.diagnose(f, np.ones(4), DX)


def test_a_client_is_needed() -> None:
    with pytest.raises(ClusterError, match=r"dask\.distributed\.Client\(\)"):
        wd.grad(loss)(W, DX, DY)


def test_a_setting_is_another_one_if_it_is_another_object(client: Any) -> None:
    def loss(w: Any, X: Any, words: Any) -> Any:
        return np.mean(X @ w) * len(words)

    slope, w = wd.grad(loss), np.ones(2)
    rows = da.from_array(np.arange(12.0).reshape(6, 2), chunks=(3, 2))
    once = slope(w, rows, np.array(["a"]))
    twice = slope(w, rows, np.array(["a", "b"]))
    np.testing.assert_allclose(twice, 2 * once)
