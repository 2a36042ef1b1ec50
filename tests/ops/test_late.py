"""What loads or is filled in when first used: also in a second thread, also twice."""

from __future__ import annotations

from threading import Event, Thread
from time import sleep

import pytest

from workbench.core.hooks import OP_MODULES
from workbench.core.op import Op, load_ops


def test_a_second_thread_waits_for_what_is_late_in_an_op() -> None:
    """Half filled, an op would look like one without derivative: a silent zero."""
    op = Op("invented")
    began, seen = Event(), []

    def late() -> None:
        began.set()
        sleep(0.05)
        op.pull = lambda *_: [1]

    op.fill_rules = late
    first = Thread(target=lambda: op.pull)
    first.start()
    began.wait()
    seen.append(op.pull)
    first.join()
    assert seen[0] is not None


def test_what_fails_in_filling_an_op_fails_again() -> None:
    op = Op("invented")

    def late() -> None:
        raise ValueError("no such name")

    op.fill_rules = late
    for _ in range(2):
        with pytest.raises(ValueError, match="no such name"):
            op.pull  # noqa: B018


def test_a_module_of_ops_that_did_not_load_is_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def function() -> None: ...

    function.__module__ = "scipy.invented"
    monkeypatch.setitem(OP_MODULES, "scipy.invented", "workbench.ops.invented")
    for _ in range(2):
        with pytest.raises(ModuleNotFoundError, match="invented"):
            load_ops(function)
    assert not load_ops(len)
