"""What travels to a worker, and what runs there: without a cluster."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import workbench as wb
from tests.backends.cupy.host import COMPILER
from tests.backends.cupy.standin import DeviceArray, Standin
from workbench.backends.cupy import devices
from workbench.distributed import programs
from workbench.distributed.pieces import PER_TASK, choose_count, split
from workbench.distributed.programs import WorkerProgram, load_program, pack
from workbench.errors import ClusterError

A = np.arange(40000.0).reshape(200, 200) / 1e4


def test_a_program_comes_without_its_large_constants() -> None:
    graph = wb.trace(lambda x: np.sum(A.T @ np.tanh(A @ x)))(wb.Spec((200,), float))
    packed = pack(graph)
    assert len(packed.data) < 10_000
    assert packed.key == pack(graph).key
    assert packed.key != pack(wb.trace(np.sum)(wb.Spec((200,), float))).key
    program = load_program(packed.data)
    x = np.linspace(0, 1, 200)
    (found,) = program.run([*packed.constants, x])
    np.testing.assert_allclose(found, graph.run([x])[0], rtol=1e-12)
    again = pickle.loads(pickle.dumps(program))
    assert again.run([*packed.constants, x]) == [found]


def is_standin(x: object) -> bool:
    return isinstance(x, DeviceArray)


@pytest.mark.skipif(COMPILER is None, reason="needs g++")
def test_chunks_on_a_gpu_are_computed_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compute follows data: the weights go there, and the results come back."""
    graph = wb.trace(lambda w, X: np.mean(np.tanh(X @ w)))(
        wb.Spec((3,), float), wb.Spec((5, 3), float)
    )
    monkeypatch.setattr(devices, "_RUNTIME", device := Standin())
    monkeypatch.setattr(programs, "is_device_array", is_standin)
    w, X = np.ones(3), np.arange(15.0).reshape(5, 3) / 10
    (found,) = WorkerProgram(graph).run([w, wb.to_gpu(X)])
    assert device.log
    assert type(found) in (float, np.float64, np.ndarray)
    np.testing.assert_allclose(found, np.mean(np.tanh(X @ w)), rtol=1e-12)


def test_what_holds_a_shared_value_does_not_travel() -> None:
    x = wb.shared(1.0, name="state")
    with pytest.raises(ClusterError, match=r"cannot be sent.*shared value 'state'"):
        pack(wb.Graph([], [x * 2]))


def test_pieces_are_as_many_as_pay() -> None:
    for workers in (1, 2, 10, 1000):
        assert choose_count(1.0, workers) == 1
        for seconds in (10.0, 1e3, 1e6):
            count = choose_count(seconds, workers)
            assert 1 < count <= 8 * workers
            end = seconds / min(count, workers)
            assert count * PER_TASK <= 0.101 * end or workers == 1
    spans = split(103, 7)
    assert [a for a, _ in spans] == [0, *[b for _, b in spans[:-1]]]
    assert {b - a for a, b in spans[:-1]} == {15}
    assert spans[-1][1] == 103
