"""A page with a clock of its own, for the tests of the wire."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import workbench as wb
from workbench.jupyter.link import Link
from workbench.session import Session
from workbench.session.wire import merge_points, take_snapshot
from workbench.session.wire.protocol.fields import COLUMNS


def model(w: Any, x: Any) -> Any:
    with wb.scope("layer"):
        h = np.tanh(w * x)
    return np.sum(h * h)


def kind_of(message: dict[str, Any]) -> str:
    """The type of a message; of a picture whether it is whole or a patch."""
    if message.get("type") == "picture":
        return "snapshot" if message["of"] is None else "patch"
    return str(message.get("type"))


class Page:
    """A page with a clock of its own; it draws nothing until it is told to."""

    def __init__(
        self,
        session: Session,
        start: Callable[[Callable[[], None]], Any] = lambda work: work(),
        is_running: Callable[[], bool] = lambda: False,
    ) -> None:
        self.now = 0.0
        #: The part of the time that the kernel has the processor.
        self.share = 1.0
        self.timers: list[tuple[float, Callable[[], None]]] = []
        self.got: list[dict[str, Any]] = []
        self.buffers: list[list[Any]] = []
        self.header: dict[str, Any] = {}
        self.columns: dict[str, Any] = {}
        self.seq = 0
        #: The number of the state that it shows.
        self.state = 0
        #: What it has not acknowledged.
        self.unread: list[int] = []
        #: The pieces of a state that have come: the first, their bytes, all sizes.
        self.pieces: tuple[int, bytes, list[int]] = (0, b"", [])
        self.link = Link(
            session,
            self.receive,
            clock=lambda: self.now,
            later=lambda seconds, call: self.timers.append((self.now + seconds, call)),
            start=start,
            is_running=is_running,
            processor_clock=lambda: self.now * self.share,
        )

    def receive(self, message: dict[str, Any], buffers: list[Any]) -> None:
        json.dumps(message, allow_nan=False, ensure_ascii=False).encode()
        self.got.append(message)
        self.unread.append(message["seq"])
        self.buffers.append(buffers)
        if message["type"] == "piece":
            self.put_by(message, buffers)
        if message["type"] == "picture":
            if "pieces" in message:
                assert buffers == []
                buffers = self.put_together(message)
            assert message["of"] in (None, self.state)
            self.state = message["seq"]
            listed = message["columns"]
            assert len(listed) == len(buffers)
            for column, buffer in zip(listed, buffers, strict=True):
                assert column["dtype"] == COLUMNS[column["name"]]
                assert memoryview(buffer).nbytes == buffer.nbytes
                assert column["length"] == buffer.size
                self.columns[column["name"]] = buffer
            news = message["header"]
            if message["of"] is not None and news.get("timeline") is not None:
                merged = merge_points(self.header["timeline"], news["timeline"])
                news = {**news, "timeline": merged}
            self.header |= news

    def put_by(self, message: dict[str, Any], buffers: list[Any]) -> None:
        if message["first"] == message["seq"]:
            self.pieces = message["first"], b"", message["sizes"]
        first, data, sizes = self.pieces
        assert (message["first"], message["start"]) == (first, len(data))
        assert message["sizes"] == sizes
        self.pieces = first, data + b"".join(map(bytes, buffers)), sizes

    def put_together(self, message: dict[str, Any]) -> list[Any]:
        first, data, sizes = self.pieces
        assert message["pieces"] == first
        assert len(data) == sum(sizes)
        ends = np.cumsum(sizes)
        listed = message["columns"]
        return [
            np.frombuffer(data[end - size : end], column["dtype"])
            for end, size, column in zip(ends, sizes, listed, strict=True)
        ]

    def send(self, event: str, **fields: Any) -> None:
        self.seq += 1
        self.link.receive({"type": "event", "seq": self.seq, "event": event, **fields})

    def hello(self, **fields: Any) -> None:
        self.send("hello", schema=1, **fields)
        self.acknowledge()

    def acknowledge(self) -> None:
        unread, self.unread = self.unread, []
        for seq in unread:  # as the page does, one by one
            self.send("ack", of=seq)

    def wait(self, seconds: float) -> None:
        self.now += seconds
        due = [call for when, call in self.timers if when <= self.now]
        self.timers = [t for t in self.timers if t[0] > self.now]
        for call in due:
            call()

    def take(self) -> list[dict[str, Any]]:
        found, self.got = self.got, []
        return found

    def shows(self, session: Session) -> bool:
        """Whether what it has been told is what there is."""
        now = take_snapshot(session)
        return all(
            np.array_equal(self.columns[name], column, equal_nan=True)
            for name, column in now.columns.items()
        ) and all(
            self.header[key] == value
            for key, value in now.header.items()
            if key != "columns"
        )

    def until(self, kind: str, request: int | None = None) -> dict[str, Any]:
        """The first message of a kind that a thread of the kernel's has sent."""
        for _ in range(1000):
            for message in list(self.got):
                if message["type"] == kind and request in (None, message["request"]):
                    return message
            time.sleep(0.01)
        raise AssertionError(f"no {kind}: {self.got[-3:]}")
