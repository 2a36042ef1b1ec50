"""A session on arrays that lie on a device: numbers come to the host, few at a time.

Nothing here needs a GPU: the arrays are those of `tests.ops.test_foreign_arrays`, which
refuse what CuPy refuses. What waits for a device is counted.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.backends.cupy.standin import Standin
from tests.ops.test_foreign_arrays import Foreign
from workbench.backends.cupy import devices
from workbench.checks import statistics
from workbench.errors import UsageError
from workbench.session import html, profile
from workbench.session.wire import columns, detail

#: What brings a number to the host without being asked by name.
SILENT = "__bool__ __float__ __int__ __complex__ __index__ __str__ item tolist".split()


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Counts of what waits for the device; silent conversions are refused."""
    counts: Counter[str] = Counter()
    get = Foreign.get

    def fetch(self: Foreign) -> Any:
        counts["get"] += 1
        counts["bytes"] += self.nbytes
        return get(self)

    def refuse(name: str) -> Any:
        def convert(self: Foreign, *args: Any) -> Any:
            raise AssertionError(f"{name} waits for the device")

        return convert

    monkeypatch.setattr(Foreign, "get", fetch)
    for name in SILENT:
        monkeypatch.setattr(Foreign, name, refuse(name), raising=False)
    return counts


def network(x: Any, W: Any, V: Any) -> Any:
    hidden = np.tanh(x @ W)
    for _ in range(6):
        hidden = np.tanh(hidden @ V) + hidden
    return np.mean(hidden**2)


def draw(rng: np.random.Generator) -> tuple[Any, ...]:
    return (
        rng.standard_normal((9, 4)),
        rng.standard_normal((4, 40)),
        rng.standard_normal((40, 40)) / 9,
    )


def open_session(args: Any, **kwargs: Any) -> wb.Session:
    return wb.Session(wb.trace(network)(*args), **kwargs)


def assert_same(found: Any, expected: Any) -> None:
    for name, column in expected.columns.items():
        if column.dtype.kind == "f":
            np.testing.assert_allclose(
                found.columns[name], column, rtol=1e-11, atol=1e-13, err_msg=name
            )


def test_a_session_is_the_same_there(
    rng: np.random.Generator, waits: Counter[str]
) -> None:
    args = draw(rng)
    here, there = open_session(args), open_session(tuple(map(Foreign, args)))
    assert_same(columns.take_snapshot(there), columns.take_snapshot(here))
    names = [x.name for x in here.graph.inputs]
    for step in range(3):
        new = [x + step for x in args]
        for session, values in ((here, new), (there, map(Foreign, new))):
            session.run(**dict(zip(names, values, strict=True)))
            session.grads[names[1]]
    for session in (here, there):
        session.override("tanh", "0.5 * d")
    assert_same(columns.take_snapshot(there), columns.take_snapshot(here))
    np.testing.assert_allclose(there.timeline.losses, here.timeline.losses, rtol=1e-12)


def test_transfers_do_not_grow_with_the_program(
    rng: np.random.Generator, waits: Counter[str]
) -> None:
    session = open_session(tuple(map(Foreign, draw(rng))))
    columns.take_snapshot(session)
    # Edges, values, gradients, the output.
    assert waits["get"] <= 4, waits
    assert waits["bytes"] <= 8 * 16 * session.nodes.count
    session.override("tanh", "0.5 * d")
    waits.clear()
    columns.take_snapshot(session)
    # Edges, gradients, changes, the effect of the override (its edges, lengths and
    # angles), the output.
    assert waits["get"] <= 8, waits
    waits.clear()
    for i in range(session.nodes.count):
        detail.gather_details(session, i)
    assert waits["get"] <= 3 * session.nodes.count


def test_a_run_is_one_transfer(rng: np.random.Generator, waits: Counter[str]) -> None:
    args = tuple(map(Foreign, draw(rng)))
    session = open_session(args)
    session.timeline._spent_sizes = -1e9
    session.timeline._spent = 1e9  # the norms of all nodes are not affordable
    session.run(x=args[0])
    session.run(x=args[0])
    waits.clear()
    session.run(x=args[0])
    # The norms along the edges, then the loss with the norm of the gradient.
    assert waits["get"] == 2, waits
    assert waits["bytes"] < 8 * 100


def test_statistics_are_those_of_the_host(
    rng: np.random.Generator, waits: Counter[str]
) -> None:
    odd = [
        rng.standard_normal((3, 5)),
        rng.standard_normal(4000),
        np.array([1.0, np.nan, -np.inf]),
        np.array([np.inf, -np.inf]),
        np.array([1e200, -1e250]),
        np.array([1e-200, 1e-250]),
        np.zeros(7),
        np.zeros((0, 3)),
        np.array(3.0),
        np.arange(5),
        np.array([True, False]),
        rng.standard_normal(6) + 1j * rng.standard_normal(6),
        rng.standard_normal(9).astype(np.float32),
        (rng.standard_normal(6) + 1j * rng.standard_normal(6)).astype(np.complex64),
        np.array([3e38 + 3e38j], np.complex64),
    ]
    there = [Foreign(x) for x in odd]
    for compute in (statistics.summarize_arrays, statistics.compute_norms):
        waits.clear()
        found = compute([None, *there, (there[0], there[1]), "text"])
        assert waits["get"] == 1
        expected = compute([None, *odd, (odd[0], odd[1]), "text"])
        np.testing.assert_allclose(found, expected, rtol=1e-13)
    waits.clear()
    histograms = statistics.distributions(there)
    assert waits["get"] == 1
    for x, histogram in zip(odd, histograms, strict=True):
        assert histogram == statistics.distribution(x)
    moved = [x + 1 for x in odd]
    with np.errstate(all="ignore"):
        for many in (statistics.relative_changes, statistics.angles):
            waits.clear()
            found = many([Foreign(x) for x in moved], there)
            assert waits["get"] == 1
            np.testing.assert_allclose(found, many(moved, odd), rtol=1e-7, atol=1e-6)


def test_what_lies_elsewhere_is_refused(rng: np.random.Generator) -> None:
    args = draw(rng)
    session = open_session(tuple(map(Foreign, args)))
    before = session.run()
    with pytest.raises(UsageError, match=r"x lies on the GPU .* wb\.to_gpu\(value\)"):
        session.run(x=args[0])
    assert session.run() is before or np.all((session.run() == before).get())


def test_the_badge_says_what_runs(rng: np.random.Generator) -> None:
    args = draw(rng)
    assert "device" not in columns.take_snapshot(open_session(args)).header
    there = open_session(tuple(map(Foreign, args)))
    header = columns.take_snapshot(there).header
    assert (header["backend"], header["device"]) == ("cupy op by op", "a GPU")
    assert detail.gather_details(there, 3)["runs_on"] == "cupy op by op · a GPU"


class Host(Standin):
    """A device whose memory is the host's: NumPy's arrays lie on it."""

    def owns(self, x: object) -> bool:
        return isinstance(x, np.ndarray)


def test_the_inspector_shows_the_kernels(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devices, "_RUNTIME", Host())
    monkeypatch.setattr(profile, "is_on_device", lambda x: True)
    args = draw(rng)
    session = open_session(args, backend="cupy")
    assert session.wait()
    session.run(x=args[0])
    assert session.wait(), session._state.reason
    header = columns.take_snapshot(session).header
    assert (header["backend"], header["device"]) == ("cupy", "a device of tests")
    ops = [x.op.name for x in session.graph.nodes]
    found = detail.gather_details(session, ops.index("tanh"))
    assert found["runs_on"] == "cupy · a device of tests"
    value, rule = found["kernels"]
    assert value["title"].startswith("value: kernel ")
    assert "tanh" in value["title"]
    assert "tanh(" in value["source"]
    assert "__global__" in value["source"]
    assert rule["title"].startswith("rule: kernel ")
    product = detail.gather_details(session, ops.index("matmul"))
    assert not any(one["title"].startswith("value") for one in product["kernels"])


def test_a_session_moves_to_the_device(rng: np.random.Generator) -> None:
    """The device is named from the first run on that has its arrays there."""
    args = draw(rng)
    session = open_session(args)
    before = columns.take_snapshot(session)
    session.run(**{name: Foreign(x) for name, x in zip("xWV", args, strict=True)})
    patch = columns.find_changes(before, columns.take_snapshot(session))
    assert "device" not in before.header
    assert patch is not None
    assert patch.header["device"]


def test_a_rule_that_looks_at_values_is_run_by_cupy(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devices, "_RUNTIME", Host())
    args = draw(rng)
    session = open_session(args, name="net", backend="cupy")
    session.override("tanh", lambda node, g: g if g.sum() > 0 else -g)
    with pytest.warns(RuntimeWarning, match="net runs as CuPy: it cannot be recorded"):
        session.run(x=args[0])


# What looks at a session: pictures, files, checks, the doctor


def test_checks_and_plots_are_the_same_there(rng: np.random.Generator) -> None:
    args = draw(rng)
    here, there = open_session(args), open_session(tuple(map(Foreign, args)))
    for session in (here, there):
        session.override("tanh", "0.5 * d")
    names = [x.name for x in here.graph.inputs]
    for session in (here, there):
        session.run(**{names[0]: session.values[names[0]] + 1})
        plots = [wb.plots.check(session), wb.plots.steps(session)]
        plots += [wb.plots.jacobian(session), wb.plots.singular(session)]
        assert all(figure.data for figure in plots)
        session.run()
        assert session.compare(1, 2) is not None
    assert there.check().changed == pytest.approx(here.check().changed, rel=1e-9)
    # Each entry is moved a dozen times.
    x, W, V = args
    few = x, W[:, :3], V[:3, :3]
    wb.gradient.verify_grad(network, [Foreign(x) for x in few], rng=rng)


def test_a_session_there_is_written_as_a_file(
    rng: np.random.Generator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "page.html"
    page.write_text(f"<html>{html.PLACE}</html>")
    monkeypatch.setattr(html, "PAGE", page)
    session = open_session(tuple(map(Foreign, draw(rng))))
    session.run()
    session.to_html(tmp_path / "session.html")
    assert '"backend":"cupy op by op"' in (tmp_path / "session.html").read_text()
    assert "mean = " in repr(session)
    assert wb.show(session).to_html() == (tmp_path / "session.html").read_text()


SICK = {
    "log": (lambda x: np.sum(np.log(x)), np.array([1.0, -1.0, 2.0])),
    "slope": (lambda x: np.sum(np.sqrt(x)), np.array([1.0, 0.0, 2.0])),
    "softmax": (lambda x: np.exp(x) / np.sum(np.exp(x)), np.array([1.0, 1e3])),
    "power": (lambda x: np.sum(x**0.5), np.array([0.0, 2.0])),
    "length": (lambda x: x / np.linalg.norm(x), np.zeros(3)),
    "singular": (lambda x: np.linalg.inv(x), np.ones((3, 3)) + 1e-14 * np.eye(3)),
    "idle": (lambda x: np.maximum(x, 0.0) @ x.T, -np.ones((9, 4))),
    "loop": (lambda x: wb.scan(lambda a, h: h * a, x, [1.0]), np.full(4, 1e200)),
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", SICK)
def test_the_doctor_says_the_same_there(name: str, waits: Counter[str]) -> None:
    f, x = SICK[name]
    here, there = wb.diagnose(f, x), wb.diagnose(f, Foreign(x))
    assert [one.kind for one in here]
    assert str(there) == str(here)
    assert waits["get"] <= 16, waits  # one for each array


def test_the_doctor_leaves_values_where_they_are(
    rng: np.random.Generator, waits: Counter[str]
) -> None:
    session = open_session(tuple(map(Foreign, draw(rng))))
    assert not session.diagnose().stopped
    assert waits["get"] <= session.nodes.count + 4, waits
    assert all(isinstance(x._value, Foreign) for x in session.graph.nodes)
