"""What is inside a node: values and gradients of one step against plain NumPy loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.chunks import generator
from workbench.errors import UsageError
from workbench.session.inner_program import InnerProgram, open_inside
from workbench.session.wire import gather_details, take_inside, take_snapshot

N = 150
RNG = generator(__name__)
X = RNG.normal(size=(N, 3))
W = RNG.normal(size=(3, 3))
W *= 0.9 / np.linalg.norm(W, 2)  # so that gradients do not explode
A = RNG.normal(size=(N, 3))


def step(x: Any, h: Any, w: Any) -> Any:
    z = w @ h + x
    return np.tanh(z)


def make_session(reverse: bool = False, **settings: Any) -> wb.Session:
    def loss(w: Any) -> Any:
        hs = wb.scan(step, [X], [np.full(3, 0.1)], [w], reverse=reverse, **settings)
        return np.sum(A * hs)

    return wb.Session(wb.trace(loss)(W))


def find_holder(session: wb.Session) -> int:
    return next(i for i, x in enumerate(session.graph.nodes) if x.op.graphs is not None)


def look(session: wb.Session, *steps: int) -> InnerProgram:
    return open_inside(session._state, [(find_holder(session), t) for t in steps])


def run_by_hand(factor: Any, reverse: bool = False) -> dict[int, dict[str, Any]]:
    """All values and gradients of the loop; tanh passes on factor(t) times more."""
    xs = X[::-1] if reverse else X  # steps are counted as they are made
    h, found = np.full(3, 0.1), {}
    for t, x in enumerate(xs):
        new = np.tanh(W @ h + x)
        found[t] = {"h": h, "x": x, "tanh": new}
        h = new
    g = np.zeros(3)
    for t in reversed(range(N)):
        g = g + A[t]
        d = factor(t) * g * (1 - found[t]["tanh"] ** 2)
        found[t] |= {"g_tanh": g, "g_add": d, "g_w": np.outer(d, found[t]["h"])}
        g = W.T @ d
        found[t]["g_h"] = g
    return found


def check(inside: InnerProgram, expected: dict[str, Any], backward: Any = None) -> None:
    backward = inside.backward if backward is None else backward
    assert backward is not None
    nodes = inside.forward.graph.nodes
    ids = {x.name or x.op.name: i for i, x in enumerate(nodes)}
    for name in ("x", "h"):
        np.testing.assert_allclose(nodes[ids[name]]._value, expected[name], rtol=1e-9)
    np.testing.assert_allclose(nodes[ids["tanh"]]._value, expected["tanh"], rtol=1e-9)
    for name in ("tanh", "add", "w", "h"):
        g = backward.cotangents[ids[name]]
        np.testing.assert_allclose(g, expected[f"g_{name}"], rtol=1e-7, atol=1e-13)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("settings", [{}, {"memory": 10}])
def test_a_step_has_the_values_and_gradients_of_a_plain_loop(
    reverse: bool, settings: dict[str, Any]
) -> None:
    session = make_session(reverse, **settings)
    truth = run_by_hand(lambda t: 1.0, reverse)
    for t in (0, 1, 17, 74, N - 2, N - 1):
        inside = look(session, t)
        assert (inside.step, inside.steps) == (t, N)
        assert inside.truth is None or not session.overrides
        check(inside, truth[t])
    assert look(session, -1).step == N - 1
    steps, norms = look(session, 3).norms
    expected = [np.linalg.norm(truth[t]["g_h"]) for t in steps]
    np.testing.assert_allclose(norms, expected, rtol=1e-7)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    ("steps", "meant"),
    [
        (17, {17}),
        (-1, {N - 1}),
        (slice(10, 120, 3), set(range(10, 120, 3))),
        (slice(None, None, -2), set(range(N - 1, -1, -2))),
        (None, set(range(N))),
    ],
)
def test_overrides_in_some_steps_are_seen_in_each(
    steps: Any, meant: set[int], reverse: bool
) -> None:
    session = make_session(reverse)
    session.override("tanh", "3 * d", steps=steps)
    changed = run_by_hand(lambda t: 3.0 if t in meant else 1.0, reverse)
    truth = run_by_hand(lambda t: 1.0, reverse)
    total = sum(one["g_w"] for one in changed.values())
    np.testing.assert_allclose(session.grads["w"], total, rtol=1e-7)
    for t in (0, 9, 10, 16, 17, 18, 119, N - 1):
        inside = look(session, t)
        check(inside, changed[t])
        check(inside, truth[t], inside.truth)
        ruled = [x.op.name for x in inside.forward.graph.nodes
                 if x.serial in inside.rules]  # fmt: skip
        assert ruled == (["tanh"] if t in meant else [])


def test_the_rule_of_the_other_steps_holds_there() -> None:
    session = make_session()
    session.override("tanh", "2 * d")
    session.override("tanh", "0.5 * d", steps=slice(40, 60))
    changed = run_by_hand(lambda t: 0.5 if 40 <= t < 60 else 2.0)
    for t in (0, 39, 40, 59, 60, N - 1):
        check(look(session, t), changed[t])


def test_a_step_follows_the_session_to_other_values() -> None:
    session = make_session()
    before = look(session, 20)
    session.run(w=np.zeros((3, 3)))
    inside = look(session, 20)
    ids = {x.name: i for i, x in enumerate(inside.forward.graph.nodes)}
    np.testing.assert_allclose(
        inside.forward.graph.nodes[ids["h"]]._value, np.tanh(X[19])
    )
    assert before.forward is not inside.forward


def test_a_while_loop_opens_at_each_step_that_it_has_made() -> None:
    def f(w: Any) -> Any:
        grown = wb.while_loop(
            lambda v: np.sum(v) < 10, lambda v: v * w, np.ones(2), max_steps=50
        )
        return np.sum(grown)

    w = np.array([1.5, 1.2])
    session = wb.Session(wb.trace(f)(w))
    vs = [np.ones(2)]
    while np.sum(vs[-1]) < 10:
        vs.append(vs[-1] * w)
    n = len(vs) - 1
    for t in range(n):
        inside = look(session, t)
        assert inside.steps == n
        nodes = inside.forward.graph.nodes
        (i,) = [i for i, x in enumerate(nodes) if x.op.name == "multiply"]
        np.testing.assert_allclose(nodes[i]._value, vs[t + 1])
        assert inside.backward is not None
        np.testing.assert_allclose(
            inside.backward.cotangents[i], w ** (n - 1 - t), rtol=1e-12
        )
    with pytest.raises(UsageError, match=f"has no step {n}: it makes {n}"):
        look(session, n)


def test_an_op_of_a_graph_opens_and_a_branch_in_a_loop_does() -> None:
    a, b = wb.vectors("a b")
    op = wb.OpFromGraph([a, b], [np.sin(a) * b], name="sin_times_inside")
    session = wb.Session(wb.trace(lambda w: np.sum(op(w, 2 * w) ** 2))(np.ones(2)))
    inside = look(session, 0)
    assert inside.step is None
    nodes = inside.forward.graph.nodes
    (sine,) = [i for i, x in enumerate(nodes) if x.op.name == "sin"]
    assert inside.backward is not None
    arrived = inside.backward.cotangents[sine]
    np.testing.assert_allclose(arrived, 2 * (np.sin(1) * 2) * 2 * np.ones(2))

    def looped(w: Any) -> Any:
        last = wb.scan(
            lambda h: wb.cond(np.sum(h) > 0, np.tanh, np.sin, h), initial=[w], n_steps=5
        )
        return np.sum(last[-1])

    w = np.array([0.5, -0.2])
    session = wb.Session(wb.trace(looped)(w))
    outer = look(session, 3)
    (choice,) = [
        i for i, x in enumerate(outer.forward.graph.nodes) if x.op.name == "cond"
    ]
    path = [(find_holder(session), 3), (choice, 0)]
    inside = open_inside(session._state, path)
    ops = [x.op.name for x in inside.forward.graph.nodes if x.inputs]
    assert ops == ["tanh"]
    h, g = w, np.ones(2)
    for _ in range(4):
        h = np.tanh(h)
    g = g * (1 - np.tanh(h) ** 2)
    assert inside.backward is not None
    np.testing.assert_allclose(inside.backward.cotangents[1], g, rtol=1e-12)


def test_the_loop_of_a_derivative_opens_too() -> None:
    """It goes from the last entries of its sequences to the first."""

    def f(w: Any) -> Any:
        def last(w: Any) -> Any:
            return np.sum(wb.scan(step, [X], [np.full(3, 0.1)], [w])[-1])

        return np.sum(wb.grad(last)(w))

    session = wb.Session(wb.trace(f)(W))
    nodes = session.graph.nodes
    (back,) = [
        i
        for i, x in enumerate(nodes)
        if x.op.name == "scan" and x.params["loop"].reverse
    ]
    hs, g = [np.full(3, 0.1)], np.ones(3)
    for x in X:
        hs.append(np.tanh(W @ hs[-1] + x))
    for t in reversed(range(N)):
        inside = open_inside(session._state, [(back, t)])
        inner = inside.forward.graph
        d = g * (1 - hs[t + 1] ** 2)
        found = [x._value for x in inner.nodes if np.shape(x._value) == (3,)]
        assert any(np.allclose(v, g, rtol=1e-7, atol=1e-300) for v in found), t
        assert any(np.allclose(v, d, rtol=1e-7, atol=1e-300) for v in found), t
        g = W.T @ d


def test_what_cannot_be_opened_says_why() -> None:
    session = make_session()
    with pytest.raises(UsageError, match="holds no program"):
        open_inside(session._state, [(0, 0)])
    with pytest.raises(UsageError, match="there is no node 999"):
        open_inside(session._state, [(999, 0)])
    with pytest.raises(UsageError, match=f"no step {N}: it makes {N}"):
        look(session, N)
    with pytest.raises(UsageError, match="a path of 0 nodes"):
        open_inside(session._state, [])


def test_the_page_gets_a_step_with_values_gradients_and_overrides() -> None:
    session = make_session()
    holder = find_holder(session)
    assert take_snapshot(session).header["holders"] == [holder]
    one = session.override("tanh", "3 * d", steps=slice(10, 20))
    shown, fields = take_inside(session, [{"node": holder, "step": -140}])
    assert fields["path"] == [{"node": holder, "step": 10}]
    assert (fields["step"], fields["steps"]) == (10, N)
    assert len(fields["marks"]) == len(fields["norms"]) > 10
    header, columns = shown.header, shown.columns
    (told,) = header["overrides"]
    tanh = header["nodes"] - 1
    assert (told["id"], told["steps"], told["matched"]) == (one.id, "10:20", [tanh])
    assert columns["override"].tolist() == [-1] * tanh + [0]
    changed = run_by_hand(lambda t: 3.0 if 10 <= t < 20 else 1.0)[10]
    norm = columns["grad_stats"].reshape(-1, 6)[tanh, 4]
    np.testing.assert_allclose(norm, np.linalg.norm(changed["g_tanh"]), rtol=1e-7)
    detail = gather_details(session, tanh, fields["path"])
    assert detail["rule"] == "g · (1 − y²)"
    assert detail["inputs"] == [f"add {tanh - 1}"]
    assert detail["gradient_array"] == str(
        session.open_inside([(holder, 10)]).backward.cotangents[tanh]  # type: ignore[union-attr]
    )
    # Where it does not hold, none is told.
    shown, fields = take_inside(session, [{"node": holder, "step": 9}])
    assert shown.header["overrides"] == []
    assert "true_stats" not in shown.columns
    assert np.nanmax(shown.columns["change"]) > 0.1


def measure_along(session: wb.Session, factor: Any, reverse: bool = False) -> None:
    """Hold what is told of a loop against the loop by hand."""
    (told,) = take_snapshot(session).header["loops"]
    by_hand = run_by_hand(factor, reverse)
    expected = [np.linalg.norm(by_hand[t]["g_h"]) for t in told["marks"]]
    assert (told["node"], told["steps"]) == (find_holder(session), N)
    assert 40 <= len(told["marks"]) == len({*told["marks"]})
    np.testing.assert_allclose(np.array(told["norms"], float), expected, rtol=1e-7)


@pytest.mark.parametrize("reverse", [False, True])
def test_the_gradient_along_a_loop_is_told_with_the_picture(reverse: bool) -> None:
    session = make_session(reverse)
    measure_along(session, lambda t: 1.0, reverse)
    session.override("tanh", "3 * d", steps=slice(10, 20))
    measure_along(session, lambda t: 3.0 if 10 <= t < 20 else 1.0, reverse)
    session.undo()
    measure_along(session, lambda t: 1.0, reverse)


def test_loops_that_cannot_be_measured_leave_the_picture_whole() -> None:
    """One that draws, one that no gradient reaches, and a rule that fails inside."""

    def loss(w: Any) -> Any:
        noise = wb.random.Generator(np.random.default_rng(0))
        drawn = wb.scan(
            lambda h: h * 0.5 + noise.normal(size=3), initial=[w], n_steps=9
        )
        still = wb.scan(lambda h: h * 0.5, initial=[np.ones(3)], n_steps=9)
        return np.sum(drawn[-1]) + wb.stop_gradient(np.sum(still))

    shown = take_snapshot(wb.Session(wb.trace(loss)(np.ones(3))))
    assert shown.header["loops"] == []
    assert shown.header["output_value"] is not None

    def refuse(node: Any, g: Any) -> Any:
        if len(calls) > before:
            raise ZeroDivisionError
        calls.append(g)
        return g * (1 - node.outputs[0] ** 2)

    calls: list[Any] = []
    before = N
    session = make_session()
    session.override("tanh", refuse)
    assert session.grads["w"].shape == (3, 3)
    before = 0
    assert take_snapshot(session).header["loops"] == []


def test_a_loop_in_a_loop_is_told_where_one_looks_inside() -> None:
    def inner(h: Any, w: Any) -> Any:
        return wb.scan(lambda k, w: w * k, initial=[h], non_sequences=[w], n_steps=4)[
            -1
        ]

    def loss(w: Any) -> Any:
        return np.sum(
            wb.scan(inner, initial=[np.ones(2)], non_sequences=[w], n_steps=3)[-1]
        )

    w = np.array([0.5, 2.0])
    session = wb.Session(wb.trace(loss)(w))
    holder = find_holder(session)
    shown, _ = take_inside(session, [{"node": holder, "step": 1}])
    (told,) = shown.header["loops"]
    assert told["steps"] == 4
    # The state is multiplied by w twelve times in all; of step 1 eight are left.
    expected = [np.linalg.norm(w ** (8 - mark)) for mark in told["marks"]]
    np.testing.assert_allclose(np.array(told["norms"], float), expected, rtol=1e-12)
