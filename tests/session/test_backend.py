"""A session with a backend: compiled runs, the same results, values when looked at."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.autodiff.programs import Program, programs
from tests.autodiff.test_fuzz import close, fuzz, printed
from tests.session.network import B1, B2, NAMES, W1, W2, X, by_hand, network
from workbench.backends.compiled import tiers
from workbench.core.graph import Graph
from workbench.core.tensor import make_leaf
from workbench.errors import CompilerError, OverrideError, ShapeError, UsageError

OTHER = W1 * 1.5 - 0.1


class Cube(wb.Op):
    """The third power, with a count of its runs."""

    name = "counted_cube"
    runs = 0

    def infer(self, x: Any) -> Any:
        return x

    def compute(self, x: Any) -> Any:
        type(self).runs += 1
        return x**3

    def vjp(self, node: Any, g: Any) -> Any:
        return 3 * g * node.inputs[0] ** 2


def make_session(backend: str = "compiled", **options: Any) -> wb.Session:
    graph = wb.trace(network)(X, W1, B1, W2, B2)
    return wb.Session(graph, wrt=NAMES, backend=backend, **options)


def check_gradients(session: wb.Session, rule: Any = None, w1: Any = OTHER) -> None:
    expected = by_hand(rule or (lambda g, d, x, y: d), w1)
    for name in NAMES:
        np.testing.assert_allclose(
            session.grads[name], expected[name], rtol=1e-12, atol=1e-14
        )


@pytest.mark.parametrize("backend", ["compiled", "auto"])
def test_numpy_runs_until_compiled_code_is_ready(backend: str) -> None:
    session = make_session(backend)
    assert (session.backend, session.is_ready()) == ("numpy", False)
    value = session.run(W1=OTHER)
    check_gradients(session)
    assert session.wait(60)
    assert (session.backend, session.is_ready()) == ("compiled", True)
    np.testing.assert_allclose(session.run(W1=OTHER), value, rtol=1e-13)
    check_gradients(session)
    session.run(W1=W1)
    check_gradients(session, w1=W1)


def test_a_session_on_numpy_is_ready() -> None:
    session = make_session("numpy")
    session.run(W1=OTHER)
    found = session.backend, session.is_ready(), session.wait()
    assert found == ("numpy", True, True)
    session.release()
    check_gradients(session)


def test_values_and_cotangents_are_those_of_the_last_run() -> None:
    session, plain = make_session(), make_session("numpy")
    session.wait(60)
    for one in (session, plain):
        one.run(W1=OTHER)
        one.run(b1=B1 + 1)
    for name in ("h", "p", "loss", "W1", "b1"):
        np.testing.assert_allclose(session.values[name], plain.values[name], 1e-13)
    np.testing.assert_allclose(session.cotangents["h"], plain.cotangents["h"], 1e-12)
    assert repr(session) == repr(plain)
    # What is looked at is what later runs start from.
    session.run(W1=W1)
    plain.run(W1=W1)
    np.testing.assert_allclose(session.values["h"], plain.values["h"], 1e-13)
    np.testing.assert_allclose(session.grads["b1"], plain.grads["b1"], 1e-12)


def test_nodes_are_computed_when_somebody_looks() -> None:
    cube = Cube()
    graph = wb.trace(lambda x: np.sum(cube(x)))(np.ones(3))
    session = wb.Session(graph, backend="compiled")
    assert session.wait(60)
    Cube.runs = 0
    session.run(x=np.array([1.0, 2.0, 3.0]))
    session.run(x=np.array([2.0, 2.0, 3.0]))
    assert session.value == 8 + 8 + 27
    np.testing.assert_array_equal(session.grads["x"], [12.0, 12.0, 27.0])
    assert Cube.runs == 2
    np.testing.assert_array_equal(session.values["counted_cube 1"], [8.0, 8.0, 27.0])
    assert session.values["counted_cube 1"].shape == (3,)
    assert Cube.runs == 3


def test_a_node_of_any_run_is_found() -> None:
    graph = wb.trace(network)(X, W1, B1, W2, B2)
    session = wb.Session(graph, wrt=NAMES, backend="compiled")
    session.wait(60)
    session.run(W1=OTHER)
    origins = {x.origin.forward.name for x in session.gradient_graph.nodes if x.origin}
    assert "h" in origins
    for node in (graph["h"], session["h"], session.graph["h"]):
        np.testing.assert_allclose(
            session.jacobian(node, "b1"), session.jacobian("h", "b1")
        )


def test_overrides_and_their_undoing() -> None:
    session = make_session()
    session.wait(60)
    session.override("tanh", "0.25 * d")
    session.run(W1=OTHER)
    check_gradients(session, lambda g, d, x, y: 0.25 * d)
    assert session.wait(60)
    assert session.backend == "compiled"
    session.run(W1=W1)
    check_gradients(session, lambda g, d, x, y: 0.25 * d, W1)
    session.undo()
    check_gradients(session, w1=W1)
    assert session.backend == "compiled"  # its program is still known
    session.run(W1=OTHER)
    check_gradients(session)
    with pytest.raises(OverrideError, match="cosh"):
        session.override("cosh", "d")
    session.redo()
    check_gradients(session, lambda g, d, x, y: 0.25 * d)


def test_a_rule_that_looks_at_values_is_run_by_numpy() -> None:
    def rule(node: Any, g: Any) -> Any:
        return g if np.sum(node.outputs[0]) > 0 else -2 * g

    graph = wb.trace(lambda x: np.sum(np.tanh(x)))(np.ones(3))
    session = wb.Session(graph, name="net", backend="compiled")
    session.override("tanh", rule)
    with pytest.warns(RuntimeWarning, match="net runs as NumPy: .*np.where") as found:
        session.run(x=np.ones(3))
    assert found[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        session.run(x=-np.ones(3))
    np.testing.assert_array_equal(session.grads["x"], [-2.0] * 3)
    found = session.backend, session.is_ready(), session.wait()
    assert found == ("numpy", True, True)
    session.undo()
    assert session.wait(60)
    assert session.backend == "compiled"


def test_where_nothing_compiles_one_line_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise CompilerError("llvmlite is not installed.")

    monkeypatch.setattr(tiers, "Program", refuse)
    session = make_session()
    assert session.wait(60)
    with pytest.warns(RuntimeWarning, match="runs as NumPy: llvmlite") as found:
        session.run(W1=OTHER)
    assert len(found) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        session.run(W1=OTHER)
    assert (session.backend, session.is_ready()) == ("numpy", True)
    check_gradients(session)


def test_an_error_of_a_run_is_numpys_and_changes_nothing() -> None:
    def f(a: Any) -> Any:
        return np.sum(np.linalg.inv(a))

    texts = []
    for backend in ("numpy", "compiled"):
        session = wb.Session(wb.trace(f)(np.eye(2)), backend=backend)
        session.wait(60)
        assert session.backend == backend
        with pytest.raises(np.linalg.LinAlgError) as found:
            session.run(a=np.zeros((2, 2)))
        texts.append(str(found.value))
        with pytest.raises(ShapeError, match="a has shape"):
            session.run(a=np.zeros(2))
        np.testing.assert_array_equal(session.values["a"], np.eye(2))
        assert session.value == 2.0
    assert texts[0] == texts[1]


def test_what_a_run_gave_stays() -> None:
    session = make_session()
    session.wait(60)
    session.run(W1=OTHER)
    kept = session.grads["W1"]
    before = kept.copy()
    kept_state = session.make_copy()
    session.run(W1=W1)
    np.testing.assert_array_equal(kept, before)
    np.testing.assert_array_equal(kept_state.grads["W1"], before)
    session.grads["W1"][:] = 7.0
    check_gradients(session, w1=W1)


def test_listeners_are_told_when_code_is_ready() -> None:
    session = make_session()
    told: list[str] = []
    session.subscribe(told.append)
    session.run(W1=OTHER)
    session.wait(60)
    assert sorted(told) == ["backend", "values"]


def test_a_constant_of_the_program_may_change() -> None:
    x, c = make_leaf(np.ones(2), "x"), make_leaf(np.full(2, 3.0), "c")
    session = wb.Session(Graph([x], [np.sum(x * x * c)]), backend="compiled")
    session.wait(60)
    session.run(x=np.array([1.0, 2.0]))
    np.testing.assert_array_equal(session.grads["x"], [6.0, 12.0])
    session.run(c=np.array([1.0, 5.0]))
    np.testing.assert_array_equal(session.grads["x"], [2.0, 20.0])
    session.run(x=np.array([2.0, 2.0]))
    session.wait(60)
    session.run(x=np.array([2.0, 3.0]))
    assert session.backend == "compiled"
    np.testing.assert_array_equal(session.grads["x"], [4.0, 30.0])


@pytest.mark.parametrize(
    "args",
    [(1.5, 2.0), (np.float32(1.5), np.float32(2)), (np.array(1.5), 2.0)],
    ids=["numbers", "float32", "mixed"],
)
def test_numbers_keep_their_types(args: tuple[Any, Any]) -> None:
    def f(x: Any, y: Any) -> Any:
        return (1 - x) ** 2 + 100 * (y - x * x) ** 2

    session = wb.Session(wb.trace(f)(*args), backend="compiled")
    plain = wb.Session(wb.trace(f)(*args))
    session.wait(60)
    assert session.backend == "compiled"
    for one in (session, plain):
        one.run(x=type(args[0])(0.5) if np.ndim(args[0]) else args[0])
    for name in "xy":
        assert np.asarray(session.grads[name]).dtype == plain.grads[name].dtype
        np.testing.assert_allclose(session.grads[name], plain.grads[name], 1e-6)
    np.testing.assert_allclose(session.value, plain.value, 1e-6)


def test_a_seed_and_complex_numbers() -> None:
    z = np.array([1 + 2j, -0.5j])
    seed = np.array([1 - 1j, 2j])
    made = [
        wb.Session(wb.trace(lambda z: np.exp(z) * z)(z), seed=seed, backend=backend)
        for backend in ("numpy", "compiled")
    ]
    made[1].wait(60)
    for one in made:
        one.run(z=2 * z)
    assert made[1].backend == "compiled"
    expected = seed * (np.exp(2 * z) * (1 + 2 * z))
    for one in made:
        np.testing.assert_allclose(one.grads["z"], expected, 1e-13)
        np.testing.assert_allclose(one.value, np.exp(2 * z) * 2 * z, 1e-13)


def test_an_input_that_reaches_nothing_has_gradient_zero() -> None:
    def f(x: Any, y: Any) -> Any:
        return np.sum(x * x) + np.sum(np.sign(y))

    session = wb.Session(wb.trace(f)(np.ones(2), np.ones(3)), backend="compiled")
    session.wait(60)
    session.run(x=np.array([2.0, 3.0]))
    np.testing.assert_array_equal(session.grads["x"], [4.0, 6.0])
    np.testing.assert_array_equal(session.grads["y"], np.zeros(3))


def test_a_program_traced_without_values_starts_with_its_first_run() -> None:
    graph = wb.trace(lambda x, y: np.sum(x * y))(wb.Spec((2,), float), np.ones(2))
    session = wb.Session(graph, backend="compiled")
    assert session.wait(1)
    with pytest.raises(UsageError, match="Pass all inputs"):
        _ = session.grads
    session.run(x=np.ones(2), y=np.full(2, 3.0))
    session.wait(60)
    session.run(x=np.ones(2))
    assert session.backend == "compiled"
    np.testing.assert_array_equal(session.grads["x"], [3.0, 3.0])


@pytest.mark.long
@fuzz(programs(most=10))
def test_random_programs(program: Program) -> None:
    """Compiled or not, with an override or not, at other inputs too."""
    with printed(program), np.errstate(all="ignore"):
        args = list(program.inputs.values())
        graph = wb.trace(program.function)(*args)
        session = wb.Session(graph, backend="compiled")
        plain = wb.Session(graph)
        ops = [x.op.name for x in graph.nodes if x.inputs and x.op.elementwise]
        for text in (None, *ops[:1]):
            if text is not None:
                session.override(text, "0.5 * d")
                plain.override(text, "0.5 * d")
            assert session.wait(60)
            for factor in (1.0, 0.75):
                new = {name: factor * x for name, x in program.inputs.items()}
                for one in (session, plain):
                    one.run(new)
                for name, truth in plain.grads.items():
                    size = float(np.max(np.abs(truth), initial=0))
                    close(session.grads[name], truth, size, 1e-9)
                close(session.value, plain.value, float(np.abs(plain.value)), 1e-9)


def test_an_unknown_backend_is_refused() -> None:
    with pytest.raises(UsageError, match=r"no backend 'fortran'. Choose 'numpy'"):
        make_session("fortran")


def test_lengths_that_a_mask_decides_are_left_to_numpy() -> None:
    """The mask was true everywhere as the program was traced."""
    x = np.array([[1.0, 2.0], [3.0, 0.5], [0.1, 4.0]])

    def loss(w: Any) -> Any:
        s = x @ w
        return np.sum(s[s > 0] ** 2)

    session = wb.Session(wb.trace(loss)(np.ones(2)), backend="compiled")
    w = np.array([-1.0, 1.0])
    with pytest.warns(RuntimeWarning, match="the mask of getitem .* takes another"):
        value = session.run(w=w)
    s = x @ w
    np.testing.assert_allclose(value, np.sum(s[s > 0] ** 2))
    assert session.backend == "numpy"
