"""Python loops that a trace has unrolled: found again, and overridden in some steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.errors import OverrideError
from workbench.session.repeats import (
    find_nested_repeats,
    find_repeats,
    find_stores,
    find_unrolled,
)
from workbench.session.wire import take_snapshot

STEPS = 30


def recurrent(w: Any, x: Any) -> Any:
    h = np.zeros(2)
    for t in range(STEPS):
        z = w @ h
        h = np.tanh(z + x[t])
    return np.sum(h**2)


W = np.array([[0.5, 0.2], [-0.3, 0.8]])
X = np.linspace(-1.0, 1.0, 2 * STEPS).reshape(STEPS, 2)


def gradient_by_hand(factor: Any) -> Any:
    """The gradient by w, where tanh passes on factor(t) times what it would."""
    hs = [np.zeros(2)]
    for x in X:
        hs.append(np.tanh(W @ hs[-1] + x))
    g, by_w = 2 * hs[-1], np.zeros((2, 2))
    for t in reversed(range(STEPS)):
        d = factor(t) * g * (1 - hs[t + 1] ** 2)
        by_w += np.outer(d, hs[t])
        g = W.T @ d
    return by_w


def make_session() -> wb.Session:
    return wb.Session(wb.trace(recurrent)(W, X), wrt=["w"])


def spell(text: str) -> list[int]:
    return [ord(c) for c in text]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("xy" + "abcde" * 6 + "abz", [(2, 5, 6)]),
        ("aabab" * 5, [(0, 5, 5)]),
        ("a" * 1000, [(0, 1, 1000)]),
        ("ab" * 12 + "cde" * 10, [(0, 2, 12), (24, 3, 10)]),
        ("abcdefghij" * 3, []),
        ("ab" * 6, []),
        ("", []),
    ],
)
def test_repeats_in_a_sequence(text: str, expected: list[Any]) -> None:
    assert [tuple(one) for one in find_repeats(spell(text))] == expected


def test_a_body_begins_where_it_does_in_the_source() -> None:
    # The first iteration had less to do: c, d, then a, b, c, d again and again.
    text = spell("cd" + "abcd" * 6)
    assert [tuple(one) for one in find_repeats(text, text)] == [(2, 4, 6)]
    assert [tuple(one) for one in find_repeats(text)] == [(0, 4, 6)]


def test_repeats_equal_those_found_by_comparing_everything(
    rng: np.random.Generator,
) -> None:
    """Random sequences against a search that tries each length at each start."""
    for _ in range(60):
        body = rng.integers(0, 40, rng.integers(5, 12))
        if len(set(body.tolist())) < len(body):
            continue  # an op that comes twice may offer too many lengths
        times = int(rng.integers(1, 9))
        noise = [rng.integers(100, 10**6, rng.integers(0, 30)) for _ in range(2)]
        text = np.concatenate([noise[0], np.tile(body, times), noise[1]])
        good = times >= 4 and times * len(body) >= 20
        expected = [(len(noise[0]), len(body), times)] if good else []
        assert [tuple(one) for one in find_repeats(text)] == expected, text.tolist()


def test_loops_in_loops_are_found_as_they_were_written(
    rng: np.random.Generator,
) -> None:
    """Random nests of loops written out, against how they were written."""

    def write(depth: int, names: Any, at: int) -> tuple[list[int], list[Any]]:
        """One loop: its elements, and it and those in it, as they are to be found."""
        parts = ["line"] * int(rng.integers(1, 6))
        if depth > 0:
            parts.insert(int(rng.integers(0, len(parts) + 1)), "loop")
        if depth > 0 and rng.random() < 0.3:
            parts += ["loop", "line"]
        made: list[Any] = []
        text: list[int] = []
        for part in parts:  # numbered as they stand in the source
            if part == "line":
                text.append(next(names))
                continue
            inner, found = write(depth - 1, names, at + len(text))
            text += inner
            made += found
        times = int(rng.integers(4, 7))
        here = [(at, len(text), times)]
        for k in range(times):
            here += [(s + k * len(text), p, n) for s, p, n in made]
        return text * times, here

    for _ in range(30):
        names = iter(range(10**6))
        before = [next(names) for _ in range(rng.integers(0, 9))]
        text, expected = write(int(rng.integers(0, 4)), names, len(before))
        whole = [*before, *text, next(names)]
        found = find_nested_repeats(whole, whole)
        kept = [one for one in expected if one[1] * one[2] >= 20]
        assert sorted(one[:3] for one in found) == sorted(kept), whole
        for one in found:
            # Those around are those that hold it, the smallest of them next to it.
            outer = [
                k
                for k, (start, period, times, *_) in enumerate(found)
                if start <= one.start < start + period * times
                and period >= one.period * one.times
            ]
            assert one.around == max(outer, default=-1)
            if outer:
                start, period, *_ = found[one.around]
                assert one.at == (one.start - start) // period


def twice(x: Any) -> Any:
    for _ in range(6):
        for _ in range(8):
            x = np.tanh(x * 0.9) + 0.1
        x = np.sin(x)
    return np.sum(x)


def test_a_loop_in_a_loop_belongs_to_an_iteration_of_it() -> None:
    session = wb.Session(wb.trace(twice)(np.ones(3)))
    found = find_unrolled(session.graph.nodes)
    assert [rows.shape for rows in found.members] == [(6, 25), *6 * [(8, 3)]]
    assert found.around == [(-1, -1), *((0, k) for k in range(6))]
    ops = [x.op.name for x in session.graph.nodes]
    sines = [i for i, name in enumerate(ops) if name == "sin"]
    assert [(found.loop[i], found.step[i]) for i in sines] == [(0, k) for k in range(6)]
    tanhs = [i for i, name in enumerate(ops) if name == "tanh"]
    assert [(found.loop[i], found.step[i]) for i in tanhs] == [
        (1 + k // 8, k % 8) for k in range(48)
    ]
    shown = take_snapshot(session)
    assert shown.header["around"] == [[-1, -1], *([0, k] for k in range(6))]
    # Steps are those of the innermost loop, or of the one that holds the node.
    one = session.override("sin", "2 * d", steps=3)
    assert one.matched == (sines[3],)
    session.remove(one)
    one = session.override(session.graph.nodes[tanhs[17]], "2 * d", steps=slice(0, 2))
    assert one.matched == (tanhs[16], tanhs[17])


def test_a_sequence_made_to_be_slow_ends() -> None:
    text = (np.random.default_rng(5).random(300_000) < 0.999).astype(int)
    assert find_repeats(text)


def test_the_steps_of_a_loop_are_those_of_the_source() -> None:
    session = make_session()
    found = find_unrolled(session.graph.nodes)
    (rows,) = found.members
    assert len(rows) == STEPS
    ops = [[session.graph.nodes[i].op.name for i in row] for row in rows]
    assert ops == [["matmul", "getitem", "add", "tanh"]] * STEPS
    columns = take_snapshot(session).columns
    assert columns["iteration"][rows[17]].tolist() == [17] * 4
    assert columns["loop"][session.output] == -1


def test_a_program_without_loops_has_no_such_columns() -> None:
    session = wb.Session(wb.trace(lambda x: np.sum(np.tanh(x)))(np.ones(2)))
    assert "loop" not in take_snapshot(session).columns


@pytest.mark.parametrize(
    ("steps", "meant"),
    [
        (17, {17}),
        (-1, {STEPS - 1}),
        (slice(10, 20), set(range(10, 20))),
        (slice(None), set(range(STEPS))),
        (slice(None, None, 7), set(range(0, STEPS, 7))),
    ],
)
def test_an_override_of_a_node_in_steps_means_its_place_in_them(
    steps: Any, meant: set[int]
) -> None:
    session = make_session()
    (rows,) = find_unrolled(session.graph.nodes).members
    tanh = int(rows[3, -1])
    one = session.override(tanh, "0.5 * d", steps=steps)
    assert set(one.matched) == {int(rows[t, -1]) for t in meant}
    assert one.node == tanh
    words = {17: "in step 17 of 30", -1: "in the last step"}
    spans = {20: "in steps 10 to 19", None: "in all 30 steps"}
    if isinstance(steps, int):
        assert one.where == f"tanh {tanh} {words[steps]}"
    elif steps.step is None:
        assert one.where == f"tanh {tanh} {spans[steps.stop]}"
    expected = gradient_by_hand(lambda t: 0.5 if t in meant else 1.0)
    np.testing.assert_allclose(session.grads["w"], expected, rtol=1e-12)
    session.undo()
    np.testing.assert_allclose(
        session.grads["w"], gradient_by_hand(lambda t: 1.0), rtol=1e-12
    )


def test_an_override_of_an_op_in_steps_reaches_unrolled_loops() -> None:
    session = make_session()
    session.override("tanh", "0 * d", steps=slice(0, 5))
    expected = gradient_by_hand(lambda t: 0.0 if t < 5 else 1.0)
    np.testing.assert_allclose(session.grads["w"], expected, rtol=1e-12)
    assert session.code() == "ad.override('tanh', vjp='0 * d', steps=slice(0, 5, None))"


def test_steps_that_do_not_exist_are_refused_and_nothing_changes() -> None:
    session = make_session()
    tanh = int(find_unrolled(session.graph.nodes).members[0][0, -1])
    with pytest.raises(OverrideError, match="steps=99 names none of the 30 steps"):
        session.override(tanh, "0.5 * d", steps=99)
    assert session.overrides == []
    with pytest.raises(OverrideError, match="is in none"):
        session.override("sum", "0.5 * d", steps=3)


def test_an_override_in_steps_is_saved_and_loaded(tmp_path: Any) -> None:
    session, other = make_session(), make_session()
    tanh = int(find_unrolled(session.graph.nodes).members[0][3, -1])
    session.override(tanh, "0.5 * d", steps=slice(10, 20))
    session.save(tmp_path / "overrides.json")
    assert other.load(tmp_path / "overrides.json") == []
    np.testing.assert_array_equal(session.grads["w"], other.grads["w"])
    assert other.overrides[0].matched == session.overrides[0].matched


# Stores


def rotate(v: Any) -> Any:
    """A matrix of a cosine c and a sine s, and a pair of them."""
    c, s = np.cos(v[0]), np.sin(v[0])
    turn = np.zeros((3, 3))
    turn[0, 0] = c
    turn[0, 1] = -s
    turn[1, 0] = s
    turn[1, 1] = c
    turn[2, 2] = v[1]
    pair = np.zeros(2)
    pair[0] = s
    pair[1] = c
    return np.sum(turn @ v) + np.sum(pair)


def test_stores_one_after_the_other_stand_in_a_scope() -> None:
    v = np.array([0.3, -1.2, 0.7])
    graph = wb.trace(rotate)(v)
    session = wb.Session(graph)
    scopes = [x.scope for x in session.graph.nodes if x.op.name == "index_set"]
    # Two stores are read as they stand.
    assert scopes == ["array ← 5 stores"] * 5 + [None] * 2
    assert {x.scope for x in graph.nodes} == {None}, "the program itself"
    assert float(session.run(v=2 * v)) == pytest.approx(float(rotate(2 * v)))
    inside = [x.op.name for x in session.graph.nodes if x.scope is not None]
    # What their lines compute, -s and v[1], and not the sine, which others read.
    stores = ["index_set"] * 5
    assert sorted(inside) == ["getitem", *stores, "negative", "stop_gradient"]
    # It is a scope as any other: left are c + s of `turn @ v`, and c - s of the pair.
    session.override("array ← 5 stores", "0 * d")
    assert session.grads["v"][0] == pytest.approx(2 * np.cos(0.6))


def test_stores_that_are_read_in_between_stand_alone() -> None:
    def running(v: Any) -> Any:
        out = np.zeros(6)
        out[0] = v[0]
        out[1] = v[1] * 2
        out[2] = v[2]
        total = np.sum(out)
        out[3] = v[0] * v[1]
        out[4] = v[1] / v[2]
        out[5] = total
        return np.sum(out * out)

    graph = wb.trace(running)(np.array([0.3, -1.2, 0.7]))
    assert find_stores(graph) == []


def test_stores_of_a_loop_are_a_scope_if_they_are_all_of_it() -> None:
    def fill(v: Any) -> Any:
        out, other = np.zeros(30), np.zeros(30)
        for i in range(30):
            out[i] = np.sin(v * i)
        for i in range(30):
            y = np.sin(v * i)
            other[i] = y * y
        with wb.scope("tail"):
            more = np.zeros(4)
            more[0] = v
            more[1] = v * v
            more[2] = v**3
            more[3] = 2.0
        return np.sum(out) + np.sum(other) + np.sum(more * more)

    graph = wb.trace(fill)(0.5)
    session = wb.Session(graph)
    nodes = session.graph.nodes
    stores = [i for i, x in enumerate(nodes) if x.op.name == "index_set"]
    assert {nodes[i].scope for i in stores[:30]} == {"array ← 30 stores"}
    assert {nodes[i].scope for i in stores[30:60]} == {None}
    assert [nodes[i].scope for i in stores[60:]] == ["tail/array ← 4 stores"] * 4
    # Both loops are found as before, and overridden in some steps.
    loop, step = session.nodes.unrolled.loop, session.nodes.unrolled.step
    assert loop[stores[:60]].min() >= 0
    assert [*step[stores[:60]]] == [*range(30)] * 2
    assert [*loop[stores[60:]]] == [-1] * 4
