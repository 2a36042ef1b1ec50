"""A large state is cut into pieces that hold its bytes, all and in order."""

from __future__ import annotations

import numpy as np
import pytest

from workbench.jupyter import sending
from workbench.jupyter.sending import cut_state


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "PIECE", 40)
    monkeypatch.setattr(sending, "WHOLE", 100)


def test_pieces_hold_all_bytes_in_order(rng: np.random.Generator) -> None:
    for _ in range(200):
        sizes = rng.integers(0, 30, size=int(rng.integers(1, 8)))
        buffers = [
            rng.standard_normal(n).astype(rng.choice(["f8", "i4", "u1"])) for n in sizes
        ]
        total = b"".join(b.tobytes() for b in buffers)
        *cut, (last, rest) = cut_state({"type": "patch", "header": {}}, buffers, 5)
        if len(total) <= 100:
            assert (cut, last) == ([], {"type": "patch", "header": {}})
            assert all(a is b for a, b in zip(rest, buffers, strict=True))
            continue
        assert (last["type"], last["pieces"], rest) == ("patch", 5, [])
        whole = b""
        for message, parts in cut:
            assert message == {
                "type": "piece",
                "first": 5,
                "start": len(whole),
                "sizes": [b.nbytes for b in buffers],
            }
            size = sum(part.nbytes for part in parts)
            assert size == 40 or (size < 40 and message is cut[-1][0])
            assert size
            whole += b"".join(part.tobytes() for part in parts)
        assert whole == total


def test_pieces_are_no_copies() -> None:
    buffers = [np.arange(20.0), np.arange(7, dtype=np.int32)]
    *cut, _ = cut_state({"type": "snapshot"}, buffers, 1)
    for _, parts in cut:
        for part in parts:
            assert any(np.shares_memory(part, buffer) for buffer in buffers)
