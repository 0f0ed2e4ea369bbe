"""What the log says of a pause."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace
from typing import cast

import pytest
from support.options import source_options

from spark_stomp.protocol import MessageBlock
from spark_stomp.receiver import DedupIndex, Deliveries, Log, pause
from spark_stomp.receiver.pause import BoundedReader
from spark_stomp.receiver.subscription import ReceiverSettings
from spark_stomp.transport import Connection

FRAME = b"MESSAGE\nmessage-id:1\n\n\0"


@pytest.mark.parametrize("of_batch", [False, True])
def test_only_a_query_warns_of_a_long_one(
    of_batch: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now = [0.0]
    monkeypatch.setattr(pause, "time", SimpleNamespace(monotonic=time.monotonic, time=lambda: now[0]))
    options = source_options("stomp://127.0.0.1", "/queue/a")
    settings = ReceiverSettings("q#0", ("/queue/a",), options, of_batch=of_batch)
    deliveries = Deliveries(len(FRAME), Log(DedupIndex()), "q#0")
    deliveries.connected(keyed=False)
    block = MessageBlock(FRAME, [len(FRAME)], [b"1"], [None])
    deliveries.receive(block, received_at=0, version="1.2", dialect="")
    reader = BoundedReader(settings, deliveries, lambda: None, threading.Event())
    connection = cast(Connection, SimpleNamespace(ended=False, rested=0.0, rest=lambda timeout: []))
    for now[0] in (0.0, 2.0):
        reader.poll(connection, 1.0)
    assert reader.paused_since == 0.0
    assert ("raise maxBufferedBytes" in caplog.text) is not of_batch
