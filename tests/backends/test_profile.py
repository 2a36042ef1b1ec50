"""What each step of a program costs: its nodes, its bytes, its part of the time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.backends.profile import Profile

x = wb.scalar("x")


def find_row(profile: Profile, step: str) -> Any:
    (row,) = [row for row in profile if row.step == step]
    return row


def check_shares(profile: Profile) -> None:
    rows = list(profile)
    assert len(rows) == len(profile)
    assert [row.time for row in rows] == sorted((r.time for r in rows), reverse=True)
    np.testing.assert_allclose(sum(row.share for row in rows), 1.0)
    np.testing.assert_allclose(sum(row.time for row in rows), profile.time)
    costs = profile.costs.values()
    np.testing.assert_allclose(sum(cost.time for cost in costs), profile.time)
    np.testing.assert_allclose(
        sum(cost.traffic for cost in costs), sum(row.traffic for row in rows)
    )


def test_numpy_has_a_row_for_each_node() -> None:
    big = wb.vector("big", shape=200_000)
    h = np.exp(np.sin(big))
    h.name = "h"
    f = wb.function([big], np.sum(h) + big[0], name="f")
    data = np.ones(200_000)
    profile = f.profile(data)
    assert (profile.backend, len(profile)) == ("numpy", 5)
    check_shares(profile)
    assert find_row(profile, "exp h").traffic == 2 * data.nbytes
    assert find_row(profile, "sum").traffic == data.nbytes + 8
    assert find_row(profile, "getitem").traffic <= 16
    # sin and exp at once; then sin is gone.
    assert profile.peak == 2 * data.nbytes
    text = str(profile)
    assert "h = np.exp(np.sin(big))" in text
    assert "numpy: " in text
    assert "in 5 steps; at most 3.2 MB at once" in text


def test_a_printed_profile_fits_a_narrow_page() -> None:
    """JupyterLab breaks longer lines, also inside words."""

    def f(some_long_name: Any, another_long_name: Any) -> Any:
        h = np.tanh(some_long_name @ another_long_name) + np.sum(some_long_name) * 1.2
        g = np.exp(-h * h) * np.sin(np.cos(h) + np.maximum(h, 0.2) / np.sqrt(h * h + 1))
        return np.sum(g)

    compiled = wb.compile(wb.grad(f))
    compiled(np.ones((8, 4)), np.ones((4, 3)))
    assert compiled.wait()
    profile = compiled.profile(np.ones((8, 4)), np.ones((4, 3)))
    lines = str(profile).split("\n")
    assert max(map(len, lines)) <= 72
    assert all(row.step in str(profile) for row in profile)
    words = {word for row in profile for word in row.ops.split()}
    assert words <= {word for line in lines for word in line.split()}


def test_a_view_moves_nothing_and_what_repeats_is_read_once() -> None:
    m = wb.matrix("m", shape=(3, 4))
    f = wb.function([m], np.broadcast_to(m.T[:, :1], (4, 100)) * 2.0, without="all")
    profile = f.profile(np.ones((3, 4)))
    by_op = {row.nodes[0].op.name: row.traffic for row in profile}
    assert by_op.pop("multiply") == 4 * 8 + 400 * 8
    assert set(by_op.values()) == {0}


def test_compiled_code_has_a_row_for_each_kernel_product_and_call() -> None:
    def f(a: Any, b: Any) -> Any:
        h = np.tanh(a @ b) * 2.0
        return np.sum(h), np.fft.fft(h[0])

    a, b = np.ones((6, 5)), np.ones((5, 4))
    compiled = wb.compile(f)
    profile = compiled.profile(a, b)
    assert (profile.backend, compiled.backend) == ("compiled", "compiled")
    check_shares(profile)
    rows = {row.step: row for row in profile}
    assert sorted(rows) == ["NumPy 1", "kernel 1", "product 1"]
    assert rows["product 1"].traffic == 8 * (30 + 20 + 24)
    assert rows["kernel 1"].ops == "tanh, multiply, sum"
    # What the product gives, what the transform reads of it, and the sum.
    assert rows["kernel 1"].traffic == 8 * (24 + 24 + 1)
    assert rows["NumPy 1"].traffic == 8 * 4 + 16 * 4
    assert "kernel 1: tanh, multiply, sum" in str(profile)


def test_the_cost_of_a_kernel_is_divided_by_entries() -> None:
    def f(x: Any, y: Any) -> Any:
        return np.sum(np.exp(x)), np.exp(y)

    profile = wb.compile(f).profile(np.ones(1000), np.ones(10))
    for row in profile:
        np.testing.assert_allclose(row.parts, 1 / len(row.nodes))
    assert sorted(row.ops for row in profile) == ["exp", "exp, sum"]


def test_a_large_reduction_in_pieces_is_one_row() -> None:
    profile = wb.compile(lambda x: np.sum(np.sin(x))).profile(np.ones(300_000))
    (row,) = profile
    assert (row.ops, row.share) == ("sin, sum", 1.0)


def test_a_loop_is_one_row() -> None:
    xs = np.ones((50, 3))

    def loss(w: Any) -> Any:
        h = wb.scan(lambda x, h: np.tanh(w * h + x), [xs], [np.zeros(3)])
        return np.sum(h[-1])

    profile = wb.compile(wb.grad(loss)).profile(np.ones(3))
    loops = [row for row in profile if row.step.startswith("loop")]
    assert [row.ops for row in loops] == ["scan", "scan"]
    assert all(row.traffic >= xs.nbytes for row in loops)
    check_shares(profile)


def test_a_loop_of_unknown_length_has_a_row_too() -> None:
    profile = wb.compile(
        lambda x: wb.while_loop(lambda x: np.sum(x) < 100, lambda x: 2 * x, x)
    ).profile(np.ones(3))
    assert "loop 1" in [row.step for row in profile]
    check_shares(profile)


def test_of_a_derivative_the_row_names_the_line_that_is_differentiated() -> None:
    def loss(x: Any) -> Any:
        return np.sum(np.tanh(x) ** 2)  # this one

    profile = wb.compile(wb.grad(loss)).profile(np.ones(4))
    texts = {site.text for row in profile for site in row.sites}
    assert texts == {"return np.sum(np.tanh(x) ** 2)  # this one"}


def test_a_profile_updates_nothing() -> None:
    n = wb.shared(0.0, "n")
    for backend in ("numpy", "compiled", "auto"):
        f = wb.function([x], n * x, updates={n: n + x}, backend=backend)
        assert len(f.profile(2.0)) > 0
        assert n.get_value() == 0.0


def test_where_nothing_compiles_numpy_is_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from workbench.backends.compiled import tiers
    from workbench.errors import CompilerError

    def refuse(*_: Any, **__: Any) -> Any:
        raise CompilerError("no compiler here.")

    monkeypatch.setattr(tiers, "Program", refuse)
    f = wb.function([x], np.sin(x) * x, backend="compiled")
    assert f.profile(0.5).backend == "numpy"
