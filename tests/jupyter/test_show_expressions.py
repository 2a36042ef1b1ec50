"""What `wb.show` makes of an expression of symbols."""

from __future__ import annotations

import numpy as np

import workbench as wb
from workbench.jupyter.display import make_session
from workbench.session.wire import take_snapshot
from workbench.session.wire.detail import gather_details


def test_a_constant_is_no_input_and_bears_its_value() -> None:
    x = wb.scalar("x")
    session = make_session(wb.grad(x * x + x, x))
    assert [session.nodes.labels[i] for i in session.wrt] == ["x"]
    shown = take_snapshot(session)
    (i,) = np.flatnonzero(shown.columns["kind"] == 1)
    assert shown.header["strings"][shown.columns["name"][i]] == "1.0"
    assert "1.0" in gather_details(session, i + 1)["inputs"]


def test_shared_variables_are_inputs_beside_symbols() -> None:
    x, n = wb.scalar("x"), wb.shared(1.5, "n")
    session = make_session(x * n * wb.constant(3.0))
    assert [session.nodes.labels[i] for i in session.wrt] == ["x", "n"]
    session.run(x=2.0, n=5.0)
    assert float(session.value) == 30.0
    assert float(session.grads["n"]) == 6.0
    assert float(n.get_value()) == 1.5


def test_constants_alone_are_what_it_is_a_function_of() -> None:
    session = make_session(np.sin(wb.constant([0.0, 0.0])))
    np.testing.assert_allclose(session.grads[0], [1.0, 1.0])
