"""Cells that fill arrays: functions of modules, errors half-way, sessions and runs.

What such cells compute, and leave behind, is tested with those of test_namespace.py.
"""

from __future__ import annotations

import ast
import inspect
import signal
import sys
import textwrap
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.core.filling import PROGRAMS
from workbench.core.tensor import Tensor

from .conftest import Notebook
from .test_cell import SETUP

#: A module as users have it: NumPy under several names, helpers, a class, defaults.
MODULE = '''
import numpy as np
from numpy import zeros, empty as room

def smooth(v, a):
    """First-order low-pass filter."""
    out = np.zeros(len(v))
    out[0] = a * v[0]
    for i in range(1, len(v)):
        out[i] = a * v[i] + (1 - a) * out[i - 1]
    return out

def edit(a, b, gap):
    table = zeros((len(a) + 1, len(b) + 1))
    table[:, 0] = gap * np.arange(len(a) + 1)
    table[0] = gap * np.arange(len(b) + 1)
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            table[i, j] = min(
                table[i - 1, j - 1] + (a[i - 1] - b[j - 1]) ** 2,
                table[i - 1, j] + gap,
                table[i, j - 1] + gap,
            )
    return table[-1, -1]

class Heat:
    def __init__(self, n):
        self.u = room((n, 5))
    def solve(self, start, rate):
        self.u[0] = start
        for row, after in zip(self.u, self.u[1:]):
            after[:] = row
            after[1:-1] += rate * (row[2:] - 2 * row[1:-1] + row[:-2])
        return self.u[-1]
'''


@pytest.fixture
def cells(notebook: Notebook, tmp_path: Path) -> Iterator[Notebook]:
    notebook.run(SETUP)
    (tmp_path / "own_filters.py").write_text(MODULE)
    sys.path.insert(0, str(tmp_path))
    yield notebook
    sys.path.remove(str(tmp_path))
    sys.modules.pop("own_filters", None)


def differences(cells: Notebook, body: str, name: str, move: Any) -> Any:
    """The slope of what plain cells compute, along a move of one variable."""
    found = []
    kept = cells.names[name]
    for step in (1e-6, -1e-6):
        cells.names[name] = kept + step * move
        found.append(cells.run(body).result)
    cells.names[name] = kept
    return (found[0] - found[1]) / 2e-6


CALLS = {
    "a module": "import own_filters\nnp.sum(own_filters.smooth(w, s) ** 2)",
    "its functions": "from own_filters import edit\nedit(w, X[:, 0], s) * s",
    "its class": (
        "from own_filters import Heat\nheat = Heat(4)\n"
        "np.sum(heat.solve(X.ravel()[:5] * w[0], s) ** 2)"
    ),
    "a function within": (
        "def loss(v):\n    from own_filters import smooth\n"
        "    return smooth(v, s)[-1]\n"
        "loss(w)"
    ),
}


@pytest.mark.parametrize("body", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("earlier", [False, True])
def test_functions_of_a_module_fill_arrays(
    cells: Notebook, body: str, earlier: bool, rng: np.random.Generator
) -> None:
    plain = cells.run(body).result
    if not earlier:
        cells.run("import sys\ndel sys.modules['own_filters']")
        for name in ("own_filters", "edit", "Heat", "loss"):
            cells.names.pop(name, None)
    ran = cells.run("%%autodiff --wrt w s --show none\n" + body)
    heat = cells.names.get("heat")
    assert heat is None or type(heat.u) is np.ndarray
    first = cells.names["X"][0, 1] * cells.names["w"][0]
    assert heat is None or heat.u[0, 1] == first
    assert ran.result == plain
    assert type(ran.result) is type(plain)
    for name, move in (("w", rng.normal(size=3)), ("s", 1.0)):
        g = cells.names["ad"].grads[name]
        expected = differences(cells, body, name, move)
        assert np.sum(g * move) == pytest.approx(expected, rel=1e-6)
    module = sys.modules["own_filters"]
    assert vars(module)["np"] is np
    assert vars(module)["zeros"] is np.zeros


FILL = "out = np.zeros(3)\nfor i in range(3):\n    out[i] = w[i] * s\n"


def check_names(cells: Notebook) -> None:
    assert cells.names["np"] is np
    assert cells.names["zeros"] is np.zeros
    assert not any(isinstance(x, Tensor) for x in cells.names.values())
    cells.run("%%autodiff out --show none --seed seed3\n" + FILL)
    np.testing.assert_array_equal(cells.names["ad"].grads["s"], cells.names["w"].sum())
    assert cells.names["np"] is np


@pytest.mark.parametrize(
    "error", ["1 / 0", "raise KeyboardInterrupt", "out[9] = s", "raise SystemExit", "x"]
)
def test_an_error_leaves_names_as_they_were(cells: Notebook, error: str) -> None:
    cells.run("from numpy import zeros\nseed3 = np.ones(3)")
    ran = cells.run(f"%%autodiff out\n{FILL}zeros = zeros\n{error}\nnp = 0", ok=False)
    assert ran.error is not None
    out = cells.names["out"]
    assert type(out) is np.ndarray
    np.testing.assert_array_equal(out, cells.names["w"] * cells.names["s"])
    out[0] = 5.0  # an array as any other
    check_names(cells)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_leaves_names_as_they_were(cells: Notebook) -> None:
    cells.run("from numpy import zeros\nseed3 = np.ones(3)")
    cells.names["strike"] = lambda: signal.raise_signal(signal.SIGINT)
    ran = cells.run(f"%%autodiff out\n{FILL}strike()\nout[0] = 7.0", ok=False)
    assert type(ran.error) is KeyboardInterrupt
    assert cells.names["out"][0] == cells.names["w"][0] * cells.names["s"]
    check_names(cells)


def test_a_cell_in_a_cell(cells: Notebook) -> None:
    cells.run("from numpy import zeros\nseed3 = np.ones(3)")
    inner = "%%autodiff --name m --show none\\nq = np.zeros(2)\\nq[0] = t\\nq.sum()"
    cells.run("t = 2.0")
    cells.run(
        "%%autodiff out --seed seed3 --show none\n"
        f"get_ipython().run_cell('{inner}')\n{FILL}"
    )
    assert cells.names["m"].grads["t"] == 1.0
    assert cells.names["ad"].grads["s"] == pytest.approx(cells.names["w"].sum())
    check_names(cells)


def test_a_thread_beside_a_cell_has_plain_arrays(cells: Notebook) -> None:
    cells.run(
        "from numpy import zeros\nimport threading\nseed3 = np.ones(3)\nmade = []\n"
        "asked, told, over = (threading.Event() for _ in range(3))\n"
        "def work():\n    while not over.is_set():\n        if asked.wait(0.01):\n"
        "            x = np.zeros(3)\n            x[0] = 2.5\n"
        "            made.append(x)\n"
        "            asked.clear()\n            told.set()\n"
        "thread = threading.Thread(target=work)\nthread.start()\n"
        "def ask():\n    told.clear()\n    asked.set()\n    assert told.wait(30)"
    )
    try:
        cells.run("%%autodiff out --seed seed3 --show none\nask()\n" + FILL + "ask()")
        cells.run("ask()")
    finally:
        cells.run("over.set(); thread.join()")
    made = cells.names["made"]
    assert [type(x) for x in made] == [np.ndarray] * 3
    assert all(x[0] == 2.5 for x in made)
    check_names(cells)


def test_a_thread_that_differentiates_is_not_disturbed(cells: Notebook) -> None:
    """Its function has stored before a cell runs, and stores again after it."""
    cells.run(
        "import threading\nbegun, go = threading.Event(), threading.Event()\n"
        "found = []\nseed3 = np.ones(3)\n"
        "def f(x):\n    a = np.zeros(2)\n    a[0] = x\n    begun.set()\n"
        "    go.wait(30)\n    b = np.zeros(2)\n    b[1] = x * x\n"
        "    return np.sum(a) + np.sum(b)\n"
        "def work():\n    found.append(wb.grad(f)(3.0))\n"
        "thread = threading.Thread(target=work)\nthread.start()\nbegun.wait(30)"
    )
    try:
        cells.run("%%autodiff out --show none --seed seed3\n" + FILL)
    finally:
        cells.run("go.set(); thread.join()")
    assert cells.names["found"] == [7.0]
    assert cells.names["np"] is np
    np.testing.assert_array_equal(cells.names["ad"].grads["s"], cells.names["w"].sum())


def test_all_names_of_numpy(cells: Notebook) -> None:
    cells.run("%%autodiff --wrt s --show none\nfrom numpy import *\nx = zeros(2)\n"
              "x[0] = s\nx += array([s, 1.0])\nx.sum()")  # fmt: skip
    assert cells.names["ad"].grads["s"] == 2.0
    for name in np.__all__:
        assert cells.names[name] is getattr(np, name), name


def test_names_that_were_taken_from_numpy_are_numpys_again(cells: Notebook) -> None:
    cells.run(
        "%%autodiff --show none\nmake = np.zeros\nclass Solver:\n"
        "    def __init__(self, xp=np):\n        self.xp, self.parts = xp, [xp.ones]\n"
        "solver = Solver()\nx = solver.xp.zeros(2)\nx[0] = s\nx.sum()"
    )
    solver = cells.names["solver"]
    assert cells.names["make"] is np.zeros
    assert solver.xp is np
    assert solver.parts == [np.ones]
    assert cells.names["Solver"].__init__.__defaults__ == (np,)


def test_names_of_scipy_take_tensors_in_a_cell(cells: Notebook) -> None:
    cells.run("import scipy\nfrom scipy.special import logsumexp")
    cells.run(
        "%%autodiff --wrt w --show none\n"
        "import scipy.stats\nimport scipy.linalg as sl\n"
        "from scipy.stats import norm\nkept = [norm, sl]\n"
        "np.sum(norm.logpdf(w)) + logsumexp(w) + scipy.stats.norm.logpdf(w[0])"
        " + np.trace(sl.expm(np.outer(w, w)))"
    )
    w, names = cells.names["w"], cells.names
    soft = np.exp(w) / np.exp(w).sum()
    # The trace of exp(w wᵀ) is exp(w · w) + 2.
    expected = -w + soft + 2 * w * np.exp(w @ w) - [w[0], 0, 0]
    np.testing.assert_allclose(names["ad"].grads["w"], expected, rtol=1e-9)
    import scipy.linalg
    import scipy.special
    import scipy.stats

    assert names["scipy"] is scipy
    assert names["sl"] is scipy.linalg
    assert names["norm"] is scipy.stats.norm
    assert names["kept"] == [scipy.stats.norm, scipy.linalg]
    assert names["logsumexp"] is scipy.special.logsumexp


# Sessions of such cells

LOOP = """out = np.zeros(4)
out[0] = w[0]
for i in range(3):
    out[i + 1] = 0.5 * out[i] + w[i] * s
loss = np.sum(out * out)"""


def test_a_session_runs_again_with_other_values(cells: Notebook) -> None:
    cells.run("%%autodiff loss --show none\n" + LOOP)
    session = cells.names["ad"]
    w = np.array([1.5, 2.5, -0.5])
    found = session.run(w=w, s=0.75)
    plain: dict[str, Any] = {"np": np, "w": w, "s": 0.75}
    exec(LOOP, plain)
    assert float(found) == pytest.approx(plain["loss"], rel=1e-14)
    slopes = []
    for step in (1e-6, -1e-6):
        names: dict[str, Any] = {"np": np, "w": w, "s": 0.75 + step}
        exec(LOOP, names)
        slopes.append(names["loss"])
    expected = (slopes[0] - slopes[1]) / 2e-6
    assert session.grads["s"] == pytest.approx(expected, rel=1e-7)
    np.testing.assert_array_equal(session["out"].value, plain["out"])


def test_a_session_remembers_its_steps(cells: Notebook) -> None:
    """Descent by hand, and by a session that runs again and again."""
    cells.run("%%autodiff loss --wrt w --show none\n" + LOOP)
    session, s = cells.names["ad"], cells.names["s"]
    w = cells.names["w"].copy()
    losses = []
    for _ in range(4):
        session.run(w=w)
        plain: dict[str, Any] = {"np": np, "w": w, "s": s}
        exec(LOOP, plain)
        losses.append(plain["loss"])
        np.testing.assert_array_equal(session["out"].value, plain["out"])
        # By hand: out' = d out / dw backwards through the recurrence.
        g, by_w = 2 * plain["out"], np.zeros(3)
        for i in reversed(range(3)):
            by_w[i] += s * g[i + 1]
            g[i] += 0.5 * g[i + 1]
        by_w[0] += g[0]
        np.testing.assert_allclose(session.grads["w"], by_w, rtol=1e-12)
        w = w - 0.05 * by_w
    line = session.timeline
    assert [line[k].loss for k in line] == pytest.approx(losses)
    assert losses == sorted(losses, reverse=True)


def test_a_node_stands_at_the_line_of_its_store(cells: Notebook) -> None:
    cells.run("%%autodiff loss --show none\n" + LOOP)
    nodes = cells.names["ad"].graph.nodes
    stores = [x for x in nodes if x.op.name == "index_set"]
    assert [x.site.line for x in stores] == [3, 5, 5, 5]
    assert {x.name for x in stores} == {"out"}
    # Each shows what the array held then.
    rows = [np.count_nonzero(x.value) for x in stores]
    assert rows == [1, 2, 3, 4]


def test_a_written_array_is_differentiated_by_its_name(cells: Notebook) -> None:
    cells.run("%%autodiff loss --wrt out --show none\n" + LOOP)
    np.testing.assert_allclose(cells.names["ad"].grads["out"], 2 * cells.names["out"])


def test_a_failed_cell_shows_what_was_filled(cells: Notebook) -> None:
    ran = cells.run(f"%%autodiff loss\n{LOOP}\nnp.zeros(3) @ out", ok=False)
    assert ran.outputs, "the program so far"
    out = cells.names["out"]
    assert out.shape == (4,)
    assert isinstance(out, np.ndarray)


@pytest.mark.parametrize("magic", ["", "%%autodiff --show none\n"])
def test_a_generator_goes_on_after_its_cell(cells: Notebook, magic: str) -> None:
    cells.run(
        magic + "def rows():\n    y = np.zeros(3)\n    for i in range(3):\n"
        "        y[i] = w[i]\n        factor = yield y\n"
        "        y *= 1 if factor is None else factor\n    return y.sum()\n"
        "it = rows()\nfirst = next(it)\nfirst[0] * s"
    )
    names = cells.names
    assert isinstance(names["it"], types.GeneratorType)
    # What is in a generator's own names stays, and behaves as an array.
    sent = names["it"].send(2.0)
    assert isinstance(sent, np.ndarray)
    np.testing.assert_array_equal(np.asarray(sent), [1.0, -1.0, 0.0])
    np.testing.assert_array_equal(names["first"], [1.0, -1.0, 0.0])
    assert cells.run("[y.sum() for y in it]").result == [2.0]


def test_a_check_of_a_function_that_fills_stands_in_a_cell(cells: Notebook) -> None:
    cells.run(
        "def f(v):\n    out = np.zeros(3)\n    for i in range(3):\n"
        "        out[i] = v[i] ** 2\n    return np.sum(out * s)"
    )
    cells.run("%%autodiff --show none --wrt w\ng = wb.grad(f)(w)\nnp.sum(g * g)")
    w, s = cells.names["w"], cells.names["s"]
    np.testing.assert_allclose(cells.names["ad"].grads["w"], 8 * w * s * s)


# The programs of functions, as the lines of a cell

WAVES = """
def waves(y):
    return y * np.cos(np.arange(np.size(y)).reshape(np.shape(y)))
"""


def lines_of(f: Any) -> str:
    """The body of a function of one array, as lines that leave its value in `out`."""
    body = ast.parse(textwrap.dedent(inspect.getsource(f))).body[0]
    assert isinstance(body, ast.FunctionDef)
    *lines, last = body.body
    assert isinstance(last, ast.Return)
    assert last.value is not None
    text = ast.unparse(ast.Module([*lines], []))
    name = body.args.args[0].arg
    return (
        f"{name} = given.copy()\n{text}\nout = np.sum(waves({ast.unparse(last.value)}))"
    )


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_of_a_function_is_right_in_a_cell(
    notebook: Notebook, name: str, rng: np.random.Generator
) -> None:
    f, given, _ = PROGRAMS[name]
    lines = lines_of(f)
    names = {k: v for k, v in f.__globals__.items() if not k.startswith("__")}

    def run(x: Any, magic: str = "") -> dict[str, Any]:
        notebook.reset()
        notebook.names.update(names | {"np": np, "given": x})
        notebook.run(WAVES)
        notebook.run(magic + lines)
        return {k: v for k, v in notebook.names.items() if k not in names}

    plain = run(given)
    found = run(given, "%%autodiff out --wrt given --show none\n")
    g = found["ad"].grads["given"]
    for key, value in plain.items():
        if isinstance(value, (np.ndarray, np.floating)) and key[0] != "_":
            assert type(found[key]) is type(value), key
            np.testing.assert_allclose(found[key], value, rtol=1e-12, err_msg=key)
    move = rng.normal(size=given.shape)
    ends = [run(given + step * move)["out"] for step in (1e-6, -1e-6)]
    assert np.sum(g * move) == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-5)


def test_names_share_memory_after_the_cell_as_they_would(cells: Notebook) -> None:
    cell = """a = np.sin(w) * 1.0
b = a[..., ::-1]
a[0] = s
c = a[1:]
d = np.zeros((2, 3))
d[1] = w * s
e = np.ravel(d)
f = d.T[1:]
g = f[0]
total = np.sum(a)
total += s
h = a[:2]
loss = np.sum(b * c[0]) + np.sum(e) * total + np.sum(f * g) + h[1]"""
    plain: dict[str, Any] = {"np": np, "w": cells.names["w"], "s": cells.names["s"]}
    exec(cell, plain)
    cells.run("%%autodiff loss --show none\n" + cell)
    names = "abcdefgh"
    for name in names:
        assert type(cells.names[name]) is np.ndarray
        np.testing.assert_allclose(cells.names[name], plain[name])
    for first in names:
        for second in names:
            shared, expected = (
                np.shares_memory(x[first], x[second]) for x in (cells.names, plain)
            )
            assert shared == expected, (first, second)
    change = "c[1] = 7.0\ne[4] = 9.0\nb[0] *= 2.0\nf[0, 0] = 3.0"
    exec(change, plain)
    cells.run(change)
    for name in names:
        np.testing.assert_allclose(cells.names[name], plain[name])
    graph = cells.names["ad"].graph
    assert graph.outputs[0].value == cells.names["loss"]
