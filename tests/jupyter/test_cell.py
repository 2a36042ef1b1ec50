"""What users meet: usage errors, exceptions at their lines, interrupts, completion."""

from __future__ import annotations

import signal
import threading
import warnings
from typing import Any

import numpy as np
import pytest
from IPython.core.completer import provisionalcompleter

from workbench.core.trace import ProgramTrace
from workbench.errors import GradientLostError, TraceError, WorkbenchError
from workbench.jupyter.cell import Cell
from workbench.session import Session

from .conftest import Notebook, Ran

SETUP = """
import types
mod = types.ModuleType("mod")
X = np.arange(12.0).reshape(4, 3) / 7
w = np.array([0.5, -1.0, 2.0])
s = 0.25
n = 3
labels = np.array([0, 1, 0, 1])
seed = np.ones(4)
def inner(v):
    a = 1

    return v @ X
"""


@pytest.fixture
def cells(notebook: Notebook) -> Notebook:
    notebook.run(SETUP)
    return notebook


def places(session: Session) -> dict[str, tuple[str, int]]:
    return {
        node.name or node.op.name: (node.site.place, node.site.line)
        for node in session.graph.nodes
        if node.site is not None
    }


# Usage


@pytest.mark.parametrize(
    ("line", "body", "said"),
    [
        ("los", "loss = w.sum()", "the cell does not assign los, did you mean loss?"),
        ("", "loss = w.sum()", "as in %%autodiff loss, or end the cell with an expr"),
        ("loss --wrt W", "loss = w.sum()", "--wrt W is not a variable of the notebook,"
         " did you mean w?"),
        ("loss --wrt n", "loss = w.sum() * n", "of dtype int, and only floats and"
         " complex numbers have derivatives. Write n = 3.0 before the cell."),
        ("loss --wrt labels", "loss = w.sum()", "Write labels ="
         " labels.astype(float) before the cell."),
        ("loss --wrt inner", "loss = w.sum()", "is a function, not an array"),
        ("loss --wth w", "loss = w.sum()", "no option --wth, did you mean --wrt?"),
        ("loss --wrt", "loss = w.sum()", "--wrt needs a value"),
        ("loss w", "loss = w.sum()", "the output is one name, not loss w; did you mean"
         " --wrt w?"),
        ("loss wrt w", "loss = w.sum()", "is one name, not loss wrt w; did you mean"
         " --wrt w?"),
        ("loss wrt", "loss = w.sum()", "the output is one name, not loss wrt"),
        ("loss --wrt net.W", "loss = w.sum()", "'net.W' is not the name of a variable."
         " Before the cell write W = net.W; in the cell compute with W (after net.W ="
         " W, where a function reads it there), and say --wrt W. Or use wb.grad("),
        ("loss --wrt p['W']", "loss = w.sum()", "Before the cell write W = p['W']; in"),
        ("loss --wrt nets[0].W", "loss = w.sum()", "the cell write W = nets[0].W; in"),
        ("loss --wrt ws[1]", "loss = w.sum()", "Before the cell write w = ws[1]; in"),
        ("loss --show grap", "loss = w.sum()", "--show has no 'grap', did you mean"
         " graph?"),
        ("loss --name a b", "loss = w.sum()", "the output is one name, not loss b"),
        ("loss --name X", "loss = w.sum()", "X is a variable of the notebook"),
        ("loss --name loss", "loss = w.sum()", "loss is a variable of the notebook"),
        ("loss --name 2x", "loss = w.sum()", "'2x' is not the name of a variable"),
        ("loss --wrt w --wrt X", "loss = w.sum()", "--wrt is given twice"),
        ("loss 'x", "loss = w.sum()", "No closing quotation"),
        ("loss", "# nothing", "the cell is empty"),
    ],
)  # fmt: skip
def test_a_bad_option_is_one_line(
    cells: Notebook, line: str, body: str, said: str
) -> None:
    names = dict(cells.names)
    ran = cells.run(f"%%autodiff {line}\n{body}", ok=False)
    assert ran.stderr.startswith("UsageError: ")
    assert said in ran.stderr
    assert ran.stderr.count("\n") == 1
    assert ran.stdout == ""
    assert ran.error is not None
    assert "loss" not in cells.names
    assert names.keys() <= cells.names.keys()


def test_weights_of_an_object_have_derivatives_as_is_advised(cells: Notebook) -> None:
    cells.run(
        "class Net:\n"
        "    def __init__(self):\n"
        "        self.label, self.W = 'net', np.ones(3)\n"
        "    def loss(self):\n"
        "        return np.sum(np.tanh(self.W * w))\n"
        "net, ws, weights = Net(), [np.ones(3)], {'b': 1, 'W': np.ones(3)}"
    )
    true = 1 - np.tanh(cells.names["w"]) ** 2
    for of, part in (("net", "net.W"), ("ws", "ws[0]"), ("weights", "weights['W']")):
        for line in (of, part):
            said = cells.run(f"%%autodiff loss --wrt {line}\nloss = s * 1", ok=False)
            name = "w" if of == "ws" else "W"
            assert f"Before the cell write {name} = {part}; in the cell" in said.stderr
            assert f"(after {part} = {name}, where" in said.stderr
        cells.run(f"V = {part}")
        body = "net.loss()" if of == "net" else f"np.sum(np.tanh({part} * w))"
        cells.run(f"%%autodiff loss --wrt V --show none\n{part} = V\nloss = {body}")
        expected = true * cells.names["w"]
        np.testing.assert_allclose(cells.names["ad"].grads["V"], expected)
        assert type(cells.run(part).result) is np.ndarray
    cells.run("del weights['b']")
    found = cells.run(
        "wb.grad(lambda p: np.sum(np.tanh(p['W'] * w)))(weights)['W']"
    ).result
    np.testing.assert_allclose(found, true * cells.names["w"])


def test_options_in_any_spelling(cells: Notebook) -> None:
    cells.run("%%autodiff --wrt=w --name m loss  # why not\nloss = (X @ w).sum()")
    assert cells.names["m"].nodes.labels[cells.names["m"].output] == "loss"
    cells.run("%%autodiff loss --wrt w, X --show none\nloss = (X @ w).sum()")
    assert list(cells.names["ad"].grads) == ["w", "X"]


def test_every_input_that_reaches_the_output_is_differentiated_by(
    cells: Notebook,
) -> None:
    cells.run("%%autodiff --show none\nother = s * 2\nnp.sum(X @ w) * n")
    assert set(cells.names["ad"].grads) == {"X", "w"}


def test_a_value_of_the_cell_can_be_differentiated_by(cells: Notebook) -> None:
    cells.run("%%autodiff --wrt h --show none\nh = X @ w\nnp.sum(h**2)")
    np.testing.assert_allclose(
        cells.names["ad"].grads["h"], 2 * cells.names["X"] @ cells.names["w"]
    )


def test_a_cell_runs_again_with_its_own_values_there(cells: Notebook) -> None:
    for _ in range(2):
        cells.run(
            "%%autodiff loss --wrt h w --show none\nh = X @ w\nloss = np.sum(h**2)"
        )
        h = cells.names["X"] @ cells.names["w"]
        np.testing.assert_allclose(cells.names["ad"].grads["h"], 2 * h)
    for k in range(2):  # what it is before, and what it becomes
        cells.run("%%autodiff loss --wrt s --show none\ns = s * 2\nloss = s * w[2]")
        assert cells.names["ad"].grads["s"] == 4.0
        assert cells.names["s"] == 0.5 * 2**k


def test_what_only_a_function_reads_is_named_by_wrt(cells: Notebook) -> None:
    cells.run("def f(v):\n    return v * s")
    cells.run("%%autodiff --show none\nf(w).sum()")
    assert list(cells.names["ad"].grads) == ["w"]
    cells.run("%%autodiff --wrt s --show none\nf(w).sum()")
    assert cells.names["ad"].grads["s"] == pytest.approx(1.5)
    assert type(cells.names["s"]) is float


def test_an_alias_of_an_array_is_a_name_of_it(cells: Notebook) -> None:
    cells.names["u0"] = np.array([0.5, 1.0])
    text = "u = u0\nh = np.sin(u)\nv = h\nE = np.sum(v**2)"
    cells.run(f"%%autodiff E --wrt u --show none\n{text}")
    session = cells.names["ad"]
    expected = np.sin(2 * np.array([0.5, 1.0]))  # the derivative of sin(u)²
    np.testing.assert_allclose(session.grads["u"], expected)
    np.testing.assert_allclose(session.grads["u0"], expected)
    np.testing.assert_allclose(session.values["v"], session.values["h"])
    session.override("v", "2 * d")
    np.testing.assert_allclose(session.grads["u"], 2 * expected)


def test_a_seed_makes_a_gradient_of_many_numbers(cells: Notebook) -> None:
    ran = cells.run("%%autodiff y --show none\ny = X @ w", ok=False)
    assert "Reduce it" in ran.text
    assert "1 %%autodiff y" in ran.text
    cells.run("%%autodiff y --seed seed --wrt w --show none\ny = X @ w")
    np.testing.assert_allclose(cells.names["ad"].grads["w"], cells.names["X"].sum(0))
    ran = cells.run("%%autodiff y --seed sead --show none\ny = X @ w", ok=False)
    assert "did you mean seed?" in ran.text


# Exceptions


def shows(ran: Ran, *parts: str) -> None:
    """The parts are there, in this order; no frame of ours is."""
    at = 0
    for part in parts:
        assert part in ran.text[at:], ran.text
        at = ran.text.index(part, at) + len(part)
    for ours in ("workbench/", "run_cell_magic", "cell.py", "site-packages"):
        assert ours not in ran.text, ran.text


def test_an_exception_has_the_cells_line(cells: Notebook) -> None:
    ran = cells.run("%%autodiff loss\n\nh = X @ w\nloss = h[7]", ok=False)
    assert type(ran.error) is IndexError
    shows(
        ran, "IndexError", f"Cell In[{cells.number}], line 4\n", "----> 4 loss = h[7]"
    )


def test_an_exception_in_a_function_of_another_cell(cells: Notebook) -> None:
    ran = cells.run("%%autodiff loss\nloss = inner(w).sum()", ok=False)
    shows(
        ran,
        f"Cell In[{cells.number}], line 2\n",
        "----> 2 loss = inner(w).sum()",
        f"Cell In[{cells.number - 1}], line 12, in inner(v)",
        "---> 12     return v @ X",
        "ShapeError: (3,) @ (4, 3): 3 ≠ 4. matmul(float64[3], float64[4, 3])",
        f"(at [{cells.number - 1}]:12: return v @ X)",
    )


def test_an_exception_keeps_its_chain(cells: Notebook) -> None:
    ran = cells.run(
        "%%autodiff\ntry:\n    {}['a']\nexcept KeyError as e:\n"
        "    raise RuntimeError('second') from e\nw.sum()",
        ok=False,
    )
    assert type(ran.error.__cause__) is KeyError
    shows(ran, "KeyError", "----> 3", "direct cause", "RuntimeError", "----> 5")


def test_blank_lines_count_as_in_the_editor(cells: Notebook) -> None:
    ran = cells.run("\n\n%%autodiff\n\n1 / 0", ok=False)
    shows(ran, "ZeroDivisionError", "----> 5 1 / 0")


@pytest.mark.parametrize(
    ("cell", "kind", "line"),
    [
        ("%%autodiff\nx = = 1\nw.sum()", "SyntaxError", "line 2"),
        ("%%autodiff\n\nif w:\nw.sum()", "IndentationError", "line 4"),
        ("%%autodiff\nreturn w.sum()\nw", "SyntaxError", "line 2"),
        ("%%autodiff\neval('1 +')\nw.sum()", "SyntaxError", "----> 2"),
    ],
)
def test_a_syntax_error_has_its_line(
    cells: Notebook, cell: str, kind: str, line: str
) -> None:
    ran = cells.run(cell, ok=False)
    assert type(ran.error).__name__ == kind
    assert str(ran.error) != "None"
    assert kind in ran.text
    assert line.replace("----> 2", "line 2") in ran.text
    assert "run_cell_magic" not in ran.text
    assert "workbench/" not in ran.text


def test_run_all_stops(cells: Notebook) -> None:
    ran = cells.run("%%autodiff\n1 / 0", ok=False)
    assert isinstance(ran.error, ZeroDivisionError)
    assert not ran.result


def test_math_on_a_tensor_says_what_to_write(cells: Notebook) -> None:
    ran = cells.run("%%autodiff\nimport math\nmath.sin(s) * w[0]", ok=False)
    assert type(ran.error) is GradientLostError
    shows(ran, "----> 3 math.sin(s)", "np.sin(x) in place of math.sin(x)")


def test_what_is_not_differentiated_by_converts_freely(cells: Notebook) -> None:
    cells.run(
        "%%autodiff --wrt w --show none\nk = float(s)\nfloat(X.sum()) * w.sum() * k"
    )
    assert type(cells.names["k"]) is float


def test_an_output_without_an_input(cells: Notebook) -> None:
    ran = cells.run("%%autodiff loss --wrt w\nloss = X.sum()", ok=False)
    shows(ran, "----> 1 %%autodiff loss --wrt w", "loss does not depend on w")
    ran = cells.run("%%autodiff loss\nloss = n * 2.0", ok=False)
    shows(ran, "loss is 6.0", "depends on no float variable")
    assert cells.names["loss"] == 6.0


def test_an_output_that_was_not_reached(cells: Notebook) -> None:
    ran = cells.run("%%autodiff y\nif s > 1:\n    y = s * 2", ok=False)
    shows(ran, "----> 1 %%autodiff y", "the cell has not assigned y")


def test_a_warning_names_the_line(cells: Notebook) -> None:
    with pytest.warns(
        RuntimeWarning, match="divide by zero encountered in log"
    ) as found:
        cells.run("%%autodiff --show none\n\ny = np.log(w * 0)\nw.sum()")
    assert [warning.lineno for warning in found] == [3]


def test_what_is_displayed_is_what_it_is_without_the_magic(cells: Notebook) -> None:
    body = (
        "from IPython.display import display\ny = w * 2\ndisplay(y, [y[0], s])\nw.sum()"
    )
    plain = cells.run(body)
    ran = cells.run("%%autodiff --show none\n" + body)
    assert ran.outputs == plain.outputs
    assert plain.outputs[0] == {"text/plain": "array([ 1., -2.,  4.])"}


# Assignment to items


OLDER = "is older than this cell: other cells would see the change, and the graph would"


@pytest.mark.parametrize(
    ("body", "line", "said"),
    [
        ("w[0] = s\nw.sum()", 2, OLDER),
        ("w *= 2\nw.sum()", 2, OLDER),
        ("v = w\nv[0] = s\nv.sum()", 3, OLDER),
        ("v = w[1:]\nv[0] = s\nv.sum()", 3, OLDER),
        ("np.add(w, 1, out=w)\nw.sum()", 2, OLDER),
        ("X[X > 1] = 0\nw.sum() + X.sum()", 2, OLDER),
        ("labels[0] = s\nw.sum()", 2, "a Tensor was stored into a plain array"),
        ("y = w[labels[:3]]\nlabels[0] = 1\ny.sum()", 3, "Work on a .copy()"),
    ],
)
def test_an_older_array_is_not_written_to(
    cells: Notebook, body: str, line: int, said: str
) -> None:
    before = {name: np.copy(cells.names[name]) for name in ("X", "w", "labels")}
    ran = cells.run(f"%%autodiff --show none\n{body}", ok=False)
    assert isinstance(ran.error, WorkbenchError)
    shows(ran, f"----> {line} ", said)
    assert said is not OLDER or "Work on a copy: x = x.copy()." in ran.text
    for name, value in before.items():
        np.testing.assert_array_equal(cells.names[name], value)
        assert cells.names[name].flags.writeable


BUMP = "def bump(a):\n    a *= 3\n    return a\n"


def test_a_function_from_outside_changes_in_place(cells: Notebook) -> None:
    cells.run(BUMP)
    lines = "y = w * 2\nz = bump(y)\nout = z.sum()"
    plain = {}
    for magic in ("", "%%autodiff out --show none\n"):
        cells.run(magic + lines)
        for name in ("y", "z", "out"):
            found = cells.names[name]
            np.testing.assert_array_equal(found, plain.setdefault(name, found))
    np.testing.assert_array_equal(cells.names["y"], 6 * cells.names["w"])
    np.testing.assert_array_equal(cells.names["ad"].grads["w"], [6, 6, 6])


@pytest.mark.parametrize(
    "body",
    [
        "y = w * 2\nbump(y)\nout = y.sum()",
        "y = w * 2\nv = y[1:]\nbump(v)\nout = y.sum()",
        "y = (w[:1] * 2).reshape(())\nz = y[...]\nbump(z)\nout = y * 1.0",
        "y = w * 2\nv = y[1:]\nz = bump(y)\nout = z.sum()",
    ],
)
def test_what_a_function_from_outside_changes_is_seen(
    cells: Notebook, body: str
) -> None:
    cells.run(BUMP)
    plain: dict[str, Any] = {}
    for magic in ("", "%%autodiff out --show none\n"):
        cells.run(magic + body)
        for name in {"y", "v", "z", "out"} & set(cells.names):
            found = cells.names[name]
            np.testing.assert_array_equal(found, plain.setdefault(name, found))


def test_a_function_from_outside_changes_no_input(cells: Notebook) -> None:
    cells.run(BUMP)
    ran = cells.run("%%autodiff --show none\nbump(w)\nw.sum()", ok=False)
    assert isinstance(ran.error, TraceError)
    assert OLDER in ran.text, ran.text


def test_numpys_own_refusals_stay(cells: Notebook) -> None:
    ran = cells.run("%%autodiff\nk = np.zeros(3, int)\nk += w\nw.sum()", ok=False)
    shows(ran, "----> 3 k += w", "write x = x + v, which makes a new one.")
    ran = cells.run("%%autodiff\ny = w * 2\ny += X\ny.sum()", ok=False)
    shows(ran, "----> 3 y += X", "the result has shape (4, 3), and does not fit into")


# The last good session


def test_a_failure_keeps_the_last_good_session(cells: Notebook) -> None:
    cells.run("%%autodiff --name m --show none\nw.sum()")
    good = cells.names["m"]
    for body in ("1 / 0", "x = (", "X.sum() * n", "np.float64(n)", "w * 2"):
        cells.run(f"%%autodiff --name m --wrt w\n{body}", ok=False)
        assert cells.names["m"] is good
    cells.run("%%autodiff --name m --show none\nw.sum()")
    assert cells.names["m"] is not good


def test_a_table_of_another_library(cells: Notebook) -> None:
    cells.run(
        "class Table:\n"
        "    def __init__(self, data):\n"
        "        self.data = np.asarray(data)\n"
        "    def __array__(self, dtype=None, copy=None):\n"
        "        return np.asarray(self.data, dtype=dtype)"
    )
    cells.run("%%autodiff loss --show none\nloss = np.sum(w * Table(w)) + s * 0")
    np.testing.assert_allclose(
        cells.names["ad"].grads["w"], 2 * np.array([0.5, -1.0, 2.0])
    )


# Python only reports an interrupt that strikes in a callback: another follows.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_keeps_the_last_good_session(cells: Notebook) -> None:
    cells.run("%%autodiff --name m --show none\nw.sum()")
    good = cells.names["m"]
    main = threading.main_thread().ident
    assert main is not None
    # No event of Python's: an interrupt that strikes as one is set leaves it locked.
    cells.names["begun"] = begun = [False]
    ended = threading.Event()

    def interrupt() -> None:
        while not ended.wait(0.3):
            if not begun[0]:
                continue
            signal.pthread_kill(main, signal.SIGINT)
            if ended.wait(5):
                return
            # One that strikes in a callback of Python's goes unheard. Then the loop
            # still runs and sets it again; else its end may take any time.
            begun[0] = False

    thread = threading.Thread(target=interrupt)
    thread.start()
    ran = cells.run(
        "%%autodiff --name m\nk = 0.0\nwhile True:\n    k = k + w.sum()\n"
        "    begun[0] = True\nk",
        ok=False,
    )
    ended.set()
    thread.join()
    assert type(ran.error) is KeyboardInterrupt
    assert cells.names["m"] is good
    assert type(cells.names["w"]) is np.ndarray
    assert cells.names["w"].flags.writeable
    assert type(cells.names["k"]) is np.float64
    assert cells.run("%%autodiff --name m --show none\nw.sum()").result == 1.5


@pytest.mark.parametrize(
    ("owner", "step"),
    [(ProgramTrace, "release"), (Cell, "_restore")],
)
def test_a_second_interrupt_does_not_keep_a_cell_from_its_end(
    cells: Notebook, owner: type, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It struck while the first one was dealt with, and arrays stayed read-only."""
    cells.names["order"] = np.array([1, 0])
    real = getattr(owner, step)

    def interrupt(*args: Any) -> Any:
        signal.raise_signal(signal.SIGINT)
        return real(*args)

    monkeypatch.setattr(owner, step, interrupt)
    ran = cells.run(
        "%%autodiff --name m\nk = w[order].sum()\nview = order[:1]\nk", ok=False
    )
    monkeypatch.undo()
    assert type(ran.error) is KeyboardInterrupt
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert type(cells.names["w"]) is np.ndarray
    assert all(cells.names[name].flags.writeable for name in ("w", "order", "view"))
    assert type(cells.names["k"]) is np.float64
    assert cells.run("%%autodiff --name m --show none\nw.sum()").result == 1.5


# Places and names


def test_nodes_know_their_cell_line_and_name(cells: Notebook) -> None:
    cells.run("def f(v):\n    half = v / 2\n    return np.exp(half)")
    cells.run(
        "%%autodiff loss --show none\nh = np.tanh(X @ w)\nfor k in range(2):\n"
        "    h = f(h)\nloss = np.sum(h)"
    )
    session = cells.names["ad"]
    number = cells.number
    found = places(session)
    assert found["tanh" if "tanh" in found else "h"][0] in (
        f"[{number}]:2",
        f"[{number - 1}]:3",
    )
    assert found["loss"] == (f"[{number}]:5", 5)
    assert found["matmul"] == (f"[{number}]:2", 2)
    assert [x.name for x in session.graph.nodes if x.op.name == "tanh"] == ["h"]
    assert [x.name for x in session.graph.nodes if x.op.name == "exp"] == ["h", "h"]
    assert [x.site.place for x in session.graph.nodes if x.op.name == "divide"] == [
        f"[{number - 1}]:2"
    ] * 2


# Under Tab, and help


@pytest.mark.parametrize(
    ("line", "offered", "others"),
    [
        ("%%autodiff --", {"--wrt", "--name", "--show", "--seed"}, set()),
        ("%%autodiff loss --w", {"--wrt"}, {"--show"}),
        ("%%autodiff loss --wrt ", {"w", "X", "s"}, {"n", "labels", "inner"}),
        ("%%autodiff loss --wrt w ", {"X", "s", "--show"}, {"w", "--wrt"}),
        ("%%autodiff loss --show gr", {"graph"}, {"check"}),
        ("%%autodiff loss --show graph ", {"jacobian", "hessian", "check"}, {"graph"}),
        ("%%autodiff loss --backend ", {"numpy", "compiled", "auto"}, {"w"}),
    ],
)
def test_options_complete(
    cells: Notebook, line: str, offered: set[str], others: set[str]
) -> None:
    with provisionalcompleter():
        found = {x.text for x in cells.shell.Completer.completions(line, len(line))}
    assert offered <= found
    assert not others & found


def test_a_cell_chooses_what_computes_its_runs(cells: Notebook) -> None:
    body = "loss = np.sum((X @ w) ** 2)"
    cells.run(f"%%autodiff loss --wrt w --backend compiled --show none\n{body}")
    session = cells.names["ad"]
    assert session.backend == "numpy"
    cells.run("ad.run(w=2 * w); ad.wait()")
    assert cells.run("ad.run(w=3 * w), ad.backend").result[1] == "compiled"
    X, w = cells.names["X"], cells.names["w"]
    np.testing.assert_allclose(session.grads["w"], 2 * X.T @ (X @ (3 * w)))
    ran = cells.run(f"%%autodiff loss --backend compile --show none\n{body}", ok=False)
    assert "no backend 'compile', did you mean compiled?" in ran.text
    assert "numpy, compiled, auto" in ran.text


def test_help_is_there(cells: Notebook) -> None:
    ran = cells.run("%%autodiff?")
    shown = ran.text + "".join(str(output) for output in ran.outputs)
    if "--wrt" not in shown:  # the pager of a plain shell
        assert "--wrt NAME" in cells.shell.object_inspect_text("%%autodiff")


def test_outputs_have_the_names_that_they_are_unpacked_into(cells: Notebook) -> None:
    cells.run(
        "%%autodiff loss --wrt w --show none\ny = np.outer(w, w) + np.eye(3)\n"
        "for k in range(2):\n    q, (r) = np.linalg.qr(y)\n    y = r @ q\n"
        "[u, s, vh], t = np.linalg.svd(y), 2.0\nfirst, *rest = np.linalg.eigh(y)\n"
        "loss = np.sum(s) * t + np.sum(first) + np.sum(rest[0])"
    )
    nodes = cells.names["ad"].graph.nodes
    names = [x.name for x in nodes if x.op.name == "item"]
    assert names == ["q", "r", "q", "r", "s", "first", None]
    assert cells.run("[q, r] = 1, 2\nq, r").result == (1, 2)


def test_a_check_says_in_which_cell_its_function_is(cells: Notebook) -> None:
    report = cells.run("wb.check_grads(lambda v: np.sum(v**2), (w,))").result
    assert f"<lambda> ([{cells.number}]:1)" in repr(report)


def test_advice_names_the_lines_of_the_editor(cells: Notebook) -> None:
    cells.run(
        "big = np.array([1000.0, 2.0])\ndef soft(t):\n    return np.log(1 + np.exp(t))"
    )
    number, last = cells.number, "    1 + np.exp(h))) + np.sum(soft(h))"
    with np.errstate(all="ignore"):
        cells.run(
            "\n%%autodiff loss --show none\n# a note\nh = big + 0\n"
            f"loss = np.sum(np.log(\n{last}"
        )
        own, function = [one.fix.edit for one in cells.names["ad"].diagnose()[:2]]
    assert own.file == f"[{cells.number}]"
    assert own.line == 5
    assert own.before == ("loss = np.sum(np.log(", last)
    assert own.after == ("loss = np.sum(np.logaddexp(0, h)) + np.sum(soft(h))",)
    assert (function.file, function.line) == (f"[{number}]", 3)
    assert function.after == ("    return np.logaddexp(0, t)",)


def test_advice_names_a_value_as_its_line_does(cells: Notebook) -> None:
    cells.run("big = np.array([1000.0, 2.0])")
    with np.errstate(all="ignore"):
        cells.run(
            "%%autodiff loss --show none\nh = big + 0\ng = h\nh = 2 * h\n"
            "loss = np.log(np.sum(np.exp(g))) + np.sum(h)"
        )
        found = cells.names["ad"].diagnose()
    # The same Tensor was called h first, which is another one by then.
    edits = [one.fix.edit for one in found if one.fix]
    assert [edit.after for edit in edits] == [("loss = wb.logsumexp(g) + np.sum(h)",)]


def test_a_warning_names_the_cell_and_its_line(cells: Notebook) -> None:
    cells.run("zero = np.zeros(2)")
    with warnings.catch_warnings(record=True) as found, np.errstate(all="warn"):
        warnings.simplefilter("always")
        cells.run("%%autodiff loss --show none\n\nh = np.log(zero)\nloss = h.sum()")
    one = found[0]
    told = warnings.formatwarning(one.message, one.category, one.filename, one.lineno)
    line = f"[{cells.number}]:3: RuntimeWarning: divide by zero encountered in log"
    assert told == f"{line}\n  h = np.log(zero)\n"


# What Python decides by values


def test_a_run_that_would_take_another_branch_is_an_error(cells: Notebook) -> None:
    cells.run("q, flag = 1.5, 2.0")
    cells.run(
        "%%autodiff --name branch\n"
        "size = q if flag > 1 else 0.0\n"
        "y = size**2 if q > 0 else -size**3\n"
        "y"
    )
    ran = cells.run("branch.run(q=-2.0)", ok=False)
    assert "UsageError: run: with these inputs Python would decide" in ran.text
    assert f"(at [{cells.number - 1}]:3: y = size**2 if q > 0 else" in ran.text
    assert cells.run("branch.run(q=2.0)").result == 4.0
    assert cells.run("branch.grads['q']").result == 4.0


def test_a_number_of_an_array_outside_wrt_is_a_decision(cells: Notebook) -> None:
    cells.run("data = np.array([1.0, 3.0])")
    cells.run("%%autodiff loss --wrt s\nk = float(data[1])\nloss = s*k*data[0]")
    assert cells.run("float(ad.run(data=np.array([5.0, 3.0])))").result == 3.75
    ran = cells.run("ad.run(data=np.array([5.0, 4.0]))", ok=False)
    assert "float(x) of" in ran.text
    assert "was 3.0 when the program was recorded, and is 4.0 now" in ran.text


def test_names_that_a_cell_only_decides_by_are_no_inputs(cells: Notebook) -> None:
    cells.run("flag = 2.0")
    cells.run("%%autodiff loss\nloss = s**2 if flag > 1 else s")
    assert cells.run("sorted(ad.nodes.names)").result == ["loss", "s"]
    assert cells.run("float(ad.run(s=3.0))").result == 9.0
