"""What a user can hold goes to another process and is the same there, or says why not.

Plain pickle sends what a module defines; cloudpickle sends what a notebook does, whose
names nobody finds elsewhere. One fresh process reads all of a table.
"""

from __future__ import annotations

import copy
import importlib.util
import pickle
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.chunks import parametrize_chunks
from tests.ops.samples import ALIKE, SAMPLES, Sample
from workbench import errors
from workbench.core import types
from workbench.core.graph import Graph
from workbench.core.op import OPS
from workbench.core.pickling import lift_constants

ROOT = Path(__file__).parents[2]
X = np.arange(1.0, 5.0)

#: What a cell defines; here too, where names lead to it.
CELL = '''
import numpy as np
import workbench as wb
from workbench.core.op import OPS

X = np.arange(1.0, 5.0)


def loss(x):
    return np.sum(np.sin(x) ** 2)


def product(x):
    return x[1:] * x[:-1]


@wb.compile
def compiled(x):
    return np.sum(x**3)


class PickledCube(wb.Op):
    power: int = 3

    def compute(self, x):
        return x**self.power

    def vjp(self, node, g):
        return [g * self.power * node.inputs[0] ** (self.power - 1)]


class PickledHalf(wb.KernelOp):
    inputs = "x: float64[n]"
    outputs = "y: float64[n]"
    c = """
    void pickled_half(const double *x, double *y, int64_t n) {
        for (int64_t i = 0; i < n; i++) y[i] = x[i] / 2;
    }
    """

    def fallback(self, x):
        return x / 2

    def vjp(self, node, g):
        return [g / 2]


@wb.custom_vjp
def doubled(x):
    return x**2


doubled.defvjp(lambda x: (x**2, x), lambda x, g: (4 * x * g,))


def wrong(x):
    return np.sum(doubled(x))


def use(op):
    wb.grad(lambda x: np.sum(op(x)))(X)
    return op


def after_call(derivative):
    derivative(X)
    return derivative


def catch(f, *args):
    try:
        f(*args)
    except Exception as error:
        return error
    raise AssertionError("no error")


def refuse_shapes(x):
    return x @ np.ones((3, 3))


def unrolled(x):
    for _ in range(300):
        x = np.sin(x) + 0.1 * x
    return np.sum(x)


def scanned(x):
    return wb.scan(lambda a, c: np.sin(c * a), x, initial=x[0])


def picked(x):
    return np.sum(wb.cond(x[0] > 0, np.sin, np.cos, x))
'''
exec(compile(CELL, __file__, "exec"), globals())  # as if it stood here

RUN = "[y.tolist() for y in map(np.asarray, o.run([X]))]"
#: What is sent, and what must be the same here and there: an expression of ``o``.
SENT: dict[str, tuple[str, str]] = {
    # Programs
    "a graph": ("wb.trace(loss)(X)", RUN),
    "a graph, as text": ("wb.trace(loss)(X)", "str(o)"),
    "a graph without values": ("wb.trace(loss)(wb.Spec((4,), float))", RUN),
    "a gradient": ("wb.trace(wb.grad(loss))(X)", RUN),
    "a gradient with an override": (
        "wb.trace(wb.grad(loss, overrides=[wb.override('sin', '0.5 * d')]))(X)",
        RUN + ", [n.origin and n.origin.overridden for n in o.nodes]"),
    "a gradient of symbols": ("wb.Graph([v], [wb.grad(loss(v), v)])", "str(o)"),
    "unknown lengths": ("wb.Graph([u], [np.mean(u) * u[1:]])", RUN),
    "unknown lengths, as text": ("wb.Graph([u], [np.reshape(u, (2, -1))])", "str(o)"),
    "a long program": ("wb.trace(wb.grad(unrolled))(X)", RUN),
    "a loop": ("wb.trace(wb.jacobian(scanned))(X)", RUN),
    "how a loop is compiled": (
        "wb.trace(scanned)(X)",
        "[n.op.lower is None for n in o.nodes if n.op.name == 'scan']"),
    "a branch": ("wb.trace(picked)(wb.Spec((4,), float))", RUN),
    "a checkpoint": ("wb.trace(wb.grad(wb.checkpoint(loss)))(X)", RUN),
    "linear algebra": ("wb.trace(lambda x: np.linalg.inv(np.diag(x)))(X)", RUN),
    "a mask": ("wb.trace(wb.grad(lambda x: np.sum(np.where(x > 2, x / 3, x))))"
               "(X)", RUN),
    "an op of a graph": ("wb.OpFromGraph([v], [v**3], name='cubed')",
                         "o(X).tolist()"),
    "a graph with an op of a graph": (
        "wb.trace(wb.grad(lambda x: np.sum(wb.OpFromGraph([v], v**3)(x))))(X)", RUN),
    "a spec": ("wb.Spec((2, 3), 'f4')", "o"),
    # Sparse derivatives
    "a pattern": ("wb.jacobian(product, sparse=True).prepare(X).pattern",
                  "o.to_scipy().toarray().tolist()"),
    "a colouring": ("after_call(wb.jacobian(product, sparse=True)).colouring",
                    "str(o)"),
    # Reports
    "a report": ("wb.check_grads(loss, (X,), seed=1)", "str(o)"),
    "a report of nodes": ("wb.Session(wb.trace(loss)(X)).check(seed=1)",
                          "str(o), o.counts"),
    "findings": ("wb.diagnose(lambda x: np.sum(np.sqrt(x)), np.zeros(3))",
                 "repr(o), o[0].node.op.name, o[0].node.shape, o[0].place"),
    "a wrong gradient": ("catch(wb.check_grads, wrong, (X,))",
                         "type(o).__name__, str(o), str(o.report)"),
    "an error with its node": (
        "catch(wb.trace(lambda x: x @ np.ones((3, 3))), X)", "str(o)"),
    "a profile": ("wb.compile(wb.grad(loss), backend='numpy').profile(X)",
                  "str(o), [r.ops for r in o], [str(r.sites) for r in o]"),
    # Rules
    "an override": ("wb.override(np.sin, 'd * 2')", "str(o)"),
    "a shipped rule": ("wb.override('sin', wb.rules.clip_by_norm(1.0))", "str(o)"),
    "a rule of a table": (
        "wb.simplify(wb.trace(lambda x: -(-x))(X)).steps[0].rule", "o.name, o.lhs"),
    "a rule of a graph": ("wb.graph_rule(inputs=['x', 'g'], nodes=[], returns=['g'])"
                          " if hasattr(wb, 'graph_rule') else None", "str(o)"),
}  # fmt: skip

#: What is made of functions: cloudpickle alone sends those of a notebook.
WITH_FUNCTIONS: dict[str, tuple[str, str]] = {
    "grad": ("wb.grad(loss)", "o(X).tolist()"),
    "hessian": ("wb.hessian(loss)", "o(X).tolist()"),
    "vmap": ("wb.vmap(loss)", "o(X[:, None]).tolist()"),
    "checkpoint": ("wb.checkpoint(loss)", "float(o(X))"),
    "compiled gradient": ("wb.compile(wb.grad(loss), backend='numpy')",
                          "o(X).tolist()"),
    "compiled with a rule": (
        "wb.compile(loss, backend='numpy', rules=[wb.rewrite_rule("
        "'mine', lambda x: np.sin(x) ** 2, lambda x: 1 - np.cos(x) ** 2)])",
        "'cos' in (o(X), str(o.graph))[1]"),
    "sparse": ("wb.jacobian(product, sparse=True)", "o(X).toarray().tolist()"),
    "sparse, called": ("after_call(wb.jacobian(product, sparse=True))",
                       "o(X).toarray().tolist()"),
    "sparse hessian, called": (
        "after_call(wb.hessian(lambda x: np.sum(product(x)), sparse=True))",
        "o(X).toarray().tolist()"),
    "custom_vjp": ("doubled", "wb.grad(lambda x: np.sum(o(x)))(X).tolist()"),
    "an override by a function": ("wb.override(np.sin, lambda node, g: 3 * g)",
                                  "str(wb.trace(wb.grad(np.sin, overrides=[o]))(1.0))"),
    "a problem": ("wb.optimize.problem(loss, X)", "o.n, o.solve('BFGS').success"),
}  # fmt: skip

#: What a module names, and a notebook defines.
NAMED: dict[str, tuple[str, str]] = {
    "a compiled function": ("compiled", "float(o(X))"),
    "a class of an op": (
        "PickledCube",
        "wb.grad(lambda x: np.sum(o()(x)))(X).tolist()",
    ),
    "an op": ("PickledCube(power=2)", "o == type(o)(power=2), o(X).tolist()"),
    "an op in use": ("use(PickledCube(power=4))",
                     "wb.grad(lambda x: np.sum(o(x)))(X).tolist()"),
    "a graph with a kernel": (
        "wb.trace(wb.value_and_grad(lambda x: np.sum(PickledHalf()(x) ** 2)))(X)", RUN),
    "a graph with a custom_vjp": (
        "wb.trace(wb.grad(lambda x: np.sum(doubled(x))))(X)", RUN),
    "a graph with a custom_vjp, before": (
        "wb.trace(lambda x: np.sum(doubled(x)))(X)",
        "wb.grad(lambda x: o.run([x])[0])(X).tolist()"),
    "a graph with an op": (
        "wb.trace(wb.grad(lambda x: np.sum(PickledCube(power=2)(x))))(X)", RUN),
    "trace": ("wb.trace(loss)", "str(o(X))"),
}  # fmt: skip

CHILD = """
import pickle, sys
import numpy as np
import workbench as wb
from workbench.core.op import OPS
X = np.arange(1.0, 5.0)
found = []
for name, data, probe in pickle.load(sys.stdin.buffer):
    try:
        o = pickle.loads(data)
        found.append((name, eval(probe)))
    except Exception as error:
        found.append((name, f"{type(error).__name__}: {error}"))
sys.stdout.buffer.write(pickle.dumps(found))
"""


def read_elsewhere(rows: list[tuple[str, bytes, str]]) -> dict[str, Any]:
    """What a fresh process finds in pickled things."""
    done = subprocess.run(
        [sys.executable, "-c", CHILD], input=pickle.dumps(rows),
        capture_output=True, cwd=ROOT, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    return dict(pickle.loads(done.stdout))


def compare(
    table: dict[str, tuple[str, str]], names: dict[str, Any], dumps: Any
) -> list[str]:
    """Send a table, and return in words what is another thing there."""
    rows, want, faults = [], {}, []
    scope = {**names, "u": wb.vector("u"), "v": wb.vector("v", shape=4)}
    for name, (make, probe) in table.items():
        o = eval(make, scope)
        try:
            rows.append((name, dumps(o), probe))
        except Exception as error:
            faults.append(f"{name} is not sent: {type(error).__name__}: {error}")
            continue
        want[name] = eval(probe, {**scope, "o": o})
    found = read_elsewhere(rows)
    faults += [
        f"{name}: {found[name]!r} there, {value!r} here"
        for name, value in want.items()
        if found[name] != value
    ]
    return faults


def test_plain_pickle_sends_what_a_module_names() -> None:
    assert compare(SENT | NAMED, globals(), pickle.dumps) == []


@pytest.mark.skipif(
    importlib.util.find_spec("cloudpickle") is None, reason="needs cloudpickle"
)
def test_cloudpickle_sends_what_a_notebook_defines() -> None:
    import cloudpickle

    names: dict[str, Any] = {"__name__": "__main__"}
    cell = CELL.replace("    power:", "    name = 'cell_cube'\n    power:")
    cell = cell.replace("PickledHalf", "CellHalf").replace("pickled_half", "cell_half")
    exec(compile(cell, "<cell>", "exec"), names)
    names["PickledHalf"] = names["CellHalf"]
    table = SENT | NAMED | WITH_FUNCTIONS
    assert compare(table, names, cloudpickle.dumps) == []


# What stays


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: wb.scalar("x"), "a place in a program. Pickle x.value"),
        (lambda: wb.trace(np.sin)(X).outputs[0], "a place in a program"),
        (lambda: wb.shared(X), "Pickle its value"),
        (lambda: wb.Session(wb.trace(np.sum)(X)), r"ad\.save\(path\)|\.save\(path\)"),
        (lambda: wb.function([], wb.shared(1.0) + 1), "Keep the code that makes it"),
        (lambda: wb.Graph([], [wb.shared(1.0) + 1]), "shared value.*Pickle its"),
        (lambda: wb.Graph([], [wb.scalar("x") + 1]), "'x'.*a place in a program"),
    ],
)
def test_what_does_not_travel_says_why(make: Any, text: str) -> None:
    with pytest.raises(TypeError, match=text):
        pickle.dumps(make())


# Errors


@pytest.mark.parametrize("name", errors.__all__)
def test_every_error_comes_back_as_it_is(name: str) -> None:
    kind = getattr(errors, name)
    error = kind("the text")
    error.note = ("what it carries", 3)
    error.node = wb.scalar("x")
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is kind
    assert str(again) == str(error)
    assert again.note == error.note


def test_a_gradient_error_keeps_its_numbers() -> None:
    error = errors.GradientError("wrong", arg=1, err_pos=2, abs_err=0.5, rel_tol=1e-3)
    again = pickle.loads(pickle.dumps(error))
    assert (again.arg, again.err_pos, again.abs_err, again.rel_tol) == (1, 2, 0.5, 1e-3)


# Graphs


def test_a_graph_comes_back_at_home() -> None:
    """The copy is a program of its own; lines, names and scopes are kept."""

    def f(x: Any) -> Any:
        with wb.scope("inner"):
            y = np.tanh(x)
        return np.sum(y * 2.0)

    graph = wb.trace(f)(X)
    again = pickle.loads(pickle.dumps(graph))
    assert isinstance(again, Graph)
    assert str(again) == str(graph)
    for a, b in zip(graph.nodes, again.nodes, strict=True):
        assert a is not b
        assert (a.name, a.scope, a.site) == (b.name, b.scope, b.site)
        assert b.value is None
    with pytest.raises(errors.ShapeError, match=r"test_pickling\.py"):
        pickle.loads(pickle.dumps(wb.trace(lambda x: x @ X)(X))).run([np.ones(3)])
    g = wb.grad(lambda x: again.run([x])[0])(X)
    np.testing.assert_allclose(g, 2 / np.cosh(X) ** 2)


def test_a_deep_graph_needs_no_recursion() -> None:
    def f(x: Any) -> Any:
        for _ in range(3 * sys.getrecursionlimit()):
            x = x + 1.0
        return x

    again = pickle.loads(pickle.dumps(wb.trace(f)(0.0)))
    assert again.run([0.0]) == [3.0 * sys.getrecursionlimit()]


def test_copies_are_the_thing_itself() -> None:
    for thing in (globals()["compiled"], wb.trace(np.sin)(X).outputs[0].op):
        assert copy.copy(thing) is copy.deepcopy(thing) is thing


CASES = {f"{s.name}-{kind}": (s, kind) for s in SAMPLES for kind in s.kinds}
ALIKE_CASES = {name for name, row in CASES.items() if row[0].name in ALIKE}


def describe(node: Any) -> tuple[Any, ...]:
    rule = node.origin and node.origin.rule
    op = node.op if OPS.get(node.op.name) is node.op else node.op.name
    return op, node.name, node.scope, node.site, types.spec_of(node), rule


@pytest.mark.skipif(
    importlib.util.find_spec("cloudpickle") is None, reason="needs cloudpickle"
)
@parametrize_chunks("sample kind", CASES, alike=ALIKE_CASES)
def test_every_program_gives_the_same_bits(
    sample: Sample, kind: str, rng: np.random.Generator
) -> None:
    """The value of each sample and its gradient, on lines, names and specs of home."""
    import cloudpickle

    dtype = {"f": np.float64, "c": np.complex128}[kind]
    args = [np.asarray(a, dtype) for a in sample.arguments(rng)]
    weight = rng.normal(size=np.shape(sample.f(*args)))

    def loss(*args: Any) -> Any:
        return np.real(np.sum(weight * sample.f(*args)))

    slope = wb.grad(loss, tuple(range(len(args))))
    graph = wb.trace(lambda *args: [sample.f(*args), slope(*args)])(*args)
    again = pickle.loads(cloudpickle.dumps(graph))
    with np.errstate(all="ignore"):
        there, here = again.run(args), graph.run(args)
    # A product of matrices rounds by where its operands lie in memory.
    rounds = any(x.op.traits.contracts for x in graph.nodes)
    for a, b in zip(there, here, strict=True):
        assert type(a) is type(b)
        if rounds:
            np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-13)
        else:
            assert np.asarray(a).tobytes() == np.asarray(b).tobytes()
    # What depends on no input has become a constant.
    varying = graph.schedule.varying
    nodes = [x for x in graph.nodes if x.serial in varying]
    assert [describe(x) for x in again.nodes] == [describe(x) for x in nodes]


def test_a_large_constant_is_sent_once() -> None:
    """Each ``A.T`` is another array of the same memory."""
    A = np.arange(20000.0).reshape(100, 200)

    def f(x: Any) -> Any:
        for _ in range(5):
            x = A.T @ np.tanh(A @ x)
        return x * np.float64(2.0)

    graph = wb.trace(wb.grad(lambda x: np.sum(f(x))))(np.ones(200))
    assert len(pickle.dumps(graph)) < 3 * A.nbytes
    lifted, constants = lift_constants(graph)
    assert {x.nbytes for x in constants} == {A.nbytes}
    assert len(constants) <= 2  # A and A.T
    assert len(pickle.dumps(lifted)) < 10000
    np.testing.assert_array_equal(
        lifted.run([*constants, np.ones(200)]), graph.run([np.ones(200)])
    )
    assert [x.op.name for x in lifted.interior] == [x.op.name for x in graph.interior]


@pytest.mark.long
def test_a_hundred_thousand_nodes_travel(measured: Callable[[str], None]) -> None:
    def f(x: Any) -> Any:
        for _ in range(33_000):
            x = np.sin(x) * 0.5 + x
        return x

    graph = wb.trace(f)(wb.Spec((4,), float))

    begin = time.process_time()
    travelled = pickle.loads(pickle.dumps(graph))
    spent = time.process_time() - begin
    measured(f"{len(graph.nodes):,} nodes pickled and back: {spent:.2f} s (goal 1.5)")
    x = np.linspace(-1, 1, 4)
    np.testing.assert_array_equal(travelled.run([x]), graph.run([x]))
